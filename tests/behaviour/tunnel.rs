//! Tunnels: what packets cost inside, whose queue they share, what the exit makes of marks, and what it drops.

use serde_json::{Value, json};

use crate::lab::{Lab, Result, lab};

/// A tunnel around all flows over these links, without overhead but for what `extra` says.
fn tunnel(l: Lab, links: &[&str], extra: &Value) -> Lab {
    let flows: Vec<_> =
        l.0["flows"].as_array().expect("a list").iter().map(|f| f["name"].clone()).collect();
    let mut one = json!({"name": "t", "flows": flows, "links": links, "overhead_bytes": 0, "padding_bytes": 1,
        "trailer_bytes": 0, "mtu_bytes": 9000, "ecn": "normal", "copies_dscp": false, "replay_window": 0});
    for (key, value) in extra.as_object().expect("an object") {
        one[key] = value.clone();
    }
    l.with("tunnels", json!([one]))
}

fn lost(r: &Result, at: &str, by: &str) -> u64 {
    let rows = r.0.losses.iter().filter(|row| row.lost_at == at && row.lost_by == by);
    rows.map(|row| row.lost_packets).sum()
}

/// WireGuard's 60 bytes and its padding to 16, of every packet that leaves the link.
#[test]
fn a_link_carries_the_outer_length() {
    for frame in [100_u32, 777, 1434] {
        let l = lab(2.0, 0.0).link("b", 10.0, "pfifo").cbr(
            "f",
            1.0,
            "ect0",
            json!({"packet_bytes": frame}),
        );
        let wireguard = json!({"overhead_bytes": 60, "padding_bytes": 16, "mtu_bytes": 1420});
        let r = tunnel(l, &["b"], &wireguard).run();
        let all = r.queue("b", "all");
        let payload = (frame - 14).next_multiple_of(16).min(1420);
        let bits = all.sent_packets * u64::from(14 + 60 + payload) * 8;
        assert!((all.rate_mbps * 2e6 - bits as f64).abs() < 1.0, "{frame}: {all:?}");
    }
}

/// A sparse flow next to one that overloads the link: each has its queue, unless both are in one tunnel.
#[test]
fn flows_in_a_tunnel_share_a_queue_of_every_fq() {
    for qdisc in ["fq_codel", "fq_pie", "sfq", "cake unlimited", "cake unlimited dual-srchost"] {
        let outside = lab(10.0, 2.0)
            .link("b", 10.0, qdisc)
            .cbr("sparse", 0.1, "not-ect", json!({}))
            .cbr("greedy", 20.0, "not-ect", json!({}));
        let waits = |r: &Result, name: &str| r.flow(name).sojourn_ms_mean.expect("some arrive");
        let r = outside.run();
        assert!(waits(&r, "sparse") < 0.2 * waits(&r, "greedy"), "{qdisc}");
        let r = tunnel(outside, &["b"], &json!({})).run();
        let ratio = waits(&r, "sparse") / waits(&r, "greedy");
        assert!((0.5..2.0).contains(&ratio), "{qdisc}: {ratio}");
    }
}

/// Behind the tunnel the second link sees what the exit has made of a field that was rewritten inside.
#[test]
fn the_exit_combines_both_headers() {
    let run = |mode: &str, inner: &str, outer: &str, to: &str| {
        let l = lab(1.0, 0.0).link("b", 10.0, "pfifo").link("c", 10.0, "pfifo");
        let mut l = l.cbr("f", 1.0, inner, json!({}));
        if outer != to {
            l.0["rewrites"] =
                json!([{"flow": "f", "where": "before", "link": "b", "from": outer, "to": to}]);
        }
        let r = tunnel(l, &["b"], &json!({"ecn": mode})).run();
        let f = r.flow("f");
        assert_eq!(f.lost_packets, lost(&r, "tunnel.t", "decapsulation"));
        let part = |n: u64| n as f64 / f.offered_packets as f64;
        (part(f.lost_packets) > 0.9, part(f.ce_packets) > 0.9)
    };
    for inner in ["not-ect", "ect0", "ect1"] {
        for to in ["not-ect", "ect0", "ect1", "ce"] {
            let is_ce = to == "ce";
            let expected = (is_ce && inner == "not-ect", is_ce && inner != "not-ect");
            assert_eq!(run("normal", inner, inner, to), expected, "{inner} in {to}");
            assert_eq!(run("compatibility", inner, "not-ect", to), expected, "{inner} in {to}");
            assert_eq!(run("copied", inner, inner, to), (false, false), "{inner} in {to}");
            assert_eq!(run("bleached", inner, "not-ect", to), (false, false), "{inner} in {to}");
        }
    }
}

/// A delayed packet is as many packets late as come within the delay. A window of one more drops nothing.
#[test]
fn a_replay_window_drops_what_is_later_than_it() {
    // A packet each ms. One of four is not delayed by 20 ms, so 20 later ones may be before a delayed one.
    let l = lab(10.0, 0.0)
        .link("b", 100.0, "pfifo limit 10000")
        .impair("b", "forward", "delay 20ms reorder 25%")
        .cbr("f", 12.112, "not-ect", json!({}));
    let dropped = |window: u32| {
        let r = tunnel(l.clone(), &["b"], &json!({"replay_window": window})).run();
        let f = r.flow("f");
        assert_eq!(f.lost_packets, lost(&r, "tunnel.t", "replay"));
        assert_eq!(f.offered_packets, f.delivered_packets + f.lost_packets + f.waiting_packets);
        (f.lost_packets as f64, f.offered_packets as f64)
    };
    assert_eq!(dropped(0).0, 0.0);
    assert_eq!(dropped(21).0, 0.0);
    for window in [20, 15, 10, 5, 1] {
        // One of the packets from the window on to the delay was not delayed, and three of four are delayed. Events
        // overlap over 20 packets, so the part of 10 000 has a standard deviation below sqrt(20 / 10 000) / 2.
        let expected = 0.75 * (1.0 - 0.75_f64.powi(21 - window));
        let (lost, offered) = dropped(window as u32);
        assert!((lost / offered - expected).abs() < 5.0 * 0.0224, "{window}: {lost} of {offered}");
    }
}

/// Each copy of a packet comes out once.
#[test]
fn a_replay_window_drops_copies() {
    let l = lab(5.0, 0.0).link("b", 100.0, "pfifo").impair("b", "forward", "duplicate 100%").cbr(
        "f",
        10.0,
        "ect1",
        json!({}),
    );
    let r = tunnel(l, &["b"], &json!({"replay_window": 64})).run();
    let f = r.flow("f");
    assert_eq!(lost(&r, "tunnel.t", "replay"), f.lost_packets);
    assert!(f.lost_packets.abs_diff(f.delivered_packets) <= 1, "{f:?}");
}

/// In `dualpi2` packets of L overtake those of C by the difference of the two delays.
#[test]
fn a_dual_queue_reorders_a_tunnel_and_one_queue_does_not() {
    let run = |qdisc: &str, window: u32| {
        let l = lab(10.0, 0.0).link("b", 20.0, qdisc);
        let l = l.tcp("l4s", "prague", 10.0, json!({})).tcp("classic", "cubic", 10.0, json!({}));
        let r = tunnel(l, &["b"], &json!({"replay_window": window})).run();
        (lost(&r, "tunnel.t", "replay"), r.flow("classic").goodput_mbps)
    };
    assert_eq!(run("pfifo limit 50", 2).0, 0);
    assert_eq!(run("dualpi2", 8129).0, 0);
    let ((few, slow), (_, usual)) = (run("dualpi2", 8), run("dualpi2", 8129));
    assert!(few > 20 && slow < 0.7 * usual, "{few} drops, {slow} instead of {usual} Mb/s");
}

/// The DSCP of the outer header decides where a packet waits.
#[test]
fn the_outer_dscp_is_zero_or_that_of_the_packet() {
    let tin = |extra: Value| {
        let l = lab(1.0, 0.0).link("b", 10.0, "cake unlimited diffserv4");
        let l = l.cbr("f", 1.0, "not-ect", json!({"dscp": 46}));
        let r = tunnel(l, &["b"], &extra).run();
        let rows = r.0.links.iter().filter(|row| row.queue != "all" && row.sent_packets > 0);
        rows.map(|row| row.queue.clone()).collect::<Vec<_>>()
    };
    assert_ne!(tin(json!({"copies_dscp": true})), tin(json!({"copies_dscp": false})));
}

/// ACKs are inside, too, where the tunnel has a link of their way: nobody filters them there.
#[test]
fn acks_in_a_tunnel_are_not_filtered() {
    let run = |filter: &str, is_inside: bool| {
        let l = lab(5.0, 1.0).link("b", 50.0, "pfifo").link("up", 1.0, &format!("cake {filter}"));
        let l = l.tcp("f", "cubic", 10.0, json!({"path": ["b"], "reverse_path": ["up"]}));
        let l = if is_inside { tunnel(l, &["b", "up"], &json!({"overhead_bytes": 60})) } else { l };
        let r = l.run();
        (r.queue("up", "all").dropped_packets, r.flow("f").goodput_mbps)
    };
    assert_ne!(run("ack-filter", false), run("no-ack-filter", false));
    assert_eq!(run("ack-filter", true), run("no-ack-filter", true));
}

#[test]
fn wrong_tunnels_are_told() {
    let refused = |change: &dyn Fn(&mut Value)| {
        let l = lab(1.0, 0.0).link("b", 10.0, "pfifo").link("c", 10.0, "pfifo");
        let mut l = tunnel(l.tcp("f", "cubic", 10.0, json!({})), &["b"], &json!({}));
        change(&mut l.0);
        l4slab_core::scenario::Run::from_json(&l.0.to_string()).err().map(|e| e.0)
    };
    assert_eq!(refused(&|_| {}), None);
    let says = |change: &dyn Fn(&mut Value), text: &str| {
        let found = refused(change).expect("it is wrong");
        assert!(found.contains(text), "{found}");
    };
    says(&|run| run["tunnels"][0]["links"] = json!(["x"]), "there is no link \"x\"");
    says(&|run| run["tunnels"][0]["flows"] = json!(["x"]), "there is no flow \"x\"");
    says(&|run| run["flows"][0]["path"] = json!(["c"]), "crosses none of its links");
    says(&|run| run["tunnels"][0]["mtu_bytes"] = json!(20), "an MTU of 68 to 9000");
    says(&|run| run["tunnels"][0]["padding_bytes"] = json!(0), "padding is at least 1");
    says(
        &|run| {
            let mut other = run["tunnels"][0].clone();
            other["name"] = json!("u");
            run["tunnels"].as_array_mut().expect("a list").push(other);
        },
        "is in tunnel \"u\" on the same links",
    );
}
