//! The bottleneck in real time, and the replay of its logs: JSON in, JSON out.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use l4slab_bottleneck::log::set_id;
use l4slab_bottleneck::{Refused, packets, replay};
use l4slab_core::aqm::DropReason;
use l4slab_core::ecn::Ecn;
use l4slab_core::packet::{Flags, GroupId, Packet};
use l4slab_core::scenario::Run;
use l4slab_core::time::Time;
use pyo3::exceptions::PyValueError;
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

/// A packet: when it is sent (ns), its flow group, the bytes of its frame and of its payload, ECN field, DSCP, and the
/// payload of each of its segments, 0 for one without segments.
type Sent = (u64, u16, u16, u16, u8, u8, u32);
/// When it left or was lost (ns), its place among all that were sent, the ECN field with which it left.
type Fate = (u64, u32, u8);

/// What the path of a run does with packets, in the order of their times: those that left it before `end_ns`, and those
/// that were lost. Raises ValueError with one sentence.
#[pyfunction]
fn pass_packets(
    py: Python<'_>,
    run_json: &str,
    packets: Vec<Sent>,
    end_ns: u64,
) -> PyResult<(Vec<Fate>, Vec<Fate>)> {
    let pass = || {
        let run = Run::from_json(run_json).map_err(|e| Refused::input(e.to_string()))?;
        let mut sent = vec![<[VecDeque<_>; 2]>::default(); run.flows.len()];
        let rows = packets.into_iter().enumerate();
        for (number, (at, group, frame, payload, ecn, dscp, segment)) in rows {
            let of = GroupId { number: group, account: 0 };
            let ecn = Ecn::from_bits(ecn);
            let mut pkt = Packet::new(group.into(), of, Flags::UDP, frame.into(), ecn);
            (pkt.payload, pkt.dscp) = (payload, dscp);
            if segment > 0 {
                pkt.flags = pkt.flags.with(Flags::SUPER);
                pkt.window = u32::from(payload).div_ceil(segment) as u16;
                pkt.ecn_bytes.ect0 = segment;
            }
            set_id(&mut pkt, number as u32);
            sent[usize::from(group)][0].push_back((Time(at), pkt));
        }
        replay::simulate(run, sent, Time(end_ns))
    };
    let out = py.detach(pass).map_err(|e| PyValueError::new_err(e.sentence))?;
    let plain =
        |all: Vec<(Time, u32, u8)>| all.into_iter().map(|(at, id, x)| (at.0, id, x)).collect();
    let mut left: Vec<Fate> = plain(out.departures.into_iter().flatten().collect());
    left.sort_by_key(|(at, ..)| *at);
    Ok((left, plain(out.losses)))
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
    m.add_function(wrap_pyfunction!(pass_packets, m)?)?;
    m.add_function(wrap_pyfunction!(drop_reasons, m)?)
}
