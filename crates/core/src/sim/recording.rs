//! What a run leaves behind: a row per flow group, a row per queue, and time series.

use serde::Serialize;

use super::{GroupStats, Simulation, common_mode};
use crate::aqm::Gauges;
use crate::net::link::{Interval, QueueStats};
use crate::net::tap::Tap;
use crate::packet::GroupId;
use crate::probe::{Distribution, Series};
use crate::scenario::Kind;
use crate::time::{Span, Time};
use crate::traffic::Source;
use crate::traffic::udp_prague::UdpPrague;
use crate::transport::sender::Sender;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Recording {
    pub flows: Vec<FlowRow>,
    pub links: Vec<LinkRow>,
    pub series: Series,
    /// In order of their start.
    pub transfers: Vec<Transfer>,
    pub flow_names: Vec<String>,
    pub link_names: Vec<String>,
    /// Packets delivered to receivers, and events handled, over the whole run.
    pub delivered_packets: u64,
    pub events: u64,
}

/// What was transferred in full, apart from flows that last.
#[derive(Clone, Debug)]
pub struct Transfer {
    pub group: GroupId,
    pub kind: TransferKind,
    /// The first SYN; a frame: when it was written; an input: when it was made.
    pub start: Time,
    pub bytes: Option<u64>,
    /// From `start` to the last byte; an input: to the first byte of the frame that shows it.
    pub completion: Span,
    /// Without the handshake: from the request on (of a flow: from when the sender may send); an input:
    /// without the wait for the next frame.
    pub response: Option<Span>,
    /// `completion` on an empty path.
    pub ideal: Option<Span>,
    pub retransmits: Option<u64>,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum TransferKind {
    /// A flow with an end.
    Flow,
    Request,
    Frame,
    Input,
}

impl TransferKind {
    /// As the results call it.
    pub fn name(self) -> &'static str {
        match self {
            TransferKind::Flow => "flow",
            TransferKind::Request => "request",
            TransferKind::Frame => "frame",
            TransferKind::Input => "input",
        }
    }
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

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

impl<T: Tap> Simulation<T> {
    /// Warm-up is over: statistics start anew.
    pub(super) fn begin_measuring(&mut self) {
        for i in 0..self.groups.len() {
            let retransmitted = self.retransmitted(i);
            let g = &mut self.groups[i];
            g.stats = GroupStats::default();
            g.base_packets = g.packets;
            g.base_acked = g.acked_bytes;
            g.base_retransmitted = retransmitted;
        }
        for l in &mut self.links {
            l.reset_statistics(self.now);
        }
    }

    /// Retransmissions of a group since the start.
    fn retransmitted(&self, group: usize) -> u64 {
        let g = &self.groups[group];
        let open = g.ends.iter().map(|&end| self.senders[end as usize].retransmitted);
        g.closed_retransmitted + open.sum::<u64>()
    }

    pub(super) fn take_sample(&mut self) {
        let t = self.now.as_secs_f64();
        let span = self.now.since(self.last_sample).as_secs_f64();
        self.last_sample = self.now;
        for i in 0..self.groups.len() {
            self.sample_group(i, t, span);
        }
        for i in 0..self.links.len() {
            self.sample_link(i, t, span);
        }
    }

    fn sample_group(&mut self, i: usize, t: f64, span: f64) {
        let measuring = self.now > self.warmup;
        let g = &mut self.groups[i];
        let mbps = |bytes: u64| bytes as f64 * 8e-6 / span;
        self.series.row(t, i as u16, u16::MAX, None);
        self.series.gauge("rate_mbps", mbps(g.total_delivered - g.sampled_delivered));
        self.series.gauge("goodput_mbps", mbps(g.acked_bytes - g.sampled_acked));
        g.sampled_delivered = g.total_delivered;
        g.sampled_acked = g.acked_bytes;
        let packets = g.packets - g.sampled_packets;
        g.sampled_packets = g.packets;
        self.series.gauge("sent_packets", packets.sent as f64);
        self.series.gauge("delivered_packets", packets.delivered as f64);
        self.series.gauge("ce_packets", packets.ce as f64);
        self.series.gauge("sce_packets", packets.sce as f64);
        self.series.gauge("dropped_packets", packets.dropped as f64);
        let (mut n, mut cwnd, mut srtt) = (0.0, 0.0, 0.0);
        let mut first = None;
        let own = if g.kind.is_source() { g.flows.clone() } else { 0..0 };
        let own = own.map(|flow| &self.sources[flow as usize - self.tcp_flows]);
        let tcp = g.ends.iter().map(|&end| End::Tcp(&self.senders[end as usize]));
        for end in tcp.chain(own.filter_map(Source::responsive).map(End::Udp)) {
            let Some((window, rtt)) = end.state() else { continue };
            n += 1.0;
            cwnd += f64::from(window);
            srtt += rtt.as_millis_f64();
            first.get_or_insert(end);
            if measuring {
                g.stats.srtt.record(rtt);
            }
        }
        if n > 0.0 {
            self.series.gauge("cwnd_packets", cwnd / n);
            self.series.gauge("srtt_ms", srtt / n);
        }
        // The controller's state is that of the group's first active flow. Web connections come and go.
        match first {
            Some(End::Tcp(sender)) if g.kind != Kind::Web => {
                sender.controller().probe(&mut self.series);
            }
            Some(End::Udp(sender)) => sender.probe(&mut self.series),
            _ => {}
        }
    }

    fn sample_link(&mut self, i: usize, t: f64, span: f64) {
        let intervals = self.links[i].take_intervals();
        let link = &self.links[i];
        let (bands, _) = link.queues();
        self.series.row(t, u16::MAX, i as u16, Some("all"));
        record_interval(&mut self.series, &sum(&intervals), span);
        self.series.gauge("backlog_packets", link.backlog() as f64);
        let mut gauges = CoupledGauge { series: &mut self.series, coupled: None };
        link.aqm().probe(&mut gauges);
        // p_L as RFC 9332 has it: the larger of the coupled and the native probability. A step has
        // no probability but a share: that of the low-latency packets it marked in the interval.
        if let Some(coupled) = gauges.coupled
            && let Some(l) = bands.iter().position(|b| *b == "L")
        {
            let low = &intervals[l];
            let native = low.step_marks as f64 / low.sent_packets.max(1) as f64;
            self.series.gauge("p_l_native", native);
            self.series.gauge("p_l", coupled.max(native));
        }
        for (band, name) in bands.iter().enumerate() {
            self.series.row(t, u16::MAX, i as u16, Some(name));
            record_interval(&mut self.series, &intervals[band], span);
            self.series.gauge("backlog_packets", link.band_backlog(band) as f64);
        }
    }
}

/// A sender with congestion control.
enum End<'a> {
    Tcp(&'a Sender),
    Udp(&'a UdpPrague),
}

impl End<'_> {
    /// Window in packets and smoothed RTT, while it sends. (After a lost SYN there is no RTT until the
    /// first ACK of data.)
    fn state(&self) -> Option<(u32, Span)> {
        let (active, window, srtt) = match self {
            End::Tcp(s) => (s.is_active(), s.window().cwnd, s.srtt()),
            End::Udp(s) => (s.is_active(), s.window(), s.srtt()),
        };
        (active && srtt > Span::ZERO).then_some((window, srtt))
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

fn sum(intervals: &[Interval]) -> Interval {
    let mut all = Interval::default();
    for x in intervals {
        all.sent_packets += x.sent_packets;
        all.sent_bytes += x.sent_bytes;
        all.sojourn_ns += x.sojourn_ns;
        all.sojourn_range.add(x.sojourn_range);
        all.marked_packets += x.marked_packets;
        all.step_marks += x.step_marks;
        all.sce_marks += x.sce_marks;
        all.dropped_packets += x.dropped_packets;
        all.dropped_overflow += x.dropped_overflow;
    }
    all
}

fn record_interval(series: &mut Series, x: &Interval, span: f64) {
    series.gauge("rate_mbps", x.sent_bytes as f64 * 8e-6 / span);
    series.gauge("marked_packets", x.marked_packets as f64);
    series.gauge("sce_marked_packets", x.sce_marks as f64);
    series.gauge("dropped_packets", x.dropped_packets as f64);
    series.gauge("dropped_overflow_packets", x.dropped_overflow as f64);
    if x.sent_packets > 0 {
        series.gauge("sojourn_ms", x.sojourn_ns as f64 / x.sent_packets as f64 * 1e-6);
        series.gauge("sojourn_ms_min", x.sojourn_range.shortest.as_millis_f64());
        series.gauge("sojourn_ms_max", x.sojourn_range.longest.as_millis_f64());
    }
}

/// Closes the books.
pub(super) fn finish<T: Tap>(mut sim: Simulation<T>) -> Recording {
    let seconds = sim.end.since(sim.warmup).as_secs_f64();
    let open = sim.groups.iter().flat_map(|g| &g.ends);
    let ended: Vec<_> = open.filter_map(|&end| sim.transfer_of(end as usize)).collect();
    sim.transfers.extend(ended);
    sim.transfers.sort_by_key(|t| (t.start, t.group, t.bytes));
    let mut flows: Vec<FlowRow> =
        (0..sim.groups.len()).map(|i| flow_row(&sim, i, seconds)).collect();
    let total: f64 = flows.iter().map(|f| f.goodput_mbps).sum();
    if total > 0.0 {
        for f in &mut flows {
            f.share = Some(f.goodput_mbps / total);
        }
    }
    let links = (0..sim.links.len()).flat_map(|i| link_rows(&mut sim, i, seconds)).collect();
    Recording {
        flows,
        links,
        flow_names: sim.groups.iter().map(|g| g.name.clone()).collect(),
        link_names: sim.links.iter().map(|l| l.name.clone()).collect(),
        series: sim.series,
        transfers: sim.transfers,
        delivered_packets: sim.delivered_total,
        events: sim.events_total,
    }
}

fn flow_row<T: Tap>(sim: &Simulation<T>, i: usize, seconds: f64) -> FlowRow {
    let retransmitted = sim.retransmitted(i);
    let g = &sim.groups[i];
    let s = &g.stats;
    let packets = g.packets - g.base_packets;
    let mut mode = g.closed_mode;
    for &end in &g.ends {
        let sender = &sim.senders[end as usize];
        if g.kind != Kind::Web || sender.is_established() {
            mode = Some(common_mode(mode, sender, &sim.receivers[end as usize]));
        }
    }
    let (mut completion, mut view) = (Distribution::default(), Distribution::default());
    // What began in the warm-up does not count, but for flows with an end: many a run is such a flow.
    let since = if g.kind == Kind::Tcp { Time::ZERO } else { sim.warmup };
    for t in sim.transfers.iter().filter(|t| usize::from(t.group) == i && t.start >= since) {
        match t.kind {
            TransferKind::Input => view.record(t.response.unwrap_or(t.completion)),
            _ => completion.record(t.completion),
        }
    }
    let unfinished = match g.kind {
        Kind::Cbr | Kind::UdpPrague => 0,
        Kind::Web => g.begun - completion.count(),
        Kind::Video => sim.videos[g.applications.clone()].iter().map(|v| v.unfinished(since)).sum(),
        Kind::Tcp => {
            let with_end = g.ends.iter().filter(|&&e| sim.senders[e as usize].bytes().is_some());
            with_end.count() as u64 - completion.count()
        }
    };
    FlowRow {
        flow: g.name.clone(),
        cc: g.cc.clone(),
        count: g.count,
        goodput_mbps: (g.acked_bytes - g.base_acked) as f64 * 8e-6 / seconds,
        rate_mbps: s.delivered_bytes as f64 * 8e-6 / seconds,
        share: None,
        rtt_ms_mean: s.srtt.mean_ms(),
        rtt_ms_p50: s.srtt.quantile_ms(0.5),
        rtt_ms_p99: s.srtt.quantile_ms(0.99),
        sojourn_ms_mean: s.sojourn.mean_ms(),
        sojourn_ms_p50: s.sojourn.quantile_ms(0.5),
        sojourn_ms_p99: s.sojourn.quantile_ms(0.99),
        sent_packets: packets.sent,
        delivered_packets: packets.delivered,
        ce_packets: packets.ce,
        dropped_packets: packets.dropped,
        ce_pct: percent(packets.ce, packets.sent),
        sce_pct: percent(packets.sce, packets.sent),
        drop_pct: percent(packets.dropped, packets.sent),
        retransmits: retransmitted - g.base_retransmitted,
        transfers: completion.count() as u32,
        completion_ms_p50: completion.quantile_ms(0.5),
        completion_ms_p99: completion.quantile_ms(0.99),
        unfinished,
        view_ms_p50: view.quantile_ms(0.5),
        view_ms_p99: view.quantile_ms(0.99),
        ecn_mode: mode,
    }
}

fn link_rows<T: Tap>(sim: &mut Simulation<T>, i: usize, seconds: f64) -> Vec<LinkRow> {
    let end: Time = sim.end;
    let link = &mut sim.links[i];
    let capacity = link.capacity_bits(end);
    let row = |queue: &str, q: &QueueStats| LinkRow {
        link: link.name.clone(),
        queue: queue.to_owned(),
        rate_mbps: q.sent_bytes as f64 * 8e-6 / seconds,
        utilisation: if capacity > 0.0 { q.sent_bytes as f64 * 8.0 / capacity } else { 0.0 },
        sojourn_ms_mean: q.sojourn.mean_ms(),
        sojourn_ms_p50: q.sojourn.quantile_ms(0.5),
        sojourn_ms_p99: q.sojourn.quantile_ms(0.99),
        sojourn_ms_max: q.sojourn.max_ms(),
        arrived_packets: q.arrived_packets,
        sent_packets: q.sent_packets,
        dropped_packets: q.dropped_packets,
        dropped_overflow_packets: q.dropped_overflow,
        marked_packets: q.marked_packets,
        step_marked_packets: q.step_marks,
        ce_pct: percent(q.marked_packets, q.arrived_packets),
        sce_pct: percent(q.sce_marks, q.arrived_packets),
        drop_pct: percent(q.dropped_packets, q.arrived_packets),
        backlog_packets_max: q.backlog_max,
    };
    let (bands, queues) = link.queues();
    let mut rows = vec![row("all", &link.whole())];
    rows.extend(bands.iter().zip(queues).map(|(b, q)| row(b, q)));
    rows
}
