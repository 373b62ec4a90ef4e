//! Stochastic Fair Blue (Feng, Kandlur, Saha and Shin, 2001), as Linux has it (`sch_sfb`, 7.2).
//!
//! A flow's hash gives it a bin in each of eight levels of 16 bins. A bin has a probability, which an arrival raises while
//! as many packets as `target` wait in the bin, and lowers while none do. A packet is marked with the lowest probability of
//! its bins, so only a flow that is too fast in all its bins is marked. Above one half of the marks some are drops, whatever
//! the packet's ECN field. Where the lowest reaches 1, the flow does not respond: it gets `penalty_rate` packets a second.
//!
//! Every `rehash` ms the hash changes. The last `db` ms before, flows that do not respond enter the new bins too, so that
//! these know them from the beginning.
//!
//! In Linux 7.2 the first packet after a change of the hash still goes to the old bins, with a new hash.

use std::collections::VecDeque;

use super::flow_hash::FlowHash;
use super::queue::Queue;
use super::{
    Aqm, Backlog, DropReason, Gauges, LinkInfo, MarkReason, Marking, Pkt, Qdisc, QueueCx, Room,
    Separation, jiffies,
};
use crate::params::kinds::{Spec, number, params, real};
use crate::params::{Described, Gauge, Given, Refused, gauge};
use crate::time::Time;

const LEVELS: usize = 8;
/// Bins of a level, each with so many bits of the hash.
const BITS: usize = 4;
const BINS: usize = 1 << BITS;
/// Probabilities have 16 bits.
const ONE: u16 = u16::MAX;
/// A device's default `txqueuelen`.
const LIMIT: u32 = 1000;
/// Tokens are counted for at most ten seconds.
const AGE_MAX: u64 = 10 * jiffies::HZ;

params! {
    /// The parameters, by their names in `tc`.
    pub struct SfbConfig {
        /// milliseconds between changes of the hash; 0: never
        rehash: u32 = 600_000, milliseconds(), "tc";
        /// milliseconds before a change in which the new bins learn of flows that do not respond
        db: u32 = 60_000, milliseconds(), "tc";
        /// largest backlog
        limit: u32 = LIMIT, number(0..=u32::MAX).shown("PACKETS").fitted(|n| if n == 0 { LIMIT } else { n }), "Linux: the device's txqueuelen";
        /// largest backlog of a bin; 1.25 target
        max: u32 = 0, packets("25"), "tc";
        /// backlog of a bin from which its probability rises; 0.8 max
        target: u32 = 0, packets("20"), "tc";
        /// how much an arrival to a bin at its target raises the probability
        increment: f64 = 0.0005, probability(), "tc";
        /// how much an arrival to an empty bin lowers it
        decrement: f64 = 0.00005, probability(), "tc";
        /// packets per second of flows that do not respond, together
        penalty_rate: u32 = 10, number(0..=u32::MAX).shown("PPS"), "tc";
        /// how many of them may come at once
        penalty_burst: u32 = 20, number(0..=u32::MAX).shown("PACKETS"), "tc";
    }
}

fn milliseconds() -> Spec<u32> {
    number(0..=u32::MAX).shown("MILLISECONDS")
}

fn packets(default: &'static str) -> Spec<u32> {
    number(0..=u32::MAX).shown("PACKETS").default(default)
}

fn probability() -> Spec<f64> {
    real("NUMBER", "a number from 0 to 1", |p| (0.0..=1.0).contains(&p), (0.0, 1.0))
}

/// As `tc` rounds it.
fn fixed(probability: f64) -> u16 {
    (probability * f64::from(ONE) + 0.5) as u16
}

/// Rounded up.
fn in_jiffies(milliseconds: u32) -> u64 {
    (u64::from(milliseconds) * jiffies::HZ).div_ceil(1000)
}

#[derive(Copy, Clone, Debug, Default)]
struct Bin {
    packets: u16,
    probability: u16,
}

/// The bins of one hash.
#[derive(Debug, Default)]
struct Bins {
    hash: FlowHash,
    levels: [[Bin; BINS]; LEVELS],
}

impl Bins {
    /// Those of a hash.
    fn of(&mut self, hash: u32) -> impl Iterator<Item = &mut Bin> {
        let bin = move |level: usize| (hash >> (BITS * level)) as usize % BINS;
        self.levels.iter_mut().enumerate().map(move |(level, bins)| &mut bins[bin(level)])
    }
}

/// The queue at work.
#[derive(Debug)]
pub struct Sfb<P> {
    queue: Queue<P>,
    /// Of each packet that waits, its hashes; zero: it is not in these bins.
    hashes: VecDeque<[u32; 2]>,
    bins: [Bins; 2],
    /// Which bins decide, and whether the others learn.
    slot: usize,
    double_buffering: bool,
    /// In jiffies.
    rehashed: u64,
    filled: u64,
    tokens: u32,
    increment: u16,
    decrement: u16,
    config: SfbConfig,
}

impl<P: Pkt> Sfb<P> {
    pub fn new(config: SfbConfig, now: Time) -> Self {
        let now = jiffies::at(now);
        Sfb {
            queue: Queue::new(),
            hashes: VecDeque::new(),
            bins: Default::default(),
            slot: 0,
            double_buffering: false,
            rehashed: now,
            filled: now,
            tokens: config.penalty_burst,
            increment: fixed(config.increment),
            decrement: fixed(config.decrement),
            config,
        }
    }

    fn change_hash(&mut self, now: u64) {
        let (rehash, warm_up) = (in_jiffies(self.config.rehash), in_jiffies(self.config.db));
        let due = self.rehashed + rehash;
        if rehash == 0 {
        } else if now > due {
            self.bins[self.slot].hash = FlowHash::default();
            self.slot = 1 - self.slot;
            self.double_buffering = false;
            self.rehashed = now;
        } else if warm_up > 0 && now + warm_up > due {
            self.double_buffering = true;
        }
    }

    /// The packet's hash in one half, the fewest packets of its bins, and their lowest probability.
    fn look(&mut self, slot: usize, pkt: &P, cx: &mut QueueCx<P>) -> (u32, u16, u16) {
        let hash = self.bins[slot].hash.of(pkt.flow_hash(), cx.rng).max(1);
        let (mut fewest, mut lowest) = (ONE, ONE);
        for bin in self.bins[slot].of(hash) {
            if bin.packets == 0 {
                bin.probability = bin.probability.saturating_sub(self.decrement);
            } else if u32::from(bin.packets) >= self.config.target {
                bin.probability = bin.probability.saturating_add(self.increment);
            }
            fewest = fewest.min(bin.packets);
            lowest = lowest.min(bin.probability);
        }
        (hash, fewest, lowest)
    }

    /// A packet of a flow that does not respond: whether it finds a token.
    fn finds_token(&mut self, now: u64) -> bool {
        let (rate, burst) = (self.config.penalty_rate, self.config.penalty_burst);
        if rate == 0 || burst == 0 {
            return false;
        }
        if self.tokens == 0 {
            let age = AGE_MAX.min(now - self.filled);
            // The kernel keeps 32 bits.
            self.tokens = ((age * u64::from(rate) / jiffies::HZ) as u32).min(burst);
            self.filled = now;
        }
        let finds = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        finds
    }

    fn count(&mut self, hashes: [u32; 2], counted: impl Fn(u16) -> u16) {
        for (bins, hash) in self.bins.iter_mut().zip(hashes).filter(|(_, hash)| *hash > 0) {
            bins.of(hash).for_each(|bin| bin.packets = counted(bin.packets));
        }
    }
}

impl<P: Pkt + Send> Aqm<P> for Sfb<P> {
    fn enqueue(&mut self, mut pkt: P, cx: &mut QueueCx<P>) {
        if self.queue.len() >= self.config.limit as usize {
            return cx.drop(pkt, DropReason::Overflow);
        }
        let now = jiffies::at(cx.now);
        // As in Linux, the packet that finds the hash too old is judged by the bins that no longer decide.
        let (slot, mut hashes) = (self.slot, [0; 2]);
        self.change_hash(now);
        let (hash, fewest, probability) = self.look(slot, &pkt, cx);
        hashes[slot] = hash;
        if u32::from(fewest) >= self.config.max {
            return cx.drop(pkt, DropReason::Aqm);
        }
        if probability == ONE {
            if self.double_buffering {
                hashes[1 - slot] = self.look(1 - slot, &pkt, cx).0;
            }
            if !self.finds_token(now) {
                return cx.drop(pkt, DropReason::Aqm);
            }
        } else {
            let draw = cx.rng.below(u64::from(ONE) + 1) as u32;
            let beyond = u32::from(probability.saturating_sub(ONE / 2)) * 2;
            let marks = draw < u32::from(probability);
            if marks && (draw < beyond || !cx.mark(&mut pkt, MarkReason::Aqm)) {
                return cx.drop(pkt, DropReason::Aqm);
            }
        }
        self.count(hashes, |packets| packets.saturating_add(1));
        self.hashes.push_back(hashes);
        self.queue.push(pkt);
    }

    fn dequeue(&mut self, _cx: &mut QueueCx<P>) -> Option<P> {
        let pkt = self.queue.pop()?;
        let hashes = self.hashes.pop_front().unwrap_or_default();
        self.count(hashes, |packets| packets.saturating_sub(1));
        Some(pkt)
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.queue.len() as u64, bytes: self.queue.bytes() }
    }
    fn next_len(&self) -> Option<u32> {
        self.queue.front().map(P::frame_len)
    }
    fn probe(&self, out: &mut dyn Gauges) {
        let bins = || self.bins[self.slot].levels.iter().flatten();
        let highest = bins().map(|bin| bin.probability).max().unwrap_or(0);
        out.gauge("maxprob", f64::from(highest) / f64::from(ONE));
        out.gauge("maxqlen", bins().map(|bin| bin.packets).max().unwrap_or(0).into());
    }
}

impl Described for SfbConfig {
    const NAME: &'static str = "sfb";
    const SUMMARY: &'static str = "stochastic fair BLUE: marks flows whose bins are all too full, and polices those that do not respond";
    const GAUGES: &'static [Gauge] = &[
        gauge("maxprob", "", "highest probability of a mark of a bin"),
        gauge("maxqlen", "", "most packets in a bin"),
    ];

    /// `tc` sends the kernel all of them, and the kernel then starts again with an empty queue.
    fn merged(&self, to: &Self, _given: &Given) -> Option<Result<Self, Refused>> {
        Some(Ok(to.clone()))
    }
    fn finish(&mut self, _given: &Given) -> Result<(), Refused> {
        if self.max == 0 {
            self.max =
                if self.target > 0 { self.target.wrapping_mul(5).wrapping_add(1) / 4 } else { 25 };
        }
        if self.target == 0 {
            self.target = self.max.wrapping_mul(4).wrapping_add(3) / 5;
        }
        Ok(())
    }
}

impl Qdisc for SfbConfig {
    const SEPARATION: Separation = Separation::Approximate;
    const MARKING: Marking = Marking::Always;
    const LIMITS_PACKETS: bool = true;

    fn room(&self, _link: LinkInfo) -> Room {
        Room { always: size_of::<[Bins; 2]>() as u64, ..Room::of_packets(self.limit) }
    }
    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(Sfb::new(self.clone(), link.now))
    }
}
