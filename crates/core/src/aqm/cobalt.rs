//! COBALT, the law of CAKE: CoDel and BLUE side by side, per flow. As in Linux `sch_cake`, 7.2.
//!
//! CoDel signals to senders that respond. While the sojourn stays above `target`, signals come
//! interval/sqrt(count) apart and each raises count. Where CoDel (RFC 8289) forgets its count or
//! jumps back to it, COBALT unwinds: while the sojourn is below, count falls at the instants at which
//! it would have risen. BLUE drops from flows that do not respond: an overflow raises the
//! probability, a queue found empty lowers it, and ECN does not save a packet from it.
//!
//! Where Linux departs from what its own comments say, this is Linux:
//!
//! * 1/sqrt(count) starts at 0, not at 1, and is first set when count first changes. So the first
//!   signal of a queue does not wait an interval, but comes with the second packet above target.
//! * The interval counts with its lower 32 bits of nanoseconds: 1000 s (`interplanetary`) is 3.57 s.

use super::{MarkReason, Pkt, QueueCx};
use crate::time::{Span, Time};

/// 2^32/sqrt(count) of small counts: one Newton step would be far off there (Linux). 0 counts as 1.
const INV_SQRT: [u32; 16] = [
    u32::MAX,
    u32::MAX,
    3037000500,
    2479700525,
    2147483647,
    1920767767,
    1753413056,
    1623345051,
    1518500250,
    1431655765,
    1358187914,
    1294981364,
    1239850263,
    1191209601,
    1147878294,
    1108955788,
];
/// Steps of BLUE's probability, in 2^-32 (Linux): 1/256 up, 1/4096 down.
const P_INC: u32 = 1 << 24;
const P_DEC: u32 = 1 << 20;

/// What the flows of a queue have in common.
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
    /// BLUE's probability in 2^-32, and when it last changed.
    p_drop: u32,
    blue_timer: Time,
}

impl Cobalt {
    /// A packet of this flow was dropped because the buffer was full.
    pub fn queue_full(&mut self, params: &CobaltParams, now: Time) {
        if now.since(self.blue_timer) > params.target {
            self.p_drop = self.p_drop.saturating_add(P_INC);
            self.blue_timer = now;
        }
        self.dropping = true;
        self.next = now;
        self.count = self.count.max(1);
    }

    /// It was this flow's turn, but it had nothing to send.
    pub fn queue_empty(&mut self, params: &CobaltParams, now: Time) {
        if self.p_drop > 0 && now.since(self.blue_timer) > params.target {
            self.p_drop = self.p_drop.saturating_sub(P_DEC);
            self.blue_timer = now;
        }
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
        // BLUE is for senders that do not respond: no mark instead.
        if self.p_drop > 0 && !drop && cx.rng.u32() < self.p_drop {
            drop = true;
        }
        if self.count == 0 {
            self.next = now + params.interval;
        } else if late && !drop {
            self.next = now; // signals missed while nothing was sent are not made up for
        }
        drop
    }

    /// Nothing would be lost if this flow were forgotten.
    pub fn at_rest(&self, now: Time) -> bool {
        self.p_drop == 0 && self.count == 0 && now >= self.next
    }

    pub fn count(&self) -> u32 {
        self.count
    }
    /// BLUE's probability.
    pub fn p_drop(&self) -> f64 {
        f64::from(self.p_drop) / (1_u64 << 32) as f64
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
        let interval = u64::from(params.interval.0 as u32);
        self.next = from + Span((interval * u64::from(self.inv_sqrt)) >> 32);
    }

    #[inline]
    fn set_count(&mut self, count: u32) {
        self.count = count;
        self.inv_sqrt = match INV_SQRT.get(count as usize) {
            Some(&x) => x,
            None => newton(self.inv_sqrt, count),
        };
    }
}

/// One step from `x` towards 1/sqrt(count): x (3 - count x^2)/2, in 2^-32.
fn newton(x: u32, count: u32) -> u32 {
    let x = u64::from(x);
    let square = (x * x) >> 32;
    let rest = (3_u64 << 32).wrapping_sub(u64::from(count).wrapping_mul(square));
    ((rest >> 2).wrapping_mul(x) >> 31) as u32
}
