//! The parameters of netem, in the words of iproute2 `tc/q_netem.c` (7.3): any keyword may be
//! abbreviated, and what begins with a digit is a further value.

use super::distribution::Distribution;
use super::random::{Chance, Loss, Rho};
use crate::params::kinds::{Spec, grammar, params, size, unsaid, value, words};
use crate::params::{Described, Given, Refused, Words};
use crate::rng::Rng;
use crate::tc;
use crate::time::Span;
use crate::units::Rate;

/// The kernel keeps jitter in 31 bits of nanoseconds.
const JITTER_MAX: Span = Span(i32::MAX as u64);

params! {
    /// The parameters, by their names in `tc`. What has no effect is not said.
    // The comments are lines of help, with tc's brackets.
    #[allow(rustdoc::broken_intra_doc_links)]
    pub struct NetemConfig {
        /// largest backlog, in packets
        limit: u32 = 1000, size(0..=u32::MAX).shown("PACKETS").takes(SIZE), "tc";
        /// delay, its spread and correlation
        delay: Delay = Delay::default(), delay().called(&["delay", "latency"]), "";
        /// of the jitter: normal, pareto, paretonormal; uniform without it
        distribution: Option<Distribution> = None, distribution(), "";
        /// [random] P [RHO], state P13 [P31 [P32 [P23 [P14]]]], gemodel P [R [1-H [1-K]]]
        loss: Loss = Loss::Random(Chance::default()), loss().called(&["loss", "drop"]), "";
        ecn: bool = false, words([("ecn", true, "mark ECN-capable packets instead of losing them")]), "";
        /// packets with a flipped bit, correlation
        corrupt: Chance = Chance::default(), chance(), "";
        /// packets sent twice, correlation
        duplicate: Chance = Chance::default(), chance(), "";
        /// packets sent at once, correlation; needs delay
        reorder: Chance = Chance::default(), chance(), "";
        /// reorder only every Nth packet; needs reorder
        gap: u32 = 0, gap(), "";
        /// sending rate; then overhead per packet, cell size, overhead per cell
        rate: Option<RateModel> = None, rate(), "";
        /// time between slots that release packets: MIN [MAX] or distribution NAME DELAY JITTER, then [packets N] [bytes B]
        slot: Option<SlotConfig> = None, slot(), "";
        /// seed of the kernel's random numbers
        seed: Option<u64> = None, seed(), "";
        // What a change (`merged`) gives besides.
        slot_begins: bool = true, unsaid();
        loss_correlation: Rho = Rho(None), unsaid();
    }
}

#[derive(Copy, Clone, PartialEq, Debug, Default)]
pub struct Delay {
    pub latency: Span,
    pub jitter: Span,
    pub correlation: Rho,
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
    /// The kernel keeps a table also where the new slot has none, and then draws no length from it.
    fn keep_table(&mut self, before: SlotConfig) {
        if let SlotLength::Distributed { distribution, .. } = before.length
            && let SlotLength::Between(..) = self.length
            && self.length.exists()
        {
            let (delay, jitter) = (Span::ZERO, Span::ZERO);
            self.length = SlotLength::Distributed { distribution, delay, jitter };
        }
    }
    pub fn packets_or_no_limit(&self) -> i64 {
        if self.packets == 0 { i32::MAX.into() } else { self.packets.into() }
    }
    pub fn bytes_or_no_limit(&self) -> i64 {
        if self.bytes == 0 { i32::MAX.into() } else { self.bytes.into() }
    }
}

const TIME: &str = "a time such as 10ms, 500us or 100 (nanoseconds)";
const JITTER: &str = "a time of at most 2147483647ns";
const MODELS: &str = "a percentage, or random, state or gemodel and their percentages";
const PERCENT: &str = "a percentage from 0% to 100%";
const SIZE: &str = "a number such as 1000 or 64k (k is 1024), at most 4294967295";
const BYTES: &str = "a number of bytes, at most 2147483647";
const PACKETS: &str = "a number of packets, at most 2147483647";
const DISTRIBUTION: &str = "normal, pareto or paretonormal";
fn parse_jitter(text: &str) -> Option<Span> {
    tc::parse_time64(text).filter(|&t| t <= JITTER_MAX)
}
fn parse_31_bits(n: Option<u32>) -> Option<u32> {
    n.filter(|&n| i32::try_from(n).is_ok())
}
fn percentage(words: &mut Words) -> Result<u32, Refused> {
    words.value(PERCENT, tc::parse_probability)
}

impl Chance {
    fn read(words: &mut Words) -> Result<Chance, Refused> {
        let probability = percentage(words)?;
        let correlation = Rho(words.further(PERCENT, tc::parse_probability)?);
        Ok(Chance { probability, correlation })
    }
}

impl Loss {
    fn read(words: &mut Words) -> Result<Loss, Refused> {
        if words.next_begins(|c| c.is_ascii_digit()) {
            return Chance::read(words).map(Loss::Random);
        }
        let model = words.value(MODELS, |word| {
            ["random", "state", "gemodel"].into_iter().find(|&name| name == word)
        })?;
        if model == "random" {
            return Chance::read(words).map(Loss::Random);
        }
        // Each value may be left out together with those behind it.
        let first = percentage(words)?;
        let mut others = [None; 4];
        for other in &mut others[..if model == "state" { 4 } else { 3 }] {
            *other = words.further(PERCENT, tc::parse_probability)?;
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
            Loss::Random(chance) => format!("random {}", chance.canonical()),
            Loss::State { p13, p31, p32, p23, p14 } => {
                format!("state {} {} {} {} {}", p(p13), p(p31), p(p32), p(p23), p(p14))
            }
            Loss::GeModel { p: good, r, h, one_minus_k } => {
                format!("gemodel {} {} {} {}", p(good), p(r), p(u32::MAX - h), p(one_minus_k))
            }
        }
    }
}

impl Chance {
    fn canonical(self) -> String {
        let p = tc::format_probability;
        format!("{} {}", p(self.probability), p(self.correlation.get()))
    }
    fn is_said(self) -> bool {
        self.probability > 0 || self.correlation.get() > 0
    }
}

impl SlotConfig {
    fn read(words: &mut Words) -> Result<SlotConfig, Refused> {
        let length = if words.next_begins(|c| c.is_ascii_digit()) {
            let min = words.value(TIME, tc::parse_time64)?;
            let max = words.further("a time not below the first", |s| {
                tc::parse_time64(s).filter(|&max| max >= min)
            })?;
            SlotLength::Between(min, max.unwrap_or(min))
        } else {
            words.value("a time, or distribution NAME DELAY JITTER", |word| {
                (word == "distribution").then_some(())
            })?;
            let distribution = words.value(DISTRIBUTION, Distribution::find)?;
            let delay = words.value(TIME, tc::parse_time64)?;
            let jitter = words.value("a time above zero, at most 2147483647ns", |s| {
                parse_jitter(s).filter(|&t| t > Span::ZERO)
            })?;
            SlotLength::Distributed { distribution, delay, jitter }
        };
        let mut slot = SlotConfig { length, packets: 0, bytes: 0 };
        if words.take("packets") {
            slot.packets = words.value(PACKETS, |s| parse_31_bits(tc::parse_count_any_base(s)))?;
        }
        if words.take("bytes") {
            slot.bytes = words.value(BYTES, |s| parse_31_bits(tc::parse_size(s)))?;
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
        format!("{length} packets {} bytes {}", self.packets, self.bytes)
    }
}

fn delay() -> Spec<Delay> {
    let time = tc::format_time64;
    let read = |delay: &Delay, words: &mut Words| {
        let mut delay = Delay { latency: words.value(TIME, tc::parse_time64)?, ..*delay };
        if let Some(jitter) = words.further(JITTER, parse_jitter)? {
            delay.jitter = jitter;
            if let Some(rho) = words.further(PERCENT, tc::parse_probability)? {
                delay.correlation = Rho(Some(rho));
            }
        }
        Ok(delay)
    };
    let write = move |delay: &Delay| {
        let Delay { latency, jitter, correlation } = *delay;
        let correlation = correlation.get();
        if jitter > Span::ZERO || correlation > 0 {
            let rho = tc::format_probability(correlation);
            return Some(format!("{} {} {rho}", time(latency), time(jitter)));
        }
        (latency > Span::ZERO).then(|| time(latency))
    };
    let samples = &["10ms", "1500us 1ms", "9ms 2ms 25%", "5"];
    grammar("TIME [JITTER [PERCENT]]", TIME, read, write, samples, &["-5ms", "10ms 5s", "10mbit"])
}

/// tc has no table for "uniform", the distribution without a table.
fn distribution() -> Spec<Option<Distribution>> {
    value(
        "NAME",
        "uniform, normal, pareto or paretonormal",
        |s| {
            let found = Distribution::find(s);
            (found.is_some() || s == "uniform").then_some(found)
        },
        |d| d.map_or("uniform", Distribution::name).to_owned(),
        |rng| ["normal", "pareto", "paretonormal"][rng.below(3) as usize].to_owned(),
        vec!["mine".to_owned()],
    )
    .mapped(|d| d, |d| d.map(Some))
    .default("")
}

fn loss() -> Spec<Loss> {
    let read = |before: &Loss, words: &mut Words| match before.is_none() {
        true => Loss::read(words),
        false => Err(words.refuse("twice", "a netem has one model of loss; remove one")),
    };
    let write = |loss: &Loss| {
        let is_said = !matches!(loss, Loss::Random(chance) if !chance.is_said());
        is_said.then(|| loss.canonical())
    };
    let samples = &["1%", "random 0.1% 25%", "state 2% 50%", "gemodel 1% 10% 70% 0.1%"];
    grammar("MODEL", MODELS, read, write, samples, &["foo", "101%", "-1%"])
}

fn chance() -> Spec<Chance> {
    let read = |_: &Chance, words: &mut Words| Chance::read(words);
    let write = |chance: &Chance| chance.is_said().then(|| chance.canonical());
    let samples = &["1%", "0.1% 25%", "50% 50%", "9"];
    grammar("PERCENT [PERCENT]", PERCENT, read, write, samples, &["101%", "-1%", "often"])
}

fn gap() -> Spec<u32> {
    let read =
        |_: &u32, words: &mut Words| words.value("a number of packets", tc::parse_count_any_base);
    let write = |gap: &u32| (*gap > 0).then(|| gap.to_string());
    grammar("PACKETS", "a number of packets", read, write, &["1", "5", "100"], &["-1", "5p"])
        .default("")
}

fn rate() -> Spec<Option<RateModel>> {
    const OVERHEAD: &str = "a number of bytes, which may be negative";
    const RATE: &str = "a rate such as 10mbit";
    let signed = |words: &mut Words| -> Result<i32, Refused> {
        let given = words.next_begins(|c| c.is_ascii_digit() || c == '-');
        let value = given.then(|| words.value(OVERHEAD, tc::parse_signed_any_base));
        Ok(value.transpose()?.unwrap_or(0))
    };
    let read = move |_: &Option<RateModel>, words: &mut Words| {
        let rate = words.value(RATE, tc::parse_rate)?;
        let packet_overhead = signed(words)?;
        let cell_size = words.further(BYTES, |s| parse_31_bits(tc::parse_count_any_base(s)))?;
        let cell_overhead = signed(words)?;
        let cell_size = cell_size.unwrap_or(0);
        let model = RateModel { rate, packet_overhead, cell_size, cell_overhead };
        Ok((rate.bps() > 0).then_some(model))
    };
    let write = |model: &Option<RateModel>| {
        model.map(|m| {
            let rate = tc::format_rate(m.rate);
            format!("{rate} {} {} {}", m.packet_overhead, m.cell_size, m.cell_overhead)
        })
    };
    let samples = &["10mbit", "1mbit -5 53 -3", "64kbit 1"];
    grammar("RATE [BYTES [BYTES [BYTES]]]", RATE, read, write, samples, &["10%", "-1mbit"])
}

fn slot() -> Spec<Option<SlotConfig>> {
    let read = |_: &Option<SlotConfig>, words: &mut Words| SlotConfig::read(words).map(Some);
    let write = |slot: &Option<SlotConfig>| slot.map(|slot| slot.canonical());
    let samples = &["5ms", "800us 10ms packets 42", "distribution pareto 2ms 1ms", "1ms bytes 2k"];
    let takes = "a time, or distribution NAME DELAY JITTER";
    grammar("TIME [TIME]", takes, read, write, samples, &["1ms 500us", "dist normal 1ms 1ms"])
}

fn seed() -> Spec<Option<u64>> {
    let read = |s: &str| s.parse().ok();
    let sample = |rng: &mut Rng| rng.u64().to_string();
    let beyond = vec!["0x10".to_owned(), "-1".to_owned()];
    value("NUMBER", "a whole number below 2^64", read, u64::to_string, sample, beyond).optional()
}

impl Described for NetemConfig {
    const NAME: &'static str = "netem";
    const SUMMARY: &'static str =
        "network emulator: delay, jitter, loss, duplication, corruption, reordering, rate, slots";
    /// As `tc` tries them.
    const ABBREVIATED: &'static [&'static str] = &[
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

    /// `tc` always tells the kernel limit, delay, jitter, loss, duplicate and gap; other values only where they are
    /// named, the correlations of delay, loss and duplicate together (`netem_change`). A kept value without effect takes
    /// effect again when a later change sets the option that it belongs to.
    fn merged(&self, to: &Self, given: &Given) -> Option<Result<Self, Refused>> {
        if given.has("distribution") && to.distribution.is_none() && self.distribution.is_some() {
            let fix = "the kernel keeps its table, and no words take it back; name another one";
            return Some(Err(given.refuse("distribution", "uniform".to_owned(), fix.to_owned())));
        }
        let of_loss = |config: &Self| match config.loss {
            Loss::Random(chance) => chance.correlation.0.or(config.loss_correlation.0),
            _ => config.loss_correlation.0,
        };
        let correlations =
            |c: &Self| [c.delay.correlation.0, of_loss(c), c.duplicate.correlation.0];
        let named = correlations(to);
        let [delay, loss, duplicate] =
            if named == [None; 3] { correlations(self) } else { named }.map(Rho);
        let mut merged = to.clone();
        merged.delay.correlation = delay;
        merged.duplicate.correlation = duplicate;
        merged.loss_correlation = loss;
        if let Loss::Random(chance) = &mut merged.loss {
            chance.correlation = loss;
        }
        merged.distribution = to.distribution.or(self.distribution);
        merged.ecn |= self.ecn;
        if !given.has("corrupt") {
            merged.corrupt = self.corrupt;
        }
        if !given.has("rate") {
            merged.rate = self.rate;
        }
        merged.slot_begins = given.has("slot");
        if !merged.slot_begins {
            merged.slot = self.slot;
        } else if let (Some(slot), Some(before)) = (&mut merged.slot, self.slot) {
            slot.keep_table(before);
        }
        Some(Ok(merged))
    }

    /// Combinations that `tc` refuses.
    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        let refuse = |keyword: &str, value: String, fix: &str| {
            Err(given.refuse(keyword, value, fix.to_owned()))
        };
        let (reorder, Delay { latency, jitter, .. }) = (self.reorder.probability, self.delay);
        if reorder > 0 && latency == Span::ZERO {
            let fix = "reordering needs a delay that it spares; add delay";
            return refuse("reorder", tc::format_probability(reorder), fix);
        }
        if reorder == 0 && self.gap > 0 {
            return refuse("gap", self.gap.to_string(), "add reorder with its percentage");
        }
        if self.ecn && self.loss.is_none() {
            return refuse("ecn", "without loss".to_owned(), "add loss, which it turns into marks");
        }
        if given.has("distribution") && (latency == Span::ZERO || jitter == Span::ZERO) {
            let name = self.distribution.map_or("uniform", Distribution::name);
            let fix = "it needs a delay and a jitter, such as delay 10ms 2ms";
            return refuse("distribution", name.to_owned(), fix);
        }
        if reorder > 0 && self.gap == 0 {
            self.gap = 1;
        }
        Ok(())
    }
}
