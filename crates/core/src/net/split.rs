//! Cuts super-packets into their segments, before a queue that does so (`split_gso`) or a medium.

use super::Node;
use super::inbox::Inbox;
use super::ledger::Ledger;
use crate::element::Outbox;
use crate::offload;
use crate::time::Time;

/// Cuts an offloaded packet into its segments, which count as copies of the packet.
#[derive(Debug, Default)]
pub struct Split {
    ledger: Ledger,
}

impl Node for Split {
    fn next(&self) -> Time {
        Time::NEVER
    }
    fn run(&mut self, inbox: &mut Inbox, _now: Time, until: Time, out: &mut Outbox) {
        while let Some(mut pkt) = inbox.take(until) {
            self.ledger.arrive(pkt.enqueued_at, &mut pkt);
            self.ledger.copy(&pkt, offload::count(&pkt) - 1);
            out.packets.extend(offload::segments(&pkt));
        }
    }
    fn cuts(&self) -> bool {
        true
    }
    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }
    fn ledger_mut(&mut self) -> Option<&mut Ledger> {
        Some(&mut self.ledger)
    }
}
