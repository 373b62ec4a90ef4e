//! Stochastic fairness queueing step by step, against `sch_sfq.c` and `red.h` (Linux 7.2), and `tc` of iproute2 7.3.

use crate::harness::{Bench, FRAME, Packet, ms};
use l4slab_core::aqm::DropReason;
use l4slab_core::aqm::registry;
use l4slab_core::ecn::Ecn;
use l4slab_core::time::Time;

fn canonical(tc: &str) -> String {
    registry::parse(tc).unwrap_or_else(|e| panic!("{tc}: {e}")).canonical()
}

/// The flows of what leaves at `at`, until nothing is left.
fn flows(bench: &mut Bench, at: u64) -> Vec<u32> {
    std::iter::from_fn(|| bench.take(at)).map(|out| out.pkt.flow).collect()
}

/// `sfq_change`: a limit is at most depth times flows, and there are not more flows than hashes.
#[test]
fn parameters_are_brought_into_the_kernels_bounds() {
    let plain = "sfq limit 127 depth 127 flows 128 divisor 1024 quantum 1514 perturb 0";
    assert_eq!(canonical("sfq"), plain);
    assert_eq!(canonical("sfq quantum 0 depth 0 flows 0 divisor 0"), plain);
    assert_eq!(
        canonical("sfq perturb 10 limit 4000 depth 10 flows 200 quantum 100 headdrop"),
        "sfq limit 2000 depth 10 flows 200 divisor 1024 quantum 256 perturb 10 headdrop"
    );
    assert_eq!(
        canonical("sfq flows 4096 divisor 16 depth 1000 limit 100000"),
        "sfq limit 2032 depth 127 flows 16 divisor 16 quantum 1514 perturb 0"
    );
    // The manual's example: burst = (2 8000 + 60000)/(3 1000).
    assert_eq!(
        canonical(
            "sfq limit 3000 flows 512 divisor 16384 redflowlimit 100000 min 8000 max 60000 probability 0.20 ecn headdrop"
        ),
        "sfq limit 3000 depth 127 flows 512 divisor 16384 quantum 1514 perturb 0 headdrop redflowlimit 100000 \
         min 8000 max 60000 avpkt 1000 burst 25 probability 0.2 ecn"
    );
    for (tc, says) in [
        ("sfq limit 1", "limit"),
        ("sfq divisor 1000", "a power of two"),
        ("sfq quantum 2mb", "quantum"),
        ("sfq depth 1 flows 1", "write depth 2"),
        ("sfq ecn", "redflowlimit is missing"),
        ("sfq redflowlimit 1000 max 2000", "redflowlimit (1000) or less"),
        ("sfq redflowlimit 10000 min 3000 max 2000", "less than max (2000)"),
        ("sfq redflowlimit 100k", "redflowlimit"),
        ("sfq perturb 10s", "perturb"),
    ] {
        let sentence = registry::parse(tc).expect_err(tc).to_string();
        assert!(sentence.contains(says), "{tc}: {sentence}");
    }
}

/// A flow that has sent its quantum waits for its next turn; a new flow comes last in the round.
#[test]
fn flows_take_turns() {
    let mut bench = Bench::new("sfq");
    for flow in [1, 1, 1, 2, 2, 3] {
        bench.put_flow(0, Ecn::NotEct, flow);
    }
    assert_eq!(flows(&mut bench, 0), [1, 2, 3, 1, 2, 1]);
    // 1514 of credit let a flow of 600 B send three times: 914, 314, -286. The last packet of a flow is not charged,
    // so a flow of two packets of 1514 B has one turn for each.
    for (flow, len) in [(1, 600), (1, 600), (1, 600), (1, 600), (2, 1514), (2, 1514)] {
        bench.put_packet(0, Packet { flow, len, ..Packet::new(Ecn::NotEct) });
    }
    assert_eq!(flows(&mut bench, 0), [1, 1, 1, 2, 1, 2]);
}

/// Beyond the limit the longest flow loses its newest packet, or its oldest with `headdrop`.
#[test]
fn the_longest_flow_pays_for_overflow() {
    for (words, lost) in [("", 3), (" headdrop", 0)] {
        let mut bench = Bench::new(&format!("sfq limit 5{words}"));
        for flow in [1, 1, 1, 1, 2, 3] {
            bench.put_flow(0, Ecn::NotEct, flow);
        }
        assert_eq!(bench.drops.iter().map(|d| d.pkt.id).collect::<Vec<_>>(), [lost]);
        assert_eq!(bench.packets(), 5);
    }
    // Of two flows that are as long, it is the one that got there last; when all have one packet, it is the flow whose
    // turn is next.
    let mut bench = Bench::new("sfq limit 4");
    for flow in [1, 2, 2, 1, 3] {
        bench.put_flow(0, Ecn::NotEct, flow);
    }
    assert_eq!(bench.drops[0].pkt.flow, 1);
    let mut bench = Bench::new("sfq divisor 65536");
    for flow in 1..=128 {
        bench.put_flow(0, Ecn::NotEct, flow);
    }
    assert_eq!(bench.drops[0].pkt.flow, 1);
    assert_eq!(flows(&mut bench, 0), (2..=128).collect::<Vec<_>>());
}

/// A flow holds `depth` packets; beyond, the new one is dropped, or the oldest makes room.
#[test]
fn a_flow_is_bounded_by_its_depth() {
    for (words, lost) in [("", [2, 3]), (" headdrop", [0, 1])] {
        let mut bench = Bench::new(&format!("sfq depth 2{words}"));
        for _ in 0..4 {
            bench.put_flow(0, Ecn::NotEct, 1);
        }
        assert_eq!(bench.drops.iter().map(|d| d.pkt.id).collect::<Vec<_>>(), lost);
        assert_eq!(bench.queue.backlog().bytes, 2 * u64::from(FRAME));
    }
}

/// As many flows as there are places may have packets; another one is refused.
#[test]
fn a_flow_without_a_place_is_refused() {
    let mut bench = Bench::new("sfq flows 2 limit 100");
    for flow in [1, 2, 3] {
        bench.put_flow(0, Ecn::NotEct, flow);
    }
    assert_eq!(bench.drops[0].pkt.flow, 3);
    bench.take(0);
    bench.put_flow(0, Ecn::NotEct, 3);
    assert_eq!(bench.drops.len(), 1, "flow 1 is empty, so its place is free");
}

/// Every 10 s, which the kernel's timer of 2500 jiffies of 4 ms rounds up to the next multiple of 512 and one more step:
/// ((2500 >> 9) + 1) << 9 = 2560. The packets of a flow stay in order.
#[test]
fn perturbation_hashes_anew() {
    let mut bench = Bench::new("sfq perturb 10 divisor 2 flows 2");
    let due = 2560 * ms(4);
    assert_eq!(bench.queue.next_timer(), Time(due));
    let mut alone = 0;
    for round in 0..64 {
        for flow in [1, 1, 2, 2] {
            bench.put_flow(0, Ecn::NotEct, flow);
        }
        bench.timer(due + round);
        assert_eq!(bench.packets(), 4);
        let mut ids = [0_u64; 3];
        let out: Vec<_> = std::iter::from_fn(|| bench.take(due)).map(|out| out.pkt).collect();
        for pkt in &out {
            let id = &mut ids[pkt.flow as usize];
            assert!(pkt.id >= *id, "flow {} out of order", pkt.flow);
            *id = pkt.id;
        }
        // In flows of their own they alternate.
        alone += u64::from(out[0].flow != out[1].flow);
    }
    assert!(
        (16..=48).contains(&alone),
        "two flows share one of two hashes half of the time: {alone}"
    );
}

/// RED with thresholds of 3000 B and 6000 B, and a weight of 1/2 (a burst of 5 packets of 1500 B: 5 + 1 - 2 = 4 is more
/// than 2 (1 - 2^-5), so wlog = 2 with weight 1/4: 4 (1 - 0.75^5) = 3.05 is less than 4, and wlog = 3: 8 (1 - 0.875^5) =
/// 3.9; wlog = 4: 16 (1 - 0.9375^5) = 4.4). With 16 avg' = avg - avg/16 + backlog and a backlog of n frames:
/// the average stays below 3000 B = 48000/16 until a flow of 8 frames has brought 1514 (1 + 2 + … ) there.
#[test]
fn red_marks_or_drops_by_the_average_of_the_flow() {
    let red = "redflowlimit 100000 min 3000 max 6000 avpkt 1500 burst 5 probability 1";
    // By hand: before packet n arrives there are n - 1 frames.
    let (mut scaled, mut first) = (0_u64, 0);
    for n in 1_u64.. {
        scaled = scaled - (scaled >> 4) + n * 1514;
        if scaled >= 6000 << 4 {
            first = n;
            break;
        }
    }
    for (words, ecn, what) in [
        ("ecn", Ecn::Ect0, "marked"),
        ("ecn", Ecn::NotEct, "dropped"),
        ("", Ecn::Ect0, "dropped"),
        ("ecn harddrop", Ecn::Ect0, "dropped"),
    ] {
        let mut bench = Bench::new(&format!("sfq {red} {words}"));
        for _ in 0..first {
            bench.put_flow(0, ecn, 1);
        }
        // Between the thresholds it is a matter of chance; from max on it is not.
        let (dropped, marked) = (bench.drops.len(), bench.enqueue_marks);
        let mut sure = bench;
        for _ in 0..40 {
            sure.put_flow(0, ecn, 1);
        }
        match what {
            "marked" => assert!(sure.drops.is_empty() && sure.enqueue_marks >= marked + 40),
            _ => assert!(sure.dropped(DropReason::Aqm) >= dropped + 30, "{}", sure.drops.len()),
        }
        // Another flow has an average of its own.
        let before = sure.drops.len();
        sure.put_flow(0, ecn, 2);
        assert_eq!(sure.drops.len(), before);
    }
}

/// With `headdrop` RED marks the oldest packet of the flow.
#[test]
fn red_with_headdrop_marks_the_head() {
    let mut bench = Bench::new(
        "sfq redflowlimit 100000 min 1500 max 1600 avpkt 1500 burst 1 probability 1 ecn headdrop",
    );
    for _ in 0..40 {
        bench.put_flow(0, Ecn::Ect1, 1);
    }
    assert!(bench.drops.is_empty());
    assert_eq!(bench.take(0).expect("the head").pkt.ecn, Ecn::Ce);
    assert_eq!(bench.take(0).expect("the next").pkt.ecn, Ecn::Ect1);
}

/// `sfq_qdisc_ops` has no `change`: `tc qdisc change`, and `replace` with the same handle, end with "Change operation not
/// supported by specified qdisc".
#[test]
fn it_cannot_change() {
    let before = registry::parse("sfq").expect("valid");
    let refused = before.changed("sfq limit 4").err().expect("refused").to_string();
    assert_eq!(
        refused,
        "sfq: a change is not modelled; Linux refuses it too; change to another kind of queue"
    );
    assert!(before.changed("fq_codel").is_ok());
}
