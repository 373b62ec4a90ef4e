//! Flows that change while they run.

use serde_json::json;

use crate::lab::{Lab, bps, lab, ns};

fn change(l: Lab, seconds: f64, flow: &str, change: serde_json::Value) -> Lab {
    let mut l = l;
    let mut at = change;
    at["time_ns"] = json!(ns(seconds));
    at["flow"] = json!(flow);
    l.0["at"].as_array_mut().expect("a list").push(at);
    l
}

/// A shorter path does not let packets overtake: nothing is taken for lost, and the sender measures the new
/// round trip.
#[test]
fn another_rtt_neither_reorders_nor_loses() {
    for (before, after) in [(80.0, 10.0), (10.0, 80.0)] {
        let l = lab(10.0, 0.0).with("sample_ns", 100_000_000).link("l", 100.0, "pfifo");
        let l = l.tcp("f", "cubic", before, json!({"pace_bps": bps(20.0)}));
        let r = change(l, 5.0, "f", json!({"rtt_ns": ns(after * 1e-3)})).run();
        let f = r.flow("f");
        assert_eq!((f.retransmits, f.dropped_packets), (0, 0), "{before} to {after} ms");
        let srtt = r.flow_series("f", "srtt_ms");
        let near = |rtt: f64, measured: f64| (measured - rtt).abs() < 0.5;
        assert!(near(before, srtt[48].1) && near(after, srtt[srtt.len() - 1].1), "{srtt:?}");
    }
}

/// Flows come and go: each time those that are there fill the link.
#[test]
fn flows_come_and_go() {
    let l = lab(40.0, 0.0).link("l", 40.0, "dualpi2");
    let l = l.tcp("a", "prague", 10.0, json!({})).tcp("b", "cubic", 10.0, json!({"count": 0}));
    let l = change(l, 10.0, "a", json!({"count": 4}));
    let l = change(l, 20.0, "b", json!({"count": 2}));
    let r = change(change(l, 30.0, "a", json!({"count": 0})), 30.0, "b", json!({"count": 1})).run();
    assert_eq!((r.flow("a").count, r.flow("b").count), (4, 2));
    let mean = |flow: &str, from: usize, to: usize| {
        let rates = &r.flow_series(flow, "rate_mbps")[from..to];
        rates.iter().map(|(_, rate)| rate).sum::<f64>() / rates.len() as f64
    };
    let (tenths, full) = ([(20, 100), (120, 200), (220, 300), (320, 400)], 38.0..40.1);
    for (from, to) in tenths {
        let (a, b) = (mean("a", from, to), mean("b", from, to));
        assert!(full.contains(&(a + b)), "{a} + {b} Mb/s from {from}");
        assert_eq!((a < 0.01, b < 0.01), (from == 320, from < 200), "{a}, {b} Mb/s from {from}");
    }
}

/// A source keeps its phase: over the whole run it has sent both rates for their times.
#[test]
fn another_rate_of_a_source_is_exact() {
    let l = lab(10.0, 0.0).link("l", 100.0, "pfifo").cbr("u", 1.0, "not-ect", json!({}));
    let l = change(l, 2.0003, "u", json!({"rate_bps": bps(25.0)}));
    let r = change(l, 7.0, "u", json!({"rate_bps": 1_000})).run();
    let bits = r.flow("u").sent_packets as f64 * 1514.0 * 8.0;
    let expected = 1e6 * 2.0003 + 25e6 * (7.0 - 2.0003) + 1e3 * 3.0;
    assert!((bits - expected).abs() <= 1514.0 * 8.0, "{bits} of {expected} bits");
}
