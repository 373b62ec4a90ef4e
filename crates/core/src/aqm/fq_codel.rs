//! FQ-CoDel (RFC 8290), as Linux has it (`sch_fq_codel`, 7.2).
//!
//! Flows are told apart by a hash and share the link by deficit round robin; a flow that sends
//! little goes first. Each flow's queue is under CoDel. So whoever builds a queue waits in it, and is
//! told to slow down, and the others do not notice. With `flows 1` it is the single CoDel queue of
//! many papers; unlike `codel` it marks by default and drops heads when it overflows.
//!
//! When the whole qdisc is full, the flow with the most bytes loses half of them from its head, at
//! most `drop_batch` packets, and its CoDel counts them as signals (Linux; RFC 8290 Section
//! 4.1 drops one packet, or a batch).

use super::codel::{CE_THRESHOLD_PARAM, Codel, CodelParams, INTERVAL_PARAM, TARGET_PARAM};
use super::drr::Drr;
use super::fifo::Queue;
use super::flow_hash::FlowHash;
use super::registry::{LinkInfo, Qdisc};
use super::{Aqm, Backlog, DropReason, Gauges, Pkt, QueueCx};
use crate::tc::{self, Args, Param, TcError, param, parse_size};
use crate::units::{MTU_FRAME, SKB_OVERHEAD};

/// Packets. As RFC 8290 Section 5.2.
const LIMIT: u32 = 10_240;
/// As RFC 8290 Section 5.2.
const FLOWS: u32 = 1024;
/// The number of flows that the kernel takes.
const FLOWS_MAX: u32 = 1 << 16;
/// Bytes of kernel memory, which `tc -s` reports as memory_used (Linux). It holds 13934 full frames, so
/// that the default limit of 10240 binds first.
const MEMORY_LIMIT: u32 = 32 << 20;
const MEMORY_LIMIT_MAX: u32 = 1 << 31;
/// Linux.
const DROP_BATCH: u32 = 64;
/// The kernel raises a smaller quantum to the first and refuses one beyond the second.
const QUANTUM_MIN: u32 = 256;
const QUANTUM_MAX: u32 = 1 << 20;

/// The parameters, by their names in `tc`.
#[derive(Clone, PartialEq, Debug)]
pub struct FqCodelConfig {
    /// In packets, all flows together.
    pub limit: u32,
    pub flows: u32,
    /// In bytes.
    pub quantum: u32,
    /// In bytes of kernel memory.
    pub memory_limit: u32,
    /// In packets.
    pub drop_batch: u32,
    pub params: CodelParams,
}

impl Default for FqCodelConfig {
    fn default() -> Self {
        FqCodelConfig {
            limit: LIMIT,
            flows: FLOWS,
            quantum: MTU_FRAME,
            memory_limit: MEMORY_LIMIT,
            drop_batch: DROP_BATCH,
            params: CodelParams::new(true),
        }
    }
}

#[derive(Debug)]
struct Flow<P> {
    queue: Queue<P>,
    codel: Codel,
}

/// The queue at work.
#[derive(Debug)]
pub struct FqCodel<P> {
    flows: Drr<Flow<P>>,
    hash: FlowHash,
    packets: u64,
    bytes: u64,
    config: FqCodelConfig,
}

impl<P: Pkt> FqCodel<P> {
    pub fn new(config: FqCodelConfig) -> Self {
        let mut flows = Drr::new(config.quantum);
        for _ in 0..config.flows {
            flows.add(Flow { queue: Queue::new(), codel: Codel::default() });
        }
        FqCodel { flows, hash: FlowHash::default(), packets: 0, bytes: 0, config }
    }

    /// Kernel memory of what waits.
    fn memory(&self) -> u64 {
        self.bytes + self.packets * SKB_OVERHEAD
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
        let (mut packets, mut bytes) = (0, 0);
        while let Some(pkt) = flow.queue.pop() {
            packets += 1;
            bytes += u64::from(pkt.frame_len());
            cx.drop(pkt, DropReason::Overflow);
            if packets == self.config.drop_batch || bytes >= most / 2 {
                break;
            }
        }
        flow.codel.overflowed(packets);
        self.packets -= u64::from(packets);
        self.bytes -= bytes;
    }
}

impl<P: Pkt + Send> Aqm<P> for FqCodel<P> {
    #[inline]
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        let i = self.hash.index(pkt.flow_hash(), self.config.flows, cx.rng);
        self.packets += 1;
        self.bytes += u64::from(pkt.frame_len());
        self.flows.flow_mut(i).queue.push(pkt);
        self.flows.activate(i);
        if self.packets > u64::from(self.config.limit)
            || self.memory() > u64::from(self.config.memory_limit)
        {
            self.drop_from_fattest(cx);
        }
    }

    #[inline]
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        loop {
            let i = self.flows.turn()?;
            let Flow { queue, codel } = self.flows.flow_mut(i);
            let (packets, bytes) = (&mut self.packets, &mut self.bytes);
            let take = || {
                let pkt = queue.pop()?;
                *packets -= 1;
                *bytes -= u64::from(pkt.frame_len());
                Some((pkt, *bytes))
            };
            if let Some(pkt) = codel.dequeue(&self.config.params, cx, take) {
                self.flows.charge(i, pkt.frame_len());
                return Some(pkt);
            }
            self.flows.found_empty();
        }
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets, bytes: self.bytes }
    }

    /// What `tc -s` shows of the qdisc; and of CoDel, if there is only one.
    fn probe(&self, out: &mut dyn Gauges) {
        let (new, old) = self.flows.listed();
        out.gauge("new_flows", f64::from(new));
        out.gauge("old_flows", f64::from(old));
        out.gauge("memory_used_bytes", self.memory() as f64);
        if self.config.flows == 1 {
            self.flows.flow(0).codel.probe(out);
        }
    }
}

impl Qdisc for FqCodelConfig {
    const NAME: &'static str = "fq_codel";
    const SUMMARY: &'static str =
        "fair queueing with CoDel on each flow (RFC 8290); `flows 1` is a single queue";
    const PARAMS: &'static [Param] = &[
        param("limit", "PACKETS", "10240", "what all flows hold at most; drops from the head"),
        param("flows", "NUMBER", "1024", "into how many flows packets are hashed"),
        param("quantum", "BYTES", "1514", "what a flow may send in its turn; at least 256"),
        TARGET_PARAM,
        INTERVAL_PARAM,
        param("ecn", "", "yes", "mark instead of dropping"),
        param("noecn", "", "", "drop, whatever the packet's codepoint"),
        CE_THRESHOLD_PARAM,
        param(
            "ce_threshold_selector",
            "VALUE/MASK",
            "",
            "ce_threshold only where the DS field, masked, has the value: 0x01/0x01 is ECT(1) and CE",
        ),
        param("memory_limit", "BYTES", "33554432", "memory; 894 B per packet besides its frame"),
        param("drop_batch", "PACKETS", "64", "how many may go at once when it is full"),
    ];

    fn parse(args: &mut Args) -> Result<Self, TcError> {
        let mut config = FqCodelConfig::default();
        while let Some(keyword) = args.keyword() {
            match keyword {
                "limit" => config.limit = args.number(1, u32::MAX)?,
                "flows" => config.flows = args.number(1, FLOWS_MAX)?,
                "quantum" => config.quantum = args.number(1, QUANTUM_MAX)?.max(QUANTUM_MIN),
                "memory_limit" => {
                    let bytes = args.value("a size such as 32m (m is 1024 k)", parse_size)?;
                    config.memory_limit = bytes.min(MEMORY_LIMIT_MAX);
                }
                "drop_batch" => config.drop_batch = args.number(1, u32::MAX)?,
                "ce_threshold_selector" => {
                    let expected = "a value up to 0xfe and a mask such as 0x01/0x01";
                    let (value, mask) = args.value(expected, parse_selector)?;
                    config.params.ce_threshold_selector = value;
                    config.params.ce_threshold_mask = mask;
                }
                _ if config.params.read(keyword, args)? => {}
                _ => return Err(args.unknown()),
            }
        }
        Ok(config)
    }

    fn canonical(&self) -> String {
        let mut text = format!(
            "limit {} flows {} quantum {} {}",
            self.limit,
            self.flows,
            self.quantum,
            self.params.canonical(),
        );
        let (value, mask) = (self.params.ce_threshold_selector, self.params.ce_threshold_mask);
        if mask != 0 {
            text += &format!(" ce_threshold_selector {value:#04x}/{mask:#04x}");
        }
        text + &format!(" memory_limit {} drop_batch {}", self.memory_limit, self.drop_batch)
    }

    fn build<P: Pkt + Send + 'static>(&self, _link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(FqCodel::new(self.clone()))
    }
}

/// `tc` drops a value of 0xff; a mask of 0 would select everything.
fn parse_selector(text: &str) -> Option<(u8, u8)> {
    let (value, mask) = text.split_once('/')?;
    let byte = |s| u8::try_from(tc::parse_count_any_base(s)?).ok();
    let (value, mask) = (byte(value)?, byte(mask)?);
    (value != 0xff && mask != 0).then_some((value, mask))
}
