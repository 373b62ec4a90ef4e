//! FQ-PIE, as Linux has it (`sch_fq_pie`, 7.2): FQ-CoDel's deficit round robin (RFC 8290) with the
//! law of PIE on each flow.
//!
//! Flows are told apart by a hash and share the link; a flow that sends little goes first. Each flow
//! has its own probability, from its own packets' delay, and its own burst allowance. One timer
//! updates all flows, at most 2048 of them in a jiffy. When the qdisc is full, the new packet is
//! dropped, whoever sent it. `memory_limit` is read, but the kernel only counts how often it is
//! exceeded and drops nothing, so it is without effect here.

use std::any::Any;

use super::drr::{self, Drr};
use super::flow_hash::FlowHash;
use super::pie::{self, Law, MAX_PROB, PieParams};
use super::queue::Queue;
use super::{
    Aqm, Backlog, DropReason, Gauges, LinkInfo, Marking, Overflow, Pkt, Qdisc, QueueCx, Room,
    Separation, drop_excess, jiffies,
};
use crate::packet::Packet;
use crate::params::kinds::{nested, number, params, size};
use crate::params::{Described, Gauge, gauge};
use crate::time::Time;
use crate::units::MTU_FRAME;

/// The number of flows that the kernel takes.
const FLOWS_MAX: u32 = 1 << 16;
/// The kernel raises a smaller quantum to the first and refuses one beyond the second.
const QUANTUM_MIN: u32 = 256;
const QUANTUM_MAX: u32 = 1 << 20;
/// How many flows are updated in one jiffy (Linux).
const UPDATED_AT_ONCE: usize = 2048;

params! {
    /// The parameters, by their names in `tc`.
    pub struct FqPieConfig {
        /// largest backlog of all flows, in packets
        limit: u32 = 10_240, number(1..=u32::MAX).shown("PACKETS"), "Linux";
        /// number of flow queues that packets are hashed into
        flows: u32 = 1024, number(1..=FLOWS_MAX), "Linux";
        /// bytes per flow and round; at least 256
        quantum: u32 = MTU_FRAME, size(1..=QUANTUM_MAX).fitted(|n| n.max(QUANTUM_MIN)), "Linux: a full frame";
        /// accepted, without effect as in the kernel
        memory_limit: u32 = 32 << 20, size(1..=u32::MAX), "Linux";
        /// p above which ECT packets are dropped
        ecn_prob: u32 = 10, number(1..=99).shown("PERCENTAGE"), "Linux";
        params: PieParams = PieParams::default(), nested();
    }
}

#[derive(Debug)]
struct Flow<P> {
    queue: Queue<P>,
    law: Law,
}

/// The queue at work.
#[derive(Debug)]
pub struct FqPie<P> {
    flows: Drr<Flow<P>>,
    hash: FlowHash,
    backlog: Backlog,
    next_update: Time,
    /// The first flow that the next update is for.
    cursor: usize,
    config: FqPieConfig,
}

impl<P: Pkt> FqPie<P> {
    fn new(config: FqPieConfig, now: Time) -> Self {
        let mut flows = Drr::new(config.quantum);
        for _ in 0..config.flows {
            flows.add(Flow { queue: Queue::new(), law: Law::default() });
        }
        FqPie {
            flows,
            hash: FlowHash::default(),
            backlog: Backlog::default(),
            next_update: config.params.first_update(now),
            cursor: 0,
            config,
        }
    }
}

impl<P: Pkt + Send> Aqm<P> for FqPie<P> {
    fn enqueue(&mut self, mut pkt: P, cx: &mut QueueCx<P>) {
        let i = self.hash.index(pkt.flow_hash(), self.config.flows, cx.rng);
        let Flow { queue, law } = self.flows.flow_mut(i);
        if self.backlog.packets + cx.held.packets >= u64::from(self.config.limit) {
            law.dropped();
            return cx.drop(pkt, DropReason::Overflow);
        }
        let ecn_prob = MAX_PROB / 100 * u64::from(self.config.ecn_prob);
        if !law.admits(&self.config.params, ecn_prob, queue.bytes(), &mut pkt, cx) {
            return cx.drop(pkt, DropReason::Aqm);
        }
        self.backlog.packets += 1;
        self.backlog.bytes += u64::from(pkt.frame_len());
        queue.push(pkt);
        self.flows.activate(i);
    }

    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        loop {
            let i = self.flows.turn()?;
            let Flow { queue, law } = self.flows.flow_mut(i);
            let Some(pkt) = queue.pop() else {
                self.flows.found_empty();
                continue;
            };
            law.departed(&self.config.params, &pkt, queue.bytes(), cx.now);
            self.flows.charge(i, pkt.frame_len());
            self.backlog.packets -= 1;
            self.backlog.bytes -= u64::from(pkt.frame_len());
            return Some(pkt);
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
    fn next_timer(&self) -> Time {
        self.next_update
    }
    fn on_timer(&mut self, cx: &mut QueueCx<P>) {
        let flows = self.config.flows as usize;
        let end = flows.min(self.cursor + UPDATED_AT_ONCE);
        for i in self.cursor..end {
            let Flow { queue, law } = self.flows.flow_mut(i);
            law.update(&self.config.params, queue.bytes());
        }
        (self.cursor, self.next_update) = if end < flows {
            (end, jiffies::expiry(cx.now, 0))
        } else {
            (0, self.config.params.next_update(cx.now))
        };
    }

    /// The lists; and the law, if there is only one.
    /// Packets beyond a smaller limit leave in turn and are lost.
    fn change(&mut self, to: &dyn Any, cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let config = to.downcast_ref::<FqPieConfig>().ok_or_else(Vec::new)?.clone();
        self.flows.set_quantum(config.quantum);
        let limit = u64::from(config.limit);
        self.config = config;
        drop_excess(cx, |cx| if self.backlog.packets > limit { self.dequeue(cx) } else { None });
        Ok(())
    }

    fn probe(&self, out: &mut dyn Gauges) {
        let (new, old) = self.flows.listed();
        out.gauge("new_flows", f64::from(new));
        out.gauge("old_flows", f64::from(old));
        if self.config.has_more_gauges() {
            self.flows.flow(0).law.probe(out);
        }
    }
}

impl Described for FqPieConfig {
    const NAME: &'static str = "fq_pie";
    const SUMMARY: &'static str = "fair queueing with PIE on each flow";
    const GAUGES: &'static [Gauge] = &[
        gauge("new_flows", "", "flows in the list of new ones"),
        gauge("old_flows", "", "flows in the list of old ones"),
    ];
    const MORE_GAUGES: &'static [Gauge] = pie::GAUGES;
    const FIXED: &'static [&'static str] = &["flows"];

    fn has_more_gauges(&self) -> bool {
        self.flows == 1
    }
}

impl Qdisc for FqPieConfig {
    const SEPARATION: Separation = Separation::PerFlow;
    const SEPARATION_WITH: &'static [(&'static str, Separation)] =
        &[("flows 1", Separation::Single)];
    const MARKING: Marking = Marking::With(&["ecn"]);
    const OVERFLOW: Overflow = Overflow::Counter("overlimit");
    const LIMITS_PACKETS: bool = true;

    fn room(&self, _link: LinkInfo) -> Room {
        Room { always: drr::bytes::<Flow<Packet>>(self.flows), ..Room::of_packets(self.limit) }
    }
    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(FqPie::new(self.clone(), link.now))
    }
}
