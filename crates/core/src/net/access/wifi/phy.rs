//! Durations on the air: 802.11a, n (HT), ac (VHT) and ax (HE, single user) in the 5-GHz band.

use super::{Guard, WifiConfig};
use crate::math;
use crate::time::Span;

pub const SLOT: Span = Span::from_micros(9);
pub const SIFS: Span = Span::from_micros(16);
/// An acknowledgement at 6 Mbit/s, as EIFS contains it.
pub const SLOWEST_ACK: Span = Span::from_micros(44);
/// Bytes of control frames; the longer block acknowledgement is for windows above 64.
pub const ACK: u32 = 14;
pub const BLOCK_ACK: u32 = 32;
pub const LONG_BLOCK_ACK: u32 = 56;
pub const RTS: u32 = 20;
pub const CTS: u32 = 14;
/// The overhead of an MPDU: LLC and SNAP, QoS data header, FCS; and with CCMP.
pub const MPDU_OVERHEAD: u32 = 8 + 26 + 4;
pub const CCMP: u32 = 16;
/// Before each MPDU of an A-MPDU, which is then padded to a multiple of 4 bytes.
pub const DELIMITER: u32 = 4;
/// Service and tail bits around the PSDU.
const SERVICE_AND_TAIL: u64 = 16 + 6;

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Amendment {
    A,
    N,
    Ac,
    Ax,
}
use Amendment::{A, Ac, Ax, N};

/// An amendment with a channel width.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Standard {
    amendment: Amendment,
    /// MHz.
    width: u16,
}

const fn standard(amendment: Amendment, width: u16) -> Standard {
    Standard { amendment, width }
}

/// Coded bits per subcarrier times the code rate, in twelfths of a bit, by MCS.
const TWELFTHS: [u64; 12] = [6, 12, 18, 24, 36, 48, 54, 60, 72, 80, 90, 100];
/// Data bits per symbol of 802.11a at 6 to 54 Mbit/s.
const LEGACY: [u64; 8] = [24, 36, 48, 72, 96, 144, 192, 216];
/// The SNR in dB at which half of the MPDUs arrive, in 20 MHz. The receiver's minimum sensitivity in dBm and 87
/// (802.11-2020, tables 17-18 and 21-25; 802.11ax-2021, table 27-51).
const THRESHOLDS: [f64; 12] =
    [5.0, 8.0, 10.0, 13.0, 17.0, 21.0, 22.0, 23.0, 28.0, 30.0, 33.0, 35.0];
const LEGACY_THRESHOLDS: [f64; 8] = [5.0, 6.0, 8.0, 10.0, 13.0, 17.0, 21.0, 22.0];
/// The width in dB of the transition from all lost to all received.
const TRANSITION: f64 = 0.6;
const LTFS: [u64; 9] = [0, 1, 2, 4, 4, 6, 6, 8, 8];

impl Standard {
    pub const AX80: Standard = standard(Ax, 80);
    pub const ALL: [Standard; 11] = [
        standard(A, 20),
        standard(N, 20),
        standard(N, 40),
        standard(Ac, 20),
        standard(Ac, 40),
        standard(Ac, 80),
        standard(Ac, 160),
        standard(Ax, 20),
        standard(Ax, 40),
        standard(Ax, 80),
        standard(Ax, 160),
    ];
    const NAMES: [(&'static str, &'static str); 11] = [
        ("a", "802.11a: no aggregation"),
        ("n20", "802.11n in 20 MHz"),
        ("n40", "802.11n in 40 MHz"),
        ("ac20", "802.11ac in 20 MHz"),
        ("ac40", "802.11ac in 40 MHz"),
        ("ac80", "802.11ac in 80 MHz"),
        ("ac160", "802.11ac in 160 MHz"),
        ("ax20", "802.11ax in 20 MHz"),
        ("ax40", "802.11ax in 40 MHz"),
        ("ax80", "802.11ax in 80 MHz"),
        ("ax160", "802.11ax in 160 MHz"),
    ];
    fn place(self) -> usize {
        Standard::ALL.iter().position(|other| *other == self).expect("all are listed")
    }
    pub fn name(self) -> &'static str {
        Standard::NAMES[self.place()].0
    }
    pub fn help(self) -> &'static str {
        Standard::NAMES[self.place()].1
    }
    pub fn is_n(self) -> bool {
        self.amendment == N
    }
    pub fn is_ac(self) -> bool {
        self.amendment == Ac
    }
    pub fn is_ax(self) -> bool {
        self.amendment == Ax
    }
    pub fn most_streams(self) -> u8 {
        match self.amendment {
            A => 1,
            N | Ac => 4,
            Ax => 8,
        }
    }
    /// MPDUs of an A-MPDU, which are the window as well.
    pub fn most_mpdus(self) -> u16 {
        match self.amendment {
            A => 1,
            N | Ac => 64,
            Ax => 256,
        }
    }
    pub fn most_mcs(self) -> u8 {
        match self.amendment {
            A | N => 7,
            Ac => 9,
            Ax => 11,
        }
    }
    /// The probability that an MPDU of a 1500-B packet is lost at this SNR in 20 MHz. A wider channel spreads the same power.
    pub fn loss(self, mcs: u8, snr: f64) -> f64 {
        let thresholds: &[f64] = if self.amendment == A { &LEGACY_THRESHOLDS } else { &THRESHOLDS };
        let wider = 3.0 * f64::from((self.width / 20).ilog2());
        let above = snr - wider - thresholds[usize::from(mcs)];
        1.0 / (1.0 + math::exp(above / TRANSITION))
    }
    pub fn most_bytes(self) -> u32 {
        match self.amendment {
            A | N => 65_535,
            Ac => 1_048_575,
            Ax => 6_500_631,
        }
    }
    /// Combinations that the amendment does not have.
    pub fn check_mcs(self, mcs: u8, nss: u8) -> Result<(), String> {
        let name = self.name();
        let most = self.most_mcs();
        if mcs > most {
            return Err(format!("{name} has 0 to {most}"));
        }
        // The bits of a symbol would not be whole for each encoder (802.11-2020, section 21.5).
        let is_excluded = self.amendment == Ac
            && match (self.width, mcs) {
                (20, 9) => nss != 3,
                (80, 6) => nss == 3,
                (160, 9) => nss == 3,
                _ => false,
            };
        if is_excluded {
            let fix = if mcs == 9 { "use mcs 8" } else { "use mcs 5 or 7" };
            return Err(format!("{name} has not mcs {mcs} with nss {nss}; {fix}"));
        }
        Ok(())
    }
    fn subcarriers(self) -> u64 {
        match (self.amendment, self.width) {
            (Ax, 20) => 234,
            (Ax, 40) => 468,
            (Ax, 80) => 980,
            (Ax, _) => 1960,
            (_, 20) => 52,
            (_, 40) => 108,
            (_, 80) => 234,
            _ => 468,
        }
    }
}

/// How PPDUs to or from a station are sent.
#[derive(Copy, Clone, Debug)]
pub struct Modulation {
    preamble: Span,
    symbol: Span,
    /// Data bits per symbol.
    bits: u64,
    /// Data bits per symbol of the control frames.
    control: u64,
}

impl Modulation {
    pub fn new(config: &WifiConfig, mcs: u8) -> Modulation {
        let (standard, mcs) = (config.standard, usize::from(mcs));
        // Control frames: the highest of 6, 12 and 24 Mbit/s whose constellation and code are not above the data's.
        let control = match (standard.amendment, mcs) {
            (A, 0 | 1) | (N | Ac | Ax, 0) => LEGACY[0],
            (A, 2 | 3) | (N | Ac | Ax, 1 | 2) => LEGACY[2],
            _ => LEGACY[4],
        };
        let ltfs = LTFS[usize::from(config.nss)];
        let (preamble, symbol) = match (standard.amendment, config.gi) {
            (A, _) => (20_000, 4_000),
            (N, Guard::Short) => (32_000 + 4_000 * ltfs, 3_600),
            (N, _) => (32_000 + 4_000 * ltfs, 4_000),
            (Ac, Guard::Short) => (36_000 + 4_000 * ltfs, 3_600),
            (Ac, _) => (36_000 + 4_000 * ltfs, 4_000),
            (Ax, Guard::Double) => (36_000 + 7_200 * ltfs, 14_400),
            (Ax, Guard::Long) => (36_000 + 7_200 * ltfs, 16_000),
            (Ax, _) => (36_000 + 7_200 * ltfs, 13_600),
        };
        let bits = match standard.amendment {
            A => LEGACY[mcs],
            _ => standard.subcarriers() * u64::from(config.nss) * TWELFTHS[mcs] / 12,
        };
        Modulation { preamble: Span(preamble), symbol: Span(symbol), bits, control }
    }
    /// A PPDU with a PSDU of so many bytes.
    pub fn ppdu(&self, bytes: u32) -> Span {
        let symbols = (SERVICE_AND_TAIL + 8 * u64::from(bytes)).div_ceil(self.bits);
        self.preamble + self.symbol * symbols
    }
    /// Mbit/s while data is sent.
    pub fn mbps(&self) -> f64 {
        self.bits as f64 * 1e3 / self.symbol.0 as f64
    }
    pub fn preamble(&self) -> Span {
        self.preamble
    }
    /// Not more bytes than fit into a PPDU of this time.
    pub fn fits(&self, time: Span) -> u32 {
        let symbols = (time - self.preamble).0 / self.symbol.0;
        ((symbols * self.bits).saturating_sub(SERVICE_AND_TAIL) / 8).min(u64::from(u32::MAX)) as u32
    }
    /// A control frame.
    pub fn control(&self, bytes: u32) -> Span {
        let symbols = (SERVICE_AND_TAIL + 8 * u64::from(bytes)).div_ceil(self.control);
        Span(20_000 + 4_000 * symbols)
    }
}
