//! What the versions of BBR have in common: the arithmetic between rate, RTT and window, the pacing
//! rate, and the aggregation of ACKs.
//!
//! Rates are segments per microsecond with 24 fractional bits, gains have eight.

use crate::cc::{Ack, INITIAL_WINDOW, Window};
use crate::time::{Span, Time};

pub const RATE_BITS: u32 = 24;
pub const GAIN_BITS: u32 = 8;
pub const ONE: u32 = 1 << GAIN_BITS;

/// The window of a smallest RTT, and how long it is probed for.
pub const MIN_RTT_WINDOW: Span = Span::from_secs(10);
pub const PROBE_RTT_TIME: Span = Span::from_millis(200);
/// The least window: two segments per delayed ACK, twice.
pub const MIN_CWND: u32 = 4;
/// The pipe is full when the rate no longer grows by a quarter within so many rounds.
pub const FULL_RATE_GAIN: u32 = ONE * 5 / 4;
pub const FULL_RATE_ROUNDS: u32 = 3;
/// A burst is a millisecond at the pacing rate, 64 KB less headers at most.
pub const BURST_SHIFT: u32 = 10;
pub const BURST_MAX: u64 = 65_535 - 320;
/// Pacing stays 1 % below the estimate.
const PACING_PERCENT: u64 = 99;
/// Aggregation of ACKs: excess over the model within five to ten rounds, 100 ms of rate at most.
pub const EXTRA_ACKED_ROUNDS: u32 = 5;
const EXTRA_ACKED_MAX_US: u64 = 100_000;
const EPOCH_ACKED_MAX: u32 = 1 << 20;

/// Bytes of payload per second at `gain` times the rate, less the margin.
pub fn pacing_bytes(rate: u64, gain: u32, w: &Window) -> u64 {
    let scaled = (rate * u64::from(w.mss) * u64::from(gain)) >> GAIN_BITS;
    ((u128::from(scaled) * u128::from(10_000 * PACING_PERCENT)) >> RATE_BITS) as u64
}

/// `gain` times the product of rate and RTT, rounded up.
pub fn bdp(rate: u32, min_rtt_us: u32, gain: u32) -> u32 {
    if min_rtt_us == u32::MAX {
        return INITIAL_WINDOW;
    }
    let product = u64::from(rate) * u64::from(min_rtt_us);
    let scaled = ((u128::from(product) * u128::from(gain)) >> GAIN_BITS) as u64;
    scaled.div_ceil(1 << RATE_BITS) as u32
}

/// What of `in_flight`, with the burst that comes next, will be in the network when the pacing clock
/// lets it go.
pub fn in_network(in_flight: u32, burst: u32, rate: u32, ack: &Ack) -> u32 {
    let wait = ack.pacing.next_departure.since(ack.now).as_micros();
    let delivered = (u64::from(rate) * wait) >> RATE_BITS;
    (u64::from(in_flight) + u64::from(burst)).saturating_sub(delivered) as u32
}

/// The pacing rate: never lowered before the pipe is full.
#[derive(Clone, Debug)]
pub struct Pacing {
    pub rate: u64,
    startup_gain: u32,
    saw_rtt: bool,
}

impl Pacing {
    pub fn new(startup_gain: u32) -> Pacing {
        Pacing { rate: 0, startup_gain, saw_rtt: false }
    }
    /// From the window, before there is a rate; 1 ms stands for an RTT not yet known.
    pub fn start(&mut self, srtt_us: u32, w: &Window) {
        self.saw_rtt |= srtt_us > 0;
        let rtt = if srtt_us > 0 { srtt_us } else { 1000 };
        let rate = (u64::from(w.cwnd) << RATE_BITS) / u64::from(rtt);
        self.rate = pacing_bytes(rate, self.startup_gain, w);
    }
    pub fn set(&mut self, rate: u32, gain: u32, full: bool, ack: &Ack, w: &Window) {
        if !self.saw_rtt && ack.rtt.srtt8 > 0 {
            self.start(ack.rtt.srtt_us(), w);
        }
        self.change(rate, gain, full, w);
    }
    pub fn change(&mut self, rate: u32, gain: u32, full: bool, w: &Window) {
        let paced = pacing_bytes(u64::from(rate), gain, w);
        if full || paced > self.rate {
            self.rate = paced;
        }
    }
}

/// How much more than the model expects is acknowledged at once.
#[derive(Clone, Debug, Default)]
pub struct Aggregation {
    pub since: Time,
    acked: u32,
    extra: [u32; 2],
    age: u32,
    slot: usize,
}

impl Aggregation {
    /// What comes together is counted anew.
    pub fn restart(&mut self, now: Time) {
        self.since = now;
        self.acked = 0;
    }
    /// A half of the window of maxima is kept for `rounds`.
    pub fn update(&mut self, round_start: bool, rounds: u32, rate: u32, ack: &Ack, w: &Window) {
        if ack.acked == 0 || ack.rate.interval == Span::ZERO {
            return;
        }
        if round_start {
            self.age += 1;
            if self.age >= rounds {
                self.age = 0;
                self.slot ^= 1;
                self.extra[self.slot] = 0;
            }
        }
        let us = ack.now.micros_since(self.since);
        let mut expected = ((u64::from(rate) * us) >> RATE_BITS) as u32;
        if self.acked <= expected || self.acked + ack.acked >= EPOCH_ACKED_MAX {
            self.acked = 0;
            self.since = ack.now;
            expected = 0;
        }
        self.acked += ack.acked;
        let extra = (self.acked - expected).min(w.cwnd);
        self.extra[self.slot] = self.extra[self.slot].max(extra);
    }
    /// Segments to allow for it at this rate.
    pub fn allowance(&self, rate: u32) -> u32 {
        let most = (u64::from(rate) * EXTRA_ACKED_MAX_US) >> RATE_BITS;
        u64::from(self.extra[0].max(self.extra[1])).min(most) as u32
    }
}
