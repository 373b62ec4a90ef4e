//! DOCSIS-PIE (RFC 8034, Appendix A): the controller behind the classic queue of a cable modem.
//!
//! Every 16 ms the drop probability moves by A (qdelay - target) + B (change of qdelay), divided by a
//! tuning factor that grows as the probability sinks. Packets are dropped on arrival, in proportion
//! to their size, and neither too soon after the last drop nor too late.
//!
//! It sleeps until the queue was once a third of its buffer. The first drop after that opens 142 ms
//! without any (burst protection); a second of quiet puts it to sleep again.

use crate::rng::Rng;
use crate::time::Span;

/// RFC 8034, A.1.2. The gains are in Hz.
pub const INTERVAL: Span = Span::from_millis(16);
const A: f64 = 0.25;
const B: f64 = 2.5;
const MAX_BURST: Span = Span::from_millis(142);
const BURST_RESET_TIMEOUT: Span = Span::from_secs(1);
const MEAN_PKTSIZE: u32 = 1024;
const MIN_PKTSIZE: u32 = 64;
const PROB_LOW: f64 = 0.85;
const PROB_HIGH: f64 = 8.5;
const LATENCY_LOW: Span = Span::from_millis(5);
const LATENCY_HIGH: Span = Span::from_millis(200);
/// The largest step up once the probability is 10 %, and what a delay above LATENCY_HIGH adds.
const MAX_STEP: f64 = 0.02;
const DECAY: f64 = 0.98;
/// Of a packet of MEAN_PKTSIZE; the shortest packet is then dropped with PROB_LOW.
const MAX_PROB: f64 = PROB_LOW * MEAN_PKTSIZE as f64 / MIN_PKTSIZE as f64;
/// Below this probability, this divisor of the step. Above all of them, [`LEAST_DIVISOR`].
const TUNING: [(f64, f64); 8] = [
    (0.000_001, 2048.0),
    (0.000_01, 512.0),
    (0.000_1, 128.0),
    (0.001, 32.0),
    (0.01, 8.0),
    (0.1, 2.0),
    (1.0, 0.5),
    (10.0, 0.125),
];
const LEAST_DIVISOR: f64 = 0.031_25;

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum State {
    /// The queue stayed below a third of its buffer: no drops.
    Inactive,
    /// The next drop starts the burst protection.
    Quiescent,
    Active,
}

/// The controller. It is told the queue's delay and backlog, and answers whether to drop.
#[derive(Clone, Debug)]
pub struct DocsisPie {
    target: Span,
    /// BUFFER_SIZE, bytes.
    buffer: u64,
    /// Of a packet of MEAN_PKTSIZE, 0 to 13.6.
    drop_prob: f64,
    /// Probability gathered since the last drop.
    accu_prob: f64,
    qdelay_old: Span,
    burst_allowance: Span,
    /// How long it has been quiet.
    burst_reset: Span,
    state: State,
}

impl DocsisPie {
    pub fn new(target: Span, buffer: u64) -> DocsisPie {
        DocsisPie {
            target,
            buffer,
            drop_prob: 0.0,
            accu_prob: 0.0,
            qdelay_old: Span::ZERO,
            burst_allowance: Span::ZERO,
            burst_reset: Span::ZERO,
            state: State::Inactive,
        }
    }

    /// Continues with another target and buffer.
    pub fn change(&mut self, target: Span, buffer: u64) {
        (self.target, self.buffer) = (target, buffer);
    }

    /// The control path, every [`INTERVAL`] (`calculate_drop_prob`).
    pub fn update(&mut self, qdelay: Span) {
        if self.burst_allowance > Span::ZERO {
            self.drop_prob = 0.0;
            self.burst_allowance = self.burst_allowance - INTERVAL;
        } else {
            self.drop_prob = self.next_drop_prob(qdelay);
        }
        let quiet = qdelay < self.target / 2
            && self.qdelay_old < self.target / 2
            && self.drop_prob == 0.0
            && self.burst_allowance == Span::ZERO;
        match self.state {
            State::Active if quiet => {
                self.state = State::Quiescent;
                self.burst_reset = Span::ZERO;
            }
            State::Quiescent if quiet => {
                self.burst_reset += INTERVAL;
                if self.burst_reset > BURST_RESET_TIMEOUT {
                    self.state = State::Inactive;
                }
            }
            State::Quiescent => self.burst_reset = Span::ZERO,
            State::Active | State::Inactive => {}
        }
        self.qdelay_old = qdelay;
    }

    fn next_drop_prob(&self, qdelay: Span) -> f64 {
        let p = self.drop_prob;
        let seconds_above = |other: Span| (qdelay.0 as f64 - other.0 as f64) * 1e-9;
        let step = A * seconds_above(self.target) + B * seconds_above(self.qdelay_old);
        let tuning = TUNING.iter().find(|(below, _)| p < *below);
        let mut step = step / tuning.map_or(LEAST_DIVISOR, |(_, divisor)| *divisor);
        if p >= 0.1 {
            step = step.min(MAX_STEP);
        }
        let next = p + step;
        let next = if qdelay < LATENCY_LOW && self.qdelay_old < LATENCY_LOW {
            next * DECAY
        } else if qdelay > LATENCY_HIGH {
            next + MAX_STEP
        } else {
            next
        };
        next.clamp(0.0, MAX_PROB)
    }

    /// The data path: is a packet of `bytes`, which finds `backlog` bytes, dropped? (`drop_early`)
    pub fn drop_early(&mut self, bytes: u32, backlog: u64, rng: &mut Rng) -> bool {
        if self.burst_allowance > Span::ZERO {
            return false;
        }
        if self.drop_prob == 0.0 {
            self.accu_prob = 0.0;
        }
        if self.state == State::Inactive {
            if backlog < self.buffer / 3 {
                return false;
            }
            self.state = State::Quiescent;
            self.burst_reset = Span::ZERO;
        }
        let p = self.drop_prob * f64::from(bytes) / f64::from(MEAN_PKTSIZE);
        let p = p.min(PROB_LOW);
        self.accu_prob += p;
        let short_delay = self.qdelay_old < self.target / 2 && self.drop_prob < 0.2;
        if short_delay || backlog <= 2 * u64::from(MEAN_PKTSIZE) || self.accu_prob < PROB_LOW {
            return false;
        }
        if self.accu_prob < PROB_HIGH && rng.unit() > p {
            return false;
        }
        self.accu_prob = 0.0;
        if self.state == State::Quiescent {
            self.state = State::Active;
            self.burst_allowance = MAX_BURST;
        }
        true
    }

    /// A packet was lost because the buffer was full.
    pub fn overflowed(&mut self) {
        self.accu_prob = 0.0;
    }

    pub fn drop_prob(&self) -> f64 {
        self.drop_prob
    }
    pub fn burst_allowance(&self) -> Span {
        self.burst_allowance
    }
}
