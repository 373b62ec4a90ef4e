//! laws.md 6: queueing oracles for link, shaper and sources.

use l4slab_core::math;
use serde_json::json;

use crate::lab::{FRAME, agrees, bps, lab, ns};

/// P(V > x), the unfinished work in service times, of N sources of one packet per `period` service
/// times and random phases (nD/D/1, Roberts and Virtamo).
fn n_d_d_1_tail(n: u32, period: f64, x: f64) -> f64 {
    let mut sum = 0.0;
    let log_choose =
        |k: u32| -> f64 { (1..=k).map(|i| math::ln(f64::from(n - k + i) / f64::from(i))).sum() };
    for k in (x.floor() as u32 + 1)..=n {
        let q = (f64::from(k) - x) / period;
        if q >= 1.0 {
            break;
        }
        let term =
            log_choose(k) + f64::from(k) * math::ln(q) + f64::from(n - k) * math::ln(1.0 - q);
        sum += math::exp(term) * (period - f64::from(n) + x) / (period - f64::from(k) + x);
    }
    sum
}

/// Mean wait of an arrival in service times: it meets the work of the other n - 1 sources.
fn n_d_d_1_wait(n: u32, period: f64) -> f64 {
    let step = 0.02;
    let far = 40.0_f64.min(f64::from(n));
    let steps = (far / step) as u32;
    (0..steps).map(|i| step * n_d_d_1_tail(n - 1, period, (f64::from(i) + 0.5) * step)).sum()
}

/// Mean wait, in service times, of n sources with random phases over many seeds; one period each.
fn measured_wait(n: u32, rho: f64, seeds: u64) -> f64 {
    let mbps = 100.0;
    let service = FRAME * 8.0 / (mbps * 1e6);
    let period = f64::from(n) / rho * service;
    let each = mbps * rho / f64::from(n);
    let mut sum = 0.0;
    for seed in 0..seeds {
        // The first period fills the queue as the last one left it.
        let r = lab(2.0 * period, period)
            .with("seed", seed)
            .with("start_jitter_ns", ns(period))
            .bare_link("b", mbps, "pfifo limit 100000")
            .cbr("s", each, "not-ect", json!({"count": n}))
            .run();
        sum += r.flow("s").sojourn_ms_mean.unwrap() * 1e-3 / service;
    }
    sum / seeds as f64
}

#[test]
fn periodic_sources_with_random_phases() {
    for (n, rho, seeds) in [(10, 0.8, 4000), (50, 0.8, 2000), (50, 0.95, 2000)] {
        let law = n_d_d_1_wait(n, f64::from(n) / rho);
        agrees(
            &format!("nD/D/1, n = {n}, load {rho}: wait"),
            measured_wait(n, rho, seeds),
            law,
            0.03,
        );
    }
}

/// Very many slow sources are a Poisson process: M/D/1, rho D/(2(1 - rho)).
#[test]
fn poisson_arrivals_wait_as_in_m_d_1() {
    for (rho, seeds) in [(0.5, 30), (0.7, 60)] {
        let law = rho / (2.0 * (1.0 - rho));
        agrees(&format!("M/D/1, load {rho}: wait"), measured_wait(10_000, rho, seeds), law, 0.03);
    }
}

/// A burst of ten: the i-th packet waits i serialisation times of the table of laws.md 6.
#[test]
fn packets_of_a_burst_leave_one_serialisation_time_apart() {
    for (mbps, table_us) in
        [(5.0, 2422.0), (40.0, 303.0), (50.0, 242.0), (100.0, 121.0), (1000.0, 12.1)]
    {
        let r = lab(10.0, 0.0)
            .bare_link("b", mbps, "pfifo")
            .cbr("s", mbps / 10.0, "not-ect", json!({"batch": 10}))
            .run();
        let d = FRAME * 8e-3 / mbps;
        agrees(&format!("D at {mbps} Mb/s, us"), d * 1e3, table_us, 0.002);
        let q = r.queue("b", "all");
        agrees(
            &format!("mean wait of ten at {mbps} Mb/s, ms"),
            q.sojourn_ms_mean.unwrap(),
            4.5 * d,
            1e-3,
        );
        agrees(
            &format!("longest wait of ten at {mbps} Mb/s, ms"),
            q.sojourn_ms_max.unwrap(),
            9.0 * d,
            1e-3,
        );
    }
}

/// Constant rate below capacity never waits, whatever the bucket.
#[test]
fn d_d_1_does_not_queue() {
    for (burst, rate) in [(1, 99.9), (1600, 99.9), (100_000, 99.9), (1, 100.0)] {
        let mut l = lab(20.0, 0.0).link("b", 100.0, "pfifo").cbr("s", rate, "not-ect", json!({}));
        l.0["links"][0]["burst_bytes"] = json!(burst);
        let r = l.run();
        assert_eq!(r.queue("b", "all").sojourn_ms_max, Some(0.0), "bucket {burst}, {rate} Mb/s");
    }
}

/// Departures over any interval t are at most b + r t, and come up to it. HTB sends while its
/// tokens are not negative: b is the bucket and one packet.
#[test]
fn token_bucket_bound() {
    for (mbps, bucket, batch) in
        [(20.0, 1600_u64, 60), (20.0, 30_000, 60), (100.0, 1, 50), (50.0, 15_140, 100)]
    {
        let mut l = lab(20.0, 0.0)
            .with("sample_ns", 100_000)
            .link("b", mbps, "pfifo limit 1000")
            .cbr("s", 0.7 * mbps, "not-ect", json!({"batch": batch}));
        l.0["links"][0]["burst_bytes"] = json!(bucket);
        let r = l.run();
        // The largest sum over any interval of (bytes sent - r t).
        let (mut excess, mut most) = (0.0_f64, 0.0_f64);
        for (_, rate) in r.queue_series("b", "all", "rate_mbps") {
            excess = (excess + (rate - mbps) * 1e6 * 1e-4 / 8.0).max(0.0);
            most = most.max(excess);
        }
        let bound = bucket as f64 + FRAME;
        println!("bucket {bucket}: {most:.0} B above the rate, bound {bound:.0} B");
        assert!(most <= bound + 1.0, "bucket {bucket}: {most} B above the rate, bound {bound} B");
        // A sample of 0.1 ms hides up to that much of the rate, and packets are whole.
        let hidden = mbps * 1e6 * 1e-4 / 8.0 + FRAME;
        assert!(
            most >= bound - hidden,
            "bucket {bucket}: only {most} B above the rate of {bound} B"
        );
    }
}

/// The step of L: a constant load u meets it after Theta/(u - 1); that packet leaves Theta later.
#[test]
fn the_first_step_mark() {
    for (u, theta) in [(1.01, 1e-3), (1.1, 1e-3), (1.5, 1e-3), (1.1, 5e-3)] {
        // A distant target keeps the coupled probability at zero.
        let qdisc = format!("dualpi2 target 10s step_thresh {}us", theta * 1e6);
        let r = lab(2.0, 0.0)
            .with("sample_ns", 100_000)
            .bare_link("b", 100.0, &qdisc)
            .cbr("s", 100.0 * u, "ect1", json!({}))
            .run();
        let marks = r.queue_series("b", "L", "marked_packets");
        let first = marks.iter().find(|m| m.1 > 0.0).expect("it marks").0;
        let law = theta / (u - 1.0) + theta;
        println!("first step mark at u = {u}: {first:.4} s, law {law:.4} s");
        // The packet that first exceeds it, and the sample.
        let packet = FRAME * 8.0 / 1e8 / (u - 1.0);
        assert!(first >= law - 1e-4 && first <= law + 2.0 * packet + 2e-4, "{first}, law {law}");
    }
}

/// What a flow sees is its base RTT and the queue: no time is lost or invented on the way.
#[test]
fn rtt_is_base_plus_queue() {
    for (mbps, rtt_ms, limit) in [(20.0, 10.0, 100), (100.0, 40.0, 1000), (5.0, 100.0, 60)] {
        let r = lab(120.0, 20.0)
            .link("b", mbps, &format!("pfifo limit {limit}"))
            .tcp("f", "cubic", rtt_ms, json!({}))
            .run();
        let f = r.flow("f");
        let law = rtt_ms + f.sojourn_ms_mean.unwrap();
        agrees(
            &format!("RTT at {mbps} Mb/s, {rtt_ms} ms, {limit} p"),
            f.rtt_ms_mean.unwrap(),
            law,
            0.015,
        );
    }
}

/// A source of constant rate sends it exactly: off by one packet at each end of the run.
#[test]
fn a_constant_rate_is_exact() {
    for (mbps, size) in [(0.1, 64), (7.000_003, 1514), (33.333_333, 200), (99.0, 9014)] {
        let r = lab(50.0, 0.0)
            .link("b", 100.0, "pfifo")
            .cbr("s", mbps, "not-ect", json!({"packet_bytes": size}))
            .run();
        let bytes = r.flow("s").rate_mbps * 1e6 * 50.0 / 8.0;
        let law = bps(mbps) as f64 * 50.0 / 8.0;
        println!("{mbps} Mb/s of {size} B: {bytes} B, law {law} B");
        assert!((bytes - law).abs() <= f64::from(size), "{mbps} Mb/s: {bytes} B, law {law} B");
    }
}
