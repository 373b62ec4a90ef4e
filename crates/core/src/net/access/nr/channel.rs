//! The random process of a user's channel: a factor of its rate.

use super::{Environment, NrConfig};
use crate::math;
use crate::net::access::Place;
use crate::net::access::process::Ar1;
use crate::rng::Rng;
use crate::time::{Span, Time};

/// Slots between two values of a process with memory.
const STEP_SLOTS: u64 = 10;

/// While driving: the rate of a cell lasts as long as a user stays in it (UCC-5G has a change each 34 s), the fast part is
/// what is gone after 0.1 s in mahimahi's traces, and an outage takes the timer of a radio link failure and the search for a
/// cell (TS 38.331, T310 and T311). How much they vary follows from the coefficient of variation of published drives, 1.98,
/// and 9 % of seconds without anything.
const CELLS: (f64, Span) = (1.7, Span::from_secs(34));
const SHADOWS: (f64, Span) = (0.35, Span::from_millis(100));
const GAPS: (f64, Span) = (0.125, Span::from_secs(3));

struct Process {
    cv: f64,
    tau: Span,
    state: Ar1,
}

struct Outages {
    mean: Span,
    clear: Span,
    from: Time,
    until: Time,
    rng: Rng,
}

/// It follows the time alone, not who is served when.
pub(super) struct Channel {
    rng: Rng,
    processes: Vec<Process>,
    is_rayleigh: bool,
    outages: Option<Outages>,
    step: Span,
    /// When the factor changes next.
    next: Time,
    factor: f64,
    last: f64,
}

impl Channel {
    pub(super) fn new(config: &NrConfig, place: &Place, user: u64) -> Channel {
        let second = Span::from_secs(1);
        let (ar1, fast, outages) = match config.place {
            Environment::Fixed | Environment::Rayleigh => (None, None, None),
            Environment::Static => (Some((0.3, second)), None, None),
            Environment::Walk => (Some((0.6, second * 2)), None, Some((0.005, second))),
            Environment::Drive => (Some(CELLS), Some(SHADOWS), Some(GAPS)),
        };
        let mut rng = place.stream("nr channel", user);
        let processes = [config.ar1.or(ar1), config.fast.or(fast)].into_iter().flatten();
        let processes =
            processes.map(|(cv, tau)| Process { cv, tau, state: Ar1::new(&mut rng) }).collect();
        let outages = config.outages.or(outages).map(|(part, mean)| {
            let clear = Span((mean.0 as f64 * (1.0 - part) / part) as u64);
            let mut rng = place.stream("nr outages", user);
            let from = Time::ZERO + rng.exponential(clear);
            Outages { mean, clear, from, until: from, rng }
        });
        let is_rayleigh = config.place == Environment::Rayleigh;
        let step = if is_rayleigh { config.slot() } else { config.slot() * STEP_SLOTS };
        let mut channel = Channel {
            rng,
            processes,
            is_rayleigh,
            outages: outages.map(Outages::began),
            step,
            next: Time::ZERO + step,
            factor: 1.0,
            last: 1.0,
        };
        channel.vary(false);
        channel.last = channel.factor;
        channel
    }
    fn vary(&mut self, moves: bool) {
        let mut all = if self.is_rayleigh { -math::ln(1.0 - self.rng.unit()) } else { 1.0 };
        for process in &mut self.processes {
            if moves {
                process.state.step(&mut self.rng, self.step, process.tau);
            }
            all *= math::lognormal(process.cv, process.state.deviate);
        }
        self.factor = all;
    }
    /// The last value that was looked at.
    pub(super) fn shown(&self) -> f64 {
        self.last
    }
    /// What the rate is multiplied by now.
    pub(super) fn at(&mut self, now: Time) -> f64 {
        if self.is_rayleigh || !self.processes.is_empty() {
            while self.next <= now {
                self.vary(true);
                self.next += self.step;
            }
        }
        let is_out = self.outages.as_mut().is_some_and(|outages| outages.is_at(now));
        self.last = if is_out { 0.0 } else { self.factor };
        self.last
    }
}

impl Outages {
    fn began(mut self) -> Outages {
        self.until = self.from + self.rng.exponential(self.mean);
        self
    }
    fn is_at(&mut self, now: Time) -> bool {
        while self.until <= now {
            self.from = self.until + self.rng.exponential(self.clear) + Span(1);
            self.until = self.from + self.rng.exponential(self.mean);
        }
        self.from <= now
    }
}
