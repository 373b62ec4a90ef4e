//! Random parameters for each queue of the registry, and what it promises with them.

use l4slab_core::aqm::registry;
use proptest::prelude::*;

use super::harness::FRAME;

/// A queue with what it promises.
#[derive(Clone, Debug)]
pub struct Case {
    pub tc: String,
    /// What its limits allow.
    pub packets: u64,
    pub bytes: u64,
    /// Packets may overtake each other.
    pub reorders: bool,
    pub fair: Fair,
}

/// Who is served in time, while others send.
#[derive(Copy, Clone, Debug)]
pub enum Fair {
    /// No promise beyond the order of packets.
    No,
    /// While a flow waits, the flows of its DSCP send at most so many bytes each. One flow may be an
    /// exception: it may share its queue with one that sends a lot.
    Flows(u64),
    /// The same without exception, besides whatever waited when the flow came.
    FlowsBehindQueue(u64),
    /// While L waits C sends at most so many bytes, and the other way round.
    Bands([u64; 2]),
}

pub fn case(tc: String, packets: u64, bytes: u64) -> Case {
    Case { tc, packets, bytes, reorders: false, fair: Fair::No }
}

/// Deficit round robin: a flow in debt by a frame waits for so many rounds, and in a round every other
/// flow may have a turn as a new flow and one as an old one.
fn round_robin(quantum: u64) -> Fair {
    let frame = u64::from(FRAME);
    Fair::Flows((1 + frame.div_ceil(quantum)) * 2 * (quantum + frame))
}

/// With many more queues than flows, a flow has a queue of its own, but for rare exceptions.
fn hashed(queues: u32, quantum: u32) -> Fair {
    if queues < 1000 { Fair::No } else { round_robin(u64::from(quantum.max(256))) }
}

/// L and C in turn by weight: one waits while the other sends what a frame is worth, and a frame.
fn weighted([l, c]: [u64; 2]) -> Fair {
    let frame = u64::from(FRAME);
    let bound = |own: u64, other: u64| match own {
        0 => u64::MAX,
        own => (frame * other).div_ceil(own) + 2 * frame,
    };
    Fair::Bands([bound(l, c), bound(c, l)])
}

/// The line of a queue. One without a line is tested with its defaults.
pub fn of(name: &str) -> Option<BoxedStrategy<Case>> {
    let limit = |n: std::ops::Range<u64>, packets: bool| {
        let name = name.to_owned();
        n.prop_map(move |n| match packets {
            true => case(format!("{name} limit {n}"), n, u64::MAX),
            false => case(format!("{name} limit {n}"), u64::MAX, n),
        })
    };
    Some(match name {
        "pfifo" | "pfifo_head_drop" => limit(0..50, true).boxed(),
        "bfifo" => limit(0..50_000, false).boxed(),
        "red" => red().boxed(),
        "choke" => choke().boxed(),
        "sfb" => sfb().boxed(),
        "hhf" => hhf().boxed(),
        "codel" => codel().boxed(),
        "fq_codel" => fq_codel().boxed(),
        "fq" => fq().boxed(),
        "dualpi2" => dualpi2().boxed(),
        "docsis_ll" => docsis().boxed(),
        "cake" => cake().boxed(),
        "cnq_cobalt" | "cnq_codel_af" | "lfq_cobalt" | "twin_codel_af" => sce(name).boxed(),
        "deltic" => deltic().boxed(),
        "dualpi2_rfc9332" | "curvy_red" => coupled_queues(name).boxed(),
        "pi2" | "pie" | "fq_pie" => pie_family(name).boxed(),
        "netem" => netem().boxed(),
        "tbf" => tbf().boxed(),
        "pfifo_fast" => Just(case(name.to_owned(), 3000, u64::MAX)).boxed(),
        "sfq" => sfq().boxed(),
        _ => return None,
    })
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
            Case { reorders: true, ..case(tc, limit + 1, u64::MAX) }
        })
}

/// sfq with all of its words.
fn sfq() -> impl Strategy<Value = Case> {
    let red =
        proptest::option::of((100_u32..20_000, 1..20_000_u32, 1..30_u32, any::<(bool, bool)>()));
    let sizes = (2..200_u64, 2..127_u64, 2..200_u64, 1..12_u32);
    (sizes, 256..5000_u64, 0..3_u32, any::<bool>(), red).prop_map(
        |((limit, depth, flows, divisor), quantum, perturb, headdrop, red)| {
            let word = |on: bool, word: &str| if on { format!(" {word}") } else { String::new() };
            let red = red.map_or(String::new(), |(min, more, burst, (ecn, hard))| {
                let (max, avpkt) = (min + more, min.min(1500));
                let burst = burst + min / avpkt;
                format!(
                    " redflowlimit {max} min {min} max {max} avpkt {avpkt} burst {burst} probability 0.5{}{}",
                    word(ecn, "ecn"), word(hard, "harddrop")
                )
            });
            let divisor = 1 << divisor;
            let tc = format!(
                "sfq limit {limit} depth {depth} flows {flows} divisor {divisor} quantum {quantum} perturb {perturb}{}{red}",
                word(headdrop, "headdrop")
            );
            let packets = limit.min(depth * flows.min(divisor));
            Case { reorders: perturb > 0, ..case(tc, packets, u64::MAX) }
        },
    )
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

fn dualpi2() -> impl Strategy<Value = Case> {
    (
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
            // By ECT(1) and CE it is known who is where.
            let fair = match flags.0 {
                true => Fair::No,
                false => weighted([u64::from(100 - wc), u64::from(wc)]),
            };
            Case { fair, ..case(tc, u64::from(limit).min(u64::from(memlimit) / 896), u64::from(memlimit)) }
        })
}

fn cake() -> impl Strategy<Value = Case> {
    (
        (
            word(&["unlimited", "bandwidth 2mbit", "bandwidth 50mbit"]),
            word(&["egress", "ingress", "autorate-ingress"]),
            word(&["no-sce", "sce", "sce-thresh 16", "sce-single"]),
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
            3000..2_000_000_u32,
            100..30_000_u32,
        ),
    )
        .prop_map(|((rate, direction, sce), tins, flows, (framing, memlimit, rtt))| {
            let tc = format!(
                "cake {rate} {direction} {tins} {flows} {framing} memlimit {memlimit} rtt {rtt}us {sce}"
            );
            // Elsewhere flows share a queue, or a quantum.
            let fair = match flows {
                "flows" => round_robin(300),
                _ => Fair::No,
            };
            Case { fair, ..case(tc, u64::from(memlimit) / 896, u64::from(memlimit)) }
        })
}

fn law() -> impl Strategy<Value = String> {
    ((1..20_000_u32, 100..100_000_u32), (any::<bool>(), proptest::option::of(0..5000_u32)))
        .prop_map(|((target, interval), (ecn, ce_threshold))| {
            let ecn = if ecn { "ecn" } else { "noecn" };
            let step = ce_threshold.map(|us| format!("ce_threshold {us}us")).unwrap_or_default();
            format!("target {target}us interval {interval}us {ecn} {step}")
        })
}

fn codel() -> impl Strategy<Value = Case> {
    (1..200_u32, law()).prop_map(|(limit, law)| {
        case(format!("codel limit {limit} {law}"), u64::from(limit), u64::MAX)
    })
}

fn fq_codel() -> impl Strategy<Value = Case> {
    (
        (1..2000_u32, prop_oneof![1..9_u32, Just(1024)], 1..5000_u32),
        (0..4_000_000_u32, 1..80_u32, 1..255_u32),
        law(),
    )
        .prop_map(|((limit, flows, quantum), (memory, batch, mask), law)| {
            let tc = format!(
                "fq_codel limit {limit} flows {flows} quantum {quantum} memory_limit {memory} \
                 drop_batch {batch} ce_threshold_selector 1/{mask} {law}"
            );
            let fair = hashed(flows, quantum);
            Case { fair, ..case(tc, u64::from(limit), u64::MAX) }
        })
}

fn red() -> impl Strategy<Value = Case> {
    (
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
        .prop_filter("tc or the kernel refuse it", |case| registry::parse(&case.tc).is_ok())
}

fn choke() -> impl Strategy<Value = Case> {
    let sizes = (3..200_u32, 1..50_u32, 1..100_u32, 0..20_u32);
    (sizes, 1..=1000_u32, any::<bool>())
        .prop_map(|((limit, min, delta, extra), p, ecn)| {
            let (max, p) = (min + delta, f64::from(p) / 1000.0);
            let (burst, ecn) = (min + extra, if ecn { "ecn" } else { "" });
            let tc = format!(
                "choke limit {limit} min {min} max {max} burst {burst} bandwidth 10mbit probability {p} {ecn}"
            );
            case(tc, limit.into(), u64::MAX)
        })
        .prop_filter("tc refuses it", |case| registry::parse(&case.tc).is_ok())
}

fn sfb() -> impl Strategy<Value = Case> {
    let sizes = (1..200_u64, 0..100_u32, 0..50_u32, 0..200_u32, 0..200_u32);
    (sizes, 0..=1000_u32, 0..=1000_u32, 0..1000_u32, 0..50_u32).prop_map(
        |((limit, max, target, rehash, db), up, down, rate, burst)| {
            let (up, down) = (f64::from(up) / 1000.0, f64::from(down) / 1000.0);
            let tc = format!(
                "sfb limit {limit} max {max} target {target} rehash {rehash} db {db} increment {up} \
                 decrement {down} penalty_rate {rate} penalty_burst {burst}"
            );
            case(tc, limit, u64::MAX)
        },
    )
}

fn hhf() -> impl Strategy<Value = Case> {
    let times = (1..100_u32, 1..2000_u32);
    (1..200_u64, 256..5000_u32, 1..20_u32, 1..100_000_u32, 1..10_u32, times).prop_map(
        |(limit, quantum, heavy, admit, weight, (reset, evict))| {
            let tc = format!(
                "hhf limit {limit} quantum {quantum} hh_limit {heavy} admit_bytes {admit} non_hh_weight {weight} \
                 reset_timeout {reset}ms evict_timeout {evict}ms"
            );
            // A flow that becomes heavy, or light, overtakes itself.
            Case { reorders: true, ..case(tc, limit, u64::MAX) }
        },
    )
}

fn fq() -> impl Strategy<Value = Case> {
    (
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
        )
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
                // Without protection and other packets of the codepoint, who is where is known by ECN.
                let fair = match qprotect == "noqprotect" && nqb % 8 != 0 {
                    true => weighted([u64::from(weight), 256 - u64::from(weight)]),
                    false => Fair::No,
                };
                Case { fair, ..case(tc, u64::MAX, classic + ll) }
            },
        )
}

/// The qdiscs with COBALT and SCE marks, with and without their shaper.
fn sce(name: &str) -> impl Strategy<Value = Case> + use<> {
    let name = name.to_owned();
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
    let law = (1..20_000_u32, 1..=1024_u32);
    (shaping, framing, law, 0..4_000_000_u32).prop_map(
        move |(shaping, framing, (rtt, thresh), memlimit)| {
            let tc = format!("{name} {shaping} {framing} rtt {rtt}us sce-thresh {thresh}");
            let frame = u64::from(FRAME);
            match name.as_str() {
                "lfq_cobalt" => {
                    let bytes = if memlimit == 0 { u64::MAX } else { u64::from(memlimit) / 2 };
                    let tc = format!("{tc} memlimit {memlimit}");
                    Case { fair: round_robin(frame), ..case(tc, u64::MAX, bytes) }
                }
                // A flow is sparse once while another waits in the bulk queue.
                "cnq_cobalt" | "cnq_codel_af" => {
                    Case { fair: Fair::FlowsBehindQueue(frame), ..case(tc, u64::MAX, u64::MAX) }
                }
                _ => case(tc, u64::MAX, u64::MAX),
            }
        },
    )
}

fn deltic() -> impl Strategy<Value = Case> {
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
fn pie_family(name: &str) -> impl Strategy<Value = Case> + use<> {
    let name = name.to_owned();
    let law = (
        (1..1000_u32, 1..20_000_u32, 100..40_000_u32, 1..=32_u32, 1..=32_u32),
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
    (law, (1..5000_u32, 1..4000_u32, 1..100_u32), pi2).prop_map(
        move |((limit, law, common), (flows, quantum, ecn_prob), (numbers, ecn, scalable))| {
            let (alpha, beta, k, l_thresh, t_shift) = numbers;
            let tc = match name.as_str() {
                "pie" => format!("pie {law}"),
                "fq_pie" => {
                    format!("fq_pie {law} flows {flows} quantum {quantum} ecn_prob {ecn_prob}")
                }
                _ => format!(
                    "pi2 {common} alpha {alpha} beta {beta} k {k} {ecn} {scalable} \
                     l_thresh {l_thresh}us t_shift {t_shift}us"
                ),
            };
            let fair = match name.as_str() {
                "fq_pie" => hashed(flows, quantum),
                _ => Fair::No,
            };
            Case { fair, ..case(tc, u64::from(limit), u64::MAX) }
        },
    )
}

/// DualPI2 of RFC 9332 and Curvy RED. Their limit is time at the bench's 100 Mb/s, with room for one
/// packet at least.
fn coupled_queues(name: &str) -> impl Strategy<Value = Case> + use<> {
    let is_curvy = name == "curvy_red";
    let common = (
        (100..30_000_u32, 1..60_000_u32, 1..100_u32),
        word(&["strict", "tshift", "wrr", "drr"]),
    )
        .prop_map(|((limit, tshift, share), scheduler)| {
            let text = format!(
                "limit {limit}us scheduler {scheduler} tshift {tshift}us classic_protection {share}%"
            );
            let shares = [u64::from(100 - share), u64::from(share)];
            let fair = match scheduler {
                "wrr" => weighted(shares),
                // A turn of each is its quantum, of which the smaller is a frame.
                "drr" => {
                    let smaller = shares[0].min(shares[1]);
                    let turn = |share: u64| u64::from(FRAME) * (share / smaller + 3);
                    Fair::Bands([turn(shares[1]), turn(shares[0])])
                }
                _ => Fair::No,
            };
            (text, u64::from(limit) * 100 / 8, fair)
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
        word(&["smoothed l4s_ect", "smoothed any_ect", "instantaneous", "instantaneous any_ect"]),
    )
        .prop_map(|((s_c, s_l, f, u, min_th), (unit, t), words)| {
            format!("s_c {s_c} s_l {s_l} f {f} u {u} min_th {min_th}us t {t}{unit} {words}")
        });
    (common, rfc9332, curvy_red).prop_map(move |((common, bytes, fair), rfc, red)| {
        let own = match is_curvy {
            true => format!("curvy_red {red}"),
            false => format!("dualpi2_rfc9332 {rfc}"),
        };
        Case { fair, ..case(format!("{own} {common}"), u64::MAX, bytes.max(u64::from(FRAME))) }
    })
}
