//! Size tables (`tc-stab(8)`; Linux `__qdisc_calculate_pkt_len` and `qdisc_get_stab` in `net/sched/sch_api.c`, 7.2;
//! `tc_calc_size_table` in iproute2's `tc/tc_core.c`).
//!
//! A size table says how long a queue takes each packet to be, for example with the cells and headers of a DSL line. All
//! that the queue counts in bytes follows from that length: shaping, deficits, limits and the backlog. The link itself
//! still sends the frame. Linux takes a size table at the root only, so classes and their queues share it.

use std::any::Any;

use serde::Deserialize;

use super::hosts::Hosts;
use super::tbf::{CELL, CELL_PAYLOAD};
use super::tree::ClassSpec;
use super::{
    Aqm, Backlog, Classes, Dropped, LinkInfo, Pkt, QueueCx, ReadsHosts, ReadsSacks, TcpHeader,
    printed,
};
use crate::ecn::Ecn;
use crate::params::kinds::{choice, count, params, signed};
use crate::params::{self, Described, Given, Refused};
use crate::probe::Gauges;
use crate::time::Time;

/// `tc`'s values of `mtu` and `tsize` if they are absent or 0.
const MTU: u32 = 2047;
const TSIZE: u32 = 512;
/// More slots do not fit into a netlink message.
const MOST_SLOTS: u32 = 32_000;
/// Longer packets than this are not in any network; tc takes 32 bits.
const LONGEST: u32 = 1 << 24;

params! {
    /// The parameters, by their names in `tc`.
    pub struct StabConfig {
        /// the longest packet of the table; longer ones count as several
        mtu: u32 = 0, count(0..=LONGEST).shown("BYTES"), "tc: 0, which is 2047";
        /// how many slots the table has
        tsize: u32 = 0, count(0..=MOST_SLOTS).shown("SLOTS"), "tc: 0, which is 512";
        /// smallest size that a packet counts as
        mpu: u32 = 0, count(0..=LONGEST).shown("BYTES"), "tc";
        /// bytes added to each packet, or less
        overhead: i32 = 0, signed(-(1 << 24)..=1 << 24), "tc";
        /// atm (or adsl) counts whole cells of 53 bytes
        linklayer: Option<Layer> = None, layer().optional().default(""), "tc";
    }
}

/// The framing of the link below the queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Layer {
    #[default]
    Ethernet,
    Atm,
}

fn layer() -> crate::params::kinds::Spec<Layer> {
    choice("NAME", [("ethernet", Layer::Ethernet), ("atm", Layer::Atm), ("adsl", Layer::Atm)])
}

impl Described for StabConfig {
    const NAME: &'static str = "stab";
    const SUMMARY: &'static str =
        "size table before a link's qdisc: how long the queue takes each packet to be";
    const REQUIRED: &'static str = "overhead 24";
    const ABBREVIATED: &'static [&'static str] = &["mtu", "mpu", "overhead", "tsize", "linklayer"];

    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        for keyword in Self::ABBREVIATED {
            if let [_, again, ..] = given.of(&[keyword])[..] {
                let fix = "it is given twice; remove one".to_owned();
                return Err(given.refuse(again, "again".to_owned(), fix));
            }
        }
        match self.linklayer.is_some() || self.mpu != 0 || self.overhead != 0 {
            true => Ok(()),
            false => Err(given.missing("overhead", "add overhead, mpu or linklayer: overhead 24")),
        }
    }
}

impl<'de> Deserialize<'de> for StabConfig {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<StabConfig, D::Error> {
        let text = String::deserialize(from)?;
        params::read_words(text.split_whitespace()).map_err(serde::de::Error::custom)
    }
}

/// Takes the size table off the words of a link's qdisc: the table, if there is one, and the words of the qdisc.
///
/// # Errors
/// One sentence that names the keyword, the value and the fix.
pub fn split(text: &str) -> Result<(Option<StabConfig>, String), Refused> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.first() != Some(&StabConfig::NAME) {
        return Ok((None, printed::as_read(text).into_owned()));
    }
    // As tc does: pairs as long as a word begins one of its keywords, and what comes then is the qdisc.
    let is_its = |word: &&str| StabConfig::ABBREVIATED.iter().any(|name| name.starts_with(*word));
    let mut end = 1;
    while words.get(end).is_some_and(is_its) {
        end += 2;
    }
    let table = params::read_words(words[1..end.min(words.len())].iter().copied())?;
    let rest = words.get(end..).unwrap_or_default().join(" ");
    Ok((Some(table), rest))
}

/// The table that the kernel gets.
#[derive(Clone, Debug)]
pub struct SizeTable {
    overhead: i64,
    cell_align: i64,
    cell_log: u32,
    size_log: u32,
    data: Vec<u16>,
}

impl SizeTable {
    pub fn new(config: &StabConfig) -> SizeTable {
        let overhead = i64::from(config.overhead);
        if config.linklayer != Some(Layer::Atm) && config.mpu == 0 {
            return SizeTable {
                overhead,
                cell_align: 0,
                cell_log: 0,
                size_log: 0,
                data: Vec::new(),
            };
        }
        let mtu = if config.mtu == 0 { MTU } else { config.mtu };
        let slots = if config.tsize == 0 { TSIZE } else { config.tsize };
        let cell_log = (0..).find(|log| mtu >> log < slots).expect("it becomes zero");
        let size = |slot: u32| {
            let bytes = (u64::from(slot + 1) << cell_log).max(config.mpu.into());
            match config.linklayer {
                Some(Layer::Atm) => bytes.div_ceil(CELL_PAYLOAD) * CELL,
                _ => bytes,
            }
        };
        let largest = (0..slots).map(size).max().unwrap_or(0);
        let size_log = (0..).find(|log| largest >> log <= u16::MAX.into()).expect("it fits");
        let data = (0..slots).map(|slot| (size(slot) >> size_log) as u16).collect();
        SizeTable { overhead, cell_align: -1, cell_log, size_log, data }
    }

    /// How long the queue takes a frame of `len` bytes to be.
    pub fn size(&self, len: u32) -> u32 {
        let len = i64::from(len) + self.overhead;
        let slots = self.data.len();
        if slots == 0 {
            return len.max(1) as u32;
        }
        let slot = ((len + self.cell_align).max(0) >> self.cell_log) as usize;
        let size = match self.data.get(slot) {
            Some(&size) => u64::from(size),
            None => {
                let whole = u64::from(self.data[slots - 1]) * (slot / slots) as u64;
                whole + u64::from(self.data[slot % slots])
            }
        };
        (size << self.size_log).clamp(1, u32::MAX.into()) as u32
    }
}

/// A packet with the length that its queue takes it to have.
#[derive(Clone, Debug)]
pub struct Resized<P> {
    pkt: P,
    len: u32,
}

impl<P: Pkt> Pkt for Resized<P> {
    fn frame_len(&self) -> u32 {
        self.len
    }
    fn truesize(&self) -> u32 {
        self.pkt.truesize()
    }
    fn ecn(&self) -> Ecn {
        self.pkt.ecn()
    }
    fn set_ecn(&mut self, ecn: Ecn) {
        self.pkt.set_ecn(ecn);
    }
    fn enqueued_at(&self) -> Time {
        self.pkt.enqueued_at()
    }
    fn flow_hash(&self) -> u32 {
        self.pkt.flow_hash()
    }
    fn source_hash(&self, hosts: &Hosts) -> u32 {
        self.pkt.source_hash(hosts)
    }
    fn destination_hash(&self, hosts: &Hosts) -> u32 {
        self.pkt.destination_hash(hosts)
    }
    fn dscp(&self) -> u8 {
        self.pkt.dscp()
    }
    fn set_dscp(&mut self, dscp: u8) {
        self.pkt.set_dscp(dscp);
    }
    fn corrupt(&mut self) {
        self.pkt.corrupt();
    }
    fn set_copied(&mut self) {
        self.pkt.set_copied();
    }
    fn tcp(&self) -> Option<TcpHeader> {
        self.pkt.tcp()
    }
}

/// A queue behind a size table.
pub struct Stab<P> {
    table: SizeTable,
    queue: Box<dyn Aqm<Resized<P>>>,
    /// The queue's events in the current call.
    drops: Vec<Dropped<Resized<P>>>,
}

impl<P: Pkt> Stab<P> {
    pub fn new(config: &StabConfig, queue: Box<dyn Aqm<Resized<P>>>) -> Self {
        Stab { table: SizeTable::new(config), queue, drops: Vec::new() }
    }

    fn call<T>(
        &mut self,
        cx: &mut QueueCx<P>,
        what: impl FnOnce(&mut dyn Aqm<Resized<P>>, &mut QueueCx<Resized<P>>) -> T,
    ) -> T {
        let mut inside = QueueCx::new(cx.now, cx.rng, &mut self.drops);
        let result = what(&mut *self.queue, &mut inside);
        cx.copied = inside.copied.take().map(|copied| copied.pkt).or(cx.copied.take());
        (cx.band, cx.marks) = (inside.band, inside.marks);
        cx.duplicates += inside.duplicates;
        let told = self.drops.drain(..);
        cx.drops.extend(told.map(|told| Dropped {
            pkt: told.pkt.pkt,
            why: told.why,
            band: told.band,
        }));
        result
    }
}

impl<P: Pkt + Send> Aqm<P> for Stab<P> {
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        let len = self.table.size(pkt.frame_len());
        self.call(cx, |queue, cx| queue.enqueue(Resized { pkt, len }, cx));
    }
    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        self.call(cx, |queue, cx| queue.dequeue(cx)).map(|resized| resized.pkt)
    }
    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
    fn next_timer(&self) -> Time {
        self.queue.next_timer()
    }
    fn on_timer(&mut self, cx: &mut QueueCx<P>) {
        self.call(cx, |queue, cx| queue.on_timer(cx));
    }
    fn bands(&self) -> &'static [&'static str] {
        self.queue.bands()
    }
    fn waiting_in(&self, band: usize) -> u64 {
        self.queue.waiting_in(band)
    }
    fn probe(&self, out: &mut dyn Gauges) {
        self.queue.probe(out);
    }
    fn change(&mut self, to: &dyn Any, cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let changed = self.call(cx, |queue, cx| queue.change(to, cx));
        changed.map_err(|waiting| waiting.into_iter().map(|resized| resized.pkt).collect())
    }
    fn hosts(&mut self) -> Option<&mut dyn ReadsHosts> {
        self.queue.hosts()
    }
    fn sacks(&mut self) -> Option<&mut dyn ReadsSacks> {
        self.queue.sacks()
    }
    fn classes(&mut self) -> Option<&mut dyn Classes<P>> {
        match self.queue.classes() {
            Some(_) => Some(self),
            None => None,
        }
    }
}

impl<P: Pkt> Classes<P> for Stab<P> {
    fn change_class(&mut self, to: &ClassSpec, link: LinkInfo, cx: &mut QueueCx<P>) {
        self.call(cx, |queue, cx| {
            if let Some(classes) = queue.classes() {
                classes.change_class(to, link, cx);
            }
        });
    }
}
