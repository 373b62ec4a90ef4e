//! What packets in tunnels ([`crate::net::tunnel`]) have inside, while they are under way.

use crate::packet::{EcnField, Flags, FlowId, Packet};

/// What a packet in a tunnel has inside.
#[derive(Copy, Clone, Debug)]
pub struct Inner {
    pub flow: FlowId,
    pub seq: u32,
    pub frame_len: u16,
    pub dscp: u8,
    pub ecn: EcnField,
    /// Its place in the order in which packets went in.
    pub number: u64,
    /// Packets that carry it: more than one if the network duplicated it.
    pub carriers: u32,
}

/// Side store of the packets in tunnels; an outer packet has the place of its inner one as `seq`.
#[derive(Debug, Default)]
pub struct Inside {
    slots: Vec<Inner>,
    free: Vec<u32>,
}

impl Inside {
    /// A place for the packet that goes in.
    pub fn place(&mut self, inner: Inner) -> u32 {
        if let Some(i) = self.free.pop() {
            self.slots[i as usize] = inner;
            return i;
        }
        self.slots.push(inner);
        self.slots.len() as u32 - 1
    }
    /// An outer packet was duplicated so many times.
    pub fn share(&mut self, outer: &Packet, duplicates: u32) {
        self.slots[outer.seq as usize].carriers += duplicates;
    }
    /// Its place in the order in which packets went in.
    pub fn number(&self, outer: &Packet) -> u64 {
        self.slots[outer.seq as usize].number
    }
    /// The inner packet of one that is still under way.
    pub fn get(&self, outer: &Packet) -> Packet {
        let inner = &self.slots[outer.seq as usize];
        let mut pkt = *outer;
        pkt.flags = outer.flags.without(Flags::TUNNELLED);
        (pkt.flow, pkt.seq) = (inner.flow, inner.seq);
        (pkt.frame_len, pkt.dscp, pkt.ecn) = (inner.frame_len, inner.dscp, inner.ecn);
        pkt
    }
    /// Takes the inner packet out. An outer packet that is dropped must be taken out too.
    pub fn take(&mut self, outer: &Packet) -> Packet {
        let pkt = self.get(outer);
        let inner = &mut self.slots[outer.seq as usize];
        inner.carriers -= 1;
        if inner.carriers == 0 {
            self.free.push(outer.seq);
        }
        pkt
    }
    /// Packets in tunnels.
    pub fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
