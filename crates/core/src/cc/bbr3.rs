//! BBR version 3 as in google/bbr `net/ipv4/tcp_bbr.c` (branch v3; draft-ietf-ccwg-bbr): BBR's model
//! of the path with bounds. Probing finds `inflight_hi`, the most that the path holds with at most 2 % of
//! losses or 50 % of marks. `bw_lo` and `inflight_lo` shrink in each round with losses or marks, and are
//! forgotten at the next probe. The response to a round with marks is DCTCP's: alpha, the averaged share of
//! marks, takes a third of itself off `inflight_lo`.
//!
//! Left out: the fast path for senders without data, load balancing by rehashing (PLB), and the receiver's
//! eager ACKs ("fast ACK mode"). Nor does the ACK of a tail loss probe keep the delivery of the round before it.
//!
//! Rates are segments per microsecond with 24 fractional bits; gains and shares have eight.

mod cycle;
mod options;
#[cfg(test)]
mod tests;

use self::options::Config;
pub use self::options::Options;
use super::bbr::model::{
    self, Aggregation, BURST_MAX, BURST_SHIFT, EXTRA_ACKED_ROUNDS, FULL_RATE_GAIN,
    FULL_RATE_ROUNDS, GAIN_BITS, MIN_CWND, MIN_RTT_WINDOW, ONE, PROBE_RTT_TIME, Pacing, RATE_BITS,
};
use super::{
    Ack, Burst, Congestion, CongestionControl, Constants, Controller, INITIAL_WINDOW, LostSegment,
    Pace, Role, Signals, Totals, Window, bbr,
};
use crate::params::{Described, Gauge, gauge};
use crate::probe::Gauges;
use crate::rng::Rng;
use crate::time::{Span, Time};

/// 4 ln 2: the least gain that doubles the rate in each round with smooth growth.
const STARTUP_PACING_GAIN: u32 = ONE * 277 / 100 + 1;
const CWND_GAIN: u32 = 2 * ONE;
/// While probing for more.
const UP_CWND_GAIN: u32 = CWND_GAIN + ONE / 4;
const UP_PACING_GAIN: u32 = ONE * 5 / 4;
const DOWN_PACING_GAIN: u32 = ONE * 91 / 100;
/// The RTT is probed every five seconds, with half of the product in flight.
const PROBE_RTT_INTERVAL: Span = Span::from_secs(5);
const PROBE_RTT_CWND_GAIN: u32 = ONE / 2;
/// Startup ends after two rounds with too many marks, or one of at least six events of loss.
const FULL_ECN_ROUNDS: u32 = 2;
const FULL_LOSS_EVENTS: u32 = 6;
/// Bursts: 64 KB more, halved for every 512 us of RTT.
const BURST_EXTRA: u64 = 65_536;
const BURST_RTT_SHIFT: u32 = 9;

/// A bound not known.
const UNSET: u32 = u32::MAX;

impl Described for Options {
    const NAME: &'static str = "bbr3";
    const SUMMARY: &'static str = "BBR version 3 (google/bbr branch v3, where it is called bbr)";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] = &[
        bbr::GAUGES[0],
        bbr::GAUGES[1],
        bbr::GAUGES[2],
        gauge(
            "inflight_hi_packets",
            "packets",
            "bound from probing too far (draft: inflight_longterm)",
        ),
        gauge(
            "inflight_lo_packets",
            "packets",
            "bound from the last rounds (draft: inflight_shortterm)",
        ),
        gauge("alpha", "", "estimate of the fraction of marks"),
        gauge("max_bw_packets_per_ms", "packets/ms", "largest delivery rate of two cycles"),
        gauge("bw_lo_packets_per_ms", "packets/ms", "bound of the rate (draft: bw_shortterm)"),
        gauge("extra_acked_packets", "packets", "allowance for aggregated ACKs"),
        gauge("bdp_packets", "packets", "what is in flight at the model's rate without a queue"),
        gauge("cwnd_gain", "", "factor on the product of rate and RTT"),
        gauge("full_bw_count", "", "rounds without growth of the rate"),
        gauge("full_bw_reached", "", "1 when the pipe has been full once"),
        gauge("round_count", "", "round trips so far"),
        gauge("bw_probe_wait_ms", "ms", "time from the beginning of Down to the next probe"),
    ];
}

impl Controller for Options {
    type Made = Bbr3;
    const ROLE: Role = Role::Bbr;
    const LOOK: u8 = 1;
    const STATES: &'static [&'static str] = &[
        "startup",
        "drain",
        "probe_bw_down",
        "probe_bw_cruise",
        "probe_bw_refill",
        "probe_bw_up",
        "probe_rtt",
    ];
    const SCALABLE_WITH: &'static [(&'static str, &'static str)] = &[("ecn_low", "ect1")];
    fn build(&self, rng: Rng) -> Bbr3 {
        Bbr3::new(self, rng)
    }
}

/// Up, Down, Cruise and Refill are the cycle of ProbeBW. In the order of [`Controller::STATES`].
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Phase {
    Startup,
    Drain,
    /// Drain what probing has queued.
    Down,
    /// Keep to the model, with headroom.
    Cruise,
    /// Fill the pipe again before probing.
    Refill,
    /// Probe for more.
    Up,
    ProbeRtt,
}

/// The phase of probing to which the ACKs that arrive now belong.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum AckPhase {
    Other,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// Input for judging a probe: from an ACK's rate sample, or from the flight before a lost segment.
#[derive(Copy, Clone, Debug, Default)]
struct Flight {
    tx_in_flight: u32,
    lost: u32,
    delivered: u32,
    delivered_ce: u32,
    app_limited: bool,
}

/// The bounds before a recovery, to return to.
#[derive(Copy, Clone, Debug)]
struct Bounds {
    bw_lo: u32,
    inflight_lo: u32,
    inflight_hi: u32,
}

/// BBR version 3.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    config: Config,
    rng: Rng,
    phase: Phase,
    ack_phase: AckPhase,
    phase_since: Time,
    pacing_gain: u32,
    cwnd_gain: u32,
    pacing: Pacing,
    aggregation: Aggregation,
    burst: u32,
    delivered: u32,
    // Rounds.
    round_end: u32,
    round_start: bool,
    round_count: u32,
    /// The round in which Drain began.
    drains_since: u32,
    loss_round_end: u32,
    loss_round_start: bool,
    // The model: rates of the last cycle and of this one, and what the last round delivered.
    bw_hi: [u32; 2],
    bw_latest: u32,
    inflight_latest: u32,
    bounds: Bounds,
    bounds_before: Bounds,
    min_rtt_us: u32,
    min_rtt_at: Time,
    probe_rtt_min_us: u32,
    probe_rtt_min_at: Time,
    probe_rtt_until: Option<Time>,
    probe_rtt_round_done: bool,
    holds_back: bool,
    /// Nothing has been delivered since the sender rested.
    restarts: bool,
    // A full pipe: ever, and since startup or the last probe began.
    full: bool,
    full_now: bool,
    full_rate: u32,
    full_rounds: u32,
    startup_ecn_rounds: u32,
    loss_events: u32,
    // Congestion.
    loss_in_round: bool,
    loss_in_cycle: bool,
    ecn_in_round: bool,
    ecn_in_cycle: bool,
    ecn_granted: bool,
    ecn_eligible: bool,
    alpha: u32,
    alpha_delivered: u32,
    alpha_delivered_ce: u32,
    // Probing.
    probe_samples: bool,
    probe_was_too_high: bool,
    stopped_risky_probe: bool,
    rounds_since_probe: u32,
    probe_wait_us: u64,
    up_rounds: u32,
    up_acks: u32,
    /// Segments delivered per segment more of `inflight_hi`.
    up_count: u32,
    // The window before recovery or the probing of the RTT.
    prior_cwnd: u32,
    was_repairing: bool,
    timed_out: bool,
}

impl Bbr3 {
    fn new(options: &Options, rng: Rng) -> Bbr3 {
        let bounds = Bounds { bw_lo: UNSET, inflight_lo: UNSET, inflight_hi: UNSET };
        Bbr3 {
            config: Config::new(options),
            rng,
            phase: Phase::Startup,
            ack_phase: AckPhase::Other,
            phase_since: Time::ZERO,
            pacing_gain: STARTUP_PACING_GAIN,
            cwnd_gain: CWND_GAIN,
            pacing: Pacing::new(STARTUP_PACING_GAIN),
            aggregation: Aggregation::default(),
            burst: 2,
            delivered: 0,
            round_end: 0,
            round_start: false,
            round_count: 0,
            drains_since: 0,
            loss_round_end: 1,
            loss_round_start: false,
            bw_hi: [0; 2],
            bw_latest: 0,
            inflight_latest: 0,
            bounds,
            bounds_before: bounds,
            min_rtt_us: u32::MAX,
            min_rtt_at: Time::ZERO,
            probe_rtt_min_us: u32::MAX,
            probe_rtt_min_at: Time::ZERO,
            probe_rtt_until: None,
            probe_rtt_round_done: false,
            holds_back: false,
            restarts: false,
            full: false,
            full_now: false,
            full_rate: 0,
            full_rounds: 0,
            startup_ecn_rounds: 0,
            loss_events: 0,
            loss_in_round: false,
            loss_in_cycle: false,
            ecn_in_round: false,
            ecn_in_cycle: false,
            ecn_granted: false,
            ecn_eligible: false,
            alpha: ONE,
            alpha_delivered: 0,
            alpha_delivered_ce: 0,
            probe_samples: false,
            probe_was_too_high: false,
            stopped_risky_probe: false,
            rounds_since_probe: 0,
            probe_wait_us: 0,
            up_rounds: 0,
            up_acks: 0,
            up_count: UNSET,
            prior_cwnd: 0,
            was_repairing: false,
            timed_out: false,
        }
    }

    // --- rates and windows ---------------------------------------------------------------------

    fn max_bw(&self) -> u32 {
        self.bw_hi[0].max(self.bw_hi[1])
    }
    fn bw(&self) -> u32 {
        self.max_bw().min(self.bounds.bw_lo)
    }
    fn in_probe_bw(&self) -> bool {
        matches!(self.phase, Phase::Down | Phase::Cruise | Phase::Refill | Phase::Up)
    }
    fn probes_bw(&self) -> bool {
        matches!(self.phase, Phase::Startup | Phase::Refill | Phase::Up)
    }
    fn set_burst(&mut self, w: &Window) {
        let shift = self.min_rtt_us >> BURST_RTT_SHIFT;
        let extra = if shift < 32 { BURST_EXTRA >> shift } else { 0 };
        let bytes = ((self.pacing.rate >> BURST_SHIFT) + extra).min(BURST_MAX);
        self.burst = ((bytes / u64::from(w.mss)) as u32).max(2);
    }
    /// Room for three bursts, which the ends hold in one piece, and for probing at small products.
    fn with_bursts(&self, cwnd: u32) -> u32 {
        cwnd.max(3 * self.burst).max(MIN_CWND) + if self.phase == Phase::Up { 2 } else { 0 }
    }
    fn inflight(&self, rate: u32, gain: u32) -> u32 {
        self.with_bursts(model::bdp(rate, self.min_rtt_us, gain))
    }
    /// The product, unless congestion has cut the window below it.
    fn target_inflight(&self, w: &Window) -> u32 {
        self.inflight(self.bw(), ONE).min(w.cwnd)
    }
    fn in_network(&self, in_flight: u32, ack: &Ack) -> u32 {
        let burst = if self.pacing_gain > ONE { self.burst } else { 0 };
        model::in_network(in_flight, burst, self.bw(), ack)
    }
    fn probe_rtt_cwnd(&self) -> u32 {
        model::bdp(self.bw(), self.min_rtt_us, PROBE_RTT_CWND_GAIN).max(MIN_CWND)
    }
    fn inflight_with_headroom(&self) -> u32 {
        let hi = self.bounds.inflight_hi;
        if hi == UNSET {
            return UNSET;
        }
        let headroom = part(hi, self.config.headroom).max(1);
        hi.saturating_sub(headroom).max(MIN_CWND)
    }

    // --- rounds and signals --------------------------------------------------------------------

    fn begin_round(&mut self, ack: &Ack) {
        self.round_start =
            ack.rate.interval > Span::ZERO && ack.rate.prior_delivered >= self.round_end;
        if self.round_start {
            self.round_end = self.delivered;
            self.round_count += 1;
            self.rounds_since_probe = (self.rounds_since_probe + 1).min(255);
            self.update_alpha(ack);
        }
    }

    /// DCTCP's estimate, once per round. Startup counts the rounds in which marks exceed the
    /// threshold.
    fn update_alpha(&mut self, ack: &Ack) {
        let short = self.config.ecn_max_rtt_us.is_none_or(|us| u64::from(self.min_rtt_us) <= us);
        self.ecn_eligible |= self.ecn_granted && short;
        let delivered = ack.totals.delivered - self.alpha_delivered;
        if !self.ecn_eligible || delivered == 0 {
            return;
        }
        let marked = u64::from(ack.totals.delivered_ce - self.alpha_delivered_ce);
        let ratio = ((marked << GAIN_BITS) / u64::from(delivered)) as u32;
        let gain = self.config.ecn_alpha_gain;
        self.alpha = (part(self.alpha, ONE - gain) + part(ratio, gain)).min(ONE);
        self.alpha_delivered = ack.totals.delivered;
        self.alpha_delivered_ce = ack.totals.delivered_ce;
        if !self.full {
            let high = ratio >= self.config.ecn_thresh;
            self.startup_ecn_rounds = if high { self.startup_ecn_rounds + 1 } else { 0 };
            if self.startup_ecn_rounds >= FULL_ECN_ROUNDS {
                self.end_startup();
            }
        }
    }

    fn update_latest(&mut self, bw: u32, ack: &Ack) {
        self.loss_round_start = false;
        if !is_valid(ack) {
            return;
        }
        self.bw_latest = self.bw_latest.max(bw);
        self.inflight_latest = self.inflight_latest.max(ack.rate.delivered);
        if ack.rate.prior_delivered >= self.loss_round_end {
            self.loss_round_end = self.delivered;
            self.loss_round_start = true;
        }
    }

    fn update_signals(&mut self, bw: u32, ack: &Ack, w: &Window) {
        if !is_valid(ack) {
            return;
        }
        if !ack.rate.app_limited || bw >= self.max_bw() {
            self.bw_hi[1] = self.bw_hi[1].max(bw);
        }
        self.loss_in_round |= ack.flight.lost > 0;
        if self.loss_round_start {
            self.adapt_lower_bounds(w);
            self.loss_in_round = false;
            self.ecn_in_round = false;
        }
    }

    /// After losses, not below the last round's delivery; after marks, by alpha.
    fn adapt_lower_bounds(&mut self, w: &Window) {
        if self.probes_bw() {
            return;
        }
        let mut by_marks = UNSET;
        let b = &mut self.bounds;
        if (self.ecn_in_round || self.loss_in_round) && b.inflight_lo == UNSET {
            b.inflight_lo = w.cwnd;
        }
        if self.ecn_in_round {
            by_marks = part(b.inflight_lo, ONE - part(self.alpha, self.config.ecn_factor));
        }
        if self.loss_in_round {
            if b.bw_lo == UNSET {
                b.bw_lo = self.bw_hi[0].max(self.bw_hi[1]);
            }
            let left = ONE - self.config.beta;
            b.bw_lo = part(b.bw_lo, left).max(self.bw_latest).max(1);
            b.inflight_lo = part(b.inflight_lo, left).max(self.inflight_latest);
        }
        b.inflight_lo = b.inflight_lo.min(by_marks);
    }
    fn reset_lower_bounds(&mut self) {
        self.bounds.bw_lo = UNSET;
        self.bounds.inflight_lo = UNSET;
    }
    fn reset_signals(&mut self) {
        self.loss_in_round = false;
        self.ecn_in_round = false;
        self.loss_in_cycle = false;
        self.ecn_in_cycle = false;
        self.bw_latest = 0;
        self.inflight_latest = 0;
    }

    // --- startup and drain ---------------------------------------------------------------------

    /// The path's capacity is not much more than its last delivery.
    fn end_startup(&mut self) {
        self.full = true;
        let product = self.inflight(self.max_bw(), ONE);
        self.bounds.inflight_hi = product.max(self.inflight_latest);
    }

    fn look_for_losses_in_startup(&mut self, ack: &Ack) {
        if self.full {
            return;
        }
        if ack.flight.lost > 0 {
            self.loss_events += 1;
        }
        if self.loss_round_start {
            let many = self.loss_events >= FULL_LOSS_EVENTS;
            if many && ack.state.recovering && self.is_too_high(&Flight::of(ack)) {
                self.end_startup();
                return;
            }
            self.loss_events = 0;
        }
    }

    fn look_whether_full(&mut self, bw: u32, ack: &Ack) {
        if self.full_now || ack.rate.app_limited {
            return;
        }
        if u64::from(bw) >= (u64::from(self.full_rate) * u64::from(FULL_RATE_GAIN)) >> GAIN_BITS {
            self.restart_full(bw);
        } else if self.round_start {
            self.full_rounds += 1;
            self.full_now = self.full_rounds >= FULL_RATE_ROUNDS;
            self.full |= self.full_now;
        }
    }
    fn restart_full(&mut self, bw: u32) {
        self.full_rate = bw;
        self.full_rounds = 0;
        self.full_now = false;
    }

    fn look_whether_drained(&mut self, ack: &Ack, w: &mut Window) {
        let product = self.inflight(self.max_bw(), ONE);
        if self.phase == Phase::Startup && self.full {
            self.phase = Phase::Drain;
            self.drains_since = self.round_count;
            w.ssthresh = product;
            self.reset_signals();
        }
        let rounds = self.round_count - self.drains_since;
        if self.phase == Phase::Drain
            && (self.in_network(ack.flight.now, ack) <= product
                || self.config.drain_rounds.is_some_and(|most| rounds >= most))
        {
            self.start_down(ack.now);
        }
    }

    // --- the smallest RTT ------------------------------------------------------------------------

    fn update_min_rtt(&mut self, ack: &Ack, w: &mut Window) {
        let expired = ack.now > self.probe_rtt_min_at + PROBE_RTT_INTERVAL;
        if let Some(rtt) = ack.rtt.newest_us
            && (rtt < self.probe_rtt_min_us || expired)
        {
            self.probe_rtt_min_us = rtt;
            self.probe_rtt_min_at = ack.now;
        }
        let outdated = ack.now > self.min_rtt_at + MIN_RTT_WINDOW;
        if self.probe_rtt_min_us <= self.min_rtt_us || outdated {
            self.min_rtt_us = self.probe_rtt_min_us;
            self.min_rtt_at = self.probe_rtt_min_at;
        }
        if expired && !self.restarts && self.phase != Phase::ProbeRtt {
            self.phase = Phase::ProbeRtt;
            self.save_cwnd(w);
            self.probe_rtt_until = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.round_end = self.delivered;
        }
        self.holds_back = self.phase == Phase::ProbeRtt;
        self.restarts &= ack.rate.delivered == 0;
        if !self.holds_back {
            return;
        }
        match self.probe_rtt_until {
            None if ack.flight.now <= self.probe_rtt_cwnd() => {
                self.probe_rtt_until = Some(ack.now + PROBE_RTT_TIME);
                self.probe_rtt_round_done = false;
                self.round_end = self.delivered;
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
        self.probe_rtt_min_at = now;
        w.cwnd = w.cwnd.max(self.prior_cwnd);
        self.reset_lower_bounds();
        if self.full {
            self.start_down(now);
            self.start_cruise();
        } else {
            self.phase = Phase::Startup;
        }
    }

    // --- gains and the window --------------------------------------------------------------------

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.phase {
            Phase::Startup => (STARTUP_PACING_GAIN, CWND_GAIN),
            Phase::Drain => (self.config.drain_gain, CWND_GAIN),
            Phase::Down => (DOWN_PACING_GAIN, CWND_GAIN),
            Phase::Cruise | Phase::Refill => (ONE, CWND_GAIN),
            Phase::Up => (UP_PACING_GAIN, UP_CWND_GAIN),
            Phase::ProbeRtt => (ONE, ONE),
        };
    }

    /// Remembers a window that was good, to return to it.
    fn save_cwnd(&mut self, w: &Window) {
        let good = !self.was_repairing && self.phase != Phase::ProbeRtt;
        self.prior_cwnd = if good { w.cwnd } else { self.prior_cwnd.max(w.cwnd) };
    }

    fn set_cwnd(&mut self, ack: &Ack, w: &mut Window) {
        if ack.acked > 0 {
            let bw = self.bw();
            let product = model::bdp(bw, self.min_rtt_us, self.cwnd_gain);
            let target = self.with_bursts(product + self.aggregation.allowance(bw));
            if self.full {
                w.cwnd = (w.cwnd + ack.acked).min(target);
            } else if w.cwnd < target || w.cwnd < 2 * INITIAL_WINDOW {
                w.cwnd += ack.acked;
            }
            w.cwnd = w.cwnd.max(MIN_CWND);
        }
        if self.phase == Phase::ProbeRtt {
            w.cwnd = w.cwnd.min(self.probe_rtt_cwnd());
        }
        let most = match self.phase {
            Phase::Down | Phase::Refill | Phase::Up => self.bounds.inflight_hi,
            Phase::Cruise | Phase::ProbeRtt => self.inflight_with_headroom(),
            Phase::Startup | Phase::Drain => UNSET,
        };
        w.cwnd = w.cwnd.min(most.min(self.bounds.inflight_lo).max(MIN_CWND));
    }

    fn leave_timeout(&mut self, w: &mut Window) {
        if std::mem::take(&mut self.timed_out) {
            w.cwnd = w.cwnd.max(self.prior_cwnd);
        }
    }

    /// Remembers a loss, and extends its round until the path has shown its rate.
    fn note_loss(&mut self) {
        if !self.loss_in_round {
            self.loss_round_end = self.delivered;
        }
        self.loss_in_round = true;
        self.loss_in_cycle = true;
    }
}

/// `fraction` 256ths of `x`.
fn part(x: u32, fraction: u32) -> u32 {
    ((u64::from(x) * u64::from(fraction)) >> GAIN_BITS) as u32
}
fn is_valid(ack: &Ack) -> bool {
    ack.rate.interval > Span::ZERO && ack.acked > 0
}
/// The rate sample, rounded up so that small rates can grow.
fn sample(ack: &Ack) -> u32 {
    let scaled = u64::from(ack.rate.delivered) << RATE_BITS;
    match ack.rate.interval.as_micros() {
        0 => 0,
        us => scaled.div_ceil(us) as u32,
    }
}

impl Flight {
    fn of(ack: &Ack) -> Flight {
        let r = &ack.rate;
        Flight {
            tx_in_flight: r.tx_in_flight,
            lost: r.lost,
            delivered: r.delivered,
            delivered_ce: r.delivered_ce,
            app_limited: r.app_limited,
        }
    }
}

impl Signals for Bbr3 {
    fn on_feedback(&mut self, totals: &Totals) {
        self.delivered = totals.delivered;
    }

    fn on_lost(&mut self, lost: &LostSegment, at: Time, w: &Window) {
        self.note_loss();
        if !self.probe_samples || lost.tx_in_flight == 0 {
            return;
        }
        let mut flight = Flight {
            tx_in_flight: lost.tx_in_flight,
            lost: lost.lost,
            app_limited: lost.app_limited,
            ..Flight::default()
        };
        if self.is_too_high(&flight) {
            flight.tx_in_flight = self.flight_without_excess(lost);
            self.answer_too_high(&flight, at, w);
        }
    }
}

impl CongestionControl for Bbr3 {
    fn on_ack(&mut self, ack: &Ack, w: &mut Window) {
        if ack.state.recovering || !ack.state.repairing {
            self.leave_timeout(w);
        }
        self.begin_round(ack);
        self.ecn_in_round |= self.ecn_eligible && ack.ce > 0;
        let bw = sample(ack);
        self.update_latest(bw, ack);
        self.update_signals(bw, ack, w);
        let kept = if self.full { EXTRA_ACKED_ROUNDS } else { 1 };
        self.aggregation.update(self.round_start, kept, self.bw(), ack, w);
        self.look_for_losses_in_startup(ack);
        self.look_whether_full(bw, ack);
        self.look_whether_drained(ack, w);
        self.update_cycle(bw, ack, w);
        self.update_min_rtt(ack, w);
        self.update_gains();
        self.pacing.set(self.bw(), self.pacing_gain, self.full, ack, w);
        self.set_burst(w);
        self.set_cwnd(ack, w);
        if self.loss_round_start {
            self.bw_latest = bw;
            self.inflight_latest = ack.rate.delivered;
        }
        self.was_repairing = ack.state.repairing;
        self.loss_in_cycle |= ack.rate.lost > 0;
        self.ecn_in_cycle |= ack.rate.delivered_ce > 0;
    }

    fn on_congestion(&mut self, why: Congestion, at: Time, w: &mut Window) {
        if why == Congestion::Loss {
            self.leave_timeout(w);
        }
        self.save_cwnd(w);
        self.bounds_before = self.bounds;
        match why {
            Congestion::Timeout => {
                self.timed_out = true;
                self.was_repairing = true;
                self.restart_full(0);
                if !self.probes_bw() && self.bounds.inflight_lo == UNSET {
                    self.bounds.inflight_lo = w.cwnd.max(self.prior_cwnd);
                }
            }
            Congestion::TailLoss => {
                // The probe repaired the loss of one segment.
                self.note_loss();
                let flight =
                    Flight { tx_in_flight: self.inflight_latest + 1, lost: 1, ..Flight::default() };
                if self.probe_samples && self.is_too_high(&flight) {
                    self.answer_too_high(&flight, at, w);
                }
            }
            Congestion::Ecn | Congestion::Loss => {}
        }
    }

    fn on_recovered(&mut self, w: &mut Window) {
        self.leave_timeout(w);
    }

    fn on_undo(&mut self, _prior_cwnd: u32, w: &mut Window) {
        self.restart_full(0);
        self.loss_in_round = false;
        let (now, before) = (&mut self.bounds, &self.bounds_before);
        now.bw_lo = now.bw_lo.max(before.bw_lo);
        now.inflight_lo = now.inflight_lo.max(before.inflight_lo);
        now.inflight_hi = now.inflight_hi.max(before.inflight_hi);
        w.cwnd = w.cwnd.max(self.prior_cwnd);
    }

    fn constants(&self) -> Constants {
        Constants { judges_flights: true, ..Constants::governing(self.config.ecn) }
    }
    fn pace(&self) -> Pace {
        let burst = Burst::Exactly(self.burst);
        Pace { rate: Some(self.pacing.rate), burst, holds_back: self.holds_back }
    }
    fn on_restart(&mut self, at: Time, _since: Time, w: &mut Window) {
        self.restarts = true;
        self.aggregation.restart(at);
        if self.in_probe_bw() {
            self.pacing.change(self.bw(), ONE, self.full, w);
        } else if self.phase == Phase::ProbeRtt
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
        granted: bool,
        ack: &Ack,
        w: &mut Window,
    ) -> Option<Box<dyn CongestionControl>> {
        self.ecn_granted = granted && self.config.answers_marks;
        self.min_rtt_us = ack.rtt.min_us;
        self.min_rtt_at = ack.now;
        self.probe_rtt_min_us = ack.rtt.min_us;
        self.probe_rtt_min_at = ack.now;
        self.aggregation.since = ack.now;
        self.pacing.start(ack.rtt.srtt_us(), w);
        self.set_burst(w);
        None
    }

    fn state(&self) -> Option<&'static str> {
        Some(Options::STATES[self.phase as usize])
    }

    fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("pacing_gain", f64::from(self.pacing_gain) / f64::from(ONE));
        out.gauge("min_rtt_ms", f64::from(self.min_rtt_us) / 1e3);
        let per_ms = |rate: u32| f64::from(rate) / f64::from(1_u32 << RATE_BITS) * 1e3;
        out.gauge("bottleneck_packets_per_ms", per_ms(self.bw()));
        out.gauge("max_bw_packets_per_ms", per_ms(self.max_bw()));
        if self.bounds.bw_lo != UNSET {
            out.gauge("bw_lo_packets_per_ms", per_ms(self.bounds.bw_lo));
        }
        out.gauge("extra_acked_packets", f64::from(self.aggregation.allowance(self.bw())));
        out.gauge("bdp_packets", f64::from(self.inflight(self.max_bw(), ONE)));
        out.gauge("cwnd_gain", f64::from(self.cwnd_gain) / f64::from(ONE));
        out.gauge("full_bw_count", f64::from(self.full_rounds));
        out.gauge("full_bw_reached", f64::from(u8::from(self.full)));
        out.gauge("round_count", f64::from(self.round_count));
        out.gauge("bw_probe_wait_ms", self.probe_wait_us as f64 / 1e3);
        for (name, bound) in [
            ("inflight_hi_packets", self.bounds.inflight_hi),
            ("inflight_lo_packets", self.bounds.inflight_lo),
        ] {
            if bound != UNSET {
                out.gauge(name, f64::from(bound));
            }
        }
        if self.ecn_eligible {
            out.gauge("alpha", f64::from(self.alpha) / f64::from(ONE));
        }
    }
}
