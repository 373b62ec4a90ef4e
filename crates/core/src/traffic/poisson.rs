//! Events at random: exponential times between them.

use crate::rng::Rng;
use crate::time::{Span, Time};

/// A Poisson process, drawn from a stream of its own: when its events are depends on nothing else in
/// the run.
#[derive(Clone, Debug)]
pub struct Poisson {
    rng: Rng,
    mean: Span,
    next: Time,
    stop: Time,
}

impl Poisson {
    /// One event per `mean`, between `start` ([`Time::NEVER`]: not yet) and `stop`.
    pub fn new(mean: Span, rng: Rng, start: Time, stop: Time) -> Poisson {
        let mut poisson = Poisson { rng, mean, next: Time::NEVER, stop };
        if start < Time::NEVER {
            poisson.advance(start);
        }
        poisson
    }
    /// When the next event is.
    pub fn next(&self) -> Time {
        self.next
    }
    /// There is none any more.
    pub fn stop(&mut self) {
        (self.next, self.stop) = (Time::NEVER, Time::ZERO);
    }
    /// An event has happened.
    pub fn advance(&mut self, now: Time) {
        let next = now + self.rng.exponential(self.mean);
        self.next = if next < self.stop { next } else { Time::NEVER };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and standard deviation of an exponential time are alike, its median is ln 2 of them, and
    /// neighbours do not depend on each other.
    #[test]
    fn times_between_events_are_exponential() {
        let mean = Span::from_millis(10);
        let mut p = Poisson::new(mean, Rng::stream(1, "poisson", 0), Time::ZERO, Time::NEVER);
        let n = 200_000;
        let mut last = Time::ZERO;
        let mut waits = Vec::new();
        for _ in 0..n {
            let now = p.next();
            waits.push(now.since(last).0 as f64 / mean.0 as f64);
            last = now;
            p.advance(now);
        }
        let average = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / f64::from(n);
        assert!((average(&mut waits.iter().copied()) - 1.0).abs() < 0.01);
        assert!((average(&mut waits.iter().map(|w| (w - 1.0) * (w - 1.0))) - 1.0).abs() < 0.03);
        let below = average(&mut waits.iter().map(|w| f64::from(*w < std::f64::consts::LN_2)));
        assert!((below - 0.5).abs() < 0.005, "{below}");
        let products = waits.windows(2).map(|w| (w[0] - 1.0) * (w[1] - 1.0));
        assert!(average(&mut products.into_iter()).abs() < 0.01);
    }
}
