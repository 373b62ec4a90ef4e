//! Other parameters for a queue in force, as `tc qdisc change` gives them.

use l4slab_core::aqm::registry::{self, QdiscConfig};
use l4slab_core::aqm::{DropReason, QueueCx};
use l4slab_core::ecn::Ecn;
use l4slab_core::rng::Rng;
use l4slab_core::time::Time;
use l4slab_core::units::udp_truesize;
use proptest::prelude::*;

use super::harness::{Bench, FRAME, Packet, ms};

fn parsed(text: &str) -> QdiscConfig {
    registry::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// What changes one after the other make of a queue.
fn after(first: &str, changes: &[&str]) -> QdiscConfig {
    changes.iter().fold(parsed(first), |config, words| {
        config.changed(words).unwrap_or_else(|e| panic!("{words}: {e}")).config
    })
}

impl Bench {
    /// The packets that a queue built anew would get.
    fn change(&mut self, at: u64, to: &QdiscConfig) -> Result<(), Vec<Packet>> {
        let mut cx = QueueCx::new(Time(at), &mut self.rng, &mut self.drops);
        self.queue.change(to.parameters(), &mut cx)
    }
}

/// The value of a keyword in the canonical form.
fn number(config: &QdiscConfig, keyword: &str) -> u64 {
    let text = config.canonical();
    let mut words = text.split(' ').skip_while(|word| *word != keyword).skip(1);
    let value = words.next().unwrap_or_else(|| panic!("{text} has no {keyword}"));
    value.trim_end_matches('b').parse().unwrap_or_else(|_| panic!("{keyword} {value}"))
}

/// What the kernel's `change` function lets stay of so many packets and bytes of memory; `None`: all of it.
fn fits(config: &QdiscConfig, packets: u64, memory: u64) -> Option<bool> {
    let limit = || packets <= number(config, "limit");
    match config.name() {
        "codel" | "pie" | "fq" | "fq_pie" | "hhf" => Some(limit()),
        "dualpi2" => Some(limit() && memory <= number(config, "memlimit")),
        "fq_codel" => Some(limit() && memory <= number(config, "memory_limit")),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Of every queue and any two sets of parameters: a change conserves packets, and loses what the kernel's
    /// function drops. Those queues that drop what exceeds a smaller limit do so as long as it is exceeded.
    #[test]
    fn a_change_of_the_same_kind_loses_what_the_kernel_loses(
        which in any::<prop::sample::Index>(), seed in any::<u64>(), packets in 1..80_u32, flows in 1..9_u32,
    ) {
        let listing = registry::listing();
        let name = which.get(&listing).info.name;
        let mut rng = Rng::stream(seed, "words", 0);
        let before = registry::random_string(name, &mut rng);
        let words = registry::random_string(name, &mut rng);
        let Ok(changed) = parsed(&before).changed(&words) else {
            // The whole may be refused, or a keyword that cannot change.
            return Ok(());
        };
        let to = changed.config;
        let mut bench = Bench::seeded(&before, seed);
        let mut memory = 0;
        for i in 0..packets {
            let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1][rng.below(3) as usize];
            let (len, dscp) = (60 + rng.below(u64::from(FRAME) - 60) as u32, rng.below(64) as u8);
            memory += u64::from(udp_truesize(len));
            bench.put_packet(u64::from(i) * 1000, Packet { len, dscp, flow: i % flows, ..Packet::new(ecn) });
        }
        let (waited, lost) = (bench.queue.backlog(), bench.drops.len());
        let now = ms(1);
        let given = match bench.change(now, &to) {
            Ok(()) => 0,
            Err(waiting) => waiting.len() as u64,
        };
        let stays = bench.queue.backlog();
        let dropped: Vec<_> = bench.drops[lost..].iter().map(|d| d.why).collect();
        prop_assert_eq!(waited.packets, stays.packets + given + dropped.len() as u64, "{} {}", before, words);
        let mut overflowed = bench.drops[lost..].iter().filter(|d| d.why == DropReason::Overflow);
        memory -= bench.drops.iter().map(|d| u64::from(udp_truesize(d.pkt.len))).sum::<u64>();
        match fits(&to, stays.packets, memory) {
            Some(fits) => {
                prop_assert!(fits || name == "fq", "{before}, {words}: {stays:?}");
                // The last one that was lost was too many, unless CoDel took others with it.
                let by_law = dropped.contains(&DropReason::Aqm);
                if let Some(last) = overflowed.next_back().filter(|_| !by_law) {
                    let memory = memory + u64::from(udp_truesize(last.pkt.len));
                    prop_assert_eq!(self::fits(&to, stays.packets + 1, memory), Some(false), "{} {}", before, words);
                }
            }
            // red gives up all that waits, cake the tins that are no more, and choke what its ring has no place for.
            None => {
                let keeps = match name {
                    "choke" => false,
                    "cake" => number_of_tins(&parsed(&before)) <= number_of_tins(&to),
                    _ => true,
                };
                prop_assert!(dropped.is_empty() || !keeps, "{before}, {words}: {dropped:?}");
            }
        }
    }
}

fn number_of_tins(config: &QdiscConfig) -> usize {
    let text = config.canonical();
    let tins = [
        ("besteffort", 1),
        ("diffserv3", 3),
        ("diffserv4", 4),
        ("diffserv8", 8),
        ("precedence", 8),
    ];
    tins.iter().find(|(word, _)| text.contains(word)).expect("one of them holds").1
}

/// What the words of a change do not name stays, as their messages have it (iproute2).
#[test]
fn what_is_not_named_stays() {
    let same = [
        ("codel target 20ms", &["codel limit 7"][..], "codel target 20ms limit 7"),
        (
            "fq_codel target 20ms noecn",
            &["fq_codel limit 7", "fq_codel ecn"],
            "fq_codel target 20ms limit 7",
        ),
        (
            "fq_codel limit 9 ce_threshold 1ms",
            &["fq_codel interval 50ms"],
            "fq_codel limit 9 interval 50ms ce_threshold 1ms",
        ),
        ("pie target 5ms ecn", &["pie limit 50", "pie noecn"], "pie target 5ms limit 50 noecn"),
        (
            "fq limit 50 maxrate 5mbit",
            &["fq flow_limit 3"],
            "fq limit 50 flow_limit 3 maxrate 5mbit",
        ),
        (
            "dualpi2 target 5ms limit 100",
            &["dualpi2 coupling_factor 3"],
            "dualpi2 target 5ms limit 100 coupling_factor 3",
        ),
        // A limit brings its memory, and a change of something else does not.
        (
            "dualpi2 limit 100 memlimit 50000",
            &["dualpi2 target 5ms"],
            "dualpi2 limit 100 memlimit 50000 target 5ms",
        ),
        ("dualpi2 limit 100 memlimit 50000", &["dualpi2 limit 200"], "dualpi2 limit 200"),
        (
            "cake bandwidth 10mbit rtt 20ms",
            &["cake bandwidth 5mbit"],
            "cake bandwidth 5mbit rtt 20ms",
        ),
        ("cake autorate-ingress", &["cake rtt 20ms"], "cake autorate-ingress rtt 20ms"),
        (
            "cake bandwidth 9mbit autorate-ingress",
            &["cake bandwidth 5mbit"],
            "cake bandwidth 5mbit",
        ),
        ("cake bandwidth 9mbit docsis", &["cake rtt 20ms"], "cake bandwidth 9mbit docsis rtt 20ms"),
        ("cake bandwidth 9mbit docsis", &["cake ethernet"], "cake bandwidth 9mbit ethernet"),
        ("cake bandwidth 9mbit pppoe-ptm", &["cake raw"], "cake bandwidth 9mbit raw"),
        ("pfifo limit 9", &["pfifo"], "pfifo limit 9"),
        // tc tells the kernel all parameters of these.
        (
            "red limit 150000 avpkt 1000 ecn",
            &["red limit 90000 avpkt 1000"],
            "red limit 90000 avpkt 1000",
        ),
        (
            "tbf rate 1mbit burst 5k limit 9k mpu 64",
            &["tbf rate 2mbit burst 5k limit 9k"],
            "tbf rate 2mbit burst 5k limit 9k",
        ),
        // Another kind begins with its defaults.
        ("codel target 20ms", &["pie", "codel limit 7"], "codel limit 7"),
    ];
    for (first, changes, expected) in same {
        assert_eq!(
            after(first, changes).canonical(),
            parsed(expected).canonical(),
            "{first}, {changes:?}"
        );
    }
}

/// Of netem, `tc` always tells limit, delay, jitter, loss, duplicate and gap, and all correlations where it tells one.
#[test]
fn netem_keeps_what_its_message_does_not_name() {
    let same = [
        (
            &["rate 5mbit delay 10ms limit 100", "delay 20ms limit 100"][..],
            "rate 5mbit delay 20ms limit 100",
        ),
        (&["corrupt 10%", "limit 50"], "corrupt 10% limit 50"),
        (&["corrupt 10%", "corrupt 0%"], ""),
        (&["rate 5mbit", "rate 0"], ""),
        (&["slot 20ms packets 3", "limit 50"], "slot 20ms packets 3 limit 50"),
        (&["loss 30% 50%", "loss 20%"], "loss 20% 50%"),
        (&["loss 30% 50%", "loss 20% 0%"], "loss 20%"),
        // Told together: that of duplicate ends that of loss.
        (&["loss 30% 50%", "loss 20% duplicate 1% 9%"], "loss 20% duplicate 1% 9%"),
        (&["loss 30% 50%", "limit 50", "loss 20%"], "loss 20% 50%"),
        (&["loss 30% 50%", "loss gemodel 1%", "loss 20%"], "loss 20% 50%"),
        (
            &["delay 50ms 10ms distribution pareto", "delay 40ms 5ms"],
            "delay 40ms 5ms distribution pareto",
        ),
        (
            &["delay 50ms 10ms distribution pareto", "limit 50", "delay 40ms 5ms"],
            "delay 40ms 5ms distribution pareto",
        ),
        (&["loss 20% ecn", "loss 30%"], "loss 30% ecn"),
        (&["loss 20% ecn", "limit 50", "loss 30%"], "loss 30% ecn"),
        (&["delay 10ms reorder 25% gap 5", "delay 10ms"], "delay 10ms"),
    ];
    for (netems, expected) in same {
        let netems: Vec<_> = netems.iter().map(|words| format!("netem {words}")).collect();
        let changes: Vec<_> = netems[1..].iter().map(|text| &**text).collect();
        let QdiscConfig::Netem(is) = after(&netems[0], &changes) else { panic!("a netem") };
        let QdiscConfig::Netem(be) = parsed(&format!("netem {expected}")) else {
            panic!("a netem")
        };
        let text = |config| QdiscConfig::Netem(config).canonical();
        assert_eq!(text(is), text(be), "{netems:?}");
    }
}

/// What `tc` would be told, and what Linux refuses.
#[test]
fn words_that_cannot_change_are_refused_where_they_differ() {
    let of = |first: &str, words: &str| {
        parsed(first).changed(words).map(|c| c.words).map_err(|e| e.to_string())
    };
    assert_eq!(of("fq_codel", "fq_codel flows 1024 limit 7"), Ok("fq_codel limit 7".to_owned()));
    assert_eq!(
        of("fq_codel flows 16", "fq_codel flows 1024"),
        Err("fq_codel: flows \"1024\" is refused; it is 16 and cannot change while it runs; leave it out".to_owned())
    );
    assert!(of("fq_pie flows 16", "fq_pie flows 17").is_err());
    assert_eq!(
        of("netem loss 1%", "netem dup 1% lat 5ms"),
        Ok("netem duplicate 1% latency 5ms".to_owned())
    );
    let uniform =
        of("netem delay 5ms 1ms distribution normal", "netem delay 5ms 1ms distribution uniform");
    assert!(uniform.expect_err("no words do that").contains("keeps its table"));
    assert_eq!(of("pie", "pfifo limit 7"), Ok("pfifo limit 7".to_owned()));
}

/// A smaller limit: codel and pie lose their oldest packets, dualpi2 those of C first, a FIFO keeps all.
#[test]
fn what_a_smaller_limit_costs() {
    let lost = |first: &str, words: &str| {
        let mut bench = Bench::new(first);
        for i in 0..10 {
            bench.put(i, if i < 4 { Ecn::Ect1 } else { Ecn::NotEct });
        }
        let to = after(first, &[words]);
        bench.change(ms(1), &to).expect("in place");
        bench.drops.iter().map(|d| d.pkt.id).collect::<Vec<_>>()
    };
    assert_eq!(lost("codel", "codel limit 8"), [0, 1]);
    assert_eq!(lost("pie", "pie limit 8"), [0, 1]);
    assert_eq!(lost("dualpi2", "dualpi2 limit 3"), [4, 5, 6, 7, 8, 9, 0]);
    assert_eq!(lost("dualpi2", "dualpi2 memlimit 18432"), [4, 5]);
    assert_eq!(lost("fq_pie", "fq_pie limit 8").len(), 2);
    assert_eq!(lost("fq", "fq limit 8").len(), 2);
    for fifo in ["pfifo", "pfifo_head_drop", "bfifo"] {
        assert!(lost(fifo, &format!("{fifo} limit 3")).is_empty());
    }
    let tbf = lost("tbf rate 1mbit burst 2k limit 90k", "tbf rate 2mbit burst 2k limit 3k");
    assert!(tbf.is_empty());
}

/// dualpi2: what came while `min_qlen_step` was above 0 is judged by it until it has left, and no other packet.
#[test]
fn each_packet_has_the_step_of_its_arrival() {
    let marks = |first: &str, words: &str| {
        let mut bench = Bench::new(first);
        for i in 0..3 {
            bench.put(i, Ecn::Ect1);
        }
        let to = after(first, &[words]);
        bench.change(10, &to).expect("in place");
        for i in 20..23 {
            bench.put(i, Ecn::Ect1);
        }
        (0..6).map(|_| bench.take(ms(9)).expect("six wait").marks.step).collect::<Vec<_>>()
    };
    let all = "dualpi2 step_thresh 1ms";
    let long = "dualpi2 step_thresh 1ms min_qlen_step 5";
    assert_eq!(marks(all, "dualpi2 min_qlen_step 5"), [true, true, true, false, false, true]);
    assert_eq!(marks(long, "dualpi2 min_qlen_step 0"), [false, false, false, true, true, true]);
}

/// A packet has the length on the wire that it had when it came (`adjusted_len`): 1 ms each at 8 Mbit/s, and 1.24 ms for what
/// comes after a change to 250 bytes more (and 14 less). Found by `l4slab agree --queues`.
#[test]
fn cake_charges_what_waits_as_before() {
    let mut bench = Bench::new("cake bandwidth 8mbit");
    let put = |bench: &mut Bench, at| {
        bench.put_packet(at, Packet { len: 1000, flow: 1, ..Packet::new(Ecn::NotEct) })
    };
    for _ in 0..3 {
        put(&mut bench, 0);
    }
    let to = parsed("cake bandwidth 8mbit overhead 250");
    bench.change(1, &to).expect("it stays the same queue");
    for _ in 0..2 {
        put(&mut bench, 2);
    }
    let mut left = Vec::new();
    for at in 0..8 {
        left.extend(bench.take(ms(at)).map(|_| at));
    }
    assert_eq!(left, [0, 1, 2, 3, 5]);
}

/// Tins keep their numbers (`cake_reconfigure`): number 2 is best effort of eight and video of four, 6 is no more.
#[test]
fn cake_keeps_each_packet_in_its_tin() {
    let mut bench = Bench::new("cake bandwidth 8mbit diffserv8");
    for (i, dscp) in [8, 0, 0, 46].into_iter().enumerate() {
        bench.put_packet(i as u64, Packet { dscp, flow: i as u32, ..Packet::new(Ecn::NotEct) });
    }
    let waiting = |bench: &Bench| {
        (0..bench.queue.bands().len()).map(|band| bench.queue.waiting_in(band)).collect::<Vec<_>>()
    };
    assert_eq!(waiting(&bench), [0, 1, 2, 0, 0, 0, 1, 0]);
    bench
        .change(ms(1), &parsed("cake bandwidth 8mbit diffserv4"))
        .expect("it stays the same queue");
    assert_eq!(bench.queue.bands()[..3], ["Bulk", "Best Effort", "Video"]);
    assert_eq!(waiting(&bench), [1, 0, 2, 0]);
    assert_eq!(bench.dropped(DropReason::Replaced), 1);
    bench
        .change(ms(2), &parsed("cake bandwidth 8mbit precedence"))
        .expect("it stays the same queue");
    assert_eq!(waiting(&bench), [0, 1, 2, 0, 0, 0, 0, 0]);
    bench
        .change(ms(3), &parsed("cake bandwidth 8mbit besteffort"))
        .expect("it stays the same queue");
    assert_eq!((bench.queue.waiting_in(0), bench.packets()), (0, 0));
    assert_eq!(bench.dropped(DropReason::Replaced), 4);
}
