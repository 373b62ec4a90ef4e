//! The bottleneck in real time, and the replay of its logs: JSON in, JSON out.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use l4slab_bottleneck::{Refused, packets, replay};
use l4slab_core::aqm::DropReason;
use pyo3::prelude::*;
use serde::Serialize;
use serde_json::json;

fn told<T: Serialize>(what: Result<T, Refused>) -> String {
    match what {
        Ok(done) => json!({ "done": done }).to_string(),
        Err(Refused { sentence, is_input }) => {
            json!({ "refused": sentence, "is_input": is_input }).to_string()
        }
    }
}

/// Runs a command behind a bottleneck, see `l4slab.engines.real.forwarder`; `{"done": summary}` or `{"refused": sentence,
/// "is_input": bool}`. The process must have one thread, and is of no other use afterwards.
#[cfg(target_os = "linux")]
#[pyfunction]
fn run_bottleneck(py: Python<'_>, options: &str) -> String {
    let run = || l4slab_bottleneck::setup::run(options);
    let summary = py.detach(run);
    told(summary.map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default()))
}

#[cfg(not(target_os = "linux"))]
#[pyfunction]
fn run_bottleneck(_options: &str) -> String {
    told::<()>(Err(Refused::machine("l4slab bottleneck needs Linux")))
}

/// Compares a log with the simulator; answers as `run_bottleneck` does.
#[pyfunction]
fn replay_log(py: Python<'_>, path: PathBuf) -> String {
    let compare = || {
        let file = File::open(&path).map_err(|e| Refused::input(format!("cannot be read: {e}")))?;
        replay::replay(BufReader::new(file))
    };
    told(py.detach(compare))
}

/// Writes what the links saw, see `l4slab_bottleneck::packets`; answers as `run_bottleneck` does, with the connections of
/// programs.
#[pyfunction]
fn packets_of_log(py: Python<'_>, path: PathBuf, wanted: &str, folder: PathBuf) -> String {
    let write = || {
        let wanted: packets::Wanted =
            serde_json::from_str(wanted).map_err(|e| Refused::input(e.to_string()))?;
        let file = File::open(&path).map_err(|e| Refused::input(format!("cannot be read: {e}")))?;
        packets::write(BufReader::new(file), &wanted, &folder)
    };
    told(py.detach(write))
}

/// Why packets are lost, as results call it, in the order of the numbers that logs have.
#[pyfunction]
fn drop_reasons() -> Vec<&'static str> {
    DropReason::ALL.map(DropReason::name).to_vec()
}

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(run_bottleneck, m)?)?;
    m.add_function(wrap_pyfunction!(replay_log, m)?)?;
    m.add_function(wrap_pyfunction!(packets_of_log, m)?)?;
    m.add_function(wrap_pyfunction!(drop_reasons, m)?)
}
