//! The sending end as a server: it waits for a client to open the connection and to ask, and answers.

use super::data::Data;
use super::{Phase, Sender};
use crate::ecn::Ecn;
use crate::element::Outbox;
use crate::packet::{Flags, Packet, SYN_FRAME, TcpBits};
use crate::time::Time;
use crate::transport::ecn::{self, EcnMode};
use crate::transport::handshake;

impl Sender {
    /// Waits for a client that opens the connection at `now`.
    pub fn listen(&mut self, now: Time) {
        self.started_at = now;
        self.phase = Phase::Listen;
        self.data.left = 0;
    }

    /// It has answered, and everything was acknowledged.
    pub fn is_done(&self) -> bool {
        self.data.asked && !self.data.is_there() && self.board.packets_out() == 0
    }

    /// A SYN, the third packet of the handshake, or a request.
    pub(super) fn on_client(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        if pkt.flags.has(Flags::SYN) {
            match self.phase {
                Phase::Listen => {
                    self.phase = Phase::SynReceived;
                    let ect_syn = self.constants.ecn.handshake_field() != Ecn::NotEct;
                    (self.ecn.mode, self.ecn.answer) =
                        ecn::answer_syn(self.config.ecn, ect_syn, pkt.bits, pkt.ecn.get());
                    self.send_syn_ack(now, out);
                }
                Phase::SynReceived => {
                    self.answer_again(now, ecn::field_feedback(pkt.ecn.get()), out);
                }
                _ => {}
            }
            return;
        }
        if self.phase == Phase::SynReceived {
            self.establish(now, pkt, self.ecn.mode);
            // The client tells that the SYN/ACK was marked (`tcp_accecn_third_ack`).
            let may_be_marked = self.constants.ecn.handshake_field() != Ecn::NotEct
                || !self.config.switches.ecn_fallback;
            if self.ecn.mode == EcnMode::AccEcn
                && pkt.bits == ecn::field_feedback(Ecn::Ce)
                && pkt.payload == 0
                && may_be_marked
            {
                self.board.delivery.ce = 1;
            }
            self.update_pacing(self.cc.pace());
        }
        if self.phase == Phase::Established && pkt.payload > 0 && !self.data.asked {
            self.data.asked = true;
            self.data.written_at = now;
            self.data.left = Data::whole(&self.config);
            self.transmit(now, out);
        }
    }

    /// Nobody has answered the SYN/ACK. The second time it goes without AccECN (RFC 9768, 3.1.4.2).
    pub(super) fn repeat_syn_ack(&mut self, now: Time, out: &mut Outbox) {
        let answer = if self.timers.syn_tries > 1 { TcpBits::default() } else { self.ecn.answer };
        self.answer_again(now, answer, out);
    }

    /// The SYN/ACK once more; with AccECN its flags are `answer`.
    fn answer_again(&mut self, now: Time, answer: TcpBits, out: &mut Outbox) {
        if self.ecn.mode == EcnMode::AccEcn {
            self.ecn.answer = answer;
        }
        self.ecn.answered_again += 1;
        self.send_syn_ack(now, out);
    }

    /// With the AccECN option the first time.
    pub(super) fn send_syn_ack(&mut self, now: Time, out: &mut Outbox) {
        let field = match self.ecn.mode {
            EcnMode::Off => Ecn::NotEct,
            EcnMode::Classic | EcnMode::AccEcn => self.constants.ecn.handshake_field(),
        };
        let (flow, group) = (self.config.flow, self.config.group);
        let is_first = self.ecn.answered_again == 0;
        let option = if is_first { self.ecn.mode.handshake_option() } else { 0 };
        let len = SYN_FRAME + option;
        let mut p = Packet::new(flow, group, Flags::SYN, len, field);
        p.bits = self.ecn.answer;
        p.stamp = now;
        out.push(p);
        self.timers.await_handshake(handshake::expiry(now, self.timers.syn_tries));
    }
}
