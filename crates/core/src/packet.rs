//! The packet of the simulator: a small `Copy` value that moves through ring buffers.

use crate::ecn::Ecn;
use crate::time::{Span, Time};
use crate::units::ETHERNET_HEADER;

/// Number of a flow within a run (a group of `count = n` flows has n of them).
pub type FlowId = u32;
/// Whose a packet is.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupId {
    /// Number of the flow group: one `[[flow]]` table of the experiment file.
    pub number: u16,
    /// The account that counts it: of the whole group, or of its flow only.
    pub account: u16,
}

/// IP and TCP headers with the timestamp option: every data segment and ACK carries them.
pub const TCP_IP_HEADERS: u32 = 20 + 20 + 12;
/// IP header, TCP header and 20 bytes of options (MSS, SACK permitted, timestamps, window scale).
pub const SYN_FRAME: u32 = ETHERNET_HEADER + 20 + 20 + 20;
/// A pure ACK without SACK or AccECN options.
pub const ACK_FRAME: u32 = ETHERNET_HEADER + TCP_IP_HEADERS;
/// IP and UDP headers.
pub const UDP_IP_HEADERS: u32 = 20 + 8;

/// Bit set of what a packet is.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Flags(pub u16);

impl Flags {
    pub const DATA: Flags = Flags(1);
    /// Travels from receiver to sender.
    pub const ACK: Flags = Flags(1 << 1);
    pub const SYN: Flags = Flags(1 << 2);
    /// Sent before (Karn's algorithm needs no flag on the wire; statistics do).
    pub const RETRANSMISSION: Flags = Flags(1 << 3);
    /// The ACK carries the AccECN option's byte counters.
    pub const ACCECN_OPTION: Flags = Flags(1 << 4);
    /// The ACK's first SACK block is a D-SACK (RFC 2883).
    pub const DSACK: Flags = Flags(1 << 5);
    pub const UDP: Flags = Flags(1 << 6);
    /// The last segment of a transfer.
    pub const FIN: Flags = Flags(1 << 7);
    /// A bit was flipped on the way: the receiver's checksum finds out.
    pub const CORRUPT: Flags = Flags(1 << 8);
    /// An application's message to the sender of the data, apart from the connection.
    pub const MESSAGE: Flags = Flags(1 << 9);
    /// Payload that came to the network before measuring began.
    pub const WARMUP: Flags = Flags(1 << 10);
    /// There is another one like it.
    pub const COPIED: Flags = Flags(1 << 11);
    /// Several segments in one packet, see [`crate::offload`].
    pub const SUPER: Flags = Flags(1 << 12);
    /// In a tunnel, see [`crate::net::tunnel`]: flow, number, length, DSCP and ECN field are those of the outer packet.
    pub const TUNNELLED: Flags = Flags(1 << 13);
    /// The next segment of the same packet came with it, see [`crate::offload::segments`].
    pub const FOLLOWED: Flags = Flags(1 << 14);

    #[inline]
    pub const fn has(self, f: Flags) -> bool {
        self.0 & f.0 != 0
    }
    #[inline]
    pub const fn with(self, f: Flags) -> Flags {
        Flags(self.0 | f.0)
    }
    #[inline]
    pub const fn without(self, f: Flags) -> Flags {
        Flags(self.0 & !f.0)
    }
}

/// The three TCP header bits that RFC 3168 calls (NS,) CWR and ECE, and AccECN the ACE field.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct TcpBits(pub u8);

impl TcpBits {
    pub const ECE: TcpBits = TcpBits(0b001);
    pub const CWR: TcpBits = TcpBits(0b010);
    pub const AE: TcpBits = TcpBits(0b100);
    /// The same bit with SCE, on ACKs of a connection with RFC 3168 feedback.
    pub const ESCE: TcpBits = TcpBits::AE;
    /// Not one of the three: push, on the last segment of a burst.
    pub const PSH: TcpBits = TcpBits(0b1000);
    #[inline]
    pub const fn has(self, b: TcpBits) -> bool {
        self.0 & b.0 != 0
    }
    #[inline]
    pub const fn with(self, b: TcpBits) -> TcpBits {
        TcpBits(self.0 | b.0)
    }
    #[inline]
    pub const fn without(self, b: TcpBits) -> TcpBits {
        TcpBits(self.0 & !b.0)
    }
}

/// Byte counters of the AccECN option, modulo 2^24 as on the wire (RFC 9768, 3.2.3).
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct EcnBytes {
    pub ect0: u32,
    pub ce: u32,
    pub ect1: u32,
}

/// Names SACK blocks in the simulation's side store: they are rare and would double the packet.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct SackSlot(pub u32);

impl SackSlot {
    pub const NONE: SackSlot = SackSlot(u32::MAX);
    #[inline]
    pub fn is_some(self) -> bool {
        self != SackSlot::NONE
    }
}

/// A segment that is older than the newest timestamp of its side by no more than this is not old
/// (milliseconds, Linux `TCP_PAWS_WINDOW`; RFC 7323 has 0).
pub const PAWS_WINDOW: i32 = 1;

/// A timestamp as it is on the wire, in milliseconds (Linux `TCP_TS_HZ`). It wraps after 49 days.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Stamp(u32);

impl Stamp {
    #[inline]
    pub fn of(t: Time) -> Stamp {
        Stamp((t.0 / 1_000_000) as u32)
    }
    /// Its value, in milliseconds.
    pub const fn millis(self) -> u32 {
        self.0
    }
    /// Milliseconds by which this is older than `other`; negative if it is newer.
    #[inline]
    pub fn older_than(self, other: Stamp) -> i32 {
        other.0.wrapping_sub(self.0) as i32
    }
}

/// The ECN field of a packet, and whether a queue has made it ECT(1): then that is an SCE mark, not the
/// sender's codepoint.
#[derive(Copy, Clone, Debug)]
pub struct EcnField(u8);

impl EcnField {
    const SCE: u8 = 0b100;

    #[inline(always)]
    pub const fn get(self) -> Ecn {
        match self.0 & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
    /// The actions of queues on it are remembered.
    #[inline]
    pub fn set(&mut self, ecn: Ecn) {
        self.0 = self.0 & EcnField::SCE | ecn.bits();
    }
    #[inline]
    pub fn mark_sce(&mut self) {
        self.0 = EcnField::SCE | Ecn::Ect1.bits();
    }
    #[inline(always)]
    pub fn is_sce(self) -> bool {
        self.0 == EcnField::SCE | Ecn::Ect1.bits()
    }
}

impl From<Ecn> for EcnField {
    #[inline(always)]
    fn from(ecn: Ecn) -> EcnField {
        EcnField(ecn.bits())
    }
}
impl PartialEq<Ecn> for EcnField {
    #[inline(always)]
    fn eq(&self, ecn: &Ecn) -> bool {
        self.0 & 0b11 == ecn.bits()
    }
}

/// A packet. Segments are numbered, not bytes: segment n is the n-th that the sender cut. Each carries its
/// `payload`, so segments may differ in size.
///
/// Links copy it twice, and a copy should be four moves of 16 bytes. Therefore every bit pattern of a field is
/// valid (an `Option` in a niche would need a check), and the fields that queues read are last, without gaps.
#[derive(Copy, Clone, Debug)]
#[repr(C)]
pub struct Packet {
    /// Arrival at the queue it is in, or at the element that it is under way to.
    pub enqueued_at: Time,
    /// Timestamp option: when data was sent (its TSval, finer than on the wire), TSecr of an ACK.
    pub stamp: Time,
    /// Payload: nanoseconds spent in the elements of links so far. Others: one more than the number of their SACK slot.
    /// No packet needs both.
    waited_or_sack: u64,
    /// Data: number of the segment. ACK: the next segment expected.
    pub seq: u32,
    pub flow: FlowId,
    pub ecn_bytes: EcnBytes,
    /// The receiver's clock as on the wire: TSval of an ACK, TSecr of data.
    pub tsval: Stamp,
    /// Transport payload, bytes.
    pub payload: u16,
    /// Receive window that an ACK of data offers, KiB.
    pub window: u16,
    pub group: GroupId,
    pub flags: Flags,
    pub bits: TcpBits,
    /// How many elements of its path it has passed.
    pub hop: u8,
    /// Differentiated Services codepoint.
    pub dscp: u8,
    pub ecn: EcnField,
    /// Ethernet frame without FCS, bytes.
    pub frame_len: u16,
}

/// A packet is a cache line, and all of it is used.
const _: () = assert!(size_of::<Packet>() == 64 && size_of::<Option<Packet>>() > 64);

impl Packet {
    /// An empty packet of `flow`, to be filled in.
    pub fn new(flow: FlowId, group: GroupId, flags: Flags, frame_len: u32, ecn: Ecn) -> Packet {
        Packet {
            enqueued_at: Time::ZERO,
            stamp: Time::ZERO,
            waited_or_sack: 0,
            seq: 0,
            flow,
            ecn_bytes: EcnBytes::default(),
            tsval: Stamp::default(),
            flags,
            payload: 0,
            window: 0,
            group,
            bits: TcpBits::default(),
            hop: 0,
            dscp: 0,
            ecn: ecn.into(),
            frame_len: frame_len as u16,
        }
    }
    /// Is it a packet whose fate is a flow's statistics? (ACKs and handshakes are not.)
    #[inline(always)]
    pub fn is_payload(&self) -> bool {
        self.flags.has(Flags::DATA.with(Flags::UDP)) && self.payload > 0
    }
    /// The place of its SACK blocks.
    #[inline(always)]
    pub fn sack(&self) -> SackSlot {
        if self.is_payload() { SackSlot::NONE } else { self.sack_of_ack() }
    }
    /// The same of a packet that is known not to be payload.
    #[inline(always)]
    pub fn sack_of_ack(&self) -> SackSlot {
        SackSlot((self.waited_or_sack as u32).wrapping_sub(1))
    }
    /// Of an ACK.
    #[inline]
    pub fn set_sack(&mut self, slot: SackSlot) {
        debug_assert!(!self.is_payload(), "payload has no SACK blocks");
        self.waited_or_sack = u64::from(slot.0.wrapping_add(1));
    }
    /// Time that payload has spent in the elements of links so far.
    #[inline]
    pub fn waited(&self) -> Span {
        Span(if self.is_payload() { self.waited_or_sack } else { 0 })
    }
    /// Payload has spent this time in a link.
    #[inline]
    pub fn add_wait(&mut self, time: Span) {
        if self.is_payload() {
            self.waited_or_sack += time.0;
        }
    }
    /// It comes to the network before measuring begins.
    pub fn set_of_warmup(&mut self) {
        if self.is_payload() {
            self.flags = self.flags.with(Flags::WARMUP);
        }
    }
    /// Travels from receiver to sender.
    #[inline(always)]
    pub fn is_ack(&self) -> bool {
        self.flags.has(Flags::ACK)
    }
}
