//! What a run leaves behind: a row per flow group, a row per queue, time series and distributions.

use serde::Serialize;

use crate::distribution::Bin;
use crate::probe::{Series, Transfer};

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Recording {
    pub flows: Vec<FlowRow>,
    /// The same of each single flow, if they are counted apart.
    pub members: Vec<MemberRow>,
    pub links: Vec<LinkRow>,
    pub series: Series,
    /// In order of their start.
    pub transfers: Vec<Transfer>,
    pub histograms: Vec<Histogram>,
    pub losses: Vec<LossRow>,
    pub flow_names: Vec<String>,
    pub link_names: Vec<String>,
    /// Packets delivered to receivers over the whole run.
    pub delivered_packets: u64,
}

impl Recording {
    /// The row of a flow group.
    pub fn flow(&self, name: &str) -> Option<&FlowRow> {
        self.flows.iter().find(|row| row.flow == name)
    }
    /// The row of a link's queue: `all`, or one inside.
    pub fn queue(&self, link: &str, queue: &str) -> Option<&LinkRow> {
        self.links.iter().find(|row| row.link == link && row.queue == queue)
    }
}

/// A flow group over the measured interval. Column names end in their unit.
#[derive(Clone, Default, Debug, Serialize)]
pub struct FlowRow {
    pub flow: String,
    pub cc: String,
    pub count: u32,
    /// Payload that reached the receiver for the first time.
    pub goodput_mbps: f64,
    /// Of flows that end by themselves, over their own time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_mbps: Option<f64>,
    /// Ethernet frames that left the last link.
    pub rate_mbps: f64,
    /// Of the goodput of all groups.
    pub share: Option<f64>,
    /// Jain's index of the goodputs of its flows, and of all flows in bulk of the run.
    pub jain: Option<f64>,
    pub jain_run: Option<f64>,
    pub rtt_ms_mean: Option<f64>,
    pub rtt_ms_p50: Option<f64>,
    pub rtt_ms_p99: Option<f64>,
    /// Time in the links: in their queues, and behind these in media.
    pub sojourn_ms_mean: Option<f64>,
    pub sojourn_ms_p50: Option<f64>,
    pub sojourn_ms_p99: Option<f64>,
    /// Parts of `sojourn_ms_mean` on a path with a medium: the queues; from there to the first transmission; from there
    /// to the arrival; and the wait for what was sent before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_ms_mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_ms_mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub air_ms_mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder_ms_mean: Option<f64>,
    /// Packets that entered the network in the measured interval, with the copies that it made of them. Of these:
    /// those that reached the links, reached the receiver, were lost, and wait at the end.
    pub offered_packets: u64,
    pub sent_packets: u64,
    pub delivered_packets: u64,
    pub lost_packets: u64,
    pub waiting_packets: u64,
    pub ce_packets: u64,
    pub dropped_packets: u64,
    pub ce_pct: Option<f64>,
    pub sce_pct: Option<f64>,
    pub drop_pct: Option<f64>,
    pub retransmits: u64,
    pub transfers: u32,
    pub completion_ms_p50: Option<f64>,
    pub completion_ms_p99: Option<f64>,
    /// Completion time over that on an idle path.
    pub slowdown_p50: Option<f64>,
    pub slowdown_p99: Option<f64>,
    /// Transfers, requests and frames that were not over at the end.
    pub unfinished: u64,
    /// From an input to the first byte of the frame that shows its effect, without the wait for the next frame.
    pub view_ms_p50: Option<f64>,
    pub view_ms_p99: Option<f64>,
    /// Of media: frames captured whose outcome is known, the time from their capture to the last byte, and the
    /// part of it until their last packet left.
    pub frames: Option<u64>,
    pub frame_ms_mean: Option<f64>,
    pub frame_ms_p50: Option<f64>,
    pub frame_ms_p95: Option<f64>,
    pub frame_ms_p99: Option<f64>,
    pub frame_ms_max: Option<f64>,
    pub sender_queue_ms_p50: Option<f64>,
    pub sender_queue_ms_p99: Option<f64>,
    /// Parts of `frames`: those that arrived after the deadline, and those with a missing packet.
    pub late_pct: Option<f64>,
    pub lost_frames_pct: Option<f64>,
    pub freezes: Option<u64>,
    pub freeze_s: Option<f64>,
    /// The encoders' rate, and its mean change from one second to the next, in percent of it.
    pub media_mbps: Option<f64>,
    pub media_change_pct: Option<f64>,
    /// Ethernet frames of reports.
    pub feedback_kbps: Option<f64>,
    /// Of tests of responsiveness: round trips per minute, of probes on new connections and on load connections, how
    /// sure the result is, and the latency of a request on a new connection before the load and under it.
    pub rpm: Option<f64>,
    pub rpm_foreign: Option<f64>,
    pub rpm_self: Option<f64>,
    pub rpm_confidence: Option<&'static str>,
    pub idle_ms_p50: Option<f64>,
    pub loaded_ms_p50: Option<f64>,
    pub loaded_ms_p95: Option<f64>,
    /// How ECN negotiation ended: off, classic, accecn, or mixed if not all flows of the group ended
    /// alike (a lost SYN is repeated without ECN); of a UDP flow nothing.
    pub ecn_mode: Option<&'static str>,
    /// Of a run that ends when it is precise: when it ended, whether it was, and half the 95 % confidence interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_precise: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_width: Option<f64>,
}

/// A single flow of a group over the measured interval.
#[derive(Clone, Debug, Serialize)]
pub struct MemberRow {
    /// Its number in the group, from 1.
    pub member: u32,
    #[serde(flatten)]
    pub row: FlowRow,
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
    /// As of a flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_width: Option<f64>,
}

/// Packets that entered the network in the measured interval and were lost.
#[derive(Clone, Debug, Serialize)]
pub struct LossRow {
    /// The flow group; none for ACKs and handshakes.
    pub flow: Option<String>,
    /// `link.NAME`, `impair.NAME`, `rewrite`, `receiver`, `sender`.
    pub lost_at: String,
    pub lost_by: &'static str,
    pub lost_packets: u64,
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
