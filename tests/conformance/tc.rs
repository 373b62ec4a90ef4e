//! tc strings: what is read, how it prints, and what is refused with which sentence. The verdicts
//! were compared with `tc` of iproute2 7.3.

use l4slab_core::aqm::registry::{self, QdiscConfig};
use l4slab_core::cc::media::registry as media;
use l4slab_core::cc::registry as controllers;
use l4slab_core::params::Refused;
use l4slab_core::rng::Rng;
use proptest::prelude::*;

fn canonical(text: &str) -> String {
    registry::parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).canonical()
}

const DUALPI2: &str = "dualpi2 limit 10000 memlimit 30280000 target 15ms tupdate 16ms alpha 0.16015625 \
    beta 3.19921875 coupling_factor 2 l4s_ect step_thresh 1ms min_qlen_step 0 drop_on_overload \
    drop_dequeue classic_protection 10% split_gso";

const CODEL: &str = "codel limit 1000 target 5ms interval 100ms noecn";
const FQ_CODEL: &str = "fq_codel limit 10240 flows 1024 quantum 1514 target 5ms interval 100ms ecn \
    memory_limit 33554432 drop_batch 64";
const FQ: &str = "fq limit 10000 flow_limit 100 buckets 1024 orphan_mask 1023 quantum 3028 \
    initial_quantum 15140 pacing low_rate_threshold 550kbit refill_delay 40ms";

#[test]
fn strings_and_their_canonical_form() {
    let vary = |from: &str, to: &str| DUALPI2.replace(from, to);
    let vary_fq = |from: &str, to: &str| FQ_CODEL.replace(from, to);
    let table = [
        ("pfifo", "pfifo limit 1000".to_owned()),
        ("  pfifo   limit  7 ", "pfifo limit 7".into()),
        ("pfifo limit 1k", "pfifo limit 1024".into()),
        ("pfifo limit 0x10", "pfifo limit 16".into()),
        ("pfifo limit 1e3", "pfifo limit 1000".into()),
        ("pfifo limit 1.5k", "pfifo limit 1536".into()),
        ("pfifo limit 10kbit", "pfifo limit 1280".into()),
        ("pfifo limit 5 limit 6", "pfifo limit 6".into()),
        ("bfifo", "bfifo limit 1514000".into()),
        ("bfifo limit 64KB", "bfifo limit 65536".into()),
        ("pfifo_head_drop limit 2", "pfifo_head_drop limit 2".into()),
        ("codel", CODEL.into()),
        ("codel limit 0x10 ecn", CODEL.replace("1000", "16").replace("noecn", "ecn")),
        ("codel ce_threshold 0", format!("{CODEL} ce_threshold 0us")),
        ("fq_codel", FQ_CODEL.into()),
        ("fq_codel flows 1 quantum 100", vary_fq("1024 quantum 1514", "1 quantum 256")),
        ("fq_codel memory_limit 3g", vary_fq("33554432", "2147483648")),
        (
            "fq_codel ce_threshold 1ms ce_threshold_selector 0x01/0x01",
            vary_fq("ecn", "ecn ce_threshold 1ms ce_threshold_selector 0x01/0x01"),
        ),
        ("fq_codel ce_threshold_selector 1/3", vary_fq("ecn", "ecn ce_threshold_selector 0x01/0x03")),
        (
            "red limit 150000 avpkt 1000 adaptive bandwidth 50Mbit ecn",
            "red limit 150000 min 12500 max 37500 avpkt 1000 burst 20 bandwidth 50mbit probability \
             0.02 adaptive ecn"
                .into(),
        ),
        (
            "red limit 60k avpkt 1k min 10kb burst 0x20 adaptative",
            "red limit 61440 min 10240 max 30720 avpkt 1024 burst 32 bandwidth 10mbit probability \
             0.02 adaptive"
                .into(),
        ),
        ("fq", FQ.into()),
        ("fq buckets 1000 orphan_mask 0", FQ.replace("orphan_mask 1023", "orphan_mask 0")),
        ("fq quantum 5 ce_threshold 5ms", format!("{} ce_threshold 5ms", FQ.replace("3028", "256"))),
        (
            "fq maxrate 30gbit nopacing refill_delay 0",
            FQ.replace("pacing", "nopacing maxrate 30gbit").replace("40ms", "0us"),
        ),
        ("dualpi2", DUALPI2.into()),
        ("dualpi2 target 15ms", DUALPI2.into()),
        ("dualpi2 target 15000", DUALPI2.into()),
        ("dualpi2 target 0.015s", DUALPI2.into()),
        ("dualpi2 target 15MSECS", DUALPI2.into()),
        ("dualpi2 target 0xfms", DUALPI2.into()),
        ("dualpi2 target 5ms", vary("target 15ms", "target 5ms")),
        ("dualpi2 target 1500us", vary("target 15ms", "target 1500us")),
        ("dualpi2 target 1.5ms", vary("target 15ms", "target 1500us")),
        ("dualpi2 target 2s", vary("target 15ms", "target 2s")),
        ("dualpi2 limit 100", vary("limit 10000 memlimit 30280000", "limit 100 memlimit 302800")),
        ("dualpi2 memlimit 5000 limit 100", vary("10000 memlimit 30280000", "100 memlimit 5000")),
        (
            "dualpi2 limit 4294967295",
            vary("10000 memlimit 30280000", "4294967295 memlimit 4294967295"),
        ),
        // 0.16 * 256 = 40.96: tc rounds down, so this is not the default of 41/256.
        ("dualpi2 alpha 0.16", vary("alpha 0.16015625", "alpha 0.15625")),
        ("dualpi2 beta 3.2", DUALPI2.into()),
        ("dualpi2 alpha 0x1", vary("alpha 0.16015625", "alpha 1")),
        ("dualpi2 coupling_factor 0x10", vary("coupling_factor 2", "coupling_factor 16")),
        ("dualpi2 coupling_factor 010", vary("coupling_factor 2", "coupling_factor 8")),
        ("dualpi2 any_ect", vary("l4s_ect", "any_ect")),
        ("dualpi2 any_ect l4s_ect", DUALPI2.into()),
        ("dualpi2 step_thresh 5p", vary("step_thresh 1ms", "step_thresh 5p")),
        ("dualpi2 step_thresh 5packets", vary("step_thresh 1ms", "step_thresh 5p")),
        ("dualpi2 step_thresh 500", vary("step_thresh 1ms", "step_thresh 500us")),
        ("dualpi2 step_thresh 5p step_thresh 1ms", DUALPI2.into()),
        ("dualpi2 min_qlen_step 3", vary("min_qlen_step 0", "min_qlen_step 3")),
        ("dualpi2 overflow", vary("drop_on_overload", "overflow")),
        ("dualpi2 drop_enqueue", vary("drop_dequeue", "drop_enqueue")),
        ("dualpi2 classic_protection 25", vary("protection 10%", "protection 25%")),
        ("dualpi2 classic_protection 10.5%", DUALPI2.into()),
        ("dualpi2 no_split_gso", vary("split_gso", "no_split_gso")),
        // 0.1 * 0.015 / 0.1^2 = 0.15 -> 38/256; 0.3 / 0.1 = 3
        (
            "dualpi2 typical_rtt 15ms max_rtt 100ms target 3ms",
            vary(
                "tupdate 16ms alpha 0.16015625 beta 3.19921875",
                "tupdate 15ms alpha 0.1484375 beta 3",
            ),
        ),
        ("netem", "netem limit 1000".into()),
        ("netem d 10ms", "netem limit 1000 delay 10ms".into()), // of delay, drop, …: the first
        ("netem l 5", "netem limit 5".into()),
        ("netem latency 5 50 10%", "netem limit 1000 delay 5ns 50ns 10%".into()),
        ("netem delay 10ms 5ms 10%", "netem limit 1000 delay 10ms 5ms 10%".into()),
        ("netem delay 1.5ms 1e3us", "netem limit 1000 delay 1500us 1ms 0%".into()),
        ("netem delay 1.5us", "netem limit 1000 delay 1500ns".into()),
        ("netem delay 9ms 2ms dist normal", "netem limit 1000 delay 9ms 2ms 0% distribution normal".into()),
        ("netem delay 9ms 2ms distribution uniform", "netem limit 1000 delay 9ms 2ms 0%".into()),
        ("netem loss 1%", "netem limit 1000 loss random 1% 0%".into()),
        ("netem drop random 0.1 25%", "netem limit 1000 loss random 0.1% 25%".into()),
        ("netem loss 0% loss 2%", "netem limit 1000 loss random 2% 0%".into()),
        ("netem loss state 2%", "netem limit 1000 loss state 2% 98% 0% 100% 0%".into()),
        ("netem loss state 1 2 3 4 5", "netem limit 1000 loss state 1% 2% 3% 4% 5%".into()),
        ("netem loss gemodel 1%", "netem limit 1000 loss gemodel 1% 99% 100% 0%".into()),
        ("netem loss gemodel 1 10 70 0.1", "netem limit 1000 loss gemodel 1% 10% 70% 0.1%".into()),
        ("netem ecn loss 5", "netem limit 1000 loss random 5% 0% ecn".into()),
        ("netem dup 1% 2% c 3%", "netem limit 1000 corrupt 3% 0% duplicate 1% 2%".into()),
        ("netem reorder 25% 50% delay 1ms", "netem limit 1000 delay 1ms reorder 25% 50% gap 1".into()),
        ("netem g 0x5 r 9 delay 1ms", "netem limit 1000 delay 1ms reorder 9% 0% gap 5".into()),
        ("netem rate 1mbit -5 53 -3", "netem limit 1000 rate 1mbit -5 53 -3".into()),
        ("netem ra 8kbps 1", "netem limit 1000 rate 64kbit 1 0 0".into()),
        ("netem rate 0", "netem limit 1000".into()),
        (
            "netem delay 200us slot 800us 10ms packets 42 limit 512",
            "netem limit 512 delay 200us slot 800us 10ms packets 42 bytes 0".into(),
        ),
        ("netem s 5ms pack 3 by 2k", "netem limit 1000 slot 5ms 5ms packets 3 bytes 2048".into()),
        (
            "netem slot distribution pareto 2ms 1ms",
            "netem limit 1000 slot distribution pareto 2ms 1ms packets 0 bytes 0".into(),
        ),
        ("netem seed 7", "netem limit 1000 seed 7".into()),
        (
            "tbf rate 1mbit burst 5k limit 10k",
            "tbf rate 1mbit burst 5120b limit 10240b mpu 0 overhead 0 linklayer ethernet".into(),
        ),
        (
            "tbf l 1k buffer 5k/8 rate 8mbit p 9mbit minburst 2k mpu 64 ov 4 link adsl",
            "tbf rate 8mbit burst 5120b peakrate 9mbit mtu 2048b limit 1024b mpu 64 overhead 4 linklayer atm".into(),
        ),
        (
            "tbf rate 8mbit maxburst 2000 lat 50ms mtu 5",
            "tbf rate 8mbit burst 2000b limit 52000b mpu 0 overhead 0 linklayer ethernet".into(),
        ),
        (
            "tbf rate 8mbit burst 200000 lat 50ms peakrate 16mbit mtu 2000",
            "tbf rate 8mbit burst 200000b peakrate 16mbit mtu 2000b limit 102000b mpu 0 overhead 0 linklayer ethernet".into(),
        ),
        (
            "dualpi2 max_rtt 100ms",
            vary(
                "target 15ms tupdate 16ms alpha 0.16015625 beta 3.19921875",
                "target 16666us tupdate 16666us alpha 0.1640625 beta 3",
            ),
        ),
        (
            "dualpi2 typical_rtt 80ms max_rtt 90ms", // tupdate = max_rtt / 3
            vary(
                "target 15ms tupdate 16ms alpha 0.16015625 beta 3.19921875",
                "target 80ms tupdate 30ms alpha 0.3671875 beta 3.33203125",
            ),
        ),
    ];
    for (text, expected) in table {
        assert_eq!(canonical(text), expected, "{text}");
        assert_eq!(canonical(&expected), expected, "reads back: {expected}");
    }
}

#[test]
fn refusals_are_one_sentence_with_the_fix() {
    let table = [
        (
            "",
            "the qdisc is empty; write what you would give to `tc qdisc replace … root`, for example \"dualpi2 target 15ms\"",
        ),
        ("dualp2", "there is no qdisc \"dualp2\"; did you mean \"dualpi2\"?"),
        ("DualPI2", "there is no qdisc \"DualPI2\"; did you mean \"dualpi2\"?"),
        ("pfifio", "there is no qdisc \"pfifio\"; did you mean \"pfifo\"?"),
        ("pfifo limt 5", "pfifo has no keyword \"limt\"; did you mean \"limit\"?"),
        ("pfifo ecn", "pfifo has no keyword \"ecn\"; its keywords are limit"),
        (
            "pfifo limit",
            "pfifo: limit has no value; it takes a number such as 1000 or 64k (k is 1024), at most 4294967295",
        ),
        (
            "pfifo limit -1",
            "pfifo: limit \"-1\" is refused; it takes a number such as 1000 or 64k (k is 1024), at most 4294967295 (default 1000)",
        ),
        ("dualpi2 tagret 5ms", "dualpi2 has no keyword \"tagret\"; did you mean \"target\"?"),
        ("dualpi2 TARGET 5ms", "dualpi2 has no keyword \"TARGET\"; did you mean \"target\"?"),
        (
            "dualpi2 step_packets 5",
            "dualpi2 has no keyword \"step_packets\"; did you mean \"step_thresh\"?",
        ),
        (
            "dualpi2 target 15parsecs",
            "dualpi2: target \"15parsecs\" is refused; it takes a time above zero such as 15ms, 500us or 1s (default 15ms)",
        ),
        (
            "dualpi2 coupling_factor 0",
            "dualpi2: coupling_factor \"0\" is refused; it takes a whole number from 1 to 255 (default 2)",
        ),
        (
            "dualpi2 alpha 0.003",
            "dualpi2: alpha \"0.003\" is refused; it takes a gain in Hz from 0.00390625 (1/256) to 8388607 (default 0.16015625)",
        ),
        (
            "dualpi2 classic_protection 101",
            "dualpi2: classic_protection \"101\" is refused; it takes a percentage from 0% to 100% (default 10%)",
        ),
        (
            "dualpi2 typical_rtt 20ms max_rtt 10ms",
            "dualpi2: typical_rtt \"20ms\" is refused; it must not exceed max_rtt 10ms",
        ),
        ("red limit 100000", "red: avpkt is missing; write for example limit 150000 avpkt 1000"),
        (
            "red limit 100000 avpkt 1000 nodrop",
            "red: ecn is missing; nodrop has a meaning only beside it",
        ),
        (
            "red limit 100000 min 5000 max 4000 avpkt 1000",
            "red: max \"4000\" is refused; it takes min (5000) or more",
        ),
        (
            "red limit 1000000 avpkt 1500 burst 1",
            "red: burst \"1\" is refused; it takes more packets, or a min below 1 avpkt",
        ),
        ("sfq redflowlimit 8 burst 40000", "sfq: min \"0\" is refused; it takes 1000 or more"),
        (
            "fq offload_horizon 5s",
            "fq: offload_horizon is not modelled; forwarded packets have no socket that would set a \
             departure time",
        ),
        (
            "fq bands 3",
            "fq: bands is not modelled; packets have no priority, so all are in one band",
        ),
        (
            "dualpi2 max_rtt 10s",
            "dualpi2: max_rtt \"10s\" is refused; it takes alpha below 1/256 Hz, the smallest gain",
        ),
        (
            "dualpi2 typical_rtt 1s",
            "dualpi2: typical_rtt \"1s\" is refused; it takes alpha below 1/256 Hz, the smallest gain",
        ),
        ("netem dealy 10ms", "netem has no keyword \"dealy\"; did you mean \"delay\"?"),
        (
            "netem delay 10ms 5s",
            "netem: delay \"5s\" is refused; it takes a time of at most 2147483647ns",
        ),
        (
            "netem reorder 10%",
            "netem: reorder \"10%\" is refused; reordering needs a delay that it spares; add delay",
        ),
        ("netem gap 5", "netem: gap \"5\" is refused; add reorder with its percentage"),
        (
            "netem ecn",
            "netem: ecn \"without loss\" is refused; add loss, which it turns into marks",
        ),
        (
            "netem distribution normal",
            "netem: distribution \"normal\" is refused; it needs a delay and a jitter, such as delay 10ms 2ms",
        ),
        ("tbf", "tbf: rate \"missing\" is refused; add rate, such as rate 10mbit"),
        ("tbf rate 1mbit", "tbf: burst \"missing\" is refused; add burst, such as burst 5k"),
        (
            "tbf rate 1mbit burst 5k",
            "tbf: limit \"missing\" is refused; add limit 64k, or latency 50ms",
        ),
        (
            "tbf rate 1mbit burst 5k limit 5k peakrate 1mbit mtu 2k",
            "tbf: peakrate \"1mbit\" is refused; it must exceed rate 1mbit",
        ),
    ];
    for (text, sentence) in table {
        let error = registry::parse(text).expect_err(text).to_string();
        assert_eq!(error, sentence, "{text}");
    }
    let names: Vec<_> = registry::listing().iter().map(|info| info.info.name).collect();
    let error = registry::parse("tagret 5ms").expect_err("no such qdisc").to_string();
    let all = names.join(", ");
    assert_eq!(error, format!("there is no qdisc \"tagret\"; the qdiscs are {all}"));
}

#[test]
fn what_tc_or_the_kernel_refuses_or_ignores_is_refused() {
    for text in [
        "pfifo limit p",
        "pfifo limit 5G",
        "pfifo limit inf",
        "pfifo limit nan",
        "pfifo limit 1,5",
        "pfifo limit 4294967296",
        "pfifo 5",
        "pfifo foo 3",
        "bfifo limit 10mbps",
        "codel limit 1k",
        "codel target 3000s",
        "codel ce_threshold_selector 1/1",
        "fq_codel quantum 1k",
        "fq_codel flows 65537",
        "fq_codel quantum 1048577",
        "fq_codel ce_threshold_selector 1",
        "fq_codel ce_threshold_selector 0xff/0xff",
        "fq_codel ce_threshold_selector 1/256",
        "fq maxrate 40gbit",
        "fq buckets 1",
        "fq buckets 262145",
        "fq initial_quantum 1048577",
        "fq limit 1k",
        "fq timer_slack 5s",
        "fq weights 16384 16384 16384",
        "fq defrate 1mbit",
        "red avpkt 1000",
        "red limit 3 avpkt 1000",
        "red limit 1000000 min 1000 avpkt 1500",
        "red limit 1000000 avpkt 1500 bandwidth 40Gbit",
        "red limit 1000000 avpkt 1500 bandwidth 50%",
        "red limit 1000000 avpkt 1500 probability 0.0000001",
        "red limit 1000000 avpkt 1500 probability -0.5",
        "red limit 4000000000 avpkt 1000",
        // tc and the kernel take a zero for the default.
        "codel limit 0",
        "codel target 0",
        "fq_codel flows 0",
        "fq_codel drop_batch 0",
        "red limit 1000000 avpkt 1500 min 0",
        "red limit 1000000 avpkt 1500 bandwidth 0",
        // Illegal in tc.
        "netem loss 1% loss 2%",
        "netem loss state 1% loss 2%",
        "netem ecn loss 0%",
        "netem loss foo",
        "netem loss ran 1%",
        "netem loss 101%",
        "netem loss -1%",
        "netem rate 10%",
        "netem slot 1ms 500us",
        "netem slot 1ms packets -1",
        "netem slot 1ms bytes 5k packets 3",
        "netem slot dist normal 1ms 1ms",
        "netem slot distribution normal 1ms 0",
        "netem slot distribution uniform 1ms 1ms",
        "netem slot",
        "netem seed 0x10",
        "netem r 10mbit",
        "netem delay -5ms",
        "netem delay 10ms -1ms",
        "netem distribution uniform",
        "netem delay 10ms 1ms distribution mine",
        "tbf rate 1mbit burst 5k latency 10ms limit 5k",
        "tbf rate 1mbit burst 5k limit 0",
        "tbf rate 1mbit burst 5k latency 0",
        "tbf rate 1mbit burst 5k buffer 5k limit 5k",
        "tbf rate 1mbit rate 2mbit burst 5k limit 5k",
        "tbf rate 0 burst 5k limit 5k",
        "tbf rate 1mbit burst 5k/9 limit 5k",
        "tbf rate 1mbit burst 5k limit 5k peakrate 2mbit",
        "tbf rate 1mbit burst 5k limit 5k linklayer foo",
        "tbf rate 1mbit burst 5k limit 5k overhead -4",
        "tbf rate 1mbit burst 5k limit 5k overhead 70000",
        "tbf rate 1mbit burst 5k limit 5k mpu 64 mpu 64",
        "tbf rate 1mbit buf 5k limit 5k",
        "tbf ra 1mbit burst 5k limit 5k",
        "tbf rate 10% burst 5k limit 5k",
        "tbf rate 8kbit burst 275000b limit 5k",
        "dualpi2 limit 0x10",
        "dualpi2 limit -1",
        "dualpi2 limit 1k",
        "dualpi2 memlimit 1k",
        "dualpi2 target -5ms",
        "dualpi2 target 1ns",
        "dualpi2 target",
        "dualpi2 targ 5ms",
        "dualpi2 step_thresh 5P",
        "dualpi2 step_thresh 5.5p",
        "dualpi2 step_thresh p",
        "dualpi2 coupling_factor 256",
        "dualpi2 coupling_factor -1",
        "dualpi2 classic_protection -1",
        "dualpi2 classic_protection x",
        "dualpi2 classic_protection 10%%",
        "dualpi2 help",
        "dualpi2 alpha 1Hz",
        "dualpi2 alpha -1",
        // tc sends them, the kernel refuses them.
        "dualpi2 alpha 0",
        "dualpi2 beta 0.001",
        "dualpi2 alpha 8388608",
        "dualpi2 coupling_factor 0",
        // tc drops a zero, and the default would hold.
        "dualpi2 limit 0",
        "dualpi2 memlimit 0",
        "dualpi2 target 0",
        "dualpi2 tupdate 0us",
        "dualpi2 step_thresh 0",
        "dualpi2 step_thresh 0p",
        "dualpi2 max_rtt 0",
        "dualpi2 typical_rtt 0",
        // tc overflows its 32 bits, or the kernel cuts the value.
        "dualpi2 target 5000s",
        "dualpi2 target inf",
        "dualpi2 target nan",
        "dualpi2 tupdate 5s",
        "dualpi2 step_thresh 5s",
    ] {
        let error = registry::parse(text).expect_err(text).to_string();
        assert!(
            !error.contains('\n') && error.starts_with(text.split(' ').next().unwrap()),
            "{error}"
        );
    }
}

#[test]
fn the_listing_is_true() {
    for info in registry::listing() {
        let name = format!("{} {}", info.info.name, info.info.required);
        let bare = registry::parse(&name).unwrap();
        assert!(!info.info.summary.is_empty());
        for param in &info.info.parameters {
            assert!(!param.help.is_empty(), "{} {}", info.info.name, param.keyword);
            let with = |value: &str| {
                let beside = match (info.info.name, param.keyword) {
                    ("red", "nodrop") => "ecn", // has no meaning without
                    ("sfq", "ecn" | "harddrop") => "redflowlimit 100000",
                    _ => "",
                };
                let text = format!("{name} {beside} {} {value}", param.keyword);
                registry::parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"))
            };
            match (param.value, &*param.default) {
                ("", _) if param.keyword == "ecn" && info.info.name == "netem" => {} // needs loss
                ("", "yes") => assert_eq!(with(""), bare, "{}", param.keyword),
                ("", _) => assert_ne!(with(""), bare, "{}", param.keyword),
                (_, "") => {} // without a default there is nothing to compare
                (_, default) => assert_eq!(with(default), bare, "{}", param.keyword),
            }
        }
        // The canonical form says everything: each parameter with a default is in it, but for words
        // that say no more than another one or than nothing.
        let silent = ["internet", "nonat", "via-ethernet", "no-sce"].map(|word| ("cake", word));
        let printed = bare.canonical();
        let said = |keyword| !silent.contains(&(info.info.name, keyword));
        for param in
            info.info.parameters.iter().filter(|p| !p.default.is_empty() && said(p.keyword))
        {
            // A word may be short for what is printed, or say nothing.
            if printed.contains(param.help) || param.help == "accepted, without effect" {
                continue;
            }
            let expected = match param.value {
                "" => param.keyword.to_owned(),
                _ => format!("{} {}", param.keyword, param.default),
            };
            assert!(printed.contains(&expected), "{printed} lacks {expected}");
        }
    }
    let json = serde_json::to_value(registry::listing()).unwrap();
    assert_eq!(json[0]["parameters"][0]["keyword"], "limit");
}

/// Random values from the table's ranges are read, print, and print the same when they are read again;
/// what is beyond is refused with a sentence.
#[test]
fn the_ranges_of_the_table_hold() {
    let mut rng = Rng::stream(1, "parameters", 0);
    for info in registry::listing() {
        let name = info.info.name;
        for _ in 0..200 {
            let text = registry::random_string(name, &mut rng);
            let config = registry::parse(&text).unwrap();
            let printed = config.canonical();
            let again =
                registry::parse(&printed).unwrap_or_else(|e| panic!("{text}: {printed}: {e}"));
            assert_eq!((&again, again.canonical()), (&config, printed), "{text}");
        }
        for _ in 0..20 {
            for (with, beyond) in registry::samples(name, &mut rng) {
                // A value in its range may be refused for what it means beside others only.
                let keyword = with.split(' ').next();
                let row = info.info.parameters.iter().find(|row| Some(row.keyword) == keyword);
                if let Err(e) = registry::parse(&format!("{name} {} {with}", info.info.required)) {
                    let range = format!("it takes {}", row.expect("it is listed").takes);
                    assert!(!e.to_string().contains(&range), "{name} {with}: {e}");
                }
                for words in beyond {
                    let refused = registry::parse(&format!("{name} {words}"));
                    let sentence = refused.expect_err(&format!("{name} {words}")).to_string();
                    assert!(sentence.contains("it takes "), "{sentence}");
                }
            }
        }
    }
}

/// Random values of each option read back, and values beyond are refused.
fn ranges_hold<C: PartialEq + std::fmt::Debug>(
    parse: impl Fn(&[(&str, &str)]) -> Result<C, Refused>,
    canonical: impl Fn(&C) -> Vec<(&'static str, String)>,
    samples: impl Fn(&mut Rng) -> Vec<(String, Vec<String>)>,
) {
    let mut rng = Rng::stream(1, "options", 0);
    let read = |words: &str| {
        let (option, value) = words.split_once(' ').expect("an option has a value");
        parse(&[(option, value)])
    };
    for _ in 0..50 {
        for (with, beyond) in samples(&mut rng) {
            match read(&with) {
                Ok(config) => {
                    let printed = canonical(&config);
                    let given: Vec<_> = printed.iter().map(|(k, v)| (*k, v.as_str())).collect();
                    assert_eq!(parse(&given), Ok(config), "{with}");
                }
                Err(e) => assert!(!e.to_string().contains("refused; it takes"), "{with}: {e}"),
            }
            for words in beyond {
                let sentence = read(&words).expect_err(&words).to_string();
                assert!(sentence.contains("it takes "), "{sentence}");
            }
        }
    }
}

#[test]
fn the_ranges_of_options_hold() {
    for entry in controllers::listing() {
        let name = entry.info.name;
        let parse = |given: &[(&str, &str)]| controllers::parse(name, given);
        ranges_hold(parse, |config| config.canonical(), |rng| controllers::samples(name, rng));
    }
    for entry in media::listing() {
        let name = entry.info.name;
        let parse = |given: &[(&str, &str)]| media::parse(name, given);
        ranges_hold(parse, |config| config.canonical(), |rng| media::samples(name, rng));
    }
}

fn reads_back(config: &QdiscConfig) -> Result<(), TestCaseError> {
    let printed = config.canonical();
    let again = registry::parse(&printed);
    prop_assert_eq!(again.as_ref(), Ok(config), "{}", printed);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_printed_reads_back(
        limit in 1_u32.., memlimit in 1_u32.., target in 1_u32.., tupdate in 1_u32..4_294_967,
        alpha in 0.004..8_388_000.0_f32, beta in 0.004..10.0_f32, step in 1_u32..4_294_967, packets: bool,
    ) {
        let unit = if packets { "p" } else { "us" };
        let text = format!("dualpi2 limit {limit} memlimit {memlimit} target {target}us tupdate {tupdate} \
            alpha {alpha} beta {beta} step_thresh {step}{unit}");
        reads_back(&registry::parse(&text).unwrap())?;
        reads_back(&registry::parse(&format!("bfifo limit {limit}")).unwrap())?;
    }

    #[test]
    fn tuned_gains_read_back(max_rtt in 1_u32..4_000_000, part in 1_u32..20) {
        let text = format!("dualpi2 max_rtt {max_rtt} typical_rtt {}", (max_rtt / part).max(1));
        if let Ok(config) = registry::parse(&text) {
            reads_back(&config)?;
        } else {
            prop_assert!(max_rtt > 100_000, "{text}: only long times make alpha too small");
        }
    }

    /// No text makes the parser panic, and every refusal is one line.
    #[test]
    fn any_text_is_read_or_refused(words in prop::collection::vec("[a-z_]{1,8}|[-+0-9.xeEp%]{1,6}(us|ms|s|k|p)?|\\PC{0,4}", 0..4), name in "pfifo|bfifo|dualpi2|codel|fq_codel|fq|red|netem|tbf|[a-z0-9]{0,8}", keyword in "limit|maxrate|bandwidth|avpkt|ce_threshold_selector|target|alpha|step_thresh|classic_protection|coupling_factor|delay|loss|slot|rate|burst|") {
        let text = format!("{name} {keyword} {}", words.join(" "));
        match registry::parse(&text) {
            Ok(config) => reads_back(&config)?,
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
        }
    }
}
