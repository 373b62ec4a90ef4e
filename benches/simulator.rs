//! Speed of the simulator: delivered packets per second of one core, instructions per delivered
//! packet, and what a packet costs with 10 000 flows against 2.
//!
//! ```text
//! cargo bench                      # all scenarios, best of five rounds
//! cargo bench -- --instructions    # also counts instructions (needs valgrind)
//! cargo bench -- --readme          # the same, and writes README's table
//! cargo bench -- --profile         # where the instructions go, as a table (needs valgrind)
//! ```
//!
//! Rounds go through all scenarios in turn, so that what else the machine does hits all alike.

#![allow(clippy::disallowed_types)] // a benchmark reads the clock

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use l4slab_core::scenario::Run;
use l4slab_core::sim::Simulation;

/// The allocator of the Python package, without the options that bound its memory there.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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

    /// Instructions per delivered packet, by function: this program under callgrind, for two durations; the
    /// difference leaves start-up out.
    fn profile(&self) -> Option<BTreeMap<String, f64>> {
        let run = |seconds: f64| -> Option<(BTreeMap<String, f64>, f64)> {
            let file = std::env::temp_dir().join(format!("callgrind.{}", std::process::id()));
            let out = Command::new("valgrind")
                .arg("--tool=callgrind")
                .arg(format!("--callgrind-out-file={}", file.display()))
                .arg(std::env::current_exe().ok()?)
                .args(["--once", self.name, &seconds.to_string()])
                .output()
                .ok()?;
            let costs = costs(&std::fs::read_to_string(&file).ok()?);
            std::fs::remove_file(&file).ok()?;
            Some((costs, String::from_utf8_lossy(&out.stdout).trim().parse().ok()?))
        };
        let (before, p1) = run(self.short_seconds)?;
        let (mut costs, p2) = run(self.short_seconds * 2.0)?;
        for (function, cost) in &mut costs {
            *cost = (*cost - before.get(function).unwrap_or(&0.0)) / (p2 - p1);
        }
        Some(costs)
    }

    fn instructions(&self) -> Option<f64> {
        Some(self.profile()?.values().sum())
    }
}

/// What each function costs by itself, with what was compiled into it, in callgrind's file of results.
fn costs(file: &str) -> BTreeMap<String, f64> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut costs: BTreeMap<String, f64> = BTreeMap::new();
    let (mut function, mut is_call) = ("", false);
    for line in file.lines() {
        if let Some((kind @ ("fn" | "cfn"), value)) = line.split_once('=') {
            let (number, name) = value.split_once(' ').unwrap_or((value, ""));
            if !name.is_empty() {
                names.insert(number, name);
            }
            if kind == "fn" {
                function = names.get(number).copied().unwrap_or(number);
            }
        } else if line.starts_with("calls=") {
            // The line after it has what the called function costs.
            is_call = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            let cost = line.rsplit(' ').next().and_then(|cost| cost.parse::<f64>().ok());
            if let (Some(cost), false) = (cost, is_call) {
                *costs.entry(short(function)).or_default() += cost;
            }
            is_call = false;
        }
    }
    costs
}

/// `<a::b::C as a::d::E>::f` is `C::f`.
fn short(function: &str) -> String {
    let function = function.split(" [").next().unwrap_or(function);
    let mut name = String::new();
    let mut parts = function.rsplit("::");
    let method = parts.next().unwrap_or(function);
    let owner = function.strip_suffix(method).and_then(|f| f.strip_suffix("::")).unwrap_or("");
    let owner = match (owner.rfind("<impl "), owner.find(" as ")) {
        (Some(at), _) => &owner[at + 6..],
        (None, Some(at)) => &owner[1..at],
        _ => owner,
    };
    let owner = owner.split('<').next().unwrap_or(owner).trim_end_matches('>');
    if let Some(owner) = owner.rsplit("::").find(|part| !part.is_empty()) {
        name = format!("{owner}::");
    }
    name + method
}

/// Functions with less than this in every scenario go to the last row, instructions per packet.
const SMALL: f64 = 5.0;

/// A Markdown page.
fn print_profile() {
    let profiles: Vec<_> = SCENARIOS.iter().map(|s| s.profile().expect("valgrind")).collect();
    let of = |function: &String| -> Vec<f64> {
        profiles.iter().map(|p| p.get(function).copied().unwrap_or(0.0)).collect()
    };
    let mut functions: Vec<&String> = profiles.iter().flat_map(|p| p.keys()).collect();
    functions.sort();
    functions.dedup();
    let largest = |f: &&String| of(f).into_iter().fold(0.0, f64::max);
    let (mut large, small): (Vec<_>, Vec<_>) =
        functions.into_iter().partition(|f| largest(f) >= SMALL);
    large.sort_by(|a, b| largest(b).total_cmp(&largest(a)));
    let row = |name: &str, costs: Vec<f64>| {
        let costs: Vec<_> = costs.iter().map(|c| format!("{c:.0}")).collect();
        println!("| {name} | {} |", costs.join(" | "));
    };
    let sum = |rows: &[&String]| -> Vec<f64> {
        (0..profiles.len()).map(|i| rows.iter().map(|f| of(f)[i]).sum()).collect()
    };
    println!("# Where the simulator's instructions go\n");
    println!(
        "Instructions per delivered packet, by function. `./dev.sh profile` prints this page."
    );
    println!("A function contains what the compiler has put into it. The scenarios are:\n");
    SCENARIOS.iter().for_each(|s| println!("* `{}`: {}", s.name, s.what));
    println!();
    let names: Vec<_> = SCENARIOS.iter().map(|s| s.name).collect();
    println!("| function | {} |\n|---|{}", names.join(" | "), "---:|".repeat(names.len()));
    large.iter().for_each(|f| row(&format!("`{f}`"), of(f)));
    row("all others", sum(&small));
    row("sum", sum(&[large, small].concat()));
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(i) = args.iter().position(|a| a == "--once") {
        let s = SCENARIOS.iter().find(|s| s.name == args[i + 1]).expect("a scenario's name");
        let seconds = args[i + 2].parse().expect("seconds");
        println!("{}", s.run(seconds).0);
        return;
    }
    if args.iter().any(|a| a == "--profile") {
        return print_profile();
    }
    let mut best = vec![f64::INFINITY; SCENARIOS.len()];
    for _ in 0..ROUNDS {
        for (s, best) in SCENARIOS.iter().zip(&mut best) {
            let (packets, took) = s.run(s.seconds);
            *best = best.min(took.as_secs_f64() * 1e9 / packets as f64);
        }
    }
    let is_readme = args.iter().any(|a| a == "--readme");
    let count_instructions = is_readme || args.iter().any(|a| a == "--instructions");
    println!("{:<46} {:>10} {:>10} {:>13}", "scenario", "packets/s", "ns/packet", "instructions");
    let mut table =
        "| scenario | delivered packets/s | instructions/packet |\n|---|---|---|\n".to_owned();
    for (s, ns) in SCENARIOS.iter().zip(&best) {
        let instructions = if count_instructions { s.instructions() } else { None };
        let shown = instructions.map_or("-".to_owned(), |i| format!("{i:.0}"));
        println!("{:<46} {:>9.2}M {:>10.0} {:>13}", s.what, 1e3 / ns, ns, shown);
        table += &format!("| {} | {} million | {shown} |\n", s.what, two_digits(1e3 / ns));
    }
    let cost = |name| best[SCENARIOS.iter().position(|s| s.name == name).expect("a scenario")];
    println!(
        "a packet with 10 000 flows costs {:.2} times one with 2",
        cost("dualpi2-10000") / cost("dualpi2-2")
    );
    if is_readme {
        write_readme(&table);
    }
}

fn two_digits(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// Puts the table into README, where the former one stands.
fn write_readme(table: &str) {
    const BEGIN: &str = "<!-- written by ./dev.sh bench --readme -->\n";
    const END: &str = "<!-- end -->\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(path).expect("README.md");
    let (before, rest) = readme.split_once(BEGIN).expect("the comment before the table");
    let after = rest.split_once(END).expect("the comment behind the table").1;
    std::fs::write(path, format!("{before}{BEGIN}{table}{END}{after}")).expect("README.md");
}
