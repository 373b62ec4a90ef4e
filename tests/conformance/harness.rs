//! A queue on a bench: packets are handed in and taken out at times the test chooses.
#![allow(dead_code)] // each test file uses its own part

use l4slab_core::aqm::LinkInfo;
use l4slab_core::aqm::hosts::Hosts;
use l4slab_core::aqm::registry;
use l4slab_core::aqm::tree::{ClassSpec, FilterSpec, Queue};
use l4slab_core::aqm::{Aqm, DropReason, Dropped, Marks, Pkt, QueueCx, TcpHeader};
use l4slab_core::ecn::Ecn;
use l4slab_core::probe::Gauges;
use l4slab_core::rng::Rng;
use l4slab_core::time::{Span, Time};
use l4slab_core::units::Rate;

/// A full frame as a qdisc counts it.
pub const FRAME: u32 = 1514;

#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Packet {
    pub id: u64,
    pub len: u32,
    pub ecn: Ecn,
    pub at: Time,
    pub flow: u32,
    /// Its sender and its receiver.
    pub hosts: (u32, u32),
    pub dscp: u8,
    /// A bit was flipped.
    pub corrupt: bool,
    pub tcp: Option<TcpHeader>,
}

impl Packet {
    /// A full frame; the next of its flow.
    pub fn new(ecn: Ecn) -> Packet {
        Packet {
            id: 0,
            len: FRAME,
            ecn,
            at: Time::ZERO,
            flow: 0,
            hosts: (0, 0),
            dscp: 0,
            corrupt: false,
            tcp: None,
        }
    }
}

impl Pkt for Packet {
    fn frame_len(&self) -> u32 {
        self.len
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }
    fn enqueued_at(&self) -> Time {
        self.at
    }
    fn flow_hash(&self) -> u32 {
        self.flow.wrapping_mul(0x9e37_79b1)
    }
    fn source_hash(&self, _hosts: &Hosts) -> u32 {
        self.hosts.0.wrapping_mul(0x9e37_79b1)
    }
    fn destination_hash(&self, _hosts: &Hosts) -> u32 {
        self.hosts.1.wrapping_mul(0x9e37_79b1)
    }
    fn dscp(&self) -> u8 {
        self.dscp
    }
    fn set_dscp(&mut self, dscp: u8) {
        self.dscp = dscp;
    }
    fn corrupt(&mut self) {
        self.corrupt = true;
    }
    fn tcp(&self) -> Option<TcpHeader> {
        self.tcp
    }
}

const LINK: LinkInfo = LinkInfo { rate: Rate::from_bps(100_000_000), now: Time::ZERO };

/// A class without anything.
fn bare() -> ClassSpec<String> {
    serde_json::from_value(serde_json::json!({ "id": "" })).expect("a class")
}

/// What a dequeue delivered.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Out {
    pub pkt: Packet,
    pub band: usize,
    pub marks: Marks,
}

pub struct Bench {
    pub queue: Box<dyn Aqm<Packet>>,
    pub rng: Rng,
    /// All packets dropped so far.
    pub drops: Vec<Dropped<Packet>>,
    /// Marks set while a packet was taken in.
    pub enqueue_marks: u64,
    /// Duplicates that the queue made.
    pub duplicates: u64,
    next_id: u64,
}

impl Bench {
    /// The queue of a tc string, created at time zero.
    pub fn new(tc: &str) -> Bench {
        Bench::seeded(tc, 1)
    }
    pub fn seeded(tc: &str, seed: u64) -> Bench {
        Bench::of(registry::parse(tc).unwrap_or_else(|e| panic!("{e}")).build(LINK), seed)
    }
    /// A queue with one class, "1", that has a queue.
    pub fn holding(tc: &str, class: &str) -> Bench {
        let class = ClassSpec { id: "1".to_owned(), qdisc: Some(class.to_owned()), ..bare() };
        let queue = Queue::new(tc, vec![class], Vec::new()).unwrap_or_else(|e| panic!("{e}"));
        Bench::of(queue.build(LINK), 1)
    }
    /// A queue with classes: each has a number, a queue and a quantum, and takes the packets with a DSCP like its number.
    pub fn tree(tc: &str, classes: &[(u8, &str, u32)]) -> Bench {
        let class = |&(id, qdisc, quantum_bytes): &(u8, &str, u32)| ClassSpec {
            id: id.to_string(),
            qdisc: Some(qdisc.to_owned()),
            quantum_bytes,
            ..bare()
        };
        Bench::classes(tc, classes.iter().map(class).collect())
    }
    /// A queue with these classes, of which those with a queue take the packets with a DSCP like their number.
    pub fn classes(tc: &str, classes: Vec<ClassSpec<String>>) -> Bench {
        let filter = |class: &ClassSpec<String>| FilterSpec {
            class: class.id.clone(),
            dscp: class.id.parse().ok(),
            ecn: None,
            host: None,
            policer: None,
        };
        let filters = classes.iter().filter(|class| class.qdisc.is_some()).map(filter).collect();
        let queue = Queue::new(tc, classes, filters).unwrap_or_else(|e| panic!("{e}"));
        Bench::of(queue.build(LINK), 1)
    }
    fn of(queue: Box<dyn Aqm<Packet>>, seed: u64) -> Bench {
        Bench {
            queue,
            rng: Rng::stream(seed, "bench", 0),
            drops: Vec::new(),
            enqueue_marks: 0,
            duplicates: 0,
            next_id: 0,
        }
    }

    /// Hands in a packet at `at` nanoseconds; its id counts from 0.
    pub fn put_packet(&mut self, at: u64, pkt: Packet) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let now = Time(at);
        let mut cx = QueueCx::new(now, &mut self.rng, &mut self.drops);
        self.queue.enqueue(Packet { id, at: now, ..pkt }, &mut cx);
        self.enqueue_marks += u64::from(cx.marks().ce());
        self.duplicates += u64::from(cx.duplicates());
        id
    }
    /// A packet of `len` bytes, of a flow of its own.
    pub fn put_len(&mut self, at: u64, ecn: Ecn, len: u32) -> u64 {
        let flow = self.next_id as u32;
        self.put_packet(at, Packet { len, flow, ..Packet::new(ecn) })
    }
    /// A full frame of a flow.
    pub fn put_flow(&mut self, at: u64, ecn: Ecn, flow: u32) -> u64 {
        self.put_packet(at, Packet { flow, ..Packet::new(ecn) })
    }
    /// A full frame.
    pub fn put(&mut self, at: u64, ecn: Ecn) -> u64 {
        self.put_len(at, ecn, FRAME)
    }
    pub fn take(&mut self, at: u64) -> Option<Out> {
        let mut cx = QueueCx::new(Time(at), &mut self.rng, &mut self.drops);
        let pkt = self.queue.dequeue(&mut cx)?;
        assert!(cx.current_band() < self.queue.bands().len().max(1), "no such band");
        Some(Out { pkt, band: cx.current_band(), marks: cx.marks() })
    }
    pub fn timer(&mut self, at: u64) {
        let mut cx = QueueCx::new(Time(at), &mut self.rng, &mut self.drops);
        self.queue.on_timer(&mut cx);
    }
    pub fn drained(&mut self, at: u64) {
        while self.take(at).is_some() {}
    }
    pub fn gauge(&self, name: &str) -> f64 {
        struct One<'a>(&'a str, Option<f64>);
        impl Gauges for One<'_> {
            fn gauge(&mut self, name: &'static str, value: f64) {
                if name == self.0 {
                    self.1 = Some(value);
                }
            }
        }
        let mut one = One(name, None);
        self.queue.probe(&mut one);
        one.1.unwrap_or_else(|| panic!("no gauge {name}"))
    }
    pub fn dropped(&self, why: DropReason) -> usize {
        self.drops.iter().filter(|d| d.why == why).count()
    }
    pub fn packets(&self) -> u64 {
        self.queue.backlog().packets
    }
}

pub const fn ms(n: u64) -> u64 {
    Span::from_millis(n).0
}
