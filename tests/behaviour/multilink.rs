//! Paths of several links, pace caps, and links that change.

use serde_json::json;

use crate::lab::{agrees, between, bps, lab, mean_since};

/// Two links in series: the narrower one limits, queues are where the bottleneck is, and the time in
/// all queues is the flow's.
#[test]
fn the_narrower_link_is_the_bottleneck() {
    for (first, second) in [(100.0, 40.0), (40.0, 100.0)] {
        for (cc, qdisc) in
            [("cubic", "pfifo limit 200"), ("prague", "dualpi2"), ("reno", "dualpi2")]
        {
            let r = lab(60.0, 10.0)
                .link("one", first, qdisc)
                .link("two", second, qdisc)
                .tcp("f", cc, 20.0, json!({}))
                .run();
            let what = format!("{cc} at {qdisc}, {first} then {second} Mb/s");
            let (one, two) = (r.queue("one", "all"), r.queue("two", "all"));
            agrees(&format!("{what}: rate"), r.flow("f").rate_mbps, 40.0, 0.02);
            let (narrow, wide) = if first < second { (one, two) } else { (two, one) };
            agrees(&format!("{what}: use of the narrow link"), narrow.utilisation, 1.0, 0.02);
            agrees(&format!("{what}: use of the wide link"), wide.utilisation, 0.4, 0.02);
            let sum = one.sojourn_ms_mean.unwrap() + two.sojourn_ms_mean.unwrap();
            agrees(
                &format!("{what}: sojourn adds up"),
                r.flow("f").sojourn_ms_mean.unwrap(),
                sum,
                0.01,
            );
            assert!(narrow.sojourn_ms_mean > wide.sojourn_ms_mean, "{what}");
        }
    }
}

/// The parking lot: who crosses both links gets less than who crosses one, and each link is full.
#[test]
fn a_long_path_gets_less() {
    let r = lab(120.0, 20.0)
        .with("start_jitter_ns", 100_000_000)
        .link("one", 50.0, "dualpi2")
        .tcp("first", "reno", 20.0, json!({"count": 2}))
        .link("two", 50.0, "dualpi2")
        .tcp("both", "reno", 20.0, json!({"count": 2}))
        .tcp("second", "reno", 20.0, json!({"count": 2, "path": ["two"]}))
        .run();
    for link in ["one", "two"] {
        agrees(link, r.queue(link, "all").utilisation, 1.0, 0.01);
    }
    let (first, both, second) =
        (r.flow("first").rate_mbps, r.flow("both").rate_mbps, r.flow("second").rate_mbps);
    agrees("first link", first + both, 50.0, 0.01);
    // It meets p twice and R is longer by a second target: 1/sqrt(2) * 35/50 of the others' rate.
    agrees("long to short", both / second, 0.707 * 35.0 / 50.0, 0.15);
    agrees("both short ones", first / second, 1.0, 0.1);
}

/// What one queue has marked is no mark of the next, though that would mark it too.
#[test]
fn a_packet_is_marked_once() {
    for qdisc in [
        "fq_codel ce_threshold 1ms",
        "dualpi2",
        "pie ecn",
        "red limit 400000 min 15000 max 45000 avpkt 1500 burst 17 ecn",
    ] {
        let r = lab(10.0, 0.0)
            .link("one", 20.0, qdisc)
            .link("two", 19.5, qdisc)
            .tcp("f", "prague", 10.0, json!({"count": 2}))
            .cbr("u", 10.0, "ect1", json!({}))
            .run();
        let marked = |link| r.queue(link, "all").marked_packets;
        let arrived = r.flow("f").ce_packets + r.flow("u").ce_packets;
        let on_the_way = marked("one") + marked("two") - arrived;
        assert!(marked("one") > 0 && marked("two") > 0, "{qdisc}");
        // Marked by the first, and then dropped by the second, or still in it at the end.
        let two = r.queue("two", "all");
        assert!(
            on_the_way <= two.dropped_packets + two.backlog_packets_max,
            "{qdisc}: {on_the_way}"
        );
    }
}

/// A cap on the pacing counts frames.
#[test]
fn a_pace_cap_is_kept() {
    for (cc, ecn) in
        [("reno", "off"), ("cubic", "classic"), ("cubic", "accecn"), ("prague", "accecn")]
    {
        for cap in [1.0, 10.0, 40.0] {
            let r = lab(30.0, 5.0)
                .link("b", 100.0, "dualpi2")
                .tcp("f", cc, 20.0, json!({"ecn": ecn, "pace_bps": bps(cap)}))
                .run();
            let f = r.flow("f");
            agrees(&format!("{cc} ({ecn}) capped at {cap} Mb/s"), f.rate_mbps, cap, 0.01);
            assert!(f.rate_mbps <= cap * 1.001, "{cc}: {} above the cap", f.rate_mbps);
            assert_eq!((f.dropped_packets, f.ce_packets), (0, 0), "{cc} capped at {cap}");
        }
    }
}

/// A cap above the fair share does not bind.
#[test]
fn a_high_cap_does_not_bind() {
    let r = lab(60.0, 20.0)
        .link("b", 40.0, "dualpi2")
        .tcp("f", "cubic", 20.0, json!({"pace_bps": 100_000_000}))
        .run();
    agrees("rate below the cap", r.flow("f").rate_mbps, 40.0, 0.01);
}

/// A change of rate is followed: down at once (the link is the clock), up as the window grows.
#[test]
fn a_change_of_rate_is_followed() {
    for cc in ["cubic", "prague"] {
        let r = lab(60.0, 0.0)
            .link("b", 50.0, "dualpi2")
            .tcp("f", cc, 20.0, json!({}))
            .at(20.0, "b", json!({"rate_bps": 20_000_000}))
            .at(40.0, "b", json!({"rate_bps": 50_000_000}))
            .run();
        let rate = r.flow_series("f", "rate_mbps");
        let mean = |from: f64, to: f64| {
            let part: Vec<_> = rate.iter().copied().filter(|x| x.0 <= to).collect();
            mean_since(&part, from)
        };
        agrees(&format!("{cc} before"), mean(10.0, 20.0), 50.0, 0.02);
        // Within five round trips, though the queue at first holds 2.5 times its time.
        agrees(&format!("{cc} just after the fall"), mean(20.05, 20.3), 20.0, 0.05);
        agrees(&format!("{cc} after the fall"), mean(21.0, 40.0), 20.0, 0.02);
        agrees(&format!("{cc} after the rise"), mean(45.0, 60.0), 50.0, 0.03);
        // Capacity is counted piece by piece.
        between(&format!("{cc}: utilisation"), r.queue("b", "all").utilisation, 0.95, 1.0001);
        let sojourn = r.queue_series("b", "all", "sojourn_ms");
        let late: Vec<_> = sojourn.iter().copied().filter(|s| s.0 < 40.0).collect();
        between(&format!("{cc}: queue is back at its target"), mean_since(&late, 25.0), 0.0, 17.0);
    }
}

/// Another queue takes over: what waited is dropped, the flow recovers, the new law rules.
#[test]
fn a_replaced_queue_takes_over() {
    let r = lab(60.0, 0.0)
        .link("b", 50.0, "pfifo limit 500")
        .tcp("f", "cubic", 20.0, json!({}))
        .at(30.0, "b", json!({"qdisc": "dualpi2"}))
        .run();
    let rtt = r.flow_series("f", "srtt_ms");
    let (before, after): (Vec<_>, Vec<_>) = rtt.iter().copied().partition(|x| x.0 < 30.0);
    between("RTT before", mean_since(&before, 10.0), 60.0, 145.0);
    agrees("RTT after", mean_since(&after, 35.0), 35.0, 0.1);
    let rate = r.flow_series("f", "rate_mbps");
    agrees("rate after", mean_since(&rate, 35.0), 50.0, 0.03);
}

/// Half of the base RTT lies before the first link, links add no delay of their own.
#[test]
fn an_empty_path_takes_the_base_rtt() {
    for links in 1..=4 {
        let mut l = lab(10.0, 1.0);
        for i in 0..links {
            l = l.link(&format!("l{i}"), 1000.0, "pfifo");
        }
        let r = l.tcp("f", "reno", 30.0, json!({"pace_bps": 5_000_000})).run();
        agrees(&format!("RTT over {links} links"), r.flow("f").rtt_ms_mean.unwrap(), 30.0, 0.01);
    }
}
