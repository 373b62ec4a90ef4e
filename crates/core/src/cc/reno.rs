//! Reno (RFC 5681): one segment per round trip, half on congestion. With ABE (RFC 8511) the
//! reduction on ECN is smaller.

use super::{Ack, Congestion, CongestionControl, Controller, MIN_WINDOW, Role, Window};
use crate::params::Described;
use crate::params::kinds::{fraction, params};
use crate::rng::Rng;
use crate::time::Time;

/// Multiplicative factor on loss.
const BETA: f64 = 0.5;

params! {
    pub struct Options {
        /// factor on an ECN mark; 0.8 with ABE (RFC 8511)
        beta_ecn: f64 = BETA, fraction(), "RFC 5681 and RFC 3168";
        /// factor on a loss
        beta: f64 = BETA, fraction(), "RFC 5681";
    }
}

impl Described for Options {
    const NAME: &'static str = "reno";
    const SUMMARY: &'static str = "Reno (RFC 5681)";
}

impl Controller for Options {
    type Made = Reno;
    const ROLE: Role = Role::Classic;
    const LOOK: u8 = 2;
    fn build(&self, _rng: Rng) -> Reno {
        Reno { beta_ecn: self.beta_ecn, beta: self.beta }
    }
}

/// Reno's window.
#[derive(Clone, Debug)]
pub struct Reno {
    beta_ecn: f64,
    beta: f64,
}

impl Reno {
    pub fn new(beta_ecn: f64) -> Reno {
        Reno { beta_ecn, beta: BETA }
    }
    /// Plain RFC 5681, which other controllers give way to.
    pub fn plain() -> Reno {
        Reno::new(BETA)
    }
}

/// Slow start, then one segment per window.
pub fn grow(ack: &Ack, w: &mut Window) {
    if !ack.state.may_grow || !ack.usage.cwnd_limited {
        return;
    }
    let mut acked = ack.acked;
    if w.in_slow_start() {
        acked = w.slow_start(acked);
    }
    if acked > 0 {
        w.additive_increase(w.cwnd, acked);
    }
}

impl CongestionControl for Reno {
    fn on_ack(&mut self, ack: &Ack, w: &mut Window) {
        grow(ack, w);
    }

    fn on_congestion(&mut self, why: Congestion, _at: Time, w: &mut Window) {
        let beta = if why == Congestion::Ecn { self.beta_ecn } else { self.beta };
        w.ssthresh = ((f64::from(w.cwnd) * beta) as u32).max(MIN_WINDOW);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::{AckState, AckUsage};

    fn ack(acked: u32) -> Ack {
        Ack {
            acked,
            usage: AckUsage { cwnd_limited: true, ..AckUsage::default() },
            state: AckState { may_grow: true, ..AckState::default() },
            ..Ack::default()
        }
    }

    #[test]
    fn one_segment_per_window_then_half() {
        let mut r = Reno::plain();
        let mut w = Window::new(1448, 52);
        w.ssthresh = 10;
        for _ in 0..5 {
            r.on_ack(&ack(2), &mut w);
        }
        assert_eq!(w.cwnd, 11);
        w.cwnd = 31;
        r.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
        assert_eq!(w.ssthresh, 15);
    }

    #[test]
    fn no_growth_unless_the_window_limits() {
        let mut r = Reno::plain();
        let mut w = Window::new(1448, 52);
        r.on_ack(
            &Ack { usage: AckUsage { cwnd_limited: false, ..AckUsage::default() }, ..ack(10) },
            &mut w,
        );
        r.on_ack(
            &Ack { state: AckState { may_grow: false, ..AckState::default() }, ..ack(10) },
            &mut w,
        );
        assert_eq!(w.cwnd, 10);
    }

    #[test]
    fn abe_reduces_less_on_a_mark() {
        let mut r = Reno::new(0.8);
        let mut w = Window::new(1448, 52);
        w.cwnd = 100;
        r.on_congestion(Congestion::Ecn, Time::ZERO, &mut w);
        assert_eq!(w.ssthresh, 80);
        r.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
        assert_eq!(w.ssthresh, 50);
    }
}
