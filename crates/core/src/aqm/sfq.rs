//! Stochastic fairness queueing (McKenney 1990), as Linux has it (`sch_sfq`, 7.2).
//!
//! A hash sorts packets into at most `divisor` flows, of which `flows` may have packets at a time. Flows take turns by
//! deficit round robin; a new one joins at the end of the round. A flow holds at most `depth` packets. Beyond `limit` in
//! total, the longest flow loses its newest packet, or its oldest with `headdrop`. Every `perturb` seconds packets are
//! hashed anew, so that flows that collide do not stay together; packets may overtake each other then.
//!
//! With `redflowlimit` each flow runs RED on its own backlog. A flow without packets is forgotten, so its average does
//! not decay with time. With `headdrop` RED marks or drops the oldest packet of the flow.

use super::flow_hash::FlowHash;
use super::queue::Queue;
use super::red::{Average, RedConfig, RedTable, Thresholds, Verdict};
use super::{
    Aqm, Backlog, DropReason, LinkInfo, MarkReason, Marking, Pkt, Qdisc, QueueCx, Room, Separation,
    jiffies,
};
use crate::packet::Packet;
use crate::params::kinds::{Spec, number, params, real, size, value, words};
use crate::params::{Described, Given, Refused};
use crate::tc;
use crate::time::Time;
use crate::units::{MTU_FRAME, Rate};

/// The kernel's upper bounds of `depth`, `flows` and `divisor`.
const DEPTH_MAX: u32 = 127;
const FLOWS_MAX: u32 = 65_408;
const DIVISOR_MAX: u32 = 1 << 16;
/// The kernel raises a smaller quantum to the first and refuses one beyond the second.
const QUANTUM_MIN: u32 = 256;
const QUANTUM_MAX: u32 = 1 << 20;
/// The range of 32 bits of jiffies, in seconds.
const PERTURB_MAX: u32 = i32::MAX as u32 / jiffies::HZ as u32;

params! {
    /// The parameters, by their names in `tc`. Zero means the default, as in the kernel.
    pub struct SfqConfig {
        /// largest backlog of all flows; at most depth times flows
        limit: u32 = DEPTH_MAX, number(2..=u32::MAX).shown("PACKETS"), "Linux";
        /// largest backlog of a flow; at most 127
        depth: u32 = DEPTH_MAX, or_default(DEPTH_MAX, DEPTH_MAX).shown("PACKETS"), "Linux";
        /// largest number of flows with packets; at most divisor, and at most another limit than the default
        flows: u32 = 128, or_default(128, FLOWS_MAX), "Linux";
        /// number of flow queues that packets are hashed into
        divisor: u32 = 1024, divisor(), "Linux";
        /// bytes per flow and round; at least 256
        quantum: u32 = MTU_FRAME, size(0..=QUANTUM_MAX).fitted(|n| if n == 0 { MTU_FRAME } else { n.max(QUANTUM_MIN) }), "Linux: a full frame";
        /// seconds between changes of the hash; 0: never
        perturb: u32 = 0, number(0..=PERTURB_MAX).shown("SECONDS"), "Linux";
        headdrop: bool = false, words([("headdrop", true, "drop the oldest packet of a full flow instead of the newest")]), "Linux";
        /// run RED on the backlog of each flow; max is at most this
        redflowlimit: u32 = 0, bytes(), "";
        /// average backlog at which random marking begins; max/3
        min: u32 = 0, bytes(), "tc, after Floyd's advice of 1997";
        /// average backlog at which every packet is marked; redflowlimit/4
        max: u32 = 0, bytes(), "tc, after Floyd's advice of 1997";
        /// average packet size; 1000
        avpkt: u32 = 0, size(1..=u32::MAX).default("").mapped(|n| n, said), "tc";
        /// burst to tolerate, which sets the weight of the average; (2 min + max)/(3 avpkt)
        burst: u32 = 0, number(1..=u32::MAX).shown("PACKETS").default("").mapped(|n| n, said), "tc, after Floyd's advice of 1997";
        /// max_p: marking probability when the average reaches max; 0.02
        probability: f64 = 0.0, probability(), "tc, after Floyd's advice of 1997";
        ecn: bool = false, words([("ecn", true, "RED marks instead of dropping")]), "tc";
        harddrop: bool = false, words([("harddrop", true, "RED drops above max, even with ecn")]), "tc";
    }
}

/// A parameter of RED that is not said where there is none.
fn said(n: &u32) -> Option<u32> {
    (*n > 0).then_some(*n)
}

fn bytes() -> Spec<u32> {
    number(1..=u32::MAX).shown("BYTES").default("").mapped(|n| n, said)
}

fn probability() -> Spec<f64> {
    let fits = |p: f64| p > 0.0 && p <= 1.0;
    real("NUMBER", "a number above 0, at most 1", fits, (0.001, 1.0))
        .default("")
        .mapped(|p| p, |p| (*p > 0.0).then_some(*p))
}

fn or_default(default: u32, most: u32) -> Spec<u32> {
    number(0..=u32::MAX).fitted(move |n| if n == 0 { default } else { n.min(most) })
}

fn divisor() -> Spec<u32> {
    value(
        "NUMBER",
        format!("a power of two up to {DIVISOR_MAX}"),
        |s| match tc::parse_count_any_base(s)? {
            0 => Some(1024),
            n => Some(n).filter(|n| n.is_power_of_two() && *n <= DIVISOR_MAX),
        },
        u32::to_string,
        |rng| (1 << rng.below(17)).to_string(),
        ["3", "131072", "-1", "x"].map(str::to_owned).into(),
    )
}

/// RED of each flow, as `tc` fills it in.
#[derive(Clone, Debug)]
struct Red {
    thresholds: Thresholds,
    ecn: bool,
    harddrop: bool,
}

impl SfqConfig {
    fn red(&self) -> Result<Option<Red>, (&'static str, String)> {
        if self.redflowlimit == 0 {
            return Ok(None);
        }
        let &SfqConfig { min, max, avpkt, burst, probability, ecn, harddrop, .. } = self;
        // The rate counts only while a queue is idle, which a flow never is.
        let bandwidth = Rate::from_bps(34_000_000_000);
        let config =
            RedConfig { min, max, avpkt, burst, probability, bandwidth, ..RedConfig::default() };
        // `tc` computes the average's weight also where the kernel has no RED for it.
        let table = RedTable::new(&config)?;
        let thresholds = table.thresholds(&config);
        Ok((min > 0).then_some(Red { thresholds, ecn, harddrop }))
    }
}

const NONE: u32 = u32::MAX;

/// A flow that has packets, or a place for one.
#[derive(Debug)]
struct Flow<P> {
    queue: Queue<P>,
    /// Its place in the table of hashes.
    hash: usize,
    /// Bytes that it may still send in this turn; its turn ends at zero.
    allot: i64,
    /// Whose turn is next.
    next: u32,
    average: Average,
}

/// The flows by how many packets they have; of those with as many, the latest to get there first.
#[derive(Debug)]
struct Lengths {
    first: [u32; DEPTH_MAX as usize + 1],
    /// Of each flow, its neighbours in its list.
    before: Vec<u32>,
    behind: Vec<u32>,
    longest: usize,
}

impl Lengths {
    fn new(flows: u32) -> Self {
        let none = vec![NONE; flows as usize];
        let mut lengths = Lengths {
            first: [NONE; DEPTH_MAX as usize + 1],
            before: none.clone(),
            behind: none,
            longest: 0,
        };
        for flow in 0..flows {
            lengths.insert(flow, 0);
        }
        lengths
    }
    fn insert(&mut self, flow: u32, length: usize) {
        let behind = std::mem::replace(&mut self.first[length], flow);
        (self.before[flow as usize], self.behind[flow as usize]) = (NONE, behind);
        if behind != NONE {
            self.before[behind as usize] = flow;
        }
    }
    fn moved(&mut self, flow: u32, from: usize, to: usize) {
        let (before, behind) = (self.before[flow as usize], self.behind[flow as usize]);
        if before == NONE {
            self.first[from] = behind;
        } else {
            self.behind[before as usize] = behind;
        }
        if behind != NONE {
            self.before[behind as usize] = before;
        }
        self.insert(flow, to);
        if to > self.longest || from == self.longest && self.first[from] == NONE {
            self.longest = to;
        }
    }
}

/// The queue at work.
#[derive(Debug)]
pub struct Sfq<P> {
    flows: Vec<Flow<P>>,
    /// The flow of each hash; `NONE` where it has no packets.
    table: Vec<u32>,
    lengths: Lengths,
    /// The last flow of the round.
    tail: u32,
    hash: FlowHash,
    backlog: Backlog,
    next_perturbation: Time,
    red: Option<Red>,
    config: SfqConfig,
}

impl SfqConfig {
    /// A limit that `tc` gives bounds the flows as well. The default is one that it does not give.
    fn places(&self) -> u32 {
        if self.limit == DEPTH_MAX { self.flows } else { self.flows.min(self.limit) }
    }
}

impl<P: Pkt> Sfq<P> {
    pub fn new(config: SfqConfig, now: Time) -> Self {
        let flow =
            || Flow { queue: Queue::new(), hash: 0, allot: 0, next: NONE, average: Average::NONE };
        let places = config.places();
        Sfq {
            flows: std::iter::repeat_with(flow).take(places as usize).collect(),
            table: vec![NONE; config.divisor as usize],
            lengths: Lengths::new(places),
            tail: NONE,
            hash: FlowHash::default(),
            backlog: Backlog::default(),
            next_perturbation: config.next_perturbation(now),
            red: config.red().expect("parameters that parse refuses: see SfqConfig::finish"),
            config,
        }
    }

    fn flow(&mut self, x: u32) -> &mut Flow<P> {
        &mut self.flows[x as usize]
    }

    /// The flow of a packet, and whether it begins with it; `None`: as many as there may be have packets.
    fn find(&mut self, pkt: &P, cx: &mut QueueCx<P>) -> Option<(u32, bool)> {
        let hash = (self.hash.of(pkt.flow_hash(), cx.rng) & (self.config.divisor - 1)) as usize;
        match self.table[hash] {
            NONE => {
                let x = self.lengths.first[0];
                self.flows.get_mut(x as usize)?.hash = hash;
                self.table[hash] = x;
                Some((x, true))
            }
            x => Some((x, false)),
        }
    }

    fn push(&mut self, x: u32, pkt: P) {
        self.backlog.packets += 1;
        self.backlog.bytes += u64::from(pkt.frame_len());
        let (tail, quantum) = (self.tail, i64::from(self.config.quantum));
        let flow = self.flow(x);
        flow.queue.push(pkt);
        let length = flow.queue.len();
        if length == 1 {
            flow.allot = quantum;
            let next =
                if tail == NONE { x } else { std::mem::replace(&mut self.flow(tail).next, x) };
            self.flow(x).next = next;
            self.tail = x;
        }
        self.lengths.moved(x, length - 1, length);
    }

    /// Takes a packet out of a flow that has some; the flow keeps its turn.
    fn pop(&mut self, x: u32, newest: bool) -> P {
        let queue = &mut self.flow(x).queue;
        let length = queue.len();
        let pkt = queue.remove(if newest { length - 1 } else { 0 }).expect("it has packets");
        self.lengths.moved(x, length, length - 1);
        self.backlog.packets -= 1;
        self.backlog.bytes -= u64::from(pkt.frame_len());
        pkt
    }

    /// The flow whose turn it is has no packets any more.
    fn leave(&mut self, x: u32) {
        let &mut Flow { hash, next, .. } = self.flow(x);
        self.table[hash] = NONE;
        if next == x {
            self.tail = NONE;
        } else {
            let tail = self.tail;
            self.flow(tail).next = next;
        }
    }

    /// Drops a packet of the longest flow.
    fn drop_one(&mut self, cx: &mut QueueCx<P>) {
        let alone = self.lengths.longest == 1;
        let x = if alone {
            let tail = self.tail;
            self.flow(tail).next
        } else {
            self.lengths.first[self.lengths.longest]
        };
        let pkt = self.pop(x, !self.config.headdrop);
        if alone {
            self.leave(x);
        }
        cx.drop(pkt, DropReason::Overflow);
    }

    /// RED's decision about a packet of a flow with a backlog: false to drop it.
    fn admits(&mut self, x: u32, pkt: &mut P, cx: &mut QueueCx<P>) -> bool {
        let Some(red) = &self.red else { return true };
        let flow = &mut self.flows[x as usize];
        flow.average.add(flow.queue.bytes(), red.thresholds.wlog);
        let marks = match flow.average.verdict(&red.thresholds, cx.rng) {
            Verdict::Pass => return true,
            Verdict::Random => red.ecn,
            Verdict::Hard => red.ecn && !red.harddrop,
        };
        let head = flow.queue.front_mut().filter(|_| self.config.headdrop);
        marks
            && (head.is_some_and(|head| cx.mark(head, MarkReason::Aqm))
                || cx.mark(pkt, MarkReason::Aqm))
    }

    fn rehash(&mut self, cx: &mut QueueCx<P>) {
        let mut waiting = Vec::new();
        for x in 0..self.flows.len() as u32 {
            let length = self.flow(x).queue.len();
            if length > 0 {
                waiting.extend((0..length).map(|_| self.pop(x, false)));
                let flow = self.flow(x);
                flow.average = Average::NONE;
                let hash = flow.hash;
                self.table[hash] = NONE;
            }
        }
        self.tail = NONE;
        for pkt in waiting {
            match self.find(&pkt, cx) {
                Some((x, _)) if self.flow(x).queue.len() < self.config.depth as usize => {
                    if let Some(red) = &self.red {
                        let flow = &mut self.flows[x as usize];
                        flow.average.add(flow.queue.bytes(), red.thresholds.wlog);
                    }
                    self.push(x, pkt);
                }
                _ => cx.drop(pkt, DropReason::Overflow),
            }
        }
    }
}

impl<P: Pkt + Send> Aqm<P> for Sfq<P> {
    fn enqueue(&mut self, mut pkt: P, cx: &mut QueueCx<P>) {
        let Some((x, is_new)) = self.find(&pkt, cx) else {
            return cx.drop(pkt, DropReason::Overflow);
        };
        if is_new {
            self.flow(x).average = Average::NONE;
        } else {
            let admitted = self.admits(x, &mut pkt, cx);
            if !admitted || self.flow(x).queue.len() >= self.config.depth as usize {
                let why = if admitted { DropReason::Overflow } else { DropReason::Aqm };
                if !self.config.headdrop {
                    return cx.drop(pkt, why);
                }
                // The flow keeps its place among those of its length.
                let queue = &mut self.flow(x).queue;
                let head = queue.pop().expect("it has packets");
                self.backlog.bytes += u64::from(pkt.frame_len());
                self.backlog.bytes -= u64::from(head.frame_len());
                self.flow(x).queue.push(pkt);
                return cx.drop(head, why);
            }
        }
        self.push(x, pkt);
        if self.backlog.packets + cx.held.packets > u64::from(self.config.limit) {
            self.drop_one(cx);
        }
    }

    fn dequeue(&mut self, _cx: &mut QueueCx<P>) -> Option<P> {
        while self.tail != NONE {
            let (tail, quantum) = (self.tail, i64::from(self.config.quantum));
            let x = self.flow(tail).next;
            let flow = self.flow(x);
            if flow.allot <= 0 {
                flow.allot += quantum;
                self.tail = x;
                continue;
            }
            let pkt = self.pop(x, false);
            let flow = self.flow(x);
            if flow.queue.is_empty() {
                self.leave(x);
            } else {
                flow.allot -= i64::from(pkt.frame_len());
            }
            return Some(pkt);
        }
        None
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
    fn next_timer(&self) -> Time {
        self.next_perturbation
    }
    fn on_timer(&mut self, cx: &mut QueueCx<P>) {
        self.hash = FlowHash::default();
        self.rehash(cx);
        self.next_perturbation = self.config.next_perturbation(cx.now);
    }
}

impl SfqConfig {
    fn next_perturbation(&self, now: Time) -> Time {
        match u64::from(self.perturb) * jiffies::HZ {
            0 => Time::NEVER,
            period => jiffies::expiry(now, period),
        }
    }
}

/// The keywords that turn RED on.
const OF_RED: [&str; 8] =
    ["redflowlimit", "min", "max", "avpkt", "burst", "probability", "ecn", "harddrop"];

impl Described for SfqConfig {
    const NAME: &'static str = "sfq";
    const SUMMARY: &'static str =
        "stochastic fairness queueing: flows take turns; optionally RED on each of them";

    /// `sch_sfq` has no `change`, whatever the words.
    fn merged(&self, _to: &Self, _given: &Given) -> Option<Result<Self, Refused>> {
        let why = "Linux refuses it too; change to another kind of queue";
        Some(Err(Refused::NotModelled { owner: Self::NAME, keyword: "a change".to_owned(), why }))
    }
    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        self.flows = self.flows.min(self.divisor);
        self.limit = self.limit.min(self.depth * self.flows);
        if self.limit < 2 {
            let fix = "with flows 1 the kernel refuses it; write depth 2 or more".to_owned();
            return Err(given.refuse("depth", self.depth.to_string(), fix));
        }
        if given.of(&OF_RED).is_empty() {
            return Ok(());
        }
        if self.redflowlimit == 0 {
            return Err(given
                .missing("redflowlimit", "RED needs it; write for example redflowlimit 100000"));
        }
        if self.avpkt == 0 {
            self.avpkt = 1000;
        }
        if self.probability == 0.0 {
            self.probability = 0.02;
        }
        if self.max == 0 {
            self.max = self.redflowlimit / 4;
        }
        if self.min == 0 {
            self.min = self.max / 3;
        }
        if self.burst == 0 {
            let (min, max) = (u64::from(self.min), u64::from(self.max));
            self.burst = ((2 * min + max) / (3 * u64::from(self.avpkt))) as u32;
        }
        if self.max > self.redflowlimit {
            let fix = format!("it takes redflowlimit ({}) or less", self.redflowlimit);
            return Err(given.refuse("max", self.max.to_string(), fix));
        }
        if self.min >= self.max {
            let fix = format!("it takes less than max ({})", self.max);
            return Err(given.refuse("min", self.min.to_string(), fix));
        }
        let value = |keyword: &str| match keyword {
            "min" => self.min.to_string(),
            "max" => self.max.to_string(),
            "burst" => self.burst.to_string(),
            _ => self.probability.to_string(),
        };
        self.red().map_err(|(keyword, fix)| given.refuse(keyword, value(keyword), fix))?;
        Ok(())
    }
}

impl Qdisc for SfqConfig {
    const SEPARATION: Separation = Separation::PerFlow;
    const MARKING: Marking = Marking::Never;
    const DROPS_WAITING: bool = true;
    const LIMITS_PACKETS: bool = true;

    fn room(&self, _link: LinkInfo) -> Room {
        let of_flow = size_of::<(Flow<Packet>, [u32; 2])>();
        let always = self.places() as usize * of_flow + self.divisor as usize * size_of::<u32>();
        Room { always: always as u64, ..Room::of_packets(self.limit) }
    }
    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(Sfq::new(self.clone(), link.now))
    }
}
