//! The Python module `l4slab._core`: JSON in, rows and columns out. Nothing is computed here.

mod bottleneck;
mod endpoint;
mod lab;
#[cfg(target_os = "linux")]
mod memory;
mod own;
mod position;
mod steps;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use l4slab_core::aqm::police::PoliceConfig;
use l4slab_core::aqm::registry::{self as qdiscs, QdiscConfig};
use l4slab_core::aqm::tree::hfsc::CurvesConfig;
use l4slab_core::aqm::{printed, stab, tree};
use l4slab_core::cc::media::registry as media;
use l4slab_core::cc::registry as controllers;
use l4slab_core::element::PathState;
use l4slab_core::footprint;
use l4slab_core::live;
use l4slab_core::net::access;
use l4slab_core::params::{self, Changed, Info, write_options};
use l4slab_core::probe::{Series, Transfer};
use l4slab_core::rng::Rng;
use l4slab_core::scenario::{FlowSpec, Run};
use l4slab_core::sim::recording::Histogram;
use l4slab_core::sim::{Recording, Simulation};
use l4slab_core::tc;
use l4slab_core::time::{Span, Time};
use l4slab_core::traffic::media::{SentFrame, experience_of};
use l4slab_core::traffic::tcp::idle;
use l4slab_core::transport::options::Options as TransportOptions;
use l4slab_core::units::Rate;
use l4slab_io::captures::Captures;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict, PyList, PyString};
use serde::Serialize;

fn refused(e: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(e.to_string())
}

/// What is serialised as Python objects.
fn to_python<'py>(py: Python<'py>, rows: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(rows).map_err(refused)?;
    py.import("json")?.call_method1("loads", (text,))
}

/// Random words of each parameter of a queue, values from its whole range; empty for an unknown name.
#[pyfunction]
fn qdisc_samples(name: &str, seed: u64) -> Vec<String> {
    let mut rng = Rng::stream(seed, "samples", 0);
    qdiscs::samples(name, &mut rng).into_iter().map(|(words, _)| words).collect()
}

/// Simulates a run, given as JSON, and returns `{"flows": [row…], "links": [row…], "series":
/// {column: [value…]} or bytes of doubles with NaN for none, "members": [row…], "transfers": {column: [value…]}, "histograms": {column: [value…]}, "losses": [row…],
/// "delivered_packets": n}`. A
/// ValueError says in one sentence what is wrong with the run. With a folder `captures` each packet is
/// written down there, in files that call the run `title`; an OSError says what the file system
/// refused. Other Python threads go on meanwhile.
#[pyfunction]
#[pyo3(signature = (run_json, captures=None, title=""))]
fn simulate<'py>(
    py: Python<'py>,
    run_json: &str,
    captures: Option<PathBuf>,
    title: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let simulate = || {
        let run = Run::from_json(run_json).map_err(refused)?;
        let Some(folder) = captures else {
            return Ok::<_, PyErr>(Simulation::new(&run).map_err(refused)?.run());
        };
        let mut captures = Captures::create(&folder, title, &run)?;
        let recording = Simulation::tapped(&run, &mut captures).map_err(refused)?.run();
        captures.finish()?;
        Ok(recording)
    };
    tables(py, &py.detach(|| own::caught(simulate)).map_err(refused)??)
}

fn tables<'py>(py: Python<'py>, recording: &Recording) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("flows", to_python(py, &recording.flows)?)?;
    d.set_item("members", to_python(py, &recording.members)?)?;
    d.set_item("links", to_python(py, &recording.links)?)?;
    let r = recording;
    d.set_item("series", series(py, &r.series, &r.flow_names, &r.link_names)?)?;
    d.set_item("transfers", transfers(py, &r.transfers, &r.flow_names)?)?;
    d.set_item("histograms", histograms(py, &r.histograms, &r.flow_names, &r.link_names)?)?;
    d.set_item("losses", to_python(py, &r.losses)?)?;
    d.set_item("delivered_packets", recording.delivered_packets)?;
    Ok(d)
}

fn series<'py>(
    py: Python<'py>,
    s: &Series,
    flows: &[String],
    links: &[String],
) -> PyResult<Bound<'py, PyDict>> {
    // Of a name there is one object, however many rows have it.
    let text = |name: &str| PyString::intern(py, name);
    let each = |names: &[String]| names.iter().map(|name| text(name)).collect::<Vec<_>>();
    let (flows, links) = (each(flows), each(links));
    let name = |names: &[Bound<'py, PyString>], i: &u16| names.get(usize::from(*i)).cloned();
    let bytes = |values: &[f64]| {
        PyBytes::new_with(py, size_of_val(values), |bytes| {
            let each = bytes.chunks_exact_mut(size_of::<f64>()).zip(values);
            each.for_each(|(bytes, value)| bytes.copy_from_slice(&value.to_ne_bytes()));
            Ok(())
        })
    };
    let d = PyDict::new(py);
    d.set_item("time_s", bytes(&s.time_s)?)?;
    d.set_item("flow", PyList::new(py, s.flow.iter().map(|i| name(&flows, i)))?)?;
    d.set_item("link", PyList::new(py, s.link.iter().map(|i| name(&links, i)))?)?;
    d.set_item("queue", PyList::new(py, s.queue.iter().map(|queue| queue.map(text)))?)?;
    if s.state.iter().any(Option::is_some) {
        d.set_item("cc_state", PyList::new(py, s.state.iter().map(|state| state.map(text)))?)?;
    }
    for (column, values) in &s.columns {
        d.set_item(*column, bytes(values)?)?;
    }
    Ok(d)
}

fn transfers<'py>(
    py: Python<'py>,
    rows: &[Transfer],
    flows: &[String],
) -> PyResult<Bound<'py, PyDict>> {
    let ms = |span: Option<Span>| span.map(Span::as_millis_f64);
    let name = |t: &Transfer| flows.get(usize::from(t.group)).cloned();
    let d = PyDict::new(py);
    d.set_item("flow", PyList::new(py, rows.iter().map(name))?)?;
    d.set_item("kind", PyList::new(py, rows.iter().map(|t| t.kind.name()))?)?;
    d.set_item("start_s", PyList::new(py, rows.iter().map(|t| t.start.as_secs_f64()))?)?;
    d.set_item("size_bytes", PyList::new(py, rows.iter().map(|t| t.bytes))?)?;
    let completion = rows.iter().map(|t| ms(Some(t.completion)));
    d.set_item("completion_ms", PyList::new(py, completion)?)?;
    d.set_item("response_ms", PyList::new(py, rows.iter().map(|t| ms(t.response)))?)?;
    d.set_item("ideal_ms", PyList::new(py, rows.iter().map(|t| ms(t.ideal)))?)?;
    d.set_item("slowdown", PyList::new(py, rows.iter().map(Transfer::slowdown))?)?;
    d.set_item("retransmits", PyList::new(py, rows.iter().map(|t| t.retransmits))?)?;
    Ok(d)
}

/// A row per bin.
fn histograms<'py>(
    py: Python<'py>,
    all: &[Histogram],
    flows: &[String],
    links: &[String],
) -> PyResult<Bound<'py, PyDict>> {
    let rows = || all.iter().flat_map(|h| h.bins.iter().map(move |bin| (h, bin)));
    let name = |names: &[String], i: Option<usize>| names.get(i?).cloned();
    // Divided, which rounds once: an edge is the number that one writes (5.24288), so that a query finds it.
    let ms = |edge: Span| edge.0 as f64 / 1e6;
    let d = PyDict::new(py);
    d.set_item("quantity", rows().map(|(h, _)| h.quantity).collect::<Vec<_>>())?;
    d.set_item("flow", rows().map(|(h, _)| name(flows, h.flow)).collect::<Vec<_>>())?;
    d.set_item("link", rows().map(|(h, _)| name(links, h.link)).collect::<Vec<_>>())?;
    d.set_item("queue", rows().map(|(h, _)| h.queue).collect::<Vec<_>>())?;
    d.set_item("low_ms", rows().map(|(_, bin)| ms(bin.low)).collect::<Vec<_>>())?;
    d.set_item("high_ms", rows().map(|(_, bin)| ms(bin.high)).collect::<Vec<_>>())?;
    d.set_item("count", rows().map(|(_, bin)| bin.count).collect::<Vec<_>>())?;
    Ok(d)
}

/// How long a TCP transfer of so many bytes takes on an idle path whose slowest link has this rate and
/// burst, in ms: the handshake, slow start, and the rate.
#[pyfunction]
#[pyo3(signature = (size_bytes, rtt_ns, rate_bps, burst_bytes, mtu_bytes=1500))]
fn idle_completion_ms(
    size_bytes: u64,
    rtt_ns: u64,
    rate_bps: u64,
    burst_bytes: u64,
    mtu_bytes: u32,
) -> f64 {
    let forward = Span(rtt_ns / 2);
    let path = PathState { forward, back: Span(rtt_ns) - forward };
    idle(size_bytes, &path, mtu_bytes, false)
        .time(Rate::from_bps(rate_bps), burst_bytes)
        .as_millis_f64()
}

/// What the viewer of frames has experienced: of each, in the order of capture, when it was captured, its bytes, and when
/// all of it had come; all times in ns of the run.
#[pyfunction]
fn frame_experience(
    py: Python<'_>,
    frames: Vec<(u64, u64, Option<u64>)>,
    deadline_ns: u64,
    warmup_ns: u64,
    stop_ns: u64,
    end_ns: u64,
) -> PyResult<Bound<'_, PyDict>> {
    let sent: Vec<SentFrame> = frames
        .into_iter()
        .map(|(captured, bytes, complete)| SentFrame {
            captured: Time(captured),
            bytes,
            complete: complete.map_or(Time::NEVER, Time),
        })
        .collect();
    let all = experience_of(&sent, Span(deadline_ns), Time(warmup_ns), Time(stop_ns), Time(end_ns));
    let found = PyDict::new(py);
    found.set_item("frames", all.frames)?;
    found.set_item("late", all.late)?;
    found.set_item("lost", all.lost)?;
    found.set_item("freezes", all.freezes)?;
    found.set_item("frozen_ns", all.frozen.0)?;
    found.set_item("media_bytes", all.media_bytes)?;
    found.set_item("rate_changes", all.rate_changes)?;
    found.set_item("change_seconds_bytes", all.change_seconds_bytes)?;
    Ok(found)
}

/// Names of the columns of the time series that the queues and controllers of a run, given as JSON, add.
/// A ValueError says what is wrong with the run.
#[pyfunction]
fn gauges(run_json: &str) -> PyResult<Vec<&'static str>> {
    let run = Run::from_json(run_json).map_err(refused)?;
    Ok(run.gauges().iter().map(|gauge| gauge.name).collect())
}

/// A description that runs with the same results share, see `Run::normal`. A ValueError says that it is no JSON.
#[pyfunction]
fn normal(run_json: &str) -> PyResult<String> {
    Run::normal(run_json).map_err(refused)
}

/// The memory that a run may take, by its parts: what it is for ("queue", "samples", …), the name of the link,
/// impairment or flow, bytes, and how many packets, rows or flows these are. A ValueError says what is wrong with the run.
#[pyfunction]
fn memory_parts(run_json: &str) -> PyResult<Vec<(&'static str, String, f64, f64)>> {
    let run = Run::from_json(run_json).map_err(refused)?;
    let terms = footprint::terms(&run).map_err(refused)?;
    Ok(terms.into_iter().map(|t| (t.part.name(), t.name, t.bytes, t.count)).collect())
}

/// All queue disciplines: name, summary, parameters, gauges, and what Linux has of them.
#[pyfunction]
fn qdiscs_listing(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    to_python(py, &qdiscs::listing())
}

/// The same of all congestion controls, and their ECN wish.
#[pyfunction]
fn controllers_listing(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    to_python(py, &controllers::listing())
}

/// The rules of TCP that a flow may set otherwise.
#[pyfunction]
fn transport_listing(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    to_python(py, &Info::of::<TransportOptions>())
}

/// The rules of these that differ from Linux's, in their canonical form. A ValueError says what is wrong.
#[pyfunction]
fn canonical_transport(
    options: std::collections::BTreeMap<String, String>,
) -> PyResult<Vec<(&'static str, String)>> {
    let given = TransportOptions::read(&as_given(&options)).map_err(refused)?;
    let usual = write_options(&TransportOptions::default());
    Ok(write_options(&given).into_iter().filter(|one| !usual.contains(one)).collect())
}

/// The same of media controllers.
#[pyfunction]
fn media_listing(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    to_python(py, &media::listing())
}

/// All media, and the words in which their stations may differ.
#[pyfunction]
fn access_listing(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    to_python(py, &access::listing())
}

/// The words of a medium with every parameter spelt out, and the rates that its queues take for those of their links,
/// down and up. A ValueError says what is wrong.
#[pyfunction]
fn canonical_medium(text: &str) -> PyResult<(String, u64, u64)> {
    let medium = access::parse(text).map_err(refused)?;
    let [down, up] = medium.rates();
    Ok((medium.canonical(), down.bps(), up.bps()))
}

/// The words of a station that differs from its medium in these, with every parameter spelt out. A ValueError says what is
/// wrong.
#[pyfunction]
fn check_station(medium: &str, text: &str) -> PyResult<String> {
    let station = access::parse(medium).map_err(refused)?.of_station(text).map_err(refused)?;
    Ok(station.canonical())
}

/// The words of a medium, or of a station, that is changed by these while it runs. A ValueError says what is wrong.
#[pyfunction]
fn change_medium(medium: &str, text: &str, is_station: bool) -> PyResult<String> {
    let medium = access::parse(medium).map_err(refused)?;
    let changed = if is_station { medium.change_station(text) } else { medium.change(text) };
    Ok(changed.map_err(refused)?.canonical())
}

/// The tc string with every parameter spelt out. A ValueError says what tc would refuse.
#[pyfunction]
fn canonical_qdisc(text: &str) -> PyResult<String> {
    Ok(qdiscs::parse(text).map_err(refused)?.canonical())
}

/// What `tc qdisc show` prints as `tc` reads it, without the place, the statistics and units that it does not take.
#[pyfunction]
fn qdisc_as_read(text: &str) -> String {
    printed::as_read(text).into_owned()
}

/// bit/s of a rate in tc's units. A ValueError says that it is none.
#[pyfunction]
fn tc_rate(text: &str) -> PyResult<u64> {
    let rate = tc::parse_rate(text).map(|rate| rate.bps());
    rate.ok_or_else(|| PyValueError::new_err(format!("{text:?} is not a rate such as 10mbit")))
}

/// Bytes of a size in tc's units. A ValueError says that it is none.
#[pyfunction]
fn tc_size(text: &str) -> PyResult<u32> {
    let size = tc::parse_size(text);
    size.ok_or_else(|| PyValueError::new_err(format!("{text:?} is not a size such as 15k")))
}

/// The size table before the qdisc in the words of a link, without "stab" and with every parameter, and the words of
/// the qdisc. A ValueError says what tc would refuse.
#[pyfunction]
fn split_stab(text: &str) -> PyResult<(Option<String>, String)> {
    let (table, qdisc) = stab::split(text).map_err(refused)?;
    Ok((table.map(|table| params::write_words(&table)), qdisc))
}

/// The parameters of a policer, as `qdiscs` has those of queues.
#[pyfunction]
fn policer(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    to_python(py, &Info::of::<PoliceConfig>())
}

/// The words of a policer, without "police" and with every parameter. A ValueError says what tc would refuse.
#[pyfunction]
fn canonical_policer(text: &str) -> PyResult<String> {
    Ok(PoliceConfig::parse(text).map_err(refused)?.canonical())
}

/// The curves of a class of hfsc in their full form. A ValueError says what tc would refuse.
#[pyfunction]
fn canonical_curves(text: &str) -> PyResult<String> {
    Ok(CurvesConfig::parse(text).map_err(refused)?.canonical())
}

/// The same as a structure: name, parameters, separation, marks.
#[pyfunction]
fn qdisc_facts<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    to_python(py, &qdiscs::parse(text).map_err(refused)?.facts())
}

/// A queue of an experiment file while it runs.
#[pyclass(module = "l4slab._core")]
struct ChangingQdisc(QdiscConfig);

#[pymethods]
impl ChangingQdisc {
    /// A ValueError says what is wrong with the words of `tc` that it begins with.
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        qdiscs::parse(text).map(ChangingQdisc).map_err(refused)
    }
    /// Changes it by words of `tc`. What a run's description has of the change: of another kind, the canonical form;
    /// of the same one, what is named, which is what `tc qdisc change` takes. A ValueError says what is wrong.
    fn change(&mut self, text: &str) -> PyResult<String> {
        let Changed { config, words } = self.0.changed(text).map_err(refused)?;
        self.0 = config;
        Ok(words)
    }
}

/// All queues that hold classes, as `qdiscs` has the others.
#[pyfunction]
fn trees(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    to_python(py, &tree::listing())
}

/// The same as `canonical_qdisc` of a queue that holds classes; of tbf, with the class that it may have.
#[pyfunction]
fn canonical_tree(text: &str) -> PyResult<String> {
    let root = tree::Root::parse(text, true).ok_or_else(|| refused("it holds no classes"))?;
    Ok(root.map_err(refused)?.canonical())
}

/// When the flows that the events of a flow group begin start and stop, ns: `flow` as a run's description has it, in
/// JSON, in a run with this seed and duration. A ValueError says what is wrong.
#[pyfunction]
fn lives(flow: &str, seed: u64, duration_ns: u64) -> PyResult<Vec<(u64, u64)>> {
    let flow: FlowSpec = serde_json::from_str(flow).map_err(refused)?;
    let lives = flow.lives(seed, duration_ns);
    Ok(lives.into_iter().map(|(start, stop)| (start.0, stop.0)).collect())
}

/// The options of a congestion control, completed with defaults. A ValueError says what is wrong.
#[pyfunction]
fn canonical_controller<'py>(
    py: Python<'py>,
    name: &str,
    options: std::collections::BTreeMap<String, String>,
) -> PyResult<Bound<'py, PyDict>> {
    let parsed = controllers::parse(name, &as_given(&options)).map_err(refused)?;
    parsed.canonical().into_py_dict(py)
}

/// The same of a media controller.
#[pyfunction]
fn canonical_media<'py>(
    py: Python<'py>,
    name: &str,
    options: std::collections::BTreeMap<String, String>,
) -> PyResult<Bound<'py, PyDict>> {
    let parsed = media::parse(name, &as_given(&options)).map_err(refused)?;
    parsed.canonical().into_py_dict(py)
}

/// What `encoder` of a call is where it does not say.
#[pyfunction]
fn usual_encoder<'py>(
    py: Python<'py>,
    name: &str,
    options: std::collections::BTreeMap<String, String>,
) -> PyResult<Bound<'py, PyAny>> {
    let parsed = media::parse(name, &as_given(&options)).map_err(refused)?;
    to_python(py, &parsed.encoder())
}

/// Options as the core reads them.
fn as_given(options: &std::collections::BTreeMap<String, String>) -> Vec<(&str, &str)> {
    options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect()
}

/// A run that is watched and changed while it goes on (see `live.rs` of the core).
#[pyclass]
#[derive(Default)]
struct Live(Mutex<live::Live>);

#[pymethods]
impl Live {
    #[new]
    fn new() -> Live {
        Live::default()
    }
    /// Answers a request, both JSON: `{"ok": {…}}` or `{"refused": "one sentence"}`. Other Python threads
    /// go on meanwhile.
    fn ask(&self, py: Python<'_>, request: &str) -> String {
        let ask = || {
            let mut live = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            live.ask(request)
        };
        let refused = |sentence| serde_json::json!({ "refused": sentence }).to_string();
        py.detach(|| own::caught(ask)).unwrap_or_else(refused)
    }
}

/// Version of the core.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Hash of the sources that decide what a run gives (see `build.rs`).
#[pyfunction]
fn source_hash() -> &'static str {
    env!("L4SLAB_SOURCE_HASH")
}

#[pymodule]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    #[cfg(target_os = "linux")]
    memory::set_options();
    m.add_function(wrap_pyfunction!(simulate, m)?)?;
    m.add_class::<Live>()?;
    m.add_function(wrap_pyfunction!(gauges, m)?)?;
    m.add_function(wrap_pyfunction!(normal, m)?)?;
    m.add_function(wrap_pyfunction!(memory_parts, m)?)?;
    m.add_function(wrap_pyfunction!(idle_completion_ms, m)?)?;
    m.add_function(wrap_pyfunction!(frame_experience, m)?)?;
    m.add("qdiscs", wrap_pyfunction!(qdiscs_listing, m)?)?;
    m.add("transport", wrap_pyfunction!(transport_listing, m)?)?;
    m.add("controllers", wrap_pyfunction!(controllers_listing, m)?)?;
    m.add("media_controllers", wrap_pyfunction!(media_listing, m)?)?;
    m.add("media", wrap_pyfunction!(access_listing, m)?)?;
    m.add_function(wrap_pyfunction!(canonical_medium, m)?)?;
    m.add_function(wrap_pyfunction!(change_medium, m)?)?;
    m.add_function(wrap_pyfunction!(check_station, m)?)?;
    m.add_function(wrap_pyfunction!(canonical_qdisc, m)?)?;
    m.add_function(wrap_pyfunction!(qdisc_facts, m)?)?;
    m.add_function(wrap_pyfunction!(qdisc_as_read, m)?)?;
    m.add_function(wrap_pyfunction!(tc_rate, m)?)?;
    m.add_function(wrap_pyfunction!(tc_size, m)?)?;
    m.add_function(wrap_pyfunction!(qdisc_samples, m)?)?;
    m.add_function(wrap_pyfunction!(split_stab, m)?)?;
    m.add_function(wrap_pyfunction!(policer, m)?)?;
    m.add_function(wrap_pyfunction!(canonical_policer, m)?)?;
    m.add_function(wrap_pyfunction!(canonical_curves, m)?)?;
    m.add_function(wrap_pyfunction!(trees, m)?)?;
    m.add_function(wrap_pyfunction!(position::toml_position, m)?)?;
    m.add_function(wrap_pyfunction!(canonical_tree, m)?)?;
    m.add_function(wrap_pyfunction!(lives, m)?)?;
    m.add_function(wrap_pyfunction!(canonical_transport, m)?)?;
    m.add_function(wrap_pyfunction!(canonical_controller, m)?)?;
    m.add_function(wrap_pyfunction!(canonical_media, m)?)?;
    m.add_function(wrap_pyfunction!(usual_encoder, m)?)?;
    own::add(m)?;
    bottleneck::add(m)?;
    m.add_class::<ChangingQdisc>()?;
    m.add_class::<endpoint::Endpoint>()?;
    m.add_class::<steps::Steps>()?;
    m.add_class::<lab::Lab>()?;
    m.add_function(wrap_pyfunction!(version, m)?)?;
    m.add_function(wrap_pyfunction!(source_hash, m)?)?;
    Ok(())
}
