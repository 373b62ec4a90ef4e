//! What packets meet between two hosts: links, impairments, tunnels, and what rewrites their headers.

pub mod access;
pub mod air;
pub mod deadlines;
pub mod host_queue;
pub mod impair;
pub mod inbox;
pub mod ledger;
pub mod link;
pub mod medium;
mod packet;
pub mod parts;
pub mod port;
pub mod rewrite;
pub mod split;
pub mod stations;
pub mod tap;
pub mod thin;
pub mod tunnel;
pub mod watch;

use self::host_queue::HostQueue;
use self::impair::Impair;
use self::inbox::Inbox;
use self::ledger::Ledger;
use self::link::Link;
use self::port::Port;
use crate::element::Outbox;
use crate::time::Time;

/// An element in the network: packets come, and go on in some order.
pub trait Node: Send {
    /// When it has something to do even if nothing comes.
    fn next(&self) -> Time;
    /// Runs from `now` to `until`, exclusively. What leaves is in `out` with the instant at which it did.
    fn run(&mut self, inbox: &mut Inbox, now: Time, until: Time, out: &mut Outbox);
    fn as_link(&self) -> Option<&Link> {
        None
    }
    fn as_link_mut(&mut self) -> Option<&mut Link> {
        None
    }
    fn as_impair(&self) -> Option<&Impair> {
        None
    }
    fn as_impair_mut(&mut self) -> Option<&mut Impair> {
        None
    }
    /// It cuts packets of several segments.
    fn cuts(&self) -> bool {
        false
    }
    /// It is a side of a medium.
    fn as_port_mut(&mut self) -> Option<&mut Port> {
        None
    }
    /// It is a link in a host that sends.
    fn as_host_queue_mut(&mut self) -> Option<&mut HostQueue> {
        None
    }
    /// Its counters, unless it is a link.
    fn ledger(&self) -> Option<&Ledger> {
        None
    }
    fn ledger_mut(&mut self) -> Option<&mut Ledger> {
        None
    }
}
