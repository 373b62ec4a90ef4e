//! The transmission timer: retransmission timeout, tail loss probe, reordering.

use super::{Phase, Sender};
use crate::element::Outbox;
use crate::time::{Span, Time};
use crate::transport::rtt::RTO_MAX;
use crate::transport::{handshake, wheel};

/// Least wait of a tail loss probe above two RTTs (Linux `TCP_TIMEOUT_MIN_US`).
pub(super) const TIMEOUT_MIN: Span = Span::from_millis(2);

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
    /// The peer's window is closed.
    Window,
}

/// When a tail loss probe was scheduled last.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Probe {
    scheduled_at: Time,
    /// The timeout counts from then, not from when the head was sent.
    from_now: bool,
    /// Above this RTT (in eighths of a microsecond) the timer is early enough for any later schedule;
    /// `u64::MAX`: it is exact.
    least_srtt8: u64,
}

/// The transmission timer, and what lengthens it.
#[derive(Clone, Debug)]
pub(super) struct Timers {
    pub pending: Timer,
    pub at: Time,
    pub probe: Probe,
    /// The application sends nothing more from here on.
    pub stop_at: Time,
    /// Doublings of the timeout.
    pub backoff: u32,
    /// Timeouts since something was acknowledged.
    pub retransmits: u32,
    pub syn_tries: u32,
}

/// A tail loss probe.
#[derive(Copy, Clone, Debug)]
pub struct TailProbe {
    /// `snd_nxt` when it was sent.
    pub end: u32,
    pub was_retransmission: bool,
}

impl Timers {
    pub fn new(stop_at: Time) -> Timers {
        Timers {
            pending: Timer::Off,
            at: Time::NEVER,
            probe: Probe::default(),
            stop_at,
            backoff: 0,
            retransmits: 0,
            syn_tries: 0,
        }
    }
    #[inline(always)]
    pub fn set(&mut self, what: Timer, at: Time) {
        self.pending = what;
        self.at = at;
    }
    pub fn clear(&mut self) {
        self.set(Timer::Off, Time::NEVER);
    }
    /// A SYN or SYN/ACK leaves, and an answer is waited for until then.
    pub fn await_handshake(&mut self, until: Time) {
        self.set(Timer::Syn, until);
        self.syn_tries += 1;
    }
    #[inline(always)]
    pub fn deadline(&self) -> Time {
        self.at.min(self.stop_at)
    }
}

impl Sender {
    pub(super) fn on_transmission_timer(&mut self, now: Time, out: &mut Outbox) {
        if self.timers.pending == Timer::TailProbe {
            let due = self.probe_due();
            if due > now {
                return self.place_tail_probe(now, due);
            }
        }
        self.timers.at = Time::NEVER;
        let due = self.timers.pending;
        // The others are pending while they act (`tcp_write_timer_handler`): the timeout after them counts from the head.
        if !matches!(due, Timer::Reordering | Timer::TailProbe) {
            self.timers.pending = Timer::Off;
        }
        match due {
            Timer::Off => {}
            Timer::Start => self.start(now, out),
            Timer::Syn if self.phase == Phase::SynReceived => self.repeat_syn_ack(now, out),
            Timer::Syn => self.send_syn(now, out),
            Timer::Reordering => self.on_reordering_timeout(now, out),
            Timer::TailProbe => self.send_tail_probe(now, out),
            Timer::Retransmit => self.on_retransmission_timeout(now, out),
            Timer::Window => self.probe_window(now, out),
        }
    }

    /// In whole ticks, as it is kept (`__tcp_set_rto`): what is counted from when the head was sent, too.
    pub(super) fn rto(&self) -> Span {
        (wheel::ticks(self.rtt.rto()) * (1 << self.timers.backoff.min(10))).min(RTO_MAX)
    }

    /// Starts the retransmission timer, or stops it if nothing is out. After a probe or a
    /// reordering wait it counts from when the head was sent.
    #[inline(never)]
    pub(super) fn rearm_retransmission(&mut self, now: Time) {
        let Some(head) = self.board.head_sent_at() else {
            self.timers.clear();
            return;
        };
        let wait = match self.timers.pending {
            Timer::Reordering | Timer::TailProbe => {
                (head + self.rto()).since(now).max(Span::from_micros(1))
            }
            _ => self.rto(),
        };
        self.timers.set(Timer::Retransmit, wheel::expiry(now, wait));
    }

    /// Tail loss probe (RFC 8985, 7.2): after two RTTs without an ACK. False if not applicable.
    ///
    /// It moves later with almost every ACK, so the timer is left at an instant before which it cannot be
    /// due, and when that comes the probe's own is looked up. This holds as long as the RTT does not fall by an
    /// eighth: see [`Self::arm_tail_probe`].
    #[inline(always)]
    pub(super) fn schedule_tail_probe(&mut self, now: Time, from_now: bool) -> bool {
        if !self.recovery.state.may_probe()
            || self.board.packets_out() == 0
            || !self.config.rules.tail_probe
        {
            return false;
        }
        self.timers.probe = Probe { scheduled_at: now, from_now, ..self.timers.probe };
        if self.timers.pending != Timer::TailProbe
            || self.rtt.srtt8() <= self.timers.probe.least_srtt8
        {
            self.arm_tail_probe(now);
        }
        true
    }

    #[inline(never)]
    pub(super) fn arm_tail_probe(&mut self, now: Time) {
        self.place_tail_probe(now, self.probe_due());
    }

    fn place_tail_probe(&mut self, now: Time, due: Time) {
        let (srtt, srtt8) = (self.rtt.srtt(), self.rtt.srtt8());
        let least_srtt8 = srtt8 - srtt8 / 8;
        // The timeout is later than an RTT by twice this at least.
        let latitude = self.rtt.rto_min() / 2;
        // What is scheduled from now on waits for two RTTs, and these are an eighth shorter at most.
        let early = now + (srtt * 7 / 4).min(latitude);
        // The timeout counts from when the head was sent: what becomes the head was not sent before one that was sent
        // once. So it does not come before `early` if the head is young enough now.
        let least_srtt = Span::from_micros(least_srtt8 >> 3);
        let head = self.board.head_sent_once_at();
        let is_young = head.is_some_and(|head| head + least_srtt + latitude >= now);
        let is_lax = srtt > Span::ZERO && is_young;
        self.timers.pending = Timer::TailProbe;
        (self.timers.at, self.timers.probe.least_srtt8) =
            if is_lax { (due.min(early), least_srtt8) } else { (due, u64::MAX) };
    }

    /// Puts the timer where the probe is due, before something else changes than time.
    #[inline(always)]
    pub(super) fn settle_probe(&mut self) {
        if self.timers.pending == Timer::TailProbe && self.timers.probe.least_srtt8 != u64::MAX {
            self.timers.at = self.probe_due();
            self.timers.probe.least_srtt8 = u64::MAX;
        }
    }

    pub(super) fn probe_due(&self) -> Time {
        let Probe { scheduled_at, from_now, .. } = self.timers.probe;
        let srtt = self.rtt.srtt();
        let mut wait = if srtt > Span::ZERO {
            let alone = self.board.packets_out() == 1;
            let slack = if alone { self.rtt.rto_min() } else { TIMEOUT_MIN };
            srtt * 2 + slack
        } else {
            handshake::TIMEOUT
        };
        let head = if from_now { None } else { self.board.head_sent_at() };
        let head = head.unwrap_or(scheduled_at);
        // The timeout is later than an RTT by this at least.
        let is_late = scheduled_at + wait > head + srtt + self.rtt.rto_min();
        if is_late || srtt == Span::ZERO {
            let left = (head + self.rto()).since(scheduled_at);
            if left > Span::ZERO {
                wait = wait.min(left);
            }
        }
        wheel::expiry(scheduled_at, wait)
    }

    /// After progress: a probe if possible, else the retransmission timer.
    #[inline(always)]
    pub(super) fn set_transmission_timer(&mut self, now: Time) {
        if !self.schedule_tail_probe(now, true) {
            self.rearm_retransmission(now);
        }
    }

    pub(super) fn send_tail_probe(&mut self, now: Time, out: &mut Outbox) {
        if self.recovery.probe.is_none() && !self.waits_in_host(self.board.nxt.wrapping_sub(1)) {
            let before = self.board.packets_out();
            let mut retransmitted = false;
            if self.data.is_there() && self.receiver_room() > 0 {
                self.transmit_probe(now, out);
            } else if before > 0 {
                let last = self.board.nxt - 1;
                self.resend(now, last, 1, out);
                self.board.probed(now, last);
                retransmitted = true;
            }
            if retransmitted || self.board.packets_out() > before {
                let end = self.board.nxt;
                self.recovery.probe = Some(TailProbe { end, was_retransmission: retransmitted });
                self.timers.pending = Timer::Off;
            }
        }
        self.rearm_retransmission(now);
    }
}
