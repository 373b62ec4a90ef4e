//! `fq` step by step, against the law of `sch_fq` (Linux 7.2) for packets without a socket.

use crate::harness::{Bench, FRAME, Packet, ms};
use l4slab_core::aqm::{DropReason, Marks};
use l4slab_core::ecn::Ecn;
use l4slab_core::time::Time;

const STEP: Marks = Marks { aqm: false, step: true, sce: false };
const NONE: Marks = Marks { aqm: false, step: false, sce: false };
/// What goes past the flows.
const FAST: u64 = 8;

/// Full frames of one flow, at once.
fn put(bench: &mut Bench, at: u64, flow: u32, frames: u64) {
    for _ in 0..frames {
        bench.put_flow(at, Ecn::NotEct, flow);
    }
}

/// Occupies the fast path, so that what follows goes to the flows; the eight leave first.
fn past_the_fast_path(bench: &mut Bench, at: u64) {
    put(bench, at, u32::MAX, FAST);
}

fn order(bench: &mut Bench, at: u64, n: usize) -> Vec<u32> {
    (0..n).map_while(|_| bench.take(at)).map(|out| out.pkt.flow).collect()
}

#[test]
fn the_first_eight_packets_go_past_the_flows() {
    let mut bench = Bench::new("fq ce_threshold 0");
    for flow in 0..8 {
        bench.put_flow(0, Ecn::Ect0, flow);
    }
    assert_eq!(bench.gauge("flows"), 0.0);
    bench.put_flow(0, Ecn::Ect0, 8);
    assert_eq!(bench.gauge("flows"), 1.0);
    for flow in 0..8 {
        let out = bench.take(ms(5)).unwrap();
        assert_eq!((out.pkt.flow, out.marks), (flow, NONE), "never marked");
    }
    // While a flow waits, nothing goes past it.
    bench.put_flow(ms(5), Ecn::Ect0, 9);
    let out = bench.take(ms(6)).unwrap();
    assert_eq!((out.pkt.flow, out.marks), (8, STEP));
    assert_eq!(bench.take(ms(6)).unwrap().marks, STEP);
    assert_eq!(bench.take(ms(6)), None);
}

#[test]
fn a_new_flow_may_send_ten_frames_at_once() {
    let mut bench = Bench::new("fq orphan_mask 0xffffffff");
    past_the_fast_path(&mut bench, 0);
    put(&mut bench, 0, 1, 40);
    put(&mut bench, 0, 2, 40);
    order(&mut bench, 0, 8);
    // initial_quantum 15140 is ten frames, quantum 3028 two.
    let leave = order(&mut bench, 0, 28);
    let runs = [(1, 10), (2, 10), (1, 2), (2, 2), (1, 2), (2, 2)];
    let expected: Vec<u32> = runs.iter().flat_map(|&(flow, n)| vec![flow; n]).collect();
    assert_eq!(leave, expected);
}

/// Only a flow that was idle for more than refill_delay gets its quantum back.
#[test]
fn an_idle_flow_is_refilled_after_refill_delay() {
    let after = |idle: u64| {
        let mut bench = Bench::new("fq initial_quantum 1600 orphan_mask 0xffffffff");
        for (flow, now) in [(2, 0), (1, ms(100))] {
            past_the_fast_path(&mut bench, now);
            bench.put_flow(now, Ecn::NotEct, flow);
            assert_eq!(order(&mut bench, now, 20).len(), 9); // and found empty, as new and as old
        }
        let now = ms(100) + idle;
        past_the_fast_path(&mut bench, now);
        for flow in [1, 2, 2] {
            bench.put_flow(now, Ecn::NotEct, flow);
        }
        bench.put_flow(now, Ecn::NotEct, 1);
        order(&mut bench, now, 8);
        order(&mut bench, now, 4)
    };
    assert_eq!(after(ms(40)), [1, 2, 2, 1], "86 B of its deficit were left");
    assert_eq!(after(ms(40) + 1), [1, 1, 2, 2]);
}

/// A flow not seen before stands in the first band, which has its turn when the second has sent 192 KiB, and sends
/// its initial quantum in one piece then.
#[test]
fn a_newcomer_waits_for_the_turn_of_its_band() {
    let mut bench = Bench::new("fq flow_limit 1000 initial_quantum 3028");
    past_the_fast_path(&mut bench, 0);
    put(&mut bench, 0, 1, 300);
    order(&mut bench, 0, 8);
    // The first flow was new itself: two packets as such.
    assert_eq!(order(&mut bench, 0, 12), [1; 12]);
    put(&mut bench, 0, 2, 4);
    let turn = (3 << 16) / 1514 + 1;
    assert_eq!(order(&mut bench, 0, turn - 10), vec![1; turn - 10]);
    assert_eq!(order(&mut bench, 0, 6), [2, 2, 2, 2, 1, 1]);
}

#[test]
fn limits_drop_the_new_packet() {
    let mut bench = Bench::new("fq limit 30 flow_limit 20");
    past_the_fast_path(&mut bench, 0);
    for _ in 0..25 {
        bench.put_flow(0, Ecn::Ect1, 1);
    }
    assert_eq!(bench.dropped(DropReason::Overflow), 5, "flow_limit");
    for _ in 0..25 {
        bench.put_flow(0, Ecn::Ect1, 5);
    }
    assert_eq!(bench.dropped(DropReason::Overflow), 5 + 15, "limit");
    assert_eq!(bench.packets(), FAST + 30, "the fast path does not count");
}

/// `orphan_mask 0`: one queue, in order of arrival; NYU's "single queue FQ".
#[test]
fn with_orphan_mask_0_all_packets_share_a_queue() {
    let mut bench = Bench::new("fq orphan_mask 0 flow_limit 10000");
    for flow in 0..200 {
        bench.put_flow(0, Ecn::NotEct, flow);
    }
    assert_eq!(order(&mut bench, 0, 200), (0..200).collect::<Vec<_>>());
    assert_eq!(bench.gauge("flows"), 1.0);
}

#[test]
fn ce_threshold_is_a_step_on_the_sojourn() {
    let mut bench = Bench::new("fq ce_threshold 5ms orphan_mask 0");
    past_the_fast_path(&mut bench, 0);
    for ecn in [Ecn::Ect1, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct] {
        bench.put_flow(0, ecn, 1);
    }
    order(&mut bench, 0, 8);
    assert_eq!(bench.take(ms(5)).unwrap().marks, NONE, "not beyond");
    assert_eq!(bench.take(ms(5) + 1).unwrap().marks, STEP);
    assert_eq!(bench.take(ms(5) + 1).unwrap().marks, STEP);
    assert_eq!(bench.take(ms(50)).unwrap().pkt.ecn, Ecn::NotEct);
    assert_eq!(bench.drops.len(), 0);
}

/// Serves whatever is due, as a fast link would; returns when packets left.
fn departures(bench: &mut Bench, mut now: u64, until: u64) -> Vec<(u64, u32)> {
    let mut left = Vec::new();
    while now <= until {
        while let Some(out) = bench.take(now) {
            left.push((now, out.pkt.flow));
        }
        if bench.queue.next_timer() == Time::NEVER {
            break;
        }
        now = bench.queue.next_timer().0;
        bench.timer(now);
    }
    left
}

#[test]
fn maxrate_paces_each_flow() {
    let mut bench = Bench::new("fq maxrate 12112kbit initial_quantum 1514 orphan_mask 0xffffffff");
    // Without a fast path. A frame takes 1 ms; a quantum is two frames.
    for _ in 0..50 {
        bench.put_flow(0, Ecn::NotEct, 1);
        bench.put_flow(0, Ecn::NotEct, 2);
    }
    let left = departures(&mut bench, 0, ms(1000));
    assert_eq!((left.len(), bench.packets()), (100, 0));
    for flow in [1, 2] {
        let times: Vec<u64> = left.iter().filter(|d| d.1 == flow).map(|d| d.0).collect();
        // The initial quantum is one frame, charged like a quantum; then two frames every 2 ms.
        let expected: Vec<u64> = (0..50).map(|i| ms(u64::div_ceil(i, 2) * 2)).collect();
        assert_eq!(times, expected);
    }
    assert_eq!(left.last().unwrap().0, ms(50));
}

#[test]
fn a_held_back_queue_says_when_to_ask_again() {
    let mut bench = Bench::new("fq maxrate 12112kbit initial_quantum 0");
    bench.put_flow(0, Ecn::NotEct, 1);
    put(&mut bench, 0, 1, 3);
    assert!(bench.take(0).is_some() && bench.take(0).is_some());
    assert_eq!(bench.take(0), None);
    assert_eq!((bench.packets(), bench.gauge("throttled_flows")), (2, 1.0));
    assert_eq!(bench.queue.next_timer(), Time(ms(2)));
    assert_eq!(bench.take(ms(2) - 1), None);
    assert!(bench.take(ms(2)).is_some(), "also without the timer");
}

/// A late packet does not shift the ones behind it by more than half of its lateness.
#[test]
fn lateness_is_made_up_for() {
    let mut bench = Bench::new("fq maxrate 12112kbit quantum 1514 initial_quantum 1514");
    put(&mut bench, 0, 1, 5);
    assert!(bench.take(0).is_some());
    assert_eq!(bench.take(0), None);
    // Due at 1 ms, asked at 1.3 ms: the next one is due at 2 ms.
    assert!(bench.take(1_300_000).is_some());
    assert_eq!(bench.take(1_300_000), None);
    assert_eq!(bench.queue.next_timer(), Time(ms(2)));
    // Asked at 5 ms: half of the delay at most is made up for.
    assert!(bench.take(ms(5)).is_some());
    assert_eq!(bench.take(ms(5)), None);
    assert_eq!(bench.queue.next_timer(), Time(5_500_000));
}

#[test]
fn low_rates_space_every_packet() {
    let times = |tc: &str| -> Vec<u64> {
        let mut bench = Bench::new(tc);
        for _ in 0..6 {
            bench.put_packet(0, Packet { len: 500, ..Packet::new(Ecn::NotEct) });
        }
        departures(&mut bench, 0, ms(1000)).iter().map(|d| d.0 / ms(1)).collect()
    };
    // 400 kbit/s: 500 B take 10 ms.
    assert_eq!(times("fq maxrate 400kbit"), [0, 10, 20, 30, 40, 50]);
    // Beyond the threshold a deficit of 15140 B goes at once.
    assert_eq!(times("fq maxrate 400kbit low_rate_threshold 0"), [0; 6]);
    assert_eq!(times("fq maxrate 400kbit nopacing"), [0; 6]);
    // No gap is longer than a second.
    assert_eq!(times("fq maxrate 800bit flow_limit 2"), [0, 1000]);
}

/// The step looks at the time since a packet could have left, so pacing alone marks nothing.
#[test]
fn what_maxrate_holds_back_is_not_late() {
    let mut bench = Bench::new("fq maxrate 400kbit ce_threshold 1ms");
    for _ in 0..3 {
        bench.put_flow(0, Ecn::Ect0, 1);
    }
    assert_eq!(bench.take(0).unwrap().marks, NONE);
    assert_eq!(bench.take(0), None);
    let due = bench.queue.next_timer().0;
    assert!(due > ms(30), "1514 B at 400 kbit/s");
    assert_eq!(bench.take(due + ms(1)).unwrap().marks, NONE);
    assert_eq!(bench.take(due + ms(1)), None);
    let due = bench.queue.next_timer().0;
    assert_eq!(bench.take(due + ms(1) + 1).unwrap().marks, STEP);
}

/// Shares of backlogged flows differ by a quantum and a frame at most (laws.md 6).
#[test]
fn shares_are_equal_in_bytes() {
    let mut bench = Bench::new(
        "fq flow_limit 100000 limit 1000000 initial_quantum 3028 orphan_mask 0xffffffff",
    );
    past_the_fast_path(&mut bench, 0);
    let lens = [FRAME, 100, 700];
    for _ in 0..20_000 {
        for flow in 0..3 {
            let len = lens[flow as usize];
            bench.put_packet(0, Packet { len, flow, ..Packet::new(Ecn::NotEct) });
        }
    }
    order(&mut bench, 0, 8);
    let mut bytes = [0_i64; 3];
    for _ in 0..15_000 {
        let out = bench.take(0).unwrap().pkt;
        bytes[out.flow as usize] += i64::from(out.len);
        let spread = bytes.iter().max().unwrap() - bytes.iter().min().unwrap();
        assert!(spread <= 3028 + 1514, "{bytes:?}");
    }
}
