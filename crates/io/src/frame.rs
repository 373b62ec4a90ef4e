//! Headers of Ethernet frames that carry TCP or UDP over IPv4. The payload is not there, but lengths
//! and checksums are those of one that is all zeros.

use l4slab_core::ecn::Ecn;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const TCP: usize = 20;
const UDP: usize = 8;
/// TCP's header length has four bits and counts words (RFC 9293, 3.1).
const MAX_OPTIONS: usize = 40;
/// The longest headers there are.
pub const MAX_HEADERS: usize = ETHERNET + IPV4 + TCP + MAX_OPTIONS;

const ETHERTYPE_IPV4: u16 = 0x0800;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const DONT_FRAGMENT: u16 = 0x4000;
const TTL: u8 = 64;

/// Control bits of TCP; AE, CWR and ECE together are the ACE field of AccECN (RFC 9768, 3.1).
pub mod flag {
    pub const FIN: u16 = 0x001;
    pub const SYN: u16 = 0x002;
    pub const PSH: u16 = 0x008;
    pub const ACK: u16 = 0x010;
    pub const ECE: u16 = 0x040;
    pub const CWR: u16 = 0x080;
    pub const AE: u16 = 0x100;
}

/// One end of a connection.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    pub mac: [u8; 6],
    pub ip: [u8; 4],
    pub port: u16,
}

/// The fields of the IP header that differ between packets.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Ip {
    pub dscp: u8,
    pub ecn: Ecn,
}

/// The fields of the TCP header that differ between segments.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    pub seq: u32,
    pub ack: u32,
    pub flags: u16,
    pub window: u16,
    pub options: Options,
}

/// The options of a segment.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Options {
    bytes: [u8; MAX_OPTIONS],
    len: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { bytes: [0; MAX_OPTIONS], len: 0 }
    }
}

impl Options {
    const NOP: u8 = 1;
    const MSS: u8 = 2;
    const WINDOW_SCALE: u8 = 3;
    const SACK_PERMITTED: u8 = 4;
    const SACK: u8 = 5;
    const TIMESTAMPS: u8 = 8;
    /// AccECN with the ECT(1) counter first, the order in which Linux sends them; 172 is the other.
    const ACCECN1: u8 = 174;

    fn push(mut self, bytes: &[u8]) -> Options {
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        self
    }
    fn nops(self, n: usize) -> Options {
        self.push(&[Options::NOP; 2][..n])
    }
    fn raw_timestamps(self, val: u32, ecr: u32) -> Options {
        let head = self.push(&[Options::TIMESTAMPS, 10]);
        head.push(&val.to_be_bytes()).push(&ecr.to_be_bytes())
    }
    /// The options of a SYN, in Linux's order.
    pub fn announce(self, mss: u16, val: u32, ecr: u32, window_scale: u8) -> Options {
        self.push(&[Options::MSS, 4])
            .push(&mss.to_be_bytes())
            .push(&[Options::SACK_PERMITTED, 2])
            .raw_timestamps(val, ecr)
            .nops(1)
            .push(&[Options::WINDOW_SCALE, 3, window_scale])
    }
    /// TSval and TSecr (RFC 7323, 3.2).
    pub fn timestamps(self, val: u32, ecr: u32) -> Options {
        self.nops(2).raw_timestamps(val, ecr)
    }
    /// Two or three byte counters of AccECN: ECT(1), CE, ECT(0) (RFC 9768, 3.2.3).
    pub fn accecn(self, counters: &[u32]) -> Options {
        let len = 2 + 3 * counters.len();
        let mut out = self.push(&[Options::ACCECN1, len as u8]);
        for counter in counters {
            out = out.push(&counter.to_be_bytes()[1..]);
        }
        out.nops(len.next_multiple_of(4) - len)
    }
    /// SACK blocks as left and right edges (RFC 2018, 3).
    pub fn sack(self, blocks: impl ExactSizeIterator<Item = (u32, u32)>) -> Options {
        let mut out = self.nops(2).push(&[Options::SACK, 2 + 8 * blocks.len() as u8]);
        for (left, right) in blocks {
            out = out.push(&left.to_be_bytes()).push(&right.to_be_bytes());
        }
        out
    }
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The headers of a frame.
#[derive(Copy, Clone, Debug)]
pub struct Headers {
    bytes: [u8; MAX_HEADERS],
    len: usize,
}

impl Headers {
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// A segment with `payload` bytes.
    pub fn tcp(from: &Endpoint, to: &Endpoint, ip: Ip, s: &Segment, payload: u32) -> Headers {
        let options = s.options.as_slice();
        debug_assert!(options.len().is_multiple_of(4), "{options:?}");
        let header = TCP + options.len();
        let mut h = Headers { bytes: [0; MAX_HEADERS], len: ETHERNET + IPV4 + header };
        let length = (header as u32 + payload) as u16;
        h.put_ip(from, to, ip, PROTOCOL_TCP, length);
        let tcp = &mut h.bytes[ETHERNET + IPV4..][..header];
        tcp[0..2].copy_from_slice(&from.port.to_be_bytes());
        tcp[2..4].copy_from_slice(&to.port.to_be_bytes());
        tcp[4..8].copy_from_slice(&s.seq.to_be_bytes());
        tcp[8..12].copy_from_slice(&s.ack.to_be_bytes());
        let words = (header / 4) as u16;
        tcp[12..14].copy_from_slice(&(words << 12 | s.flags).to_be_bytes());
        tcp[14..16].copy_from_slice(&s.window.to_be_bytes());
        tcp[TCP..].copy_from_slice(options);
        let sum = checksum(pseudo_header(from, to, PROTOCOL_TCP, length), tcp);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        h
    }

    /// A datagram with `payload` bytes.
    pub fn udp(from: &Endpoint, to: &Endpoint, ip: Ip, payload: u32) -> Headers {
        let mut h = Headers { bytes: [0; MAX_HEADERS], len: ETHERNET + IPV4 + UDP };
        let length = (UDP as u32 + payload) as u16;
        h.put_ip(from, to, ip, PROTOCOL_UDP, length);
        let udp = &mut h.bytes[ETHERNET + IPV4..][..UDP];
        udp[0..2].copy_from_slice(&from.port.to_be_bytes());
        udp[2..4].copy_from_slice(&to.port.to_be_bytes());
        udp[4..6].copy_from_slice(&length.to_be_bytes());
        // Zero would mean that there is none (RFC 768).
        let sum = match checksum(pseudo_header(from, to, PROTOCOL_UDP, length), udp) {
            0 => u16::MAX,
            sum => sum,
        };
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
        h
    }

    /// The same with a bit of the payload flipped: the transport's checksum does not fit any more.
    pub fn corrupted(mut self) -> Headers {
        let transport = ETHERNET + IPV4;
        let is_tcp = self.bytes[ETHERNET + 9] == PROTOCOL_TCP;
        self.bytes[transport + if is_tcp { 17 } else { 7 }] ^= 1;
        self
    }

    fn put_ip(&mut self, from: &Endpoint, to: &Endpoint, ip: Ip, protocol: u8, length: u16) {
        self.bytes[0..6].copy_from_slice(&to.mac);
        self.bytes[6..12].copy_from_slice(&from.mac);
        self.bytes[12..14].copy_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
        let h = &mut self.bytes[ETHERNET..][..IPV4];
        h[0] = 0x45;
        h[1] = ip.dscp << 2 | ip.ecn.bits();
        h[2..4].copy_from_slice(&(IPV4 as u16 + length).to_be_bytes());
        // What must not be fragmented needs no identification (RFC 6864, 4.1).
        h[6..8].copy_from_slice(&DONT_FRAGMENT.to_be_bytes());
        h[8] = TTL;
        h[9] = protocol;
        h[12..16].copy_from_slice(&from.ip);
        h[16..20].copy_from_slice(&to.ip);
        let sum = checksum(0, h);
        h[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The sum of the IP header's fields that the transport's checksum covers (RFC 9293, 3.1).
fn pseudo_header(from: &Endpoint, to: &Endpoint, protocol: u8, length: u16) -> u32 {
    let words = [from.ip, to.ip].into_iter().flat_map(|ip| [[ip[0], ip[1]], [ip[2], ip[3]]]);
    words.map(|w| u32::from(u16::from_be_bytes(w))).sum::<u32>()
        + u32::from(protocol)
        + u32::from(length)
}

/// The Internet checksum (RFC 1071) of `bytes`, an even number of them, on top of `sum`.
fn checksum(sum: u32, bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let mut sum = sum + words.sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
