//! What the sending end of a host needs that receives, too, and whose application comes and goes: see
//! [`Endpoint`](crate::transport::endpoint::Endpoint).

use super::recovery::CaState;
use super::timers::Timer;
use super::{Phase, Sender};
use crate::ecn::Ecn;
use crate::element::Outbox;
use crate::packet::{ACK_FRAME, Flags, Packet};
use crate::time::Time;
use crate::transport::wheel;

impl Sender {
    /// The peer offers so many bytes from its ACK on.
    pub fn offer_window(&mut self, now: Time, bytes: u64) {
        if bytes > 0 && self.timers.pending == Timer::Window {
            self.timers.backoff = 0;
            self.timers.clear();
        }
        if self.data.receive_window.is_some_and(|before| before != bytes)
            && self.data.is_there()
            && self.board.packets_out() == 0
            && self.config.rules.idle_restart
        {
            // Linux `tcp_ack_update_window`.
            self.restart_after_idle(now);
        }
        let widest = match self.data.receive_window {
            Some(_) => self.data.max_window_kib,
            None => 0,
        };
        let kib = u16::try_from(bytes / 1024).unwrap_or(u16::MAX);
        self.data.max_window_kib = widest.max(kib);
        (self.data.receive_window, self.data.least_room) = (Some(bytes), 0);
    }

    /// The application closes: the FIN leaves behind what it has written.
    pub fn finish(&mut self, now: Time, out: &mut Outbox) {
        if self.data.stream.take().is_some() {
            self.data.fin_is_due = self.data.left == 0;
            self.transmit(now, out);
        }
    }

    /// While the window is closed and nothing is outstanding, the peer is asked for it, at intervals that double
    /// (RFC 9293, 3.8.6.1).
    pub fn watch_window(&mut self, now: Time) {
        let (_, is_closed) = self.is_busy();
        if is_closed && self.board.packets_out() == 0 && self.timers.pending == Timer::Off {
            self.timers.backoff = 0;
            self.timers.set(Timer::Window, wheel::expiry(now, self.rto()));
        }
    }

    /// Asks with what has been acknowledged already.
    pub(super) fn probe_window(&mut self, now: Time, out: &mut Outbox) {
        let flags = Flags::RETRANSMISSION;
        let (flow, group) = (self.config.flow, self.config.group);
        out.push(Packet::new(flow, group, flags, ACK_FRAME, Ecn::NotEct));
        self.timers.backoff += 1;
        self.timers.set(Timer::Window, wheel::expiry(now, self.rto()));
    }

    /// Something is outstanding or waits to be sent; and it waits for the peer's window.
    pub fn is_busy(&self) -> (bool, bool) {
        let is_busy = self.board.packets_out() > 0 || self.data.is_there();
        (is_busy, self.data.is_there() && self.receiver_room() == 0)
    }

    /// Nothing is sent any more.
    pub fn abort(&mut self) {
        self.phase = Phase::Closed;
        self.timers.clear();
        self.pacing.wake_at = Time::NEVER;
    }

    /// It has answered a SYN, and waits for the third packet of the handshake.
    pub fn is_answering(&self) -> bool {
        self.phase == Phase::SynReceived
    }
    /// How often the SYN/ACK was sent again.
    pub fn answered_again(&self) -> u32 {
        self.ecn.answered_again
    }
    /// What its packets carry from now on.
    pub fn set_field(&mut self, field: Ecn) {
        self.template.ecn = field.into();
    }
    /// What they carry.
    pub fn field(&self) -> Ecn {
        self.template.ecn.get()
    }

    /// What `tcp_info` tells, by its name there without `tcpi_`; times in microseconds.
    pub fn info(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let board = &self.board;
        let state = match self.recovery.state {
            CaState::Open => 0,
            CaState::Disorder => 1,
            CaState::Cwr => 2,
            CaState::Recovery => 3,
            CaState::Loss => 4,
        };
        each("ca_state", state);
        each("snd_cwnd", self.win.cwnd.into());
        each("snd_ssthresh", self.win.ssthresh.into());
        each("snd_mss", self.win.mss.into());
        each("unacked", board.packets_out().into());
        each("sacked", board.sacked_out.into());
        each("lost", board.lost_out.into());
        each("retrans", board.retrans_out.into());
        each("total_retrans", self.retransmitted);
        each("reordering", board.rack.reordering.into());
        each("delivered", board.delivery.segments.into());
        each("delivered_ce", board.delivery.ce.into());
        let [ect1, ce, ect0] = self.ecn.bytes();
        each("delivered_e1_bytes", ect1.into());
        each("delivered_ce_bytes", ce.into());
        each("delivered_e0_bytes", ect0.into());
        each("backoff", self.timers.backoff.into());
        each("retransmits", self.timers.retransmits.into());
        each("rto", self.rto().as_micros());
        each("rtt", self.rtt.srtt().as_micros());
        each("min_rtt", self.rtt.min_us().into());
        each("notsent_bytes", self.data.left);
        each("pacing_rate", self.pacing.rate);
    }
}
