//! Transmission: what leaves when, under window, pacing and the send queue; and what is sent again.

use super::timers::Timer;
use super::{GSO_MAX_BYTES, Phase, Sender};
use crate::cc::{EcnWish, Pace};
use crate::ecn::Ecn;
use crate::element::Outbox;
use crate::packet::{Flags, Packet, TcpBits};
use crate::time::{Span, Time};
use crate::transport::ecn::EcnMode;
use crate::transport::send_queue::Write;
use crate::transport::stream::Mark;
use crate::transport::wheel;
use crate::units::ETHERNET_HEADER;

/// The application writes on when less than half of this waits to be sent, until it does (`TCP_NOTSENT_LOWAT`).
const NOTSENT_LOWAT: u64 = 131_072;
/// A partial burst waits for more window only if the last one left less than this ago, and if the
/// next ACK is expected within it (Linux `tcp_tso_should_defer`).
const DEFER: Span = Span::from_millis(1);
/// ... and if less than this part of the window is open (`tcp_tso_win_divisor`).
const DEFER_WINDOW_DIVISOR: u32 = 3;

/// Why segments are sent.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Push {
    Normal,
    /// A tail loss probe.
    Probe,
}

impl Sender {
    /// Segments that still fit into the receiver's window. It counts what it has out of order, too.
    #[inline]
    pub(super) fn receiver_room(&self) -> u32 {
        let Some(bytes) = self.data.receive_window else {
            return u32::MAX;
        };
        let segments = (bytes / u64::from(self.win.mss)).max(self.data.least_room);
        segments.saturating_sub(u64::from(self.board.nxt - self.board.una)) as u32
    }

    /// The application writes `bytes` to its stream.
    pub fn write(&mut self, now: Time, bytes: u64, out: &mut Outbox) {
        let Some(stream) = &mut self.data.stream else { return };
        stream.write(bytes);
        let starved = self.data.left < u64::from(self.win.mss);
        self.data.left += bytes;
        if self.phase != Phase::Established {
            return;
        }
        if starved && self.board.in_flight() < self.win.cwnd && self.board.next_lost().is_none() {
            // What is delivered now says how fast the application was (Linux
            // `tcp_rate_check_app_limited`).
            self.board.delivery.limit(self.board.in_flight());
        }
        if self.board.packets_out() == 0 {
            if !self.constants.governs_window && self.config.rules.idle_restart {
                self.restart_after_idle(now);
            }
            if self.board.delivery.app_limited_until > 0 {
                self.cc.on_restart(now, self.data.sent_at, &mut self.win);
            }
        }
        self.write_on();
        self.transmit(now, out);
    }

    /// Where pieces of the stream begin and end in segments that were sent since the last call.
    pub fn take_mark(&mut self) -> Option<Mark> {
        self.data.stream.as_mut().and_then(|s| s.take())
    }

    /// Per timeout without anything to send, the window halves, down to the initial one (Linux
    /// `tcp_slow_start_after_idle`; RFC 5681, 4.1).
    pub(super) fn restart_after_idle(&mut self, now: Time) {
        let (rto, mut idle) = (self.rto(), now.since(self.data.sent_at));
        if idle <= rto {
            return;
        }
        let win = &mut self.win;
        win.ssthresh = win.ssthresh.max(win.cwnd / 2 + win.cwnd / 4);
        let floor = self.config.rules.initial_window.min(win.cwnd);
        while idle > rto && win.cwnd > floor {
            idle = idle - rto;
            win.cwnd = (win.cwnd / 2).max(floor);
        }
    }

    /// The application writes on if little of what it has written waits to be sent. Only an ACK wakes it.
    #[inline(always)]
    pub(super) fn write_on(&mut self) {
        if self.data.queue.is_low()
            && u64::from(self.data.queue.waiting()) * u64::from(self.win.mss) < self.data.left
        {
            self.fill_queue();
        }
    }

    #[inline(never)]
    pub(super) fn fill_queue(&mut self) {
        let mss = u64::from(self.win.mss);
        let half = u64::from(self.data.max_window_kib) * 1024 / 2;
        let unwritten =
            self.data.left.div_ceil(mss).saturating_sub(u64::from(self.data.queue.waiting()));
        let leaves = match self.data.queue.waiting() {
            _ if self.board.nxt == 0 => self.config.rules.initial_window,
            0 if self.data.stream.is_some() => self.win.cwnd.saturating_sub(self.board.in_flight()),
            _ => 0,
        };
        self.data.queue.write(&Write {
            segments: u32::try_from(unwritten).unwrap_or(u32::MAX),
            until: NOTSENT_LOWAT.div_ceil(mss) as u32,
            chunk: (GSO_MAX_BYTES.min(half) / mss).max(1) as u32,
            push_beyond: (half / mss) as u32,
            leaves,
            leaves_at_once: self.pacing.burst.min(leaves),
        });
    }

    /// Would it be better to wait for the rest of a burst, as the window is open for so many?
    #[inline(always)]
    fn should_defer(&self, now: Time, burst: u32, open: u32) -> bool {
        if open >= burst || open * DEFER_WINDOW_DIVISOR >= self.win.cwnd {
            return false;
        }
        if self.recovery.state.is_repairing() || now > self.pacing.clock + DEFER {
            return false;
        }
        // Nothing is gained by waiting: the chunk goes out whole.
        if self.data.queue.head() <= open && !self.data.queue.is_last() {
            return false;
        }
        // The rest of a transfer is all that will ever be sent.
        if self.data.stream.is_none() && self.data.left <= u64::from(open) * u64::from(self.win.mss)
        {
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
        let mut in_flight = self.board.in_flight();
        if in_flight >= self.win.cwnd {
            return self.usage.update(true, &self.board);
        }
        loop {
            match self.send_normally(now, in_flight, out) {
                0 => break,
                sent => in_flight += sent,
            }
        }
    }

    /// Apart: most often the window is full, or the pacing clock says no. Without the loop over bursts, because most often
    /// one is all: the compiler would prepare much that only the next one needs.
    #[inline(never)]
    fn send_normally(&mut self, now: Time, in_flight: u32, out: &mut Outbox) -> u32 {
        self.send_new(now, Push::Normal, in_flight, out)
    }

    /// Sends one segment, whatever the window says.
    #[cold]
    pub(super) fn transmit_probe(&mut self, now: Time, out: &mut Outbox) {
        if self.may_send(now) {
            self.send_new(now, Push::Probe, self.board.in_flight(), out);
        }
    }

    #[inline(always)]
    pub(super) fn may_send(&mut self, now: Time) -> bool {
        if self.phase != Phase::Established || !self.data.is_there() {
            return false;
        }
        let waits = self.pacing.blocks(now);
        if waits && self.board.in_flight() >= self.win.cwnd {
            self.usage.update(true, &self.board);
        }
        !waits
    }

    /// Sends a burst. Returns its segments if window and pacing allow another one, else 0.
    #[inline(always)]
    fn send_new(&mut self, now: Time, push: Push, mut in_flight: u32, out: &mut Outbox) -> u32 {
        let (burst, cwnd) = (self.pacing.burst, self.win.cwnd);
        // Not more than half a window at once, so that the ACK clock keeps ticking.
        let open = cwnd.saturating_sub(in_flight);
        let mut quota = open.min((cwnd / 2).max(1));
        if push == Push::Probe {
            quota = quota.max(1);
        }
        quota = quota.min(burst);
        if self.data.receive_window.is_some() {
            quota = self.limited(quota);
        }
        let mut sent = 0;
        if quota > 0 {
            sent = if push == Push::Probe || !self.is_midway(quota) {
                self.send_next(now, quota, open, push, out)
            } else if self.should_defer(now, burst, open) {
                0
            } else {
                self.send_whole(now, quota, out)
            };
        }
        in_flight += sent;
        let limited = in_flight >= cwnd || quota > 0 && sent == 0;
        if sent > 0 || limited {
            self.usage.update(limited, &self.board);
        }
        if sent == 0 {
            return 0;
        }
        self.recovery.count_sent(sent);
        if push == Push::Probe {
            return 0;
        }
        self.schedule_tail_probe(now, false);
        let goes_on = self.data.is_there() && !self.pacing.blocks(now) && in_flight < cwnd;
        if goes_on { sent } else { 0 }
    }

    /// Nothing begins or ends within the next `quota` segments, and all are alike.
    #[inline(always)]
    fn is_midway(&self, quota: u32) -> bool {
        quota < self.data.queue.head()
            && self.data.left > u64::from(quota) * u64::from(self.win.mss)
            && self.data.stream.is_none()
    }

    /// Sends one burst [midway](Self::is_midway): what [`Self::send_next`] comes down to then.
    #[inline(always)]
    fn send_whole(&mut self, now: Time, n: u32, out: &mut Outbox) -> u32 {
        let nothing_out = self.board.packets_out() == 0;
        let first = out.packets.len();
        self.send_alike(now, self.win.mss, n, out);
        if self.ecn.announces_cwr {
            self.announce_cwr(&mut out.packets[first]);
        }
        if n > 1
            && let Some(last) = out.packets.last_mut()
        {
            last.bits = last.bits.with(TcpBits::PSH);
        }
        self.data.queue.take_some(n);
        self.count_burst(now, n, u64::from(n) * u64::from(self.win.mss));
        if !self.recovery.state.may_probe()
            && (nothing_out || self.timers.pending == Timer::TailProbe)
        {
            self.rearm_retransmission(now);
        }
        n
    }

    /// Sends one burst of at most `quota` segments. None, if it is better to wait.
    #[inline(never)]
    fn send_next(
        &mut self,
        now: Time,
        mut quota: u32,
        open: u32,
        push: Push,
        out: &mut Outbox,
    ) -> u32 {
        if self.data.queue.waiting() == 0 && self.data.left > 0 {
            self.fill_queue();
        }
        quota = quota.min(self.data.queue.grow_head(quota).max(1));
        let many = self.data.left > u64::from(self.win.mss);
        if many && push == Push::Normal && self.should_defer(now, self.pacing.burst, open) {
            return 0;
        }
        self.send_burst(now, quota, push, out)
    }

    #[inline(always)]
    pub(super) fn send_burst(
        &mut self,
        now: Time,
        quota: u32,
        push: Push,
        out: &mut Outbox,
    ) -> u32 {
        let nothing_out = self.board.packets_out() == 0;
        let mss = u64::from(self.win.mss);
        let (whole, rest) = self.data.next(quota, mss);
        let mut n = whole;
        let mut ends_chunk = self.data.queue.pushes(n);
        if whole > 0 {
            let push = n == quota && n > 1 || ends_chunk;
            self.send_run(now, self.win.mss, whole, push, out);
        }
        if self.data.left == 0 && self.data.fin_is_due {
            n += 1;
            ends_chunk = self.data.queue.pushes(n);
            self.data.fin_is_due = false;
            self.send_fin(now, out);
        }
        if rest > 0 && n < quota {
            n += 1;
            ends_chunk = self.data.queue.pushes(n);
            self.send_rest(now, rest, n == quota && n > 1 || ends_chunk, out);
            if n > 1 {
                self.board.join(self.board.nxt - 1);
            }
        }
        if ends_chunk {
            self.board.push(self.board.nxt - 1);
        }
        self.data.queue.take(n);
        self.count_burst(now, n, u64::from(whole) * mss + u64::from(rest));
        // Otherwise `transmit` schedules a probe when it is through.
        let probes = push == Push::Normal && self.recovery.state.may_probe();
        if !probes && (nothing_out || self.timers.pending == Timer::TailProbe) {
            self.rearm_retransmission(now);
        }
        n
    }

    /// So many segments and bytes have left.
    #[inline(always)]
    fn count_burst(&mut self, now: Time, segments: u32, bytes: u64) {
        self.pacing.count(segments);
        self.data.sent_at = now;
        self.pacing.charge(now, bytes);
    }

    /// Sends a FIN alone. With RFC 3168 only data are ECT (Linux `tcp_ecn_send`).
    fn send_fin(&mut self, now: Time, out: &mut Outbox) {
        let first = out.packets.len();
        self.send_run(now, 0, 1, false, out);
        if self.ecn.mode == EcnMode::Classic && self.constants.ecn != EcnWish::Ect0Runs {
            out.packets[first].ecn = Ecn::NotEct.into();
        }
    }

    /// Sends the end of a transfer, which is not a full segment.
    #[cold]
    pub(super) fn send_rest(&mut self, now: Time, payload: u32, push: bool, out: &mut Outbox) {
        self.send_run(now, payload, 1, push, out);
    }

    /// Sends segments of one size, and pushes the last one.
    #[inline(always)]
    pub(super) fn send_run(
        &mut self,
        now: Time,
        payload: u32,
        n: u32,
        push: bool,
        out: &mut Outbox,
    ) {
        let (seq, first) = (self.board.nxt, out.packets.len());
        self.send_alike(now, payload, n, out);
        if let Some(stream) = &mut self.data.stream {
            (seq..seq + n).for_each(|seq| stream.cut(seq, payload));
        }
        if self.ecn.announces_cwr {
            self.announce_cwr(&mut out.packets[first]);
        }
        let Some(last) = out.packets.last_mut() else { return };
        if self.data.left == 0 && self.data.stream.is_none() {
            if payload > 0 && now == self.data.written_at {
                self.data.fin_is_due = true;
            } else {
                last.flags = last.flags.with(Flags::FIN);
            }
        }
        // Linux sets PSH on what it hands down in one piece, so on its last segment.
        if push {
            last.bits = last.bits.with(TcpBits::PSH);
        }
    }

    #[inline(always)]
    fn send_alike(&mut self, now: Time, payload: u32, n: u32, out: &mut Outbox) {
        let seq = self.board.sent(now, payload, n);
        self.data.left -= u64::from(payload) * u64::from(n);
        self.template.stamp = now;
        self.template.payload = payload as u16;
        self.template.frame_len = (payload + self.win.header + ETHERNET_HEADER) as u16;
        for i in 0..n {
            out.push_like(&self.template).seq = seq + i;
        }
    }

    #[inline(never)]
    fn announce_cwr(&mut self, first: &mut Packet) {
        self.ecn.announces_cwr = false;
        first.bits = TcpBits::CWR;
    }

    /// Sends `n` lost segments of one burst again, as one.
    pub(super) fn retransmit(&mut self, now: Time, seq: u32, n: u32, out: &mut Outbox) {
        self.resend(now, seq, n, out);
        self.board.retransmitted(now, seq, n);
        self.recovery.note_retransmission(now);
    }

    pub(super) fn resend(&mut self, now: Time, first: u32, n: u32, out: &mut Outbox) {
        let mut bytes = 0;
        for seq in first..first + n {
            let payload = self.board.payload(seq);
            let mut p = self.template;
            p.stamp = now;
            p.payload = payload as u16;
            p.frame_len = (payload + self.win.header + ETHERNET_HEADER) as u16;
            p.seq = seq;
            p.flags = p.flags.with(Flags::RETRANSMISSION);
            if !self.data.is_there() && seq + 1 == self.board.nxt && self.data.stream.is_none() {
                p.flags = p.flags.with(Flags::FIN);
            }
            // RFC 3168, 6.1.5: retransmissions are Not-ECT; with AccECN and in DCTCP they are not.
            if self.ecn.mode != EcnMode::AccEcn && self.constants.ecn != EcnWish::Ect0Runs {
                p.ecn = Ecn::NotEct.into();
            }
            if self.board.is_pushed(seq) || n > 1 && seq + 1 == first + n {
                p.bits = p.bits.with(TcpBits::PSH);
            }
            bytes += u64::from(payload);
            out.push(p);
        }
        self.retransmitted += u64::from(n);
        self.pacing.charge(now, bytes);
    }

    /// Sends lost segments again as the window allows: what is lost of a burst as one, which pacing
    /// does not take apart (Linux `tcp_xmit_retransmit_queue`).
    pub(super) fn retransmit_lost(&mut self, now: Time, out: &mut Outbox) {
        if self.board.lost_out == 0 {
            return;
        }
        let burst = self.pacing.burst;
        while let Some(seq) = self.board.next_lost() {
            let room = self.win.cwnd.saturating_sub(self.board.in_flight());
            if room == 0 || self.pacing.blocks(now) {
                break;
            }
            let head = seq == self.board.una;
            let n = self.board.lost_run(seq, room.min(burst));
            if self.data.receive_window.is_some() && self.must_not_resend(seq, n) {
                break;
            }
            self.retransmit(now, seq, n, out);
            self.recovery.count_sent(n);
            if head && self.timers.pending != Timer::Reordering {
                self.timers.set(Timer::Retransmit, wheel::expiry(now, self.rto()));
            }
        }
    }

    /// How segments are paced after an ACK.
    #[inline(always)]
    pub(super) fn update_pacing(&mut self, pace: Pace) {
        self.pacing.follow(pace, &self.win, self.board.packets_out(), &self.rtt);
    }
}
