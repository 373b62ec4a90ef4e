//! First in, first out, with a limit: `pfifo` (packets), `bfifo` (bytes) and `pfifo_head_drop`.
//! Full means drop; there is no marking. Source: Linux `net/sched/sch_fifo.c`.

use std::any::Any;

use super::queue::Queue;
use super::{
    Aqm, Backlog, DropReason, LinkInfo, Marking, Overflow, Pkt, Qdisc, QueueCx, Room, Separation,
};
use crate::params::Described;
use crate::params::kinds::{Spec, params, size};
use crate::units::MTU_FRAME;

/// Linux: the device's `txqueuelen`.
const LIMIT_PACKETS: u32 = 1000;
/// Linux: `txqueuelen` full frames.
const LIMIT_BYTES: u32 = LIMIT_PACKETS * MTU_FRAME;

/// When the queue is full, and what then.
#[derive(Copy, Clone, Debug)]
enum Limit {
    /// So many packets; the new one is dropped.
    Packets(u64),
    /// So many bytes; the new packet is dropped.
    Bytes(u64),
    /// So many packets; the oldest one makes room.
    HeadDrop(u64),
}

/// The queue behind all three names.
#[derive(Debug)]
pub struct Fifo<P> {
    queue: Queue<P>,
    limit: Limit,
}

impl<P: Pkt + Send> Aqm<P> for Fifo<P> {
    #[inline(always)]
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        self.enqueue_copy(&pkt, cx);
    }
    #[inline(always)]
    fn enqueue_copy(&mut self, pkt: &P, cx: &mut QueueCx<P>) {
        let packets = self.queue.len() as u64;
        let full = match self.limit {
            Limit::Packets(limit) => packets >= limit,
            Limit::Bytes(limit) => self.queue.bytes() + u64::from(pkt.frame_len()) > limit,
            Limit::HeadDrop(0) => true,
            Limit::HeadDrop(limit) if packets >= limit => {
                if let Some(head) = self.queue.pop() {
                    cx.drop(head, DropReason::Overflow);
                }
                false
            }
            Limit::HeadDrop(_) => false,
        };
        match full {
            true => cx.drop(pkt.clone(), DropReason::Overflow),
            false => self.queue.push_copy(pkt),
        }
    }
    #[inline(always)]
    fn dequeue(&mut self, _cx: &mut QueueCx<P>) -> Option<P> {
        self.queue.pop()
    }
    #[inline(always)]
    fn dequeue_into(&mut self, departed: &mut Vec<P>, _cx: &mut QueueCx<P>) -> bool {
        let Some(pkt) = self.queue.front() else { return false };
        self.queue.pop_into(pkt.frame_len().into(), departed);
        true
    }
    fn backlog(&self) -> Backlog {
        Backlog { packets: self.queue.len() as u64, bytes: self.queue.bytes() }
    }
    fn next_len(&self) -> Option<u32> {
        self.queue.front().map(P::frame_len)
    }
    /// The backlog above a smaller limit stays.
    fn change(&mut self, to: &dyn Any, _cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let limit = match self.limit {
            Limit::Packets(_) => to.downcast_ref().map(Pfifo::limit),
            Limit::Bytes(_) => to.downcast_ref().map(Bfifo::limit),
            Limit::HeadDrop(_) => to.downcast_ref().map(PfifoHeadDrop::limit),
        };
        self.limit = limit.ok_or_else(Vec::new)?;
        Ok(())
    }
}

/// The parameters of one of the three: they differ in name, default and unit.
macro_rules! fifo {
    ($config:ident, $name:literal, $summary:literal, $default:expr, $source:literal, $limit:expr, $drops_waiting:literal, $limits_packets:literal) => {
        params! {
            pub struct $config {
                /// largest backlog
                limit: u32 = $default, limit(), $source;
            }
        }

        impl $config {
            fn limit(&self) -> Limit {
                $limit(u64::from(self.limit))
            }
        }

        impl Described for $config {
            const NAME: &'static str = $name;
            const SUMMARY: &'static str = $summary;
        }

        impl Qdisc for $config {
            const SEPARATION: Separation = Separation::Single;
            const MARKING: Marking = Marking::Never;
            const OVERFLOW: Overflow = Overflow::All;
            const IS_FIFO: bool = true;
            const DROPS_WAITING: bool = $drops_waiting;
            const LIMITS_PACKETS: bool = $limits_packets;

            fn room(&self, _link: LinkInfo) -> Room {
                match self.limit() {
                    Limit::Packets(limit) | Limit::HeadDrop(limit) => Room::of_packets(limit),
                    Limit::Bytes(limit) => Room::of_bytes(limit),
                }
            }
            fn build<P: Pkt + Send + 'static>(&self, _link: LinkInfo) -> Box<dyn Aqm<P>> {
                Box::new(Fifo { queue: Queue::new(), limit: self.limit() })
            }
        }
    };
}

/// `tc` reads both units as a size, so `1k` is 1024 packets too.
fn limit() -> Spec<u32> {
    size(0..=u32::MAX)
        .shown("NUMBER")
        .takes("a number such as 1000 or 64k (k is 1024), at most 4294967295")
}

fifo!(
    Pfifo,
    "pfifo",
    "first in, first out; tail drop at a limit in packets",
    LIMIT_PACKETS,
    "Linux: the device's txqueuelen",
    Limit::Packets,
    false,
    true
);
fifo!(
    Bfifo,
    "bfifo",
    "first in, first out; tail drop at a limit in bytes",
    LIMIT_BYTES,
    "Linux: txqueuelen full frames",
    Limit::Bytes,
    false,
    false
);
fifo!(
    PfifoHeadDrop,
    "pfifo_head_drop",
    "first in, first out; a full queue drops its oldest packet",
    LIMIT_PACKETS,
    "Linux: the device's txqueuelen",
    Limit::HeadDrop,
    true,
    true
);
