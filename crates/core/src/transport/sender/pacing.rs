//! The pacing clock: when the next segment may leave, at which rate, and how many leave together.

use super::GSO_MAX_BYTES;
use crate::cc::{Burst, Pace, Window};
use crate::time::{Span, Time};
use crate::transport::rtt::RttEstimator;
use crate::units::ETHERNET_HEADER;

/// Segments of a new connection that pacing does not hold back (Linux `tcp_update_skb_after_send`).
const UNPACED_START: u32 = 10;
/// Pacing rate over window/srtt, percent: in slow start and after (Linux
/// `tcp_pacing_ss_ratio`, `tcp_pacing_ca_ratio`).
const SLOW_START: u64 = 200;
const AVOIDANCE: u64 = 120;
/// A burst is worth 2^-10 s at the pacing rate (Linux `sk_pacing_shift`), at most 64 KiB, plus more
/// at very short RTTs (`tcp_tso_rtt_log`), at least two segments.
const BURST_SHIFT: u32 = 10;
const BURST_MAX_BYTES: u64 = GSO_MAX_BYTES;
const BURST_RTT_SHIFT: u32 = 9;

/// When the next segment may leave.
#[derive(Clone, Debug)]
pub struct Pacing {
    /// Segments leave at the pacing rate rather than when ACKs arrive.
    pub is_on: bool,
    limit: u64,
    /// Most segments per burst.
    most: u32,
    /// Bytes of payload per second.
    pub rate: u64,
    /// Segments per burst, and the least of them that the host allows.
    pub burst: u32,
    pub least_burst: u32,
    /// When the next segment may leave (paced), or the last one left.
    pub clock: Time,
    /// When a segment that waits for the clock leaves.
    pub wake_at: Time,
    /// Segments sent, counted while pacing does not hold them back.
    pub sent: u32,
}

impl Default for Pacing {
    fn default() -> Pacing {
        Pacing {
            is_on: false,
            limit: u64::MAX,
            most: u32::MAX,
            rate: u64::MAX,
            burst: u32::MAX,
            least_burst: 0,
            clock: Time::ZERO,
            wake_at: Time::NEVER,
            sent: 0,
        }
    }
}

impl Pacing {
    /// With at most so many segments per burst.
    pub fn of_bursts(most: u32) -> Pacing {
        Pacing { most, ..Pacing::default() }
    }

    /// Must the next segment wait for the clock? If so, sets the timer.
    #[inline(always)]
    pub fn blocks(&mut self, now: Time) -> bool {
        if !self.is_on || self.clock <= now {
            return false;
        }
        self.wake_at = self.clock;
        true
    }

    /// So many new segments leave.
    #[inline(always)]
    pub fn count(&mut self, segments: u32) {
        if self.sent < UNPACED_START {
            self.sent += segments;
        }
    }

    /// Advances the clock by a burst of `bytes`. What a burst left late is given back, up
    /// to half of its own time.
    #[inline]
    pub fn charge(&mut self, now: Time, bytes: u64) {
        let prior = self.clock;
        self.clock = self.clock.max(now);
        if !self.is_on || self.rate == 0 || self.sent < UNPACED_START {
            return;
        }
        let length = Span(bytes * 1_000_000_000 / self.rate);
        let late = self.clock.since(prior);
        self.clock += length - late.min(length / 2);
    }

    /// A cap on the rate, which counts frames, while the clock counts payload.
    pub fn cap(&mut self, bps: u64, win: &Window) {
        let frame = u64::from(win.mtu() + ETHERNET_HEADER);
        self.limit = bps * u64::from(win.mss) / frame / 8;
    }

    /// Rate and burst after an ACK: the controller's, or Linux's. The rate from window and RTT is always
    /// computed (burst size and HyStart use it), enforced only if someone asked for pacing.
    #[inline(always)]
    pub fn follow(&mut self, pace: Pace, win: &Window, packets_out: u32, rtt: &RttEstimator) {
        let rate = match pace.rate {
            Some(rate) => rate,
            None => {
                let percent = if win.cwnd < win.ssthresh / 2 { SLOW_START } else { AVOIDANCE };
                let window = win.cwnd.max(packets_out);
                // bytes/s = mss * window / srtt; 8e6 because srtt8 is in eighths of a µs.
                let per_srtt = u64::from(win.mss) * 80_000 * percent * u64::from(window);
                per_srtt / rtt.srtt8().max(1)
            }
        };
        self.rate = rate.min(self.limit);
        let burst = match pace.burst {
            Burst::Exactly(segments) => segments,
            Burst::AtLeast(segments) => {
                self.autosize(rtt.min_us(), win.mss).max(segments).max(self.least_burst)
            }
        };
        self.burst = burst.min(self.most);
    }

    /// Linux's burst (`tcp_tso_autosize`).
    #[inline(always)]
    fn autosize(&self, min_rtt_us: u32, mss: u32) -> u32 {
        let mut bytes = self.rate >> BURST_SHIFT;
        let shift = min_rtt_us >> BURST_RTT_SHIFT;
        if shift < 32 {
            bytes += BURST_MAX_BYTES >> shift;
        }
        (bytes.min(BURST_MAX_BYTES) / u64::from(mss)) as u32
    }
}
