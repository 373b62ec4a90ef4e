//! The options of `bbr3`: the module's constants by their names, and where marks come from.

use crate::cc::EcnWish;
use crate::cc::bbr::model::ONE;
use crate::params::kinds::{any_time, choice, count, fraction, params};
use crate::time::Span;

params! {
    pub struct Options {
        /// marks: "off": no answer, as on a route without the feature ecn_low; "ect0": ECT(0), and ACKs of
        /// exact runs of marks, as with the feature; "ect1": ECT(1) and AccECN; "classic": RFC 3168 feedback
        /// taken for exact
        ecn_low: EcnLow = EcnLow::Off, choice("off|ect0|ect1|classic", [
            ("off", EcnLow::Off),
            ("ect0", EcnLow::Answer(EcnWish::Ect0Runs)),
            ("ect1", EcnLow::Answer(EcnWish::Ect1AccEcn)),
            ("classic", EcnLow::Answer(EcnWish::Ect0Classic)),
        ]), "google/bbr";
        /// no answer to marks until the smallest RTT is at most this; 0ms: at any RTT
        ecn_max_rtt: Span = Span::from_millis(5), any_time(), "google/bbr";
        /// weight of a round's share of marks in alpha
        ecn_alpha_gain: f64 = 0.0625, fraction(), "google/bbr: 1/16";
        /// fraction of alpha by which a round with marks reduces inflight_lo
        ecn_factor: f64 = 0.3334, fraction(), "google/bbr: 1/3";
        /// share of marks above which probing has gone too far
        ecn_thresh: f64 = 0.5, fraction(), "google/bbr";
        /// share of losses above which probing has gone too far
        loss_thresh: f64 = 0.02, fraction(), "google/bbr";
        /// reduction by a round with losses
        beta: f64 = 0.3, fraction(), "google/bbr";
        /// fraction of inflight_hi left to other flows while cruising
        inflight_headroom: f64 = 0.15, fraction(), "google/bbr";
        /// pacing gain after startup; 0.5 in draft-ietf-ccwg-bbr
        drain_gain: f64 = 0.3467, fraction(), "google/bbr";
        /// rounds after which Drain ends in any case, 0: none; 3 in draft-ietf-ccwg-bbr
        drain_rounds: u32 = 0, count(0..=1000), "google/bbr";
    }
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum EcnLow {
    Off,
    Answer(EcnWish),
}

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
    pub drain_rounds: Option<u32>,
}

impl Config {
    pub fn new(o: &Options) -> Config {
        let part = |fraction: f64| (fraction * f64::from(ONE)) as u32;
        let max_rtt = o.ecn_max_rtt.as_micros();
        Config {
            ecn: match o.ecn_low {
                EcnLow::Off => EcnWish::NotEct,
                EcnLow::Answer(wish) => wish,
            },
            answers_marks: o.ecn_low != EcnLow::Off,
            ecn_max_rtt_us: (max_rtt > 0).then_some(max_rtt),
            ecn_alpha_gain: part(o.ecn_alpha_gain),
            ecn_factor: part(o.ecn_factor),
            ecn_thresh: part(o.ecn_thresh),
            loss_thresh: part(o.loss_thresh),
            beta: part(o.beta),
            headroom: part(o.inflight_headroom),
            drain_gain: part(o.drain_gain),
            drain_rounds: (o.drain_rounds > 0).then_some(o.drain_rounds),
        }
    }
}
