//! A congestion control that is a class in Python.

use l4slab_core::cc;
use l4slab_core::cc::own::{MOST_WINDOW, check_window};
use l4slab_core::cc::{
    Burst, Congestion, CongestionControl, Constants, EcnWish, LostSegment, Pace, Signals,
};
use l4slab_core::params::declared::{Table, Values};
use l4slab_core::probe::Gauges;
use l4slab_core::rng::Rng;
use l4slab_core::time::Time;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::{attributes, call, nothing, tell};

/// One ACK. Valid until the call returns: the next ACK reuses the object.
#[pyclass(module = "l4slab._core", get_all)]
#[derive(Default)]
pub struct Ack {
    now_ns: u64,
    acked: u32,
    ce: u32,
    delivered: u32,
    delivered_ce: u32,
    rtt_us: Option<u32>,
    srtt_us: u32,
    min_rtt_us: u32,
    in_flight: u32,
    prior_in_flight: u32,
    lost: u32,
    lost_total: u64,
    next_departure_ns: u64,
    pacing_rate: u64,
    rate_delivered: u32,
    rate_interval_ns: u64,
    rate_prior_delivered: u32,
    rate_app_limited: bool,
    rate_tx_in_flight: u32,
    rate_lost: u32,
    rate_delivered_ce: u32,
    may_grow: bool,
    cwnd_limited: bool,
    reducing: bool,
    recovering: bool,
    repairing: bool,
    open: bool,
    paced: bool,
}

/// A segment newly found lost. Good until the call returns.
#[pyclass(module = "l4slab._core", get_all)]
#[derive(Default)]
pub struct Lost {
    now_ns: u64,
    tx_in_flight: u32,
    lost: u32,
    app_limited: bool,
}

impl Ack {
    fn of(ack: &cc::Ack) -> Ack {
        Ack {
            now_ns: ack.now.0,
            acked: ack.acked,
            ce: ack.ce,
            delivered: ack.totals.delivered,
            delivered_ce: ack.totals.delivered_ce,
            rtt_us: ack.rtt.newest_us,
            srtt_us: ack.rtt.srtt_us(),
            min_rtt_us: ack.rtt.min_us,
            in_flight: ack.flight.now,
            prior_in_flight: ack.flight.before,
            lost: ack.flight.lost,
            lost_total: ack.flight.lost_total,
            next_departure_ns: ack.pacing.next_departure.0,
            pacing_rate: ack.pacing.rate,
            rate_delivered: ack.rate.delivered,
            rate_interval_ns: ack.rate.interval.0,
            rate_prior_delivered: ack.rate.prior_delivered,
            rate_app_limited: ack.rate.app_limited,
            rate_tx_in_flight: ack.rate.tx_in_flight,
            rate_lost: ack.rate.lost,
            rate_delivered_ce: ack.rate.delivered_ce,
            may_grow: ack.state.may_grow,
            cwnd_limited: ack.usage.cwnd_limited,
            reducing: ack.state.reducing,
            recovering: ack.state.recovering,
            repairing: ack.state.repairing,
            open: ack.state.open,
            paced: ack.pacing.is_on,
        }
    }
}

/// A controller's answer.
#[pyclass(module = "l4slab._core")]
#[derive(Default)]
pub struct Window {
    #[pyo3(get)]
    cwnd: u32,
    #[pyo3(get)]
    ssthresh: u32,
    #[pyo3(get)]
    pacing_rate: Option<u64>,
    #[pyo3(get)]
    burst: Option<u32>,
    #[pyo3(get)]
    mss: u32,
    #[pyo3(get)]
    header: u32,
}

/// A whole number of a range, or a TypeError with the remedy.
fn whole(name: &str, value: &Bound<'_, PyAny>, least: u64, most: u64) -> PyResult<u64> {
    let number = value.extract::<u64>().ok().filter(|n| (least..=most).contains(n));
    number.ok_or_else(|| {
        let given = value.repr().map_or_else(|_| String::new(), |text| text.to_string());
        let remedy = match value.extract::<f64>() {
            Ok(n) if n.is_finite() && given.contains('.') => "; write int(…)",
            _ => "",
        };
        let text = "a whole number from";
        PyTypeError::new_err(format!(
            "window.{name} = {given}: it is {text} {least} to {most}{remedy}"
        ))
    })
}

#[pymethods]
impl Window {
    #[setter]
    fn set_cwnd(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.cwnd = whole("cwnd", value, 1, u64::from(MOST_WINDOW))? as u32;
        Ok(())
    }
    #[setter]
    fn set_ssthresh(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.ssthresh = whole("ssthresh", value, 1, u64::from(u32::MAX))? as u32;
        Ok(())
    }
    #[setter]
    fn set_pacing_rate(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.pacing_rate = match value.is_none() {
            true => None,
            false => Some(whole("pacing_rate", value, 1, 1 << 50)?),
        };
        Ok(())
    }
    #[setter]
    fn set_burst(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.burst = match value.is_none() {
            true => None,
            false => Some(whole("burst", value, 1, u64::from(MOST_WINDOW))? as u32),
        };
        Ok(())
    }
    /// Whether the window is below the threshold.
    #[getter]
    fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
    /// Slow start: a segment per segment acknowledged, up to the threshold. Returns what is left.
    fn slow_start(&mut self, acked: u32) -> u32 {
        let cwnd = self.cwnd.saturating_add(acked).min(self.ssthresh).max(self.cwnd);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd;
        left
    }
}

pub struct Maker {
    table: &'static Table,
    make: Py<PyAny>,
    methods: Vec<String>,
    ecn: EcnWish,
    governs_window: bool,
}

impl Maker {
    pub fn new(
        table: &'static Table,
        make: Py<PyAny>,
        methods: Vec<String>,
        ecn: &str,
        governs_window: bool,
    ) -> Maker {
        let ecn = match ecn {
            "accecn" => EcnWish::Ect1AccEcn,
            "classic" => EcnWish::Ect0Classic,
            _ => EcnWish::NotEct,
        };
        Maker { table, make, methods, ecn, governs_window }
    }
}

impl cc::own::Maker for Maker {
    fn make(&self, options: &Values, mut rng: Rng) -> Box<dyn CongestionControl> {
        let object = call(self.table.name, |py| {
            let options = attributes(py, options)?;
            let object = self.make.bind(py).call1((options, rng.u64()))?;
            let optional = |name: &str| -> PyResult<Option<Py<PyAny>>> {
                let has = self.methods.iter().any(|method| method == name);
                has.then(|| Ok(object.getattr(name)?.unbind())).transpose()
            };
            Ok(Object {
                ack: Py::new(py, Ack::default())?,
                lost: Py::new(py, Lost::default())?,
                window: Py::new(py, Window::default())?,
                on_ack: object.getattr("on_ack")?.unbind(),
                on_congestion: object.getattr("on_congestion")?.unbind(),
                on_recovered: optional("on_recovered")?,
                on_undo: optional("on_undo")?,
                on_established: optional("on_established")?,
                on_lost: optional("on_lost")?,
                object: object.unbind(),
            })
        });
        Box::new(Controller {
            table: self.table,
            ecn: self.ecn,
            governs_window: self.governs_window,
            pacing_rate: None,
            burst: None,
            object,
        })
    }
}

/// A connection's controller.
struct Controller {
    table: &'static Table,
    ecn: EcnWish,
    governs_window: bool,
    /// As the window had it last.
    pacing_rate: Option<u64>,
    burst: Option<u32>,
    object: Object,
}

/// The object, its bound methods, and what they are called with.
struct Object {
    object: Py<PyAny>,
    ack: Py<Ack>,
    lost: Py<Lost>,
    window: Py<Window>,
    on_ack: Py<PyAny>,
    on_congestion: Py<PyAny>,
    /// `None`: the class has not got it.
    on_recovered: Option<Py<PyAny>>,
    on_undo: Option<Py<PyAny>>,
    on_established: Option<Py<PyAny>>,
    on_lost: Option<Py<PyAny>>,
}

impl Controller {
    /// Calls a method with the window, and takes the answer over.
    fn call(
        &mut self,
        w: &mut cc::Window,
        method: impl FnOnce(Python<'_>, &Object, &Bound<'_, Window>) -> PyResult<()>,
    ) {
        let name = self.table.name;
        let object = &self.object;
        let (cwnd, ssthresh, pacing_rate, burst) = call(name, |py| {
            let window = object.window.bind(py);
            {
                let mut shown = window.borrow_mut();
                (shown.cwnd, shown.ssthresh) = (w.cwnd, w.ssthresh);
                (shown.mss, shown.header) = (w.mss, w.header);
            }
            method(py, object, window)?;
            let answer = window.borrow();
            Ok((answer.cwnd, answer.ssthresh, answer.pacing_rate, answer.burst))
        });
        (w.cwnd, w.ssthresh) = (cwnd, ssthresh);
        (self.pacing_rate, self.burst) = (pacing_rate, burst);
        check_window(name, w);
    }
}

impl Signals for Controller {
    fn on_lost(&mut self, lost: &LostSegment, at: Time, _w: &cc::Window) {
        let Object { lost: argument, on_lost: Some(method), .. } = &self.object else {
            return;
        };
        let &LostSegment { tx_in_flight, lost, app_limited } = lost;
        call(self.table.name, |py| {
            let argument = argument.bind(py);
            *argument.borrow_mut() = Lost { now_ns: at.0, tx_in_flight, lost, app_limited };
            method.bind(py).call1((argument,)).map(drop)
        });
    }
}

impl CongestionControl for Controller {
    fn on_ack(&mut self, ack: &cc::Ack, w: &mut cc::Window) {
        self.call(w, |py, object, window| {
            let argument = object.ack.bind(py);
            *argument.borrow_mut() = Ack::of(ack);
            nothing("on_ack", "window.cwnd", &object.on_ack.bind(py).call1((argument, window))?)
        });
    }
    fn on_congestion(&mut self, why: Congestion, at: Time, w: &mut cc::Window) {
        let why = match why {
            Congestion::Ecn => "ecn",
            Congestion::Loss => "loss",
            Congestion::Timeout => "timeout",
            Congestion::TailLoss => "tail-loss",
        };
        self.call(w, |py, object, window| {
            let given = object.on_congestion.bind(py).call1((why, at.0, window))?;
            nothing("on_congestion", "window.ssthresh", &given)
        });
    }
    fn on_recovered(&mut self, w: &mut cc::Window) {
        if self.object.on_recovered.is_some() {
            self.call(w, |py, object, window| match &object.on_recovered {
                Some(method) => method.bind(py).call1((window,)).map(drop),
                None => Ok(()),
            });
        }
    }
    fn on_undo(&mut self, prior_cwnd: u32, w: &mut cc::Window) {
        if self.object.on_undo.is_none() {
            w.cwnd = w.cwnd.max(prior_cwnd);
            return;
        }
        self.call(w, |py, object, window| match &object.on_undo {
            Some(method) => method.bind(py).call1((prior_cwnd, window)).map(drop),
            None => Ok(()),
        });
    }
    fn on_established(
        &mut self,
        granted: bool,
        _ack: &cc::Ack,
        w: &mut cc::Window,
    ) -> Option<Box<dyn CongestionControl>> {
        if self.object.on_established.is_some() {
            self.call(w, |py, object, window| match &object.on_established {
                Some(method) => method.bind(py).call1((granted, window)).map(drop),
                None => Ok(()),
            });
        }
        None
    }
    fn constants(&self) -> Constants {
        Constants {
            ecn: self.ecn,
            governs_window: self.governs_window,
            answers_loss_while_reducing: self.governs_window,
            judges_flights: self.object.on_lost.is_some(),
        }
    }
    fn pace(&self) -> Pace {
        let burst = self.burst.map_or_else(Burst::default, Burst::Exactly);
        Pace { rate: self.pacing_rate, burst, holds_back: false }
    }
    fn signals(&mut self) -> Option<&mut dyn Signals> {
        Some(self)
    }
    fn probe(&self, out: &mut dyn Gauges) {
        tell(self.table.name, self.table, &self.object.object, out);
    }
}
