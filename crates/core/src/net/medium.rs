//! The interface of a medium, which stands behind the queues of a link that is no wire, and the loop that runs it over a window.
//!
//! A medium serves the queues of both directions of a link. It is told the time and pulls packets when it
//! builds what it sends (an aggregate, a grant, a slot). There ends a packet's sojourn in the queue; what it
//! waits afterwards is the medium's delay. Packets of one direction leave in the order in which the medium
//! says that they arrive.

use std::any::Any;

use super::air::{Air, Burst, Division, WAYS, Way};
use super::inbox::Inbox;
use super::parts::Stages;
use super::port::Port;
use crate::aqm::lens::Earliest;
use crate::aqm::{Backlog, DropReason};
use crate::element::Outbox;
use crate::packet::Packet;
use crate::probe::Gauges;
use crate::time::{Span, Time};

/// A resource that several queues share in both directions: airtime, grants or slots.
pub trait Medium: Send {
    /// When `act` wants to be called; after the call it is later.
    fn next(&self) -> Time;
    fn act(&mut self, now: Time, sides: &mut Sides);
    /// There may be something to send in this part of a queue, which was empty or held it back.
    fn ready(&mut self, now: Time, way: Way, part: usize, sides: &mut Sides);
    /// When a packet that comes to a part of a queue can be sent at the earliest, where the medium has to be asked: what
    /// it waits until then is access, and the queue does not count it. The medium may put that off.
    fn earliest(
        &mut self,
        _: Time,
        _: Way,
        _: usize,
        _: &Packet,
        _: &mut Sides,
    ) -> Option<Earliest> {
        None
    }
    /// Whether it marks a packet that comes to a part of a queue.
    fn marks(&mut self, _now: Time, _way: Way, _pkt: &Packet, _part: usize) -> bool {
        false
    }
    /// Other parameters from now on, and those of each station. What it has pulled stays.
    fn change(&mut self, now: Time, to: &dyn Any, stations: &[&dyn Any]);
    /// Its counters of the `span` since the last call.
    fn probe(&mut self, way: Way, span: Span, out: &mut dyn Gauges);
    /// How it divides time, for those who watch it.
    fn division(&self) -> Division {
        Division::default()
    }
    /// All packets that it has pulled and neither delivered nor lost.
    fn purge(&mut self) -> Vec<Packet>;
}

/// A side with what comes to it and what leaves it.
pub struct Side<'a> {
    pub port: &'a mut Port,
    pub inbox: &'a mut Inbox,
    pub departed: &'a mut Vec<Packet>,
}

/// The operations of a medium on its queues.
pub struct Sides<'a> {
    sides: [Side<'a>; 2],
    out: &'a mut Outbox,
    /// Somebody watches the medium.
    air: Option<&'a mut Air>,
}

impl<'a> Sides<'a> {
    pub fn new(sides: [Side<'a>; 2], out: &'a mut Outbox, air: Option<&'a mut Air>) -> Sides<'a> {
        Sides { sides, out, air }
    }
    pub fn is_watched(&self) -> bool {
        self.air.is_some()
    }
    /// Tells who watches what occupies the medium.
    pub fn show(&mut self, burst: impl FnOnce() -> Burst) {
        if let Some(air) = &mut self.air {
            air.add(burst());
        }
    }
    fn of(&mut self, way: Way) -> &mut Side<'a> {
        &mut self.sides[way as usize]
    }
    /// The backlog of a part of a queue that is not held back.
    pub fn waiting(&mut self, way: Way, part: usize) -> Backlog {
        self.of(way).port.link.waiting(part)
    }
    /// The next packet of a part of a queue.
    pub fn pull(&mut self, now: Time, way: Way, part: usize) -> Option<Packet> {
        self.pull_asked(now, way, part).map(|(pkt, _)| pkt)
    }
    /// The same where the medium has to be asked, and when the packet's wait in the queue ended.
    pub fn pull_asked(&mut self, now: Time, way: Way, part: usize) -> Option<(Packet, Time)> {
        self.sides[way as usize].port.link.pull(now, part, self.out)
    }
    /// The packet arrives at this time, and not before those that were said to arrive before.
    pub fn deliver(&mut self, way: Way, mut pkt: Packet, stages: Stages, at: Time) {
        let port = &mut self.of(way).port;
        pkt.enqueued_at = at.max(port.last_arrival());
        pkt.add_wait(pkt.enqueued_at.since(stages.pulled));
        port.air.push_back((pkt, stages));
    }
    /// The medium gives a packet up.
    pub fn lose(&mut self, now: Time, way: Way, pkt: &Packet) {
        let side = &mut self.sides[way as usize];
        side.port.link.lose_in_medium(now, pkt);
        self.out.lose(now, pkt, DropReason::Medium);
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
            side.port.wait_for(medium.next());
        }
    }

    fn step(&mut self, medium: &mut dyn Medium, now: Time) {
        for side in &mut self.sides {
            while side.port.arrival() <= now {
                let (pkt, stages) = side.port.air.pop_front().expect("it arrives now");
                side.port.link.deliver(&pkt, stages);
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
            while let Some(mut pkt) = self.of(way).inbox.take(now + Span(1)) {
                let side = &mut self.sides[way as usize];
                let part = side.port.link.part_of(&pkt);
                if medium.marks(now, way, &pkt, part) {
                    side.port.link.mark(&mut pkt);
                }
                let earliest = medium.earliest(now, way, part, &pkt, self);
                let side = &mut self.sides[way as usize];
                let part = side.port.link.accept(now, pkt, earliest, self.out);
                medium.ready(now, way, part, self);
            }
        }
    }
}
