//! Round-trip time: the estimator of RFC 6298 in Linux's form, the retransmission timeout, and the
//! windowed minimum.

use crate::time::{Span, Time};
use crate::windowed::WindowedMin;

/// Floor of the deviation term, hence of the timeout above srtt (RFC 6298 says 1 s; Linux 200 ms), unless a host
/// has its own.
pub const RTO_MIN: Span = Span::from_millis(200);
/// Linux keeps that of a host in ticks (`tcp_rto_min_us`, HZ=250).
const TICK_US: u64 = 4_000;
/// Timeout before the first sample (RFC 6298, 2.1).
pub const RTO_INITIAL: Span = Span::from_secs(1);
/// Ceiling of the backed-off timeout (Linux `TCP_RTO_MAX`).
pub const RTO_MAX: Span = Span::from_secs(120);
/// How long a minimum is believed (Linux `tcp_min_rtt_wlen`).
const MIN_RTT_WINDOW_MS: u32 = 300_000;

/// Smoothed RTT and its deviation, in microseconds. `srtt` is kept eightfold, the deviations
/// fourfold, so that gains of 1/8 and 1/4 are shifts and remainders are not lost.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    srtt8: u64,
    mdev4: u64,
    /// Largest deviation of this round trip.
    mdev_max4: u64,
    rttvar4: u64,
    /// End of the round trip over which `mdev_max4` is taken.
    round_end: u32,
    min: WindowedMin,
    /// In microseconds.
    rto_min: u64,
}

impl Default for RttEstimator {
    fn default() -> Self {
        RttEstimator::new(RTO_MIN)
    }
}

impl RttEstimator {
    pub fn new(rto_min: Span) -> RttEstimator {
        let floor = rto_min.as_micros().div_ceil(TICK_US) * TICK_US;
        RttEstimator {
            srtt8: 0,
            mdev4: 0,
            mdev_max4: floor,
            rttvar4: floor,
            round_end: 0,
            min: WindowedMin::default(),
            rto_min: floor,
        }
    }
    /// By so much the timeout is later than an RTT at least.
    #[inline]
    pub fn rto_min(&self) -> Span {
        Span::from_micros(self.rto_min)
    }

    /// Takes a sample (µs). A deviation below the estimate is given an eighth of the usual gain,
    /// so that falling RTTs do not widen the timeout.
    pub fn sample(&mut self, rtt_us: u32, snd_una: u32, snd_nxt: u32) {
        let floor = self.rto_min;
        let m = u64::from(rtt_us.max(1));
        if self.srtt8 == 0 {
            self.srtt8 = m << 3;
            self.mdev4 = m << 1;
            self.rttvar4 = self.mdev4.max(floor);
            self.mdev_max4 = self.rttvar4;
            self.round_end = snd_nxt;
            return;
        }
        let err = m as i64 - (self.srtt8 >> 3) as i64;
        self.srtt8 = (self.srtt8 as i64 + err).max(1) as u64;
        let mut change = err.abs() - (self.mdev4 >> 2) as i64;
        if err < 0 && change > 0 {
            change >>= 3;
        }
        self.mdev4 = (self.mdev4 as i64 + change).max(0) as u64;
        if self.mdev4 > self.mdev_max4 {
            self.mdev_max4 = self.mdev4;
            self.rttvar4 = self.rttvar4.max(self.mdev_max4);
        }
        if snd_una > self.round_end {
            if self.mdev_max4 < self.rttvar4 {
                self.rttvar4 -= (self.rttvar4 - self.mdev_max4) >> 2;
            }
            self.round_end = snd_nxt;
            self.mdev_max4 = floor;
        }
    }

    /// Takes a sample for the minimum.
    #[inline]
    pub fn sample_min(&mut self, now: Time, rtt_us: u32) {
        let ms = (now.0 / 1_000_000) as u32;
        self.min.update(MIN_RTT_WINDOW_MS, ms, rtt_us.max(1));
    }
    /// Smoothed RTT; zero before the first sample.
    #[inline]
    pub fn srtt(&self) -> Span {
        Span::from_micros(self.srtt8 >> 3)
    }
    /// Smoothed RTT in eighths of a microsecond.
    #[inline]
    pub fn srtt8(&self) -> u64 {
        self.srtt8
    }
    /// Smallest RTT of the last 300 s in µs; `u32::MAX` before the first sample.
    #[inline]
    pub fn min_us(&self) -> u32 {
        self.min.get()
    }
    /// Retransmission timeout without back-off.
    #[inline]
    pub fn rto(&self) -> Span {
        if self.srtt8 == 0 {
            return RTO_INITIAL;
        }
        Span::from_micros((self.srtt8 >> 3) + self.rttvar4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sample_sets_the_timeout_to_three_rtts_but_not_below_the_floor() {
        let mut e = RttEstimator::default();
        e.sample(1_000_000, 0, 10);
        assert_eq!(e.srtt(), Span::from_secs(1));
        assert_eq!(e.rto(), Span::from_secs(3));
        let mut e = RttEstimator::default();
        e.sample(10_000, 0, 10);
        assert_eq!(e.rto(), Span::from_millis(210));
    }

    /// The estimate takes an RTT of more than 2^32 eighths of a microsecond.
    #[test]
    fn a_long_rtt_is_not_cut() {
        let mut e = RttEstimator::default();
        e.sample(4_000_000_000, 0, 10);
        assert_eq!(e.srtt(), Span::from_secs(4_000));
        assert_eq!(e.rto(), Span::from_secs(12_000));
        e.sample(4_000_000_000, 11, 20);
        assert_eq!(e.srtt(), Span::from_secs(4_000));
    }

    /// The minimum of 300 s is known in a run of 100 days, too.
    #[test]
    fn a_minimum_is_forgotten_after_its_window() {
        let mut e = RttEstimator::default();
        let mut now = Time::ZERO;
        for period in 0..100 * 86_400 / 150 {
            let low = if period % 4 == 0 { 10_000 } else { 20_000 };
            e.sample_min(now, low);
            now += Span::from_secs(150);
            // A low sample is 0, 150, 300 or 450 s old.
            let expected = if period % 4 == 3 { 20_000 } else { 10_000 };
            assert_eq!(e.min_us(), expected, "{now:?}");
        }
    }

    #[test]
    fn a_step_in_rtt_is_followed_with_gain_one_eighth() {
        let mut e = RttEstimator::default();
        e.sample(10_000, 0, 10);
        e.sample(18_000, 1, 11);
        assert_eq!(e.srtt(), Span::from_micros(11_000));
    }
}
