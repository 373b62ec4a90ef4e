//! What the model gives, pinned to the letter: short runs of every queue by every controller, one run of
//! everything else a run may have, and every bit of a long one. A change of the model shows as a diff of
//! these texts; `UPDATE_PINNED=1 cargo test --profile optimised -p l4slab-core --test pinned` writes them.

use std::fmt::Write as _;
use std::path::Path;

use l4slab_core::aqm::registry;
use l4slab_core::cc::registry as controllers;
use serde_json::json;

#[path = "../laws/lab.rs"]
mod lab;
use lab::{Lab, columns, lab, ns};

/// Compares with the text of this name, or writes it.
#[track_caller]
fn pin(name: &str, now: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pinned").join(name);
    if std::env::var_os("UPDATE_PINNED").is_some() {
        return std::fs::write(&path, now).expect("the tests' folder can be written to");
    }
    let pinned = std::fs::read_to_string(&path).unwrap_or_default();
    let gone = pinned.lines().filter(|line| !now.lines().any(|l| l == *line));
    let new = now.lines().filter(|line| !pinned.lines().any(|l| l == *line));
    let diff: Vec<_> = gone.map(|l| format!("-{l}")).chain(new.map(|l| format!("+{l}"))).collect();
    assert!(
        pinned == now,
        "results have changed:\n{}\nIf they are meant to, say so in CHANGELOG.md under \"Results \
         changed\", and write tests/pinned/{name} anew with UPDATE_PINNED=1.",
        diff.join("\n")
    );
}

/// A number, or a dash, in a column of its own.
fn number(value: Option<f64>) -> String {
    value.map_or("-".into(), |v| format!("{v:.3}"))
}

/// Beside the defaults: what makes a queue another one.
const VARIANTS: &[&str] = &[
    "pfifo limit 60",
    "red limit 150000 avpkt 1000 ecn adaptive",
    "codel ecn",
    "codel ce_threshold 1ms",
    "fq_codel ce_threshold 1ms",
    "fq ce_threshold 1ms",
    "fq maxrate 10mbit",
    "dualpi2 any_ect drop_enqueue",
    "dualpi2 step_thresh 5p coupling_factor 4",
    "docsis_ll ll_estimator vq noqprotect",
    "cake bandwidth 25mbit",
    "cake bandwidth 25mbit diffserv4 sce",
    "cnq_cobalt bandwidth 25mbit",
    "lfq_cobalt bandwidth 25mbit",
    "dualpi2_rfc9332 random scheduler wrr",
    "curvy_red smoothed any_ect",
    "pi2 dualq_ect1 ect1_scal",
    "pie ecn",
    "pie ecn dq_rate_estimator bytemode",
    "fq_pie ecn",
    "netem delay 5ms 1ms loss 0.1%",
    "tbf rate 25mbit burst 10k latency 20ms",
];

/// One flow of each controller, and CUBIC, through 30 Mb/s of each queue.
#[test]
fn every_queue_by_every_controller() {
    let mut table = format!(
        "{:40} {:10} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7} {:>7}\n",
        "queue", "cc", "Mb/s", "CUBIC", "sojourn", "p99, ms", "CE, %", "drop, %", "resent", "CUBIC"
    );
    for info in registry::listing() {
        let defaults = format!("{} {}", info.info.name, info.info.required);
        let own = |v: &&&str| v.split(' ').next() == Some(info.info.name);
        let variants = VARIANTS.iter().filter(own).copied();
        for qdisc in std::iter::once(defaults.trim_end()).chain(variants) {
            for cc in controllers::listing() {
                // Not at once: what happens at one instant has an order by rule, not by nature.
                let r = lab(5.0, 1.0)
                    .link("b", 30.0, qdisc)
                    .tcp("cubic", "cubic", 10.0, json!({}))
                    .tcp("f", cc.info.name, 10.0, json!({"start_ns": ns(0.123_456_789)}))
                    .run();
                let (f, cubic, q) = (r.flow("f"), r.flow("cubic"), r.queue("b", "all"));
                writeln!(
                    table,
                    "{qdisc:40} {:10} {:8.3} {:8.3} {:>8} {:>8} {:>7} {:>7} {:7} {:7}",
                    cc.info.name,
                    f.goodput_mbps,
                    cubic.goodput_mbps,
                    number(q.sojourn_ms_mean),
                    number(q.sojourn_ms_p99),
                    number(q.ce_pct),
                    number(q.drop_pct),
                    f.retransmits,
                    cubic.retransmits,
                )
                .expect("a string takes it");
            }
        }
    }
    pin("queues.txt", &table);
}

/// What else a run may have.
fn others() -> Vec<(&'static str, Lab)> {
    let later = |extra: serde_json::Value| {
        let mut all = extra;
        all["start_ns"] = json!(ns(0.123_456_789));
        all
    };
    let l4s = |l: Lab| l.tcp("l4s", "prague", 10.0, later(json!({})));
    let both = |l: Lab| l4s(l.tcp("classic", "cubic", 10.0, json!({})));
    let one = |mbps, qdisc| lab(5.0, 1.0).link("b", mbps, qdisc);
    let video = json!({"kind": "video", "rate_bps": 8_000_000, "interval_ns": ns(1.0 / 60.0),
                       "control_interval_ns": ns(0.03)});
    let web = json!({"kind": "web", "interval_ns": ns(0.02), "size_max_bytes": 1_000_000});
    let udp = later(json!({"kind": "udp-prague", "cc": null}));
    let call = later(json!({"kind": "media", "rate_bps": 2_500_000, "interval_ns": ns(1.0 / 30.0),
                            "encoder": "lognormal", "spread": 0.15, "audio_bps": 32_000}));
    let back = json!({"path": ["b"], "reverse_path": ["back"]});
    vec![
        ("web", both(one(30.0, "dualpi2")).tcp("web", "cubic", 20.0, web)),
        ("video", both(one(30.0, "fq_codel")).tcp("video", "prague", 20.0, video)),
        ("cbr", both(one(30.0, "dualpi2")).cbr("cbr", 8.0, "ect1", later(json!({"batch": 3})))),
        ("overload", both(one(30.0, "dualpi2")).cbr("cbr", 40.0, "ect1", later(json!({})))),
        ("scream", both(one(30.0, "dualpi2")).tcp("call", "scream", 20.0, call.clone())),
        ("media", both(one(30.0, "fq_codel")).tcp("call", "none", 20.0, call)),
        ("udp-prague", both(one(30.0, "dualpi2")).tcp("udp", "", 10.0, udp)),
        (
            "loss and jitter",
            both(one(30.0, "dualpi2")).impair("b", "forward", "delay 2ms 1ms loss 0.1%"),
        ),
        ("wifi", both(one(30.0, "dualpi2")).impair("b", "both", "slot 800us 10ms packets 42")),
        ("duplicates", both(one(30.0, "pie ecn")).impair("b", "reverse", "duplicate 1%")),
        (
            "reverse path",
            l4s(one(30.0, "dualpi2"))
                .link("back", 1.0, "pfifo limit 50")
                .tcp("up", "cubic", 30.0, back)
                .tcp("down", "reno", 20.0, later(json!({"path": ["back"], "reverse_path": ["b"]}))),
        ),
        ("two links", both(one(30.0, "dualpi2").link("c", 25.0, "pie ecn"))),
        (
            "changes",
            both(one(30.0, "dualpi2"))
                .at(1.5, "b", json!({"rate_bps": 10_000_000}))
                .at(2.5, "b", json!({"qdisc": "fq_codel"}))
                .at(3.5, "b", json!({"rate_bps": 40_000_000, "qdisc": "pfifo limit 100"})),
        ),
        (
            "many flows",
            one(40.0, "dualpi2")
                .with("start_jitter_ns", ns(0.1))
                .tcp("classic", "cubic", 10.0, json!({"count": 20}))
                .tcp("l4s", "prague", 10.0, json!({"count": 20})),
        ),
        (
            "transfers",
            both(one(30.0, "codel ecn")).tcp("file", "bbr", 20.0, later(json!({"bytes": 2_000_000}))),
        ),
        (
            "caps",
            one(30.0, "dualpi2")
                .tcp("paced", "prague", 10.0, json!({"pace_bps": 5_000_000}))
                .tcp("window", "cubic", 20.0, later(json!({"receive_window_bytes": 30_000})))
                .tcp("plain", "cubic", 30.0, later(json!({"ecn": "off"}))),
        ),
        (
            "bleaching",
            both(one(30.0, "dualpi2")).with(
                "rewrites",
                json!([{"flow": "l4s", "where": "before", "link": "b", "from": "ect1", "to": "ect0"}]),
            ),
        ),
    ]
}

#[test]
fn everything_else_that_a_run_may_have() {
    let mut table = format!(
        "{:16} {:8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>7} {:>7} {:>9} {:>8} {:>9} {:>8}\n",
        "run",
        "flow",
        "Mb/s",
        "rtt, ms",
        "sojourn",
        "p99, ms",
        "CE, %",
        "drop, %",
        "resent",
        "transfers",
        "p50, ms",
        "p99, ms",
        "view p99"
    );
    for (name, l) in others() {
        for f in &l.run().0.flows {
            writeln!(
                table,
                "{name:16} {:8} {:8.3} {:>8} {:>8} {:>8} {:>7} {:>7} {:7} {:9} {:>8} {:>9} {:>8}",
                f.flow,
                f.goodput_mbps,
                number(f.rtt_ms_mean),
                number(f.sojourn_ms_mean),
                number(f.sojourn_ms_p99),
                number(f.ce_pct),
                number(f.drop_pct),
                f.retransmits,
                f.transfers,
                number(f.completion_ms_p50),
                number(f.completion_ms_p99),
                number(f.view_ms_p99),
            )
            .expect("a string takes it");
        }
    }
    pin("runs.txt", &table);
}

/// The same on every machine and from every compiler: rows in full, the long columns as FNV-1a of what
/// they print.
#[test]
fn every_bit_of_a_long_run() {
    let r = lab(60.0, 5.0)
        .link("b", 40.0, "dualpi2")
        .tcp("classic", "cubic", 10.0, json!({}))
        .tcp("l4s", "prague", 10.0, json!({"start_ns": ns(0.123_456_789)}))
        .run();
    let mut text = String::new();
    for (name, values) in columns(&r.0) {
        let values = match values.len() {
            0..=4 => values.join(" "),
            n => format!("{n} values {:016x}", fnv1a(&values.join(" "))),
        };
        writeln!(text, "{}", format!("{name:32} {values}").trim_end()).expect("a string takes it");
    }
    pin("bits.txt", &text);
}

fn fnv1a(text: &str) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
