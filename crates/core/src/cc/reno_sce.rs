//! reno-sce (github.com/chromi/sce, `tcp_reno_sce.c`): a marked segment takes sqrt(cwnd)/2 off a
//! counter of segments, so that a round trip of marks costs half the root of the window; Reno's growth.
//! Its rate law is W = (2 (1 - p)/p)^2: it yields where another flow needs the mark more. Without a peer
//! that echoes SCE it is Reno with a reduction by a quarter on CE.
//!
//! A later version of the module takes the whole root.

use super::sce::{self, Additive, Law};
use super::{Controller, Role};
use crate::params::kinds::params;
use crate::params::{Described, Gauge};
use crate::rng::Rng;

params! {
    pub struct Options {}
}

impl Described for Options {
    const NAME: &'static str = "reno-sce";
    const SUMMARY: &'static str =
        "Reno with a response of half the window's root to SCE (chromi/sce)";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] = sce::GAUGES;
}

impl Controller for Options {
    type Made = Additive<HalfRoot>;
    const ROLE: Role = Role::Sce;
    const LOOK: u8 = 1;
    fn build(&self, _rng: Rng) -> Additive<HalfRoot> {
        Additive::new(HalfRoot { root: 1 })
    }
}

/// The root is rounded up on the way up and down on the way down.
#[derive(Clone, Debug)]
pub struct HalfRoot {
    root: u32,
}

impl Law for HalfRoot {
    fn cut(&self, _cwnd: u32) -> u32 {
        self.root
    }
    fn stepped(&mut self, cwnd: u32, up: bool) {
        let square = self.root * self.root;
        if up && square < cwnd {
            self.root += 1;
        } else if !up && square >= cwnd {
            self.root -= 1;
        }
    }
    fn moved(&mut self, cwnd: u32) {
        self.root = (cwnd - 1).isqrt() + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::sce::vectors::{rounds, window};
    use super::*;
    use crate::time::Span;

    /// At a window of 100, 10 and then 9 halves per segment: 100, 99, 98 and 97 are paid by 50 ACKs.
    #[test]
    fn half_the_root_per_round_trip_of_marks() {
        let rtt = Span::from_millis(20);
        let mut cc = Additive::new(HalfRoot { root: 1 });
        let mut w = window(100);
        assert_eq!(rounds(&mut cc, &mut w, 1, true, rtt), 96);
        assert_eq!(rounds(&mut cc, &mut w, 1, true, rtt), 91);
        // Ten round trips, less what the counter still owes.
        assert_eq!(rounds(&mut cc, &mut w, 10, false, rtt), 100);
    }

    #[test]
    fn the_root_follows_the_window() {
        let mut law = HalfRoot { root: 1 };
        for (cwnd, root) in [(2, 2), (4, 2), (5, 3), (100, 10), (101, 11)] {
            law.moved(cwnd);
            assert_eq!(law.root, root, "{cwnd}");
        }
        law.moved(101);
        law.stepped(100, false);
        assert_eq!(law.root, 10, "11 * 11 >= 100");
        law.stepped(99, false);
        assert_eq!(law.root, 9, "10 * 10 >= 99");
        law.stepped(100, true);
        assert_eq!(law.root, 10);
    }
}
