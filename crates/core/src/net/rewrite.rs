//! Rewriting of the ECN field, and black holes for a codepoint, at a place of one group's path.

use super::Node;
use super::inbox::Inbox;
use crate::ecn::Ecn;
use crate::element::Outbox;
use crate::scenario::Rewritten;
use crate::time::Time;

/// What carries `from` goes on with `to`; of several rules the first that fits.
#[derive(Clone, Debug)]
pub struct Rewrite {
    pub rules: Vec<(Ecn, Rewritten)>,
}

impl Node for Rewrite {
    fn next(&self) -> Time {
        Time::NEVER
    }
    fn run(&mut self, inbox: &mut Inbox, _now: Time, until: Time, out: &mut Outbox) {
        while let Some(mut pkt) = inbox.take(until) {
            if pkt.is_payload()
                && let Some((_, to)) = self.rules.iter().find(|(from, _)| pkt.ecn == *from)
            {
                match to {
                    Rewritten::To(ecn) => pkt.ecn.set(*ecn),
                    Rewritten::Drop => continue,
                }
            }
            out.packets.push(pkt);
        }
    }
}
