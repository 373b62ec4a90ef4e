//! Speed of the simulator: delivered packets per second of one core, instructions per delivered
//! packet, and what a packet costs with 10 000 flows against 2.
//!
//! ```text
//! cargo bench                      # all scenarios, best of five rounds
//! cargo bench -- --instructions    # also counts instructions (needs valgrind)
//! ```
//!
//! Rounds go through all scenarios in turn, so that what else the machine does hits all alike.

#![allow(clippy::disallowed_types)] // a benchmark reads the clock

use std::process::Command;
use std::time::{Duration, Instant};

use l4slab_core::scenario::Run;
use l4slab_core::sim::Simulation;

const ROUNDS: usize = 5;

struct Scenario {
    name: &'static str,
    what: &'static str,
    seconds: f64,
    /// For counting instructions: long enough for slow start to be over.
    short_seconds: f64,
    rate_mbit: u64,
    qdisc: &'static str,
    rtt_ms: u64,
    cubic: u32,
    prague: u32,
    /// Of one CBR source, or none.
    cbr_mbit: u64,
    /// A media flow with this controller, at the rate of the link.
    media: Option<&'static str>,
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "cbr",
        what: "CBR at 90 %, pfifo, 1 Gbit/s",
        seconds: 20.0,
        short_seconds: 2.0,
        rate_mbit: 1000,
        qdisc: "pfifo limit 1000",
        rtt_ms: 10,
        cubic: 0,
        prague: 0,
        cbr_mbit: 900,
        media: None,
    },
    Scenario {
        name: "pfifo-1",
        what: "1 CUBIC, pfifo, 1 Gbit/s, 10 ms",
        seconds: 10.0,
        short_seconds: 1.0,
        rate_mbit: 1000,
        qdisc: "pfifo limit 1000",
        rtt_ms: 10,
        cubic: 1,
        prague: 0,
        cbr_mbit: 0,
        media: None,
    },
    Scenario {
        name: "dualpi2-2",
        what: "CUBIC + Prague, dualpi2, 100 Mbit/s, 10 ms",
        seconds: 60.0,
        short_seconds: 5.0,
        rate_mbit: 100,
        qdisc: "dualpi2",
        rtt_ms: 10,
        cubic: 1,
        prague: 1,
        cbr_mbit: 0,
        media: None,
    },
    Scenario {
        name: "dualpi2-20",
        what: "10 + 10 flows, dualpi2, 1 Gbit/s, 20 ms",
        seconds: 8.0,
        short_seconds: 1.0,
        rate_mbit: 1000,
        qdisc: "dualpi2",
        rtt_ms: 20,
        cubic: 10,
        prague: 10,
        cbr_mbit: 0,
        media: None,
    },
    Scenario {
        name: "dualpi2-10000",
        what: "5000 + 5000 flows, dualpi2, 10 Gbit/s, 20 ms",
        seconds: 2.0,
        short_seconds: 0.5,
        rate_mbit: 10_000,
        // As many packets as the default allows for at 1 Gbit/s, in time.
        qdisc: "dualpi2 limit 100000",
        rtt_ms: 20,
        cubic: 5000,
        prague: 5000,
        cbr_mbit: 0,
        media: None,
    },
    Scenario {
        name: "media",
        what: "a call at a fixed 90 %, dualpi2, 100 Mbit/s",
        seconds: 60.0,
        short_seconds: 5.0,
        rate_mbit: 100,
        qdisc: "dualpi2",
        rtt_ms: 20,
        cubic: 0,
        prague: 0,
        cbr_mbit: 0,
        media: Some("none"),
    },
];

impl Scenario {
    fn run(&self, seconds: f64) -> (u64, Duration) {
        let flow = |cc: &str, count: u32| {
            serde_json::json!({
                "name": cc, "cc": cc, "count": count,
                "rtt_ns": self.rtt_ms * 1_000_000, "path": ["bottleneck"],
            })
        };
        let mut flows: Vec<_> = [("cubic", self.cubic), ("prague", self.prague)]
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .map(|(cc, n)| flow(cc, n))
            .collect();
        if self.cbr_mbit > 0 {
            flows.push(serde_json::json!({
                "name": "cbr", "kind": "cbr", "rate_bps": self.cbr_mbit * 1_000_000,
                "rtt_ns": self.rtt_ms * 1_000_000, "path": ["bottleneck"],
            }));
        }
        if let Some(cc) = self.media {
            flows.push(serde_json::json!({
                "name": "media", "kind": "media", "cc": cc, "path": ["bottleneck"],
                "rate_bps": self.rate_mbit * 900_000, "interval_ns": 20_000_000,
                "rtt_ns": self.rtt_ms * 1_000_000,
            }));
        }
        let run = serde_json::json!({
            "duration_ns": (seconds * 1e9) as u64,
            "seed": 1,
            "start_jitter_ns": 100_000_000,
            "links": [{
                "name": "bottleneck", "rate_bps": self.rate_mbit * 1_000_000, "qdisc": self.qdisc,
            }],
            "flows": flows,
        });
        let run = Run::from_json(&run.to_string()).expect("the scenario is valid");
        let simulation = Simulation::new(&run).expect("the scenario is valid");
        let start = Instant::now();
        let recording = simulation.run();
        (recording.delivered_packets, start.elapsed())
    }

    /// Instructions per delivered packet: this program under callgrind, for two durations; the
    /// difference leaves start-up out.
    fn instructions(&self) -> Option<f64> {
        let count = |seconds: f64| -> Option<(f64, f64)> {
            let out = Command::new("valgrind")
                .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
                .arg(std::env::current_exe().ok()?)
                .args(["--once", self.name, &seconds.to_string()])
                .output()
                .ok()?;
            let log = String::from_utf8_lossy(&out.stderr).into_owned();
            let line = log.lines().find(|l| l.contains("Collected"))?;
            let instructions = line.rsplit(' ').next()?.replace(',', "").parse().ok()?;
            let packets = String::from_utf8_lossy(&out.stdout).trim().parse().ok()?;
            Some((instructions, packets))
        };
        let (i1, p1) = count(self.short_seconds)?;
        let (i2, p2) = count(self.short_seconds * 2.0)?;
        Some((i2 - i1) / (p2 - p1))
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(i) = args.iter().position(|a| a == "--once") {
        let s = SCENARIOS.iter().find(|s| s.name == args[i + 1]).expect("a scenario's name");
        let seconds = args[i + 2].parse().expect("seconds");
        println!("{}", s.run(seconds).0);
        return;
    }
    let mut best = vec![f64::INFINITY; SCENARIOS.len()];
    for _ in 0..ROUNDS {
        for (s, best) in SCENARIOS.iter().zip(&mut best) {
            let (packets, took) = s.run(s.seconds);
            *best = best.min(took.as_secs_f64() * 1e9 / packets as f64);
        }
    }
    let count_instructions = args.iter().any(|a| a == "--instructions");
    println!("{:<46} {:>10} {:>10} {:>13}", "scenario", "packets/s", "ns/packet", "instructions");
    for (s, ns) in SCENARIOS.iter().zip(&best) {
        let instructions = if count_instructions { s.instructions() } else { None };
        let shown = instructions.map_or("-".to_owned(), |i| format!("{i:.0}"));
        println!("{:<46} {:>9.2}M {:>10.0} {:>13}", s.what, 1e3 / ns, ns, shown);
    }
    let cost = |name| best[SCENARIOS.iter().position(|s| s.name == name).expect("a scenario")];
    println!(
        "a packet with 10 000 flows costs {:.2} times one with 2",
        cost("dualpi2-10000") / cost("dualpi2-2")
    );
}
