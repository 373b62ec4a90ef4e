//! Runs a resolved description (JSON, as the Python side hands it over) and prints its rows: for
//! profiling and for looking at one run without Python.
//!
//! ```text
//! cargo run --release --example run -- run.json [--series]
//! ```

use l4slab_core::scenario::Run;
use l4slab_core::sim::Simulation;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: run FILE.json [--series]")?;
    let run = Run::from_json(&std::fs::read_to_string(path)?)?;
    let recording = Simulation::new(&run)?.run();
    for row in &recording.flows {
        println!("{}", serde_json::to_string(row)?);
    }
    for row in &recording.links {
        println!("{}", serde_json::to_string(row)?);
    }
    println!("{} packets", recording.delivered_packets);
    if std::env::args().any(|a| a == "--series") {
        let s = &recording.series;
        for i in 0..s.time_s.len() {
            print!("{:.1} {:?} {:?}", s.time_s[i], s.flow[i], s.queue[i]);
            for (name, values) in s.columns.iter().filter(|(_, v)| !v[i].is_nan()) {
                print!(" {name}={:.5}", values[i]);
            }
            println!();
        }
    }
    Ok(())
}
