//! The options of `bbr`: the constants of Linux `tcp_bbr.c`, by their names without the prefix.

use super::model::{FULL_RATE_ROUNDS, MIN_CWND, MIN_RTT_WINDOW, ONE, PROBE_RTT_TIME};
use crate::params::kinds::{Spec, count, fraction, params, real, some_time};
use crate::time::Span;

params! {
    pub struct Options {
        /// pacing and window gain of startup: 2/ln 2 doubles what is sent in each round
        high_gain: f64 = 2.885, gain(), "Linux";
        /// pacing gain after startup, until the queue of startup is gone
        drain_gain: f64 = 0.347, fraction(), "Linux";
        /// window over the product of rate and RTT
        cwnd_gain: f64 = 2.0, gain(), "Linux";
        /// pacing gain of the phase that probes for more, one of eight
        probe_gain: f64 = 1.25, gain(), "Linux";
        /// pacing gain of the phase after that, which gives the queue back
        back_gain: f64 = 0.75, fraction(), "Linux";
        /// rounds over which the largest rate is taken
        bw_rtts: u32 = 10, count(1..=1000), "Linux";
        /// time after which the smallest RTT is probed again
        min_rtt_window: Span = MIN_RTT_WINDOW, some_time(), "Linux";
        /// how long the window is held at its least for that
        probe_rtt_time: Span = PROBE_RTT_TIME, some_time(), "Linux";
        /// least window, segments
        cwnd_min_target: u32 = MIN_CWND, count(1..=1000), "Linux";
        /// growth of the rate below which a round counts as one of a full pipe
        full_bw_thresh: f64 = 1.25, gain(), "Linux";
        /// such rounds in a row that end startup
        full_bw_cnt: u32 = FULL_RATE_ROUNDS, count(1..=1000), "Linux";
    }
}

fn gain() -> Spec<f64> {
    real("GAIN", "a number of at least 1, at most 100", |x| (1.0..=100.0).contains(&x), (1.0, 4.0))
}

/// Gains are in 256ths, as in the kernel.
#[derive(Clone, Debug)]
pub struct Config {
    pub high_gain: u32,
    pub drain_gain: u32,
    pub cwnd_gain: u32,
    /// Of the first phases of a cycle; the others cruise.
    pub cycle: [u32; 2],
    pub rate_rounds: u32,
    pub min_rtt_window: Span,
    pub probe_rtt_time: Span,
    pub min_cwnd: u32,
    pub full_gain: u32,
    pub full_rounds: u32,
}

impl Config {
    pub fn new(o: &Options) -> Config {
        let parts = |gain: f64| (gain * f64::from(ONE)) as u32;
        Config {
            // Rounded up, so that startup does not fall short of doubling.
            high_gain: parts(o.high_gain) + 1,
            drain_gain: parts(o.drain_gain),
            cwnd_gain: parts(o.cwnd_gain),
            cycle: [parts(o.probe_gain), parts(o.back_gain)],
            rate_rounds: o.bw_rtts,
            min_rtt_window: o.min_rtt_window,
            probe_rtt_time: o.probe_rtt_time,
            min_cwnd: o.cwnd_min_target,
            full_gain: parts(o.full_bw_thresh),
            full_rounds: o.full_bw_cnt,
        }
    }
}
