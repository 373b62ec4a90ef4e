//! Sources that open many TCP connections, such as the requests of a web load or the objects of a page.

use super::{Place, tcp};
use crate::element::{Outbox, common_mode};
use crate::packet::{FlowId, GroupId};
use crate::probe::{SenderState, Totals};
use crate::time::{Span, Time};
use crate::transport::receiver::Receiver;
use crate::transport::sender::Sender;

/// The longest that an ACK is delayed.
const DELAYED_ACK: Span = Span::from_millis(200);

/// How long a client waits for the acknowledgement of a request (RFC 8985, 7.2).
pub(super) fn patience(rtt: Span) -> Span {
    rtt * 2 + DELAYED_ACK
}

/// A request that the client sends again until it may know that the server has it.
pub(super) struct Request {
    /// When the client sends it again.
    pub again: Time,
    /// When the server got it.
    pub known: Option<Time>,
}

impl Request {
    pub fn sent(now: Time, patience: Span) -> Request {
        Request { again: now + patience, known: None }
    }
    /// Whether it is sent again now. Its acknowledgement needs the way `forward` from the server.
    pub fn repeat(&mut self, now: Time, forward: Span, patience: Span) -> bool {
        if self.again > now {
            return false;
        }
        let is_known = self.known.is_some_and(|at| at + forward <= now);
        self.again = if is_known { Time::NEVER } else { now + patience };
        !is_known
    }
}

/// What the connections of a source have in common.
#[derive(Copy, Clone)]
pub(super) struct Source {
    pub seed: u64,
    pub group: GroupId,
    pub dscp: u8,
    rtt: Span,
    number: FlowId,
    stride: u32,
}

impl Source {
    pub fn new(place: &Place) -> Source {
        let Place { seed, group, rtt, dscp, number, stride, .. } = *place;
        Source { seed, group, dscp, rtt, number, stride }
    }
    /// The flow number of a connection, counted from 0, and back.
    pub fn flow(&self, connection: u32) -> FlowId {
        (connection + 1).wrapping_mul(self.stride).wrapping_add(self.number)
    }
    pub fn connection(&self, flow: FlowId) -> u32 {
        (flow.wrapping_sub(self.number) / self.stride).wrapping_sub(1)
    }
    /// The place in the run of a connection that opens at `start`.
    pub fn place(&self, connection: u32, start: Time, stop: Time) -> Place<'static> {
        let Source { seed, group, dscp, rtt, stride, .. } = *self;
        Place {
            seed,
            name: "",
            group,
            index: 0,
            number: self.flow(connection),
            stride,
            start,
            stop,
            measured_from: Time::ZERO,
            rtt,
            dscp,
            on_host: false,
        }
    }
}

/// The server and the client of a connection.
pub(super) type Ends<'a> = (&'a Sender, &'a Receiver);

/// What connections have counted, beside `closed`.
pub(super) fn totals<'a>(closed: Totals, ends: impl Iterator<Item = Ends<'a>>) -> Totals {
    ends.fold(closed, |mut all, (server, client)| {
        all += tcp::totals(server, client);
        all
    })
}

/// Shows the servers. Connections come and go: their controllers' state is of no interest.
pub(super) fn show<'a>(
    servers: impl Iterator<Item = &'a Sender>,
    each: &mut dyn FnMut(SenderState),
) {
    for server in servers {
        tcp::show(server, &mut |s| each(SenderState { controller: None, ..s }));
    }
}

/// How ECN was negotiated on connections that are established, beside `closed`.
pub(super) fn mode<'a>(
    closed: Option<&'static str>,
    ends: impl Iterator<Item = Ends<'a>>,
) -> Option<&'static str> {
    ends.filter(|(server, _)| server.is_established())
        .fold(closed, |mode, (server, client)| common_mode(mode, tcp::mode(server, client)))
}

/// Orders the packets that several connections have sent, each in order, since there were `before`.
pub(super) fn sort(out: &mut Outbox, before: usize) {
    out.packets[before..].sort_by_key(|p| p.enqueued_at);
}
