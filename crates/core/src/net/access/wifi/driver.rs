//! What waits between a station's queue and the air: mac80211's limit on its airtime (AQL, Linux
//! `ieee80211_txq_airtime_check`), or a card that has so many aggregates ready.

use super::WifiConfig;
use super::phy::Modulation;
use crate::net::air::Way;
use crate::net::parts::{CATEGORIES, VO};
use crate::time::{Span, Time};

/// Bytes around an Ethernet frame in the estimate, and those of its average packet.
const AROUND: u64 = 38;
const AVERAGE: u64 = 1024;
const LEAST: Span = Span::from_micros(4);

/// The airtime of a packet as Linux estimates it from the last rate: its share of a preamble follows from how much is
/// aggregated at such rates (`ieee80211_calc_expected_tx_airtime`).
pub fn estimate(frame: u32, category: usize, is_ax: bool, modulation: &Modulation) -> Span {
    let at = |bytes: u64| Span((8e3 * bytes as f64 / modulation.mbps()) as u64);
    let shift = match at(AVERAGE).as_micros() {
        _ if category == VO => 0,
        401.. => 1,
        251.. => 2,
        151.. => 3,
        71.. => 4,
        21.. => 5,
        _ if !is_ax => 5,
        _ => 6,
    };
    let around = match modulation.is_legacy() {
        true => modulation.preamble() + modulation.sifs,
        false => Span(modulation.preamble().0 >> shift),
    };
    let airtime = at(u64::from(frame) + AROUND) + around;
    // In 10 bits of 4 us (`ieee80211_info_set_tx_time_est`).
    Span::from_micros(airtime.max(LEAST).as_micros().min(4095) & !3)
}

/// What a driver has of one station and access category.
#[derive(Copy, Clone, Default)]
pub struct Held {
    pub airtime: Span,
    pub packets: u32,
    pub bytes: u32,
}

/// How much an aggregate carries of one station and access category.
#[derive(Copy, Clone)]
pub struct Aggregate {
    pub packets: u32,
    pub bytes: u32,
}

/// What waits in the drivers of all nodes.
#[derive(Default)]
pub struct Drivers {
    /// By way, then station and access category.
    held: [Vec<Held>; 2],
    /// Airtime by node, the access point first.
    of_node: Vec<Span>,
    /// The access point's airtime by access category.
    of_category: [Span; CATEGORIES],
    /// What the exchange that ends at `done` takes out.
    sent: Vec<(Way, usize, Held)>,
    pub done: Option<Time>,
    /// The most since the last look.
    most: [Span; 2],
}

impl Drivers {
    pub fn new(stations: usize) -> Drivers {
        let parts = vec![Held::default(); stations * CATEGORIES];
        let of_node = vec![Span::ZERO; stations + 1];
        Drivers { held: [parts.clone(), parts], of_node, ..Drivers::default() }
    }
    fn node(way: Way, part: usize) -> usize {
        match way {
            Way::Down => 0,
            Way::Up => 1 + part / CATEGORIES,
        }
    }
    /// Whether the access point's driver may turn to queues of this category, of which so many are active: all have one high
    /// limit, and half of a low one for each further queue (Linux `ieee80211_txq_schedule_airtime_check`).
    pub fn may_begin(&self, config: &WifiConfig, category: usize, queues: usize) -> bool {
        let further = queues.saturating_sub(1) as u64;
        let limit = config.aql_high() + config.aql_low() * further / 2;
        !config.aql || self.of_category[category] < limit
    }
    /// Whether a queue may give one more packet.
    pub fn takes(&self, config: &WifiConfig, way: Way, part: usize, aggregate: Aggregate) -> bool {
        let held = self.held[way as usize][part];
        if let Some(ready) = config.ready(way) {
            let ready = u32::from(ready);
            return held.packets < ready * aggregate.packets
                && held.bytes < ready.saturating_mul(aggregate.bytes);
        }
        let all = self.of_node[Self::node(way, part)];
        held.airtime < config.aql_low()
            || (held.airtime < config.aql_high() && all < config.aql_threshold())
    }
    pub fn take(&mut self, way: Way, part: usize, airtime: Span, bytes: u32) {
        let held = &mut self.held[way as usize][part];
        held.airtime += airtime;
        held.packets += 1;
        held.bytes += bytes;
        self.most[way as usize] = self.most[way as usize].max(held.airtime);
        self.of_node[Self::node(way, part)] += airtime;
        if way == Way::Down {
            self.of_category[part % CATEGORIES] += airtime;
        }
    }
    /// A packet is acknowledged or given up when the exchange ends.
    pub fn finish(&mut self, way: Way, part: usize, held: Held) {
        self.sent.push((way, part, held));
    }
    /// The exchange ends: the queues whose packets it sent.
    pub fn end(&mut self) -> Vec<(Way, usize)> {
        self.done = None;
        let sent = std::mem::take(&mut self.sent);
        let mut queues: Vec<_> = sent.iter().map(|(way, part, ..)| (*way, *part)).collect();
        for (way, part, Held { airtime, packets, bytes }) in sent {
            let held = &mut self.held[way as usize][part];
            held.airtime = held.airtime - airtime;
            held.packets -= packets;
            held.bytes -= bytes;
            let all = &mut self.of_node[Self::node(way, part)];
            *all = *all - airtime;
            if way == Way::Down {
                let all = &mut self.of_category[part % CATEGORIES];
                *all = *all - airtime;
            }
        }
        queues.dedup();
        queues
    }
    /// The most that one queue had in the driver since the last look, ms.
    pub fn most(&mut self, way: Way) -> f64 {
        let held = self.held[way as usize].iter().map(|held| held.airtime);
        let now = held.max().unwrap_or(Span::ZERO);
        std::mem::replace(&mut self.most[way as usize], now).as_secs_f64() * 1e3
    }
}
