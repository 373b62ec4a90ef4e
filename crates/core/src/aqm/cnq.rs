//! Cheap Nasty Queueing: `cnq_cobalt` and `cnq_codel_af`, with a shaper inside.
//!
//! Two FIFOs for all flows. A packet of a flow that has nothing waiting goes into the sparse
//! queue, which is served first, and leaves a dummy in the bulk queue: until the dummy's turn has
//! come, the flow's next packets queue up behind it. So a flow is sparse as long as it sends at
//! most one packet in the time that bulk packets wait. There is no limit to what may wait.
//!
//! `cnq_cobalt` has one COBALT for the bulk queue. `cnq_codel_af` has one per flow and weights a
//! packet's delay with the flow's share of the queue, so a flow that holds more than its share is
//! marked earlier: approximate fairness without a queue for each flow.
//!
//! Source: github.com/chromi/sce (`sch_cnq_cobalt.c`, `sch_cnq_codel_af.c`). A flow there is a hash
//! of 65536; `cnq_cobalt` spares only the very last packet, `cnq_codel_af` the last of each flow.

use std::any::Any;
use std::collections::VecDeque;

use super::cobalt_sce::{self, Cobalt, CobaltConfig, CobaltParams, Weight};
use super::line::Line;
use super::queue::Queue;
use super::shaper::{Pace, Shaper};
use super::{
    Aqm, Backlog, DropReason, Gauges, LinkInfo, Marking, Pkt, Qdisc, QueueCx, Room, Separation,
};
use crate::params::kinds::{nested, params};
use crate::params::{Described, Gauge, Given, Refused, gauge};
use crate::time::Time;

/// Flows that are told apart (Linux).
pub const FLOWS: usize = 1 << 16;
/// The bands, see [`Aqm::bands`].
const SPARSE: usize = 0;
const BULK: usize = 1;

/// What stands in the bulk queue.
#[derive(Debug)]
enum Slot<P> {
    Packet(P),
    /// Holds the place of a sparse packet of this flow.
    Dummy(u16),
}

/// The number of a packet's flow.
#[inline]
pub fn flow_of<P: Pkt>(pkt: &P) -> u16 {
    pkt.flow_hash() as u16
}

/// The two queues.
#[derive(Debug)]
pub struct Cnq<P> {
    sparse: Queue<P>,
    bulk: VecDeque<Slot<P>>,
    bulk_packets: u64,
    bulk_bytes: u64,
    /// Slots of each flow in the bulk queue.
    slots: Box<[u32]>,
    /// Flows with slots, and how many slots are dummies.
    flows: u64,
    dummies: u64,
}

/// Bytes of the tables of a [`Cnq`], and of a [`PerFlow`].
pub const SLOTS: u64 = (FLOWS * size_of::<u32>()) as u64;
pub const STATES: u64 = (FLOWS * size_of::<Cobalt>()) as u64;

impl<P: Pkt> Cnq<P> {
    pub fn new() -> Cnq<P> {
        Cnq {
            sparse: Queue::new(),
            bulk: VecDeque::new(),
            bulk_packets: 0,
            bulk_bytes: 0,
            slots: vec![0; FLOWS].into_boxed_slice(),
            flows: 0,
            dummies: 0,
        }
    }

    pub fn backlog(&self) -> Backlog {
        Backlog {
            packets: self.sparse.len() as u64 + self.bulk_packets,
            bytes: self.sparse.bytes() + self.bulk_bytes,
        }
    }
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bulk_packets == 0 && self.sparse.is_empty()
    }
    /// Slots that a flow has in the bulk queue.
    #[inline]
    pub fn slots(&self, flow: u16) -> u64 {
        u64::from(self.slots[usize::from(flow)])
    }
    /// Flows in the bulk queue without those that have only just turned up.
    #[inline]
    pub fn bulk_flows(&self) -> u64 {
        self.flows - self.dummies
    }
    #[inline]
    pub fn sparse_flows(&self) -> u64 {
        self.sparse.len() as u64
    }
    /// True if the packet is taken as sparse.
    #[inline]
    pub fn push(&mut self, pkt: P) -> bool {
        let flow = flow_of(&pkt);
        let slots = &mut self.slots[usize::from(flow)];
        let sparse = *slots == 0;
        self.flows += u64::from(sparse);
        *slots += 1;
        if sparse {
            self.dummies += 1;
            self.bulk.push_back(Slot::Dummy(flow));
            self.sparse.push(pkt);
        } else {
            self.bulk_packets += 1;
            self.bulk_bytes += u64::from(pkt.frame_len());
            self.bulk.push_back(Slot::Packet(pkt));
        }
        sparse
    }

    /// The next packet, and whether it was sparse.
    #[inline]
    pub fn pop(&mut self) -> Option<(P, bool)> {
        if let Some(pkt) = self.sparse.pop() {
            return Some((pkt, true));
        }
        loop {
            match self.bulk.pop_front()? {
                Slot::Dummy(flow) => {
                    self.dummies -= 1;
                    self.leaves(flow);
                }
                Slot::Packet(pkt) => {
                    self.bulk_packets -= 1;
                    self.bulk_bytes -= u64::from(pkt.frame_len());
                    self.leaves(flow_of(&pkt));
                    return Some((pkt, false));
                }
            }
        }
    }

    #[inline]
    fn leaves(&mut self, flow: u16) {
        let slots = &mut self.slots[usize::from(flow)];
        *slots -= 1;
        self.flows -= u64::from(*slots == 0);
    }

    /// Discards dummies whose turn has come, without waiting for a bulk packet to be asked for.
    #[inline]
    pub fn discard_dummies(&mut self) {
        while self.sparse.is_empty()
            && let Some(&Slot::Dummy(flow)) = self.bulk.front()
        {
            self.bulk.pop_front();
            self.dummies -= 1;
            self.leaves(flow);
        }
    }
}

impl<P: Pkt> Default for Cnq<P> {
    fn default() -> Self {
        Cnq::new()
    }
}

/// A COBALT for each flow. Those of idle flows calm down in turn, one with each packet sent.
#[derive(Debug)]
pub struct PerFlow {
    cobalt: Box<[Cobalt]>,
    turn: u16,
    /// The flow judged last, which is the one shown.
    last: u16,
}

impl PerFlow {
    pub fn new() -> PerFlow {
        let cobalt = vec![Cobalt::default(); FLOWS].into_boxed_slice();
        PerFlow { cobalt, turn: 0, last: 0 }
    }
    #[inline]
    pub fn of(&mut self, flow: u16) -> &mut Cobalt {
        self.last = flow;
        &mut self.cobalt[usize::from(flow)]
    }
    /// `idle`: does the flow have nothing waiting?
    #[inline]
    pub fn calm_next(&mut self, p: &CobaltParams, now: Time, idle: impl Fn(u16) -> bool) {
        if idle(self.turn) {
            self.cobalt[usize::from(self.turn)].empty(p, now);
        }
        self.turn = self.turn.wrapping_add(1);
    }
    pub fn probe(&self, out: &mut dyn Gauges) {
        self.cobalt[usize::from(self.last)].probe(out);
    }
}

impl Default for PerFlow {
    fn default() -> Self {
        PerFlow::new()
    }
}

/// Whom the law looks at.
#[derive(Debug)]
enum Law {
    Shared(Cobalt),
    PerFlow(PerFlow),
}

/// The qdisc behind both names.
#[derive(Debug)]
pub struct CnqQdisc<P> {
    queue: Cnq<P>,
    line: Line,
    shaper: Shaper,
    params: CobaltParams,
    law: Law,
}

impl<P: Pkt> CnqQdisc<P> {
    fn new(config: &CobaltConfig, law: Law) -> CnqQdisc<P> {
        let shaper = Shaper::new(Pace::new(config.line.rate));
        CnqQdisc {
            queue: Cnq::new(),
            line: config.line.clone(),
            shaper,
            params: config.params(),
            law,
        }
    }

    /// Marks the packet just taken out; true if it is to be dropped.
    #[inline]
    fn drops(&mut self, pkt: &mut P, sparse: bool, cx: &mut QueueCx<P>) -> bool {
        let p = &self.params;
        match &mut self.law {
            Law::Shared(cobalt) if self.queue.is_empty() => {
                cobalt.empty(p, cx.now);
                false
            }
            Law::Shared(cobalt) => !sparse && cobalt.drops(p, Weight::EVEN, pkt, cx),
            Law::PerFlow(flows) => {
                let flow = flow_of(pkt);
                let slots = self.queue.slots(flow);
                let cobalt = flows.of(flow);
                if sparse {
                    cobalt.empty(p, cx.now);
                    return false;
                }
                let weight = Weight {
                    flow: slots + 1,
                    flows: self.queue.bulk_flows(),
                    total: self.queue.backlog().packets + 1,
                };
                cobalt.drops(p, weight, pkt, cx) && slots > 0
            }
        }
    }
}

impl<P: Pkt + Send> Aqm<P> for CnqQdisc<P> {
    #[inline]
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        if self.queue.is_empty() {
            self.shaper.begins(cx.now);
        }
        cx.band(if self.queue.push(pkt) { SPARSE } else { BULK });
    }

    #[inline]
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        if self.queue.is_empty() || !self.shaper.ready(cx.now) {
            return None;
        }
        loop {
            let (mut pkt, sparse) = self.queue.pop()?;
            cx.band(if sparse { SPARSE } else { BULK });
            if self.drops(&mut pkt, sparse, cx) {
                cx.drop(pkt, DropReason::Aqm);
                continue;
            }
            self.shaper.charge(self.line.on_wire(pkt.frame_len()), false);
            if let Law::PerFlow(flows) = &mut self.law {
                flows.calm_next(&self.params, cx.now, |flow| self.queue.slots(flow) == 0);
            }
            return Some(pkt);
        }
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
    fn next_timer(&self) -> Time {
        self.shaper.wake()
    }
    fn on_timer(&mut self, _cx: &mut QueueCx<P>) {
        self.shaper.woken();
    }
    fn change(&mut self, to: &dyn Any, _cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let config = match self.law {
            Law::Shared(_) => to.downcast_ref().map(|to: &CnqCobalt| &to.cobalt),
            Law::PerFlow(_) => to.downcast_ref().map(|to: &CnqCodelAf| &to.cobalt),
        };
        let config = config.ok_or_else(Vec::new)?;
        self.shaper.pace = Pace::new(config.line.rate);
        (self.line, self.params) = (config.line.clone(), config.params());
        Ok(())
    }
    fn bands(&self) -> &'static [&'static str] {
        &["sparse", "bulk"]
    }
    /// Counts and BLUE's probability (`cnq_codel_af`: of the flow served last), and the flows that
    /// wait in the bulk queue.
    fn probe(&self, out: &mut dyn Gauges) {
        match &self.law {
            Law::Shared(cobalt) => cobalt.probe(out),
            Law::PerFlow(flows) => flows.probe(out),
        }
        out.gauge("bulk_flows", self.queue.bulk_flows() as f64);
    }
}

macro_rules! cnq {
    ($config:ident, $name:literal, $summary:literal, $separation:expr, $law:expr, $states:expr) => {
        params! {
            pub struct $config {
                cobalt: CobaltConfig = CobaltConfig::default(), nested();
            }
        }

        impl Described for $config {
            const NAME: &'static str = $name;
            const SUMMARY: &'static str = $summary;
            const IN_LINUX: bool = false;
            const GAUGES: &'static [Gauge] = &[
                cobalt_sce::CE_COUNT,
                cobalt_sce::SCE_COUNT,
                cobalt_sce::P_BLUE,
                gauge("bulk_flows", "", "flows that wait in the bulk queue"),
            ];

            fn finish(&mut self, given: &Given) -> Result<(), Refused> {
                self.cobalt.line.finish(given)
            }
            fn renew(&mut self, given: &Given) {
                self.cobalt.line.renew(given);
            }
            fn finish_change(&mut self, given: &Given) -> Result<(), Refused> {
                self.cobalt.line.finish_change(given)
            }
        }

        impl Qdisc for $config {
            const SEPARATION: Separation = $separation;
            const MARKING: Marking = Marking::Always;

            fn room(&self, _link: LinkInfo) -> Room {
                Room { always: SLOTS + $states, ..Room::ENDLESS }.shaped(self.cobalt.line.rate)
            }
            fn build<P: Pkt + Send + 'static>(&self, _link: LinkInfo) -> Box<dyn Aqm<P>> {
                Box::new(CnqQdisc::new(&self.cobalt, $law))
            }
        }
    };
}

cnq!(
    CnqCobalt,
    "cnq_cobalt",
    "sparse and bulk queue with a shaper; COBALT and SCE marks on the bulk queue",
    Separation::Single,
    Law::Shared(Cobalt::default()),
    0
);
cnq!(
    CnqCodelAf,
    "cnq_codel_af",
    "sparse and bulk queue with a shaper; COBALT and SCE marks by flow, approximately fair",
    Separation::Approximate,
    Law::PerFlow(PerFlow::new()),
    STATES
);
