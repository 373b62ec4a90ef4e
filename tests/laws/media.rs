//! Frames over RTP on whole paths: latency, late and lost frames, freezes, feedback.

use serde_json::{Value, json};

use crate::lab::{Lab, agrees, between, bps, lab, ns};

/// A media flow through all links that exist so far.
pub fn media(l: Lab, name: &str, cc: &str, mbps: f64, rtt_ms: f64, extra: Value) -> Lab {
    let mut keys = json!({"kind": "media", "rate_bps": bps(mbps), "interval_ns": ns(0.02)});
    for (key, value) in extra.as_object().expect("an object") {
        keys[key] = value.clone();
    }
    l.tcp(name, cc, rtt_ms, keys)
}

/// The two packets of a frame leave 1222 B / (1.5 * rate) apart; an idle link passes a packet on at once.
#[test]
fn latency_on_an_idle_link_is_pacing_and_path() {
    // 2400 bytes of media every 20 ms.
    let l = lab(5.0, 1.0).bare_link("b", 10.0, "pfifo limit 100");
    let r = media(l, "call", "none", 0.96, 30.0, json!({})).run();
    let row = r.flow("call");
    let pacing = 1222.0 * 8.0 / (1.5 * 0.96e6) * 1e3;
    let latency = 15.0 + pacing;
    for column in [row.frame_ms_p50, row.frame_ms_p99, row.frame_ms_max] {
        agrees("frame latency", column.unwrap(), latency, 1e-3 / latency);
    }
    agrees("sender's queue", row.sender_queue_ms_p99.unwrap(), pacing, 1e-3);
    assert_eq!((row.frames, row.freezes), (Some(199), Some(0)));
    assert_eq!((row.late_pct, row.lost_frames_pct), (Some(0.0), Some(0.0)));
    agrees("rate of the encoder", row.media_mbps.unwrap(), 0.96, 0.006);
    // A report per frame: 64 packets in 8 + 8 + 128 + 4 bytes, with 56 of headers.
    agrees("feedback", row.feedback_kbps.unwrap(), 204.0 * 8.0 * 50.0 / 1e3, 0.001);
    assert_eq!(row.media_change_pct, Some(0.0));
    agrees("RTT", row.rtt_ms_p50.unwrap(), 30.0, 0.05);
}

/// Of the 199 frames of the first law, the 50 before 2 s are missing.
#[test]
fn frames_begin_after_the_set_up() {
    let l = lab(5.0, 1.0).bare_link("b", 10.0, "pfifo limit 100");
    let r = media(l, "call", "none", 0.96, 30.0, json!({"setup_ns": ns(2.0)})).run();
    assert_eq!(r.flow("call").frames, Some(149));
}

/// libwebrtc's controllers take four round trips and 43 ms, the others nothing.
#[test]
fn libwebrtc_sets_a_call_up() {
    let delivered = |cc: &str, options: Value, setup: Option<f64>| {
        let l = lab(3.0, 0.0).bare_link("b", 10.0, "pfifo limit 100");
        let setup = setup.map(ns);
        let keys = json!({"options": options, "setup_ns": setup, "rate_start_bps": 300_000});
        let r = media(l, "call", cc, 2.0, 100.0, keys).run();
        (r.flow("call").frames, r.flow("call").media_mbps)
    };
    for (cc, options) in [("gcc", json!({})), ("scream", json!({"variant": "libwebrtc"}))] {
        let usual = delivered(cc, options.clone(), None);
        assert_eq!(usual, delivered(cc, options.clone(), Some(0.443)), "{cc}");
        assert_ne!(usual, delivered(cc, options, Some(0.0)), "{cc}");
    }
    for cc in ["scream", "nada", "prague", "none"] {
        assert_eq!(delivered(cc, json!({}), None), delivered(cc, json!({}), Some(0.0)), "{cc}");
    }
}

/// Beside CUBIC in a deep FIFO, libwebrtc's SCReAM falls to its lowest rate. Its encoder then pauses while frames have waited for half a
/// second, so they wait for a second at most; the draft's goes on.
#[test]
fn libwebrtc_pauses_the_encoder_while_frames_wait() {
    let wait = |options: Value| {
        let l = lab(40.0, 10.0).bare_link("b", 8.0, "pfifo limit 100").tcp(
            "rival",
            "cubic",
            20.0,
            json!({}),
        );
        let keys = json!({"options": options, "rate_min_bps": 30_000, "rate_start_bps": 300_000});
        let r = media(l, "call", "scream", 4.0, 20.0, keys).run();
        (r.flow("call").sender_queue_ms_p99.unwrap(), r.flow("call").frames.unwrap())
    };
    let (libwebrtc, draft) = (wait(json!({"variant": "libwebrtc"})), wait(json!({})));
    between("libwebrtc's frames wait, ms", libwebrtc.0, 300.0, 1000.0);
    assert!(libwebrtc.1 < draft.1, "{libwebrtc:?} and {draft:?}");
}

/// Alone on a fast link, libwebrtc's SCReAM makes its highest rate of media, and GCC as much as is left of it below
/// headers (1200 of 1250 B), both but for the 2 % by which VP8 stays below its target.
#[test]
fn the_highest_rate_holds_headers_in_gcc() {
    let rate = |cc: &str, options: Value| {
        let l = lab(40.0, 20.0).bare_link("b", 50.0, "pfifo limit 100");
        let keys = json!({"options": options, "rate_start_bps": 1_000_000});
        media(l, "call", cc, 4.0, 20.0, keys).run().flow("call").media_mbps.unwrap()
    };
    between("gcc", rate("gcc", json!({})), 0.97 * 4.0 * 1200.0 / 1250.0, 4.0 * 1200.0 / 1250.0);
    between("scream", rate("scream", json!({"variant": "libwebrtc"})), 0.97 * 4.0, 4.0);
}

/// What the link does not carry for a second waits and comes late: one freeze of a second, at most one frame
/// and the time in which the queue empties.
#[test]
fn an_outage_is_one_freeze() {
    let mut l = lab(10.0, 1.0).bare_link("b", 10.0, "pfifo limit 1000");
    let steps = json!([[0, 10_000_000], [ns(4.0), 0], [ns(5.0), 10_000_000]]);
    l.0["links"][0]["rate_trace"] = json!({"file": "outage", "steps": steps});
    let r = media(l, "call", "none", 0.96, 30.0, json!({})).run();
    let row = r.flow("call");
    assert_eq!((row.freezes, row.lost_frames_pct), (Some(1), Some(0.0)));
    between("frozen", row.freeze_s.unwrap(), 0.99, 1.04);
    // All frames of the outage but the last four, and those after it that wait for the queue to empty (0.1 s).
    let late = row.late_pct.unwrap() / 100.0 * row.frames.unwrap() as f64;
    between("late frames", late, 46.0, 54.0);
}

/// Each packet is lost with 10 %: a frame of two packets survives with 0.81.
#[test]
fn a_frame_that_misses_a_packet_is_lost() {
    let l = lab(60.0, 0.0).link("b", 10.0, "pfifo limit 100").impair("b", "forward", "loss 10%");
    let r = media(l, "call", "none", 0.96, 30.0, json!({})).run();
    let row = r.flow("call");
    between("lost frames", row.lost_frames_pct.unwrap(), 17.0, 21.0);
    assert_eq!(row.late_pct, Some(0.0));
}

/// The same, and the receiver asks again. A first packet is missed when the second comes, and repeated a round trip later;
/// a second one when the next frame comes. Half of these frames also miss 19 %; what is lost twice comes too late.
#[test]
fn what_is_asked_for_again_comes_a_round_trip_later() {
    let l = lab(60.0, 0.0).link("b", 10.0, "pfifo limit 100").impair("b", "forward", "loss 10%");
    let r = media(l, "call", "none", 0.96, 30.0, json!({"repair": "nack"})).run();
    let row = r.flow("call");
    agrees(
        "median",
        row.frame_ms_p50.unwrap(),
        15.0 + 1222.0 * 8.0 / (1.5 * 0.96e6) * 1e3 + 1.0,
        0.05,
    );
    assert_eq!(row.lost_frames_pct, Some(0.0));
    // Each of two packets, twice lost; or the first once and the next request or repeat of it.
    between("late frames", row.late_pct.unwrap(), 1.3, 3.0);
    agrees("repeats", row.retransmits as f64 / row.sent_packets as f64, 0.1, 0.15);
}

/// As much parity as media after losses of a tenth: most frames are whole without a repeat, which takes 60 ms. The encoder
/// gets a half of the rate, and parity follows every second frame.
#[test]
fn parity_makes_frames_whole_at_once() {
    let run = |repair: &str| {
        let l =
            lab(60.0, 2.0).link("b", 20.0, "pfifo limit 100").impair("b", "forward", "loss 10%");
        let r = media(l, "call", "none", 1.92, 60.0, json!({"repair": repair})).run();
        r.flow("call").clone()
    };
    let (asked, parity) = (run("nack"), run("nack+fec"));
    between("frames of all their packets", asked.frame_ms_p95.unwrap(), 85.0, 135.0);
    between("frames with parity", parity.frame_ms_p95.unwrap(), 50.0, 80.0);
    between("late without", asked.late_pct.unwrap(), 10.0, 30.0);
    between("late with parity", parity.late_pct.unwrap(), 0.0, 1.0);
    between("encoder", parity.media_mbps.unwrap() / asked.media_mbps.unwrap(), 0.5, 0.65);
    agrees("rate on the wire", parity.rate_mbps, asked.rate_mbps, 0.1);
}

/// Controllers of libwebrtc have its encoder where the flow names none, the others frames that are all alike.
#[test]
fn an_encoder_comes_with_the_controller() {
    let run = |cc: &str, mut keys: Value, encoder: Option<&str>| {
        if let Some(name) = encoder {
            keys["encoder"] = json!(name);
        }
        let l = lab(20.0, 5.0).link("b", 1.0, "pfifo limit 20");
        let row = media(l, "call", cc, 4.0, 30.0, keys).run().flow("call").clone();
        (row.media_mbps, row.frame_ms_p99)
    };
    for (cc, keys, own, other) in [
        ("gcc", json!({}), "vp8", "even"),
        ("gcc", json!({"options": {"loss": "draft"}}), "even", "vp8"),
        ("scream", json!({"options": {"variant": "libwebrtc"}}), "vp8", "even"),
        ("scream", json!({}), "even", "vp8"),
    ] {
        let usual = run(cc, keys.clone(), None);
        assert_eq!(usual, run(cc, keys.clone(), Some(own)), "{cc} {keys}");
        assert_ne!(usual, run(cc, keys.clone(), Some(other)), "{cc} {keys}");
    }
}

/// Feedback that crosses a full link comes late and does not change what the viewer sees.
#[test]
fn feedback_crosses_the_way_back() {
    let both = |back: Value| {
        let l = lab(10.0, 2.0).link("b", 10.0, "pfifo limit 100");
        let l = media(l, "call", "none", 0.96, 30.0, back).link("up", 1.0, "pfifo limit 50");
        l.tcp("upload", "cubic", 20.0, json!({"path": ["up"]})).run()
    };
    let (free, full) = (both(json!({})), both(json!({"reverse_path": ["up"]})));
    let rtt = |r: &crate::lab::Result| r.flow("call").rtt_ms_p50.unwrap();
    agrees("without", rtt(&free), 30.0, 0.1);
    between("behind the upload", rtt(&full), 200.0, 700.0);
    assert_eq!(free.flow("call").frame_ms_p99, full.flow("call").frame_ms_p99);
}

/// 20 kb/s of audio are packets of 50 B every 20 ms.
#[test]
fn audio_goes_beside_the_frames() {
    let l = lab(10.0, 0.0).link("b", 10.0, "pfifo limit 100");
    let r = media(l, "call", "none", 0.96, 30.0, json!({"audio_bps": 20_000})).run();
    let row = r.flow("call");
    agrees("packets", row.sent_packets as f64, 10.0 * (100.0 + 50.0), 0.01);
    agrees("rate", row.rate_mbps, (2.0 * 1264.0 + 114.0) * 8.0 * 50.0 * 1e-6, 0.01);
}

/// The rate changes while it runs, from the next frame but one on.
#[test]
fn the_highest_rate_can_change() {
    let l = lab(10.0, 0.0).link("b", 10.0, "pfifo limit 100");
    let mut l = media(l, "call", "none", 0.96, 30.0, json!({}));
    l.0["at"] = json!([{"time_ns": ns(5.0), "flow": "call", "rate_bps": 1_920_000}]);
    let row = l.run().flow("call").clone();
    agrees("rate of the encoder", row.media_mbps.unwrap(), 1.5 * 0.96, 0.01);
}

/// Marks are told by RFC 8888 only, and a path that loses the codepoint ends ECT.
#[test]
fn a_path_that_bleaches_ends_ect() {
    let bleach =
        json!([{"flow": "call", "where": "before", "link": "b", "from": "ect1", "to": "not-ect"}]);
    let l = lab(10.0, 2.0).link("b", 1.0, "dualpi2");
    let flow = |l| media(l, "call", "none", 1.2, 30.0, json!({"ecn": "ect1"})).run();
    assert!(flow(l.clone()).flow("call").ce_pct.unwrap() > 50.0);
    assert_eq!(flow(l.with("rewrites", bleach)).flow("call").ce_pct, Some(0.0));
}

/// Reports without an ECN field tell of no mark, so packets are not ECT(1) unless the file says so.
#[test]
fn a_controller_without_news_of_marks_asks_for_none() {
    let marks = |keys: Value| {
        let l = lab(10.0, 2.0).link("b", 5.0, "dualpi2");
        media(l, "call", "scream", 10.0, 30.0, keys).run().flow("call").ce_pct.unwrap()
    };
    assert!(marks(json!({})) > 0.0);
    assert_eq!(marks(json!({"feedback": "twcc"})), 0.0);
    assert!(marks(json!({"feedback": "twcc", "ecn": "ect1"})) > 0.0);
}

/// Ericsson's trace of SCReAM through DualPI2: 50 Mb/s, 25 ms, even frames at 50 a second, RTP packets of 1200 B
/// (EricssonResearch/scream, `trace-dualpi-50Mbps-25ms-l4s`).
fn trace(options: Value) -> Lab {
    let mut all = json!({"mss": "1200", "initial_window": "12500"});
    for (key, value) in options.as_object().expect("an object") {
        all[key] = value.clone();
    }
    let keys = json!({"options": all, "packet_bytes": 1242, "rate_start_bps": 1_000_000});
    let l = lab(20.0, 5.0).link("b", 50.0, "dualpi2");
    media(l, "call", "scream", 100.0, 25.0, keys)
}

/// Its figures from 5 s on: 38.4 Mb/s of RTP, one-way delays of 1.3 ms (median) and 2.7 ms (99 %) above the least,
/// 5.8 % of marks, no loss, frames of 16.5 ms from the first to the last byte. Its code had gains of 1/32 for alpha.
/// The draft paces a frame at 1.5 times its rate, which fills the link at 33 Mb/s; more makes a queue in each frame.
#[test]
fn scream_in_dualpi2_is_ericssons_trace() {
    let r = trace(json!({"alpha_up": "0.03125", "alpha_down": "0.03125"})).run();
    let row = r.flow("call");
    agrees("rate of RTP", row.rate_mbps * 1200.0 / 1242.0, 38.4, 0.1);
    between("queue, median", row.sojourn_ms_p50.unwrap(), 0.0, 2.0);
    between("queue, 99 %", row.sojourn_ms_p99.unwrap(), 0.0, 4.5);
    between("CE", row.ce_pct.unwrap(), 2.0, 12.0);
    assert_eq!((row.lost_packets, row.late_pct), (0, Some(0.0)));
    between("frames", row.frame_ms_p50.unwrap() - 12.5, 14.0, 19.0);
    assert_eq!(row.cc, "scream");
}

/// The same with the draft's gains. They hold a window of 110 segments with less than 2 % of marks: a window times marks of
/// about 1.0 to 1.6 is their law, where equal gains need 2.3 (`the_window_under_marks`).
#[test]
fn scream_of_the_draft_in_ericssons_set_up() {
    let r = trace(json!({})).run();
    let row = r.flow("call");
    agrees("rate of RTP", row.rate_mbps * 1200.0 / 1242.0, 38.4, 0.1);
    between("queue, median", row.sojourn_ms_p50.unwrap(), 0.0, 2.0);
    between("queue, 99 %", row.sojourn_ms_p99.unwrap(), 0.0, 4.5);
    between("CE", row.ce_pct.unwrap(), 0.9, 2.0);
    assert_eq!((row.lost_packets, row.late_pct), (0, Some(0.0)));
    between("frames", row.frame_ms_p50.unwrap() - 12.5, 14.0, 19.0);
}

/// The trace's window, kB: 12.5 until 0.25 s, then this. Ericsson's smoothed RTT begins at 50 ms. With 5 % instead of 2 % the
/// window is far above.
#[test]
fn scream_ramps_up_as_ericssons_trace() {
    let window = |options: Value| {
        let r = trace(options).with("sample_ns", ns(0.025)).run();
        let marked =
            r.flow_series("call", "alpha").iter().find(|(_, alpha)| *alpha > 0.0).unwrap().0;
        (r.flow_series("call", "ref_wnd_bytes"), marked + 0.25)
    };
    let at = |series: &[(f64, f64)], t: f64| {
        series.iter().find(|(s, _)| (s + 0.25 - t).abs() < 1e-6).expect("a sample").1 * 1e-3
    };
    let (two, marked) = window(json!({"initial_srtt": "50ms"}));
    let (five, _) = window(json!({"initial_srtt": "50ms", "mul_increase": "0.05"}));
    for (t, wanted) in [(0.8, 30.1), (1.2, 49.5), (1.6, 76.0), (2.0, 113.0)] {
        agrees("window, kB", at(&two, t), wanted, 0.25);
    }
    between("first reaction", marked, 1.9, 2.9);
    assert!(at(&five, 1.2) > 1.25 * 49.5, "{}", at(&five, 1.2));
}

/// From 12.5 kB the window grows by a segment and 2 % per round trip, as far as the media fill it (82 %).
#[test]
fn scream_ramps_up_by_a_segment_and_2_percent() {
    let r = trace(json!({})).with("sample_ns", ns(0.025)).run();
    let window = r.flow_series("call", "ref_wnd_bytes");
    let at =
        |t: f64| window.iter().find(|(s, _)| (s - t).abs() < 1e-6).expect("a sample").1 / 1200.0;
    for from in [0.5, 0.75, 1.0] {
        let law = at(from) + 10.0 * 0.82 * (1.0 + 0.02 * at(from + 0.125));
        agrees("window, segments", at(from + 0.25), law, 0.05);
    }
}

/// A frame that is paced above the link's rate makes a queue of more than the step, so the pacing rate sets the media's.
#[test]
fn pacing_sets_the_rate_in_dualpi2() {
    for pacing in [1.25, 1.5] {
        let row = trace(json!({"pacing": format!("{pacing}")})).run().flow("call").clone();
        between("pacing rate over the link's", row.rate_mbps * pacing / 50.0, 1.0, 1.12);
    }
}

/// Ericsson's program with timers that are 200 us late has the rate, the marks and the frames of its published trace; with exact ones
/// it paces too fast for that rate.
#[test]
fn late_timers_make_ericssons_trace() {
    let with = |timer: &str| {
        let gains = json!({"variant": "ericsson", "timer": timer, "mul_increase": "0.02",
                           "alpha_up": "0.03125", "alpha_down": "0.03125"});
        trace(gains).run().flow("call").clone()
    };
    let rtp = |rate_mbps: f64| rate_mbps * 1200.0 / 1242.0;
    let row = with("200us");
    agrees("rate of RTP", rtp(row.rate_mbps), 38.4, 0.1);
    between("queue, 99 %", row.sojourn_ms_p99.unwrap(), 0.0, 4.5);
    between("CE", row.ce_pct.unwrap(), 3.0, 8.0);
    between("frames", row.frame_ms_p50.unwrap() - 12.5, 14.0, 19.0);
    assert!(rtp(with("0us").rate_mbps) < 0.85 * 38.4);
}

/// Pacing sets the rate of Ericsson's program, too, whose pacer sleeps 50 us less after each burst of half a millisecond.
#[test]
fn pacing_of_ericssons_program_sets_the_rate_in_dualpi2() {
    for pacing in [1.25, 1.5] {
        let options = json!({"variant": "ericsson", "pacing": format!("{pacing}")});
        let row = trace(options).run().flow("call").clone();
        let each = 1200.0 * 8.0 / (row.rate_mbps * 1200.0 / 1242.0 * pacing);
        let burst = ((500.0 / each).floor() + 1.0) * each;
        let paced = row.rate_mbps * pacing * burst / (burst - 50.0);
        between("pacing rate over the link's", paced / 50.0, 0.95, 1.1);
    }
}

/// Without marks the queue stays between a half and the whole of the target of 60 ms.
#[test]
fn scream_without_marks_keeps_a_short_queue() {
    let l = lab(60.0, 10.0).link("b", 20.0, "pfifo limit 2000");
    let r = media(l, "call", "scream", 40.0, 40.0, json!({"ecn": "not-ect"})).run();
    let (row, queue) = (r.flow("call"), r.queue("b", "all"));
    between("mean queue", queue.sojourn_ms_mean.unwrap(), 0.0, 60.0);
    between("queue, 99 %", queue.sojourn_ms_p99.unwrap(), 0.0, 120.0);
    between("utilisation", queue.utilisation, 0.75, 1.0);
    assert_eq!(row.lost_packets, 0);
}

/// Next to CUBIC, which fills that queue for a second, it goes on at its lowest rate.
#[test]
fn scream_goes_on_beside_cubic() {
    let l = lab(60.0, 10.0).link("b", 20.0, "pfifo limit 2000");
    let l = media(l, "call", "scream", 40.0, 40.0, json!({"ecn": "not-ect"}));
    let r = l.tcp("upload", "cubic", 40.0, json!({})).run();
    between("rate", r.flow("call").media_mbps.unwrap(), 0.15, 10.0);
}

/// In a queue of 60 ms compensation for competing flows gives more than half as much again. In long queues CUBIC keeps
/// more than the rule's target of one mean and one deviation allows.
#[test]
fn compensation_helps_in_a_short_queue() {
    let rate = |competing: &str| {
        let l = lab(60.0, 10.0).link("b", 20.0, "pfifo limit 100");
        let keys = json!({"ecn": "not-ect", "options": {"competing": competing}});
        let l = media(l, "call", "scream", 40.0, 40.0, keys);
        l.tcp("upload", "cubic", 40.0, json!({})).run().flow("call").media_mbps.unwrap()
    };
    let (without, with) = (rate("off"), rate("on"));
    assert!(with > 1.5 * without, "{with} and {without}");
}

/// RFC 8867, 5.1: one call of at most 1.5 Mb/s over a capacity that changes, in a drop-tail queue of 300 ms.
fn varying(cc: &str) -> crate::lab::Result {
    let mut l = lab(100.0, 0.0).bare_link("b", 1.0, "bfifo limit 37500b");
    let steps =
        json!([[0, 1_000_000], [ns(40.0), 2_500_000], [ns(60.0), 600_000], [ns(80.0), 1_000_000]]);
    l.0["links"][0]["rate_trace"] = json!({"file": "steps", "steps": steps});
    let keys = json!({"rate_start_bps": 150_000, "interval_ns": ns(1.0 / 30.0)});
    media(l, "call", cc, 1.5, 100.0, keys).with("sample_ns", ns(0.1)).run()
}

/// At least 80 % of the capacity (or of 1.5 Mb/s) 30 s after the start and 20 s after each step up, and after the
/// step down a target below the capacity within a second and a queue below 100 ms within six.
fn follows_the_capacity(cc: &str) {
    let r = varying(cc);
    let target = r.flow_series("call", "target_mbps");
    let most = |from: f64, to: f64| {
        let within = target.iter().filter(|(t, _)| *t >= from && *t <= to);
        within.fold(0.0_f64, |most, (_, x)| most.max(*x))
    };
    let mean = |from: f64, to: f64| {
        let within: Vec<_> =
            target.iter().filter(|(t, _)| *t >= from && *t < to).map(|(_, x)| *x).collect();
        within.iter().sum::<f64>() / within.len() as f64
    };
    for (from, to, mbps) in [(0.0, 30.0, 0.8), (40.0, 60.0, 1.2), (80.0, 100.0, 0.8)] {
        between(&format!("{cc}: reached from {from} s on"), most(from, to), mbps, 1.5);
    }
    for (from, mbps) in [(30.0, 0.8), (55.0, 1.2), (70.0, 0.48)] {
        between(&format!("{cc}: mean from {from} s on"), mean(from, from + 5.0), mbps, 1.5);
    }
    between("after the step down", target.iter().find(|(t, _)| *t >= 61.05).unwrap().1, 0.1, 0.62);
    let queue = r.queue_series("b", "all", "sojourn_ms");
    let late = queue.iter().filter(|(t, _)| *t >= 66.0 && *t <= 80.0);
    between("queue, ms", late.fold(0.0_f64, |most, (_, q)| most.max(*q)), 0.0, 100.0);
}

#[test]
fn gcc_follows_the_capacity() {
    follows_the_capacity("gcc");
}

#[test]
fn nada_follows_the_capacity() {
    follows_the_capacity("nada");
}

/// A start of 300 kb/s on 20 Mb/s: probes reach half of it in a second. Without them 8 % a second take 44 s.
#[test]
fn gcc_probes_at_the_start() {
    let reached = |probing: &str| {
        let l = lab(20.0, 0.0).link("b", 20.0, "pfifo limit 200");
        let keys = json!({"rate_start_bps": 300_000, "options": {"probing": probing}});
        let r = media(l, "call", "gcc", 40.0, 25.0, keys).with("sample_ns", ns(0.1)).run();
        let target = r.flow_series("call", "target_mbps");
        target.iter().find(|(_, x)| *x > 10.0).map_or(f64::INFINITY, |(t, _)| *t)
    };
    between("with", reached("on"), 0.0, 1.5);
    between("without", reached("off"), 20.0, f64::INFINITY);
}

/// One flow of at most 30 Mb/s over 20: x = 10 * 30/20 = 15 ms of queue. A second flow gets as much, less what the
/// queue of the first hides in its base delay.
#[test]
fn nada_at_rest() {
    let flow = |l: Lab, name: &str, start: f64| {
        media(l, name, "nada", 30.0, 40.0, json!({"start_ns": ns(start)}))
    };
    let l = lab(100.0, 40.0).link("b", 20.0, "pfifo limit 1000");
    let r = flow(l.clone(), "call", 0.0).run();
    between("queue", r.queue("b", "all").sojourn_ms_mean.unwrap(), 12.0, 18.0);
    let r = flow(
        flow(l.with("duration_ns", ns(200.0)).with("warmup_ns", ns(100.0)), "call", 0.0),
        "other",
        0.01,
    )
    .run();
    agrees("two flows", r.flow("call").rate_mbps / r.flow("other").rate_mbps, 1.0, 0.15);
}

/// Marks that do not depend on the queue: 2 (p / 1 %)^2 = 10 * 30/R, so 2.74 % hold 20 Mb/s.
#[test]
fn nada_under_marks() {
    let l = lab(300.0, 150.0).link("b", 100.0, "pfifo limit 1000").impair(
        "b",
        "forward",
        "loss 2.74% ecn",
    );
    let r = media(l, "call", "nada", 30.0, 40.0, json!({"ecn": "ect0"})).run();
    agrees("rate", r.flow("call").goodput_mbps, 20.0, 0.08);
}

/// RFC 8867, 5.4: the rates of three calls that start 20 s apart are within a factor of three of each other.
#[test]
fn three_calls_share_a_link() {
    for cc in ["gcc", "nada", "scream"] {
        let mut l = lab(120.0, 80.0).link("b", 3.5, "bfifo limit 131250b");
        for (name, start) in [("a", 0.0), ("b", 20.0), ("c", 40.0)] {
            let keys = json!({"rate_start_bps": 150_000, "interval_ns": ns(1.0 / 30.0), "start_ns": ns(start)});
            l = media(l, name, cc, 1.5, 100.0, keys);
        }
        let r = l.run();
        let rates = ["a", "b", "c"].map(|name| r.flow(name).media_mbps.unwrap());
        let (least, most) =
            rates.iter().fold((9.0_f64, 0.0_f64), |(a, b), x| (a.min(*x), b.max(*x)));
        between(cc, most / least, 1.0, 3.0);
    }
}

/// RFC 8867, 5.5: with round trips of 20 to 300 ms nobody gets less than the lowest rate.
#[test]
fn calls_with_other_round_trips_go_on() {
    for cc in ["gcc", "nada", "scream"] {
        let mut l = lab(300.0, 260.0).link("b", 4.0, "bfifo limit 150000b");
        let rtts = [20.0, 50.0, 100.0, 200.0, 300.0];
        for (i, rtt) in rtts.into_iter().enumerate() {
            let keys = json!({"rate_start_bps": 150_000, "interval_ns": ns(1.0 / 30.0), "start_ns": ns(10.0 * i as f64)});
            l = media(l, &format!("{rtt}"), cc, 1.5, rtt, keys);
        }
        let r = l.run();
        for rtt in rtts {
            between(cc, r.flow(&format!("{rtt}")).media_mbps.unwrap(), 0.149, 1.5);
        }
    }
}

/// Ten seconds without frames are neither a freeze nor lost frames, and the call goes on after them.
#[test]
fn a_pause_is_no_freeze() {
    let l = lab(40.0, 0.0).link("b", 10.0, "pfifo limit 100");
    let mut l = media(l, "call", "scream", 1.0, 30.0, json!({}));
    l.0["at"] = json!([{"time_ns": ns(15.0), "flow": "call", "pause": true},
                       {"time_ns": ns(25.0), "flow": "call", "pause": false}]);
    let r = l.run();
    let row = r.flow("call");
    assert_eq!((row.freezes, row.lost_frames_pct), (Some(0), Some(0.0)));
    agrees("frames", row.frames.unwrap() as f64, 30.0 * 50.0, 0.005);
    let target = r.flow_series("call", "target_mbps");
    agrees("target at the end", target.last().unwrap().1, 1.0, 0.1);
}

/// UDP Prague's rate drives the encoder: it fills its part of the link and keeps the queue of an L4S flow.
#[test]
fn prague_for_media_has_its_part_of_an_l4s_queue() {
    let l = lab(20.0, 5.0).link("b", 50.0, "dualpi2");
    let r = media(l, "call", "prague", 100.0, 25.0, json!({})).run();
    let row = r.flow("call");
    between("media over the link", row.media_mbps.unwrap() / 50.0, 0.68, 0.9);
    between("queue, 99 %", row.sojourn_ms_p99.unwrap(), 0.0, 4.0);
    between("CE", row.ce_pct.unwrap(), 0.5, 15.0);
    assert_eq!((row.lost_packets, row.late_pct, row.lost_frames_pct), (0, Some(0.0), Some(0.0)));
    // A frame of 0.8 of the rate leaves in 0.8 of its interval of 20 ms.
    between("frames", row.frame_ms_p50.unwrap() - 12.5, 14.0, 19.0);
}

/// Next to CUBIC in a deep FIFO losses halve it as they halve CUBIC, and it goes on.
#[test]
fn prague_for_media_shares_a_fifo_with_cubic() {
    let l = lab(60.0, 20.0).link("b", 20.0, "pfifo limit 100");
    let l = media(l, "call", "prague", 40.0, 40.0, json!({}));
    let r = l.tcp("upload", "cubic", 40.0, json!({})).run();
    let (call, upload) = (r.flow("call").rate_mbps, r.flow("upload").rate_mbps);
    between("call over upload", call / upload, 0.1, 2.0);
}

/// Nothing piles up at the sender: what the encoder makes leaves before the next frame, at any number of packets in one.
#[test]
fn prague_for_media_sends_what_the_encoder_makes() {
    for (mbps, interval) in [(2.0, 0.02), (20.0, 0.02), (20.0, 0.033)] {
        let l = lab(30.0, 10.0).link("b", mbps, "dualpi2");
        let l = media(l, "call", "prague", 40.0, 25.0, json!({"interval_ns": ns(interval)}));
        let r = l.tcp("upload", "prague", 25.0, json!({})).run();
        let row = r.flow("call");
        between("sender's queue, ms", row.sender_queue_ms_p99.unwrap(), 0.0, 2e3 * interval);
        between("late or lost, %", row.late_pct.unwrap() + row.lost_frames_pct.unwrap(), 0.0, 1.0);
    }
}
