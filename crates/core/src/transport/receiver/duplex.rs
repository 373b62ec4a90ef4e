//! What the receiving end of a host needs that sends, too: see
//! [`Endpoint`](crate::transport::endpoint::Endpoint).

use super::{Echo, Receiver};
use crate::ecn::Ecn;
use crate::element::Outbox;
use crate::packet::{Flags, Packet, TcpBits};
use crate::sack::MAX_BLOCKS;
use crate::time::{Span, Time};
use crate::transport::ecn::EcnMode;

impl Receiver {
    /// The sending end has opened the connection, in this mode.
    pub fn open(&mut self, mode: EcnMode, rtt: Span) {
        self.mode = mode;
        self.rtt = rtt;
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
            self.counters.count_ack(field);
        }
    }

    /// Data leave, and acknowledge what has come (Linux `tcp_event_ack_sent`).
    pub fn acknowledge_with(&mut self, data: &mut Packet, out: &mut Outbox) {
        self.note_ack();
        match self.mode {
            EcnMode::Off => {}
            EcnMode::Classic => {
                if self.demand_cwr {
                    data.bits = data.bits.with(TcpBits::ECE);
                }
            }
            EcnMode::AccEcn => {
                let push = data.bits.0 & TcpBits::PSH.0;
                data.bits = self.counters.ace().with(TcpBits(push));
                let (option, _) = self.counters.fit_option(self.recent.len().min(MAX_BLOCKS));
                if option > 0 {
                    data.ecn_bytes = self.counters.option();
                    data.flags = data.flags.with(Flags::ACCECN_OPTION);
                }
            }
        }
        let _ = out;
        debug_assert!(self.echo_rule == Echo::UntilCwr || self.mode != EcnMode::AccEcn);
    }
}
