//! RED, Random Early Detection (Floyd and Jacobson 1993), as Linux has it (`sch_red` and `red.h`,
//! 7.2), with the thresholds and tables that `tc` computes.
//!
//! It decides when a packet arrives, on an exponential average of the backlog in bytes. Below `min`
//! nothing happens. From there to `max` packets are marked (or dropped) with a probability that rises
//! from 0 to max_p, at intervals that are uniform from 1 to 1/p rather than geometric, so that marks
//! spread evenly over the flows. From `max` on every packet is marked. `adaptive` (Floyd, Gummadi and
//! Shenker 2001) moves max_p so that the average stays in the middle.
//!
//! Three things one should know of Linux:
//!
//! * While the queue is idle, the average decays as if small packets had been sent. That begins when
//!   an empty RED is asked for a packet. A network device does ask; a shaper (HTB, TBF) does not, and
//!   neither does a link here: then the average stands still until the next arrival.
//! * Where it decays, it does so 15.6 times slower than the paper has it: `tc` counts the table's time
//!   in 64 ns, the kernel looks it up in microseconds.
//! * `tc` from iproute2 5.7 on passes `adaptive` in a way that does not start the kernel's timer, so
//!   max_p stays where it was. Here it adapts, as it does with an older `tc` and in published runs.

use super::queue::Queue;
use super::{
    Aqm, Backlog, DropReason, Gauges, LinkInfo, MarkReason, Marking, Pkt, Qdisc, QueueCx, Room,
    Separation,
};
use crate::math;
use crate::params::kinds::{Spec, number, params, rate, real, size, words};
use crate::params::{Described, Gauge, Given, Refused, gauge};
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::units::Rate;

/// How often max_p moves (Floyd 2001 and Linux).
const ADAPT_INTERVAL: Span = Span::from_millis(500);
/// Floyd 2001: max_p stays in 1 to 50 %, in 2^-32; it rises by min(1 %, max_p/4) and falls by 10 %.
const ONE_PERCENT: u32 = 42_949_673;
const MAX_P_LOW: u32 = ONE_PERCENT;
const MAX_P_HIGH: u32 = 50 * ONE_PERCENT;
/// Entries of the table of decays, and the largest one: beyond, nothing is left of an average.
const CELLS: usize = 256;
const DECAY_MAX: u8 = 31;
/// `tc` makes the table's range shorter than so many cells.
const RANGE: f64 = 512.0;
/// `tc` counts time in units of 64 ns.
const TICKS_PER_US: f64 = 1000.0 / 64.0;

params! {
    /// The parameters, by their names in `tc`, which fills in those not given. Zero stands for that.
    pub struct RedConfig {
        /// largest backlog; required
        limit: u32 = 0, bytes(), "";
        /// average backlog at which random marking begins; max/3
        min: u32 = 0, bytes(), "tc, after Floyd's advice of 1997";
        /// average backlog at which every packet is marked; 3 min, or limit/4
        max: u32 = 0, bytes(), "tc, after Floyd's advice of 1997";
        /// average packet size; required
        avpkt: u32 = 0, bytes(), "";
        /// burst to tolerate, which sets the weight of the average; (2 min + max)/(3 avpkt)
        burst: u32 = 0, number(1..=u32::MAX).shown("PACKETS").default(""), "tc, after Floyd's advice of 1997";
        /// rate of the link, for the decay while idle
        bandwidth: Rate = Rate::from_bps(10_000_000), rate(), "tc";
        /// max_p: marking probability when the average reaches max
        probability: f64 = 0.02, real(
            "NUMBER", "a number above 0, at most 1", |p| p > 0.0 && p <= 1.0, (0.001, 1.0)
        ), "tc, after Floyd's advice of 1997";
        adaptive: bool = false, words([
            ("adaptive", true, "move max_p so that the average stays between the thresholds"),
            ("adaptative", true, "the same"),
        ]), "tc";
        ecn: bool = false, words([("ecn", true, "mark instead of dropping")]), "tc";
        harddrop: bool = false, words([("harddrop", true, "drop above max, even with ecn")]), "tc";
        nodrop: bool = false, words([("nodrop", true, "with ecn: accept packets that cannot be marked")]), "tc";
    }
}

fn bytes() -> Spec<u32> {
    size(1..=u32::MAX).default("")
}

/// What `tc` makes of the parameters for the kernel.
#[derive(Clone, Debug)]
pub struct RedTable {
    /// The average's weight is 2^-wlog.
    pub wlog: u32,
    /// In 2^-32.
    pub max_p: u32,
    /// A cell of the table is 2^scell_log microseconds of idling …
    pub scell_log: u32,
    /// … after which the average is shifted right by so many bits.
    pub decay: [u8; CELLS],
}

impl RedTable {
    /// # Errors
    /// The keyword at fault and what it takes instead.
    pub fn new(config: &RedConfig) -> Result<Self, (&'static str, String)> {
        RedTable::counting(config, 1)
    }

    /// The same where the thresholds count so many bytes each.
    pub(super) fn counting(config: &RedConfig, unit: u32) -> Result<Self, (&'static str, String)> {
        let (min, max) = (config.min, config.max);
        if max < min {
            return Err(("max", format!("it takes min ({min}) or more")));
        }
        let low = min.wrapping_mul(unit);
        let wlog = wlog(config, low).ok_or_else(|| match low < config.avpkt {
            true => ("min", format!("it takes {} or more", config.avpkt.div_ceil(unit))),
            false => {
                ("burst", format!("it takes more packets, or a min below {} avpkt", config.burst))
            }
        })?;
        let bits = |threshold: u32| 32 - threshold.leading_zeros();
        if bits(max) + wlog >= 32 {
            return Err(("max", format!("it takes fewer than {} bytes", 1_u32 << (31 - wlog))));
        }
        let apart = max.wrapping_mul(unit).wrapping_sub(low);
        let plog = plog(apart, config.probability)
            .ok_or_else(|| ("probability", "it takes more for thresholds so far apart".into()))?;
        let (scell_log, decay) = decays(config, wlog);
        // A probability of 1 overflows to 0, which makes the kernel take a power of two instead.
        let max_p = match (config.probability * 4_294_967_296.0) as u64 as u32 {
            0 => (u32::MAX >> plog).wrapping_mul(delta(config)),
            max_p => max_p,
        };
        Ok(RedTable { wlog, max_p, scell_log, decay })
    }

    pub(super) fn thresholds(&self, config: &RedConfig) -> Thresholds {
        let (min, max, wlog) = (config.min, config.max, self.wlog);
        Thresholds { min, max, wlog, slope: self.max_p / delta(config) }
    }

    /// An average at the end of an idle time.
    pub(super) fn decayed(&self, avg: u64, idle: Span) -> u64 {
        let us = idle.as_micros().min((CELLS as u64 - 1) << self.scell_log);
        match self.decay[(us >> self.scell_log) as usize] {
            // Too short for the table: a straight line, at most down to a half.
            0 => {
                let lost = (u128::from(avg) * u128::from(us)) >> self.scell_log;
                avg.saturating_sub(lost as u64).max(avg >> 1)
            }
            shift => avg >> shift,
        }
    }
}

fn delta(config: &RedConfig) -> u32 {
    (config.max - config.min).max(1)
}

/// The averaged backlog of one queue, and when the next random mark is due.
#[derive(Clone, Debug)]
pub(super) struct Average {
    /// In bytes times 2^wlog.
    pub scaled: u64,
    /// Packets since the last random mark; -1 while there is no random marking.
    count: i64,
    /// Where the next mark is due: see [`Average::hits`].
    draw: u32,
}

/// From where packets are marked at random and from where all are, in bytes, and how steeply.
#[derive(Copy, Clone, Debug)]
pub(super) struct Thresholds {
    pub min: u32,
    pub max: u32,
    pub wlog: u32,
    /// max_p/delta.
    pub slope: u32,
}

impl Average {
    pub const NONE: Average = Average { scaled: 0, count: -1, draw: 0 };

    /// A packet arrives to a backlog of so many bytes.
    #[inline]
    pub fn add(&mut self, backlog: u64, wlog: u32) {
        self.scaled = self.scaled - (self.scaled >> wlog) + backlog;
    }

    #[inline]
    pub fn verdict(&mut self, at: &Thresholds, rng: &mut Rng) -> Verdict {
        let scaled = |threshold: u32| u64::from(threshold) << at.wlog;
        if self.scaled < scaled(at.min) {
            self.count = -1;
            return Verdict::Pass;
        }
        if self.scaled >= scaled(at.max) {
            self.count = -1;
            return Verdict::Hard;
        }
        self.between(at, rng)
    }

    /// Of a queue whose parameters are others: the next random mark stays.
    pub fn emptied(&self) -> Average {
        Average { draw: self.draw, ..Average::NONE }
    }

    /// The average is outside the thresholds, so the random marks begin anew.
    pub fn restart(&mut self) {
        self.count = -1;
    }

    /// It is between them.
    #[inline]
    pub fn between(&mut self, at: &Thresholds, rng: &mut Rng) -> Verdict {
        self.count += 1;
        // Uniform from 0 to delta/max_p.
        let roll = |rng: &mut Rng| rng.u32() / at.slope.max(1);
        if self.count == 0 {
            self.draw = roll(rng);
            return Verdict::Pass;
        }
        if !self.hits(at) {
            return Verdict::Pass;
        }
        self.count = 0;
        self.draw = roll(rng);
        Verdict::Random
    }

    /// p = max_p (avg - min)/delta; a mark is due when count p reaches a random number from 0 to 1.
    /// The draw is that number times delta/max_p, so that nothing need be divided here.
    fn hits(&self, at: &Thresholds) -> bool {
        let beyond = (self.scaled - (u64::from(at.min) << at.wlog)) >> at.wlog;
        beyond * self.count as u64 >= u64::from(self.draw)
    }
}

/// The least averaging that lets a burst pass which ends an idle time: burst + 1 - min/avpkt <=
/// (1 - (1-W)^burst)/W for W = 2^-wlog, though never less than a half.
fn wlog(config: &RedConfig, min: u32) -> Option<u32> {
    let burst = f64::from(config.burst);
    let excess = burst + 1.0 - f64::from(min) / f64::from(config.avpkt);
    let fits = |wlog: &u32| {
        let w = 1.0 / (1_u64 << wlog) as f64;
        excess <= (1.0 - math::pow(1.0 - w, burst)) / w
    };
    if excess < 1.0 { None } else { (1..32).find(fits) }
}

/// The kernel's older form of the probability: p = delta/2^plog.
fn plog(delta: u32, probability: f64) -> Option<u32> {
    if delta == 0 {
        return Some(0);
    }
    let slope = probability / f64::from(delta);
    (0..32).find(|&plog| slope * (1_u64 << plog) as f64 > 1.0)
}

/// After a time t the average is to be multiplied by (1-W)^(t/(time of a packet)); the table has the
/// exponents to base two, though it multiplies with the natural logarithm, as `tc` does.
fn decays(config: &RedConfig, wlog: u32) -> (u32, [u8; CELLS]) {
    let packet_us = 1e6 * f64::from(config.avpkt) / (config.bandwidth.bps() / 8) as f64;
    let packet_ticks = (packet_us * TICKS_PER_US).ceil();
    let per_tick = -math::ln(1.0 - 1.0 / (1_u64 << wlog) as f64) / packet_ticks;
    let range = f64::from(DECAY_MAX) / per_tick;
    // `tc` takes any range with the last one, which is negative in C.
    let fits = |log: &u32| range / f64::from(1_u32 << log) < RANGE;
    let scell_log = (0..31).find(fits).unwrap_or(31);
    let mut decay = [DECAY_MAX; CELLS];
    for (i, decay) in decay.iter_mut().enumerate().take(CELLS - 1) {
        let exponent = ((i as u64) << scell_log) as f64 * per_tick;
        *decay = exponent.min(f64::from(DECAY_MAX)) as u8;
    }
    (scell_log, decay)
}

/// The queue at work.
#[derive(Debug)]
pub struct Red<P> {
    queue: Queue<P>,
    average: Average,
    idle_since: Option<Time>,
    max_p: u32,
    thresholds: Thresholds,
    next_adaptation: Time,
    table: RedTable,
    config: RedConfig,
}

/// What the average says of an arriving packet.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Pass,
    /// At random, between the thresholds.
    Random,
    /// At or beyond `max`.
    Hard,
}

impl<P: Pkt> Red<P> {
    pub fn new(config: RedConfig, table: RedTable, now: Time) -> Self {
        let next_adaptation = if config.adaptive { now + ADAPT_INTERVAL } else { Time::NEVER };
        Red {
            queue: Queue::new(),
            average: Average::NONE,
            idle_since: Some(now),
            max_p: table.max_p,
            thresholds: table.thresholds(&config),
            next_adaptation,
            table,
            config,
        }
    }

    /// Adaptive RED (Floyd 2001 Section 4): the average is to stay in the middle fifth.
    fn adapt(&mut self, now: Time) {
        let avg = self.average.scaled;
        let avg = self.idle_since.map_or(avg, |since| self.table.decayed(avg, now.since(since)));
        let avg = avg >> self.table.wlog;
        let delta = delta(&self.config);
        let fifth = u64::from(delta / 5);
        let min = u64::from(self.config.min);
        if avg > min + 3 * fifth && self.max_p <= MAX_P_HIGH {
            self.max_p += ONE_PERCENT.min(self.max_p / 4);
        } else if avg < min + 2 * fifth && self.max_p >= MAX_P_LOW {
            self.max_p = self.max_p / 10 * 9;
        }
        self.thresholds.slope = (self.max_p + delta / 2) / delta;
    }
}

impl<P: Pkt + Send> Aqm<P> for Red<P> {
    #[inline]
    fn enqueue(&mut self, mut pkt: P, cx: &mut QueueCx<P>) {
        match self.idle_since.take() {
            Some(since) => {
                self.average.scaled = self.table.decayed(self.average.scaled, cx.now.since(since));
            }
            None => self.average.add(self.queue.bytes(), self.table.wlog),
        }
        let verdict = self.average.verdict(&self.thresholds, cx.rng);
        let may_mark = self.config.ecn && !(self.config.harddrop && verdict == Verdict::Hard);
        let signalled = verdict == Verdict::Pass
            || may_mark && (cx.mark(&mut pkt, MarkReason::Aqm) || self.config.nodrop);
        if !signalled {
            cx.drop(pkt, DropReason::Aqm);
        } else if self.queue.bytes() + u64::from(pkt.frame_len()) > u64::from(self.config.limit) {
            cx.drop(pkt, DropReason::Overflow);
        } else {
            self.queue.push(pkt);
        }
    }

    #[inline]
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        let pkt = self.queue.pop();
        if pkt.is_none() {
            self.idle_since.get_or_insert(cx.now);
        }
        pkt
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.queue.len() as u64, bytes: self.queue.bytes() }
    }
    fn next_timer(&self) -> Time {
        self.next_adaptation
    }
    fn on_timer(&mut self, cx: &mut QueueCx<P>) {
        self.adapt(cx.now);
        self.next_adaptation = cx.now + ADAPT_INTERVAL;
    }
    fn next_len(&self) -> Option<u32> {
        self.queue.front().map(P::frame_len)
    }
    fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("avg_bytes", (self.average.scaled >> self.table.wlog) as f64);
        out.gauge("max_p", f64::from(self.max_p) / 4_294_967_296.0);
    }
}

impl Described for RedConfig {
    const NAME: &'static str = "red";
    const SUMMARY: &'static str = "random early detection on the average backlog (RED)";
    const REQUIRED: &'static str = "limit 150000 avpkt 1000";
    const GAUGES: &'static [Gauge] = &[
        gauge("avg_bytes", "B", "average backlog"),
        gauge("max_p", "", "probability of a mark when the average reaches max"),
    ];

    /// `tc` sends the kernel all of them, and the kernel then starts again with an empty queue.
    fn merged(&self, to: &Self, _given: &Given) -> Option<Result<Self, Refused>> {
        Some(Ok(to.clone()))
    }
    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        self.fill_in(given)?;
        RedTable::new(self)
            .map_err(|(keyword, fix)| given.refuse(keyword, self.value_of(keyword), fix))?;
        Ok(())
    }
}

impl Qdisc for RedConfig {
    const SEPARATION: Separation = Separation::Single;
    const MARKING: Marking = Marking::With(&["ecn"]);

    fn room(&self, _link: LinkInfo) -> Room {
        Room::of_bytes(self.limit)
    }
    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        let table = RedTable::new(self).expect("a RED that parse refuses: see RedTable::new");
        Box::new(Red::new(self.clone(), table, link.now))
    }
}

impl RedConfig {
    /// `tc`'s values for what was not given, after Floyd's advice of 1997.
    fn fill_in(&mut self, given: &Given) -> Result<(), Refused> {
        for (keyword, value) in [("limit", self.limit), ("avpkt", self.avpkt)] {
            if value == 0 {
                return Err(given.missing(keyword, "write for example limit 150000 avpkt 1000"));
            }
        }
        if self.nodrop && !self.ecn {
            return Err(given.missing("ecn", "nodrop has a meaning only beside it"));
        }
        if self.max == 0 {
            self.max = if self.min > 0 { self.min.saturating_mul(3) } else { self.limit / 4 };
        }
        if self.min == 0 {
            self.min = self.max / 3;
        }
        if self.burst == 0 {
            let (min, max) = (u64::from(self.min), u64::from(self.max));
            self.burst = ((2 * min + max) / (3 * u64::from(self.avpkt))) as u32;
        }
        Ok(())
    }

    fn value_of(&self, keyword: &str) -> String {
        match keyword {
            "min" => self.min.to_string(),
            "max" => self.max.to_string(),
            "burst" => self.burst.to_string(),
            _ => self.probability.to_string(),
        }
    }
}
