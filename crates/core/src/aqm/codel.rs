//! CoDel, Controlled Delay (RFC 8289), as Linux has it (`sch_codel` and `codel_impl.h`, 7.2).
//!
//! A good queue absorbs a burst and empties; a bad one stands. CoDel tells them apart by the least
//! delay: once every packet that left within `interval` had waited for `target` or longer, it drops
//! (or marks) one, the next after `interval`, and then after `interval/sqrt(count)`, ever faster,
//! until a packet has waited less. It decides when packets leave, on the delay of each.
//!
//! Where Linux and RFC 8289 differ, this is Linux:
//!
//! | | here and in Linux | RFC 8289 |
//! |---|---|---|
//! | no signals while at most … bytes wait | one full frame | the largest packet seen |
//! | the first one comes | after more than `interval` | after `interval` |
//! | 1/sqrt(count) | 16 bits, one Newton step per change | exact |
//! | drops at once | at most 256 | any number |
//! | `ce_threshold` | marks whatever waited longer | none |
//!
//! Delays are nanoseconds here, which Linux cuts to units of 1.024 us. The schedule of signals is in
//! those units here too: at thousands of drops per second, what is cut off makes a percent.

use std::any::Any;

use super::inverse_sqrt::newton_step;
use super::queue::Queue;
use super::{
    Aqm, Backlog, DropReason, Gauges, LinkInfo, MarkReason, Marking, Overflow, Pkt, Qdisc, QueueCx,
    Room, Separation, drop_excess,
};
use crate::params::kinds::{MICROSECOND, nested, number, params, time, unsaid, words};
use crate::params::{Described, Gauge, gauge};
use crate::time::{Span, Time};
use crate::units::MTU_FRAME;

/// No signals while no more than this waits (Linux).
const MIN_BACKLOG: u64 = MTU_FRAME as u64;
/// An episode that begins within so many intervals after the last one goes on from its rate (as
/// RFC 8289).
const RECENT: u64 = 16;
/// Drops per packet delivered (Linux 7.2; none before).
const MAX_DROPS: u32 = 256;
/// Linux counts time in 2^10 ns.
const TICK_LOG: u32 = 10;
/// Linux compares times as 32 signed bits of 1.024 us; longer ones would be negative.
const TIME_MAX: Span = Span::from_micros(2_199_023_255);

params! {
    /// The parameters that `codel` and `fq_codel` share, by the names in `tc`.
    pub struct CodelParams {
        /// acceptable standing delay
        target: Span = Span::from_millis(5), time(MICROSECOND..=TIME_MAX), "as RFC 8289: 5 to 10 % of the interval";
        /// time above the target before the first signal; about the longest RTT
        interval: Span = Span::from_millis(100), time(MICROSECOND..=TIME_MAX), "as RFC 8289";
        ecn: bool = false, words([
            ("ecn", true, "mark ECN-capable packets instead of dropping them"),
            ("noecn", false, "always drop, never mark"),
        ]), "Linux";
        /// delay above which every ECN-capable packet is marked, independent of CoDel and `ecn`
        ce_threshold: Option<Span> = None, time(Span::ZERO..=TIME_MAX).optional(), "Linux";
        /// Only those whose DS field (DSCP and ECN) it selects.
        selector: Option<Selector> = None, unsaid();
    }
}

/// Those whose DS field, masked, has this value.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Selector {
    pub value: u8,
    pub mask: u8,
}

impl CodelParams {
    #[inline]
    fn selects<P: Pkt>(&self, pkt: &P) -> bool {
        let ds_field = pkt.dscp() << 2 | pkt.ecn().bits();
        self.selector.is_none_or(|by| ds_field & by.mask == by.value)
    }
}

/// The law's memory: of one queue, or of one flow.
#[derive(Clone, Debug, Default)]
pub struct Codel {
    /// Signals of this episode; decides the time to the next.
    count: u32,
    /// `count` at the beginning of this episode.
    last_count: u32,
    dropping: bool,
    /// 1/sqrt(count) in 2^-16.
    inv_sqrt: u16,
    /// When the delay will have been above target for an interval; None while it is not.
    first_above: Option<Time>,
    drop_next: Time,
    /// Delay of the packet seen last.
    sojourn: Span,
}

impl Codel {
    /// The next packet to send (RFC 8289, 5.5). `take` removes the head of the queue and says
    /// how many bytes are left in the whole qdisc.
    #[inline]
    pub fn dequeue<P: Pkt>(
        &mut self,
        params: &CodelParams,
        cx: &mut QueueCx<P>,
        mut take: impl FnMut() -> Option<(P, u64)>,
    ) -> Option<P> {
        let (mut head, mut above) = self.look(params, cx.now, take());
        if !above {
            self.dropping = false;
        } else if self.dropping {
            let mut drops = 0;
            while self.dropping && cx.now >= self.drop_next {
                if drops == MAX_DROPS {
                    // Far behind schedule: it starts anew.
                    self.drop_next = self.after(cx.now, params.interval);
                    break;
                }
                drops += 1;
                self.count = self.count.wrapping_add(1);
                self.newton_step();
                let mut pkt = head?;
                if params.ecn && cx.mark(&mut pkt, MarkReason::Aqm) {
                    head = Some(pkt);
                    self.drop_next = self.after(self.drop_next, params.interval);
                    break;
                }
                cx.drop(pkt, DropReason::Aqm);
                (head, above) = self.look(params, cx.now, take());
                if above {
                    self.drop_next = self.after(self.drop_next, params.interval);
                } else {
                    self.dropping = false;
                }
            }
        } else {
            let mut pkt = head?;
            if params.ecn && cx.mark(&mut pkt, MarkReason::Aqm) {
                head = Some(pkt);
            } else {
                cx.drop(pkt, DropReason::Aqm);
                (head, _) = self.look(params, cx.now, take());
            }
            self.begin(cx.now, params.interval);
        }
        let mut pkt = head?;
        if params.ce_threshold.is_some_and(|threshold| self.sojourn > threshold)
            && params.selects(&pkt)
        {
            cx.mark(&mut pkt, MarkReason::Step);
        }
        Some(pkt)
    }

    /// Has the delay been above target for an interval? (RFC 8289, 5.6 `dodequeue`)
    #[inline]
    fn look<P: Pkt>(
        &mut self,
        params: &CodelParams,
        now: Time,
        taken: Option<(P, u64)>,
    ) -> (Option<P>, bool) {
        let Some((pkt, backlog)) = taken else {
            self.first_above = None;
            return (None, false);
        };
        self.sojourn = now.since(pkt.enqueued_at());
        let above = if self.sojourn < params.target || backlog <= MIN_BACKLOG {
            self.first_above = None;
            false
        } else {
            now > *self.first_above.get_or_insert(now + params.interval)
        };
        (Some(pkt), above)
    }

    /// An episode begins: with the rate that the last one needed, if that was a short while ago.
    fn begin(&mut self, now: Time, interval: Span) {
        let signals = self.count.wrapping_sub(self.last_count);
        let recent = self.last_count > 0 && now < self.drop_next + interval * RECENT;
        if signals > 1 && recent {
            self.count = signals;
            self.newton_step();
        } else {
            self.count = 1;
            self.inv_sqrt = u16::MAX;
        }
        self.dropping = true;
        self.last_count = self.count;
        self.drop_next = self.after(now, interval);
    }

    /// The control law: the time after `t` by interval/sqrt(count).
    #[inline]
    fn after(&self, t: Time, interval: Span) -> Time {
        let wait = ((interval.0 >> TICK_LOG) * u64::from(self.inv_sqrt)) >> 16;
        Time(((t.0 >> TICK_LOG) + wait.max(1)) << TICK_LOG)
    }

    /// Sixteen bits are few for a count of many thousands, and one step is little for a count that
    /// jumped; both shows in the rate of drops.
    #[inline]
    fn newton_step(&mut self) {
        self.inv_sqrt = (newton_step(u32::from(self.inv_sqrt) << 16, self.count) >> 16) as u16;
    }

    /// The queue overflowed and dropped so many packets: that is taken for as many signals.
    #[inline]
    pub fn overflowed(&mut self, dropped: u32) {
        self.count = self.count.wrapping_add(dropped);
    }

    /// CoDel's statistics in `tc -s`; `drop_next` in the run's time.
    pub fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("count", f64::from(self.count));
        out.gauge("lastcount", f64::from(self.last_count));
        out.gauge("dropping", f64::from(u8::from(self.dropping)));
        out.gauge("drop_next_s", self.drop_next.as_secs_f64());
        out.gauge("ldelay_ms", self.sojourn.as_millis_f64());
    }
}

params! {
    /// The parameters of `codel`.
    pub struct CodelConfig {
        /// largest backlog, in packets; tail drop
        limit: u32 = 1000, number(1..=u32::MAX).shown("PACKETS"), "Linux; RFC 8289 has no limit";
        params: CodelParams = CodelParams::default(), nested();
    }
}

/// One queue under the law; tail drop at the limit.
#[derive(Debug)]
pub struct CodelQueue<P> {
    queue: Queue<P>,
    codel: Codel,
    config: CodelConfig,
}

impl<P: Pkt + Send> Aqm<P> for CodelQueue<P> {
    #[inline]
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        if self.backlog().packets + cx.held.packets < u64::from(self.config.limit) {
            self.queue.push(pkt);
        } else {
            cx.drop(pkt, DropReason::Overflow);
        }
    }
    #[inline]
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        let queue = &mut self.queue;
        let take = || queue.pop().map(|pkt| (pkt, queue.bytes()));
        self.codel.dequeue(&self.config.params, cx, take)
    }
    fn backlog(&self) -> Backlog {
        Backlog { packets: self.queue.len() as u64, bytes: self.queue.bytes() }
    }
    fn tells_drops_late(&self) -> bool {
        true
    }
    fn change(&mut self, to: &dyn Any, cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        self.config = to.downcast_ref::<CodelConfig>().ok_or_else(Vec::new)?.clone();
        let limit = self.config.limit as usize;
        drop_excess(cx, |_| self.queue.pop_beyond(limit));
        Ok(())
    }
    fn probe(&self, out: &mut dyn Gauges) {
        self.codel.probe(out);
    }
}

/// The gauges of [`Codel::probe`], by the names in `tc -s`.
pub const GAUGES: &[Gauge] = &[
    gauge("count", "", "signals of this episode"),
    gauge("lastcount", "", "the count when the episode began"),
    gauge("dropping", "", "1 within an episode"),
    gauge("drop_next_s", "s", "when the next signal is due, in the run's time"),
    gauge("ldelay_ms", "ms", "delay of the last packet"),
];

impl Described for CodelConfig {
    const NAME: &'static str = "codel";
    const SUMMARY: &'static str = "one queue with controlled delay (CoDel, RFC 8289)";
    const GAUGES: &'static [Gauge] = GAUGES;
}

impl Qdisc for CodelConfig {
    const SEPARATION: Separation = Separation::Single;
    const MARKING: Marking = Marking::With(&["ecn", "ce_threshold"]);
    const OVERFLOW: Overflow = Overflow::Counter("drop_overlimit");
    const DROPS_WAITING: bool = true;
    const LIMITS_PACKETS: bool = true;

    fn room(&self, _link: LinkInfo) -> Room {
        Room::of_packets(self.limit)
    }
    fn build<P: Pkt + Send + 'static>(&self, _link: LinkInfo) -> Box<dyn Aqm<P>> {
        let codel = Codel::default();
        Box::new(CodelQueue { queue: Queue::new(), codel, config: self.clone() })
    }
}
