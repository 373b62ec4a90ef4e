//! The distributions of `tc`'s `distribution`: 4096 quantiles of a standard distribution, in 1/8192 of
//! sigma.
//!
//! iproute2 ships them as data files. Here they follow from what those tables are: quantiles of the
//! normal distribution; of the Pareto distribution with exponent 3, less its mean 3/2, times 4/3; and a
//! quarter of the former with three quarters of the latter. The entries agree with iproute2's to one
//! unit, its peculiarities included: `pareto` ends at 4 sigma (0.6 % of its packets), which makes its
//! mean -0.033 and its standard deviation 0.82 instead of 0 and 1.15.

use std::sync::OnceLock;

use crate::math;

/// Entries of a table, and its units per sigma.
const SIZE: usize = 4096;
pub const SCALE: i64 = 8192;
/// Where in a step of 1/4096 the normal quantile is taken: iproute2 counts in quarters of a step and
/// rounds to the nearest.
const WITHIN_STEP: f64 = 0.125;
/// The Pareto distribution: exponent, mean, and what a unit is multiplied with.
const EXPONENT: f64 = 3.0;
const MEAN: f64 = 1.5;
const STRETCH: f64 = 4.0 / 3.0;
const NORMAL_PART: i32 = 1;
const PARETO_PART: i32 = 3;

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Distribution {
    Normal,
    Pareto,
    ParetoNormal,
}

impl Distribution {
    pub const ALL: [(&'static str, Distribution); 3] = [
        ("normal", Distribution::Normal),
        ("pareto", Distribution::Pareto),
        ("paretonormal", Distribution::ParetoNormal),
    ];

    pub fn find(name: &str) -> Option<Distribution> {
        Self::ALL.iter().find(|(n, _)| *n == name).map(|&(_, d)| d)
    }
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// The quantiles, in order.
    pub fn table(self) -> &'static [i16] {
        static TABLES: [OnceLock<Vec<i16>>; 3] = [const { OnceLock::new() }; 3];
        TABLES[self as usize].get_or_init(|| (0..SIZE).map(|i| self.entry(i)).collect())
    }

    fn entry(self, i: usize) -> i16 {
        let value = match self {
            Distribution::Normal => normal(i),
            Distribution::Pareto => pareto(i),
            Distribution::ParetoNormal => {
                (NORMAL_PART * normal(i) + PARETO_PART * pareto(i)) / (NORMAL_PART + PARETO_PART)
            }
        };
        value.clamp(i16::MIN.into(), i16::MAX.into()) as i16
    }
}

fn units(x: f64) -> i32 {
    libm::rint(x * SCALE as f64) as i32
}

fn normal(i: usize) -> i32 {
    let part = (i as f64 + WITHIN_STEP) / SIZE as f64;
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if math::normal_cdf(middle) < part { low = middle } else { high = middle }
    }
    units(low)
}

fn pareto(i: usize) -> i32 {
    let above = 1.0 - i as f64 / SIZE as f64;
    let x = STRETCH * (math::pow(above, -1.0 / EXPONENT) - MEAN);
    units(x).min(i16::MAX.into())
}
