//! The rate that arrives (libwebrtc's `robust_throughput_estimator`): of the packets of the last second, or of more
//! where these are few. It is never above the rate at which they were sent.

use std::collections::VecDeque;

use crate::cc::media::Fate;
use crate::time::{Span, Time};

/// The window has so many packets at least and at most, and lasts so long at most.
const LEAST_PACKETS: usize = 20;
const MOST_PACKETS: usize = 500;
const LONGEST: Span = Span::from_secs(5);
/// Fewer packets tell no rate.
const REQUIRED: usize = 10;
const LEAST_TIME: Span = Span::from_millis(1);

#[derive(Copy, Clone, Debug)]
struct Packet {
    arrived: Time,
    sent: Time,
    bytes: f64,
}

/// The rate at which acknowledged packets arrived.
#[derive(Clone, Debug)]
pub struct Throughput {
    window: Span,
    /// In the order in which they arrived.
    packets: VecDeque<Packet>,
    /// Packets were sent as late as this that the window has no more.
    left_out: Option<Time>,
}

impl Throughput {
    pub fn new(window: Span) -> Throughput {
        Throughput { window, packets: VecDeque::new(), left_out: None }
    }

    /// A report tells of `packets`.
    pub fn update(&mut self, packets: &[Fate]) {
        for packet in packets {
            let Some(arrived) = packet.arrived else { continue };
            let before = self.packets.iter().rev().take_while(|p| p.arrived > arrived).count();
            let new = Packet { arrived, sent: packet.sent, bytes: packet.size.into() };
            self.packets.insert(self.packets.len() - before, new);
        }
        while let (Some(first), Some(last)) = (self.packets.front(), self.packets.back()) {
            let (n, length) = (self.packets.len(), last.arrived.since(first.arrived));
            let is_enough = n > LEAST_PACKETS && length > self.window;
            if n <= MOST_PACKETS && length <= LONGEST && !is_enough {
                break;
            }
            self.left_out = self.left_out.max(Some(first.sent));
            self.packets.pop_front();
        }
    }

    /// Bits per second; `None`: too few packets have come.
    pub fn bps(&self) -> Option<f64> {
        let (first, last) = (self.packets.front()?, self.packets.back()?);
        if self.packets.len() < REQUIRED {
            return None;
        }
        // A pause in which the network held all packets counts as long as the second longest.
        let (mut longest, mut second) = (Span::ZERO, Span::ZERO);
        let mut before = first.arrived;
        // Reordered packets may have left long ago: they do not count for the sending rate.
        let (mut sent, mut sent_bytes) = (0, 0.0);
        let (mut from, mut until, mut until_bytes) = (Time::NEVER, Time::ZERO, 0.0);
        let mut bytes = 0.0;
        for packet in &self.packets {
            let gap = packet.arrived.since(before);
            before = packet.arrived;
            if gap > longest {
                (longest, second) = (gap, longest);
            } else if gap > second {
                second = gap;
            }
            bytes += packet.bytes;
            if Some(packet.sent) < self.left_out {
                continue;
            }
            if packet.sent > until {
                (until, until_bytes) = (packet.sent, packet.bytes);
            }
            from = from.min(packet.sent);
            sent_bytes += packet.bytes;
            sent += 1;
        }
        let rate = |bytes: f64, time: Span| 8.0 * bytes / time.max(LEAST_TIME).as_secs_f64();
        let coming = last.arrived.since(first.arrived) - longest + second;
        let received = rate(bytes - first.bytes, coming);
        if sent < REQUIRED {
            return Some(received);
        }
        Some(received.min(rate(sent_bytes - until_bytes, until.since(from))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(t: &mut Throughput, of: impl Iterator<Item = (u64, u64)>) {
        for (sent, came) in of {
            let ms = |t: u64| Time(t * 1_000_000);
            let arrived = Some(ms(came));
            t.update(&[Fate { sent: ms(sent), arrived, size: 1250, ce: false, cluster: 0 }]);
        }
    }
    fn near(t: &Throughput, bps: f64) {
        let found = t.bps().expect("enough packets");
        assert!((found / bps - 1.0).abs() < 1e-9, "{found}, wanted {bps}");
    }

    /// 1250 bytes every 10 ms are 1 Mb/s.
    #[test]
    fn an_even_rate() {
        let mut t = Throughput::new(Span::from_secs(1));
        feed(&mut t, (0..9).map(|i| (i * 10, i * 10 + 20)));
        assert_eq!(t.bps(), None);
        feed(&mut t, (9..300).map(|i| (i * 10, i * 10 + 20)));
        near(&t, 1e6);
        assert_eq!(t.packets.len(), 101, "a second, with both ends");
    }

    /// The network holds 20 packets for 200 ms. What came in the rest of the time is above the sending rate.
    #[test]
    fn a_stall_does_not_count() {
        let mut t = Throughput::new(Span::from_secs(1));
        feed(
            &mut t,
            (0..60).map(|i| (i * 10, if (20..40).contains(&i) { 420 } else { i * 10 + 20 })),
        );
        near(&t, 1e6);
    }

    /// At a low rate the window grows to 20 packets: one each 200 ms, so 4 s of them.
    #[test]
    fn a_low_rate() {
        let mut t = Throughput::new(Span::from_secs(1));
        feed(&mut t, (0..60).map(|i| (i * 200, i * 200 + 20)));
        near(&t, 5e4);
        assert_eq!(t.packets.len(), LEAST_PACKETS);
    }
}
