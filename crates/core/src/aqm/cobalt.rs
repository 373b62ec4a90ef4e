//! COBALT, the law of CAKE: CoDel and BLUE side by side, per flow. As in Linux `sch_cake`, 7.2.
//!
//! CoDel signals to senders that respond. While the sojourn stays above `target`, signals come
//! interval/sqrt(count) apart and each raises count. Where CoDel (RFC 8289) forgets its count or
//! jumps back to it, COBALT unwinds: while the sojourn is below, count falls at the instants at which
//! it would have risen. BLUE ([`super::blue`]) drops from flows that do not respond.
//!
//! Where Linux departs from what its own comments say, this is Linux:
//!
//! * 1/sqrt(count) starts at 0, not at 1, and is first set when count first changes. So the first
//!   signal of a queue does not wait an interval, but comes with the second packet above target.
//! * The interval counts with its lower 32 bits of nanoseconds: 1000 s (`interplanetary`) is 3.57 s.

use super::blue::Blue;
use super::inverse_sqrt::{inverse_sqrt, scale};
use super::{MarkReason, Pkt, QueueCx};
use crate::time::{Span, Time};

/// The parameters that the flows of a queue share.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct CobaltParams {
    pub interval: Span,
    pub target: Span,
    /// Time to send a full frame; zero where the rate is unknown.
    pub mtu_time: Span,
}

impl CobaltParams {
    /// For a queue whose full frames take `mtu_time`: no less than one and a half of them is a
    /// standing queue, and the interval keeps its distance to the target.
    pub fn at_rate(mtu_time: Span, target: Span, interval: Span) -> CobaltParams {
        let slow = (mtu_time * 3 / 2).max(target);
        CobaltParams {
            target: slow,
            interval: (interval + (slow - target)).max(slow * 2),
            mtu_time,
        }
    }
}

/// The state of one flow.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cobalt {
    count: u32,
    /// 2^32/sqrt(count), once count has changed.
    inv_sqrt: u32,
    /// When CoDel acts next; while count is 0, until when the flow counts as active.
    next: Time,
    dropping: bool,
    blue: Blue,
}

impl Cobalt {
    /// A packet of this flow was dropped because the buffer was full.
    pub fn queue_full(&mut self, params: &CobaltParams, now: Time) {
        self.blue.overflowed(now, params.target);
        self.dropping = true;
        self.next = now;
        self.count = self.count.max(1);
    }

    /// It was this flow's turn, but it had nothing to send.
    pub fn queue_empty(&mut self, params: &CobaltParams, now: Time) {
        self.blue.found_empty(now, params.target);
        self.dropping = false;
        if self.is_due(now) {
            self.set_count(self.count - 1);
            self.schedule_from(self.next, params);
        }
    }

    /// Must this packet, about to leave, be dropped? May mark it instead. `bulk_flows` is zero but on
    /// an ingress, where the queue before this one is the longer the more of them there are.
    #[inline]
    pub fn drops<P: Pkt>(
        &mut self,
        params: &CobaltParams,
        bulk_flows: u64,
        pkt: &mut P,
        cx: &mut QueueCx<P>,
    ) -> bool {
        let now = cx.now;
        let sojourn = now.since(pkt.enqueued_at());
        let over = sojourn > params.target
            && sojourn > params.mtu_time * (2 * bulk_flows)
            && sojourn > params.mtu_time * 4;
        let due = self.is_due(now);
        let mut late = now > self.next;
        if over && !self.dropping {
            self.schedule_from(now, params);
        }
        self.dropping = over;
        let mut drop = false;
        if over && due {
            drop = !cx.mark(pkt, MarkReason::Aqm);
            self.set_count(self.count.saturating_add(1));
            self.schedule_from(self.next, params);
            late = now > self.next;
        } else if over {
            self.count = self.count.max(1);
        } else {
            while self.is_due(now) {
                self.set_count(self.count - 1);
                self.schedule_from(self.next, params);
                late = now > self.next;
            }
        }
        drop = drop || self.blue.drops(cx.rng);
        if self.count == 0 {
            self.next = now + params.interval;
        } else if late && !drop {
            self.next = now; // signals missed while nothing was sent are not made up for
        }
        drop
    }

    /// Nothing would be lost if this flow were forgotten.
    pub fn at_rest(&self, now: Time) -> bool {
        self.blue.is_off() && self.count == 0 && now >= self.next
    }

    /// Was the last packet's sojourn too long?
    #[inline]
    pub fn is_above_target(&self) -> bool {
        self.dropping
    }
    pub fn count(&self) -> u32 {
        self.count
    }
    /// BLUE's probability.
    pub fn p_drop(&self) -> f64 {
        self.blue.probability()
    }
    /// When CoDel acts next.
    pub fn next(&self) -> Time {
        self.next
    }

    #[inline]
    fn is_due(&self, now: Time) -> bool {
        self.count > 0 && now >= self.next
    }

    /// CoDel's control law: the next action interval/sqrt(count) after `from`.
    #[inline]
    fn schedule_from(&mut self, from: Time, params: &CobaltParams) {
        self.next = from + scale(params.interval, self.inv_sqrt);
    }

    #[inline]
    fn set_count(&mut self, count: u32) {
        self.count = count;
        self.inv_sqrt = inverse_sqrt(count, self.inv_sqrt);
    }
}
