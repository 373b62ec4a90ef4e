//! TCP Prague, versions 0.5 to 0.7 of the L4STeam module (draft-briscoe-iccrg-prague-congestion-control).
//!
//! DCTCP's law for the public Internet: an estimate alpha of the fraction of marked segments, a
//! reduction by alpha/2 per round trip with marks, one segment of growth per round trip spread over
//! the unmarked ones. What Prague adds: the window is fractional; below a target RTT of 25 ms it
//! grows and reacts as if the RTT were 25 ms (rate fairness whatever the RTT); sending is always
//! paced. From 0.7 on, with four segments or less it controls the rate instead of the window, and
//! shrinks segments so that two still fit into the target RTT. A loss halves the window. Without AccECN it
//! behaves as Reno. If the queue looks like a classic one it may reduce more ([`classic_ecn`]).
//!
//! Rates here count whole IP packets, bytes per second, as the module's do.

mod classic_ecn;
mod fraction;
mod options;

use self::classic_ecn::Detector;
use self::fraction::{ONE_SEGMENT, WINDOW_BITS};
pub use self::options::Options;
use self::options::{Config, MTU_REFERENCE, Mode, Scaling};
use super::reno::Reno;
use super::{
    Ack, Burst, Congestion, CongestionControl, Constants, Controller, EcnWish, Pace, Role, Window,
};
use crate::packet::TCP_IP_HEADERS;
use crate::probe::Gauges;
use crate::rng::Rng;
use crate::time::{Span, Time};

/// Gain of the estimate: g = 1/16.
const G_SHIFT: u32 = 4;
/// RTT independence ends above this RTT, eighths of a microsecond.
const MAX_SCALED_SRTT8: u32 = 100_000 * 8;
/// Of the "scalable" growth: where it meets one segment per RTT, and below which RTT it is a
/// proportion of that.
const SCALABLE_R0: u64 = 16_384 * 8;
const SCALABLE_R1: u64 = 1_536 * 8;
/// 100 kbit/s: below, segments shrink no further.
const RATE_MIN: u64 = 12_500;
/// Packets that must fit into a virtual RTT.
const PACKETS_PER_VIRTUAL_RTT: u64 = 2;
/// The pacing rate swings by 4/128 = 3 % around the rate within each virtual RTT, which draws a
/// few marks from a step AQM in every round instead of all in one.
const SWING_SHIFT: u32 = 7;
/// Gain of the slow RTT average that converts between rate and window: 1/128.
const SLOW_SRTT_SHIFT: u32 = 7;
/// Microseconds to seconds, in eighths: x / 2^23 is within 5 % of x / 8e6, as in the module.
const SRTT8_SECOND_SHIFT: u32 = 23;

impl Controller for Options {
    type Made = Prague;
    const ROLE: Role = Role::Scalable;
    const LOOK: u8 = 0;
    const NEEDS_ECN: bool = true;
    const OUT_OF_TREE: bool = true;
    const GIVES_WAY: bool = true;
    fn build(&self, _rng: Rng) -> Prague {
        Prague::new(self)
    }
}

/// Prague's window, alpha and mode.
#[derive(Clone, Debug)]
pub struct Prague {
    config: Config,
    detector: Option<Detector>,

    mode: Mode,
    /// alpha / g.
    alpha_over_g: u64,
    /// When alpha was last updated: start of the virtual RTT.
    alpha_stamp: Time,
    cwr_stamp: Time,
    /// Segments, WINDOW_BITS fractional bits.
    frac_window: u64,
    /// TCP's window as this controller left it.
    left_cwnd: u32,
    /// IP bytes per second.
    rate: u64,
    pacing_rate: u64,
    burst: u32,
    /// Growth per unmarked segment, in units of 1/window.
    increase: u64,
    /// Slow average of srtt8, times 128.
    slow_srtt8: u64,
    mtu_max: u32,
    round_end: u32,
    round_delivered: u32,
    round_delivered_ce: u32,
    /// Rounds since slow start ended.
    rounds: u32,
    saw_ce: bool,
    in_loss: bool,
    srtt8: u32,
    rate_before_loss: u64,
    window_before_loss: u64,
}

impl Prague {
    fn new(options: &Options) -> Prague {
        let config = Config::new(options);
        let alpha = if config.alpha_starts_at_one { 1 << config.alpha_bits } else { 0 };
        Prague {
            detector: Detector::new(config.fallback, config.alpha_bits),
            mode: config.fixed_mode.unwrap_or(Mode::Window),
            alpha_over_g: alpha << G_SHIFT,
            config,
            alpha_stamp: Time::ZERO,
            cwr_stamp: Time::ZERO,
            frac_window: 0,
            left_cwnd: 0,
            rate: RATE_MIN,
            pacing_rate: RATE_MIN,
            burst: 1,
            increase: ONE_SEGMENT,
            slow_srtt8: 1 << (SLOW_SRTT_SHIFT + 3),
            mtu_max: 1500,
            round_end: 0,
            round_delivered: 0,
            round_delivered_ce: 0,
            rounds: 0,
            saw_ce: false,
            in_loss: false,
            srtt8: 0,
            rate_before_loss: 0,
            window_before_loss: 0,
        }
    }

    fn alpha_one(&self) -> u64 {
        1 << self.config.alpha_bits
    }
    /// The RTT as RTT independence counts it, eighths of a microsecond.
    fn counted_srtt8(&self) -> u32 {
        self.srtt8 - self.srtt8 % self.config.rtt_unit8
    }
    fn target_srtt8(&self) -> u32 {
        match self.config.scaling {
            Scaling::Additive => self.config.target_srtt8.saturating_add(self.counted_srtt8()),
            _ => self.config.target_srtt8,
        }
    }
    fn target(&self) -> Span {
        Span::from_micros(u64::from(self.target_srtt8() / 8))
    }
    /// RTT independence has begun: some rounds after slow start, once the flow is long.
    fn is_rtt_independent(&self, w: &Window) -> bool {
        let scales = self.config.scaling != Scaling::None;
        scales && !w.in_slow_start() && self.rounds >= self.config.transition
    }
    fn steers_rate(&self, w: &Window) -> bool {
        self.mode == Mode::Rate && self.is_rtt_independent(w)
    }
    /// The RTT the flow behaves as if at, in eighths of a microsecond.
    fn virtual_srtt8(&self) -> u64 {
        u64::from(self.srtt8.max(self.target_srtt8()))
    }

    /// The rate of a window of one segment. An ACK needs it three times, and divides once.
    #[inline(always)]
    fn segment_rate(&self, w: &Window) -> u64 {
        8_000_000 * u64::from(w.mtu()) / u64::from(self.srtt8.max(1))
    }
    #[inline(always)]
    fn rate_of_window(&self, segment_rate: u64) -> u64 {
        shifted_product(segment_rate, self.frac_window, WINDOW_BITS).max(RATE_MIN)
    }
    fn window_of_rate(&self, w: &Window) -> u64 {
        let rtt = match self.slow_srtt8 >> SLOW_SRTT_SHIFT {
            0 => u64::from(self.srtt8),
            slow => slow,
        };
        shifted_product(self.rate, rtt, SRTT8_SECOND_SHIFT - WINDOW_BITS)
            .div_ceil(u64::from(w.mtu()))
    }
    /// The whole window that stands for the fractional one.
    #[inline(always)]
    fn whole_window(&self, cwnd: u32) -> u32 {
        self.config.fraction.whole_window(self.frac_window, cwnd).max(self.config.min_window)
    }

    /// Growth per unmarked segment: 1/W, or (R/R_target)^2/W below the target, which is one
    /// segment per target RTT at a rate that is R_target/R times as high per segment of window.
    #[inline(always)]
    fn update_increase(&mut self) {
        let rtt = self.counted_srtt8();
        let target = self.target_srtt8();
        let scaled = self.rounds >= self.config.transition && rtt > 0 && rtt <= MAX_SCALED_SRTT8;
        let (weight, of) = match self.config.scaling {
            Scaling::Rate | Scaling::Additive if scaled && rtt < target => {
                (square(u64::from(rtt)), square(u64::from(target)))
            }
            Scaling::Scalable if scaled => {
                let above = u64::from(rtt).saturating_sub(SCALABLE_R1).min(SCALABLE_R0);
                let weight = u128::from(SCALABLE_R0 / 8 + above) * u128::from(rtt);
                (weight, square(SCALABLE_R0))
            }
            _ => (1, 1),
        };
        self.increase = (((weight << WINDOW_BITS) + of / 2) / of) as u64;
    }

    /// The per-ACK part: growth by the unmarked segments, then the whole window follows the
    /// fractional one in steps of one segment.
    #[inline(always)]
    fn update_window(&mut self, ack: &Ack, w: &mut Window, segment_rate: u64) {
        if ack.ce > 0 {
            if !self.saw_ce && !self.config.alpha_starts_at_one {
                self.frac_window = self.frac_window.div_ceil(2);
            }
            self.saw_ce = true;
        }
        let mut acked = u64::from(ack.acked.saturating_sub(ack.ce));
        if acked > 0 && !self.in_loss && (ack.usage.cwnd_limited || self.config.grows_unlimited) {
            if w.in_slow_start() {
                let before = w.cwnd;
                acked = u64::from(w.slow_start(acked as u32));
                let fraction = self.config.fraction;
                self.frac_window = fraction.after_slow_start(self.frac_window, before, w.cwnd);
                if acked == 0 {
                    self.update_increase();
                    return;
                }
            }
            self.grow(acked, w, segment_rate);
        }
        let window = self.whole_window(w.cwnd);
        if w.cwnd > window {
            w.cwnd -= 1;
            w.ssthresh = w.cwnd;
            self.update_increase();
        } else if let Some(settled) = self.config.fraction.settled(self.frac_window, w.cwnd) {
            self.frac_window = settled;
            w.ssthresh = w.cwnd;
        } else if w.cwnd < window {
            w.cwnd += 1;
            self.update_increase();
        }
    }

    #[inline(always)]
    fn grow(&mut self, acked: u64, w: &Window, segment_rate: u64) {
        if self.steers_rate(w) {
            let rtt = self.virtual_srtt8();
            let step = ((acked * MTU_REFERENCE) << SRTT8_SECOND_SHIFT) / rtt;
            let in_virtual_rtt = (u128::from(self.rate) * u128::from(rtt))
                .div_ceil(u128::from(w.mtu()) << SRTT8_SECOND_SHIFT)
                as u64;
            self.rate += (step + in_virtual_rtt / 2).checked_div(in_virtual_rtt).unwrap_or(0);
            self.frac_window = (self.frac_window + acked).max(self.window_of_rate(w));
        } else {
            let next = self.whole_window(w.cwnd);
            let window = self.config.fraction.grown_window(self.frac_window, next, w.cwnd);
            let mut step = (((acked * self.increase) << WINDOW_BITS) + window / 2) / window;
            if self.config.min_mss > 0 {
                step = step * MTU_REFERENCE / u64::from(w.mtu());
            }
            self.frac_window += step.max(acked);
            self.rate = (self.rate + acked).max(self.rate_of_window(segment_rate));
        }
    }

    /// A round trip has passed, and the target RTT too if RTT-independent.
    #[inline(always)]
    fn round_is_over(&self, ack: &Ack, w: &Window) -> bool {
        ack.totals.snd_una >= self.round_end
            && (!self.is_rtt_independent(w) || ack.now.since(self.alpha_stamp) >= self.target())
    }

    #[inline(always)]
    fn end_round(&mut self, ack: &Ack, w: &mut Window) {
        // If it has never seen a mark, the path may have no AQM. Alpha then stays as it is.
        if self.saw_ce {
            if let Some(detector) = &mut self.detector {
                detector.update(ack.rtt.min_us);
            }
            let marked = u64::from(ack.totals.delivered_ce - self.round_delivered_ce);
            let acked = u64::from(ack.totals.delivered - self.round_delivered).max(1);
            let fraction = (marked << self.config.alpha_bits) / acked;
            let alpha = self.alpha_over_g - (self.alpha_over_g >> G_SHIFT) + fraction;
            self.alpha_over_g = alpha.min(self.alpha_one() << G_SHIFT);
            self.alpha_stamp = ack.now;
            if self.config.min_mss > 0 && self.is_rtt_independent(w) && !self.in_loss {
                self.fit_segment_size(w);
            }
        }
        let decay = self.slow_srtt8 >> SLOW_SRTT_SHIFT;
        self.slow_srtt8 = self.slow_srtt8 + u64::from(self.srtt8) - decay;
        self.start_round(ack, w);
    }

    #[inline(always)]
    fn start_round(&mut self, ack: &Ack, w: &Window) {
        self.round_end = ack.totals.snd_nxt;
        self.round_delivered = ack.totals.delivered;
        self.round_delivered_ce = ack.totals.delivered_ce;
        if !w.in_slow_start() {
            self.rounds = self.rounds.saturating_add(1);
        }
        self.update_increase();
    }

    /// Shrinks or restores the segment size so that two packets fit into the virtual RTT.
    #[inline(always)]
    fn fit_segment_size(&mut self, w: &mut Window) {
        let bytes = if self.mode == Mode::Rate {
            shifted_product(self.rate, self.virtual_srtt8(), SRTT8_SECOND_SHIFT)
        } else {
            let mut window = self.frac_window;
            if self.srtt8 < self.target_srtt8() {
                window = window * u64::from(self.target_srtt8()) / u64::from(self.srtt8.max(1));
            }
            shifted_product(window, u64::from(w.mtu()), WINDOW_BITS)
        };
        let fits = bytes.div_ceil(PACKETS_PER_VIRTUAL_RTT).min(u64::from(self.mtu_max)) as u32;
        // The AccECN option counts as payload here, as the kernel's `mss_cache` does not know of it. At
        // least one byte of real payload remains.
        let mtu = fits.max(self.config.min_mss + TCP_IP_HEADERS).max(w.header + 1);
        let old = w.mtu();
        if mtu == old {
            return;
        }
        self.frac_window = self.frac_window * u64::from(old) / u64::from(mtu);
        w.mss = mtu - w.header;
        let window = self.whole_window(w.cwnd);
        if w.cwnd != window {
            w.cwnd = window;
            // The module scales the threshold without this bound: at a window of two it only ever
            // rises, and the flow is in slow start again.
            let ssthresh = u64::from(w.ssthresh) * u64::from(old) / u64::from(mtu);
            w.ssthresh = ssthresh.min(u64::from(window)) as u32;
            self.update_increase();
        }
    }

    #[inline(always)]
    fn update_pacing(&mut self, ack: &Ack, w: &Window, segment_rate: u64) {
        let mut rate;
        if self.steers_rate(w) {
            let swing = shifted_product(self.config.rate_offset, self.rate, SWING_SHIFT);
            let half = Span::from_micros(self.virtual_srtt8() / 16);
            let second_half = ack.now.since(self.alpha_stamp) >= half;
            rate = if second_half { self.rate - swing } else { self.rate + swing };
        } else {
            let window = self.config.fraction.paced_window(self.frac_window, w.cwnd);
            let window = window.max(u64::from(ack.flight.now));
            rate = (segment_rate * window).max(RATE_MIN);
            self.rate = rate;
        }
        if w.cwnd < w.ssthresh / 2 {
            rate *= 2;
        }
        self.pacing_rate = rate;
        let burst = ((rate / u64::from(w.mtu())) >> self.config.burst_shift) as u32;
        self.burst = burst.max(self.config.min_burst);
        if self.config.max_burst > 0 {
            self.burst = self.burst.min(self.config.max_burst);
        }
    }

    #[inline(always)]
    fn choose_mode(&mut self, w: &Window, segment_rate: u64) {
        if self.config.fixed_mode.is_some() {
            return;
        }
        let bytes = u64::from(w.cwnd) * u64::from(w.mtu());
        if self.saw_ce && bytes <= self.config.transit_bytes {
            self.mode = Mode::Rate;
            // The module does this also before RTT independence, when the rate is not steered but
            // derived from the window: by the current RTT there and by the slow average back, so
            // that a flow whose first RTTs were long multiplies its window with every ACK.
            if self.is_rtt_independent(w) {
                self.frac_window = self.window_of_rate(w);
            }
        } else {
            self.mode = Mode::Window;
            self.rate = self.rate_of_window(segment_rate);
        }
    }

    /// Once per round trip with marks, and not more often than the target RTT.
    fn reduce_by_alpha(&mut self, at: Time, w: &Window) {
        let early = self.target() > at.since(self.cwr_stamp);
        if self.is_rtt_independent(w) && early {
            return;
        }
        self.cwr_stamp = at;
        let mut alpha = self.alpha_over_g >> G_SHIFT;
        if let Some(detector) = &self.detector {
            alpha = detector.effective(alpha);
        }
        let bits = self.config.alpha_bits;
        if self.steers_rate(w) {
            let cut = shifted_product(self.rate, alpha, bits + 1);
            self.rate = (self.rate - cut).max(RATE_MIN);
            self.frac_window = self.window_of_rate(w);
        } else {
            let window = self.config.fraction.cut_window(self.frac_window, w.cwnd);
            // Half a unit makes the rounding unbiased.
            let cut = (u128::from(alpha) * u128::from(window) + u128::from(self.alpha_one()))
                >> (bits + 1);
            self.shrink_window(cut as u64, w);
        }
    }

    /// Takes `cut` off the fractional window.
    fn shrink_window(&mut self, cut: u64, w: &Window) {
        let least = self.config.fraction.floor().min(self.frac_window);
        self.frac_window = self.frac_window.saturating_sub(cut).max(least);
        self.rate = self.rate_of_window(self.segment_rate(w));
    }

    fn halve(&mut self, w: &Window) {
        self.rate_before_loss = self.rate;
        self.window_before_loss = self.frac_window;
        if self.steers_rate(w) {
            self.rate = (self.rate / 2).max(RATE_MIN);
            self.frac_window = self.window_of_rate(w);
        } else {
            self.shrink_window(self.frac_window / 2, w);
        }
        // Without this mark 0.5 keeps growing. In slow start the reduction then stays due, for ever in a queue
        // that never marks. Later it is taken, one segment per ACK.
        self.in_loss = !self.config.ignores_loss_in_slow_start;
    }
}

/// (a * b) >> shift without overflow in between.
#[inline]
fn shifted_product(a: u64, b: u64, shift: u32) -> u64 {
    ((u128::from(a) * u128::from(b)) >> shift) as u64
}

fn square(x: u64) -> u128 {
    u128::from(x) * u128::from(x)
}

/// Linux's field has 32 bits: from 536 s on it is their largest number.
fn linux_srtt8(ack: &Ack) -> u32 {
    ack.rtt.srtt8.min(u64::from(u32::MAX)) as u32
}

impl CongestionControl for Prague {
    #[inline(always)]
    fn on_ack(&mut self, ack: &Ack, w: &mut Window) {
        self.srtt8 = linux_srtt8(ack);
        if let (Some(detector), Some(rtt_us)) = (&mut self.detector, ack.rtt.newest_us) {
            detector.sample(rtt_us);
        }
        self.frac_window = self.config.fraction.resumed(self.frac_window, w.cwnd, self.left_cwnd);
        let mut segment_rate = self.segment_rate(w);
        self.update_window(ack, w, segment_rate);
        self.left_cwnd = w.cwnd;
        if self.round_is_over(ack, w) {
            self.end_round(ack, w);
            // Segments may have another size now.
            segment_rate = self.segment_rate(w);
        }
        self.update_pacing(ack, w, segment_rate);
        self.choose_mode(w, segment_rate);
    }

    fn on_congestion(&mut self, why: Congestion, at: Time, w: &mut Window) {
        if let Some(detector) = &mut self.detector {
            detector.set_gain(w.ssthresh);
        }
        let takes_it_for_l4s = self.detector.as_ref().is_some_and(Detector::takes_it_for_l4s);
        match why {
            Congestion::Ecn | Congestion::TailLoss => self.reduce_by_alpha(at, w),
            Congestion::Loss if self.config.ignores_loss_in_l4s && takes_it_for_l4s => {}
            Congestion::Loss | Congestion::Timeout => self.halve(w),
        }
    }

    fn on_recovered(&mut self, _w: &mut Window) {
        self.in_loss = false;
    }

    fn on_undo(&mut self, prior_cwnd: u32, w: &mut Window) {
        self.in_loss = false;
        if self.steers_rate(w) {
            self.rate = self.rate.max(self.rate_before_loss);
            self.frac_window = self.window_of_rate(w);
        } else {
            self.frac_window = self.frac_window.max(self.window_before_loss);
            self.rate = self.rate_of_window(self.segment_rate(w));
        }
        w.cwnd = w.cwnd.max(prior_cwnd);
        self.left_cwnd = w.cwnd;
    }

    fn constants(&self) -> Constants {
        Constants::governing(EcnWish::Ect1AccEcn)
    }
    /// TCP's pacing clock counts payload against this rate, which is meant for IP packets; segments
    /// therefore leave 3.6 % sooner than the rate says, as they do in Linux without the fq qdisc.
    #[inline(always)]
    fn pace(&self) -> Pace {
        let burst = Burst::Exactly(self.burst);
        Pace { rate: Some(self.pacing_rate), burst, holds_back: false }
    }

    fn on_established(
        &mut self,
        granted: bool,
        ack: &Ack,
        w: &mut Window,
    ) -> Option<Box<dyn CongestionControl>> {
        if !granted {
            return Some(Box::new(Reno::plain()));
        }
        self.srtt8 = linux_srtt8(ack);
        self.alpha_stamp = ack.now;
        self.frac_window = u64::from(w.cwnd) << WINDOW_BITS;
        self.left_cwnd = w.cwnd;
        self.mtu_max = w.mtu();
        if ack.rtt.srtt8 > 0 {
            if let Some(detector) = &mut self.detector {
                detector.sample(ack.rtt.srtt_us());
            }
            self.slow_srtt8 = u64::from(self.srtt8) << SLOW_SRTT_SHIFT;
        }
        let segment_rate = self.segment_rate(w);
        self.rate = self.rate_of_window(segment_rate);
        self.update_pacing(ack, w, segment_rate);
        self.start_round(ack, w);
        None
    }

    fn probe(&self, out: &mut dyn Gauges) {
        let one = (self.alpha_one() << G_SHIFT) as f64;
        out.gauge("alpha", self.alpha_over_g as f64 / one);
        if let Some(detector) = &self.detector {
            out.gauge("classic_ecn_score", detector.score());
        }
    }
}

#[cfg(test)]
mod tests;
