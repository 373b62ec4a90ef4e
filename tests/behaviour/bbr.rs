//! BBR version 1 (Cardwell et al., "BBR: Congestion-Based Congestion Control", CACM 2017).

use serde_json::json;

use crate::lab::{between, lab, mean_since};

/// Alone it sends at the bottleneck's rate with hardly a queue, though the buffer is deep.
#[test]
fn alone_it_fills_the_link_and_not_the_buffer() {
    for (mbps, rtt_ms) in [(10.0, 40.0), (50.0, 20.0), (200.0, 80.0)] {
        let r = lab(30.0, 5.0)
            .link("b", mbps, "pfifo limit 20000")
            .tcp("f", "bbr", rtt_ms, json!({}))
            .run();
        let queue = r.queue("b", "all");
        // It spends 200 ms of every ten seconds with four segments.
        between("use of the link", queue.utilisation, 0.95, 1.0);
        between("mean queue, base RTTs", queue.sojourn_ms_mean.unwrap() / rtt_ms, 0.0, 0.25);
    }
}

/// Every ten seconds the window falls to four segments for 200 ms and a round trip.
#[test]
fn the_smallest_rtt_is_probed_every_ten_seconds() {
    let r = lab(40.0, 5.0)
        .with("sample_ns", 10_000_000)
        .link("b", 50.0, "pfifo limit 1000")
        .tcp("f", "bbr", 20.0, json!({}))
        .run();
    let windows = r.flow_series("f", "cwnd_packets");
    let mut dips: Vec<(f64, f64)> = Vec::new();
    for (t, w) in windows.into_iter().filter(|s| s.0 > 5.0) {
        if w > 4.0 {
            continue;
        }
        match dips.last_mut() {
            Some(last) if t - last.1 < 0.1 => last.1 = t,
            _ => dips.push((t, t)),
        }
    }
    assert_eq!(dips.len(), 3, "{dips:?}");
    for dip in &dips {
        between("length of a dip, s", dip.1 - dip.0, 0.19, 0.27);
    }
    for pair in dips.windows(2) {
        between("from dip to dip, s", pair[1].0 - pair[0].0, 10.0, 10.5);
    }
}

/// It does not answer losses: beside it, in a shallow buffer, CUBIC gets next to nothing, while
/// two of its kind share.
#[test]
fn a_shallow_buffer_is_taken_by_the_one_that_ignores_losses() {
    let beside = |cc: &str| {
        let r = lab(60.0, 20.0)
            .link("b", 50.0, "pfifo limit 83")
            .tcp("bbr", "bbr", 20.0, json!({}))
            .tcp("other", cc, 20.0, json!({}))
            .run();
        r.flow("bbr").share.unwrap()
    };
    between("share beside CUBIC", beside("cubic"), 0.8, 0.95);
    between("share beside another BBR", beside("bbr"), 0.4, 0.6);
}

/// A rise of the path's rate is found by probing, a fall by forgetting within ten rounds.
#[test]
fn it_follows_the_rate_of_the_path() {
    let r = lab(30.0, 1.0)
        .link("b", 20.0, "pfifo limit 1000")
        .tcp("f", "bbr", 20.0, json!({}))
        .at(10.0, "b", json!({"rate_bps": 40_000_000}))
        .at(20.0, "b", json!({"rate_bps": 10_000_000}))
        .run();
    let rates = r.flow_series("f", "rate_mbps");
    let between_times = |from: f64, to: f64| {
        let part: Vec<_> = rates.iter().copied().filter(|s| s.0 <= to).collect();
        mean_since(&part, from)
    };
    between("Mb/s before", between_times(5.0, 9.9), 19.0, 20.0);
    between("Mb/s two seconds after doubling", between_times(12.0, 19.9), 37.0, 40.01);
    let sojourn = mean_since(&r.queue_series("b", "all", "sojourn_ms"), 25.0);
    between("queue five seconds after the fall, ms", sojourn, 0.0, 25.0);
}
