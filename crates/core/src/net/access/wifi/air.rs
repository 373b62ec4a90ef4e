//! Who has the channel when, and what is in a PPDU.

use std::any::Any;
use std::collections::VecDeque;

use super::adaptation::{self, Peer};
use super::driver::{self, Aggregate, Drivers, Held};
use super::phy::{self, Modulation};
use super::{Edca, Scheduler, WifiConfig};
use crate::net::access::Place;
use crate::net::air::{Burst, BurstKind, Way};
use crate::net::medium::{Medium, Sides};
use crate::net::parts::{BE, CATEGORIES, Stages, VI, VO};
use crate::packet::Packet;
use crate::params::Described;
use crate::probe::Gauges;
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::units::{ETHERNET_HEADER, MTU_FRAME, Rate};

/// The amount added to a station's deficit after its turn (mac80211, the default weight).
const AIRTIME_QUANTUM: i64 = 256_000;
/// A station owes at most so much airtime, ns.
const MOST_OWED: i64 = 50_000_000;

/// An MPDU of a 1500-B packet, and in an A-MPDU.
const FULL_MPDU: u32 = MTU_FRAME - ETHERNET_HEADER + phy::MPDU_OVERHEAD;
const FULL_SUBFRAME: u32 = (phy::DELIMITER + FULL_MPDU).next_multiple_of(4);

/// The access category of a DSCP (Linux `cfg80211_classify8021d`, RFC 8325).
pub fn category(dscp: u8) -> usize {
    let priority = match dscp {
        10 | 12 | 14 | 16 => 0,
        18 | 20 | 22 => 3,
        24 | 26 | 28 | 30 => 4,
        44 | 46 => 6,
        other => other >> 3,
    };
    match priority {
        1 | 2 => 0,
        0 | 3 => BE,
        4 | 5 => VI,
        _ => VO,
    }
}

/// The same with non-queue-building traffic in best effort (RFC 9956).
pub fn category_nqb_be(dscp: u8) -> usize {
    if dscp == 45 { BE } else { category(dscp) }
}

/// How an access category contends.
#[derive(Copy, Clone, Debug)]
struct Access {
    slot: Span,
    aifs: Span,
    cw_min: u32,
    cw_max: u32,
    txop: Span,
}

fn access(config: &WifiConfig, way: Way, category: usize) -> Access {
    let is_ap = way == Way::Down && config.edca == Edca::AccessPoint;
    let cw = config.standard.cw_min();
    let part = |part: u32| (cw + 1) / part - 1;
    let (aifsn, cw_min, cw_max) = match category {
        0 => (7, cw, 1023),
        BE => (u64::from(config.aifsn_be), cw, if is_ap { 4 * (cw + 1) - 1 } else { 1023 }),
        VI => (if is_ap { 1 } else { 2 }, part(2), cw),
        _ => (if is_ap { 1 } else { 2 }, part(4), part(2)),
    };
    let (slot, sifs) = (config.standard.slot(), config.standard.sifs());
    Access { slot, aifs: sifs + slot * aifsn, cw_min, cw_max, txop: config.txop(way, category) }
}

/// A node and an access category.
struct Contender {
    access: Access,
    way: Way,
    /// The station, of the way up.
    station: usize,
    category: usize,
    rng: Rng,
    /// Slots left to wait, as they were when the channel became idle; none: run down while there was nothing to send.
    counter: Option<u64>,
    cw: u32,
    retries: u8,
    /// There may be something to send.
    is_active: bool,
    is_known: bool,
}

impl Contender {
    fn expires(&self, idle: Time) -> Time {
        idle + self.access.aifs + self.access.slot * self.counter.unwrap_or(0)
    }
    /// Slots that have passed at `now` since it could count.
    fn slots(&self, idle: Time, now: Time) -> u64 {
        now.since(idle + self.access.aifs).0 / self.access.slot.0
    }
    fn draw(&mut self) {
        self.counter = Some(self.rng.below(u64::from(self.cw) + 1));
    }
    fn succeed(&mut self) {
        (self.cw, self.retries) = (self.access.cw_min, 0);
        self.draw();
    }
    fn fail(&mut self, most_retries: u8) {
        if self.retries >= most_retries {
            return self.succeed();
        }
        self.retries += 1;
        self.cw = (2 * self.cw + 1).min(self.access.cw_max);
        self.draw();
    }
}

/// A packet between two nodes, or several as an A-MSDU.
struct Mpdu {
    pkt: Packet,
    /// Further packets, and when they were pulled.
    more: Vec<(Packet, Time)>,
    number: u32,
    bytes: u32,
    /// In the driver, as estimated.
    airtime: Span,
    tries: u32,
    pulled: Time,
    sent: Time,
    arrived: Time,
}

impl Mpdu {
    fn packets(&self) -> u32 {
        1 + self.more.len() as u32
    }
    fn held(&self) -> Held {
        Held { airtime: self.airtime, packets: self.packets(), bytes: self.bytes }
    }
    /// Takes the next one in.
    fn absorb(&mut self, next: Mpdu, bytes: u32) {
        self.more.push((next.pkt, next.pulled));
        self.more.extend(next.more);
        self.airtime += next.airtime;
        self.bytes = bytes;
    }
    fn all(self) -> impl Iterator<Item = (Packet, Time)> {
        std::iter::once((self.pkt, self.pulled)).chain(self.more)
    }
}

/// The traffic between two nodes in an access category.
#[derive(Default)]
struct Session {
    /// Not acknowledged or, with AQL, not yet sent, in order.
    pending: VecDeque<Mpdu>,
    /// Arrived, and waiting for those before, in order.
    held: VecDeque<Mpdu>,
    next: u32,
}

impl Session {
    fn oldest(&self) -> u32 {
        self.pending.front().map_or(self.next, |mpdu| mpdu.number)
    }
}

/// The access point's stations with packets of an access category: those that have just come first.
#[derive(Default)]
struct Turns {
    fresh: VecDeque<usize>,
    old: VecDeque<usize>,
}

/// A PPDU.
struct Ppdu {
    contender: usize,
    session: usize,
    station: usize,
    mcs: usize,
    mpdus: Vec<Mpdu>,
    /// From the beginning of the exchange to the end of the data, and of its first frame alone.
    data: Span,
    first: Span,
    /// After the data.
    response: Span,
}

#[derive(Copy, Clone, Default)]
struct Counts {
    airtime: Span,
    ppdus: u64,
    mpdus: u64,
    retried: u64,
    collisions: u64,
    /// The sum of their schemes.
    mcs: u64,
    cw: u32,
}

/// The medium at work.
pub struct Cell {
    config: WifiConfig,
    /// By station.
    peers: Vec<Peer>,
    drivers: Drivers,
    of_group: Vec<u16>,
    contenders: Vec<Contender>,
    /// Those that have had something to send.
    known: Vec<usize>,
    /// By way, then station and access category.
    sessions: [Vec<Session>; 2],
    /// By access category.
    turns: [Turns; CATEGORIES],
    /// By station and access category, ns.
    deficits: Vec<i64>,
    /// The packet at the head of a queue for all stations, which was for another one than the PPDU.
    head: Option<(Packet, Time)>,
    errors: Rng,
    /// When the channel became or becomes idle, with what EIFS is longer than AIFS.
    idle: Time,
    /// When the next beacon is due.
    beacon: Time,
    beacons: Span,
    /// How the access point sends to everybody.
    lowest: Modulation,
    /// Who holds a TXOP, until when, and how long a CF-End is.
    txop: Option<(usize, Time, Span)>,
    due: Time,
    counts: [Counts; 2],
}

/// The rate of one saturated sender of full packets, as queues count frames, averaged over its backoff.
pub fn saturated(config: &WifiConfig) -> Rate {
    let modulation = Modulation::new(config, adaptation::expected(config));
    let ip = MTU_FRAME - ETHERNET_HEADER;
    let (alone, padded) =
        (phy::AMSDU_SUBFRAME + ip, (phy::AMSDU_SUBFRAME + ip).next_multiple_of(4));
    let further = config.amsdu.saturating_sub(alone) / padded;
    let mpdu = match further {
        0 => FULL_MPDU,
        _ => phy::AMSDU_OVERHEAD + further * padded + alone,
    };
    let mpdu = mpdu + overhead(config);
    // Of the last subframe the padding is left out.
    let most = u32::from(config.most_mpdus());
    let (mpdus, bytes) = if most == 1 {
        (1, mpdu)
    } else {
        let subframe = (phy::DELIMITER + mpdu).next_multiple_of(4);
        let room = modulation.fits(config.ppdu).min(config.most_bytes());
        let mpdus = (room / subframe).clamp(1, most);
        (mpdus, mpdus * subframe)
    };
    let access = access(config, Way::Up, BE);
    let response = modulation.control(response_bytes(most, mpdus as usize));
    let cycle = access.aifs
        + access.slot * u64::from(access.cw_min) / 2
        + modulation.ppdu(bytes)
        + modulation.sifs
        + response;
    let bits = u64::from(mpdus * (1 + further)) * u64::from(MTU_FRAME) * 8;
    Rate::from_bps(bits * 1_000_000_000 / cycle.0)
}

fn overhead(config: &WifiConfig) -> u32 {
    if config.wpa2 { phy::CCMP } else { 0 }
}

fn response_bytes(window: u32, mpdus: usize) -> u32 {
    match mpdus {
        1 => phy::ACK,
        _ if window > 64 => phy::LONG_BLOCK_ACK,
        _ => phy::BLOCK_ACK,
    }
}

/// How the cell's own frames are sent: at 1 Mbit/s where that is what some station understands.
fn lowest<'a>(
    config: &WifiConfig,
    mut stations: impl Iterator<Item = &'a WifiConfig>,
) -> Modulation {
    let dsss = stations.any(|station| station.dsss.is_some()).then_some(0);
    Modulation::new(&WifiConfig { dsss, ..config.clone() }, 0)
}

/// Bytes of a PSDU with one more MPDU.
fn extended(window: u32, psdu: u32, mpdu: u32) -> u32 {
    match window {
        1 => mpdu,
        _ => psdu.next_multiple_of(4) + phy::DELIMITER + mpdu,
    }
}

impl Cell {
    pub fn new(
        config: &WifiConfig,
        stations: Vec<WifiConfig>,
        of_group: Vec<u16>,
        place: &Place,
    ) -> Cell {
        let contender = |way: Way, station: usize, category: usize| {
            let access = access(config, way, category);
            let number = match way {
                Way::Down => category,
                Way::Up => (station + 1) * CATEGORIES + category,
            };
            Contender {
                access,
                way,
                station,
                category,
                rng: place.stream("wifi", number as u64),
                counter: None,
                cw: access.cw_min,
                retries: 0,
                is_active: false,
                is_known: false,
            }
        };
        let of_ap = (0..CATEGORIES).map(|category| contender(Way::Down, 0, category));
        let of_stations = (0..stations.len() * CATEGORIES)
            .map(|part| contender(Way::Up, part / CATEGORIES, part % CATEGORIES));
        let contenders = of_ap.chain(of_stations).collect();
        // Cells begin at any time between two beacons.
        let beacon = match config.beacon {
            Span::ZERO => Time::NEVER,
            every => Time(place.stream("wifi beacons", 0).below(every.0)),
        };
        let sessions = || (0..stations.len() * CATEGORIES).map(|_| Session::default()).collect();
        Cell {
            peers: stations
                .iter()
                .enumerate()
                .map(|(i, station)| Peer::new(station, place.stream("wifi snr", i as u64)))
                .collect(),
            drivers: Drivers::new(stations.len()),
            of_group,
            contenders,
            known: Vec::new(),
            sessions: [sessions(), sessions()],
            turns: Default::default(),
            deficits: vec![0; stations.len() * CATEGORIES],
            head: None,
            errors: place.stream("wifi errors", 0),
            idle: Time::ZERO,
            beacon,
            beacons: Span::ZERO,
            lowest: lowest(config, stations.iter()),
            txop: None,
            due: beacon,
            counts: Default::default(),
            config: config.clone(),
        }
    }

    fn is_fifo(&self) -> bool {
        self.config.scheduler == Scheduler::Fifo
    }

    /// Somebody has something to send.
    fn activate(&mut self, now: Time, contender: usize) {
        let (idle, one) = (self.idle, &mut self.contenders[contender]);
        if one.is_active {
            return;
        }
        one.is_active = true;
        if !std::mem::replace(&mut one.is_known, true) {
            self.known.push(contender);
        }
        if now < idle {
            if one.counter.is_none() {
                one.draw();
            }
        } else if one.counter.is_none() || one.expires(idle) < now {
            // At the next boundary of a slot.
            let since = now.since(idle + one.access.aifs).0;
            one.counter = Some(since.div_ceil(one.access.slot.0));
        }
        if self.txop.is_none() {
            self.due = self.due.min(self.contenders[contender].expires(idle));
        }
    }

    /// When the next one transmits.
    fn contend(&mut self) {
        let active = self.known.iter().map(|k| &self.contenders[*k]).filter(|one| one.is_active);
        let first = active.map(|one| one.expires(self.idle)).min().unwrap_or(Time::NEVER);
        self.due = first.min(self.beacon_at());
    }

    /// When the next beacon is sent: after one idle slot, and without backoff (as by hostapd's drivers).
    fn beacon_at(&self) -> Time {
        let standard = self.config.standard;
        self.beacon.max(self.idle + standard.sifs() + standard.slot())
    }

    /// The access point tells everybody of the cell. Who would transmit now waits.
    fn send_beacon(&mut self, now: Time) {
        self.freeze(now, &[]);
        let length = self.lowest.control(self.config.standard.beacon());
        self.beacons += length;
        self.idle = now + length;
        while self.beacon <= now {
            self.beacon += self.config.beacon;
        }
        self.contend();
    }

    /// The channel becomes busy: counters stop but for those that have run out.
    fn freeze(&mut self, now: Time, winners: &[usize]) {
        for k in &self.known {
            if winners.contains(k) {
                continue;
            }
            let one = &mut self.contenders[*k];
            let passed = one.slots(self.idle, now);
            one.counter = match one.counter {
                Some(left) if one.is_active || left > passed => Some(left.saturating_sub(passed)),
                _ => None,
            };
        }
    }

    /// Who has no more to send in a TXOP ends it, so that the others need not wait for its limit.
    fn end_txop(&mut self, now: Time, contender: usize, until: Time, cf_end: Span) {
        if self.config.cf_end {
            let is_sent = now + cf_end <= until;
            if is_sent {
                let way = self.contenders[contender].way;
                self.counts[way as usize].airtime += cf_end;
            }
            self.idle = if is_sent { now + cf_end } else { until };
        }
        self.contend();
    }

    /// At `now` counters run out, or a TXOP goes on.
    fn access(&mut self, now: Time, sides: &mut Sides) {
        if let Some((contender, until, cf_end)) = self.txop.take() {
            match self.build(now, contender, until.since(now), false, sides) {
                Some(ppdu) => self.transmit(now, vec![ppdu], until, sides),
                None => self.end_txop(now, contender, until, cf_end),
            }
            return;
        }
        if self.beacon_at() <= now {
            return self.send_beacon(now);
        }
        let is_due = |one: &Contender| one.is_active && one.expires(self.idle) == now;
        let mut winners: Vec<usize> =
            self.known.iter().copied().filter(|k| is_due(&self.contenders[*k])).collect();
        winners.sort_unstable();
        // Of one node's access categories the highest one transmits. The numbers of a node's contenders are consecutive.
        let node = |contender: usize| contender / CATEGORIES;
        let mut ppdus = Vec::new();
        let mut beaten = Vec::new();
        for (i, winner) in winners.iter().enumerate() {
            if winners.get(i + 1).is_some_and(|other| node(*other) == node(*winner)) {
                beaten.push(*winner);
                continue;
            }
            let txop = self.contenders[*winner].access.txop;
            let most = if txop == Span::ZERO { Span(u64::MAX) } else { txop };
            match self.build(now, *winner, most, true, sides) {
                Some(ppdu) => ppdus.push(ppdu),
                None => {
                    let one = &mut self.contenders[*winner];
                    (one.is_active, one.counter) = (false, None);
                }
            }
        }
        if ppdus.is_empty() {
            for lower in beaten {
                self.contenders[lower].fail(self.config.retry);
            }
            return self.contend();
        }
        self.freeze(now, &winners);
        for lower in beaten {
            self.contenders[lower].fail(self.config.retry);
        }
        let txop = self.contenders[ppdus[0].contender].access.txop;
        self.transmit(now, ppdus, now + txop, sides);
    }

    /// Begin an access at `now`: by one node, or by several, which collide.
    fn transmit(&mut self, now: Time, mut ppdus: Vec<Ppdu>, txop_until: Time, sides: &mut Sides) {
        let is_collision = ppdus.len() > 1;
        let longest = ppdus.iter().map(|ppdu| ppdu.first).max().unwrap_or(Span::ZERO);
        let exchange = |ppdu: &Ppdu| match is_collision {
            true => longest,
            false => ppdu.data + ppdu.response,
        };
        let end = now + exchange(&ppdus[0]);
        let mut failed = is_collision;
        for ppdu in &mut ppdus {
            let airtime = if is_collision { ppdu.first } else { ppdu.data + ppdu.response };
            let contender = &self.contenders[ppdu.contender];
            let counts = &mut self.counts[contender.way as usize];
            counts.ppdus += 1;
            counts.mpdus += ppdu.mpdus.len() as u64;
            counts.retried += ppdu.mpdus.iter().filter(|mpdu| mpdu.tries > 0).count() as u64;
            counts.collisions += u64::from(is_collision);
            counts.mcs += ppdu.mcs as u64;
            counts.cw = contender.cw;
            let part = ppdu.station * CATEGORIES + contender.category;
            let deficit = &mut self.deficits[part];
            *deficit = (*deficit - airtime.0 as i64).max(-MOST_OWED);
        }
        let way = self.contenders[ppdus[0].contender].way;
        self.counts[way as usize].airtime += end.since(now);
        let (winner, station) = (ppdus[0].contender, ppdus[0].station);
        if self.config.has_driver() {
            self.drivers.done = Some(end);
        }
        for ppdu in ppdus {
            let contender = ppdu.contender;
            let burst = sides.is_watched().then(|| self.burst(now, &ppdu, is_collision));
            let arrived = self.receive(now, ppdu, is_collision, sides);
            if let Some(burst) = burst {
                sides.show(|| Burst { failed: burst.packets - arrived, ..burst });
            }
            let arrives = arrived > 0;
            failed |= !arrives;
            match arrives {
                true => self.contenders[contender].succeed(),
                false => self.contenders[contender].fail(self.config.retry),
            }
        }
        let sifs = self.config.standard.sifs();
        let is_longer = failed && self.config.eifs;
        let longer = if is_longer { sifs + self.lowest.control(phy::ACK) } else { Span::ZERO };
        self.idle = end + longer;
        if !failed && self.contenders[winner].access.txop > Span::ZERO && end + sifs < txop_until {
            let cf_end = self.peers[station].last(way).control(phy::CF_END);
            self.txop = Some((winner, txop_until, cf_end));
            self.due = end + sifs;
        } else {
            if !failed && self.config.cf_end {
                self.idle = self.idle.max(txop_until);
            }
            self.contend();
        }
    }

    /// What who watches is told of a PPDU.
    fn burst(&self, now: Time, ppdu: &Ppdu, is_collision: bool) -> Burst {
        let (what, length) = match is_collision {
            true => (BurstKind::Collided, ppdu.first),
            false => (BurstKind::Sent, ppdu.data + ppdu.response),
        };
        let way = self.contenders[ppdu.contender].way;
        let again = ppdu.mpdus.iter().filter(|mpdu| mpdu.tries > 0).count();
        let first = ppdu.mpdus.first().map(|mpdu| &mpdu.pkt);
        Burst {
            packets: ppdu.mpdus.iter().map(Mpdu::packets).sum(),
            again: again as u32,
            bytes: ppdu.mpdus.iter().map(|mpdu| u64::from(mpdu.bytes)).sum(),
            ..Burst::new(what, (now, now + length), way, ppdu.station).of(first)
        }
    }

    /// Deliver a PPDU whose exchange begins at `now`; how many packets arrive.
    fn receive(&mut self, now: Time, ppdu: Ppdu, is_lost: bool, sides: &mut Sides) -> u32 {
        let way = self.contenders[ppdu.contender].way;
        let peer = &mut self.peers[ppdu.station];
        let sent = ppdu.mpdus.len();
        let (mut acknowledged, mut arrived) = (0, 0);
        let per = if is_lost { 1.0 } else { peer.loss(ppdu.mcs) };
        let session = &mut self.sessions[way as usize][ppdu.session];
        let arrival = now + ppdu.data;
        let mut again = Vec::new();
        for mut mpdu in ppdu.mpdus {
            mpdu.tries += 1;
            if mpdu.tries == 1 {
                mpdu.sent = now;
            }
            let is_lost =
                is_lost || (per > 0.0 && self.errors.unit() < adaptation::loss_of(per, mpdu.bytes));
            let is_over = !is_lost || mpdu.tries > u32::from(self.config.retry);
            if is_over && mpdu.airtime > Span::ZERO {
                self.drivers.finish(way, ppdu.session, mpdu.held());
            }
            if !is_lost {
                acknowledged += 1;
                arrived += mpdu.packets();
                mpdu.arrived = arrival;
                let place = session.held.partition_point(|other| other.number < mpdu.number);
                session.held.insert(place, mpdu);
            } else if is_over {
                mpdu.all().for_each(|(pkt, _)| sides.lose(now, way, &pkt));
            } else {
                again.push(mpdu);
            }
        }
        for mpdu in again.into_iter().rev() {
            session.pending.push_front(mpdu);
        }
        let oldest = session.oldest();
        while session.held.front().is_some_and(|mpdu| mpdu.number < oldest) {
            let mpdu = session.held.pop_front().expect("it is there");
            let Mpdu { sent, arrived, .. } = mpdu;
            for (pkt, pulled) in mpdu.all() {
                sides.deliver(way, pkt, Stages { pulled, sent, arrived }, arrival);
            }
        }
        peer.report(way, ppdu.mcs, sent, acknowledged);
        arrived
    }

    /// The driver takes packets from a queue up to its limit.
    fn fill(&mut self, now: Time, way: Way, part: usize, sides: &mut Sides) {
        let (station, category) = (part / CATEGORIES, part % CATEGORIES);
        if way == Way::Down {
            let Turns { fresh, old } = &self.turns[category];
            if !self.drivers.may_begin(&self.config, category, fresh.len() + old.len()) {
                return;
            }
        }
        self.fill_one(now, way, station, category, sides);
    }

    fn fill_one(
        &mut self,
        now: Time,
        way: Way,
        station: usize,
        category: usize,
        sides: &mut Sides,
    ) {
        let part = station * CATEGORIES + category;
        let txop = self.config.txop(way, category);
        let longest =
            if txop == Span::ZERO { self.config.ppdu } else { self.config.ppdu.min(txop) };
        let room = self.peers[station].last(way).fits(longest).min(self.config.most_bytes());
        let most = self.peers[station].most_mpdus(category);
        // Of the padding and delimiters of an A-MPDU each packet has its part.
        let packets = (room / FULL_SUBFRAME).clamp(1, most);
        let together = (self.config.amsdu / FULL_MPDU).max(1);
        let bytes = packets * (FULL_MPDU + overhead(&self.config));
        // Without A-MPDU an A-MSDU is the aggregate.
        let (most, bytes) = (most * together, if most == 1 { bytes * together } else { bytes });
        let aggregate = Aggregate { packets: most, bytes };
        while self.drivers.takes(&self.config, way, part, aggregate) {
            let Some(mut mpdu) = self.fresh(now, way, part, u32::MAX, sides) else { break };
            let frame = u32::from(mpdu.pkt.frame_len);
            let is_ax = self.config.standard.is_ax();
            mpdu.airtime = driver::estimate(frame, category, is_ax, self.peers[station].last(way));
            let last = self.sessions[way as usize][part].pending.back();
            let joined = last.and_then(|last| self.joined(last, &mpdu));
            let before = last.map_or(0, |last| last.bytes);
            let taken = joined.map_or(mpdu.bytes, |joined| joined - before);
            self.drivers.take(way, part, mpdu.airtime, taken);
            let session = &mut self.sessions[way as usize][part];
            match (joined, session.pending.back_mut()) {
                (Some(joined), Some(last)) => {
                    session.next -= 1;
                    last.absorb(mpdu, joined);
                }
                _ => session.pending.push_back(mpdu),
            }
        }
    }

    /// An exchange ends, and drivers take more.
    fn end_exchange(&mut self, now: Time, sides: &mut Sides) {
        let queues = self.drivers.end();
        if self.config.has(Way::Down) && queues.iter().any(|(way, _)| *way == Way::Down) {
            for category in (0..CATEGORIES).rev() {
                let Turns { fresh, old } = &self.turns[category];
                let stations: Vec<usize> = fresh.iter().chain(old).copied().collect();
                // Who may begin serves each queue once.
                if !self.drivers.may_begin(&self.config, category, stations.len()) {
                    continue;
                }
                for station in stations {
                    self.fill_one(now, Way::Down, station, category, sides);
                }
            }
        }
        for (_, part) in queues.iter().filter(|(way, _)| *way == Way::Up) {
            let station = part / CATEGORIES;
            for category in (0..CATEGORIES).rev() {
                self.fill_one(now, Way::Up, station, category, sides);
            }
        }
    }

    /// Whether there is something for a station, or from it.
    fn has(&self, way: Way, part: usize, sides: &mut Sides) -> bool {
        !self.sessions[way as usize][part].pending.is_empty()
            || sides.waiting(way, part).packets > 0
    }

    /// A station's packets wait, and the driver takes none of them now.
    fn is_held_back(&mut self, now: Time, part: usize, sides: &mut Sides) -> bool {
        if !self.config.has(Way::Down) || !self.sessions[0][part].pending.is_empty() {
            return false;
        }
        self.fill(now, Way::Down, part, sides);
        self.sessions[0][part].pending.is_empty()
    }

    /// The station that the access point serves next.
    fn choose(&mut self, now: Time, category: usize, sides: &mut Sides) -> Option<usize> {
        if self.is_fifo() {
            let waiting = |part: &usize| !self.sessions[0][*part].pending.is_empty();
            let again = (0..self.peers.len()).map(|s| s * CATEGORIES + BE).find(waiting);
            if let Some(part) = again {
                return Some(part / CATEGORIES);
            }
            if self.head.is_none() {
                self.head = sides.pull(now, Way::Down, 0).map(|pkt| (pkt, now));
            }
            let group = usize::from(self.head.as_ref()?.0.group.number);
            return Some(self.of_group.get(group).map_or(0, |station| usize::from(*station)));
        }
        let mut held_back = 0;
        loop {
            let is_fresh = !self.turns[category].fresh.is_empty();
            let Turns { fresh, old } = &mut self.turns[category];
            let station = if is_fresh { *fresh.front()? } else { *old.front()? };
            let part = station * CATEGORIES + category;
            let has = self.has(Way::Down, part, sides);
            let Turns { fresh, old } = &mut self.turns[category];
            if is_fresh {
                fresh.pop_front()
            } else {
                old.pop_front()
            };
            if !has {
                if is_fresh {
                    old.push_back(station);
                }
                continue;
            }
            // Others' packets are in the driver then.
            if self.is_held_back(now, part, sides) {
                let Turns { fresh, old } = &mut self.turns[category];
                old.push_back(station);
                held_back += 1;
                if held_back > fresh.len() + old.len() {
                    return None;
                }
                continue;
            }
            held_back = 0;
            let Turns { old, .. } = &mut self.turns[category];
            let deficit = &mut self.deficits[part];
            if self.config.scheduler == Scheduler::Airtime && *deficit <= 0 {
                *deficit += AIRTIME_QUANTUM;
                old.push_back(station);
                continue;
            }
            match self.config.scheduler {
                Scheduler::Airtime if !is_fresh => old.push_front(station),
                _ => old.push_back(station),
            }
            return Some(station);
        }
    }

    /// The PPDU of a contender whose exchange ends within `most`; the first one of an access may be longer, if it is a
    /// single MPDU.
    fn build(
        &mut self,
        now: Time,
        contender: usize,
        most: Span,
        is_first: bool,
        sides: &mut Sides,
    ) -> Option<Ppdu> {
        loop {
            let one = &self.contenders[contender];
            let (way, category) = (one.way, one.category);
            let station = match way {
                Way::Down => self.choose(now, category, sides)?,
                Way::Up => one.station,
            };
            let session = station * CATEGORIES + category;
            let mcs = self.peers[station].choose(now, way);
            let mpdus = self.aggregate(now, way, session, mcs, (most, is_first), sides);
            if mpdus.is_empty() {
                // Its queue has dropped all it had, or nothing fits.
                let is_over = way == Way::Up || self.is_fifo() || self.has(way, session, sides);
                if is_over {
                    return None;
                }
                continue;
            }
            return Some(self.ppdu(contender, session, mcs, mpdus));
        }
    }

    /// How long it takes.
    fn ppdu(&self, contender: usize, session: usize, mcs: usize, mpdus: Vec<Mpdu>) -> Ppdu {
        let station = session / CATEGORIES;
        let modulation = self.peers[station].modulation(mcs);
        let window = self.peers[station].most_mpdus(session % CATEGORIES);
        let sifs = modulation.sifs;
        let bytes = mpdus.iter().fold(0, |sum, mpdu| extended(window, sum, mpdu.bytes));
        let ppdu = modulation.ppdu(bytes);
        let response = sifs + modulation.control(response_bytes(window, mpdus.len()));
        let (first, data) = match self.config.rts {
            Some(rts) if bytes > rts => {
                let first = modulation.control(phy::RTS);
                (first, first + sifs + modulation.control(phy::CTS) + sifs + ppdu)
            }
            _ => (ppdu, ppdu),
        };
        Ppdu { contender, session, station, mcs, mpdus, data, first, response }
    }

    /// Bytes of an MPDU with the packet of the next one, where the two are new and an A-MSDU has room.
    fn joined(&self, last: &Mpdu, next: &Mpdu) -> Option<u32> {
        if self.config.amsdu == 0 || last.tries + next.tries > 0 || !next.more.is_empty() {
            return None;
        }
        let (alone, several) = (phy::MPDU_OVERHEAD, phy::AMSDU_OVERHEAD);
        let overhead = overhead(&self.config);
        let first = match last.more.len() {
            0 => phy::AMSDU_SUBFRAME + last.bytes - alone,
            _ => last.bytes - several,
        } - overhead;
        let next = phy::AMSDU_SUBFRAME + next.bytes - alone - overhead;
        let amsdu = first.next_multiple_of(4) + next;
        (amsdu <= self.config.amsdu).then_some(several + overhead + amsdu)
    }

    /// The MPDUs of a PPDU: what is sent again first, then what the queue gives.
    fn aggregate(
        &mut self,
        now: Time,
        way: Way,
        session: usize,
        mcs: usize,
        (most, is_first): (Span, bool),
        sides: &mut Sides,
    ) -> Vec<Mpdu> {
        let has_driver = self.config.has(way);
        if has_driver {
            // The queue may have dropped all that it had when it was asked before.
            self.fill(now, way, session, sides);
        }
        let modulation = *self.peers[session / CATEGORIES].modulation(mcs);
        let window = self.peers[session / CATEGORIES].most_mpdus(session % CATEGORIES);
        let sifs = modulation.sifs;
        let around = sifs + modulation.control(response_bytes(window, 2.min(window as usize)));
        let rts = sifs * 2 + modulation.control(phy::RTS) + modulation.control(phy::CTS);
        let around = if self.config.rts.is_some() { around + rts } else { around };
        let time = self.config.ppdu.min(most - around);
        let room = modulation.fits(time).min(self.config.most_bytes());
        let oldest = self.sessions[way as usize][session].oldest();
        let mut mpdus: Vec<Mpdu> = Vec::new();
        // Of all, and without the last one.
        let (mut bytes, mut before) = (0, 0);
        loop {
            let below = oldest + window;
            let pending = &mut self.sessions[way as usize][session].pending;
            let again = match pending.front() {
                Some(mpdu) if mpdu.number >= below => break,
                Some(_) => pending.pop_front(),
                None if has_driver => break,
                None => {
                    self.fresh(now, way, session, below + u32::from(self.config.amsdu > 0), sides)
                }
            };
            let Some(mpdu) = again else { break };
            if let Some(last) = mpdus.last_mut()
                && mpdu.number + 1 == self.sessions[way as usize][session].next
                && let Some(joined) = self.joined(last, &mpdu)
                && extended(window, before, joined) <= room
            {
                bytes = extended(window, before, joined);
                self.sessions[way as usize][session].next -= 1;
                last.absorb(mpdu, joined);
                continue;
            }
            let with = extended(window, bytes, mpdu.bytes);
            let is_alone = mpdus.is_empty() && is_first;
            if (with > room && !is_alone) || mpdus.len() as u32 == window {
                self.sessions[way as usize][session].pending.push_front(mpdu);
                break;
            }
            (bytes, before) = (with, bytes);
            mpdus.push(mpdu);
            if mpdus.len() as u32 == window && self.config.amsdu == 0 {
                break;
            }
        }
        mpdus
    }

    /// A packet from the queue, if its number is below that.
    fn fresh(
        &mut self,
        now: Time,
        way: Way,
        session: usize,
        below: u32,
        sides: &mut Sides,
    ) -> Option<Mpdu> {
        let number = self.sessions[way as usize][session].next;
        if number >= below {
            return None;
        }
        let (pkt, pulled) = if way == Way::Down && self.is_fifo() {
            let head = self.head.take();
            let (pkt, pulled) = head.or_else(|| Some((sides.pull(now, way, 0)?, now)))?;
            let station = self.of_group.get(usize::from(pkt.group.number)).copied().unwrap_or(0);
            if usize::from(station) * CATEGORIES + BE != session {
                self.head = Some((pkt, pulled));
                return None;
            }
            (pkt, pulled)
        } else {
            (sides.pull(now, way, session)?, now)
        };
        self.sessions[way as usize][session].next += 1;
        let ip = u32::from(pkt.frame_len).saturating_sub(ETHERNET_HEADER);
        let bytes = ip + phy::MPDU_OVERHEAD + overhead(&self.config);
        Some(Mpdu {
            pkt,
            more: Vec::new(),
            number,
            bytes,
            airtime: Span::ZERO,
            tries: 0,
            pulled,
            sent: now,
            arrived: now,
        })
    }
}

impl Medium for Cell {
    fn next(&self) -> Time {
        self.drivers.done.map_or(self.due, |done| self.due.min(done))
    }
    fn act(&mut self, now: Time, sides: &mut Sides) {
        if self.drivers.done.is_some_and(|done| done <= now) {
            self.end_exchange(now, sides);
        }
        if self.due <= now {
            self.access(now, sides);
        }
    }
    fn ready(&mut self, now: Time, way: Way, part: usize, sides: &mut Sides) {
        if way == Way::Up {
            if self.config.has(way) {
                self.fill(now, way, part, sides);
            }
            return self.activate(now, CATEGORIES + part);
        }
        if self.is_fifo() {
            return self.activate(now, BE);
        }
        let (station, category) = (part / CATEGORIES, part % CATEGORIES);
        let Turns { fresh, old } = &mut self.turns[category];
        if !fresh.contains(&station) && !old.contains(&station) {
            fresh.push_back(station);
        }
        if self.config.has(way) {
            self.fill(now, way, part, sides);
        }
        self.activate(now, category);
    }
    fn change(&mut self, _: Time, to: &dyn Any, stations: &[&dyn Any]) {
        let Some(config) = to.downcast_ref::<WifiConfig>() else { return };
        self.config = config.clone();
        for (i, peer) in self.peers.iter_mut().enumerate() {
            let of_station = stations.get(i).and_then(|station| station.downcast_ref());
            peer.change(of_station.unwrap_or(config));
        }
        for one in &mut self.contenders {
            one.access = access(config, one.way, one.category);
        }
        self.lowest = lowest(config, self.peers.iter().map(Peer::config));
    }
    fn probe(&mut self, way: Way, span: Span, out: &mut dyn Gauges) {
        let counts = self.counts[way as usize];
        let share = |part: Span| 100.0 * part.0 as f64 / span.0.max(1) as f64;
        out.gauge("airtime_pct", share(counts.airtime));
        if counts.ppdus > 0 {
            let of = |part: u64, whole: u64| part as f64 / whole as f64;
            out.gauge("ampdu_mpdus", of(counts.mpdus, counts.ppdus));
            out.gauge("retry_pct", 100.0 * of(counts.retried, counts.mpdus));
            out.gauge("collision_pct", 100.0 * of(counts.collisions, counts.ppdus));
            out.gauge("cw", f64::from(counts.cw));
            if self.config.has_more_gauges() {
                out.gauge("mcs", of(counts.mcs, counts.ppdus));
            }
        }
        if self.config.has_driver() {
            out.gauge("driver_ms", self.drivers.most(way));
        }
        if way == Way::Up {
            let busy = self.counts[0].airtime + self.counts[1].airtime + self.beacons;
            out.gauge("idle_pct", 100.0 - share(busy));
            self.beacons = Span::ZERO;
            self.counts = Default::default();
        }
    }
    fn purge(&mut self) -> Vec<Packet> {
        let sessions = self.sessions.iter_mut().flatten();
        let mut inside: Vec<Packet> = sessions
            .flat_map(|session| session.pending.drain(..).chain(session.held.drain(..)))
            .flat_map(|mpdu| mpdu.all().map(|(pkt, _)| pkt))
            .collect();
        inside.extend(self.head.take().map(|(pkt, _)| pkt));
        inside
    }
}
