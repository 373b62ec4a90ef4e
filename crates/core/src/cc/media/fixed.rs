//! No congestion control: the encoder's highest rate, whatever happens.

use super::{MediaController, MediaOptions, Rates, Report};
use crate::cc::Role;
use crate::ecn::Ecn;
use crate::params::Described;
use crate::params::kinds::{params, real};

params! {
    pub struct Options {
        /// pacing rate over the rate of the encoder
        pacing: f64 = 1.5, real("FACTOR", "a number from 1 to 1000", |x| (1.0..=1000.0).contains(&x), (1.0, 1000.0)),
            "as SCReAM";
    }
}

impl Described for Options {
    const NAME: &'static str = "none";
    const SUMMARY: &'static str = "no congestion control: the encoder's highest rate";
    const IN_LINUX: bool = false;
}

impl MediaOptions for Options {
    const ROLE: Option<Role> = None;
    const LOOK: u8 = 0;
    fn build(&self, rates: Rates, _ecn: Ecn) -> Box<dyn MediaController> {
        Box::new(Fixed { rate: rates.max, pacing: self.pacing })
    }
}

struct Fixed {
    rate: f64,
    pacing: f64,
}

impl MediaController for Fixed {
    fn on_report(&mut self, _report: &Report) {}
    fn target_bps(&self) -> f64 {
        self.rate
    }
    fn pacing_bps(&self) -> f64 {
        self.pacing * self.rate
    }
    fn set_max(&mut self, bps: f64) {
        self.rate = bps;
    }
}
