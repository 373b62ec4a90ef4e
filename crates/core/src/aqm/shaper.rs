//! The deficit-mode shaper that CAKE and the SCE qdiscs have inside, and its `tc` keywords.
//!
//! A virtual clock: a packet may leave once the clock is reached, and moves it on by its own
//! length at the rate. There is no burst: after idling the clock starts at the next arrival.
//! The length may be that of another link layer (`overhead`, `mpu`, `atm`, `ptm`).
//! Source: `sch_cake.c` and, for the SCE qdiscs, the kernel tree github.com/chromi/sce.

use crate::tc::{Args, Param, TcError, param, parse_rate};
use crate::time::Time;
use crate::units::{ETHERNET_HEADER, Rate};

/// The slowest rate, in bytes per second (Linux).
const SLOWEST: u64 = 64;
/// The kernel keeps nanoseconds per byte with so many bits, and at most so many after the point.
const RATE_BITS: u32 = 34;

/// Cells or code words of the link below.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Cells {
    #[default]
    None,
    /// 48 of 53 bytes of each cell carry payload.
    Atm,
    /// 64 bytes are sent as 65.
    Ptm,
}

/// What the shaper is told.
#[derive(Clone, PartialEq, Debug)]
pub struct Shaping {
    /// `None`: unlimited.
    pub bandwidth: Option<Rate>,
    /// The frame as the kernel sees it counts, with `overhead` on top; else the IP packet.
    pub raw: bool,
    pub overhead: i32,
    pub mpu: u32,
    pub cells: Cells,
}

impl Default for Shaping {
    fn default() -> Self {
        Shaping { bandwidth: None, raw: true, overhead: 0, mpu: 0, cells: Cells::None }
    }
}

/// Framings by name: keyword, cells, overhead, mpu, help. The overheads add up.
#[rustfmt::skip]
const FRAMINGS: [(&str, Option<Cells>, i32, Option<u32>); 12] = [
    ("ipoa-vcmux", Some(Cells::Atm), 8, None),
    ("ipoa-llcsnap", Some(Cells::Atm), 16, None),
    ("bridged-vcmux", Some(Cells::Atm), 24, None),
    ("bridged-llcsnap", Some(Cells::Atm), 32, None),
    ("pppoa-vcmux", Some(Cells::Atm), 10, None),
    ("pppoa-llc", Some(Cells::Atm), 14, None),
    ("pppoe-vcmux", Some(Cells::Atm), 32, None),
    ("pppoe-llcsnap", Some(Cells::Atm), 40, None),
    ("pppoe-ptm", Some(Cells::Ptm), 30, None),
    ("bridged-ptm", Some(Cells::Ptm), 22, None),
    ("docsis", Some(Cells::None), 18, Some(64)),
    ("ethernet", None, 38, Some(84)),
];
const ETHER_VLAN: i32 = 4;

pub const PARAMS: [Param; 23] = [
    param("bandwidth", "RATE", "", "rate of the shaper inside"),
    param("unlimited", "", "yes", "no shaper"),
    param("raw", "", "yes", "count frames as the kernel does: with the Ethernet header"),
    param("overhead", "BYTES", "", "count IP packets plus these, -64 to 256"),
    param("mpu", "BYTES", "0", "no packet counts less, 0 to 256"),
    param("noatm", "", "yes", "no cells"),
    param("atm", "", "", "cells of 53 bytes for 48"),
    param("ptm", "", "", "65 bytes for 64"),
    param("conservative", "", "", "atm overhead 48"),
    param("ipoa-vcmux", "", "", "atm, 8 bytes"),
    param("ipoa-llcsnap", "", "", "atm, 16 bytes"),
    param("bridged-vcmux", "", "", "atm, 24 bytes"),
    param("bridged-llcsnap", "", "", "atm, 32 bytes"),
    param("pppoa-vcmux", "", "", "atm, 10 bytes"),
    param("pppoa-llc", "", "", "atm, 14 bytes"),
    param("pppoe-vcmux", "", "", "atm, 32 bytes"),
    param("pppoe-llcsnap", "", "", "atm, 40 bytes"),
    param("pppoe-ptm", "", "", "ptm, 30 bytes"),
    param("bridged-ptm", "", "", "ptm, 22 bytes"),
    param("docsis", "", "", "noatm, 18 bytes, mpu 64"),
    param("ethernet", "", "", "38 bytes, mpu 84"),
    param("ether-vlan", "", "", "4 bytes more"),
    param("via-ethernet", "", "yes", "accepted, without effect"),
];

/// Reads the shaper's keywords between those of its qdisc.
#[derive(Default)]
pub struct Reader {
    shaping: Shaping,
    raw: bool,
    overhead_given: bool,
}

impl Reader {
    /// True if the keyword was one of the shaper's.
    pub fn takes(&mut self, keyword: &str, args: &mut Args) -> Result<bool, TcError> {
        let s = &mut self.shaping;
        match keyword {
            "bandwidth" => {
                let rate = "a rate above zero such as 100mbit";
                let rate = args.value(rate, |s| parse_rate(s).filter(|r| r.bps() > 0))?;
                s.bandwidth = Some(rate);
                return Ok(true);
            }
            "unlimited" => s.bandwidth = None,
            "noatm" => s.cells = Cells::None,
            "atm" => s.cells = Cells::Atm,
            "ptm" => s.cells = Cells::Ptm,
            "via-ethernet" => {}
            "mpu" => {
                let expected = "a whole number of bytes from 0 to 256";
                let mpu = |s: &str| s.parse::<u32>().ok().filter(|n| *n <= 256);
                s.mpu = args.value(expected, mpu)?;
            }
            "raw" => {
                (s.cells, s.overhead) = (Cells::None, 0);
                self.raw = true;
            }
            "overhead" => {
                let expected = "a whole number of bytes from -64 to 256";
                let bytes = |s: &str| s.parse::<i32>().ok().filter(|n| (-64..=256).contains(n));
                s.overhead = args.value(expected, bytes)?;
                self.overhead_given = true;
            }
            "conservative" => {
                (s.cells, s.overhead) = (Cells::Atm, 48);
                self.overhead_given = true;
            }
            "ether-vlan" => {
                s.overhead += ETHER_VLAN;
                self.overhead_given = true;
            }
            _ => {
                let Some((_, cells, overhead, mpu)) = FRAMINGS.iter().find(|f| f.0 == keyword)
                else {
                    return Ok(false);
                };
                s.cells = cells.unwrap_or(s.cells);
                s.overhead += overhead;
                s.mpu = mpu.unwrap_or(s.mpu);
                self.overhead_given = true;
            }
        }
        Ok(true)
    }

    pub fn finish(self) -> Shaping {
        // `raw` wins wherever it stands.
        Shaping { raw: self.raw || !self.overhead_given, ..self.shaping }
    }
}

impl Shaping {
    pub fn canonical(&self) -> String {
        let bandwidth = match self.bandwidth {
            Some(rate) => format!("bandwidth {}bit", rate.bps()),
            None => "unlimited".to_owned(),
        };
        let cells = match self.cells {
            Cells::None => "noatm",
            Cells::Atm => "atm",
            Cells::Ptm => "ptm",
        };
        let raw = if self.raw { "raw " } else { "" };
        format!("{bandwidth} {raw}{cells} overhead {} mpu {}", self.overhead, self.mpu)
    }

    /// Bytes on the wire of a frame.
    #[inline]
    pub fn wire_len(&self, frame: u32) -> u64 {
        let header = if self.raw { 0 } else { i64::from(ETHERNET_HEADER) };
        let len = i64::from(frame) - header + i64::from(self.overhead);
        let len = len.max(i64::from(self.mpu)).max(0) as u64;
        match self.cells {
            Cells::None => len,
            Cells::Atm => len.div_ceil(48) * 53,
            Cells::Ptm => len + len.div_ceil(64),
        }
    }
}

/// The shaper at work.
#[derive(Clone, Debug)]
pub struct Shaper {
    shaping: Shaping,
    /// Nanoseconds per byte with `shift` bits after the point; zero: unlimited.
    per_byte: u64,
    shift: u32,
    /// When the next packet may leave.
    clock: Time,
    /// When the queue wants to be asked again.
    wake: Time,
}

impl Shaper {
    pub fn new(shaping: Shaping) -> Shaper {
        let mut shaper =
            Shaper { shaping, per_byte: 0, shift: 0, clock: Time::ZERO, wake: Time::NEVER };
        if let Some(rate) = shaper.shaping.bandwidth {
            let mut per_byte = (1_000_000_000_u64 << RATE_BITS) / (rate.bps() / 8).max(SLOWEST);
            let mut shift = RATE_BITS;
            while per_byte >> RATE_BITS > 0 {
                per_byte >>= 1;
                shift -= 1;
            }
            (shaper.per_byte, shaper.shift) = (per_byte, shift);
        }
        shaper
    }

    /// A packet comes; `idle`: it is the only one. Unused time is lost.
    #[inline]
    pub fn arrival(&mut self, now: Time, idle: bool) {
        if idle && self.clock > now {
            self.wake = self.clock;
        } else if idle {
            self.clock = now;
        }
    }

    /// May a packet leave? If not, the queue is asked again in time.
    #[inline]
    pub fn ready(&mut self, now: Time) -> bool {
        if self.clock > now {
            self.wake = self.clock;
        }
        self.clock <= now
    }

    /// A packet leaves; `more`: others are left.
    #[inline]
    pub fn departure(&mut self, now: Time, frame: u32, more: bool) {
        let ns = (self.shaping.wire_len(frame) * self.per_byte) >> self.shift;
        self.clock = Time(self.clock.0 + ns);
        self.wake = if more && self.clock > now { self.clock } else { Time::NEVER };
    }

    /// For [`super::Aqm::next_timer`] and `on_timer`.
    #[inline]
    pub fn wake(&self) -> Time {
        self.wake
    }
    #[inline]
    pub fn woken(&mut self) {
        self.wake = Time::NEVER;
    }
}
