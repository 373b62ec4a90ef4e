//! workloads.md 3.1 and 3.2: web requests and video.

use l4slab_core::probe::{Transfer, TransferKind};
use serde_json::{Value, json};

use crate::lab::{FRAME, Lab, MSS, Result, agrees, between, lab, ns};

/// Web requests at `per_second`.
fn web(l: Lab, per_second: f64, rtt_ms: f64, extra: Value) -> Lab {
    let mut keys = json!({"kind": "web", "interval_ns": ns(1.0 / per_second)});
    for (k, v) in extra.as_object().expect("an object") {
        keys[k] = v.clone();
    }
    l.tcp("web", "reno", rtt_ms, keys)
}

/// A video of `mbps` with 60 frames and 60 movements per second.
fn video(l: Lab, mbps: f64, rtt_ms: f64, extra: Value) -> Lab {
    let mut keys = json!({"kind": "video", "rate_bps": mbps * 1e6, "interval_ns": ns(1.0 / 60.0),
                          "control_interval_ns": ns(1.0 / 60.0)});
    keys["rate_bps"] = json!((mbps * 1e6) as u64);
    for (k, v) in extra.as_object().expect("an object") {
        keys[k] = v.clone();
    }
    l.tcp("video", "cubic", rtt_ms, keys)
}

fn ms(span: l4slab_core::time::Span) -> f64 {
    span.as_millis_f64()
}
fn of_kind(r: &Result, kind: TransferKind) -> Vec<&Transfer> {
    r.0.transfers.iter().filter(|t| t.kind == kind).collect()
}
fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (n, sum) = values.into_iter().fold((0.0, 0.0), |(n, sum), v| (n + 1.0, sum + v));
    sum / n
}
fn quantile(mut values: Vec<f64>, q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(q * values.len() as f64) as usize]
}

/// The loads L and H of the DualQ evaluation at 40 Mb/s: 10 and 100 requests per second, 0.72 and
/// 7.2 Mb/s. A mean of n sizes varies by 39 kB / sqrt(n), a count by its root.
#[test]
fn the_offered_load_is_that_of_the_distribution() {
    for (per_second, seconds) in [(10.0, 3000.0), (100.0, 600.0)] {
        let r = web(lab(seconds, 0.0).link("b", 400.0, "pfifo"), per_second, 5.0, json!({})).run();
        let sizes: Vec<f64> = r.0.transfers.iter().map(|t| t.bytes.unwrap() as f64).collect();
        let n = sizes.len() as f64;
        let wanted = per_second * seconds;
        agrees("requests", n, wanted, 4.0 / wanted.sqrt());
        agrees("mean size", mean(sizes.iter().copied()), 8975.0, 4.0 * 39e3 / 8975.0 / n.sqrt());
        agrees("median size", quantile(sizes.clone(), 0.5), 2155.0, 0.03);
        agrees("90 % size", quantile(sizes.clone(), 0.9), 12_700.0, 0.05);
        agrees("99 % size", quantile(sizes, 0.99), 136_500.0, 0.1);
        agrees("load", r.flow("web").goodput_mbps, 0.0718 * per_second, 0.1);
        // Times between arrivals: mean and deviation alike.
        let starts: Vec<f64> = r.0.transfers.iter().map(|t| t.start.as_secs_f64()).collect();
        let gaps: Vec<f64> = starts.windows(2).map(|w| w[1] - w[0]).collect();
        let gap = mean(gaps.iter().copied());
        let variance = mean(gaps.iter().map(|g| (g - gap) * (g - gap)));
        agrees("time between requests", gap, 1.0 / per_second, 0.03);
        agrees("its deviation", variance.sqrt(), 1.0 / per_second, 0.05);
    }
}

/// A request on an empty path: the handshake, the request, and windows of 10, 20, 40, ... at the rate
/// of the link, by hand. Frames need 1 ms each; the first one finds tokens. Exact as long as every segment
/// is acknowledged; once ACKs are for pairs, the first segment of a round is acknowledged a packet later.
#[test]
fn a_lone_request_takes_handshake_slow_start_and_serialisation() {
    let rtt = 100.0;
    // Segments, when the last one leaves after the first, and rounds that begin with an ACK for a pair.
    let by_hand = [
        (1, 0.0, 0.0),
        (2, 1.0, 0.0),
        (10, 9.0, 0.0),
        (11, 100.0, 0.0),
        (30, 119.0, 0.0),
        (31, 200.0, 0.0),
        (70, 239.0, 0.0),
        (71, 300.0, 1.0),
        (150, 379.0, 1.0),
        (309, 558.0, 2.0),
        (400, 649.0, 2.0),
    ];
    for (segments, last, pairs) in by_hand {
        let size = segments * MSS as u64;
        let sizes = json!({"size_min_bytes": size, "size_max_bytes": size});
        let l = lab(100.0, 0.0).bare_link("b", FRAME * 8e-3, "pfifo limit 10000");
        let r = web(l, 0.2, rtt, sizes).run();
        assert!(!r.0.transfers.is_empty());
        for pair in r.0.transfers.windows(2) {
            // Alone, if the one before was over.
            if pair[0].start + pair[0].completion >= pair[1].start {
                continue;
            }
            let t = &pair[1];
            // Two round trips until the first byte is there.
            let law = 2.0 * rtt + last;
            let late = pairs + 0.001;
            between(&format!("{segments} segments"), ms(t.completion) - law, -0.001, late);
            between("without handshake", ms(t.response.unwrap()) - (law - rtt), -0.001, late);
            between("what the table calls ideal", ms(t.ideal.unwrap()) - law, -0.001, 0.001);
            assert_eq!((t.bytes, t.retransmits), (Some(size), Some(0)));
        }
    }
}

/// The same for a flow with an end, whose sender opens the connection itself: half a round trip less.
#[test]
fn a_lone_flow_takes_half_a_round_trip_less() {
    let r = lab(5.0, 0.0)
        .with("start_jitter_ns", 0)
        .bare_link("b", FRAME * 8e-3, "pfifo")
        .tcp("f", "reno", 100.0, json!({"bytes": 30 * MSS as u64}))
        .run();
    let t = &r.0.transfers[0];
    assert_eq!((t.kind, r.0.transfers.len()), (TransferKind::Flow, 1));
    between("completion", ms(t.completion), 269.0 - 0.001, 270.001);
    between("what the table calls ideal", ms(t.ideal.unwrap()), 269.0 - 0.001, 269.0);
    assert_eq!(t.response.unwrap().0, t.completion.0 - 100_000_000);
}

fn busy(qdisc: &str, seed: u64) -> Result {
    let l = lab(30.0, 0.0).with("seed", seed).link("b", 40.0, qdisc);
    let l = l.tcp("long", "cubic", 10.0, json!({}));
    web(l, 100.0, 10.0, json!({"cc": "prague"})).run()
}

/// Common random numbers: the queue decides how long a request takes, not when it comes or what it is.
#[test]
fn every_queue_sees_the_same_requests() {
    let requests = |r: &Result| -> Vec<(u64, u64)> {
        of_kind(r, TransferKind::Request).iter().map(|t| (t.start.0, t.bytes.unwrap())).collect()
    };
    let fifo = busy("pfifo limit 300", 1);
    let first = requests(&fifo);
    let total = |r: &Result| u64::from(r.flow("web").transfers) + r.flow("web").unfinished;
    for qdisc in ["dualpi2", "fq_codel", "pfifo limit 20"] {
        let r = busy(qdisc, 1);
        let other = requests(&r);
        assert_eq!(total(&r), total(&fifo), "{qdisc}");
        let common = other.iter().filter(|x| first.binary_search(x).is_ok()).count();
        let slack = (r.flow("web").unfinished + fifo.flow("web").unfinished) as usize;
        assert!(common + slack >= first.len(), "{qdisc}: {common} of {}", first.len());
        assert!(common > 2500);
        // And no queue is quicker than none.
        for t in of_kind(&r, TransferKind::Request) {
            assert!(t.completion >= t.ideal.unwrap(), "{qdisc}: {t:?}");
        }
    }
    assert_ne!(requests(&busy("pfifo limit 300", 2)), first);
}

/// Neither a slow link nor losses of any packet, of the handshake too, make requests disappear: those
/// of a source that stops are over sooner or later, and what is not is counted.
#[test]
fn all_requests_end_or_are_counted() {
    let source = json!({"stop_ns": ns(20.0)});
    let count = |l: Lab| {
        let r = web(l, 50.0, 20.0, source.clone()).run();
        (u64::from(r.flow("web").transfers), r.flow("web").unfinished)
    };
    let (all, none) = count(lab(60.0, 0.0).link("b", 400.0, "pfifo"));
    assert_eq!(none, 0);
    let (done, open) = count(lab(21.0, 0.0).link("b", 1.0, "pfifo"));
    assert_eq!(done + open, all);
    assert!(open > 100 && done > 100, "{done} done, {open} open");
    let lossy = lab(600.0, 0.0).link("b", 20.0, "pfifo limit 20").impair("b", "both", "loss 10%");
    assert_eq!(count(lossy), (all, 0));
}

/// What begins in the warm-up does not count, but stands in the table.
#[test]
fn requests_of_the_warm_up_do_not_count() {
    let r = web(lab(20.0, 10.0).link("b", 40.0, "pfifo"), 50.0, 10.0, json!({})).run();
    let late = r.0.transfers.iter().filter(|t| t.start.as_secs_f64() >= 10.0).count();
    assert_eq!(r.flow("web").transfers as usize, late);
    assert!(r.0.transfers.len() > late + 300);
}

/// On an empty path: a message and a frame need half a round trip each, so an input is seen a round trip
/// later but for the wait for the next frame, which is uniform; a frame of n segments takes n - 1
/// serialisation times more once the window has opened.
#[test]
fn video_on_an_empty_path() {
    let (rtt, mbps) = (10.0, 100.0);
    let l = lab(60.0, 5.0).bare_link("b", mbps, "pfifo limit 10000");
    let r = video(l, 4.0, rtt, json!({})).run();
    let (frames, inputs) = (of_kind(&r, TransferKind::Frame), of_kind(&r, TransferKind::Input));
    agrees("frames", frames.len() as f64, 60.0 * 60.0, 0.002);
    agrees("inputs", inputs.len() as f64, 60.0 * 60.0, 0.06);
    let sizes: Vec<f64> = frames.iter().map(|t| t.bytes.unwrap() as f64).collect();
    let size = mean(sizes.iter().copied());
    agrees("mean frame", size, 4e6 / 8.0 / 60.0, 0.01);
    let variance = mean(sizes.iter().map(|s| (s - size) * (s - size)));
    agrees("spread of frames", variance.sqrt() / size, 0.15, 0.05);
    agrees("goodput", r.flow("video").goodput_mbps, 4.0, 0.01);
    let service = FRAME * 8e-3 / mbps;
    for t in frames.iter().filter(|t| t.start.as_secs_f64() > 1.0) {
        let n = (t.bytes.unwrap() as f64 / MSS).ceil();
        let law = rtt / 2.0 + (n - 1.0) * service;
        assert!((ms(t.completion) - law).abs() < service, "{t:?}: {law}");
    }
    let waits: Vec<f64> =
        inputs.iter().map(|t| ms(t.completion) - ms(t.response.unwrap())).collect();
    for t in &inputs {
        assert!((ms(t.response.unwrap()) - rtt).abs() < 1e-6, "{t:?}");
    }
    agrees("wait for a frame", mean(waits.iter().copied()), 1e3 / 120.0, 0.05);
    assert!(waits.iter().all(|w| (0.0..1e3 / 60.0 + 1e-6).contains(w)));
    let row = r.flow("video");
    agrees("view", row.view_ms_p50.unwrap(), rtt, 0.002);
    assert!(row.unfinished <= 1, "at most the last frame is on its way");
}

/// The window does not grow beyond what the application uses: twice the largest frame in slow start.
#[test]
fn an_application_limited_window_stays() {
    let r = video(lab(60.0, 0.0).link("b", 1000.0, "pfifo"), 4.0, 20.0, json!({})).run();
    let cwnd = r.flow_series("video", "cwnd_packets");
    let most = cwnd.iter().map(|(_, w)| *w).fold(0.0, f64::max);
    // 8.3 kB are 6 segments, the largest of 3600 frames is below 15 kB: two of them in a round trip.
    between("window", most, 10.0, 44.0);
}

/// After three seconds without a frame, more than ten timeouts, the window begins anew.
#[test]
fn an_idle_window_restarts() {
    let r = lab(40.0, 0.0)
        .with("sample_ns", 10_000_000)
        .link("b", 1000.0, "pfifo limit 10000")
        .tcp(
            "v",
            "reno",
            20.0,
            json!({"kind": "video", "rate_bps": 1_333_333, "interval_ns": ns(3.0), "spread": 0.0}),
        )
        .run();
    let frames = of_kind(&r, TransferKind::Frame);
    // 346 segments in windows of 10, 20, ... 160, 36: five round trips.
    for t in frames {
        between("frame after a pause", ms(t.completion), 5.0 * 20.0 + 10.0, 5.0 * 20.0 + 12.0);
    }
}

/// Frames that come too fast wait for each other, and the rest is counted.
#[test]
fn late_frames_queue() {
    let r = video(lab(20.0, 0.0).link("b", 5.0, "pfifo limit 50"), 10.0, 10.0, json!({})).run();
    let frames = of_kind(&r, TransferKind::Frame);
    assert!(
        frames.windows(2).all(|w| w[0].start + w[0].completion <= w[1].start + w[1].completion)
    );
    between("the last frame's latency, ms", ms(frames.last().unwrap().completion), 7e3, 11e3);
    between("unfinished", r.flow("video").unfinished as f64, 550.0, 700.0);
}

/// A message tells the whole state: what lost ones said is seen with the next.
#[test]
fn lost_messages_take_effect_with_the_next() {
    let l = lab(30.0, 0.0).link("b", 100.0, "pfifo").impair("b", "reverse", "loss 50%");
    let r = video(l, 4.0, 10.0, json!({})).run();
    let inputs = of_kind(&r, TransferKind::Input);
    // The handshake may need some tries.
    let seconds = 30.0 - inputs[0].start.as_secs_f64();
    agrees("inputs", inputs.len() as f64, 60.0 * seconds, 0.08);
    let late = inputs.iter().filter(|t| ms(t.response.unwrap()) > 10.1).count() as f64;
    agrees("told by a later message", late / inputs.len() as f64, 0.5, 0.1);
}
