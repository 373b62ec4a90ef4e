//! CAKE's ACK filter against vectors by hand, from the law of `cake_ack_filter`, `cake_tcph_may_drop` and
//! `cake_tcph_sack_compare` (Linux `net/sched/sch_cake.c`, 7.2).

use crate::harness::{Bench, Packet, ms};
use l4slab_core::aqm::{DropReason, TcpHeader};
use l4slab_core::ecn::Ecn;
use l4slab_core::packet::SackSlot;
use l4slab_core::sack::{Block, Blocks};

const ECE: u8 = 0b001;
const CWR: u8 = 0b010;

/// A pure ACK of connection 1 that was sent at that millisecond.
fn ack(number: u32, sent_ms: u32) -> TcpHeader {
    TcpHeader {
        connection: 1,
        number,
        tsval: sent_ms,
        tsecr: 0,
        ecn: 0,
        sack: SackSlot::NONE,
        acknowledges: true,
        is_pure: true,
    }
}

/// Which packets of these, coming in this order while nothing leaves, are dropped: by place, when which one came.
fn filtered(words: &str, packets: &[TcpHeader], sacks: &[&[(u32, u32)]]) -> Vec<(u64, usize)> {
    let mut bench = Bench::new(&format!("cake besteffort flowblind {words}"));
    for (slot, blocks) in sacks.iter().enumerate() {
        let mut all = Blocks::default();
        for &(start, end) in *blocks {
            assert!(all.push(Block::new(start, end)));
        }
        if let Some(queue) = bench.queue.sacks() {
            queue.learn_sack(SackSlot(slot as u32), all);
        }
    }
    let mut found = Vec::new();
    for (i, tcp) in packets.iter().enumerate() {
        bench.put_packet(ms(1), Packet { len: 66, tcp: Some(*tcp), ..Packet::new(Ecn::NotEct) });
        found.extend(bench.drops.drain(..).map(|dropped| {
            assert_eq!(dropped.why, DropReason::Aqm);
            (dropped.pkt.id, i)
        }));
        let backlog = bench.queue.backlog();
        assert_eq!(backlog.bytes, 66 * backlog.packets);
        assert_eq!(backlog.packets as usize + found.len(), i + 1);
    }
    found
}

fn with_sack(number: u32, slot: u32) -> TcpHeader {
    TcpHeader { sack: SackSlot(slot), ..ack(number, number) }
}

/// Two that could go are needed for one to go, and then it is the first. So with a backlog every ACK from the third on
/// drops one, and two stay.
#[test]
fn of_two_needless_acks_the_first_goes() {
    let five: Vec<_> = (1..=5).map(|n| ack(n, n)).collect();
    assert_eq!(filtered("ack-filter", &five, &[]), [(0, 2), (1, 3), (2, 4)]);
    assert_eq!(filtered("ack-filter-aggressive", &five, &[]), [(0, 1), (1, 2), (2, 3), (3, 4)]);
    assert_eq!(filtered("no-ack-filter", &five, &[]), []);
    assert_eq!(filtered("", &five, &[]), []);
}

/// The first, the second, and a third that decides.
#[test]
fn what_must_not_be_lost_stays() {
    let [first, second, third] = [ack(1, 1), ack(2, 2), ack(3, 3)];
    let kept = [
        ("more than pure", TcpHeader { is_pure: false, ..first }, second, third),
        ("another connection", TcpHeader { connection: 2, ..first }, second, third),
        ("a later time stamp", TcpHeader { tsval: 9, ..first }, second, third),
        ("a later echo", TcpHeader { tsecr: 1, ..first }, second, third),
        ("a higher number", TcpHeader { number: 4, ..first }, second, third),
        ("the same number, no SACK", TcpHeader { number: 3, ..first }, second, third),
        ("a SYN behind", first, second, TcpHeader { acknowledges: false, ..third }),
        ("ECE changes", first, TcpHeader { ecn: ECE, ..second }, TcpHeader { ecn: ECE, ..third }),
        ("CWR changes", TcpHeader { ecn: CWR, ..first }, second, third),
    ];
    for (why, a, b, c) in kept {
        assert_eq!(filtered("ack-filter", &[a, b, c], &[]), [], "{why}");
    }
    // Numbers and time stamps wrap.
    let wrapped = [ack(u32::MAX - 1, u32::MAX - 1), ack(u32::MAX, u32::MAX), ack(1, 1)];
    assert_eq!(filtered("ack-filter", &wrapped, &[]), [(0, 2)]);
    // What triggers may have a payload, or other options.
    assert_eq!(
        filtered("ack-filter", &[first, second, TcpHeader { is_pure: false, ..third }], &[]),
        [(0, 2)]
    );
}

/// After a change of ECE, two of the new kind are needed, of which the first tells the change and goes, too (Linux).
#[test]
fn a_change_of_flags_begins_anew() {
    let ece = |n| TcpHeader { ecn: ECE, ..ack(n, n) };
    let packets = [ack(1, 1), ece(2), ece(3), ece(4)];
    assert_eq!(filtered("ack-filter", &packets, &[]), [(1, 3)]);
    // A packet that could not go itself tells of the change, too.
    let between = TcpHeader { is_pure: false, ..ece(2) };
    assert_eq!(filtered("ack-filter", &[ack(1, 1), between, ack(3, 3), ack(4, 4)], &[]), []);
}

/// With `ack-filter-aggressive` the only one goes, if it is the packet before, and ECE and CWR are the same.
#[test]
fn the_only_one_goes_if_it_stands_next() {
    let aggressive = |packets: &[TcpHeader]| filtered("ack-filter-aggressive", packets, &[]);
    let other = TcpHeader { connection: 2, ..ack(1, 1) };
    assert_eq!(aggressive(&[ack(1, 1), ack(2, 2)]), [(0, 1)]);
    assert_eq!(aggressive(&[ack(1, 1), other, ack(2, 2)]), []);
    assert_eq!(aggressive(&[ack(1, 1), TcpHeader { ecn: ECE, ..ack(2, 2) }]), []);
}

/// The newer ACK has to hold every block of the older one, and with the same number more than that.
#[test]
fn sack_blocks_are_compared() {
    // Of the older and the newer one: number and blocks.
    type Said<'a> = (u32, &'a [(u32, u32)]);
    let cases: [(Said, Said, bool); 12] = [
        ((5, &[(7, 8)]), (5, &[(7, 9)]), true),
        ((5, &[(7, 8)]), (5, &[(7, 8)]), false),
        ((5, &[(7, 8)]), (6, &[(7, 8)]), true),
        ((5, &[(7, 8)]), (6, &[]), false),
        ((5, &[]), (5, &[(7, 8)]), true),
        ((5, &[(7, 8)]), (9, &[(10, 11)]), false),
        ((5, &[(7, 8), (10, 11)]), (5, &[(10, 12), (7, 8)]), true),
        ((5, &[(7, 8), (10, 11)]), (5, &[(7, 11)]), true),
        ((5, &[(7, 9)]), (5, &[(7, 8), (8, 9)]), false),
        ((5, &[(7, 8)]), (5, &[(10, 14)]), false),
        // A duplicate is told once (RFC 2883).
        ((5, &[(3, 4)]), (6, &[(3, 4)]), false),
        ((5, &[(7, 8)]), (6, &[(3, 4), (7, 8)]), true),
    ];
    for ((older, old), (newer, new), goes) in cases {
        let packets = [with_sack(older, 0), with_sack(newer, 1)];
        let slot = |tcp: TcpHeader, blocks: &[(u32, u32)]| match blocks.is_empty() {
            true => TcpHeader { sack: SackSlot::NONE, ..tcp },
            false => tcp,
        };
        let packets = [slot(packets[0], old), slot(packets[1], new)];
        let found = filtered("ack-filter-aggressive", &packets, &[old, new]);
        assert_eq!(!found.is_empty(), goes, "{older} {old:?}, then {newer} {new:?}");
    }
}

/// On an ingress the shaper is charged with what is dropped: 66 B at 528 kbit/s are a millisecond each. It lets go after
/// one and a half, since its failsafe counts what is sent only, half as long again.
#[test]
fn an_ingress_is_charged() {
    for (direction, next) in [("egress", 2_000_000), ("ingress", 2_500_000)] {
        let mut bench = Bench::new(&format!(
            "cake bandwidth 528kbit besteffort flowblind ack-filter-aggressive {direction}"
        ));
        let put = |bench: &mut Bench, n| {
            let tcp = Some(ack(n, n));
            bench.put_packet(ms(1), Packet { len: 66, tcp, ..Packet::new(Ecn::NotEct) });
        };
        put(&mut bench, 1);
        assert!(bench.take(ms(1)).is_some());
        put(&mut bench, 2);
        put(&mut bench, 3);
        assert_eq!(bench.drops.len(), 1);
        assert!(bench.take(next - 1000).is_none(), "{direction}");
        assert!(bench.take(next + 1000).is_some(), "{direction}");
    }
}
