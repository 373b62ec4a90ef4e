//! What is shown during a run. Watching does not change the run.

use serde::{Deserialize, Serialize};

use super::recording::Histogram;
use super::{Recording, Simulation, closing};
use crate::distribution::Distribution;
use crate::net::link::Link;
use crate::net::tap::Tap;
use crate::probe::{Series, Transfer};
use crate::time::{Span, Time};

/// Rows of the series are not closer than this.
const SHORTEST_SAMPLE: Span = Span::from_micros(10);

/// The quantities to show.
#[derive(Copy, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Watch {
    /// Time between rows of the series; by default the run's.
    pub sample_ns: Option<u64>,
    /// Each flow apart.
    pub members: bool,
    pub histograms: bool,
    /// Each packet at each link.
    pub packets: bool,
    /// What each medium sends.
    pub air: bool,
}

/// The news since the last request.
#[derive(Clone, Debug, Default)]
pub struct Drained {
    pub flow_names: Vec<String>,
    pub link_names: Vec<String>,
    pub series: Series,
    pub members: Members,
    pub transfers: Vec<Transfer>,
    /// Since measuring began.
    pub histograms: Vec<Histogram>,
    pub packets: PacketEvents,
    pub air: Vec<AirEvents>,
}

/// A row per flow and sample; `member` is its number in the group, from 1.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Members {
    pub time_s: Vec<f64>,
    pub flow: Vec<String>,
    pub member: Vec<u32>,
    pub goodput_mbps: Vec<f64>,
    /// Only for a flow that sends and responds to congestion.
    pub cwnd_packets: Vec<Option<f64>>,
    pub srtt_ms: Vec<Option<f64>>,
}

/// A row per event, in the order of time for each link.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PacketEvents {
    pub link: Vec<String>,
    pub time_ns: Vec<u64>,
    /// 0: it arrives, 1: it leaves, 2: it is dropped.
    pub what: Vec<u8>,
    pub id: Vec<u64>,
    pub flow: Vec<String>,
    pub member: Vec<u32>,
    /// The two bits of the field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: Vec<u8>,
    pub bytes: Vec<u16>,
    /// By link: packets in its queue whose arrival is not among the events.
    pub unknown: Vec<u64>,
    /// There were too many events: they end early, and the packets that wait now are unknown.
    pub cut: bool,
}

/// What a medium sent: a row per burst, in the order of their beginnings for each direction.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AirEvents {
    /// The link to the users.
    pub link: String,
    /// What the queues of both directions take for the link's rate.
    pub rates_bps: [u64; 2],
    /// Length of a slot, or of a MAP interval, where the medium has them.
    pub slot_ns: Option<u64>,
    /// A letter for each slot of a TDD pattern: D, S or U.
    pub pattern: String,
    /// Stations, or service flows: `row` is a place in it.
    pub rows: Vec<String>,
    /// 0: sent, 1: collided, 2: requested, 3: granted.
    pub what: Vec<u8>,
    pub from_ns: Vec<u64>,
    pub to_ns: Vec<u64>,
    /// 0: to the users, 1: from them.
    pub way: Vec<u8>,
    pub row: Vec<u16>,
    /// That of the first packet.
    pub flow: Vec<Option<String>>,
    /// Packets in it, or MPDUs of an A-MPDU; how many of them were sent again, and how many did not arrive.
    pub packets: Vec<u32>,
    pub again: Vec<u32>,
    pub failed: Vec<u32>,
    pub bytes: Vec<u64>,
    pub unused_bytes: Vec<u64>,
    /// There was more; the oldest bursts are missing.
    pub cut: bool,
}

/// Rows of the series, and what else somebody who watches has not yet got.
pub(super) struct Shown {
    pub watch: Watch,
    interval: Span,
    /// When the next rows are due.
    pub next: Time,
    /// When the last ones were added.
    at: Time,
    pub series: Series,
    pub members: Members,
    /// How many of the completed transfers were handed over.
    transfers: usize,
}

impl Shown {
    pub fn new(interval: Span) -> Shown {
        Shown {
            watch: Watch::default(),
            interval,
            next: Time::ZERO + interval,
            at: Time::ZERO,
            series: Series::default(),
            members: Members::default(),
            transfers: 0,
        }
    }
    /// Rows are added now. Returns when the last ones were.
    pub fn advance(&mut self, now: Time) -> Time {
        self.next += self.interval;
        std::mem::replace(&mut self.at, now)
    }
}

impl<T: Tap> Simulation<T> {
    /// Sets what is shown from now on.
    pub fn watch(&mut self, watch: Watch) {
        let interval = watch.sample_ns.map_or(self.sample, Span).max(SHORTEST_SAMPLE);
        self.shown.interval = interval;
        self.shown.next = Time((self.now.0 / interval.0 + 1) * interval.0);
        for i in 0..self.network.links().count() {
            self.network.link_mut(i).set_watched(watch.packets);
        }
        self.network.set_air_watched(watch.air);
        self.shown.watch = watch;
    }

    /// The recording, as if the run were over now.
    pub fn report(&mut self, now: Time) -> Recording {
        let series = std::mem::take(&mut self.shown.series);
        let recording = closing::recording(self, now);
        self.shown.series = series;
        recording
    }

    /// Hands over the news.
    pub fn drain(&mut self) -> Drained {
        self.collect_transfers();
        let reported = std::mem::replace(&mut self.shown.transfers, self.transfers.len());
        let transfers = self.transfers[reported..].iter().map(|(_, t)| t.clone()).collect();
        Drained {
            flow_names: self.groups.iter().map(|g| g.name.clone()).collect(),
            link_names: self.network.links().map(|l| l.name.clone()).collect(),
            series: std::mem::take(&mut self.shown.series),
            members: std::mem::take(&mut self.shown.members),
            transfers,
            histograms: if self.shown.watch.histograms { self.sojourns() } else { Vec::new() },
            packets: self.packets(),
            air: self.air(),
        }
    }

    /// A row of each flow.
    pub(super) fn show_members(&mut self, span: f64) {
        let t = self.now.as_secs_f64();
        for (i, slot) in self.slots.iter_mut().enumerate() {
            let received = slot.flow.totals().received_bytes;
            let newly = received - std::mem::replace(&mut slot.received_shown, received);
            let (mut n, mut cwnd, mut srtt) = (0, 0, Span::ZERO);
            slot.flow.senders(&mut |sender| {
                n += 1;
                cwnd += u64::from(sender.cwnd);
                srtt += sender.srtt;
            });
            let g = &self.groups[slot.group];
            if !g.active.contains(&i) && newly == 0 {
                continue;
            }
            let mean = |sum: f64| (n > 0).then(|| sum / f64::from(n));
            self.shown.members.time_s.push(t);
            self.shown.members.flow.push(g.name.clone());
            self.shown.members.member.push(slot.member);
            self.shown.members.goodput_mbps.push(newly as f64 * 8e-6 / span);
            self.shown.members.cwnd_packets.push(mean(cwnd as f64));
            self.shown.members.srtt_ms.push(mean(srtt.as_millis_f64()));
        }
    }

    /// Times in the queues: of each link, and of each group that has sent.
    fn sojourns(&self) -> Vec<Histogram> {
        let of_link = |(i, link): (usize, &Link)| {
            let histogram = move |queue: crate::net::link::QueueReport| Histogram {
                quantity: "sojourn_ms",
                flow: None,
                link: Some(i),
                queue: Some(queue.name),
                bins: queue.sojourn.bins(),
            };
            link.report(self.now).into_iter().map(histogram).collect::<Vec<_>>()
        };
        let of_group = |(i, group): (usize, &super::Group)| {
            let last = self.network.link(group.first_and_last.1);
            let mut all = Distribution::default();
            let each = group.accounts.iter().filter_map(|&account| last?.sojourn(account));
            each.for_each(|one| all.merge(&one));
            let (flow, bins) = (Some(i), all.bins());
            Histogram { quantity: "sojourn_ms", flow, link: None, queue: None, bins }
        };
        let of_groups = self.groups.iter().enumerate().map(of_group);
        let of_links = self.network.links().enumerate().flat_map(of_link);
        of_links.chain(of_groups.filter(|h| !h.bins.is_empty())).collect()
    }

    fn air(&mut self) -> Vec<AirEvents> {
        let mut all = Vec::new();
        for (links, served, air) in self.network.airs() {
            let division = served.medium.division();
            let of_medium = division.rows.iter().map(|row| (*row).to_owned()).collect();
            let mut events = AirEvents {
                link: links[0].name.clone(),
                rates_bps: links.map(|link| link.peak().0.bps()),
                slot_ns: division.slot.map(|slot| slot.0),
                pattern: division.pattern,
                rows: if division.rows.is_empty() { served.stations.clone() } else { of_medium },
                ..AirEvents::default()
            };
            let (bursts, is_cut) = air.take();
            events.cut = is_cut;
            for burst in bursts {
                let name = |number: u16| self.groups[usize::from(number)].name.clone();
                events.what.push(burst.what as u8);
                events.from_ns.push(burst.at.0);
                events.to_ns.push(burst.end.0);
                events.way.push(burst.way as u8);
                events.row.push(burst.row as u16);
                events.flow.push(burst.group.map(name));
                events.packets.push(burst.packets);
                events.again.push(burst.again);
                events.failed.push(burst.failed);
                events.bytes.push(burst.bytes);
                events.unused_bytes.push(burst.unused);
            }
            all.push(events);
        }
        all
    }

    fn packets(&mut self) -> PacketEvents {
        let mut all = PacketEvents::default();
        if !self.shown.watch.packets {
            return all;
        }
        for i in 0..self.network.links().count() {
            let link = self.network.link_mut(i);
            let seen = link.take_seen();
            let name = link.name.clone();
            all.unknown.push(seen.unknown);
            all.cut |= seen.is_cut;
            for e in seen.events {
                all.link.push(name.clone());
                all.time_ns.push(e.at.0);
                all.what.push(e.kind as u8);
                all.id.push(e.id);
                all.flow.push(self.groups[usize::from(e.group.number)].name.clone());
                // A link does not see which flow of a group a packet in a tunnel is of.
                let slot = self.slots.get(super::slot_of(e.flow, self.initial_flows));
                all.member.push(slot.map_or(1, |slot| slot.member));
                all.ecn.push(e.ecn);
                all.bytes.push(e.bytes);
            }
        }
        all
    }
}
