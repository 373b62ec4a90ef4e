//! The interface of a medium: what stands behind the queues of a link that is no wire.
//!
//! A medium serves the queues of both directions of a link. It is told the time and pulls packets when it
//! builds what it sends (an aggregate, a grant, a slot). There ends a packet's sojourn in the queue; what it
//! waits afterwards is the medium's delay. Packets of one direction leave in the order in which the medium
//! says that they arrive.

use crate::aqm::Backlog;
use crate::net::port::Sides;
use crate::packet::Packet;
use crate::probe::Gauges;
use crate::time::{Span, Time};

/// A direction of a medium.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// From the network to the users.
    Down,
    /// From the users to the network.
    Up,
}

pub const WAYS: [Way; 2] = [Way::Down, Way::Up];

/// See the module.
pub trait Medium: Send {
    /// When `act` wants to be called; after the call it is later.
    fn next(&self) -> Time;
    fn act(&mut self, now: Time, sides: &mut Sides);
    /// There may be something to send in this part of a queue, which was empty or held it back.
    fn ready(&mut self, now: Time, way: Way, part: usize, sides: &mut Sides);
    /// What it did in the `span` since this was last called.
    fn probe(&mut self, way: Way, span: Span, out: &mut dyn Gauges);
    /// All packets that it has pulled and neither delivered nor lost.
    fn purge(&mut self) -> Vec<Packet>;
}

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
    pub is_by_latency: bool,
}

/// The DSCP of non-queue-building traffic (RFC 9956).
const NQB: u8 = 45;

/// The access categories of a station.
pub const CATEGORIES: usize = 4;

impl Parts {
    pub fn count(&self) -> usize {
        if self.is_by_latency {
            return 2;
        }
        let stations = self.stations.iter().max().map_or(1, |most| usize::from(*most) + 1);
        stations * if self.category.is_some() { CATEGORIES } else { 1 }
    }
    #[inline]
    pub fn of(&self, pkt: &Packet) -> usize {
        if self.is_by_latency {
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
