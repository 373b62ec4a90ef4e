//! BLUE, the half of COBALT that is for senders that do not respond: an overflow raises a probability of
//! drops, a queue found empty lowers it, and ECN does not save a packet from it.
//! Source: Linux `net/sched/sch_cake.c`.

use crate::rng::Rng;
use crate::time::{Span, Time};

/// Steps of the probability, in 2^-32 (Linux): 1/256 up, 1/4096 down.
const P_INC: u32 = 1 << 24;
const P_DEC: u32 = 1 << 20;

/// The state of one flow, or of one queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Blue {
    /// In 2^-32.
    p: u32,
    changed: Time,
}

impl Blue {
    /// The probability grows, once in `pause`.
    #[inline]
    pub fn overflowed(&mut self, now: Time, pause: Span) {
        if now.since(self.changed) > pause {
            self.p = self.p.saturating_add(P_INC);
            self.changed = now;
        }
    }
    /// The probability sinks, once in `pause`.
    #[inline]
    pub fn found_empty(&mut self, now: Time, pause: Span) {
        if self.p > 0 && now.since(self.changed) > pause {
            self.p = self.p.saturating_sub(P_DEC);
            self.changed = now;
        }
    }
    /// Is this packet to be dropped?
    #[inline]
    pub fn drops(&self, rng: &mut Rng) -> bool {
        self.p > 0 && rng.u32() < self.p
    }
    #[inline]
    pub fn is_off(&self) -> bool {
        self.p == 0
    }
    pub fn probability(&self) -> f64 {
        f64::from(self.p) / (1_u64 << 32) as f64
    }
}
