//! TCP Prague, version 0.7 of the L4STeam module (draft-briscoe-iccrg-prague-congestion-control).
//!
//! DCTCP's law for the public Internet: an estimate alpha of the fraction of marked segments, a
//! reduction by alpha/2 per round trip with marks, one segment of growth per round trip spread over
//! the unmarked ones. What Prague adds: the window is fractional; below a target RTT of 25 ms it
//! grows and reacts as if the RTT were 25 ms (rate fairness whatever the RTT); sending is always
//! paced; with four segments or less it steers the rate instead of the window, and shrinks segments
//! so that two still fit into the target RTT. A loss halves. Without AccECN it gives way to Reno.
//!
//! Rates here count whole IP packets, bytes per second, as the module's do.

use super::registry::{CcError, Controller, Options, Param};
use super::reno::Reno;
use super::{Ack, Congestion, CongestionControl, EcnWish, MIN_WINDOW, Window};
use crate::aqm::Gauges;
use crate::packet::TCP_IP_HEADERS;
use crate::time::{Span, Time};

/// Gain of the estimate: g = 1/16.
const G_SHIFT: u32 = 4;
/// alpha has 24 fractional bits; it is kept multiplied by 1/g.
const ALPHA_BITS: u32 = 24;
const ALPHA_ONE: u64 = 1 << ALPHA_BITS;
/// The fractional window has 20 fractional bits.
const WINDOW_BITS: u32 = 20;
const ONE_SEGMENT: u64 = 1 << WINDOW_BITS;
/// RTT independence ends above this RTT, eighths of a microsecond.
const MAX_SCALED_SRTT8: u32 = 100_000 * 8;
/// 100 kbit/s: below, segments shrink no further.
const RATE_MIN: u64 = 12_500;
/// Smallest segment, bytes of payload and of the AccECN option, which the kernel's `mss_cache` does
/// not know of.
const MSS_MIN: u32 = 150;
/// The packet size that one step of growth stands for.
const MTU_REFERENCE: u64 = 1500;
/// Packets that must fit into a virtual RTT.
const PACKETS_PER_VIRTUAL_RTT: u64 = 2;
/// The pacing rate swings by 4/128 = 3 % around the rate within each virtual RTT, which draws a
/// few marks from a step AQM in every round instead of all in one.
const SWING_SHIFT: u32 = 7;
const SWING: u64 = 4;
/// Gain of the slow RTT average that converts between rate and window: 1/128.
const SLOW_SRTT_SHIFT: u32 = 7;
/// Bursts last 2^-12 s = 0.24 ms at most.
const BURST_SHIFT: u32 = 12;
/// Microseconds to seconds, in eighths: x / 2^23 is within 5 % of x / 8e6, as in the module.
const SRTT8_SECOND_SHIFT: u32 = 23;

pub const CONTROLLER: Controller = Controller {
    name: "prague",
    summary: "TCP Prague 0.7, the L4S reference (ECT(1), AccECN)",
    parameters: &[
        Param { name: "version", default: "0.7", help: "\"0.7\"" },
        Param {
            name: "fallback",
            default: "off",
            help: "reaction to a suspected classic ECN queue: \"off\"",
        },
        Param {
            name: "rtt_target",
            default: "25ms",
            help: "RTT below which the flow behaves as if at it; 0ms: no RTT independence",
        },
        Param {
            name: "rtt_transition",
            default: "4",
            help: "rounds after slow start before RTT independence begins",
        },
        Param {
            name: "alpha_mode",
            default: "0",
            help: "0: alpha starts at 0 and the first mark halves; 1: alpha starts at 1",
        },
        Param {
            name: "cwnd_mode",
            default: "switch",
            help: "\"window\", \"rate\", or \"switch\" by window size",
        },
        Param {
            name: "cwnd_transit",
            default: "4",
            help: "full packets at or below which cwnd_mode \"switch\" steers the rate",
        },
    ],
    build: |o| Ok(Box::new(Prague::from_options(o)?)),
};

/// What the controller steers.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Mode {
    Window,
    Rate,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Prague {
    target_srtt8: u32,
    transition: u32,
    alpha_starts_at_one: bool,
    fixed_mode: Option<Mode>,
    transit_bytes: u64,

    mode: Mode,
    /// alpha / g, ALPHA_BITS fractional bits.
    alpha_over_g: u64,
    /// When alpha was last updated: start of the virtual RTT.
    alpha_stamp: Time,
    cwr_stamp: Time,
    /// Segments, WINDOW_BITS fractional bits.
    frac_window: u64,
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
    fn from_options(o: &Options) -> Result<Prague, CcError> {
        o.choice("version", &["0.7"])?;
        o.choice("fallback", &["off"])?;
        let alpha_starts_at_one = o.integer("alpha_mode", 0..=1)? == 1;
        let fixed_mode = match o.choice("cwnd_mode", &["window", "rate", "switch"])? {
            "window" => Some(Mode::Window),
            "rate" => Some(Mode::Rate),
            _ => None,
        };
        Ok(Prague {
            target_srtt8: (o.micros("rtt_target")?.min(1_000_000) * 8) as u32,
            transition: o.integer("rtt_transition", 0..=1_000_000)? as u32,
            alpha_starts_at_one,
            fixed_mode,
            transit_bytes: o.integer("cwnd_transit", 0..=10_000)? * MTU_REFERENCE,
            mode: fixed_mode.unwrap_or(Mode::Window),
            alpha_over_g: if alpha_starts_at_one { ALPHA_ONE << G_SHIFT } else { 0 },
            alpha_stamp: Time::ZERO,
            cwr_stamp: Time::ZERO,
            frac_window: 0,
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
        })
    }

    fn target(&self) -> Span {
        Span::from_micros(u64::from(self.target_srtt8 / 8))
    }
    /// RTT independence has begun: some rounds after slow start, once the flow is long.
    fn is_rtt_independent(&self, w: &Window) -> bool {
        self.target_srtt8 > 0 && !w.in_slow_start() && self.rounds >= self.transition
    }
    fn steers_rate(&self, w: &Window) -> bool {
        self.mode == Mode::Rate && self.is_rtt_independent(w)
    }
    /// The RTT the flow behaves as if at, in eighths of a microsecond.
    fn virtual_srtt8(&self) -> u64 {
        u64::from(self.srtt8.max(self.target_srtt8))
    }

    fn rate_of_window(&self, w: &Window) -> u64 {
        let per_segment = 8_000_000 * u64::from(w.mtu()) / u64::from(self.srtt8.max(1));
        shifted_product(per_segment, self.frac_window, WINDOW_BITS).max(RATE_MIN)
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
    fn whole_window(&self) -> u32 {
        let up = (self.frac_window + ONE_SEGMENT - 1) >> WINDOW_BITS;
        (up as u32).max(MIN_WINDOW)
    }

    /// Growth per unmarked segment: 1/W, or (R/R_target)^2/W below the target, which is one
    /// segment per target RTT at a rate that is R_target/R times as high per segment of window.
    fn update_increase(&mut self) {
        let rtt = self.srtt8;
        let scaled = self.rounds >= self.transition
            && rtt > 0
            && rtt <= MAX_SCALED_SRTT8
            && rtt < self.target_srtt8;
        self.increase = if scaled {
            let square = u64::from(rtt) * u64::from(rtt);
            let target = u64::from(self.target_srtt8) * u64::from(self.target_srtt8);
            (((u128::from(square) << WINDOW_BITS) + u128::from(target / 2)) / u128::from(target))
                as u64
        } else {
            ONE_SEGMENT
        };
    }

    /// The per-ACK part: growth by the unmarked segments, then the whole window follows the
    /// fractional one in steps of one segment.
    fn update_window(&mut self, ack: &Ack, w: &mut Window) {
        if ack.ce > 0 {
            if !self.saw_ce && !self.alpha_starts_at_one {
                self.frac_window = self.frac_window.div_ceil(2);
            }
            self.saw_ce = true;
        }
        let mut acked = u64::from(ack.acked.saturating_sub(ack.ce));
        if acked > 0 && !self.in_loss && ack.cwnd_limited {
            if w.in_slow_start() {
                acked = u64::from(w.slow_start(acked as u32));
                self.frac_window = u64::from(w.cwnd) << WINDOW_BITS;
                if acked == 0 {
                    self.update_increase();
                    return;
                }
            }
            self.grow(acked, w);
        }
        let window = self.whole_window();
        if w.cwnd > window {
            w.cwnd -= 1;
            w.ssthresh = w.cwnd;
            self.update_increase();
        } else if w.cwnd < window {
            w.cwnd += 1;
            self.update_increase();
        }
    }

    fn grow(&mut self, acked: u64, w: &Window) {
        if self.steers_rate(w) {
            let rtt = self.virtual_srtt8();
            let step = ((acked * MTU_REFERENCE) << SRTT8_SECOND_SHIFT) / rtt;
            let in_virtual_rtt = (u128::from(self.rate) * u128::from(rtt))
                .div_ceil(u128::from(w.mtu()) << SRTT8_SECOND_SHIFT)
                as u64;
            self.rate += (step + in_virtual_rtt / 2).checked_div(in_virtual_rtt).unwrap_or(0);
            self.frac_window = (self.frac_window + acked).max(self.window_of_rate(w));
        } else {
            let window = self.frac_window.max(1);
            let step = ((acked * self.increase) << WINDOW_BITS) + window / 2;
            let step = step / window * MTU_REFERENCE / u64::from(w.mtu());
            self.frac_window += step.max(acked);
            self.rate = (self.rate + acked).max(self.rate_of_window(w));
        }
    }

    /// A round trip has passed, and the target RTT too if RTT-independent.
    fn round_is_over(&self, ack: &Ack, w: &Window) -> bool {
        ack.snd_una >= self.round_end
            && (!self.is_rtt_independent(w) || ack.now.since(self.alpha_stamp) >= self.target())
    }

    fn end_round(&mut self, ack: &Ack, w: &mut Window) {
        // Without a mark ever seen there may be no AQM; alpha then stays what it was.
        if self.saw_ce {
            let marked = u64::from(ack.delivered_ce - self.round_delivered_ce);
            let acked = u64::from(ack.delivered - self.round_delivered).max(1);
            let fraction = (marked << ALPHA_BITS) / acked;
            let alpha = self.alpha_over_g - (self.alpha_over_g >> G_SHIFT) + fraction;
            self.alpha_over_g = alpha.min(ALPHA_ONE << G_SHIFT);
            self.alpha_stamp = ack.now;
            if self.is_rtt_independent(w) && !self.in_loss {
                self.fit_segment_size(w);
            }
        }
        let decay = self.slow_srtt8 >> SLOW_SRTT_SHIFT;
        self.slow_srtt8 = self.slow_srtt8 + u64::from(self.srtt8) - decay;
        self.start_round(ack, w);
    }

    fn start_round(&mut self, ack: &Ack, w: &Window) {
        self.round_end = ack.snd_nxt;
        self.round_delivered = ack.delivered;
        self.round_delivered_ce = ack.delivered_ce;
        if !w.in_slow_start() {
            self.rounds = self.rounds.saturating_add(1);
        }
        self.update_increase();
    }

    /// Shrinks or restores the segment size so that two packets fit into the virtual RTT.
    fn fit_segment_size(&mut self, w: &mut Window) {
        let bytes = if self.mode == Mode::Rate {
            shifted_product(self.rate, self.virtual_srtt8(), SRTT8_SECOND_SHIFT)
        } else {
            let mut window = self.frac_window;
            if self.srtt8 < self.target_srtt8 {
                window = window * u64::from(self.target_srtt8) / u64::from(self.srtt8.max(1));
            }
            shifted_product(window, u64::from(w.mtu()), WINDOW_BITS)
        };
        let fits = bytes.div_ceil(PACKETS_PER_VIRTUAL_RTT).min(u64::from(self.mtu_max)) as u32;
        let mtu = fits.max(MSS_MIN + TCP_IP_HEADERS);
        let old = w.mtu();
        if mtu == old {
            return;
        }
        self.frac_window = self.frac_window * u64::from(old) / u64::from(mtu);
        w.mss = mtu - w.header;
        let window = self.whole_window();
        if w.cwnd != window {
            w.cwnd = window;
            // The module scales the threshold without this bound: at a window of two it only ever
            // rises, and the flow is in slow start again.
            let ssthresh = u64::from(w.ssthresh) * u64::from(old) / u64::from(mtu);
            w.ssthresh = ssthresh.min(u64::from(window)) as u32;
            self.update_increase();
        }
    }

    fn update_pacing(&mut self, ack: &Ack, w: &Window) {
        let mut rate;
        if self.steers_rate(w) {
            let swing = shifted_product(SWING, self.rate, SWING_SHIFT);
            let half = Span::from_micros(self.virtual_srtt8() / 16);
            let second_half = ack.now.since(self.alpha_stamp) >= half;
            rate = if second_half { self.rate - swing } else { self.rate + swing };
        } else {
            let window = (self.frac_window >> WINDOW_BITS).max(u64::from(ack.in_flight));
            rate = 8_000_000 * u64::from(w.mtu());
            if self.srtt8 > 0 {
                rate /= u64::from(self.srtt8);
            }
            rate = (rate * window).max(RATE_MIN);
            self.rate = rate;
        }
        if w.cwnd < w.ssthresh / 2 {
            rate *= 2;
        }
        self.pacing_rate = rate;
        self.burst = (((rate / u64::from(w.mtu())) >> BURST_SHIFT) as u32).max(1);
    }

    fn choose_mode(&mut self, w: &Window) {
        if self.fixed_mode.is_some() {
            return;
        }
        let bytes = u64::from(w.cwnd) * u64::from(w.mtu());
        if self.saw_ce && bytes <= self.transit_bytes {
            self.mode = Mode::Rate;
            // The module does this also before RTT independence, when the rate is not steered but
            // derived from the window: by the current RTT there and by the slow average back, so
            // that a flow whose first RTTs were long multiplies its window with every ACK.
            if self.is_rtt_independent(w) {
                self.frac_window = self.window_of_rate(w);
            }
        } else {
            self.mode = Mode::Window;
            self.rate = self.rate_of_window(w);
        }
    }

    /// Once per round trip with marks, and not more often than the target RTT.
    fn reduce_by_alpha(&mut self, at: Time, w: &Window) {
        let early = self.target() > at.since(self.cwr_stamp);
        if self.is_rtt_independent(w) && early {
            return;
        }
        self.cwr_stamp = at;
        let alpha = self.alpha_over_g >> G_SHIFT;
        if self.steers_rate(w) {
            let cut = shifted_product(self.rate, alpha, ALPHA_BITS + 1);
            self.rate = (self.rate - cut).max(RATE_MIN);
            self.frac_window = self.window_of_rate(w);
        } else {
            // Half a unit makes the rounding unbiased.
            let cut = (u128::from(alpha) * u128::from(self.frac_window) + u128::from(ALPHA_ONE))
                >> (ALPHA_BITS + 1);
            self.shrink_window(cut as u64, w);
        }
    }

    /// Takes `cut` off the fractional window, but not below the minimum rate. (The module has this
    /// floor for the rate only. Without it a window halved by loss after loss comes near zero, and
    /// one ACK, which adds 1/window, then makes it immense.)
    fn shrink_window(&mut self, cut: u64, w: &Window) {
        let rtt = u64::from(self.srtt8);
        let floor = shifted_product(RATE_MIN, rtt, SRTT8_SECOND_SHIFT - WINDOW_BITS)
            .div_ceil(u64::from(w.mtu()))
            .max(1);
        self.frac_window = self.frac_window.saturating_sub(cut).max(floor);
        self.rate = self.rate_of_window(w);
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
        self.in_loss = true;
    }
}

/// (a * b) >> shift without overflow in between.
#[inline]
fn shifted_product(a: u64, b: u64, shift: u32) -> u64 {
    ((u128::from(a) * u128::from(b)) >> shift) as u64
}

impl CongestionControl for Prague {
    fn on_ack(&mut self, ack: &Ack, w: &mut Window) {
        self.srtt8 = ack.srtt8;
        self.update_window(ack, w);
        if self.round_is_over(ack, w) {
            self.end_round(ack, w);
        }
        self.update_pacing(ack, w);
        self.choose_mode(w);
    }

    fn on_congestion(&mut self, why: Congestion, at: Time, w: &mut Window) {
        match why {
            Congestion::Ecn | Congestion::TailLoss => self.reduce_by_alpha(at, w),
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
            self.rate = self.rate_of_window(w);
        }
        w.cwnd = w.cwnd.max(prior_cwnd);
    }

    fn governs_window(&self) -> bool {
        true
    }
    /// TCP's pacing clock counts payload against this rate, which is meant for IP packets; segments
    /// therefore leave 3.6 % sooner than the rate says, as they do in Linux without the fq qdisc.
    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pacing_rate)
    }
    fn burst(&self) -> Option<u32> {
        Some(self.burst)
    }
    fn ecn(&self) -> EcnWish {
        EcnWish::Ect1AccEcn
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
        self.srtt8 = ack.srtt8;
        self.alpha_stamp = ack.now;
        self.frac_window = u64::from(w.cwnd) << WINDOW_BITS;
        self.mtu_max = w.mtu();
        if ack.srtt8 > 0 {
            self.slow_srtt8 = u64::from(ack.srtt8) << SLOW_SRTT_SHIFT;
        }
        self.rate = self.rate_of_window(w);
        self.update_pacing(ack, w);
        self.start_round(ack, w);
        None
    }

    fn probe(&self, out: &mut dyn Gauges) {
        let one = (ALPHA_ONE << G_SHIFT) as f64;
        out.gauge("alpha", self.alpha_over_g as f64 / one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn established(rtt_us: u32, cwnd: u32) -> (Prague, Window) {
        let mut p = Prague::from_options(&CONTROLLER.options([]).unwrap()).unwrap();
        let mut w = Window::new(1448, 52);
        w.cwnd = cwnd;
        w.ssthresh = cwnd;
        let a = Ack { srtt8: rtt_us * 8, ..Ack::default() };
        assert!(p.on_established(true, &a, &mut w).is_none());
        (p, w)
    }

    /// Sends one window after another through a path that marks with probability `p`; returns the
    /// mean window.
    fn random_marks(rtt_us: u32, p: f64, rounds: u32) -> f64 {
        let (mut cc, mut w) = established(rtt_us, 10);
        let mut rng = crate::rng::Rng::stream(1, "marks", 0);
        let (mut n, mut ce_total, mut sum, mut samples) = (0_u32, 0, 0.0, 0.0);
        let mut now = Time::ZERO;
        let mut reduced_until = 0;
        for round in 0..rounds {
            let window = w.cwnd;
            for _ in 0..window {
                n += 1;
                let ce = u32::from(rng.unit() < p);
                ce_total += ce;
                now += Span(u64::from(rtt_us) * 1000 / u64::from(window));
                if ce > 0 && n > reduced_until {
                    cc.on_congestion(Congestion::Ecn, now, &mut w);
                    reduced_until = n + window;
                }
                let a = Ack {
                    now,
                    acked: 1,
                    ce,
                    delivered: n,
                    delivered_ce: ce_total,
                    srtt8: rtt_us * 8,
                    snd_una: n,
                    snd_nxt: n + window,
                    cwnd_limited: true,
                    in_flight: window,
                    ..Ack::default()
                };
                cc.on_ack(&a, &mut w);
            }
            if round > rounds / 10 {
                sum += cc.frac_window as f64 / ONE_SEGMENT as f64;
                samples += 1.0;
            }
        }
        sum / samples
    }

    /// laws.md 1: with independent marks and one reduction per round trip, W = (1 + sqrt 3)(1 - p)/p
    /// at or above the target RTT. (At larger p whole segments begin to show: 3.3 % at p = 0.1.)
    #[test]
    fn the_window_law_under_random_marks() {
        for p in [0.01, 0.02, 0.05] {
            let law = (1.0 + 3_f64.sqrt()) * (1.0 - p) / p;
            let w = random_marks(26_000, p, 40_000);
            assert!((w / law - 1.0).abs() < 0.03, "p = {p}: {w} against {law}");
        }
    }

    #[test]
    fn alpha_converges_to_the_marking_fraction_at_gain_one_sixteenth() {
        let (mut p, mut w) = established(30_000, 100);
        p.saw_ce = true;
        let mut now = Time::ZERO;
        for n in 1..=20_u32 {
            now += Span::from_millis(30);
            let a = Ack {
                now,
                delivered: n * 100,
                delivered_ce: n * 25,
                srtt8: 240_000,
                snd_una: n * 100,
                snd_nxt: n * 100,
                ..Ack::default()
            };
            p.end_round(&a, &mut w);
            let alpha = p.alpha_over_g as f64 / (ALPHA_ONE << G_SHIFT) as f64;
            let law = 0.25 * (1.0 - crate::math::pow(15.0 / 16.0, f64::from(n)));
            assert!((alpha - law).abs() < 1e-6, "after {n}: {alpha}, law {law}");
        }
    }

    #[test]
    fn the_first_mark_halves_and_a_loss_halves() {
        let (mut p, mut w) = established(30_000, 100);
        w.ssthresh = super::super::SSTHRESH_INFINITE;
        let a = Ack { ce: 1, acked: 1, srtt8: 240_000, snd_nxt: 50, ..Ack::default() };
        p.round_end = 1000;
        p.on_ack(&a, &mut w);
        assert_eq!(p.frac_window >> WINDOW_BITS, 50);
        p.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
        assert_eq!(p.frac_window >> WINDOW_BITS, 25);
    }

    /// However often it is halved, one ACK does not make the window immense.
    #[test]
    fn the_window_has_a_floor_at_the_minimum_rate() {
        let (mut p, mut w) = established(20_000, 10);
        p.saw_ce = true;
        for _ in 0..100 {
            p.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
            p.on_recovered(&mut w);
        }
        let a = Ack { acked: 1, srtt8: 160_000, cwnd_limited: true, ..Ack::default() };
        p.grow(1, &w);
        p.on_ack(&a, &mut w);
        let segments = p.frac_window as f64 / ONE_SEGMENT as f64;
        assert!(segments < 20.0, "{segments} segments");
        assert!(p.rate >= RATE_MIN);
    }

    #[test]
    fn without_accecn_it_gives_way_to_reno() {
        let mut p = Prague::from_options(&CONTROLLER.options([]).unwrap()).unwrap();
        let mut w = Window::new(1448, 52);
        let other = p.on_established(false, &Ack::default(), &mut w).unwrap();
        assert!(!other.governs_window());
        assert_eq!(other.pacing_rate(), None);
    }
}
