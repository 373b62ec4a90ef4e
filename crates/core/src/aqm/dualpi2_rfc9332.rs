//! DualPI2 to the letter of RFC 9332 Appendix A; `dualpi2` is Linux's.
//!
//! Two queues share a link. ECT(1) and CE wait in L, all others in C. A PI controller moves a base
//! probability p' so that the longer of the two delays stays at `target`. C drops, or marks, with
//! p_C = p'^2. L marks with the larger of the coupled p_CL = k p' and its own native probability, a
//! ramp from 0 at `min_th` to 1 at `min_th` + `range`. From p_CL = `p_lmax` on, L is overloaded: it
//! drops with p_C too. From p_C = 1/k^2 on, C drops ECT packets as well.
//!
//! Which packets are hit is decided by `recur`: probabilities are summed up, and a packet is hit
//! each time the sum exceeds 1. So the spacing is regular and no random numbers are needed; `random`
//! takes them instead. The pseudocode leaves the scheduler open; the default is the weighted round
//! robin of Linux, so that the two differ in the laws only.
//!
//! Where the pseudocode leaves a choice: a delay is that of the packet at the head; `th_len` counts
//! the packet in hand, so a packet alone gets no native mark; p' is kept between 0 and 1, and p_CL
//! at most 1.

use super::fifo::Queue;
use super::registry::{LinkInfo, Qdisc};
use super::scheduler::{BANDS, C, Coupled, Kind, L, Queues, SchedulerConfig, age};
use super::{Aqm, Backlog, Gauges, MarkReason, Pkt, QueueCx};
use crate::rng::Rng;
use crate::tc::{self, Args, Param, TcError, param};
use crate::time::{Span, Time};

/// Gains derived from an RTT are kept to so many steps per Hz.
const GAIN_STEPS: f64 = 1e6;

/// The parameters, by their names in RFC 9332 A.1 or else in `tc`'s `dualpi2`.
#[derive(Clone, PartialEq, Debug)]
pub struct DualPi2Rfc9332 {
    /// Of both queues together, as time at the rate that the link has at first.
    pub limit: Span,
    pub coupling_factor: u8,
    pub target: Span,
    pub tupdate: Span,
    /// In Hz.
    pub alpha: f64,
    /// In Hz.
    pub beta: f64,
    pub min_th: Span,
    pub range: Span,
    pub th_len: u32,
    pub p_lmax: f64,
    pub random: bool,
    pub scheduler: SchedulerConfig,
}

impl Default for DualPi2Rfc9332 {
    fn default() -> Self {
        let mut config = DualPi2Rfc9332 {
            limit: Span::from_millis(250),
            coupling_factor: 2,
            target: Span::from_millis(15),
            tupdate: Span::ZERO,
            alpha: 0.0,
            beta: 0.0,
            min_th: Span::from_micros(800),
            range: Span::from_micros(400),
            th_len: 1,
            p_lmax: 1.0,
            random: false,
            scheduler: SchedulerConfig {
                kind: Kind::Wrr,
                tshift: Span::from_millis(30), // twice the target
                classic_protection: 10,        // as in Linux
            },
        };
        config.tune(RTT_MAX);
        config
    }
}

/// Worst RTT expected.
const RTT_MAX: Span = Span::from_millis(100);

/// The queue at work.
#[derive(Debug)]
pub struct DualQ<P> {
    coupled: Coupled<P>,
    law: Law,
    next_update: Time,
}

#[derive(Debug)]
struct Law {
    /// The base probability p'.
    p: f64,
    /// The delay that the last update saw, in seconds.
    prevq: f64,
    /// The sums of `recur`, one for each queue.
    count: [f64; 2],
    /// The native probability of the last packet of L.
    p_native: f64,
    config: DualPi2Rfc9332,
}

impl Law {
    fn k(&self) -> f64 {
        f64::from(self.config.coupling_factor)
    }
    fn p_c(&self) -> f64 {
        self.p * self.p
    }
    fn p_cl(&self) -> f64 {
        (self.k() * self.p).min(1.0)
    }
    fn p_cmax(&self) -> f64 {
        (1.0 / (self.k() * self.k())).min(1.0)
    }

    /// `dualpi2_update`, with the longer of the two delays.
    fn update(&mut self, delay: Span) {
        let curq = delay.as_secs_f64();
        let integral = self.config.alpha * (curq - self.config.target.as_secs_f64());
        let proportional = self.config.beta * (curq - self.prevq);
        self.p = (self.p + integral + proportional).clamp(0.0, 1.0);
        self.prevq = curq;
    }

    /// `laqm`: the native probability of L.
    fn laqm<P: Pkt>(&self, l: &Queue<P>, now: Time) -> f64 {
        let age = age(l, now);
        let beyond = age - self.config.min_th;
        if l.len() <= self.config.th_len as usize || age <= self.config.min_th {
            0.0
        } else if beyond >= self.config.range {
            1.0
        } else {
            beyond.0 as f64 / self.config.range.0 as f64
        }
    }

    /// `recur`: true in the share `likelihood` of the calls.
    fn recur(&mut self, band: usize, likelihood: f64, rng: &mut Rng) -> bool {
        if self.config.random {
            return rng.unit() < likelihood;
        }
        let count = &mut self.count[band];
        *count += likelihood;
        let hit = *count > 1.0;
        if hit {
            *count -= 1.0;
        }
        hit
    }

    /// Marks the head of the band, about to leave, as `dualpi2_dequeue` (A.2) wants it; true if it
    /// must be dropped.
    fn drops<P: Pkt>(&mut self, queues: &mut Queues<P>, band: usize, cx: &mut QueueCx<P>) -> bool {
        let (p_c, p_cl) = (self.p_c(), self.p_cl());
        if band == C {
            let hit = self.recur(C, p_c, cx.rng);
            let overload = p_c >= self.p_cmax();
            return hit && (overload || !mark(&mut queues.c, MarkReason::Aqm, cx));
        }
        if p_cl < self.config.p_lmax {
            self.p_native = self.laqm(&queues.l, cx.now);
            if self.recur(L, self.p_native.max(p_cl), cx.rng) {
                let native = self.p_native > p_cl;
                mark(&mut queues.l, if native { MarkReason::Step } else { MarkReason::Aqm }, cx);
            }
            return false;
        }
        let dropped = self.recur(L, p_c, cx.rng);
        if !dropped && self.recur(L, p_cl, cx.rng) {
            mark(&mut queues.l, MarkReason::Aqm, cx);
        }
        dropped
    }
}

/// Marks the head of a queue.
fn mark<P: Pkt>(queue: &mut Queue<P>, why: MarkReason, cx: &mut QueueCx<P>) -> bool {
    queue.front_mut().is_some_and(|pkt| cx.mark(pkt, why))
}

impl<P: Pkt + Send> Aqm<P> for DualQ<P> {
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
    fn next_timer(&self) -> Time {
        self.next_update
    }
    fn on_timer(&mut self, cx: &mut QueueCx<P>) {
        self.law.update(self.coupled.queues.longest_age(cx.now));
        self.next_update = cx.now + self.law.config.tupdate;
    }
    fn bands(&self) -> &'static [&'static str] {
        BANDS
    }
    fn probe(&self, out: &mut dyn Gauges) {
        let law = &self.law;
        out.gauge("p_prime", law.p);
        out.gauge("p_c", law.p_c());
        out.gauge("p_l_coupled", law.p_cl());
        out.gauge("p_l_native", law.p_native);
        out.gauge("p_l", law.p_native.max(law.p_cl()));
    }
}

impl Qdisc for DualPi2Rfc9332 {
    const NAME: &'static str = "dualpi2_rfc9332";
    const SUMMARY: &'static str =
        "DualPI2 to the letter of RFC 9332 Appendix A: ramp, regular spacing, limit as time";
    const PARAMS: &'static [Param] = &{
        let [scheduler, tshift, protection] = SchedulerConfig::params("wrr", "30ms");
        [
            param("limit", "TIME", "250ms", "what both queues hold at most, at the link's rate"),
            param("coupling_factor", "NUMBER", "2", "k in p_L = k sqrt(p_C)"),
            param("target", "TIME", "15ms", "delay that the controller aims at"),
            param("max_rtt", "TIME", "", "sets tupdate, alpha and beta for this worst RTT, 100ms"),
            param("tupdate", "TIME", "15ms", "time between two updates; min(target, max_rtt/3)"),
            param("alpha", "HZ", "0.15", "integral gain; 0.1 tupdate/max_rtt^2"),
            param("beta", "HZ", "3", "proportional gain; 0.3/max_rtt"),
            param("min_th", "TIME", "800us", "delay where the ramp of L begins"),
            param("range", "TIME", "400us", "length of the ramp, 0us for a step"),
            param("th_len", "PACKETS", "1", "no native mark in an L of so many packets"),
            param("p_lmax", "PROBABILITY", "1", "coupled probability from which L drops too"),
            param("recur", "", "yes", "hits at regular spacing"),
            param("random", "", "", "hits at random"),
            scheduler,
            tshift,
            protection,
        ]
    };

    fn parse(args: &mut Args) -> Result<Self, TcError> {
        let mut config = DualPi2Rfc9332::default();
        let mut rtt_max = RTT_MAX;
        let (mut tupdate, mut alpha, mut beta) = (None, None, None);
        while let Some(keyword) = args.keyword() {
            match keyword {
                "limit" => config.limit = args.time()?,
                "coupling_factor" => {
                    config.coupling_factor = args.number(1, 255)? as u8;
                }
                "target" => config.target = args.time()?,
                "max_rtt" => rtt_max = args.time()?,
                "tupdate" => tupdate = Some(args.time()?),
                "alpha" => alpha = Some(args.value(GAIN, parse_number)?),
                "beta" => beta = Some(args.value(GAIN, parse_number)?),
                "min_th" => config.min_th = args.value(TIME, tc::parse_time)?,
                "range" => config.range = args.value(TIME, tc::parse_time)?,
                "th_len" => config.th_len = args.count(0)?,
                "p_lmax" => {
                    config.p_lmax = args.value("a probability above 0, at most 1", |s| {
                        parse_number(s).filter(|&p| 0.0 < p && p <= 1.0)
                    })?;
                }
                "recur" => config.random = false,
                "random" => config.random = true,
                _ if config.scheduler.parse(keyword, args)? => {}
                _ => return Err(args.unknown()),
            }
        }
        config.tune(rtt_max);
        if let Some(tupdate) = tupdate {
            config.set_tupdate(tupdate, rtt_max);
        }
        config.alpha = alpha.unwrap_or(config.alpha);
        config.beta = beta.unwrap_or(config.beta);
        Ok(config)
    }

    fn canonical(&self) -> String {
        format!(
            "limit {} coupling_factor {} target {} tupdate {} alpha {} beta {} min_th {} range {} \
             th_len {} p_lmax {} {} {}",
            tc::format_time(self.limit),
            self.coupling_factor,
            tc::format_time(self.target),
            tc::format_time(self.tupdate),
            self.alpha,
            self.beta,
            tc::format_time(self.min_th),
            tc::format_time(self.range),
            self.th_len,
            self.p_lmax,
            if self.random { "random" } else { "recur" },
            self.scheduler.canonical(),
        )
    }

    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(DualQ {
            coupled: Coupled::new(&self.scheduler, self.limit, link.rate),
            law: Law { p: 0.0, prevq: 0.0, count: [0.0; 2], p_native: 0.0, config: self.clone() },
            next_update: link.now + self.tupdate,
        })
    }
}

impl DualPi2Rfc9332 {
    /// The rules of A.1 for a worst RTT.
    fn tune(&mut self, rtt_max: Span) {
        self.beta = rounded(0.3 / rtt_max.as_secs_f64());
        let third = Span::from_micros((rtt_max.as_micros() / 3).max(1));
        self.set_tupdate(self.target.min(third), rtt_max);
    }
    fn set_tupdate(&mut self, tupdate: Span, rtt_max: Span) {
        let rtt_max = rtt_max.as_secs_f64();
        self.tupdate = tupdate;
        self.alpha = rounded(0.1 * tupdate.as_secs_f64() / (rtt_max * rtt_max));
    }
}

fn rounded(gain: f64) -> f64 {
    libm::round(gain * GAIN_STEPS) / GAIN_STEPS
}

const GAIN: &str = "a gain in Hz from 0 up";
const TIME: &str = "a time such as 800us or 1ms";

fn parse_number(text: &str) -> Option<f64> {
    tc::parse_float(text).filter(|&(n, unit)| unit.is_empty() && n >= 0.0).map(|(n, _)| n)
}
