//! Interactive video: a frame per interval over one TCP connection, and small messages upstream, such as
//! movements of a head, each of which changes what the next frame shows.
//!
//! The encoder knows nothing of the network: frames that cannot leave in time wait in the send buffer,
//! and those behind wait for them. A message tells the whole state, so what a lost one said takes effect
//! with the next that arrives.

use std::collections::VecDeque;

use super::poisson::Poisson;
use crate::ecn::Ecn;
use crate::math;
use crate::packet::{Flags, FlowId, GroupId, Packet, UDP_IP_HEADERS};
use crate::rng::Rng;
use crate::scenario::FlowSpec;
use crate::sim::recording::{Transfer, TransferKind};
use crate::time::{Span, Time};
use crate::transport::stream::Mark;
use crate::units::ETHERNET_HEADER;

/// Standard deviation of the frame sizes over their mean.
pub const SPREAD: f64 = 0.15;
/// Payload of a message upstream, bytes.
const MESSAGE: u32 = 200;

/// A frame that has not been received in full.
#[derive(Clone, Debug)]
struct Frame {
    written_at: Time,
    bytes: u64,
    /// The segments with its first and its last byte, as far as they have been sent.
    first: Option<u32>,
    last: Option<u32>,
    /// It shows all inputs up to this number.
    shows: u64,
}

/// A movement that has not been seen.
#[derive(Copy, Clone, Debug)]
struct Input {
    at: Time,
    /// When the server knew of it, and when it wrote the first frame that shows it.
    known_at: Option<Time>,
    shown_at: Option<Time>,
}

/// The source of one flow.
#[derive(Clone, Debug)]
pub struct Video {
    group: GroupId,
    flow: FlowId,
    interval: Span,
    mean_bytes: f64,
    /// Of the logarithm of a frame's size over the mean.
    mu: f64,
    sigma: f64,
    rng: Rng,
    next_frame: Time,
    stop: Time,
    started: bool,
    frames: VecDeque<Frame>,
    /// Of `frames`, from the front: whose first byte was sent, whose last one, whose first was received.
    begun: usize,
    sent: usize,
    seen: usize,
    movements: Option<Poisson>,
    inputs: VecDeque<Input>,
    /// Number of the first of `inputs`.
    first_input: u64,
}

impl Video {
    /// The source of flow number `index` of a group.
    pub fn new(seed: u64, spec: &FlowSpec, flow: FlowId, group: GroupId, index: u64) -> Video {
        let stream = |what: &str| Rng::stream(seed, &format!("{what} {}", spec.name), index);
        let interval = Span(spec.interval_ns.unwrap_or(u64::MAX));
        let spread = spec.spread.unwrap_or(SPREAD);
        let variance = math::ln(1.0 + spread * spread);
        let mean_bytes = spec.rate_bps.unwrap_or(0) as f64 / 8.0 * interval.as_secs_f64();
        let movements = spec.control_interval_ns.map(|mean| {
            let rng = stream("video controls");
            Poisson::new(Span(mean), rng)
        });
        Video {
            group,
            flow,
            interval,
            mean_bytes,
            mu: -variance / 2.0,
            sigma: variance.sqrt(),
            rng: stream("video frames"),
            next_frame: Time::NEVER,
            stop: Time::NEVER,
            started: false,
            frames: VecDeque::new(),
            begun: 0,
            sent: 0,
            seen: 0,
            movements,
            inputs: VecDeque::new(),
            first_input: 0,
        }
    }

    pub fn flow(&self) -> FlowId {
        self.flow
    }
    pub fn group(&self) -> GroupId {
        self.group
    }
    pub fn has_started(&self) -> bool {
        self.started
    }

    /// The connection is there.
    pub fn start(&mut self, now: Time) {
        self.started = true;
        if now < self.stop {
            self.next_frame = now;
            if let Some(movements) = &mut self.movements {
                movements.start(now);
            }
        }
    }
    pub fn stop(&mut self, now: Time) {
        self.stop = now;
        self.next_frame = Time::NEVER;
        if let Some(movements) = &mut self.movements {
            movements.stop(now);
        }
    }
    pub fn next_frame(&self) -> Time {
        self.next_frame
    }
    pub fn next_movement(&self) -> Time {
        self.movements.as_ref().map_or(Time::NEVER, Poisson::next)
    }

    /// A size with the wanted mean and spread (Box and Muller's normal variate).
    fn size(&mut self) -> u64 {
        let (u, v) = (1.0 - self.rng.unit(), self.rng.unit());
        let normal = (-2.0 * math::ln(u)).sqrt() * math::cos(std::f64::consts::TAU * v);
        let size = self.mean_bytes * math::exp(self.mu + self.sigma * normal);
        (size.round() as u64).max(1)
    }

    /// The encoder has a frame: its size, which the application writes at once.
    pub fn frame(&mut self, now: Time) -> u64 {
        let bytes = self.size();
        for input in self.inputs.iter_mut().filter(|i| i.known_at.is_some()) {
            input.shown_at.get_or_insert(now);
        }
        let known = self.inputs.iter().take_while(|i| i.known_at.is_some()).count() as u64;
        let shows = self.first_input + known;
        self.frames.push_back(Frame { written_at: now, bytes, first: None, last: None, shows });
        self.next_frame = now + self.interval;
        bytes
    }

    /// A movement: the message that tells of it.
    pub fn movement(&mut self, now: Time) -> Packet {
        let number = self.first_input + self.inputs.len() as u64;
        self.inputs.push_back(Input { at: now, known_at: None, shown_at: None });
        if let Some(movements) = &mut self.movements {
            movements.advance(now);
        }
        let len = MESSAGE + UDP_IP_HEADERS + ETHERNET_HEADER;
        let flags = Flags::ACK.with(Flags::MESSAGE);
        let mut p = Packet::new(self.flow, self.group, flags, len, Ecn::NotEct);
        p.seq = number as u32;
        p.stamp = now;
        p
    }

    /// A message has reached the server.
    pub fn on_message(&mut self, now: Time, number: u32) {
        let told = u64::from(number).saturating_sub(self.first_input) as usize + 1;
        if u64::from(number) < self.first_input {
            return; // overtaken by a newer one
        }
        for input in self.inputs.iter_mut().take(told) {
            input.known_at.get_or_insert(now);
        }
    }

    /// Frames begin or end in segments that were sent.
    pub fn on_sent(&mut self, mark: Mark) {
        match mark {
            Mark::First(seq) => {
                self.frames[self.begun].first = Some(seq);
                self.begun += 1;
            }
            Mark::Last(seq) => {
                self.frames[self.sent].last = Some(seq);
                self.sent += 1;
            }
        }
    }

    /// The client has every segment before `next`.
    pub fn on_received(&mut self, now: Time, next: u32, done: &mut Vec<Transfer>) {
        let has = |seq: Option<u32>| seq.is_some_and(|s| s < next);
        while let Some(frame) = self.frames.get(self.seen)
            && has(frame.first)
        {
            self.seen += 1;
            let shows = frame.shows;
            self.see_inputs(now, shows, done);
        }
        while let Some(frame) = self.frames.front()
            && has(frame.last)
        {
            done.push(Transfer {
                group: self.group,
                kind: TransferKind::Frame,
                start: frame.written_at,
                bytes: Some(frame.bytes),
                completion: now.since(frame.written_at),
                response: None,
                ideal: None,
                retransmits: None,
            });
            self.frames.pop_front();
            self.begun -= 1;
            self.sent -= 1;
            self.seen -= 1;
        }
    }

    /// The first byte of a frame is there that shows all inputs before this number.
    fn see_inputs(&mut self, now: Time, before: u64, done: &mut Vec<Transfer>) {
        while self.first_input < before
            && let Some(input) = self.inputs.pop_front()
        {
            self.first_input += 1;
            let (Some(known), Some(shown)) = (input.known_at, input.shown_at) else {
                unreachable!("a frame shows only what the server knew");
            };
            let completion = now.since(input.at);
            done.push(Transfer {
                group: self.group,
                kind: TransferKind::Input,
                start: input.at,
                bytes: None,
                completion,
                response: Some(completion - shown.since(known)),
                ideal: None,
                retransmits: None,
            });
        }
    }

    /// Frames written from `since` on that have not arrived.
    pub fn unfinished(&self, since: Time) -> u64 {
        self.frames.iter().filter(|f| f.written_at >= since).count() as u64
    }
}
