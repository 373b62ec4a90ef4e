//! UDP Prague on whole paths (laws.md 1, L4STeam/udp_prague).

use serde_json::{Value, json};

use crate::lab::{Lab, agrees, between, lab, mean_since};

/// A UDP Prague flow through all links that exist so far.
fn udp_prague(lab: Lab, name: &str, rtt_ms: f64, extra: Value) -> Lab {
    let mut flow = json!({"kind": "udp-prague", "cc": null});
    for (k, v) in extra.as_object().expect("an object") {
        flow[k] = v.clone();
    }
    lab.tcp(name, "prague", rtt_ms, flow)
}

/// Beside TCP Prague it gets the same rate at all RTTs up to 25 ms: its packets have 1400 bytes where
/// TCP's have 1448, so some less. Marks are random here, coupled to what CUBIC needs.
#[test]
fn beside_tcp_prague_it_gets_the_same_rate() {
    for rtt_ms in [5.0, 10.0, 25.0] {
        let base = lab(120.0, 40.0)
            .link("l", 50.0, "dualpi2")
            .tcp("cubic", "cubic", 15.0, json!({"count": 2}))
            .tcp("tcp", "prague", rtt_ms, json!({}));
        let r = udp_prague(base, "udp", rtt_ms, json!({})).run();
        assert_eq!(r.flow("udp").cc, "udp-prague");
        let ratio = r.flow("udp").rate_mbps / r.flow("tcp").rate_mbps;
        between(&format!("UDP over TCP Prague, {rtt_ms} ms"), ratio, 0.85, 1.05);
        between("use of the link", r.queue("l", "all").utilisation, 0.98, 1.001);
    }
}

/// At the step the phases of one flow each lock, as those of two TCP Pragues do: any ratio from 0.5 to
/// 1.5 lasts. Three of each come closer.
#[test]
fn at_the_step_several_share_about_equally_with_tcp_prague() {
    for rtt_ms in [5.0, 10.0, 25.0] {
        let base = lab(90.0, 30.0)
            .with("start_jitter_ns", 100_000_000)
            .link("l", 50.0, "dualpi2")
            .tcp("tcp", "prague", rtt_ms, json!({"count": 3}));
        let r = udp_prague(base, "udp", rtt_ms, json!({"count": 3})).run();
        let ratio = r.flow("udp").rate_mbps / r.flow("tcp").rate_mbps;
        between(&format!("UDP over TCP Prague, {rtt_ms} ms"), ratio, 0.7, 1.4);
        between("use of the link", r.queue("l", "all").utilisation, 0.95, 1.001);
        between("queue, ms", r.queue("l", "L").sojourn_ms_mean.unwrap(), 0.0, 1.5);
    }
}

/// Flows at 5 and at 20 ms get the same rate.
#[test]
fn up_to_25_ms_the_rtt_does_not_matter() {
    let base = lab(90.0, 30.0).link("l", 40.0, "dualpi2");
    let base = udp_prague(base, "near", 5.0, json!({}));
    let r = udp_prague(base, "far", 20.0, json!({})).run();
    let ratio = r.flow("near").rate_mbps / r.flow("far").rate_mbps;
    between("near over far", ratio, 0.75, 1.3);
}

/// In a queue that an unresponsive load holds at a constant p', r = c (1-p)/p MTU / 25 ms.
#[test]
fn the_rate_follows_the_coupled_probability() {
    let base = lab(120.0, 40.0).link("l", 100.0, "dualpi2");
    let base = base.tcp("classic", "cubic", 15.0, json!({"count": 4}));
    let r = udp_prague(base, "udp", 10.0, json!({})).run();
    let f = r.flow("udp");
    let p = f.ce_pct.unwrap() / 100.0;
    // Independent marks at most once per 25 ms: between 2, one mark for all, and 1 + sqrt 3.
    let unit = (1.0 - p) / p * 1442.0 * 8e-6 / 0.025;
    between("rate over (1-p)/p packets per 25 ms", f.rate_mbps / unit, 1.9, 2.9);
}

/// Two packets per virtual RTT remain in flight however low the rate: no drops, no unresponsiveness.
#[test]
fn it_works_at_rates_below_a_full_packet_per_rtt() {
    for (mbps, rtt_ms) in [(0.5, 5.0), (0.2, 5.0)] {
        let base = lab(120.0, 30.0).link("l", mbps, "dualpi2 step_thresh 15ms");
        let r = udp_prague(base, "f", rtt_ms, json!({})).run();
        let f = r.flow("f");
        between("use of the link", r.queue("l", "all").utilisation, 0.8, 1.001);
        // Growth goes by full packets.
        let queue = r.queue("l", "L").sojourn_ms_mean.unwrap();
        between("queue, times of a full packet", queue / (1.442 * 8.0 / mbps), 0.0, 2.0);
        assert_eq!(f.dropped_packets, 0);
        let size = mean_since(&r.flow_series("f", "packet_bytes"), 30.0);
        // Two packets in an RTT, or in 25 ms if that is longer.
        let virtual_rtt = f.rtt_ms_mean.unwrap().max(25.0) * 1e-3;
        agrees("payload of a packet", size, f.goodput_mbps * 1e6 / 8.0 * virtual_rtt / 2.0, 0.12);
    }
    // Many flows at 170 kb/s each, hardly above the least rate: 100 kb/s of payload are 127 kb/s of
    // frames. The target is far, so that PI2 does not find the link overloaded and drop.
    let base = lab(60.0, 20.0).link("l", 5.0, "dualpi2 step_thresh 5ms target 100ms");
    let r = udp_prague(base, "f", 10.0, json!({"count": 30})).run();
    between("use of the link", r.queue("l", "all").utilisation, 0.9, 1.001);
    // Two full packets of each would be 145 ms.
    let full = 30.0 * 2.0 * 1.514 * 8.0 / 5.0;
    between("queue, ms", r.queue("l", "L").sojourn_ms_mean.unwrap(), 0.0, full / 3.0);
    assert_eq!(r.flow("f").dropped_packets, 0);
}

/// Where ECT(1) is bleached before the queue, the sender notices and shares as Not-ECT, by losses.
#[test]
fn a_bleached_path_makes_it_not_ect() {
    let bleach =
        json!([{"flow": "f", "where": "before", "link": "a", "from": "ect1", "to": "not-ect"}]);
    let base = lab(60.0, 10.0).link("a", 50.0, "dualpi2").with("rewrites", bleach);
    let r = udp_prague(base, "f", 10.0, json!({})).run();
    let f = r.flow("f");
    assert_eq!((r.queue("a", "L").sent_packets, f.ce_packets), (0, 0));
    assert!(f.dropped_packets > 0);
    between("use of the link", r.queue("a", "all").utilisation, 0.7, 1.001);
    between("drops, %", f.drop_pct.unwrap(), 0.0, 2.0);
    // Bleached behind the first queue: the second and, once the sender knows, the first one too see
    // no ECT(1).
    let bleach =
        json!([{"flow": "f", "where": "after", "link": "a", "from": "ect1", "to": "not-ect"}]);
    let base = lab(60.0, 10.0).link("a", 60.0, "dualpi2").link("b", 50.0, "dualpi2");
    let r = udp_prague(base.with("rewrites", bleach), "f", 10.0, json!({})).run();
    assert_eq!((r.queue("a", "L").sent_packets, r.queue("b", "L").sent_packets), (0, 0));
}

/// A loss halves: in a plain FIFO it shares with Reno as AIMD does, rather than starve either.
#[test]
fn in_a_queue_without_ecn_it_answers_losses() {
    let base = lab(120.0, 30.0).link("l", 20.0, "pfifo limit 60");
    let r = udp_prague(base, "udp", 25.0, json!({})).tcp("reno", "reno", 25.0, json!({})).run();
    between("share", r.flow("udp").share.unwrap(), 0.2, 0.8);
    between("use of the link", r.queue("l", "all").utilisation, 0.9, 1.001);
}

/// Reordering by the path is taken back; the same share of losses is not.
#[test]
fn reordering_costs_little() {
    let rate = |netem: &str| {
        let base = lab(40.0, 15.0).link("l", 50.0, "dualpi2").impair("l", "forward", netem);
        udp_prague(base, "f", 10.0, json!({})).run().flow("f").rate_mbps
    };
    let (calm, reordered, lossy) =
        (rate("delay 1ms"), rate("delay 1ms reorder 1%"), rate("delay 1ms loss 1%"));
    println!("{calm:.1} Mb/s, with 1 % reordered {reordered:.1}, with 1 % lost {lossy:.1}");
    assert!(reordered > 0.7 * calm && lossy < 0.5 * calm, "{calm} {reordered} {lossy}");
}

/// A cap on the rate is kept.
#[test]
fn a_pace_is_a_cap() {
    let base = lab(30.0, 15.0).link("l", 50.0, "dualpi2");
    let r = udp_prague(base, "f", 10.0, json!({"pace_bps": 20_000_000})).run();
    agrees("rate of frames", r.flow("f").rate_mbps, 20.0, 0.01);
}
