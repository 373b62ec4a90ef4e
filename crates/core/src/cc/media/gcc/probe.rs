//! Probes at the start (libwebrtc's `probe_controller` and `probe_bitrate_estimator`): bursts at three and six times
//! the start rate. Where the rate of one arrives, the next has twice its rate.

use crate::cc::media::{Cluster, Fate};
use crate::time::{Span, Time};

const FIRST: [f64; 2] = [3.0, 6.0];
const FURTHER: f64 = 2.0;
/// A result above this share of the probe's rate asks for another.
const SUCCESS: f64 = 0.7;
/// A probe has so many packets and lasts so long at least.
const LEAST_PACKETS: u32 = 5;
const LEAST_LENGTH: Span = Span::from_millis(15);
/// Part of a probe that must arrive.
const LEAST_ARRIVED: f64 = 0.8;
/// Where less than this share of the sending rate arrives, the link is full, and this part of the result is used.
const FULL: f64 = 0.9;
const TARGET: f64 = 0.95;
/// Results that take longer are not waited for.
const PATIENCE: Span = Span::from_secs(1);

/// Packets of a cluster that have arrived.
#[derive(Copy, Clone, Debug)]
struct Arrived {
    packets: u32,
    bytes: f64,
    first_sent: Time,
    last_sent: Time,
    last_sent_bytes: f64,
    first_came: Time,
    last_came: Time,
    first_came_bytes: f64,
}

/// Probing clusters. Rates are bits per second.
#[derive(Clone, Debug)]
pub struct Probes {
    /// Rates that are still to be tried, and the cluster that is on its way: number, rate, packets, since when.
    wanted: Vec<f64>,
    sent: Vec<(u16, f64, u32)>,
    last: u16,
    since: Time,
    arrived: Vec<(u16, Arrived)>,
    is_over: bool,
}

impl Probes {
    pub fn new(is_on: bool, start: f64) -> Probes {
        let wanted =
            if is_on { FIRST.iter().rev().map(|k| k * start).collect() } else { Vec::new() };
        Probes {
            wanted,
            sent: Vec::new(),
            last: 0,
            since: Time::ZERO,
            arrived: Vec::new(),
            is_over: !is_on,
        }
    }

    /// A cluster that is to be sent now.
    pub fn next(&mut self, now: Time) -> Option<Cluster> {
        let bps = self.wanted.pop()?;
        let bytes = (bps / 8.0 * LEAST_LENGTH.as_secs_f64()).ceil() as u64;
        self.last += 1;
        self.since = now;
        self.sent.push((self.last, bps, LEAST_PACKETS));
        Some(Cluster { number: self.last, bps, packets: LEAST_PACKETS, bytes })
    }

    pub fn on_arrival(&mut self, packet: &Fate) {
        let (false, Some(came)) = (self.is_over || packet.cluster == 0, packet.arrived) else {
            return;
        };
        let bytes = f64::from(packet.size);
        let found = self.arrived.iter_mut().find(|(number, _)| *number == packet.cluster);
        let Some((_, of)) = found else {
            self.arrived.push((
                packet.cluster,
                Arrived {
                    packets: 1,
                    bytes,
                    first_sent: packet.sent,
                    last_sent: packet.sent,
                    last_sent_bytes: bytes,
                    first_came: came,
                    last_came: came,
                    first_came_bytes: bytes,
                },
            ));
            return;
        };
        of.packets += 1;
        of.bytes += bytes;
        if packet.sent > of.last_sent {
            (of.last_sent, of.last_sent_bytes) = (packet.sent, bytes);
        }
        if came < of.first_came {
            (of.first_came, of.first_came_bytes) = (came, bytes);
        }
        of.last_came = of.last_came.max(came);
    }

    /// The rate that the newest complete cluster has found; `is_stopped`: delay or losses forbid further ones.
    pub fn result(&mut self, now: Time, max: f64, is_stopped: bool) -> Option<f64> {
        if self.is_over {
            return None;
        }
        let mut found = None;
        let arrived = &self.arrived;
        let mut further = None;
        self.sent.retain(|&(number, bps, packets)| {
            let of = arrived.iter().find(|(n, _)| *n == number).map(|(_, of)| of);
            let Some(rate) = of.and_then(|of| estimate(of, packets)) else { return true };
            found = Some(rate);
            further = (rate > SUCCESS * bps && bps < max).then_some(FURTHER * rate);
            false
        });
        if is_stopped {
            self.wanted.clear();
        } else if let Some(bps) = further.filter(|_| self.sent.is_empty() && self.wanted.is_empty())
        {
            self.wanted.push(bps.min(FURTHER * max));
        }
        let is_waiting = !self.sent.is_empty() && now.since(self.since) < PATIENCE;
        self.is_over = self.last > 0 && self.wanted.is_empty() && !is_waiting;
        found
    }
}

fn estimate(of: &Arrived, packets: u32) -> Option<f64> {
    if f64::from(of.packets) < LEAST_ARRIVED * f64::from(packets) {
        return None;
    }
    let (sending, coming) = (of.last_sent.since(of.first_sent), of.last_came.since(of.first_came));
    if sending == Span::ZERO || coming == Span::ZERO {
        return None;
    }
    let send_rate = (of.bytes - of.last_sent_bytes) * 8.0 / sending.as_secs_f64();
    let receive_rate = (of.bytes - of.first_came_bytes) * 8.0 / coming.as_secs_f64();
    let is_full = receive_rate < FULL * send_rate;
    Some(if is_full { TARGET * receive_rate } else { send_rate.min(receive_rate) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of 1000 bytes at the cluster's rate, through a link of `capacity`.
    fn through(cluster: Cluster, capacity: f64, from: Time) -> Vec<Fate> {
        let gap = |bps: f64| 8e12 / bps;
        let n = u64::from(cluster.packets).max(cluster.bytes.div_ceil(1000));
        (0..n)
            .map(|i| {
                let sent = from + Span((i as f64 * gap(cluster.bps)) as u64);
                let gap = gap(cluster.bps.min(capacity));
                let came = from + Span(20_000_000 + (i as f64 * gap) as u64);
                Fate { sent, arrived: Some(came), size: 1000, ce: false, cluster: cluster.number }
            })
            .collect()
    }

    fn find(capacity: f64) -> Vec<f64> {
        let mut probes = Probes::new(true, 3e5);
        let (mut found, mut now) = (Vec::new(), Time::ZERO);
        for _ in 0..20 {
            while let Some(cluster) = probes.next(now) {
                for packet in through(cluster, capacity, now) {
                    probes.on_arrival(&packet);
                }
            }
            now += Span::from_millis(100);
            found.extend(probes.result(now, 1e9, false));
        }
        assert!(probes.is_over);
        found
    }

    /// 3 and 6 times 300 kb/s; the second does not pass 1 Mb/s, of which 95 % are taken.
    #[test]
    fn a_full_link_ends_the_probes() {
        let found = find(1e6);
        assert_eq!(found.len(), 1, "both in one report");
        assert!((found[0] / 0.95e6 - 1.0).abs() < 1e-6, "{found:?}");
    }

    /// 1.8, 3.6, 7.2 and 14.4 Mb/s arrive, and of 28.8 Mb/s what the link has.
    #[test]
    fn a_probe_that_arrives_is_doubled() {
        let found = find(20e6);
        let wanted = [1.8e6, 3.6e6, 7.2e6, 14.4e6, 0.95 * 20e6];
        assert_eq!(found.len(), wanted.len(), "{found:?}");
        for (rate, wanted) in found.into_iter().zip(wanted) {
            assert!((rate / wanted - 1.0).abs() < 1e-4, "{rate}, wanted {wanted}");
        }
    }
}
