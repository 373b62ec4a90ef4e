//! What a run is for the core: a plain, fully resolved description, read from JSON.

use std::collections::BTreeMap;

use serde::Deserialize;
use thiserror::Error;

use crate::aqm::netem::NetemConfig;
use crate::aqm::registry::{self as qdiscs, QdiscConfig};
use crate::cc::registry::{self as controllers, ControllerConfig};
use crate::ecn::Ecn;
use crate::params::{Gauge, Refused};
use crate::traffic::udp_prague;
use crate::traffic::web::{self, BoundedPareto};
use crate::transport::ecn::EcnSupport;

const SMALLEST_UDP_PRAGUE: u32 = udp_prague::MIN_PACKET as u32 + udp_prague::OVERHEAD;

/// A run. Times are nanoseconds, rates bits per second, sizes bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub duration_ns: u64,
    #[serde(default)]
    pub warmup_ns: u64,
    pub seed: u64,
    #[serde(default = "default_sample")]
    pub sample_ns: u64,
    #[serde(default)]
    pub start_jitter_ns: u64,
    pub links: Vec<LinkSpec>,
    pub flows: Vec<FlowSpec>,
    #[serde(default)]
    pub at: Vec<Change>,
    #[serde(default)]
    pub rewrites: Vec<Rewrite>,
    #[serde(default)]
    pub impairs: Vec<ImpairSpec>,
}

fn default_sample() -> u64 {
    100_000_000
}
fn one() -> u32 {
    1
}
fn default_burst() -> u64 {
    crate::net::link::DEFAULT_BURST
}

/// A link: `qdisc` is a tc string.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    pub name: String,
    pub rate_bps: u64,
    pub qdisc: String,
    #[serde(default = "default_burst")]
    pub burst_bytes: u64,
}

/// What a flow group is.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    #[default]
    Tcp,
    Cbr,
    #[serde(rename = "udp-prague")]
    UdpPrague,
    /// Requests, each over a TCP connection of its own.
    Web,
    /// Frames over one TCP connection.
    Video,
}

impl Kind {
    /// As the experiment file has it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Tcp => "tcp",
            Kind::Cbr => "cbr",
            Kind::UdpPrague => "udp-prague",
            Kind::Web => "web",
            Kind::Video => "video",
        }
    }
    /// Its flows are TCP connections that are there from the start.
    pub fn is_tcp_flow(self) -> bool {
        matches!(self, Kind::Tcp | Kind::Video)
    }
    /// Its flows are not TCP.
    pub fn is_source(self) -> bool {
        matches!(self, Kind::Cbr | Kind::UdpPrague)
    }
}

/// `ecn` of a flow: what a TCP host asks for, or the codepoint of a CBR source.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(untagged)]
pub enum EcnSetting {
    Support(EcnSupport),
    Codepoint(Ecn),
}

/// A flow group.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    pub name: String,
    #[serde(default)]
    pub kind: Kind,
    #[serde(default)]
    pub cc: Option<String>,
    #[serde(default = "one")]
    pub count: u32,
    pub rtt_ns: u64,
    #[serde(default)]
    pub dscp: u8,
    #[serde(default)]
    pub start_ns: u64,
    #[serde(default)]
    pub stop_ns: Option<u64>,
    #[serde(default)]
    pub bytes: Option<u64>,
    #[serde(default)]
    pub ecn: Option<EcnSetting>,
    #[serde(default)]
    pub peer_ecn: Option<EcnSupport>,
    pub path: Vec<String>,
    #[serde(default)]
    pub reverse_path: Vec<String>,
    #[serde(default)]
    pub pace_bps: Option<u64>,
    #[serde(default)]
    pub receive_window_bytes: Option<u64>,
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    #[serde(default)]
    pub rate_bps: Option<u64>,
    #[serde(default)]
    pub packet_bytes: Option<u32>,
    #[serde(default)]
    pub batch: Option<u32>,
    /// Web: mean time between requests. Video: time between frames.
    #[serde(default)]
    pub interval_ns: Option<u64>,
    /// Sizes of a web source.
    #[serde(default)]
    pub size_alpha: Option<f64>,
    #[serde(default)]
    pub size_min_bytes: Option<u64>,
    #[serde(default)]
    pub size_max_bytes: Option<u64>,
    /// Of a video's frames: standard deviation of their sizes over the mean.
    #[serde(default)]
    pub spread: Option<f64>,
    /// Mean time between a viewer's messages; none by default.
    #[serde(default)]
    pub control_interval_ns: Option<u64>,
    /// What `cc` and `options` say; `None` for what has no TCP.
    #[serde(skip)]
    pub controller: Option<ControllerConfig>,
}

impl FlowSpec {
    fn resolve(&mut self) -> Result<(), Refused> {
        if matches!(self.kind, Kind::Tcp | Kind::Web | Kind::Video) {
            let given: Vec<_> =
                self.options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            self.controller =
                Some(controllers::parse(self.cc.as_deref().unwrap_or("cubic"), &given)?);
        }
        Ok(())
    }

    /// Sizes of a web source.
    pub fn sizes(&self) -> BoundedPareto {
        BoundedPareto {
            alpha: self.size_alpha.unwrap_or(web::ALPHA),
            smallest: self.size_min_bytes.unwrap_or(web::SMALLEST),
            largest: self.size_max_bytes.unwrap_or(web::LARGEST),
        }
    }
}

/// A change of a link while it runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    pub time_ns: u64,
    pub link: String,
    #[serde(default)]
    pub rate_bps: Option<u64>,
    #[serde(default)]
    pub qdisc: Option<String>,
}

/// Which side of a link.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Before,
    After,
}

/// Rewriting of the ECN field of a flow's data packets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rewrite {
    pub flow: String,
    #[serde(rename = "where")]
    pub side: Side,
    pub link: String,
    pub from: Ecn,
    pub to: Ecn,
}

/// netem before a link: for the data packets that cross it (forward), for the ACKs of flows that cross
/// it (reverse), or for both, each with a netem of its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImpairSpec {
    pub name: String,
    /// In `tc`'s words, without "netem" itself.
    pub netem: String,
    pub before: String,
    #[serde(default)]
    pub direction: Direction,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    #[default]
    Forward,
    Reverse,
    Both,
}

/// What is wrong with a run, in one sentence.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct ScenarioError(pub String);

fn wrong<T>(sentence: impl Into<String>) -> Result<T, ScenarioError> {
    Err(ScenarioError(sentence.into()))
}

impl Run {
    /// Reads and checks a run.
    ///
    /// # Errors
    /// One sentence that names the part and the fix.
    pub fn from_json(text: &str) -> Result<Run, ScenarioError> {
        let mut run: Run = serde_json::from_str(text)
            .map_err(|e| ScenarioError(format!("the run's description is not valid: {e}")))?;
        for f in &mut run.flows {
            f.resolve().map_err(|e| ScenarioError(format!("flow \"{}\": {e}", f.name)))?;
        }
        run.check()?;
        Ok(run)
    }

    /// The columns of the time series that its queues and controllers add.
    pub fn gauges(&self) -> Result<Vec<Gauge>, ScenarioError> {
        let mut all = Vec::new();
        let later = self.at.iter().filter_map(|change| change.qdisc.as_ref());
        for qdisc in self.links.iter().map(|link| &link.qdisc).chain(later) {
            all.extend(parse_qdisc(qdisc)?.gauges());
        }
        for flow in &self.flows {
            match (flow.kind, &flow.controller) {
                (Kind::UdpPrague, _) => all.extend(udp_prague::GAUGES),
                // Connections that come and go are not looked into.
                (Kind::Web, _) | (_, None) => {}
                (_, Some(controller)) => all.extend(controller.gauges()),
            }
        }
        Ok(all)
    }

    /// Finds a link by name.
    pub fn link(&self, name: &str) -> Result<usize, ScenarioError> {
        match self.links.iter().position(|l| l.name == name) {
            Some(i) => Ok(i),
            None => wrong(format!("there is no link \"{name}\"")),
        }
    }

    fn check(&self) -> Result<(), ScenarioError> {
        if self.duration_ns == 0 || self.warmup_ns >= self.duration_ns {
            return wrong("duration must be longer than warmup, and not 0");
        }
        if self.sample_ns == 0 {
            return wrong("sample must be longer than 0");
        }
        if self.links.len() > 1000 || self.flows.len() > 60_000 {
            return wrong("at most 1000 links and 60 000 flow groups are supported");
        }
        for l in &self.links {
            if l.rate_bps == 0 {
                return wrong(format!("link \"{}\": rate must be above 0", l.name));
            }
            parse_qdisc(&l.qdisc)?;
        }
        for f in &self.flows {
            self.check_flow(f).map_err(|e| ScenarioError(format!("flow \"{}\": {e}", f.name)))?;
        }
        for c in &self.at {
            self.link(&c.link)?;
            if let Some(q) = &c.qdisc {
                parse_qdisc(q)?;
            }
            if c.rate_bps == Some(0) {
                return wrong(format!("link \"{}\": rate must be above 0", c.link));
            }
        }
        for r in &self.rewrites {
            self.link(&r.link)?;
            if !self.flows.iter().any(|f| f.name == r.flow) {
                return wrong(format!("rewrite: there is no flow \"{}\"", r.flow));
            }
        }
        for i in &self.impairs {
            self.link(&i.before)
                .and_then(|_| i.config())
                .map_err(|e| ScenarioError(format!("impair \"{}\": {e}", i.name)))?;
        }
        if self.impairs.len() > 100 {
            return wrong("at most 100 impairments are supported");
        }
        Ok(())
    }

    fn check_flow(&self, f: &FlowSpec) -> Result<(), ScenarioError> {
        if f.count == 0 {
            return wrong("count must be at least 1");
        }
        if f.dscp > 63 {
            return wrong("dscp has six bits: 0 to 63");
        }
        if f.path.len() > 100 || f.reverse_path.len() > 100 {
            return wrong("a path has at most 100 links");
        }
        for name in f.path.iter().chain(&f.reverse_path) {
            self.link(name)?;
        }
        if matches!(f.kind, Kind::Web | Kind::Video) && f.interval_ns.unwrap_or(0) == 0 {
            return wrong("requests and frames come one after the other: interval must be above 0");
        }
        match f.kind {
            Kind::Tcp | Kind::Web | Kind::Video => {
                if let Some(EcnSetting::Codepoint(_)) = f.ecn {
                    return wrong("ecn of a TCP flow is \"off\", \"classic\" or \"accecn\"");
                }
                let sizes = f.sizes();
                if sizes.smallest == 0 || sizes.largest < sizes.smallest {
                    return wrong("the smallest size must be above 0 and not above the largest");
                }
                if !(sizes.alpha > 0.0 && sizes.alpha.is_finite()) {
                    return wrong("alpha must be above 0");
                }
                if !f.spread.is_none_or(|s| (0.0..=10.0).contains(&s)) {
                    return wrong("spread must be between 0 and 10");
                }
                if f.kind == Kind::Video && f.rate_bps.unwrap_or(0) == 0 {
                    return wrong("a video needs a rate above 0");
                }
                if f.control_interval_ns == Some(0) {
                    return wrong("the time between controls must be above 0");
                }
            }
            Kind::Cbr => {
                if f.rate_bps.unwrap_or(0) == 0 {
                    return wrong("a cbr flow needs a rate above 0");
                }
                if let Some(EcnSetting::Support(_)) = f.ecn {
                    return wrong("ecn of a cbr flow is \"not-ect\", \"ect0\" or \"ect1\"");
                }
                let size = f.packet_bytes.unwrap_or(crate::units::MTU_FRAME);
                if !(64..=9014).contains(&size) {
                    return wrong("packet must be between 64B and 9014B");
                }
                if f.batch == Some(0) {
                    return wrong("batch must be at least 1");
                }
            }
            Kind::UdpPrague => {
                if f.ecn.is_some() || f.peer_ecn.is_some() {
                    return wrong(
                        "a udp-prague flow has no ecn: it sends ECT(1) until that is bleached",
                    );
                }
                let size = f.packet_bytes.unwrap_or(udp_prague::FRAME);
                if !(SMALLEST_UDP_PRAGUE..=9014).contains(&size) {
                    return wrong(format!(
                        "packet must be between {SMALLEST_UDP_PRAGUE}B and 9014B: packets shrink from there"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Reads a tc string.
pub fn parse_qdisc(text: &str) -> Result<QdiscConfig, ScenarioError> {
    qdiscs::parse(text).map_err(|e| ScenarioError(e.to_string()))
}

impl ImpairSpec {
    pub fn config(&self) -> Result<NetemConfig, ScenarioError> {
        match parse_qdisc(&format!("netem {}", self.netem))? {
            QdiscConfig::Netem(config) => Ok(config),
            other => unreachable!("netem was read as {}", other.canonical()),
        }
    }
}
