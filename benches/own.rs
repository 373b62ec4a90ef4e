//! What the C ABI costs: the same laws (`reno`, `pfifo`) built in and as a library, side by side.
//!
//! ```text
//! cargo bench -p l4slab-plugin                      # packets per second, best of seven rounds
//! cargo bench -p l4slab-plugin -- --instructions    # also counts instructions (needs valgrind)
//! ```

#![allow(clippy::disallowed_types)] // a benchmark reads the clock

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use l4slab_core::scenario::Run;
use l4slab_core::sim::Simulation;

const ROUNDS: usize = 7;
const LIBRARY: &str = "./own.so#0";
/// What is a library's, controller and queue.
const CASES: [(&str, &str, &str); 4] = [
    ("reno, pfifo", "reno", "pfifo limit 500"),
    ("reno of a library, pfifo", LIBRARY, "pfifo limit 500"),
    ("reno, pfifo of a library", "reno", "./own.so#0 limit 500"),
    ("both of a library", LIBRARY, "./own.so#0 limit 500"),
];

fn run(case: usize, seconds: f64) -> (u64, Duration) {
    let (_, cc, qdisc) = CASES[case];
    let run = serde_json::json!({
        "duration_ns": (seconds * 1e9) as u64,
        "seed": 1,
        "links": [{"name": "b", "rate_bps": 1_000_000_000, "qdisc": qdisc}],
        "flows": [{
            "name": "f", "cc": cc, "count": 4, "rtt_ns": 10_000_000, "path": ["b"],
        }],
    });
    let run = Run::from_json(&run.to_string()).expect("the scenario is valid");
    let simulation = Simulation::new(&run).expect("the scenario is valid");
    let start = Instant::now();
    let recording = simulation.run();
    (recording.delivered_packets, start.elapsed())
}

/// Instructions per delivered packet, without what comes before the first.
fn instructions(case: usize) -> Option<f64> {
    let count = |seconds: &str| -> Option<(f64, f64)> {
        let out = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe().ok()?)
            .args(["--once", &case.to_string(), seconds])
            .output()
            .ok()?;
        let log = String::from_utf8_lossy(&out.stderr).into_owned();
        let line = log.lines().find(|l| l.contains("Collected"))?;
        let instructions = line.rsplit(' ').next()?.replace(',', "").parse().ok()?;
        let packets = String::from_utf8_lossy(&out.stdout).trim().parse().ok()?;
        Some((instructions, packets))
    };
    let ((i1, p1), (i2, p2)) = (count("1")?, count("2")?);
    Some((i2 - i1) / (p2 - p1))
}

/// The library, compiled when this begins.
fn library() -> PathBuf {
    std::env::temp_dir().join(format!("l4slab-bench-{}", std::process::id())).join("own.so")
}

fn load(library: &Path) {
    l4slab_plugin::load_controller(library, LIBRARY, "own.so").expect("a controller");
    l4slab_plugin::load_queue(library, LIBRARY, "own.so").expect("a queue");
}

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let library = library();
    let folder = library.parent().expect("it is in a folder");
    std::fs::create_dir_all(folder).expect("a temporary folder");
    let built = Command::new("cc")
        .args(["-std=c11", "-O2", "-fPIC", "-shared", "-o"])
        .arg(&library)
        .arg(here.join("benches/own.c"))
        .arg("-I")
        .arg(here.join("python/l4slab/own/include"))
        .status();
    assert!(built.is_ok_and(|status| status.success()), "cc compiles benches/own.c");
    load(&library);
    std::fs::remove_dir_all(folder).expect("the temporary folder");

    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|a| a == "--once") {
        let case = arguments[at + 1].parse().expect("the number of a case");
        println!("{}", run(case, arguments[at + 2].parse().expect("seconds")).0);
        return;
    }
    let counts = arguments.iter().any(|a| a == "--instructions");
    let mut best = [0.0_f64; CASES.len()];
    for _ in 0..ROUNDS {
        for (case, best) in best.iter_mut().enumerate() {
            let (packets, took) = run(case, 5.0);
            *best = best.max(packets as f64 / took.as_secs_f64());
        }
    }
    let counted: Vec<_> =
        (0..CASES.len()).map(|case| if counts { instructions(case) } else { None }).collect();
    println!(
        "{:<28}{:>12}{:>8}{:>14}{:>8}",
        "4 flows, 1 Gbit/s, 10 ms", "packets/s", "", "instructions", ""
    );
    for (case, (name, ..)) in CASES.iter().enumerate() {
        let speed = best[case] / best[0] - 1.0;
        print!("{name:<28}{:>11.2}M{:>+7.1}%", best[case] / 1e6, 100.0 * speed);
        if let (Some(count), Some(first)) = (counted[case], counted[0]) {
            print!("{count:>14.0}{:>+7.1}%", 100.0 * (count / first - 1.0));
        }
        println!();
    }
}
