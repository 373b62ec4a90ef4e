//! Token bucket filter (Linux `net/sched/sch_tbf.c`, 7.2): in any time t at most `burst` + `rate` t
//! leaves. A second bucket of `mtu` bytes filled at `peakrate` bounds how fast a burst leaves.
//!
//! Tokens are time, as in the kernel: a bucket holds at most what its size takes at its rate, and a
//! packet takes out what it takes itself. Packets wait in a `bfifo`; the first one keeps the others
//! waiting, also where a shorter one could go. A packet larger than a bucket could never leave and is
//! dropped when it comes.

use std::fmt::Write as _;

use super::fifo::Queue;
use super::registry::{LinkInfo, Qdisc};
use super::{Aqm, Backlog, DropReason, Pkt, QueueCx};
use crate::tc::{self, Args, Param, TcError, param};
use crate::time::{Span, Time};
use crate::units::Rate;

/// An ATM cell: its bytes, and how many of them are payload.
const CELL: u64 = 53;
const CELL_PAYLOAD: u64 = 48;
/// `tc` counts the time of a burst in 32 bits of 64 ns.
const BURST_MAX: Span = Span((u32::MAX as u64) << 6);

#[derive(Clone, PartialEq, Debug)]
pub struct TbfConfig {
    pub rate: Rate,
    /// In bytes.
    pub burst: u32,
    /// What the queue holds, in bytes.
    pub limit: u32,
    pub peak: Option<Peak>,
    /// A shorter packet costs as much as one of so many bytes.
    pub mpu: u32,
    /// Each packet costs so many bytes more.
    pub overhead: u16,
    pub linklayer: LinkLayer,
}

#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Peak {
    pub rate: Rate,
    pub mtu: u32,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum LinkLayer {
    Ethernet,
    /// A packet fills whole cells.
    Atm,
}

impl TbfConfig {
    /// What a packet of `len` bytes costs at `rate`.
    #[inline]
    fn cost(&self, rate: Rate, len: u32) -> i64 {
        let mut bytes = (u64::from(len) + u64::from(self.overhead)).max(self.mpu.into());
        if self.linklayer == LinkLayer::Atm {
            bytes = bytes.div_ceil(CELL_PAYLOAD) * CELL;
        }
        rate.time_for(bytes).0 as i64
    }
}

/// A bucket with its tokens, in nanoseconds.
#[derive(Copy, Clone, Debug)]
struct Bucket {
    rate: Rate,
    size: i64,
    tokens: i64,
}

impl Bucket {
    fn full(config: &TbfConfig, rate: Rate, bytes: u32) -> Bucket {
        let size = config.cost(rate, bytes);
        Bucket { rate, size, tokens: size }
    }
    /// The tokens left after `passed` nanoseconds and a packet of `len` bytes; negative: not yet.
    #[inline]
    fn after(&self, passed: i64, config: &TbfConfig, len: u32) -> i64 {
        (self.tokens + passed).min(self.size) - config.cost(self.rate, len)
    }
}

/// The queue at work.
#[derive(Debug)]
pub struct Tbf<P> {
    queue: Queue<P>,
    max_size: u32,
    main: Bucket,
    peak: Option<Bucket>,
    /// When the tokens were counted.
    counted: Time,
    /// When to ask again after `None`.
    wake: Time,
    config: TbfConfig,
}

impl<P: Pkt> Tbf<P> {
    pub fn new(config: TbfConfig, now: Time) -> Self {
        Tbf {
            queue: Queue::new(),
            max_size: config.peak.map_or(config.burst, |peak| config.burst.min(peak.mtu)),
            main: Bucket::full(&config, config.rate, config.burst),
            peak: config.peak.map(|peak| Bucket::full(&config, peak.rate, peak.mtu)),
            counted: now,
            wake: Time::NEVER,
            config,
        }
    }
}

impl<P: Pkt + Send> Aqm<P> for Tbf<P> {
    fn enqueue(&mut self, pkt: P, cx: &mut QueueCx<P>) {
        let len = pkt.frame_len();
        if len > self.max_size {
            return cx.drop(pkt, DropReason::Aqm);
        }
        if self.queue.bytes() + u64::from(len) > u64::from(self.config.limit) {
            return cx.drop(pkt, DropReason::Overflow);
        }
        self.queue.push(pkt);
    }

    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        self.wake = Time::NEVER;
        let len = self.queue.front()?.frame_len();
        let passed = (cx.now.since(self.counted).0 as i64).min(self.main.size);
        let tokens = self.main.after(passed, &self.config, len);
        let peak_tokens = self.peak.map_or(0, |peak| peak.after(passed, &self.config, len));
        let missing = -tokens.min(peak_tokens);
        if missing > 0 {
            self.wake = cx.now + Span(missing as u64);
            return None;
        }
        self.counted = cx.now;
        self.main.tokens = tokens;
        if let Some(peak) = &mut self.peak {
            peak.tokens = peak_tokens;
        }
        self.queue.pop()
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.queue.len() as u64, bytes: self.queue.bytes() }
    }
    fn next_timer(&self) -> Time {
        self.wake
    }
    fn on_timer(&mut self, _cx: &mut QueueCx<P>) {
        self.wake = Time::NEVER;
    }
    fn likely_next(&self) -> Option<&P> {
        self.queue.front()
    }
}

const RATE: &str = "a rate above zero such as 10mbit";
const SIZE: &str = "a size above zero such as 1600b or 5k (k is 1024)";
/// The keywords that `tc` lets one abbreviate, in its order.
const ORDER: &[&str] = &["limit", "latency", "burst", "peakrate", "overhead", "linklayer"];

fn size(args: &mut Args) -> Result<u32, TcError> {
    args.value(SIZE, |s| tc::parse_size(s).filter(|&n| n > 0))
}

/// A size, and the cell of the rate table, which kernels no longer use.
fn size_and_cell(args: &mut Args) -> Result<u32, TcError> {
    args.value(SIZE, |s| {
        let (size, cell) = s.split_once('/').unwrap_or((s, "1"));
        let cell = tc::parse_count_any_base(cell)?;
        tc::parse_size(size).filter(|&n| n > 0 && cell.is_power_of_two())
    })
}

fn rate(args: &mut Args) -> Result<Rate, TcError> {
    args.value(RATE, |s| tc::parse_rate(s).filter(|r| r.bps() > 0))
}

/// Stores the value of a keyword that may be given once.
fn once<T>(
    args: &mut Args,
    keyword: &str,
    place: &mut Option<T>,
    read: impl FnOnce(&mut Args) -> Result<T, TcError>,
) -> Result<(), TcError> {
    if place.is_some() {
        let fix = "it (or another word for it) is given twice; remove one".to_owned();
        return Err(args.refuse(keyword, "again".to_owned(), fix));
    }
    *place = Some(read(args)?);
    Ok(())
}

impl Qdisc for TbfConfig {
    const NAME: &'static str = "tbf";
    const SUMMARY: &'static str = "token bucket filter: a shaper with a bucket of any size";
    const REQUIRED: &'static str = "rate 1mbit burst 5k limit 5k";
    const PARAMS: &'static [Param] = &[
        param("rate", "RATE", "", "at which the bucket fills; required"),
        param("burst", "BYTES[/CELL]", "", "size of the bucket; required"),
        param("buffer", "BYTES[/CELL]", "", "the same as burst"),
        param("maxburst", "BYTES[/CELL]", "", "the same as burst"),
        param("limit", "BYTES", "", "what the queue holds at most; this or latency is required"),
        param("latency", "TIME", "", "sets limit to what leaves in this time, and a burst"),
        param("peakrate", "RATE", "", "at which a second bucket of mtu bytes fills"),
        param("mtu", "BYTES[/CELL]", "", "size of that bucket"),
        param("minburst", "BYTES[/CELL]", "", "the same as mtu"),
        param("mpu", "BYTES", "0", "what a packet counts at least"),
        param("overhead", "BYTES", "0", "what it counts in addition"),
        param("linklayer", "NAME", "ethernet", "atm (or adsl) counts whole cells"),
    ];

    fn parse(args: &mut Args) -> Result<Self, TcError> {
        let (mut given_rate, mut burst, mut limit, mut latency) = (None, None, None, None);
        let (mut peakrate, mut mtu, mut mpu) = (None, None, None);
        let (mut overhead, mut linklayer) = (None, LinkLayer::Ethernet);
        while let Some(keyword) = args.keyword_in(ORDER) {
            match keyword {
                "limit" => once(args, keyword, &mut limit, size)?,
                "latency" => once(args, keyword, &mut latency, |args| args.time())?,
                "burst" | "buffer" | "maxburst" => once(args, keyword, &mut burst, size_and_cell)?,
                "mtu" | "minburst" => once(args, keyword, &mut mtu, size_and_cell)?,
                "mpu" => once(args, keyword, &mut mpu, |args| {
                    args.value("a size such as 64b", tc::parse_size)
                })?,
                "rate" => once(args, keyword, &mut given_rate, rate)?,
                "peakrate" => once(args, keyword, &mut peakrate, rate)?,
                "overhead" => once(args, keyword, &mut overhead, |args| {
                    args.value("a whole number from 0 to 65535", |s| {
                        tc::parse_count(s).and_then(|n| u16::try_from(n).ok())
                    })
                })?,
                "linklayer" => {
                    linklayer = args.value("ethernet, atm or adsl", |s| match s {
                        "ethernet" => Some(LinkLayer::Ethernet),
                        "atm" | "adsl" => Some(LinkLayer::Atm),
                        _ => None,
                    })?;
                }
                _ => return Err(args.unknown()),
            }
        }
        let missing =
            |keyword: &str, fix: &str| args.refuse(keyword, "missing".to_owned(), fix.to_owned());
        let rate = given_rate.ok_or_else(|| missing("rate", "add rate, such as rate 10mbit"))?;
        let burst = burst.ok_or_else(|| missing("burst", "add burst, such as burst 5k"))?;
        let peak = match (peakrate, mtu) {
            (Some(rate), Some(mtu)) => Some(Peak { rate, mtu }),
            (Some(_), None) => return Err(missing("mtu", "peakrate needs it; add mtu 1600b")),
            (None, _) => None, // without a peakrate tc takes mtu and the kernel does not ask for it
        };
        let limit = match (limit, latency) {
            (Some(limit), None) => limit,
            (None, Some(latency)) => limit_of(latency, rate, burst, peak),
            (Some(_), Some(_)) => {
                let fix = "limit is given too; remove one of them".to_owned();
                return Err(args.refuse("latency", "beside limit".to_owned(), fix));
            }
            (None, None) => return Err(missing("limit", "add limit 64k, or latency 50ms")),
        };
        let (mpu, overhead) = (mpu.unwrap_or(0), overhead.unwrap_or(0));
        let config = TbfConfig { rate, burst, limit, peak, mpu, overhead, linklayer };
        config.check(args)?;
        Ok(config)
    }

    fn canonical(&self) -> String {
        let mut text = format!("rate {} burst {}b", tc::format_rate(self.rate), self.burst);
        if let Some(peak) = self.peak {
            let _ = write!(text, " peakrate {} mtu {}b", tc::format_rate(peak.rate), peak.mtu);
        }
        let linklayer = if self.linklayer == LinkLayer::Atm { "atm" } else { "ethernet" };
        let _ = write!(
            text,
            " limit {}b mpu {} overhead {} linklayer {linklayer}",
            self.limit, self.mpu, self.overhead
        );
        text
    }

    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(Tbf::new(self.clone(), link.now))
    }
}

/// `tc`: a full bucket, and what comes in besides during the latency; with two buckets, the less.
fn limit_of(latency: Span, rate: Rate, burst: u32, peak: Option<Peak>) -> u32 {
    let fits = |rate: Rate, bytes: u32| {
        (rate.bps() / 8) as f64 * latency.as_micros() as f64 / 1e6 + f64::from(bytes)
    };
    let main = fits(rate, burst);
    peak.map_or(main, |peak| main.min(fits(peak.rate, peak.mtu))) as u32
}

impl TbfConfig {
    fn check(&self, args: &Args) -> Result<(), TcError> {
        let refuse =
            |keyword: &str, value: String, fix: String| Err(args.refuse(keyword, value, fix));
        if let Some(peak) = self.peak.filter(|peak| peak.rate <= self.rate) {
            let fix = format!("it must exceed rate {}", tc::format_rate(self.rate));
            return refuse("peakrate", tc::format_rate(peak.rate), fix);
        }
        let buckets =
            [Some(("burst", self.burst, self.rate)), self.peak.map(|p| ("mtu", p.mtu, p.rate))];
        for (keyword, bytes, rate) in buckets.into_iter().flatten() {
            if rate.time_for(bytes.into()) > BURST_MAX {
                let fix = "it takes longer than 274 s to fill; use less".to_owned();
                return refuse(keyword, format!("{bytes}b"), fix);
            }
        }
        Ok(())
    }
}
