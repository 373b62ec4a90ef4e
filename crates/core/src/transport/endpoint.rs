//! One host's end of a connection on its own: what arrives, what its application does and what time it is come from
//! outside. It is the [`Sender`] and the [`Receiver`] of a run, side by side: data acknowledge what has come, and
//! what comes with data acknowledges. Segments are numbered in both directions, as in a run.

use super::ecn::EcnMode;
use super::receiver::{Echo, Fields, Receiver};
use super::sender::{Sender, SenderConfig};
use crate::cc::registry::Cc;
use crate::ecn::Ecn;
use crate::element::{End, Outbox};
use crate::packet::{ACK_FRAME, EcnBytes, Flags, Packet, Stamp, TcpBits};
use crate::sack::{Block, Blocks};
use crate::time::{Span, Time};

/// What arrives from the peer.
#[derive(Clone, Debug, Default)]
pub struct Arrival {
    pub is_syn: bool,
    pub is_fin: bool,
    pub is_pushed: bool,
    /// The ACE field, or ECE and CWR.
    pub bits: TcpBits,
    pub field: Ecn,
    /// The next segment that the peer expects.
    pub ack: Option<u32>,
    /// The window that it offers, bytes.
    pub window: u64,
    /// Number and payload of a segment of data.
    pub data: Option<(u32, u16)>,
    /// The peer's clock, and what it echoes of this host's; the latter is now without the option.
    pub tsval: Time,
    pub echo: Option<Time>,
    pub blocks: Vec<Block>,
    pub is_dsack: bool,
    pub option: Option<EcnBytes>,
}

/// What the host sends.
#[derive(Clone, Debug)]
pub struct Sent {
    pub at: Time,
    pub packet: Packet,
    pub blocks: Blocks,
    /// The next segment of data that it will send, and the next that it expects.
    pub next: u32,
    pub ack: u32,
    /// Clocks: its own, and the peer's as echoed.
    pub tsval: Stamp,
    pub echo: Stamp,
}

/// A host's end of a connection.
pub struct Endpoint {
    pub sender: Sender,
    pub receiver: Receiver,
    out: Outbox,
    sent: Vec<Sent>,
    /// When its SYN or SYN/ACK left.
    opened_at: Time,
}

impl Endpoint {
    pub fn new(config: SenderConfig, cc: Cc) -> Endpoint {
        let wish = cc.constants().ecn;
        let acks = if wish == crate::cc::EcnWish::Ect1AccEcn { Ecn::Ect1 } else { Ecn::Ect0 };
        let fields = Fields { acks, handshake: wish.handshake_field() };
        let echo = if wish == crate::cc::EcnWish::Ect0Runs { Echo::Runs } else { Echo::UntilCwr };
        let receiver = Receiver::new(config.flow, config.group, config.ecn, fields, echo);
        Endpoint {
            sender: Sender::new(config, cc),
            receiver,
            out: Outbox::default(),
            sent: Vec::new(),
            opened_at: Time::ZERO,
        }
    }

    /// When something is to happen without anybody.
    pub fn deadline(&self) -> Time {
        self.sender.deadline().min(self.receiver.deadline())
    }

    /// Lets time pass up to `until`, exclusively.
    pub fn run(&mut self, until: Time) {
        loop {
            let now = self.deadline();
            if now >= until {
                return;
            }
            self.out.set_clock(now);
            if self.sender.deadline() <= now {
                self.sender.on_timer(now, &mut self.out);
            } else {
                self.receiver.on_timer(now, &mut self.out);
            }
            self.collect(now);
        }
    }

    /// Opens the connection, or waits for a peer that does.
    pub fn start(&mut self, now: Time, is_client: bool) {
        if is_client {
            self.sender.start_at(now);
            self.run(now + Span(1));
        } else {
            self.sender.listen(now);
        }
    }

    /// The application writes so many bytes.
    pub fn write(&mut self, now: Time, bytes: u64) {
        self.act(now, |end, out| end.write(now, bytes, out));
    }

    /// The application sends nothing more.
    pub fn finish(&mut self, now: Time) {
        self.act(now, |end, out| end.finish(now, out));
    }

    fn act(&mut self, now: Time, what: impl FnOnce(&mut Sender, &mut Outbox)) {
        self.run(now);
        self.out.set_clock(now);
        what(&mut self.sender, &mut self.out);
        self.collect(now);
    }

    /// A packet arrives.
    pub fn arrive(&mut self, now: Time, arrival: &Arrival) {
        self.run(now);
        self.out.set_clock(now);
        let was_established = self.sender.is_established();
        if arrival.is_syn || arrival.ack.is_some() {
            self.sender.offer_window(arrival.window);
            let ack = self.ack_of(now, arrival);
            self.sender.on_packet(now, &ack, &mut self.out);
        }
        if self.sender.is_established() && !was_established {
            self.receiver.open(self.sender.mode(), now.since(self.opened_at));
        }
        match arrival.data {
            _ if !self.sender.is_established() || arrival.is_syn => {
                self.receiver.note_clock(arrival.tsval);
            }
            Some((seq, payload)) => {
                let mut p = self.packet(Flags::DATA, arrival);
                if arrival.is_fin {
                    p.flags = p.flags.with(Flags::FIN);
                }
                if arrival.is_pushed {
                    p.bits = p.bits.with(TcpBits::PSH);
                }
                (p.seq, p.payload, p.stamp) = (seq, payload, arrival.tsval);
                p.tsval = Stamp::of(arrival.echo.unwrap_or(now));
                self.receiver.on_packet(now, &p, &mut self.out);
            }
            None => {
                self.receiver.note_clock(arrival.tsval);
                self.receiver.count_ack(arrival.field);
            }
        }
        self.collect(now);
    }

    fn packet(&self, flags: Flags, arrival: &Arrival) -> Packet {
        let (flow, group) = (self.sender.flow(), self.sender.group());
        let mut p = Packet::new(flow, group, flags, ACK_FRAME, arrival.field);
        p.bits = arrival.bits;
        p
    }

    /// What of a packet is for the sending end.
    fn ack_of(&mut self, now: Time, arrival: &Arrival) -> Packet {
        let flags = if arrival.is_syn { Flags::SYN } else { Flags::ACK };
        let mut p = self.packet(flags, arrival);
        p.seq = arrival.ack.unwrap_or(0);
        p.stamp = match arrival.echo {
            Some(echo) if self.sender.is_established() => echo,
            _ if self.sender.is_established() => now,
            // Both sides know when they sent what opens the connection.
            _ => self.opened_at,
        };
        p.tsval = Stamp::of(arrival.tsval);
        if let Some(option) = arrival.option {
            p.ecn_bytes = option;
            p.flags = p.flags.with(Flags::ACCECN_OPTION);
        }
        if !arrival.blocks.is_empty() {
            let (slot, blocks) = self.out.sacks.place();
            for &block in &arrival.blocks {
                blocks.push(block);
            }
            p.set_sack(slot);
            if arrival.is_dsack {
                p.flags = p.flags.with(Flags::DSACK);
            }
        }
        p
    }

    /// Takes what the ends have sent. Data acknowledge, so that no ACK follows them.
    fn collect(&mut self, now: Time) {
        let packets = std::mem::take(&mut self.out.packets);
        let has_data = packets.iter().any(|p| p.flags.has(Flags::DATA));
        for mut packet in packets {
            let blocks = self.out.sacks.take(packet.sack());
            let is_ack = packet.flags.has(Flags::ACK);
            if has_data && is_ack {
                continue;
            }
            let (mut tsval, mut echo) = (packet.tsval, Stamp::of(packet.stamp));
            if !is_ack {
                (tsval, echo) = (Stamp::of(now), Stamp::of(self.receiver.clock()));
            }
            if packet.flags.has(Flags::SYN) {
                self.opened_at = now;
            } else if packet.flags.has(Flags::DATA) {
                self.receiver.acknowledge_with(&mut packet, &mut self.out);
            }
            let (next, ack) = (self.sender.next(), self.receiver.next());
            self.sent.push(Sent { at: now, packet, blocks, next, ack, tsval, echo });
        }
    }

    /// What was sent since the last call.
    pub fn take_sent(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.sent)
    }

    pub fn mode(&self) -> EcnMode {
        self.sender.mode()
    }
}
