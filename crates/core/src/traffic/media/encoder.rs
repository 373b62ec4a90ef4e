//! Encoders: how large frames are, given the rate that the congestion control asks for.

use std::collections::VecDeque;

use serde::Deserialize;

use crate::math;
use crate::rng::Rng;
use crate::time::{Span, Time};

/// How frames differ in size.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// All are alike.
    #[default]
    Even,
    Uniform,
    Lognormal,
}

/// Key frames: how often, and how large over the others.
#[derive(Copy, Clone, Debug)]
pub struct KeyFrames {
    pub interval: Span,
    pub ratio: f64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Encoder {
    model: Model,
    interval: Span,
    /// Standard deviation of the sizes over their mean.
    spread: f64,
    /// Time from a new target to the first frame that follows it.
    reaction: Span,
    /// Targets at the times of frames that are not all followed.
    targets: VecDeque<(Time, f64)>,
    /// A key frame is every so many frames, if there are any; how many frames come until the next.
    key_every: u64,
    until_key: u64,
    key_ratio: f64,
    rng: Rng,
}

impl Encoder {
    pub fn new(
        model: Model,
        interval: Span,
        spread: f64,
        reaction: Span,
        key: Option<KeyFrames>,
        rng: Rng,
    ) -> Encoder {
        let key_every = key.map_or(0, |key| (key.interval.0 / interval.0.max(1)).max(1));
        Encoder {
            model,
            interval,
            spread,
            reaction,
            targets: VecDeque::new(),
            key_every,
            until_key: 0,
            key_ratio: key.map_or(1.0, |key| key.ratio),
            rng,
        }
    }

    /// Bytes of the frame that is captured now; `target`: bits per second, from now on.
    pub fn frame(&mut self, now: Time, target: f64) -> u64 {
        self.targets.push_back((now, target));
        while self.targets.get(1).is_some_and(|(told, _)| *told + self.reaction <= now) {
            self.targets.pop_front();
        }
        let mean = self.targets[0].1 / 8.0 * self.interval.as_secs_f64();
        let size = mean * self.key_factor() * self.variation();
        (size.round() as u64).max(1)
    }

    /// Key frames are larger and the others smaller, so that the mean stays.
    fn key_factor(&mut self) -> f64 {
        if self.key_every == 0 {
            return 1.0;
        }
        let is_key = self.until_key == 0;
        self.until_key = if is_key { self.key_every } else { self.until_key } - 1;
        let n = self.key_every as f64;
        let other = n / (n - 1.0 + self.key_ratio);
        if is_key { self.key_ratio * other } else { other }
    }

    /// A factor of mean 1.
    fn variation(&mut self) -> f64 {
        match self.model {
            Model::Even => 1.0,
            Model::Uniform => {
                // Half the width of a uniform distribution is sqrt 3 standard deviations.
                let half = 3_f64.sqrt() * self.spread;
                (1.0 + half * (2.0 * self.rng.unit() - 1.0)).max(0.0)
            }
            Model::Lognormal => {
                let variance = math::ln(1.0 + self.spread * self.spread);
                math::exp(-variance / 2.0 + variance.sqrt() * normal(&mut self.rng))
            }
        }
    }
}

/// A normal variate (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    let (u, v) = (1.0 - rng.unit(), rng.unit());
    (-2.0 * math::ln(u)).sqrt() * math::cos(std::f64::consts::TAU * v)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Span = Span::from_millis(20);

    fn encoder(model: Model, reaction: Span, key: Option<KeyFrames>) -> Encoder {
        Encoder::new(model, FRAME, 0.15, reaction, key, Rng::stream(1, "encoder", 0))
    }

    fn sizes(mut encoder: Encoder, n: u64) -> Vec<f64> {
        (0..n).map(|i| encoder.frame(Time(i * FRAME.0), 1e6) as f64).collect()
    }

    /// Mean and spread: 1 Mb/s at 50 frames per second are 2500 bytes a frame.
    #[test]
    fn sizes_have_the_mean_and_the_spread() {
        assert_eq!(sizes(encoder(Model::Even, FRAME, None), 3), [2500.0; 3]);
        for model in [Model::Uniform, Model::Lognormal] {
            let all = sizes(encoder(model, FRAME, None), 20_000);
            let mean = all.iter().sum::<f64>() / 20_000.0;
            let variance = all.iter().map(|s| (s - mean) * (s - mean)).sum::<f64>() / 20_000.0;
            assert!((mean / 2500.0 - 1.0).abs() < 0.005, "{model:?}: {mean}");
            assert!((variance.sqrt() / mean - 0.15).abs() < 0.005, "{model:?}: {variance}");
        }
    }

    #[test]
    fn a_new_target_is_followed_after_the_reaction() {
        for (reaction, followed_at) in [(Span::ZERO, 3), (FRAME, 4), (FRAME * 2 + Span(1), 6)] {
            let mut e = encoder(Model::Even, reaction, None);
            let target = |i| if i < 3 { 1e6 } else { 2e6 };
            let all: Vec<_> = (0..8).map(|i| e.frame(Time(i * FRAME.0), target(i))).collect();
            let first = all.iter().position(|s| *s == 5000);
            assert_eq!(first, Some(followed_at), "{reaction:?}: {all:?}");
        }
    }

    #[test]
    fn key_frames_are_larger_and_the_mean_stays() {
        let key = KeyFrames { interval: FRAME * 10, ratio: 5.0 };
        let all = sizes(encoder(Model::Even, FRAME, Some(key)), 100);
        let (large, small) = (2500.0 * 50.0 / 14.0_f64, 2500.0 * 10.0 / 14.0_f64);
        assert_eq!(all[..3], [large.round(), small.round(), small.round()]);
        assert_eq!(all[10], large.round());
        assert!((all.iter().sum::<f64>() / 100.0 - 2500.0).abs() < 1.0);
    }
}
