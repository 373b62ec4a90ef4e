//! How a queue is served: by a token bucket with the burst behaviour of Linux HTB, over a window of time.
//!
//! As under `tc`, the queue is asked for a packet when the bucket has tokens, and the packet leaves at
//! that instant: serialisation shows as the wait of the next one.

use std::collections::BTreeMap;
use std::slice;

use super::trace::Trace;
use super::{Aqm, DropReason, Dropped, Marks, Pkt, QueueCx};
use crate::distribution::{Distribution, Distributions, Range};
use crate::ecn::Ecn;
use crate::prefetch;
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::units::Rate;

/// What a link does with a packet, beyond its queue.
pub trait Carried: Pkt {
    /// Number of the account in which it counts; `None`: in none's.
    fn counted(&self) -> Option<usize>;
    /// It counts in an account, and came to the network before measuring began.
    fn is_of_warmup(&self) -> bool;
    /// A queue has made it ECT(1): an SCE mark.
    fn is_sce(&self) -> bool;
    /// It leaves a link at `now`.
    fn depart(&mut self, now: Time);
    /// It has spent this time in a link. Only packets with an account remember that.
    fn add_wait(&mut self, sojourn: Span);
    /// Its time in links so far.
    fn waited(&self) -> Span;
    /// A segment of the same packet comes next: a queue that cuts packets takes all before it gives one.
    fn is_followed(&self) -> bool;
}

/// Default burst (HTB's `burst` and `cburst`), bytes.
pub const DEFAULT_BURST: u64 = 1600;

/// Token bucket in units of time (single HTB class with rate = ceil). Full at the start, it lacks
/// `full_at - now`; a packet may leave while that is at most one burst, and then costs its own length.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: Rate,
    burst_bytes: u64,
    burst: Span,
    /// When the bucket is (or was) full.
    full_at: Time,
    /// Remainder of the divisions so far, in bits·ns below the rate: nothing is rounded away.
    remainder: u64,
    /// 2^64 / rate, rounded down: a multiplication takes less time than a division.
    inverse: u64,
}

impl TokenBucket {
    pub fn new(rate: Rate, burst_bytes: u64) -> TokenBucket {
        TokenBucket {
            rate,
            burst_bytes,
            burst: rate.time_for(burst_bytes),
            full_at: Time::ZERO,
            remainder: 0,
            inverse: inverse(rate),
        }
    }
    pub fn rate(&self) -> Rate {
        self.rate
    }
    pub fn burst_bytes(&self) -> u64 {
        self.burst_bytes
    }
    /// Takes effect with the next packet; the tokens at hand keep their time.
    pub fn set_rate(&mut self, rate: Rate) {
        let burst = rate.time_for(self.burst_bytes);
        self.rate = rate;
        self.full_at = (self.full_at + burst).saturating_sub(self.burst);
        self.burst = burst;
        self.remainder = 0;
        self.inverse = inverse(rate);
    }
    /// When the next packet may leave.
    #[inline(always)]
    pub fn ready_at(&self) -> Time {
        self.full_at.saturating_sub(self.burst)
    }
    /// A packet of `bytes` leaves.
    #[inline(always)]
    pub fn charge(&mut self, now: Time, bytes: u32) {
        if self.full_at < now {
            self.full_at = now;
            self.remainder = 0;
        }
        let rate = self.rate.bps();
        let cost = self.remainder + u64::from(bytes) * 8_000_000_000;
        // The quotient or one less. The processor cannot predict which, so there is no branch.
        let quotient = ((u128::from(cost) * u128::from(self.inverse)) >> 64) as u64;
        let rest = cost - quotient * rate;
        self.full_at += Span(quotient + u64::from(rest >= rate));
        self.remainder = rest.min(rest.wrapping_sub(rate));
    }
}

/// See [`TokenBucket`].
fn inverse(rate: Rate) -> u64 {
    u64::MAX / rate.bps().max(1)
}

/// Totals of one queue since the start. Packets and bytes are apart: side by side, the compiler adds to both at once,
/// which takes more instructions.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub arrived: u64,
    pub sent: u64,
    pub dropped: u64,
    pub sent_bytes: u64,
    /// Drops because the queue was full.
    pub overflowed: u64,
    pub marked: u64,
    pub step_marked: u64,
    /// ECT(0) made ECT(1) by an SCE queue.
    pub sce_marked: u64,
    /// Time in the queue of the packets sent, ns.
    pub sojourn_ns: u64,
}

impl std::ops::Sub for Counts {
    type Output = Counts;
    fn sub(self, before: Counts) -> Counts {
        Counts {
            arrived: self.arrived - before.arrived,
            sent: self.sent - before.sent,
            sent_bytes: self.sent_bytes - before.sent_bytes,
            dropped: self.dropped - before.dropped,
            overflowed: self.overflowed - before.overflowed,
            marked: self.marked - before.marked,
            step_marked: self.step_marked - before.step_marked,
            sce_marked: self.sce_marked - before.sce_marked,
            sojourn_ns: self.sojourn_ns - before.sojourn_ns,
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.arrived += other.arrived;
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.dropped += other.dropped;
        self.overflowed += other.overflowed;
        self.marked += other.marked;
        self.step_marked += other.step_marked;
        self.sce_marked += other.sce_marked;
        self.sojourn_ns += other.sojourn_ns;
    }
}

impl Counts {
    #[inline]
    fn count_marks(&mut self, marks: Marks) {
        self.marked += u64::from(marks.ce());
        self.step_marked += u64::from(marks.step);
        self.sce_marked += u64::from(marks.sce);
    }
}

/// One of the queues inside.
#[derive(Clone, Debug, Default)]
pub struct Band {
    pub counts: Counts,
    /// Drops and marks since measuring began, of packets that arrived here before.
    pub of_warmup: Counts,
    pub backlog: u64,
    /// The most packets that waited, since the last reset.
    pub backlog_max: u64,
    /// Time in the queue of the packets sent since the last sample.
    pub range: Range,
}

/// Counts of the packets of an account (a flow group or a flow) where they cross a link, or of all packets
/// without an account.
#[derive(Clone, Debug, Default)]
pub struct FlowCounters {
    /// This is the first link of their path, the last one, a wire that is the only one.
    pub first: bool,
    pub last: bool,
    pub only: bool,
    pub packets: PacketCounts,
    /// The same since measuring began, of packets that came to the network before.
    pub of_warmup: PacketCounts,
    /// Copies that the queue has made in the measured interval.
    pub copied: u64,
    /// By band: time in this queue. Packets count without an account where that is not all of their time in links.
    pub sojourn: Distributions,
    /// Time in all links of the path, where this is the last one of several, or has a medium.
    pub total: Distribution,
}

/// Packets of an account since the start, with packets and bytes apart as in [`Counts`].
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct PacketCounts {
    /// Packets that reached the first link, with the copies that queues of links made.
    pub sent: u64,
    /// Packets that left the last link, their bytes, and those among them with CE or made ECT(1) by a queue.
    pub delivered: u64,
    pub dropped: u64,
    pub bytes: u64,
    pub ce: u64,
    pub sce: u64,
}

impl std::ops::Sub for PacketCounts {
    type Output = PacketCounts;
    fn sub(self, before: PacketCounts) -> PacketCounts {
        PacketCounts {
            sent: self.sent - before.sent,
            delivered: self.delivered - before.delivered,
            bytes: self.bytes - before.bytes,
            ce: self.ce - before.ce,
            sce: self.sce - before.sce,
            dropped: self.dropped - before.dropped,
        }
    }
}

impl std::ops::AddAssign for PacketCounts {
    fn add_assign(&mut self, other: PacketCounts) {
        self.sent += other.sent;
        self.delivered += other.delivered;
        self.bytes += other.bytes;
        self.ce += other.ce;
        self.sce += other.sce;
        self.dropped += other.dropped;
    }
}

/// Packets that were lost, by account (`None`: without one) and reason.
pub type Losses = BTreeMap<(Option<usize>, DropReason), u64>;

/// The part of a link behind its queue: the bucket and the counters.
#[derive(Debug)]
pub struct Service<P> {
    pub bucket: TokenBucket,
    /// In place of the bucket, on a link that is served `TRACED`.
    pub trace: Option<Trace>,
    pub rng: Rng,
    /// The queues inside all disciplines that have been in force.
    pub bands: Vec<Band>,
    /// The first band of the queue in force.
    pub first_band: usize,
    /// By account; the last one is for packets without one.
    pub flow_counters: Vec<FlowCounters>,
    pub backlog: u64,
    pub backlog_max: u64,
    /// The band of the last arrival that came with drops.
    crowded: usize,
    /// When measuring began.
    pub measured_from: Time,
    /// By account, packets that entered the network since then and were dropped here.
    pub losses: Losses,
    /// Reports of the current call.
    pub drops: Vec<Dropped<P>>,
    /// Dropped, and not yet collected.
    pub lost: Vec<P>,
    /// Of each of these, why.
    pub lost_why: Vec<DropReason>,
    /// Packets of which the queue has made this many copies, not yet collected.
    pub copied: Vec<(P, u32)>,
    /// The queue holds its packets back. It is asked again after its timer or an arrival.
    pub holds_back: bool,
    /// When the queue's timer is due, by its last answer.
    pub timer: Time,
}

/// The arrivals of a window, and the destination of departures.
#[derive(Debug)]
pub struct Interval<'a, P> {
    pub begin: Time,
    pub until: Time,
    pub arrivals: LinkArrivals<'a, P>,
    /// Packets that have left, with the instants at which they did.
    pub departed: &'a mut Vec<P>,
}

/// Packets in the order of their arrival.
#[derive(Debug)]
pub struct LinkArrivals<'a, P> {
    pub packets: &'a [P],
    /// Of each packet the time since `base`, and below that its place; ascending.
    pub keys: slice::Iter<'a, u64>,
    pub base: Time,
}

/// The packets of fewer arrivals stay in the cache.
const MANY_ARRIVALS: usize = 2048;
/// How many arrivals before its turn a packet is fetched.
const FETCH_AHEAD: usize = 4;

/// Bits of a key for the packet's place.
pub const PLACE_BITS: u32 = 24;

/// The place that a key names.
#[inline(always)]
pub fn place(key: u64) -> usize {
    key as usize & ((1 << PLACE_BITS) - 1)
}

impl<'a, P> LinkArrivals<'a, P> {
    /// When the next packet arrives.
    #[inline(always)]
    pub fn time(&self) -> Time {
        self.keys
            .as_slice()
            .first()
            .map_or(Time::NEVER, |key| Time(self.base.0 + (key >> PLACE_BITS)))
    }
    #[inline(always)]
    pub fn take(&mut self) -> Option<&'a P> {
        let key = self.keys.next()?;
        let rest = self.keys.as_slice();
        if rest.len() > MANY_ARRIVALS {
            prefetch::place(self.packets, place(rest[FETCH_AHEAD]));
        }
        Some(&self.packets[place(*key)])
    }
}

/// Serves `queue` from `window.begin` up to `window.until`, exclusively; `TRACED`: at the times of the trace.
#[inline]
pub fn run<P: Carried, Q: Aqm<P> + ?Sized, const TRACED: bool>(
    queue: &mut Q,
    s: &mut Service<P>,
    w: &mut Interval<P>,
) {
    let mut now = w.begin;
    // A copy of one's own stays in registers.
    let mut arrivals = LinkArrivals { keys: w.arrivals.keys.clone(), ..w.arrivals };
    let departed = &mut *w.departed;
    let mut arrival = arrivals.time();
    let mut service = s.ready::<TRACED>(now);
    let mut limit = s.timer.min(w.until);
    loop {
        if service.min(arrival) >= limit {
            if s.timer >= w.until {
                break;
            }
            now = s.timer;
            queue.on_timer(&mut QueueCx::new(now, &mut s.rng, &mut s.drops));
            s.holds_back = false;
            s.timer = queue.next_timer();
            limit = s.timer.min(w.until);
            service = s.ready::<TRACED>(now);
        } else if service <= arrival {
            now = service;
            service = match s.depart::<Q, TRACED>(now, queue, departed) {
                true => s.next_ready::<TRACED>(now),
                false => {
                    // The queue tells by its timer when to ask again.
                    s.timer = queue.next_timer();
                    limit = s.timer.min(w.until);
                    Time::NEVER
                }
            };
        } else if let Some(pkt) = arrivals.take() {
            now = arrival;
            s.arrive(now, pkt, queue);
            if pkt.is_followed() {
                s.arrive_rest(now, &mut arrivals, queue);
            }
            arrival = arrivals.time();
            if service == Time::NEVER {
                service = s.ready::<TRACED>(now);
            }
        }
        if !s.drops.is_empty() {
            s.count_drops(now);
            service = s.ready::<TRACED>(now);
        }
    }
    w.arrivals = arrivals;
}

impl<P: Carried> Service<P> {
    pub fn new(bucket: TokenBucket, rng: Rng) -> Service<P> {
        Service {
            bucket,
            trace: None,
            rng,
            bands: Vec::new(),
            first_band: 0,
            flow_counters: vec![FlowCounters::default()],
            backlog: 0,
            backlog_max: 0,
            crowded: 0,
            measured_from: Time::NEVER,
            losses: Losses::new(),
            drops: Vec::new(),
            lost: Vec::new(),
            lost_why: Vec::new(),
            copied: Vec::new(),
            holds_back: false,
            timer: Time::NEVER,
        }
    }

    /// When the next packet may leave; never, if there is none or the queue holds it back.
    #[inline(always)]
    fn ready<const TRACED: bool>(&mut self, now: Time) -> Time {
        if self.holds_back { Time::NEVER } else { self.next_ready::<TRACED>(now) }
    }
    /// The same of a queue that does not hold back.
    #[inline(always)]
    fn next_ready<const TRACED: bool>(&mut self, now: Time) -> Time {
        if self.backlog == 0 {
            return Time::NEVER;
        }
        match &mut self.trace {
            Some(trace) if TRACED => trace.ready(now),
            _ => self.bucket.ready_at().max(now),
        }
    }
    /// Between two windows: not later than that.
    pub fn next(&self) -> Time {
        let waits = self.backlog > 0 && !self.holds_back;
        let next = self.trace.as_ref().map_or(self.bucket.ready_at(), Trace::next);
        if waits { next } else { Time::NEVER }
    }

    /// The counters for a packet: its account's, or those of packets without one.
    #[inline(always)]
    fn counters(&mut self, pkt: &P) -> &mut FlowCounters {
        let account = pkt.counted().unwrap_or_else(|| self.unaccounted());
        &mut self.flow_counters[account]
    }
    /// Apart, so that most packets need not look for it.
    #[cold]
    #[inline(never)]
    fn unaccounted(&self) -> usize {
        self.flow_counters.len() - 1
    }

    #[inline(always)]
    pub fn arrive<Q: Aqm<P> + ?Sized>(&mut self, now: Time, pkt: &P, queue: &mut Q) {
        let counters = self.counters(pkt);
        counters.packets.sent += u64::from(counters.first);
        if pkt.is_of_warmup() {
            counters.of_warmup.sent += u64::from(counters.first);
        }
        self.holds_back = false;
        let mut cx = QueueCx::new(now, &mut self.rng, &mut self.drops);
        queue.enqueue_copy(pkt, &mut cx);
        let (band, marks, duplicates) = (cx.current_band(), cx.marks(), cx.duplicates());
        if duplicates > 0 {
            let copied = cx.take_copied();
            self.count_copies(copied, duplicates);
        }
        let arrived = 1 + u64::from(duplicates);
        self.backlog += arrived;
        let b = &mut self.bands[self.first_band + band];
        b.counts.arrived += arrived;
        b.backlog += arrived;
        if marks != Marks::default() {
            b.counts.count_marks(marks);
        }
        // A packet that is dropped at once has not waited. Only the count of the drops shows which one that is, and
        // what the queue holds.
        if self.drops.is_empty() {
            if b.backlog > b.backlog_max {
                b.backlog_max = b.backlog;
            }
            if self.backlog > self.backlog_max {
                self.backlog_max = self.backlog;
            }
        } else {
            self.crowded = self.first_band + band;
        }
    }

    /// The other segments of a packet.
    #[cold]
    #[inline(never)]
    fn arrive_rest<Q: Aqm<P> + ?Sized>(
        &mut self,
        now: Time,
        arrivals: &mut LinkArrivals<P>,
        queue: &mut Q,
    ) {
        let mut is_followed = true;
        while is_followed && arrivals.time() == now {
            if !self.drops.is_empty() {
                self.count_drops(now);
            }
            let Some(pkt) = arrivals.take() else { break };
            is_followed = pkt.is_followed();
            self.arrive(now, pkt, queue);
        }
    }

    #[cold]
    fn count_copies(&mut self, copied: Option<P>, duplicates: u32) {
        let Some(pkt) = copied else { return };
        let copies = u64::from(duplicates);
        let counters = self.counters(&pkt);
        counters.packets.sent += copies;
        match pkt.is_of_warmup() {
            true => counters.of_warmup.sent += copies,
            false => counters.copied += copies,
        }
        self.copied.push((pkt, duplicates));
    }

    /// Sends the next packet; false if the queue holds it back.
    #[inline(always)]
    fn depart<Q: Aqm<P> + ?Sized, const TRACED: bool>(
        &mut self,
        now: Time,
        queue: &mut Q,
        departed: &mut Vec<P>,
    ) -> bool {
        let mut cx = QueueCx::new(now, &mut self.rng, &mut self.drops);
        if !queue.dequeue_into(departed, &mut cx) {
            self.holds_back = true;
            return false;
        }
        let (band, marks) = (cx.current_band(), cx.marks());
        let pkt = departed.last_mut().expect("just pushed");
        let bytes = pkt.frame_len();
        match &mut self.trace {
            Some(trace) if TRACED => trace.charge(now, bytes),
            _ => self.bucket.charge(now, bytes),
        }
        let sojourn = now.since(pkt.enqueued_at());
        pkt.depart(now);
        self.backlog -= 1;
        let band = self.first_band + band;
        let b = &mut self.bands[band];
        b.backlog -= 1;
        b.counts.sent += 1;
        b.counts.sent_bytes += u64::from(bytes);
        b.counts.sojourn_ns += sojourn.0;
        b.range.add(sojourn);
        if marks != Marks::default() {
            b.counts.count_marks(marks);
            if now.saturating_sub(sojourn) < self.measured_from {
                b.of_warmup.count_marks(marks);
            }
        }
        let counters = self.counters(pkt);
        if counters.last {
            counters.packets.delivered += 1;
            counters.packets.bytes += u64::from(bytes);
            // CE, or ECT(1), which may be a mark of SCE.
            if pkt.ecn().is_l4s() {
                counters.packets.ce += u64::from(pkt.ecn() == Ecn::Ce);
                counters.packets.sce += u64::from(pkt.is_sce());
            }
            if pkt.is_of_warmup() {
                counters.of_warmup.delivered += 1;
                counters.of_warmup.ce += u64::from(pkt.ecn() == Ecn::Ce);
                counters.of_warmup.sce += u64::from(pkt.is_sce());
            }
        }
        if counters.only {
            counters.sojourn.record(band, sojourn);
        } else {
            self.record_elsewhere(pkt, band, sojourn);
        }
        true
    }

    /// The next packet of a part of the queue, for a medium, and when its wait there ended: now, or earlier by its wait
    /// for a permission. It is still to be delivered.
    pub fn pull(
        &mut self,
        now: Time,
        part: Option<usize>,
        queue: &mut dyn Aqm<P>,
    ) -> Option<(P, Time)> {
        let mut cx = QueueCx::new(now, &mut self.rng, &mut self.drops);
        let pkt = match part {
            Some(part) => queue.divided().and_then(|queue| queue.dequeue_from(part, &mut cx)),
            None => queue.dequeue(&mut cx),
        };
        let (band, marks) = (cx.current_band(), cx.marks());
        let Some(mut pkt) = pkt else {
            self.timer = queue.next_timer();
            return None;
        };
        let came = pkt.enqueued_at();
        let began = queue.asked().map_or(came, |asked| asked.earliest().max(came));
        let sojourn = now.since(began);
        pkt.depart(now);
        self.backlog -= 1;
        let band = self.first_band + band;
        let b = &mut self.bands[band];
        b.backlog -= 1;
        b.counts.sent += 1;
        b.counts.sent_bytes += u64::from(pkt.frame_len());
        b.counts.sojourn_ns += sojourn.0;
        b.range.add(sojourn);
        b.counts.count_marks(marks);
        if came < self.measured_from {
            b.of_warmup.count_marks(marks);
        }
        pkt.add_wait(sojourn);
        self.record_unaccounted(band, sojourn);
        Some((pkt, came + sojourn))
    }
    /// A packet that was pulled has arrived behind the medium.
    pub fn deliver(&mut self, pkt: &P) {
        let counters = self.counters(pkt);
        if !counters.last {
            return;
        }
        counters.total.record(pkt.waited());
        let (ce, sce) = (u64::from(pkt.ecn() == Ecn::Ce), u64::from(pkt.is_sce()));
        counters.packets.delivered += 1;
        counters.packets.bytes += u64::from(pkt.frame_len());
        counters.packets.ce += ce;
        counters.packets.sce += sce;
        if pkt.is_of_warmup() {
            counters.of_warmup.delivered += 1;
            counters.of_warmup.ce += ce;
            counters.of_warmup.sce += sce;
        }
    }

    /// A wait that is not all of the group's, or is of packets without an account.
    fn record_elsewhere(&mut self, pkt: &mut P, band: usize, sojourn: Span) {
        pkt.add_wait(sojourn);
        let counters = self.counters(pkt);
        if counters.last {
            counters.total.record(pkt.waited());
        }
        self.record_unaccounted(band, sojourn);
    }
    fn record_unaccounted(&mut self, band: usize, sojourn: Span) {
        let unaccounted =
            self.flow_counters.last_mut().expect("the last one is for what belongs to none");
        unaccounted.sojourn.record(band, sojourn);
    }

    /// Waiting packets are in no queue until they are moved into the next one.
    pub fn move_out(&mut self) {
        self.bands.iter_mut().for_each(|band| band.backlog = 0);
        self.backlog = 0;
    }

    /// A packet of the previous queue moves into this one. This is not an arrival.
    pub fn move_in(&mut self, aqm: &mut dyn Aqm<P>, pkt: P, now: Time) {
        let mut cx = QueueCx::new(now, &mut self.rng, &mut self.drops);
        aqm.enqueue(pkt, &mut cx);
        let band = cx.current_band();
        self.place(band, 1);
    }

    /// So many packets wait in a band of the present queue. They are no arrivals.
    pub fn place(&mut self, band: usize, packets: u64) {
        let band = &mut self.bands[self.first_band + band];
        band.backlog += packets;
        band.backlog_max = band.backlog_max.max(band.backlog);
        self.backlog += packets;
    }

    /// The reported packets were dropped at `now`.
    #[cold]
    pub fn count_drops(&mut self, now: Time) {
        for d in self.drops.drain(..) {
            self.backlog -= 1;
            let b = &mut self.bands[self.first_band + d.band];
            b.backlog -= 1;
            let overflowed = u64::from(d.why == DropReason::Overflow);
            b.counts.dropped += 1;
            b.counts.overflowed += overflowed;
            if d.pkt.enqueued_at() < self.measured_from {
                b.of_warmup.dropped += 1;
                b.of_warmup.overflowed += overflowed;
            }
            let account = d.pkt.counted();
            if now >= self.measured_from && !d.pkt.is_of_warmup() {
                *self.losses.entry((account, d.why)).or_default() += 1;
            }
            if let Some(account) = account {
                self.flow_counters[account].packets.dropped += 1;
            }
            self.lost_why.push(d.why);
            self.lost.push(d.pkt);
            self.lost.last_mut().into_iter().for_each(|pkt| pkt.depart(now));
        }
        self.backlog_max = self.backlog_max.max(self.backlog);
        // The others have become shorter.
        let b = &mut self.bands[self.crowded];
        b.backlog_max = b.backlog_max.max(b.backlog);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// laws.md 6: a packet every len·8/C; nothing is rounded away in a million packets.
    #[test]
    fn back_to_back_packets_leave_at_the_rate_exactly() {
        let mut s = TokenBucket::new(Rate::from_bps(30_000_001), DEFAULT_BURST);
        let start = Time(10_000_000_000);
        let mut now = start;
        for _ in 0..1_000_000 {
            now = now.max(s.ready_at());
            s.charge(now, 1514);
        }
        let bits = 1514.0 * 8.0 * 1e6 - 1600.0 * 8.0;
        let expected = bits / 30_000_001.0;
        let took = s.ready_at().since(start).as_secs_f64();
        assert!((took - expected).abs() < 2e-9, "{took} s, expected {expected} s");
    }

    /// Against a division, for any rate and any lengths.
    #[test]
    fn each_packet_takes_its_time() {
        let mut rng = Rng::stream(1, "bucket", 0);
        for bps in [1, 3, 9600, 30_000_001, 8_000_000_000, 10_000_000_000, 999_999_999_999] {
            let mut s = TokenBucket::new(Rate::from_bps(bps), 0);
            let mut bits = 0_u128;
            for _ in 0..10_000 {
                let (now, bytes) = (s.ready_at(), rng.below(1 << 16) as u32);
                s.charge(now, bytes);
                bits += u128::from(bytes) * 8_000_000_000;
                assert_eq!(u128::from(s.ready_at().0), bits / u128::from(bps), "{bps} bit/s");
                assert_eq!(u128::from(s.remainder), bits % u128::from(bps), "{bps} bit/s");
            }
        }
    }

    /// After idling, HTB's burst of 1600 B lets two packets go at once. A link has been idle when it begins,
    /// however slow it is.
    #[test]
    fn after_idling_two_packets_leave_back_to_back() {
        for (bps, now) in [(10_000_000, Time(1_000_000_000)), (9600, Time::ZERO)] {
            let mut s = TokenBucket::new(Rate::from_bps(bps), DEFAULT_BURST);
            let mut left = 0;
            while s.ready_at() <= now {
                s.charge(now, 1514);
                left += 1;
            }
            assert_eq!(left, 2);
        }
    }

    /// Another rate leaves the tokens their time, as far as the new bucket holds it.
    #[test]
    fn tokens_keep_their_time() {
        let mut s = TokenBucket::new(Rate::from_bps(1_000_000), 1250);
        s.charge(Time::ZERO, 2500);
        assert_eq!(s.ready_at(), Time(10_000_000));
        s.set_rate(Rate::from_bps(100_000));
        assert_eq!(s.ready_at(), Time(10_000_000));
        s.set_rate(Rate::from_bps(10_000_000));
        assert_eq!(s.ready_at(), Time(10_000_000));
    }
}
