//! Heavy-Hitter Filter (Linux `sch_hhf`, 7.2): two queues, one for flows that have sent much lately and one for all others.
//!
//! Four arrays of counters, each with another part of a flow's hash, find the heavy flows (the multi-stage filter of Estan
//! and Varghese, SIGCOMM 2002): a flow is heavy once all its counters exceed `admit_bytes`. They begin anew every
//! `reset_timeout`. A heavy flow stays so until it has been silent for `evict_timeout`.
//!
//! The two queues take turns by deficit round robin. The queue of the other flows has `non_hh_weight` quanta, and goes first
//! when it was empty. Beyond `limit` the heavy flows lose their oldest packet, and only if they have none the others.

use std::any::Any;
use std::collections::VecDeque;

use super::flow_hash::FlowHash;
use super::queue::Queue;
use super::{
    Aqm, Backlog, DropReason, Gauges, LinkInfo, Marking, Overflow, Pkt, Qdisc, QueueCx, Room,
    Separation, drop_excess, jiffies,
};
use crate::params::kinds::{Spec, number, params, time};
use crate::params::{Described, Gauge, Given, Refused, gauge};
use crate::time::{Span, Time};
use crate::units::MTU_FRAME;

const ARRAYS: usize = 4;
/// Counters of an array, and lists of heavy flows, each with so many bits of the hash.
const BITS: u32 = 10;
const CELLS: usize = 1 << BITS;
const HEAVY_MAX: u32 = 2 * CELLS as u32;
/// The kernel raises a smaller quantum.
const QUANTUM_MIN: u32 = 256;

params! {
    /// The parameters, by their names in `tc`.
    pub struct HhfConfig {
        /// largest backlog
        limit: u32 = 1000, some(u32::MAX).shown("PACKETS"), "Linux";
        /// bytes of heavy flows per round; at least 256
        quantum: u32 = MTU_FRAME, some(u32::MAX).shown("BYTES").fitted(|n| n.max(QUANTUM_MIN)), "Linux: a full frame";
        /// largest number of heavy flows
        hh_limit: u32 = HEAVY_MAX, some(HEAVY_MAX), "Linux";
        /// after this time bytes are counted anew
        reset_timeout: Span = Span::from_millis(40), timeout(), "Linux";
        /// bytes by which a flow becomes heavy
        admit_bytes: u32 = 128 * 1024, some(u32::MAX).shown("BYTES"), "Linux";
        /// after this time without a packet a flow is no longer heavy
        evict_timeout: Span = Span::from_secs(1), timeout(), "Linux";
        /// quanta of the other flows per round
        non_hh_weight: u32 = 2, some(u32::MAX), "Linux";
    }
}

/// `tc` does not send a zero.
fn some(most: u32) -> Spec<u32> {
    number(1..=most)
}

fn timeout() -> Spec<Span> {
    time(Span::from_micros(1)..=Span::from_micros(u32::MAX as u64))
}

/// A flow that has sent much lately.
#[derive(Copy, Clone, Debug)]
struct Heavy {
    hash: u32,
    /// When its last packet came, in jiffies.
    seen: u64,
}

#[derive(Debug)]
struct Bucket<P> {
    queue: Queue<P>,
    deficit: i64,
    /// It has a turn, now or later.
    is_listed: bool,
}

const OF_HEAVY: usize = 0;
const OF_OTHERS: usize = 1;

/// The queue at work.
#[derive(Debug)]
pub struct Hhf<P> {
    buckets: [Bucket<P>; 2],
    /// Whose turn is next: these first, then those.
    fresh: VecDeque<usize>,
    old: VecDeque<usize>,
    hash: FlowHash,
    counters: [[u32; CELLS]; ARRAYS],
    /// When they began, in jiffies.
    counted_from: u64,
    /// Heavy flows by the first bits of their hash; the last of a list may be one that is so no longer.
    heavy: Vec<Vec<Heavy>>,
    entries: u32,
    config: HhfConfig,
}

impl<P: Pkt> Hhf<P> {
    pub fn new(config: HhfConfig, now: Time) -> Self {
        let bucket = || Bucket { queue: Queue::new(), deficit: 0, is_listed: false };
        Hhf {
            buckets: [bucket(), bucket()],
            fresh: VecDeque::new(),
            old: VecDeque::new(),
            hash: FlowHash::default(),
            counters: [[0; CELLS]; ARRAYS],
            counted_from: jiffies::at(now),
            heavy: vec![Vec::new(); CELLS],
            entries: 0,
            config,
        }
    }

    /// Quanta of a bucket in a round, in bytes.
    fn share(&self, bucket: usize) -> i64 {
        let weight = if bucket == OF_HEAVY { 1 } else { self.config.non_hh_weight };
        i64::from(self.config.quantum) * i64::from(weight)
    }

    /// Whether this is a flow known to be heavy. Entries that are too old go, but for the last.
    fn is_known(&mut self, hash: u32, now: u64) -> bool {
        let lasts = jiffies::from_span(self.config.evict_timeout);
        let list = &mut self.heavy[hash as usize % CELLS];
        let mut place = 0;
        while let Some(flow) = list.get_mut(place) {
            if flow.seen + lasts < now {
                if place + 1 == list.len() {
                    return false;
                }
                list.remove(place);
                self.entries -= 1;
            } else if flow.hash == hash {
                flow.seen = now;
                return true;
            } else {
                place += 1;
            }
        }
        false
    }

    /// False: there are as many as there may be.
    fn admit(&mut self, hash: u32, now: u64) -> bool {
        let lasts = jiffies::from_span(self.config.evict_timeout);
        let list = &mut self.heavy[hash as usize % CELLS];
        let new = Heavy { hash, seen: now };
        if let Some(flow) = list.iter_mut().find(|flow| flow.seen + lasts < now) {
            *flow = new;
            return true;
        }
        if self.entries >= self.config.hh_limit {
            return false;
        }
        list.push(new);
        self.entries += 1;
        true
    }

    fn classify(&mut self, pkt: &P, cx: &mut QueueCx<P>) -> usize {
        let now = jiffies::at(cx.now);
        if self.counted_from + jiffies::from_span(self.config.reset_timeout) < now {
            self.counters = [[0; CELLS]; ARRAYS];
            self.counted_from = now;
        }
        let hash = self.hash.of(pkt.flow_hash(), cx.rng);
        if self.is_known(hash, now) {
            return OF_HEAVY;
        }
        let part = |n: u32| (hash >> (BITS * n)) as usize % CELLS;
        // All bits of the hash together, of which two are in no part.
        let cells = [part(0), part(1), part(2), part(0) ^ part(1) ^ part(2) ^ part(3)];
        let counters = || self.counters.iter().zip(cells).map(|(array, cell)| array[cell]);
        let fewest = counters().map(|bytes| bytes.wrapping_add(pkt.frame_len())).min();
        let bytes = fewest.unwrap_or(0);
        if bytes > self.config.admit_bytes {
            return if self.admit(hash, now) { OF_HEAVY } else { OF_OTHERS };
        }
        for (array, cell) in self.counters.iter_mut().zip(cells) {
            array[cell] = array[cell].max(bytes);
        }
        OF_OTHERS
    }
}

impl<P: Pkt + Send> Aqm<P> for Hhf<P> {
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        let number = self.classify(&pkt, cx);
        let share = self.share(number);
        let bucket = &mut self.buckets[number];
        bucket.queue.push(pkt);
        if !bucket.is_listed {
            (bucket.is_listed, bucket.deficit) = (true, share);
            let list = if number == OF_HEAVY { &mut self.old } else { &mut self.fresh };
            list.push_back(number);
        }
        if self.backlog().packets + cx.held.packets > u64::from(self.config.limit) {
            let [heavy, others] = &mut self.buckets;
            if let Some(head) = heavy.queue.pop().or_else(|| others.queue.pop()) {
                cx.drop(head, DropReason::Overflow);
            }
        }
    }

    fn dequeue(&mut self, _cx: &mut QueueCx<P>) -> Option<P> {
        loop {
            let is_fresh = !self.fresh.is_empty();
            let list = if is_fresh { &mut self.fresh } else { &mut self.old };
            let number = *list.front()?;
            let share = self.share(number);
            let bucket = &mut self.buckets[number];
            let goes_on = if bucket.deficit <= 0 {
                bucket.deficit += share;
                true
            } else if let Some(pkt) = bucket.queue.pop() {
                bucket.deficit -= i64::from(pkt.frame_len());
                return Some(pkt);
            } else {
                // The others have their turn before it is fresh again.
                is_fresh && !self.old.is_empty()
            };
            let list = if is_fresh { &mut self.fresh } else { &mut self.old };
            list.pop_front();
            if goes_on {
                self.old.push_back(number);
            } else {
                self.buckets[number].is_listed = false;
            }
        }
    }

    fn backlog(&self) -> Backlog {
        let queues = || self.buckets.iter().map(|bucket| &bucket.queue);
        Backlog {
            packets: queues().map(|queue| queue.len() as u64).sum(),
            bytes: queues().map(Queue::bytes).sum(),
        }
    }
    fn change(&mut self, to: &dyn Any, cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        self.config = to.downcast_ref::<HhfConfig>().ok_or_else(Vec::new)?.clone();
        let limit = u64::from(self.config.limit);
        drop_excess(cx, |cx| if self.backlog().packets > limit { self.dequeue(cx) } else { None });
        Ok(())
    }
    fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("cur_hh", f64::from(self.entries));
    }
}

impl Described for HhfConfig {
    const NAME: &'static str = "hhf";
    const SUMMARY: &'static str = "heavy-hitter filter: flows that send much share a queue with less weight than that of all others";
    const GAUGES: &'static [Gauge] = &[gauge("cur_hh", "", "heavy flows")];

    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        let most = i32::MAX as u32 / self.quantum.max(1);
        if self.non_hh_weight > most {
            let fix = format!("quantum times non_hh_weight is at most {}", i32::MAX);
            return Err(given.refuse("non_hh_weight", self.non_hh_weight.to_string(), fix));
        }
        Ok(())
    }
    fn finish_change(&mut self, given: &Given) -> Result<(), Refused> {
        self.finish(given)
    }
}

impl Qdisc for HhfConfig {
    const SEPARATION: Separation = Separation::Approximate;
    const MARKING: Marking = Marking::Never;
    const OVERFLOW: Overflow = Overflow::All;
    const DROPS_WAITING: bool = true;
    const LIMITS_PACKETS: bool = true;

    fn room(&self, _link: LinkInfo) -> Room {
        let tables = size_of::<[[u32; CELLS]; ARRAYS]>() + CELLS * size_of::<Vec<Heavy>>();
        Room { always: tables as u64, ..Room::of_packets(self.limit) }
    }
    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(Hhf::new(self.clone(), link.now))
    }
}
