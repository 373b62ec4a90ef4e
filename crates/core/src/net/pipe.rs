//! Propagation: a fixed delay, first in, first out. One timer for all packets under way.

use std::collections::VecDeque;

use crate::packet::Packet;
use crate::time::{Span, Time};

/// A pipe. Flows of the same delay share one.
#[derive(Debug)]
pub struct Pipe {
    delay: Span,
    /// A packet's `enqueued_at` says when it comes out.
    under_way: VecDeque<Packet>,
}

impl Pipe {
    pub fn new(delay: Span) -> Pipe {
        Pipe { delay, under_way: VecDeque::new() }
    }
    pub fn delay(&self) -> Span {
        self.delay
    }
    /// Puts a packet in; true if the pipe was empty, so that its timer must be set.
    #[inline]
    pub fn push(&mut self, now: Time, pkt: Packet) -> bool {
        let was_empty = self.under_way.is_empty();
        self.under_way.push_back(pkt);
        // Written in place: a packet changed just before it is copied stalls the copy.
        if let Some(p) = self.under_way.back_mut() {
            p.enqueued_at = now + self.delay;
        }
        was_empty
    }
    /// The packet that comes out next.
    #[inline]
    pub fn peek(&self) -> Option<&Packet> {
        self.under_way.front()
    }
    /// When the next packet comes out.
    #[inline]
    pub fn next(&self) -> Time {
        self.under_way.front().map_or(Time::NEVER, |p| p.enqueued_at)
    }
    /// Takes out a packet that is due.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<Packet> {
        if self.next() > now {
            return None;
        }
        self.under_way.pop_front()
    }
    pub fn len(&self) -> usize {
        self.under_way.len()
    }
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }
}
