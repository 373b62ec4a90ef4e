//! The parts of a queue that a medium serves apart, and where its packets spend their time.

use crate::aqm::{Backlog, Grants};
use crate::packet::Packet;
use crate::time::Time;

/// Where a packet that is delivered has spent its time since it left the queue.
#[derive(Copy, Clone, Debug)]
pub struct Stages {
    /// It left the queue.
    pub pulled: Time,
    /// Its first transmission began.
    pub sent: Time,
    /// It had arrived, after the last retransmission.
    pub arrived: Time,
}

/// The parts of a queue that are served apart: one for each station and access category.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// By flow group; empty: all packets wait in one part.
    pub stations: Vec<u16>,
    /// Each station's packets are separated by these categories of their DSCP.
    pub category: Option<fn(u8) -> usize>,
    /// Two parts: low-latency packets (ECT(1), CE, DSCP 45), and all others. A queue that has such parts itself keeps them.
    pub by_latency: Option<Grants>,
    /// Packets wait for a permission of the medium before they wait for others.
    pub are_asked: bool,
}

/// The DSCP of non-queue-building traffic (RFC 9956).
const NQB: u8 = 45;

/// The access categories of a station by rising priority: background, best effort, video, voice.
pub const CATEGORIES: usize = 4;
pub const BE: usize = 1;
pub const VI: usize = 2;
pub const VO: usize = 3;

impl Parts {
    pub fn count(&self) -> usize {
        if self.by_latency.is_some() {
            return 2;
        }
        let stations = self.stations.iter().max().map_or(1, |most| usize::from(*most) + 1);
        stations * if self.category.is_some() { CATEGORIES } else { 1 }
    }
    #[inline]
    pub fn of(&self, pkt: &Packet) -> usize {
        if self.by_latency.is_some() {
            return usize::from(!pkt.ecn.get().is_l4s() && pkt.dscp != NQB);
        }
        let station = self.stations.get(usize::from(pkt.group.number)).copied().unwrap_or(0);
        match self.category {
            Some(category) => usize::from(station) * CATEGORIES + category(pkt.dscp),
            None => usize::from(station),
        }
    }
}

/// Nothing waits.
pub const NOTHING: Backlog = Backlog { packets: 0, bytes: 0 };
