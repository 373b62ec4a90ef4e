//! DCTCP (RFC 8257) as in Linux 7.2 `net/ipv4/tcp_dctcp.c`: an estimate alpha of the fraction of
//! marked segments, and a reduction by alpha/2 once per round trip with marks; Reno's growth, and
//! half on loss. It needs a receiver that echoes each run of marks exactly
//! ([`crate::transport::receiver::Echo::Runs`]); where the peer has no ECN it gives way to Reno.

use super::reno::{self, Reno};
use super::{
    Ack, Congestion, CongestionControl, Constants, Controller, EcnWish, MIN_WINDOW, Role, Signals,
    Totals, Window,
};
use crate::params::kinds::{count, params};
use crate::params::{Described, Gauge, gauge};
use crate::probe::Gauges;
use crate::rng::Rng;
use crate::time::Time;

/// alpha = 1.
const ALPHA_ONE: u32 = 1024;
const ALPHA_BITS: u32 = 10;

params! {
    pub struct Options {
        /// gain of the estimate alpha: 1/2 to this power
        dctcp_shift_g: u32 = 4, count(0..=ALPHA_BITS), "Linux and RFC 8257";
        /// alpha at the start, of 1024; 1024: the first mark halves the window
        dctcp_alpha_on_init: u32 = ALPHA_ONE, count(0..=ALPHA_ONE), "Linux and RFC 8257";
    }
}

impl Described for Options {
    const NAME: &'static str = "dctcp";
    const SUMMARY: &'static str = "Data Center TCP (RFC 8257)";
    const GAUGES: &'static [Gauge] = &[gauge("alpha", "", "estimate of the fraction of marks")];
}

impl Controller for Options {
    type Made = Dctcp;
    const ROLE: Role = Role::Scalable;
    const LOOK: u8 = 1;
    const NEEDS_ECN: bool = true;
    fn build(&self, _rng: Rng) -> Dctcp {
        Dctcp::new(self.dctcp_shift_g, self.dctcp_alpha_on_init)
    }
}

/// DCTCP's window and its mean share of marks (alpha).
#[derive(Clone, Debug)]
pub struct Dctcp {
    shift_g: u32,
    alpha: u32,
    /// The round trip ends when this is acknowledged.
    round_end: u32,
    round_delivered: u32,
    round_delivered_ce: u32,
}

impl Dctcp {
    fn new(shift_g: u32, alpha: u32) -> Dctcp {
        Dctcp { shift_g, alpha, round_end: 0, round_delivered: 0, round_delivered_ce: 0 }
    }
}

impl Signals for Dctcp {
    fn on_feedback(&mut self, totals: &Totals) {
        if totals.snd_una < self.round_end {
            return;
        }
        let delivered = totals.delivered.wrapping_sub(self.round_delivered);
        let marked = totals.delivered_ce.wrapping_sub(self.round_delivered_ce);
        // What is too small to be divided goes at once, so that alpha reaches zero.
        let decay = self.alpha >> self.shift_g;
        self.alpha -= if decay == 0 { self.alpha } else { decay };
        if marked > 0 {
            let share = (marked << (ALPHA_BITS - self.shift_g)) / delivered.max(1);
            self.alpha = (self.alpha + share).min(ALPHA_ONE);
        }
        self.round_end = totals.snd_nxt;
        self.round_delivered = totals.delivered;
        self.round_delivered_ce = totals.delivered_ce;
    }
}

impl CongestionControl for Dctcp {
    fn on_ack(&mut self, ack: &Ack, w: &mut Window) {
        reno::grow(ack, w);
    }

    fn on_congestion(&mut self, why: Congestion, _at: Time, w: &mut Window) {
        let less = match why {
            Congestion::Ecn | Congestion::TailLoss => {
                (u64::from(w.cwnd) * u64::from(self.alpha)) >> (ALPHA_BITS + 1)
            }
            Congestion::Loss | Congestion::Timeout => u64::from(w.cwnd.div_ceil(2)),
        };
        w.ssthresh = (w.cwnd - less as u32).max(MIN_WINDOW);
    }

    fn constants(&self) -> Constants {
        let ecn = EcnWish::Ect0Runs;
        Constants { ecn, answers_loss_while_reducing: true, ..Constants::default() }
    }

    fn signals(&mut self) -> Option<&mut dyn Signals> {
        Some(self)
    }

    fn on_established(
        &mut self,
        granted: bool,
        ack: &Ack,
        _w: &mut Window,
    ) -> Option<Box<dyn CongestionControl>> {
        if !granted {
            return Some(Box::new(Reno::plain()));
        }
        self.round_end = ack.totals.snd_nxt;
        None
    }

    fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("alpha", f64::from(self.alpha) / f64::from(ALPHA_ONE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feedback(d: &mut Dctcp, delivered: u32, delivered_ce: u32) {
        let f = Totals { delivered, delivered_ce, snd_una: d.round_end, snd_nxt: d.round_end + 1 };
        d.on_feedback(&f);
    }

    /// RFC 8257, 3.3: alpha moves by 1/16 of its distance to the marked fraction.
    #[test]
    fn alpha_follows_the_marked_fraction() {
        let mut d = Dctcp::new(4, 1024);
        feedback(&mut d, 100, 0);
        assert_eq!(d.alpha, 960);
        feedback(&mut d, 200, 50); // 960 - 60 + 1024/16 * 1/2
        assert_eq!(d.alpha, 932);
        for round in 0..300 {
            feedback(&mut d, 300 + 100 * round, 50);
        }
        assert_eq!(d.alpha, 0);
    }

    #[test]
    fn alpha_waits_for_the_round_trip() {
        let mut d = Dctcp::new(4, 1024);
        d.round_end = 10;
        let early = Totals { delivered: 5, delivered_ce: 0, snd_una: 9, snd_nxt: 20 };
        d.on_feedback(&early);
        assert_eq!(d.alpha, 1024);
        d.on_feedback(&Totals { snd_una: 10, ..early });
        assert_eq!((d.alpha, d.round_end), (960, 20));
    }

    #[test]
    fn a_mark_takes_half_of_alpha_and_a_loss_one_half() {
        let mut d = Dctcp::new(4, 512);
        let mut w = Window::new(1448, 52);
        w.cwnd = 101;
        d.on_congestion(Congestion::Ecn, Time::ZERO, &mut w);
        assert_eq!(w.ssthresh, 76); // 101 - 101/4
        d.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
        assert_eq!(w.ssthresh, 50);
    }
}
