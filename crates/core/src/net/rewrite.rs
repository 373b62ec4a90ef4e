//! Rewriting of the ECN field, and black holes for a codepoint, at a place of one group's path.

use super::Node;
use super::inbox::Inbox;
use super::ledger::Ledger;
use crate::aqm::DropReason;
use crate::ecn::{Ecn, Rewritten};
use crate::element::Outbox;
use crate::time::Time;

/// Packets with `from` leave with `to`. The first matching rule counts.
#[derive(Debug)]
pub struct Rewrite {
    pub rules: Vec<(Ecn, Rewritten)>,
    pub ledger: Ledger,
}

impl Node for Rewrite {
    fn next(&self) -> Time {
        Time::NEVER
    }
    fn run(&mut self, inbox: &mut Inbox, _now: Time, until: Time, out: &mut Outbox) {
        while let Some(mut pkt) = inbox.take(until) {
            let now = pkt.enqueued_at;
            self.ledger.arrive(now, &mut pkt);
            if pkt.is_payload()
                && let Some((_, to)) = self.rules.iter().find(|(from, _)| pkt.ecn == *from)
            {
                match to {
                    Rewritten::To(ecn) => pkt.ecn.set(*ecn),
                    Rewritten::Drop => {
                        self.ledger.lose(now, &pkt, DropReason::Rewrite);
                        out.lose(now, &pkt, DropReason::Rewrite);
                        continue;
                    }
                }
            }
            out.packets.push(pkt);
        }
    }
    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }
    fn ledger_mut(&mut self) -> Option<&mut Ledger> {
        Some(&mut self.ledger)
    }
}
