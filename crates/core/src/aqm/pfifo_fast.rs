//! `pfifo_fast`, the queue that Linux gives to a device (`sch_generic.c`, 7.2): three FIFOs, of which the first that has
//! a packet sends it. A router takes a packet's band from its DSCP.
//!
//! Each FIFO is a ring of `txqueuelen` places (`ptr_ring.h`). Places of packets that have left become free 16 at a time,
//! so a ring is full with up to 15 packets fewer.

use std::any::Any;

use super::priorities::{PRIOMAP, priority};
use super::queue::Queue;
use super::{
    Aqm, Backlog, DropReason, LinkInfo, Marking, Overflow, Pkt, Qdisc, QueueCx, Room, Separation,
};
use crate::params::Described;
use crate::params::kinds::params;

/// Linux: the device's `txqueuelen`.
const PLACES: usize = 1000;
const FREED_AT_ONCE: usize = 16;

params! {
    /// `tc` takes no parameters for it.
    pub struct PfifoFastConfig {}
}

/// One of the three.
#[derive(Debug)]
struct Ring<P> {
    queue: Queue<P>,
    /// The place of the oldest packet, and the first that is not free for packets yet.
    head: usize,
    freed: usize,
}

impl<P: Pkt> Ring<P> {
    fn new() -> Self {
        Ring { queue: Queue::new(), head: 0, freed: 0 }
    }
    fn is_full(&self) -> bool {
        self.queue.len() + self.head - self.freed >= PLACES
    }
    fn pop(&mut self) -> Option<P> {
        let pkt = self.queue.pop()?;
        self.head += 1;
        if self.head - self.freed >= FREED_AT_ONCE {
            self.freed = self.head;
        }
        if self.head >= PLACES {
            (self.head, self.freed) = (0, 0);
        }
        Some(pkt)
    }
}

/// The queue at work.
#[derive(Debug)]
pub struct PfifoFast<P> {
    rings: [Ring<P>; 3],
}

impl<P: Pkt + Send> Aqm<P> for PfifoFast<P> {
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        let ring = &mut self.rings[usize::from(PRIOMAP[priority(&pkt)])];
        if ring.is_full() { cx.drop(pkt, DropReason::Overflow) } else { ring.queue.push(pkt) }
    }
    fn dequeue(&mut self, _cx: &mut QueueCx<P>) -> Option<P> {
        self.rings.iter_mut().find_map(Ring::pop)
    }
    fn change(&mut self, to: &dyn Any, _cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        to.downcast_ref::<PfifoFastConfig>().map(|_| ()).ok_or_else(Vec::new)
    }
    fn backlog(&self) -> Backlog {
        self.rings.iter().fold(Backlog::default(), |sum, ring| Backlog {
            packets: sum.packets + ring.queue.len() as u64,
            bytes: sum.bytes + ring.queue.bytes(),
        })
    }
    fn next_len(&self) -> Option<u32> {
        self.rings.iter().find_map(|ring| ring.queue.front()).map(P::frame_len)
    }
}

impl Described for PfifoFastConfig {
    const NAME: &'static str = "pfifo_fast";
    const SUMMARY: &'static str =
        "three FIFOs of 1000 packets in strict order, chosen by DSCP: Linux's default of a device";
}

impl Qdisc for PfifoFastConfig {
    const SEPARATION: Separation = Separation::Single;
    const MARKING: Marking = Marking::Never;
    const OVERFLOW: Overflow = Overflow::All;

    fn room(&self, _link: LinkInfo) -> Room {
        Room::of_packets(3 * PLACES as u64)
    }
    fn build<P: Pkt + Send + 'static>(&self, _link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(PfifoFast { rings: [Ring::new(), Ring::new(), Ring::new()] })
    }
}
