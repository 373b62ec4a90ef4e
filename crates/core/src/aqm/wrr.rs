//! Weighted round robin between a low-latency and a classic queue, in bytes, with a credit as memory
//! (RFC 9332 Section 4.2.2: C must not starve). This is the scheduler of Linux's `sch_dualpi2`.
//!
//! While both wait, L is charged with C's weight and C with L's, and the sign says whose turn it is:
//! so the bytes leave in the ratio of the weights. A queue that waits alone is served and pays
//! nothing.

use crate::units::MTU_FRAME;

/// The queues, see [`super::Aqm::bands`].
pub const L: usize = 0;
pub const C: usize = 1;

/// The scheduler.
#[derive(Clone, Debug)]
pub struct Wrr {
    weight_l: i64,
    weight_c: i64,
    /// In bytes times weight: C's turn if positive.
    credit: i64,
}

impl Wrr {
    pub fn new(weight_l: i64, weight_c: i64) -> Wrr {
        let mut wrr = Wrr { weight_l, weight_c, credit: 0 };
        wrr.reset();
        wrr
    }

    /// The queue to serve, and what each byte of it adds to the credit.
    #[inline]
    pub fn schedule(&mut self, l_waits: bool, c_waits: bool) -> Option<(usize, i64)> {
        match (l_waits, c_waits) {
            (true, true) if self.credit <= 0 => Some((L, self.weight_c)),
            (true, true) => Some((C, -self.weight_l)),
            (true, false) => Some((L, 0)),
            (false, true) => Some((C, 0)),
            (false, false) => {
                self.reset();
                None
            }
        }
    }

    /// `bytes` leave, at the charge that `schedule` named.
    #[inline]
    pub fn charge(&mut self, per_byte: i64, bytes: u64) {
        self.credit += per_byte * bytes as i64;
    }

    #[inline]
    pub fn credit(&self) -> i64 {
        self.credit
    }

    /// An idle link forgets the past; the queue with the larger share starts.
    fn reset(&mut self) {
        self.credit = i64::from(MTU_FRAME) * (self.weight_c - self.weight_l);
    }
}
