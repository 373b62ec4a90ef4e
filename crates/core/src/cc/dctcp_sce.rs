//! dctcp-sce (github.com/chromi/sce, `tcp_dctcp_sce.c`): half a segment less per SCE-marked segment, as
//! DCTCP takes on average, but at once and without an average; Reno's growth. Its rate law is
//! W = 2 (1 - p)/p. Without a peer that echoes SCE it is Reno with a reduction by a quarter on CE.
//!
//! A threshold for slow start that never falls, which the kernel's latest version has, would let it go
//! on through SCE marks; this one ends it, as the versions before do.

use super::sce::{self, Additive, Law};
use super::{Controller, Role};
use crate::params::kinds::params;
use crate::params::{Described, Gauge};
use crate::rng::Rng;

params! {
    pub struct Options {}
}

impl Described for Options {
    const NAME: &'static str = "dctcp-sce";
    const SUMMARY: &'static str = "DCTCP's response to each SCE mark (chromi/sce)";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] = sce::GAUGES;
}

impl Controller for Options {
    type Made = Additive<HalfSegment>;
    const ROLE: Role = Role::Sce;
    const LOOK: u8 = 2;
    fn build(&self, _rng: Rng) -> Additive<HalfSegment> {
        Additive::new(HalfSegment)
    }
}

#[derive(Clone, Debug)]
pub struct HalfSegment;

impl Law for HalfSegment {
    fn cut(&self, cwnd: u32) -> u32 {
        cwnd
    }
}

#[cfg(test)]
mod tests {
    use super::super::sce::vectors::{rounds, window};
    use super::*;
    use crate::time::Span;

    /// A whole round trip of marks halves, however the ACKs are cut; one without gains a segment.
    #[test]
    fn half_a_segment_per_marked_segment() {
        let rtt = Span::from_millis(20);
        let mut cc = Additive::new(HalfSegment);
        let mut w = window(100);
        assert_eq!(rounds(&mut cc, &mut w, 1, true, rtt), 50);
        assert_eq!(rounds(&mut cc, &mut w, 10, false, rtt), 59);
        assert_eq!(rounds(&mut cc, &mut w, 20, true, rtt), 2, "never below two");
    }
}
