//! How long a flow's packets are in links: in their queues, and behind these in media.

use l4slab_core::net::tap::{End, Tap};
use l4slab_core::packet::Packet;
use l4slab_core::sack::Blocks;
use l4slab_core::scenario::Run;
use l4slab_core::sim::Simulation;
use l4slab_core::time::Time;
use serde_json::json;

use crate::access::{all, cbr, medium, mixed};
use crate::lab::{Lab, Result, agrees, bps, lab, ns};

/// Data that arrives: its flow group, one-way delay and time in links, in ns.
#[derive(Default)]
struct Arrivals(Vec<(usize, u64, u64)>);

impl Tap for Arrivals {
    fn see(&mut self, now: Time, end: End, pkt: &Packet, _: &Blocks) {
        if end == End::Server && pkt.is_payload() && !pkt.is_ack() {
            let group = usize::from(pkt.group.number);
            self.0.push((group, now.since(pkt.stamp).0, pkt.waited().0));
        }
    }
}

fn arrivals(lab: &Lab) -> (Result, Vec<(usize, u64, u64)>) {
    let run = Run::from_json(&lab.0.to_string()).expect("a run");
    let mut seen = Arrivals::default();
    let recording = Simulation::tapped(&run, &mut seen).expect("a run").run();
    (Result(recording), seen.0)
}

/// The time in links of every packet of a run with one flow, in ns.
fn waits(lab: &Lab) -> Vec<u64> {
    arrivals(lab).1.iter().map(|(_, _, waited)| *waited).collect()
}

/// What a packet waits on its way is its one-way delay without the delay before the links, to the nanosecond, and a flow's
/// row is made of its parts. Serialisation is part of a medium; on a wire it is the wait of the next packet.
#[test]
fn waits_are_the_one_way_delay() {
    let wires = |lab: Lab| lab.link("wire", 30.0, "dualpi2").link("slow", 12.0, "fq_codel");
    let mut labs = vec![wires(lab(3.0, 0.5)).tcp("l4s", "prague", 20.0, json!({})).tcp(
        "c",
        "cubic",
        8.0,
        json!({}),
    )];
    for (i, words) in all().iter().enumerate() {
        let mut lab = mixed(words, ["pfifo limit 100", "fq_codel", "dualpi2"][i % 3], 3);
        if i % 2 == 1 {
            // The medium is one of several links.
            lab = wires(lab);
            for flow in lab.0["flows"].as_array_mut().expect("a list") {
                let link = flow["path"][0].clone();
                flow["path"] = json!(["wire", link, "slow"]);
            }
        }
        labs.push(lab);
    }
    let mut seen = 0;
    for lab in labs {
        let rtts: Vec<u64> = lab.0["flows"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|flow| flow["rtt_ns"].as_u64().expect("a number"))
            .collect();
        let (r, packets) = arrivals(&lab);
        seen += packets.len();
        for (group, delay, waited) in packets {
            assert_eq!(delay, rtts[group] / 2 + waited, "{lab:?}");
        }
        let has_media = r.0.link_names.iter().any(|name| name == "home");
        for f in r.0.flows.iter().filter(|f| f.delivered_packets > 0) {
            let parts = [f.queue_ms_mean, f.access_ms_mean, f.air_ms_mean, f.reorder_ms_mean];
            assert_eq!(parts.map(|part| part.is_some()), [has_media; 4], "{}: {lab:?}", f.flow);
            let sum: f64 = parts.iter().flatten().sum();
            let sojourn = f.sojourn_ms_mean.expect("packets");
            assert!(
                !has_media || (sum - sojourn).abs() < 1e-9 * sojourn,
                "{sum}, {sojourn}: {lab:?}"
            );
        }
    }
    assert!(seen > 20_000, "{seen} packets");
}

/// The same where more than 2^16 packets wait for grants and in the queue, in two directions of a path.
#[test]
fn many_packets_wait_upstream() {
    let home = medium(lab(1.2, 0.0), "nr 100MHz", "pfifo limit 100000", json!({}));
    let home = cbr(home, "udp", 300.0, 50, "home.up");
    let rtt = home.0["flows"][0]["rtt_ns"].as_u64().expect("a number");
    let (r, packets) = arrivals(&home);
    assert!(r.queue("home.up", "all").backlog_packets_max > 90_000);
    assert!(packets.len() > 100_000, "{} packets", packets.len());
    for (_, delay, waited) in packets {
        assert_eq!(delay, rtt / 2 + waited);
    }
}

/// Where the only queue is that of a medium, it has the wait that the flow calls its queue's.
#[test]
fn the_queue_is_the_links() {
    let home = medium(lab(20.0, 5.0), "wifi n20 mcs 0 aql", "pfifo limit 40", json!({}));
    let r = cbr(home, "udp", 8.0, 1500, "home").run();
    let (f, queue) = (r.flow("udp"), r.queue("home", "all"));
    agrees("queue", f.queue_ms_mean.unwrap(), queue.sojourn_ms_mean.unwrap(), 0.001);
    let behind = f.access_ms_mean.unwrap() + f.air_ms_mean.unwrap() + f.reorder_ms_mean.unwrap();
    agrees("sum", f.sojourn_ms_mean.unwrap(), f.queue_ms_mean.unwrap() + behind, 1e-9);
    assert!(behind > 5.0 && f.access_ms_mean.unwrap() > 5.0, "{f:?}");
}

/// Two links with a queue of 20 s each: a flow waits 40 s, and so says its distribution.
#[test]
fn long_waits_add_up() {
    let frames = |mbps: f64| (20.0 * mbps * 1e6 / 8.0 / 1514.0) as u32;
    let r = lab(400.0, 200.0)
        .with("sample_ns", ns(1.0))
        .link("a", 2.0, &format!("pfifo limit {}", frames(2.0)))
        .link("b", 1.0, &format!("pfifo limit {}", frames(1.0)))
        .cbr("udp", 3.0, "not-ect", json!({}))
        .run();
    let (f, a, b) = (r.flow("udp"), r.queue("a", "all"), r.queue("b", "all"));
    let sum = |of: fn(&l4slab_core::sim::recording::LinkRow) -> Option<f64>| {
        of(a).expect("packets") + of(b).expect("packets")
    };
    agrees("mean", f.sojourn_ms_mean.unwrap(), sum(|q| q.sojourn_ms_mean), 1e-4);
    agrees("median", f.sojourn_ms_p50.unwrap(), sum(|q| q.sojourn_ms_p50), 2e-3);
    agrees("P99", f.sojourn_ms_p99.unwrap(), sum(|q| q.sojourn_ms_p99), 2e-3);
    agrees("of 40 s", f.sojourn_ms_mean.unwrap(), 40_000.0, 2e-3);
    let of_flow = |h: &&l4slab_core::sim::recording::Histogram| {
        h.quantity == "sojourn_ms" && h.flow.is_some()
    };
    let histogram = r.0.histograms.iter().find(of_flow).expect("the flow's");
    assert!(histogram.bins.iter().all(|bin| bin.high.as_secs_f64() > 39.0));
    for (_, ms) in r.flow_series("udp", "sojourn_ms").iter().filter(|(t, _)| *t > 200.0) {
        agrees("in the series", *ms, 40_000.0, 2e-3);
    }
}

/// A medium that nobody else uses adds exactly the latency that its words state.
#[test]
fn a_silent_medium_adds_its_stated_latency() {
    let of = |words: &str, path: &str, packet_ms: f64| {
        let home = medium(lab(5.0, 0.0), words, "pfifo", json!({}));
        waits(&cbr(home, "one", 1000.0 * 8.0 / packet_ms * 1e-3, 986, path))
    };
    for (less, more, way, ns) in [
        ("leo calm pop 10ms", "leo calm pop 35ms", "home", 12_500_000),
        ("leo calm pop 10ms", "leo calm pop 35ms", "home.up", 12_500_000),
        ("nr core 0s bler 0", "nr core 7ms bler 0", "home", 7_000_000),
        ("nr core 0s bler 0", "nr core 7ms bler 0", "home.up", 7_000_000),
        ("lte core 1ms bler 0", "lte core 2ms bler 0", "home", 1_000_000),
        ("docsis distance 0", "docsis distance 100", "home", 500_000),
    ] {
        let (with_less, with_more) = (of(less, way, 13.7), of(more, way, 13.7));
        assert!(with_more.len() > 300, "{less}: {} packets", with_more.len());
        for (a, b) in with_less.iter().zip(&with_more) {
            assert_eq!(a + ns, *b, "{less}, {more}, {way}");
        }
    }
    // A PPDU of 36 us and 32 symbols of 4 us for 16 + 8 (986 + 38) + 6 bits, 260 each. Before it the channel was idle for
    // longer than AIFS, and a slot of 9 us begins.
    let ppdu = 36_000 + 4_000 * (16_u64 + 8 * (986 + 38) + 6).div_ceil(260);
    for wait in of("wifi n20 mcs 7 no-beacons", "home", 13.7).iter().skip(1) {
        assert!((ppdu..ppdu + 9_000).contains(wait), "{wait} ns, PPDU {ppdu} ns");
    }
}

/// All times doubled and all rates halved: each packet waits twice as long.
#[test]
fn waits_scale_with_time() {
    let wires = |k: f64| {
        lab(2.0 * k, 0.0)
            .bare_link("a", 24.0 / k, "pfifo limit 30")
            .bare_link("b", 16.0 / k, "pfifo limit 50")
            .cbr("udp", 20.0 / k, "not-ect", json!({"rtt_ns": ns(0.008 * k), "batch": 7}))
    };
    // A resource block has the same bits in a slot of any length.
    let cell = |k: f64| {
        // With the 0.5 ms of decoding.
        let [scs, core, sr] =
            if k == 1.0 { ["30", "2ms", "10ms"] } else { ["15", "4.5ms", "20ms"] };
        let words = format!("nr scs {scs} prb 25 core {core} sr {sr} bler 0.2 bler2 0");
        let home = medium(lab(2.0 * k, 0.0), &words, "pfifo limit 30", json!({}));
        cbr(home, "udp", 9.0 / k, 1000, "home")
    };
    let up = |k: f64| {
        let mut lab = cell(k);
        lab.0["flows"][0]["path"] = json!(["home.up"]);
        lab.0["flows"][0]["rate_bps"] = json!(bps(0.5 / k));
        lab
    };
    let labs: [(&str, &dyn Fn(f64) -> Lab); 3] = [("wires", &wires), ("nr", &cell), ("nr up", &up)];
    for (what, of) in labs {
        let (once, twice) = (waits(&of(1.0)), waits(&of(2.0)));
        assert!(once.len() > 100, "{what}: {} packets", once.len());
        assert_eq!(once.len(), twice.len(), "{what}");
        for (a, b) in once.iter().zip(&twice) {
            assert!((2 * a).abs_diff(*b) <= 4, "{what}: {a} ns, {b} ns");
        }
    }
}

/// One byte more of each frame does not change the mean delay by more than a frame's own transmission time. Frames come at
/// the same instants.
#[test]
fn a_byte_does_not_matter() {
    let mut in_queue = Vec::new();
    for (words, way, mbps, rate) in [
        ("docsis", "home.up", 49.9, 50.0),
        ("docsis", "home.up", 10.0, 50.0),
        ("docsis ggr 20mbit", "home.up", 10.0, 50.0),
        ("docsis", "home", 100.0, 200.0),
        ("leo calm", "home.up", 10.0, 19.0),
        ("wifi n20 mcs 7", "home", 20.0, 50.0),
        ("nr bler 0", "home", 20.0, 50.0),
        ("lte bler 0", "home.up", 1.0, 17.0),
    ] {
        let of = |ip: u32| {
            let home = medium(lab(20.0, 1.0), words, "pfifo limit 400", json!({}));
            // The modem counts FCS, too.
            let r = cbr(home, "udp", mbps * f64::from(ip + 14) / 1046.0, ip, way).run();
            let f = r.flow("udp");
            (f.sojourn_ms_mean.expect("packets"), f.queue_ms_mean.expect("packets"))
        };
        let sizes: Vec<u32> = (976..986).chain(1018..1029).collect();
        let waits: Vec<_> = sizes.iter().map(|ip| of(*ip)).collect();
        println!("{words}, {way}, {mbps} Mbit/s: {waits:.3?} ms");
        let own_ms = 1000.0 * 8.0 / rate * 1e-3;
        for (waits, ip) in waits.windows(2).zip(sizes.windows(2)) {
            let change = (waits[1].0 - waits[0].0).abs();
            let is_byte = ip[0] + 1 == ip[1];
            assert!(!is_byte || change <= own_ms, "{words}, {way}: {change} ms at {} B", ip[0]);
        }
        if mbps == 49.9 {
            in_queue = waits.into_iter().map(|(_, queue)| queue).collect();
        }
    }
    // A Monte Carlo of the rules of requests and grants, in bytes.
    for queue in in_queue {
        agrees("docsis at 49.9 of 50 Mbit/s, in the queue, ms", queue, 2.87, 0.01);
    }
}
