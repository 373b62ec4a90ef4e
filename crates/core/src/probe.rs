//! Recording: counters, transfers and time series. Nothing per packet is kept.

use crate::time::{Span, Time};
use crate::units::Rate;

/// What a flow has counted since the start.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Payload that has come to the receiver for the first time, bytes.
    pub received_bytes: u64,
    pub retransmitted: u64,
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.received_bytes += other.received_bytes;
        self.retransmitted += other.retransmitted;
    }
}

/// A sender that answers congestion, while it sends.
pub struct SenderState<'a> {
    /// Its window, packets.
    pub cwnd: u32,
    pub srtt: Span,
    /// The state of its controller, if that has states.
    pub state: Option<&'static str>,
    /// Tells its controller's inner state, if that is of interest.
    pub controller: Option<&'a Probe<'a>>,
}

/// Receives named values; a name is a column of the time series, so it ends in its unit (none for
/// probabilities).
pub trait Gauges {
    fn gauge(&mut self, name: &'static str, value: f64);
}

/// Tells inner state.
pub type Probe<'a> = dyn Fn(&mut dyn Gauges) + 'a;

/// A completed transfer. Flows without an end have none.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Number of the flow group.
    pub group: u16,
    pub kind: TransferKind,
    /// The first SYN; a frame: when it was written or captured; an input: when it was made.
    pub start: Time,
    pub bytes: Option<u64>,
    /// From `start` to the last byte; an input: to the first byte of the frame that shows it.
    pub completion: Span,
    /// Without the handshake: from the request on (of a flow: from when the sender may send); an input:
    /// without the wait for the next frame; a frame over RTP: from when its last packet left.
    pub response: Option<Span>,
    /// What it would be on an idle path, and, when the run is over, how long that takes.
    pub idle: Option<Idle>,
    pub ideal: Option<Span>,
    pub retransmits: Option<u64>,
}

impl Transfer {
    /// Completion time over that on an idle path.
    pub fn slowdown(&self) -> Option<f64> {
        Some(self.completion.0 as f64 / self.ideal?.0 as f64)
    }
}

/// A transfer on an idle path.
#[derive(Copy, Clone, Debug)]
pub struct Idle {
    /// Until the first segment leaves, and from a link to the receiver.
    pub before: Span,
    pub after: Span,
    pub rtt: Span,
    pub segments: u64,
    /// Bytes of a full one.
    pub frame: u64,
    /// Segments that may leave at first.
    pub window: u64,
}

impl Idle {
    /// How soon it is over if nothing but slow start and the rate limit it: the window doubles each round
    /// trip until it fills the path. The shaper lets `burst` bytes and one more packet go at once.
    pub fn time(&self, rate: Rate, burst: u64) -> Span {
        let (mut window, mut left, mut begun) = (self.window, self.segments.max(1), Span::ZERO);
        while left > window && rate.time_for(self.frame * window) <= self.rtt {
            begun += self.rtt;
            left -= window;
            window *= 2;
        }
        let frames = (self.frame * (left - 1)).saturating_sub(burst);
        self.before + begun + rate.time_for(frames) + self.after
    }
}

/// What became of the frames of media in the measured interval.
#[derive(Clone, Debug, Default)]
pub struct Experience {
    /// Captured frames whose outcome is known, and those that came after their deadline or not at all.
    pub frames: u64,
    pub late: u64,
    pub lost: u64,
    pub freezes: u64,
    pub frozen: Span,
    /// What the encoder made, bytes.
    pub media_bytes: u64,
    /// Sum of the differences between what the encoder made in successive seconds, and of what it made in the
    /// later of these, bytes.
    pub rate_changes: u64,
    pub change_seconds_bytes: u64,
    /// Ethernet frames of reports, bytes.
    pub feedback_bytes: u64,
}

impl Experience {
    /// How much the encoder's rate changes from one second to the next, in percent of its mean over the frames.
    pub fn change_pct(&self) -> Option<f64> {
        let bytes = self.change_seconds_bytes;
        (bytes > 0).then(|| 100.0 * self.rate_changes as f64 / bytes as f64)
    }
}

impl std::ops::AddAssign for Experience {
    fn add_assign(&mut self, other: Experience) {
        self.frames += other.frames;
        self.late += other.late;
        self.lost += other.lost;
        self.freezes += other.freezes;
        self.frozen += other.frozen;
        self.media_bytes += other.media_bytes;
        self.rate_changes += other.rate_changes;
        self.change_seconds_bytes += other.change_seconds_bytes;
        self.feedback_bytes += other.feedback_bytes;
    }
}

/// Round trips per minute under load (draft-ietf-ippm-responsiveness), and the latency that a user has.
#[derive(Copy, Clone, Debug)]
pub struct Responsiveness {
    /// Goodput of the load, from its start to the end of the last interval, Mb/s.
    pub active_mbps: Option<f64>,
    /// The mean of `foreign`, probes on new connections, and `own`, those on load connections.
    pub rpm: Option<f64>,
    pub foreign: Option<f64>,
    pub own: Option<f64>,
    /// low, medium or high.
    pub confidence: &'static str,
    /// A request on a new connection before the load, and under it.
    pub idle_ms: Option<f64>,
    pub loaded_ms_p50: Option<f64>,
    pub loaded_ms_p95: Option<f64>,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum TransferKind {
    /// A flow with an end.
    Flow,
    Request,
    Frame,
    /// A frame over RTP.
    MediaFrame,
    Input,
    /// All objects of a web page.
    Page,
}

impl TransferKind {
    /// As the results call it.
    pub fn name(self) -> &'static str {
        match self {
            TransferKind::Flow => "flow",
            TransferKind::Request => "request",
            TransferKind::Frame | TransferKind::MediaFrame => "frame",
            TransferKind::Input => "input",
            TransferKind::Page => "page",
        }
    }
}

/// Time series as columns: a row is a flow group or a queue at an instant. Missing values are NaN.
#[derive(Clone, Debug, Default)]
pub struct Series {
    pub time_s: Vec<f64>,
    /// Index of the flow group, link or queue name of each row; `u16::MAX`: none.
    pub flow: Vec<u16>,
    pub link: Vec<u16>,
    pub queue: Vec<Option<&'static str>>,
    /// State of the congestion control.
    pub state: Vec<Option<&'static str>>,
    pub columns: Vec<(&'static str, Vec<f64>)>,
}

impl Series {
    /// Begins a row; values follow through [`Gauges::gauge`].
    pub fn row(&mut self, time_s: f64, flow: u16, link: u16, queue: Option<&'static str>) {
        self.time_s.push(time_s);
        self.flow.push(flow);
        self.link.push(link);
        self.queue.push(queue);
        self.state.push(None);
        for (_, column) in &mut self.columns {
            column.push(f64::NAN);
        }
    }
    /// The state of the congestion control in the last row.
    pub fn set_state(&mut self, state: Option<&'static str>) {
        if let Some(last) = self.state.last_mut() {
            *last = state;
        }
    }
}

impl Gauges for Series {
    fn gauge(&mut self, name: &'static str, value: f64) {
        let rows = self.time_s.len();
        let column = match self.columns.iter().position(|(n, _)| *n == name) {
            Some(i) => &mut self.columns[i].1,
            None => {
                self.columns.push((name, vec![f64::NAN; rows]));
                &mut self.columns.last_mut().expect("just pushed").1
            }
        };
        if let Some(last) = column.last_mut() {
            *last = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_times_by_hand() {
        let rate = Rate::from_bps(12_000_000); // 1 ms per 1500 B
        let ms = |rtt_ms, segments, burst| {
            let (none, rtt) = (Span::ZERO, Span::from_millis(rtt_ms));
            let idle = Idle { before: none, after: none, rtt, segments, frame: 1500, window: 10 };
            idle.time(rate, burst).as_millis_f64()
        };
        let short = |segments| ms(10, segments, 0);
        assert_eq!((short(1), short(10)), (0.0, 9.0));
        // Ten segments fill 10 ms exactly.
        assert_eq!((short(11), short(30), short(31)), (10.0, 29.0, 30.0));
        // At 100 ms, windows of 10, 20, 40 and 80; the next one fills the path.
        let long = |segments| ms(100, segments, 0);
        assert_eq!(
            (long(10), long(11), long(30), long(31), long(70)),
            (9.0, 100.0, 119.0, 200.0, 239.0)
        );
        assert_eq!(
            (long(71), long(150), long(151), long(310), long(400)),
            (300.0, 379.0, 400.0, 559.0, 649.0)
        );
        // The bucket holds one packet: the second leaves with the first.
        assert_eq!(ms(10, 3, 1500), 1.0);
    }

    #[test]
    fn a_column_that_appears_late_is_missing_before() {
        let mut s = Series::default();
        s.row(0.0, 0, 0, None);
        s.gauge("a", 1.0);
        s.row(1.0, 0, 0, None);
        s.gauge("b", 2.0);
        assert_eq!(s.columns[0].1[0], 1.0);
        assert!(s.columns[0].1[1].is_nan() && s.columns[1].1[0].is_nan());
        assert_eq!(s.columns[1].1[1], 2.0);
    }
}
