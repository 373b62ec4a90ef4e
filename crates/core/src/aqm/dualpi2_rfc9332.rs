//! DualPI2 to the letter of RFC 9332, Appendix A; `dualpi2` is Linux's.
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

use super::queue::Queue;
use std::any::Any;

use super::scheduler::{
    BANDS, C, Coupled, L, P_C, P_L, P_L_COUPLED, P_L_NATIVE, P_PRIME, Queues, SchedulerConfig, age,
    bytes_of,
};
use super::{
    Aqm, Backlog, Gauges, LinkInfo, MarkReason, Marking, Pkt, Qdisc, QueueCx, Room, Separation,
};
use crate::params::kinds::{Spec, any_time, count, nested, number, params, real, some_time, words};
use crate::params::{Described, Gauge, Given, Refused};
use crate::rng::Rng;

use crate::time::{Span, Time};

/// Gains derived from an RTT are kept to so many steps per Hz.
const GAIN_STEPS: f64 = 1e6;

params! {
    /// The parameters, by their names in RFC 9332, A.1 or else in `tc`'s `dualpi2`.
    pub struct DualPi2Rfc9332 {
        /// largest backlog of both queues, as time at the link's first rate
        limit: Span = Span::from_millis(250), some_time(), "RFC 9332, A.1";
        /// k in p_L = k sqrt(p_C)
        coupling_factor: u8 = 2, number(1..=u8::MAX), "RFC 9332, A.1";
        /// target queueing delay
        target: Span = Span::from_millis(15), some_time(), "RFC 9332, A.1";
        /// sets tupdate, alpha and beta for this worst RTT, 100ms
        max_rtt: Option<Span> = None, some_time().optional(), "RFC 9332, A.1";
        /// time between two updates; min(target, max_rtt/3)
        tupdate: Span = Span::from_millis(15), some_time(), "RFC 9332, A.1";
        /// integral gain; 0.1 tupdate/max_rtt^2
        alpha: f64 = 0.15, gain(), "RFC 9332, A.1";
        /// proportional gain; 0.3/max_rtt
        beta: f64 = 3.0, gain(), "RFC 9332, A.1";
        /// delay where the ramp of L begins
        min_th: Span = Span::from_micros(800), any_time(), "RFC 9332, A.1";
        /// length of the ramp, 0us for a step
        range: Span = Span::from_micros(400), any_time(), "RFC 9332, A.1";
        /// no native mark in an L of so many packets
        th_len: u32 = 1, count(0..=u32::MAX).shown("PACKETS"), "RFC 9332, A.1";
        /// coupled probability from which L drops too
        p_lmax: f64 = 1.0, real("PROBABILITY", "a probability above 0, at most 1", |p| 0.0 < p && p <= 1.0, (0.01, 1.0)), "RFC 9332, A.1";
        random: bool = false, words([
            ("recur", false, "signals at regular spacing"),
            ("random", true, "signals at random"),
        ]), "RFC 9332, A.1";
        scheduler: SchedulerConfig = SchedulerConfig::default(), nested();
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
    fn next_timer(&self) -> Time {
        self.next_update
    }
    fn on_timer(&mut self, cx: &mut QueueCx<P>) {
        self.law.update(self.coupled.queues.longest_age(cx.now));
        self.next_update = cx.now + self.law.config.tupdate;
    }
    fn change(&mut self, to: &dyn Any, _cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let config = to.downcast_ref::<DualPi2Rfc9332>().ok_or_else(Vec::new)?;
        self.coupled.change(&self.law.config.scheduler, &config.scheduler, config.limit);
        self.law.config = config.clone();
        Ok(())
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

impl Described for DualPi2Rfc9332 {
    const NAME: &'static str = "dualpi2_rfc9332";
    const SUMMARY: &'static str =
        "DualPI2 to the letter of RFC 9332, Appendix A: ramp, regular spacing, limit as time";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] = &[P_PRIME, P_C, P_L_COUPLED, P_L_NATIVE, P_L];

    /// The rules of A.1 for a worst RTT.
    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        let rtt_max = self.max_rtt.take().unwrap_or(RTT_MAX);
        if !given.has("tupdate") {
            let third = Span::from_micros((rtt_max.as_micros() / 3).max(1));
            self.tupdate = self.target.min(third);
        }
        let rtt_max = rtt_max.as_secs_f64();
        if !given.has("alpha") {
            self.alpha = rounded(0.1 * self.tupdate.as_secs_f64() / (rtt_max * rtt_max));
        }
        if !given.has("beta") {
            self.beta = rounded(0.3 / rtt_max);
        }
        Ok(())
    }
    /// Only a worst RTT that is given sets others.
    fn finish_change(&mut self, given: &Given) -> Result<(), Refused> {
        if given.has("max_rtt") { self.finish(given) } else { Ok(()) }
    }
}

impl Qdisc for DualPi2Rfc9332 {
    const SEPARATION: Separation = Separation::Dual;
    const MARKING: Marking = Marking::Always;

    fn room(&self, link: LinkInfo) -> Room {
        Room::of_bytes(bytes_of(self.limit, link.rate))
    }
    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(DualQ {
            coupled: Coupled::new(&self.scheduler, self.limit, link.rate),
            law: Law { p: 0.0, prevq: 0.0, count: [0.0; 2], p_native: 0.0, config: self.clone() },
            next_update: link.now + self.tupdate,
        })
    }
}

fn rounded(gain: f64) -> f64 {
    libm::round(gain * GAIN_STEPS) / GAIN_STEPS
}

fn gain() -> Spec<f64> {
    real("HZ", "a gain in Hz from 0 up", |gain| gain >= 0.0, (0.0, 10.0))
}
