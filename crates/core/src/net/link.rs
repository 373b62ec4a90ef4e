//! A link: a queue discipline, the token bucket behind it, and what is counted at both.

mod served;

use served::Behind;
pub use served::{GAUGES, Sums};

use super::Node;
use super::inbox::Inbox;
use super::watch::{Seen, Watch};
use crate::aqm::fifo::Pfifo;
use crate::aqm::hosts::Hosts;
use crate::aqm::lens::Through;
use crate::aqm::police::{PoliceConfig, Policed, Policer};
use crate::aqm::registry::QdiscConfig;
use crate::aqm::service::{
    self, Band, Counts, FlowCounters, Interval, Losses, PacketCounts, Service, TokenBucket,
};
use crate::aqm::stab::{SizeTable, StabConfig};
use crate::aqm::trace::Trace;
use crate::aqm::tree::{ClassSpec, Queue};
use crate::aqm::{self, Aqm, LinkInfo, Qdisc, QueueCx};
use crate::distribution::{Distribution, Distributions, Range};
use crate::element::Outbox;
use crate::own;
use crate::packet::Packet;
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::units::Rate;

/// Totals since the start, for the conservation law.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    pub arrived: u64,
    pub sent: u64,
    pub dropped: u64,
}

/// The queues inside a discipline that was in force at some time.
struct BandSet {
    names: &'static [&'static str],
    /// Places in the service's bands.
    bands: std::ops::Range<usize>,
    are_classes: bool,
    /// How long it was in force while measuring, and what could have been sent meanwhile.
    in_force: Span,
    capacity_bits: f64,
}

/// A queue discipline, the token bucket behind it, and the counters of both.
pub struct Link {
    pub name: String,
    aqm: Box<dyn Aqm<Packet>>,
    /// How long its queue takes packets to be.
    stab: Option<StabConfig>,
    service: Service<Packet>,
    /// All that were in force, and which of them is now.
    sets: Vec<BandSet>,
    present: usize,
    /// Counts of the bands when measuring began, and at the last sample.
    measured: Vec<Counts>,
    sampled: Vec<Counts>,
    /// Somebody looks at its packets.
    watch: Option<Watch>,
    hosts: Hosts,
    /// `in_force` and `capacity_bits` are up to date at this time.
    accounted_at: Time,
    /// A medium serves the queue.
    behind: Option<Box<Behind>>,
}

/// A link's counters of one of its queues, or of all together, since measuring began.
pub struct QueueReport {
    pub name: &'static str,
    pub counts: Counts,
    pub sojourn: Distribution,
    pub backlog_max: u64,
    pub in_force: Span,
    pub capacity_bits: f64,
}

/// The same of the time since the last sample.
pub struct QueueSample {
    pub name: &'static str,
    pub counts: Counts,
    pub range: Range,
    pub backlog: u64,
    /// It belongs to the discipline in force.
    pub is_present: bool,
}

/// The name of all queues of a link together.
pub const ALL: &str = "all";

impl Link {
    /// `trace`: in place of the bucket, whose rate then is the trace's mean.
    pub fn new(
        name: String,
        bucket: TokenBucket,
        trace: Option<Trace>,
        qdisc: &Queue,
        stab: Option<StabConfig>,
        rng: Rng,
    ) -> Link {
        let mut service = Service::new(bucket, rng);
        service.trace = trace;
        let info = LinkInfo { rate: service.bucket.rate(), now: Time::ZERO };
        let aqm = match &stab {
            None => qdisc.build(info),
            Some(stab) => Box::new(Through::new(SizeTable::new(stab), qdisc.build(info))),
        };
        let mut link = Link {
            name,
            aqm,
            stab,
            service,
            sets: Vec::new(),
            present: 0,
            measured: Vec::new(),
            sampled: Vec::new(),
            watch: None,
            hosts: Hosts::default(),
            accounted_at: Time::ZERO,
            behind: None,
        };
        link.install();
        link
    }

    /// Flows share hosts as told here.
    pub fn know_hosts(&mut self, hosts: Hosts) {
        self.hosts = hosts;
        aqm::set_hosts(&mut *self.aqm, &self.hosts);
    }

    /// One more account, and how its packets cross this link.
    pub fn add_account(&mut self, counters: FlowCounters) {
        let unaccounted = self.service.flow_counters.len() - 1;
        self.service.flow_counters.insert(unaccounted, counters);
    }

    /// Whether its packets are looked at.
    pub fn set_watched(&mut self, is_watched: bool) {
        match is_watched {
            true => drop(self.watch.get_or_insert_default()),
            false => self.watch = None,
        }
    }
    /// Observations since the last call.
    pub fn take_seen(&mut self) -> Seen {
        let backlog = self.service.backlog;
        self.watch.as_mut().map(|watch| watch.take(backlog)).unwrap_or_default()
    }

    /// Of an account, copies that the queue has made in the measured interval.
    pub fn copied(&self, account: usize) -> u64 {
        self.service.flow_counters[account].copied
    }
    /// Drops here of packets that entered the network since measuring began.
    pub fn losses(&self) -> &Losses {
        &self.service.losses
    }
    /// Shows all that is in the queue; false: it has packets and never lets go. Nothing passes here afterwards.
    pub fn purge(&mut self, now: Time, show: &mut dyn FnMut(&Packet)) -> bool {
        aqm::purge(&mut *self.aqm, now, &mut self.service.rng, &mut |inside| show(&inside.pkt))
    }

    /// Packets in the queue.
    pub fn backlog(&self) -> u64 {
        self.service.backlog
    }
    pub fn totals(&self) -> Totals {
        let mut all = Counts::default();
        self.service.bands.iter().for_each(|b| all += b.counts);
        Totals { arrived: all.arrived, sent: all.sent, dropped: all.dropped }
    }
    /// The queues inside all disciplines that have been in force.
    pub fn bands(&self) -> &[Band] {
        &self.service.bands
    }
    pub fn aqm(&self) -> &dyn Aqm<Packet> {
        &*self.aqm
    }
    /// Rate and burst of which it never gives more.
    pub fn peak(&self) -> (Rate, u64) {
        let bucket = &self.service.bucket;
        let of_bucket = (bucket.rate(), bucket.burst_bytes());
        self.service.trace.as_ref().map_or(of_bucket, |trace| {
            let (rate, burst) = trace.steps().peak();
            (rate, burst.max(of_bucket.1))
        })
    }
    /// Packets of an account that were counted here since the start.
    pub fn packets(&self, account: usize) -> PacketCounts {
        self.service.flow_counters[account].packets
    }
    /// The same since measuring began, of packets that came to the network before.
    pub fn packets_of_warmup(&self, account: usize) -> PacketCounts {
        self.service.flow_counters[account].of_warmup
    }
    /// Time in links of an account's packets that left here for the receiver; `None`: this is not its last
    /// link.
    pub fn sojourn(&self, account: usize) -> Option<Distribution> {
        let counters = &self.service.flow_counters[account];
        let mut all = counters.total.clone();
        counters.sojourn.iter().for_each(|(_, d)| all.merge(d));
        counters.last.then_some(all)
    }
    /// The sum of these times, ns, since measuring began or, before that, since the start.
    pub fn sojourn_ns(&self, account: usize) -> u64 {
        let counters = &self.service.flow_counters[account];
        let in_bands = counters.sojourn.iter().map(|(_, one)| one.sum_ns());
        counters.total.sum_ns() + in_bands.sum::<u64>()
    }

    /// Makes the queue's bands those in force.
    fn install(&mut self) {
        aqm::set_hosts(&mut *self.aqm, &self.hosts);
        let names = self.aqm.bands();
        self.present = self.sets.iter().position(|s| s.names == names).unwrap_or_else(|| {
            let first = self.service.bands.len();
            let bands = first..first + names.len().max(1);
            self.service.bands.resize(bands.end, Band::default());
            self.measured.resize(bands.end, Counts::default());
            self.sampled.resize(bands.end, Counts::default());
            self.sets.push(BandSet {
                names,
                bands,
                are_classes: self.aqm.classes().is_some(),
                in_force: Span::ZERO,
                capacity_bits: 0.0,
            });
            self.sets.len() - 1
        });
        self.service.first_band = self.sets[self.present].bands.start;
        self.service.holds_back = false;
        self.service.timer = self.aqm.next_timer();
    }

    /// `tc class change`: a new rate.
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
        self.account(now);
        self.service.bucket.set_rate(rate);
    }

    /// A policer before the queue, with full buckets.
    pub fn police(&mut self, now: Time, config: &PoliceConfig) {
        let policer = Policer::new(config, now);
        match self.aqm.policed() {
            Some(policed) => policed.policer = policer,
            None => self.put_behind(policer),
        }
    }
    fn put_behind(&mut self, policer: Policer) {
        let info = LinkInfo { rate: self.service.bucket.rate(), now: Time::ZERO };
        let queue = std::mem::replace(&mut self.aqm, Pfifo::default().build(info));
        self.aqm = Box::new(Policed { policer, queue });
    }

    /// `tc qdisc change` where the kind stays, else `replace`: the backlog of another kind is lost. What has been stays
    /// reported under the names of its own queues.
    pub fn set_qdisc(&mut self, now: Time, qdisc: &QdiscConfig, out: &mut Outbox) {
        self.account(now);
        let mut cx = QueueCx::new(now, &mut self.service.rng, &mut self.service.drops);
        match self.aqm.change(qdisc.parameters(), &mut cx) {
            Ok(()) => {
                self.give_up(now, out);
                self.follow_bands();
                self.service.timer = self.aqm.next_timer();
            }
            Err(waiting) => self.replace_qdisc(now, qdisc, waiting, out),
        }
    }

    /// A change may have led to other bands, which then hold what waits.
    fn follow_bands(&mut self) {
        if self.aqm.bands() != self.sets[self.present].names {
            self.service.move_out();
            self.install();
            for band in 0..self.sets[self.present].bands.len() {
                self.service.place(band, self.aqm.waiting_in(band));
            }
        }
    }

    /// A new queue; `waiting` is put into it.
    fn replace_qdisc(
        &mut self,
        now: Time,
        qdisc: &QdiscConfig,
        waiting: Vec<Packet>,
        out: &mut Outbox,
    ) {
        let Service { rng, drops, .. } = &mut self.service;
        if !aqm::purge(&mut *self.aqm, now, rng, &mut |lost| drops.push(lost)) {
            own::fail(format!("link \"{}\": its queue has packets and never lets go", self.name));
        }
        self.give_up(now, out);
        let policer = self.aqm.policed().map(|policed| policed.policer);
        self.aqm = self.build(qdisc, now);
        self.service.move_out();
        self.install();
        for pkt in waiting {
            if let Some(queue) = self.aqm.sacks().filter(|_| pkt.sack().is_some()) {
                queue.learn_sack(pkt.sack(), out.sacks.get(pkt.sack()));
            }
            self.service.move_in(&mut *self.aqm, pkt, now);
            self.give_up(now, out);
        }
        policer.into_iter().for_each(|policer| self.put_behind(policer));
        self.service.timer = self.aqm.next_timer();
    }

    /// `tc class change` and `tc qdisc replace` below a class: see [`Classes::change_class`](aqm::Classes::change_class).
    pub fn change_class(&mut self, now: Time, to: &ClassSpec, out: &mut Outbox) {
        let link = LinkInfo { rate: self.service.bucket.rate(), now };
        let mut cx = QueueCx::new(now, &mut self.service.rng, &mut self.service.drops);
        if let Some(classes) = self.aqm.classes() {
            classes.change_class(to, link, &mut cx);
        }
        self.give_up(now, out);
        self.service.timer = self.aqm.next_timer();
    }

    /// Counts what a queue has told that was replaced.
    fn give_up(&mut self, now: Time, out: &mut Outbox) {
        self.service.count_drops(now);
        if let Some(watch) = &mut self.watch {
            watch.see(std::iter::empty(), &[], &self.service.lost);
        }
        self.collect(out);
    }

    /// Brings the time in force and the capacity up to date.
    fn account(&mut self, now: Time) {
        let span = now.since(self.accounted_at);
        let bits = self.capacity_bits(now);
        let set = &mut self.sets[self.present];
        set.in_force += span;
        set.capacity_bits += bits;
        self.accounted_at = now;
    }
    /// The capacity since the last update.
    fn capacity_bits(&self, now: Time) -> f64 {
        let Some(trace) = &self.service.trace else {
            let span = now.since(self.accounted_at);
            return self.service.bucket.rate().bps() as f64 * span.as_secs_f64();
        };
        trace.steps().bits_before(now) - trace.steps().bits_before(self.accounted_at)
    }

    /// Measuring begins now.
    pub fn begin_measuring(&mut self, now: Time) {
        for (before, band) in self.measured.iter_mut().zip(&mut self.service.bands) {
            *before = band.counts;
            band.of_warmup = Counts::default();
            band.backlog_max = band.backlog;
        }
        self.service.backlog_max = self.service.backlog;
        self.service.measured_from = now;
        for counters in &mut self.service.flow_counters {
            counters.of_warmup = PacketCounts::default();
            counters.total = Distribution::default();
            counters.sojourn = Distributions::default();
        }
        for set in &mut self.sets {
            (set.in_force, set.capacity_bits) = (Span::ZERO, 0.0);
        }
        self.accounted_at = now;
        self.forget_delays();
    }

    /// All queues together, and each of those inside that was in force while measuring.
    pub fn report(&self, now: Time) -> Vec<QueueReport> {
        let mut all = QueueReport {
            name: ALL,
            counts: Counts::default(),
            sojourn: Distribution::default(),
            backlog_max: self.service.backlog_max,
            in_force: Span::ZERO,
            capacity_bits: 0.0,
        };
        let mut sojourns = vec![Distribution::default(); self.service.bands.len()];
        for counters in &self.service.flow_counters {
            counters.sojourn.iter().for_each(|(place, one)| sojourns[place].merge(one));
        }
        let mut inside = Vec::new();
        for (number, set) in self.sets.iter().enumerate() {
            let (mut in_force, mut capacity_bits) = (set.in_force, set.capacity_bits);
            if number == self.present {
                let span = now.since(self.accounted_at);
                in_force += span;
                capacity_bits += self.capacity_bits(now);
            }
            all.in_force += in_force;
            all.capacity_bits += capacity_bits;
            for (i, place) in set.bands.clone().enumerate() {
                let band = &self.service.bands[place];
                let counts = band.counts - self.measured[place] - band.of_warmup;
                let sojourn = std::mem::take(&mut sojourns[place]);
                all.counts += counts;
                all.sojourn.merge(&sojourn);
                if let Some(name) = set.names.get(i)
                    && in_force > Span::ZERO
                {
                    let backlog_max = band.backlog_max;
                    inside.push(QueueReport {
                        name,
                        counts,
                        sojourn,
                        backlog_max,
                        in_force,
                        capacity_bits,
                    });
                }
            }
        }
        inside.insert(0, all);
        inside
    }

    /// What happened since the last sample in all queues together, and in each of those inside that was in
    /// force. A class comes from its first packet on: of thousands of subscribers, most are idle.
    pub fn sample(&mut self) -> Vec<QueueSample> {
        let mut all = QueueSample {
            name: ALL,
            counts: Counts::default(),
            range: Range::default(),
            backlog: self.service.backlog,
            is_present: true,
        };
        let mut inside = Vec::new();
        for (number, set) in self.sets.iter().enumerate() {
            for (i, place) in set.bands.clone().enumerate() {
                let band = &mut self.service.bands[place];
                let counts = band.counts - std::mem::replace(&mut self.sampled[place], band.counts);
                let range = std::mem::take(&mut band.range);
                all.counts += counts;
                all.range.merge(range);
                let is_present = number == self.present;
                if let Some(name) = set.names.get(i)
                    && (is_present || counts != Counts::default())
                    && (!set.are_classes || band.counts.arrived > 0)
                {
                    let backlog = band.backlog;
                    inside.push(QueueSample { name, counts, range, backlog, is_present });
                }
            }
        }
        inside.insert(0, all);
        inside
    }

    /// Tells what was copied and what was lost.
    fn collect(&mut self, out: &mut Outbox) {
        for (pkt, copies) in self.service.copied.drain(..) {
            out.copy(&pkt, copies);
        }
        let why = self.service.lost_why.drain(..);
        for (pkt, why) in self.service.lost.drain(..).zip(why) {
            out.lose(pkt.enqueued_at, &pkt, why);
        }
    }
}

impl Node for Link {
    fn next(&self) -> Time {
        self.service.timer.min(self.service.next())
    }
    fn run(&mut self, inbox: &mut Inbox, now: Time, until: Time, out: &mut Outbox) {
        if let Some(queue) = self.aqm.sacks() {
            let mut arrivals = inbox.arrivals();
            while let Some(pkt) = arrivals.take() {
                if pkt.sack().is_some() {
                    queue.learn_sack(pkt.sack(), out.sacks.get(pkt.sack()));
                }
            }
        }
        if now < self.service.measured_from {
            inbox.note_warmup(until);
        }
        let arrivals = inbox.arrivals();
        let before = out.packets.len();
        let mut window = Interval { begin: now, until, arrivals, departed: &mut out.packets };
        match self.service.trace {
            None => self.aqm.run(&mut self.service, &mut window),
            Some(_) => service::run::<_, _, true>(&mut *self.aqm, &mut self.service, &mut window),
        }
        let left = window.arrivals.keys.len();
        if let Some(watch) = &mut self.watch {
            let mut arrivals = inbox.arrivals();
            let taken = arrivals.keys.len() - left;
            let arrived = (0..taken).map_while(|_| Some((arrivals.time(), arrivals.take()?)));
            watch.see(arrived, &out.packets[before..], &self.service.lost);
        }
        inbox.leave(left);
        if !self.service.lost.is_empty() || !self.service.copied.is_empty() {
            self.collect(out);
        }
    }
    fn as_link(&self) -> Option<&Link> {
        Some(self)
    }
    fn as_link_mut(&mut self) -> Option<&mut Link> {
        Some(self)
    }
}
