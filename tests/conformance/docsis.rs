//! Low Latency DOCSIS step by step: DOCSIS-PIE (RFC 8034 Appendix A), the immediate AQM and queue
//! protection (RFC 9957 Section 4), and the delay estimates of MULPI Annex O, against vectors computed
//! by hand.

use crate::harness::{Bench, FRAME, Packet, ms};
use l4slab_core::aqm::DropReason;
use l4slab_core::aqm::queue_protection::{QueueProtection, Thresholds};
use l4slab_core::aqm::registry;
use l4slab_core::ecn::Ecn;
use l4slab_core::time::{Span, Time};

const L: usize = 0;
const C: usize = 1;

/// At 100 Mb/s a byte takes 80 ns, so a millisecond is 12500 B.
const MS: u32 = 12_500;

#[track_caller]
fn near(what: &str, is: f64, wanted: f64) {
    assert!((is - wanted).abs() <= 1e-12 * wanted.abs().max(1e-3), "{what}: {is}, not {wanted}");
}

/// Updates of PIE, 16 ms apart.
struct Updates {
    bench: Bench,
    now: u64,
}

impl Updates {
    fn new(options: &str) -> Updates {
        Updates { bench: Bench::new(&format!("docsis_ll {options}")), now: 0 }
    }
    /// The next update sees C delayed by so many milliseconds. C is empty before and after, so no
    /// packet is dropped here.
    fn sees(&mut self, delay_ms: u32) -> f64 {
        self.now += ms(16);
        if delay_ms > 0 {
            self.bench.put_len(self.now, Ecn::Ect0, delay_ms * MS);
        }
        self.bench.timer(self.now);
        self.bench.drained(self.now);
        self.bench.gauge("drop_prob")
    }
    /// Raises the probability to at least `p`.
    fn raise(&mut self, p: f64) {
        while self.sees(90) < p {}
    }
}

#[test]
fn pie_climbs_the_ladder_of_its_tuning() {
    let mut pie = Updates::new("classic_buffer 10s");
    // (delay in ms, probability after the update); steps are 0.25 (q - 10 ms) + 2.5 (q - q_old)
    let vector = [
        (20, 2.563_476_562_5e-5),     // 0.0525 / 2048
        (20, 4.516_601_562_5e-5),     // + 0.0025 / 128
        (40, 4.943_847_656_25e-4),    // + 0.0575 / 128
        (40, 7.287_597_656_25e-4),    // + 0.0075 / 32
        (100, 6.119_384_765_625e-3),  // + 0.1725 / 32
        (100, 8.931_884_765_625e-3),  // + 0.0225 / 8
        (200, 0.046_119_384_765_625), // + 0.2975 / 8
        (200, 0.069_869_384_765_625), // + 0.0475 / 2
        (200, 0.093_619_384_765_625),
        (200, 0.117_369_384_765_625),
        (200, 0.137_369_384_765_625), // + 0.02 instead of 0.0475 / 0.5
        (210, 0.177_369_384_765_625), // + 0.02 + 0.02 above 200 ms
        (209, 0.217_369_384_765_625), // the same: (0.04975 - 0.0025) / 0.5 is more than 0.02
        (199, 0.237_369_384_765_625), // + 0.02 for (0.04725 - 0.025) / 0.5
        (100, 0.0),                   // - 0.225 / 0.5
        (20, 0.0),
        (40, 2.807_617_187_5e-5), // 0.0575 / 2048
        (10, 0.0),                // - 0.075 / 128
    ];
    for (i, (delay, p)) in vector.into_iter().enumerate() {
        let is = pie.sees(delay);
        assert!((is - p).abs() < 1e-13, "step {i}: {is}, not {p}");
        near("p'", pie.bench.gauge("p_prime"), is.sqrt());
        near("p_CL", pie.bench.gauge("p_l_coupled"), (2.0 * is.sqrt()).min(1.0));
    }
}

#[test]
fn pie_decays_below_five_milliseconds_and_ends_at_the_shortest_packet() {
    let mut pie = Updates::new("classic_buffer 10s target 1ms");
    // (0.00075 + 0.01) / 2048 = 5.2490234375e-6, then + 0.00075 / 512, each time 0.98 of it
    assert!((pie.sees(4) - 5.144_042_968_75e-6).abs() < 1e-17);
    assert!((pie.sees(4) - 6.476_708_984_375e-6).abs() < 1e-17);
    let mut pie = Updates::new("classic_buffer 10s");
    let highest = (0..500).map(|_| pie.sees(500)).fold(0.0, f64::max);
    assert_eq!(highest, 13.6, "0.85 * 1024 / 64");
    assert_eq!((pie.bench.gauge("p_c"), pie.bench.gauge("p_prime")), (1.0, 1.0));
}

#[test]
fn the_delay_of_c_takes_the_rate_that_l_leaves() {
    // (bytes for L in 16 ms, bytes in C, C's delay in ms)
    for (l, c, delay) in [
        (0, 250_000, 20.0),
        (100_000, 125_000, 20.0),  // 50 Mb/s are left
        (2_000_000, 40_625, 32.0), // not 1 Gb/s but 230/256: 10.15625 Mb/s are left
    ] {
        let mut bench = Bench::new("docsis_ll noqprotect classic_buffer 10s ll_buffer 10s");
        if l > 0 {
            bench.put_len(0, Ecn::Ect1, l);
        }
        bench.put_len(0, Ecn::NotEct, c);
        bench.timer(ms(16));
        let law = (0.25 * (delay - 10.0) + 2.5 * delay) * 1e-3 / 2048.0;
        assert!((bench.gauge("drop_prob") - law).abs() < 1e-15, "{l} B in L, {c} B in C");
        // Arrivals count once.
        bench.drained(ms(16));
        bench.put_len(ms(32), Ecn::NotEct, c);
        bench.timer(ms(32));
        let alone = f64::from(c) * 80e-6;
        let step = (0.25 * (alone - 10.0) + 2.5 * (alone - delay)) * 1e-3;
        let tuning = if law < 1e-5 { 512.0 } else { 128.0 };
        let wanted =
            (law + step / tuning).max(0.0) * if alone < 5.0 && delay < 5.0 { 0.98 } else { 1.0 };
        assert!((bench.gauge("drop_prob") - wanted).abs() < 1e-15, "{l} B in L, {c} B in C");
    }
}

#[test]
fn the_ramp_has_its_floor_and_its_range() {
    // MINTH = max(1 ms - 2^19 ns, 4000 B at the rate), MAXTH = MINTH + 2^19 ns
    for (amsr, length, beyond_minth) in [
        (100, 5946, 0), // 475680 ns; MINTH is 475712 ns
        (100, 5947, 48),
        (100, 12_499, 524_208),
        (100, 12_500, 524_288),
        (100, 30_000, 524_288),
        (50, 4000, 0), // MINTH is 640 us
        (50, 4001, 160),
        (50, 7276, 524_160),
        (50, 7277, 524_288),
        (10, 4000, 0), // MINTH is 3.2 ms
        (10, 4001, 800),
        (1, 12_000, 524_288), // 96 ms; MAXTH has no upper limit, it is 32.5 ms
    ] {
        let mut bench = Bench::new(&format!("docsis_ll noqprotect amsr {amsr}mbit ll_buffer 1s"));
        bench.put_len(0, Ecn::Ect1, length);
        let law = f64::from(beyond_minth) / 524_288.0;
        assert_eq!(bench.gauge("prob_native"), law, "{length} B at {amsr} Mb/s");
    }
    let mut bench = Bench::new("docsis_ll noqprotect amsr 100mbit maxth 2ms lg_range 20");
    for _ in 0..9 {
        bench.put(0, Ecn::Ect1);
    }
    // MINTH 951424 ns; the ninth packet waits for 9 frames
    near("ramp", bench.gauge("prob_native"), (9.0 * 1514.0 * 80.0 - 951_424.0) / 1_048_576.0);
}

/// At 1 Gb/s a byte is 8 ns: 475712 ns are 59464 B, and 2^19 ns are 65536 B.
#[test]
fn marks_come_at_regular_spacing() {
    for (length, marked) in [
        (59_464, [].to_vec()),
        (59_464 + 16_384, vec![4, 8, 12, 16]), // 0.25: the sum must exceed 1, not reach it
        (59_464 + 32_768, vec![2, 4, 6, 8, 10, 12, 14, 16]),
        (59_464 + 65_536, (1..18).collect()),
    ] {
        let mut bench = Bench::new("docsis_ll noqprotect amsr 1gbit");
        let ce = |_: &usize| {
            bench.put_len(0, Ecn::Ect1, length);
            bench.take(0).unwrap().pkt.ecn == Ecn::Ce
        };
        assert_eq!((0..18).filter(ce).collect::<Vec<_>>(), marked, "{length} B");
    }
    // Codepoints that cannot be marked are passed, and noiaqm marks none.
    for (options, ecn) in [("", Ecn::NotEct), ("noiaqm", Ecn::Ect1), ("noiaqm", Ecn::Ect0)] {
        let mut bench = Bench::new(&format!("docsis_ll noqprotect amsr 1gbit {options}"));
        for _ in 0..5 {
            let len = 130_000;
            bench.put_packet(0, Packet { dscp: 45, len, ..Packet::new(ecn) });
            assert_eq!(bench.gauge("prob_native"), 1.0);
            let out = bench.take(0).unwrap();
            assert_eq!((out.band, out.pkt.ecn), (L, ecn));
        }
        assert_eq!((bench.enqueue_marks, bench.drops.len()), (0, 0));
    }
}

#[test]
fn l_is_marked_with_the_larger_probability() {
    let mut pie = Updates::new("noqprotect classic_buffer 10s amsr 100mbit");
    while pie.sees(20) < 0.01 {}
    let p_cl = pie.bench.gauge("p_l_coupled");
    assert!((0.2..0.21).contains(&p_cl), "{p_cl}");
    let mut share = |length: u32| {
        let before = pie.bench.enqueue_marks;
        for _ in 0..1000 {
            pie.bench.put_len(pie.now, Ecn::Ect1, length);
            pie.bench.take(pie.now);
        }
        (pie.bench.enqueue_marks - before) as f64 / 1000.0
    };
    assert!((share(1514) - p_cl).abs() <= 0.001, "no native marks");
    let native = (7000.0 * 80.0 - 475_712.0) / 524_288.0;
    assert!(native < p_cl && (share(7000) - p_cl).abs() <= 0.001, "not the sum");
    let native = (10_000.0 * 80.0 - 475_712.0) / 524_288.0;
    assert!(native > p_cl && (share(10_000) - native).abs() <= 0.001);
}

#[test]
fn ecn_and_dscp_choose_the_queue() {
    for (options, ecn, dscp, band) in [
        ("", Ecn::NotEct, 0, C),
        ("", Ecn::Ect0, 0, C),
        ("", Ecn::Ect1, 0, L),
        ("", Ecn::Ce, 0, L),
        ("", Ecn::NotEct, 45, L),
        ("", Ecn::Ect0, 45, L),
        ("", Ecn::NotEct, 46, C),
        ("nqb 46", Ecn::NotEct, 46, L),
        ("nqb 46", Ecn::NotEct, 45, C),
        ("nonqb", Ecn::NotEct, 45, C),
        ("nonqb", Ecn::Ect1, 45, L),
    ] {
        let mut bench = Bench::new(&format!("docsis_ll {options}"));
        bench.put_packet(0, Packet { dscp, ..Packet::new(ecn) });
        let out = bench.take(0).unwrap();
        assert_eq!((out.band, out.pkt.ecn), (band, ecn), "{options} {ecn:?} {dscp}");
    }
    assert_eq!(Bench::new("docsis_ll").queue.bands(), ["L", "C"]);
}

fn thresholds(lg_aging: u8) -> Thresholds {
    let critical_score = Span::from_millis(4);
    Thresholds { critical_ql: Span::from_millis(1), critical_score, lg_aging }
}

/// Hashes are read five bits at a time from the lowest on: these flows may use buckets 1 and 2.
#[test]
fn a_flow_finds_its_own_bucket_an_expired_one_or_the_dregs() {
    let mut qp = QueueProtection::new(thresholds(30)); // a marked byte is a nanosecond
    let flow = |n: u32| 1 | 2 << 5 | n << 10;
    let mut fill = |at: u64, flow: u32, ns: u32| {
        qp.sanctions(Time(at), flow, ns, Span::ZERO, 1.0);
        let bucket = qp.pick_bucket(Time(at), flow);
        (bucket, qp.score(Time(at), bucket).0)
    };
    assert_eq!(fill(0, flow(0), 1000), (1, 1000));
    assert_eq!(fill(0, flow(1), 3000), (2, 3000), "1 is in use");
    assert_eq!(fill(0, flow(2), 5000), (32, 5000), "both are in use");
    assert_eq!(fill(0, flow(3), 500), (32, 5500), "the dregs are shared");
    assert_eq!(fill(1000, flow(1), 10), (2, 2010), "its own, though 1 has expired");
    assert_eq!(fill(1000, flow(3), 400), (1, 400), "1 is free now");
    assert_eq!(fill(1000, flow(0), 70), (32, 4570), "1 is lost to its former owner");
    assert_eq!(fill(3009, flow(2), 5), (1, 5), "2 has a nanosecond left");
    assert_eq!(fill(3010, flow(0), 6), (2, 6), "2 expires at its time");
    assert_eq!(fill(9000, flow(0), 7), (2, 7), "an expired score starts again");
    // 31 is the highest index, and 0 is one too.
    assert_eq!(fill(9000, 31, 1), (31, 1));
    assert_eq!(fill(9000, 31 | 1 << 10, 1), (0, 1));
}

/// 2^(19 - 30) B/ns: 1024 marked bytes are 2^21 ns.
#[test]
fn scores_age_at_a_constant_rate() {
    const KB: u64 = 1024 << 11;
    let scores = |gap: u64, prob_native: f64| {
        let mut qp = QueueProtection::new(thresholds(19));
        let mut score = |n: u64| {
            qp.sanctions(Time(n * gap), 7, 1024, Span::ZERO, prob_native);
            qp.score(Time(n * gap), 7).0
        };
        (0..100).map(&mut score).collect::<Vec<_>>()
    };
    assert!(scores(KB, 1.0).iter().all(|&s| s == KB), "at the rate of aging");
    assert!(scores(2 * KB, 1.0).iter().all(|&s| s == KB), "below it");
    for (n, score) in scores(KB / 2, 1.0).into_iter().enumerate() {
        assert_eq!(score, KB + n as u64 * KB / 2, "at twice that rate");
    }
    assert!(scores(KB / 2, 0.5).iter().all(|&s| s == KB / 2), "half of the bytes are marked");
    assert!(scores(1, 0.0).iter().all(|&s| s == 0), "no queue, no blame");
}

#[test]
fn a_packet_is_sanctioned_for_queue_and_record_together() {
    let sanctioned = |qdelay_ns: u64, score_ns: u32| {
        let mut qp = QueueProtection::new(thresholds(30));
        qp.sanctions(Time(0), 5, score_ns, Span(qdelay_ns), 1.0)
    };
    // qdelay * score > 1 ms * 4 ms
    for (qdelay, score, wanted) in [
        (1_000_000, 4_999_000, false), // not above CRITICALqL
        (1_000_001, 4_000_000, true),
        (1_000_001, 3_999_900, false),
        (2_000_000, 2_000_000, false), // equal
        (2_000_001, 2_000_000, true),
        (2_000_000, 2_000_001, true),
        (8_000_000, 500_001, true), // the longer the queue, the stricter
        (8_000_000, 500_000, false),
    ] {
        assert_eq!(sanctioned(qdelay, score), wanted, "{qdelay} ns, score {score} ns");
    }
    // A score cannot exceed 5 s, and there the delay does not matter.
    let mut qp = QueueProtection::new(thresholds(30));
    assert!(!qp.sanctions(Time(0), 5, 2_500_000_000, Span::ZERO, 1.0));
    assert!(!qp.sanctions(Time(0), 5, 2_499_999_999, Span::ZERO, 1.0));
    assert!(qp.sanctions(Time(0), 5, 1, Span::ZERO, 1.0));
    assert!(qp.sanctions(Time(0), 5, 1_000_000, Span::ZERO, 1.0));
    assert_eq!((qp.score(Time(0), 5), qp.sanctioned()), (Span::from_secs(5), 2));
}

#[test]
fn sanctioned_packets_wait_in_c() {
    // A burst of one flow at 100 Mb/s: packet n sees (n + 1) frames, 121.12 us each. The ramp starts
    // with the 4th; full frames are worth 3.1 ms of score.
    let law = {
        let (mut score, mut n) = (0.0, 0_u32);
        loop {
            let us = f64::from(n + 1) * 121.12;
            score += ((us - 475.712) / 524.288).clamp(0.0, 1.0) * 1514.0 * 2.048;
            if us > 1000.0 && us * score > 4e6 {
                break n as usize;
            }
            n += 1;
        }
    };
    for (options, in_l) in [("", law), ("noqprotect", 40)] {
        let mut bench = Bench::new(&format!("docsis_ll {options}"));
        for _ in 0..40 {
            bench.put_flow(0, Ecn::Ect1, 1);
        }
        bench.put_flow(0, Ecn::Ect1, 2);
        assert_eq!(bench.gauge("qprotect_sanctioned_packets"), (40 - in_l) as f64, "{options}");
        let out: Vec<_> = std::iter::from_fn(|| bench.take(0)).collect();
        assert_eq!(out.len(), 41);
        for out in &out {
            let band = if (out.pkt.id as usize) < in_l || out.pkt.id == 40 { L } else { C };
            assert_eq!(out.band, band, "packet {} of {options}", out.pkt.id);
        }
        assert!(out.iter().any(|o| o.band == C && o.pkt.ecn == Ecn::Ce) == options.is_empty());
    }
    assert!((8..20).contains(&law), "{law}");
}

#[test]
fn pie_wakes_at_a_third_of_the_buffer_and_protects_a_burst() {
    // 1.2 MB are 96 ms; a third is 400 kB.
    let mut pie = Updates::new("classic_buffer 1200000");
    pie.raise(0.5);
    let now = pie.now;
    let bench = &mut pie.bench;
    bench.put_len(now, Ecn::NotEct, 399_999);
    bench.put_len(now, Ecn::NotEct, 1000); // finds 399999 B
    assert_eq!(bench.drops.len(), 0);
    let mut tries = 0;
    while bench.drops.is_empty() {
        bench.put_len(now, Ecn::NotEct, 1024);
        tries += 1;
    }
    assert!(tries >= 2, "0.5 alone is below 0.85");
    assert_eq!((bench.dropped(DropReason::Aqm), bench.gauge("burst_allowance_ms")), (1, 142.0));
    for _ in 0..200 {
        bench.put_len(now, Ecn::NotEct, 1024);
    }
    assert_eq!(bench.drops.len(), 1, "protected");
    bench.drained(now);
    for n in 1..=9_u32 {
        assert_eq!(pie.sees(90), 0.0);
        let left = (142.0 - 16.0 * f64::from(n)).max(0.0);
        near("allowance", pie.bench.gauge("burst_allowance_ms"), left);
    }
    assert!(pie.sees(90) > 0.0, "and on from zero");
}

#[test]
fn a_second_of_quiet_lets_pie_sleep() {
    for (quiet, sleeps) in [(1 + 62, false), (1 + 63, true)] {
        let mut pie = Updates::new("classic_buffer 1200000");
        pie.raise(0.5);
        pie.bench.put_len(pie.now, Ecn::NotEct, 400_000);
        while pie.bench.drops.is_empty() {
            pie.bench.put_len(pie.now, Ecn::NotEct, 1024);
        }
        pie.bench.drained(pie.now);
        for _ in 0..9 {
            pie.sees(0); // the allowance passes, q_old is 0: but it is not quiet before it is zero
        }
        // The ninth found the allowance used up: that was the first quiet update.
        for _ in 1..quiet {
            pie.sees(0);
        }
        pie.raise(0.5);
        pie.bench.drops.clear();
        let mut backlog = 0;
        while backlog + 1024 < 400_000 {
            pie.bench.put_len(pie.now, Ecn::NotEct, 1024);
            backlog += 1024;
        }
        assert_eq!(pie.bench.drops.is_empty(), sleeps, "{quiet} quiet updates");
    }
}

/// No drop before the probabilities since the last one add up to 0.85, at random from there.
#[test]
fn drops_are_neither_too_soon_nor_too_late() {
    for (wanted, len) in [(0.03, 1024), (0.03, 512), (0.2, 1024)] {
        let mut pie = Updates::new("classic_buffer 100s");
        pie.raise(0.5);
        pie.bench.put_len(pie.now, Ecn::NotEct, 420_000_000);
        while pie.bench.drops.is_empty() {
            pie.bench.put_len(pie.now, Ecn::NotEct, 1024);
        }
        pie.bench.drained(pie.now);
        (0..9).for_each(|_| assert_eq!(pie.sees(90), 0.0));
        pie.raise(wanted);
        let p = pie.bench.gauge("drop_prob") * f64::from(len) / 1024.0;
        pie.bench.put_len(pie.now, Ecn::NotEct, 100_000);
        let (mut gaps, mut gap) = (vec![], 0);
        while gaps.len() < 3001 {
            pie.bench.drops.clear();
            pie.bench.put_len(pie.now, Ecn::NotEct, len);
            gap += 1;
            if !pie.bench.drops.is_empty() {
                gaps.push(gap);
                gap = 0;
            }
        }
        let gaps = &gaps[1..]; // the first began with a probability from before
        let least = (0.85 / p).ceil();
        let most = f64::from(*gaps.iter().max().unwrap());
        let mean = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
        let law = least - 1.0 + 1.0 / p;
        println!("p {p:.4}: least {least}, most {most}, mean {mean:.1}, law {law:.1}");
        assert_eq!(f64::from(*gaps.iter().min().unwrap()), least, "p {p}");
        assert!((mean / law - 1.0).abs() < 0.04, "p {p}: mean {mean}, law {law}");
        assert!(most <= (8.5 / p).ceil(), "p {p}: most {most}");
    }
}

#[test]
fn the_scheduler_shares_bytes_by_weight() {
    for weight in [1_u64, 128, 230, 255] {
        let mut bench = Bench::new(&format!(
            "docsis_ll noqprotect noiaqm weight {weight} classic_buffer 100s ll_buffer 100s"
        ));
        for _ in 0..4000 {
            bench.put_len(0, Ecn::Ect1, 1514);
            bench.put_len(0, Ecn::NotEct, 600);
        }
        let mut bytes = [0_i64; 2];
        for _ in 0..2000 {
            let out = bench.take(0).unwrap();
            bytes[out.band] += i64::from(out.pkt.len);
            let w = weight as i64;
            let off = bytes[L] * (256 - w) - bytes[C] * w;
            assert!(off.abs() <= 256 * 2 * i64::from(FRAME), "weight {weight}: {bytes:?}");
        }
        assert!(bytes[L] > 0 && bytes[C] > 0 || weight == 255 || weight == 1, "{bytes:?}");
    }
}

#[test]
fn both_buffers_have_their_limits() {
    // 10 ms at 10 Mb/s are less than 20 frames of 2000 B; one of them is kept free.
    let mut bench = Bench::new("docsis_ll noqprotect amsr 10mbit");
    for _ in 0..40 {
        bench.put(0, Ecn::Ect1);
    }
    assert_eq!(bench.packets(), 26, "a packet is taken until 38000 B wait");
    assert_eq!(bench.dropped(DropReason::Overflow), 14);
    assert!(bench.drops.iter().all(|d| d.band == L));
    // 125 000 B at 10 Mb/s
    for _ in 0..100 {
        bench.put(0, Ecn::NotEct);
    }
    assert_eq!(bench.packets(), 26 + 82);
    let mut bench = Bench::new("docsis_ll noqprotect ll_buffer 6000b classic_buffer 4000b");
    for ecn in [Ecn::Ect1, Ecn::NotEct] {
        for _ in 0..10 {
            bench.put(0, ecn);
        }
    }
    assert_eq!(bench.packets(), 3 + 2);
}

/// 1250 B are 100 us at 100 Mb/s.
#[test]
fn the_virtual_queue_drains_in_real_time_and_follows_the_real_one() {
    let mut bench = Bench::new("docsis_ll ll_estimator vq noqprotect ll_buffer 20ms");
    let us = |n: u64| n * 1000;
    for (at, vq_us) in [(0, 100.0), (50, 150.0), (50, 250.0), (150, 250.0), (900, 100.0)] {
        bench.put_len(us(at), Ecn::Ect1, 1250);
        near("virtual queue", bench.gauge("vq_ms"), vq_us * 1e-3);
        assert_eq!(bench.take(us(at)).unwrap().band, L);
    }
    // A real queue of 125 kB that nobody serves: 10 ms, which the average reaches slowly.
    let start = us(1500);
    for _ in 0..100 {
        bench.put_len(start, Ecn::Ect1, 1250);
    }
    near("virtual queue", bench.gauge("vq_ms"), 10.0);
    let mut at = start;
    for n in 1..=400_u32 {
        at += us(500);
        assert!(bench.queue.next_timer() <= Time(at));
        bench.timer(at);
        let average = 10.0 * (1.0 - (127.0 / 128.0_f64).powi(n as i32));
        let drained = 10.0 - 0.5 * f64::from(n);
        let law = average.max(drained);
        let is = bench.gauge("vq_ms");
        assert!((is - law).abs() < 0.02, "after {n} alignments: {is} ms, law {law} ms");
    }
    // A dropped packet is taken back: only 20 ms - 2000 B fit.
    bench.drained(at);
    for _ in 0..200 {
        bench.put_len(at, Ecn::Ect1, 1250);
    }
    assert!(bench.dropped(DropReason::Overflow) > 90);
    let vq = bench.gauge("vq_ms");
    assert!((19.74..=19.84).contains(&vq), "{vq}");
}

const DEFAULT: &str = "docsis_ll amsr link coupling_factor 2 weight 230 target 10ms \
    classic_buffer 100ms ll_buffer 10ms nqb 45 iaqm maxth 1ms lg_range 19 ll_estimator auto \
    qprotect critical_ql 1ms critical_score 4ms lg_aging 19";

#[test]
fn strings_and_their_canonical_form() {
    let vary = |from: &str, to: &str| DEFAULT.replace(from, to);
    for (text, canonical) in [
        ("", DEFAULT.to_owned()),
        ("amsr 50mbit", vary("amsr link", "amsr 50000000bit")),
        ("amsr 50mbit amsr link", DEFAULT.to_owned()),
        ("coupling_factor 1.5", vary("coupling_factor 2", "coupling_factor 1.5")),
        ("coupling_factor 25.5", vary("coupling_factor 2", "coupling_factor 25.5")),
        ("weight 128", vary("weight 230", "weight 128")),
        ("classic_buffer 64kb", vary("classic_buffer 100ms", "classic_buffer 65536b")),
        ("ll_buffer 20000", vary("ll_buffer 10ms", "ll_buffer 20000b")),
        ("ll_buffer 20000us", vary("ll_buffer 10ms", "ll_buffer 20ms")),
        ("nonqb noiaqm noqprotect", {
            let text = vary("nqb 45 iaqm", "nonqb noiaqm");
            text.replace(" qprotect", " noqprotect")
        }),
        ("maxth 2ms", vary("maxth 1ms", "maxth 2ms").replace("ql 1ms", "ql 2ms")),
        ("maxth 2ms critical_ql 1ms", vary("maxth 1ms", "maxth 2ms")),
        ("ll_estimator vq", vary("ll_estimator auto", "ll_estimator vq")),
        ("lg_aging 20", vary("lg_aging 19", "lg_aging 20")),
    ] {
        let config = registry::parse(&format!("docsis_ll {text}")).expect(text);
        assert_eq!(config.canonical(), canonical, "{text}");
        assert_eq!(registry::parse(&canonical), Ok(config));
    }
}

#[test]
fn refusals_say_what_to_write() {
    for (text, sentence) in [
        (
            "amsr 0",
            "docsis_ll: amsr \"0\" is refused; it takes a rate such as 50mbit, or link (default link)",
        ),
        (
            "weight 256",
            "docsis_ll: weight \"256\" is refused; it takes a whole number from 1 to 255 (default 230)",
        ),
        (
            "coupling_factor 26",
            "docsis_ll: coupling_factor \"26\" is refused; it takes a number from 0 to 25.5 (default 2)",
        ),
        (
            "ll_buffer 1500",
            "docsis_ll: ll_buffer \"1500\" is refused; it takes a time above zero such as 100ms, or a size above 2000 B such as 64kb (default 10ms)",
        ),
        (
            "maxth 70ms",
            "docsis_ll: maxth \"70ms\" is refused; it takes a time from 1us to 65535us (default 1ms)",
        ),
        (
            "lg_range 26",
            "docsis_ll: lg_range \"26\" is refused; it takes a whole number from 0 to 25 (default 19)",
        ),
        (
            "lg_aging 31",
            "docsis_ll: lg_aging \"31\" is refused; it takes a whole number from 1 to 30 (default 19)",
        ),
        (
            "nqb 64",
            "docsis_ll: nqb \"64\" is refused; it takes a whole number from 0 to 63 (default 45)",
        ),
        ("qprotekt", "docsis_ll has no keyword \"qprotekt\"; did you mean \"qprotect\"?"),
        ("ll_estimator", "docsis_ll: ll_estimator has no value; it takes auto, queue or vq"),
    ] {
        let error = registry::parse(&format!("docsis_ll {text}")).expect_err(text);
        assert_eq!(error.to_string(), sentence);
    }
}
