//! The modulation and coding scheme of each PPDU: fixed, the best for the SNR of the instant, or chosen by statistics of
//! what was acknowledged (Minstrel, after Linux's `rc80211_minstrel_ht.c`).

use super::phy::{self, Modulation, SIFS, SLOT};
use super::{Control, WifiConfig};
use crate::math;
use crate::net::access::process::Ar1;
use crate::net::air::Way;
use crate::net::parts::VO;
use crate::rng::Rng;
use crate::time::{Span, Time};

/// The length of the MPDU for which losses are said: of a 1500-B packet.
const LOSS_BYTES: f64 = 1538.0;
const TAU: Span = Span::from_millis(200);

/// The channel between the access point and a station, with the rate control of both ends.
pub struct Peer {
    config: WifiConfig,
    /// By scheme, also of those that the amendment does not have.
    modulations: Vec<Modulation>,
    schemes: Vec<usize>,
    variation: Ar1,
    rng: Rng,
    /// When the SNR was drawn last.
    drawn: Time,
    snr: f64,
    control: [Minstrel; 2],
    /// The last scheme in each direction.
    last: [usize; 2],
    /// PPDUs without any acknowledgement since the last one.
    failures: [u32; 2],
}

impl Peer {
    pub fn new(config: &WifiConfig, mut rng: Rng) -> Peer {
        let mut peer = Peer {
            config: config.clone(),
            modulations: Vec::new(),
            schemes: Vec::new(),
            variation: Ar1::new(&mut rng),
            rng,
            drawn: Time::ZERO,
            snr: 0.0,
            control: Default::default(),
            last: [0; 2],
            failures: [0; 2],
        };
        peer.change(config);
        peer
    }
    pub fn change(&mut self, config: &WifiConfig) {
        let number = usize::from(config.standard.most_mcs()) + 1;
        let most = usize::from(config.mcs());
        self.modulations = (0..number).map(|mcs| Modulation::new(config, mcs as u8)).collect();
        self.schemes = config.schemes().map(usize::from).filter(|mcs| *mcs <= most).collect();
        self.config = config.clone();
        self.set_snr();
        let first = match config.rate {
            Control::Fixed => most,
            _ => self.schemes[0],
        };
        for (control, last) in self.control.iter_mut().zip(&mut self.last) {
            control.statistics.resize(number, Statistic::default());
            // Of schemes that may no longer be used nothing is chosen.
            control.rank(&self.schemes, &self.modulations);
            if config.rate == Control::Fixed || !self.schemes.contains(last) {
                *last = first;
            }
        }
    }
    fn set_snr(&mut self) {
        let varies = self.config.sd.unwrap_or(0.0) * self.variation.deviate;
        self.snr = self.config.snr.unwrap_or(0.0) + varies;
    }
    pub fn config(&self) -> &WifiConfig {
        &self.config
    }
    /// MPDUs of an A-MPDU at most, which is the window too. Linux does not aggregate voice (`minstrel_aggr_check`).
    pub fn most_mpdus(&self, category: usize) -> u32 {
        if category == VO { 1 } else { self.config.most_mpdus().into() }
    }
    pub fn modulation(&self, mcs: usize) -> &Modulation {
        &self.modulations[mcs]
    }
    pub fn last(&self, way: Way) -> &Modulation {
        &self.modulations[self.last[way as usize]]
    }

    /// The scheme of a PPDU that begins now.
    pub fn choose(&mut self, now: Time, way: Way) -> usize {
        if self.config.sd.is_some_and(|sd| sd > 0.0) && now > self.drawn {
            let tau = self.config.tau.unwrap_or(TAU);
            self.variation.step(&mut self.rng, now.since(self.drawn), tau);
            self.drawn = now;
            self.set_snr();
        }
        let mcs = match self.config.rate {
            Control::Fixed => usize::from(self.config.mcs()),
            Control::Ideal => self.ideal(),
            Control::Minstrel => {
                let failures = self.failures[way as usize];
                let control = &mut self.control[way as usize];
                control.choose(now, failures, &self.schemes, &self.modulations)
            }
        };
        self.last[way as usize] = mcs;
        mcs
    }
    /// The scheme with the highest rate times the probability of success.
    fn ideal(&self) -> usize {
        let rate = |mcs: &usize| self.modulations[*mcs].mbps() * (1.0 - self.loss(*mcs));
        let best = self.schemes.iter().copied().max_by(|a, b| rate(a).total_cmp(&rate(b)));
        best.expect("each amendment has schemes")
    }
    /// The probability that an MPDU of a 1500-B packet is lost.
    pub fn loss(&self, mcs: usize) -> f64 {
        match self.config.snr {
            Some(_) => self.config.standard.loss(mcs as u8, self.snr),
            None => self.config.per,
        }
    }
    /// So many MPDUs of a PPDU were acknowledged.
    pub fn report(&mut self, way: Way, mcs: usize, sent: usize, acknowledged: usize) {
        let failures = &mut self.failures[way as usize];
        *failures = if acknowledged > 0 { 0 } else { *failures + 1 };
        if self.config.rate == Control::Minstrel {
            self.control[way as usize].report(mcs, sent, acknowledged);
        }
    }
}

/// The probability that an MPDU of this length is lost, from that of a 1500-B packet.
pub fn loss_of(per: f64, bytes: u32) -> f64 {
    1.0 - math::pow(1.0 - per, f64::from(bytes) / LOSS_BYTES)
}

/// The best scheme at the mean SNR, or the fixed one.
pub fn expected(config: &WifiConfig) -> u8 {
    if config.rate == Control::Fixed {
        return config.mcs();
    }
    let peer = Peer::new(&WifiConfig { sd: None, ..config.clone() }, Rng::stream(0, "", 0));
    peer.ideal() as u8
}

/// How often success is computed anew, and how much of the old value is kept.
const UPDATE: Span = Span::from_millis(50);
const KEPT: f64 = 0.75;
/// One PPDU of so many tries another scheme.
const SAMPLING: u32 = 16;
/// A slower scheme is tried after so many updates without an attempt.
const STALE: u32 = 20;
/// A scheme with less success has no throughput, and success above this one counts no more.
const LEAST: f64 = 0.1;
const COUNTED: f64 = 0.9;
/// Among schemes with this success the fastest one is the most robust.
const ROBUST: f64 = 0.95;
/// Bytes of a packet in expected throughputs.
const AVERAGE: f64 = 1200.0;

#[derive(Copy, Clone, Default)]
struct Statistic {
    attempts: usize,
    successes: usize,
    /// None: never attempted.
    success: Option<f64>,
    /// Updates since the last attempt.
    idle: u32,
}

/// Rate control of one sender towards one receiver.
#[derive(Default)]
struct Minstrel {
    statistics: Vec<Statistic>,
    best: usize,
    second: usize,
    robust: usize,
    /// Mean number of MPDUs.
    aggregate: f64,
    ppdus: u32,
    next_update: Time,
}

impl Minstrel {
    fn choose(
        &mut self,
        now: Time,
        failures: u32,
        schemes: &[usize],
        modulations: &[Modulation],
    ) -> usize {
        if now >= self.next_update {
            self.next_update = now + UPDATE;
            self.update();
            self.rank(schemes, modulations);
        }
        match failures {
            0 => {
                self.ppdus += 1;
                let sample =
                    if self.ppdus.is_multiple_of(SAMPLING) { self.sample(schemes) } else { None };
                sample.unwrap_or(self.best)
            }
            1 => self.best,
            2 | 3 => self.second,
            _ => self.robust,
        }
    }
    fn report(&mut self, mcs: usize, sent: usize, acknowledged: usize) {
        let statistic = &mut self.statistics[mcs];
        statistic.attempts += sent;
        statistic.successes += acknowledged;
        self.aggregate = match self.aggregate > 0.0 {
            true => KEPT * self.aggregate + (1.0 - KEPT) * sent as f64,
            false => sent as f64,
        };
    }
    fn update(&mut self) {
        for one in &mut self.statistics {
            if one.attempts == 0 {
                one.idle += 1;
                continue;
            }
            let now = one.successes as f64 / one.attempts as f64;
            let success = one.success.map_or(now, |old| KEPT * old + (1.0 - KEPT) * now);
            *one = Statistic { success: Some(success), ..Statistic::default() };
        }
    }
    fn rank(&mut self, schemes: &[usize], modulations: &[Modulation]) {
        let throughput = |mcs: usize| self.throughput(mcs, &modulations[mcs]);
        let mut ranked = schemes.to_vec();
        // Of equal ones, as before the first attempts, the most robust is first.
        ranked.sort_by(|a, b| throughput(*b).total_cmp(&throughput(*a)).then(a.cmp(b)));
        let success = |mcs: usize| self.statistics[mcs].success.unwrap_or(0.0).min(ROBUST);
        let robust =
            ranked.iter().copied().rev().max_by(|a, b| success(*a).total_cmp(&success(*b)));
        let (best, second) = (ranked[0], *ranked.get(1).unwrap_or(&ranked[0]));
        (self.best, self.second, self.robust) = (best, second, robust.unwrap_or(best));
    }
    /// Packets per second, without the time in which the sender waits for others.
    fn throughput(&self, mcs: usize, modulation: &Modulation) -> f64 {
        let success = self.statistics[mcs].success.unwrap_or(0.0);
        if success < LEAST {
            return 0.0;
        }
        let access = SIFS + SLOT * 3 + SLOT * 15 / 2 + modulation.preamble();
        let access = access + SIFS + modulation.control(phy::BLOCK_ACK);
        let data = 8e3 * AVERAGE / modulation.mbps();
        1e9 * success.min(COUNTED) / (access.0 as f64 / self.aggregate.max(1.0) + data)
    }
    /// A neighbour of the best scheme: the faster one, or the slower one after a long time.
    fn sample(&self, schemes: &[usize]) -> Option<usize> {
        let place = schemes.iter().position(|mcs| *mcs == self.best)?;
        let faster = schemes.get(place + 1).copied();
        let slower = place.checked_sub(1).map(|i| schemes[i]);
        let is_useful = |mcs: &usize| {
            let one = &self.statistics[*mcs];
            *mcs > self.second || one.idle >= STALE
        };
        faster.filter(is_useful).or(slower.filter(is_useful))
    }
}
