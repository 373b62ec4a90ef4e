//! BBR version 1 as in Linux 7.2 `net/ipv4/tcp_bbr.c` (Cardwell et al., CACM 2017): a model of the
//! path, made of the largest delivery rate of the last ten rounds and the smallest RTT of the last
//! ten seconds, sets the pacing rate and a window of twice their product. It neither answers marks
//! nor, beyond one round of packet conservation, losses.

pub(super) mod model;

use self::model::{
    Aggregation, BURST_MAX, BURST_SHIFT, EXTRA_ACKED_ROUNDS, FULL_RATE_GAIN, FULL_RATE_ROUNDS,
    GAIN_BITS, MIN_CWND, MIN_RTT_WINDOW, ONE, PROBE_RTT_TIME, Pacing, RATE_BITS,
};
use super::{
    Ack, AckFlight, Burst, Congestion, CongestionControl, Constants, Controller, EcnWish,
    INITIAL_WINDOW, Pace, Role, Signals, Totals, Window,
};
use crate::params::kinds::params;
use crate::params::{Described, Gauge, gauge};
use crate::probe::Gauges;
use crate::rng::Rng;
use crate::time::Time;
use crate::windowed::WindowedMax;

/// Rounds over which the largest rate is taken: a gain cycle and two more.
const RATE_ROUNDS: u32 = 10;
/// 2/ln 2: doubles what is sent in each round.
const HIGH_GAIN: u32 = ONE * 2885 / 1000 + 1;
const DRAIN_GAIN: u32 = ONE * 1000 / 2885;
const CWND_GAIN: u32 = 2 * ONE;
/// Each lasts about one RTT: probe for more, give back, cruise.
const CYCLE: [u32; 8] = [ONE * 5 / 4, ONE * 3 / 4, ONE, ONE, ONE, ONE, ONE, ONE];
/// Below 1.2 Mbit/s segments leave one by one, bytes per second.
const SMALL_RATE: u64 = 1_200_000 / 8;
/// TCP counts its SYN among the packets that were delivered.
const SYN: u32 = 1;
/// A policer is assumed where two intervals of at least four rounds, each with a fifth of the
/// packets lost, had rates within an eighth or 4 kbit/s; its rate is kept for 48 rounds.
const POLICER_ROUNDS: u32 = 4;
const POLICER_LOSS: u64 = 50;
const POLICER_RATIO: u64 = ONE as u64 / 8;
const POLICER_DIFFERENCE: u64 = 4000 / 8;
const POLICER_KEPT_ROUNDS: u32 = 48;

params! {
    pub struct Options {}
}

/// What BBR tells, whatever its version.
pub(super) const GAUGES: &[Gauge] = &[
    gauge("pacing_gain", "", "factor on the estimated rate"),
    gauge("min_rtt_ms", "ms", "smallest RTT of the model"),
    gauge("bottleneck_packets_per_ms", "packets/ms", "delivery rate of the model"),
];

impl Described for Options {
    const NAME: &'static str = "bbr";
    const SUMMARY: &'static str = "BBR version 1 (Linux)";
    const GAUGES: &'static [Gauge] = GAUGES;
}

impl Controller for Options {
    type Made = Bbr;
    const ROLE: Role = Role::Bbr;
    const LOOK: u8 = 0;
    const STATES: &'static [&'static str] = &["startup", "drain", "probe_bw", "probe_rtt"];
    fn build(&self, rng: Rng) -> Bbr {
        Bbr::new(rng)
    }
}

/// In the order of [`Controller::STATES`].
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// The rate that a policer seems to allow.
#[derive(Clone, Debug, Default)]
struct Policer {
    sampling: bool,
    in_use: bool,
    rate: u32,
    rounds: u32,
    since: Time,
    delivered: u32,
    lost: u64,
}

impl Policer {
    fn begin_interval(&mut self, ack: &Ack) {
        self.since = ack.now;
        self.delivered = ack.totals.delivered;
        self.lost = ack.flight.lost_total;
        self.rounds = 0;
    }
    fn reset(&mut self, ack: &Ack) {
        *self = Policer::default();
        self.begin_interval(ack);
    }
}

/// BBR version 1, as in Linux.
#[derive(Clone, Debug)]
pub struct Bbr {
    rng: Rng,
    mode: Mode,
    rate: WindowedMax,
    min_rtt_us: u32,
    min_rtt_at: Time,
    probe_rtt_until: Option<Time>,
    probe_rtt_round_done: bool,
    holds_back: bool,
    /// Nothing has been delivered since the sender rested.
    restarts: bool,
    rounds: u32,
    round_end: u32,
    round_start: bool,
    phase: usize,
    phase_since: Time,
    pacing_gain: u32,
    cwnd_gain: u32,
    full: bool,
    full_rate: u32,
    full_rounds: u32,
    pacing: Pacing,
    prior_cwnd: u32,
    was_recovering: bool,
    was_repairing: bool,
    conserves: bool,
    policer: Policer,
    aggregation: Aggregation,
    /// How many segments have been delivered, and when the last one was.
    delivered: (Time, u32),
}

impl Bbr {
    fn new(rng: Rng) -> Bbr {
        Bbr {
            rng,
            mode: Mode::Startup,
            rate: WindowedMax::default(),
            min_rtt_us: u32::MAX,
            min_rtt_at: Time::ZERO,
            probe_rtt_until: None,
            probe_rtt_round_done: false,
            holds_back: false,
            restarts: false,
            rounds: 0,
            round_end: 0,
            round_start: false,
            phase: 0,
            phase_since: Time::ZERO,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            full: false,
            full_rate: 0,
            full_rounds: 0,
            pacing: Pacing::new(HIGH_GAIN),
            prior_cwnd: 0,
            was_recovering: false,
            was_repairing: false,
            conserves: false,
            policer: Policer::default(),
            aggregation: Aggregation::default(),
            delivered: (Time::ZERO, 0),
        }
    }

    fn rate(&self) -> u32 {
        if self.policer.in_use { self.policer.rate } else { self.rate.get() }
    }

    // --- from rate and RTT to windows and bytes per second ---------------------------------

    fn bdp(&self, rate: u32, gain: u32) -> u32 {
        model::bdp(rate, self.min_rtt_us, gain)
    }
    fn min_burst(&self) -> u32 {
        if self.pacing.rate < SMALL_RATE { 1 } else { 2 }
    }
    fn burst_goal(&self, w: &Window) -> u32 {
        let bytes = (self.pacing.rate >> BURST_SHIFT).min(BURST_MAX);
        ((bytes / u64::from(w.mss)) as u32).max(self.min_burst()).min(127)
    }
    /// Room for what the ends hold in one piece: three bursts, an even number for delayed ACKs,
    /// and two more so that probing exceeds a small product.
    fn with_bursts(&self, cwnd: u32, w: &Window) -> u32 {
        let even = (cwnd + 3 * self.burst_goal(w) + 1) & !1;
        even + if self.mode == Mode::ProbeBw && self.phase == 0 { 2 } else { 0 }
    }
    fn inflight(&self, rate: u32, gain: u32, w: &Window) -> u32 {
        self.with_bursts(self.bdp(rate, gain), w)
    }
    fn in_network(&self, in_flight: u32, ack: &Ack, w: &Window) -> u32 {
        let burst = if self.pacing_gain > ONE { self.burst_goal(w) } else { 0 };
        model::in_network(in_flight, burst, self.rate(), ack)
    }

    // --- the model ---------------------------------------------------------------------------

    fn update_rate(&mut self, ack: &Ack, w: &Window) {
        self.round_start = false;
        let us = ack.rate.interval.as_micros();
        if us == 0 {
            return;
        }
        if ack.rate.prior_delivered >= self.round_end {
            self.round_end = ack.totals.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.conserves = false;
        }
        self.look_for_policer(ack, w);
        let rate = ((u64::from(ack.rate.delivered) << RATE_BITS) / us) as u32;
        if !ack.rate.app_limited || rate >= self.rate.get() {
            self.rate.update(RATE_ROUNDS, self.rounds, rate);
        }
    }

    fn look_for_policer(&mut self, ack: &Ack, w: &Window) {
        if self.policer.in_use {
            if self.mode == Mode::ProbeBw && self.round_start {
                self.policer.rounds += 1;
                if self.policer.rounds >= POLICER_KEPT_ROUNDS {
                    self.policer.reset(ack);
                    self.enter_probe_bw(ack.now);
                }
            }
            return;
        }
        let p = &mut self.policer;
        if !p.sampling {
            // The tokens at hand must be used up first.
            if ack.flight.lost == 0 {
                return;
            }
            p.begin_interval(ack);
            p.sampling = true;
        }
        p.rounds += u32::from(self.round_start);
        if ack.rate.app_limited || p.rounds > 4 * POLICER_ROUNDS {
            p.reset(ack);
            return;
        }
        if p.rounds < POLICER_ROUNDS || ack.flight.lost == 0 {
            return;
        }
        let (lost, delivered) =
            (ack.flight.lost_total - p.lost, u64::from(ack.totals.delivered - p.delivered));
        let ms = ack.now.0 / 1_000_000 - p.since.0 / 1_000_000;
        if delivered == 0 || (lost << GAIN_BITS) < POLICER_LOSS * delivered || ms == 0 {
            return;
        }
        let rate = ((delivered << RATE_BITS) / (ms * 1000)) as u32;
        self.end_policer_interval(rate, ack, w);
    }

    fn end_policer_interval(&mut self, rate: u32, ack: &Ack, w: &Window) {
        let p = &mut self.policer;
        if p.rate > 0 {
            let difference = u64::from(rate.abs_diff(p.rate));
            let bytes = model::pacing_bytes(difference, ONE, w);
            if difference << GAIN_BITS <= POLICER_RATIO * u64::from(p.rate)
                || bytes <= POLICER_DIFFERENCE
            {
                p.rate = ((u64::from(rate) + u64::from(p.rate)) / 2) as u32;
                p.in_use = true;
                p.rounds = 0;
                self.pacing_gain = ONE;
                return;
            }
        }
        p.rate = rate;
        p.begin_interval(ack);
    }

    fn update_phase(&mut self, ack: &Ack, w: &Window) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let full_length = ack.now.micros_since(self.phase_since) > u64::from(self.min_rtt_us);
        let over = if self.pacing_gain == ONE {
            full_length
        } else {
            let in_network = self.in_network(ack.flight.before, ack, w);
            let rate = self.rate.get();
            if self.pacing_gain > ONE {
                // More than the product must be out, unless the path does not hold it.
                full_length
                    && (ack.flight.lost > 0
                        || in_network >= self.inflight(rate, self.pacing_gain, w))
            } else {
                full_length || in_network <= self.inflight(rate, ONE, w)
            }
        };
        if over {
            self.advance_phase(ack.now);
        }
    }
    fn advance_phase(&mut self, now: Time) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.phase_since = now;
    }
    /// Begins at any phase but the one that gives back.
    fn enter_probe_bw(&mut self, now: Time) {
        self.mode = Mode::ProbeBw;
        self.phase = CYCLE.len() - 1 - self.rng.below(7) as usize;
        self.advance_phase(now);
    }

    fn look_whether_full(&mut self, ack: &Ack) {
        if self.full || !self.round_start || ack.rate.app_limited {
            return;
        }
        let wanted = (u64::from(self.full_rate) * u64::from(FULL_RATE_GAIN)) >> GAIN_BITS;
        if u64::from(self.rate.get()) >= wanted {
            self.full_rate = self.rate.get();
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.full = self.full_rounds >= FULL_RATE_ROUNDS;
    }
    fn look_whether_drained(&mut self, ack: &Ack, w: &mut Window) {
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
            w.ssthresh = self.inflight(self.rate.get(), ONE, w);
        }
        if self.mode == Mode::Drain
            && self.in_network(ack.flight.now, ack, w) <= self.inflight(self.rate.get(), ONE, w)
        {
            self.enter_probe_bw(ack.now);
        }
    }

    fn update_min_rtt(&mut self, ack: &Ack, w: &mut Window) {
        let expired = ack.now > self.min_rtt_at + MIN_RTT_WINDOW;
        if let Some(rtt) = ack.rtt.newest_us
            && (rtt < self.min_rtt_us || expired)
        {
            self.min_rtt_us = rtt;
            self.min_rtt_at = ack.now;
        }
        if expired && !self.restarts && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(w);
            self.probe_rtt_until = None;
        }
        self.holds_back = self.mode == Mode::ProbeRtt;
        self.restarts &= ack.rate.delivered == 0;
        if self.mode != Mode::ProbeRtt {
            return;
        }
        match self.probe_rtt_until {
            None if ack.flight.now <= MIN_CWND => {
                self.probe_rtt_until = Some(ack.now + PROBE_RTT_TIME);
                self.probe_rtt_round_done = false;
                self.round_end = ack.totals.delivered;
            }
            None => {}
            Some(until) => {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done && ack.now > until {
                    self.leave_probe_rtt(ack.now, w);
                }
            }
        }
    }
    fn leave_probe_rtt(&mut self, now: Time, w: &mut Window) {
        self.min_rtt_at = now;
        w.cwnd = w.cwnd.max(self.prior_cwnd);
        if self.full { self.enter_probe_bw(now) } else { self.mode = Mode::Startup }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.policer.in_use => (ONE, CWND_GAIN),
            Mode::ProbeBw => (CYCLE[self.phase], CWND_GAIN),
            Mode::ProbeRtt => (ONE, ONE),
        };
    }

    // --- the window --------------------------------------------------------------------------

    /// Remembers a window that was good, to return to it.
    fn save_cwnd(&mut self, w: &Window) {
        let good = !self.was_repairing && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if good { w.cwnd } else { self.prior_cwnd.max(w.cwnd) };
    }

    /// In the first round of recovery as many segments leave as arrive; afterwards the window is
    /// what it was. `None`: nothing special goes on.
    fn recover(&mut self, ack: &Ack, cwnd: &mut u32) -> Option<u32> {
        *cwnd = cwnd.saturating_sub(ack.flight.lost).max(1);
        let starts = ack.state.recovering && !self.was_recovering;
        if starts {
            self.conserves = true;
            self.round_end = ack.totals.delivered;
            *cwnd = ack.flight.now + ack.acked;
        } else if self.was_repairing && !ack.state.repairing {
            *cwnd = (*cwnd).max(self.prior_cwnd);
            self.conserves = false;
        }
        self.was_recovering = ack.state.recovering;
        self.was_repairing = ack.state.repairing;
        self.conserves.then(|| (*cwnd).max(ack.flight.now + ack.acked))
    }

    fn set_cwnd(&mut self, ack: &Ack, w: &mut Window) {
        if ack.acked > 0 {
            let mut cwnd = w.cwnd;
            w.cwnd = match self.recover(ack, &mut cwnd) {
                Some(conserving) => conserving,
                None => {
                    let rate = self.rate();
                    let mut target = self.bdp(rate, self.cwnd_gain);
                    if self.full {
                        target += self.aggregation.allowance(rate);
                    }
                    let target = self.with_bursts(target, w);
                    if self.full {
                        cwnd = (cwnd + ack.acked).min(target);
                    } else if cwnd < target || ack.totals.delivered + SYN < INITIAL_WINDOW {
                        cwnd += ack.acked;
                    }
                    cwnd.max(MIN_CWND)
                }
            };
        }
        if self.mode == Mode::ProbeRtt {
            w.cwnd = w.cwnd.min(MIN_CWND);
        }
    }
}

impl Signals for Bbr {
    /// Ends a round, in which something was lost: a policer shows by that too.
    fn on_timeout(&mut self, lost_total: u64, w: &Window) {
        self.was_repairing = true;
        self.was_recovering = false;
        self.full_rate = 0;
        self.round_start = true;
        let (now, delivered) = self.delivered;
        self.look_for_policer(
            &Ack {
                now,
                totals: Totals { delivered, ..Totals::default() },
                flight: AckFlight { lost: 1, lost_total, ..AckFlight::default() },
                ..Ack::default()
            },
            w,
        );
    }
}

impl CongestionControl for Bbr {
    fn on_ack(&mut self, ack: &Ack, w: &mut Window) {
        if ack.acked > 0 {
            self.delivered = (ack.now, ack.totals.delivered);
        }
        self.update_rate(ack, w);
        let rate = self.rate();
        self.aggregation.update(self.round_start, EXTRA_ACKED_ROUNDS, rate, ack, w);
        self.update_phase(ack, w);
        self.look_whether_full(ack);
        self.look_whether_drained(ack, w);
        self.update_min_rtt(ack, w);
        self.update_gains();
        let (rate, gain) = (self.rate(), self.pacing_gain);
        self.pacing.set(rate, gain, self.full, ack, w);
        self.set_cwnd(ack, w);
    }

    fn on_congestion(&mut self, _why: Congestion, _at: Time, w: &mut Window) {
        self.save_cwnd(w);
    }

    fn on_undo(&mut self, _prior_cwnd: u32, _w: &mut Window) {
        self.full_rate = 0;
        self.full_rounds = 0;
        self.policer = Policer::default();
    }

    fn constants(&self) -> Constants {
        Constants::governing(EcnWish::NotEct)
    }
    fn pace(&self) -> Pace {
        let burst = Burst::AtLeast(self.min_burst());
        Pace { rate: Some(self.pacing.rate), burst, holds_back: self.holds_back }
    }
    fn on_restart(&mut self, at: Time, _since: Time, w: &mut Window) {
        self.restarts = true;
        self.aggregation.restart(at);
        if self.mode == Mode::ProbeBw {
            self.pacing.change(self.rate(), ONE, self.full, w);
        } else if self.mode == Mode::ProbeRtt
            && self.probe_rtt_until.is_some_and(|until| at > until)
        {
            self.leave_probe_rtt(at, w);
        }
    }
    fn signals(&mut self) -> Option<&mut dyn Signals> {
        Some(self)
    }

    fn on_established(
        &mut self,
        _granted: bool,
        ack: &Ack,
        w: &mut Window,
    ) -> Option<Box<dyn CongestionControl>> {
        self.min_rtt_us = ack.rtt.min_us;
        self.min_rtt_at = ack.now;
        self.aggregation.since = ack.now;
        self.pacing.start(ack.rtt.srtt_us(), w);
        None
    }

    fn state(&self) -> Option<&'static str> {
        Some(Options::STATES[self.mode as usize])
    }

    fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("pacing_gain", f64::from(self.pacing_gain) / f64::from(ONE));
        out.gauge("min_rtt_ms", f64::from(self.min_rtt_us) / 1e3);
        let per_us = f64::from(self.rate()) / f64::from(1_u32 << RATE_BITS);
        out.gauge("bottleneck_packets_per_ms", per_us * 1e3);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::AckRtt;
    use crate::cc::RateSample;
    use crate::time::Span;

    /// A timeout begins and ends a policer's interval as any loss does (Linux `bbr_set_state`): two intervals
    /// of a fifth lost and the same rate, and that rate is taken, without an ACK that told of a loss.
    #[test]
    fn timeouts_show_a_policer() {
        let (mut bbr, mut w) = (Bbr::new(Rng::stream(1, "bbr", 0)), Window::new(1448, 52));
        let mut ack = Ack {
            rtt: AckRtt { srtt8: 800_000, min_us: 100_000, ..AckRtt::default() },
            ..Ack::default()
        };
        bbr.on_established(false, &ack, &mut w);
        let mut rates = Vec::new();
        for interval in 0..3 {
            ack.flight.lost_total = 10 * interval;
            bbr.on_timeout(ack.flight.lost_total, &w);
            rates.push(bbr.policer.in_use);
            for _round in 0..4 {
                ack.rate.prior_delivered = ack.totals.delivered;
                ack.now += Span::from_millis(100);
                ack.totals.delivered += 10;
                ack.acked = 10;
                ack.rate = RateSample {
                    delivered: 10,
                    interval: Span::from_millis(100),
                    prior_delivered: ack.rate.prior_delivered,
                    ..RateSample::default()
                };
                bbr.on_ack(&ack, &mut w);
            }
        }
        assert_eq!(rates, [false, false, true]);
    }
}
