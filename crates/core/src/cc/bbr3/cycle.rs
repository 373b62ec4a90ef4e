//! Probing for more: the bound that it moves, and the cycle of phases.

use super::{AckPhase, Bbr3, Flight, GAIN_BITS, ONE, Phase, UNSET, part};
use crate::cc::{Ack, LostSegment, Window};
use crate::time::Time;

/// Until the next probe: 2 to 3 s, or as many rounds as Reno would need to come back, 62 to 63 at most.
const PROBE_WAIT_US: u64 = 2_000_000;
const PROBE_WAIT_RANDOM_US: u64 = 1_000_000;
const PROBE_ROUNDS_MAX: u32 = 63;
const PROBE_ROUNDS_RANDOM: u64 = 2;
/// When marks cease without a loss, the first step of the next probe is this part of `inflight_hi`.
const ECN_REPROBE_GAIN: u32 = ONE / 2;
const SLOPE_ROUNDS_MAX: u32 = 30;

impl Bbr3 {
    pub(super) fn is_too_high(&self, f: &Flight) -> bool {
        let losses = f.lost > 0 && f.tx_in_flight > 0;
        if losses && f.lost > part(f.tx_in_flight, self.config.loss_thresh) {
            return true;
        }
        self.ecn_eligible
            && f.delivered_ce > 0
            && f.delivered_ce > part(f.delivered, self.config.ecn_thresh)
    }

    /// Probing went too far: the bound becomes what was in flight. Once per probe.
    pub(super) fn answer_too_high(&mut self, f: &Flight, now: Time, w: &Window) {
        self.probe_was_too_high = true;
        self.probe_samples = false;
        if !f.app_limited {
            let least = part(self.target_inflight(w), ONE - self.config.beta);
            self.bounds.inflight_hi = f.tx_in_flight.max(least);
        }
        if self.phase == Phase::Up {
            self.start_down(now);
        }
    }

    /// True if that decided the next phase.
    pub(super) fn adapt_upper_bounds(&mut self, ack: &Ack, w: &Window) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.probe_samples = false;
            self.ack_phase = AckPhase::Other;
            if self.in_probe_bw() {
                // The rates of the cycle before the last one are forgotten.
                if !ack.rate.app_limited && self.bw_hi[1] > 0 {
                    self.bw_hi = [self.bw_hi[1], 0];
                }
                // The probe stopped at the bound, and the bound proved safe.
                if self.stopped_risky_probe && !self.probe_was_too_high {
                    self.start_refill(0);
                    return true;
                }
            }
        }
        let flight = Flight::of(ack);
        if self.is_too_high(&flight) {
            if self.probe_samples {
                self.answer_too_high(&flight, ack.now, w);
            }
        } else if self.bounds.inflight_hi != UNSET {
            self.bounds.inflight_hi = self.bounds.inflight_hi.max(flight.tx_in_flight);
            if self.phase == Phase::Up {
                self.raise_inflight_hi(ack, w);
            }
        }
        false
    }

    /// By 1, 2, 4, ... segments in successive rounds of probing.
    pub(super) fn raise_inflight_hi(&mut self, ack: &Ack, w: &Window) {
        if !ack.usage.window_used_up || w.cwnd < self.bounds.inflight_hi {
            return;
        }
        self.up_acks += ack.acked;
        if self.up_acks >= self.up_count {
            let more = self.up_acks / self.up_count;
            self.up_acks -= more * self.up_count;
            self.bounds.inflight_hi = self.bounds.inflight_hi.saturating_add(more);
        }
        if self.round_start {
            self.steepen(w);
        }
    }
    pub(super) fn steepen(&mut self, w: &Window) {
        self.up_count = (w.cwnd >> self.up_rounds).max(1);
        self.up_rounds = (self.up_rounds + 1).min(SLOPE_ROUNDS_MAX);
    }

    pub(super) fn update_cycle(&mut self, bw: u32, ack: &Ack, w: &Window) {
        if !self.full || self.adapt_upper_bounds(ack, w) {
            return;
        }
        let inflight = self.in_network(ack.flight.before, ack);
        match self.phase {
            Phase::Cruise | Phase::Down => {
                self.look_whether_to_probe(ack, w);
                let drained = inflight <= self.inflight_with_headroom()
                    && inflight <= self.inflight(self.max_bw(), ONE);
                if self.phase == Phase::Down && drained {
                    self.start_cruise();
                }
            }
            Phase::Refill if self.round_start => {
                self.probe_samples = true;
                self.start_up(bw, ack, w);
            }
            Phase::Up => {
                let risky = self.probe_was_too_high && inflight >= self.bounds.inflight_hi;
                let bounded = ack.usage.window_used_up && w.cwnd >= self.bounds.inflight_hi;
                if risky {
                    self.stopped_risky_probe = true;
                } else if bounded {
                    self.restart_full(bw);
                }
                if risky || (!bounded && self.full_now) {
                    self.probe_was_too_high = false;
                    self.start_down(ack.now);
                }
            }
            _ => {}
        }
    }

    pub(super) fn look_whether_to_probe(&mut self, ack: &Ack, w: &Window) {
        if self.ecn_eligible && self.ecn_in_cycle && !self.loss_in_cycle && ack.state.open {
            let step = part(self.bounds.inflight_hi, ECN_REPROBE_GAIN);
            self.start_refill(step.max(1).ilog2());
            return;
        }
        let waited = ack.now.micros_since(self.phase_since) > self.probe_wait_us;
        let like_reno = PROBE_ROUNDS_MAX.min(self.target_inflight(w));
        if waited || self.rounds_since_probe >= like_reno {
            self.start_refill(0);
        }
    }

    pub(super) fn start_refill(&mut self, up_rounds: u32) {
        self.reset_lower_bounds();
        self.up_rounds = up_rounds;
        self.up_acks = 0;
        self.stopped_risky_probe = false;
        self.ack_phase = AckPhase::Refilling;
        self.round_end = self.delivered;
        self.phase = Phase::Refill;
    }
    pub(super) fn start_up(&mut self, bw: u32, ack: &Ack, w: &Window) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.round_end = self.delivered;
        self.phase_since = ack.now;
        self.restart_full(bw);
        self.phase = Phase::Up;
        self.steepen(w);
    }
    pub(super) fn start_down(&mut self, now: Time) {
        self.reset_signals();
        self.up_count = UNSET;
        self.rounds_since_probe = self.rng.below(PROBE_ROUNDS_RANDOM) as u32;
        self.probe_wait_us = PROBE_WAIT_US + self.rng.below(PROBE_WAIT_RANDOM_US);
        self.phase_since = now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.round_end = self.delivered;
        self.phase = Phase::Down;
    }
    pub(super) fn start_cruise(&mut self) {
        if self.bounds.inflight_lo != UNSET {
            self.bounds.inflight_lo = self.bounds.inflight_lo.min(self.bounds.inflight_hi);
        }
        self.phase = Phase::Cruise;
    }

    /// In flight when losses passed the threshold: the lost segment itself if those before it had not.
    pub(super) fn flight_without_excess(&self, lost: &LostSegment) -> u32 {
        let (before, lost_before) = (lost.tx_in_flight - 1, lost.lost - 1);
        let thresh = self.config.loss_thresh;
        let budget = (u64::from(before) * u64::from(thresh)).div_ceil(u64::from(ONE)) as u32;
        let left = u64::from(budget.saturating_sub(lost_before)) << GAIN_BITS;
        before + (left / u64::from(ONE - thresh)) as u32
    }
}
