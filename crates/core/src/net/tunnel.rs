//! Tunnels: a packet goes in at one place of its path and comes out at another one. In between the links see the outer
//! header only: its length, ECN field and DSCP, and one flow for all that the tunnel carries.

use serde::Deserialize;

use super::Node;
use super::inbox::Inbox;
use super::ledger::Ledger;
use crate::aqm::DropReason;
use crate::ecn::Ecn;
use crate::element::Outbox;
use crate::inside::Inner;
use crate::packet::{Flags, FlowId, Packet};
use crate::time::Time;
use crate::units::ETHERNET_HEADER;

/// A tunnel around flows. Sizes are bytes.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Tunnel"))]
#[serde(deny_unknown_fields)]
pub struct TunnelSpec {
    pub name: String,
    /// The protocol, for an engine that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<TunnelKind>,
    pub flows: Vec<String>,
    /// A path is in the tunnel from before the first of these links that it crosses to behind the last one.
    pub links: Vec<String>,
    /// What it adds to each packet, without padding.
    pub overhead_bytes: u32,
    /// Inner packet and trailer are padded to a multiple of this.
    pub padding_bytes: u32,
    /// The part of the overhead that is padded with the inner packet.
    pub trailer_bytes: u32,
    /// The largest inner IP packet.
    pub mtu_bytes: u32,
    pub ecn: TunnelEcn,
    /// The outer DSCP is the inner one, and not 0.
    pub copies_dscp: bool,
    /// A packet is dropped at the exit if so many later ones have come out, or it has already; 0: none is.
    pub replay_window: u32,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TunnelKind {
    Wireguard,
    Ipsec,
    Gre,
    Ipip,
    Masque,
}

/// What entry and exit do with the ECN field (RFC 6040, 4).
#[derive(Copy, Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TunnelEcn {
    /// RFC 6040's normal mode: the entry copies it, and the exit combines both headers.
    Normal,
    /// RFC 6040's compatibility mode: outer packets are Not-ECT, and the exit combines both headers.
    Compatibility,
    /// Outer packets are Not-ECT, and the exit does not look at the outer field.
    Bleached,
    /// The entry copies it, and the exit does not look at the outer field: marks are lost.
    Copied,
}

impl TunnelEcn {
    /// The outer field of a packet with this inner one (RFC 6040, 4.1).
    pub fn encapsulate(self, inner: Ecn) -> Ecn {
        match self {
            TunnelEcn::Normal | TunnelEcn::Copied => inner,
            TunnelEcn::Compatibility | TunnelEcn::Bleached => Ecn::NotEct,
        }
    }
    /// The field that leaves the tunnel; `None` drops the packet (RFC 6040, 4.2, figure 4).
    pub fn decapsulate(self, outer: Ecn, inner: Ecn) -> Option<Ecn> {
        match (self, inner, outer) {
            (TunnelEcn::Bleached | TunnelEcn::Copied, ..) => Some(inner),
            (_, Ecn::NotEct, Ecn::Ce) => None,
            (_, Ecn::NotEct, _) => Some(Ecn::NotEct),
            (_, _, Ecn::Ce) => Some(Ecn::Ce),
            (_, Ecn::Ect0, Ecn::Ect1) => Some(Ecn::Ect1),
            _ => Some(inner),
        }
    }
}

impl TunnelSpec {
    /// The outer frame of an inner one.
    pub fn outer_len(&self, frame_len: u32) -> u32 {
        let padded = frame_len - ETHERNET_HEADER + self.trailer_bytes;
        // WireGuard does not pad beyond the MTU. ESP has to, and its MTU leaves room for that.
        let most = if self.trailer_bytes == 0 { self.mtu_bytes.max(padded) } else { u32::MAX };
        let padding = padded.next_multiple_of(self.padding_bytes).min(most) - padded;
        frame_len + self.overhead_bytes + padding
    }
}

/// Where packets go into a tunnel.
pub struct Entry {
    spec: TunnelSpec,
    /// Of all outer packets.
    flow: FlowId,
    entered: u64,
    ledger: Ledger,
}

impl Entry {
    /// `number`: of the tunnel in its run.
    pub fn new(spec: &TunnelSpec, number: usize) -> Entry {
        let flow = FlowId::MAX - number as FlowId;
        Entry { spec: spec.clone(), flow, entered: 0, ledger: Ledger::default() }
    }
}

impl Node for Entry {
    fn next(&self) -> Time {
        Time::NEVER
    }
    fn run(&mut self, inbox: &mut Inbox, _now: Time, until: Time, out: &mut Outbox) {
        while let Some(mut pkt) = inbox.take(until) {
            self.ledger.arrive(pkt.enqueued_at, &mut pkt);
            let Packet { flow, seq, frame_len, dscp, ecn, .. } = pkt;
            let inner =
                Inner { flow, seq, frame_len, dscp, ecn, number: self.entered, carriers: 1 };
            self.entered += 1;
            (pkt.flow, pkt.seq) = (self.flow, out.inside.place(inner));
            pkt.flags = pkt.flags.with(Flags::TUNNELLED);
            pkt.frame_len = self.spec.outer_len(u32::from(frame_len)) as u16;
            pkt.dscp = if self.spec.copies_dscp { dscp } else { 0 };
            if self.spec.ecn.encapsulate(ecn.get()) != ecn.get() {
                pkt.ecn = Ecn::NotEct.into();
            }
            out.packets.push(pkt);
        }
    }
    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }
    fn ledger_mut(&mut self) -> Option<&mut Ledger> {
        Some(&mut self.ledger)
    }
}

/// The numbers of the packets that have come out, as far back as the window goes (RFC 4303, 3.4.3).
#[derive(Debug)]
struct Replay {
    /// By number modulo the window.
    seen: Vec<bool>,
    /// One more than the highest number.
    next: u64,
}

impl Replay {
    /// A packet comes; whether it is new and in the window.
    fn admits(&mut self, number: u64) -> bool {
        let window = self.seen.len() as u64;
        if number + window < self.next {
            return false;
        }
        let between = self.next.max((number + 1).saturating_sub(window));
        (between..number).for_each(|n| self.seen[(n % window) as usize] = false);
        let was_there = number < self.next && self.seen[(number % window) as usize];
        self.seen[(number % window) as usize] = true;
        self.next = self.next.max(number + 1);
        !was_there
    }
}

/// Where they come out.
pub struct Exit {
    ecn: TunnelEcn,
    replay: Option<Replay>,
    ledger: Ledger,
}

impl Exit {
    pub fn new(spec: &TunnelSpec) -> Exit {
        let window = spec.replay_window as usize;
        let replay = (window > 0).then(|| Replay { seen: vec![false; window], next: 0 });
        Exit { ecn: spec.ecn, replay, ledger: Ledger::default() }
    }

    /// Whether the packet may leave, with this number and what is inside of it.
    fn release(
        &mut self,
        outer: &Packet,
        inner: &mut Packet,
        number: u64,
    ) -> Result<(), DropReason> {
        // The end finds out and drops it. Authentication finds out here, before it looks at the number.
        if outer.flags.has(Flags::CORRUPT) {
            return Ok(());
        }
        if self.replay.as_mut().is_some_and(|replay| !replay.admits(number)) {
            return Err(DropReason::Replay);
        }
        let before = inner.ecn.get();
        match self.ecn.decapsulate(outer.ecn.get(), before) {
            None => return Err(DropReason::Decapsulation),
            Some(ecn) if ecn == before => {}
            Some(Ecn::Ect1) if outer.ecn.is_sce() => inner.ecn.mark_sce(),
            Some(ecn) => inner.ecn.set(ecn),
        }
        Ok(())
    }
}

impl Node for Exit {
    fn next(&self) -> Time {
        Time::NEVER
    }
    fn run(&mut self, inbox: &mut Inbox, _now: Time, until: Time, out: &mut Outbox) {
        while let Some(mut pkt) = inbox.take(until) {
            self.ledger.arrive(pkt.enqueued_at, &mut pkt);
            let number = out.inside.number(&pkt);
            let mut inner = out.inside.get(&pkt);
            match self.release(&pkt, &mut inner, number) {
                Ok(()) => {
                    out.inside.take(&pkt);
                    out.packets.push(inner);
                }
                Err(why) => {
                    self.ledger.lose(pkt.enqueued_at, &pkt, why);
                    out.lose(pkt.enqueued_at, &pkt, why);
                }
            }
        }
    }
    fn ledger(&self) -> Option<&Ledger> {
        Some(&self.ledger)
    }
    fn ledger_mut(&mut self) -> Option<&mut Ledger> {
        Some(&mut self.ledger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6040, figure 4, row by row: inner Not-ECT, ECT(0), ECT(1), CE; columns: the same of the outer header.
    #[test]
    fn the_exit_has_the_table_of_rfc_6040() {
        use Ecn::{Ce, Ect0, Ect1, NotEct};
        let all = [NotEct, Ect0, Ect1, Ce];
        let table = [
            [Some(NotEct), Some(NotEct), Some(NotEct), None],
            [Some(Ect0), Some(Ect0), Some(Ect1), Some(Ce)],
            [Some(Ect1), Some(Ect1), Some(Ect1), Some(Ce)],
            [Some(Ce), Some(Ce), Some(Ce), Some(Ce)],
        ];
        for (inner, row) in all.into_iter().zip(table) {
            for (outer, expected) in all.into_iter().zip(row) {
                for mode in [TunnelEcn::Normal, TunnelEcn::Compatibility] {
                    assert_eq!(mode.decapsulate(outer, inner), expected, "{inner:?} in {outer:?}");
                }
                for mode in [TunnelEcn::Bleached, TunnelEcn::Copied] {
                    assert_eq!(mode.decapsulate(outer, inner), Some(inner));
                }
            }
            // Figure 3: normal mode copies, compatibility mode clears.
            assert_eq!(TunnelEcn::Normal.encapsulate(inner), inner);
            assert_eq!(TunnelEcn::Copied.encapsulate(inner), inner);
            assert_eq!(TunnelEcn::Compatibility.encapsulate(inner), NotEct);
            assert_eq!(TunnelEcn::Bleached.encapsulate(inner), NotEct);
        }
    }

    fn spec(overhead: u32, padding: u32, trailer: u32, mtu: u32) -> TunnelSpec {
        TunnelSpec {
            name: "t".to_owned(),
            kind: None,
            flows: Vec::new(),
            links: Vec::new(),
            overhead_bytes: overhead,
            padding_bytes: padding,
            trailer_bytes: trailer,
            mtu_bytes: mtu,
            ecn: TunnelEcn::Normal,
            copies_dscp: false,
            replay_window: 0,
        }
    }

    #[test]
    fn overhead_to_the_byte() {
        let wireguard = spec(60, 16, 0, 1420);
        // 20 IP + 8 UDP + 16 header + payload to a multiple of 16 + 16 tag.
        for inner in 20..=1420_u32 {
            let payload = inner.next_multiple_of(16).min(1420);
            assert_eq!(wireguard.outer_len(14 + inner), 14 + 20 + 8 + 16 + payload + 16);
        }
        // A full packet is not padded: Linux's calculate_skb_padding stops at the MTU.
        assert_eq!(wireguard.outer_len(14 + 1420), 14 + 1480);
        // RFC 4303, 2.4: payload, padding and its two bytes end at a multiple of 4.
        let esp = spec(20 + 8 + 8 + 2 + 16, 4, 2, 1446);
        for inner in 20..=1446_u32 {
            let padded = (inner + 2).div_ceil(4) * 4;
            assert_eq!(esp.outer_len(14 + inner), 14 + 20 + 8 + 8 + padded + 16);
        }
        assert_eq!(esp.outer_len(14 + 1446), 14 + 1500);
        assert_eq!(spec(24, 1, 0, 1476).outer_len(14 + 777), 14 + 801);
    }

    /// Against the law itself: a number passes unless `window` higher ones, or it itself, have been seen.
    #[test]
    fn the_window_refuses_what_is_older_and_what_came_before() {
        let mut rng = crate::rng::Rng::stream(1, "replay", 0);
        for window in [1, 2, 32, 64, 1000] {
            let mut replay = Replay { seen: vec![false; window], next: 0 };
            let (mut highest, mut seen) = (None, std::collections::BTreeSet::new());
            for step in 0..4000_u64 {
                let number = (step + rng.below(150)).saturating_sub(rng.below(150));
                let is_old = highest.is_some_and(|top: u64| number + window as u64 <= top);
                let expected = !is_old && seen.insert(number);
                assert_eq!(replay.admits(number), expected, "{number} in a window of {window}");
                highest = highest.max(Some(number));
            }
        }
    }
}
