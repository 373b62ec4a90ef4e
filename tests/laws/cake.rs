//! CAKE in the simulator: rates, shares and overload.

use serde_json::json;

use crate::lab::{agrees, between, lab, mean_since, ns};

/// As its own shaper below a faster link, the rate is that of `bandwidth`, in frames.
#[test]
fn a_shaping_cake_sets_the_rate() {
    for (words, wire) in [("", 1514.0), ("overhead 38", 1538.0), ("pppoe-llcsnap", 33.0 * 53.0)] {
        let r = lab(20.0, 5.0)
            .link("b", 1000.0, &format!("cake bandwidth 50mbit besteffort {words}"))
            .tcp("a", "cubic", 20.0, json!({"ecn": "classic"}))
            // Not at once with the other, or they may reduce together for ever.
            .tcp("b", "cubic", 20.0, json!({"start_ns": ns(0.123_456_789)}))
            .run();
        let rate = r.queue("b", "all").rate_mbps;
        agrees(&format!("\"{words}\": Mb/s"), rate, 50.0 * 1514.0 / wire, 0.002);
    }
}

/// A host with one flow and one with ten get a half each; as flows, an eleventh and ten.
#[test]
fn hosts_are_isolated() {
    for (mode, expected) in [("triple-isolate", 1.0), ("flows", 0.1)] {
        let r = lab(40.0, 10.0)
            .link("b", 100.0, &format!("cake besteffort {mode}"))
            .tcp("one", "cubic", 20.0, json!({"ecn": "classic"}))
            .tcp("ten", "cubic", 20.0, json!({"ecn": "classic", "count": 10}))
            .run();
        let ratio = r.flow("one").rate_mbps / r.flow("ten").rate_mbps;
        agrees(&format!("{mode}: one host's rate to the other's"), ratio, expected, 0.05);
    }
}

/// Two groups, five flows, of one host get together what the only flow of another host gets. Between hosts that are
/// not looked at, or without names, it is three shares.
#[test]
fn flows_of_several_groups_have_one_host() {
    let [hosts, peers, none] = [json!({"host": 3}), json!({"peer_host": 3}), json!({"host": null})];
    for (mode, of_both, expected) in [
        ("dual-srchost", &hosts, 1.0 / 2.0),
        ("dual-dsthost", &peers, 1.0 / 2.0),
        ("triple-isolate", &hosts, 1.0 / 2.0),
        ("triple-isolate", &peers, 1.0 / 2.0),
        ("dual-srchost", &peers, 1.0 / 3.0),
        ("dual-dsthost", &none, 1.0 / 3.0),
    ] {
        let with = |more: serde_json::Value| {
            let mut all = of_both.clone();
            all.as_object_mut()
                .expect("an object")
                .append(more.as_object().cloned().as_mut().expect("one"));
            all
        };
        let r = lab(20.0, 5.0)
            .with("hosts", json!(["office"]))
            .link("b", 50.0, &format!("cake besteffort {mode}"))
            .tcp("two", "cubic", 20.0, with(json!({"ecn": "classic", "count": 2})))
            .tcp("three", "prague", 20.0, with(json!({"count": 3})))
            .cbr("other", 60.0, "not-ect", json!({}))
            .run();
        let other = r.flow("other").rate_mbps / 50.0;
        agrees(&format!("{mode}, {of_both}: the other host's share"), other, expected, 0.05);
    }
}

/// Of a download whose ACKs have not enough room, two wait and a third comes; with the aggressive filter one and a second.
/// The link is as busy with them as before, and data come as fast as theirs allows.
#[test]
fn few_filtered_acks_wait() {
    for (words, most) in [("ack-filter", 3), ("ack-filter-aggressive", 2)] {
        let r = lab(10.0, 2.0)
            .link("up", 0.3, &format!("cake besteffort {words}"))
            .link("down", 20.0, "cake besteffort")
            .tcp("a", "cubic", 20.0, json!({"path": ["down"], "reverse_path": ["up"]}))
            .run();
        let up = r.queue("up", "all");
        assert!(up.backlog_packets_max <= most, "{words}: {}", up.backlog_packets_max);
        assert!(up.dropped_packets > 1000, "{words}: {}", up.dropped_packets);
        assert_eq!(up.dropped_overflow_packets, 0);
        agrees(&format!("{words}: ACKs, Mb/s"), up.rate_mbps, 0.3, 0.02);
        agrees(&format!("{words}: data, Mb/s"), r.queue("down", "all").rate_mbps, 20.0, 0.1);
    }
}

/// Voice comes first up to a quarter of a known rate; without one, the tins' weights hold. Below
/// capacity nobody notices.
#[test]
fn tins_guard_the_rate() {
    for (qdisc, mbps, voice) in
        [("cake bandwidth 100mbit", 1000.0, 25.0), ("cake", 100.0, 100.0 * 256.0 / 1280.0)]
    {
        let r = lab(20.0, 10.0)
            .link("b", mbps, qdisc)
            .cbr("voice", 60.0, "not-ect", json!({"dscp": 46}))
            .cbr("rest", 120.0, "not-ect", json!({}))
            .run();
        agrees(&format!("{qdisc}: Voice"), r.queue("b", "Voice").rate_mbps, voice, 0.02);
        agrees(&format!("{qdisc}: the rest"), r.flow("rest").rate_mbps, 100.0 - voice, 0.02);
    }
    let r = lab(20.0, 10.0)
        .link("b", 1000.0, "cake bandwidth 100mbit")
        .cbr("voice", 20.0, "not-ect", json!({"dscp": 46}))
        .cbr("rest", 120.0, "not-ect", json!({}))
        .run();
    assert_eq!(r.flow("voice").dropped_packets, 0);
    between(
        "Voice below its share waits, ms",
        r.queue("b", "Voice").sojourn_ms_p99.unwrap(),
        0.0,
        0.5,
    );
}

/// CoDel marks ECT packets and would never drop one. BLUE does: a source that does not respond fills
/// the buffer once, and from then on is dropped to the capacity.
#[test]
fn blue_answers_ect_overload() {
    let r = lab(40.0, 20.0)
        .link("b", 100.0, "cake besteffort")
        .cbr("u", 150.0, "ect0", json!({}))
        .tcp("t", "cubic", 20.0, json!({"ecn": "classic"}))
        .run();
    let u = r.flow("u");
    let lost = u.dropped_packets as f64 / u.sent_packets as f64;
    agrees("u = 1.5 of ECT(0) beside TCP: drops", lost, 1.0 - 50.0 / 150.0, 0.03);
    agrees("TCP's share, Mb/s", r.flow("t").rate_mbps, 50.0, 0.05);
    let all = r.queue("b", "all");
    assert!(all.dropped_overflow_packets < all.dropped_packets / 2, "BLUE, not the buffer");
    let p = mean_since(&r.queue_series("b", "all", "p_drop"), 20.0);
    println!("p_drop {p:.3}, overflow {} of {}", all.dropped_overflow_packets, all.dropped_packets);
}
