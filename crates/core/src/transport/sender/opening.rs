//! The connection's beginning and end: handshake, what both sides agree on, and when the application stops.

use super::timers::Timer;
use super::{Phase, Sender};
use crate::cc::EcnWish;
use crate::cc::registry::Cc;
use crate::ecn::Ecn;
use crate::element::Outbox;
use crate::packet::{ACK_FRAME, Flags, Packet, TCP_IP_HEADERS};
use crate::time::Time;
use crate::transport::delivery::micros_between;
use crate::transport::ecn::{self, EcnMode};
use crate::transport::handshake;
use crate::transport::options::Pacing as Paces;

impl Sender {
    /// The connection is to be opened at `at`.
    pub fn start_at(&mut self, at: Time) {
        self.timers.set(Timer::Start, at);
    }

    /// Opens the connection.
    pub(super) fn start(&mut self, now: Time, out: &mut Outbox) {
        self.started_at = now;
        self.phase = Phase::SynSent;
        self.send_syn(now, out);
    }

    /// Nothing new is sent from this time on.
    pub fn stop_at(&mut self, at: Time) {
        self.timers.stop_at = self.timers.stop_at.min(at);
    }

    pub(super) fn stop(&mut self) {
        self.timers.stop_at = Time::NEVER;
        self.data.left = 0;
        if self.phase != Phase::Established {
            self.phase = Phase::Closed;
            self.timers.clear();
        }
    }

    /// Whether segments have room for the AccECN option.
    pub fn reserve_option(&mut self, is_wanted: bool) {
        let is_there = self.win.header > TCP_IP_HEADERS;
        if is_wanted && !is_there {
            self.win.mss -= ecn::OPTION_LEN;
            self.win.header += ecn::OPTION_LEN;
        } else if is_there && !is_wanted {
            self.win.mss += ecn::OPTION_LEN;
            self.win.header -= ecn::OPTION_LEN;
        }
    }

    pub(super) fn send_syn(&mut self, now: Time, out: &mut Outbox) {
        let (c, field) = (&self.config, self.constants.ecn.handshake_field());
        out.push(handshake::syn(now, c.flow, c.group, c.ecn, field, self.timers.syn_tries));
        self.timers.await_handshake(handshake::syn_expiry(now, self.timers.syn_tries));
    }

    pub(super) fn on_syn_ack(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        if self.phase != Phase::SynSent {
            return;
        }
        self.establish(now, pkt, ecn::read_syn_ack(self.config.ecn, pkt.bits));
        let flags = Flags::default();
        // With AccECN and in DCTCP everything is ECT.
        let field = match self.ecn.mode {
            EcnMode::AccEcn => self.template.ecn.get(),
            EcnMode::Classic => self.constants.ecn.handshake_field(),
            EcnMode::Off => Ecn::NotEct,
        };
        let len = ACK_FRAME + self.ecn.mode.handshake_option();
        let mut third = Packet::new(self.config.flow, self.config.group, flags, len, field);
        if self.ecn.mode == EcnMode::AccEcn {
            third.bits = ecn::field_feedback(pkt.ecn.get());
        }
        third.stamp = now;
        third.tsval = self.template.tsval;
        out.push(third);
        self.update_pacing(self.cc.pace());
        self.transmit(now, out);
    }

    /// The handshake is over with `pkt`, in this mode.
    pub(super) fn establish(&mut self, now: Time, pkt: &Packet, mode: EcnMode) {
        self.phase = Phase::Established;
        self.established_at = now;
        self.data.written_at = now;
        self.template.tsval = pkt.tsval;
        self.timers.clear();
        if self.timers.syn_tries == 1 {
            let us = micros_between(now, pkt.stamp);
            self.rtt.sample(us, 0, 0);
            self.rtt.sample_min(now, us);
        }
        self.settle_ecn(now, mode);
    }

    /// What both sides agreed on, and whether the controller can live with it.
    pub(super) fn settle_ecn(&mut self, now: Time, mode: EcnMode) {
        self.ecn.mode = mode;
        let wish = self.constants.ecn;
        let granted = match wish {
            EcnWish::Ect1AccEcn => self.ecn.mode == EcnMode::AccEcn,
            EcnWish::Ect0Classic | EcnWish::Ect0Runs | EcnWish::Ect0Sce => {
                self.ecn.mode != EcnMode::Off
            }
            EcnWish::NotEct => true,
        };
        // ECT(1) must not be sent with RFC 3168 feedback (RFC 9331, 4.3).
        if wish == EcnWish::Ect1AccEcn && !granted {
            self.ecn.mode = EcnMode::Off;
        }
        let codepoint = match (self.ecn.mode, wish) {
            (EcnMode::Off, _) => Ecn::NotEct,
            (_, EcnWish::Ect1AccEcn) => Ecn::Ect1,
            _ => Ecn::Ect0,
        };
        self.template.ecn = codepoint.into();
        if self.ecn.mode == EcnMode::AccEcn {
            self.template.bits = ecn::ACE_START;
            // Linux 7.2 sends the option on data too, at the expense of payload.
            self.reserve_option(self.config.switches.accecn_option);
        }
        let (view, cc, win) = self.parts();
        let ack = view.ack_info(now, win);
        if let Some(other) = cc.on_established(granted, &ack, win) {
            self.cc = Cc::Other(other);
            self.constants = self.cc.constants();
        }
        let is_asked = match self.config.rules.pacing {
            Paces::Controller => self.cc.pace().rate.is_some(),
            Paces::On => true,
            Paces::Off => false,
        };
        self.pacing.is_on = is_asked || self.config.pace_bps.is_some();
        self.pacing.least_burst = self.config.switches.least_burst;
        if let Some(bps) = self.config.pace_bps {
            self.pacing.cap(bps, &self.win);
        }
    }

    /// What is no plain ACK of an open connection.
    #[cold]
    pub(super) fn on_opening(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        match self.phase {
            Phase::SynSent if pkt.flags.has(Flags::SYN) => self.on_syn_ack(now, pkt, out),
            Phase::SynSent | Phase::Closed => {
                out.sacks.take(pkt.sack());
            }
            Phase::Listen | Phase::SynReceived | Phase::Established => {
                self.on_client(now, pkt, out);
            }
        }
    }
}
