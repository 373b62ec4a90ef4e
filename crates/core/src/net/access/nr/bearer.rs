//! The packets of a user and a direction: cut into transport blocks, and delivered in order.

use std::collections::VecDeque;

use crate::net::air::Way;
use crate::net::medium::Sides;
use crate::net::parts::Stages;
use crate::packet::Packet;
use crate::time::{Span, Time};
use crate::units::ETHERNET_HEADER;

/// RLC, PDCP and MAC headers of a packet.
const HEADERS: u64 = 5;
/// How long the receiver waits in RLC UM for what is missing (srsRAN, `t-Reassembly`).
const REASSEMBLY: Span = Span::from_millis(50);

/// A transport block: packets of one bearer from `first` to `last`, the ends perhaps in part.
pub(super) struct Block {
    pub user: usize,
    pub first: u64,
    pub last: u64,
    pub bytes: u64,
    /// The part of a slot that it takes.
    pub share: f64,
    pub tries: u32,
    pub begun: Time,
}

struct Inside {
    pkt: Packet,
    pulled: Time,
    sent: Time,
    arrived: Time,
    /// Blocks with parts of it that have not arrived; one more until it is taken whole.
    open: u32,
    /// A part of it is lost: when the receiver stops waiting.
    given_up: Option<Time>,
}

/// A user's packets between queue and delivery: segments, HARQ repeats and reordering.
pub(super) struct Bearer {
    way: Way,
    user: usize,
    /// Taken from the queue and not delivered, in order. The first one has the number `first`.
    inside: VecDeque<Inside>,
    first: u64,
    /// Bytes of the last one that no block has yet.
    left: u64,
}

impl Bearer {
    pub(super) fn new(way: Way, user: usize) -> Bearer {
        Bearer { way, user, inside: VecDeque::new(), first: 0, left: 0 }
    }
    /// Bytes that no block has, with headers.
    pub(super) fn backlog(&self, sides: &mut Sides) -> u64 {
        let waiting = sides.waiting(self.way, self.user);
        let around = (u64::from(ETHERNET_HEADER) - HEADERS) * waiting.packets;
        self.left + waiting.bytes.saturating_sub(around)
    }
    /// A block of at most so many bytes; none if there is nothing to send.
    pub(super) fn fill(
        &mut self,
        now: Time,
        most: u64,
        share: f64,
        sides: &mut Sides,
    ) -> Option<Block> {
        let mut room = most;
        let mut first = None;
        while room > HEADERS {
            if self.left == 0 {
                let pulled = sides.pull_asked(now, self.way, self.user);
                let Some((pkt, pulled)) = pulled else { break };
                let ip = u64::from(pkt.frame_len).saturating_sub(ETHERNET_HEADER.into());
                self.left = ip + HEADERS;
                let (sent, arrived, given_up) = (now, now, None);
                self.inside.push_back(Inside { pkt, pulled, sent, arrived, open: 1, given_up });
            }
            let taken = self.left.min(room);
            self.left -= taken;
            room -= taken;
            let last = self.inside.back_mut().expect("it was taken");
            last.open += 1;
            if self.left == 0 {
                last.open -= 1;
            }
            first = first.or(Some(self.first + self.inside.len() as u64 - 1));
        }
        let last = self.first + self.inside.len() as u64;
        let bytes = most - room;
        let block = |first| Block {
            user: self.user,
            first,
            last: last - 1,
            bytes,
            share,
            tries: 0,
            begun: now,
        };
        first.map(block)
    }
    /// A packet that is not delivered yet.
    pub(super) fn packet(&self, number: u64) -> Option<&Packet> {
        self.inside.get(number.checked_sub(self.first)? as usize).map(|inside| &inside.pkt)
    }
    /// A block has arrived, or is given up.
    pub(super) fn settle(&mut self, block: &Block, arrived: Option<Time>) {
        for number in block.first..=block.last {
            let inside = &mut self.inside[(number - self.first) as usize];
            inside.open -= 1;
            match arrived {
                Some(at) => inside.arrived = inside.arrived.max(at),
                None => inside.given_up = inside.given_up.max(Some(block.begun + REASSEMBLY)),
            }
        }
    }
    /// Delivers what is complete; all of it arrives `after` now. Tells when there is more to give up.
    pub(super) fn release(&mut self, now: Time, after: Span, sides: &mut Sides) -> Option<Time> {
        while let Some(front) = self.inside.front().filter(|front| front.open == 0) {
            if let Some(at) = front.given_up.filter(|at| *at > now) {
                return Some(at);
            }
            let Inside { pkt, pulled, sent, arrived, given_up, .. } =
                self.inside.pop_front().expect("it is there");
            self.first += 1;
            if given_up.is_some() {
                sides.lose(now, self.way, &pkt);
                continue;
            }
            let stages = Stages { pulled, sent, arrived };
            sides.deliver(self.way, pkt, stages, now + after);
        }
        None
    }
    /// Loses all of it, and what waits before it.
    pub(super) fn lose(&mut self, now: Time, sides: &mut Sides) {
        while let Some(pkt) = sides.pull(now, self.way, self.user) {
            sides.lose(now, self.way, &pkt);
        }
        self.first += self.inside.len() as u64;
        self.left = 0;
        for inside in self.inside.drain(..) {
            sides.lose(now, self.way, &inside.pkt);
        }
    }
    pub(super) fn purge(&mut self) -> impl Iterator<Item = Packet> + '_ {
        self.inside.drain(..).map(|inside| inside.pkt)
    }
}
