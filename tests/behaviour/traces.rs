//! Links whose capacity is told over time.

use l4slab_core::rng::Rng;
use serde_json::{Value, json};

use crate::lab::{FRAME, Lab, Result, bps, lab};

fn traced(l: Lab, qdisc: &str, mean: f64, trace: Value) -> Lab {
    let mut l = l;
    let link = json!({"name": "l", "rate_bps": bps(mean), "rate_trace": trace, "qdisc": qdisc});
    l.0["links"].as_array_mut().expect("a list").push(link);
    l
}

/// Bytes that left in each second.
fn by_second(r: &Result) -> Vec<f64> {
    let rates = r.queue_series("l", "all", "rate_mbps");
    rates.iter().map(|(_, mbps)| (mbps * 1e6 / 8.0).round()).collect()
}

/// A saturated link delivers what the trace allows in each second, within one packet.
fn is_within_one_packet(left: &[f64], allowed: &[f64]) {
    assert_eq!(left.len(), allowed.len());
    for (second, (left, allowed)) in left.iter().zip(allowed).enumerate() {
        assert!((left - allowed).abs() <= FRAME, "second {second}: {left} B of {allowed} B");
    }
    let sum = |all: &[f64]| all.iter().sum::<f64>();
    assert!((sum(left) - sum(allowed)).abs() <= FRAME, "in all");
}

#[test]
fn opportunities_are_all_used() {
    let mut rng = Rng::stream(1, "opportunities", 0);
    // 7.3 s, several in one millisecond, none for long; it goes round four times.
    let times: Vec<u64> = (0..5000).map(|_| 50 + rng.below(6000)).collect();
    let mut counts = [0_u64; 7301];
    times.iter().for_each(|ms| counts[*ms as usize] += 1);
    counts[7300] = 2;
    let every = counts.iter().enumerate().filter(|(_, n)| **n > 0);
    let every: Vec<Value> = every.map(|(ms, n)| json!([ms * 1_000_000, n])).collect();
    let trace = json!({"opportunities": every, "repeat_ns": 7_300_000_000_u64});
    let mut allowed = vec![0.0; 29];
    for round in 0..4 {
        for (ms, n) in counts.iter().enumerate() {
            // What comes at the very end of a second is of the next one.
            let second = (round * 7300 + ms) / 1000;
            if let Some(bytes) = allowed.get_mut(second) {
                *bytes += *n as f64 * FRAME;
            }
        }
    }
    for packet in [1514, 300] {
        let l = lab(29.0, 0.0).with("sample_ns", 1_000_000_000);
        let l = traced(l, "pfifo limit 100", 8.0, trace.clone());
        let extra = json!({"packet_bytes": packet, "rtt_ns": 0});
        let r = l.cbr("u", 200.0, "not-ect", extra).run();
        is_within_one_packet(&by_second(&r), &allowed);
    }
}

#[test]
fn rates_are_kept_to_the_bit() {
    // Steps of 37 ms, among them outages, and rates at which a packet takes longer than a step.
    let mut rng = Rng::stream(1, "rates", 0);
    let rates: Vec<u64> =
        (0..50).map(|i| if i % 7 == 3 { 0 } else { 100_000 + rng.below(30_000_000) }).collect();
    let steps: Vec<Value> =
        rates.iter().enumerate().map(|(i, bps)| json!([i * 37_000_000, bps])).collect();
    let trace = json!({"steps": steps, "repeat_ns": 50 * 37_000_000_u64});
    let bits = |ms: usize| rates[ms / 37 % 50] as f64 * 1e-3;
    let second = |s: usize| (s * 1000..(s + 1) * 1000).map(bits).sum::<f64>() / 8.0;
    let allowed: Vec<f64> = (0..20).map(second).collect();
    let l = lab(20.0, 0.0).with("sample_ns", 1_000_000_000);
    let l = traced(l, "pfifo limit 100", 12.0, trace);
    let r = l.cbr("u", 100.0, "not-ect", json!({"rtt_ns": 0})).run();
    is_within_one_packet(&by_second(&r), &allowed);
    let all = allowed.iter().sum::<f64>() * 8.0;
    let (sent, utilisation) =
        (r.queue("l", "all").rate_mbps * 20e6, r.queue("l", "all").utilisation);
    assert!((utilisation - sent / all).abs() < 1e-9, "{utilisation}");
}

/// One rate from the beginning is a link of that rate, whatever its queue.
#[test]
fn one_rate_is_a_link_of_that_rate() {
    for qdisc in ["dualpi2", "cake bandwidth 20mbit", "fq_codel"] {
        let flows = |l: Lab| {
            let l = l.tcp("a", "prague", 10.0, json!({})).tcp("b", "cubic", 20.0, json!({}));
            let r = l.run();
            ["a", "b"]
                .map(|f| (r.flow(f).goodput_mbps, r.flow(f).ce_packets, r.flow(f).dropped_packets))
        };
        let plain = flows(lab(10.0, 0.0).link("l", 40.0, qdisc));
        let steps = json!({"steps": [[0, 40_000_000]]});
        let traced = flows(traced(lab(10.0, 0.0), qdisc, 40.0, steps));
        for ((a, ..), (b, ..)) in plain.iter().zip(&traced) {
            assert!((a - b).abs() <= 0.05 * a, "{qdisc}: {plain:?} {traced:?}");
        }
    }
}
