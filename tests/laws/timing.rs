//! laws.md 7: how long things take.

use l4slab_core::math;
use l4slab_core::time::Time;
use serde_json::json;

use crate::lab::{Lab, agrees, between, lab, ns};

/// When packets arrive at the first link, seconds, to within `step`.
fn arrivals(l: &Lab, until: f64, step: f64) -> Vec<f64> {
    let mut sim = l.simulation();
    let (mut times, mut seen, mut t) = (Vec::new(), 0, 0);
    while t < ns(until) {
        t += ns(step);
        sim.run_until(Time(t));
        let arrived = sim.links()[0].totals().arrived;
        times.extend((seen..arrived).map(|_| t as f64 * 1e-9));
        seen = arrived;
    }
    times
}

/// Slow start from a window of ten doubles: n segments take log2(n/10 + 1) round trips, after one
/// for the handshake, and half of one to arrive. Long delays, so that nothing else counts.
#[test]
fn slow_start_doubles_from_ten() {
    for cc in ["reno", "cubic"] {
        for (segments, rounds) in
            [(10, 1), (11, 2), (30, 2), (31, 3), (70, 3), (150, 4), (310, 5), (311, 6), (1270, 7)]
        {
            let rtt = 200.0;
            let r = lab(30.0, 0.0)
                .link("b", 100_000.0, "pfifo limit 100000")
                .tcp(
                    "f",
                    cc,
                    rtt,
                    json!({"bytes": segments * 1448, "options": match cc {
                        "cubic" => json!({"hystart": "off"}),
                        _ => json!({}),
                    }}),
                )
                .run();
            let f = r.flow("f");
            assert_eq!((f.transfers, f.retransmits), (1, 0), "{cc}, {segments} segments");
            let law = (0.5 + f64::from(rounds)) * rtt;
            // The last segment of an odd round may have to wait for a delayed ACK, once: 40 ms, and up
            // to the tick after it.
            let took = f.completion_ms_p50.unwrap();
            // Goodput over its own time, however long the run is.
            let own = f64::from(segments) * 1448.0 * 8e-3 / took;
            agrees("active", f.active_mbps.unwrap(), own, 1e-9);
            between(&format!("{cc}, {segments} segments, ms"), took, law - 0.1, law + 45.0);
            if segments < 1000 {
                agrees(&format!("{cc}, {segments} segments, ms"), took, law, 1e-3);
            }
        }
    }
}

/// CUBIC in the cubic region: from a reduction to 0.7 W_max it takes K = cbrt(0.3 W_max/0.4) seconds
/// back to W_max, hence K - cbrt(d W_max/0.4) until the fraction d is missing. Seen in a whole run,
/// after the first loss; K counts from the end of recovery, which takes about a round trip.
#[test]
fn cubic_is_back_after_k_seconds() {
    for (mbps, rtt_ms, b) in [(100.0, 100.0, 0.6), (50.0, 80.0, 0.6), (400.0, 50.0, 0.6)] {
        let bdp = mbps * 1e3 * rtt_ms / 8.0 / 1514.0;
        let r = lab(120.0, 0.0)
            .with("sample_ns", 5_000_000)
            .link("b", mbps, &format!("pfifo limit {}", (b * bdp).round()))
            .tcp("f", "cubic", rtt_ms, json!({"options": {"fast_convergence": "off"}}))
            .run();
        let cwnd = r.flow_series("f", "cwnd_packets");
        // A reduction when slow start and its overshoot are history.
        let falls = |i: &usize| cwnd[*i].0 > 30.0 && cwnd[*i].1 < 0.9 * cwnd[*i - 80].1;
        let at = (80..cwnd.len()).find(falls).expect("a reduction") - 80;
        let top = cwnd[at..at + 80].iter().map(|c| c.1).fold(0.0, f64::max);
        let low = (at..at + 300).min_by(|&a, &b| cwnd[a].1.total_cmp(&cwnd[b].1)).unwrap();
        agrees("lowest window over W_max", cwnd[low].1 / top, 0.7, 0.01);
        let missing = 0.02;
        let back =
            (low..cwnd.len()).find(|&i| cwnd[i].1 >= (1.0 - missing) * top).expect("it comes back");
        let k = math::cbrt(0.3 * top / 0.4);
        let law = k - math::cbrt(missing * top / 0.4);
        let took = cwnd[back].0 - cwnd[low].0;
        println!(
            "W_max {top}, K = {k:.2} s, recovery ended after {:.3} s",
            cwnd[low].0 - cwnd[at].0
        );
        agrees(&format!("{mbps} Mb/s, {rtt_ms} ms: back at 98 % of W_max, s"), took, law, 0.03);
    }
}

/// A SYN is repeated after a second (RFC 6298, 2.1), five times, before the wait doubles (5.7; Linux `tcp_syn_linear_timeouts`),
/// each on the kernel's timer wheel: up to 2 s on the next eighth tick of 4 ms (1 s is tick 250, hence 256), then on
/// the next 64th.
#[test]
fn a_lost_syn_is_repeated_after_a_second_and_then_backed_off() {
    for (open_at, connects_at) in
        [(0.5, 1.024), (1.5, 2.048), (4.5, 5.12), (6.5, 7.136), (9.5, 11.264)]
    {
        let r = lab(40.0, 0.0)
            .link("b", 100.0, "pfifo limit 0")
            .tcp("f", "reno", 20.0, json!({"bytes": 14_480}))
            .at(open_at, "b", json!({"qdisc": "pfifo limit 1000"}))
            .run();
        let law = connects_at * 1e3 + 1.5 * 20.0 + 9.0 * 0.121;
        agrees(
            &format!("open at {open_at} s: complete, ms"),
            r.flow("f").completion_ms_p50.unwrap(),
            law,
            1e-3,
        );
    }
}

/// In silence the timer fires after srtt + max(rttvar, 200 ms) and backs off by two, up to 120 s, and
/// then on a tick of the kernel's: of 4 ms, from 252 ms on every eighth, from 2 s on every 64th, ... The
/// first packet of the silence is a tail loss probe.
#[test]
fn timeouts_back_off() {
    let l = lab(900.0, 0.0)
        .link("b", 1000.0, "pfifo")
        .tcp("f", "reno", 20.0, json!({"pace_bps": 10_000_000}))
        .at(3.0, "b", json!({"qdisc": "pfifo limit 0"}));
    let times = arrivals(&l, 900.0, 1e-3);
    // The first packets are on the way when the link breaks; then probe and timeouts.
    let silent: Vec<f64> = times.iter().copied().filter(|&t| t > 3.06).collect();
    println!("arrivals in silence: {silent:?}");
    let gaps: Vec<f64> = silent.windows(2).map(|w| w[1] - w[0]).collect();
    let rto = 0.22;
    for (i, gap) in gaps.iter().enumerate() {
        let law = (rto * f64::from(1_u32 << i)).min(120.0);
        let level = (0..).find(|l| law < 63.0 * 4e-3 * 8_f64.powi(*l)).expect("a level");
        let late = 4e-3 * 8_f64.powi(level);
        between(&format!("time-out {}: s", i + 1), *gap, law - 1e-3, law + 4e-3 + late + 1e-3);
    }
    assert!(gaps.len() >= 14, "{} time-outs in 900 s", gaps.len());
}

/// A lone segment is acknowledged after 40 ms and, as a timer fires on the tick after its time, 0 to
/// 4 ms more, or when the next one arrives. (Prague sends segments one by one; others at least two,
/// which are acknowledged at once.)
#[test]
fn delayed_acks() {
    for (every_ms, wait) in [(100.0, 42.0), (10.0, 10.0), (30.0, 30.0)] {
        let pace = 1514.0 * 8.0 / (every_ms * 1e-3);
        let r = lab(60.0, 30.0)
            .link("b", 1000.0, "pfifo")
            .tcp("f", "prague", 20.0, json!({"pace_bps": pace as u64}))
            .run();
        let f = r.flow("f");
        agrees(
            &format!("segments every {every_ms} ms: RTT, ms"),
            f.rtt_ms_mean.unwrap(),
            20.0 + wait,
            0.033,
        );
    }
}
