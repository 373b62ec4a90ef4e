//! What CAKE and the qdiscs of the SCE tree are told of their line, in the same words of `tc`: its rate,
//! the round trip times over it, and what a packet costs on it.
//! Source: `q_cake.c` of iproute2, `sch_cake.c`, and github.com/chromi/sce.

use crate::tc::{self, Args, Param, TcError, param};
use crate::time::Span;
use crate::units::ETHERNET_HEADER;

/// The target is this part of the round trip time (`tc`), 5 ms of 100 ms.
const RTT_TO_TARGET: u64 = 20;
/// A cell of ATM and its payload; a block of PTM, which costs a byte more (64b/65b).
const ATM_CELL: u32 = 53;
const ATM_PAYLOAD: u32 = 48;
const PTM_BLOCK: u32 = 64;
/// `tc`'s bounds for `overhead` and `mpu`.
const OVERHEAD_MIN: i32 = -64;
const WIRE_BYTES_MAX: u32 = 256;
/// `conservative` replaces any overhead: one ATM cell's payload.
const CONSERVATIVE: i32 = 48;

/// Round trip times by name, in microseconds.
const RTTS: [(&str, u64); 8] = [
    ("datacentre", 100),
    ("lan", 1_000),
    ("metro", 10_000),
    ("regional", 30_000),
    ("internet", 100_000),
    ("oceanic", 300_000),
    ("satellite", 1_000_000),
    ("interplanetary", 1_000_000_000),
];

/// How bytes become cells or code words.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Cells {
    #[default]
    None,
    Atm,
    Ptm,
}

/// Framings by name: what they add to each packet (the numbers add up), how they cut it up, and the
/// smallest packet. `None` leaves it as it is.
const FRAMINGS: [(&str, i32, Option<Cells>, Option<u32>); 13] = [
    ("ipoa-vcmux", 8, Some(Cells::Atm), None),
    ("ipoa-llcsnap", 16, Some(Cells::Atm), None),
    ("bridged-vcmux", 24, Some(Cells::Atm), None),
    ("bridged-llcsnap", 32, Some(Cells::Atm), None),
    ("pppoa-vcmux", 10, Some(Cells::Atm), None),
    ("pppoa-llc", 14, Some(Cells::Atm), None),
    ("pppoe-vcmux", 32, Some(Cells::Atm), None),
    ("pppoe-llcsnap", 40, Some(Cells::Atm), None),
    ("pppoe-ptm", 30, Some(Cells::Ptm), None),
    ("bridged-ptm", 22, Some(Cells::Ptm), None),
    ("ethernet", 38, None, Some(84)),
    ("ether-vlan", 4, None, None),
    ("docsis", 18, Some(Cells::None), Some(64)),
];

#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Bytes per second; 0 is unlimited.
    pub rate: u64,
    pub rtt: Span,
    /// The Ethernet frame counts, with `overhead` on top; else the IP packet.
    pub raw: bool,
    pub overhead: i32,
    pub mpu: u32,
    pub cells: Cells,
}

impl Default for Line {
    fn default() -> Self {
        Line {
            rate: 0,
            rtt: Span::from_millis(100),
            raw: true,
            overhead: 0,
            mpu: 0,
            cells: Cells::None,
        }
    }
}

impl Line {
    pub fn target(&self) -> Span {
        Span::from_micros((self.rtt.as_micros() / RTT_TO_TARGET).max(1))
    }

    /// Bytes on the wire of a frame.
    #[inline]
    pub fn on_wire(&self, frame_len: u32) -> u32 {
        let header = if self.raw { 0 } else { ETHERNET_HEADER };
        let len = frame_len.saturating_sub(header).saturating_add_signed(self.overhead);
        let len = len.max(self.mpu);
        match self.cells {
            Cells::None => len,
            Cells::Atm => len.div_ceil(ATM_PAYLOAD) * ATM_CELL,
            Cells::Ptm => len + len.div_ceil(PTM_BLOCK),
        }
    }

    /// The rate as `tc` prints it.
    pub fn bandwidth(&self) -> String {
        match self.rate {
            0 => "unlimited".to_owned(),
            rate => format!("bandwidth {}bit", rate * 8),
        }
    }
}

impl Cells {
    pub fn keyword(self) -> &'static str {
        match self {
            Cells::None => "noatm",
            Cells::Atm => "atm",
            Cells::Ptm => "ptm",
        }
    }
}

/// Reads the line's keywords between those of its qdisc.
#[derive(Default)]
pub struct Reader {
    line: Line,
    raw: bool,
    overhead_given: bool,
    /// The round trip time given by name.
    named: Option<&'static str>,
}

impl Reader {
    /// True if the keyword was one of the line's.
    pub fn takes(&mut self, keyword: &str, args: &mut Args) -> Result<bool, TcError> {
        let line = &mut self.line;
        match keyword {
            "bandwidth" => {
                line.rate = args.value("a rate above zero such as 50mbit", |s| {
                    tc::parse_rate(s).map(|rate| rate.bps() / 8).filter(|&bytes| bytes > 0)
                })?;
            }
            "unlimited" => line.rate = 0,
            "rtt" => line.rtt = args.time()?,
            "noatm" => line.cells = Cells::None,
            "atm" => line.cells = Cells::Atm,
            "ptm" => line.cells = Cells::Ptm,
            "via-ethernet" => {}
            "mpu" => {
                line.mpu = args.value("a whole number from 0 to 256", |s| {
                    tc::parse_count(s).filter(|&n| n <= WIRE_BYTES_MAX)
                })?;
            }
            "raw" => {
                (line.cells, line.overhead) = (Cells::None, 0);
                self.raw = true;
            }
            "overhead" => {
                line.overhead = args.value("a whole number from -64 to 256", |s| {
                    let most = WIRE_BYTES_MAX as i32;
                    s.parse().ok().filter(|n| (OVERHEAD_MIN..=most).contains(n))
                })?;
                self.overhead_given = true;
            }
            "conservative" => {
                (line.cells, line.overhead) = (Cells::Atm, CONSERVATIVE);
                self.overhead_given = true;
            }
            _ => return Ok(self.takes_rtt(keyword, args)? || self.takes_framing(keyword)),
        }
        Ok(true)
    }

    fn takes_rtt(&mut self, keyword: &str, args: &Args) -> Result<bool, TcError> {
        let Some(&(name, us)) = RTTS.iter().find(|(name, _)| *name == keyword) else {
            return Ok(false);
        };
        if let Some(first) = self.named.replace(name) {
            let fix = format!("{first} stands there already, and tc takes one of them");
            return Err(args.refuse("the rtt", name.to_owned(), fix));
        }
        self.line.rtt = Span::from_micros(us);
        Ok(true)
    }

    fn takes_framing(&mut self, keyword: &str) -> bool {
        let Some(&(_, bytes, cells, mpu)) = FRAMINGS.iter().find(|f| f.0 == keyword) else {
            return false;
        };
        let line = &mut self.line;
        line.overhead += bytes;
        line.cells = cells.unwrap_or(line.cells);
        line.mpu = mpu.unwrap_or(line.mpu);
        self.overhead_given = true;
        true
    }

    pub fn finish(self) -> Line {
        // `raw` holds wherever it stands, though later words may still change the number.
        Line { raw: self.raw || !self.overhead_given, ..self.line }
    }
}

pub const PARAMS: [Param; 32] = [
    param("bandwidth", "RATE", "", "shape to this rate"),
    param("unlimited", "", "yes", "no shaping"),
    param("rtt", "TIME", "100ms", "COBALT's interval; its target is a twentieth"),
    param("datacentre", "", "", "rtt 100us"),
    param("lan", "", "", "rtt 1ms"),
    param("metro", "", "", "rtt 10ms"),
    param("regional", "", "", "rtt 30ms"),
    param("internet", "", "yes", "rtt 100ms"),
    param("oceanic", "", "", "rtt 300ms"),
    param("satellite", "", "", "rtt 1s"),
    param("interplanetary", "", "", "rtt 1000s"),
    param("raw", "", "yes", "count Ethernet frames, plus overhead"),
    param("overhead", "BYTES", "", "count IP packets plus these, -64 to 256"),
    param("mpu", "BYTES", "0", "a packet counts as no less, 0 to 256"),
    param("noatm", "", "yes", "bytes are bytes"),
    param("atm", "", "", "cells of 53 bytes carry 48"),
    param("ptm", "", "", "64 bytes cost 65"),
    param("conservative", "", "", "overhead 48 atm"),
    param("ipoa-vcmux", "", "", "8 bytes more, atm"),
    param("ipoa-llcsnap", "", "", "16 bytes more, atm"),
    param("bridged-vcmux", "", "", "24 bytes more, atm"),
    param("bridged-llcsnap", "", "", "32 bytes more, atm"),
    param("pppoa-vcmux", "", "", "10 bytes more, atm"),
    param("pppoa-llc", "", "", "14 bytes more, atm"),
    param("pppoe-vcmux", "", "", "32 bytes more, atm"),
    param("pppoe-llcsnap", "", "", "40 bytes more, atm"),
    param("pppoe-ptm", "", "", "30 bytes more, ptm"),
    param("bridged-ptm", "", "", "22 bytes more, ptm"),
    param("via-ethernet", "", "yes", "accepted, without effect"),
    param("ethernet", "", "", "38 bytes more, mpu 84"),
    param("ether-vlan", "", "", "4 bytes more"),
    param("docsis", "", "", "noatm, 18 bytes more, mpu 64"),
];
