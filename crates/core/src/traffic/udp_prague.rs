//! UDP Prague (`L4STeam/udp_prague`): Prague over UDP, for bulk data. The receiver answers each packet
//! with the totals of what it received, what was marked and what is missing, and with the packet's
//! timestamp. Where it sees a codepoint other than ECT(1) and CE it tells so, and the sender goes on
//! with Not-ECT.

use serde::Deserialize;

use super::cbr::Copies;
use super::{Demand, Place, Traffic, WireKind};
use crate::cc::udp_prague::{Feedback, Law, MIN_PACKET};
use crate::ecn::Ecn;
use crate::element::{self, ArrivalChain, ArrivalList, End, Flow, Outbox};
use crate::error::ScenarioError;
use crate::packet::{EcnBytes, Flags, FlowId, GroupId, Packet, UDP_IP_HEADERS};
use crate::params::{Gauge, gauge};
use crate::probe::{SenderState, Totals};
use crate::time::{Span, Time};
use crate::units::ETHERNET_HEADER;

/// Headers of a packet.
const OVERHEAD: u32 = UDP_IP_HEADERS + ETHERNET_HEADER;
/// The largest packet: 1400 bytes of payload.
const FRAME: u32 = 1400 + OVERHEAD;
const SMALLEST_FRAME: u32 = MIN_PACKET as u32 + OVERHEAD;
/// Two timestamps, three totals and a flag.
const FEEDBACK_FRAME: u32 = 21 + OVERHEAD;
/// A window that stays full so long is given up.
const TIMEOUT: Span = Span::from_secs(1);

/// What it tells of itself.
const GAUGES: &[Gauge] = &[
    gauge("alpha", "", "estimate of the fraction of marks"),
    gauge("packet_bytes", "B", "size of a packet"),
];

/// A flow of UDP Prague.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Of the largest packets' frames.
    #[serde(default = "full_frame")]
    packet_bytes: u32,
    /// Cap on the rate of frames.
    pace_bps: Option<u64>,
}

fn full_frame() -> u32 {
    FRAME
}

impl Traffic for Spec {
    fn check(&self) -> Result<(), ScenarioError> {
        if !(SMALLEST_FRAME..=9014).contains(&self.packet_bytes) {
            return Err(ScenarioError(format!(
                "packet must be between {SMALLEST_FRAME}B and 9014B: packets shrink from there"
            )));
        }
        Ok(())
    }
    fn sender_name(&self) -> &str {
        "udp-prague"
    }
    fn wire(&self) -> Option<WireKind> {
        Some(WireKind::Udp)
    }
    fn is_bulk(&self) -> bool {
        true
    }
    fn gauges(&self) -> Vec<Gauge> {
        GAUGES.to_vec()
    }
    fn demand(&self) -> Demand {
        let rate_bps = self.pace_bps.map(|bps| bps as f64);
        Demand { frame: self.packet_bytes, rate_bps, state: 8000.0, ..Demand::GREEDY }
    }
    fn build(&self, place: &Place) -> Box<dyn Flow> {
        let sender = Sender::new(self, place);
        let receiver = Receiver { flow: place.number, group: place.group, ..Receiver::default() };
        Box::new(UdpPrague { sender, receiver })
    }
}

/// A sender and its receiver.
struct UdpPrague {
    sender: Sender,
    receiver: Receiver,
}

#[derive(Clone, Debug)]
struct Sender {
    flow: FlowId,
    group: GroupId,
    dscp: u8,
    law: Law,
    codepoint: Ecn,
    /// It has started.
    active: bool,
    stop: Time,
    sent: u32,
    in_flight: u64,
    next_send: Time,
    deadline: Time,
}

#[derive(Clone, Debug, Default)]
struct Receiver {
    flow: FlowId,
    group: GroupId,
    totals: Feedback,
    bleached: bool,
    received_bytes: u64,
    copies: Copies,
}

impl Sender {
    fn new(spec: &Spec, place: &Place) -> Sender {
        let payload = u64::from(spec.packet_bytes - OVERHEAD);
        let max_rate = match spec.pace_bps {
            Some(bps) => (bps / 8).saturating_mul(payload) / u64::from(spec.packet_bytes),
            None => u64::MAX >> 24,
        };
        Sender {
            flow: place.number,
            group: place.group,
            dscp: place.dscp,
            law: Law::new(payload, max_rate, Time::ZERO),
            codepoint: Ecn::Ect1,
            active: false,
            stop: place.stop,
            sent: 0,
            in_flight: 0,
            next_send: Time::NEVER,
            deadline: place.start,
        }
    }

    fn send(&mut self, now: Time, out: &mut Outbox) {
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
            p.dscp = self.dscp;
            p.seq = self.sent;
            p.stamp = now;
            out.push(p);
            self.in_flight += 1;
            n += 1;
        }
        if n > 0 {
            let bytes = n * self.law.packet();
            self.next_send = now + Span(bytes * 1_000_000_000 / self.law.pacing_rate(now).max(1));
        }
        let full = self.in_flight >= self.law.packet_window();
        self.deadline = if full { now + TIMEOUT } else { self.next_send }.min(self.stop);
    }

    /// It sends nothing any more.
    fn has_stopped(&mut self, now: Time) -> bool {
        if now >= self.stop {
            self.active = false;
            self.deadline = Time::NEVER;
        }
        now >= self.stop
    }
}

impl End for Sender {
    fn deadline(&self) -> Time {
        self.deadline
    }
    fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        if self.has_stopped(now) {
            return;
        }
        if !self.active {
            self.active = true;
            self.law.start(now);
            self.next_send = now;
        } else if self.in_flight >= self.law.packet_window() {
            // What is in flight may be lost without a trace, and would fill the window for ever.
            self.law.restart(now);
            self.in_flight = 0;
        }
        self.send(now, out);
    }
    /// Feedback.
    fn on_packet(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        let EcnBytes { ce, ect0: lost, ect1: bleached } = pkt.ecn_bytes;
        let feedback = Feedback { received: pkt.seq, ce, lost };
        if self.law.on_feedback(now, now.since(pkt.stamp), feedback, self.sent) {
            self.in_flight = u64::from(self.sent.saturating_sub(feedback.received + feedback.lost));
        }
        if bleached > 0 {
            self.codepoint = Ecn::NotEct;
        }
        if !self.has_stopped(now) {
            self.send(now, out);
        }
    }
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
        self.bleached |= !matches!(pkt.ecn.get(), Ecn::Ce | Ecn::Ect1);
        if self.copies.is_new(pkt) {
            self.received_bytes += u64::from(pkt.payload);
        }
    }
}

impl End for Receiver {
    fn deadline(&self) -> Time {
        Time::NEVER
    }
    fn on_timer(&mut self, _now: Time, _out: &mut Outbox) {}
    fn on_packet(&mut self, _now: Time, pkt: &Packet, out: &mut Outbox) {
        self.count(pkt);
        let Feedback { received, ce, lost } = self.totals;
        let mut p = Packet::new(self.flow, self.group, Flags::ACK, FEEDBACK_FRAME, Ecn::Ect1);
        p.payload = (FEEDBACK_FRAME - OVERHEAD) as u16;
        p.stamp = pkt.stamp;
        p.seq = received;
        // The totals travel where an AccECN option has its counters.
        p.ecn_bytes = EcnBytes { ce, ect0: lost, ect1: u32::from(self.bleached) };
        out.push(p);
    }
}

impl Flow for UdpPrague {
    fn run_sender(&mut self, arrivals: &mut ArrivalList, until: Time, out: &mut Outbox) -> Time {
        element::run(&mut self.sender, arrivals, until, out)
    }
    fn run_receiver(&mut self, arrivals: &mut ArrivalChain, until: Time, out: &mut Outbox) -> Time {
        element::run(&mut self.receiver, arrivals, until, out)
    }
    fn starts(&self) -> (Time, Time) {
        (self.sender.deadline, Time::NEVER)
    }
    fn stop(&mut self, now: Time) {
        self.sender.stop = now;
        self.sender.deadline = self.sender.deadline.min(now);
    }
    fn totals(&self) -> Totals {
        Totals { received_bytes: self.receiver.received_bytes, retransmitted: 0 }
    }
    fn senders(&self, each: &mut dyn FnMut(SenderState)) {
        let law = &self.sender.law;
        if self.sender.active && law.srtt() > Span::ZERO {
            each(SenderState {
                cwnd: law.packet_window() as u32,
                srtt: law.srtt(),
                state: None,
                controller: Some(&|out| {
                    out.gauge("alpha", law.alpha());
                    out.gauge("packet_bytes", law.packet() as f64);
                }),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrive(r: &mut Receiver, seq: u32, ecn: Ecn) -> (u32, u32, u32, bool) {
        let mut p = Packet::new(0, GroupId::default(), Flags::UDP, FRAME, ecn);
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
        let spec = Spec { packet_bytes: FRAME, pace_bps: None };
        let mut s = Sender::new(&spec, &Place::first());
        let mut out = Outbox::default();
        s.on_timer(s.deadline(), &mut out);
        assert_eq!((out.packets.len(), s.deadline()), (1, Time(156 * 1_000_000_000 / 12_875)));
        while s.in_flight < s.law.packet_window() {
            s.on_timer(s.deadline(), &mut out);
        }
        // Ten full packets in small ones, and 3 % more.
        assert_eq!(out.packets.len(), 14_420 / 156 + 1);
        let (last, silent) = (out.packets[out.packets.len() - 1].stamp, s.deadline());
        assert_eq!(silent, last + TIMEOUT);
        s.on_timer(silent, &mut out);
        assert_eq!((out.packets[out.packets.len() - 1].stamp, s.in_flight), (silent, 1));
    }
}
