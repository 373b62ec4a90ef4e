//! BBR version 3 (google/bbr; draft-ietf-ccwg-bbr) on whole paths.

use serde_json::{Value, json};

use crate::lab::{Result, between, lab, mean_since};

/// One flow alone at 50 Mb/s and 20 ms (a product of 83 frames) with a buffer in units of it.
fn alone(cc: &str, buffer: f64) -> Result {
    let limit = (buffer * 82.6) as u32;
    lab(60.0, 10.0)
        .link("b", 50.0, &format!("pfifo limit {limit}"))
        .tcp("f", cc, 20.0, json!({}))
        .run()
}

/// It fills the link whether the buffer is shallow or deep, and a deep one it does not fill.
#[test]
fn alone_it_fills_the_link_and_not_the_buffer() {
    for buffer in [1.0, 4.0] {
        let r = alone("bbr3", buffer);
        let queue = r.queue("b", "all");
        between("use of the link", queue.utilisation, 0.93, 1.0);
        between("mean queue, base RTTs", queue.sojourn_ms_mean.unwrap() / 20.0, 0.0, 0.35);
        between("drops, %", r.flow("f").drop_pct.unwrap(), 0.0, 0.1);
    }
}

/// Where version 1 fills a buffer smaller than its window with losses, this one learns from them.
#[test]
fn in_a_shallow_buffer_it_loses_much_less_than_version_1() {
    let drops = |cc: &str, count: u32| {
        let r = lab(60.0, 10.0)
            .link("b", 50.0, "pfifo limit 20")
            .tcp("f", cc, 20.0, json!({"count": count}))
            .run();
        between(
            &format!("use of the link, {count} {cc}"),
            r.queue("b", "all").utilisation,
            0.85,
            1.0,
        );
        r.flow("f").drop_pct.unwrap()
    };
    for count in [2, 4] {
        let (v1, v3) = (drops("bbr", count), drops("bbr3", count));
        println!("drops of {count} flows: version 1 {v1:.2} %, version 3 {v3:.2} %");
        assert!(v3 < v1 / 3.0, "{v3} % against {v1} %");
    }
}

fn share_beside(cc: &str, qdisc: &str, extra: Value) -> f64 {
    let r = lab(120.0, 40.0)
        .link("b", 50.0, qdisc)
        .tcp("bbr3", "bbr3", 20.0, json!({}))
        .tcp("other", cc, 20.0, extra)
        .run();
    r.flow("bbr3").share.unwrap()
}

#[test]
fn two_of_them_share() {
    for buffer in [83, 330] {
        let qdisc = format!("pfifo limit {buffer}");
        between("share beside its like", share_beside("bbr3", &qdisc, json!({})), 0.4, 0.6);
    }
}

/// Version 1 leaves CUBIC a tenth in a shallow buffer (see `bbr`).
#[test]
fn cubic_keeps_a_part() {
    for (buffer, low, high) in [(83, 0.35, 0.75), (330, 0.3, 0.65)] {
        let qdisc = format!("pfifo limit {buffer}");
        let share = share_beside("cubic", &qdisc, json!({}));
        between(&format!("share beside CUBIC, {buffer} packets"), share, low, high);
    }
}

/// With marks of a step at 1 ms it keeps the queue about there, without it does not know of them.
#[test]
fn marks_of_a_step_keep_the_queue_short() {
    let run = |ecn_low: &str, qdisc: &str| {
        lab(40.0, 10.0)
            .link("b", 100.0, qdisc)
            .tcp("f", "bbr3", 4.0, json!({"count": 4, "options": {"ecn_low": ecn_low}}))
            .run()
    };
    for (ecn_low, qdisc, queue) in [
        ("ect0", "fq_codel flows 1 ce_threshold 1ms", "all"),
        ("ect1", "fq_codel flows 1 ce_threshold 1ms", "all"),
        ("ect1", "dualpi2", "L"),
    ] {
        let without = run("off", "pfifo limit 1000");
        let with = run(ecn_low, qdisc);
        let q = |r: &Result, name: &str| r.queue("b", name).sojourn_ms_mean.unwrap();
        println!(
            "{ecn_low} {qdisc}: {:.2} ms, without marks {:.2} ms",
            q(&with, queue),
            q(&without, "all")
        );
        assert!(q(&with, queue) < 1.6, "{} ms", q(&with, queue));
        assert!(q(&with, queue) < 0.7 * q(&without, "all"));
        between("use of the link", with.queue("b", "all").utilisation, 0.9, 1.0);
        assert_eq!(with.flow("f").dropped_packets, 0);
        let alpha = mean_since(&with.flow_series("f", "alpha"), 10.0);
        between("alpha", alpha, 0.02, 0.9);
    }
}

/// Beyond the largest RTT for marks they change nothing.
#[test]
fn marks_do_not_count_on_long_paths() {
    let run = |ecn_low: &str| {
        let r = lab(20.0, 5.0)
            .link("b", 50.0, "fq_codel flows 1 ce_threshold 1ms")
            .tcp("f", "bbr3", 20.0, json!({"ecn": "classic", "options": {"ecn_low": ecn_low}}))
            .run();
        (r.flow("f").sent_packets, r.flow("f").ce_packets)
    };
    let (deaf, hearing) = (run("off"), run("classic"));
    assert!(deaf.1 > 0);
    assert_eq!(deaf, hearing);
}

/// Every five seconds half of the product is in flight for 200 ms and a round trip.
#[test]
fn the_smallest_rtt_is_probed_every_five_seconds() {
    let r = lab(40.0, 5.0)
        .with("sample_ns", 10_000_000)
        .link("b", 50.0, "pfifo limit 1000")
        .tcp("f", "bbr3", 20.0, json!({}))
        .run();
    let mut dips: Vec<(f64, f64)> = Vec::new();
    for (t, w) in r.flow_series("f", "cwnd_packets").into_iter().filter(|s| s.0 > 4.0) {
        if w > 60.0 {
            continue;
        }
        between("window, of a product of 83", w, 36.0, 45.0);
        match dips.last_mut() {
            Some(last) if t - last.1 < 0.1 => last.1 = t,
            _ => dips.push((t, t)),
        }
    }
    assert!((6..=7).contains(&dips.len()), "{dips:?}");
    for dip in &dips {
        between("length of a dip, s", dip.1 - dip.0, 0.17, 0.27);
    }
    for pair in dips.windows(2) {
        between("from dip to dip, s", pair[1].0 - pair[0].0, 5.0, 5.5);
    }
}

/// A rise of the path's rate is found by probing. A fall in a deep buffer is noticed only when the
/// largest rate is forgotten, after two cycles; cycles cut short by the probing of the RTT do not
/// count, so that takes up to ten seconds.
#[test]
fn it_follows_the_rate_of_the_path() {
    let r = lab(50.0, 1.0)
        .link("b", 20.0, "pfifo limit 200")
        .tcp("f", "bbr3", 20.0, json!({}))
        .at(15.0, "b", json!({"rate_bps": 40_000_000}))
        .at(30.0, "b", json!({"rate_bps": 10_000_000}))
        .run();
    let mean = |from: f64, to: f64| {
        let rates = r.flow_series("f", "rate_mbps").into_iter().filter(|s| s.0 <= to);
        mean_since(&rates.collect::<Vec<_>>(), from)
    };
    between("Mb/s before", mean(5.0, 14.9), 18.0, 20.0);
    between("Mb/s five seconds after doubling", mean(20.0, 29.9), 35.0, 40.01);
    let sojourn = mean_since(&r.queue_series("b", "all", "sojourn_ms"), 42.0);
    between("queue twelve seconds after the fall, ms", sojourn, 0.0, 12.0);
}
