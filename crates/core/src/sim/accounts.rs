//! Counters of flow groups and of single flows.

use std::ops::AddAssign;
use std::sync::Arc;

use super::{Path, Simulation};
use crate::aqm::DropReason;
use crate::aqm::service::{Carried, Losses, PacketCounts};
use crate::distribution::Distribution;
use crate::element::PathState;
use crate::net::ledger;
use crate::net::tap::Tap;
use crate::packet::Packet;
use crate::probe::Totals;
use crate::scenario::{DelayTrace, FlowSpec};
use crate::time::{Span, Time};
use crate::traffic::Traffic;
use crate::units::Rate;

/// A flow group: one `[[flow]]` table.
pub(super) struct Group {
    pub name: String,
    /// Congestion control of TCP flows, else the kind.
    pub cc: String,
    pub is_bulk: bool,
    /// Builds its flows.
    pub traffic: Arc<dyn Traffic>,
    pub dscp: u8,
    pub accounts: Vec<usize>,
    /// The places of the flows that have not been stopped, in the order in which they began.
    pub active: Vec<usize>,
    /// How many flows it has had.
    pub begun: u64,
    /// The rate of its flows, where that has changed.
    pub rate_bps: Option<u64>,
    /// Its applications rest, also those of flows that begin now.
    pub is_paused: bool,
    /// The round trip without queues, and the addition of its trace.
    pub rtt: Span,
    pub added: Span,
    pub delay_trace: Option<DelayTrace>,
    pub forward: Path,
    pub back: Path,
    /// The first and the last link on the way to the receivers.
    pub first_and_last: (usize, usize),
    /// Its first link is in the host that sends.
    pub on_host: bool,
    /// Rate and burst of the slowest link on the way to the receivers, each since a time.
    pub rates: Vec<(Time, Rate, u64)>,
    /// Counts up to the last sample.
    pub sampled: Counted,
}

/// An account counts a flow group or one of its flows.
pub(super) struct Account {
    pub group: usize,
    /// The places of its flows.
    pub slots: Vec<usize>,
    /// Counts when measuring began.
    pub base: Counted,
    /// Packets of the measured interval that are still in the network at the end of the run.
    pub waiting: Option<u64>,
    /// Smoothed RTT, sampled at fixed intervals.
    pub srtt: Distribution,
}

impl Account {
    pub fn new(group: usize) -> Account {
        Account {
            group,
            slots: Vec::new(),
            base: Counted::default(),
            waiting: None,
            srtt: Distribution::default(),
        }
    }
}

/// Counters since the start.
#[derive(Copy, Clone, Default)]
pub(super) struct Counted {
    pub packets: PacketCounts,
    pub totals: Totals,
    /// Time in links of the packets delivered, since the start or since measuring began.
    pub sojourn_ns: u64,
}

/// Packets that entered the network in the measured interval.
#[derive(Copy, Clone, Default)]
pub(super) struct Outcomes {
    /// With the copies that the network made of them.
    pub offered: u64,
    /// Of these, those that reached the links, left them with CE or an SCE mark, or were dropped there.
    pub sent: u64,
    pub ce: u64,
    pub sce: u64,
    pub dropped: u64,
    /// All are one of these.
    pub delivered: u64,
    pub lost: u64,
    pub waiting: u64,
}

impl AddAssign for Outcomes {
    fn add_assign(&mut self, other: Outcomes) {
        self.offered += other.offered;
        self.sent += other.sent;
        self.ce += other.ce;
        self.sce += other.sce;
        self.dropped += other.dropped;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.waiting += other.waiting;
    }
}

/// How many of an account's packets are among these.
fn lost_of(losses: &Losses, account: usize) -> u64 {
    let reasons = (Some(account), DropReason::FIRST)..(Some(account + 1), DropReason::FIRST);
    losses.range(reasons).map(|(_, packets)| packets).sum()
}

impl AddAssign for Counted {
    fn add_assign(&mut self, other: Counted) {
        self.packets += other.packets;
        self.totals += other.totals;
        self.sojourn_ns += other.sojourn_ns;
    }
}

impl Group {
    pub fn new(
        spec: &FlowSpec,
        forward: Path,
        back: Path,
        first_and_last: (usize, usize),
        on_host: bool,
    ) -> Group {
        let mut group = Group {
            traffic: Arc::clone(&spec.traffic),
            dscp: spec.dscp,
            accounts: Vec::new(),
            active: Vec::new(),
            begun: 0,
            rate_bps: None,
            is_paused: false,
            name: spec.name.clone(),
            cc: spec.traffic.sender_name().to_owned(),
            is_bulk: spec.traffic.is_bulk(),
            rtt: Span::ZERO,
            added: Span::ZERO,
            delay_trace: spec.delay_trace.clone(),
            forward,
            back,
            first_and_last,
            on_host,
            rates: Vec::new(),
            sampled: Counted::default(),
        };
        let first = spec.delay_trace.as_ref().and_then(|trace| trace.step(0));
        group.set_rtt(Span(spec.rtt_ns), first.map_or(Span::ZERO, |(_, added)| added));
        group
    }

    /// Half of the base RTT lies before the links, half on the way back. No answer comes at the instant of
    /// the question. If the first link is in the host that sends, all is on the way back, and to that link the least that
    /// there is.
    pub fn set_rtt(&mut self, rtt: Span, added: Span) {
        (self.rtt, self.added) = (rtt, added);
        let rtt = rtt + added;
        let least = if self.traffic.is_answered() { Span(1) } else { Span::ZERO };
        let forward = if self.on_host { Span::ZERO } else { Span(rtt.0 / 2) };
        self.forward.delay = forward.max(least);
        self.back.delay = (rtt - self.forward.delay).max(least);
    }

    /// What its flows know of it: where the first link is does not matter to them.
    pub fn path(&self) -> PathState {
        let rtt = self.forward.delay + self.back.delay;
        let forward = if self.on_host { Span(rtt.0 / 2) } else { self.forward.delay };
        PathState { forward, back: rtt - forward }
    }

    /// The fastest that the slowest link of the path was at some time between these two: nothing gets
    /// there sooner.
    pub fn fastest(&self, from: Time, until: Time) -> (Rate, u64) {
        let ends = self.rates.iter().skip(1).map(|(end, ..)| *end).chain([Time::NEVER]);
        let in_force = self.rates.iter().zip(ends);
        let meanwhile = in_force.filter(|((begin, ..), end)| *begin <= until && from < *end);
        let rates = meanwhile.map(|((_, rate, burst), _)| (*rate, *burst));
        rates.max_by_key(|(rate, _)| rate.bps()).expect("there always is a rate")
    }
}

impl<T: Tap> Simulation<T> {
    /// An account's counts so far.
    fn counted(&self, i: usize) -> Counted {
        let account = &self.accounts[i];
        let g = &self.groups[account.group];
        let mut all = Counted::default();
        for link in g.forward.nodes.iter().filter_map(|n| self.network.link(*n)) {
            all.packets += link.packets(i);
        }
        for slot in &account.slots {
            all.totals += self.slots[*slot].flow.totals();
        }
        let last = self.network.link(g.first_and_last.1);
        all.sojourn_ns = last.map_or(0, |link| link.sojourn_ns(i));
        all
    }
    pub(super) fn counted_together(&self, accounts: &[usize]) -> Counted {
        let mut all = Counted::default();
        accounts.iter().for_each(|i| all += self.counted(*i));
        all
    }

    /// The outcome of an account's packets that entered the network in the measured interval.
    pub(super) fn outcomes(&self, i: usize) -> Outcomes {
        let account = &self.accounts[i];
        let g = &self.groups[account.group];
        let mut all = Outcomes::default();
        let (mut passed, mut behind, mut copies) =
            (self.counted(i).packets - account.base.packets, 0, 0);
        // Segments that a later link made of packets which the first one has counted.
        let (mut was_sent, mut cut) = (false, 0);
        for n in &g.forward.nodes {
            if let Some(link) = self.network.link(*n) {
                passed = passed - link.packets_of_warmup(i);
                copies += link.copied(i);
                let in_medium = link.losses().get(&(Some(i), DropReason::Medium));
                all.dropped += lost_of(link.losses(), i) - in_medium.copied().unwrap_or_default();
                all.lost += lost_of(link.losses(), i);
                behind = 0;
                was_sent = true;
            }
            if let Some(ledger) = self.network.ledger(*n) {
                let copied = ledger::of(&ledger.copied, i);
                all.offered += copied;
                if was_sent && self.network.cuts(*n) {
                    cut += copied;
                }
                behind += lost_of(&ledger.losses, i);
                all.lost += lost_of(&ledger.losses, i);
            }
        }
        let of_ends = lost_of(&self.ends.losses, i);
        all.lost += of_ends;
        all.offered += match self.network.ledger(g.forward.nodes[0]) {
            Some(ledger) => ledger::of(&ledger.came, i) + copies,
            None => passed.sent,
        };
        (all.sent, all.ce, all.sce) = (passed.sent + cut, passed.ce, passed.sce);
        all.delivered = passed.delivered - behind - of_ends;
        all.waiting = account.waiting.unwrap_or_else(|| all.offered - all.delivered - all.lost);
        all
    }

    /// The run is over: packets that are still in the network count as waiting.
    pub(super) fn count_waiting(&mut self) {
        let mut waiting = vec![0; self.accounts.len()];
        let mut count = |pkt: &Packet| {
            if let Some(account) = pkt.counted().filter(|_| !pkt.is_of_warmup()) {
                waiting[account] += 1;
            }
        };
        if self.network.purge(self.now, &mut count) {
            let accounts = self.accounts.iter_mut().zip(waiting);
            accounts.for_each(|(account, waiting)| account.waiting = Some(waiting));
        }
    }

    /// Warm-up is over: statistics start again from zero.
    pub(super) fn begin_measuring(&mut self) {
        self.is_measuring = true;
        for i in 0..self.accounts.len() {
            let now = self.counted(i);
            self.accounts[i].base = now;
            // The queues forget their sojourns.
            let sampled = &mut self.groups[self.accounts[i].group].sampled;
            sampled.sojourn_ns = sampled.sojourn_ns.wrapping_sub(now.sojourn_ns);
        }
        for slot in &mut self.slots {
            slot.received_before = slot.flow.totals().received_bytes;
        }
        self.network.begin_measuring(self.now);
        self.ends.measured_from = self.now;
    }
}
