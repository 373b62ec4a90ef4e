//! PI2, PI Improved with a Square (De Schepper et al., CoNEXT 2016), as the authors' Linux module of
//! 2016 has it (`sch_pi2` of olgabo/dualpi2).
//!
//! The PI controller of PIE without its heuristics moves one probability p. A scalable sender keeps
//! about 1/p packets in flight, so its packets are marked with p. A Reno-like sender keeps about
//! 1/sqrt(p), so its packets are dropped, or marked, with (p/k)^2: then the step of p that moves the
//! queue by so much is the same at every p, and PIE's tuning of gains is not needed. k makes up for
//! the constants of the two rate laws.
//!
//! Everything is decided when a packet arrives. p ends at 1 and with it the classic probability at
//! 1/k^2: a flow that does not respond fills the queue to `limit`. The controller never drops scalable
//! packets.
//!
//! With `dualq` (all ECT) or `dualq_ect1` the scalable packets wait in a queue L of their own; it is
//! served as a time-shifted FIFO and also marks packets that waited longer than `l_thresh`. This is the
//! ancestor of DualPI2. There p' is the classic side of the coupling, here p is the scalable one:
//! p = k p', and so `alpha` and `beta` are k times those of DualPI2. The gauges are those of DualPI2.
//!
//! The module's integers are kept, with one surprise: p idles down not by 2 % at a time, but from
//! above 1 % to below at once, see [`Pi2::update`].

use std::any::Any;

use super::pie::{DepartureRate, from_ticks, to_ticks};
use super::scheduler::{BANDS, C, L, P_C, P_L_COUPLED, P_PRIME, Queues, Scheduler, age};
use super::{
    Aqm, Backlog, DropReason, Gauges, LinkInfo, MarkReason, Marking, Pkt, Qdisc, QueueCx, Room,
    Separation, in_order, jiffies,
};
use crate::ecn::Ecn;
use crate::params::kinds::{number, params, some_time, words};
use crate::params::{Described, Gauge, gauge};
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::units::MTU_FRAME;

/// Probability 1.
const MAX_PROB: u32 = u32::MAX;
/// Gains are given in 1/16 Hz and delays counted in ticks of 64 ns, as in PIE.
const TICKS_PER_SECOND: u32 = 15_625_000;
const GAIN_SHIFT: u32 = 4;
const ALPHA_MAX: u32 = 32_000;
const BETA_MAX: u32 = 320_000;
const K_MAX: u32 = 64;
/// No marks and no drops while less than two full frames wait.
const MIN_BACKLOG: u64 = 2 * MTU_FRAME as u64;
/// Bytes over which the departure rate is measured.
const RATE_THRESHOLD: u64 = 10_000;

params! {
    /// The parameters, by their names in the module's `tc`.
    pub struct Pi2Config {
        /// largest backlog of both queues, in packets
        limit: u32 = 1000, number(1..=u32::MAX).shown("PACKETS"), "sch_pi2";
        /// target queueing delay
        target: Span = Span::from_millis(20), some_time(), "sch_pi2";
        /// time between two updates, in jiffies of 4 ms plus one
        tupdate: Span = Span::from_millis(30), some_time(), "sch_pi2";
        /// integral gain in 1/16 Hz
        alpha: u32 = 10, number(0..=ALPHA_MAX), "sch_pi2: 0.625 Hz";
        /// proportional gain in 1/16 Hz
        beta: u32 = 100, number(0..=BETA_MAX), "sch_pi2: 6.25 Hz";
        /// coupling: classic packets have (p/k)^2
        k: u32 = 2, number(1..=K_MAX), "sch_pi2";
        bytemode: bool = false, words([
            ("bytemode", true, "signal with a probability that grows with packet size"),
            ("nobytemode", false, "signal all sizes with the same probability"),
        ]), "sch_pi2";
        ecn: EcnMode = EcnMode::Mark, words([
            ("noecn", EcnMode::Drop, "drop all alike"),
            ("ecn", EcnMode::Mark, "mark ECT packets"),
            ("dualq_ect1", EcnMode::DualQEct1, "mark, and ECT(1) and CE wait in the L queue"),
            ("dualq", EcnMode::DualQ, "mark, and all ECT wait in the L queue"),
        ]), "sch_pi2";
        scalable: Scalable = Scalable::AllEct, words([
            ("no_scal", Scalable::None, "all packets are of classic senders"),
            ("ect1_scal", Scalable::Ect1, "ECT(1) and CE are of scalable senders"),
            ("ecn_scal", Scalable::AllEct, "all ECT are of scalable senders"),
        ]), "sch_pi2";
        /// L marks every packet above this threshold
        l_thresh: Span = Span::from_millis(1), some_time(), "sch_pi2";
        /// C is served first if its head is older than L's by more than this
        t_shift: Span = Span::from_millis(40), some_time(), "sch_pi2";
    }
}

/// Are packets marked, and are there two queues?
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum EcnMode {
    Drop,
    Mark,
    /// ECT(1) and CE wait in L.
    DualQEct1,
    /// All ECT wait in L.
    DualQ,
}

/// Which packets are of scalable senders.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Scalable {
    None,
    /// ECT(1) and CE.
    Ect1,
    AllEct,
}

/// The queue at work.
#[derive(Debug)]
pub struct Pi2<P> {
    queues: Queues<P>,
    /// p in units of 1/MAX_PROB.
    p: u32,
    /// The delay that the last update saw, in ticks.
    qdelay: u64,
    /// Of C only. It is compared with the backlog of both queues.
    rate: DepartureRate,
    scheduler: Scheduler,
    next_update: Time,
    config: Pi2Config,
}

impl<P: Pkt> Pi2<P> {
    fn update(&mut self) {
        let gain = |g: u32| i64::from(g.wrapping_mul(MAX_PROB / TICKS_PER_SECOND) >> GAIN_SHIFT);
        let backlog = self.queues.bytes();
        let (qdelay, last) = (self.rate.delay(backlog), self.qdelay);
        let target = to_ticks(self.config.target) as i64;
        let delta = ((qdelay as i64 - target) * gain(self.config.alpha))
            .wrapping_add((qdelay as i64 - last as i64) * gain(self.config.beta));
        // Of a change by 100 % or more, 32 bits are left; otherwise p stops at 0 and 1.
        let p = self.p.wrapping_add(delta as u32);
        let wrapped = if delta > 0 { p < self.p } else { p > self.p };
        self.p = match (wrapped, delta > 0) {
            (false, _) => p,
            (true, true) => MAX_PROB,
            (true, false) => 0,
        };
        if qdelay == 0 && last == 0 && backlog == 0 {
            // 98 % of p, in 32 bits: of a p above 1/98 only the rest is left.
            self.p = self.p.wrapping_mul(98) / 100;
        }
        self.qdelay = qdelay;
    }

    fn is_scalable(&self, ecn: Ecn) -> bool {
        match (self.config.ecn, self.config.scalable) {
            (EcnMode::Drop, _) | (_, Scalable::None) => false,
            (_, Scalable::Ect1) => ecn.is_l4s(),
            (_, Scalable::AllEct) => ecn.is_capable(),
        }
    }

    fn band(&self, ecn: Ecn) -> usize {
        match self.config.ecn {
            EcnMode::DualQ if ecn.is_capable() => L,
            EcnMode::DualQEct1 if ecn.is_l4s() => L,
            _ => C,
        }
    }
    /// Tells the link which of two queues it is; one queue alone has no name.
    fn report(&self, band: usize, cx: &mut QueueCx<P>) {
        if self.config.is_dual() {
            cx.band(band);
        }
    }

    /// Marks or drops an arriving packet; true if it must be dropped.
    fn drops(&self, pkt: &mut P, cx: &mut QueueCx<P>) -> bool {
        if self.queues.bytes() < MIN_BACKLOG {
            return false;
        }
        let len = pkt.frame_len();
        let p = match self.config.bytemode && len <= MTU_FRAME {
            true => self.p / MTU_FRAME * len,
            false => self.p,
        };
        let hit = |rng: &mut Rng, p| rng.u32() < p;
        if self.is_scalable(pkt.ecn()) {
            if hit(cx.rng, p) {
                cx.mark(pkt, MarkReason::Aqm);
            }
            return false;
        }
        let p = p / self.config.k;
        let both = hit(cx.rng, p) && hit(cx.rng, p);
        both && (self.config.ecn == EcnMode::Drop || !cx.mark(pkt, MarkReason::Aqm))
    }
}

impl<P: Pkt + Send> Aqm<P> for Pi2<P> {
    fn enqueue(&mut self, mut pkt: P, cx: &mut QueueCx<P>) {
        let band = self.band(pkt.ecn());
        self.report(band, cx);
        if self.queues.packets() >= self.config.limit as usize {
            return cx.drop(pkt, DropReason::Overflow);
        }
        if self.drops(&mut pkt, cx) {
            return cx.drop(pkt, DropReason::Aqm);
        }
        self.queues.of(band).push(pkt);
    }

    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        let turn = self.scheduler.pick(&self.queues, cx.now)?;
        self.report(turn.band, cx);
        if turn.band == C {
            let pkt = self.queues.c.pop()?;
            self.rate.departed(cx.now, pkt.frame_len(), self.queues.c.bytes());
            return Some(pkt);
        }
        // The threshold is for a queue: the last packet is never marked.
        let beyond = age(&self.queues.l, cx.now) > self.config.l_thresh && self.queues.l.len() > 1;
        let mut pkt = self.queues.l.pop()?;
        if beyond {
            cx.mark(&mut pkt, MarkReason::Step);
        }
        Some(pkt)
    }

    fn backlog(&self) -> Backlog {
        self.queues.backlog()
    }
    fn next_timer(&self) -> Time {
        self.next_update
    }
    fn on_timer(&mut self, cx: &mut QueueCx<P>) {
        self.update();
        self.next_update = self.config.next_update(cx.now);
    }
    /// One queue becomes two, or two become one: waiting packets are sorted again.
    fn change(&mut self, to: &dyn Any, _cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let config = to.downcast_ref::<Pi2Config>().ok_or_else(Vec::new)?;
        if config.is_dual() != self.config.is_dual() {
            let Queues { l, c } = &mut self.queues;
            return Err(in_order(std::iter::from_fn(|| l.pop().or_else(|| c.pop()))));
        }
        self.scheduler = Scheduler::TimeShift(config.t_shift);
        self.config = config.clone();
        Ok(())
    }
    fn bands(&self) -> &'static [&'static str] {
        if self.config.is_dual() { BANDS } else { &[] }
    }
    fn probe(&self, out: &mut dyn Gauges) {
        let p = f64::from(self.p) / f64::from(MAX_PROB);
        let base = p / f64::from(self.config.k);
        out.gauge("p_prime", base);
        out.gauge("p_c", base * base);
        out.gauge("p_l_coupled", p);
        out.gauge("qdelay_ms", from_ticks(self.qdelay).as_millis_f64());
    }
}

impl Described for Pi2Config {
    const NAME: &'static str = "pi2";
    const SUMMARY: &'static str =
        "PI controller with a square for classic senders, one queue or two (CoNEXT 2016)";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] =
        &[P_PRIME, P_C, P_L_COUPLED, gauge("qdelay_ms", "ms", "delay at the last update")];
}

impl Qdisc for Pi2Config {
    const SEPARATION: Separation = Separation::Single;
    const SEPARATION_WITH: &'static [(&'static str, Separation)] = &[
        ("dualq_ect1", Separation::Dual),
        ("dualq", Separation::Dual),
        ("ect1_scal", Separation::Coupled),
        ("ecn_scal", Separation::Coupled),
    ];
    const MARKING: Marking = Marking::With(&["ecn", "dualq", "dualq_ect1"]);

    fn room(&self, _link: LinkInfo) -> Room {
        Room::of_packets(self.limit)
    }
    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(Pi2 {
            queues: Queues::default(),
            p: 0,
            qdelay: 0,
            rate: DepartureRate::new(RATE_THRESHOLD),
            scheduler: Scheduler::TimeShift(self.t_shift),
            next_update: self.next_update(link.now),
            config: self.clone(),
        })
    }
}

impl Pi2Config {
    fn is_dual(&self) -> bool {
        matches!(self.ecn, EcnMode::DualQ | EcnMode::DualQEct1)
    }
    fn next_update(&self, now: Time) -> Time {
        jiffies::expiry(now, jiffies::from_span(self.tupdate))
    }
}
