//! The interface of a congestion control.
//!
//! A controller is told what TCP learned and answers with a window and a pacing rate. Loss
//! detection, recovery, pacing, rate samples, ECN negotiation and feedback belong to `transport`.
//! The window is shared: proportional rate reduction (RFC 6937) moves it during recovery, the
//! controller moves it otherwise; hence [`Window`] is handed in rather than owned.

pub mod bbr;
pub mod bbr3;
pub mod cubic;
pub mod cubic_sce;
pub mod dctcp;
pub mod dctcp_sce;
pub mod media;
pub mod own;
pub mod prague;
pub mod registry;
pub mod reno;
pub mod reno_sce;
pub mod sce;
pub mod udp_prague;

use serde::Serialize;

use crate::ecn::{Ecn, EcnSupport};
use crate::params::Described;
use crate::probe::Gauges;
use crate::rng::Rng;
use crate::time::{Span, Time};

/// A congestion control. The first two methods are what every controller has; [`Signals`] is for those that
/// need what TCP sees before it interprets it.
pub trait CongestionControl: Send {
    /// Every ACK that tells something new. Controllers that leave recovery to TCP must not grow the
    /// window unless `ack.state.may_grow`.
    fn on_ack(&mut self, ack: &Ack, w: &mut Window);
    /// Once per round trip with congestion. Sets `w.ssthresh`, towards which TCP then brings the
    /// window, unless the controller [governs the window](Constants::governs_window) itself.
    fn on_congestion(&mut self, why: Congestion, at: Time, w: &mut Window);

    /// What does not change as long as the connection has this controller.
    fn constants(&self) -> Constants {
        Constants::default()
    }
    /// How its segments are paced; asked when the handshake is over and after every ACK.
    fn pace(&self) -> Pace {
        Pace::default()
    }
    /// The handshake is over, and `granted` says whether [`Constants::ecn`] was fulfilled.
    /// Returns the controller that takes over, if this one gives way to another.
    fn on_established(
        &mut self,
        _granted: bool,
        _ack: &Ack,
        _w: &mut Window,
    ) -> Option<Box<dyn CongestionControl>> {
        None
    }
    /// Recovery or reduction is over.
    fn on_recovered(&mut self, _w: &mut Window) {}
    /// The reduction was not justified; `prior_cwnd` was the window before it.
    fn on_undo(&mut self, prior_cwnd: u32, w: &mut Window) {
        w.cwnd = w.cwnd.max(prior_cwnd);
    }
    /// The application writes again to a sender that it limits and that has nothing in flight, `since` it last sent
    /// (Linux `CA_EVENT_TX_START`).
    fn on_restart(&mut self, _at: Time, _since: Time, _w: &mut Window) {}
    /// Itself, if it reads TCP's signals before they are interpreted.
    fn signals(&mut self) -> Option<&mut dyn Signals> {
        None
    }
    /// The controller's inner state, for time series.
    fn probe(&self, _out: &mut dyn Gauges) {}
    /// The state that it is in, one of [`Controller::STATES`].
    fn state(&self) -> Option<&'static str> {
        None
    }
}

/// What TCP sees before it decides what it means; few controllers need it.
pub trait Signals {
    /// Every ACK, before TCP decides whether it means congestion (Linux `in_ack_event`).
    fn on_feedback(&mut self, _totals: &Totals) {}
    /// A segment was found lost. Only with [`Constants::judges_flights`] (`skb_marked_lost` of BBRv3's tree).
    fn on_lost(&mut self, _lost: &LostSegment, _at: Time, _w: &Window) {}
    /// The retransmission timer expired, also where that is no congestion of its own; `lost_total` segments
    /// have been found lost so far (Linux `set_state` with `TCP_CA_Loss`).
    fn on_timeout(&mut self, _lost_total: u64, _w: &Window) {}
}

/// What a controller is, once and for all.
#[derive(Copy, Clone, Debug)]
pub struct Constants {
    /// What to ask of the peer if the experiment file does not say.
    pub ecn: EcnWish,
    /// The window during recovery is the controller's too (Linux `cong_control`).
    pub governs_window: bool,
    /// A loss counts as congestion even if the window is already coming down because of ECN.
    pub answers_loss_while_reducing: bool,
    /// Rate samples tell what was lost and marked since a segment left, and [`Signals::on_lost`] is called.
    pub judges_flights: bool,
}

impl Constants {
    /// Of a controller that governs its window.
    pub fn governing(ecn: EcnWish) -> Constants {
        let (governs_window, answers_loss_while_reducing) = (true, true);
        Constants { ecn, governs_window, answers_loss_while_reducing, judges_flights: false }
    }
}

impl Default for Constants {
    fn default() -> Constants {
        Constants {
            ecn: EcnWish::NotEct,
            governs_window: false,
            answers_loss_while_reducing: false,
            judges_flights: false,
        }
    }
}

/// How a controller wants its segments paced.
#[derive(Copy, Clone, Debug, Default)]
pub struct Pace {
    /// Bytes of payload per second, which TCP enforces; `None`: TCP's rule.
    pub rate: Option<u64>,
    pub burst: Burst,
    /// What is in flight now says nothing about the path's rate, because the controller held itself back.
    pub holds_back: bool,
}

/// Segments sent back to back when paced.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Burst {
    Exactly(u32),
    /// TCP's rule, but no less (Linux `min_tso_segs`).
    AtLeast(u32),
}

impl Default for Burst {
    fn default() -> Burst {
        Burst::AtLeast(2)
    }
}

/// What a controller is to the others on its path.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Its window is inversely proportional to the share of marks.
    Scalable,
    /// Its window follows the square root of losses or marks, or CUBIC's law.
    Classic,
    Bbr,
    /// It answers "some congestion experienced".
    Sce,
}

/// The options of a controller, and how to make the controller from them.
pub trait Controller: Described {
    type Made: CongestionControl;
    const ROLE: Role;
    /// Its place among those of its role, which decides how figures draw it.
    const LOOK: u8;
    /// Linux' module asks for ECN whatever the host's setting (`TCP_CONG_NEEDS_ECN`).
    const NEEDS_ECN: bool = false;
    /// Linux has it as a module outside of its tree.
    const OUT_OF_TREE: bool = false;
    /// Where its wish for ECN is not granted, another controller takes over, whatever the options.
    const GIVES_WAY: bool = false;
    /// The states of its state machine, if it has one.
    const STATES: &'static [&'static str] = &[];
    /// Options, with their value, that make it scalable.
    const SCALABLE_WITH: &'static [(&'static str, &'static str)] = &[];

    /// The controller of one connection, which draws from `rng` if it is random.
    fn build(&self, rng: Rng) -> Self::Made;
}

/// Codepoint and feedback that a controller wants (Linux flags `TCP_CONG_NEEDS_ECN` and
/// `TCP_CONG_NEEDS_ACCECN`).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum EcnWish {
    /// No ECN of its own; sends ECT(0) if the host negotiates ECN.
    NotEct,
    /// ECT(0) with RFC 3168 feedback.
    Ect0Classic,
    /// ECT(0) on every packet, with a receiver that echoes each run of marks (RFC 8257, 3.2).
    Ect0Runs,
    /// ECT(0) with RFC 3168 feedback, and ESCE from a peer that has it.
    Ect0Sce,
    /// ECT(1) with AccECN, and without it no ECN at all (RFC 9331, 4.2).
    Ect1AccEcn,
}

impl EcnWish {
    /// What SYN and SYN/ACK of its host carry: ECT of controllers that cannot do without ECN (Linux
    /// `TCP_CONG_NEEDS_ECN`, `TCP_CONG_ECT_1_NEGOTIATION`; RFC 8257, 3.4).
    pub fn handshake_field(self) -> Ecn {
        match self {
            EcnWish::Ect0Runs => Ecn::Ect0,
            EcnWish::Ect1AccEcn => Ecn::Ect1,
            EcnWish::NotEct | EcnWish::Ect0Classic | EcnWish::Ect0Sce => Ecn::NotEct,
        }
    }
    /// The host's ECN setting that fulfils the wish.
    pub fn support(self) -> EcnSupport {
        match self {
            EcnWish::NotEct => EcnSupport::Off,
            EcnWish::Ect0Classic | EcnWish::Ect0Runs => EcnSupport::Classic,
            EcnWish::Ect0Sce => EcnSupport::Sce,
            EcnWish::Ect1AccEcn => EcnSupport::AccEcn,
        }
    }
}

/// Why the window must come down.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Congestion {
    /// Congestion experienced: the connection enters CWR.
    Ecn,
    /// Fast retransmit: the connection enters Recovery.
    Loss,
    /// The retransmission timer expired.
    Timeout,
    /// A tail loss probe repaired a loss (RFC 8985, 7.4.2).
    TailLoss,
}

/// The congestion window and what bounds it. Windows count segments.
#[derive(Clone, Debug)]
pub struct Window {
    pub cwnd: u32,
    pub ssthresh: u32,
    /// Segments acknowledged since the last additive increase.
    pub cwnd_count: u32,
    /// Payload of a full segment, bytes. A controller may lower it (windows below two segments).
    pub mss: u32,
    /// IP and TCP headers of a data segment.
    pub header: u32,
}

/// "Infinite" threshold: slow start until something happens.
pub const SSTHRESH_INFINITE: u32 = 0x7fff_ffff;
/// Initial window (RFC 6928).
pub const INITIAL_WINDOW: u32 = 10;
/// No controller reduces below this; only a timeout does.
pub const MIN_WINDOW: u32 = 2;

impl Window {
    pub fn new(mss: u32, header: u32) -> Window {
        Window { cwnd: INITIAL_WINDOW, ssthresh: SSTHRESH_INFINITE, cwnd_count: 0, mss, header }
    }
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
    /// IP packet of a full segment, bytes.
    #[inline]
    pub fn mtu(&self) -> u32 {
        self.mss + self.header
    }
    /// Slow start: one segment per segment acknowledged, up to the threshold. Returns what is left
    /// for additive increase.
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let cwnd = (self.cwnd.saturating_add(acked)).min(self.ssthresh);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd;
        left
    }
    /// Additive increase: one segment per `per` segments acknowledged.
    pub fn additive_increase(&mut self, per: u32, acked: u32) {
        let per = per.max(1);
        // A debt built up with a larger `per` is paid at once, not as a burst.
        if self.cwnd_count >= per {
            self.cwnd_count = 0;
            self.cwnd += 1;
        }
        self.cwnd_count += acked;
        if self.cwnd_count >= per {
            let delta = self.cwnd_count / per;
            self.cwnd_count -= delta * per;
            self.cwnd += delta;
        }
    }
}

/// The connection's counters, in segments, when an ACK has been read.
#[derive(Copy, Clone, Debug, Default)]
pub struct Totals {
    pub delivered: u32,
    pub delivered_ce: u32,
    pub snd_una: u32,
    pub snd_nxt: u32,
}

/// What one ACK told.
#[derive(Clone, Debug, Default)]
pub struct Ack {
    pub now: Time,
    /// Segments newly delivered, cumulatively or by SACK.
    pub acked: u32,
    /// Of which reported as marked.
    pub ce: u32,
    /// The receiver has seen SCE marks on them.
    pub esce: bool,
    pub totals: Totals,
    pub rtt: AckRtt,
    pub flight: AckFlight,
    pub state: AckState,
    pub usage: AckUsage,
    pub pacing: AckPacing,
    pub rate: RateSample,
}

#[derive(Copy, Clone, Debug, Default)]
pub struct AckRtt {
    /// RTT of the newest segment acknowledged, µs.
    pub newest_us: Option<u32>,
    /// Smoothed RTT in eighths of a microsecond; zero before the first sample.
    pub srtt8: u64,
    pub min_us: u32,
}

impl AckRtt {
    /// Smoothed RTT, µs. It is no longer than its samples.
    pub fn srtt_us(&self) -> u32 {
        (self.srtt8 >> 3) as u32
    }
}

/// Segments in flight, and those that are lost.
#[derive(Copy, Clone, Debug, Default)]
pub struct AckFlight {
    pub now: u32,
    /// Before this ACK.
    pub before: u32,
    /// Newly found lost, and all so far.
    pub lost: u32,
    pub lost_total: u64,
}

/// What TCP is doing.
#[derive(Copy, Clone, Debug, Default)]
pub struct AckState {
    /// No loss, reordering or mark is being dealt with.
    pub open: bool,
    /// Fast recovery goes on.
    pub recovering: bool,
    /// Lost segments are being sent again (fast recovery or timeout).
    pub repairing: bool,
    /// TCP is bringing the window down itself (CWR, Recovery).
    pub reducing: bool,
    /// TCP is neither recovering nor reducing, and the ACK acknowledges new data in order.
    pub may_grow: bool,
}

/// How much of the window the sender uses.
#[derive(Copy, Clone, Debug, Default)]
pub struct AckUsage {
    /// The window, not the application or pacing, held the sender back in the last round trip.
    pub cwnd_limited: bool,
    /// The same without slow start's allowance for half-used windows (Linux's flag itself).
    pub window_used_up: bool,
}

/// TCP's pacing clock.
#[derive(Copy, Clone, Debug, Default)]
pub struct AckPacing {
    /// When the next segment may leave.
    pub next_departure: Time,
    /// Segments leave at the pacing rate rather than when ACKs arrive.
    pub is_on: bool,
    /// The pacing rate that TCP uses, bytes of payload per second.
    pub rate: u64,
}

impl Ack {
    pub fn srtt(&self) -> Span {
        Span::from_micros(self.rtt.srtt8 >> 3)
    }
}

/// Delivery rate over one ACK: `delivered` segments in `interval`.
#[derive(Copy, Clone, Debug, Default)]
pub struct RateSample {
    /// Segments delivered between the sending of the newest acknowledged segment and now.
    pub delivered: u32,
    /// The longer of the send phase and the ACK phase; zero if the sample is void.
    pub interval: Span,
    /// The connection's count of delivered segments when that segment was sent.
    pub prior_delivered: u32,
    pub app_limited: bool,
    /// Segments in flight when that segment was sent, and since then found lost and reported as
    /// marked. Zero unless the controller asks for it.
    pub tx_in_flight: u32,
    pub lost: u32,
    pub delivered_ce: u32,
}

/// A segment newly found lost.
#[derive(Copy, Clone, Debug, Default)]
pub struct LostSegment {
    /// Segments in flight when it was sent, itself included.
    pub tx_in_flight: u32,
    /// Segments found lost since then, itself included.
    pub lost: u32,
    pub app_limited: bool,
}
