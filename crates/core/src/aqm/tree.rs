//! Trees of classes as `tc` has them. Filters sort packets into classes, each with a queue of its own, and the
//! classful qdisc decides whose turn it is.
//!
//! * [`htb`], hierarchical token bucket: classes with a rate that is theirs, up to a ceiling that they may
//!   borrow from their parent, by priority and, within one, in turns;
//! * [`hfsc`], hierarchical fair service curves: classes with deadlines, shares and upper limits;
//! * `prio` (Linux `sch_prio.c`): the first band that has a packet;
//! * [`drr`](rounds): classes in turns, each with its quantum;
//! * [`ets`](rounds): bands of which some go first, as those of `prio`, and the others take turns;
//! * `tbf` with a queue of its own choice in its one class (Linux `sch_tbf.c`): the class's packets leave at the rate of
//!   the bucket. Without a class it is a queue like any other ([`super::tbf`]).
//!
//! The queue of a class may hold classes itself. Their numbers begin with the number of that class ("10:1" is class 1 of
//! the queue in class 10), and their filters sort its packets.
//!
//! The first matching filter decides. Unmatched packets go to the default class of htb or hfsc, or to the band that the
//! `priomap` of prio or ets gives to the packet's priority, which a router takes from its DSCP (`ip_tos2prio`); drr drops
//! them.

pub mod hfsc;
pub mod htb;
mod rounds;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::RwLock;

use serde::Deserialize;

use self::hfsc::{CurvesConfig, Hfsc};
use self::htb::Htb;
use self::rounds::Rounds;
use super::hosts::{Host, Hosts};
use super::police::{Action, PoliceConfig, Policer};
use super::printed;
use super::priorities::{PRIOMAP, PRIORITIES, priority};
use super::registry::{self, QdiscConfig};
use super::tbf::{Buckets, TbfConfig};
use super::{
    Aqm, Backlog, Classes, DropReason, Dropped, LinkInfo, Marks, Pkt, Qdisc, QueueCx, ReadsHosts,
    ReadsSacks, purge, set_hosts,
};
use crate::ecn::Ecn;
use crate::error::ScenarioError;
use crate::own;
use crate::packet::SackSlot;
use crate::params::kinds::{Spec, count, grammar, params, value};
use crate::params::{self, Described, Gauge, Given, Info, Refused};
use crate::sack::Blocks;
use crate::tc;
use crate::time::Time;
use crate::units::{MTU_FRAME, Rate};

params! {
    /// The classful qdisc, as `tc` has it.
    pub struct HtbConfig {
        /// the class of what no filter takes; required
        default: u16 = 0, class(), "";
        /// a class without a quantum has its rate divided by this
        r2q: Option<u32> = None, count(0..=u32::MAX).optional(), "Linux: 10";
        /// accepted, without effect: with default no packet goes past the classes
        direct_qlen: Option<u32> = None, count(0..=u32::MAX).optional(), "Linux: the device's txqueuelen";
    }
}

params! {
    /// The same of `hfsc`.
    pub struct HfscConfig {
        /// the class of what no filter takes; required
        default: u16 = 0, class(), "";
    }
}

params! {
    /// The same of `prio`.
    pub struct PrioConfig {
        /// how many there are, of which class 1 goes first
        bands: u8 = 3, count(2..=16), "tc";
        /// for each priority from 0 to 15 the band, from 0, of what no filter takes
        priomap: [u8; PRIORITIES] = PRIOMAP, priomap(), "tc";
    }
}

params! {
    /// The same of `drr`.
    pub struct DrrConfig {}
}

params! {
    /// The same of `ets`.
    pub struct EtsConfig {
        /// how many there are, of which class 1 goes first; as many as strict and quanta say
        bands: u8 = 0, count(1..=16).default(""), "tc";
        /// how many of them go before the others, in their order
        strict: u8 = 0, count(0..=16), "tc";
        /// bytes per round of the bands behind these; a full frame
        quanta: Vec<u32> = Vec::new(), quanta().default(""), "Linux";
        /// for each priority from 0 on the band, from 0, of what no filter takes; the last band
        priomap: Vec<u8> = Vec::new(), bands_by_priority().default(""), "Linux";
    }
}

/// The number of a class as `tc` writes it, hexadecimal.
pub fn parse_id(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_plain = !digits.starts_with('+');
    u16::from_str_radix(digits, 16).ok().filter(|&id| is_plain && id > 0)
}

/// The numbers from the outermost class to this one.
pub fn parse_path(text: &str) -> Option<Vec<u16>> {
    text.split(':').map(parse_id).collect()
}

fn class() -> Spec<u16> {
    let sample = |rng: &mut crate::rng::Rng| format!("{:x}", 1 + rng.below(0xfffe));
    let beyond = vec!["0".to_owned(), "x".to_owned()];
    value("CLASS", "the number of a class", parse_id, |id| format!("{id:x}"), sample, beyond)
        .default("")
}

/// At least one, and as many as follow.
fn several<T: ToString + 'static>(
    shown: &'static str,
    takes: &'static str,
    read: fn(&str) -> Option<T>,
    samples: &'static [&'static str],
    beyond: &'static [&'static str],
) -> Spec<Vec<T>> {
    let all = move |_: &Vec<T>, words: &mut params::Words| {
        let mut found = vec![words.value(takes, read)?];
        while let Some(one) = words.further(takes, read)? {
            found.push(one);
        }
        Ok(found)
    };
    let told = |found: &Vec<T>| {
        let words: Vec<_> = found.iter().map(T::to_string).collect();
        (!words.is_empty()).then(|| words.join(" "))
    };
    grammar(shown, takes, all, told, samples, beyond)
}

fn quanta() -> Spec<Vec<u32>> {
    let size = |s: &str| tc::parse_size(s).filter(|&n| n > 0);
    several("BYTES …", "sizes above zero", size, &["3000", "6000 1514"], &["0", "x"])
}

fn bands_by_priority() -> Spec<Vec<u8>> {
    let band = |s: &str| s.parse().ok().filter(|&band: &u8| band < 16);
    several("BAND …", "bands, numbered from 0", band, &["0", "0 0 0 0"], &["16", "x"])
}

fn priomap() -> Spec<[u8; PRIORITIES]> {
    let takes = "16 bands, numbered from 0";
    grammar(
        "BAND …",
        takes,
        move |_, words| {
            let mut map = [0; PRIORITIES];
            for band in &mut map {
                *band = words.value(takes, |s| s.parse().ok().filter(|&band: &u8| band < 16))?;
            }
            Ok(map)
        },
        |map| Some(map.map(|band| band.to_string()).join(" ")),
        &["1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1", "0 1 1 1 0 1 0 0 1 1 1 1 1 1 1 1"],
        &["1 2", "16 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1"],
    )
}

impl Described for HtbConfig {
    const NAME: &'static str = "htb";
    const SUMMARY: &'static str = "hierarchical token bucket: classes with rates, which borrow from each other up to a ceiling";
    const REQUIRED: &'static str = "default 30";

    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        check_default(self.default, given)
    }
}

impl Described for HfscConfig {
    const NAME: &'static str = "hfsc";
    const SUMMARY: &'static str =
        "hierarchical fair service curves: classes with deadlines, shares and upper limits";
    const REQUIRED: &'static str = HtbConfig::REQUIRED;

    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        check_default(self.default, given)
    }
}

/// htb and hfsc need a class of what no filter takes.
fn check_default(default: u16, given: &Given) -> Result<(), Refused> {
    match default {
        0 => Err(given.missing("default", "add the class of what no filter takes: default 30")),
        _ => Ok(()),
    }
}

impl Described for PrioConfig {
    const NAME: &'static str = "prio";
    const SUMMARY: &'static str = "bands of which the first that has a packet sends it";

    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        match self.priomap.iter().find(|&&band| band >= self.bands) {
            Some(band) => {
                let fix =
                    format!("bands go from 0 to {}; write a priomap of these", self.bands - 1);
                Err(given.refuse("priomap", band.to_string(), fix))
            }
            None => Ok(()),
        }
    }
}

impl Described for DrrConfig {
    const NAME: &'static str = "drr";
    const SUMMARY: &'static str = "classes that take turns, each with its quantum";
}

impl Described for EtsConfig {
    const NAME: &'static str = "ets";
    const SUMMARY: &'static str =
        "bands of which some go first, and the others take turns, each with its quantum";
    const REQUIRED: &'static str = "bands 3";

    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        let said = usize::from(self.strict) + self.quanta.len();
        if said == 0 && self.bands == 0 {
            return Err(given.missing("bands", "write for example bands 4 strict 2"));
        }
        let bands = if self.bands == 0 { said } else { self.bands.into() };
        if said > bands || bands > 16 {
            let fix = format!("strict and quanta are for {said} bands; at most 16 are possible");
            return Err(given.refuse("bands", bands.to_string(), fix));
        }
        if self.priomap.len() > PRIORITIES {
            let fix = format!("there are {PRIORITIES} priorities");
            return Err(given.refuse("priomap", format!("of {}", self.priomap.len()), fix));
        }
        if let Some(band) = self.priomap.iter().find(|&&band| usize::from(band) >= bands) {
            let fix = format!("bands go from 0 to {}; write a priomap of these", bands - 1);
            return Err(given.refuse("priomap", band.to_string(), fix));
        }
        self.bands = bands as u8;
        self.quanta.resize(bands - usize::from(self.strict), MTU_FRAME);
        self.priomap.resize(PRIORITIES, self.bands - 1);
        Ok(())
    }
}

/// The classful qdisc.
#[derive(Clone, PartialEq, Debug)]
pub enum Root {
    Htb(HtbConfig),
    Hfsc(HfscConfig),
    Prio(PrioConfig),
    Drr(DrrConfig),
    Ets(EtsConfig),
    Tbf(TbfConfig),
}

impl Root {
    /// Reads its words; `None`: that is no queue with classes. `has_class`: one is there, which makes tbf such a queue.
    pub fn parse(text: &str, has_class: bool) -> Option<Result<Root, Refused>> {
        let text = printed::as_read(text);
        let mut words = text.split_whitespace();
        match words.next()? {
            HtbConfig::NAME => Some(params::read_words(words).map(Root::Htb)),
            HfscConfig::NAME => Some(params::read_words(words).map(Root::Hfsc)),
            PrioConfig::NAME => Some(params::read_words(words).map(Root::Prio)),
            DrrConfig::NAME => Some(params::read_words(words).map(Root::Drr)),
            EtsConfig::NAME => Some(params::read_words(words).map(Root::Ets)),
            TbfConfig::NAME if has_class => Some(params::read_words(words).map(Root::Tbf)),
            _ => None,
        }
    }
    pub fn canonical(&self) -> String {
        match self {
            Root::Htb(c) => format!("{} {}", HtbConfig::NAME, params::write_words(c)),
            Root::Hfsc(c) => format!("{} {}", HfscConfig::NAME, params::write_words(c)),
            Root::Prio(c) => format!("{} {}", PrioConfig::NAME, params::write_words(c)),
            Root::Drr(_) => DrrConfig::NAME.to_owned(),
            Root::Ets(c) => format!("{} {}", EtsConfig::NAME, params::write_words(c)),
            Root::Tbf(c) => format!("{} {}", TbfConfig::NAME, params::write_words(c)),
        }
    }
}

/// All queues that always have classes, with their parameters.
pub fn listing() -> Vec<Info> {
    vec![
        Info::of::<HtbConfig>(),
        Info::of::<HfscConfig>(),
        Info::of::<PrioConfig>(),
        Info::of::<DrrConfig>(),
        Info::of::<EtsConfig>(),
    ]
}

/// A class as a run's description has it: below another one, or with a queue. Rate and ceiling are of htb. `Q`: a
/// queue with all its parameters, or its words.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Class"))]
#[serde(deny_unknown_fields)]
pub struct ClassSpec<Q = QdiscConfig> {
    /// As `tc` writes it.
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qdisc: Option<Q>,
    #[serde(default, skip_serializing_if = "crate::units::is_zero")]
    pub rate_bps: u64,
    #[serde(default, skip_serializing_if = "crate::units::is_zero")]
    pub ceil_bps: u64,
    #[serde(default, skip_serializing_if = "crate::units::is_zero")]
    pub burst_bytes: u64,
    #[serde(default, skip_serializing_if = "crate::units::is_zero")]
    pub cburst_bytes: u64,
    #[serde(default, skip_serializing_if = "crate::units::is_zero")]
    pub prio: u8,
    #[serde(default, skip_serializing_if = "crate::units::is_zero")]
    pub quantum_bytes: u32,
    /// Curves of a class of hfsc, in `tc`'s words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub curves: Option<CurvesConfig>,
}

impl<Q> ClassSpec<Q> {
    /// The same with another description of its queue.
    pub fn with<R>(&self, qdisc: Option<R>) -> ClassSpec<R> {
        ClassSpec {
            id: self.id.clone(),
            parent: self.parent.clone(),
            qdisc,
            rate_bps: self.rate_bps,
            ceil_bps: self.ceil_bps,
            burst_bytes: self.burst_bytes,
            cburst_bytes: self.cburst_bytes,
            prio: self.prio,
            quantum_bytes: self.quantum_bytes,
            curves: self.curves.clone(),
        }
    }
    /// The class within the queue that holds it, and the class that has this queue; `None`: the queue is the link's.
    fn split(self) -> (Option<String>, Self) {
        let Some((outer, id)) = self.id.split_once(':') else { return (None, self) };
        let inside = |parent: String| match parent.split_once(':') {
            Some((above, rest)) if parse_id(above) == parse_id(outer) => rest.to_owned(),
            _ => parent,
        };
        let (outer, id) = (outer.to_owned(), id.to_owned());
        (Some(outer), ClassSpec { id, parent: self.parent.map(inside), ..self })
    }
    fn has_numbers(&self) -> bool {
        let sizes = self.burst_bytes | self.cburst_bytes | u64::from(self.quantum_bytes);
        self.rate_bps | self.ceil_bps | sizes | u64::from(self.prio) != 0 || self.curves.is_some()
    }
    /// # Errors
    /// It cannot be a class of drr.
    fn check_quantum(&self) -> Result<(), ScenarioError> {
        let others = self.rate_bps | self.ceil_bps | self.burst_bytes | self.cburst_bytes;
        if others | u64::from(self.prio) != 0 || self.quantum_bytes == 0 {
            return Err(ScenarioError(format!("class {} of drr has a quantum only", self.id)));
        }
        Ok(())
    }
}

/// Whether these classes of htb or hfsc, sorted by number, form a valid tree.
///
/// # Errors
/// One sentence.
fn check_nesting<Q>(classes: &[ClassSpec<Q>], name: &str) -> Result<(), ScenarioError> {
    let wrong = |class: &ClassSpec<Q>, text: &str| {
        Err(ScenarioError(format!("class {} of {name} {text}", class.id)))
    };
    for class in classes {
        let (mut above, mut depth) = (class, 1);
        while let Some(parent) = &above.parent {
            let Some(place) = find(classes, parent) else {
                return wrong(above, &format!("has no class {parent} above it"));
            };
            above = &classes[place];
            depth += 1;
            if depth > htb::LEVELS {
                return wrong(class, "has more than seven classes above it, or itself");
            }
            if above.qdisc.is_some() {
                return wrong(above, "has a qdisc and classes below it");
            }
        }
    }
    let above: BTreeSet<_> =
        classes.iter().filter_map(|c| c.parent.as_deref()).map(parse_id).collect();
    let is_above = |id: &str| above.contains(&parse_id(id));
    match classes.iter().find(|class| class.qdisc.is_none() && !is_above(&class.id)) {
        Some(class) => wrong(class, "has neither a qdisc nor classes below it"),
        None => Ok(()),
    }
}

fn find<Q>(classes: &[ClassSpec<Q>], id: &str) -> Option<usize> {
    let number = parse_id(id)?;
    classes.binary_search_by_key(&Some(number), |class| parse_id(&class.id)).ok()
}

/// A packet matches if it has all given properties; `host` sends or receives it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Filter"))]
#[serde(deny_unknown_fields)]
pub struct FilterSpec {
    pub class: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecn: Option<Ecn>,
    /// The number of a host with a name, or of the flow group whose sending host it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<u32>,
    /// A policer of the packets that match, in `tc`'s words, without "police" itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub policer: Option<PoliceConfig>,
}

impl FilterSpec {
    /// Whether it takes the packet of its host.
    #[inline]
    fn fits<P: Pkt>(&self, pkt: &P) -> bool {
        self.dscp.is_none_or(|dscp| pkt.dscp() == dscp)
            && self.ecn.is_none_or(|ecn| pkt.ecn() == ecn)
    }
}

/// The queues of a link: one, or a tree of them.
#[derive(Clone, PartialEq, Debug)]
pub enum Queue {
    One(QdiscConfig),
    Tree(Box<TreeConfig>),
}

impl Queue {
    /// Reads the words of a queue, with its classes if it holds some.
    ///
    /// # Errors
    /// One sentence that names the class and the fix.
    pub fn new(
        words: &str,
        classes: Vec<ClassSpec<String>>,
        filters: Vec<FilterSpec>,
    ) -> Result<Queue, ScenarioError> {
        let wrong = |e: Refused| ScenarioError(e.to_string());
        match Root::parse(words, !classes.is_empty()) {
            None if classes.is_empty() && filters.is_empty() => {
                Ok(Queue::One(registry::parse(words).map_err(wrong)?))
            }
            None => Err(ScenarioError(format!("{words} holds no classes"))),
            Some(root) => {
                let tree = TreeConfig::new(root.map_err(wrong)?, classes, filters)?;
                Ok(Queue::Tree(Box::new(tree)))
            }
        }
    }
    pub fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        match self {
            Queue::One(qdisc) => qdisc.build(link),
            Queue::Tree(tree) => tree.build(link),
        }
    }
    /// The columns of the time series that it adds; none for several queues, which would share a column.
    pub fn gauges(&self) -> Vec<Gauge> {
        match self {
            Queue::One(qdisc) => qdisc.gauges(),
            Queue::Tree(_) => Vec::new(),
        }
    }
}

/// A whole tree.
#[derive(Clone, PartialEq, Debug)]
pub struct TreeConfig {
    root: Root,
    /// By number.
    classes: Vec<ClassSpec<Queue>>,
    /// Each with the leaf that it leads to.
    filters: Vec<(FilterSpec, usize)>,
    /// The class of unmatched packets, by priority.
    others: [usize; PRIORITIES],
}

/// No class.
const NOWHERE: usize = usize::MAX;

impl TreeConfig {
    fn new(
        root: Root,
        classes: Vec<ClassSpec<String>>,
        filters: Vec<FilterSpec>,
    ) -> Result<TreeConfig, ScenarioError> {
        let wrong = |text: String| Err(ScenarioError(text));
        if let Some(class) = classes.iter().find(|class| parse_path(&class.id).is_none()) {
            return wrong(format!("\"{}\" is not the number of a class", class.id));
        }
        // The classes and filters of queues in classes, by the number of the class.
        let mut inside: BTreeMap<Option<u16>, (Vec<_>, Vec<_>)> = BTreeMap::new();
        let mut own = Vec::new();
        for class in classes {
            match class.split() {
                (None, class) => own.push(class),
                (Some(outer), class) => inside.entry(parse_id(&outer)).or_default().0.push(class),
            }
        }
        let mut own_filters = Vec::new();
        for filter in filters {
            match filter.class.split_once(':') {
                None => own_filters.push(filter),
                Some((outer, class)) => {
                    let filter = FilterSpec { class: class.to_owned(), ..filter };
                    inside.entry(parse_id(outer)).or_default().1.push(filter);
                }
            }
        }
        let mut classes = Vec::new();
        for class in own {
            let (below, filters) = inside.remove(&parse_id(&class.id)).unwrap_or_default();
            let qdisc = match &class.qdisc {
                Some(words) => Some(Queue::new(words, below, filters)?),
                None if below.is_empty() && filters.is_empty() => None,
                None => return wrong(format!("class {} has no qdisc to hold classes", class.id)),
            };
            classes.push(class.with(qdisc));
        }
        if let Some(number) = inside.into_keys().next() {
            let number = number.map(|number| format!("{number:x}")).unwrap_or_default();
            return wrong(format!("there is no class {number} whose qdisc could hold classes"));
        }
        classes.sort_by_key(|class| parse_id(&class.id));
        if classes.windows(2).any(|two| parse_id(&two[0].id) == parse_id(&two[1].id)) {
            return wrong("two classes have the same number".to_owned());
        }
        let leaves = classes.iter().filter(|class| class.qdisc.is_some());
        let leaves: Vec<_> = leaves.filter_map(|class| parse_id(&class.id)).collect();
        let leaf = |id: &str| {
            let found = parse_id(id).and_then(|number| leaves.binary_search(&number).ok());
            found.ok_or_else(|| ScenarioError(format!("there is no class {id} with a qdisc")))
        };
        let every_band = |bands: u8, name: &str| {
            for band in 1..=bands {
                leaf(&format!("{band:x}"))?;
            }
            if classes.len() != usize::from(bands) {
                let text = format!("{name} has classes 1 to {bands:x}");
                return Err(ScenarioError(text));
            }
            Ok(())
        };
        let others = match &root {
            Root::Htb(HtbConfig { default, .. }) | Root::Hfsc(HfscConfig { default }) => {
                [leaf(&format!("{default:x}"))?; PRIORITIES]
            }
            Root::Prio(config) => {
                every_band(config.bands, PrioConfig::NAME)?;
                config.priomap.map(usize::from)
            }
            Root::Ets(config) => {
                every_band(config.bands, EtsConfig::NAME)?;
                std::array::from_fn(|n| config.priomap[n].into())
            }
            Root::Drr(_) => {
                for class in &classes {
                    leaf(&class.id)?;
                    class.check_quantum()?;
                }
                [NOWHERE; PRIORITIES]
            }
            Root::Tbf(_) => {
                leaf("1")?;
                if classes.len() > 1 || !own_filters.is_empty() {
                    return wrong("tbf has class 1 and no filters".to_owned());
                }
                [0; PRIORITIES]
            }
        };
        match root {
            Root::Htb(_) => {
                classes.iter().try_for_each(htb::check_numbers)?;
                check_nesting(&classes, HtbConfig::NAME)?;
            }
            Root::Hfsc(_) => {
                classes.iter().try_for_each(hfsc::check_curves)?;
                check_nesting(&classes, HfscConfig::NAME)?;
            }
            _ => {}
        }
        let filters: Result<_, ScenarioError> =
            own_filters.into_iter().map(|f| leaf(&f.class).map(|leaf| (f, leaf))).collect();
        Ok(TreeConfig { filters: filters?, root, classes, others })
    }

    /// Whether a class can change in this way during a run: to another qdisc, or to other numbers, which must be
    /// complete.
    ///
    /// # Errors
    /// One sentence that names the class and the fix.
    pub fn check_change(&self, to: &ClassSpec<String>) -> Result<(), ScenarioError> {
        let wrong = |text: &str| Err(ScenarioError(format!("class {} {text}", to.id)));
        let (outer, inner) = to.clone().split();
        let number = parse_id(outer.as_ref().unwrap_or(&to.id));
        let Some(class) = self.classes.iter().find(|class| parse_id(&class.id) == number) else {
            return wrong("is not there, and none comes while it runs");
        };
        match (&class.qdisc, outer) {
            (Some(Queue::Tree(tree)), Some(_)) => return tree.check_change(&inner),
            (_, Some(_)) => return wrong("is not there, and none comes while it runs"),
            (Some(Queue::Tree(_)), None) if to.qdisc.is_some() => {
                return wrong("has a qdisc that holds classes, which stays while it runs");
            }
            _ => {}
        }
        if to.parent.is_some() {
            return wrong("keeps its parent while it runs");
        }
        if to.qdisc.is_some() && class.qdisc.is_none() {
            return wrong("has others below it and no qdisc");
        }
        match (&self.root, to.has_numbers()) {
            (Root::Htb(_), true) => htb::check_numbers(to),
            (Root::Hfsc(_), true) => hfsc::check_curves(to),
            (Root::Drr(_), true) => to.check_quantum(),
            (Root::Prio(_), true) => wrong("is a band of prio and has a qdisc only"),
            (Root::Ets(_), true) => wrong("is a band of ets and has a qdisc only"),
            (Root::Tbf(_), true) => wrong("is the class of tbf and has a qdisc only"),
            (_, false) if to.qdisc.is_none() => wrong("changes by nothing; give a qdisc or rates"),
            (_, false) => Ok(()),
        }
    }

    /// The initial queues of the classes, except queues that hold classes.
    pub fn qdiscs(&self) -> Vec<(Vec<u16>, &QdiscConfig)> {
        let mut found = Vec::new();
        for class in &self.classes {
            let path: Vec<_> = parse_id(&class.id).into_iter().collect();
            match &class.qdisc {
                Some(Queue::One(qdisc)) => found.push((path, qdisc)),
                Some(Queue::Tree(tree)) => {
                    let inside = tree.qdiscs().into_iter();
                    found.extend(inside.map(|(rest, qdisc)| ([&path[..], &rest].concat(), qdisc)));
                }
                None => {}
            }
        }
        found
    }

    /// What may come to each of the queues that [`TreeConfig::qdiscs`] gives; `None`: nothing.
    pub fn loads(&self, hosts: &Hosts, groups: &[([Host; 2], Load)]) -> Vec<Option<Load>> {
        let (mut of_host, mut all) = (BTreeMap::<Host, Load>::new(), None);
        for ([one, other], load) in groups {
            Load::add(&mut all, load);
            let ends = [Some(one), Some(other).filter(|other| *other != one)];
            for host in ends.into_iter().flatten() {
                of_host.entry(*host).and_modify(|sum| *sum += *load).or_insert(*load);
            }
        }
        // The hosts whose packets come to each leaf; `None`: any host's.
        let mut takes: BTreeMap<usize, BTreeSet<Option<Host>>> = BTreeMap::new();
        let mut whole = BTreeSet::new();
        for (filter, leaf) in &self.filters {
            let host = filter.host.map(|number| hosts.find(number));
            takes.entry(*leaf).or_default().insert(host);
            if filter.dscp.is_none() && filter.ecn.is_none() && filter.policer.is_none() {
                whole.insert(host);
            }
        }
        let is_taken = |hosts: &[Host; 2]| hosts.iter().any(|host| whole.contains(&Some(*host)));
        let mut rest = None;
        let others = groups.iter().filter(|(hosts, _)| !whole.contains(&None) && !is_taken(hosts));
        others.for_each(|(_, load)| Load::add(&mut rest, load));
        let come = |leaf: usize| {
            let mut sum = if self.others.contains(&leaf) { rest } else { None };
            for host in takes.get(&leaf).into_iter().flatten() {
                let load = host.map_or(all, |host| of_host.get(&host).copied());
                load.into_iter().for_each(|load| Load::add(&mut sum, &load));
            }
            sum
        };
        let queues = self.classes.iter().filter_map(|class| class.qdisc.as_ref()).enumerate();
        let each = queues.map(|(leaf, queue)| match (queue, come(leaf)) {
            (Queue::Tree(tree), Some(_)) => tree.loads(hosts, groups),
            (Queue::Tree(tree), None) => vec![None; tree.qdiscs().len()],
            (Queue::One(_), load) => vec![load],
        });
        each.flatten().collect()
    }

    /// Whether one of its queues cuts offloaded packets.
    pub fn splits(&self) -> bool {
        let inside = |class: &ClassSpec<Queue>| match &class.qdisc {
            Some(Queue::One(qdisc)) => qdisc.splits(),
            Some(Queue::Tree(tree)) => tree.splits(),
            None => false,
        };
        matches!(&self.root, Root::Tbf(config) if config.splits())
            || self.classes.iter().any(inside)
    }

    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        let mut leaves = Vec::new();
        let mut names = Vec::new();
        let tbf = match &self.root {
            Root::Tbf(config) => Some(config),
            _ => None,
        };
        for class in &self.classes {
            let Some(queue) = &class.qdisc else { continue };
            let ceil = (class.ceil_bps > 0).then(|| Rate::from_bps(class.ceil_bps));
            let ceil = ceil.or(tbf.map(|config| config.rate));
            let aqm = queue.build(below(ceil, link));
            let holds_classes = matches!(queue, Queue::Tree(_));
            let id = class.id.clone();
            let (timer, band) = (Time::NEVER, names.len());
            leaves.push(Leaf { timer, band, holds_classes, id, aqm, head: None });
            match queue {
                Queue::Tree(_) => {
                    let inside = leaves[leaves.len() - 1].aqm.bands().iter();
                    names.extend(inside.map(|name| format!("{}:{name}", class.id)));
                }
                Queue::One(_) => names.push(class.id.clone()),
            }
        }
        let filters = self.filters.iter().map(|(spec, leaf)| Filter::new(spec, *leaf, link.now));
        let mut tree = Tree {
            timers: Timers::default(),
            leaves,
            filters: filters.collect(),
            of_host: BTreeMap::new(),
            of_any: Vec::new(),
            others: self.others,
            htb: matches!(self.root, Root::Htb(_)).then(|| Htb::new(&self.classes, link.now)),
            tbf: tbf.map(|config| Shaper::new(config, link.now)),
            rounds: match &self.root {
                Root::Drr(_) => {
                    Some(Rounds::new(0, self.classes.iter().map(|class| class.quantum_bytes)))
                }
                Root::Ets(config) => {
                    let strict = usize::from(config.strict);
                    let none = std::iter::repeat_n(0, strict);
                    Some(Rounds::new(strict, none.chain(config.quanta.iter().copied())))
                }
                _ => None,
            },
            hfsc: matches!(self.root, Root::Hfsc(_)).then(|| Hfsc::new(&self.classes)),
            names: interned(names),
            wake: Time::NEVER,
            drops: Vec::new(),
            reads_sacks: false,
            hosts: Hosts::default(),
        };
        for number in 0..tree.leaves.len() {
            tree.look_at(number);
        }
        tree.sort_filters();
        Box::new(tree)
    }
}

/// What may come to a queue: so many packets, and the shortest frame of a group.
#[derive(Copy, Clone, Debug)]
pub struct Load {
    pub packets: f64,
    pub frame: u32,
}

impl Load {
    fn add(sum: &mut Option<Load>, more: &Load) {
        match sum {
            Some(sum) => *sum += *more,
            None => *sum = Some(*more),
        }
    }
}

impl std::ops::AddAssign for Load {
    fn add_assign(&mut self, more: Load) {
        self.packets += more.packets;
        self.frame = self.frame.min(more.frame);
    }
}

/// Names live as long as the program; there are as many as there are trees in its experiments.
fn interned(names: Vec<String>) -> &'static [&'static str] {
    static ALL: RwLock<BTreeMap<Vec<String>, &'static [&'static str]>> =
        RwLock::new(BTreeMap::new());
    let mut all = ALL.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    all.entry(names.clone()).or_insert_with(|| {
        let names: Vec<&'static str> = names.into_iter().map(|name| &*name.leak()).collect();
        names.leak()
    })
}

/// The queue of a class.
struct Leaf<P> {
    aqm: Box<dyn Aqm<P>>,
    /// When its timer is due, by its last answer.
    timer: Time,
    /// Its number among the bands of the tree, or that of the first of its classes.
    band: usize,
    holds_classes: bool,
    id: String,
    /// The packet that it gave away to be looked at: it waits outside of the queue (`qdisc_peek_dequeued`).
    head: Option<Head<P>>,
}

impl<P: Pkt> Leaf<P> {
    fn held(&self) -> Backlog {
        self.head.as_ref().map_or(Backlog::default(), |head| Backlog {
            packets: 1,
            bytes: head.pkt.frame_len().into(),
        })
    }
    fn waiting(&self) -> Backlog {
        let (queue, held) = (self.aqm.backlog(), self.held());
        Backlog { packets: queue.packets + held.packets, bytes: queue.bytes + held.bytes }
    }
}

/// The link as the queue of a class sees it: with the class's ceiling as rate.
fn below(ceil: Option<Rate>, link: LinkInfo) -> LinkInfo {
    LinkInfo { rate: ceil.map_or(link.rate, |ceil| ceil.min(link.rate)), ..link }
}

/// A filter at work, with the leaf that it leads to.
struct Filter {
    spec: FilterSpec,
    policer: Option<Policer>,
    leaf: usize,
}

impl Filter {
    fn new(spec: &FilterSpec, leaf: usize, now: Time) -> Filter {
        let policer = spec.policer.as_ref().map(|config| Policer::new(config, now));
        Filter { spec: spec.clone(), policer, leaf }
    }
}

/// A tbf with a class. It looks at the next packet, which waits for tokens.
struct Shaper {
    buckets: Buckets,
    largest: u32,
}

/// A packet that was looked at, with what its queue has said of it.
struct Head<P> {
    pkt: P,
    band: usize,
    marks: Marks,
}

impl Shaper {
    fn new(config: &TbfConfig, now: Time) -> Shaper {
        Shaper { buckets: config.buckets(now), largest: config.largest() }
    }
}

/// When timers of leaves are due, without those that never are.
#[derive(Default)]
struct Timers(BTreeSet<(Time, usize)>);

impl Timers {
    /// The leaf with this number is due then, no longer at `before`.
    #[inline]
    fn set(&mut self, number: usize, before: &mut Time, to: Time) {
        if *before != to {
            self.0.remove(&(*before, number));
            if to != Time::NEVER {
                self.0.insert((to, number));
            }
            *before = to;
        }
    }
    fn next(&self) -> Time {
        self.0.first().map_or(Time::NEVER, |(due, _)| *due)
    }
    /// The leaves that are due, by their numbers.
    fn due(&self, now: Time) -> Vec<usize> {
        let due = self.0.iter().take_while(|(due, _)| *due <= now);
        let mut numbers: Vec<_> = due.map(|(_, number)| *number).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// The tree at work. Nothing that it does for a packet takes longer with more classes that are idle.
struct Tree<P> {
    leaves: Vec<Leaf<P>>,
    timers: Timers,
    filters: Vec<Filter>,
    /// Places of the filters of each host, by its hash, and of those of any.
    of_host: BTreeMap<u32, Vec<usize>>,
    of_any: Vec<usize>,
    others: [usize; PRIORITIES],
    /// Whose turn it is; without, the first that has a packet.
    htb: Option<Htb>,
    /// When the only class may send.
    tbf: Option<Shaper>,
    rounds: Option<Rounds>,
    hfsc: Option<Hfsc>,
    names: &'static [&'static str],
    /// When a class may send again.
    wake: Time,
    /// A leaf's reports of the current call.
    drops: Vec<Dropped<P>>,
    /// One of the leaves reads SACK blocks.
    reads_sacks: bool,
    hosts: Hosts,
}

impl<P: Pkt> Tree<P> {
    /// The queue of this leaf is another one.
    fn look_at(&mut self, number: usize) {
        let leaf = &mut self.leaves[number];
        self.timers.set(number, &mut leaf.timer, leaf.aqm.next_timer());
        self.reads_sacks |= leaf.aqm.sacks().is_some();
    }

    fn sort_filters(&mut self) {
        (self.of_host, self.of_any) = Default::default();
        for (place, filter) in self.filters.iter().enumerate() {
            match filter.spec.host {
                None => self.of_any.push(place),
                Some(number) => {
                    let host = self.hosts.find(number).hash();
                    self.of_host.entry(host).or_default().push(place);
                }
            }
        }
    }

    /// A leaf has dropped its last packets (`qlen_notify`).
    fn emptied(&mut self, number: usize) {
        if let Some(htb) = &mut self.htb {
            htb.emptied(number);
        }
        if let Some(rounds) = &mut self.rounds {
            rounds.emptied(number);
        }
        if let Some(hfsc) = &mut self.hfsc {
            hfsc.emptied(number);
        }
    }

    /// The leaf for a packet, and whether its filter drops it.
    fn classify(&mut self, pkt: &P, now: Time) -> (usize, bool) {
        let of_host = |host: u32| self.of_host.get(&host).map_or(&[][..], Vec::as_slice);
        let mut places = [&self.of_any[..], &[], &[]];
        if !self.of_host.is_empty() {
            places[1] = of_host(pkt.source_hash(&self.hosts));
            places[2] = of_host(pkt.destination_hash(&self.hosts));
        }
        while let Some(place) = places.iter().filter_map(|places| places.first().copied()).min() {
            for places in &mut places {
                *places = places.strip_prefix(&[place]).unwrap_or(places);
            }
            let filter = &mut self.filters[place];
            if !filter.spec.fits(pkt) {
                continue;
            }
            match filter.policer.as_mut().map(|policer| policer.judge(pkt, now)) {
                Some(Action::Drop) => return (filter.leaf, true),
                Some(Action::Continue) => {}
                Some(Action::Pass) | None => return (filter.leaf, false),
            }
        }
        (self.others[priority(pkt)], false)
    }
}

/// Calls a leaf. Its classes are bands of the tree; the bands of any other queue count as the leaf's.
fn call<P: Pkt, T>(
    leaf: &mut Leaf<P>,
    drops: &mut Vec<Dropped<P>>,
    cx: &mut QueueCx<P>,
    what: impl FnOnce(&mut dyn Aqm<P>, &mut QueueCx<P>) -> T,
) -> T {
    let (first, holds_classes) = (leaf.band, leaf.holds_classes);
    let outside = |band: usize| first + if holds_classes { band } else { 0 };
    let mut inside = QueueCx::new(cx.now, cx.rng, drops);
    inside.held = leaf.held();
    let result = what(&mut *leaf.aqm, &mut inside);
    let (marks, duplicates, copied) = (inside.marks, inside.duplicates, inside.copied.take());
    cx.band = outside(inside.band);
    (cx.marks, cx.duplicates) = (marks, cx.duplicates + duplicates);
    cx.copied = copied.or(cx.copied.take());
    let told = drops.drain(..);
    cx.drops.extend(told.map(|dropped| Dropped { band: outside(dropped.band), ..dropped }));
    result
}

/// The next packet of the leaf with this number. If it gives none, its timer is looked up.
fn take<P: Pkt>(
    number: usize,
    leaf: &mut Leaf<P>,
    timers: &mut Timers,
    drops: &mut Vec<Dropped<P>>,
    cx: &mut QueueCx<P>,
) -> Option<P> {
    let pkt = call(leaf, drops, cx, |aqm, cx| aqm.dequeue(cx));
    if pkt.is_none() {
        timers.set(number, &mut leaf.timer, leaf.aqm.next_timer());
    }
    pkt
}

/// The length of the leaf's next packet, which stays in its queue if that can show it.
fn peek<P: Pkt>(
    number: usize,
    leaf: &mut Leaf<P>,
    timers: &mut Timers,
    drops: &mut Vec<Dropped<P>>,
    cx: &mut QueueCx<P>,
) -> Option<u32> {
    if leaf.head.is_none() {
        let shown = leaf.aqm.next_len();
        if shown.is_some() {
            return shown;
        }
        let pkt = take(number, leaf, timers, drops, cx)?;
        leaf.head = Some(Head { pkt, band: cx.current_band(), marks: cx.marks() });
        cx.marks = Marks::default();
    }
    leaf.head.as_ref().map(|head| head.pkt.frame_len())
}

/// The same for hfsc, for which a packet that its queue does not show has no length. `None`: nothing waits.
fn look<P: Pkt>(
    number: usize,
    leaf: &mut Leaf<P>,
    timers: &mut Timers,
    drops: &mut Vec<Dropped<P>>,
    cx: &mut QueueCx<P>,
) -> Option<u32> {
    let length = peek(number, leaf, timers, drops, cx);
    (leaf.waiting().packets > 0).then(|| length.unwrap_or(0))
}

/// The next packet of the leaf, which may have been looked at.
fn take_peeked<P: Pkt>(
    number: usize,
    leaf: &mut Leaf<P>,
    timers: &mut Timers,
    drops: &mut Vec<Dropped<P>>,
    cx: &mut QueueCx<P>,
) -> Option<P> {
    let Some(head) = leaf.head.take() else { return take(number, leaf, timers, drops, cx) };
    (cx.band, cx.marks) = (head.band, head.marks);
    Some(head.pkt)
}

impl<P: Pkt + Send + 'static> Aqm<P> for Tree<P> {
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        let (number, is_dropped) = self.classify(&pkt, cx.now);
        let Some(leaf) = self.leaves.get_mut(number) else {
            return cx.drop(pkt, DropReason::Aqm);
        };
        if is_dropped {
            cx.band(leaf.band);
            return cx.drop(pkt, DropReason::Policer);
        }
        if self.tbf.as_ref().is_some_and(|tbf| pkt.frame_len() > tbf.largest) {
            cx.band(leaf.band);
            return cx.drop(pkt, DropReason::Aqm);
        }
        let (length, was_empty) = (pkt.frame_len(), leaf.waiting().packets == 0);
        call(leaf, &mut self.drops, cx, |aqm, cx| aqm.enqueue(pkt, cx));
        if leaf.waiting().packets == 0 {
            if !was_empty {
                self.emptied(number);
            }
            return;
        }
        if let Some(htb) = &mut self.htb {
            htb.activate(number);
        }
        if let Some(rounds) = &mut self.rounds {
            rounds.activate(number);
        }
        if let Some(hfsc) = &mut self.hfsc
            && was_empty
            && hfsc.activate(number, length, cx.now)
        {
            look(number, leaf, &mut self.timers, &mut self.drops, cx);
        }
    }

    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        let (leaves, timers, drops) = (&mut self.leaves, &mut self.timers, &mut self.drops);
        if let Some(htb) = &mut self.htb {
            let sent = htb.dequeue(cx.now, |number| {
                let leaf = &mut leaves[number];
                if leaf.aqm.backlog().packets == 0 {
                    return htb::Turn::Empty;
                }
                match take(number, leaf, timers, drops, cx) {
                    None => htb::Turn::HeldBack,
                    Some(pkt) => {
                        let (bytes, more) = (pkt.frame_len(), leaf.aqm.backlog().packets > 0);
                        htb::Turn::Sent { pkt, bytes, more }
                    }
                }
            });
            self.wake = if sent.is_none() { htb.next_event() } else { Time::NEVER };
            return sent;
        }
        if let Some(tbf) = &mut self.tbf {
            self.wake = Time::NEVER;
            let length = peek(0, &mut leaves[0], timers, drops, cx)?;
            if let Err(missing) = tbf.buckets.take(cx.now, length) {
                self.wake = cx.now + missing;
                return None;
            }
            return take_peeked(0, &mut leaves[0], timers, drops, cx);
        }
        if let Some(rounds) = &mut self.rounds {
            return rounds.dequeue(leaves, timers, drops, cx);
        }
        if let Some(hfsc) = &mut self.hfsc {
            let Some(turn) = hfsc.turn(cx.now) else {
                self.wake = hfsc.next_event();
                return None;
            };
            self.wake = Time::NEVER;
            let (number, leaf) = (turn.leaf, &mut leaves[turn.leaf]);
            let lost = cx.drops.len();
            let sent = take_peeked(number, leaf, timers, drops, cx);
            let is_empty = leaf.waiting().packets == 0;
            if is_empty && cx.drops.len() > lost && leaf.aqm.tells_drops_late() {
                hfsc.emptied(number);
            }
            let pkt = sent?;
            if hfsc.sent(turn, pkt.frame_len(), is_empty) {
                let (band, marks) = (cx.current_band(), cx.marks());
                if let Some(length) = look(number, leaf, timers, drops, cx) {
                    hfsc.looked(turn, length);
                }
                (cx.band, cx.marks) = (band, marks);
            }
            return Some(pkt);
        }
        // An empty band is asked, too: in fair queueing, flows leave their lists then.
        let mut leaves = leaves.iter_mut().enumerate();
        leaves.find_map(|(number, leaf)| take(number, leaf, timers, drops, cx))
    }

    fn backlog(&self) -> Backlog {
        self.leaves.iter().map(Leaf::waiting).fold(Backlog::default(), |sum, one| Backlog {
            packets: sum.packets + one.packets,
            bytes: sum.bytes + one.bytes,
        })
    }
    /// Only prio asks its queues (`prio_peek`).
    fn next_len(&self) -> Option<u32> {
        let is_prio = self.htb.is_none() && self.tbf.is_none() && self.rounds.is_none();
        let mut leaves = self.leaves.iter().filter(|leaf| leaf.aqm.backlog().packets > 0);
        leaves.next().filter(|_| is_prio)?.aqm.next_len()
    }
    fn next_timer(&self) -> Time {
        self.timers.next().min(self.wake)
    }
    fn on_timer(&mut self, cx: &mut QueueCx<P>) {
        for number in self.timers.due(cx.now) {
            let leaf = &mut self.leaves[number];
            call(leaf, &mut self.drops, cx, |aqm, cx| aqm.on_timer(cx));
            self.timers.set(number, &mut leaf.timer, leaf.aqm.next_timer());
        }
        if self.wake <= cx.now {
            self.wake = Time::NEVER;
        }
    }
    fn bands(&self) -> &'static [&'static str] {
        self.names
    }
    fn hosts(&mut self) -> Option<&mut dyn ReadsHosts> {
        Some(self)
    }
    fn sacks(&mut self) -> Option<&mut dyn ReadsSacks> {
        self.reads_sacks.then_some(self)
    }
    fn classes(&mut self) -> Option<&mut dyn Classes<P>> {
        Some(self)
    }
}

impl<P: Pkt> ReadsHosts for Tree<P> {
    fn know_hosts(&mut self, hosts: &Hosts) {
        for leaf in &mut self.leaves {
            set_hosts(&mut *leaf.aqm, hosts);
        }
        self.hosts = hosts.clone();
        self.sort_filters();
    }
}

impl<P: Pkt> ReadsSacks for Tree<P> {
    fn learn_sack(&mut self, slot: SackSlot, blocks: Blocks) {
        for leaf in &mut self.leaves {
            if let Some(queue) = leaf.aqm.sacks() {
                queue.learn_sack(slot, blocks);
            }
        }
    }
}

impl<P: Pkt + Send + 'static> Classes<P> for Tree<P> {
    fn change_class(&mut self, to: &ClassSpec, link: LinkInfo, cx: &mut QueueCx<P>) {
        let (outer, inner) = to.clone().split();
        if let (Some(htb), None) = (&mut self.htb, &outer)
            && to.has_numbers()
        {
            htb.change(to);
        }
        let id = parse_id(outer.as_ref().unwrap_or(&to.id));
        let number = self.leaves.iter().position(|leaf| parse_id(&leaf.id) == id);
        if let (Some(hfsc), None, true) = (&mut self.hfsc, &outer, to.curves.is_some()) {
            let leaf = number.and_then(|number| self.leaves.get_mut(number));
            let waiting = leaf.filter(|leaf| leaf.waiting().packets > 0).zip(number);
            let length = waiting.and_then(|(leaf, number)| {
                look(number, leaf, &mut self.timers, &mut self.drops, cx)
            });
            hfsc.change(to, cx.now, length);
        }
        let Some(number) = number else { return };
        if let (Some(rounds), true) = (&mut self.rounds, outer.is_none() && to.quantum_bytes > 0) {
            rounds.change(number, to.quantum_bytes);
        }
        let link = below(self.htb.as_ref().map(|htb| htb.ceil(number)), link);
        let (leaf, drops) = (&mut self.leaves[number], &mut self.drops);
        if outer.is_some() {
            call(leaf, drops, cx, |aqm, cx| {
                if let Some(classes) = aqm.classes() {
                    classes.change_class(&inner, link, cx);
                }
            });
        } else if let Some(qdisc) = &to.qdisc {
            let parameters = qdisc.parameters();
            let before = leaf.aqm.backlog().packets;
            let head = leaf.head.take();
            let changed = call(leaf, drops, cx, |aqm, cx| aqm.change(parameters, cx));
            // Linux drops the packet that was looked at first (`qdisc_dequeue_internal`).
            let is_shorter = changed.is_ok() && leaf.aqm.backlog().packets < before;
            match head {
                Some(head) if is_shorter => {
                    cx.band(leaf.band);
                    cx.drop(head.pkt, DropReason::Overflow);
                }
                kept => leaf.head = kept,
            }
            if let Err(waiting) = changed {
                let mut lost = Vec::new();
                if !purge(&mut *leaf.aqm, cx.now, cx.rng, &mut |dropped| lost.push(dropped)) {
                    own::fail(format!("class {}: its queue has packets and never lets go", to.id));
                }
                lost.into_iter().for_each(|dropped| cx.drop(dropped.pkt, dropped.why));
                if let Some(head) = leaf.head.take() {
                    cx.drop(head.pkt, DropReason::Replaced);
                }
                leaf.aqm = qdisc.build(link);
                set_hosts(&mut *leaf.aqm, &self.hosts);
                for pkt in waiting {
                    call(leaf, drops, cx, |aqm, cx| aqm.enqueue(pkt, cx));
                }
            }
        } else {
            return;
        }
        self.look_at(number);
        if self.leaves[number].waiting().packets == 0 {
            self.emptied(number);
        }
    }
}
