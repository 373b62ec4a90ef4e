//! The segment size of the other end, as a receiver finds it out.

use std::mem;

use crate::packet::{Flags, Packet, TcpBits};
use crate::units::ETHERNET_HEADER;

/// What is supposed before the first segment, and the least that a segment may be (Linux
/// `TCP_MSS_DEFAULT`, `TCP_MIN_MSS`).
const DEFAULT: u32 = 536;
const LEAST: u32 = 88;
/// Bytes of IP's header, of TCP's without options, and with the timestamps that every segment has.
const IP: u32 = 20;
const TCP: u32 = 20;
const TCP_WITH_TIMESTAMPS: u32 = TCP + 12;

/// Which number of bytes is a full segment: more than one is acknowledged at once, and so is a smaller one
/// as soon as it is read (Linux `tcp_measure_rcv_mss`, `tcp_cleanup_rbuf`).
#[derive(Clone, Debug)]
pub(super) struct SegmentSize {
    /// Bytes.
    pub estimate: u32,
    /// What the segment before was taken for if it was smaller, else 0. Two alike make the estimate; options
    /// other than the timestamps count, as they might be SACK blocks that make room for themselves.
    smaller: u32,
}

impl SegmentSize {
    pub fn new() -> SegmentSize {
        SegmentSize { estimate: DEFAULT, smaller: 0 }
    }

    /// Takes a segment; whether it is smaller than a full one.
    #[inline(always)]
    pub fn measure(&mut self, pkt: &Packet) -> bool {
        let payload = u32::from(pkt.payload);
        if payload < self.estimate {
            return self.measure_smaller(pkt);
        }
        self.estimate = payload;
        self.smaller = 0;
        false
    }

    #[cold]
    fn measure_smaller(&mut self, pkt: &Packet) -> bool {
        let before = mem::take(&mut self.smaller);
        let len = u32::from(pkt.frame_len) - ETHERNET_HEADER - IP;
        let is_last = pkt.bits.has(TcpBits::PSH) || pkt.flags.has(Flags::FIN);
        if len >= DEFAULT + TCP || (len >= LEAST + TCP && !is_last) {
            self.smaller = len - TCP_WITH_TIMESTAMPS;
            if self.smaller == before {
                self.estimate = before;
                return false;
            }
        }
        true
    }
}
