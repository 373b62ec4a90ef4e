//! The client: when it opens connections, when it probes, and when it has seen enough.

use std::collections::VecDeque;

use super::exchange::{CLOSE, Came, HANDSHAKE};
use super::score::{self, AVERAGED, Stability, Trip, Trips};
use crate::probe::Responsiveness;
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::traffic::connections::patience;

/// Connections below this number carry load; foreign probes have those from there on, so many in turn.
pub const LOADS: u32 = 64;
const FOREIGN: u32 = 4096;
/// Between probes while nothing is known of the capacity.
const FIRST_GAP: Span = Span::from_millis(100);
/// Probes take at most this part of the capacity (PTC): 5000 bytes of a foreign one and 1000 of a self one.
const PROBE_PART: f64 = 0.05;
const PAIR_BYTES: f64 = 6000.0;
/// A SYN is repeated after this long, and twice as long each time.
const SYN_PATIENCE: Span = Span::from_secs(1);
/// What the stages of a foreign probe are round trips for.
const STAGES: [Trip; CLOSE as usize] = [Trip::Tcp, Trip::Tls, Trip::Http];

/// What the test is told to do.
#[derive(Copy, Clone, Debug)]
pub struct Rules {
    pub interval: Span,
    pub gap: Span,
    pub connections: u32,
    pub idle: Span,
}

/// What the client wants to happen.
pub enum Wish {
    /// One more load connection.
    Open,
    /// This stage of a foreign probe.
    Foreign { connection: u32, stage: u32 },
    /// A self probe on a load connection.
    Own { number: u32, load: u32 },
    /// The test is over: no more load.
    Stop,
}

/// A foreign probe.
#[derive(Copy, Clone, Debug)]
struct Foreign {
    connection: u32,
    stage: u32,
    came: Came,
    /// When this stage began, and when its request is repeated, after what.
    began: Time,
    again: Time,
    patience: Span,
}

pub struct Client {
    rules: Rules,
    rng: Rng,
    stop: Time,
    next_probe: Time,
    next_look: Time,
    foreign: VecDeque<Foreign>,
    /// Probes so far.
    probes: u32,
    /// Load began; goodput is stable; all is.
    is_loaded: bool,
    is_saturated: bool,
    is_stable: bool,
    goodput: Stability,
    responsiveness: Stability,
    /// Bytes that had come at the last look, and the best goodput, bits per second.
    received: u64,
    capacity: f64,
    idle: Trips,
    /// Of the interval at hand, and of those before it.
    now: Trips,
    intervals: VecDeque<Trips>,
    looks: usize,
    /// Of the last foreign probe.
    rtt: Span,
}

impl Client {
    pub fn new(rules: Rules, start: Time, stop: Time, rng: Rng) -> Client {
        Client {
            rng,
            stop,
            next_probe: start,
            next_look: start + rules.idle,
            rules,
            foreign: VecDeque::new(),
            probes: 0,
            is_loaded: false,
            is_saturated: false,
            is_stable: false,
            goodput: Stability::default(),
            responsiveness: Stability::default(),
            received: 0,
            capacity: 0.0,
            idle: Trips::default(),
            now: Trips::default(),
            intervals: VecDeque::new(),
            looks: 0,
            rtt: Span::ZERO,
        }
    }
    pub fn stop(&self) -> Time {
        self.stop
    }
    pub fn is_over(&self) -> bool {
        self.next_look == Time::NEVER
    }
    /// A request is repeated after so long.
    pub fn patience(&self) -> Span {
        patience(self.rtt)
    }
    /// No probe and no load from now on.
    pub fn end(&mut self, now: Time) {
        self.stop = self.stop.min(now);
        (self.next_probe, self.next_look) = (Time::NEVER, Time::NEVER);
        self.foreign.clear();
    }

    pub fn deadline(&self) -> Time {
        let again = self.foreign.iter().map(|p| p.again).min().unwrap_or(Time::NEVER);
        self.next_probe.min(self.next_look).min(again)
    }

    /// Does one thing that is due.
    pub fn act(&mut self, now: Time, received: u64, loads: u32) -> Option<Wish> {
        if now >= self.stop {
            self.end(now);
            return None;
        }
        if self.next_look <= now {
            return self.look(now, received, loads);
        }
        if self.next_probe <= now {
            return Some(self.probe(now, loads));
        }
        let probe = self.foreign.iter_mut().find(|p| p.again <= now)?;
        probe.patience = probe.patience * 2;
        probe.again = now + probe.patience;
        Some(Wish::Foreign { connection: probe.connection, stage: probe.stage })
    }

    /// An interval is over.
    fn look(&mut self, now: Time, received: u64, loads: u32) -> Option<Wish> {
        self.next_look = now + self.rules.interval;
        if !self.is_loaded {
            self.is_loaded = true;
            self.idle = std::mem::take(&mut self.now);
            return Some(Wish::Open);
        }
        self.looks += 1;
        let bits = (received - self.received) as f64 * 8.0;
        self.received = received;
        let goodput = bits / self.rules.interval.as_secs_f64();
        self.capacity = self.capacity.max(goodput);
        let trips = std::mem::take(&mut self.now);
        let rpm = trips.rpm();
        self.intervals.push_back(trips);
        if self.intervals.len() > AVERAGED {
            self.intervals.pop_front();
        }
        if !self.is_saturated {
            self.is_saturated = self.goodput.add(goodput);
            return (!self.is_saturated && loads < self.rules.connections).then_some(Wish::Open);
        }
        if rpm.is_some_and(|rpm| self.responsiveness.add(rpm)) {
            self.is_stable = true;
            self.end(now);
            return Some(Wish::Stop);
        }
        None
    }

    /// Foreign and self probes take turns.
    fn probe(&mut self, now: Time, loads: u32) -> Wish {
        let bits = PAIR_BYTES / 2.0 * 8.0;
        let gap = match self.capacity {
            0.0 => FIRST_GAP,
            capacity => Span((bits / (PROBE_PART * capacity) * 1e9) as u64),
        };
        self.next_probe = now + gap.max(self.rules.gap);
        let number = self.probes;
        self.probes = self.probes.wrapping_add(1);
        if loads > 0 && number % 2 == 1 {
            return Wish::Own { number, load: self.rng.below(u64::from(loads)) as u32 };
        }
        let connection = LOADS + number % FOREIGN;
        let patience = SYN_PATIENCE;
        let again = now + patience;
        let (stage, came) = (HANDSHAKE, Came::default());
        self.foreign.push_back(Foreign { connection, stage, came, began: now, again, patience });
        Wish::Foreign { connection, stage }
    }

    /// A packet of an answer to a foreign probe: the stage that begins then, if one does.
    pub fn on_answer(&mut self, now: Time, connection: u32, number: u32) -> Option<u32> {
        let at = self.foreign.iter().position(|p| p.connection == connection)?;
        let probe = &mut self.foreign[at];
        if !probe.came.add(probe.stage, number) {
            return None;
        }
        let rtt = now.since(probe.began);
        self.now.add(STAGES[probe.stage as usize], rtt.as_millis_f64());
        self.rtt = rtt;
        let patience = self.patience();
        let probe = &mut self.foreign[at];
        let next = probe.stage + 1;
        if next == CLOSE {
            self.foreign.remove(at);
            return Some(CLOSE);
        }
        (probe.stage, probe.came, probe.began) = (next, Came::default(), now);
        (probe.patience, probe.again) = (patience, now + patience);
        Some(next)
    }

    pub fn on_self_answer(&mut self, time: Span) {
        if !self.is_stable {
            self.now.add(Trip::Own, time.as_millis_f64());
        }
    }

    pub fn score(&self) -> Responsiveness {
        let mut last = Trips::default();
        self.intervals.iter().for_each(|trips| last.extend(trips));
        if self.is_loaded && self.intervals.is_empty() {
            last.extend(&self.now);
        }
        let idle = if self.is_loaded { &self.idle } else { &self.now };
        let seconds = self.looks as f64 * self.rules.interval.as_secs_f64();
        let active_mbps = (self.looks > 0).then(|| self.received as f64 * 8e-6 / seconds);
        score::result(idle, &last, active_mbps, self.looks, self.is_stable)
    }
}
