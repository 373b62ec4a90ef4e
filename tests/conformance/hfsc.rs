//! Classes of hfsc step by step, against `sch_hfsc.c` (Linux 7.2) and `q_hfsc.c` of iproute2, and laws of service curves.

use crate::harness::{Bench, Packet, ms};
use l4slab_core::aqm::tree::hfsc::CurvesConfig;
use l4slab_core::aqm::tree::{ClassSpec, Root};
use l4slab_core::aqm::{DropReason, LinkInfo, QueueCx};
use l4slab_core::ecn::Ecn;
use l4slab_core::time::Time;
use l4slab_core::units::Rate;
use serde_json::{Value, json};

const LEN: u32 = 1000;
/// Of a packet at 8 Mbit/s.
const ONE: u64 = ms(1);

fn bench(classes: &[Value]) -> Bench {
    let class = |one: &Value| serde_json::from_value(one.clone()).expect("a class");
    Bench::classes("hfsc default 1", classes.iter().map(class).collect())
}

fn leaf(id: &str, curves: &str) -> Value {
    json!({"id": id, "qdisc": "pfifo", "curves": curves})
}

fn put(bench: &mut Bench, at: u64, class: u8, count: usize) {
    for _ in 0..count {
        bench.put_packet(at, Packet { dscp: class, len: LEN, ..Packet::new(Ecn::NotEct) });
    }
}

/// The classes of what leaves, a packet each `every` from `at` on.
fn served(bench: &mut Bench, at: u64, every: u64, count: u64) -> Vec<u8> {
    let took = (0..count).filter_map(|n| bench.take(at + n * every));
    took.map(|out| out.pkt.dscp).collect()
}

fn share(order: &[u8], class: u8) -> usize {
    order.iter().filter(|&&one| one == class).count()
}

/// `hfsc_get_sc1` and `hfsc_get_sc2`.
#[test]
fn curves_are_those_that_tc_makes_of_them() {
    let canonical = |tc: &str| CurvesConfig::parse(tc).map(|curves| curves.canonical());
    for (tc, curves) in [
        ("rt m2 8mbit", "rt m2 8000000bit"),
        ("ls m1 16mbit d 10ms m2 8mbit", "ls m1 16000000bit d 10000us m2 8000000bit"),
        ("sc rate 8mbit", "rt m2 8000000bit ls m2 8000000bit"),
        ("sc rate 8mbit ls rate 16mbit", "rt m2 8000000bit ls m2 16000000bit"),
        ("ls rate 8mbit ul rate 9mbit", "ls m2 8000000bit ul m2 9000000bit"),
        // 1500 B in 10 ms are more than the rate, in 20 ms less.
        ("rt umax 1500b dmax 10ms rate 1mbit", "rt m1 1200000bit d 10000us m2 1000000bit"),
        ("rt umax 1500b dmax 20ms rate 1mbit", "rt m1 0bit d 8000us m2 1000000bit"),
    ] {
        assert_eq!(canonical(tc).as_deref(), Ok(curves), "{tc}");
        assert_eq!(canonical(curves).as_deref(), Ok(curves), "{tc}");
    }
    for tc in [
        "",
        "rt",
        "rt m1 8mbit",
        "rt m1 8mbit d 10ms",
        "rt m2 0bit",
        "rt umax 1500b rate 1mbit",
        "rt rate 1mbit ul rate 2mbit",
        "ul rate 1mbit",
        "rt dmax 10ms",
    ] {
        assert!(canonical(tc).is_err(), "{tc}");
    }
    assert!(Root::parse("hfsc", false).expect("it holds classes").is_err());
}

/// Shares are in the ratio of the link-sharing curves, at each level.
#[test]
fn classes_share_by_their_curves() {
    let mut flat = bench(&[leaf("1", "ls rate 6mbit"), leaf("2", "ls rate 2mbit")]);
    put(&mut flat, 0, 1, 100);
    put(&mut flat, 0, 2, 100);
    assert_eq!(share(&served(&mut flat, 0, ONE, 80), 1), 60);
    let mut deep = bench(&[
        json!({"id": "9", "curves": "ls rate 6mbit"}),
        json!({"id": "1", "parent": "9", "qdisc": "pfifo", "curves": "ls rate 1mbit"}),
        json!({"id": "3", "parent": "9", "qdisc": "pfifo", "curves": "ls rate 2mbit"}),
        leaf("2", "ls rate 2mbit"),
    ]);
    for class in 1..=3 {
        put(&mut deep, 0, class, 100);
    }
    let order = served(&mut deep, 0, ONE, 80);
    assert_eq!([share(&order, 1), share(&order, 2), share(&order, 3)], [20, 20, 40]);
}

/// A class that was idle does not get later what it left.
#[test]
fn an_idle_class_saves_nothing() {
    let mut bench = bench(&[leaf("1", "ls rate 4mbit"), leaf("2", "ls rate 4mbit")]);
    put(&mut bench, 0, 1, 200);
    assert_eq!(served(&mut bench, 0, ONE, 100), [1; 100]);
    put(&mut bench, ms(100), 2, 100);
    let order = served(&mut bench, ms(100), ONE, 40);
    assert!((19..=21).contains(&share(&order, 2)), "{order:?}");
}

/// A class keeps its real-time curve whatever the others do, and pays for it with its share of the rest.
#[test]
fn a_real_time_curve_is_a_promise() {
    let curves = ["rt rate 6mbit ls rate 1mbit", "ls rate 7mbit"];
    let mut bench = bench(&[leaf("1", curves[0]), leaf("2", curves[1])]);
    put(&mut bench, 0, 1, 200);
    put(&mut bench, 0, 2, 200);
    let order = served(&mut bench, 0, ONE, 160);
    assert!((119..=121).contains(&share(&order, 1)), "{order:?}");
}

/// Delay and rate are apart: a class of little rate whose first segment is steep sends at once.
#[test]
fn a_steep_first_segment_gives_a_short_delay() {
    let last_of = |curves: &str| {
        let mut bench = bench(&[leaf("1", curves), leaf("2", "rt rate 7mbit ls rate 7mbit")]);
        put(&mut bench, ms(20), 2, 100);
        put(&mut bench, ms(20), 1, 2);
        let order = served(&mut bench, ms(20), ONE, 40);
        order.iter().rposition(|&class| class == 1).expect("it was served")
    };
    let (steep, flat) =
        (last_of("rt m1 8mbit d 2ms m2 1mbit ls rate 100kbit"), last_of("rt rate 1mbit"));
    // Without the first segment the second packet is eligible after 8 ms, and due after 16.
    assert!(steep <= 3, "{steep}");
    assert!((8..=16).contains(&flat), "{flat}");
}

/// The upper limit holds a class alone on the link, and says when it may go on.
#[test]
fn an_upper_limit_is_one() {
    let mut bench = bench(&[leaf("1", "ls rate 8mbit ul rate 2mbit")]);
    put(&mut bench, 0, 1, 20);
    let (mut at, mut left) = (0, Vec::new());
    while left.len() < 20 {
        match bench.take(at) {
            Some(_) => left.push(at),
            None => {
                let next = bench.queue.next_timer().0;
                assert!(next > at && next < ms(100));
                at = next;
                bench.timer(at);
            }
        }
    }
    // 4 ms for 1000 B at 2 Mbit/s, in ticks of 64 ns.
    for (n, at) in (0..).zip(&left) {
        assert!(at.abs_diff(n * 4 * ONE) < 64 * (n + 2), "{left:?}");
    }
}

/// What a class gets by deadline is not limited.
#[test]
fn an_upper_limit_is_not_for_deadlines() {
    let mut bench = bench(&[leaf("1", "rt rate 8mbit ls rate 1mbit ul rate 1mbit")]);
    put(&mut bench, 0, 1, 50);
    assert_eq!(served(&mut bench, ms(1), ONE, 40).len(), 40);
}

/// `hfsc_change_class`.
#[test]
fn other_curves_count_from_then_on() {
    let mut bench = bench(&[leaf("1", "ls rate 4mbit"), leaf("2", "ls rate 4mbit")]);
    put(&mut bench, 0, 1, 200);
    put(&mut bench, 0, 2, 200);
    assert_eq!(share(&served(&mut bench, 0, ONE, 40), 1), 20);
    let to: ClassSpec =
        serde_json::from_value(json!({"id": "1", "curves": "ls rate 12mbit"})).expect("a class");
    let mut cx = QueueCx::new(Time(ms(40)), &mut bench.rng, &mut bench.drops);
    let link = LinkInfo { rate: Rate::from_bps(8_000_000), now: Time(ms(40)) };
    bench.queue.classes().expect("it has classes").change_class(&to, link, &mut cx);
    let order = served(&mut bench, ms(40), ONE, 80);
    assert!((59..=61).contains(&share(&order, 1)), "{order:?}");
}

/// The kernel looks at the first packet of a class with a real-time curve. The packet still counts for the limit.
#[test]
fn a_packet_that_was_looked_at_still_counts() {
    for queue in ["codel", "pie", "fq_codel", "fq_pie", "hhf", "netem", "dualpi2", "pfifo"] {
        for curves in ["rt rate 8mbit", "ls rate 8mbit"] {
            let class = json!({"id": "1", "qdisc": format!("{queue} limit 3"), "curves": curves});
            let mut bench = bench(&[class]);
            put(&mut bench, 0, 1, 5);
            assert_eq!(bench.packets(), 3, "{queue} {curves}");
            assert_eq!(bench.dropped(DropReason::Overflow), 2, "{queue} {curves}");
        }
    }
}

/// A class whose last packets were dropped as others came has to begin anew (`hfsc_qlen_notify`).
#[test]
fn every_packet_leaves_or_is_dropped() {
    for queue in [
        "choke limit 100 min 1 max 3 bandwidth 8mbit",
        "codel target 1ms interval 1ms",
        "sfq limit 2",
    ] {
        let classes = [
            json!({"id": "1", "qdisc": queue, "curves": "rt rate 1mbit ls rate 2mbit"}),
            json!({"id": "2", "qdisc": queue, "curves": "ls rate 2mbit ul rate 3mbit"}),
        ];
        let mut bench = bench(&classes);
        let mut left = 0;
        for n in 0..400_u64 {
            put(&mut bench, n * ONE, 1 + (n / 7 % 2) as u8, (n % 3) as usize);
            left += usize::from(bench.take(n * ONE).is_some());
        }
        left += served(&mut bench, ms(400), 4 * ONE, 400).len();
        assert_eq!(bench.packets(), 0, "{queue}");
        assert_eq!(
            left + bench.drops.len(),
            (0..400_usize).map(|n| n % 3).sum::<usize>(),
            "{queue}"
        );
    }
}
