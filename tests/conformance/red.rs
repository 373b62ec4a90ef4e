//! RED step by step: what `tc` computes, against what `tc` of iproute2 7.3 sends to the kernel, and
//! the law against `red.h` (Linux 7.2) and Floyd and Jacobson 1993.

use crate::harness::{Bench, FRAME, ms};
use l4slab_core::aqm::DropReason;
use l4slab_core::aqm::red::{RedConfig, RedTable};
use l4slab_core::aqm::registry::{self, QdiscConfig};
use l4slab_core::ecn::Ecn;
use l4slab_core::rng::Rng;
use l4slab_core::time::Time;

fn config(tc: &str) -> RedConfig {
    match registry::parse(tc) {
        Ok(QdiscConfig::Red(config)) => config,
        other => panic!("{tc}: {other:?}"),
    }
}

/// Limit, min, max, wlog, scell_log, max_p; then where the table of decays reaches 1, 2 and 10, and
/// its sum. All as sent by `tc`.
#[test]
fn parameters_are_those_that_tc_sends() {
    let table = [
        (
            "red limit 150000 avpkt 1000 adaptive bandwidth 50Mbit ecn",
            (150_000, 12_500, 37_500, 4, 12, 85_899_345),
            ([10, 19, 95], 3329),
        ),
        (
            "red limit 400000 avpkt 1000 adaptive bandwidth 50Mbit ecn",
            (400_000, 33_333, 100_000, 5, 13, 85_899_345),
            ([10, 20, 97], 3274),
        ),
        (
            "red limit 1600000 min 120000 max 360000 avpkt 1000 burst 220 ecn",
            (1_600_000, 120_000, 360_000, 7, 17, 85_899_345),
            ([13, 25, 122], 2567),
        ),
        // DCTCP's recommendation. A probability of 1 overflows, and a power of two is taken:
        // (2^32 - 1) / 2^13 * 5000.
        (
            "red limit 1000000 min 30000 max 35000 avpkt 1500 burst 20 ecn bandwidth 10Gbit probability 1",
            (1_000_000, 30_000, 35_000, 1, 1, 524_287 * 5000),
            ([14, 28, 138], 2269),
        ),
        (
            "red limit 1000000 min 30000 max 30001 avpkt 1500 burst 21 ecn probability 1",
            (1_000_000, 30_000, 30_001, 2, 12, u32::MAX >> 1),
            ([16, 32, 160], 1940),
        ),
        (
            "red limit 1000000 min 30000 max 30000 avpkt 1500",
            (1_000_000, 30_000, 30_000, 1, 11, 85_899_345),
            ([14, 27, 133], 2357),
        ),
        (
            "red limit 1000000 avpkt 1500 bandwidth 30Gbit",
            (1_000_000, 83_333, 250_000, 6, 5, 85_899_345),
            ([14, 28, 139], 2236),
        ),
        (
            "red limit 1000000 avpkt 1500 probability 0.5",
            (1_000_000, 83_333, 250_000, 6, 17, 1 << 31),
            ([10, 19, 91], 3467),
        ),
        (
            "red limit 60k avpkt 1k min 10kb burst 0x20",
            (61_440, 10_240, 30_720, 6, 16, 85_899_345),
            ([13, 25, 125], 2515),
        ),
        (
            "red limit 60k avpkt 1k max 100k",
            (61_440, 34_133, 102_400, 5, 15, 85_899_345),
            ([13, 25, 124], 2537),
        ),
        (
            "red limit 1000000 avpkt 100 min 100000 burst 2000",
            (1_000_000, 100_000, 300_000, 11, 18, 85_899_345),
            ([10, 20, 98], 3221),
        ),
    ];
    for (tc, parameters, (first, sum)) in table {
        let c = config(tc);
        let t = RedTable::new(&c).unwrap();
        assert_eq!((c.limit, c.min, c.max, t.wlog, t.scell_log, t.max_p), parameters, "{tc}");
        let reached = [1, 2, 10].map(|n| t.decay.iter().position(|&d| d == n).unwrap());
        assert_eq!(reached, first, "{tc}");
        assert_eq!(t.decay.iter().map(|&d| u32::from(d)).sum::<u32>(), sum, "{tc}");
        assert_eq!((t.decay[0], t.decay[255]), (0, 31));
    }
}

/// What a burst needs: Floyd's table of the weight for min = 32 packets (in the kernel's `red.h`).
#[test]
fn the_weight_follows_from_the_burst() {
    for burst in [46, 57, 75, 101] {
        // The largest burst of each weight: a packet more takes the next one.
        let wlog = |burst: u32| {
            let tc = format!("red limit 10000000 min 32000 avpkt 1000 burst {burst}");
            RedTable::new(&config(&tc)).unwrap().wlog
        };
        assert_eq!(wlog(burst) + 1, wlog(burst + 1), "burst {burst}");
    }
}

/// A queue that holds `frames` full frames, its average settled there; min and max in frames.
fn settled(frames: u64, min: u32, max: u32, options: &str) -> Bench {
    let (min, max) = (min * FRAME, max * FRAME);
    // A burst so large that the average follows slowly: it lets the queue fill at once.
    let tc = format!("red limit 10000000 min {min} max {max} avpkt {FRAME} burst 100 {options}");
    let mut bench = Bench::new(&tc);
    for _ in 0..frames {
        bench.put(0, Ecn::Ect0);
    }
    for _ in 0..60_000 {
        exchange(&mut bench, Ecn::Ect0);
    }
    let avg = bench.gauge("avg_bytes") as u64;
    assert!(avg.abs_diff(frames * u64::from(FRAME)) <= 1 && bench.packets() == frames, "{avg}");
    bench.drops.clear();
    bench.enqueue_marks = 0;
    bench
}

/// One packet comes and one goes: was it signalled?
fn exchange(bench: &mut Bench, ecn: Ecn) -> bool {
    let before = (bench.drops.len(), bench.enqueue_marks);
    bench.put(0, ecn);
    if bench.drops.len() == before.0 {
        bench.take(0);
    }
    (bench.drops.len(), bench.enqueue_marks) != before
}

/// laws.md 6: the gap between marks is uniform on 1 … 1/p.
#[test]
fn gaps_between_marks_are_uniform() {
    // avg lies half-way: p = 0.1 / 2, 1/p = 20.
    let mut bench = settled(30, 20, 40, "ecn probability 0.1");
    // Rounding makes 1/p a trifle more than 20.
    let mut gaps = [0_u64; 22];
    let (mut gap, mut n) = (0, 0);
    exchange(&mut bench, Ecn::Ect0);
    while n < 40_000 {
        gap += 1;
        if exchange(&mut bench, Ecn::Ect0) {
            if n > 0 {
                gaps[gap] += 1;
            }
            (gap, n) = (0, n + 1);
        }
    }
    assert!(gaps[0] == 0 && gaps[21] < 20, "{gaps:?}");
    let total: u64 = gaps.iter().sum();
    let expected = total as f64 / 20.0;
    let chi2: f64 = gaps[1..=20].iter().map(|&g| (g as f64 - expected).powi(2) / expected).sum();
    // 19 degrees of freedom: 43.8 is exceeded once in a thousand.
    assert!(chi2 < 43.8, "chi-square {chi2}: {gaps:?}");
    let mean = (1..=20).map(|g| g as f64 * gaps[g] as f64).sum::<f64>() / total as f64;
    assert!((mean - 10.5).abs() < 0.1, "mean {mean}");
    assert_eq!(bench.drops.len(), 0);
}

#[test]
fn the_probability_rises_from_min_to_max() {
    for (frames, p) in [(22, 0.01), (30, 0.05), (38, 0.09)] {
        let mut bench = settled(frames, 20, 40, "ecn probability 0.1");
        let marks = (0..200_000).filter(|_| exchange(&mut bench, Ecn::Ect0)).count();
        // Mean of the gap: (1/p + 1)/2.
        let law = 200_000.0 * 2.0 / (1.0 / p + 1.0);
        let off = marks as f64 / law - 1.0;
        assert!(off.abs() < 0.03, "at {frames} frames {marks} marks, law {law}");
    }
    let mut below = settled(19, 20, 40, "ecn probability 0.1");
    assert!((0..1000).all(|_| !exchange(&mut below, Ecn::Ect0)));
    let mut beyond = settled(40, 20, 40, "ecn probability 0.1");
    assert!((0..1000).all(|_| exchange(&mut beyond, Ecn::Ect0)));
}

/// Who is marked, dropped, or let pass.
#[test]
fn actions_follow_the_flags() {
    #[derive(PartialEq, Debug)]
    enum Did {
        Mark,
        Drop,
        Pass,
    }
    use Did::{Drop, Mark, Pass};
    let act = |frames, options: &str, ecn| {
        // The average is beyond max, or between with p = 1 so that the second packet is hit.
        let mut bench = settled(frames, 20, 40, &format!("probability 0.999 {options}"));
        let did: Vec<_> = (0..50)
            .map(|_| {
                let before = (bench.drops.len(), bench.enqueue_marks);
                exchange(&mut bench, ecn);
                match (bench.drops.len() - before.0, bench.enqueue_marks - before.1) {
                    (0, 0) => Pass,
                    (0, _) => Mark,
                    _ => Drop,
                }
            })
            .collect();
        assert_eq!(bench.dropped(DropReason::Overflow), 0);
        if did.contains(&Drop) {
            Drop
        } else if did.contains(&Mark) {
            Mark
        } else {
            Pass
        }
    };
    for (between, beyond, options, ecn) in [
        (Mark, Mark, "ecn", Ecn::Ect0),
        (Mark, Mark, "ecn", Ecn::Ect1),
        // It came with CE: the queue neither drops it nor counts a mark.
        (Pass, Pass, "ecn", Ecn::Ce),
        (Drop, Drop, "ecn", Ecn::NotEct),
        (Mark, Drop, "ecn harddrop", Ecn::Ect0),
        (Pass, Pass, "ecn nodrop", Ecn::NotEct),
        (Mark, Mark, "ecn nodrop", Ecn::Ect0),
        (Pass, Drop, "ecn nodrop harddrop", Ecn::NotEct),
    ] {
        assert_eq!(act(36, options, ecn), between, "between, {options} {ecn:?}");
        assert_eq!(act(45, options, ecn), beyond, "beyond, {options} {ecn:?}");
    }
}

#[test]
fn without_ecn_everything_is_dropped() {
    let mut bench = Bench::new("red limit 1000000 min 1514 max 3028 avpkt 1514 burst 1");
    for _ in 0..50 {
        bench.put(0, Ecn::Ect1);
    }
    assert!(bench.packets() < 10 && bench.enqueue_marks == 0);
    assert_eq!(bench.dropped(DropReason::Aqm) as u64, 50 - bench.packets());
}

#[test]
fn the_limit_is_in_bytes() {
    let mut bench = Bench::new("red limit 4542 min 100000 avpkt 1000 burst 101");
    for _ in 0..4 {
        bench.put(0, Ecn::Ect0);
    }
    assert_eq!((bench.packets(), bench.dropped(DropReason::Overflow)), (3, 1));
}

/// The average takes in the backlog that a packet finds: with W = 1/16, by hand.
#[test]
fn the_average_moves_by_its_weight() {
    let mut bench = Bench::new("red limit 150000 avpkt 1000 bandwidth 50Mbit ecn");
    // At the first packet an idle time ends; then 1514, 3028, 4542 B are found.
    let mut scaled = 0;
    for found in 0..20 {
        bench.put(0, Ecn::Ect0);
        if found > 0 {
            scaled = scaled - (scaled >> 4) + found * 1514;
        }
        assert_eq!(bench.gauge("avg_bytes"), (scaled >> 4) as f64);
    }
    assert_eq!(bench.gauge("avg_bytes"), 12719.0);
}

/// An idle time shifts the average by what the table says, after an empty queue was asked.
#[test]
fn the_average_decays_while_idle() {
    let idle_for = |us: u64, ask: bool| {
        let mut bench = Bench::new("red limit 150000 avpkt 1000 bandwidth 50Mbit ecn");
        for _ in 0..20 {
            bench.put(0, Ecn::Ect0);
        }
        for _ in 0..20 {
            bench.take(0);
        }
        if ask {
            assert_eq!(bench.take(0), None);
        }
        bench.put(us * 1000, Ecn::Ect0);
        bench.gauge("avg_bytes")
    };
    // 12719 B times 16 is 203510. Cells of 4096 us; in the first one a straight line.
    assert_eq!(idle_for(0, true), 12719.0);
    assert_eq!(idle_for(1000, true), 9614.0); // 203510 - 203510 * 1000 / 4096 = 153825
    assert_eq!(idle_for(4000, true), 6359.0, "not below a half");
    assert_eq!(idle_for(10 * 4096, true), 6359.0, "the table's first 1");
    assert_eq!(idle_for(19 * 4096, true), 3179.0);
    assert_eq!(idle_for(10_000_000, true), 0.0);
    // A shaper does not ask: then only this packet counts, which finds nothing.
    assert_eq!(idle_for(10_000_000, false), 11924.0);
}

/// Adaptive RED: max_p rises by min(1 %, max_p/4) and falls by a tenth, every half second.
#[test]
fn max_p_adapts_to_keep_the_average_in_the_middle() {
    let steps = |frames: u64, n: u64| -> Vec<f64> {
        let mut bench = settled(frames, 20, 40, "ecn adaptive");
        let mut max_p = Vec::new();
        for i in 1..=n {
            assert_eq!(bench.queue.next_timer(), Time(ms(500) * i));
            bench.timer(ms(500) * i);
            max_p.push(bench.gauge("max_p"));
        }
        max_p
    };
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-7, "{a}, expected {b}");
    let falling = steps(25, 60);
    near(falling[0], 0.018);
    near(falling[1], 0.0162);
    near(falling[6], 0.02 * 0.9_f64.powi(7));
    near(falling[59], 0.02 * 0.9_f64.powi(7)); // 0.96 %: below 1 % it stays
    let rising = steps(35, 80);
    near(rising[0], 0.025);
    near(rising[1], 0.03125);
    near(rising[2], 0.0390625);
    near(rising[3], 0.0488281);
    near(rising[4], 0.0588281);
    assert!(rising[79] > 0.5 && rising[79] < 0.51, "{}", rising[79]);
    near(steps(30, 3)[2], 0.02);
    let mut fixed = settled(25, 20, 40, "ecn");
    assert_eq!(fixed.queue.next_timer(), Time::NEVER);
    fixed.timer(0); // no panic
}

/// Marks come in the ratio of arrivals: bursts of one flow get no more than their share.
#[test]
fn marks_hit_flows_in_proportion() {
    let mut bench = settled(30, 20, 40, "ecn probability 0.1");
    let mut rng = Rng::stream(7, "flows", 0);
    let (mut arrivals, mut marks) = ([0_u32; 2], [0_u32; 2]);
    for _ in 0..300_000 {
        let flow = usize::from(rng.below(4) == 0);
        arrivals[flow] += 1;
        marks[flow] += u32::from(exchange(&mut bench, Ecn::Ect0));
    }
    let rate = |i: usize| f64::from(marks[i]) / f64::from(arrivals[i]);
    assert!((rate(0) / rate(1) - 1.0).abs() < 0.04, "{} and {}", rate(0), rate(1));
}
