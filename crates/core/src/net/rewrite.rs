//! Rewriting of the ECN field, at a place of one group's path.

use super::Node;
use super::inbox::Inbox;
use crate::ecn::Ecn;
use crate::element::Outbox;
use crate::time::Time;

/// What carries `from` goes on with `to`; of several rules the first that fits.
#[derive(Clone, Debug)]
pub struct Rewrite {
    pub rules: Vec<(Ecn, Ecn)>,
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
                pkt.ecn.set(*to);
            }
            out.packets.push(pkt);
        }
    }
}
