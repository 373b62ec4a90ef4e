//! The receiving end as a client: it opens the connection and asks, and its request is repeated until
//! data comes.

use super::Receiver;
use crate::ecn::{Ecn, EcnSupport};
use crate::element::Outbox;
use crate::packet::{ACK_FRAME, Flags, Packet, Stamp};
use crate::time::Time;
use crate::transport::delivery::micros_between;
use crate::transport::ecn::{self, EcnMode};
use crate::transport::rtt::{RTO_MAX, RttEstimator};
use crate::transport::{handshake, wheel};

/// Payload of a request, bytes.
const REQUEST: u32 = 200;

/// What a receiver that is a client knows besides.
#[derive(Clone, Debug)]
pub(super) struct Client {
    support: EcnSupport,
    tries: u32,
    syn_sent: Time,
    rtt: RttEstimator,
    /// When it first asked.
    asked_at: Option<Time>,
}

impl Receiver {
    /// Opens the connection.
    pub fn connect(&mut self, now: Time, out: &mut Outbox) {
        self.client = Some(Box::new(Client {
            support: self.support,
            tries: 0,
            syn_sent: now,
            rtt: RttEstimator::default(),
            asked_at: None,
        }));
        self.send_syn(now, out);
    }

    /// When the request left for the first time; `None`: it has not, or this is no client.
    pub fn asked_at(&self) -> Option<Time> {
        self.client.as_ref().and_then(|c| c.asked_at)
    }

    fn send_syn(&mut self, now: Time, out: &mut Outbox) {
        let Some(c) = &mut self.client else { return };
        let field = self.fields.handshake;
        let mut p = handshake::syn(now, self.flow, self.group, c.support, field, c.tries);
        p.flags = p.flags.with(Flags::ACK);
        p.tsval = Stamp::of(now);
        out.push(p);
        c.syn_sent = now;
        self.client_at = handshake::syn_expiry(now, c.tries);
        c.tries += 1;
    }

    /// The server has answered the SYN: the third packet and the request leave.
    pub(super) fn on_answer(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        let Some(c) = &mut self.client else { return };
        if c.asked_at.is_some() {
            // The SYN/ACK again: what answered it was lost, and the timer repeats it.
            return;
        }
        c.asked_at = Some(now);
        if c.tries == 1 {
            self.rtt = now.since(c.syn_sent);
            c.rtt.sample(micros_between(now, c.syn_sent), 0, 0);
        }
        c.tries = 0;
        self.mode = ecn::read_syn_ack(c.support, pkt.bits);
        self.echo = self.echo.max(pkt.stamp);
        let mut third = self.to_server(now, 0, false);
        if self.mode == EcnMode::AccEcn {
            third.bits = ecn::field_feedback(pkt.ecn.get());
        }
        out.push(third);
        self.send_request(now, out);
    }

    fn send_request(&mut self, now: Time, out: &mut Outbox) {
        let is_new = self.client.as_ref().is_some_and(|c| c.tries == 0);
        let request = self.to_server(now, REQUEST, is_new);
        out.push(request);
        let Some(c) = &mut self.client else { return };
        let wait = (c.rtt.rto() * (1 << c.tries.min(10))).min(RTO_MAX);
        self.client_at = wheel::expiry(now, wait);
        c.tries += 1;
    }

    /// The codepoint of a request on the connection.
    pub fn request_field(&self) -> Ecn {
        self.field(true)
    }

    /// `is_new`: data that is sent for the first time (RFC 3168, 6.1.5).
    fn field(&self, is_new: bool) -> Ecn {
        match self.mode {
            EcnMode::AccEcn => self.fields.acks,
            EcnMode::Classic if is_new => Ecn::Ect0,
            EcnMode::Classic => self.fields.handshake,
            EcnMode::Off => Ecn::NotEct,
        }
    }

    fn to_server(&self, now: Time, payload: u32, is_new: bool) -> Packet {
        let field = self.field(is_new);
        let len = ACK_FRAME + self.mode.handshake_option() + payload;
        let mut p = Packet::new(self.flow, self.group, Flags::ACK, len, field);
        p.payload = payload as u16;
        p.stamp = self.echo;
        p.tsval = Stamp::of(now);
        p
    }

    /// Nobody has answered.
    #[cold]
    pub(super) fn ask_again(&mut self, now: Time, out: &mut Outbox) {
        self.client_at = Time::NEVER;
        if self.asked_at().is_some() {
            self.send_request(now, out);
        } else {
            self.send_syn(now, out);
        }
    }
}
