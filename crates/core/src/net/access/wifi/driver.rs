//! What waits between a station's queue and the air, and mac80211's limit on it (AQL): a queue gives packets to the driver
//! while the airtime of those that the driver has is below a limit (Linux `ieee80211_txq_airtime_check`).

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
    let airtime = at(u64::from(frame) + AROUND) + Span(modulation.preamble().0 >> shift);
    airtime.max(LEAST)
}

/// The airtime in the drivers of all nodes.
#[derive(Default)]
pub struct Drivers {
    /// By way, then station and access category.
    pending: [Vec<Span>; 2],
    /// By node, the access point first.
    of_node: Vec<Span>,
    /// What the exchange that ends at `done` takes out.
    sent: Vec<(Way, usize, Span)>,
    pub done: Option<Time>,
    /// The most since the last look.
    most: [Span; 2],
}

impl Drivers {
    pub fn new(stations: usize) -> Drivers {
        let parts = vec![Span::ZERO; stations * CATEGORIES];
        let of_node = vec![Span::ZERO; stations + 1];
        Drivers { pending: [parts.clone(), parts], of_node, ..Drivers::default() }
    }
    fn node(way: Way, part: usize) -> usize {
        match way {
            Way::Down => 0,
            Way::Up => 1 + part / CATEGORIES,
        }
    }
    /// Whether a queue may give one more packet.
    pub fn takes(&self, config: &WifiConfig, way: Way, part: usize) -> bool {
        let pending = self.pending[way as usize][part];
        let all = self.of_node[Self::node(way, part)];
        pending < config.aql_low() || (pending < config.aql_high() && all < config.aql_threshold())
    }
    pub fn take(&mut self, way: Way, part: usize, airtime: Span) {
        let pending = &mut self.pending[way as usize][part];
        *pending += airtime;
        self.most[way as usize] = self.most[way as usize].max(*pending);
        self.of_node[Self::node(way, part)] += airtime;
    }
    /// A packet is acknowledged or given up when the exchange ends.
    pub fn finish(&mut self, way: Way, part: usize, airtime: Span) {
        self.sent.push((way, part, airtime));
    }
    /// The exchange ends: the queues whose packets it sent.
    pub fn end(&mut self) -> Vec<(Way, usize)> {
        self.done = None;
        let sent = std::mem::take(&mut self.sent);
        let mut queues: Vec<_> = sent.iter().map(|(way, part, _)| (*way, *part)).collect();
        for (way, part, airtime) in sent {
            let pending = &mut self.pending[way as usize][part];
            *pending = *pending - airtime;
            let all = &mut self.of_node[Self::node(way, part)];
            *all = *all - airtime;
        }
        queues.dedup();
        queues
    }
    /// The most that one queue had in the driver since the last look, ms.
    pub fn most(&mut self, way: Way) -> f64 {
        let now = self.pending[way as usize].iter().copied().max().unwrap_or(Span::ZERO);
        std::mem::replace(&mut self.most[way as usize], now).as_secs_f64() * 1e3
    }
}
