//! DualPI2 of RFC 9332 Appendix A, line by line, and the schedulers.

use crate::harness::{Bench, FRAME, ms};
use l4slab_core::aqm::{DropReason, Marks};
use l4slab_core::ecn::Ecn;

const L: usize = 0;
const C: usize = 1;
const RAMP: Marks = Marks { aqm: false, step: true, sce: false };
const COUPLED: Marks = Marks { aqm: true, step: false, sce: false };

/// An update that sees a head of this age.
fn update(bench: &mut Bench, now: u64, age: u64) -> f64 {
    if age > 0 {
        bench.put_len(now - age, Ecn::NotEct, 100);
    }
    bench.timer(now);
    bench.drained(now);
    bench.gauge("p_prime")
}

const NOW: u64 = 1_000_000_000_000;

/// A queue with p' as wanted that has just seen the delay `last` (in seconds): p' is driven to 1 at
/// a delay from which the next update, of `last`, falls to it.
fn with_p(p: f64, last: f64, (alpha, beta, target): (f64, f64, f64), options: &str) -> Bench {
    let rtts = format!("alpha {alpha} beta {beta} target {}us", target * 1e6);
    let mut bench = Bench::new(&format!("dualpi2_rfc9332 {rtts} limit 100s {options}"));
    let before = last + (1.0 + alpha * (last - target) - p) / beta;
    let nanoseconds = |s: f64| (s * 1e9).round() as u64;
    for i in 0..2000 {
        update(&mut bench, NOW / 2 + i * ms(15), nanoseconds(before));
    }
    assert_eq!(bench.gauge("p_prime"), 1.0);
    update(&mut bench, NOW - ms(100), nanoseconds(last));
    assert!((bench.gauge("p_prime") - p).abs() < 1e-7, "{}", bench.gauge("p_prime"));
    bench.drops.clear();
    bench
}

const RFC: (f64, f64, f64) = (0.15, 3.0, 0.015);

#[test]
fn defaults_follow_from_the_worst_rtt() {
    let canonical = |tc: &str| {
        l4slab_core::aqm::registry::parse(tc).unwrap_or_else(|e| panic!("{e}")).canonical()
    };
    let default = canonical("dualpi2_rfc9332");
    assert!(default.contains("target 15ms tupdate 15ms alpha 0.15 beta 3 "), "{default}");
    let half = canonical("dualpi2_rfc9332 max_rtt 30ms");
    assert!(half.contains("tupdate 10ms alpha 1.111111 beta 10 "), "{half}");
    let own = canonical("dualpi2_rfc9332 alpha 0.5 max_rtt 30ms");
    assert!(own.contains("tupdate 10ms alpha 0.5 beta 10 "), "{own}");
}

#[test]
fn the_controller_of_appendix_a() {
    let mut bench = Bench::new("dualpi2_rfc9332");
    for (i, (age, p)) in [
        (20, 0.15 * 0.005 + 3.0 * 0.020),
        (20, 0.06075 + 0.15 * 0.005),
        (10, 0.0615 - 0.15 * 0.005 - 3.0 * 0.010),
        (0, 0.0),
        (400, 1.0),
    ]
    .into_iter()
    .enumerate()
    {
        let measured = update(&mut bench, ms(10_000 + 15 * i as u64), ms(age));
        assert!((measured - p).abs() < 1e-12, "age {age}: {measured}");
    }
    for (l, c) in [(20, 3), (3, 20)] {
        let mut bench = Bench::new("dualpi2_rfc9332");
        bench.put(ms(1000 - l), Ecn::Ect1);
        bench.put(ms(1000 - c), Ecn::NotEct);
        bench.timer(ms(1000));
        assert!((bench.gauge("p_prime") - 0.06075).abs() < 1e-12, "the longer of the two");
    }
    let mut bench = Bench::new("dualpi2_rfc9332");
    assert_eq!(bench.queue.next_timer().0, ms(15));
    bench.timer(ms(15));
    assert_eq!(bench.queue.next_timer().0, ms(30));
}

/// The increments that PI2's authors print for alpha = 0.125 and beta = 1.25: the change of
/// p_C = p'^2 in percent, in four digits.
#[test]
fn one_step_changes_p_c_by_the_published_increments() {
    let gains = (0.125, 1.25, 0.120);
    let printed = |change: f64| (change * 100.0 * 1e4).round() / 1e4;
    for (p, integral, proportional) in [
        (
            0.30_f64.sqrt(),
            [1.3849, 0.137, 0.0136, -0.0136, -0.1367],
            [15.2555, 1.3849, 0.137, -0.1367, -1.3536],
        ),
        (
            0.03_f64.sqrt(),
            [0.4486, 0.0434, 0.0043, -0.0043, -0.0431],
            [5.8926, 0.4486, 0.0434, -0.0431, -0.4173],
        ),
        (
            0.003_f64.sqrt(),
            [0.1525, 0.0138, 0.0013, -0.0013, -0.0135],
            [2.9318, 0.1525, 0.0138, -0.0135, -0.1213],
        ),
    ] {
        for (i, error) in [0.100, 0.010, 0.001, -0.001, -0.010].into_iter().enumerate() {
            let step = |last: f64, delay: f64| {
                let mut bench = with_p(p, last, gains, "");
                let before = bench.gauge("p_c");
                update(&mut bench, NOW, (delay * 1e9).round() as u64);
                printed(bench.gauge("p_c") - before)
            };
            let what = format!("p' = {p}, error {error} s");
            let target = gains.2;
            // The printed digits are rounded, and p' is met to seven.
            let agrees = |measured: f64, printed: f64| (measured - printed).abs() < 1.5e-4;
            let measured = step(target + error, target + error);
            assert!(agrees(measured, integral[i]), "{what}, integral: {measured}");
            let measured = step(target - error, target);
            assert!(agrees(measured, proportional[i]), "{what}, proportional: {measured}");
        }
    }
}

/// The ramp from 0.8 to 1.2 ms, for an L of more than one packet.
#[test]
fn the_ramp_of_l() {
    for (age, p) in [(800, 0.0), (900, 0.25), (1000, 0.5), (1100, 0.75), (1200, 1.0), (9000, 1.0)] {
        let mut bench = Bench::new("dualpi2_rfc9332");
        let n = 400;
        let mut marks = 0.0;
        for i in 0..n {
            let at = ms(20 * i);
            bench.put(at, Ecn::Ect1);
            bench.put(at, Ecn::Ect1);
            let first = bench.take(at + age * 1000).expect("a packet");
            marks += f64::from(u8::from(first.marks == RAMP));
            let last = bench.take(at + age * 1000).expect("a packet");
            assert_eq!(last.marks, Marks::default(), "th_len: alone, no native mark");
            assert_eq!(bench.gauge("p_l_native"), 0.0);
        }
        // The sum has to exceed 1: one hit later than the share.
        assert!((marks - (n as f64 * p)).abs() <= 1.0, "{age} us: {marks}");
    }
    let mut bench = Bench::new("dualpi2_rfc9332 th_len 0 range 0us min_th 1ms");
    let alone = |bench: &mut Bench, at, age: u64| {
        bench.put(at, Ecn::Ect1);
        bench.take(at + age).expect("a packet").marks
    };
    alone(&mut bench, 0, 2_000_000); // fills the sum
    assert_eq!(alone(&mut bench, ms(10), 1_000_000), Marks::default(), "at the step: not above");
    assert_eq!(alone(&mut bench, ms(20), 1_000_001), RAMP, "a step is a ramp without length");
}

/// Offers `n` packets of one kind at NOW in pairs and takes them at once: which were (marked, dropped).
fn offer(bench: &mut Bench, ecn: Ecn, n: u64) -> (Vec<u64>, Vec<u64>) {
    bench.drops.clear();
    let (mut marked, mut first) = (Vec::new(), None);
    for _ in 0..n {
        let id = bench.put(NOW, ecn);
        first.get_or_insert(id);
        if let Some(out) = bench.take(NOW)
            && out.marks == COUPLED
        {
            marked.push(out.pkt.id - first.unwrap_or(0));
        }
    }
    let dropped = bench.drops.iter().map(|d| d.pkt.id - first.unwrap_or(0)).collect();
    (marked, dropped)
}

/// `recur`: floor(n p) hits or one less, and gaps of 1/p, rounded down or up.
#[test]
fn hits_have_regular_spacing() {
    for p in [0.31, 0.2, 0.123, 0.07] {
        for (ecn, likelihood) in [(Ecn::NotEct, p * p), (Ecn::Ect0, p * p), (Ecn::Ect1, 2.0 * p)] {
            let mut bench = with_p(p, 0.015, RFC, "");
            let (marked, dropped) = offer(&mut bench, ecn, 5000);
            let hits = if ecn == Ecn::NotEct { &dropped } else { &marked };
            let others = if ecn == Ecn::NotEct { &marked } else { &dropped };
            assert!(others.is_empty());
            let expected = 5000.0 * likelihood;
            assert!((hits.len() as f64 - expected).abs() <= 1.0, "{} of {expected}", hits.len());
            let (low, high) = ((1.0 / likelihood).floor() as u64, (1.0 / likelihood).ceil() as u64);
            for pair in hits.windows(2) {
                let gap = pair[1] - pair[0];
                assert!((low..=high).contains(&gap), "p' = {p}, {ecn:?}: {gap}, 1/{likelihood}");
            }
        }
    }
}

#[test]
fn random_hits_are_binomial() {
    let n = 100_000;
    for (p, ecn) in [(0.2, Ecn::Ect0), (0.2, Ecn::Ect1), (0.4, Ecn::NotEct)] {
        let mut bench = with_p(p, 0.015, RFC, "random");
        let (marked, dropped) = offer(&mut bench, ecn, n);
        let law = if ecn == Ecn::Ect1 { 2.0 * p } else { p * p };
        let share = (marked.len() + dropped.len()) as f64 / n as f64;
        let sigma = (law * (1.0 - law) / n as f64).sqrt();
        assert!((share - law).abs() < 4.0 * sigma, "{ecn:?}: {share}, law {law}");
        let neighbours = marked.windows(2).chain(dropped.windows(2)).filter(|w| w[1] - w[0] == 1);
        let pairs = neighbours.count() as f64 / n as f64;
        assert!((pairs - law * law).abs() < 0.1 * law, "independent: {pairs}");
    }
}

/// p_L = min(1, k p'), p_C = p'^2.
#[test]
fn coupling() {
    for k in [1.0, 2.0, 4.0] {
        for p in [0.05, 0.2, 0.45, 0.9] {
            let bench = with_p(p, 0.015, RFC, &format!("coupling_factor {k}"));
            let (p_c, p_l) = (bench.gauge("p_c"), bench.gauge("p_l_coupled"));
            assert!((p_l - (k * p_c.sqrt()).min(1.0)).abs() < 1e-12, "k = {k}, p' = {p}");
        }
    }
}

/// From p_C = 1/k^2 on ECT is dropped with p_C in both queues; before, none is.
#[test]
fn overload_begins_at_one_over_k_squared() {
    for k in [2.0, 4.0] {
        for (above, p) in [(false, 0.99 / k), (true, 1.01 / k)] {
            for ecn in [Ecn::Ect0, Ecn::Ect1] {
                let mut bench = with_p(p, 0.015, RFC, &format!("coupling_factor {k}"));
                let (marked, dropped) = offer(&mut bench, ecn, 2000);
                let drops = dropped.len() as f64;
                let expected = if above { 2000.0 * p * p } else { 0.0 };
                assert!((drops - expected).abs() < 3.0, "k = {k}, p' = {p}, {ecn:?}: {drops}");
                if above && ecn == Ecn::Ect1 {
                    assert!((marked.len() as f64 - (2000.0 - drops)).abs() < 3.0, "the rest is CE");
                }
                assert!(!above || ecn == Ecn::Ect1 || marked.is_empty(), "C no longer marks");
            }
        }
    }
    let mut bench = with_p(0.3, 0.015, RFC, "p_lmax 0.5");
    let (marked, dropped) = offer(&mut bench, Ecn::Ect1, 1000);
    assert!(
        (dropped.len() as f64 - 90.0).abs() <= 4.0,
        "p_lmax: L drops with p_C earlier: {}",
        dropped.len()
    );
    assert!((marked.len() as f64 - 0.6 * 910.0).abs() <= 6.0, "and marks with k p'");
}

/// 250 ms of 100 Mb/s, with room for a full frame left.
#[test]
fn the_limit_is_time_at_the_links_rate() {
    let mut bench = Bench::new("dualpi2_rfc9332");
    for i in 0..3000 {
        bench.put(0, if i % 2 == 0 { Ecn::Ect1 } else { Ecn::NotEct });
    }
    assert_eq!(bench.packets(), 3_125_000 / u64::from(FRAME));
    assert_eq!(bench.dropped(DropReason::Overflow) as u64, 3000 - bench.packets());
}

/// Bytes sent by L and C while both have a backlog.
fn served(scheduler: &str, len_l: u32, len_c: u32) -> (f64, f64) {
    let mut bench = Bench::new(&format!("curvy_red limit 10s scheduler {scheduler}"));
    for _ in 0..3000 {
        bench.put_len(0, Ecn::Ect1, len_l);
        bench.put_len(0, Ecn::NotEct, len_c);
    }
    let mut bytes = [0.0; 2];
    for _ in 0..2000 {
        let out = bench.take(0).expect("a backlog");
        bytes[out.band] += f64::from(out.pkt.len);
    }
    (bytes[L], bytes[C])
}

#[test]
fn shares_of_the_schedulers() {
    for (len_l, len_c) in [(1514, 1514), (200, 1514), (1514, 200)] {
        for percent in [10.0, 25.0, 50.0, 80.0] {
            for kind in ["wrr", "drr"] {
                let (l, c) = served(&format!("{kind} classic_protection {percent}%"), len_l, len_c);
                let law = percent / 100.0 * (l + c);
                // A quantum: 1514 B for the smaller share, nine times as much for 90 %.
                let error = 2.0 * 10.0 * 1514.0;
                assert!((c - law).abs() < error, "{kind} {percent} %: {c} of {law} B");
            }
        }
        assert_eq!(served("strict", len_l, len_c).1, 0.0);
    }
}

#[test]
fn a_time_shifted_fifo_goes_by_shifted_arrival() {
    for (shift, expected) in [("50ms", [1, 2, 0]), ("20ms", [0, 1, 2]), ("35ms", [1, 0, 2])] {
        let mut bench =
            Bench::new(&format!("dualpi2_rfc9332 th_len 99 scheduler tshift tshift {shift}"));
        bench.put(ms(100), Ecn::NotEct);
        bench.put(ms(130), Ecn::Ect1);
        bench.put(ms(140), Ecn::Ect1);
        let ids: Vec<_> = (0..3).map(|_| bench.take(ms(141)).map(|o| o.pkt.id)).collect();
        assert_eq!(ids, expected.map(Some), "{shift}");
    }
}

#[test]
fn deficit_round_robin_takes_turns() {
    let mut bench = Bench::new("curvy_red scheduler drr classic_protection 25%");
    for _ in 0..12 {
        bench.put(0, Ecn::Ect1);
        bench.put(0, Ecn::NotEct);
    }
    let bands: Vec<_> = (0..8).map(|_| bench.take(0).map(|o| o.band)).collect();
    assert_eq!(bands, [L, L, L, C, L, L, L, C].map(Some));
}
