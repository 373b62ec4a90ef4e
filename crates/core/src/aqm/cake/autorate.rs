//! `autorate-ingress`: the estimate of an unknown rate.

use crate::time::{Span, Time};

/// An exponentially weighted moving average that follows by 1/2^shift of the distance (Linux).
pub fn ewma(average: u64, sample: u64, shift: u32) -> u64 {
    average - (average >> shift) + (sample >> shift)
}

/// Once in this time the rate may be set, to 15/16 of what arrives (Linux).
const PAUSE: Span = Span::from_millis(250);
/// No gap counts as longer.
const LONGEST_GAP: Span = Span::from_secs(1);

/// The mean gap follows a shorter gap by 2^-8 of the difference, so in whole nanoseconds it would stop up to
/// 255 ns above. With these bits it comes to the nanosecond, and gaps that are all alike are as long as their
/// mean. (The kernel keeps whole nanoseconds, since its gaps are never alike.)
const GAP_BITS: u32 = 8;

/// The rate of arrivals between pauses, as far as it was the link before that
/// spaced them.
#[derive(Clone, Debug)]
pub struct Autorate {
    /// `None`: long ago, as on a machine that has been up for long (Linux begins all three with the boot).
    last_arrival: Option<Time>,
    /// Between packets, within bursts and beyond, in 2^-[`GAP_BITS`] ns.
    mean_gap: u64,
    window_begin: Option<Time>,
    window_bytes: u64,
    /// Bytes per second.
    peak: u64,
    set_at: Option<Time>,
}

impl Autorate {
    pub fn new(rate: u64, last_arrival: Option<Time>) -> Autorate {
        Autorate {
            last_arrival,
            mean_gap: 0,
            window_begin: None,
            window_bytes: 0,
            peak: rate,
            set_at: None,
        }
    }

    /// A packet arrives: the rate to shape to from now on, in bytes per second, if it changes.
    pub fn arrival(&mut self, now: Time, bytes: u32) -> Option<u64> {
        self.window_bytes += u64::from(bytes);
        let gap =
            self.last_arrival.map_or(LONGEST_GAP, |last| now.since(last)).0.min(LONGEST_GAP.0);
        let exact = gap << GAP_BITS;
        self.mean_gap = ewma(self.mean_gap, exact, if exact > self.mean_gap { 2 } else { 8 });
        self.last_arrival = Some(now);
        if gap < self.mean_gap >> GAP_BITS {
            return None;
        }
        let rate = self.window_begin.map_or(0, |begin| {
            self.window_bytes.saturating_mul(1_000_000_000) / now.since(begin).0.max(1)
        });
        self.peak = ewma(self.peak, rate, if rate > self.peak { 2 } else { 8 });
        self.window_bytes = 0;
        self.window_begin = Some(now);
        if self.set_at.is_some_and(|set_at| now <= set_at + PAUSE) {
            return None;
        }
        self.set_at = Some(now);
        Some((self.peak * 15) >> 4)
    }

    /// Bytes per second.
    pub fn estimate(&self) -> u64 {
        self.peak
    }
}
