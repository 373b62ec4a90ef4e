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
    /// Packets may overtake each other.
    reorders: bool,
}

fn case(tc: String, packets: u64, bytes: u64) -> Case {
    Case { tc, packets, bytes, reorders: false }
}

/// netem with some of its words.
fn netem() -> impl Strategy<Value = Case> {
    let percent = 0..=100_u32;
    let word = |word: &'static str| {
        (any::<bool>(), 0..60_u32, percent.clone()).prop_map(move |(on, p, rho)| {
            if on { format!("{word} {p}% {rho}%") } else { String::new() }
        })
    };
    let loss = prop_oneof![
        2 => Just(String::new()),
        1 => (0..60_u32, percent.clone()).prop_map(|(p, rho)| format!("loss random {p}% {rho}%")),
        1 => prop::array::uniform5(1..60_u32)
            .prop_map(|[a, b, c, d, e]| format!("loss state {a}% {b}% {c}% {d}% {e}% ecn")),
        1 => prop::array::uniform4(1..100_u32)
            .prop_map(|[a, b, c, d]| format!("loss gemodel {a}% {b}% {c}% {d}% ecn")),
    ];
    let distribution = prop_oneof![
        2 => Just(""),
        1 => proptest::sample::select(vec![" distribution normal", " distribution pareto", " distribution paretonormal"]),
    ];
    let delay = prop_oneof![
        1 => Just(String::new()),
        2 => (1..20_000_u32, 1..20_000_u32, percent.clone(), distribution)
            .prop_map(|(mu, sigma, rho, d)| format!("delay {mu}us {sigma}us {rho}%{d}")),
        1 => (1..20_000_u32, 1..100_u32, 1..9_u32)
            .prop_map(|(mu, p, gap)| format!("delay {mu}us reorder {p}% gap {gap}")),
    ];
    let rate = prop_oneof![
        2 => Just(String::new()),
        1 => (100_000..200_000_000_u32, -60..60_i32, 0..100_u32, -20..20_i32)
            .prop_map(|(rate, a, cell, b)| format!("rate {rate}bit {a} {cell} {b}")),
    ];
    let slot = prop_oneof![
        3 => Just(String::new()),
        1 => (0..2000_u32, 0..9000_u32, 0..50_u32, 0..50_000_u32)
            .prop_map(|(min, more, n, b)| format!("slot {min}us {}us packets {n} bytes {b}", min + more)),
        1 => (0..2000_u32, 1..900_u32, 0..50_u32)
            .prop_map(|(mu, sigma, n)| format!("slot distribution normal {mu}us {sigma}us packets {n}")),
    ];
    (
        (1..100_u64, delay, rate, slot),
        (loss, word("corrupt"), word("duplicate")),
        any::<Option<u64>>(),
    )
        .prop_map(|((limit, delay, rate, slot), (loss, corrupt, duplicate), seed)| {
            let seed = seed.map_or(String::new(), |n| format!("seed {n}"));
            let tc = format!(
                "netem limit {limit} {delay} {rate} {slot} {loss} {corrupt} {duplicate} {seed}"
            );
            // A packet that was admitted stays, though its duplicate has taken the last place.
            Case { tc, packets: limit + 1, bytes: u64::MAX, reorders: true }
        })
}

/// tbf with all of its words.
fn tbf() -> impl Strategy<Value = Case> {
    let peak = proptest::option::of((2..10_u64, 500..3000_u32));
    let headers = (0..200_u32, 0..60_u32, proptest::sample::select(vec!["ethernet", "atm"]));
    ((100_000..100_000_000_u64, 500..20_000_u32, 1..60_000_u64), peak, headers).prop_map(
        |((rate, burst, limit), peak, (mpu, overhead, layer))| {
            let peak = peak.map_or(String::new(), |(k, mtu)| {
                format!("peakrate {}bit mtu {mtu}b", rate * k)
            });
            let tc = format!(
                "tbf rate {rate}bit burst {burst}b limit {limit} {peak} mpu {mpu} overhead {overhead} \
                 linklayer {layer}"
            );
            case(tc, u64::MAX, limit)
        },
    )
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
    let word = |words: &'static [&str]| proptest::sample::select(words);
    let cake = (
        (
            word(&["unlimited", "bandwidth 2mbit", "bandwidth 50mbit"]),
            word(&["egress", "ingress", "autorate-ingress"]),
        ),
        word(&["besteffort", "precedence", "diffserv3", "diffserv4", "diffserv8"]),
        word(&[
            "flowblind",
            "srchost",
            "dsthost",
            "hosts",
            "flows",
            "dual-srchost",
            "triple-isolate",
        ]),
        (
            word(&["raw", "overhead -14", "pppoe-llcsnap", "docsis", "bridged-ptm"]),
            3000..200_000_u32,
            100..30_000_u32,
        ),
    )
        .prop_map(|((rate, direction), tins, flows, (framing, memlimit, rtt))| {
            let tc = format!(
                "cake {rate} {direction} {tins} {flows} {framing} memlimit {memlimit} rtt {rtt}us"
            );
            case(tc, u64::from(memlimit) / 894, u64::from(memlimit))
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
        4 => cake,
        1 => (0..50_u64).prop_map(|n| case(format!("pfifo limit {n}"), n, u64::MAX)),
        1 => (0..50_000_u64).prop_map(|n| case(format!("bfifo limit {n}"), u64::MAX, n)),
        1 => (0..50_u64).prop_map(|n| case(format!("pfifo_head_drop limit {n}"), n, u64::MAX)),
        5 => dualpi2,
        4 => docsis(),
        4 => sce_cases(),
        1 => deltic_cases(),
        4 => pie_family(),
        4 => coupled_queues(),
        5 => netem(),
        2 => tbf(),
    ]
}

fn docsis() -> impl Strategy<Value = Case> {
    let pick = |a: &'static str, b: &'static str| prop_oneof![Just(a), Just(b)];
    (
        (1..200_u64, 0..=255_u32, 1..=255_u32, 1..30_000_u32),
        (2001..200_000_u64, 2001..100_000_u64, 1..3000_u32, 0..=25_u32),
        (1..3000_u32, 1..9000_u32, 1..=30_u32, 0..64_u32),
        (pick("queue", "vq"), pick("iaqm", "noiaqm"), pick("qprotect", "noqprotect")),
    )
        .prop_map(
            |(
                (amsr, k, weight, target),
                (classic, ll, maxth, lg_range),
                (ql, score, aging, nqb),
                (estimator, iaqm, qprotect),
            )| {
                let tc = format!(
                    "docsis_ll amsr {amsr}mbit coupling_factor {}.{} weight {weight} \
                     target {target}us classic_buffer {classic} ll_buffer {ll} nqb {nqb} {iaqm} \
                     maxth {maxth}us lg_range {lg_range} ll_estimator {estimator} {qprotect} \
                     critical_ql {ql}us critical_score {score}us lg_aging {aging}",
                    k / 10,
                    k % 10,
                );
                case(tc, u64::MAX, classic + ll)
            },
        )
}

/// Queues that change the order of packets of different flows.
const FLOW_QUEUES: &[&str] = &["cake", "cnq_", "fq", "lfq_cobalt", "twin_codel_af"];

/// The qdiscs with COBALT and SCE marks, with and without their shaper.
fn sce_cases() -> impl Strategy<Value = Case> {
    let shaping = prop_oneof![
        1 => Just("unlimited".to_owned()),
        3 => (1..100_u32).prop_map(|mbit| format!("bandwidth {mbit}mbit")),
    ];
    let framing = prop_oneof![
        Just(String::new()),
        Just("docsis".into()),
        Just("conservative".into()),
        (-64..=256_i32, 0..=256_u32).prop_map(|(o, m)| format!("ptm overhead {o} mpu {m}")),
    ];
    let name = prop_oneof![
        Just("cnq_cobalt"),
        Just("cnq_codel_af"),
        Just("twin_codel_af"),
        Just("lfq_cobalt"),
    ];
    let law = (1..20_000_u32, 1..=1024_u32);
    (name, shaping, framing, law, 0..200_000_u32).prop_map(
        |(name, shaping, framing, (rtt, thresh), memlimit)| {
            let tc = format!("{name} {shaping} {framing} rtt {rtt}us sce-thresh {thresh}");
            match name {
                "lfq_cobalt" if memlimit > 0 => {
                    case(format!("{tc} memlimit {memlimit}"), u64::MAX, u64::from(memlimit) / 2)
                }
                _ => case(tc, u64::MAX, u64::MAX),
            }
        },
    )
}

fn deltic_cases() -> impl Strategy<Value = Case> {
    (1..65_536_u32, 1..65_536_u32, 1..65_536_u32).prop_map(|(sce, ecn, drop)| {
        let tc = format!("deltic sce-resonance {sce} ecn-resonance {ecn} drop-resonance {drop}");
        case(tc, u64::MAX, u64::MAX)
    })
}

/// One of the words.
fn word(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    proptest::sample::select(words)
}

/// PIE, FQ-PIE and PI2.
fn pie_family() -> impl Strategy<Value = Case> {
    let law = (
        (1..60_u32, 1..20_000_u32, 100..40_000_u32, 1..=32_u32, 1..=32_u32),
        (word(&["ecn", "noecn"]), word(&["bytemode", "nobytemode"])),
        word(&["dq_rate_estimator", "no_dq_rate_estimator"]),
    )
        .prop_map(|((limit, target, tupdate, alpha, beta), (ecn, bytemode), estimator)| {
            let common = format!("limit {limit} target {target}us tupdate {tupdate}us {bytemode}");
            (limit, format!("{common} alpha {alpha} beta {beta} {ecn} {estimator}"), common)
        });
    let pi2 = (
        (0..32_000_u32, 0..320_000_u32, 1..=64_u32, 1..5000_u32, 1..50_000_u32),
        word(&["noecn", "ecn", "dualq_ect1", "dualq"]),
        word(&["no_scal", "ect1_scal", "ecn_scal"]),
    );
    (law, (1..5000_u32, 1..4000_u32, 1..100_u32), pi2, 0..3).prop_map(
        |((limit, law, common), (flows, quantum, ecn_prob), (numbers, ecn, scalable), which)| {
            let (alpha, beta, k, l_thresh, t_shift) = numbers;
            let tc = match which {
                0 => format!("pie {law}"),
                1 => format!("fq_pie {law} flows {flows} quantum {quantum} ecn_prob {ecn_prob}"),
                _ => format!(
                    "pi2 {common} alpha {alpha} beta {beta} k {k} {ecn} {scalable} \
                     l_thresh {l_thresh}us t_shift {t_shift}us"
                ),
            };
            case(tc, u64::from(limit), u64::MAX)
        },
    )
}

/// DualPI2 of RFC 9332 and Curvy RED. Their limit is time at the bench's 100 Mb/s, with room for one
/// packet at least.
fn coupled_queues() -> impl Strategy<Value = Case> {
    let common = (
        (100..30_000_u32, 1..60_000_u32, 1..100_u32),
        word(&["strict", "tshift", "wrr", "drr"]),
    )
        .prop_map(|((limit, tshift, share), scheduler)| {
            let text = format!(
                "limit {limit}us scheduler {scheduler} tshift {tshift}us classic_protection {share}%"
            );
            (text, u64::from(limit) * 100 / 8)
        });
    let rfc9332 = (
        (1..6_u32, 1..30_000_u32, 100..40_000_u32, 0..2000_u32, 0..2000_u32, 0..4_u32),
        ("[0-9]\\.[0-9]{3}", "[0-9]{2}\\.[0-9]", "0\\.[1-9]{2}"),
        word(&["recur", "random"]),
    )
        .prop_map(|((k, target, tupdate, min_th, range, th_len), (alpha, beta, p), hits)| {
            format!(
                "coupling_factor {k} target {target}us tupdate {tupdate}us alpha {alpha} \
                 beta {beta} min_th {min_th}us range {range}us th_len {th_len} p_lmax {p} {hits}"
            )
        });
    let curvy_red = (
        (-3..12_i32, -3..12_i32, 0..8_u32, 1..4_u32, 0..3000_u32),
        (word(&["b", "us"]), 0..20_000_u32),
        word(&["smoothed", "instantaneous"]),
    )
        .prop_map(|((s_c, s_l, f, u, min_th), (unit, t), smoothed)| {
            format!("s_c {s_c} s_l {s_l} f {f} u {u} min_th {min_th}us t {t}{unit} {smoothed}")
        });
    (common, rfc9332, curvy_red, any::<bool>()).prop_map(|((common, bytes), rfc, red, which)| {
        let own = if which { format!("dualpi2_rfc9332 {rfc}") } else { format!("curvy_red {red}") };
        case(format!("{own} {common}"), u64::MAX, bytes.max(u64::from(FRAME)))
    })
}

#[derive(Copy, Clone, Debug)]
enum Event {
    Arrival { pkt: Packet },
    Departure,
}

/// Events with the time since the one before, in nanoseconds.
fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    // All packets of a flow have one pair of hosts and one codepoint of DSCP.
    let arrival = (64..=FRAME, ecn, 0..40_u32, 0..8_u8).prop_map(|(len, ecn, n, class)| {
        let flow = n << 3 | u32::from(class);
        let pkt = Packet { len, flow, hosts: (n % 3, n % 7), dscp: class << 3, ..Packet::new(ecn) };
        Event::Arrival { pkt }
    });
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
        let by_flow = FLOW_QUEUES.iter().any(|name| case.tc.starts_with(name));
        let mut last_id = BTreeMap::new(); // band, or flow -> id delivered last
        let mut now = 0;
        // At the end the rest is taken out.
        let rest = std::iter::repeat_n((1000, Event::Departure), events.len() + 1);
        for (gap, event) in events.iter().copied().chain(rest) {
            now += gap;
            while bench.queue.next_timer() <= Time(now) {
                let due = bench.queue.next_timer();
                bench.timer(due.0);
                prop_assert!(bench.queue.next_timer() > due, "the timer moves on");
            }
            match event {
                Event::Arrival { pkt } => {
                    let before = bench.duplicates;
                    let id = bench.put_packet(now, pkt);
                    arrived.insert(id, pkt.ecn);
                    bytes_in += u64::from(pkt.len) * (1 + bench.duplicates - before);
                }
                Event::Departure => {
                    let waiting = bench.packets();
                    let mut taken = bench.take(now);
                    // A queue that holds packets back says when to ask again.
                    while taken.is_none() && bench.packets() > 0 {
                        let due = bench.queue.next_timer();
                        prop_assert!(due > Time(now), "work conservation");
                        prop_assert!(due != Time::NEVER, "a queue lets go of its packets");
                        now = due.0;
                        bench.timer(now);
                        taken = bench.take(now);
                    }
                    match taken {
                        None => prop_assert_eq!(bench.packets(), 0),
                        Some(out) => {
                            prop_assert!(waiting > 0);
                            delivered += 1;
                            bytes_out += u64::from(out.pkt.len);
                            let order = if by_flow { out.pkt.flow as usize } else { out.band };
                            if let Some(last) = last_id.insert(order, out.pkt.id) {
                                let ordered = last < out.pkt.id || case.reorders;
                                prop_assert!(ordered, "order within a band or a flow");
                            }
                            let was = arrived[&out.pkt.id];
                            if was == Ecn::NotEct {
                                prop_assert_eq!(out.pkt.ecn, Ecn::NotEct, "no CE on Not-ECT");
                            } else {
                                let sce = was == Ecn::Ect0 && out.marks.sce;
                                let now = out.pkt.ecn;
                                prop_assert!(now == was || now == Ecn::Ce || (sce && now == Ecn::Ect1));
                            }
                        }
                    }
                }
            }
            let backlog = bench.queue.backlog();
            bytes_dropped += bench.drops[counted..].iter().map(|d| u64::from(d.pkt.len)).sum::<u64>();
            counted = bench.drops.len();
            prop_assert_eq!(
                arrived.len() as u64 + bench.duplicates,
                delivered + bench.drops.len() as u64 + backlog.packets,
                "in + duplicates = out + dropped + backlog"
            );
            prop_assert_eq!(bytes_in, bytes_out + bytes_dropped + backlog.bytes);
            prop_assert!(backlog.packets <= case.packets && backlog.bytes <= case.bytes, "limits");
        }
        prop_assert_eq!(bench.packets(), 0);
    }
}
