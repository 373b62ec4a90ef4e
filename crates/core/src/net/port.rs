//! The two sides of a medium as elements of the network, and the loop that runs a medium over a window.

use std::collections::VecDeque;

use super::Node;
use super::inbox::Inbox;
use super::link::Link;
use super::medium::{Medium, Stages, WAYS, Way};
use crate::aqm::Backlog;
use crate::element::Outbox;
use crate::packet::Packet;
use crate::time::{Span, Time};

/// One side: its queue, and what is on its way behind it. The medium runs both sides together, so that this
/// element does nothing by itself.
pub struct Port {
    pub link: Link,
    /// On the way, in the order of their arrival, with its time.
    air: VecDeque<Packet>,
    /// When the medium or the head of `air` has something to do.
    due: Time,
}

impl Port {
    pub fn new(link: Link) -> Port {
        Port { link, air: VecDeque::new(), due: Time::NEVER }
    }
    fn arrival(&self) -> Time {
        self.air.front().map_or(Time::NEVER, |pkt| pkt.enqueued_at)
    }
    /// Packets on their way.
    pub fn purge(&mut self) -> impl Iterator<Item = Packet> + '_ {
        self.air.drain(..)
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

/// A side with what comes to it and what leaves it.
pub struct Side<'a> {
    pub port: &'a mut Port,
    pub inbox: &'a mut Inbox,
    pub departed: &'a mut Vec<Packet>,
}

/// What a medium may do with its queues.
pub struct Sides<'a> {
    sides: [Side<'a>; 2],
    out: &'a mut Outbox,
}

impl<'a> Sides<'a> {
    pub fn new(sides: [Side<'a>; 2], out: &'a mut Outbox) -> Sides<'a> {
        Sides { sides, out }
    }
    fn of(&mut self, way: Way) -> &mut Side<'a> {
        &mut self.sides[way as usize]
    }
    /// What waits in a part of a queue and is not held back there.
    pub fn waiting(&mut self, way: Way, part: usize) -> Backlog {
        self.of(way).port.link.waiting(part)
    }
    /// The next packet of a part of a queue.
    pub fn pull(&mut self, now: Time, way: Way, part: usize) -> Option<Packet> {
        let side = &mut self.sides[way as usize];
        side.port.link.pull(now, part, self.out)
    }
    /// The packet arrives at this time, and not before those that were said to arrive before.
    pub fn deliver(&mut self, way: Way, mut pkt: Packet, stages: Stages, at: Time) {
        let port = &mut self.of(way).port;
        pkt.enqueued_at = port.air.back().map_or(at, |last| at.max(last.enqueued_at));
        port.link.record_stages(&pkt, stages);
        port.air.push_back(pkt);
    }
    /// The medium gives a packet up.
    pub fn lose(&mut self, now: Time, way: Way, pkt: &Packet) {
        let side = &mut self.sides[way as usize];
        side.port.link.lose_in_medium(now, pkt);
        self.out.sacks.take(pkt.sack);
    }

    /// Runs the medium up to `until`, exclusively. Of what happens at one instant first packets arrive at the other
    /// end, then timers of queues are due, then the medium acts, then packets come to the queues.
    pub fn run(&mut self, medium: &mut dyn Medium, until: Time) {
        loop {
            let mut now = medium.next();
            for side in &self.sides {
                now = now.min(side.port.arrival()).min(side.port.link.timer());
                now = now.min(side.inbox.next_time());
            }
            if now >= until {
                break;
            }
            self.step(medium, now);
        }
        for side in &mut self.sides {
            side.port.due = medium.next().min(side.port.arrival());
        }
    }

    fn step(&mut self, medium: &mut dyn Medium, now: Time) {
        for side in &mut self.sides {
            while side.port.arrival() <= now {
                let pkt = side.port.air.pop_front().expect("it arrives now");
                side.port.link.deliver(&pkt);
                side.departed.push(pkt);
            }
        }
        for way in WAYS {
            if self.of(way).port.link.timer() <= now {
                let side = &mut self.sides[way as usize];
                side.port.link.on_timer(now, self.out);
                for part in 0..side.port.link.parts() {
                    if self.waiting(way, part).packets > 0 {
                        medium.ready(now, way, part, self);
                    }
                }
            }
        }
        if medium.next() <= now {
            medium.act(now, self);
            return;
        }
        for way in WAYS {
            while let Some(pkt) = self.of(way).inbox.take(now + Span(1)) {
                let side = &mut self.sides[way as usize];
                let part = side.port.link.accept(now, pkt, self.out);
                medium.ready(now, way, part, self);
            }
        }
    }
}
