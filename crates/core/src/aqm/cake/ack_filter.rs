//! The ACK filter drops an ACK that waits in a flow's queue when a later one carries all of its information and
//! more (Linux, `cake_ack_filter`).
//!
//! * The filter runs when a packet of the flow arrives. This packet must be a segment of the same connection that
//!   acknowledges no less, and its SACK blocks must contain those of the older ACK.
//! * It drops only pure ACKs without options other than time stamps and SACK, and without flags other than ACK, ECE
//!   and CWR. So it keeps ACKs with the AccECN option or with AE, the upper bit of AccECN's counter.
//! * If it could drop either of two ACKs, it drops the first, unless a packet between them has another ECE or CWR. So
//!   one ACK always stays before the newest. `ack-filter-aggressive` drops this one too, if it is directly before the
//!   newest and both have the same ECE and CWR.

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
        // The blocks of packets that arrived before the filter was switched on are unknown.
        let known = tcp.sack.is_some().then(|| self.0.get(tcp.sack.0 as usize)).flatten();
        known.map_or(&[], Blocks::as_slice)
    }
}

impl AckFilter {
    /// The place of the ACK that the newest packet of the queue makes redundant.
    pub fn needless<P: Pkt>(self, queue: &Queue<P>, sacks: &Sacks) -> Option<usize> {
        let newest = queue.len().checked_sub(1).filter(|_| self != AckFilter::Off)?;
        let new = queue.get(newest)?.tcp().filter(|tcp| tcp.acknowledges)?;
        let mut found: Option<(usize, TcpHeader)> = None;
        for i in 0..newest {
            let of_connection = |tcp: &TcpHeader| tcp.connection == new.connection;
            let Some(old) = queue.get(i).and_then(Pkt::tcp).filter(of_connection) else { continue };
            // Without the ACK that was found, a change of these flags would be lost.
            found = found.filter(|(_, first)| first.ecn == old.ecn);
            let is_newer = after(old.tsval, new.tsval)
                || after(old.tsecr, new.tsecr)
                || after(old.number, new.number);
            if !old.is_pure || is_newer {
                continue;
            }
            match compare(sacks.of(&old), old.number, sacks.of(&new)) {
                SackChange::More => continue,
                SackChange::Same if old.number == new.number => continue,
                SackChange::Same | SackChange::Less => {}
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

/// Compares the SACK blocks of an older ACK with those of a newer one.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum SackChange {
    Less,
    Same,
    /// They contain something that the newer one lacks.
    More,
}

/// `number`: what the older one acknowledges.
fn compare(old: &[Block], number: u32, new: &[Block]) -> SackChange {
    let length = |blocks: &[Block]| blocks.iter().map(|b| b.end.wrapping_sub(b.start)).sum::<u32>();
    let is_told = |old: &Block| {
        let holds = |new: &Block| !after(new.start, old.start) && !after(old.end, new.end);
        // Data that was received twice is reported only once.
        !after(number, old.start) && new.iter().any(holds)
    };
    if !old.iter().all(is_told) {
        SackChange::More
    } else if length(new) > length(old) {
        SackChange::Less
    } else {
        SackChange::Same
    }
}
