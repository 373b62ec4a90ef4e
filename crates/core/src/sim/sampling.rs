//! Rows of the time series.

use super::Simulation;
use crate::net::link::{Link, QueueSample};
use crate::net::tap::Tap;
use crate::probe::{Gauges, SenderState, Series};
use crate::time::Span;

impl<T: Tap> Simulation<T> {
    /// A row of each flow group and each queue. In the same pass it [records RTTs](Self::record_rtts), if that is due.
    pub(super) fn take_sample(&mut self, records: bool) {
        let before = self.shown.advance(self.now);
        let span = self.now.since(before).as_secs_f64();
        let t = self.now.as_secs_f64();
        for i in 0..self.groups.len() {
            self.sample_group(i, t, span, records);
        }
        self.network.probe_media(self.now.since(before));
        for i in 0..self.network.links().count() {
            sample_link(self.network.link_mut(i), i as u16, t, span, &mut self.shown.series);
        }
        if self.shown.watch.members {
            self.show_members(span);
        }
    }

    /// The smoothed RTT of every sender counts.
    pub(super) fn record_rtts(&mut self) {
        for account in &mut self.accounts {
            for slot in &account.slots {
                let flow = &self.slots[*slot].flow;
                flow.senders(&mut |sender| account.srtt.record(sender.srtt));
            }
        }
    }

    fn sample_group(&mut self, i: usize, t: f64, span: f64, records: bool) {
        let now = self.counted_together(&self.groups[i].accounts);
        let before = std::mem::replace(&mut self.groups[i].sampled, now);
        let mbps = |bytes: u64| bytes as f64 * 8e-6 / span;
        let packets = now.packets - before.packets;
        let series = &mut self.shown.series;
        series.row(t, i as u16, u16::MAX, None);
        series.gauge("rate_mbps", mbps(packets.bytes));
        series
            .gauge("goodput_mbps", mbps(now.totals.received_bytes - before.totals.received_bytes));
        series.gauge("sent_packets", packets.sent as f64);
        series.gauge("delivered_packets", packets.delivered as f64);
        series.gauge("ce_packets", packets.ce as f64);
        series.gauge("sce_packets", packets.sce as f64);
        series.gauge("dropped_packets", packets.dropped as f64);
        if packets.delivered > 0 {
            let sojourn_ns = now.sojourn_ns.wrapping_sub(before.sojourn_ns);
            series.gauge("sojourn_ms", sojourn_ns as f64 / packets.delivered as f64 * 1e-6);
        }
        // Whole numbers: their sum does not depend on the order.
        let (mut n, mut cwnd, mut srtt) = (0, 0, Span::ZERO);
        for account in &self.groups[i].accounts {
            let account = &mut self.accounts[*account];
            for slot in &account.slots {
                self.slots[*slot].flow.senders(&mut |sender: SenderState| {
                    if records {
                        account.srtt.record(sender.srtt);
                    }
                    // The controller's state is that of the group's first active flow.
                    if n == 0
                        && let Some(probe) = sender.controller
                    {
                        series.set_state(sender.state);
                        probe(series);
                    }
                    n += 1;
                    cwnd += u64::from(sender.cwnd);
                    srtt += sender.srtt;
                });
            }
        }
        if n > 0 {
            series.gauge("cwnd_packets", cwnd as f64 / f64::from(n));
            series.gauge("srtt_ms", srtt.as_millis_f64() / f64::from(n));
        }
    }
}

/// Rows of a link's queues since its last sample.
pub(super) fn sample_link(link: &mut Link, i: u16, t: f64, span: f64, series: &mut Series) {
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
        link.take_gauges(series);
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
