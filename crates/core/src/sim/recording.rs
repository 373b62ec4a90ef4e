//! What a run leaves behind: a row per flow group, a row per queue, and time series.

use std::ops::Range;

use serde::Serialize;

use super::{Path, Simulation};
use crate::aqm::service::Passed;
use crate::element::common_mode;
use crate::net::link::{Link, QueueReport, QueueSample};
use crate::net::tap::Tap;
use crate::probe::{
    Bin, Distribution, Gauges, SenderState, Series, Totals, Transfer, TransferKind,
};
use crate::scenario::FlowSpec;
use crate::time::Span;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Recording {
    pub flows: Vec<FlowRow>,
    pub links: Vec<LinkRow>,
    pub series: Series,
    /// In order of their start.
    pub transfers: Vec<Transfer>,
    pub histograms: Vec<Histogram>,
    pub flow_names: Vec<String>,
    pub link_names: Vec<String>,
    /// Packets delivered to receivers over the whole run.
    pub delivered_packets: u64,
}

/// A flow group over the measured interval. Column names end in their unit.
#[derive(Clone, Debug, Serialize)]
pub struct FlowRow {
    pub flow: String,
    pub cc: String,
    pub count: u32,
    /// Payload acknowledged (UDP: received).
    pub goodput_mbps: f64,
    /// Ethernet frames that left the last link.
    pub rate_mbps: f64,
    /// Of the goodput of all groups.
    pub share: Option<f64>,
    pub rtt_ms_mean: Option<f64>,
    pub rtt_ms_p50: Option<f64>,
    pub rtt_ms_p99: Option<f64>,
    pub sojourn_ms_mean: Option<f64>,
    pub sojourn_ms_p50: Option<f64>,
    pub sojourn_ms_p99: Option<f64>,
    pub sent_packets: u64,
    pub delivered_packets: u64,
    pub ce_packets: u64,
    pub dropped_packets: u64,
    pub ce_pct: Option<f64>,
    pub sce_pct: Option<f64>,
    pub drop_pct: Option<f64>,
    pub retransmits: u64,
    pub transfers: u32,
    pub completion_ms_p50: Option<f64>,
    pub completion_ms_p99: Option<f64>,
    /// Transfers, requests and frames that were not over at the end.
    pub unfinished: u64,
    /// From an input to the first byte of what it changes, without the wait for the next frame.
    pub view_ms_p50: Option<f64>,
    pub view_ms_p99: Option<f64>,
    /// How ECN negotiation ended: off, classic, accecn, or mixed if not all flows of the group ended
    /// alike (a lost SYN is repeated without ECN); of a UDP flow nothing.
    pub ecn_mode: Option<&'static str>,
}

/// A queue of a link over the measured interval; `queue` is `all`, or one inside.
#[derive(Clone, Debug, Serialize)]
pub struct LinkRow {
    pub link: String,
    pub queue: String,
    pub rate_mbps: f64,
    pub utilisation: f64,
    pub sojourn_ms_mean: Option<f64>,
    pub sojourn_ms_p50: Option<f64>,
    pub sojourn_ms_p99: Option<f64>,
    pub sojourn_ms_max: Option<f64>,
    pub arrived_packets: u64,
    pub sent_packets: u64,
    pub dropped_packets: u64,
    pub dropped_overflow_packets: u64,
    pub marked_packets: u64,
    pub step_marked_packets: u64,
    pub ce_pct: Option<f64>,
    pub sce_pct: Option<f64>,
    pub drop_pct: Option<f64>,
    pub backlog_packets_max: u64,
}

/// The distribution behind the percentiles of a row: of a flow group, or of a queue of a link.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// What the columns of its percentiles begin with.
    pub quantity: &'static str,
    pub flow: Option<usize>,
    pub link: Option<usize>,
    pub queue: Option<&'static str>,
    pub bins: Vec<Bin>,
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// A flow group: one `[[flow]]` table.
pub(super) struct Group {
    name: String,
    /// Congestion control of TCP flows, else the kind.
    cc: String,
    count: u32,
    /// The places of its flows.
    pub seats: Range<usize>,
    pub forward: Path,
    pub back: Path,
    /// The first and the last link on the way to the receivers.
    pub first_and_last: (usize, usize),
    /// What was counted up to the last sample, and when measuring began.
    sampled: Counted,
    base: Counted,
    /// Smoothed RTT, sampled at fixed intervals.
    srtt: Distribution,
}

/// Counters of a flow group since the start.
#[derive(Copy, Clone, Default)]
struct Counted {
    packets: Passed,
    totals: Totals,
}

impl Group {
    pub fn new(
        spec: &FlowSpec,
        seats: Range<usize>,
        forward: Path,
        back: Path,
        first_and_last: (usize, usize),
    ) -> Group {
        Group {
            name: spec.name.clone(),
            cc: spec.traffic.sender_name().to_owned(),
            count: spec.count,
            seats,
            forward,
            back,
            first_and_last,
            sampled: Counted::default(),
            base: Counted::default(),
            srtt: Distribution::default(),
        }
    }
}

impl<T: Tap> Simulation<T> {
    /// What has been counted of a group so far.
    fn counted(&self, group: usize) -> Counted {
        let g = &self.groups[group];
        let mut all = Counted::default();
        for link in g.forward.nodes.iter().filter_map(|n| self.network.link(*n)) {
            all.packets += link.passed(group);
        }
        for seat in &self.seats[g.seats.clone()] {
            all.totals += seat.flow.totals();
        }
        all
    }

    /// Warm-up is over: statistics start anew.
    pub(super) fn begin_measuring(&mut self) {
        self.is_measuring = true;
        for i in 0..self.groups.len() {
            self.groups[i].base = self.counted(i);
        }
        for i in 0..self.network.links().count() {
            self.network.link_mut(i).begin_measuring(self.now);
        }
    }

    pub(super) fn take_sample(&mut self) {
        let t = self.now.as_secs_f64();
        for i in 0..self.groups.len() {
            self.sample_group(i, t);
        }
        let span = self.sample.as_secs_f64();
        for i in 0..self.network.links().count() {
            sample_link(self.network.link_mut(i), i as u16, t, span, &mut self.series);
        }
    }

    fn sample_group(&mut self, i: usize, t: f64) {
        let now = self.counted(i);
        let before = std::mem::replace(&mut self.groups[i].sampled, now);
        let mbps = |bytes: u64| bytes as f64 * 8e-6 / self.sample.as_secs_f64();
        let packets = now.packets - before.packets;
        let series = &mut self.series;
        series.row(t, i as u16, u16::MAX, None);
        series.gauge("rate_mbps", mbps(packets.bytes));
        series.gauge("goodput_mbps", mbps(now.totals.acked_bytes - before.totals.acked_bytes));
        series.gauge("sent_packets", packets.sent as f64);
        series.gauge("delivered_packets", packets.delivered as f64);
        series.gauge("ce_packets", packets.ce as f64);
        series.gauge("sce_packets", packets.sce as f64);
        series.gauge("dropped_packets", packets.dropped as f64);
        // Whole numbers: their sum does not depend on the order.
        let (mut n, mut cwnd, mut srtt) = (0, 0, Span::ZERO);
        let g = &mut self.groups[i];
        for seat in &self.seats[g.seats.clone()] {
            seat.flow.senders(&mut |sender: SenderState| {
                // The controller's state is that of the group's first active flow.
                if n == 0
                    && let Some(probe) = sender.controller
                {
                    probe(series);
                }
                n += 1;
                cwnd += u64::from(sender.cwnd);
                srtt += sender.srtt;
                if self.is_measuring {
                    g.srtt.record(sender.srtt);
                }
            });
        }
        if n > 0 {
            series.gauge("cwnd_packets", cwnd as f64 / f64::from(n));
            series.gauge("srtt_ms", srtt.as_millis_f64() / f64::from(n));
        }
    }
}

fn sample_link(link: &mut Link, i: u16, t: f64, span: f64, series: &mut Series) {
    let queues = link.sample();
    for (at, queue) in queues.iter().enumerate() {
        series.row(t, u16::MAX, i, Some(queue.name));
        record_queue(series, queue, span);
        if at > 0 {
            continue;
        }
        let mut gauges = CoupledGauge { series, coupled: None };
        link.aqm().probe(&mut gauges);
        // p_L as RFC 9332 has it: the larger of the coupled and the native probability. A step has
        // no probability but a share: that of the low-latency packets it marked in the interval.
        if let Some(coupled) = gauges.coupled
            && let Some(low) = queues.iter().find(|q| q.name == "L" && q.is_present)
        {
            let native = low.counts.step_marked as f64 / low.counts.sent.max(1) as f64;
            series.gauge("p_l_native", native);
            series.gauge("p_l", coupled.max(native));
        }
    }
}

/// Passes gauges on and keeps the coupled probability.
struct CoupledGauge<'a> {
    series: &'a mut Series,
    coupled: Option<f64>,
}

impl Gauges for CoupledGauge<'_> {
    fn gauge(&mut self, name: &'static str, value: f64) {
        if name == "p_l_coupled" {
            self.coupled = Some(value);
        }
        self.series.gauge(name, value);
    }
}

fn record_queue(series: &mut Series, queue: &QueueSample, span: f64) {
    let c = &queue.counts;
    series.gauge("rate_mbps", c.sent_bytes as f64 * 8e-6 / span);
    series.gauge("marked_packets", c.marked as f64);
    series.gauge("sce_marked_packets", c.sce_marked as f64);
    series.gauge("dropped_packets", c.dropped as f64);
    series.gauge("dropped_overflow_packets", c.overflowed as f64);
    if c.sent > 0 {
        series.gauge("sojourn_ms", c.sojourn_ns as f64 / c.sent as f64 * 1e-6);
        series.gauge("sojourn_ms_min", queue.range.shortest.as_millis_f64());
        series.gauge("sojourn_ms_max", queue.range.longest.as_millis_f64());
    }
    series.gauge("backlog_packets", queue.backlog as f64);
}

/// Closes the books.
pub(super) fn finish<T: Tap>(mut sim: Simulation<T>) -> Recording {
    let seconds = sim.end.since(sim.warmup).as_secs_f64();
    let mut transfers = Vec::new();
    sim.seats.iter_mut().for_each(|seat| seat.flow.transfers(&mut transfers));
    transfers.sort_by_key(|t| (t.start, t.group, t.bytes));
    let times: Vec<Times> = (0..sim.groups.len()).map(|i| times(&sim, i, &transfers)).collect();
    let rows = times.iter().enumerate().map(|(i, times)| flow_row(&sim, i, times, seconds));
    let mut flows: Vec<FlowRow> = rows.collect();
    let total: f64 = flows.iter().map(|f| f.goodput_mbps).sum();
    if total > 0.0 {
        for f in &mut flows {
            f.share = Some(f.goodput_mbps / total);
        }
    }
    let mut histograms = Vec::new();
    for (i, times) in times.iter().enumerate() {
        let of_flow = |(quantity, distribution): (_, &Distribution)| Histogram {
            quantity,
            flow: Some(i),
            link: None,
            queue: None,
            bins: distribution.bins(),
        };
        let quantities = [
            ("rtt_ms", &sim.groups[i].srtt),
            ("sojourn_ms", &times.sojourn),
            ("completion_ms", &times.completion),
            ("view_ms", &times.view),
        ];
        histograms.extend(quantities.map(of_flow));
    }
    let mut links = Vec::new();
    for i in 0..sim.network.links().count() {
        let link = sim.network.link_mut(i);
        for queue in link.report(sim.end) {
            links.push(link_row(&link.name, &queue));
            histograms.push(Histogram {
                quantity: "sojourn_ms",
                flow: None,
                link: Some(i),
                queue: Some(queue.name),
                bins: queue.sojourn.bins(),
            });
        }
    }
    Recording {
        flows,
        links,
        flow_names: sim.groups.iter().map(|g| g.name.clone()).collect(),
        link_names: sim.network.links().map(|l| l.name.clone()).collect(),
        series: sim.series,
        transfers,
        histograms,
        delivered_packets: sim.delivered_packets,
    }
}

/// Of a flow group over the measured interval.
struct Times {
    /// Of each packet in the queues.
    sojourn: Distribution,
    completion: Distribution,
    view: Distribution,
}

fn times<T: Tap>(sim: &Simulation<T>, i: usize, transfers: &[Transfer]) -> Times {
    let sojourn = sim.network.link(sim.groups[i].first_and_last.1).and_then(|link| link.sojourn(i));
    let sojourn = sojourn.expect("the last link of the group's path");
    let (mut completion, mut view) = (Distribution::default(), Distribution::default());
    // What began in the warm-up does not count, but for flows with an end: many a run is such a flow.
    let counts = |t: &&Transfer| t.kind == TransferKind::Flow || t.start >= sim.warmup;
    for t in transfers.iter().filter(|t| usize::from(t.group) == i).filter(counts) {
        match t.kind {
            TransferKind::Input => view.record(t.response.unwrap_or(t.completion)),
            _ => completion.record(t.completion),
        }
    }
    Times { sojourn, completion, view }
}

fn flow_row<T: Tap>(sim: &Simulation<T>, i: usize, times: &Times, seconds: f64) -> FlowRow {
    let (g, counted) = (&sim.groups[i], sim.counted(i));
    let packets = counted.packets - g.base.packets;
    let acked = counted.totals.acked_bytes - g.base.totals.acked_bytes;
    let Times { sojourn, completion, view } = times;
    let flows = || sim.seats[g.seats.clone()].iter().map(|seat| &seat.flow);
    FlowRow {
        flow: g.name.clone(),
        cc: g.cc.clone(),
        count: g.count,
        goodput_mbps: acked as f64 * 8e-6 / seconds,
        rate_mbps: packets.bytes as f64 * 8e-6 / seconds,
        share: None,
        rtt_ms_mean: g.srtt.mean_ms(),
        rtt_ms_p50: g.srtt.quantile_ms(0.5),
        rtt_ms_p99: g.srtt.quantile_ms(0.99),
        sojourn_ms_mean: sojourn.mean_ms(),
        sojourn_ms_p50: sojourn.quantile_ms(0.5),
        sojourn_ms_p99: sojourn.quantile_ms(0.99),
        sent_packets: packets.sent,
        delivered_packets: packets.delivered,
        ce_packets: packets.ce,
        dropped_packets: packets.dropped,
        ce_pct: percent(packets.ce, packets.sent),
        sce_pct: percent(packets.sce, packets.sent),
        drop_pct: percent(packets.dropped, packets.sent),
        retransmits: counted.totals.retransmitted - g.base.totals.retransmitted,
        transfers: completion.count() as u32,
        completion_ms_p50: completion.quantile_ms(0.5),
        completion_ms_p99: completion.quantile_ms(0.99),
        unfinished: flows().map(|f| f.unfinished(sim.warmup)).sum(),
        view_ms_p50: view.quantile_ms(0.5),
        view_ms_p99: view.quantile_ms(0.99),
        ecn_mode: flows().filter_map(|f| f.ecn_mode()).fold(None, common_mode),
    }
}

fn link_row(link: &str, q: &QueueReport) -> LinkRow {
    let (c, seconds) = (&q.counts, q.in_force.as_secs_f64());
    LinkRow {
        link: link.to_owned(),
        queue: q.name.to_owned(),
        rate_mbps: c.sent_bytes as f64 * 8e-6 / seconds,
        utilisation: c.sent_bytes as f64 * 8.0 / q.capacity_bits,
        sojourn_ms_mean: q.sojourn.mean_ms(),
        sojourn_ms_p50: q.sojourn.quantile_ms(0.5),
        sojourn_ms_p99: q.sojourn.quantile_ms(0.99),
        sojourn_ms_max: q.sojourn.max_ms(),
        arrived_packets: c.arrived,
        sent_packets: c.sent,
        dropped_packets: c.dropped,
        dropped_overflow_packets: c.overflowed,
        marked_packets: c.marked,
        step_marked_packets: c.step_marked,
        ce_pct: percent(c.marked, c.arrived),
        sce_pct: percent(c.sce_marked, c.arrived),
        drop_pct: percent(c.dropped, c.arrived),
        backlog_packets_max: q.backlog_max,
    }
}
