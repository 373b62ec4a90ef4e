//! The line's parameters in CAKE and the qdiscs of the SCE tree, with the same keywords of `tc`: its rate,
//! the round trip times over it, and the cost of a packet on it.
//! Source: `q_cake.c` of iproute2, `sch_cake.c`, and github.com/chromi/sce.

use crate::params::kinds::{Meta, Says, count, place, signed, some_time, unsaid, value, words};
use crate::params::{Given, Param, Refused, Table};
use crate::tc;
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
const RTTS: [(&str, u64, &str); 8] = [
    ("datacentre", 100, "rtt 100us"),
    ("lan", 1_000, "rtt 1ms"),
    ("metro", 10_000, "rtt 10ms"),
    ("regional", 30_000, "rtt 30ms"),
    ("internet", 100_000, "rtt 100ms"),
    ("oceanic", 300_000, "rtt 300ms"),
    ("satellite", 1_000_000, "rtt 1s"),
    ("interplanetary", 1_000_000_000, "rtt 1000s"),
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
type Framing = (&'static str, i32, Option<Cells>, Option<u32>, &'static str);
const FRAMINGS: [Framing; 13] = [
    ("ipoa-vcmux", 8, Some(Cells::Atm), None, "8 bytes more, atm"),
    ("ipoa-llcsnap", 16, Some(Cells::Atm), None, "16 bytes more, atm"),
    ("bridged-vcmux", 24, Some(Cells::Atm), None, "24 bytes more, atm"),
    ("bridged-llcsnap", 32, Some(Cells::Atm), None, "32 bytes more, atm"),
    ("pppoa-vcmux", 10, Some(Cells::Atm), None, "10 bytes more, atm"),
    ("pppoa-llc", 14, Some(Cells::Atm), None, "14 bytes more, atm"),
    ("pppoe-vcmux", 32, Some(Cells::Atm), None, "32 bytes more, atm"),
    ("pppoe-llcsnap", 40, Some(Cells::Atm), None, "40 bytes more, atm"),
    ("pppoe-ptm", 30, Some(Cells::Ptm), None, "30 bytes more, ptm"),
    ("bridged-ptm", 22, Some(Cells::Ptm), None, "22 bytes more, ptm"),
    ("ethernet", 38, None, Some(84), "38 bytes more, mpu 84"),
    ("ether-vlan", 4, None, None, "4 bytes more"),
    ("docsis", 18, Some(Cells::None), Some(64), "noatm, 18 bytes more, mpu 64"),
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

    /// Framings add up, in one change and not over several.
    pub fn renew(&mut self, given: &Given) {
        if is_framed(given) {
            self.overhead = 0;
        }
    }
    /// As `finish`; a change that does not say how packets are framed leaves it as it is.
    pub fn finish_change(&mut self, given: &Given) -> Result<(), Refused> {
        let raw = self.raw;
        self.finish(given)?;
        self.raw = given.has("raw") || (raw && !is_framed(given));
        Ok(())
    }

    /// To be called when all words have been read.
    pub fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        if let [first, second, ..] = given.of(&RTTS.map(|(name, ..)| name))[..] {
            let fix = format!("{first} stands there already, and tc takes one of them");
            return Err(given.refuse("the rtt", second.to_owned(), fix));
        }
        if self.overhead > WIRE_BYTES_MAX as i32 {
            let fix =
                format!("with the framings it adds up to more than {WIRE_BYTES_MAX}; use less");
            return Err(given.refuse("overhead", self.overhead.to_string(), fix));
        }
        // `raw` applies wherever it is given, though later keywords may still change the number.
        self.raw = given.has("raw") || !is_framed(given);
        Ok(())
    }
}

/// Whether any keyword gives additional bytes per packet.
fn is_framed(given: &Given) -> bool {
    let overhead = given.has("overhead") || given.has("conservative");
    overhead || !given.of(&FRAMINGS.map(|(name, ..)| name)).is_empty()
}

impl Table for Line {
    fn params() -> Vec<Param> {
        let meta = |keyword, help| Meta { keyword, help, source: "tc" };
        let bandwidth = value(
            "RATE",
            "a rate such as 50mbit, 0 for unlimited",
            |s| tc::parse_rate(s).map(|rate| rate.bps() / 8),
            |rate| format!("{}bit", rate * 8),
            |rng| format!("{}kbit", 8 + rng.below(1_000_000)),
            vec!["-1bit".to_owned(), "fast".to_owned()],
        );
        let bandwidth = bandwidth.or("unlimited", 0, "no shaping");
        let raw = unsaid::<Line>().word(
            "raw",
            |line| (line.cells, line.overhead) = (Cells::None, 0),
            |line| line.raw,
            "count Ethernet frames, plus overhead",
        );
        let cells = words([
            ("noatm", Cells::None, "bytes are bytes"),
            ("atm", Cells::Atm, "cells of 53 bytes carry 48"),
            ("ptm", Cells::Ptm, "64 bytes cost 65"),
        ]);
        let overhead = signed(OVERHEAD_MIN..=WIRE_BYTES_MAX as i32).shown("BYTES").default("");
        let mpu = count(0..=WIRE_BYTES_MAX).shown("BYTES");
        let rtt = RTTS.iter().fold(some_time(), |rtt, &(name, us, help)| {
            rtt.also(name, move |rtt| *rtt = Span::from_micros(us), help)
        });
        let mut framings = unsaid::<Line>()
            .also(
                "conservative",
                |line| (line.cells, line.overhead) = (Cells::Atm, CONSERVATIVE),
                "overhead 48 atm",
            )
            .also("via-ethernet", |_| {}, "accepted, without effect");
        for (name, bytes, cells, mpu, help) in FRAMINGS {
            let frame = move |line: &mut Line| {
                line.overhead += bytes;
                line.cells = cells.unwrap_or(line.cells);
                line.mpu = mpu.unwrap_or(line.mpu);
            };
            framings = framings.also(name, frame, help);
        }
        [
            bandwidth
                .of(meta("bandwidth", "shape to this rate"), place(|l: &mut Line| &mut l.rate)),
            raw.of(meta("", ""), place(|line| line)),
            cells.of(meta("", ""), place(|line: &mut Line| &mut line.cells)),
            overhead.of(
                meta("overhead", "count IP packets plus these"),
                place(|line: &mut Line| &mut line.overhead),
            ),
            mpu.of(
                meta("mpu", "smallest size that a packet counts as"),
                place(|line: &mut Line| &mut line.mpu),
            ),
            rtt.of(
                meta("rtt", "COBALT's interval; its target is a twentieth"),
                place(|line: &mut Line| &mut line.rtt),
            ),
            framings.of(meta("", ""), place(|line| line)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
