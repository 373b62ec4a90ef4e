//! The whole fallback matrix, seen from outside: what a connection settled on, which codepoint its
//! packets carry and which queue of DualPI2 they wait in.

use serde_json::json;

use l4slab_core::transport::ecn::EcnMode;

use crate::lab::{agrees, between, lab, mean_since};

const SETTINGS: [&str; 4] = ["off", "classic", "sce", "accecn"];

/// RFC 3168 and RFC 9768, 3.1: both must have it; AccECN falls back to classic; Prague takes
/// nothing but AccECN (RFC 9331, 4.2). SCE is not negotiated, and none of these answers it.
fn agreed(cc: &str, sender: &str, peer: &str) -> EcnMode {
    match (sender, peer) {
        ("off", _) | (_, "off") => EcnMode::Off,
        ("accecn", "accecn") => EcnMode::AccEcn,
        _ if cc == "prague" => EcnMode::Off,
        _ => EcnMode::Classic,
    }
}

#[test]
fn mode_codepoint_and_queue() {
    for cc in ["reno", "cubic", "prague"] {
        for sender in SETTINGS {
            for peer in SETTINGS {
                let what = format!("{cc}, {sender} to {peer}");
                let r = lab(20.0, 2.0)
                    .link("b", 50.0, "dualpi2")
                    .tcp("f", cc, 10.0, json!({"ecn": sender, "peer_ecn": peer}))
                    .run();
                let f = r.flow("f");
                let mode = agreed(cc, sender, peer);
                assert_eq!(f.ecn_mode, Some(mode.name()), "{what}");
                // Marks where ECN was agreed, drops where it was not.
                let capable = mode != EcnMode::Off;
                assert_eq!(f.ce_packets > 0, capable, "{what}: {} marks", f.ce_packets);
                assert_eq!(f.dropped_packets > 0, !capable, "{what}: {} drops", f.dropped_packets);
                // ECT(1) waits in L, everything else in C.
                let (home, other) = if cc == "prague" && capable { ("L", "C") } else { ("C", "L") };
                let there = r.queue("b", home).sent_packets;
                assert!(there >= f.delivered_packets, "{what}: {there} packets in {home}");
                // Marked ECT(0) packets stay where they came; L sees nothing else.
                assert_eq!(r.queue("b", other).sent_packets, 0, "{what}: packets in {other}");
                assert!(r.queue("b", "all").utilisation > 0.95, "{what}: the link is used");
                // The AccECN option takes 12 bytes of every segment.
                let payload = if mode == EcnMode::AccEcn { 1436.0 } else { 1448.0 };
                agrees(&what, f.goodput_mbps / f.rate_mbps, payload / 1514.0, 2e-3);
            }
        }
    }
}

/// What a flow asks for if the file does not say: what its controller wants; and of the peer the
/// same.
#[test]
fn defaults_are_the_controllers_wish() {
    for (cc, mode) in [
        ("reno", "off"),
        ("cubic", "off"),
        ("prague", "accecn"),
        ("reno-sce", "sce"),
        ("cubic-sce", "sce"),
        ("dctcp-sce", "sce"),
    ] {
        let r = lab(2.0, 0.0).link("b", 50.0, "dualpi2").tcp("f", cc, 10.0, json!({})).run();
        assert_eq!(r.flow("f").ecn_mode, Some(mode), "{cc}");
    }
}

/// What an SCE sender ends up with: SCE where both hosts have it and ECN was agreed.
#[test]
fn sce_needs_both_hosts() {
    for cc in ["reno-sce", "cubic-sce", "dctcp-sce"] {
        for (sender, peer, mode) in [
            ("sce", "sce", "sce"),
            ("sce", "classic", "classic"),
            ("classic", "sce", "sce"),
            ("sce", "accecn", "classic"),
            ("accecn", "sce", "sce"),
            ("accecn", "accecn", "accecn"),
            ("sce", "off", "off"),
            ("off", "sce", "off"),
        ] {
            let r = lab(2.0, 0.0)
                .link("b", 1000.0, "twin_codel_af bandwidth 20mbit")
                .tcp("f", cc, 10.0, json!({"ecn": sender, "peer_ecn": peer}))
                .run();
            let f = r.flow("f");
            assert_eq!(f.ecn_mode, Some(mode), "{cc}, {sender} to {peer}");
            assert_eq!(f.sce_pct > Some(0.0), mode != "off", "ECT(0), or not");
        }
    }
}

/// Without AccECN Prague is Reno: beside Reno at a tail drop they share equally (laws.md 2), at
/// DualPI2 both wait in C.
#[test]
fn prague_without_accecn_is_reno() {
    for peer in ["off", "classic"] {
        for (qdisc, low, high) in [("pfifo limit 170", 0.43, 0.57), ("dualpi2", 0.46, 0.54)] {
            let r = lab(200.0, 40.0)
                .with("start_jitter_ns", 100_000_000)
                .link("b", 100.0, qdisc)
                .tcp("p", "prague", 20.0, json!({"peer_ecn": peer, "count": 3}))
                .tcp("r", "reno", 20.0, json!({"count": 3}))
                .run();
            between(
                &format!("Prague to {peer} at {qdisc}: share"),
                r.flow("p").share.unwrap(),
                low,
                high,
            );
            assert_eq!(r.flow("p").ce_packets, 0);
        }
    }
}

/// A path that loses what carries ECT(0): the connection is agreed, for its SYN is Not-ECT; of its data only
/// retransmissions come through, which are Not-ECT with RFC 3168 (6.1.5) and ECT with AccECN.
#[test]
fn a_black_hole_for_a_codepoint() {
    for (ecn, comes) in [("off", "all"), ("classic", "some"), ("accecn", "none")] {
        let hole =
            json!([{"flow": "f", "where": "before", "link": "b", "from": "ect0", "to": "drop"}]);
        let r = lab(20.0, 2.0)
            .link("b", 50.0, "pfifo")
            .tcp("f", "cubic", 10.0, json!({"ecn": ecn}))
            .with("rewrites", hole)
            .run();
        let f = r.flow("f");
        assert_eq!(f.ecn_mode, Some(ecn));
        match comes {
            "all" => assert!(f.goodput_mbps > 45.0),
            "some" => assert!(f.goodput_mbps > 0.0 && f.goodput_mbps < 1.0, "{}", f.goodput_mbps),
            _ => assert_eq!(f.goodput_mbps, 0.0),
        }
    }
}

/// A rewritten codepoint: an ECT(0) flow that is taken for L4S waits in L and is marked as such.
#[test]
fn a_rewritten_codepoint_changes_the_queue() {
    let r = lab(20.0, 2.0)
        .link("b", 50.0, "dualpi2")
        .tcp("f", "cubic", 10.0, json!({"ecn": "classic"}))
        .with(
            "rewrites",
            json!([{"flow": "f", "where": "before", "link": "b", "from": "ect0", "to": "ect1"}]),
        )
        .run();
    let f = r.flow("f");
    assert!(r.queue("b", "L").sent_packets + 100 >= f.delivered_packets);
    assert!(f.ce_packets > 0);
}

/// DCTCP cannot tell a peer of its kind, which echoes runs of marks, from an ordinary one, which echoes
/// each until CWR: it then takes the marks for several times as many as there are.
#[test]
fn dctcp_misreads_an_ordinary_peer() {
    for (ecn, low, high) in [("classic", 0.9, 1.2), ("accecn", 3.0, 20.0)] {
        let r = lab(40.0, 10.0)
            .link("b", 50.0, "fq_codel flows 1 ce_threshold 1ms")
            .tcp("f", "dctcp", 20.0, json!({"ecn": ecn, "peer_ecn": "classic"}))
            .run();
        assert_eq!(r.flow("f").ecn_mode, Some("classic"));
        let alpha = mean_since(&r.flow_series("f", "alpha"), 10.0);
        let marked = r.flow("f").ce_pct.unwrap() / 100.0;
        between(&format!("alpha over marks, {ecn} asked"), alpha / marked, low, high);
    }
}

/// Its SYN is ECT, which an ordinary host takes for a fault (`tcp_ecn_create_request`) unless AccECN is
/// asked for.
#[test]
fn dctcp_gets_no_classic_ecn_from_an_ordinary_peer() {
    for (ecn, peer, mode) in [
        ("classic", "classic", "classic"),
        ("classic", "accecn", "off"),
        ("accecn", "classic", "classic"),
        ("accecn", "accecn", "accecn"),
    ] {
        let r = lab(2.0, 1.0)
            .link("b", 50.0, "pfifo")
            .tcp("f", "dctcp", 20.0, json!({"ecn": ecn, "peer_ecn": peer}))
            .run();
        assert_eq!(r.flow("f").ecn_mode, Some(mode), "{ecn} to {peer}");
    }
}

/// A lost SYN is repeated: a classic one without ECN (RFC 3168, 6.1.1.1), an AccECN one with it
/// once more and then without (RFC 9768, 3.1.4.1).
#[test]
fn lost_syns_cost_ecn_in_the_end() {
    for (ecn, lost, mode) in [
        ("off", 1, EcnMode::Off),
        ("classic", 0, EcnMode::Classic),
        ("classic", 1, EcnMode::Off),
        ("accecn", 1, EcnMode::AccEcn),
        ("accecn", 2, EcnMode::Off),
        ("accecn", 3, EcnMode::Off),
    ] {
        for cc in ["reno", "cubic", "prague"] {
            if cc == "prague" && ecn != "accecn" {
                continue;
            }
            let open = lost as f64 - 0.5;
            let mut l = lab(20.0, 0.0).link("b", 50.0, "pfifo limit 0");
            l = l.tcp("f", cc, 10.0, json!({"ecn": ecn, "bytes": 1_000_000}));
            l = l.at(open.max(0.0), "b", json!({"qdisc": "pfifo limit 1000"}));
            let r = l.run();
            let what = format!("{cc} with {ecn}, {lost} SYNs lost");
            assert_eq!(r.flow("f").ecn_mode, Some(mode.name()), "{what}");
            assert_eq!(r.flow("f").transfers, 1, "{what}");
            assert_eq!(r.queue("b", "all").dropped_packets, lost, "{what}");
        }
    }
}

/// SYN/ACKs get lost as well.
#[test]
fn a_lost_syn_ack_is_asked_for_again() {
    for ecn in SETTINGS {
        let r = lab(20.0, 0.0)
            .link("b", 50.0, "pfifo")
            .tcp(
                "f",
                "cubic",
                10.0,
                json!({"ecn": ecn, "bytes": 100_000, "reverse_path": ["back"]}),
            )
            .link("back", 50.0, "pfifo limit 0")
            .at(0.5, "back", json!({"qdisc": "pfifo limit 1000"}))
            .run();
        let f = r.flow("f");
        assert_eq!(f.transfers, 1, "{ecn}");
        between("after one second", f.completion_ms_p50.unwrap(), 1000.0, 1100.0);
    }
}

/// Through a queue that an unresponsive load overruns threefold, SYNs and all, everyone connects
/// and gets through in the end.
#[test]
fn connecting_through_an_overrun_queue() {
    for cc in ["reno", "cubic", "prague"] {
        let r = lab(600.0, 0.0)
            .with("start_jitter_ns", 1_000_000_000)
            .link("b", 10.0, "pfifo limit 5")
            .cbr("u", 30.0, "not-ect", json!({"stop_ns": 20_000_000_000_u64}))
            .tcp("f", cc, 20.0, json!({"count": 10, "bytes": 20_000}))
            .run();
        assert_eq!(r.flow("f").transfers, 10, "{cc}");
        // A SYN or two was among the losses.
        let slowest = r.flow("f").completion_ms_p99.unwrap();
        assert!(slowest > 1000.0, "{cc}: {slowest} ms");
    }
}
