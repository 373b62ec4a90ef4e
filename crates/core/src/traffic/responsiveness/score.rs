//! From round trips to a number: trimmed means over the last intervals, and when a series is stable.

use std::collections::VecDeque;

use crate::probe::Responsiveness;

/// Intervals of a moving average (the draft's MAD).
pub const AVERAGED: usize = 4;
/// Part of the newest average below which the deviation of the last ones has to be (SDT).
const STABLE: f64 = 0.05;
/// Part of the round trips that counts, from the shortest.
const KEPT: f64 = 0.95;
const MS_PER_MINUTE: f64 = 60_000.0;

/// What a round trip was for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Trip {
    Tcp,
    Tls,
    Http,
    /// A request on a load connection.
    Own,
}
const TRIPS: usize = 4;

/// Round trips in milliseconds, by what they were for.
#[derive(Clone, Debug, Default)]
pub struct Trips([Vec<f64>; TRIPS]);

impl Trips {
    pub fn add(&mut self, trip: Trip, ms: f64) {
        self.0[trip as usize].push(ms);
    }
    pub fn extend(&mut self, others: &Trips) {
        self.0.iter_mut().zip(&others.0).for_each(|(all, other)| all.extend(other));
    }
    /// Mean of the shortest 95 %.
    fn trimmed(&self, trip: Trip) -> Option<f64> {
        let sorted = self.sorted(trip);
        let kept = ((sorted.len() as f64 * KEPT) as usize).max(1).min(sorted.len());
        (kept > 0).then(|| sorted[..kept].iter().sum::<f64>() / kept as f64)
    }
    fn sorted(&self, trip: Trip) -> Vec<f64> {
        let mut sorted = self.0[trip as usize].clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted
    }
    /// The time that a part `q` of all requests on new connections did not exceed.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let sorted = self.sorted(Trip::Http);
        let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
        sorted.get(rank - 1).copied()
    }
    /// Round trips per minute on new connections, and on load connections.
    pub fn foreign(&self) -> Option<f64> {
        let [tcp, tls, http] = [Trip::Tcp, Trip::Tls, Trip::Http].map(|trip| self.trimmed(trip));
        Some(MS_PER_MINUTE / ((tcp? + tls? + http?) / 3.0))
    }
    pub fn own(&self) -> Option<f64> {
        Some(MS_PER_MINUTE / self.trimmed(Trip::Own)?)
    }
    pub fn rpm(&self) -> Option<f64> {
        Some((self.foreign()? + self.own()?) / 2.0)
    }
}

/// A series of values, one per interval.
#[derive(Clone, Debug, Default)]
pub struct Stability {
    values: VecDeque<f64>,
    averages: VecDeque<f64>,
}

impl Stability {
    /// Adds a value and says whether the moving averages no longer change.
    pub fn add(&mut self, value: f64) -> bool {
        let push = |list: &mut VecDeque<f64>, value: f64| {
            list.push_back(value);
            if list.len() > AVERAGED {
                list.pop_front();
            }
        };
        push(&mut self.values, value);
        push(&mut self.averages, mean(&self.values));
        let newest = self.averages.back().copied().unwrap_or_default();
        let middle = mean(&self.averages);
        let squares: f64 = self.averages.iter().map(|a| (a - middle) * (a - middle)).sum();
        let deviation = (squares / self.averages.len() as f64).sqrt();
        self.averages.len() == AVERAGED && newest > 0.0 && deviation < STABLE * newest
    }
}

fn mean(values: &VecDeque<f64>) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The result, from the idle path, the last intervals and how far the test came.
pub fn result(
    idle: &Trips,
    last: &Trips,
    active_mbps: Option<f64>,
    intervals: usize,
    is_stable: bool,
) -> Responsiveness {
    Responsiveness {
        active_mbps,
        rpm: last.rpm(),
        foreign: last.foreign(),
        own: last.own(),
        confidence: match (is_stable, intervals) {
            (true, _) => "high",
            (false, AVERAGED..) => "medium",
            (false, _) => "low",
        },
        idle_ms: idle.quantile(0.5),
        loaded_ms_p50: last.quantile(0.5),
        loaded_ms_p95: last.quantile(0.95),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean of the rates, not the rate of the mean.
    #[test]
    fn round_trips_per_minute() {
        let mut trips = Trips::default();
        assert_eq!((trips.rpm(), trips.foreign()), (None, None));
        for trip in [Trip::Tcp, Trip::Tls, Trip::Http] {
            trips.add(trip, 20.0);
        }
        trips.add(Trip::Own, 60.0);
        assert_eq!(trips.foreign(), Some(3000.0));
        assert_eq!(trips.own(), Some(1000.0));
        assert_eq!(trips.rpm(), Some(2000.0));
    }

    /// 100 round trips of which the five longest do not count.
    #[test]
    fn the_longest_five_percent_do_not_count() {
        let mut trips = Trips::default();
        (0..100).for_each(|n| trips.add(Trip::Own, if n % 20 == 7 { 1e6 } else { 30.0 }));
        assert_eq!(trips.own(), Some(2000.0));
        trips.add(Trip::Own, 1e6);
        assert_eq!(trips.own(), Some(2000.0));
        (0..20).for_each(|_| trips.add(Trip::Own, 1e6));
        assert!(trips.own() < Some(1.0));
    }

    /// Seven intervals at the least: the averages of four values, four times, unless they are alike from the start.
    #[test]
    fn a_series_is_stable_when_its_averages_are() {
        let mut even = Stability::default();
        assert_eq!([1.0; 5].map(|v| even.add(v)), [false, false, false, true, true]);
        let mut rising = Stability::default();
        // Averages of 70, 80, 80, 80 deviate by 5.4 % of the newest, four of 80 by nothing.
        let found = [10, 20, 40, 80, 80, 80, 80, 80, 80, 80].map(f64::from).map(|v| rising.add(v));
        assert_eq!(found.iter().position(|stable| *stable), Some(9));
    }
}
