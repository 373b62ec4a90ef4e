//! pcapng (draft-ietf-opsawg-pcapng): a section with one Ethernet interface, in gzip. Times are
//! nanoseconds since the start of the run.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const UNKNOWN_LENGTH: u64 = u64::MAX;
const LINKTYPE_ETHERNET: u16 = 1;

/// Options: of every block, of the section, of the interface.
const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_TSRESOL: u16 = 9;
/// Powers of ten of a second.
const NANOSECONDS: u8 = 9;

/// Blocks are handed to the compressor in pieces of about this many bytes.
const PIECE: usize = 1 << 16;

/// The header of a file.
pub struct About<'a> {
    pub comment: &'a str,
    pub interface: &'a str,
    pub description: &'a str,
    pub snap_length: u32,
}

/// A file under construction.
pub struct Writer<W: Write> {
    out: GzEncoder<W>,
    piece: Vec<u8>,
}

impl<W: Write> Writer<W> {
    pub fn new(out: W, about: &About) -> Writer<W> {
        let mut w = Writer {
            out: GzEncoder::new(out, Compression::fast()),
            piece: Vec::with_capacity(PIECE),
        };
        w.block(SECTION_HEADER, |b| {
            b.extend(BYTE_ORDER.to_le_bytes());
            b.extend([1_u16, 0].map(u16::to_le_bytes).concat()); // version 1.0
            b.extend(UNKNOWN_LENGTH.to_le_bytes());
            option(b, OPT_COMMENT, about.comment.as_bytes());
            option(b, SHB_USERAPPL, concat!("l4slab ", env!("CARGO_PKG_VERSION")).as_bytes());
            option(b, 0, &[]);
        });
        w.block(INTERFACE_DESCRIPTION, |b| {
            b.extend([LINKTYPE_ETHERNET, 0].map(u16::to_le_bytes).concat());
            b.extend(about.snap_length.to_le_bytes());
            option(b, IF_NAME, about.interface.as_bytes());
            option(b, IF_DESCRIPTION, about.description.as_bytes());
            option(b, IF_TSRESOL, &[NANOSECONDS]);
            option(b, 0, &[]);
        });
        w
    }

    /// A packet of `length` bytes, of which `captured` are here.
    #[inline]
    pub fn packet(&mut self, ns: u64, captured: &[u8], length: u32) -> io::Result<()> {
        self.block(ENHANCED_PACKET, |b| {
            let [high, low] = [(ns >> 32) as u32, ns as u32];
            for word in [0, high, low, captured.len() as u32, length] {
                b.extend_from_slice(&word.to_le_bytes());
            }
            b.extend_from_slice(captured);
            pad(b);
        });
        if self.piece.len() >= PIECE {
            self.out.write_all(&self.piece)?;
            self.piece.clear();
        }
        Ok(())
    }

    /// Writes the rest and gives back what it has written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&self.piece)?;
        self.out.finish()
    }

    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.piece.len();
        self.piece.extend_from_slice(&kind.to_le_bytes());
        self.piece.extend_from_slice(&[0; 4]);
        body(&mut self.piece);
        let length = (self.piece.len() - start + 4) as u32;
        self.piece[start + 4..][..4].copy_from_slice(&length.to_le_bytes());
        self.piece.extend_from_slice(&length.to_le_bytes());
    }
}

/// To the next multiple of four. Blocks begin at one.
fn pad(b: &mut Vec<u8>) {
    b.resize(b.len().next_multiple_of(4), 0);
}

fn option(b: &mut Vec<u8>, code: u16, value: &[u8]) {
    let length = value.len().min(usize::from(u16::MAX)) as u16;
    b.extend([code, length].map(u16::to_le_bytes).concat());
    b.extend(&value[..usize::from(length)]);
    pad(b);
}
