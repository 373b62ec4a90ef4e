//! Prague's guess whether the bottleneck marks like RFC 3168 (arXiv:1911.00710; "TCP Prague Fall-back
//! on Detection of a Classic ECN AQM").
//!
//! A queue that marks instead of dropping requires a reaction as to a drop, and a flow that reduces only
//! by alpha/2 starves the others in it. Such a queue is deep, and its delay varies. Once per update of alpha
//! a score rises with the logarithm of the RTT's mean deviation over 750 us and of the queue's depth
//! over 2 ms; the deviation can also lower it. Up to 8 the queue is L4S, from 9 on classic, and the
//! ceiling is 17, so that leaving either verdict takes as much evidence.

/// Bounds of the score, in units of alpha's full scale.
const L4S: i64 = 8;
const CLASSIC: i64 = 9;
const MAX: i64 = 17;
/// lg(750 us) and lg(2 ms), 20 and 24 fractional bits, as in the module.
const LG_SWING_20: i64 = 10_014_683;
const LG_DEPTH_20: i64 = 11_498_458;
const LG_SWING_24: i64 = 160_234_941;
const LG_DEPTH_24: i64 = 183_975_331;
/// Fractional bits of the averages, in microseconds.
const TIME_BITS: u32 = 24;
const MICROSECOND: u64 = 1 << TIME_BITS;
/// Fractional bits of the rest of a logarithm.
const REST_BITS: u32 = 20;
/// Largest shift of the averages.
const GAIN_SHIFT_MAX: u32 = 18;

/// What to do about classic ECN queues.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Fallback {
    Off,
    Detect,
    Correct,
    /// The references with 20 fractional bits in a score of 24: 1.5 us and 1.6 us instead of 750 us
    /// and 2 ms, so that nearly every path is taken for classic (0.7 before that was corrected).
    Buggy24,
}

/// Logarithms are whole numbers. The rest of each multiplies the next argument, so that they are
/// right on average.
#[derive(Clone, Debug)]
struct Lg {
    /// In [1, 2), REST_BITS fractional bits.
    rest: u64,
}

impl Lg {
    /// From the middle of its range, so that the first one is unbiased.
    fn new() -> Lg {
        Lg { rest: 1_482_910 } // 2^(20 + 1/2)
    }
    /// `time` in microseconds, TIME_BITS fractional bits; below one counts as one.
    fn of(&mut self, time: u64) -> i64 {
        let product = (u128::from(time.max(MICROSECOND)) * u128::from(self.rest)) >> TIME_BITS;
        let product = product as u64;
        let lg = product.ilog2() - REST_BITS;
        self.rest = product >> lg;
        i64::from(lg)
    }
}

/// Prague's detector of a queue that marks classic flows and L4S flows alike.
#[derive(Clone, Debug)]
pub struct Detector {
    fallback: Fallback,
    alpha_bits: u32,
    /// References as logarithms, alpha_bits fractional bits.
    swing_reference: i64,
    depth_reference: i64,
    /// Mean RTT and its mean deviation, microseconds with TIME_BITS fractional bits.
    mean: u64,
    deviation: u64,
    gain_shift: u32,
    swing_lg: Lg,
    depth_lg: Lg,
    /// alpha_bits fractional bits.
    score: i64,
}

impl Detector {
    pub fn new(fallback: Fallback, alpha_bits: u32) -> Option<Detector> {
        if fallback == Fallback::Off {
            return None;
        }
        let (swing_reference, depth_reference) = match (alpha_bits, fallback) {
            (20, _) | (_, Fallback::Buggy24) => (LG_SWING_20, LG_DEPTH_20),
            _ => (LG_SWING_24, LG_DEPTH_24),
        };
        Some(Detector {
            fallback,
            alpha_bits,
            swing_reference,
            depth_reference,
            mean: 0,
            deviation: MICROSECOND,
            gain_shift: GAIN_SHIFT_MAX,
            swing_lg: Lg::new(),
            depth_lg: Lg::new(),
            score: 0,
        })
    }

    /// Averages over several round trips whatever the window: gain 2^-(1.5 lg(ssthresh) + 1), and
    /// half of it for the deviation. Set whenever the window is to come down.
    pub fn set_gain(&mut self, ssthresh: u32) {
        let lg = ssthresh.max(1).ilog2();
        self.gain_shift = (lg + lg / 2 + 1).min(GAIN_SHIFT_MAX);
    }

    pub fn sample(&mut self, rtt_us: u32) {
        let rtt = u64::from(rtt_us) << TIME_BITS;
        if self.mean == 0 {
            self.mean = rtt;
            return;
        }
        let error = rtt as i64 - self.mean as i64;
        self.mean = (self.mean as i64 + (error >> self.gain_shift)) as u64;
        let more = error.abs() - self.deviation as i64;
        self.deviation = (self.deviation as i64 + (more >> (self.gain_shift + 1))) as u64;
    }

    /// Once per update of alpha after the first mark.
    pub fn update(&mut self, min_rtt_us: u32) {
        if self.mean == 0 || min_rtt_us == u32::MAX {
            return;
        }
        let swing = self.swing_lg.of(self.deviation) << self.alpha_bits;
        let mut score = self.score + (swing - self.swing_reference) / 2;
        let base = u64::from(min_rtt_us) << TIME_BITS;
        if self.mean > base {
            // A shallow queue proves nothing.
            let depth = self.depth_lg.of(self.mean - base) << self.alpha_bits;
            score += (depth - self.depth_reference).max(0) / 2;
        }
        self.score = score.clamp(0, MAX << self.alpha_bits);
    }

    pub fn takes_it_for_l4s(&self) -> bool {
        self.score <= L4S << self.alpha_bits
    }

    /// What to reduce by instead of alpha: at least 0.625, which cuts by 31 %, where the queue is
    /// classic for sure.
    pub fn effective(&self, alpha: u64) -> u64 {
        if self.fallback == Fallback::Detect || self.takes_it_for_l4s() {
            return alpha;
        }
        let certainty = self.score.min(CLASSIC << self.alpha_bits) - (L4S << self.alpha_bits);
        alpha.max(certainty as u64 * 5 / 8)
    }

    /// 0 to 17.
    pub fn score(&self) -> f64 {
        self.score as f64 / (1_u64 << self.alpha_bits) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A detector that has seen this deviation and depth, both in microseconds.
    fn detector(fallback: Fallback, bits: u32, deviation: u64, depth: u64) -> Detector {
        let mut d = Detector::new(fallback, bits).unwrap();
        d.mean = (20_000 + depth) << TIME_BITS;
        d.deviation = deviation << TIME_BITS;
        d
    }

    /// laws.md 6: 0.5 lg(mdev/750 us) + max(0, 0.5 lg(depth/2 ms)) per update. Whole logarithms are
    /// right only on average, within one unit over all updates so far.
    fn rises(d: &mut Detector, per_update: f64, updates: u32) {
        for n in 1..=updates {
            d.update(20_000);
            let law = f64::from(n) * per_update;
            assert!((d.score() - law).abs() < 1.0, "after {n}: {}, law {law}", d.score());
        }
    }

    #[test]
    fn the_score_follows_its_law() {
        for bits in [20, 24] {
            // Both eightfold: 3 per update.
            rises(&mut detector(Fallback::Correct, bits, 6_000, 16_000), 3.0, 5);
            // Twice the deviation, and a depth that proves nothing: 0.5 per update.
            rises(&mut detector(Fallback::Correct, bits, 1_500, 500), 0.5, 32);
            // Deviation at its reference, four times the depth: 1 per update.
            rises(&mut detector(Fallback::Correct, bits, 750, 8_000), 1.0, 16);
        }
    }

    #[test]
    fn the_third_update_with_both_eightfold_reaches_the_threshold() {
        let mut d = detector(Fallback::Correct, 24, 6_000, 16_000);
        d.update(20_000);
        d.update(20_000);
        assert!(d.takes_it_for_l4s(), "{}", d.score());
        d.update(20_000);
        assert!(!d.takes_it_for_l4s(), "{}", d.score());
    }

    #[test]
    fn small_swings_lower_the_score_and_it_stays_in_bounds() {
        let mut d = detector(Fallback::Correct, 24, 6_000, 16_000);
        for _ in 0..20 {
            d.update(20_000);
        }
        assert_eq!(d.score(), 17.0);
        d = Detector { deviation: 100 << TIME_BITS, mean: 20_000 << TIME_BITS, ..d };
        let mut sum = 17.0;
        for _ in 0..6 {
            d.update(20_000);
            sum -= 1.4535; // 0.5 lg(100/750)
            assert!((d.score() - sum).abs() < 1.0, "{} {sum}", d.score());
        }
        for _ in 0..20 {
            d.update(20_000);
        }
        assert_eq!(d.score(), 0.0);
    }

    /// Swings of 50 us are L4S; the mistaken constants make them classic within two updates.
    #[test]
    fn twenty_bit_references_in_a_score_of_24_take_nearly_every_path_for_classic() {
        let updates = |fallback| {
            let mut d = detector(fallback, 24, 50, 100);
            (1..=100).find(|_| {
                d.update(20_000);
                !d.takes_it_for_l4s()
            })
        };
        assert_eq!(updates(Fallback::Correct), None);
        assert!(updates(Fallback::Buggy24).unwrap() <= 2);
    }

    #[test]
    fn between_8_and_9_the_reduction_goes_over_to_31_percent() {
        let mut d = detector(Fallback::Correct, 24, 1, 0);
        let one = 1_i64 << 24;
        for (score, alpha) in [(8.0, 0.01), (8.5, 0.3125), (9.0, 0.625), (17.0, 0.625)] {
            d.score = (score * one as f64) as i64;
            let effective = d.effective(one as u64 / 100) as f64 / one as f64;
            assert!((effective - alpha).abs() < 1e-6, "{score}: {effective}");
        }
        assert_eq!(d.effective(one as u64), one as u64, "alpha itself where it is larger");
        d.fallback = Fallback::Detect;
        assert_eq!(d.effective(one as u64 / 100), one as u64 / 100);
    }

    /// The gain goes down with the window, and the deviation's is half of the mean's.
    #[test]
    fn averages_are_slow() {
        let mut d = Detector::new(Fallback::Detect, 24).unwrap();
        d.set_gain(super::super::super::SSTHRESH_INFINITE);
        assert_eq!(d.gain_shift, 18);
        d.set_gain(64);
        assert_eq!(d.gain_shift, 10);
        d.sample(20_000);
        d.sample(21_024);
        assert_eq!(d.mean, 20_001 << TIME_BITS);
        // 1 us at first, then 1/2048 of the way to 1024 us.
        assert_eq!(d.deviation, MICROSECOND + 1_023 * MICROSECOND / 2048);
    }
}
