//! What every queue of the registry must hold, and the FIFOs' own rules. A new queue is tested here
//! by its registry line.

mod harness;

use std::collections::BTreeMap;

use harness::{Bench, FRAME, Packet, ms};
use l4slab_core::aqm::registry;
use l4slab_core::aqm::{Backlog, DropReason};
use l4slab_core::ecn::Ecn;
use l4slab_core::time::Time;
use proptest::prelude::*;

#[test]
fn pfifo_counts_packets() {
    let mut bench = Bench::new("pfifo limit 3");
    for _ in 0..5 {
        bench.put(0, Ecn::Ect1);
    }
    assert_eq!(bench.drops.iter().map(|d| d.pkt.id).collect::<Vec<_>>(), [3, 4], "tail drop");
    assert_eq!(bench.queue.backlog(), Backlog { packets: 3, bytes: 3 * u64::from(FRAME) });
    let ids: Vec<_> = std::iter::from_fn(|| bench.take(0)).map(|o| o.pkt.id).collect();
    assert_eq!(ids, [0, 1, 2]);

    let mut bench = Bench::new("pfifo");
    for _ in 0..1500 {
        bench.put(0, Ecn::NotEct);
    }
    assert_eq!((bench.packets(), bench.dropped(DropReason::Overflow)), (1000, 500));

    let mut bench = Bench::new("pfifo limit 0");
    bench.put(0, Ecn::NotEct);
    assert_eq!((bench.packets(), bench.drops.len()), (0, 1));
}

#[test]
fn bfifo_counts_bytes() {
    let mut bench = Bench::new("bfifo limit 3000b");
    bench.put_len(0, Ecn::NotEct, 1514);
    bench.put_len(0, Ecn::NotEct, 1487); // 3001: one too many
    bench.put_len(0, Ecn::NotEct, 1486); // 3000: fits
    assert_eq!(bench.queue.backlog(), Backlog { packets: 2, bytes: 3000 });
    assert_eq!(bench.drops[0].pkt.len, 1487);

    let mut bench = Bench::new("bfifo");
    for _ in 0..1500 {
        bench.put(0, Ecn::NotEct);
    }
    assert_eq!(bench.packets(), 1000);
}

#[test]
fn pfifo_head_drop_keeps_the_newest() {
    let mut bench = Bench::new("pfifo_head_drop limit 2");
    for _ in 0..4 {
        bench.put(0, Ecn::NotEct);
    }
    assert_eq!(bench.drops.iter().map(|d| d.pkt.id).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(bench.take(0).map(|o| o.pkt.id), Some(2));
    let mut bench = Bench::new("pfifo_head_drop limit 0");
    bench.put(0, Ecn::NotEct);
    assert_eq!((bench.packets(), bench.drops.len()), (0, 1));
}

/// What the limits of a queue allow.
#[derive(Clone, Debug)]
struct Case {
    tc: String,
    packets: u64,
    bytes: u64,
}

fn case(tc: String, packets: u64, bytes: u64) -> Case {
    Case { tc, packets, bytes }
}

fn cases() -> impl Strategy<Value = Case> {
    let defaults: Vec<Case> = registry::listing()
        .iter()
        .map(|info| case(format!("{} {}", info.name, info.required), u64::MAX, u64::MAX))
        .collect();
    let dualpi2 = (
        (1..200_u32, 3000..200_000_u32, 1..20_000_u32, 100..30_000_u32),
        ("[0-2]\\.[0-9]{3}", "[0-9]\\.[0-9]{3}", 1..6_u32, 0..=100_u32),
        (prop_oneof![(1..3000_u32).prop_map(|us| format!("{us}us")), (1..9_u32).prop_map(|n| format!("{n}p"))], 0..4_u32),
        (any::<bool>(), any::<bool>(), any::<bool>()),
    )
        .prop_map(|((limit, memlimit, target, tupdate), (alpha, beta, k, wc), (step, min), flags)| {
            let pick = |yes, a: &'static str, b| if yes { a } else { b };
            let tc = format!(
                "dualpi2 limit {limit} memlimit {memlimit} target {target}us tupdate {tupdate}us \
                 alpha 1{alpha} beta 1{beta} coupling_factor {k} classic_protection {wc}% \
                 step_thresh {step} min_qlen_step {min} {} {} {}",
                pick(flags.0, "any_ect", "l4s_ect"),
                pick(flags.1, "overflow", "drop_on_overload"),
                pick(flags.2, "drop_enqueue", "drop_dequeue"),
            );
            case(tc, u64::from(limit), u64::from(memlimit) / 2)
        });
    let law = || {
        ((1..20_000_u32, 100..100_000_u32), (any::<bool>(), proptest::option::of(0..5000_u32)))
            .prop_map(|((target, interval), (ecn, ce_threshold))| {
                let ecn = if ecn { "ecn" } else { "noecn" };
                let step =
                    ce_threshold.map(|us| format!("ce_threshold {us}us")).unwrap_or_default();
                format!("target {target}us interval {interval}us {ecn} {step}")
            })
    };
    let codel = (1..200_u32, law()).prop_map(|(limit, law)| {
        case(format!("codel limit {limit} {law}"), u64::from(limit), u64::MAX)
    });
    let fq_codel =
        ((1..200_u32, 1..9_u32, 1..5000_u32), (0..400_000_u32, 1..80_u32, 1..255_u32), law())
            .prop_map(|((limit, flows, quantum), (memory, batch, mask), law)| {
                let tc = format!(
                    "fq_codel limit {limit} flows {flows} quantum {quantum} memory_limit {memory} \
                 drop_batch {batch} ce_threshold_selector 1/{mask} {law}"
                );
                case(tc, u64::from(limit), u64::MAX)
            });
    let red = (
        (3000..300_000_u32, 100..60_000_u32, 0..60_000_u32, 64..1600_u32, 0..100_u32),
        (1..=1000_u32, prop::collection::vec(any::<bool>(), 4)),
    )
        .prop_map(|((limit, min, delta, avpkt, extra), (p, flags))| {
            let burst = min / avpkt + 1 + extra;
            let words = ["adaptive", "ecn", "ecn harddrop", "ecn nodrop"];
            let flags: Vec<_> =
                words.iter().zip(flags).filter(|(_, set)| *set).map(|(word, _)| *word).collect();
            let tc = format!(
                "red limit {limit} min {min} max {} avpkt {avpkt} burst {burst} \
                 probability {} {}",
                min + delta,
                f64::from(p) / 1000.0,
                flags.join(" ")
            );
            case(tc, u64::MAX, u64::from(limit))
        })
        // Some of them average over more packets than the kernel's 32 bits allow for.
        .prop_filter("tc or the kernel refuse it", |case| registry::parse(&case.tc).is_ok());
    let fq = (
        (0..100_u32, 0..50_u32, 0..5000_u32, 0..20_000_u32, 0..8_u32),
        (proptest::option::of(8..200_000_u32), 0..2000_u32, any::<bool>(), 0..5000_u32),
    )
        .prop_map(
            |((limit, flow_limit, quantum, initial, mask), (maxrate, low, pacing, step))| {
                let maxrate = maxrate.map(|kbit| format!("maxrate {kbit}kbit")).unwrap_or_default();
                let tc = format!(
                    "fq limit {limit} flow_limit {flow_limit} quantum {quantum} \
                 initial_quantum {initial} orphan_mask {mask} low_rate_threshold {low}kbit \
                 ce_threshold {step}us {} {maxrate}",
                    if pacing { "pacing" } else { "nopacing" },
                );
                case(tc, u64::from(limit) + 8, u64::MAX) // eight on the fast path
            },
        );
    prop_oneof![
        3 => codel,
        5 => fq_codel,
        5 => red,
        5 => fq,
        2 => proptest::sample::select(defaults),
        1 => (0..50_u64).prop_map(|n| case(format!("pfifo limit {n}"), n, u64::MAX)),
        1 => (0..50_000_u64).prop_map(|n| case(format!("bfifo limit {n}"), u64::MAX, n)),
        1 => (0..50_u64).prop_map(|n| case(format!("pfifo_head_drop limit {n}"), n, u64::MAX)),
        5 => dualpi2,
    ]
}

#[derive(Copy, Clone, Debug)]
enum Event {
    Arrival { len: u32, ecn: Ecn, flow: u32 },
    Departure,
}

/// Events with the time since the one before, in nanoseconds.
fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    let arrival =
        (64..=FRAME, ecn, 0..5_u32).prop_map(|(len, ecn, flow)| Event::Arrival { len, ecn, flow });
    let gap = prop_oneof![3 => Just(0), 5 => 0..200_000_u64, 1 => 0..ms(40)];
    // Phases of different load, so that queues both grow and empty.
    let phase = (1..100_u32, prop::collection::vec((0..100_u32, gap, arrival), 1..400)).prop_map(
        |(load, events)| {
            let choose =
                |(dice, gap, arrival)| (gap, if dice < load { arrival } else { Event::Departure });
            events.into_iter().map(choose).collect::<Vec<_>>()
        },
    );
    prop::collection::vec(phase, 1..6).prop_map(|phases| phases.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_queue_keeps_its_promises(case in cases(), events in events(), seed: u64) {
        let mut bench = Bench::seeded(&case.tc, seed);
        let mut arrived = BTreeMap::new(); // id -> codepoint
        let (mut bytes_in, mut delivered, mut bytes_out) = (0_u64, 0_u64, 0_u64);
        let (mut bytes_dropped, mut counted) = (0_u64, 0);
        let mut last_id = BTreeMap::new(); // (band, flow) -> id delivered last
        let mut now = 0;
        // At the end the rest is taken out.
        let rest = std::iter::repeat_n((1000, Event::Departure), 2 * events.len() + 1);
        for (i, (gap, event)) in events.iter().copied().chain(rest).enumerate() {
            let after_the_last = i >= events.len();
            now += gap;
            let held_back = bench.queue.next_timer();
            if after_the_last && held_back < Time::NEVER && case.tc.starts_with("fq ") {
                now = now.max(held_back.0);
            }
            while bench.queue.next_timer() <= Time(now) {
                let due = bench.queue.next_timer();
                bench.timer(due.0);
                prop_assert!(bench.queue.next_timer() > due, "the timer moves on");
            }
            match event {
                Event::Arrival { len, ecn, flow } => {
                    let id = bench.put_packet(now, Packet { len, flow, ..Packet::new(ecn) });
                    arrived.insert(id, ecn);
                    bytes_in += u64::from(len);
                }
                Event::Departure => {
                    let waiting = bench.packets();
                    match bench.take(now) {
                        None if bench.packets() == 0 => {}
                        // A queue that holds packets back says until when.
                        None => {
                            let due = bench.queue.next_timer();
                            prop_assert!(Time(now) < due && due < Time::NEVER, "work conservation");
                        }
                        Some(out) => {
                            prop_assert!(waiting > 0);
                            delivered += 1;
                            bytes_out += u64::from(out.pkt.len);
                            // Queues that tell flows apart keep the order within each.
                            let flow = if case.tc.starts_with("fq") { out.pkt.flow } else { 0 };
                            if let Some(last) = last_id.insert((out.band, flow), out.pkt.id) {
                                prop_assert!(last < out.pkt.id, "order within a band");
                            }
                            let was = arrived[&out.pkt.id];
                            if was == Ecn::NotEct {
                                prop_assert_eq!(out.pkt.ecn, Ecn::NotEct, "no CE on Not-ECT");
                            } else {
                                prop_assert!(out.pkt.ecn == was || out.pkt.ecn == Ecn::Ce);
                            }
                        }
                    }
                }
            }
            let backlog = bench.queue.backlog();
            bytes_dropped += bench.drops[counted..].iter().map(|d| u64::from(d.pkt.len)).sum::<u64>();
            counted = bench.drops.len();
            prop_assert_eq!(
                arrived.len() as u64,
                delivered + bench.drops.len() as u64 + backlog.packets,
                "in = out + dropped + backlog"
            );
            prop_assert_eq!(bytes_in, bytes_out + bytes_dropped + backlog.bytes);
            prop_assert!(backlog.packets <= case.packets && backlog.bytes <= case.bytes, "limits");
        }
        prop_assert_eq!(bench.packets(), 0);
    }
}
