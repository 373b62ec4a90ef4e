//! The sending end: connection set-up, transmission under window and pacing, and the retransmission
//! timer. What an ACK sets off is in `recovery`.

mod passive;
mod recovery;

use self::recovery::{CaState, Recovery};
use super::ecn::{self, AccEcnSender, EcnMode};
use super::handshake;
use super::rtt::{RTO_MAX, RttEstimator};
use super::scoreboard::Scoreboard;
use super::send_queue::{SendQueue, Write};
use super::stream::{Mark, Stream};
use super::wheel;
use crate::cc::registry::Cc;
use crate::cc::{Ack, CongestionControl, EcnWish, INITIAL_WINDOW, Window};
use crate::ecn::{Ecn, EcnSupport};
use crate::element::{End, Outbox};
use crate::packet::{
    ACK_FRAME, Flags, FlowId, GroupId, PAWS_WINDOW, Packet, TCP_IP_HEADERS, TcpBits,
};
use crate::time::{Span, Time};
use crate::units::ETHERNET_HEADER;

/// Segments of a new connection that pacing does not hold back (Linux `tcp_update_skb_after_send`).
const UNPACED_START: u32 = 10;
/// Pacing rate over window/srtt, percent: in slow start and after (Linux
/// `tcp_pacing_ss_ratio`, `tcp_pacing_ca_ratio`).
const PACING_SLOW_START: u64 = 200;
const PACING_AVOIDANCE: u64 = 120;
/// More payload than a run can send, and room to count with it.
const ENDLESS: u64 = 1 << 62;
/// A chunk of the send queue has at most this many bytes (Linux `sk_gso_max_size`: 64 KiB less room for headers)
/// and half the largest window that the receiver has offered, which at first is this (`tcp_bound_to_half_wnd`).
const GSO_MAX_BYTES: u64 = 65_536 - 321;
const FIRST_WINDOW_KIB: u16 = 63;
/// The application writes on when less than half of this waits to be sent, until it does (`TCP_NOTSENT_LOWAT`).
const NOTSENT_LOWAT: u64 = 131_072;
/// A burst is worth 2^-10 s at the pacing rate (Linux `sk_pacing_shift`), at most 64 KiB, plus more
/// at very short RTTs (`tcp_tso_rtt_log`), at least two segments.
const BURST_SHIFT: u32 = 10;
const BURST_MAX_BYTES: u64 = GSO_MAX_BYTES;
const BURST_RTT_SHIFT: u32 = 9;

/// A partial burst waits for more window only if the last one left less than this ago, and if the
/// next ACK is expected within it (Linux `tcp_tso_should_defer`).
const DEFER: Span = Span::from_millis(1);
/// ... and if less than this part of the window is open (`tcp_tso_win_divisor`).
const DEFER_WINDOW_DIVISOR: u32 = 3;
/// Least wait of a tail loss probe above two RTTs (Linux `TCP_TIMEOUT_MIN_US`).
pub(super) const TIMEOUT_MIN: Span = Span::from_millis(2);

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

/// What the transmission timer stands for (Linux `icsk_pending`).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Timer {
    Off,
    /// The connection is to be opened.
    Start,
    Syn,
    Retransmit,
    /// Segments may still be reordered rather than lost.
    Reordering,
    TailProbe,
}

/// When a tail loss probe was scheduled last.
#[derive(Copy, Clone, Debug, Default)]
struct Probe {
    scheduled_at: Time,
    /// The timeout counts from then, not from when the head was sent.
    from_now: bool,
    /// Above this RTT (in eighths of a microsecond) the timer is early enough for any later schedule;
    /// `u32::MAX`: it is exact.
    least_srtt8: u32,
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
            delivered: self.board.delivery.segments,
            delivered_ce: self.board.delivery.ce,
            srtt8: self.rtt.srtt8(),
            min_rtt_us: self.rtt.min_us(),
            snd_una: self.board.una,
            snd_nxt: self.board.nxt,
            in_flight: self.board.in_flight(),
            lost_total: self.board.lost_total,
            recovering: self.state == CaState::Recovery,
            repairing: self.state.is_repairing(),
            next_departure: self.stamp.max(now),
            cwnd_limited: self.usage.is_limited(win),
            window_used_up: self.usage.limited,
            open: self.state == CaState::Open,
            paced: self.paced,
            pacing_rate: self.pacing_rate,
            ..Ack::default()
        }
    }
}

/// Why segments are sent.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Push {
    Normal,
    /// A tail loss probe.
    Probe,
}

/// The sender of one flow.
pub struct Sender {
    pub(super) config: SenderConfig,
    pub(super) phase: Phase,
    pub(super) board: Scoreboard,
    pub(super) win: Window,
    pub(super) cc: Cc,
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
    pub(super) timer: Timer,
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
    pub acked_bytes: u64,
    pub started_at: Time,
    /// When the handshake was over.
    pub established_at: Time,
}

impl Sender {
    pub fn new(config: SenderConfig, cc: Cc) -> Sender {
        let mss = config.mtu - TCP_IP_HEADERS;
        let mut board = Scoreboard::default();
        if cc.judges_flights() {
            board.keep_histories();
        }
        let mut template = Packet::new(config.flow, config.group, Flags::DATA, 0, Ecn::NotEct);
        template.dscp = config.dscp;
        Sender {
            phase: Phase::Closed,
            board,
            win: Window::new(mss, TCP_IP_HEADERS),
            cc,
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
            acked_bytes: 0,
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
        &self.cc
    }
    pub fn srtt(&self) -> Span {
        self.rtt.srtt()
    }
    /// Its controller answers SCE, if the receiver tells it.
    pub fn answers_sce(&self) -> bool {
        self.mode == EcnMode::Classic && self.cc.ecn() == EcnWish::Ect0Sce
    }
    pub fn mode(&self) -> EcnMode {
        self.mode
    }
    /// Connected, and not yet through with its data.
    pub fn is_active(&self) -> bool {
        self.phase == Phase::Established && (self.has_data() || self.board.packets_out() > 0)
    }

    /// The connection is to be opened at `at`.
    pub fn start_at(&mut self, at: Time) {
        self.timer = Timer::Start;
        self.timer_at = at;
    }

    /// Opens the connection.
    fn start(&mut self, now: Time, out: &mut Outbox) {
        self.started_at = now;
        self.phase = Phase::SynSent;
        self.send_syn(now, out);
    }

    /// Nothing new is sent from this time on.
    pub fn stop_at(&mut self, at: Time) {
        self.stop_at = self.stop_at.min(at);
    }

    fn stop(&mut self) {
        self.stop_at = Time::NEVER;
        self.bytes_left = 0;
        if self.phase != Phase::Established {
            self.phase = Phase::Closed;
            self.timer = Timer::Off;
            self.timer_at = Time::NEVER;
        }
    }

    fn send_syn(&mut self, now: Time, out: &mut Outbox) {
        let (c, field) = (&self.config, self.cc.ecn().handshake_field());
        out.push(handshake::syn(now, c.flow, c.group, c.ecn, field, self.syn_tries));
        self.timer = Timer::Syn;
        self.timer_at = handshake::expiry(now, self.syn_tries);
        self.syn_tries += 1;
    }

    fn on_syn_ack(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        if self.phase != Phase::SynSent {
            return;
        }
        self.establish(now, pkt, ecn::read_syn_ack(self.config.ecn, pkt.bits));
        let flags = Flags::default();
        // With AccECN and in DCTCP everything is ECT.
        let field = match self.mode {
            EcnMode::AccEcn => self.template.ecn.get(),
            EcnMode::Classic => self.cc.ecn().handshake_field(),
            EcnMode::Off => Ecn::NotEct,
        };
        let len = ACK_FRAME + self.mode.handshake_option();
        let mut third = Packet::new(self.config.flow, self.config.group, flags, len, field);
        if self.mode == EcnMode::AccEcn {
            third.bits = ecn::field_feedback(pkt.ecn.get());
        }
        third.stamp = now;
        third.tsval = self.template.tsval;
        out.push(third);
        self.update_pacing_rate(self.cc.pacing_rate());
        self.transmit(now, out);
    }

    /// The handshake is over with `pkt`, in this mode.
    pub(super) fn establish(&mut self, now: Time, pkt: &Packet, mode: EcnMode) {
        self.phase = Phase::Established;
        self.established_at = now;
        self.written_at = now;
        self.template.tsval = pkt.tsval;
        self.timer = Timer::Off;
        self.timer_at = Time::NEVER;
        if self.syn_tries == 1 {
            let us = now.micros_since(pkt.stamp) as u32;
            self.rtt.sample(us, 0, 0);
            self.rtt.sample_min(now, us);
        }
        self.settle_ecn(now, mode);
    }

    /// What both sides agreed on, and whether the controller can live with it.
    fn settle_ecn(&mut self, now: Time, mode: EcnMode) {
        self.mode = mode;
        let wish = self.cc.ecn();
        let granted = match wish {
            EcnWish::Ect1AccEcn => self.mode == EcnMode::AccEcn,
            EcnWish::Ect0Classic | EcnWish::Ect0Runs | EcnWish::Ect0Sce => {
                self.mode != EcnMode::Off
            }
            EcnWish::NotEct => true,
        };
        // ECT(1) must not be sent with RFC 3168 feedback (RFC 9331, 4.3).
        if wish == EcnWish::Ect1AccEcn && !granted {
            self.mode = EcnMode::Off;
        }
        let codepoint = match (self.mode, wish) {
            (EcnMode::Off, _) => Ecn::NotEct,
            (_, EcnWish::Ect1AccEcn) => Ecn::Ect1,
            _ => Ecn::Ect0,
        };
        self.template.ecn = codepoint.into();
        if self.mode == EcnMode::AccEcn {
            self.template.bits = ecn::ACE_START;
            // Linux 7.2 sends the option on data too, at the expense of payload.
            self.win.mss -= ecn::OPTION_LEN;
            self.win.header += ecn::OPTION_LEN;
        }
        let (view, cc, win) = self.parts();
        let ack = view.ack_info(now, win);
        if let Some(other) = cc.on_established(granted, &ack, win) {
            self.cc = Cc::Other(other);
        }
        self.paced = self.cc.pacing_rate().is_some() || self.config.pace_bps.is_some();
        if let Some(bps) = self.config.pace_bps {
            // The cap counts frames, the pacing clock payload.
            let frame = u64::from(self.win.mtu() + ETHERNET_HEADER);
            self.pace_limit = bps * u64::from(self.win.mss) / frame / 8;
        }
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

    /// What is no plain ACK of an open connection.
    #[cold]
    fn on_opening(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        match self.phase {
            Phase::SynSent if pkt.flags.has(Flags::SYN) => self.on_syn_ack(now, pkt, out),
            Phase::SynSent | Phase::Closed => {
                out.sacks.take(pkt.sack);
            }
            Phase::Listen | Phase::SynReceived | Phase::Established => {
                self.on_client(now, pkt, out);
            }
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

    fn on_transmission_timer(&mut self, now: Time, out: &mut Outbox) {
        if self.timer == Timer::TailProbe && self.probe_due() > now {
            return self.arm_tail_probe(now);
        }
        self.timer_at = Time::NEVER;
        let due = self.timer;
        // The others are pending while they act (`tcp_write_timer_handler`): the timeout after them counts from the head.
        if !matches!(due, Timer::Reordering | Timer::TailProbe) {
            self.timer = Timer::Off;
        }
        match due {
            Timer::Off => {}
            Timer::Start => self.start(now, out),
            Timer::Syn if self.phase == Phase::SynReceived => self.send_syn_ack(now, out),
            Timer::Syn => self.send_syn(now, out),
            Timer::Reordering => self.on_reordering_timeout(now, out),
            Timer::TailProbe => self.send_tail_probe(now, out),
            Timer::Retransmit => self.on_retransmission_timeout(now, out),
        }
    }

    // --- transmission -----------------------------------------------------------------------

    #[inline]
    pub(super) fn has_data(&self) -> bool {
        self.bytes_left > 0 || self.fin_is_due
    }

    /// Segments that still fit into the receiver's window. It counts what it has out of order, too.
    #[inline]
    pub(super) fn receiver_room(&self) -> u32 {
        let Some(bytes) = self.config.receive_window else {
            return u32::MAX;
        };
        let segments = (bytes / u64::from(self.win.mss)).max(1);
        segments.saturating_sub(u64::from(self.board.nxt - self.board.una)) as u32
    }

    /// The application writes `bytes` to its stream.
    pub fn write(&mut self, now: Time, bytes: u64, out: &mut Outbox) {
        let Some(stream) = &mut self.stream else { return };
        stream.write(bytes);
        let starved = self.bytes_left < u64::from(self.win.mss);
        self.bytes_left += bytes;
        if self.phase != Phase::Established {
            return;
        }
        if starved && self.board.in_flight() < self.win.cwnd && self.board.next_lost().is_none() {
            // What is delivered now says how fast the application was (Linux
            // `tcp_rate_check_app_limited`).
            let mark = self.board.delivery.segments + self.board.in_flight();
            self.board.delivery.app_limited_until = mark.max(1);
        }
        if self.board.packets_out() == 0 && !self.cc.governs_window() {
            self.restart_after_idle(now);
        }
        self.write_on();
        self.transmit(now, out);
    }
    /// Where pieces of the stream begin and end in segments that were sent since the last call.
    pub fn take_mark(&mut self) -> Option<Mark> {
        self.stream.as_mut().and_then(|s| s.take())
    }
    pub fn is_established(&self) -> bool {
        self.phase == Phase::Established
    }

    /// Per timeout without anything to send, the window halves, down to the initial one (Linux
    /// `tcp_slow_start_after_idle`; RFC 5681, 4.1).
    fn restart_after_idle(&mut self, now: Time) {
        let (rto, mut idle) = (self.rto(), now.since(self.sent_at));
        if idle <= rto {
            return;
        }
        let win = &mut self.win;
        win.ssthresh = win.ssthresh.max(win.cwnd / 2 + win.cwnd / 4);
        let floor = INITIAL_WINDOW.min(win.cwnd);
        while idle > rto && win.cwnd > floor {
            idle = idle - rto;
            win.cwnd = (win.cwnd / 2).max(floor);
        }
    }

    /// Must the next segment wait for the pacing clock? If so, sets the timer.
    #[inline(always)]
    fn pacing_blocks(&mut self, now: Time) -> bool {
        if !self.paced || self.stamp <= now {
            return false;
        }
        self.pacing_at = self.stamp;
        true
    }

    /// Advances the pacing clock by a burst of `bytes`. What a burst left late is given back, up
    /// to half of its own time.
    #[inline]
    fn charge_pacing(&mut self, now: Time, bytes: u64) {
        let prior = self.stamp;
        self.stamp = self.stamp.max(now);
        if !self.paced || self.pacing_rate == 0 || self.sent_segments < UNPACED_START {
            return;
        }
        let length = Span(bytes * 1_000_000_000 / self.pacing_rate);
        let late = self.stamp.since(prior);
        self.stamp += length - late.min(length / 2);
    }

    /// Segments per burst: the controller's rule or Linux's (`tcp_tso_autosize`).
    #[inline]
    pub(super) fn burst(&self) -> u32 {
        if let Some(b) = self.cc.burst() {
            return b;
        }
        let mut bytes = self.pacing_rate >> BURST_SHIFT;
        let shift = self.rtt.min_us() >> BURST_RTT_SHIFT;
        if shift < 32 {
            bytes += BURST_MAX_BYTES >> shift;
        }
        ((bytes.min(BURST_MAX_BYTES) / u64::from(self.win.mss)) as u32).max(self.cc.min_burst())
    }

    /// The application writes on if little of what it has written waits to be sent. Only an ACK wakes it.
    #[inline(always)]
    fn write_on(&mut self) {
        if self.queue.is_low()
            && u64::from(self.queue.waiting()) * u64::from(self.win.mss) < self.bytes_left
        {
            self.fill_queue();
        }
    }

    #[inline(never)]
    fn fill_queue(&mut self) {
        let mss = u64::from(self.win.mss);
        let half = u64::from(self.max_window_kib) * 1024 / 2;
        let unwritten =
            self.bytes_left.div_ceil(mss).saturating_sub(u64::from(self.queue.waiting()));
        let leaves = if self.board.nxt == 0 { INITIAL_WINDOW } else { 0 };
        self.queue.write(&Write {
            segments: u32::try_from(unwritten).unwrap_or(u32::MAX),
            until: NOTSENT_LOWAT.div_ceil(mss) as u32,
            chunk: (GSO_MAX_BYTES.min(half) / mss).max(1) as u32,
            push_beyond: (half / mss) as u32,
            leaves,
            leaves_at_once: self.burst().min(leaves),
        });
    }

    /// Would it be better to wait for the rest of a burst?
    fn should_defer(&self, now: Time, burst: u32) -> bool {
        if self.recovery.state.is_repairing() || now > self.stamp + DEFER {
            return false;
        }
        let open = self.win.cwnd - self.board.in_flight();
        if open >= burst || open * DEFER_WINDOW_DIVISOR >= self.win.cwnd {
            return false;
        }
        // Nothing is gained by waiting: the chunk goes out whole.
        if self.queue.head() <= open && !self.queue.is_last() {
            return false;
        }
        // The rest of a transfer is all that will ever be sent.
        if self.stream.is_none() && self.bytes_left <= u64::from(open) * u64::from(self.win.mss) {
            return false;
        }
        let Some(oldest) = self.board.head_sent_at() else {
            return false;
        };
        let srtt = self.rtt.srtt();
        let expected = (oldest + srtt).since(now);
        expected <= (srtt / 2).min(DEFER)
    }

    /// Sends new segments as window and pacing allow.
    #[inline]
    pub(super) fn transmit(&mut self, now: Time, out: &mut Outbox) {
        if !self.may_send(now) {
            return;
        }
        if self.board.in_flight() < self.win.cwnd {
            self.send_normally(now, out);
        } else {
            self.usage.update(true, &self.board);
        }
    }

    /// Apart: most often the window is full, or the pacing clock says no.
    #[inline(never)]
    fn send_normally(&mut self, now: Time, out: &mut Outbox) {
        self.send_new(now, Push::Normal, out);
    }

    /// Sends one segment, whatever the window says.
    #[cold]
    fn transmit_probe(&mut self, now: Time, out: &mut Outbox) {
        if self.may_send(now) {
            self.send_new(now, Push::Probe, out);
        }
    }

    #[inline(always)]
    fn may_send(&mut self, now: Time) -> bool {
        if self.phase != Phase::Established || !self.has_data() {
            return false;
        }
        let waits = self.pacing_blocks(now);
        if waits && self.board.in_flight() >= self.win.cwnd {
            self.usage.update(true, &self.board);
        }
        !waits
    }

    #[inline(always)]
    fn send_new(&mut self, now: Time, push: Push, out: &mut Outbox) {
        let burst = self.burst();
        let mut sent = 0;
        let mut limited = false;
        loop {
            let in_flight = self.board.in_flight();
            let cwnd = self.win.cwnd;
            // Not more than half a window at once, so that the ACK clock keeps ticking.
            let mut quota = cwnd.saturating_sub(in_flight).min((cwnd / 2).max(1));
            if quota == 0 {
                if push != Push::Probe {
                    break;
                }
                quota = 1;
            }
            quota = quota.min(burst).min(self.receiver_room());
            if quota == 0 {
                break;
            }
            if self.queue.waiting() == 0 && self.bytes_left > 0 {
                self.fill_queue();
            }
            quota = quota.min(self.queue.grow_head(quota).max(1));
            let many = self.bytes_left > u64::from(self.win.mss);
            if many && push == Push::Normal && self.should_defer(now, burst) {
                limited = true;
                break;
            }
            sent += self.send_burst(now, quota, push, out);
            if push == Push::Probe || !self.has_data() || self.pacing_blocks(now) {
                break;
            }
        }
        limited |= self.board.in_flight() >= self.win.cwnd;
        if sent > 0 || limited {
            self.usage.update(limited, &self.board);
        }
        if sent > 0 {
            self.recovery.count_sent(sent);
            if push == Push::Normal {
                self.schedule_tail_probe(now, false);
            }
        }
    }

    #[inline(always)]
    fn send_burst(&mut self, now: Time, quota: u32, push: Push, out: &mut Outbox) -> u32 {
        let nothing_out = self.board.packets_out() == 0;
        let mss = u64::from(self.win.mss);
        let (whole, rest) = match self.bytes_left >= u64::from(quota) * mss {
            true => (quota, 0),
            false => ((self.bytes_left / mss) as u32, (self.bytes_left % mss) as u32),
        };
        let mut n = 0;
        if whole > 0 {
            n += whole;
            let push = n == quota && n > 1 || self.queue.pushes(n);
            self.send_run(now, self.win.mss, whole, push, out);
        }
        if self.bytes_left == 0 && self.fin_is_due {
            n += 1;
            self.fin_is_due = false;
            self.send_run(now, 0, 1, false, out);
        }
        if rest > 0 && n < quota {
            n += 1;
            self.send_rest(now, rest, n == quota && n > 1 || self.queue.pushes(n), out);
        }
        self.queue.take(n);
        if self.sent_segments < UNPACED_START {
            self.sent_segments += n;
        }
        self.sent_at = now;
        self.charge_pacing(now, u64::from(whole) * mss + u64::from(rest));
        // Otherwise `transmit` schedules a probe when it is through.
        let probes = push == Push::Normal && self.recovery.state.may_probe();
        if !probes && (nothing_out || self.timer == Timer::TailProbe) {
            self.rearm_retransmission(now);
        }
        n
    }

    /// Sends the end of a transfer, which is not a full segment.
    #[cold]
    fn send_rest(&mut self, now: Time, payload: u32, push: bool, out: &mut Outbox) {
        self.send_run(now, payload, 1, push, out);
    }

    /// Sends segments of one size, and pushes the last one.
    #[inline(always)]
    fn send_run(&mut self, now: Time, payload: u32, n: u32, push: bool, out: &mut Outbox) {
        let seq = self.board.sent(now, payload, n);
        self.bytes_left -= u64::from(payload) * u64::from(n);
        if let Some(stream) = &mut self.stream {
            (seq..seq + n).for_each(|seq| stream.cut(seq, payload));
        }
        self.template.stamp = now;
        self.template.payload = payload as u16;
        self.template.frame_len = (payload + self.win.header + ETHERNET_HEADER) as u16;
        let first = out.packets.len();
        for i in 0..n {
            out.push(self.template).seq = seq + i;
        }
        if std::mem::take(&mut self.announce_cwr) && self.mode == EcnMode::Classic {
            out.packets[first].bits = TcpBits::CWR;
        }
        let Some(last) = out.packets.last_mut() else { return };
        if self.bytes_left == 0 && self.stream.is_none() {
            if payload > 0 && now == self.written_at {
                self.fin_is_due = true;
            } else {
                last.flags = last.flags.with(Flags::FIN);
            }
        }
        // Linux sets PSH on what it hands down in one piece, so on its last segment.
        if push {
            last.bits = last.bits.with(TcpBits::PSH);
        }
    }

    /// Sends a lost segment again.
    pub(super) fn retransmit(&mut self, now: Time, seq: u32, out: &mut Outbox) {
        self.resend(now, seq, out);
        self.board.retransmitted(now, seq);
        self.recovery.note_retransmission(now);
    }

    fn resend(&mut self, now: Time, seq: u32, out: &mut Outbox) {
        let payload = self.board.payload(seq);
        let mut p = self.template;
        p.stamp = now;
        p.payload = payload as u16;
        p.frame_len = (payload + self.win.header + ETHERNET_HEADER) as u16;
        p.seq = seq;
        p.flags = p.flags.with(Flags::RETRANSMISSION);
        if !self.has_data() && seq + 1 == self.board.nxt && self.stream.is_none() {
            p.flags = p.flags.with(Flags::FIN);
        }
        // RFC 3168, 6.1.5: retransmissions are Not-ECT; with AccECN and in DCTCP they are not.
        if self.mode != EcnMode::AccEcn && self.cc.ecn() != EcnWish::Ect0Runs {
            p.ecn = Ecn::NotEct.into();
        }
        self.retransmitted += 1;
        out.push(p);
        self.charge_pacing(now, u64::from(payload));
    }

    /// Sends lost segments again as the window allows.
    pub(super) fn retransmit_lost(&mut self, now: Time, out: &mut Outbox) {
        if self.board.lost_out == 0 {
            return;
        }
        while let Some(seq) = self.board.next_lost() {
            if self.pacing_blocks(now) || self.board.in_flight() >= self.win.cwnd {
                break;
            }
            let head = seq == self.board.una;
            self.retransmit(now, seq, out);
            self.recovery.count_sent(1);
            if head && self.timer != Timer::Reordering {
                self.timer = Timer::Retransmit;
                self.timer_at = wheel::expiry(now, self.rto());
            }
        }
    }

    /// The pacing rate after an ACK: the controller's, or Linux's from window and RTT; always
    /// computed (burst size and HyStart use it), enforced only if someone asked for pacing.
    #[inline(always)]
    pub(super) fn update_pacing_rate(&mut self, of_controller: Option<u64>) {
        let rate = match of_controller {
            Some(rate) => rate,
            None => {
                let percent = if self.win.cwnd < self.win.ssthresh / 2 {
                    PACING_SLOW_START
                } else {
                    PACING_AVOIDANCE
                };
                let window = self.win.cwnd.max(self.board.packets_out());
                // bytes/s = mss * window / srtt; 8e6 because srtt8 is in eighths of a µs.
                let per_srtt = u64::from(self.win.mss) * 80_000 * percent * u64::from(window);
                per_srtt / u64::from(self.rtt.srtt8().max(1))
            }
        };
        self.pacing_rate = rate.min(self.pace_limit);
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

    // --- timers -----------------------------------------------------------------------------

    /// In whole ticks, as it is kept (`__tcp_set_rto`): what is counted from when the head was sent, too.
    pub(super) fn rto(&self) -> Span {
        (wheel::ticks(self.rtt.rto()) * (1 << self.backoff.min(10))).min(RTO_MAX)
    }

    /// Starts the retransmission timer, or stops it if nothing is out. After a probe or a
    /// reordering wait it counts from when the head was sent.
    pub(super) fn rearm_retransmission(&mut self, now: Time) {
        let Some(head) = self.board.head_sent_at() else {
            self.timer = Timer::Off;
            self.timer_at = Time::NEVER;
            return;
        };
        let wait = match self.timer {
            Timer::Reordering | Timer::TailProbe => {
                (head + self.rto()).since(now).max(Span::from_micros(1))
            }
            _ => self.rto(),
        };
        self.timer = Timer::Retransmit;
        self.timer_at = wheel::expiry(now, wait);
    }

    /// Tail loss probe (RFC 8985, 7.2): after two RTTs without an ACK. False if not applicable.
    ///
    /// It moves later with almost every ACK, so the timer is left at an instant before which it cannot be
    /// due, and when that comes the probe's own is looked up. This holds as long as the RTT does not halve
    /// and the timeout is not near.
    #[inline(always)]
    pub(super) fn schedule_tail_probe(&mut self, now: Time, from_now: bool) -> bool {
        if !self.recovery.state.may_probe() || self.board.packets_out() == 0 {
            return false;
        }
        self.probe = Probe { scheduled_at: now, from_now, ..self.probe };
        if self.timer != Timer::TailProbe
            || self.rtt.srtt8() <= self.probe.least_srtt8
            || (!from_now && self.head_is_old(now))
        {
            self.arm_tail_probe(now);
        }
        true
    }

    /// The head was sent so long ago that its timeout may come before the probe.
    #[inline(always)]
    fn head_is_old(&self, now: Time) -> bool {
        let head = self.board.head_sent_at().unwrap_or(now);
        head + self.rtt.srtt() + self.probe_latitude() < now
    }

    /// The timeout is later than an RTT by twice this at least.
    #[inline(always)]
    fn probe_latitude(&self) -> Span {
        self.rtt.rto_min() / 2
    }

    fn arm_tail_probe(&mut self, now: Time) {
        let srtt = self.rtt.srtt();
        let (due, early) = (self.probe_due(), now + srtt.min(self.probe_latitude()));
        self.timer = Timer::TailProbe;
        let lax = srtt > Span::ZERO && due > early && !self.head_is_old(now);
        (self.timer_at, self.probe.least_srtt8) =
            if lax { (early, self.rtt.srtt8() / 2) } else { (due, u32::MAX) };
    }

    /// Puts the timer where the probe is due, before something else changes than time.
    #[inline(always)]
    pub(super) fn settle_probe(&mut self) {
        if self.timer == Timer::TailProbe && self.probe.least_srtt8 != u32::MAX {
            self.timer_at = self.probe_due();
            self.probe.least_srtt8 = u32::MAX;
        }
    }

    fn probe_due(&self) -> Time {
        let Probe { scheduled_at, from_now, .. } = self.probe;
        let srtt = self.rtt.srtt();
        let mut wait = if srtt > Span::ZERO {
            let alone = self.board.packets_out() == 1;
            let slack = if alone { self.rtt.rto_min() } else { TIMEOUT_MIN };
            srtt * 2 + slack
        } else {
            handshake::TIMEOUT
        };
        let rto = self.rto();
        let left = if from_now {
            rto
        } else {
            let head = self.board.head_sent_at().unwrap_or(scheduled_at);
            (head + rto).since(scheduled_at)
        };
        if left > Span::ZERO {
            wait = wait.min(left);
        }
        wheel::expiry(scheduled_at, wait)
    }

    /// After progress: a probe if possible, else the retransmission timer.
    #[inline]
    pub(super) fn set_transmission_timer(&mut self, now: Time) {
        if !self.schedule_tail_probe(now, true) {
            self.rearm_retransmission(now);
        }
    }

    fn send_tail_probe(&mut self, now: Time, out: &mut Outbox) {
        if self.recovery.probe_end.is_none() {
            let before = self.board.packets_out();
            let mut retransmitted = false;
            if self.has_data() && self.receiver_room() > 0 {
                self.transmit_probe(now, out);
            } else if before > 0 {
                let last = self.board.nxt - 1;
                self.resend(now, last, out);
                self.board.probed(now, last);
                retransmitted = true;
            }
            if retransmitted || self.board.packets_out() > before {
                self.recovery.probe_end = Some(self.board.nxt);
                self.recovery.probe_was_retransmission = retransmitted;
                self.timer = Timer::Off;
            }
        }
        self.rearm_retransmission(now);
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
mod tests {
    use super::*;
    use crate::cc::reno::Reno;
    use crate::packet::Stamp;
    use crate::transport::rtt::RTO_MIN;

    fn ack(seq: u32, ms: u64) -> Packet {
        let mut p = Packet::new(0, GroupId::default(), Flags::ACK, ACK_FRAME, Ecn::NotEct);
        p.seq = seq;
        p.tsval = Stamp::of(Time::ZERO + Span::from_millis(ms));
        p
    }

    fn sender() -> Sender {
        let config = SenderConfig {
            flow: 0,
            group: GroupId::default(),
            ecn: EcnSupport::Off,
            pace_bps: None,
            bytes: None,
            receive_window: None,
            stream: false,
            dscp: 0,
            mtu: 1500,
            rto_min: RTO_MIN,
            stop: Time::NEVER,
        };
        Sender::new(config, Cc::Reno(Reno::plain()))
    }

    /// Sent one by one, the last segment of a write has PSH, and of each chunk with which more than half the largest
    /// window that was offered was written. A chunk is that half, of at first 22 segments, at most 45. The first one
    /// gets back the ten of the first window (captures of Linux 7.2 at 10 Mbit/s: 31, and then every 56 with a
    /// window of 82 kB).
    #[test]
    fn writes_and_half_windows_are_pushed() {
        for (kib, pushed) in [
            (63, [31, 75, 119, 163, 185]),
            (81, [37, 93, 121, 177, 233]),
            (256, [99, 144, 234, 324, 414]),
        ] {
            let (mut s, mut out) = (sender(), Outbox::default());
            s.max_window_kib = kib;
            s.fill_queue();
            for _ in 0..420 {
                s.queue.grow_head(1);
                s.send_burst(Time::ZERO, 1, Push::Normal, &mut out);
                s.write_on();
            }
            let with_push = out.packets.iter().filter(|p| p.bits.has(TcpBits::PSH));
            let seqs: Vec<u32> = with_push.map(|p| p.seq).take(5).collect();
            assert_eq!(seqs, pushed, "{kib} KiB");
        }
    }

    /// Of ACKs that a newer one has overtaken, those pass that are within the clock's grain of it, and
    /// duplicates of what is acknowledged that are younger than a timeout (here 1200 ms: 1 s at 1200 Hz).
    #[test]
    fn paws_discards_overtaken_acks() {
        let mut s = sender();
        s.board.una = 20;
        assert!(s.passes_paws(&ack(20, 5000)));
        assert!(s.passes_paws(&ack(18, 4999)), "one millisecond older");
        assert!(!s.passes_paws(&ack(18, 4998)));
        assert!(!s.passes_paws(&ack(22, 4998)), "news, but from before");
        assert!(s.passes_paws(&ack(20, 4998)), "a duplicate ACK");
        assert!(s.passes_paws(&ack(20, 3800)) && !s.passes_paws(&ack(20, 3799)));
        // What is older does not set the clock back, what is newer sets it forward.
        assert!(!s.passes_paws(&ack(22, 4998)) && s.passes_paws(&ack(22, 5010)));
        assert!(!s.passes_paws(&ack(23, 5000)));
        // The clock wraps after 2^32 ms.
        let wrapped = (1 << 32) + 10;
        s.template.tsval = Stamp::of(Time::ZERO + Span::from_millis(wrapped - 20));
        assert!(s.passes_paws(&ack(24, wrapped)) && !s.passes_paws(&ack(25, wrapped - 20)));
    }
}
