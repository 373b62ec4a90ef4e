//! Laws of a lab: an end outside is to the network what a source inside is, and no packet comes early or gets lost
//! without a word.

use std::fmt::Write;
use std::time::Duration;

use l4slab::{Ecn, EndId, Event, Lab, Packet, Results, Setup, Sum};
use l4slab_core::scenario::Run;
use l4slab_core::sim::Simulation;
use serde_json::{Value, json};

const MS: fn(u64) -> Duration = Duration::from_millis;
/// Frames of 1514 bytes, one per millisecond: the rate is exact, so that both sources send at the same nanoseconds.
const RATE_BPS: u64 = 12_112_000;
const PAYLOAD: usize = 1514 - 42;

/// A run of 3 s with one more flow behind the rivals.
fn run(qdisc: &str, flow: Value, others: Value) -> Value {
    let mut run = json!({
        "duration_ns": 3_000_000_000_u64, "warmup_ns": 500_000_000, "seed": 7,
        "links": [{"name": "b", "rate_bps": 30_000_000, "qdisc": qdisc}],
        "flows": [
            {"name": "cubic", "cc": "cubic", "rtt_ns": 17_000_000, "path": ["b"]},
            {"name": "prague", "cc": "prague", "rtt_ns": 5_000_000, "path": ["b"]},
            flow,
        ],
    });
    for (key, value) in others.as_object().expect("keys") {
        run[key] = value.clone();
    }
    run
}

fn cbr(ecn: &str) -> Value {
    json!({"name": "mine", "kind": "cbr", "rtt_ns": 20_000_000, "path": ["b"], "dscp": 10, "rate_bps": RATE_BPS, "ecn": ecn})
}
fn endpoint() -> Value {
    json!({"name": "mine", "kind": "endpoint", "rtt_ns": 20_000_000, "path": ["b"], "dscp": 10})
}

/// Everything that a run records, but for the name of the traffic.
fn recorded(results: &Results) -> String {
    let mut rows = results.flows.clone();
    rows.iter_mut().filter(|row| row.cc == "endpoint").for_each(|row| row.cc = "cbr".to_owned());
    let histograms = results.histograms.iter().map(|h| (h.quantity, h.flow, h.queue, &h.bins));
    let mut text = format!("{rows:?}\n{:?}\n{:?}\n", results.links, results.losses);
    histograms.for_each(|one| writeln!(text, "{one:?}").expect("a string"));
    write!(text, "{:?} {}", results.series, results.delivered_packets).expect("a string");
    text
}

/// Sends full packets once in a millisecond. What `each` says of each step is the time up to which it looks.
fn stream(lab: &mut Lab, ecn: Ecn, slice: impl Fn(Duration) -> Duration) -> Vec<(Duration, Ecn)> {
    let [near, far] = lab.ends("mine").expect("it is there");
    let mut arrived = Vec::new();
    lab.wake_at(Duration::ZERO, 0);
    loop {
        let until = slice(lab.now());
        match lab.step(until) {
            Some(Event::Timer(_)) => {
                lab.send(near, Packet::new(vec![0; PAYLOAD]).ecn(ecn)).expect("it is short enough");
                lab.wake_at(lab.now() + MS(1), 0);
            }
            Some(Event::Arrival(end)) => {
                assert_eq!(end, far);
                arrived.push((lab.now(), lab.receive(far).expect("it has come").ecn));
            }
            None if until > lab.duration() => return arrived,
            None => {}
        }
    }
}

#[test]
fn an_end_that_sends_at_a_rate_is_a_source_of_that_rate_bit_for_bit() {
    let changes = json!({"at": [
        {"time_ns": 1_000_000_000, "flow": "mine", "rtt_ns": 8_000_000},
        {"time_ns": 1_500_000_000, "link": "b", "rate_bps": 15_000_000},
        {"time_ns": 2_000_000_500_u64, "flow": "mine", "rtt_ns": 40_000_000},
        {"time_ns": 2_200_000_000_u64, "link": "b", "qdisc": "fq_codel"},
    ]});
    let netem = json!({"impairs": [{"name": "i", "before": "b", "direction": "both",
        "netem": "delay 3ms 2ms loss 2% duplicate 3% corrupt 1%"}]});
    for (qdisc, ecn) in [
        ("dualpi2", "ect1"),
        ("dualpi2", "not-ect"),
        ("pie", "ect0"),
        ("cake bandwidth 25mbit", "ect0"),
        ("pfifo limit 50", "not-ect"),
    ] {
        for others in [json!({}), changes.clone(), netem.clone()] {
            let of_cbr = run(qdisc, cbr(ecn), others.clone());
            let inside = Run::from_json(&of_cbr.to_string()).expect("a run");
            let inside = Simulation::new(&inside).expect("a run").run();
            let mut lab =
                Lab::from_run(&run(qdisc, endpoint(), others.clone()).to_string()).expect("a lab");
            let codepoint = match ecn {
                "ect1" => Ecn::Ect1,
                "ect0" => Ecn::Ect0,
                _ => Ecn::NotEct,
            };
            stream(&mut lab, codepoint, |_| Duration::MAX);
            let outside = lab.finish().expect("3 s");
            assert_eq!(recorded(&outside), recorded(&inside), "{qdisc} {ecn} {others}");
            let row = outside.flow("mine").expect("its row");
            assert!(row.sent_packets > 1000, "{}", row.sent_packets);
        }
    }
}

#[test]
fn an_end_sees_the_marks_that_the_queue_makes() {
    let lab = run("dualpi2", endpoint(), json!({"warmup_ns": 0}));
    let mut lab = Lab::from_run(&lab.to_string()).expect("a lab");
    let arrived = stream(&mut lab, Ecn::Ect1, |_| Duration::MAX);
    let results = lab.finish().expect("3 s");
    let row = results.flow("mine").expect("its row");
    let marked = arrived.iter().filter(|(_, ecn)| *ecn == Ecn::Ce).count() as u64;
    assert!(marked > 100, "{marked} of {}", arrived.len());
    // Those on the way behind the queue have no delay here.
    assert_eq!((marked, arrived.len() as u64), (row.ce_packets, row.delivered_packets));
}

#[test]
fn how_one_looks_does_not_change_what_happens() {
    let made = |slice: fn(Duration) -> Duration| {
        let mut lab =
            Lab::from_run(&run("dualpi2", endpoint(), json!({})).to_string()).expect("a lab");
        let arrived = stream(&mut lab, Ecn::Ect1, slice);
        (arrived, recorded(&lab.finish().expect("3 s")))
    };
    let whole = made(|_| Duration::MAX);
    assert_eq!(whole, made(|now| now + Duration::from_nanos(777_777)));
    assert_eq!(whole, made(|now| now + MS(13)));
    let threads: Vec<_> =
        (0..8).map(|_| std::thread::spawn(move || made(|_| Duration::MAX))).collect();
    threads.into_iter().for_each(|one| assert_eq!(whole, one.join().expect("it ended")));
}

fn two() -> Lab {
    let setup = Setup::new().link("b", 20_000_000, "dualpi2").rival("cubic", MS(10));
    let setup = setup.endpoint("a", MS(10)).endpoint("b", MS(10)).endpoint("c", MS(4));
    setup.duration(MS(2000)).start().expect("a lab")
}

#[test]
fn the_order_of_calls_at_one_instant_does_not_matter() {
    let made = |turned: bool| {
        let mut lab = two();
        let ends: Vec<[EndId; 2]> = ["a", "b", "c"].map(|name| lab.ends(name).expect("it")).into();
        let mut arrived = Vec::new();
        (0..2).for_each(|i| lab.wake_at(Duration::ZERO, if turned { 1 - i } else { i }));
        while let Some(event) = lab.next_event() {
            match event {
                Event::Timer(0) => {
                    let mut order = ends.clone();
                    if turned {
                        order.reverse();
                    }
                    for [near, far] in order {
                        for end in if turned { [far, near] } else { [near, far] } {
                            lab.send(end, Packet::new(vec![0; 900]).ecn(Ecn::Ect1)).expect("short");
                        }
                    }
                    lab.wake_at(lab.now() + MS(1), 0);
                }
                Event::Timer(_) => {}
                Event::Arrival(end) => {
                    arrived.push((lab.now(), end, lab.receive(end).expect("it has come").ecn));
                }
            }
        }
        (arrived, recorded(&lab.finish().expect("2 s")))
    };
    assert_eq!(made(false), made(true));
}

/// Sends packets that say when, from both ends, and checks each arrival.
#[test]
fn no_packet_is_early_and_all_are_accounted_for() {
    let both_ways = json!({"name": "mine", "kind": "endpoint", "rtt_ns": 21_000_001, "path": ["b"], "reverse_path": ["back"]});
    let others = json!({
        "links": [{"name": "b", "rate_bps": 30_000_000, "qdisc": "cake bandwidth 20mbit ack-filter"},
                  {"name": "back", "rate_bps": 2_000_000, "qdisc": "pfifo limit 20"}],
        "impairs": [{"name": "i", "before": "b", "direction": "both", "ack_thinning": 4, "ack_wait_ns": 1_000_000,
                     "netem": "delay 1ms loss 5% duplicate 5% corrupt 5%"}],
    });
    let mut lab = Lab::from_run(&run("pfifo", both_ways, others).to_string()).expect("a lab");
    let [near, far] = lab.ends("mine").expect("it is there");
    let delays = [
        Duration::from_nanos(10_500_000 + 1_000_000),
        Duration::from_nanos(10_500_001 + 1_000_000),
    ];
    let (mut sent, mut earliest) = (0, [Duration::MAX; 2]);
    lab.wake_at(Duration::ZERO, 0);
    while let Some(event) = lab.next_event() {
        match event {
            Event::Timer(_) => {
                for (end, bytes) in [(near, 1400), (far, 300)] {
                    let mut payload = vec![0; bytes];
                    payload[..16].copy_from_slice(&lab.now().as_nanos().to_be_bytes());
                    lab.send(end, Packet::new(payload)).expect("short");
                    sent += 1;
                }
                if lab.now() < MS(2500) {
                    lab.wake_at(lab.now() + Duration::from_nanos(700_001), 0);
                }
            }
            Event::Arrival(end) => {
                let packet = lab.receive(end).expect("it has come");
                assert_eq!(packet.bytes.len(), if end == far { 1400 } else { 300 });
                let at = u128::from_be_bytes(packet.bytes[..16].try_into().expect("16 bytes"));
                let way = lab.now() - Duration::from_nanos(at as u64);
                let side = usize::from(end == near);
                assert!(way >= delays[side], "{way:?}");
                earliest[side] = earliest[side].min(way);
            }
        }
        let Sum { sent: all, copied, arrived, lost, in_flight } = lab.sum(near);
        assert_eq!((all, all + copied), (sent, arrived + lost + in_flight));
    }
    let sum = lab.sum(near);
    assert!(sum.copied > 100 && sum.lost > 300 && sum.in_flight == 0, "{sum:?}");
    // Nor much later, where a queue was empty: the time of the packet itself on the link.
    assert!(earliest[1] < delays[1] + MS(2), "{earliest:?}");
    let row = lab.finish().expect("3 s").flow("mine").expect("its row").clone();
    assert_eq!(row.offered_packets, row.delivered_packets + row.lost_packets + row.waiting_packets);
}

#[test]
fn mistakes_are_sentences() {
    let said = |of: Result<Lab, l4slab::Error>| of.err().expect("a mistake").to_string();
    let link = || Setup::new().link("b", 1_000_000, "dualpi2");
    assert!(said(Setup::new().endpoint("a", MS(1)).start()).contains("needs a link"));
    assert!(said(link().start()).contains("kind = \"endpoint\""));
    assert!(said(link().rival("cubik", MS(1)).endpoint("a", MS(1)).start()).contains("cubik"));
    let mut lab = link().endpoint("a", MS(10)).warmup(MS(100)).start().expect("a lab");
    assert!(lab.ends("b").expect_err("none").to_string().contains("there are a"));
    let [near, _] = lab.ends("a").expect("it is there");
    assert!(lab.send(near, Packet::new(vec![0; 1472])).is_ok());
    assert!(
        lab.send(near, Packet::new(vec![0; 1473]))
            .expect_err("too long")
            .to_string()
            .contains("1472")
    );
    assert!(lab.finish().expect_err("too short").to_string().contains("warm-up"));
    for wrong in [
        json!({"count": 2}),
        json!({"start_ns": 5}),
        json!({"mtu_bytes": 20}),
        json!({"header_bytes": 1514}),
    ] {
        let mut flow = endpoint();
        wrong.as_object().expect("a key").iter().for_each(|(k, v)| flow[k] = v.clone());
        assert!(Lab::from_run(&run("pfifo", flow, json!({})).to_string()).is_err(), "{wrong}");
    }
}
