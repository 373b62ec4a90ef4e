//! laws.md 2: the two probabilities of DualPI2, and where they bring queue and rates.

use serde_json::json;

use crate::lab::{Lab, Result, agrees, between, lab, mean_since};
use crate::rates::fluid_prague;

/// Rows of the link "b": (p', p_C, coupled p_L) at every sample.
fn probabilities(r: &Result) -> Vec<(f64, f64, f64)> {
    let column = |name| r.queue_series("b", "all", name);
    let (p, c, l) = (column("p_prime"), column("p_c"), column("p_l_coupled"));
    (0..p.len()).map(|i| (p[i].1, c[i].1, l[i].1)).collect()
}

/// One of each kind of load on a 40 Mb/s link.
fn load(which: &str, k: u32) -> Lab {
    let base = lab(20.0, 5.0).with("start_jitter_ns", 50_000_000).with("sample_ns", 10_000_000);
    let base = base.link("b", 40.0, &format!("dualpi2 coupling_factor {k}"));
    match which {
        "one a side" => base.tcp("l", "prague", 10.0, json!({})).tcp("c", "cubic", 10.0, json!({})),
        "ten a side" => base.tcp("l", "prague", 10.0, json!({"count": 10})).tcp(
            "c",
            "reno",
            10.0,
            json!({"count": 10, "ecn": "classic"}),
        ),
        "only L" => base.tcp("l", "prague", 20.0, json!({"count": 2})),
        "overload" => base.tcp("c", "cubic", 10.0, json!({})).cbr(
            "u",
            70.0,
            "ect1",
            json!({"start_ns": 3_000_000_000_u64}),
        ),
        _ => unreachable!(),
    }
}

/// p_L = min(1, k sqrt(p_C)) at every sample of full runs.
#[test]
fn the_coupled_probability_is_k_times_the_root_of_the_classic() {
    for k in [1, 2, 4] {
        let mut highest = 0.0_f64;
        for which in ["one a side", "ten a side", "only L", "overload"] {
            let samples = probabilities(&load(which, k).run());
            assert!(samples.len() >= 1999, "a sample every 10 ms");
            for (p, p_c, p_l) in samples {
                assert!((0.0..=1.0).contains(&p) && (p_c - p * p).abs() < 1e-12);
                let law = (f64::from(k) * p_c.sqrt()).min(1.0);
                assert!((p_l - law).abs() < 1e-9, "k = {k}, {which}: {p_l}, law {law}");
                highest = highest.max(p_l);
            }
        }
        let all = if k == 1 { 0.65 } else { 1.0 };
        assert!(highest >= all, "k = {k}: the loads reach into overload, not only to {highest}");
    }
}

/// The probabilities are what happens to packets: over a run, marks and drops agree with the sum of
/// the probabilities shown. (Not C's probability where it is small: few packets are left there.)
#[test]
fn marks_and_drops_happen_with_the_probabilities_shown() {
    for k in [1, 2, 4] {
        let r = lab(120.0, 0.0)
            // Between two updates of p' lies one sample.
            .with("sample_ns", 16_000_000)
            .link("b", 100.0, &format!("dualpi2 coupling_factor {k}"))
            .tcp("l", "prague", 10.0, json!({"count": 3}))
            .tcp("c", "cubic", 10.0, json!({"count": 10}))
            .run();
        let p = probabilities(&r);
        for (queue, which) in [("L", 2), ("C", 1)] {
            let rate = r.queue_series("b", queue, "rate_mbps");
            let marked = r.queue_series("b", queue, "marked_packets");
            let dropped = r.queue_series("b", queue, "dropped_packets");
            // Only L packets that no step marked as well.
            let (mut signals, mut expected) = (0.0, 0.0);
            for i in 1..p.len() {
                let probability = if which == 2 { p[i - 1].2 } else { p[i - 1].1 };
                let packets = rate[i].1 * 1e6 * 0.016 / 8.0 / 1514.0 + dropped[i].1;
                signals += marked[i].1 + dropped[i].1;
                expected += packets * probability;
            }
            let step = r.queue("b", "L").step_marked_packets as f64;
            assert!(step < 0.01 * signals || queue == "C", "{step} step marks disturb");
            agrees(&format!("k = {k}: signals in {queue}"), signals, expected, 0.05);
        }
    }
}

/// Where the controller is not at a stop, C's delay is the target: the integral part sees to that.
#[test]
fn c_waits_for_the_target() {
    for (mbps, rtt_ms, flows, qdisc, target) in [
        (10.0, 10.0, 1, "dualpi2", 15.0),
        (40.0, 10.0, 1, "dualpi2", 15.0),
        (100.0, 5.0, 1, "dualpi2", 15.0),
        (200.0, 20.0, 3, "dualpi2", 15.0),
        (40.0, 20.0, 2, "dualpi2", 15.0),
        (100.0, 50.0, 10, "dualpi2", 15.0),
        (100.0, 20.0, 10, "dualpi2", 15.0),
        (100.0, 10.0, 10, "dualpi2 target 25ms", 25.0),
        (100.0, 10.0, 5, "dualpi2 target 8ms", 8.0),
    ] {
        let r = lab(80.0, 20.0)
            .with("start_jitter_ns", 100_000_000)
            .link("b", mbps, qdisc)
            .tcp("l", "prague", rtt_ms, json!({"count": flows}))
            .tcp("c", "cubic", rtt_ms, json!({"count": flows}))
            .run();
        let what = format!("{qdisc}, {mbps} Mb/s, {rtt_ms} ms, {flows} + {flows} flows");
        let p = probabilities(&r);
        let inside = p.iter().filter(|(p, _, _)| 0.0 < *p && *p < 1.0).count();
        println!("{what}: p' inside {:.3}", inside as f64 / p.len() as f64);
        let delay = r.queue("b", "C").sojourn_ms_mean.unwrap();
        agrees(&format!("C delay, {what}"), delay, target, 0.1);
        between(&format!("L delay, {what}"), r.queue("b", "L").sojourn_ms_mean.unwrap(), 0.0, 1.0);
        agrees(&format!("use, {what}"), r.queue("b", "all").utilisation, 1.0, 0.02);
    }
}

/// The rates per flow, L to C, are as x_L/(k c_C) * R_C/R_L, x_L from 2 to 2.73 and c_C from 1.225
/// to 1.31 (regular to random signals); published shares lie up to 1.4 above. R_L is at least
/// Prague's 25 ms. What `rates` knows widens that upwards: Prague's delayed reductions at RTTs between
/// 5 and 25 ms, and whole segments in CUBIC's small windows, where c_C sinks to 1.13.
#[test]
fn the_rate_ratio_follows_coupling_factor_and_rtts() {
    for (cc, mbps, rtt_l, rtt_c, flows, k) in [
        ("reno", 40.0, 10.0, 10.0, 1, 2),
        ("cubic", 40.0, 10.0, 10.0, 1, 2),
        ("cubic", 100.0, 10.0, 10.0, 5, 2),
        ("cubic", 120.0, 5.0, 5.0, 10, 2),
        ("reno", 100.0, 30.0, 10.0, 5, 2),
        ("reno", 100.0, 10.0, 30.0, 5, 2),
        ("reno", 100.0, 50.0, 50.0, 5, 2),
        ("reno", 100.0, 10.0, 10.0, 5, 1),
        ("reno", 100.0, 10.0, 10.0, 5, 4),
    ] {
        let r = lab(80.0, 20.0)
            .with("start_jitter_ns", 100_000_000)
            .link("b", mbps, &format!("dualpi2 coupling_factor {k}"))
            .tcp("l", "prague", rtt_l, json!({"count": flows}))
            .tcp("c", cc, rtt_c, json!({"count": flows}))
            .run();
        let ratio = r.flow("l").rate_mbps / r.flow("c").rate_mbps;
        let r_c = rtt_c + mean_since(&r.queue_series("b", "C", "sojourn_ms"), 20.0);
        let r_l = (rtt_l + mean_since(&r.queue_series("b", "L", "sojourn_ms"), 20.0)).max(25.0);
        let law = r_c / r_l / f64::from(k);
        let what = format!(
            "L:C of Prague and {cc}, {mbps} Mb/s, {rtt_l} and {rtt_c} ms, {flows} + {flows}, k = {k}"
        );
        let p = 0.05;
        let delayed =
            fluid_prague(rtt_l * 1e-3, p) / fluid_prague(0.001, p) * (rtt_l / 25.0).max(1.0);
        let c_least = if cc == "cubic" { 1.13 } else { 1.225 };
        between(&what, ratio, 2.0 / 1.31 * law, 1.4 * 2.73 * delayed / c_least * law);
    }
}
