//! PIE, Proportional Integral controller Enhanced (RFC 8033), as Linux has it (`sch_pie`, 7.2).
//!
//! Every `tupdate`, a PI controller moves the drop probability p so that the delay of the queue
//! stays at `target`:
//! p += alpha (delay - target) + beta (delay - last delay).
//! The rate of a Reno-like sender goes with 1/sqrt(p), so at small p the same step of p moves the
//! queue more; hence alpha and beta are divided by a number that grows as p shrinks. An arriving
//! packet is dropped with probability p, or marked if `ecn` is set and p is at most 10 %. Drops keep
//! their distance: p is summed up since the last one, and below a sum of 0.85 nothing is dropped,
//! from 8.5 on everything.
//!
//! Where Linux and RFC 8033 differ, this is Linux:
//!
//! | | here and in Linux | RFC 8033 |
//! |---|---|---|
//! | delay | how long the last packet sent had waited; with `dq_rate_estimator` as in the RFC | backlog divided by the departure rate |
//! | period | `tupdate` in whole jiffies and one more, see [`jiffies`] | 15 ms |
//! | p above 1 | not cut, see [`Law::update`] | cut at 1 |
//! | decay of p when idle | 1/64 per period | 2 % |
//! | burst allowance of 150 ms | each departure subtracts the time since the one before | counted in periods |
//! | delay above 250 ms | p grows by 2 % per period besides | no rule |
//! | sum from 8.5 on, packet marked | the sum stays: all are marked until a drop | restarts |
//!
//! In the kernel the first update comes half a second after the qdisc is created. The queue that a run begins with is
//! older, so its timer runs; one that comes during the run waits.

use std::any::Any;

use super::jiffies::HZ;
use super::queue::Queue;
use super::{
    Aqm, Backlog, DropReason, Gauges, LinkInfo, MarkReason, Marking, Overflow, Pkt, Qdisc, QueueCx,
    Room, Separation, drop_excess, jiffies,
};
use crate::params::kinds::{nested, number, params, some_time, words};
use crate::params::{Described, Gauge, gauge};
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::units::MTU_FRAME;

/// Probability 1 (Linux: 56 bits).
pub const MAX_PROB: u64 = u64::MAX >> 8;
/// Delays are counted in ticks of 64 ns (Linux).
const TICK_SHIFT: u32 = 6;
const TICKS_PER_SECOND: u64 = 1_000_000_000 >> TICK_SHIFT;
/// Gains are given in 1/16 Hz (`tc`), up to 2 Hz.
const GAIN_SHIFT: u32 = 4;
const GAIN_MAX: u32 = 32;
/// RFC 8033, 4.1: no drop while less than two full frames wait.
const MIN_BACKLOG: u64 = 2 * MTU_FRAME as u64;
/// Nor, as long as p is below 20 %, while the delay is below half the target.
const SAFE_PROB: u64 = MAX_PROB / 5;
/// Section 5.4: between these sums of p, drop at random.
const ACCU_LOW: u64 = MAX_PROB / 100 * 85;
const ACCU_HIGH: u64 = MAX_PROB / 2 * 17;
/// Section 5.1: above 10 %, ECT packets are dropped.
const ECN_PROB: u64 = MAX_PROB / 10;
/// Section 5.5: from p = 10 % on, one update adds at most 2 %. Linux adds another 2 % beyond [`LARGE_DELAY`].
const LARGEST_STEP: u64 = MAX_PROB / 50;
/// Linux: beyond, p grows faster.
const LARGE_DELAY: u64 = Span::from_millis(250).0 >> TICK_SHIFT;
/// Section 4.4.
const MAX_BURST: u64 = Span::from_millis(150).0 >> TICK_SHIFT;
/// Section 5.2: bytes over which the departure rate is measured (2^14).
const RATE_THRESHOLD: u64 = 16_384;
/// Idle, p loses one part in so many per update; the RFC has 50.
const DECAY: u64 = 64;

params! {
    /// The parameters that PIE and FQ-PIE share, by the names in `tc`.
    pub struct PieParams {
        /// target queueing delay
        target: Span = Span::from_millis(15), some_time(), "as RFC 8033, 4.2";
        /// time between two updates, in jiffies of 4 ms plus one
        tupdate: Span = Span::from_millis(15), some_time(), "as RFC 8033, but for the jiffies";
        /// integral gain in 1/16 Hz
        alpha: u32 = 2, number(1..=GAIN_MAX), "0.125 Hz, as RFC 8033";
        /// proportional gain in 1/16 Hz
        beta: u32 = 20, number(1..=GAIN_MAX), "1.25 Hz, as RFC 8033";
        ecn: bool = false, words([
            ("ecn", true, "mark ECT packets instead of dropping them while p is small"),
            ("noecn", false, "drop all alike"),
        ]), "Linux";
        /// p is for full frames, smaller packets have less.
        bytemode: bool = false, words([
            ("bytemode", true, "drop with a probability that grows with packet size"),
            ("nobytemode", false, "drop all sizes with the same probability"),
        ]), "Linux";
        dq_rate_estimator: bool = false, words([
            ("dq_rate_estimator", true, "delay from backlog and departure rate (RFC 8033)"),
            ("no_dq_rate_estimator", false, "delay from the packets' own wait"),
        ]), "Linux; RFC 8033, 5.2: yes";
    }
}

/// The delay of a queue by its departure rate (RFC 8033, 5.2), in the integers of Linux.
#[derive(Clone, Debug)]
pub struct DepartureRate {
    threshold: u64,
    /// Since when, in ticks, and how many bytes; `None` between two measurements.
    measured: Option<(u64, u64)>,
    /// Bytes per tick times 256; 0 if nothing has been measured.
    average: u32,
}

impl DepartureRate {
    const SCALE: u32 = 8;

    pub fn new(threshold: u64) -> Self {
        DepartureRate { threshold, measured: None, average: 0 }
    }
    /// A packet left and `backlog` bytes remain. At the end of a measurement, its length in ticks.
    pub fn departed(&mut self, now: Time, len: u32, backlog: u64) -> Option<u64> {
        let now = ticks(now);
        if backlog >= self.threshold && self.measured.is_none() {
            self.measured = Some((now, 0));
        }
        let (since, bytes) = self.measured.as_mut()?;
        *bytes += u64::from(len);
        let took = (now - *since) as u32;
        if *bytes < self.threshold || took == 0 {
            return None;
        }
        let rate = ((*bytes << Self::SCALE) as u32) / took;
        self.average = match self.average {
            0 => rate,
            average => average - (average >> 3) + (rate >> 3),
        };
        self.measured = (backlog >= self.threshold).then_some((now, 0));
        Some(u64::from(took))
    }
    /// How long `backlog` bytes take to leave, in ticks; 0 if nothing has been measured.
    pub fn delay(&self, backlog: u64) -> u64 {
        let scaled = (backlog as u32) << Self::SCALE;
        u64::from(scaled.checked_div(self.average).unwrap_or(0))
    }
    fn is_known(&self) -> bool {
        self.average > 0
    }
}

/// The law without a queue: what PIE remembers of one.
#[derive(Clone, Debug)]
pub struct Law {
    /// The probability in units of 1/[`MAX_PROB`].
    pub p: u64,
    /// The sum of p since the last drop or mark at random; 0 while p is 0.
    accu: u64,
    /// Remaining burst allowance, in ticks.
    burst: u64,
    /// The delay now and at the last update, in ticks.
    qdelay: u64,
    last_qdelay: u64,
    /// When a packet left last, in ticks.
    last_departure: Option<u64>,
    rate: DepartureRate,
}

impl Default for Law {
    fn default() -> Self {
        Law {
            p: 0,
            accu: 0,
            burst: MAX_BURST,
            qdelay: 0,
            last_qdelay: 0,
            last_departure: None,
            rate: DepartureRate::new(RATE_THRESHOLD),
        }
    }
}

impl Law {
    /// May the packet enter a queue of `backlog` bytes? One that would be dropped is marked and enters, if it is
    /// ECT, ECN is on and p is at most `ecn_prob`.
    pub fn admits<P: Pkt>(
        &mut self,
        params: &PieParams,
        ecn_prob: u64,
        backlog: u64,
        pkt: &mut P,
        cx: &mut QueueCx<P>,
    ) -> bool {
        let drop = self.drop_early(params, backlog, pkt.frame_len(), cx.rng);
        let may_mark = params.ecn && self.p <= ecn_prob;
        let admitted = !drop || (may_mark && cx.mark(pkt, MarkReason::Aqm));
        if !admitted {
            self.dropped();
        }
        admitted
    }

    /// A packet was dropped, for whatever reason: the next one keeps its distance.
    pub fn dropped(&mut self) {
        self.accu = 0;
    }

    /// RFC 8033, 4.1 `drop_early`, with Section 5.4.
    fn drop_early(&mut self, params: &PieParams, backlog: u64, len: u32, rng: &mut Rng) -> bool {
        let short = self.qdelay < to_ticks(params.target) / 2 && self.p < SAFE_PROB;
        if self.burst > 0 || short || backlog < MIN_BACKLOG {
            return false;
        }
        let p = if params.bytemode && len <= MTU_FRAME {
            u64::from(len).wrapping_mul(self.p / u64::from(MTU_FRAME))
        } else {
            self.p
        };
        self.accu = if p == 0 { 0 } else { self.accu.wrapping_add(p) };
        if self.accu < ACCU_LOW {
            return false;
        }
        if self.accu >= ACCU_HIGH {
            return true;
        }
        let hit = rng.u64() >> 8 < p;
        if hit {
            self.accu = 0;
        }
        hit
    }

    /// A packet left, `backlog` bytes remain.
    pub fn departed<P: Pkt>(&mut self, params: &PieParams, pkt: &P, backlog: u64, now: Time) {
        let passed = if params.dq_rate_estimator {
            self.rate.departed(now, pkt.frame_len(), backlog)
        } else {
            let wait = ticks(now).saturating_sub(ticks(pkt.enqueued_at()));
            self.qdelay = if backlog > 0 { wait } else { 0 };
            self.last_departure.replace(ticks(now)).map(|last| ticks(now).saturating_sub(last))
        };
        self.burst = self.burst.saturating_sub(passed.unwrap_or(0));
    }

    /// RFC 8033, 4.2, on a queue of `backlog` bytes.
    pub fn update(&mut self, params: &PieParams, backlog: u64) {
        if params.dq_rate_estimator {
            self.qdelay = self.rate.delay(backlog);
        }
        let (qdelay, last) = (self.qdelay, self.last_qdelay);
        let gain = |g: u32| {
            ((u64::from(g) * (MAX_PROB / TICKS_PER_SECOND)) >> GAIN_SHIFT >> self.tune_bits())
                as i64
        };
        let integral =
            (qdelay as i64 - to_ticks(params.target) as i64).wrapping_mul(gain(params.alpha));
        let proportional = (qdelay as i64 - last as i64).wrapping_mul(gain(params.beta));
        let mut delta = integral.wrapping_add(proportional);
        if delta > LARGEST_STEP as i64 && self.p >= MAX_PROB / 10 {
            delta = LARGEST_STEP as i64;
        }
        if qdelay > LARGE_DELAY {
            delta = delta.wrapping_add(LARGEST_STEP as i64);
        }
        // p stops at 0, but not at 1: Linux stores it in 64 bits, of which 1 takes 56, and only looks for an
        // overflow. Under lasting overload p exceeds 1, and takes as long to come down.
        let saturated = delta > 0 && self.p.checked_add_signed(delta).is_none();
        self.p = match self.p.checked_add_signed(delta) {
            Some(p) => p,
            None if delta > 0 => MAX_PROB,
            None => 0,
        };
        let idle = qdelay == 0 && last == 0;
        if idle && backlog == 0 && !saturated {
            self.p -= self.p / DECAY;
        }
        self.last_qdelay = qdelay;
        let low = |delay| delay < to_ticks(params.target) / 2;
        let measured = !params.dq_rate_estimator || self.rate.is_known();
        if low(qdelay) && low(last) && self.p == 0 && measured {
            // The congestion is over: the next burst is a new one.
            *self = Law { p: self.p, qdelay, last_qdelay: qdelay, ..Law::default() };
        }
    }

    /// By how many bits the gains shrink: 1 below 10 %, and 2 more at each power of ten, down to
    /// 2^-11 below 0.0001 % (RFC 8033, 4.2).
    fn tune_bits(&self) -> u32 {
        if self.p >= MAX_PROB / 10 {
            return 0;
        }
        let powers = [100, 1_000, 10_000, 100_000, 1_000_000];
        1 + 2 * powers.iter().filter(|&power| self.p < MAX_PROB / power).count() as u32
    }

    /// Tells the probability, the delay and the remaining burst allowance.
    pub fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("p_c", self.p as f64 / MAX_PROB as f64);
        out.gauge("qdelay_ms", from_ticks(self.qdelay).as_millis_f64());
        out.gauge("burst_allowance_ms", from_ticks(self.burst).as_millis_f64());
    }
}

#[inline]
pub fn ticks(time: Time) -> u64 {
    time.0 >> TICK_SHIFT
}
#[inline]
pub fn to_ticks(span: Span) -> u64 {
    span.0 >> TICK_SHIFT
}
#[inline]
pub fn from_ticks(ticks: u64) -> Span {
    Span(ticks << TICK_SHIFT)
}

params! {
    /// The parameters, by their names in `tc`.
    pub struct PieConfig {
        /// largest backlog, in packets
        limit: u32 = 1000, number(1..=u32::MAX).shown("PACKETS"), "Linux";
        params: PieParams = PieParams::default(), nested();
    }
}

/// The queue at work.
#[derive(Debug)]
pub struct Pie<P> {
    queue: Queue<P>,
    law: Law,
    next_update: Time,
    config: PieConfig,
}

impl<P: Pkt + Send> Aqm<P> for Pie<P> {
    fn enqueue(&mut self, mut pkt: P, cx: &mut QueueCx<P>) {
        if self.queue.len() as u64 + cx.held.packets >= u64::from(self.config.limit) {
            self.law.dropped();
            return cx.drop(pkt, DropReason::Overflow);
        }
        let backlog = self.queue.bytes() + cx.held.bytes;
        if self.law.admits(&self.config.params, ECN_PROB, backlog, &mut pkt, cx) {
            self.queue.push(pkt);
        } else {
            cx.drop(pkt, DropReason::Aqm);
        }
    }
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        let pkt = self.queue.pop()?;
        self.law.departed(&self.config.params, &pkt, self.queue.bytes(), cx.now);
        Some(pkt)
    }
    fn backlog(&self) -> Backlog {
        Backlog { packets: self.queue.len() as u64, bytes: self.queue.bytes() }
    }
    fn next_timer(&self) -> Time {
        self.next_update
    }
    fn on_timer(&mut self, cx: &mut QueueCx<P>) {
        self.law.update(&self.config.params, self.queue.bytes() + cx.held.bytes);
        self.next_update = self.config.params.next_update(cx.now);
    }
    fn change(&mut self, to: &dyn Any, cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        self.config = to.downcast_ref::<PieConfig>().ok_or_else(Vec::new)?.clone();
        let limit = self.config.limit as usize;
        drop_excess(cx, |_| self.queue.pop_beyond(limit));
        Ok(())
    }
    fn probe(&self, out: &mut dyn Gauges) {
        self.law.probe(out);
    }
}

impl PieParams {
    /// Of a queue that is made `now`.
    pub fn first_update(&self, now: Time) -> Time {
        if now == Time::ZERO { self.next_update(now) } else { jiffies::expiry(now, HZ / 2) }
    }
    pub fn next_update(&self, now: Time) -> Time {
        jiffies::expiry(now, jiffies::from_span(self.tupdate))
    }
}

/// The gauges of [`Law::probe`].
pub const GAUGES: &[Gauge] = &[
    gauge("p_c", "", "drop or mark probability of a packet"),
    gauge("qdelay_ms", "ms", "present estimate of the delay"),
    gauge("burst_allowance_ms", "ms", "remaining burst allowance"),
];

impl Described for PieConfig {
    const NAME: &'static str = "pie";
    const SUMMARY: &'static str = "PI controller with tuned gains on the queue's delay (RFC 8033)";
    const GAUGES: &'static [Gauge] = GAUGES;
}

impl Qdisc for PieConfig {
    const SEPARATION: Separation = Separation::Single;
    const MARKING: Marking = Marking::With(&["ecn"]);
    const OVERFLOW: Overflow = Overflow::Counter("overlimit");
    const LIMITS_PACKETS: bool = true;

    fn room(&self, _link: LinkInfo) -> Room {
        Room::of_packets(self.limit)
    }
    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(Pie {
            queue: Queue::new(),
            law: Law::default(),
            next_update: self.params.first_update(link.now),
            config: self.clone(),
        })
    }
}
