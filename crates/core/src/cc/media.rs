//! The interface of a congestion control for media.
//!
//! A controller learns from feedback reports what became of each packet. It answers with the rate that the
//! encoder should aim at, the rate at which packets leave, and, where it wants one, a window. Packets,
//! feedback, loss detection and pacing belong to `transport` and `traffic`.

mod arrivals;
pub mod fixed;
pub mod gcc;
pub mod nada;
pub mod own;
pub mod prague;
pub mod registry;
pub mod scream;

use serde::{Deserialize, Serialize};

use super::Role;
use crate::ecn::Ecn;
use crate::params::Described;
use crate::probe::Gauges;
use crate::time::{Span, Time};

/// RTP header, and the authentication tag of SRTP (HMAC-SHA1-80).
pub const RTP: u32 = 12 + 10;

/// From a call's start to libwebrtc's first frame take four round trips and its hosts so long: read from the first frames of 35
/// calls on the kernel.
const LIBWEBRTC_SETUP: Span = Span::from_millis(43);

/// A congestion control for media.
pub trait MediaController: Send {
    /// A report has arrived that tells something new.
    fn on_report(&mut self, report: &Report);
    /// The encoder is about to make a frame; [`Self::target_bps`] is what it hears.
    fn on_frame(&mut self, _frame: &FrameState) {}
    /// It has made a frame of so many bytes in RTP packets; so many wait, with these.
    fn on_encoded(&mut self, _bytes: u64, _waiting: u64) {}
    /// Whether the encoder leaves the frame out that is due.
    fn skips_frame(&mut self, _frame: &FrameState) -> bool {
        false
    }
    /// Bits of media per second that the encoder should produce.
    fn target_bps(&self) -> f64;
    /// Bits of RTP packets per second that leave while frames wait.
    fn pacing_bps(&self) -> f64;
    /// Bytes of RTP packets that may be in flight.
    fn window(&self) -> u64 {
        u64::MAX
    }
    /// Packets that are due within this time leave together.
    fn burst(&self) -> Span {
        Span::ZERO
    }
    /// A burst leaves before its time and the pause follows it, as in libwebrtc's pacer.
    fn bursts_early(&self) -> bool {
        false
    }
    /// Bytes of an RTP packet that are no media.
    fn header(&self) -> u32 {
        RTP
    }
    /// How Ericsson's pacer sleeps, which then replaces the pacing rate.
    fn sleeps(&self) -> Option<Sleeps> {
        None
    }
    /// The packets of a frame have the same size, as libwebrtc's; otherwise all but the last are full.
    fn splits_evenly(&self) -> bool {
        false
    }
    /// A burst that finds out how much the path carries: asked for at the start, after each report, and when the one
    /// before has left.
    fn probe_cluster(&mut self, _now: Time) -> Option<Cluster> {
        None
    }
    /// The encoder's highest rate is another one from now on.
    fn set_max(&mut self, bps: f64);
    /// The algorithm's inner state, for time series.
    fn probe(&self, _out: &mut dyn Gauges) {}
}

/// The options of a media controller, and how to make the controller from them.
pub trait MediaOptions: Described {
    /// What it is to other traffic; `None`: it answers nothing.
    const ROLE: Option<Role>;
    /// Its place among those of its role, which decides how figures draw it.
    const LOOK: u8;
    /// What its packets carry where the flow does not say.
    const ECN: Ecn = Ecn::NotEct;
    /// When the receiver reports where the flow does not say.
    const REPORTS: Reports = Reports::SCREAM;

    fn reports(&self) -> Reports {
        Self::REPORTS
    }
    /// How losses are repaired where the flow does not say.
    fn repair(&self) -> Repair {
        Repair::None
    }
    /// A packet is lost when so many later ones have left, in place of a reordering window.
    fn lost_after(&self) -> Option<u32> {
        None
    }
    /// Whether it is the model of what libwebrtc has, and is used in a call as by libwebrtc.
    fn is_libwebrtc(&self) -> bool {
        false
    }
    /// The encoder that it is used with where the flow does not say.
    fn encoder(&self) -> EncoderModel {
        if self.is_libwebrtc() { EncoderModel::Vp8 } else { EncoderModel::Even }
    }
    /// From the flow's start to the first frame where the flow does not say, on a path of this round trip.
    fn setup(&self, rtt: Span) -> Span {
        if self.is_libwebrtc() { rtt * 4 + LIBWEBRTC_SETUP } else { Span::ZERO }
    }
    /// `ecn`: what its packets carry.
    fn build(&self, rates: Rates, ecn: Ecn) -> Box<dyn MediaController>;
}

/// What the encoder can do, bits of media per second.
#[derive(Copy, Clone, Debug)]
pub struct Rates {
    pub min: f64,
    pub start: f64,
    pub max: f64,
}

impl Rates {
    /// The highest rate is another one, and the lowest is not above it.
    fn set_max(&mut self, bps: f64) {
        self.max = bps;
        self.min = self.min.min(bps);
    }
}

/// How frames differ in size.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum EncoderModel {
    /// All are alike.
    Even,
    Uniform,
    Lognormal,
    /// The statistical model of RFC 8593: noise of Laplace's distribution, and transients after large changes.
    Rfc8593,
    /// A shared screen: small frames, and large ones where the picture changes, whatever the target.
    Sharing,
    /// Of libwebrtc, with the rate control of libvpx: see `traffic/media/encoder.rs`.
    Vp8,
}

/// What makes lost packets good.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Repair {
    #[default]
    None,
    /// The receiver asks for them again.
    Nack,
    /// So it does, and after losses parity packets leave with the media.
    #[serde(rename = "nack+fec")]
    NackFec,
}

/// When a receiver reports.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Reports {
    /// After so many packets, and at the last packet of a frame, if at all.
    pub packets: Option<u32>,
    /// So long after the report before, once something has come.
    pub interval: Span,
    /// Above 0, the time between reports at least; `interval` then counts from the first packet that no report covers.
    pub least: Span,
}

impl Reports {
    /// After 16 packets, at the end of a frame, and at the latest after 40 ms (draft-johansson-ccwg-scream-bis).
    pub const SCREAM: Reports =
        Reports { packets: Some(16), interval: Span::from_millis(40), least: Span::ZERO };
    /// At the end of a frame, or after 25 ms (libwebrtc's `congestion_control_feedback_generator`).
    pub const LIBWEBRTC: Reports = Reports {
        packets: Some(u32::MAX),
        interval: Span::from_millis(25),
        least: Span::from_millis(25),
    };

    pub const fn every(interval: Span) -> Reports {
        Reports { packets: None, interval, least: Span::ZERO }
    }
}

/// What a report tells.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    pub now: Time,
    /// Packets whose fate is new, in the order in which they were sent.
    pub packets: &'a [Fate],
    /// Of the newest packet that has arrived, without the time for which the receiver held the report.
    pub rtt: Span,
    /// Of the same packet, from the sender to the receiver.
    pub one_way: Span,
    /// Bytes by which the newest packet that has arrived moved on; those lost before it are among them.
    pub acked: u64,
    /// Bytes sent after that packet, and the most that these were since the report before.
    pub in_flight: u64,
    pub max_in_flight: u64,
}

/// What became of a packet.
#[derive(Copy, Clone, Debug)]
pub struct Fate {
    pub sent: Time,
    /// When it came; `None`: it was lost.
    pub arrived: Option<Time>,
    /// RTP packet, bytes.
    pub size: u32,
    pub ce: bool,
    /// Number of the probe that it belonged to; 0: none.
    pub cluster: u16,
}

/// Packets that leave at a rate of their own, as a probe. Padding fills what media leave free.
#[derive(Copy, Clone, Debug)]
pub struct Cluster {
    pub number: u16,
    /// Bits of RTP packets per second.
    pub bps: f64,
    /// It ends when so many packets and so many bytes of RTP packets have left.
    pub packets: u32,
    pub bytes: u64,
}

/// Packets leave together until what each of them counts exceeds the burst. Then the sender sleeps for their sum (or for the burst, if
/// that is at most a tenth less) less `less`, and wakes up `late`.
#[derive(Copy, Clone, Debug)]
pub struct Sleeps {
    pub each: Span,
    pub less: Span,
    pub late: Span,
}

/// The moment before a frame.
#[derive(Copy, Clone, Debug)]
pub struct FrameState {
    pub now: Time,
    /// Time between frames.
    pub interval: Span,
    /// How long the oldest frame has waited that has not left in full.
    pub queue_age: Span,
    /// Bytes of the frame before.
    pub last_bytes: u64,
    /// Bytes of media that wait.
    pub queue_bytes: u64,
    /// Bytes of RTP packets in flight.
    pub in_flight: u64,
}
