//! Token bucket filter (Linux `net/sched/sch_tbf.c`, 7.2): in any time t at most `burst` + `rate` t
//! leaves. A second bucket of `mtu` bytes filled at `peakrate` bounds how fast a burst leaves.
//!
//! Tokens are time, as in the kernel. A bucket holds at most the time of its size at its rate, and a packet
//! costs its own time. Packets wait in a `bfifo`. The first one blocks the others, even if a shorter one
//! could leave. A packet larger than a bucket could never leave and is dropped on arrival.

use std::any::Any;

use super::queue::Queue;
use super::{
    Aqm, Backlog, DropReason, LinkInfo, Marking, Overflow, Pkt, Qdisc, QueueCx, Room, Separation,
};
use crate::params::kinds::{Spec, count, params, rate_if, size, some_time, value};
use crate::params::{Described, Given, Refused};
use crate::rng::Rng;
use crate::tc;
use crate::time::{Span, Time};
use crate::units::Rate;

/// An ATM cell: its bytes, and how many of them are payload.
pub(super) const CELL: u64 = 53;
pub(super) const CELL_PAYLOAD: u64 = 48;
/// With segmentation offload.
const LARGEST_PACKET: u32 = 65536;
/// `tc` counts the time of a burst in 32 bits of 64 ns.
const BURST_MAX: Span = Span((u32::MAX as u64) << 6);

params! {
    /// The parameters, by their names in `tc`.
    pub struct TbfConfig {
        /// fill rate of the bucket; required
        rate: Rate = Rate::from_bps(0), rate(), "";
        /// size of the bucket; required
        burst: u32 = 0, size_and_cell().called(&["burst", "buffer", "maxburst"]), "";
        /// fill rate of a second bucket of mtu bytes
        peakrate: Option<Rate> = None, rate().optional(), "";
        /// size of that bucket
        mtu: Option<u32> = None, size_and_cell().called(&["mtu", "minburst"]).optional(), "";
        /// largest backlog; this or latency is required
        limit: u32 = 0, limit().default(""), "";
        /// sets limit to the bytes sent in this time, plus a burst
        latency: Option<Span> = None, some_time().optional(), "";
        /// smallest size that a packet counts as
        mpu: u32 = 0, size(0..=u32::MAX), "tc";
        /// bytes added to each packet
        overhead: u16 = 0, count(0..=u16::MAX).shown("BYTES"), "tc";
        /// atm (or adsl) counts whole cells
        linklayer: LinkLayer = LinkLayer::Ethernet, linklayer(), "tc";
    }
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
    /// The longest packet that fits into its buckets, bytes.
    pub(super) fn largest(&self) -> u32 {
        self.peak().map_or(self.burst, |peak| self.burst.min(peak.mtu))
    }
    /// Its buckets, full.
    pub(super) fn buckets(&self, now: Time) -> Buckets {
        Buckets::full(self.framing(), self.rate, self.burst, self.peak(), now)
    }
    fn framing(&self) -> Framing {
        Framing { overhead: self.overhead, mpu: self.mpu, linklayer: self.linklayer }
    }
}

/// The bytes that a packet costs.
#[derive(Copy, Clone, Debug)]
pub(super) struct Framing {
    pub overhead: u16,
    pub mpu: u32,
    pub linklayer: LinkLayer,
}

impl Framing {
    /// The cost of a packet of `len` bytes at `rate`.
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
    fn full(framing: &Framing, rate: Rate, bytes: u32) -> Bucket {
        let size = framing.cost(rate, bytes);
        Bucket { rate, size, tokens: size }
    }
    /// The tokens left after `passed` nanoseconds and a packet of `len` bytes; negative: not yet.
    #[inline]
    fn after(&self, passed: i64, framing: &Framing, len: u32) -> i64 {
        (self.tokens + passed).min(self.size) - framing.cost(self.rate, len)
    }
}

/// One bucket or two, of which a packet needs both.
#[derive(Copy, Clone, Debug)]
pub(super) struct Buckets {
    framing: Framing,
    main: Bucket,
    peak: Option<Bucket>,
    /// When the tokens were counted.
    counted: Time,
}

impl Buckets {
    pub fn full(
        framing: Framing,
        rate: Rate,
        burst: u32,
        peak: Option<Peak>,
        now: Time,
    ) -> Buckets {
        Buckets {
            main: Bucket::full(&framing, rate, burst),
            peak: peak.map(|peak| Bucket::full(&framing, peak.rate, peak.mtu)),
            counted: now,
            framing,
        }
    }
    /// Takes the tokens of a packet of `len` bytes, or says how long they are still missing.
    #[inline]
    pub fn take(&mut self, now: Time, len: u32) -> Result<(), Span> {
        let passed = (now.since(self.counted).0 as i64).min(self.main.size);
        let tokens = self.main.after(passed, &self.framing, len);
        let peak_tokens = self.peak.map_or(0, |peak| peak.after(passed, &self.framing, len));
        let missing = -tokens.min(peak_tokens);
        if missing > 0 {
            return Err(Span(missing as u64));
        }
        self.counted = now;
        self.main.tokens = tokens;
        if let Some(peak) = &mut self.peak {
            peak.tokens = peak_tokens;
        }
        Ok(())
    }
}

/// The queue at work.
#[derive(Debug)]
pub struct Tbf<P> {
    queue: Queue<P>,
    max_size: u32,
    buckets: Buckets,
    /// When to ask again after `None`.
    wake: Time,
    config: TbfConfig,
}

impl<P: Pkt> Tbf<P> {
    pub fn new(config: TbfConfig, now: Time) -> Self {
        Tbf {
            queue: Queue::new(),
            max_size: config.largest(),
            buckets: config.buckets(now),
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
        match self.buckets.take(cx.now, len) {
            Ok(()) => self.queue.pop(),
            Err(missing) => {
                self.wake = cx.now + missing;
                None
            }
        }
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.queue.len() as u64, bytes: self.queue.bytes() }
    }
    /// What waits beyond a smaller limit stays, and buckets are full. A packet that is larger than its bucket now
    /// keeps all others waiting, until another queue takes the place of this one.
    fn change(&mut self, to: &dyn Any, cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let Some(config) = to.downcast_ref::<TbfConfig>() else {
            while let Some(pkt) = self.queue.pop() {
                cx.drop(pkt, DropReason::Replaced);
            }
            return Err(Vec::new());
        };
        let queue = std::mem::take(&mut self.queue);
        let wake = self.wake;
        *self = Tbf { queue, wake, ..Tbf::new(config.clone(), cx.now) };
        Ok(())
    }
    fn next_timer(&self) -> Time {
        self.wake
    }
    fn on_timer(&mut self, _cx: &mut QueueCx<P>) {
        self.wake = Time::NEVER;
    }
}

/// The keywords that may be given once, with their other words.
const ONCE: [&[&str]; 8] = [
    &["limit"],
    &["latency"],
    &["burst", "buffer", "maxburst"],
    &["mtu", "minburst"],
    &["mpu"],
    &["rate"],
    &["peakrate"],
    &["overhead"],
];

pub(super) fn rate() -> Spec<Rate> {
    rate_if("a rate above zero such as 10mbit", |rate| rate.bps() > 0, &["0", "10%"]).default("")
}

fn limit() -> Spec<u32> {
    let size = |s: &str| tc::parse_size(s).filter(|&n| n > 0);
    let sample = |rng: &mut Rng| (1 + rng.below(2_000_000)).to_string();
    let takes = "a size above zero such as 1600b or 5k (k is 1024)";
    value("BYTES", takes, size, |bytes| format!("{bytes}b"), sample, vec!["0".to_owned()])
}

/// A size, and the cell of the rate table, which kernels no longer use.
pub(super) fn size_and_cell() -> Spec<u32> {
    let spec = value(
        "BYTES[/CELL]",
        "a size above zero such as 1600b or 5k (k is 1024)",
        |s| {
            let (size, cell) = s.split_once('/').unwrap_or((s, "1"));
            let cell = tc::parse_count_any_base(cell)?;
            tc::parse_size(size).filter(|&n| n > 0 && cell.is_power_of_two())
        },
        |bytes| format!("{bytes}b"),
        |rng| (1 + rng.below(200_000)).to_string(),
        ["0", "5k/9", "-4"].map(str::to_owned).into(),
    );
    spec.default("")
}

pub(super) fn linklayer() -> Spec<LinkLayer> {
    value(
        "NAME",
        "ethernet, atm or adsl",
        |s| match s {
            "ethernet" => Some(LinkLayer::Ethernet),
            "atm" | "adsl" => Some(LinkLayer::Atm),
            _ => None,
        },
        |layer| if *layer == LinkLayer::Atm { "atm" } else { "ethernet" }.to_owned(),
        |rng| ["ethernet", "atm", "adsl"][rng.below(3) as usize].to_owned(),
        vec!["foo".to_owned()],
    )
}

impl Described for TbfConfig {
    const NAME: &'static str = "tbf";
    const SUMMARY: &'static str = "token bucket filter: a shaper with a bucket of any size";
    const REQUIRED: &'static str = "rate 1mbit burst 5k limit 5k";
    const ABBREVIATED: &'static [&'static str] =
        &["limit", "latency", "burst", "peakrate", "overhead", "linklayer"];

    /// `tc` tells the kernel all of them.
    fn merged(&self, to: &Self, _given: &Given) -> Option<Result<Self, Refused>> {
        Some(Ok(to.clone()))
    }
    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        let missing = |keyword: &str, fix: &str| {
            Err(given.refuse(keyword, "missing".to_owned(), fix.to_owned()))
        };
        for words in ONCE {
            if let [_, again, ..] = given.of(words)[..] {
                let fix = "it (or another word for it) is given twice; remove one".to_owned();
                return Err(given.refuse(again, "again".to_owned(), fix));
            }
        }
        if !given.has("rate") {
            return missing("rate", "add rate, such as rate 10mbit");
        }
        if self.burst == 0 {
            return missing("burst", "add burst, such as burst 5k");
        }
        if self.peakrate.is_some() && self.mtu.is_none() {
            return missing("mtu", "peakrate needs it; add mtu 1600b");
        }
        // tc takes 32 bits and tells the kernel the lower 16.
        self.mpu &= u32::from(u16::MAX);
        // Without a peakrate tc takes mtu and the kernel does not ask for it.
        self.mtu = self.mtu.filter(|_| self.peakrate.is_some());
        match (given.has("limit"), self.latency.take()) {
            (true, None) => {}
            (false, Some(latency)) => {
                self.limit = limit_of(latency, self.rate, self.burst, self.peak());
            }
            (true, Some(_)) => {
                let fix = "limit is given too; remove one of them".to_owned();
                return Err(given.refuse("latency", "beside limit".to_owned(), fix));
            }
            (false, None) => return missing("limit", "add limit 64k, or latency 50ms"),
        }
        check_buckets(given, self.rate, self.burst, self.peak())
    }
}

impl Qdisc for TbfConfig {
    const SEPARATION: Separation = Separation::Shaper;
    const MARKING: Marking = Marking::Never;
    const OVERFLOW: Overflow = Overflow::All;

    /// Linux does so only with packets that do not fit into a bucket.
    fn splits(&self) -> bool {
        self.largest() < LARGEST_PACKET
    }
    fn room(&self, _link: LinkInfo) -> Room {
        Room { rate: self.rate, ..Room::of_bytes(self.limit) }
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
    fn peak(&self) -> Option<Peak> {
        self.peakrate.zip(self.mtu).map(|(rate, mtu)| Peak { rate, mtu })
    }
}

/// Refuses a peak that is none, and buckets that `tc` cannot tell the kernel.
pub(super) fn check_buckets(
    given: &Given,
    rate: Rate,
    burst: u32,
    peak: Option<Peak>,
) -> Result<(), Refused> {
    let refuse = |keyword: &str, value: String, fix: String| Err(given.refuse(keyword, value, fix));
    if let Some(peak) = peak.filter(|peak| peak.rate <= rate) {
        let fix = format!("it must exceed rate {}", tc::format_rate(rate));
        return refuse("peakrate", tc::format_rate(peak.rate), fix);
    }
    let buckets = [Some(("burst", burst, rate)), peak.map(|p| ("mtu", p.mtu, p.rate))];
    for (keyword, bytes, rate) in buckets.into_iter().flatten() {
        if rate.time_for(bytes.into()) > BURST_MAX {
            let fix = "it takes longer than 274 s to fill; use less".to_owned();
            return refuse(keyword, format!("{bytes}b"), fix);
        }
    }
    Ok(())
}
