//! A run: elements wired by their paths, and the loop over windows of time.

mod accounts;
mod changes;
mod closing;
mod network;
pub mod outside;
mod precision;
pub mod recording;
mod sampling;
mod taps;
pub mod transit;
pub mod watching;
mod wiring;

use accounts::{Account, Group};
use changes::Plan;
use network::Network;
use precision::Estimate;
pub use recording::Recording;
use taps::Taps;
use watching::Shown;
use wiring::slot_of;
pub(crate) use wiring::{LONGEST_WINDOW, PACKETS_PER_WINDOW};

use crate::aqm::DropReason;
use crate::element::{ArrivalChain, ArrivalList, CHAIN_END, Fates, Flow, Outbox};
use crate::error::ScenarioError;
use crate::net::deadlines::Deadlines;
use crate::net::impair::Impair;
use crate::net::ledger::Ledger;
use crate::net::link::Link;
use crate::net::tap::{End, NoTap, Tap};
use crate::packet::{Flags, Packet};
use crate::prefetch;
use crate::probe::Transfer;
use crate::sack::SackStore;
use crate::scenario::Run;
use crate::time::{Span, Time};

/// One direction of a group's path: a delay, then elements of the network.
#[derive(Clone, Debug)]
struct Path {
    delay: Span,
    /// See [`Outbox`].
    not_before: Time,
    nodes: Vec<usize>,
}

impl Path {
    fn new(nodes: Vec<usize>) -> Path {
        Path { delay: Span::ZERO, not_before: Time::ZERO, nodes }
    }
}

/// A flow in its place. What each turn touches comes first, in one cache line.
#[repr(C, align(64))]
struct FlowSlot {
    flow: Box<dyn Flow>,
    group: usize,
    /// ACKs on their way to the sending end, in order. It has taken those before `read`.
    acks: Vec<Packet>,
    read: usize,
    account: usize,
    /// Its number in the group, from 1.
    member: u32,
    /// Bytes received when measuring began, and at the last row for this flow alone.
    received_before: u64,
    received_shown: u64,
    /// Packets from the receiving end towards a link, in order. Those before `released` have arrived.
    held: Vec<Packet>,
    released: usize,
}

/// The first and the last packet that a receiving end gets in the current window, by their places among the
/// departures of its last link.
#[derive(Copy, Clone)]
struct Chain {
    first: u32,
    last: u32,
}

impl Chain {
    const EMPTY: Chain = Chain { first: CHAIN_END, last: CHAIN_END };
}

/// What the receiving ends of a group have in common.
#[derive(Copy, Clone, Default)]
struct Way {
    /// The element that their arrivals come from.
    last: usize,
    /// There are elements on their way back.
    has_nodes: bool,
    /// The delay of the way forward.
    forward: Span,
}

/// With fewer flows, what they touch stays in the cache.
const MANY_FLOWS: usize = 64;
/// How many flows before its turn the place of a flow is fetched, then its state and its ACKs, then what these point to.
const FETCH_SLOT: usize = 8;
const FETCH_STATE: usize = 4;
const FETCH_DATA: usize = 2;

/// A simulation, ready to run.
pub struct Simulation<T = NoTap> {
    /// Everything before now has happened.
    now: Time,
    end: Time,
    warmup: Time,
    seed: u64,
    /// How often RTTs are recorded.
    sample: Span,
    next_sample: Time,
    is_measuring: bool,
    plan: Plan,
    /// The length of a window: within it, no stage (senders, network, receivers) affects an earlier one.
    window: Span,
    longest_delay: Span,
    /// See [`outside`].
    lookahead: Span,
    groups: Vec<Group>,
    accounts: Vec<Account>,
    per_flow: bool,
    /// Number of flows that exist from the start.
    initial_flows: usize,
    slots: Vec<FlowSlot>,
    /// By flow; apart from the slots, because each packet touches it.
    chains: Vec<Chain>,
    /// By flow: when the next action of its sending end reaches the network, when packets of its
    /// receiving end reach it, and when the receiving end has something to do.
    senders: Deadlines,
    back: Deadlines,
    receivers: Deadlines,
    /// Flows whose turn it is, and some behind them.
    due: Vec<u32>,
    network: Network,
    /// The links that are in hosts that send.
    local: Vec<usize>,
    /// For each element, the place under which its losses are reported.
    places: Vec<String>,
    /// What the hosts discard.
    ends: Ledger,
    /// For each impairment, the places of its elements.
    impairs: Vec<Vec<usize>>,
    out: Outbox,
    /// Completed transfers so far, and the slots that made them.
    transfers: Vec<(usize, Transfer)>,
    shown: Shown,
    /// Of a run that ends when it is precise.
    estimate: Option<Estimate>,
    delivered_packets: u64,
    taps: Taps<T>,
}

impl Simulation {
    /// Builds the elements of `run`.
    ///
    /// # Errors
    /// One sentence if the description is inconsistent.
    pub fn new(run: &Run) -> Result<Simulation, ScenarioError> {
        Simulation::tapped(run, NoTap)
    }
}

impl<T: Tap> Simulation<T> {
    /// Runs to the end and returns what was recorded.
    pub fn run(mut self) -> Recording {
        let end = self.run_to_end();
        self.count_waiting();
        closing::recording(&mut self, end)
    }

    /// Runs up to and including `until`.
    pub fn run_until(&mut self, until: Time) {
        let until = until + Span(1);
        while self.now < until {
            let planned = self.next_event();
            if planned <= self.now {
                self.run_due_events();
            } else {
                self.advance(planned.min(until));
            }
        }
    }

    pub fn links(&self) -> Vec<&Link> {
        self.network.links().collect()
    }
    pub fn impairs(&self) -> Vec<&Impair> {
        self.network.impairs().collect()
    }
    /// From now on the network keeps what it loses and copies, for [`Simulation::take_fates`].
    pub fn keep_fates(&mut self) {
        self.out.fates.get_or_insert_default();
    }
    /// What it lost and copied since this was last asked.
    pub fn take_fates(&mut self) -> Fates {
        self.out.fates.as_mut().map(std::mem::take).unwrap_or_default()
    }
    /// ACKs with SACK blocks that are under way.
    pub fn sacks_under_way(&self) -> usize {
        self.out.sacks.in_use()
    }

    /// Time of the next event that all elements must have reached.
    fn next_event(&self) -> Time {
        let measuring = if self.is_measuring { Time::NEVER } else { self.warmup };
        measuring.min(self.plan.next()).min(self.next_sample).min(self.shown.next)
    }

    /// Performs everything planned for now. A sample comes first, because it covers the time before.
    fn run_due_events(&mut self) {
        let (records, shows) = (self.next_sample <= self.now, self.shown.next <= self.now);
        if records {
            self.next_sample += self.sample;
        }
        let records = records && self.is_measuring;
        if shows {
            self.take_sample(records);
        } else if records {
            self.record_rtts();
        }
        if self.plan.next_look <= self.now {
            self.look_at_states();
        }
        while let Some(event) = self.plan.take_due(self.now) {
            self.perform(event);
        }
        if !self.is_measuring && self.warmup <= self.now {
            self.begin_measuring();
        }
    }

    /// Records rate and burst of the slowest link of each path, valid from now on.
    fn record_rates(&mut self) {
        for group in &mut self.groups {
            let (rate, burst) = self.network.slowest(&group.forward.nodes);
            group.rates.push((self.now, rate, burst));
        }
    }

    /// Simulates everything before `until`.
    fn advance(&mut self, until: Time) {
        while self.now < until {
            let ends =
                self.senders.earliest().min(self.back.earliest()).min(self.receivers.earliest());
            self.now = self.now.max(ends.min(self.network.earliest())).min(until);
            let end = self.now.saturating_add(self.window).min(until);
            self.run_senders(end);
            self.run_network(end);
            if !self.local.is_empty() {
                self.tell_hosts();
            }
            self.run_receivers(end);
            self.network.close();
            self.now = end;
        }
        self.catch_up_senders(until);
        self.taps.show_until(until);
    }

    /// Runs the sending ends as far as their packets reach the network before `until`.
    fn run_senders(&mut self, until: Time) {
        self.run_each_sender(until, |delay| until.saturating_sub(delay));
    }

    /// In a window the sending ends lag behind by their delay to the network. Their actions until now
    /// arrive there later.
    fn catch_up_senders(&mut self, now: Time) {
        self.run_each_sender(now + self.longest_delay, |_| now);
    }

    /// Runs those sending ends whose packets reach the network before `due_until`, each up to a time that depends on
    /// its delay.
    #[inline(always)]
    fn run_each_sender(&mut self, due_until: Time, until: impl Fn(Span) -> Time) {
        let count = self.senders.take_due(due_until, &mut self.due);
        let Simulation { due, slots, groups, senders, network, out, taps, .. } = self;
        let (are_many, slots) = (slots.len() > MANY_FLOWS, &mut slots[..]);
        // A flow sends into the inbox of its first element. Most flows have the same one. And most often the flow before
        // was one of its group.
        let (mut first, mut group, mut end) = (None, None, Time::ZERO);
        for turn in turns(due, count) {
            if are_many {
                fetch_senders(slots, &out.sacks, turn);
            }
            let i = turn[0] as usize;
            let slot = &mut slots[i];
            if group != Some(slot.group) {
                group = Some(slot.group);
                let path = &groups[slot.group].forward;
                (out.delay, out.not_before) = (path.delay, path.not_before);
                end = until(path.delay);
                let node = path.nodes[0];
                if first != Some(node) {
                    first.into_iter().chain([node]).for_each(|n| swap_inbox(network, out, n));
                    first = Some(node);
                }
            }
            let next = run_sender(slot, end, out, taps);
            senders.set(i, next.saturating_add(out.delay));
        }
        first.into_iter().for_each(|n| swap_inbox(network, out, n));
    }

    /// Tells hosts what their own queues do. They learn it at once, so that a window is as short as can be.
    #[cold]
    fn tell_hosts(&mut self) {
        for n in self.local.clone() {
            for (pkt, answer) in self.network.take_told(n) {
                let i = slot_of(pkt.flow, self.initial_flows);
                let slot = &mut self.slots[i];
                slot.flow.on_answer(&pkt, answer);
                let delay = self.groups[slot.group].forward.delay;
                self.senders.advance(i, pkt.enqueued_at + delay);
            }
        }
    }

    /// Runs the elements of the network, in the order of the paths.
    fn run_network(&mut self, until: Time) {
        self.release(until);
        for cluster in 0..self.network.clusters() {
            let mut step = self.network.begin(cluster, self.now, until, &mut self.out);
            while let Some((from, to)) = step {
                for member in 0..self.network.size(cluster) {
                    let n = self.network.run(cluster, member, from, to, &mut self.out);
                    self.forward(n);
                }
                step = self.network.next_step(cluster, from, until, &mut self.out);
            }
        }
    }

    /// Delivers to links what receiving ends have sent towards them.
    fn release(&mut self, until: Time) {
        let mut due = std::mem::take(&mut self.due);
        let count = self.back.take_due(until, &mut due);
        for &i in &due[..count] {
            let i = i as usize;
            let slot = &mut self.slots[i];
            let waiting = &slot.held[slot.released..];
            let n = waiting.iter().take_while(|p| p.enqueued_at < until).count();
            let inbox = self.network.inbox(self.groups[slot.group].back.nodes[0]);
            inbox.packets.extend_from_slice(&waiting[..n]);
            self.back.set(i, waiting.get(n).map_or(Time::NEVER, |p| p.enqueued_at));
            slot.released += n;
            drop_taken(&mut slot.held, &mut slot.released);
        }
        self.due = due;
    }

    /// Forwards the packets that have left an element of the network: to the next one, or to an end.
    fn forward(&mut self, n: usize) {
        let (mut departed, mut links, forwarded) = self.network.take_departed(n);
        links.resize(departed.len(), CHAIN_END);
        let is_last = self.network.is_last(n);
        let Simulation {
            initial_flows,
            slots,
            groups,
            chains,
            senders,
            receivers,
            network,
            ends,
            taps,
            out,
            delivered_packets,
            ..
        } = self;
        let (initial_flows, chains) = (*initial_flows, &mut chains[..]);
        for (place, pkt) in (forwarded..).zip(&mut departed[forwarded..]) {
            if !is_last {
                pkt.hop += 1;
                let group = &groups[usize::from(pkt.group.number)];
                let path = if pkt.is_ack() { &group.back } else { &group.forward };
                if let Some(next) = path.nodes.get(usize::from(pkt.hop)) {
                    network.hand_on(*next, pkt);
                    continue;
                }
            }
            if pkt.flags.has(Flags::CORRUPT) {
                discard(pkt, ends, taps, out);
                continue;
            }
            let flow = pkt.flow as usize;
            let i = if flow < initial_flows { flow } else { slot_of(pkt.flow, initial_flows) };
            if pkt.is_ack() {
                let slot = &mut slots[i];
                take_ack(&mut slot.acks, pkt);
                senders.advance(i, pkt.enqueued_at + groups[slot.group].forward.delay);
                continue;
            }
            *delivered_packets += 1;
            let chain = &mut chains[i];
            if chain.first == CHAIN_END {
                chain.first = place as u32;
                receivers.advance(i, pkt.enqueued_at);
            } else {
                links[chain.last as usize] = place as u32;
            }
            chain.last = place as u32;
        }
        self.network.give_back(n, departed, links);
    }

    /// Runs the receiving ends on packets that have arrived before `until`.
    fn run_receivers(&mut self, until: Time) {
        let mut due = std::mem::take(&mut self.due);
        let count = self.receivers.take_due(until, &mut due);
        let Simulation {
            slots, groups, chains, senders, back, receivers, network, out, taps, ..
        } = self;
        let (are_many, slots, chains) = (slots.len() > MANY_FLOWS, &mut slots[..], &mut chains[..]);
        let (mut group, mut way) = (None, Way::default());
        let mut arrivals = ArrivalChain::new(&[], &[], CHAIN_END);
        for turn in turns(&mut due, count) {
            let i = turn[0] as usize;
            let slot = &slots[i];
            if group != Some(slot.group) {
                group = Some(slot.group);
                way = open_way_back(&groups[slot.group], out);
                (arrivals.packets, arrivals.links) = network.departed(way.last);
            }
            if are_many {
                fetch_receivers(slots, chains, arrivals.packets, turn);
            }
            let slot = &mut slots[i];
            arrivals.at = std::mem::replace(&mut chains[i], Chain::EMPTY).first as usize;
            let goal = if way.has_nodes { &mut slot.held } else { &mut slot.acks };
            swap(&mut out.packets, goal);
            let before = out.packets.len();
            let shown = taps.open(&mut arrivals, &out.sacks);
            let next = slot.flow.run_receiver(&mut arrivals, until, out);
            taps.close(End::Server, shown, &arrivals, out, before);
            if let Some(pkt) = out.packets.get(before) {
                match way.has_nodes {
                    true => back.advance(i, pkt.enqueued_at),
                    false => senders.advance(i, pkt.enqueued_at + way.forward),
                }
            }
            swap(&mut out.packets, goal);
            receivers.set(i, next);
        }
        self.due = due;
    }
}

/// A host finds that a bit was flipped.
#[cold]
fn discard<T: Tap>(pkt: &Packet, ends: &mut Ledger, taps: &mut Taps<T>, out: &mut Outbox) {
    ends.lose(pkt.enqueued_at, pkt, DropReason::Checksum);
    taps.arrive(pkt, &out.sacks);
    out.lose(pkt.enqueued_at, pkt, DropReason::Checksum);
}

/// An ACK comes out of the network. Apart, so that the usual way of data keeps its registers.
#[inline(never)]
fn take_ack(acks: &mut Vec<Packet>, pkt: &Packet) {
    acks.push(*pkt);
}

/// What the outbox has to know before the receiving ends of a group run, and what these have to know.
fn open_way_back(group: &Group, out: &mut Outbox) -> Way {
    let Group { forward, back, .. } = group;
    (out.delay, out.not_before) = (back.delay, back.not_before);
    Way {
        last: *forward.nodes.last().expect("a path has a link"),
        has_nodes: !back.nodes.is_empty(),
        forward: forward.delay,
    }
}

/// For each turn the flow that has it and those that have the next ones. Behind the last turn they are any flows.
#[inline(always)]
fn turns(due: &mut Vec<u32>, count: usize) -> impl Iterator<Item = &[u32]> {
    due.resize(due.len().max(count + FETCH_SLOT), 0);
    due[..count + FETCH_SLOT].windows(FETCH_SLOT + 1)
}

/// Exchanges the packets of an element's inbox with those of the outbox.
fn swap_inbox(network: &mut Network, out: &mut Outbox, n: usize) {
    std::mem::swap(&mut out.packets, &mut network.inbox(n).packets);
}

/// Fetches into the cache what the sending ends of later turns will touch: a cache miss takes longer than a turn.
#[inline(always)]
fn fetch_senders(slots: &[FlowSlot], sacks: &SackStore, turn: &[u32]) {
    prefetch::place(slots, turn[FETCH_SLOT] as usize);
    if let Some(slot) = slots.get(turn[FETCH_STATE] as usize) {
        slot.flow.fetch(true);
        (0..3).for_each(|i| prefetch::place(&slot.acks, slot.read + i));
    }
    if let Some(slot) = slots.get(turn[FETCH_DATA] as usize) {
        slot.flow.fetch_data(true);
        let ack = slot.acks.get(slot.read);
        ack.into_iter().for_each(|ack| sacks.fetch(ack.sack_of_ack()));
    }
}

/// The same of the receiving ends, whose arrivals most often are among the same departures.
#[inline(always)]
fn fetch_receivers(slots: &[FlowSlot], chains: &[Chain], departed: &[Packet], turn: &[u32]) {
    prefetch::place(slots, turn[FETCH_SLOT] as usize);
    if let Some(slot) = slots.get(turn[FETCH_STATE] as usize) {
        slot.flow.fetch(false);
        prefetch::end(&slot.acks);
    }
    let soon = turn[FETCH_DATA] as usize;
    if let (Some(slot), Some(chain)) = (slots.get(soon), chains.get(soon)) {
        slot.flow.fetch_data(false);
        for packet in [chain.first, chain.last] {
            (0..2).for_each(|i| prefetch::place(departed, packet as usize + i));
        }
    }
}

/// Runs a sending end, whose path the outbox knows. Returns when it has something to do next.
#[inline(always)]
fn run_sender<T: Tap>(
    slot: &mut FlowSlot,
    until: Time,
    out: &mut Outbox,
    taps: &mut Taps<T>,
) -> Time {
    let before = out.packets.len();
    let mut arrivals = ArrivalList::new(&slot.acks, slot.read);
    let shown = taps.open(&mut arrivals, &out.sacks);
    let next = slot.flow.run_sender(&mut arrivals, until, out);
    taps.close(End::Client, shown, &arrivals, out, before);
    slot.read = arrivals.at;
    let next = slot.acks.get(slot.read).map_or(next, |ack| next.min(ack.enqueued_at));
    drop_taken(&mut slot.acks, &mut slot.read);
    next
}

/// A function of its own, so that it always reads in the width in which it wrote. The processor waits where a wide read
/// follows narrow writes.
#[inline(never)]
fn swap(a: &mut Vec<Packet>, b: &mut Vec<Packet>) {
    std::mem::swap(a, b);
}

/// Removes the packets that have been taken from the front, once there are many.
#[inline]
fn drop_taken(packets: &mut Vec<Packet>, taken: &mut usize) {
    if *taken == packets.len() {
        packets.clear();
        *taken = 0;
    } else if *taken > packets.len() / 2 {
        packets.drain(..*taken);
        *taken = 0;
    }
}
