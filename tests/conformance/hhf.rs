//! The heavy-hitter filter step by step, against `sch_hhf.c` (Linux 7.2) and `q_hhf.c` of iproute2.

use crate::harness::{Bench, FRAME, ms};
use l4slab_core::aqm::{DropReason, QueueCx, registry};
use l4slab_core::ecn::Ecn;
use l4slab_core::time::Time;

fn put(bench: &mut Bench, at: u64, flow: u32, count: usize) {
    for _ in 0..count {
        bench.put_flow(at, Ecn::NotEct, flow);
    }
}

fn flows(bench: &mut Bench, at: u64) -> Vec<u32> {
    std::iter::from_fn(|| bench.take(at)).map(|out| out.pkt.flow).collect()
}

#[test]
fn parameters_are_within_the_kernels_bounds() {
    let canonical = |tc: &str| registry::parse(tc).unwrap_or_else(|e| panic!("{e}")).canonical();
    assert_eq!(
        canonical("hhf quantum 9"),
        "hhf limit 1000 quantum 256 hh_limit 2048 reset_timeout 40ms admit_bytes 131072 evict_timeout 1s non_hh_weight 2"
    );
    for tc in [
        "hhf hh_limit 2049",
        "hhf limit 0",
        "hhf quantum 2147483648",
        "hhf non_hh_weight 1418418",
        "hhf ecn",
    ] {
        registry::parse(tc).expect_err(tc);
    }
    canonical("hhf non_hh_weight 1418417"); // times 1514: below 2^31
}

/// Three packets of 1514 B are not more than 4542 B; a fourth one is, and goes to the other queue. The queue of the others
/// is fresh and goes first, with twice 1514 B.
#[test]
fn a_flow_becomes_heavy_by_its_bytes() {
    let mut bench = Bench::new(&format!("hhf admit_bytes {}", 3 * FRAME));
    put(&mut bench, 0, 1, 5);
    assert_eq!(bench.gauge("cur_hh"), 1.0);
    put(&mut bench, 0, 2, 2);
    // 1 1 of the fresh ones, then the heavy ones' quantum, and again two, and one …
    assert_eq!(flows(&mut bench, 0), [1, 1, 1, 1, 2, 1, 2]);
}

/// The counters begin anew once more than `reset_timeout` has passed, in jiffies of 4 ms.
#[test]
fn bytes_are_counted_anew() {
    let heavy = |at| {
        let mut bench = Bench::new(&format!("hhf admit_bytes {} reset_timeout 40ms", 3 * FRAME));
        put(&mut bench, 0, 1, 3);
        put(&mut bench, at, 1, 3);
        bench.gauge("cur_hh")
    };
    assert_eq!((heavy(ms(43)), heavy(ms(44))), (1.0, 0.0));
}

/// A flow that was silent for longer than `evict_timeout` is one like the others, and its entry is used again.
#[test]
fn silence_makes_a_flow_light() {
    let order = |at| {
        let mut bench = Bench::new(&format!("hhf admit_bytes {FRAME} evict_timeout 100ms"));
        put(&mut bench, 0, 1, 2);
        bench.drained(0);
        put(&mut bench, at, 1, 1);
        put(&mut bench, at, 2, 1);
        (flows(&mut bench, at), bench.gauge("cur_hh"))
    };
    assert_eq!(order(ms(103)), (vec![2, 1], 1.0));
    assert_eq!(order(ms(104)), (vec![1, 2], 1.0));
}

/// Where a flow would be one too many it stays among the others.
#[test]
fn heavy_flows_are_bounded() {
    let mut bench = Bench::new(&format!("hhf admit_bytes {FRAME} hh_limit 1"));
    put(&mut bench, 0, 1, 3);
    put(&mut bench, 0, 2, 3);
    assert_eq!(bench.gauge("cur_hh"), 1.0);
    assert_eq!(flows(&mut bench, 0), [1, 2, 1, 2, 2, 1]);
}

/// `hhf_drop`: the oldest packet of a heavy flow, else of the others; a smaller limit takes packets as they would leave.
#[test]
fn heavy_flows_pay_for_overflow() {
    let mut bench = Bench::new(&format!("hhf limit 4 admit_bytes {FRAME}"));
    put(&mut bench, 0, 1, 3); // ids 1 and 2 are heavy
    put(&mut bench, 0, 2, 1);
    put(&mut bench, 0, 3, 3); // 5 and 6 are heavy
    let ids = |bench: &Bench| bench.drops.iter().map(|d| d.pkt.id).collect::<Vec<_>>();
    assert_eq!(ids(&bench), [1, 2, 5]);
    assert_eq!(bench.dropped(DropReason::Overflow), 3);
    let to = registry::parse("hhf limit 1").expect("a queue");
    let mut cx = QueueCx::new(Time(1), &mut bench.rng, &mut bench.drops);
    bench.queue.change(to.parameters(), &mut cx).expect("it stays the same queue");
    assert_eq!(ids(&bench), [1, 2, 5, 0, 3, 6]);
}
