//! A nanosecond of jitter is below the grain of any clock, and decides nothing: what comes at exactly regular
//! distances is estimated as what comes at nearly regular ones.

use l4slab_core::aqm::registry;
use l4slab_core::cc::registry as controllers;
use serde_json::json;

use crate::lab::{Lab, agrees, between, lab};

/// Beside the defaults: what estimates otherwise.
const VARIANTS: &[&str] = &[
    "red limit 150000 avpkt 1000 ecn adaptive",
    "fq_codel flows 1 ce_threshold 1ms",
    "pie ecn dq_rate_estimator",
    "cake bandwidth 12mbit",
    "cake bandwidth 100mbit autorate-ingress",
    "cnq_cobalt bandwidth 12mbit",
    "lfq_cobalt bandwidth 12mbit",
];

/// Without jitter and with it: the same goodput, and delays that differ by no more than the phase of a sawtooth.
/// Medians over three starts, since luck alone moves some.
fn same_regime(what: &str, before: &str, run: impl Fn(u64) -> Lab) {
    let [regular, jittered] = ["delay 1ms", "delay 1ms 1ns"].map(|netem| {
        let runs = (0..3).map(|n| run(n * 7_000_003).impair(before, "forward", netem).run());
        let found = runs.map(|r| {
            let f = r.flow("f");
            (f.goodput_mbps, f.sojourn_ms_mean.unwrap_or(0.0))
        });
        let (mut goodput, mut sojourn): (Vec<_>, Vec<_>) = found.unzip();
        goodput.sort_by(f64::total_cmp);
        sojourn.sort_by(f64::total_cmp);
        (goodput[1], sojourn[1])
    });
    agrees(&format!("{what}: goodput"), jittered.0, regular.0, 0.03);
    let tolerance = 0.5 + 0.2 * regular.1;
    let (low, high) = (regular.1 - tolerance, regular.1 + tolerance);
    between(&format!("{what}: sojourn, ms"), jittered.1, low, high);
}

/// Behind a link that spaces packets exactly.
#[test]
fn a_nanosecond_of_jitter_changes_no_queue() {
    let defaults =
        registry::listing().into_iter().map(|q| format!("{} {}", q.info.name, q.info.required));
    for queue in defaults.chain(VARIANTS.iter().map(|q| q.to_string())) {
        let queue = queue.trim_end();
        same_regime(queue, "b", |start| {
            lab(20.0, 6.0)
                .bare_link("first", 20.0, "pfifo limit 100")
                .bare_link("b", 15.0, queue)
                .tcp("f", "cubic", 20.0, json!({"ecn": "classic", "start_ns": start}))
        });
    }
}

#[test]
fn a_nanosecond_of_jitter_changes_no_controller() {
    for info in controllers::listing() {
        same_regime(info.info.name, "b", |start| {
            lab(20.0, 6.0).bare_link("b", 15.0, "pfifo limit 60").tcp(
                "f",
                info.info.name,
                20.0,
                json!({"start_ns": start}),
            )
        });
    }
}
