//! An impairment: a netem of its own before a link, without a shaper behind it. Packets leave it as
//! soon as it lets go of them.

use super::Node;
use super::inbox::Inbox;
use super::ledger::Ledger;
use super::link::Totals;
use crate::aqm::netem::{Netem, NetemConfig};
use crate::aqm::{self, Aqm, Dropped, QueueCx};
use crate::element::Outbox;
use crate::packet::Packet;
use crate::rng::Rng;
use crate::time::Time;

/// A netem before a link, without a shaper behind it.
pub struct Impair {
    netem: Netem<Packet>,
    rng: Rng,
    drops: Vec<Dropped<Packet>>,
    totals: Totals,
    ledger: Ledger,
    /// When the next packet may leave.
    next: Time,
}

impl Impair {
    pub fn new(netem: NetemConfig, rng: Rng) -> Impair {
        Impair {
            netem: Netem::new(netem, Time::ZERO),
            rng,
            drops: Vec::new(),
            totals: Totals::default(),
            ledger: Ledger::default(),
            next: Time::NEVER,
        }
    }
    /// Packets that came (duplicates included), went and were lost since the start.
    pub fn totals(&self) -> Totals {
        self.totals
    }
    /// Other parameters of netem from now on, for what comes.
    pub fn change(&mut self, now: Time, netem: NetemConfig) {
        self.netem.set(netem, now);
    }
    /// Packets inside.
    pub fn backlog(&self) -> u64 {
        self.netem.backlog().packets
    }

    /// Shows all that is inside. Nothing passes here afterwards.
    pub fn purge(&mut self, now: Time, show: &mut dyn FnMut(&Packet)) {
        aqm::purge(&mut self.netem, now, &mut self.rng, &mut |inside| show(&inside.pkt));
    }

    fn arrive(&mut self, mut pkt: Packet, out: &mut Outbox) {
        self.ledger.arrive(pkt.enqueued_at, &mut pkt);
        let mut cx = QueueCx::new(pkt.enqueued_at, &mut self.rng, &mut self.drops);
        self.netem.enqueue(pkt, &mut cx);
        let duplicates = cx.duplicates();
        self.totals.arrived += 1 + u64::from(duplicates);
        self.ledger.copy(&pkt, duplicates);
        out.copy(&pkt, duplicates);
    }

    /// Passes on what the netem lets go of.
    fn release(&mut self, now: Time, out: &mut Outbox) {
        loop {
            let pkt = self.netem.dequeue(&mut QueueCx::new(now, &mut self.rng, &mut self.drops));
            self.totals.dropped += self.drops.len() as u64;
            for lost in self.drops.drain(..) {
                self.ledger.lose(now, &lost.pkt, lost.why);
                out.lose(now, &lost.pkt, lost.why);
            }
            let Some(mut pkt) = pkt else { break };
            self.totals.sent += 1;
            pkt.enqueued_at = now;
            out.packets.push(pkt);
        }
        self.next = self.netem.next_timer();
    }
}

impl Node for Impair {
    fn next(&self) -> Time {
        self.next
    }
    fn run(&mut self, inbox: &mut Inbox, _now: Time, until: Time, out: &mut Outbox) {
        loop {
            let arrival = inbox.next_time();
            let now = arrival.min(self.next);
            if now >= until {
                return;
            }
            if arrival <= self.next {
                let pkt = inbox.take(until).expect("it arrives now");
                self.arrive(pkt, out);
            }
            self.release(now, out);
        }
    }
    fn as_impair(&self) -> Option<&Impair> {
        Some(self)
    }
    fn as_impair_mut(&mut self) -> Option<&mut Impair> {
        Some(self)
    }
    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }
    fn ledger_mut(&mut self) -> Option<&mut Ledger> {
        Some(&mut self.ledger)
    }
}
