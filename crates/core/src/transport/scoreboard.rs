//! What the sender knows of each segment under way: SACKed, lost, retransmitted; and loss detection by
//! time ([`Rack`]).

use std::collections::VecDeque;

use super::delivery::{Delivery, Departure, micros_after, micros_between};
use super::rack::Rack;
use super::undo::Undo;
use crate::cc::{LostSegment, RateSample, Totals};
use crate::packet::Stamp;
use crate::prefetch;
use crate::sack::{Block, Blocks, MAX_BLOCKS};
use crate::time::{Span, Time};

const SACKED: u8 = 1;
const LOST: u8 = 1 << 1;
/// A retransmission is under way.
const RETRANS: u8 = 1 << 2;
const EVER_RETRANS: u8 = 1 << 3;
const APP_LIMITED: u8 = 1 << 4;
/// Of one burst with the segment before: what of it is lost is sent again as one.
const JOINED: u8 = 1 << 5;
/// It has PSH also where it is sent again alone.
const PUSHED: u8 = 1 << 6;

/// One segment from its first transmission until it is acknowledged. Small, because there is one
/// per packet under way.
#[derive(Copy, Clone, Debug, Default)]
struct Segment {
    sent_at: Time,
    /// How long before it was sent its flight began.
    flight_us: u32,
    /// How long before it was sent something was delivered last.
    since_delivery_us: u32,
    /// `Delivery::segments` when it was sent.
    delivered: u32,
    payload: u16,
    flags: u8,
}

/// The state of the connection when a segment was last sent: kept only for a controller that judges
/// flights by what they lost and what was marked ([`Scoreboard::keep_histories`]).
#[derive(Copy, Clone, Debug, Default)]
struct Sending {
    /// Segments in flight with this one.
    in_flight: u32,
    /// `lost_total` and `Delivery::ce`.
    lost: u32,
    ce: u32,
}

impl Segment {
    #[inline(always)]
    fn new(departure: Departure, payload: u32) -> Segment {
        Segment {
            sent_at: departure.sent_at,
            flight_us: departure.flight_us,
            since_delivery_us: departure.since_delivery_us,
            delivered: departure.delivered,
            payload: payload as u16,
            flags: if departure.app_limited { APP_LIMITED } else { 0 },
        }
    }
    #[inline(always)]
    fn departure(&self) -> Departure {
        let &Segment { sent_at, flight_us, since_delivery_us, delivered, .. } = self;
        let app_limited = self.has(APP_LIMITED);
        Departure { sent_at, flight_us, since_delivery_us, delivered, app_limited }
    }
    #[inline]
    fn has(&self, f: u8) -> bool {
        self.flags & f != 0
    }
}

/// An ACK, and what its sender knows beside the board.
#[derive(Copy, Clone, Debug)]
pub struct Incoming<'a> {
    pub at: Time,
    pub ack: u32,
    pub blocks: &'a Blocks,
    /// The first block tells of a duplicate (RFC 2883).
    pub dsack: bool,
    /// The timestamp that it echoes.
    pub echo: Stamp,
    /// The end of the current recovery episode.
    pub high_seq: u32,
    /// Guards RACK against ambiguous samples.
    pub min_rtt_us: u32,
    /// The end of a tail loss probe that is under way.
    pub probe_end: Option<u32>,
}

/// What an ACK told, gathered while segments are taken off.
#[derive(Clone, Debug, Default)]
pub struct AckOutcome {
    pub una_advanced: bool,
    /// New segments were SACKed.
    pub sacked: bool,
    /// A segment never retransmitted and sent before the current recovery was acknowledged.
    pub original_acked: bool,
    pub retransmission_acked: bool,
    /// A duplicate arrived, and something was sent twice.
    pub dsack: bool,
    /// It was the tail loss probe.
    pub probe_twice: bool,
    /// Segments and payload newly delivered.
    pub delivered: u32,
    pub delivered_bytes: u32,
    /// Payload newly acknowledged cumulatively.
    pub acked_bytes: u32,
    /// RTT in µs of the oldest segment of the ACK (for srtt) and of the newest (for the controller);
    /// `None` if a retransmission makes it ambiguous.
    pub rtt_oldest_us: Option<u32>,
    pub rtt_newest_us: Option<u32>,
    newest_prior: Option<Segment>,
    newest_seq: u32,
    lowest_unexpected: u32,
}

/// What is needed only while something is missing; apart, to keep the rest close together.
#[derive(Clone, Debug, Default)]
struct Repair {
    /// Retransmissions in order of sending.
    retransmissions: VecDeque<(u32, Time)>,
    /// Blocks of the previous ACK, which need not be walked again.
    known: [Block; MAX_BLOCKS],
    /// Newly found lost; filled only where histories are kept.
    lost: Vec<LostSegment>,
    /// Segments sent again, and duplicates that arrived, ever.
    sent_again: u32,
    duplicates: u32,
}

/// The segments `una..nxt`.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    ring: Box<[Segment]>,
    /// As long as `ring`, or empty.
    history: Box<[Sending]>,
    pub una: u32,
    pub nxt: u32,
    pub sacked_out: u32,
    pub lost_out: u32,
    pub retrans_out: u32,
    /// Segments ever declared lost.
    pub lost_total: u64,
    pub delivery: Delivery,
    /// One above the highest SACKed segment.
    fack: u32,
    pub rack: Rack,
    /// All segments below are SACKed, lost or retransmitted: loss detection starts here.
    detect_from: u32,
    /// No lost segment below waits for retransmission.
    retransmit_from: u32,
    repair: Box<Repair>,
    pub undo: Undo,
    /// `repair.retransmissions` may hold something.
    retransmissions_out: bool,
    /// Segments from here on were sent once, and nothing else is known of them.
    clean_from: u32,
    /// Segments from here on have this payload.
    alike_from: u32,
    alike: u32,
}

impl Default for Scoreboard {
    fn default() -> Self {
        Scoreboard {
            ring: vec![Segment::default(); 16].into_boxed_slice(),
            history: Box::default(),
            una: 0,
            nxt: 0,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            lost_total: 0,
            delivery: Delivery::default(),
            fack: 0,
            rack: Rack::default(),
            detect_from: 0,
            retransmit_from: 0,
            repair: Box::default(),
            undo: Undo::default(),
            retransmissions_out: false,
            clean_from: 0,
            alike_from: 0,
            alike: 0,
        }
    }
}

impl Scoreboard {
    #[inline]
    pub fn packets_out(&self) -> u32 {
        self.nxt - self.una
    }
    #[inline(always)]
    pub fn totals(&self) -> Totals {
        Totals {
            delivered: self.delivery.segments,
            delivered_ce: self.delivery.ce,
            snd_una: self.una,
            snd_nxt: self.nxt,
        }
    }
    /// Segments believed to be in the network (RFC 6675 "pipe").
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.packets_out() + self.retrans_out - self.sacked_out - self.lost_out
    }
    #[inline]
    fn seg(&mut self, seq: u32) -> &mut Segment {
        let mask = self.ring.len() - 1;
        &mut self.ring[seq as usize & mask]
    }
    #[inline]
    fn peek(&self, seq: u32) -> &Segment {
        let mask = self.ring.len() - 1;
        &self.ring[seq as usize & mask]
    }
    /// Fetches the oldest segments into the cache, and the place of the next one.
    pub fn fetch_ends(&self) {
        prefetch::lines(self.peek(self.una));
        prefetch::lines(self.peek(self.nxt));
        if self.retransmissions_out {
            prefetch::lines(&*self.repair);
        }
    }
    /// When the oldest outstanding segment was last sent.
    pub fn head_sent_at(&self) -> Option<Time> {
        (self.una < self.nxt).then(|| self.peek(self.una).sent_at)
    }
    /// The same if it was sent once.
    pub fn head_sent_once_at(&self) -> Option<Time> {
        self.head_sent_at().filter(|_| !self.peek(self.una).has(EVER_RETRANS))
    }
    /// Payload of an outstanding segment.
    pub fn payload(&self, seq: u32) -> u32 {
        u32::from(self.peek(seq).payload)
    }
    /// Some segment was retransmitted in this recovery and is still outstanding.
    pub fn any_retransmission_out(&self) -> bool {
        self.retrans_out > 0 || (self.una < self.nxt && self.peek(self.una).has(EVER_RETRANS))
    }

    /// From now on remembers for each segment what was in flight, lost and marked when it was sent.
    pub fn keep_histories(&mut self) {
        self.history = vec![Sending::default(); self.ring.len()].into_boxed_slice();
    }
    /// Segments found lost since the last call, with their histories.
    pub fn take_lost(&mut self, each: impl FnMut(LostSegment)) {
        self.repair.lost.drain(..).for_each(each);
    }
    #[inline]
    fn remember(&mut self, seq: u32, in_flight: u32) {
        if !self.history.is_empty() {
            let mask = self.history.len() - 1;
            let (lost, ce) = (self.lost_total as u32, self.delivery.ce);
            self.history[seq as usize & mask] = Sending { in_flight, lost, ce };
        }
    }
    fn recall(&self, seq: u32) -> Option<&Sending> {
        self.history.get(seq as usize & self.history.len().wrapping_sub(1))
    }

    /// Records `n` new segments of so many bytes as sent; returns the number of the first.
    #[inline(always)]
    pub fn sent(&mut self, now: Time, payload: u32, n: u32) -> u32 {
        let first = self.nxt;
        while (self.packets_out() + n) as usize > self.ring.len() {
            self.grow();
        }
        if self.una == self.nxt {
            self.delivery.begin_flight(now);
        }
        if payload != self.alike {
            (self.alike, self.alike_from) = (payload, first);
        }
        let segment = Segment::new(self.delivery.departure(now), payload);
        let (mask, ring) = (self.ring.len() - 1, &mut *self.ring);
        ring[first as usize & mask] = segment;
        let joined = Segment { flags: segment.flags | JOINED, ..segment };
        for seq in first + 1..first + n {
            ring[seq as usize & mask] = joined;
        }
        if self.history.is_empty() {
            self.nxt += n;
        } else {
            for seq in first..first + n {
                self.nxt += 1;
                self.remember(seq, self.in_flight());
            }
        }
        first
    }

    #[cold]
    fn grow(&mut self) {
        let old = self.ring.len();
        let mut ring = vec![Segment::default(); old * 2].into_boxed_slice();
        for seq in self.una..self.nxt {
            ring[seq as usize & (2 * old - 1)] = *self.peek(seq);
        }
        self.ring = ring;
        if !self.history.is_empty() {
            let mut history = vec![Sending::default(); old * 2].into_boxed_slice();
            for seq in self.una..self.nxt {
                history[seq as usize & (2 * old - 1)] = self.history[seq as usize & (old - 1)];
            }
            self.history = history;
        }
    }

    /// `seq` is of one burst with the segment before it.
    pub fn join(&mut self, seq: u32) {
        self.seg(seq).flags |= JOINED;
    }

    /// `seq` has PSH for what the application wrote.
    pub fn push(&mut self, seq: u32) {
        self.seg(seq).flags |= PUSHED;
    }

    pub fn is_pushed(&self, seq: u32) -> bool {
        self.peek(seq).has(PUSHED)
    }

    /// How many segments from the lost one `seq` on are of its burst, lost and not sent again; at most `most`.
    pub fn lost_run(&self, seq: u32, most: u32) -> u32 {
        let is_next = |&s: &u32| {
            let segment = self.peek(s);
            segment.has(JOINED) && segment.has(LOST) && !segment.has(RETRANS | SACKED)
        };
        let end = self.nxt.min(seq.saturating_add(most));
        1 + (seq + 1..end).take_while(is_next).count() as u32
    }

    /// Records lost segments of one burst as sent again. What is left of the burst is one of its own.
    pub fn retransmitted(&mut self, now: Time, seq: u32, n: u32) {
        for seq in seq..seq + n {
            self.sent_again_as_lost(now, seq);
        }
        self.split(seq + n);
    }

    fn split(&mut self, seq: u32) {
        if seq < self.nxt {
            self.seg(seq).flags &= !JOINED;
        }
    }

    fn sent_again_as_lost(&mut self, now: Time, seq: u32) {
        if !self.seg(seq).has(RETRANS) {
            self.retrans_out += 1;
        }
        self.seg(seq).flags |= RETRANS;
        self.sent_again(now, seq);
        self.remember(seq, self.in_flight());
        self.undo.count_retransmission();
    }

    /// The newest segments have not left after all.
    pub fn unsend(&mut self, segments: u32) {
        self.nxt -= segments;
        for from in [&mut self.clean_from, &mut self.detect_from, &mut self.retransmit_from] {
            *from = self.nxt.min(*from);
        }
    }

    /// Lost segments have not left again after all.
    pub fn not_sent_again(&mut self, seq: u32, segments: u32) {
        for seq in seq.max(self.una)..(seq + segments).min(self.nxt) {
            if self.peek(seq).has(RETRANS) {
                self.seg(seq).flags &= !RETRANS;
                self.retrans_out -= 1;
                self.retransmit_from = self.retransmit_from.min(seq);
            }
        }
        let of_it = |at: &(u32, Time)| (seq..seq + segments).contains(&at.0);
        while self.repair.retransmissions.back().is_some_and(of_it) {
            self.repair.retransmissions.pop_back();
        }
    }

    /// What is outstanding left as one packet, or nothing is.
    pub fn is_one_burst(&self) -> bool {
        (self.una + 1..self.nxt).all(|seq| self.peek(seq).has(JOINED))
    }

    /// Records a segment as sent again by a tail loss probe: it is not known to be lost, so its
    /// retransmission repairs nothing and does not count as under way.
    pub fn probed(&mut self, now: Time, seq: u32) {
        self.split(seq);
        self.sent_again(now, seq);
        self.remember(seq, self.in_flight() + 1);
    }

    fn sent_again(&mut self, now: Time, seq: u32) {
        self.clean_from = self.nxt;
        let departure = self.delivery.departure(now);
        let seg = self.seg(seq);
        *seg = Segment {
            flags: seg.flags | EVER_RETRANS,
            ..Segment::new(departure, u32::from(seg.payload))
        };
        self.repair.retransmissions.push_back((seq, now));
        self.repair.sent_again += 1;
        self.retransmissions_out = true;
    }

    /// The next lost segment to send again.
    pub fn next_lost(&mut self) -> Option<u32> {
        if self.retrans_out >= self.lost_out {
            return None;
        }
        for seq in self.retransmit_from.max(self.una)..self.nxt {
            let s = self.peek(seq);
            if s.has(LOST) && !s.has(RETRANS | SACKED) {
                self.retransmit_from = seq;
                return Some(seq);
            }
        }
        self.retransmit_from = self.nxt;
        None
    }

    fn mark_lost(&mut self, seq: u32) {
        self.clean_from = self.nxt;
        let seg = self.seg(seq);
        if seg.has(SACKED) {
            return;
        }
        if seg.has(LOST) {
            if seg.has(RETRANS) {
                seg.flags &= !RETRANS;
                self.retrans_out -= 1;
                self.report_lost(seq);
            }
        } else {
            seg.flags |= LOST;
            self.lost_out += 1;
            self.report_lost(seq);
        }
        self.retransmit_from = self.retransmit_from.min(seq);
    }

    fn report_lost(&mut self, seq: u32) {
        self.lost_total += 1;
        if let Some(then) = self.recall(seq) {
            let lost = LostSegment {
                tx_in_flight: then.in_flight,
                lost: (self.lost_total as u32).wrapping_sub(then.lost),
                app_limited: self.peek(seq).has(APP_LIMITED),
            };
            self.repair.lost.push(lost);
        }
    }

    /// Timeout: what is not SACKed counts as lost, retransmissions too, but for what was sent less than an RTT ago
    /// (RFC 8985, 6.3; `tcp_timeout_mark_lost`); the head's burst is lost in any case.
    pub fn mark_lost_by_timeout(&mut self, now: Time) {
        let Some(head) = self.head_sent_at() else { return };
        for seq in self.una..self.nxt {
            let sent_at = self.peek(seq).sent_at;
            if sent_at == head || micros_between(now, sent_at) >= self.rack.rtt_us() {
                self.mark_lost(seq);
            }
        }
        self.retransmit_from = self.una;
    }

    /// Undo: nothing was lost after all.
    pub fn unmark_lost(&mut self) {
        for seq in self.una..self.nxt {
            self.seg(seq).flags &= !LOST;
        }
        self.lost_out = 0;
        self.detect_from = self.una;
        self.rack.reexamine();
    }

    /// Nothing out has been SACKed, lost or sent again, and nobody wants histories.
    #[inline(always)]
    pub fn is_clean(&self) -> bool {
        self.una >= self.clean_from && self.fack <= self.una && self.history.is_empty()
    }

    /// Takes in an ACK of new segments, and nothing else, while the board is [clean](Self::is_clean):
    /// the same as [`Self::on_ack`], the short way.
    #[inline(always)]
    pub fn on_clean_ack(&mut self, now: Time, ack: u32) -> AckOutcome {
        let mask = self.ring.len() - 1;
        let first_sent_at = self.ring[self.una as usize & mask].sent_at;
        let last = self.ring[(ack - 1) as usize & mask];
        let delivered = ack - self.una;
        let bytes = match self.una >= self.alike_from {
            true => delivered * self.alike,
            false => (self.una..ack).map(|seq| self.payload(seq)).sum(),
        };
        self.una = ack;
        debug_assert!(self.detect_from <= ack);
        self.detect_from = ack;
        let newest = micros_after(last.sent_at, now);
        self.rack.advance_to(last.sent_at, ack - 1, newest);
        self.delivery.first_sent_us = last.sent_at.as_micros();
        self.delivery.count(now, delivered, bytes);
        AckOutcome {
            una_advanced: true,
            original_acked: true,
            delivered,
            delivered_bytes: bytes,
            acked_bytes: bytes,
            rtt_oldest_us: Some(micros_after(first_sent_at, now)),
            rtt_newest_us: Some(newest),
            newest_prior: Some(last),
            newest_seq: ack - 1,
            ..AckOutcome::default()
        }
    }

    /// Takes in an ACK: SACK blocks, then the cumulative part.
    #[inline]
    pub fn on_ack(&mut self, incoming: &Incoming) -> AckOutcome {
        let prior_una = self.una;
        let prior_fack = self.fack.max(prior_una);
        // Loss detection comes to it soon.
        self.repair.retransmissions.front().into_iter().for_each(prefetch::lines);
        let mut out = AckOutcome { lowest_unexpected: self.nxt, ..AckOutcome::default() };
        let mut sack_times = None;
        if !incoming.blocks.is_empty() {
            sack_times = self.tag_sacked(incoming, &mut out);
        }
        if incoming.ack > prior_una {
            out.una_advanced = true;
            self.take_off(incoming, prior_fack, &mut out);
        }
        if let Some((first, last)) = sack_times {
            let us = micros_between(incoming.at, first);
            if out.rtt_oldest_us.is_none() {
                out.rtt_oldest_us = Some(us);
            }
            out.rtt_newest_us = Some(micros_between(incoming.at, last));
        }
        if out.delivered > 0 {
            self.delivery.count(incoming.at, out.delivered, out.delivered_bytes);
        }
        out
    }

    #[inline]
    fn take_off(&mut self, incoming: &Incoming, prior_fack: u32, out: &mut AckOutcome) {
        let &Incoming { at: now, ack, high_seq, .. } = incoming;
        let mut first = None;
        let mut last = Time::ZERO;
        for seq in self.una..ack {
            let seg = *self.peek(seq);
            if seg.flags & !APP_LIMITED == 0 {
                // The ordinary case: first transmission, never SACKed, never suspected.
                last = seg.sent_at;
                first.get_or_insert(last);
                out.lowest_unexpected = out.lowest_unexpected.min(seq);
                out.original_acked |= seq < high_seq;
            } else if seg.has(RETRANS | EVER_RETRANS) {
                out.retransmission_acked = true;
                if seg.has(RETRANS) {
                    self.retrans_out -= 1;
                }
            } else if !seg.has(SACKED) {
                last = seg.sent_at;
                first.get_or_insert(last);
                out.lowest_unexpected = out.lowest_unexpected.min(seq);
                out.original_acked |= seq < high_seq;
            }
            if seg.has(SACKED) {
                self.sacked_out -= 1;
            } else {
                // The original came, and says nothing of what was sent after it (`tcp_skb_spurious_retrans`).
                let spurious = seg.has(RETRANS | EVER_RETRANS)
                    && incoming.echo.older_than(Stamp::of(seg.sent_at)) > 0;
                if !spurious {
                    self.rack_advance(incoming, seq, &seg);
                }
                self.deliver(seq, &seg, out);
            }
            if seg.has(LOST) {
                self.lost_out -= 1;
            }
            out.acked_bytes += u32::from(seg.payload);
        }
        self.una = ack;
        self.detect_from = self.detect_from.max(ack);
        if let Some(first) = first
            && !out.retransmission_acked
        {
            out.rtt_oldest_us = Some(micros_between(now, first));
            out.rtt_newest_us = Some(micros_between(now, last));
        }
        // A hole below SACKed data was filled by an original: the network reorders.
        if out.lowest_unexpected < prior_fack {
            self.rack.saw_reordering(out.lowest_unexpected, prior_fack);
        }
        if self.una == self.nxt && self.retransmissions_out {
            self.retransmissions_out = false;
            self.repair.retransmissions.clear();
        }
    }

    #[inline]
    fn deliver(&mut self, seq: u32, seg: &Segment, out: &mut AckOutcome) {
        out.delivered += 1;
        out.delivered_bytes += u32::from(seg.payload);
        // The rate sample is that of the newest segment: the one sent when most was delivered.
        let newer = match &out.newest_prior {
            None => true,
            Some(p) => seg.delivered >= p.delivered,
        };
        if newer {
            out.newest_prior = Some(*seg);
            out.newest_seq = seq;
            self.delivery.first_sent_us = seg.sent_at.as_micros();
        }
    }

    /// Tells RACK of a delivery.
    #[inline]
    fn rack_advance(&mut self, incoming: &Incoming, seq: u32, seg: &Segment) {
        let rtt_us = micros_between(incoming.at, seg.sent_at);
        // Faster than the path allows: the ACK is for an earlier transmission.
        if rtt_us < incoming.min_rtt_us && seg.has(RETRANS | EVER_RETRANS) {
            return;
        }
        self.rack.advance(seg.sent_at, seq, rtt_us);
    }

    #[inline(never)]
    fn tag_sacked(&mut self, incoming: &Incoming, out: &mut AckOutcome) -> Option<(Time, Time)> {
        let blocks = incoming.blocks.as_slice();
        let mut times: Option<(Time, Time)> = None;
        let mut fresh = [Block::default(); MAX_BLOCKS];
        for (i, &b) in blocks.iter().enumerate() {
            if i == 0 && incoming.dsack {
                self.on_dsack(b, incoming.probe_end, out);
                if b.start < incoming.ack {
                    continue;
                }
            }
            fresh[i] = b;
        }
        // In the order of sending: the blocks come most recent first, and a higher one must not
        // make the segments of a lower one look reordered.
        let n = blocks.len();
        if n > 1 {
            fresh[..n].sort_unstable_by_key(|b| b.start);
        }
        for b in &fresh[..n] {
            let mut seq = b.start.max(self.una);
            while seq < b.end.min(self.nxt) {
                if let Some(k) = self.repair.known.iter().find(|k| k.contains(seq)) {
                    seq = k.end;
                    continue;
                }
                self.tag_one(incoming, seq, &mut times, out);
                seq += 1;
            }
            self.fack = self.fack.max(b.end.min(self.nxt));
        }
        self.repair.known = fresh;
        if out.lowest_unexpected < self.fack && out.sacked {
            self.rack.saw_reordering(out.lowest_unexpected, self.fack);
        }
        out.lowest_unexpected = self.nxt;
        times
    }

    /// A function of its own: if the compiler inlines it, it moves the whole outcome between stack and registers per block.
    #[inline(never)]
    fn tag_one(
        &mut self,
        incoming: &Incoming,
        seq: u32,
        times: &mut Option<(Time, Time)>,
        out: &mut AckOutcome,
    ) {
        self.clean_from = self.nxt;
        let highest = self.fack;
        let seg = *self.peek(seq);
        if seg.has(SACKED) {
            return;
        }
        if seg.has(RETRANS) {
            if seg.has(LOST) {
                self.lost_out -= 1;
                self.retrans_out -= 1;
                self.seg(seq).flags &= !(LOST | RETRANS);
            }
        } else {
            if !seg.has(EVER_RETRANS) {
                if seq < highest {
                    out.lowest_unexpected = out.lowest_unexpected.min(seq);
                }
                out.original_acked |= seq < incoming.high_seq;
                let first = times.map_or(seg.sent_at, |(f, _)| f);
                *times = Some((first, seg.sent_at));
            }
            if seg.has(LOST) {
                self.lost_out -= 1;
                self.seg(seq).flags &= !LOST;
            }
        }
        self.seg(seq).flags |= SACKED;
        self.sacked_out += 1;
        out.sacked = true;
        self.rack_advance(incoming, seq, &seg);
        self.deliver(seq, &seg, out);
    }

    /// A duplicate arrived (RFC 2883): evidence that a retransmission was not needed, which counts as delivered
    /// (`tcp_dsack_seen`). More duplicates than retransmissions are the network's. Where it reorders, RACK was too
    /// hasty, unless the duplicate is of a tail loss probe.
    fn on_dsack(&mut self, b: Block, probe_end: Option<u32>, out: &mut AckOutcome) {
        let n = b.end - b.start;
        self.repair.duplicates += n;
        if self.repair.duplicates > self.repair.sent_again {
            return;
        }
        out.dsack = true;
        out.probe_twice = n == 1 && probe_end == Some(b.end);
        if !out.probe_twice {
            self.rack.saw_dsack();
        }
        out.delivered += n;
        self.undo.count_duplicates(b);
    }

    /// See [`Rack::update_window`].
    #[inline]
    pub fn update_reordering_window(&mut self, outcome: &AckOutcome) {
        if let Some(newest) = &outcome.newest_prior {
            self.rack.update_window(newest.delivered, self.delivery.segments);
        }
    }

    /// RFC 8985, 6.2 step 5. Returns how long to wait for segments that may still be reordered;
    /// `None`: nothing to wait for.
    #[inline]
    pub fn detect_loss(
        &mut self,
        now: Time,
        in_recovery: bool,
        min_rtt_us: u32,
        srtt_us: u32,
        force: bool,
    ) -> Option<Span> {
        if !self.rack.take_advanced() && !force {
            return None;
        }
        let allowed = self.rack.allowed_us(in_recovery, self.sacked_out, min_rtt_us, srtt_us);
        let mut wait: Option<u32> = None;
        let mut open = None;
        let mut seq = self.detect_from.max(self.una);
        while seq < self.nxt {
            let seg = *self.peek(seq);
            if !seg.has(SACKED | LOST | EVER_RETRANS) {
                if !self.rack.has_passed(seg.sent_at, seq) {
                    break;
                }
                if let Some(us) = self.judge(now, seq, seg.sent_at, allowed) {
                    wait = wait.max(Some(us));
                    open.get_or_insert(seq);
                }
            }
            seq += 1;
        }
        self.detect_from = open.unwrap_or(seq);
        if self.retransmissions_out {
            wait = wait.max(self.detect_lost_retransmissions(now, allowed));
        }
        wait.map(|us| Span::from_micros(u64::from(us)))
    }

    /// Marks a segment lost, or says how long it may still be reordered, µs.
    #[inline]
    fn judge(&mut self, now: Time, seq: u32, sent_at: Time, allowed_us: u32) -> Option<u32> {
        let elapsed = micros_between(now, sent_at);
        if elapsed < allowed_us {
            return Some(allowed_us - elapsed);
        }
        self.mark_lost(seq);
        None
    }

    /// The same of retransmissions; returns the longest wait.
    fn detect_lost_retransmissions(&mut self, now: Time, allowed: u32) -> Option<u32> {
        let (mut i, mut wait) = (0, None);
        while let Some(&(seq, sent_at)) = self.repair.retransmissions.get(i) {
            let live = seq >= self.una && {
                let s = self.peek(seq);
                let waits = s.has(LOST) && !s.has(RETRANS);
                !waits && !s.has(SACKED) && s.sent_at == sent_at
            };
            if !live {
                if i == 0 {
                    self.repair.retransmissions.pop_front();
                } else {
                    i += 1;
                }
                continue;
            }
            if !self.rack.has_passed(sent_at, seq) {
                break;
            }
            let left = self.judge(now, seq, sent_at, allowed);
            wait = wait.max(left);
            if left.is_some() || i > 0 {
                i += 1;
            } else {
                self.repair.retransmissions.pop_front();
            }
        }
        wait
    }

    /// The rate sample of an ACK.
    #[inline(always)]
    pub fn rate_sample(&self, now: Time, out: &AckOutcome, min_rtt_us: u32) -> RateSample {
        let Some(p) = &out.newest_prior else {
            return RateSample::default();
        };
        let sample = self.delivery.sample(now, p.departure(), min_rtt_us);
        let Some(then) = self.recall(out.newest_seq) else {
            return sample;
        };
        RateSample {
            tx_in_flight: then.in_flight,
            lost: (self.lost_total as u32).wrapping_sub(then.lost),
            delivered_ce: self.delivery.ce - then.ce,
            ..sample
        }
    }
}

#[cfg(test)]
mod tests;
