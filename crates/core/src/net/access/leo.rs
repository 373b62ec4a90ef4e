//! A terminal of a constellation in low orbit, as Starlink's behave: every 15 s, at seconds 12, 27, 42 and 57 of the
//! minute, it may be given another satellite, and then delay and rate jump and packets are lost or held.
//!
//! Each direction is a link of its own with a rate that changes every second; both share the satellite and the
//! outages. Numbers are fitted to public measurements (`docs/access.md` has them with their sources):
//! Laniewski et al., TMA 2024 (data set Starlink-on-the-Road), Hu et al., CoNEXT 2023 (Satellite-vs-Cellular),
//! Mohan et al., WWW 2024.

use std::any::Any;

use super::process::Ar1;
use super::{MediumKind, Place, Subscribers};
use crate::math;
use crate::net::air::{WAYS, Way};
use crate::net::medium::{Medium, Sides};
use crate::net::parts::Stages;
use crate::packet::Packet;
use crate::params::kinds::{any_time, count, params, rate, real, some_time, words};
use crate::params::{Described, Gauge, gauge};
use crate::probe::Gauges;
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::units::Rate;

/// A satellite serves a terminal for a slot; slots begin at this second of each quarter of a minute (WWW 2024).
const SLOT: Span = Span::from_secs(15);
const PHASE: Span = Span::from_secs(12);
const SECOND: Span = Span::from_secs(1);
/// Kilometres, and kilometres per second.
const EARTH_RADIUS: f64 = 6371.0;
const ALTITUDE: f64 = 550.0;
const ORBITAL_SPEED: f64 = 7.59;
const LIGHT: f64 = 299_792.458;
/// The angle at the centre of the Earth to a satellite at an elevation of 25 degrees, the lowest that is used.
const FARTHEST: f64 = 0.1476;
/// The rate varies by slot, within a slot and from second to second: coefficients of variation, down and up
/// (Starlink-on-the-Road, see `docs/access.md`).
const SLOT_CV: [f64; 2] = [0.18, 0.36];
const DRIFT_CV: [f64; 2] = [0.181, 0.166];
const SECOND_CV: [f64; 2] = [0.074, 0.068];
const DRIFT_TAU: Span = Span::from_secs(8);
/// Frames of the downlink per second (Humphreys et al., Signal structure of the Starlink Ku-band downlink, 2023).
const FRAMES: u64 = 750;
/// While moving the path is another one each second: shadowing in the open has a deviation of 1.14 dB (TR 38.811, table
/// 6.6.2-3, suburban and rural at 30 degrees), and a decibel is 9.3 % of Shannon's rate at a ratio of 9 dB.
const SHADOW_CV: f64 = 1.14 * 0.093;
/// Obstructions of a moving terminal have a lognormal length, as the states of a satellite's path have in ITU-R P.681. The
/// mean and how often they come follow from the drives' pings (Starlink-on-the-Road), the deviation of the logarithm from
/// runs of seconds without anything, with a median of 2 s and a 95th percentile of 50 s (Satellite-vs-Cellular).
const OBSTRUCTION_MEAN: Span = Span::from_millis(800);
const OBSTRUCTION_DEVIATION: f64 = 1.6;

params! {
    pub struct LeoConfig {
        /// mean rate towards the user, before outages
        down: Rate = Rate::from_bps(280_000_000), rate(), "TMA 2024, data";
        /// mean rate from the user
        up: Rate = Rate::from_bps(19_000_000), rate(), "TMA 2024, data";
        /// round trip between ground station and point of presence
        pop: Span = Span::from_millis(10), any_time(), "";
        /// mean wait uplink for the next grant
        jitter: Span = Span::from_millis(10), any_time(), "TMA 2024, data";
        /// probability of an outage at the beginning of a slot: 0.38 of one that pings show, which is longer than hold
        handover: f64 = 0.45, probability().called(&["p-ho"]), "TMA 2024, data";
        /// mean length of an outage
        outage: Span = Span::from_millis(310), some_time(), "TMA 2024, data";
        /// probability that an outage loses what is sent meanwhile; otherwise the packets wait
        lossy: f64 = 0.9, probability().called(&["p-loss"]), "TMA 2024, data";
        /// longest wait of a packet for the end of an outage that loses what is sent
        hold: Span = Span::from_millis(50), any_time(), "APNIC 2024";
        /// probability that a frame of 1/750 s is lost at any other time, with the packets that begin in it
        loss: f64 = 0.0002, probability(), "TMA 2024, data";
        /// with moving: part of the time in which the downlink is obstructed
        obstructed: f64 = 0.031, real("PART", "a number from 0 to 0.9", |p| (0.0..=0.9).contains(&p), (0.0, 0.5)), "TMA 2024, data";
        /// second of the minute at which the run begins
        second: u32 = 0, count(0..=59), "";
        moving: bool = false, words([
            ("fixed", false, "nothing stands between the dish and the sky"),
            ("moving", true, "the downlink is obstructed at times, as while driving"),
        ]), "";
        calm: bool = false, words([
            ("varying", false, "delay, rate and loss are random"),
            ("calm", true, "only the distance of the satellites changes"),
        ]), "";
    }
}

fn probability() -> crate::params::kinds::Spec<f64> {
    real("PROBABILITY", "a number from 0 to 1", |p| (0.0..=1.0).contains(&p), (0.0, 1.0))
}

impl Described for LeoConfig {
    const NAME: &'static str = "leo";
    const SUMMARY: &'static str =
        "satellite in low orbit: delay, rate and loss change in slots of 15 s";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] = &[
        gauge("capacity_mbps", "Mbit/s", "rate of the medium now"),
        gauge("path_ms", "ms", "one-way delay by the satellite and the point of presence now"),
        gauge("slot", "", "number of the slot"),
        gauge("outage_ms", "ms", "without service since the last sample"),
    ];
    const FIXED: &'static [&'static str] = &["second", "fixed", "varying"];
}

impl MediumKind for LeoConfig {
    fn rates(&self) -> [Rate; 2] {
        [self.down, self.up]
    }
    fn build(&self, place: &Place, _: &Subscribers) -> Box<dyn Medium> {
        Box::new(Leo::new(self.clone(), place))
    }
}

/// When nothing is served.
#[derive(Copy, Clone, Debug)]
struct Outage {
    from: Time,
    until: Time,
    /// Packets sent during the outage are lost; otherwise they wait.
    loses: bool,
}

impl Outage {
    const NONE: Outage = Outage { from: Time::ZERO, until: Time::ZERO, loses: false };

    fn is_at(&self, now: Time) -> bool {
        self.from <= now && now < self.until
    }
}

struct Direction {
    rng: Rng,
    /// Of the packets' waits and losses.
    packets: Rng,
    /// The next grant, at which all goes that was sent before.
    grant: Time,
    /// The frame in which the last packet began, by its number and one more, and whether it is lost.
    frame: (u64, bool),
    mean: f64,
    slot: f64,
    drift: Ar1,
    rate: Rate,
    /// When the next packet may be sent, and when that is looked at: never, if none waits.
    free: Time,
    due: Time,
}

/// The medium at work.
struct Leo {
    config: LeoConfig,
    ways: [Direction; 2],
    sky: Rng,
    /// Numbers of slots count from the first one.
    slot: u64,
    slot_begins: Time,
    /// The angle to the satellite when the slot began, and its change per second.
    angle: f64,
    turn: f64,
    outage: Outage,
    obstruction: Outage,
    obstructions: Rng,
    /// When an obstruction begins or ends.
    sky_changes: Time,
    /// When the rates change next.
    tick: Time,
    /// Without service before now, and since the last sample of each direction.
    dark_until: [Time; 2],
    dark: [Span; 2],
}

impl Leo {
    fn new(config: LeoConfig, place: &Place) -> Leo {
        let direction = |way: Way, mean: Rate| {
            let mut rng = place.stream("leo", way as u64);
            let drift = Ar1::new(&mut rng);
            Direction {
                rng,
                packets: place.stream("leo packets", way as u64),
                grant: Time::ZERO,
                frame: (0, false),
                mean: mean.bps() as f64,
                slot: 0.0,
                drift,
                rate: mean,
                free: Time::ZERO,
                due: Time::NEVER,
            }
        };
        let ways = [direction(Way::Down, config.down), direction(Way::Up, config.up)];
        let mut leo = Leo {
            ways,
            sky: place.stream("leo sky", 0),
            slot: 0,
            slot_begins: Time::ZERO,
            angle: 0.0,
            turn: 0.0,
            outage: Outage::NONE,
            obstruction: Outage { from: Time::NEVER, until: Time::NEVER, loses: false },
            obstructions: place.stream("leo obstructions", 0),
            sky_changes: Time::NEVER,
            tick: Time::ZERO,
            dark_until: [Time::ZERO; 2],
            dark: [Span::ZERO; 2],
            config,
        };
        leo.point();
        leo.ways.iter_mut().for_each(Direction::begin_slot);
        leo.vary();
        leo.tick = Time::ZERO + SECOND;
        if leo.config.moving && !leo.config.calm {
            leo.obstruct(Time::ZERO);
        }
        leo
    }

    /// Whether a slot begins at this whole second of the run.
    fn is_boundary(&self, now: Time) -> bool {
        let second = now.0 / SECOND.0 + u64::from(self.config.second);
        second % (SLOT.0 / SECOND.0) == PHASE.0 / SECOND.0
    }

    /// Chooses a satellite: uniformly by area among those above 25 degrees, on its way in any direction.
    fn point(&mut self) {
        let least = math::cos(FARTHEST);
        let cosine = least + (1.0 - least) * self.sky.unit();
        self.angle = libm::acos(cosine);
        let heading = std::f64::consts::TAU * self.sky.unit();
        self.turn = math::cos(heading) * ORBITAL_SPEED / (EARTH_RADIUS + ALTITUDE);
    }

    /// From the terminal over the satellite to the ground station next to it, and to the point of presence.
    fn path(&self, now: Time) -> Span {
        let angle = self.angle + self.turn * now.since(self.slot_begins).as_secs_f64();
        let angle = angle.abs().min(FARTHEST);
        let orbit = EARTH_RADIUS + ALTITUDE;
        let squares = EARTH_RADIUS * EARTH_RADIUS + orbit * orbit;
        let distance = (squares - 2.0 * EARTH_RADIUS * orbit * math::cos(angle)).sqrt();
        Span((2.0 * distance / LIGHT * 1e9) as u64) + self.config.pop / 2
    }

    fn begin_slot(&mut self, now: Time) {
        self.slot += 1;
        self.slot_begins = now;
        self.point();
        self.ways.iter_mut().for_each(Direction::begin_slot);
        // Always drawn, so that one parameter does not change what others draw.
        let (is_out, loses) = (self.sky.unit(), self.sky.unit());
        let length = self.sky.exponential(self.config.outage);
        if !self.config.calm && is_out < self.config.handover {
            let loses = loses < self.config.lossy;
            self.outage = Outage { from: now, until: now + length, loses };
            for way in WAYS {
                self.darken(way, now, now + length);
            }
        }
    }

    /// New rates for the coming second.
    fn vary(&mut self) {
        let calm = self.config.calm;
        for (i, way) in self.ways.iter_mut().enumerate() {
            way.drift.step(&mut way.rng, SECOND, DRIFT_TAU);
            let noise = way.rng.normal();
            let factors = math::lognormal(SLOT_CV[i], way.slot)
                * math::lognormal(DRIFT_CV[i], way.drift.deviate)
                * math::lognormal(SECOND_CV[i], noise);
            let factors = match self.config.moving {
                true => factors * math::lognormal(SHADOW_CV, way.rng.normal()),
                false => factors,
            };
            let rate = if calm { way.mean } else { way.mean * factors };
            way.rate = Rate::from_bps((rate as u64).max(1000));
        }
    }

    /// The next obstruction, after `now`.
    fn obstruct(&mut self, now: Time) {
        let mean = OBSTRUCTION_MEAN.0 as f64;
        let clear = match self.config.obstructed {
            0.0 => return self.sky_changes = Time::NEVER,
            part => Span((mean * (1.0 - part) / part) as u64),
        };
        let from = now + self.obstructions.exponential(clear);
        let deviate = OBSTRUCTION_DEVIATION * self.obstructions.normal();
        let length =
            mean * math::exp(deviate - OBSTRUCTION_DEVIATION * OBSTRUCTION_DEVIATION / 2.0);
        let until = from + Span(length as u64).max(Span(1));
        self.obstruction = Outage { from, until, loses: true };
        self.sky_changes = from;
    }

    fn darken(&mut self, way: Way, from: Time, until: Time) {
        let dark_until = &mut self.dark_until[way as usize];
        self.dark[way as usize] += until.since(from.max(*dark_until));
        *dark_until = until.max(*dark_until);
    }

    /// The next packet of a direction.
    fn send(&mut self, now: Time, way: Way, sides: &mut Sides) {
        let above = if way == Way::Down { self.obstruction } else { Outage::NONE };
        let outages = [self.outage, above].into_iter().filter(|outage| outage.is_at(now));
        let (hold, is_out) = (self.config.hold, outages.clone().next().is_some());
        let held = outages.map(|o| (o.until, o.loses && o.until.since(now) > hold));
        let held = held.filter(|(_, is_lost)| !is_lost).map(|(until, _)| until);
        let direction = &mut self.ways[way as usize];
        if let Some(until) = held.max() {
            direction.due = until;
            return;
        }
        direction.due = Time::NEVER;
        let Some(pkt) = sides.pull(now, way, 0) else { return };
        let took = direction.rate.time_for(u64::from(pkt.frame_len)).max(Span(1));
        let sent = now + took;
        direction.free = sent;
        direction.due = sent;
        let frame = now.0 / 1000 * FRAMES / 1_000_000 + 1;
        if direction.frame.0 != frame {
            direction.frame = (frame, direction.packets.unit() < self.config.loss);
        }
        let is_random = !self.config.calm;
        if is_out || (is_random && direction.frame.1) {
            return sides.lose(now, way, &pkt);
        }
        if is_random && way == Way::Up && direction.grant < sent {
            direction.grant = sent + direction.packets.exponential(self.config.jitter);
        }
        let at = sent.max(direction.grant) + self.path(now);
        sides.deliver(way, pkt, Stages { pulled: now, sent: now, arrived: at }, at);
    }
}

impl Direction {
    fn begin_slot(&mut self) {
        self.slot = self.rng.normal();
    }
}

impl Medium for Leo {
    fn next(&self) -> Time {
        self.tick.min(self.sky_changes).min(self.ways[0].due).min(self.ways[1].due)
    }
    fn act(&mut self, now: Time, sides: &mut Sides) {
        if self.tick <= now {
            if self.is_boundary(now) {
                self.begin_slot(now);
            }
            self.vary();
            self.tick = now + SECOND;
        }
        if self.sky_changes <= now {
            match self.obstruction.is_at(now) {
                true => {
                    self.darken(Way::Down, now, self.obstruction.until);
                    self.sky_changes = self.obstruction.until;
                }
                false => self.obstruct(now),
            }
        }
        for way in WAYS {
            if self.ways[way as usize].due <= now {
                self.send(now, way, sides);
            }
        }
    }
    fn ready(&mut self, now: Time, way: Way, _: usize, _: &mut Sides) {
        let direction = &mut self.ways[way as usize];
        if direction.due == Time::NEVER {
            direction.due = direction.free.max(now);
        }
    }
    /// The draws for this second stay, so that rates change by the ratio of the means.
    fn change(&mut self, _: Time, to: &dyn Any, _: &[&dyn Any]) {
        let Some(config) = to.downcast_ref::<LeoConfig>() else { return };
        for (way, mean) in self.ways.iter_mut().zip([config.down, config.up]) {
            let mean = mean.bps() as f64;
            let rate = way.rate.bps() as f64 * mean / way.mean;
            (way.mean, way.rate) = (mean, Rate::from_bps((rate as u64).max(1000)));
        }
        self.config = config.clone();
    }
    fn probe(&mut self, way: Way, _: Span, out: &mut dyn Gauges) {
        let direction = &self.ways[way as usize];
        out.gauge("capacity_mbps", direction.rate.bps() as f64 * 1e-6);
        out.gauge("path_ms", self.path(self.tick.saturating_sub(SECOND)).as_millis_f64());
        out.gauge("slot", self.slot as f64);
        out.gauge("outage_ms", std::mem::take(&mut self.dark[way as usize]).as_millis_f64());
    }
    fn purge(&mut self) -> Vec<Packet> {
        Vec::new()
    }
}
