//! The sending end: its state, and where what happens to it goes. How it opens and closes is in `opening` (as a server
//! in `passive`), what it sends in `output`, what an ACK sets off in `recovery`, and its timer in `timers`.

mod data;
mod duplex;
mod marks;
mod opening;
mod output;
mod pacing;
mod passive;
mod recovery;
mod reduction;
mod small_queue;
mod timers;

use self::data::Data;
use self::marks::EcnState;
use self::pacing::Pacing;
use self::recovery::{CaState, Recovery};
use self::small_queue::SmallQueue;
use self::timers::Timers;
use super::ecn::{self, EcnMode};
use super::options::Options;
use super::rtt::RttEstimator;
use super::scoreboard::Scoreboard;
use crate::cc::registry::Cc;
use crate::cc::{
    Ack, AckFlight, AckPacing, AckRtt, AckState, AckUsage, CongestionControl, Constants, EcnWish,
    Window,
};
use crate::ecn::{Ecn, EcnSupport};
use crate::element::{End, Outbox};
use crate::packet::{Flags, FlowId, GroupId, PAWS_WINDOW, Packet, TCP_IP_HEADERS};
use crate::prefetch;
use crate::probe::Gauges;
use crate::time::{Span, Time};

/// More payload than a run can send, and room to count with it.
const ENDLESS: u64 = 1 << 62;
/// The window that the receiver has offered before it says one.
const FIRST_WINDOW_KIB: u16 = 63;
/// A chunk of the send queue has at most this many bytes (Linux `sk_gso_max_size`: 64 KiB less room for headers)
/// and half the largest window that the receiver has offered (`tcp_bound_to_half_wnd`).
const GSO_MAX_BYTES: u64 = 65_536 - 321;

/// What a sender is set up with.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    pub flow: FlowId,
    pub group: GroupId,
    /// What the host asks for.
    pub ecn: EcnSupport,
    /// Cap on the sending rate, frame bits per second.
    pub pace_bps: Option<u64>,
    /// Size of the transfer; `None`: endless.
    pub bytes: Option<u64>,
    /// What the receiver lets be outstanding; `None`: anything.
    pub receive_window: Option<u64>,
    /// Sends what the application [writes](Sender::write), instead.
    pub stream: bool,
    /// Of its data.
    pub dscp: u8,
    /// The largest IP packet.
    pub mtu: u32,
    pub rto_min: Span,
    pub rules: Options,
    /// The application sends nothing more from here on; what was sent is still repaired.
    pub stop: Time,
    pub switches: Switches,
}

/// What a host can switch off. In a run everything is on.
#[derive(Copy, Clone, Debug)]
pub struct Switches {
    /// `tcp_timestamps`, and the peer's.
    pub timestamps: bool,
    /// `tcp_ecn_option`: segments have room for it.
    pub accecn_option: bool,
    /// `tcp_ecn_fallback`: a path that changes the ECN field as no queue does gets no ECT.
    pub ecn_fallback: bool,
    /// `tcp_min_tso_segs`, where it is more than the controller's.
    pub least_burst: u32,
}

impl Default for Switches {
    fn default() -> Switches {
        Switches { timestamps: true, accecn_option: true, ecn_fallback: true, least_burst: 0 }
    }
}

/// Where a connection is in its life.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Closed,
    Listen,
    SynReceived,
    SynSent,
    Established,
}

/// Congestion window validation (RFC 7661 in Linux's form).
#[derive(Clone, Debug, Default)]
struct Usage {
    /// The window limited this round trip.
    limited: bool,
    max_out: u32,
    end: u32,
}

impl Usage {
    #[inline(always)]
    fn update(&mut self, limited: bool, board: &Scoreboard) {
        let out = board.packets_out();
        if board.una >= self.end || limited || (!self.limited && out > self.max_out) {
            *self = Usage { limited, max_out: out, end: board.nxt };
        }
    }
    /// The window, not the application or pacing, is what limits.
    #[inline(always)]
    fn is_limited(&self, win: &Window) -> bool {
        self.limited || (win.in_slow_start() && win.cwnd < 2 * self.max_out)
    }
}

/// What a controller may know of the rest of the sender.
struct View<'a> {
    board: &'a Scoreboard,
    rtt: &'a RttEstimator,
    state: CaState,
    usage: &'a Usage,
    pacing: &'a Pacing,
    /// The window grows only while it limits.
    validates: bool,
}

impl View<'_> {
    /// What it is told when there is no ACK at hand.
    #[inline(always)]
    fn ack_info(&self, now: Time, win: &Window) -> Ack {
        Ack {
            now,
            totals: self.board.totals(),
            rtt: AckRtt { newest_us: None, srtt8: self.rtt.srtt8(), min_us: self.rtt.min_us() },
            flight: AckFlight {
                now: self.board.in_flight(),
                lost_total: self.board.lost_total,
                ..AckFlight::default()
            },
            state: AckState {
                open: self.state == CaState::Open,
                recovering: self.state == CaState::Recovery,
                repairing: self.state.is_repairing(),
                ..AckState::default()
            },
            usage: AckUsage {
                cwnd_limited: !self.validates || self.usage.is_limited(win),
                window_used_up: self.usage.limited,
            },
            pacing: AckPacing {
                next_departure: self.pacing.clock.max(now),
                is_on: self.pacing.is_on,
                rate: self.pacing.rate,
            },
            ..Ack::default()
        }
    }
}

/// The sender of one flow. What an ACK or a segment touches comes first, then what is rarely used.
#[repr(C)]
pub struct Sender {
    pub(super) board: Scoreboard,
    rtt: RttEstimator,
    recovery: Recovery,
    timers: Timers,
    pacing: Pacing,
    data: Data,
    ecn: EcnState,
    usage: Usage,
    pub(super) win: Window,
    /// Of the controller.
    constants: Constants,
    takes_signals: bool,
    pub(super) phase: Phase,
    /// A segment, but for its number, time and size; with the newest timestamp of the receiver, and with
    /// AccECN the ACE field.
    template: Packet,
    pub(super) cc: Cc,
    pub(super) config: SenderConfig,
    /// The bottleneck is in its host.
    own_queue: Option<Box<SmallQueue>>,
    // Totals for statistics.
    pub retransmitted: u64,
    pub started_at: Time,
    /// When the handshake was over.
    pub established_at: Time,
}

impl Sender {
    pub fn new(config: SenderConfig, mut cc: Cc) -> Sender {
        let mss = config.mtu - TCP_IP_HEADERS;
        let mut board = Scoreboard::default();
        let constants = cc.constants();
        if constants.judges_flights {
            board.keep_histories();
        }
        board.rack.reordering_parts = config.rules.reordering_parts();
        let mut win = Window::new(mss, TCP_IP_HEADERS);
        win.cwnd = config.rules.initial_window;
        let mut template = Packet::new(config.flow, config.group, Flags::DATA, 0, Ecn::NotEct);
        template.dscp = config.dscp;
        Sender {
            phase: Phase::Closed,
            board,
            win,
            takes_signals: cc.signals().is_some(),
            cc,
            constants,
            rtt: RttEstimator::new(config.rto_min),
            recovery: Recovery::default(),
            timers: Timers::new(config.stop),
            pacing: Pacing::of_bursts(config.rules.most()),
            data: Data::new(&config),
            ecn: EcnState::default(),
            usage: Usage::default(),
            template,
            retransmitted: 0,
            started_at: Time::ZERO,
            established_at: Time::NEVER,
            own_queue: None,
            config,
        }
    }

    pub fn flow(&self) -> FlowId {
        self.config.flow
    }
    pub fn group(&self) -> GroupId {
        self.config.group
    }
    /// Size of the transfer; `None`: it has no end.
    pub fn bytes(&self) -> Option<u64> {
        self.config.bytes
    }
    /// Number of the next segment.
    pub fn next(&self) -> u32 {
        self.board.nxt
    }
    /// What the application has written and TCP has not sent, bytes.
    pub fn unsent(&self) -> u64 {
        self.data.left
    }
    /// A client has asked for the first time.
    pub fn was_asked(&self) -> bool {
        self.data.asked
    }
    /// The largest IP packet.
    pub fn mtu(&self) -> u32 {
        self.config.mtu
    }
    pub fn window(&self) -> &Window {
        &self.win
    }
    pub fn controller(&self) -> &dyn CongestionControl {
        &*self.cc
    }
    /// Fetches its own state into the cache, but for the controller.
    pub fn fetch(&self) {
        prefetch::until(self, &self.cc);
    }
    /// Fetches the controller, the segments that are next to be acknowledged, and where the next one will be.
    pub fn fetch_data(&self) {
        self.cc.fetch();
        self.board.fetch_ends();
    }
    pub fn srtt(&self) -> Span {
        self.rtt.srtt()
    }
    /// What belongs beside the state of a controller.
    pub fn probe(&self, out: &mut dyn Gauges) {
        let in_flight = u64::from(self.board.in_flight()) * u64::from(self.win.mss);
        out.gauge("inflight_bytes", in_flight as f64);
        if self.pacing.rate < u64::MAX {
            out.gauge("pacing_mbps", self.pacing.rate as f64 * 8e-6);
        }
        let limited = self.board.delivery.app_limited_until > 0;
        out.gauge("app_limited", f64::from(u8::from(limited)));
    }
    /// Its controller answers SCE, if the receiver tells it.
    pub fn answers_sce(&self) -> bool {
        self.ecn.mode == EcnMode::Classic && self.constants.ecn == EcnWish::Ect0Sce
    }
    pub fn mode(&self) -> EcnMode {
        self.ecn.mode
    }
    /// Connected, and not yet through with its data.
    pub fn is_active(&self) -> bool {
        self.phase == Phase::Established && (self.data.is_there() || self.board.packets_out() > 0)
    }

    #[inline(never)]
    fn on_other_timer(&mut self, now: Time, out: &mut Outbox) {
        if now >= self.timers.stop_at {
            self.stop();
        } else if now >= self.pacing.wake_at {
            self.pacing.wake_at = Time::NEVER;
            self.retransmit_lost(now, out);
            self.transmit(now, out);
        } else {
            self.on_transmission_timer(now, out);
        }
    }

    #[inline(never)]
    fn on_any_ack(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        let blocks = out.sacks.take(pkt.sack_of_ack());
        self.ecn.clock_moves =
            self.config.switches.timestamps && pkt.tsval.older_than(self.template.tsval) < 0;
        if self.passes_paws(pkt) {
            self.count_marked_ack(pkt);
            self.on_ack(now, pkt, &blocks, out);
        }
    }

    #[inline(always)]
    fn count_marked_ack(&mut self, pkt: &Packet) {
        if pkt.ecn == Ecn::Ce && self.ecn.mode == EcnMode::AccEcn {
            self.template.bits = ecn::next_ace(self.template.bits);
        }
    }

    /// Protection against wrapped sequence numbers (RFC 7323, 5.3) takes an ACK that a newer one has
    /// overtaken for one of long ago. Only a duplicate ACK may be older than the clock's grain, by up
    /// to a timeout: it can do no more than tell of losses (Linux `tcp_disordered_ack_check`). The
    /// answer to what is discarded, a bare ACK every half second, tells the receiver nothing.
    #[inline]
    fn passes_paws(&mut self, pkt: &Packet) -> bool {
        let age = pkt.tsval.older_than(self.template.tsval);
        if age <= 0 {
            self.template.tsval = pkt.tsval;
            return true;
        }
        age <= PAWS_WINDOW
            || (pkt.seq == self.board.una && u64::from(age as u32) <= self.replay_ms())
    }

    /// A timeout in ticks of the fastest timestamp clock to be expected, 1200 Hz.
    fn replay_ms(&self) -> u64 {
        self.rto().as_micros() * 1200 / 1_000_000
    }

    pub fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// The controller, with what it may know and what it moves.
    #[inline(always)]
    fn parts(&mut self) -> (View<'_>, &mut Cc, &mut Window) {
        let view = View {
            board: &self.board,
            rtt: &self.rtt,
            state: self.recovery.state,
            usage: &self.usage,
            pacing: &self.pacing,
            validates: self.config.rules.window_validation,
        };
        (view, &mut self.cc, &mut self.win)
    }
}

impl End for Sender {
    #[inline(always)]
    fn deadline(&self) -> Time {
        self.timers.deadline().min(self.pacing.wake_at)
    }

    /// The deadline has come, most often that of the pacing clock. All else is apart, so that this needs no stack.
    fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        if now >= self.timers.stop_at || now < self.pacing.wake_at || self.board.lost_out > 0 {
            return self.on_other_timer(now, out);
        }
        self.pacing.wake_at = Time::NEVER;
        self.transmit(now, out);
    }

    /// A packet from the receiver arrives.
    #[inline(always)]
    fn on_packet(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        if pkt.window > self.data.max_window_kib {
            self.data.max_window_kib = pkt.window;
        }
        if self.phase != Phase::Established || pkt.flags.has(Flags::SYN) || pkt.payload > 0 {
            self.on_opening(now, pkt, out);
        } else if pkt.seq > self.board.una
            && !pkt.sack_of_ack().is_some()
            && self.is_undisturbed()
            && pkt.tsval.older_than(self.template.tsval) <= 0
        {
            self.template.tsval = pkt.tsval;
            self.count_marked_ack(pkt);
            self.on_clean_ack(now, pkt, out);
        } else {
            self.on_any_ack(now, pkt, out);
        }
    }
}

#[cfg(test)]
mod tests;
