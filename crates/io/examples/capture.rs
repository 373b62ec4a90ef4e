//! Runs a resolved description (JSON) with and without captures, and prints what they cost.
//!
//! ```text
//! cargo run --release --package l4slab-io --example capture -- run.json DIR
//! ```

#![allow(clippy::disallowed_types)] // it reads the clock

use std::path::Path;
use std::time::Instant;

use l4slab_core::scenario::Run;
use l4slab_core::sim::Simulation;
use l4slab_io::captures::Captures;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(file), Some(folder)) = (args.next(), args.next()) else {
        return Err("usage: capture RUN.json DIR".into());
    };
    let run = Run::from_json(&std::fs::read_to_string(file)?)?;
    let start = Instant::now();
    let plain = Simulation::new(&run)?.run();
    let without = start.elapsed();
    let mut captures = Captures::create(Path::new(&folder), "example", &run)?;
    let simulation = Simulation::tapped(&run, &mut captures)?;
    let start = Instant::now();
    for row in simulation.run().flows {
        println!(
            "{} ce={} sent={} drop={} rexmit={}",
            row.flow, row.ce_packets, row.sent_packets, row.dropped_packets, row.retransmits
        );
    }
    captures.finish()?;
    let with = start.elapsed();
    println!(
        "{} packets, {without:.2?} without captures, {with:.2?} with",
        plain.delivered_packets
    );
    Ok(())
}
