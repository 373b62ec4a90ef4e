//! Fair queueing with a marking threshold, as Linux has it (`sch_fq`, 7.2), for forwarded packets.
//!
//! `fq` is made for a host, where each socket is a flow with a pacing rate of its own. At a router
//! packets have no socket: they are sorted by `hash & orphan_mask` and are due when they arrive, so
//! what is left is deficit round robin with new and old flows, a limit per flow, `maxrate` per flow,
//! and `ce_threshold`: a packet that waited longer is marked, no matter which ECT it is. There is no
//! other congestion control; a full flow drops its new packets.
//!
//! While no flow waits, up to eight packets go past the flows through a queue of their own, which is
//! served first and never marks (Linux since 6.6; not with `maxrate`). So at low rates `ce_threshold`
//! has no effect on the first eight packets.
//!
//! `horizon`, its companions and `timer_slack` are read and have no effect, because forwarded packets have no
//! departure time.
//! `offload_horizon`, `defrate` and priorities (`bands`, `priomap`, `weights`) are refused: packets have none here, and
//! all belong to the second band. But Linux lists a flow before it stores the flow's band, so a new flow starts in the
//! first band. The first band is served when the second is empty or has used up its weight, 192 KiB. If others have
//! packets all the time, the new flow waits that long, and then its initial quantum leaves in one piece. Linux also
//! forgets flows that were idle for seconds. Here they are kept, with their deficit refilled.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::drr::Drr;
use super::flow_hash::FlowHash;
use super::queue::Queue;
use super::{
    Aqm, Backlog, DropReason, Gauges, LinkInfo, MarkReason, Marking, Pkt, Qdisc, QueueCx, Room,
    Separation, drop_excess,
};
use crate::params::kinds::{Spec, any_time, number, params, rate, rate_if, value, words};
use crate::params::{Described, Gauge, gauge};
use crate::tc;
use crate::time::{Span, Time};
use crate::units::{MTU_FRAME, Rate};

/// Packets that may go past the flows (Linux).
const FAST_PATH: usize = 8;
/// The kernel brings a quantum into these bounds; it refuses an initial quantum beyond the second.
const QUANTUM_MIN: u32 = 256;
const QUANTUM_MAX: u32 = 1 << 20;
const BUCKETS_MAX: u32 = 1 << 18;
/// Bytes that a band may send in its turn (`weights`): of flows not seen before, and of the others.
const NEWCOMERS: usize = 0;
const BAND_QUANTA: [i64; 2] = [9 << 16, 3 << 16];
/// No packet delays the next one of its flow for longer (Linux).
const DELAY_MAX: Span = Span::from_secs(1);

params! {
    /// The parameters, by their names in `tc`.
    pub struct FqConfig {
        /// largest backlog of all flows, in packets; tail drop
        limit: u32 = 10_000, number(0..=u32::MAX).shown("PACKETS"), "Linux";
        /// largest backlog of a flow, in packets; tail drop
        flow_limit: u32 = 100, number(0..=u32::MAX).shown("PACKETS"), "Linux";
        /// size of the kernel's table of flows, which is exact; without effect
        buckets: u32 = 1024, number(2..=BUCKETS_MAX).fitted(u32::next_power_of_two), "Linux";
        /// the bits of a packet's hash that make a flow
        orphan_mask: u32 = 1023, number(0..=u32::MAX).shown("MASK"), "Linux";
        /// bytes per flow and round; at least 256
        quantum: u32 = 2 * MTU_FRAME, number(0..=u32::MAX).shown("BYTES").fitted(|n| n.clamp(QUANTUM_MIN, QUANTUM_MAX)), "Linux: two full frames";
        /// quantum of a new flow
        initial_quantum: u32 = 10 * MTU_FRAME, number(0..=QUANTUM_MAX).shown("BYTES"), "Linux: ten full frames";
        pacing: bool = true, words([
            ("pacing", true, "obey maxrate"),
            ("nopacing", false, "ignore maxrate"),
        ]), "Linux";
        /// of each flow
        maxrate: Option<Rate> = None, rate().optional(), "Linux";
        /// highest maxrate at which packets are paced one by one; above it, by quanta
        low_rate_threshold: Rate = Rate::from_bps(550_000), rate_if(
            "a rate such as 550kbit, below 34359mbit", |r| r.bps() / 8 <= u64::from(u32::MAX), &["40gbit"]
        ), "Linux";
        /// idle time after which a flow's credit is refilled
        refill_delay: Span = Span::from_millis(40), any_time(), "Linux";
        /// delay above which every ECN-capable packet is marked
        ce_threshold: Option<Span> = None, any_time().optional(), "Linux";
        /// accepted, without effect: only a socket sets departure times
        horizon: Option<Span> = None, any_time().optional(), "Linux: 10 s";
        horizon_drop: Option<bool> = None, words([
            ("horizon_drop", Some(true), "accepted, without effect"),
            ("horizon_cap", Some(false), "accepted, without effect"),
        ]), "Linux: horizon_drop";
        /// accepted, without effect: timers are exact here
        timer_slack: Option<Span> = None, slack().optional(), "Linux: 10 us";
    }
}

#[derive(Debug)]
struct Flow<P> {
    queue: Queue<P>,
    /// `maxrate` holds its packets back until then.
    time_next_packet: Time,
    throttled: bool,
    /// It stands among the newcomers.
    is_newcomer: bool,
    idle_since: Time,
}

/// The queue at work.
#[derive(Debug)]
pub struct Fq<P> {
    fast: Queue<P>,
    flows: Drr<Flow<P>>,
    /// The flows in the first band, whose turn it is, and what both may still send in theirs.
    newcomers: VecDeque<usize>,
    band: usize,
    credits: [i64; 2],
    /// The number of a flow by its masked hash.
    numbers: BTreeMap<u32, usize>,
    hash: FlowHash,
    /// Flows held back, the first one on top; of those due together, the one held back first.
    throttled: BinaryHeap<Reverse<(Time, u64, usize)>>,
    throttlings: u64,
    /// The backlog of the flows.
    packets: u64,
    bytes: u64,
    config: FqConfig,
}

impl<P: Pkt> Fq<P> {
    pub fn new(config: FqConfig) -> Self {
        Fq {
            fast: Queue::new(),
            flows: Drr::new(config.quantum),
            newcomers: VecDeque::new(),
            band: NEWCOMERS,
            credits: [0; 2],
            numbers: BTreeMap::new(),
            hash: FlowHash::default(),
            throttled: BinaryHeap::new(),
            throttlings: 0,
            packets: 0,
            bytes: 0,
            config,
        }
    }

    /// The rate that holds for each flow.
    fn maxrate(&self) -> Option<Rate> {
        self.config.maxrate.filter(|_| self.config.pacing)
    }

    #[inline]
    fn flow_of(&mut self, pkt: &P, cx: &mut QueueCx<P>) -> usize {
        let key = self.hash.of(pkt.flow_hash(), cx.rng) & self.config.orphan_mask;
        if let Some(&i) = self.numbers.get(&key) {
            return i;
        }
        let (queue, now) = (Queue::new(), cx.now);
        let flow = Flow {
            queue,
            time_next_packet: Time::ZERO,
            throttled: false,
            is_newcomer: true,
            idle_since: now,
        };
        let i = self.flows.add(flow);
        *self.flows.deficit_mut(i) = i64::from(self.config.initial_quantum);
        self.newcomers.push_back(i);
        self.numbers.insert(key, i);
        i
    }

    /// The flow whose turn it is. A band without flows, or without credit, is passed over, and what is passed
    /// over or begins has credit again.
    #[inline]
    fn turn(&mut self) -> Option<usize> {
        let mut passed = 0;
        loop {
            if self.credits[self.band] > 0 {
                if self.band != NEWCOMERS {
                    if let Some(i) = self.flows.turn() {
                        return Some(i);
                    }
                } else if let Some(&i) = self.newcomers.front() {
                    if *self.flows.deficit_mut(i) > 0 {
                        return Some(i);
                    }
                    *self.flows.deficit_mut(i) += i64::from(self.config.quantum);
                    self.leave();
                    self.flows.join_old(i);
                    passed = 0;
                    continue;
                }
            }
            if passed == BAND_QUANTA.len() {
                return None;
            }
            passed += 1;
            self.band = 1 - self.band;
            let quantum = BAND_QUANTA[self.band];
            self.credits[self.band] = (self.credits[self.band] + quantum).min(quantum);
        }
    }

    /// The flow whose turn it is leaves its list.
    #[inline]
    fn leave(&mut self) {
        if self.band != NEWCOMERS {
            self.flows.leave();
        } else if let Some(i) = self.newcomers.pop_front() {
            self.flows.flow_mut(i).is_newcomer = false;
        }
    }

    /// The flow whose turn it is waits until then.
    fn throttle(&mut self, i: usize, until: Time) {
        self.leave();
        let flow = self.flows.flow_mut(i);
        flow.time_next_packet = until;
        flow.throttled = true;
        self.throttled.push(Reverse((until, self.throttlings, i)));
        self.throttlings += 1;
    }

    /// Flows whose time has come are old flows again.
    fn unthrottle(&mut self, now: Time) {
        while let Some(&Reverse((until, _, i))) = self.throttled.peek() {
            if until > now {
                break;
            }
            self.throttled.pop();
            self.flows.flow_mut(i).throttled = false;
            self.flows.join_old(i);
        }
    }

    /// `maxrate`: a packet of `len` bytes left, when may the next one? A flow that still has a
    /// deficit may go on, except at low rates.
    fn pace(&mut self, i: usize, len: u32, now: Time) {
        let Some(rate) = self.maxrate() else { return };
        let mut charged = len;
        if rate <= self.config.low_rate_threshold {
            *self.flows.deficit_mut(i) = 0;
        } else {
            charged = len.max(self.config.quantum);
            if *self.flows.deficit_mut(i) > 0 {
                return;
            }
        }
        let mut delay = rate.time_for(u64::from(charged)).min(DELAY_MAX);
        let flow = self.flows.flow_mut(i);
        if flow.time_next_packet > Time::ZERO {
            // Who came late may hurry, by half of the delay at most.
            delay = delay - now.since(flow.time_next_packet).min(delay / 2);
        }
        flow.time_next_packet = now + delay;
    }
}

impl<P: Pkt + Send> Aqm<P> for Fq<P> {
    #[inline]
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        if self.packets >= u64::from(self.config.limit) {
            return cx.drop(pkt, DropReason::Overflow);
        }
        if self.packets == 0 && self.fast.len() < FAST_PATH && self.config.maxrate.is_none() {
            return self.fast.push(pkt);
        }
        let i = self.flow_of(&pkt, cx);
        let flow = self.flows.flow_mut(i);
        if flow.queue.len() >= self.config.flow_limit as usize {
            return cx.drop(pkt, DropReason::Overflow);
        }
        self.packets += 1;
        self.bytes += u64::from(pkt.frame_len());
        flow.queue.push(pkt);
        let refill = cx.now > flow.idle_since + self.config.refill_delay;
        if !flow.throttled && !flow.is_newcomer && self.flows.join_new(i) && refill {
            let deficit = self.flows.deficit_mut(i);
            *deficit = (*deficit).max(i64::from(self.config.quantum));
        }
    }

    #[inline]
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        if let Some(pkt) = self.fast.pop() {
            return Some(pkt);
        }
        self.unthrottle(cx.now);
        loop {
            let i = self.turn()?;
            let is_new = self.band == NEWCOMERS || self.flows.serves_new();
            let flow = self.flows.flow_mut(i);
            let Some(head) = flow.queue.front_mut() else {
                // Unlike in fq_codel, even if there are no old flows.
                if !is_new {
                    flow.idle_since = cx.now;
                }
                self.leave();
                if is_new {
                    self.flows.join_old(i);
                }
                continue;
            };
            if cx.now < flow.time_next_packet {
                let due = flow.time_next_packet;
                self.throttle(i, due);
                continue;
            }
            let due = head.enqueued_at().max(flow.time_next_packet);
            if self.config.ce_threshold.is_some_and(|threshold| cx.now.since(due) > threshold) {
                cx.mark(head, MarkReason::Step);
            }
            let pkt = flow.queue.pop()?;
            let len = pkt.frame_len();
            self.packets -= 1;
            self.bytes -= u64::from(len);
            self.flows.charge(i, len);
            self.credits[self.band] -= i64::from(len);
            self.pace(i, len, cx.now);
            return Some(pkt);
        }
    }

    fn backlog(&self) -> Backlog {
        Backlog {
            packets: self.packets + self.fast.len() as u64,
            bytes: self.bytes + self.fast.bytes(),
        }
    }
    fn next_timer(&self) -> Time {
        self.throttled.peek().map_or(Time::NEVER, |Reverse((until, _, _))| *until)
    }
    fn on_timer(&mut self, cx: &mut QueueCx<P>) {
        self.unthrottle(cx.now);
    }

    /// Packets beyond a smaller limit leave in turn and are lost; those that `maxrate` holds back stay.
    fn change(&mut self, to: &dyn Any, cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let config = to.downcast_ref::<FqConfig>().ok_or_else(Vec::new)?.clone();
        self.flows.set_quantum(config.quantum);
        let limit = u64::from(config.limit);
        self.config = config;
        drop_excess(cx, |cx| if self.backlog().packets > limit { self.dequeue(cx) } else { None });
        Ok(())
    }

    /// The statistics of `tc -s`.
    fn probe(&self, out: &mut dyn Gauges) {
        let inactive = self.flows.flows().filter(|f| f.queue.is_empty()).count();
        out.gauge("flows", self.numbers.len() as f64);
        out.gauge("inactive_flows", inactive as f64);
        out.gauge("throttled_flows", self.throttled.len() as f64);
    }
}

/// Nanoseconds of 32 bits.
fn slack() -> Spec<Span> {
    value(
        "TIME",
        "a time such as 10us, at most 4294967295ns",
        |s| tc::parse_time64(s).filter(|time| time.0 <= u32::MAX.into()),
        |&time| tc::format_time64(time),
        |rng| format!("{}ns", rng.below(1 << 32)),
        vec!["5s".to_owned(), "-1us".to_owned()],
    )
}

const SOCKET: &str = "forwarded packets have no socket that would set a departure time";
const PRIORITY: &str = "packets have no priority, so all are in one band";

impl Described for FqConfig {
    const NAME: &'static str = "fq";
    const SUMMARY: &'static str =
        "fair queueing with a marking threshold (sch_fq); `orphan_mask 0` is a single queue";
    const GAUGES: &'static [Gauge] = &[
        gauge("flows", "", "flows in the table"),
        gauge("inactive_flows", "", "flows without packets"),
        gauge("throttled_flows", "", "flows held back by maxrate"),
    ];
    const NOT_MODELLED: &'static [(&'static str, &'static str)] = &[
        ("offload_horizon", SOCKET),
        ("bands", PRIORITY),
        ("priomap", PRIORITY),
        ("weights", PRIORITY),
        ("defrate", "the kernel ignores it; use maxrate"),
    ];
}

impl Qdisc for FqConfig {
    const SEPARATION: Separation = Separation::PerFlow;
    const SEPARATION_WITH: &'static [(&'static str, Separation)] =
        &[("orphan_mask 0", Separation::Single)];
    const MARKING: Marking = Marking::With(&["ce_threshold"]);

    fn room(&self, _link: LinkInfo) -> Room {
        let held_back = self.maxrate.is_some() && self.pacing;
        let rate = if held_back { Rate::from_bps(0) } else { Room::ENDLESS.rate };
        Room { rate, ..Room::of_packets(self.limit) }
    }
    fn build<P: Pkt + Send + 'static>(&self, _link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(Fq::new(self.clone()))
    }
}
