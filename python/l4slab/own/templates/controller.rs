//! NAME: additive increase, multiplicative decrease. Build it with: cargo build --release

mod l4slab;

use std::ffi::CStr;

use l4slab::{Ack, Controller, Gauge, NUMBER, Parameter, Window};

struct CLASS {
    increase: f64,
    beta: f64,
    /// Part of a segment by which the window is to grow.
    credit: f64,
}

l4slab::controller!(CLASS);

impl Controller for CLASS {
    const SUMMARY: &'static CStr = c"additive increase, multiplicative decrease";
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(c"increase", NUMBER, c"1", c"segments per round trip").within(0.01, 100.0),
        Parameter::new(c"beta", NUMBER, c"0.5", c"factor on congestion").within(0.1, 0.9),
    ];
    const GAUGES: &'static [Gauge] =
        &[Gauge::new(c"credit", c"", c"part of a segment by which the window is to grow")];

    fn create(options: &[f64], _seed: u64) -> Self {
        CLASS { increase: options[0], beta: options[1], credit: 0.0 }
    }

    fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        if !ack.may_grow {
            return;
        }
        // Slow start, up to the threshold.
        let step = ack.acked.min(window.ssthresh.saturating_sub(window.cwnd));
        window.cwnd += step;
        self.credit += self.increase * f64::from(ack.acked - step) / f64::from(window.cwnd);
        window.cwnd += self.credit as u32;
        self.credit = self.credit.fract();
    }

    fn on_congestion(&mut self, _why: u32, _now_ns: u64, window: &mut Window) {
        window.ssthresh = ((f64::from(window.cwnd) * self.beta) as u32).max(2);
    }

    fn probe(&self, gauges: &mut [f64]) {
        gauges[0] = self.credit;
    }
}
