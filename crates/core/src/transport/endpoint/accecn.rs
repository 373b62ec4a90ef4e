//! What a host with AccECN watches for: a path that clears or changes ECN fields, or that takes the option away
//! (RFC 9768, 3.2.2 and 3.2.3.2, as Linux 7.2 does it). In a run no path does, so that only an endpoint looks.

use crate::ecn::Ecn;
use crate::packet::TcpBits;
use crate::transport::ecn::field_feedback;

/// What a host has found out.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// `tcp_ecn_option`: 0 never, 2 unless it is lost, 3 always.
    pub setting: u8,
    /// `tcp_ecn_fallback`.
    falls_back: bool,
    /// The peer has sent the option.
    seen: bool,
    /// The feedback is not to be trusted, or the peer does not get this host's: it sends Not-ECT.
    field_fails: bool,
    option_fails: bool,
    /// The segment of which the last ACK told, together with the option, that it came twice.
    told_twice: Option<u32>,
}

impl Watch {
    pub fn new(setting: u8, falls_back: bool) -> Watch {
        Watch { setting, falls_back, ..Watch::default() }
    }
    /// Whether packets carry the option.
    pub fn sends_option(&self) -> bool {
        self.setting > 0 && self.seen && (!self.option_fails || self.setting > 2)
    }
    pub fn sends_ect(&self) -> bool {
        !self.field_fails
    }
    pub fn note_option(&mut self, is_there: bool) {
        self.seen |= is_there;
    }
    pub fn distrust(&mut self) {
        self.field_fails = true;
    }

    /// The flags of a SYN/ACK, or of the third packet, tell with which field what this host `sent` has arrived. Whether
    /// a queue may have made it that.
    fn is_credible(&mut self, bits: TcpBits, sent: Ecn) -> bool {
        let arrived = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce]
            .into_iter()
            .find(|&field| field_feedback(field) == bits);
        let is_credible = arrived.is_none_or(|arrived| {
            arrived == sent || sent.is_capable() && arrived.is_capable() && sent != Ecn::Ce
        });
        if self.falls_back && !is_credible {
            self.field_fails = true;
        }
        !self.falls_back || is_credible
    }

    /// A SYN/ACK has come with this field; whether its mark counts.
    pub fn on_syn_ack(&mut self, bits: TcpBits, field: Ecn, sent: Ecn) -> bool {
        field == Ecn::Ce && self.is_credible(bits, sent)
    }

    /// The third packet has come: without the field's feedback it was cleared under way.
    pub fn on_third(&mut self, bits: TcpBits, sent: Ecn, is_bare: bool) {
        if bits == TcpBits::default() {
            self.field_fails = true;
        } else if is_bare {
            self.is_credible(bits, sent);
        }
    }

    /// Data have come a second time. If an ACK has told so before, with the option, it may be that which loses ACKs.
    pub fn on_duplicate(&mut self, seq: u32) {
        if self.told_twice.replace(seq) == Some(seq) {
            self.option_fails = true;
        }
    }
}
