//! `lfq_cobalt`: Lightweight Fair Queueing with COBALT, and a shaper inside.
//!
//! Two queues for all flows. A packet of a flow that has nothing waiting and owes nothing goes
//! into the sparse queue, which is served first. All others wait in the bulk queue, which is not
//! served from its head but along a scan: the scan passes over packets of flows that have sent
//! their quantum, and starts again at the head when it has seen the last packet. Each such sweep
//! gives every flow another quantum, so the flows share the link as with a queue for each.
//! Every flow has a COBALT of its own; it judges bulk packets only.
//!
//! Source: github.com/chromi/sce (`sch_lfq_cobalt.c`), draft-morton-tsvwg-lightweight-fair-queueing.
//! A flow there is a hash of 65536. Two things of that file are unfinished and differ here:
//! low-latency traffic follows `rtt` and `sce-thresh` like the rest (there it keeps the times of
//! the defaults, without SCE), and a full memory drops from the head of the bulk queue.

use std::any::Any;
use std::collections::BTreeSet;

use super::cnq::{FLOWS, PerFlow, STATES, flow_of};
use super::cobalt_sce::{self, CobaltConfig, CobaltParams, Weight};
use super::line::Line;
use super::shaper::{Pace, Shaper};
use super::twin_codel_af::{DIVISOR, DSCP};
use super::{
    Aqm, Backlog, DropReason, Gauges, LinkInfo, Marking, Pkt, Qdisc, QueueCx, Room, Separation,
};
use crate::params::kinds::{nested, params, size};
use crate::params::{Described, Gauge, Given, Refused};
use crate::time::Time;
use crate::units::MTU_FRAME;

const NIL: u32 = u32::MAX;
/// The bands, see [`Aqm::bands`].
const SPARSE: usize = 0;
const BULK: usize = 1;

/// Packets in order, doubly linked, so that one can leave from the middle.
#[derive(Debug)]
struct List<P> {
    nodes: Vec<Node<P>>,
    /// Nodes without a packet, chained by `next`.
    free: u32,
    head: u32,
    tail: u32,
    /// Where to look next; `NIL` after the last packet.
    scan: u32,
    packets: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Node<P> {
    pkt: Option<P>,
    before: u32,
    next: u32,
    /// Of the bulk queue: the next packet of the same flow, and a number that grows from packet to packet.
    after: u32,
    order: u64,
}

impl<P: Pkt> List<P> {
    fn new() -> Self {
        List { nodes: Vec::new(), free: NIL, head: NIL, tail: NIL, scan: NIL, packets: 0, bytes: 0 }
    }
    #[inline]
    fn node(&mut self, at: u32) -> Option<&mut Node<P>> {
        self.nodes.get_mut(at as usize)
    }
    #[inline]
    fn get(&self, at: u32) -> Option<&P> {
        self.nodes.get(at as usize)?.pkt.as_ref()
    }

    fn push(&mut self, pkt: P, order: u64) -> u32 {
        self.packets += 1;
        self.bytes += u64::from(pkt.frame_len());
        let node = Node { pkt: Some(pkt), before: self.tail, next: NIL, after: NIL, order };
        let at = self.free;
        let at = if let Some(reused) = self.node(at) {
            let free = reused.next;
            *reused = node;
            self.free = free;
            at
        } else {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        };
        match self.node(self.tail) {
            Some(tail) => tail.next = at,
            None => (self.head, self.scan) = (at, at),
        }
        self.tail = at;
        at
    }

    /// Takes a packet out; a scan that was there goes on with the next.
    fn remove(&mut self, at: u32) -> Option<P> {
        let free = self.free;
        let node = self.node(at)?;
        let pkt = node.pkt.take()?;
        let (before, next) = (node.before, node.next);
        node.next = free;
        self.free = at;
        match self.node(before) {
            Some(node) => node.next = next,
            None => self.head = next,
        }
        match self.node(next) {
            Some(node) => node.before = before,
            None => self.tail = before,
        }
        if self.scan == at {
            self.scan = next;
        }
        self.packets -= 1;
        self.bytes -= u64::from(pkt.frame_len());
        Some(pkt)
    }
}

/// A flow's state besides its COBALT.
#[derive(Copy, Clone, Debug)]
struct Flow {
    /// Bytes it may send in this sweep.
    deficit: i32,
    backlog: u32,
    /// It has sent enough in this sweep.
    skip: bool,
    /// The next sweep looks at it.
    listed: bool,
    /// Its packets in the bulk queue.
    first: u32,
    last: u32,
}

impl Default for Flow {
    fn default() -> Self {
        Flow { deficit: 0, backlog: 0, skip: false, listed: false, first: NIL, last: NIL }
    }
}

/// The queue at work.
#[derive(Debug)]
pub struct LfqCobalt<P> {
    sparse: List<P>,
    bulk: List<P>,
    /// The first bulk packet of each flow that may send, in order. What the scan has passed over belongs to flows that may
    /// not until the next sweep, so the first of these is what it finds next, without a look at each packet of a flood.
    ready: BTreeSet<(u64, u16)>,
    /// Of the next packet of the bulk queue.
    order: u64,
    flows: Box<[Flow]>,
    /// Flows that changed since the last sweep.
    changed: Vec<u16>,
    cobalt: PerFlow,
    params: CobaltParams,
    low_latency: CobaltParams,
    line: Line,
    shaper: Shaper,
    memlimit: u64,
}

impl<P: Pkt> LfqCobalt<P> {
    fn new(config: &LfqCobaltConfig) -> Self {
        let law = &config.cobalt;
        LfqCobalt {
            sparse: List::new(),
            bulk: List::new(),
            ready: BTreeSet::new(),
            order: 0,
            flows: vec![Flow::default(); FLOWS].into_boxed_slice(),
            changed: Vec::with_capacity(FLOWS),
            cobalt: PerFlow::new(),
            params: law.params(),
            low_latency: law.params_divided(DIVISOR),
            line: law.line.clone(),
            shaper: Shaper::new(Pace::new(law.line.rate)),
            memlimit: config.memory(),
        }
    }

    #[inline]
    fn packets(&self) -> u64 {
        self.sparse.packets + self.bulk.packets
    }

    #[inline]
    fn changes(&mut self, number: u16) -> &mut Flow {
        let flow = &mut self.flows[usize::from(number)];
        if !flow.listed {
            flow.listed = true;
            self.changed.push(number);
        }
        flow
    }

    /// The scan has seen all: whoever had to wait may send again.
    fn sweep(&mut self) {
        for number in self.changed.drain(..) {
            let flow = &mut self.flows[usize::from(number)];
            if !flow.skip && flow.backlog == 0 {
                flow.deficit = 0;
            }
            if flow.skip && flow.first != NIL {
                self.ready.insert((self.bulk.nodes[flow.first as usize].order, number));
            }
            flow.skip = false;
            flow.listed = false;
        }
        self.bulk.scan = self.bulk.head;
    }

    /// The next packet of a flow that may send.
    fn scan(&mut self) -> Option<P> {
        loop {
            if self.bulk.scan == NIL {
                self.sweep();
            }
            match self.ready.first() {
                Some(&(_, number)) => {
                    self.bulk.scan = self.flows[usize::from(number)].first;
                    return self.take_bulk(self.bulk.scan);
                }
                None if self.bulk.packets == 0 => return None,
                None => self.bulk.scan = NIL,
            }
        }
    }

    fn push_bulk(&mut self, number: u16, pkt: P) {
        let at = self.bulk.push(pkt, self.order);
        let flow = &mut self.flows[usize::from(number)];
        match self.bulk.node(flow.last) {
            Some(last) => last.after = at,
            None => {
                flow.first = at;
                if !flow.skip {
                    self.ready.insert((self.order, number));
                }
            }
        }
        flow.last = at;
        self.order += 1;
    }

    /// Takes the first packet of a flow out of the bulk queue.
    fn take_bulk(&mut self, at: u32) -> Option<P> {
        let number = flow_of(self.bulk.get(at)?);
        let Node { after, order, .. } = self.bulk.nodes[at as usize];
        self.ready.remove(&(order, number));
        let flow = &mut self.flows[usize::from(number)];
        flow.first = after;
        match self.bulk.node(after) {
            None => flow.last = NIL,
            Some(next) if !flow.skip => drop(self.ready.insert((next.order, number))),
            Some(_) => {}
        }
        self.bulk.remove(at)
    }

    /// The flow pays for a packet, delivered or dropped by its COBALT.
    #[inline]
    fn pay(&mut self, number: u16, len: u32) {
        let flow = self.changes(number);
        flow.backlog -= 1;
        flow.deficit -= len as i32;
        if flow.deficit < 0 {
            flow.skip = true;
            flow.deficit += MTU_FRAME as i32;
            let first = flow.first;
            if let Some(node) = self.bulk.node(first) {
                self.ready.remove(&(node.order, number));
            }
        }
    }

    /// Makes room for `len` bytes, oldest first; kernel memory is taken as twice the frame.
    fn make_room(&mut self, len: u32, cx: &mut QueueCx<P>) {
        while 2 * (self.sparse.bytes + self.bulk.bytes + u64::from(len)) > self.memlimit {
            let (band, oldest) = match self.bulk.packets {
                0 => (SPARSE, self.sparse.remove(self.sparse.head)),
                _ => (BULK, self.take_bulk(self.bulk.head)),
            };
            let Some(pkt) = oldest else { return };
            self.changes(flow_of(&pkt)).backlog -= 1;
            cx.band(band);
            cx.drop(pkt, DropReason::Overflow);
        }
    }
}

impl<P: Pkt + Send> Aqm<P> for LfqCobalt<P> {
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        let len = pkt.frame_len();
        if 2 * u64::from(len) > self.memlimit {
            cx.band(BULK);
            return cx.drop(pkt, DropReason::Overflow);
        }
        self.make_room(len, cx);
        if self.packets() == 0 {
            self.shaper.begins(cx.now);
        }
        let number = flow_of(&pkt);
        let flow = self.changes(number);
        let sparse = flow.backlog == 0 && flow.deficit >= 0 && !flow.skip;
        flow.backlog += 1;
        cx.band(if sparse { SPARSE } else { BULK });
        match sparse {
            true => drop(self.sparse.push(pkt, 0)),
            false => self.push_bulk(number, pkt),
        }
    }

    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        if self.packets() == 0 || !self.shaper.ready(cx.now) {
            return None;
        }
        loop {
            let sparse = self.sparse.remove(self.sparse.head);
            let is_sparse = sparse.is_some();
            cx.band(if is_sparse { SPARSE } else { BULK });
            let mut pkt = match sparse {
                Some(pkt) => pkt,
                None => self.scan()?,
            };
            let number = flow_of(&pkt);
            self.pay(number, pkt.frame_len());
            if !is_sparse && self.packets() == 0 {
                self.cobalt.of(number).empty(&self.params, cx.now);
            } else if !is_sparse {
                let low = pkt.dscp() == DSCP;
                let params = if low { &self.low_latency } else { &self.params };
                let drop = self.cobalt.of(number).drops(params, Weight::EVEN, &mut pkt, cx);
                // A flow keeps its last packet.
                if drop && self.flows[usize::from(number)].backlog > 0 {
                    cx.drop(pkt, DropReason::Aqm);
                    continue;
                }
            }
            self.shaper.charge(self.line.on_wire(pkt.frame_len()), false);
            let flows = &self.flows;
            let idle = |flow: u16| flows[usize::from(flow)].backlog == 0;
            self.cobalt.calm_next(&self.params, cx.now, idle);
            return Some(pkt);
        }
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets(), bytes: self.sparse.bytes + self.bulk.bytes }
    }
    fn next_timer(&self) -> Time {
        self.shaper.wake()
    }
    fn on_timer(&mut self, _cx: &mut QueueCx<P>) {
        self.shaper.woken();
    }
    /// Packets beyond a smaller memlimit leave when the next one comes.
    fn change(&mut self, to: &dyn Any, _cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let config = to.downcast_ref::<LfqCobaltConfig>().ok_or_else(Vec::new)?;
        let law = &config.cobalt;
        self.shaper.pace = Pace::new(law.line.rate);
        (self.params, self.low_latency) = (law.params(), law.params_divided(DIVISOR));
        (self.line, self.memlimit) = (law.line.clone(), config.memory());
        Ok(())
    }
    fn bands(&self) -> &'static [&'static str] {
        &["sparse", "bulk"]
    }
    /// Counts and BLUE's probability of the flow judged last.
    fn probe(&self, out: &mut dyn Gauges) {
        self.cobalt.probe(out);
    }
}

params! {
    /// The parameters, by their names in `tc`.
    pub struct LfqCobaltConfig {
        cobalt: CobaltConfig = CobaltConfig::default(), nested();
        /// kernel memory, taken as two bytes per byte; 0 is no limit
        memlimit: u32 = 0, size(0..=u32::MAX), "chromi/sce";
    }
}

impl LfqCobaltConfig {
    fn memory(&self) -> u64 {
        match self.memlimit {
            0 => u64::MAX,
            limit => u64::from(limit),
        }
    }
}

impl Described for LfqCobaltConfig {
    const NAME: &'static str = "lfq_cobalt";
    const SUMMARY: &'static str =
        "lightweight fair queueing with a shaper; COBALT and SCE marks by flow";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] =
        &[cobalt_sce::CE_COUNT, cobalt_sce::SCE_COUNT, cobalt_sce::P_BLUE];

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

impl Qdisc for LfqCobaltConfig {
    const SEPARATION: Separation = Separation::PerFlow;
    const MARKING: Marking = Marking::Always;

    fn room(&self, _link: LinkInfo) -> Room {
        Room {
            always: (FLOWS * size_of::<(Flow, u16)>()) as u64 + STATES,
            ..Room::of_bytes(self.memory() / 2)
        }
        .shaped(self.cobalt.line.rate)
    }
    fn build<P: Pkt + Send + 'static>(&self, _link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(LfqCobalt::new(self))
    }
}
