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
    /// The statistical model of RFC 8593: noise of Laplace's distribution, and transients after large changes.
    Rfc8593,
    /// A shared screen: small frames, and large ones where the picture changes, whatever the target.
    Sharing,
}

/// RFC 8593: after a change of the target further ones are ignored for so long.
const RFC8593_DEAF: Span = Span::from_millis(200);
/// A change by more than this share makes a transient: a large frame first, so many frames in all.
const RFC8593_LARGE: f64 = 0.2;
const RFC8593_FIRST: f64 = 13_500.0;
const RFC8593_FRAMES: u32 = 8;
/// Scale of the noise of frame sizes and intervals.
const RFC8593_NOISE: f64 = 0.15;
/// A shared screen (syncodecs): most of a frame without changes, how often the picture changes, and how much larger
/// these frames are.
const SHARING_SMALL: f64 = 1000.0;
const SHARING_CHANGES: f64 = 0.05;
const SHARING_RATIO: (f64, f64) = (20.0, 200.0);

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
    /// Of RFC 8593: the rate that is followed, since when, and frames left of a transient.
    followed: Option<(f64, Time)>,
    transient: u32,
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
            followed: None,
            transient: 0,
            rng,
        }
    }

    /// Bytes of the frame that is captured now; `target`: bits per second, from now on.
    pub fn frame(&mut self, now: Time, target: f64) -> u64 {
        self.targets.push_back((now, target));
        while self.targets.get(1).is_some_and(|(told, _)| *told + self.reaction <= now) {
            self.targets.pop_front();
        }
        let target = self.targets[0].1;
        match self.model {
            Model::Rfc8593 => return self.rfc8593(now, target),
            Model::Sharing => return self.sharing(),
            Model::Even | Model::Uniform | Model::Lognormal => {}
        }
        let mean = target / 8.0 * self.interval.as_secs_f64();
        let size = mean * self.key_factor() * self.variation();
        (size.round() as u64).max(1)
    }

    fn sharing(&mut self) -> u64 {
        let is_change = self.rng.unit() < SHARING_CHANGES;
        let u = self.rng.unit();
        let (least, most) = SHARING_RATIO;
        let size = if is_change { least + (most - least) * u } else { u } * SHARING_SMALL;
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

    /// Time until the next frame.
    pub fn next_interval(&mut self) -> Span {
        if self.model != Model::Rfc8593 {
            return self.interval;
        }
        let factor = (1.0 + laplace(&mut self.rng, RFC8593_NOISE)).clamp(0.1, 10.0);
        Span(((self.interval.0 as f64 * factor) as u64).max(1))
    }

    fn rfc8593(&mut self, now: Time, target: f64) -> u64 {
        let (rate, since) = *self.followed.get_or_insert((target, now));
        if target != rate && now.since(since) >= RFC8593_DEAF {
            self.followed = Some((target, now));
            if (target / rate - 1.0).abs() > RFC8593_LARGE {
                self.transient = RFC8593_FRAMES;
            }
        }
        let rate = self.followed.map_or(target, |(rate, _)| rate);
        let mean = rate / 8.0 * self.interval.as_secs_f64();
        let first = RFC8593_FIRST.max(mean);
        let size = match self.transient {
            0 => mean * (1.0 + laplace(&mut self.rng, RFC8593_NOISE)),
            RFC8593_FRAMES => first,
            _ => (f64::from(RFC8593_FRAMES) * mean - first) / f64::from(RFC8593_FRAMES - 1),
        };
        self.transient = self.transient.saturating_sub(1);
        (size.round() as u64).max(1)
    }

    /// A factor of mean 1.
    fn variation(&mut self) -> f64 {
        match self.model {
            Model::Even | Model::Rfc8593 | Model::Sharing => 1.0,
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

/// A variate of Laplace's distribution around 0.
fn laplace(rng: &mut Rng, scale: f64) -> f64 {
    let u = rng.unit() - 0.5;
    -scale * math::ln((1.0 - 2.0 * u.abs()).max(1e-12)) * u.signum()
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

    /// A step from 1 to 2 Mb/s: one frame of 13.5 kB, and seven that keep the mean of 5 kB. A small step makes none.
    #[test]
    fn rfc8593_answers_a_large_step_with_a_transient() {
        let stepped = |to: f64| {
            let mut e = encoder(Model::Rfc8593, Span::ZERO, None);
            let mut target = |i| e.frame(Time(i * FRAME.0), if i < 20 { 1e6 } else { to });
            (0..60).map(&mut target).collect::<Vec<_>>()
        };
        let all = stepped(2e6);
        assert_eq!(all[20], 13_500, "{all:?}");
        assert_eq!(all[21..28], [3786; 7]);
        assert!(!stepped(1.1e6).contains(&13_500));
        let all = sizes(encoder(Model::Rfc8593, FRAME, None), 20_000);
        let mean = all.iter().sum::<f64>() / 20_000.0;
        let off = all.iter().map(|s| (s / 2500.0 - 1.0).abs()).sum::<f64>() / 20_000.0;
        assert!((mean / 2500.0 - 1.0).abs() < 0.01, "{mean}");
        assert!((off / 0.15 - 1.0).abs() < 0.05, "mean deviation of Laplace's distribution: {off}");
        let mut e = encoder(Model::Rfc8593, FRAME, None);
        let mean = (0..20_000).map(|_| e.next_interval().as_secs_f64()).sum::<f64>() / 20_000.0;
        assert!((mean / 0.02 - 1.0).abs() < 0.02, "{mean}");
    }

    /// Half a kB, and in one of 20 frames 110 kB.
    #[test]
    fn a_shared_screen_has_small_and_large_frames() {
        let all = sizes(encoder(Model::Sharing, FRAME, None), 20_000);
        let large: Vec<_> = all.iter().filter(|s| **s > 1000.0).collect();
        assert!((large.len() as f64 / 1000.0 - 1.0).abs() < 0.1, "{}", large.len());
        assert!(large.iter().all(|s| (20e3..=200e3).contains(*s)));
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
