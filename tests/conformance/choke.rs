//! CHOKe step by step, against `sch_choke.c` and `red.h` (Linux 7.2), and `q_choke.c` of iproute2.

use crate::harness::{Bench, FRAME, ms};
use l4slab_core::aqm::{DropReason, QueueCx, registry};
use l4slab_core::ecn::Ecn;
use l4slab_core::time::Time;

/// Its average has a weight of a half, and compares beyond one packet: burst + 1 - min = 1.
const SHARP: &str = "choke limit 100 min 1 max 50 burst 1 bandwidth 10mbit";

fn bench(tc: &str, seed: u64, flows: &[u32], ecn: Ecn) -> Bench {
    let mut bench = Bench::seeded(tc, seed);
    for &flow in flows {
        bench.put_flow(0, ecn, flow);
    }
    bench
}

#[test]
fn parameters_are_those_that_tc_computes() {
    let canonical = |tc: &str| registry::parse(tc).unwrap_or_else(|e| panic!("{e}")).canonical();
    assert_eq!(
        canonical("choke limit 1000 bandwidth 10mbit"),
        "choke limit 1000 min 83 max 250 avpkt 1000 burst 138 bandwidth 10mbit probability 0.02"
    );
    for (tc, says) in [
        ("choke limit 1000", "bandwidth is missing"),
        ("choke bandwidth 1mbit", "limit is missing"),
        ("choke limit 131072 bandwidth 1mbit", "limit"),
        ("choke limit 100 max 101 bandwidth 1mbit", "limit (100) or less"),
        ("choke limit 100 min 50 max 50 bandwidth 1mbit", "less than max (50)"),
        ("choke limit 100 min 50 max 60 burst 2 bandwidth 1mbit", "burst"),
        ("choke limit 100 bandwidth 1mbit harddrop", "harddrop"),
    ] {
        let sentence = registry::parse(tc).expect_err(tc).to_string();
        assert!(sentence.contains(says), "{tc}: {sentence}");
    }
}

/// `choke_enqueue`: the average is 0, 1/2 and 3/2 packets for the first three.
#[test]
fn two_packets_of_a_flow_are_dropped_together() {
    for ecn in ["", " ecn"] {
        let one = bench(&format!("{SHARP}{ecn}"), 1, &[7, 7, 7], Ecn::Ect0);
        assert_eq!((one.packets(), one.dropped(DropReason::Aqm)), (1, 2));
        let several = bench(&format!("{SHARP}{ecn}"), 1, &[1, 2, 3], Ecn::Ect0);
        assert_eq!((several.packets(), several.drops.len()), (3, 0));
    }
}

/// An average of one packet does not exceed `min`.
#[test]
fn the_average_has_to_exceed_a_threshold() {
    let mut bench = bench(SHARP, 1, &[7, 7], Ecn::NotEct);
    assert!(bench.take(0).is_some());
    bench.put_flow(0, Ecn::NotEct, 7); // 1/2 + 1/2 (1 - 0)
    assert_eq!(bench.packets(), 2);
    bench.put_flow(0, Ecn::NotEct, 7); // 1 + 1/2 (2 - 1)
    assert_eq!(bench.packets(), 1);
}

/// The fourth packet finds an average of 5/2.
#[test]
fn beyond_max_every_packet_has_a_signal() {
    let tc = "choke limit 9 min 1 max 2 burst 1 bandwidth 10mbit";
    let flows = [1, 2, 3, 4, 5];
    let plain = bench(tc, 1, &flows, Ecn::Ect0);
    assert_eq!((plain.packets(), plain.dropped(DropReason::Aqm)), (3, 2));
    let marked = bench(&format!("{tc} ecn"), 1, &flows, Ecn::Ect0);
    assert_eq!((marked.packets(), marked.enqueue_marks), (5, 2));
    let not_ect = bench(&format!("{tc} ecn"), 1, &flows, Ecn::NotEct);
    assert_eq!(not_ect.packets(), 3);
    let mut full = bench(&format!("{tc} ecn"), 1, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], Ecn::Ect0);
    assert_eq!((full.packets(), full.dropped(DropReason::Overflow)), (9, 1));
    assert_eq!(full.take(0).map(|out| out.pkt.id), Some(0));
}

/// A hole at the end of the ring is a place, and four places are full with three packets and a hole. Linux then takes the
/// ring for empty, and the packets that never leave use the limit up.
#[test]
fn a_full_ring_is_lost() {
    let tc = "choke limit 3 min 1 max 2 burst 1 bandwidth 10mbit ecn";
    let mut lost = 0;
    for seed in 0..40 {
        // The third packet draws the first, which leaves no hole, or the second.
        let mut bench = bench(tc, seed, &[1, 1, 1, 2, 3], Ecn::Ect0);
        if bench.packets() == 3 {
            continue;
        }
        lost += 1;
        assert_eq!((bench.packets(), bench.dropped(DropReason::Overflow)), (0, 3));
        assert_eq!(bench.take(ms(1)), None);
        bench.put_flow(ms(100), Ecn::Ect0, 4);
        assert_eq!((bench.packets(), bench.dropped(DropReason::Overflow)), (0, 4));
    }
    assert!((10..=30).contains(&lost), "{lost}");
}

/// `choke_change`: a ring of 32 places holds 31 packets, the oldest; in a ring of the same size all stay.
#[test]
fn a_smaller_ring_loses_its_newest_packets() {
    let change = |to: &str| {
        let flows: Vec<u32> = (0..40).collect();
        let mut bench =
            bench("choke limit 63 min 60 max 62 burst 60 bandwidth 10mbit", 1, &flows, Ecn::NotEct);
        let to = registry::parse(to).expect("a queue");
        let mut cx = QueueCx::new(Time(1), &mut bench.rng, &mut bench.drops);
        bench.queue.change(to.parameters(), &mut cx).expect("it stays the same queue");
        let drops = bench.drops.iter().map(|d| d.pkt.flow).collect::<Vec<_>>();
        assert_eq!(bench.queue.backlog().bytes, (40 - drops.len() as u64) * u64::from(FRAME));
        drops
    };
    assert_eq!(change("choke limit 30 bandwidth 10mbit"), (31..40).collect::<Vec<_>>());
    assert!(change("choke limit 33 bandwidth 10mbit").is_empty());
}
