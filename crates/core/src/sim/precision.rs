//! Ends a run when its results are as precise as its description asks.
//!
//! The measured interval is divided into batches of equal length, and a row's value is a ratio of sums over them. If
//! the batches are independent, the spread of their deviations gives a confidence interval (G. S. Fishman, "Grouping
//! observations in digital simulation", Management Science 24, 1978). A sawtooth correlates over many round trips, so
//! the batches double in length each time there are `2 * BATCHES`, and a run ends only while neighbours do not correlate.
//! How often the interval has the true mean is measured (`docs/precision.py`).

use super::Simulation;
use super::accounts::Group;
use super::recording::Recording;
use crate::net::link::{ALL, Link};
use crate::net::tap::Tap;
use crate::scenario::{PreciseColumn, Precision};
use crate::time::{Span, Time};

/// From so many batches on, the run may end.
const BATCHES: usize = 32;
/// The interval is the widest of those from the batches, from their pairs and from the pairs of these.
const JOINED: u32 = 2;
const FIRST_BATCH: Span = Span::from_secs(1);

/// What is known of a column's rows: those of `flows`, or of the links in `links`.
pub(super) struct Estimate {
    wanted: Precision,
    rows: Vec<Row>,
    /// When the run ended.
    ended: Time,
    is_reached: bool,
}

/// Numerator and denominator of a ratio.
type Sums = (f64, f64);

#[derive(Default)]
struct Row {
    /// Up to the end of the last batch.
    so_far: Sums,
    batches: Vec<Sums>,
}

impl Estimate {
    pub fn new(wanted: Precision) -> Estimate {
        Estimate { wanted, rows: Vec::new(), ended: Time::ZERO, is_reached: false }
    }

    /// Tells the rows of the recording what was reached.
    pub fn close(&self, recording: &mut Recording) {
        for flow in &mut recording.flows {
            (flow.ended_s, flow.is_precise) =
                (Some(self.ended.as_secs_f64()), Some(self.is_reached));
        }
        let of_flows = recording.flows.iter_mut().map(|flow| &mut flow.half_width);
        let whole = recording.links.iter_mut().filter(|link| link.queue == ALL);
        let of_links = whole.map(|link| &mut link.half_width);
        let half_widths = self.rows.iter().map(|row| Some(interval(&row.batches)?.half_width));
        match matches!(self.wanted.column, PreciseColumn::Utilisation) {
            true => of_links.zip(half_widths).for_each(|(place, value)| *place = value),
            false => of_flows.zip(half_widths).for_each(|(place, value)| *place = value),
        }
    }

    /// Takes a batch of each row. Returns how many there are.
    fn add(&mut self, sums: Vec<Sums>) -> usize {
        self.rows.resize_with(sums.len(), Row::default);
        for (row, now) in self.rows.iter_mut().zip(sums) {
            row.batches.push((now.0 - row.so_far.0, now.1 - row.so_far.1));
            row.so_far = now;
        }
        self.rows.first().map_or(0, |row| row.batches.len())
    }

    fn join_pairs(&mut self) {
        for row in &mut self.rows {
            row.batches = pairs(&row.batches).map(|(a, b)| (a.0 + b.0, a.1 + b.1)).collect();
        }
    }

    /// Each interval is narrow enough, and over all rows neighbouring batches do not correlate.
    fn is_precise(&self) -> bool {
        let intervals = || self.rows.iter().filter_map(|row| interval(&row.batches));
        intervals().all(|one| one.half_width <= self.wanted.half_width)
            && intervals().map(|one| one.correlation).sum::<f64>() <= 0.0
    }
}

struct Interval {
    half_width: f64,
    /// Of neighbouring batches.
    correlation: f64,
}

/// The confidence interval of a ratio, if it has a value.
fn interval(batches: &[Sums]) -> Option<Interval> {
    let (sum, whole) = batches.iter().fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
    if batches.len() < BATCHES || whole <= 0.0 {
        return None;
    }
    let (ratio, mean) = (sum / whole, whole / batches.len() as f64);
    let mut deviations: Vec<f64> = batches.iter().map(|(a, b)| (a - ratio * b) / mean).collect();
    let neighbours: f64 = deviations.windows(2).map(|two| two[0] * two[1]).sum();
    let squares: f64 = deviations.iter().map(|d| d * d).sum();
    let correlation = if squares > 0.0 { neighbours / squares } else { 0.0 };
    let mut widest = half_width(&deviations);
    for _ in 0..JOINED {
        deviations = pairs(&deviations).map(|(a, b)| (a + b) / 2.0).collect();
        widest = widest.max(half_width(&deviations));
    }
    Some(Interval { half_width: widest, correlation })
}

/// The last ones; an odd first one is left out.
fn pairs<N: Copy>(all: &[N]) -> impl Iterator<Item = (N, N)> {
    all[all.len() % 2..].chunks_exact(2).map(|two| (two[0], two[1]))
}

/// Of the 95 % interval of a mean, from the deviations of independent values.
fn half_width(deviations: &[f64]) -> f64 {
    let n = deviations.len() as f64;
    let squares: f64 = deviations.iter().map(|d| d * d).sum();
    student(n - 1.0) * (squares / (n - 1.0) / n).sqrt()
}

/// The 97.5 % quantile of Student's t, to 0.001 from 6 degrees of freedom on (M. Abramowitz, I. Stegun, "Handbook of
/// mathematical functions", 26.7.5).
fn student(freedom: f64) -> f64 {
    let terms = [1.589_534, 2.555_850, 2.822_498, 2.372_271];
    terms.iter().fold(0.0, |sum, term| (sum + term) / freedom) + 1.959_964
}

impl<T: Tap> Simulation<T> {
    /// Runs to the end, or until its results are as precise as wanted. Returns the time.
    pub fn run_to_end(&mut self) -> Time {
        let Some(mut estimate) = self.estimate.take() else {
            self.run_until(self.end);
            return self.end;
        };
        let (mut now, mut batch) = (self.warmup, FIRST_BATCH);
        while !estimate.is_reached && now + batch <= self.end {
            now += batch;
            self.run_until(now);
            let count = estimate.add(self.sums(estimate.wanted.column, now));
            if count == 2 * BATCHES {
                estimate.join_pairs();
                batch += batch;
            }
            estimate.is_reached = count >= BATCHES && estimate.is_precise();
        }
        if !estimate.is_reached {
            now = self.end;
            self.run_until(now);
        }
        estimate.ended = now;
        self.estimate = Some(estimate);
        now
    }

    /// Of each row of a column, the sums whose ratio it is, since measuring began.
    fn sums(&self, column: PreciseColumn, now: Time) -> Vec<Sums> {
        let seconds = now.since(self.warmup).as_secs_f64();
        let received = || self.groups.iter().map(|g| self.goodputs(&g.accounts).sum::<f64>());
        match column {
            PreciseColumn::Share => {
                let total = received().sum();
                received().map(|bytes| (bytes, total)).collect()
            }
            PreciseColumn::GoodputMbps => received().map(|bytes| (bytes * 8e-6, seconds)).collect(),
            PreciseColumn::SojournMsMean => self.groups.iter().map(|g| self.waited(g)).collect(),
            PreciseColumn::Utilisation => {
                let of_link = |link: &Link| {
                    let all = &link.report(now)[0];
                    (all.counts.sent_bytes as f64 * 8.0, all.capacity_bits)
                };
                self.network.links().map(of_link).collect()
            }
        }
    }

    /// The time that a group's packets spent in queues, and their number.
    fn waited(&self, group: &Group) -> Sums {
        let last = self.network.link(group.first_and_last.1);
        let each = group.accounts.iter().filter_map(|account| last?.sojourn(*account));
        each.fold((0.0, 0.0), |all, one| {
            (all.0 + one.sum_ns() as f64 * 1e-6, all.1 + one.count() as f64)
        })
    }
}
