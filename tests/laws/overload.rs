//! laws.md 4: DualPI2 under unresponsive load of u times the capacity.

use serde_json::json;

use crate::lab::{Result, agrees, between, lab, mean_since};

const C: f64 = 100.0;

/// Unresponsive loads: (name, share of capacity, codepoint). Phases differ by a start jitter, the
/// first ten seconds are left out.
fn unresponsive(qdisc: &str, loads: &[(&str, f64, &str)]) -> Result {
    let mut l = lab(40.0, 10.0).with("start_jitter_ns", 1_000_000).link("b", C, qdisc);
    for (name, u, ecn) in loads {
        l = l.cbr(name, u * C, ecn, json!({}));
    }
    l.run()
}

fn lost(r: &Result, flow: &str) -> f64 {
    let f = r.flow(flow);
    f.dropped_packets as f64 / f.sent_packets as f64
}

/// Of the packets that do not wait any more: where heads are dropped, a full queue's last packets are not lost yet.
fn lost_of_decided(r: &Result, flow: &str) -> f64 {
    let f = r.flow(flow);
    f.dropped_packets as f64 / (f.sent_packets - f.waiting_packets) as f64
}

/// Only C: p_C = 1 - 1/u, at C's target.
#[test]
fn classic_overload_is_dropped_away() {
    for u in [1.05, 1.25, 1.5, 2.0] {
        let r = unresponsive("dualpi2", &[("u", u, "not-ect")]);
        agrees(&format!("u = {u} of Not-ECT: drops"), lost(&r, "u"), 1.0 - 1.0 / u, 0.02);
        let p_c = mean_since(&r.queue_series("b", "all", "p_c"), 10.0);
        agrees(&format!("u = {u} of Not-ECT: p_C"), p_c, 1.0 - 1.0 / u, 0.03);
        let delay = r.queue("b", "C").sojourn_ms_mean.unwrap();
        agrees(&format!("u = {u} of Not-ECT: delay in C"), delay, 15.0, 0.1);
        assert_eq!(r.queue("b", "all").dropped_overflow_packets, 0);
    }
}

/// Below capacity nothing is marked, nothing dropped, nothing waits.
#[test]
fn below_capacity_nothing_happens() {
    for (u, ecn) in [(0.5, "ect1"), (0.95, "ect1"), (0.95, "ect0"), (0.95, "not-ect")] {
        let r = unresponsive("dualpi2", &[("u", u, ecn)]);
        let f = r.flow("u");
        assert_eq!((f.dropped_packets, f.ce_packets), (0, 0), "u = {u}, {ecn}");
        assert_eq!(f.sojourn_ms_p99, Some(0.0), "u = {u}, {ecn}");
        agrees(&format!("u = {u} of {ecn}: rate"), f.rate_mbps, u * C, 1e-4);
    }
}

/// ECT traffic is marked until p_C = 1/k^2 = 25 %; above u = 4/3 the rest has to be dropped, below
/// the controller hunts around p' = 1/2 and the queue stays near its target.
#[test]
fn ect_overload_is_marked_up_to_a_quarter_and_dropped_beyond() {
    for (ecn, queue) in [("ect1", "L"), ("ect0", "C")] {
        for u in [1.1, 1.25, 1.5, 1.75, 2.0] {
            let r = unresponsive("dualpi2", &[("u", u, ecn)]);
            let p = mean_since(&r.queue_series("b", "all", "p_prime"), 10.0);
            let what = format!("u = {u} of {ecn}");
            agrees(&format!("{what}: drops"), lost(&r, "u"), 1.0 - 1.0 / u, 0.02);
            if u > 4.0 / 3.0 {
                agrees(&format!("{what}: p'"), p * p, 1.0 - 1.0 / u, 0.03);
            } else {
                agrees(&format!("{what}: p' hunts around 1/2"), p, 0.5, 0.1);
            }
            let delay = r.queue("b", queue).sojourn_ms_mean.unwrap();
            agrees(&format!("{what}: delay"), delay, 15.0, 0.1);
            // What is not dropped of ECT(1) is marked by the step.
            if ecn == "ect1" && u > 4.0 / 3.0 {
                let f = r.flow("u");
                between(&what, f.ce_packets as f64 / f.delivered_packets as f64, 0.999, 1.0);
            }
            // Not a drop below the switch that was not one of the overload.
            assert_eq!(r.queue("b", "all").dropped_overflow_packets, 0);
        }
    }
}

/// The switch itself: no ECT packet is dropped before k p' > 1.
#[test]
fn no_ect_packet_is_dropped_before_the_switch() {
    let r = lab(30.0, 0.0)
        .with("sample_ns", 16_000_000)
        .link("b", C, "dualpi2")
        .cbr("u", 1.1 * C, "ect0", json!({}))
        .run();
    let p = r.queue_series("b", "all", "p_prime");
    let dropped = r.queue_series("b", "all", "dropped_packets");
    let mut seen = 0;
    for i in 1..p.len() {
        if p[i - 1].1.max(p[i].1) < 0.499 {
            assert_eq!(dropped[i].1, 0.0, "at {} s, p' = {}", p[i].0, p[i].1);
            seen += 1;
        }
    }
    assert!(seen > 50, "p' was below 1/2 for a while: {seen} samples");
    assert!(dropped.iter().map(|d| d.1).sum::<f64>() > 1000.0, "and above it later");
}

/// Unresponsive classes in both queues, each above its share: all keep the same part. L settles at
/// the target, C waits for its turn only.
#[test]
fn classes_above_their_share_survive_alike() {
    for (l, c) in [(1.0, 1.0), (1.2, 0.4), (0.7, 0.7)] {
        let r =
            unresponsive("dualpi2", &[("l", l, "ect1"), ("c", c, "not-ect"), ("c0", c, "ect0")]);
        let survival = 1.0 / (l + 2.0 * c);
        for (flow, u) in [("l", l), ("c", c), ("c0", c)] {
            let rate = r.flow(flow).rate_mbps;
            agrees(&format!("{flow} of {l} + {c} + {c}: Mb/s"), rate, u * survival * C, 0.03);
        }
    }
    let r = unresponsive("dualpi2", &[("l", 2.0, "ect1"), ("c", 0.1, "not-ect")]);
    let (l, c) = (r.queue("b", "L"), r.queue("b", "C"));
    agrees("L overloads: delay in L", l.sojourn_ms_mean.unwrap(), 15.0, 0.1);
    between("L overloads: delay in C", c.sojourn_ms_mean.unwrap(), 0.0, 1.5);
    agrees("L overloads: C keeps the same part", lost(&r, "c"), lost(&r, "l"), 0.03);
}

/// While both queues have a backlog, C gets classic_protection percent of the bytes. Nothing is
/// dropped here but by p_C = 1/k^2, which costs C no turn; the run ends before the buffer is full.
#[test]
fn the_scheduler_gives_c_its_percentage() {
    for wc in [0.0, 10.0, 25.0, 50.0, 90.0] {
        let qdisc =
            format!("dualpi2 overflow limit 1000000 memlimit 4000000000 classic_protection {wc}%");
        let r = lab(6.0, 1.0)
            .link("b", C, &qdisc)
            .cbr("l", 1.5 * C, "ect1", json!({}))
            .cbr("c", 1.5 * C, "not-ect", json!({"packet_bytes": 1000}))
            .run();
        // Error of laws.md 6: one packet in each direction.
        let bytes = r.flow("c").rate_mbps * 1e6 * 5.0 / 8.0;
        let law = wc / 100.0 * C * 1e6 * 5.0 / 8.0;
        println!("classic_protection {wc} %: {bytes} B, law {law} B");
        assert!(
            (bytes - law).abs() < 3.0 * 1514.0,
            "classic_protection {wc}: {bytes} B, law {law} B"
        );
        assert_eq!(r.queue("b", "all").dropped_overflow_packets, 0);
    }
}

/// Beside u < 1, the responsive flows get C(1 - u), whichever queue the unresponsive load is in.
#[test]
fn responsive_flows_get_what_is_left() {
    for u in [0.1, 0.5, 0.7] {
        for ecn in ["ect1", "not-ect"] {
            let r = lab(60.0, 20.0)
                .with("start_jitter_ns", 100_000_000)
                .link("b", C, "dualpi2")
                .tcp("prague", "prague", 10.0, json!({"count": 5}))
                .tcp("cubic", "cubic", 10.0, json!({"count": 5}))
                .cbr("u", u * C, ecn, json!({}))
                .run();
            let left = r.flow("prague").rate_mbps + r.flow("cubic").rate_mbps;
            // Some of the unresponsive load in C is dropped like everything there.
            let free = C - r.flow("u").rate_mbps;
            agrees(&format!("left beside u = {u} of {ecn}"), left, free, 0.02);
            agrees(&format!("left beside u = {u} of {ecn}"), left, C * (1.0 - u), 0.06);
        }
    }
}

/// A pure tail drop: p = 1 - 1/u, the buffer B is full after B/(u - 1) and stays so.
#[test]
fn a_tail_drop_queue_fills_and_drops_the_excess() {
    for u in [1.25, 1.5, 2.0] {
        let r = unresponsive("pfifo limit 500", &[("u", u, "ect0")]);
        agrees(&format!("u = {u} at pfifo: drops"), lost(&r, "u"), 1.0 - 1.0 / u, 0.01);
        let full = 500.0 * 1514.0 * 8e-3 / C;
        let delay = r.queue("b", "all").sojourn_ms_mean.unwrap();
        agrees(&format!("u = {u} at pfifo: delay"), delay, full, 0.01);
        let r = lab(1.0, 0.0).with("sample_ns", 1_000_000).link("b", C, "pfifo limit 500");
        let r = r.cbr("u", u * C, "ect0", json!({})).run();
        let drops = r.queue_series("b", "all", "dropped_packets");
        let first = drops.iter().find(|d| d.1 > 0.0).expect("it overflows").0;
        agrees(&format!("u = {u} at pfifo: full after"), first, full * 1e-3 / (u - 1.0), 0.04);
    }
}

/// A queue counts as full while it holds all but so much of its limit.
const NEARLY: f64 = 0.015;

/// The time when a queue that was full no longer is.
fn full_until(r: &Result, limit: f64) -> f64 {
    let backlog = r.queue_series("b", "all", "backlog_packets");
    let mut full = backlog.iter().map(|&(t, packets)| (t, packets > (1.0 - NEARLY) * limit));
    full.find(|(_, full)| *full).expect("full once");
    full.find(|(_, full)| !full).expect("full not for ever").0
}

/// The time between 20 and 125 s when the queue is shortest.
fn least_at(r: &Result) -> f64 {
    let backlog = r.queue_series("b", "all", "backlog_packets");
    let window = backlog.iter().filter(|(t, _)| (20.0..125.0).contains(t));
    window.min_by(|a, b| a.1.total_cmp(&b.1)).expect("samples").0
}

/// CoDel sheds e packets per second when sqrt(count)/I = e. In `codel` only its own drops count, so
/// that takes 2 I^2 e; in `fq_codel` those of the full queue count too, so once the queue is full,
/// after limit/e, the count grows by e per second and it takes I^2 e. From there on the rate of drops
/// grows by 1/(2 I^2) per second, so the queue is d packets shorter after 2 I sqrt(d). The integers
/// of Linux cut the time between drops: at 8257 drops per second 1/sqrt(count) goes from 80 to 79 in
/// 2^-16, and the time from 119 to 117 units, at a count 1.6 % too small.
#[test]
fn codel_sheds_an_overload_after_its_count_has_grown() {
    let i = 0.1_f64;
    for (qdisc, limit, u) in [
        ("codel", 1000.0, 1.25),
        ("codel limit 10240", 10240.0, 1.5),
        ("fq_codel flows 1", 10240.0, 1.5),
        ("fq_codel flows 1", 10240.0, 2.0),
    ] {
        let e = (u - 1.0) * C * 1e6 / (1514.0 * 8.0);
        let grown = if qdisc.starts_with("fq") { limit / e + i * i * e } else { 2.0 * i * i * e };
        let law = grown + 2.0 * i * (NEARLY * limit).sqrt();
        let r = lab(law * 1.1, 0.0).link("b", C, qdisc).cbr("u", u * C, "not-ect", json!({})).run();
        agrees(&format!("{qdisc}, u = {u}: full until"), full_until(&r, limit), law, 0.03);
    }
}

/// After that the queue drains ever faster and the count starts anew. Linux 7.2, given 17006 packets
/// per second where 8267 could leave (`iperf3 -u`, 1512 B), was full until 87.9 s and had the
/// shortest queue at 107.0 s, within half a second each.
#[test]
fn codel_under_overload_has_the_period_of_the_kernels() {
    let mbps = |packets: f64| packets * 1514.0 * 8e-6;
    let r = lab(130.0, 0.0).link("b", mbps(8267.2), "fq_codel flows 1");
    let r = r.cbr("u", mbps(17006.8), "not-ect", json!({})).run();
    agrees("fq_codel flows 1: full until", full_until(&r, 10240.0), 87.9, 0.015);
    agrees("fq_codel flows 1: the queue is shortest", least_at(&r), 107.0, 0.015);
}

/// Heads that are dropped leave at the rate of arrivals, so a full queue's delay is
/// limit/lambda; with tail drop it is limit/C, whatever the load.
#[test]
fn a_full_queue_with_head_drop_delays_by_the_arrival_rate() {
    for u in [1.2, 1.4, 2.0] {
        let run = |qdisc: &str| {
            let r = lab(8.0, 6.0).link("b", C, qdisc).cbr("u", u * C, "ect0", json!({})).run();
            r.queue("b", "all").sojourn_ms_mean.unwrap()
        };
        let full = 1024.0 * 1514.0 * 8e-3 / C;
        // A batch of 64 leaves the queue shorter by half of that on average.
        let head = run("fq_codel flows 1 limit 1024");
        agrees(
            &format!("fq_codel flows 1, u = {u}: delay"),
            head,
            full * (1.0 - 32.0 / 1024.0) / u,
            0.02,
        );
        agrees(&format!("codel, u = {u}: delay"), run("codel ecn limit 1024"), full, 0.02);
    }
}

/// ECT traffic is never dropped by the law, only for want of room; all of it is lost alike.
#[test]
fn codel_never_drops_ect() {
    let of_all: fn(&Result, &str) -> f64 = lost;
    for (qdisc, lost) in [("codel ecn limit 10240", of_all), ("fq_codel flows 1", lost_of_decided)]
    {
        for u in [1.25, 2.0] {
            let r = unresponsive(qdisc, &[("u", u, "ect0")]);
            let q = r.queue("b", "all");
            assert_eq!(q.dropped_packets, q.dropped_overflow_packets, "{qdisc}, u = {u}");
            agrees(&format!("{qdisc}, u = {u} of ECT: drops"), lost(&r, "u"), 1.0 - 1.0 / u, 0.02);
        }
    }
}
