//! CAKE (Common Applications Kept Enhanced), as Linux has it (`sch_cake`, 7.2): a shaper, tins by
//! codepoint, fair queueing among hosts and flows, and COBALT for each flow.
//!
//! * The shaper ([`super::shaper`]) counts time, not tokens, so it has no burst; it may know the framing of
//!   the line. Without `bandwidth` it is off.
//! * Tins ([`diffserv`]): while a tin keeps below its share of the rate it comes before lower ones;
//!   beyond, the tin that is due first is served. Without a rate, the tins take turns by weight.
//! * In a tin ([`tin`]), flows take turns by deficit round robin, sparse flows first. A flow's quantum
//!   is divided by the number of bulk flows of its host, so hosts share alike. A hash with eight ways
//!   ([`hash`]) gives flows their queues.
//! * COBALT ([`super::cobalt`]) marks or drops as a packet leaves, but never drops a flow's last one.
//!   With `sce`, of the SCE kernel tree only, SCE marks come before ([`sce`]).
//! * A full buffer drops the head of the longest queue.
//!
//! An empty flow comes to rest only at its turn, and turns are taken while packets wait (Linux). So a
//! flow that is alone in the queue never has BLUE's probability lowered.
//!
//! * With `ack-filter`, a waiting ACK goes that a later one makes needless ([`ack_filter`]).
//!
//! `nat` changes nothing here: there are no translated addresses.
//! Firewall marks are not modelled.

pub mod ack_filter;
pub mod autorate;
mod config;
pub mod diffserv;
pub mod hash;
pub mod sce;
pub mod tin;

use std::any::Any;

use ack_filter::{AckFilter, Sacks};
use autorate::Autorate;
pub use config::CakeConfig;
use diffserv::Share;
use hash::Hashes;
use tin::Tin;

use super::flow_hash::FlowHash;
use super::hosts::Hosts;
use super::line::Line;
use super::shaper::{Pace, Shaper};
use super::{
    Aqm, Backlog, DropReason, Gauges, LinkInfo, Marking, Pkt, Qdisc, QueueCx, ReadsHosts,
    ReadsSacks, Room, Separation,
};
use crate::packet::{Packet, SackSlot};
use crate::sack::Blocks;
use crate::time::{Span, Time};

/// Tins for which the kernel has room.
const MOST_TINS: usize = 8;

/// The queue at work.
#[derive(Debug)]
pub struct Cake<P> {
    config: CakeConfig,
    /// The framing of packets that came before these times; what waits keeps its length on the wire (`adjusted_len`).
    earlier: Vec<(Time, Line)>,
    tins: Vec<Tin<P>>,
    shaper: Shaper,
    autorate: Option<Autorate>,
    /// The rate that somebody said, until `autorate` found another one.
    said_rate: u64,
    /// The tin whose turn it is.
    current: usize,
    packets: u64,
    bytes: u64,
    /// Kernel memory of the backlog.
    memory: u64,
    memory_limit: u64,
    hash: FlowHash,
    sacks: Sacks,
    hosts: Hosts,
}

fn new_tin<P: Pkt>(config: &CakeConfig, share: Share) -> Tin<P> {
    Tin::new(share, config.flow_mode, config.line.target(), config.line.rtt, config.sce)
}

impl<P: Pkt> Cake<P> {
    pub fn new(config: CakeConfig) -> Self {
        let shares = config.diffserv.shares(config.line.rate);
        Cake {
            tins: shares.into_iter().map(|share| new_tin(&config, share)).collect(),
            shaper: Shaper::new(Pace::new(config.line.rate)),
            autorate: config.autorate.then(|| Autorate::new(config.line.rate, None)),
            said_rate: config.line.rate,
            current: 0,
            packets: 0,
            bytes: 0,
            memory: 0,
            memory_limit: config.memory_limit(),
            hash: FlowHash::default(),
            sacks: Sacks::default(),
            hosts: Hosts::default(),
            earlier: Vec::new(),
            config,
        }
    }

    fn set_rate(&mut self, rate: u64) {
        self.config.line.rate = rate;
        for (tin, share) in self.tins.iter_mut().zip(self.config.diffserv.shares(rate)) {
            tin.set_share(share, self.config.line.target(), self.config.line.rtt);
        }
        self.shaper.pace = Pace::new(rate);
        self.memory_limit = self.config.memory_limit();
    }

    #[inline]
    fn band(&self, tin: usize, cx: &mut QueueCx<P>) {
        cx.band(self.config.diffserv.band(tin));
    }

    fn hashes(&mut self, pkt: &P, cx: &mut QueueCx<P>) -> Hashes {
        Hashes {
            flow: self.hash.of(pkt.flow_hash(), cx.rng),
            source: self.hash.of(pkt.source_hash(&self.hosts), cx.rng),
            destination: self.hash.of(pkt.destination_hash(&self.hosts), cx.rng),
        }
    }

    /// Takes out the head of a flow.
    #[inline]
    fn pop(&mut self, tin: usize, flow: usize) -> Option<P> {
        let pkt = self.tins[tin].flows[flow].queue.pop()?;
        let len = u64::from(pkt.frame_len());
        self.tins[tin].bytes -= len;
        self.bytes -= len;
        self.memory -= u64::from(pkt.truesize());
        self.packets -= 1;
        Some(pkt)
    }

    /// Removes the tins beyond this many, with their packets.
    fn keep_tins(&mut self, tins: usize, cx: &mut QueueCx<P>) {
        for t in tins..self.tins.len() {
            self.band(t, cx);
            for flow in self.tins[t].by_queue() {
                while let Some(pkt) = self.pop(t, flow) {
                    cx.drop(pkt, DropReason::Replaced);
                }
            }
        }
        self.tins.truncate(tins);
        // Linux clears the tins that it has room for and does not use, and goes on after the last of them.
        if tins < MOST_TINS {
            self.current = 0;
        }
    }

    /// The cost of a packet, charged to its tin and to the shaper.
    #[inline]
    fn charge(&mut self, tin: usize, pkt: &P, now: Time, dropped: bool) -> i64 {
        let then = self.earlier.iter().find(|(until, _)| pkt.enqueued_at() < *until);
        let line = then.map_or(&self.config.line, |(_, line)| line);
        let len = line.on_wire(pkt.frame_len());
        if self.shaper.pace.is_limited() {
            self.tins[tin].charge(len, now);
            self.shaper.charge(len, dropped);
        }
        i64::from(len)
    }

    /// Drops the ACK that the newest packet of the flow makes redundant. Returns its length.
    #[cold]
    fn filter_acks(&mut self, t: usize, flow: usize, cx: &mut QueueCx<P>) -> u32 {
        let queue = &mut self.tins[t].flows[flow].queue;
        let place = self.config.ack_filter.needless(queue, &self.sacks);
        let Some(ack) = place.and_then(|place| queue.remove(place)) else { return 0 };
        let len = ack.frame_len();
        self.tins[t].bytes -= u64::from(len);
        self.bytes -= u64::from(len);
        self.memory -= u64::from(ack.truesize());
        self.packets -= 1;
        if self.config.ingress {
            self.charge(t, &ack, cx.now, true);
        }
        self.band(t, cx);
        cx.drop(ack, DropReason::Aqm);
        len
    }

    /// The buffer is full: the longest queue loses its head.
    #[cold]
    fn drop_from_longest(&mut self, cx: &mut QueueCx<P>) {
        let mut longest = (0, 0, 0);
        for (t, tin) in self.tins.iter().enumerate() {
            if let Some((bytes, flow)) = tin.longest().filter(|&(bytes, _)| bytes > longest.0) {
                longest = (bytes, t, flow);
            }
        }
        let (_, t, flow) = longest;
        let tin = &mut self.tins[t];
        tin.flows[flow].cobalt.queue_full(&tin.params, cx.now);
        let Some(pkt) = self.pop(t, flow) else { return };
        if self.config.ingress {
            self.charge(t, &pkt, cx.now, true);
        }
        self.band(t, cx);
        cx.drop(pkt, DropReason::Overflow);
    }

    /// Without a rate: the tins in turn, by weight.
    fn turn_by_weight(&mut self) {
        let mut t = self.current;
        while self.tins[t].deficit < 0 || !self.tins[t].is_active() {
            let tin = &mut self.tins[t];
            if tin.deficit <= 0 {
                tin.deficit += tin.quantum;
            }
            t = (t + 1) % self.tins.len();
        }
        self.current = t;
    }

    /// With a rate: the highest tin that is below its share, else the one that will be first.
    fn turn_by_schedule(&mut self, now: Time) {
        let mut earliest = Time::NEVER;
        for (t, tin) in self.tins.iter().enumerate().filter(|(_, tin)| tin.is_active()) {
            if tin.next <= now || tin.next <= earliest {
                earliest = tin.next;
                self.current = t;
            }
        }
    }

    /// Takes a packet of a flow through COBALT. `None` if it is the turn of another one.
    #[inline]
    fn serve(&mut self, t: usize, flow: usize, cx: &mut QueueCx<P>) -> Option<P> {
        let now = cx.now;
        loop {
            let Some(mut pkt) = self.pop(t, flow) else {
                self.tins[t].settle_empty(flow, now);
                return None;
            };
            let tin = &mut self.tins[t];
            let bulk_flows = if self.config.ingress { u64::from(tin.bulk_flows) } else { 0 };
            let state = &mut tin.flows[flow];
            let drops = state.cobalt.drops(&tin.params, bulk_flows, &mut pkt, cx);
            if let Some(ramp) = &tin.sce_ramp {
                ramp.mark(state.cobalt.is_above_target(), &mut pkt, cx);
            }
            if !drops || state.queue.is_empty() {
                tin.delays.record(now.since(pkt.enqueued_at()));
                self.spend(t, flow, &pkt, now, false);
                return Some(pkt);
            }
            if self.config.ingress {
                self.spend(t, flow, &pkt, now, true);
            }
            cx.drop(pkt, DropReason::Aqm);
            if self.config.ingress {
                return None;
            }
        }
    }

    #[inline]
    fn spend(&mut self, t: usize, flow: usize, pkt: &P, now: Time, dropped: bool) {
        let len = self.charge(t, pkt, now, dropped);
        self.tins[t].flows[flow].deficit -= len;
        self.tins[t].deficit -= len;
    }
}

impl<P: Pkt> ReadsSacks for Cake<P> {
    fn learn_sack(&mut self, slot: SackSlot, blocks: Blocks) {
        self.sacks.learn(slot, blocks);
    }
}

impl<P: Pkt> ReadsHosts for Cake<P> {
    fn know_hosts(&mut self, hosts: &Hosts) {
        self.hosts = hosts.clone();
    }
}

impl<P: Pkt + Send> Aqm<P> for Cake<P> {
    fn enqueue(&mut self, mut pkt: P, cx: &mut QueueCx<P>) {
        let now = cx.now;
        let len = pkt.frame_len();
        let hashes = self.hashes(&pkt, cx);
        let t = self.config.diffserv.tin(pkt.dscp());
        if self.config.wash {
            pkt.set_dscp(0);
        }
        let tin = &mut self.tins[t];
        if tin.bytes == 0 {
            tin.open();
            tin.next = tin.next.max(now);
            if self.packets == 0 {
                self.shaper.begins(now);
            }
        }
        let flow = tin.classify(hashes);
        self.memory += u64::from(pkt.truesize());
        tin.flows[flow].queue.push(pkt);
        tin.bytes += u64::from(len);
        self.bytes += u64::from(len);
        self.packets += 1;
        let mut more = len;
        if self.config.ack_filter != AckFilter::Off {
            more = len.saturating_sub(self.filter_acks(t, flow, cx));
        }
        if let Some(rate) = self.autorate.as_mut().and_then(|a| a.arrival(now, more)) {
            self.set_rate(rate);
        }
        self.tins[t].activate(flow, cx.rng);
        while self.memory > self.memory_limit {
            self.drop_from_longest(cx);
        }
        self.band(t, cx);
    }

    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        let now = cx.now;
        let mut decaying_first = true;
        let mut chosen = false;
        loop {
            if !chosen {
                if self.packets == 0 {
                    return None;
                }
                if !self.shaper.ready(now) {
                    return None;
                }
                if self.shaper.pace.is_limited() {
                    self.turn_by_schedule(now);
                } else {
                    self.turn_by_weight();
                }
                self.band(self.current, cx);
            }
            let t = self.current;
            let Some(flow) = self.tins[t].turn(decaying_first) else {
                chosen = false;
                continue;
            };
            decaying_first = false;
            if self.tins[t].flows[flow].deficit <= 0 {
                self.tins[t].next_round(flow, cx.rng);
                chosen = true;
                continue;
            }
            if let Some(pkt) = self.serve(t, flow, cx) {
                return Some(pkt);
            }
            // After a drop on an ingress the same tin goes on; after an empty flow all is open.
            chosen = !self.tins[t].flows[flow].queue.is_empty();
        }
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets, bytes: self.bytes }
    }
    fn next_timer(&self) -> Time {
        self.shaper.wake()
    }
    fn on_timer(&mut self, _cx: &mut QueueCx<P>) {
        self.shaper.woken();
    }
    /// Packets beyond a smaller memory leave when the next packet arrives, as in Linux. Tins keep their number, their
    /// packets and their deficits, whatever they are called; a removed tin loses its packets.
    fn change(&mut self, to: &dyn Any, cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let config = to.downcast_ref::<CakeConfig>().ok_or_else(Vec::new)?.clone();
        let shares = config.diffserv.shares(config.line.rate);
        self.keep_tins(shares.len(), cx);
        let new = shares.into_iter().skip(self.tins.len()).map(|share| new_tin(&config, share));
        self.tins.extend(new);
        let keeps =
            config.autorate && self.autorate.is_some() && config.line.rate == self.said_rate;
        let rate = if keeps { self.config.line.rate } else { config.line.rate };
        self.said_rate = config.line.rate;
        let autorate = self.autorate.take().unwrap_or_else(|| Autorate::new(rate, Some(cx.now)));
        self.autorate = config.autorate.then_some(autorate);
        for tin in &mut self.tins {
            (tin.mode, tin.sce) = (config.flow_mode, config.sce);
        }
        if self.packets == 0 {
            self.earlier.clear();
        } else {
            self.earlier.push((cx.now, self.config.line.clone()));
        }
        self.config = config;
        self.set_rate(rate);
        Ok(())
    }
    fn bands(&self) -> &'static [&'static str] {
        self.config.diffserv.bands()
    }
    fn waiting_in(&self, band: usize) -> u64 {
        let tins = self.tins.iter().enumerate();
        let of_band = tins.filter(|&(t, _)| self.config.diffserv.band(t) == band);
        of_band.flat_map(|(_, tin)| &tin.flows).map(|flow| flow.queue.len() as u64).sum()
    }
    fn sacks(&mut self) -> Option<&mut dyn ReadsSacks> {
        (self.config.ack_filter != AckFilter::Off).then_some(self)
    }
    fn hosts(&mut self) -> Option<&mut dyn ReadsHosts> {
        Some(self)
    }

    /// The delays of `tc -s`, of the tin where they are longest; COBALT's state in the flow where it
    /// is furthest; and how many flows there are.
    fn probe(&self, out: &mut dyn Gauges) {
        let longest = |delay: fn(&Tin<P>) -> u64| self.tins.iter().map(delay).max().unwrap_or(0);
        let ms = |ns: u64| Span(ns).as_millis_f64();
        out.gauge("pk_delay_ms", ms(longest(|tin| tin.delays.peak)));
        out.gauge("av_delay_ms", ms(longest(|tin| tin.delays.average)));
        out.gauge("sp_delay_ms", ms(longest(|tin| tin.delays.base)));
        let (mut count, mut p_drop) = (0, 0.0_f64);
        for tin in &self.tins {
            for i in tin.active() {
                count = count.max(tin.flows[i].cobalt.count());
                p_drop = p_drop.max(tin.flows[i].cobalt.p_drop());
            }
        }
        out.gauge("cobalt_count", f64::from(count));
        out.gauge("p_drop", p_drop);
        let sum = |n: fn(&Tin<P>) -> u32| f64::from(self.tins.iter().map(n).sum::<u32>());
        out.gauge("sparse_flows", sum(|tin| tin.sparse_flows));
        out.gauge("bulk_flows", sum(|tin| tin.bulk_flows));
        if let Some(autorate) = &self.autorate {
            out.gauge("capacity_estimate_mbps", autorate.estimate() as f64 * 8e-6);
        }
    }
}

impl Qdisc for CakeConfig {
    const SEPARATION: Separation = Separation::PerFlow;
    const SEPARATION_WITH: &'static [(&'static str, Separation)] =
        &[("flowblind", Separation::Single)];
    const MARKING: Marking = Marking::Always;
    const DROPS_WAITING: bool = true;

    fn splits(&self) -> bool {
        self.split_gso
    }
    fn room(&self, _link: LinkInfo) -> Room {
        let tins = self.diffserv.shares(self.line.rate).len() as u64;
        let always = tins * size_of::<Tin<Packet>>() as u64;
        let tables = tins * tin::TABLES;
        Room { memory: self.memory_limit(), always, tables, ..Room::ENDLESS }.shaped(self.line.rate)
    }
    fn build<P: Pkt + Send + 'static>(&self, _link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(Cake::new(self.clone()))
    }
}
