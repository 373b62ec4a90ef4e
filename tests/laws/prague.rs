//! Prague beside CUBIC with classic ECN: what its detector makes of classic and of L4S queues
//! (arXiv:1911.00710), and what the fallback then does.

use l4slab_core::cc::registry;
use serde_json::{Value, json};

use crate::lab::{between, lab, ns};

/// What became of one Prague and one CUBIC flow at 50 Mb/s.
struct Pair {
    /// Prague's share of what both sent.
    share: f64,
    /// The detector's score; empty if there is none.
    score: Vec<f64>,
}

impl Pair {
    fn highest(&self) -> f64 {
        self.score.iter().copied().fold(0.0, f64::max)
    }
    fn last(&self) -> f64 {
        *self.score.last().expect("a detector")
    }
}

fn pair(qdisc: &str, rtt_ms: f64, options: Value) -> Pair {
    joining(0.0, qdisc, rtt_ms, options)
}

/// Prague comes `late` seconds after CUBIC.
fn joining(late: f64, qdisc: &str, rtt_ms: f64, options: Value) -> Pair {
    let r = lab(late + 40.0, late + 10.0)
        .link("l", 50.0, qdisc)
        .tcp("prague", "prague", rtt_ms, json!({"options": options, "start_ns": ns(late)}))
        .tcp("cubic", "cubic", rtt_ms, json!({"ecn": "classic"}))
        .run();
    let detects = options.get("fallback").is_some();
    let score = match detects {
        true => r.flow_series("prague", "classic_ecn_score").iter().map(|(_, v)| *v).collect(),
        false => Vec::new(),
    };
    let share = r.flow("prague").share.expect("both send");
    let pair = Pair { share, score };
    println!("{qdisc} at {rtt_ms} ms, {options}: share {share:.3}, score {:.2}", pair.highest());
    pair
}

const RED: &str = "red limit 400000 min 33333 max 100000 avpkt 1000 burst 56 bandwidth 50mbit \
                   probability 0.02 ecn adaptive";

/// One queue for both that marks like RFC 3168: without the fallback Prague takes nine tenths.
#[test]
fn the_fallback_shares_classic_queues() {
    for qdisc in ["fq_codel flows 1", "pie ecn", RED] {
        let off = pair(qdisc, 20.0, json!({}));
        let on = pair(qdisc, 20.0, json!({"fallback": "correct"}));
        assert!(on.last() > 9.0, "{qdisc}: {}", on.last());
        between(&format!("Prague's share without fallback, {qdisc}"), off.share, 0.9, 0.97);
        between(&format!("Prague's share with fallback, {qdisc}"), on.share, 0.45, 0.67);
    }
}

#[test]
fn detection_alone_changes_nothing() {
    let off = pair("fq_codel flows 1", 20.0, json!({}));
    let detect = pair("fq_codel flows 1", 20.0, json!({"fallback": "detect"}));
    assert!(detect.last() > 9.0, "{}", detect.last());
    assert_eq!(off.share, detect.share);
}

#[test]
fn dualpi2_is_taken_for_l4s_except_by_the_mistaken_constants() {
    let off = pair("dualpi2", 20.0, json!({}));
    let correct = pair("dualpi2", 20.0, json!({"fallback": "correct"}));
    assert!(correct.highest() < 1.0, "{}", correct.highest());
    assert_eq!(off.share, correct.share);
    let mistaken = pair("dualpi2", 20.0, json!({"fallback": "buggy24"}));
    assert!(mistaken.last() > 9.0, "{}", mistaken.last());
    assert!(mistaken.share < off.share / 3.0, "{} {}", mistaken.share, off.share);
}

/// A finding of the ECT(1) tests, whose Prague joins a CUBIC flow after 10 s: where the AQM's
/// settings are tight, swings stay below 750 us, the queue passes for L4S, and CUBIC starves.
#[test]
fn a_tight_codel_goes_undetected() {
    let tight = "fq_codel flows 1 target 1ms interval 20ms";
    for (version, rtt_ms) in [("0.6", 20.0), ("0.6", 80.0), ("0.7", 20.0)] {
        let options = json!({"version": version, "fallback": "correct"});
        let p = joining(10.0, tight, rtt_ms, options);
        assert!(p.highest() < 8.0, "{version}: {}", p.highest());
        assert!(p.share > 0.9, "{version}: {}", p.share);
    }
}

/// Another one: jitter of the path passes for a classic queue.
#[test]
fn jitter_is_taken_for_a_classic_queue() {
    let lone = |jitter: &str| {
        let base = lab(40.0, 10.0).link("l", 50.0, "dualpi2");
        let base = if jitter.is_empty() { base } else { base.impair("l", "both", jitter) };
        let options = json!({"version": "0.6", "fallback": "correct"});
        let r = base.tcp("prague", "prague", 80.0, json!({"options": options})).run();
        let score = r.flow_series("prague", "classic_ecn_score");
        let last = score.last().expect("samples").1;
        println!("{jitter:?}: score {last:.2}, {:.1} Mb/s", r.flow("prague").rate_mbps);
        (last, r.flow("prague").rate_mbps)
    };
    let (calm, full) = lone("");
    let (shaken, less) = lone("delay 4ms 2ms 10%");
    assert!(calm < 1.0 && shaken > 9.0, "{calm} {shaken}");
    assert!(less < 0.8 * full, "{less} {full}");
}

/// Prague 0.5 as published: in a queue without ECN slow start never ends, whatever is lost. Only the
/// receiver's window holds it, and others get nothing.
#[test]
fn slow_start_that_ignores_losses_starves_others() {
    let share = |loss| {
        let r = lab(20.0, 10.0)
            .link("l", 50.0, "pfifo limit 50")
            .tcp(
                "prague",
                "prague",
                20.0,
                json!({
                    "options": {"version": "0.5", "loss_in_slow_start": loss},
                    "receive_window_bytes": 3_145_728,
                }),
            )
            .tcp("cubic", "cubic", 20.0, json!({"ecn": "classic"}))
            .run();
        let prague = r.flow("prague");
        println!("{loss}: share {:?}, lost {:?} %", prague.share, prague.drop_pct);
        (prague.share.expect("both send"), prague.drop_pct.expect("it sends"))
    };
    let (fair, few) = share("halves");
    assert!((0.2..0.8).contains(&fair) && few < 1.0, "{fair} {few}");
    let (all, most) = share("ignored");
    assert!(all > 0.85 && most > 80.0, "{all} {most}");
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    for (given, said) in [
        (vec![("version", "0.6"), ("fallback", "buggy24")], "alpha_bits 24"),
        (vec![("version", "0.8")], "0.5, 0.6 or 0.7"),
    ] {
        let refusal = registry::parse("prague", &given).unwrap_err().to_string();
        assert!(refusal.contains(said), "{refusal}");
    }
}
