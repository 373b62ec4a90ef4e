//! Curvy RED: the curves, the coupling, and the native threshold.

use crate::harness::{Bench, FRAME, ms};
use l4slab_core::aqm::{DropReason, Marks};
use l4slab_core::ecn::Ecn;

/// Many packets of C leave, each after `delay` ms, until the smoothed delay is there.
fn settled(options: &str, delay: u64) -> (Bench, u64) {
    let mut bench = Bench::new(&format!("curvy_red {options}"));
    let mut now = ms(1000);
    for _ in 0..1000 {
        now += ms(1000);
        bench.put(now - ms(delay), Ecn::Ect0);
        bench.take(now);
    }
    bench.drops.clear();
    (bench, now)
}

#[test]
fn the_delay_is_smoothed_over_two_to_the_f_packets() {
    for f in [0, 3, 5] {
        let mut bench = Bench::new(&format!("curvy_red f {f}"));
        let mut law = 0.0;
        for i in 0..50 {
            let delay = if i % 2 == 0 { 40 } else { 100 };
            bench.put(ms(1000 * (i + 1)), Ecn::NotEct);
            bench.take(ms(1000 * (i + 1) + delay));
            law += (delay as f64 - law) / f64::from(1 << f);
            assert!((bench.gauge("smoothed_qdelay_ms") - law).abs() < 1e-9, "f = {f}");
        }
    }
}

/// C: p = (2 d)^2, with d in seconds; marks for ECT(0), drops for Not-ECT.
#[test]
fn c_is_hit_with_the_square() {
    let n = 40_000;
    for (delay, u) in [(50, 1), (100, 1), (250, 1), (400, 1), (250, 2)] {
        let (mut bench, mut now) = settled(&format!("u {u}"), delay);
        let law = (2e-3 * delay as f64).powi(2 * u);
        assert!((bench.gauge("p_c") - law).abs() < 1e-6, "{}", bench.gauge("p_c"));
        for ecn in [Ecn::Ect0, Ecn::NotEct] {
            let (mut marks, drops) = (0, bench.drops.len());
            for _ in 0..n {
                now += ms(1000);
                bench.put(now - ms(delay), ecn);
                marks += u32::from(bench.take(now).is_some_and(|o| o.marks.aqm));
            }
            let drops = bench.drops.len() - drops;
            let hits = if ecn == Ecn::Ect0 { f64::from(marks) } else { drops as f64 };
            let none = if ecn == Ecn::Ect0 { drops as u32 } else { marks };
            assert_eq!(none, 0);
            let sigma = (law * (1.0 - law) * f64::from(n)).sqrt();
            let expected = law * f64::from(n);
            assert!((hits - expected).abs() < 4.0 * sigma, "{delay} ms: {hits} of {expected}");
        }
    }
}

/// p_C = (p_L/2^k)^2, k = s_l - s_c, while C's delay stands still; p_L on packets.
#[test]
fn coupling() {
    let n = 40_000;
    for (s_c, s_l) in [(1, 2), (0, 1), (1, 1), (0, 2)] {
        for delay in [20, 100, 200] {
            for smoothed in ["instantaneous", "smoothed"] {
                let (mut bench, now) =
                    settled(&format!("limit 100s s_c {s_c} s_l {s_l} {smoothed}"), delay);
                bench.put(now - ms(delay), Ecn::NotEct); // stays: strict priority
                let mut marks = 0;
                for _ in 0..n {
                    bench.put(now, Ecn::Ect1);
                    marks += u32::from(bench.take(now).is_some_and(|o| o.marks.aqm));
                }
                let (p_c, p_l) = (bench.gauge("p_c"), bench.gauge("p_l_coupled"));
                let what = format!("s_c {s_c}, s_l {s_l}, {delay} ms, {smoothed}");
                let k = f64::from(s_l - s_c);
                if p_l < 1.0 {
                    assert!((p_c - (p_l / k.exp2()).powi(2)).abs() < 1e-6, "{what}: {p_c}, {p_l}");
                }
                let share = f64::from(marks) / f64::from(n);
                assert!((share - p_l).abs() < 0.011, "{what}: {share} of {p_l}");
            }
        }
    }
}

#[test]
fn nothing_is_coupled_without_a_packet_in_c() {
    let (mut bench, now) = settled("", 400);
    for _ in 0..1000 {
        bench.put(now, Ecn::Ect1);
        assert_eq!(bench.take(now).map(|o| o.marks), Some(Marks::default()));
    }
}

#[test]
fn l_marks_natively_above_five_frames() {
    let mut bench = Bench::new("curvy_red");
    for _ in 0..8 {
        bench.put(0, Ecn::Ect1);
    }
    let step: Vec<_> = (0..8).filter_map(|_| bench.take(0).map(|o| o.marks.step)).collect();
    // Left behind are 7, 6, 5, … frames.
    assert_eq!(step, [true, true, false, false, false, false, false, false]);
    let mut bench = Bench::new("curvy_red t 1ms");
    bench.put(0, Ecn::Ect1);
    bench.put(0, Ecn::Ect1);
    assert_eq!(bench.take(1_000_000).map(|o| o.marks.step), Some(false));
    assert_eq!(bench.take(1_000_001).map(|o| o.marks.step), Some(true));
}

#[test]
fn min_th_shifts_the_curves() {
    let (bench, _) = settled("min_th 100ms", 90);
    assert_eq!(bench.gauge("p_c"), 0.0);
    let (bench, _) = settled("min_th 100ms", 150);
    assert!((bench.gauge("p_c") - 0.01).abs() < 1e-6);
}

#[test]
fn overload_is_tail_drop() {
    let mut bench = Bench::new("curvy_red");
    for _ in 0..3000 {
        bench.put(0, Ecn::NotEct);
    }
    assert_eq!(bench.packets(), 3_125_000 / u64::from(FRAME));
    assert_eq!(bench.dropped(DropReason::Overflow) as u64, 3000 - bench.packets());
}

#[test]
fn ect0_goes_to_l_where_asked() {
    for (options, into_l) in [("", [false, false, true]), (" any_ect", [false, true, true])] {
        let mut bench = Bench::new(&format!("curvy_red t 0b{options}"));
        for (ecn, in_l) in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1].into_iter().zip(into_l) {
            // Only L marks what leaves another packet of its queue behind.
            bench.put(0, ecn);
            bench.put(0, ecn);
            let step = bench.take(0).map(|o| o.marks.step);
            assert_eq!(step, Some(in_l), "{ecn:?}{options}");
            bench.take(0);
        }
    }
}
