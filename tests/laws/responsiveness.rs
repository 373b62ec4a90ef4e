//! Round trips per minute: a queue of known length, the idle path, and what fair queueing is worth.

use serde_json::{Value, json};

use crate::lab::{Lab, agrees, between, lab, ns};

fn test(l: Lab, cc: &str, rtt_ms: f64, extra: Value) -> Lab {
    let mut keys = json!({"kind": "responsiveness", "interval_ns": ns(1.0), "probe_interval_ns": ns(0.01),
                          "connections": 1, "notsent_bytes": 0, "idle_ns": ns(1.0)});
    for (key, value) in extra.as_object().expect("an object") {
        keys[key] = value.clone();
    }
    l.tcp("rpm", cc, rtt_ms, keys)
}

/// One load connection whose receive window W is above the bandwidth-delay product keeps W frames under way, and the probes
/// take a part p of the link: a round trip takes W/(C(1 - p)). The answer to a self probe waits for the next ACK besides.
#[test]
fn rpm_of_a_window_that_fills_the_queue() {
    for (mbps, window) in [(20.0, 300), (50.0, 400), (10.0, 150)] {
        let l = lab(40.0, 0.0).bare_link("b", mbps, "pfifo limit 1000");
        let r = test(l, "cubic", 20.0, json!({"receive_window_bytes": window * 1448})).run();
        let row = r.flow("rpm");
        // Of the 6000 B of a pair of probes, which may be 5 % of the goodput, 2804 B come back.
        let probes = 0.05 * 2804.0 / 6000.0 * 1448.0 / 1514.0;
        let trip = f64::from(window) * 1514.0 * 8.0 / mbps / 1e3 / (1.0 - probes);
        agrees("foreign", row.rpm_foreign.unwrap(), 60_000.0 / trip, 0.005);
        agrees("self", row.rpm_self.unwrap(), 60_000.0 / trip, 0.01);
        // The same by the median delay that the queue reports.
        let measured = 60_000.0 / (20.0 + r.queue("b", "all").sojourn_ms_p50.unwrap());
        agrees("foreign, by the queue", row.rpm_foreign.unwrap(), measured, 0.02);
        agrees("self, by the queue", row.rpm_self.unwrap(), measured, 0.02);
        agrees("loaded", row.loaded_ms_p50.unwrap(), trip, 0.01);
        agrees("idle", row.idle_ms_p50.unwrap(), 20.0, 0.02);
        assert_eq!(row.rpm_confidence, Some("high"));
        // The load is over before the run is, and its goodput is the link's but for the first interval's start.
        let full = mbps * 1448.0 / 1514.0;
        between("active", row.active_mbps.unwrap(), 0.9 * full, full);
        assert!(row.goodput_mbps < 0.5 * full);
    }
}

/// What the server has committed to a connection delays self probes only: so much at the connection's rate.
#[test]
fn committed_data_delays_self_probes() {
    let rpm = |notsent: u64| {
        let l = lab(30.0, 0.0).bare_link("b", 20.0, "pfifo limit 1000");
        let keys = json!({"receive_window_bytes": 300 * 1448, "notsent_bytes": notsent});
        let r = test(l, "cubic", 20.0, keys).run();
        (r.flow("rpm").rpm_foreign.unwrap(), r.flow("rpm").rpm_self.unwrap())
    };
    let (without, with) = (rpm(0), rpm(100 * 1448));
    agrees("foreign", with.0, without.0, 0.02);
    let more = 60_000.0 / with.1 - 60_000.0 / without.1;
    agrees("self", more, 100.0 * 1514.0 * 8.0 / 20.0 / 1e3, 0.05);
}

/// A lost packet of a foreign probe waits for a timer, and that of a load connection for the next ACKs. So self probes are
/// the better ones in a FIFO so short that packets are lost and hardly wait, and not where the wait is long.
#[test]
fn losses_delay_foreign_probes_more() {
    let ratio = |limit: u32| {
        let l = lab(40.0, 0.0).link("b", 100.0, &format!("pfifo limit {limit}"));
        let keys = json!({"connections": 16, "notsent_bytes": 1000});
        let r = test(l, "cubic", 20.0, keys).run();
        r.flow("rpm").rpm_self.unwrap() / r.flow("rpm").rpm_foreign.unwrap()
    };
    between("self over foreign, short", ratio(10), 1.2, 4.0);
    between("self over foreign, long", ratio(1000), 0.5, 1.0);
}

/// In `fq_codel` a new connection goes first.
#[test]
fn fair_queueing_answers_at_once() {
    let rpm = |qdisc: &str| {
        let l = lab(40.0, 0.0).link("b", 20.0, qdisc);
        let r = test(l, "cubic", 20.0, json!({"connections": 16, "notsent_bytes": 16_000})).run();
        let row = r.flow("rpm");
        (row.rpm_foreign.unwrap(), row.rpm_self.unwrap(), row.goodput_mbps)
    };
    let (fifo, fq) = (rpm("pfifo limit 500"), rpm("fq_codel"));
    assert!(fq.0 > 4.0 * fifo.0, "foreign {} and {}", fq.0, fifo.0);
    between("foreign in fq_codel", fq.0, 2000.0, 3000.0);
    assert!(fq.1 < fq.0, "self {} and foreign {}", fq.1, fq.0);
}
