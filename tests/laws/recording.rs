//! What a recording says of one thing in several places agrees.

use l4slab_core::distribution::Bin;
use l4slab_core::sim::recording::{FlowRow, Histogram};
use serde_json::json;

use crate::lab::{Lab, Result, agrees, columns, lab};

/// Three groups through a queue per flow, with transfers, from the start on.
fn scene(seconds: f64, warmup: f64, qdisc: &str) -> Lab {
    lab(seconds, warmup)
        .link("b", 20.0, qdisc)
        .tcp("bulk", "cubic", 20.0, json!({"count": 3}))
        .tcp(
            "short",
            "reno",
            10.0,
            json!({"count": 4, "bytes": 200_000, "start_ns": 1_000_000_000}),
        )
        .cbr("voice", 0.2, "not-ect", json!({"packet_bytes": 214, "rtt_ns": 10_000_000}))
}

fn find<'a>(
    r: &'a Result,
    quantity: &str,
    flow: Option<usize>,
    queue: Option<&str>,
) -> &'a Histogram {
    let found = r.0.histograms.iter();
    let mut found = found.filter(|h| h.quantity == quantity && h.flow == flow && h.queue == queue);
    found.next().expect("the histogram exists")
}

fn total(h: &Histogram) -> u64 {
    h.bins.iter().map(|b| b.count).sum()
}

/// The bin with the smallest value that is not below a part `q` of all.
fn quantile(bins: &[Bin], q: f64) -> Bin {
    let rank = (q * bins.iter().map(|b| b.count).sum::<u64>() as f64).ceil() as u64;
    let mut seen = 0;
    let found = bins.iter().find(|b| {
        seen += b.count;
        seen >= rank
    });
    *found.expect("there are values")
}

#[track_caller]
fn holds(bin: Bin, ms: Option<f64>) {
    let ms = ms.expect("a value");
    assert!(bin.low.as_millis_f64() <= ms && ms <= bin.high.as_millis_f64(), "{ms} in {bin:?}");
}

/// Counts are those of the transfers, and of the packets but for those on the way from the link to the receiver;
/// percentiles read off the bins are those of the columns.
#[test]
fn histograms_hold_what_the_columns_tell() {
    for qdisc in ["dualpi2", "fq_codel", "pfifo limit 100"] {
        let r = scene(5.0, 1.0, qdisc).run();
        let unwarmed = scene(5.0, 0.0, qdisc).run();
        for (i, f) in r.0.flows.iter().enumerate() {
            let sojourn = find(&r, "sojourn_ms", Some(i), None);
            let whole = unwarmed.flow(&f.flow);
            let left = total(find(&unwarmed, "sojourn_ms", Some(i), None));
            let on_the_way = left - whole.delivered_packets;
            assert!(on_the_way <= whole.waiting_packets, "{qdisc}: {}: {on_the_way}", f.flow);
            holds(quantile(&sojourn.bins, 0.5), f.sojourn_ms_p50);
            holds(quantile(&sojourn.bins, 0.99), f.sojourn_ms_p99);
            let completion = find(&r, "completion_ms", Some(i), None);
            assert_eq!(total(completion), u64::from(f.transfers));
            let rtt = find(&r, "rtt_ms", Some(i), None);
            assert_eq!(rtt.bins.is_empty(), f.rtt_ms_p50.is_none());
        }
        holds(
            quantile(&find(&r, "completion_ms", Some(1), None).bins, 0.99),
            r.0.flows[1].completion_ms_p99,
        );
        holds(quantile(&find(&r, "rtt_ms", Some(0), None).bins, 0.5), r.0.flows[0].rtt_ms_p50);
        for l in &r.0.links {
            let sojourn = find(&r, "sojourn_ms", None, Some(&l.queue));
            assert_eq!(total(sojourn), l.sent_packets, "{qdisc}: {}", l.queue);
            if l.sent_packets > 0 {
                holds(quantile(&sojourn.bins, 0.99), l.sojourn_ms_p99);
            }
        }
    }
}

/// Counting flows apart changes nothing that is told of all together.
#[test]
fn members_add_up_and_change_nothing() {
    let scene = scene(4.0, 1.0, "dualpi2");
    let (together, apart) = (scene.run(), scene.clone().with("per_flow", true).run());
    assert_eq!(columns(&together.0), columns(&apart.0));
    assert_eq!(together.0.histograms.len(), apart.0.histograms.len());
    for (a, b) in together.0.histograms.iter().zip(&apart.0.histograms) {
        assert_eq!(a.bins, b.bins);
    }
    assert!(together.0.members.is_empty());
    let numbers: Vec<_> = apart.0.members.iter().map(|m| (&*m.row.flow, m.member)).collect();
    let (bulk, short) = ([1, 2, 3].map(|n| ("bulk", n)), [1, 2, 3, 4].map(|n| ("short", n)));
    assert_eq!(numbers, [&bulk[..], &short[..], &[("voice", 1)]].concat());
    for group in &apart.0.flows {
        let members =
            || apart.0.members.iter().map(|m| &m.row).filter(|row| row.flow == group.flow);
        let sum = |value: fn(&FlowRow) -> f64| members().map(value).sum::<f64>();
        let close = |a: f64, b: f64| assert!((a - b).abs() <= 1e-9 * b.abs(), "{a}, {b}");
        close(sum(|f| f.goodput_mbps), group.goodput_mbps);
        close(sum(|f| f.share.unwrap()), group.share.unwrap());
        close(sum(|f| f.sent_packets as f64), group.sent_packets as f64);
        close(sum(|f| f.dropped_packets as f64), group.dropped_packets as f64);
        close(sum(|f| f.retransmits as f64), group.retransmits as f64);
        close(sum(|f| f64::from(f.transfers)), f64::from(group.transfers));
        let waited = sum(|f| f.sojourn_ms_mean.unwrap() * f.delivered_packets as f64);
        // `delivered_packets` counts what was sent in the measured interval, the sojourn time what left the link in it.
        let mean = group.sojourn_ms_mean.unwrap();
        assert!((waited / group.delivered_packets as f64 - mean).abs() <= 1e-4 * mean);
        let goodputs: Vec<f64> = members().map(|f| f.goodput_mbps).collect();
        let squares: f64 = goodputs.iter().map(|x| x * x).sum();
        let jain = group.goodput_mbps.powi(2) / (goodputs.len() as f64 * squares);
        close(group.jain.unwrap(), jain);
    }
    // Of the flows in bulk only.
    assert_eq!(apart.flow("voice").jain_run, apart.flow("bulk").jain);
}

/// Jain's index of two groups of n flows in bulk, of which one is held to a k-th of the other's rate, is
/// (1 + k)^2 / (2 (1 + k^2)), and of each group alone 1.
#[test]
fn jain_of_paced_flows() {
    let mut l = lab(20.0, 5.0).link("b", 1000.0, "pfifo");
    for (name, mbps) in [("slow", 2.0), ("fast", 10.0)] {
        let paced = json!({"count": 5, "pace_bps": (mbps * 1e6) as u64});
        l = l.tcp(name, "reno", 10.0, paced);
    }
    let r = l.run();
    let k: f64 = 5.0;
    let law = (1.0 + k).powi(2) / (2.0 * (1.0 + k * k));
    agrees("two groups", r.flow("slow").jain_run.unwrap(), law, 0.001);
    agrees("one group", r.flow("fast").jain.unwrap(), 1.0, 0.001);
    assert_eq!(
        lab(1.0, 0.5)
            .link("b", 1.0, "pfifo")
            .cbr("u", 0.1, "not-ect", json!({}))
            .run()
            .flow("u")
            .jain_run,
        None
    );
}

/// A transfer that is alone takes at least what is called ideal, and little more (BBR paces from the
/// start on, Prague after its first round); with others it takes longer.
#[test]
fn slowdown_of_a_lone_transfer() {
    for cc in ["reno", "cubic", "prague", "dctcp", "bbr", "bbr3"] {
        for (bytes, most) in [(1_000, 1.01), (100_000, 1.2), (5_000_000, 1.6)] {
            let l = lab(20.0, 0.0).link("b", 50.0, "pfifo limit 1000");
            let r = l.tcp("f", cc, 20.0, json!({"bytes": bytes})).run();
            let slowdown = r.flow("f").slowdown_p50.unwrap();
            println!("{cc}, {bytes} B: {slowdown:.4}");
            assert!((1.0..=most).contains(&slowdown), "{cc}, {bytes} B: {slowdown}");
        }
    }
    let crowd = scene(20.0, 0.0, "pfifo limit 100").run();
    assert!(crowd.flow("short").slowdown_p50.unwrap() > 1.5);
    assert_eq!(crowd.flow("bulk").slowdown_p99, None);
}

/// A link that is slower for a while: nobody beats the fastest that it was meanwhile, and what was over
/// before does not care.
#[test]
fn the_ideal_is_that_of_the_rate_meanwhile() {
    let flow = |start_s: f64| json!({"bytes": 2_000_000, "start_ns": (start_s * 1e9) as u64});
    let r = lab(20.0, 0.0)
        .with("start_jitter_ns", 0)
        .link("b", 20.0, "pfifo limit 1000")
        .tcp("before", "reno", 10.0, flow(0.0))
        .tcp("across", "reno", 10.0, flow(4.5))
        .tcp("after", "reno", 10.0, flow(10.0))
        .at(5.0, "b", json!({"rate_bps": 4_000_000}))
        .run();
    let ideal = |i: usize| r.0.transfers[i].ideal.unwrap().as_secs_f64();
    assert!((ideal(0) - ideal(1)).abs() < 1e-9);
    agrees("a fifth of the rate", ideal(2) / ideal(0), 5.0, 0.05);
    for t in &r.0.transfers {
        assert!(t.slowdown().unwrap() >= 1.0);
    }
    assert!(r.0.transfers[1].slowdown().unwrap() > 2.0);
}

/// The series of a flow's delay are means of what each of its packets met, in whichever queue it was.
#[test]
fn the_series_tell_each_flows_delay() {
    for (qdisc, warmup) in [("fq_codel", 0.0), ("cake bandwidth 18mbit", 0.0), ("dualpi2", 1.05)] {
        let r = scene(5.0, warmup, qdisc).run();
        for (i, f) in r.0.flows.iter().enumerate() {
            let delays = r.flow_series(&f.flow, "sojourn_ms");
            let packets = r.flow_series(&f.flow, "delivered_packets");
            assert!(delays.iter().zip(&packets).all(|(d, p)| d.1.is_nan() == (p.1 == 0.0)));
            if warmup > 0.0 {
                // A sample across the end of the warm-up misses nothing.
                assert!(delays.iter().all(|(_, ms)| ms.is_nan() || (0.0..1000.0).contains(ms)));
                continue;
            }
            let both = delays.iter().zip(&packets).filter(|(d, _)| !d.1.is_nan());
            let waited: f64 = both.map(|(d, p)| d.1 * p.1).sum();
            let mean = waited / f.delivered_packets as f64;
            agrees(&format!("{qdisc}: {}", f.flow), mean, f.sojourn_ms_mean.unwrap(), 1e-6);
            assert_eq!(total(find(&r, "sojourn_ms", Some(i), None)), f.delivered_packets);
        }
        if warmup == 0.0 {
            // A queue of its own: who sends little waits little.
            let of = |name: &str| r.flow(name).sojourn_ms_mean.unwrap();
            assert!(of("voice") < 0.3 * of("bulk"), "{qdisc}: {} {}", of("voice"), of("bulk"));
        }
    }
}
