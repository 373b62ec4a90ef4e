//! The receiving end as a client: it opens the connection and asks, and its request is repeated until
//! data comes.

use super::{Echo, Receiver};
use crate::ecn::{Ecn, EcnSupport};
use crate::element::Outbox;
use crate::packet::{ACK_FRAME, Flags, Packet, Stamp};
use crate::time::Time;
use crate::transport::rtt::{RTO_MAX, RttEstimator};
use crate::transport::{ecn, handshake, wheel};

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
        self.client = Some(Client {
            support: self.support,
            tries: 0,
            syn_sent: now,
            rtt: RttEstimator::default(),
            asked_at: None,
        });
        self.send_syn(now, out);
    }

    /// When the request left for the first time; `None`: it has not, or this is no client.
    pub fn asked_at(&self) -> Option<Time> {
        self.client.as_ref().and_then(|c| c.asked_at)
    }

    fn send_syn(&mut self, now: Time, out: &mut Outbox) {
        let Some(c) = &mut self.client else { return };
        let runs = self.echo_rule == Echo::Runs;
        let mut p = handshake::syn(now, self.flow, self.group, c.support, runs, c.tries);
        p.flags = p.flags.with(Flags::ACK);
        p.tsval = Stamp::of(now);
        out.push(p);
        c.syn_sent = now;
        self.client_at = handshake::expiry(now, c.tries);
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
            c.rtt.sample(self.rtt.as_micros() as u32, 0, 0);
        }
        c.tries = 0;
        self.mode = ecn::read_syn_ack(c.support, pkt.bits);
        self.echo = self.echo.max(pkt.stamp);
        let third = self.to_server(now, 0);
        out.push(third);
        self.send_request(now, out);
    }

    fn send_request(&mut self, now: Time, out: &mut Outbox) {
        let request = self.to_server(now, REQUEST);
        out.push(request);
        let Some(c) = &mut self.client else { return };
        let wait = (c.rtt.rto() * (1 << c.tries.min(10))).min(RTO_MAX);
        self.client_at = wheel::expiry(now, wait);
        c.tries += 1;
    }

    fn to_server(&self, now: Time, payload: u32) -> Packet {
        let mut p =
            Packet::new(self.flow, self.group, Flags::ACK, ACK_FRAME + payload, Ecn::NotEct);
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
