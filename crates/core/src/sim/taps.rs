//! Collects the packets that pass the ends of paths, and shows them in the order of time.

use crate::element::{Arrivals, Outbox};
use crate::net::tap::{End, Tap};
use crate::offload;
use crate::packet::Packet;
use crate::sack::{Blocks, SackStore};
use crate::time::Time;

/// Shows a tap the packets of all ends in the order of time. Ends do not run together, so a packet is shown when all ends have
/// reached its time.
pub struct Taps<T> {
    tap: T,
    seen: Vec<(Time, End, Packet, Blocks)>,
}

impl<T: Tap> Taps<T> {
    pub fn new(tap: T) -> Taps<T> {
        Taps { tap, seen: Vec::new() }
    }
    /// A packet arrives that no end takes.
    pub fn arrive(&mut self, pkt: &Packet, sacks: &SackStore) {
        if T::ON {
            let end = if pkt.is_ack() { End::Client } else { End::Server };
            self.seen.push((pkt.enqueued_at, end, *pkt, sacks.get(pkt.sack())));
        }
    }

    /// Called before an end takes some of these arrivals. Returns those that it has not taken yet.
    pub fn open<const C: bool>(
        &self,
        arrivals: &mut Arrivals<C>,
        sacks: &SackStore,
    ) -> Vec<(Packet, Blocks)> {
        if !T::ON {
            return Vec::new();
        }
        arrivals.log.get_or_insert_default().clear();
        arrivals.rest().into_iter().map(|p| (p, sacks.get(p.sack()))).collect()
    }

    /// Called after that: the end has sent the packets in `out` beyond `before`.
    pub fn close<const C: bool>(
        &mut self,
        end: End,
        shown: Vec<(Packet, Blocks)>,
        arrivals: &Arrivals<C>,
        out: &Outbox,
        before: usize,
    ) {
        if !T::ON {
            return;
        }
        let Some(log) = &arrivals.log else { return };
        let left =
            |p: Packet| (Time(p.enqueued_at.0 - out.delay.0), end, p, out.sacks.get(p.sack()));
        let mut done = before;
        for ((pkt, blocks), sent) in shown.into_iter().zip(log) {
            self.seen.extend(out.packets[done..*sent].iter().flat_map(offload::segments).map(left));
            let came = |one| (pkt.enqueued_at, end, one, blocks);
            self.seen.extend(offload::segments(&pkt).map(came));
            done = *sent;
        }
        self.seen.extend(out.packets[done..].iter().flat_map(offload::segments).map(left));
    }

    /// Shows the packets that have passed before `until`.
    pub fn show_until(&mut self, until: Time) {
        if !T::ON {
            return;
        }
        self.seen.sort_by_key(|(at, end, pkt, _)| (*at, *end as u8, pkt.flow));
        let passed = self.seen.partition_point(|(at, ..)| *at < until);
        for (at, end, pkt, blocks) in self.seen.drain(..passed) {
            self.tap.see(at, end, &pkt, &blocks);
        }
    }
}
