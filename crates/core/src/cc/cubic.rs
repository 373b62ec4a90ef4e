//! CUBIC, as Linux 7.2 does it (`net/ipv4/tcp_cubic.c`) or by the letter of RFC 9438.
//!
//! After a reduction the window follows W(t) = C (t - K)^3 + W_max, so that it returns to the old
//! maximum after K seconds whatever the RTT; in the Reno-friendly region a linear estimate takes
//! over where the cubic would be slower than Reno. HyStart ends slow start before the buffer fills.
//!
//! Linux differs from the RFC: time is counted in ticks (`hz`), the smallest RTT stands for the
//! current one, the Reno estimate keeps its slope after it has passed the old maximum, and before
//! the first loss the window grows at least 5 % per round trip.

use super::{Ack, Congestion, CongestionControl, Controller, MIN_WINDOW, Role, Window};
use crate::math;
use crate::params::kinds::{Spec, choice, count, fraction, nested, params, real, switch};
use crate::params::{Described, Gauge, gauge};
use crate::probe::Gauges;
use crate::rng::Rng;
use crate::time::{Span, Time};

/// beta = 717/1024 = 0.7 (RFC 9438, 4.6); also for ECN.
const BETA_NUM: u64 = 717;
const BETA_DEN: u64 = 1024;
/// C = 410/1024 = 0.4 segments/s^3 (RFC 9438, 5.1).
const C_NUM: u64 = 410;
const C_DEN: f64 = 1024.0;
const C: f64 = 0.4;
/// Cubic time is counted in 1/1024 s, as the kernel does.
const TICKS: u64 = 1024;
/// Before the first loss, at most this many ACKed segments per segment of growth: 5 % per RTT.
const INITIAL_COUNT_MAX: u64 = 20;
/// At most one segment of growth per two acknowledged: 1.5 times per RTT (RFC 9438, 4.4).
const COUNT_MIN: u64 = 2;

/// HyStart: does nothing below this window.
const HYSTART_LOW_WINDOW: u32 = 16;
/// ACKs not further apart than this belong to one train.
const HYSTART_ACK_DELTA: Span = Span::from_millis(2);
const HYSTART_MIN_SAMPLES: u32 = 8;
/// A delay increase of an eighth of the smallest RTT, within these bounds, ends slow start.
const HYSTART_DELAY_MIN_US: u32 = 4_000;
const HYSTART_DELAY_MAX_US: u32 = 16_000;
/// Four full-sized bursts: the most that the sender's own segmentation may add to an ACK train.
const HYSTART_BURST_BYTES: u64 = 4 * 65_536;

/// beta.
pub(super) const BETA: f64 = 0.7;

params! {
    pub struct Options {
        rules: Rules = Rules::Linux, choice("RULES", [
            ("linux", Rules::Linux),
            ("rfc9438", Rules::Rfc9438),
        ]), "";
        common: Common = Common::default(), nested();
        /// factor on an ECN mark; 0.85 with ABE (RFC 8511)
        beta_ecn: f64 = BETA, fraction(), "RFC 9438, 4.6";
        /// factor on a loss, from which the slope of the Reno estimate follows
        beta: f64 = BETA, fraction(), "RFC 9438, 4.6";
        /// how fast the window grows away from the plateau, segments/s^3
        c: f64 = C, real("NUMBER", "a number above 0, at most 100", |x| x > 0.0 && x <= 100.0, (0.01, 10.0)), "RFC 9438, 5.1";
        /// the window never grows slower than Reno's
        reno_friendly: bool = true, switch(), "Linux and RFC 9438, 4.3";
        /// the curve stands still while the application rests
        idle_epoch: bool = true, switch(), "Linux and RFC 9438, 4.2";
        /// fast convergence lowers the window with the maximum, to 0.595 of it (quinn-proto before 0.11.15)
        double_cut: bool = false, switch(), "Linux and RFC 9438, 4.6 and 4.7";
        /// the curve and the Reno estimate begin at beta W_max, not at the window, which is larger after fast convergence (quinn)
        k_of_beta: bool = false, switch(), "RFC 8312, 4.1 and 4.2";
    }
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Rules {
    Linux,
    Rfc9438,
}

params! {
    /// What all variants of CUBIC have.
    pub struct Common {
        /// end slow start before the first loss
        hystart: bool = true, on_or_off("hystart"), "Linux";
        /// yield when the maximum shrinks (RFC 9438, 4.7)
        fast_convergence: bool = true, on_or_off("fast_convergence"), "Linux and RFC 9438";
        /// timer ticks per second of the modelled kernel
        hz: u32 = 250, count(100..=1000), "Linux, as distributions build it";
    }
}

fn on_or_off(parameter: &'static str) -> Spec<bool> {
    switch().module(parameter, &[("on", "1"), ("off", "0")])
}

pub(super) const GAUGES: &[Gauge] =
    &[gauge("w_max_packets", "packets", "window before the last reduction")];

impl Described for Options {
    const NAME: &'static str = "cubic";
    const SUMMARY: &'static str = "CUBIC with HyStart (RFC 9438; Linux's variant by default)";
    const GAUGES: &'static [Gauge] = GAUGES;
    const ORDER: &'static [&'static str] =
        &["rules", "hystart", "fast_convergence", "beta", "beta_ecn", "c", "hz"];
}

impl Controller for Options {
    type Made = Cubic;
    const ROLE: Role = Role::Classic;
    const LOOK: u8 = 0;
    fn build(&self, _rng: Rng) -> Cubic {
        let cubic = Cubic::new(&self.common, self.rules == Rules::Rfc9438, self.beta_ecn);
        Cubic {
            beta: self.beta,
            reno_eighths: reno_eighths(self.beta),
            scale: if self.c == C { C_NUM } else { (self.c * C_DEN) as u64 },
            reno_friendly: self.reno_friendly,
            idle_epoch: self.idle_epoch,
            double_cut: self.double_cut,
            k_of_beta: self.k_of_beta,
            ..cubic
        }
    }
}

/// CUBIC's window and its epoch.
#[derive(Clone, Debug)]
pub struct Cubic {
    rfc: bool,
    hystart: Option<HyStart>,
    fast_convergence: bool,
    beta_ecn: f64,
    beta: f64,
    /// C, segments/1024 s^3.
    scale: u64,
    reno_friendly: bool,
    /// Eighths of a window per segment of the Reno estimate.
    reno_eighths: u64,
    idle_epoch: bool,
    double_cut: bool,
    k_of_beta: bool,
    tick: Span,
    next_tick: Time,
    w_max: u64,
    /// Smallest RTT, µs; 0 before the first sample.
    delay_min_us: u32,
    pub(super) epoch: Option<Epoch>,
    last_cwnd: u32,
    last_time: Time,
    /// Acknowledged segments per segment of growth.
    count: u64,
}

/// From one reduction to the next.
#[derive(Clone, Debug)]
pub(super) struct Epoch {
    pub(super) start: Time,
    /// Time to reach the origin, 1/1024 s.
    k: u64,
    /// Plateau of the cubic, segments.
    pub(super) origin: u64,
    /// C, segments/1024 s^3.
    scale: u64,
    /// Reno's window, had it started here, and ACKs counted towards its next segment.
    reno_window: u64,
    pub(super) reno_acked: i64,
}

impl Epoch {
    /// W(t), segments, with t in 1/1024 s.
    fn curve(&self, t: u64) -> u64 {
        let offset = u128::from(t.abs_diff(self.k));
        let delta = (u128::from(self.scale) * offset * offset * offset) >> 40;
        let delta = u64::try_from(delta).unwrap_or(u64::MAX);
        if t < self.k {
            self.origin.saturating_sub(delta)
        } else {
            self.origin.saturating_add(delta)
        }
    }

    /// The plateau is here and now.
    pub(super) fn flatten(&mut self, now: Time) {
        let t = ticks(now.since(self.start));
        self.origin = self.curve(t);
        self.start = now;
        self.k = 0;
    }
}

/// The Reno estimate gains 3 (1 - beta)/(1 + beta) segments per window (RFC 9438, 4.3): of beta = 0.7 one per 15/8
/// windows. In integers, as the kernel.
fn reno_eighths(beta: f64) -> u64 {
    let beta = (beta * BETA_DEN as f64) as u64;
    8 * (BETA_DEN + beta) / 3 / (BETA_DEN - beta)
}

/// The window after congestion; 0.7 is the law's own 717/1024.
fn reduced(window: u64, factor: f64) -> u64 {
    if factor == BETA { window * BETA_NUM / BETA_DEN } else { (window as f64 * factor) as u64 }
}

/// Cubic time.
fn ticks(span: Span) -> u64 {
    (span.0 as u128 * u128::from(TICKS) / 1_000_000_000) as u64
}

impl Cubic {
    pub(super) fn new(options: &Common, rfc: bool, beta_ecn: f64) -> Cubic {
        Cubic {
            rfc,
            hystart: options.hystart.then(HyStart::default),
            fast_convergence: options.fast_convergence,
            beta_ecn,
            beta: BETA,
            scale: C_NUM,
            reno_friendly: true,
            reno_eighths: reno_eighths(BETA),
            idle_epoch: true,
            double_cut: false,
            k_of_beta: false,
            tick: Span(1_000_000_000 / u64::from(options.hz)),
            next_tick: Time::ZERO,
            w_max: 0,
            delay_min_us: 0,
            epoch: None,
            last_cwnd: 0,
            last_time: Time::ZERO,
            count: 1,
        }
    }

    /// A time by the kernel's coarse clock; exact by the RFC.
    fn on_clock(&self, time: Time) -> Time {
        if self.rfc { time } else { Time(time.0 - time.0 % self.tick.0) }
    }

    /// The present by that clock. Most ACKs are within the same tick and need no division.
    #[inline(always)]
    pub(super) fn clock(&mut self, now: Time) -> Time {
        if self.rfc {
            return now;
        }
        if now >= self.next_tick {
            self.next_tick = self.on_clock(now) + self.tick;
        }
        Time(self.next_tick.0 - self.tick.0)
    }

    /// A recent start of epoch makes RTTs unrepresentative.
    #[inline(always)]
    fn sample_rtt(&mut self, now: Time, ack: &Ack, w: &mut Window) {
        let Some(rtt) = ack.rtt.newest_us else { return };
        if self.epoch.as_ref().is_some_and(|e| now.since(e.start) < Span::from_secs(1)) {
            return;
        }
        let rtt = rtt.max(1);
        if self.delay_min_us == 0 || rtt < self.delay_min_us {
            self.delay_min_us = rtt;
        }
        if w.in_slow_start()
            && let Some(h) = &mut self.hystart
            && h.should_exit(ack, rtt, self.delay_min_us, w.cwnd)
        {
            w.ssthresh = w.cwnd;
        }
    }

    /// RFC 9438, 4.2: how many ACKed segments one segment of growth takes now.
    #[inline(always)]
    fn update_count(&mut self, now: Time, acked: u32, ack: &Ack, cwnd: u32) {
        let window = u64::from(cwnd);
        if let Some(e) = &mut self.epoch {
            e.reno_acked += i64::from(acked);
            let same = self.last_cwnd == cwnd && now.since(self.last_time) <= Span(31_250_000);
            if !self.rfc && same {
                return;
            }
        }
        let same_tick = self.epoch.is_some() && now == self.last_time && !self.rfc;
        if !same_tick {
            self.last_cwnd = cwnd;
            self.last_time = now;
            if self.epoch.is_none() {
                self.epoch = Some(self.start_epoch(now, window, acked));
            }
            let target = self.target(now, ack, window);
            self.count = if target > window { window / (target - window) } else { 100 * window };
            if self.w_max == 0 && !self.rfc {
                self.count = self.count.min(INITIAL_COUNT_MAX);
            }
        }
        if self.reno_friendly {
            self.befriend_reno(window);
        }
        self.count = self.count.max(COUNT_MIN);
    }

    #[inline(always)]
    fn start_epoch(&self, now: Time, window: u64, acked: u32) -> Epoch {
        let begin =
            if self.k_of_beta && self.w_max > 0 { reduced(self.w_max, self.beta) } else { window };
        let (k, origin) = if self.w_max <= window {
            (0, window)
        } else {
            // K = cbrt((W_max - cwnd) / C)
            let v = (self.w_max - begin) as f64 * 1024.0 / self.scale as f64;
            ((math::cbrt(v) * TICKS as f64) as u64, self.w_max)
        };
        let (scale, reno_acked) = (self.scale, i64::from(acked));
        Epoch { start: now, k, origin, scale, reno_window: begin, reno_acked }
    }

    /// W(t + RTT), segments.
    #[inline(always)]
    fn target(&self, now: Time, ack: &Ack, window: u64) -> u64 {
        let e = self.epoch.as_ref().expect("an epoch has begun");
        let ahead = if self.rfc {
            ack.srtt()
        } else {
            // Rounded up to a tick, as the kernel's conversion does.
            let d = Span::from_micros(u64::from(self.delay_min_us));
            Span(d.0.div_ceil(self.tick.0) * self.tick.0)
        };
        let target = e.curve(ticks(now.since(e.start) + ahead));
        if self.rfc { target.clamp(window, window + window / 2) } else { target }
    }

    /// RFC 9438, 4.3.
    #[inline(always)]
    fn befriend_reno(&mut self, window: u64) {
        let (rfc, w_max) = (self.rfc, self.w_max);
        let Some(e) = &mut self.epoch else { return };
        loop {
            // By the RFC the slope rises to Reno's own once the old maximum is reached.
            let eighths = if rfc && e.reno_window >= w_max { 8 } else { self.reno_eighths };
            // A small beta in a small window would come to 0, and the loop to no end.
            let per_segment = ((window * eighths) >> 3).max(1) as i64;
            if e.reno_acked <= per_segment {
                break;
            }
            e.reno_acked -= per_segment;
            e.reno_window += 1;
        }
        if e.reno_window > window {
            self.count = self.count.min(window / (e.reno_window - window));
        }
    }
}

impl CongestionControl for Cubic {
    #[inline(always)]
    fn on_ack(&mut self, ack: &Ack, w: &mut Window) {
        let now = self.clock(ack.now);
        self.sample_rtt(now, ack, w);
        if !ack.state.may_grow || !ack.usage.cwnd_limited {
            return;
        }
        let mut acked = ack.acked;
        if w.in_slow_start() {
            acked = w.slow_start(acked);
            if acked == 0 {
                return;
            }
        }
        self.update_count(now, acked, ack, w.cwnd);
        w.additive_increase(u32::try_from(self.count).unwrap_or(u32::MAX), acked);
    }

    /// The curve goes on where it was (RFC 9438, 4.2: without the time in which the application limited the flow).
    fn on_restart(&mut self, at: Time, since: Time, _w: &mut Window) {
        if !self.idle_epoch {
            return;
        }
        let (at, since) = (self.on_clock(at), self.on_clock(since));
        if let Some(e) = &mut self.epoch {
            e.start = (e.start + at.since(since)).min(at);
        }
    }

    fn on_congestion(&mut self, why: Congestion, _at: Time, w: &mut Window) {
        let window = u64::from(w.cwnd);
        self.epoch = None;
        self.w_max = if window < self.w_max && self.fast_convergence {
            window * (BETA_DEN + BETA_NUM) / (2 * BETA_DEN)
        } else {
            window
        };
        let window = if self.double_cut { self.w_max } else { window };
        let window = match why {
            Congestion::Ecn => reduced(window, self.beta_ecn),
            Congestion::Loss | Congestion::Timeout | Congestion::TailLoss => {
                reduced(window, self.beta)
            }
        };
        w.ssthresh = (window as u32).max(MIN_WINDOW);
        if why == Congestion::Timeout {
            self.w_max = 0;
            self.delay_min_us = 0;
            if let Some(h) = &mut self.hystart {
                *h = HyStart::default();
            }
        }
    }

    fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("w_max_packets", self.w_max as f64);
    }
}

/// HyStart: ends slow start when a round's ACKs arrive over half the smallest RTT, or when its
/// delay rises.
#[derive(Clone, Debug, Default)]
struct HyStart {
    found: bool,
    started: bool,
    round_start: Time,
    round_end: u32,
    last_ack: Time,
    round_min_us: u32,
    samples: u32,
}

impl HyStart {
    #[inline(always)]
    fn should_exit(&mut self, ack: &Ack, rtt: u32, delay_min_us: u32, cwnd: u32) -> bool {
        if self.found {
            return false;
        }
        if !self.started || ack.totals.snd_una > self.round_end {
            self.started = true;
            self.round_start = ack.now;
            self.last_ack = ack.now;
            self.round_end = ack.totals.snd_nxt;
            self.round_min_us = u32::MAX;
            self.samples = 0;
        }
        if cwnd < HYSTART_LOW_WINDOW {
            return false;
        }
        if ack.now.since(self.last_ack) <= HYSTART_ACK_DELTA {
            self.last_ack = ack.now;
            let burst_us = (HYSTART_BURST_BYTES * 1_000_000 / ack.pacing.rate.max(1)).min(1_000);
            let mut threshold = u64::from(delay_min_us) + burst_us;
            // Pacing spreads a round over half an RTT by itself.
            if !ack.pacing.is_on {
                threshold /= 2;
            }
            self.found |= ack.now.micros_since(self.round_start) > threshold;
        }
        self.round_min_us = self.round_min_us.min(rtt);
        if self.samples < HYSTART_MIN_SAMPLES {
            self.samples += 1;
        } else {
            let rise = (delay_min_us / 8).clamp(HYSTART_DELAY_MIN_US, HYSTART_DELAY_MAX_US);
            self.found |= self.round_min_us > delay_min_us.saturating_add(rise);
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::{AckRtt, AckState, AckUsage, Totals};

    fn cubic(given: &[(&str, &str)]) -> Cubic {
        crate::params::read_options::<Options>(given).unwrap().build(Rng::stream(1, "cubic", 0))
    }

    fn ack(now: Time, acked: u32, rtt_us: u32) -> Ack {
        Ack {
            now,
            acked,
            rtt: AckRtt {
                newest_us: Some(rtt_us),
                srtt8: u64::from(rtt_us) * 8,
                ..AckRtt::default()
            },
            usage: AckUsage { cwnd_limited: true, ..AckUsage::default() },
            state: AckState { may_grow: true, ..AckState::default() },
            ..Ack::default()
        }
    }

    /// laws.md 7: recovery takes K = cbrt(0.3 W_max / 0.4) seconds. At 100 ms RTT the cubic, not
    /// Reno, governs; it is 1 below its plateau cbrt(1/0.4) seconds before K, and looks one RTT
    /// ahead.
    #[test]
    fn the_window_is_back_at_its_maximum_after_k_seconds() {
        for rules in ["linux", "rfc9438"] {
            let mut c = cubic(&[("rules", rules), ("hystart", "off")]);
            let mut w = Window::new(1448, 52);
            w.cwnd = 1000;
            w.ssthresh = 1000;
            c.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
            w.cwnd = w.ssthresh;
            assert_eq!(w.cwnd, 700);
            let rtt = Span::from_millis(100);
            let mut now = Time::ZERO;
            while w.cwnd < 999 {
                for _ in 0..w.cwnd {
                    now += rtt / u64::from(w.cwnd);
                    c.on_ack(&ack(now, 1, 100_000), &mut w);
                }
            }
            let expected = math::cbrt(0.3 * 1000.0 / 0.4) - math::cbrt(1.0 / 0.4) - 0.1;
            let t = now.as_secs_f64();
            assert!((t - expected).abs() < 0.06 * expected, "{rules}: {t} s, law {expected} s");
        }
    }

    /// RFC 8312, 4.1: K = cbrt(0.3 W_max / 0.4), also where fast convergence has lowered W_max to 765. By RFC 9438, 4.2,
    /// it is cbrt((765 - 630) / 0.4).
    #[test]
    fn the_k_of_beta_is_later_than_that_of_the_window() {
        for (k_of_beta, way) in [("off", 135.0), ("on", 0.3 * 765.0)] {
            let mut c = cubic(&[("k_of_beta", k_of_beta), ("hystart", "off")]);
            let mut w = Window::new(1448, 52);
            for cwnd in [1000, 900] {
                w.cwnd = cwnd;
                c.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
            }
            w.cwnd = w.ssthresh;
            let mut now = Time::ZERO;
            while w.cwnd < 764 {
                for _ in 0..w.cwnd {
                    now += Span::from_millis(100) / u64::from(w.cwnd);
                    c.on_ack(&ack(now, 1, 100_000), &mut w);
                }
            }
            let expected = math::cbrt(way / 0.4) - math::cbrt(1.0 / 0.4) - 0.1;
            let t = now.as_secs_f64();
            assert!((t - expected).abs() < 0.06 * expected, "{k_of_beta}: {t} s, law {expected} s");
        }
    }

    /// RFC 9438, 4.2: while the application rests, the window does not grow.
    #[test]
    fn the_curve_goes_on_after_a_rest() {
        for rules in ["linux", "rfc9438"] {
            let windows = [0, 60].map(|rest| {
                let mut c = cubic(&[("rules", rules), ("hystart", "off")]);
                let mut w = Window::new(1448, 52);
                (w.cwnd, w.ssthresh) = (1000, 1000);
                c.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
                w.cwnd = w.ssthresh;
                let mut now = Time::ZERO;
                for round in 0..60 {
                    if round == 30 {
                        c.on_restart(now + Span::from_secs(rest), now, &mut w);
                        now += Span::from_secs(rest);
                    }
                    for _ in 0..w.cwnd {
                        now += Span::from_millis(100) / u64::from(w.cwnd);
                        c.on_ack(&ack(now, 1, 100_000), &mut w);
                    }
                }
                w.cwnd
            });
            assert!(
                windows[0] > 950 && windows[0].abs_diff(windows[1]) <= 1,
                "{rules}: {windows:?}"
            );
        }
    }

    /// Reno-friendly region: at a short RTT the window gains 8/15 segment per round trip.
    #[test]
    fn at_short_rtt_it_grows_like_reno_of_the_same_average() {
        let mut c = cubic(&[("hystart", "off")]);
        let mut w = Window::new(1448, 52);
        w.cwnd = 50;
        w.ssthresh = 50;
        c.on_congestion(Congestion::Ecn, Time::ZERO, &mut w);
        w.cwnd = w.ssthresh;
        let start = w.cwnd;
        let mut now = Time::ZERO;
        for _round in 0..150 {
            let n = w.cwnd;
            for _ in 0..n {
                now += Span::from_millis(4) / u64::from(n);
                c.on_ack(&ack(now, 1, 4_000), &mut w);
            }
        }
        let gained = w.cwnd - start;
        assert!((72..=82).contains(&gained), "gained {gained} in 150 round trips, law 80");
    }

    /// 3 (1 - beta)/(1 + beta) segments per round trip, also where this is more than a segment per ACK.
    #[test]
    fn a_small_factor_grows_in_the_smallest_windows() {
        let mut c = cubic(&[("hystart", "off"), ("beta", "0.1")]);
        let mut w = Window::new(1448, 52);
        (w.cwnd, w.ssthresh) = (MIN_WINDOW, MIN_WINDOW);
        for number in 1..=20 {
            c.on_ack(&ack(Time::ZERO + Span::from_millis(10 * number), 1, 10_000), &mut w);
        }
        assert!(w.cwnd > MIN_WINDOW);
    }

    /// Of a window below the maximum, double_cut leaves 0.7 of 0.85, the law 0.7 (RFC 9438, 4.6).
    #[test]
    fn double_cut_reduces_a_window_below_the_maximum_twice() {
        let cuts = |double_cut| {
            let mut c = cubic(&[("double_cut", double_cut)]);
            let mut w = Window::new(1448, 52);
            [1000, 900].map(|cwnd| {
                w.cwnd = cwnd;
                c.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
                w.ssthresh
            })
        };
        assert_eq!(cuts("off"), [700, 630]);
        assert_eq!(cuts("on"), [700, 535]); // 900 * 0.85 * 0.7 = 535.5
    }

    #[test]
    fn fast_convergence_gives_up_part_of_the_maximum() {
        let mut c = cubic(&[]);
        let mut w = Window::new(1448, 52);
        w.cwnd = 100;
        c.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
        assert_eq!((c.w_max, w.ssthresh), (100, 70));
        w.cwnd = 80;
        c.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
        assert_eq!(c.w_max, 68);
    }

    #[test]
    fn hystart_ends_slow_start_when_delay_rises() {
        let mut c = cubic(&[]);
        let mut w = Window::new(1448, 52);
        w.cwnd = 20;
        let mut now = Time::ZERO;
        for i in 0..20 {
            now += Span::from_millis(3); // too far apart for an ACK train
            let a = Ack {
                totals: Totals { snd_una: i, snd_nxt: i + 20, ..Totals::default() },
                ..ack(now, 1, 20_000)
            };
            c.on_ack(&a, &mut w);
        }
        assert!(w.in_slow_start());
        for i in 20..60 {
            now += Span::from_millis(3);
            let a = Ack {
                totals: Totals { snd_una: i, snd_nxt: i + 20, ..Totals::default() },
                ..ack(now, 1, 25_000)
            };
            c.on_ack(&a, &mut w);
        }
        assert!(!w.in_slow_start());
    }
}
