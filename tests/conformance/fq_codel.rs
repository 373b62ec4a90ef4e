//! FQ-CoDel step by step: the scheduler against RFC 8290 Section 4 and `sch_fq_codel` (Linux 7.2),
//! CoDel on each flow, and what a full queue drops. The law of CoDel itself is in `codel.rs`.

use crate::harness::{Bench, Packet, ms};
use l4slab_core::aqm::{DropReason, Marks};
use l4slab_core::ecn::Ecn;

/// Flow numbers that the queue keeps apart, whatever its salt: each is put alone, and the list of
/// new flows grows.
fn separate_flows(bench: &mut Bench, n: usize) -> Vec<u32> {
    let mut flows = Vec::new();
    for flow in 0.. {
        let before = bench.gauge("new_flows") + bench.gauge("old_flows");
        bench.put_flow(0, Ecn::NotEct, flow);
        if bench.gauge("new_flows") + bench.gauge("old_flows") > before {
            flows.push(flow);
        }
        if flows.len() == n {
            break;
        }
    }
    // Empties the lists too: the deficits of the flows begin anew.
    bench.drained(0);
    bench.take(0);
    flows
}

/// The flows of the packets that leave at `at`.
fn order(bench: &mut Bench, at: u64, n: usize) -> Vec<u32> {
    (0..n).map_while(|_| bench.take(at)).map(|out| out.pkt.flow).collect()
}

#[test]
fn flows_take_turns_and_new_flows_go_first() {
    let mut bench = Bench::new("fq_codel");
    let [a, b, c] = separate_flows(&mut bench, 3)[..] else { unreachable!() };
    for _ in 0..4 {
        bench.put_flow(0, Ecn::NotEct, a);
    }
    for _ in 0..4 {
        bench.put_flow(0, Ecn::NotEct, b);
    }
    // A quantum is a full frame: one each.
    assert_eq!(order(&mut bench, 0, 4), [a, b, a, b]);
    assert_eq!((bench.gauge("new_flows"), bench.gauge("old_flows")), (0.0, 2.0));
    bench.put_flow(0, Ecn::NotEct, c);
    assert_eq!(bench.gauge("new_flows"), 1.0);
    assert_eq!(order(&mut bench, 0, 5), [c, a, b, a, b]);
}

/// RFC 8290 Section 4.2: a flow that was new has to wait behind the old ones once, even if empty.
#[test]
fn a_flow_of_single_packets_is_not_new_each_time() {
    let mut bench = Bench::new("fq_codel");
    let [a, b] = separate_flows(&mut bench, 2)[..] else { unreachable!() };
    let small = |bench: &mut Bench| {
        bench.put_packet(0, Packet { len: 100, flow: b, ..Packet::new(Ecn::NotEct) });
    };
    for _ in 0..10 {
        bench.put_flow(0, Ecn::NotEct, a);
    }
    assert_eq!(order(&mut bench, 0, 2), [a, a]);
    small(&mut bench);
    assert_eq!(order(&mut bench, 0, 1), [b]);
    // Found empty with an old flow waiting, it moves behind that; so its next packet is not first.
    assert_eq!(order(&mut bench, 0, 1), [a]);
    small(&mut bench);
    assert_eq!(order(&mut bench, 0, 2), [b, a], "the deficit of its turn was not used up");
    // Found empty as an old flow, it may be new again.
    assert_eq!((bench.gauge("new_flows"), bench.gauge("old_flows")), (0.0, 1.0));
    small(&mut bench);
    assert_eq!(bench.gauge("new_flows"), 1.0);
}

/// Bytes delivered to backlogged flows differ by at most a quantum and a frame (laws.md 6).
#[test]
fn shares_are_equal_in_bytes() {
    for quantum in [300, 1514, 6000] {
        let mut bench =
            Bench::new(&format!("fq_codel quantum {quantum} noecn target 100s limit 100000"));
        let flows = separate_flows(&mut bench, 3);
        let lens = [1514, 100, 700];
        for _ in 0..20_000 {
            for (i, &flow) in flows.iter().enumerate() {
                bench.put_packet(0, Packet { len: lens[i], flow, ..Packet::new(Ecn::NotEct) });
            }
        }
        let mut bytes = [0_i64; 3];
        for _ in 0..15_000 {
            let out = bench.take(0).unwrap().pkt;
            let i = flows.iter().position(|&f| f == out.flow).unwrap();
            bytes[i] += i64::from(out.len);
            let spread = bytes.iter().max().unwrap() - bytes.iter().min().unwrap();
            assert!(spread <= quantum + 1514, "quantum {quantum}: {bytes:?}");
        }
        assert!(bytes.iter().all(|&b| b > 100_000));
    }
}

/// One flow builds a queue and is signalled, another one beside it is not.
#[test]
fn each_flow_has_its_own_codel() {
    let mut bench = Bench::new("fq_codel");
    let [a, b] = separate_flows(&mut bench, 2)[..] else { unreachable!() };
    let mut marked = [0, 0];
    // 1000 packets per second leave; a sends 1500, b 200.
    for step in 0_u64..3000 {
        let now = ms(step);
        bench.put_flow(now, Ecn::Ect0, a);
        if step % 2 == 0 {
            bench.put_flow(now, Ecn::Ect0, a);
        }
        if step % 5 == 0 {
            bench.put_flow(now, Ecn::Ect0, b);
        }
        if let Some(out) = bench.take(now) {
            marked[usize::from(out.pkt.flow == b)] += u64::from(out.marks.aqm);
            assert!(out.pkt.flow == a || now - out.pkt.at.0 <= ms(2), "b does not wait");
        }
    }
    assert!(marked[0] > 100, "{marked:?}");
    assert_eq!((marked[1], bench.drops.len()), (0, 0));
}

/// The backlog that CoDel looks at is that of the whole qdisc (Linux).
#[test]
fn another_flows_backlog_lets_codel_signal_a_single_packet() {
    let marks = |beside: bool| {
        let mut bench = Bench::new("fq_codel");
        let [a, b] = separate_flows(&mut bench, 2)[..] else { unreachable!() };
        for _ in 0..if beside { 10_000 } else { 0 } {
            bench.put_flow(0, Ecn::Ect0, b);
        }
        let mut marks = 0;
        for step in 0..300 {
            bench.put_flow(ms(step), Ecn::Ect0, a);
            while let Some(out) = bench.take(ms(step) + ms(6)) {
                if out.pkt.flow == a {
                    marks += u64::from(out.marks.aqm);
                    break;
                }
            }
        }
        marks
    };
    assert_eq!(marks(false), 0);
    assert!(marks(true) > 0);
}

#[test]
fn a_full_queue_drops_from_the_head_of_the_fattest_flow() {
    let mut bench = Bench::new("fq_codel limit 1000");
    let [a, b] = separate_flows(&mut bench, 2)[..] else { unreachable!() };
    let first = bench.put_flow(0, Ecn::Ect0, a);
    for _ in 1..900 {
        bench.put_flow(0, Ecn::Ect0, a);
    }
    for _ in 900..1000 {
        bench.put_flow(0, Ecn::Ect0, b);
    }
    assert_eq!((bench.packets(), bench.drops.len()), (1000, 0));
    // The one packet too many is b's, the loss is a's: 64, not half of 900.
    bench.put_flow(0, Ecn::Ect0, b);
    let ids: Vec<u64> = bench.drops.iter().map(|d| d.pkt.id).collect();
    assert_eq!(ids, (first..first + 64).collect::<Vec<_>>());
    assert_eq!(bench.dropped(DropReason::Overflow), 64);
    assert_eq!(bench.packets(), 1001 - 64);
}

#[test]
fn a_batch_is_at_most_half_of_the_flow() {
    let mut bench = Bench::new("fq_codel limit 9 flows 1");
    for _ in 0..10 {
        bench.put(0, Ecn::Ect0);
    }
    // 10 frames wait: half of the bytes are 5.
    assert_eq!((bench.drops.len(), bench.packets()), (5, 5));
    assert_eq!(bench.gauge("count"), 5.0, "taken for signals");
    let mut bench = Bench::new("fq_codel limit 9 flows 1 drop_batch 2");
    for _ in 0..10 {
        bench.put(0, Ecn::Ect0);
    }
    assert_eq!((bench.drops.len(), bench.packets()), (2, 8));
}

/// Packets cost more than their frame, as the laboratory's kernel shows for UDP: up to 303 B in a small head 896 B,
/// up to 687 B 1280 B, up to 1514 B 2304 B. The default holds more than the default limit lets in.
#[test]
fn memory_is_limited_too() {
    let cost = 2304;
    let mut bench = Bench::new(&format!("fq_codel flows 1 memory_limit {}", 10 * cost));
    for _ in 0..10 {
        bench.put(0, Ecn::Ect0);
    }
    assert_eq!(bench.drops.len(), 0);
    assert_eq!(bench.gauge("memory_used_bytes"), (10 * cost) as f64);
    bench.put(0, Ecn::Ect0);
    assert_eq!(bench.drops.len(), 6, "half of 11 frames' bytes");
    let mut bench = Bench::new("fq_codel");
    for _ in 0..10_240 {
        bench.put(0, Ecn::Ect0);
    }
    assert_eq!(bench.drops.len(), 0);
    for (frame, cost) in
        [(64, 960), (367, 960), (368, 1280), (687, 1280), (688, 2304), (1514, 2304)]
    {
        let mut bench = Bench::new("fq_codel flows 1 memory_limit 300000");
        for _ in 0..300_000 / cost {
            bench.put_len(0, Ecn::Ect0, frame);
        }
        assert_eq!(bench.drops.len(), 0, "{frame} B");
        bench.put_len(0, Ecn::Ect0, frame);
        assert!(!bench.drops.is_empty(), "{frame} B");
    }
}

/// `ce_threshold 1ms ce_threshold_selector 0x01/0x01`: an immediate threshold for L4S packets only.
#[test]
fn the_selector_picks_codepoints() {
    let marked = |options: &str, ecn: Ecn, dscp: u8| {
        let mut bench = Bench::new(&format!("fq_codel ce_threshold 1ms {options}"));
        bench.put_packet(0, Packet { dscp, ..Packet::new(ecn) });
        bench.take(ms(2)).unwrap().marks == Marks { aqm: false, step: true, sce: false }
    };
    let l4s = "ce_threshold_selector 0x01/0x01";
    assert!(marked(l4s, Ecn::Ect1, 0) && marked(l4s, Ecn::Ect1, 46));
    assert!(!marked(l4s, Ecn::Ect0, 0) && !marked(l4s, Ecn::NotEct, 0));
    assert!(marked("", Ecn::Ect0, 0) && !marked("", Ecn::NotEct, 0));
    // The whole DS field can be selected: DSCP 46 is 0xb8 there.
    let dscp = "ce_threshold_selector 0xb8/0xfc";
    assert!(marked(dscp, Ecn::Ect0, 46) && !marked(dscp, Ecn::Ect0, 0));
    // Bits outside the mask never match (Linux).
    assert!(!marked("ce_threshold_selector 0x02/0x01", Ecn::Ect0, 0));
}

/// About n^2/2/flows pairs of n flows share a queue, other ones with each seed.
#[test]
fn collisions_are_as_many_as_chance_has_it_and_differ_by_seed() {
    let queues = |seed: u64| {
        let mut bench = Bench::seeded("fq_codel", seed);
        for flow in 0..100 {
            bench.put_flow(0, Ecn::NotEct, flow);
        }
        bench.gauge("new_flows") as i64
    };
    let used: Vec<i64> = (0..200).map(queues).collect();
    let mean = used.iter().sum::<i64>() as f64 / 200.0;
    // 1024 (1 - (1 - 1/1024)^100) = 95.29; the standard deviation of one is 2.1.
    assert!((mean - 95.29).abs() < 0.6, "{mean}");
    assert!(used.iter().any(|&n| n != used[0]));
}

/// The scheduler's memory ends when a flow was found empty: it comes back as new, with a quantum.
#[test]
fn an_idle_flow_is_new_again() {
    let mut bench = Bench::new("fq_codel");
    bench.put_flow(0, Ecn::NotEct, 7);
    bench.drained(0);
    assert_eq!((bench.gauge("new_flows"), bench.gauge("old_flows")), (0.0, 0.0));
    bench.put_flow(0, Ecn::NotEct, 7);
    assert_eq!(bench.gauge("new_flows"), 1.0);
}
