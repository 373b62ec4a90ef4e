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

use super::cubic::Cubic;
use super::registry::{Controller, Param};
use super::sce::{RecentSce, leave_slow_start};
use super::{Ack, Congestion, CongestionControl, EcnWish, MIN_WINDOW, Window};
use crate::aqm::Gauges;
use crate::time::Time;

/// CUBIC's own factor, on CE and on loss.
const BETA: f64 = 0.7;
/// The factor on CE is 7/8 if SCE was seen lately.
const CE_AFTER_SCE: (u32, u32) = (7, 8);

pub const CONTROLLER: Controller = Controller {
    name: "cubic-sce",
    summary: "CUBIC with a response of the window's root to SCE (chromi/sce)",
    parameters: &[
        Param { name: "hystart", default: "on", help: "end slow start before the first loss" },
        Param {
            name: "fast_convergence",
            default: "on",
            help: "yield when the maximum shrinks (RFC 9438, 4.7)",
        },
        Param { name: "hz", default: "250", help: "timer ticks per second of the modelled kernel" },
    ],
    build: |o| {
        let cubic = Cubic::from_options(o, false, BETA)?;
        Ok(Box::new(CubicSce { cubic, recent: RecentSce::default() }))
    },
};

/// See the module.
#[derive(Clone, Debug)]
struct CubicSce {
    cubic: Cubic,
    recent: RecentSce,
}

impl CubicSce {
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
        if self.recent.see(ack, w.cwnd) && !ack.reducing {
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

    fn ecn(&self) -> EcnWish {
        EcnWish::Ect0Sce
    }

    fn probe(&self, out: &mut dyn Gauges) {
        self.cubic.probe(out);
        self.recent.probe(out);
    }
}
