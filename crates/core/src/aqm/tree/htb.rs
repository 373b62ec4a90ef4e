//! Hierarchical token bucket (Linux `net/sched/sch_htb.c`, 7.2).
//!
//! A class has two buckets: its own is filled at its rate, the other at its ceiling, which it never exceeds. With
//! tokens in both it sends. Without tokens of its own it borrows from its parent, if that has some. Without tokens
//! of the ceiling it waits. Classes that can send by themselves go first, whatever the priorities of those that
//! borrow. Classes that borrow from a nearer ancestor go before those that borrow from a farther one. Among these the
//! lowest `prio` goes first. Classes of one priority take turns in the order of their numbers, each for its quantum of
//! bytes. A packet is charged to its class and to all classes above: to both buckets from the lender upwards, and only
//! to the ceiling's below the lender, where classes had no tokens to give.
//!
//! Tokens are nanoseconds, as in the kernel, which counts the sizes of buckets in units of 64 ns.

use std::collections::BTreeSet;

use super::{ClassSpec, find, parse_id};
use crate::error::ScenarioError;
use crate::time::{Span, Time};
use crate::units::Rate;

/// Levels: leaves have 0, classes below the root the highest (`TC_HTB_MAXDEPTH`).
pub const LEVELS: usize = 8;
/// Priorities (`TC_HTB_NUMPRIO`).
const PRIORITIES: usize = 8;
/// Time beyond this is not counted (`mbuffer`), ns.
const LONGEST: i64 = 60_000_000_000;
/// In turns; more would mean that classes are listed that have nothing to send.
const MOST_STEPS: usize = 65_535;

/// Whether a class can have these parameters.
///
/// # Errors
/// One sentence.
pub fn check_numbers<Q>(class: &ClassSpec<Q>) -> Result<(), ScenarioError> {
    if class.rate_bps == 0 || class.ceil_bps < class.rate_bps {
        return wrong(class, "needs a rate above 0 and a ceil that is not below it");
    }
    if usize::from(class.prio) >= PRIORITIES || class.quantum_bytes == 0 {
        return wrong(class, "needs a prio of 0 to 7 and a quantum above 0");
    }
    Ok(())
}

fn wrong<Q>(class: &ClassSpec<Q>, text: &str) -> Result<(), ScenarioError> {
    Err(ScenarioError(format!("class {} of htb {text}", class.id)))
}

/// The result of a leaf's turn.
pub enum Turn<P> {
    /// Nothing waits in it.
    Empty,
    /// It has packets and gives none.
    HeldBack,
    Sent {
        pkt: P,
        bytes: u32,
        /// Whether others wait.
        more: bool,
    },
}

/// The mode of a class.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Mode {
    CannotSend,
    MayBorrow,
    CanSend,
}

/// A bucket, in nanoseconds.
#[derive(Debug)]
struct Bucket {
    rate: Rate,
    size: i64,
    tokens: i64,
}

impl Bucket {
    fn full(bps: u64, bytes: u64) -> Bucket {
        let rate = Rate::from_bps(bps);
        let size = rate.time_for(bytes).0 as i64;
        Bucket { rate, size, tokens: size }
    }
    /// The tokens stay, because they are time. A smaller bucket is full when it is next charged.
    fn change(&mut self, bps: u64, bytes: u64) {
        *self = Bucket { tokens: self.tokens, ..Bucket::full(bps, bytes) };
    }
    fn charge(&mut self, passed: i64, bytes: u32) {
        let cost = self.rate.time_for(bytes.into()).0 as i64;
        self.tokens = ((self.tokens + passed).min(self.size) - cost).max(1 - LONGEST);
    }
}

/// Classes that take turns, by their places in order of their numbers.
#[derive(Debug, Default)]
struct Ring {
    members: BTreeSet<usize>,
    at: Option<usize>,
    /// The class that left during its turn. The round continues there.
    left: Option<usize>,
}

impl Ring {
    fn step(&mut self) {
        self.at = self.at.and_then(|at| self.members.range(at + 1..).next().copied());
    }
}

#[derive(Debug)]
struct Class {
    id: Option<u16>,
    parent: Option<usize>,
    level: usize,
    prio: usize,
    quantum: i64,
    leaf: Option<usize>,
    own: Bucket,
    ceiling: Bucket,
    /// When the tokens were counted.
    counted: Time,
    mode: Mode,
    /// Bits of the priorities at which it, or a borrowing class below it, has something to send.
    active: u8,
    /// Bytes left of its turn, by the level at which it borrows.
    deficit: [i64; LEVELS],
    /// Those below that borrow, by priority.
    borrowers: [Ring; PRIORITIES],
    /// When its mode changes.
    due: Time,
}

/// The classes that take turns: all that can send by themselves at a level, or that borrow from a class.
#[derive(Copy, Clone)]
enum Place {
    Level(usize),
    Class(usize),
}

/// The classes at work.
#[derive(Debug)]
pub struct Htb {
    classes: Vec<Class>,
    /// The class of each leaf.
    leaves: Vec<usize>,
    /// Those that can send by themselves, by level and priority.
    rows: [[Ring; PRIORITIES]; LEVELS],
    /// Those whose mode changes with time, by level.
    waiting: [BTreeSet<(Time, usize)>; LEVELS],
    now: Time,
}

impl Htb {
    /// `classes`: checked, and sorted by number; leaves are numbered in this order.
    pub fn new<Q>(classes: &[ClassSpec<Q>], now: Time) -> Htb {
        let mut leaves = Vec::new();
        let mut made = Vec::new();
        for (place, spec) in classes.iter().enumerate() {
            let mut depth = 0;
            let mut above = spec;
            while let Some(parent) = above.parent.as_deref().and_then(|id| find(classes, id)) {
                above = &classes[parent];
                depth += 1;
            }
            let is_leaf = spec.qdisc.is_some();
            let leaf = is_leaf.then_some(leaves.len());
            leaves.extend(is_leaf.then_some(place));
            made.push(Class {
                id: parse_id(&spec.id),
                parent: spec.parent.as_deref().and_then(|id| find(classes, id)),
                level: if is_leaf { 0 } else { LEVELS - 1 - depth },
                prio: usize::from(spec.prio),
                quantum: spec.quantum_bytes.into(),
                leaf,
                own: Bucket::full(spec.rate_bps, spec.burst_bytes),
                ceiling: Bucket::full(spec.ceil_bps, spec.cburst_bytes),
                counted: now,
                mode: Mode::CanSend,
                active: 0,
                deficit: [0; LEVELS],
                borrowers: Default::default(),
                due: Time::NEVER,
            });
        }
        let (rows, waiting) = Default::default();
        Htb { classes: made, leaves, rows, waiting, now }
    }

    /// Sets other numbers of a class (`htb_change_class`). The old ones still decide when it may send next and, until
    /// it has nothing to send, the priority at which it is listed. Only leaves have priority and quantum.
    pub fn change(&mut self, to: &ClassSpec) {
        let place = self.classes.binary_search_by_key(&parse_id(&to.id), |class| class.id);
        let class = &mut self.classes[place.expect("it was checked")];
        class.own.change(to.rate_bps, to.burst_bytes);
        class.ceiling.change(to.ceil_bps, to.cburst_bytes);
        if class.leaf.is_some() {
            class.prio = usize::from(to.prio);
            class.quantum = to.quantum_bytes.into();
        }
    }

    pub fn ceil(&self, leaf: usize) -> Rate {
        self.classes[self.leaves[leaf]].ceiling.rate
    }

    /// A leaf's packets are gone (`htb_qlen_notify`).
    pub fn emptied(&mut self, leaf: usize) {
        let place = self.leaves[leaf];
        if self.classes[place].active != 0 {
            self.deactivate(place);
        }
    }

    /// A leaf has something to send.
    #[inline]
    pub fn activate(&mut self, leaf: usize) {
        let place = self.leaves[leaf];
        if self.classes[place].active == 0 {
            self.classes[place].active = 1 << self.classes[place].prio;
            self.list(place);
        }
    }
    fn deactivate(&mut self, place: usize) {
        self.unlist(place);
        self.classes[place].active = 0;
    }

    fn ring(&mut self, place: Place, prio: usize) -> &mut Ring {
        match place {
            Place::Level(level) => &mut self.rows[level][prio],
            Place::Class(class) => &mut self.classes[class].borrowers[prio],
        }
    }

    /// Lists an active class where it gets its turns: at its level, or with those it borrows from, up to the
    /// first that can send.
    fn list(&mut self, place: usize) {
        let (mut place, mut mask) = (place, self.classes[place].active);
        while self.classes[place].mode == Mode::MayBorrow
            && mask != 0
            && let Some(parent) = self.classes[place].parent
        {
            for prio in bits(mask) {
                let ring = self.ring(Place::Class(parent), prio);
                if !ring.members.is_empty() {
                    // It is listed already where it gets its own turns.
                    mask &= !(1 << prio);
                }
                ring.members.insert(place);
            }
            self.classes[parent].active |= mask;
            place = parent;
        }
        if self.classes[place].mode == Mode::CanSend {
            for prio in bits(mask) {
                self.rows[self.classes[place].level][prio].members.insert(place);
            }
        }
    }

    fn unlist(&mut self, place: usize) {
        let (mut place, mut mask) = (place, self.classes[place].active);
        while self.classes[place].mode == Mode::MayBorrow
            && mask != 0
            && let Some(parent) = self.classes[place].parent
        {
            let mut emptied = 0;
            for prio in bits(mask) {
                let ring = self.ring(Place::Class(parent), prio);
                if ring.at == Some(place) {
                    (ring.at, ring.left) = (None, Some(place));
                }
                ring.members.remove(&place);
                emptied |= u8::from(ring.members.is_empty()) << prio;
            }
            mask = emptied;
            self.classes[parent].active &= !mask;
            place = parent;
        }
        if self.classes[place].mode == Mode::CanSend {
            for prio in bits(mask) {
                let ring = &mut self.rows[self.classes[place].level][prio];
                if ring.at == Some(place) {
                    ring.step();
                }
                ring.members.remove(&place);
            }
        }
    }

    /// Decides what a class may do after `passed` more nanoseconds. Returns after how many nanoseconds this may change.
    fn change_mode(&mut self, place: usize, passed: i64) -> i64 {
        let class = &self.classes[place];
        let (own, ceiling) = (class.own.tokens + passed, class.ceiling.tokens + passed);
        let (mode, missing) = if ceiling < 0 {
            (Mode::CannotSend, -ceiling)
        } else if own < 0 {
            (Mode::MayBorrow, -own)
        } else {
            (Mode::CanSend, passed)
        };
        if mode != class.mode {
            let is_active = class.active != 0;
            if is_active && class.mode != Mode::CannotSend {
                self.unlist(place);
            }
            self.classes[place].mode = mode;
            if is_active && mode != Mode::CannotSend {
                self.list(place);
            }
        }
        missing
    }

    fn wait(&mut self, place: usize, missing: i64) {
        let class = &mut self.classes[place];
        class.due = self.now + Span(missing.max(1) as u64);
        self.waiting[class.level].insert((class.due, place));
    }

    /// Handles classes whose mode changes now.
    fn advance(&mut self) {
        for level in 0..LEVELS {
            while let Some(&(due, place)) = self.waiting[level].first()
                && due <= self.now
            {
                self.waiting[level].pop_first();
                let passed = self.passed(place);
                let missing = self.change_mode(place, passed);
                if self.classes[place].mode != Mode::CanSend {
                    self.wait(place, missing);
                }
            }
        }
    }

    fn passed(&self, place: usize) -> i64 {
        (self.now.since(self.classes[place].counted).0 as i64).min(LONGEST)
    }

    /// When a class may do more than now.
    pub fn next_event(&self) -> Time {
        self.waiting
            .iter()
            .filter_map(|w| w.first())
            .map(|(due, _)| *due)
            .fold(Time::NEVER, Time::min)
    }

    /// The next packet; `serve` asks the leaf with this number for one.
    pub fn dequeue<P>(&mut self, now: Time, mut serve: impl FnMut(usize) -> Turn<P>) -> Option<P> {
        self.now = now;
        self.advance();
        for level in 0..LEVELS {
            for prio in 0..PRIORITIES {
                if let Some(pkt) = self.serve(level, prio, &mut serve) {
                    return Some(pkt);
                }
            }
        }
        None
    }

    fn serve<P>(
        &mut self,
        level: usize,
        prio: usize,
        serve: &mut impl FnMut(usize) -> Turn<P>,
    ) -> Option<P> {
        let mut start = self.turn(level, prio)?;
        let mut place = start;
        loop {
            match serve(self.classes[place].leaf.expect("turns lead to leaves")) {
                Turn::Empty => {
                    self.deactivate(place);
                    let next = self.turn(level, prio)?;
                    if place == start {
                        start = next;
                    }
                    place = next;
                }
                Turn::HeldBack => {
                    self.step(level, prio, place);
                    place = self.turn(level, prio)?;
                    if place == start {
                        return None;
                    }
                }
                Turn::Sent { pkt, bytes, more } => {
                    let class = &mut self.classes[place];
                    class.deficit[level] -= i64::from(bytes);
                    if class.deficit[level] < 0 {
                        class.deficit[level] += class.quantum;
                        self.step(level, prio, place);
                    }
                    if !more {
                        self.deactivate(place);
                    }
                    self.charge(place, level, bytes);
                    return Some(pkt);
                }
            }
        }
    }

    /// Passes the turn to the next class of the same ring.
    fn step(&mut self, level: usize, prio: usize, place: usize) {
        let among = match self.classes[place].parent {
            Some(parent) if level > 0 => Place::Class(parent),
            _ => Place::Level(0),
        };
        self.ring(among, prio).step();
    }

    /// The leaf whose turn it is. At the end of a ring it begins again, and the turn of the class above passes
    /// on.
    fn turn(&mut self, level: usize, prio: usize) -> Option<usize> {
        if self.rows[level][prio].members.is_empty() {
            return None;
        }
        let mut path = [Place::Level(level); LEVELS];
        let mut depth = 0;
        for _ in 0..MOST_STEPS {
            let ring = self.ring(path[depth], prio);
            if let Some(left) = ring.left.take()
                && ring.at.is_none()
            {
                ring.at = ring.members.range(left..).next().copied();
            }
            let at = ring.at;
            match at {
                None => {
                    ring.at = ring.members.first().copied();
                    if depth > 0 {
                        depth -= 1;
                        self.ring(path[depth], prio).step();
                    }
                }
                Some(place) if self.classes[place].level == 0 => return Some(place),
                Some(place) => {
                    depth += 1;
                    path[depth] = Place::Class(place);
                }
            }
        }
        None
    }

    /// A leaf has sent, with tokens of this level.
    fn charge(&mut self, leaf: usize, level: usize, bytes: u32) {
        let mut next = Some(leaf);
        while let Some(place) = next {
            let passed = self.passed(place);
            let now = self.now;
            let class = &mut self.classes[place];
            if class.level >= level {
                class.own.charge(passed, bytes);
            } else {
                class.own.tokens += passed;
            }
            class.ceiling.charge(passed, bytes);
            class.counted = now;
            let before = class.mode;
            let missing = self.change_mode(place, 0);
            let class = &self.classes[place];
            if before != class.mode {
                if before != Mode::CanSend {
                    self.waiting[class.level].remove(&(class.due, place));
                }
                if class.mode != Mode::CanSend {
                    self.wait(place, missing);
                }
            }
            next = self.classes[place].parent;
        }
    }
}

/// The places of the bits that are set.
fn bits(mask: u8) -> impl Iterator<Item = usize> {
    (0..PRIORITIES).filter(move |prio| mask >> prio & 1 == 1)
}
