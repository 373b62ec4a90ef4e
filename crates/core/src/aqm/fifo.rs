//! First in, first out, with a limit: `pfifo` (packets), `bfifo` (bytes) and `pfifo_head_drop`.
//! Full means drop; there is no marking. Source: Linux `net/sched/sch_fifo.c`.

use std::collections::VecDeque;

use super::registry::{LinkInfo, Qdisc};
use super::{Aqm, Backlog, DropReason, Pkt, QueueCx};
use crate::prefetch::{AHEAD, prefetch};
use crate::tc::{Args, Param, TcError, param, parse_size};
use crate::units::MTU_FRAME;

/// Linux: the device's `txqueuelen`.
const LIMIT_PACKETS: u32 = 1000;
/// Linux: `txqueuelen` full frames.
const LIMIT_BYTES: u32 = LIMIT_PACKETS * MTU_FRAME;

/// Packets in order of arrival, and the sum of their lengths. The ring keeps its memory, so a warm
/// queue does not allocate.
#[derive(Debug)]
pub struct Queue<P> {
    packets: VecDeque<P>,
    bytes: u64,
}

impl<P: Pkt> Queue<P> {
    pub fn new() -> Self {
        Queue { packets: VecDeque::new(), bytes: 0 }
    }
    #[inline]
    pub fn push(&mut self, pkt: P) {
        self.bytes += u64::from(pkt.frame_len());
        self.packets.push_back(pkt);
    }
    #[inline]
    pub fn pop(&mut self) -> Option<P> {
        let pkt = self.packets.pop_front()?;
        self.bytes -= u64::from(pkt.frame_len());
        // A long queue's head has left the cache since it was written.
        if let Some(later) = self.packets.get(AHEAD) {
            prefetch(later);
        }
        Some(pkt)
    }
    #[inline]
    pub fn front(&self) -> Option<&P> {
        self.packets.front()
    }
    #[inline]
    pub fn front_mut(&mut self) -> Option<&mut P> {
        self.packets.front_mut()
    }
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len()
    }
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl<P: Pkt> Default for Queue<P> {
    fn default() -> Self {
        Queue::new()
    }
}

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
    #[inline]
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        let packets = self.queue.len() as u64;
        let full = match self.limit {
            Limit::Packets(limit) => packets >= limit,
            Limit::Bytes(limit) => self.queue.bytes() + u64::from(pkt.frame_len()) > limit,
            Limit::HeadDrop(limit) if packets >= limit => match self.queue.pop() {
                Some(head) => {
                    cx.drop(head, DropReason::Overflow);
                    false
                }
                None => true, // limit 0 holds nothing
            },
            Limit::HeadDrop(_) => false,
        };
        if full { cx.drop(pkt, DropReason::Overflow) } else { self.queue.push(pkt) }
    }
    #[inline]
    fn dequeue(&mut self, _cx: &mut QueueCx<P>) -> Option<P> {
        self.queue.pop()
    }
    fn backlog(&self) -> Backlog {
        Backlog { packets: self.queue.len() as u64, bytes: self.queue.bytes() }
    }
    fn likely_next(&self) -> Option<&P> {
        self.queue.front()
    }
}

/// The parameters of one of the three: they differ in name, default and unit.
macro_rules! fifo {
    ($config:ident, $name:literal, $summary:literal, $default:expr, $text:literal, $limit:expr) => {
        #[derive(Clone, PartialEq, Debug)]
        pub struct $config {
            pub limit: u32,
        }

        impl Default for $config {
            fn default() -> Self {
                $config { limit: $default }
            }
        }

        impl Qdisc for $config {
            const NAME: &'static str = $name;
            const SUMMARY: &'static str = $summary;
            const PARAMS: &'static [Param] =
                &[param("limit", "NUMBER", $text, "what the queue holds at most")];

            fn parse(args: &mut Args) -> Result<Self, TcError> {
                let mut config = $config::default();
                while let Some(keyword) = args.keyword() {
                    match keyword {
                        // tc reads both units as a size, so `1k` is 1024 packets too.
                        "limit" => config.limit = args.value(SIZE, parse_size)?,
                        _ => return Err(args.unknown()),
                    }
                }
                Ok(config)
            }

            fn canonical(&self) -> String {
                format!("limit {}", self.limit)
            }

            fn build<P: Pkt + Send + 'static>(&self, _link: LinkInfo) -> Box<dyn Aqm<P>> {
                let limit = $limit(u64::from(self.limit));
                Box::new(Fifo { queue: Queue::new(), limit })
            }
        }
    };
}

fifo!(
    Pfifo,
    "pfifo",
    "first in, first out; tail drop at a limit in packets",
    LIMIT_PACKETS,
    "1000",
    Limit::Packets
);
fifo!(
    Bfifo,
    "bfifo",
    "first in, first out; tail drop at a limit in bytes",
    LIMIT_BYTES,
    "1514000",
    Limit::Bytes
);
fifo!(
    PfifoHeadDrop,
    "pfifo_head_drop",
    "first in, first out; a full queue drops its oldest packet",
    LIMIT_PACKETS,
    "1000",
    Limit::HeadDrop
);

const SIZE: &str = "a number such as 1000 or 64k (k is 1024), at most 4294967295";
