//! Policers (Linux `net/sched/act_police.c`, 7.2; words of iproute2's `tc/m_police.c`).
//!
//! One or two token buckets as in [`tbf`], without a queue: a packet that finds its tokens takes them and
//! passes at once, any other one exceeds the rate. So does a packet above `mtu` bytes. An offloaded packet takes the
//! tokens of all its segments together, and only one segment counts for `mtu`.

use std::any::Any;

use serde::Deserialize;

use super::tbf::{self, Buckets, Framing, LinkLayer, Peak};
use super::{Aqm, Backlog, Classes, DropReason, Pkt, QueueCx, ReadsHosts, ReadsSacks};
use crate::params::kinds::{Spec, count, params, size, value};
use crate::params::{self, Described, Given, Refused};
use crate::probe::Gauges;
use crate::time::Time;
use crate::units::Rate;

/// Without `mtu`: what fits into 255 cells of `tc`'s rate table for 2047 bytes.
const MTU: u32 = 255 << 3;

params! {
    /// The parameters, by their names in `tc`.
    pub struct PoliceConfig {
        /// fill rate of the bucket; required
        rate: Rate = Rate::from_bps(0), tbf::rate(), "";
        /// size of the bucket; required
        burst: u32 = 0, tbf::size_and_cell().called(&["burst", "buffer", "maxburst"]), "";
        /// longest packet that can conform, and with peakrate the size of the second bucket
        mtu: u32 = MTU, tbf::size_and_cell().called(&["mtu", "minburst"]).default("2040b"), "tc";
        /// fill rate of a second bucket of mtu bytes
        peakrate: Option<Rate> = None, tbf::rate().optional(), "";
        /// smallest size that a packet counts as
        mpu: u32 = 0, size(0..=u32::MAX), "tc";
        /// bytes added to each packet
        overhead: u16 = 0, count(0..=u16::MAX).shown("BYTES"), "tc";
        /// atm (or adsl) counts whole cells
        linklayer: LinkLayer = LinkLayer::Ethernet, tbf::linklayer(), "tc";
        /// what happens to a packet that finds no tokens, and to one that finds them
        actions: Actions = Actions::DROP, actions(), "";
    }
}

/// What a filter does with a packet.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Action {
    Drop,
    /// It goes into the filter's class.
    Pass,
    /// The next filter looks at it.
    Continue,
}

const ACTIONS: [(Action, &str); 3] =
    [(Action::Drop, "drop"), (Action::Pass, "pass"), (Action::Continue, "continue")];

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Actions {
    pub exceed: Action,
    pub conform: Action,
}

impl Default for Actions {
    fn default() -> Actions {
        Actions::DROP
    }
}

impl Actions {
    const DROP: Actions = Actions { exceed: Action::Drop, conform: Action::Pass };
    fn exceeding(exceed: Action) -> impl Fn(&mut Actions) {
        move |actions| actions.exceed = exceed
    }
}

/// `reclassify` asks the same filter again, until the kernel drops the packet. `pipe` is for the next action, and there
/// is none.
fn action(word: &str) -> Option<Action> {
    let known = match word {
        "shot" | "reclassify" => "drop",
        "ok" | "pipe" => "pass",
        other => other,
    };
    ACTIONS.iter().find(|(_, name)| *name == known).map(|(action, _)| *action)
}

fn actions() -> Spec<Actions> {
    let name =
        |action: Action| ACTIONS.iter().find(|(one, _)| *one == action).map(|(_, name)| *name);
    let spec = value(
        "EXCEED[/CONFORM]",
        "drop, pass or continue, and such a word for packets that conform, as in drop/pass",
        |s| {
            let (exceed, conform) = s.split_once('/').unwrap_or((s, "pass"));
            Some(Actions { exceed: action(exceed)?, conform: action(conform)? })
        },
        move |actions| {
            [actions.exceed, actions.conform].map(|one| name(one).unwrap_or_default()).join("/")
        },
        |rng| {
            let one = |n: u64| ACTIONS[n as usize].1;
            format!("{}/{}", one(rng.below(3)), one(rng.below(3)))
        },
        ["none", "drop/none", "drop/"].map(str::to_owned).into(),
    );
    spec.called(&["conform-exceed"])
        .default("drop/pass")
        .also("drop", Actions::exceeding(Action::Drop), "drops what exceeds the rate")
        .also("pass", Actions::exceeding(Action::Pass), "passes it, too")
        .also("ok", Actions::exceeding(Action::Pass), "the same")
        .also("continue", Actions::exceeding(Action::Continue), "leaves it to the next filter")
}

impl Described for PoliceConfig {
    const NAME: &'static str = "police";
    const SUMMARY: &'static str =
        "policer of a link or a filter: token buckets that drop what finds no tokens";
    const REQUIRED: &'static str = "rate 100mbit burst 64kb";
    const ABBREVIATED: &'static [&'static str] = &["burst", "peakrate", "overhead", "linklayer"];
    const NOT_MODELLED: &'static [(&'static str, &'static str)] = &[
        ("avrate", "it needs the kernel's rate estimator; use rate and burst"),
        ("estimator", "it needs the kernel's rate estimator; use rate and burst"),
        ("pkts_rate", "buckets here hold bytes; use rate and burst"),
        ("pkts_burst", "buckets here hold bytes; use rate and burst"),
        ("index", "each policer has its own buckets; leave it out"),
    ];

    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        for words in
            [&["rate"][..], &["burst", "buffer", "maxburst"], &["mtu", "minburst"], &["peakrate"]]
        {
            if let [_, again, ..] = given.of(words)[..] {
                let fix = "it (or another word for it) is given twice; remove one".to_owned();
                return Err(given.refuse(again, "again".to_owned(), fix));
            }
        }
        // tc takes 32 bits and tells the kernel the lower 16.
        self.mpu &= u32::from(u16::MAX);
        if !given.has("rate") {
            return Err(given.missing("rate", "add rate, such as rate 100mbit"));
        }
        if self.burst == 0 {
            return Err(given.missing("burst", "add burst, such as burst 64kb"));
        }
        if self.peakrate.is_some() && given.of(&["mtu", "minburst"]).is_empty() {
            return Err(given.missing("mtu", "peakrate needs it; add mtu 2kb"));
        }
        tbf::check_buckets(given, self.rate, self.burst, self.peak())
    }
}

impl<'de> Deserialize<'de> for PoliceConfig {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<PoliceConfig, D::Error> {
        PoliceConfig::parse(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

impl PoliceConfig {
    /// Reads `tc`'s words, without or with "police" itself.
    ///
    /// # Errors
    /// One sentence that names the keyword, the value and the fix.
    pub fn parse(text: &str) -> Result<PoliceConfig, Refused> {
        let words = text.trim_start();
        params::read_words(words.strip_prefix("police ").unwrap_or(words).split_whitespace())
    }
    pub fn canonical(&self) -> String {
        params::write_words(self)
    }
    fn peak(&self) -> Option<Peak> {
        self.peakrate.map(|rate| Peak { rate, mtu: self.mtu })
    }
}

/// A policer at work.
#[derive(Copy, Clone, Debug)]
pub struct Policer {
    buckets: Buckets,
    mtu: u32,
    actions: Actions,
}

impl Policer {
    pub fn new(config: &PoliceConfig, now: Time) -> Policer {
        let PoliceConfig { overhead, mpu, linklayer, .. } = *config;
        let framing = Framing { overhead, mpu, linklayer };
        Policer {
            buckets: Buckets::full(framing, config.rate, config.burst, config.peak(), now),
            mtu: config.mtu,
            actions: config.actions,
        }
    }
    pub fn judge<P: Pkt>(&mut self, pkt: &P, now: Time) -> Action {
        let conforms =
            pkt.segment_len() <= self.mtu && self.buckets.take(now, pkt.frame_len()).is_ok();
        if conforms { self.actions.conform } else { self.actions.exceed }
    }
}

/// A queue behind the policer of its link.
pub struct Policed<P> {
    pub policer: Policer,
    pub queue: Box<dyn Aqm<P>>,
}

impl<P: Pkt + Send> Aqm<P> for Policed<P> {
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        match self.policer.judge(&pkt, cx.now) {
            Action::Drop => cx.drop(pkt, DropReason::Policer),
            Action::Pass | Action::Continue => self.queue.enqueue(pkt, cx),
        }
    }
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        self.queue.dequeue(cx)
    }
    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
    fn next_timer(&self) -> Time {
        self.queue.next_timer()
    }
    fn on_timer(&mut self, cx: &mut QueueCx<P>) {
        self.queue.on_timer(cx);
    }
    fn change(&mut self, to: &dyn Any, cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        self.queue.change(to, cx)
    }
    fn bands(&self) -> &'static [&'static str] {
        self.queue.bands()
    }
    fn waiting_in(&self, band: usize) -> u64 {
        self.queue.waiting_in(band)
    }
    fn probe(&self, out: &mut dyn Gauges) {
        self.queue.probe(out);
    }
    fn hosts(&mut self) -> Option<&mut dyn ReadsHosts> {
        self.queue.hosts()
    }
    fn sacks(&mut self) -> Option<&mut dyn ReadsSacks> {
        self.queue.sacks()
    }
    fn classes(&mut self) -> Option<&mut dyn Classes<P>> {
        self.queue.classes()
    }
    fn policed(&mut self) -> Option<&mut Policed<P>> {
        Some(self)
    }
}
