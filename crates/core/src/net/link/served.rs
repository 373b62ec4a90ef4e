//! A link whose queue is served by a medium, and what is counted there.

use std::ops::AddAssign;

use super::{Link, SizeTable, Through, aqm};
use crate::aqm::lens::{Earliest, FromEarliest};
use crate::aqm::registry::QdiscConfig;
use crate::aqm::service::Carried as _;
use crate::aqm::{Backlog, DropReason, LinkInfo, QueueCx};
use crate::distribution::Distribution;
use crate::ecn::Ecn;
use crate::element::Outbox;
use crate::net::parts::{NOTHING, Parts, Stages};
use crate::net::stations::Stations;
use crate::packet::Packet;
use crate::params::{Gauge, gauge};
use crate::probe::Gauges;
use crate::time::{Span, Time};

/// The columns of the time series that every medium has.
pub const GAUGES: &[Gauge] = &[
    gauge("access_ms", "ms", "from the queue to the first transmission, mean of what arrived"),
    gauge("air_ms", "ms", "from the first transmission to the arrival, with retransmissions"),
    gauge("reorder_ms", "ms", "wait for what was sent before"),
    gauge("medium_lost_packets", "packets", "given up by the medium"),
];

/// Where packets that have arrived spent their time behind the queue, since a time.
#[derive(Copy, Clone, Debug, Default)]
pub struct Sums {
    pub packets: u64,
    pub access: Span,
    pub air: Span,
    pub reorder: Span,
}

impl Sums {
    fn add(&mut self, arrival: Time, stages: Stages) {
        self.packets += 1;
        self.access += stages.sent.since(stages.pulled);
        self.air += stages.arrived.since(stages.sent);
        self.reorder += arrival.since(stages.arrived);
    }
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Sums) {
        self.packets += other.packets;
        self.access += other.access;
        self.air += other.air;
        self.reorder += other.reorder;
    }
}

/// A link's state for the medium behind it.
#[derive(Debug, Default)]
pub struct Behind {
    parts: Parts,
    /// Parts whose queue has packets and holds them back.
    held: Vec<bool>,
    /// Packets that left the queue, arrived and were lost since the start.
    pub pulled: u64,
    pub arrived: u64,
    pub lost: u64,
    sampled: Sums,
    lost_sampled: u64,
    /// By account, since measuring began.
    of_accounts: Vec<Sums>,
    /// When each of those that arrived left the queue, where somebody asks for that.
    pulls: Option<Vec<Time>>,
    /// From the queue to the arrival, since measuring began.
    delay: Distribution,
    lost_measured: u64,
    /// The medium's report since the last sample.
    gauges: Vec<(&'static str, f64)>,
}

impl Gauges for Behind {
    fn gauge(&mut self, name: &'static str, value: f64) {
        self.gauges.push((name, value));
    }
}

impl Link {
    /// A medium serves its queue, in these parts.
    pub fn serve_by_medium(&mut self, parts: Parts, qdisc: &QdiscConfig) {
        let held = vec![false; parts.count()];
        self.behind = Some(Box::new(Behind { parts, held, ..Behind::default() }));
        self.aqm = self.build(qdisc, Time::ZERO);
        aqm::set_hosts(&mut *self.aqm, &self.hosts);
        self.service.timer = self.aqm.next_timer();
    }
    /// A queue, or one for each part.
    pub(super) fn build(&self, qdisc: &QdiscConfig, now: Time) -> Box<dyn aqm::Aqm<Packet>> {
        let info = LinkInfo { rate: self.service.bucket.rate(), now };
        let Some(behind) = &self.behind else {
            return match &self.stab {
                None => qdisc.build(info),
                Some(stab) => Box::new(Through::new(SizeTable::new(stab), qdisc.build(info))),
            };
        };
        let parts = &behind.parts;
        if let Some(grants) = parts.by_latency {
            let mut queue = qdisc.build(info);
            if let Some(divided) = queue.divided() {
                divided.know_grants(grants);
                return queue;
            }
        }
        let of_part = || match parts.are_asked {
            true => Box::new(Through::new(FromEarliest::default(), qdisc.build(info))),
            false => qdisc.build(info),
        };
        match parts.count() {
            1 => of_part(),
            _ => Box::new(Stations::new(parts.clone(), of_part)),
        }
    }
    pub fn behind(&self) -> Option<&Behind> {
        self.behind.as_deref()
    }
    fn behind_mut(&mut self) -> &mut Behind {
        self.behind.as_mut().expect("a medium serves it")
    }
    pub fn parts(&self) -> usize {
        self.behind.as_ref().map_or(1, |behind| behind.held.len())
    }

    /// The part of the queue that a packet comes to.
    pub fn part_of(&self, pkt: &Packet) -> usize {
        self.behind.as_ref().map_or(0, |behind| behind.parts.of(pkt))
    }
    /// The medium marks a packet before the queue gets it.
    pub fn mark(&mut self, pkt: &mut Packet) {
        pkt.ecn.set(Ecn::Ce);
        self.service.bands[self.service.first_band].counts.marked += 1;
    }
    /// A packet comes, which waits for a permission first if the medium has to be asked; tells to which part.
    pub fn accept(
        &mut self,
        now: Time,
        mut pkt: Packet,
        earliest: Option<Earliest>,
        out: &mut Outbox,
    ) -> usize {
        if let Some(queue) = self.aqm.sacks().filter(|_| pkt.sack().is_some()) {
            queue.learn_sack(pkt.sack(), out.sacks.get(pkt.sack()));
        }
        if now < self.service.measured_from {
            pkt.set_of_warmup();
        }
        if let (Some(earliest), Some(asked)) = (earliest, self.aqm.asked()) {
            asked.expect(earliest);
        }
        self.service.arrive(now, &pkt, &mut *self.aqm);
        if let Some(watch) = &mut self.watch {
            watch.see(std::iter::once((now, &pkt)), &[], &[]);
        }
        let behind = self.behind_mut();
        let part = behind.parts.of(&pkt);
        behind.held[part] = false;
        self.settle(now, out);
        part
    }
    /// The next packet of a part, and when its wait in the queue ended: now, or earlier by its wait for a permission.
    pub fn pull(&mut self, now: Time, part: usize, out: &mut Outbox) -> Option<(Packet, Time)> {
        let part_of_queue = (self.parts() > 1).then_some(part);
        let pulled = self.service.pull(now, part_of_queue, &mut *self.aqm);
        self.settle(now, out);
        if let (Some(watch), Some((pkt, _))) = (&mut self.watch, &pulled) {
            watch.see(std::iter::empty(), std::slice::from_ref(pkt), &[]);
        }
        let behind = self.behind_mut();
        behind.held[part] = pulled.is_none();
        behind.pulled += u64::from(pulled.is_some());
        pulled
    }
    /// The backlog of a part that is not held back.
    pub fn waiting(&mut self, part: usize) -> Backlog {
        let held = self.behind.as_ref().is_some_and(|behind| behind.held[part]);
        match held {
            true => NOTHING,
            false if self.parts() > 1 => {
                self.aqm.divided().map_or(NOTHING, |queue| queue.backlog_of(part))
            }
            false => self.aqm.backlog(),
        }
    }
    /// When the queue's timer is due.
    pub fn timer(&self) -> Time {
        self.service.timer
    }
    pub fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        self.aqm.on_timer(&mut QueueCx::new(now, &mut self.service.rng, &mut self.service.drops));
        self.service.timer = self.aqm.next_timer();
        self.behind_mut().held.fill(false);
        self.settle(now, out);
    }
    /// Counts what the queue has told.
    fn settle(&mut self, now: Time, out: &mut Outbox) {
        if !self.service.drops.is_empty() {
            self.give_up(now, out);
        } else if !self.service.copied.is_empty() {
            self.collect(out);
        }
    }

    /// A packet has arrived behind the medium.
    pub fn deliver(&mut self, pkt: &Packet, stages: Stages) {
        self.service.deliver(pkt);
        let behind = self.behind_mut();
        behind.arrived += 1;
        behind.sampled.add(pkt.enqueued_at, stages);
        behind.delay.record(pkt.enqueued_at.since(stages.pulled));
        if let Some(account) = pkt.counted() {
            if behind.of_accounts.len() <= account {
                behind.of_accounts.resize(account + 1, Sums::default());
            }
            behind.of_accounts[account].add(pkt.enqueued_at, stages);
        }
        if let Some(pulls) = &mut behind.pulls {
            pulls.push(stages.pulled);
        }
    }
    /// Where an account's packets spent their time behind the queue, since measuring began; nothing of a wire.
    pub fn behind_queue(&self, account: usize) -> Option<Sums> {
        let behind = self.behind.as_ref()?;
        Some(behind.of_accounts.get(account).copied().unwrap_or_default())
    }
    /// When each packet left the queue that has arrived since the last call; nothing of a wire.
    pub fn take_pulls(&mut self) -> Option<Vec<Time>> {
        let pulls = self.behind.as_mut()?.pulls.get_or_insert_default();
        Some(std::mem::take(pulls))
    }
    pub fn lose_in_medium(&mut self, now: Time, pkt: &Packet) {
        let behind = self.behind_mut();
        behind.lost += 1;
        behind.lost_sampled += 1;
        if now >= self.service.measured_from && !pkt.is_of_warmup() {
            let key = (pkt.counted(), DropReason::Medium);
            *self.service.losses.entry(key).or_default() += 1;
            self.behind_mut().lost_measured += 1;
        }
    }

    /// The report since the last sample, after the medium's own part.
    pub fn take_gauges(&mut self, out: &mut dyn Gauges) {
        let Some(behind) = &mut self.behind else { return };
        let sums = std::mem::take(&mut behind.sampled);
        let lost = std::mem::take(&mut behind.lost_sampled);
        if sums.packets > 0 {
            let mean = |sum: Span| sum.as_millis_f64() / sums.packets as f64;
            out.gauge("access_ms", mean(sums.access));
            out.gauge("air_ms", mean(sums.air));
            out.gauge("reorder_ms", mean(sums.reorder));
        }
        out.gauge("medium_lost_packets", lost as f64);
        for (name, value) in behind.gauges.drain(..) {
            out.gauge(name, value);
        }
    }
    pub fn gauges_of_medium(&mut self) -> Option<&mut dyn Gauges> {
        self.behind.as_mut().map(|behind| &mut **behind as &mut dyn Gauges)
    }
    /// Measuring begins.
    pub(super) fn forget_delays(&mut self) {
        if let Some(behind) = &mut self.behind {
            behind.delay = Distribution::default();
            behind.of_accounts.clear();
            behind.lost_measured = 0;
        }
    }
    /// From the queue to the arrival behind the medium, and what it lost, since measuring began.
    pub fn medium(&self) -> Option<(&Distribution, u64)> {
        self.behind.as_ref().map(|behind| (&behind.delay, behind.lost_measured))
    }
}
