//! ECN between the ends: negotiation (RFC 3168, RFC 9768, 3.1) and AccECN feedback
//! (RFC 9768, 3.2) as Linux 7.2 does them; SCE as its kernel tree does (github.com/chromi/sce).

use serde::Serialize;

use crate::ecn::{Ecn, EcnSupport};
use crate::packet::{EcnBytes, TcpBits};

/// What a connection ended up with.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EcnMode {
    #[default]
    Off,
    /// RFC 3168: ECE until CWR, one reduction per round trip.
    Classic,
    /// RFC 9768: counters of marked packets and bytes.
    AccEcn,
}

impl EcnMode {
    /// Bytes of the option in a packet of the handshake, but for the SYN (Linux 7.2 has it in SYN/ACK and third ACK).
    pub fn handshake_option(self) -> u32 {
        if self == EcnMode::AccEcn { OPTION_LEN } else { 0 }
    }

    /// As the results call it.
    pub fn name(self) -> &'static str {
        match self {
            EcnMode::Off => "off",
            EcnMode::Classic => "classic",
            EcnMode::AccEcn => "accecn",
        }
    }
}

const ALL: TcpBits = TcpBits(0b111);

/// Flags of the client's SYN.
pub fn syn_bits(client: EcnSupport) -> TcpBits {
    match client {
        EcnSupport::Off => TcpBits(0),
        EcnSupport::Classic | EcnSupport::Sce => TcpBits::ECE.with(TcpBits::CWR),
        EcnSupport::AccEcn => ALL,
    }
}

/// The server's side: mode and flags of its SYN/ACK, given the SYN's flags and its ECN field. RFC 3168, 6.1.1
/// forbids ECT on a SYN that asks for classic ECN, and Linux takes one for the work of a broken network
/// (`tcp_ecn_create_request`), unless the server's own controller sends it, too (`ect_syn`; RFC 8257, 3.4).
pub fn answer_syn(
    server: EcnSupport,
    ect_syn: bool,
    syn: TcpBits,
    field: Ecn,
) -> (EcnMode, TcpBits) {
    match (server, syn.0) {
        (EcnSupport::Off, _) => (EcnMode::Off, TcpBits(0)),
        // Table 2 of RFC 9768: the SYN/ACK says which ECN field the SYN arrived with. What no client sends
        // yet asks for AccECN as well (3.1.3).
        (EcnSupport::AccEcn, 0b001 | 0b010 | 0b100..=0b111) => {
            (EcnMode::AccEcn, field_feedback(field))
        }
        (_, 0b011) if field != Ecn::NotEct && !ect_syn => (EcnMode::Off, TcpBits(0)),
        (_, 0b011) | (EcnSupport::Classic | EcnSupport::Sce, 0b111) => {
            (EcnMode::Classic, TcpBits::ECE)
        }
        _ => (EcnMode::Off, TcpBits(0)),
    }
}

/// The client's side: the mode that the SYN/ACK's flags mean. 0b101, once the ECN nonce, is "reserved" in
/// Table 2 of RFC 9768; sections 3.1.2 and 3.1.3 say to take it as AccECN, and Linux 7.2 does.
pub fn read_syn_ack(client: EcnSupport, bits: TcpBits) -> EcnMode {
    match (client, bits.0) {
        (EcnSupport::AccEcn, 0b010..=0b110) => EcnMode::AccEcn,
        (EcnSupport::Off, _) => EcnMode::Off,
        (_, 0b001) => EcnMode::Classic,
        _ => EcnMode::Off,
    }
}

/// The handshake's encoding of a received ECN field, in SYN/ACK and third ACK.
pub fn field_feedback(field: Ecn) -> TcpBits {
    TcpBits(match field {
        Ecn::NotEct => 0b010,
        Ecn::Ect1 => 0b011,
        Ecn::Ect0 => 0b100,
        Ecn::Ce => 0b110,
    })
}

/// Offset of the ACE counter, so that zero marks are not an all-zero field (RFC 9768, 3.2.1).
const ACE_INIT: u32 = 5;
const ACE_MASK: u32 = 7;
/// The ACE field before any mark.
pub const ACE_START: TcpBits = TcpBits(ACE_INIT as u8);
/// Counters of the option are 24 bits wide and start at 1, 0, 1 (RFC 9768, 3.2.1).
const BYTES_MASK: u32 = 0xff_ffff;
const E0B_INIT: u32 = 1;
const E1B_INIT: u32 = 1;
/// More than this many packets per ACK on average, and ACKs are being thinned: the wrap of ACE is
/// then more likely than marks on everything (Linux `ACK_COMP_THRESH`).
const THINNED_ACKS: u32 = 4;
/// CE marks pending that force an ACK (Linux `TCP_ACCECN_ACE_MAX_DELTA`).
pub const MAX_PENDING_CE: u32 = 6;
/// Bytes for options beside timestamps, and without these.
pub const ROOM: u32 = 40 - 12;
pub const ROOM_WITHOUT_TIMESTAMPS: u32 = 40;
/// Length of the option with all three counters, padded.
pub const OPTION_LEN: u32 = 12;

/// The ACE field after one more mark.
pub fn next_ace(ace: TcpBits) -> TcpBits {
    TcpBits((ace.0 + 1) & ACE_MASK as u8)
}

/// The receiver's counters. They wrap at 32 bits, and so at the 3 and 24 bits of the wire.
#[derive(Clone, Debug, Default)]
pub struct AccEcnReceiver {
    ce_packets: u32,
    /// By field.
    bytes: [u32; 4],
    last_field: Ecn,
    /// Marks not reported yet.
    pub pending_ce: u32,
    /// Fields that the next option must have, in its order: ECT(1), CE, ECT(0).
    fields: u8,
}

impl AccEcnReceiver {
    /// Counts an arriving packet; true if the ECN field changed, which asks for an ACK at once.
    pub fn count(&mut self, field: Ecn, payload: u32) -> bool {
        // The processor cannot predict the field, so there is no branch.
        let bits = field.bits();
        let bytes = &mut self.bytes[usize::from(bits)];
        *bytes = bytes.wrapping_add(payload);
        let is_ce = u32::from(field == Ecn::Ce);
        self.ce_packets = self.ce_packets.wrapping_add(is_ce);
        self.pending_ce += is_ce;
        // The place in the option: 1 for ECT(1), 2 for CE, 3 for ECT(0).
        self.fields = self.fields.max(bits ^ bits >> 1);
        let changed = field != self.last_field;
        self.last_field = field;
        changed
    }
    /// Counts an arriving packet without payload.
    pub fn count_ack(&mut self, field: Ecn) -> bool {
        let is_ce = u32::from(field == Ecn::Ce);
        self.ce_packets = self.ce_packets.wrapping_add(is_ce);
        self.pending_ce += is_ce;
        std::mem::replace(&mut self.last_field, field) != field
    }
    /// What arrives next has this field if nothing changes.
    pub fn expect(&mut self, field: Ecn) {
        self.last_field = field;
    }
    /// Room for the option beside so many SACK blocks, in `room` bytes of options: its length (0: it does not fit)
    /// and the blocks that remain. Counters that have not moved may be left out, and a third block gives way to one
    /// that has (Linux `tcp_options_fit_accecn`). Beside timestamps and two blocks there is room for two counters.
    #[inline(always)]
    pub fn fit_option(&mut self, blocks: usize, room: u32) -> (u32, usize) {
        if blocks <= 1 {
            self.fields = 0;
            return (OPTION_LEN, blocks);
        }
        self.fit_beside(blocks, room)
    }

    #[cold]
    fn fit_beside(&mut self, blocks: usize, room: u32) -> (u32, usize) {
        // Blocks end on a word; two of the option's bytes take the place of their padding.
        let lengths = [(3, OPTION_LEN), (2, OPTION_LEN - 4), (1, OPTION_LEN - 8)];
        let least = if blocks > 2 && self.fields > 0 { 2 } else { blocks };
        for left in (least..=blocks).rev() {
            let free = room.saturating_sub(4 + 8 * left as u32);
            let mut enough = lengths.iter().filter(|(fields, _)| *fields >= self.fields.max(1));
            if let Some((_, len)) = enough.find(|(_, len)| *len <= free) {
                self.fields = 0;
                return (*len, left);
            }
        }
        (0, blocks)
    }
    /// The ACE field.
    pub fn ace(&self) -> TcpBits {
        TcpBits((self.ce_packets.wrapping_add(ACE_INIT) & ACE_MASK) as u8)
    }
    /// The option's counters as they go on the wire.
    pub fn option(&self) -> EcnBytes {
        let [_, ect1, ect0, ce] = self.bytes;
        EcnBytes {
            ect0: ect0.wrapping_add(E0B_INIT) & BYTES_MASK,
            ce: ce & BYTES_MASK,
            ect1: ect1.wrapping_add(E1B_INIT) & BYTES_MASK,
        }
    }
}

/// The sender's reading of AccECN feedback.
#[derive(Clone, Debug, Default)]
pub struct AccEcnSender {
    ce_packets: u32,
    /// Counters of the last option: ECT(1), CE, ECT(0).
    bytes: [u32; 3],
    /// The bit of the only counter that moved lately, which an ACK without the option is taken to cover; 0: none.
    moving: u8,
    /// Average of packets per ACK, in 64ths.
    packets_per_ack: u32,
}

impl AccEcnSender {
    /// Bytes that arrived with ECT(1), CE and ECT(0), as far as options told.
    pub fn bytes(&self) -> [u32; 3] {
        self.bytes
    }
}

/// Places of the counters.
const ECT1: usize = 0;
const CE: usize = 1;
const ECT0: usize = 2;

impl AccEcnSender {
    /// How many of the `delivered` segments (`delivered_bytes` of payload) that this ACK newly
    /// covers were marked. The 3-bit counter may have wrapped if more than 7 were covered; the
    /// byte counter of the option, if present, tells how often.
    #[inline(always)]
    pub fn decode(
        &mut self,
        ace: TcpBits,
        option: Option<EcnBytes>,
        delivered: u32,
        delivered_bytes: u32,
        mss: u32,
    ) -> u32 {
        if delivered > 0 {
            let now = delivered << 6;
            self.packets_per_ack = match self.packets_per_ack {
                0 => now,
                avg => ((avg << 6) - avg + now) >> 6,
            }
            .min(0xffff);
        }
        let delta =
            u32::from(ace.0).wrapping_sub(ACE_INIT).wrapping_sub(self.ce_packets) & ACE_MASK;
        let marks = if self.is_unmarked(option) {
            delta
        } else {
            let ce_bytes = self.read_option(option, delivered_bytes);
            self.resolve_wrap(delta, ce_bytes, delivered, delivered_bytes, mss)
        };
        self.ce_packets = self.ce_packets.wrapping_add(marks);
        marks
    }

    /// A part of [`Self::read_option`] that is most often all: only ECT(1) has arrived, as before.
    #[inline(always)]
    fn is_unmarked(&mut self, option: Option<EcnBytes>) -> bool {
        let Some(o) = option else { return false };
        let ect1 = o.ect1.wrapping_sub(E1B_INIT) & BYTES_MASK;
        let delta = ect1.wrapping_sub(self.bytes[ECT1]) & BYTES_MASK;
        let is_unmarked = self.moving == 1 << ECT1
            && delta < 1 << 23
            && o.ce & BYTES_MASK == self.bytes[CE]
            && o.ect0.wrapping_sub(E0B_INIT) & BYTES_MASK == self.bytes[ECT0];
        if is_unmarked {
            self.bytes[ECT1] = ect1;
        }
        is_unmarked
    }

    /// Marked bytes that the ACK reports; `None` if that is uncertain: a counter went back (a
    /// reordered ACK), or several moved that had not moved before.
    #[inline(always)]
    fn read_option(&mut self, option: Option<EcnBytes>, delivered_bytes: u32) -> Option<u32> {
        let expected = self.moving;
        let Some(o) = option else {
            let place = (0..3).find(|&place| expected == 1 << place)?;
            self.bytes[place] = self.bytes[place].wrapping_add(delivered_bytes) & BYTES_MASK;
            return Some(if place == CE { delivered_bytes } else { 0 });
        };
        let counters = [o.ect1.wrapping_sub(E1B_INIT), o.ce, o.ect0.wrapping_sub(E0B_INIT)]
            .map(|counter| counter & BYTES_MASK);
        let before = std::mem::replace(&mut self.bytes, counters);
        let delta = |place: usize| counters[place].wrapping_sub(before[place]) & BYTES_MASK;
        let deltas = [delta(ECT1), delta(CE), delta(ECT0)];
        let bit = |place: usize| u8::from(deltas[place] != 0) << place;
        let others = (bit(ECT1) | bit(CE) | bit(ECT0)) & !expected;
        // The upper half of the range is a step back.
        let is_back = deltas[ECT1] | deltas[CE] | deltas[ECT0] >= 1 << 23;
        if is_back || others.count_ones() > 1 {
            self.moving = 0;
            return None;
        }
        if others != 0 {
            self.moving = others;
        }
        (expected != 0).then_some(deltas[CE])
    }

    fn resolve_wrap(
        &self,
        delta: u32,
        ce_bytes: Option<u32>,
        delivered: u32,
        delivered_bytes: u32,
        mss: u32,
    ) -> u32 {
        if delivered <= ACE_MASK {
            return delta;
        }
        // The most marks that agree with the counter.
        let safe = delivered - ((delivered - delta) & ACE_MASK);
        match ce_bytes {
            Some(0) => delta,
            Some(bytes) if delivered >= 2 * (ACE_MASK + 1) => {
                if delivered_bytes <= bytes {
                    return safe;
                }
                let share = u64::from(bytes) * u64::from(delivered);
                let estimate = share.div_ceil(u64::from(delivered_bytes.max(1))) as u32;
                safe.min(delta + (estimate & !ACE_MASK))
            }
            Some(bytes) if bytes > delta * mss => safe,
            Some(bytes) if bytes < safe * mss / 2 => delta,
            Some(_) => safe,
            None if self.packets_per_ack > THINNED_ACKS << 6 => delta,
            None => safe,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ecn::EcnSupport::{AccEcn, Classic, Off, Sce};

    /// What sender and receiver support, and what the connection ends up with (both sides).
    #[test]
    fn the_fallback_matrix() {
        use EcnMode as M;
        for (client, server, expected) in [
            (Off, Off, M::Off),
            (Off, Classic, M::Off),
            (Off, AccEcn, M::Off),
            (Classic, Off, M::Off),
            (Classic, Classic, M::Classic),
            (Classic, AccEcn, M::Classic),
            (AccEcn, Off, M::Off),
            (AccEcn, Classic, M::Classic),
            (AccEcn, AccEcn, M::AccEcn),
            (Sce, Sce, M::Classic),
            (Sce, Classic, M::Classic),
            (Classic, Sce, M::Classic),
            (Sce, AccEcn, M::Classic),
            (AccEcn, Sce, M::Classic),
            (Sce, Off, M::Off),
            (Off, Sce, M::Off),
        ] {
            let (mode, bits) = answer_syn(server, false, syn_bits(client), Ecn::NotEct);
            assert_eq!(mode, expected, "{client:?} to {server:?}, server");
            assert_eq!(read_syn_ack(client, bits), expected, "{client:?} to {server:?}, client");
        }
        // A broken server that mirrors the SYN's flags gets no ECN, and who asked for nothing has none.
        assert_eq!(read_syn_ack(AccEcn, TcpBits(0b111)), M::Off);
        assert!((0..8).all(|bits| read_syn_ack(Off, TcpBits(bits)) == M::Off));
    }

    /// Only its own kind gives classic ECN to DCTCP, whose SYN is ECT; what asks for AccECN may be ECT.
    #[test]
    fn an_ect_syn_gets_classic_ecn_from_its_own_kind_only() {
        for field in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            for server in [Classic, AccEcn, Sce] {
                assert_eq!(answer_syn(server, false, syn_bits(Classic), field).0, EcnMode::Off);
                assert_eq!(answer_syn(server, true, syn_bits(Classic), field).0, EcnMode::Classic);
            }
            assert_eq!(answer_syn(Classic, false, syn_bits(AccEcn), field).0, EcnMode::Classic);
            assert_eq!(answer_syn(AccEcn, false, syn_bits(AccEcn), field).0, EcnMode::AccEcn);
        }
    }

    /// RFC 9768, 3.1.3: who knows no better takes reserved flags for AccECN, on both sides.
    #[test]
    fn reserved_flags_mean_accecn() {
        for bits in [0b001, 0b010, 0b100, 0b101, 0b110] {
            let (mode, answer) = answer_syn(AccEcn, false, TcpBits(bits), Ecn::Ce);
            assert_eq!((mode, answer), (EcnMode::AccEcn, TcpBits(0b110)), "SYN with {bits:#05b}");
            for server in [Off, Classic, Sce] {
                assert_eq!(answer_syn(server, false, TcpBits(bits), Ecn::Ce).0, EcnMode::Off);
            }
        }
        assert_eq!(read_syn_ack(AccEcn, TcpBits(0b101)), EcnMode::AccEcn);
        for client in [Off, Classic, Sce] {
            assert_eq!(read_syn_ack(client, TcpBits(0b101)), EcnMode::Off);
        }
    }

    /// Both ends of a connection on which unmarked data has been acknowledged: the first counter to
    /// move is not believed yet (as in Linux).
    fn ends() -> (AccEcnReceiver, AccEcnSender) {
        let mut rx = AccEcnReceiver::default();
        let mut tx = AccEcnSender::default();
        for _ in 0..2 {
            rx.count(Ecn::Ect1, 1448);
            assert_eq!(tx.decode(rx.ace(), Some(rx.option()), 1, 1448, 1448), 0);
        }
        (rx, tx)
    }

    /// A change of the field asks for an ACK at once; marks are pending until they are told.
    #[test]
    fn changes_and_marks_are_noted() {
        let mut rx = AccEcnReceiver::default();
        let fields = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect1, Ecn::Ce, Ecn::Ce, Ecn::Ect1];
        let changed = fields.map(|field| rx.count(field, 1448));
        assert_eq!(changed, [false, true, false, true, false, true]);
        assert_eq!((rx.pending_ce, rx.ace()), (2, next_ace(next_ace(ACE_START))));
        let aces: Vec<u8> = std::iter::successors(Some(ACE_START), |ace| Some(next_ace(*ace)))
            .map(|ace| ace.0)
            .take(9)
            .collect();
        assert_eq!(aces, [5, 6, 7, 0, 1, 2, 3, 4, 5]);
    }

    /// The counter wraps every eight marks; the option says how often.
    #[test]
    fn marks_survive_the_wrap_of_ace() {
        for (covered, marked) in [(2, 1), (7, 7), (9, 9), (10, 1), (16, 16), (40, 24), (100, 99)] {
            let (mut rx, mut tx) = ends();
            for i in 0..covered {
                let field = if i < marked { Ecn::Ce } else { Ecn::Ect1 };
                rx.count(field, 1448);
            }
            let got = tx.decode(rx.ace(), Some(rx.option()), covered, covered * 1448, 1448);
            assert_eq!(got, marked, "{marked} of {covered}");
        }
    }

    /// Bytes for the option, and SACK blocks left, with so many blocks to report.
    #[test]
    fn the_option_shares_its_room_with_sack_blocks() {
        for (field, expected) in [
            (Ecn::NotEct, [(12, 0), (12, 1), (8, 2), (0, 3)]),
            (Ecn::Ect0, [(12, 0), (12, 1), (0, 2), (0, 3)]),
            (Ecn::Ect1, [(12, 0), (12, 1), (8, 2), (8, 2)]),
            (Ecn::Ce, [(12, 0), (12, 1), (8, 2), (8, 2)]),
        ] {
            for (blocks, expected) in expected.into_iter().enumerate() {
                let mut rx = AccEcnReceiver::default();
                rx.count(field, 1448);
                assert_eq!(rx.fit_option(blocks, ROOM), expected, "{field:?}, {blocks} blocks");
                // What has been told need not be told again: a third block goes first.
                assert_eq!(rx.fit_option(3, ROOM), (0, 3), "{field:?} after {blocks} blocks");
            }
        }
    }

    /// An ACK without the option is taken to cover what the last ones covered.
    #[test]
    fn without_the_option_the_last_counter_moves_on() {
        let mut rx = AccEcnReceiver::default();
        let mut tx = AccEcnSender::default();
        rx.count(Ecn::Ect0, 1448);
        tx.decode(rx.ace(), Some(rx.option()), 1, 1448, 1448);
        for _ in 0..20 {
            rx.count(Ecn::Ect0, 1448);
        }
        assert_eq!(tx.decode(rx.ace(), None, 20, 20 * 1448, 1448), 0);
        rx.count(Ecn::Ce, 1448);
        assert_eq!(tx.decode(rx.ace(), Some(rx.option()), 1, 1448, 1448), 1);
    }

    #[test]
    fn without_the_option_a_long_ack_counts_the_worst_case() {
        let mut rx = AccEcnReceiver::default();
        let mut tx = AccEcnSender::default();
        assert_eq!(tx.decode(rx.ace(), None, 2, 2 * 1448, 1448), 0);
        for _ in 0..10 {
            rx.count(Ecn::Ect1, 1448);
        }
        rx.count(Ecn::Ce, 1448);
        assert_eq!(tx.decode(rx.ace(), None, 11, 11 * 1448, 1448), 1 + 8);
    }

    #[test]
    fn byte_counters_wrap_at_24_bits() {
        let (mut rx, mut tx) = ends();
        let mut total = 0;
        for _ in 0..40_000 {
            for _ in 0..8 {
                rx.count(Ecn::Ce, 1448);
            }
            total += tx.decode(rx.ace(), Some(rx.option()), 8, 8 * 1448, 1448);
        }
        assert_eq!(total, 320_000);
    }

    /// After 4.3 GB of each kind the counters still say how much has come since.
    #[test]
    fn byte_counters_go_on_beyond_32_bits() {
        for (field, place) in [(Ecn::Ect0, 2), (Ecn::Ect1, 0), (Ecn::Ce, 1)] {
            let wire = |rx: &AccEcnReceiver| {
                let o = rx.option();
                [o.ect1, o.ce, o.ect0]
            };
            let mut rx = AccEcnReceiver::default();
            let begin = wire(&rx);
            let mut sum = 0_u64;
            while sum <= 1 << 32 {
                let before = wire(&rx);
                rx.count(field, 60_001);
                sum += 60_001;
                let after = wire(&rx);
                for i in 0..3 {
                    let step = after[i].wrapping_sub(before[i]) & BYTES_MASK;
                    assert_eq!(step, if i == place { 60_001 } else { 0 }, "{field:?} after {sum}");
                }
            }
            let total = u64::from(begin[place]) + sum;
            assert_eq!(u64::from(wire(&rx)[place]), total & u64::from(BYTES_MASK), "{field:?}");
        }
    }
}
