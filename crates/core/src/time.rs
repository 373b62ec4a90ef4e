//! Simulated time: instants ([`Time`]) and lengths of time ([`Span`]), both whole nanoseconds.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// An instant, in nanoseconds since the start of the run.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Time(pub u64);

/// A length of time in nanoseconds.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Span(pub u64);

impl Time {
    pub const ZERO: Time = Time(0);
    /// Later than anything that happens.
    pub const NEVER: Time = Time(u64::MAX);

    /// Time passed since `earlier`; zero if `earlier` lies in the future.
    #[inline]
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
    /// Microseconds since `earlier` on a clock of whole ones, as TCP's is (Linux `tcp_stamp_us_delta`).
    #[inline]
    pub const fn micros_since(self, earlier: Time) -> u64 {
        self.as_micros().saturating_sub(earlier.as_micros())
    }
    /// What a clock of whole microseconds shows.
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// The instant `span` later; never, if that is beyond all time.
    #[inline]
    pub const fn saturating_add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
    #[inline]
    pub const fn saturating_sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }
}

impl Span {
    pub const ZERO: Span = Span(0);

    pub const fn from_secs(s: u64) -> Span {
        Span(s * 1_000_000_000)
    }
    pub const fn from_millis(ms: u64) -> Span {
        Span(ms * 1_000_000)
    }
    pub const fn from_micros(us: u64) -> Span {
        Span(us * 1_000)
    }
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }
    #[inline]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 * 1e-6
    }
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
}

impl Add<Span> for Time {
    type Output = Time;
    #[inline(always)]
    fn add(self, s: Span) -> Time {
        Time(self.0 + s.0)
    }
}
impl AddAssign<Span> for Time {
    #[inline]
    fn add_assign(&mut self, s: Span) {
        *self = *self + s;
    }
}
impl Add for Span {
    type Output = Span;
    #[inline(always)]
    fn add(self, s: Span) -> Span {
        Span(self.0 + s.0)
    }
}
impl AddAssign for Span {
    #[inline]
    fn add_assign(&mut self, s: Span) {
        *self = *self + s;
    }
}
impl Sub for Span {
    type Output = Span;
    /// Saturates at zero.
    #[inline]
    fn sub(self, s: Span) -> Span {
        Span(self.0.saturating_sub(s.0))
    }
}
impl Mul<u64> for Span {
    type Output = Span;
    #[inline(always)]
    fn mul(self, k: u64) -> Span {
        Span(self.0 * k)
    }
}
impl Div<u64> for Span {
    type Output = Span;
    #[inline]
    fn div(self, k: u64) -> Span {
        Span(self.0 / k)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t={:.9}s", self.as_secs_f64())
    }
}
impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.9}s", self.as_secs_f64())
    }
}
