//! RACK (RFC 8985): the newest delivery, against which segments count as lost, and how long reordering is waited for.

use crate::time::Time;

/// Segments that must be out of order before reordering is assumed (Linux `tcp_reordering`).
pub const REORDERING_DEFAULT: u32 = 3;
pub const REORDERING_MAX: u32 = 300;
/// Recoveries after which a widened reordering window is given up (RFC 8985, 6.2 step 4).
const REO_WND_PERSIST: u8 = 16;

/// RACK's state (RFC 8985, 5.3).
#[derive(Clone, Debug)]
pub struct Rack {
    /// Transmission time and number of the most recently sent segment that was delivered.
    newest: (Time, u32),
    rtt_us: u32,
    /// Something new was delivered since the last look.
    advanced: bool,
    /// How many segments reordering may span; grows with evidence.
    pub reordering: u32,
    reordering_seen: bool,
    window_steps: u8,
    window_persists: u8,
    dsack_seen: bool,
    last_adjusted: u32,
    /// The reordering window at first, 256ths of the smallest RTT.
    pub reordering_parts: u32,
}

impl Default for Rack {
    fn default() -> Rack {
        Rack {
            newest: (Time::ZERO, 0),
            rtt_us: 0,
            advanced: false,
            reordering: REORDERING_DEFAULT,
            reordering_seen: false,
            window_steps: 1,
            window_persists: 0,
            dsack_seen: false,
            last_adjusted: 0,
            reordering_parts: 64,
        }
    }
}

impl Rack {
    /// A segment was delivered (RFC 8985, 6.2 step 2).
    #[inline]
    pub fn advance(&mut self, sent_at: Time, seq: u32, rtt_us: u32) {
        self.rtt_us = rtt_us;
        self.advanced = true;
        self.newest = self.newest.max((sent_at, seq));
    }
    /// The same of one that is known to be the newest.
    #[inline(always)]
    pub fn advance_to(&mut self, sent_at: Time, seq: u32, rtt_us: u32) {
        self.rtt_us = rtt_us;
        self.advanced = true;
        self.newest = (sent_at, seq);
    }
    /// Segments are to be looked at again.
    pub fn reexamine(&mut self) {
        self.advanced = true;
    }
    /// Whether there is something to look at; there is not again until something is delivered.
    #[inline]
    pub fn take_advanced(&mut self) -> bool {
        std::mem::take(&mut self.advanced)
    }
    /// Something that was sent later has been delivered.
    #[inline]
    pub fn has_passed(&self, sent_at: Time, seq: u32) -> bool {
        self.newest > (sent_at, seq)
    }
    /// RTT of the newest delivery.
    pub fn rtt_us(&self) -> u32 {
        self.rtt_us
    }
    /// Segments from `low` to `high` came in another order.
    pub fn saw_reordering(&mut self, low: u32, high: u32) {
        self.reordering_seen = true;
        self.reordering = self.reordering.max((high - low).min(REORDERING_MAX));
    }
    /// A retransmission was not needed: where the network reorders, RACK was too hasty.
    pub fn saw_dsack(&mut self) {
        self.dsack_seen |= self.reordering_seen;
    }
    /// RFC 8985, 6.2 step 4: the window widens with every D-SACK, at most once per round trip, which is over when
    /// something arrives that was sent since it widened last. `then` and `now`: segments delivered when it was sent, and
    /// now.
    #[inline]
    pub fn update_window(&mut self, then: u32, now: u32) {
        if then < self.last_adjusted {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.window_steps = self.window_steps.saturating_add(1);
            self.dsack_seen = false;
            self.last_adjusted = now;
            self.window_persists = REO_WND_PERSIST;
        } else if self.window_persists == 0 {
            self.window_steps = 1;
        }
    }
    /// A recovery ended without undo.
    pub fn recovery_ended(&mut self) {
        self.window_persists = self.window_persists.saturating_sub(1);
    }
    fn at_first_us(&self, min_rtt_us: u32) -> u32 {
        ((u64::from(min_rtt_us) * u64::from(self.reordering_parts)) >> 8) as u32
    }
    /// How much later than the newest delivery a segment may be, µs.
    #[inline]
    pub fn allowed_us(
        &self,
        in_recovery: bool,
        sacked_out: u32,
        min_rtt_us: u32,
        srtt_us: u32,
    ) -> u32 {
        let is_strict = !self.reordering_seen && (in_recovery || sacked_out >= self.reordering);
        let window = match is_strict {
            true => 0,
            false => self
                .at_first_us(min_rtt_us)
                .saturating_mul(u32::from(self.window_steps))
                .min(srtt_us),
        };
        self.rtt_us.saturating_add(window)
    }
}
