//! The SCE qdiscs step by step, against vectors computed by hand from the law of the kernel tree
//! github.com/chromi/sce (`sch_cnq_codel_af.c`, `sch_lfq_cobalt.c`, `sch_twin_codel_af.c`,
//! `deltic.c`).

use crate::harness::{Bench, FRAME, Out, Packet, ms};
use l4slab_core::aqm::DropReason;
use l4slab_core::aqm::deltic::{Control, Frequency, Jitter};
use l4slab_core::aqm::registry;
use l4slab_core::ecn::Ecn;
use l4slab_core::time::{Span, Time};

const SECOND: u64 = ms(1000);
/// The low-latency codepoint of the tests.
const MINIMISE_DELAY: u8 = 0b000100;

/// A packet of flow 1 arrives every millisecond and leaves `delay` milliseconds later. What leaves
/// in `from..to`, with the time in milliseconds; the queue may replace a drop by the next packet.
fn held(bench: &mut Bench, ecn: Ecn, delay: u64, from: u64, to: u64) -> Vec<(u64, Out)> {
    let mut left = Vec::new();
    for t in from..to {
        if t >= from + delay {
            left.extend(bench.take(ms(t)).map(|out| (t, out)));
        }
        bench.put_flow(ms(t), ecn, 1);
    }
    left
}

fn times(left: &[(u64, Out)], which: impl Fn(&Out) -> bool) -> Vec<u64> {
    left.iter().filter(|(_, out)| which(out)).map(|(t, _)| *t).collect()
}

/// A mark is due at `first`, then interval/sqrt(2), interval/sqrt(3), ... later; it is set by the
/// first departure at or after that, which are a millisecond apart.
fn schedule(first: f64, interval: f64, until: f64) -> Vec<u64> {
    let (mut due, mut count, mut marks) = (first, 1.0_f64, Vec::new());
    while due.ceil() < until {
        marks.push(due.ceil() as u64);
        count += 1.0;
        due += interval / count.sqrt();
    }
    marks
}

/// Above the SCE target of 2.5 ms and below the CE target of 5 ms. The first bulk packet leaves at
/// 5 ms; the schedule, never used, is mirrored from time 0 to 10 ms.
#[test]
fn sce_marks_come_at_the_inverse_square_root() {
    let mut bench = Bench::new("cnq_cobalt sce-thresh 4");
    let left = held(&mut bench, Ecn::Ect0, 4, 0, 200);
    let marks = times(&left, |out| out.marks.sce);
    assert_eq!(marks[..6], [10, 28, 43, 55, 66, 76], "25 ms/sqrt(2), /sqrt(3), ...");
    assert_eq!(marks, schedule(10.0, 25.0, 200.0));
    for (_, out) in &left {
        assert_eq!(out.pkt.ecn == Ecn::Ect1, out.marks.sce);
        assert!(!out.marks.ce());
    }
    assert_eq!(bench.gauge("sce_count"), marks.len() as f64 + 1.0);
}

#[test]
fn sce_marks_only_ect0_and_an_unmarked_packet_leaves_the_mark_due() {
    for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ce] {
        let mut bench = Bench::new("cnq_cobalt sce-thresh 4");
        let left = held(&mut bench, ecn, 4, 0, 200);
        assert!(left.iter().all(|(_, out)| out.pkt.ecn == ecn && !out.marks.sce), "{ecn:?}");
        assert_eq!(bench.gauge("sce_count"), 1.0);
    }
    let mut bench = Bench::new("cnq_cobalt sce-thresh 4");
    held(&mut bench, Ecn::Ect1, 4, 0, 30); // the mark is due from 10 ms on
    let mut marks = Vec::new();
    for t in 30..60 {
        let out = bench.take(ms(t)).expect("it has packets");
        bench.put_flow(ms(t), Ecn::Ect0, 1);
        marks.extend(out.marks.sce.then_some(t));
    }
    // The first ECT(0) packet leaves at 34 ms; the schedule goes on from 10 ms: 27.7, 42.1.
    assert_eq!(marks[..3], [34, 35, 43]);
}

#[test]
fn without_sce_there_are_no_sce_marks() {
    for qdisc in ["cnq_cobalt", "cnq_codel_af", "lfq_cobalt", "twin_codel_af no-sce"] {
        let mut bench = Bench::new(qdisc);
        let left = held(&mut bench, Ecn::Ect0, 10, 0, 1000);
        assert!(times(&left, |out| out.marks.sce).is_empty(), "{qdisc}");
        assert!(times(&left, |out| out.marks.ce()).len() > 10, "{qdisc}");
    }
}

/// After the mark at 76 ms the count is 7 and the next mark is due at 85.45 ms, 9.45 ms after the
/// last. At 77 ms the delay falls below target: 8.45 ms were left of these, so 1 ms is left until
/// the count falls, at 78.003 ms; then 25 ms/sqrt(6) and 25 ms/sqrt(5).
#[test]
fn a_turn_mirrors_the_sce_schedule() {
    let mut bench = Bench::new("cnq_cobalt sce-thresh 4");
    held(&mut bench, Ecn::Ect0, 4, 0, 77); // what came from 73 to 76 ms is waiting
    bench.put_flow(ms(77), Ecn::Ect0, 1);
    for _ in 73..76 {
        bench.take(ms(77)); // delays of 4, 3 and 2 ms
    }
    let mut counts = Vec::new();
    for t in 78..102 {
        bench.put_flow(ms(t), Ecn::Ect0, 1);
        bench.take(ms(t));
        counts.push((t, bench.gauge("sce_count")));
    }
    let at = |when| counts.iter().find(|(t, _)| *t == when).expect("seen").1;
    assert_eq!((at(78), at(79)), (7.0, 6.0), "{counts:?}");
    assert_eq!((at(88), at(89)), (6.0, 5.0), "{counts:?}");
    assert_eq!((at(99), at(100)), (5.0, 4.0), "{counts:?}");
}

/// Above the CE target. The first packet above it, at 21 ms, puts the schedule on; the fraction of a
/// flow never marked is zero, so the next packet is marked, and then the interval is 100 ms.
#[test]
fn ce_marks_come_at_the_inverse_square_root() {
    let mut bench = Bench::new("cnq_cobalt");
    let left = held(&mut bench, Ecn::Ect0, 20, 0, 1000);
    let marks = times(&left, |out| out.marks.ce());
    assert_eq!(marks[..5], [22, 92, 150, 200, 245]);
    // From count 16 on the root is Newton's: the schedule runs 0.2 % ahead.
    let due = schedule(21.0, 100.0, 1000.0);
    assert_eq!((&marks[1..14], marks.len()), (&due[1..14], due.len()));
    assert!(marks[1..].iter().zip(&due[1..]).all(|(mark, due)| mark.abs_diff(*due) <= 1));

    let mut bench = Bench::new("cnq_cobalt");
    held(&mut bench, Ecn::NotEct, 20, 0, 1000);
    // Not-ECT is dropped instead. Each drop shortens the delay by one packet, 20 ms to 5 ms.
    assert_eq!(bench.dropped(DropReason::Aqm), 15);
    assert!(bench.drops.iter().all(|d| d.pkt.ecn == Ecn::NotEct));
}

/// All arrive at once, and from 450 ms on leave with delays above 400 ms: 1/256 more each 5 ms.
#[test]
fn blue_rises_once_per_target_above_four_intervals() {
    let mut bench = Bench::new("cnq_cobalt");
    for _ in 0..2000 {
        bench.put_flow(0, Ecn::Ect0, 1);
    }
    for t in 450..550 {
        bench.take(ms(t));
    }
    let expected = (450..550).filter(|t| (t - 450) % 6 == 0).count() as f64 / 256.0;
    assert!((bench.gauge("p_blue") - expected).abs() < 1.5 / 256.0, "{}", bench.gauge("p_blue"));
    assert!(bench.dropped(DropReason::Aqm) > 0, "ECN does not save from BLUE");
}

/// A flow's first packet is served first and leaves a dummy; the second waits in the bulk queue
/// even if the first has gone; when the dummy's turn has come, the flow is sparse again.
#[test]
fn a_dummy_holds_the_place_of_a_sparse_packet() {
    let mut bench = Bench::new("cnq_codel_af");
    let bulk: Vec<_> = (0..3).map(|_| bench.put_flow(0, Ecn::Ect0, 1)).collect();
    let sparse = bench.put_flow(0, Ecn::Ect0, 2);
    assert_eq!(bench.packets(), 4, "dummies are not packets");
    let next = |bench: &mut Bench| bench.take(0).map(|o| (o.pkt.id, o.band)).expect("a packet");
    assert_eq!(next(&mut bench), (bulk[0], 0));
    assert_eq!(next(&mut bench), (sparse, 0));
    let behind = bench.put_flow(0, Ecn::Ect0, 2);
    assert_eq!(next(&mut bench), (bulk[1], 1));
    assert_eq!(next(&mut bench), (bulk[2], 1));
    assert_eq!(next(&mut bench), (behind, 1), "its dummy was still waiting when it came");
    let again = bench.put_flow(0, Ecn::Ect0, 2);
    assert_eq!(next(&mut bench), (again, 0));
    assert_eq!(bench.packets(), 0);
}

/// Of four packets each millisecond flow 1 sends `hog` and flow 2 the rest; all wait `delay` ms.
fn ce_of_two_flows(qdisc: &str, hog: usize, delay: u64) -> [usize; 2] {
    let mut bench = Bench::new(qdisc);
    let mut marks = [0; 2];
    for t in 0..400 {
        for n in 0..4 {
            if t >= delay {
                let out = bench.take(ms(t)).expect("packets wait");
                marks[out.pkt.flow as usize - 1] += usize::from(out.marks.ce());
            }
            bench.put_flow(ms(t), Ecn::Ect0, if n < hog { 1 } else { 2 });
        }
    }
    marks
}

/// Target 5 ms. At 4 ms a flow with three quarters of two shares sees 6 ms, one with a quarter 2 ms.
#[test]
fn approximate_fairness_counts_the_delay_of_a_hog_more() {
    let [hog, other] = ce_of_two_flows("cnq_codel_af", 3, 4);
    assert!(hog > 5 && other == 0, "{hog} {other}");
    assert_eq!(ce_of_two_flows("cnq_codel_af", 2, 4), [0, 0], "fair shares: the plain delay");
    let [one, two] = ce_of_two_flows("cnq_codel_af", 2, 6);
    assert!(one > 5 && two > 5 && one.abs_diff(two) <= 1, "{one} {two}");
    let [hog, other] = ce_of_two_flows("cnq_codel_af", 3, 9);
    assert!(hog > 5 && other == 0, "9 ms / 2 is below target: {hog} {other}");
    assert_eq!(ce_of_two_flows("cnq_cobalt", 3, 4), [0, 0], "a shared COBALT sees 4 ms");
}

#[test]
fn lfq_passes_over_flows_that_have_sent_their_quantum() {
    let mut bench = Bench::new("lfq_cobalt");
    for flow in [1, 1, 1, 1, 2, 2] {
        bench.put_flow(0, Ecn::Ect0, flow); // ids 0 to 5
    }
    let order: Vec<_> = std::iter::from_fn(|| bench.take(0)).map(|o| (o.pkt.id, o.band)).collect();
    // The first of each flow are sparse. Then sweeps over 1 2 3 5: 1 5, 2, 3.
    assert_eq!(order, [(0, 0), (4, 0), (1, 1), (5, 1), (2, 1), (3, 1)]);
}

#[test]
fn lfq_shares_bytes_evenly() {
    let mut bench = Bench::new("lfq_cobalt");
    let lens = [FRAME, 500, 90];
    for _ in 0..1000 {
        for (flow, len) in (1..).zip(lens) {
            for _ in 0..FRAME.div_ceil(len) {
                bench.put_packet(0, Packet { flow, len, ..Packet::new(Ecn::Ect0) });
            }
        }
    }
    let mut bytes = [0_u64; 3];
    for _ in 0..5000 {
        let out = bench.take(0).expect("packets wait");
        bytes[out.pkt.flow as usize - 1] += u64::from(out.pkt.len);
    }
    let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
    assert!(most - least <= 3 * u64::from(FRAME), "{bytes:?}");
}

#[test]
fn lfq_drops_the_oldest_when_its_memory_is_full() {
    let mut bench = Bench::new("lfq_cobalt memlimit 15140"); // five frames
    for _ in 0..7 {
        bench.put_flow(0, Ecn::Ect0, 1);
    }
    // 0 is sparse; the bulk queue loses its head.
    assert_eq!(bench.drops.iter().map(|d| d.pkt.id).collect::<Vec<_>>(), [1, 2]);
    let ids: Vec<_> = std::iter::from_fn(|| bench.take(0)).map(|o| o.pkt.id).collect();
    assert_eq!(ids, [0, 3, 4, 5, 6]);
}

/// Low-latency packets have a target of 1 ms and an SCE target of 0.5 ms; others 5 and 2.5 ms.
#[test]
fn minimise_delay_has_a_fifth_of_the_times() {
    for qdisc in ["lfq_cobalt sce-thresh 8", "twin_codel_af sce-thresh 8"] {
        let marks = |dscp, delay| {
            let mut bench = Bench::new(qdisc);
            let (mut sce, mut ce) = (0, 0);
            for t in 0..400 {
                if t >= delay {
                    let out = bench.take(ms(t) / 4).expect("packets wait");
                    sce += u32::from(out.marks.sce);
                    ce += u32::from(out.marks.ce());
                }
                let pkt = Packet { flow: 1, dscp, ..Packet::new(Ecn::Ect0) };
                bench.put_packet(ms(t) / 4, pkt);
            }
            (sce > 0, ce > 0)
        };
        // Delays in quarters of a millisecond.
        assert_eq!(marks(0, 9), (false, false), "{qdisc} 2.25 ms");
        assert_eq!(marks(0, 12), (true, false), "{qdisc} 3 ms");
        assert_eq!(marks(0, 24), (true, true), "{qdisc} 6 ms");
        assert_eq!(marks(MINIMISE_DELAY, 1), (false, false), "{qdisc} 0.25 ms");
        assert_eq!(marks(MINIMISE_DELAY, 3), (true, false), "{qdisc} 0.75 ms");
        assert_eq!(marks(MINIMISE_DELAY, 5), (true, true), "{qdisc} 1.25 ms");
    }
}

#[test]
fn twin_serves_its_classes_in_proportion_to_their_flows() {
    for (zero, one) in [(1, 1), (1, 3), (4, 1), (2, 3)] {
        let mut bench = Bench::new("twin_codel_af");
        let dscp = |class| if class == 1 { MINIMISE_DELAY } else { 0 };
        for _ in 0..500 {
            for (class, flows) in [(0, zero), (1, one)] {
                for n in 0..flows {
                    let pkt = Packet {
                        flow: 10 * class + n,
                        dscp: dscp(class),
                        ..Packet::new(Ecn::Ect0)
                    };
                    bench.put_packet(0, pkt);
                }
            }
        }
        let mut served = [0_u32; 2];
        for _ in 0..600 {
            served[bench.take(0).expect("packets wait").band] += 1;
        }
        let share = f64::from(served[1]) / 600.0;
        let fair = f64::from(one) / f64::from(zero + one);
        assert!((share - fair).abs() < 0.01, "{zero}:{one} {served:?}");
    }
}

#[test]
fn twin_serves_the_class_that_has_packets() {
    let mut bench = Bench::new("twin_codel_af");
    for class in [0, 1] {
        for _ in 0..20 {
            let dscp = if class == 1 { MINIMISE_DELAY } else { 0 };
            bench.put_packet(0, Packet { flow: class, dscp, ..Packet::new(Ecn::Ect0) });
        }
    }
    let mut taken = 0;
    while bench.take(0).is_some() {
        taken += 1;
    }
    assert_eq!((taken, bench.packets()), (40, 0));
}

/// A packet leaves at once, the next when the first would have been sent, and so on.
#[test]
fn the_shaper_spaces_packets_by_their_length() {
    for qdisc in ["cnq_cobalt", "cnq_codel_af", "lfq_cobalt", "twin_codel_af"] {
        let wire = [
            ("", 1514),
            ("overhead 0", 1500),
            ("overhead 38 mpu 84", 1538),
            ("raw overhead 4", 1518),
            ("atm overhead 0", 32 * 53),
            ("ptm overhead 0", 1500 + 24),
            ("docsis", 1518),
        ];
        for (framing, bytes) in wire {
            let mut bench = Bench::new(&format!("{qdisc} bandwidth 12.112mbit {framing}"));
            for _ in 0..3 {
                bench.put_flow(0, Ecn::Ect0, 1);
            }
            let mut at = Vec::new();
            let mut now = 0;
            while bench.packets() > 0 {
                if bench.take(now).is_some() {
                    at.push(now);
                    continue;
                }
                now = bench.queue.next_timer().0;
                bench.timer(now);
            }
            // 12.112 Mb/s are 1514 bytes in a millisecond.
            let gap = f64::from(bytes) / 1514.0 * 1e6;
            assert_eq!(at.len(), 3, "{qdisc} {framing}");
            for (n, &time) in at.iter().enumerate() {
                let error = time as f64 - n as f64 * gap;
                assert!(error.abs() < 3.0, "{qdisc} {framing}: {at:?}");
            }
        }
        // After idling there is no burst: the clock starts anew.
        let mut bench = Bench::new(&format!("{qdisc} bandwidth 12.112mbit"));
        for _ in 0..2 {
            bench.put_flow(SECOND, Ecn::Ect0, 1);
        }
        assert!(bench.take(SECOND).is_some() && bench.take(SECOND).is_none());
        assert!(bench.queue.next_timer().0.abs_diff(SECOND + ms(1)) < 3);
    }
}

/// Signals in `seconds` of a delay, a packet every 0.1 ms.
fn signals(control: &mut Control, delay: Span, seconds: u64) -> u64 {
    let times = (0..=seconds * 10_000).map(|n| Time(n * 100_000));
    times.map(|now| u64::from(control.signals(now, delay))).sum()
}

/// A delay that steps to 1/f makes the sum (1/f) f = 1, and the oscillator turns at f.
#[test]
fn deltic_at_its_target_signals_at_its_frequency() {
    for hz in [200, 40, 8] {
        let target = Span(SECOND / u64::from(hz));
        let control = || Control::new(Frequency::hz(hz)).expect("not zero");
        assert_eq!(signals(&mut control(), target, 10), 10 * u64::from(hz));
        // Below half the target it is silent.
        assert_eq!(signals(&mut control(), target / 2 - Span(1), 10), 0);
        // At twice the target the sum is 2 + t: in two seconds 2 · 2 + 2²/2 = 6 times f.
        let doubled = signals(&mut control(), target * 2, 2) as f64;
        assert!((doubled / f64::from(6 * hz) - 1.0).abs() < 0.02, "{hz} Hz: {doubled}");
    }
    assert!(Control::new(Frequency(0)).is_none());
}

#[test]
fn deltic_forgets_after_a_pause() {
    let mut control = Control::new(Frequency::hz(200)).expect("not zero");
    signals(&mut control, Span::from_millis(10), 2);
    assert!(!control.signals(Time(5 * SECOND), Span::from_millis(4)));
    let after = (1..=20).filter(|n| control.signals(Time(5 * SECOND + ms(*n)), Span::ZERO));
    assert_eq!(after.count(), 0);
}

#[test]
fn deltic_prefers_drops_to_ce_to_sce() {
    let run = |qdisc: &str, ecn| {
        let mut bench = Bench::new(qdisc);
        let left = held(&mut bench, ecn, 300, 0, 3000);
        let sce = times(&left, |out| out.marks.sce).len();
        let ce = times(&left, |out| out.marks.ce()).len();
        assert!(left.iter().all(|(_, out)| !(out.marks.sce && out.marks.ce())));
        (sce, ce, bench.dropped(DropReason::Aqm))
    };
    let (sce, ce, dropped) = run("deltic", Ecn::Ect0);
    assert!(sce > 0 && ce > 0 && dropped > 0, "{sce} {ce} {dropped}");
    let (sce, ce, dropped) = run("deltic no-drop", Ecn::Ect0);
    assert!(sce > 0 && ce > 0 && dropped == 0);
    let (sce, ce, dropped) = run("deltic no-drop no-ecn", Ecn::Ect0);
    assert!(sce > 0 && ce == 0 && dropped == 0);
    let (sce, ce, dropped) = run("deltic no-drop", Ecn::NotEct);
    assert!(sce == 0 && ce == 0 && dropped > 0, "CE on Not-ECT is a drop");
}

/// j <- i² + j (1 - i): a pace of 12 ms is forgiven in a few seconds.
#[test]
fn deltic_forgives_the_pace_of_the_link() {
    let mut jitter = Jitter::default();
    jitter.queue_begins(Time(0));
    assert_eq!(jitter.departure(Time(ms(12))), Span::from_micros(144), "0.012² s");
    for n in 2..=1000 {
        jitter.departure(Time(ms(12 * n)));
    }
    let settled = jitter.departure(Time(ms(12 * 1001))).as_millis_f64();
    assert!((settled - 12.0).abs() < 1e-3, "{settled}");
    // Packets that wait just for the one before them are never marked.
    let mut bench = Bench::new("deltic sce-resonance 200Hz");
    let mut marks = 0;
    for n in 0..2000 {
        bench.put_flow(ms(12 * n), Ecn::Ect0, 1);
        if n >= 1000 {
            marks += bench.take(ms(12 * n)).map_or(0, |o| u32::from(o.marks.sce));
        } else {
            bench.take(ms(12 * n));
        }
    }
    assert_eq!(marks, 0);
}

#[test]
fn strings_and_their_canonical_form() {
    let table = [
        ("cnq_cobalt", "cnq_cobalt unlimited raw noatm overhead 0 mpu 0 rtt 100ms no-sce"),
        (
            "lfq_cobalt bandwidth 50mbit sce-thresh 8",
            "lfq_cobalt bandwidth 50000000bit raw noatm overhead 0 mpu 0 rtt 100ms sce-thresh 8 \
             memlimit 0",
        ),
        (
            "twin_codel_af bandwidth 1gbit",
            "twin_codel_af bandwidth 1000000000bit raw noatm overhead 0 mpu 0 rtt 100ms \
             sce-thresh 4",
        ),
        (
            "cnq_codel_af lan sce docsis ether-vlan",
            "cnq_codel_af unlimited noatm overhead 22 mpu 64 rtt 1ms sce-thresh 1",
        ),
        (
            "cnq_codel_af rtt 20ms sce no-sce pppoe-llcsnap raw",
            "cnq_codel_af unlimited raw noatm overhead 0 mpu 0 rtt 20ms no-sce",
        ),
        ("deltic", "deltic sce-resonance 200Hz ecn-resonance 40Hz drop-resonance 8Hz"),
        (
            "deltic no-sce ecn-resonance 0.1kHz drop-resonance 2.5",
            "deltic no-sce ecn-resonance 100Hz drop-resonance 2.5Hz",
        ),
    ];
    for (text, canonical) in table {
        let config = registry::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(config.canonical(), canonical, "{text}");
        assert_eq!(registry::parse(canonical), Ok(config));
    }
}

#[test]
fn refusals() {
    let table = [
        ("lfq_cobalt sce-thresh 0", "sce-thresh"),
        ("lfq_cobalt sce-thresh 1025", "sce-thresh"),
        ("cnq_cobalt overhead -65", "-65"),
        ("cnq_cobalt overhead 257", "257"),
        ("cnq_cobalt mpu 257", "257"),
        ("twin_codel_af lan metro", "lan stands there already"),
        ("cnq_codel_af target 5ms", "no keyword \"target\""),
        ("cnq_cobalt memlimit 1m", "no keyword \"memlimit\""),
        ("deltic bandwidth 1mbit", "no keyword \"bandwidth\""),
        ("deltic sce-resonance 65536", "below 65536 Hz"),
        ("deltic sce-resonance -1", "below 65536 Hz"),
        ("deltic sce-resonance 5ms", "below 65536 Hz"),
    ];
    for (text, part) in table {
        let error = registry::parse(text).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}
