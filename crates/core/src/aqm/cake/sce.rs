//! `sce`: besides the signals of COBALT, "some congestion experienced" marks (ECT(0) made ECT(1),
//! draft-morton-tsvwg-sce). They are set at random and have no state: the sojourn alone gives the
//! probability, on a ramp with a knee.
//!
//! * Below half the target there are none. From there the probability rises from 0 to 1/N at the target
//!   (`sce-thresh N`; `sce` is N = 1), and then to 1 at twice the target.
//! * `sce-single` has no lower part: from 0 at the target to 1 at twice the target.
//! * "At the target" is where COBALT finds the sojourn too long, so at four full frames at least. On a
//!   slow link the lower part goes on with its own slope until then.
//!
//! Source: `sch_cake.c` of the kernel tree github.com/chromi/sce, and its `tc` (`q_cake.c` of
//! github.com/heistp/iproute2-sce). The integers are the kernel's: slopes per nanosecond in 2^-32, cut
//! off. That shows where the ramp is flat: at a target of 5 ms the lower slope of `sce-thresh 1024` is 1
//! instead of 1.68, so 1/1718 of the packets are marked just below the target and 1/1024 just above; and
//! at a target above 8.4 ms it is 0.

use crate::aqm::{Pkt, QueueCx};
use crate::time::Span;

/// Certainty, in 2^-32.
const ONE: u64 = u32::MAX as u64;
/// The bound of `sce-thresh` (`tc`).
pub const THRESH_MAX: u32 = 1024;

/// The keywords `no-sce`, `sce-thresh` and `sce-single`.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Sce {
    #[default]
    Off,
    Thresh(u32),
    Single,
}

impl Sce {
    /// For a tin with this target.
    pub fn ramp(self, target: Span) -> Option<Ramp> {
        let begin = target / 2;
        match self {
            Sce::Off => None,
            Sce::Thresh(n) => {
                let knee = ONE / u64::from(n);
                let high = (ONE - knee) / target.0;
                Some(Ramp { begin, low: knee / begin.0, target, knee, high })
            }
            Sce::Single => Some(Ramp { begin, low: 0, target, knee: 0, high: ONE / target.0 }),
        }
    }
}

/// The probability of a mark over the sojourn. Slopes are in 2^-32 per nanosecond.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Ramp {
    begin: Span,
    low: u64,
    target: Span,
    /// At the target, in 2^-32.
    knee: u64,
    high: u64,
}

impl Ramp {
    /// In 2^-32, and more than that where it is certain. `over`: COBALT finds the sojourn too long.
    #[inline]
    pub fn probability(&self, sojourn: Span, over: bool) -> u64 {
        if over {
            (sojourn - self.target).0.saturating_mul(self.high).saturating_add(self.knee)
        } else {
            sojourn.0.saturating_sub(self.begin.0).saturating_mul(self.low)
        }
    }

    #[inline]
    pub fn mark<P: Pkt>(&self, over: bool, pkt: &mut P, cx: &mut QueueCx<P>) {
        let p = self.probability(cx.now.since(pkt.enqueued_at()), over);
        if p > ONE || (p > 0 && u64::from(cx.rng.u32()) < p) {
            cx.mark_sce(pkt);
        }
    }
}
