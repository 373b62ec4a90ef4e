//! The SYN, of a sender that opens its connection itself and of a client.

use super::ecn;
use super::wheel;
use crate::ecn::{Ecn, EcnSupport};
use crate::packet::{Flags, FlowId, GroupId, Packet, SYN_FRAME};
use crate::time::{Span, Time};

/// Wait before the first repetition (RFC 6298, 2.1; Linux `TCP_TIMEOUT_INIT`).
pub const TIMEOUT: Span = Span::from_secs(1);

/// A SYN after so many `tries`, which carries `field` where the host asks for ECN.
pub fn syn(
    now: Time,
    flow: FlowId,
    group: GroupId,
    asked: EcnSupport,
    field: Ecn,
    tries: u32,
) -> Packet {
    // A SYN may have been lost because of its flags: the first retry of a classic one and the
    // second of an AccECN one go without (RFC 3168, 6.1.1.1, RFC 9768, 3.1.4.1).
    let plain = match asked {
        EcnSupport::AccEcn => tries >= 2,
        _ => tries >= 1,
    };
    let field = if asked == EcnSupport::Off { Ecn::NotEct } else { field };
    let mut p = Packet::new(flow, group, Flags::SYN, SYN_FRAME, field);
    p.bits = ecn::syn_bits(if plain { EcnSupport::Off } else { asked });
    p.stamp = now;
    p
}

/// The wait for an answer to a SYN doubles after so many repetitions (Linux `tcp_syn_linear_timeouts`).
const LINEAR: u32 = 4;

/// When to give up waiting for an answer to a SYN after so many earlier `tries`.
pub fn syn_expiry(now: Time, tries: u32) -> Time {
    expiry(now, tries.saturating_sub(LINEAR))
}

/// The same of a SYN/ACK.
pub fn expiry(now: Time, tries: u32) -> Time {
    wheel::expiry(now, TIMEOUT * (1 << tries.min(6)))
}
