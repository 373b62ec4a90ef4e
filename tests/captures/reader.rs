//! A reader of captures.

use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;

/// A packet of a capture.
#[derive(Clone, Debug)]
pub struct Frame {
    pub ns: u64,
    /// Of the frame as it was sent.
    pub length: usize,
    pub bytes: Vec<u8>,
}

/// A TCP option: kind and value.
pub type TcpOption = (u8, Vec<u8>);

fn be16(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}
fn be32(b: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}
fn le32(b: &[u8], at: usize) -> usize {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]) as usize
}

/// The section's comment and all packets.
pub fn read(path: &Path) -> (String, Vec<Frame>) {
    let mut b = Vec::new();
    let file = std::fs::File::open(path).expect("the capture is there");
    GzDecoder::new(file).read_to_end(&mut b).expect("a whole gzip file");
    let (mut comment, mut frames) = (String::new(), Vec::new());
    let mut at = 0;
    while at < b.len() {
        let (kind, length) = (le32(&b, at), le32(&b, at + 4));
        assert_eq!(length % 4, 0);
        assert_eq!(le32(&b, at + length - 4), length, "the length stands at both ends");
        let body = &b[at + 8..at + length - 4];
        match (kind, at) {
            (0x0a0d_0d0a, 0) => {
                assert_eq!(le32(body, 0), 0x1a2b_3c4d);
                assert_eq!(body[16..18], [1, 0], "a comment comes first");
                let n = usize::from(u16::from_le_bytes([body[18], body[19]]));
                comment = String::from_utf8(body[20..20 + n].to_vec()).expect("UTF-8");
            }
            (1, _) => assert_eq!(body[..4], [1, 0, 0, 0], "Ethernet"),
            (6, _) => {
                let captured = le32(body, 12);
                assert_eq!(body.len(), 20 + captured.next_multiple_of(4));
                frames.push(Frame {
                    ns: (le32(body, 4) as u64) << 32 | le32(body, 8) as u64,
                    length: le32(body, 16),
                    bytes: body[20..20 + captured].to_vec(),
                });
            }
            other => panic!("block {other:?}"),
        }
        at += length;
    }
    (comment, frames)
}

impl Frame {
    pub fn ecn(&self) -> u8 {
        self.bytes[15] & 3
    }
    pub fn dscp(&self) -> u8 {
        self.bytes[15] >> 2
    }
    pub fn is_tcp(&self) -> bool {
        self.bytes[23] == 6
    }
    pub fn ports(&self) -> (u16, u16) {
        (be16(&self.bytes, 34), be16(&self.bytes, 36))
    }
    /// Sent by the client, which has the higher port.
    pub fn is_forward(&self) -> bool {
        self.ports().0 > self.ports().1
    }
    pub fn seq(&self) -> u32 {
        be32(&self.bytes, 38)
    }
    pub fn ack(&self) -> u32 {
        be32(&self.bytes, 42)
    }
    pub fn flags(&self) -> u16 {
        be16(&self.bytes, 46) & 0xfff
    }
    pub fn ace(&self) -> u16 {
        self.flags() >> 6 & 7
    }
    pub fn window(&self) -> u16 {
        be16(&self.bytes, 48)
    }
    pub fn headers(&self) -> usize {
        34 + if self.is_tcp() { usize::from(self.bytes[46] >> 4) * 4 } else { 8 }
    }
    pub fn payload(&self) -> usize {
        self.length - self.headers()
    }
    /// The options without padding, in order.
    pub fn options(&self) -> Vec<TcpOption> {
        let mut rest = &self.bytes[54..self.headers()];
        let mut found = Vec::new();
        while let [kind, tail @ ..] = rest {
            rest = match kind {
                1 => tail,
                _ => {
                    let n = usize::from(tail[0]);
                    found.push((*kind, tail[1..n - 1].to_vec()));
                    &tail[n - 1..]
                }
            };
        }
        found
    }
    pub fn option(&self, kind: u8) -> Option<Vec<u8>> {
        self.options().into_iter().find(|o| o.0 == kind).map(|o| o.1)
    }
    /// TSval and TSecr.
    pub fn timestamps(&self) -> (u32, u32) {
        let value = self.option(8).expect("every segment has them");
        (be32(&value, 0), be32(&value, 4))
    }
    pub fn sack(&self) -> Vec<(u32, u32)> {
        let value = self.option(5).unwrap_or_default();
        value.chunks(8).map(|b| (be32(b, 0), be32(b, 4))).collect()
    }
    /// IP and transport checksums fit, the payload being zeros: summed up as a receiver does, over all
    /// that is covered, bytes that are not in the capture included.
    pub fn checksums_fit(&self) -> (bool, bool) {
        let mut whole = self.bytes.clone();
        whole.resize(self.length, 0);
        let transport = &whole[34..];
        let mut pseudo = whole[26..34].to_vec();
        pseudo.extend([0, self.bytes[23]]);
        pseudo.extend((transport.len() as u16).to_be_bytes());
        pseudo.extend(transport);
        (ones_complement(&whole[14..34]) == 0xffff, ones_complement(&pseudo) == 0xffff)
    }
}

/// The sum with end-around carry, byte by byte.
fn ones_complement(bytes: &[u8]) -> u64 {
    let place = |i: usize| if i.is_multiple_of(2) { 256 } else { 1 };
    let sum: u64 = bytes.iter().enumerate().map(|(i, b)| u64::from(*b) * place(i)).sum();
    if sum == 0 { 0 } else { (sum - 1) % 0xffff + 1 }
}
