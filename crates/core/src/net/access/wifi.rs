//! A Wi-Fi cell (IEEE 802.11 EDCA with aggregation): one access point and its stations take turns on one channel,
//! in both directions.
//!
//! `phy.rs` has rates and durations. Here are the rules by which contenders, each a node and an access category, win the
//! channel (backoff, collisions), build a PPDU of MPDUs for one receiver, and repeat what the block
//! acknowledgement does not name. Nothing is captured in a collision, everybody hears everybody, and block
//! acknowledgements are not lost; `docs/access.md` lists what else is left out.

mod air;
pub mod phy;

use self::air::Cell;
use self::phy::Standard;
use super::{MediumConfig, MediumKind, Place, Subscribers};
use crate::net::medium::{Medium, Way};
use crate::net::parts::Parts;
use crate::params::kinds::{Spec, choice, count, grammar, params, real, size, time, words};
use crate::params::{Described, Gauge, Given, Refused, Words, gauge};
use crate::time::Span;
use crate::units::Rate;

/// `aPPDUMaxTime` (802.11-2020).
const PPDU_MOST: Span = Span::from_micros(5484);

params! {
    pub struct WifiConfig {
        /// amendment and channel width in MHz
        standard: Standard = Standard::AX80, standard(), "";
        /// spatial streams
        nss: u8 = 1, count(1..=8), "";
        /// modulation and coding scheme; of a, by its place among 6, 9, 12, 18, 24, 36, 48 and 54 Mbit/s
        mcs: u8 = 7, count(0..=11), "";
        gi: Guard = Guard::Usual, guard(), "0.8us";
        /// probability that an MPDU of a 1500-B packet is lost in a PPDU without collision
        per: f64 = 0.0, real("PROBABILITY", "a number from 0 to 1", |p| (0.0..=1.0).contains(&p), (0.0, 0.5)), "";
        /// MPDUs of an A-MPDU at most, which is the window of the block acknowledgement too; 1: no aggregation
        ampdu: Option<u16> = None, some_count().default("64, or 256 with ax"), "802.11, negotiated";
        /// largest A-MPDU in bytes
        ampdu_bytes: Option<u32> = None, size(2048..=6_500_631).optional().called(&["ampdu-bytes"])
            .default("65535 (n), 1048575 (ac), 6500631 (ax)"), "802.11";
        /// longest PPDU
        ppdu: Span = PPDU_MOST, time(Span::from_micros(100)..=PPDU_MOST), "aPPDUMaxTime";
        /// largest number of retransmissions of an MPDU
        retry: u8 = 7, count(0..=255), "802.11";
        /// PSDUs longer than this are announced with RTS and CTS
        rts: Option<u32> = None, size(0..=6_500_631).optional().default("never"), "Linux";
        eifs: bool = true, words([
            ("eifs", true, "everybody waits for EIFS after a collision"),
            ("noeifs", false, "everybody waits for AIFS only"),
        ]), "802.11";
        scheduler: Scheduler = Scheduler::Airtime, words([
            ("airtime", Scheduler::Airtime, "the access point gives each station the same airtime"),
            ("noairtime", Scheduler::Turns, "stations take turns, a PPDU each"),
            ("fifo", Scheduler::Fifo, "one queue for all stations, as before Linux 4.8"),
        ]), "mac80211";
        edca: Edca = Edca::Stations, words([
            ("sta-edca", Edca::Stations, "the access point contends as stations do"),
            ("ap-edca", Edca::AccessPoint, "it has AIFSN 1 for video and voice, and CWmax 63 for best effort"),
        ]), "mac80211";
        /// TXOP limit of best effort; 0: one PPDU
        txop_be: Span = Span::ZERO, time(Span::ZERO..=Span::from_micros(8160)).called(&["txop-be"]), "mac80211";
        /// AIFSN of best effort
        aifsn_be: u8 = 3, count(1..=15).called(&["aifsn-be"]), "802.11";
        /// access category of DSCP 45
        nqb: Nqb = Nqb::Video, nqb(), "";
        wpa2: bool = false, words([
            ("open", false, "no encryption"),
            ("wpa2", true, "16 bytes more for each MPDU"),
        ]), "";
    }
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Guard {
    /// 0.8 us.
    Usual,
    /// 0.4 us, of n and ac.
    Short,
    /// Of ax.
    Double,
    Long,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Scheduler {
    Airtime,
    Turns,
    Fifo,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Edca {
    Stations,
    AccessPoint,
}

/// Where packets with DSCP 45 go (RFC 9956).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Nqb {
    BestEffort,
    Video,
}

fn nqb() -> Spec<Nqb> {
    choice("be|vi", [("be", Nqb::BestEffort), ("vi", Nqb::Video)])
}

fn standard() -> Spec<Standard> {
    Standard::ALL
        .iter()
        .fold(words([]), |spec, standard| spec.or(standard.name(), *standard, standard.help()))
}

const GUARD: &str = "0.4us, 0.8us, 1.6us or 3.2us";

fn guard() -> Spec<Guard> {
    let names = [
        ("0.8us", Guard::Usual),
        ("0.4us", Guard::Short),
        ("1.6us", Guard::Double),
        ("3.2us", Guard::Long),
    ];
    grammar(
        "TIME",
        GUARD,
        move |_: &Guard, words: &mut Words| {
            words.value(GUARD, |s| names.iter().find(|(name, _)| *name == s).map(|(_, g)| *g))
        },
        move |guard| names.iter().find(|(_, g)| g == guard).map(|(name, _)| (*name).to_owned()),
        &["0.8us"],
        &["0.5us", "x"],
    )
    .also("sgi", |guard| *guard = Guard::Short, "guard interval of 0.4us, of n and ac")
}

fn some_count() -> Spec<Option<u16>> {
    count(1..=256_u16).mapped(Some, |n: &Option<u16>| *n)
}

impl Described for WifiConfig {
    const NAME: &'static str = "wifi";
    const SUMMARY: &'static str =
        "Wi-Fi cell: EDCA, aggregation, block acknowledgement; stations share the channel";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] = &[
        gauge("airtime_pct", "%", "of the time, in exchanges of this direction, with collisions"),
        gauge("idle_pct", "%", "of the time, when nobody had the channel"),
        gauge("ampdu_mpdus", "", "MPDUs per PPDU, mean"),
        gauge("retry_pct", "%", "of MPDUs, those sent again"),
        gauge("collision_pct", "%", "of accesses of this direction, those that collided"),
        gauge("cw", "", "contention window of the last access"),
    ];

    const FIXED: &'static [&'static str] = &["a", "airtime", "sta-edca", "aifsn-be", "nqb", "open"];

    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        self.check(given)
    }
}

impl WifiConfig {
    fn check(&mut self, given: &Given) -> Result<(), Refused> {
        let is_ax = self.standard.is_ax();
        let fits = match self.gi {
            Guard::Usual => true,
            Guard::Short => self.standard.is_n() || self.standard.is_ac(),
            Guard::Double | Guard::Long => is_ax,
        };
        let name = self.standard.name();
        if !fits {
            let fix = format!("{name} has not this guard interval");
            let said = if given.has("sgi") { "sgi" } else { "gi" };
            return Err(given.refuse(said, self.guard_name().to_owned(), fix));
        }
        let streams = self.standard.most_streams();
        if self.nss > streams {
            return Err(given.refuse(
                "nss",
                self.nss.to_string(),
                format!("{name} has at most {streams}"),
            ));
        }
        if let Err(fix) = self.standard.check_mcs(self.mcs, self.nss) {
            return Err(given.refuse("mcs", self.mcs.to_string(), fix));
        }
        let most = self.standard.most_mpdus();
        if self.ampdu.is_some_and(|ampdu| ampdu > most) {
            let value = self.ampdu.unwrap_or_default().to_string();
            return Err(given.refuse("ampdu", value, format!("{name} has at most {most}")));
        }
        Ok(())
    }
    fn guard_name(&self) -> &'static str {
        match self.gi {
            Guard::Usual => "0.8us",
            Guard::Short => "0.4us",
            Guard::Double => "1.6us",
            Guard::Long => "3.2us",
        }
    }
    pub fn most_mpdus(&self) -> u16 {
        self.ampdu.unwrap_or(self.standard.most_mpdus())
    }
    pub fn most_bytes(&self) -> u32 {
        self.ampdu_bytes.unwrap_or(self.standard.most_bytes())
    }
}

impl MediumKind for WifiConfig {
    const OF_STATIONS: &'static [&'static str] = &["nss", "mcs", "gi", "sgi", "per"];

    /// The rate of a single saturated sender of full packets.
    fn rates(&self) -> [Rate; 2] {
        let rate = air::saturated(self);
        [rate, rate]
    }
    fn parts(&self, way: Way, users: &Subscribers) -> Parts {
        if way == Way::Down && self.scheduler == Scheduler::Fifo {
            return Parts::default();
        }
        let category = match self.nqb {
            Nqb::Video => air::category,
            Nqb::BestEffort => air::category_nqb_be,
        };
        let stations = users.of_group.clone();
        Parts { stations, category: Some(category), ..Parts::default() }
    }
    fn build(&self, place: &Place, users: &Subscribers) -> Box<dyn Medium> {
        let of_station = |config: &MediumConfig| match config {
            MediumConfig::Wifi(config) => config.clone(),
            _ => self.clone(),
        };
        let mut stations: Vec<_> = users.stations.iter().map(of_station).collect();
        if stations.is_empty() {
            stations.push(self.clone());
        }
        Box::new(Cell::new(self, stations, users.of_group.clone(), place))
    }
}
