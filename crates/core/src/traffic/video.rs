//! Interactive video: a frame per interval over one TCP connection, and small messages upstream, such as
//! movements of a head, each of which changes what the next frame shows.
//!
//! The encoder knows nothing of the network: frames that cannot leave in time wait in the send buffer,
//! and those behind wait for them. A message tells the whole state, so what a lost one said takes effect
//! with the next that arrives.

mod player;

use std::collections::VecDeque;

use serde::Deserialize;

use self::player::Player;
use super::poisson::Poisson;
use super::tcp::{self, Hosts};
use super::{Begins, Demand, Place, Traffic};
use crate::ecn::Ecn;
use crate::element::{self, ArrivalChain, ArrivalList, End, Flow, Outbox};
use crate::error::ScenarioError;
use crate::math;
use crate::packet::{Flags, FlowId, GroupId, Packet, UDP_IP_HEADERS};
use crate::params::Gauge;
use crate::probe::{Experience, SenderState, Totals, Transfer, TransferKind};
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::transport::receiver::Receiver;
use crate::transport::sender::Sender;
use crate::transport::stream::Mark;
use crate::units::ETHERNET_HEADER;

/// Standard deviation of the frame sizes over their mean.
pub const SPREAD: f64 = 0.15;
/// Payload of a message upstream, bytes.
const MESSAGE: u32 = 200;

/// A video and its viewer.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spec {
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(with = "super::tcp::Keys"))]
    hosts: Hosts,
    rate_bps: u64,
    /// Time between frames.
    interval_ns: u64,
    /// Standard deviation of the frames' sizes over their mean.
    #[serde(default = "default_spread")]
    spread: f64,
    /// Mean time between the viewer's messages; none by default.
    control_interval_ns: Option<u64>,
    /// The encoder rests after so many frames.
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Option::is_none"))]
    frames_total: Option<u64>,
    /// The viewer plays each frame for the time between frames, from so long after the first one on.
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Option::is_none"))]
    player_ns: Option<u64>,
}

fn default_spread() -> f64 {
    SPREAD
}

impl Traffic for Spec {
    fn check(&self) -> Result<(), ScenarioError> {
        let wrong = |what: &str| Err(ScenarioError(what.to_owned()));
        if self.interval_ns == 0 {
            return wrong("frames come one after the other: interval must be above 0");
        }
        if !(0.0..=10.0).contains(&self.spread) {
            return wrong("spread must be between 0 and 10");
        }
        if self.rate_bps == 0 {
            return wrong("a video needs a rate above 0");
        }
        if self.frames_total == Some(0) {
            return wrong("a video needs a frame");
        }
        if self.control_interval_ns == Some(0) {
            return wrong("the time between controls must be above 0");
        }
        Ok(())
    }
    fn sender_name(&self) -> &str {
        self.hosts.cc()
    }
    fn states(&self) -> &'static [&'static str] {
        self.hosts.states()
    }
    fn gauges(&self) -> Vec<Gauge> {
        self.hosts.gauges()
    }
    fn demand(&self) -> Demand {
        let demand = self.hosts.demand(None);
        let rate = Demand::framed(self.rate_bps, demand.frame, tcp::FRAME_HEADERS);
        let begun = self.control_interval_ns.map_or(0.0, |ns| self.interval_ns as f64 / ns as f64);
        let begins = Begins::alike(self.interval_ns, f64::INFINITY, 600.0 * (1.0 + begun));
        Demand {
            rate_bps: Some(demand.rate_bps.map_or(rate, |paced| paced.min(rate))),
            begins,
            ..demand
        }
    }
    fn build(&self, place: &Place) -> Box<dyn Flow> {
        let (mut sender, receiver) = self.hosts.connect(place, place.number, None, true);
        sender.start_at(place.start);
        Box::new(Video { sender, receiver, frames: Frames::new(self, place) })
    }
}

/// The connection, and what goes over it.
struct Video {
    sender: Sender,
    receiver: Receiver,
    frames: Frames,
}

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

/// What the server has written and the viewer has done. Each side reads of the other's only what has
/// reached it in a packet.
struct Frames {
    group: GroupId,
    flow: FlowId,
    interval: Span,
    mean_bytes: f64,
    /// Standard deviation of the sizes over their mean.
    spread: f64,
    rng: Rng,
    next_frame: Time,
    /// How many may still come, and the bytes of those that came.
    left: u64,
    made_bytes: u64,
    stop: Time,
    started: bool,
    frames: VecDeque<Frame>,
    /// Of `frames`, from the front: whose first byte was sent, whose last one, whose first was received.
    begun: usize,
    sent: usize,
    seen: usize,
    /// Mean time between movements, and what draws them, until the viewer starts.
    control: Option<(Span, Rng)>,
    movements: Option<Poisson>,
    inputs: VecDeque<Input>,
    /// Number of the first of `inputs`.
    first_input: u64,
    done: Vec<Transfer>,
    /// Of a viewer who plays them: when each frame was complete, and how long after the first one the player begins.
    came: Vec<Time>,
    prebuffer: Option<Span>,
    player: Option<Player>,
}

impl Frames {
    fn new(spec: &Spec, place: &Place) -> Frames {
        let stream =
            |what: &str| Rng::stream(place.seed, &format!("{what} {}", place.name), place.index);
        let interval = Span(spec.interval_ns);
        Frames {
            group: place.group,
            flow: place.number,
            interval,
            mean_bytes: spec.rate_bps as f64 / 8.0 * interval.as_secs_f64(),
            spread: spec.spread,
            rng: stream("video frames"),
            next_frame: Time::NEVER,
            left: spec.frames_total.unwrap_or(u64::MAX),
            made_bytes: 0,
            stop: place.stop,
            started: false,
            frames: VecDeque::new(),
            begun: 0,
            sent: 0,
            seen: 0,
            control: spec.control_interval_ns.map(|mean| (Span(mean), stream("video controls"))),
            movements: None,
            inputs: VecDeque::new(),
            first_input: 0,
            done: Vec::new(),
            came: Vec::new(),
            prebuffer: spec.player_ns.map(Span),
            player: None,
        }
    }

    /// The server has its connection.
    fn start(&mut self, now: Time) {
        self.started = true;
        if now < self.stop {
            self.next_frame = now;
        }
        let total = (self.left < u64::MAX).then_some(self.left as usize);
        let player = |wait| Player { chunk: self.interval, begin: now + wait, total };
        self.player = self.prebuffer.map(player);
    }
    /// The viewer sees something for the first time.
    fn begin_moving(&mut self, now: Time) {
        let control = self.control.take();
        self.movements = control.map(|(mean, rng)| Poisson::new(mean, rng, now, self.stop));
    }
    /// No frame and no movement from now on.
    fn stop(&mut self, now: Time) {
        (self.stop, self.next_frame) = (now, Time::NEVER);
        self.movements = None;
        self.control = None;
    }
    fn next_movement(&self) -> Time {
        self.movements.as_ref().map_or(Time::NEVER, Poisson::next)
    }

    fn size(&mut self) -> u64 {
        let size = self.mean_bytes * math::lognormal(self.spread, self.rng.normal());
        (size.round() as u64).max(1)
    }

    /// The encoder has a frame: its size, which the application writes at once.
    fn frame(&mut self, now: Time) -> u64 {
        let bytes = self.size();
        for input in self.inputs.iter_mut().filter(|i| i.known_at.is_some()) {
            input.shown_at.get_or_insert(now);
        }
        let known = self.inputs.iter().take_while(|i| i.known_at.is_some()).count() as u64;
        let shows = self.first_input + known;
        self.frames.push_back(Frame { written_at: now, bytes, first: None, last: None, shows });
        let next = now + self.interval;
        self.left -= 1;
        self.made_bytes += bytes;
        self.next_frame = if next < self.stop && self.left > 0 { next } else { Time::NEVER };
        bytes
    }

    /// A movement: the message that tells of it.
    fn movement(&mut self, now: Time) -> Packet {
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
    fn on_message(&mut self, now: Time, number: u32) {
        let told = u64::from(number).saturating_sub(self.first_input) as usize + 1;
        if u64::from(number) < self.first_input {
            return; // overtaken by a newer one
        }
        for input in self.inputs.iter_mut().take(told) {
            input.known_at.get_or_insert(now);
        }
    }

    /// Frames begin or end in segments that were sent.
    fn on_sent(&mut self, mark: Mark) {
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
    fn on_received(&mut self, now: Time, next: u32) {
        let has = |seq: Option<u32>| seq.is_some_and(|s| s < next);
        while let Some(frame) = self.frames.get(self.seen)
            && has(frame.first)
        {
            self.seen += 1;
            let shows = frame.shows;
            self.see_inputs(now, shows);
        }
        while let Some(frame) = self.frames.front()
            && has(frame.last)
        {
            self.done.push(Transfer {
                group: self.group.number,
                kind: TransferKind::Frame,
                start: frame.written_at,
                bytes: Some(frame.bytes),
                completion: now.since(frame.written_at),
                response: None,
                idle: None,
                ideal: None,
                retransmits: None,
            });
            if self.player.is_some() {
                self.came.push(now);
            }
            self.frames.pop_front();
            self.begun -= 1;
            self.sent -= 1;
            self.seen -= 1;
        }
    }

    /// The first byte of a frame is there that shows all inputs before this number.
    fn see_inputs(&mut self, now: Time, before: u64) {
        while self.first_input < before
            && let Some(input) = self.inputs.pop_front()
        {
            self.first_input += 1;
            let (Some(known), Some(shown)) = (input.known_at, input.shown_at) else {
                unreachable!("a frame shows only what the server knew");
            };
            let completion = now.since(input.at);
            self.done.push(Transfer {
                group: self.group.number,
                kind: TransferKind::Input,
                start: input.at,
                bytes: None,
                completion,
                response: Some(completion - shown.since(known)),
                idle: None,
                ideal: None,
                retransmits: None,
            });
        }
    }

    /// Frames written from `since` on that have not arrived.
    fn unfinished(&self, since: Time) -> u64 {
        self.frames.iter().filter(|f| f.written_at >= since).count() as u64
    }
}

/// The sending end: what the sender does, and the application on top of it.
struct Server<'a>(&'a mut Sender, &'a mut Frames);

impl Server<'_> {
    /// The sender was called: its first frame follows the handshake.
    fn follow(&mut self, now: Time) {
        let Server(sender, frames) = self;
        while let Some(mark) = sender.take_mark() {
            frames.on_sent(mark);
        }
        if sender.is_established() && !frames.started {
            frames.start(now);
        }
    }
}

impl End for Server<'_> {
    fn deadline(&self) -> Time {
        self.0.deadline().min(self.1.next_frame)
    }
    fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        if self.1.next_frame <= now {
            let bytes = self.1.frame(now);
            self.0.write(now, bytes, out);
        } else {
            self.0.on_timer(now, out);
        }
        self.follow(now);
    }
    fn on_packet(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        if pkt.flags.has(Flags::MESSAGE) {
            self.1.on_message(now, pkt.seq);
        } else {
            self.0.on_packet(now, pkt, out);
            self.follow(now);
        }
    }
}

/// The receiving end, with the viewer.
struct Viewer<'a>(&'a mut Receiver, &'a mut Frames);

impl End for Viewer<'_> {
    fn deadline(&self) -> Time {
        self.0.deadline().min(self.1.next_movement())
    }
    fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        if self.1.next_movement() <= now {
            let message = self.1.movement(now);
            out.push(message);
        } else {
            self.0.on_timer(now, out);
        }
    }
    fn on_packet(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        self.0.on_packet(now, pkt, out);
        if self.1.control.is_some() && pkt.flags.has(Flags::DATA) {
            self.1.begin_moving(now);
        }
        self.1.on_received(now, self.0.next());
    }
}

impl Flow for Video {
    fn run_sender(&mut self, arrivals: &mut ArrivalList, until: Time, out: &mut Outbox) -> Time {
        element::run(&mut Server(&mut self.sender, &mut self.frames), arrivals, until, out)
    }
    fn run_receiver(&mut self, arrivals: &mut ArrivalChain, until: Time, out: &mut Outbox) -> Time {
        element::run(&mut Viewer(&mut self.receiver, &mut self.frames), arrivals, until, out)
    }
    fn starts(&self) -> (Time, Time) {
        (self.sender.deadline(), Time::NEVER)
    }
    fn stop(&mut self, now: Time) {
        self.sender.stop_at(now);
        self.frames.stop(now);
    }
    fn totals(&self) -> Totals {
        tcp::totals(&self.sender, &self.receiver)
    }
    fn senders(&self, each: &mut dyn FnMut(SenderState)) {
        tcp::show(&self.sender, each);
    }
    fn ecn_mode(&self) -> Option<&'static str> {
        Some(tcp::mode(&self.sender, &self.receiver))
    }
    fn take_transfers(&mut self, into: &mut Vec<Transfer>) {
        into.append(&mut self.frames.done);
    }
    fn experience(&self, now: Time) -> Option<Experience> {
        let seen = self.frames.player?.play(&self.frames.came, now);
        Some(Experience { media_bytes: self.frames.made_bytes, ..seen })
    }
    fn unfinished(&self, since: Time) -> u64 {
        self.frames.unfinished(since)
    }
}
