//! A congestion control of media from a library.

use l4slab_core::cc::media::own::{Answer, Code, Maker, Wishes};
use l4slab_core::cc::media::{FrameState, Report};
use l4slab_core::ecn::Ecn;
use l4slab_core::params::declared::{Table, Values};
use l4slab_core::probe::Gauges;
use l4slab_core::rng::Rng;

use super::calls::{Api, Object};
use super::{created, l4slab, numbers, tell};

/// What packets carry, and as an experiment file says it.
pub fn codepoint(number: u32) -> Result<(Ecn, &'static str), String> {
    match u8::try_from(number) {
        Ok(l4slab::NOT_ECT) => Ok((Ecn::NotEct, "not-ect")),
        Ok(l4slab::ECT1) => Ok((Ecn::Ect1, "ect1")),
        Ok(l4slab::ECT0) => Ok((Ecn::Ect0, "ect0")),
        _ => Err(format!("asks for ecn = {number}; it is 0 (Not-ECT), 1 (ECT(1)) or 2 (ECT(0))")),
    }
}

pub struct MediaMaker {
    pub api: Api<l4slab::MediaTable>,
    pub table: &'static Table,
    pub wishes: Wishes,
}

impl Maker for MediaMaker {
    fn make(&self, options: &Values, mut rng: Rng) -> Box<dyn Code> {
        let object = created(self.table.name, self.api.create(&numbers(options), rng.u64()));
        Box::new(Media { api: self.api.clone(), table: self.table, object, fates: Vec::new() })
    }
    fn wishes(&self) -> Wishes {
        self.wishes
    }
}

/// A flow's controller.
struct Media {
    api: Api<l4slab::MediaTable>,
    table: &'static Table,
    object: Object,
    /// Of the report at hand.
    fates: Vec<l4slab::Fate>,
}

/// Calls it with the answer that holds, and takes its answer over.
fn answered(answer: &mut Answer, call: impl FnOnce(&mut l4slab::Rates)) {
    let Answer { target_bps, pacing_bps, window, min_bps, max_bps } = *answer;
    let mut rates = l4slab::Rates { target_bps, pacing_bps, window, min_bps, max_bps };
    call(&mut rates);
    let l4slab::Rates { target_bps, pacing_bps, window, .. } = rates;
    (answer.target_bps, answer.pacing_bps, answer.window) = (target_bps, pacing_bps, window);
}

impl Code for Media {
    fn on_report(&mut self, report: &Report, answer: &mut Answer) {
        self.fates.clear();
        self.fates.extend(report.packets.iter().map(|packet| l4slab::Fate {
            sent_ns: packet.sent.0,
            arrived_ns: packet.arrived.map_or(l4slab::NEVER, |at| at.0),
            size: packet.size,
            ce: u32::from(packet.ce),
        }));
        let told = l4slab::Report {
            now_ns: report.now.0,
            rtt_ns: report.rtt.0,
            one_way_ns: report.one_way.0,
            acked: report.acked,
            in_flight: report.in_flight,
            max_in_flight: report.max_in_flight,
            packets: self.fates.as_ptr(),
            packet_count: self.fates.len() as u32,
        };
        answered(answer, |rates| self.api.on_report(&self.object, &told, rates));
    }
    fn on_frame(&mut self, frame: &FrameState, answer: &mut Answer) {
        let told = l4slab::Frame {
            now_ns: frame.now.0,
            interval_ns: frame.interval.0,
            queue_age_ns: frame.queue_age.0,
            queue_bytes: frame.queue_bytes,
            last_bytes: frame.last_bytes,
        };
        answered(answer, |rates| self.api.on_frame(&self.object, &told, rates));
    }
    fn probe(&self, out: &mut dyn Gauges) {
        let mut values = vec![f64::NAN; self.table.gauges.len()];
        self.api.probe(&self.object, &mut values);
        tell(&self.table.gauges, &values, out);
    }
}
