//! Stochastic Fair Blue step by step, against `sch_sfb.c` (Linux 7.2) and `q_sfb.c` of iproute2.

use crate::harness::{Bench, ms};
use l4slab_core::aqm::DropReason;
use l4slab_core::aqm::registry;
use l4slab_core::ecn::Ecn;

/// So many packets of a flow, at once.
fn put(bench: &mut Bench, at: u64, ecn: Ecn, flow: u32, count: usize) {
    for _ in 0..count {
        bench.put_flow(at, ecn, flow);
    }
}

/// `sfb_parse_opt` and `sfb_change`.
#[test]
fn parameters_are_those_that_tc_computes() {
    let canonical = |tc: &str| registry::parse(tc).unwrap_or_else(|e| panic!("{e}")).canonical();
    let rest = "increment 0.0005 decrement 0.00005 penalty_rate 10 penalty_burst 20";
    for (tc, sizes) in [
        ("sfb", "limit 1000 max 25 target 20"),
        ("sfb limit 0 max 0 target 0", "limit 1000 max 25 target 20"),
        ("sfb target 10", "limit 1000 max 12 target 10"),
        ("sfb max 9", "limit 1000 max 9 target 7"),
    ] {
        assert_eq!(canonical(tc), format!("sfb rehash 600000 db 60000 {sizes} {rest}"));
    }
    for tc in ["sfb increment 1.5", "sfb rehash 1s", "sfb ecn"] {
        registry::parse(tc).expect_err(tc);
    }
}

/// The queue and each bin are bounded; flows have other bins.
#[test]
fn a_full_bin_drops_and_so_does_a_full_queue() {
    let mut bench = Bench::new("sfb limit 8 max 5 increment 0");
    put(&mut bench, 0, Ecn::Ect0, 1, 6);
    assert_eq!((bench.packets(), bench.dropped(DropReason::Aqm)), (5, 1));
    assert_eq!(bench.gauge("maxqlen"), 5.0);
    put(&mut bench, 0, Ecn::Ect0, 2, 4);
    assert_eq!((bench.packets(), bench.dropped(DropReason::Overflow)), (8, 1));
    bench.drained(0);
    assert_eq!(bench.gauge("maxqlen"), 0.0);
}

/// Each arrival to a bin with `target` packets or more raises its probability by 0.25 (16384/65535), and each to an empty
/// bin lowers it by 0.125 (8192/65535).
#[test]
fn the_probability_of_a_bin_follows_its_backlog() {
    let mut bench = Bench::new("sfb target 2 max 100 increment 0.25 decrement 0.125");
    let p = |bench: &Bench| (bench.gauge("maxprob") * 65_535.0).round();
    put(&mut bench, 0, Ecn::Ect0, 1, 2);
    assert_eq!(p(&bench), 0.0);
    bench.put_flow(0, Ecn::Ect0, 1);
    assert_eq!(p(&bench), 16_384.0);
    bench.put_flow(0, Ecn::Ect0, 1);
    assert_eq!(p(&bench), 32_768.0);
    bench.drained(0);
    bench.put_flow(0, Ecn::Ect0, 1);
    assert_eq!(p(&bench), 32_768.0 - 8_192.0);
}

/// At a probability of 3/4 (49152/65536) a quarter has no signal, a quarter a mark, and a half is dropped: draws below
/// 2 (49152 - 32767). Below one half no ECN-capable packet is dropped.
#[test]
fn above_one_half_marks_become_drops() {
    let signals = |probability: &str, ecn| {
        let tc = format!("sfb target 1 max 60000 limit 60000 increment {probability} decrement 0");
        let mut bench = Bench::new(&tc);
        bench.put_flow(0, Ecn::Ect0, 1);
        // One arrival to a bin at its target raises the probability, and afterwards the bins are empty.
        bench.put_flow(0, ecn, 1);
        bench.drained(0);
        let (drops, marks) = (bench.drops.len(), bench.enqueue_marks);
        for _ in 0..4000 {
            bench.put_flow(0, ecn, 1);
            bench.drained(0);
        }
        (bench.drops.len() - drops, bench.enqueue_marks - marks)
    };
    let near = |n: u64, to: u64| n.abs_diff(to) < 150;
    let (drops, marks) = signals("0.75", Ecn::Ect0);
    assert!(near(drops as u64, 2000) && near(marks, 1000), "{drops} {marks}");
    let (drops, marks) = signals("0.45", Ecn::Ect0);
    assert!(drops == 0 && near(marks, 1800), "{drops} {marks}");
    let (drops, marks) = signals("0.45", Ecn::NotEct);
    assert!(near(drops as u64, 1800) && marks == 0, "{drops} {marks}");
}

/// At a probability of 1: `penalty_burst` packets at first, then what `penalty_rate` gives for the time since the tokens
/// were counted last, in jiffies of 4 ms.
#[test]
fn a_flow_that_does_not_respond_is_policed() {
    let mut bench = Bench::new("sfb target 1 max 100 increment 1 penalty_rate 100 penalty_burst 3");
    put(&mut bench, 0, Ecn::Ect0, 1, 9);
    assert_eq!((bench.packets(), bench.enqueue_marks), (1 + 3, 0));
    put(&mut bench, ms(8), Ecn::Ect0, 1, 2); // 0.8 packets, and time counts from here
    put(&mut bench, ms(16), Ecn::Ect0, 1, 2);
    assert_eq!(bench.packets(), 4);
    put(&mut bench, ms(36), Ecn::Ect0, 1, 3); // two of 20 ms
    assert_eq!(bench.packets(), 6);
    put(&mut bench, ms(900), Ecn::Ect0, 1, 9); // at most the burst
    assert_eq!(bench.packets(), 9);
    let mut none = Bench::new("sfb target 1 max 100 increment 1 penalty_rate 0");
    put(&mut none, 0, Ecn::Ect0, 1, 9);
    assert_eq!(none.packets(), 1);
}

/// After `rehash` the other bins decide, though not yet about the packet that comes first then. They know a flow that does not respond from the last `db` on, if it had packets.
#[test]
fn new_bins_know_those_who_do_not_respond() {
    let probability = |db: &str| {
        let tc = format!(
            "sfb target 1 max 100 increment 1 penalty_rate 1000 penalty_burst 50 rehash 100 {db}"
        );
        let mut bench = Bench::new(&tc);
        put(&mut bench, 0, Ecn::Ect0, 1, 4);
        put(&mut bench, ms(60), Ecn::Ect0, 1, 4);
        assert_eq!(bench.gauge("maxprob"), 1.0);
        put(&mut bench, ms(100), Ecn::Ect0, 1, 1);
        assert_eq!(bench.gauge("maxprob"), 1.0, "after 100 ms, not with them");
        put(&mut bench, ms(104), Ecn::Ect0, 2, 1);
        bench.gauge("maxprob")
    };
    assert_eq!((probability("db 50"), probability("db 0")), (1.0, 0.0));
}
