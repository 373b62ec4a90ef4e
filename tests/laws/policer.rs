//! A policer: what a token bucket gives a source and a congestion control, in closed form.

use serde_json::json;

use crate::lab::{FRAME, Lab, MSS, agrees, lab};

const RATE: f64 = 100.0;
const RTT: f64 = 0.02;

fn policed(seconds: f64, warmup: f64, words: &str) -> Lab {
    let mut lab = lab(seconds, warmup).link("l", 1000.0, "pfifo limit 10000");
    lab.0["links"][0]["policer"] = words.into();
    lab
}

/// A source above the rate gets the rate, and a full bucket once. All else is dropped, and nothing waits.
#[test]
fn a_source_gets_the_rate_and_one_bucket() {
    let (seconds, burst) = (2.0, 500_000.0);
    let found = policed(seconds, 0.0, "rate 20mbit burst 500000b")
        .cbr("f", 50.0, "not-ect", json!({}))
        .run();
    let all = found.queue("l", "all");
    let expected = (20e6 * seconds / 8.0 + burst) / FRAME;
    assert!(
        (all.sent_packets as f64 - expected).abs() <= 2.0,
        "{} of {expected}",
        all.sent_packets
    );
    assert_eq!(all.arrived_packets, all.sent_packets + all.dropped_packets);
    assert_eq!((all.backlog_packets_max, all.dropped_overflow_packets), (1, 0));
}

/// While the window is above rate times RTT the bucket empties, and the loss comes when it is empty. With a bucket of
/// more than a window, which fills again in each cycle, that gives the window at the loss.
fn loss_window(excess: impl Fn(f64) -> f64, burst: f64) -> f64 {
    let full = RATE * 1e6 * RTT / 8.0 / FRAME;
    full + excess(burst / FRAME)
}

fn goodput(cc: &str, burst: f64) -> f64 {
    let words = format!("rate 100mbit burst {burst}b");
    policed(120.0, 30.0, &words).tcp("f", cc, RTT * 1e3, json!({})).run().flow("f").goodput_mbps
}

/// Reno's window grows by a segment per RTT: excess² / 2 segments are one bucket. The mean is 3/4 of the window at the loss.
#[test]
fn reno_gets_what_its_sawtooth_finds_in_the_bucket() {
    for burst in [300.0 * 1024.0, 1250.0 * 1024.0] {
        let window = loss_window(|bucket| (2.0 * bucket).sqrt(), burst);
        agrees("Reno", goodput("reno", burst), 0.75 * window * MSS * 8e-6 / RTT, 0.03);
    }
}

/// CUBIC reaches its former window W along W - C x³, x before the plateau, where it loses again. The excess D = C x³ at
/// which the bucket begins to empty follows from 3/4 D x = bucket · RTT; the mean is (1 - 0.3 / 4) W.
#[test]
fn cubic_gets_what_its_plateau_finds_in_the_bucket() {
    const C: f64 = 0.4;
    for burst in [300.0 * 1024.0, 1250.0 * 1024.0] {
        let window = loss_window(|bucket| (4.0 / 3.0 * bucket * RTT * C.cbrt()).powf(0.75), burst);
        agrees("CUBIC", goodput("cubic", burst), 0.925 * window * MSS * 8e-6 / RTT, 0.03);
    }
}

/// A policer of a filter drops in its class only; `continue` leaves what exceeds to the next filter.
#[test]
fn the_policer_of_a_filter_sees_what_matches() {
    let tree = |action: &str| {
        let mut lab =
            lab(4.0, 1.0).link("l", 100.0, "prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1");
        lab.0["links"][0]["classes"] =
            json!([{"id": "1", "qdisc": "pfifo limit 30"}, {"id": "2", "qdisc": "pfifo limit 30"}]);
        lab.0["links"][0]["filters"] = json!([
            {"class": "1", "dscp": 46, "policer": format!("rate 5mbit burst 10kb conform-exceed {action}")}
        ]);
        let lab = lab.cbr("ef", 10.0, "not-ect", json!({"dscp": 46}));
        lab.cbr("other", 20.0, "not-ect", json!({})).run()
    };
    let rate = |found: &crate::lab::Result, queue: &str| found.queue("l", queue).rate_mbps;
    let dropping = tree("drop");
    agrees("class 1", rate(&dropping, "1"), 5.0, 0.01);
    agrees("class 2", rate(&dropping, "2"), 20.0, 0.01);
    agrees("drops", dropping.queue("l", "1").drop_pct.expect("packets came"), 50.0, 0.01);
    let leaving = tree("continue");
    agrees("class 1", rate(&leaving, "1"), 5.0, 0.01);
    agrees("class 2", rate(&leaving, "2"), 25.0, 0.01);
    agrees("no class", rate(&tree("pass"), "1"), 10.0, 0.01);
}

/// A change gives full buckets of the new size.
#[test]
fn a_change_fills_the_bucket() {
    let lab = policed(3.0, 1.0, "rate 20mbit burst 5kb").cbr("f", 50.0, "not-ect", json!({}));
    let found = lab.at(2.0, "l", json!({"policer": "rate 10mbit burst 250000b"})).run();
    let bytes = (20e6 + 10e6) / 8.0 + 250_000.0;
    agrees("sent", found.queue("l", "all").sent_packets as f64, bytes / FRAME, 0.002);
}
