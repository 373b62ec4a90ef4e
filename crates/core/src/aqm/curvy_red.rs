//! Curvy RED, the first coupled dual queue AQM (RFC 9332 Appendix B; the DualQ slides of 2015).
//!
//! Two queues share a link: ECT(1) and CE wait in L, all others in C. There is no controller and no
//! target: probabilities follow C's delay along a curve, so the delay grows with the load. C's delay,
//! smoothed, times the slope 2^`s_c` per second is sqrt(p_C): a packet is hit if that exceeds the
//! larger of two random numbers. C's delay times the steeper slope 2^`s_l` is the coupled p_L, for
//! which one random number is drawn. So p_C = (p_L/2^(s_l - s_c))^2, the coupling that gives a
//! Reno-like and a scalable sender the same rate. Besides, L marks natively while more than `t` waits
//! in it. `u` random numbers for each of those bend the curve more.
//!
//! | | 2015, the default | RFC 9332 B |
//! |---|---|---|
//! | delay that L sees | of C's head, now | the smoothed one (`smoothed`) |
//! | probabilities begin | at no delay | at `min_th` |
//! | native marking of L | above five full frames | above 1 ms of waiting (`t 1ms`) |
//! | scheduler | strict priority | time-shifted FIFO (`scheduler tshift`) |
//!
//! In 2015 L was for every ECN-capable packet, DCTCP's ECT(0) included: that is `any_ect`. The
//! slopes are those of both: p_C = 1 at 0.5 s, p_L = 1 at 0.25 s. The drafts write them as shifts
//! to the right, with the signs the other way round. Nothing is done about overload but tail drop.

use super::registry::{LinkInfo, Qdisc};
use super::scheduler::{BANDS, C, Coupled, Kind, Queues, SchedulerConfig, age};
use super::{Aqm, Backlog, Gauges, MarkReason, Pkt, QueueCx};
use crate::rng::Rng;
use crate::tc::{self, Args, Param, TcError, param};
use crate::time::Span;
use crate::units::MTU_FRAME;

/// The largest exponents and numbers that make sense.
const SLOPE_MAX: i32 = 16;
const EWMA_MAX: u32 = 16;
const U_MAX: u32 = 8;

/// The parameters, by their names in the drafts.
#[derive(Clone, PartialEq, Debug)]
pub struct CurvyRed {
    /// Of both queues together, as time at the rate that the link has at first.
    pub limit: Span,
    /// Slope of sqrt(p_C), as a power of two per second.
    pub s_c: i32,
    /// Slope of the coupled p_L, as a power of two per second.
    pub s_l: i32,
    /// The smoothed delay moves by 2^-f of the difference.
    pub f: u32,
    pub t: Threshold,
    /// Curviness.
    pub u: u32,
    pub min_th: Span,
    pub smoothed: bool,
    /// ECT(0) goes to L as well, not ECT(1) and CE only.
    pub any_ect: bool,
    pub scheduler: SchedulerConfig,
}

/// What L compares before it marks natively.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Threshold {
    /// The bytes left behind the packet.
    Bytes(u32),
    /// The packet's own wait.
    Time(Span),
}

impl Default for CurvyRed {
    fn default() -> Self {
        CurvyRed {
            limit: Span::from_millis(250),
            s_c: 1,
            s_l: 2,
            f: 5,
            t: Threshold::Bytes(5 * MTU_FRAME),
            u: 1,
            min_th: Span::ZERO,
            smoothed: false,
            any_ect: false, // as RFC 9332 Section 2.3
            scheduler: SchedulerConfig {
                kind: Kind::Strict,
                tshift: Span::from_millis(50),
                classic_protection: 10,
            },
        }
    }
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
    fn likely_next(&self) -> Option<&P> {
        self.coupled.queues.likely_next()
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

impl Qdisc for CurvyRed {
    const NAME: &'static str = "curvy_red";
    const SUMMARY: &'static str =
        "coupled dual queue whose probabilities are curves of the delay (RFC 9332 Appendix B)";
    const PARAMS: &'static [Param] = &{
        let [scheduler, tshift, protection] = SchedulerConfig::params("strict", "50ms");
        [
            param("limit", "TIME", "250ms", "what both queues hold at most, at the link's rate"),
            param("s_c", "BITS", "1", "slope of sqrt(p_C): 2^s_c per second of delay"),
            param("s_l", "BITS", "2", "slope of the coupled p_L: 2^s_l per second of delay"),
            param("f", "BITS", "5", "C's delay is smoothed with a weight of 2^-f"),
            param("t", "BYTES|TIME", "7570b", "beyond, L marks every packet: 7570b, 1ms"),
            param("u", "NUMBER", "1", "curviness: random numbers for L, twice as many for C"),
            param("min_th", "TIME", "0us", "delay where the curves begin"),
            param("smoothed", "", "", "L sees the smoothed delay of C"),
            param("instantaneous", "", "yes", "L sees the age of C's head"),
            param("l4s_ect", "", "yes", "ECT(1) and CE go to L"),
            param("any_ect", "", "", "ECT(0) goes there as well"),
            scheduler,
            tshift,
            protection,
        ]
    };

    fn parse(args: &mut Args) -> Result<Self, TcError> {
        let mut config = CurvyRed::default();
        while let Some(keyword) = args.keyword() {
            match keyword {
                "limit" => config.limit = args.time()?,
                "s_c" => config.s_c = parse_slope(args)?,
                "s_l" => config.s_l = parse_slope(args)?,
                "f" => config.f = args.number(0, EWMA_MAX)?,
                "t" => {
                    let expected = "a size with its unit such as 7570b or a time such as 1ms";
                    config.t = args.value(expected, |s| {
                        let has_unit = s.ends_with(|c: char| c.is_ascii_alphabetic());
                        let bytes = tc::parse_size(s).filter(|_| has_unit).map(Threshold::Bytes);
                        let time = tc::parse_time(s).filter(|_| has_unit).map(Threshold::Time);
                        bytes.or(time)
                    })?;
                }
                "u" => config.u = args.number(1, U_MAX)?,
                "min_th" => {
                    config.min_th = args.value("a time such as 0us or 10ms", tc::parse_time)?;
                }
                "smoothed" => config.smoothed = true,
                "instantaneous" => config.smoothed = false,
                "l4s_ect" => config.any_ect = false,
                "any_ect" => config.any_ect = true,
                _ if config.scheduler.parse(keyword, args)? => {}
                _ => return Err(args.unknown()),
            }
        }
        Ok(config)
    }

    fn canonical(&self) -> String {
        let t = match self.t {
            Threshold::Bytes(bytes) => format!("{bytes}b"),
            Threshold::Time(time) => tc::format_time(time),
        };
        format!(
            "limit {} s_c {} s_l {} f {} t {t} u {} min_th {} {} {} {}",
            tc::format_time(self.limit),
            self.s_c,
            self.s_l,
            self.f,
            self.u,
            tc::format_time(self.min_th),
            if self.smoothed { "smoothed" } else { "instantaneous" },
            if self.any_ect { "any_ect" } else { "l4s_ect" },
            self.scheduler.canonical(),
        )
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

fn parse_slope(args: &mut Args) -> Result<i32, TcError> {
    args.value(&format!("a whole number from -{SLOPE_MAX} to {SLOPE_MAX}"), |s| {
        s.parse().ok().filter(|slope| (-SLOPE_MAX..=SLOPE_MAX).contains(slope))
    })
}
