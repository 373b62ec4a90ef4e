//! Random processes of media.

use crate::math;
use crate::rng::Rng;
use crate::time::Span;

/// A normal deviate with mean 0 and variance 1 (Box and Muller, 1958; one of the two is used).
pub fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * math::ln(1.0 - rng.unit())).sqrt();
    radius * math::cos(std::f64::consts::TAU * rng.unit())
}

/// An exponential time of this mean.
pub fn exponential(rng: &mut Rng, mean: Span) -> Span {
    Span((-math::ln(1.0 - rng.unit()) * mean.0 as f64) as u64)
}

/// A log-normal factor with mean 1 and a coefficient of variation, from a normal deviate.
pub fn factor(cv: f64, deviate: f64) -> f64 {
    let s2 = math::ln(1.0 + cv * cv);
    math::exp(s2.sqrt() * deviate - s2 / 2.0)
}

/// A Gaussian process in steps, stationary with mean 0, variance 1 and autocorrelation exp(-t/tau).
#[derive(Copy, Clone, Debug)]
pub struct Ar1 {
    pub deviate: f64,
}

impl Ar1 {
    pub fn new(rng: &mut Rng) -> Ar1 {
        Ar1 { deviate: normal(rng) }
    }
    pub fn step(&mut self, rng: &mut Rng, step: Span, tau: Span) {
        let a = math::exp(-(step.0 as f64) / tau.0 as f64);
        self.deviate = a * self.deviate + (1.0 - a * a).sqrt() * normal(rng);
    }
}
