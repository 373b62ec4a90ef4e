//! GCC, Google Congestion Control, as libwebrtc has it today; draft-ietf-rmcat-gcc-02 is its ancestor. The trend of
//! one-way delays is compared with a threshold that adapts, and AIMD steers the rate that arrives. A second bound
//! follows losses. Short probes find the rate at the start.
//!
//! libwebrtc's trendline replaces the draft's Kalman filter. The algorithm and its defaults are those of milestone 152.
//! Not modelled: probes while the application limits, since the encoder always follows the target; and padding while the
//! bound of losses grows.

mod loss;
mod probe;
mod skip;
mod throughput;

use std::collections::VecDeque;

use loss::LossBound;
use probe::Probes;
use skip::Skipping;
use throughput::Throughput;

use super::{
    Cluster, Fate, FrameState, MediaController, MediaOptions, RTP, Rates, Repair, Report, Reports,
};
use crate::cc::Role;
use crate::ecn::Ecn;
use crate::math;
use crate::packet::UDP_IP_HEADERS;
use crate::params::kinds::{any_time, choice, params, real, some_time, switch};
use crate::params::{Described, Gauge, gauge};
use crate::probe::Gauges;
use crate::time::{Span, Time};

/// Packets sent within this time are one group, as are those that a queue lets go in a burst (inter_arrival_delta).
const GROUP: Span = Span::from_millis(5);
const LONGEST_BURST: Span = Span::from_millis(100);
/// libwebrtc notes when packets leave in whole milliseconds, so all packets of a burst leave at the same time.
const SENT_RESOLUTION: u64 = 1_000_000;
/// Trendline: smoothing, groups in the window, gain, and the groups from which on the gain is full.
const SMOOTHING: f64 = 0.9;
const WINDOW: usize = 20;
const GAIN: f64 = 4.0;
const MOST_DELTAS: u32 = 60;
/// Threshold of the modified trend: start, bounds, spikes that it ignores, ms.
const THRESHOLD: f64 = 12.5;
const THRESHOLDS: (f64, f64) = (6.0, 600.0);
const SPIKE: f64 = 15.0;
const LONGEST_STEP_MS: f64 = 100.0;
/// Over-use lasts for longer than this, ms.
const OVERUSE_MS: f64 = 10.0;
/// AIMD: increase per second, decrease, ceiling over the rate that arrives.
const INCREASE: f64 = 1.08;
const DECREASE: f64 = 0.85;
const LEAST_INCREASE: f64 = 1_000.0;
const CEILING: (f64, f64) = (1.5, 10_000.0);
/// Near the capacity: frames per second and packets that growth is counted by, response time beyond the RTT.
const FRAMES: f64 = 30.0;
const PACKET: f64 = 1200.0;
const RESPONSE: f64 = 0.1;
const LEAST_SLOPE: f64 = 4_000.0;
/// A decrease goes by so much further, bits per second.
const FURTHER: f64 = 5_000.0;
/// Between decreases while the rate that arrives is not known.
const INITIAL_PAUSE: Span = Span::from_millis(200);
/// Without packets for so long, delays are measured anew.
const TIMEOUT: Span = Span::from_secs(2);
/// A probe that finds less than what arrives lowers the rate to this share of it at most.
const PROBE_DROP: f64 = 0.85;
/// A burst is not longer than this, bits.
const LARGEST_BURST: f64 = 8.0 * 63_000.0;
/// The largest RTP packet before one has been seen.
const FULL_PACKET: u32 = 1200 + RTP;
/// Estimate of the link's capacity: gain, bounds of its normalised variance (kb/s), standard deviations.
const CAPACITY_GAIN: f64 = 0.05;
const VARIANCES: (f64, f64) = (0.4, 2.5);
const DEVIATIONS: f64 = 3.0;

/// Gains of the threshold, down and up.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Adaptation {
    Libwebrtc,
    Draft,
}

/// What losses do.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum LossRule {
    Libwebrtc,
    Draft,
    Off,
}

params! {
    pub struct Options {
        /// how the threshold adapts: "libwebrtc" falls faster than it rises, "draft" slower
        threshold: Adaptation = Adaptation::Libwebrtc,
            choice("VARIANT", [("libwebrtc", Adaptation::Libwebrtc), ("draft", Adaptation::Draft)]), "libwebrtc";
        /// time over which the arrival rate is measured, or longer until 20 packets have come
        acked_window: Span = Span::from_secs(1), some_time(), "libwebrtc";
        /// bound that follows losses: "libwebrtc" (loss-based estimator v2), "draft" (section 6) or "off"
        loss: LossRule = LossRule::Libwebrtc,
            choice("RULE", [("libwebrtc", LossRule::Libwebrtc), ("draft", LossRule::Draft), ("off", LossRule::Off)]),
            "libwebrtc";
        /// probes at three and six times the start rate, and further while they succeed
        probing: bool = true, switch(), "libwebrtc";
        /// pacing rate over the target rate
        pacing: f64 = 1.1, real("FACTOR", "a number from 1 to 100", |x| (1.0..=100.0).contains(&x), (1.0, 100.0)),
            "libwebrtc, for video";
        /// frames are skipped while more than 350 ms of data, beyond the round trip, are in flight
        skipping: bool = true, switch(), "libwebrtc";
        /// packets that are due within this time leave together
        burst: Span = Span::from_millis(40), any_time(), "libwebrtc";
    }
}

impl Described for Options {
    const NAME: &'static str = "gcc";
    const SUMMARY: &'static str = "Google Congestion Control, as in libwebrtc";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] = &[
        gauge("trend_ms", "ms", "modified trend of the one-way delay"),
        gauge("threshold_ms", "ms", "trend above which the path is over-used"),
        gauge("acked_mbps", "Mb/s", "rate that arrives"),
        gauge("loss_bound_mbps", "Mb/s", "rate that losses allow"),
    ];
}

impl MediaOptions for Options {
    const ROLE: Option<Role> = Some(Role::Classic);
    const LOOK: u8 = 1;
    const REPORTS: Reports = Reports::every(Span::from_millis(50));
    fn is_libwebrtc(&self) -> bool {
        self.loss == LossRule::Libwebrtc
    }
    fn repair(&self) -> Repair {
        if self.is_libwebrtc() { Repair::NackFec } else { Repair::None }
    }
    fn build(&self, rates: Rates, _ecn: Ecn) -> Box<dyn MediaController> {
        Box::new(Gcc::new(self.clone(), rates))
    }
}

/// Google congestion control. Rates are bits per second, of whole IP packets.
#[derive(Clone, Debug)]
struct Gcc {
    options: Options,
    /// What the encoder can do, of media.
    rates: Rates,
    /// The largest RTP packet.
    full: u32,
    groups: Groups,
    detector: Detector,
    acked: Throughput,
    aimd: Aimd,
    loss: LossBound,
    probes: Probes,
    skipping: Skipping,
    /// When the report before came, and what the one at hand tells.
    reported: Time,
    packets: Vec<Fate>,
}

impl Gcc {
    fn new(options: Options, rates: Rates) -> Gcc {
        Gcc {
            full: FULL_PACKET,
            groups: Groups::default(),
            detector: Detector::new(options.threshold),
            acked: Throughput::new(options.acked_window),
            aimd: Aimd::new(rates.start),
            loss: LossBound::new(options.loss, rates),
            probes: Probes::new(options.probing, rates.start),
            skipping: Skipping::new(),
            reported: Time::ZERO,
            packets: Vec::new(),
            options,
            rates,
        }
    }

    /// Share of media in full packets, and of RTP.
    fn media_share(&self) -> f64 {
        f64::from(self.full - RTP) / f64::from(self.full + UDP_IP_HEADERS)
    }
    fn rtp_share(&self) -> f64 {
        f64::from(self.full) / f64::from(self.full + UDP_IP_HEADERS)
    }
    /// The encoder's lowest and highest rate in whole packets. The estimate may be above the highest, as in libwebrtc.
    fn bounds(&self) -> Rates {
        let share = self.media_share();
        Rates { min: self.rates.min / share, max: self.rates.max / share, ..self.rates }
    }
    fn rate(&self) -> f64 {
        self.aimd.rate.min(self.loss.bps())
    }
}

impl MediaController for Gcc {
    fn on_report(&mut self, report: &Report) {
        if report.now.since(self.reported) > TIMEOUT {
            (self.groups, self.detector) =
                (Groups::default(), Detector::new(self.options.threshold));
        }
        self.reported = report.now;
        self.packets.clear();
        self.packets.extend(report.packets);
        for packet in &mut self.packets {
            self.full = self.full.max(packet.size);
            packet.size += UDP_IP_HEADERS;
            let Some(arrived) = packet.arrived else { continue };
            self.probes.on_arrival(packet);
            if let Some(delta) = self.groups.add(packet.sent, arrived) {
                self.detector.update(&delta);
            }
        }
        self.acked.update(&self.packets);
        let acked = self.acked.bps();
        let (usage, bounds) = (self.detector.usage, self.bounds());
        let is_limited = self.loss.limits(self.aimd.rate);
        let is_stopped = usage != Usage::Normal || is_limited;
        let probed = self
            .probes
            .result(report.now, bounds.max, is_stopped)
            .map(|bps| bps.max(acked.map_or(0.0, |acked| self.aimd.rate.min(PROBE_DROP * acked))));
        if let Some(bps) = probed.filter(|_| usage != Usage::Over) {
            self.aimd.set(report.now, bps);
        } else {
            self.aimd.update(report.now, usage, acked, report.rtt.as_secs_f64());
        }
        self.aimd.rate = self.aimd.rate.max(bounds.min);
        self.loss.set_rates(bounds);
        self.loss.update(&self.packets, acked, self.aimd.rate, probed.is_some());
        self.skipping.on_report(report, self.rate());
    }
    fn skips_frame(&mut self, _frame: &FrameState) -> bool {
        self.options.skipping && self.skipping.skips()
    }
    fn target_bps(&self) -> f64 {
        // libwebrtc allocates at most the highest rate, headers included.
        (self.media_share() * self.rate().min(self.rates.max)).max(self.rates.min)
    }
    fn pacing_bps(&self) -> f64 {
        self.options.pacing * self.rtp_share() * self.rate().max(self.bounds().min)
    }
    fn burst(&self) -> Span {
        let most = Span((1e9 * LARGEST_BURST / self.pacing_bps()) as u64);
        self.options.burst.min(most)
    }
    fn bursts_early(&self) -> bool {
        true
    }
    fn splits_evenly(&self) -> bool {
        true
    }
    fn probe_cluster(&mut self, now: Time) -> Option<Cluster> {
        self.probes.next(now)
    }
    fn set_max(&mut self, bps: f64) {
        self.rates.set_max(bps);
    }
    fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("trend_ms", self.detector.modified);
        out.gauge("threshold_ms", self.detector.threshold);
        out.gauge("acked_mbps", self.acked.bps().unwrap_or(0.0) * 1e-6);
        out.gauge("loss_bound_mbps", self.loss.bps().min(self.rates.max) * 1e-6);
    }
}

/// Packets that were sent, or came, together.
#[derive(Copy, Clone, Debug)]
struct Group {
    first_sent: Time,
    last_sent: Time,
    first_arrived: Time,
    last_arrived: Time,
}

/// Between the last packets of a group and of the one before, ms.
#[derive(Copy, Clone, Debug)]
struct Delta {
    sent: f64,
    arrived: f64,
    /// When the group's last packet came.
    at: f64,
}

#[derive(Clone, Debug, Default)]
struct Groups {
    current: Option<Group>,
    before: Option<Group>,
}

impl Groups {
    /// A packet has come; what the group before it adds, if that is complete.
    ///
    /// What left together stays together: where packets wait, the first of a frame joins the group before as a burst,
    /// and so all of the frame does.
    fn add(&mut self, sent: Time, arrived: Time) -> Option<Delta> {
        let sent = Time(sent.0 - sent.0 % SENT_RESOLUTION);
        let new = Group {
            first_sent: sent,
            last_sent: sent,
            first_arrived: arrived,
            last_arrived: arrived,
        };
        let Some(group) = &mut self.current else {
            self.current = Some(new);
            return None;
        };
        if sent < group.first_sent {
            return None;
        }
        let is_burst = sent == group.last_sent
            || arrived.since(group.last_arrived) <= GROUP
                && arrived.since(group.last_arrived) < sent.since(group.last_sent)
                && arrived.since(group.first_arrived) < LONGEST_BURST;
        if sent.since(group.first_sent) <= GROUP || is_burst {
            group.last_sent = group.last_sent.max(sent);
            group.last_arrived = group.last_arrived.max(arrived);
            return None;
        }
        let complete = *group;
        self.current = Some(new);
        let before = self.before.replace(complete)?;
        Some(Delta {
            sent: complete.last_sent.since(before.last_sent).as_millis_f64(),
            arrived: complete.last_arrived.since(before.last_arrived).as_millis_f64(),
            at: complete.last_arrived.as_secs_f64() * 1e3,
        })
    }
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Usage {
    Normal,
    Over,
    Under,
}

/// Trendline and threshold, ms.
#[derive(Clone, Debug)]
struct Detector {
    adaptation: Adaptation,
    deltas: u32,
    sum: f64,
    smooth: f64,
    window: VecDeque<(f64, f64)>,
    trend: f64,
    modified: f64,
    threshold: f64,
    updated: Option<f64>,
    /// How long, and for how many groups, the trend has been above.
    above: Option<(f64, u32)>,
    /// Holds until the trend says something else.
    usage: Usage,
}

impl Detector {
    fn new(adaptation: Adaptation) -> Detector {
        Detector {
            adaptation,
            deltas: 0,
            sum: 0.0,
            smooth: 0.0,
            window: VecDeque::new(),
            trend: 0.0,
            modified: 0.0,
            threshold: THRESHOLD,
            updated: None,
            above: None,
            usage: Usage::Normal,
        }
    }

    fn update(&mut self, delta: &Delta) {
        self.deltas = (self.deltas + 1).min(1000);
        self.sum += delta.arrived - delta.sent;
        self.smooth = SMOOTHING * self.smooth + (1.0 - SMOOTHING) * self.sum;
        self.window.push_back((delta.at, self.smooth));
        if self.window.len() > WINDOW {
            self.window.pop_front();
        }
        let before = self.trend;
        if self.window.len() == WINDOW {
            self.trend = slope(&self.window).unwrap_or(before);
        }
        self.modified = f64::from(self.deltas.min(MOST_DELTAS)) * self.trend * GAIN;
        self.judge(delta.sent, before);
        self.adapt(delta.at);
    }

    fn judge(&mut self, sent: f64, before: f64) {
        if self.deltas < 2 {
            return;
        }
        if self.modified > self.threshold {
            let (time, groups) = match self.above {
                None => (sent / 2.0, 1),
                Some((time, groups)) => (time + sent, groups + 1),
            };
            self.above = Some((time, groups));
            if time > OVERUSE_MS && groups > 1 && self.trend >= before {
                self.above = Some((0.0, 0));
                self.usage = Usage::Over;
            }
            return;
        }
        self.above = None;
        self.usage = if self.modified < -self.threshold { Usage::Under } else { Usage::Normal };
    }

    fn adapt(&mut self, now: f64) {
        let step = (now - self.updated.unwrap_or(now)).min(LONGEST_STEP_MS);
        self.updated = Some(now);
        let size = self.modified.abs();
        if size > self.threshold + SPIKE {
            return;
        }
        let (down, up) = match self.adaptation {
            Adaptation::Libwebrtc => (0.039, 0.0087),
            Adaptation::Draft => (0.00018, 0.01),
        };
        let gain = if size < self.threshold { down } else { up };
        self.threshold += gain * (size - self.threshold) * step;
        self.threshold = self.threshold.clamp(THRESHOLDS.0, THRESHOLDS.1);
    }
}

/// Slope of the least squares' line; `None`: all points stand at one time.
fn slope(points: &VecDeque<(f64, f64)>) -> Option<f64> {
    let n = points.len() as f64;
    let x_mean = points.iter().map(|p| p.0).sum::<f64>() / n;
    let y_mean = points.iter().map(|p| p.1).sum::<f64>() / n;
    let above: f64 = points.iter().map(|p| (p.0 - x_mean) * (p.1 - y_mean)).sum();
    let below: f64 = points.iter().map(|p| (p.0 - x_mean) * (p.0 - x_mean)).sum();
    (below > 0.0).then(|| above / below)
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum State {
    Hold,
    Increase,
}

/// Additive or multiplicative increase, multiplicative decrease.
#[derive(Clone, Debug)]
struct Aimd {
    rate: f64,
    state: State,
    changed: Option<Time>,
    decreased: Option<Time>,
    capacity: Capacity,
}

impl Aimd {
    fn new(rate: f64) -> Aimd {
        Aimd {
            rate,
            state: State::Hold,
            changed: None,
            decreased: None,
            capacity: Capacity::default(),
        }
    }

    /// A probe has found this rate.
    fn set(&mut self, now: Time, bps: f64) {
        self.rate = bps;
        self.changed = Some(now);
    }

    /// `rtt`: seconds.
    fn update(&mut self, now: Time, usage: Usage, acked: Option<f64>, rtt: f64) {
        match usage {
            // Nothing is known yet about the rate that arrives.
            Usage::Over if acked.is_none() => {
                let is_first = self.decreased.is_none_or(|last| now.since(last) >= INITIAL_PAUSE);
                if is_first {
                    self.rate /= 2.0;
                    (self.changed, self.decreased) = (Some(now), Some(now));
                }
            }
            Usage::Over => {
                let acked = acked.unwrap_or(self.rate);
                let pause = rtt.clamp(0.01, 0.2);
                let is_soon =
                    self.changed.is_some_and(|last| now.since(last).as_secs_f64() < pause);
                if !is_soon || acked < self.rate / 2.0 {
                    self.decrease(now, acked);
                }
            }
            Usage::Under => self.state = State::Hold,
            Usage::Normal => {
                if self.state == State::Hold {
                    (self.state, self.changed) = (State::Increase, Some(now));
                }
                self.increase(now, acked, rtt);
            }
        }
    }

    fn decrease(&mut self, now: Time, acked: f64) {
        let mut rate = DECREASE * acked;
        if rate > FURTHER {
            rate -= FURTHER;
        }
        if rate > self.rate
            && let Some(capacity) = self.capacity.bps
        {
            rate = DECREASE * capacity;
        }
        self.rate = self.rate.min(rate);
        if self.capacity.bounds().is_some_and(|(low, _)| acked < low) {
            self.capacity.bps = None;
        }
        self.capacity.on_overuse(acked);
        self.state = State::Hold;
        (self.changed, self.decreased) = (Some(now), Some(now));
    }

    fn increase(&mut self, now: Time, acked: Option<f64>, rtt: f64) {
        let step = self.changed.map_or(0.0, |last| now.since(last).as_secs_f64());
        self.changed = Some(now);
        if let (Some(acked), Some((_, high))) = (acked, self.capacity.bounds())
            && acked > high
        {
            self.capacity.bps = None;
        }
        let more = match self.capacity.bps {
            Some(_) => near_capacity_slope(self.rate, rtt) * step,
            None => (self.rate * (math::pow(INCREASE, step.min(1.0)) - 1.0)).max(LEAST_INCREASE),
        };
        let ceiling = acked.map_or(f64::INFINITY, |acked| CEILING.0 * acked + CEILING.1);
        self.rate = (self.rate + more).min(ceiling.max(self.rate));
    }
}

/// A packet per response time, bits per second each second.
fn near_capacity_slope(rate: f64, rtt: f64) -> f64 {
    let frame = rate / FRAMES / 8.0;
    let packet = frame / (frame / PACKET).ceil().max(1.0);
    (8.0 * packet / (2.0 * (rtt + RESPONSE))).max(LEAST_SLOPE)
}

/// The rate at which over-use began, with its normalised variance in kb/s.
#[derive(Clone, Debug)]
struct Capacity {
    bps: Option<f64>,
    variance: f64,
}

impl Default for Capacity {
    fn default() -> Capacity {
        Capacity { bps: None, variance: VARIANCES.0 }
    }
}

impl Capacity {
    fn on_overuse(&mut self, acked: f64) {
        let before = self.bps.unwrap_or(acked);
        let estimate = before + CAPACITY_GAIN * (acked - before);
        let off = (estimate - acked) / 1e3;
        let normalised = off * off / (estimate / 1e3).max(1.0);
        self.variance += CAPACITY_GAIN * (normalised - self.variance);
        self.variance = self.variance.clamp(VARIANCES.0, VARIANCES.1);
        self.bps = Some(estimate);
    }
    fn bounds(&self) -> Option<(f64, f64)> {
        let kbps = self.bps? / 1e3;
        let off = DEVIATIONS * (self.variance * kbps).sqrt();
        Some((1e3 * (kbps - off), 1e3 * (kbps + off)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, wanted: f64) {
        assert!((value - wanted).abs() < 1e-9 * wanted.abs().max(1.0), "{value}, wanted {wanted}");
    }
    fn ms(t: u64) -> Time {
        Time(t * 1_000_000)
    }

    /// Threshold 12.5, 33 ms after the update before.
    #[test]
    fn the_threshold_by_hand() {
        for (trend, threshold) in [(20.0, 12.5 + 0.0087 * 7.5 * 33.0), (5.0, 6.0), (30.0, 12.5)] {
            let mut d = Detector::new(Adaptation::Libwebrtc);
            (d.updated, d.modified) = (Some(0.0), trend);
            d.adapt(33.0);
            near(d.threshold, threshold);
        }
        let mut d = Detector::new(Adaptation::Draft);
        (d.updated, d.modified) = (Some(0.0), 5.0);
        d.adapt(33.0);
        near(d.threshold, 12.5 - 0.00018 * 7.5 * 33.0);
    }

    /// 1 Mb/s and 100 ms: four packets of 1042 B a frame, 20.8 kb/s per second.
    #[test]
    fn growth_near_the_capacity_by_hand() {
        near(near_capacity_slope(1e6, 0.1), 8.0 * (1e6 / 240.0 / 4.0) / 0.4);
        assert!((near_capacity_slope(1e6, 0.1) / 20_800.0 - 1.0).abs() < 0.002);
        near(near_capacity_slope(1e5, 0.2), 8.0 * (1e5 / 240.0) / 0.6);
        near(near_capacity_slope(1e4, 0.2), 4000.0);
    }

    /// Doubling from 8 % a second takes nine seconds.
    #[test]
    fn growth_far_from_the_capacity() {
        let mut a = Aimd::new(1e6);
        for i in 0..=90 {
            a.update(ms(i * 100), Usage::Normal, Some(2e6), 0.05);
        }
        assert!((a.rate / 1e6 - 2.0).abs() < 0.01, "{}", a.rate);
        // Growth counts as a change, too: no decrease within the RTT after it.
        let grown = a.rate;
        a.update(ms(9_020), Usage::Over, Some(1.5e6), 0.05);
        near(a.rate, grown);
        a.update(ms(9_100), Usage::Over, Some(1.5e6), 0.05);
        near(a.rate, 0.85 * 1.5e6 - 5e3);
        // Not again within the RTT, unless much less arrives.
        a.update(ms(9_120), Usage::Over, Some(1e6), 0.05);
        near(a.rate, 0.85 * 1.5e6 - 5e3);
        a.update(ms(9_130), Usage::Over, Some(0.5e6), 0.05);
        near(a.rate, 0.85 * 0.5e6 - 5e3);
    }

    /// A link that is overloaded by S/C has a trend of 1 - C/S.
    #[test]
    fn an_overload_is_found_by_its_trend() {
        let judged = |overload: f64| {
            let (mut groups, mut detector) =
                (Groups::default(), Detector::new(Adaptation::Libwebrtc));
            let mut seen = None;
            for i in 0..100_u64 {
                let sent = Time(i * 20_000_000);
                let arrived = Time((i as f64 * 20e6 * overload) as u64 + 10_000_000);
                if let Some(delta) = groups.add(sent, arrived) {
                    detector.update(&delta);
                    if detector.usage == Usage::Over {
                        seen.get_or_insert(i);
                    }
                }
            }
            (seen, detector.trend)
        };
        let (seen, trend) = judged(1.1);
        assert!((trend - (1.0 - 1.0 / 1.1)).abs() < 0.01, "{trend}");
        assert!(seen.is_some_and(|i| i < 50), "within a second: {seen:?}");
        assert_eq!(judged(1.0).0, None);
    }

    /// Packets within 5 ms of the first are one group, and so is what a queue lets go at once.
    #[test]
    fn groups_of_packets() {
        let mut g = Groups::default();
        for (sent, arrived) in [(0, 10), (2, 12), (5, 15)] {
            assert!(g.add(ms(sent), ms(arrived)).is_none());
        }
        assert!(g.add(ms(20), ms(30)).is_none(), "the first group has none before it");
        let d = g.add(ms(40), ms(52)).expect("two groups are complete");
        assert_eq!((d.sent, d.arrived), (15.0, 15.0));
        // Sent 20 ms apart, arrived 1 ms apart.
        assert!(g.add(ms(60), ms(53)).is_none());
        let d = g.add(ms(80), ms(90)).expect("the burst is over");
        assert_eq!((d.sent, d.arrived), (40.0, 23.0));
    }

    /// Frames of eight packets every 33 ms. Where they wait, packets arrive one after the other, 4 ms apart or 6 ms.
    #[test]
    fn frames_that_wait_are_one_group_for_up_to_100_ms() {
        let sent = |spacing: u64| -> Vec<f64> {
            let mut g = Groups::default();
            (0..200_u64)
                .filter_map(|i| {
                    g.add(Time(i / 8 * 33_000_000 + i % 8 * 1000), ms(40 + spacing * i))
                })
                .map(|delta| delta.sent)
                .collect()
        };
        assert_eq!(sent(4)[..5], [132.0; 5]);
        assert_eq!(sent(6)[..5], [33.0; 5]);
    }
}
