//! SCReAM v2 as Ericsson's program has it (github.com/EricssonResearch/scream, c8f84c3 of July 2026: `ScreamV2Tx`, and the
//! pacer and receiver of `scream_bw_test`). It differs from the draft in more than values: the window changes once per
//! frame, marks within 30 ms of a cut are forgotten, a frame larger than the target asks for is paced faster, growth after
//! the start waits as after a congestion, and losses count 512 packets later.
//!
//! Not modelled: frames that the sender throws away after 0.2 s, and packets that are shorter where the window is small.

use super::{BaseDelay, Options, QDELAY_AVG_G, VIRTUAL_RTT};
use crate::cc::media::{FrameState, MediaController, Rates, Report, Sleeps};
use crate::ecn::Ecn;
use crate::probe::Gauges;
use crate::time::{Span, Time};

/// Cuts are as far apart, unless the round trip is shorter, seconds.
const MIN_BACKOFF: f64 = 0.03;
const ALPHA_START: f64 = 0.1;
const ALPHA_INTERVAL: f64 = 0.01;
/// Factor on a loss and on a classic mark (`-scale`).
const BETA: f64 = 0.7;
const SRTT_START: f64 = 0.05;
/// Gain of the smoothed RTT while the encoder is the limit and the RTT falls.
const SRTT_IDLE_G: f64 = 1.0 / 1024.0;
const POST_CONGESTION_RTTS: f64 = 200.0;
const LATENCY_DIFF_G: f64 = 1.0 / 32.0;
const EXTREMES_G: f64 = 1.0 / 16.0;
const LATENCY_DIFF: f64 = 0.01;
const LOSS_RATE: f64 = 0.01;
/// Below this share of the rate that arrives the target has fallen enough, and cuts are a quarter.
const ACKED_SHARE: f64 = 0.8;
const SLOW_UPDATE: f64 = 0.05;
const RATE_UPDATE: f64 = 0.1;
/// What was most in flight counts from so long after the start on, seconds, and near the highest rate that of so many slow updates.
const IN_FLIGHT_FROM: f64 = 2.0;
const IN_FLIGHT_HISTORY: usize = 20;
const NEAR_MAX: f64 = 0.95;
const WINDOW_HEADROOM: (f64, f64) = (1.5, 5.0);
/// Most that pacing rises for a large frame.
const ADAPTIVE_PACING: f64 = 1.5;
const RATE_PACE_MIN: f64 = 50_000.0;
/// Divisor of the rate that the window allows, and what the RTT counts longer.
const RATE_HEADROOM: f64 = 1.1;
const RTT_MARGIN: f64 = 0.001;
/// The program's packets have no authentication tag.
const RTP_ALONE: u32 = 12;
/// RTP and UDP.
const PACKET_OVERHEAD: f64 = 20.0;
/// Least one-way delays that are above the base delay for so many round trips are a standing queue or drift of clocks; once a
/// minute half the target for so long empties it, and the base delay begins anew.
const STANDING_RTTS: f64 = 100.0;
const STANDING_G: f64 = 1.0 / 8.0;
const RESET_INTERVAL: f64 = 60.0;
const DRAIN_RTTS: f64 = 5.0;
const DRAIN_LEAST: f64 = 0.1;
/// Arrival times in reports are in units of this, seconds.
const REPORT_UNIT: f64 = 1.0 / 1024.0;
/// The pacer sleeps so much less than is due, because timers are late.
const SLEEPS_LESS: Span = Span::from_micros(100);
/// Packets after which one that nobody reported is lost.
pub const LOST_AFTER: u32 = 512;

/// SCReAM as in Ericsson's program. Times are seconds, sizes bytes of RTP packets, rates bits per second.
#[derive(Clone, Debug)]
pub struct Ericsson {
    options: Options,
    rates: Rates,
    is_l4s: bool,
    now: f64,
    /// The largest packet of this second and of the one before.
    mss: [f64; 2],
    mss_since: f64,
    cwnd: f64,
    inflection: f64,
    may_set_inflection: bool,
    updated: f64,
    has_new_frame: bool,
    acked: f64,
    acked_marked: f64,
    in_flight: f64,
    /// The most in flight in this interval, in the one before, and in those before that.
    max_in_flight: f64,
    max_in_flight_before: f64,
    max_in_flight_history: [f64; IN_FLIGHT_HISTORY],
    slow_updates: usize,
    slow_since: f64,
    srtt: f64,
    srtt_fast: f64,
    srtt_fast_before: f64,
    srtt_since: f64,
    is_app_limited: bool,
    alpha: f64,
    alpha_since: f64,
    fraction: f64,
    delivered: f64,
    marked: f64,
    delay: Delay,
    loss_rate: f64,
    refreshes: bool,
    has_skipped: bool,
    /// The last event, and the last cut.
    event: f64,
    congested: f64,
    /// Rates of 100 ms: of what was acknowledged, and of the last four of the encoder.
    rate_since: f64,
    acked_bytes: f64,
    acked_rate: f64,
    encoded_bytes: f64,
    encoded_rates: [f64; 4],
    rate_factor: f64,
    pacing_scale: f64,
    frame_interval: f64,
    /// What the window allows, and the target that follows.
    allowed: f64,
    target: f64,
    pacing: f64,
}

impl Ericsson {
    pub fn new(options: Options, rates: Rates, ecn: Ecn) -> Ericsson {
        let mss = f64::from(options.mss);
        // 100 ms of the first rate.
        let cwnd = options.initial_window.map_or(rates.start / 80.0, f64::from).max(2.0 * mss);
        Ericsson {
            is_l4s: ecn == Ecn::Ect1,
            now: 0.0,
            mss: [mss; 2],
            mss_since: 0.0,
            cwnd,
            inflection: 1.0,
            may_set_inflection: true,
            updated: 0.0,
            has_new_frame: false,
            acked: 0.0,
            acked_marked: 0.0,
            in_flight: 0.0,
            max_in_flight: 0.0,
            max_in_flight_before: 0.0,
            max_in_flight_history: [0.0; IN_FLIGHT_HISTORY],
            slow_updates: 0,
            slow_since: 0.0,
            srtt: SRTT_START,
            srtt_fast: SRTT_START,
            srtt_fast_before: SRTT_START,
            srtt_since: 0.0,
            is_app_limited: false,
            alpha: ALPHA_START,
            alpha_since: 0.0,
            fraction: 0.0,
            delivered: 0.0,
            marked: 0.0,
            delay: Delay::new(options.qdelay_target.as_secs_f64()),
            loss_rate: 0.0,
            refreshes: false,
            has_skipped: false,
            event: 0.0,
            congested: 0.0,
            rate_since: 0.0,
            acked_bytes: 0.0,
            acked_rate: 0.0,
            encoded_bytes: 0.0,
            encoded_rates: [0.0; 4],
            rate_factor: 0.0,
            pacing_scale: 1.0,
            frame_interval: 0.02,
            allowed: rates.min,
            target: rates.start,
            pacing: rates.start.max(RATE_PACE_MIN),
            options,
            rates,
        }
    }

    fn mss(&self) -> f64 {
        self.mss[0].max(self.mss[1])
    }
    fn see_packet(&mut self, size: f64) {
        if self.now - self.mss_since > 1.0 {
            (self.mss_since, self.mss) = (self.now, [0.0, self.mss[0]]);
            self.cwnd = self.cwnd.max(3.0 * self.mss());
        }
        self.mss[0] = self.mss[0].max(size);
    }

    fn update_srtt(&mut self, rtt: f64) {
        self.srtt_fast_before = self.srtt_fast;
        self.srtt_fast += (rtt - self.srtt_fast) / 8.0;
        if self.now - self.srtt_since > self.srtt_fast {
            let is_slow = self.is_app_limited && self.srtt > self.srtt_fast;
            let gain = if is_slow { SRTT_IDLE_G } else { 1.0 / 8.0 };
            self.srtt += gain * (self.srtt_fast - self.srtt);
            self.srtt_since = self.now;
        }
    }

    fn update_alpha(&mut self) {
        if self.now - self.alpha_since <= ALPHA_INTERVAL.min(self.srtt) {
            return;
        }
        self.alpha_since = self.now;
        self.fraction = 0.0;
        if self.delivered > 0.0 {
            self.fraction = self.marked / self.delivered;
            self.alpha = if self.fraction >= self.alpha {
                self.alpha + self.options.alpha_up * (self.fraction - self.alpha)
            } else {
                self.alpha * (1.0 - self.options.alpha_down)
            };
            (self.delivered, self.marked) = (0.0, 0.0);
        }
    }

    /// Rates are those of intervals of 100 ms.
    fn update_rates(&mut self) {
        let seconds = self.now - self.rate_since;
        if seconds <= RATE_UPDATE {
            return;
        }
        self.encoded_rates.rotate_right(1);
        self.encoded_rates[0] = self.encoded_bytes * 8.0 / seconds;
        self.acked_rate = self.acked_bytes * 8.0 / seconds;
        (self.rate_since, self.encoded_bytes, self.acked_bytes) = (self.now, 0.0, 0.0);
    }

    /// Several cuts in a long round trip, each a part.
    fn backoff(&self, alpha: f64) -> f64 {
        let is_enough = self.target < self.acked_rate * ACKED_SHARE;
        alpha / 2.0 * if is_enough { 0.25 } else { 1.0 } / (self.srtt / MIN_BACKOFF).max(1.0)
    }

    fn update_window(&mut self, cut: Option<Cut>) {
        self.delay.least = self.delay.least.min(self.delay.last);
        let mut quiet = ((self.now - self.congested) / (POST_CONGESTION_RTTS * self.srtt)).min(1.0);
        let since_congested = self.now - self.congested;
        self.set_pacing();
        self.update_slowly();
        let off = self.options.inflection_slope * (self.cwnd - self.inflection) / self.inflection;
        let closeness = (off * off).clamp(0.1, 1.0);
        let even = self.delay.evenness();
        if let Some(cut) = cut {
            if self.may_set_inflection {
                (self.inflection, self.may_set_inflection) = (self.cwnd, false);
            }
            let factor = match cut {
                Cut::Loss => BETA,
                Cut::Mark if !self.is_l4s => BETA,
                Cut::Mark => {
                    let mut backoff = self.backoff(self.alpha);
                    if self.delay.last < self.delay.target / 4.0 {
                        backoff *= closeness.max(0.25) * even.clamp(0.25, 1.0);
                    }
                    // The window may be far above what was in flight.
                    if since_congested > 100.0 * self.srtt.max(VIRTUAL_RTT) {
                        self.cwnd = self.cwnd.min(self.max_in_flight_before);
                    }
                    1.0 - backoff
                }
                Cut::Delay(alpha) => 1.0 - self.backoff(alpha),
            };
            self.cwnd = self.cwnd_at_least(self.cwnd * factor);
            (self.congested, quiet) = (self.now, 0.0);
        }
        let growth = (self.acked - self.acked_marked) * self.mss() / self.cwnd
            * closeness.max(0.25)
            * (self.srtt / VIRTUAL_RTT).min(1.0)
            * even.max(0.1)
            * (1.0 + self.options.mul_increase * self.cwnd / self.mss() * quiet * closeness);
        let most = self.max_in_flight.max(self.max_in_flight_before);
        let ceiling = self.mss() + self.options.head_room * most;
        self.is_app_limited = ceiling < self.cwnd;
        if self.cwnd + growth <= ceiling && self.target < self.rates.max {
            self.may_set_inflection |= growth >= 0.5;
            self.cwnd += growth;
        }
        self.cwnd = self.cwnd_at_least(self.cwnd);
        (self.acked, self.acked_marked) = (0.0, 0.0);
        let small = (self.mss() / self.cwnd - 0.1).clamp(0.0, 0.2);
        let rate = 8.0 * self.cwnd / (self.srtt + RTT_MARGIN).clamp(RTT_MARGIN, 0.2);
        let part = (1.0 - small) / RATE_HEADROOM * self.mss() / (self.mss() + PACKET_OVERHEAD);
        self.allowed = (rate * part).min(self.rates.max);
        self.set_target();
    }

    fn cwnd_at_least(&self, cwnd: f64) -> f64 {
        cwnd.max(2.0 * self.mss())
    }

    fn update_slowly(&mut self) {
        if self.now - self.slow_since <= SLOW_UPDATE {
            return;
        }
        self.slow_since = self.now;
        self.max_in_flight_history[self.slow_updates % IN_FLIGHT_HISTORY] = self.max_in_flight;
        self.slow_updates += 1;
        if self.target > NEAR_MAX * self.rates.max {
            let most =
                self.max_in_flight_history.iter().copied().fold(self.max_in_flight, f64::max);
            let enough = self.options.pacing * self.rates.max / 8.0 * (self.srtt + RTT_MARGIN);
            self.cwnd = self.cwnd.min(most.max(enough));
        }
        if self.now > IN_FLIGHT_FROM {
            (self.max_in_flight_before, self.max_in_flight) = (self.max_in_flight, 0.0);
        }
    }

    fn set_pacing(&mut self) {
        let encoded = self.encoded_rates.iter().sum::<f64>() / self.encoded_rates.len() as f64;
        let rate = self.options.pacing * self.pacing_scale * self.target.max(encoded);
        self.pacing = rate.max(RATE_PACE_MIN);
    }

    fn set_target(&mut self) {
        let target = self.allowed / (1.0 + self.rate_factor);
        self.target = target.clamp(self.rates.min, self.rates.max);
    }
}

#[derive(Copy, Clone, Debug)]
enum Cut {
    Loss,
    Mark,
    /// The queue delay counts as so many marks.
    Delay(f64),
}

impl MediaController for Ericsson {
    fn on_report(&mut self, report: &Report) {
        self.now = report.now.as_secs_f64();
        self.update_rates();
        self.max_in_flight = self.max_in_flight.max(report.max_in_flight as f64);
        self.in_flight = report.in_flight as f64;
        self.acked += report.acked as f64;
        self.acked_bytes += report.acked as f64;
        let left = report.packets.iter().filter_map(|p| p.arrived).max().unwrap_or(Time::ZERO);
        let (mut is_marked, mut has_lost) = (false, false);
        for packet in report.packets {
            let size = f64::from(packet.size);
            self.see_packet(size);
            let gain = (LOSS_RATE / 4.0).min(self.mss() / self.cwnd / 2.0);
            let is_lost = if packet.arrived.is_none() { 1.0 } else { 0.0 };
            self.loss_rate += gain * (is_lost - self.loss_rate);
            let Some(arrived) = packet.arrived else {
                has_lost = true;
                continue;
            };
            self.delivered += 1.0;
            if packet.ce {
                is_marked = true;
                self.marked += 1.0;
                self.acked_marked += size;
            }
            let held = left.since(arrived).as_secs_f64();
            let finer = held - held % REPORT_UNIT;
            let one_way = left.since(packet.sent).as_secs_f64() - finer;
            self.delay.add(report.now, one_way);
        }
        self.refreshes |= has_lost;
        self.update_srtt(report.rtt.as_secs_f64());
        let least = MIN_BACKOFF.min(self.srtt);
        let since = self.now - self.event;
        let mut cut = None;
        if since > least && is_marked {
            (cut, self.event) = (Some(Cut::Mark), self.now);
        }
        if self.is_l4s {
            self.update_alpha();
        }
        self.delay.update(self.now, least, self.srtt);
        let alpha = self.delay.virtual_alpha();
        if alpha > 0.0 && self.now - self.event > least {
            cut = Some(Cut::Delay(alpha));
        }
        // All are marked, and the queue falls: marks come late.
        if self.srtt_fast_before > self.srtt_fast
            && self.fraction == 1.0
            && matches!(cut, Some(Cut::Mark))
        {
            cut = None;
        }
        let counts = self.loss_rate > LOSS_RATE || self.delay.average > self.delay.target / 4.0;
        if has_lost && counts && since > self.srtt {
            cut = Some(Cut::Loss);
        }
        if cut.is_some() {
            self.event = self.now;
        }
        if cut.is_some() || self.has_new_frame || self.now - self.updated > least {
            self.update_window(cut);
            (self.has_new_frame, self.updated) = (false, self.now);
        }
    }

    fn on_frame(&mut self, frame: &FrameState) {
        self.now = frame.now.as_secs_f64();
        self.frame_interval = frame.interval.as_secs_f64();
        self.has_skipped = false;
        let late = frame.queue_age.as_secs_f64() / self.frame_interval - 0.5;
        self.rate_factor = (self.rate_factor + 0.2 * late / 8.0).clamp(0.0, 0.5);
        self.has_new_frame = true;
    }

    fn on_encoded(&mut self, bytes: u64, waiting: u64) {
        self.encoded_bytes += bytes as f64;
        self.update_rates();
        let usual = self.target * self.frame_interval / 8.0;
        let scale = (waiting.max(bytes) as f64 / usual).clamp(1.0, ADAPTIVE_PACING);
        self.pacing_scale = if usual > 500.0 { scale } else { 1.0 };
        self.set_target();
    }

    /// After a loss the program leaves a frame out, but not two in a row.
    fn skips_frame(&mut self, _frame: &FrameState) -> bool {
        let skips = std::mem::take(&mut self.refreshes) && !self.has_skipped;
        self.has_skipped = skips;
        skips
    }

    fn target_bps(&self) -> f64 {
        if self.delay.drains(self.now, self.srtt) { self.target / 2.0 } else { self.target }
    }
    fn pacing_bps(&self) -> f64 {
        self.pacing
    }
    fn window(&self) -> u64 {
        let more = WINDOW_HEADROOM.1 - WINDOW_HEADROOM.0;
        let headroom = WINDOW_HEADROOM.0 + more * self.delay.evenness();
        (self.cwnd * headroom + self.mss()) as u64
    }
    fn burst(&self) -> Span {
        self.options.burst
    }
    fn header(&self) -> u32 {
        RTP_ALONE
    }
    fn sleeps(&self) -> Option<Sleeps> {
        let each = Span((self.mss() * 8e9 / self.pacing) as u64).max(Span::from_micros(10));
        Some(Sleeps { each, less: SLEEPS_LESS, late: self.options.timer })
    }
    fn set_max(&mut self, bps: f64) {
        self.rates.set_max(bps);
        self.target = self.target.min(bps);
    }
    fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("ref_wnd_bytes", self.cwnd);
        out.gauge("alpha", self.alpha);
        out.gauge("qdelay_ms", self.delay.last * 1e3);
        out.gauge("qdelay_target_ms", self.delay.target * 1e3);
    }
}

/// Queue delay, seconds.
#[derive(Clone, Debug)]
struct Delay {
    base: BaseDelay,
    target: f64,
    last: f64,
    average: f64,
    since: f64,
    /// Followed extremes of the delay of packets, and the average of what they differ by.
    high: f64,
    low: f64,
    difference: f64,
    /// Least of so many round trips, its average, and when half the target began to empty the queue.
    least: f64,
    standing: f64,
    standing_since: f64,
    draining: f64,
    may_reset: bool,
}

impl Delay {
    fn new(target: f64) -> Delay {
        Delay {
            base: BaseDelay::default(),
            target,
            last: 0.0,
            average: 0.0,
            since: 0.0,
            high: 0.0,
            low: f64::INFINITY,
            difference: 0.0,
            least: f64::INFINITY,
            standing: 0.0,
            standing_since: 0.0,
            draining: 0.0,
            may_reset: false,
        }
    }

    /// A packet has taken so long.
    fn add(&mut self, now: Time, one_way: f64) {
        self.last = one_way - self.base.update(now, one_way);
        self.low = self.low.min(self.last);
        self.high = self.high.max(self.last).min(self.target);
    }

    /// Averages, at most once in `interval`.
    fn update(&mut self, now: f64, interval: f64, srtt: f64) {
        self.reset(now, srtt);
        if now - self.since <= interval {
            return;
        }
        self.since = now;
        if now - self.standing_since > STANDING_RTTS * srtt && self.least.is_finite() {
            let rise = STANDING_G * (self.least - self.standing);
            self.standing = self.least.min(self.standing + rise.max(0.0));
            (self.least, self.standing_since) = (f64::INFINITY, now);
        }
        let queue = self.last - self.standing;
        let is_less = queue < self.average;
        self.average =
            if is_less { queue } else { self.average + QDELAY_AVG_G * (queue - self.average) };
        let difference = (self.high - self.low).clamp(0.0, 2.0 * LATENCY_DIFF);
        self.difference += LATENCY_DIFF_G * (difference - self.difference);
        self.high -= EXTREMES_G * self.high;
        self.low += EXTREMES_G * (self.high - self.low);
    }

    /// A queue that stays: half the target for a while, and then another base delay.
    fn reset(&mut self, now: f64, srtt: f64) {
        if self.standing <= self.target / 8.0 {
            return;
        }
        if now - self.draining > RESET_INTERVAL {
            (self.draining, self.may_reset) = (now, true);
        } else if self.may_reset && !self.drains(now, srtt) {
            self.base = BaseDelay::default();
            (self.standing, self.last, self.may_reset) = (0.0, 0.0, false);
        }
    }
    fn drains(&self, now: f64, srtt: f64) -> bool {
        self.may_reset && now - self.draining < DRAIN_LEAST.max(DRAIN_RTTS * srtt)
    }

    /// 1 where packets are delayed alike, and 0 where they differ by 10 ms.
    fn evenness(&self) -> f64 {
        (1.0 - self.difference / LATENCY_DIFF).clamp(0.0, 1.0)
    }
    /// How much the average counts as marks.
    fn virtual_alpha(&self) -> f64 {
        let half = self.target / 2.0;
        ((self.average - half) / half).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::media::Fate;

    const MS: Span = Span::from_millis(1);

    fn started() -> Ericsson {
        let options = Options {
            variant: "ericsson",
            mul_increase: 0.05,
            head_room: 2.0,
            mss: 1200,
            ..Options::default()
        };
        Ericsson::new(options, Rates { min: 1e6, start: 1e6, max: 1e9 }, Ecn::Ect1)
    }

    /// A report at `ms` of `n` packets of 1200 B that took 10 ms, of which so many are marked.
    fn report(s: &mut Ericsson, ms: u64, n: usize, marked: usize) {
        let now = Time::ZERO + MS * ms;
        let fate = Fate {
            sent: now.saturating_sub(MS * 25),
            arrived: Some(now.saturating_sub(MS * 15)),
            size: 1200,
            ce: false,
            cluster: 0,
        };
        let packets: Vec<Fate> = (0..n).map(|i| Fate { ce: i < marked, ..fate }).collect();
        s.on_report(&Report {
            now,
            packets: &packets,
            rtt: MS * 25,
            one_way: MS * 10,
            acked: 1200 * n as u64,
            in_flight: 0,
            max_in_flight: 100_000,
        });
    }

    #[test]
    fn the_window_begins_with_100_ms_and_grows_by_a_segment_at_first() {
        let mut s = started();
        assert_eq!(s.cwnd, 12_500.0);
        for ms in (0..400).step_by(50) {
            report(&mut s, 1000 + ms, 10, 0);
        }
        // 80 acknowledged packets at 10.4 segments and more, and 5 % times what has passed of 200 RTTs.
        assert!(
            (12_500.0 + 6.0 * 1200.0..12_500.0 + 10.0 * 1200.0).contains(&s.cwnd),
            "{}",
            s.cwnd
        );
    }

    #[test]
    fn a_mark_soon_after_a_cut_is_forgotten() {
        let mut s = started();
        s.srtt = 0.05;
        report(&mut s, 1000, 10, 5);
        let cut = s.cwnd;
        assert!(cut < 12_500.0 * 1.05);
        report(&mut s, 1020, 10, 5);
        report(&mut s, 1040, 10, 0);
        assert!(s.cwnd >= cut, "no cut at 1020 ms, nor later for its marks");
        let before = s.cwnd;
        report(&mut s, 1060, 10, 5);
        assert!(s.cwnd < before);
    }

    #[test]
    fn a_large_frame_is_paced_faster_from_the_next_report_on() {
        let mut s = started();
        report(&mut s, 1000, 10, 0);
        let usual = s.sleeps().expect("a pacer").each.0 as f64;
        let bytes = (2.0 * s.target * s.frame_interval / 8.0) as u64;
        s.on_encoded(bytes, bytes);
        assert_eq!(s.sleeps().expect("a pacer").each.0 as f64, usual);
        report(&mut s, 1040, 10, 0);
        assert!(s.sleeps().expect("a pacer").each.0 as f64 <= usual / ADAPTIVE_PACING * 1.05);
    }

    #[test]
    fn a_frame_is_left_out_after_a_loss_but_not_two_in_a_row() {
        let mut s = started();
        let frame = FrameState {
            now: Time::ZERO + MS * 1000,
            interval: MS * 20,
            queue_age: Span::ZERO,
            last_bytes: 2500,
            queue_bytes: 0,
            in_flight: 0,
        };
        s.refreshes = true;
        assert!(s.skips_frame(&frame));
        s.refreshes = true;
        assert!(!s.skips_frame(&frame));
        assert!(!s.skips_frame(&frame));
    }
}
