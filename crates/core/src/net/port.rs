//! The two sides of a medium as elements of the network.

use std::collections::VecDeque;

use super::Node;
use super::inbox::Inbox;
use super::link::Link;
use super::parts::Stages;
use crate::element::Outbox;
use crate::packet::Packet;
use crate::time::Time;

/// One side: its queue, and what is on its way behind it. The medium runs both sides together, so that this
/// element does nothing by itself.
pub struct Port {
    pub link: Link,
    /// On the way, in the order of their arrival, with its time; and where they have been.
    pub(super) air: VecDeque<(Packet, Stages)>,
    /// When the medium or the head of `air` has something to do.
    pub(super) due: Time,
}

impl Port {
    pub fn new(link: Link) -> Port {
        Port { link, air: VecDeque::new(), due: Time::NEVER }
    }
    pub(super) fn arrival(&self) -> Time {
        self.air.front().map_or(Time::NEVER, |(pkt, _)| pkt.enqueued_at)
    }
    /// The medium has nothing to do before this time.
    pub fn wait_for(&mut self, medium: Time) {
        self.due = medium.min(self.arrival());
    }
    /// When the last of them arrives.
    pub(super) fn last_arrival(&self) -> Time {
        self.air.back().map_or(Time::ZERO, |(pkt, _)| pkt.enqueued_at)
    }
    /// Packets on their way.
    pub fn purge(&mut self) -> impl Iterator<Item = Packet> + '_ {
        self.air.drain(..).map(|(pkt, _)| pkt)
    }
}

impl Node for Port {
    fn next(&self) -> Time {
        self.due.min(self.link.timer())
    }
    fn run(&mut self, _: &mut Inbox, _: Time, _: Time, _: &mut Outbox) {}
    fn as_link(&self) -> Option<&Link> {
        Some(&self.link)
    }
    fn as_link_mut(&mut self) -> Option<&mut Link> {
        Some(&mut self.link)
    }
    fn as_port_mut(&mut self) -> Option<&mut Port> {
        Some(self)
    }
}
