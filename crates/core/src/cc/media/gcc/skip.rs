//! Frames that are not made while too much is in flight (`congestion_window_pushback_controller` and `goog_cc`; in
//! libwebrtc this is the field trial `CongestionWindow` with its defaults, which drop frames and leave the rate).

use std::collections::VecDeque;

use crate::cc::media::Report;
use crate::time::{Span, Time};

/// What may be in flight: the target rate over the round trip and this time, bytes at least.
const QUEUE: Span = Span::from_millis(350);
const LEAST_WINDOW: f64 = 3000.0;
/// The round trip is the shortest of so many reports.
const REPORTS: usize = 32;
/// With each report, and once in this time, the share of frames changes by a factor.
const STEP: Span = Span::from_millis(25);
const FULL: (f64, f64) = (1.0, 0.95);
const OVERFULL: (f64, f64) = (1.5, 0.9);
const GROWTH: f64 = 1.05;
const EMPTY: f64 = 0.1;

/// Frames that are not encoded while too much is in flight.
#[derive(Clone, Debug)]
pub struct Skipping {
    rtts: VecDeque<Span>,
    window: Option<f64>,
    updated: Time,
    /// Share of the target rate that frames should have, and frames since the last that was skipped.
    share: f64,
    frames: u32,
}

impl Skipping {
    pub fn new() -> Skipping {
        Skipping { rtts: VecDeque::new(), window: None, updated: Time::ZERO, share: 1.0, frames: 0 }
    }

    /// A report came; `bps`: the target rate.
    pub fn on_report(&mut self, report: &Report, bps: f64) {
        let came = report.packets.iter().filter(|packet| packet.arrived.is_some());
        let Some(rtt) = came.map(|packet| report.now.since(packet.sent)).max() else { return };
        if self.rtts.len() == REPORTS {
            self.rtts.pop_front();
        }
        self.rtts.push_back(rtt);
        let least = self.rtts.iter().min().copied().unwrap_or(rtt);
        let target = bps / 8.0 * (least + QUEUE).as_secs_f64();
        let window = self.window.map_or(target, |before| (before + target) / 2.0).max(LEAST_WINDOW);
        self.window = Some(window);
        let steps = 1 + report.now.since(self.updated).0 / STEP.0;
        self.updated = report.now;
        for _ in 0..steps {
            self.share = match report.in_flight as f64 / window {
                fill if fill > OVERFULL.0 => self.share * OVERFULL.1,
                fill if fill > FULL.0 => self.share * FULL.1,
                fill if fill < EMPTY => 1.0,
                _ => (self.share * GROWTH).min(1.0),
            };
        }
    }

    /// Whether the frame that is due is not made. It is every second one at most.
    pub fn skips(&mut self) -> bool {
        if self.share >= 1.0 {
            self.frames = 0;
            return false;
        }
        let every = (1.0 / (1.0 - self.share) + 0.5).max(2.0) as u32;
        self.frames += 1;
        self.frames % every == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::media::Fate;

    /// 1 Mb/s and 100 ms: 56 kB may be in flight. With more the share falls by 5 or 10 %, three times in 50 ms.
    #[test]
    fn a_full_path_skips_frames() {
        let mut skipping = Skipping::new();
        let mut report = |ms: u64, in_flight: u64| {
            let now = Time::ZERO + Span::from_millis(ms);
            let sent = now.saturating_sub(Span::from_millis(100));
            let packets = [Fate { sent, arrived: Some(now), size: 1000, ce: false, cluster: 0 }];
            let (rtt, one_way) = (Span::from_millis(100), Span::from_millis(50));
            let (acked, max_in_flight) = (1000, in_flight);
            let packets = &packets;
            let report = Report { now, packets, rtt, one_way, acked, in_flight, max_in_flight };
            skipping.on_report(&report, 1e6);
            let skipped = (0..100).filter(|_| skipping.skips()).count();
            (skipping.share, skipped)
        };
        for (ms, in_flight, share, skipped) in [
            (100, 56_000, 1.0, 0),
            (150, 57_000, 0.95_f64.powi(3), 15),
            (200, 90_000, 0.95_f64.powi(3) * 0.9_f64.powi(3), 34),
            (250, 90_000, 0.95_f64.powi(3) * 0.9_f64.powi(6), 50),
            (300, 50_000, 0.95_f64.powi(3) * 0.9_f64.powi(6) * 1.05_f64.powi(3), 50),
            (350, 5_000, 1.0, 0),
        ] {
            let found = report(ms, in_flight);
            assert!((found.0 - share).abs() < 1e-9, "{ms} ms: {found:?}");
            assert!(found.1.abs_diff(skipped) <= 1, "{ms} ms: {found:?}");
        }
    }
}
