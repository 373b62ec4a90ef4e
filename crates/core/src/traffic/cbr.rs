//! Constant bit rate over UDP, unresponsive, with any ECN codepoint.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{Demand, Place, Traffic, WireKind};
use crate::ecn::Ecn;
use crate::element::{self, ArrivalChain, ArrivalList, End, Flow, Outbox};
use crate::error::ScenarioError;
use crate::packet::{Flags, Packet, UDP_IP_HEADERS};
use crate::probe::Totals;
use crate::time::{Span, Time};
use crate::units::{ETHERNET_HEADER, MTU_FRAME};

/// A source that sends `batch` frames at once, evenly spaced in time.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Of frames.
    rate_bps: u64,
    #[serde(default)]
    ecn: Ecn,
    #[serde(default = "full_frame")]
    packet_bytes: u32,
    #[serde(default = "one")]
    batch: u32,
}

fn full_frame() -> u32 {
    MTU_FRAME
}
fn one() -> u32 {
    1
}

impl Traffic for Spec {
    fn check(&self) -> Result<(), ScenarioError> {
        let wrong = |what: &str| Err(ScenarioError(what.to_owned()));
        if self.rate_bps == 0 {
            return wrong("a cbr flow needs a rate above 0");
        }
        if !(64..=9014).contains(&self.packet_bytes) {
            return wrong("packet must be between 64B and 9014B");
        }
        if self.batch == 0 {
            return wrong("batch must be at least 1");
        }
        Ok(())
    }
    fn sender_name(&self) -> &str {
        "cbr"
    }
    fn wire(&self) -> Option<WireKind> {
        Some(WireKind::Udp)
    }
    fn is_answered(&self) -> bool {
        false
    }
    fn has_rate(&self) -> bool {
        true
    }
    fn demand(&self) -> Demand {
        Demand {
            frame: self.packet_bytes,
            rate_bps: Some(self.rate_bps as f64),
            burst: f64::from(self.batch),
            is_answered: false,
            state: 500.0,
            ..Demand::GREEDY
        }
    }
    fn build(&self, place: &Place) -> Box<dyn Flow> {
        let mut packet =
            Packet::new(place.number, place.group, Flags::UDP, self.packet_bytes, self.ecn);
        packet.payload =
            (self.packet_bytes.saturating_sub(UDP_IP_HEADERS + ETHERNET_HEADER)) as u16;
        packet.dscp = place.dscp;
        let mut source = Source {
            packet,
            batch: self.batch,
            interval: Span::ZERO,
            rate_bps: self.rate_bps,
            odd: 0,
            next: place.start,
            remainder: 0,
            stop: place.stop,
        };
        source.set_rate(self.rate_bps);
        Box::new(Cbr { source, sink: Sink::default() })
    }
}

/// A source and what receives it.
struct Cbr {
    source: Source,
    sink: Sink,
}

struct Source {
    /// What it sends, but for its number and time.
    packet: Packet,
    batch: u32,
    /// Between two batches, and what is left of the division.
    interval: Span,
    rate_bps: u64,
    odd: u64,
    next: Time,
    /// Remainder of the divisions so far: the rate is exact in the long run.
    remainder: u64,
    stop: Time,
}

impl Source {
    fn set_rate(&mut self, bps: u64) {
        let bits = u64::from(self.packet.frame_len) * u64::from(self.batch) * 8_000_000_000;
        (self.interval, self.odd) = (Span(bits / bps), bits % bps);
        (self.rate_bps, self.remainder) = (bps, 0);
    }
    /// What is left of the wait for the next batch lasts as much longer or shorter as that of a whole one.
    fn change_rate(&mut self, now: Time, bps: u64) {
        if self.next > now && self.next < Time::NEVER {
            let left = u128::from(self.next.since(now).0) * u128::from(self.rate_bps);
            self.next = now + Span((left / u128::from(bps)) as u64);
        }
        self.set_rate(bps);
    }
}

#[derive(Default)]
struct Sink {
    received_bytes: u64,
    copies: Copies,
}

/// Datagrams that the network has copied, of late, and that have come at least once: by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies(BTreeSet<u32>);

impl Copies {
    /// Longer ago than any network holds a packet.
    const REMEMBERED: usize = 1 << 16;

    /// Whether it comes for the first time.
    #[inline(always)]
    pub fn is_new(&mut self, pkt: &Packet) -> bool {
        !pkt.flags.has(Flags::COPIED) || self.is_first(pkt.seq)
    }
    #[cold]
    fn is_first(&mut self, number: u32) -> bool {
        if self.0.len() >= Copies::REMEMBERED {
            self.0.pop_first();
        }
        self.0.insert(number)
    }
}

impl End for Source {
    #[inline(always)]
    fn deadline(&self) -> Time {
        self.next
    }
    #[inline(always)]
    fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        if now >= self.stop {
            self.next = Time::NEVER;
            return;
        }
        self.packet.stamp = now;
        for _ in 0..self.batch {
            out.push(self.packet);
            self.packet.seq = self.packet.seq.wrapping_add(1);
        }
        self.next = now + self.interval;
        self.remainder += self.odd;
        if self.remainder >= self.rate_bps {
            self.remainder -= self.rate_bps;
            self.next += Span(1);
        }
    }
    fn on_packet(&mut self, _now: Time, _pkt: &Packet, _out: &mut Outbox) {}
}

impl End for Sink {
    #[inline(always)]
    fn deadline(&self) -> Time {
        Time::NEVER
    }
    fn on_timer(&mut self, _now: Time, _out: &mut Outbox) {}
    #[inline(always)]
    fn on_packet(&mut self, _now: Time, pkt: &Packet, _out: &mut Outbox) {
        if self.copies.is_new(pkt) {
            self.received_bytes += u64::from(pkt.payload);
        }
    }
}

impl Flow for Cbr {
    fn run_sender(&mut self, arrivals: &mut ArrivalList, until: Time, out: &mut Outbox) -> Time {
        element::run(&mut self.source, arrivals, until, out)
    }
    fn run_receiver(&mut self, arrivals: &mut ArrivalChain, until: Time, out: &mut Outbox) -> Time {
        element::run(&mut self.sink, arrivals, until, out)
    }
    fn starts(&self) -> (Time, Time) {
        (self.source.next, Time::NEVER)
    }
    fn stop(&mut self, now: Time) {
        self.source.stop = now;
    }
    fn set_rate(&mut self, now: Time, bps: u64) {
        self.source.change_rate(now, bps);
    }
    fn totals(&self) -> Totals {
        Totals { received_bytes: self.sink.received_bytes, retransmitted: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_exact_in_the_long_run() {
        let spec = Spec { rate_bps: 70_000_003, ecn: Ecn::NotEct, packet_bytes: 1514, batch: 1 };
        let mut cbr = spec.build(&Place::first());
        let mut out = Outbox::default();
        cbr.run_sender(&mut ArrivalList::new(&[], 0), Time(10_000_000_000), &mut out);
        let bits = out.packets.len() as f64 * 1514.0 * 8.0;
        assert!((bits / 10.0 - 70_000_003.0).abs() < 1514.0 * 8.0 / 10.0);
    }
}
