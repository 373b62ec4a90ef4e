//! Packets in order of arrival: what most queues are made of.

use std::slice;

use super::Pkt;

/// Places of a ring that holds its first packet.
const FEWEST: usize = 4;

/// Packets in order of arrival, and the sum of their lengths. The ring keeps its memory, so a warm
/// queue does not allocate. A place that is free holds a copy of some packet.
///
/// A packet's length is read before or after it moves. If the compiler finds a field that is read from a packet on its
/// way, it copies the rest in moves that overlap, and the processor waits for each.
#[derive(Debug)]
pub struct Queue<P> {
    bytes: u64,
    /// A power of two of places, or none: so a place needs no comparison.
    ring: Vec<P>,
    /// The place of the first packet, but for whole turns of the ring.
    head: usize,
    len: usize,
}

impl<P: Pkt> Queue<P> {
    pub fn new() -> Self {
        Queue { bytes: 0, ring: Vec::new(), head: 0, len: 0 }
    }
    /// Where the `n`th packet is, from 0.
    #[inline(always)]
    fn place(&self, n: usize) -> usize {
        self.head.wrapping_add(n) & self.ring.len().wrapping_sub(1)
    }
    #[inline(always)]
    pub fn push(&mut self, pkt: P) {
        self.push_copy(&pkt);
    }
    /// Pushes one like this. There is room before it is copied, so that the copy does not take a detour over the stack.
    #[inline(always)]
    pub fn push_copy(&mut self, pkt: &P) {
        if self.len == self.ring.len() {
            self.grow(pkt);
        }
        let place = self.place(self.len);
        if let Some(free) = self.ring.get_mut(place) {
            free.clone_from(pkt);
        }
        self.len += 1;
        self.bytes += u64::from(pkt.frame_len());
    }
    #[cold]
    #[inline(never)]
    fn grow(&mut self, pkt: &P) {
        let first = self.place(0);
        self.ring.rotate_left(first);
        self.head = 0;
        self.ring.resize((2 * self.len).max(FEWEST), pkt.clone());
    }
    #[inline(always)]
    pub fn pop(&mut self) -> Option<P> {
        let pkt = self.front()?.clone();
        self.drop_front(pkt.frame_len().into());
        Some(pkt)
    }
    /// The first one, of so many bytes, goes to the end of `to`, likewise without a detour. There must be one.
    #[inline(always)]
    pub fn pop_into(&mut self, bytes: u64, to: &mut Vec<P>) {
        if let Some(pkt) = self.ring.get(self.place(0)) {
            to.extend_from_slice(slice::from_ref(pkt));
        }
        self.drop_front(bytes);
    }
    #[inline(always)]
    fn drop_front(&mut self, bytes: u64) {
        self.bytes -= bytes;
        self.head = self.head.wrapping_add(1);
        self.len -= 1;
    }
    /// The first one, if there are more than so many.
    pub fn pop_beyond(&mut self, limit: usize) -> Option<P> {
        if self.len() > limit { self.pop() } else { None }
    }
    /// The packet at this place, from 0.
    #[inline]
    pub fn get(&self, place: usize) -> Option<&P> {
        if place < self.len { self.ring.get(self.place(place)) } else { None }
    }
    pub fn iter(&self) -> impl Iterator<Item = &P> {
        (0..self.len).map(|n| &self.ring[self.place(n)])
    }
    /// Takes it out.
    pub fn remove(&mut self, place: usize) -> Option<P> {
        self.get(place)?;
        for n in (0..place).rev() {
            let (this, next) = (self.place(n), self.place(n + 1));
            self.ring.swap(this, next);
        }
        self.pop()
    }
    #[inline(always)]
    pub fn front(&self) -> Option<&P> {
        if self.len == 0 { None } else { self.ring.get(self.place(0)) }
    }
    #[inline(always)]
    pub fn front_mut(&mut self) -> Option<&mut P> {
        let place = self.place(0);
        if self.len == 0 { None } else { self.ring.get_mut(place) }
    }
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    #[inline(always)]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<P: Pkt> Default for Queue<P> {
    fn default() -> Self {
        Queue::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ecn::Ecn;
    use crate::packet::{Flags, GroupId, Packet};
    use crate::rng::Rng;

    /// Against a plain list, while the ring turns and grows.
    #[test]
    fn a_queue_is_a_list() {
        let mut rng = Rng::stream(1, "queue", 0);
        let (mut queue, mut list) = (Queue::new(), Vec::new());
        for n in 0..5_000 {
            let growing = n % 1_000 < 500;
            match rng.below(if growing { 4 } else { 7 }) {
                0..=2 => {
                    let len = 60 + n % 1_400;
                    let pkt = Packet::new(n, GroupId::default(), Flags::UDP, len, Ecn::NotEct);
                    queue.push(pkt);
                    list.push(pkt);
                }
                3 if !list.is_empty() => {
                    let at = rng.below(list.len() as u64) as usize;
                    assert_eq!(queue.remove(at).unwrap().flow, list.remove(at).flow);
                }
                4 => assert_eq!(queue.pop().map(|p| p.flow), take_first(&mut list)),
                _ => {
                    let mut to = Vec::new();
                    if let Some(pkt) = queue.front() {
                        queue.pop_into(pkt.frame_len.into(), &mut to);
                    }
                    assert_eq!(to.first().map(|p| p.flow), take_first(&mut list));
                }
            }
            assert!(queue.iter().map(|p| p.flow).eq(list.iter().map(|p| p.flow)));
            assert_eq!(queue.bytes(), list.iter().map(|p| u64::from(p.frame_len)).sum::<u64>());
            assert_eq!(queue.front().map(|p| p.flow), list.first().map(|p| p.flow));
            assert_eq!(queue.get(3).map(|p| p.flow), list.get(3).map(|p| p.flow));
        }
    }

    fn take_first(list: &mut Vec<Packet>) -> Option<u32> {
        if list.is_empty() { None } else { Some(list.remove(0).flow) }
    }
}
