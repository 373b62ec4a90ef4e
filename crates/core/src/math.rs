//! Transcendental functions with the same bits on every machine: libm's, never the platform's.

#[inline]
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}
#[inline]
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}
#[inline]
pub fn log2(x: f64) -> f64 {
    libm::log2(x)
}
#[inline]
pub fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}
#[inline]
pub fn cbrt(x: f64) -> f64 {
    libm::cbrt(x)
}
#[inline]
pub fn cos(x: f64) -> f64 {
    libm::cos(x)
}
/// A log-normal factor with mean 1 and this coefficient of variation, from a standard normal variate.
pub fn lognormal(cv: f64, variate: f64) -> f64 {
    let variance = ln(1.0 + cv * cv);
    exp(variance.sqrt() * variate - variance / 2.0)
}
/// The part of the standard normal distribution below `x`.
#[inline]
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}
