//! Traffic: what is not TCP, and what applications ask of TCP.

pub mod cbr;
pub mod poisson;
pub mod udp_prague;
pub mod video;
pub mod web;

use self::cbr::Cbr;
use self::udp_prague::UdpPrague;
use crate::packet::{GroupId, Outbox, Packet};
use crate::time::Time;

/// A source, with its receiver where it has one.
#[derive(Clone, Debug)]
pub enum Source {
    Cbr(Cbr),
    UdpPrague(Box<UdpPrague>),
}

impl Source {
    pub fn group(&self) -> GroupId {
        match self {
            Source::Cbr(s) => s.group(),
            Source::UdpPrague(s) => s.group(),
        }
    }
    /// When [`Self::on_timer`] wants to be called.
    pub fn deadline(&self) -> Time {
        match self {
            Source::Cbr(s) => s.deadline(),
            Source::UdpPrague(s) => s.deadline(),
        }
    }
    pub fn start(&mut self, now: Time, out: &mut Outbox) {
        match self {
            Source::Cbr(s) => s.start(now, out),
            Source::UdpPrague(s) => s.start(now, out),
        }
    }
    pub fn stop(&mut self, now: Time) {
        match self {
            Source::Cbr(s) => s.stop(now),
            Source::UdpPrague(s) => s.stop(),
        }
    }
    pub fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        match self {
            Source::Cbr(s) => s.on_timer(now, out),
            Source::UdpPrague(s) => s.on_timer(now, out),
        }
    }
    /// A packet of the receiver arrives at the source.
    pub fn on_feedback(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        match self {
            Source::Cbr(_) => {}
            Source::UdpPrague(s) => s.on_feedback(now, pkt, out),
        }
    }
    /// A packet of the source arrives at its receiver.
    pub fn on_data(&mut self, pkt: &Packet, out: &mut Outbox) {
        match self {
            Source::Cbr(_) => {}
            Source::UdpPrague(s) => s.on_data(pkt, out),
        }
    }
    /// The sender that answers congestion, if it is one.
    pub fn responsive(&self) -> Option<&UdpPrague> {
        match self {
            Source::Cbr(_) => None,
            Source::UdpPrague(s) => Some(s),
        }
    }
}
