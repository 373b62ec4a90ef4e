//! From a simulated packet to its headers. The simulator numbers flows and segments; here they get
//! addresses, ports and sequence numbers. These depend on the run's seed and the flow's number only.

use l4slab_core::net::tap::End;
use l4slab_core::packet::{Flags, Packet, Stamp, TcpBits};
use l4slab_core::rng::Rng;
use l4slab_core::sack::Blocks;
use l4slab_core::time::Time;
use l4slab_core::units::ETHERNET_HEADER;

use crate::frame::{Endpoint, Headers, Ip, Options, Segment, flag};

/// Ports of the first flow of a group; further flows have the next client ports, and after so many
/// of them the next server port.
const CLIENT_PORT: u32 = 10_000;
const CLIENT_PORTS: u32 = 50_000;
const SERVER_PORT: u32 = 5001;
/// Payload that fits into 1500 B without options, which is what hosts announce.
const MSS: u16 = 1460;
/// The greatest window scale (RFC 7323, 2.3).
const WINDOW_SCALE: u8 = 14;
/// Windows: in a SYN unscaled, else 256 MB. The simulator's receive windows never limit.
const SYN_WINDOW: u16 = 65_535;
const WINDOW: u16 = 1 << 14;
/// Bytes of the timestamp option with its padding, and with the AccECN option's three counters.
const TIMESTAMPS: u32 = 12;
const WITH_ACCECN: u32 = TIMESTAMPS + ACCECN;
const ACCECN: u32 = 12;
/// Bytes of what a SYN announces.
const ANNOUNCEMENT: u32 = 20;
/// The AccECN option of a host that has received no data: ECT(1), CE, ECT(0).
const NOTHING_RECEIVED: [u32; 3] = [1, 0, 1];

/// Segments of one payload length: the first, and its offset in the stream.
#[derive(Copy, Clone, Debug)]
struct Stretch {
    first: u32,
    offset: u32,
    payload: u32,
}

/// A flow on the wire.
#[derive(Debug)]
pub struct Wire {
    udp: bool,
    client: Endpoint,
    server: Endpoint,
    /// Initial sequence numbers, and what is added to each clock (RFC 7323, 5.4).
    client_isn: u32,
    server_isn: u32,
    client_clock: u32,
    server_clock: u32,
    stretches: Vec<Stretch>,
    /// The segment after the last one sent.
    next: u32,
    /// The segment with the FIN, and the receiver's clock when it arrived.
    fin: Option<(u32, Stamp)>,
}

impl Wire {
    /// The flow `number` of the run, which is the one with `index` in the group.
    pub fn new(seed: u64, group: u16, index: u32, number: u32, udp: bool) -> Wire {
        let mut rng = Rng::stream(seed, "wire", u64::from(number));
        let [high, low] = group.wrapping_add(1).to_be_bytes();
        let endpoint = |host, port: u32| Endpoint {
            mac: [0x02, 0, 0, high, low, host],
            ip: [10, high, low, host],
            port: port as u16,
        };
        Wire {
            udp,
            client: endpoint(1, CLIENT_PORT + index % CLIENT_PORTS),
            server: endpoint(2, SERVER_PORT + index / CLIENT_PORTS),
            client_isn: rng.u32(),
            server_isn: rng.u32(),
            client_clock: rng.u32(),
            server_clock: rng.u32(),
            stretches: Vec::new(),
            next: 0,
            fin: None,
        }
    }

    /// The headers of a packet that passes `end`. Every packet has to be shown at both ends.
    pub fn headers(&mut self, now: Time, end: End, pkt: &Packet, blocks: &Blocks) -> Headers {
        let ip = Ip { dscp: pkt.dscp, ecn: pkt.ecn.get() };
        let payload = pkt.payload.into();
        let headers = if self.udp && pkt.flags.has(Flags::ACK) {
            Headers::udp(&self.server, &self.client, ip, payload)
        } else if pkt.flags.has(Flags::UDP) {
            Headers::udp(&self.client, &self.server, ip, payload)
        } else if pkt.flags.has(Flags::ACK) {
            let segment = self.server_segment(pkt, blocks);
            Headers::tcp(&self.server, &self.client, ip, &segment, 0)
        } else {
            self.learn(now, end, pkt);
            let segment = self.client_segment(pkt);
            Headers::tcp(&self.client, &self.server, ip, &segment, payload)
        };
        debug_assert_eq!(headers.as_slice().len(), usize::from(pkt.frame_len - pkt.payload));
        if pkt.flags.has(Flags::CORRUPT) { headers.corrupted() } else { headers }
    }

    fn learn(&mut self, now: Time, end: End, pkt: &Packet) {
        if !pkt.flags.has(Flags::DATA) {
            return;
        }
        if end == End::Client && pkt.seq == self.next {
            let payload = pkt.payload.into();
            if self.stretches.last().is_none_or(|s| s.payload != payload) {
                let offset = self.offset(self.next);
                self.stretches.push(Stretch { first: pkt.seq, offset, payload });
            }
            self.next += 1;
        }
        if end == End::Server
            && pkt.flags.has(Flags::FIN)
            && !pkt.flags.has(Flags::CORRUPT)
            && self.fin.is_none()
        {
            self.fin = Some((pkt.seq, Stamp::of(now)));
        }
    }

    /// Bytes of the stream before a segment.
    fn offset(&self, segment: u32) -> u32 {
        let later = self.stretches.iter().rev().take_while(|s| s.first > segment).count();
        match self.stretches[..self.stretches.len() - later].last() {
            Some(s) => s.offset.wrapping_add((segment - s.first).wrapping_mul(s.payload)),
            None => 0,
        }
    }

    fn client_segment(&self, pkt: &Packet) -> Segment {
        let val = self.client_clock.wrapping_add(Stamp::of(pkt.stamp).millis());
        let ace = ecn_flags(pkt.bits);
        if pkt.flags.has(Flags::SYN) {
            return Segment {
                seq: self.client_isn,
                ack: 0,
                flags: flag::SYN | ace,
                window: SYN_WINDOW,
                options: Options::default().announce(MSS, val, 0, WINDOW_SCALE),
            };
        }
        let ecr = self.server_clock.wrapping_add(pkt.tsval.millis());
        let mut options = Options::default().timestamps(val, ecr);
        if option_bytes(pkt) == WITH_ACCECN {
            options = options.accecn(&NOTHING_RECEIVED);
        }
        let mut flags = flag::ACK | ace;
        if pkt.bits.has(TcpBits::PSH) {
            flags |= flag::PSH;
        }
        if pkt.flags.has(Flags::FIN) {
            flags |= flag::FIN;
        }
        Segment {
            seq: self.client_isn.wrapping_add(1).wrapping_add(self.offset(pkt.seq)),
            ack: self.server_isn.wrapping_add(1),
            flags,
            window: WINDOW,
            options,
        }
    }

    fn server_segment(&self, pkt: &Packet, blocks: &Blocks) -> Segment {
        let val = self.server_clock.wrapping_add(pkt.tsval.millis());
        let ecr = self.client_clock.wrapping_add(Stamp::of(pkt.stamp).millis());
        let ace = ecn_flags(pkt.bits);
        if pkt.flags.has(Flags::SYN) {
            let mut options = Options::default().announce(MSS, val, ecr, WINDOW_SCALE);
            if option_bytes(pkt) == ANNOUNCEMENT + ACCECN {
                options = options.accecn(&NOTHING_RECEIVED);
            }
            return Segment {
                seq: self.server_isn,
                ack: self.client_isn.wrapping_add(1),
                flags: flag::SYN | flag::ACK | ace,
                window: SYN_WINDOW,
                options,
            };
        }
        let blocks = blocks.as_slice();
        let mut options = Options::default().timestamps(val, ecr);
        if pkt.flags.has(Flags::ACCECN_OPTION) {
            let b = pkt.ecn_bytes;
            let sack = if blocks.is_empty() { 0 } else { 4 + 8 * blocks.len() as u32 };
            let counters = if option_bytes(pkt) == WITH_ACCECN + sack { 3 } else { 2 };
            options = options.accecn(&[b.ect1, b.ce, b.ect0][..counters]);
        }
        if !blocks.is_empty() {
            let edge = |segment| self.acknowledged(segment, pkt.tsval);
            options = options.sack(blocks.iter().map(|b| (edge(b.start), edge(b.end))));
        }
        Segment {
            seq: self.server_isn.wrapping_add(1),
            ack: self.acknowledged(pkt.seq, pkt.tsval),
            flags: flag::ACK | ace,
            window: WINDOW,
            options,
        }
    }

    /// The sequence number that says "everything before this segment". A FIN counts as a byte once
    /// it has arrived.
    fn acknowledged(&self, segment: u32, now: Stamp) -> u32 {
        let fin = self.fin.is_some_and(|(fin, at)| segment == fin + 1 && now.older_than(at) <= 0);
        self.client_isn.wrapping_add(1 + u32::from(fin)).wrapping_add(self.offset(segment))
    }
}

/// The free bytes of the frame.
fn option_bytes(pkt: &Packet) -> u32 {
    u32::from(pkt.frame_len - pkt.payload) - ETHERNET_HEADER - 20 - 20
}

fn ecn_flags(bits: TcpBits) -> u16 {
    let one = |bit, flag| if bits.has(bit) { flag } else { 0 };
    one(TcpBits::AE, flag::AE) | one(TcpBits::CWR, flag::CWR) | one(TcpBits::ECE, flag::ECE)
}
