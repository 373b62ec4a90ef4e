//! FQ-CoDel (RFC 8290), as Linux has it (`sch_fq_codel`, 7.2).
//!
//! A hash distinguishes flows, which share the link by deficit round robin; a flow that sends
//! little goes first. Each flow's queue is under CoDel. So a flow that builds a queue waits in it and gets
//! marks or drops, and the others do not notice. With `flows 1` it is the single CoDel queue of
//! many papers; unlike `codel` it marks by default and drops heads when it overflows.
//!
//! When the whole qdisc is full, the flow with the most bytes loses half of them from its head, at
//! most `drop_batch` packets, and its CoDel counts them as signals (Linux; RFC 8290, 4.1
//! drops one packet, or a batch).

use std::any::Any;

use super::codel::{self, Codel, CodelParams, Selector};
use super::drr::{self, Drr};
use super::flow_hash::FlowHash;
use super::queue::Queue;
use super::{
    Aqm, Backlog, DropReason, Gauges, LinkInfo, Marking, Overflow, Pkt, Qdisc, QueueCx, Room,
    Separation, drop_excess,
};
use crate::packet::Packet;
use crate::params::kinds::{Spec, nested, number, params, size, value};
use crate::params::{Described, Gauge, Given, Refused, gauge};
use crate::tc;
use crate::units::MTU_FRAME;

/// The number of flows that the kernel takes.
const FLOWS_MAX: u32 = 1 << 16;
/// The kernel cuts a larger one.
const MEMORY_LIMIT_MAX: u32 = 1 << 31;
/// The kernel raises a smaller quantum to the first and refuses one beyond the second.
const QUANTUM_MIN: u32 = 256;
const QUANTUM_MAX: u32 = 1 << 20;

params! {
    /// The parameters, by their names in `tc`.
    pub struct FqCodelConfig {
        /// largest backlog of all flows, in packets; drops from the head
        limit: u32 = 10_240, number(1..=u32::MAX).shown("PACKETS"), "as RFC 8290, 5.2";
        /// number of flow queues that packets are hashed into
        flows: u32 = 1024, number(1..=FLOWS_MAX), "as RFC 8290, 5.2";
        /// bytes per flow and round; at least 256
        quantum: u32 = MTU_FRAME, number(1..=QUANTUM_MAX).shown("BYTES").fitted(|n| n.max(QUANTUM_MIN)), "Linux: a full frame";
        params: CodelParams = CodelParams { ecn: true, ..CodelParams::default() }, nested();
        /// ce_threshold only where the DS field, masked, has the value: 0x01/0x01 is ECT(1) and CE
        ce_threshold_selector: Option<Selector> = None, selector().optional(), "Linux";
        /// kernel memory; the default holds 14315 full TCP segments or 14563 full UDP packets
        memory_limit: u32 = 32 << 20, size(0..=u32::MAX).fitted(|n| n.min(MEMORY_LIMIT_MAX)), "Linux";
        /// largest number of packets to drop at once from a full queue
        drop_batch: u32 = 64, number(1..=u32::MAX).shown("PACKETS"), "Linux";
    }
}

#[derive(Debug)]
struct Flow<P> {
    queue: Queue<P>,
    codel: Codel,
}

impl<P: Pkt> Default for Flow<P> {
    fn default() -> Self {
        Flow { queue: Queue::new(), codel: Codel::default() }
    }
}

/// The queue at work.
#[derive(Debug)]
pub struct FqCodel<P> {
    flows: Drr<Flow<P>>,
    hash: FlowHash,
    packets: u64,
    bytes: u64,
    /// Kernel memory of the backlog.
    memory: u64,
    config: FqCodelConfig,
}

impl<P: Pkt> FqCodel<P> {
    pub fn new(config: FqCodelConfig) -> Self {
        let mut flows = Drr::new(config.quantum);
        flows.add(Flow::default());
        FqCodel { flows, hash: FlowHash::default(), packets: 0, bytes: 0, memory: 0, config }
    }

    #[inline]
    fn is_over(&self, cx: &QueueCx<P>) -> bool {
        self.packets + cx.held.packets > u64::from(self.config.limit)
            || self.memory > u64::from(self.config.memory_limit)
    }

    /// Drops from the head of the flow with the most bytes.
    #[cold]
    fn drop_from_fattest(&mut self, cx: &mut QueueCx<P>) {
        let (mut fattest, mut most) = (0, 0);
        for (i, flow) in self.flows.flows().enumerate() {
            if flow.queue.bytes() > most {
                (fattest, most) = (i, flow.queue.bytes());
            }
        }
        let flow = self.flows.flow_mut(fattest);
        let (mut packets, mut bytes, mut memory) = (0, 0, 0);
        while let Some(pkt) = flow.queue.pop() {
            packets += 1;
            bytes += u64::from(pkt.frame_len());
            memory += u64::from(pkt.truesize());
            cx.drop(pkt, DropReason::Overflow);
            if packets == self.config.drop_batch || bytes >= most / 2 {
                break;
            }
        }
        flow.codel.overflowed(packets);
        self.packets -= u64::from(packets);
        self.bytes -= bytes;
        self.memory -= memory;
    }
}

impl<P: Pkt + Send> Aqm<P> for FqCodel<P> {
    #[inline]
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        let i = self.hash.index(pkt.flow_hash(), self.config.flows, cx.rng);
        self.packets += 1;
        self.bytes += u64::from(pkt.frame_len());
        self.memory += u64::from(pkt.truesize());
        self.flows.reach(i, Flow::default).queue.push(pkt);
        self.flows.activate(i);
        if self.is_over(cx) {
            self.drop_from_fattest(cx);
        }
    }

    #[inline]
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        loop {
            let i = self.flows.turn()?;
            let Flow { queue, codel } = self.flows.flow_mut(i);
            let (packets, bytes, memory) = (&mut self.packets, &mut self.bytes, &mut self.memory);
            let take = || {
                let pkt = queue.pop()?;
                *packets -= 1;
                *bytes -= u64::from(pkt.frame_len());
                *memory -= u64::from(pkt.truesize());
                Some((pkt, *bytes))
            };
            if let Some(pkt) = codel.dequeue(&self.config.params, cx, take) {
                self.flows.charge(i, pkt.frame_len());
                return Some(pkt);
            }
            self.flows.found_empty();
        }
    }

    fn tells_drops_late(&self) -> bool {
        true
    }
    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets, bytes: self.bytes }
    }

    /// The statistics of `tc -s` for the qdisc; and those of CoDel, if there is only one.
    /// Packets beyond a smaller limit leave in turn, through CoDel, and are lost.
    fn change(&mut self, to: &dyn Any, cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let config = to.downcast_ref::<FqCodelConfig>().ok_or_else(Vec::new)?.clone();
        self.flows.set_quantum(config.quantum);
        self.config = config;
        drop_excess(cx, |cx| if self.is_over(cx) { self.dequeue(cx) } else { None });
        Ok(())
    }

    fn probe(&self, out: &mut dyn Gauges) {
        let (new, old) = self.flows.listed();
        out.gauge("new_flows", f64::from(new));
        out.gauge("old_flows", f64::from(old));
        out.gauge("memory_used_bytes", self.memory as f64);
        if self.config.has_more_gauges() {
            self.flows.flow(0).codel.probe(out);
        }
    }
}

impl Described for FqCodelConfig {
    const NAME: &'static str = "fq_codel";
    const SUMMARY: &'static str =
        "fair queueing with CoDel on each flow (RFC 8290); `flows 1` is a single queue";
    const GAUGES: &'static [Gauge] = &[
        gauge("new_flows", "", "flows in the list of new ones"),
        gauge("old_flows", "", "flows in the list of old ones"),
        gauge("memory_used_bytes", "B", "kernel memory of the backlog"),
    ];
    const MORE_GAUGES: &'static [Gauge] = codel::GAUGES;
    const FIXED: &'static [&'static str] = &["flows"];

    fn finish(&mut self, _given: &Given) -> Result<(), Refused> {
        self.params.selector = self.ce_threshold_selector;
        Ok(())
    }
    fn has_more_gauges(&self) -> bool {
        self.flows == 1
    }
}

impl Qdisc for FqCodelConfig {
    const SEPARATION: Separation = Separation::PerFlow;
    const SEPARATION_WITH: &'static [(&'static str, Separation)] =
        &[("flows 1", Separation::Single)];
    const MARKING: Marking = Marking::With(&["ecn", "ce_threshold"]);
    const OVERFLOW: Overflow = Overflow::Counter("drop_overlimit");
    const DROPS_WAITING: bool = true;
    const LIMITS_PACKETS: bool = true;

    fn room(&self, _link: LinkInfo) -> Room {
        Room {
            packets: self.limit.into(),
            memory: self.memory_limit.into(),
            tables: drr::bytes::<Flow<Packet>>(self.flows),
            ..Room::ENDLESS
        }
    }
    fn build<P: Pkt + Send + 'static>(&self, _link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(FqCodel::new(self.clone()))
    }
}

/// `tc` drops a value of 0xff; a mask of 0 would select everything.
fn selector() -> Spec<Selector> {
    let byte = |s: &str| u8::try_from(tc::parse_count_any_base(s)?).ok();
    value(
        "VALUE/MASK",
        "a value up to 0xfe and a mask such as 0x01/0x01",
        move |s| {
            let (value, mask) = s.split_once('/')?;
            let (value, mask) = (byte(value)?, byte(mask)?);
            (value != 0xff && mask != 0).then_some(Selector { value, mask })
        },
        |by| format!("{:#04x}/{:#04x}", by.value, by.mask),
        |rng| format!("{}/{}", rng.below(0xff), 1 + rng.below(0xff)),
        ["1", "0xff/0xff", "1/256", "1/0"].map(str::to_owned).into(),
    )
}
