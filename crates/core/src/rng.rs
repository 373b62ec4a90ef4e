//! Seeded random streams. One seed per run; every element draws from a child stream of its own, so
//! that adding an element does not change what another one draws.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use crate::math;
use crate::time::Span;

/// The finaliser of MurmurHash3 spreads consecutive numbers over all bits.
#[inline]
pub fn spread(number: u32) -> u32 {
    let mut h = number.wrapping_add(0x9e37_79b9);
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

/// A stream of random numbers (xoshiro256++).
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// The stream called `name` of the run with this `seed`; `index` tells elements of one kind
    /// apart.
    pub fn stream(seed: u64, name: &str, index: u64) -> Rng {
        // FNV-1a spreads the name over 64 bits; seed_from_u64 (SplitMix64) then fills the state.
        let mut h = 0xcbf2_9ce4_8422_2325_u64;
        for b in name.bytes().chain(seed.to_le_bytes()).chain(index.to_le_bytes()) {
            h = (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        }
        Rng(Xoshiro256PlusPlus::seed_from_u64(h))
    }
    #[inline]
    pub fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }
    /// Uniform over all 32-bit numbers.
    #[inline]
    pub fn u32(&mut self) -> u32 {
        (self.0.next_u64() >> 32) as u32
    }
    /// Uniform in [0, 1) with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }
    /// A normal variate with mean 0 and variance 1 (Box and Muller, 1958; one of the two is used).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * math::ln(1.0 - self.unit())).sqrt();
        radius * math::cos(std::f64::consts::TAU * self.unit())
    }
    /// An exponential time of this mean.
    pub fn exponential(&mut self, mean: Span) -> Span {
        Span((-math::ln(1.0 - self.unit()) * mean.0 as f64) as u64)
    }
    /// Uniform in [0, n); 0 for n = 0. (Lemire's multiplication; the bias is below n/2^64.)
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }
}
