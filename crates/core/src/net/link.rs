//! A link: a shaper with the burst behaviour of Linux HTB, and the queue discipline before it.
//!
//! As under `tc`, the queue is asked for a packet when the shaper has tokens, and the packet leaves
//! at that instant: serialisation shows as the wait of the next one.

use crate::aqm::LinkInfo;
use crate::aqm::registry::QdiscConfig;
use crate::aqm::{Aqm, DropReason, Dropped, Marks, QueueCx};
use crate::packet::{Flags, Packet};
use crate::probe::Distribution;
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::units::Rate;

/// Default burst (HTB's `burst` and `cburst`), bytes.
pub const DEFAULT_BURST: u64 = 1600;

/// Token bucket in units of time (single HTB class with rate = ceil). Tokens are `now - empty_at`,
/// at most one burst; a packet may leave while they are not negative and then costs its own length.
#[derive(Clone, Debug)]
pub struct Shaper {
    rate: Rate,
    burst_bytes: u64,
    burst: Span,
    /// When the tokens are (or were) zero.
    empty_at: Time,
    /// Remainder of the divisions so far, in bits·ns below the rate: nothing is rounded away.
    remainder: u64,
}

impl Shaper {
    pub fn new(rate: Rate, burst_bytes: u64) -> Shaper {
        let burst = rate.time_for(burst_bytes);
        // HTB starts with a full bucket; time before zero does not exist, so the clock is shifted.
        Shaper { rate, burst_bytes, burst, empty_at: Time::ZERO, remainder: 0 }
    }
    pub fn rate(&self) -> Rate {
        self.rate
    }
    pub fn burst_bytes(&self) -> u64 {
        self.burst_bytes
    }
    /// Takes effect with the next packet; the tokens at hand keep their time.
    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
        self.burst = rate.time_for(self.burst_bytes);
        self.remainder = 0;
    }
    /// When the next packet may leave.
    #[inline]
    pub fn ready_at(&self) -> Time {
        self.empty_at
    }
    /// A packet of `bytes` leaves.
    #[inline]
    pub fn charge(&mut self, now: Time, bytes: u32) {
        let floor = now.saturating_sub(self.burst);
        if self.empty_at < floor {
            self.empty_at = floor;
            self.remainder = 0;
        }
        let bits = u64::from(bytes) * 8_000_000_000 + self.remainder;
        let rate = self.rate.bps();
        self.empty_at += Span(bits / rate);
        self.remainder = bits % rate;
    }
}

/// Statistics of one queue of a link over the measured interval.
#[derive(Clone, Debug, Default)]
pub struct QueueStats {
    pub arrived_packets: u64,
    pub sent_packets: u64,
    pub sent_bytes: u64,
    pub dropped_packets: u64,
    pub dropped_overflow: u64,
    pub marked_packets: u64,
    pub step_marks: u64,
    /// ECT(0) made ECT(1) by an SCE queue.
    pub sce_marks: u64,
    pub sojourn: Distribution,
    pub backlog_max: u64,
    /// The same over the current sampling interval.
    pub interval: Interval,
}

/// What a sample of the time series is made of.
#[derive(Copy, Clone, Debug, Default)]
pub struct Interval {
    pub sent_packets: u64,
    pub sent_bytes: u64,
    pub sojourn_ns: u128,
    /// Time in the queue of the packets that left.
    pub sojourn_range: Range,
    pub marked_packets: u64,
    pub step_marks: u64,
    pub sce_marks: u64,
    pub dropped_packets: u64,
    pub dropped_overflow: u64,
}

/// The shortest and the longest of some times; of none, they are the wrong way round.
#[derive(Copy, Clone, Debug)]
pub struct Range {
    pub shortest: Span,
    pub longest: Span,
}

impl Default for Range {
    fn default() -> Self {
        Range { shortest: Span(u64::MAX), longest: Span::ZERO }
    }
}

impl Range {
    #[inline]
    pub fn add(&mut self, other: Range) {
        self.shortest = self.shortest.min(other.shortest);
        self.longest = self.longest.max(other.longest);
    }
}

/// Totals since the start, for the conservation law.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    pub arrived: u64,
    pub sent: u64,
    pub dropped: u64,
}

/// See the module.
pub struct Link {
    pub name: String,
    pub shaper: Shaper,
    aqm: Box<dyn Aqm<Packet>>,
    bands: &'static [&'static str],
    rng: Rng,
    drops: Vec<Dropped<Packet>>,
    /// Per band; a single queue has one.
    queues: Vec<QueueStats>,
    band_backlog: Vec<u64>,
    backlog_max: u64,
    totals: Totals,
    /// Bits that could have been sent in the measured interval, up to `capacity_at`.
    capacity_bits: f64,
    capacity_at: Time,
}

impl Link {
    pub fn new(name: String, rate: Rate, burst: u64, qdisc: QdiscConfig, rng: Rng) -> Link {
        let aqm = qdisc.build::<Packet>(LinkInfo { rate, now: Time::ZERO });
        let bands = aqm.bands();
        let n = bands.len().max(1);
        Link {
            name,
            shaper: Shaper::new(rate, burst),
            aqm,
            bands,
            rng,
            drops: Vec::new(),
            queues: vec![QueueStats::default(); n],
            band_backlog: vec![0; n],
            backlog_max: 0,
            totals: Totals::default(),
            capacity_bits: 0.0,
            capacity_at: Time::ZERO,
        }
    }

    /// Packets in the queue.
    #[inline]
    pub fn backlog(&self) -> u64 {
        self.totals.arrived - self.totals.sent - self.totals.dropped
    }
    pub fn totals(&self) -> Totals {
        self.totals
    }
    pub fn aqm(&self) -> &dyn Aqm<Packet> {
        &*self.aqm
    }
    /// Names and statistics of the queues inside; a single queue is unnamed.
    pub fn queues(&self) -> (&'static [&'static str], &[QueueStats]) {
        (self.bands, &self.queues)
    }
    /// Packets in each queue inside.
    pub fn band_backlog(&self, band: usize) -> u64 {
        self.band_backlog[band]
    }

    /// A packet arrives. Returns how often the queue duplicated it; the duplicates have arrived, too.
    #[inline]
    pub fn arrive(&mut self, now: Time, mut pkt: Packet) -> u32 {
        pkt.enqueued_at = now;
        let mut cx = QueueCx::new(now, &mut self.rng, &mut self.drops);
        self.aqm.enqueue(pkt, &mut cx);
        let (band, marks, duplicates) = (cx.current_band(), cx.marks(), cx.duplicates());
        let arrived = 1 + u64::from(duplicates);
        self.totals.arrived += arrived;
        self.band_backlog[band] += arrived;
        let q = &mut self.queues[band];
        q.arrived_packets += arrived;
        q.backlog_max = q.backlog_max.max(self.band_backlog[band]);
        if marks != Marks::default() {
            Self::count_marks(q, marks);
        }
        if !self.drops.is_empty() {
            self.count_drops();
        }
        self.backlog_max = self.backlog_max.max(self.backlog());
        duplicates
    }

    /// Sends the next packet, if the queue gives one. The shaper must be ready.
    #[inline]
    pub fn depart(&mut self, now: Time) -> Option<Packet> {
        let mut cx = QueueCx::new(now, &mut self.rng, &mut self.drops);
        let pkt = self.aqm.dequeue(&mut cx);
        let (band, marks) = (cx.current_band(), cx.marks());
        if !self.drops.is_empty() {
            self.count_drops();
        }
        let mut pkt = pkt?;
        let bytes = u32::from(pkt.frame_len);
        self.shaper.charge(now, bytes);
        let sojourn = now.since(pkt.enqueued_at);
        pkt.add_queued(sojourn);
        self.totals.sent += 1;
        self.band_backlog[band] -= 1;
        let q = &mut self.queues[band];
        q.sent_packets += 1;
        q.sent_bytes += u64::from(bytes);
        q.sojourn.record(sojourn);
        q.interval.sent_packets += 1;
        q.interval.sent_bytes += u64::from(bytes);
        q.interval.sojourn_ns += u128::from(sojourn.0);
        q.interval.sojourn_range.add(Range { shortest: sojourn, longest: sojourn });
        if marks != Marks::default() {
            Self::count_marks(q, marks);
        }
        Some(pkt)
    }

    #[inline]
    fn count_marks(q: &mut QueueStats, marks: Marks) {
        q.marked_packets += u64::from(marks.ce());
        q.interval.marked_packets += u64::from(marks.ce());
        q.sce_marks += u64::from(marks.sce);
        q.interval.sce_marks += u64::from(marks.sce);
        if marks.step {
            q.step_marks += 1;
            q.interval.step_marks += 1;
        }
    }

    #[cold]
    fn count_drops(&mut self) {
        for d in &self.drops {
            self.totals.dropped += 1;
            self.band_backlog[d.band] -= 1;
            let q = &mut self.queues[d.band];
            q.dropped_packets += 1;
            q.interval.dropped_packets += 1;
            let overflow = u64::from(d.why == DropReason::Overflow);
            q.dropped_overflow += overflow;
            q.interval.dropped_overflow += overflow;
        }
    }

    /// Packets dropped since the last call.
    #[inline]
    pub fn drain_drops(&mut self) -> impl Iterator<Item = Packet> + '_ {
        self.drops.drain(..).map(|d| d.pkt)
    }
    #[inline]
    pub fn has_drops(&self) -> bool {
        !self.drops.is_empty()
    }

    /// When the queue's own timer wants to run.
    #[inline]
    pub fn next_timer(&self) -> Time {
        self.aqm.next_timer()
    }
    pub fn on_timer(&mut self, now: Time) {
        let mut cx = QueueCx::new(now, &mut self.rng, &mut self.drops);
        self.aqm.on_timer(&mut cx);
        if !self.drops.is_empty() {
            self.count_drops();
        }
    }

    /// `tc class change`: a new rate.
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
        self.integrate_capacity(now);
        self.shaper.set_rate(rate);
    }

    /// `tc qdisc replace`: a new queue; the old one's backlog is lost.
    pub fn replace_qdisc(&mut self, now: Time, qdisc: QdiscConfig) {
        let mut unseen = Vec::new();
        let mut lost = Vec::new();
        let mut at = now;
        loop {
            let mut cx = QueueCx::new(at, &mut self.rng, &mut unseen);
            if let Some(pkt) = self.aqm.dequeue(&mut cx) {
                lost.push((pkt, cx.current_band()));
            } else if self.aqm.backlog().packets > 0 {
                // It holds packets back: they are taken out as if their time had come.
                at = self.aqm.next_timer();
                assert!(at != Time::NEVER, "link {}: a queue that never lets go", self.name);
                self.aqm.on_timer(&mut QueueCx::new(at, &mut self.rng, &mut unseen));
            } else {
                break;
            }
        }
        lost.extend(unseen.into_iter().map(|d| (d.pkt, d.band)));
        for (pkt, band) in lost {
            self.drops.push(Dropped { pkt, why: DropReason::Replaced, band });
        }
        self.count_drops();
        self.aqm = qdisc.build::<Packet>(LinkInfo { rate: self.shaper.rate(), now });
        let bands = self.aqm.bands();
        if bands != self.bands {
            self.bands = bands;
            let n = bands.len().max(1);
            // Statistics of queues that no longer exist are folded into those of the link.
            let mut queues = vec![QueueStats::default(); n];
            for old in &self.queues {
                queues[0].fold(old);
            }
            self.queues = queues;
            self.band_backlog = vec![0; n];
        }
    }

    /// Forgets what was measured before now.
    pub fn reset_statistics(&mut self, now: Time) {
        for q in &mut self.queues {
            // The sampling interval at hand goes on.
            *q = QueueStats { interval: q.interval, ..QueueStats::default() };
        }
        self.backlog_max = self.backlog();
        self.capacity_bits = 0.0;
        self.capacity_at = now;
    }

    fn integrate_capacity(&mut self, now: Time) {
        let span = now.since(self.capacity_at);
        self.capacity_bits += self.shaper.rate().bps() as f64 * span.as_secs_f64();
        self.capacity_at = now;
    }

    /// Bits that could have been sent in the measured interval up to now.
    pub fn capacity_bits(&mut self, now: Time) -> f64 {
        self.integrate_capacity(now);
        self.capacity_bits
    }

    /// All queues together.
    pub fn whole(&self) -> QueueStats {
        let mut all = QueueStats::default();
        for q in &self.queues {
            all.fold(q);
        }
        all.backlog_max = self.backlog_max;
        all
    }

    /// Closes a sampling interval.
    pub fn take_intervals(&mut self) -> Vec<Interval> {
        self.queues.iter_mut().map(|q| std::mem::take(&mut q.interval)).collect()
    }
}

impl QueueStats {
    fn fold(&mut self, other: &QueueStats) {
        self.arrived_packets += other.arrived_packets;
        self.sent_packets += other.sent_packets;
        self.sent_bytes += other.sent_bytes;
        self.dropped_packets += other.dropped_packets;
        self.dropped_overflow += other.dropped_overflow;
        self.marked_packets += other.marked_packets;
        self.step_marks += other.step_marks;
        self.sce_marks += other.sce_marks;
        self.sojourn.merge(&other.sojourn);
        self.backlog_max = self.backlog_max.max(other.backlog_max);
    }
}

/// Is it a packet whose fate is a flow's statistics? (ACKs and handshakes are not.)
#[inline]
pub fn is_payload(pkt: &Packet) -> bool {
    pkt.flags.has(Flags::DATA) || pkt.flags.has(Flags::UDP)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// laws.md 6: a packet every len·8/C; nothing is rounded away in a million packets.
    #[test]
    fn back_to_back_packets_leave_at_the_rate_exactly() {
        let mut s = Shaper::new(Rate::from_bps(30_000_001), DEFAULT_BURST);
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

    /// After idling, HTB's burst of 1600 B lets two packets go at once.
    #[test]
    fn after_idling_two_packets_leave_back_to_back() {
        let mut s = Shaper::new(Rate::from_bps(10_000_000), DEFAULT_BURST);
        let now = Time(1_000_000_000);
        let mut left = 0;
        while s.ready_at() <= now {
            s.charge(now, 1514);
            left += 1;
        }
        assert_eq!(left, 2);
    }
}
