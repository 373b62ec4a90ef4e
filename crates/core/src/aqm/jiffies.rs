//! The kernel's coarse clock: when a timer fires that is set in jiffies (Linux `kernel/time/timer.c`).
//!
//! Such a timer never fires early, and since Linux 4.8 it is always one step of its wheel late: set
//! in a tick for n jiffies later, it fires n + 1 jiffies later. So a qdisc that sets its timer anew
//! whenever it fires works with a period of n + 1 jiffies: PIE's 15 ms are 4 jiffies, the period is
//! 20 ms.

use crate::time::{Span, Time};

/// Ticks per second of the modelled kernel: what most distributions had in the years of the
/// experiments, and the default of `hz` of `cubic`.
pub const HZ: u64 = 250;
const JIFFY: u64 = 1_000_000_000 / HZ;
/// The wheel: a level has eight times the step of the one below, and the first holds 63 steps.
const STEP_BITS: u32 = 3;
const FIRST_LEVEL: u64 = 63;
const LEVELS: u32 = 9;

/// The time in jiffies, rounded up.
pub fn from_span(time: Span) -> u64 {
    time.0.div_ceil(JIFFY)
}

/// The counter at this time.
pub fn at(now: Time) -> u64 {
    now.0 / JIFFY
}

/// When a timer fires that is set at `now` for `jiffies` later.
pub fn expiry(now: Time, jiffies: u64) -> Time {
    let now = at(now);
    // The wheel already stands at the next tick.
    let distance = jiffies.saturating_sub(1);
    let below = |level: &u32| distance < FIRST_LEVEL << (STEP_BITS * level);
    let shift = STEP_BITS * (0..LEVELS).find(below).unwrap_or(LEVELS - 1);
    Time(((((now + jiffies) >> shift) + 1) << shift).saturating_mul(JIFFY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_one_step_late() {
        let at = |ms| Time(Span::from_millis(ms).0);
        assert_eq!(from_span(Span::from_millis(15)), 4);
        assert_eq!(from_span(Span::from_millis(16)), 4);
        assert_eq!(from_span(Span::from_micros(16_001)), 5);
        assert_eq!(expiry(at(0), 4), at(20));
        assert_eq!(expiry(Time(at(0).0 + 3_999_999), 4), at(20), "within the tick");
        assert_eq!(expiry(at(20), 4), at(40));
        assert_eq!(expiry(at(0), 63), at(256), "the last of the first level: tick 64");
        // Tick 64 would do, but the second level has steps of eight ticks: 72.
        assert_eq!(expiry(at(0), 64), at(288));
        assert_eq!(expiry(at(0), 125), at(512));
    }
}
