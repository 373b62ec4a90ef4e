//! Calls, games and remote desktops: frames over RTP, at a rate that a media controller asks of the encoder.
//!
//! The encoder makes a frame at even intervals. Its packets leave at the controller's pacing rate, as far as
//! its window allows, and wait in a media queue otherwise. The receiver reports what has come. A frame that
//! misses a packet is lost, unless [`repair`] makes that good.

mod encoder;
mod frames;
mod repair;

use std::collections::BTreeMap;

use encoder::{Encoder, KeyFrames};
pub use frames::{SentFrame, experience_of};

use frames::Frames;
use repair::{IS_ASKING, IS_PARITY, Repairs};
use serde::Deserialize;

use super::cbr::Copies;
use super::{Begins, Demand, Place, Traffic, WireKind};
use crate::cc::media::registry::{self, MediaConfig};
use crate::cc::media::{
    Cluster, EncoderModel, FrameState, MediaController, Rates, Repair, Reports,
};
use crate::ecn::Ecn;
use crate::element::{self, ArrivalChain, ArrivalList, End, Flow, Outbox};
use crate::error::ScenarioError;
use crate::own::written;
use crate::packet::{EcnBytes, Flags, Packet, TcpBits};
use crate::params::{Gauge, gauge};
use crate::probe::{Experience, SenderState, Totals, Transfer};
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::transport::rtp::{BELOW_RTP, Format, History, OVERHEAD, Reporter};

/// 1200 bytes of media.
const FRAME_LEN: u32 = 1200 + OVERHEAD;
const SMALLEST_FRAME_LEN: u32 = 100 + OVERHEAD;
/// A window that no report opens lets one packet go after two round trips, and not before this.
const SILENCE: Span = Span::from_millis(200);
/// Audio packets are so long (Opus).
const AUDIO: Span = Span::from_millis(20);
/// Number in the window field of audio packets, which reports do not cover.
const IS_AUDIO: u16 = 1;
/// The same of padding.
const IS_PADDING: u16 = 2;

/// What every media flow tells of itself.
const GAUGES: &[Gauge] = &[
    gauge("target_mbps", "Mb/s", "rate that the congestion control asks of the encoder"),
    gauge("media_queue_ms", "ms", "how long the oldest frame has waited at the sender"),
];

/// A call, one way.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Keys")]
#[cfg_attr(feature = "schema", schemars(with = "Keys"))]
pub struct Spec {
    keys: Keys,
    config: MediaConfig,
}

/// A media flow as it is written.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Keys {
    /// The media controller, with its options.
    cc: String,
    #[serde(default)]
    options: BTreeMap<String, String>,
    /// The encoder's highest rate: of media, without headers.
    rate_bps: u64,
    /// Its lowest rate, and the one that it begins with.
    rate_min_bps: Option<u64>,
    rate_start_bps: Option<u64>,
    /// From the flow's start to the first frame; by default what the controller is used with.
    setup_ns: Option<u64>,
    /// Time between frames.
    interval_ns: u64,
    /// By default what the controller is used with.
    encoder: Option<EncoderModel>,
    /// Standard deviation of the frames' sizes over their mean.
    #[serde(default)]
    spread: f64,
    /// From a new target to the first frame of that size; by default one interval, and nought with VP8, whose rate control is late by itself.
    reaction_ns: Option<u64>,
    /// Time between key frames, and how large they are over the others.
    keyframe_interval_ns: Option<u64>,
    #[serde(default = "keyframe_ratio")]
    keyframe_ratio: f64,
    /// Ethernet frame of a full packet.
    #[serde(default = "full_frame")]
    packet_bytes: u32,
    /// By default what the controller wants.
    ecn: Option<Ecn>,
    #[serde(default)]
    feedback: Format,
    /// Time between reports; by default what the controller wants.
    feedback_interval_ns: Option<u64>,
    /// By default what the controller wants.
    repair: Option<Repair>,
    /// Frames that take longer are late.
    #[serde(default = "deadline")]
    deadline_ns: u64,
    /// Rate of audio beside the frames: payload.
    audio_bps: Option<u64>,
}

fn full_frame() -> u32 {
    FRAME_LEN
}
fn keyframe_ratio() -> f64 {
    5.0
}
fn deadline() -> u64 {
    100_000_000
}

impl TryFrom<Keys> for Spec {
    type Error = ScenarioError;
    fn try_from(keys: Keys) -> Result<Spec, ScenarioError> {
        let given: Vec<_> = keys.options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let config = registry::parse(&keys.cc, &given).map_err(|e| ScenarioError(e.to_string()))?;
        Ok(Spec { keys, config })
    }
}

impl Spec {
    fn rates(&self) -> Rates {
        let max = self.keys.rate_bps;
        let min = self.keys.rate_min_bps.unwrap_or(150_000).min(max);
        let start = self.keys.rate_start_bps.unwrap_or(1_000_000).clamp(min, max);
        Rates { min: min as f64, start: start as f64, max: max as f64 }
    }
}

impl Traffic for Spec {
    fn check(&self) -> Result<(), ScenarioError> {
        let wrong = |what: &str| Err(ScenarioError(what.to_owned()));
        let keys = &self.keys;
        if keys.rate_bps == 0 || keys.audio_bps == Some(0) {
            return wrong("media need a rate above 0");
        }
        if keys.interval_ns == 0 {
            return wrong("frames come one after the other: interval must be above 0");
        }
        if keys.rate_min_bps > Some(keys.rate_bps) {
            return wrong("the lowest rate of the encoder must not be above the highest");
        }
        if !(0.0..=10.0).contains(&keys.spread) || !(1.0..=1000.0).contains(&keys.keyframe_ratio) {
            return wrong("spread must be between 0 and 10, and keyframe_ratio between 1 and 1000");
        }
        if !(SMALLEST_FRAME_LEN..=9014).contains(&keys.packet_bytes) {
            return Err(ScenarioError(format!(
                "packet must be between {SMALLEST_FRAME_LEN}B and 9014B"
            )));
        }
        Ok(())
    }
    fn sender_name(&self) -> &str {
        written(&self.keys.cc)
    }
    fn wire(&self) -> Option<WireKind> {
        Some(WireKind::Udp)
    }
    fn has_rate(&self) -> bool {
        true
    }
    fn pauses(&self) -> bool {
        true
    }
    fn gauges(&self) -> Vec<Gauge> {
        [GAUGES.to_vec(), self.config.gauges()].concat()
    }
    fn demand(&self) -> Demand {
        let keys = &self.keys;
        let payload = keys.rate_bps + keys.audio_bps.unwrap_or(0);
        // Frames vary, and repairs come on top.
        let rate = 1.5 * Demand::framed(payload, keys.packet_bytes, OVERHEAD);
        let packets_per_s = rate / 8.0 / f64::from(keys.packet_bytes);
        let burst = 1.0 + packets_per_s * keys.interval_ns as f64 * 1e-9;
        Demand {
            frame: keys.packet_bytes,
            rate_bps: Some(rate),
            burst,
            state: 40e3,
            begins: Begins::alike(keys.interval_ns, f64::INFINITY, 700.0 + 15.0 * burst),
            ..Demand::GREEDY
        }
    }
    fn build(&self, place: &Place) -> Box<dyn Flow> {
        let keys = &self.keys;
        // A sender that never hears of marks must not ask for them.
        let wanted = match keys.feedback {
            Format::Ccfb => self.config.ecn(),
            Format::Twcc => Ecn::NotEct,
        };
        let codepoint = keys.ecn.unwrap_or(wanted);
        let rule = match keys.feedback_interval_ns {
            Some(interval) => Reports::every(Span(interval)),
            None => self.config.reports(),
        };
        let repair = keys.repair.unwrap_or_else(|| self.config.repair());
        let interval = Span(keys.interval_ns);
        let ratio = keys.keyframe_ratio;
        let key = keys.keyframe_interval_ns.map(|ns| KeyFrames { interval: Span(ns), ratio });
        let encoder = keys.encoder.unwrap_or_else(|| self.config.encoder());
        let usual = if encoder == EncoderModel::Vp8 { Span::ZERO } else { interval };
        let reaction = keys.reaction_ns.map_or(usual, Span);
        let start = place.start + keys.setup_ns.map_or_else(|| self.config.setup(place.rtt), Span);
        let stream =
            |what: &str| Rng::stream(place.seed, &format!("{what} {}", place.name), place.index);
        let packet = |len: u32, is_audio: bool| {
            let mut p = Packet::new(place.number, place.group, Flags::UDP, len, codepoint);
            p.payload = (len - BELOW_RTP) as u16;
            p.dscp = place.dscp;
            p.window = if is_audio { IS_AUDIO } else { 0 };
            p
        };
        let audio = keys.audio_bps.map(|bps| {
            let media = (bps as f64 / 8.0 * AUDIO.as_secs_f64()).round() as u32;
            Audio { packet: packet((media + OVERHEAD).min(9014), true), next: start }
        });
        let sender = Sender {
            cc: self.config.build(self.rates(), codepoint, stream("media controller")),
            encoder: Encoder::new(
                encoder,
                interval,
                keys.spread,
                reaction,
                key,
                keys.rate_bps as f64,
                stream("media frames"),
            ),
            packet: packet(keys.packet_bytes, false),
            interval,
            next_frame: start,
            last_bytes: 0,
            stop: place.stop,
            due: Time::NEVER,
            paced_until: start,
            is_held: false,
            blocked_since: None,
            audio,
            srtt: Span::ZERO,
            probe: None,
            unslept: Span::ZERO,
        };
        let receiver = Receiver {
            reporter: Reporter::new(
                place.number,
                place.group,
                keys.feedback,
                rule,
                place.measured_from,
            ),
            received_bytes: 0,
            newest: None,
            copies: Copies::default(),
        };
        let stream = Stream {
            history: History::new(keys.feedback, self.config.lost_after()),
            frames: Frames::new(place.group.number, Span(keys.deadline_ns), place.measured_from),
            repairs: Repairs::new(repair, place.number, place.group),
        };
        Box::new(Media { sender, receiver, stream })
    }
}

/// A sender and its receiver, and what is on its way between them. Each side reads of the other's only what
/// has reached it in a packet.
struct Media {
    sender: Sender,
    receiver: Receiver,
    stream: Stream,
}

struct Stream {
    history: History,
    frames: Frames,
    repairs: Option<Repairs>,
}

impl Stream {
    /// The frame of which packets leave next, and what is left of it, once nothing of the repair waits.
    fn waiting(&self, now: Time) -> Option<Waiting> {
        let frame = self.frames.waiting().map(|(frame, left)| Waiting::Frame(frame, left));
        let repair = self.repairs.as_ref().and_then(|r| r.waiting(now, frame.is_some()));
        repair.map(Waiting::Repair).or(frame)
    }
}

/// What leaves next: of a repair, or of a frame of which so many bytes are left.
#[derive(Copy, Clone)]
enum Waiting {
    Repair(repair::Waiting),
    Frame(u32, u64),
}

struct Sender {
    cc: Box<dyn MediaController>,
    encoder: Encoder,
    /// A full packet.
    packet: Packet,
    interval: Span,
    next_frame: Time,
    last_bytes: u64,
    stop: Time,
    /// When packets are to leave next; the last packet fills the pacing rate until then.
    due: Time,
    paced_until: Time,
    /// Whether the pacer holds back what waits.
    is_held: bool,
    /// Since when the window is full.
    blocked_since: Option<Time>,
    audio: Option<Audio>,
    srtt: Span,
    probe: Option<Probing>,
    /// What Ericsson's pacer has not slept for.
    unslept: Span,
}

/// A probe that is leaving: what of it has left.
struct Probing {
    cluster: Cluster,
    packets: u32,
    bytes: u64,
}

struct Audio {
    packet: Packet,
    next: Time,
}

struct Receiver {
    reporter: Reporter,
    received_bytes: u64,
    /// Number of the newest packet of a frame.
    newest: Option<u32>,
    copies: Copies,
}

impl Sender {
    fn next_audio(&self) -> Time {
        self.audio.as_ref().map_or(Time::NEVER, |audio| audio.next)
    }
    fn silence(&self) -> Span {
        SILENCE.max(self.srtt * 2)
    }

    /// The encoder captures a frame.
    fn capture(&mut self, now: Time, stream: &mut Stream) {
        self.next_frame = now + self.encoder.next_interval();
        if now >= self.stop {
            (self.next_frame, self.probe) = (Time::NEVER, None);
            return;
        }
        let queue_age = stream.frames.waiting_since().map_or(Span::ZERO, |since| now.since(since));
        let (interval, last_bytes) = (self.interval, self.last_bytes);
        let queue_bytes = stream.frames.waiting_bytes();
        let in_flight = stream.history.in_flight();
        let frame = FrameState { now, interval, queue_age, last_bytes, queue_bytes, in_flight };
        if self.cc.skips_frame(&frame) {
            return;
        }
        self.cc.on_frame(&frame);
        let share = stream.repairs.as_mut().map_or(1.0, |repairs| repairs.encoder_share(now));
        let bytes = self.encoder.frame(now, self.cc.target_bps() * share);
        self.last_bytes = bytes;
        let header = self.cc.header();
        let packets = bytes.div_ceil(u64::from(u32::from(self.packet.payload) - header)) as u32;
        stream.frames.capture(now, bytes, packets);
        let headers = u64::from(packets * header);
        self.cc.on_encoded(bytes + headers, stream.frames.waiting_bytes() + headers);
    }

    /// Starts the next probe that the controller asks for.
    fn look_for_probe(&mut self, now: Time) {
        if self.probe.is_none() && now < self.stop {
            let cluster = self.cc.probe_cluster(now);
            self.probe = cluster.map(|cluster| Probing { cluster, packets: 0, bytes: 0 });
        }
    }

    /// A probe does not wait for what media have left before their time.
    fn begin_probe(&mut self, now: Time) {
        let is_new = self.probe.is_none();
        self.look_for_probe(now);
        if is_new && self.probe.is_some() {
            self.paced_until = self.paced_until.min(now);
        }
    }

    /// Sends what is due and what the window allows; with `unblocks`, one packet more.
    fn send(&mut self, now: Time, stream: &mut Stream, out: &mut Outbox, mut unblocks: bool) {
        let (window, burst) = (self.cc.window(), self.cc.burst());
        let ns_per_byte = 8e9 / self.cc.pacing_bps();
        // Time that has passed while nothing waited is not made up for.
        let is_early = self.cc.bursts_early();
        let sleeps = self.cc.sleeps();
        let (early, late) = match sleeps {
            Some(_) => (Span::ZERO, Span::ZERO),
            None if is_early => (burst, Span::ZERO),
            None => (Span::ZERO, burst),
        };
        // What waits leaves once the burst before it has had its time, and not with the next report (libwebrtc's pacer).
        let early = if self.is_held && self.paced_until > now { Span::ZERO } else { early };
        self.is_held = false;
        self.paced_until = self.paced_until.max(now.saturating_sub(late));
        self.due = Time::NEVER;
        let is_even = self.cc.splits_evenly();
        let mut is_blocked = false;
        let header = self.cc.header();
        let full = u64::from(u32::from(self.packet.payload) - header);
        loop {
            let waiting = stream.waiting(now);
            if waiting.is_none() && self.probe.is_none() {
                self.due = stream.repairs.as_ref().map_or(Time::NEVER, Repairs::parity_due);
                break;
            }
            if let Some(sleeps) = sleeps.filter(|_| self.unslept > burst) {
                let unslept = std::mem::take(&mut self.unslept);
                let due = if unslept.0 * 10 > burst.0 * 11 { unslept } else { burst };
                self.paced_until = now + (due - sleeps.less) + sleeps.late;
            }
            // Packets of a probe keep their distance.
            let (early, late) =
                if self.probe.is_some() { (Span::ZERO, Span::ZERO) } else { (early, late) };
            if self.paced_until > now + early {
                self.due = self.paced_until.max(now + late);
                self.is_held = true;
                break;
            }
            let media = match waiting {
                Some(Waiting::Frame(_, left)) if is_even => {
                    left.div_ceil(left.div_ceil(full).max(1))
                }
                Some(Waiting::Frame(_, left)) => left.min(full),
                Some(Waiting::Repair(_)) | None => full,
            };
            let size = match waiting {
                Some(Waiting::Repair(waiting)) => waiting.size(),
                Some(Waiting::Frame(..)) | None => media as u32 + header,
            };
            let in_flight = stream.history.in_flight();
            if in_flight + u64::from(size) > window && in_flight > 0 && !unblocks {
                is_blocked = true;
                break;
            }
            unblocks = false;
            let Some(p) = self.packet(now, stream, waiting, media, size) else { break };
            let cluster = self.probe.as_ref().map_or(0, |probe| probe.cluster.number);
            stream.history.on_sent(now, size, p.ecn.get(), cluster);
            out.push(p);
            let ns_per_byte = match &self.probe {
                Some(probe) => 8e9 / probe.cluster.bps,
                None => ns_per_byte,
            };
            match sleeps {
                Some(sleeps) => self.unslept += sleeps.each,
                None => self.paced_until += Span((f64::from(size) * ns_per_byte) as u64),
            }
            self.count_probe(now, size);
        }
        self.blocked_since = is_blocked.then(|| self.blocked_since.unwrap_or(now));
        if let Some(since) = self.blocked_since {
            self.due = since + self.silence();
        }
    }

    /// The next packet: `size` of RTP, of which `media` are those of a frame. None: what waited for repair does not any more.
    fn packet(
        &mut self,
        now: Time,
        stream: &mut Stream,
        waiting: Option<Waiting>,
        media: u64,
        size: u32,
    ) -> Option<Packet> {
        let mut p = self.packet;
        p.payload = size as u16;
        p.frame_len = (size + BELOW_RTP) as u16;
        p.seq = stream.history.next();
        p.stamp = now;
        match waiting {
            Some(Waiting::Frame(frame, left)) => {
                p.bits = if media == left { TcpBits::PSH } else { p.bits };
                p.ecn_bytes = self.tell(now, stream, (frame, size), media == left);
                stream.frames.on_sent(now, media, p.seq);
            }
            Some(Waiting::Repair(waiting)) => {
                let (number, frame) = stream.repairs.as_mut()?.on_sent(now, waiting);
                p.ecn_bytes = EcnBytes { ect0: frame, ect1: number, ce: 0 };
                if let repair::Waiting::Parity { .. } = waiting {
                    p.window = IS_PARITY;
                }
            }
            None => p.window = IS_PADDING,
        }
        Some(p)
    }

    /// What travels where an AccECN option has counters: the number of the frame, and that of the packet for repairs.
    /// `(frame, size)` of the packet, and whether it is the last of the frame.
    fn tell(
        &self,
        now: Time,
        stream: &mut Stream,
        (frame, size): (u32, u32),
        is_last: bool,
    ) -> EcnBytes {
        let number = stream.repairs.as_mut().map_or(0, |repairs| {
            let number = repairs.on_media(now, size, frame);
            if is_last {
                repairs.on_frame(now, self.cc.target_bps(), self.interval, self.srtt);
            }
            number
        });
        EcnBytes { ect0: frame, ect1: number, ce: 0 }
    }

    /// A packet has left, within the probe at hand if there is one.
    fn count_probe(&mut self, now: Time, size: u32) {
        let Some(probe) = &mut self.probe else { return };
        probe.packets += 1;
        probe.bytes += u64::from(size);
        if probe.packets >= probe.cluster.packets && probe.bytes >= probe.cluster.bytes {
            self.probe = None;
            self.look_for_probe(now);
        }
    }

    fn send_audio(&mut self, now: Time, out: &mut Outbox) {
        let Some(audio) = &mut self.audio else { return };
        if now >= self.stop {
            audio.next = Time::NEVER;
            return;
        }
        audio.packet.stamp = now;
        out.push(audio.packet);
        audio.packet.seq = audio.packet.seq.wrapping_add(1);
        audio.next = now + AUDIO;
    }
}

struct Sending<'a>(&'a mut Sender, &'a mut Stream);

impl End for Sending<'_> {
    #[inline]
    fn deadline(&self) -> Time {
        self.0.due.min(self.0.next_frame).min(self.0.next_audio())
    }
    fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        let Sending(sender, stream) = self;
        if sender.next_audio() <= now {
            sender.send_audio(now, out);
            return;
        }
        if sender.next_frame <= now {
            sender.capture(now, stream);
            sender.begin_probe(now);
        } else if sender.blocked_since.is_some_and(|since| since + sender.silence() <= now) {
            sender.blocked_since = None;
            sender.send(now, stream, out, true);
            return;
        }
        sender.send(now, stream, out, false);
    }
    /// A report, or what asks for packets again.
    fn on_packet(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        let Sending(sender, stream) = self;
        if pkt.window == IS_ASKING {
            if let Some(repairs) = &mut stream.repairs {
                repairs.on_asked(now, pkt, sender.cc.target_bps(), sender.srtt);
            }
            sender.send(now, stream, out, false);
            return;
        }
        if let Some(report) = stream.history.on_report(now, pkt, sender.srtt) {
            // RFC 6298, gain 1/8.
            let rtt = report.rtt;
            sender.srtt = match sender.srtt {
                Span::ZERO => rtt,
                srtt => Span((srtt.0 * 7 + rtt.0) / 8),
            };
            if let Some(repairs) = &mut stream.repairs {
                repairs.on_report(now, report.packets);
            }
            sender.cc.on_report(&report);
            sender.blocked_since = None;
            sender.begin_probe(now);
        }
        if stream.history.is_bleached() {
            sender.packet.ecn = Ecn::NotEct.into();
        }
        sender.send(now, stream, out, false);
    }
}

struct Receiving<'a>(&'a mut Receiver, &'a mut Stream);

impl End for Receiving<'_> {
    fn deadline(&self) -> Time {
        let again = self.1.repairs.as_ref().map_or(Time::NEVER, Repairs::deadline);
        self.0.reporter.deadline().min(again)
    }
    fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        let Receiving(receiver, stream) = self;
        if receiver.reporter.deadline() <= now {
            out.push(receiver.reporter.report(now));
        } else if let Some(asking) = stream.repairs.as_mut().and_then(|repairs| repairs.ask(now)) {
            receiver.reporter.count(now, &asking);
            out.push(asking);
        }
    }
    fn on_packet(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        let Receiving(receiver, stream) = self;
        if pkt.window == IS_AUDIO {
            receiver.received_bytes += u64::from(pkt.payload);
            return;
        }
        if !receiver.copies.is_new(pkt) {
            return;
        }
        let is_newer = receiver.newest.is_none_or(|n| (pkt.seq.wrapping_sub(n) as i32) > 0);
        receiver.newest = if is_newer { Some(pkt.seq) } else { receiver.newest };
        if pkt.window != IS_PADDING {
            receiver.received_bytes += u64::from(pkt.payload);
            match &mut stream.repairs {
                None => stream.frames.on_packet(now, pkt.ecn_bytes.ect0, receiver.newest),
                Some(repairs) => {
                    let asking = repairs.on_packet(now, pkt, &mut stream.frames, receiver.newest);
                    if let Some(asking) = asking {
                        receiver.reporter.count(now, &asking);
                        out.push(asking);
                    }
                }
            }
        }
        stream.history.on_arrival(now, pkt);
        if let Some(report) = receiver.reporter.on_packet(now, pkt.seq, pkt.bits.has(TcpBits::PSH))
        {
            out.push(report);
        }
    }
}

impl Flow for Media {
    fn run_sender(&mut self, arrivals: &mut ArrivalList, until: Time, out: &mut Outbox) -> Time {
        let mut end = Sending(&mut self.sender, &mut self.stream);
        element::run(&mut end, arrivals, until, out)
    }
    fn run_receiver(&mut self, arrivals: &mut ArrivalChain, until: Time, out: &mut Outbox) -> Time {
        element::run(&mut Receiving(&mut self.receiver, &mut self.stream), arrivals, until, out)
    }
    fn starts(&self) -> (Time, Time) {
        (self.sender.next_frame, Time::NEVER)
    }
    fn stop(&mut self, now: Time) {
        self.sender.stop = now;
    }
    fn pause(&mut self, now: Time, is_paused: bool) {
        let is_on = self.sender.next_frame < Time::NEVER;
        if is_paused && is_on {
            (self.sender.next_frame, self.sender.probe) = (Time::NEVER, None);
            self.stream.frames.pause(now);
        } else if !is_paused && !is_on && now < self.sender.stop {
            self.sender.next_frame = now;
            self.stream.frames.resume(now);
        }
    }
    fn set_rate(&mut self, _now: Time, bps: u64) {
        self.sender.cc.set_max(bps as f64);
    }
    fn totals(&self) -> Totals {
        let repairs = self.stream.repairs.as_ref();
        Totals {
            received_bytes: self.receiver.received_bytes,
            retransmitted: repairs.map_or(0, Repairs::repeated),
        }
    }
    fn senders(&self, each: &mut dyn FnMut(SenderState)) {
        let Sender { cc, srtt, packet, .. } = &self.sender;
        if self.sender.next_frame == Time::NEVER || *srtt == Span::ZERO {
            return;
        }
        let window = match cc.window() {
            u64::MAX => self.stream.history.in_flight(),
            window => window,
        };
        each(SenderState {
            cwnd: (window / u64::from(packet.payload)) as u32,
            srtt: *srtt,
            state: None,
            controller: Some(&|out| {
                out.gauge("target_mbps", cc.target_bps() * 1e-6);
                let last = self.sender.next_frame.saturating_sub(self.sender.interval);
                let since = self.stream.frames.waiting_since();
                let age = since.map_or(Span::ZERO, |since| last.since(since));
                out.gauge("media_queue_ms", age.as_millis_f64());
                cc.probe(out);
            }),
        });
    }
    fn take_transfers(&mut self, into: &mut Vec<Transfer>) {
        self.stream.frames.take_done(into);
    }
    fn experience(&self, now: Time) -> Option<Experience> {
        let mut all = self.stream.frames.experience(now, self.sender.stop, self.receiver.newest);
        all.feedback_bytes = self.receiver.reporter.reported_bytes;
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key frame of 65 kB waits in the pacer of `gcc`, and a frame is captured every 33 ms meanwhile: all leaves in bursts of
    /// what 40 ms of the pacing rate (1.1 Mb/s) allow, and a packet more.
    #[test]
    fn what_waits_in_the_pacer_leaves_in_whole_bursts() {
        let keys = serde_json::json!({
            "cc": "gcc", "options": {"probing": "off"}, "encoder": "even", "repair": "none", "interval_ns": 33_333_333,
            "rate_bps": 1_000_000, "rate_min_bps": 1_000_000, "rate_start_bps": 1_000_000, "setup_ns": 0,
            "keyframe_interval_ns": 4_000_000_000_u64, "keyframe_ratio": 20.0,
        });
        let spec: Spec = serde_json::from_value(keys).expect("a media flow");
        let mut flow = spec.build(&Place::first());
        let mut out = Outbox::default();
        flow.run_sender(&mut ArrivalList::new(&[], 0), Time(400_000_000), &mut out);
        let mut bursts: Vec<(Time, u64)> = Vec::new();
        for pkt in &out.packets {
            match bursts.last_mut().filter(|(left, _)| *left == pkt.stamp) {
                Some((_, bytes)) => *bytes += u64::from(pkt.payload),
                None => bursts.push((pkt.stamp, pkt.payload.into())),
            }
        }
        let allowed = 1.1e6 / 8.0 * 0.04;
        assert_eq!(bursts.len(), 10, "{bursts:?}");
        for (left, bytes) in bursts {
            assert!((allowed..allowed + 1222.0).contains(&(bytes as f64)), "{bytes} B at {left:?}");
        }
    }
}
