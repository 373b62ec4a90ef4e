//! The interface of a queue discipline.
//!
//! A queue owns its packets, is told the time, and never schedules itself. It tells the link about
//! drops, marks and duplicates through [`QueueCx`], which makes two invariants checkable from outside:
//! packets in + duplicates = packets out + drops + backlog, and no CE on a Not-ECT packet.

pub mod blue;
pub mod cake;
pub mod choke;
pub mod cnq;
pub mod cobalt;
pub mod cobalt_sce;
pub mod codel;
pub mod curvy_red;
pub mod deltic;
pub mod docsis;
pub mod docsis_pie;
pub mod drr;
pub mod dualpi2;
pub mod dualpi2_rfc9332;
pub mod fifo;
pub mod flow_hash;
pub mod fq;
pub mod fq_codel;
pub mod fq_pie;
pub mod hhf;
pub mod hosts;
pub mod inverse_sqrt;
pub mod jiffies;
pub mod lens;
pub mod lfq_cobalt;
pub mod line;
pub mod netem;
pub mod own;
pub mod pfifo_fast;
pub mod pi2;
pub mod pie;
pub mod police;
pub mod printed;
pub mod priorities;
pub mod queue;
pub mod queue_protection;
pub mod red;
pub mod registry;
pub mod scheduler;
pub mod service;
pub mod sfb;
pub mod sfq;
pub mod shaper;
pub mod stab;
pub mod tbf;
pub mod trace;
pub mod tree;
pub mod twin_codel_af;

use std::any::Any;

use serde::Serialize;

use self::hosts::Hosts;
use self::lens::Earliest;
use self::police::Policed;
use self::service::{Carried, Interval, Service};
use self::tree::ClassSpec;
use crate::ecn::Ecn;
use crate::packet::SackSlot;
use crate::params::Described;
use crate::probe::Gauges;
use crate::rng::Rng;
use crate::sack::Blocks;
use crate::time::{Span, Time};
use crate::units::{self, Rate};

/// The fields of a packet that a queue may read. Generic, so that the same queue runs in the simulator and on
/// real packets.
pub trait Pkt: Clone {
    /// Bytes as a qdisc counts them: the Ethernet frame without FCS.
    fn frame_len(&self) -> u32;
    /// The same of its longest segment, if it holds several.
    fn segment_len(&self) -> u32 {
        self.frame_len()
    }
    /// Bytes of kernel memory that it takes (`truesize` in Linux).
    fn truesize(&self) -> u32 {
        units::udp_truesize(self.frame_len())
    }
    fn ecn(&self) -> Ecn;
    fn set_ecn(&mut self, ecn: Ecn);
    /// When the packet arrived at this queue; stamped by the link before `enqueue`.
    fn enqueued_at(&self) -> Time;
    /// The same for all packets of one transport flow, spread over all 32 bits.
    fn flow_hash(&self) -> u32;
    /// The same for all packets from one host, and to one host.
    fn source_hash(&self, hosts: &Hosts) -> u32;
    fn destination_hash(&self, hosts: &Hosts) -> u32;
    /// The six bits of the Differentiated Services field.
    fn dscp(&self) -> u8;
    fn set_dscp(&mut self, dscp: u8);
    /// Flips a bit; the receiver's checksum will tell.
    fn corrupt(&mut self);
    /// There is another one like it from now on.
    fn set_copied(&mut self) {}
    /// What those read who filter ACKs; `None` of what travels with the data, whose ACKs never say more than the one
    /// before.
    fn tcp(&self) -> Option<TcpHeader> {
        None
    }
}

/// The fields of a TCP header that a queue may read.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct TcpHeader {
    /// The same for all packets of one connection and direction.
    pub connection: u32,
    /// The acknowledgement number: the next expected segment.
    pub number: u32,
    /// The time stamps, in milliseconds.
    pub tsval: u32,
    pub tsecr: u32,
    /// ECE and CWR.
    pub ecn: u8,
    pub sack: SackSlot,
    /// It has the flag ACK, and not SYN.
    pub acknowledges: bool,
    /// It has no payload, no flags but ACK, ECE and CWR, and no options but time stamps and SACK.
    pub is_pure: bool,
}

/// A queue discipline. The first three methods are what every queue has; [`ReadsHosts`], [`ReadsSacks`], [`Divided`], [`Asked`]
/// and [`Classes`] are for those that need more than [`Pkt`] says.
pub trait Aqm<P: Pkt>: Send {
    /// Takes the packet, or gives it to `cx.drop(pkt, why)`.
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>);
    /// The next packet to send. May drop or mark on the way. `None` if nothing is left; a queue
    /// that holds packets back returns `None` too, and `next_timer` then says when to ask again.
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P>;
    fn backlog(&self) -> Backlog;

    /// The length of the packet that `dequeue` gives next, whenever that is; `None` of a queue that does not know before,
    /// or is empty.
    fn next_len(&self) -> Option<u32> {
        None
    }
    /// When it drops during `dequeue`, its parent hears of it after the packet that leaves has been counted, and takes an
    /// empty queue for one that has nothing to send (`qdisc_tree_reduce_backlog`).
    fn tells_drops_late(&self) -> bool {
        false
    }
    /// As `enqueue`. A queue that copies the packet straight into its place saves the way over the stack.
    #[inline(always)]
    fn enqueue_copy(&mut self, pkt: &P, cx: &mut QueueCx<P>) {
        self.enqueue(pkt.clone(), cx);
    }
    /// As `dequeue`, with the packet put at the end of `departed`; false if there is none.
    #[inline(always)]
    fn dequeue_into(&mut self, departed: &mut Vec<P>, cx: &mut QueueCx<P>) -> bool {
        let pkt = self.dequeue(cx);
        let is_some = pkt.is_some();
        departed.extend(pkt);
        is_some
    }
    /// When `on_timer` wants to be called next; `dequeue` is tried after it.
    fn next_timer(&self) -> Time {
        Time::NEVER
    }
    fn on_timer(&mut self, _cx: &mut QueueCx<P>) {}
    /// Continues with other parameters of its kind, and keeps its packets but for what Linux drops (`tc qdisc change`).
    ///
    /// # Errors
    /// It cannot, or the parameters are of another kind: a new queue takes its place and these packets, in this order.
    fn change(&mut self, _to: &dyn Any, _cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        Err(Vec::new())
    }
    /// Names of the queues inside that are reported apart, e.g. `["L", "C"]`; the position is the
    /// number given to [`QueueCx::band`]. Empty for a single queue.
    fn bands(&self) -> &'static [&'static str] {
        &[]
    }
    /// How many packets wait in one of them; only asked where a change has led to other bands.
    fn waiting_in(&self, _band: usize) -> u64 {
        self.backlog().packets
    }
    /// The queue's inner state, for time series.
    fn probe(&self, _out: &mut dyn Gauges) {}
    /// Itself, if it asks which flows share a host.
    fn hosts(&mut self) -> Option<&mut dyn ReadsHosts> {
        None
    }
    /// Itself, if it reads SACK blocks.
    fn sacks(&mut self) -> Option<&mut dyn ReadsSacks> {
        None
    }
    /// Itself, if it has parts that a medium can serve apart (`net/medium.rs`).
    fn divided(&mut self) -> Option<&mut dyn Divided<P>> {
        None
    }
    /// Itself, if its packets wait for a permission before they wait for others.
    fn asked(&mut self) -> Option<&mut dyn Asked> {
        None
    }
    /// Itself, if it has classes.
    fn classes(&mut self) -> Option<&mut dyn Classes<P>> {
        None
    }
    /// Itself, if it is a link's queue behind a policer.
    fn policed(&mut self) -> Option<&mut Policed<P>> {
        None
    }
    /// Runs a link over a window. Provided, so that it is compiled for each queue: one indirect call
    /// per window instead of several per packet.
    fn run(&mut self, service: &mut Service<P>, window: &mut Interval<P>)
    where
        P: Carried,
    {
        service::run::<P, Self, false>(self, service, window);
    }
}

/// A queue that is fair between hosts.
pub trait ReadsHosts {
    /// Which flows share a host; said before the first packet comes.
    fn know_hosts(&mut self, hosts: &Hosts);
}

/// A queue for several stations, or with low-latency packets in part 0 and all others in part 1.
pub trait Divided<P: Pkt> {
    fn dequeue_from(&mut self, part: usize, cx: &mut QueueCx<P>) -> Option<P>;
    fn backlog_of(&self, part: usize) -> Backlog;
    /// Said once, before the first packet comes: a cable modem serves it.
    fn know_grants(&mut self, _grants: Grants) {}
}

/// How the low-latency packets of a cable modem get grants.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Grants {
    /// From a request to the end of the interval in which it is granted, as the modem estimates it.
    pub wait: Span,
    /// Grants without requests: their rate (zero: none) and interval.
    pub rate: Rate,
    pub interval: Span,
}

/// A queue that filters ACKs.
pub trait ReadsSacks {
    /// The slot's value before the packet arrives.
    fn learn_sack(&mut self, slot: SackSlot, blocks: Blocks);
}

/// A queue that does not count the wait for a medium's permission.
pub trait Asked {
    /// When the packet that comes next can be sent.
    fn expect(&mut self, earliest: Earliest);
    /// The same of the packet that left last.
    fn earliest(&mut self) -> Time;
}

/// A queue whose classes have queues of their own.
pub trait Classes<P: Pkt> {
    /// Continues with other numbers of a class, or another queue in it.
    fn change_class(&mut self, to: &ClassSpec, link: LinkInfo, cx: &mut QueueCx<P>);
}

/// Tells a queue which flows share a host, if it asks.
pub fn set_hosts<P: Pkt>(queue: &mut dyn Aqm<P>, hosts: &Hosts) {
    if let Some(queue) = queue.hosts() {
        queue.know_hosts(hosts);
    }
}

/// Takes out all that waits in a queue whose place another one takes (`qdisc_purge_queue`), and shows it to `lose`. What
/// the queue holds back is taken out as if its time had come; false: it has packets and never lets go.
///
/// One after the other, because a copy of all packets would be what a run with a deep queue needs the most memory for.
pub fn purge<P: Pkt>(
    queue: &mut dyn Aqm<P>,
    now: Time,
    rng: &mut Rng,
    lose: &mut dyn FnMut(Dropped<P>),
) -> bool {
    let why = DropReason::Replaced;
    let mut unseen = Vec::new();
    let mut at = now;
    while queue.backlog().packets > 0 {
        let mut cx = QueueCx::new(at, rng, &mut unseen);
        if let Some(pkt) = queue.dequeue(&mut cx) {
            lose(Dropped { pkt, why, band: cx.current_band() });
        } else if queue.backlog().packets > 0 {
            at = queue.next_timer();
            if at == Time::NEVER {
                return false;
            }
            queue.on_timer(&mut QueueCx::new(at, rng, &mut unseen));
        }
    }
    unseen.into_iter().for_each(|dropped| lose(Dropped { why, ..dropped }));
    true
}

/// Drops what is more than a limit that has shrunk; `take` gives the next packet that goes, while there are too many.
fn drop_excess<P: Pkt>(cx: &mut QueueCx<P>, mut take: impl FnMut(&mut QueueCx<P>) -> Option<P>) {
    while let Some(pkt) = take(cx) {
        cx.drop(pkt, DropReason::Overflow);
    }
}

/// Packets as they came, from queues inside one after the other.
pub fn in_order<P: Pkt>(packets: impl IntoIterator<Item = P>) -> Vec<P> {
    let mut all: Vec<_> = packets.into_iter().collect();
    all.sort_by_key(P::enqueued_at);
    all
}

/// How a queue separates the flows that share it.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Separation {
    /// All packets share one queue and its signals.
    Single,
    /// One queue, with signals for scalable and for classic senders.
    Coupled,
    /// A queue for scalable senders and one for classic ones.
    Dual,
    /// A queue for each flow.
    PerFlow,
    /// Several flows share a queue, and the signals aim at equal rates.
    Approximate,
    /// It shapes or emulates a link and is no queue to share.
    Shaper,
}

/// Whether a queue sets CE on packets that are ECN-capable.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Marking {
    Never,
    Always,
    /// With one of these keywords.
    With(&'static [&'static str]),
}

/// How `tc -s` tells the packets that found the queue full.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// They are all that the queue drops.
    All,
    /// By a counter of this name.
    Counter(&'static str),
    /// Among other drops.
    Untold,
}

/// The parameters of a queue, how to make the queue from them, and what others need to know of it.
pub trait Qdisc: Described {
    const SEPARATION: Separation;
    /// Keywords, with their value, that change that; the first that the canonical form has decides.
    const SEPARATION_WITH: &'static [(&'static str, Separation)] = &[];
    const MARKING: Marking;
    const OVERFLOW: Overflow = Overflow::Untold;
    /// One queue that drops only when it is full.
    const IS_FIFO: bool = false;
    /// It drops packets that have waited in it.
    const DROPS_WAITING: bool = false;
    /// `limit` counts the packets of the whole queue.
    const LIMITS_PACKETS: bool = false;

    /// It cuts packets of several segments when they come.
    fn splits(&self) -> bool {
        false
    }
    /// What it holds at most.
    fn room(&self, _link: LinkInfo) -> Room {
        Room::ENDLESS
    }
    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>>;
}

/// What a queue holds at most by each of its limits, for those who estimate a run's memory.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Room {
    pub packets: u64,
    /// Of frames, and of kernel memory.
    pub bytes: u64,
    pub memory: u64,
    /// It may hold packets back so that no more than this leaves, although the link has room.
    pub rate: Rate,
    /// Bytes of its tables: of those that it always has, and of those that it has from its first packet on.
    pub always: u64,
    pub tables: u64,
}

impl Room {
    /// It takes whatever comes.
    pub const ENDLESS: Room = Room {
        packets: u64::MAX,
        bytes: u64::MAX,
        memory: u64::MAX,
        rate: Rate::from_bps(u64::MAX),
        always: 0,
        tables: 0,
    };

    pub fn of_packets(packets: impl Into<u64>) -> Room {
        Room { packets: packets.into(), ..Room::ENDLESS }
    }
    pub fn of_bytes(bytes: impl Into<u64>) -> Room {
        Room { bytes: bytes.into(), ..Room::ENDLESS }
    }
    /// For a queue with a shaper of so many bytes per second; 0: that is off.
    pub fn shaped(self, bytes_per_second: u64) -> Room {
        let shaped = Rate::from_bps(bytes_per_second.saturating_mul(8));
        Room { rate: if bytes_per_second > 0 { shaped } else { self.rate }, ..self }
    }
    /// Packets of this frame that fit in.
    pub fn for_frames(self, frame: u32) -> u64 {
        let least = units::udp_truesize(frame).min(units::tcp_truesize(frame));
        let (frame, truesize) = (u64::from(frame.max(1)), u64::from(least));
        self.packets.min(self.bytes / frame).min(self.memory / truesize)
    }
}

/// Where a queue is put: some derive parameters from the rate, and timers start at `now`.
#[derive(Copy, Clone, Debug)]
pub struct LinkInfo {
    pub rate: Rate,
    pub now: Time,
}

/// The backlog of a queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    pub packets: u64,
    pub bytes: u64,
}

/// Why a packet was dropped.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DropReason {
    /// The buffer was full.
    Overflow,
    /// The law decided so.
    Aqm,
    /// Another queue took the place of this one.
    Replaced,
    /// netem's loss.
    Loss,
    /// A rule of rewriting wanted it.
    Rewrite,
    /// A bit was flipped on the way.
    Checksum,
    /// The medium behind the queue gave it up.
    Medium,
    /// It found no tokens.
    Policer,
    /// It came out of a tunnel behind the replay window, or twice.
    Replay,
    /// It came out of a tunnel with CE around a packet without ECN (RFC 6040, 4.2).
    Decapsulation,
}

impl DropReason {
    pub const FIRST: DropReason = DropReason::Overflow;
    pub const ALL: [DropReason; 10] = [
        DropReason::Overflow,
        DropReason::Aqm,
        DropReason::Replaced,
        DropReason::Loss,
        DropReason::Rewrite,
        DropReason::Checksum,
        DropReason::Medium,
        DropReason::Policer,
        DropReason::Replay,
        DropReason::Decapsulation,
    ];

    /// As the results call it.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::Overflow => "overflow",
            DropReason::Aqm => "aqm",
            DropReason::Replaced => "replaced",
            DropReason::Loss => "loss",
            DropReason::Rewrite => "rewrite",
            DropReason::Checksum => "checksum",
            DropReason::Medium => "medium",
            DropReason::Policer => "policer",
            DropReason::Replay => "replay",
            DropReason::Decapsulation => "decapsulation",
        }
    }
}

/// Why a packet was marked CE.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum MarkReason {
    /// The law's probability (in a coupled queue: the coupled one).
    Aqm,
    /// An instantaneous threshold.
    Step,
}

/// The events of one call of a queue. The link reads them and keeps the statistics.
pub struct QueueCx<'a, P> {
    pub now: Time,
    pub rng: &'a mut Rng,
    band: usize,
    marks: Marks,
    duplicates: u32,
    copied: Option<P>,
    drops: &'a mut Vec<Dropped<P>>,
    /// What was taken out to be looked at, and still counts for the queue's limits (`qdisc_peek_dequeued`).
    held: Backlog,
}

/// A dropped packet with its cause.
#[derive(Debug)]
pub struct Dropped<P> {
    pub pkt: P,
    pub why: DropReason,
    pub band: usize,
}

/// Marks set on the packet in hand.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    pub aqm: bool,
    pub step: bool,
    /// Not CE: see [`QueueCx::mark_sce`].
    pub sce: bool,
}

impl Marks {
    /// CE was set.
    #[inline]
    pub fn ce(self) -> bool {
        self.aqm || self.step
    }
}

impl<'a, P: Pkt> QueueCx<'a, P> {
    pub fn new(now: Time, rng: &'a mut Rng, drops: &'a mut Vec<Dropped<P>>) -> Self {
        let (marks, held) = Default::default();
        QueueCx { now, rng, band: 0, marks, duplicates: 0, copied: None, drops, held }
    }

    /// Says which inner queue the packet in hand belongs to (see [`Aqm::bands`]).
    #[inline]
    pub fn band(&mut self, band: usize) {
        self.band = band;
    }

    /// Sets CE. The only place that does; refuses Not-ECT and then returns false, upon which the
    /// caller normally drops. It does not look at which ECT it is (RFC 3168). A packet that came with CE keeps it: the
    /// algorithm goes on as after a mark, and the queue counts none.
    #[inline]
    pub fn mark(&mut self, pkt: &mut P, why: MarkReason) -> bool {
        match pkt.ecn() {
            Ecn::NotEct => return false,
            Ecn::Ce if !self.marks.ce() => return true,
            _ => pkt.set_ecn(Ecn::Ce),
        }
        match why {
            MarkReason::Aqm => self.marks.aqm = true,
            MarkReason::Step => self.marks.step = true,
        }
        true
    }

    /// Sets "some congestion experienced" (`draft-morton-tsvwg-sce`), which is ECT(1) instead of ECT(0); refuses any other
    /// codepoint.
    #[inline]
    pub fn mark_sce(&mut self, pkt: &mut P) -> bool {
        if pkt.ecn() != Ecn::Ect0 {
            return false;
        }
        pkt.set_ecn(Ecn::Ect1);
        self.marks.sce = true;
        true
    }

    /// A second packet like this one, which counts as a further arrival.
    #[inline]
    pub fn duplicate(&mut self, pkt: &mut P) -> P {
        pkt.set_copied();
        self.duplicates += 1;
        self.copied = Some(pkt.clone());
        pkt.clone()
    }

    /// Gives a packet up: the new one, the head, or any other.
    #[inline(always)]
    pub fn drop(&mut self, pkt: P, why: DropReason) {
        self.marks = Marks::default();
        give_up(self.drops, Dropped { pkt, why, band: self.band });
    }

    /// The band that was set last.
    #[inline]
    pub fn current_band(&self) -> usize {
        self.band
    }

    /// Duplicates made of the packet in hand.
    #[inline]
    pub fn duplicates(&self) -> u32 {
        self.duplicates
    }

    /// The packet of which they were made.
    #[inline]
    pub fn take_copied(&mut self) -> Option<P> {
        self.copied.take()
    }

    /// Marks put on the packet that this call delivered or took.
    #[inline]
    pub fn marks(&self) -> Marks {
        self.marks
    }
}

/// Apart, so that the packets of the usual way need not be where a call finds them.
#[cold]
#[inline(never)]
fn give_up<P>(drops: &mut Vec<Dropped<P>>, dropped: Dropped<P>) {
    drops.push(dropped);
}
