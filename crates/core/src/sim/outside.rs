//! Ends of flows that are outside: somebody hands packets over at their times, and gets those that arrive. The flows are
//! of the kind [`endpoint`](crate::traffic::endpoint), among flows of any other kind.
//!
//! A packet that an end sends now reaches the network after the delay of its way at the earliest. So the network may run
//! ahead of the outside by the shortest of these delays, and everything that arrives until then is known before anybody
//! outside has to act. How far it runs ahead does not change a run: packets come to an element in the order of
//! (time, flow, sending), whoever is asked first.

use super::{Recording, Simulation, closing};
use crate::ecn::Ecn;
use crate::net::tap::{End, Tap};
use crate::packet::{Flags, GroupId, Packet};
use crate::time::{Span, Time};

/// What an end sends: `seq` is its name among the packets of this end that are under way.
#[derive(Copy, Clone, Debug)]
pub struct Sent {
    pub seq: u32,
    /// Of what the end handed over.
    pub bytes: u32,
    pub ecn: Ecn,
    /// That of the flow by default.
    pub dscp: Option<u8>,
}

impl<T: Tap> Simulation<T> {
    /// An end of a group whose ends are outside sends at `now`, which is not later than what
    /// [`Simulation::run_ahead`] was last told. Calls of one end come in the order of time.
    pub fn send(&mut self, group: usize, end: End, now: Time, sent: Sent) {
        let g = &self.groups[group];
        let (slot, account) = (g.active[0], *g.accounts.last().expect("it has one"));
        let ends = g.traffic.outside().expect("its ends are outside");
        // On the way back no filter of ACKs may touch it.
        let (path, flags) = match end {
            End::Client => (&g.forward, Flags::UDP),
            End::Server => (&g.back, Flags::ACK.with(Flags::MESSAGE)),
        };
        let id = GroupId { number: group as u16, account: account as u16 };
        let mut pkt = Packet::new(slot as u32, id, flags, sent.bytes + ends.header, sent.ecn);
        pkt.payload = sent.bytes as u16;
        (pkt.seq, pkt.stamp) = (sent.seq, now);
        pkt.dscp = sent.dscp.unwrap_or(g.dscp);
        pkt.enqueued_at = (now + path.delay).max(path.not_before);
        match path.nodes.first() {
            Some(first) => self.network.inbox(*first).packets.push(pkt),
            None => {
                self.slots[slot].acks.push(pkt);
                self.senders.advance(slot, pkt.enqueued_at + g.forward.delay);
            }
        }
    }

    /// Runs as far as it can while the outside is at `now`. Everything before the time that is returned has happened;
    /// nothing that is sent from `now` on could change it.
    pub fn run_ahead(&mut self, now: Time) -> Time {
        while self.now < self.horizon(now) {
            let planned = self.next_event();
            if planned > self.now {
                self.advance(planned.min(self.horizon(now)));
            } else if planned <= now {
                self.run_due_events();
            } else {
                // It may change the delays of what is sent until then.
                break;
            }
        }
        self.now
    }

    fn horizon(&self, now: Time) -> Time {
        // What happens at the end is part of the run.
        now.saturating_add(self.lookahead).min(self.end + Span(1))
    }

    /// The shortest delay from an outside end to the network or to the other end.
    pub(super) fn measure_lookahead(&mut self) {
        let outside = self.groups.iter().filter(|g| g.traffic.outside().is_some());
        let shortest = outside.map(|g| g.forward.delay.min(g.back.delay)).min();
        self.lookahead = shortest.unwrap_or(Span(u64::MAX));
    }

    /// The packets that have arrived at outside ends since the last call, in order; ACKs are those for a client.
    pub fn take_outside(&mut self) -> Vec<Packet> {
        let mut arrived = std::mem::take(&mut self.out.outside);
        arrived.sort_by_key(|pkt| (pkt.enqueued_at, pkt.flow, pkt.is_ack()));
        arrived
    }

    /// Ends the run at the time that it has reached, and returns what was recorded.
    pub fn finish(mut self) -> Recording {
        let end = self.now.min(self.end);
        self.run_until(end);
        self.count_waiting();
        closing::recording(&mut self, end)
    }
    /// Whether it is long enough for figures: it measures.
    pub fn is_measuring(&self) -> bool {
        self.now > self.warmup
    }
}
