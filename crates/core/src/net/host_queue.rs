//! A link in the host that sends: its queue answers the host for each packet, and tells when a packet has left it.
//!
//! What Linux's queues return: the packet is in (`NET_XMIT_SUCCESS`), it is refused and stays with the sender
//! (`NET_XMIT_DROP`), or the queue dropped something else of the flow, or this packet although the host takes it for sent
//! (`NET_XMIT_CN`).

use super::Node;
use super::inbox::Inbox;
use super::link::Link;
use crate::aqm::DropReason;
use crate::aqm::tree::Queue;
use crate::element::{Answer, Fates, Outbox};
use crate::packet::{Flags, Packet};
use crate::time::Time;

/// Queues that drop an arrival by their law and call that congestion, or success.
const CALL_IT_CONGESTION: [&str; 5] = ["red", "choke", "sfb", "fq_pie", "sfq"];
const CALL_IT_SUCCESS: [&str; 1] = ["dualpi2"];

/// A link's queue in the host that sends, whose TCP learns what leaves and what is dropped.
pub struct HostQueue {
    link: Link,
    /// What the host is to be told, in order, with the time in `enqueued_at`.
    pub told: Vec<(Packet, Answer)>,
    /// Of a packet that its law drops when it arrives.
    by_law: &'static [Answer],
}

/// A host sends nothing else before it has its answer.
fn is_same(a: &Packet, b: &Packet) -> bool {
    let is_again = |pkt: &Packet| pkt.flags.has(Flags::RETRANSMISSION);
    (a.flow, a.seq, is_again(a)) == (b.flow, b.seq, is_again(b))
}

impl HostQueue {
    pub fn new(link: Link, qdisc: &Queue) -> HostQueue {
        let by_law: &[Answer] = match qdisc {
            Queue::One(qdisc) if CALL_IT_CONGESTION.contains(&qdisc.name()) => {
                &[Answer::Congested, Answer::Lost]
            }
            Queue::One(qdisc) if CALL_IT_SUCCESS.contains(&qdisc.name()) => &[Answer::Lost],
            _ => &[Answer::Refused],
        };
        HostQueue { link, told: Vec::new(), by_law }
    }

    /// Something happens to the link. Gives what it lost meanwhile.
    fn noting(&mut self, out: &mut Outbox, act: impl FnOnce(&mut Link, &mut Outbox)) -> Fates {
        let asked = out.fates.replace(Fates::default());
        act(&mut self.link, out);
        let fates = std::mem::replace(&mut out.fates, asked).unwrap_or_default();
        if let Some(all) = &mut out.fates {
            all.lost.extend_from_slice(&fates.lost);
            all.copied.extend_from_slice(&fates.copied);
        }
        fates
    }

    /// The link changes, which may cost packets that wait.
    pub fn change(&mut self, out: &mut Outbox, act: impl FnOnce(&mut Link, &mut Outbox)) {
        let lost = self.noting(out, act).lost;
        self.told.extend(lost.into_iter().map(|(pkt, _)| (pkt, Answer::Gone)));
    }
}

impl Node for HostQueue {
    fn next(&self) -> Time {
        self.link.next()
    }
    fn run(&mut self, inbox: &mut Inbox, now: Time, until: Time, out: &mut Outbox) {
        let mut arrivals = inbox.arrivals();
        let mut came: Vec<Packet> = Vec::new();
        while arrivals.time() < until
            && let Some(pkt) = arrivals.take()
        {
            came.push(*pkt);
        }
        let before = out.packets.len();
        let lost = self.noting(out, |link, out| link.run(inbox, now, until, out)).lost;
        for pkt in &came {
            match lost.iter().find(|(one, _)| is_same(one, pkt)) {
                None => {
                    let makes_room = |(one, why): &(Packet, DropReason)| {
                        *why == DropReason::Overflow && one.flow == pkt.flow
                    };
                    if lost.iter().any(makes_room) {
                        self.told.push((*pkt, Answer::Congested));
                    }
                    self.told.push((*pkt, Answer::Taken));
                }
                Some((_, DropReason::Overflow)) => self.told.push((*pkt, Answer::Refused)),
                Some(_) => self.told.extend(self.by_law.iter().map(|answer| (*pkt, *answer))),
            }
        }
        let waited = |pkt: &&Packet| !came.iter().any(|one| is_same(one, pkt));
        let dropped = lost.iter().map(|(pkt, _)| pkt).filter(waited);
        let gone = dropped.chain(&out.packets[before..]);
        self.told.extend(gone.map(|pkt| (*pkt, Answer::Gone)));
    }
    fn as_link(&self) -> Option<&Link> {
        Some(&self.link)
    }
    fn as_link_mut(&mut self) -> Option<&mut Link> {
        Some(&mut self.link)
    }
    fn as_host_queue_mut(&mut self) -> Option<&mut HostQueue> {
        Some(self)
    }
}
