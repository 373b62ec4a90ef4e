//! Which queue a flow gets: a hash table with eight ways. A flow whose place is taken moves to a free
//! one of the same set, so flows share a queue only when eight others crowd theirs.

/// Queues of a tin, places for hosts, and the ways of a set (Linux).
pub const QUEUES: usize = 1024;
const WAYS: usize = 8;

/// The keyword of `tc` that says what is kept apart. Bits as in the kernel: sources, destinations,
/// flows; flows with hosts means fairness among hosts first, then among their flows.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct FlowMode(u8);

const SOURCES: u8 = 1;
const DESTINATIONS: u8 = 2;
const FLOWS: u8 = 4;

impl FlowMode {
    pub const TRIPLE_ISOLATE: FlowMode = FlowMode(FLOWS | SOURCES | DESTINATIONS);
    pub const ALL: [(&'static str, FlowMode, &'static str); 8] = [
        ("flowblind", FlowMode(0), "one queue per tin"),
        ("srchost", FlowMode(SOURCES), "a queue per source"),
        ("dsthost", FlowMode(DESTINATIONS), "a queue per destination"),
        ("hosts", FlowMode(SOURCES | DESTINATIONS), "a queue per pair of hosts"),
        ("flows", FlowMode(FLOWS), "a queue per flow"),
        ("dual-srchost", FlowMode(FLOWS | SOURCES), "a queue per flow, fair among sources"),
        (
            "dual-dsthost",
            FlowMode(FLOWS | DESTINATIONS),
            "a queue per flow, fair among destinations",
        ),
        (
            "triple-isolate",
            FlowMode::TRIPLE_ISOLATE,
            "a queue per flow, fair among sources and destinations",
        ),
    ];
    /// Are sources treated alike, whatever the number of their flows?
    #[inline]
    pub fn fair_to_sources(self) -> bool {
        self.0 & (FLOWS | SOURCES) == FLOWS | SOURCES
    }
    #[inline]
    pub fn fair_to_destinations(self) -> bool {
        self.0 & (FLOWS | DESTINATIONS) == FLOWS | DESTINATIONS
    }
}

/// A packet's origin, already hashed to 32 bits.
#[derive(Copy, Clone, Debug)]
pub struct Hashes {
    pub flow: u32,
    pub source: u32,
    pub destination: u32,
}

impl Hashes {
    /// The key of a packet's queue under `mode`; `None` if all packets share one.
    #[inline]
    pub fn key(self, mode: FlowMode) -> Option<u32> {
        let chosen = |bit, hash| if mode.0 & bit != 0 { hash } else { 0 };
        match mode.0 {
            0 => None,
            bits if bits & FLOWS != 0 => Some(self.flow),
            _ => Some(chosen(SOURCES, self.source) ^ chosen(DESTINATIONS, self.destination)),
        }
    }
}

/// The places where a hash may stand, the preferred one first.
#[inline]
pub fn ways(hash: u32) -> impl Iterator<Item = usize> {
    let home = hash as usize % QUEUES;
    let set = home - home % WAYS;
    (0..WAYS).map(move |k| set + (home + k) % WAYS)
}

/// Hosts and how many bulk flows each has.
#[derive(Debug, Default)]
pub struct Hosts {
    tags: Vec<u32>,
    bulk_flows: Vec<u16>,
}

impl Hosts {
    /// Makes the places, once.
    pub fn open(&mut self) {
        self.tags.resize(QUEUES, 0);
        self.bulk_flows.resize(QUEUES, 0);
    }
    /// The place of a host: its own, a free one, or a shared one.
    pub fn place(&mut self, hash: u32) -> u16 {
        let own = ways(hash).find(|&i| self.tags[i] == hash);
        let place = own.or_else(|| ways(hash).find(|&i| self.bulk_flows[i] == 0));
        let place = place.unwrap_or(hash as usize % QUEUES);
        self.tags[place] = hash;
        place as u16
    }
    #[inline]
    pub fn bulk_flows(&self, place: u16) -> u16 {
        self.bulk_flows[usize::from(place)]
    }
    #[inline]
    pub fn more(&mut self, place: u16) {
        self.bulk_flows[usize::from(place)] += 1;
    }
    #[inline]
    pub fn fewer(&mut self, place: u16) {
        let n = &mut self.bulk_flows[usize::from(place)];
        *n = n.saturating_sub(1);
    }
}
