//! SACK blocks on their way from receiver to sender (RFC 2018, D-SACK: RFC 2883).

use crate::packet::SackSlot;

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
    slots: Vec<Blocks>,
    free: Vec<u32>,
}

impl SackStore {
    pub fn put(&mut self, blocks: Blocks) -> SackSlot {
        if let Some(i) = self.free.pop() {
            self.slots[i as usize] = blocks;
            return SackSlot(i);
        }
        self.slots.push(blocks);
        SackSlot(self.slots.len() as u32 - 1)
    }
    /// Takes the blocks out. A packet that is dropped must be taken out too.
    pub fn take(&mut self, slot: SackSlot) -> Blocks {
        if !slot.is_some() {
            return Blocks::default();
        }
        self.free.push(slot.0);
        self.slots[slot.0 as usize]
    }
}
