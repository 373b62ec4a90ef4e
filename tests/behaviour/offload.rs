//! Hosts that offload segmentation: packets of several segments in queues, and receivers that join them.

use l4slab_core::scenario::Run;
use serde_json::{Value, json};

use crate::lab::{Lab, Result, lab};

fn one(cc: &str, rate: f64, qdisc: &str, extra: Value) -> Result {
    lab(6.0, 2.0).link("l", rate, qdisc).tcp("f", cc, 20.0, extra).run()
}

/// A limit in packets holds several segments in each.
#[test]
fn a_limit_in_packets_holds_more() {
    let limit = "pfifo limit 20";
    let (plain, gso) =
        (one("cubic", 100.0, limit, json!({})), one("cubic", 100.0, limit, json!({"gso": true})));
    let most = |r: &Result| r.queue("l", "all").backlog_packets_max;
    assert!(most(&plain) <= 20 && most(&gso) <= 20);
    let wait = |r: &Result| r.queue("l", "all").sojourn_ms_p99.expect("packets left");
    assert!(wait(&gso) > 3.0 * wait(&plain), "{} and {} ms", wait(&gso), wait(&plain));
    // Bytes are those of all frames.
    let f = gso.flow("f");
    assert!((f.goodput_mbps / f.rate_mbps - 1448.0 / 1514.0).abs() < 2e-3, "{f:?}");
    assert!(f.sent_packets * 2 < plain.flow("f").sent_packets);
}

/// A queue that cuts them gets what it would get without offload.
#[test]
fn cut_packets_are_those_of_a_host_without() {
    for qdisc in ["dualpi2", "cake unlimited", "tbf rate 40mbit burst 5kb limit 60kb"] {
        let runs = [json!({}), json!({"gso": true})].map(|extra| one("prague", 50.0, qdisc, extra));
        let rows = runs.map(|r| format!("{:?} {:?}", r.0.flows, r.0.links));
        assert_eq!(rows[0], rows[1], "{qdisc}");
    }
    let whole = one("prague", 200.0, "dualpi2 no_split_gso", json!({"gso": true}));
    let cut = one("prague", 200.0, "dualpi2", json!({"gso": true}));
    assert!(whole.flow("f").sent_packets < cut.flow("f").sent_packets * 9 / 10);
}

/// Segments that come to one interrupt are acknowledged once, and all of their marks are counted.
#[test]
fn joined_segments_are_acknowledged_together() {
    let acks = |extra: Value| {
        let l = lab(4.0, 2.0).link("l", 1000.0, "pfifo").link("back", 1000.0, "pfifo");
        let mut keys = json!({"path": ["l"], "reverse_path": ["back"], "pace_bps": 400_000_000});
        keys.as_object_mut().expect("keys").extend(extra.as_object().expect("keys").clone());
        let r = l.tcp("f", "cubic", 10.0, keys).run();
        let acks = r.queue("back", "all").arrived_packets as f64;
        (acks / r.flow("f").delivered_packets as f64, r)
    };
    let (plain, _) = acks(json!({}));
    let (joined, r) = acks(json!({"gro_ns": 200_000}));
    assert!((plain - 0.5).abs() < 0.01, "{plain}");
    // 400 Mbit/s are 6.6 frames in 200 us, in bursts of up to 32 segments.
    assert!(joined < 0.2, "{joined}");
    assert!((r.flow("f").rate_mbps - 400.0).abs() < 4.0);
    // Prague's share of marks is what the queue has marked.
    for extra in [json!({}), json!({"gro_ns": 300_000}), json!({"gso": true, "gro_ns": 0})] {
        let r = one("prague", 200.0, "fq_codel ce_threshold 1ms", extra.clone());
        assert!(r.flow("f").rate_mbps > 180.0, "{extra}: {:?}", r.flow("f"));
    }
}

/// The interrupt is late by its own time, and everything arrives.
#[test]
fn an_interrupt_delays() {
    for wait in [0_u64, 500, 5000] {
        let extra = json!({"bytes": 14_480, "gro_ns": wait * 1000});
        let r = lab(2.0, 0.0).link("l", 1000.0, "pfifo").tcp("f", "cubic", 20.0, extra).run();
        let took = r.0.transfers[0].completion.as_millis_f64();
        // The SYN, and ten segments, are as late.
        let expected = 40.0 - 10.0 + 2.0 * wait as f64 * 1e-3;
        assert!((took - expected).abs() < 0.5, "{wait} us: {took} ms, not {expected}");
    }
}

/// A change may not begin or end cutting.
#[test]
fn cutting_does_not_change() {
    let with = |l: Lab, qdisc: &str| {
        let change = json!({"qdisc": qdisc});
        Run::from_json(&l.at(1.0, "l", change).0.to_string()).err().map(|e| e.0)
    };
    let l = |gso: bool| {
        lab(2.0, 0.0).link("l", 10.0, "dualpi2").tcp("f", "cubic", 10.0, json!({"gso": gso}))
    };
    assert_eq!(with(l(true), "dualpi2 target 20ms"), None);
    assert_eq!(with(l(true), "cake"), None);
    assert_eq!(with(l(false), "pfifo"), None);
    let refused = with(l(true), "pfifo").expect("it is refused");
    assert!(refused.starts_with("link \"l\" cuts the packets of flow \"f\""), "{refused}");
}
