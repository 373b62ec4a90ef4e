//! Recording: counters, distributions and time series. Nothing per packet is kept.

use hdrhistogram::Histogram;

use crate::aqm::Gauges;
use crate::time::Span;

/// Longest time told apart; longer ones count as this.
const LONGEST_US: u64 = 120_000_000;

/// Distribution of a time: exact mean and maximum, percentiles within 0.1 % (1 µs at the least).
#[derive(Clone, Debug)]
pub struct Distribution {
    histogram: Histogram<u32>,
    count: u64,
    sum_ns: u128,
    max: Span,
}

impl Default for Distribution {
    fn default() -> Self {
        let histogram =
            Histogram::new_with_bounds(1, LONGEST_US, 3).expect("constant bounds are valid");
        Distribution { histogram, count: 0, sum_ns: 0, max: Span::ZERO }
    }
}

impl Distribution {
    #[inline]
    pub fn record(&mut self, value: Span) {
        self.count += 1;
        self.sum_ns += u128::from(value.0);
        self.max = self.max.max(value);
        self.histogram.saturating_record(value.as_micros().min(LONGEST_US));
    }
    pub fn merge(&mut self, other: &Distribution) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max = self.max.max(other.max);
        self.histogram.add(&other.histogram).expect("all distributions have the same bounds");
    }
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Mean in milliseconds; `None` without values.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64 * 1e-6)
    }
    /// Quantile `q` (0 to 1) in milliseconds; `None` without values.
    pub fn quantile_ms(&self, q: f64) -> Option<f64> {
        (self.count > 0).then(|| {
            let v = self.histogram.value_at_quantile(q);
            // The histogram reports the upper end of a bin; no value was above the maximum.
            (v as f64 * 1e-3).min(self.max.as_millis_f64())
        })
    }
    pub fn max_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.max.as_millis_f64())
    }
}

/// Time series as columns: a row is a flow group or a queue at an instant. Missing values are NaN.
#[derive(Clone, Debug, Default)]
pub struct Series {
    pub time_s: Vec<f64>,
    /// Index of the flow group, link or queue name of each row; `u16::MAX`: none.
    pub flow: Vec<u16>,
    pub link: Vec<u16>,
    pub queue: Vec<Option<&'static str>>,
    pub columns: Vec<(&'static str, Vec<f64>)>,
}

impl Series {
    /// Begins a row; values follow through [`Gauges::gauge`].
    pub fn row(&mut self, time_s: f64, flow: u16, link: u16, queue: Option<&'static str>) {
        self.time_s.push(time_s);
        self.flow.push(flow);
        self.link.push(link);
        self.queue.push(queue);
        for (_, column) in &mut self.columns {
            column.push(f64::NAN);
        }
    }
}

impl Gauges for Series {
    fn gauge(&mut self, name: &'static str, value: f64) {
        let rows = self.time_s.len();
        let column = match self.columns.iter().position(|(n, _)| *n == name) {
            Some(i) => &mut self.columns[i].1,
            None => {
                self.columns.push((name, vec![f64::NAN; rows]));
                &mut self.columns.last_mut().expect("just pushed").1
            }
        };
        if let Some(last) = column.last_mut() {
            *last = value;
        }
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

    #[test]
    fn a_column_that_appears_late_is_missing_before() {
        let mut s = Series::default();
        s.row(0.0, 0, 0, None);
        s.gauge("a", 1.0);
        s.row(1.0, 0, 0, None);
        s.gauge("b", 2.0);
        assert_eq!(s.columns[0].1[0], 1.0);
        assert!(s.columns[0].1[1].is_nan() && s.columns[1].1[0].is_nan());
        assert_eq!(s.columns[1].1[1], 2.0);
    }
}
