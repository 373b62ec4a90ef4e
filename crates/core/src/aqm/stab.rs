//! Size tables (`tc-stab(8)`; Linux `__qdisc_calculate_pkt_len` and `qdisc_get_stab` in `net/sched/sch_api.c`, 7.2;
//! `tc_calc_size_table` in iproute2's `tc/tc_core.c`).
//!
//! A size table says how long a queue takes each packet to be, for example with the cells and headers of a DSL line. All
//! that the queue counts in bytes follows from that length: shaping, deficits, limits and the backlog. The link itself
//! still sends the frame. Linux takes a size table at the root only, so classes and their queues share it.

use serde::Deserialize;

use super::lens::{Lens, View};
use super::printed;
use super::tbf::{CELL, CELL_PAYLOAD};
use crate::params::kinds::{choice, count, params, signed};
use crate::params::{self, Described, Given, Refused};

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

/// How long the queue takes a packet to be.
#[derive(Copy, Clone, Debug)]
pub struct Size(u32);

impl View for Size {
    fn frame_len(&self, _: u32) -> u32 {
        self.0
    }
}

impl Lens for SizeTable {
    type View = Size;

    fn view(&mut self, frame_len: u32) -> Size {
        Size(self.size(frame_len))
    }
}
