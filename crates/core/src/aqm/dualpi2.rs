//! DualPI2, the coupled dual queue of L4S (RFC 9332), as Linux has it (`sch_dualpi2`, 7.2).
//!
//! Two queues share a link. Packets of scalable senders (ECT(1) or CE) wait in L, all others in C.
//! One PI controller watches the longer of the two delays and moves a base probability p' so that
//! this delay stays at `target`. C sees p_C = p'^2, as drops or classic marks; L sees the coupled
//! p_L = k p', as marks. A Reno-like sender keeps about 1/sqrt(p_C) packets in flight, a scalable one
//! about 1/p_L; so squaring for the one and not for the other gives both about the same rate, though
//! L is almost empty. Besides, L marks whatever waited longer than `step_thresh` (the native
//! marking), and `classic_protection` percent of the bytes are always granted to C.
//!
//! Where Linux and RFC 9332, Appendix A differ, this is Linux:
//!
//! | | here and in Linux | RFC 9332 |
//! |---|---|---|
//! | native marking of L | step at 1 ms | ramp from 0.8 to 1.2 ms |
//! | which packets | at random, 32 bits | `recur()`, regular spacing |
//! | scheduler | weighted round robin with a credit | time-shifted FIFO or round robin |
//! | a change of p' by 100 % or more at once | wraps, see [`DualPi2::update`] | saturates |
//! | C drops instead of marking | from k p' > 1 | from p_C >= 1/k^2, the same point |

use std::any::Any;
use std::collections::VecDeque;

use super::queue::Queue;
use super::scheduler::{BANDS, C, L, P_C, P_L_COUPLED, P_PRIME, Queues, Wrr};
use super::{
    Aqm, Backlog, DropReason, Gauges, LinkInfo, MarkReason, Marking, Pkt, Qdisc, QueueCx, Room,
    Separation, drop_excess,
};
use crate::params::kinds::{
    MICROSECOND, Spec, count, number, params, percent, some_time, time, value, words,
};
use crate::params::{Described, Gauge, Given, Refused, gauge};
use crate::rng::Rng;
use crate::tc;
use crate::time::{Span, Time};
use crate::units::{self, MTU_FRAME};

/// No marks and no drops by p' while less than two full frames wait (Linux).
const MIN_BACKLOG: u64 = 2 * MTU_FRAME as u64;
/// Probability 1. A roll hits if 32 random bits are at most p (Linux).
const MAX_PROB: u32 = u32::MAX;
/// Gains are given in 1/256 Hz, 31 bits of it; the controller counts probability in 2^-32 per 64 ns
/// (Linux).
const GAINS_PER_HZ: f64 = 256.0;
const GAIN_MAX: u32 = (1 << 31) - 1;
const GAIN_SHIFT: u32 = 2;
const GAIN_NANOSECONDS: u64 = 64;
/// The kernel keeps tupdate and step_thresh in 32 bits of nanoseconds.
const SHORT_TIME_MAX: Span = Span::from_micros(u32::MAX as u64 / 1000);
/// max_rtt in typical_rtts, where only one is given (`tc`).
const MAX_TO_TYPICAL_RTT: u64 = 6;

params! {
    /// The parameters, by their names in `tc`.
    pub struct DualPi2Config {
        /// largest backlog of both queues, in packets
        limit: u32 = 10_000, count(1..=u32::MAX).shown("PACKETS"), "Linux; RFC 9332, A.1: 250 ms of the link's rate";
        /// kernel memory; without it 3028 B per packet of limit
        memlimit: u32 = default_memlimit(10_000), count(1..=u32::MAX).shown("BYTES"), "Linux";
        /// target queueing delay
        target: Span = Span::from_millis(15), some_time(), "as RFC 9332, A.1";
        /// time between two updates of the controller
        tupdate: Span = Span::from_millis(16), time(MICROSECOND..=SHORT_TIME_MAX), "Linux; A.1: min(target, RTT_max/3) = 15 ms";
        /// integral gain, in steps of 1/256
        alpha: u32 = 41, gain(), "Linux, 0.16 Hz; A.1: 0.1 tupdate/RTT_max^2 = 0.15 Hz";
        /// proportional gain, in steps of 1/256
        beta: u32 = 819, gain(), "Linux, 3.2 Hz; A.1: 0.3/RTT_max = 3 Hz";
        /// sets target, tupdate, alpha and beta for this longest RTT
        max_rtt: Option<Span> = None, some_time().optional(), "RFC 9332, A.1";
        /// sets them for this typical RTT; max_rtt/6 if only max_rtt is given
        typical_rtt: Option<Span> = None, some_time().optional(), "RFC 9332, A.1";
        /// k in p_L = k sqrt(p_C)
        coupling_factor: u8 = 2, number(1..=u8::MAX), "as RFC 9332, A.1";
        any_ect: bool = false, words([
            ("l4s_ect", false, "ECT(1) and CE go to the L queue"),
            ("any_ect", true, "ECT(0) goes there as well"),
        ]), "as RFC 9332, 2.3";
        /// L marks every packet above this delay, or with more packets behind it
        step_thresh: StepThresh = StepThresh::Time(Span::from_millis(1)), step_thresh(), "Linux; A.1: a ramp around 1 ms";
        /// smallest backlog of L for the step, in packets
        min_qlen_step: u32 = 0, count(0..=u32::MAX).shown("PACKETS"), "Linux; A.1: no native marks for a queue of one packet";
        drop_on_overload: bool = true, words([
            ("drop_on_overload", true, "above k p' = 1, drop ECT packets with probability p'^2"),
            ("overflow", false, "hold p' at 1/k and let the queue grow to its limit"),
        ]), "Linux";
        drop_enqueue: bool = false, words([
            ("drop_dequeue", false, "drop and mark at dequeue"),
            ("drop_enqueue", true, "drop and mark at enqueue"),
        ]), "Linux";
        /// share of the link granted to C
        classic_protection: u8 = 10, percent(0..=100), "Linux";
        split_gso: bool = true, words([
            ("split_gso", true, "cut packets of several segments (`gso` of a flow)"),
            ("no_split_gso", false, "leave them whole"),
        ]), "Linux";
    }
}

/// The measure that L compares with its step.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum StepThresh {
    /// The packet's own wait.
    Time(Span),
    /// The packets left behind it.
    Packets(u32),
}

/// The queue at work.
#[derive(Debug)]
pub struct DualPi2<P> {
    queues: Queues<P>,
    /// Kernel memory of the backlog; `None` until it may come near its limit.
    memory: Option<u64>,
    /// So many packets of at most [`MTU_FRAME`] surely fit; 0 once the memory is counted.
    fitting: usize,
    /// p' in units of 1/MAX_PROB.
    p: u32,
    /// C must not starve (RFC 9332, 4.2.2).
    scheduler: Wrr,
    /// The delay that the last update saw, in nanoseconds.
    last_qdelay: i64,
    next_update: Time,
    /// Of each packet in L: was L long enough when it came? Empty until `min_qlen_step` is above 0.
    apply_step: VecDeque<bool>,
    notes_step: bool,
    config: DualPi2Config,
    /// The gains in 2^-32 per 64 ns.
    alpha: i64,
    beta: i64,
}

/// The decision of the coupled algorithm about a packet.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Verdict {
    Pass,
    /// Mark it, or drop it if it is Not-ECT.
    Signal,
    Drop,
}

impl Verdict {
    /// Carries it out; true if the packet must be dropped.
    #[inline]
    fn drops<P: Pkt>(self, pkt: &mut P, cx: &mut QueueCx<P>) -> bool {
        match self {
            Verdict::Pass => false,
            Verdict::Signal => !cx.mark(pkt, MarkReason::Aqm),
            Verdict::Drop => true,
        }
    }
}

/// Rounded down as in the kernel: the default alpha loses 0.05 %.
fn per_tick(given: u32) -> i64 {
    (((u64::from(given) * u64::from(MAX_PROB)) >> GAIN_SHIFT) / 1_000_000_000) as i64
}

impl<P: Pkt> DualPi2<P> {
    pub fn new(config: DualPi2Config, now: Time) -> Self {
        DualPi2 {
            queues: Queues::default(),
            memory: None,
            fitting: config.fitting(),
            p: 0,
            scheduler: Wrr::protecting(config.classic_protection),
            last_qdelay: 0,
            next_update: now + config.tupdate,
            apply_step: VecDeque::new(),
            notes_step: config.min_qlen_step > 0,
            alpha: per_tick(config.alpha),
            beta: per_tick(config.beta),
            config,
        }
    }

    fn set(&mut self, config: DualPi2Config) {
        (self.alpha, self.beta) = (per_tick(config.alpha), per_tick(config.beta));
        self.fitting = if self.memory.is_some() { 0 } else { config.fitting() };
        self.config = config;
    }

    /// Beyond a number of packets that surely fit, or if this one is larger than usual.
    #[cold]
    fn is_full_for(&mut self, pkt: &P, held: u64) -> bool {
        self.queues.packets() as u64 + held >= u64::from(self.config.limit)
            || self.memory_used() + u64::from(pkt.truesize()) > u64::from(self.config.memlimit)
    }

    /// From the first call on the memory is counted with each packet.
    fn memory_used(&mut self) -> u64 {
        let queues = &self.queues;
        let waiting = queues.l.iter().chain(queues.c.iter());
        self.fitting = 0;
        *self.memory.get_or_insert_with(|| waiting.map(|pkt| u64::from(pkt.truesize())).sum())
    }

    /// The PI controller (RFC 9332, A.1 `dualpi2_update`, on both queues as in A.2), in the integers
    /// of Linux.
    fn update(&mut self, now: Time) {
        let qdelay = self.queues.longest_age(now).0 as i64;
        let integral = (qdelay - self.config.target.0 as i64).wrapping_mul(self.alpha);
        let proportional = (qdelay - self.last_qdelay).wrapping_mul(self.beta);
        let delta = integral.wrapping_add(proportional);
        self.last_qdelay = qdelay;
        // p' saturates at 0 and 1. But Linux cuts the change to 32 bits first, so of a change beyond
        // 100 % only the rest counts: when a queue 0.35 s old empties at once, p' loses 12 %.
        let change = (delta.unsigned_abs() / GAIN_NANOSECONDS) as u32;
        let p = &mut self.p;
        *p = if delta > 0 { p.saturating_add(change) } else { p.saturating_sub(change) };
        if !self.config.drop_on_overload {
            // L cannot be marked beyond 100 %; more for C alone would unbalance the rates.
            *p = (*p).min(MAX_PROB / u32::from(self.config.coupling_factor));
        }
    }

    /// A packet of this band comes in.
    #[inline(always)]
    fn keep(&mut self, pkt: &P, band: usize) {
        if let Some(memory) = &mut self.memory {
            *memory += u64::from(pkt.truesize());
        }
        if band == C {
            return self.queues.c.push_copy(pkt);
        }
        if self.notes_step {
            self.apply_step.push_back(self.queues.l.len() >= self.config.min_qlen_step as usize);
        }
        self.queues.l.push_copy(pkt);
    }

    /// The same after the decision that `drop_enqueue` takes here.
    #[inline(always)]
    fn judge(&mut self, mut pkt: P, band: usize, cx: &mut QueueCx<P>) {
        let backlog = self.queues.bytes() + cx.held.bytes;
        let verdict = self.config.verdict(self.p, band, backlog, cx.rng);
        match verdict.drops(&mut pkt, cx) {
            true => cx.drop(pkt, DropReason::Aqm),
            false => self.keep(&pkt, band),
        }
    }

    /// Drops and marks until a head may leave, which `take` takes; it is told the length. Looks at the head in place, so
    /// that it moves once: this is the simulator's hottest spot.
    #[inline(always)]
    fn send<T>(
        &mut self,
        cx: &mut QueueCx<P>,
        take: impl FnOnce(&mut Queue<P>, u64) -> T,
    ) -> Option<T> {
        let DualPi2 { queues, config, .. } = self;
        loop {
            let turn = self.scheduler.pick(queues.l.is_empty(), queues.c.is_empty())?;
            let band = turn.band;
            cx.band(band);
            let bytes = queues.bytes();
            let queue = queues.of(band);
            let behind = queue.len() - 1;
            let head = queue.front_mut()?;
            let len = u64::from(head.frame_len());
            let verdict = match config.drop_enqueue {
                true => Verdict::Pass,
                false => config.verdict(self.p, band, bytes - len, cx.rng),
            };
            let may_step =
                band == L && (!self.notes_step || self.apply_step.pop_front() != Some(false));
            let beyond_step = may_step && config.beyond_step(head, behind, cx.now);
            let dropped =
                verdict.drops(head, cx) || (beyond_step && !cx.mark(head, MarkReason::Step));
            if let Some(memory) = &mut self.memory {
                *memory -= u64::from(head.truesize());
            }
            if dropped {
                cx.drop(queue.pop()?, DropReason::Aqm);
                continue;
            }
            self.scheduler.sent(turn, len); // a dropped packet costs its queue nothing
            return Some(take(queue, len));
        }
    }
}

impl DualPi2Config {
    fn fitting(&self) -> usize {
        self.limit.min(self.memlimit / units::most_truesize(MTU_FRAME)) as usize
    }

    /// The decision by p' about a packet of this band while `backlog` bytes wait (RFC 9332, A.2
    /// `dualpi2_dequeue`; for overload see Section 4.2.3).
    #[inline(always)]
    fn verdict(&self, p: u32, band: usize, backlog: u64, rng: &mut Rng) -> Verdict {
        // At p' = 0 a roll of Linux still hits once in 2^32; an idle controller that draws no
        // random numbers is worth the difference.
        if p == 0 || backlog < MIN_BACKLOG {
            return Verdict::Pass;
        }
        let p_l = u64::from(p) * u64::from(self.coupling_factor);
        let overload = p_l > u64::from(MAX_PROB);
        let if_hit = |hit, verdict| if hit { verdict } else { Verdict::Pass };
        if band == C {
            // Under overload marks no longer help: whoever is hit is dropped.
            let verdict = if overload { Verdict::Drop } else { Verdict::Signal };
            if_hit(roll_squared(p, rng), verdict)
        } else if !overload {
            if_hit(u64::from(rng.u32()) <= p_l, Verdict::Signal)
        } else if self.drop_on_overload && roll_squared(p, rng) {
            // L shares the drops of C …
            Verdict::Drop
        } else {
            // … and has everything else marked.
            Verdict::Signal
        }
    }

    /// Is the head of L, about to leave so many others behind, beyond the step? (RFC 9332, A.1 `laqm`)
    #[inline(always)]
    fn beyond_step<P: Pkt>(&self, head: &P, behind: usize, now: Time) -> bool {
        match self.step_thresh {
            StepThresh::Time(thresh) => now.since(head.enqueued_at()) > thresh,
            StepThresh::Packets(thresh) => behind > thresh as usize,
        }
    }
}

/// Two independent rolls hit: probability p'^2. One random number holds both.
#[inline(always)]
fn roll_squared(p: u32, rng: &mut Rng) -> bool {
    let random = rng.u64();
    (random >> 32) as u32 <= p && random as u32 <= p
}

impl<P: Pkt + Send> Aqm<P> for DualPi2<P> {
    #[inline(always)]
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        self.enqueue_copy(&pkt, cx);
    }
    #[inline(always)]
    fn enqueue_copy(&mut self, pkt: &P, cx: &mut QueueCx<P>) {
        // RFC 9332, 2.3.
        let l4s = if self.config.any_ect { pkt.ecn().is_capable() } else { pkt.ecn().is_l4s() };
        let band = if l4s { L } else { C };
        cx.band(band);
        let len = pkt.frame_len();
        let may_be_full =
            self.queues.packets() + cx.held.packets as usize >= self.fitting || len > MTU_FRAME;
        if may_be_full && self.is_full_for(pkt, cx.held.packets) {
            return cx.drop(pkt.clone(), DropReason::Overflow);
        }
        match self.config.drop_enqueue {
            true => self.judge(pkt.clone(), band, cx),
            false => self.keep(pkt, band),
        }
    }
    #[inline(always)]
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        self.send(cx, |queue, _| queue.pop())?
    }
    #[inline(always)]
    fn dequeue_into(&mut self, departed: &mut Vec<P>, cx: &mut QueueCx<P>) -> bool {
        self.send(cx, |queue, len| queue.pop_into(len, departed)).is_some()
    }

    fn tells_drops_late(&self) -> bool {
        true
    }
    fn backlog(&self) -> Backlog {
        self.queues.backlog()
    }
    fn next_timer(&self) -> Time {
        self.next_update
    }
    fn on_timer(&mut self, cx: &mut QueueCx<P>) {
        self.update(cx.now);
        self.next_update = cx.now + self.config.tupdate;
    }
    /// Packets beyond a smaller limit are lost, those of C first.
    fn change(&mut self, to: &dyn Any, cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let config = to.downcast_ref::<DualPi2Config>().ok_or_else(Vec::new)?;
        if !self.notes_step && config.min_qlen_step > 0 {
            self.notes_step = true;
            self.apply_step.extend(std::iter::repeat_n(true, self.queues.l.len()));
        }
        if self.config.classic_protection != config.classic_protection {
            self.scheduler = Wrr::protecting(config.classic_protection);
        }
        self.set(config.clone());
        drop_excess(cx, |cx| {
            let is_over = self.queues.packets() > self.config.limit as usize
                || self.memory_used() > u64::from(self.config.memlimit);
            let band = if self.queues.c.is_empty() { L } else { C };
            cx.band(band);
            if is_over && band == L {
                self.apply_step.pop_front();
            }
            let pkt = if is_over { self.queues.of(band).pop() } else { None }?;
            if let Some(memory) = &mut self.memory {
                *memory -= u64::from(pkt.truesize());
            }
            Some(pkt)
        });
        Ok(())
    }
    fn bands(&self) -> &'static [&'static str] {
        BANDS
    }

    fn probe(&self, out: &mut dyn Gauges) {
        let p = f64::from(self.p) / f64::from(MAX_PROB);
        out.gauge("p_prime", p);
        out.gauge("p_c", p * p);
        out.gauge("p_l_coupled", (f64::from(self.config.coupling_factor) * p).min(1.0));
        out.gauge("credit_bytes", self.scheduler.credit_bytes());
    }
}

impl Described for DualPi2Config {
    const NAME: &'static str = "dualpi2";
    const SUMMARY: &'static str =
        "coupled dual queue of L4S (RFC 9332) with a squared PI controller";
    const GAUGES: &'static [Gauge] = &[
        P_PRIME,
        P_C,
        P_L_COUPLED,
        gauge(
            "credit_bytes",
            "B",
            "credit of the scheduler; C is next if positive; `tc -s` shows it times 100",
        ),
    ];

    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        if !given.has("memlimit") {
            self.memlimit = default_memlimit(self.limit);
        }
        self.tune(given)
    }
    /// A memlimit follows the limit that is given.
    fn finish_change(&mut self, given: &Given) -> Result<(), Refused> {
        if given.has("limit") { self.finish(given) } else { self.tune(given) }
    }
}

impl Qdisc for DualPi2Config {
    const SEPARATION: Separation = Separation::Dual;
    const MARKING: Marking = Marking::Always;
    const DROPS_WAITING: bool = true;
    const LIMITS_PACKETS: bool = true;

    fn splits(&self) -> bool {
        self.split_gso
    }
    fn room(&self, _link: LinkInfo) -> Room {
        Room { packets: self.limit.into(), memory: self.memlimit.into(), ..Room::ENDLESS }
    }
    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(DualPi2::new(self.clone(), link.now))
    }
}

impl DualPi2Config {
    /// The rules of RFC 9332, A.1 for a longest RTT, as `tc` rounds them; they replace what was given
    /// for target, tupdate, alpha and beta.
    fn tune(&mut self, given: &Given) -> Result<(), Refused> {
        let (max_rtt, typical_rtt) = (self.max_rtt.take(), self.typical_rtt.take());
        let (max, typical) = match (max_rtt, typical_rtt) {
            (None, None) => return Ok(()),
            (Some(max), None) => {
                (max, Span::from_micros((max.as_micros() / MAX_TO_TYPICAL_RTT).max(1)))
            }
            (None, Some(typical)) => (typical * MAX_TO_TYPICAL_RTT, typical),
            (Some(max), Some(typical)) => (max, typical),
        };
        if typical > max {
            let fix = format!("it must not exceed max_rtt {}", tc::format_time(max));
            return Err(given.refuse("typical_rtt", tc::format_time(typical), fix));
        }
        let max_us = max.as_micros() as f64;
        let tupdate_us = (typical.as_micros() as f64).min(max_us / 3.0).floor().max(1.0);
        let alpha = tupdate_us / max_us / max_us * 1e6 * f64::from(0.1_f32);
        let beta = f64::from(0.3_f32) / max_us * 1e6;
        let gains = (to_gain(alpha * GAINS_PER_HZ), to_gain(beta * GAINS_PER_HZ));
        let (Some(alpha), Some(beta)) = gains else {
            let keyword = if max_rtt.is_some() { "max_rtt" } else { "typical_rtt" };
            let rtt = max_rtt.unwrap_or(typical);
            let fix = "it takes alpha below 1/256 Hz, the smallest gain".to_owned();
            return Err(given.refuse(keyword, tc::format_time(rtt), fix));
        };
        self.target = typical;
        self.tupdate = Span::from_micros(tupdate_us as u64);
        (self.alpha, self.beta) = (alpha, beta);
        Ok(())
    }
}

/// The kernel's default: twice the bytes of `limit` full frames.
fn default_memlimit(limit: u32) -> u32 {
    limit.saturating_mul(2 * MTU_FRAME)
}

fn step_thresh() -> Spec<StepThresh> {
    value(
        "TIME|PACKETS",
        "a time above zero such as 1ms or a number of packets such as 5p",
        |s| {
            let packets = tc::parse_packets(s).filter(|&n| n > 0).map(StepThresh::Packets);
            let time = tc::parse_time(s).filter(|&t| t > Span::ZERO && t <= SHORT_TIME_MAX);
            time.map(StepThresh::Time).or(packets)
        },
        |thresh| match thresh {
            StepThresh::Time(time) => tc::format_time(*time),
            StepThresh::Packets(packets) => format!("{packets}p"),
        },
        |rng| format!("{}{}", 1 + rng.below(5000), if rng.below(2) == 0 { "us" } else { "p" }),
        ["0", "0p", "5s", "5P"].map(str::to_owned).into(),
    )
}

fn gain() -> Spec<u32> {
    value(
        "HZ",
        "a gain in Hz from 0.00390625 (1/256) to 8388607",
        |s| {
            let (hz, unit) = tc::parse_float(s)?;
            // tc multiplies in single precision.
            let gain = f64::from(hz as f32 * GAINS_PER_HZ as f32);
            if unit.is_empty() { to_gain(gain) } else { None }
        },
        |&gain| (f64::from(gain) / GAINS_PER_HZ).to_string(),
        |rng| format!("{:.3}", 0.01 + 10.0 * rng.unit()),
        ["0", "0.003", "8388608", "-1", "1Hz"].map(str::to_owned).into(),
    )
}

/// Rounds down; above 2^24 to the nearest gain that `tc` can read back in its single precision.
fn to_gain(gain: f64) -> Option<u32> {
    let gain = gain as u32 as f32 as u32;
    (1..=GAIN_MAX).contains(&gain).then_some(gain)
}
