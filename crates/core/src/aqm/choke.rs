//! CHOKe (Pan, Prabhakar and Psounis, INFOCOM 2000), as Linux has it (`sch_choke`, 7.2): RED without state of flows that
//! nevertheless hits those most that do not respond.
//!
//! RED's average and thresholds count packets. Above `min` an arrival is compared with a waiting packet that is drawn at
//! random. If both are of one flow, both are dropped; else RED decides. Unlike in `red`, the average has to exceed a
//! threshold.
//!
//! The drawn packet leaves a hole in the ring of packets, which counts when a packet is drawn: a draw that finds three
//! holes takes the head. `limit` does not count holes. So the ring may become full, which Linux takes for empty: its
//! packets never leave, and count in the average and for `limit` ever after. Here they are dropped.

use std::any::Any;
use std::collections::VecDeque;

use super::red::{Average, RedConfig, RedTable, Thresholds, Verdict};
use super::{
    Aqm, Backlog, DropReason, Gauges, LinkInfo, MarkReason, Marking, Pkt, Qdisc, QueueCx, Room,
    Separation,
};
use crate::params::kinds::{Spec, number, params, rate, real, size, words};
use crate::params::{Described, Gauge, Given, Refused, gauge};
use crate::time::Time;
use crate::units::Rate;

/// The kernel's largest ring has one place more.
const LIMIT_MAX: u32 = 128 * 1024 - 1;
const DRAWS: u32 = 3;

params! {
    /// The parameters, by their names in `tc`, which fills in those not given. Zero stands for that.
    pub struct ChokeConfig {
        /// largest backlog; required
        limit: u32 = 0, packets(LIMIT_MAX), "";
        /// average backlog beyond which packets are compared, and marked at random; max/3
        min: u32 = 0, packets(u32::MAX), "tc, after Floyd's advice of 1997";
        /// average backlog beyond which every packet is marked; limit/4
        max: u32 = 0, packets(u32::MAX), "tc, after Floyd's advice of 1997";
        /// average packet size
        avpkt: u32 = 1000, size(1..=u32::MAX), "tc";
        /// burst to tolerate, which sets the weight of the average; (2 min + max)/3
        burst: u32 = 0, packets(u32::MAX), "tc, after Floyd's advice of 1997";
        /// rate of the link, for the decay while idle; required
        bandwidth: Rate = Rate::from_bps(0), rate().default(""), "";
        /// max_p: marking probability when the average reaches max
        probability: f64 = 0.02, real(
            "NUMBER", "a number above 0, at most 1", |p| p > 0.0 && p <= 1.0, (0.001, 1.0)
        ), "tc, after Floyd's advice of 1997";
        ecn: bool = false, words([("ecn", true, "mark instead of dropping, but for two packets of a flow")]), "tc";
    }
}

fn packets(most: u32) -> Spec<u32> {
    number(1..=most).shown("PACKETS").default("")
}

impl ChokeConfig {
    fn table(&self) -> Result<(RedTable, Thresholds), (&'static str, String)> {
        let &ChokeConfig { min, max, avpkt, burst, bandwidth, probability, .. } = self;
        let red =
            RedConfig { min, max, avpkt, burst, bandwidth, probability, ..RedConfig::default() };
        let table = RedTable::counting(&red, avpkt)?;
        let thresholds = table.thresholds(&red);
        Ok((table, thresholds))
    }
    /// Places of the ring.
    fn places(&self) -> usize {
        (self.limit as usize + 1).next_power_of_two()
    }
}

/// The queue at work.
#[derive(Debug)]
pub struct Choke<P> {
    /// From the head to the last arrival; the head is no hole.
    ring: VecDeque<Option<P>>,
    backlog: Backlog,
    /// Packets that were in a full ring.
    lost: u64,
    average: Average,
    idle_since: Option<Time>,
    /// When the link is free, and its rate.
    free: Time,
    rate: Rate,
    table: RedTable,
    thresholds: Thresholds,
    config: ChokeConfig,
}

impl<P: Pkt> Choke<P> {
    pub fn new(config: ChokeConfig, rate: Rate) -> Self {
        let (table, thresholds) =
            config.table().expect("parameters that parse refuses: see ChokeConfig::finish");
        Choke {
            ring: VecDeque::new(),
            backlog: Backlog::default(),
            lost: 0,
            average: Average::NONE,
            idle_since: None,
            free: Time::ZERO,
            rate,
            table,
            thresholds,
            config,
        }
    }

    /// The place of a packet of this flow, if it is the one that is drawn.
    fn drawn(&self, pkt: &P, cx: &mut QueueCx<P>) -> Option<usize> {
        if self.ring.is_empty() {
            return None;
        }
        let mut places = (0..DRAWS).map(|_| cx.rng.below(self.ring.len() as u64) as usize);
        let place = places.find(|&place| self.ring[place].is_some()).unwrap_or(0);
        let other = self.ring[place].as_ref()?;
        (other.flow_hash() == pkt.flow_hash()).then_some(place)
    }

    fn take(&mut self, place: usize) -> Option<P> {
        let pkt = self.ring.get_mut(place)?.take()?;
        while self.ring.front().is_some_and(Option::is_none) {
            self.ring.pop_front();
        }
        self.backlog.packets -= 1;
        self.backlog.bytes -= u64::from(pkt.frame_len());
        Some(pkt)
    }

    /// A shaper asks an empty ring for a packet only if some are lost.
    fn is_emptied(&mut self, now: Time) {
        if self.lost > 0 && self.ring.is_empty() {
            self.idle_since = Some(self.free.max(now));
        }
    }
}

impl<P: Pkt + Send> Aqm<P> for Choke<P> {
    fn enqueue(&mut self, mut pkt: P, cx: &mut QueueCx<P>) {
        let wlog = self.thresholds.wlog;
        let qlen = self.backlog.packets + self.lost;
        match self.idle_since.take().filter(|&since| cx.now >= since) {
            Some(since) => {
                self.average.scaled = self.table.decayed(self.average.scaled, cx.now.since(since));
            }
            None => self.average.add(qlen, wlog),
        }
        let average = self.average.scaled;
        let exceeds = |threshold: u32| average > u64::from(threshold) << wlog;
        let verdict = if !exceeds(self.thresholds.min) {
            self.average.restart();
            Verdict::Pass
        } else if let Some(other) = self.drawn(&pkt, cx).and_then(|place| self.take(place)) {
            cx.drop(other, DropReason::Aqm);
            self.is_emptied(cx.now);
            return cx.drop(pkt, DropReason::Aqm);
        } else if exceeds(self.thresholds.max) {
            self.average.restart();
            Verdict::Hard
        } else {
            self.average.between(&self.thresholds, cx.rng)
        };
        let mut may_mark = || self.config.ecn && cx.mark(&mut pkt, MarkReason::Aqm);
        if verdict != Verdict::Pass && !may_mark() {
            cx.drop(pkt, DropReason::Aqm);
        } else if self.backlog.packets + self.lost >= u64::from(self.config.limit) {
            cx.drop(pkt, DropReason::Overflow);
        } else {
            self.backlog.packets += 1;
            self.backlog.bytes += u64::from(pkt.frame_len());
            self.ring.push_back(Some(pkt));
            if self.ring.len() == self.config.places() {
                self.lost += self.backlog.packets;
                self.backlog = Backlog::default();
                for pkt in self.ring.drain(..).flatten() {
                    cx.drop(pkt, DropReason::Overflow);
                }
            }
        }
        self.is_emptied(cx.now);
    }

    fn dequeue(&mut self, cx: &mut QueueCx<P>) -> Option<P> {
        let pkt = self.take(0);
        match &pkt {
            Some(pkt) => {
                self.free = cx.now + self.rate.time_for(u64::from(pkt.frame_len()));
                self.is_emptied(cx.now);
            }
            None => drop(self.idle_since.get_or_insert(cx.now)),
        }
        pkt
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
    /// A ring of another size begins without holes, and what does not fit is dropped from its end.
    fn change(&mut self, to: &dyn Any, cx: &mut QueueCx<P>) -> Result<(), Vec<P>> {
        let config = to.downcast_ref::<ChokeConfig>().ok_or_else(Vec::new)?.clone();
        let places = config.places();
        if places != self.config.places() {
            for pkt in std::mem::take(&mut self.ring).into_iter().flatten() {
                if self.ring.len() + 1 < places {
                    self.ring.push_back(Some(pkt));
                } else {
                    self.backlog.packets -= 1;
                    self.backlog.bytes -= u64::from(pkt.frame_len());
                    cx.drop(pkt, DropReason::Overflow);
                }
            }
        }
        let idle_since = self.idle_since.filter(|_| !self.ring.is_empty());
        let (ring, average) = (std::mem::take(&mut self.ring), self.average.emptied());
        let &mut Choke { backlog, lost, free, rate, .. } = self;
        *self =
            Choke { ring, backlog, lost, average, idle_since, free, ..Choke::new(config, rate) };
        Ok(())
    }
    fn next_len(&self) -> Option<u32> {
        self.ring.front()?.as_ref().map(P::frame_len)
    }
    fn probe(&self, out: &mut dyn Gauges) {
        let average = self.average.scaled as f64;
        out.gauge("avg_packets", average / (1_u64 << self.thresholds.wlog) as f64);
    }
}

impl Described for ChokeConfig {
    const NAME: &'static str = "choke";
    const SUMMARY: &'static str = "RED that compares an arrival with a random waiting packet, and drops both if they are of one flow (CHOKe)";
    const REQUIRED: &'static str = "limit 1000 bandwidth 10mbit";
    const GAUGES: &'static [Gauge] = &[gauge("avg_packets", "", "average backlog in packets")];

    /// `tc` sends the kernel all of them.
    fn merged(&self, to: &Self, _given: &Given) -> Option<Result<Self, Refused>> {
        Some(Ok(to.clone()))
    }
    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        for (keyword, missing) in
            [("limit", self.limit == 0), ("bandwidth", self.bandwidth.bps() == 0)]
        {
            if missing {
                let fix = "write for example limit 1000 bandwidth 10mbit";
                return Err(given.missing(keyword, fix));
            }
        }
        if self.max == 0 {
            self.max = self.limit / 4;
        }
        if self.min == 0 {
            self.min = self.max / 3;
        }
        if self.burst == 0 {
            self.burst = ((2 * u64::from(self.min) + u64::from(self.max)) / 3) as u32;
        }
        if self.max > self.limit {
            let fix = format!("it takes limit ({}) or less", self.limit);
            return Err(given.refuse("max", self.max.to_string(), fix));
        }
        if self.min >= self.max {
            let fix = format!("it takes less than max ({})", self.max);
            return Err(given.refuse("min", self.min.to_string(), fix));
        }
        let value = |keyword: &str| match keyword {
            "max" => self.max.to_string(),
            "burst" => self.burst.to_string(),
            _ => self.probability.to_string(),
        };
        self.table().map_err(|(keyword, fix)| given.refuse(keyword, value(keyword), fix))?;
        Ok(())
    }
}

impl Qdisc for ChokeConfig {
    const SEPARATION: Separation = Separation::Approximate;
    const MARKING: Marking = Marking::With(&["ecn"]);
    const DROPS_WAITING: bool = true;
    const LIMITS_PACKETS: bool = true;

    fn room(&self, _link: LinkInfo) -> Room {
        Room::of_packets(self.limit)
    }
    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
        Box::new(Choke::new(self.clone(), link.rate))
    }
}
