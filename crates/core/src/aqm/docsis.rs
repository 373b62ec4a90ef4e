//! Low Latency DOCSIS: the coupled dual queue of cable modems and CMTSs (DOCSIS 3.1 MULPI, Annexes M
//! to P).
//!
//! Packets marked ECT(1) or CE, or with the DSCP of non-queue-building traffic (RFC 9956), wait in L,
//! all others in C. C is controlled by DOCSIS-PIE (RFC 8034, see `docsis_pie.rs`), which drops with
//! p_C and never marks; its square root p' = sqrt(p_C) is coupled to L as p_CL = min(k p', 1), k = 2.
//! L marks on arrival with the larger of p_CL and its own ramp over the queuing delay ("immediate
//! AQM"), at regular spacing. Queue protection (RFC 9957, see `queue_protection.rs`) sends the packets
//! of flows that build a queue in L to C instead. L gets 230/256 of the bytes while both wait.
//!
//! Delays are estimates from the bytes that wait: for L at the aggregate rate AMSR, or by a virtual
//! queue; for C at what L's arrivals leave of it. AMSR is the rate of the link where the queue is
//! built, and as an operator's setting does not follow later changes of the link. Bytes are whole
//! Ethernet frames without FCS; there is no MAP interval, so no request waits for its grant.
//!
//! Where the sources differ, RFC 9957 and RFC 8034 come before the ns-3 model of CableLabs:
//!
//! | | here | ns-3 `docsis-ns3` |
//! |---|---|---|
//! | the highest MAXTH | none (RFC 9957, 4.1) | 65.535 ms |
//! | full buffer of C | looked at before PIE, which forgets its count (RFC 8034, A.3) | after it |
//! | L's part of the rate, for C's delay | what arrived in L (Annex O) | what left L |
//! | virtual queue | drained before it is realigned | drained from the last arrival on |
//! | scheduler | L:C = w:(1-w) of the bytes, w = 230/256 | w:1 |

use std::any::Any;

use super::docsis_pie::{self, DocsisPie};
use super::queue_protection::{QueueProtection, Thresholds};
use super::scheduler::{BANDS, C, L, P_C, P_L_COUPLED, P_PRIME, Queues, Wrr};
use super::{
    Aqm, Backlog, Divided, DropReason, Gauges, Grants, LinkInfo, MarkReason, Marking, Pkt, Qdisc,
    QueueCx, Room, Separation,
};
use crate::packet::Packet;
use crate::params::kinds::{
    MICROSECOND, Spec, choice, count, nested, params, some_time, time, value, words,
};
use crate::params::{Described, Gauge, Given, Refused, gauge};
use crate::tc;
use crate::time::{Span, Time};
use crate::units::Rate;

/// MAX_FRAME_SIZE, bytes: the longest frame of a DOCSIS network.
const MAX_FRAME_SIZE: u32 = 2000;
/// The L buffer holds so many of them even where 10 ms are less (MULPI C.2.2.9.11.4).
const MIN_LL_FRAMES: u64 = 20;
/// The scheduling weight counts in 1/256 (MULPI C.2.2.7.17.6).
const WEIGHT_ONE: u16 = 256;
/// MAXTH_us has 16 bits, LG_RANGE ends at 25 (Annex N).
const MAXTH_MAX: Span = Span::from_micros(u16::MAX as u64);
const LG_RANGE_MAX: u8 = 25;
/// The virtual queue is realigned at this interval, to an average of the real one over 2^7 of them
/// (Annex O).
const VQ_INTERVAL: Span = Span::from_micros(500);
const LG_VQ_EWMA: u32 = 7;

params! {
    /// The parameters. Defaults are those of DOCSIS 3.1 MULPI.
    pub struct DocsisConfig {
        /// aggregate maximum sustained rate, at which delays are estimated
        amsr: Option<Rate> = None, amsr(), "the rate of the link";
        /// k in p_CL = k sqrt(p_C), in steps of 0.1
        coupling_factor: u8 = 20, tenths(), "MULPI";
        /// share of the link granted to L, in 1/256
        weight: u8 = 230, count(1..=u8::MAX), "MULPI";
        /// target queueing delay of C
        target: Span = Span::from_millis(10), some_time(), "MULPI";
        /// what C holds at most: at amsr, 64kb
        classic_buffer: Buffer = Buffer::Time(Span::from_millis(100)), buffer(), "MULPI";
        /// largest backlog of L; as a time at least 40000 B
        ll_buffer: Buffer = Buffer::Time(Span::from_millis(10)), buffer(), "MULPI";
        /// packets with this DSCP go to the L queue as well
        nqb: Option<u8> = Some(45), count(0..=63).shown("DSCP").optional()
            .or("nonqb", None, "only ECT(1) and CE go to the L queue"), "RFC 9956";
        iaqm: bool = true, words([
            ("iaqm", true, "mark in L"),
            ("noiaqm", false, "do not mark in L"),
        ]), "MULPI";
        /// delay of L above which every packet is marked
        maxth: Span = Span::from_millis(1), time(MICROSECOND..=MAXTH_MAX).takes("a time from 1us to 65535us"), "MULPI";
        /// the ramp below it spans 2^NUMBER ns
        lg_range: u8 = 19, count(0..=LG_RANGE_MAX), "MULPI";
        /// delay of L: its bytes, or a virtual queue; auto: a virtual queue in a cable modem
        ll_estimator: Option<LlEstimator> = None, choice("auto|queue|vq", [
            ("auto", None), ("queue", Some(LlEstimator::Queue)), ("vq", Some(LlEstimator::Vq)),
        ]), "MULPI";
        qprotect: bool = true, words([
            ("qprotect", true, "send packets of queue-building flows to C"),
            ("noqprotect", false, "leave them in L"),
        ]), "MULPI";
        thresholds: Thresholds = Thresholds::default(), nested();
    }
}

/// The size of a buffer.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Buffer {
    Bytes(u32),
    /// So long at AMSR.
    Time(Span),
}

/// How long a packet will wait in L (Annex O).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum LlEstimator {
    /// `qdelayCoupledL`: the bytes in L, at AMSR.
    Queue,
    /// `qdelayCoupledV`: the bytes that would be there, were L alone and without grants (Annex N.3: for modems).
    Vq,
}

/// The native marking probability of L over its delay (`calcProbNative`, RFC 9957, 4.2.4).
#[derive(Copy, Clone, Debug)]
struct Ramp {
    minth: Span,
    range: Span,
}

impl Ramp {
    /// On a slow link the ramp starts at two of the longest frames (FLOOR).
    fn new(maxth: Span, lg_range: u8, amsr: Rate) -> Ramp {
        let range = Span(1 << lg_range);
        let floor = amsr.time_for(2 * u64::from(MAX_FRAME_SIZE));
        Ramp { minth: (maxth - range).max(floor), range }
    }
    #[inline]
    fn prob_native(&self, qdelay: Span) -> f64 {
        let beyond = qdelay - self.minth;
        (beyond.0 as f64 / self.range.0 as f64).min(1.0)
    }
}

/// The delay of L as if it had the link for itself, raised to what the real queue has beyond its allowance.
#[derive(Clone, Debug)]
struct VirtualQueue {
    /// Bytes that wait for requests and grants even if nobody sends too fast (`calcAllowedAQ`, Annex O).
    allowed: u64,
    delay: Span,
    /// When `delay` was true.
    at: Time,
    /// Bytes really in L, in 1/2^7.
    average: i64,
}

impl VirtualQueue {
    #[inline]
    fn drain(&mut self, now: Time) {
        self.delay = self.delay - now.since(self.at);
        self.at = now;
    }
    fn align(&mut self, now: Time, backlog: u64, amsr: Rate) {
        self.drain(now);
        self.average += backlog as i64 - (self.average >> LG_VQ_EWMA);
        let beyond = ((self.average >> LG_VQ_EWMA) as u64).saturating_sub(self.allowed);
        self.delay = self.delay.max(amsr.time_for(beyond));
    }
}

/// The queue at work.
#[derive(Debug)]
pub struct Docsis<P> {
    queues: Queues<P>,
    wrr: Wrr,
    pie: DocsisPie,
    ramp: Ramp,
    vq: VirtualQueue,
    protection: QueueProtection,
    amsr: Rate,
    /// Of the link when it began, which amsr is if nobody says another one.
    link_rate: Rate,
    /// Bytes.
    classic_buffer: u64,
    ll_buffer: u64,
    prob_native: f64,
    /// p_CL.
    prob_coupled: f64,
    /// Marks owed (`recur`).
    likelihood: f64,
    /// Bytes that entered L since the last update.
    arrived_l: u64,
    next_update: Time,
    next_alignment: Time,
    estimator: LlEstimator,
    grants: Option<Grants>,
    config: DocsisConfig,
}

impl<P: Pkt> Docsis<P> {
    pub fn new(config: DocsisConfig, link: LinkInfo) -> Self {
        let amsr = config.amsr.unwrap_or(link.rate);
        let least_ll = match config.ll_buffer {
            Buffer::Bytes(_) => 0,
            Buffer::Time(_) => MIN_LL_FRAMES * u64::from(MAX_FRAME_SIZE),
        };
        let classic_buffer = config.classic_buffer.bytes(amsr);
        let weight = i64::from(config.weight);
        Docsis {
            queues: Queues::default(),
            wrr: Wrr::new(weight, i64::from(WEIGHT_ONE) - weight),
            pie: DocsisPie::new(config.target, classic_buffer),
            ramp: Ramp::new(config.maxth, config.lg_range, amsr),
            vq: VirtualQueue { allowed: 0, delay: Span::ZERO, at: link.now, average: 0 },
            protection: QueueProtection::new(config.thresholds),
            amsr,
            link_rate: link.rate,
            classic_buffer,
            ll_buffer: config.ll_buffer.bytes(amsr).max(least_ll),
            prob_native: 0.0,
            prob_coupled: 0.0,
            likelihood: 0.0,
            arrived_l: 0,
            next_update: link.now + docsis_pie::INTERVAL,
            next_alignment: Time::NEVER,
            estimator: LlEstimator::Queue,
            grants: None,
            config,
        }
        .estimating(None)
    }

    /// With these grants, or none.
    fn estimating(mut self, grants: Option<Grants>) -> Self {
        let usual = if grants.is_some() { LlEstimator::Vq } else { LlEstimator::Queue };
        self.estimator = self.config.ll_estimator.unwrap_or(usual);
        self.next_alignment = match self.estimator {
            LlEstimator::Queue => Time::NEVER,
            LlEstimator::Vq => self.vq.at + VQ_INTERVAL,
        };
        self.vq.allowed = grants.map_or(0, |grants| {
            let requested = Rate::from_bps(self.amsr.bps().saturating_sub(grants.rate.bps()));
            requested.bytes_in(grants.wait) + grants.rate.bytes_in(grants.interval)
        });
        self.grants = grants;
        self
    }

    /// Of a packet of `bytes` that arrives in L.
    #[inline]
    fn qdelay_l(&mut self, now: Time, bytes: u64) -> Span {
        match self.estimator {
            LlEstimator::Queue => self.amsr.time_for(self.queues.l.bytes() + bytes),
            LlEstimator::Vq => {
                self.vq.drain(now);
                self.vq.delay += self.amsr.time_for(bytes);
                self.vq.delay
            }
        }
    }

    /// C has what L's arrivals leave of AMSR, and at least its weight (`qdelayCoupledC`, Annex O).
    fn qdelay_c(&self) -> Span {
        let amsr = self.amsr.bps();
        let share = u128::from(amsr) * u128::from(self.config.weight) / u128::from(WEIGHT_ONE);
        let arrived = self.arrived_l * 8_000_000_000 / docsis_pie::INTERVAL.0;
        Rate::from_bps(amsr - arrived.min(share as u64)).time_for(self.queues.c.bytes())
    }

    /// True with the given frequency, regularly spaced (RFC 9332, A.1).
    #[inline]
    fn recur(&mut self, probability: f64) -> bool {
        self.likelihood += probability;
        if self.likelihood <= 1.0 {
            return false;
        }
        self.likelihood -= 1.0;
        true
    }

    /// Marks a packet for L (Annex N `iaqm`). One that is not ECN-capable passes.
    #[inline]
    fn mark(&mut self, pkt: &mut P, cx: &mut QueueCx<P>) {
        if self.config.iaqm && self.recur(self.prob_native.max(self.prob_coupled)) {
            let native = self.prob_native >= self.prob_coupled;
            cx.mark(pkt, if native { MarkReason::Step } else { MarkReason::Aqm });
        }
    }

    #[inline]
    fn enqueue_l(&mut self, mut pkt: P, cx: &mut QueueCx<P>) {
        let bytes = pkt.frame_len();
        let qdelay = self.qdelay_l(cx.now, u64::from(bytes));
        self.prob_native = self.ramp.prob_native(qdelay);
        self.mark(&mut pkt, cx);
        let (flow, prob_native) = (pkt.flow_hash(), self.prob_native);
        let sanctioned = self.config.qprotect
            && self.protection.sanctions(cx.now, flow, bytes, qdelay, prob_native);
        if !sanctioned && self.has_room_l(bytes, qdelay) {
            self.arrived_l += u64::from(bytes);
            return self.queues.l.push(pkt);
        }
        self.vq.delay = self.vq.delay - self.amsr.time_for(u64::from(bytes));
        match sanctioned {
            true => self.enqueue_c(pkt, cx),
            false => cx.drop(pkt, DropReason::Overflow),
        }
    }

    fn has_room_l(&self, bytes: u32, qdelay: Span) -> bool {
        let usable = self.ll_buffer - u64::from(MAX_FRAME_SIZE);
        match self.estimator {
            LlEstimator::Queue => self.queues.l.bytes() < usable,
            LlEstimator::Vq => {
                qdelay < self.amsr.time_for(usable)
                    && self.queues.l.bytes() + u64::from(bytes) <= self.ll_buffer
            }
        }
    }

    #[inline]
    fn enqueue_c(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        cx.band(C);
        let (bytes, backlog) = (pkt.frame_len(), self.queues.c.bytes());
        if backlog + u64::from(bytes) > self.classic_buffer {
            self.pie.overflowed();
            return cx.drop(pkt, DropReason::Overflow);
        }
        match self.pie.drop_early(bytes, backlog, cx.rng) {
            true => cx.drop(pkt, DropReason::Aqm),
            false => self.queues.c.push(pkt),
        }
    }
}

/// A cable modem's grants are for L or for C.
impl<P: Pkt> Divided<P> for Docsis<P> {
    fn dequeue_from(&mut self, band: usize, cx: &mut QueueCx<P>) -> Option<P> {
        cx.band(band);
        self.queues.of(band).pop()
    }
    fn backlog_of(&self, band: usize) -> Backlog {
        let queue = if band == L { &self.queues.l } else { &self.queues.c };
        Backlog { packets: queue.len() as u64, bytes: queue.bytes() }
    }
    fn know_grants(&mut self, grants: Grants) {
        let link = LinkInfo { rate: self.link_rate, now: self.vq.at };
        *self = Docsis::new(self.config.clone(), link).estimating(Some(grants));
    }
}

impl<P: Pkt + Send> Aqm<P> for Docsis<P> {
    #[inline]
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        if pkt.ecn().is_l4s() || self.config.nqb == Some(pkt.dscp()) {
            cx.band(L);
            self.enqueue_l(pkt, cx);
        } else {
            self.enqueue_c(pkt, cx);
        }
    }
    #[inline]
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        let turn = self.wrr.pick(self.queues.l.is_empty(), self.queues.c.is_empty())?;
        let band = turn.band;
        cx.band(band);
        let pkt = self.queues.of(band).pop()?;
        self.wrr.sent(turn, u64::from(pkt.frame_len()));
        Some(pkt)
    }
    fn backlog(&self) -> Backlog {
        self.queues.backlog()
    }
    fn divided(&mut self) -> Option<&mut dyn Divided<P>> {
        Some(self)
    }
    fn next_timer(&self) -> Time {
        self.next_update.min(self.next_alignment)
    }
    fn on_timer(&mut self, cx: &mut QueueCx<P>) {
        if cx.now >= self.next_update {
            self.pie.update(self.qdelay_c());
            let k = f64::from(self.config.coupling_factor) / 10.0;
            self.prob_coupled = (k * self.pie.drop_prob().sqrt()).min(1.0);
            self.arrived_l = 0;
            self.next_update = cx.now + docsis_pie::INTERVAL;
        }
        if cx.now >= self.next_alignment {
            self.vq.align(cx.now, self.queues.l.bytes(), self.amsr);
            self.next_alignment = cx.now + VQ_INTERVAL;
        }
    }
    /// The backlog above a smaller buffer stays.
    fn change(&mut self, to: &dyn Any, cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let config = to.downcast_ref::<DocsisConfig>().ok_or_else(Vec::new)?.clone();
        let link = LinkInfo { rate: self.link_rate, now: cx.now };
        let fresh = Docsis::<P>::new(config, link).estimating(self.grants);
        self.pie.change(fresh.config.target, fresh.classic_buffer);
        self.protection.change(fresh.config.thresholds);
        if fresh.config.weight != self.config.weight {
            self.wrr = fresh.wrr;
        }
        self.vq.allowed = fresh.vq.allowed;
        if fresh.estimator != self.estimator {
            (self.vq, self.next_alignment) = (fresh.vq, fresh.next_alignment);
            self.estimator = fresh.estimator;
        }
        (self.ramp, self.amsr) = (fresh.ramp, fresh.amsr);
        (self.classic_buffer, self.ll_buffer) = (fresh.classic_buffer, fresh.ll_buffer);
        self.config = fresh.config;
        Ok(())
    }
    fn bands(&self) -> &'static [&'static str] {
        BANDS
    }

    /// `drop_prob` is PIE's, of a packet of 1024 B; it may exceed 1, where p' and p_C end. The score
    /// is what the highest one had left at the last update.
    fn probe(&self, out: &mut dyn Gauges) {
        let updated = self.next_update.saturating_sub(docsis_pie::INTERVAL);
        let drop_prob = self.pie.drop_prob();
        out.gauge("p_prime", drop_prob.sqrt().min(1.0));
        out.gauge("p_c", drop_prob.min(1.0));
        out.gauge("p_l_coupled", self.prob_coupled);
        out.gauge("prob_native", self.prob_native);
        out.gauge("drop_prob", drop_prob);
        out.gauge("burst_allowance_ms", self.pie.burst_allowance().as_millis_f64());
        out.gauge("vq_ms", self.vq.delay.as_millis_f64());
        out.gauge("qprotect_score_ms", self.protection.highest_score(updated).as_millis_f64());
        out.gauge("qprotect_sanctioned_packets", self.protection.sanctioned() as f64);
    }
}

impl Described for DocsisConfig {
    const NAME: &'static str = "docsis_ll";
    const SUMMARY: &'static str =
        "dual queue of Low Latency DOCSIS, coupled PIE with queue protection (RFC 9957)";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] = &[
        P_PRIME,
        P_C,
        P_L_COUPLED,
        gauge("prob_native", "", "native mark probability of the last packet of L"),
        gauge("drop_prob", "", "PIE's drop probability of a packet of 1024 B; it may exceed 1"),
        gauge("burst_allowance_ms", "ms", "remaining burst allowance"),
        gauge("vq_ms", "ms", "delay of the virtual queue"),
        gauge("qprotect_score_ms", "ms", "highest score at the last update"),
        gauge(
            "qprotect_sanctioned_packets",
            "packets",
            "packets that queue protection has sent to C",
        ),
    ];

    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        if !given.has("critical_ql") {
            self.thresholds.critical_ql = self.maxth;
        }
        Ok(())
    }
}

impl Qdisc for DocsisConfig {
    const SEPARATION: Separation = Separation::Dual;
    const MARKING: Marking = Marking::Always;

    fn room(&self, link: LinkInfo) -> Room {
        let docsis = Docsis::<Packet>::new(self.clone(), link);
        Room {
            rate: docsis.amsr,
            ..Room::of_bytes(docsis.classic_buffer.saturating_add(docsis.ll_buffer))
        }
    }
    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(Docsis::new(self.clone(), link))
    }
}

impl Buffer {
    fn bytes(self, amsr: Rate) -> u64 {
        match self {
            Buffer::Bytes(bytes) => u64::from(bytes),
            Buffer::Time(time) => amsr.bytes_in(time),
        }
    }
}

/// No unit of time is one of size as well; a bare number counts bytes.
fn buffer() -> Spec<Buffer> {
    value(
        "TIME|BYTES",
        "a time above zero such as 100ms, or a size above 2000 B such as 64kb",
        |s| match tc::parse_size(s) {
            Some(bytes) => (bytes > MAX_FRAME_SIZE).then_some(Buffer::Bytes(bytes)),
            None => tc::parse_time(s).filter(|&t| t > Span::ZERO).map(Buffer::Time),
        },
        |buffer| match buffer {
            Buffer::Bytes(bytes) => format!("{bytes}b"),
            Buffer::Time(time) => tc::format_time(*time),
        },
        |rng| match rng.below(2) {
            0 => format!("{}us", 1 + rng.below(200_000)),
            _ => format!("{}b", 2001 + rng.below(500_000)),
        },
        ["0ms", "2000b", "5parsecs"].map(str::to_owned).into(),
    )
}

fn amsr() -> Spec<Option<Rate>> {
    value(
        "RATE|link",
        "a rate such as 50mbit, or link",
        |s| match s {
            "link" => Some(None),
            _ => tc::parse_rate(s).filter(|rate| rate.bps() > 0).map(Some),
        },
        |rate| rate.map_or("link".to_owned(), |rate| format!("{}bit", rate.bps())),
        |rng| format!("{}kbit", 8 + rng.below(1_000_000)),
        vec!["0".to_owned(), "fast".to_owned()],
    )
}

/// DOCSIS carries the coupling factor in tenths, in one byte.
fn tenths() -> Spec<u8> {
    value(
        "NUMBER",
        "a number from 0 to 25.5",
        |s| {
            let (number, unit) = tc::parse_float(s)?;
            let tenths = libm::rint(number * 10.0);
            ((0.0..=255.0).contains(&tenths) && unit.is_empty()).then_some(tenths as u8)
        },
        |&tenths| (f64::from(tenths) / 10.0).to_string(),
        |rng| format!("{:.1}", 25.5 * rng.unit()),
        ["-1", "25.6", "2x"].map(str::to_owned).into(),
    )
}
