//! Looks at every packet of a link: when it comes, when it goes, and what became of it. It cannot change a run.

use std::collections::{BTreeMap, VecDeque};

use crate::packet::{FlowId, GroupId, Packet};
use crate::time::Time;

/// Events beyond this are not kept.
const MAX_EVENTS: usize = 20_000;

/// An event of a packet.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PacketEventKind {
    Arrives,
    Leaves,
    IsDropped,
}

#[derive(Copy, Clone, Debug)]
pub struct PacketEvent {
    pub at: Time,
    pub kind: PacketEventKind,
    /// Names the packet from its arrival until it is gone.
    pub id: u64,
    pub group: GroupId,
    pub flow: FlowId,
    /// The ECN field's bits, of a packet that leaves as it leaves.
    pub ecn: u8,
    pub bytes: u16,
}

/// The same packet, before and after.
type Key = (FlowId, bool, u32, Time);

fn key(pkt: &Packet) -> Key {
    (pkt.flow, pkt.is_ack(), pkt.seq, pkt.stamp)
}

/// The events of each packet at a link.
#[derive(Debug, Default)]
pub struct Watch {
    events: Vec<PacketEvent>,
    /// The packets that have been seen to come and not to go.
    waiting: BTreeMap<Key, VecDeque<u64>>,
    known: u64,
    next_id: u64,
    is_cut: bool,
}

/// The events since the last call.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub events: Vec<PacketEvent>,
    /// Packets in the queue whose arrival was not seen.
    pub unknown: u64,
    /// There was too much to see: it ends before its time, and what waits now is unknown.
    pub is_cut: bool,
}

impl Watch {
    /// Over a window, what arrived at which time, what left, and what was dropped.
    pub fn see<'a>(
        &mut self,
        arrived: impl Iterator<Item = (Time, &'a Packet)>,
        departed: &[Packet],
        dropped: &[Packet],
    ) {
        if self.is_cut {
            return;
        }
        let first = self.events.len();
        for (at, pkt) in arrived {
            self.waiting.entry(key(pkt)).or_default().push_back(self.next_id);
            self.known += 1;
            self.add(at, PacketEventKind::Arrives, self.next_id, pkt);
            self.next_id += 1;
        }
        for (kind, packets) in
            [(PacketEventKind::Leaves, departed), (PacketEventKind::IsDropped, dropped)]
        {
            for pkt in packets {
                if let Some(id) = self.forget(pkt) {
                    self.add(pkt.enqueued_at, kind, id, pkt);
                }
            }
        }
        self.events[first..].sort_by_key(|e| (e.at, e.kind));
        if self.events.len() > MAX_EVENTS {
            self.events.truncate(MAX_EVENTS);
            self.is_cut = true;
        }
    }

    fn add(&mut self, at: Time, kind: PacketEventKind, id: u64, pkt: &Packet) {
        let (group, flow) = (pkt.group, pkt.flow);
        let (ecn, bytes) = (pkt.ecn.get().bits(), pkt.frame_len);
        self.events.push(PacketEvent { at, kind, id, group, flow, ecn, bytes });
    }

    /// The number of a packet that is gone, if its arrival was seen.
    fn forget(&mut self, pkt: &Packet) -> Option<u64> {
        let key = key(pkt);
        let ids = self.waiting.get_mut(&key)?;
        let id = ids.pop_front();
        if ids.is_empty() {
            self.waiting.remove(&key);
        }
        self.known -= u64::from(id.is_some());
        id
    }

    /// Hands over what was seen; `backlog` packets are in the queue.
    pub fn take(&mut self, backlog: u64) -> Seen {
        let is_cut = std::mem::take(&mut self.is_cut);
        if is_cut {
            self.waiting.clear();
            self.known = 0;
        }
        let unknown = backlog.saturating_sub(self.known);
        Seen { events: std::mem::take(&mut self.events), unknown, is_cut }
    }
}
