//! Controllers and queues from dynamic libraries: the C ABI of `l4slab.h`.
//!
//! The library is the user's own and is trusted to do what it says; what can be checked is: its version,
//! its functions, its words, the windows that it sets and the packets that it names. All that is unsafe
//! stands in [`calls`] and [`packets`].

mod calls;
pub mod guard;
mod media;
mod packets;
mod queue;

// The types of `l4slab.h`: the same file that those who write a library in Rust have.
#[path = "../../../python/l4slab/own/include/l4slab.rs"]
#[rustfmt::skip]
#[allow(clippy::all)]
mod l4slab;

use std::path::Path;

use l4slab_core::aqm::own::QDISCS;
use l4slab_core::cc::media::own::{MEDIA_CONTROLLERS, Wishes};
use l4slab_core::cc::own::{self as controllers, CONTROLLERS, check_window};
use l4slab_core::cc::{
    Ack, Burst, Congestion, CongestionControl, Constants, EcnWish, LostSegment, Pace, Signals,
    Window,
};
use l4slab_core::own::fail;
use l4slab_core::params::Gauge;
use l4slab_core::params::declared::{
    Declaration, DeclaredGauge, Kind, Parameter, Table, Value, Values,
};
use l4slab_core::probe::Gauges;
use l4slab_core::rng::Rng;
use l4slab_core::time::Time;

use calls::{Api, Library, Object};
use media::MediaMaker;
use queue::QueueMaker;

/// Loads the controller of a library and registers it as `reference`; returns what it declares, and its
/// wish for ECN as an experiment file says it.
///
/// # Errors
/// One sentence that goes on after the library's name.
pub fn load_controller(
    file: &Path,
    reference: &str,
    name: &str,
) -> Result<(Declaration, &'static str), String> {
    let library = Library::open(file)?;
    let api = library.controller()?;
    let (ecn, said) = match api.ecn() {
        l4slab::ECN_OFF => (EcnWish::NotEct, "off"),
        l4slab::ECN_CLASSIC => (EcnWish::Ect0Classic, "classic"),
        l4slab::ECN_ACCECN => (EcnWish::Ect1AccEcn, "accecn"),
        other => return Err(format!("asks for ecn = {other}; it is 0, 1 or 2 of enum l4slab_ecn")),
    };
    let declaration = api.declaration(name)?;
    let table = match CONTROLLERS.table(reference) {
        Some(table) => table,
        None => declare(&declaration)?,
    };
    CONTROLLERS.register(reference, table, Some(Box::new(ControllerMaker { api, table, ecn })));
    Ok((declaration, said))
}

/// The same of a controller of media; what its packets carry where the flow does not say.
///
/// # Errors
/// As [`load_controller`].
pub fn load_media(
    file: &Path,
    reference: &str,
    name: &str,
) -> Result<(Declaration, &'static str), String> {
    let api = Library::open(file)?.media()?;
    let (ecn, said) = media::codepoint(api.ecn())?;
    let wishes = Wishes::new(ecn, api.report_interval_ns());
    let declaration = api.declaration(name)?;
    let table = match MEDIA_CONTROLLERS.table(reference) {
        Some(table) => table,
        None => declare(&declaration)?,
    };
    MEDIA_CONTROLLERS.register(reference, table, Some(Box::new(MediaMaker { api, table, wishes })));
    Ok((declaration, said))
}

/// The same of a queue.
///
/// # Errors
/// As [`load_controller`].
pub fn load_queue(file: &Path, reference: &str, name: &str) -> Result<Declaration, String> {
    let api = Library::open(file)?.queue()?;
    let declaration = api.declaration(name)?;
    let table = match QDISCS.table(reference) {
        Some(table) => table,
        None => declare(&declaration)?,
    };
    QDISCS.register(reference, table, Some(Box::new(QueueMaker { api, table })));
    Ok(declaration)
}

fn declare(declaration: &Declaration) -> Result<&'static Table, String> {
    Table::declare(declaration.clone()).map_err(|why| format!("declares something wrong: {why}"))
}

/// A value as `create` gets it.
fn number(value: Value) -> f64 {
    match value {
        Value::Number(n) => n,
        Value::Whole(n) | Value::Size(n) => f64::from(n),
        Value::Time(t) => t.0 as f64,
        Value::Rate(r) => r.bps() as f64,
        Value::Switch(on) => f64::from(u8::from(on)),
        Value::Choice(_) => unreachable!("the ABI has no choices"),
    }
}

fn numbers(values: &Values) -> Vec<f64> {
    values.named().map(|(_, value)| number(value)).collect()
}

/// An object, or the end of the run.
fn created(name: &str, object: Option<Object>) -> Object {
    object.unwrap_or_else(|| fail(format!("{name} has no memory: create gave NULL")))
}

/// Tells the gauges that have a value.
fn tell(gauges: &[Gauge], values: &[f64], out: &mut dyn Gauges) {
    for (gauge, value) in gauges.iter().zip(values) {
        if !value.is_nan() {
            out.gauge(gauge.name, *value);
        }
    }
}

struct ControllerMaker {
    api: Api<l4slab::ControllerTable>,
    table: &'static Table,
    ecn: EcnWish,
}

impl controllers::Maker for ControllerMaker {
    fn make(&self, options: &Values, mut rng: Rng) -> Box<dyn CongestionControl> {
        let name = self.table.name;
        let object = created(name, self.api.create(&numbers(options), rng.u64()));
        Box::new(Controller {
            api: self.api.clone(),
            table: self.table,
            ecn: self.ecn,
            object,
            answer: l4slab::Window::default(),
        })
    }
}

/// A connection's controller.
struct Controller {
    api: Api<l4slab::ControllerTable>,
    table: &'static Table,
    ecn: EcnWish,
    object: Object,
    /// The last answer.
    answer: l4slab::Window,
}

impl Controller {
    /// Calls it with the window, and takes its answer over.
    #[inline]
    fn call(
        &mut self,
        w: &mut Window,
        call: impl FnOnce(&Api<l4slab::ControllerTable>, &Object, &mut l4slab::Window),
    ) {
        let answer = &mut self.answer;
        (answer.cwnd, answer.ssthresh) = (w.cwnd, w.ssthresh);
        (answer.mss, answer.header) = (w.mss, w.header);
        call(&self.api, &self.object, answer);
        (w.cwnd, w.ssthresh) = (answer.cwnd, answer.ssthresh);
        check_window(self.table.name, w);
    }
}

impl Signals for Controller {
    fn on_lost(&mut self, lost: &LostSegment, at: Time, _w: &Window) {
        let &LostSegment { tx_in_flight, lost, app_limited } = lost;
        let lost = l4slab::Lost { now_ns: at.0, tx_in_flight, lost, app_limited };
        self.api.on_lost(&self.object, &lost);
    }
}

impl CongestionControl for Controller {
    fn on_ack(&mut self, ack: &Ack, w: &mut Window) {
        let ack = l4slab::Ack {
            now_ns: ack.now.0,
            next_departure_ns: ack.pacing.next_departure.0,
            pacing_rate: ack.pacing.rate,
            rate_interval_ns: ack.rate.interval.0,
            lost_total: ack.flight.lost_total,
            acked: ack.acked,
            ce: ack.ce,
            delivered: ack.totals.delivered,
            delivered_ce: ack.totals.delivered_ce,
            rtt_us: ack.rtt.newest_us.unwrap_or(0),
            srtt_us: ack.rtt.srtt_us(),
            min_rtt_us: ack.rtt.min_us,
            in_flight: ack.flight.now,
            prior_in_flight: ack.flight.before,
            lost: ack.flight.lost,
            rate_delivered: ack.rate.delivered,
            rate_prior_delivered: ack.rate.prior_delivered,
            rate_tx_in_flight: ack.rate.tx_in_flight,
            rate_lost: ack.rate.lost,
            rate_delivered_ce: ack.rate.delivered_ce,
            rate_app_limited: ack.rate.app_limited,
            may_grow: ack.state.may_grow,
            cwnd_limited: ack.usage.cwnd_limited,
            reducing: ack.state.reducing,
            recovering: ack.state.recovering,
            repairing: ack.state.repairing,
            open: ack.state.open,
            paced: ack.pacing.is_on,
        };
        self.call(w, |api, object, answer| api.on_ack(object, &ack, answer));
    }
    fn on_congestion(&mut self, why: Congestion, at: Time, w: &mut Window) {
        let why = match why {
            Congestion::Ecn => l4slab::ON_ECN,
            Congestion::Loss => l4slab::ON_LOSS,
            Congestion::Timeout => l4slab::ON_TIMEOUT,
            Congestion::TailLoss => l4slab::ON_TAIL_LOSS,
        };
        self.call(w, |api, object, answer| api.on_congestion(object, why, at.0, answer));
    }
    fn on_recovered(&mut self, w: &mut Window) {
        self.call(w, |api, object, answer| api.on_recovered(object, answer));
    }
    fn on_undo(&mut self, prior_cwnd: u32, w: &mut Window) {
        self.call(w, |api, object, answer| api.on_undo(object, prior_cwnd, answer));
    }
    fn on_established(
        &mut self,
        granted: bool,
        _ack: &Ack,
        w: &mut Window,
    ) -> Option<Box<dyn CongestionControl>> {
        self.call(w, |api, object, answer| api.on_established(object, granted, answer));
        None
    }
    fn constants(&self) -> Constants {
        let governs = self.api.governs_window();
        Constants {
            ecn: self.ecn,
            governs_window: governs,
            answers_loss_while_reducing: governs,
            judges_flights: self.api.hears_losses(),
        }
    }
    fn pace(&self) -> Pace {
        let l4slab::Window { pacing_rate, burst, .. } = self.answer;
        Pace {
            rate: (pacing_rate > 0).then_some(pacing_rate),
            burst: if burst > 0 { Burst::Exactly(burst) } else { Burst::default() },
            holds_back: false,
        }
    }
    fn signals(&mut self) -> Option<&mut dyn Signals> {
        Some(self)
    }
    fn probe(&self, out: &mut dyn Gauges) {
        let mut values = vec![f64::NAN; self.table.gauges.len()];
        self.api.probe(&self.object, &mut values);
        tell(&self.table.gauges, &values, out);
    }
}
