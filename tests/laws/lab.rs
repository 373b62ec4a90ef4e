//! Runs in few words, and what one reads off them.
#![allow(dead_code)] // each test file uses its own part

use std::collections::BTreeMap;

use l4slab_core::scenario::Run;
use l4slab_core::sim::recording::{FlowRow, LinkRow};
use l4slab_core::sim::{Recording, Simulation};
use serde_json::{Value, json};

/// A full Ethernet frame without FCS, and the payload it carries with timestamps.
pub const FRAME: f64 = 1514.0;
pub const MSS: f64 = 1448.0;

/// Description of a run. Times in seconds, RTTs in milliseconds, rates in Mb/s.
#[derive(Clone)]
pub struct Lab(pub Value);

/// As JSON, which the example `run` takes.
impl std::fmt::Debug for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

pub fn lab(seconds: f64, warmup: f64) -> Lab {
    Lab(json!({
        "duration_ns": ns(seconds), "warmup_ns": ns(warmup), "seed": 1,
        "links": [], "flows": [], "at": [], "rewrites": [], "impairs": [],
    }))
}

pub fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}
pub fn bps(mbps: f64) -> u64 {
    (mbps * 1e6).round() as u64
}

impl Lab {
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Lab {
        self.0[key] = value.into();
        self
    }
    fn push(mut self, list: &str, base: Value, extra: Value) -> Lab {
        let mut item = base;
        for (k, v) in extra.as_object().expect("an object") {
            item[k] = v.clone();
        }
        self.0[list].as_array_mut().expect("a list").push(item);
        self
    }
    pub fn link(self, name: &str, mbps: f64, qdisc: &str) -> Lab {
        self.push("links", json!({"name": name, "rate_bps": bps(mbps), "qdisc": qdisc}), json!({}))
    }
    /// A token bucket without a bucket: frames leave exactly one serialisation time apart.
    pub fn bare_link(self, name: &str, mbps: f64, qdisc: &str) -> Lab {
        let base = json!({"name": name, "rate_bps": bps(mbps), "qdisc": qdisc, "burst_bytes": 1});
        self.push("links", base, json!({}))
    }
    fn path(&self) -> Vec<Value> {
        self.0["links"].as_array().expect("a list").iter().map(|l| l["name"].clone()).collect()
    }
    /// A TCP flow through all links that exist so far.
    pub fn tcp(self, name: &str, cc: &str, rtt_ms: f64, extra: Value) -> Lab {
        let base =
            json!({"name": name, "cc": cc, "rtt_ns": ns(rtt_ms * 1e-3), "path": self.path()});
        self.push("flows", base, extra)
    }
    /// A source of constant rate through all links that exist so far; `ecn` is its codepoint.
    pub fn cbr(self, name: &str, mbps: f64, ecn: &str, extra: Value) -> Lab {
        let base = json!({"name": name, "kind": "cbr", "rtt_ns": 0, "path": self.path(),
                          "rate_bps": bps(mbps), "ecn": ecn});
        self.push("flows", base, extra)
    }
    pub fn at(self, seconds: f64, link: &str, change: Value) -> Lab {
        self.push("at", json!({"time_ns": ns(seconds), "link": link}), change)
    }
    /// netem before a link.
    pub fn impair(self, before: &str, direction: &str, netem: &str) -> Lab {
        let base = json!({"name": "i", "netem": netem, "before": before, "direction": direction});
        self.push("impairs", base, json!({}))
    }
    pub fn simulation(&self) -> Simulation {
        let run = Run::from_json(&self.0.to_string()).unwrap_or_else(|e| panic!("{e}: {}", self.0));
        Simulation::new(&run).unwrap_or_else(|e| panic!("{e}: {}", self.0))
    }
    pub fn run(&self) -> Result {
        Result(self.simulation().run())
    }
}

/// A recording, by names.
pub struct Result(pub Recording);

impl Result {
    pub fn flow(&self, name: &str) -> &FlowRow {
        self.0.flows.iter().find(|f| f.flow == name).expect("the flow exists")
    }
    /// `queue`: `all`, or one inside.
    pub fn queue(&self, link: &str, queue: &str) -> &LinkRow {
        let row = self.0.links.iter().find(|l| l.link == link && l.queue == queue);
        row.expect("the queue exists")
    }
    fn column(&self, name: &str, row: impl Fn(usize) -> bool) -> Vec<(f64, f64)> {
        let s = &self.0.series;
        let (_, values) = s.columns.iter().find(|(n, _)| *n == name).expect("the column exists");
        let rows = (0..s.time_s.len()).filter(|&i| row(i));
        rows.map(|i| (s.time_s[i], values[i])).collect()
    }
    /// A time series of a flow group: (seconds, value); missing values are NaN.
    pub fn flow_series(&self, flow: &str, column: &str) -> Vec<(f64, f64)> {
        let n = self.0.flow_names.iter().position(|f| f == flow).expect("the flow exists");
        self.column(column, |i| usize::from(self.0.series.flow[i]) == n)
    }
    /// A time series of a queue.
    pub fn queue_series(&self, link: &str, queue: &str, column: &str) -> Vec<(f64, f64)> {
        let n = self.0.link_names.iter().position(|l| l == link).expect("the link exists");
        let s = &self.0.series;
        self.column(column, |i| usize::from(s.link[i]) == n && s.queue[i] == Some(queue))
    }
}

/// Everything a run leaves behind, column by column, printed such that no bit is lost.
pub fn columns(r: &Recording) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::<String, Vec<String>>::new();
    let rows = |rows: serde_json::Result<Value>| rows.expect("rows are serialisable");
    let flows = rows(serde_json::to_value(&r.flows));
    let links = rows(serde_json::to_value(&r.links));
    for (table, rows) in [("flows", flows), ("links", links)] {
        for row in rows.as_array().expect("a list") {
            for (column, value) in row.as_object().expect("a row") {
                all.entry(format!("{table}.{column}")).or_default().push(value.to_string());
            }
        }
    }
    let s = &r.series;
    let names = s.flow.iter().zip(&s.link).zip(&s.queue);
    all.insert("series.row".into(), names.map(|n| format!("{n:?}")).collect());
    let time = [("time_s", &s.time_s)].into_iter();
    for (name, column) in time.chain(s.columns.iter().map(|(name, column)| (*name, column))) {
        let values = column.iter().map(|v| format!("{v:?}")).collect();
        all.insert(format!("series.{name}"), values);
    }
    all.insert("transfers".into(), r.transfers.iter().map(|t| format!("{t:?}")).collect());
    all.insert("delivered_packets".into(), vec![r.delivered_packets.to_string()]);
    all
}

/// Mean of the values from `since` on, leaving missing ones out.
pub fn mean_since(series: &[(f64, f64)], since: f64) -> f64 {
    let values = series.iter().filter(|(t, v)| *t > since && !v.is_nan());
    let (n, sum) = values.fold((0.0, 0.0), |(n, sum), (_, v)| (n + 1.0, sum + v));
    sum / n
}

/// `measured` agrees with `law` within the relative tolerance. Prints both: `cargo test --
/// --nocapture` is the table of laws.
#[track_caller]
pub fn agrees(what: &str, measured: f64, law: f64, tolerance: f64) {
    let off = measured / law - 1.0;
    println!("{what}: measured {measured:.4}, law {law:.4}, off {:+.1} %", 100.0 * off);
    assert!(off.abs() <= tolerance, "{what}: measured {measured}, law {law}, allowed {tolerance}");
}

/// `measured` agrees with what was published within an absolute tolerance.
#[track_caller]
pub fn near(what: &str, measured: f64, published: f64, tolerance: f64) {
    agrees(what, measured, published, tolerance / published.abs());
}

/// `measured` lies between the two.
#[track_caller]
pub fn between(what: &str, measured: f64, low: f64, high: f64) {
    println!("{what}: measured {measured:.4}, allowed {low:.4} to {high:.4}");
    assert!(low <= measured && measured <= high, "{what}: {measured} is not in {low}..{high}");
}
