//! Durations on the air: 802.11b (DSSS and CCK), a, n (HT), ac (VHT) and ax (HE, single user), the last four in the
//! 5-GHz band. In 2.4 GHz a signal extension and a shorter SIFS add up to the same.

use super::{Guard, WifiConfig};
use crate::math;
use crate::time::Span;

pub const SLOT: Span = Span::from_micros(9);
pub const SIFS: Span = Span::from_micros(16);
/// Bytes of control frames; the longer block acknowledgement is for windows above 64.
pub const ACK: u32 = 14;
pub const BLOCK_ACK: u32 = 32;
pub const LONG_BLOCK_ACK: u32 = 56;
pub const RTS: u32 = 20;
pub const CTS: u32 = 14;
pub const CF_END: u32 = 20;
/// The overhead of an MPDU: LLC and SNAP, QoS data header, FCS; and with CCMP.
pub const MPDU_OVERHEAD: u32 = 8 + 26 + 4;
pub const CCMP: u32 = 16;
/// In front of an A-MSDU's packets: a QoS data header; behind them the FCS. Each packet has a header, LLC and SNAP, and is
/// padded to a multiple of 4 bytes but for the last.
pub const AMSDU_OVERHEAD: u32 = 26 + 4;
pub const AMSDU_SUBFRAME: u32 = 14 + 8;
/// Before each MPDU of an A-MPDU, which is then padded to a multiple of 4 bytes.
pub const DELIMITER: u32 = 4;
const DSSS_SIFS: Span = Span::from_micros(10);
/// Service and tail bits around the PSDU.
const SERVICE_AND_TAIL: u64 = 16 + 6;

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Amendment {
    B,
    A,
    N,
    Ac,
    Ax,
}
use Amendment::{A, Ac, Ax, B, N};

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
/// Bits in 2 us of 802.11b at 1, 2, 5.5 and 11 Mbit/s.
const DSSS: [u64; 4] = [2, 4, 11, 22];
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
    pub const ALL: [Standard; 12] = [
        standard(B, 20),
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
    const NAMES: [(&'static str, &'static str); 12] = [
        ("b", "802.11b: 1 to 11 Mbit/s, no aggregation"),
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
    pub fn is_b(self) -> bool {
        self.amendment == B
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
            B | A => 1,
            N | Ac => 4,
            Ax => 8,
        }
    }
    /// MPDUs of an A-MPDU, which are the window as well.
    pub fn most_mpdus(self) -> u16 {
        match self.amendment {
            B | A => 1,
            N | Ac => 64,
            Ax => 256,
        }
    }
    pub fn most_mcs(self) -> u8 {
        match self.amendment {
            B => 3,
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
            B | A | N => 65_535,
            Ac => 1_048_575,
            Ax => 6_500_631,
        }
    }
    /// The longest A-MSDU in bytes: by the standard's element of n, and what fits into the largest MPDU of ac and ax.
    pub fn most_amsdu(self) -> u32 {
        match self.amendment {
            B | A => 0,
            N => 7935,
            Ac | Ax => 11_454 - AMSDU_OVERHEAD,
        }
    }
    pub fn slot(self) -> Span {
        if self.is_b() { Span::from_micros(20) } else { SLOT }
    }
    pub fn sifs(self) -> Span {
        if self.is_b() { DSSS_SIFS } else { SIFS }
    }
    /// Smallest contention window of a station's best effort (`aCWmin`).
    pub fn cw_min(self) -> u32 {
        if self.is_b() { 31 } else { 15 }
    }
    /// Bytes of a beacon with the elements that access points of the amendment send (name of 8 bytes, WPA2, WMM).
    pub fn beacon(self) -> u32 {
        match self.amendment {
            B => 98,
            A => 122,
            N => 186,
            Ac => 207,
            Ax => 262,
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
    /// Service and tail bits.
    around: u64,
    control: Control,
    pub sifs: Span,
}

/// How control frames are sent: by the data bits of a symbol, or with their own preamble by bits in 2 us.
#[derive(Copy, Clone, Debug)]
enum Control {
    Ofdm(u64),
    Dsss(Span, u64),
}

/// Long and short preamble with header. At 1 Mbit/s it is always the long one.
fn dsss_preamble(rate: usize, is_short: bool) -> Span {
    Span::from_micros(if is_short && rate > 0 { 96 } else { 192 })
}

/// A frame is so many whole microseconds long, as its header says.
fn dsss(preamble: Span, bits: u64, bytes: u32) -> Span {
    preamble + Span::from_micros((16 * u64::from(bytes)).div_ceil(bits))
}

impl Modulation {
    pub fn new(config: &WifiConfig, mcs: u8) -> Modulation {
        let (standard, mcs) = (config.standard, usize::from(mcs));
        let rate = if standard.is_b() { Some(mcs) } else { config.dsss.map(usize::from) };
        if let Some(rate) = rate {
            // Basic rates of access points: 1 and 2 Mbit/s of b, all four where others are served (hostapd).
            let basic = if standard.is_b() { rate.min(1) } else { rate };
            let preamble = |rate| dsss_preamble(rate, config.short_preamble);
            return Modulation {
                preamble: preamble(rate),
                symbol: Span::from_micros(2),
                bits: DSSS[rate],
                around: 0,
                control: Control::Dsss(preamble(basic), DSSS[basic]),
                sifs: DSSS_SIFS,
            };
        }
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
            (B, _) => unreachable!("it has DSSS rates"),
        };
        let bits = match standard.amendment {
            A => LEGACY[mcs],
            _ => standard.subcarriers() * u64::from(config.nss) * TWELFTHS[mcs] / 12,
        };
        Modulation {
            preamble: Span(preamble),
            symbol: Span(symbol),
            bits,
            around: SERVICE_AND_TAIL,
            control: Control::Ofdm(control),
            sifs: SIFS,
        }
    }
    /// A PPDU with a PSDU of so many bytes.
    pub fn ppdu(&self, bytes: u32) -> Span {
        if let Control::Dsss(..) = self.control {
            return dsss(self.preamble, self.bits, bytes);
        }
        let symbols = (self.around + 8 * u64::from(bytes)).div_ceil(self.bits);
        self.preamble + self.symbol * symbols
    }
    /// Mbit/s while data is sent.
    pub fn mbps(&self) -> f64 {
        self.bits as f64 * 1e3 / self.symbol.0 as f64
    }
    /// Of 802.11a or b: frames of their own, never aggregates.
    pub fn is_legacy(&self) -> bool {
        self.preamble.0 == 20_000 || matches!(self.control, Control::Dsss(..))
    }
    pub fn preamble(&self) -> Span {
        self.preamble
    }
    /// Not more bytes than fit into a PPDU of this time.
    pub fn fits(&self, time: Span) -> u32 {
        let symbols = (time - self.preamble).0 / self.symbol.0;
        ((symbols * self.bits).saturating_sub(self.around) / 8).min(u64::from(u32::MAX)) as u32
    }
    /// A control frame.
    pub fn control(&self, bytes: u32) -> Span {
        match self.control {
            Control::Dsss(preamble, bits) => dsss(preamble, bits, bytes),
            Control::Ofdm(bits) => {
                let symbols = (SERVICE_AND_TAIL + 8 * u64::from(bytes)).div_ceil(bits);
                Span(20_000 + 4_000 * symbols)
            }
        }
    }
}
