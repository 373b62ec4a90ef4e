//! The event queue: elements that want to wake up, ordered by (time, sequence number).
//!
//! An element has at most one pending event, so the queue's size is the number of elements, never
//! of packets. A deadline that moves later (the retransmission timer does so with every ACK) costs
//! a store: the old entry stays where it is and is re-inserted when it surfaces.
//!
//! Entries soon due are in a heap. Later ones lie unsorted in the buckets of a wheel, one bucket per
//! slice of time, and enter the heap when their slice begins: the heap stays small however many
//! elements there are. Entries beyond the wheel's turn wait in a second heap.

use crate::prefetch::prefetch;
use crate::time::{Span, Time};

/// Number of an element in the event queue.
pub type ElementId = u32;

const ELEMENT_BITS: u32 = 24;
const ARITY: usize = 4;
/// Buckets of the wheel.
const BUCKETS: usize = 2048;
/// Entries that a bucket should hold on average: a heap of this size fits the first-level cache.
const PER_BUCKET: u64 = 64;

#[derive(Copy, Clone)]
struct Deadline {
    /// When the element wants to wake.
    wanted: Time,
    /// The earliest entry in the queue that stands for it.
    queued: Time,
}

/// See the module. Entries are packed keys: time, then sequence number (ties: first come, first
/// served), then the element.
pub struct EventQueue {
    /// Entries before `near_end`.
    near: Heap,
    near_end: Time,
    wheel: Wheel,
    /// Entries beyond the wheel.
    far: Heap,
    sequence: u64,
    deadlines: Vec<Deadline>,
}

#[inline]
fn time_of(key: u128) -> Time {
    Time((key >> 64) as u64)
}
#[inline]
fn element_of(key: u128) -> ElementId {
    (key as u32) & ((1 << ELEMENT_BITS) - 1)
}

impl EventQueue {
    /// A queue for about one event per `spacing`: a hint that affects speed only.
    pub fn new(spacing: Span) -> EventQueue {
        let slice = (spacing.0.max(1) * PER_BUCKET).next_power_of_two().trailing_zeros();
        let wheel = Wheel::new(slice.clamp(10, 30));
        EventQueue {
            near: Heap::default(),
            near_end: wheel.slice_end(Time::ZERO),
            wheel,
            far: Heap::default(),
            sequence: 0,
            deadlines: Vec::new(),
        }
    }

    /// Registers an element.
    pub fn add_element(&mut self) -> ElementId {
        let id = self.deadlines.len();
        assert!(id < 1 << ELEMENT_BITS, "more than 16 million elements");
        self.deadlines.push(Deadline { wanted: Time::NEVER, queued: Time::NEVER });
        id as ElementId
    }

    /// Lets `element` wake at `at` instead of whenever it wanted before ([`Time::NEVER`]: not at
    /// all).
    #[inline]
    pub fn set(&mut self, element: ElementId, at: Time) {
        let d = &mut self.deadlines[element as usize];
        d.wanted = at;
        if at < d.queued {
            d.queued = at;
            self.push(at, element);
        }
    }

    /// When `element` is going to wake.
    #[inline]
    pub fn wanted(&self, element: ElementId) -> Time {
        self.deadlines[element as usize].wanted
    }

    /// The element that is likely to wake after the one at hand.
    #[inline]
    pub fn likely_next(&self) -> Option<ElementId> {
        self.near.second().map(element_of)
    }

    /// Brings the deadlines of `element` towards the cache.
    #[inline]
    pub fn prefetch(&self, element: ElementId) {
        prefetch(&self.deadlines[element as usize]);
    }

    /// The next event not later than `until`.
    #[inline]
    pub fn pop(&mut self, until: Time) -> Option<(Time, ElementId)> {
        loop {
            let Some(key) = self.near.first() else {
                if !self.advance(until) {
                    return None;
                }
                continue;
            };
            let at = time_of(key);
            if at > until {
                return None;
            }
            self.near.take_first();
            let element = element_of(key);
            let d = &mut self.deadlines[element as usize];
            if d.queued != at {
                continue; // superseded by an earlier entry
            }
            d.queued = Time::NEVER;
            if d.wanted == at {
                d.wanted = Time::NEVER;
                return Some((at, element));
            }
            if d.wanted != Time::NEVER {
                let wanted = d.wanted;
                d.queued = wanted;
                self.push(wanted, element);
            }
        }
    }

    #[inline]
    fn push(&mut self, at: Time, element: ElementId) {
        let key = (u128::from(at.0) << 64)
            | (u128::from(self.sequence) << ELEMENT_BITS)
            | u128::from(element);
        self.sequence += 1;
        if at < self.near_end {
            self.near.push(key);
        } else if at < self.wheel.end {
            self.wheel.push(key);
        } else {
            self.far.push(key);
        }
    }

    /// Moves the next slice that has entries into the near heap; false if there is none up to
    /// `until`.
    #[cold]
    fn advance(&mut self, until: Time) -> bool {
        let first_far = self.far.first().map_or(Time::NEVER, time_of);
        let next = match self.wheel.next_slice(self.near_end) {
            Some(start) => start.min(first_far),
            None => first_far,
        };
        if next == Time::NEVER || next > until {
            return false;
        }
        self.near_end = self.wheel.slice_end(next);
        self.wheel.turn(next);
        while let Some(key) = self.far.first()
            && time_of(key) < self.wheel.end
        {
            self.far.take_first();
            self.wheel.push(key);
        }
        let near = &mut self.near;
        self.wheel.empty_slice(next, |key| near.push(key));
        true
    }
}

/// Unsorted entries by slice of time. A bucket holds one slice: the wheel spans `BUCKETS` slices
/// from the current one.
struct Wheel {
    /// A slice lasts 2^`shift` ns.
    shift: u32,
    buckets: Vec<Vec<u128>>,
    /// Which buckets hold something.
    occupied: [u64; BUCKETS / 64],
    /// Entries from here on do not fit.
    end: Time,
}

impl Wheel {
    fn new(shift: u32) -> Wheel {
        Wheel {
            shift,
            buckets: vec![Vec::new(); BUCKETS],
            occupied: [0; BUCKETS / 64],
            end: Time((BUCKETS as u64) << shift),
        }
    }
    #[inline]
    fn bucket(&self, at: Time) -> usize {
        (at.0 >> self.shift) as usize % BUCKETS
    }
    fn slice_end(&self, at: Time) -> Time {
        Time(((at.0 >> self.shift) + 1) << self.shift)
    }
    #[inline]
    fn push(&mut self, key: u128) {
        let b = self.bucket(time_of(key));
        self.buckets[b].push(key);
        self.occupied[b / 64] |= 1 << (b % 64);
    }
    /// Lets the wheel begin with the slice of `at`.
    fn turn(&mut self, at: Time) {
        self.end = Time(((at.0 >> self.shift) + BUCKETS as u64) << self.shift);
    }
    /// Start of the first slice from `from` on that holds something.
    fn next_slice(&self, from: Time) -> Option<Time> {
        let first = self.bucket(from);
        // The first word is looked at twice: from the bucket on, and at last up to it.
        for i in 0..=self.occupied.len() {
            let w = (first / 64 + i) % self.occupied.len();
            let mut bits = self.occupied[w];
            if i == 0 {
                bits &= u64::MAX << (first % 64);
            }
            if bits != 0 {
                let b = w * 64 + bits.trailing_zeros() as usize;
                let ahead = (b + BUCKETS - first) % BUCKETS;
                return Some(Time(((from.0 >> self.shift) + ahead as u64) << self.shift));
            }
        }
        None
    }
    fn empty_slice(&mut self, at: Time, mut take: impl FnMut(u128)) {
        let b = self.bucket(at);
        self.occupied[b / 64] &= !(1 << (b % 64));
        for key in self.buckets[b].drain(..) {
            take(key);
        }
    }
}

/// A 4-ary heap. The four children of a node share a cache line.
struct Heap {
    /// Group g holds the children of node g - 1; group 0 has the root in its last place.
    groups: Vec<Group>,
    len: usize,
    /// The root was taken and its place is free: the next entry goes there. Entries are never
    /// earlier than the one taken last, so nothing else can be the minimum before.
    hole: bool,
}

impl Default for Heap {
    fn default() -> Self {
        Heap { groups: vec![Group::EMPTY], len: 0, hole: false }
    }
}

/// One cache line of keys; unused places hold the largest key.
#[derive(Copy, Clone)]
#[repr(align(64))]
struct Group([u128; ARITY]);

impl Group {
    const EMPTY: Group = Group([u128::MAX; ARITY]);

    /// Position and value of the least key. Without branches: which child is least is anybody's
    /// guess, also the branch predictor's.
    #[inline]
    fn least(&self) -> (usize, u128) {
        let k = &self.0;
        let left = usize::from(k[1] < k[0]);
        let right = 2 + usize::from(k[3] < k[2]);
        let i = [left, right][usize::from(k[right] < k[left])];
        (i, k[i])
    }
}

impl Heap {
    /// The least key.
    #[inline]
    fn first(&mut self) -> Option<u128> {
        if self.hole {
            self.fill_hole();
        }
        (self.len > 0).then(|| self.key(0))
    }

    /// The least key apart from the root.
    #[inline]
    fn second(&self) -> Option<u128> {
        let (_, key) = self.groups.get(1)?.least();
        (key != u128::MAX).then_some(key)
    }

    /// Takes the least key away.
    #[inline]
    fn take_first(&mut self) {
        self.hole = true;
    }

    #[inline]
    fn push(&mut self, key: u128) {
        if self.hole {
            self.hole = false;
            self.sift_down(key);
        } else {
            self.sift_up(key);
        }
    }

    fn fill_hole(&mut self) {
        self.hole = false;
        self.len -= 1;
        let last = self.key(self.len);
        *self.place(self.len) = u128::MAX;
        if self.len > 0 {
            self.sift_down(last);
        }
    }

    #[inline]
    fn key(&self, node: usize) -> u128 {
        let i = node + ARITY - 1;
        self.groups[i / ARITY].0[i % ARITY]
    }
    #[inline]
    fn place(&mut self, node: usize) -> &mut u128 {
        let i = node + ARITY - 1;
        &mut self.groups[i / ARITY].0[i % ARITY]
    }

    /// Puts `key` in the place of the root and restores the heap.
    #[inline]
    fn sift_down(&mut self, key: u128) {
        let mut node = 0;
        while let Some(group) = self.groups.get(node + 1) {
            let (child, least) = group.least();
            if least >= key {
                break;
            }
            *self.place(node) = least;
            node = ARITY * node + 1 + child;
        }
        *self.place(node) = key;
    }

    #[inline]
    fn sift_up(&mut self, key: u128) {
        let mut node = self.len;
        self.len += 1;
        if node.div_ceil(ARITY) == self.groups.len() {
            self.groups.push(Group::EMPTY);
        }
        while node > 0 {
            let parent = (node - 1) / ARITY;
            let above = self.key(parent);
            if above <= key {
                break;
            }
            *self.place(node) = above;
            node = parent;
        }
        *self.place(node) = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_are_first_come_first_served_and_later_deadlines_move() {
        let mut q = EventQueue::new(Span(100));
        let e: Vec<_> = (0..4).map(|_| q.add_element()).collect();
        q.set(e[0], Time(10));
        q.set(e[1], Time(5));
        q.set(e[2], Time(5));
        q.set(e[3], Time(1));
        q.set(e[3], Time(7)); // later: stays in the heap until it surfaces
        let mut seen = Vec::new();
        while let Some((t, id)) = q.pop(Time(100)) {
            seen.push((t.0, id));
        }
        assert_eq!(seen, [(5, 1), (5, 2), (7, 3), (10, 0)]);
    }

    /// Spacings from far below to far above the true one: entries pass through heap, wheel and the
    /// heap beyond it.
    #[test]
    fn agrees_with_a_sorted_list() {
        for spacing in [1, 100, 10_000_000] {
            agrees_with_a_sorted_list_at(Span(spacing));
        }
    }

    fn agrees_with_a_sorted_list_at(spacing: Span) {
        use crate::rng::Rng;
        let mut rng = Rng::stream(1, "events", 0);
        let mut q = EventQueue::new(spacing);
        let n = 50;
        for _ in 0..n {
            q.add_element();
        }
        let mut wanted = vec![u64::MAX; n];
        let mut now = 0;
        for i in 0..20_000 {
            let e = rng.below(n as u64) as usize;
            let at = if rng.below(10) == 0 {
                u64::MAX
            } else {
                now + [10_000, 100_000_000][usize::from(i % 20 == 0)] * rng.below(1000) / 1000
            };
            wanted[e] = at;
            q.set(e as u32, Time(at));
            if rng.below(3) == 0 {
                let least = *wanted.iter().min().unwrap();
                match q.pop(Time(u64::MAX - 1)) {
                    None => assert_eq!(least, u64::MAX),
                    Some((t, id)) => {
                        assert_eq!(t.0, least);
                        assert_eq!(wanted[id as usize], least);
                        wanted[id as usize] = u64::MAX;
                        now = least;
                    }
                }
            }
        }
    }
}
