//! Traffic of flows: one file for each kind, with its description, its elements and its algorithm.

pub mod cbr;
mod connections;
pub mod endpoint;
pub mod events;
pub mod media;
pub mod page;
pub mod poisson;
pub mod responsiveness;
pub mod tcp;
pub mod udp_prague;
pub mod video;
pub mod web;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::element::Flow;
use crate::error::ScenarioError;
use crate::packet::{FlowId, GroupId};
use crate::params::Gauge;
use crate::time::{Span, Time};
use crate::units::MTU_FRAME;

/// A flow's place in the run.
#[derive(Copy, Clone, Debug)]
pub struct Place<'a> {
    pub seed: u64,
    /// The group's name, its number, and which of its flows this is.
    pub name: &'a str,
    pub group: GroupId,
    pub index: u64,
    /// The flow's number in the run.
    pub number: FlowId,
    /// Connections that a source opens have its number plus multiples of this.
    pub stride: u32,
    /// Nothing new is sent before `start`, or from `stop` on.
    pub start: Time,
    pub stop: Time,
    /// When the warm-up is over.
    pub measured_from: Time,
    /// The round trip without queues.
    pub rtt: Span,
    pub dscp: u8,
    /// Its first link is in the host that sends.
    pub on_host: bool,
}

#[cfg(test)]
impl Place<'_> {
    /// The first flow of a run.
    pub fn first() -> Place<'static> {
        Place {
            seed: 1,
            name: "f",
            group: GroupId::default(),
            index: 0,
            number: 0,
            stride: 1,
            start: Time::ZERO,
            stop: Time::NEVER,
            measured_from: Time::ZERO,
            rtt: Span::ZERO,
            dscp: 0,
            on_host: false,
        }
    }
}

/// The description of one kind of traffic.
pub trait Traffic: std::fmt::Debug + Send + Sync {
    /// # Errors
    /// Its mistake in one sentence.
    fn check(&self) -> Result<(), ScenarioError> {
        Ok(())
    }
    /// The name of its senders in the results: the congestion control, or else the kind.
    fn sender_name(&self) -> &str;
    /// The protocol of its packets, if they can be captured.
    fn wire(&self) -> Option<WireKind> {
        None
    }
    /// Its sending depends on feedback.
    fn is_answered(&self) -> bool {
        true
    }
    /// It opens many connections, spread over time.
    fn is_spread(&self) -> bool {
        false
    }
    /// It takes what the path gives as long as it lasts, and answers congestion.
    fn is_bulk(&self) -> bool {
        false
    }
    /// Its packets may hold several segments.
    fn joins_segments(&self) -> bool {
        false
    }
    /// It has a rate that can change while it runs.
    fn has_rate(&self) -> bool {
        false
    }
    /// Whether it can pause and resume.
    fn pauses(&self) -> bool {
        false
    }
    /// Its ends, if they are outside of the simulator.
    fn outside(&self) -> Option<Ends> {
        None
    }
    /// The states of its congestion control, if that has any.
    fn states(&self) -> &'static [&'static str] {
        &[]
    }
    /// The columns of the time series that it adds.
    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }
    /// What each of its flows may send, from which the memory of a run is estimated.
    fn demand(&self) -> Demand {
        Demand::GREEDY
    }
    fn build(&self, place: &Place) -> Box<dyn Flow>;
}

/// Ends that are outside: what a frame has besides the bytes that an end hands over, and the most of those, in bytes.
#[derive(Copy, Clone, Debug)]
pub struct Ends {
    pub header: u32,
    pub most: u32,
}

/// What a flow may send at most.
#[derive(Copy, Clone, Debug)]
pub struct Demand {
    /// The Ethernet frames of its largest packets.
    pub frame: u32,
    /// Frame bits per second; without, it takes what its path gives.
    pub rate_bps: Option<f64>,
    /// Bytes that it has outstanding, and that it sends in all.
    pub window_bytes: Option<u64>,
    pub bytes: Option<u64>,
    /// Packets that come to a link together.
    pub burst: f64,
    /// It keeps what it has sent until that is acknowledged.
    pub is_answered: bool,
    /// Memory of its two ends, bytes.
    pub state: f64,
    /// The transfers that it begins.
    pub begins: Option<Begins>,
}

/// Transfers that a flow begins: the mean time between two, their mean payload (infinite: others say how much it sends),
/// and the memory of one that is over and of one that is under way. All in bytes.
#[derive(Copy, Clone, Debug)]
pub struct Begins {
    pub interval_ns: u64,
    pub payload: f64,
    pub finished: f64,
    pub open: f64,
}

impl Begins {
    /// What is kept of each is the same, whether it is over or not.
    fn alike(interval_ns: u64, payload: f64, kept: f64) -> Option<Begins> {
        Some(Begins { interval_ns, payload, finished: kept, open: kept })
    }
}

impl Demand {
    /// A TCP connection that takes what it gets; its state is measured.
    pub const GREEDY: Demand = Demand {
        frame: MTU_FRAME,
        rate_bps: None,
        window_bytes: None,
        bytes: None,
        burst: 10.0,
        is_answered: true,
        state: 4000.0,
        begins: None,
    };
    /// The frame bits per second of so much payload in packets of this frame.
    fn framed(payload_bps: u64, frame: u32, headers: u32) -> f64 {
        payload_bps as f64 * f64::from(frame) / f64::from(frame.saturating_sub(headers).max(1))
    }
}

/// Gives what has no effect in the description of a flow one value, so that two flows whose descriptions become the same
/// send the same.
pub fn normalise(keys: &mut Map<String, Value>) {
    if keys.get("kind").and_then(Value::as_str).is_none_or(|kind| kind == "tcp") {
        tcp::normalise(keys);
    }
}

/// How packets of a flow look on the wire.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum WireKind {
    Tcp,
    Udp,
}

/// Reads the description of the traffic of this `kind`.
///
/// # Errors
/// Its mistake in one sentence.
pub fn read(kind: &str, keys: Map<String, Value>) -> Result<Box<dyn Traffic>, ScenarioError> {
    fn spec<T>(keys: Value) -> Result<Box<dyn Traffic>, ScenarioError>
    where
        T: Traffic + DeserializeOwned + 'static,
    {
        let spec: T = serde_json::from_value(keys).map_err(|e| ScenarioError(e.to_string()))?;
        spec.check()?;
        Ok(Box::new(spec))
    }
    let keys = Value::Object(keys);
    match kind {
        "tcp" => spec::<tcp::Spec>(keys),
        "cbr" => spec::<cbr::Spec>(keys),
        "endpoint" => spec::<endpoint::Spec>(keys),
        "media" => spec::<media::Spec>(keys),
        "udp-prague" => spec::<udp_prague::Spec>(keys),
        "page" => spec::<page::Spec>(keys),
        "responsiveness" => spec::<responsiveness::Spec>(keys),
        "web" => spec::<web::Spec>(keys),
        "video" => spec::<video::Spec>(keys),
        _ => Err(ScenarioError(format!("there is no traffic of kind \"{kind}\""))),
    }
}
