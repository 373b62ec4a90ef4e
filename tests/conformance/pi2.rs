//! PI2 step by step, against vectors computed by hand from the law of the authors' module and
//! against the square of the paper.

use crate::harness::{Bench, ms};
use l4slab_core::aqm::{DropReason, Marks};
use l4slab_core::ecn::Ecn;

const ONE: f64 = u32::MAX as f64;

/// p as the controller counts it.
fn p(bench: &Bench) -> u32 {
    (bench.gauge("p_l_coupled") * ONE).round() as u32
}

/// 100 packets of 1000 B arrive at 0, ten leave 64 us (1000 ticks) apart: the first counts as well,
/// so 10000 B leave in 9000 ticks, 10000 * 256 / 9000 = 284.
fn measured(options: &str) -> Bench {
    let mut bench = Bench::new(&format!("pi2 {options}"));
    for _ in 0..100 {
        bench.put_len(0, Ecn::NotEct, 1000);
    }
    for i in 0..10 {
        bench.take(ms(1) + i * 64_000);
    }
    bench
}

/// p held between two bounds: the queue stays as long as it is and the updates go on.
fn with_p_above(options: &str, wanted: f64) -> Bench {
    let mut bench = measured(&format!("target 1us {options}"));
    let mut now = ms(10);
    while bench.gauge("p_l_coupled") < wanted {
        bench.timer(now);
        now += ms(20);
    }
    bench
}

#[test]
fn the_controller_moves_p_as_the_module_does() {
    let mut bench = measured("");
    bench.timer(ms(20));
    // 90000 * 256 / 284 = 81126 ticks; gains 10 * 274 / 16 = 171 and 100 * 274 / 16 = 1712:
    // 171 * (81126 - 312500) + 1712 * 81126
    assert_eq!(p(&bench), 99_322_758);
    bench.timer(ms(56));
    // 171 * (81126 - 312500)
    assert_eq!(p(&bench), 99_322_758 - 39_564_954);
    for (k, base) in [(1, 1.0), (2, 0.5), (4, 0.25)] {
        let mut bench = measured(&format!("k {k}"));
        bench.timer(ms(20));
        let p_prime = 99_322_758.0 / ONE * base;
        assert_eq!(bench.gauge("p_prime"), p_prime);
        assert_eq!(bench.gauge("p_c"), p_prime * p_prime, "k = {k}");
    }
}

/// With k = 1 and the gains of the figure, 0.125 and 1.25 Hz, p is PI2's base probability; its
/// integers are 34 and 343 where 34.36 and 343.6 would be exact, so 1 % of the figure is missing.
#[test]
fn integral_steps_are_those_of_the_figure_but_for_the_integers() {
    let mut bench = with_p_above("k 1 alpha 2 beta 20 target 1us", 0.5);
    let mut now = ms(100_000);
    let ticks = 81_126.0 - 15.0; // 1 us is 15 ticks
    for _ in 0..5 {
        let before = bench.gauge("p_prime");
        bench.timer(now);
        now += ms(20);
        let step = bench.gauge("p_prime") - before;
        assert!((step * ONE - 34.0 * ticks).abs() < 1.0, "{step}");
        let exact = 0.125 * ticks * 64e-9;
        assert!((step / exact - 34.0 / 34.36).abs() < 1e-3, "{step}, exact {exact}");
    }
}

/// Idle, 98 % of p are taken in 32 bits: of 60 % is left (p * 98 mod 2^32) / 100.
#[test]
fn idle_decay_overflows() {
    let mut bench = with_p_above("beta 0 alpha 10", 0.6);
    bench.drained(ms(200_000));
    bench.timer(ms(200_000)); // from the delay of before to 0: the integral part only, 15 ticks
    let before = p(&bench);
    assert!(before > 2_500_000_000);
    bench.timer(ms(200_020));
    let expected = (before - 15 * 171).wrapping_mul(98) / 100;
    assert_eq!(p(&bench), expected);
    assert!(bench.gauge("p_l_coupled") < 0.0103);
}

/// What is hit of packets of one kind that meet a long queue at p: (marked, dropped).
fn hit(bench: &mut Bench, ecn: Ecn, n: u32) -> (f64, f64) {
    let (marks, drops) = (bench.enqueue_marks, bench.dropped(DropReason::Aqm));
    for _ in 0..n {
        bench.put_len(ms(300_000), ecn, 1000);
    }
    let share = |count: u64| count as f64 / f64::from(n);
    (share(bench.enqueue_marks - marks), share((bench.dropped(DropReason::Aqm) - drops) as u64))
}

/// p_C = (p_L/k)^2, on packets.
#[test]
fn the_square_on_packets() {
    for k in [1.0, 2.0, 4.0] {
        let mut bench = with_p_above(&format!("ect1_scal limit 1000000 k {k}"), 0.3);
        let p = bench.gauge("p_l_coupled");
        let n = 100_000;
        let close = |what: &str, share: f64, law: f64| {
            let sigma = (law * (1.0 - law) / f64::from(n)).sqrt();
            assert!((share - law).abs() < 4.0 * sigma, "k = {k}, {what}: {share}, law {law}");
        };
        let square = (p / k) * (p / k);
        let (marked, dropped) = hit(&mut bench, Ecn::Ect1, n);
        close("marks of ECT(1)", marked, p);
        assert_eq!(dropped, 0.0);
        let (marked, dropped) = hit(&mut bench, Ecn::Ect0, n);
        close("marks of ECT(0)", marked, square);
        assert_eq!(dropped, 0.0);
        let (marked, dropped) = hit(&mut bench, Ecn::NotEct, n);
        close("drops of Not-ECT", dropped, square);
        assert_eq!(marked, 0.0);
    }
}

#[test]
fn who_is_scalable() {
    let p = 0.4;
    for (options, ecn, scalable, marked) in [
        ("ecn_scal", Ecn::Ect0, true, true),
        ("ecn_scal", Ecn::Ect1, true, true),
        ("ect1_scal", Ecn::Ect0, false, true),
        ("no_scal", Ecn::Ect1, false, true),
        ("noecn", Ecn::Ect1, false, false),
    ] {
        let mut bench = with_p_above(&format!("limit 100000 {options}"), p);
        let p = bench.gauge("p_l_coupled");
        let (marks, drops) = hit(&mut bench, ecn, 20_000);
        let law = if scalable { p } else { p * p / 4.0 };
        let (hits, none) = if marked { (marks, drops) } else { (drops, marks) };
        assert!((hits - law).abs() < 0.015, "{options}, {ecn:?}: {hits}, law {law}");
        assert_eq!(none, 0.0, "{options}, {ecn:?}");
    }
}

/// p ends at 1: then a quarter of the Not-ECT packets is dropped (k = 2) and the rest fills the
/// queue; scalable packets are all marked, none dropped.
#[test]
fn beyond_a_quarter_there_is_tail_drop_only() {
    let mut bench = with_p_above("limit 100000", 1.0);
    assert_eq!(p(&bench), u32::MAX);
    let (_, dropped) = hit(&mut bench, Ecn::NotEct, 50_000);
    assert!((dropped - 0.25).abs() < 0.01, "{dropped}");
    assert_eq!(hit(&mut bench, Ecn::Ect1, 1000), (1.0, 0.0));
    let mut full = with_p_above("limit 95", 1.0);
    hit(&mut full, Ecn::Ect1, 1000);
    assert_eq!((full.packets(), full.dropped(DropReason::Overflow) as u64), (95, 5 + 990));
}

#[test]
fn dualq_serves_a_time_shifted_fifo() {
    for (options, ect0_band) in [("dualq", 0), ("dualq_ect1", 1)] {
        let mut bench = Bench::new(&format!("pi2 {options}"));
        bench.put(0, Ecn::NotEct);
        bench.put(ms(30), Ecn::Ect1);
        bench.put(ms(31), Ecn::Ect0);
        assert_eq!(bench.take(ms(40)).map(|o| o.band), Some(0), "L is older with the shift");
        assert_eq!(bench.queue.bands(), ["L", "C"]);
        assert_eq!(bench.take(ms(80)).map(|o| o.pkt.id), Some(if ect0_band == 0 { 2 } else { 0 }));
    }
    let mut bench = Bench::new("pi2 dualq t_shift 40ms");
    bench.put(0, Ecn::NotEct);
    bench.put(ms(41), Ecn::Ect1);
    assert_eq!(bench.take(ms(60)).map(|o| o.band), Some(1), "C is older by more than 40 ms");
}

#[test]
fn l_marks_beyond_its_threshold_while_a_queue_is_left() {
    let mut bench = Bench::new("pi2 dualq");
    for _ in 0..3 {
        bench.put(0, Ecn::Ect0);
    }
    let step = Marks { aqm: false, step: true, sce: false };
    assert_eq!(bench.take(1_000_000).map(|o| o.marks), Some(Marks::default()), "1 ms is not above");
    assert_eq!(bench.take(1_000_001).map(|o| o.marks), Some(step));
    assert_eq!(bench.take(9_000_000).map(|o| o.marks), Some(Marks::default()), "the last");
}
