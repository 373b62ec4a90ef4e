//! Rates and frame sizes.

use crate::time::Span;

/// Ethernet header without FCS: what a qdisc sees on top of the IP packet.
pub const ETHERNET_HEADER: u32 = 14;
/// A full frame as a qdisc counts it (Linux `psched_mtu`): 1500 B of IP and the Ethernet header.
pub const MTU_FRAME: u32 = 1500 + ETHERNET_HEADER;
/// `struct sk_buff`, the bookkeeping behind a packet's head, and a small head with it, in bytes of memory (Linux 7.2, x86-64).
const SK_BUFF: u32 = 256;
const SHARED_INFO: u32 = 320;
/// Of a kernel with tunnels, as distributions have (`skbuff_small_head` in `/proc/slabinfo`).
const SMALL_HEAD: u32 = 704;
/// Room before an Ethernet frame's IP header, and alignment, for which UDP asks besides the IP packet.
const HEADROOM: u32 = 16 + 15;
const CACHE_LINE: u32 = 64;

/// The kernel memory of a TCP segment (`truesize` in Linux): its headers are in a small head, its payload in
/// pages that are counted by the byte.
pub const fn tcp_truesize(payload: u32) -> u32 {
    SK_BUFF + SMALL_HEAD + payload
}

/// The kernel memory of a packet in one piece, as UDP sends it: a small head, or else the next power of two.
pub const fn udp_truesize(frame_len: u32) -> u32 {
    let room = frame_len.saturating_sub(ETHERNET_HEADER) + HEADROOM;
    let head = room.next_multiple_of(CACHE_LINE) + SHARED_INFO;
    SK_BUFF + if head <= SMALL_HEAD { SMALL_HEAD } else { head.next_power_of_two() }
}

/// No packet of this length takes more.
pub const fn most_truesize(frame_len: u32) -> u32 {
    let (tcp, udp) = (tcp_truesize(frame_len), udp_truesize(frame_len));
    if tcp > udp { tcp } else { udp }
}

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

/// Whether a key of the description may be left out, for the schema.
#[cfg(feature = "schema")]
pub fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
