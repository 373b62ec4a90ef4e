//! The options of `prague`, and what the versions of the L4STeam module set them to.
//!
//! The law is one; versions differ in numbers and in how finely they count the window. Names are
//! those of the module's parameters without their prefix, where the module has one.

use super::classic_ecn::Fallback;
use crate::cc::registry::{CcError, Options, Param, Preset};

/// The packet size that one step of growth stands for.
pub const MTU_REFERENCE: u64 = 1500;

pub const PARAMETERS: &[Param] = &[
    Param {
        name: "version",
        default: "0.7",
        help: "of the L4STeam module: \"0.5\" (2020), \"0.6\" (2021 to 2023), \"0.7\"; \
               sets the defaults below",
    },
    Param {
        name: "fallback",
        default: "off",
        help: "classic ECN queues: \"off\", \"detect\" only, \"correct\": detect and reduce by up \
               to 31 %, \"buggy24\": so with the 20-bit constants in the 24-bit code",
    },
    Param {
        name: "loss_in_slow_start",
        default: "halves",
        help: "\"ignored\": slow start goes on whatever is lost, until an ACK reports nothing but \
               marks (as in 0.5)",
    },
    Param {
        name: "ignore_loss_in_l4s",
        default: "off",
        help: "\"on\": no reaction to a loss, timeouts excepted, as long as the fallback's detector takes \
               the queue for L4S (as in a build of April 2020)",
    },
    Param {
        name: "unlimited_growth",
        default: "off",
        help: "\"on\": the window grows also while something else limits what is in flight (as in \
               0.5)",
    },
    Param {
        name: "rtt_target",
        default: "25ms",
        help: "RTT below which the flow behaves as if at it; 0ms: no RTT independence",
    },
    Param {
        name: "rtt_transition",
        default: "4",
        help: "rounds after slow start before RTT independence begins",
    },
    Param {
        name: "rtt_scaling",
        default: "rate",
        help: "RTT independence: \"none\", \"rate\", \"scalable\" (more marks at short RTTs), \
               \"additive\" (the target on top of the RTT)",
    },
    Param {
        name: "rtt_unit",
        default: "0us",
        help: "step in which RTT independence counts RTTs; 0us: exactly",
    },
    Param { name: "alpha_bits", default: "24", help: "fractional bits of alpha: \"20\" or \"24\"" },
    Param {
        name: "alpha_mode",
        default: "0",
        help: "0: alpha starts at 0 and the first mark halves; 1: alpha starts at 1",
    },
    Param {
        name: "cwnd_fraction",
        default: "full",
        help: "what the window's fraction is for: \"carry\" between whole windows, \"rounded\": \
               cuts by alpha, \"full\": growth too",
    },
    Param {
        name: "cwnd_mode",
        default: "switch",
        help: "\"window\", \"rate\", or \"switch\" by window size",
    },
    Param {
        name: "cwnd_transit",
        default: "4",
        help: "full packets at or below which cwnd_mode \"switch\" steers the rate",
    },
    Param { name: "min_cwnd", default: "2", help: "smallest window, segments" },
    Param {
        name: "min_mss",
        default: "150",
        help: "smallest payload to which segments shrink so that two fit into the target RTT; \
               0: they do not",
    },
    Param {
        name: "rate_offset",
        default: "4",
        help: "swing of the pacing rate within a target RTT while the rate is steered, 1/128",
    },
    Param {
        name: "burst_shift",
        default: "12",
        help: "a burst lasts at most 1/2 to this power seconds",
    },
    Param {
        name: "min_tso_segs",
        default: "1",
        help: "segments of a burst at the least (net.ipv4.tcp_min_tso_segs, where it counts)",
    },
    Param { name: "max_tso_segs", default: "0", help: "segments of a burst at most; 0: no limit" },
];

/// 0.7 is the default itself.
pub const VERSIONS: &[Preset] = &[
    Preset { cc: "prague", option: "version", value: "0.5", sets: V0_5 },
    Preset { cc: "prague", option: "version", value: "0.6", sets: V0_6 },
];

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

/// What the law counts in fractions of a segment.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Fraction {
    /// Growth and cuts take TCP's whole window; what is less than a segment waits.
    Carry,
    /// Cuts take the fractional window, growth its next whole one.
    Rounded,
    Full,
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
    pub fn from_options(o: &Options) -> Result<Config, CcError> {
        o.choice("version", &["0.5", "0.6", "0.7"])?;
        let rtt_unit8 = (o.micros("rtt_unit")?.min(1_000_000) * 8).max(1) as u32;
        let target_srtt8 = (o.micros("rtt_target")?.min(1_000_000) * 8) as u32;
        let scaling = match o.choice("rtt_scaling", &["none", "rate", "scalable", "additive"])? {
            "rate" if target_srtt8 > 0 => Scaling::Rate,
            "scalable" if target_srtt8 > 0 => Scaling::Scalable,
            "additive" if target_srtt8 > 0 => Scaling::Additive,
            _ => Scaling::None,
        };
        let alpha_bits = if o.choice("alpha_bits", &["20", "24"])? == "20" { 20 } else { 24 };
        let fallback = match o.choice("fallback", &["off", "detect", "correct", "buggy24"])? {
            "detect" => Fallback::Detect,
            "correct" => Fallback::Correct,
            "buggy24" if alpha_bits == 24 => Fallback::Buggy24,
            "buggy24" => {
                let fix = "is the mistake of versions with alpha_bits 24; give \"correct\"";
                return Err(o.refuse("fallback", fix));
            }
            _ => Fallback::Off,
        };
        let ignores_loss_in_l4s = o.switch("ignore_loss_in_l4s")?;
        if ignores_loss_in_l4s && fallback == Fallback::Off {
            return Err(o.refuse("ignore_loss_in_l4s", "asks the detector; give fallback too"));
        }
        Ok(Config {
            target_srtt8: target_srtt8 - target_srtt8 % rtt_unit8,
            transition: o.integer("rtt_transition", 0..=1_000_000)? as u32,
            scaling,
            rtt_unit8,
            alpha_bits,
            alpha_starts_at_one: o.integer("alpha_mode", 0..=1)? == 1,
            fraction: match o.choice("cwnd_fraction", &["carry", "rounded", "full"])? {
                "carry" => Fraction::Carry,
                "rounded" => Fraction::Rounded,
                _ => Fraction::Full,
            },
            fixed_mode: match o.choice("cwnd_mode", &["window", "rate", "switch"])? {
                "window" => Some(Mode::Window),
                "rate" => Some(Mode::Rate),
                _ => None,
            },
            transit_bytes: o.integer("cwnd_transit", 0..=10_000)? * MTU_REFERENCE,
            min_window: o.integer("min_cwnd", 1..=1000)? as u32,
            min_mss: o.integer("min_mss", 0..=1448)? as u32,
            rate_offset: o.integer("rate_offset", 0..=127)?,
            burst_shift: o.integer("burst_shift", 0..=31)? as u32,
            min_burst: o.integer("min_tso_segs", 1..=1000)? as u32,
            max_burst: o.integer("max_tso_segs", 0..=1000)? as u32,
            fallback,
            ignores_loss_in_slow_start: o.choice("loss_in_slow_start", &["halves", "ignored"])?
                == "ignored",
            ignores_loss_in_l4s,
            grows_unlimited: o.switch("unlimited_growth")?,
        })
    }
}
