//! CAKE and COBALT against vectors computed by hand from the law of Linux `net/sched/sch_cake.c`, 7.2.

use std::collections::{BTreeMap, BTreeSet};

use crate::harness::{Bench, FRAME, Out, Packet, ms};
use l4slab_core::aqm::cake::diffserv::Diffserv;
use l4slab_core::aqm::cake::hash::{FlowMode, Hashes, QUEUES};
use l4slab_core::aqm::cake::sce::Sce;
use l4slab_core::aqm::cake::tin::Tin;
use l4slab_core::aqm::cobalt::{Cobalt, CobaltParams};
use l4slab_core::aqm::shaper::Pace;
use l4slab_core::aqm::{DropReason, QueueCx, registry};
use l4slab_core::ecn::Ecn;
use l4slab_core::rng::Rng;
use l4slab_core::time::{Span, Time};

const SECOND: u64 = ms(1000);

fn frame(flow: u32, ecn: Ecn) -> Packet {
    Packet { flow, ..Packet::new(ecn) }
}

// COBALT

/// Target 5 ms, interval 100 ms, the rate unknown.
const DEFAULT: CobaltParams = CobaltParams {
    interval: Span::from_millis(100),
    target: Span::from_millis(5),
    mtu_time: Span::ZERO,
};

struct Law {
    cobalt: Cobalt,
    params: CobaltParams,
    bulk_flows: u64,
    rng: Rng,
}

impl Law {
    fn new(params: CobaltParams) -> Law {
        Law { cobalt: Cobalt::default(), params, bulk_flows: 0, rng: Rng::stream(1, "law", 0) }
    }
    /// A packet that waited for `sojourn` leaves at `now`: (dropped, marked).
    fn leave(&mut self, now: u64, sojourn: u64, ecn: Ecn) -> (bool, bool) {
        let mut drops = Vec::new();
        let mut cx = QueueCx::new(Time(now), &mut self.rng, &mut drops);
        let mut pkt = Packet { at: Time(now - sojourn), ..Packet::new(ecn) };
        let dropped = self.cobalt.drops(&self.params, self.bulk_flows, &mut pkt, &mut cx);
        (dropped, pkt.ecn == Ecn::Ce)
    }
    /// A packet every millisecond; the milliseconds at which a signal is given.
    fn signals(&mut self, from_ms: u64, to_ms: u64, sojourn: u64, ecn: Ecn) -> Vec<u64> {
        let signalled = |t: &u64| matches!(self.leave(ms(*t), sojourn, ecn), (true, _) | (_, true));
        (from_ms..to_ms).filter(signalled).collect()
    }
}

/// Signals interval/sqrt(count) apart. The first of a new queue comes with its second packet,
/// because 1/sqrt(count) starts at 0: 1000 + 0, then + 70.71, + 57.74, + 50.00 ms, at the next
/// packet each.
#[test]
fn signals_come_closer_and_closer() {
    for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::NotEct] {
        let mut law = Law::new(DEFAULT);
        assert_eq!(law.signals(1000, 1180, ms(10), ecn), [1001, 1071, 1129, 1179]);
        assert_eq!(law.cobalt.count(), 5);
        // 100 ms times (1/sqrt 2 + 1/sqrt 3 + 1/sqrt 4 + 1/sqrt 5), each rounded down.
        let sum = 70_710_678 + 57_735_026 + 49_999_999 + 44_721_359;
        assert_eq!(law.cobalt.next(), Time(SECOND + sum));
    }
}

/// Below target, count falls at the instants at which it would have risen; and where it has been 0,
/// the next episode waits a whole interval.
#[test]
fn below_target_the_count_unwinds() {
    let mut law = Law::new(DEFAULT);
    law.signals(1000, 1180, ms(10), Ecn::Ect0);
    let mut falls = Vec::new();
    for t in 1180..1600 {
        let before = law.cobalt.count();
        law.leave(ms(t), ms(1), Ecn::Ect0);
        if law.cobalt.count() < before {
            falls.push((t, law.cobalt.count()));
        }
    }
    // next = 1223.167; then 50.00, 57.74, 70.71 and 100 ms more.
    assert_eq!(falls, [(1224, 4), (1274, 3), (1331, 2), (1402, 1), (1502, 0)]);
    assert_eq!(law.signals(1600, 1772, ms(10), Ecn::Ect0), [1700, 1771], "99.999999, + 70.71 ms");
}

/// The sojourn has to exceed the target and four full frames, and on an ingress twice as many as
/// there are bulk flows; equality is not above.
#[test]
fn what_counts_as_above_target() {
    let over = |params, bulk_flows, sojourn| {
        let mut law = Law::new(params);
        law.bulk_flows = bulk_flows;
        !law.signals(1000, 1010, sojourn, Ecn::Ect0).is_empty()
    };
    assert!(!over(DEFAULT, 0, ms(5)) && over(DEFAULT, 0, ms(5) + 1));
    let slow = CobaltParams { mtu_time: Span::from_millis(2), ..DEFAULT };
    assert!(!over(slow, 0, ms(8)) && over(slow, 0, ms(8) + 1));
    assert!(!over(slow, 5, ms(20)) && over(slow, 5, ms(20) + 1));
}

/// Signals missed in a pause are not made up for: one, then the next with the next packet.
#[test]
fn a_pause_is_no_debt() {
    let mut law = Law::new(DEFAULT);
    law.signals(1000, 1180, ms(10), Ecn::Ect0);
    assert_eq!(law.leave(ms(3000), ms(10), Ecn::Ect0), (false, true));
    assert_eq!((law.cobalt.count(), law.cobalt.next()), (6, Time(ms(3000))));
    // Not-ECT: the drop leaves the schedule as it is.
    let mut law = Law::new(DEFAULT);
    law.signals(1000, 1180, ms(10), Ecn::NotEct);
    let next = law.cobalt.next();
    assert_eq!(law.leave(ms(3000), ms(10), Ecn::NotEct), (true, false));
    assert_eq!(law.cobalt.next(), Time(next.0 + 40_824_829), "100 ms/sqrt(6)");
}

/// Beyond the table, one Newton step per count is enough.
#[test]
fn the_square_root_stays_true() {
    let mut law = Law::new(DEFAULT);
    let mut now = ms(1000);
    while law.cobalt.count() < 2000 {
        now = now.max(law.cobalt.next().0) + 1;
        let (before, count) = (law.cobalt.next().0, law.cobalt.count());
        law.leave(now, ms(10), Ecn::Ect0);
        if law.cobalt.count() > count && law.cobalt.next() != Time(now) {
            let gap = (law.cobalt.next().0 - before) as f64;
            let expected = 1e8 / f64::from(law.cobalt.count()).sqrt();
            assert!((gap / expected - 1.0).abs() < 2e-3, "{}: {gap}", law.cobalt.count());
        }
    }
}

/// 1/256 up with each overflow, at most once per target; 1/4096 down with each time found empty.
#[test]
fn blue_steps() {
    let mut cobalt = Cobalt::default();
    cobalt.queue_full(&DEFAULT, Time(SECOND));
    cobalt.queue_full(&DEFAULT, Time(SECOND + ms(5)));
    assert_eq!(cobalt.p_drop(), 1.0 / 256.0);
    assert_eq!((cobalt.count(), cobalt.next()), (1, Time(SECOND + ms(5))), "CoDel acts at once");
    cobalt.queue_full(&DEFAULT, Time(SECOND + ms(5) + 1));
    assert_eq!(cobalt.p_drop(), 2.0 / 256.0);
    cobalt.queue_empty(&DEFAULT, Time(SECOND + ms(10) + 1));
    assert_eq!(cobalt.p_drop(), 2.0 / 256.0, "not within target");
    cobalt.queue_empty(&DEFAULT, Time(SECOND + ms(10) + 2));
    assert_eq!(cobalt.p_drop(), 2.0 / 256.0 - 1.0 / 4096.0);
    for n in 0..400 {
        cobalt.queue_full(&DEFAULT, Time((2 + n) * SECOND));
    }
    assert!((cobalt.p_drop() - 1.0).abs() < 1e-9, "at most 1");
}

/// BLUE drops without regard to ECN or delay.
#[test]
fn blue_drops_ect() {
    let mut law = Law::new(DEFAULT);
    for n in 1..=64 {
        law.cobalt.queue_full(&DEFAULT, Time(n * SECOND));
    }
    let n = 20_000;
    let drops = (0..n).filter(|i| law.leave(100 * SECOND + ms(*i), 0, Ecn::Ect1).0).count();
    assert!((drops as f64 / n as f64 - 0.25).abs() < 0.01, "{drops} of {n}");
}

// What follows from the rate

#[test]
fn target_and_interval_follow_the_rate() {
    let at = |bytes_per_second| {
        let mtu_time = Pace::new(bytes_per_second).time_for(FRAME);
        CobaltParams::at_rate(mtu_time, Span::from_millis(5), Span::from_millis(100))
    };
    // 1 Mbit/s: a frame takes 12.112 ms, one and a half of them are the target.
    let slow = at(125_000);
    assert_eq!((slow.mtu_time, slow.target), (Span(12_112_000), Span(18_168_000)));
    assert_eq!(slow.interval, Span(113_168_000), "100 + 18.168 - 5 ms");
    // 50 Mbit/s over 16.
    assert_eq!((at(390_625).target, at(390_625).interval), (Span(5_813_760), Span(100_813_760)));
    assert_eq!((at(6_250_000).target, at(6_250_000).interval), (DEFAULT.target, DEFAULT.interval));
    assert_eq!(at(0), DEFAULT, "unlimited");
    // 64 kbit/s: 189.25 ms a frame; twice the target is more than rtt + target - 5 ms.
    assert_eq!((at(8000).target, at(8000).interval), (Span(283_875_000), Span(567_750_000)));
}

#[test]
fn time_per_byte() {
    assert_eq!(Pace::new(6_250_000).time_for(1514), Span(242_240), "50 Mbit/s: 160 ns a byte");
    assert_eq!(Pace::new(3).time_for(1), Span(15_625_000), "64 B/s at least");
    assert_eq!(Pace::new(0).time_for(1514), Span::ZERO);
    // 30 Mbit/s: 266.67 ns a byte, to 2^-25.
    assert_eq!(Pace::new(3_750_000).time_for(15_000), Span(3_999_999));
}

#[test]
fn tins_have_shares_of_the_rate() {
    let rates = |d: Diffserv| d.shares(12_500_000).iter().map(|s| s.rate).collect::<Vec<_>>();
    let weights = |d: Diffserv| d.shares(0).iter().map(|s| s.quantum).collect::<Vec<_>>();
    assert_eq!(rates(Diffserv::Besteffort), [12_500_000]);
    assert_eq!(rates(Diffserv::Diffserv3), [12_500_000, 781_250, 3_125_000]);
    assert_eq!(weights(Diffserv::Diffserv3), [1024, 64, 256]);
    assert_eq!(rates(Diffserv::Diffserv4), [12_500_000, 781_250, 6_250_000, 3_125_000]);
    assert_eq!(weights(Diffserv::Diffserv4), [1024, 64, 512, 256]);
    assert_eq!(rates(Diffserv::Diffserv8)[..4], [12_500_000, 10_937_500, 9_570_312, 8_374_023]);
    assert_eq!(weights(Diffserv::Precedence), [256, 224, 196, 171, 149, 130, 113, 98]);
}

#[test]
fn codepoints_have_their_tins() {
    let table = |mode: Diffserv, tins: &[(usize, &[u8])], rest: usize| {
        for dscp in 0..64_u8 {
            let listed = tins.iter().find(|(_, list)| list.contains(&dscp)).map(|(tin, _)| *tin);
            assert_eq!(mode.tin(dscp), listed.unwrap_or(rest), "{mode:?}, dscp {dscp}");
        }
    };
    table(Diffserv::Besteffort, &[], 0);
    table(Diffserv::Diffserv3, &[(1, &[1, 8]), (2, &[4, 44, 46, 48, 56])], 0);
    let video = &[4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38];
    table(Diffserv::Diffserv4, &[(1, &[1, 8]), (2, video), (3, &[32, 40, 44, 46, 48, 56])], 0);
    let streams = &[24, 26, 28, 30, 34, 36, 38];
    let eight: [(usize, &[u8]); 7] = [
        (0, &[1]),
        (1, &[2, 8, 10, 12, 14]),
        (3, streams),
        (4, &[4, 18, 20, 22]),
        (5, &[16]),
        (6, &[32, 40, 44, 46]),
        (7, &[48, 56]),
    ];
    table(Diffserv::Diffserv8, &eight, 2);
    for dscp in 0..64_u8 {
        assert_eq!(Diffserv::Precedence.tin(dscp), usize::from(dscp / 8));
    }
}

#[test]
fn tins_are_reported_as_tc_does_and_wash_clears_the_codepoint() {
    for (words, dscp_after) in [("wash", [0, 0, 0]), ("nowash", [8, 0, 46])] {
        let mut bench = Bench::new(&format!("cake diffserv3 {words}"));
        assert_eq!(bench.queue.bands(), ["Bulk", "Best Effort", "Voice"]);
        for (band, dscp) in [8, 0, 46].into_iter().enumerate() {
            bench.put_packet(0, Packet { dscp, ..Packet::new(Ecn::NotEct) });
            let out = bench.take(0).expect("work conservation");
            assert_eq!((out.band, out.pkt.dscp), (band, dscp_after[band]));
        }
    }
}

// The shaper

/// When a queue of `n` frames of `len` bytes lets them go, asked as often as it wants.
fn departures(bench: &mut Bench, start: u64, n: usize, len: u32) -> Vec<u64> {
    for _ in 0..n {
        bench.put_packet(start, Packet { len, ..Packet::new(Ecn::NotEct) });
    }
    let mut now = start;
    let mut times = Vec::new();
    while times.len() < n {
        if bench.take(now).is_some() {
            times.push(now - start);
        } else {
            assert!(bench.queue.next_timer() > Time(now), "it knows when");
            now = bench.queue.next_timer().0;
            bench.timer(now);
        }
    }
    times
}

/// 8 Mbit/s: a byte takes a microsecond. No burst at the start and none after a pause.
#[test]
fn packets_leave_at_the_rate() {
    let mut bench = Bench::new("cake bandwidth 8mbit besteffort flowblind rtt 10s");
    for start in [SECOND, 10 * SECOND, 20 * SECOND + 7] {
        let times = departures(&mut bench, start, 50, FRAME);
        let expected: Vec<u64> = (0..50).map(|n| n * 1_514_000).collect();
        assert_eq!(times, expected);
    }
}

/// Who asks late may catch up, but not beyond the schedule.
#[test]
fn the_schedule_does_not_slip() {
    let mut bench = Bench::new("cake bandwidth 8mbit besteffort");
    for _ in 0..10 {
        bench.put_flow(0, Ecn::NotEct, 1);
    }
    assert!(bench.take(0).is_some() && bench.take(0).is_none());
    let late = 3 * 1_514_000;
    let taken = std::iter::from_fn(|| bench.take(late)).count();
    assert_eq!(taken, 3, "at 1, 2 and 3 frame times");
    assert_eq!(bench.queue.next_timer(), Time(4 * 1_514_000));
}

#[test]
fn framing_costs_time() {
    // (words, frame, bytes on the wire)
    let cases = [
        ("raw", FRAME, 1514),
        ("", FRAME, 1514),
        ("overhead 0", FRAME, 1500),
        ("overhead 38", FRAME, 1538),
        ("overhead -20", FRAME, 1480),
        ("raw overhead 38", FRAME, 1552),
        ("ethernet", FRAME, 1538),
        ("ethernet", 54, 84),
        ("docsis", 60, 64),
        ("ethernet ether-vlan", FRAME, 1542),
        ("pppoe-llcsnap", FRAME, 33 * 53), // 1540 bytes
        ("conservative", FRAME, 33 * 53),  // 1548
        ("overhead 36 atm", FRAME, 32 * 53),
        ("pppoe-ptm", FRAME, 1530 + 24),
        ("bridged-ptm mpu 256", 64, 256 + 4),
        ("mpu 128", 64, 128),
        ("atm raw", FRAME, 1514),
    ];
    for (words, frame, wire) in cases {
        let mut bench = Bench::new(&format!("cake bandwidth 8mbit besteffort {words}"));
        let times = departures(&mut bench, SECOND, 3, frame);
        assert_eq!(times, [0, wire * 1000, 2 * wire * 1000], "{words}, {frame} bytes");
    }
}

/// On an ingress, four packets that overflow are charged: the clock is ahead by their time when the
/// first packet leaves. The failsafe, at two thirds of the rate, does not count them and lets it go,
/// and the next one after its own time.
#[test]
fn an_ingress_pays_for_drops() {
    for (direction, wait) in [("egress", 1_514_000), ("ingress", 1_514_000 * 3 / 2)] {
        let tc = format!("cake bandwidth 8mbit besteffort flowblind {direction} memlimit 12040");
        let mut bench = Bench::new(&tc);
        for _ in 0..9 {
            bench.put(SECOND, Ecn::NotEct);
        }
        assert_eq!(bench.dropped(DropReason::Overflow), 4);
        assert!(bench.take(SECOND).is_some() && bench.take(SECOND).is_none());
        assert_eq!(bench.queue.next_timer(), Time(SECOND + wait), "{direction}");
    }
}

// Flows and hosts

fn tin(mode: &str) -> Tin<Packet> {
    let mode = FlowMode::ALL.iter().find(|(name, ..)| *name == mode).expect("a mode").1;
    let share = Diffserv::Besteffort.shares(0)[0];
    let mut tin = Tin::new(share, mode, Span::from_millis(5), Span::from_millis(100), Sce::Off);
    tin.open();
    tin
}

/// Flows share a queue only where a set of eight has more than eight flows.
#[test]
fn the_hash_has_eight_ways() {
    let mut rng = Rng::stream(1, "hash", 0);
    for n in [8, 100, 512, 1024] {
        let mut tin = tin("flows");
        let mut queues = BTreeSet::new();
        let mut sets: BTreeMap<u32, usize> = BTreeMap::new();
        let mut flows = Vec::new();
        for _ in 0..n {
            let flow = rng.u32();
            let queue = tin.classify(Hashes { flow, source: 0, destination: 0 });
            tin.activate(queue, &mut rng);
            queues.insert(queue);
            flows.push((flow, queue));
            *sets.entry(flow % QUEUES as u32 / 8).or_default() += 1;
        }
        let crowded: usize = sets.values().map(|&flows| flows.saturating_sub(8)).sum();
        assert_eq!(queues.len(), n - crowded, "{n} flows, {crowded} beyond their set");
        if crowded == 0 {
            for (flow, queue) in flows {
                let again = tin.classify(Hashes { flow, source: 0, destination: 0 });
                assert_eq!(again, queue, "a flow keeps its queue");
            }
        }
    }
}

#[test]
fn the_ninth_of_a_set_shares_the_first_choice() {
    let mut tin = tin("flows");
    let mut rng = Rng::stream(1, "hash", 0);
    let mut queue = |n: u32| {
        let flow = n * QUEUES as u32 + 13; // all prefer queue 13, of the set 8 to 15
        let i = tin.classify(Hashes { flow, source: 0, destination: 0 });
        tin.activate(i, &mut rng);
        i
    };
    let flows: Vec<usize> = (1..=9).map(&mut queue).collect();
    // The set is full, so the queues' order says which of the eight each one is.
    let order = tin.by_queue();
    let queues = flows.iter().map(|flow| 8 + order.iter().position(|of| of == flow).unwrap());
    assert_eq!(queues.collect::<Vec<_>>(), [13, 14, 15, 8, 9, 10, 11, 12, 13]);
}

/// What is kept apart in each mode: two flows, two sources, two destinations.
#[test]
fn modes_keep_apart_what_they_say() {
    let queues = |mode: &str| {
        let mut bench = Bench::new(&format!("cake besteffort {mode}"));
        // A queue of its own shows in the order: with DRR the fourth flow's packet overtakes.
        let hosts = [(1, 101), (1, 101), (1, 102), (2, 101)];
        for (flow, hosts) in hosts.into_iter().enumerate() {
            for _ in 0..4 {
                let pkt = frame(flow as u32, Ecn::NotEct);
                bench.put_packet(0, Packet { hosts, ..pkt });
            }
        }
        let first: BTreeSet<u64> =
            (0..4).filter_map(|_| bench.take(0)).map(|o| o.pkt.id / 4).collect();
        first.len()
    };
    assert_eq!(queues("flowblind"), 1);
    for (mode, n) in [("srchost", 2), ("dsthost", 2), ("hosts", 3), ("flows", 4)] {
        assert_eq!(queues(mode), n, "{mode}");
    }
    for mode in ["dual-srchost", "dual-dsthost", "triple-isolate"] {
        assert_eq!(queues(mode), 4, "{mode}");
    }
}

/// Bytes by source (or destination) of a host with one flow and one with ten, all backlogged.
fn share_of_the_single_flow(mode: &str, by_source: bool) -> f64 {
    let mut bench = Bench::new(&format!("cake besteffort {mode} memlimit 100mb"));
    for flow in 0..11_u32 {
        let host = u32::from(flow > 0);
        let hosts = if by_source { (host, 100 + flow) } else { (100 + flow, host) };
        for _ in 0..1500 {
            bench.put_packet(0, Packet { flow, hosts, ..Packet::new(Ecn::Ect0) });
        }
    }
    let taken = 2200;
    let single = (0..taken).filter_map(|_| bench.take(0)).filter(|o| o.pkt.flow == 0).count();
    single as f64 / f64::from(taken)
}

#[test]
fn hosts_share_alike_whatever_the_number_of_their_flows() {
    for (mode, by_source, expected) in [
        ("triple-isolate", true, 0.5),
        ("triple-isolate", false, 0.5),
        ("dual-srchost", true, 0.5),
        ("dual-dsthost", false, 0.5),
        ("dual-srchost", false, 1.0 / 11.0),
        ("dual-dsthost", true, 1.0 / 11.0),
        ("flows", true, 1.0 / 11.0),
        ("srchost", true, 0.5),
    ] {
        let share = share_of_the_single_flow(mode, by_source);
        assert!((share / expected - 1.0).abs() < 0.03, "{mode}, sources {by_source}: {share}");
    }
}

/// Turns are in bytes: small packets do not pay.
#[test]
fn flows_share_bytes() {
    let mut bench = Bench::new("cake besteffort flows memlimit 100mb");
    for _ in 0..4000 {
        bench.put_packet(0, frame(1, Ecn::Ect0));
        bench.put_packet(0, Packet { len: 200, ..frame(2, Ecn::Ect0) });
    }
    let mut bytes = [0_u64; 3];
    for _ in 0..3000 {
        let pkt = bench.take(0).expect("backlogged").pkt;
        bytes[pkt.flow as usize] += u64::from(pkt.len);
    }
    let share = bytes[1] as f64 / (bytes[1] + bytes[2]) as f64;
    assert!((share - 0.5).abs() < 0.01, "{share}");
}

/// A new flow goes before those that have used up their quantum.
#[test]
fn sparse_flows_come_first() {
    let mut bench = Bench::new("cake besteffort");
    for _ in 0..10 {
        bench.put_flow(0, Ecn::NotEct, 1);
    }
    bench.take(0);
    bench.take(0); // the second packet was sent in the bulk rotation
    let sparse = bench.put_flow(0, Ecn::NotEct, 2);
    assert_eq!(bench.take(0).map(|o| o.pkt.id), Some(sparse));
    assert_eq!((bench.gauge("sparse_flows"), bench.gauge("bulk_flows")), (1.0, 1.0));
}

/// Whatever COBALT says, a flow's only packet goes out; marked if it can be.
#[test]
fn the_last_packet_of_a_flow_is_never_dropped() {
    let mut bench = Bench::new("cake besteffort");
    for n in 0..200 {
        bench.put_flow(ms(100 * n), Ecn::NotEct, 1);
        assert!(bench.take(ms(100 * n + 50)).is_some());
    }
    assert_eq!(bench.drops.len(), 0);
    assert!(bench.gauge("cobalt_count") > 10.0, "though CoDel wanted to");
}

/// 20 frames fit. The longest queue loses its heads, and BLUE hears of it.
#[test]
fn overflow_hits_the_longest_queue() {
    let mut bench = Bench::new("cake besteffort memlimit 48160");
    for n in 0..20 {
        bench.put_flow(SECOND, Ecn::Ect0, if n < 15 { 1 } else { 2 });
    }
    assert_eq!(bench.drops.len(), 0);
    for _ in 0..3 {
        bench.put_flow(SECOND, Ecn::Ect0, 2);
    }
    let dropped: Vec<_> = bench.drops.iter().map(|d| (d.pkt.id, d.why)).collect();
    let overflow = |id| (id, DropReason::Overflow);
    assert_eq!(dropped, [overflow(0), overflow(1), overflow(2)]);
    assert_eq!(bench.gauge("p_drop"), 1.0 / 256.0);
}

/// Without `memlimit`: 10240 full frames' bytes of memory, of which each takes 2304; with a rate, four intervals
/// of it, but 4 MiB at least.
#[test]
fn the_buffer_follows_the_rate() {
    for (tc, memory) in [
        ("cake", 10_240 * 1514),
        ("cake bandwidth 10mbit", 4 << 20),
        ("cake bandwidth 100mbit", 5_000_000),
        ("cake bandwidth 100mbit rtt 200ms", 10_000_000),
        ("cake bandwidth 10gbit", 10_240 * 1514),
        ("cake bandwidth 100mbit memlimit 1mb", 1 << 20),
        ("cake memlimit 100mb", 100 << 20),
    ] {
        let mut bench = Bench::new(tc);
        for _ in 0..memory / 2304 + 10 {
            bench.put_flow(SECOND, Ecn::Ect0, 1);
        }
        assert_eq!(bench.packets(), memory / 2304, "{tc}");
        assert_eq!(bench.drops.len(), 10);
    }
}

/// Tins without a rate: bytes by weight, 1024 : 64 : 256. With one: Voice comes first up to a quarter
/// of the rate, Bulk only when nothing else is late.
#[test]
fn tins_share_by_weight_or_by_rate() {
    let shares = |tc: &str| {
        let mut bench = Bench::new(tc);
        for _ in 0..6000 {
            for (flow, dscp) in [(1, 0), (2, 8), (3, 46)] {
                bench.put_packet(0, Packet { dscp, ..frame(flow, Ecn::Ect0) });
            }
        }
        let mut sent = [0.0; 3];
        let mut now = 0;
        while sent.iter().sum::<f64>() < 5000.0 {
            match bench.take(now) {
                Some(out) => sent[out.band] += 1.0,
                None => now = bench.queue.next_timer().0,
            }
        }
        sent.map(|n| n / 5000.0)
    };
    let close = |shares: [f64; 3], expected: [f64; 3]| {
        assert!(shares.iter().zip(expected).all(|(s, e)| (s - e).abs() < 0.005), "{shares:?}");
    };
    close(shares("cake memlimit 100mb"), [64.0 / 1344.0, 1024.0 / 1344.0, 256.0 / 1344.0]);
    close(shares("cake bandwidth 100mbit memlimit 100mb"), [1.0 / 16.0, 11.0 / 16.0, 0.25]);
}

/// The clocks of the estimate begin with the boot, long ago: a first packet is a window without bytes per second, and the
/// rate may be set at once. 20 Mbit/s lose 1/256, of which 15/16 are let through; the mean gap is a quarter of a second.
#[test]
fn autorate_begins_long_ago() {
    let mut bench = Bench::new("cake bandwidth 20mbit autorate-ingress besteffort");
    bench.put_flow(3 * SECOND, Ecn::Ect0, 1);
    let estimate = 20.0 * 255.0 / 256.0;
    assert!((bench.gauge("capacity_estimate_mbps") - estimate).abs() < 1e-4);
    bench.put_flow(3 * SECOND + 100_000_000, Ecn::Ect0, 1);
    assert!(
        (bench.gauge("capacity_estimate_mbps") - estimate).abs() < 1e-4,
        "a short gap ends no window"
    );
}

/// Packets in pairs every 600 us: between pauses 40.4 Mbit/s. The estimate follows it, and
/// 15/16 of it is let through.
#[test]
fn autorate_follows_the_arrivals() {
    let mut bench = Bench::new("cake bandwidth 100mbit autorate-ingress besteffort");
    let mut sent = 0;
    for n in 0..20_000_u64 {
        let now = SECOND + n * 600_000;
        bench.put_flow(now, Ecn::Ect0, 1);
        bench.put_flow(now + 1000, Ecn::Ect0, 1);
        while bench.take(now + 2000).is_some() {
            sent += u64::from(n >= 10_000);
        }
        bench.timer(now + 2000);
    }
    let arriving = 2.0 * 1514.0 * 8.0 / 600.0;
    let estimate = bench.gauge("capacity_estimate_mbps");
    assert!((estimate / arriving - 1.0).abs() < 0.01, "{estimate} of {arriving} Mbit/s");
    let sent = sent as f64 * 1514.0 * 8.0 / 6e6; // in 6 s, as Mbit/s
    assert!((sent / (estimate * 15.0 / 16.0) - 1.0).abs() < 0.01, "{sent} Mbit/s");
}

/// Behind a link that sends at exactly regular distances, of any length in nanoseconds, arrivals count as well
/// as with a nanosecond of jitter.
#[test]
fn autorate_follows_regular_arrivals() {
    for (gap, jitter) in (605_600..605_604).flat_map(|gap| [(gap, 0), (gap, 1)]) {
        let mut bench = Bench::new("cake bandwidth 100mbit autorate-ingress besteffort");
        let mut now = SECOND;
        // From slower arrivals the mean comes down to these, from none at all up.
        for n in 0..20_000_u64 {
            now += if n < 5_000 { 2 * gap } else { gap };
            bench.put_flow(now + jitter * (n % 7 % 2), Ecn::Ect0, 1);
            bench.drained(now + 2);
        }
        let arriving = 1514.0 * 8e3 / gap as f64;
        let estimate = bench.gauge("capacity_estimate_mbps");
        assert!(
            (estimate / arriving - 1.0).abs() < 0.01,
            "{gap} ns +- {jitter}: {estimate} of {arriving}"
        );
    }
}

// SCE

/// Target 5 ms. In 2^-32, with ONE = 2^32 - 1 and every division rounded down: `sce-thresh 4` has its
/// knee at ONE/4 = 1073741823, a slope of 1073741823/2.5e6 = 429 below and 3221225472/5e6 = 644 above;
/// `sce` of 4294967295/2.5e6 = 1717 and 0; `sce-single` of 0 and 4294967295/5e6 = 858.
#[test]
fn the_ramp_has_a_knee_at_the_target() {
    let us = 1000;
    let target = Span::from_millis(5);
    for (sce, vectors) in [
        (
            Sce::Thresh(4),
            [
                (2500 * us, false, 0),
                (2500 * us + 1, false, 429),
                (3750 * us, false, 536_250_000),
                (5000 * us, false, 1_072_500_000),
                // Below four frames of a slow link the lower slope goes on.
                (7500 * us, false, 2_145_000_000),
                (5000 * us + 1, true, 1_073_741_823 + 644),
                (7500 * us, true, 1_073_741_823 + 1_610_000_000),
                (10_000 * us, true, 1_073_741_823 + 3_220_000_000),
            ],
        ),
        (
            Sce::Thresh(1),
            [
                (2499 * us, false, 0),
                (2500 * us, false, 0),
                (3000 * us, false, 858_500_000),
                (3750 * us, false, 2_146_250_000),
                (5000 * us, false, 4_292_500_000),
                (7500 * us, false, 8_585_000_000),
                (5000 * us + 1, true, 4_294_967_295),
                (99_000 * us, true, 4_294_967_295),
            ],
        ),
        (
            Sce::Single,
            [
                (2500 * us, false, 0),
                (5000 * us, false, 0),
                (9000 * us, false, 0),
                (5000 * us + 1, true, 858),
                (6000 * us, true, 858_000_000),
                (7500 * us, true, 2_145_000_000),
                (10_000 * us, true, 4_290_000_000),
                (15_000 * us, true, 8_580_000_000),
            ],
        ),
    ] {
        let ramp = sce.ramp(target).expect("it marks");
        for (sojourn, over, p) in vectors {
            assert_eq!(ramp.probability(Span(sojourn), over), p, "{sce:?}, {sojourn} ns");
        }
    }
    assert_eq!(Sce::Off.ramp(target), None);
}

/// A packet of flow 1 arrives every half millisecond, and waits `halves` of these. What leaves.
fn held(tc: &str, ecn: Ecn, halves: u64, packets: u64) -> (Vec<Out>, Bench) {
    let mut bench = Bench::new(tc);
    let mut left = Vec::new();
    for n in 0..packets + halves {
        let now = SECOND + n * 500_000;
        if n >= halves {
            left.push(bench.take(now).expect("packets wait"));
        }
        bench.put_flow(now, ecn, 1);
    }
    (left, bench)
}

fn part(left: &[Out], which: impl Fn(&Out) -> bool) -> f64 {
    left.iter().filter(|&out| which(out)).count() as f64 / left.len() as f64
}

/// Of 20000 packets within four standard deviations; nothing at or below half the target, where
/// the probability is nil, and everything where it is one.
#[test]
fn sce_marks_come_at_the_probability_of_the_ramp() {
    for (words, halves, expected) in [
        ("sce", 5, 0.0),
        ("sce", 6, 0.2),
        ("sce", 8, 0.6),
        ("sce", 10, 1.0),
        ("sce-thresh 4", 5, 0.0),
        ("sce-thresh 4", 8, 0.15),
        ("sce-thresh 4", 10, 0.25),
        // Lower slopes of 16777215/2.5e6, rounded down to 6, and of 4194303/9084000, to nothing.
        ("sce-thresh 256", 10, 6.0 * 2.5e6 / 4_294_967_296.0),
        ("sce-thresh 1024 bandwidth 1mbit", 36, 0.0),
        ("sce-single", 10, 0.0),
        // With 50 Mbit/s the target is still 5 ms, with 5 Mbit/s still, but it has to exceed four
        // frames as well, 9.7 ms: the lower slope goes on.
        ("sce-thresh 4 bandwidth 50mbit", 8, 0.15),
        ("sce-thresh 4 bandwidth 5mbit", 16, 0.55),
        // 1.5 frames of 1 Mbit/s, 18.168 ms, are the target; the ramp begins at 9.084 ms.
        ("sce bandwidth 1mbit", 18, 0.0),
        ("sce bandwidth 1mbit", 30, 5.916 / 9.084),
        ("no-sce", 10, 0.0),
    ] {
        // The shaper would set the delays itself: its tin alone is asked.
        let config = registry::parse(&format!("cake besteffort {words}"));
        let Ok(registry::QdiscConfig::Cake(config)) = config else { panic!("{words}") };
        let line = &config.line;
        let share = Diffserv::Besteffort.shares(line.rate)[0];
        let tin: Tin<Packet> =
            Tin::new(share, FlowMode::TRIPLE_ISOLATE, line.target(), line.rtt, config.sce);
        let mut law = Law::new(tin.params);
        let n = 20_000;
        let mut marked = 0;
        for k in 0..n {
            let now = SECOND + k * 500_000;
            let mut drops = Vec::new();
            let mut cx = QueueCx::new(Time(now), &mut law.rng, &mut drops);
            let at = Time(now - halves * 500_000);
            let mut pkt = Packet { at, ..Packet::new(Ecn::Ect0) };
            assert!(!law.cobalt.drops(&tin.params, 0, &mut pkt, &mut cx));
            if let Some(ramp) = &tin.sce_ramp {
                ramp.mark(law.cobalt.is_above_target(), &mut pkt, &mut cx);
            }
            assert_eq!(pkt.ecn == Ecn::Ect1, cx.marks().sce);
            marked += u64::from(cx.marks().sce);
        }
        let p = marked as f64 / n as f64;
        let deviation = (expected * (1.0 - expected) / n as f64).sqrt();
        let tolerance = 4.0 * deviation + 0.001 * expected;
        assert!((p - expected).abs() <= tolerance, "{words}, {halves} halves: {p}");
    }
}

/// CE comes as in plain CAKE, packet by packet: SCE has no part in COBALT, and a packet with CE gets
/// no SCE mark. Above twice the target all others have one.
#[test]
fn sce_leaves_ce_as_it_was() {
    let (plain, _) = held("cake besteffort", Ecn::Ect0, 24, 2000);
    for words in ["sce", "sce-thresh 7", "sce-single"] {
        let (left, bench) = held(&format!("cake besteffort {words}"), Ecn::Ect0, 24, 2000);
        for (out, other) in left.iter().zip(&plain) {
            assert_eq!(out.marks.ce(), other.marks.ce());
            assert_eq!(out.marks.sce, !out.marks.ce());
            assert_eq!(out.pkt.ecn, if out.marks.ce() { Ecn::Ce } else { Ecn::Ect1 });
        }
        assert!(part(&left, |out| out.marks.ce()) > 0.01);
        assert!(bench.drops.is_empty());
    }
}

#[test]
fn sce_marks_only_ect0() {
    for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ce] {
        let (left, _) = held("cake besteffort sce", ecn, 9, 500);
        assert!(left.iter().all(|out| !out.marks.sce && out.pkt.ecn == ecn), "{ecn:?}");
    }
    let (left, _) = held("cake besteffort sce", Ecn::Ect0, 9, 500);
    assert!(part(&left, |out| out.marks.sce) > 0.7);
}

/// What has its rate changed has its ramp changed.
#[test]
fn the_ramp_follows_the_rate() {
    let share = |rate| Diffserv::Besteffort.shares(rate)[0];
    let (target, interval) = (Span::from_millis(5), Span::from_millis(100));
    let mut tin: Tin<Packet> =
        Tin::new(share(0), FlowMode::TRIPLE_ISOLATE, target, interval, Sce::Thresh(1));
    let p = |tin: &Tin<Packet>| tin.sce_ramp.map(|r| r.probability(Span::from_millis(4), false));
    assert_eq!(p(&tin), Some(1717 * 1_500_000));
    tin.set_share(share(125_000), target, interval);
    assert_eq!(p(&tin), Some(0), "the target is 18 ms now");
}

// tc

#[test]
fn defaults_and_words_of_tc() {
    let canonical = |tc: &str| match registry::parse(tc) {
        Ok(config) => config.canonical(),
        Err(e) => panic!("{e}"),
    };
    assert_eq!(
        canonical("cake"),
        "cake unlimited diffserv3 triple-isolate nowash split-gso no-ack-filter rtt 100ms raw \
         overhead 0 mpu 0 noatm memlimit 0 egress"
    );
    for (words, expected) in [
        ("bandwidth 50Mbit", "bandwidth 50000000bit"),
        ("bandwidth 50mbit unlimited", "unlimited diffserv3"),
        ("bandwidth 50mbit autorate-ingress", "bandwidth 50000000bit autorate-ingress"),
        ("autorate-ingress bandwidth 1mbps", "bandwidth 8000000bit diffserv3"),
        ("diffserv", "diffserv4"),
        ("besteffort flowblind", "besteffort flowblind"),
        ("datacentre", "rtt 100us"),
        ("interplanetary", "rtt 1000s"),
        ("lan rtt 30ms", "rtt 30ms"),
        ("ethernet", " 100ms overhead 38 mpu 84 noatm"),
        ("docsis ether-vlan", "overhead 22 mpu 64 noatm"),
        ("pppoa-vcmux overhead 20", "overhead 20 mpu 0 atm"),
        ("overhead 20 pppoe-ptm noatm", "overhead 50 mpu 0 noatm"),
        ("overhead 20 raw", "raw overhead 0"),
        ("raw overhead 20 atm", "raw overhead 20 mpu 0 atm"),
        ("via-ethernet", "raw overhead 0"),
        ("nat", "triple-isolate nat nowash"),
        ("nat nonat", "triple-isolate nowash"),
        ("memlimit 8mb ingress nat wash no-split-gso", "memlimit 8388608 ingress"),
        ("sce", "memlimit 0 egress sce"),
        ("sce-thresh 1", "egress sce"),
        ("sce sce-thresh 0x10 memlimit 1mb", "memlimit 1048576 egress sce-thresh 16"),
        ("sce-thresh 1024", "egress sce-thresh 1024"),
        ("sce sce-single", "egress sce-single"),
        ("ack-filter", "split-gso ack-filter rtt"),
        ("ack-filter ack-filter-aggressive", "split-gso ack-filter-aggressive rtt"),
        ("ack-filter no-ack-filter", "split-gso no-ack-filter rtt"),
        ("sce no-sce", "memlimit 0 egress"),
    ] {
        let text = canonical(&format!("cake {words}"));
        assert!(text.contains(expected), "{words}: {text}");
        assert_eq!(canonical(&text), text, "reads back");
    }
    for mode in FlowMode::ALL.map(|(name, ..)| name).iter().chain(&["precedence", "diffserv8"]) {
        assert!(canonical(&format!("cake {mode}")).contains(mode));
    }
}

#[test]
fn every_listed_keyword_is_taken() {
    let listing = registry::listing();
    let cake = listing.iter().find(|q| q.info.name == "cake").expect("it is registered");
    for p in &cake.info.parameters {
        let value = match p.value {
            "" => "",
            "RATE" => "1mbit",
            "TIME" => "10ms",
            _ => "40",
        };
        let tc = format!("cake {} {value}", p.keyword);
        assert!(registry::parse(&tc).is_ok(), "{tc}: {:?}", registry::parse(&tc));
    }
}

#[test]
fn refusals_say_why() {
    for (words, part) in [
        ("bandwidth", "has no value"),
        ("rtt 0ms", "a time above zero"),
        ("overhead 257", "-64 to 256"),
        ("overhead -65", "-64 to 256"),
        ("mpu 257", "0 to 256"),
        ("sce-thresh", "has no value"),
        ("sce-thresh 0", "1 to 1024"),
        ("sce-thresh 1025", "1 to 1024"),
        ("lan metro", "\"metro\" is refused; lan stands there already"),
        ("triple-isolated", "did you mean \"triple-isolate\"?"),
    ] {
        let error = registry::parse(&format!("cake {words}")).expect_err(words).to_string();
        assert!(error.contains(part), "{words}: {error}");
    }
}
