//! Frames against bytes that Scapy 2.8 makes of the same fields (payload: zeros, which the frames end
//! before).

use l4slab_core::ecn::Ecn;
use l4slab_io::frame::{Endpoint, Headers, Ip, Options, Segment, flag};

fn endpoint(host: u8, port: u16) -> Endpoint {
    Endpoint { mac: [2, 0, 0, 0, 1, host], ip: [10, 0, 1, host], port }
}

fn ends() -> (Endpoint, Endpoint) {
    (endpoint(1, 10_000), endpoint(2, 5001))
}

fn hex(headers: &Headers) -> String {
    headers.as_slice().iter().map(|b| format!("{b:02x}")).collect()
}

const ACCECN_SYN: &str = "02000000010202000000010108004500\
    003c00004000400624ba0a0001010a00\
    0102271013891122334400000000a1c2\
    ffffad4f0000020405b40402080a0000\
    03e8000000000103030e";
const DATA: &str = "02000000010202000000010108004529\
    05dc0000400040061ef10a0001010a00\
    0102271013891122334555667789b158\
    4000e20100000101080a000003f20000\
    07daae0b00000100000000000101";
const ACK: &str = "02000000010102000000010208004501\
    005000004000400624a50a0001020a00\
    0101138927105566778911223345f1d0\
    40009a9900000101080a000007e40000\
    03f2ae0800059d000b38010105121122\
    3e7d11224419112249b511224f51";
const DATAGRAM: &str = "02000000010202000000010108004503\
    05dc0000400040111f0c0a0001010a00\
    01022710138905c8a3c2";

#[test]
fn a_syn_that_asks_for_accecn() {
    let (client, server) = ends();
    let syn = Segment {
        seq: 0x1122_3344,
        ack: 0,
        flags: flag::SYN | flag::AE | flag::CWR | flag::ECE,
        window: 65_535,
        options: Options::default().announce(1460, 1000, 0, 14),
    };
    let ip = Ip { dscp: 0, ecn: Ecn::NotEct };
    assert_eq!(hex(&Headers::tcp(&client, &server, ip, &syn, 0)), ACCECN_SYN);
}

#[test]
fn data_with_ace_5_and_untouched_counters() {
    let (client, server) = ends();
    let data = Segment {
        seq: 0x1122_3345,
        ack: 0x5566_7789,
        flags: flag::ACK | flag::PSH | flag::AE | flag::ECE,
        window: 1 << 14,
        options: Options::default().timestamps(1010, 2010).accecn(&[1, 0, 1]),
    };
    let ip = Ip { dscp: 10, ecn: Ecn::Ect1 };
    assert_eq!(hex(&Headers::tcp(&client, &server, ip, &data, 1436)), DATA);
}

#[test]
fn an_ack_with_two_counters_and_two_sack_blocks() {
    let (client, server) = ends();
    let blocks = [(0x1122_3e7d, 0x1122_4419), (0x1122_49b5, 0x1122_4f51)];
    let ack = Segment {
        seq: 0x5566_7789,
        ack: 0x1122_3345,
        flags: flag::ACK | flag::AE | flag::CWR | flag::ECE,
        window: 1 << 14,
        options: Options::default()
            .timestamps(2020, 1010)
            .accecn(&[1437, 2872])
            .sack(blocks.into_iter()),
    };
    let ip = Ip { dscp: 0, ecn: Ecn::Ect1 };
    assert_eq!(hex(&Headers::tcp(&server, &client, ip, &ack, 0)), ACK);
}

#[test]
fn a_marked_datagram() {
    let (client, server) = ends();
    let ip = Ip { dscp: 0, ecn: Ecn::Ce };
    assert_eq!(hex(&Headers::udp(&client, &server, ip, 1472)), DATAGRAM);
}

/// RFC 768: a sum of zero is sent as all ones, since zero says that there is no checksum.
#[test]
fn a_udp_checksum_is_never_zero() {
    let ip = Ip { dscp: 0, ecn: Ecn::NotEct };
    let sum = |port| {
        let h = Headers::udp(&endpoint(1, port), &endpoint(2, 5001), ip, 0);
        u16::from_be_bytes([h.as_slice()[40], h.as_slice()[41]])
    };
    let all: Vec<u16> = (0..=u16::MAX).map(sum).collect();
    assert!(all.iter().all(|s| *s != 0));
    assert!(all.contains(&u16::MAX), "some port makes the sum zero");
}
