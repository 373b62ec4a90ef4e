//! Low Latency DOCSIS over whole runs: coupling, scheduler, coexistence, and what queue protection
//! does for the queue it protects (RFC 9957).

use serde_json::json;

use crate::lab::{Lab, Result, agrees, between, lab, mean_since};

fn probabilities(r: &Result) -> Vec<(f64, f64)> {
    let column = |name| r.queue_series("b", "all", name);
    let (p, l) = (column("p_c"), column("p_l_coupled"));
    p.iter().zip(&l).map(|(p, l)| (p.1, l.1)).collect()
}

/// Prague beside CUBIC at 50 Mb/s and 20 ms.
fn coexistence(qdisc: &str) -> Lab {
    lab(60.0, 20.0)
        .with("start_jitter_ns", 100_000_000)
        .with("sample_ns", 16_000_000)
        .link("b", 50.0, qdisc)
        .tcp("l", "prague", 20.0, json!({}))
        .tcp("c", "cubic", 20.0, json!({}))
}

/// p_CL = min(k sqrt(p_C), 1) at every sample of full runs.
#[test]
fn the_coupled_probability_is_k_times_the_root_of_the_classic() {
    for k in [1.0, 2.0, 2.5] {
        let overload = lab(20.0, 0.0)
            .with("sample_ns", 16_000_000)
            .link("b", 50.0, &format!("docsis_ll coupling_factor {k}"))
            .cbr("u", 90.0, "ect0", json!({}));
        let mut seen = (f64::INFINITY, 0.0_f64);
        for run in [coexistence(&format!("docsis_ll coupling_factor {k}")), overload] {
            for (p_c, p_l) in probabilities(&run.run()) {
                let law = (k * p_c.sqrt()).min(1.0);
                assert!((p_l - law).abs() < 1e-12, "k = {k}: {p_l}, law {law}");
                if p_l > 0.0 {
                    seen = (seen.0.min(p_l), seen.1.max(p_l));
                }
            }
        }
        println!("k = {k}: p_CL from {} to {}", seen.0, seen.1);
        assert!(seen.0 < 0.05 && (seen.1 == 1.0 || k == 1.0 && seen.1 > 0.5), "{seen:?}");
    }
}

/// While both wait, the bytes leave as w to 1 - w.
#[test]
fn the_scheduler_gives_l_its_weight() {
    for weight in [64_u32, 128, 230] {
        let r = lab(10.0, 2.0)
            .link("b", 100.0, &format!("docsis_ll noqprotect weight {weight}"))
            .cbr("l", 150.0, "ect1", json!({}))
            .cbr("c", 150.0, "not-ect", json!({"packet_bytes": 1000}))
            .run();
        let share = r.queue("b", "L").rate_mbps / r.queue("b", "all").rate_mbps;
        agrees(&format!("weight {weight}: share of L"), share, f64::from(weight) / 256.0, 0.002);
    }
}

/// A flow of each kind share the link, L stays below a millisecond and C near its target.
#[test]
fn prague_and_cubic_coexist() {
    let r = coexistence("docsis_ll").run();
    let (l, c) = (r.flow("l").rate_mbps, r.flow("c").rate_mbps);
    between("share of Prague", l / (l + c), 0.4, 0.6);
    agrees("use", r.queue("b", "all").utilisation, 1.0, 0.03);
    let (l, c) = (r.queue("b", "L"), r.queue("b", "C"));
    between("delay of L, mean, ms", l.sojourn_ms_mean.unwrap(), 0.0, 1.0);
    between("delay of L, P99, ms", l.sojourn_ms_p99.unwrap(), 0.0, 2.0);
    between("delay of C, mean, ms", c.sojourn_ms_mean.unwrap(), 5.0, 15.0);
    let sanctioned = r.queue_series("b", "all", "qprotect_sanctioned_packets");
    println!("sanctioned {}", sanctioned.last().unwrap().1);
}

/// An unresponsive flow marked ECT(1), beside Prague: queue protection moves what builds the queue to
/// C, without it Prague waits behind it.
#[test]
fn queue_protection_ejects_the_flow_that_builds_the_queue() {
    let run = |options: &str| {
        lab(40.0, 10.0)
            .with("start_jitter_ns", 100_000_000)
            .with("sample_ns", 16_000_000)
            .link("b", 50.0, &format!("docsis_ll {options}"))
            .tcp("prague", "prague", 20.0, json!({}))
            .cbr("u", 60.0, "ect1", json!({}))
            .run()
    };
    let (with, without) = (run("qprotect"), run("noqprotect"));
    for (name, r) in [("with", &with), ("without", &without)] {
        let s = r.queue_series("b", "all", "qprotect_sanctioned_packets");
        println!(
            "{name}: prague {:.2} u {:.2} Mb/s; prague sojourn mean {:?} p99 {:?}; L mean {:?} p99 {:?}; sanctioned {}; score {}",
            r.flow("prague").rate_mbps,
            r.flow("u").rate_mbps,
            r.flow("prague").sojourn_ms_mean,
            r.flow("prague").sojourn_ms_p99,
            r.queue("b", "L").sojourn_ms_mean,
            r.queue("b", "L").sojourn_ms_p99,
            s.last().unwrap().1,
            mean_since(&r.queue_series("b", "all", "qprotect_score_ms"), 10.0),
        );
    }
}
