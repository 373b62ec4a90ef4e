//! Page loads: what a page has, how long it takes on an empty path, and that pages do not depend on the queue.

use serde_json::{Value, json};

use crate::lab::{Lab, agrees, between, lab, ns};

fn pages(l: Lab, cc: &str, rtt_ms: f64, extra: Value) -> Lab {
    let mut keys = json!({"kind": "page", "interval_ns": ns(2.0), "scale": 1.0});
    for (key, value) in extra.as_object().expect("an object") {
        keys[key] = value.clone();
    }
    l.tcp("users", cc, rtt_ms, keys)
}

/// 18 + 80 + 600 + 132 + 18 x 58 + 16 x 47 kB = 2626 kB. The last two are lognormal with a long tail.
#[test]
fn a_page_is_as_large_as_the_median_one() {
    let r = pages(lab(600.0, 0.0).link("b", 1000.0, "pfifo limit 10000"), "cubic", 1.0, json!({}))
        .run();
    let sizes: Vec<f64> = r.0.transfers.iter().filter_map(|t| t.bytes).map(|b| b as f64).collect();
    between("pages", sizes.len() as f64, 240.0, 360.0);
    agrees("mean size", sizes.iter().sum::<f64>() / sizes.len() as f64, 2626e3, 0.1);
    assert!(sizes.iter().all(|size| *size > 830e3));
}

/// Tiny objects on an idle path: TCP, TLS and document (50 ms in the mean), a round trip for the first wave on the first origin and three
/// on others, one to three more for the second.
#[test]
fn a_page_of_tiny_objects_takes_round_trips() {
    let l = lab(200.0, 0.0).link("b", 1000.0, "pfifo limit 10000");
    let r = pages(l, "cubic", 100.0, json!({"scale": 0.001})).run();
    for t in &r.0.transfers {
        let round_trips = t.completion.as_millis_f64() / 100.0;
        assert!(round_trips > 6.9, "{round_trips}");
        assert!(t.response.unwrap() < t.completion);
    }
    between("median", r.flow("users").completion_ms_p50.unwrap(), 700.0, 1000.0);
}

/// The same pages open at the same times whatever the queue, and a full one makes them wait.
#[test]
fn pages_do_not_depend_on_the_queue() {
    let run = |qdisc: &str| {
        let l = lab(60.0, 0.0).link("b", 20.0, qdisc).tcp("bulk", "cubic", 20.0, json!({}));
        pages(l, "cubic", 20.0, json!({"interval_ns": ns(10.0)})).run()
    };
    let (fifo, fq) = (run("pfifo limit 500"), run("fq_codel"));
    let drawn = |r: &crate::lab::Result| {
        r.0.transfers.iter().map(|t| (t.start, t.bytes)).take(3).collect::<Vec<_>>()
    };
    assert_eq!(drawn(&fifo), drawn(&fq));
    let median = |r: &crate::lab::Result| r.flow("users").completion_ms_p50.unwrap();
    assert!(median(&fifo) > 1.3 * median(&fq), "{} and {}", median(&fifo), median(&fq));
}
