//! The two queues of a coupled AQM, and which of them sends next: the schedulers of RFC 9332,
//! 4.2.2.
//!
//! L is for low latency, C for the rest. L goes first, but C must not starve:
//! * `strict`: L always goes first, C gets the rest;
//! * `tshift`, time-shifted FIFO: L goes first unless C's head has waited longer by the time shift;
//! * `wrr`, weighted round robin by a credit of bytes, as in Linux `sch_dualpi2`;
//! * `drr`, deficit round robin, which gives each its share of bytes in turns.

use super::queue::Queue;
use super::{Backlog, DropReason, Pkt, QueueCx};
use crate::params::kinds::{choice, params, percent, some_time};
use crate::params::{Gauge, gauge};
use crate::time::{Span, Time};
use crate::units::{MTU_FRAME, Rate};

/// The bands, see [`super::Aqm::bands`].
pub const L: usize = 0;
pub const C: usize = 1;
pub const BANDS: &[&str] = &["L", "C"];

/// L and C.
#[derive(Debug)]
pub struct Queues<P> {
    pub l: Queue<P>,
    pub c: Queue<P>,
}

impl<P: Pkt> Default for Queues<P> {
    fn default() -> Self {
        Queues { l: Queue::new(), c: Queue::new() }
    }
}

impl<P: Pkt> Queues<P> {
    #[inline(always)]
    pub fn of(&mut self, band: usize) -> &mut Queue<P> {
        if band == L { &mut self.l } else { &mut self.c }
    }
    #[inline(always)]
    pub fn packets(&self) -> usize {
        self.l.len() + self.c.len()
    }
    #[inline(always)]
    pub fn bytes(&self) -> u64 {
        self.l.bytes() + self.c.bytes()
    }
    pub fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets() as u64, bytes: self.bytes() }
    }
    /// The age of the older head.
    #[inline]
    pub fn longest_age(&self, now: Time) -> Span {
        age(&self.l, now).max(age(&self.c, now))
    }
}

/// A queue's turn, and what each byte that it sends adds to the scheduler's memory.
#[derive(Copy, Clone, Debug)]
pub struct Turn {
    pub band: usize,
    charge: i64,
}

/// Weighted round robin with one number as its memory.
#[derive(Clone, Debug)]
pub struct Wrr {
    weight_l: i64,
    weight_c: i64,
    /// In bytes times weight: C's turn if positive.
    credit: i64,
}

impl Wrr {
    pub fn new(weight_l: i64, weight_c: i64) -> Self {
        let mut wrr = Wrr { weight_l, weight_c, credit: 0 };
        wrr.reset();
        wrr
    }
    /// C gets so many percent.
    pub fn protecting(c_percent: u8) -> Self {
        Wrr::new(100 - i64::from(c_percent), i64::from(c_percent))
    }
    /// While both wait, L is charged with C's weight and C with L's, and the sign says whose turn
    /// it is: so the bytes leave in the ratio of the weights.
    #[inline(always)]
    pub fn pick(&mut self, l_empty: bool, c_empty: bool) -> Option<Turn> {
        match (l_empty, c_empty) {
            (false, false) if self.credit <= 0 => Some(Turn { band: L, charge: self.weight_c }),
            (false, false) => Some(Turn { band: C, charge: -self.weight_l }),
            (false, true) => Some(Turn { band: L, charge: 0 }),
            (true, false) => Some(Turn { band: C, charge: 0 }),
            (true, true) => {
                self.reset();
                None
            }
        }
    }
    #[inline(always)]
    pub fn sent(&mut self, turn: Turn, bytes: u64) {
        self.credit += turn.charge * bytes as i64;
    }
    /// An idle link forgets the past; the queue with the larger share starts.
    fn reset(&mut self) {
        self.credit = i64::from(MTU_FRAME) * (self.weight_c - self.weight_l);
    }
    pub fn credit_bytes(&self) -> f64 {
        self.credit as f64 / (self.weight_l + self.weight_c) as f64
    }
}

/// Deficit round robin: a queue that gets its turn may send a quantum of bytes more.
#[derive(Clone, Debug)]
pub struct Drr {
    quantum: [i64; 2],
    deficit: [i64; 2],
    turn: usize,
}

impl Drr {
    /// The smaller quantum is a full frame.
    fn new(c_percent: u8) -> Self {
        let shares = [100 - i64::from(c_percent), i64::from(c_percent)];
        let quantum = shares.map(|s| i64::from(MTU_FRAME) * s / shares[L].min(shares[C]).max(1));
        Drr { quantum, deficit: [0; 2], turn: C }
    }
    fn pick(&mut self, heads: [Option<i64>; 2]) -> Option<Turn> {
        if heads == [None, None] {
            self.deficit = [0; 2];
            self.turn = C; // so that L begins
            return None;
        }
        loop {
            match heads[self.turn] {
                Some(len) if len <= self.deficit[self.turn] => {
                    return Some(Turn { band: self.turn, charge: 0 });
                }
                Some(_) => {}
                None => self.deficit[self.turn] = 0,
            }
            self.turn = L + C - self.turn;
            self.deficit[self.turn] += self.quantum[self.turn];
        }
    }
}

/// A scheduler at work.
#[derive(Clone, Debug)]
pub enum Scheduler {
    Strict,
    TimeShift(Span),
    Wrr(Wrr),
    Drr(Drr),
}

impl Scheduler {
    /// Whose turn it is; `None` if both are empty.
    #[inline]
    pub fn pick<P: Pkt>(&mut self, queues: &Queues<P>, now: Time) -> Option<Turn> {
        let Queues { l, c } = queues;
        let l_first = match self {
            Scheduler::Wrr(wrr) => return wrr.pick(l.is_empty(), c.is_empty()),
            Scheduler::Drr(drr) => {
                let len = |q: &Queue<P>| q.front().map(|pkt| i64::from(pkt.frame_len()));
                return drr.pick([len(l), len(c)]);
            }
            Scheduler::Strict => true,
            Scheduler::TimeShift(shift) => age(l, now) + *shift >= age(c, now),
        };
        let band = match (l.is_empty(), c.is_empty()) {
            (true, true) => return None,
            (false, true) => L,
            (true, false) => C,
            (false, false) => {
                if l_first {
                    L
                } else {
                    C
                }
            }
        };
        Some(Turn { band, charge: 0 })
    }
    /// The packet was sent. (A dropped one costs its queue nothing.)
    #[inline(always)]
    pub fn sent(&mut self, turn: Turn, bytes: u64) {
        match self {
            Scheduler::Wrr(wrr) => wrr.sent(turn, bytes),
            Scheduler::Drr(drr) => drr.deficit[turn.band] -= bytes as i64,
            Scheduler::Strict | Scheduler::TimeShift(_) => {}
        }
    }
}

/// How long the head has waited; zero if there is none.
#[inline]
pub fn age<P: Pkt>(queue: &Queue<P>, now: Time) -> Span {
    queue.front().map_or(Span::ZERO, |pkt| now.since(pkt.enqueued_at()))
}

/// A limit that is given as time at the link's rate; there is room for one packet at least.
pub fn bytes_of(limit: Span, rate: Rate) -> u64 {
    rate.bytes_in(limit).max(u64::from(MTU_FRAME))
}

/// The queues with a scheduler and a common limit, for a law that decides as packets leave.
#[derive(Debug)]
pub struct Coupled<P> {
    pub queues: Queues<P>,
    scheduler: Scheduler,
    /// Of the link, at which the limit is counted.
    rate: Rate,
    /// In bytes.
    limit: u64,
    /// ECT(0) is for L.
    pub any_ect: bool,
}

impl<P: Pkt> Coupled<P> {
    pub fn new(scheduler: &SchedulerConfig, limit: Span, rate: Rate) -> Self {
        let limit = bytes_of(limit, rate);
        let (queues, scheduler) = (Queues::default(), scheduler.build());
        Coupled { queues, scheduler, rate, limit, any_ect: false }
    }
    /// Packets beyond a smaller limit stay. A scheduler that changes forgets the past.
    pub fn change(&mut self, before: &SchedulerConfig, to: &SchedulerConfig, limit: Span) {
        self.limit = bytes_of(limit, self.rate);
        if before != to {
            self.scheduler = to.build();
        }
    }
    /// ECT(1) and CE to L, all others to C (RFC 9332, 2.3), or ECT(0) to L as well.
    pub fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        let ecn = pkt.ecn();
        let l4s = if self.any_ect { ecn.is_capable() } else { ecn.is_l4s() };
        let band = if l4s { L } else { C };
        cx.band(band);
        if self.queues.bytes() + u64::from(MTU_FRAME) > self.limit {
            return cx.drop(pkt, DropReason::Overflow);
        }
        self.queues.of(band).push(pkt);
    }
    /// The law looks at the head of the band whose turn it is, and marks it or says that it must be
    /// dropped.
    pub fn dequeue(
        &mut self,
        cx: &mut QueueCx<P>,
        mut drops: impl FnMut(&mut Queues<P>, usize, &mut QueueCx<P>) -> bool,
    ) -> Option<P> {
        loop {
            let turn = self.scheduler.pick(&self.queues, cx.now)?;
            cx.band(turn.band);
            let dropped = drops(&mut self.queues, turn.band, cx);
            let pkt = self.queues.of(turn.band).pop()?;
            if dropped {
                cx.drop(pkt, DropReason::Aqm);
                continue;
            }
            self.scheduler.sent(turn, u64::from(pkt.frame_len()));
            return Some(pkt);
        }
    }
}

/// The gauges of coupled queues.
pub const P_PRIME: Gauge = gauge("p_prime", "", "base probability of the coupling");
pub const P_C: Gauge = gauge("p_c", "", "drop or mark probability of classic packets");
pub const P_L_COUPLED: Gauge = gauge("p_l_coupled", "", "mark probability of L by the coupling");
pub const P_L_NATIVE: Gauge = gauge("p_l_native", "", "native mark probability of L");
pub const P_L: Gauge = gauge("p_l", "", "the larger of the two");

params! {
    /// What a qdisc string may say about the scheduler.
    pub struct SchedulerConfig {
        /// which queue sends next
        kind: Kind = Kind::Wrr, choice("strict|tshift|wrr|drr", [
            ("strict", Kind::Strict),
            ("tshift", Kind::TimeShift),
            ("wrr", Kind::Wrr),
            ("drr", Kind::Drr),
        ]).called(&["scheduler"]), "RFC 9332 leaves it open";
        /// tshift: C is served first if its head is older by more than this
        tshift: Span = Span::from_millis(30), some_time(), "twice the target";
        /// wrr, drr: share granted to C
        classic_protection: u8 = 10, percent(1..=99), "as in Linux";
    }
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    Strict,
    TimeShift,
    Wrr,
    Drr,
}

impl SchedulerConfig {
    pub fn build(&self) -> Scheduler {
        match self.kind {
            Kind::Strict => Scheduler::Strict,
            Kind::TimeShift => Scheduler::TimeShift(self.tshift),
            Kind::Wrr => Scheduler::Wrr(Wrr::protecting(self.classic_protection)),
            Kind::Drr => Scheduler::Drr(Drr::new(self.classic_protection)),
        }
    }
}
