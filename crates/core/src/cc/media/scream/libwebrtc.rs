//! SCReAM v2 as libwebrtc has it (`modules/congestion_controller/scream`, M152), where it is another algorithm than the
//! draft's: it reacts to each report, knows how long the receiver holds reports, grows slowly where packets wait,
//! and has filters of its own for losses and jitter.
//!
//! Not modelled: padding, and repeated packets. Bytes are those of
//! RTP packets; libwebrtc adds UDP and IP to each.

use std::collections::VecDeque;

use super::{
    BETA_LOSS, Options, QDELAY_AVG_G, REF_WND_OVERHEAD_MAX, REF_WND_OVERHEAD_MIN, VIRTUAL_RTT,
};
use crate::cc::media::{FrameState, MediaController, Rates, Report};
use crate::probe::Gauges;
use crate::time::Span;

const MIN_REF_WND: f64 = 1000.0;
const SRTT_G: f64 = 1.0 / 8.0;
/// The same while the encoder is the limit.
const SRTT_IDLE_G: f64 = 1.0 / 128.0;
const HOLD_G: f64 = 1.0 / 8.0;
const JITTER_G: f64 = 1.0 / 32.0;
/// Queue delay, and difference of the delays in a report, at which growth is a tenth; the averages look no further
/// than twice of it. Seconds.
const JITTER: f64 = 0.01;
/// Round trips in a row with losses before they cut, and without before they are forgotten.
const LOSSY_ROUNDS: f64 = 3.0;
const CLEAN_ROUNDS: f64 = 2.0;
/// Less than this share of the target arrives: the encoder is the limit.
const IDLE: f64 = 0.9;
const RECEIVED_WINDOW: f64 = 0.1;
/// Pacing is not slower than this share of the rate that arrives.
const PACING_RECEIVED: f64 = 0.8;
/// So long after a congestion a pacer may send larger bursts.
const CALM: f64 = 15.0;
const CALM_BURST: Span = Span::from_millis(40);
/// A queue of so much for so long has to drain: half the target for so many round trips, or so many seconds. The base delay
/// is forgotten if that does not help.
const DRAIN_ABOVE: f64 = 0.005;
const DRAIN_AFTER: f64 = 20.0;
const DRAIN_RTTS: f64 = 5.0;
const DRAIN_LEAST: f64 = 0.1;
const BASE_INTERVAL: f64 = 60.0;
const BASE_HISTORY: usize = 10;
/// The encoder pauses while frames have waited so long and the window is full.
const PAUSE: Span = Span::from_millis(500);
/// Media of a full packet, and the RTP header and tag of each, bytes.
const FULL: f64 = 1200.0;
const HEADER: f64 = 22.0;

/// SCReAM as in libwebrtc. Times are seconds, sizes bytes, rates bits per second.
#[derive(Clone, Debug)]
pub struct Libwebrtc {
    options: Options,
    rates: Rates,
    mss: f64,
    frame_interval: Span,
    ref_wnd: f64,
    inflection: f64,
    may_set_inflection: bool,
    has_reports: bool,
    srtt: f64,
    /// How long the receiver holds the first packet of a report.
    hold: f64,
    alpha: f64,
    max_in_flight: [f64; 2],
    round_since: Option<f64>,
    delay: Delay,
    losses: Losses,
    received: Received,
    is_idle: bool,
    reacted: Option<f64>,
    draining: Option<f64>,
    now: f64,
    target: f64,
}

impl Libwebrtc {
    pub fn new(options: Options, rates: Rates) -> Libwebrtc {
        Libwebrtc {
            mss: f64::from(options.mss),
            frame_interval: Span::from_millis(33),
            ref_wnd: MIN_REF_WND,
            inflection: 1.0,
            may_set_inflection: true,
            has_reports: false,
            srtt: 0.0,
            hold: 0.0,
            alpha: 0.0,
            max_in_flight: [0.0; 2],
            round_since: None,
            delay: Delay::default(),
            losses: Losses::default(),
            received: Received::default(),
            is_idle: false,
            reacted: None,
            draining: None,
            now: 0.0,
            target: rates.start,
            options,
            rates,
        }
    }

    fn mss_ratio(&self) -> f64 {
        (self.mss / self.ref_wnd).min(1.0)
    }
    fn closeness(&self) -> f64 {
        let off =
            self.options.inflection_slope * (self.ref_wnd - self.inflection) / self.inflection;
        (off * off).clamp(0.1, 1.0)
    }
    /// What was in flight allows the window to grow so far.
    fn ceiling(&self) -> f64 {
        let most = self.max_in_flight[0].max(self.max_in_flight[1]);
        (self.mss + self.options.head_room * most).max(MIN_REF_WND)
    }
    fn qdelay_target(&self) -> f64 {
        self.options.qdelay_target.as_secs_f64()
    }
    fn is_queue_detected(&self) -> bool {
        self.delay.average.is_some_and(|q| q > self.qdelay_target() / 2.0)
    }
    fn since(&self, last: Option<f64>) -> f64 {
        last.map_or(f64::INFINITY, |last| self.now - last)
    }

    fn update_srtt(&mut self, rtt: f64) {
        let gain = if self.is_idle { SRTT_IDLE_G } else { SRTT_G };
        self.srtt = if self.srtt == 0.0 { rtt } else { self.srtt + gain * (rtt - self.srtt) };
    }

    fn update_hold(&mut self, hold: f64) {
        if self.is_idle {
            return;
        }
        self.hold = if self.hold == 0.0 { hold } else { self.hold + HOLD_G * (hold - self.hold) };
    }

    fn update_alpha(&mut self, share: f64) {
        if share > self.alpha {
            self.alpha += self.options.alpha_up * (share - self.alpha);
        } else {
            self.alpha -= self.options.alpha_down * self.alpha;
        }
    }

    /// The window after a report: `unmarked` bytes of it came without a mark, or were lost.
    fn update_window(&mut self, is_marked: bool, has_lost: bool, unmarked: f64) {
        let is_queued = self.is_queue_detected();
        let is_lost = has_lost && (self.losses.is_congested() || is_queued);
        let before = self.ref_wnd;
        let reacts = (is_queued || is_marked || is_lost)
            && self.since(self.reacted) >= self.srtt.min(VIRTUAL_RTT);
        if reacts {
            self.reacted = Some(self.now);
            self.ref_wnd *= 1.0 - self.cut(is_lost, is_marked, is_queued);
        }
        if reacts || (!is_marked && !self.losses.blocks_growth() && !is_queued) {
            self.grow(unmarked);
        }
        if self.ref_wnd > before {
            self.may_set_inflection = true;
        } else if self.ref_wnd < before && self.may_set_inflection {
            (self.inflection, self.may_set_inflection) = (before, false);
        }
    }

    /// Of the window.
    fn cut(&self, is_lost: bool, is_marked: bool, is_queued: bool) -> f64 {
        let per_rtt = (self.srtt / VIRTUAL_RTT).max(1.0);
        if is_lost {
            return 1.0 - BETA_LOSS;
        }
        if !is_marked {
            let half = self.qdelay_target() / 2.0;
            let average = self.delay.average.unwrap_or(0.0);
            return ((average - half) / half).clamp(0.0, 1.0) / 2.0 / per_rtt;
        }
        let cut = self.alpha / 2.0 / per_rtt;
        if is_queued { cut } else { cut * self.closeness().max(0.25) * self.delay.calm().max(0.1) }
    }

    fn grow(&mut self, unmarked: f64) {
        let short = ((self.srtt + self.hold) / VIRTUAL_RTT).min(1.0);
        let quiet = self.since(self.reacted)
            / (self.options.post_congestion_rtts * VIRTUAL_RTT.max(self.srtt));
        let closeness = self.closeness();
        let multiplicative = self.options.mul_increase * self.ref_wnd / self.mss;
        let increment = unmarked
            * self.mss_ratio()
            * short
            * short
            * closeness.max(0.25)
            * self.delay.calm().max(0.1)
            * self.delay.even().max(0.1)
            * (1.0 + multiplicative * quiet.min(1.0) * closeness);
        let ceiling = self.ceiling();
        if self.ref_wnd < ceiling {
            self.ref_wnd = (self.ref_wnd + increment).clamp(MIN_REF_WND, ceiling);
        }
    }

    fn set_target(&mut self) {
        let small = (self.mss_ratio() - 0.1).clamp(0.0, 0.2);
        let rtt = self.srtt.max(0.001);
        let mut target = (1.0 - small) * 8.0 * self.ref_wnd / (rtt + self.hold);
        if self.since(self.delay.queued_since).is_finite()
            && self.since(self.delay.queued_since) >= DRAIN_AFTER
        {
            let started = *self.draining.get_or_insert(self.now);
            if self.now - started < DRAIN_LEAST.max(DRAIN_RTTS * rtt) {
                target *= 0.5;
            } else {
                self.delay = Delay { last: self.delay.last, ..Delay::default() };
            }
        } else {
            self.draining = None;
        }
        self.target = target.clamp(self.rates.min, self.highest());
    }
    /// The target is that of packets, and the encoder's highest rate that of media.
    fn highest(&self) -> f64 {
        self.rates.max * (FULL + HEADER) / FULL
    }
}

impl MediaController for Libwebrtc {
    fn on_report(&mut self, report: &Report) {
        self.now = report.now.as_secs_f64();
        let came = report.packets.iter().filter_map(|p| p.arrived.map(|at| (p, at)));
        let Some((last, last_at)) = came.clone().next_back() else { return };
        let (mut marked, mut n, mut bytes) = (0, 0, 0.0);
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        let mut first_at = last_at;
        for (packet, at) in came {
            let one_way = at.since(packet.sent).as_secs_f64();
            (least, most) = (least.min(one_way), most.max(one_way));
            first_at = first_at.min(at);
            n += 1;
            marked += u32::from(packet.ce);
            bytes += f64::from(packet.size);
        }
        let unmarked = report.packets.iter().filter(|p| !p.ce).map(|p| f64::from(p.size)).sum();
        let has_lost = report.packets.len() > n;
        self.max_in_flight[0] = self.max_in_flight[0].max(report.max_in_flight as f64);
        self.received.add(last_at.as_secs_f64(), bytes);
        self.is_idle = self.ceiling() < self.ref_wnd
            && self.received.bps.is_some_and(|bps| bps < IDLE * self.target);
        self.delay.update(self.now, least, most);
        self.update_srtt(report.rtt.as_secs_f64());
        let held = report.now.since(last.sent).as_secs_f64() - report.rtt.as_secs_f64();
        self.update_hold(held + last_at.since(first_at).as_secs_f64());
        if !self.has_reports {
            self.has_reports = true;
            self.ref_wnd = (self.target / 8.0 * (self.srtt + self.hold)).max(MIN_REF_WND);
        }
        self.update_alpha(f64::from(marked) / n as f64);
        self.losses.update(self.now, has_lost, VIRTUAL_RTT.max(self.srtt));
        self.update_window(marked > 0, has_lost, unmarked);
        self.set_target();
        if self.since(self.round_since) >= VIRTUAL_RTT.max(self.srtt) {
            self.round_since = Some(self.now);
            self.max_in_flight = [report.in_flight as f64, self.max_in_flight[0]];
        }
    }

    fn skips_frame(&mut self, frame: &FrameState) -> bool {
        frame.queue_age > PAUSE && frame.in_flight as f64 + self.mss > self.window() as f64
    }
    fn on_frame(&mut self, frame: &FrameState) {
        self.frame_interval = frame.interval;
    }
    /// The target is that of packets: full ones, and a last one for each frame.
    fn target_bps(&self) -> f64 {
        let interval = self.frame_interval.as_secs_f64();
        let packets = (self.target / 8.0 * interval / (FULL + HEADER)).ceil();
        (self.target - packets * HEADER * 8.0 / interval).clamp(self.target / 2.0, self.rates.max)
    }
    fn pacing_bps(&self) -> f64 {
        let received = self.received.bps.unwrap_or(0.0);
        (self.options.pacing * self.target).max(PACING_RECEIVED * received)
    }
    fn window(&self) -> u64 {
        let more = REF_WND_OVERHEAD_MAX - REF_WND_OVERHEAD_MIN;
        (self.ref_wnd * (REF_WND_OVERHEAD_MIN + more * self.delay.calm())) as u64
    }
    fn burst(&self) -> Span {
        if self.since(self.reacted) > CALM {
            CALM_BURST.max(self.options.burst)
        } else {
            self.options.burst
        }
    }
    fn bursts_early(&self) -> bool {
        true
    }
    fn set_max(&mut self, bps: f64) {
        self.rates.set_max(bps);
        self.target = self.target.min(self.highest());
    }
    fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("ref_wnd_bytes", self.ref_wnd);
        out.gauge("alpha", self.alpha);
        out.gauge("qdelay_ms", self.delay.last.unwrap_or(0.0) * 1e3);
        out.gauge("qdelay_target_ms", self.qdelay_target() * 1e3);
    }
}

/// Queue delay, as the least of each report tells it, seconds.
#[derive(Clone, Debug, Default)]
struct Delay {
    history: VecDeque<f64>,
    newest_base: Option<f64>,
    base_since: Option<f64>,
    last: Option<f64>,
    /// Rises slowly and falls at once.
    average: Option<f64>,
    /// Of the queue delay, and of what the delays in a report differ by; both follow to twice the limit.
    least_average: f64,
    spread_average: f64,
    queued_since: Option<f64>,
}

impl Delay {
    fn update(&mut self, now: f64, least: f64, most: f64) {
        let newest = self.newest_base.map_or(least, |base| base.min(least));
        self.newest_base = Some(newest);
        let qdelay = least - self.history.iter().copied().fold(newest, f64::min);
        if qdelay > DRAIN_ABOVE {
            self.queued_since.get_or_insert(now);
        } else {
            self.queued_since = None;
        }
        let sample = self.last.map_or(qdelay, |last| last.min(qdelay));
        self.last = Some(qdelay);
        self.average = Some(match self.average {
            Some(average) if sample >= average => average + QDELAY_AVG_G * (sample - average),
            _ => sample,
        });
        self.least_average += JITTER_G * (qdelay.min(2.0 * JITTER) - self.least_average);
        self.spread_average += JITTER_G * ((most - least).min(2.0 * JITTER) - self.spread_average);
        if self.base_since.is_none_or(|since| now - since >= BASE_INTERVAL) {
            self.history.push_back(newest);
            if self.history.len() > BASE_HISTORY {
                self.history.pop_front();
            }
            (self.base_since, self.newest_base) = (Some(now), None);
        }
    }

    /// 1 where packets find no queue; a tenth at the limit.
    fn calm(&self) -> f64 {
        (0.1 + 1.2 * (JITTER - self.least_average) / JITTER).clamp(0.0, 1.0)
    }
    /// 1 where the packets of a report are delayed alike.
    fn even(&self) -> f64 {
        (0.1 + 1.2 * (JITTER - self.spread_average) / JITTER).clamp(0.0, 1.0)
    }
}

/// A level that rises with each round trip with losses, and falls with each without.
#[derive(Clone, Debug, Default)]
struct Losses {
    level: f64,
    is_in_round: bool,
    round_since: Option<f64>,
}

impl Losses {
    fn update(&mut self, now: f64, has_lost: bool, rtt: f64) {
        self.is_in_round |= has_lost;
        if self.round_since.is_some_and(|since| now - since < rtt) {
            return;
        }
        self.round_since = Some(now);
        let step = if self.is_in_round { 1.0 / LOSSY_ROUNDS } else { -1.0 / CLEAN_ROUNDS };
        self.level = (self.level + step).clamp(0.0, 1.0);
        self.is_in_round = false;
    }
    fn is_congested(&self) -> bool {
        self.level >= 0.99
    }
    fn blocks_growth(&self) -> bool {
        self.level >= 0.01
    }
}

/// The rate that arrives, over windows one after the other.
#[derive(Clone, Debug, Default)]
struct Received {
    bps: Option<f64>,
    bytes: f64,
    since: Option<f64>,
}

impl Received {
    fn add(&mut self, at: f64, bytes: f64) {
        self.bytes += bytes;
        let Some(since) = self.since else {
            (self.since, self.bytes) = (Some(at), 0.0);
            return;
        };
        if at - since >= RECEIVED_WINDOW {
            self.bps = Some(self.bytes * 8.0 / (at - since));
            (self.since, self.bytes) = (Some(at), 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::media::Fate;
    use crate::time::Time;

    fn near(value: f64, wanted: f64) {
        assert!((value - wanted).abs() < 1e-9 * wanted.abs().max(1.0), "{value}, wanted {wanted}");
    }

    fn controller() -> Libwebrtc {
        let options =
            Options { mss: 1280, head_room: 1.1, inflection_slope: 2.0, ..Options::default() };
        Libwebrtc::new(options, Rates { min: 1e5, start: 1e6, max: 1e9 })
    }

    /// A report at `now` of two packets, of which the receiver held the first for 10 ms and the second for 4.
    fn report(c: &mut Libwebrtc, now_ms: u64, marked: [bool; 2], second_came: bool) {
        let at = |ms: u64| Time(ms * 1_000_000);
        let left = now_ms - 10;
        let fates = [
            Fate {
                sent: at(left - 20),
                arrived: Some(at(left - 10)),
                size: 1000,
                ce: marked[0],
                cluster: 0,
            },
            Fate {
                sent: at(left - 14),
                arrived: second_came.then_some(at(left - 4)),
                size: 1000,
                ce: marked[1],
                cluster: 0,
            },
        ];
        c.on_report(&Report {
            now: at(now_ms),
            packets: &fates,
            rtt: Span::from_millis(20),
            one_way: Span::from_millis(10),
            acked: 2000,
            in_flight: 20_000,
            max_in_flight: 20_000,
        });
    }

    /// The receiver held a report for 10 ms, the RTT is 20 ms: 1 Mb/s are 3750 B. Windows of few segments leave a fifth.
    #[test]
    fn the_window_covers_the_time_of_the_report() {
        let mut c = controller();
        report(&mut c, 100, [false; 2], true);
        near(c.hold, 0.01);
        near(c.srtt, 0.02);
        let growth = 2000.0 * 1280.0 / 3750.0 * (1.0 + 0.02 * 3750.0 / 1280.0);
        near(c.ref_wnd, 3750.0 + growth);
        near(c.target, (1.0 - (1280.0 / c.ref_wnd - 0.1_f64).min(0.2)) * 8.0 * c.ref_wnd / 0.03);
    }

    #[test]
    fn growth_and_window_shrink_where_packets_wait() {
        let mut d = Delay::default();
        for (least, calm) in [(0.0, 1.0), (0.0025, 1.0), (0.005, 0.7), (0.01, 0.1), (0.02, 0.0)] {
            d.least_average = least;
            near(d.calm(), calm);
        }
        // The lower of two reports in a row counts; it falls at once and rises by a quarter.
        let mut d = Delay::default();
        for (least, average) in
            [(0.01, 0.0), (0.03, 0.0), (0.05, 0.005), (0.05, 0.01375), (0.011, 0.001)]
        {
            d.update(1.0, least, least);
            near(d.average.expect("a report has come"), average);
        }
        near(d.spread_average, 0.0);
    }

    #[test]
    fn losses_cut_in_the_third_round_trip_in_a_row() {
        let mut l = Losses::default();
        let levels: Vec<_> = [true, true, true, false, false]
            .into_iter()
            .enumerate()
            .map(|(i, lost)| {
                l.update(i as f64, lost, 1.0);
                (l.is_congested(), l.blocks_growth())
            })
            .collect();
        let wanted = [(false, true), (false, true), (true, true), (false, true), (false, false)];
        assert_eq!(levels, wanted);
    }

    /// A mark lets the window grow only where it also cuts: not sooner than an RTT after the last cut.
    #[test]
    fn a_mark_stops_growth() {
        let mut c = controller();
        report(&mut c, 100, [false; 2], true);
        report(&mut c, 200, [true, false], true);
        near(c.alpha, 0.5 / 8.0);
        let before = c.ref_wnd;
        report(&mut c, 210, [false, true], true);
        near(c.ref_wnd, before);
        report(&mut c, 215, [false, false], true);
        assert!(c.ref_wnd > before);
    }
}
