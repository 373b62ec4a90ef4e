//! When a kernel timer really fires: on a tick, and far ones only on every eighth, 64th, ... tick.
//!
//! TCP's retransmission, probe and reordering timers are not exact. A timeout is rounded up to
//! ticks, counted from the last tick, and the wheel adds one of its steps so that no timer is early
//! (Linux 7.2, `kernel/time/timer.c`). At a round trip of some ticks that is a good part of the wait.

use crate::time::{Span, Time};

/// CONFIG_HZ = 250, as in the kernels of distributions.
pub const TICK: Span = Span::from_millis(4);
/// Each level of the wheel is eight times coarser than the one below ...
const LEVEL_SHIFT: u32 = 3;
/// ... and takes timeouts from this many of the steps below (`LVL_START`).
const LEVEL_START: u64 = 63;
const LEVELS: u32 = 9;

/// A wait, rounded up to ticks.
pub fn ticks(wait: Span) -> Span {
    Span(wait.0.div_ceil(TICK.0) * TICK.0)
}

/// A span without what is less than a tick.
pub fn whole_ticks(span: Span) -> Span {
    Span(span.0 / TICK.0 * TICK.0)
}

/// When the tick in progress began.
pub fn tick_of(now: Time) -> Time {
    Time(now.0 / TICK.0 * TICK.0)
}

/// The instant at which a timer that is set at `now` to `wait` fires.
pub fn expiry(now: Time, wait: Span) -> Time {
    let ticks = wait.0.div_ceil(TICK.0);
    let mut level = 0;
    while level + 1 < LEVELS && ticks >= LEVEL_START << (level * LEVEL_SHIFT) {
        level += 1;
    }
    let shift = level * LEVEL_SHIFT;
    let step = ((now.0 / TICK.0 + ticks) >> shift) + 1;
    Time((step << shift).saturating_mul(TICK.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(now_us: u64, wait_us: u64) -> u64 {
        expiry(Time(now_us * 1000), Span::from_micros(wait_us)).0 / 1000
    }

    #[test]
    fn near_timers_fire_on_the_tick_after_their_time() {
        assert_eq!(at(0, 1), 8_000);
        assert_eq!(at(3_999, 1), 8_000);
        assert_eq!(at(4_000, 1), 12_000);
        assert_eq!(at(1_000, 4_000), 8_000);
        assert_eq!(at(1_000, 4_001), 12_000);
        // 62 ticks are the last on the fine level.
        assert_eq!(at(0, 62 * 4_000), 63 * 4_000);
    }

    #[test]
    fn far_timers_fire_on_coarser_steps() {
        assert_eq!(at(0, 63 * 4_000), 64 * 4_000);
        assert_eq!(at(0, 64 * 4_000), 72 * 4_000);
        assert_eq!(at(4_000, 70 * 4_000), 72 * 4_000);
        // From 504 ticks (2 s) on, steps of 64 ticks.
        assert_eq!(at(0, 503 * 4_000), 504 * 4_000);
        assert_eq!(at(0, 504 * 4_000), 512 * 4_000);
        assert_eq!(at(0, 512 * 4_000), 576 * 4_000);
    }

    #[test]
    fn no_timer_is_early_or_later_than_a_step() {
        for (now, wait) in (0..2_000u64).map(|i| (i * 7_919, i * i * 13 + 1)) {
            let (now, wait) = (Time(now * 1000), Span::from_micros(wait));
            let late = expiry(now, wait).since(now + wait);
            assert!(expiry(now, wait) >= now + wait, "{now:?} {wait:?}");
            let step = if wait < Span(TICK.0 * 62) { TICK.0 * 2 } else { TICK.0 * 65 };
            assert!(wait > Span::from_secs(16) || late.0 <= step, "{now:?} {wait:?} {late:?}");
        }
    }
}
