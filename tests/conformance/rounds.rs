//! Classes in turns step by step, against `sch_drr.c`, `sch_ets.c` (Linux 7.2) and `q_ets.c` of iproute2.

use crate::harness::{Bench, Packet, ms};
use l4slab_core::aqm::tree::{ClassSpec, Root};
use l4slab_core::aqm::{DropReason, LinkInfo, QueueCx};
use l4slab_core::ecn::Ecn;
use l4slab_core::time::Time;
use l4slab_core::units::Rate;
use serde_json::json;

const LEN: u32 = 1000;

/// A packet of 1000 B for each of these classes, in this order.
fn put(bench: &mut Bench, classes: &[u8]) {
    for &dscp in classes {
        bench.put_packet(0, Packet { dscp, len: LEN, ..Packet::new(Ecn::NotEct) });
    }
}

/// The classes of what leaves, until nothing is left.
fn order(bench: &mut Bench) -> Vec<u8> {
    std::iter::from_fn(|| bench.take(0)).map(|out| out.pkt.dscp).collect()
}

fn change(bench: &mut Bench, class: serde_json::Value) {
    let to: ClassSpec = serde_json::from_value(class).expect("a class");
    let mut cx = QueueCx::new(Time(0), &mut bench.rng, &mut bench.drops);
    let link = LinkInfo { rate: Rate::from_bps(100_000_000), now: Time(0) };
    bench.queue.classes().expect("it has classes").change_class(&to, link, &mut cx);
}

/// `q_ets.c` and `ets_qdisc_change`.
#[test]
fn parameters_are_those_that_tc_and_the_kernel_make_of_them() {
    let canonical = |tc: &str| match Root::parse(tc, false) {
        Some(Ok(root)) => root.canonical(),
        other => panic!("{tc}: {other:?}"),
    };
    let last = |band: &str| [band; 16].join(" ");
    assert_eq!(canonical("drr"), "drr");
    assert_eq!(
        canonical("ets bands 4 strict 2 quanta 3000"),
        format!("ets bands 4 strict 2 quanta 3000 1514 priomap {}", last("3"))
    );
    assert_eq!(
        canonical("ets strict 1 quanta 3k 1500"),
        format!("ets bands 3 strict 1 quanta 3072 1500 priomap {}", last("2"))
    );
    assert_eq!(
        canonical("ets bands 2 strict 2 priomap 0 1"),
        format!("ets bands 2 strict 2 priomap 0 {}", ["1"; 15].join(" "))
    );
    for tc in [
        "ets",
        "ets bands 17",
        "ets bands 2 strict 3",
        "ets bands 2 quanta 1 1 1",
        "ets bands 2 priomap 2",
        "ets quanta 0",
        "drr quantum 5",
    ] {
        assert!(Root::parse(tc, false).expect("it holds classes").is_err(), "{tc}");
    }
}

/// `drr_dequeue`: a class sends while its next packet fits into the deficit, then it gets its quantum and comes last.
#[test]
fn classes_send_what_their_quantum_allows() {
    let mut bench = Bench::tree("drr", &[(1, "pfifo", 3000), (2, "pfifo", 1500)]);
    put(&mut bench, &[1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
    // The second class has 1500 B, then 500 and its quantum, then nothing and its quantum.
    assert_eq!(order(&mut bench), [1, 1, 1, 2, 1, 1, 1, 2, 2, 2, 2, 2]);
    let mut bench = Bench::tree("drr", &[(1, "pfifo", 400), (2, "pfifo", 1000)]);
    put(&mut bench, &[1, 1, 2, 2, 2, 2]);
    // 400, 800 and 1200 B; then 200, 600 and 1000.
    assert_eq!(order(&mut bench), [2, 2, 1, 2, 2, 1]);
    let mut bench = Bench::tree("drr", &[(1, "pfifo", 1), (2, "pfifo", 1000)]);
    put(&mut bench, &[1, 2, 2, 2, 2]);
    // The kernel makes 256 of 1: 1024 in the fourth round.
    assert_eq!(order(&mut bench), [2, 2, 2, 1, 2]);
}

/// A class that was empty begins with its quantum, at the end of the round.
#[test]
fn an_idle_class_saves_nothing() {
    let mut bench = Bench::tree("drr", &[(1, "pfifo", 1500), (2, "pfifo", 1000)]);
    put(&mut bench, &[1]);
    assert_eq!(order(&mut bench), [1]);
    put(&mut bench, &[2, 1, 1, 2]);
    assert_eq!(order(&mut bench), [2, 1, 2, 1]);
}

#[test]
fn drr_drops_what_no_filter_takes() {
    let mut bench = Bench::tree("drr", &[(1, "pfifo", 1500)]);
    put(&mut bench, &[7, 1]);
    assert_eq!((bench.packets(), bench.dropped(DropReason::Aqm)), (1, 1));
}

/// A queue that cannot tell the length of its next packet gives it away: it waits outside, and counts as a packet of the class.
#[test]
fn a_packet_that_was_looked_at_has_left_its_queue() {
    // CoDel's clock of the packet ends when it is looked at, at 0 ms: nothing is marked 200 ms later.
    let marks = |quantum| {
        let mut bench =
            Bench::tree("drr", &[(1, "codel ce_threshold 50ms", quantum), (2, "pfifo", 1000)]);
        bench.put_packet(0, Packet { dscp: 1, len: LEN, ..Packet::new(Ecn::Ect1) });
        put(&mut bench, &[2]);
        assert_eq!(bench.take(0).map(|out| out.pkt.dscp), Some(if quantum < LEN { 2 } else { 1 }));
        assert_eq!(bench.packets(), 1);
        if quantum < LEN {
            bench.take(ms(200)).map(|out| out.marks.step)
        } else {
            bench.put_packet(0, Packet { dscp: 1, len: LEN, ..Packet::new(Ecn::Ect1) });
            bench.take(ms(200)).expect("the pfifo's");
            bench.take(ms(200)).map(|out| out.marks.step)
        }
    };
    assert_eq!((marks(400), marks(1000)), (Some(false), Some(true)));
    // It goes with its queue.
    let mut bench = Bench::tree("drr", &[(1, "sfq", 400), (2, "pfifo", 1000)]);
    put(&mut bench, &[1, 1, 2]);
    assert_eq!(bench.take(0).map(|out| out.pkt.dscp), Some(2));
    change(&mut bench, json!({"id": "1", "qdisc": "pfifo"}));
    assert_eq!((bench.packets(), bench.dropped(DropReason::Replaced)), (0, 2));
    put(&mut bench, &[1]);
    assert_eq!(order(&mut bench), [1]);
}

/// `drr_change_class`: the deficit stays.
#[test]
fn a_new_quantum_counts_from_the_next_round_on() {
    let mut bench = Bench::tree("drr", &[(1, "pfifo", 2000), (2, "pfifo", 1000)]);
    put(&mut bench, &[1, 1, 1, 1, 2, 2]);
    change(&mut bench, json!({"id": "1", "quantum_bytes": 1000}));
    assert_eq!(order(&mut bench), [1, 1, 2, 1, 2, 1]);
}

/// `ets_qdisc_dequeue`: strict bands first, each before the next; a packet of these comes between two of a turn.
#[test]
fn strict_bands_come_first() {
    let classes = [(1, "pfifo", 0), (2, "pfifo", 0), (3, "pfifo", 0), (4, "pfifo", 0)];
    let mut bench = Bench::tree("ets strict 2 quanta 2000 1000", &classes);
    put(&mut bench, &[4, 4, 3, 3, 3, 2, 1, 2]);
    assert_eq!(order(&mut bench), [1, 2, 2, 4, 3, 3, 4, 3]);
    put(&mut bench, &[3, 3, 3, 4]);
    assert_eq!(bench.take(0).map(|out| out.pkt.dscp), Some(3));
    put(&mut bench, &[2]);
    assert_eq!(order(&mut bench), [2, 3, 4, 3]);
}
