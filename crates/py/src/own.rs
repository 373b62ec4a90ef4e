//! Controllers and queues that are classes in Python, and the registration of these and of compiled ones.

mod controller;
mod media;
mod queue;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;

use l4slab_core::aqm::own::QDISCS;
use l4slab_core::cc::media::own::MEDIA_CONTROLLERS;
use l4slab_core::cc::own::CONTROLLERS;
use l4slab_core::own::{self, Failure};
use l4slab_core::params::declared::{Declaration, Table, Value, Values};
use l4slab_core::probe::Gauges;
use l4slab_plugin::guard;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{refused, to_python};

/// Runs a simulation; code of one's own that cannot go on is a sentence.
pub fn caught<R>(run: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| match payload.downcast::<Failure>() {
        Ok(failure) => failure.0,
        Err(payload) => resume_unwind(payload),
    })
}

/// Ends the run with what `l4slab.own` makes of an exception.
fn fail(py: Python<'_>, name: &str, error: PyErr) -> ! {
    let message = || -> PyResult<String> {
        let sentence = py.import("l4slab.own.wrong")?.getattr("sentence")?;
        sentence.call1((error.clone_ref(py).into_value(py), name))?.extract()
    };
    own::fail(message().unwrap_or_else(|_| format!("{name}: {error}")))
}

/// A call of code in Python; what it raises ends the run.
fn call<R>(name: &str, call: impl FnOnce(Python<'_>) -> PyResult<R>) -> R {
    Python::attach(|py| guard::watched(|| call(py)).unwrap_or_else(|error| fail(py, name, error)))
}

/// Whoever returns a window, as a congestion control of Linux does, would be heard by nobody.
fn nothing(method: &str, answer: &str, given: &Bound<'_, PyAny>) -> PyResult<()> {
    if given.is_none() {
        return Ok(());
    }
    let given = given.repr()?;
    Err(PyTypeError::new_err(format!(
        "{method} gave {given}; it returns nothing and sets {answer}"
    )))
}

/// Values of parameters as attributes have them.
fn attributes<'py>(py: Python<'py>, values: &Values) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (keyword, value) in values.named() {
        match value {
            Value::Number(n) => all.set_item(keyword, n)?,
            Value::Whole(n) | Value::Size(n) => all.set_item(keyword, n)?,
            Value::Time(t) => all.set_item(keyword, t.0)?,
            Value::Rate(r) => all.set_item(keyword, r.bps())?,
            Value::Switch(on) => all.set_item(keyword, on)?,
            Value::Choice(word) => all.set_item(keyword, word)?,
        }
    }
    Ok(all)
}

/// Tells what the attributes of these names are; None is no value.
fn tell(name: &str, table: &'static Table, object: &Py<PyAny>, out: &mut dyn Gauges) {
    call(name, |py| {
        for gauge in &table.gauges {
            let value = object.bind(py).getattr(gauge.name)?;
            let number = value.extract::<Option<f64>>().map_err(|_| {
                let given = value.repr().map_or_else(|_| String::new(), |text| text.to_string());
                let name = gauge.name;
                PyTypeError::new_err(format!("the gauge {name} is {given}; it is a number or None"))
            })?;
            if let Some(number) = number {
                out.gauge(gauge.name, number);
            }
        }
        Ok(())
    });
}

/// What is declared of a kind under a reference.
fn known(kind: &str, reference: &str) -> Option<&'static Table> {
    match kind {
        "controller" => CONTROLLERS.table(reference),
        "media" => MEDIA_CONTROLLERS.table(reference),
        _ => QDISCS.table(reference),
    }
}

/// The declaration. A known reference keeps its declaration.
fn declared(kind: &str, reference: &str, declaration: &str) -> PyResult<&'static Table> {
    if let Some(table) = known(kind, reference) {
        return Ok(table);
    }
    let declaration: Declaration = serde_json::from_str(declaration).map_err(refused)?;
    Table::declare(declaration).map_err(refused)
}

/// Makes a controller, one of media or a queue (`kind`) known by what it declares, given as JSON. Runs that have it can
/// be described here, and not be computed. A ValueError says what is wrong with the declaration.
#[pyfunction]
fn declare_own(kind: &str, reference: &str, declaration: &str) -> PyResult<()> {
    let table = declared(kind, reference, declaration)?;
    match kind {
        "controller" => CONTROLLERS.register(reference, table, None),
        "media" => MEDIA_CONTROLLERS.register(reference, table, None),
        _ => QDISCS.register(reference, table, None),
    }
    Ok(())
}

/// The entry of a declared one in `l4slab list`.
#[pyfunction]
fn own_info<'py>(py: Python<'py>, kind: &str, reference: &str) -> PyResult<Bound<'py, PyAny>> {
    to_python(py, &known(kind, reference).map(Table::info))
}

/// The same as `declare_own` of a class, and runs can be computed. `make` gives an object, from its
/// parameters and, of a controller, a seed; of a queue, the link's rate. `methods` are those that it has
/// of the optional ones. `constants`: ECN, governs_window of a controller of TCP, and report_interval_ns of one of media.
#[pyfunction]
fn load_class(
    kind: &str,
    reference: &str,
    declaration: &str,
    make: Py<PyAny>,
    methods: Vec<String>,
    constants: (String, bool, u64),
) -> PyResult<()> {
    let (ecn, governs_window, report_interval_ns) = constants;
    let table = declared(kind, reference, declaration)?;
    match kind {
        "controller" => {
            let maker = controller::Maker::new(table, make, methods, &ecn, governs_window);
            CONTROLLERS.register(reference, table, Some(Box::new(maker)));
        }
        "media" => {
            let maker = media::Maker::new(table, make, methods, &ecn, report_interval_ns);
            MEDIA_CONTROLLERS.register(reference, table, Some(Box::new(maker)));
        }
        _ => {
            let maker = queue::Maker::new(table, make, methods);
            QDISCS.register(reference, table, Some(Box::new(maker)));
        }
    }
    Ok(())
}

/// The same of a library, which declares itself: its declaration as JSON, and the wish for ECN of a
/// controller. A ValueError goes on after the library's name.
#[pyfunction]
fn load_library(
    kind: &str,
    file: PathBuf,
    reference: &str,
    name: &str,
) -> PyResult<(String, &'static str)> {
    let (declaration, ecn) = match kind {
        "controller" => l4slab_plugin::load_controller(&file, reference, name).map_err(refused)?,
        "media" => l4slab_plugin::load_media(&file, reference, name).map_err(refused)?,
        _ => (l4slab_plugin::load_queue(&file, reference, name).map_err(refused)?, "off"),
    };
    Ok((serde_json::to_string(&declaration).map_err(refused)?, ecn))
}

/// The number of the call of code of one's own that is under way; 0: none is.
#[pyfunction]
fn own_call() -> u64 {
    guard::under_way()
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<controller::Ack>()?;
    m.add_class::<controller::Lost>()?;
    m.add_class::<controller::Window>()?;
    m.add_class::<media::Fate>()?;
    m.add_class::<media::Frame>()?;
    m.add_class::<media::Rates>()?;
    m.add_class::<media::Report>()?;
    m.add_class::<queue::Packet>()?;
    m.add_class::<queue::Link>()?;
    m.add_function(wrap_pyfunction!(declare_own, m)?)?;
    m.add_function(wrap_pyfunction!(own_info, m)?)?;
    m.add_function(wrap_pyfunction!(load_class, m)?)?;
    m.add_function(wrap_pyfunction!(load_library, m)?)?;
    m.add_function(wrap_pyfunction!(own_call, m)?)?;
    Ok(())
}
