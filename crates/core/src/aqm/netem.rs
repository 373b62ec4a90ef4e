//! netem, the network emulator (Linux `net/sched/sch_netem.c`, 7.2): delay, jitter, loss, duplication,
//! corruption, reordering, a rate, and slots.
//!
//! A packet that arrives meets, in this order: duplication, loss, corruption, the limit, and then either
//! the delay or, if it is its turn to be reordered, the head of the queue. The queue is sorted by the
//! time at which packets may leave, so jitter alone reorders; with a `rate` a packet begins where the
//! last one ends, and order is kept. A duplicate goes through everything again, except duplication.
//!
//! A jitter's correlation is lost in Linux, and here: the correlated number of 32 bits is taken modulo
//! twice the jitter in nanoseconds, or modulo the table's size, and low bits do not correlate. That of
//! loss and the others works, and makes them rarer: the numbers crowd around one half.
//!
//! With slots, a packet leaves only once a slot has begun, and a slot takes so many packets or bytes.
//! Slots are drawn when the queue is asked for a packet: as in Linux, a slot that begins before the
//! packet at the head is due is drawn again each time, that is at each arrival.

pub mod config;
pub mod distribution;
pub mod random;

use std::any::Any;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

pub use config::NetemConfig;
use config::{RateModel, SlotLength};
use random::{Bernoulli, Correlated, Lfsr113, LossChain, Source};

use super::{
    Aqm, Backlog, DropReason, LinkInfo, MarkReason, Marking, Pkt, Qdisc, QueueCx, Room, Separation,
};
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::units::Rate;

/// A packet and when it may leave. The smallest is the next one; of the same time, the first to come.
#[derive(Debug)]
struct Held<P> {
    due: Time,
    number: u64,
    pkt: P,
}

impl<P> Ord for Held<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        // A BinaryHeap has its greatest on top.
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}
impl<P> PartialOrd for Held<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<P> PartialEq for Held<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl<P> Eq for Held<P> {}

/// The slot that begins, or has begun, at `begin`.
#[derive(Clone, Debug)]
struct Slot {
    begin: Time,
    packets_left: i64,
    bytes_left: i64,
}

/// The queue at work.
#[derive(Debug)]
pub struct Netem<P> {
    /// Reordered packets: they leave at once, the last first.
    head: VecDeque<Held<P>>,
    /// Packets that were due after all others when they came, in order.
    line: VecDeque<Held<P>>,
    /// Packets that overtake.
    overtaking: BinaryHeap<Held<P>>,
    bytes: u64,
    arrivals: u64,
    /// Packets since the last reordered one.
    counter: u32,
    slot: Option<Slot>,
    /// When to ask again after `None`.
    wake: Time,
    source: Source,
    duplicate: Bernoulli,
    loss: LossChain,
    corrupt: Bernoulli,
    reorder: Bernoulli,
    delay: Correlated,
    config: NetemConfig,
}

impl<P: Pkt> Netem<P> {
    pub fn new(config: NetemConfig, now: Time) -> Self {
        let slot = config.slot.filter(|s| s.length.exists()).map(|s| Slot {
            begin: now,
            packets_left: s.packets_or_no_limit(),
            bytes_left: s.bytes_or_no_limit(),
        });
        Netem {
            head: VecDeque::new(),
            line: VecDeque::new(),
            overtaking: BinaryHeap::new(),
            bytes: 0,
            arrivals: 0,
            counter: 0,
            slot,
            wake: Time::NEVER,
            source: Source(config.seed.map(Lfsr113::new)),
            duplicate: Bernoulli::new(config.duplicate),
            loss: LossChain::new(config.loss),
            corrupt: Bernoulli::new(config.corrupt),
            reorder: Bernoulli::new(config.reorder),
            delay: Correlated::new(config.delay.correlation),
            config,
        }
    }

    /// `tc qdisc change` by what [`Described::merged`](crate::params::Described::merged) gives: what is held stays as it
    /// is, and new numbers are drawn from here on.
    pub fn set(&mut self, config: NetemConfig, now: Time) {
        let to = Netem::<P>::new(config, now);
        self.counter = 0;
        if to.config.slot_begins {
            self.slot = to.slot;
        }
        if to.config.seed.is_some() {
            self.source = to.source;
        }
        self.duplicate.change(to.duplicate);
        self.loss.change(to.loss);
        self.corrupt.change(to.corrupt);
        self.reorder.change(to.reorder);
        self.delay.change(to.delay);
        self.config = to.config;
    }

    fn len(&self) -> usize {
        self.head.len() + self.line.len() + self.overtaking.len()
    }

    fn take_in(&mut self, mut pkt: P, is_duplicate: bool, cx: &mut QueueCx<P>) {
        let mut copies = 1;
        if !is_duplicate && self.duplicate.hit(&mut self.source, cx.rng) {
            copies += 1;
        }
        if self.loss.loses(&mut self.source, cx.rng)
            && !(self.config.ecn && cx.mark(&mut pkt, MarkReason::Aqm))
        {
            copies -= 1; // of a packet and its duplicate, one is lost
        }
        if copies == 0 {
            return cx.drop(pkt, DropReason::Loss);
        }
        let corrupt = self.corrupt.hit(&mut self.source, cx.rng);
        if self.len() as u64 + cx.held.packets >= u64::from(self.config.limit) {
            return cx.drop(pkt, DropReason::Overflow);
        }
        if copies > 1 {
            let duplicate = cx.duplicate(&mut pkt);
            self.take_in(duplicate, true, cx);
        }
        if corrupt {
            pkt.corrupt();
        }
        self.place(pkt, cx);
    }

    fn place(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        self.arrivals += 1;
        let len = pkt.frame_len();
        self.bytes += u64::from(len);
        let mut held = Held { due: cx.now, number: self.arrivals, pkt };
        let gap = self.config.gap;
        if gap > 0 && self.counter >= gap - 1 && self.reorder.hit(&mut self.source, cx.rng) {
            self.counter = 0;
            return self.head.push_front(held);
        }
        self.counter = self.counter.wrapping_add(1);
        held.due = self.due(cx.now, len, cx.rng);
        match self.line.back() {
            Some(last) if held.due < last.due => self.overtaking.push(held),
            _ => self.line.push_back(held),
        }
    }

    fn due(&mut self, now: Time, len: u32, rng: &mut Rng) -> Time {
        let c = &self.config;
        let mut delay = c.delay.latency.0 as i64;
        if c.delay.jitter > Span::ZERO {
            let x = self.delay.next(&mut self.source, rng);
            delay = spread(delay, c.delay.jitter, c.distribution.map(|d| d.table()), x);
        }
        let Some(rate) = c.rate else { return shift(now, delay) };
        // With a rate nothing overtakes, so the last in line is the last of all.
        let last = self.line.back().into_iter().chain(self.head.back()).map(|h| h.due).max();
        let begin = match last {
            // The wait behind others is part of the delay.
            Some(last) => shift(last, (delay - signed(last, now)).max(0)),
            None => shift(now, delay),
        };
        begin + rate.time_for(len)
    }

    /// Draws the next slot.
    fn next_slot(&mut self, cx: &mut QueueCx<P>) {
        let (Some(slot), Some(config)) = (&mut self.slot, self.config.slot) else { return };
        let delay = match config.length {
            SlotLength::Between(min, max) => {
                let range = u128::from((max - min).0);
                // Linux draws this one apart from `seed`.
                min.0 as i64 + ((range * u128::from(cx.rng.u32())) >> 32) as i64
            }
            SlotLength::Distributed { distribution, delay, jitter } => {
                let x = self.source.u32(cx.rng);
                spread(delay.0 as i64, jitter, Some(distribution.table()), x)
            }
        };
        slot.begin = shift(cx.now, delay);
        slot.packets_left = config.packets_or_no_limit();
        slot.bytes_left = config.bytes_or_no_limit();
    }

    /// The head of the sorted queue is the earlier of two; at the same time, the one in line.
    fn overtaken(&self) -> bool {
        match (self.overtaking.peek(), self.line.front()) {
            (Some(over), Some(front)) => over.due < front.due,
            (over, _) => over.is_some(),
        }
    }

    fn first(&self) -> Option<&Held<P>> {
        if self.overtaken() { self.overtaking.peek() } else { self.line.front() }
    }

    fn leave(&mut self, held: Option<Held<P>>) -> Option<P> {
        let pkt = held?.pkt;
        self.bytes -= u64::from(pkt.frame_len());
        Some(pkt)
    }
}

impl<P: Pkt + Send> Aqm<P> for Netem<P> {
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        self.take_in(pkt, false, cx);
    }

    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        self.wake = Time::NEVER;
        if let Some(held) = self.head.pop_front() {
            return self.leave(Some(held));
        }
        let due = self.first()?.due;
        if self.slot.as_ref().is_some_and(|slot| slot.begin < due) {
            self.next_slot(cx);
        }
        let begin = self.slot.as_ref().map_or(Time::ZERO, |slot| slot.begin);
        if due.max(begin) > cx.now {
            self.wake = due.max(begin);
            return None;
        }
        let overtaken = self.overtaken();
        let held = if overtaken { self.overtaking.pop() } else { self.line.pop_front() };
        let pkt = self.leave(held)?;
        if let Some(slot) = &mut self.slot {
            slot.packets_left -= 1;
            slot.bytes_left -= i64::from(pkt.frame_len());
            if slot.packets_left <= 0 || slot.bytes_left <= 0 {
                self.next_slot(cx);
            }
        }
        Some(pkt)
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.len() as u64, bytes: self.bytes }
    }
    fn change(&mut self, to: &dyn Any, cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        self.set(to.downcast_ref::<NetemConfig>().ok_or_else(Vec::new)?.clone(), cx.now);
        Ok(())
    }
    fn next_timer(&self) -> Time {
        self.wake
    }
    fn on_timer(&mut self, _cx: &mut QueueCx<P>) {
        self.wake = Time::NEVER;
    }
}

impl RateModel {
    /// How long a frame takes; in cells, the last one counts in full.
    fn time_for(&self, len: u32) -> Span {
        let mut bytes = (i64::from(len) + i64::from(self.packet_overhead)).max(0);
        if self.cell_size > 0 {
            let cell = i64::from(self.cell_size);
            let cells = (bytes + cell - 1) / cell;
            bytes = cells * (cell + i64::from(self.cell_overhead)).max(0);
        }
        self.rate.time_for(bytes as u64)
    }
}

/// A time around `mu`: evenly within `sigma` on both sides, or by a table of quantiles.
#[inline]
fn spread(mu: i64, sigma: Span, table: Option<&[i16]>, random: u32) -> i64 {
    let sigma = sigma.0 as i64;
    let Some(table) = table else { return i64::from(random) % (2 * sigma) + mu - sigma };
    let quantile = i64::from(table[random as usize % table.len()]);
    let product = sigma * quantile;
    let half = if product >= 0 { distribution::SCALE / 2 } else { -distribution::SCALE / 2 };
    (product + half) / distribution::SCALE + mu
}

fn shift(time: Time, by: i64) -> Time {
    Time(time.0.saturating_add_signed(by))
}

/// `later - earlier`, of either sign.
fn signed(later: Time, earlier: Time) -> i64 {
    later.0 as i64 - earlier.0 as i64
}

impl Qdisc for NetemConfig {
    const SEPARATION: Separation = Separation::Shaper;
    const MARKING: Marking = Marking::With(&["ecn"]);

    fn room(&self, _link: LinkInfo) -> Room {
        Room { rate: Rate::from_bps(0), ..Room::of_packets(self.limit) }
    }
    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(Netem::new(self.clone(), link.now))
    }
}
