//! netem against the laws behind its parameters, and against the order of things in Linux.

use crate::harness::{Bench, FRAME, Packet, ms};
use l4slab_core::aqm::DropReason;
use l4slab_core::aqm::netem::distribution::{Distribution, SCALE};
use l4slab_core::aqm::netem::random::Lfsr113;
use l4slab_core::ecn::Ecn;
use l4slab_core::math;
use l4slab_core::time::Time;

const SECOND: u64 = 1_000_000_000;

/// The next packet and when it leaves, not before `now`.
fn next(bench: &mut Bench, mut now: u64) -> Option<(u64, Packet)> {
    while bench.packets() > 0 {
        if let Some(out) = bench.take(now) {
            return Some((now, out.pkt));
        }
        now = bench.queue.next_timer().0;
        bench.timer(now);
    }
    None
}

/// Delays of packets that are alone in the queue, in ns.
fn delays(tc: &str, n: usize) -> Vec<f64> {
    let mut bench = Bench::new(tc);
    let one = |i| {
        let sent = SECOND + i as u64 * 10 * SECOND;
        bench.put(sent, Ecn::NotEct);
        (next(&mut bench, sent).expect("nothing is lost").0 - sent) as f64
    };
    (0..n).map(one).collect()
}

/// Which of `n` packets are lost.
fn losses(tc: &str, n: usize) -> Vec<bool> {
    let mut bench = Bench::new(tc);
    let lost = |i| {
        let now = i as u64 * 1000;
        bench.put(now, Ecn::NotEct);
        next(&mut bench, now).is_none()
    };
    (0..n).map(lost).collect()
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}
fn deviation(x: &[f64]) -> f64 {
    let m = mean(x);
    (x.iter().map(|v| (v - m) * (v - m)).sum::<f64>() / x.len() as f64).sqrt()
}
/// Correlation of neighbours.
fn correlation(x: &[f64]) -> f64 {
    let m = mean(x);
    let products: Vec<f64> = x.windows(2).map(|w| (w[0] - m) * (w[1] - m)).collect();
    mean(&products) / deviation(x).powi(2)
}
#[track_caller]
fn near(what: &str, measured: f64, law: f64, tolerance: f64) {
    println!("{what}: {measured:.5}, law {law:.5}");
    assert!((measured - law).abs() <= tolerance, "{what}: {measured}, law {law} +- {tolerance}");
}

/// (share of losses, mean length of a run of losses)
fn runs(lost: &[bool]) -> (f64, f64) {
    let total = lost.iter().filter(|&&l| l).count() as f64;
    let starts = lost.windows(2).filter(|w| !w[0] && w[1]).count() as f64;
    (total / lost.len() as f64, total / starts)
}

#[test]
fn delay_alone_is_exact_and_keeps_order() {
    let mut bench = Bench::new("netem delay 10ms");
    bench.put(ms(5), Ecn::NotEct);
    bench.put(ms(6), Ecn::NotEct);
    assert_eq!(bench.take(ms(6)), None);
    assert_eq!(bench.queue.next_timer(), Time(ms(15)));
    assert_eq!(bench.take(ms(15) - 1), None);
    assert_eq!(bench.take(ms(15)).map(|o| o.pkt.id), Some(0));
    assert_eq!(bench.take(ms(15)), None, "the other one has another millisecond");
    assert_eq!(bench.take(ms(20)).map(|o| o.pkt.id), Some(1), "late is late");
    assert_eq!(delays("netem delay 1us", 1), [1000.0]);
    assert_eq!(delays("netem delay 7", 1), [7.0], "a bare number counts nanoseconds");
}

/// spec aqm.md 14: even in [mu - sigma, mu + sigma), so the standard deviation is sigma/sqrt 3.
#[test]
fn jitter_is_uniform() {
    let d = delays("netem delay 10ms 3ms", 200_000);
    near("mean, ms", mean(&d) * 1e-6, 10.0, 0.02);
    near("deviation, ms", deviation(&d) * 1e-6, 3.0 / 3_f64.sqrt(), 0.01);
    near("correlation", correlation(&d), 0.0, 0.01);
    assert!(d.iter().all(|&x| (7e6..13e6).contains(&x)));
    let low = d.iter().filter(|&&x| x < 8e6).count() as f64 / d.len() as f64;
    near("below mu - 2/3 sigma", low, 1.0 / 6.0, 0.004);
}

/// x' = (1 - rho) fresh + rho x: neighbours correlate by rho, and the variance shrinks by
/// (1 - rho)/(1 + rho). This shows where the jitter spans all 32 bits of nanoseconds.
#[test]
fn correlated_jitter() {
    let sigma = f64::from(i32::MAX) * 1e-6;
    for (percent, rho) in [(10, 0.1_f64), (50, 0.5), (90, 0.9)] {
        let d = delays(&format!("netem delay 3s 2147483647ns {percent}%"), 200_000);
        near("mean, ms", mean(&d) * 1e-6, 3000.0, 0.01 * 3000.0);
        let law = sigma / 3_f64.sqrt() * ((1.0 - rho) / (1.0 + rho)).sqrt();
        near("deviation, ms", deviation(&d) * 1e-6, law, 0.02 * law);
        near("correlation", correlation(&d), rho, 0.01);
    }
}

/// Linux takes the number modulo 2 sigma, or modulo the table's size: of a jitter of milliseconds only
/// the low bits count, which do not correlate.
#[test]
fn correlation_does_not_reach_small_jitter() {
    for tc in ["netem delay 10ms 3ms 50%", "netem delay 10ms 1732us 50% distribution normal"] {
        let d = delays(tc, 200_000);
        near("deviation, ms", deviation(&d) * 1e-6, 1.732, 0.01);
        near("correlation", correlation(&d), 0.0, 0.01);
    }
}

/// Quantiles of the three distributions, in sigmas: the normal one; Pareto's x^-3 less its mean, times
/// 4/3, cut at 4; and a quarter of the one with three quarters of the other.
#[test]
fn distributions() {
    let normal = [(0.0013499, -3.0), (0.158655, -1.0), (0.5, 0.0), (0.841345, 1.0), (0.97725, 2.0)];
    let pareto = |p: f64| (4.0 / 3.0 * (math::pow(1.0 - p, -1.0 / 3.0) - 1.5)).min(4.0);
    for (name, law) in [
        ("normal", (|_, n| n) as fn(f64, f64) -> f64),
        ("pareto", |p, _| p),
        ("paretonormal", |p, n| 0.25 * n + 0.75 * p),
    ] {
        let mut d = delays(&format!("netem delay 100ms 10ms distribution {name}"), 200_000);
        d.sort_by(f64::total_cmp);
        for (part, quantile) in normal {
            let measured = (d[(part * d.len() as f64) as usize] - 1e8) / 1e7;
            let expected = law(pareto(part), quantile);
            near(
                &format!("{name} {part}"),
                measured,
                expected,
                0.012 + 0.04 * (quantile.abs() - 1.0).max(0.0),
            );
        }
    }
    // What iproute2's tables have at these places.
    let table = |d: Distribution| d.table();
    assert_eq!(table(Distribution::Pareto)[0], -5461);
    assert_eq!(table(Distribution::Pareto)[4095], i16::MAX);
    assert_eq!(table(Distribution::ParetoNormal)[0], -12305);
    assert_eq!(table(Distribution::Normal)[0], i16::MIN, "cut at -4 sigma");
    let x: Vec<f64> =
        table(Distribution::Normal).iter().map(|&v| f64::from(v) / SCALE as f64).collect();
    near("mean of the normal table", mean(&x), 0.0, 1e-3);
    near("its deviation", deviation(&x), 1.0, 1e-3);
}

/// The order of departures is that of the times, whatever the order of arrival.
#[test]
fn jitter_reorders_and_a_rate_does_not() {
    let order = |tc: &str| {
        let mut bench = Bench::new(tc);
        for i in 0..1000 {
            bench.put(SECOND + i * 10_000, Ecn::NotEct);
        }
        let mut now = SECOND;
        let ids = std::iter::from_fn(|| {
            let (at, pkt) = next(&mut bench, now)?;
            assert!(at >= now, "time-sorted");
            now = at;
            Some(pkt.id)
        });
        ids.collect::<Vec<_>>()
    };
    let in_order: Vec<u64> = (0..1000).collect();
    let mut jittered = order("netem delay 10ms 1ms");
    assert_ne!(jittered, in_order);
    jittered.sort_unstable();
    assert_eq!(jittered, in_order, "nothing is lost");
    assert_eq!(order("netem delay 10ms 1ms rate 1gbit"), in_order);
    // Jitter far below the distance of packets cannot reorder.
    assert_eq!(order("netem delay 10ms 4us"), in_order);
}

#[test]
fn random_losses_are_independent() {
    for p in [0.01, 0.1, 0.5] {
        let (share, length) = runs(&losses(&format!("netem loss {}%", p * 100.0), 400_000));
        near("share", share, p, 5.0 * (p * (1.0 - p) / 4e5).sqrt());
        near("run", length, 1.0 / (1.0 - p), 0.03);
    }
    assert!(losses("netem loss 100%", 100).iter().all(|&l| l));
    assert!(losses("netem loss 0%", 100).iter().all(|&l| !l));
}

/// Correlation narrows the numbers around one half, so a low probability is met far less often: for
/// rho = 1/2, 10 % are 0.1 %, rather in runs.
#[test]
fn correlated_losses_are_fewer_and_come_in_runs() {
    let (share, length) = runs(&losses("netem loss random 10% 50%", 400_000));
    // The same recursion in floating point.
    let mut x = 0.5;
    let mut state = 12345_u64;
    let hits: Vec<bool> = (0..400_000)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            x = 0.5 * (state >> 11) as f64 / (1_u64 << 53) as f64 + 0.5 * x;
            x <= 0.1
        })
        .collect();
    let (law, run_law) = runs(&hits);
    near("share", share, law, 0.1 * law);
    near("run", length, run_law, 0.1 * run_law);
    assert!(share < 0.002 && length > 1.1, "{share} {length}");
}

/// A chain's losses: its stationary probability, and geometric runs.
#[test]
fn the_four_state_model() {
    // Two states by default: p23 = 1, p32 = p14 = 0.
    let (p13, p31) = (0.02, 0.25);
    let (share, length) = runs(&losses("netem loss state 2% 25%", 600_000));
    near("share", share, p13 / (p13 + p31), 0.004);
    near("run", length, 1.0 / p31, 0.1);
    // All five: pi_3 = pi_1 p13/p31, pi_2 = pi_3 p32/p23, pi_4 = pi_1 p14.
    let (p13, p31, p32, p23, p14) = (0.02, 0.2, 0.3, 0.4, 0.05);
    let pi1 = 1.0 / (1.0 + p14 + p13 / p31 * (1.0 + p32 / p23));
    let (share, length) = runs(&losses("netem loss state 2% 20% 30% 40% 5%", 600_000));
    near("share", share, pi1 * (p13 / p31 + p14), 0.004);
    // Runs of state 3 have 1/(p31 + p32) packets, those of state 4 one.
    let bursts = pi1 * p13 / p31 * (p31 + p32);
    let law = pi1 * (p13 / p31 + p14) / (bursts + pi1 * p14);
    near("run", length, law, 0.03);
}

/// Loss p(1-h)/(p+r) + r(1-k)/(p+r).
#[test]
fn the_gilbert_elliott_model() {
    let (share, length) = runs(&losses("netem loss gemodel 1% 20%", 600_000));
    near("Gilbert: share", share, 0.01 / 0.21, 0.003);
    near("Gilbert: run", length, 1.0 / 0.2, 0.2);
    let (share, _) = runs(&losses("netem loss gemodel 2% 10% 70% 0.1%", 600_000));
    near("Gilbert-Elliott: share", share, (0.02 * 0.7 + 0.1 * 0.001) / 0.12, 0.004);
    let (share, length) = runs(&losses("netem loss gemodel 10%", 600_000)); // r = 1 - p: Bernoulli
    near("Bernoulli: share", share, 0.1, 0.003);
    near("Bernoulli: run", length, 1.0 / 0.9, 0.02);
}

#[test]
fn ecn_marks_instead_of_losing() {
    let mut bench = Bench::new("netem loss 20% ecn");
    let mut marked = 0;
    for i in 0..20_000 {
        let ecn = [Ecn::Ect0, Ecn::Ect1, Ecn::NotEct][i % 3];
        bench.put(i as u64, ecn);
        if let Some(out) = bench.take(i as u64) {
            assert!(out.pkt.ecn == ecn || (out.pkt.ecn == Ecn::Ce && ecn != Ecn::NotEct));
            marked += usize::from(out.pkt.ecn == Ecn::Ce);
        }
    }
    near("marks", marked as f64 / 13_333.0, 0.2, 0.02);
    near("drops", bench.dropped(DropReason::Loss) as f64 / 6_667.0, 0.2, 0.03);
    assert!(bench.drops.iter().all(|d| d.pkt.ecn == Ecn::NotEct));
    assert_eq!(bench.enqueue_marks, marked as u64);
}

/// A duplicate leaves before its original (it enters the queue first), and may be lost itself.
#[test]
fn duplicates() {
    let mut bench = Bench::new("netem duplicate 100% delay 1ms");
    bench.put(0, Ecn::NotEct);
    assert_eq!((bench.packets(), bench.duplicates), (2, 1));
    assert_eq!(next(&mut bench, 0).map(|(at, p)| (at, p.id)), Some((ms(1), 0)));
    assert_eq!(next(&mut bench, ms(1)).map(|(at, p)| (at, p.id)), Some((ms(1), 0)));

    let mut bench = Bench::new("netem duplicate 30%");
    for i in 0..50_000 {
        bench.put(i, Ecn::NotEct);
        bench.drained(i);
    }
    near("duplicates", bench.duplicates as f64 / 5e4, 0.3, 0.01);

    // Two packets with 0.7, of which the second survives with 0.7; otherwise one of the two is lost.
    let mut bench = Bench::new("netem duplicate 100% loss 30%");
    let mut out = 0;
    for i in 0..50_000 {
        bench.put(i, Ecn::NotEct);
        while bench.take(i).is_some() {
            out += 1;
        }
    }
    near("packets out", f64::from(out) / 5e4, 1.0 + 0.7 * 0.7, 0.01);
    near("dropped", bench.drops.len() as f64 / 5e4, 0.7 * 0.3, 0.01);
}

#[test]
fn corruption_strikes_one_of_two_duplicates() {
    let mut bench = Bench::new("netem corrupt 5%");
    let mut corrupt = 0;
    for i in 0..50_000 {
        bench.put(i, Ecn::NotEct);
        corrupt += u32::from(bench.take(i).expect("not lost").pkt.corrupt);
    }
    near("corrupt", f64::from(corrupt) / 5e4, 0.05, 0.005);
    let mut bench = Bench::new("netem corrupt 50% duplicate 100%");
    let mut seen = [[0; 2]; 2];
    for i in 0..10_000 {
        bench.put(i, Ecn::NotEct);
        let duplicate = bench.take(i).expect("two").pkt.corrupt;
        let original = bench.take(i).expect("two").pkt.corrupt;
        seen[usize::from(duplicate)][usize::from(original)] += 1;
    }
    assert!(seen.iter().flatten().all(|&n| (2300..2700).contains(&n)), "independent: {seen:?}");
}

/// With certainty every `gap`th packet overtakes; with a probability, none before that.
#[test]
fn reordering_by_gap() {
    let reordered = |tc: &str, n: u64| {
        let mut bench = Bench::new(tc);
        let mut at_once = Vec::new();
        for i in 0..n {
            bench.put(i * 1000, Ecn::NotEct);
            while let Some(out) = bench.take(i * 1000) {
                if out.pkt.id == i {
                    at_once.push(i);
                }
            }
        }
        at_once
    };
    let every_fifth: Vec<u64> = (4..100).step_by(5).collect();
    assert_eq!(reordered("netem delay 10ms reorder 100% gap 5", 100), every_fifth);
    let half = reordered("netem delay 10ms reorder 50% gap 5 limit 20000", 50_000);
    let gaps: Vec<f64> = half.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
    assert!(gaps.iter().all(|&g| g >= 5.0));
    near("mean distance", mean(&gaps), 6.0, 0.05); // 4 + geometric of mean 2
    let quarter = reordered("netem delay 10ms reorder 25% limit 20000", 50_000).len() as f64;
    near("without a gap", quarter / 5e4, 0.25, 0.01);
}

/// Reordered packets pile up in front: the last is the first.
#[test]
fn reordered_packets_leave_last_first() {
    let mut bench = Bench::new("netem delay 10ms reorder 100%");
    for _ in 0..3 {
        bench.put(0, Ecn::NotEct);
    }
    let ids: Vec<_> = std::iter::from_fn(|| bench.take(0)).map(|o| o.pkt.id).collect();
    assert_eq!(ids, [2, 1, 0]);
}

#[test]
fn a_rate_spaces_packets() {
    let leaves = |tc: &str, n: u64, len: u32| {
        let mut bench = Bench::new(tc);
        for _ in 0..n {
            bench.put_len(ms(1), Ecn::NotEct, len);
        }
        let times = std::iter::from_fn(|| next(&mut bench, ms(1))).map(|(at, _)| at - ms(1));
        times.collect::<Vec<_>>()
    };
    assert_eq!(leaves("netem rate 8mbit", 3, 1000), [ms(1), ms(2), ms(3)]);
    assert_eq!(leaves("netem rate 8mbit delay 10ms", 3, 1000), [ms(11), ms(12), ms(13)]);
    // 1020 B fill 11 cells of 100 B with 5 B each: 1155 B.
    assert_eq!(leaves("netem rate 8mbit 20 100 5", 2, 1000), [1_155_000, 2_310_000]);
    assert_eq!(leaves("netem rate 8mbit -200", 1, 1000), [800_000]);
    // Later than the delay's end: only the rate counts.
    let mut bench = Bench::new("netem rate 8mbit delay 10ms");
    bench.put_len(0, Ecn::NotEct, 1000);
    bench.put_len(ms(4), Ecn::NotEct, 1000);
    assert_eq!(next(&mut bench, ms(4)).map(|n| n.0), Some(ms(11)));
    assert_eq!(next(&mut bench, ms(4)).map(|n| n.0), Some(ms(15)));
}

/// A full queue is released in bursts, each at a slot's begin.
#[test]
fn slots_release_bursts() {
    let bursts = |tc: &str, n: u64| {
        let mut bench = Bench::new(tc);
        for _ in 0..n {
            bench.put(ms(1), Ecn::NotEct);
        }
        let mut bursts: Vec<(u64, u32)> = Vec::new();
        let mut now = ms(1);
        while let Some((at, _)) = next(&mut bench, now) {
            match bursts.last_mut() {
                Some((last, size)) if *last == at => *size += 1,
                _ => bursts.push((at, 1)),
            }
            now = at;
        }
        bursts
    };
    let fixed = bursts("netem slot 5ms packets 3", 9);
    assert_eq!(fixed.iter().map(|b| b.1).collect::<Vec<_>>(), [3, 3, 3]);
    assert!(fixed.windows(2).all(|w| w[1].0 - w[0].0 == ms(5)), "{fixed:?}");
    let bytes = bursts("netem slot 5ms bytes 3028", 10); // two full frames
    assert!(bytes.iter().all(|b| b.1 == 2), "{bytes:?}");

    let random = bursts("netem slot 800us 10ms packets 42 limit 1000000", 42 * 5000);
    assert!(random.iter().all(|b| b.1 == 42));
    let gaps: Vec<f64> = random.windows(2).map(|w| (w[1].0 - w[0].0) as f64 * 1e-6).collect();
    assert!(gaps.iter().all(|g| (0.8..10.0).contains(g)));
    near("mean slot, ms", mean(&gaps), 5.4, 0.12);
    near("deviation, ms", deviation(&gaps), 9.2 / 12_f64.sqrt(), 0.06);

    let normal = "netem slot distribution normal 20ms 2ms packets 1 limit 100000";
    let gaps: Vec<f64> =
        bursts(normal, 20_000).windows(2).map(|w| (w[1].0 - w[0].0) as f64 * 1e-6).collect();
    near("mean slot, ms", mean(&gaps), 20.0, 0.06);
    near("deviation, ms", deviation(&gaps), 2.0, 0.04);
}

/// A slot that begins before its packet is due is drawn again when the queue is asked, so an arrival
/// postpones it.
#[test]
fn asking_draws_the_slot_again() {
    let mut bench = Bench::new("netem delay 2ms slot 1ms");
    bench.put(ms(10), Ecn::NotEct);
    assert_eq!(bench.take(ms(10)), None);
    assert_eq!(bench.queue.next_timer(), Time(ms(12)), "due later than the slot");
    let late = Bench::new("netem delay 2ms slot 5ms");
    let mut bench = late;
    bench.put(ms(10), Ecn::NotEct);
    assert_eq!(bench.take(ms(10)), None);
    assert_eq!(bench.queue.next_timer(), Time(ms(15)));
    assert_eq!(bench.take(ms(11)), None);
    assert_eq!(bench.queue.next_timer(), Time(ms(15)), "a slot after the packet stands");
}

#[test]
fn the_limit_is_in_packets() {
    let mut bench = Bench::new("netem limit 3 delay 1s");
    for _ in 0..5 {
        bench.put(0, Ecn::NotEct);
    }
    assert_eq!((bench.packets(), bench.dropped(DropReason::Overflow)), (3, 2));
    assert_eq!(bench.queue.backlog().bytes, 3 * u64::from(FRAME));
}

/// L'Ecuyer's generator by hand, in Linux's seeding; and a netem with a seed does not ask the run.
#[test]
fn a_seed_gives_the_kernels_numbers() {
    let numbers = |seed| {
        let mut g = Lfsr113::new(seed);
        [g.u32(), g.u32(), g.u32()]
    };
    assert_eq!(numbers(1), [276959246, 18909696, 2298495022]);
    assert_eq!(numbers((1 << 40) + 5), [1455084596, 99262464, 2369867999]);
    let with = |run: u64| {
        let mut bench = Bench::seeded("netem loss 50% seed 7", run);
        (0..64).map(|i| bench.put(i, Ecn::NotEct)).for_each(drop);
        bench.drops.iter().map(|d| d.pkt.id).collect::<Vec<_>>()
    };
    assert_eq!(with(1), with(2));
}
