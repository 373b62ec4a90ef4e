//! The token bucket: its bound over any interval, its rates, and what it refuses to hold.

use crate::harness::{Bench, ms};
use l4slab_core::aqm::DropReason;
use l4slab_core::ecn::Ecn;
use l4slab_core::time::Time;
use proptest::prelude::*;

/// Everything that leaves, with its time, if the queue is served from `now` on.
fn drain(bench: &mut Bench, mut now: u64, departures: &mut Vec<(u64, u32)>, until: u64) -> u64 {
    loop {
        match bench.take(now) {
            Some(out) => departures.push((now, out.pkt.len)),
            None if bench.packets() == 0 || bench.queue.next_timer() > Time(until) => return now,
            None => {
                now = bench.queue.next_timer().0;
                bench.timer(now);
            }
        }
    }
}

#[test]
fn a_full_bucket_leaves_at_once_and_the_rest_at_the_rate() {
    let mut bench = Bench::new("tbf rate 8mbit burst 3000b limit 1mb");
    for _ in 0..5 {
        bench.put_len(ms(7), Ecn::NotEct, 1500);
    }
    let mut out = Vec::new();
    drain(&mut bench, ms(7), &mut out, u64::MAX);
    let times: Vec<u64> = out.iter().map(|d| d.0 - ms(7)).collect();
    assert_eq!(times, [0, 0, 1_500_000, 3_000_000, 4_500_000]);
    // Two milliseconds later there are 2 ms of tokens; a packet takes 1.5 ms of them.
    bench.put_len(ms(7) + 6_500_000, Ecn::NotEct, 1500);
    bench.put_len(ms(7) + 6_500_000, Ecn::NotEct, 1500);
    let mut out = Vec::new();
    drain(&mut bench, ms(7) + 6_500_000, &mut out, u64::MAX);
    assert_eq!(out.iter().map(|d| d.0 - ms(7)).collect::<Vec<_>>(), [6_500_000, 7_500_000]);
}

#[test]
fn a_short_packet_waits_behind_a_long_one() {
    let mut bench = Bench::new("tbf rate 8mbit burst 1500b limit 1mb");
    bench.put_len(0, Ecn::NotEct, 1000);
    bench.put_len(0, Ecn::NotEct, 1000);
    bench.put_len(0, Ecn::NotEct, 64);
    let mut out = Vec::new();
    drain(&mut bench, 0, &mut out, u64::MAX);
    assert_eq!(out, [(0, 1000), (500_000, 1000), (564_000, 64)]);
}

#[test]
fn what_no_bucket_holds_is_dropped() {
    let mut bench = Bench::new("tbf rate 1mbit burst 1513b limit 1mb");
    bench.put(0, Ecn::NotEct);
    assert_eq!((bench.packets(), bench.dropped(DropReason::Aqm)), (0, 1));
    let mut bench = Bench::new("tbf rate 1mbit burst 5k limit 1mb peakrate 2mbit mtu 1000b");
    bench.put_len(0, Ecn::NotEct, 1001);
    bench.put_len(0, Ecn::NotEct, 1000);
    assert_eq!((bench.packets(), bench.drops.len()), (1, 1));
}

#[test]
fn the_limit_is_in_bytes_and_follows_from_a_latency() {
    let mut bench = Bench::new("tbf rate 1mbit burst 2k limit 3000b");
    for _ in 0..3 {
        bench.put_len(0, Ecn::NotEct, 1500);
    }
    assert_eq!((bench.packets(), bench.dropped(DropReason::Overflow)), (2, 1));
    // 100 ms at 1 MB/s and the bucket: what comes last waits for the latency.
    let mut bench = Bench::new("tbf rate 8mbit burst 2000b latency 100ms");
    while bench.drops.is_empty() {
        bench.put_len(0, Ecn::NotEct, 1000);
    }
    assert_eq!(bench.packets(), 102);
    let mut out = Vec::new();
    drain(&mut bench, 0, &mut out, u64::MAX);
    assert_eq!(out.last(), Some(&(ms(100), 1000)));
}

#[test]
fn a_peak_rate_spreads_the_burst() {
    let mut bench = Bench::new("tbf rate 8mbit burst 10000b limit 1mb peakrate 80mbit mtu 1000b");
    for _ in 0..20 {
        bench.put_len(0, Ecn::NotEct, 1000);
    }
    let mut out = Vec::new();
    drain(&mut bench, 0, &mut out, u64::MAX);
    let gaps: Vec<u64> = out.windows(2).map(|w| w[1].0 - w[0].0).collect();
    // The bucket of 10 packets, refilled by one while they leave, empties at 80 Mb/s.
    assert_eq!(gaps[..10], [100_000; 10]);
    assert_eq!(gaps[11..], [1_000_000; 8]);
}

#[test]
fn headers_count() {
    let gap = |words: &str, len: u32| {
        let mut bench = Bench::new(&format!("tbf rate 8mbit burst 2000b limit 1mb {words}"));
        for _ in 0..40 {
            bench.put_len(0, Ecn::NotEct, len);
        }
        let mut out = Vec::new();
        drain(&mut bench, 0, &mut out, u64::MAX);
        out[39].0 - out[38].0
    };
    assert_eq!(gap("", 100), 100_000);
    assert_eq!(gap("overhead 24", 100), 124_000);
    assert_eq!(gap("mpu 200", 100), 200_000);
    // The kernel has 16 bits of it.
    assert_eq!(gap("mpu 65736", 100), 200_000);
    assert_eq!(gap("linklayer atm", 100), 3 * 53 * 1000);
    assert_eq!(gap("linklayer adsl overhead 45", 100), 4 * 53 * 1000);
}

/// A source below the rate passes untouched; one above leaves at the rate, to a nanosecond a packet.
#[test]
fn constant_rates() {
    for (every_us, below) in [(1100, true), (900, false)] {
        let mut bench = Bench::new("tbf rate 8mbit burst 1000b limit 64mb");
        let mut out = Vec::new();
        for i in 0..10_000_u64 {
            let now = i * every_us * 1000;
            drain(&mut bench, now.saturating_sub(every_us * 1000), &mut out, now);
            bench.put_len(now, Ecn::NotEct, 1000);
            drain(&mut bench, now, &mut out, now);
        }
        drain(&mut bench, 10_000 * every_us * 1000, &mut out, u64::MAX);
        assert_eq!(out.len(), 10_000);
        let last = out[9999].0;
        let law = if below { 9999 * every_us * 1000 } else { 9999 * ms(1) };
        assert!(last.abs_diff(law) <= 10_000, "{last} ns, law {law} ns");
    }
}

/// CoDel marks what has waited for more than its threshold when tbf looks at it, and tbf looks at a packet when the one
/// before has left (`qdisc_peek_dequeued`). Packet k leaves after k ms, and tbf has looked at it a millisecond before.
#[test]
fn the_queue_of_its_class_marks() {
    let codel = "codel limit 1000 target 1s interval 10s ecn ce_threshold 5ms";
    let mut bench = Bench::holding("tbf rate 8mbit burst 1000b limit 1", codel);
    for _ in 0..20 {
        bench.put_len(0, Ecn::Ect1, 1000);
    }
    assert_eq!(bench.packets(), 20, "the limit is of the queue that it does not have");
    for k in 0..20 {
        let out = bench.take(ms(k)).expect("it has tokens");
        let is_late = k > 6;
        assert_eq!((out.pkt.id, out.pkt.ecn == Ecn::Ce, out.marks.ce()), (k, is_late, is_late));
        assert!(bench.take(ms(k)).is_none(), "it looks at the next packet");
        assert_eq!(bench.packets(), 19 - k);
    }
}

/// Its class drops by its own limit, tbf what its bucket cannot hold, and the packet that waits for tokens counts.
#[test]
fn the_queue_of_its_class_drops() {
    let mut bench = Bench::holding("tbf rate 8mbit burst 1000b limit 1mb", "pfifo limit 2");
    bench.put_len(0, Ecn::NotEct, 1001);
    assert_eq!((bench.packets(), bench.dropped(DropReason::Aqm)), (0, 1));
    for _ in 0..2 {
        bench.put_len(0, Ecn::NotEct, 1000);
    }
    // The bucket has room for one. The other one stays in its queue, which can show it (`qdisc_peek_head`).
    assert!(bench.take(0).is_some() && bench.take(0).is_none());
    assert_eq!((bench.packets(), bench.queue.next_timer()), (1, Time(ms(1))));
    for _ in 0..3 {
        bench.put_len(0, Ecn::NotEct, 1000);
    }
    assert_eq!((bench.packets(), bench.dropped(DropReason::Overflow)), (2, 2));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// With a FIFO that never fills in its class it does what it does without one.
    #[test]
    fn a_class_with_a_fifo_changes_nothing(
        arrivals in proptest::collection::vec((0_u64..3_000_000, 64_u32..1600), 1..200),
        burst in 1600_u32..5000,
    ) {
        let words = format!("tbf rate 8mbit burst {burst}b limit 1mb peakrate 40mbit mtu 1600b");
        let times = |mut bench: Bench| {
            let (mut now, mut out) = (0, Vec::new());
            for (wait, len) in &arrivals {
                let next = now + wait;
                drain(&mut bench, now, &mut out, next);
                now = next;
                bench.put_len(now, Ecn::NotEct, *len);
            }
            drain(&mut bench, now, &mut out, u64::MAX);
            out
        };
        prop_assert_eq!(times(Bench::holding(&words, "bfifo limit 1mb")), times(Bench::new(&words)));
    }

    /// s_i + … + s_k <= b + r (t_k - t_i), for the rate and for the peak rate.
    #[test]
    fn departures_are_bounded_over_any_interval(
        rate in 50_000_u64..50_000_000, burst in 1514_u64..20_000, peak in 2_u64..20,
        mtu in 1514_u64..4000, with_peak: bool,
        arrivals in prop::collection::vec((0_u64..3_000_000, 64_u32..1514), 1..200),
    ) {
        let peak = rate / 8 * 8 * peak;
        let words = if with_peak { format!("peakrate {peak}bit mtu {mtu}b") } else { String::new() };
        let mut bench = Bench::new(&format!("tbf rate {rate}bit burst {burst}b limit 10mb {words}"));
        let (mut now, mut out) = (0, Vec::new());
        for &(gap, len) in &arrivals {
            drain(&mut bench, now, &mut out, now + gap);
            now += gap;
            bench.put_len(now, Ecn::NotEct, len);
            drain(&mut bench, now, &mut out, now);
        }
        drain(&mut bench, now, &mut out, u64::MAX);
        prop_assert_eq!(out.len(), arrivals.len(), "none was lost");
        let mut buckets = vec![(rate, burst)];
        buckets.extend(with_peak.then_some((peak, mtu)));
        for (rate, burst) in buckets {
            for i in 0..out.len() {
                let mut sum = 0.0;
                for k in i..out.len() {
                    sum += f64::from(out[k].1);
                    let seconds = (out[k].0 - out[i].0) as f64 * 1e-9;
                    // A packet's time is rounded down to a nanosecond.
                    let rounding = (k - i + 2) as f64 * 1e-9 * rate as f64 / 8.0;
                    let bound = burst as f64 + rate as f64 / 8.0 * seconds + rounding;
                    prop_assert!(sum <= bound, "{sum} B > {bound} B");
                }
            }
        }
    }
}
