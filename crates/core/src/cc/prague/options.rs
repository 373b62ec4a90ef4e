//! The options of `prague`, and what the versions of the L4STeam module set them to.
//!
//! The law is one; versions differ in numbers and in how finely they count the window. Names are
//! those of the module's parameters without their prefix, where the module has one.

use super::classic_ecn::Fallback;
use super::fraction::Fraction;
use crate::params::kinds::{any_time, choice, count, params, switch};
use crate::params::{Described, Gauge, Given, Preset, Refused, gauge};
use crate::time::Span;

/// The packet size that one step of growth stands for.
pub const MTU_REFERENCE: u64 = 1500;

params! {
    pub struct Options {
        /// of the L4STeam module: "0.5" (2020), "0.6" (2021 to 2023), "0.7"; sets the defaults below
        version: &'static str = "0.7", choice("VERSION", [("0.5", "0.5"), ("0.6", "0.6"), ("0.7", "0.7")]), "";
        /// classic ECN queues: "off", "detect" only, "correct": detect and reduce by up to 31 %, "buggy24": so
        /// with the 20-bit constants in the 24-bit code
        fallback: Fallback = Fallback::Off, choice("MODE", [
            ("off", Fallback::Off),
            ("detect", Fallback::Detect),
            ("correct", Fallback::Correct),
            ("buggy24", Fallback::Buggy24),
        ]).module("prague_ecn_fallback", &[("off", "0"), ("correct", "1"), ("detect", "2")]), "L4STeam";
        /// "ignored": slow start goes on whatever is lost, until an ACK reports nothing but marks (as in 0.5)
        loss_in_slow_start: bool = false, choice("halves|ignored", [("halves", false), ("ignored", true)]), "L4STeam";
        /// "on": no reaction to a loss, timeouts excepted, as long as the fallback's detector takes the queue
        /// for L4S (as in a build of April 2020)
        ignore_loss_in_l4s: bool = false, switch(), "L4STeam";
        /// "on": the window grows also while something else limits what is in flight (as in 0.5)
        unlimited_growth: bool = false, switch(), "L4STeam";
        /// RTT below which the flow behaves as if at it; 0ms: no RTT independence
        rtt_target: Span = Span::from_millis(25), any_time().module("prague_rtt_target", &[]), "L4STeam";
        /// rounds after slow start before RTT independence begins
        rtt_transition: u32 = 4, count(0..=1_000_000).module("prague_rtt_transition", &[]), "L4STeam";
        /// RTT independence: "none", "rate", "scalable" (more marks at short RTTs), "additive" (the target on
        /// top of the RTT)
        rtt_scaling: Scaling = Scaling::Rate, choice("MODE", [
            ("none", Scaling::None),
            ("rate", Scaling::Rate),
            ("scalable", Scaling::Scalable),
            ("additive", Scaling::Additive),
        ]), "L4STeam";
        /// step in which RTT independence counts RTTs; 0us: exactly
        rtt_unit: Span = Span::ZERO, any_time(), "L4STeam";
        /// fractional bits of alpha
        alpha_bits: u32 = 24, choice("20|24", [("20", 20), ("24", 24)]), "L4STeam";
        /// 0: alpha starts at 0 and the first mark halves; 1: alpha starts at 1
        alpha_mode: u32 = 0, count(0..=1).module("prague_alpha_mode", &[]), "L4STeam";
        /// use of the window's fraction: "carry" between whole windows, "rounded": cuts by alpha, "full":
        /// growth too
        cwnd_fraction: Fraction = Fraction::Full, choice("MODE", [
            ("carry", Fraction::Carry),
            ("rounded", Fraction::Rounded),
            ("full", Fraction::Full),
        ]), "L4STeam";
        /// "window", "rate", or "switch" by window size
        cwnd_mode: Option<Mode> = None, choice("MODE", [
            ("window", Some(Mode::Window)),
            ("rate", Some(Mode::Rate)),
            ("switch", None),
        ]).module("prague_cwnd_mode", &[("window", "0"), ("rate", "1"), ("switch", "2")]), "L4STeam";
        /// full packets at or below which cwnd_mode "switch" steers the rate
        cwnd_transit: u32 = 4, count(0..=10_000).module("prague_cwnd_transit", &[]), "L4STeam";
        /// smallest window, segments
        min_cwnd: u32 = 2, count(1..=1000), "L4STeam";
        /// smallest payload to which segments shrink so that two fit into the target RTT; 0: they do not
        min_mss: u32 = 150, count(0..=1448), "L4STeam";
        /// swing of the pacing rate within a target RTT while the rate is steered, 1/128
        rate_offset: u32 = 4, count(0..=127), "L4STeam";
        /// a burst lasts at most 1/2 to this power seconds
        burst_shift: u32 = 12, count(0..=31).module("prague_burst_shift", &[]), "L4STeam";
        /// smallest burst in segments (net.ipv4.tcp_min_tso_segs, where it counts)
        min_tso_segs: u32 = 1, count(1..=1000), "L4STeam";
        /// largest burst in segments; 0: no limit
        max_tso_segs: u32 = 0, count(0..=1000).module("prague_max_tso_segs", &[]), "L4STeam";
    }
}

impl Described for Options {
    const NAME: &'static str = "prague";
    const SUMMARY: &'static str = "TCP Prague 0.5 to 0.7, the L4S reference (ECT(1), AccECN)";
    const GAUGES: &'static [Gauge] = &[gauge("alpha", "", "estimate of the fraction of marks")];
    const MORE_GAUGES: &'static [Gauge] =
        &[gauge("classic_ecn_score", "", "of the detector: 0 L4S, 1 classic")];
    /// 0.7 is the default itself.
    const PRESETS: &'static [Preset] = &[
        Preset { keyword: "version", value: "0.5", sets: V0_5 },
        Preset { keyword: "version", value: "0.6", sets: V0_6 },
    ];

    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        if self.fallback == Fallback::Buggy24 && self.alpha_bits != 24 {
            let fix = "it is the mistake of versions with alpha_bits 24; give \"correct\"";
            return Err(given.refuse("fallback", "buggy24".to_owned(), fix.to_owned()));
        }
        if self.ignore_loss_in_l4s && self.fallback == Fallback::Off {
            let fix = "it asks the detector; give fallback too".to_owned();
            return Err(given.refuse("ignore_loss_in_l4s", "on".to_owned(), fix));
        }
        Ok(())
    }
    fn has_more_gauges(&self) -> bool {
        self.fallback != Fallback::Off
    }
}

type Defaults = &'static [(&'static str, &'static str)];

const V0_5: Defaults = &[
    ("rtt_target", "10ms"),
    ("rtt_transition", "100"),
    ("rtt_unit", "128us"),
    ("alpha_bits", "20"),
    ("alpha_mode", "1"),
    ("cwnd_fraction", "carry"),
    ("cwnd_mode", "window"),
    ("min_mss", "0"),
    ("loss_in_slow_start", "ignored"),
    ("unlimited_growth", "on"),
];
const V0_6: Defaults = &[
    ("rtt_transition", "500"),
    ("rtt_unit", "128us"),
    ("alpha_bits", "20"),
    ("alpha_mode", "1"),
    ("cwnd_fraction", "rounded"),
    ("cwnd_mode", "window"),
    ("min_mss", "0"),
    ("min_tso_segs", "2"),
];

/// What the controller steers.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Mode {
    Window,
    Rate,
}

/// How growth depends on the RTT.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Scaling {
    /// One segment per RTT.
    None,
    /// Below the target RTT, the rate grows as at the target.
    Rate,
    /// A compromise that keeps one mark in eight RTTs at the shortest of them.
    Scalable,
    /// As if the target RTT were added to the path.
    Additive,
}

/// See the options.
#[derive(Clone, Debug)]
pub struct Config {
    /// Eighths of a microsecond.
    pub target_srtt8: u32,
    pub transition: u32,
    pub scaling: Scaling,
    /// Eighths of a microsecond; 1: exactly.
    pub rtt_unit8: u32,
    pub alpha_bits: u32,
    pub alpha_starts_at_one: bool,
    pub fraction: Fraction,
    pub fixed_mode: Option<Mode>,
    pub transit_bytes: u64,
    pub min_window: u32,
    pub min_mss: u32,
    pub rate_offset: u64,
    pub burst_shift: u32,
    pub min_burst: u32,
    pub max_burst: u32,
    pub fallback: Fallback,
    pub ignores_loss_in_slow_start: bool,
    pub ignores_loss_in_l4s: bool,
    pub grows_unlimited: bool,
}

impl Config {
    pub fn new(o: &Options) -> Config {
        let eighths = |time: Span| (time.as_micros().min(1_000_000) * 8) as u32;
        let rtt_unit8 = eighths(o.rtt_unit).max(1);
        let target_srtt8 = eighths(o.rtt_target);
        Config {
            target_srtt8: target_srtt8 - target_srtt8 % rtt_unit8,
            transition: o.rtt_transition,
            scaling: if target_srtt8 > 0 { o.rtt_scaling } else { Scaling::None },
            rtt_unit8,
            alpha_bits: o.alpha_bits,
            alpha_starts_at_one: o.alpha_mode == 1,
            fraction: o.cwnd_fraction,
            fixed_mode: o.cwnd_mode,
            transit_bytes: u64::from(o.cwnd_transit) * MTU_REFERENCE,
            min_window: o.min_cwnd,
            min_mss: o.min_mss,
            rate_offset: o.rate_offset.into(),
            burst_shift: o.burst_shift,
            min_burst: o.min_tso_segs,
            max_burst: o.max_tso_segs,
            fallback: o.fallback,
            ignores_loss_in_slow_start: o.loss_in_slow_start,
            ignores_loss_in_l4s: o.ignore_loss_in_l4s,
            grows_unlimited: o.unlimited_growth,
        }
    }
}
