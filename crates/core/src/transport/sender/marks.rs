//! ECN at the sender: what both ends agreed on, and which of its segments were marked.

use crate::packet::{Flags, Packet, TcpBits};
use crate::transport::ecn::{AccEcnSender, EcnMode};
use crate::transport::scoreboard::AckOutcome;

/// What the sender knows of ECN: the negotiated mode, and the marks that the peer reported.
#[derive(Clone, Debug, Default)]
pub struct EcnState {
    pub mode: EcnMode,
    /// The next new segment has CWR.
    pub announces_cwr: bool,
    feedback: AccEcnSender,
    /// Flags of a server's SYN/ACK, and how often it was sent again.
    pub answer: TcpBits,
    pub answered_again: u32,
    /// The ACK has a newer timestamp than those before.
    pub clock_moves: bool,
}

impl EcnState {
    /// Bytes that arrived with ECT(1), CE and ECT(0).
    pub fn bytes(&self) -> [u32; 3] {
        self.feedback.bytes()
    }

    /// How many of the segments newly delivered were marked, as far as the feedback tells. `mss`: of a segment without
    /// the AccECN option, of which the kernel's `mss_cache` does not know.
    #[inline(always)]
    pub fn marks(&mut self, pkt: &Packet, outcome: &AckOutcome, mss: u32) -> Marks {
        let counted = match self.mode {
            EcnMode::Off => 0,
            EcnMode::Classic if pkt.bits.has(TcpBits::ECE) => outcome.delivered,
            EcnMode::Classic => 0,
            // Without progress it may be an old ACK, and its counter behind ours.
            EcnMode::AccEcn if !outcome.una_advanced && !outcome.sacked && !self.clock_moves => 0,
            EcnMode::AccEcn => {
                let option = pkt.flags.has(Flags::ACCECN_OPTION).then_some(pkt.ecn_bytes);
                let (n, bytes) = (outcome.delivered, outcome.delivered_bytes);
                self.feedback.decode(pkt.bits, option, n, bytes, mss)
            }
        };
        let is_classic = self.mode == EcnMode::Classic;
        // The echo counts even where nothing is newly delivered.
        let least = u32::from(is_classic && pkt.bits.has(TcpBits::ECE));
        let esce = is_classic && pkt.bits.has(TcpBits::ESCE);
        Marks { counted, ce: counted.max(least), esce }
    }
}

/// What an ACK tells of marks.
#[derive(Copy, Clone)]
pub struct Marks {
    /// Segments delivered with CE.
    pub counted: u32,
    /// The same, and at least one where the ACK echoes marks.
    pub ce: u32,
    /// There was SCE.
    pub esce: bool,
}
