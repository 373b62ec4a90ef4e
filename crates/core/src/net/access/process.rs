//! Random processes of media.

use crate::math;
use crate::rng::Rng;
use crate::time::Span;

/// A Gaussian process in steps, stationary with mean 0, variance 1 and autocorrelation exp(-t/tau).
#[derive(Copy, Clone, Debug)]
pub struct Ar1 {
    pub deviate: f64,
}

impl Ar1 {
    pub fn new(rng: &mut Rng) -> Ar1 {
        Ar1 { deviate: rng.normal() }
    }
    pub fn step(&mut self, rng: &mut Rng, step: Span, tau: Span) {
        let a = math::exp(-(step.0 as f64) / tau.0 as f64);
        self.deviate = a * self.deviate + (1.0 - a * a).sqrt() * rng.normal();
    }
}
