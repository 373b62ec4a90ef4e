//! UDP Prague (`L4STeam/udp_prague`): Prague over UDP, for bulk data. The receiver answers each packet
//! with the totals of what it received, what was marked and what is missing, and with the packet's
//! timestamp. Where it sees a codepoint other than ECT(1) and CE it tells so, and the sender goes on
//! with Not-ECT.

mod law;

pub use law::MIN_PACKET;
use law::{Law, Totals};

use crate::aqm::Gauges;
use crate::ecn::Ecn;
use crate::packet::{EcnBytes, Flags, FlowId, GroupId, Outbox, Packet, UDP_IP_HEADERS};
use crate::params::{Gauge, gauge};
use crate::time::{Span, Time};
use crate::units::ETHERNET_HEADER;

/// Headers of a packet.
pub const OVERHEAD: u32 = UDP_IP_HEADERS + ETHERNET_HEADER;
/// The largest packet: 1400 bytes of payload.
/// What it tells of itself.
pub const GAUGES: &[Gauge] = &[
    gauge("alpha", "", "estimate of the fraction of marks"),
    gauge("packet_bytes", "B", "size of a packet"),
];

pub const FRAME: u32 = 1400 + OVERHEAD;
/// Two timestamps, three totals and a flag.
const FEEDBACK_FRAME: u32 = 21 + OVERHEAD;
/// A window that stays full so long is given up.
const TIMEOUT: Span = Span::from_secs(1);

/// A sender and its receiver.
#[derive(Clone, Debug)]
pub struct UdpPrague {
    flow: FlowId,
    group: GroupId,
    law: Law,
    codepoint: Ecn,
    active: bool,
    sent: u32,
    in_flight: u64,
    next_send: Time,
    deadline: Time,
    receiver: Receiver,
}

#[derive(Clone, Debug, Default)]
struct Receiver {
    totals: Totals,
    bleached: bool,
}

impl Receiver {
    fn count(&mut self, pkt: &Packet) {
        let t = &mut self.totals;
        t.received += 1;
        match pkt.seq.checked_sub(t.received + t.lost) {
            Some(skipped) => t.lost += skipped,
            None => t.lost = t.lost.saturating_sub(1),
        }
        t.ce += u32::from(pkt.ecn == Ecn::Ce);
        self.bleached |= !matches!(pkt.ecn, Ecn::Ce | Ecn::Ect1);
    }
}

impl UdpPrague {
    /// `frame_len`: of the largest packets; `pace_bps`: cap on the rate of frames.
    pub fn new(flow: FlowId, group: GroupId, frame_len: u32, pace_bps: Option<u64>) -> UdpPrague {
        let payload = u64::from(frame_len - OVERHEAD);
        let max_rate = match pace_bps {
            Some(bps) => (bps / 8).saturating_mul(payload) / u64::from(frame_len),
            None => u64::MAX >> 24,
        };
        UdpPrague {
            flow,
            group,
            law: Law::new(payload, max_rate, Time::ZERO),
            codepoint: Ecn::Ect1,
            active: false,
            sent: 0,
            in_flight: 0,
            next_send: Time::NEVER,
            deadline: Time::NEVER,
            receiver: Receiver::default(),
        }
    }
    pub fn group(&self) -> GroupId {
        self.group
    }
    pub fn deadline(&self) -> Time {
        self.deadline
    }
    /// It sends, and knows its RTT.
    pub fn is_active(&self) -> bool {
        self.active && self.law.srtt() > Span::ZERO
    }
    /// Packets that may be in flight.
    pub fn window(&self) -> u32 {
        self.law.packet_window() as u32
    }
    pub fn srtt(&self) -> Span {
        self.law.srtt()
    }
    /// See [`GAUGES`].
    pub fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("alpha", self.law.alpha());
        out.gauge("packet_bytes", self.law.packet() as f64);
    }

    pub fn start(&mut self, now: Time, out: &mut Outbox) {
        self.active = true;
        self.law.start(now);
        self.next_send = now;
        self.send(now, out);
    }
    pub fn stop(&mut self) {
        self.active = false;
        self.deadline = Time::NEVER;
    }

    pub fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        if now < self.deadline {
            return;
        }
        // What is in flight may be lost without a trace, and would fill the window for ever.
        if self.in_flight >= self.law.packet_window() {
            self.law.restart(now);
            self.in_flight = 0;
        }
        self.send(now, out);
    }

    fn send(&mut self, now: Time, out: &mut Outbox) {
        if !self.active {
            return;
        }
        let mut n = 0;
        while self.next_send <= now
            && n < self.law.burst()
            && self.in_flight < self.law.packet_window()
        {
            let payload = self.law.packet();
            let len = payload as u32 + OVERHEAD;
            let mut p = Packet::new(self.flow, self.group, Flags::UDP, len, self.codepoint);
            self.sent = self.sent.wrapping_add(1);
            p.payload = payload as u16;
            p.seq = self.sent;
            p.stamp = now;
            out.push_back(p);
            self.in_flight += 1;
            n += 1;
        }
        if n > 0 {
            let bytes = n * self.law.packet();
            self.next_send = now + Span(bytes * 1_000_000_000 / self.law.pacing_rate(now).max(1));
        }
        let full = self.in_flight >= self.law.packet_window();
        self.deadline = if full { now + TIMEOUT } else { self.next_send };
    }

    /// The receiver's side.
    pub fn on_data(&mut self, pkt: &Packet, out: &mut Outbox) {
        self.receiver.count(pkt);
        let Totals { received, ce, lost } = self.receiver.totals;
        let mut p = Packet::new(self.flow, self.group, Flags::ACK, FEEDBACK_FRAME, Ecn::Ect1);
        p.payload = (FEEDBACK_FRAME - OVERHEAD) as u16;
        p.stamp = pkt.stamp;
        p.seq = received;
        // The totals travel where an AccECN option has its counters.
        p.ecn_bytes = EcnBytes { ce, ect0: lost, ect1: u32::from(self.receiver.bleached) };
        out.push_back(p);
    }

    pub fn on_feedback(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        let EcnBytes { ce, ect0: lost, ect1: bleached } = pkt.ecn_bytes;
        let told = Totals { received: pkt.seq, ce, lost };
        if self.law.on_feedback(now, now.since(pkt.stamp), told, self.sent) {
            self.in_flight = u64::from(self.sent.saturating_sub(told.received + told.lost));
        }
        if bleached > 0 {
            self.codepoint = Ecn::NotEct;
        }
        self.send(now, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrive(r: &mut Receiver, seq: u32, ecn: Ecn) -> (u32, u32, u32, bool) {
        let mut p = Packet::new(0, 0, Flags::UDP, FRAME, ecn);
        p.seq = seq;
        r.count(&p);
        (r.totals.received, r.totals.ce, r.totals.lost, r.bleached)
    }

    #[test]
    fn the_receiver_counts_gaps_and_takes_them_back() {
        let mut r = Receiver::default();
        assert_eq!(arrive(&mut r, 1, Ecn::Ect1), (1, 0, 0, false));
        assert_eq!(arrive(&mut r, 4, Ecn::Ce), (2, 1, 2, false));
        assert_eq!(arrive(&mut r, 3, Ecn::Ect1), (3, 1, 1, false));
        assert_eq!(arrive(&mut r, 5, Ecn::Ect1), (4, 1, 1, false));
        assert_eq!(arrive(&mut r, 6, Ecn::NotEct), (5, 1, 1, true));
        assert_eq!(arrive(&mut r, 7, Ecn::Ect1), (6, 1, 1, true));
    }

    /// At 100 kbit/s 156-byte packets leave every 12.1 ms; a full window is given up after a second.
    #[test]
    fn it_starts_slowly_and_gives_up_a_silent_window() {
        let mut s = UdpPrague::new(0, 0, FRAME, None);
        let mut out = Outbox::new();
        s.start(Time::ZERO, &mut out);
        assert_eq!((out.len(), s.deadline()), (1, Time(156 * 1_000_000_000 / 12_875)));
        while s.in_flight < s.law.packet_window() {
            s.on_timer(s.deadline(), &mut out);
        }
        // Ten full packets in small ones, and 3 % more.
        assert_eq!(out.len(), 14_420 / 156 + 1);
        let (last, silent) = (out[out.len() - 1].stamp, s.deadline());
        assert_eq!(silent, last + TIMEOUT);
        s.on_timer(silent, &mut out);
        assert_eq!((out[out.len() - 1].stamp, s.in_flight), (silent, 1));
    }
}
