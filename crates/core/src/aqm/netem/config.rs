//! The parameters of netem, in the words of iproute2 `tc/q_netem.c` (7.3): any keyword may be
//! abbreviated, and what begins with a digit is a further value.

use super::Netem;
use super::distribution::Distribution;
use super::random::{Chance, Loss};
use crate::aqm::registry::{LinkInfo, Qdisc};
use crate::aqm::{Aqm, Pkt};
use crate::tc::{self, Args, Param, TcError, param};
use crate::time::Span;
use crate::units::Rate;

const LIMIT: u32 = 1000;
/// The kernel keeps jitter in 31 bits of nanoseconds.
const JITTER_MAX: Span = Span(i32::MAX as u64);

#[derive(Clone, PartialEq, Debug)]
pub struct NetemConfig {
    /// In packets.
    pub limit: u32,
    pub latency: Span,
    pub jitter: Span,
    pub delay_correlation: u32,
    /// Of the jitter; without one it is uniform.
    pub distribution: Option<Distribution>,
    pub loss: Loss,
    /// Marks what `loss` would drop, if it can.
    pub ecn: bool,
    pub corrupt: Chance,
    pub duplicate: Chance,
    pub reorder: Chance,
    /// At most every `gap`th packet is reordered; 0 without `reorder`.
    pub gap: u32,
    pub rate: Option<RateModel>,
    pub slot: Option<SlotConfig>,
    pub seed: Option<u64>,
}

#[derive(Copy, Clone, PartialEq, Debug)]
pub struct RateModel {
    pub rate: Rate,
    pub packet_overhead: i32,
    /// 0: no cells.
    pub cell_size: u32,
    pub cell_overhead: i32,
}

#[derive(Copy, Clone, PartialEq, Debug)]
pub struct SlotConfig {
    pub length: SlotLength,
    /// 0: no limit.
    pub packets: u32,
    /// 0: no limit.
    pub bytes: u32,
}

/// From one slot to the next.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum SlotLength {
    Between(Span, Span),
    Distributed { distribution: Distribution, delay: Span, jitter: Span },
}

impl SlotLength {
    pub fn exists(self) -> bool {
        self != SlotLength::Between(Span::ZERO, Span::ZERO)
    }
}

impl SlotConfig {
    pub fn packets_or_no_limit(&self) -> i64 {
        if self.packets == 0 { i32::MAX.into() } else { self.packets.into() }
    }
    pub fn bytes_or_no_limit(&self) -> i64 {
        if self.bytes == 0 { i32::MAX.into() } else { self.bytes.into() }
    }
}

impl Default for NetemConfig {
    fn default() -> Self {
        NetemConfig {
            limit: LIMIT,
            latency: Span::ZERO,
            jitter: Span::ZERO,
            delay_correlation: 0,
            distribution: None,
            loss: Loss::Random(Chance::default()),
            ecn: false,
            corrupt: Chance::default(),
            duplicate: Chance::default(),
            reorder: Chance::default(),
            gap: 0,
            rate: None,
            slot: None,
            seed: None,
        }
    }
}

const TIME: &str = "a time such as 10ms, 500us or 100 (nanoseconds)";
const JITTER: &str = "a time of at most 2147483647ns";
const PERCENT: &str = "a percentage from 0% to 100%";
const SIZE: &str = "a number such as 1000 or 64k (k is 1024), at most 4294967295";
const RATE: &str = "a rate such as 10mbit";
const BYTES: &str = "a number of bytes, at most 2147483647";
const PACKETS: &str = "a number of packets, at most 2147483647";
const DISTRIBUTION: &str = "normal, pareto or paretonormal";
/// As `tc` tries them: an abbreviation means the first that it fits.
const ORDER: &[&str] = &[
    "limit",
    "latency",
    "delay",
    "loss",
    "drop",
    "ecn",
    "reorder",
    "corrupt",
    "gap",
    "duplicate",
    "distribution",
    "rate",
    "slot",
    "seed",
];

fn parse_jitter(text: &str) -> Option<Span> {
    tc::parse_time64(text).filter(|&t| t <= JITTER_MAX)
}
fn parse_31_bits(n: Option<u32>) -> Option<u32> {
    n.filter(|&n| i32::try_from(n).is_ok())
}
fn percentage(args: &mut Args) -> Result<u32, TcError> {
    args.value(PERCENT, tc::parse_probability)
}
fn chance(args: &mut Args) -> Result<Chance, TcError> {
    let probability = percentage(args)?;
    let correlation = args.further(PERCENT, tc::parse_probability)?.unwrap_or(0);
    Ok(Chance { probability, correlation })
}

impl Loss {
    fn parse(args: &mut Args) -> Result<Loss, TcError> {
        if args.next_begins(|c| c.is_ascii_digit()) {
            return chance(args).map(Loss::Random);
        }
        const MODELS: &str = "a percentage, or random, state or gemodel and their percentages";
        let model = args.value(MODELS, |word| {
            ["random", "state", "gemodel"].into_iter().find(|&name| name == word)
        })?;
        if model == "random" {
            return chance(args).map(Loss::Random);
        }
        // Each value may be left out together with those behind it.
        let first = percentage(args)?;
        let mut others = [None; 4];
        for other in &mut others[..if model == "state" { 4 } else { 3 }] {
            *other = args.further(PERCENT, tc::parse_probability)?;
        }
        let [second, third, fourth, fifth] = others;
        let rest = u32::MAX - first;
        Ok(match model {
            "state" => Loss::State {
                p13: first,
                p31: second.unwrap_or(rest),
                p32: third.unwrap_or(0),
                p23: fourth.unwrap_or(u32::MAX),
                p14: fifth.unwrap_or(0),
            },
            _ => Loss::GeModel {
                p: first,
                r: second.unwrap_or(rest),
                h: u32::MAX - third.unwrap_or(u32::MAX), // tc's word is 1-h
                one_minus_k: fourth.unwrap_or(0),
            },
        })
    }

    fn is_none(self) -> bool {
        matches!(self, Loss::Random(Chance { probability: 0, .. }))
    }

    fn canonical(self) -> String {
        let p = tc::format_probability;
        match self {
            Loss::Random(chance) => format!("loss random {}", chance.canonical()),
            Loss::State { p13, p31, p32, p23, p14 } => {
                format!("loss state {} {} {} {} {}", p(p13), p(p31), p(p32), p(p23), p(p14))
            }
            Loss::GeModel { p: good, r, h, one_minus_k } => {
                format!("loss gemodel {} {} {} {}", p(good), p(r), p(u32::MAX - h), p(one_minus_k))
            }
        }
    }
}

impl Chance {
    fn canonical(self) -> String {
        let p = tc::format_probability;
        format!("{} {}", p(self.probability), p(self.correlation))
    }
}

impl RateModel {
    fn parse(args: &mut Args) -> Result<Option<RateModel>, TcError> {
        let rate = args.value(RATE, tc::parse_rate)?;
        const OVERHEAD: &str = "a number of bytes, which may be negative";
        let signed = |args: &mut Args| -> Result<i32, TcError> {
            let given = args.next_begins(|c| c.is_ascii_digit() || c == '-');
            let value = given.then(|| args.value(OVERHEAD, tc::parse_signed_any_base));
            Ok(value.transpose()?.unwrap_or(0))
        };
        let packet_overhead = signed(args)?;
        let cell_size = args.further(BYTES, |s| parse_31_bits(tc::parse_count_any_base(s)))?;
        let cell_overhead = signed(args)?;
        let cell_size = cell_size.unwrap_or(0);
        let model = RateModel { rate, packet_overhead, cell_size, cell_overhead };
        Ok((rate.bps() > 0).then_some(model))
    }
}

impl SlotConfig {
    fn parse(args: &mut Args) -> Result<SlotConfig, TcError> {
        let length = if args.next_begins(|c| c.is_ascii_digit()) {
            let min = args.value(TIME, tc::parse_time64)?;
            let max = args.further("a time not below the first", |s| {
                tc::parse_time64(s).filter(|&max| max >= min)
            })?;
            SlotLength::Between(min, max.unwrap_or(min))
        } else {
            args.value("a time, or distribution NAME DELAY JITTER", |word| {
                (word == "distribution").then_some(())
            })?;
            let distribution = args.value(DISTRIBUTION, Distribution::find)?;
            let delay = args.value(TIME, tc::parse_time64)?;
            let jitter = args.value("a time above zero, at most 2147483647ns", |s| {
                parse_jitter(s).filter(|&t| t > Span::ZERO)
            })?;
            SlotLength::Distributed { distribution, delay, jitter }
        };
        let mut slot = SlotConfig { length, packets: 0, bytes: 0 };
        if args.take("packets") {
            slot.packets = args.value(PACKETS, |s| parse_31_bits(tc::parse_count_any_base(s)))?;
        }
        if args.take("bytes") {
            slot.bytes = args.value(BYTES, |s| parse_31_bits(tc::parse_size(s)))?;
        }
        Ok(slot)
    }

    fn canonical(&self) -> String {
        let time = tc::format_time64;
        let length = match self.length {
            SlotLength::Between(min, max) => format!("{} {}", time(min), time(max)),
            SlotLength::Distributed { distribution, delay, jitter } => {
                format!("distribution {} {} {}", distribution.name(), time(delay), time(jitter))
            }
        };
        format!("slot {length} packets {} bytes {}", self.packets, self.bytes)
    }
}

impl Qdisc for NetemConfig {
    const NAME: &'static str = "netem";
    const SUMMARY: &'static str =
        "network emulator: delay, jitter, loss, duplication, corruption, reordering, rate, slots";
    const PARAMS: &'static [Param] = &[
        param("limit", "PACKETS", "1000", "what it holds at most"),
        param("delay", "TIME [JITTER [PERCENT]]", "", "delay, its spread and correlation"),
        param("latency", "TIME [JITTER [PERCENT]]", "", "the same as delay"),
        param(
            "distribution",
            "NAME",
            "",
            "of the jitter: normal, pareto, paretonormal; uniform without it",
        ),
        param(
            "loss",
            "MODEL",
            "",
            "[random] P [RHO], state P13 [P31 [P32 [P23 [P14]]]], gemodel P [R [1-H [1-K]]]",
        ),
        param("drop", "MODEL", "", "the same as loss"),
        param("ecn", "", "", "marks CE instead of losing, where the packet allows"),
        param("corrupt", "PERCENT [PERCENT]", "", "packets with a flipped bit, correlation"),
        param("duplicate", "PERCENT [PERCENT]", "", "packets sent twice, correlation"),
        param("reorder", "PERCENT [PERCENT]", "", "packets sent at once, correlation; needs delay"),
        param("gap", "PACKETS", "", "reorders at most every so manieth packet; needs reorder"),
        param(
            "rate",
            "RATE [BYTES [BYTES [BYTES]]]",
            "",
            "sends one after the other; overhead per packet, cell, overhead per cell",
        ),
        param(
            "slot",
            "TIME [TIME]",
            "",
            "releases in slots so far apart: MIN [MAX] or distribution NAME DELAY JITTER, then [packets N] [bytes B]",
        ),
        param("seed", "NUMBER", "", "draws the numbers that the kernel draws with this seed"),
    ];

    fn parse(args: &mut Args) -> Result<Self, TcError> {
        let mut c = NetemConfig::default();
        let (mut loss, mut distribution) = (None, false);
        while let Some(keyword) = args.keyword_in(ORDER) {
            match keyword {
                "limit" => c.limit = args.value(SIZE, tc::parse_size)?,
                "latency" | "delay" => {
                    c.latency = args.value(TIME, tc::parse_time64)?;
                    if let Some(jitter) = args.further(JITTER, parse_jitter)? {
                        c.jitter = jitter;
                        if let Some(rho) = args.further(PERCENT, tc::parse_probability)? {
                            c.delay_correlation = rho;
                        }
                    }
                }
                "loss" | "drop" => {
                    if loss.is_some_and(|l: Loss| !l.is_none()) {
                        let fix = "a netem has one model of loss; remove one".to_owned();
                        return Err(args.refuse(keyword, "twice".to_owned(), fix));
                    }
                    loss = Some(Loss::parse(args)?);
                }
                "ecn" => c.ecn = true,
                "reorder" => c.reorder = chance(args)?,
                "corrupt" => c.corrupt = chance(args)?,
                "duplicate" => c.duplicate = chance(args)?,
                "gap" => {
                    c.gap = args.value("a number of packets", tc::parse_count_any_base)?;
                }
                // tc has no table for "uniform", which is what holds without one.
                "distribution" => {
                    c.distribution =
                        args.value("uniform, normal, pareto or paretonormal", |s| {
                            let found = Distribution::find(s);
                            (found.is_some() || s == "uniform").then_some(found)
                        })?;
                    distribution = true;
                }
                "rate" => c.rate = RateModel::parse(args)?,
                "slot" => c.slot = Some(SlotConfig::parse(args)?),
                "seed" => {
                    let expected = "a whole number below 2^64";
                    c.seed = Some(args.value(expected, |s| s.parse().ok())?);
                }
                _ => return Err(args.unknown()),
            }
        }
        c.loss = loss.unwrap_or(c.loss);
        c.check(args, distribution)?;
        if c.reorder.probability > 0 && c.gap == 0 {
            c.gap = 1;
        }
        Ok(c)
    }

    /// What has no effect is left out.
    fn canonical(&self) -> String {
        let (time, percent) = (tc::format_time64, tc::format_probability);
        let mut words = vec![format!("limit {}", self.limit)];
        let mut add = |there: bool, text: &dyn Fn() -> String| {
            if there {
                words.push(text());
            }
        };
        let jitters = self.jitter > Span::ZERO || self.delay_correlation > 0;
        add(self.latency > Span::ZERO || jitters, &|| {
            let mut text = format!("delay {}", time(self.latency));
            if jitters {
                text += &format!(" {} {}", time(self.jitter), percent(self.delay_correlation));
            }
            text
        });
        if let Some(d) = self.distribution {
            add(true, &|| format!("distribution {}", d.name()));
        }
        let loss = Chance { probability: 0, correlation: 0 };
        add(self.loss != Loss::Random(loss), &|| self.loss.canonical());
        add(self.ecn, &|| "ecn".to_owned());
        add(self.corrupt != Chance::default(), &|| format!("corrupt {}", self.corrupt.canonical()));
        add(self.duplicate != Chance::default(), &|| {
            format!("duplicate {}", self.duplicate.canonical())
        });
        add(self.reorder != Chance::default(), &|| format!("reorder {}", self.reorder.canonical()));
        add(self.gap > 0, &|| format!("gap {}", self.gap));
        if let Some(r) = self.rate {
            let rate = tc::format_rate(r.rate);
            add(true, &|| {
                format!("rate {rate} {} {} {}", r.packet_overhead, r.cell_size, r.cell_overhead)
            });
        }
        if let Some(slot) = self.slot {
            add(true, &|| slot.canonical());
        }
        if let Some(seed) = self.seed {
            add(true, &|| format!("seed {seed}"));
        }
        words.join(" ")
    }

    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(Netem::new(self.clone(), link.now))
    }
}

impl NetemConfig {
    /// What `tc` refuses of the whole.
    fn check(&self, args: &Args, distribution: bool) -> Result<(), TcError> {
        let refuse = |keyword: &str, value: String, fix: &str| {
            Err(args.refuse(keyword, value, fix.to_owned()))
        };
        let reorder = self.reorder.probability;
        if reorder > 0 && self.latency == Span::ZERO {
            let fix = "reordering needs a delay that it spares; add delay";
            return refuse("reorder", tc::format_probability(reorder), fix);
        }
        if reorder == 0 && self.gap > 0 {
            return refuse("gap", self.gap.to_string(), "add reorder with its percentage");
        }
        if self.ecn && self.loss.is_none() {
            return refuse("ecn", "without loss".to_owned(), "add loss, which it turns into marks");
        }
        if distribution && (self.latency == Span::ZERO || self.jitter == Span::ZERO) {
            let name = self.distribution.map_or("uniform", Distribution::name);
            let fix = "it needs a delay and a jitter, such as delay 10ms 2ms";
            return refuse("distribution", name.to_owned(), fix);
        }
        Ok(())
    }
}
