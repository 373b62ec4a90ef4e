//! Packets in order of arrival: what most queues are made of.

use std::collections::VecDeque;

use super::Pkt;

/// Packets in order of arrival, and the sum of their lengths. The ring keeps its memory, so a warm
/// queue does not allocate.
///
/// A packet's length is read before or after it moves. If the compiler finds a field that is read from a packet on its
/// way, it copies the rest in moves that overlap, and the processor waits for each.
#[derive(Debug)]
pub struct Queue<P> {
    packets: VecDeque<P>,
    bytes: u64,
}

impl<P: Pkt> Queue<P> {
    pub fn new() -> Self {
        Queue { packets: VecDeque::new(), bytes: 0 }
    }
    #[inline(always)]
    pub fn push(&mut self, pkt: P) {
        self.packets.push_back(pkt);
        self.bytes += self.packets.back().map_or(0, |pkt| u64::from(pkt.frame_len()));
    }
    #[inline(always)]
    pub fn pop(&mut self) -> Option<P> {
        let bytes = u64::from(self.packets.front()?.frame_len());
        self.pop_of(bytes)
    }
    /// The same where the caller has read how long the packet is.
    #[inline(always)]
    pub fn push_of(&mut self, bytes: u64, pkt: P) {
        self.bytes += bytes;
        self.packets.push_back(pkt);
    }
    #[inline(always)]
    pub fn pop_of(&mut self, bytes: u64) -> Option<P> {
        self.bytes -= bytes;
        self.packets.pop_front()
    }
    /// The first one, if there are more than so many.
    pub fn pop_beyond(&mut self, limit: usize) -> Option<P> {
        if self.len() > limit { self.pop() } else { None }
    }
    /// The packet at this place, from 0.
    #[inline]
    pub fn get(&self, place: usize) -> Option<&P> {
        self.packets.get(place)
    }
    pub fn iter(&self) -> impl Iterator<Item = &P> {
        self.packets.iter()
    }
    /// Takes it out.
    pub fn remove(&mut self, place: usize) -> Option<P> {
        let pkt = self.packets.remove(place)?;
        self.bytes -= u64::from(pkt.frame_len());
        Some(pkt)
    }
    #[inline(always)]
    pub fn front(&self) -> Option<&P> {
        self.packets.front()
    }
    #[inline(always)]
    pub fn front_mut(&mut self) -> Option<&mut P> {
        self.packets.front_mut()
    }
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.packets.len()
    }
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
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
