//! A cell of a cellular network (5G NR, or LTE as `nr lte`): each slot the base station gives the channel to a user, whose
//! transport block carries as many bytes as its channel allows now.
//!
//! Here are the words and what follows from them for a slot. `nr/channel.rs` has the random process of a user's channel,
//! `nr/bearer.rs` the packets of a user and direction, which are cut into transport blocks and arrive in order,
//! `nr/marking.rs` marks by a predicted sojourn, and
//! `nr/cell.rs` slots, schedulers, HARQ, uplink grants and handover. Values are those of 3GPP and of srsRAN, and of public
//! traces for the places; `docs/access.md` has them with their sources and what is left out.

mod bearer;
mod cell;
mod channel;
mod lte;
mod marking;

use self::cell::Cell;
use super::{MediumConfig, MediumKind, Place, Subscribers};
use crate::net::air::Way;
use crate::net::medium::Medium;
use crate::net::parts::Parts;
use crate::params::kinds::{
    Spec, any_time, choice, count, grammar, params, rate, real, size, some_time, time, words,
};
use crate::params::{Described, Gauge, Given, Refused, Words, gauge};
use crate::tc;
use crate::time::Span;
use crate::units::Rate;

/// Downlink symbols of a slot, and of a special slot (srsRAN at 30 kHz).
const SYMBOLS: u32 = 14;
const SPECIAL_SYMBOLS: u32 = 8;
/// Bits of a resource element by CQI: TS 38.214, table 5.2.2.1-3 (256QAM), and TS 36.213, table 7.2.3-1.
const NR_BITS: [f64; 15] = [
    0.1523, 0.3770, 0.8770, 1.4766, 1.9141, 2.4063, 2.7305, 3.3223, 3.9023, 4.5234, 5.1152, 5.5547,
    6.2266, 6.9141, 7.4063,
];
const LTE_BITS: [f64; 15] = [
    0.1523, 0.2344, 0.3770, 0.6016, 0.8770, 1.1758, 1.4766, 1.9141, 2.4063, 2.7305, 3.3223, 3.9023,
    4.5234, 5.1152, 5.5547,
];
/// The same by MCS: modulation order, and code rate times 1024 (TS 38.214, table 5.1.3.1-2).
const NR_MCS: [(f64, f64); 28] = [
    (2.0, 120.0),
    (2.0, 193.0),
    (2.0, 308.0),
    (2.0, 449.0),
    (2.0, 602.0),
    (4.0, 378.0),
    (4.0, 434.0),
    (4.0, 490.0),
    (4.0, 553.0),
    (4.0, 616.0),
    (4.0, 658.0),
    (6.0, 466.0),
    (6.0, 517.0),
    (6.0, 567.0),
    (6.0, 616.0),
    (6.0, 666.0),
    (6.0, 719.0),
    (6.0, 772.0),
    (6.0, 822.0),
    (6.0, 873.0),
    (8.0, 682.5),
    (8.0, 711.0),
    (8.0, 754.0),
    (8.0, 797.0),
    (8.0, 841.0),
    (8.0, 885.0),
    (8.0, 916.5),
    (8.0, 948.0),
];
/// Resource elements that carry no data, down and up (TS 38.306).
const NR_OVERHEAD: [f64; 2] = [0.14, 0.08];
/// Resource blocks by bandwidth in MHz (TS 38.101-1; TS 36.101).
const BLOCKS: [(u16, [u16; 4]); 9] = [
    // MHz, and blocks at 15, 30 and 60 kHz and of LTE; 0: there are none.
    (5, [25, 11, 0, 25]),
    (10, [52, 24, 11, 50]),
    (15, [79, 38, 18, 75]),
    (20, [106, 51, 24, 100]),
    (40, [216, 106, 51, 0]),
    (50, [270, 133, 65, 0]),
    (60, [0, 162, 79, 0]),
    (80, [0, 217, 107, 0]),
    (100, [0, 273, 135, 0]),
];
/// Between handovers.
const SHORTEST_STAY: Span = Span::from_millis(100);
const PATTERN: &str =
    "a pattern of the slots D, S and U such as DDDSU, with a D and a U, of at most 40";

params! {
    pub struct NrConfig {
        lte: bool = false, words([("lte", true, "LTE: subcarriers of 15 kHz, subframes of 1 ms, FDD unless tdd is said")]), "";
        /// channel
        bandwidth: u16 = 20, words([
            ("20MHz", 20, "width of the channel"),
            ("5MHz", 5, "the same"),
            ("10MHz", 10, "the same"),
            ("15MHz", 15, "the same"),
            ("40MHz", 40, "the same"),
            ("50MHz", 50, "the same"),
            ("60MHz", 60, "the same"),
            ("80MHz", 80, "the same"),
            ("100MHz", 100, "the same"),
        ]), "";
        /// subcarrier spacing, kHz: slots of 1, 0.5 or 0.25 ms
        scs: u8 = 30, choice("15|30|60", [("15", 15), ("30", 30), ("60", 60)]), "srsRAN";
        pattern: Option<Pattern> = None, pattern(), "srsRAN";
        /// resource blocks
        prb: Option<u16> = None, count(1..=275_u16).mapped(Some, |n: &Option<u16>| *n).default("by bandwidth and spacing"), "TS 38.101-1";
        /// layers downlink
        layers: u8 = 1, count(1..=8), "";
        /// layers uplink
        layers_up: u8 = 1, count(1..=4).called(&["layers-up"]), "";
        /// channel quality, from 1 to 15, which gives the bits of a resource element
        cqi: Option<u8> = None, count(1..=15_u8).mapped(Some, |n: &Option<u8>| *n).default("12"), "TS 38.214";
        /// channel quality uplink
        cqi_up: Option<u8> = None, count(1..=15_u8).mapped(Some, |n: &Option<u8>| *n).called(&["cqi-up"]).default("as downlink"), "";
        /// modulation and coding scheme downlink, in place of cqi: up to 27, of LTE 28
        mcs: Option<u8> = None, count(0..=28_u8).mapped(Some, |n: &Option<u8>| *n).default("by cqi"), "TS 38.214, TS 36.213";
        /// the same uplink, in place of cqi-up
        mcs_up: Option<u8> = None, count(0..=28_u8).mapped(Some, |n: &Option<u8>| *n).called(&["mcs-up"]).default("by cqi-up"), "TS 38.214, TS 36.213";
        qam64_up: bool = false, words([
            ("qam16-up", false, "LTE: users send 16-QAM at most, as those of categories 1 to 4"),
            ("qam64-up", true, "LTE: they send 64-QAM, too"),
        ]), "TS 36.306";
        /// mean downlink rate of a user that is alone, in place of cqi
        rate: Option<Rate> = None, rate().optional().default("by cqi"), "";
        place: Environment = Environment::Fixed, words([
            ("fixed", Environment::Fixed, "the channel does not vary"),
            ("static", Environment::Static, "as ar1 0.3 1s"),
            ("walk", Environment::Walk, "as ar1 0.6 2s outages 0.005 1s: LTE at walking pace"),
            ("drive", Environment::Drive, "as ar1 1.7 34s ar1-fast 0.35 100ms outages 0.125 3s: while driving"),
            ("rayleigh", Environment::Rayleigh, "each slot an exponential draw of its own"),
        ]), "mahimahi, UCC-5G, SvC; docs/access.md";
        /// coefficient of variation of the rate, and time constant of its logarithm
        ar1: Option<(f64, Span)> = None, process(4.0).default("by place"), "";
        /// the same of a second, faster process
        fast: Option<(f64, Span)> = None, process(4.0).called(&["ar1-fast"]).default("by place"), "";
        /// part of the time without service, and mean length of an outage
        outages: Option<(f64, Span)> = None, process(0.9).default("by place"), "";
        scheduler: Scheduler = Scheduler::Fair, words([
            ("pf", Scheduler::Fair, "proportional fair: to the user whose rate is highest relative to what it had"),
            ("rr", Scheduler::Turns, "round robin: slots in turn"),
        ]), "";
        /// exponent of what a user had, with pf; above 1 is fairer
        alpha: f64 = 1.0, real("NUMBER", "a number from 0 to 8", |x| (0.0..=8.0).contains(&x), (0.5, 3.0)), "Holtzman 2000; srsRAN 2";
        /// slots over which pf averages
        window: u32 = 100, count(1..=100_000).called(&["pf-window"]), "";
        /// each slot is with probability 1/NUMBER for the users of the file; others of the cell have the rest
        share: u32 = 1, count(1..=1000), "";
        /// probability that a transport block fails at its first transmission
        bler: f64 = 0.1, probability(), "usual target";
        /// and at a later one
        bler2: Option<f64> = None, probability().optional().default("a tenth of bler"), "soft combining";
        /// slots from a transmission to its repetition at the earliest
        harq: Option<u32> = None, count(1..=100_u32).mapped(Some, |n: &Option<u32>| *n).default("8 with fdd, else by the pattern"), "";
        unacknowledged: bool = false, words([
            ("am", false, "RLC repeats what HARQ could not deliver"),
            ("um", true, "what HARQ could not deliver is lost"),
        ]), "";
        /// period of scheduling requests
        sr: Span = Span::from_millis(20), time(Span::from_micros(250)..=Span::from_millis(640)), "srsRAN";
        /// grant that answers a scheduling request
        sr_grant: u32 = 50, size(10..=10_000).called(&["sr-grant"]), "";
        /// grant of every uplink slot to each user without a request; 0: none
        prescheduled: u32 = 0, size(0..=10_000), "";
        /// slots from an uplink grant to its use at the least
        k2: u32 = 4, count(0..=32), "srsRAN";
        /// between handovers; 0: none
        handover: Span = Span::ZERO, any_time(), "";
        /// interruption of a handover
        gap: Span = Span::from_millis(50), some_time(), "";
        lossy: bool = false, words([
            ("forwarded", false, "at a handover what waits is forwarded"),
            ("lossy", true, "at a handover what waits is lost"),
        ]), "";
        marks: bool = false, choice("none|l4span", [("none", false), ("l4span", true)]).called(&["mark"]), "";
        /// between base station and network, one way
        core: Span = Span::from_millis(5), any_time(), "";
    }
}

/// Where the users are, by how the rate varies there.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Environment {
    Fixed,
    Static,
    Walk,
    Drive,
    Rayleigh,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Scheduler {
    Fair,
    Turns,
}

/// The slots of TDD, in letters; empty: FDD.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern(String);

fn probability() -> Spec<f64> {
    real("PROBABILITY", "a number from 0 to 1", |p| (0.0..=1.0).contains(&p), (0.0, 0.5))
}

fn pattern() -> Spec<Option<Pattern>> {
    let read = |s: &str| {
        let letters = (2..=40).contains(&s.len()) && s.chars().all(|c| "DSU".contains(c));
        let fits = letters && s.contains('D') && s.contains('U');
        fits.then(|| Some(Pattern(s.to_owned())))
    };
    grammar(
        "PATTERN",
        PATTERN,
        move |_: &Option<Pattern>, words: &mut Words| words.value(PATTERN, read),
        |pattern| pattern.as_ref().map(|Pattern(letters)| letters.clone()),
        &["DDDSU", "DDDDDDSUUU", "DDDSUUDDDD"],
        &["DDD", "dsu", "DXU"],
    )
    .called(&["tdd"])
    .or("fdd", Some(Pattern(String::new())), "every slot in both directions")
    .default("DDDDDDSUUU; of lte fdd")
}

/// A coefficient or part with a time.
fn process(most: f64) -> Spec<Option<(f64, Span)>> {
    const TAKES: &str = "a number above 0 and a time such as 0.5 2s";
    let number = move |s: &str| match tc::parse_float(s)? {
        (n, "") if n > 0.0 && n <= most => Some(n),
        _ => None,
    };
    let span = |s: &str| tc::parse_time(s).filter(|span| *span >= Span::from_millis(1));
    grammar(
        "NUMBER TIME",
        TAKES,
        move |_: &Option<(f64, Span)>, words: &mut Words| {
            let number = words.value(TAKES, number)?;
            Ok(Some((number, words.value(TAKES, span)?)))
        },
        |process| process.map(|(number, span)| format!("{number} {}", tc::format_time(span))),
        &["0.5 2s", "0.1 100ms"],
        &["0 1s", "0.5", "0.5 0s", "9 1s"],
    )
}

impl Described for NrConfig {
    const NAME: &'static str = "nr";
    const SUMMARY: &'static str =
        "cellular (5G NR, LTE): slots, HARQ, delivery in order, uplink grants; users share a cell";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] = &[
        gauge("capacity_mbps", "Mbit/s", "rate of this direction if the first user had all of it"),
        gauge("slots_pct", "%", "of the slots of this direction, those used"),
        gauge("tb_bytes", "bytes", "of a transport block, mean"),
        gauge("harq_pct", "%", "of transport blocks, those sent again"),
    ];

    const FIXED: &'static [&'static str] = &[
        "lte",
        "20MHz",
        "scs",
        "tdd",
        "prb",
        "fixed",
        "ar1",
        "ar1-fast",
        "outages",
        "harq",
        "sr",
        "sr-grant",
        "prescheduled",
        "k2",
        "handover",
        "mark",
    ];

    fn renew(&mut self, given: &Given) {
        if given.has("cqi") {
            (self.rate, self.mcs) = (None, None);
        }
        if given.has("mcs") {
            (self.rate, self.cqi) = (None, None);
        }
        if given.has("rate") {
            (self.cqi, self.mcs) = (None, None);
        }
        if given.has("cqi-up") {
            self.mcs_up = None;
        }
        if given.has("mcs-up") {
            self.cqi_up = None;
        }
    }
    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        if let (Some(_), Some(rate)) = (self.cqi, self.rate) {
            let fix = "cqi says the rate as well; leave one of them out".to_owned();
            return Err(given.refuse("rate", tc::format_rate(rate), fix));
        }
        self.check_mcs(given)?;
        if self.prb.is_none() && self.blocks() == 0 {
            let mhz = format!("{}MHz", self.bandwidth);
            if self.lte {
                let fix = "it has 5, 10, 15 or 20MHz; say one of these, or prb".to_owned();
                return Err(given.refuse("lte", mhz, fix));
            }
            let fix = format!("{mhz} has no such spacing; say another one, or prb");
            return Err(given.refuse("scs", self.scs.to_string(), fix));
        }
        if self.handover > Span::ZERO && self.handover < SHORTEST_STAY {
            let fix = "a user stays in a cell for 100ms at least; lengthen it".to_owned();
            return Err(given.refuse("handover", tc::format_time(self.handover), fix));
        }
        if self.handover > Span::ZERO && self.gap >= self.handover {
            let fix = "it is not shorter than the time between handovers; shorten it".to_owned();
            return Err(given.refuse("gap", tc::format_time(self.gap), fix));
        }
        Ok(())
    }
}

impl NrConfig {
    fn check_mcs(&self, given: &Given) -> Result<(), Refused> {
        let schemes =
            [("mcs", self.mcs, "cqi", self.cqi), ("mcs-up", self.mcs_up, "cqi-up", self.cqi_up)];
        for (keyword, mcs, other, cqi) in schemes {
            let Some(mcs) = mcs else { continue };
            let refuse = |fix: String| Err(given.refuse(keyword, mcs.to_string(), fix));
            if cqi.is_some() {
                return refuse(format!("{other} says the same; leave one of them out"));
            }
            if keyword == "mcs" && self.rate.is_some() {
                return refuse("rate says the same; leave one of them out".to_owned());
            }
            if !self.lte && usize::from(mcs) >= NR_MCS.len() {
                return refuse("5G has 0 to 27".to_owned());
            }
            if self.lte && keyword == "mcs-up" && mcs >= lte::QAM64_UP && !self.qam64_up {
                return refuse("it is 64-QAM; add qam64-up, or write 20 at most".to_owned());
            }
        }
        Ok(())
    }
    fn spacing(&self) -> u8 {
        if self.lte { 15 } else { self.scs }
    }
    fn slot(&self) -> Span {
        Span(15_000_000 / u64::from(self.spacing()))
    }
    fn letters(&self) -> &[u8] {
        match &self.pattern {
            Some(Pattern(letters)) => letters.as_bytes(),
            None if self.lte => b"",
            None => b"DDDDDDSUUU",
        }
    }
    fn blocks(&self) -> u16 {
        let column = match self.spacing() {
            _ if self.lte => 3,
            15 => 0,
            30 => 1,
            _ => 2,
        };
        let row = BLOCKS.iter().find(|(mhz, _)| *mhz == self.bandwidth);
        self.prb.unwrap_or(row.map_or(0, |(_, blocks)| blocks[column]))
    }
    /// The part of a slot that is this direction's, by its number.
    fn part(&self, way: Way, slot: u64) -> f64 {
        let letters = self.letters();
        if letters.is_empty() {
            return 1.0;
        }
        match (letters[(slot % letters.len() as u64) as usize], way) {
            (b'D', Way::Down) | (b'U', Way::Up) => 1.0,
            (b'S', Way::Down) => f64::from(SPECIAL_SYMBOLS) / f64::from(SYMBOLS),
            _ => 0.0,
        }
    }
    /// The part of the time that is this direction's.
    fn fraction(&self, way: Way) -> f64 {
        let n = self.letters().len().max(1) as u64;
        (0..n).map(|slot| self.part(way, slot)).sum::<f64>() / n as f64
    }
    /// Bytes of a whole slot.
    fn bytes(&self, way: Way) -> f64 {
        let of_link = self.cqi_up.is_none() && self.mcs_up.is_none();
        match (self.rate, way) {
            (Some(rate), Way::Down) => self.bytes_of(rate),
            (Some(rate), Way::Up) if of_link => {
                let layers = f64::from(self.layers_up) / f64::from(self.layers);
                let bytes = self.bytes_of(rate) * layers;
                match self.lte {
                    true => bytes.min(self.block(way, LTE_BITS[14])),
                    false => bytes * (1.0 - NR_OVERHEAD[1]) / (1.0 - NR_OVERHEAD[0]),
                }
            }
            _ => {
                let cqi = if way == Way::Up { self.cqi_up.or(self.cqi) } else { self.cqi };
                let bits = if self.lte { LTE_BITS } else { NR_BITS };
                self.block(way, bits[usize::from(cqi.unwrap_or(12)) - 1])
            }
        }
    }
    /// Bytes of a downlink slot at a mean rate.
    fn bytes_of(&self, rate: Rate) -> f64 {
        rate.bps() as f64 / 8.0 * self.slot().as_secs_f64() / self.fraction(Way::Down)
    }
    /// Bytes of a transport block that has a whole slot, of the MCS or of a channel with so many bits in an element.
    fn block(&self, way: Way, quality: f64) -> f64 {
        let (mcs, layers) = match way {
            Way::Down => (self.mcs, self.layers),
            Way::Up => (self.mcs_up, self.layers_up),
        };
        let blocks = f64::from(self.blocks());
        let bits = if self.lte {
            match (mcs, way) {
                (Some(mcs), _) => lte::bits(lte::of_mcs(way, mcs), blocks),
                (None, Way::Down) => lte::down(quality, blocks),
                (None, Way::Up) => lte::up(quality, blocks, !self.qam64_up),
            }
        } else {
            let of_mcs = |mcs: u8| NR_MCS[usize::from(mcs)].0 * NR_MCS[usize::from(mcs)].1 / 1024.0;
            let elements = 12.0 * blocks * f64::from(SYMBOLS);
            elements * (1.0 - NR_OVERHEAD[way as usize]) * mcs.map_or(quality, of_mcs)
        };
        bits * f64::from(layers) / 8.0
    }
    /// Mean rate of a user that is alone.
    fn mean(&self, way: Way) -> f64 {
        self.bytes(way) * 8.0 * self.fraction(way) / self.slot().as_secs_f64()
    }
}

impl MediumKind for NrConfig {
    const OF_STATIONS: &'static [&'static str] = &[
        "layers",
        "layers-up",
        "cqi",
        "cqi-up",
        "mcs",
        "mcs-up",
        "qam16-up",
        "qam64-up",
        "rate",
        "fixed",
        "static",
        "walk",
        "drive",
        "rayleigh",
        "ar1",
        "ar1-fast",
        "outages",
        "bler",
        "bler2",
        "prescheduled",
    ];

    /// The mean of what a user gets who is alone with those that are not described.
    fn rates(&self) -> [Rate; 2] {
        [Way::Down, Way::Up].map(|way| {
            let share = self.mean(way) / f64::from(self.share);
            Rate::from_bps((share as u64).max(8))
        })
    }
    fn parts(&self, way: Way, users: &Subscribers) -> Parts {
        let stations = users.of_group.clone();
        Parts { stations, are_asked: way == Way::Up, ..Parts::default() }
    }
    fn build(&self, place: &Place, users: &Subscribers) -> Box<dyn Medium> {
        let of_station = |config: &MediumConfig| match config {
            MediumConfig::Nr(config) => config.clone(),
            _ => self.clone(),
        };
        let mut stations: Vec<_> = users.stations.iter().map(of_station).collect();
        if stations.is_empty() {
            stations.push(self.clone());
        }
        Box::new(Cell::new(self, &stations, place))
    }
}
