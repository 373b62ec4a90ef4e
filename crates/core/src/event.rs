//! The event queue: elements that want to wake up, ordered by (time, sequence number).
//!
//! An element has at most one pending event, so the queue's size is the number of elements, never
//! of packets. A deadline that moves later (the retransmission timer does so with every ACK) costs
//! a store: the old entry stays in the heap and is re-inserted when it surfaces.

use crate::time::Time;

/// Number of an element in the event queue.
pub type ElementId = u32;

const ELEMENT_BITS: u32 = 24;
const ARITY: usize = 4;

#[derive(Copy, Clone)]
struct Deadline {
    /// When the element wants to wake.
    wanted: Time,
    /// The earliest entry in the heap that stands for it.
    queued: Time,
}

/// A 4-ary heap of packed keys: time, then sequence number (ties: first come, first served), then
/// the element.
#[derive(Default)]
pub struct EventQueue {
    heap: Vec<u128>,
    /// The root has been handed out and its place is free: the next entry goes there. Entries are
    /// never earlier than the event being handled, so the root stays the minimum.
    hole: bool,
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
    pub fn new() -> EventQueue {
        EventQueue::default()
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

    /// The next event not later than `until`.
    #[inline]
    pub fn pop(&mut self, until: Time) -> Option<(Time, ElementId)> {
        loop {
            if self.hole {
                self.fill_hole();
            }
            let key = *self.heap.first()?;
            let at = time_of(key);
            if at > until {
                return None;
            }
            let element = element_of(key);
            self.hole = true;
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
        if self.hole {
            self.hole = false;
            self.sift_down(key);
        } else {
            self.heap.push(key);
            self.sift_up(self.heap.len() - 1);
        }
    }

    fn fill_hole(&mut self) {
        self.hole = false;
        if let Some(last) = self.heap.pop()
            && !self.heap.is_empty()
        {
            self.sift_down(last);
        }
    }

    /// Puts `key` in the place of the root and restores the heap.
    #[inline]
    fn sift_down(&mut self, key: u128) {
        let heap = &mut self.heap[..];
        let mut i = 0;
        loop {
            let first = ARITY * i + 1;
            if first >= heap.len() {
                break;
            }
            let last = (first + ARITY).min(heap.len());
            let mut child = first;
            let mut least = heap[first];
            for (c, &k) in heap.iter().enumerate().take(last).skip(first + 1) {
                if k < least {
                    child = c;
                    least = k;
                }
            }
            if least >= key {
                break;
            }
            heap[i] = least;
            i = child;
        }
        heap[i] = key;
    }

    #[inline]
    fn sift_up(&mut self, mut i: usize) {
        let key = self.heap[i];
        while i > 0 {
            let parent = (i - 1) / ARITY;
            if self.heap[parent] <= key {
                break;
            }
            self.heap[i] = self.heap[parent];
            i = parent;
        }
        self.heap[i] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_are_first_come_first_served_and_later_deadlines_move() {
        let mut q = EventQueue::new();
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

    #[test]
    fn agrees_with_a_sorted_list() {
        use crate::rng::Rng;
        let mut rng = Rng::stream(1, "events", 0);
        let mut q = EventQueue::new();
        let n = 50;
        for _ in 0..n {
            q.add_element();
        }
        let mut wanted = vec![u64::MAX; n];
        let mut now = 0;
        for _ in 0..20_000 {
            let e = rng.below(n as u64) as usize;
            let at = if rng.below(10) == 0 { u64::MAX } else { now + rng.below(1000) };
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
