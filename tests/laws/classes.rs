//! Trees of classes: who gets what from htb by its rates, ceilings, priorities and quanta, and from prio by its bands.
//! Every source overloads its class, unless it says otherwise, so that shares follow from the tree alone.

use serde_json::{Value, json};

use crate::lab::{FRAME, Lab, agrees, between, bps, lab};

const LINK: f64 = 20.0;
/// What the classes have together.
const ALL: f64 = 18.0;

fn class(id: &str, rate: f64, ceil: f64, prio: u8, quantum: u32) -> Value {
    json!({"id": id, "parent": "1", "rate_bps": bps(rate), "ceil_bps": bps(ceil), "burst_bytes": 1600,
           "cburst_bytes": 1600, "prio": prio, "quantum_bytes": quantum, "qdisc": "pfifo limit 30"})
}

/// One source per class, which a filter finds by its DSCP; what the first sends no filter takes.
fn tree(classes: &[Value], mbps: &[f64]) -> Lab {
    let root = json!({"id": "1", "rate_bps": bps(ALL), "ceil_bps": bps(ALL), "burst_bytes": 1600,
                      "cburst_bytes": 1600, "quantum_bytes": 1000});
    let filters: Vec<_> =
        (1..classes.len()).map(|i| json!({"class": classes[i]["id"], "dscp": i})).collect();
    let mut all = classes.to_vec();
    all.push(root);
    let default = classes[0]["id"].as_str().expect("a number");
    let mut lab = lab(12.0, 2.0).link("l", LINK, &format!("htb default {default}"));
    lab.0["links"][0]["classes"] = all.into();
    lab.0["links"][0]["filters"] = filters.into();
    for (i, mbps) in mbps.iter().enumerate() {
        lab = lab.cbr(&format!("f{i}"), *mbps, "not-ect", json!({"dscp": i}));
    }
    lab
}

fn rates(lab: &Lab, ids: &[&str]) -> Vec<f64> {
    let found = lab.run();
    let all = found.queue("l", "all");
    let rows: Vec<_> = ids.iter().map(|id| found.queue("l", id)).collect();
    for (of_all, sum) in [
        (all.arrived_packets, rows.iter().map(|r| r.arrived_packets).sum::<u64>()),
        (all.sent_packets, rows.iter().map(|r| r.sent_packets).sum()),
        (all.dropped_packets, rows.iter().map(|r| r.dropped_packets).sum()),
    ] {
        assert_eq!(of_all, sum, "every packet is of one class");
    }
    rows.iter().map(|row| row.rate_mbps).collect()
}

fn longest(found: &crate::lab::Result, class: &str) -> f64 {
    found.queue("l", class).sojourn_ms_max.expect("it had packets")
}

/// A host is the same one where it sends data, where it sends ACKs, and where it gets them.
#[test]
fn a_filter_finds_all_packets_of_a_host() {
    let office = 3;
    let both = json!([{"id": "1", "qdisc": "pfifo"}, {"id": "2", "qdisc": "pfifo"}, {"id": "3", "qdisc": "pfifo"}]);
    let mut lab = lab(3.0, 0.5).with("hosts", json!(["office"])).link("l", LINK, "prio");
    lab.0["links"][0]["classes"] = both;
    lab.0["links"][0]["filters"] =
        json!([{"class": "1", "host": office}, {"class": "2", "host": 2}]);
    let found = lab
        .tcp("up", "reno", 10.0, json!({"host": office, "pace_bps": bps(4.0)}))
        .tcp(
            "down",
            "reno",
            10.0,
            json!({"peer_host": office, "pace_bps": bps(4.0), "reverse_path": ["l"]}),
        )
        .tcp("rest", "reno", 10.0, json!({"pace_bps": bps(4.0)}))
        .run();
    let sent = |name| found.queue("l", name).sent_packets;
    let of = |flow| found.flow(flow).sent_packets;
    assert!(of("rest") > 500 && of("up") > 500);
    between("rest and its class", sent("2") as f64 / of("rest") as f64, 0.99, 1.01);
    assert_eq!(sent("3"), 0, "both others are of the office");
    let acks = sent("1") - of("up") - of("down");
    between("ACKs of what comes down", acks as f64 / of("down") as f64, 0.3, 1.0);
}

/// Each has its rate, and what is left is shared by quantum.
#[test]
fn htb_shares_what_is_left_by_quantum() {
    let classes = [class("10", 3.0, 18.0, 0, 1514), class("20", 6.0, 18.0, 0, 2 * 1514)];
    let found = rates(&tree(&classes, &[25.0, 25.0]), &["10", "20"]);
    agrees("one quantum", found[0], 3.0 + (ALL - 9.0) / 3.0, 0.01);
    agrees("two quanta", found[1], 6.0 + (ALL - 9.0) * 2.0 / 3.0, 0.01);
}

/// A class that sends less than its rate leaves the rest to the others; a ceiling is never exceeded.
#[test]
fn htb_lends_up_to_the_ceiling() {
    let classes = [class("10", 8.0, 18.0, 0, 1514), class("20", 4.0, 9.0, 0, 1514)];
    let found = rates(&tree(&classes, &[2.0, 25.0]), &["10", "20"]);
    agrees("what it sends", found[0], 2.0, 0.01);
    agrees("its ceiling", found[1], 9.0, 0.005);
}

/// Of those that borrow, the lower prio gets all; its rate nobody loses.
#[test]
fn htb_lends_by_priority() {
    let classes = [class("10", 3.0, 18.0, 1, 1514), class("20", 4.0, 18.0, 0, 1514)];
    let found = rates(&tree(&classes, &[25.0, 25.0]), &["10", "20"]);
    agrees("its rate alone", found[0], 3.0, 0.01);
    agrees("all the rest", found[1], ALL - 3.0, 0.01);
}

/// A middle class lends what is its own before anybody else gets it.
#[test]
fn htb_borrows_from_the_nearest() {
    let mut classes = [
        class("10", 2.0, 18.0, 0, 1514),
        class("20", 2.0, 18.0, 0, 1514),
        class("30", 2.0, 18.0, 0, 1514),
    ];
    let middle = json!({"id": "2", "parent": "1", "rate_bps": bps(14.0), "ceil_bps": bps(18.0),
                        "burst_bytes": 1600, "cburst_bytes": 1600, "quantum_bytes": 1000});
    classes[0]["parent"] = "2".into();
    classes[1]["parent"] = "2".into();
    let mut lab = tree(&classes, &[25.0, 25.0, 25.0]);
    lab.0["links"][0]["classes"].as_array_mut().expect("a list").push(middle);
    let found = rates(&lab, &["10", "20", "30"]);
    // 14 are the middle's, 2 the third's. Whose turn it is below the middle is the same for what it has and for
    // what it borrows, and the end of a round is nearly always met with what it has: so the turn never comes to
    // the third, and the middle's get the 2 that nobody owns. Linux 7.2 gives the same to the packet.
    agrees("the third", found[2], 2.0, 0.002);
    agrees("one of the middle's", found[0], 8.0, 0.002);
    agrees("the other", found[1], 8.0, 0.002);
}

/// A class alone in a tree of the link's rate sends it all, and a burst of it leaves at the link's rate.
#[test]
fn a_queue_in_a_class_is_as_alone() {
    let mut lab = tree(&[class("10", ALL, ALL, 0, 1514)], &[]);
    lab = lab.tcp("a", "cubic", 10.0, json!({}));
    let found = lab.run();
    agrees("a class's rate", found.queue("l", "10").rate_mbps, ALL, 0.002);
    let full = 30.0 * FRAME * 8.0 / (ALL * 1e3);
    between("longest sojourn, ms", longest(&found, "10"), 0.9 * full, 1.02 * full);
}

/// Bands go first in their order; what no filter takes goes by the priomap.
#[test]
fn prio_serves_the_first_band_first() {
    let band = |id: &str| json!({"id": id, "qdisc": "pfifo limit 30"});
    let mut lab = lab(12.0, 2.0).link("l", LINK, "prio bands 3");
    lab.0["links"][0]["classes"] = json!([band("1"), band("2"), band("3")]);
    lab.0["links"][0]["filters"] =
        json!([{"class": "1", "ecn": "ect1"}, {"class": "3", "host": 3}]);
    let lab = lab
        .cbr("l4s", 8.0, "ect1", json!({}))
        .cbr("plain", 9.0, "not-ect", json!({}))
        .cbr("bulk", 9.0, "not-ect", json!({"dscp": 10}))
        .cbr("guest", 9.0, "not-ect", json!({"dscp": 46}));
    let found = lab.run();
    agrees("ECT(1)", found.queue("l", "1").rate_mbps, 8.0, 0.01);
    agrees("best effort", found.queue("l", "2").rate_mbps, 9.0, 0.01);
    agrees("bulk and the guest", found.queue("l", "3").rate_mbps, 3.0, 0.02);
    assert!(found.flow("bulk").drop_pct.is_some_and(|p| p > 50.0));
    assert!(found.flow("guest").drop_pct.is_some_and(|p| p > 50.0));
    let one = FRAME * 8.0 / (LINK * 1e3);
    between("who waits for nobody, ms", longest(&found, "1"), 0.0, 2.1 * one);
}

/// A queue with a clock of its own, held back inside a class, and one with timers.
#[test]
fn leaves_keep_their_own_clocks() {
    let mut classes = [class("10", 9.0, 18.0, 0, 1514), class("20", 9.0, 18.0, 0, 1514)];
    classes[0]["qdisc"] = "tbf rate 5mbit burst 5k limit 30k".into();
    classes[1]["qdisc"] = "pie".into();
    let found = rates(&tree(&classes, &[25.0, 30.0]), &["10", "20"]);
    agrees("the token bucket", found[0], 5.0, 0.01);
    agrees("the rest", found[1], ALL - 5.0, 0.01);
}

/// What a change tells of a class: all but where it is.
fn changed(id: &str, rate: f64, ceil: f64, prio: u8, quantum: u32) -> Value {
    let mut found = class(id, rate, ceil, prio, quantum);
    found.as_object_mut().expect("an object").retain(|key, _| key != "parent" && key != "qdisc");
    found
}

/// A second before measuring begins.
fn then(lab: Lab, classes: &[Value]) -> Lab {
    lab.at(1.0, "l", json!({"classes": classes}))
}

/// The classes share by the numbers that they have since.
#[test]
fn htb_shares_by_what_its_classes_have_become() {
    let before = [class("10", 3.0, 18.0, 0, 1514), class("20", 6.0, 18.0, 0, 1514)];
    let both = tree(&before, &[25.0, 25.0]);
    let of = |lab: Lab, classes: &[Value]| rates(&then(lab, classes), &["10", "20"]);
    let found = of(both.clone(), &[changed("10", 8.0, 18.0, 0, 1514)]);
    agrees("a higher rate", found[0], 8.0 + (ALL - 14.0) / 2.0, 0.01);
    agrees("beside it", found[1], 6.0 + (ALL - 14.0) / 2.0, 0.01);
    let found = of(both.clone(), &[changed("20", 6.0, 7.0, 0, 1514)]);
    agrees("a lower ceiling", found[1], 7.0, 0.005);
    agrees("beside it", found[0], ALL - 7.0, 0.01);
    let found = of(both.clone(), &[changed("10", 3.0, 18.0, 0, 2 * 1514)]);
    agrees("two quanta", found[0], 3.0 + (ALL - 9.0) * 2.0 / 3.0, 0.01);
    agrees("one quantum", found[1], 6.0 + (ALL - 9.0) / 3.0, 0.01);
    let root = json!({"id": "1", "rate_bps": bps(12.0), "ceil_bps": bps(12.0), "burst_bytes": 1600,
                      "cburst_bytes": 1600, "quantum_bytes": 1000});
    let found = of(both, &[root]);
    agrees("of a smaller whole", found[0], 3.0 + (12.0 - 9.0) / 2.0, 0.01);
    agrees("and the other", found[1], 6.0 + (12.0 - 9.0) / 2.0, 0.01);
}

/// Before and after a change a class sends at its rate, to the packet.
#[test]
fn a_class_has_each_of_its_rates_for_its_time() {
    let lab = tree(&[class("10", 5.0, 5.0, 0, 1514)], &[25.0]).with("warmup_ns", 0);
    let lab = lab.at(4.0, "l", json!({"classes": [changed("10", 2.0, 2.0, 0, 1514)]}));
    let found = lab.at(7.0, "l", json!({"classes": [changed("10", 11.0, 11.0, 0, 1514)]})).run();
    let sent = found.queue("l", "10").sent_packets as f64;
    let bits = 5e6 * 4.0 + 2e6 * 3.0 + 11e6 * 5.0;
    // The bucket is full at first, and the last packet makes it empty; a packet that is paid at the old rate leaves at
    // each change.
    between("packets", sent - bits / 8.0 / FRAME, -2.0, 4.0);
}

/// A class with the lower prio that never runs dry keeps its turn until it does.
#[test]
fn a_new_prio_waits_for_an_empty_queue() {
    let before = [class("10", 3.0, 18.0, 1, 1514), class("20", 4.0, 18.0, 0, 1514)];
    let change = [changed("10", 3.0, 18.0, 1, 1514), changed("20", 4.0, 18.0, 2, 1514)];
    let found = rates(&then(tree(&before, &[25.0, 25.0]), &change), &["10", "20"]);
    agrees("it goes on as before", found[1], ALL - 3.0, 0.01);
    // The same, whose source is silent for a while after the change.
    let mut lab = tree(&before, &[25.0, 25.0]);
    let counts = lab.0["at"].as_array_mut().expect("a list");
    for (at, count) in [(1.2, 0), (1.4, 1)] {
        counts.push(json!({"time_ns": (at * 1e9) as u64, "flow": "f1", "count": count}));
    }
    let found = rates(&then(lab, &change), &["10", "20"]);
    agrees("the other gets all the rest", found[0], ALL - 4.0, 0.01);
    agrees("its rate alone", found[1], 4.0, 0.01);
}

/// What waits in a replaced queue is lost and counted as of a link's; the other classes notice nothing.
#[test]
fn a_replaced_queue_of_a_class_counts_as_a_links() {
    let fifo = |limit: u32| format!("pfifo limit {limit}");
    let source = |lab: Lab| lab.cbr("f0", 8.0, "not-ect", json!({})).with("warmup_ns", 0);
    let replaced = json!("dualpi2");
    let plain = source(lab(6.0, 0.0).link("l", 4.0, &fifo(4000)));
    let plain = plain.at(3.0, "l", json!({"qdisc": replaced})).run();
    let mut classes = [class("10", 4.0, 4.0, 0, 1514), class("20", 9.0, 9.0, 0, 1514)];
    classes[0]["qdisc"] = fifo(4000).into();
    let mut both = source(tree(&classes, &[])).cbr("f1", 5.0, "not-ect", json!({"dscp": 1}));
    both = both.with("duration_ns", 6_000_000_000_u64);
    let alone = both.run();
    let both = both.at(3.0, "l", json!({"classes": [{"id": "10", "qdisc": replaced}]})).run();
    let (of_link, of_class) = (plain.queue("l", "all"), both.queue("l", "10"));
    let waited = (8e6 - 4e6) * 3.0 / 8.0 / FRAME;
    // Besides, DualPI2 drops in the second half; it draws other numbers, and the shaper may have a packet.
    between("of the link", of_link.dropped_packets as f64, waited, 2.0 * waited);
    agrees("of the class", of_class.dropped_packets as f64, of_link.dropped_packets as f64, 0.01);
    assert_eq!(both.queue("l", "all").dropped_packets, of_class.dropped_packets);
    assert_eq!(both.flow("f0").dropped_packets, of_class.dropped_packets);
    assert_eq!(alone.queue("l", "10").dropped_packets, 0, "nothing was replaced");
    let (before, after) = (alone.queue("l", "20"), both.queue("l", "20"));
    assert_eq!(after.sent_packets, before.sent_packets);
    assert_eq!(after.dropped_packets, 0);
    agrees("the rate goes on", of_class.rate_mbps, 4.0, 0.002);
}

/// A leaf that holds packets back, in a band: they are lost with it, and its clock is no longer asked.
#[test]
fn a_band_gets_another_queue() {
    let band = |id: &str, qdisc: &str| json!({"id": id, "qdisc": qdisc});
    let lab = lab(4.0, 0.0).link("l", LINK, "prio bands 2 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0");
    let mut lab = lab.cbr("f", 4.0, "not-ect", json!({})).with("sample_ns", 1_000_000_000);
    lab.0["links"][0]["classes"] =
        json!([band("1", "netem delay 500ms limit 1000"), band("2", "pfifo")]);
    let found = lab.at(2.0, "l", json!({"classes": [band("1", "pfifo")]})).run();
    let lost = 0.5 * 4e6 / 8.0 / FRAME;
    between("lost", found.queue("l", "1").dropped_packets as f64, lost - 1.0, lost + 1.0);
    let rate = found.queue_series("l", "1", "rate_mbps");
    agrees("half a second less", rate[0].1, 2.0, 0.01);
    agrees("before", rate[1].1, 4.0, 0.01);
    agrees("at once", rate[2].1, 4.0, 0.01);
}

/// An htb at its ceiling gives nothing, and the next band of the prio above it has its turn. What it drops counts for its
/// class, and a class changes in there as anywhere.
#[test]
fn a_band_may_hold_classes() {
    let inside = |id: &str, mbps: f64| {
        let mut inside = class(id, mbps, mbps, 0, 1514);
        inside.as_object_mut().expect("a table").remove("parent");
        inside
    };
    let mut lab =
        lab(12.0, 2.0).link("l", LINK, "prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1");
    lab.0["links"][0]["classes"] = json!([
        {"id": "1", "qdisc": "htb default 20"}, inside("1:10", 3.0), inside("1:20", 5.0),
        {"id": "2", "qdisc": "pfifo limit 30"},
    ]);
    lab.0["links"][0]["filters"] = json!([
        {"class": "1", "dscp": 1}, {"class": "1", "dscp": 2}, {"class": "1:10", "dscp": 1},
    ]);
    for (i, mbps) in [25.0, 10.0, 10.0].into_iter().enumerate() {
        lab = lab.cbr(&format!("f{i}"), mbps, "not-ect", json!({"dscp": i}));
    }
    let found = rates(&lab, &["1:10", "1:20", "2"]);
    agrees("a class in the band", found[0], 3.0, 0.005);
    agrees("the default there", found[1], 5.0, 0.005);
    agrees("the next band", found[2], LINK - 8.0, 0.005);
    let to = inside("1:10", 6.0);
    let mut changed = to.clone();
    changed.as_object_mut().expect("a table").remove("qdisc");
    let changed = lab.at(1.0, "l", json!({"classes": [changed]}));
    let found = rates(&changed, &["1:10", "1:20", "2"]);
    agrees("with another rate", found[0], 6.0, 0.005);
    agrees("the rest", found[2], LINK - 11.0, 0.005);
}

/// htb asks the queue in a class for its next packet, whose own bands go in their order.
#[test]
fn a_class_may_hold_bands() {
    let mut classes = [class("10", 6.0, 6.0, 0, 1514), class("20", 12.0, 12.0, 0, 1514)];
    classes[0]["qdisc"] = "prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1".into();
    let mut lab = tree(&classes, &[25.0, 25.0, 4.0]);
    let all = lab.0["links"][0]["classes"].as_array_mut().expect("a list");
    all.extend(["1", "2"].map(|n| json!({"id": format!("10:{n}"), "qdisc": "pfifo limit 30"})));
    let filters = lab.0["links"][0]["filters"].as_array_mut().expect("a list");
    filters.extend([json!({"class": "10:1", "dscp": 2}), json!({"class": "10", "dscp": 2})]);
    let found = rates(&lab, &["10:1", "10:2", "20"]);
    agrees("the first band", found[0], 4.0, 0.005);
    agrees("what it leaves of the class", found[1], 2.0, 0.01);
    agrees("the other class", found[2], 12.0, 0.005);
}

/// A tbf with a queue in its class, in a band of prio, has its rate and no more, and its queue signals: PIE holds the
/// delay of a source above the rate by drops. The other band has the rest of the link.
#[test]
fn tbf_caps_a_band_of_prio_and_its_queue_keeps_the_delay() {
    let mut lab =
        lab(30.0, 10.0).link("l", LINK, "prio bands 2 priomap 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1");
    lab.0["links"][0]["classes"] = json!([
        {"id": "1", "qdisc": "tbf rate 5mbit burst 10kb limit 1"},
        {"id": "1:1", "qdisc": "pie target 5ms limit 20000"},
        {"id": "2", "qdisc": "pfifo limit 20"},
    ]);
    lab.0["links"][0]["filters"] = json!([{"class": "1", "dscp": 1}]);
    let lab = lab.cbr("capped", 6.0, "not-ect", json!({"dscp": 1})).cbr(
        "rest",
        30.0,
        "not-ect",
        json!({}),
    );
    let found = lab.run();
    agrees("the cap", found.queue("l", "1:1").rate_mbps, 5.0, 0.001);
    agrees("the rest", found.queue("l", "2").rate_mbps, LINK - 5.0, 0.001);
    let capped = found.queue("l", "1:1");
    assert_eq!(capped.dropped_overflow_packets, 0);
    agrees("drops of PIE", capped.drop_pct.expect("it had packets"), 100.0 / 6.0, 0.02);
    let mean_ms = capped.sojourn_ms_mean.expect("it had packets");
    // PIE's target and the packet that waits for tokens.
    assert!(mean_ms > 4.0 && mean_ms < 11.0, "{mean_ms} ms");
}

/// Flows that events begin send for their life: what they deliver is the rate of their application for all of it. The
/// slow start of each loses less than a round trip, and what is under way at the end of a life arrives.
#[test]
fn flows_of_events_send_for_their_life() {
    let events = json!({"interval_ns": 250_000_000, "flows": 3.0, "most": 20, "within_ns": 500_000_000,
                        "life_ns": 2_000_000_000});
    let more =
        json!({"count": 0, "rate_bps": bps(1.0), "events": events, "stop_ns": 50_000_000_000_u64});
    let lab =
        lab(55.0, 0.0).link("l", 1000.0, "pfifo limit 10000").tcp("short", "cubic", 4.0, more);
    let run = l4slab_core::scenario::Run::from_json(&lab.0.to_string()).expect("a run");
    let lives = run.flows[0].lives(run.seed, run.duration_ns);
    let seconds: f64 = lives.iter().map(|(from, until)| until.since(*from).as_secs_f64()).sum();
    assert!(lives.len() > 400 && lives.iter().all(|(_, until)| until.0 <= 50_000_000_000));
    let row = lab.run();
    let row = row.flow("short");
    assert_eq!(row.count as usize, lives.len());
    agrees("payload", row.goodput_mbps * 55.0, seconds, 0.01);
}

/// Plans that nobody uses change nothing for the one that is used, to the last bit: a queue with a shaper and timers of
/// its own, hosts and ACKs among a thousand. They have rows in `links` and none in the series.
#[test]
fn idle_plans_change_nothing() {
    let of = |plans: u64| {
        let host = |n: u64| 2 + n;
        let leaf = |n: u64, parent: &str| {
            json!({"id": format!("{n:x}"), "parent": parent, "rate_bps": bps(2.0), "ceil_bps": bps(8.0), "quantum_bytes": 3000,
                   "burst_bytes": 1600, "cburst_bytes": 1600, "qdisc": "cake bandwidth 7mbit ack-filter"})
        };
        let site = json!({"id": "1", "rate_bps": bps(ALL), "ceil_bps": bps(ALL), "quantum_bytes": 1000, "burst_bytes": 1600, "cburst_bytes": 1600});
        let mut l = lab(4.0, 1.0).link("l", LINK, "htb default 2");
        l.0["links"][0]["classes"] =
            [site].into_iter().chain((2..plans + 2).map(|n| leaf(n, "1"))).collect();
        // The filter of the used plan is the last one.
        l.0["links"][0]["filters"] = (0..plans)
            .rev()
            .map(|n| json!({"class": format!("{:x}", n + 2), "host": host(n)}))
            .collect();
        l.with("hosts", (0..plans).map(|n| format!("plan-{n}")).collect::<Vec<_>>())
            .tcp("web", "cubic", 20.0, json!({"peer_host": host(0), "count": 3}))
            .tcp("up", "prague", 20.0, json!({"host": host(0), "reverse_path": ["l"]}))
            .run()
    };
    let (one, many) = (of(1), of(1000));
    assert_eq!(many.0.links.len(), 1001);
    for name in ["web", "up"] {
        assert_eq!(format!("{:?}", one.flow(name)), format!("{:?}", many.flow(name)));
    }
    for name in ["all", "2"] {
        assert_eq!(format!("{:?}", one.queue("l", name)), format!("{:?}", many.queue("l", name)));
    }
    assert_eq!(format!("{:?}", one.0.series), format!("{:?}", many.0.series));
    assert!(one.queue("l", "2").arrived_packets > 1000);
}
