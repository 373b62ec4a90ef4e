//! cubic-sce (github.com/chromi/sce, `tcp_cubic_sce.c`): CUBIC as Linux does it, with an answer to SCE.
//!
//! An ACK with ESCE moves the plateau of the cubic to here and now, so that growth slows down without
//! a new epoch, and takes sqrt(cwnd) segments per marked segment off the counter of the Reno-friendly
//! region: a round trip of marks costs the root of the window. The plateau sinks with the window; the
//! Reno estimate does not. Before the first epoch SCE only ends slow start. CE takes an eighth where SCE
//! was seen lately, 0.3 otherwise, a loss 0.3.
//!
//! The module means to move the plateau by the part acked/sqrt(cwnd) of the way, but compares bytes with
//! segments: every mark moves it the whole way, and so here. Below the plateau its level overflows in the
//! module, whereupon the window grows by half per round trip; here the curve is continuous. There, a loss
//! after SCE takes an eighth, too, and ESCE during CWR halves the window.

use super::cubic::{self, BETA, Common, Cubic};
use super::sce::{self, RecentSce, leave_slow_start};
use super::{
    Ack, Congestion, CongestionControl, Constants, Controller, EcnWish, MIN_WINDOW, Role, Window,
};
use crate::params::kinds::{nested, params};
use crate::params::{Described, Gauge};
use crate::probe::Gauges;
use crate::rng::Rng;
use crate::time::Time;

/// The factor on CE is 7/8 if SCE was seen lately.
const CE_AFTER_SCE: (u32, u32) = (7, 8);

params! {
    pub struct Options {
        common: Common = Common::default(), nested();
    }
}

impl Described for Options {
    const NAME: &'static str = "cubic-sce";
    const SUMMARY: &'static str = "CUBIC with a response of the window's root to SCE (chromi/sce)";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] = &[cubic::GAUGES[0], sce::GAUGES[0]];
}

impl Controller for Options {
    type Made = CubicSce;
    const ROLE: Role = Role::Sce;
    const LOOK: u8 = 0;
    fn build(&self, _rng: Rng) -> CubicSce {
        CubicSce::new(&self.common)
    }
}

/// CUBIC that also reacts to SCE marks.
#[derive(Clone, Debug)]
pub struct CubicSce {
    cubic: Cubic,
    recent: RecentSce,
}

impl CubicSce {
    fn new(options: &Common) -> CubicSce {
        CubicSce { cubic: Cubic::new(options, false, BETA), recent: RecentSce::default() }
    }
    fn answer(&mut self, ack: &Ack, w: &mut Window) {
        let now = self.cubic.clock(ack.now);
        if let Some(e) = &mut self.cubic.epoch {
            e.flatten(now);
            let root = (w.cwnd - 1).isqrt();
            e.reno_acked -= i64::from(ack.acked) * i64::from(root);
            let step = i64::from(w.cwnd);
            while e.reno_acked <= -step {
                e.reno_acked += step;
                if w.cwnd > MIN_WINDOW {
                    w.cwnd -= 1;
                }
                e.origin = e.origin.saturating_sub(1);
            }
        }
        leave_slow_start(w);
    }
}

impl CongestionControl for CubicSce {
    fn on_ack(&mut self, ack: &Ack, w: &mut Window) {
        if self.recent.see(ack, w.cwnd) && !ack.state.reducing {
            self.answer(ack, w);
        }
        self.cubic.on_ack(ack, w);
    }

    fn on_congestion(&mut self, why: Congestion, at: Time, w: &mut Window) {
        let cwnd = w.cwnd;
        self.cubic.on_congestion(why, at, w);
        match why {
            Congestion::Ecn if self.recent.any() => {
                let (num, den) = CE_AFTER_SCE;
                w.ssthresh = (cwnd * num / den).max(MIN_WINDOW);
            }
            Congestion::Timeout => self.recent.forget(),
            _ => {}
        }
    }

    fn on_restart(&mut self, at: Time, since: Time, w: &mut Window) {
        self.cubic.on_restart(at, since, w);
    }

    fn constants(&self) -> Constants {
        Constants { ecn: EcnWish::Ect0Sce, ..Constants::default() }
    }

    fn probe(&self, out: &mut dyn Gauges) {
        self.cubic.probe(out);
        self.recent.probe(out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sce::vectors::{ack, rounds, window};
    use super::*;
    use crate::cc::{AckRtt, AckState, AckUsage};
    use crate::time::Span;

    fn cubic_sce() -> CubicSce {
        CubicSce::new(&Common { hystart: false, ..Common::default() })
    }

    fn at(ms: u64, acked: u32, esce: bool) -> Ack {
        let now = Time::ZERO + Span::from_millis(ms);
        Ack {
            now,
            rtt: AckRtt { newest_us: Some(100_000), srtt8: 800_000, ..AckRtt::default() },
            ..ack(acked, esce)
        }
    }

    /// An epoch has begun at 100 segments; ACKs that may not grow the window show the cut alone:
    /// sqrt(99) rounded down per segment and window.
    #[test]
    fn a_window_of_marks_costs_its_root() {
        let mut cc = cubic_sce();
        let mut w = window(100);
        cc.on_ack(&at(4, 1, false), &mut w);
        for _ in 0..50 {
            cc.on_ack(
                &Ack {
                    usage: AckUsage { cwnd_limited: false, ..AckUsage::default() },
                    ..at(4, 2, true)
                },
                &mut w,
            );
        }
        assert_eq!((w.cwnd, w.ssthresh), (91, 45));
        assert!(cc.recent.any());
    }

    #[test]
    fn without_an_epoch_a_mark_only_ends_slow_start() {
        let mut cc = cubic_sce();
        let mut w = Window::new(1448, 52);
        w.cwnd = 40;
        cc.on_ack(
            &Ack { state: AckState { may_grow: false, ..AckState::default() }, ..at(4, 2, true) },
            &mut w,
        );
        assert_eq!((w.cwnd, w.ssthresh), (40, 20));
    }

    /// At an RTT of 100 ms, twelve seconds after a reduction at 400 segments, the curve is beyond its
    /// plateau and rises by 30 segments per second. A mark flattens it there.
    #[test]
    fn a_mark_flattens_the_curve() {
        let growth = |marked: bool| {
            let mut cc = cubic_sce();
            let mut w = window(400);
            cc.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
            w.cwnd = w.ssthresh;
            let rtt = Span::from_millis(100);
            assert!(rounds(&mut cc, &mut w, 120, false, rtt) > 430); // from 10 s on
            let now = Time::ZERO + Span::from_secs(22);
            cc.on_ack(&at(22_000, 2, marked), &mut w);
            let e = cc.cubic.epoch.as_ref().unwrap();
            let (start, origin) = (e.start, e.origin);
            if marked {
                assert_eq!(start, now);
                assert!(origin.abs_diff(u64::from(w.cwnd)) < 40, "{origin} at {}", w.cwnd);
            } else {
                assert!(start < now);
                assert_eq!(origin, 400);
            }
            let before = w.cwnd;
            for ms in (22_004..22_500).step_by(4) {
                cc.on_ack(&at(ms, 20, false), &mut w);
            }
            w.cwnd - before
        };
        let (free, marked) = (growth(false), growth(true));
        assert!(marked * 2 < free, "{marked} after a mark, {free} without");
    }

    /// Below the plateau the level is that of the curve, too: 280 + what 1 s has regained.
    #[test]
    fn a_mark_below_the_plateau_keeps_the_level() {
        let mut cc = cubic_sce();
        let mut w = window(400);
        cc.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
        w.cwnd = w.ssthresh;
        cc.on_ack(&at(0, 1, false), &mut w);
        cc.on_ack(
            &Ack {
                state: AckState { may_grow: false, ..AckState::default() },
                ..at(1000, 1, true)
            },
            &mut w,
        );
        // K = cbrt(120/0.4) = 6.69 s; 400 - 0.4 * 5.69^3 = 326.
        let e = cc.cubic.epoch.as_ref().unwrap();
        assert!((325..=327).contains(&e.origin), "{}", e.origin);
    }

    #[test]
    fn ce_takes_less_beside_sce() {
        let mut cc = cubic_sce();
        let mut w = window(80);
        cc.on_congestion(Congestion::Ecn, Time::ZERO, &mut w);
        assert_eq!(w.ssthresh, 56);
        cc.on_ack(
            &Ack { state: AckState { may_grow: false, ..AckState::default() }, ..at(4, 1, true) },
            &mut w,
        );
        cc.on_congestion(Congestion::Ecn, Time::ZERO, &mut w);
        assert_eq!(w.ssthresh, 70);
        cc.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
        assert_eq!(w.ssthresh, 56);
        cc.on_congestion(Congestion::Timeout, Time::ZERO, &mut w);
        assert!(!cc.recent.any());
    }
}
