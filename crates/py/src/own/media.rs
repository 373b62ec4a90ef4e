//! A congestion control of media that is a class in Python.

use l4slab_core::cc::media;
use l4slab_core::cc::media::FrameState;
use l4slab_core::cc::media::own::{Answer, Code, Wishes};
use l4slab_core::ecn::Ecn;
use l4slab_core::params::declared::{Table, Values};
use l4slab_core::probe::Gauges;
use l4slab_core::rng::Rng;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::{attributes, call, nothing, tell};

/// What became of a packet.
#[pyclass(module = "l4slab._core", get_all, frozen)]
pub struct Fate {
    sent_ns: u64,
    arrived_ns: Option<u64>,
    size: u32,
    ce: bool,
}

/// A feedback report.
#[pyclass(module = "l4slab._core", get_all, frozen)]
pub struct Report {
    now_ns: u64,
    rtt_ns: u64,
    one_way_ns: u64,
    acked: u64,
    in_flight: u64,
    max_in_flight: u64,
    packets: Py<PyTuple>,
}

/// The moment before the encoder makes a frame.
#[pyclass(module = "l4slab._core", get_all, frozen)]
pub struct Frame {
    now_ns: u64,
    interval_ns: u64,
    queue_age_ns: u64,
    queue_bytes: u64,
    last_bytes: u64,
}

/// A controller's answer.
#[pyclass(module = "l4slab._core")]
#[derive(Default)]
pub struct Rates {
    #[pyo3(get)]
    target_bps: f64,
    #[pyo3(get)]
    pacing_bps: Option<f64>,
    #[pyo3(get)]
    window: Option<u64>,
    #[pyo3(get)]
    min_bps: f64,
    #[pyo3(get)]
    max_bps: f64,
}

/// What an attribute is set to, or a TypeError with what it can be.
fn taken<'py, T: FromPyObjectOwned<'py>>(
    name: &str,
    value: &Bound<'py, PyAny>,
    wanted: &str,
    fits: impl Fn(&T) -> bool,
) -> PyResult<T> {
    value.extract::<T>().ok().filter(fits).ok_or_else(|| {
        let given = value.repr().map_or_else(|_| String::new(), |text| text.to_string());
        PyTypeError::new_err(format!("rates.{name} = {given}: it is {wanted}"))
    })
}

const BPS: &str = "a number of bit/s from 1000 to 1e12";
fn is_rate(bps: &f64) -> bool {
    (1e3..=1e12).contains(bps)
}

#[pymethods]
impl Rates {
    #[setter]
    fn set_target_bps(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.target_bps = taken("target_bps", value, BPS, is_rate)?;
        Ok(())
    }
    #[setter]
    fn set_pacing_bps(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let wanted = format!("{BPS}, or None");
        self.pacing_bps = taken("pacing_bps", value, &wanted, |bps: &Option<f64>| {
            bps.as_ref().is_none_or(is_rate)
        })?;
        Ok(())
    }
    #[setter]
    fn set_window(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let wanted = "a whole number of bytes above 0, or None";
        self.window = taken("window", value, wanted, |bytes: &Option<u64>| *bytes != Some(0))?;
        Ok(())
    }
}

pub struct Maker {
    table: &'static Table,
    make: Py<PyAny>,
    methods: Vec<String>,
    wishes: Wishes,
}

impl Maker {
    pub fn new(
        table: &'static Table,
        make: Py<PyAny>,
        methods: Vec<String>,
        ecn: &str,
        report_interval_ns: u64,
    ) -> Maker {
        let ecn = match ecn {
            "ect1" => Ecn::Ect1,
            "ect0" => Ecn::Ect0,
            _ => Ecn::NotEct,
        };
        Maker { table, make, methods, wishes: Wishes::new(ecn, report_interval_ns) }
    }
}

impl media::own::Maker for Maker {
    fn make(&self, options: &Values, mut rng: Rng) -> Box<dyn Code> {
        let name = self.table.name;
        Box::new(call(name, |py| {
            let options = attributes(py, options)?;
            let object = self.make.bind(py).call1((options, rng.u64()))?;
            let has_frames = self.methods.iter().any(|method| method == "on_frame");
            Ok(Controller {
                table: self.table,
                rates: Py::new(py, Rates::default())?,
                on_report: object.getattr("on_report")?.unbind(),
                on_frame: has_frames
                    .then(|| object.getattr("on_frame"))
                    .transpose()?
                    .map(Bound::unbind),
                object: object.unbind(),
            })
        }))
    }
    fn wishes(&self) -> Wishes {
        self.wishes
    }
}

/// A flow's controller: the object, its bound methods, and what they are called with.
struct Controller {
    table: &'static Table,
    object: Py<PyAny>,
    rates: Py<Rates>,
    on_report: Py<PyAny>,
    /// `None`: the class has not got it.
    on_frame: Option<Py<PyAny>>,
}

impl Controller {
    /// Calls a method with the answer that holds, and takes its answer over.
    fn call(
        &self,
        answer: &mut Answer,
        method: impl FnOnce(Python<'_>, &Bound<'_, Rates>) -> PyResult<()>,
    ) {
        *answer = call(self.table.name, |py| {
            let rates = self.rates.bind(py);
            let Answer { target_bps, pacing_bps, window, min_bps, max_bps } = *answer;
            *rates.borrow_mut() = Rates {
                target_bps,
                pacing_bps: (pacing_bps > 0.0).then_some(pacing_bps),
                window: (window > 0).then_some(window),
                min_bps,
                max_bps,
            };
            method(py, rates)?;
            let said = rates.borrow();
            Ok(Answer {
                target_bps: said.target_bps,
                pacing_bps: said.pacing_bps.unwrap_or(0.0),
                window: said.window.unwrap_or(0),
                min_bps,
                max_bps,
            })
        });
    }
}

impl Code for Controller {
    fn on_report(&mut self, report: &media::Report, answer: &mut Answer) {
        self.call(answer, |py, rates| {
            let fate = |packet: &media::Fate| Fate {
                sent_ns: packet.sent.0,
                arrived_ns: packet.arrived.map(|at| at.0),
                size: packet.size,
                ce: packet.ce,
            };
            let packets = PyTuple::new(py, report.packets.iter().map(fate))?.unbind();
            let told = Report {
                now_ns: report.now.0,
                rtt_ns: report.rtt.0,
                one_way_ns: report.one_way.0,
                acked: report.acked,
                in_flight: report.in_flight,
                max_in_flight: report.max_in_flight,
                packets,
            };
            nothing("on_report", "rates", &self.on_report.bind(py).call1((told, rates))?)
        });
    }
    fn on_frame(&mut self, frame: &FrameState, answer: &mut Answer) {
        let Some(method) = &self.on_frame else { return };
        self.call(answer, |py, rates| {
            let told = Frame {
                now_ns: frame.now.0,
                interval_ns: frame.interval.0,
                queue_age_ns: frame.queue_age.0,
                queue_bytes: frame.queue_bytes,
                last_bytes: frame.last_bytes,
            };
            nothing("on_frame", "rates", &method.bind(py).call1((told, rates))?)
        });
    }
    fn probe(&self, out: &mut dyn Gauges) {
        tell(self.table.name, self.table, &self.object, out);
    }
}
