//! NAME: the rate of the encoder follows queueing delay and losses, as in NADA's gradual mode (RFC 8698).
//! Build it with: cargo build --release

mod l4slab;

use std::ffi::CStr;

use l4slab::{Gauge, Media, NEVER, NUMBER, Parameter, Rates, Report};

struct CLASS {
    reference: f64,
    penalty: f64,
    base: f64,
    losses: f64,
    signal: f64,
    last_ns: Option<u64>,
}

l4slab::media!(CLASS);

impl Media for CLASS {
    const SUMMARY: &'static CStr = c"the rate follows queueing delay and losses";
    const REPORT_INTERVAL_NS: u64 = 100_000_000;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(c"reference", NUMBER, c"10", c"queueing delay at the encoder's highest rate, ms").within(1.0, 100.0),
        Parameter::new(c"penalty", NUMBER, c"10", c"delay that 1 % of losses count as, ms").within(0.0, 1000.0),
    ];
    const GAUGES: &'static [Gauge] =
        &[Gauge::new(c"signal_ms", c"ms", c"queueing delay, and what losses add")];

    fn create(options: &[f64], _seed: u64) -> Self {
        let (reference, penalty) = (options[0], options[1]);
        CLASS { reference, penalty, base: f64::INFINITY, losses: 0.0, signal: 0.0, last_ns: None }
    }

    /// Growth by 5 % while the signal is small, then towards the rate that the signal asks for.
    fn on_report(&mut self, report: &Report, rates: &mut Rates) {
        let packets = report.packets();
        let arrived: Vec<u64> =
            packets.iter().filter(|p| p.arrived_ns != NEVER).map(|p| p.arrived_ns - p.sent_ns).collect();
        let Some(least) = arrived.iter().min() else { return };
        let delay = *least as f64 * 1e-6;
        self.base = self.base.min(delay);
        let lost = 1.0 - arrived.len() as f64 / packets.len() as f64;
        self.losses += 0.1 * (lost - self.losses);
        let percent = self.losses * 100.0;
        let signal = delay - self.base + self.penalty * percent * percent;
        let elapsed = self.last_ns.map_or(100.0, |last| (report.now_ns - last) as f64 * 1e-6);
        let mut rate = rates.target_bps;
        if signal < self.reference {
            rate *= 1.05;
        } else {
            let offset = signal - self.reference * rates.max_bps / rate;
            rate *= 1.0 - 0.5 * (elapsed / 500.0) * (offset / 500.0) - (signal - self.signal) / 500.0;
        }
        rates.target_bps = rate.max(rates.min_bps).min(rates.max_bps);
        // A frame has left before the next one.
        rates.pacing_bps = 1.1 * rates.target_bps;
        (self.signal, self.last_ns) = (signal, Some(report.now_ns));
    }

    fn probe(&self, gauges: &mut [f64]) {
        if self.last_ns.is_some() {
            gauges[0] = self.signal;
        }
    }
}
