//! A run as the core reads it: a plain, fully resolved description in JSON.

#[cfg(feature = "schema")]
pub mod schema;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::aqm::netem::NetemConfig;
use crate::aqm::police::PoliceConfig;
use crate::aqm::registry::{self as qdiscs, QdiscConfig};
use crate::aqm::stab::StabConfig;
use crate::aqm::trace::{Step, Steps};
use crate::aqm::tree::{ClassSpec, FilterSpec, Queue, parse_path};
use crate::ecn::{Ecn, Rewritten};
use crate::error::ScenarioError;
use crate::net::access::{self, ChangedMedium, MediumConfig, Subscribers};
use crate::net::tunnel::TunnelSpec;
use crate::params::{self, Gauge, Refused};
use crate::time::{Span, Time};
use crate::traffic::events::Events;
use crate::traffic::{self, Traffic};
use crate::units::{MTU_FRAME, Rate};

/// A run. Times are nanoseconds, rates bits per second, sizes bytes. Only keys with `skip_serializing_if` may be
/// missing in a resolved description.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub duration_ns: u64,
    #[serde(default)]
    pub warmup_ns: u64,
    /// More than a number of JavaScript holds.
    #[cfg_attr(feature = "schema", schemars(extend("tsType" = "bigint")))]
    pub seed: u64,
    #[serde(default = "default_sample")]
    pub sample_ns: u64,
    #[serde(default)]
    pub start_jitter_ns: u64,
    /// Each flow of a group is counted apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub per_flow: bool,
    /// Ends the run before its duration once a column is known so well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    #[cfg_attr(feature = "schema", schemars(with = "Vec<LinkKeys>"))]
    pub links: Vec<LinkSpec>,
    #[cfg_attr(feature = "schema", schemars(with = "Vec<schema::Flow>"))]
    pub flows: Vec<FlowSpec>,
    /// Names of the hosts that have one, which are numbered from the number of flow groups on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    #[serde(default)]
    pub at: Vec<Change>,
    #[serde(default)]
    pub rewrites: Vec<Rewrite>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub impairs: Vec<ImpairSpec>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tunnels: Vec<TunnelSpec>,
}

/// A column of `flows` or, for the utilisation, of `links`, and half the width of its 95 % confidence interval.
#[derive(Copy, Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Precision {
    pub column: PreciseColumn,
    pub half_width: f64,
}

#[derive(Copy, Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PreciseColumn {
    Share,
    GoodputMbps,
    SojournMsMean,
    Utilisation,
}

fn default_sample() -> u64 {
    100_000_000
}
fn one() -> u32 {
    1
}
fn default_burst() -> u64 {
    crate::aqm::service::DEFAULT_BURST
}

/// A link: `qdisc` is a tc string.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "LinkKeys")]
pub struct LinkSpec {
    pub name: String,
    /// Of a link with a trace, its mean.
    pub rate_bps: u64,
    pub rate_trace: Option<RateTrace>,
    pub qdisc: Queue,
    /// How long its queue takes packets to be.
    pub stab: Option<StabConfig>,
    /// What drops packets before the queue.
    pub policer: Option<PoliceConfig>,
    pub burst_bytes: u64,
    /// It is in the host that sends, whose TCP learns at once what leaves its queue and what it drops.
    pub on_host: bool,
    /// What serves the queue in place of the bucket; of the link that goes to the users.
    pub medium: Option<MediumConfig>,
    /// The stations of the medium that differ, by name.
    pub stations: BTreeMap<String, MediumConfig>,
    /// The other side of that link's medium.
    pub up_of: Option<String>,
}

/// A link as it is written: a qdisc that holds classes has them beside it.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Link"))]
#[serde(deny_unknown_fields)]
struct LinkKeys {
    name: String,
    rate_bps: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate_trace: Option<RateTrace>,
    qdisc: String,
    /// A size table in `tc`'s words, without "stab" itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    stab: Option<StabConfig>,
    /// A policer before the queue, in `tc`'s words, without "police" itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    policer: Option<PoliceConfig>,
    #[serde(default = "default_burst")]
    burst_bytes: u64,
    /// It is in the host that sends.
    #[serde(default, skip_serializing_if = "crate::units::is_zero")]
    on_host: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    classes: Vec<ClassSpec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    filters: Vec<FilterSpec>,
    /// What serves the queue in place of a wire, in the direction of the users. `rate_bps` is then what the queue takes
    /// for the link's rate; 0: what the medium says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    medium: Option<String>,
    /// What differs for stations of the medium, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    stations: BTreeMap<String, String>,
    /// It is the direction from the users of that link's medium.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    up_of: Option<String>,
}

impl TryFrom<LinkKeys> for LinkSpec {
    type Error = ScenarioError;
    fn try_from(keys: LinkKeys) -> Result<LinkSpec, ScenarioError> {
        let LinkKeys {
            name, rate_bps, rate_trace, burst_bytes, on_host, stab, policer, up_of, ..
        } = keys;
        let refused = |e: Refused| ScenarioError(format!("link \"{name}\": {e}"));
        let qdisc = Queue::new(&keys.qdisc, keys.classes, keys.filters)
            .map_err(|e| ScenarioError(format!("link \"{name}\": {e}")))?;
        let medium = keys.medium.map(|words| access::parse(&words)).transpose().map_err(refused)?;
        let mut stations = BTreeMap::new();
        for (station, words) in keys.stations {
            let of_station =
                |e: String| ScenarioError(format!("link \"{name}\": station \"{station}\": {e}"));
            let Some(medium) = &medium else {
                return Err(of_station("only a medium has stations".to_owned()));
            };
            let differs = medium.of_station(&words).map_err(|e| of_station(e.to_string()))?;
            stations.insert(station, differs);
        }
        Ok(LinkSpec {
            name,
            rate_bps,
            rate_trace,
            qdisc,
            stab,
            policer,
            burst_bytes,
            on_host,
            medium,
            stations,
            up_of,
        })
    }
}

/// How a link's rate changes: `steps` of (time, rate in bits per second), or `opportunities`, each (time, how many
/// full packets).
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RateTrace {
    /// Where it was written.
    pub file: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<(u64, u64)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub opportunities: Vec<(u64, u64)>,
    /// When it begins again; without, the last rate holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat_ns: Option<u64>,
}

impl RateTrace {
    /// It has rates or opportunities, which were checked.
    pub fn steps(&self) -> Steps {
        let (idle, none) =
            (Rate::from_bps(0), Step { at: Time::ZERO, bytes: 0, rate: Rate::from_bps(0) });
        let rates = self.steps.iter().map(|&(at, bps)| (at, 0, Rate::from_bps(bps)));
        let opportunities = self.opportunities.iter();
        let opportunities = opportunities.map(|&(at, n)| (at, n * u64::from(MTU_FRAME), idle));
        let steps = rates.chain(opportunities);
        let steps = steps.map(|(at, bytes, rate)| Step { at: Time(at), bytes, rate });
        let is_late =
            self.steps.is_empty() && self.opportunities.first().is_some_and(|(at, _)| *at > 0);
        let steps = is_late.then_some(none).into_iter().chain(steps).collect();
        Steps { steps, period: self.repeat_ns.map(Span) }
    }

    fn check(&self) -> Result<(), &'static str> {
        let both = [&self.steps, &self.opportunities];
        let (Some(first), Some(last)) =
            (both.iter().find_map(|l| l.first()), both.iter().find_map(|l| l.last()))
        else {
            return Err("is empty");
        };
        if both.iter().all(|l| !l.is_empty()) {
            return Err("has either steps or opportunities");
        }
        if !self.steps.is_empty() && first.0 != 0 {
            return Err("must begin at 0");
        }
        if both.iter().any(|l| l.windows(2).any(|two| two[0].0 >= two[1].0)) {
            return Err("must ascend in time");
        }
        if self.repeat_ns.is_some_and(|end| end < last.0.max(1)) {
            return Err("must not begin again before its end");
        }
        if self.opportunities.iter().any(|(_, n)| *n > MOST_AT_ONCE) {
            return Err("has more than a million opportunities at once");
        }
        if self.steps().runs_dry() {
            return Err("must go on carrying something");
        }
        Ok(())
    }
}

/// What a path adds to the round trip: `steps` of (time, nanoseconds).
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct DelayTrace {
    /// Where it was written.
    pub file: String,
    pub steps: Vec<(u64, u64)>,
    /// When it begins again; without, the last one holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat_ns: Option<u64>,
}

impl DelayTrace {
    /// When the step with this number begins and what it adds, over all rounds.
    pub fn step(&self, number: usize) -> Option<(Time, Span)> {
        let Some(period) = self.repeat_ns else {
            return self.steps.get(number).map(|&(at, rtt)| (Time(at), Span(rtt)));
        };
        let steps = self.steps.partition_point(|(at, _)| *at < period);
        let (round, step) = (number / steps, number % steps);
        let (at, rtt) = self.steps[step];
        Some((Time((round as u64).checked_mul(period)?.checked_add(at)?), Span(rtt)))
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.steps.first().is_none_or(|(at, _)| *at != 0) {
            return Err("must begin at 0");
        }
        if self.steps.windows(2).any(|two| two[0].0 >= two[1].0) {
            return Err("must ascend in time");
        }
        if self
            .repeat_ns
            .is_some_and(|end| Some(end) < self.steps.last().map(|(at, _)| (*at).max(1)))
        {
            return Err("must not begin again before its end");
        }
        Ok(())
    }
}

/// Opportunities at one time.
const MOST_AT_ONCE: u64 = 1_000_000;

/// A flow group.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Keys")]
pub struct FlowSpec {
    pub name: String,
    pub count: u32,
    pub rtt_ns: u64,
    pub dscp: u8,
    /// Numbers of the hosts that have a name; without, a host of the group's own.
    pub host: Option<u32>,
    pub peer_host: Option<u32>,
    pub start_ns: u64,
    pub stop_ns: Option<u64>,
    pub path: Vec<String>,
    pub reverse_path: Vec<String>,
    pub delay_trace: Option<DelayTrace>,
    /// The station of the media on its path; without, one of the group's own.
    pub station: Option<String>,
    /// What begins its flows while it runs.
    pub events: Option<Events>,
    /// The kind of its flows.
    pub traffic: Arc<dyn Traffic>,
}

/// A flow group as it is written: `kind` tells whose the other keys are.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Keys {
    name: String,
    #[serde(default = "tcp")]
    #[cfg_attr(feature = "schema", schemars(skip))]
    kind: String,
    #[serde(default = "one")]
    count: u32,
    rtt_ns: u64,
    #[serde(default)]
    dscp: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    peer_host: Option<u32>,
    #[serde(default)]
    start_ns: u64,
    #[serde(default)]
    stop_ns: Option<u64>,
    path: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    reverse_path: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delay_trace: Option<DelayTrace>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    station: Option<String>,
    /// Flows that begin at random and live for a fixed time; `count` is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    events: Option<Events>,
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    others: Map<String, Value>,
}

fn tcp() -> String {
    "tcp".to_owned()
}

impl TryFrom<Keys> for FlowSpec {
    type Error = ScenarioError;
    fn try_from(keys: Keys) -> Result<FlowSpec, ScenarioError> {
        let mut others = keys.others;
        // What is not set is as good as absent.
        others.retain(|_, value| !value.is_null() && *value != Value::Object(Map::new()));
        let traffic = traffic::read(&keys.kind, others)
            .map_err(|e| ScenarioError(format!("flow \"{}\": {e}", keys.name)))?;
        if let Some(Err(text)) = keys.events.as_ref().map(Events::check) {
            return Err(ScenarioError(format!("flow \"{}\": {text}", keys.name)));
        }
        Ok(FlowSpec {
            name: keys.name,
            count: keys.count,
            rtt_ns: keys.rtt_ns,
            dscp: keys.dscp,
            host: keys.host,
            peer_host: keys.peer_host,
            start_ns: keys.start_ns,
            stop_ns: keys.stop_ns,
            path: keys.path,
            reverse_path: keys.reverse_path,
            delay_trace: keys.delay_trace,
            station: keys.station,
            events: keys.events,
            traffic: traffic.into(),
        })
    }
}

impl FlowSpec {
    /// When the flows that its events begin start and stop, in a run with this seed that ends then.
    pub fn lives(&self, seed: u64, duration_ns: u64) -> Vec<(Time, Time)> {
        let stop = Time(self.stop_ns.unwrap_or(duration_ns).min(duration_ns));
        let lives = |events: &Events| events.lives(seed, &self.name, Time(self.start_ns), stop);
        self.events.as_ref().map(lives).unwrap_or_default()
    }
}

/// A change while it runs: of a link (`rate_bps`, `qdisc`, `classes`, `policer`), of a flow group (`rtt_ns`, `count`, and of a
/// source with a rate `rate_bps`), or of an impairment (`netem`).
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Change {
    pub time_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impair: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// In `tc`'s words. Of the kind that is in force, those that are not said stay as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qdisc: Option<String>,
    /// Another policer in the place of the link's, in `tc`'s words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub policer: Option<PoliceConfig>,
    /// Those that change: each with all its numbers, with another qdisc, or with both.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassSpec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ns: Option<u64>,
    /// How many of the group's flows send from now on: others begin, or those that began last stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Whether the encoders of media rest from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<bool>,
    /// In `tc`'s words, without "netem" itself; some that are not said stay, see `NetemConfig::merged`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netem: Option<String>,
    /// The change waits, from `time_ns` on, for a state of a flow's congestion control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<AwaitedState>,
    /// The medium's name and the words that change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medium: Option<String>,
    /// The words that change of its stations, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stations: BTreeMap<String, String>,
}

/// A state of the congestion control of a flow group's first flow, and how long after it something happens.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AwaitedState {
    pub flow: String,
    pub name: String,
    pub after_ns: u64,
}

/// The queues of a change with all their parameters: what its words do not name is as it was before.
#[derive(Clone, Debug, Default)]
pub struct Whole {
    pub qdisc: Option<QdiscConfig>,
    pub classes: Vec<ClassSpec>,
    pub netem: Option<NetemConfig>,
    pub medium: Option<ChangedMedium>,
}

/// The queues of a run, as far as its changes were followed: by link and path of a class, and by impairment.
struct InForce {
    qdiscs: BTreeMap<(usize, Vec<u16>), QdiscConfig>,
    netems: Vec<NetemConfig>,
    /// By link, and by station that has words of its own.
    media: Vec<Option<MediumConfig>>,
    stations: Vec<BTreeMap<String, MediumConfig>>,
}

impl InForce {
    fn new(run: &Run) -> InForce {
        let mut qdiscs = BTreeMap::new();
        for (i, link) in run.links.iter().enumerate() {
            match &link.qdisc {
                Queue::One(qdisc) => drop(qdiscs.insert((i, Vec::new()), qdisc.clone())),
                Queue::Tree(tree) => {
                    let inside = tree.qdiscs().into_iter();
                    qdiscs.extend(inside.map(|(class, qdisc)| ((i, class), qdisc.clone())));
                }
            }
        }
        InForce {
            qdiscs,
            netems: run.impairs.iter().map(|impair| impair.netem.clone()).collect(),
            media: run.links.iter().map(|link| link.medium.clone()).collect(),
            stations: run.links.iter().map(|link| link.stations.clone()).collect(),
        }
    }

    fn change(&mut self, place: (usize, Vec<u16>), words: &str) -> Result<QdiscConfig, Refused> {
        let to = match self.qdiscs.get(&place) {
            Some(qdisc) => qdisc.changed(words)?.config,
            None => qdiscs::parse(words)?,
        };
        self.qdiscs.insert(place, to.clone());
        Ok(to)
    }

    fn change_medium(
        &mut self,
        run: &Run,
        link: usize,
        change: &Change,
    ) -> Result<Option<ChangedMedium>, ScenarioError> {
        if change.medium.is_none() && change.stations.is_empty() {
            return Ok(None);
        }
        let name = &run.links[link].name;
        let Some(mut config) = self.media[link].clone() else {
            return wrong(format!("link \"{name}\" has no medium that could change"));
        };
        if let Some(words) = &change.medium {
            let of_link = |e: Refused| ScenarioError(format!("link \"{name}\": {e}"));
            config = config.change(words).map_err(of_link)?;
            self.media[link] = Some(config.clone());
        }
        for (station, words) in &change.stations {
            let of_station =
                |e: String| ScenarioError(format!("link \"{name}\": station \"{station}\": {e}"));
            let is_there = run.flows.iter().any(|flow| flow.station.as_ref() == Some(station));
            if !is_there || !config.has_stations() {
                return Err(of_station("no flow has this station".to_owned()));
            }
            let before = self.stations[link].get(station).unwrap_or(&config);
            let after = before.change_station(words).map_err(|e| of_station(e.to_string()))?;
            self.stations[link].insert(station.clone(), after);
        }
        let stations =
            run.subscribers_with(&run.links[link], Some(&config), &self.stations[link]).stations;
        Ok(Some(ChangedMedium { config, stations }))
    }

    fn follow(&mut self, run: &Run, change: &Change) -> Result<Whole, ScenarioError> {
        let mut whole = Whole::default();
        if let Some(name) = &change.link {
            let link = run.link(name)?;
            let of_link = |e: Refused| ScenarioError(format!("link \"{name}\": {e}"));
            let qdisc = change.qdisc.as_ref().map(|words| self.change((link, Vec::new()), words));
            whole.qdisc = qdisc.transpose().map_err(of_link)?;
            whole.medium = self.change_medium(run, link, change)?;
            for class in &change.classes {
                let place = (link, parse_path(&class.id).unwrap_or_default());
                let qdisc = class.qdisc.as_ref().map(|words| self.change(place, words));
                whole.classes.push(class.with(qdisc.transpose().map_err(of_link)?));
            }
        }
        if let (Some(name), Some(words)) = (&change.impair, &change.netem) {
            let netem = &mut self.netems[run.impair(name)?];
            *netem = params::change_words(netem, words.split_whitespace())
                .map_err(|e| ScenarioError(format!("impair \"{name}\": {e}")))?
                .config;
            whole.netem = Some(netem.clone());
        }
        Ok(whole)
    }
}

/// Which side of a link.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Before,
    After,
}

/// Rewriting of the ECN field of a flow's data packets.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Rewrite {
    pub flow: String,
    #[serde(rename = "where")]
    pub side: Side,
    pub link: String,
    pub from: Ecn,
    pub to: Rewritten,
}

/// netem before a link: for the data packets that cross it (forward), for the ACKs of flows that cross
/// it (reverse), or for both, each with a netem of its own.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Impair"))]
#[serde(deny_unknown_fields)]
pub struct ImpairSpec {
    pub name: String,
    /// In `tc`'s words, without "netem" itself.
    #[serde(deserialize_with = "netem")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub netem: NetemConfig,
    pub before: String,
    #[serde(default)]
    pub direction: Direction,
    /// On the way back, of so many pure ACKs one goes on, after this time at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack_thinning: Option<u32>,
    #[serde(default, skip_serializing_if = "crate::units::is_zero")]
    pub ack_wait_ns: u64,
}

fn netem<'de, D: Deserializer<'de>>(from: D) -> Result<NetemConfig, D::Error> {
    let words = String::deserialize(from)?;
    params::read_words(words.split_whitespace()).map_err(D::Error::custom)
}

#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    #[default]
    Forward,
    Reverse,
    Both,
}

/// Flows that come while it runs, in all.
pub const MOST_LATER: u64 = 60_000;

fn wrong<T>(sentence: impl Into<String>) -> Result<T, ScenarioError> {
    Err(ScenarioError(sentence.into()))
}

impl Run {
    /// Reads and checks a run.
    ///
    /// # Errors
    /// One sentence that names the part and the fix.
    pub fn from_json(text: &str) -> Result<Run, ScenarioError> {
        let run: Run = serde_json::from_str(text)
            .map_err(|e| ScenarioError(format!("the run's description is not valid: {e}")))?;
        run.check()?;
        Ok(run)
    }

    /// A description with what has no effect at one value: two runs whose descriptions become the same give the same
    /// results. Their columns may differ where they have no values.
    ///
    /// # Errors
    /// One sentence if it is no JSON.
    pub fn normal(text: &str) -> Result<String, ScenarioError> {
        let mut run: Value = serde_json::from_str(text)
            .map_err(|e| ScenarioError(format!("the run's description is not valid: {e}")))?;
        let flows = run.get_mut("flows").and_then(Value::as_array_mut);
        for keys in flows.into_iter().flatten().filter_map(Value::as_object_mut) {
            traffic::normalise(keys);
        }
        Ok(run.to_string())
    }

    /// The columns of the time series that its queues and controllers add.
    pub fn gauges(&self) -> Vec<Gauge> {
        let mut all = Vec::new();
        // Those of a change that is wrong do not matter: the run is refused.
        let whole = self.whole().unwrap_or_default();
        let later = whole.iter().filter_map(|change| change.qdisc.as_ref());
        all.extend(self.links.iter().flat_map(|link| link.qdisc.gauges()));
        let media = self.links.iter().filter_map(|link| link.medium.as_ref());
        all.extend(media.flat_map(MediumConfig::gauges));
        all.extend(later.flat_map(QdiscConfig::gauges));
        all.extend(self.flows.iter().flat_map(|flow| flow.traffic.gauges()));
        all
    }

    /// The queues of each change of `at`, all followed in the order of time.
    ///
    /// # Errors
    /// One sentence that names the link or the impairment, the keyword and the fix.
    pub fn whole(&self) -> Result<Vec<Whole>, ScenarioError> {
        let mut order: Vec<usize> = (0..self.at.len()).collect();
        order.sort_by_key(|&i| self.at[i].time_ns);
        let mut in_force = InForce::new(self);
        let mut all = vec![Whole::default(); self.at.len()];
        for i in order {
            all[i] = in_force.follow(self, &self.at[i])?;
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

    /// The medium that serves a link in place of a wire.
    pub fn medium_of<'a>(&'a self, link: &'a LinkSpec) -> Option<&'a MediumConfig> {
        match &link.up_of {
            Some(down) => self.links[self.link(down).ok()?].medium.as_ref(),
            None => link.medium.as_ref(),
        }
    }

    /// The rate of a link in bits per second: where a medium serves it and no rate is written, what the medium says.
    pub fn rate_of(&self, link: &LinkSpec) -> u64 {
        let side = usize::from(link.up_of.is_some());
        match self.medium_of(link) {
            Some(medium) if link.rate_bps == 0 => medium.rates()[side].bps(),
            _ => link.rate_bps,
        }
    }

    /// Whether packets of several segments come to a link as segments: its queue cuts them, or its medium does.
    pub fn splits(&self, link: &LinkSpec) -> bool {
        let of_queue = match &link.qdisc {
            Queue::One(qdisc) => qdisc.splits(),
            Queue::Tree(tree) => tree.splits(),
        };
        of_queue || self.medium_of(link).is_some()
    }

    /// Who shares a link's medium: groups that name the same station, or cross either side of it.
    pub fn subscribers(&self, link: &LinkSpec) -> Subscribers {
        let down = link.up_of.as_ref().unwrap_or(&link.name);
        let down = &self.links[self.link(down).unwrap_or_default()];
        self.subscribers_with(down, down.medium.as_ref(), &down.stations)
    }
    /// The same with other parameters; `down`: the link that goes to the users.
    fn subscribers_with(
        &self,
        down: &LinkSpec,
        medium: Option<&MediumConfig>,
        of_stations: &BTreeMap<String, MediumConfig>,
    ) -> Subscribers {
        let is_side = |name: &String| {
            *name == down.name
                || self
                    .links
                    .iter()
                    .any(|l| l.name == *name && l.up_of.as_ref() == Some(&down.name))
        };
        let mut all = Subscribers::default();
        let mut names: Vec<Option<&String>> = Vec::new();
        for flow in &self.flows {
            if !flow.path.iter().chain(&flow.reverse_path).any(is_side) {
                all.of_group.push(0);
                continue;
            }
            let known =
                names.iter().position(|name| name.is_some() && *name == flow.station.as_ref());
            all.of_group.push(known.unwrap_or(names.len()) as u16);
            if known.is_none() {
                let station = flow.station.as_ref();
                names.push(station);
                let words = station.and_then(|name| of_stations.get(name)).or(medium);
                all.stations.extend(words.cloned());
                all.names.push(station.unwrap_or(&flow.name).clone());
            }
        }
        all
    }

    fn check_medium(&self, link: &LinkSpec) -> Result<(), ScenarioError> {
        let name = &link.name;
        let Some(medium) = self.medium_of(link) else {
            return match &link.up_of {
                Some(down) => wrong(format!("link \"{name}\": link \"{down}\" has no medium")),
                None => Ok(()),
            };
        };
        if link.rate_trace.is_some() {
            return wrong(format!("link \"{name}\" has a medium and no rate trace"));
        }
        if matches!(link.qdisc, Queue::Tree(_)) || link.stab.is_some() || link.policer.is_some() {
            let text = "a medium serves a qdisc without classes, stab and policer";
            return wrong(format!("link \"{name}\": {text}"));
        }
        let sides = self.links.iter().filter(|l| l.up_of.as_ref() == Some(name)).count();
        if link.medium.is_some() && (sides != 1 || link.up_of.is_some()) {
            return wrong(format!(
                "link \"{name}\": a medium has two sides, one of which is up_of it"
            ));
        }
        let stations = self.subscribers(link).stations.len();
        if stations > access::MOST_STATIONS {
            let most = access::MOST_STATIONS;
            return wrong(format!(
                "link \"{name}\": a medium has at most {most} stations, not {stations}"
            ));
        }
        if !medium.has_stations() && !link.stations.is_empty() {
            return wrong(format!("link \"{name}\": {} has no stations", medium.name()));
        }
        Ok(())
    }

    /// Finds an impairment by name.
    pub fn impair(&self, name: &str) -> Result<usize, ScenarioError> {
        match self.impairs.iter().position(|i| i.name == name) {
            Some(i) => Ok(i),
            None => wrong(format!("there is no impair \"{name}\"")),
        }
    }

    /// Finds a flow group by name.
    pub fn group(&self, name: &str) -> Result<usize, ScenarioError> {
        match self.flows.iter().position(|f| f.name == name) {
            Some(i) => Ok(i),
            None => wrong(format!("there is no flow \"{name}\"")),
        }
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// One sentence that names the part and the fix.
    pub fn check(&self) -> Result<(), ScenarioError> {
        if self.duration_ns == 0 || self.warmup_ns >= self.duration_ns {
            return wrong("duration must be longer than warmup, and not 0");
        }
        if self.sample_ns == 0 {
            return wrong("sample must be longer than 0");
        }
        if self.precision.is_some_and(|p| p.half_width.is_nan() || p.half_width <= 0.0) {
            return wrong("the half-width of precision must be above 0");
        }
        if self.links.len() > 1000 || self.flows.len() > 60_000 {
            return wrong("at most 1000 links and 60 000 flow groups are supported");
        }
        let flows: u64 = self.flows.iter().map(|f| u64::from(f.count)).sum();
        let later: u64 = self.at.iter().filter_map(|c| c.count).map(u64::from).sum();
        for f in &self.flows {
            self.check_events(f).map_err(|e| ScenarioError(format!("flow \"{}\": {e}", f.name)))?;
        }
        let lives = self.flows.iter().map(|f| f.lives(self.seed, self.duration_ns).len() as u64);
        let later = later + lives.sum::<u64>();
        if later > MOST_LATER {
            return wrong(format!(
                "at most {MOST_LATER} flows may come while it runs, not {later}"
            ));
        }
        let flows = flows + later;
        if self.per_flow && flows > 60_000 {
            return wrong(format!("per_flow is for at most 60 000 flows, not {flows}"));
        }
        for l in &self.links {
            if self.rate_of(l) == 0 {
                return wrong(format!("link \"{}\": rate must be above 0", l.name));
            }
            if let Some(Err(text)) = l.rate_trace.as_ref().map(RateTrace::check) {
                return wrong(format!("link \"{}\": the rate trace {text}", l.name));
            }
            self.check_medium(l)?;
            let of_queue = match &l.qdisc {
                Queue::One(qdisc) => vec![qdisc.name()],
                Queue::Tree(tree) => tree.qdiscs().iter().map(|(_, qdisc)| qdisc.name()).collect(),
            };
            if l.on_host && l.policer.is_some() {
                let text = "a policer in the host that sends is not modelled";
                return wrong(format!("link \"{}\": {text}", l.name));
            }
            if l.on_host && of_queue.contains(&"fq") {
                return wrong(format!(
                    "link \"{}\": in the host that sends, fq paces TCP, which is not modelled; use \
                     another qdisc, or the linux engine",
                    l.name
                ));
            }
        }
        for f in &self.flows {
            self.check_flow(f).map_err(|e| ScenarioError(format!("flow \"{}\": {e}", f.name)))?;
        }
        for c in &self.at {
            self.check_change(c)?;
        }
        self.check_splits(&self.whole()?)?;
        for r in &self.rewrites {
            self.link(&r.link)?;
            if !self.flows.iter().any(|f| f.name == r.flow) {
                return wrong(format!("rewrite: there is no flow \"{}\"", r.flow));
            }
        }
        for i in &self.impairs {
            self.link(&i.before)
                .map_err(|e| ScenarioError(format!("impair \"{}\": {e}", i.name)))?;
        }
        for i in self.impairs.iter().filter(|i| i.ack_thinning.is_some()) {
            if i.direction == Direction::Forward || i.ack_thinning < Some(2) {
                let name = &i.name;
                return wrong(format!(
                    "impair \"{name}\": ACKs are thinned on the way back, from 2 on"
                ));
            }
        }
        if self.impairs.len() > 100 {
            return wrong("at most 100 impairments are supported");
        }
        if self.tunnels.len() > 100 {
            return wrong("at most 100 tunnels are supported");
        }
        self.tunnels.iter().try_for_each(|tunnel| {
            self.check_tunnel(tunnel)
                .map_err(|e| ScenarioError(format!("tunnel \"{}\": {e}", tunnel.name)))
        })
    }

    /// The part of a flow's path that is in a tunnel: the places of its first and its last link.
    pub fn inside(
        &self,
        flow: &FlowSpec,
        path: &[String],
        tunnel: &TunnelSpec,
    ) -> Option<(usize, usize)> {
        let is_carried = tunnel.flows.contains(&flow.name);
        let mut places = (0..path.len()).filter(|i| is_carried && tunnel.links.contains(&path[*i]));
        let first = places.next()?;
        Some((first, places.next_back().unwrap_or(first)))
    }

    fn check_tunnel(&self, tunnel: &TunnelSpec) -> Result<(), ScenarioError> {
        let (most, mtu) = (tunnel.overhead_bytes.max(tunnel.padding_bytes), tunnel.mtu_bytes);
        if !(68..=9000).contains(&mtu)
            || most > 1000
            || tunnel.trailer_bytes > tunnel.overhead_bytes
        {
            return wrong(
                "a tunnel has an MTU of 68 to 9000 bytes, and at most 1000 bytes of overhead and of padding",
            );
        }
        if tunnel.padding_bytes == 0 || tunnel.replay_window > 1 << 20 {
            return wrong(
                "padding is at least 1 byte, and a replay window has at most 1048576 packets",
            );
        }
        for name in &tunnel.links {
            if self.links[self.link(name)?].on_host {
                return wrong(format!(
                    "link \"{name}\" is in the host that sends, where no tunnel is"
                ));
            }
        }
        for name in &tunnel.flows {
            let flow = &self.flows[self.group(name)?];
            if self.inside(flow, &flow.path, tunnel).is_none() {
                return wrong(format!("flow \"{name}\" crosses none of its links"));
            }
            for path in [&flow.path, &flow.reverse_path] {
                let Some((first, last)) = self.inside(flow, path, tunnel) else { continue };
                let others = self.tunnels.iter().filter(|other| other.name != tunnel.name);
                let mut spans =
                    others.filter_map(|other| Some((other, self.inside(flow, path, other)?)));
                if let Some((other, _)) =
                    spans.find(|(_, (from, to))| *from <= last && first <= *to)
                {
                    let other = &other.name;
                    return wrong(format!(
                        "flow \"{name}\" is in tunnel \"{other}\" on the same links"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Packets of several segments are cut before a queue during the whole run, or never.
    fn check_splits(&self, changes: &[Whole]) -> Result<(), ScenarioError> {
        for flow in self.flows.iter().filter(|flow| flow.traffic.joins_segments()) {
            for (change, whole) in self.at.iter().zip(changes) {
                let Some(name) = change.link.as_ref().filter(|name| flow.path.contains(name))
                else {
                    continue;
                };
                let before = self.splits(&self.links[self.link(name)?]);
                let one = whole.qdisc.iter().map(QdiscConfig::splits);
                let inside = whole.classes.iter().filter_map(|class| class.qdisc.as_ref());
                if one.chain(inside.map(QdiscConfig::splits)).any(|after| after != before) {
                    let (flow, how) = (&flow.name, if before { "cuts" } else { "does not cut" });
                    return wrong(format!(
                        "link \"{name}\" {how} the packets of flow \"{flow}\" with gso at first, and a change of its \
                         qdisc must not alter that"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether this can be changed.
    ///
    /// # Errors
    /// One sentence that names the part and the fix.
    pub fn check_change(&self, c: &Change) -> Result<(), ScenarioError> {
        if let Some(state) = &c.state {
            let flow = &self.flows[self.group(&state.flow)?];
            let states = flow.traffic.states();
            if !states.contains(&&state.name[..]) {
                let (name, hint) =
                    (&flow.name, params::hint(&state.name, states.iter().copied(), "it has"));
                let hint =
                    if states.is_empty() { "its congestion control has no states" } else { &hint };
                return wrong(format!("flow \"{name}\" has no state \"{}\"; {hint}", state.name));
            }
        }
        if c.netem.is_some() != c.impair.is_some() {
            return wrong(
                "a netem that changes is that of an impair, and an impair has nothing else",
            );
        }
        if c.policer.is_some() && c.link.is_none() {
            return wrong("a policer that changes is that of a link, which the change names");
        }
        if !c.classes.is_empty() && c.link.is_none() {
            return wrong("classes that change are those of a link, which the change names");
        }
        match (&c.link, &c.flow, &c.impair) {
            (None, None, Some(name)) => {
                self.impair(name)?;
            }
            (Some(link), None, None) => self.check_link_change(c, link)?,
            (None, Some(flow), None) => self.check_flow_change(c, flow)?,
            _ => return wrong("a change is of a link, of a flow or of an impair, and names it"),
        }
        Ok(())
    }

    fn check_link_change(&self, c: &Change, link: &str) -> Result<(), ScenarioError> {
        let spec = &self.links[self.link(link)?];
        if c.rate_bps.is_some() && spec.rate_trace.is_some() {
            return wrong(format!("link \"{link}\" has the rates of its trace"));
        }
        if c.rate_bps.is_some() && self.medium_of(spec).is_some() {
            return wrong(format!("link \"{link}\" has the rates of its medium"));
        }
        if (c.medium.is_some() || !c.stations.is_empty()) && spec.medium.is_none() {
            return wrong(format!("link \"{link}\" has no medium that could change"));
        }
        if c.rate_bps == Some(0) {
            return wrong(format!("link \"{link}\": rate must be above 0"));
        }
        if c.rtt_ns.is_some() || c.count.is_some() || c.pause.is_some() {
            return wrong(format!("link \"{link}\" has a rate and a qdisc to change"));
        }
        if c.policer.is_some() && spec.policer.is_none() {
            return wrong(format!("link \"{link}\" has no policer that could change"));
        }
        match &spec.qdisc {
            Queue::One(_) if !c.classes.is_empty() => {
                wrong(format!("link \"{link}\" has no classes that could change"))
            }
            Queue::Tree(_) if c.qdisc.is_some() => wrong(format!(
                "link \"{link}\" has classes, whose rates and qdiscs change, and not what holds them"
            )),
            Queue::One(_) => Ok(()),
            Queue::Tree(tree) => {
                let of_link = |e| ScenarioError(format!("link \"{link}\": {e}"));
                c.classes.iter().try_for_each(|class| tree.check_change(class).map_err(of_link))
            }
        }
    }

    fn check_flow_change(&self, c: &Change, name: &str) -> Result<(), ScenarioError> {
        let flow = &self.flows[self.group(name)?];
        if c.qdisc.is_some() {
            return wrong(format!("flow \"{name}\" has no qdisc; a link has one"));
        }
        if c.rate_bps.is_some() && !flow.traffic.has_rate() {
            return wrong(format!("flow \"{name}\" has no rate that can change"));
        }
        if c.pause.is_some() && !flow.traffic.pauses() {
            return wrong(format!("flow \"{name}\" cannot pause; media and TCP with a rate can"));
        }
        if c.rate_bps == Some(0) {
            return wrong(format!("flow \"{name}\": rate must be above 0; use count = 0"));
        }
        if c.count.is_some() && flow.traffic.outside().is_some() {
            return wrong(format!(
                "flow \"{name}\" is an endpoint, which is one flow all the time"
            ));
        }
        Ok(())
    }

    fn check_events(&self, f: &FlowSpec) -> Result<(), ScenarioError> {
        let Some(events) = &f.events else { return Ok(()) };
        let counts = self.at.iter().filter(|c| c.flow.as_ref() == Some(&f.name));
        if f.count > 0 || counts.filter_map(|c| c.count).next().is_some() {
            return wrong("events begin its flows, and not count");
        }
        let seconds = self.duration_ns as f64 / events.interval_ns as f64;
        if seconds * events.flows.max(1.0) > 2.0 * MOST_LATER as f64 {
            return wrong(format!("its events begin more than {MOST_LATER} flows"));
        }
        Ok(())
    }

    fn check_flow(&self, f: &FlowSpec) -> Result<(), ScenarioError> {
        if let Some(Err(text)) = f.delay_trace.as_ref().map(DelayTrace::check) {
            return wrong(format!("the delay trace {text}"));
        }
        let numbers = self.flows.len()..self.flows.len() + self.hosts.len();
        let mut named = [f.host, f.peer_host].into_iter().flatten();
        if named.any(|host| !numbers.contains(&(host as usize))) {
            return wrong("there is no host with this number");
        }
        if f.dscp > 63 {
            return wrong("dscp has six bits: 0 to 63");
        }
        if f.traffic.outside().is_some() && (f.count != 1 || f.start_ns > 0 || f.stop_ns.is_some())
        {
            return wrong("an endpoint is one flow, which sends whenever its program does");
        }
        if f.path.len() > 100 || f.reverse_path.len() > 100 {
            return wrong("a path has at most 100 links");
        }
        for name in f.path.iter().chain(&f.reverse_path) {
            self.link(name)?;
        }
        for (i, name) in f.path.iter().chain(&f.reverse_path).enumerate() {
            let link = &self.links[self.link(name)?];
            if link.on_host && (i > 0 || !f.traffic.joins_segments() || link.medium.is_some()) {
                return wrong(format!(
                    "link \"{name}\" is in the host that sends: a wire, first on the path of TCP with gso"
                ));
            }
        }
        Ok(())
    }
}
