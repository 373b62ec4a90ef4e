//! `pfifo_fast` against `sch_generic.c` and `ptr_ring.h` (Linux 7.2).

use crate::harness::{Bench, Packet};
use l4slab_core::ecn::Ecn;

/// `ip_tos2prio` and `sch_default_prio2band`: of a DSCP the second and third last bits count. Those of 0 (best effort)
/// are band 1, 1 (bulk) band 2, 2 (interactive) band 0, 3 (interactive bulk) band 1.
#[test]
fn the_dscp_chooses_the_band() {
    let mut bench = Bench::new("pfifo_fast");
    // AF11 is 10 = 0b001010: bulk; EF is 46 = 0b101110: interactive bulk; CS1 is 8: best effort; 4 is interactive.
    for dscp in [10, 8, 46, 4, 0, 4] {
        bench.put_packet(0, Packet { dscp, ..Packet::new(Ecn::NotEct) });
    }
    let out: Vec<u8> = std::iter::from_fn(|| bench.take(0)).map(|out| out.pkt.dscp).collect();
    assert_eq!(out, [4, 4, 8, 46, 0, 10]);
}

/// A ring has 1000 places, and those of packets that left become free 16 at a time, and at its end.
#[test]
fn a_ring_frees_its_places_in_batches() {
    let mut bench = Bench::new("pfifo_fast");
    let fill = |bench: &mut Bench| {
        let before = bench.drops.len();
        while bench.drops.len() == before {
            bench.put(0, Ecn::NotEct);
        }
        bench.packets()
    };
    assert_eq!(fill(&mut bench), 1000);
    for taken in 1..16 {
        bench.take(0);
        assert_eq!(fill(&mut bench), 1000 - taken);
    }
    bench.take(0);
    assert_eq!(fill(&mut bench), 1000);
    // 984 more are at the end of the ring: 61 times 16, and 8.
    for _ in 0..984 {
        bench.take(0);
    }
    assert_eq!(fill(&mut bench), 1000);
}
