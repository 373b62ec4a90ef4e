//! The SCE qdiscs in the simulator: fairness, delay, use of their shaper, and what is counted.

use serde_json::json;

use super::lab::{agrees, lab, mean_since};

const QDISCS: [&str; 4] = ["cnq_cobalt", "cnq_codel_af", "lfq_cobalt", "twin_codel_af"];

/// ECT(1) that arrives may come from the sender or from a queue: only the latter is an SCE mark.
#[test]
fn sce_marks_are_told_from_the_senders_ect1() {
    for qdisc in ["cnq_cobalt sce", "cnq_codel_af sce", "lfq_cobalt sce", "twin_codel_af", "deltic"]
    {
        let mut l = lab(3.0, 0.0).link("l", 10.0, qdisc);
        for ecn in ["ect0", "ect1", "not-ect"] {
            l = l.cbr(ecn, 3.5, ecn, json!({}));
        }
        let r = l.run();
        let sce = |flow| r.flow(flow).sce_pct.expect("it sends");
        println!("{qdisc}: {:?} % SCE", ["ect0", "ect1", "not-ect"].map(sce));
        assert!(sce("ect0") > 0.0, "{qdisc}");
        assert_eq!((sce("ect1"), sce("not-ect")), (0.0, 0.0), "{qdisc}");
        let link = r.queue("l", "all").sce_pct.expect("packets came");
        let marked: f64 =
            r.queue_series("l", "all", "sce_marked_packets").iter().map(|s| s.1).sum();
        assert!(link > 0.0 && link < 100.0 / 3.0 && marked > 0.0, "{qdisc}: {link} % {marked}");
        let told = |flow| r.flow_series(flow, "sce_packets").iter().map(|s| s.1).sum::<f64>();
        let sent = r.flow("ect0").sent_packets as f64;
        agrees("SCE marks in the series", told("ect0"), sce("ect0") / 100.0 * sent, 1e-9);
        assert_eq!((told("ect1"), told("not-ect")), (0.0, 0.0), "{qdisc}");
    }
    let r = lab(5.0, 1.0).link("l", 10.0, "dualpi2").cbr("f", 12.0, "ect0", json!({})).run();
    assert_eq!(r.flow("f").sce_pct, Some(0.0), "CE is no SCE mark");
}

/// An SCE mark that a second queue makes CE counts as CE.
#[test]
fn a_later_ce_mark_replaces_an_sce_mark() {
    let r = lab(10.0, 2.0)
        .link("one", 10.0, "cnq_cobalt sce-thresh 64")
        .link("two", 9.0, "dualpi2 step_thresh 1us")
        .cbr("f", 12.0, "ect0", json!({}))
        .run();
    let (flow, one) = (r.flow("f"), r.queue("one", "all"));
    let (sce, ce) = (flow.sce_pct.expect("it sends"), flow.ce_pct.expect("it sends"));
    println!("one {:?} % SCE; flow {sce} % SCE, {ce} % CE", one.sce_pct);
    assert!(one.sce_pct > Some(10.0), "{one:?}");
    // DualPI2 takes the SCE marks for packets of L4S and puts CE on each of them.
    assert_eq!(sce, 0.0, "{flow:?}");
    assert!(ce > 20.0, "{flow:?}");
}

/// Two CUBIC flows with RTTs of 10 and 40 ms. A FIFO with one COBALT gives the shorter the larger
/// share; fair queueing makes them equal, approximate fairness less unequal.
#[test]
fn flows_of_unequal_rtt_share_the_link() {
    let share = |qdisc: &str| {
        let r = lab(60.0, 10.0)
            .link("l", 1000.0, &format!("{qdisc} bandwidth 20mbit"))
            .tcp("short", "cubic", 10.0, json!({"ecn": "classic"}))
            .tcp("long", "cubic", 40.0, json!({"ecn": "classic"}))
            .run();
        let all = r.queue("l", "all");
        let share = r.flow("long").share.expect("they send");
        let delay = all.sojourn_ms_mean.expect("packets left");
        println!(
            "{qdisc}: long {share:.3}, {:.2} Mb/s, {delay:.2} ms, p99 {:.2} ms",
            all.rate_mbps,
            all.sojourn_ms_p99.expect("packets left")
        );
        assert!(all.rate_mbps > 0.93 * 20.0 && all.rate_mbps <= 20.05, "{qdisc} {all:?}");
        assert!(delay < 15.0, "{qdisc}: near the target of 5 ms: {delay}");
        share
    };
    let shares = QDISCS.map(share);
    let [shared, cnq, lfq, twin] = shares;
    assert!((lfq - 0.5).abs() < 0.03, "LFQ is fair: {lfq}");
    assert!(cnq > shared + 0.02 && twin > shared + 0.02, "{shares:?}");
}

/// A flow of the low-latency class and one of the other, each with its own times and half the link.
#[test]
fn twin_keeps_low_latency_traffic_short() {
    let r = lab(40.0, 10.0)
        .link("l", 1000.0, "twin_codel_af bandwidth 50mbit")
        .tcp("plain", "cubic", 20.0, json!({"ecn": "classic"}))
        .tcp("low", "cubic", 20.0, json!({"ecn": "classic", "dscp": 4}))
        .run();
    let delay = |queue| r.queue("l", queue).sojourn_ms_mean.expect("packets left");
    let (zero, one) = (delay("class0"), delay("class1"));
    println!("plain {zero:.2} ms, low {one:.2} ms, low's share {:?}", r.flow("low").share);
    assert!(one < zero / 2.0 && one < 2.5, "{zero} {one}");
    assert!(r.flow("low").share.expect("they send") > 0.3);
}

/// DelTiC's CE controller holds the delay of classic flows below 1/40 Hz, its drops below 1/8 Hz.
#[test]
fn deltic_holds_its_targets() {
    let delay = |ecn: &str, qdisc: &str| {
        let r = lab(60.0, 20.0)
            .link("l", 20.0, qdisc)
            .tcp("f", "cubic", 40.0, json!({"ecn": ecn, "count": 4}))
            .run();
        let all = r.queue("l", "all");
        let mean = mean_since(&r.queue_series("l", "all", "sojourn_ms"), 20.0);
        println!("{qdisc} {ecn}: {mean:.2} ms, utilisation {:.3}", all.utilisation);
        assert!(all.utilisation > 0.95, "{all:?}");
        mean
    };
    let (marked, dropped) = (delay("classic", "deltic"), delay("off", "deltic no-ecn"));
    assert!(marked > 5.0 && marked < 40.0, "{marked}");
    assert!(dropped > 60.0 && dropped < 190.0, "{dropped}");
}
