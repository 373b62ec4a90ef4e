//! A tin: flows that take turns (DRR++). New flows and those that send less than their share are
//! sparse and come first; a flow that used up its quantum joins the bulk rotation; an empty one whose
//! COBALT is not at rest yet decays.

use super::autorate::ewma;
use super::diffserv::Share;
use super::hash::{FlowMode, Hashes, Hosts, QUEUES, ways};
use super::sce::{Ramp, Sce};
use crate::aqm::Pkt;
use crate::aqm::cobalt::{Cobalt, CobaltParams};
use crate::aqm::queue::Queue;
use crate::aqm::shaper::Pace;
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::units::MTU_FRAME;

/// Bytes of a flow's turn: the tin's rate over 4096 per second, within these (Linux).
const QUANTUM_SHIFT: u32 = 12;
const QUANTUM_MIN: u64 = 300;
const QUANTUM_MAX: u64 = MTU_FRAME as u64;

/// The kind of a flow.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Set {
    Idle,
    Sparse,
    /// Counts as sparse, but empty and waiting in the bulk rotation.
    SparseWait,
    Bulk,
    Decaying,
}

/// The rotation that a flow stands in. Not the same as its set: see [`Set::SparseWait`].
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Rotation {
    New,
    Old,
    Decaying,
}

#[derive(Debug)]
pub struct Flow<P> {
    pub queue: Queue<P>,
    pub cobalt: Cobalt,
    pub deficit: i64,
    /// The places of its hosts.
    pub source: u16,
    pub destination: u16,
    pub set: Set,
    rotation: Option<Rotation>,
    before: u16,
    after: u16,
}

const NONE: u16 = u16::MAX;

/// Bytes of the tables of a tin with packets.
pub const TABLES: u64 = (QUEUES * 3 * (size_of::<u32>() + size_of::<u16>())) as u64;

/// First and last of a rotation; the flows themselves are the links.
#[derive(Copy, Clone, Debug)]
struct Chain {
    first: u16,
    last: u16,
}

/// Moving averages of the sojourn, in nanoseconds: `tc` shows them as pk_delay, av_delay and
/// sp_delay.
#[derive(Copy, Clone, PartialEq, Debug, Default)]
pub struct Delays {
    pub peak: u64,
    pub average: u64,
    pub base: u64,
}

impl Delays {
    #[inline]
    pub fn record(&mut self, sojourn: Span) {
        let d = sojourn.0;
        self.average = ewma(self.average, d, 8);
        self.peak = ewma(self.peak, d, if d > self.peak { 2 } else { 8 });
        self.base = ewma(self.base, d, if d < self.base { 2 } else { 8 });
    }
}

#[derive(Debug)]
pub struct Tin<P> {
    /// Those that ever had packets, in the order of their first ones: of 1024 queues most have no flow.
    pub flows: Vec<Flow<P>>,
    /// Of each queue the hash that it is reserved for, and the place of its flow. None before the first packet: see
    /// [`Tin::open`].
    tags: Vec<u32>,
    places: Vec<u16>,
    pub mode: FlowMode,
    pub sources: Hosts,
    pub destinations: Hosts,
    chains: [Chain; 3],
    pub sparse_flows: u32,
    pub bulk_flows: u32,
    pub bytes: u64,
    pub params: CobaltParams,
    pub sce: Sce,
    pub sce_ramp: Option<Ramp>,
    pace: Pace,
    /// While this lies in the past, the tin is below its share.
    pub next: Time,
    flow_quantum: u32,
    pub quantum: i64,
    pub deficit: i64,
    pub delays: Delays,
}

impl<P: Pkt> Tin<P> {
    pub fn new(share: Share, mode: FlowMode, target: Span, interval: Span, sce: Sce) -> Tin<P> {
        let mut tin = Tin {
            flows: Vec::new(),
            tags: Vec::new(),
            places: Vec::new(),
            mode,
            sources: Hosts::default(),
            destinations: Hosts::default(),
            chains: [Chain { first: NONE, last: NONE }; 3],
            sparse_flows: 0,
            bulk_flows: 0,
            bytes: 0,
            params: CobaltParams::at_rate(Span::ZERO, target, interval),
            sce,
            sce_ramp: None,
            pace: Pace::default(),
            next: Time::ZERO,
            flow_quantum: 0,
            quantum: 0,
            deficit: 0,
            delays: Delays::default(),
        };
        tin.set_share(share, target, interval);
        tin
    }

    /// Makes the tables of flows and hosts, once. Of thousands of subscribers with a CAKE each, most use one tin or none.
    pub fn open(&mut self) {
        if !self.tags.is_empty() {
            return;
        }
        self.tags = vec![0; QUEUES];
        self.places = vec![NONE; QUEUES];
        self.sources.open();
        self.destinations.open();
    }
    /// The flow of a queue, which is new with its first packet.
    #[inline]
    fn reach(&mut self, queue: usize) -> usize {
        match self.places[queue] {
            NONE => self.add(queue),
            place => usize::from(place),
        }
    }
    #[cold]
    fn add(&mut self, queue: usize) -> usize {
        self.places[queue] = self.flows.len() as u16;
        self.flows.push(Flow {
            queue: Queue::new(),
            cobalt: Cobalt::default(),
            deficit: 0,
            source: 0,
            destination: 0,
            set: Set::Idle,
            rotation: None,
            before: NONE,
            after: NONE,
        });
        self.flows.len() - 1
    }
    /// The flows in the order of their queues.
    pub fn by_queue(&self) -> Vec<usize> {
        let places = self.places.iter().filter(|place| **place != NONE);
        places.map(|place| usize::from(*place)).collect()
    }

    /// Values derived from the tin's rate.
    pub fn set_share(&mut self, share: Share, target: Span, interval: Span) {
        self.pace = Pace::new(share.rate);
        self.flow_quantum = match share.rate {
            0 => MTU_FRAME,
            rate => (rate >> QUANTUM_SHIFT).clamp(QUANTUM_MIN, QUANTUM_MAX) as u32,
        };
        self.quantum = i64::from(share.quantum);
        self.params = CobaltParams::at_rate(self.pace.time_for(MTU_FRAME), target, interval);
        self.sce_ramp = self.sce.ramp(self.params.target);
    }

    /// Has it a flow that may have packets?
    #[inline]
    pub fn is_active(&self) -> bool {
        self.sparse_flows + self.bulk_flows > 0
    }

    /// The flow whose turn it is. The decaying ones are looked at once per packet sent, before all
    /// others; they have nothing to send, but this is how they come to rest.
    #[inline]
    pub fn turn(&self, decaying_first: bool) -> Option<usize> {
        let first = |rotation: Rotation| {
            let i = self.chains[rotation as usize].first;
            (i != NONE).then_some(usize::from(i))
        };
        let decaying = if decaying_first { first(Rotation::Decaying) } else { None };
        decaying
            .or_else(|| first(Rotation::New))
            .or_else(|| first(Rotation::Old))
            .or_else(|| first(Rotation::Decaying))
    }

    /// A packet has come to this flow.
    #[inline]
    pub fn activate(&mut self, i: usize, rng: &mut Rng) {
        match self.flows[i].set {
            Set::Idle | Set::Decaying => {
                self.flows[i].set = Set::Sparse;
                self.sparse_flows += 1;
                self.flows[i].deficit = self.quantum_of(i, rng);
                self.move_to(i, Some(Rotation::New));
            }
            Set::SparseWait => self.make_bulk(i),
            Set::Sparse | Set::Bulk => {}
        }
    }

    /// The flow has used up its quantum: it gets a new one and goes to the end of the bulk rotation.
    #[inline]
    pub fn next_round(&mut self, i: usize, rng: &mut Rng) {
        if self.flows[i].set == Set::Sparse {
            if self.flows[i].queue.is_empty() {
                self.flows[i].set = Set::SparseWait;
            } else {
                self.make_bulk(i);
            }
        }
        self.flows[i].deficit += self.quantum_of(i, rng);
        self.move_to(i, Some(Rotation::Old));
    }

    /// It was the flow's turn, and it is empty.
    pub fn settle_empty(&mut self, i: usize, now: Time) {
        let flow = &mut self.flows[i];
        flow.cobalt.queue_empty(&self.params, now);
        let at_rest = flow.cobalt.at_rest(now);
        match flow.set {
            Set::Bulk => {
                self.bulk_flows -= 1;
                self.leave_hosts(i);
            }
            Set::Sparse | Set::SparseWait => self.sparse_flows -= 1,
            Set::Decaying | Set::Idle => {}
        }
        self.flows[i].set = if at_rest { Set::Idle } else { Set::Decaying };
        self.move_to(i, (!at_rest).then_some(Rotation::Decaying));
    }

    /// The flow with the most bytes, and how many. The kernel keeps a heap of all queues; the active
    /// ones are few here.
    pub fn longest(&self) -> Option<(u64, usize)> {
        let mut longest: Option<(u64, usize)> = None;
        for i in self.active() {
            let bytes = self.flows[i].queue.bytes();
            if longest.is_none_or(|(most, _)| bytes > most) {
                longest = Some((bytes, i));
            }
        }
        longest
    }

    /// The flows in any rotation.
    pub fn active(&self) -> impl Iterator<Item = usize> + '_ {
        self.chains.iter().flat_map(move |chain| {
            let entry = |i: u16| (i != NONE).then_some(usize::from(i));
            std::iter::successors(entry(chain.first), move |&i| entry(self.flows[i].after))
        })
    }

    /// Charges the tin with `len` bytes on the wire. A tin that fell behind its schedule may catch up.
    #[inline]
    pub fn charge(&mut self, len: u32, now: Time) {
        let took = self.pace.time_for(len);
        if self.next < now {
            self.next += took;
        } else if self.next < now + took {
            self.next = now + took;
        }
    }

    /// A flow's quantum is divided by the flows of its host. Random rounding: what one turn loses
    /// another gains (Linux).
    #[inline]
    fn quantum_of(&self, i: usize, rng: &mut Rng) -> i64 {
        let flow = &self.flows[i];
        let mut load = 1;
        if self.mode.fair_to_sources() {
            load = load.max(self.sources.bulk_flows(flow.source));
        }
        if self.mode.fair_to_destinations() {
            load = load.max(self.destinations.bulk_flows(flow.destination));
        }
        let part = u64::from(u16::MAX / load);
        ((u64::from(self.flow_quantum) * part + u64::from(rng.u32() >> 16)) >> 16) as i64
    }

    fn make_bulk(&mut self, i: usize) {
        self.flows[i].set = Set::Bulk;
        self.sparse_flows -= 1;
        self.bulk_flows += 1;
        self.join_hosts(i);
    }

    /// The flow counts among the bulk flows of its hosts from now on.
    pub fn join_hosts(&mut self, i: usize) {
        if self.mode.fair_to_sources() {
            self.sources.more(self.flows[i].source);
        }
        if self.mode.fair_to_destinations() {
            self.destinations.more(self.flows[i].destination);
        }
    }
    /// … and no longer.
    pub fn leave_hosts(&mut self, i: usize) {
        if self.mode.fair_to_sources() {
            self.sources.fewer(self.flows[i].source);
        }
        if self.mode.fair_to_destinations() {
            self.destinations.fewer(self.flows[i].destination);
        }
    }

    /// To the end of a rotation, or out of all.
    fn move_to(&mut self, i: usize, rotation: Option<Rotation>) {
        let (before, after) = (self.flows[i].before, self.flows[i].after);
        if let Some(old) = self.flows[i].rotation {
            let chain = &mut self.chains[old as usize];
            match before {
                NONE => chain.first = after,
                before => self.flows[usize::from(before)].after = after,
            }
            match after {
                NONE => chain.last = before,
                after => self.flows[usize::from(after)].before = before,
            }
        }
        let mut last = NONE;
        if let Some(new) = rotation {
            let chain = &mut self.chains[new as usize];
            last = std::mem::replace(&mut chain.last, i as u16);
            match last {
                NONE => chain.first = i as u16,
                last => self.flows[usize::from(last)].after = i as u16,
            }
        }
        let flow = &mut self.flows[i];
        (flow.rotation, flow.before, flow.after) = (rotation, last, NONE);
    }
}

impl<P: Pkt> Tin<P> {
    /// The queue of a packet, which is reserved for its flow as long as the flow is active.
    #[inline]
    pub fn classify(&mut self, hashes: Hashes) -> usize {
        let Some(key) = hashes.key(self.mode) else { return self.reach(0) };
        let idle = |queue: usize| {
            self.flows.get(usize::from(self.places[queue])).is_none_or(|f| f.set == Set::Idle)
        };
        let own = ways(key).find(|&queue| self.tags[queue] == key);
        let (queue, new) = match own {
            Some(queue) => (queue, idle(queue)),
            // All eight taken: two flows share a queue, and the newcomer's hosts count.
            None => (ways(key).find(|&q| idle(q)).unwrap_or(key as usize % QUEUES), true),
        };
        self.tags[queue] = key;
        let i = self.reach(queue);
        if new {
            self.settle(i, hashes);
        }
        i
    }

    /// Notes to which hosts a queue belongs now.
    fn settle(&mut self, i: usize, hashes: Hashes) {
        let bulk = self.flows[i].set == Set::Bulk;
        if bulk {
            self.leave_hosts(i);
        }
        if self.mode.fair_to_sources() {
            self.flows[i].source = self.sources.place(hashes.source);
        }
        if self.mode.fair_to_destinations() {
            self.flows[i].destination = self.destinations.place(hashes.destination);
        }
        if bulk {
            self.join_hosts(i);
        }
    }
}
