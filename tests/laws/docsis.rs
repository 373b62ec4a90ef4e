//! Low Latency DOCSIS over whole runs: coupling, scheduler, coexistence, and what queue protection
//! does for the queue it protects (RFC 9957).

use serde_json::json;

use crate::lab::{Lab, Result, agrees, between, lab, mean_since};
use crate::rates::fluid_prague;

fn probabilities(r: &Result) -> Vec<(f64, f64)> {
    let column = |name| r.queue_series("b", "all", name);
    let (p, l) = (column("p_c"), column("p_l_coupled"));
    p.iter().zip(&l).map(|(p, l)| (p.1, l.1)).collect()
}

/// As many Prague flows as CUBIC flows at 50 Mb/s and 20 ms.
fn coexistence(qdisc: &str, flows: u32) -> Lab {
    lab(100.0, 20.0)
        .with("start_jitter_ns", 100_000_000)
        .with("sample_ns", 16_000_000)
        .link("b", 50.0, qdisc)
        .tcp("l", "prague", 20.0, json!({"count": flows}))
        .tcp("c", "cubic", 20.0, json!({"count": flows}))
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
        for run in [coexistence(&format!("docsis_ll coupling_factor {k}"), 1), overload] {
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

/// L:C per flow is x_L/(k c_C) R_C/R_L as in `coupling`. Four flows of each kind share about evenly
/// and C waits for its target. With one of each, C waits longer: below p_C = 1/1000 PIE's tuning makes
/// it slow, and a rate estimate over 16 ms of one Prague flow moves C's delay estimate by several
/// milliseconds; so CUBIC gets less by its longer round trip. L stays short in both.
#[test]
fn prague_and_cubic_coexist() {
    for flows in [1, 4] {
        let r = coexistence("docsis_ll", flows).run();
        let what = format!("{flows} + {flows} flows");
        let srtt = |flow| mean_since(&r.flow_series(flow, "srtt_ms"), 20.0);
        let law = srtt("c") / srtt("l").max(25.0) / 2.0;
        let p = 0.05;
        let delayed = fluid_prague(0.020, p) / fluid_prague(0.001, p);
        let (l, c) = (r.flow("l").rate_mbps, r.flow("c").rate_mbps);
        between(
            &format!("{what}: L:C"),
            l / c,
            2.0 / 1.31 * law,
            1.4 * 2.73 * delayed / 1.13 * law,
        );
        agrees(&format!("{what}: use"), r.queue("b", "all").utilisation, 1.0, 0.01);
        let (in_l, in_c) = (r.queue("b", "L"), r.queue("b", "C"));
        between(&format!("{what}: L, mean"), in_l.sojourn_ms_mean.unwrap(), 0.0, 0.5);
        between(&format!("{what}: L, P99"), in_l.sojourn_ms_p99.unwrap(), 0.0, 1.0);
        if flows > 1 {
            between(&format!("{what}: share of Prague"), l / (l + c), 0.4, 0.6);
            agrees(&format!("{what}: C, mean"), in_c.sojourn_ms_mean.unwrap(), 10.0, 0.15);
        }
        // Only the start of a flow is long enough a burst to be sanctioned.
        let sanctioned = r.queue_series("b", "all", "qprotect_sanctioned_packets");
        let at = |t: f64| sanctioned.iter().find(|s| s.0 >= t).unwrap().1;
        println!("{what}: sanctioned {} by 5 s, {} by 99 s", at(5.0), at(99.0));
        assert!(at(99.0) < 50.0 && at(99.0) == at(5.0), "{what}");
        assert_eq!(in_c.marked_packets, 0, "C drops");
    }
}

/// The native marks of L are those of the ramp, and are told apart from the coupled ones: without
/// protection nothing enters C, so none are coupled.
#[test]
fn alone_prague_is_marked_by_the_ramp() {
    let r = lab(20.0, 5.0)
        .with("sample_ns", 16_000_000)
        .link("b", 50.0, "docsis_ll noqprotect")
        .tcp("l", "prague", 20.0, json!({"count": 2}))
        .run();
    let l = r.queue("b", "L");
    between("Prague alone: marks", l.marked_packets as f64, 500.0, 10_000.0);
    assert_eq!(l.step_marked_packets, l.marked_packets);
    // MINTH is 640 us here; above MAXTH each packet is marked. (qdelay counts the packet itself, 242 us.)
    between("Prague alone: P99 of L", l.sojourn_ms_p99.unwrap(), 0.4, 1.16);
    agrees("Prague alone: use", r.queue("b", "all").utilisation, 1.0, 0.03);
}

/// An unresponsive flow marked ECT(1), beside Prague: queue protection moves what builds the queue to
/// C. Without, the queue grows to its buffer if the flow exceeds the link, and Prague gets nothing.
#[test]
fn queue_protection_ejects_the_flow_that_builds_the_queue() {
    let seeded = |mbps: f64, options: &str, seed: u64| {
        lab(40.0, 10.0)
            .with("seed", seed)
            .with("start_jitter_ns", 100_000_000)
            .with("sample_ns", 16_000_000)
            .link("b", 50.0, &format!("docsis_ll {options}"))
            .tcp("prague", "prague", 20.0, json!({}))
            .cbr("u", mbps, "ect1", json!({}))
            .run()
    };
    let run = |mbps: f64, options: &str| seeded(mbps, options, 1);
    let sanctioned =
        |r: &Result| r.queue_series("b", "all", "qprotect_sanctioned_packets").last().unwrap().1;
    let p99 = |r: &Result| r.queue("b", "L").sojourn_ms_p99.unwrap();
    for (mbps, buffer_fills) in [(48.0, false), (52.0, true), (60.0, true)] {
        let (with, without) = (run(mbps, "qprotect"), run(mbps, "noqprotect"));
        let what = format!("{mbps} Mb/s of ECT(1)");
        // CRITICALqL is 1 ms, of the queue with the packet that arrives.
        between(&format!("{what}: P99 of L, protected"), p99(&with), 0.3, 1.2);
        let (low, high) = if buffer_fills { (9.0, 10.0) } else { (2.0, 4.0) };
        between(&format!("{what}: P99 of L, unprotected"), p99(&without), low, high);
        // Nothing of it may come through where the buffer is full.
        let prague = |r: &Result| r.flow("prague").sojourn_ms_mean.unwrap_or(f64::INFINITY);
        println!("{what}: Prague waits {} ms, unprotected {}", prague(&with), prague(&without));
        assert!(prague(&with) < 0.75 * prague(&without), "{what}");
        assert!(sanctioned(&with) > 5000.0 && sanctioned(&without) == 0.0, "{what}");
        if buffer_fills {
            // What comes through a full buffer depends on the phase of two clocks: the mean of some starts.
            let rate = |options: &str| {
                let of = |seed| seeded(mbps, options, seed).flow("prague").rate_mbps;
                (1..=4).map(of).sum::<f64>() / 4.0
            };
            let (with, without) = (rate("qprotect"), rate("noqprotect"));
            println!("{what}: Prague {with} Mb/s, unprotected {without}");
            // Unprotected it has hardly more than a segment per retransmission timeout.
            assert!(with > 3.0 * without && without < 0.1, "{what}");
        }
    }
}
