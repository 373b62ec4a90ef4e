//! What a medium sent, to whom and for how long, for those who watch it. It cannot change a run.

use std::collections::VecDeque;

use crate::packet::Packet;
use crate::time::{Span, Time};

/// Of more bursts the newest are kept.
const MOST_BURSTS: usize = 4000;

/// A direction of a medium.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// From the network to the users.
    Down,
    /// From the users to the network.
    Up,
}

pub const WAYS: [Way; 2] = [Way::Down, Way::Up];

/// What a burst is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum BurstKind {
    /// A transmission: a PPDU with its acknowledgement, or a transport block.
    Sent,
    /// A PPDU that collided with others at the same instant.
    Collided,
    /// A request for a grant.
    Requested,
    /// A grant, used or not.
    Granted,
}

/// Something that occupied the medium, or asked for it.
#[derive(Copy, Clone, Debug)]
pub struct Burst {
    pub what: BurstKind,
    pub at: Time,
    pub end: Time,
    pub way: Way,
    /// Of whom: the station, or the service flow.
    pub row: usize,
    /// The flow group of its first packet.
    pub group: Option<u16>,
    /// Packets in it, or MPDUs; of these, how many were sent before, and how many did not arrive.
    pub packets: u32,
    pub again: u32,
    pub failed: u32,
    pub bytes: u64,
    /// Of a grant, bytes that nobody used.
    pub unused: u64,
}

impl Burst {
    pub fn new(what: BurstKind, (at, end): (Time, Time), way: Way, row: usize) -> Burst {
        Burst {
            what,
            at,
            end,
            way,
            row,
            group: None,
            packets: 0,
            again: 0,
            failed: 0,
            bytes: 0,
            unused: 0,
        }
    }
    /// Its first packet.
    pub fn of(mut self, pkt: Option<&Packet>) -> Burst {
        self.group = pkt.map(|pkt| pkt.group.number);
        self
    }
}

/// How a medium divides time, and among whom.
#[derive(Clone, Debug, Default)]
pub struct Division {
    /// A slot or an interval, where time has them.
    pub slot: Option<Span>,
    /// A letter for each slot of a TDD pattern, which repeats from time 0.
    pub pattern: String,
    /// Names of the rows of bursts, where they are not stations.
    pub rows: Vec<&'static str>,
}

/// The newest bursts of a medium.
#[derive(Debug, Default)]
pub struct Air {
    bursts: VecDeque<Burst>,
    is_cut: bool,
}

impl Air {
    pub(super) fn add(&mut self, burst: Burst) {
        if self.bursts.len() == MOST_BURSTS {
            self.bursts.pop_front();
            self.is_cut = true;
        }
        self.bursts.push_back(burst);
    }
    /// Those since the last call, and whether older ones are missing.
    pub fn take(&mut self) -> (VecDeque<Burst>, bool) {
        (std::mem::take(&mut self.bursts), std::mem::take(&mut self.is_cut))
    }
}
