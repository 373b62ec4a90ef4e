//! The sending end: its state, and where what happens to it goes. How it opens and closes is in `opening` (as a server
//! in `passive`), what it sends in `output`, what an ACK sets off in `recovery`, and its timer in `timers`.

mod opening;
mod output;
mod passive;
mod recovery;
mod timers;

use self::recovery::{CaState, Recovery};
use self::timers::{Probe, Timer};
use super::ecn::{self, AccEcnSender, EcnMode};
use super::rtt::RttEstimator;
use super::scoreboard::Scoreboard;
use super::send_queue::SendQueue;
use super::stream::Stream;
use crate::cc::registry::Cc;
use crate::cc::{
    Ack, AckFlight, AckPacing, AckRtt, AckState, AckUsage, CongestionControl, Constants, EcnWish,
    Window,
};
use crate::ecn::{Ecn, EcnSupport};
use crate::element::{End, Outbox};
use crate::packet::{Flags, FlowId, GroupId, PAWS_WINDOW, Packet, TCP_IP_HEADERS, TcpBits};
use crate::time::{Span, Time};

/// More payload than a run can send, and room to count with it.
const ENDLESS: u64 = 1 << 62;
/// The window that the receiver has offered before it says one.
const FIRST_WINDOW_KIB: u16 = 63;

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
    /// The application sends nothing more from here on; what was sent is still repaired.
    pub stop: Time,
}

impl SenderConfig {
    /// What there is to send from the start, bytes.
    pub(super) fn payload(&self) -> u64 {
        self.bytes.unwrap_or(if self.stream { 0 } else { ENDLESS })
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
    stamp: Time,
    paced: bool,
    pacing_rate: u64,
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
                cwnd_limited: self.usage.is_limited(win),
                window_used_up: self.usage.limited,
            },
            pacing: AckPacing {
                next_departure: self.stamp.max(now),
                is_on: self.paced,
                rate: self.pacing_rate,
            },
            ..Ack::default()
        }
    }
}

/// The sender of one flow.
pub struct Sender {
    pub(super) config: SenderConfig,
    pub(super) phase: Phase,
    pub(super) board: Scoreboard,
    pub(super) win: Window,
    pub(super) cc: Cc,
    /// Of the controller.
    pub(super) constants: Constants,
    pub(super) rtt: RttEstimator,
    pub(super) recovery: Recovery,
    // Data.
    /// Payload not yet sent; of an endless transfer more than a run can send.
    pub(super) bytes_left: u64,
    /// The application writes piece by piece: more may follow what is there.
    stream: Option<Box<Stream>>,
    sent_at: Time,
    /// The request of a client has come.
    pub(super) asked: bool,
    /// Flags of a server's SYN/ACK.
    pub(super) answer: TcpBits,
    // Timers.
    timer: Timer,
    pub(super) timer_at: Time,
    probe: Probe,
    stop_at: Time,
    pub(super) backoff: u32,
    pub(super) retransmits: u32,
    pub(super) syn_tries: u32,
    // Pacing.
    paced: bool,
    pace_limit: u64,
    pub(super) pacing_rate: u64,
    /// When the next segment may leave (paced), or the last one left.
    stamp: Time,
    pacing_at: Time,
    sent_segments: u32,
    /// When the application wrote what it has to send. What leaves at once is gone when it closes, so that
    /// the FIN goes alone (Linux `tcp_send_fin`), and is due.
    written_at: Time,
    fin_is_due: bool,
    queue: SendQueue,
    /// The largest window that the receiver has offered.
    max_window_kib: u16,
    usage: Usage,
    /// A segment, but for its number, time and size; with the newest timestamp of the receiver, and with
    /// AccECN the ACE field.
    pub(super) template: Packet,
    // ECN.
    pub(super) mode: EcnMode,
    pub(super) announce_cwr: bool,
    pub(super) accecn: AccEcnSender,
    // Totals for statistics.
    pub retransmitted: u64,
    pub started_at: Time,
    /// When the handshake was over.
    pub established_at: Time,
}

impl Sender {
    pub fn new(config: SenderConfig, cc: Cc) -> Sender {
        let mss = config.mtu - TCP_IP_HEADERS;
        let mut board = Scoreboard::default();
        let constants = cc.constants();
        if constants.judges_flights {
            board.keep_histories();
        }
        let mut template = Packet::new(config.flow, config.group, Flags::DATA, 0, Ecn::NotEct);
        template.dscp = config.dscp;
        Sender {
            phase: Phase::Closed,
            board,
            win: Window::new(mss, TCP_IP_HEADERS),
            cc,
            constants,
            rtt: RttEstimator::new(config.rto_min),
            recovery: Recovery::default(),
            bytes_left: config.payload(),
            stream: config.stream.then(Box::default),
            sent_at: Time::ZERO,
            asked: false,
            answer: TcpBits::default(),
            timer: Timer::Off,
            timer_at: Time::NEVER,
            probe: Probe::default(),
            stop_at: config.stop,
            backoff: 0,
            retransmits: 0,
            syn_tries: 0,
            paced: false,
            pace_limit: u64::MAX,
            pacing_rate: u64::MAX,
            stamp: Time::ZERO,
            pacing_at: Time::NEVER,
            sent_segments: 0,
            written_at: Time::NEVER,
            fin_is_due: false,
            queue: SendQueue::default(),
            max_window_kib: FIRST_WINDOW_KIB,
            usage: Usage::default(),
            template,
            mode: EcnMode::Off,
            announce_cwr: false,
            accecn: AccEcnSender::default(),
            retransmitted: 0,
            started_at: Time::ZERO,
            established_at: Time::NEVER,
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
    pub fn srtt(&self) -> Span {
        self.rtt.srtt()
    }
    /// Its controller answers SCE, if the receiver tells it.
    pub fn answers_sce(&self) -> bool {
        self.mode == EcnMode::Classic && self.constants.ecn == EcnWish::Ect0Sce
    }
    pub fn mode(&self) -> EcnMode {
        self.mode
    }
    /// Connected, and not yet through with its data.
    pub fn is_active(&self) -> bool {
        self.phase == Phase::Established && (self.has_data() || self.board.packets_out() > 0)
    }

    #[inline(never)]
    fn on_any_ack(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        let blocks = out.sacks.take(pkt.sack);
        if self.passes_paws(pkt) {
            self.count_marked_ack(pkt);
            self.on_ack(now, pkt, &blocks, out);
        }
    }

    #[inline(always)]
    fn count_marked_ack(&mut self, pkt: &Packet) {
        if pkt.ecn == Ecn::Ce && self.mode == EcnMode::AccEcn {
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
            stamp: self.stamp,
            paced: self.paced,
            pacing_rate: self.pacing_rate,
        };
        (view, &mut self.cc, &mut self.win)
    }
}

impl End for Sender {
    #[inline(always)]
    fn deadline(&self) -> Time {
        self.timer_at.min(self.pacing_at).min(self.stop_at)
    }

    /// The deadline has come.
    fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        if now >= self.stop_at {
            self.stop();
        } else if now >= self.pacing_at {
            self.pacing_at = Time::NEVER;
            if self.board.lost_out > 0 {
                self.retransmit_lost(now, out);
            }
            self.transmit(now, out);
        } else {
            self.on_transmission_timer(now, out);
        }
    }

    /// A packet from the receiver arrives.
    #[inline]
    fn on_packet(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        self.max_window_kib = self.max_window_kib.max(pkt.window);
        if self.phase != Phase::Established || pkt.flags.has(Flags::SYN) || pkt.payload > 0 {
            self.on_opening(now, pkt, out);
        } else if pkt.seq > self.board.una
            && !pkt.sack.is_some()
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
