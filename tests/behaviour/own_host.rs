//! A queue in the host that sends: TCP knows what waits there and what was refused.

use l4slab_core::aqm::registry;
use l4slab_core::scenario::Run;
use l4slab_core::time::Time;
use serde_json::{Value, json};

use crate::lab::{Lab, Result, columns, lab, ns};

/// The first link is in the host of all flows.
fn on_host(mut l: Lab) -> Lab {
    l.0["links"][0]["on_host"] = json!(true);
    for flow in l.0["flows"].as_array_mut().expect("a list") {
        flow["gso"] = json!(true);
    }
    l
}

fn flows(cc: &str, rate: f64, qdisc: &str, count: u32) -> Result {
    on_host(lab(8.0, 3.0).link("l", rate, qdisc).tcp("f", cc, 20.0, json!({"count": count}))).run()
}

/// TCP small queues: two bursts wait, or more that are smaller, from before the rate was known. The FIFO has room for a
/// thousand.
#[test]
fn a_host_fills_no_long_fifo_of_its_own() {
    for (cc, rate) in [("cubic", 20.0), ("cubic", 100.0), ("prague", 100.0), ("bbr", 100.0)] {
        let r = flows(cc, rate, "pfifo limit 1000", 1);
        let q = r.queue("l", "all");
        assert_eq!(q.dropped_packets, 0);
        assert!(q.backlog_packets_max <= 5, "{cc}: {q:?}");
        assert!(q.utilisation > 0.97, "{cc}: {q:?}");
        // A router's holds seconds of CUBIC.
        assert!(q.sojourn_ms_p99.expect("packets left") < 6.0, "{cc}: {q:?}");
    }
}

/// What the queue refuses stays with the sender, which reduces its window as for a mark.
#[test]
fn a_refused_packet_is_no_retransmission() {
    for (cc, limit, count) in [("cubic", 1, 1), ("cubic", 4, 8), ("reno", 4, 8), ("prague", 2, 8)] {
        let r = flows(cc, 20.0, &format!("pfifo limit {limit}"), count);
        let f = r.flow("f");
        assert!(f.dropped_packets > 0, "{cc}: {f:?}");
        assert_eq!(f.retransmits, 0, "{cc}: {f:?}");
    }
    // One that is dropped after it has waited is a loss.
    let f = flows("cubic", 20.0, "codel target 1ms noecn", 1);
    assert!(f.flow("f").retransmits > 0);
}

/// Whatever the queue: packets are conserved, transfers complete, and the same run has the same bits, however it is cut.
#[test]
fn any_queue_may_be_there() {
    let mut tested = 0;
    for entry in registry::listing() {
        let name = entry.info.name;
        for tc in [name.to_owned(), format!("{name} limit 5")] {
            // Some limits are in bytes, and `fq` paces the sockets of its host.
            let is_tiny = name == "bfifo" && tc != name;
            if name == "fq" || is_tiny || registry::parse(&tc).is_err() {
                continue;
            }
            tested += 1;
            let l = lab(30.0, 0.5)
                .link("l", 10.0, &tc)
                .tcp("a", "cubic", 10.0, json!({"count": 3, "bytes": 300_000}))
                .tcp("b", "prague", 25.0, json!({"stop_ns": ns(2.0)}))
                .tcp("c", "bbr", 5.0, json!({"rate_bps": 1_000_000, "stop_ns": ns(2.0)}))
                .at(0.7, "l", json!({"rate_bps": 5_000_000}));
            let l = on_host(l);
            let mut sim = l.simulation();
            for step in 1..=7 {
                sim.run_until(Time(ns(30.0) / 7 * step));
                for link in sim.links() {
                    let t = link.totals();
                    assert_eq!(
                        t.arrived,
                        t.sent + t.dropped + link.aqm().backlog().packets,
                        "{tc}"
                    );
                }
            }
            let cut = sim.run();
            for f in &cut.flows {
                let known = f.delivered_packets + f.lost_packets + f.waiting_packets;
                assert_eq!(f.offered_packets, known, "{tc}: {f:?}");
            }
            let whole = l.run();
            assert_eq!(whole.flow("a").transfers, 3, "{tc}: {:?}", whole.flow("a"));
            assert!(columns(&cut) == columns(&whole.0), "{tc}");
        }
    }
    assert!(tested > 30, "{tested}");
}

/// A new queue loses what waits, and its senders know.
#[test]
fn a_replaced_queue_is_filled_again() {
    let l = lab(4.0, 2.5).link("l", 20.0, "pfifo").tcp("f", "cubic", 20.0, json!({}));
    let r = on_host(l.at(1.0, "l", json!({"qdisc": "codel"}))).run();
    assert!(r.queue("l", "all").utilisation > 0.95, "{:?}", r.queue("l", "all"));
}

/// The delay is the same, wherever the queue is.
#[test]
fn a_short_transfer_takes_as_long() {
    let l = lab(2.0, 0.0).link("l", 100.0, "pfifo");
    let l = l.tcp("f", "cubic", 20.0, json!({"bytes": 14_480, "gso": true}));
    let took = |l: Lab| l.run().0.transfers[0].completion.as_millis_f64();
    let (router, own) = (took(l.clone()), took(on_host(l)));
    assert!((router - own).abs() < 0.01, "{router} and {own} ms");
}

#[test]
fn what_cannot_be_there() {
    let refused = |l: Lab| Run::from_json(&l.0.to_string()).map(|_| ()).map_err(|e| e.0);
    let base = || lab(2.0, 0.0).link("l", 10.0, "pfifo").link("m", 10.0, "pfifo");
    let of = |extra: Value| on_host(base().tcp("f", "cubic", 10.0, extra));
    assert_eq!(refused(of(json!({}))), Ok(()));
    let text = "flow \"f\": link \"l\" is in the host that sends: a wire, first on the path of TCP with gso";
    assert_eq!(refused(of(json!({"path": ["m", "l"]}))), Err(text.to_owned()));
    assert_eq!(refused(of(json!({"path": ["m"], "reverse_path": ["l"]}))), Err(text.to_owned()));
    let mut udp = base().cbr("f", 1.0, "not-ect", json!({}));
    udp.0["links"][0]["on_host"] = json!(true);
    assert_eq!(refused(udp), Err(text.to_owned()));
}
