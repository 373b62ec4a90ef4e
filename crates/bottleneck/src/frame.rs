//! Packets as bytes: what a TUN device or a network card with virtio headers gives, split into the packets of the wire, and
//! the reverse.
//!
//! A [`Unit`] is what one read gave: a packet, or a super-packet of up to 64 KiB that the sender's kernel would have split
//! (TSO, USO). A [`Segment`] is one packet of the wire and points into it, so payload is never copied again. Headers
//! are written when a packet leaves, with the ECN field that the queues gave it.

use std::ops::Range;
use std::rc::Rc;

use l4slab_core::ecn::Ecn;
use l4slab_core::packet::{Flags, GroupId, Packet, Stamp, TcpBits};
use l4slab_core::time::Time;
use l4slab_core::units::ETHERNET_HEADER;

/// `struct virtio_net_hdr`.
pub const VNET: usize = 10;
const NEEDS_CSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

const TCP: u8 = 6;
const UDP: u8 = 17;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const URG: u8 = 0x20;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;

/// IPv4 or IPv6 and TCP, each with all its options.
pub const MOST_HEADERS: usize = 128;
/// A super-packet is not longer than an IP packet can be.
const MOST_JOINED: usize = 65_000;

/// Ethernet with up to two VLAN tags.
pub const MOST_LINK: usize = 22;
const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
pub const VLAN: u16 = 0x8100;
const PROVIDER_VLAN: u16 = 0x88a8;

/// One read of a TUN device or a network card.
#[derive(Debug)]
pub struct Unit {
    /// Without the header of the link.
    bytes: Box<[u8]>,
    /// That header, of a network card.
    link: [u8; MOST_LINK],
    link_length: usize,
    /// Neither IPv4 nor IPv6: it is passed on as it is.
    is_opaque: bool,
    /// CWR is of the first segment only (RFC 3168).
    cwr_once: bool,
    is_v6: bool,
    /// TCP, UDP, or 0 of what is passed on as it is.
    transport: u8,
    /// Length of the IP header, and of it with the transport header.
    ip: usize,
    headers: usize,
    /// Payload of all segments but the last.
    mss: usize,
    /// How many packets of the wire it is.
    pub segments: u16,
    /// The checksum is the pseudo header's sum so far, and where the virtio header says it belongs.
    checksum: Option<(u16, u16)>,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// The same where there may be none.
fn u16_from(bytes: &[u8], at: usize) -> Option<u16> {
    (bytes.len() >= at + 2).then(|| u16_at(bytes, at))
}

/// One's complement sum, with `carry` from before.
fn sum(bytes: &[u8], carry: u32) -> u32 {
    let mut sum = u64::from(carry);
    let mut chunks = bytes.chunks_exact(4);
    for four in &mut chunks {
        sum += u64::from(u32::from_be_bytes([four[0], four[1], four[2], four[3]]));
    }
    let rest = chunks.remainder();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum += u64::from(u32::from_be_bytes(last));
    while sum >> 16 > 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u32
}

impl Unit {
    /// Reads a virtio header and the IP packet behind it; `None` of what is no IP packet.
    pub fn parse(vnet: &[u8; VNET], packet: &[u8]) -> Option<Unit> {
        let version = packet.first()? >> 4;
        let is_v6 = version == 6;
        let ip = if is_v6 { 40 } else { usize::from(packet[0] & 15) * 4 };
        if !matches!(version, 4 | 6) || ip < 20 || packet.len() < ip {
            return None;
        }
        let protocol = if is_v6 { packet[6] } else { packet[9] };
        let is_fragment = !is_v6 && u16_at(packet, 6) & 0x3fff != 0;
        let mut unit = Unit {
            is_opaque: false,
            is_v6,
            ip,
            headers: ip,
            mss: packet.len() - ip,
            cwr_once: vnet[1] & GSO_ECN != 0,
            ..Unit::opaque(packet)
        };
        let headers = match protocol {
            TCP if packet.len() >= ip + 20 && packet[ip + 12] >> 4 >= 5 => {
                ip + usize::from(packet[ip + 12] >> 4) * 4
            }
            UDP if packet.len() >= ip + 8 => ip + 8,
            _ => 0,
        };
        if !is_fragment && headers > ip && headers <= packet.len().min(MOST_HEADERS) {
            (unit.transport, unit.headers) = (protocol, headers);
            unit.mss = packet.len() - headers;
        }
        let word = |at| u16::from_ne_bytes([vnet[at], vnet[at + 1]]);
        let (start, offset) = (word(6), word(8));
        let is_inside = usize::from(start) + usize::from(offset) + 2 <= packet.len();
        if vnet[0] & NEEDS_CSUM != 0 && is_inside {
            unit.checksum = Some((start, offset));
        }
        let size = usize::from(word(4));
        if vnet[1] & !GSO_ECN != 0 && unit.transport != 0 && size > 0 {
            let payload = packet.len() - headers;
            unit.mss = size.min(payload);
            unit.segments = payload.div_ceil(size).max(1) as u16;
            // Cut out of it, each needs its own.
            let place = (ip as u16, if unit.transport == TCP { 16 } else { 6 });
            unit.checksum = unit.checksum.or(Some(place));
        }
        Some(unit)
    }

    /// What is passed on as it is.
    fn opaque(packet: &[u8]) -> Unit {
        Unit {
            bytes: packet.into(),
            link: [0; MOST_LINK],
            link_length: 0,
            is_opaque: true,
            cwr_once: false,
            is_v6: false,
            transport: 0,
            ip: 0,
            headers: 0,
            mss: packet.len(),
            segments: 1,
            checksum: None,
        }
    }

    /// Reads a virtio header and the Ethernet frame behind it; `None` of what is too short for one.
    pub fn parse_frame(vnet: &[u8; VNET], frame: &[u8]) -> Option<Unit> {
        let mut at = 12;
        while at + 6 <= MOST_LINK && matches!(u16_from(frame, at)?, VLAN | PROVIDER_VLAN) {
            at += 4;
        }
        let (kind, length) = (u16_from(frame, at)?, at + 2);
        let packet = &frame[length..];
        let mut vnet = *vnet;
        // Sums are counted from the frame's beginning.
        match u16::from_ne_bytes([vnet[6], vnet[7]]).checked_sub(length as u16) {
            Some(start) => vnet[6..8].copy_from_slice(&start.to_ne_bytes()),
            None => vnet[0] &= !NEEDS_CSUM,
        }
        let version = packet.first().map(|byte| byte >> 4);
        let said = match (kind, version) {
            (IPV4, Some(4)) => u16_from(packet, 2).map(usize::from),
            (IPV6, Some(6)) => u16_from(packet, 4).map(|payload| usize::from(payload) + 40),
            _ => None,
        };
        let is_whole = vnet[1] & !GSO_ECN == 0;
        let unit = said.and_then(|said| {
            // Ethernet fills short frames up.
            let end = if is_whole && said >= 20 { said.min(packet.len()) } else { packet.len() };
            Unit::parse(&vnet, &packet[..end])
        });
        let mut unit = unit.unwrap_or_else(|| Unit::opaque(packet));
        unit.link[..length].copy_from_slice(&frame[..length]);
        unit.link_length = length;
        Some(unit)
    }

    /// The header of the link; of a TUN device there is none.
    pub fn link(&self) -> &[u8] {
        &self.link[..self.link_length]
    }

    /// The destination address and port of a UDP datagram over IPv4, and its payload.
    pub fn datagram(&self) -> Option<([u8; 4], u16, &[u8])> {
        let is_plain = self.transport == UDP && !self.is_v6 && self.segments == 1;
        let to = self.bytes.get(16..20)?.try_into().ok()?;
        is_plain.then(|| (to, u16_at(&self.bytes, self.ip + 2), &self.bytes[self.headers..]))
    }

    fn payload(&self, k: u16) -> Range<usize> {
        let from = self.headers + usize::from(k) * self.mss;
        from..(from + self.mss).min(self.bytes.len())
    }

    fn traffic_class(&self) -> u8 {
        let b = &self.bytes;
        match (self.is_opaque, self.is_v6) {
            (true, _) => 0,
            (_, true) => b[0] << 4 | b[1] >> 4,
            (_, false) => b[1],
        }
    }

    /// The flags of TCP on the wire: FIN and PSH are of the last segment.
    fn flags(&self, k: u16) -> u8 {
        let mut flags = self.bytes[self.ip + 13];
        if self.cwr_once && k > 0 {
            flags &= !CWR;
        }
        if k + 1 < self.segments { flags & !(FIN | PSH) } else { flags }
    }
    fn sequence(&self, k: u16) -> u32 {
        u32_at(&self.bytes, self.ip + 4).wrapping_add(u32::from(k) * self.mss as u32)
    }

    /// The same for all packets of a connection and direction, in 31 bits.
    fn flow(&self) -> u32 {
        let b = &self.bytes;
        let mut h = 0x811c_9dc5_u32 ^ u32::from(self.transport);
        let mut add = |bytes: &[u8]| {
            for byte in bytes {
                h = (h ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
            }
        };
        add(match (self.is_opaque, self.is_v6) {
            (true, _) => self.link(),
            (_, true) => &b[8..40],
            (_, false) => &b[12..20],
        });
        if self.transport != 0 {
            add(&b[self.ip..self.ip + 4]);
        }
        // The top bit has a meaning in the simulator, and the low bits of FNV are not good enough.
        (h ^ (h >> 15)).wrapping_mul(0x2c1b_3c6d) >> 1
    }

    /// Protocol, ports, and how it opens: the flags of TCP, or the first byte of a datagram.
    pub fn ends(&self) -> Ends {
        if self.transport == 0 {
            return Ends::default();
        }
        let b = &self.bytes;
        let opening = if self.transport == TCP { self.ip + 13 } else { self.headers };
        Ends {
            protocol: self.transport,
            ports: [u16_at(b, self.ip), u16_at(b, self.ip + 2)],
            opening: b.get(opening).copied().unwrap_or(0),
        }
    }

    /// The segment as the queues see it; `is_back`: from the server's side.
    pub fn packet(&self, k: u16, group: u16, is_back: bool) -> Packet {
        let payload = self.payload(k).len();
        let length = self.link_length.max(ETHERNET_HEADER as usize) + self.headers + payload;
        let class = self.traffic_class();
        let direction = if is_back { Flags::ACK } else { Flags(0) };
        let ecn = Ecn::from_bits(class);
        let group = GroupId { number: group, account: 0 };
        let mut pkt = Packet::new(self.flow(), group, direction, length as u32, ecn);
        pkt.dscp = class >> 2;
        let plain = match self.transport {
            TCP => self.read_tcp(k, &mut pkt),
            UDP => {
                pkt.flags = pkt.flags.with(Flags::UDP);
                pkt.payload = payload as u16;
                false
            }
            _ => {
                pkt.flags = pkt.flags.with(Flags::UDP);
                false
            }
        };
        if !plain {
            // No filter of ACKs may touch it.
            pkt.flags = pkt.flags.with(Flags::MESSAGE);
        }
        pkt
    }

    /// What the simulator's packet has of a TCP header; whether it has no flags but ACK, ECE and CWR, and no options
    /// but time stamps.
    fn read_tcp(&self, k: u16, pkt: &mut Packet) -> bool {
        let b = &self.bytes;
        let flags = self.flags(k);
        pkt.payload = self.payload(k).len() as u16;
        if pkt.payload > 0 {
            pkt.flags = pkt.flags.with(Flags::DATA);
        }
        for (bit, flag) in [(SYN, Flags::SYN), (FIN, Flags::FIN)] {
            if flags & bit != 0 {
                pkt.flags = pkt.flags.with(flag);
            }
        }
        let accecn = b[self.ip + 12] & 1 != 0;
        let bits = [
            (flags & ECE != 0, TcpBits::ECE),
            (flags & CWR != 0, TcpBits::CWR),
            (accecn, TcpBits::AE),
        ];
        for (_, bit) in bits.iter().filter(|(is_set, _)| *is_set) {
            pkt.bits = pkt.bits.with(*bit);
        }
        pkt.seq = if pkt.is_ack() { u32_at(b, self.ip + 8) } else { self.sequence(k) };
        let mut plain = flags & !(ACK | ECE | CWR) == 0 && flags & ACK != 0;
        let mut options = &b[self.ip + 20..self.headers];
        while let [kind, rest @ ..] = options {
            let length = match kind {
                0 => break,
                1 => 1,
                _ => rest.first().map_or(options.len(), |n| usize::from(*n).max(2)),
            };
            match kind {
                1 => {}
                8 if length == 10 && options.len() >= 10 => {
                    let millis = |at| Time(u64::from(u32_at(options, at)) * 1_000_000);
                    (pkt.tsval, pkt.stamp) = (Stamp::of(millis(2)), millis(6));
                }
                _ => plain = false,
            }
            options = options.get(length..).unwrap_or_default();
        }
        plain
    }
}

/// What tells connections apart, apart from the addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// 0: neither TCP nor UDP.
    pub protocol: u8,
    pub ports: [u16; 2],
    pub opening: u8,
}

/// Sets the ECN field of an IP header with a right checksum.
pub fn set_ecn(ip: &mut [u8], ecn: u8) {
    if ip[0] >> 4 == 6 {
        ip[1] = ip[1] & 0xcf | ecn << 4;
        return;
    }
    let before = u16_at(ip, 0);
    ip[1] = ip[1] & 0xfc | ecn;
    // RFC 1624, equation 3.
    let mut sum = u32::from(!u16_at(ip, 10)) + u32::from(!before) + u32::from(u16_at(ip, 0));
    while sum >> 16 > 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    put16(ip, 10, !(sum as u16));
}

/// One packet of the wire.
#[derive(Clone, Debug)]
pub struct Segment {
    pub unit: Rc<Unit>,
    pub k: u16,
}

/// One write: consecutive segments of one flow, with the fields that queues may change.
#[derive(Debug)]
pub struct Train {
    first: Segment,
    last: Segment,
    class: u8,
    length: usize,
    flags: u8,
    pub count: usize,
}

/// A packet's Differentiated Services and ECN fields.
fn class_of(pkt: &Packet) -> u8 {
    pkt.dscp << 2 | pkt.ecn.get().bits()
}

impl Train {
    pub fn new(first: &Segment, pkt: &Packet) -> Train {
        let flags = if first.unit.transport == TCP { first.unit.flags(first.k) } else { 0 };
        Train {
            length: first.unit.payload(first.k).len(),
            class: class_of(pkt),
            flags,
            last: first.clone(),
            first: first.clone(),
            count: 1,
        }
    }

    /// Whether others may follow the first one at all. Never CE: the receiver's kernel counts a super-packet as one packet,
    /// which would falsify AccECN.
    pub fn is_open(&self, pkt: &Packet) -> bool {
        let unit = &self.first.unit;
        let ends = match unit.transport {
            TCP => self.flags & (SYN | RST | URG | CWR | FIN | PSH) != 0 || self.flags & ACK == 0,
            UDP => false,
            _ => true,
        };
        let is_plain = unit.is_v6 || unit.ip == 20;
        is_plain
            && !ends
            && self.length > 0
            && unit.checksum.is_some()
            && pkt.ecn != Ecn::Ce
            && !pkt.flags.has(Flags::CORRUPT)
    }

    /// Takes `next` along if the receiver could have got it as a part of the same super-packet.
    pub fn join(&mut self, next: &Segment, pkt: &Packet) -> bool {
        let (a, b) = (&self.first.unit, &next.unit);
        let mss = self.first.unit.payload(self.first.k).len();
        let length = b.payload(next.k).len();
        let fits = length > 0 && length <= mss && self.length + length <= MOST_JOINED;
        // A short one ends a super-packet.
        let is_full = self.length == mss * self.count;
        let is_same = class_of(pkt) == self.class && !pkt.flags.has(Flags::CORRUPT);
        if !(fits && is_full && is_same) || b.checksum.is_none() {
            return false;
        }
        let is_next = Rc::ptr_eq(&self.last.unit, b) && next.k == self.last.k + 1;
        if !(is_next || a.is_of_flow(b) && self.continues(next)) {
            return false;
        }
        if b.transport == TCP {
            let flags = b.flags(next.k);
            if self.flags & (PSH | FIN) != 0 || flags & !(PSH | FIN) != self.flags {
                return false;
            }
            self.flags |= flags & (PSH | FIN);
        }
        self.last = next.clone();
        self.length += length;
        self.count += 1;
        true
    }

    fn continues(&self, next: &Segment) -> bool {
        let from = self.first.unit.sequence(self.first.k).wrapping_add(self.length as u32);
        next.unit.transport != TCP || next.unit.sequence(next.k) == from
    }

    /// Where the payload of a segment is.
    pub fn payload(segment: &Segment) -> &[u8] {
        &segment.unit.bytes[segment.unit.payload(segment.k)]
    }

    /// Writes the virtio header and the headers of the packet; returns the length of the latter.
    pub fn write_headers(&self, vnet: &mut [u8; VNET], out: &mut [u8; MOST_HEADERS]) -> usize {
        let unit = &self.first.unit;
        let headers = unit.headers;
        let h = &mut out[..headers];
        h.copy_from_slice(&unit.bytes[..headers]);
        *vnet = [0; VNET];
        let mut put = |at: usize, value: usize| {
            vnet[at..at + 2].copy_from_slice(&(value as u16).to_ne_bytes());
        };
        if let Some((start, offset)) = unit.checksum {
            put(6, usize::from(start) + unit.link_length);
            put(8, usize::from(offset));
        }
        if self.count > 1 {
            put(2, headers + unit.link_length);
            put(4, unit.payload(self.first.k).len());
            vnet[1] = match (unit.transport, unit.is_v6) {
                (UDP, _) => GSO_UDP_L4,
                (_, false) => GSO_TCPV4,
                (_, true) => GSO_TCPV6,
            };
        }
        if unit.checksum.is_some() {
            vnet[0] = NEEDS_CSUM;
        }
        if unit.is_opaque {
            return 0;
        }
        if unit.is_v6 {
            h[0] = 0x60 | self.class >> 4;
            h[1] = h[1] & 0x0f | self.class << 4;
        } else {
            h[1] = self.class;
        }
        if unit.segments > 1 || self.count > 1 {
            self.write_segment(h);
        }
        if !unit.is_v6 {
            put16(h, 10, 0);
            let sum = !(sum(&h[..unit.ip], 0) as u16);
            put16(h, 10, sum);
        }
        headers
    }

    /// Lengths, numbers, flags and the pseudo header's sum of a packet that was cut out or put together.
    fn write_segment(&self, h: &mut [u8]) {
        let unit = &self.first.unit;
        let l4 = unit.headers - unit.ip + self.length;
        if unit.is_v6 {
            put16(h, 4, l4 as u16);
        } else {
            put16(h, 2, (unit.ip + l4) as u16);
            put16(h, 4, u16_at(&unit.bytes, 4).wrapping_add(self.first.k));
        }
        let checksum = if unit.transport == TCP {
            let sequence = unit.sequence(self.first.k);
            h[unit.ip + 4..unit.ip + 8].copy_from_slice(&sequence.to_be_bytes());
            h[unit.ip + 13] = self.flags;
            unit.ip + 16
        } else {
            put16(h, unit.ip + 4, l4 as u16);
            unit.ip + 6
        };
        put16(h, checksum, pseudo(h, unit, l4));
    }

    /// The headers with complete checksums, for a train of one.
    pub fn complete_headers(&self) -> Vec<u8> {
        let mut all = self.complete();
        all.truncate(self.first.unit.headers);
        all
    }

    /// The whole packet with a flipped bit behind a complete checksum, for a train of one.
    pub fn corrupted(&self) -> Vec<u8> {
        let mut all = self.complete();
        *all.last_mut().expect("it has a header") ^= 1;
        all
    }

    /// The whole packet with complete checksums.
    fn complete(&self) -> Vec<u8> {
        let (mut vnet, mut headers) = ([0; VNET], [0; MOST_HEADERS]);
        let length = self.write_headers(&mut vnet, &mut headers);
        let mut all = [&headers[..length], Train::payload(&self.first)].concat();
        if let Some((start, offset)) = self.first.unit.checksum {
            let (start, at) = (usize::from(start), usize::from(start + offset));
            let sum = !(sum(&all[start..], 0) as u16);
            put16(&mut all, at, if sum == 0 { 0xffff } else { sum });
        }
        all
    }
}

impl Unit {
    /// Whether both have the same headers, but for numbers, lengths and what the queues may change.
    fn is_of_flow(&self, other: &Unit) -> bool {
        let (a, b, ip) = (&self.bytes, &other.bytes, self.ip);
        let is_alike = self.link() == other.link()
            && (self.is_v6, self.transport, ip, self.headers)
                == (other.is_v6, other.transport, other.ip, other.headers);
        if !is_alike || self.transport == 0 {
            return false;
        }
        let of_ip = match self.is_v6 {
            true => a[1] & 15 == b[1] & 15 && a[2..4] == b[2..4] && a[6..40] == b[6..40],
            false => a[6..10] == b[6..10] && a[12..20] == b[12..20],
        };
        let of_tcp = self.transport != TCP
            || a[ip + 8..ip + 13] == b[ip + 8..ip + 13]
                && a[ip + 14..ip + 16] == b[ip + 14..ip + 16]
                && a[ip + 18..self.headers] == b[ip + 18..self.headers];
        of_ip && a[ip..ip + 4] == b[ip..ip + 4] && of_tcp
    }
}

/// The sum of the pseudo header, as a kernel leaves it for a card.
fn pseudo(h: &[u8], unit: &Unit, l4: usize) -> u16 {
    let addresses = if unit.is_v6 { &h[8..40] } else { &h[12..20] };
    let rest = [0, unit.transport, (l4 >> 8) as u8, l4 as u8];
    sum(&rest, sum(addresses, 0)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TCP super-packet over IPv4 or IPv6 with time stamps, as a kernel hands it over.
    fn super_packet(is_v6: bool, payload: usize, mss: usize, flags: u8) -> (Vec<u8>, [u8; VNET]) {
        let ip = if is_v6 { 40 } else { 20 };
        let mut p = vec![0; ip + 32 + payload];
        if is_v6 {
            p[..8].copy_from_slice(&[0x60, 0x10, 0, 1, 0, 0, TCP, 64]);
            put16(&mut p, 4, (32 + payload) as u16);
            (8..40).for_each(|i| p[i] = i as u8);
        } else {
            p[..2].copy_from_slice(&[0x45, 1]);
            put16(&mut p, 2, (52 + payload) as u16);
            put16(&mut p, 4, 65_535);
            (p[6], p[8], p[9]) = (0x40, 64, TCP);
            (12..20).for_each(|i| p[i] = i as u8);
        }
        put16(&mut p, ip, 1000);
        put16(&mut p, ip + 2, 2000);
        p[ip + 4..ip + 8].copy_from_slice(&(u32::MAX - 1000).to_be_bytes());
        (p[ip + 12], p[ip + 13]) = (0x80, flags);
        p[ip + 20..ip + 24].copy_from_slice(&[1, 1, 8, 10]);
        (0..payload).for_each(|i| p[ip + 32 + i] = (i * 7 + i / 251) as u8);
        let mut vnet = [0; VNET];
        (vnet[0], vnet[1]) = (NEEDS_CSUM, if is_v6 { GSO_TCPV6 } else { GSO_TCPV4 });
        for (at, value) in [(2, ip + 32), (4, mss), (6, ip), (8, 16)] {
            vnet[at..at + 2].copy_from_slice(&(value as u16).to_ne_bytes());
        }
        (p, vnet)
    }

    /// The bytes of a train on the wire, with its checksum completed as a card does.
    fn wire(train: &Train, segments: &[Segment]) -> (Vec<u8>, [u8; VNET]) {
        let (mut vnet, mut headers) = ([0; VNET], [0; MOST_HEADERS]);
        let length = train.write_headers(&mut vnet, &mut headers);
        let mut all = headers[..length].to_vec();
        segments.iter().for_each(|segment| all.extend(Train::payload(segment)));
        (all, vnet)
    }

    /// Whether all checksums of a packet are right once the card has completed the one of TCP.
    fn verify(packet: &[u8], is_v6: bool) {
        let ip = if is_v6 { 40 } else { 20 };
        if !is_v6 {
            assert_eq!(sum(&packet[..20], 0), 0xffff, "the IP header");
        }
        let length = packet.len() - ip;
        let unit = Unit::parse(&[0; VNET], packet).unwrap();
        assert_eq!(u16_at(packet, ip + 16), pseudo(packet, &unit, length), "the pseudo header");
        let said = if is_v6 { u16_at(packet, 4) as usize + 40 } else { u16_at(packet, 2).into() };
        assert_eq!(said, packet.len());
    }

    #[test]
    fn frames_keep_the_header_of_their_link() {
        for is_v6 in [false, true] {
            for tag in [&[][..], &[0x81, 0x00, 0x20, 0x05]] {
                let (packet, mut vnet) = super_packet(is_v6, 3000, 1400, ACK | CWR);
                let kind = if is_v6 { IPV6 } else { IPV4 };
                let link = [&[2; 12][..], tag, &kind.to_be_bytes()].concat();
                let start = u16::from_ne_bytes([vnet[6], vnet[7]]) + link.len() as u16;
                vnet[6..8].copy_from_slice(&start.to_ne_bytes());
                vnet[1] |= GSO_ECN;
                let frame = [&link[..], &packet].concat();
                let unit = Rc::new(Unit::parse_frame(&vnet, &frame).unwrap());
                assert_eq!((unit.segments, unit.link()), (3, &link[..]));
                for k in 0..3 {
                    let segment = Segment { unit: Rc::clone(&unit), k };
                    let pkt = unit.packet(k, 0, false);
                    assert_eq!(pkt.bits.has(TcpBits::CWR), k == 0);
                    let (bytes, said) = wire(&Train::new(&segment, &pkt), &[segment]);
                    assert_eq!(usize::from(pkt.frame_len), link.len() + bytes.len());
                    assert_eq!(u16::from_ne_bytes([said[6], said[7]]), start);
                    verify(&bytes, is_v6);
                }
            }
        }
        // ARP, and what Ethernet has filled up.
        let arp = [&[0xff; 12][..], &[8, 6], &[7; 46]].concat();
        let unit = Unit::parse_frame(&[0; VNET], &arp).unwrap();
        let segment = Segment { unit: Rc::new(unit), k: 0 };
        let pkt = segment.unit.packet(0, 0, false);
        assert_eq!((pkt.frame_len, pkt.ecn.get()), (60, Ecn::NotEct));
        let (bytes, _) = wire(&Train::new(&segment, &pkt), std::slice::from_ref(&segment));
        assert_eq!([segment.unit.link(), &bytes].concat(), arp);
        let (mut packet, _) = super_packet(false, 0, 1400, ACK);
        packet.resize(80, 0);
        let short = [&[2; 12][..], &[8, 0], &packet].concat();
        let unit = Unit::parse_frame(&[0; VNET], &short).unwrap();
        assert_eq!(unit.packet(0, 0, false).frame_len, 14 + 52);
        assert!(Unit::parse_frame(&[0; VNET], &short[..13]).is_none());
    }

    #[test]
    fn a_super_packet_becomes_packets_with_their_own_numbers_and_sums() {
        for is_v6 in [false, true] {
            let (bytes, vnet) = super_packet(is_v6, 3000, 1400, ACK | PSH);
            let unit = Rc::new(Unit::parse(&vnet, &bytes).unwrap());
            assert_eq!(unit.segments, 3);
            let (mut payload, ip) = (Vec::new(), unit.ip);
            for k in 0..3 {
                let segment = Segment { unit: Rc::clone(&unit), k };
                let mut pkt = unit.packet(k, 0, false);
                assert_eq!(
                    (pkt.ecn == Ecn::Ect1, pkt.payload),
                    (true, [1400, 1400, 200][k as usize])
                );
                pkt.ecn.set(Ecn::Ce);
                let (packet, vnet) = wire(&Train::new(&segment, &pkt), &[segment]);
                verify(&packet, is_v6);
                assert_eq!(vnet[..2], [NEEDS_CSUM, 0]);
                let class = if is_v6 { packet[1] >> 4 } else { packet[1] };
                assert_eq!(class & 3, 3);
                let number = (u32::MAX - 1000).wrapping_add(1400 * u32::from(k));
                assert_eq!(u32_at(&packet, ip + 4), number);
                assert_eq!(packet[ip + 13] & PSH != 0, k == 2);
                if !is_v6 {
                    assert_eq!(u16_at(&packet, 4), 65_535_u16.wrapping_add(k));
                }
                payload.extend_from_slice(&packet[ip + 32..]);
            }
            assert_eq!(payload, bytes[ip + 32..]);
        }
    }

    #[test]
    fn packets_of_one_flow_are_joined_again_but_not_across_marks() {
        for is_v6 in [false, true] {
            let (bytes, vnet) = super_packet(is_v6, 4200, 1400, ACK | PSH);
            let unit = Rc::new(Unit::parse(&vnet, &bytes).unwrap());
            let segments: Vec<_> = (0..3).map(|k| Segment { unit: Rc::clone(&unit), k }).collect();
            let pkts: Vec<_> = (0..3).map(|k| unit.packet(k, 0, false)).collect();
            let mut train = Train::new(&segments[0], &pkts[0]);
            assert!(train.is_open(&pkts[0]));
            assert!(train.join(&segments[1], &pkts[1]) && train.join(&segments[2], &pkts[2]));
            let (packet, vnet) = wire(&train, &segments);
            verify(&packet, is_v6);
            assert_eq!((packet[unit.ip + 13], vnet[1]), (ACK | PSH, if is_v6 { 4 } else { 1 }));
            assert_eq!(packet[unit.headers..], bytes[unit.headers..]);
            // A gap, a mark, and nothing behind PSH.
            let mut train = Train::new(&segments[0], &pkts[0]);
            assert!(!train.join(&segments[2], &pkts[2]));
            let mut marked = pkts[1];
            marked.ecn.set(Ecn::Ce);
            assert!(!train.join(&segments[1], &marked));
            assert!(!Train::new(&segments[1], &marked).is_open(&marked));
            assert!(!Train::new(&segments[2], &pkts[2]).is_open(&pkts[2]));
        }
    }

    #[test]
    fn what_follows_in_another_read_is_joined_if_it_continues() {
        let first = super_packet(false, 1400, 0, ACK);
        let mut second = super_packet(false, 1400, 0, ACK);
        let number = (u32::MAX - 1000).wrapping_add(1400);
        second.0[24..28].copy_from_slice(&number.to_be_bytes());
        let of = |(bytes, mut vnet): (Vec<u8>, [u8; VNET])| {
            vnet[1] = 0;
            Segment { unit: Rc::new(Unit::parse(&vnet, &bytes).unwrap()), k: 0 }
        };
        let mut other = second.clone();
        other.0[20] ^= 1;
        let [first, second, other] = [first, second, other].map(of);
        let pkt = |of: &Segment| of.unit.packet(0, 0, false);
        let mut train = Train::new(&first, &pkt(&first));
        assert!(!train.join(&other, &pkt(&other)));
        assert!(train.join(&second, &pkt(&second)));
        let (packet, _) = wire(&train, &[first, second]);
        verify(&packet, false);
    }

    /// Whatever a program in a namespace sends, the forwarder goes on.
    #[test]
    fn odd_packets_are_passed_on_or_refused() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u8
        };
        for round in 0..20_000 {
            let length = usize::from(random()) % 120;
            let mut bytes: Vec<u8> = (0..length).map(|_| random()).collect();
            if let Some(first) = bytes.first_mut() {
                *first = if round % 2 == 0 { 0x40 | *first & 15 } else { 0x60 | *first & 15 };
            }
            let at = if round % 2 == 0 { 9 } else { 6 };
            if let Some(protocol) = bytes.get_mut(at) {
                *protocol = [TCP, UDP, 1][round % 3];
            }
            let mut vnet: [u8; VNET] = std::array::from_fn(|_| random());
            (vnet[0], vnet[1]) = (vnet[0] & 1, [0, 1, 4, 5][round % 4]);
            let Some(unit) = Unit::parse(&vnet, &bytes) else { continue };
            let unit = Rc::new(unit);
            let mut payload = 0;
            for k in 0..unit.segments {
                let pkt = unit.packet(k, 0, round % 5 == 0);
                let segment = Segment { unit: Rc::clone(&unit), k };
                let train = Train::new(&segment, &pkt);
                wire(&train, std::slice::from_ref(&segment));
                payload += Train::payload(&segment).len();
                train.corrupted();
            }
            assert_eq!(payload + unit.headers, bytes.len());
        }
    }
}
