//! The queue disciplines of l4slab for other programs: a user-space router, a simulator, a test of another implementation.
//!
//! A [`Queue`] is made from the words of `tc`. It takes and gives packets at times that the caller tells, in
//! nanoseconds of any clock that begins near 0. It never asks for the time itself, so the same calls give the same
//! decisions. [`ffi`] has the functions of `include/l4slab_aqm.h`. The tests write vectors of arrivals, departures,
//! marks and losses, by which another implementation can be judged.
//!
//! ```
//! use l4slab_aqm::{Packet, Queue};
//!
//! let mut queue = Queue::new("dualpi2", 100_000_000, 1, 0).unwrap();
//! queue.enqueue(0, Packet { cookie: 7, length: 1514, flow: 1, host: 0, ecn: 1, dscp: 0 });
//! let packet = queue.dequeue(2_000_000).unwrap();
//! // It has waited for 2 ms, more than the step threshold of 1 ms: it leaves with CE.
//! assert_eq!((packet.cookie, packet.ecn), (7, 3));
//! ```

use std::collections::VecDeque;

use l4slab_core::aqm::registry::{QdiscConfig, parse};
use l4slab_core::aqm::{Aqm, Dropped, LinkInfo, QueueCx};
use l4slab_core::ecn::Ecn;
use l4slab_core::packet::{Flags, GroupId, Packet as Inner};
use l4slab_core::rng::Rng;
use l4slab_core::time::Time;
use l4slab_core::units::Rate;

pub mod ffi;

/// A packet as the queue sees it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Packet {
    /// The caller's name for it. A queue that copies packets (netem) copies it too.
    pub cookie: u64,
    /// Of the Ethernet frame without FCS, bytes.
    pub length: u32,
    /// The same for all packets of a flow, such as a hash of addresses and ports.
    pub flow: u32,
    /// The same for all packets that a host sends, for queues that are fair by host.
    pub host: u16,
    /// The two bits of the ECN field, and the six of the Differentiated Services field.
    pub ecn: u8,
    pub dscp: u8,
}

impl Packet {
    fn inner(self, now: Time) -> Inner {
        let group = GroupId { number: self.host, account: 0 };
        let ecn = Ecn::from_bits(self.ecn);
        let mut pkt = Inner::new(self.flow, group, Flags::UDP, self.length, ecn);
        (pkt.stamp, pkt.enqueued_at, pkt.dscp) = (Time(self.cookie), now, self.dscp);
        pkt
    }
    fn outer(pkt: &Inner) -> Packet {
        Packet {
            cookie: pkt.stamp.0,
            length: pkt.frame_len.into(),
            flow: pkt.flow,
            host: pkt.group.number,
            ecn: pkt.ecn.get().bits(),
            dscp: pkt.dscp,
        }
    }
}

/// A queue discipline with its packets.
pub struct Queue {
    aqm: Box<dyn Aqm<Inner>>,
    rng: Rng,
    told: Vec<Dropped<Inner>>,
    dropped: VecDeque<Packet>,
}

impl Queue {
    /// `words` are those of `tc qdisc`, such as `"fq_codel target 5ms"`; `l4slab list qdiscs` has all. `rate_bps` is the
    /// rate of the link behind it, from which some queues derive parameters; `seed` decides what is random.
    ///
    /// # Errors
    /// One sentence that names the word and the remedy.
    pub fn new(words: &str, rate_bps: u64, seed: u64, now_ns: u64) -> Result<Queue, String> {
        let config: QdiscConfig = parse(words).map_err(|e| e.to_string())?;
        let link = LinkInfo { rate: Rate::from_bps(rate_bps.max(1)), now: Time(now_ns) };
        Ok(Queue {
            aqm: config.build(link),
            rng: Rng::stream(seed, "queue", 0),
            told: Vec::new(),
            dropped: VecDeque::new(),
        })
    }

    /// A packet arrives. Times never go back. Frames are at most 65 535 bytes long.
    pub fn enqueue(&mut self, now_ns: u64, packet: Packet) {
        let now = Time(now_ns);
        self.run_timers(now);
        let mut cx = QueueCx::new(now, &mut self.rng, &mut self.told);
        self.aqm.enqueue(packet.inner(now), &mut cx);
        self.collect();
    }

    /// The link is free: the packet that leaves, with the ECN field that it leaves with.
    pub fn dequeue(&mut self, now_ns: u64) -> Option<Packet> {
        let now = Time(now_ns);
        self.run_timers(now);
        let packet = self.aqm.dequeue(&mut QueueCx::new(now, &mut self.rng, &mut self.told));
        self.collect();
        packet.as_ref().map(Packet::outer)
    }

    /// Packets that the queue has dropped, each once.
    pub fn take_dropped(&mut self) -> Option<Packet> {
        self.dropped.pop_front()
    }

    /// When to call [`Queue::dequeue`] again, if it gave nothing although there is a backlog; `u64::MAX`: after an arrival.
    pub fn next_ns(&self) -> u64 {
        self.aqm.next_timer().0
    }

    /// Packets and bytes in it.
    pub fn backlog(&self) -> (u64, u64) {
        let backlog = self.aqm.backlog();
        (backlog.packets, backlog.bytes)
    }

    fn run_timers(&mut self, now: Time) {
        while self.aqm.next_timer() <= now {
            let at = self.aqm.next_timer();
            self.aqm.on_timer(&mut QueueCx::new(at, &mut self.rng, &mut self.told));
            if self.aqm.next_timer() <= at {
                break;
            }
        }
    }

    fn collect(&mut self) {
        self.dropped.extend(self.told.drain(..).map(|dropped| Packet::outer(&dropped.pkt)));
    }
}
