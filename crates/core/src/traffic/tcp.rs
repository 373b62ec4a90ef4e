//! TCP in bulk, endless or of a size, or with an application that limits its rate.

mod offloading;
mod own_host;
mod writer;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::offloading::{Offload, Offloading};
use self::writer::{Writer, Writes};
use super::{Demand, Place, Traffic, WireKind};
use crate::cc::registry::{self as controllers, ControllerConfig};
use crate::cc::{EcnWish, INITIAL_WINDOW};
use crate::ecn::{Ecn, EcnSupport};
use crate::element::{self, ArrivalChain, ArrivalList, End, Flow, Outbox, PathState};
use crate::error::ScenarioError;
use crate::own;
use crate::packet::{FlowId, TCP_IP_HEADERS};
use crate::params::{Gauge, gauge};
use crate::prefetch;
use crate::probe::{Idle, SenderState, Totals, Transfer, TransferKind};
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::transport::options::Options;
use crate::transport::receiver::{Echo, Fields, Receiver};
use crate::transport::rtt::RTO_MIN;
use crate::transport::sender::{Sender, SenderConfig, Switches};
use crate::units::{ETHERNET_HEADER, MTU_FRAME};

/// What the hosts of a connection are like.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Keys")]
pub struct Hosts {
    cc: String,
    controller: ControllerConfig,
    /// What the sender asks for, and what the receiver supports; by default what the controller wants.
    ecn: Option<EcnSupport>,
    peer_ecn: Option<EcnSupport>,
    /// Cap on the sending rate, frame bits per second.
    pace_bps: Option<u64>,
    /// What the receiver lets be outstanding.
    receive_window_bytes: Option<u64>,
    /// The largest IP packet of both ends.
    mtu_bytes: u32,
    rto_min: Span,
    rules: Options,
}

/// What the sender tells beside a controller's state; the same columns as in a stack's qlog.
const BESIDE_STATES: &[Gauge] = &[
    gauge("inflight_bytes", "bytes", "payload in flight"),
    gauge("pacing_mbps", "Mbit/s", "pacing rate, of payload"),
    gauge("app_limited", "", "1 if the delivery rate is limited by the application"),
];

/// What a frame has besides its payload.
pub(super) const FRAME_HEADERS: u32 = ETHERNET_HEADER + TCP_IP_HEADERS;
/// Of Ethernet.
const MTU: u32 = MTU_FRAME - ETHERNET_HEADER;
/// From the least that every link takes (RFC 791) to jumbo frames.
const MTU_RANGE: std::ops::RangeInclusive<u32> = 68..=9000;

/// The same as it is written.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Keys {
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    cc: Option<String>,
    #[serde(default)]
    options: BTreeMap<String, String>,
    ecn: Option<EcnSupport>,
    peer_ecn: Option<EcnSupport>,
    pace_bps: Option<u64>,
    receive_window_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtu_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rto_min_ns: Option<u64>,
    /// Rules of TCP that are not Linux's.
    #[serde(default)]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    transport: BTreeMap<String, String>,
}

impl TryFrom<Keys> for Hosts {
    type Error = ScenarioError;
    fn try_from(keys: Keys) -> Result<Hosts, ScenarioError> {
        let cc = keys.cc.unwrap_or_else(|| "cubic".to_owned());
        let given: Vec<_> = keys.options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let rules: Vec<_> = keys.transport.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let mtu_bytes = keys.mtu_bytes.unwrap_or(MTU);
        if !MTU_RANGE.contains(&mtu_bytes) {
            let (least, most) = (MTU_RANGE.start(), MTU_RANGE.end());
            return Err(ScenarioError(format!("mtu must be from {least} to {most} bytes")));
        }
        Ok(Hosts {
            controller: controllers::parse(&cc, &given)
                .map_err(|e| ScenarioError(e.to_string()))?,
            cc: own::written(&cc).to_owned(),
            ecn: keys.ecn,
            peer_ecn: keys.peer_ecn,
            pace_bps: keys.pace_bps,
            receive_window_bytes: keys.receive_window_bytes,
            mtu_bytes,
            rto_min: keys.rto_min_ns.map_or(RTO_MIN, Span),
            rules: Options::read(&rules).map_err(|e| ScenarioError(e.to_string()))?,
        })
    }
}

impl Hosts {
    pub fn cc(&self) -> &str {
        &self.cc
    }
    pub fn gauges(&self) -> Vec<Gauge> {
        let of_states = if self.states().is_empty() { &[][..] } else { BESIDE_STATES };
        [&self.controller.gauges()[..], of_states].concat()
    }
    /// The states of the controller, if it has any.
    pub fn states(&self) -> &'static [&'static str] {
        self.controller.states()
    }

    /// What a connection may send that has this much to send in all, or always something.
    pub fn demand(&self, bytes: Option<u64>) -> Demand {
        Demand {
            frame: self.mtu_bytes + ETHERNET_HEADER,
            rate_bps: self.pace_bps.map(|bps| bps as f64),
            window_bytes: self.receive_window_bytes,
            bytes,
            ..Demand::GREEDY
        }
    }
    /// The largest IP packet.
    pub fn mtu(&self) -> u32 {
        self.mtu_bytes
    }
    /// The codepoints of a handshake and of data, if both hosts agree.
    pub fn codepoints(&self, rng: Rng) -> (Ecn, Ecn) {
        let wish = self.controller.build(rng).constants().ecn;
        let support = self.ecn.unwrap_or_else(|| wish.support());
        match (support, wish) {
            _ if self.peer_ecn.unwrap_or(support) != support => (Ecn::NotEct, Ecn::NotEct),
            (EcnSupport::Off, _) => (Ecn::NotEct, Ecn::NotEct),
            (EcnSupport::AccEcn, EcnWish::Ect1AccEcn) => (wish.handshake_field(), Ecn::Ect1),
            _ => (wish.handshake_field(), Ecn::Ect0),
        }
    }

    /// The two ends of the connection with this `number`, for a transfer of so many bytes or what an
    /// application writes.
    pub fn connect(
        &self,
        place: &Place,
        number: FlowId,
        bytes: Option<u64>,
        stream: bool,
    ) -> (Sender, Receiver) {
        let rng = Rng::stream(place.seed, "controller", u64::from(number));
        let cc = self.controller.build(rng);
        let wish = cc.constants().ecn;
        let support = self.ecn.unwrap_or_else(|| wish.support());
        let peer = self.peer_ecn.unwrap_or(support);
        // ACKs of an AccECN connection carry the codepoint of its data.
        let ack_codepoint = match (support, wish) {
            (EcnSupport::AccEcn, EcnWish::Ect1AccEcn) => Ecn::Ect1,
            _ => Ecn::Ect0,
        };
        // Only a peer with the same controller echoes runs. One with another setting is an ordinary host,
        // and the handshake does not tell the sender.
        let echo = match wish {
            EcnWish::Ect0Runs if peer == support => Echo::Runs,
            _ => Echo::UntilCwr,
        };
        let config = SenderConfig {
            flow: number,
            group: place.group,
            ecn: support,
            pace_bps: self.pace_bps,
            bytes,
            receive_window: self.receive_window_bytes,
            stream,
            dscp: place.dscp,
            mtu: self.mtu_bytes,
            rto_min: self.rto_min,
            rules: self.rules,
            stop: place.stop,
            switches: Switches::default(),
        };
        let handshake = if peer == support { wish.handshake_field() } else { Ecn::NotEct };
        let mut receiver = Receiver::new(
            number,
            place.group,
            peer,
            Fields { acks: ack_codepoint, handshake },
            echo,
        );
        receiver.ack_every(self.rules.ack_every);
        (Sender::new(config, cc), receiver)
    }
}

/// Gives keys without effect one value. Without AccECN some controllers give way to another one that sends Not-ECT: then
/// their options do not matter, nor whether the peer has classic ECN.
pub(super) fn normalise(keys: &mut Map<String, Value>) {
    let text = |key| keys.get(key).and_then(Value::as_str);
    let is_refused = matches!(text("peer_ecn"), Some("off" | "classic"))
        && matches!(text("ecn"), None | Some("accecn"));
    if is_refused && text("cc").is_some_and(controllers::gives_way) {
        keys.insert("options".to_owned(), json!({}));
        keys.insert("peer_ecn".to_owned(), json!("off"));
    }
}

/// A flow in bulk.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spec {
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(with = "Keys"))]
    hosts: Hosts,
    /// Size of the transfer; endless by default.
    bytes: Option<u64>,
    /// The application writes no more than that; by default it always has data.
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Option::is_none"))]
    rate_bps: Option<u64>,
    /// It writes so many bytes at once.
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Option::is_none"))]
    block_bytes: Option<u64>,
    #[serde(flatten)]
    offload: Offload,
}

impl Traffic for Spec {
    fn check(&self) -> Result<(), ScenarioError> {
        match (self.rate_bps, self.bytes) {
            (Some(0), _) => Err(ScenarioError("rate must be above 0".to_owned())),
            (Some(_), Some(_)) => Err(ScenarioError("it has bytes or a rate".to_owned())),
            (None, _) if self.block_bytes.is_some() => {
                Err(ScenarioError("blocks need a rate".to_owned()))
            }
            _ => Ok(()),
        }
    }
    fn has_rate(&self) -> bool {
        self.rate_bps.is_some()
    }
    fn pauses(&self) -> bool {
        self.rate_bps.is_some()
    }
    fn states(&self) -> &'static [&'static str] {
        self.hosts.states()
    }
    fn sender_name(&self) -> &str {
        self.hosts.cc()
    }
    fn wire(&self) -> Option<WireKind> {
        Some(WireKind::Tcp)
    }
    fn gauges(&self) -> Vec<Gauge> {
        self.hosts.gauges()
    }
    fn is_bulk(&self) -> bool {
        self.bytes.is_none() && self.rate_bps.is_none()
    }
    fn joins_segments(&self) -> bool {
        self.offload.gso
    }
    fn demand(&self) -> Demand {
        let demand = self.hosts.demand(self.bytes);
        let written = self.rate_bps.map(|bps| Demand::framed(bps, demand.frame, FRAME_HEADERS));
        let least = |paced: f64| written.map_or(paced, |written| paced.min(written));
        Demand { rate_bps: demand.rate_bps.map(least).or(written), ..demand }
    }
    fn build(&self, place: &Place) -> Box<dyn Flow> {
        let stream = self.rate_bps.is_some();
        let (mut sender, receiver) = self.hosts.connect(place, place.number, self.bytes, stream);
        sender.start_at(place.start);
        let writer =
            self.rate_bps.map(|bps| Box::new(Writer::new(bps, self.block_bytes, place.stop)));
        let path = PathState::default();
        let tcp = Tcp { sender, receiver, writer, path, is_told: false };
        if self.offload == Offload::default() {
            return Box::new(tcp);
        }
        Box::new(Offloading::new(tcp, self.offload, place.on_host))
    }
}

/// A connection.
struct Tcp {
    sender: Sender,
    receiver: Receiver,
    /// The application, if it does not always have data.
    writer: Option<Box<Writer>>,
    path: PathState,
    /// Its transfer was handed over.
    is_told: bool,
}

impl Flow for Tcp {
    fn run_sender(&mut self, arrivals: &mut ArrivalList, until: Time, out: &mut Outbox) -> Time {
        match &mut self.writer {
            None => element::run(&mut self.sender, arrivals, until, out),
            Some(writer) => {
                element::run(&mut Writes(&mut self.sender, writer), arrivals, until, out)
            }
        }
    }
    fn run_receiver(&mut self, arrivals: &mut ArrivalChain, until: Time, out: &mut Outbox) -> Time {
        element::run(&mut self.receiver, arrivals, until, out)
    }
    fn fetch(&self, is_sender: bool) {
        match is_sender {
            true => self.sender.fetch(),
            false => prefetch::lines(&self.receiver),
        }
    }
    fn fetch_data(&self, is_sender: bool) {
        match is_sender {
            true => self.sender.fetch_data(),
            false => self.receiver.fetch_gaps(),
        }
    }
    fn starts(&self) -> (Time, Time) {
        (self.sender.deadline(), Time::NEVER)
    }
    fn set_path(&mut self, path: &PathState) {
        self.path = *path;
    }
    fn stop(&mut self, now: Time) {
        self.sender.stop_at(now);
        if let Some(writer) = &mut self.writer {
            writer.stop_at(now);
        }
    }
    fn set_rate(&mut self, now: Time, bps: u64) {
        if let Some(writer) = &mut self.writer {
            writer.set_rate(now, bps);
        }
    }
    fn pause(&mut self, now: Time, is_paused: bool) {
        if let Some(writer) = &mut self.writer {
            writer.pause(now, is_paused);
        }
    }
    fn totals(&self) -> Totals {
        totals(&self.sender, &self.receiver)
    }
    fn senders(&self, each: &mut dyn FnMut(SenderState)) {
        show(&self.sender, each);
    }
    fn ecn_mode(&self) -> Option<&'static str> {
        Some(mode(&self.sender, &self.receiver))
    }
    fn take_transfers(&mut self, into: &mut Vec<Transfer>) {
        if !self.is_told {
            let done = transfer(&self.sender, &self.receiver, &self.path);
            self.is_told = done.is_some();
            into.extend(done);
        }
    }
    fn unfinished(&self, _since: Time) -> u64 {
        u64::from(self.sender.bytes().is_some() && self.receiver.completed_at.is_none())
    }
}

/// What the ends of a connection have counted.
pub(super) fn totals(sender: &Sender, receiver: &Receiver) -> Totals {
    Totals { received_bytes: receiver.received_bytes, retransmitted: sender.retransmitted }
}

/// Shows a sender, with its controller, if it sends and knows its RTT. (After a lost SYN it knows none
/// until the first ACK of data.)
pub(super) fn show(sender: &Sender, each: &mut dyn FnMut(SenderState)) {
    if sender.is_active() && sender.srtt() > Span::ZERO {
        let state = sender.controller().state();
        each(SenderState {
            cwnd: sender.window().cwnd,
            srtt: sender.srtt(),
            state,
            controller: Some(&|out| {
                sender.controller().probe(out);
                if state.is_some() {
                    sender.probe(out);
                }
            }),
        });
    }
}

/// How ECN was negotiated.
pub(super) fn mode(sender: &Sender, receiver: &Receiver) -> &'static str {
    // SCE is not negotiated: it is there where both ends have it.
    let sce = sender.answers_sce() && receiver.echoes_sce();
    if sce { "sce" } else { sender.mode().name() }
}

/// A transfer over a path that nobody else uses; `asked`: by a client, whose request it answers.
pub fn idle(bytes: u64, path: &PathState, mtu: u32, asked: bool) -> Idle {
    let rtt = path.forward + path.back;
    let mss = mtu - TCP_IP_HEADERS;
    Idle {
        // The handshake, and of a client its request.
        before: if asked { path.back + rtt } else { rtt },
        after: path.forward,
        rtt,
        segments: bytes.div_ceil(u64::from(mss)),
        frame: u64::from(mtu + ETHERNET_HEADER),
        window: u64::from(INITIAL_WINDOW),
    }
}

/// What the receiver of a flow with an end got, or the client of a connection; `None`: not all of it.
pub(super) fn transfer(sender: &Sender, receiver: &Receiver, path: &PathState) -> Option<Transfer> {
    let (bytes, done) = (sender.bytes()?, receiver.completed_at?);
    let asked_at = receiver.asked_at();
    Some(Transfer {
        group: sender.group().number,
        kind: if asked_at.is_some() { TransferKind::Request } else { TransferKind::Flow },
        start: sender.started_at,
        bytes: Some(bytes),
        completion: done.since(sender.started_at),
        response: Some(done.since(asked_at.unwrap_or(sender.established_at))),
        idle: Some(idle(bytes, path, sender.mtu(), asked_at.is_some())),
        ideal: None,
        retransmits: Some(sender.retransmitted),
    })
}
