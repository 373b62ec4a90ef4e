//! laws.md 5: what one AIMD flow makes of a buffer, and the ceilings of goodput.

use serde_json::json;

use crate::lab::{FRAME, MSS, Result, agrees, between, lab};

/// Utilisation of an AIMD flow with factor `beta` on a buffer of `b` BDP.
fn law(beta: f64, b: f64) -> f64 {
    let w0 = beta * (1.0 + b);
    if w0 >= 1.0 {
        return 1.0;
    }
    let full = ((1.0 + b) * (1.0 + b) - 1.0) / 2.0;
    ((1.0 - w0 * w0) / 2.0 + full) / (1.0 - w0 + full)
}

fn alone(cc: &str, mbps: f64, rtt_ms: f64, b: f64, seconds: f64) -> Result {
    let bdp = mbps * 1e3 * rtt_ms / 8.0 / FRAME;
    let qdisc = format!("pfifo limit {}", (b * bdp).round());
    lab(seconds, seconds / 4.0).link("b", mbps, &qdisc).tcp("f", cc, rtt_ms, json!({})).run()
}

/// Reno at a long RTT; CUBIC where its Reno-friendly region governs (a short RTT), though it is the
/// faster cubic that starts. The buffers hold several bursts of the sender (1 ms at its pacing rate):
/// where they do not, as 0.1 BDP at 100 Mb/s and 10 ms, 8 packets for bursts of 10, bursts overflow
/// them before the window fills them, and 0.74 of the link is used instead of 0.92.
#[test]
fn utilisation_of_one_flow_by_buffer() {
    for (cc, beta, mbps, rtt_ms, seconds) in
        [("reno", 0.5, 50.0, 100.0, 700.0), ("cubic", 0.7, 50.0, 20.0, 200.0)]
    {
        for b in [0.1, 0.3, 0.5, 1.0, 2.0] {
            let r = alone(cc, mbps, rtt_ms, b, seconds);
            let u = r.queue("b", "all").utilisation;
            let tolerance = if cc == "reno" { 0.01 } else { 0.03 };
            agrees(
                &format!("{cc}, {mbps} Mb/s, {rtt_ms} ms, buffer {b} BDP: use"),
                u,
                law(beta, b),
                tolerance,
            );
        }
    }
}

/// With more buffer than full utilisation needs, the queue moves between (w0 - 1) and b base RTTs.
#[test]
fn the_queue_of_a_sawtooth() {
    for (cc, beta, b) in [("reno", 0.5, 2.0), ("cubic", 0.7, 1.0)] {
        let r = alone(cc, 50.0, 40.0, b, 400.0);
        let sojourn = r.queue_series("b", "all", "sojourn_ms");
        let after: Vec<f64> = sojourn.iter().filter(|s| s.0 > 100.0).map(|s| s.1).collect();
        let low = after.iter().copied().fold(f64::INFINITY, f64::min);
        let high = after.iter().copied().fold(0.0, f64::max);
        let w0 = beta * (1.0 + b);
        agrees(&format!("{cc}: lowest queue, ms"), low, (w0 - 1.0) * 40.0, 0.03);
        agrees(&format!("{cc}: highest queue, ms"), high, b * 40.0, 0.03);
    }
}

/// Goodput over rate: 1448 of 1514 bytes; with the AccECN option 1436.
#[test]
fn goodput_ceiling() {
    for (cc, ecn, qdisc, payload) in [
        ("cubic", "off", "pfifo limit 400", MSS),
        ("cubic", "classic", "dualpi2", MSS),
        ("reno", "off", "pfifo limit 400", MSS),
        ("cubic", "accecn", "dualpi2", MSS - 12.0),
        ("prague", "accecn", "dualpi2", MSS - 12.0),
    ] {
        let r =
            lab(40.0, 10.0).link("b", 100.0, qdisc).tcp("f", cc, 10.0, json!({"ecn": ecn})).run();
        let f = r.flow("f");
        agrees(
            &format!("{cc} ({ecn}): goodput over rate"),
            f.goodput_mbps / f.rate_mbps,
            payload / FRAME,
            1e-3,
        );
        agrees(&format!("{cc} ({ecn}): goodput"), f.goodput_mbps, 100.0 * payload / FRAME, 0.02);
    }
}

/// N equal flows: Jain's index of their long-run rates.
#[test]
fn equal_flows_share_equally() {
    for (cc, qdisc, least) in [
        ("reno", "dualpi2", 0.99),
        ("cubic", "dualpi2", 0.99),
        ("prague", "dualpi2", 0.99),
        ("reno", "pfifo limit 170", 0.9),
        ("cubic", "pfifo limit 170", 0.9),
    ] {
        let n = 8;
        let mut l = lab(150.0, 30.0).with("start_jitter_ns", 1_000_000_000).link("b", 100.0, qdisc);
        for i in 0..n {
            l = l.tcp(&format!("f{i}"), cc, 20.0, json!({}));
        }
        let r = l.run();
        let rates: Vec<f64> = r.0.flows.iter().map(|f| f.goodput_mbps).collect();
        let (sum, squares) = rates.iter().fold((0.0, 0.0), |(s, q), r| (s + r, q + r * r));
        between(
            &format!("Jain of {n} {cc} flows at {qdisc}"),
            sum * sum / f64::from(n) / squares,
            least,
            1.0,
        );
    }
}
