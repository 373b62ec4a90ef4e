//! COBALT with a second schedule for SCE marks, and the parameters of the qdiscs around it.
//!
//! Two CoDel schedules run side by side: one for "some congestion experienced" marks (ECT(0) made
//! ECT(1), draft-morton-tsvwg-sce) at half the target, one for CE marks and drops. As in COBALT,
//! a schedule does not forget its count when the queue is short: the count goes down by one at
//! each due time, as it went up before. The SCE schedule is mirrored in time when the direction
//! turns, so that a time half gone is gone half. BLUE looks after overload: it drops at random,
//! ECN or not, with a probability that grows while packets wait longer than `blue_thresh`.
//!
//! Source: the kernel tree github.com/chromi/sce (`sch_cnq_codel_af.c` and its siblings have the
//! same law). Two of its habits matter and are kept:
//!
//! * The fraction 1/sqrt(count) of a flow that was never marked is zero. So its first CE mark
//!   comes with the second packet above the target, not an interval later.
//! * A schedule with count 0 is never due, so its old time is mirrored however old it is: the
//!   first SCE mark after a long pause may take as long again. A delay that crosses the target
//!   back and forth ends that.

use super::blue::Blue;
use super::inverse_sqrt::{inverse_sqrt, scale};
use super::line::Line;
use super::{Gauges, MarkReason, Pkt, QueueCx};
use crate::params::kinds::{nested, number, params};
use crate::params::{Gauge, gauge};
use crate::time::{Span, Time};

/// BLUE starts at so many intervals (Linux).
const BLUE_INTERVALS: u64 = 4;
const SCE_THRESH_MAX: u32 = 1024;

/// The parameters of the algorithm.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct CobaltParams {
    pub ce_interval: Span,
    pub ce_target: Span,
    /// Zero: no SCE marks.
    pub sce_interval: Span,
    pub sce_target: Span,
    pub blue_thresh: Span,
}

impl CobaltParams {
    /// `sce_thresh`: SCE intervals in a CE interval, or 0.
    pub fn new(interval: Span, target: Span, sce_thresh: u32) -> CobaltParams {
        CobaltParams {
            ce_interval: interval,
            ce_target: target,
            sce_interval: match sce_thresh {
                0 => Span::ZERO,
                n => (interval / u64::from(n)).max(Span(1)),
            },
            sce_target: (target + Span(1)) / 2,
            blue_thresh: interval * BLUE_INTERVALS,
        }
    }
}

/// Weight of a packet's delay ("approximate fairness"): `flow * flows / total`. It is 1 for a flow with
/// its fair share of the waiting packets, and larger for a flow with more.
#[derive(Copy, Clone, Debug)]
pub struct Weight {
    pub flow: u64,
    pub flows: u64,
    pub total: u64,
}

impl Weight {
    pub const EVEN: Weight = Weight { flow: 1, flows: 1, total: 1 };

    #[inline]
    fn exceeds(self, sojourn: Span, target: Span) -> bool {
        let weighted = sojourn.0.saturating_mul(self.flow).saturating_mul(self.flows);
        weighted > target.0.saturating_mul(self.total)
    }
}

/// One of the two schedules.
#[derive(Copy, Clone, Debug, Default)]
struct Schedule {
    count: u32,
    /// 1/sqrt(count), see the module.
    fraction: u32,
    /// When the count moves next. Mirrored times may lie before time zero.
    next: i64,
    /// Above target: the count goes up.
    over: bool,
}

impl Schedule {
    #[inline]
    fn due(&self, now: i64) -> bool {
        self.count > 0 && now >= self.next
    }
    #[inline]
    fn step(&self, interval: Span) -> i64 {
        scale(interval, self.fraction).0 as i64
    }
    #[inline]
    fn restart(&mut self, now: i64, interval: Span) {
        self.next = now + self.step(interval);
    }
    /// Swaps the time left until the next change with the time since the last one.
    #[inline]
    fn reflect(&mut self, now: i64, interval: Span) {
        self.next = 2 * now - self.next + self.step(interval);
    }
}

/// The state of the law: of a queue, or of one flow in it.
#[derive(Copy, Clone, Debug, Default)]
pub struct Cobalt {
    ce: Schedule,
    sce: Schedule,
    blue: Blue,
}

impl Cobalt {
    pub fn ce_count(&self) -> u32 {
        self.ce.count
    }
    pub fn sce_count(&self) -> u32 {
        self.sce.count
    }

    #[inline]
    fn refresh(&mut self) {
        for s in [&mut self.ce, &mut self.sce] {
            s.fraction = inverse_sqrt(s.count, s.fraction);
        }
    }
    #[inline]
    fn ce_moves(&mut self, count: u32, p: &CobaltParams) {
        self.ce.count = count;
        self.refresh();
        self.ce.next += self.ce.step(p.ce_interval);
    }
    #[inline]
    fn sce_moves(&mut self, count: u32, p: &CobaltParams) {
        self.sce.count = count;
        self.refresh();
        self.sce.next += self.sce.step(p.sce_interval);
    }

    /// Persistent overload: BLUE drops more, and both schedules are due.
    fn full(&mut self, p: &CobaltParams, now: Time) {
        self.blue.overflowed(now, p.ce_target);
        let now = now.0 as i64;
        let urge = |s: &mut Schedule| {
            (s.over, s.next, s.count) = (true, now, s.count.max(1));
        };
        urge(&mut self.ce);
        if p.sce_interval > Span::ZERO {
            urge(&mut self.sce);
        }
    }

    /// The queue (or the flow) has nothing else waiting: BLUE drops less, the counts run down.
    pub fn empty(&mut self, p: &CobaltParams, now: Time) {
        self.blue.found_empty(now, p.ce_target);
        let now = now.0 as i64;
        while self.ce.due(now) {
            self.ce_moves(self.ce.count - 1, p);
        }
        if std::mem::take(&mut self.ce.over) {
            self.ce.restart(now, p.ce_interval);
        }
        while self.sce.due(now) {
            self.sce_moves(self.sce.count - 1, p);
        }
        if std::mem::take(&mut self.sce.over) {
            self.sce.reflect(now, p.sce_interval);
        }
    }

    /// Marks the packet that is about to leave; true if it should be dropped.
    #[inline]
    pub fn drops<P: Pkt>(
        &mut self,
        p: &CobaltParams,
        weight: Weight,
        pkt: &mut P,
        cx: &mut QueueCx<P>,
    ) -> bool {
        let sojourn = cx.now.since(pkt.enqueued_at());
        if p.sce_interval > Span::ZERO {
            self.some_congestion(p, weight.exceeds(sojourn, p.sce_target), pkt, cx);
        }
        let now = cx.now.0 as i64;
        let mut late = now - self.ce.next;
        let drop = self.congestion(p, weight.exceeds(sojourn, p.ce_target), &mut late, pkt, cx);
        if weight.exceeds(sojourn, p.blue_thresh) {
            self.full(p, cx.now);
        }
        let drop = self.blue.drops(cx.rng) || drop;
        // What is due is not made up for, unless by drops.
        if self.ce.count == 0 {
            self.ce.next = now + p.ce_interval.0 as i64;
        } else if late > 0 && !drop {
            self.ce.next = now;
        }
        drop
    }

    #[inline]
    fn some_congestion<P: Pkt>(
        &mut self,
        p: &CobaltParams,
        over: bool,
        pkt: &mut P,
        cx: &mut QueueCx<P>,
    ) {
        let now = cx.now.0 as i64;
        let turned = over != self.sce.over;
        let due = self.sce.due(now);
        if turned {
            self.sce.over = over;
            if due {
                self.sce.restart(now, p.sce_interval);
            } else {
                self.sce.reflect(now, p.sce_interval);
            }
        }
        if over {
            self.sce.count = self.sce.count.max(1);
            // A packet that cannot be marked leaves the schedule due.
            if due && !turned && cx.mark_sce(pkt) {
                self.sce_moves(self.sce.count.saturating_add(1), p);
            }
        } else if due {
            loop {
                self.sce_moves(self.sce.count - 1, p);
                if !self.sce.due(now) {
                    break;
                }
            }
        }
    }

    #[inline]
    fn congestion<P: Pkt>(
        &mut self,
        p: &CobaltParams,
        over: bool,
        late: &mut i64,
        pkt: &mut P,
        cx: &mut QueueCx<P>,
    ) -> bool {
        let now = cx.now.0 as i64;
        let turned = over != self.ce.over;
        let due = self.ce.due(now);
        let mut drop = false;
        if turned {
            self.ce.over = over;
            self.ce.restart(now, p.ce_interval);
        }
        if over {
            self.ce.count = self.ce.count.max(1);
            if due && !turned {
                drop = !cx.mark(pkt, MarkReason::Aqm);
                self.ce_moves(self.ce.count.saturating_add(1), p);
                *late = now - self.ce.next;
            }
        } else if due {
            loop {
                self.ce_moves(self.ce.count - 1, p);
                *late = now - self.ce.next;
                if !self.ce.due(now) {
                    break;
                }
            }
        }
        drop
    }

    pub fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("ce_count", f64::from(self.ce.count));
        out.gauge("sce_count", f64::from(self.sce.count));
        out.gauge("p_blue", self.blue.probability());
    }
}

/// The gauges of [`Cobalt::probe`].
pub const CE_COUNT: Gauge = gauge("ce_count", "", "count of the schedule for CE marks and drops");
pub const SCE_COUNT: Gauge = gauge("sce_count", "", "count of the schedule for SCE marks");
pub const P_BLUE: Gauge = gauge("p_blue", "", "drop probability of BLUE");

params! {
    /// The parameters by their names in `tc`.
    pub struct CobaltConfig {
        line: Line = Line::default(), nested();
        /// SCE interval is rtt divided by this; its target is rtt/40
        sce_thresh: u32 = 0, number(1..=SCE_THRESH_MAX)
            .called(&["sce-thresh"])
            .also("sce", |n| *n = 1, "sce-thresh 1")
            .or("no-sce", 0, "no SCE marks"), "chromi/sce";
    }
}

impl CobaltConfig {
    pub fn params(&self) -> CobaltParams {
        self.params_divided(1)
    }
    /// All times divided, as for low-latency traffic.
    pub fn params_divided(&self, divisor: u64) -> CobaltParams {
        let short = |t: Span| (t / divisor).max(Span(1));
        CobaltParams::new(short(self.line.rtt), short(self.line.target()), self.sce_thresh)
    }
}
