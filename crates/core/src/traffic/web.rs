//! Web load: clients that ask a server for something, each over a TCP connection of its own.
//!
//! Open loop: requests come as a Poisson process, whatever became of those before. What a server sends
//! has a bounded Pareto size, and then it closes. When requests come and how much they get is drawn from
//! streams of the source's own: in all runs of one seed it is the same, whatever the queue.

use super::poisson::Poisson;
use crate::cc::INITIAL_WINDOW;
use crate::math;
use crate::packet::GroupId;
use crate::rng::Rng;
use crate::scenario::FlowSpec;
use crate::time::Span;
use crate::units::Rate;

/// The sizes of web objects in the DualQ evaluations ("Dual Queue Coupled AQM", section V).
pub const ALPHA: f64 = 0.9;
pub const SMALLEST: u64 = 1_000;
pub const LARGEST: u64 = 1_000_000;

/// The Pareto distribution between two bounds.
#[derive(Copy, Clone, Debug)]
pub struct BoundedPareto {
    pub alpha: f64,
    pub smallest: u64,
    pub largest: u64,
}

impl BoundedPareto {
    /// The value below which the part `u` of all values is.
    pub fn quantile(&self, u: f64) -> u64 {
        let (low, high) = (self.smallest as f64, self.largest as f64);
        let tail = 1.0 - math::pow(low / high, self.alpha);
        let x = low * math::pow(1.0 - u * tail, -1.0 / self.alpha);
        (x.round() as u64).clamp(self.smallest, self.largest)
    }
}

/// A source of requests.
pub struct Web {
    pub group: GroupId,
    /// What each connection is like.
    pub spec: FlowSpec,
    pub requests: Poisson,
    sizes: BoundedPareto,
    rng: Rng,
}

impl Web {
    /// The source number `index` of a group.
    pub fn new(seed: u64, spec: &FlowSpec, group: GroupId, index: u64) -> Web {
        let stream = |what: &str| Rng::stream(seed, &format!("{what} {}", spec.name), index);
        let mean = Span(spec.interval_ns.unwrap_or(u64::MAX));
        Web {
            group,
            requests: Poisson::new(mean, stream("web requests")),
            sizes: spec.sizes(),
            rng: stream("web sizes"),
            spec: spec.clone(),
        }
    }
    /// Bytes that the next request asks for.
    pub fn size(&mut self) -> u64 {
        self.sizes.quantile(self.rng.unit())
    }
}

/// How soon `segments` could be delivered from the start of the first on, if nothing but slow start and
/// the rate limited them: a window of ten segments, which doubles each round trip until it fills the
/// path. `frame` bytes each; the shaper lets `burst` bytes and one more packet go at once.
pub fn ideal_transfer(segments: u64, frame: u64, rtt: Span, rate: Rate, burst: u64) -> Span {
    let mut window = u64::from(INITIAL_WINDOW);
    let (mut left, mut begun) = (segments.max(1), Span::ZERO);
    while left > window && rate.time_for(frame * window) <= rtt {
        begun += rtt;
        left -= window;
        window *= 2;
    }
    begun + rate.time_for((frame * (left - 1)).saturating_sub(burst))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: BoundedPareto =
        BoundedPareto { alpha: ALPHA, smallest: SMALLEST, largest: LARGEST };

    /// The distribution function of the bounded Pareto distribution, written down apart.
    fn below(x: f64) -> f64 {
        (1.0 - math::pow(1e3 / x, 0.9)) / (1.0 - math::pow(1e-3, 0.9))
    }

    #[test]
    fn quantiles_invert_the_distribution() {
        assert_eq!((SIZES.quantile(0.0), SIZES.quantile(1.0)), (1_000, 1_000_000));
        for u in [0.01, 0.25, 0.5, 0.9, 0.99, 0.999] {
            let x = SIZES.quantile(u);
            assert!((below(x as f64) - u).abs() < 1e-3, "{u}: {x}");
        }
        assert_eq!(SIZES.quantile(0.5), 2155);
    }

    /// Mean 8975 B, 90 % below 12.7 kB, 99 % below 136.5 kB (the published files of samples have 141 kB),
    /// 99.9 % below 637 kB; and the mean by its integral, alpha L^alpha (H^(1-alpha) - L^(1-alpha)) /
    /// ((1-alpha)(1 - (L/H)^alpha)).
    #[test]
    fn sizes_have_the_moments_of_the_published_load() {
        let mut rng = Rng::stream(7, "sizes", 0);
        let n = 4_000_000;
        let mut sizes: Vec<u64> = (0..n).map(|_| SIZES.quantile(rng.unit())).collect();
        sizes.sort_unstable();
        let mean = sizes.iter().sum::<u64>() as f64 / f64::from(n);
        let pow = math::pow;
        let integral =
            0.9 * pow(1e3, 0.9) * (pow(1e6, 0.1) - pow(1e3, 0.1)) / (0.1 * (1.0 - pow(1e-3, 0.9)));
        assert!((integral - 8975.0).abs() < 1.0, "{integral}");
        assert!((mean / integral - 1.0).abs() < 0.01, "{mean}");
        let at = |q: f64| sizes[(q * f64::from(n)) as usize] as f64;
        for (q, size) in [(0.5, 2155.0), (0.9, 12_700.0), (0.99, 136_500.0), (0.999, 637_000.0)] {
            assert!((at(q) / size - 1.0).abs() < 0.02, "{q}: {}", at(q));
        }
    }

    #[test]
    fn ideal_times_by_hand() {
        let (rtt, rate) = (Span::from_millis(10), Rate::from_bps(12_000_000)); // 1 ms per 1500 B
        let ms = |segments| ideal_transfer(segments, 1500, rtt, rate, 0).as_millis_f64();
        assert_eq!((ms(1), ms(10)), (0.0, 9.0));
        // Ten segments fill 10 ms exactly.
        assert_eq!((ms(11), ms(30), ms(31)), (10.0, 29.0, 30.0));
        // At 100 ms, windows of 10, 20, 40 and 80; the next one fills the path.
        let ms = |segments| {
            ideal_transfer(segments, 1500, Span::from_millis(100), rate, 0).as_millis_f64()
        };
        assert_eq!((ms(10), ms(11), ms(30), ms(31), ms(70)), (9.0, 100.0, 119.0, 200.0, 239.0));
        assert_eq!(
            (ms(71), ms(150), ms(151), ms(310), ms(400)),
            (300.0, 379.0, 400.0, 559.0, 649.0)
        );
        // The bucket holds one packet: the second leaves with the first.
        assert_eq!(ideal_transfer(3, 1500, rtt, rate, 1500), Span::from_millis(1));
    }
}
