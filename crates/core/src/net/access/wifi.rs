//! A Wi-Fi cell (IEEE 802.11 EDCA with aggregation): one access point and its stations take turns on one channel,
//! in both directions.
//!
//! `phy.rs` has rates and durations, `adaptation.rs` chooses among rates, `driver.rs` limits what waits below the queues.
//! In `air.rs` are the rules by which contenders, each a node and an access category, win the
//! channel (backoff, collisions), build a PPDU of MPDUs for one receiver, and repeat what the block
//! acknowledgement does not name. Nothing is captured in a collision, everybody hears everybody, and block
//! acknowledgements are not lost; `docs/access.md` lists what else is left out.

mod adaptation;
mod air;
mod driver;
pub mod phy;

use self::air::Cell;
use self::phy::Standard;
use super::{MediumConfig, MediumKind, Place, Subscribers};
use crate::net::air::Way;
use crate::net::medium::Medium;
use crate::net::parts::{BE, Parts, VI, VO};
use crate::params::kinds::{
    MICROSECOND, Spec, choice, count, grammar, params, real, size, time, words,
};
use crate::params::{Described, Gauge, Given, Refused, Words, gauge};
use crate::tc::format_time;
use crate::time::Span;
use crate::units::Rate;

/// `aPPDUMaxTime` (802.11-2020).
const PPDU_MOST: Span = Span::from_micros(5484);

/// 802.11b's rates, Mbit/s.
const DSSS: [&str; 4] = ["1", "2", "5.5", "11"];
/// 100 time units of 1024 us (hostapd's `beacon_int`).
const BEACON: Span = Span::from_micros(102_400);
/// Aggregates that a card has: one under way and the next one (ath9k's `ATH_AGGR_MIN_QDEPTH`).
const STATIONS_AHEAD: u8 = 2;

params! {
    pub struct WifiConfig {
        /// amendment and channel width in MHz
        standard: Standard = Standard::AX80, standard(), "";
        /// spatial streams
        nss: u8 = 1, count(1..=8), "";
        /// modulation and coding scheme, the highest one with rate control; of a, by its place among 6, 9, 12, 18, 24, 36, 48
        /// and 54 Mbit/s; of b, among 1, 2, 5.5 and 11 Mbit/s
        mcs: Option<u8> = None, count(0..=11_u8).mapped(Some, |n: &Option<u8>| *n).default("7, of b 3; with rate control the highest of the amendment"), "";
        /// 802.11b rate of a station in a cell of another amendment, in place of mcs; no aggregation
        dsss: Option<u8> = None, dsss().default("none"), "";
        short_preamble: bool = false, words([
            ("long-preamble", false, "192 us before each frame at 802.11b's rates"),
            ("short-preamble", true, "96 us, but for 1 Mbit/s"),
        ]), "802.11b";
        /// rate control: none, the scheme of highest expected throughput at the SNR of the instant, or Linux's by statistics
        rate: Control = Control::Fixed, choice("fixed|ideal|minstrel", [
            ("fixed", Control::Fixed),
            ("ideal", Control::Ideal),
            ("minstrel", Control::Minstrel),
        ]), "";
        /// signal-to-noise ratio in 20 MHz, from which losses follow, in place of per
        snr: Option<f64> = None, real("DB", "a number of dB from 0 to 60", |snr| (0.0..=60.0).contains(&snr), (0.0, 45.0)).optional().default("by per"), "";
        /// standard deviation of the SNR
        sd: Option<f64> = None, real("DB", "a number of dB from 0 to 20", |sd| (0.0..=20.0).contains(&sd), (0.0, 8.0)).optional().default("0"), "";
        /// time constant of the SNR's variation
        tau: Option<Span> = None, time(Span::from_millis(1)..=Span::from_secs(1000)).optional().default("200ms"), "";
        gi: Guard = Guard::Usual, guard(), "0.8us";
        /// probability that an MPDU of a 1500-B packet is lost in a PPDU without collision
        per: f64 = 0.0, real("PROBABILITY", "a number from 0 to 1", |p| (0.0..=1.0).contains(&p), (0.0, 0.5)), "";
        /// MPDUs of an A-MPDU at most, which is the window of the block acknowledgement too; 1: no aggregation
        ampdu: Option<u16> = None, some_count().default("64, or 256 with ax"), "802.11, negotiated";
        /// largest A-MPDU in bytes
        ampdu_bytes: Option<u32> = None, size(2048..=6_500_631).optional().called(&["ampdu-bytes"])
            .default("65535 (n), 1048575 (ac), 6500631 (ax)"), "802.11";
        /// largest A-MSDU in bytes: packets in one MPDU, which is lost as a whole; 0: none
        amsdu: u32 = 0, size(0..=11_424), "";
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
        /// limits of the airtime that waits in the driver
        aql: bool = false, words([
            ("no-aql", false, "packets leave the queue when their PPDU begins"),
            ("aql", true, "they wait in the driver, up to the limits of Linux's airtime queue limits"),
        ]), "";
        /// a station and access category always gets packets below this
        aql_low: Option<Span> = None, time(MICROSECOND..=Span::from_secs(1)).optional().called(&["aql-low"]).default("5ms"), "mac80211";
        /// and below this while the whole device has less than aql-threshold
        aql_high: Option<Span> = None, time(MICROSECOND..=Span::from_secs(1)).optional().called(&["aql-high"]).default("12ms"), "mac80211";
        /// airtime of all stations above which aql-low holds
        aql_threshold: Option<Span> = None, time(MICROSECOND..=Span::from_secs(1)).optional().called(&["aql-threshold"]).default("24ms"), "mac80211";
        /// how stations limit what waits in their drivers, where the access point has aql
        sta_aql: bool = false, words([
            ("sta-ahead", false, "stations have cards with aggregates ready"),
            ("sta-aql", true, "stations have the limits of aql too"),
        ]), "";
        /// aggregates that a card without aql takes from its queue in advance, with the one under way
        ahead: Option<u8> = None, count(0..=16_u8).mapped(Some, |n: &Option<u8>| *n).default("0; with aql 2, of stations"), "ath9k: 2";
        edca: Edca = Edca::Stations, words([
            ("sta-edca", Edca::Stations, "the access point contends as stations do"),
            ("ap-edca", Edca::AccessPoint, "it has AIFSN 1 for video and voice, and CWmax 63 for best effort"),
        ]), "mac80211";
        /// TXOP limit of best effort; 0: one PPDU
        txop_be: Span = Span::ZERO, txop().called(&["txop-be"]), "mac80211";
        /// that of the access point, where it is another
        ap_txop_be: Option<Span> = None, txop().optional().called(&["ap-txop-be"]).default("txop-be"), "OpenWrt: 2ms";
        /// of background
        txop_bk: Span = Span::ZERO, txop().called(&["txop-bk"]), "mac80211";
        /// of video
        txop_vi: Option<Span> = None, txop().optional().called(&["txop-vi"]).default("3008us, 6016us of b"), "mac80211";
        /// of voice
        txop_vo: Option<Span> = None, txop().optional().called(&["txop-vo"]).default("1504us, 3264us of b"), "mac80211";
        cf_end: bool = true, words([
            ("cf-end", true, "who ends a TXOP before its limit gives the rest back with CF-End"),
            ("no-cf-end", false, "others contend right after the last exchange of a TXOP"),
        ]), "802.11";
        /// time between beacons
        beacon: Span = BEACON, time(Span::from_millis(10)..=Span::from_secs(10))
            .or("no-beacons", Span::ZERO, "the access point sends no beacons"), "hostapd";
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
pub enum Control {
    Fixed,
    Ideal,
    Minstrel,
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

fn txop() -> Spec<Span> {
    time(Span::ZERO..=Span::from_micros(8160))
}

fn dsss() -> Spec<Option<u8>> {
    let rate = |i: u8| (DSSS[usize::from(i)], i);
    choice("1|2|5.5|11", [rate(0), rate(1), rate(2), rate(3)]).mapped(Some, |n: &Option<u8>| *n)
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
    const MORE_GAUGES: &'static [Gauge] = &[
        gauge("mcs", "", "modulation and coding scheme, mean of PPDUs"),
        gauge(
            "driver_ms",
            "ms",
            "with aql or ahead: the most airtime that one station and category had in the driver, as Linux estimates it",
        ),
    ];

    const FIXED: &'static [&'static str] = &[
        "b",
        "rate",
        "airtime",
        "no-aql",
        "sta-ahead",
        "ahead",
        "sta-edca",
        "aifsn-be",
        "beacon",
        "nqb",
        "open",
    ];
    const CHANGES_ALONE: bool = false;

    fn has_more_gauges(&self) -> bool {
        self.has_driver() || self.rate != Control::Fixed
    }
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
        if let Err(fix) = self.standard.check_mcs(self.mcs(), self.nss) {
            return Err(given.refuse("mcs", self.mcs().to_string(), fix));
        }
        self.check_snr(given)?;
        self.check_aql(given)?;
        let is_dsss = self.standard.is_b() || self.dsss.is_some();
        if let (true, Some(rate)) = (self.standard.is_b(), self.dsss) {
            let value = DSSS[usize::from(rate)].to_owned();
            return Err(given.refuse("dsss", value, format!("b has this rate as mcs {rate}")));
        }
        if let (true, Some(snr)) = (is_dsss, self.snr) {
            let fix = "802.11b's rates have no losses by signal here; use per".to_owned();
            return Err(given.refuse("snr", snr.to_string(), fix));
        }
        let most = self.standard.most_amsdu();
        if self.amsdu > most {
            let value = self.amsdu.to_string();
            return Err(given.refuse("amsdu", value, format!("{name} has at most {most} bytes")));
        }
        let most = self.standard.most_mpdus();
        if self.ampdu.is_some_and(|ampdu| ampdu > most) {
            let value = self.ampdu.unwrap_or_default().to_string();
            return Err(given.refuse("ampdu", value, format!("{name} has at most {most}")));
        }
        Ok(())
    }
    fn check_snr(&self, given: &Given) -> Result<(), Refused> {
        let needs = |keyword, value| {
            Err(given.refuse(
                keyword,
                value,
                "it needs snr DB, from which losses follow".to_owned(),
            ))
        };
        match (self.snr, self.sd, self.tau) {
            (Some(_), ..) if self.per > 0.0 => {
                let fix = "losses follow from snr; leave out one of them".to_owned();
                Err(given.refuse("per", self.per.to_string(), fix))
            }
            (Some(_), None, Some(tau)) => {
                let fix = "snr varies only with sd; say sd DB too".to_owned();
                Err(given.refuse("tau", format_time(tau), fix))
            }
            (None, Some(sd), _) => needs("sd", sd.to_string()),
            (None, _, Some(tau)) => needs("tau", format_time(tau)),
            (None, ..) if self.rate == Control::Ideal => needs("rate", "ideal".to_owned()),
            (None, ..) if self.rate == Control::Minstrel => needs("rate", "minstrel".to_owned()),
            _ => Ok(()),
        }
    }
    fn check_aql(&self, given: &Given) -> Result<(), Refused> {
        let limits = [
            ("aql-low", self.aql_low),
            ("aql-high", self.aql_high),
            ("aql-threshold", self.aql_threshold),
        ];
        for (keyword, limit) in limits {
            if let (false, Some(limit)) = (self.aql, limit) {
                let fix = "nothing is limited without the word aql".to_owned();
                return Err(given.refuse(keyword, format_time(limit), fix));
            }
        }
        if self.sta_aql && !self.aql {
            let fix = "it needs aql, which the access point has then".to_owned();
            return Err(given.refuse("the word", "sta-aql".to_owned(), fix));
        }
        if self.aql && self.scheduler == Scheduler::Fifo {
            let fix = "aql limits queues of stations; leave out one of them".to_owned();
            return Err(given.refuse("the word", "fifo".to_owned(), fix));
        }
        if self.aql_low() > self.aql_high() {
            let fix = format!(
                "aql-high is {}; aql-low has to be at most that",
                format_time(self.aql_high())
            );
            return Err(given.refuse("aql-low", format_time(self.aql_low()), fix));
        }
        Ok(())
    }
    /// The scheme of fixed rate, or the highest one of rate control.
    pub fn mcs(&self) -> u8 {
        let usual = match self.rate {
            Control::Fixed if self.standard.is_b() => 3,
            Control::Fixed => 7,
            _ => self.schemes().last().unwrap_or(0),
        };
        self.mcs.unwrap_or(usual)
    }
    /// The schemes that the amendment has with these streams.
    pub fn schemes(&self) -> impl DoubleEndedIterator<Item = u8> {
        let (standard, nss) = (self.standard, self.nss);
        (0..=standard.most_mcs()).filter(move |mcs| standard.check_mcs(*mcs, nss).is_ok())
    }
    /// How long one who wins the channel may keep it.
    pub fn txop(&self, way: Way, category: usize) -> Span {
        let (video, voice) = if self.standard.is_b() { (6016, 3264) } else { (3008, 1504) };
        match (category, way) {
            (BE, Way::Down) => self.ap_txop_be.unwrap_or(self.txop_be),
            (BE, Way::Up) => self.txop_be,
            (VI, _) => self.txop_vi.unwrap_or(Span::from_micros(video)),
            (VO, _) => self.txop_vo.unwrap_or(Span::from_micros(voice)),
            _ => self.txop_bk,
        }
    }
    /// Aggregates that the cards of this way's senders have ready; none: they have limits of airtime.
    pub fn ready(&self, way: Way) -> Option<u8> {
        let usual = if self.aql { STATIONS_AHEAD } else { 0 };
        let has_aql = match way {
            Way::Down => self.aql,
            Way::Up => self.sta_aql,
        };
        (!has_aql).then_some(self.ahead.unwrap_or(usual))
    }
    /// Whether packets of a way wait in a driver.
    pub fn has(&self, way: Way) -> bool {
        let is_one_queue = way == Way::Down && self.scheduler == Scheduler::Fifo;
        !is_one_queue && self.ready(way) != Some(0)
    }
    pub fn has_driver(&self) -> bool {
        self.has(Way::Down) || self.has(Way::Up)
    }
    pub fn aql_low(&self) -> Span {
        self.aql_low.unwrap_or(Span::from_millis(5))
    }
    pub fn aql_high(&self) -> Span {
        self.aql_high.unwrap_or(Span::from_millis(12))
    }
    pub fn aql_threshold(&self) -> Span {
        self.aql_threshold.unwrap_or(Span::from_millis(24))
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
        match self.dsss {
            Some(_) => 1,
            None => self.ampdu.unwrap_or(self.standard.most_mpdus()),
        }
    }
    pub fn most_bytes(&self) -> u32 {
        self.ampdu_bytes.unwrap_or(self.standard.most_bytes())
    }
}

impl MediumKind for WifiConfig {
    const OF_STATIONS: &'static [&'static str] =
        &["nss", "mcs", "dsss", "short-preamble", "gi", "sgi", "per", "snr", "sd", "tau"];

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
