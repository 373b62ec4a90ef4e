//! Events at random, each of which begins flows that live for a fixed time: the short flows of background traffic.
//!
//! Events are a Poisson process, and the number of flows of an event has a Poisson distribution. When flows begin is drawn
//! from a stream of the group's own: in all runs of one seed it is the same, whatever the queue.

use serde::Deserialize;

use super::poisson::Poisson;
use crate::rng::Rng;
use crate::time::{Span, Time};

/// The events of a flow group.
#[derive(Copy, Clone, PartialEq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Events {
    /// Mean time between two.
    pub interval_ns: u64,
    /// Mean number of flows that an event begins: none counts as one, more than `most` as `most`.
    pub flows: f64,
    pub most: u32,
    /// They begin within this time of the event, each at random.
    pub within_ns: u64,
    /// How long each of them sends.
    pub life_ns: u64,
}

/// The largest mean number of flows of an event.
pub const MOST_FLOWS: f64 = 1000.0;

impl Events {
    /// The mistake, if there is one.
    pub fn check(&self) -> Result<(), &'static str> {
        match self {
            e if e.interval_ns == 0 || e.life_ns == 0 => {
                Err("the time between events and the life of their flows must be above 0")
            }
            e if !(e.flows > 0.0 && e.flows <= MOST_FLOWS && e.most > 0) => Err(
                "an event begins more than 0 and at most 1000 flows on average, and at most one or more",
            ),
            _ => Ok(()),
        }
    }

    /// When each flow of the group with this `name` begins and stops, in the order of their beginning, of events
    /// between `start` and `stop`.
    pub fn lives(&self, seed: u64, name: &str, start: Time, stop: Time) -> Vec<(Time, Time)> {
        let stream = |what: &str| Rng::stream(seed, &format!("{what} {name}"), 0);
        let mut events = Poisson::new(Span(self.interval_ns), stream("events"), start, stop);
        let mut rng = stream("flows of events");
        let mut lives = Vec::new();
        while events.next() < Time::NEVER {
            let at = events.next();
            events.advance(at);
            let count = poisson(self.flows, &mut rng).clamp(1, self.most);
            for _ in 0..count {
                let begin = at + Span(rng.below(self.within_ns));
                if begin < stop {
                    lives.push((begin, (begin + Span(self.life_ns)).min(stop)));
                }
            }
        }
        lives.sort_unstable();
        lives
    }
}

/// A number with a Poisson distribution: of events in a time of `mean` at one per unit of time.
fn poisson(mean: f64, rng: &mut Rng) -> u32 {
    const UNIT: Span = Span(1_000_000_000);
    let end = Span((mean * UNIT.0 as f64) as u64);
    let (mut count, mut time) = (0, rng.exponential(UNIT));
    while time < end {
        count += 1;
        time += rng.exponential(UNIT);
    }
    count
}

/// How many of these lives overlap at most.
pub fn most_at_once(lives: &[(Time, Time)]) -> usize {
    let mut ends: Vec<Time> = lives.iter().map(|(_, end)| *end).collect();
    ends.sort_unstable();
    let gone = |begin: Time| ends.partition_point(|end| *end <= begin);
    let alive = lives.iter().enumerate().map(|(i, (begin, _))| i + 1 - gone(*begin));
    alive.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAVY: Events = Events {
        interval_ns: 100_000_000,
        flows: 5.5,
        most: 25,
        within_ns: 500_000_000,
        life_ns: 4_800_000_000,
    };

    /// 20 000 s bring 200 000 events. Their number has a standard deviation of 447, and their 1.1 million flows one of
    /// 447 * 5.5 and 447 * sqrt(5.5), together 2672; the bounds are more than six of these. With none counting as one
    /// the mean is 5.5 + exp(-5.5).
    #[test]
    fn flows_come_at_the_mean_rate() {
        let seconds = 20_000.0;
        let end = Time((seconds * 1e9) as u64);
        let lives = HEAVY.lives(1, "short", Time::ZERO, end);
        let mean = seconds * 10.0 * (5.5 + crate::math::exp(-5.5));
        assert!((lives.len() as f64 - mean).abs() < 6.5 * 2672.0, "{} of {mean}", lives.len());
        assert!(lives.iter().all(|(begin, stop)| *stop == (*begin + Span(4_800_000_000)).min(end)));
        assert!(lives.is_sorted());
    }

    /// Mean and variance of the Poisson distribution are alike. Over 10^6 numbers the mean has a standard deviation of
    /// 0.0023, the variance one of 0.0081.
    #[test]
    fn the_flows_of_an_event_have_a_poisson_distribution() {
        let mut rng = Rng::stream(3, "test", 0);
        let counts: Vec<f64> = (0..1_000_000).map(|_| f64::from(poisson(5.5, &mut rng))).collect();
        let mean = counts.iter().sum::<f64>() / 1e6;
        let variance = counts.iter().map(|n| (n - mean) * (n - mean)).sum::<f64>() / 1e6;
        assert!((mean - 5.5).abs() < 0.016, "{mean}");
        assert!((variance - 5.5).abs() < 0.055, "{variance}");
    }

    /// With one event and no time to spread its flows they begin together, and no more than the most.
    #[test]
    fn an_event_has_at_least_one_flow_and_at_most_the_most() {
        let lone = Events { interval_ns: 1_000_000_000, within_ns: 0, ..HEAVY };
        for (flows, most, counts) in [(1000.0, 25, 25..=25), (1e-9, 25, 1..=1), (2.0, 3, 1..=3)] {
            let lives =
                Events { flows, most, ..lone }.lives(5, "x", Time::ZERO, Time(200_000_000_000));
            assert!(lives.len() > 100);
            let events = lives.chunk_by(|a, b| a.0 == b.0);
            assert!(events.map(<[_]>::len).all(|count| counts.contains(&count)), "{flows}");
        }
    }

    #[test]
    fn lives_that_overlap_are_counted() {
        let lives = [(0, 10), (5, 15), (10, 12), (11, 13), (20, 21)];
        let lives = lives.map(|(begin, end)| (Time(begin), Time(end)));
        assert_eq!((most_at_once(&lives), most_at_once(&[])), (3, 0));
    }
}
