//! What a receiver lets be outstanding.

use serde_json::json;

use crate::lab::{between, bps, lab};

const RTT: f64 = 100.0;
const SEGMENT: f64 = 1448.0;

/// With nothing lost the rate is the window per round trip, whoever sends, and no queue forms; a
/// window beyond what path and queue hold changes nothing.
#[test]
fn it_caps_the_rate_at_a_window_per_round_trip() {
    for cc in ["reno", "cubic", "bbr"] {
        let rate = |window: u64| {
            let options =
                if window > 0 { json!({"receive_window_bytes": window}) } else { json!({}) };
            let r =
                lab(20.0, 5.0).link("b", 50.0, "pfifo limit 500").tcp("f", cc, RTT, options).run();
            let f = r.flow("f").clone();
            (f.goodput_mbps, f.rtt_ms_mean.unwrap(), f.sent_packets)
        };
        for segments in [10.0, 100.0, 200.0] {
            let (mbps, rtt, _) = rate((segments * SEGMENT) as u64 + 100);
            let law = segments * SEGMENT * 8.0 / (RTT * 1e3);
            // A segment needs 0.24 ms besides; the last of a window may wait for a delayed ACK.
            between(&format!("{cc}, {segments} segments: rate over law"), mbps / law, 0.97, 1.005);
            between(&format!("{cc}, {segments} segments: RTT"), rtt, RTT, RTT + 3.0);
        }
        assert_eq!(rate(10_000_000), rate(0), "{cc}: a window that never fills");
    }
}

/// Segments behind a hole count, too: while all packets of one instant are lost, a window and no more
/// leaves, and then only what is sent again. Without the window the sender goes on.
#[test]
fn what_waits_behind_a_hole_takes_room() {
    let sent = |window: Option<u64>| {
        let mut options = json!({"pace_bps": bps(12.0)});
        if let Some(window) = window {
            options["receive_window_bytes"] = json!(window);
        }
        // Nothing gets through for a second: several round trips, of which the first sees no timeout.
        let r = lab(1.25, 1.0)
            .link("b", 1000.0, "pfifo")
            .tcp("f", "cubic", RTT, options)
            .at(1.0, "b", json!({"qdisc": "pfifo limit 0"}))
            .run();
        r.flow("f").dropped_packets as f64
    };
    // 99 segments are under way at 12 Mb/s; what gets through before is acknowledged and makes room.
    let window = 120.0;
    let limited = sent(Some((window * SEGMENT) as u64 + 100));
    between("lost of a window", limited, window - 1.0, window + 1.0);
    let unlimited = sent(None);
    assert!(unlimited > limited + 20.0, "{unlimited} without, {limited} with a window of {window}");
}

/// The application reads on while data wait behind a hole, and what comes out of a filled one counts
/// against the whole round trip: the window is soon as large as it gets, and ACKs are delayed again.
/// Linux 7.2: the window ends at 360 kB after 1.8 s, and 125 ACKs answer 197 packets from 3 to 5 s.
#[test]
fn a_filled_hole_is_not_taken_for_the_rate() {
    let r = lab(8.0, 3.0)
        .link("b", 1.143, "codel")
        .tcp("f", "cubic", 10.0, json!({"reverse_path": ["back"]}))
        .link("back", 100.0, "pfifo")
        .run();
    let acks = r.queue("back", "all").arrived_packets as f64;
    between("ACKs per packet", acks / r.flow("f").sent_packets as f64, 0.55, 0.7);
}
