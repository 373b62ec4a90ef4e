//! Propagation: a fixed delay, first in, first out. One timer for all packets under way.

use crate::packet::{Outbox, Packet};
use crate::time::{Span, Time};

/// A pipe. Flows of the same delay share one.
#[derive(Debug)]
pub struct Pipe {
    delay: Span,
    /// A packet's `enqueued_at` says when it comes out.
    under_way: Outbox,
}

impl Pipe {
    pub fn new(delay: Span) -> Pipe {
        Pipe { delay, under_way: Outbox::new() }
    }
    pub fn delay(&self) -> Span {
        self.delay
    }
    /// Lets `send` put packets in; true if the pipe was empty, so that its timer must be set.
    #[inline]
    pub fn fill(&mut self, now: Time, send: impl FnOnce(&mut Outbox)) -> bool {
        let before = self.under_way.len();
        send(&mut self.under_way);
        for p in self.under_way.range_mut(before..) {
            p.enqueued_at = now + self.delay;
        }
        before == 0 && !self.under_way.is_empty()
    }
    /// Everything in it, first what comes out first.
    pub fn under_way(&self) -> &Outbox {
        &self.under_way
    }
    /// The packet that comes out after `n` others.
    #[inline]
    pub fn peek(&self, n: usize) -> Option<&Packet> {
        self.under_way.get(n)
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
