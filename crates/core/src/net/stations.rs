//! A queue of its own for each part of what waits at a medium: for each station, and for each of its access
//! categories.

use std::any::Any;

use super::parts::Parts;
use crate::aqm::hosts::Hosts;
use crate::aqm::lens::Earliest;
use crate::aqm::{self, Aqm, Asked, Backlog, Divided, QueueCx, ReadsHosts, ReadsSacks};
use crate::packet::{Packet, SackSlot};
use crate::probe::Gauges;
use crate::sack::Blocks;
use crate::time::Time;

/// One queue per station behind an access point. All are of one kind, so that their reports are summed.
pub struct Stations {
    parts: Parts,
    queues: Vec<Box<dyn Aqm<Packet>>>,
    /// The part that was served last, whose inner state is shown.
    served: usize,
    /// Of the packet that comes.
    earliest: Option<Earliest>,
}

impl Stations {
    pub fn new(parts: Parts, mut build: impl FnMut() -> Box<dyn Aqm<Packet>>) -> Stations {
        let queues = (0..parts.count()).map(|_| build()).collect();
        Stations { parts, queues, served: 0, earliest: None }
    }
}

impl Aqm<Packet> for Stations {
    fn enqueue(&mut self, pkt: Packet, cx: &mut QueueCx<Packet>) {
        let queue = &mut self.queues[self.parts.of(&pkt)];
        if let (Some(earliest), Some(asked)) = (self.earliest.take(), queue.asked()) {
            asked.expect(earliest);
        }
        queue.enqueue(pkt, cx);
    }
    /// Of any part, as when the queue is emptied.
    fn dequeue(&mut self, cx: &mut QueueCx<Packet>) -> Option<Packet> {
        self.queues.iter_mut().find_map(|queue| queue.dequeue(cx))
    }
    fn backlog(&self) -> Backlog {
        self.queues.iter().map(|queue| queue.backlog()).fold(Backlog::default(), |sum, one| {
            Backlog { packets: sum.packets + one.packets, bytes: sum.bytes + one.bytes }
        })
    }
    fn next_timer(&self) -> Time {
        self.queues.iter().map(|queue| queue.next_timer()).min().unwrap_or(Time::NEVER)
    }
    fn on_timer(&mut self, cx: &mut QueueCx<Packet>) {
        let now = cx.now;
        for queue in self.queues.iter_mut().filter(|queue| queue.next_timer() <= now) {
            queue.on_timer(cx);
        }
    }
    fn bands(&self) -> &'static [&'static str] {
        self.queues[0].bands()
    }
    fn waiting_in(&self, band: usize) -> u64 {
        self.queues.iter().map(|queue| queue.waiting_in(band)).sum()
    }
    fn probe(&self, out: &mut dyn Gauges) {
        self.queues[self.served].probe(out);
    }
    fn change(&mut self, to: &dyn Any, cx: &mut QueueCx<Packet>) -> Result<(), Vec<Packet>> {
        let mut left = Vec::new();
        let mut is_other = false;
        for queue in &mut self.queues {
            if let Err(waiting) = queue.change(to, cx) {
                is_other = true;
                left.extend(waiting);
            }
        }
        if is_other { Err(aqm::in_order(left)) } else { Ok(()) }
    }
    fn hosts(&mut self) -> Option<&mut dyn ReadsHosts> {
        Some(self)
    }
    fn sacks(&mut self) -> Option<&mut dyn ReadsSacks> {
        let reads = self.queues[0].sacks().is_some();
        reads.then_some(self as &mut dyn ReadsSacks)
    }
    fn divided(&mut self) -> Option<&mut dyn Divided<Packet>> {
        Some(self)
    }
    fn asked(&mut self) -> Option<&mut dyn Asked> {
        self.parts.are_asked.then_some(self as &mut dyn Asked)
    }
}

impl Asked for Stations {
    fn expect(&mut self, earliest: Earliest) {
        self.earliest = Some(earliest);
    }
    fn earliest(&mut self) -> Time {
        self.queues[self.served].asked().map_or(Time::ZERO, |asked| asked.earliest())
    }
}

impl Divided<Packet> for Stations {
    fn dequeue_from(&mut self, part: usize, cx: &mut QueueCx<Packet>) -> Option<Packet> {
        self.served = part;
        self.queues[part].dequeue(cx)
    }
    fn backlog_of(&self, part: usize) -> Backlog {
        self.queues[part].backlog()
    }
}

impl ReadsHosts for Stations {
    fn know_hosts(&mut self, hosts: &Hosts) {
        self.queues.iter_mut().for_each(|queue| aqm::set_hosts(&mut **queue, hosts));
    }
}

impl ReadsSacks for Stations {
    fn learn_sack(&mut self, slot: SackSlot, blocks: Blocks) {
        self.queues
            .iter_mut()
            .filter_map(|queue| queue.sacks())
            .for_each(|queue| queue.learn_sack(slot, blocks));
    }
}
