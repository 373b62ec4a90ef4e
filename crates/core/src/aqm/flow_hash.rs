//! The hash that sorts packets into flows. It is salted per queue, so that which flows collide differs
//! from seed to seed.

use crate::rng::{Rng, spread};

#[derive(Debug, Default)]
pub struct FlowHash {
    /// Drawn with the first packet.
    salt: Option<u32>,
}

impl FlowHash {
    /// Spreads a packet's hash, of its flow or of a host, over 32 bits.
    #[inline]
    pub fn of(&mut self, hash: u32, rng: &mut Rng) -> u32 {
        spread(hash ^ *self.salt.get_or_insert_with(|| rng.u32()))
    }
    /// One of `flows` numbers, each as likely.
    #[inline]
    pub fn index(&mut self, flow_hash: u32, flows: u32, rng: &mut Rng) -> usize {
        ((u64::from(self.of(flow_hash, rng)) * u64::from(flows)) >> 32) as usize
    }
}
