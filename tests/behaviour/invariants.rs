//! What holds in every run, over random ones: conservation of packets, no CE on Not-ECT, the same
//! bits from the same seed, capacity, monotone time. PROPTEST_CASES sets their number.

use l4slab_core::aqm::registry;
use l4slab_core::aqm::service::Band;
use l4slab_core::cc::media::registry as media_controllers;
use l4slab_core::cc::registry as controllers;
use l4slab_core::live::Live;
use l4slab_core::rng::Rng;
use l4slab_core::scenario::Run;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use crate::lab::{Lab, Result, agrees, bps, columns, lab, ns};

/// Queues whose drops leave something, and which hold nothing back unless they say `maxrate`.
const QDISCS: &[&str] = &[
    "pfifo limit 1",
    "pfifo limit 2",
    "pfifo limit 5",
    "pfifo",
    "bfifo limit 10000",
    "pfifo_head_drop limit 7",
    "red limit 30000 min 3000 avpkt 1000 ecn adaptive",
    "codel ecn limit 50",
    "codel ce_threshold 1ms",
    "fq_codel limit 60 flows 4",
    "fq_codel flows 1 target 1ms interval 10ms",
    "fq limit 60 flow_limit 20 ce_threshold 2ms",
    "fq maxrate 1mbit",
    "dualpi2",
    "dualpi2 limit 20 target 3ms",
    "dualpi2 overflow limit 50",
    "dualpi2 any_ect coupling_factor 4 drop_enqueue",
    "dualpi2 step_thresh 5p min_qlen_step 2 classic_protection 50%",
];
const RATES: &[f64] = &[0.5, 2.0, 10.0, 40.0];

fn moderate_queue() -> BoxedStrategy<String> {
    pick(QDISCS).prop_map(str::to_owned).boxed()
}

/// Whatever `tc` would take, of every queue of the registry.
fn any_queue() -> BoxedStrategy<String> {
    (0..registry::listing().len(), any::<u64>()).prop_map(|(i, seed)| of_kind(i, seed)).boxed()
}

fn of_kind(i: usize, seed: u64) -> String {
    registry::random_string(registry::listing()[i].info.name, &mut Rng::stream(seed, "queue", 0))
}

fn pick<T: Copy + std::fmt::Debug + 'static>(from: &'static [T]) -> impl Strategy<Value = T> {
    proptest::sample::select(from)
}

/// Links in order, some left out.
fn path(links: usize, may_be_empty: bool) -> impl Strategy<Value = Vec<String>> {
    let subsets = if may_be_empty { 0..1_u32 << links } else { 1..1_u32 << links };
    subsets.prop_map(move |set| {
        (0..links).filter(|i| set >> i & 1 == 1).map(|i| format!("l{i}")).collect()
    })
}

fn tcp(links: usize) -> impl Strategy<Value = Value> {
    let ecn = || pick(&["off", "classic", "sce", "accecn"]);
    let reverse = prop_oneof![3 => Just(Vec::new()).boxed(), 1 => path(links, true).boxed()];
    (
        (
            (0..controllers::listing().len()).prop_map(|i| controllers::listing()[i].info.name),
            ecn(),
            ecn(),
            path(links, false),
            reverse,
        ),
        (0_u64..80, 1_u32..4, 0_u64..1500, any::<bool>()),
        (proptest::option::of(1_u64..200_000), proptest::option::of(100_000_u64..20_000_000)),
    )
        .prop_map(
            |((cc, ecn, peer, path, reverse), (rtt, count, start, stops), (bytes, pace))| {
                json!({
                    "cc": cc, "ecn": ecn, "peer_ecn": peer, "path": path, "reverse_path": reverse,
                    "rtt_ns": rtt * 1_000_000, "count": count, "start_ns": start * 1_000_000,
                    "stop_ns": stops.then_some((start + 700) * 1_000_000),
                    "bytes": bytes, "pace_bps": pace,
                    // No draws of their own, so that the other cases stay what they were.
                    "gso": start % 4 == 0, "gro_ns": (start % 5 == 0).then_some(start * 200),
                })
            },
        )
}

fn cbr(links: usize) -> impl Strategy<Value = Value> {
    (
        pick(&["not-ect", "ect0", "ect1"]),
        path(links, false),
        pick(&[0.1, 1.0, 15.0]),
        (64_u32..9014, 1_u32..20, 1_u32..3, 0_u64..1500, any::<bool>()),
    )
        .prop_map(|(ecn, path, mbps, (size, batch, count, start, stops))| {
            json!({
                "kind": "cbr", "ecn": ecn, "path": path, "rate_bps": bps(mbps), "rtt_ns": 0,
                "packet_bytes": size, "batch": batch, "count": count,
                "start_ns": start * 1_000_000,
                "stop_ns": stops.then_some((start + 400) * 1_000_000),
            })
        })
}

fn udp_prague(links: usize) -> impl Strategy<Value = Value> {
    (path(links, false), (1_u64..80, 200_u32..2000, 1_u32..3, 0_u64..1500, any::<bool>())).prop_map(
        |(path, (rtt, size, count, start, stops))| {
            json!({
                "kind": "udp-prague", "path": path, "rtt_ns": rtt * 1_000_000,
                "packet_bytes": size, "count": count, "start_ns": start * 1_000_000,
                "stop_ns": stops.then_some((start + 400) * 1_000_000),
            })
        },
    )
}

/// Frames over RTP, by any media controller.
fn media(links: usize) -> impl Strategy<Value = Value> {
    let which = (0..media_controllers::listing().len(), any::<bool>(), any::<bool>());
    let sizes = (20_u64..20_000, 3_u64..60, 200_u32..2000);
    let repair = prop::sample::select(vec![None, Some("none"), Some("nack"), Some("nack+fec")]);
    let life = (1_u64..80, 1_u32..3, any::<bool>(), repair);
    (path(links, false), path(links, true), which, sizes, life).prop_map(
        |(path, back, (cc, audio, twcc), (kbps, ms, size), (rtt, count, stops, repair))| {
            json!({
                "kind": "media", "path": path, "reverse_path": back, "rtt_ns": rtt * 1_000_000,
                "cc": media_controllers::listing()[cc].info.name, "count": count,
                "rate_bps": kbps * 1000, "interval_ns": ms * 1_000_000, "packet_bytes": size,
                "encoder": "lognormal", "spread": 0.3, "keyframe_interval_ns": 300_000_000,
                "audio_bps": audio.then_some(20_000), "stop_ns": stops.then_some(900_000_000),
                "feedback": if twcc { "twcc" } else { "ccfb" }, "ecn": "ect1", "repair": repair,
            })
        },
    )
}

/// Web requests, a video with movements, pages, or tests of responsiveness.
fn application(links: usize) -> impl Strategy<Value = Value> {
    let size = (1_u64..3000, 1_u64..50_000);
    let kinds = prop::sample::select(vec!["web", "video", "page", "responsiveness"]);
    (tcp(links), kinds, 3_u64..100, size, any::<bool>()).prop_map(
        |(mut flow, kind, interval, (least, more), moves)| {
            flow["kind"] = json!(kind);
            flow["bytes"] = Value::Null;
            flow["pace_bps"] = Value::Null;
            flow["interval_ns"] = json!(interval * 1_000_000);
            match kind {
                "web" => {
                    flow["size_min_bytes"] = json!(least);
                    flow["size_max_bytes"] = json!(least + more);
                }
                "video" => {
                    flow["rate_bps"] = json!(8 * (least + more) * 1000 / interval);
                    flow["control_interval_ns"] = json!(moves.then_some(interval * 700_000));
                }
                "page" => {
                    flow["interval_ns"] = json!(interval * 5_000_000);
                    flow["scale"] = json!((least as f64 / 3000.0).max(0.001));
                }
                _ => {
                    flow["probe_interval_ns"] = json!(interval * 200_000);
                    flow["connections"] = json!(1 + least % 5);
                    flow["notsent_bytes"] = json!(more);
                    flow["idle_ns"] = json!(interval * 1_000_000);
                }
            }
            flow
        },
    )
}

/// A random run of two seconds through such queues.
fn scenario(queue: fn() -> BoxedStrategy<String>) -> impl Strategy<Value = Lab> {
    (1_usize..=3).prop_flat_map(move |links| scenario_of(links, queue()))
}

/// The same with queues that are often changed by words for the kind that is there.
fn changing_scenario() -> impl Strategy<Value = Lab> {
    let kinds = registry::listing().len();
    (1_usize..=3, 0..kinds).prop_flat_map(|(links, i)| {
        let mine = any::<u64>().prop_map(move |seed| of_kind(i, seed));
        scenario_of(links, prop_oneof![4 => mine, 1 => any_queue()].boxed())
    })
}

fn scenario_of(links: usize, queue: BoxedStrategy<String>) -> impl Strategy<Value = Lab> {
    let link = (pick(RATES), queue.clone(), pick(&[1_u64, 1600, 20_000]));
    let flow = prop_oneof![
        4 => tcp(links).boxed(),
        2 => cbr(links).boxed(),
        1 => udp_prague(links).boxed(),
        1 => media(links).boxed(),
        1 => application(links).boxed(),
    ];
    let change =
        (0_u64..2000, 0..links, proptest::option::of(pick(RATES)), proptest::option::of(queue));
    let flow_change = (
        0_u64..2000,
        0_usize..6,
        proptest::option::of(0_u64..80),
        proptest::option::of(0_u32..4),
        pick(&[0.1, 1.0, 15.0]),
    );
    (
        any::<u32>(),
        proptest::collection::vec(link, links),
        proptest::collection::vec(flow, 1..=6),
        proptest::collection::vec(change, 0..3),
        proptest::collection::vec(flow_change, 0..4),
    )
        .prop_map(|(seed, links, flows, changes, flow_changes)| {
            let groups = flows.len();
            let mut l = lab(2.0, 0.0)
                .with("seed", seed)
                .with("start_jitter_ns", 20_000_000)
                .with("sample_ns", 50_000_000);
            for (i, (rate, qdisc, burst)) in links.iter().enumerate() {
                l = l.link(&format!("l{i}"), *rate, qdisc);
                l.0["links"][i]["burst_bytes"] = json!(burst);
            }
            for (i, mut flow) in flows.into_iter().enumerate() {
                flow["name"] = json!(format!("f{i}"));
                l.0["flows"].as_array_mut().expect("a list").push(flow);
            }
            // No draws of its own, so that the other cases stay what they were.
            if seed % 3 == 0 {
                l = around_l0(l, seed);
            }
            for (at, link, rate, qdisc) in changes {
                let rate = rate.map(bps);
                let change = json!({"rate_bps": rate, "qdisc": qdisc});
                let with = l.clone().at(at as f64 * 1e-3, &format!("l{link}"), change);
                let refused = Run::from_json(&with.0.to_string()).err();
                if refused.is_none_or(|e| {
                    [
                        "cannot change while it runs",
                        "a change is not modelled",
                        "must not alter that",
                    ]
                    .iter()
                    .all(|text| !e.0.contains(text))
                }) {
                    l = with;
                }
            }
            for (at, flow, rtt, count, rate) in flow_changes.into_iter().filter(|c| c.1 < groups) {
                let is_cbr = l.0["flows"][flow]["kind"] == "cbr";
                l.0["at"].as_array_mut().expect("a list").push(json!({
                    "time_ns": at * 1_000_000, "flow": format!("f{flow}"), "count": count,
                    "rtt_ns": rtt.map(|ms| ms * 1_000_000), "rate_bps": is_cbr.then(|| bps(rate)),
                }));
            }
            l
        })
}

/// A tunnel on the first link, around all flows that cross it.
fn around_l0(l: Lab, seed: u32) -> Lab {
    let flows = l.0["flows"].as_array().expect("a list").iter();
    let crosses = |f: &&Value| f["path"].as_array().is_some_and(|p| p.contains(&json!("l0")));
    let flows: Vec<_> = flows.filter(crosses).map(|f| f["name"].clone()).collect();
    let modes = ["normal", "compatibility", "bleached", "copied"];
    let (mode, window) = (modes[seed as usize / 3 % 4], [0, 2, 64][seed as usize / 12 % 3]);
    let tunnel = json!({"name": "t", "flows": flows, "links": ["l0"], "overhead_bytes": seed % 100, "trailer_bytes": 0,
        "padding_bytes": 1 + seed % 32, "mtu_bytes": 9000, "ecn": mode,
        "copies_dscp": seed.is_multiple_of(2), "replay_window": window});
    l.with("tunnels", if flows.is_empty() { json!([]) } else { json!([tunnel]) })
}

/// Bits that a link could send in the run, and those it may miss or gain by changes of its rate: a
/// packet charged at the old rate holds the link for as long as it takes there.
fn capacity(l: &Lab, link: &str) -> (f64, f64) {
    let spec = l.0["links"].as_array().unwrap().iter().find(|x| x["name"] == link).unwrap();
    let mut rate = spec["rate_bps"].as_u64().unwrap() as f64;
    let mut changes: Vec<&Value> = l.0["at"].as_array().unwrap().iter().collect();
    changes.retain(|c| c["link"] == link && c["rate_bps"].is_u64());
    changes.sort_by_key(|c| c["time_ns"].as_u64());
    let (mut bits, mut since, mut vague) = (0.0, 0.0, 0.0);
    for c in changes {
        let t = c["time_ns"].as_u64().unwrap() as f64 * 1e-9;
        let next = c["rate_bps"].as_u64().unwrap() as f64;
        bits += rate * (t - since);
        vague += LARGEST * 8.0 * (next / rate).max(1.0);
        (rate, since) = (next, t);
    }
    (bits + rate * (l.0["duration_ns"].as_u64().unwrap() as f64 * 1e-9 - since), vague)
}

/// The largest frame, in a tunnel with the largest header and padding.
const LARGEST: f64 = 9014.0 + 99.0 + 31.0;

fn config(cases: u32) -> ProptestConfig {
    // The same cases every time: CI must not depend on luck. PROPTEST_RNG_SEED gives others.
    let rng_seed = match std::env::var("PROPTEST_RNG_SEED") {
        Ok(seed) => RngSeed::Fixed(seed.parse().expect("a number")),
        Err(_) => RngSeed::Fixed(1),
    };
    let cases = std::env::var("PROPTEST_CASES").map_or(cases, |n| n.parse().expect("a number"));
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(64))]

    /// At every instant and every link, packets in = packets out + drops + backlog; and for every
    /// flow, over its whole path.
    #[test]
    fn packets_are_conserved(l in prop_oneof![scenario(any_queue), changing_scenario()]) {
        let mut sim = l.simulation();
        for step in 1..=40 {
            sim.run_until(l4slab_core::time::Time(ns(2.0) / 40 * step));
            for link in sim.links() {
                let t = link.totals();
                // `backlog` of the queue itself, not the difference that the link keeps.
                prop_assert_eq!(t.arrived, t.sent + t.dropped + link.aqm().backlog().packets);
                // What waits moves to the queues of another set without arriving there.
                let bands = link.bands();
                let sums = match l.0["at"].as_array().is_some_and(|at| !at.is_empty()) {
                    true => vec![bands],
                    false => bands.chunks(1).collect(),
                };
                for bands in sums {
                    let sum = |n: fn(&Band) -> u64| bands.iter().map(n).sum::<u64>();
                    let gone = sum(|b| b.counts.sent) + sum(|b| b.counts.dropped);
                    prop_assert_eq!(sum(|b| b.counts.arrived), gone + sum(|b| b.backlog));
                }
            }
        }
        let waiting: u64 = sim.links().iter().map(|l| l.aqm().backlog().packets).sum();
        let r = sim.run();
        let mut inside = 0;
        for f in &r.flows {
            prop_assert_eq!(f.sent_packets, f.delivered_packets + f.lost_packets + f.waiting_packets, "{:?}", f);
            inside += f.waiting_packets;
        }
        prop_assert!(inside <= waiting, "{} packets are missing, {} wait", inside, waiting);
    }

    /// Every packet that came to the network in the measured interval was delivered, lost at a place for a reason, or
    /// waits; shares of packets are of the same packets; no queue held more than its table says.
    #[test]
    fn every_packet_has_a_fate(
        l in scenario(any_queue), warmup in 0_u64..1900, per_flow in any::<bool>(),
        netem in proptest::option::of(pick(&[
            "delay 100ms limit 20", "loss 10% delay 5ms 2ms", "corrupt 5% duplicate 10%", "limit 5 rate 2mbit",
        ])),
        lost in proptest::option::of(pick(&["before", "after"])),
    ) {
        let mut l = l.with("warmup_ns", warmup * 1_000_000).with("per_flow", per_flow);
        if let Some(netem) = netem {
            l = l.impair("l0", "both", netem);
        }
        if let Some(side) = lost {
            let rule = json!({"flow": "f0", "where": side, "link": "l0", "from": "ect0", "to": "drop"});
            l.0["rewrites"] = json!([rule]);
        }
        let r = l.run().0;
        for f in r.flows.iter().chain(r.members.iter().map(|m| &m.row)) {
            prop_assert_eq!(f.offered_packets, f.delivered_packets + f.lost_packets + f.waiting_packets, "{:?}", f);
            prop_assert!(f.sent_packets <= f.offered_packets, "{:?}", f);
            prop_assert!(f.dropped_packets <= f.sent_packets && f.dropped_packets <= f.lost_packets, "{:?}", f);
            prop_assert!(f.ce_packets <= f.sent_packets, "{:?}", f);
        }
        for f in &r.flows {
            let losses = r.losses.iter().filter(|row| row.flow.as_ref() == Some(&f.flow));
            prop_assert_eq!(losses.clone().map(|row| row.lost_packets).sum::<u64>(), f.lost_packets);
            let dropped = losses.filter(|row| row.lost_at.starts_with("link."));
            prop_assert_eq!(dropped.map(|row| row.lost_packets).sum::<u64>(), f.dropped_packets);
        }
        for q in &r.links {
            prop_assert!(q.dropped_packets <= q.arrived_packets && q.marked_packets <= q.arrived_packets, "{:?}", q);
            prop_assert!(q.dropped_overflow_packets <= q.dropped_packets, "{:?}", q);
            let s = &r.series;
            let (_, backlog) = s.columns.iter().find(|(name, _)| *name == "backlog_packets").unwrap();
            for (row, &backlog) in backlog.iter().enumerate() {
                let is_queue = s.queue[row] == Some(q.queue.as_str())
                    && r.link_names.get(usize::from(s.link[row])) == Some(&q.link);
                let is_measured = s.time_s[row] > warmup as f64 * 1e-3;
                prop_assert!(!(is_queue && is_measured) || backlog <= q.backlog_packets_max as f64, "{:?}", q);
            }
        }
    }

    #[test]
    fn what_the_rows_say_is_possible(l in scenario(any_queue)) {
        let r = l.run().0;
        for f in &r.flows {
            // No mark without ECN.
            let spec = l.0["flows"].as_array().unwrap().iter().find(|x| x["name"] == f.flow).unwrap();
            let capable = match f.ecn_mode {
                Some(mode) => mode != "off",
                None => spec["ecn"] != "not-ect",
            };
            prop_assert!(capable || f.ce_packets == 0, "{:?}", f);
            // Headers cost something, and nobody acknowledges what has not left the last link.
            prop_assert!(f.goodput_mbps <= f.rate_mbps, "{:?}", f);
            prop_assert!(f.ce_packets <= f.sent_packets, "{:?}", f);
            let bytes = spec["bytes"].as_u64().map(|b| b * u64::from(f.count));
            let acked = f.goodput_mbps * 2.0 * 1e6 / 8.0;
            prop_assert!(bytes.is_none_or(|b| acked <= b as f64 + 0.5), "{:?}", f);
            let changed = l.0["at"].as_array().unwrap().iter().filter(|c| c["flow"] == *f.flow);
            let rtts = changed.filter_map(|c| c["rtt_ns"].as_u64()).chain(spec["rtt_ns"].as_u64());
            let least = rtts.min().unwrap() as f64 * 0.999;
            prop_assert!(f.rtt_ms_mean.is_none_or(|rtt| rtt * 1e6 >= least), "{:?}", f);
            // A cap is one: a burst of it may be out at the end, and the first ten are not paced.
            if let Some(pace) = spec["pace_bps"].as_u64() {
                let sent = f.sent_packets as f64 * 1514.0 * 8.0;
                let allowed = (pace as f64 * 2.0 + 14.0 * 1514.0 * 8.0) * f64::from(f.count);
                prop_assert!(sent <= allowed * 1.02 || f.retransmits > 0, "{} bits, {:?}", sent, f);
            }
        }
        for q in r.links.iter().filter(|q| q.queue == "all") {
            let (capacity, _) = capacity(&l, &q.link);
            let sent = q.rate_mbps * 1e6 * 2.0;
            // The bucket (also after each change of rate) and one packet.
            prop_assert!(sent <= capacity + 3.0 * (20_000.0 + LARGEST) * 8.0, "{} of {}: {:?}", sent, capacity, q);
            prop_assert!((q.utilisation - sent / capacity).abs() < 1e-6, "{:?}", q);
            let parts: Vec<_> = r.links.iter().filter(|b| b.link == q.link && b.queue != "all").collect();
            if !parts.is_empty() {
                // What another discipline did that has no queues inside is in the whole only.
                let same = !l.0["at"].as_array().unwrap().iter().any(|c| !c["qdisc"].is_null());
                for (inside, whole) in [
                    (parts.iter().map(|b| b.sent_packets).sum::<u64>(), q.sent_packets),
                    (parts.iter().map(|b| b.marked_packets).sum::<u64>(), q.marked_packets),
                ] {
                    prop_assert!(inside == whole || (inside < whole && !same));
                }
            }
        }
        let s = &r.series;
        prop_assert!(s.time_s.windows(2).all(|w| w[0] <= w[1]), "time goes on");
        prop_assert_eq!(s.time_s.len(), 40 * (r.flows.len() + r.links.iter().filter(|q| q.queue == "all").count())
            + s.queue.iter().filter(|q| q.is_some_and(|q| q != "all")).count());
        for (name, column) in &s.columns {
            prop_assert_eq!(column.len(), s.time_s.len());
            prop_assert!(column.iter().all(|v| v.is_nan() || v.is_finite()), "{}", name);
        }
    }

    /// The same seed gives the same bits, however the run is cut into pieces.
    #[test]
    fn the_same_seed_gives_the_same_bits(l in scenario(any_queue), pieces in 1_u64..20) {
        let whole = columns(&l.run().0);
        let mut sim = l.simulation();
        for i in 1..pieces {
            sim.run_until(l4slab_core::time::Time(ns(2.0) / pieces * i));
        }
        prop_assert!(columns(&sim.run()) == whole, "the run depends on more than its description");
    }

    /// A saturated link is never idle: whatever the queue does and whoever else is there.
    #[test]
    fn a_saturated_link_works_all_the_time(l in scenario(moderate_queue), size in 64_u32..1514) {
        // A queue that holds packets back does not work all the time.
        prop_assume!(!l.0.to_string().contains("maxrate"));
        let mut l = l;
        // From the start: more than any rate a link ever has, on each link. Losses in a queue by law
        // must not eat all of the excess.
        let links = l.0["links"].as_array().unwrap().len();
        for i in 0..links {
            l.0["flows"].as_array_mut().unwrap().push(json!({
                "name": format!("flood{i}"), "kind": "cbr", "rtt_ns": 0, "ecn": "not-ect",
                "path": [format!("l{i}")], "rate_bps": 200_000_000, "packet_bytes": size,
            }));
        }
        l.0["start_jitter_ns"] = json!(0);
        let r = l.run();
        for i in 0..links {
            let q = r.queue(&format!("l{i}"), "all");
            // A queue that was replaced is empty until the next packet.
            let (capacity, vague) = capacity(&l, &q.link);
            let idle = (1.0 - q.utilisation) * capacity;
            prop_assert!(idle <= vague + 3.0 * LARGEST * 8.0, "{} bits missing: {:?}", idle, q);
        }
    }
}

proptest! {
    #![proptest_config(config(24))]

    /// A run that is watched, reported and changed while it goes on gives the same bits as one in which the
    /// same changes were planned.
    #[test]
    fn what_happens_live_is_what_was_planned(
        l in prop_oneof![scenario(any_queue), changing_scenario()],
        cuts in proptest::collection::vec((1_u64..200, 0_u64..4), 1..30),
    ) {
        let mut live = Live::default();
        let mut ask = |request: Value| -> Value {
            let answer: Value = serde_json::from_str(&live.ask(&request.to_string())).unwrap();
            assert!(answer["ok"].is_object(), "{request}: {answer}");
            answer["ok"].clone()
        };
        let mut planned = l.0["at"].as_array().unwrap().clone();
        planned.sort_by_key(|c| c["time_ns"].as_u64());
        let mut run = l.0.clone();
        run["at"] = json!([]);
        ask(json!({"do": "start", "run": run}));
        let (mut now, mut done) = (0, Vec::new());
        for (step, what) in cuts {
            // A change comes where the run is; the plan tells only what it is.
            if let Some(mut change) = (what == 0 && now < ns(2.0)).then(|| planned.pop()).flatten() {
                change.as_object_mut().unwrap().remove("time_ns");
                let at = ask(json!({"do": "change", "change": change}))["time_ns"].clone();
                change["time_ns"] = at;
                done.push(change);
            }
            let watch = json!({"sample_ns": 10_000 * step, "members": what == 1, "packets": what == 2,
                               "histograms": what == 3});
            ask(json!({"do": "watch", "watch": watch}));
            now = (now + step * 1_000_003).min(ns(2.0));
            ask(json!({"do": "advance", "until_ns": now}));
            ask(json!({"do": "report"}));
        }
        ask(json!({"do": "advance", "until_ns": ns(2.0)}));
        let report = ask(json!({"do": "report"}));
        run["at"] = json!(done);
        let batch = ask(json!({"do": "batch", "run": run}));
        prop_assert_eq!(&report["flows"], &batch["flows"]);
        prop_assert_eq!(&report["links"], &batch["links"]);
    }

    /// Finite transfers end, if the load that does not respond leaves room in the end. They have two hours: hundreds of
    /// connections that repeat their SYNs every 64 s, on the same step of the timer wheel, find a queue of one packet full.
    #[test]
    fn transfers_complete(l in scenario(moderate_queue)) {
        let seconds = 7200.0;
        let mut l = l.with("duration_ns", ns(seconds)).with("sample_ns", ns(10.0));
        l.0["at"].as_array_mut().unwrap().clear();
        let mut finite = Vec::new();
        for f in l.0["flows"].as_array_mut().unwrap() {
            if f["kind"] == "cbr" {
                f["stop_ns"] = json!(ns(2.0));
            } else if f["bytes"].is_u64() {
                f["stop_ns"] = json!(null);
                finite.push(f["name"].as_str().unwrap().to_owned());
            } else {
                f["stop_ns"] = json!(ns(2.0));
            }
        }
        let r = l.run();
        for name in finite {
            let f = r.flow(&name);
            prop_assert_eq!(f.transfers, f.count, "{:?}", f);
            let spec = l.0["flows"].as_array().unwrap().iter().find(|x| x["name"] == name).unwrap();
            let bytes = (spec["bytes"].as_u64().unwrap() * u64::from(f.count)) as f64;
            let acked = f.goodput_mbps * seconds * 1e6 / 8.0;
            prop_assert!((acked - bytes).abs() < 1.0, "{} of {} bytes acknowledged", acked, bytes);
        }
    }
}

fn seeded(seed: u64) -> Result {
    lab(5.0, 0.0)
        .with("seed", seed)
        .link("b", 20.0, "dualpi2")
        .tcp("l", "prague", 10.0, json!({}))
        .tcp("c", "cubic", 10.0, json!({}))
        .run()
}

/// Another seed draws other marks; jitter draws other starts.
#[test]
fn another_seed_gives_another_run() {
    let one = columns(&seeded(1).0);
    assert!(one == columns(&seeded(1).0));
    assert!(one != columns(&seeded(2).0));
    let jitter = |seed| {
        let l = lab(1.0, 0.0).with("seed", seed).with("start_jitter_ns", 100_000_000);
        let r = l.link("b", 20.0, "pfifo").tcp("f", "reno", 10.0, json!({"bytes": 100_000})).run();
        columns(&r.0)
    };
    assert!(jitter(1) != jitter(2));
}

/// Adding a link and a flow that nobody meets does not change what others draw.
#[test]
fn a_bystander_changes_nothing() {
    let alone = seeded(7);
    let r = lab(5.0, 0.0)
        .with("seed", 7)
        .link("b", 20.0, "dualpi2")
        .tcp("l", "prague", 10.0, json!({}))
        .tcp("c", "cubic", 10.0, json!({}))
        .link("far", 20.0, "dualpi2")
        .tcp("x", "prague", 10.0, json!({"path": ["far"]}))
        .run();
    for flow in ["l", "c"] {
        agrees("goodput", r.flow(flow).goodput_mbps, alone.flow(flow).goodput_mbps, 1e-12);
        assert_eq!(r.flow(flow).ce_packets, alone.flow(flow).ce_packets);
        assert_eq!(r.flow(flow).sojourn_ms_p99, alone.flow(flow).sojourn_ms_p99);
    }
}

/// A packet that is refused has not waited: neither all queues of a link together nor one inside ever holds more than the
/// limit. (That of `fq` is one of each band, besides its fast path.)
#[test]
fn no_backlog_exceeds_the_limit() {
    const LIMIT: u64 = 10;
    let in_packets =
        |tc: &&str| !matches!(*tc, "bfifo" | "red" | "tbf" | "cake" | "docsis_ll" | "fq");
    let names = registry::listing().into_iter().map(|q| q.info.name);
    let mut tested = 0;
    for name in names.filter(|name| in_packets(name)) {
        let tc = format!("{name} limit {LIMIT}");
        if registry::parse(&tc).is_err() {
            continue;
        }
        tested += 1;
        let mut l = lab(1.0, 0.0).link("l0", 10.0, &tc);
        for (flow, ecn) in [("a", "ect1"), ("b", "not-ect")] {
            l = l.cbr(flow, 15.0, ecn, json!({}));
        }
        let r = l.run();
        for q in &r.0.links {
            assert!(q.backlog_packets_max <= LIMIT, "{tc}: {q:?}");
        }
        assert!(r.0.links[0].dropped_packets > 0, "{tc}");
    }
    assert!(tested > 8, "{tested} queues have a limit in packets");
}
