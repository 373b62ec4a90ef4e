//! Flows that change while they run.

use l4slab_core::live::Live;
use l4slab_core::scenario::Run;
use serde_json::{Value, json};

use crate::lab::{Lab, bps, lab, ns};

fn change(l: Lab, seconds: f64, flow: &str, change: serde_json::Value) -> Lab {
    let mut l = l;
    let mut at = change;
    at["time_ns"] = json!(ns(seconds));
    at["flow"] = json!(flow);
    l.0["at"].as_array_mut().expect("a list").push(at);
    l
}

/// A shorter path does not let packets overtake: nothing is taken for lost, and the sender measures the new
/// round trip.
#[test]
fn another_rtt_neither_reorders_nor_loses() {
    for (before, after) in [(80.0, 10.0), (10.0, 80.0)] {
        let l = lab(10.0, 0.0).with("sample_ns", 100_000_000).link("l", 100.0, "pfifo");
        let l = l.tcp("f", "cubic", before, json!({"pace_bps": bps(20.0)}));
        let r = change(l, 5.0, "f", json!({"rtt_ns": ns(after * 1e-3)})).run();
        let f = r.flow("f");
        assert_eq!((f.retransmits, f.dropped_packets), (0, 0), "{before} to {after} ms");
        let srtt = r.flow_series("f", "srtt_ms");
        let near = |rtt: f64, measured: f64| (measured - rtt).abs() < 0.5;
        assert!(near(before, srtt[48].1) && near(after, srtt[srtt.len() - 1].1), "{srtt:?}");
    }
}

/// Flows come and go: each time those that are there fill the link.
#[test]
fn flows_come_and_go() {
    let l = lab(40.0, 0.0).link("l", 40.0, "dualpi2");
    let l = l.tcp("a", "prague", 10.0, json!({})).tcp("b", "cubic", 10.0, json!({"count": 0}));
    let l = change(l, 10.0, "a", json!({"count": 4}));
    let l = change(l, 20.0, "b", json!({"count": 2}));
    let r = change(change(l, 30.0, "a", json!({"count": 0})), 30.0, "b", json!({"count": 1})).run();
    assert_eq!((r.flow("a").count, r.flow("b").count), (4, 2));
    let mean = |flow: &str, from: usize, to: usize| {
        let rates = &r.flow_series(flow, "rate_mbps")[from..to];
        rates.iter().map(|(_, rate)| rate).sum::<f64>() / rates.len() as f64
    };
    let (tenths, full) = ([(20, 100), (120, 200), (220, 300), (320, 400)], 38.0..40.1);
    for (from, to) in tenths {
        let (a, b) = (mean("a", from, to), mean("b", from, to));
        assert!(full.contains(&(a + b)), "{a} + {b} Mb/s from {from}");
        assert_eq!((a < 0.01, b < 0.01), (from == 320, from < 200), "{a}, {b} Mb/s from {from}");
    }
}

/// A source keeps its phase: over the whole run it has sent both rates for their times.
#[test]
fn another_rate_of_a_source_is_exact() {
    let l = lab(10.0, 0.0).link("l", 100.0, "pfifo").cbr("u", 1.0, "not-ect", json!({}));
    let l = change(l, 2.0003, "u", json!({"rate_bps": bps(25.0)}));
    let r = change(l, 7.0, "u", json!({"rate_bps": 1_000})).run();
    let bits = r.flow("u").sent_packets as f64 * 1514.0 * 8.0;
    let expected = 1e6 * 2.0003 + 25e6 * (7.0 - 2.0003) + 1e3 * 3.0;
    assert!((bits - expected).abs() <= 1514.0 * 8.0, "{bits} of {expected} bits");
}

/// The delay of a path follows its trace, round after round; what `[[at]]` says of the rest is added.
#[test]
fn a_path_follows_its_delay_trace() {
    let ms = 1_000_000_u64;
    let steps = json!([[0, 20 * ms], [1000 * ms, 60 * ms], [1500 * ms, 5 * ms], [2000 * ms, 0]]);
    let trace = json!({"steps": steps, "repeat_ns": 2000 * ms});
    let l = lab(8.0, 0.0).with("sample_ns", 10_000_000).link("l", 100.0, "pfifo");
    let l = l.tcp("f", "cubic", 10.0, json!({"pace_bps": bps(20.0), "delay_trace": trace}));
    let r = change(l, 4.0, "f", json!({"rtt_ns": 30 * ms})).run();
    assert_eq!((r.flow("f").retransmits, r.flow("f").dropped_packets), (0, 0));
    let srtt = r.flow_series("f", "srtt_ms");
    let at = |seconds: f64| srtt.iter().rfind(|(t, _)| *t <= seconds + 1e-9).expect("a sample").1;
    for round in 0..4 {
        let base = if round < 2 { 10.0 } else { 30.0 };
        for (seconds, added) in [(0.99, 20.0), (1.49, 60.0), (1.99, 5.0)] {
            let (measured, expected) = (at(2.0 * f64::from(round) + seconds), base + added);
            assert!(
                (measured - expected).abs() < 1.0,
                "{measured} ms, not {expected}, at {seconds} s of {round}"
            );
        }
    }
}

/// The least wait of a retransmission is what the host says, in ticks of 4 ms.
#[test]
fn the_least_timeout_is_the_hosts() {
    // Everything is lost from 1 s to 1.3 s; the next timeout finds the path again.
    let silence = |rto_min: Option<u64>| {
        let rto_min = rto_min.map(|ms| ms * 1_000_000);
        let extra = json!({"rto_min_ns": rto_min, "pace_bps": bps(20.0)});
        let l = lab(2.0, 0.0).with("sample_ns", 1_000_000).link("l", 100.0, "pfifo");
        let mut l = l.tcp("f", "reno", 10.0, extra).impair("l", "forward", "limit 1000");
        for (at, netem) in [(1.0, "loss 100% limit 1000"), (1.3, "limit 1000")] {
            let change = json!({"time_ns": ns(at), "impair": "i", "netem": netem});
            l.0["at"].as_array_mut().expect("a list").push(change);
        }
        let r = l.run();
        let goodput = r.flow_series("f", "goodput_mbps");
        goodput.iter().find(|(t, mbps)| *t > 1.3 && *mbps > 0.0).expect("it goes on").0 - 1.0
    };
    // Of 200 ms the second one, after 3 times 210 ms; of 20 ms the fourth, after 15 times 30 ms. Before them there
    // is a probe, and the kernel's timers are late.
    let (usual, quick) = (silence(None), silence(Some(20_u64)));
    assert!((0.63..0.75).contains(&usual), "{usual} s");
    assert!((0.45..0.56).contains(&quick), "{quick} s");
}

/// netem changes while it runs: what it holds stays.
#[test]
fn an_impairment_changes() {
    let l = lab(4.0, 0.0).with("sample_ns", 1_000_000_000).link("l", 100.0, "pfifo");
    let mut l = l.cbr("u", 12.112, "not-ect", json!({})).impair("l", "forward", "delay 100ms");
    for (at, netem) in [(1.0, "delay 10ms loss 50%"), (2.0, "delay 10ms"), (3.0, "loss 100%")] {
        let change = json!({"time_ns": ns(at), "impair": "i", "netem": netem});
        l.0["at"].as_array_mut().expect("a list").push(change);
    }
    let r = l.run();
    let rates = r.flow_series("u", "rate_mbps");
    let packets: Vec<f64> = rates.iter().map(|(_, mbps)| mbps * 1000.0 / 12.112).collect();
    // 100 ms are under way at first; then those 100 come besides.
    assert!((packets[0] - 900.0).abs() <= 1.0, "{packets:?}");
    assert!((packets[1] - 100.0 - 495.0).abs() < 60.0, "{packets:?}");
    assert!((packets[2] - 995.0).abs() < 10.0, "{packets:?}");
    assert!((packets[3] - 10.0).abs() <= 1.0, "{packets:?}");
}

/// Packets are as large as the MTU, and an AQM's packets as well.
#[test]
fn segments_are_as_large_as_the_mtu() {
    for mtu in [68, 88, 576, 1500, 9000] {
        let l = lab(2.0, 1.0).link("l", 100.0, "pfifo limit 100");
        let r = l.tcp("f", "cubic", 10.0, json!({"mtu_bytes": mtu})).run();
        let f = r.flow("f");
        let ratio = f.goodput_mbps / f.rate_mbps;
        let expected = f64::from(mtu - 52) / f64::from(mtu + 14);
        assert!((ratio - expected).abs() < 2e-3, "{mtu}: {ratio}, not {expected}");
        // The window of 1500 segments that fills the link with small ones takes longer to grow.
        assert!(mtu < 576 || f.rate_mbps > 98.0, "{mtu}: {} Mb/s", f.rate_mbps);
    }
}

/// Two classes of htb that borrow, and both kinds of traffic.
fn classes() -> Lab {
    let class = |id: &str, qdisc: &str| {
        json!({"id": id, "parent": "1", "rate_bps": bps(4.0), "ceil_bps": bps(12.0), "burst_bytes": 1600,
               "cburst_bytes": 1600, "quantum_bytes": 3028, "qdisc": qdisc})
    };
    let root = json!({"id": "1", "rate_bps": bps(12.0), "ceil_bps": bps(12.0), "burst_bytes": 1600,
                      "cburst_bytes": 1600, "quantum_bytes": 3028});
    let mut l = lab(3.0, 0.0).link("l", 20.0, "htb default a").tcp("f", "cubic", 10.0, json!({}));
    l.0["links"][0]["classes"] = json!([root, class("a", "pie"), class("b", "dualpi2")]);
    l.0["links"][0]["filters"] = json!([{"class": "b", "ecn": "ect1"}]);
    l.tcp("g", "prague", 10.0, json!({}))
}

fn numbers(id: &str, rate: f64, ceil: f64, prio: u8) -> Value {
    json!({"id": id, "rate_bps": bps(rate), "ceil_bps": bps(ceil), "burst_bytes": 3000,
           "cburst_bytes": 1600, "prio": prio, "quantum_bytes": 1514})
}

/// A class that is changed live changes as one that was planned, however the run is cut.
#[test]
fn a_class_changed_live_is_one_that_was_planned() {
    let mut queue = numbers("b", 3.0, 9.0, 2);
    queue["qdisc"] = "fq_codel".into();
    let mut planned = [
        json!({"time_ns": ns(0.5), "link": "l", "classes": [numbers("a", 8.0, 12.0, 1)]}),
        json!({"time_ns": ns(1.0), "link": "l", "classes": [numbers("1", 9.0, 10.0, 0), queue]}),
        json!({"time_ns": ns(1.0), "link": "l", "rate_bps": bps(8.0)}),
        json!({"time_ns": ns(2.0), "link": "l", "classes": [{"id": "a", "qdisc": "tbf rate 2mbit burst 3k limit 30k"}]}),
    ];
    let mut live = Live::default();
    let mut ask = |request: Value| -> Value {
        let answer: Value = serde_json::from_str(&live.ask(&request.to_string())).expect("JSON");
        assert!(answer["ok"].is_object(), "{request}: {answer}");
        answer["ok"].clone()
    };
    let mut run = classes().0;
    ask(json!({"do": "start", "run": run}));
    let mut reports = Vec::new();
    for step in 1..=60 {
        let now = ns(0.05 * f64::from(step));
        ask(json!({"do": "advance", "until_ns": now}));
        for change in planned.iter_mut().filter(|change| change["time_ns"] == now) {
            change["time_ns"] = ask(json!({"do": "change", "change": change}))["time_ns"].clone();
        }
        reports.push(ask(json!({"do": "report"})));
    }
    run["at"] = json!(planned);
    let batch = ask(json!({"do": "batch", "run": run}));
    let last = reports.last().expect("many");
    assert_eq!((&last["flows"], &last["links"]), (&batch["flows"], &batch["links"]));
    run["at"] = json!([]);
    let unchanged = ask(json!({"do": "batch", "run": run}));
    assert_ne!(unchanged["links"], batch["links"]);
}

/// What cannot change of classes is a sentence.
#[test]
fn what_cannot_change_of_classes_is_told() {
    let refused = |l: Lab, change: Value| {
        let l = l.at(1.0, "l", change);
        Run::from_json(&l.0.to_string()).expect_err("it cannot change").0
    };
    let with = |key: &str, value: Value| {
        let mut found = numbers("a", 4.0, 12.0, 0);
        found[key] = value;
        json!({"classes": [found]})
    };
    let bands = || {
        let mut l =
            lab(3.0, 0.0).link("l", 20.0, "prio bands 2 priomap 0 1 1 1 0 1 0 0 1 1 1 1 1 1 1 1");
        l.0["links"][0]["classes"] =
            json!([{"id": "1", "qdisc": "pie"}, {"id": "2", "qdisc": "pie"}]);
        l
    };
    for (l, change, said) in [
        (classes(), with("id", "c".into()), "class c is not there, and none comes while it runs"),
        (classes(), with("parent", "1".into()), "class a keeps its parent"),
        (
            classes(),
            with("ceil_bps", 1.into()),
            "needs a rate above 0 and a ceil that is not below it",
        ),
        (classes(), with("prio", 8.into()), "needs a prio of 0 to 7"),
        (classes(), json!({"classes": [{"id": "a", "burst_bytes": 3000}]}), "needs a rate above 0"),
        (classes(), json!({"classes": [{"id": "a"}]}), "class a changes by nothing"),
        (
            classes(),
            json!({"classes": [{"id": "1", "qdisc": "pie"}]}),
            "class 1 has others below it",
        ),
        (
            classes(),
            json!({"qdisc": "pie"}),
            "link \"l\" has classes, whose rates and qdiscs change",
        ),
        (bands(), json!({"classes": [numbers("1", 4.0, 4.0, 0)]}), "class 1 is a band of prio"),
        (lab(3.0, 0.0).link("l", 20.0, "pie"), with("id", "a".into()), "link \"l\" has no classes"),
    ] {
        let sentence = refused(l, change);
        assert!(sentence.contains(said), "{sentence}, not {said}");
    }
    let mut l = classes();
    l.0["at"] =
        json!([{"time_ns": 1, "flow": "f", "count": 1, "classes": [{"id": "a", "qdisc": "pie"}]}]);
    let sentence = Run::from_json(&l.0.to_string()).expect_err("no link is named").0;
    assert!(sentence.contains("those of a link"), "{sentence}");
}

/// Packets that were thrown away, and not for an overflow; the link's own row.
fn thrown_away(l: &Lab) -> (u64, u64) {
    let r = l.run();
    let link = r.queue("l", "all");
    (link.dropped_packets - link.dropped_overflow_packets, link.dropped_packets)
}

/// `tc qdisc change` to the same kind keeps what waits, in a class too; another kind loses it.
#[test]
fn another_limit_keeps_what_waits() {
    let flood =
        |qdisc: &str| lab(3.0, 0.0).link("l", 10.0, qdisc).cbr("u", 12.0, "not-ect", json!({}));
    let at = |l: Lab, qdisc: &str| l.at(2.0, "l", json!({"qdisc": qdisc}));
    let bigger = at(flood("pfifo limit 100"), "pfifo limit 200");
    assert_eq!(thrown_away(&bigger).0, 0);
    // 100 packets of 1.2 ms waited and go on waiting.
    let sojourns =
        bigger.with("sample_ns", 10_000_000).run().queue_series("l", "all", "sojourn_ms");
    assert!(sojourns.iter().all(|(t, ms)| *t < 1.0 || *ms > 118.0), "{sojourns:?}");
    assert!(thrown_away(&at(flood("pfifo limit 100"), "bfifo limit 200000")).0 >= 99);
    // The kernel's red begins anew.
    let red = "red limit 400000 min 100000 max 300000 avpkt 1500 burst 80";
    assert!(thrown_away(&at(flood(red), red)).0 > 100);

    let class = |qdisc: &str| {
        let mut one = numbers("a", 10.0, 10.0, 0);
        one["qdisc"] = qdisc.into();
        let mut l =
            lab(3.0, 0.0).link("l", 20.0, "htb default a").cbr("u", 12.0, "not-ect", json!({}));
        l.0["links"][0]["classes"] = json!([one]);
        l.at(2.0, "l", json!({"classes": [{"id": "a", "qdisc": "pfifo limit 200"}]}))
    };
    assert_eq!(thrown_away(&class("pfifo limit 100")).0, 0);
    assert!(thrown_away(&class("pfifo_head_drop limit 100")).0 >= 99);
}

/// A shaper that adapts every 200 ms, as cake-autorate does, loses nothing.
#[test]
fn a_shaper_adapts_without_a_loss() {
    let adapting = |first: &str, others: [&str; 2]| {
        let l = lab(6.0, 0.0).link("l", 100.0, first).cbr("u", 11.0, "ect0", json!({}));
        (1..29)
            .fold(l, |l, i| l.at(0.2 * f64::from(i), "l", json!({"qdisc": others[i as usize % 2]})))
    };
    for name in ["cake", "lfq_cobalt", "cnq_cobalt"] {
        let rates = ["10mbit", "11500kbit"].map(|rate| format!("{name} bandwidth {rate}"));
        let l = adapting(&rates[0], rates.each_ref().map(|text| &**text));
        assert_eq!(thrown_away(&l).1, 0, "{name}");
    }
    let tbf = ["10mbit", "11500kbit"].map(|rate| format!("tbf rate {rate} burst 5k limit 800k"));
    assert_eq!(thrown_away(&adapting(&tbf[0], tbf.each_ref().map(|text| &**text))).1, 0);
    let mut one = numbers("a", 10.0, 10.0, 0);
    one["qdisc"] = "fq_codel".into();
    let mut l = lab(6.0, 0.0).link("l", 100.0, "htb default a").cbr("u", 11.0, "ect0", json!({}));
    l.0["links"][0]["classes"] = json!([one]);
    let l = (1..29).fold(l, |l, i| {
        let rate = [10.0, 11.5][i as usize % 2];
        l.at(0.2 * f64::from(i), "l", json!({"classes": [numbers("a", rate, rate, 0)]}))
    });
    assert_eq!(thrown_away(&l).1, 0);
}

/// Cake with other tins counts what waits in them under their new names, and loses none.
#[test]
fn cakes_tins_change_with_what_waits_in_them() {
    let l = lab(4.0, 0.0).with("sample_ns", 100_000_000).link(
        "l",
        100.0,
        "cake bandwidth 8mbit diffserv4 rtt 10s",
    );
    let l = l.cbr("u", 12.0, "not-ect", json!({}));
    let l = l.at(2.0, "l", json!({"qdisc": "cake bandwidth 8mbit diffserv8 rtt 10s"}));
    let r = l.run();
    let at = |queue: &str, time: f64| {
        let series = r.queue_series("l", queue, "backlog_packets");
        series.into_iter().find(|(t, _)| (t - time).abs() < 1e-9).map(|(_, packets)| packets)
    };
    // Best effort has number 0 of four and 2 of eight.
    let before = at("Best Effort", 2.0).expect("a tin of four");
    assert!(before > 600.0, "{before}");
    let stays = at("Tin 0", 2.1).expect("a tin of eight");
    assert!((stays - before).abs() <= 70.0, "{before} {stays}");
    let new = at("Tin 2", 2.1).expect("a tin of eight");
    assert!(new > 0.0 && new <= 100.0, "{new}");
}

/// Of netem, what the words do not name stays or not as in the kernel; these are its numbers.
#[test]
fn an_impairment_keeps_what_its_kernel_keeps() {
    let after = |first: &str, then: &str| {
        let l = lab(10.0, 0.0).with("sample_ns", 100_000_000).link("l", 1000.0, "pfifo");
        let mut l = l.cbr("u", 12.0, "ect0", json!({})).impair("l", "forward", first);
        let change = json!({"time_ns": ns(5.0), "impair": "i", "netem": then});
        l.0["at"].as_array_mut().expect("a list").push(change);
        let r = l.run();
        let rates = r.flow_series("u", "rate_mbps");
        let late: Vec<f64> =
            rates.iter().filter(|(t, _)| *t > 6.0).map(|(_, mbps)| *mbps).collect();
        let rate = late.iter().sum::<f64>() / late.len() as f64;
        (rate, r.flow("u").ce_pct)
    };
    let near = |rate: f64, expected: f64| (rate - expected).abs() < 0.02 * expected;
    let (rate, _) = after("rate 5mbit delay 10ms limit 100", "delay 20ms limit 100");
    assert!(near(rate, 5.0), "{rate} Mb/s");
    // Correlated by a half, numbers crowd around one half: of 30 %, 12.9 % remain.
    let (rate, _) = after("loss 30% 50% limit 10000", "loss 30% limit 10000");
    assert!(near(rate, 12.0 * 0.871), "{rate} Mb/s");
    let (rate, _) = after("loss 30% 50% limit 10000", "loss 30% 0% limit 10000");
    assert!(near(rate, 12.0 * 0.7), "{rate} Mb/s");
    let (rate, ce) = after("loss 20% ecn limit 10000", "loss 20% limit 10000");
    assert!(near(rate, 12.0), "{rate} Mb/s, {ce:?} % CE");
    // Without a word about it, loss ends.
    let (rate, _) = after("loss 20% limit 10000", "limit 10000");
    assert!(near(rate, 12.0), "{rate} Mb/s");
}
