//! Distributions of times, as counts in bins.

use crate::time::Span;

/// Bins are 1.024 us wide, and above 2.1 ms a 1024th to a 2048th of the time.
const UNIT_SHIFT: u32 = 10;
const BINS_PER_OCTAVE: u64 = 1 << 10;
/// Those of the results: 1.024 us, and above 131 us a 64th to a 128th of the time.
const TOLD_PER_OCTAVE: u64 = 1 << 6;

/// Distribution of a time: exact mean and maximum, percentiles within 0.1 % (1.024 us at the least).
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    /// Whole octaves, up to that of the longest time.
    bins: Vec<u32>,
    sum_ns: u64,
    max: Span,
}

impl Distribution {
    #[inline(always)]
    pub fn record(&mut self, value: Span) {
        self.sum_ns += value.0;
        if value > self.max {
            self.max = value;
        }
        let units = value.0 >> UNIT_SHIFT;
        let octave = (units | BINS_PER_OCTAVE).ilog2() - BINS_PER_OCTAVE.ilog2();
        let bin = u64::from(octave) * BINS_PER_OCTAVE + (units >> octave);
        match self.bins.get_mut(bin as usize) {
            Some(n) => *n += 1,
            None => self.extend(bin as usize),
        }
    }
    #[cold]
    fn extend(&mut self, bin: usize) {
        self.bins.resize((bin + 1).next_multiple_of(BINS_PER_OCTAVE as usize), 0);
        self.bins[bin] += 1;
    }
    pub fn merge(&mut self, other: &Distribution) {
        self.sum_ns += other.sum_ns;
        self.max = self.max.max(other.max);
        self.bins.resize(self.bins.len().max(other.bins.len()), 0);
        self.bins.iter_mut().zip(&other.bins).for_each(|(a, b)| *a += b);
    }
    /// The sum of all times, ns.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }
    pub fn count(&self) -> u64 {
        self.bins.iter().map(|&n| u64::from(n)).sum()
    }
    /// Mean in milliseconds; `None` without values.
    pub fn mean_ms(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_ns as f64 / count as f64 * 1e-6)
    }
    /// Quantile `q` (0 to 1) in milliseconds, as the upper end of its bin; `None` without values.
    pub fn quantile_ms(&self, q: f64) -> Option<f64> {
        let rank = ((q * self.count() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let bin = self.bins.iter().position(|&n| {
            seen += u64::from(n);
            seen >= rank
        })?;
        let end = units_of(bin).end << UNIT_SHIFT;
        // No value was above the maximum.
        Some(Span(end - 1).min(self.max).as_millis_f64())
    }
    /// How many times lie in each bin of the results, in ascending order and without the empty ones.
    /// The edges are the same for all distributions, so those of several runs add up.
    pub fn bins(&self) -> Vec<Bin> {
        let mut bins: Vec<Bin> = Vec::new();
        for (bin, &n) in self.bins.iter().enumerate().filter(|(_, n)| **n > 0) {
            let units = units_of(bin).start;
            let octave = (units | TOLD_PER_OCTAVE).ilog2() - TOLD_PER_OCTAVE.ilog2();
            let low = units >> octave << octave;
            let (low, high) = (Span(low << UNIT_SHIFT), Span((low + (1 << octave)) << UNIT_SHIFT));
            match bins.last_mut().filter(|last| last.low == low) {
                Some(last) => last.count += u64::from(n),
                None => bins.push(Bin { low, high, count: u64::from(n) }),
            }
        }
        bins
    }
    pub fn max_ms(&self) -> Option<f64> {
        (!self.bins.is_empty()).then(|| self.max.as_millis_f64())
    }
}

/// The times in a bin, in units of 1.024 us.
fn units_of(bin: usize) -> std::ops::Range<u64> {
    let bin = bin as u64;
    let octave = (bin / BINS_PER_OCTAVE).saturating_sub(1);
    let place = bin - octave * BINS_PER_OCTAVE;
    place << octave..(place + 1) << octave
}

/// Distributions by the number of a queue: of those from the lowest to the highest that has times. Whoever crosses one
/// of ten thousand classes has one.
#[derive(Clone, Debug, Default)]
pub struct Distributions {
    first: usize,
    all: Vec<Distribution>,
}

impl Distributions {
    #[inline(always)]
    pub fn record(&mut self, number: usize, value: Span) {
        match self.all.get_mut(number.wrapping_sub(self.first)) {
            Some(one) => one.record(value),
            None => self.reach(number).record(value),
        }
    }
    #[cold]
    fn reach(&mut self, number: usize) -> &mut Distribution {
        if self.all.is_empty() {
            self.first = number;
        }
        let before = self.first.saturating_sub(number);
        self.first -= before;
        self.all.splice(0..0, std::iter::repeat_n(Distribution::default(), before));
        let place = number - self.first;
        self.all.resize(self.all.len().max(place + 1), Distribution::default());
        &mut self.all[place]
    }
    /// Each with its number.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Distribution)> {
        (self.first..).zip(&self.all)
    }
}

/// How many of a distribution's times lie from `low` up to `high`, exclusively.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Bin {
    pub low: Span,
    pub high: Span,
    pub count: u64,
}

/// The shortest and the longest of some times; of none, they are the wrong way round.
#[derive(Copy, Clone, Debug)]
pub struct Range {
    pub shortest: Span,
    pub longest: Span,
}

impl Default for Range {
    fn default() -> Self {
        Range { shortest: Span(u64::MAX), longest: Span::ZERO }
    }
}

impl Range {
    #[inline(always)]
    pub fn add(&mut self, value: Span) {
        // Seldom, so that a look is cheaper than a store.
        if value < self.shortest {
            self.shortest = value;
        }
        if value > self.longest {
            self.longest = value;
        }
    }
    pub fn merge(&mut self, other: Range) {
        self.shortest = self.shortest.min(other.shortest);
        self.longest = self.longest.max(other.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_uniform_distribution() {
        let mut d = Distribution::default();
        for us in 1..=10_000 {
            d.record(Span::from_micros(us));
        }
        assert!((d.mean_ms().unwrap() - 5.0005).abs() < 1e-9);
        assert!((d.quantile_ms(0.5).unwrap() - 5.0).abs() < 0.01);
        assert!((d.quantile_ms(0.99).unwrap() - 9.9).abs() < 0.02);
        assert_eq!(d.max_ms(), Some(10.0));
    }

    /// Against the values themselves, over all octaves.
    #[test]
    fn quantiles_are_within_a_thousandth() {
        let mut rng = crate::rng::Rng::stream(1, "distribution", 0);
        for scale in [1_000_u64, 1_000_000, 50_000_000, 3_000_000_000, 100_000_000_000] {
            let mut values: Vec<u64> = (0..10_000).map(|_| rng.below(scale)).collect();
            let (mut d, mut rest) = (Distribution::default(), Distribution::default());
            for (i, &v) in values.iter().enumerate() {
                if i % 3 == 0 { d.record(Span(v)) } else { rest.record(Span(v)) }
            }
            d.merge(&rest);
            values.sort_unstable();
            let sum: u64 = values.iter().sum();
            assert_eq!((d.count(), d.sum_ns, d.max.0), (10_000, sum, values[9_999]));
            for q in [0.0001, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
                let exact = values[(q * 10_000.0) as usize - 1] as f64 * 1e-6;
                let got = d.quantile_ms(q).unwrap();
                assert!(got >= exact && got - exact <= f64::max(exact * 1e-3, 1.024e-3), "{scale}");
            }
        }
        let mut long = Distribution::default();
        long.record(Span::from_secs(1000));
        assert_eq!((long.quantile_ms(0.5), long.max_ms()), (Some(1e6), Some(1e6)));
        assert_eq!(Distribution::default().quantile_ms(0.5), None);
    }

    /// In whatever order the numbers come, each has its own times.
    #[test]
    fn distributions_are_by_number() {
        for numbers in [[5, 5, 9], [9, 5, 9], [5000, 4990, 5003], [0, 3, 0]] {
            let mut all = Distributions::default();
            numbers.iter().for_each(|&n| all.record(n, Span(n as u64)));
            let found: Vec<_> = all.iter().filter(|(_, d)| d.count() > 0).collect();
            assert!(found.iter().all(|(n, d)| d.sum_ns() == *n as u64 * d.count()));
            let each = found.iter().map(|(_, d)| d.count());
            assert_eq!((each.sum::<u64>(), found.len()), (3, if numbers[0] > 9 { 3 } else { 2 }));
            assert!(all.iter().count() <= 14, "no more than from the lowest to the highest");
        }
    }

    /// The bins of the results hold every value, between their edges, and are as narrow as the docs say.
    #[test]
    fn bins_partition_the_values() {
        let mut rng = crate::rng::Rng::stream(1, "bins", 0);
        let mut d = Distribution::default();
        let mut values: Vec<u64> = (0..20_000)
            .map(|i| rng.below(1_000 << (i % 30)) + 5_000_000_000_000 * (i / 19_999))
            .collect();
        values.iter().for_each(|&v| d.record(Span(v)));
        values.sort_unstable();
        let bins = d.bins();
        for b in &bins {
            let inside = values.iter().filter(|v| (b.low.0..b.high.0).contains(v)).count();
            assert_eq!(inside as u64, b.count);
            assert!(b.high.0 - b.low.0 == 1024 || (b.high.0 - b.low.0) * 64 <= b.low.0);
        }
        assert_eq!(bins.iter().map(|b| b.count).sum::<u64>(), 20_000);
        assert!(bins.windows(2).all(|b| b[0].high <= b[1].low));
        assert_eq!(Distribution::default().bins(), []);
    }
}
