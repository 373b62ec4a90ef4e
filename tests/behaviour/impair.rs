//! Transport over an impaired path: reordering, duplicates, corruption and random losses; and where an
//! impairment stands.

use l4slab_core::time::Time;
use serde_json::{Value, json};

use crate::lab::{Lab, Result, agrees, between, lab, ns};

const ALL: [&str; 3] = ["reno", "cubic", "prague"];
const RTT: f64 = 80.0;

/// One flow through 50 Mb/s.
fn one(cc: &str, qdisc: &str, direction: &str, netem: &str) -> Result {
    let l = lab(60.0, 20.0).link("b", 50.0, qdisc).impair("b", direction, netem);
    l.tcp("f", cc, RTT, json!({})).run()
}

/// Packets of a window overtake each other by a fraction of the RTT, data and ACKs: RACK's window (RFC
/// 8985 section 6.2.3.1) grows with what D-SACK tells, and what is sent twice in vain is little. It would
/// be next to nothing, but PAWS discards ACKs that were overtaken by more than 1 ms, and with them what
/// their SACK blocks told: the more the wider the jitter is. (Linux 7.2, 8 runs of 25 s through DualPI2,
/// the worst of Reno and CUBIC: 0.8, 5.7 and 64 in ten thousand; of Prague: 0.1, 0.1 and 40.)
#[test]
fn jitter_causes_few_spurious_retransmissions() {
    let jitters = [("2ms 1ms", 3e-4), ("4ms 2ms", 1e-3), ("10ms 5ms", 7e-3)];
    for cc in ALL {
        for (jitter, most) in jitters {
            let netem = format!("delay {jitter} 10%");
            for qdisc in ["dualpi2", "pfifo limit 300"] {
                let r = one(cc, qdisc, "both", &netem);
                let f = r.flow("f");
                let spurious = f.retransmits.saturating_sub(f.dropped_packets);
                let share = spurious as f64 / f.sent_packets as f64;
                between(&format!("{cc}, {qdisc}, {netem}: spurious"), share, 0.0, most);
            }
        }
    }
}

/// What jitter costs: Linux 7.2's goodput in Mb/s, mean of 8 runs of 25 s with standard deviations of 5.4,
/// 3.5, 2.8 (CUBIC) and 2.8, 1.0, 2.2 (Prague). Most of it goes with the ACKs that PAWS discards (half of
/// them at 5 ms of jitter): without, CUBIC has 40 instead of 30. The tolerance is two standard errors of
/// the widest.
#[test]
#[ignore = "slow"]
fn jitter_costs_what_it_costs_linux() {
    let linux = [
        ("cubic", "10ms 5ms", 30.2),
        ("cubic", "4ms 2ms", 37.9),
        ("cubic", "2ms 1ms", 40.6),
        ("prague", "10ms 5ms", 22.4),
        ("prague", "4ms 2ms", 36.8),
        ("prague", "2ms 1ms", 42.0),
    ];
    for (cc, jitter, mbps) in linux {
        let runs = 8;
        let total: f64 = (1..=runs)
            .map(|seed| {
                let l = lab(25.0, 0.0).with("seed", seed).link("b", 50.0, "dualpi2");
                let l = l.impair("b", "both", &format!("delay {jitter} 10%"));
                l.with("start_jitter_ns", 100_000_000)
                    .tcp("f", cc, RTT, json!({}))
                    .run()
                    .flow("f")
                    .goodput_mbps
            })
            .sum();
        agrees(&format!("{cc}, {jitter}: Mb/s"), total / f64::from(runs), mbps, 0.13);
    }
}

/// The ACKs' way alone does it: data arrives in order, nothing is lost, and still ACKs are discarded. As
/// they are cumulative, that costs nothing.
#[test]
fn overtaken_acks_are_not_missed_while_data_is_in_order() {
    for cc in ALL {
        let steady = one(cc, "pfifo limit 300", "reverse", "delay 10ms").flow("f").goodput_mbps;
        let r = one(cc, "pfifo limit 300", "reverse", "delay 10ms 5ms");
        let f = r.flow("f");
        assert_eq!(f.retransmits.saturating_sub(f.dropped_packets), 0, "{cc}");
        between(&format!("{cc}: jittered / steady"), f.goodput_mbps / steady, 0.85, 1.15);
    }
}

/// Duplicates take their share of the link, and nothing else: a receiver answers them with D-SACKs, of
/// which no loss follows. The flow is capped, so that there is room for them.
#[test]
fn duplicates_do_no_harm() {
    for cc in ALL {
        for direction in ["forward", "reverse", "both"] {
            let capped = |netem: &str| {
                let l = lab(40.0, 10.0).link("b", 50.0, "pfifo").impair("b", direction, netem);
                l.tcp("f", cc, 40.0, json!({"pace_bps": 20_000_000})).run()
            };
            let (plain, doubled) = (capped("duplicate 0%"), capped("duplicate 20%"));
            let what = format!("{cc}, {direction}: goodput");
            agrees(&what, doubled.flow("f").goodput_mbps, plain.flow("f").goodput_mbps, 0.01);
            assert_eq!(doubled.flow("f").retransmits, 0, "{what}");
            if direction != "reverse" {
                let sent = doubled.flow("f").sent_packets as f64;
                agrees("packets", sent, 1.2 * plain.flow("f").sent_packets as f64, 0.01);
            }
        }
    }
}

/// laws.md 1: W = 1.31/sqrt p of random losses for Reno, within 10 %: the window does not grow during
/// the round trip of a recovery, which the model leaves out and which weighs more the shorter the
/// cycle is. At 1 %, with a window of 12, it takes 10 %; Linux 7.2 has 11.89 there (goodput times base
/// RTT in segments, 30 runs of 100 s, standard error 0.08). Each loss is repaired once.
#[test]
fn random_losses_follow_the_law_of_reno() {
    // The window that the law, or where it ends the kernel has.
    let cases = [
        ("0.1", 0.001_f64, 1.31 / 0.001_f64.sqrt(), 0.1),
        ("0.3", 0.003, 1.32 / 0.003_f64.sqrt(), 0.1),
        ("1", 0.01, 11.89, 0.03),
    ];
    for (percent, p, law, within) in cases {
        let r = lab(1200.0, 20.0)
            .link("b", 1000.0, "pfifo")
            .impair("b", "forward", &format!("loss {percent}%"))
            .tcp("f", "reno", 40.0, json!({}))
            .run();
        let f = r.flow("f");
        let window = f.goodput_mbps * 1e6 / 8.0 / 1448.0 * 0.040;
        agrees(&format!("window at {percent} %"), window, law, within);
        agrees("resent", f.retransmits as f64, p * f.sent_packets as f64, 0.08);
        assert_eq!(f.dropped_packets, 0, "the link drops nothing: the impairment stands before it");
    }
}

/// What a flipped bit spoils crosses the link and is gone at the receiver.
#[test]
fn corruption_is_loss_behind_the_link() {
    let r = one("cubic", "pfifo", "forward", "corrupt 0.5%");
    let f = r.flow("f");
    agrees("resent", f.retransmits as f64, 0.005 * f.sent_packets as f64, 0.15);
    assert_eq!(f.dropped_packets, 0);
    between(
        "delivered",
        f.delivered_packets as f64,
        f.sent_packets as f64 - 50.0,
        f.sent_packets as f64,
    );
    // ACKs, too: the next one stands in.
    let r = one("cubic", "dualpi2", "reverse", "corrupt 5%");
    assert!(r.flow("f").retransmits <= r.flow("f").dropped_packets, "{:?}", r.flow("f"));
}

/// `ecn` marks instead: the same law without a single retransmission.
#[test]
fn marks_instead_of_losses() {
    // With seed 1 the SYN is lost, which is Not-ECT, and TCP then goes on without ECN.
    let r = lab(600.0, 20.0)
        .with("seed", 2)
        .link("b", 1000.0, "pfifo")
        .impair("b", "forward", "loss 0.3% ecn")
        .tcp("f", "reno", 40.0, json!({"ecn": "classic"}))
        .run();
    let f = r.flow("f");
    assert_eq!(f.ecn_mode, Some("classic"));
    assert_eq!((f.retransmits, f.dropped_packets), (0, 0));
    agrees("marks", f.ce_packets as f64, 0.003 * f.sent_packets as f64, 0.08);
    let window = f.goodput_mbps * 1e6 / 8.0 / 1448.0 * 0.040;
    agrees("window", window, 1.32 / 0.003_f64.sqrt(), 0.1);
}

/// Forward: data of every path with the link. Reverse: the ACKs of flows that cross the link. Both
/// directions have a netem of their own.
#[test]
fn where_it_stands() {
    let rtt = |direction: &str, path: Value| {
        let l = lab(3.0, 1.0).link("a", 10.0, "pfifo").link("b", 10.0, "pfifo");
        let l = l.impair("b", direction, "delay 30ms");
        let flow = json!({"path": path, "pace_bps": 1_000_000});
        l.tcp("f", "reno", 20.0, flow).run().flow("f").rtt_ms_p50.unwrap()
    };
    between("not crossed", rtt("both", json!(["a"])), 20.0, 24.0);
    between("forward", rtt("forward", json!(["a", "b"])), 50.0, 54.0);
    between("reverse", rtt("reverse", json!(["a", "b"])), 50.0, 54.0);
    between("both", rtt("both", json!(["b"])), 80.0, 84.0);
}

fn wild(netem: &str) -> Lab {
    lab(8.0, 0.0)
        .with("start_jitter_ns", 20_000_000)
        .link("a", 20.0, "pfifo limit 30")
        .link("b", 10.0, &format!("netem {netem}"))
        .impair("a", "both", netem)
        .tcp("f", "cubic", 20.0, json!({"count": 3, "reverse_path": ["b"], "bytes": 500_000}))
        .tcp("g", "prague", 10.0, json!({"bytes": 500_000}))
        .cbr("u", 1.0, "ect1", json!({"stop_ns": ns(3.0)}))
}

/// With everything at once, on a path and as a link's queue: packets (and their duplicates) are
/// conserved everywhere, transfers complete, and no ACK's SACK blocks are taken twice or left behind.
#[test]
fn everything_at_once_conserves_packets() {
    for netem in [
        "delay 3ms 2ms duplicate 20% corrupt 3% loss 3% reorder 10%",
        "delay 1ms 1ms distribution pareto duplicate 50% 30% loss gemodel 2% 40% ecn",
        "slot 1ms 4ms packets 10 duplicate 10% loss state 2% 50%",
        "rate 15mbit delay 2ms 5ms limit 40 duplicate 5% corrupt 1%",
    ] {
        let l = wild(netem);
        let mut sim = l.simulation();
        for step in 1..=160 {
            sim.run_until(Time(ns(8.0) / 160 * step));
            for link in sim.links() {
                let t = link.totals();
                assert_eq!(t.arrived, t.sent + t.dropped + link.aqm().backlog().packets);
            }
            for i in sim.impairs() {
                let t = i.totals();
                assert_eq!(t.arrived, t.sent + t.dropped + i.backlog(), "{netem}");
            }
        }
        let waiting: u64 = sim.links().iter().map(|l| l.backlog()).sum();
        assert_eq!((waiting, sim.sacks_under_way()), (0, 0), "{netem}: all is over");
        let r = Result(sim.run());
        assert_eq!((r.flow("f").transfers, r.flow("g").transfers), (3, 1), "{netem}");
        let again = l.run();
        assert_eq!(r.flow("f").delivered_packets, again.flow("f").delivered_packets);
        assert_eq!(r.0.delivered_packets, again.0.delivered_packets, "{netem}: the same seed");
    }
}

/// One in so many ACKs goes on, and nothing is lost for it; the last one comes after the wait.
#[test]
fn acks_are_thinned() {
    let run = |thinning: Option<u32>, bytes: Option<u64>| {
        let l = lab(10.0, 0.0).link("l", 40.0, "dualpi2").bare_link("up", 1.0, "pfifo limit 1000");
        let mut l = l.tcp(
            "f",
            "prague",
            20.0,
            json!({"bytes": bytes, "path": ["l"], "reverse_path": ["up"]}),
        );
        if let Some(n) = thinning {
            let thin = json!({"name": "t", "netem": "limit 1000", "before": "l", "direction": "reverse",
                              "ack_thinning": n, "ack_wait_ns": 5_000_000});
            l.0["impairs"].as_array_mut().expect("a list").push(thin);
        }
        l.run()
    };
    let acks = |r: &crate::lab::Result| {
        r.0.links.iter().find(|l| l.link == "up").expect("a link").rate_mbps
    };
    let (all, thinned) = (run(None, None), run(Some(8), None));
    // Fewer bits upstream (an ACK of marks or losses goes on), and the flow has most of its rate.
    assert!(acks(&all) > 0.85 && acks(&thinned) < 0.3, "{} {}", acks(&all), acks(&thinned));
    let rates = [&all, &thinned].map(|r| r.flow("f").rate_mbps);
    assert!(rates[1] > 0.85 * rates[0], "{rates:?}");
    // A short transfer, whose last ACK waits.
    let (all, thinned) = (run(None, Some(20_000)), run(Some(1000), Some(20_000)));
    let late = |r: &crate::lab::Result| r.flow("f").completion_ms_p50.expect("it is over");
    assert!((late(&thinned) - late(&all) - 5.0).abs() < 3.0, "{} {}", late(&all), late(&thinned));
}
