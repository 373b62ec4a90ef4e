//! CoDel step by step, against vectors computed by hand from the law of `codel_impl.h` (Linux 7.2).
//!
//! In 2^-16, 1/sqrt(count) is 65535 for a count of 1; a Newton step to 2 gives 32769 (exact: 46341),
//! then 36864, 31968, 28935, 26481 (exact from here within 1 %).

use crate::harness::{Bench, FRAME, ms};
use l4slab_core::aqm::{DropReason, Marks};
use l4slab_core::ecn::Ecn;

const LAW: Marks = Marks { aqm: true, step: false, sce: false };
const STEP: Marks = Marks { aqm: false, step: true, sce: false };
const NONE: Marks = Marks { aqm: false, step: false, sce: false };
const INTERVAL: f64 = 100e6;

/// A queue where a packet comes and one goes every `gap`, each after a wait of `wait`; returns when
/// packets left with a mark of the law.
fn marks_at_constant_sojourn(tc: &str, wait: u64, gap: u64, until: u64) -> Vec<u64> {
    let mut bench = Bench::new(&format!("{tc} limit 100000"));
    let mut marks = Vec::new();
    for now in (0..until).step_by(gap as usize) {
        bench.put(now, Ecn::Ect0);
        if now >= wait {
            let out = bench.take(now).unwrap();
            assert_eq!(now - out.pkt.at.0, wait);
            if out.marks.aqm {
                assert_eq!(out.pkt.ecn, Ecn::Ce);
                marks.push(now);
            }
        }
    }
    assert_eq!(bench.drops.len(), 0);
    marks
}

#[test]
fn signals_at_a_constant_sojourn_come_on_schedule() {
    let wait = ms(10);
    let marks = marks_at_constant_sojourn("codel ecn", wait, 1000, ms(600));
    // Above target from the first departure on; a signal when that has lasted more than 100 ms.
    assert_eq!(marks[0], wait + ms(100) + 1000);
    // Then after 100 ms/sqrt(count), in units of 1024 ns: the times by the law, each at the next
    // departure. The interval is 97656 units; 97656 * 65535 / 65536 is 97654.
    let gaps = [97654, 48829, 54931, 47635, 43116, 39459, 36638];
    let mut due = marks[0] / 1024;
    for (i, gap) in gaps.into_iter().enumerate() {
        due += gap;
        assert_eq!(marks[i + 1], (due * 1024).div_ceil(1000) * 1000, "signal {}", i + 2);
    }
}

/// The n-th signal comes I (2 sqrt n - 1.46 - 1/(2 sqrt n)) after the first (Euler-Maclaurin); the
/// first Newton steps, which start from far off, make that earlier by 0.25 I.
#[test]
fn the_nth_signal_comes_after_2_sqrt_n_intervals() {
    for interval_ms in [100.0, 20.0] {
        let tc = format!("codel ecn target 1ms interval {interval_ms}ms");
        let interval = interval_ms * 1e6;
        let marks = marks_at_constant_sojourn(&tc, ms(10), 10_000, (60.0 * interval) as u64);
        for n in [10.0_f64, 100.0, 400.0, 800.0] {
            let at = (marks[n as usize - 1] - marks[0]) as f64 / interval;
            let law = 2.0 * n.sqrt() - 1.46 - 0.5 / n.sqrt() - 0.25;
            assert!((at - law).abs() < 0.05, "signal {n}: after {at} I, law {law} I");
        }
    }
}

#[test]
fn below_target_or_with_one_frame_left_nothing_happens() {
    let short = marks_at_constant_sojourn("codel ecn", ms(5) - 1000, 1000, ms(500));
    assert_eq!(short.len(), 0, "less than target");
    let at_target = marks_at_constant_sojourn("codel ecn", ms(5), 1000, ms(150));
    assert!(!at_target.is_empty(), "target itself is too much");
    // One frame stays behind the one that leaves: 1514 B are not above 1514 B.
    assert_eq!(marks_at_constant_sojourn("codel ecn", ms(10), ms(10), ms(2000)).len(), 0);
    // Two do.
    assert!(!marks_at_constant_sojourn("codel ecn", ms(20), ms(10), ms(2000)).is_empty());
}

/// One packet in time is enough to begin anew.
#[test]
fn a_short_sojourn_ends_the_episode() {
    let mut bench = Bench::new("codel ecn");
    for _ in 0..100 {
        bench.put(0, Ecn::Ect1);
    }
    assert_eq!(bench.take(ms(10)).unwrap().marks, NONE);
    assert_eq!(bench.take(ms(110)).unwrap().marks, NONE, "not yet more than an interval");
    assert_eq!(bench.take(ms(110) + 1).unwrap().marks, LAW);
    assert_eq!((bench.gauge("count"), bench.gauge("dropping")), (1.0, 1.0));
    bench.drained(ms(110) + 2);
    for at in [ms(200), ms(200), ms(200)] {
        bench.put(at, Ecn::Ect1);
    }
    assert_eq!(bench.take(ms(204)).unwrap().marks, NONE);
    assert_eq!(bench.gauge("dropping"), 0.0);
    assert_eq!(bench.take(ms(206)).unwrap().marks, NONE, "the interval begins now");
}

#[test]
fn what_cannot_be_marked_is_dropped_and_the_next_one_goes() {
    // A packet that came with CE is not dropped, and is no mark of this queue.
    for (tc, ecn, dropped, marked) in [
        ("codel ecn", Ecn::NotEct, true, false),
        ("codel", Ecn::Ect0, true, false),
        ("codel noecn", Ecn::Ect1, true, false),
        ("codel ecn", Ecn::Ect1, false, true),
        ("codel ecn", Ecn::Ce, false, false),
    ] {
        let mut bench = Bench::new(tc);
        for _ in 0..10 {
            bench.put(0, ecn);
        }
        bench.take(ms(10));
        let out = bench.take(ms(111)).unwrap();
        assert_eq!(out.marks.aqm, marked, "{tc} {ecn:?}");
        assert_eq!(bench.dropped(DropReason::Aqm), usize::from(dropped));
        assert_eq!(out.pkt.id, if dropped { 2 } else { 1 });
    }
}

/// An episode soon after the last one goes on from its rate: the count is what the last one added.
#[test]
fn the_next_episode_remembers_the_last() {
    let episode = |idle_ms: u64| {
        let mut bench = Bench::new("codel ecn");
        let mut now = 0;
        // The signals are those of the schedule above: at 111, 211, 261, 317.5, 366.3 ms, …
        while bench.gauge("count") < 5.0 {
            bench.put(now, Ecn::Ect0);
            if now >= ms(10) {
                bench.take(now);
            }
            now += ms(1);
        }
        assert_eq!(bench.gauge("lastcount"), 1.0);
        let drop_next = (bench.gauge("drop_next_s") * 1e9).round() as u64;
        bench.drained(now);
        assert_eq!(bench.gauge("dropping"), 0.0);
        // drop_next lies 44 ms after the fifth signal; from there on the 16 intervals count.
        now = drop_next + ms(idle_ms) - ms(111);
        for _ in 0..10 {
            bench.put(now, Ecn::Ect0);
        }
        assert_eq!(bench.take(now + ms(10)).unwrap().marks, NONE);
        assert_eq!(bench.take(now + ms(111)).unwrap().marks, LAW);
        (bench.gauge("count"), bench.gauge("lastcount"))
    };
    assert_eq!(episode(1599), (4.0, 4.0), "5 - 1");
    assert_eq!(episode(1600), (1.0, 1.0));
}

/// With a standing queue of seconds, drops fall behind; Linux 7.2 stops after 256 per departure.
#[test]
fn no_more_than_256_drops_at_once() {
    let mut bench = Bench::new("codel limit 100000");
    for _ in 0..50_000 {
        bench.put(0, Ecn::NotEct);
    }
    bench.take(ms(10));
    bench.take(ms(111));
    assert_eq!(bench.drops.len(), 1);
    // 60 s later about (600/2)^2 drops are due.
    bench.take(ms(60_000)).unwrap();
    assert_eq!(bench.drops.len(), 1 + 256);
    assert_eq!(bench.gauge("count"), 257.0);
    // The schedule begins anew from here: 100 ms/sqrt(257) = 6.24 ms.
    let next = bench.gauge("drop_next_s");
    assert!((next - 60.0 - 0.00624).abs() < 0.0001, "{next}");
    bench.take(ms(60_006)).unwrap();
    assert_eq!(bench.drops.len(), 1 + 256);
    bench.take(ms(60_007)).unwrap();
    assert_eq!(bench.drops.len(), 1 + 256 + 1);
}

/// At most one mark per departure, even if more are due.
#[test]
fn one_mark_per_departure() {
    let mut bench = Bench::new("codel ecn limit 100000");
    for _ in 0..1000 {
        bench.put(0, Ecn::Ect0);
    }
    bench.take(ms(10));
    bench.take(ms(111));
    for i in 0..100 {
        assert_eq!(bench.take(ms(60_000)).unwrap().marks, LAW);
        assert_eq!(bench.gauge("count"), f64::from(i + 2));
    }
    assert_eq!(bench.drops.len(), 0);
}

#[test]
fn ce_threshold_marks_whatever_ecn_says() {
    for tc in ["codel ce_threshold 1ms", "codel ce_threshold 1ms ecn"] {
        let mut bench = Bench::new(tc);
        for ecn in [Ecn::Ect0, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct, Ecn::Ce] {
            bench.put(0, ecn);
        }
        assert_eq!(bench.take(ms(1)).unwrap().marks, NONE, "not beyond");
        assert_eq!(bench.take(ms(1) + 1).unwrap().marks, STEP);
        assert_eq!(bench.take(ms(1) + 1).unwrap().marks, STEP);
        let not_ect = bench.take(ms(1) + 1).unwrap();
        assert_eq!((not_ect.marks, not_ect.pkt.ecn), (NONE, Ecn::NotEct));
        let ce = bench.take(ms(1) + 1).unwrap();
        assert_eq!((ce.marks, ce.pkt.ecn), (NONE, Ecn::Ce), "it came with CE");
        assert_eq!(bench.drops.len(), 0);
    }
    // Without waiting nothing exceeds a threshold of zero.
    let mut bench = Bench::new("codel ce_threshold 0");
    bench.put(5, Ecn::Ect0);
    bench.put(5, Ecn::Ect0);
    assert_eq!(bench.take(5).unwrap().marks, NONE);
    assert_eq!(bench.take(6).unwrap().marks, STEP);
}

#[test]
fn a_full_queue_drops_the_new_packet() {
    let mut bench = Bench::new("codel limit 3");
    for _ in 0..5 {
        bench.put(0, Ecn::Ect1);
    }
    assert_eq!(bench.drops.iter().map(|d| d.pkt.id).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(bench.dropped(DropReason::Overflow), 2);
    assert_eq!(bench.queue.backlog().bytes, 3 * u64::from(FRAME));
}

/// From e packets per second too many, not-ECT, drops keep the queue from growing when
/// sqrt(count)/I = e, and each drop adds one to count: that takes 2 I^2 e.
#[test]
fn an_excess_is_matched_after_2_i_squared_e() {
    let excess = 500.0; // packets per second
    let gap = 1e9 / 1000.0; // 1000 packets per second leave
    let mut bench = Bench::new("codel limit 1000000");
    let mut arrivals = 0.0;
    let mut peak = (0, 0.0);
    for i in 1_u32..40_000 {
        let now = f64::from(i) * gap;
        while arrivals <= now {
            bench.put(arrivals as u64, Ecn::NotEct);
            arrivals += 1e9 / (1000.0 + excess);
        }
        bench.take(now as u64);
        if bench.packets() > peak.0 {
            peak = (bench.packets(), now * 1e-9);
        }
    }
    let interval = INTERVAL * 1e-9;
    let law = 2.0 * interval * interval * excess;
    assert!((peak.1 / law - 1.0).abs() < 0.05, "peak at {} s, law {law} s", peak.1);
}
