//! Rates and frame sizes.

use crate::time::Span;

/// Ethernet header without FCS: what a qdisc sees on top of the IP packet.
pub const ETHERNET_HEADER: u32 = 14;
/// A full frame as a qdisc counts it (Linux `psched_mtu`): 1500 B of IP and the Ethernet header.
pub const MTU_FRAME: u32 = 1500 + ETHERNET_HEADER;
/// What a packet costs in memory beyond its frame (Linux 7.2, TCP): 256 B for `struct sk_buff` and
/// 704 B for a small head with headers and bookkeeping, less the 66 B of headers that are part of the
/// frame. That charges 2408 B for a full frame. A UDP packet of that size costs 2304 B.
pub const SKB_OVERHEAD: u64 = 256 + 704 - 66;

/// A bit rate.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Rate {
    bits_per_second: u64,
}

impl Rate {
    pub const fn from_bps(bits_per_second: u64) -> Rate {
        Rate { bits_per_second }
    }
    pub const fn bps(self) -> u64 {
        self.bits_per_second
    }
    /// Time to send `bytes`, rounded down. (A link carries the remainder itself.)
    #[inline]
    pub fn time_for(self, bytes: u64) -> Span {
        let bits = u128::from(bytes) * 8_000_000_000;
        Span((bits / u128::from(self.bits_per_second.max(1))) as u64)
    }
    /// Bytes that fit into `span`, rounded down.
    pub fn bytes_in(self, span: Span) -> u64 {
        (u128::from(self.bits_per_second) * u128::from(span.0) / 8_000_000_000) as u64
    }
}
