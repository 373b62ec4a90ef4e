//! A connection between hosts that offload: the sender's hands a burst to the network as one packet (TSO, GSO), the
//! receiver's takes what has come at its next interrupt, and joins segments again (GRO).

use serde::Deserialize;

use super::Tcp;
use super::own_host::{Answers, OnHost};
use super::writer::Writes;
use crate::element::{self, Answer, ArrivalChain, ArrivalList, End, Flow, Outbox, PathState};
use crate::offload;
use crate::packet::{Packet, TcpBits};
use crate::probe::{SenderState, Totals, Transfer};
use crate::time::{Span, Time};
use crate::transport::receiver::Receiver;

/// What the hosts of a connection offload; nothing by default.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Offload {
    /// Bursts of the sender cross the network as one packet.
    #[serde(skip_serializing_if = "crate::units::is_zero")]
    pub gso: bool,
    /// The receiver's host joins segments, from the first one that has come for so long (interrupt coalescing).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gro_ns: Option<u64>,
}

/// TCP that hands super-packets to its device and gets segments merged.
pub(super) struct Offloading {
    tcp: Tcp,
    gso: bool,
    /// Its first queue is in the sender's host.
    own_queue: Option<Answers>,
    device: Device,
}

/// The network device of the receiver.
struct Device {
    /// It joins segments, after this time.
    wait: Option<Span>,
    waiting: Vec<Packet>,
    interrupt: Time,
}

/// The receiver behind its device.
struct Host<'a> {
    device: &'a mut Device,
    receiver: &'a mut Receiver,
}

/// A sending end whose bursts leave as one packet each.
struct Joining<'a, E>(&'a mut E);

impl<E: End> End for Joining<'_, E> {
    fn deadline(&self) -> Time {
        self.0.deadline()
    }
    fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        let before = out.packets.len();
        self.0.on_timer(now, out);
        offload::join(&mut out.packets, before);
    }
    fn on_packet(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        let before = out.packets.len();
        self.0.on_packet(now, pkt, out);
        offload::join(&mut out.packets, before);
    }
}

impl Offloading {
    pub(super) fn new(mut tcp: Tcp, offload: Offload, on_host: bool) -> Offloading {
        if on_host {
            tcp.sender.put_on_host();
        }
        let own_queue = on_host.then(Answers::default);
        let wait = offload.gro_ns.map(Span);
        let device = Device { wait, waiting: Vec::new(), interrupt: Time::NEVER };
        Offloading { tcp, gso: offload.gso, own_queue, device }
    }
}

impl End for Host<'_> {
    fn deadline(&self) -> Time {
        self.device.interrupt.min(self.receiver.deadline())
    }
    fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        if now < self.device.interrupt {
            return self.receiver.on_timer(now, out);
        }
        self.device.interrupt = Time::NEVER;
        let waiting = std::mem::take(&mut self.device.waiting);
        let mut segments = waiting.iter().flat_map(offload::segments).peekable();
        let mut together = Vec::new();
        let mut is_pushed = false;
        while let Some(first) = segments.next() {
            let mut joined = first;
            together.clear();
            together.push(first);
            while let Some(next) = segments.next_if(|next| offload::append(&mut joined, next)) {
                together.push(next);
            }
            // The application runs, and acknowledges what was pushed, after the whole interrupt.
            let last = together.last_mut().expect("the first one");
            is_pushed |= last.bits.has(TcpBits::PSH);
            last.bits = match is_pushed && segments.peek().is_none() {
                true => last.bits.with(TcpBits::PSH),
                false => last.bits.without(TcpBits::PSH),
            };
            let acks = out.packets.len();
            self.receive(now, &mut together, out);
            is_pushed &= out.packets.len() == acks;
        }
    }
    fn on_packet(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        let Some(wait) = self.device.wait else {
            return offload::segments(pkt).for_each(|one| self.receiver.on_packet(now, &one, out));
        };
        if self.device.waiting.is_empty() {
            self.device.interrupt = now + wait;
        }
        self.device.waiting.push(*pkt);
    }
}

impl Host<'_> {
    /// Segments that were joined are acknowledged once: more than one full segment is acknowledged at once, and all have
    /// come by then (Linux `__tcp_ack_snd_check`).
    fn receive(&mut self, now: Time, together: &mut [Packet], out: &mut Outbox) {
        if let [_, .., last] = together {
            last.bits = last.bits.with(TcpBits::PSH);
        }
        let before = out.packets.len();
        let mut before_them = 0;
        for (i, pkt) in together.iter().enumerate() {
            self.receiver.on_packet(now, pkt, out);
            // An ACK of what came before, where marks begin or end.
            if i == 0 {
                before_them = (out.packets.len() - before).saturating_sub(1);
            }
        }
        let (first, last) = (before + before_them, out.packets.len());
        if together.len() < 2 || last < first + 2 {
            return;
        }
        for pkt in out.packets.drain(first..last - 1) {
            out.sacks.take(pkt.sack());
        }
    }
}

impl Flow for Offloading {
    fn run_sender(&mut self, arrivals: &mut ArrivalList, until: Time, out: &mut Outbox) -> Time {
        if !self.gso {
            return self.tcp.run_sender(arrivals, until, out);
        }
        let Tcp { sender, writer, .. } = &mut self.tcp;
        match (writer, &mut self.own_queue) {
            (None, None) => element::run(&mut Joining(sender), arrivals, until, out),
            (None, Some(own)) => element::run(&mut OnHost(sender, own), arrivals, until, out),
            (Some(writer), None) => {
                element::run(&mut Joining(&mut Writes(sender, writer)), arrivals, until, out)
            }
            (Some(writer), Some(own)) => {
                element::run(&mut OnHost(&mut Writes(sender, writer), own), arrivals, until, out)
            }
        }
    }
    fn run_receiver(&mut self, arrivals: &mut ArrivalChain, until: Time, out: &mut Outbox) -> Time {
        let mut host = Host { device: &mut self.device, receiver: &mut self.tcp.receiver };
        element::run(&mut host, arrivals, until, out)
    }
    fn starts(&self) -> (Time, Time) {
        self.tcp.starts()
    }
    fn set_path(&mut self, path: &PathState) {
        self.tcp.set_path(path);
    }
    fn on_answer(&mut self, pkt: &Packet, answer: Answer) {
        if let Some(own) = &mut self.own_queue {
            own.push(pkt, answer);
        }
    }
    fn stop(&mut self, now: Time) {
        self.tcp.stop(now);
    }
    fn set_rate(&mut self, now: Time, bps: u64) {
        self.tcp.set_rate(now, bps);
    }
    fn pause(&mut self, now: Time, is_paused: bool) {
        self.tcp.pause(now, is_paused);
    }
    fn totals(&self) -> Totals {
        self.tcp.totals()
    }
    fn senders(&self, each: &mut dyn FnMut(SenderState)) {
        self.tcp.senders(each);
    }
    fn ecn_mode(&self) -> Option<&'static str> {
        self.tcp.ecn_mode()
    }
    fn take_transfers(&mut self, into: &mut Vec<Transfer>) {
        let before = into.len();
        self.tcp.take_transfers(into);
        if self.own_queue.is_some() {
            // All of the delay is on the way back.
            let forward = self.tcp.path.forward;
            for transfer in &mut into[before..] {
                transfer.completion += forward;
                transfer.response = transfer.response.map(|response| response + forward);
            }
        }
    }
    fn unfinished(&self, since: Time) -> u64 {
        self.tcp.unfinished(since)
    }
}
