//! TCP in the host whose queue is the bottleneck: what waits there is limited (TCP small queues), and what the queue refuses
//! stays unsent. As Linux (`tcp_write_xmit`), it hands down one burst after the other, each after the queue's answer to
//! the one before.

use std::collections::VecDeque;

use super::Sender;
use crate::element::{Answer, Outbox};
use crate::time::{Span, Time};
use crate::transport::rtt::RTO_MIN;
use crate::transport::send_queue::Chunk;
use crate::units::tcp_truesize;

/// Least limit in bursts, and part of a second at the pacing rate (`tcp_small_queue_check`).
const BURSTS: u64 = 2;
const PACING_SHIFT: u32 = 10;
/// Most bytes without pacing (`tcp_limit_output_bytes`).
const UNPACED_MOST: u64 = 4 << 20;
/// What a retransmission may find there, as a power of two over that.
const FOR_RETRANSMISSIONS: u32 = 1;
/// After a probe that the queue refuses, with nothing in flight (`TCP_RESOURCE_PROBE_INTERVAL`).
const PROBE_AGAIN: Span = Span::from_millis(500);

/// The sender before it handed down what the queue has not answered.
#[derive(Clone, Debug, Default)]
struct Before {
    nxt: u32,
    retransmitted: u64,
    clock: Time,
    unpaced: u32,
    sent_at: Time,
}

/// Segments in one packet.
#[derive(Copy, Clone, Debug)]
struct Piece {
    seq: u32,
    segments: u32,
    truesize: u64,
}

/// The bytes of one socket that wait in the host's queue (TCP small queues).
#[derive(Clone, Debug, Default)]
pub struct SmallQueue {
    waiting: VecDeque<Piece>,
    /// Their memory (`sk_wmem_alloc`).
    truesize: u64,
    /// There was more to send (`TSQ_THROTTLED`).
    is_throttled: bool,
    before: Before,
    /// Segments that were handed down and not answered, and what was refused of them.
    unanswered: u32,
    refused: Vec<Piece>,
    is_congested: bool,
    /// With nothing in flight, it was time to try again.
    probes: bool,
}

impl Sender {
    /// From now on its first queue is in its host.
    pub fn put_on_host(&mut self) {
        self.own_queue = Some(Box::default());
        // Limits of both kinds are looked at together, so that senders without any pay nothing.
        self.data.receive_window.get_or_insert(u32::MAX.into());
    }

    /// Something is about to happen to it.
    pub fn stand_by(&mut self) {
        let before = Before {
            nxt: self.board.nxt,
            retransmitted: self.retransmitted,
            clock: self.pacing.clock,
            unpaced: self.pacing.sent,
            sent_at: self.data.sent_at,
        };
        if let Some(own) = self.own_queue.as_mut().filter(|own| own.unanswered == 0) {
            own.before = before;
        }
    }

    /// The queue has not answered yet.
    pub fn awaits_answer(&self) -> bool {
        self.own_queue.as_ref().is_some_and(|own| own.unanswered > 0)
    }

    /// It has handed down so many segments.
    pub fn handed_down(&mut self, segments: u32) {
        if let Some(own) = &mut self.own_queue {
            own.unanswered += segments;
        }
    }

    /// How many of these new segments may leave now.
    #[cold]
    #[inline(never)]
    pub(super) fn limited(&mut self, quota: u32) -> u32 {
        let quota = quota.min(self.receiver_room());
        if quota == 0 || self.own_queue.is_none() {
            return quota;
        }
        if self.data.queue.waiting() == 0 && self.data.left > 0 {
            self.fill_queue();
        }
        let burst = quota.min(self.data.queue.grow_head(quota).max(1));
        if self.must_wait(burst, 0) { 0 } else { quota }
    }

    /// Whether lost segments may not be sent again now: they are still there, or too much else is.
    #[cold]
    #[inline(never)]
    pub(super) fn must_not_resend(&mut self, seq: u32, segments: u32) -> bool {
        self.waits_in_host(seq) || self.must_wait(segments, FOR_RETRANSMISSIONS)
    }

    /// Whether a segment is in its own host's queue (`skb_still_in_host_queue`).
    pub(super) fn waits_in_host(&self, seq: u32) -> bool {
        let is_there = |p: &Piece| (p.seq..p.seq + p.segments).contains(&seq);
        self.own_queue.as_ref().is_some_and(|own| own.waiting.iter().any(is_there))
    }

    fn must_wait(&mut self, segments: u32, shift: u32) -> bool {
        let Some(own) = &mut self.own_queue else { return false };
        if own.unanswered > 0
            || self.board.nxt != own.before.nxt
            || self.retransmitted != own.before.retransmitted
        {
            return true;
        }
        let burst = u64::from(tcp_truesize(self.win.mss * segments));
        let most = if self.pacing.is_on { u64::MAX } else { UNPACED_MOST };
        let limit = (BURSTS * burst).max(self.pacing.rate >> PACING_SHIFT).min(most) << shift;
        if own.truesize < limit || self.board.is_one_burst() {
            return false;
        }
        own.is_throttled = true;
        true
    }

    /// The queue tells of a packet with so many segments. Gives when to try again, if nothing else will happen.
    pub fn on_answer(
        &mut self,
        now: Time,
        (seq, segments, payload): (u32, u32, u32),
        answer: Answer,
        out: &mut Outbox,
    ) -> Option<Time> {
        let own = self.own_queue.as_mut()?;
        let piece = Piece { seq, segments, truesize: tcp_truesize(payload).into() };
        match answer {
            Answer::Congested => {
                own.is_congested = true;
                return None;
            }
            Answer::Gone => {
                if let Some(i) = own.waiting.iter().position(|p| p.seq == seq) {
                    own.truesize -= own.waiting.remove(i).map_or(0, |p| p.truesize);
                }
                if own.unanswered == 0 && std::mem::take(&mut own.is_throttled) {
                    self.stand_by();
                    self.resume(now, out);
                }
                return None;
            }
            Answer::Taken => {
                own.truesize += piece.truesize;
                own.waiting.push_back(piece);
            }
            Answer::Refused => own.refused.push(piece),
            Answer::Lost => {}
        }
        own.unanswered = own.unanswered.saturating_sub(segments);
        if own.unanswered > 0 {
            return None;
        }
        let (refused, probes) = (std::mem::take(&mut own.refused), own.probes);
        own.probes = false;
        if std::mem::take(&mut own.is_congested) && refused.is_empty() {
            self.enter_cwr(now);
        }
        if refused.is_empty() {
            self.stand_by();
            self.resume(now, out);
            return None;
        }
        self.take_back(&refused);
        self.enter_cwr(now);
        self.stand_by();
        if self.board.packets_out() > 0 {
            return None;
        }
        // No ACK will come (`tcp_check_probe_timer`).
        self.timers.clear();
        Some(now + if probes { PROBE_AGAIN } else { self.rto().max(RTO_MIN) })
    }

    /// Nothing was in flight, and the queue had refused all.
    pub fn try_again(&mut self, now: Time, out: &mut Outbox) {
        if let Some(own) = &mut self.own_queue {
            own.probes = self.board.packets_out() == 0;
        }
        self.resume(now, out);
    }

    /// Sends on, after the queue has room again or nothing else can be expected.
    fn resume(&mut self, now: Time, out: &mut Outbox) {
        self.retransmit_lost(now, out);
        self.transmit(now, out);
    }

    /// Makes segments unsent that the queue refused, if they are the newest ones. Else they are lost.
    fn take_back(&mut self, refused: &[Piece]) {
        let Some(own) = &self.own_queue else { return };
        let before = own.before.clone();
        let (new, again): (Vec<Piece>, Vec<Piece>) =
            refused.iter().partition(|piece| piece.seq >= before.nxt);
        for piece in again {
            self.board.not_sent_again(piece.seq, piece.segments);
        }
        let first = new.iter().map(|piece| piece.seq).min().unwrap_or(self.board.nxt);
        let segments = self.board.nxt - first;
        if segments == 0 || segments != new.iter().map(|piece| piece.segments).sum::<u32>() {
            return;
        }
        let payloads = (first..self.board.nxt).map(|seq| self.board.payload(seq));
        let (bytes, full) = payloads.fold((0, 0), |(bytes, full), payload| {
            (bytes + u64::from(payload), full + u32::from(payload > 0))
        });
        self.data.fin_is_due |= full < segments;
        self.data.left += bytes;
        let pushes = self.board.is_pushed(self.board.nxt - 1);
        self.data.queue.give_back(Chunk { segments: full, pushes });
        self.data.sent_at = before.sent_at;
        (self.pacing.clock, self.pacing.sent) = (before.clock, before.unpaced);
        // The next one does not follow it.
        self.pacing.wake_at = Time::NEVER;
        self.recovery.count_unsent(segments);
        self.board.unsend(segments);
    }
}
