//! The rate that arrives at the receiver, over a sliding window of arrival times.

use std::collections::VecDeque;

use crate::time::{Span, Time};

/// The rate of the packets that arrived within a window.
#[derive(Clone, Debug)]
pub struct Arrivals {
    window: Span,
    packets: VecDeque<(Time, u32)>,
    bytes: u64,
    since: Option<Time>,
}

impl Arrivals {
    pub fn new(window: Span) -> Arrivals {
        Arrivals { window, packets: VecDeque::new(), bytes: 0, since: None }
    }

    pub fn add(&mut self, arrived: Time, bytes: u32) {
        self.since.get_or_insert(arrived);
        self.packets.push_back((arrived, bytes));
        self.bytes += u64::from(bytes);
        while let Some(&(at, old)) = self.packets.front()
            && arrived.since(at) >= self.window
        {
            self.packets.pop_front();
            self.bytes -= u64::from(old);
        }
    }

    /// Bits per second; `None` until a window has passed.
    pub fn bps(&self) -> Option<f64> {
        let (last, _) = self.packets.back()?;
        let is_full = last.since(self.since?) >= self.window;
        is_full.then(|| self.bytes as f64 * 8.0 / self.window.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1250 bytes every 10 ms are 1 Mb/s, then half of that.
    #[test]
    fn the_rate_of_the_last_window() {
        let mut a = Arrivals::new(Span::from_millis(500));
        for i in 0..100 {
            assert_eq!(a.bps().is_some(), i > 50, "{i}");
            a.add(Time(i * 10_000_000), 1250);
        }
        assert_eq!(a.bps(), Some(1e6));
        for i in 0..50 {
            a.add(Time(1_000_000_000 + i * 20_000_000), 1250);
        }
        assert_eq!(a.bps(), Some(5e5));
    }
}
