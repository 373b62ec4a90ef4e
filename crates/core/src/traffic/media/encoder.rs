//! Encoders: how large frames are, given the rate that the congestion control asks for.

use std::collections::VecDeque;

use crate::cc::media::EncoderModel as Model;
use crate::math;
use crate::rng::Rng;
use crate::time::{Span, Time};

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

/// libwebrtc's settings of VP8 (`libvpx_vp8_encoder.cc`): what its buffer holds at first, should hold, and holds at most, in
/// seconds of the target.
const VP8_START: f64 = 0.5;
const VP8_WANTED: f64 = 0.6;
const VP8_MOST: f64 = 1.0;
/// Half of 100 % and of 15 %: by how much a frame may be smaller and larger than its share of the target.
const VP8_LESS: f64 = 0.5;
const VP8_MORE: f64 = 0.075;
/// Indices of libwebrtc's least and largest quantizer, 2 and 56.
const VP8_INDEX: (f64, f64) = (4.0, 117.0);
/// From so many frames on the mean index counts, and by so much a full buffer lowers the largest index (libvpx).
const VP8_YOUNG: f64 = 150.0;
const VP8_FULL: f64 = 0.25;
/// libwebrtc's adjuster: frames of a young call, its excess, the largest excess, and for how long excesses count, seconds.
const ADJUSTER_YOUNG: f64 = 30.0;
const ADJUSTER_GUESS: f64 = 1.2;
const ADJUSTER_MOST: f64 = 2.0;
const ADJUSTER_WINDOW: f64 = 3.0;
/// The picture decides by how much ln of a frame's size falls per index, which index makes the highest rate, and how
/// frames vary. Measured with the noise that the stack `libwebrtc` sends.
const VP8_PER_INDEX: f64 = 0.06;
const VP8_AT_MOST: f64 = 20.0;
const VP8_NOISE: f64 = 0.07;

/// Key frames: how often, and how large over the others.
#[derive(Copy, Clone, Debug)]
pub struct KeyFrames {
    pub interval: Span,
    pub ratio: f64,
}

/// The sizes and times of a video encoder's frames.
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
    rate_control: RateControl,
    rng: Rng,
}

/// VP8's rate control in libwebrtc. Two parts follow the target:
///
/// * libwebrtc (`encoder_bitrate_adjuster.cc`) divides it by how much more than it the frames of the last three seconds
///   were, after a young call's guess of 20 %.
/// * libvpx, for constant rates in one pass (`vp8/encoder/ratectrl.c` and `onyx_if.c`): a buffer fills at the rate, and
///   frames take their bits from it; the fuller it is, the larger they are. Where it is fuller than wanted, no frame may
///   be of worse quality than the mean of the call, so frames stay large for up to a second after the rate has fallen.
#[derive(Clone, Debug)]
struct RateControl {
    /// Seconds.
    interval: f64,
    /// By how much each frame of the last seconds exceeded the rate, 1 for not at all; the sum; bits that wait to leave.
    excesses: VecDeque<f64>,
    sum_of_excesses: f64,
    waiting: f64,
    /// Bits; none before the first frame.
    buffer: Option<f64>,
    /// Frames, the sum of their quantizers' indices, and the index that counts as their mean.
    frames: f64,
    sum: f64,
    mean: f64,
    /// ln of the bytes of a frame at the index 0.
    best: f64,
}

impl RateControl {
    /// `rate_max`: bits per second; `interval`: seconds.
    fn new(rate_max: f64, interval: f64) -> RateControl {
        RateControl {
            interval,
            excesses: VecDeque::new(),
            sum_of_excesses: 0.0,
            waiting: 0.0,
            buffer: None,
            frames: 0.0,
            sum: 0.0,
            mean: VP8_INDEX.1,
            best: math::ln(rate_max * interval / 8.0) + VP8_PER_INDEX * VP8_AT_MOST,
        }
    }

    /// Bytes of a frame; `target`: bits per second; `noise`: a factor of its size.
    fn frame(&mut self, target: f64, noise: f64) -> f64 {
        let rate = target / self.excess();
        let size = self.encoded(rate, noise);
        self.adjust(rate * self.interval, size * 8.0);
        size
    }

    fn excess(&self) -> f64 {
        if self.frames < ADJUSTER_YOUNG {
            return ADJUSTER_GUESS;
        }
        (self.sum_of_excesses / self.excesses.len() as f64).clamp(1.0, ADJUSTER_MOST)
    }

    /// A frame of so many bits, where `due` leave until the next. What waits counts once the next frame comes.
    fn adjust(&mut self, due: f64, bits: f64) {
        self.waiting = (self.waiting - due).max(0.0);
        let too_much = (self.waiting + bits - due).clamp(0.0, self.waiting);
        self.waiting += bits - too_much;
        let excess = 1.0 + too_much / due;
        self.excesses.push_back(excess);
        self.sum_of_excesses += excess;
        let frames = self.excesses.len();
        if frames > 1 && frames as f64 * self.interval > ADJUSTER_WINDOW {
            self.sum_of_excesses -= self.excesses.pop_front().unwrap_or_default();
        }
    }

    /// Bytes of a frame at a rate, bits per second.
    fn encoded(&mut self, rate: f64, noise: f64) -> f64 {
        let buffer = self.buffer.unwrap_or(VP8_START * rate).min(VP8_MOST * rate);
        let level = buffer / rate;
        let over = (level / VP8_WANTED - 1.0) / 2.0;
        let wanted = rate * self.interval / 8.0 * (1.0 + over.clamp(-VP8_LESS, VP8_MORE));
        let index = (self.best - math::ln(wanted)) / VP8_PER_INDEX;
        let index = index.min(self.largest_index(level)).max(VP8_INDEX.0);
        self.frames += 1.0;
        self.sum += index;
        self.mean = self.sum / self.frames;
        if index > self.mean {
            self.mean = index - 1.0;
        }
        let size = math::exp(self.best - VP8_PER_INDEX * index) * noise;
        self.buffer = Some(buffer + rate * self.interval - size * 8.0);
        size
    }

    /// `level`: seconds that the buffer holds.
    fn largest_index(&self, level: f64) -> f64 {
        let most = VP8_INDEX.1;
        // Between a quarter of the wanted level and all of it, the largest index falls to the mean.
        let share = ((level / VP8_WANTED - 0.25) / 0.75).clamp(0.0, 1.0);
        let bound = if self.frames > VP8_YOUNG { most - (most - self.mean) * share } else { most };
        let full = ((level - VP8_WANTED) / (VP8_MOST - VP8_WANTED)).clamp(0.0, 1.0);
        bound * (1.0 - VP8_FULL * full)
    }
}

impl Encoder {
    pub fn new(
        model: Model,
        interval: Span,
        spread: f64,
        reaction: Span,
        key: Option<KeyFrames>,
        rate_max: f64,
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
            rate_control: RateControl::new(rate_max, interval.as_secs_f64()),
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
            Model::Even | Model::Uniform | Model::Lognormal | Model::Vp8 => {}
        }
        let interval = self.interval.as_secs_f64();
        let factor = self.key_factor() * self.variation();
        let size = match self.model {
            Model::Vp8 => self.rate_control.frame(target, factor),
            _ => target / 8.0 * interval * factor,
        };
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
            Model::Lognormal => math::lognormal(self.spread, self.rng.normal()),
            Model::Vp8 => math::lognormal(VP8_NOISE, self.rng.normal()),
        }
    }
}

/// A variate of Laplace's distribution around 0.
fn laplace(rng: &mut Rng, scale: f64) -> f64 {
    let u = rng.unit() - 0.5;
    -scale * math::ln((1.0 - 2.0 * u.abs()).max(1e-12)) * u.signum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Span = Span::from_millis(20);

    fn encoder(model: Model, reaction: Span, key: Option<KeyFrames>) -> Encoder {
        Encoder::new(model, FRAME, 0.15, reaction, key, 4e6, Rng::stream(1, "encoder", 0))
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

    /// A rate that falls by a fifth after 20 s is reached after about a second, after 2 s at once but for what the buffer
    /// has too much, and one that rises at once but for what it lacks.
    #[test]
    fn vp8_follows_a_fall_slowly_once_a_call_is_old() {
        let mean = |at: usize, from: f64, to: f64, frames: std::ops::Range<usize>| {
            let mut vp8 = RateControl::new(4e6, FRAME.as_secs_f64());
            let mut size = |i| vp8.encoded(if i < at { from } else { to }, 1.0);
            let all: Vec<_> = (0..at + 200).map(&mut size).collect();
            let part = &all[at + frames.start..at + frames.end];
            part.iter().sum::<f64>() / part.len() as f64 / (to * FRAME.as_secs_f64() / 8.0)
        };
        let near = |what: &str, x: f64, expected: f64| {
            assert!((x / expected - 1.0).abs() < 0.05, "{what}: {x}, expected {expected}");
        };
        near("old and falling", mean(1000, 2e6, 1.6e6, 0..20), 1.3);
        near("old and fallen", mean(1000, 2e6, 1.6e6, 75..200), 1.0);
        near("young and falling", mean(100, 2e6, 1.6e6, 0..20), 1.07);
        near("rising", mean(1000, 1.6e6, 2e6, 0..20), 0.92);
        near("even", mean(1000, 2e6, 2e6, 0..200), 1.0);
    }

    /// Frames that are all half as large again lower the rate by a third; a single large frame does nothing by itself.
    #[test]
    fn what_exceeds_the_target_and_does_not_end_lowers_the_rate() {
        let excess = |sizes: &[f64]| {
            let mut adjuster = RateControl::new(4e6, FRAME.as_secs_f64());
            assert_eq!(adjuster.excess(), ADJUSTER_GUESS);
            adjuster.frames = ADJUSTER_YOUNG;
            sizes.iter().for_each(|size| adjuster.adjust(1e4, size * 1e4));
            adjuster.excess()
        };
        assert!((excess(&[1.5; 400]) - 1.5).abs() < 0.01);
        assert_eq!(excess(&[4.0]), 1.0);
        assert_eq!(excess(&[0.5; 400]), 1.0);
        assert_eq!(excess(&[3.5; 400]), ADJUSTER_MOST);
    }

    /// The window of excesses holds one frame, though that is older.
    #[test]
    fn vp8_makes_a_frame_every_five_seconds() {
        let mut vp8 = RateControl::new(4e6, 5.0);
        let all: Vec<_> = (0..100).map(|_| vp8.frame(2e6, 1.0)).collect();
        assert!(all.iter().all(|size| (3e5..2e6).contains(size)), "{all:?}");
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
