//! Curvy RED, the first coupled dual queue AQM (RFC 9332, Appendix B; the DualQ slides of 2015).
//!
//! Two queues share a link: ECT(1) and CE wait in L, all others in C. There is no controller and no
//! target: probabilities follow C's delay along a curve, so the delay grows with the load. C's delay,
//! smoothed, times the slope 2^`s_c` per second is sqrt(p_C): a packet is hit if that exceeds the
//! larger of two random numbers. C's delay times the steeper slope 2^`s_l` is the coupled p_L, for
//! which one random number is drawn. So p_C = (p_L/2^(s_l - s_c))^2, the coupling that gives a
//! Reno-like and a scalable sender the same rate. Besides, L marks natively while more than `t` waits
//! in it. `u` random numbers for each of those bend the curve more.
//!
//! | | 2015, the default | RFC 9332, Appendix B |
//! |---|---|---|
//! | delay that L sees | of C's head, now | the smoothed one (`smoothed`) |
//! | probabilities begin | at no delay | at `min_th` |
//! | native marking of L | above five full frames | above 1 ms of waiting (`t 1ms`) |
//! | scheduler | strict priority | time-shifted FIFO (`scheduler tshift`) |
//!
//! In 2015 L was for every ECN-capable packet, DCTCP's ECT(0) included: that is `any_ect`. The
//! slopes are those of both: p_C = 1 at 0.5 s, p_L = 1 at 0.25 s. The drafts write them as shifts
//! to the right, with the signs the other way round. Nothing is done about overload but tail drop.

use std::any::Any;

use super::scheduler::{
    BANDS, C, Coupled, Kind, P_C, P_L, P_L_COUPLED, P_L_NATIVE, Queues, SchedulerConfig, age,
    bytes_of,
};
use super::{
    Aqm, Backlog, Gauges, LinkInfo, MarkReason, Marking, Pkt, Qdisc, QueueCx, Room, Separation,
};
use crate::params::kinds::{
    Spec, any_time, nested, number, params, signed, some_time, value, words,
};
use crate::params::{Described, Gauge, gauge};
use crate::rng::Rng;
use crate::tc;
use crate::time::Span;
use crate::units::MTU_FRAME;

/// The largest exponents and numbers that make sense.
const SLOPE_MAX: i32 = 16;
const EWMA_MAX: u32 = 16;
const U_MAX: u32 = 8;

params! {
    /// The parameters, by their names in RFC 9332, B.
    pub struct CurvyRed {
        /// largest backlog of both queues, as time at the link's first rate
        limit: Span = Span::from_millis(250), some_time(), "as RFC 9332, A.1";
        /// slope of sqrt(p_C): 2^s_c per second of delay
        s_c: i32 = 1, signed(-SLOPE_MAX..=SLOPE_MAX).shown("BITS"), "RFC 9332, Appendix B";
        /// slope of the coupled p_L: 2^s_l per second of delay
        s_l: i32 = 2, signed(-SLOPE_MAX..=SLOPE_MAX).shown("BITS"), "RFC 9332, Appendix B";
        /// C's delay is smoothed with a weight of 2^-f
        f: u32 = 5, number(0..=EWMA_MAX).shown("BITS"), "RFC 9332, Appendix B";
        /// L marks every packet above this backlog or delay: 7570b, 1ms
        t: Threshold = Threshold::Bytes(5 * MTU_FRAME), threshold(), "RFC 9332, Appendix B";
        /// curviness: random numbers for L, twice as many for C
        u: u32 = 1, number(1..=U_MAX), "RFC 9332, Appendix B";
        /// delay where the curves begin
        min_th: Span = Span::ZERO, any_time(), "RFC 9332, Appendix B";
        smoothed: bool = false, words([
            ("smoothed", true, "L sees the smoothed delay of C"),
            ("instantaneous", false, "L sees the age of C's head"),
        ]), "RFC 9332, Appendix B";
        any_ect: bool = false, words([
            ("l4s_ect", false, "ECT(1) and CE go to L"),
            ("any_ect", true, "ECT(0) goes there as well"),
        ]), "as RFC 9332, 2.3";
        scheduler: SchedulerConfig = SchedulerConfig {
            kind: Kind::Strict,
            tshift: Span::from_millis(50),
            ..SchedulerConfig::default()
        }, nested();
    }
}

/// The measure that L compares with its threshold.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Threshold {
    /// The bytes left behind the packet.
    Bytes(u32),
    /// The packet's own wait.
    Time(Span),
}

/// The queue at work.
#[derive(Debug)]
pub struct CurvyRedQueue<P> {
    coupled: Coupled<P>,
    law: Law,
}

#[derive(Debug)]
struct Law {
    /// C's delay in seconds: smoothed, and as L saw it last.
    smoothed: f64,
    delay: f64,
    /// The native probability of the last packet of L: 0 or 1.
    p_native: f64,
    config: CurvyRed,
}

impl Law {
    /// How high the curve is at this delay: delay times 2^slope.
    fn height(&self, delay: f64, slope: i32) -> f64 {
        let beyond = (delay - self.config.min_th.as_secs_f64()).max(0.0);
        libm::ldexp(beyond, slope)
    }
    fn sqrt_p_c(&self) -> f64 {
        self.height(self.smoothed, self.config.s_c)
    }
    fn p_coupled(&self) -> f64 {
        let delay = if self.config.smoothed { self.smoothed } else { self.delay };
        self.height(delay, self.config.s_l)
    }

    /// Marks the head of the band, about to leave; true if it must be dropped.
    fn drops<P: Pkt>(&mut self, queues: &mut Queues<P>, band: usize, cx: &mut QueueCx<P>) -> bool {
        if band == C {
            return self.drops_c(queues, cx);
        }
        self.mark_l(queues, cx);
        false
    }

    fn drops_c<P: Pkt>(&mut self, queues: &mut Queues<P>, cx: &mut QueueCx<P>) -> bool {
        let delay = age(&queues.c, cx.now).as_secs_f64();
        self.smoothed += libm::ldexp(delay - self.smoothed, -(self.config.f as i32));
        let hit = self.sqrt_p_c() > maxrand(2 * self.config.u, cx.rng);
        hit && !queues.c.front_mut().is_some_and(|pkt| cx.mark(pkt, MarkReason::Aqm))
    }

    fn mark_l<P: Pkt>(&mut self, queues: &mut Queues<P>, cx: &mut QueueCx<P>) {
        let Some(len) = queues.l.front().map(Pkt::frame_len) else { return };
        self.delay = age(&queues.c, cx.now).as_secs_f64();
        let native = match self.config.t {
            Threshold::Bytes(bytes) => queues.l.bytes() - u64::from(len) > u64::from(bytes),
            Threshold::Time(time) => age(&queues.l, cx.now) > time,
        };
        self.p_native = if native { 1.0 } else { 0.0 };
        let coupled = self.p_coupled() > maxrand(self.config.u, cx.rng);
        let Some(pkt) = queues.l.front_mut() else { return };
        if native {
            cx.mark(pkt, MarkReason::Step);
        }
        if coupled {
            cx.mark(pkt, MarkReason::Aqm);
        }
    }
}

/// The largest of `n` random numbers from 0 to 1.
fn maxrand(n: u32, rng: &mut Rng) -> f64 {
    (0..n).map(|_| rng.unit()).fold(0.0, f64::max)
}

/// The probability that `height` exceeds the largest of `n` random numbers.
fn probability(height: f64, n: u32) -> f64 {
    (0..n).fold(1.0, |p, _| p * height.min(1.0))
}

impl<P: Pkt + Send> Aqm<P> for CurvyRedQueue<P> {
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        self.coupled.enqueue(pkt, cx);
    }
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        self.coupled.dequeue(cx, |queues, band, cx| self.law.drops(queues, band, cx))
    }

    fn backlog(&self) -> Backlog {
        self.coupled.queues.backlog()
    }
    fn change(&mut self, to: &dyn Any, _cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let config = to.downcast_ref::<CurvyRed>().ok_or_else(Vec::new)?;
        self.coupled.change(&self.law.config.scheduler, &config.scheduler, config.limit);
        self.coupled.any_ect = config.any_ect;
        self.law.config = config.clone();
        Ok(())
    }
    fn bands(&self) -> &'static [&'static str] {
        BANDS
    }
    fn probe(&self, out: &mut dyn Gauges) {
        let law = &self.law;
        let p_coupled = probability(law.p_coupled(), law.config.u);
        out.gauge("p_c", probability(law.sqrt_p_c(), 2 * law.config.u));
        out.gauge("p_l_coupled", p_coupled);
        out.gauge("p_l_native", law.p_native);
        out.gauge("p_l", law.p_native.max(p_coupled));
        out.gauge("smoothed_qdelay_ms", law.smoothed * 1e3);
    }
}

impl Described for CurvyRed {
    const NAME: &'static str = "curvy_red";
    const SUMMARY: &'static str =
        "coupled dual queue whose probabilities are curves of the delay (RFC 9332, Appendix B)";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] = &[
        P_C,
        P_L_COUPLED,
        P_L_NATIVE,
        P_L,
        gauge("smoothed_qdelay_ms", "ms", "smoothed delay of C"),
    ];
}

impl Qdisc for CurvyRed {
    const SEPARATION: Separation = Separation::Dual;
    const MARKING: Marking = Marking::Always;

    fn room(&self, link: LinkInfo) -> Room {
        Room::of_bytes(bytes_of(self.limit, link.rate))
    }
    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        let mut coupled = Coupled::new(&self.scheduler, self.limit, link.rate);
        coupled.any_ect = self.any_ect;
        Box::new(CurvyRedQueue {
            coupled,
            law: Law { smoothed: 0.0, delay: 0.0, p_native: 0.0, config: self.clone() },
        })
    }
}

fn threshold() -> Spec<Threshold> {
    value(
        "BYTES|TIME",
        "a size with its unit such as 7570b or a time such as 1ms",
        |s| {
            let has_unit = s.ends_with(|c: char| c.is_ascii_alphabetic());
            let bytes = tc::parse_size(s).filter(|_| has_unit).map(Threshold::Bytes);
            let time = tc::parse_time(s).filter(|_| has_unit).map(Threshold::Time);
            bytes.or(time)
        },
        |t| match t {
            Threshold::Bytes(bytes) => format!("{bytes}b"),
            Threshold::Time(time) => tc::format_time(*time),
        },
        |rng| format!("{}{}", rng.below(20_000), if rng.below(2) == 0 { "us" } else { "b" }),
        vec!["5".to_owned(), "5parsecs".to_owned()],
    )
}
