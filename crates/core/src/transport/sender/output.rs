//! Transmission: what leaves when, under window, pacing and the send queue; and what is sent again.

use super::timers::Timer;
use super::{Phase, Sender};
use crate::cc::{Burst, EcnWish, INITIAL_WINDOW};
use crate::ecn::Ecn;
use crate::element::Outbox;
use crate::packet::{Flags, TcpBits};
use crate::time::{Span, Time};
use crate::transport::ecn::EcnMode;
use crate::transport::send_queue::Write;
use crate::transport::stream::Mark;
use crate::transport::wheel;
use crate::units::ETHERNET_HEADER;

/// Segments of a new connection that pacing does not hold back (Linux `tcp_update_skb_after_send`).
const UNPACED_START: u32 = 10;
/// Pacing rate over window/srtt, percent: in slow start and after (Linux
/// `tcp_pacing_ss_ratio`, `tcp_pacing_ca_ratio`).
const PACING_SLOW_START: u64 = 200;
const PACING_AVOIDANCE: u64 = 120;
/// A chunk of the send queue has at most this many bytes (Linux `sk_gso_max_size`: 64 KiB less room for headers)
/// and half the largest window that the receiver has offered (`tcp_bound_to_half_wnd`).
const GSO_MAX_BYTES: u64 = 65_536 - 321;
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

/// Why segments are sent.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Push {
    Normal,
    /// A tail loss probe.
    Probe,
}

impl Sender {
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
        if self.board.packets_out() == 0 && !self.constants.governs_window {
            self.restart_after_idle(now);
        }
        self.write_on();
        self.transmit(now, out);
    }

    /// Where pieces of the stream begin and end in segments that were sent since the last call.
    pub fn take_mark(&mut self) -> Option<Mark> {
        self.stream.as_mut().and_then(|s| s.take())
    }

    /// Per timeout without anything to send, the window halves, down to the initial one (Linux
    /// `tcp_slow_start_after_idle`; RFC 5681, 4.1).
    pub(super) fn restart_after_idle(&mut self, now: Time) {
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
    pub(super) fn pacing_blocks(&mut self, now: Time) -> bool {
        if !self.paced || self.stamp <= now {
            return false;
        }
        self.pacing_at = self.stamp;
        true
    }

    /// Advances the pacing clock by a burst of `bytes`. What a burst left late is given back, up
    /// to half of its own time.
    #[inline]
    pub(super) fn charge_pacing(&mut self, now: Time, bytes: u64) {
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
        let least = match self.cc.pace().burst {
            Burst::Exactly(segments) => return segments,
            Burst::AtLeast(segments) => segments,
        };
        let mut bytes = self.pacing_rate >> BURST_SHIFT;
        let shift = self.rtt.min_us() >> BURST_RTT_SHIFT;
        if shift < 32 {
            bytes += BURST_MAX_BYTES >> shift;
        }
        ((bytes.min(BURST_MAX_BYTES) / u64::from(self.win.mss)) as u32).max(least)
    }

    /// The application writes on if little of what it has written waits to be sent. Only an ACK wakes it.
    #[inline(always)]
    pub(super) fn write_on(&mut self) {
        if self.queue.is_low()
            && u64::from(self.queue.waiting()) * u64::from(self.win.mss) < self.bytes_left
        {
            self.fill_queue();
        }
    }

    #[inline(never)]
    pub(super) fn fill_queue(&mut self) {
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
    pub(super) fn should_defer(&self, now: Time, burst: u32) -> bool {
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
    pub(super) fn send_normally(&mut self, now: Time, out: &mut Outbox) {
        self.send_new(now, Push::Normal, out);
    }

    /// Sends one segment, whatever the window says.
    #[cold]
    pub(super) fn transmit_probe(&mut self, now: Time, out: &mut Outbox) {
        if self.may_send(now) {
            self.send_new(now, Push::Probe, out);
        }
    }

    #[inline(always)]
    pub(super) fn may_send(&mut self, now: Time) -> bool {
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
    pub(super) fn send_new(&mut self, now: Time, push: Push, out: &mut Outbox) {
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
    pub(super) fn send_burst(
        &mut self,
        now: Time,
        quota: u32,
        push: Push,
        out: &mut Outbox,
    ) -> u32 {
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
            if n > 1 {
                self.board.join(self.board.nxt - 1);
            }
        }
        if self.queue.pushes(n) {
            self.board.push(self.board.nxt - 1);
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
            if !self.has_data() && seq + 1 == self.board.nxt && self.stream.is_none() {
                p.flags = p.flags.with(Flags::FIN);
            }
            // RFC 3168, 6.1.5: retransmissions are Not-ECT; with AccECN and in DCTCP they are not.
            if self.mode != EcnMode::AccEcn && self.constants.ecn != EcnWish::Ect0Runs {
                p.ecn = Ecn::NotEct.into();
            }
            if self.board.is_pushed(seq) || n > 1 && seq + 1 == first + n {
                p.bits = p.bits.with(TcpBits::PSH);
            }
            bytes += u64::from(payload);
            out.push(p);
        }
        self.retransmitted += u64::from(n);
        self.charge_pacing(now, bytes);
    }

    /// Sends lost segments again as the window allows: what is lost of a burst as one, which pacing
    /// does not take apart (Linux `tcp_xmit_retransmit_queue`).
    pub(super) fn retransmit_lost(&mut self, now: Time, out: &mut Outbox) {
        if self.board.lost_out == 0 {
            return;
        }
        let burst = self.burst();
        while let Some(seq) = self.board.next_lost() {
            let room = self.win.cwnd.saturating_sub(self.board.in_flight());
            if room == 0 || self.pacing_blocks(now) {
                break;
            }
            let head = seq == self.board.una;
            let n = self.board.lost_run(seq, room.min(burst));
            self.retransmit(now, seq, n, out);
            self.recovery.count_sent(n);
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
}
