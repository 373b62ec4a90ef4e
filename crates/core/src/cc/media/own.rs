//! Custom media controllers (see [`crate::own`]).

use std::fmt;
use std::sync::Arc;

use super::{FrameState, MediaController, Rates, Report, Reports};
use crate::ecn::Ecn;
use crate::own::{Entry, Registry, fail};
use crate::params::declared::Values;
use crate::params::{Gauge, Refused};
use crate::probe::Gauges;
use crate::rng::Rng;
use crate::time::Span;

/// Where the code leaves the pacing rate to l4slab: this times the target rate, as SCReAM.
const PACING: f64 = 1.5;
/// The least and the largest rate that it may set, bits per second.
const RATES: (f64, f64) = (1e3, 1e12);

/// Makes the controller of a flow.
pub trait Maker: Send + Sync {
    fn make(&self, options: &Values, rng: Rng) -> Box<dyn Code>;
    fn wishes(&self) -> Wishes;
}

/// What a controller wants where the flow does not say.
#[derive(Copy, Clone, Debug)]
pub struct Wishes {
    pub ecn: Ecn,
    pub reports: Reports,
}

impl Wishes {
    /// `report_interval_ns`: time between reports; 0: after 16 packets and each frame.
    pub fn new(ecn: Ecn, report_interval_ns: u64) -> Wishes {
        let reports = match report_interval_ns {
            0 => Reports::SCREAM,
            ns => Reports::every(Span(ns)),
        };
        Wishes { ecn, reports }
    }
}

/// What code of one's own answers with. Each call finds what holds, and may change the first three.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Answer {
    /// Bits of media per second that the encoder should produce.
    pub target_bps: f64,
    /// Bits of RTP packets per second that leave while frames wait; 0: 1.5 times the target rate.
    pub pacing_bps: f64,
    /// Bytes of RTP packets that may be in flight; 0: any number.
    pub window: u64,
    /// What the encoder can do.
    pub min_bps: f64,
    pub max_bps: f64,
}

/// The calls of a custom media controller.
pub trait Code: Send {
    fn on_report(&mut self, report: &Report, answer: &mut Answer);
    fn on_frame(&mut self, frame: &FrameState, answer: &mut Answer);
    fn probe(&self, out: &mut dyn Gauges);
}

/// All of them.
pub static MEDIA_CONTROLLERS: Registry<dyn Maker> = Registry::new();

/// A custom media controller, with its options.
#[derive(Clone)]
pub struct OwnMedia {
    entry: Arc<Entry<dyn Maker>>,
    options: Values,
}

impl OwnMedia {
    /// Finds a controller and reads its options; `None`: the name is of another kind.
    pub fn parse(name: &str, options: &[(&str, &str)]) -> Option<Result<OwnMedia, Refused>> {
        let found = MEDIA_CONTROLLERS.find("media controller", name)?;
        Some(found.and_then(|entry| {
            let options = entry.table.read_options(options)?;
            Ok(OwnMedia { entry, options })
        }))
    }
    pub fn name(&self) -> &'static str {
        self.entry.table.name
    }
    pub fn canonical(&self) -> Vec<(&'static str, String)> {
        self.options.write_options()
    }
    pub fn gauges(&self) -> Vec<Gauge> {
        self.entry.table.gauges.clone()
    }
    pub fn wishes(&self) -> Wishes {
        self.entry.maker().wishes()
    }
    pub fn build(&self, rates: Rates, rng: Rng) -> Box<dyn MediaController> {
        let answer = Answer {
            target_bps: rates.start,
            pacing_bps: 0.0,
            window: 0,
            min_bps: rates.min,
            max_bps: rates.max,
        };
        let code = self.entry.maker().make(&self.options, rng);
        Box::new(Controller { name: self.name(), code, answer })
    }
}

impl PartialEq for OwnMedia {
    fn eq(&self, other: &OwnMedia) -> bool {
        self.options == other.options
    }
}

impl fmt::Debug for OwnMedia {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("OwnMedia").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Code of one's own, and its last answer.
struct Controller {
    name: &'static str,
    code: Box<dyn Code>,
    answer: Answer,
}

impl Controller {
    /// Ends the run where the answer cannot be used.
    fn check(&self) {
        let (least, most) = RATES;
        let Answer { target_bps, pacing_bps, .. } = self.answer;
        for (what, bps) in [("target_bps", target_bps), ("pacing_bps", pacing_bps)] {
            let is_default = bps == 0.0 && what == "pacing_bps";
            if !is_default && !(least..=most).contains(&bps) {
                let name = self.name;
                fail(format!("{name} sets {what} to {bps}; a rate is {least} to {most:e} bit/s"));
            }
        }
    }
}

impl MediaController for Controller {
    fn on_report(&mut self, report: &Report) {
        self.code.on_report(report, &mut self.answer);
        self.check();
    }
    fn on_frame(&mut self, frame: &FrameState) {
        self.code.on_frame(frame, &mut self.answer);
        self.check();
    }
    fn target_bps(&self) -> f64 {
        self.answer.target_bps.clamp(self.answer.min_bps, self.answer.max_bps)
    }
    fn pacing_bps(&self) -> f64 {
        match self.answer.pacing_bps {
            0.0 => PACING * self.target_bps(),
            bps => bps,
        }
    }
    fn window(&self) -> u64 {
        match self.answer.window {
            0 => u64::MAX,
            bytes => bytes,
        }
    }
    fn set_max(&mut self, bps: f64) {
        self.answer.max_bps = bps;
        self.answer.min_bps = self.answer.min_bps.min(bps);
    }
    fn probe(&self, out: &mut dyn Gauges) {
        self.code.probe(out);
    }
}
