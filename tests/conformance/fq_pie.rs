//! FQ-PIE: PIE's law apart for each flow, deficit round robin between them.

use crate::harness::{Bench, ms};
use l4slab_core::aqm::DropReason;
use l4slab_core::ecn::Ecn;
use l4slab_core::time::Time;

/// With one flow it is PIE.
#[test]
fn one_flow_is_pie() {
    let options = "limit 1000 tupdate 8ms ecn alpha 4 beta 30";
    let mut pie = Bench::new(&format!("pie {options}"));
    let mut fq = Bench::new(&format!("fq_pie flows 1 {options}"));
    // FQ-PIE draws its salt first.
    fq.put(0, Ecn::Ect0);
    pie.put(0, Ecn::Ect0);
    pie.rng = fq.rng.clone();
    let (mut now, mut signals) = (0, 0);
    for i in 0..40_000_u64 {
        now += 150_000;
        let ecn = if i % 3 == 0 { Ecn::NotEct } else { Ecn::Ect1 };
        pie.put(now, ecn);
        fq.put(now, ecn);
        if i % 5 != 0 || (i / 4000) % 2 == 0 {
            assert_eq!(pie.take(now), fq.take(now), "at {i}");
        }
        while pie.queue.next_timer() <= Time(now) {
            assert_eq!(pie.queue.next_timer(), fq.queue.next_timer());
            pie.timer(now);
            fq.timer(now);
            assert_eq!(pie.gauge("p_c"), fq.gauge("p_c"));
        }
        signals = pie.drops.len() + pie.enqueue_marks as usize;
    }
    assert_eq!((pie.drops.len(), pie.enqueue_marks), (fq.drops.len(), fq.enqueue_marks));
    let drops = pie.dropped(DropReason::Aqm);
    assert!(pie.enqueue_marks > 10 && drops > 100, "{signals} signals, {drops} drops by the law");
}

/// The updates of more than 2048 flows are spread over jiffies.
#[test]
fn many_flows_are_updated_in_rounds() {
    let mut bench = Bench::new("fq_pie flows 5000");
    let mut times = Vec::new();
    for _ in 0..7 {
        let due = bench.queue.next_timer();
        times.push(due.0 / ms(1));
        bench.timer(due.0);
    }
    assert_eq!(times, [20, 24, 28, 48, 52, 56, 76]);
}

#[test]
fn a_full_qdisc_drops_the_new_packet() {
    let mut bench = Bench::new("fq_pie limit 3");
    for _ in 0..5 {
        bench.put(0, Ecn::Ect1);
    }
    assert_eq!((bench.packets(), bench.dropped(DropReason::Overflow)), (3, 2));
}
