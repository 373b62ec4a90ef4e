//! Thinning of ACKs: of the pure ACKs of a connection that follow each other, only one in so many goes on, and the
//! last one not later than a while after the first. So do modems whose upstream is asked for (DOCSIS), radios that
//! aggregate, and middleboxes that save packets.
//!
//! As in the ACK filter of `sch_cake`, an ACK that tells more than how much has arrived is never lost: one that begins
//! or ends something, carries SACK blocks or other ECN bits than the one before it, or repeats it. What was held goes
//! before it.

use std::collections::{BTreeMap, BTreeSet};

use super::Node;
use super::inbox::Inbox;
use crate::aqm::DropReason;
use crate::element::Outbox;
use crate::packet::{Flags, FlowId, Packet};
use crate::time::{Span, Time};

/// The newest ACK of a connection, in place of so many; when it goes on at the latest.
struct Held {
    ack: Packet,
    count: u32,
    due: Time,
}

/// Forwards every Nth pure ACK of a connection and drops the others.
pub struct Thin {
    /// One of so many goes on.
    one_of: u32,
    wait: Span,
    held: BTreeMap<FlowId, Held>,
    due: BTreeSet<(Time, FlowId)>,
    /// ACKs that were taken out.
    pub thinned: u64,
}

impl Thin {
    pub fn new(one_of: u32, wait: Span) -> Thin {
        Thin { one_of, wait, held: BTreeMap::new(), due: BTreeSet::new(), thinned: 0 }
    }

    fn arrive(&mut self, now: Time, ack: Packet, out: &mut Outbox) {
        let plain = ack.flags == Flags::ACK || ack.flags == Flags::ACK.with(Flags::ACCECN_OPTION);
        let follows = |held: &Held| ack.seq > held.ack.seq && ack.bits == held.ack.bits;
        let is_thinned = plain && !ack.sack().is_some();
        if !is_thinned || self.held.get(&ack.flow).is_some_and(|held| !follows(held)) {
            self.release(now, ack.flow, out);
        }
        if !is_thinned {
            return send(now, ack, out);
        }
        let due = now + self.wait;
        let held = self.held.entry(ack.flow).or_insert(Held { ack, count: 0, due });
        if held.count == 0 {
            self.due.insert((due, ack.flow));
        } else {
            self.thinned += 1;
            out.lose(now, &held.ack, DropReason::Aqm);
        }
        (held.ack, held.count) = (ack, held.count + 1);
        if held.count >= self.one_of {
            self.release(now, ack.flow, out);
        }
    }

    fn release(&mut self, now: Time, flow: FlowId, out: &mut Outbox) {
        if let Some(held) = self.held.remove(&flow) {
            self.due.remove(&(held.due, flow));
            send(now, held.ack, out);
        }
    }
}

fn send(now: Time, mut pkt: Packet, out: &mut Outbox) {
    pkt.enqueued_at = now;
    out.packets.push(pkt);
}

impl Node for Thin {
    fn next(&self) -> Time {
        self.due.first().map_or(Time::NEVER, |(due, _)| *due)
    }
    fn run(&mut self, inbox: &mut Inbox, _now: Time, until: Time, out: &mut Outbox) {
        loop {
            let (arrival, due) = (inbox.next_time(), self.next());
            let now = arrival.min(due);
            if now >= until {
                return;
            }
            if arrival <= due {
                let ack = inbox.take(until).expect("it arrives now");
                self.arrive(now, ack, out);
            } else if let Some((_, flow)) = self.due.first().copied() {
                self.release(now, flow, out);
            }
        }
    }
}
