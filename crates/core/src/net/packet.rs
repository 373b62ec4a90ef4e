//! The simulator's packet as queues and links see it.

use crate::aqm::hosts::Hosts;
use crate::aqm::service::Carried;
use crate::aqm::{Pkt, TcpHeader};
use crate::ecn::Ecn;
use crate::offload;
use crate::packet::{Flags, Packet, Stamp, TcpBits};
use crate::rng::spread;
use crate::time::{Span, Time};
use crate::units::{tcp_truesize, udp_truesize};

impl Pkt for Packet {
    #[inline]
    fn frame_len(&self) -> u32 {
        u32::from(self.frame_len)
    }
    fn segment_len(&self) -> u32 {
        offload::segment_len(self)
    }
    #[inline]
    fn truesize(&self) -> u32 {
        if self.flags.has(Flags::UDP) {
            udp_truesize(self.frame_len())
        } else {
            tcp_truesize(u32::from(self.payload))
        }
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
    #[inline]
    fn set_copied(&mut self) {
        if self.is_payload() {
            self.flags = self.flags.with(Flags::COPIED);
        }
    }
    fn tcp(&self) -> Option<TcpHeader> {
        let plain = TcpBits::ECE.with(TcpBits::CWR);
        let extra = Flags::SYN.with(Flags::ACCECN_OPTION).with(Flags::MESSAGE);
        // A tunnel hides it.
        let is_seen = self.flags.0 & Flags::ACK.with(Flags::TUNNELLED).0 == Flags::ACK.0;
        is_seen.then(|| TcpHeader {
            connection: self.flow,
            number: self.seq,
            tsval: self.tsval.millis(),
            tsecr: Stamp::of(self.stamp).millis(),
            ecn: self.bits.0 & plain.0,
            sack: self.sack(),
            acknowledges: !self.flags.has(Flags::SYN),
            is_pure: !self.flags.has(extra) && self.bits.0 & !plain.0 == 0 && self.payload == 0,
        })
    }
}

impl Carried for Packet {
    #[inline(always)]
    fn counted(&self) -> Option<usize> {
        self.is_payload().then_some(usize::from(self.group.account))
    }
    #[inline(always)]
    fn is_of_warmup(&self) -> bool {
        self.flags.has(Flags::WARMUP)
    }
    #[inline(always)]
    fn is_sce(&self) -> bool {
        self.ecn.is_sce()
    }
    #[inline(always)]
    fn depart(&mut self, now: Time) {
        self.enqueued_at = now;
    }
    #[inline]
    fn add_wait(&mut self, sojourn: Span) {
        Packet::add_wait(self, sojourn);
    }
    #[inline]
    fn waited(&self) -> Span {
        Packet::waited(self)
    }
    #[inline(always)]
    fn is_followed(&self) -> bool {
        self.flags.has(Flags::FOLLOWED)
    }
}
