//! laws.md 1: the rate a controller settles at when every packet is signalled with probability p.
//!
//! First the controllers alone, on a synthetic ACK clock (Bernoulli marks per packet, one reduction
//! per round trip, the window averaged over time); then whole connections, in a queue that a large
//! unresponsive load holds at a constant p'.

use l4slab_core::cc::{Ack, Congestion, Window, registry};
use l4slab_core::rng::Rng;
use l4slab_core::time::{Span, Time};
use serde_json::json;

use crate::lab::{FRAME, agrees, lab};

/// Which packets are signalled.
#[derive(Copy, Clone)]
enum Signals {
    /// Each with this probability.
    Random(f64),
    /// Every 1/p-th.
    Regular(f64),
}

/// The mean window of a controller on an ACK clock, segments. A governed window (Reno, CUBIC) goes
/// to ssthresh at once and grows during the reduction too, as in the model of laws.md.
fn mean_window(cc: &str, options: &[(&str, &str)], rtt_us: u32, signals: Signals, acks: u32) -> f64 {
    let entry = registry::find(cc).unwrap();
    let options = entry.options(options.iter().copied()).unwrap();
    let mut cc = (entry.build)(&options).unwrap();
    let mut w = Window::new(1448, 52);
    w.ssthresh = w.cwnd;
    let srtt8 = rtt_us * 8;
    let hello = Ack { srtt8, ..Ack::default() };
    assert!(cc.on_established(true, &hello, &mut w).is_none());
    let mut rng = Rng::stream(1, "signals", 0);
    let (mut n, mut marks, mut debt) = (0_u32, 0_u32, 0.0);
    let (mut now, mut blind_until) = (0.0, 0);
    let (mut area, mut time) = (0.0, 0.0);
    while n < acks {
        let step = f64::from(rtt_us) * 1e3 / f64::from(w.cwnd);
        now += step;
        n += 1;
        let ce = match signals {
            Signals::Random(p) => rng.unit() < p,
            Signals::Regular(p) => {
                debt += p;
                let due = debt >= 1.0;
                debt -= f64::from(u8::from(due));
                due
            }
        };
        marks += u32::from(ce);
        let at = Time(now as u64);
        let outstanding = w.cwnd;
        if ce && n > blind_until {
            cc.on_congestion(Congestion::Ecn, at, &mut w);
            if !cc.governs_window() {
                w.cwnd = w.ssthresh;
            }
            blind_until = n + outstanding;
        }
        let ack = Ack {
            now: at,
            acked: 1,
            ce: u32::from(ce),
            delivered: n,
            delivered_ce: marks,
            rtt_us: Some(rtt_us),
            srtt8,
            min_rtt_us: rtt_us,
            snd_una: n,
            snd_nxt: n + outstanding,
            in_flight: outstanding,
            cwnd_limited: true,
            may_grow: true,
            ..Ack::default()
        };
        cc.on_ack(&ack, &mut w);
        if n > acks / 10 {
            area += f64::from(w.cwnd) * step;
            time += step;
        }
    }
    area / time
}

/// The model itself as a fluid: additive increase `a` per round trip, factor `beta`, packets signalled
/// with probability p. `pause`: no growth in the round trip of a reduction, as in TCP's CWR and
/// Recovery; without it the constants of laws.md result.
fn fluid_window(a: f64, beta: f64, p: f64, pause: bool) -> f64 {
    let mut rng = Rng::stream(2, "fluid", 0);
    let (mut w, mut blind, mut area, mut time) = (1.2 / p.sqrt(), 0.0, 0.0, 0.0);
    for n in 0..4_000_000_u32 {
        let step = 1.0 / w; // a packet's share of the round trip
        if n > 100_000 {
            area += w * step;
            time += step;
        }
        blind -= step;
        if blind <= 0.0 || !pause {
            w += a * step;
        }
        if rng.unit() < p && blind <= 0.0 {
            w *= beta;
            blind = 1.0;
        }
    }
    area / time
}

#[test]
fn the_model_gives_the_constants_of_the_laws() {
    for (what, a, beta, p, c) in [
        ("Reno", 1.0, 0.5, 1e-3, 1.31),
        ("Reno", 1.0, 0.5, 1e-2, 1.34),
        ("CUBIC friendly", 8.0 / 15.0, 0.7, 1e-3, 1.295),
        ("CUBIC friendly", 8.0 / 15.0, 0.7, 1e-2, 1.33),
    ] {
        let w = fluid_window(a, beta, p, false);
        agrees(&format!("model of {what}, W sqrt(p) at p = {p}"), w * p.sqrt(), c, 0.02);
    }
}

/// W = 1.31/sqrt(p), 1.34/sqrt(p) at p = 0.01; laws.md allows 3 %.
#[test]
fn reno_under_random_marks() {
    for (p, c) in [(1e-4, 1.31), (1e-3, 1.31), (1e-2, 1.34)] {
        let w = mean_window("reno", &[], 20_000, Signals::Random(p), 10_000_000);
        agrees(&format!("Reno on an ACK clock, W sqrt(p) at p = {p}"), w * p.sqrt(), c, 0.03);
    }
}

/// The sawtooth of regular marks: W = sqrt(3/2)/sqrt(p).
#[test]
fn reno_under_regular_marks() {
    for p in [1e-4, 1e-3] {
        let w = mean_window("reno", &[], 20_000, Signals::Regular(p), 3_000_000);
        agrees(&format!("Reno sawtooth, W sqrt(p) at p = {p}"), w * p.sqrt(), 1.225, 0.03);
    }
}

/// Linux's Reno-friendly region: W = 1.295/sqrt(p) under random marks, 1.229/sqrt(p) under regular.
#[test]
fn cubic_in_its_reno_friendly_region() {
    for (signals, p, c) in [
        (Signals::Random(1e-3), 1e-3, 1.295),
        (Signals::Random(3e-3), 3e-3, 1.305),
        (Signals::Regular(1e-3), 1e-3, 1.229),
    ] {
        let w = mean_window("cubic", &[], 10_000, signals, 10_000_000);
        agrees(&format!("CUBIC friendly, W sqrt(p) at p = {p}"), w * f64::sqrt(p), c, 0.03);
    }
}

/// The cubic region under regular marks: W = 1.054 (R/p)^(3/4), by Linux and by the RFC. Without
/// fast convergence, which the law leaves out.
#[test]
fn cubic_in_its_cubic_region() {
    for (rules, rtt_us, p) in [
        ("linux", 100_000, 1e-5),
        ("rfc9438", 100_000, 1e-5),
        ("linux", 200_000, 3e-5),
    ] {
        let options = [("rules", rules), ("fast_convergence", "off")];
        let w = mean_window("cubic", &options, rtt_us, Signals::Regular(p), 12_000_000);
        let ratio = f64::from(rtt_us) * 1e-6 / p;
        let c = w / (ratio.sqrt() * ratio.sqrt().sqrt());
        agrees(&format!("CUBIC region ({rules}), {rtt_us} us, p = {p}"), c, 1.054, 0.03);
    }
}

/// One reduction by alpha/2 per round trip with marks, growth by unmarked segments only:
/// W = (1 + sqrt 3)(1 - p)/p. The window is the fractional one rounded up, half a segment more.
#[test]
fn prague_at_and_above_its_target_rtt() {
    for (rtt_us, p) in [(25_000, 0.01), (25_000, 0.03), (50_000, 0.02), (100_000, 0.05)] {
        let w = mean_window("prague", &[], rtt_us, Signals::Random(p), 3_000_000) - 0.5;
        let law = (1.0 + 3_f64.sqrt()) * (1.0 - p) / p;
        agrees(&format!("Prague, W at {rtt_us} us and p = {p}"), w, law, 0.03);
    }
}

/// Below 25 ms the rate does not depend on the RTT: r = (1 + sqrt 3)(1 - p)/(p 25 ms), with 1500 B
/// 1.37 * 0.96 (1 - p)/p Mb/s.
#[test]
fn pragues_rate_does_not_depend_on_a_short_rtt() {
    for (rtt_us, p) in [(20_000, 0.02), (10_000, 0.02), (5_000, 0.02), (5_000, 0.01), (2_000, 0.01)] {
        let w = mean_window("prague", &[], rtt_us, Signals::Random(p), 3_000_000) - 0.5;
        let mbps = w / f64::from(rtt_us) * 12_000.0;
        let law = (1.0 + 3_f64.sqrt()) / 2.0 * 0.96 * (1.0 - p) / p;
        agrees(&format!("Prague, Mb/s at {rtt_us} us and p = {p}"), mbps, law, 0.03);
    }
}

/// A connection among so much unresponsive Not-ECT traffic that p' stands still: loss and marks are
/// then independent with a constant probability. Returns that probability as the flow met it, its
/// mean window (packets per second times RTT) and the RTT in seconds.
fn in_a_crowd(cc: &str, ecn: &str, rtt_ms: f64, p_c: f64, k: u32, seconds: f64) -> (f64, f64, f64) {
    let c = 1000.0;
    let load = c / (1.0 - p_c);
    let qdisc = format!("dualpi2 coupling_factor {k}");
    let result = lab(seconds, 40.0)
        .link("b", c, &qdisc)
        .cbr("crowd", load, "not-ect", json!({"packet_bytes": 9014}))
        // What fills the queue up to its target.
        .cbr("start", 0.2 * c, "not-ect", json!({"packet_bytes": 9014, "stop_ns": 75_000_000}))
        .tcp("flow", cc, rtt_ms, json!({"ecn": ecn, "start_ns": 10_000_000_000_u64}))
        .run();
    let f = result.flow("flow");
    let signals = f.ce_packets + f.dropped_packets;
    assert!(signals >= 700, "{signals} signals are too few for a mean");
    let p = signals as f64 / f.sent_packets as f64;
    let rtt = f.rtt_ms_mean.unwrap() * 1e-3;
    let pps = f.sent_packets as f64 / (seconds - 40.0);
    println!("{cc} {ecn} at {rtt_ms} ms: p = {p:.5}, {signals} signals, {} resent, {:.2} Mb/s",
        f.retransmits, pps * FRAME * 8e-6);
    (p, pps * rtt, rtt)
}

/// Whole connections, by drops and by marks. TCP does not grow in the round trip of a reduction, so
/// the model's pause applies.
#[test]
fn reno_and_cubic_connections_in_a_crowd() {
    for (cc, a, beta) in [("reno", 1.0, 0.5), ("cubic", 8.0 / 15.0, 0.7)] {
        for (ecn, rtt_ms, p_c) in [("off", 10.0, 0.004), ("classic", 10.0, 0.004), ("classic", 30.0, 0.01)] {
            let (p, w, _) = in_a_crowd(cc, ecn, rtt_ms, p_c, 2, 540.0);
            let law = fluid_window(a, beta, p, true);
            agrees(&format!("{cc} ({ecn}) end to end, W at p = {p:.4}"), w, law, 0.05);
        }
    }
}

#[test]
fn prague_connections_in_a_crowd() {
    for (rtt_ms, p_c) in [(50.0, 0.0025), (30.0, 0.01), (10.0, 0.0025), (5.0, 0.0025)] {
        let (p, w, rtt) = in_a_crowd("prague", "accecn", rtt_ms, p_c, 1, 340.0);
        let law = (1.0 + 3_f64.sqrt()) * (1.0 - p) / p * (rtt / 0.025).min(1.0);
        agrees(&format!("Prague end to end, W at {rtt_ms} ms and p = {p:.4}"), w, law, 0.05);
    }
}
