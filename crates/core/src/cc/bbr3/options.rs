//! The options of `bbr3`: the module's constants by their names, and where marks come from.

use crate::cc::EcnWish;
use crate::cc::bbr::model::ONE;
use crate::cc::registry::{CcError, Options, Param};

pub const PARAMETERS: &[Param] = &[
    Param {
        name: "ecn_low",
        default: "off",
        help: "marks: \"off\": no answer, as on a route without the feature ecn_low; \"ect0\": ECT(0), \
               and ACKs of exact runs of marks, as with the feature; \"ect1\": ECT(1) and AccECN; \
               \"classic\": RFC 3168 feedback taken for exact",
    },
    Param {
        name: "ecn_max_rtt",
        default: "5ms",
        help: "no answer to marks until the smallest RTT is at most this; 0ms: at any RTT",
    },
    Param {
        name: "ecn_alpha_gain",
        default: "0.0625",
        help: "weight of a round's share of marks in alpha",
    },
    Param {
        name: "ecn_factor",
        default: "0.3334",
        help: "of alpha, what a round with marks takes off inflight_lo",
    },
    Param {
        name: "ecn_thresh",
        default: "0.5",
        help: "share of marks above which probing has gone too far",
    },
    Param {
        name: "loss_thresh",
        default: "0.02",
        help: "share of losses above which probing has gone too far",
    },
    Param { name: "beta", default: "0.3", help: "what a round with losses takes off" },
    Param {
        name: "inflight_headroom",
        default: "0.15",
        help: "of inflight_hi, what is left to others while cruising",
    },
    Param {
        name: "drain_gain",
        default: "0.3467",
        help: "pacing gain after startup; 0.5 in draft-ietf-ccwg-bbr",
    },
];

/// Fractions are in 256ths, as in the module.
#[derive(Clone, Debug)]
pub struct Config {
    pub ecn: EcnWish,
    pub answers_marks: bool,
    /// None: at any RTT.
    pub ecn_max_rtt_us: Option<u64>,
    pub ecn_alpha_gain: u32,
    pub ecn_factor: u32,
    pub ecn_thresh: u32,
    pub loss_thresh: u32,
    pub beta: u32,
    pub headroom: u32,
    pub drain_gain: u32,
}

impl Config {
    pub fn from_options(o: &Options) -> Result<Config, CcError> {
        let ecn_low = o.choice("ecn_low", &["off", "ect0", "ect1", "classic"])?;
        let part = |name| Ok((o.fraction(name)? * f64::from(ONE)) as u32);
        let max_rtt = o.micros("ecn_max_rtt")?;
        Ok(Config {
            ecn: match ecn_low {
                "ect0" => EcnWish::Ect0Runs,
                "ect1" => EcnWish::Ect1AccEcn,
                "classic" => EcnWish::Ect0Classic,
                _ => EcnWish::NotEct,
            },
            answers_marks: ecn_low != "off",
            ecn_max_rtt_us: (max_rtt > 0).then_some(max_rtt),
            ecn_alpha_gain: part("ecn_alpha_gain")?,
            ecn_factor: part("ecn_factor")?,
            ecn_thresh: part("ecn_thresh")?,
            loss_thresh: part("loss_thresh")?,
            beta: part("beta")?,
            headroom: part("inflight_headroom")?,
            drain_gain: part("drain_gain")?,
        })
    }
}
