//! NADA (RFC 8698): one congestion signal, in milliseconds, from queue delay, marks and losses; the rate follows
//! it, so that flows with equal highest rates get equal rates.
//!
//! Marks count as in classic ECN; there is no L4S mode. They end the accelerated ramp-up as losses do: the RFC names
//! losses and queue delay only, with which a queue that marks early would never stop it.

use std::collections::VecDeque;

use super::arrivals::Arrivals;
use super::{FrameState, MediaController, MediaOptions, Rates, Report, Reports};
use crate::cc::Role;
use crate::ecn::Ecn;
use crate::math;
use crate::params::kinds::{params, real};
use crate::params::{Described, Gauge, gauge};
use crate::probe::Gauges;
use crate::time::{Span, Time};

/// Table 1 of the RFC; times in milliseconds.
const X_REF: f64 = 10.0;
const KAPPA: f64 = 0.5;
const ETA: f64 = 2.0;
const TAU: f64 = 500.0;
const DELTA: Span = Span::from_millis(100);
const LOG_WINDOW: Span = Span::from_millis(500);
const QUEUE_BUILDUP: f64 = 10.0;
const FILTER: f64 = 120.0;
const GAMMA_MAX: f64 = 0.5;
const QUEUE_BOUND: f64 = 50.0;
/// Loss mode lasts for so many average intervals between losses.
const MULTILOSS: f64 = 7.0;
const QUEUE_THRESHOLD: f64 = 50.0;
const LAMBDA: f64 = 0.5;
const REFERENCE_RATIO: f64 = 0.01;
const DELAY_MARK: f64 = 2.0;
const DELAY_LOSS: f64 = 10.0;
const X_MAX: f64 = 500.0;
const SMOOTHING: f64 = 0.1;
/// The queue delay is the least of the last samples.
const MIN_FILTER: usize = 15;

params! {
    pub struct Options {
        /// weight of this flow over others
        priority: f64 = 1.0, real("FACTOR", "a number above 0, at most 100", |x| x > 0.0 && x <= 100.0, (0.01, 100.0)),
            "RFC 8698, PRIO";
        /// by which the media queue lowers the encoder's rate and raises the sending rate; 0 in Cisco's code
        shaping: f64 = 0.1, real("FRACTION", "a number from 0 to 1", |x| (0.0..=1.0).contains(&x), (0.0, 1.0)),
            "RFC 8698, BETA_S and BETA_V";
        /// pacing rate over the sending rate
        pacing: f64 = 1.0, real("FACTOR", "a number from 1 to 100", |x| (1.0..=100.0).contains(&x), (1.0, 100.0)),
            "RFC 8698";
    }
}

impl Described for Options {
    const NAME: &'static str = "nada";
    const SUMMARY: &'static str = "NADA (RFC 8698)";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] = &[
        gauge("x_ms", "ms", "aggregate congestion signal"),
        gauge("qdelay_ms", "ms", "queue delay that the sender estimates"),
    ];
}

impl MediaOptions for Options {
    const ROLE: Option<Role> = Some(Role::Classic);
    const LOOK: u8 = 2;
    const REPORTS: Reports = Reports::every(DELTA);
    fn build(&self, rates: Rates, _ecn: Ecn) -> Box<dyn MediaController> {
        Box::new(Nada::new(self.clone(), rates))
    }
}

/// NADA. Rates are bits per second, delays milliseconds.
#[derive(Clone, Debug)]
struct Nada {
    options: Options,
    rates: Rates,
    rate: f64,
    last_update: Option<Time>,
    base: f64,
    /// The last samples of the queue delay.
    delays: VecDeque<f64>,
    qdelay: f64,
    /// When there last was a loss, a mark or a queue that has built up.
    last_trouble: Option<Time>,
    last_loss: Option<Time>,
    /// Mean time between losses, seconds.
    loss_interval: f64,
    marks: f64,
    losses: f64,
    x: f64,
    received: Arrivals,
    /// By which sending and encoder's rate differ for what waits in the media queue.
    correction: f64,
}

impl Nada {
    fn new(options: Options, rates: Rates) -> Nada {
        Nada {
            options,
            rate: rates.start,
            rates,
            last_update: None,
            base: f64::INFINITY,
            delays: VecDeque::new(),
            qdelay: 0.0,
            last_trouble: None,
            last_loss: None,
            loss_interval: 0.0,
            marks: 0.0,
            losses: 0.0,
            x: 0.0,
            received: Arrivals::new(LOG_WINDOW),
            correction: 0.0,
        }
    }

    /// Queue delay, marks and losses of a report.
    fn observe(&mut self, report: &Report) {
        let now = report.now;
        let (mut lost, mut marked) = (0_u64, 0_u64);
        for packet in report.packets {
            let Some(arrived) = packet.arrived else {
                lost += 1;
                continue;
            };
            marked += u64::from(packet.ce);
            self.received.add(arrived, packet.size);
            let delay = arrived.since(packet.sent).as_millis_f64();
            self.base = self.base.min(delay);
            self.delays.push_back(delay - self.base);
            if delay - self.base >= QUEUE_BUILDUP {
                self.last_trouble = Some(now);
            }
        }
        while self.delays.len() > MIN_FILTER {
            self.delays.pop_front();
        }
        self.qdelay = self.delays.iter().copied().fold(X_MAX, f64::min);
        let n = report.packets.len().max(1) as f64;
        self.marks += SMOOTHING * (marked as f64 / n - self.marks);
        self.losses += SMOOTHING * (lost as f64 / n - self.losses);
        if lost > 0 {
            let since = self.last_loss.map_or(0.0, |last| now.since(last).as_secs_f64());
            let first = self.loss_interval == 0.0;
            let step = if first { since } else { SMOOTHING * (since - self.loss_interval) };
            self.loss_interval += step;
            self.last_loss = Some(now);
        }
        if lost > 0 || marked > 0 {
            self.last_trouble = Some(now);
        }
    }

    /// The aggregate congestion signal (4.2).
    fn signal(&self, now: Time) -> f64 {
        let square = |ratio: f64| ratio / REFERENCE_RATIO * (ratio / REFERENCE_RATIO);
        let delay = self.warped(now);
        let x = delay + DELAY_MARK * square(self.marks) + DELAY_LOSS * square(self.losses);
        x.min(X_MAX)
    }

    /// While losses are frequent, a long queue counts less: others fill it. After that it counts more and more for
    /// an interval between losses.
    fn warped(&self, now: Time) -> f64 {
        let Some(last) = self.last_loss.filter(|_| self.qdelay > QUEUE_THRESHOLD) else {
            return self.qdelay;
        };
        let intervals = now.since(last).as_secs_f64() / self.loss_interval.max(1e-3);
        let back = (intervals - MULTILOSS).clamp(0.0, 1.0);
        let over = (self.qdelay - QUEUE_THRESHOLD) / QUEUE_THRESHOLD;
        back * self.qdelay + (1.0 - back) * QUEUE_THRESHOLD * math::exp(-LAMBDA * over)
    }

    /// The rate after `delta` ms with this signal and the one before (4.3).
    fn gradual(&self, delta: f64, x: f64, before: f64) -> f64 {
        let offset = x - self.options.priority * X_REF * self.rates.max / self.rate;
        let drift = KAPPA * (delta / TAU) * (offset / TAU);
        self.rate * (1.0 - drift - KAPPA * ETA * (x - before) / TAU)
    }
}

impl MediaController for Nada {
    fn on_report(&mut self, report: &Report) {
        let now = report.now;
        self.observe(report);
        let delta = self.last_update.map_or(DELTA, |last| now.since(last)).as_millis_f64();
        self.last_update = Some(now);
        let before = self.x;
        self.x = self.signal(now);
        let is_calm = self.last_trouble.is_none_or(|last| now.since(last) > LOG_WINDOW);
        if is_calm {
            let wait = report.rtt.as_millis_f64() + DELTA.as_millis_f64() + FILTER;
            let gamma = GAMMA_MAX.min(QUEUE_BOUND / wait);
            let received = self.received.bps().unwrap_or(0.0);
            self.rate = self.rate.max((1.0 + gamma) * received);
        } else {
            self.rate = self.gradual(delta, self.x, before);
        }
        self.rate = self.rate.clamp(self.rates.min, self.rates.max);
    }
    /// The rate-shaping buffer (5.2.2): the encoder makes less and more leaves, in proportion to what waits.
    fn on_frame(&mut self, frame: &FrameState) {
        let rate = frame.queue_bytes as f64 * 8.0 / frame.interval.as_secs_f64();
        self.correction = self.options.shaping * rate;
    }
    fn target_bps(&self) -> f64 {
        (self.rate - self.correction).clamp(self.rates.min, self.rates.max)
    }
    fn pacing_bps(&self) -> f64 {
        self.options.pacing * (self.rate + self.correction)
    }
    fn set_max(&mut self, bps: f64) {
        self.rates.set_max(bps);
        self.rate = self.rate.min(bps);
    }
    fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("x_ms", self.x);
        out.gauge("qdelay_ms", self.qdelay);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::media::Fate;

    fn nada(max: f64) -> Nada {
        Nada::new(Options::default(), Rates { min: 1.5e5, start: 1e6, max })
    }

    fn near(value: f64, wanted: f64) {
        assert!((value / wanted - 1.0).abs() < 1e-9, "{value}, wanted {wanted}");
    }

    /// 1 Mb/s of at most 1.5, 100 ms: at x = 15 the rate stays; 10 ms more cost 0.1 % and, once, 2 %.
    #[test]
    fn the_step_by_hand() {
        let n = nada(1.5e6);
        near(n.gradual(100.0, 15.0, 15.0), 1e6);
        near(n.gradual(100.0, 25.0, 25.0), 1e6 * (1.0 - 0.5 * 0.2 * 0.02));
        near(n.gradual(100.0, 25.0, 15.0), 1e6 * (1.0 - 0.5 * 0.2 * 0.02 - 0.02));
    }

    #[test]
    fn the_signal_by_hand() {
        let mut n = nada(1.5e6);
        (n.qdelay, n.marks, n.losses) = (20.0, 0.02, 0.01);
        near(n.signal(Time::ZERO), 20.0 + 8.0 + 10.0);
        n.marks = 1.0;
        near(n.signal(Time::ZERO), 500.0);
        // With losses every second, 100 ms of queue count as 50 exp(-0.5).
        (n.marks, n.losses, n.qdelay) = (0.0, 0.0, 100.0);
        (n.last_loss, n.loss_interval) = (Some(Time::ZERO), 1.0);
        near(n.signal(Time(6_900_000_000)), 50.0 * crate::math::exp(-0.5));
        let warped = 50.0 * crate::math::exp(-0.5);
        near(n.signal(Time(7_250_000_000)), 25.0 + 0.75 * warped);
        near(n.signal(Time(8_100_000_000)), 100.0);
    }

    /// While nothing is wrong the rate follows what arrives: 50 / (80 + 100 + 120) above it.
    #[test]
    fn it_ramps_up_above_what_arrives() {
        let mut n = nada(30e6);
        for i in 1..=10_u64 {
            let now = Time(i * 100_000_000);
            let packets: Vec<_> = (0..25)
                .map(|_| Fate {
                    sent: now.saturating_sub(Span::from_millis(50)),
                    arrived: Some(now.saturating_sub(Span::from_millis(10))),
                    size: 1000,
                    ce: false,
                    cluster: 0,
                })
                .collect();
            let rtt = Span::from_millis(80);
            n.on_report(&Report {
                now,
                packets: &packets,
                rtt,
                one_way: rtt / 2,
                acked: 25_000,
                in_flight: 0,
                max_in_flight: 0,
            });
        }
        near(n.rate, 2e6 * (1.0 + 50.0 / 300.0));
    }
}
