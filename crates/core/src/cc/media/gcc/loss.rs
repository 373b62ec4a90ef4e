//! The rate that losses allow.
//!
//! libwebrtc's estimator (`loss_based_bwe_v2`) explains the losses of the last seconds by a bandwidth and by an
//! inherent loss that does not depend on the rate, and takes the likeliest pair. The draft's rule (section 6)
//! looks at the share of losses in each report.

use std::collections::VecDeque;

use super::LossRule;
use crate::cc::media::{Fate, Rates};
use crate::math;
use crate::time::{Span, Time};

/// An observation lasts so long at least; so many of the last count, each less than the next.
const OBSERVATION: Span = Span::from_millis(250);
const WINDOW: usize = 15;
const LEAST_OBSERVATIONS: u64 = 3;
const AGEING: f64 = 0.9;
/// Bandwidths that are tried, over the present one.
const FACTORS: [f64; 3] = [1.02, 1.0, 0.95];
/// Inherent loss: start, least, most (and with a low bandwidth so many bits per second over it more).
const INHERENT: f64 = 0.01;
const LEAST_INHERENT: f64 = 0.001;
const MOST_INHERENT: f64 = 0.05;
const INHERENT_BALANCE: f64 = 100_000.0;
const NEWTON_STEP: f64 = 0.75;
/// Preference for high bandwidths: linear and logarithmic part, and the loss at which it becomes an aversion.
const BIAS: f64 = 0.0002;
const BIAS_LOG: f64 = 0.02;
const BIAS_LOSS: f64 = 0.2;
const BIAS_WIDTH: f64 = 0.002;
/// While losses limit: growth over what arrives, within a hold, and within the window of delayed increase.
const RAMP_UP: f64 = 1.5;
const RAMP_UP_IN_HOLD: f64 = 1.2;
const MOST_GROWTH: f64 = 1.3;
const GROWTH_WINDOW: Span = Span::from_millis(300);
/// After a decrease the bound holds, each time twice as long.
const HOLD: Span = Span::from_millis(300);
const LONGEST_HOLD: Span = Span::from_secs(60);
/// Above this loss the bound is so many bits per second over the excess.
const INSTANT_LOSS: f64 = 0.05;
const INSTANT_BALANCE: f64 = 100_000.0;

#[derive(Copy, Clone, Debug, Default)]
struct Observation {
    bytes: f64,
    lost: f64,
    /// Bits per second at which it was sent.
    rate: f64,
}

/// Bandwidth (bits per second) and inherent loss that explain the losses.
#[derive(Copy, Clone, Debug)]
struct Channel {
    bps: f64,
    inherent: f64,
}

impl Channel {
    /// Share of packets that are lost at a sending rate.
    fn loss(self, rate: f64) -> f64 {
        let excess = if rate > self.bps { (rate - self.bps) / rate } else { 0.0 };
        (self.inherent + (1.0 - self.inherent) * excess).clamp(1e-6, 1.0 - 1e-6)
    }
    fn most_inherent(self) -> f64 {
        (MOST_INHERENT + INHERENT_BALANCE / self.bps.max(1.0)).min(1.0)
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct LossBound {
    rule: LossRule,
    rates: Rates,
    channel: Channel,
    observations: VecDeque<Observation>,
    count: u64,
    /// The observation that grows: since and until when its packets were sent.
    partial: Observation,
    since: Option<Time>,
    until: Time,
    /// Losses limit the rate, rather than delays.
    is_limited: bool,
    hold: Span,
    hold_until: Time,
    hold_bps: f64,
    growth_since: Time,
    growth_bps: f64,
}

impl LossBound {
    pub fn new(rule: LossRule, rates: Rates) -> LossBound {
        LossBound {
            rule,
            rates,
            channel: Channel { bps: rates.start, inherent: INHERENT },
            observations: VecDeque::new(),
            count: 0,
            partial: Observation::default(),
            since: None,
            until: Time::ZERO,
            is_limited: false,
            hold: HOLD,
            hold_until: Time::ZERO,
            hold_bps: f64::INFINITY,
            growth_since: Time::ZERO,
            growth_bps: f64::INFINITY,
        }
    }

    /// Bits per second.
    pub fn bps(&self) -> f64 {
        match self.rule {
            LossRule::Off => f64::INFINITY,
            LossRule::Draft => self.channel.bps,
            LossRule::Libwebrtc if self.count < LEAST_OBSERVATIONS => f64::INFINITY,
            LossRule::Libwebrtc => self.channel.bps,
        }
    }
    pub fn limits(&self, delay_bps: f64) -> bool {
        self.is_limited && self.bps() < delay_bps
    }
    pub fn set_rates(&mut self, rates: Rates) {
        self.rates = rates;
        self.channel.bps = self.channel.bps.min(rates.max);
    }

    /// A report tells of `packets`; `delay_bps` is what delays allow.
    pub fn update(&mut self, packets: &[Fate], acked: Option<f64>, delay_bps: f64, is_probe: bool) {
        match self.rule {
            LossRule::Off => {}
            LossRule::Draft => {
                let lost = packets.iter().filter(|p| p.arrived.is_none()).count();
                if is_probe {
                    self.channel.bps = self.channel.bps.max(delay_bps);
                }
                self.follow(lost as f64 / packets.len().max(1) as f64);
            }
            LossRule::Libwebrtc => {
                if self.observe(packets) {
                    self.estimate(acked, delay_bps);
                } else if !self.is_limited {
                    self.channel.bps = delay_bps;
                }
            }
        }
    }

    /// Section 6 of the draft: 5 % more below 2 % of losses, less above 10 %.
    fn follow(&mut self, share: f64) {
        if share < 0.02 {
            self.channel.bps *= 1.05;
        } else if share > 0.1 {
            self.channel.bps *= 1.0 - 0.5 * share;
        }
        self.channel.bps = self.channel.bps.clamp(self.rates.min, self.rates.max);
    }

    /// Whether an observation is complete.
    fn observe(&mut self, packets: &[Fate]) -> bool {
        for packet in packets {
            self.since.get_or_insert(packet.sent);
            self.until = self.until.max(packet.sent);
            self.partial.bytes += f64::from(packet.size);
            self.partial.lost +=
                if packet.arrived.is_none() { f64::from(packet.size) } else { 0.0 };
        }
        let Some(since) = self.since else { return false };
        let length = self.until.since(since);
        if length < OBSERVATION {
            return false;
        }
        let rate = self.partial.bytes * 8.0 / length.as_secs_f64();
        self.observations.push_back(Observation { rate, ..self.partial });
        if self.observations.len() > WINDOW {
            self.observations.pop_front();
        }
        self.count += 1;
        (self.partial, self.since) = (Observation::default(), Some(self.until));
        true
    }

    /// Each observation with its weight.
    fn weighted(&self) -> impl Iterator<Item = (f64, Observation)> {
        let weights = std::iter::successors(Some(1.0), |w| Some(w * AGEING));
        weights.zip(self.observations.iter().rev().copied())
    }

    fn mean_loss(&self) -> f64 {
        let (mut lost, mut bytes) = (0.0, 0.0);
        for (weight, seen) in self.weighted() {
            lost += weight * seen.lost;
            bytes += weight * seen.bytes;
        }
        if bytes > 0.0 { lost / bytes } else { 0.0 }
    }

    /// One Newton step towards the inherent loss that explains the observations best.
    fn refine(&self, channel: Channel) -> Channel {
        let (mut first, mut second) = (0.0, 0.0);
        for (weight, seen) in self.weighted() {
            let p = channel.loss(seen.rate);
            let (lost, came) = (seen.lost / 1e3, (seen.bytes - seen.lost) / 1e3);
            first += weight * (lost / p - came / (1.0 - p));
            second -= weight * (lost / (p * p) + came / ((1.0 - p) * (1.0 - p)));
        }
        let step = if second < 0.0 { NEWTON_STEP * first / second } else { 0.0 };
        let inherent = (channel.inherent - step).clamp(LEAST_INHERENT, channel.most_inherent());
        Channel { inherent, ..channel }
    }

    /// Logarithm of the likelihood, with the preference for high bandwidths.
    fn score(&self, channel: Channel, mean_loss: f64) -> f64 {
        let kbps = channel.bps / 1e3;
        let away = BIAS_LOSS - mean_loss;
        let preference = away / (BIAS_WIDTH + away.abs());
        let bias = (BIAS * kbps + BIAS_LOG * math::ln(1.0 + kbps)) * preference;
        let mut score = 0.0;
        for (weight, seen) in self.weighted() {
            let p = channel.loss(seen.rate);
            let (lost, came) = (seen.lost / 1e3, (seen.bytes - seen.lost) / 1e3);
            score += weight * (lost * math::ln(p) + came * math::ln(1.0 - p));
            score += weight * seen.bytes / 1e3 * bias;
        }
        score
    }

    fn estimate(&mut self, acked: Option<f64>, delay_bps: f64) {
        let now = self.until;
        if self.count < LEAST_OBSERVATIONS {
            self.channel.bps = delay_bps;
            return;
        }
        let mean_loss = self.mean_loss();
        let present = self.channel;
        let ceiling =
            if self.is_limited { self.growth_bps.max(present.bps) } else { f64::INFINITY };
        let tried = FACTORS.map(|factor| Some(present.bps * factor));
        let higher = (delay_bps > present.bps).then_some(delay_bps);
        let mut best: Option<(f64, Channel)> = None;
        for bps in tried.into_iter().chain([acked, higher]).flatten() {
            let channel = self.refine(Channel { bps: bps.min(ceiling), ..present });
            let score = self.score(channel, mean_loss);
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, channel));
            }
        }
        let (_, mut channel) = best.unwrap_or((0.0, present));
        if mean_loss > channel.inherent {
            channel.bps = channel.bps.min(present.bps);
        }
        if self.is_limited && channel.bps > present.bps {
            let is_held = now < self.hold_until;
            let factor = if is_held { RAMP_UP_IN_HOLD } else { RAMP_UP };
            let most = acked.map_or(f64::INFINITY, |acked| factor * acked);
            channel.bps = channel.bps.min(most).max(present.bps);
        }
        let mut bps = channel.bps.min(delay_bps);
        if mean_loss > INSTANT_LOSS {
            bps = bps.min(INSTANT_BALANCE / (mean_loss - INSTANT_LOSS));
        }
        // What arrives can be sent.
        if let Some(acked) = acked.filter(|acked| bps < present.bps && *acked < present.bps) {
            bps = bps.max(acked.min(delay_bps));
        }
        if self.is_limited && now < self.hold_until {
            bps = bps.min(self.hold_bps);
        }
        bps = bps.clamp(self.rates.min, self.rates.max);
        if bps >= delay_bps.clamp(self.rates.min, self.rates.max) {
            (self.is_limited, self.hold) = (false, HOLD);
            (self.hold_until, self.growth_bps) = (Time::ZERO, f64::INFINITY);
        } else if bps < present.bps {
            self.is_limited = true;
            (self.hold_until, self.hold_bps) = (now + self.hold, bps);
            self.hold = Span((self.hold.0 * 2).min(LONGEST_HOLD.0));
        }
        if self.is_limited && now.since(self.growth_since) > GROWTH_WINDOW {
            (self.growth_since, self.growth_bps) = (now, bps * MOST_GROWTH);
        }
        self.channel = Channel { bps, ..channel };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, wanted: f64) {
        assert!((value - wanted).abs() < 1e-9 * wanted.abs().max(1.0), "{value}, wanted {wanted}");
    }
    const RATES: Rates = Rates { min: 1e5, start: 1e6, max: 1e7 };

    #[test]
    fn the_draft_by_hand() {
        let mut bound = LossBound::new(LossRule::Draft, RATES);
        for (share, bps) in [(0.01, 1.05e6), (0.05, 1.05e6), (0.2, 0.9 * 1.05e6)] {
            bound.follow(share);
            near(bound.bps(), bps);
        }
    }

    #[test]
    fn the_loss_of_a_channel_by_hand() {
        let channel = Channel { bps: 1e6, inherent: 0.01 };
        near(channel.loss(0.5e6), 0.01);
        near(channel.loss(2e6), 0.01 + 0.99 * 0.5);
        near(channel.most_inherent(), 0.15);
    }

    /// A sender that follows the bound, and a link that drops what exceeds `capacity` and a share of the rest.
    fn settle(capacity: f64, inherent: f64) -> f64 {
        let mut bound = LossBound::new(LossRule::Libwebrtc, RATES);
        let (mut excess, mut sum) = (0.0, 0.0);
        let mut sent = Time::ZERO;
        for report in 0..600 {
            let rate = bound.bps().min(5e6);
            let share = inherent + (1.0 - inherent) * (1.0 - capacity / rate).max(0.0);
            let mut packets = Vec::new();
            let mut came = 0.0;
            let end = Time(report * 100_000_000);
            while sent < end {
                sent += Span((8e9 * 1000.0 / rate) as u64);
                excess += share;
                let is_lost = excess >= 1.0;
                excess -= if is_lost { 1.0 } else { 0.0 };
                came += if is_lost { 0.0 } else { 8e3 };
                let arrived = (!is_lost).then_some(sent);
                packets.push(Fate { sent, arrived, size: 1000, ce: false, cluster: 0 });
            }
            bound.update(&packets, Some(came / 0.1), 5e6, false);
            sum += if report >= 300 { bound.bps().min(5e6) } else { 0.0 };
        }
        sum / 300.0
    }

    /// A link that loses 1 % at any rate does not limit; one that drops what exceeds 2 Mb/s does.
    #[test]
    fn inherent_loss_and_a_full_link_differ() {
        near(settle(1e9, 0.0), 5e6);
        assert!(settle(1e9, 0.01) > 4.5e6, "{}", settle(1e9, 0.01));
        let full = settle(2e6, 0.0);
        assert!((1.7e6..2.3e6).contains(&full), "{full}");
    }
}
