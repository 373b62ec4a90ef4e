//! One host's end of a connection on its own: what arrives, what its application does and what time it is come from
//! outside. It is the [`Sender`] and the [`Receiver`] of a run, side by side: data acknowledge what has come, and
//! what comes with data acknowledges. Segments are numbered in both directions, as in a run.

mod accecn;

use self::accecn::Watch;
use super::ecn::EcnMode;
use super::receiver::{Echo, Fields, Receiver};
use super::sender::{Sender, SenderConfig};
use crate::cc::registry::Cc;
use crate::ecn::Ecn;
use crate::element::{End, Outbox};
use crate::packet::{ACK_FRAME, EcnBytes, Flags, Packet, SYN_FRAME, Stamp, TcpBits};
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
    /// The AccECN option.
    pub option: Option<EcnBytes>,
}

/// A host's end of a connection.
pub struct Endpoint {
    pub sender: Sender,
    pub receiver: Receiver,
    out: Outbox,
    sent: Vec<Sent>,
    /// When its SYN or SYN/ACK left.
    opened_at: Time,
    watch: Watch,
    timestamps: bool,
    /// Of its SYN or SYN/ACK.
    handshake: Ecn,
    busy: Stopwatch,
    window_limited: Stopwatch,
}

/// For how long something has been so.
#[derive(Copy, Clone, Debug, Default)]
struct Stopwatch {
    since: Option<Time>,
    total: Span,
}

impl Stopwatch {
    fn set(&mut self, now: Time, is_so: bool) {
        self.total = self.read(now);
        self.since = is_so.then_some(now);
    }
    fn read(&self, now: Time) -> Span {
        self.since.map_or(self.total, |since| self.total + now.since(since))
    }
}

impl Endpoint {
    /// `option`: `tcp_ecn_option`.
    pub fn new(config: SenderConfig, cc: Cc, option: u8) -> Endpoint {
        let wish = cc.constants().ecn;
        let acks = if wish == crate::cc::EcnWish::Ect1AccEcn { Ecn::Ect1 } else { Ecn::Ect0 };
        let fields = Fields { acks, handshake: wish.handshake_field() };
        let echo = if wish == crate::cc::EcnWish::Ect0Runs { Echo::Runs } else { Echo::UntilCwr };
        let falls_back = config.switches.ecn_fallback;
        let timestamps = config.switches.timestamps;
        let receiver = Receiver::new(config.flow, config.group, config.ecn, fields, echo);
        Endpoint {
            sender: Sender::new(config, cc),
            receiver,
            out: Outbox::default(),
            sent: Vec::new(),
            opened_at: Time::ZERO,
            watch: Watch::new(option, falls_back),
            timestamps,
            handshake: fields.handshake,
            busy: Stopwatch::default(),
            window_limited: Stopwatch::default(),
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
        if arrival.is_syn && was_established {
            self.watch.note_option(arrival.option.is_some());
            self.follow_watch();
            self.receiver.challenge(now, arrival.field, &mut self.out);
            return self.collect(now);
        }
        self.hear(now, arrival);
        if self.sender.is_established() && !was_established {
            self.open(now, arrival);
        }
        match arrival.data {
            _ if !self.sender.is_established() || arrival.is_syn => {
                self.receiver.note_clock(arrival.tsval);
            }
            Some((seq, payload)) => {
                if seq < self.receiver.next() && self.watch.sends_option() {
                    self.watch.on_duplicate(seq);
                    self.follow_watch();
                }
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

    /// The sending end takes what is for it.
    fn hear(&mut self, now: Time, arrival: &Arrival) {
        if arrival.is_syn && self.sender.is_answering() && arrival.bits == TcpBits::default() {
            self.watch.distrust();
        }
        if arrival.is_syn {
            self.receiver.expect_field(arrival.field);
        }
        if arrival.is_syn || arrival.ack.is_some() {
            self.sender.offer_window(now, arrival.window);
            if self.sender.is_established() && arrival.option.is_some() {
                self.watch.note_option(true);
                self.follow_watch();
            }
            let ack = self.ack_of(now, arrival);
            self.sender.on_packet(now, &ack, &mut self.out);
        }
    }

    /// The handshake is over.
    fn open(&mut self, now: Time, arrival: &Arrival) {
        let mode = self.sender.mode();
        let (rtt, field) = (now.since(self.opened_at), self.sender.field());
        self.receiver.open(mode, rtt, field, self.timestamps);
        if mode != EcnMode::AccEcn {
            return;
        }
        self.watch.note_option(arrival.option.is_some());
        if arrival.is_syn {
            self.receiver.expect_field(Ecn::NotEct);
            if self.watch.on_syn_ack(arrival.bits, arrival.field, self.handshake) {
                self.receiver.count_ack(Ecn::Ce);
                self.receiver.expect_field(Ecn::NotEct);
            }
        } else {
            let is_bare = arrival.data.is_none() && arrival.blocks.is_empty();
            self.watch.on_third(arrival.bits, self.handshake, is_bare);
            // A SYN/ACK without AccECN is the last one that the peer may have answered.
            if self.sender.answered_again() > 1 {
                self.watch.distrust();
            }
        }
        self.follow_watch();
    }

    /// The ends do as the watch says.
    fn follow_watch(&mut self) {
        if self.sender.mode() != EcnMode::AccEcn {
            return;
        }
        if !self.watch.sends_ect() {
            self.sender.set_field(Ecn::NotEct);
        }
        let has_option = self.watch.sends_option();
        self.sender.reserve_option(has_option);
        self.receiver.set_feedback(self.sender.field(), has_option);
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
        if self.sender.is_answering() {
            p.payload = arrival.data.map_or(0, |(_, payload)| payload);
        }
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
        let (is_busy, is_limited) = self.sender.is_busy();
        self.sender.watch_window(now);
        self.busy.set(now, is_busy);
        self.window_limited.set(now, is_limited);
        let packets = std::mem::take(&mut self.out.packets);
        let has_data = packets.iter().any(|p| p.flags.has(Flags::DATA));
        for mut packet in packets {
            let mut blocks = self.out.sacks.take(packet.sack());
            let is_ack = packet.flags.has(Flags::ACK);
            if has_data && is_ack {
                continue;
            }
            let (mut tsval, mut echo) = (packet.tsval, Stamp::of(packet.stamp));
            if !is_ack {
                (tsval, echo) = (Stamp::of(now), Stamp::of(self.receiver.clock()));
            }
            let mut option = None;
            if packet.flags.has(Flags::SYN) {
                self.opened_at = now;
                if u32::from(packet.frame_len) > SYN_FRAME && self.watch.setting > 0 {
                    option = Some(EcnBytes { ect0: 1, ce: 0, ect1: 1 });
                }
            } else if packet.flags.has(Flags::DATA) {
                self.receiver.acknowledge_with(&mut packet, &mut blocks);
            } else if !is_ack {
                self.receiver.tell(&mut packet);
            }
            if packet.flags.has(Flags::ACCECN_OPTION) {
                option = Some(packet.ecn_bytes);
            }
            let (next, ack) = (self.sender.next(), self.receiver.next());
            self.sent.push(Sent { at: now, packet, blocks, next, ack, tsval, echo, option });
        }
    }

    /// What was sent since the last call.
    pub fn take_sent(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.sent)
    }

    /// `tcpi_busy_time` and `tcpi_rwnd_limited`.
    pub fn times(&self, now: Time) -> (Span, Span) {
        (self.busy.read(now), self.window_limited.read(now))
    }

    /// Another `tcp_ecn_option` from now on.
    pub fn set_option(&mut self, setting: u8) {
        self.watch.setting = setting;
        self.follow_watch();
    }

    pub fn mode(&self) -> EcnMode {
        self.sender.mode()
    }
}
