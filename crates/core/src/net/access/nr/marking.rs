//! ECN marks at the central unit, by a predicted sojourn (L4Span: H. Wan and K. Jamieson, CoNEXT 2025, arXiv 2510.02682).
//!
//! The central unit cannot touch the queue at the distributed unit. It knows what it has sent down, and is told each 10 ms what
//! has been transmitted. From the rate of that and the backlog follow probabilities for what it sends down next.

use std::collections::VecDeque;

use crate::ecn::Ecn;
use crate::math;
use crate::packet::Packet;
use crate::rng::Rng;
use crate::time::{Span, Time};

/// Between two reports (srsRAN, the timer of F1-U), and the sojourn that is aimed at.
pub(super) const REPORT: Span = Span::from_millis(10);
const TARGET: Span = Span::from_millis(10);
/// The rate is that of so many packets.
const PACKETS: u64 = 50;
/// Classic packets are marked beyond so many packets, for all users together.
const CLASSIC_PACKETS: f64 = 150.0;
const PACKET_BYTES: f64 = 1500.0;
/// Of the rate of a Reno-like flow with marks at a probability p: `MSS K / (RTT sqrt(p))`.
const MSS: f64 = 1460.0;
const RENO: f64 = 1.75 / 2.0;

/// What was transmitted between two reports.
struct Sample {
    packets: u64,
    /// Bytes per second.
    rate: f64,
}

/// The marks of one user's packets.
pub(super) struct Marker {
    rng: Rng,
    samples: VecDeque<Sample>,
    /// Transmitted since the last report.
    packets: u64,
    bytes: u64,
    reported: Time,
    /// When the next report is due: never while nothing waits.
    pub(super) next: Time,
    l4s: f64,
    classic: f64,
}

impl Marker {
    pub(super) fn new(rng: Rng) -> Marker {
        Marker {
            rng,
            samples: VecDeque::new(),
            packets: 0,
            bytes: 0,
            reported: Time::ZERO,
            next: Time::NEVER,
            l4s: 0.0,
            classic: 0.0,
        }
    }
    /// A packet is sent down: whether it is marked.
    pub(super) fn admit(&mut self, now: Time, pkt: &Packet) -> bool {
        if self.next == Time::NEVER {
            self.reported = now;
            self.next = now + REPORT;
        }
        let probability = match pkt.ecn.get() {
            Ecn::Ect1 => self.l4s,
            Ecn::Ect0 => self.classic,
            Ecn::NotEct | Ecn::Ce => return false,
        };
        probability > 0.0 && self.rng.unit() < probability
    }
    pub(super) fn transmit(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }
    /// A report: so many bytes wait. `users` share the limit of classic packets.
    pub(super) fn report(&mut self, now: Time, backlog: u64, users: usize) {
        let span = now.since(self.reported).as_secs_f64();
        let (packets, bytes) = (std::mem::take(&mut self.packets), std::mem::take(&mut self.bytes));
        self.reported = now;
        if packets > 0 && span > 0.0 {
            self.samples.push_back(Sample { packets, rate: bytes as f64 / span });
            let mut known: u64 = self.samples.iter().map(|sample| sample.packets).sum();
            while self.samples.len() > 1 && known - self.samples[0].packets >= PACKETS {
                known -= self.samples[0].packets;
                self.samples.pop_front();
            }
        }
        self.next = if backlog > 0 || packets > 0 { now + REPORT } else { Time::NEVER };
        let (rate, deviation) = self.rate();
        (self.l4s, self.classic) = match rate > 0.0 {
            true => probabilities(backlog as f64, rate, deviation, users),
            false => (0.0, 0.0),
        };
    }
    /// Of the last packets: mean and standard deviation.
    fn rate(&self) -> (f64, f64) {
        let mean_of = |value: &dyn Fn(f64) -> f64| {
            let sum = |part: &dyn Fn(&Sample) -> f64| self.samples.iter().map(part).sum::<f64>();
            let packets = sum(&|sample| sample.packets as f64);
            sum(&|sample| sample.packets as f64 * value(sample.rate)) / packets.max(1.0)
        };
        let mean = mean_of(&|rate| rate);
        (mean, mean_of(&|rate| (rate - mean) * (rate - mean)).sqrt())
    }
}

/// Of L4S packets, and of classic ones. The published code truncates the former to a whole number; this is the rule.
fn probabilities(backlog: f64, rate: f64, deviation: f64, users: usize) -> (f64, f64) {
    let needed = backlog / TARGET.as_secs_f64();
    let l4s = match (needed - rate + deviation) / (2.0 * deviation) {
        ramp if deviation > 0.0 => ramp.clamp(0.0, 1.0),
        _ => f64::from(u8::from(needed > rate)),
    };
    // The rate times the predicted delay, which stands for the RTT, is the backlog.
    let classic = match backlog > CLASSIC_PACKETS * PACKET_BYTES / users.max(1) as f64 {
        true => math::pow(MSS * RENO / backlog, 2.0).min(1.0),
        false => 0.0,
    };
    (l4s, classic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_follow_the_backlog() {
        // 5 MB/s are 50 kB in 10 ms.
        let l4s = |backlog: f64, deviation: f64| probabilities(backlog, 5e6, deviation, 1).0;
        assert_eq!([l4s(49e3, 0.0), l4s(51e3, 0.0)], [0.0, 1.0]);
        assert_eq!([l4s(39e3, 1e6), l4s(50e3, 1e6), l4s(61e3, 1e6)], [0.0, 0.5, 1.0]);
        assert!((l4s(55e3, 1e6) - 0.75).abs() < 1e-12);
        let classic = |backlog: f64, users: usize| probabilities(backlog, 5e6, 0.0, users).1;
        assert_eq!(classic(225e3, 1), 0.0);
        // Reno's rate at it over the delay of the queue is the link's.
        let p = classic(300e3, 1);
        assert!((MSS * RENO / (0.06 * p.sqrt()) - 5e6).abs() < 1.0);
        assert!(classic(113e3, 2) > 0.0);
    }

    #[test]
    fn the_rate_is_that_of_the_last_packets() {
        let mut marker = Marker::new(Rng::stream(1, "marks", 0));
        for (i, packets) in [100_u64, 30, 30].into_iter().enumerate() {
            marker.transmit(packets, packets * 1000);
            marker.report(Time::ZERO + REPORT * (i as u64 + 1), 1, 1);
        }
        let (mean, deviation) = marker.rate();
        assert!((mean - 3e6).abs() < 1e-3 && deviation < 1e-3, "{mean} {deviation}");
    }
}
