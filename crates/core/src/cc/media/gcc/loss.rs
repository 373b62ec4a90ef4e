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
/// The observations with most and least losses do not count for the mean, from so many on, unless the sending rate of
/// the first was so many times the median.
const TRIMMED: u64 = 4;
const SUDDEN: f64 = 2.0;
/// While losses limit: growth over what arrives, near the rate of the last hold (up to so many times it), and within
/// the window of delayed increase.
const RAMP_UP: f64 = 1.5;
const RAMP_UP_IN_HOLD: f64 = 1.2;
const NEAR_HOLD: f64 = 1.3;
const MOST_GROWTH: f64 = 1.3;
const GROWTH_WINDOW: Span = Span::from_millis(300);
/// When losses begin to limit, and when growth ends, the bound holds, each time twice as long.
const HOLD: Span = Span::from_millis(300);
const LONGEST_HOLD: Span = Span::from_secs(60);
/// Growth that does not exceed where it began ends after this.
const GROWTH: Span = Span::from_secs(2);
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
    /// With this inherent loss, as far as its bandwidth allows it.
    fn with_inherent(self, inherent: f64) -> Channel {
        Channel { inherent: inherent.clamp(LEAST_INHERENT, self.most_inherent()), ..self }
    }
}

/// The estimate of the rate that losses allow.
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
    mean_loss: f64,
    state: State,
    /// What losses allow.
    bps: f64,
    hold: Span,
    hold_until: Time,
    hold_bps: f64,
    /// Since when the bound grows, and the rate that it began with.
    grows_since: Time,
    grows_from: f64,
    /// The bound may reach this rate in the window of delayed increase, which began then.
    window_since: Option<Time>,
    window_bps: f64,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum State {
    /// Delays limit the rate, not losses.
    Delay,
    Decreasing,
    Increasing,
}

/// libwebrtc's estimate may be above what the encoder can do.
fn bounds(rule: LossRule, rates: Rates) -> Rates {
    let max = if rule == LossRule::Draft { rates.max } else { f64::INFINITY };
    Rates { max, ..rates }
}

impl LossBound {
    pub fn new(rule: LossRule, rates: Rates) -> LossBound {
        LossBound {
            rule,
            rates: bounds(rule, rates),
            channel: Channel { bps: rates.start, inherent: INHERENT },
            observations: VecDeque::new(),
            count: 0,
            partial: Observation::default(),
            since: None,
            until: Time::ZERO,
            mean_loss: 0.0,
            state: State::Delay,
            bps: rates.start,
            hold: HOLD,
            hold_until: Time::ZERO,
            hold_bps: f64::INFINITY,
            grows_since: Time::ZERO,
            grows_from: 0.0,
            window_since: None,
            window_bps: f64::INFINITY,
        }
    }

    /// Bits per second.
    pub fn bps(&self) -> f64 {
        match self.rule {
            LossRule::Off => f64::INFINITY,
            LossRule::Draft => self.channel.bps,
            LossRule::Libwebrtc if self.count < LEAST_OBSERVATIONS => f64::INFINITY,
            LossRule::Libwebrtc => self.bps,
        }
    }
    pub fn limits(&self, delay_bps: f64) -> bool {
        self.state != State::Delay && self.bps() < delay_bps
    }
    pub fn set_rates(&mut self, rates: Rates) {
        self.rates = bounds(self.rule, rates);
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

    /// Mean of the weighted losses, without the extremes: a single observation full of losses does not count, unless
    /// the sender suddenly sent more.
    fn mean_loss(&self) -> f64 {
        let (mut lost, mut bytes) = (0.0, 0.0);
        let (mut most, mut least) = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0));
        let mut rate_of_most = 0.0;
        for (weight, seen) in self.weighted() {
            let (its_lost, its_bytes) = (weight * seen.lost, weight * seen.bytes);
            lost += its_lost;
            bytes += its_bytes;
            let share = seen.lost / seen.bytes.max(1.0);
            if share > most.0 {
                (most, rate_of_most) = ((share, its_lost, its_bytes), seen.rate);
            }
            if share < least.0 {
                least = (share, its_lost, its_bytes);
            }
        }
        if self.count >= TRIMMED && SUDDEN * self.median_rate() > rate_of_most {
            lost -= most.1 + least.1;
            bytes -= most.2 + least.2;
        }
        if bytes > 0.0 { (lost / bytes).max(0.0) } else { 0.0 }
    }

    fn median_rate(&self) -> f64 {
        let mut rates: Vec<_> = self.observations.iter().map(|seen| seen.rate).collect();
        rates.sort_unstable_by(f64::total_cmp);
        let n = rates.len();
        if n == 0 { 0.0 } else { (rates[(n - 1) / 2] + rates[n / 2]) / 2.0 }
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
        channel.with_inherent(channel.inherent - step)
    }

    /// Logarithm of the likelihood, with the preference for high bandwidths.
    fn score(&self, channel: Channel) -> f64 {
        let kbps = channel.bps / 1e3;
        let away = BIAS_LOSS - self.mean_loss;
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

    /// The likeliest of some channels, refined.
    fn likeliest(&self, acked: Option<f64>, delay_bps: f64) -> Channel {
        let present = self.channel;
        let ceiling = if self.state == State::Delay { self.rates.max } else { self.window_bps };
        let ceiling = ceiling.max(present.bps);
        let tried = FACTORS.map(|factor| Some(present.bps * factor));
        let higher = (delay_bps > present.bps).then_some(delay_bps);
        let mut best: Option<(f64, Channel)> = None;
        for bps in tried.into_iter().chain([acked, higher]).flatten() {
            let tried = Channel { bps: bps.min(ceiling), ..present };
            let channel = self.refine(tried.with_inherent(present.inherent));
            let score = self.score(channel);
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, channel));
            }
        }
        best.map_or(present, |(_, channel)| channel)
    }

    /// Whether a new bound means growth while losses limit.
    fn grows(&self, before: f64, bps: f64) -> bool {
        let is_higher = before < bps || before == bps && self.state == State::Increasing;
        self.state != State::Delay && is_higher
    }

    fn estimate(&mut self, acked: Option<f64>, delay_bps: f64) {
        let now = self.until;
        self.mean_loss = self.mean_loss();
        if self.count == 1 {
            (self.channel.bps, self.bps) = (delay_bps, delay_bps);
        }
        let present = self.channel;
        let mut channel = self.likeliest(acked, delay_bps);
        if self.mean_loss > channel.inherent {
            channel.bps = channel.bps.min(present.bps);
        }
        if self.state != State::Delay {
            if self.window_since.is_some_and(|since| now.since(since) < GROWTH_WINDOW) {
                channel.bps = channel.bps.min(self.window_bps);
            }
            if let Some(acked) = acked.filter(|_| self.grows(present.bps, channel.bps)) {
                let is_near = acked < NEAR_HOLD * self.hold_bps && self.hold_bps.is_finite();
                let factor = if is_near { RAMP_UP_IN_HOLD } else { RAMP_UP };
                channel.bps = channel.bps.min(factor * acked).max(present.bps);
                if self.state == State::Decreasing && channel.bps == present.bps {
                    channel.bps += 1.0;
                }
            }
        }
        // What arrives can be sent.
        let floor = acked.unwrap_or(0.0).max(self.rates.min);
        let mut ceiling = self.rates.max;
        if self.mean_loss > INSTANT_LOSS {
            ceiling = INSTANT_BALANCE / (self.mean_loss - INSTANT_LOSS);
        }
        let bps = channel.bps.min(ceiling).min(delay_bps).max(floor);
        self.channel = match bps < channel.bps {
            true => Channel { bps, inherent: 0.0 },
            false => Channel { bps: channel.bps.max(floor), ..channel },
        };
        self.follow_state(now, bps, floor, delay_bps);
    }

    /// The new bound becomes `bps`, unless a hold forbids it.
    fn follow_state(&mut self, now: Time, bps: f64, floor: f64, delay_bps: f64) {
        let is_below = bps < delay_bps && bps < self.rates.max;
        if self.state == State::Decreasing && self.hold_until > now && bps < delay_bps {
            self.hold_bps = self.hold_bps.max(floor);
            self.bps = self.hold_bps.min(bps);
            return;
        }
        let may_grow = self.state != State::Increasing
            || now.since(self.grows_since) <= GROWTH
            || self.grows_from < bps;
        if is_below && may_grow && self.grows(self.bps, bps) {
            if bps > self.grows_from {
                (self.grows_from, self.grows_since) = (bps, now);
            }
            self.state = State::Increasing;
        } else if is_below {
            if self.state != State::Decreasing {
                (self.hold_until, self.hold_bps) = (now + self.hold, bps);
                self.hold = Span((self.hold.0 * 2).min(LONGEST_HOLD.0));
            }
            self.grows_from = 0.0;
            self.state = State::Decreasing;
        } else {
            (self.hold, self.hold_until, self.hold_bps) = (HOLD, Time::ZERO, f64::INFINITY);
            self.grows_from = 0.0;
            self.state = State::Delay;
        }
        self.bps = bps;
        if self.state != State::Delay
            && self.window_since.is_none_or(|since| now.since(since) > GROWTH_WINDOW)
        {
            (self.window_since, self.window_bps) = (Some(now), MOST_GROWTH * self.channel.bps);
        }
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

    /// One observation full of losses among clean ones does not count, the second does.
    #[test]
    fn the_mean_is_without_extremes() {
        let mut bound = LossBound::new(LossRule::Libwebrtc, RATES);
        let mut put = |lost: f64| {
            bound.observations.push_back(Observation { bytes: 1000.0, lost, rate: 1e6 });
            bound.count += 1;
            bound.mean_loss()
        };
        for _ in 0..4 {
            near(put(0.0), 0.0);
        }
        near(put(500.0), 0.0);
        // The first loss has the weight 0.9. The clean observation that does not count is the last, 0.81.
        let mean = put(600.0);
        let weights = [0.9, 0.729, 0.6561, 0.59049].iter().sum::<f64>();
        near(mean, 0.9 * 0.5 / weights);
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
