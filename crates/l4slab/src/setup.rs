//! The usual set-up in a few words.

use std::time::Duration;

use serde_json::{Value, json};

use crate::lab::nanoseconds;
use crate::{Error, Lab};

/// Links, rivals and endpoints; [`Setup::start`] makes a [`Lab`] of them. Every flow crosses all links in the order in
/// which they were added, and its replies cross none (pure delay).
#[derive(Clone, Debug)]
pub struct Setup {
    links: Vec<Value>,
    flows: Vec<Value>,
    duration: Duration,
    warmup: Duration,
    seed: u64,
}

impl Default for Setup {
    fn default() -> Setup {
        let (duration, warmup) = (Duration::from_secs(10), Duration::ZERO);
        Setup { links: Vec::new(), flows: Vec::new(), duration, warmup, seed: 1 }
    }
}

impl Setup {
    /// Nothing yet; 10 s, no warm-up, seed 1.
    pub fn new() -> Setup {
        Setup::default()
    }
    /// A link of this rate in bits per second, with what one would give to `tc qdisc replace … root`, such as
    /// `"dualpi2 target 15ms"`.
    pub fn link(mut self, name: &str, rate_bps: u64, qdisc: &str) -> Setup {
        self.links.push(json!({ "name": name, "rate_bps": rate_bps, "qdisc": qdisc }));
        self
    }
    /// A TCP flow in bulk, whose name in the results is that of its congestion control, with a number from the second on
    /// (`"cubic2"`). `rtt`: the round trip without queues.
    pub fn rival(mut self, cc: &str, rtt: Duration) -> Setup {
        let before = self.flows.iter().filter(|flow| flow["cc"] == cc).count();
        let name = if before == 0 { cc.to_owned() } else { format!("{cc}{}", before + 1) };
        self.flows.push(json!({ "name": name, "cc": cc, "rtt_ns": nanoseconds(rtt) }));
        self
    }
    /// A flow whose two ends are in your test, see [`Lab::ends`]. UDP over IPv4 in frames of Ethernet, 1500 bytes at most.
    pub fn endpoint(mut self, name: &str, rtt: Duration) -> Setup {
        let rtt = nanoseconds(rtt);
        self.flows.push(json!({ "name": name, "kind": "endpoint", "rtt_ns": rtt }));
        self
    }
    /// When the run ends.
    pub fn duration(self, duration: Duration) -> Setup {
        Setup { duration, ..self }
    }
    /// What the results leave out at the beginning.
    pub fn warmup(self, warmup: Duration) -> Setup {
        Setup { warmup, ..self }
    }
    pub fn seed(self, seed: u64) -> Setup {
        Setup { seed, ..self }
    }

    /// # Errors
    /// One sentence that names the part and the fix.
    pub fn start(self) -> Result<Lab, Error> {
        if self.links.is_empty() {
            return Err(Error(
                "a lab needs a link; add .link(\"b\", 10_000_000, \"dualpi2\")".into(),
            ));
        }
        let path: Vec<_> = self.links.iter().map(|link| link["name"].clone()).collect();
        let mut flows = self.flows;
        for flow in &mut flows {
            flow["path"] = path.clone().into();
        }
        let run = json!({
            "duration_ns": nanoseconds(self.duration), "warmup_ns": nanoseconds(self.warmup), "seed": self.seed,
            "links": self.links, "flows": flows,
        });
        Lab::from_run(&run.to_string())
    }
}
