//! SACK blocks on their way from receiver to sender (RFC 2018, D-SACK: RFC 2883).

use crate::packet::SackSlot;
use crate::prefetch;

/// Segments `start..end`.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Block {
    pub start: u32,
    pub end: u32,
}

impl Block {
    pub const fn new(start: u32, end: u32) -> Block {
        Block { start, end }
    }
    pub const fn contains(self, seq: u32) -> bool {
        self.start <= seq && seq < self.end
    }
}

/// As many blocks as fit beside the timestamp option.
pub const MAX_BLOCKS: usize = 3;

/// The blocks of one ACK, most recent first.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Blocks {
    blocks: [Block; MAX_BLOCKS],
    len: u8,
}

impl Blocks {
    /// Appends a block; false if there is no room.
    pub fn push(&mut self, b: Block) -> bool {
        if usize::from(self.len) == MAX_BLOCKS {
            return false;
        }
        self.blocks[usize::from(self.len)] = b;
        self.len += 1;
        true
    }
    pub fn as_slice(&self) -> &[Block] {
        &self.blocks[..usize::from(self.len)]
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Side store of the blocks of ACKs under way; a packet carries a slot number.
#[derive(Default, Debug)]
pub struct SackStore {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    blocks: Blocks,
    /// Packets that carry its number: more than one if the network duplicated the ACK.
    carriers: u32,
}

impl SackStore {
    /// A slot for one packet, with its blocks, which are empty. The caller fills them in place: the processor would wait
    /// at a wide copy of what it has just written in narrow pieces.
    pub fn place(&mut self) -> (SackSlot, &mut Blocks) {
        let i = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { blocks: Blocks::default(), carriers: 0 });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[i as usize];
        slot.blocks.len = 0;
        slot.carriers = 1;
        (SackSlot(i), &mut slot.blocks)
    }
    /// Fetches the blocks into the cache.
    #[inline]
    pub fn fetch(&self, slot: SackSlot) {
        self.slots.get(slot.0 as usize).into_iter().for_each(prefetch::lines);
    }
    /// The packet that carries this slot was duplicated so many times.
    pub fn share(&mut self, slot: SackSlot, duplicates: u32) {
        if slot.is_some() {
            self.slots[slot.0 as usize].carriers += duplicates;
        }
    }
    /// The blocks of a packet that is still under way.
    pub fn get(&self, slot: SackSlot) -> Blocks {
        if slot.is_some() { self.slots[slot.0 as usize].blocks } else { Blocks::default() }
    }
    /// Takes the blocks of one packet out. A packet that is dropped must be taken out too.
    pub fn take(&mut self, slot: SackSlot) -> Blocks {
        if !slot.is_some() {
            return Blocks::default();
        }
        let taken = &mut self.slots[slot.0 as usize];
        taken.carriers -= 1;
        if taken.carriers == 0 {
            self.free.push(slot.0);
        }
        taken.blocks
    }
    /// Slots in use.
    pub fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
