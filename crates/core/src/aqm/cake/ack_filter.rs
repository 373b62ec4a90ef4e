//! The ACK filter: an ACK that waits in a flow's queue is dropped when one behind it says all that it says, and
//! more (Linux, `cake_ack_filter`).
//!
//! * Looked for when a packet of the flow comes, which is the one that says more: a segment of the same connection that
//!   acknowledges no less, and whose SACK blocks hold those of the other.
//! * Dropped are pure ACKs with no options but time stamps and SACK, so none with the AccECN option, and with no flag but
//!   ACK, ECE and CWR, so none with AE, the upper bit of AccECN's counter.
//! * Of two that could go, the first one goes, unless a packet between them has another ECE or CWR. So one always
//!   stays before the newest; `ack-filter-aggressive` also drops the only one, if it stands directly before the newest
//!   and both have the same ECE and CWR.

use crate::aqm::queue::Queue;
use crate::aqm::{Pkt, TcpHeader};
use crate::packet::SackSlot;
use crate::sack::{Block, Blocks};

/// Which ACKs it drops.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum AckFilter {
    Off,
    On,
    Aggressive,
}

/// The SACK blocks of packets that wait, by the slot that these carry.
#[derive(Debug, Default)]
pub struct Sacks(Vec<Blocks>);

impl Sacks {
    pub fn learn(&mut self, slot: SackSlot, blocks: Blocks) {
        let place = slot.0 as usize;
        if self.0.len() <= place {
            self.0.resize(place + 1, Blocks::default());
        }
        self.0[place] = blocks;
    }
    fn of(&self, tcp: &TcpHeader) -> &[Block] {
        // Of what came before the filter was switched on, no blocks are known.
        let known = tcp.sack.is_some().then(|| self.0.get(tcp.sack.0 as usize)).flatten();
        known.map_or(&[], Blocks::as_slice)
    }
}

impl AckFilter {
    /// The place of the ACK that the newest packet of the queue makes needless.
    pub fn needless<P: Pkt>(self, queue: &Queue<P>, sacks: &Sacks) -> Option<usize> {
        let newest = queue.len().checked_sub(1).filter(|_| self != AckFilter::Off)?;
        let new = queue.get(newest)?.tcp().filter(|tcp| tcp.acknowledges)?;
        let mut found: Option<(usize, TcpHeader)> = None;
        for i in 0..newest {
            let of_connection = |tcp: &TcpHeader| tcp.connection == new.connection;
            let Some(old) = queue.get(i).and_then(Pkt::tcp).filter(of_connection) else { continue };
            // Without the one that was found, a change of these would not be told.
            found = found.filter(|(_, first)| first.ecn == old.ecn);
            let is_newer = after(old.tsval, new.tsval)
                || after(old.tsecr, new.tsecr)
                || after(old.number, new.number);
            if !old.is_pure || is_newer {
                continue;
            }
            match compare(sacks.of(&old), old.number, sacks.of(&new)) {
                Said::More => continue,
                Said::Same if old.number == new.number => continue,
                Said::Same | Said::Less => {}
            }
            if let Some((first, _)) = found {
                return Some(first);
            }
            found = Some((i, old));
        }
        let (i, old) = found?;
        let is_next = i + 1 == newest && old.ecn == new.ecn;
        (self == AckFilter::Aggressive && is_next).then_some(i)
    }
}

/// Is `a` after `b`? They wrap.
fn after(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) < 0
}

/// What the SACK blocks of an older ACK say, beside those of a newer one.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Said {
    Less,
    Same,
    /// Something that the newer one does not say.
    More,
}

/// `number`: what the older one acknowledges.
fn compare(old: &[Block], number: u32, new: &[Block]) -> Said {
    let length = |blocks: &[Block]| blocks.iter().map(|b| b.end.wrapping_sub(b.start)).sum::<u32>();
    let is_told = |old: &Block| {
        let holds = |new: &Block| !after(new.start, old.start) && !after(old.end, new.end);
        // What was received twice is told only once.
        !after(number, old.start) && new.iter().any(holds)
    };
    if !old.iter().all(is_told) {
        Said::More
    } else if length(new) > length(old) {
        Said::Less
    } else {
        Said::Same
    }
}
