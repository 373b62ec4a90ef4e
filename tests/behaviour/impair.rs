//! Explore.
use crate::lab::lab;
use serde_json::json;

#[test]
fn explore() {
    for netem in [
        "delay 7500us",
        "delay 7500us 100us",
        "delay 7500us 500us",
        "delay 2ms 1ms 10%",
        "delay 4ms 2ms 10%",
        "delay 10ms",
        "delay 10ms 5ms 10%",
        "duplicate 10%",
        "corrupt 0.1%",
        "loss 0.1%",
        "loss 0.1% ecn",
    ] {
        for cc in ["reno", "cubic", "prague"] {
            for q in ["dualpi2", "pfifo limit 300"] {
                let r = lab(60.0, 20.0)
                    .link("b", 50.0, q)
                    .impair("b", "both", netem)
                    .tcp("f", cc, 80.0, json!({}))
                    .run();
                let f = r.flow("f");
                println!(
                    "{netem:22} {cc:7} {q:16} {:6.2} Mb/s resent {:6} of {:6} dropped {:5} ce {:6} rtt {:.1} p99 {:.1}",
                    f.goodput_mbps,
                    f.retransmits,
                    f.sent_packets,
                    f.dropped_packets,
                    f.ce_packets,
                    f.rtt_ms_mean.unwrap(),
                    f.rtt_ms_p99.unwrap()
                );
            }
        }
    }
}
