//! The deficit-mode shaper that CAKE and the SCE qdiscs have inside.
//!
//! A virtual clock: a packet may leave once the clock is reached, and moves it on by its own
//! length at the rate. There is no bucket, hence no burst: after idling the clock starts at the next
//! arrival. Source: `sch_cake.c` and, for the SCE qdiscs, github.com/chromi/sce.

use crate::time::{Span, Time};

/// Slower than this would be a standstill (Linux), bytes per second.
const MIN_RATE: u64 = 64;
/// Time per byte is kept in at most so many bits (Linux).
const FRACTION_BITS: u32 = 34;

/// Time per byte, as a binary fraction of nanoseconds. Zero is unlimited.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Pace {
    ns: u64,
    shift: u32,
}

impl Pace {
    /// `rate` in bytes per second; 0 is unlimited.
    pub fn new(rate: u64) -> Pace {
        if rate == 0 {
            return Pace::default();
        }
        let mut ns = (1_000_000_000 << FRACTION_BITS) / rate.max(MIN_RATE);
        let mut shift = FRACTION_BITS;
        while ns >> FRACTION_BITS > 0 {
            ns >>= 1;
            shift -= 1;
        }
        Pace { ns, shift }
    }
    #[inline]
    pub fn is_limited(self) -> bool {
        self.ns > 0
    }
    #[inline]
    pub fn time_for(self, bytes: u32) -> Span {
        Span((u64::from(bytes) * self.ns) >> self.shift)
    }
}

/// The clock of a whole queue. CAKE on an ingress charges drops too; the failsafe, at two thirds of the
/// rate and without drops, keeps them from stopping everything. Without such drops it is never first.
#[derive(Clone, Debug)]
pub struct Shaper {
    pub pace: Pace,
    next: Time,
    failsafe: Time,
    /// When to ask again, while packets are held back.
    wake: Time,
}

impl Shaper {
    pub fn new(pace: Pace) -> Shaper {
        Shaper { pace, next: Time::ZERO, failsafe: Time::ZERO, wake: Time::NEVER }
    }
    /// A packet comes to an empty queue: time that passed idle is no credit.
    #[inline]
    pub fn begins(&mut self, now: Time) {
        if self.next < now {
            self.next = now;
            self.failsafe = now;
        }
    }
    /// May a packet leave? If not, [`Self::wake`] says when to ask again.
    #[inline]
    pub fn ready(&mut self, now: Time) -> bool {
        let ready = self.next <= now || self.failsafe <= now;
        if !ready {
            self.wake = self.next.min(self.failsafe);
        }
        ready
    }
    /// A packet of `len` bytes on the wire leaves, or is dropped but charged.
    #[inline]
    pub fn charge(&mut self, len: u32, dropped: bool) {
        let took = self.pace.time_for(len);
        self.next += took;
        if !dropped {
            self.failsafe += took + took / 2;
        }
    }
    /// For [`super::Aqm::next_timer`] and `on_timer`.
    #[inline]
    pub fn wake(&self) -> Time {
        self.wake
    }
    #[inline]
    pub fn woken(&mut self) {
        self.wake = Time::NEVER;
    }
}
