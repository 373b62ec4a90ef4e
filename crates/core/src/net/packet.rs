//! The simulator's packet as queues and links see it.

use crate::aqm::Pkt;
use crate::aqm::hosts::Hosts;
use crate::aqm::service::Carried;
use crate::ecn::Ecn;
use crate::packet::{Flags, Packet};
use crate::rng::spread;
use crate::time::{Span, Time};

impl Pkt for Packet {
    #[inline]
    fn frame_len(&self) -> u32 {
        u32::from(self.frame_len)
    }
    #[inline]
    fn ecn(&self) -> Ecn {
        self.ecn.get()
    }
    #[inline]
    fn set_ecn(&mut self, ecn: Ecn) {
        match ecn {
            // Queues set it as the SCE mark only.
            Ecn::Ect1 => self.ecn.mark_sce(),
            _ => self.ecn.set(ecn),
        }
    }
    #[inline]
    fn enqueued_at(&self) -> Time {
        self.enqueued_at
    }
    #[inline]
    fn flow_hash(&self) -> u32 {
        spread(self.flow)
    }
    #[inline]
    fn source_hash(&self, hosts: &Hosts) -> u32 {
        hosts.of(self.group.number, self.is_ack()).hash()
    }
    #[inline]
    fn destination_hash(&self, hosts: &Hosts) -> u32 {
        hosts.of(self.group.number, !self.is_ack()).hash()
    }
    #[inline]
    fn dscp(&self) -> u8 {
        self.dscp
    }
    #[inline]
    fn set_dscp(&mut self, dscp: u8) {
        self.dscp = dscp;
    }
    #[inline]
    fn corrupt(&mut self) {
        self.flags = self.flags.with(Flags::CORRUPT);
    }
}

impl Carried for Packet {
    #[inline(always)]
    fn counted(&self) -> Option<usize> {
        self.is_payload().then_some(usize::from(self.group.account))
    }
    #[inline(always)]
    fn is_sce(&self) -> bool {
        self.ecn.is_sce()
    }
    #[inline(always)]
    fn depart(&mut self, now: Time) {
        self.enqueued_at = now;
    }
    fn add_wait(&mut self, sojourn: Span) -> Span {
        let ns = u32::try_from(sojourn.0).unwrap_or(u32::MAX);
        self.queued_ns = self.queued_ns.saturating_add(ns);
        Span(u64::from(self.queued_ns))
    }
}
