//! An impairment: a netem of its own before a link, without a shaper behind it. Packets leave it as
//! soon as it lets go of them.

use crate::aqm::netem::{Netem, NetemConfig};
use crate::aqm::{Aqm, Dropped, QueueCx};
use crate::net::link::Totals;
use crate::packet::Packet;
use crate::rng::Rng;
use crate::time::Time;

/// See the module.
pub struct Impair {
    netem: Netem<Packet>,
    rng: Rng,
    drops: Vec<Dropped<Packet>>,
    totals: Totals,
}

impl Impair {
    pub fn new(netem: NetemConfig, rng: Rng) -> Impair {
        let netem = Netem::new(netem, Time::ZERO);
        Impair { netem, rng, drops: Vec::new(), totals: Totals::default() }
    }
    /// Packets that came (duplicates included), went and were lost since the start.
    pub fn totals(&self) -> Totals {
        self.totals
    }
    /// Packets inside.
    pub fn backlog(&self) -> u64 {
        self.netem.backlog().packets
    }

    /// A packet arrives. Returns how often it was duplicated.
    pub fn arrive(&mut self, now: Time, mut pkt: Packet) -> u32 {
        pkt.enqueued_at = now;
        let before = self.drops.len();
        let mut cx = QueueCx::new(now, &mut self.rng, &mut self.drops);
        self.netem.enqueue(pkt, &mut cx);
        let duplicates = cx.duplicates();
        self.totals.arrived += 1 + u64::from(duplicates);
        self.totals.dropped += (self.drops.len() - before) as u64;
        duplicates
    }

    /// The next packet whose time has come.
    pub fn depart(&mut self, now: Time) -> Option<Packet> {
        let pkt = self.netem.dequeue(&mut QueueCx::new(now, &mut self.rng, &mut self.drops))?;
        self.totals.sent += 1;
        Some(pkt)
    }

    /// When the next packet may leave, after `depart` gave none.
    pub fn next(&self) -> Time {
        self.netem.next_timer()
    }

    /// Packets lost since the last call.
    pub fn drain_drops(&mut self) -> impl Iterator<Item = Packet> + '_ {
        self.drops.drain(..).map(|d| d.pkt)
    }
}
