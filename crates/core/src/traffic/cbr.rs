//! Constant bit rate over UDP, unresponsive, with any ECN codepoint.

use crate::ecn::Ecn;
use crate::packet::{Flags, FlowId, GroupId, Outbox, Packet, UDP_IP_HEADERS};
use crate::time::{Span, Time};
use crate::units::{ETHERNET_HEADER, Rate};

/// A source that sends `batch` frames at once, evenly spaced in time.
#[derive(Clone, Debug)]
pub struct Cbr {
    flow: FlowId,
    group: GroupId,
    rate: Rate,
    frame_len: u32,
    batch: u32,
    ecn: Ecn,
    next: Time,
    /// Remainder of the divisions so far: the rate is exact in the long run.
    remainder: u64,
    stop: Time,
    sequence: u32,
}

impl Cbr {
    pub fn new(
        flow: FlowId,
        group: GroupId,
        rate: Rate,
        frame_len: u32,
        batch: u32,
        ecn: Ecn,
    ) -> Cbr {
        Cbr {
            flow,
            group,
            rate,
            frame_len,
            batch,
            ecn,
            next: Time::NEVER,
            remainder: 0,
            stop: Time::NEVER,
            sequence: 0,
        }
    }

    pub fn start(&mut self, now: Time, out: &mut Outbox) {
        self.next = now;
        self.on_timer(now, out);
    }
    pub fn stop(&mut self, now: Time) {
        self.stop = now;
        self.next = Time::NEVER;
    }
    pub fn group(&self) -> GroupId {
        self.group
    }
    pub fn deadline(&self) -> Time {
        self.next
    }

    pub fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        if now < self.next || now >= self.stop {
            return;
        }
        for _ in 0..self.batch {
            let mut p = Packet::new(self.flow, self.group, Flags::UDP, self.frame_len, self.ecn);
            p.payload = self.frame_len.saturating_sub(UDP_IP_HEADERS + ETHERNET_HEADER) as u16;
            p.seq = self.sequence;
            p.stamp = now;
            self.sequence = self.sequence.wrapping_add(1);
            out.push_back(p);
        }
        let bits = u64::from(self.frame_len) * u64::from(self.batch) * 8_000_000_000;
        let (bits, rate) = (bits + self.remainder, self.rate.bps());
        self.next = now + Span(bits / rate);
        self.remainder = bits % rate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_exact_in_the_long_run() {
        let rate = Rate::from_bps(70_000_003);
        let mut c = Cbr::new(0, 0, rate, 1514, 1, Ecn::NotEct);
        let mut out = Outbox::new();
        c.start(Time::ZERO, &mut out);
        while c.deadline() < Time(10_000_000_000) {
            c.on_timer(c.deadline(), &mut out);
        }
        let bits = out.len() as f64 * 1514.0 * 8.0;
        assert!((bits / 10.0 - 70_000_003.0).abs() < 1514.0 * 8.0 / 10.0);
    }
}
