//! What the receiving end of a host needs that sends, too: see
//! [`Endpoint`](crate::transport::endpoint::Endpoint).

use super::Receiver;
use crate::ecn::Ecn;
use crate::element::Outbox;
use crate::packet::{Flags, Packet, TcpBits};
use crate::sack::Blocks;
use crate::time::{Span, Time};
use crate::transport::ecn::{self, EcnMode};

impl Receiver {
    /// The sending end has opened the connection, in this mode, whose packets carry `field`.
    pub fn open(&mut self, mode: EcnMode, rtt: Span, field: Ecn, timestamps: bool) {
        self.mode = mode;
        self.rtt = rtt;
        self.fields.acks = field;
        self.room = if timestamps { ecn::ROOM } else { ecn::ROOM_WITHOUT_TIMESTAMPS };
    }

    /// Its ACKs carry this field from now on, and the AccECN option or not.
    pub fn set_feedback(&mut self, field: Ecn, has_option: bool) {
        self.fields.acks = field;
        self.has_option = has_option;
    }

    /// The SYN came with this field.
    pub fn expect_field(&mut self, field: Ecn) {
        self.counters.expect(field);
    }

    /// The peer's clock, as what comes in sequence says.
    pub fn note_clock(&mut self, stamp: Time) {
        self.echo = self.echo.max(stamp);
    }
    /// What is echoed of it.
    pub fn clock(&self) -> Time {
        self.echo
    }

    /// An ACK without data arrives with this field (RFC 9768, 3.2.2.5).
    pub fn count_ack(&mut self, field: Ecn) {
        if self.mode == EcnMode::AccEcn {
            self.ack_now |= self.counters.count_ack(field);
        }
    }

    /// A SYN comes while the connection is open: an ACK at once (RFC 5961, 4.2), which tells the SYN's field.
    pub fn challenge(&mut self, now: Time, field: Ecn, out: &mut Outbox) {
        self.ack(now, out);
        if self.mode == EcnMode::AccEcn
            && let Some(ack) = out.packets.last_mut()
        {
            ack.bits = ecn::field_feedback(field);
        }
    }

    /// Data leave, and acknowledge what has come (Linux `tcp_event_ack_sent`). The blocks go with them.
    pub fn acknowledge_with(&mut self, data: &mut Packet, blocks: &mut Blocks) {
        self.note_ack();
        match self.mode {
            EcnMode::Off => {}
            EcnMode::Classic => {
                if self.demand_cwr {
                    data.bits = data.bits.with(TcpBits::ECE);
                }
            }
            EcnMode::AccEcn => {
                let push = TcpBits(data.bits.0 & TcpBits::PSH.0);
                data.bits = self.counters.ace().with(push);
                self.counters.pending_ce = 0;
                self.tell(data);
            }
        }
        for &block in self.duplicate.take().iter().chain(&self.recent) {
            blocks.push(block);
        }
    }

    /// Gives a packet the AccECN option.
    pub fn tell(&mut self, packet: &mut Packet) {
        packet.flags = packet.flags.without(Flags::ACCECN_OPTION);
        if self.mode == EcnMode::AccEcn && self.fit_option().0 > 0 {
            packet.ecn_bytes = self.counters.option();
            packet.flags = packet.flags.with(Flags::ACCECN_OPTION);
        }
    }
}
