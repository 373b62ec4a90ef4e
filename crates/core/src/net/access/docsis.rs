//! A cable modem and its CMTS (DOCSIS 3.1): upstream a packet waits for a grant, which the modem has to request unless the
//! CMTS grants proactively; downstream it crosses a shaper and a nearly fixed delay.
//!
//! The rules and defaults are those of CableLabs' model for ns-3 (`docsis-ns3` 1.2) and of MULPI 3.1 (annexes B and C);
//! `docs/access.md` has the numbers. Upstream rates are enforced by not granting, so that the queue is in the modem. Other
//! modems are `load`, and requests do not collide.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};

use super::{MediumKind, Place, Subscribers};
use crate::aqm::Grants;
use crate::net::air::{Burst, BurstKind, Division, Way};
use crate::net::medium::{Medium, Sides};
use crate::net::parts::{Parts, Stages};
use crate::packet::Packet;
use crate::params::kinds::{
    any_time, count, params, percent, rate, rate_if, some_time, time, words,
};
use crate::params::{Described, Gauge, Given, Refused, gauge};
use crate::probe::Gauges;
use crate::rng::Rng;
use crate::time::{Span, Time};
use crate::units::Rate;

/// An OFDM symbol with its cyclic prefix, up (256 samples at 102.4 MHz) and down (512 at 204.8 MHz).
const SYMBOL: Span = Span(22_500);
/// A minislot is 8 subcarriers of 50 kHz wide; with 10 bit/s/Hz and FEC it carries 8 bytes in each symbol of a frame.
const MINISLOT_BYTES_PER_SYMBOL: u64 = 8;
/// 1880 subcarriers.
const MINISLOTS: u64 = 235;
/// The modem handles a MAP (annex B, without the part that depends on the frame), and the CMTS makes it.
const MODEM_MAP: Span = Span::from_micros(600);
const CMTS_MAP: Span = Span::from_micros(200);
/// Ethernet FCS and the MAC header of DOCSIS.
const PER_PACKET: u64 = 4 + 10;
/// Rates are inflated for MAC headers: (200 + 10) / 200.
const INFLATION: (u64, u64) = (21, 20);
/// A downstream symbol carries so many bytes: 2.741 codewords of 1777 B, less MAPs.
const DOWN_SYMBOL_BYTES: u64 = 4816;
/// The peak rate downstream lets one frame go at once.
const PEAK_BURST: u64 = 1522;
/// Parts of the upstream queue.
const L: usize = 0;
const C: usize = 1;

params! {
    pub struct DocsisConfig {
        /// aggregate maximum sustained rate upstream
        up: Rate = Rate::from_bps(50_000_000), rate(), "docsis-ns3, residential";
        /// the same downstream
        down: Rate = Rate::from_bps(200_000_000), rate(), "docsis-ns3, residential";
        /// peak rate, in percent of the sustained one
        peak: u16 = 200, count(100..=10_000_u16).shown("PERCENT"), "docsis-ns3, residential";
        /// burst at the peak rate after a pause, as time at the sustained rate
        burst: Span = Span::from_millis(100), some_time(), "docsis-ns3, residential";
        /// MAP interval, which is rounded to whole frames
        map: Span = Span::from_millis(1), time(Span::from_micros(150)..=Span::from_millis(20)), "docsis-ns3, residential";
        /// guaranteed grant rate of the low-latency flow: grants without requests; 0bit: none
        ggr: Rate = Rate::from_bps(0), rate_if("a rate such as 5mbit, at most 500mbit", |r| r.bps() <= 500_000_000, &["1gbit", "5m"]), "";
        /// interval of these grants; 0: the MAP interval
        ggi: Span = Span::ZERO, time(Span::ZERO..=Span::from_millis(20)), "";
        /// share of the low-latency flow while both have requests, in 1/256
        weight: u8 = 230, count(1..=255), "MULPI";
        one_flow: bool = false, words([
            ("two-flows", false, "low-latency and classic packets are granted apart"),
            ("one-flow", true, "one service flow, without Low Latency DOCSIS"),
        ]), "";
        /// rate that other modems take of the upstream channel
        load: Rate = Rate::from_bps(0), rate_if("a rate such as 100mbit, at most 600mbit", |r| r.bps() <= 600_000_000, &["1gbit", "5m"]), "";
        /// change of that rate from one MAP interval to the next, uniformly up and down
        vary: u8 = 0, percent(0..=100), "";
        /// between modem and CMTS, km
        distance: u16 = 8, count(0..=160), "docsis-ns3";
        /// OFDMA symbols of a frame
        symbols: u8 = 6, count(6..=36), "docsis-ns3";
        /// depth of the downstream interleaver
        interleaver: u8 = 3, count(1..=32), "docsis-ns3";
        /// from a MAP's making to the interval that it describes, if that is longer than its parts
        lead: Span = Span::ZERO, any_time(), "";
    }
}

impl Described for DocsisConfig {
    const NAME: &'static str = "docsis";
    const SUMMARY: &'static str =
        "cable: upstream by request and grant or by proactive grants, downstream by a shaper";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] = &[
        gauge("request_bytes", "bytes", "requested upstream since the last sample"),
        gauge("grant_bytes", "bytes", "granted upstream"),
        gauge("unused_grant_bytes", "bytes", "granted and not used"),
    ];

    const FIXED: &'static [&'static str] =
        &["map", "two-flows", "distance", "symbols", "interleaver", "lead"];

    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        if self.ggi > Span::ZERO && self.ggr.bps() == 0 {
            let fix = "it is of proactive grants; add ggr with their rate".to_owned();
            return Err(given.refuse("ggi", crate::tc::format_time(self.ggi), fix));
        }
        if self.one_flow && self.ggr.bps() > 0 {
            let fix = "proactive grants are for the low-latency flow; leave one-flow or ggr out"
                .to_owned();
            return Err(given.refuse("ggr", crate::tc::format_rate(self.ggr), fix));
        }
        Ok(())
    }
}

impl MediumKind for DocsisConfig {
    fn rates(&self) -> [Rate; 2] {
        [self.down, self.up]
    }
    fn parts(&self, way: Way, _: &Subscribers) -> Parts {
        let is_by_latency = way == Way::Up && !self.one_flow;
        Parts { by_latency: is_by_latency.then(|| self.grants()), ..Parts::default() }
    }
    fn build(&self, place: &Place, _: &Subscribers) -> Box<dyn Medium> {
        Box::new(Docsis::new(self.clone(), place))
    }
}

impl DocsisConfig {
    fn frame(&self) -> Span {
        SYMBOL * u64::from(self.symbols)
    }
    fn minislot_bytes(&self) -> u64 {
        MINISLOT_BYTES_PER_SYMBOL * u64::from(self.symbols)
    }
    /// Frames of a MAP interval, and from one proactive grant to the next.
    fn map_frames(&self) -> u64 {
        ((self.map.0 + self.frame().0 / 2) / self.frame().0).max(1)
    }
    fn grant_frames(&self) -> u64 {
        match self.ggi {
            Span::ZERO => self.map_frames(),
            ggi => (ggi.0 / self.frame().0).max(1),
        }
    }
    /// A MAP interval.
    fn interval(&self) -> Span {
        self.frame() * self.map_frames()
    }
    fn one_way(&self) -> Span {
        Span(u64::from(self.distance) * 5_000)
    }
    fn interleaving(&self) -> Span {
        SYMBOL * (u64::from(self.interleaver) - 1)
    }
    /// From a MAP's arrival at the modem to its interval.
    fn modem_lead(&self) -> Span {
        MODEM_MAP + self.frame() + SYMBOL
    }
    /// From a MAP's making to its interval.
    fn map_lead(&self) -> Span {
        let least =
            self.modem_lead() + self.interleaving() + SYMBOL * 3 + self.one_way() + CMTS_MAP;
        least.max(self.lead)
    }
    /// From a request's sending to the scheduler.
    fn request_delay(&self) -> Span {
        self.one_way() + self.frame() * 3
    }
    /// The modem reads its wait from MAPs: a request is answered after the least delay, in whole frames, and in an interval.
    fn grants(&self) -> Grants {
        let frame = self.frame();
        let least = frame * (self.request_delay() + self.map_lead()).0.div_ceil(frame.0);
        let interval = frame * self.grant_frames();
        Grants { wait: least + self.interval(), rate: self.ggr, interval }
    }
}

/// The next event of the upstream.
enum Event {
    /// A part of a grant is prepared: in a frame that begins one frame later.
    /// `usable`: bytes that it may carry.
    Grant { flow: usize, bytes: u64, usable: u64, begins_grant: bool },
    /// A MAP with so many bytes for a flow is read.
    Map { flow: usize, bytes: u64 },
    /// The modem may request.
    Opportunity { flow: usize },
}

/// A service flow upstream.
#[derive(Default)]
struct Flow {
    /// The modem has asked for so many bytes that no MAP has answered, has been granted so many that it has not sent
    /// yet, and the CMTS has requests for so many.
    asked: u64,
    granted: u64,
    wanted: u64,
    /// A packet that is sent in part, when it left the queue, when its first byte was sent, and bytes left.
    partial: Option<(Packet, Time, Time, u64)>,
}

#[derive(Copy, Clone, Default)]
struct Counts {
    requested: u64,
    granted: u64,
    unused: u64,
}

/// A bucket of bytes, in units of bits times a second over 10^9.
struct Bucket {
    rate: u128,
    /// Bytes times 8 * 10^9.
    tokens: i128,
    most: i128,
    at: Time,
}

const BYTE: i128 = 8_000_000_000;

impl Bucket {
    fn new(rate: u64, burst_bytes: u64) -> Bucket {
        let most = i128::from(burst_bytes) * BYTE;
        Bucket { rate: rate.into(), tokens: most, most, at: Time::ZERO }
    }
    /// Another rate and burst from now on.
    fn set(&mut self, now: Time, to: Bucket) {
        self.fill(now);
        (self.rate, self.most) = (to.rate, to.most);
        self.tokens = self.tokens.min(self.most);
    }
    fn fill(&mut self, now: Time) {
        self.tokens += (u128::from(now.since(self.at).0) * self.rate) as i128;
        self.tokens = self.tokens.min(self.most);
        self.at = now;
    }
    /// When there are tokens.
    fn ready(&self) -> Time {
        match self.tokens {
            0.. => self.at,
            debt => self.at + Span((debt.unsigned_abs().div_ceil(self.rate)) as u64),
        }
    }
    fn take(&mut self, bytes: u64) {
        self.tokens -= i128::from(bytes) * BYTE;
    }
}

/// Upstream, and the two of downstream.
fn buckets(config: &DocsisConfig) -> (Bucket, [Bucket; 2]) {
    let inflated = config.up.bps() * INFLATION.0 / INFLATION.1;
    let burst = |rate: Rate| rate.bytes_in(config.burst).max(2000);
    let peak = config.down.bps() * u64::from(config.peak) / 100;
    let down = [Bucket::new(config.down.bps(), burst(config.down)), Bucket::new(peak, PEAK_BURST)];
    (Bucket::new(inflated, burst(config.up)), down)
}

/// The medium at work.
struct Docsis {
    config: DocsisConfig,
    flows: Vec<Flow>,
    /// The number of the interval whose MAP is made next, and when that is.
    next_interval: u64,
    map: Time,
    events: BTreeMap<(Time, u64), Event>,
    numbered: u64,
    /// Requests on their way, with the time of their arrival.
    requests: VecDeque<(Time, usize, u64)>,
    sustained: Bucket,
    opportunities: Rng,
    placement: Rng,
    congestion: Rng,
    counts: Counts,
    /// Downstream: buckets, when the next packet may leave if one waits, and the phase of symbols.
    down: [Bucket; 2],
    due: Time,
    phases: Rng,
}

impl Docsis {
    fn new(config: DocsisConfig, place: &Place) -> Docsis {
        let (sustained, down) = buckets(&config);
        let flows = if config.one_flow { 1 } else { 2 };
        // The first interval is the first one whose MAP is made after time 0.
        let first = config.map_lead().0.div_ceil(config.interval().0);
        Docsis {
            flows: (0..flows).map(|_| Flow::default()).collect(),
            next_interval: first,
            map: Time(config.interval().0 * first).saturating_sub(config.map_lead()),
            events: BTreeMap::new(),
            numbered: 0,
            requests: VecDeque::new(),
            sustained,
            opportunities: place.stream("docsis requests", 0),
            placement: place.stream("docsis grants", 0),
            congestion: place.stream("docsis load", 0),
            counts: Counts::default(),
            down,
            due: Time::NEVER,
            phases: place.stream("docsis symbols", 0),
            config,
        }
    }
    fn plan(&mut self, at: Time, event: Event) {
        self.events.insert((at, self.numbered), event);
        self.numbered += 1;
    }
    /// Minislots for so many bytes.
    fn minislots(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.config.minislot_bytes())
    }

    /// The CMTS makes the MAP of an interval.
    fn make_map(&mut self, now: Time) {
        while self.requests.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, flow, bytes) = self.requests.pop_front().expect("it is there");
            self.flows[flow].wanted += bytes;
        }
        let length = self.config.interval();
        let begin = Time(length.0 * self.next_interval);
        self.map = (begin + length).saturating_sub(self.config.map_lead());
        let proactive = self.proactive();
        self.next_interval += 1;
        let most = self.available(now);
        let pieces = self.place(&proactive, most);
        let has_proactive = proactive.iter().any(|minislots| *minislots > 0);
        let minislot = self.config.minislot_bytes();
        for flow in 0..self.flows.len() {
            let of_flow: Vec<(u64, u64)> = pieces
                .iter()
                .filter(|((_, of), _)| *of == flow)
                .map(|((frame, _), minislots)| (*frame, *minislots * minislot))
                .collect();
            if of_flow.is_empty() {
                let at = begin + Span(self.opportunities.below(length.0));
                self.plan(at, Event::Opportunity { flow });
                continue;
            }
            let is_proactive = has_proactive && flow == L;
            self.announce(begin, flow, &of_flow, &proactive, is_proactive);
        }
    }
    /// Minislots of each frame of the next interval that the low-latency flow gets without a request.
    fn proactive(&self) -> Vec<u64> {
        let (frames, every) = (self.config.map_frames(), self.config.grant_frames());
        let bytes = u128::from(self.config.ggr.bps())
            * u128::from(self.config.frame().0)
            * u128::from(every);
        let each = self.minislots(bytes.div_ceil(8_000_000_000) as u64).min(MINISLOTS);
        let first = self.next_interval * frames;
        (first..first + frames)
            .map(|frame| if frame.is_multiple_of(every) { each } else { 0 })
            .collect()
    }
    /// Minislots of an interval that other modems and the rates leave.
    fn available(&mut self, now: Time) -> u64 {
        let minislot = self.config.minislot_bytes();
        let length = self.config.interval();
        let draw = 2.0 * self.congestion.unit() - 1.0;
        let load =
            self.config.load.bps() as f64 * (1.0 + draw * f64::from(self.config.vary) / 100.0);
        let loaded = (load * length.as_secs_f64() / 8.0 / minislot as f64) as u64;
        let free = (MINISLOTS * self.config.map_frames()).saturating_sub(loaded);
        self.sustained.fill(now);
        let peak = self.config.up.bps() * u64::from(self.config.peak) / 100;
        let peak = Rate::from_bps(peak * INFLATION.0 / INFLATION.1).bytes_in(length);
        let tokens = (self.sustained.tokens.max(0) / BYTE) as u64;
        free.min(tokens.min(peak) / minislot)
    }
    /// Minislots by frame and flow, of which an interval has `most` for requests.
    fn place(&mut self, proactive: &[u64], most: u64) -> BTreeMap<(u64, usize), u64> {
        let pgs: u64 = proactive.iter().sum();
        let (low, classic) = self.share(pgs, most);
        let mut pieces: BTreeMap<(u64, usize), u64> = BTreeMap::new();
        let mut used = proactive.to_vec();
        let mut place = |flow: usize, from: u64, mut wanted: u64| {
            for (frame, taken) in used.iter_mut().enumerate() {
                let frame = frame as u64;
                *taken = (*taken).max(from.saturating_sub(frame * MINISLOTS).min(MINISLOTS));
                let here = wanted.min(MINISLOTS - *taken);
                if here > 0 {
                    *pieces.entry((frame, flow)).or_default() += here;
                    *taken += here;
                    wanted -= here;
                }
            }
        };
        let (low_flow, classic_flow) = if self.flows.len() == 1 { (L, L) } else { (L, C) };
        let more = low.saturating_sub(pgs);
        if pgs > 0 {
            place(low_flow, 0, more);
            place(classic_flow, 0, classic);
        } else if more + classic > 0 {
            let all = MINISLOTS * proactive.len() as u64;
            let from = self.placement.below(all - (more + classic).min(all) + 1);
            place(low_flow, from, more);
            place(classic_flow, from + more, classic);
        }
        for (frame, minislots) in proactive.iter().enumerate().filter(|(_, n)| **n > 0) {
            *pieces.entry((frame as u64, L)).or_default() += *minislots;
        }
        pieces
    }
    /// The MAP tells a flow its grants, which are bytes by frame.
    fn announce(
        &mut self,
        begin: Time,
        flow: usize,
        grants: &[(u64, u64)],
        proactive: &[u64],
        is_proactive: bool,
    ) {
        let bytes: u64 = grants.iter().map(|(_, bytes)| *bytes).sum();
        let mut answered = self.flows[flow].wanted.min(bytes);
        self.flows[flow].wanted -= answered;
        self.sustained.take(bytes);
        self.counts.granted += bytes;
        // A modem does not know what the CMTS grants without a request: it takes all of it for an answer. What a grant
        // has beyond its request by rounding is not credited.
        let credited = if is_proactive { bytes } else { answered };
        let arrival = begin.saturating_sub(self.config.modem_lead());
        self.plan(arrival, Event::Map { flow, bytes: credited });
        let mut next = None;
        for (frame, bytes) in grants.iter().copied() {
            // A proactive grant stands at the beginning of its frame, between what is granted before and after it.
            let begins_grant = next != Some(frame) || proactive[frame as usize] > 0;
            next = Some(frame + 1);
            let at = (begin + self.config.frame() * frame).saturating_sub(self.config.frame());
            let usable = if is_proactive { bytes } else { answered.min(bytes) };
            answered -= answered.min(bytes);
            self.plan(at, Event::Grant { flow, bytes, usable, begins_grant });
        }
    }

    /// Minislots of L, with proactive ones, and of C.
    fn share(&self, pgs: u64, most: u64) -> (u64, u64) {
        let wanted = |flow: usize| self.flows.get(flow).map_or(0, |f| self.minislots(f.wanted));
        let (low, classic) =
            if self.flows.len() == 1 { (wanted(0), 0) } else { (wanted(L).max(pgs), wanted(C)) };
        let most = most.max(pgs);
        if low + classic <= most {
            return (low, classic);
        }
        let share = (most * u64::from(self.config.weight) / 256).max(pgs);
        let low_gets = low.min(share.max(most.saturating_sub(classic)));
        (low_gets, classic.min(most - low_gets))
    }

    /// Bytes that wait in the modem, with what surrounds packets.
    fn backlog(&self, flow: usize, sides: &mut Sides) -> u64 {
        let waiting = sides.waiting(Way::Up, flow);
        let partial = self.flows[flow].partial.as_ref().map_or(0, |(.., left)| *left);
        waiting.bytes + PER_PACKET * waiting.packets + partial
    }

    /// The modem asks for what it has not asked for yet.
    fn ask(&mut self, now: Time, flow: usize, sides: &mut Sides) {
        let bytes = self
            .backlog(flow, sides)
            .saturating_sub(self.flows[flow].asked + self.flows[flow].granted);
        if bytes > 0 {
            self.flows[flow].asked += bytes;
            self.counts.requested += bytes;
            self.requests.push_back((now + self.config.request_delay(), flow, bytes));
            sides.show(|| Burst {
                bytes,
                ..Burst::new(BurstKind::Requested, (now, now), Way::Up, flow)
            });
        }
    }

    /// Prepares what is sent in the frame that begins one frame later.
    fn fill(&mut self, now: Time, flow: usize, (granted, usable): (u64, u64), sides: &mut Sides) {
        let frame = self.config.frame();
        let begin = now + frame;
        // Its end, the way, and decoding.
        let arrival = begin + frame + self.config.one_way() + frame;
        let mut room = usable;
        let (mut packets, mut first) = (0, None);
        while room > 0 {
            let partial = self.flows[flow].partial.take().or_else(|| {
                let pkt = sides.pull(now, Way::Up, flow)?;
                Some((pkt, now, begin, u64::from(pkt.frame_len) + PER_PACKET))
            });
            let Some((pkt, pulled, sent, left)) = partial else { break };
            packets += 1;
            first = first.or(Some(pkt));
            if left > room {
                self.flows[flow].partial = Some((pkt, pulled, sent, left - room));
                room = 0;
            } else {
                room -= left;
                sides.deliver(Way::Up, pkt, Stages { pulled, sent, arrived: arrival }, arrival);
            }
        }
        let unused = granted - usable + room;
        self.counts.unused += unused;
        let length = frame.0 * self.minislots(granted) / MINISLOTS;
        sides.show(|| Burst {
            packets,
            bytes: granted,
            unused,
            ..Burst::new(BurstKind::Granted, (begin, begin + Span(length)), Way::Up, flow)
                .of(first.as_ref())
        });
        // What was granted and not used is not charged.
        self.sustained.tokens =
            (self.sustained.tokens + i128::from(unused) * BYTE).min(self.sustained.most);
    }

    /// The next packet downstream.
    fn send_down(&mut self, now: Time, sides: &mut Sides) {
        self.due = Time::NEVER;
        let Some(pkt) = sides.pull(now, Way::Down, 0) else { return };
        let bytes = u64::from(pkt.frame_len) + 4;
        for bucket in &mut self.down {
            bucket.fill(now);
            bucket.take(bytes);
        }
        self.due = self.down[0].ready().max(self.down[1].ready()).max(now + Span(1));
        let sent = now + Span(self.phases.below(SYMBOL.0));
        let symbols = SYMBOL * bytes.div_ceil(DOWN_SYMBOL_BYTES);
        let config = &self.config;
        // Encoding, symbols, the way, the interleaver, and decoding.
        let arrived = sent + SYMBOL + symbols + config.one_way() + config.interleaving() + SYMBOL;
        sides.deliver(Way::Down, pkt, Stages { pulled: now, sent, arrived }, arrived);
    }
}

impl Medium for Docsis {
    fn next(&self) -> Time {
        let event = self.events.keys().next().map_or(Time::NEVER, |(at, _)| *at);
        self.map.min(event).min(self.due)
    }
    fn act(&mut self, now: Time, sides: &mut Sides) {
        if self.due <= now {
            self.send_down(now, sides);
        }
        if self.map <= now {
            self.make_map(now);
        }
        while let Some(event) = self.events.first_entry().filter(|first| first.key().0 <= now) {
            match event.remove() {
                Event::Opportunity { flow } => self.ask(now, flow, sides),
                Event::Map { flow, bytes } => {
                    let flow = &mut self.flows[flow];
                    flow.asked = flow.asked.saturating_sub(bytes);
                    flow.granted += bytes;
                }
                Event::Grant { flow, bytes, usable, begins_grant } => {
                    self.fill(now, flow, (bytes, usable), sides);
                    self.flows[flow].granted -= usable;
                    if begins_grant {
                        self.ask(now, flow, sides);
                    }
                }
            }
        }
    }
    fn ready(&mut self, now: Time, way: Way, _: usize, _: &mut Sides) {
        if way == Way::Down && self.due == Time::NEVER {
            for bucket in &mut self.down {
                bucket.fill(now);
            }
            self.due = self.down[0].ready().max(self.down[1].ready()).max(now);
        }
    }
    fn change(&mut self, now: Time, to: &dyn Any, _: &[&dyn Any]) {
        let Some(config) = to.downcast_ref::<DocsisConfig>() else { return };
        let (sustained, down) = buckets(config);
        self.sustained.set(now, sustained);
        for (bucket, to) in self.down.iter_mut().zip(down) {
            bucket.set(now, to);
        }
        if self.due != Time::NEVER {
            self.due = self.down[0].ready().max(self.down[1].ready()).max(now);
        }
        self.config = config.clone();
    }
    fn probe(&mut self, way: Way, _: Span, out: &mut dyn Gauges) {
        if way == Way::Up {
            let counts = std::mem::take(&mut self.counts);
            out.gauge("request_bytes", counts.requested as f64);
            out.gauge("grant_bytes", counts.granted as f64);
            out.gauge("unused_grant_bytes", counts.unused as f64);
        }
    }
    fn division(&self) -> Division {
        let both = ["low latency", "classic"];
        let rows = if self.flows.len() == 1 { vec!["upstream"] } else { both.to_vec() };
        Division { slot: Some(self.config.interval()), pattern: String::new(), rows }
    }
    fn purge(&mut self) -> Vec<Packet> {
        self.flows.iter_mut().filter_map(|flow| flow.partial.take()).map(|(pkt, ..)| pkt).collect()
    }
}
