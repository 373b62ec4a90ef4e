//! Who has which slot, what is repeated, what is granted, and handovers.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::bearer::{Bearer, Block};
use super::channel::Channel;
use super::marking::Marker;
use super::{NrConfig, Scheduler};
use crate::aqm::lens::Earliest;
use crate::math;
use crate::net::access::Place;
use crate::net::air::{Burst, BurstKind, Division, WAYS, Way};
use crate::net::medium::{Medium, Sides};
use crate::packet::Packet;
use crate::probe::Gauges;
use crate::rng::Rng;
use crate::time::{Span, Time};

/// HARQ repeats a block so often (srsRAN).
const MOST_REPEATED: u32 = 4;
/// RLC AM learns so much later that HARQ has given a block up.
const STATUS: Span = Span::from_millis(40);
/// A block is decoded so long after its end.
const DECODING: Span = Span::from_micros(500);
/// HARQ: an acknowledgement comes so many slots after the block at the earliest, and a repetition so many after that.
const ACKNOWLEDGED: u64 = 4;
const REPEATED: u64 = 3;
const FDD_ROUND: u64 = 8;
/// A report that a slot carries is scheduled upon so many slots later: its own, and two.
const REPORTED: u64 = 3;
/// Parts of a slot below this are nothing.
const DUST: f64 = 1e-9;

/// What the base station knows of a user's backlog.
struct Report {
    /// When it can be granted upon.
    usable: Time,
    backlog: u64,
    /// Granted in slots after it.
    granted: u64,
}

struct User {
    config: NrConfig,
    channel: Channel,
    /// Bytes of a whole slot without what varies, of each direction.
    whole: [f64; 2],
    bearers: [Bearer; 2],
    /// Mean bytes of a slot, of each direction.
    had: [f64; 2],
    errors: [Rng; 2],
    reports: VecDeque<Report>,
    /// When scheduling requests may be sent first, and the slot of the grant that answers one.
    phase: Span,
    asked: Option<u64>,
    /// When packets can be granted that no report tells yet, and the last one that came.
    untold: Vec<Earliest>,
    earliest: Time,
    handover: Time,
    absent_until: Time,
    marker: Option<Marker>,
}

impl User {
    fn is_absent(&self, now: Time) -> bool {
        now < self.absent_until
    }
    /// Bytes of a whole slot now.
    fn capacity(&mut self, now: Time, way: Way) -> f64 {
        self.whole[way as usize] * self.channel.at(now)
    }
    /// What the base station that decides at that time knows to wait.
    fn known(&mut self, decided: Time) -> u64 {
        while self.reports.get(1).is_some_and(|second| second.usable <= decided) {
            self.reports.pop_front();
        }
        let first = self.reports.front().filter(|first| first.usable <= decided);
        first.map_or(0, |report| report.backlog.saturating_sub(report.granted))
    }
    fn report(&mut self, usable: Time, sides: &mut Sides) {
        let backlog = self.bearers[1].backlog(sides);
        self.reports.push_back(Report { usable, backlog, granted: 0 });
        self.untold.clear();
    }
    /// Whether it was told to the base station that something waits, and not all is granted.
    fn is_known(&self) -> bool {
        self.reports.iter().any(|report| report.backlog > report.granted)
    }
}

#[derive(Copy, Clone, Default)]
struct Counts {
    used: f64,
    blocks: u64,
    bytes: u64,
    repeated: u64,
}

/// The state of a direction.
struct Direction {
    /// Blocks to be sent again, by the time from when on.
    again: BTreeMap<(Time, u64), Block>,
    numbered: u64,
    /// The slot that is looked at next.
    slot: Option<u64>,
    /// Receivers stop waiting for what is lost, by time and user.
    waits: BTreeSet<(Time, usize)>,
    /// Who had the last slot, and up to which slot the means are.
    turn: usize,
    averaged: u64,
    others: Rng,
    counts: Counts,
}

/// The medium at work.
pub(super) struct Cell {
    config: NrConfig,
    slot: Span,
    users: Vec<User>,
    ways: [Direction; 2],
}

impl Cell {
    pub(super) fn new(config: &NrConfig, stations: &[NrConfig], place: &Place) -> Cell {
        let user = |(i, config): (usize, &NrConfig)| {
            let number = i as u64;
            let mut phases = place.stream("nr phases", number);
            let phase = Span(phases.below(config.sr.0));
            let handover = match config.handover {
                Span::ZERO => Time::NEVER,
                every => Time(phases.below(every.0)),
            };
            User {
                channel: Channel::new(config, place, number),
                whole: WAYS.map(|way| config.bytes(way)),
                bearers: WAYS.map(|way| Bearer::new(way, i)),
                had: [1.0; 2],
                errors: ["nr errors down", "nr errors up"].map(|name| place.stream(name, number)),
                reports: VecDeque::new(),
                phase,
                asked: None,
                untold: Vec::new(),
                earliest: Time::ZERO,
                handover,
                absent_until: Time::ZERO,
                marker: config.marks.then(|| Marker::new(place.stream("nr marks", number))),
                config: config.clone(),
            }
        };
        let direction = |way: Way| Direction {
            again: BTreeMap::new(),
            numbered: 0,
            slot: None,
            waits: BTreeSet::new(),
            turn: 0,
            averaged: 0,
            others: place.stream("nr others", way as u64),
            counts: Counts::default(),
        };
        Cell {
            slot: config.slot(),
            users: stations.iter().enumerate().map(user).collect(),
            ways: WAYS.map(direction),
            config: config.clone(),
        }
    }

    fn begins(&self, slot: u64) -> Time {
        Time(slot * self.slot.0)
    }
    /// How long a part of a slot lasts.
    fn length(&self, part: f64) -> Span {
        Span((part * self.slot.0 as f64) as u64)
    }
    /// When what is reported in the slot of that time can be granted upon.
    fn usable(&self, now: Time) -> Time {
        self.begins(now.0 / self.slot.0 + REPORTED)
    }
    /// The first slot of a direction from that one on.
    fn from(&self, way: Way, slot: u64) -> u64 {
        (slot..).find(|slot| self.config.part(way, *slot) > 0.0).expect("the pattern has both")
    }
    /// The last whole downlink slot up to that one.
    fn decided(&self, slot: u64) -> u64 {
        (0..=slot).rev().find(|slot| self.config.part(Way::Down, *slot) > 0.0).unwrap_or(0)
    }
    /// The first slot that begins after a time.
    fn after(&self, way: Way, now: Time) -> u64 {
        self.from(way, now.0 / self.slot.0 + 1)
    }
    /// The first slot that begins at a time or after it.
    fn since(&self, time: Time) -> u64 {
        time.0.div_ceil(self.slot.0)
    }
    /// From a slot's beginning to the arrival of what it carries.
    fn transit(&self, way: Way) -> Span {
        // The user's device takes a slot more.
        let slots = if way == Way::Down { 2 } else { 1 };
        self.slot * slots + DECODING + self.config.core
    }
    /// When a block of this slot may be repeated.
    fn repetition(&self, way: Way, slot: u64) -> u64 {
        let is_tdd = !self.config.letters().is_empty();
        match (self.config.harq, way) {
            (Some(slots), _) => self.from(way, slot + u64::from(slots)),
            (None, _) if !is_tdd => slot + FDD_ROUND,
            (None, Way::Down) => {
                let acknowledged = self.from(Way::Up, slot + ACKNOWLEDGED);
                self.from(Way::Down, acknowledged + REPEATED)
            }
            (None, Way::Up) => self.granted(slot),
        }
    }
    /// The uplink slot of a grant that answers what that slot carries.
    fn granted(&self, slot: u64) -> u64 {
        let decided = self.from(Way::Down, slot + REPORTED);
        self.from(Way::Up, decided + u64::from(self.config.k2))
    }
    fn is_prescheduled(&self, user: usize) -> bool {
        self.users[user].config.prescheduled > 0
    }
    fn plan(&mut self, way: Way, slot: u64) {
        let planned = &mut self.ways[way as usize].slot;
        *planned = Some(planned.map_or(slot, |other| other.min(slot)));
    }

    /// A slot of a direction begins: its part is divided.
    fn divide(&mut self, now: Time, way: Way, sides: &mut Sides) {
        let slot = now.0 / self.slot.0;
        self.ways[way as usize].slot = None;
        self.average(way, slot);
        let share = u64::from(self.config.share);
        let is_others = share > 1 && self.ways[way as usize].others.below(share) > 0;
        if !is_others {
            let part = self.config.part(way, slot);
            let room = self.repeat(now, way, part, sides);
            let room = match way {
                Way::Down => self.serve_down(now, room, sides),
                Way::Up => self.serve_up(now, slot, room, sides),
            };
            self.ways[way as usize].counts.used += part - room;
        }
        self.look_ahead(now, way, sides);
    }

    /// When the next slot with something to do is.
    fn look_ahead(&mut self, now: Time, way: Way, sides: &mut Sides) {
        let next = self.after(way, now);
        let is_waiting = match way {
            Way::Down => self.users.iter().any(|user| user.bearers[0].backlog(sides) > 0),
            Way::Up => {
                self.users.iter().any(User::is_known)
                    || (0..self.users.len()).any(|user| {
                        self.is_prescheduled(user) && self.users[user].bearers[1].backlog(sides) > 0
                    })
            }
        };
        if is_waiting {
            return self.plan(way, next);
        }
        if way == Way::Up
            && let Some(asked) = self.users.iter().filter_map(|user| user.asked).min()
        {
            self.plan(way, asked.max(next));
        }
        if let Some(((at, _), _)) = self.ways[way as usize].again.first_key_value() {
            let slot = self.from(way, self.since(*at));
            self.plan(way, slot.max(next));
        }
    }

    /// Users whose handover is due are absent for a while.
    fn hand_over(&mut self, now: Time, sides: &mut Sides) {
        for number in 0..self.users.len() {
            let user = &mut self.users[number];
            if now < user.handover {
                continue;
            }
            while user.handover <= now {
                user.absent_until = user.handover + user.config.gap;
                user.handover += user.config.handover;
            }
            if user.config.lossy {
                for way in WAYS {
                    self.users[number].bearers[way as usize].lose(now, sides);
                    self.ways[way as usize].again.retain(|_, block| block.user != number);
                    self.ways[way as usize].waits.retain(|(_, user)| *user != number);
                }
                // The new cell knows nothing.
                let user = &mut self.users[number];
                user.reports.clear();
                user.untold.clear();
            }
        }
    }

    /// Means of slots without service.
    fn average(&mut self, way: Way, slot: u64) {
        let direction = &mut self.ways[way as usize];
        let since = std::mem::replace(&mut direction.averaged, slot + 1);
        let config = &self.config;
        let passed = match slot + 1 - since.min(slot) {
            few @ 0..=64 => {
                (slot + 1 - few..=slot).filter(|slot| config.part(way, *slot) > 0.0).count() as f64
            }
            many => many as f64 * config.fraction(way),
        };
        let keeps = math::pow(1.0 - 1.0 / f64::from(config.window), passed);
        for user in &mut self.users {
            user.had[way as usize] *= keeps;
        }
    }

    /// What failed before goes first. Tells which part of the slot is left.
    fn repeat(&mut self, now: Time, way: Way, mut room: f64, sides: &mut Sides) -> f64 {
        let due: Vec<_> =
            self.ways[way as usize].again.range(..=(now, u64::MAX)).map(|(key, _)| *key).collect();
        for key in due {
            let block = &self.ways[way as usize].again[&key];
            if block.share > room + DUST || self.users[block.user].is_absent(now) {
                continue;
            }
            let block = self.ways[way as usize].again.remove(&key).expect("it is there");
            room -= block.share;
            self.send(now, way, block, sides);
        }
        room.max(0.0)
    }

    /// A block is sent.
    fn send(&mut self, now: Time, way: Way, mut block: Block, sides: &mut Sides) {
        let (after, usable, length) =
            (self.transit(way), self.usable(now), self.length(block.share));
        let user = &mut self.users[block.user];
        let counts = &mut self.ways[way as usize].counts;
        counts.blocks += 1;
        counts.bytes += block.bytes;
        counts.repeated += u64::from(block.tries > 0);
        let config = &user.config;
        let fails = match block.tries {
            0 => config.bler,
            _ => config.bler2.unwrap_or(config.bler / 10.0),
        };
        block.tries += 1;
        let slot = now.0 / self.slot.0;
        let is_lost = user.errors[way as usize].unit() < fails;
        sides.show(|| Burst {
            packets: (block.last + 1 - block.first) as u32,
            again: block.tries - 1,
            failed: u32::from(is_lost),
            bytes: block.bytes,
            ..Burst::new(BurstKind::Sent, (now, now + length), way, block.user)
                .of(user.bearers[way as usize].packet(block.first))
        });
        if is_lost && (block.tries <= MOST_REPEATED || !config.unacknowledged) {
            let mut at = self.begins(self.repetition(way, slot));
            if block.tries > MOST_REPEATED {
                block.tries = 0;
                at += STATUS;
            }
            let (direction, number) = (&mut self.ways[way as usize], block.user);
            direction.again.insert((at, direction.numbered), block);
            direction.numbered += 1;
            if way == Way::Up {
                self.put_off(slot + 1, number);
            }
            return;
        }
        let bearer = &mut user.bearers[way as usize];
        bearer.settle(&block, (!is_lost).then_some(now + after));
        if way == Way::Up {
            user.report(usable, sides);
        }
        self.release(now, way, block.user, sides);
    }
    fn release(&mut self, now: Time, way: Way, user: usize, sides: &mut Sides) {
        let after = self.transit(way);
        let later = self.users[user].bearers[way as usize].release(now, after, sides);
        self.ways[way as usize].waits.extend(later.map(|at| (at, user)));
    }

    /// The users among whom the scheduler chooses, best first.
    fn order(
        &mut self,
        now: Time,
        way: Way,
        mut wants: impl FnMut(&mut User) -> bool,
    ) -> Vec<usize> {
        let mut able: Vec<(f64, usize)> = Vec::new();
        for (number, user) in self.users.iter_mut().enumerate() {
            if user.is_absent(now) || !wants(user) {
                continue;
            }
            let rate = user.capacity(now, way);
            if rate >= 1.0 {
                let had = math::pow(user.had[way as usize].max(1e-3), self.config.alpha);
                able.push((rate / had, number));
            }
        }
        match self.config.scheduler {
            Scheduler::Fair => able.sort_by(|a, b| b.0.total_cmp(&a.0)),
            Scheduler::Turns => {
                let (turn, n) = (self.ways[way as usize].turn, self.users.len());
                able.sort_by_key(|(_, number)| (number + n - turn - 1) % n);
            }
        }
        able.into_iter().map(|(_, number)| number).collect()
    }
    fn served(&mut self, way: Way, number: usize, bytes: u64) {
        self.users[number].had[way as usize] += bytes as f64 / f64::from(self.config.window);
        self.ways[way as usize].turn = number;
    }

    /// Downlink one user has what is left of a slot.
    fn serve_down(&mut self, now: Time, room: f64, sides: &mut Sides) -> f64 {
        if room < DUST {
            return 0.0;
        }
        for number in self.order(now, Way::Down, |user| user.bearers[0].backlog(sides) > 0) {
            let user = &mut self.users[number];
            let most = (user.capacity(now, Way::Down) * room) as u64;
            if let Some(block) = user.bearers[0].fill(now, most, room, sides) {
                if let Some(marker) = &mut user.marker {
                    marker.transmit(block.last + 1 - block.first, block.bytes);
                }
                self.served(Way::Down, number, block.bytes);
                self.send(now, Way::Down, block, sides);
                return 0.0;
            }
        }
        room
    }

    /// Uplink those whom the base station has granted something.
    fn serve_up(&mut self, now: Time, slot: u64, mut room: f64, sides: &mut Sides) -> f64 {
        for number in 0..self.users.len() {
            let user = &mut self.users[number];
            let asked = user.asked.take_if(|asked| *asked <= slot);
            let bytes = match asked {
                Some(_) => user.config.prescheduled.max(user.config.sr_grant),
                None => user.config.prescheduled,
            };
            let is_absent = user.is_absent(now);
            let taken = match bytes == 0 || is_absent {
                true => 0.0,
                false => self.grant(now, number, bytes.into(), room, sides),
            };
            if taken == 0.0 && asked.is_some() {
                self.users[number].asked = asked;
            }
            room -= taken;
        }
        let decided = self.begins(self.decided(slot.saturating_sub(self.config.k2.into())));
        for number in self.order(now, Way::Up, |user| user.known(decided) > 0) {
            if room < DUST {
                return 0.0;
            }
            let known = self.users[number].known(decided);
            room -= self.grant(now, number, known, room, sides);
        }
        room.max(0.0)
    }
    /// A user sends at most so many bytes. Tells the part of the slot that this takes.
    fn grant(&mut self, now: Time, number: usize, bytes: u64, room: f64, sides: &mut Sides) -> f64 {
        let usable = self.usable(now);
        let user = &mut self.users[number];
        let capacity = user.capacity(now, Way::Up);
        let granted = bytes.min((capacity * room) as u64);
        if granted == 0 {
            return 0.0;
        }
        let share = (granted as f64 / capacity).min(room);
        user.reports.iter_mut().for_each(|report| report.granted += granted);
        match user.bearers[1].fill(now, granted, share, sides) {
            Some(block) => {
                self.served(Way::Up, number, block.bytes);
                self.send(now, Way::Up, block, sides);
            }
            None => {
                user.report(usable, sides);
                let length = self.length(share);
                sides.show(|| Burst {
                    bytes: granted,
                    unused: granted,
                    ..Burst::new(BurstKind::Granted, (now, now + length), Way::Up, number)
                });
            }
        }
        share
    }
    /// The first slot in which a user can send what it has told.
    fn told(&self, number: usize) -> Option<u64> {
        let mut reports = self.users[number].reports.iter();
        let told = reports.find(|report| report.backlog > report.granted)?;
        let decided = self.from(Way::Down, self.since(told.usable));
        Some(self.from(Way::Up, decided + u64::from(self.config.k2)))
    }
    /// The slot, from that one on, in which a user reports next if nobody else sends.
    fn next_report(&self, next: u64, number: usize) -> Option<u64> {
        let again = self.ways[1].again.iter().filter(|(_, block)| block.user == number);
        let repeated = again.map(|((at, _), _)| self.since(*at)).min();
        let slots = [self.users[number].asked, self.told(number), repeated];
        let next = slots.into_iter().flatten().min()?.max(next);
        Some(self.from(Way::Up, next))
    }
    /// A report has failed: what it would have told can be granted on the next one that arrives.
    fn put_off(&mut self, next: u64, number: usize) {
        if let Some(slot) = self.next_report(next, number) {
            let earliest = self.begins(self.granted(slot));
            let user = &mut self.users[number];
            user.untold.iter().for_each(|packets| packets.put_off(earliest));
            user.earliest = user.earliest.max(earliest);
        }
    }
    /// When a packet of so many bytes that comes now to a user can be granted at the earliest, if nobody else sends.
    fn earliest(&mut self, now: Time, number: usize, bytes: u64, sides: &mut Sides) -> Earliest {
        let before = self.users[number].bearers[1].backlog(sides);
        let next = self.from(Way::Up, self.since(now));
        let fits = before + bytes <= self.users[number].config.prescheduled.into();
        if !self.is_prescheduled(number) {
            self.ask(now, number);
        }
        let slot = match self.next_report(next, number) {
            _ if fits => next,
            // The grant that answers a request carries the first bytes, and the report.
            Some(slot) if before == 0 && self.users[number].asked == Some(slot) => slot,
            // The next block has the report.
            slot => self.granted(slot.unwrap_or(next)),
        };
        let begins = self.begins(slot);
        let user = &mut self.users[number];
        user.earliest = user.earliest.max(begins);
        if user.untold.last().is_none_or(|last| last.get() != user.earliest) {
            user.untold.push(Earliest::new(user.earliest));
        }
        user.untold.last().expect("it was there or pushed").clone()
    }
    /// A user has something to send and has told nothing: at its next occasion it asks.
    fn ask(&mut self, now: Time, number: usize) {
        let user = &self.users[number];
        if user.asked.is_some() || user.is_known() {
            return;
        }
        let period = user.config.sr;
        let since = now.0.saturating_sub(user.phase.0);
        let occasion = Time(user.phase.0 + since.div_ceil(period.0) * period.0);
        let asked = self.granted(occasion.0 / self.slot.0);
        self.users[number].asked = Some(asked);
        self.plan(Way::Up, asked);
    }
}

impl Medium for Cell {
    fn next(&self) -> Time {
        let slots = self.ways.iter().filter_map(|direction| direction.slot);
        let waits = self.ways.iter().filter_map(|direction| direction.waits.first());
        let slot = slots.min().map_or(Time::NEVER, |slot| self.begins(slot));
        let markers = self.users.iter().filter_map(|user| user.marker.as_ref());
        let slot = markers.map(|marker| marker.next).fold(slot, Time::min);
        waits.map(|(at, _)| *at).fold(slot, Time::min)
    }
    fn act(&mut self, now: Time, sides: &mut Sides) {
        self.hand_over(now, sides);
        let users = self.users.len();
        for user in &mut self.users {
            let User { marker, bearers, .. } = user;
            if let Some(marker) = marker.as_mut().filter(|marker| marker.next <= now) {
                marker.report(now, bearers[0].backlog(sides), users);
            }
        }
        for way in WAYS {
            while let Some((at, user)) = self.ways[way as usize].waits.first().copied()
                && at <= now
            {
                self.ways[way as usize].waits.pop_first();
                self.release(now, way, user, sides);
            }
            if self.ways[way as usize].slot.is_some_and(|slot| self.begins(slot) <= now) {
                self.divide(now, way, sides);
            }
        }
    }
    fn earliest(
        &mut self,
        now: Time,
        way: Way,
        part: usize,
        pkt: &Packet,
        sides: &mut Sides,
    ) -> Option<Earliest> {
        (way == Way::Up).then(|| self.earliest(now, part, pkt.frame_len.into(), sides))
    }
    fn marks(&mut self, now: Time, way: Way, pkt: &Packet, part: usize) -> bool {
        let marker = self.users[part].marker.as_mut().filter(|_| way == Way::Down);
        marker.is_some_and(|marker| marker.admit(now, pkt))
    }
    fn ready(&mut self, now: Time, way: Way, part: usize, _: &mut Sides) {
        if way == Way::Up && !self.is_prescheduled(part) {
            return self.ask(now, part);
        }
        let slot = self.after(way, now);
        self.plan(way, slot);
    }
    fn change(&mut self, _: Time, to: &dyn Any, stations: &[&dyn Any]) {
        let Some(config) = to.downcast_ref::<NrConfig>() else { return };
        self.config = config.clone();
        for (i, user) in self.users.iter_mut().enumerate() {
            let of_station = stations.get(i).and_then(|station| station.downcast_ref());
            user.config = of_station.unwrap_or(config).clone();
            user.whole = WAYS.map(|way| user.config.bytes(way));
        }
    }
    fn probe(&mut self, way: Way, span: Span, out: &mut dyn Gauges) {
        let counts = std::mem::take(&mut self.ways[way as usize].counts);
        let slots = span.0 as f64 / self.slot.0 as f64 * self.config.fraction(way);
        let user = &self.users[0];
        out.gauge("capacity_mbps", user.config.mean(way) * user.channel.shown() * 1e-6);
        out.gauge("slots_pct", 100.0 * counts.used / slots.max(DUST));
        if counts.blocks > 0 {
            let of = |part: u64| part as f64 / counts.blocks as f64;
            out.gauge("tb_bytes", of(counts.bytes));
            out.gauge("harq_pct", 100.0 * of(counts.repeated));
        }
    }
    fn division(&self) -> Division {
        let pattern = String::from_utf8_lossy(self.config.letters()).into_owned();
        Division { slot: Some(self.slot), pattern, rows: Vec::new() }
    }
    fn purge(&mut self) -> Vec<Packet> {
        self.users.iter_mut().flat_map(|user| &mut user.bearers).flat_map(Bearer::purge).collect()
    }
}
