//! SCReAM v2 (draft-johansson-ccwg-scream-bis): a window like Prague's, from which the rate of the encoder
//! follows. L4S marks, classic marks, losses and queue delay reduce it. Values of the draft are the defaults;
//! Ericsson's code has others, and `variant` sets them.
//!
//! libwebrtc's port is an algorithm of its own by now: the module `libwebrtc`.
//!
//! Not modelled: key frames on demand, and the draft's answer to clock drift.

mod ericsson;
mod libwebrtc;

use std::collections::VecDeque;

use ericsson::Ericsson;
use libwebrtc::Libwebrtc;

use super::{FrameState, MediaController, MediaOptions, Rates, Repair, Report, Reports};
use crate::cc::Role;
use crate::ecn::Ecn;
use crate::params::kinds::{Spec, any_time, choice, params, real, size, some_time, switch};
use crate::params::{Described, Gauge, Given, Preset, Refused, gauge};
use crate::probe::Gauges;
use crate::time::{Span, Time};

/// At shorter round trips growth and cuts per second do not depend on these, seconds.
const VIRTUAL_RTT: f64 = 0.025;
/// Factors on a loss and on a classic mark.
const BETA_LOSS: f64 = 0.7;
const BETA_ECN: f64 = 0.8;
/// Alpha follows the share of marks as often as this, seconds.
const ALPHA_INTERVAL: f64 = 0.01;
const QDELAY_AVG_G: f64 = 0.25;
/// Growth is fully multiplicative after so many round trips without congestion.
const POST_CONGESTION_DELAY_RTT: f64 = 100.0;
const REF_WND_OVERHEAD_MIN: f64 = 1.5;
const REF_WND_OVERHEAD_MAX: f64 = 3.0;
const MIN_REF_WND: f64 = 3.0;
const RATE_PACE_MIN: f64 = 50_000.0;
const QDELAY_DEV_THRESHOLD: f64 = 0.01;
/// What compensation for competing flows may raise the target to, seconds.
const QDELAY_TARGET_HI: f64 = 0.4;
/// What the window over the RTT is divided by for the target rate.
const RATE_HEADROOM: f64 = 1.2;
/// Headers that the rate of media leaves room for, bytes.
const PACKET_OVERHEAD: f64 = 20.0;
/// Minutes whose least one-way delays make the base delay (RFC 6817, BASE_HISTORY).
const BASE_MINUTES: usize = 10;
const MINUTE: Span = Span::from_secs(60);
/// How late a timer is: the slack that Linux gives ordinary processes. On real hosts it is up to 200 us.
const TIMER: Span = Span::from_micros(50);
/// Round trips whose queue delay compensation looks at, for their variance and for their mean.
const LONG_HISTORY: usize = 200;
const SHORT_HISTORY: usize = 50;

fn gain() -> Spec<f64> {
    let fits = |x| x > 0.0 && x <= 1.0;
    real("FRACTION", "a number above 0, at most 1", fits, (0.001, 1.0))
}
fn factor() -> Spec<f64> {
    real("FACTOR", "a number from 1 to 100", |x| (1.0..=100.0).contains(&x), (1.0, 100.0))
}

params! {
    pub struct Options {
        /// "draft", the values of Ericsson's code, or libwebrtc's algorithm (M152); sets the defaults below
        variant: &'static str = "draft",
            choice("VARIANT", [("draft", "draft"), ("ericsson", "ericsson"), ("libwebrtc", "libwebrtc")]), "";
        /// gain of alpha where the share of marks is above it
        alpha_up: f64 = 0.125, gain(), "L4S_AVG_G_UP";
        /// gain of alpha where the share of marks is below it
        alpha_down: f64 = 0.0078125, gain(), "L4S_AVG_G_DOWN";
        /// growth of the window per RTT after long without congestion
        mul_increase: f64 = 0.02, gain(), "MUL_INCREASE_FACTOR";
        /// not of "ericsson": round trips without congestion after which growth is fully multiplicative
        post_congestion_rtts: f64 = POST_CONGESTION_DELAY_RTT, real("NUMBER", "a number from 1 to 10000",
            |x| (1.0..=10_000.0).contains(&x), (1.0, 10_000.0)), "POST_CONGESTION_DELAY_RTT";
        /// how fast growth and cuts become full away from the inflection point
        inflection_slope: f64 = 8.0, factor(), "draft";
        /// the window may grow to so many times what was in flight
        head_room: f64 = 1.5, factor(), "BYTES_IN_FLIGHT_HEAD_ROOM";
        /// pacing rate over the target rate
        pacing: f64 = 1.5, factor(), "PACKET_PACING_HEADROOM";
        /// packets that are due within this time leave together
        burst: Span = Span::from_micros(500), any_time(), "Ericsson";
        /// of "draft": growth and cuts are smaller where the queue delay varies
        reduce_jitter: bool = false, switch(), "draft, optional";
        /// queue delay from half of which on the window is cut without marks
        qdelay_target: Span = Span::from_millis(60), some_time(), "QDELAY_TARGET_LO";
        /// of "draft": the queue delay target rises next to flows that fill the queue
        competing: bool = false, switch(), "draft, optional";
        /// segment of the algorithm
        mss: u32 = 1000, size(100..=9000), "draft";
        /// of "draft": smoothed RTT at first, which then follows once per round trip; without, the first sample, then each
        initial_srtt: Option<Span> = None, some_time().optional().default(""), "draft";
        /// of "ericsson": how late timers of the sender are, for which its pacer sleeps 100 us less
        timer: Span = TIMER, any_time(), "Linux, timer slack";
        /// not of "libwebrtc": window at first; without, three segments, or with "ericsson" 100 ms of the first rate
        initial_window: Option<u32> = None, size(1000..=100_000_000).optional().default(""), "MIN_REF_WND";
    }
}

impl Described for Options {
    const NAME: &'static str = "scream";
    const SUMMARY: &'static str = "SCReAM v2 (draft-johansson-ccwg-scream-bis)";
    const IN_LINUX: bool = false;
    const GAUGES: &'static [Gauge] = &[
        gauge("ref_wnd_bytes", "B", "reference window"),
        gauge("alpha", "", "estimate of the fraction of marks"),
        gauge("qdelay_ms", "ms", "queue delay that the sender estimates"),
        gauge("qdelay_target_ms", "ms", "queue delay that it keeps below"),
    ];
    const PRESETS: &'static [Preset] = &[
        Preset {
            keyword: "variant",
            value: "ericsson",
            sets: &[("mul_increase", "0.05"), ("head_room", "2"), ("mss", "1200")],
        },
        Preset {
            keyword: "variant",
            value: "libwebrtc",
            sets: &[
                ("inflection_slope", "2"),
                ("head_room", "1.1"),
                ("pacing", "1.1"),
                ("burst", "10ms"),
                ("mss", "1280"),
            ],
        },
    ];

    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        // What not all variants have.
        let (draft, both) = (&["draft"][..], &["draft", "ericsson"][..]);
        let quiet = self.post_congestion_rtts != POST_CONGESTION_DELAY_RTT;
        let of_some = [
            ("reduce_jitter", self.reduce_jitter, draft),
            ("competing", self.competing, draft),
            ("initial_srtt", self.initial_srtt.is_some(), draft),
            ("initial_window", self.initial_window.is_some(), both),
            ("post_congestion_rtts", quiet, &["draft", "libwebrtc"]),
            ("timer", self.timer != TIMER, &["ericsson"]),
        ];
        let mut wrong = of_some.iter().filter(|(_, is_changed, _)| *is_changed);
        match wrong.find(|(.., variants)| !variants.contains(&self.variant)) {
            Some((keyword, ..)) => {
                let variant = self.variant;
                let fix = format!("{variant} has an algorithm of its own; leave {keyword} out");
                Err(given.refuse("variant", variant.to_owned(), fix))
            }
            None => Ok(()),
        }
    }
}

impl MediaOptions for Options {
    const ROLE: Option<Role> = Some(Role::Scalable);
    const LOOK: u8 = 1;
    const ECN: Ecn = Ecn::Ect1;
    fn is_libwebrtc(&self) -> bool {
        self.variant == "libwebrtc"
    }
    fn reports(&self) -> Reports {
        match self.variant {
            "libwebrtc" => Reports::LIBWEBRTC,
            "ericsson" => Reports { packets: Some(32), ..Self::REPORTS },
            _ => Self::REPORTS,
        }
    }
    fn lost_after(&self) -> Option<u32> {
        (self.variant == "ericsson").then_some(ericsson::LOST_AFTER)
    }
    fn repair(&self) -> Repair {
        if self.is_libwebrtc() { Repair::Nack } else { Repair::None }
    }
    fn build(&self, rates: Rates, ecn: Ecn) -> Box<dyn MediaController> {
        match self.variant {
            "libwebrtc" => Box::new(Libwebrtc::new(self.clone(), rates)),
            "ericsson" => Box::new(Ericsson::new(self.clone(), rates, ecn)),
            _ => Box::new(Scream::new(self.clone(), rates, ecn)),
        }
    }
}

/// SCReAM as the draft has it. Times are seconds, sizes bytes, rates bits per second.
#[derive(Clone, Debug)]
struct Scream {
    options: Options,
    rates: Rates,
    is_l4s: bool,
    mss: f64,
    ref_wnd: f64,
    /// The window before the last cut that was allowed to set it, and whether the next one may.
    inflection: Option<f64>,
    may_set_inflection: bool,
    srtt: f64,
    srtt_since: Time,
    /// The most in flight in this round trip and in the one before.
    max_in_flight: [f64; 2],
    round_since: Time,
    alpha: f64,
    alpha_since: Time,
    delivered: u64,
    marked: u64,
    base: BaseDelay,
    qdelay: f64,
    qdelay_avg: f64,
    qdelay_since: Time,
    qdelay_target: f64,
    jitter: Jitter,
    competition: Competition,
    /// Lost and marked since the last cut: what comes sooner than a round trip after it waits for its end.
    is_lost: bool,
    is_marked: bool,
    /// The last cut, and the last loss or mark that cut.
    reacted: Option<Time>,
    congested: Option<Time>,
    /// Terms of the target rate: for what waits in the media queue, and for uneven frames.
    queue_term: f64,
    frame_term: f64,
    target: f64,
}

impl Scream {
    fn new(options: Options, rates: Rates, ecn: Ecn) -> Scream {
        let mss = f64::from(options.mss);
        let qdelay_target = options.qdelay_target.as_secs_f64();
        Scream {
            rates,
            is_l4s: ecn == Ecn::Ect1,
            mss,
            ref_wnd: options.initial_window.map_or(MIN_REF_WND * mss, f64::from),
            inflection: None,
            may_set_inflection: true,
            srtt: options.initial_srtt.map_or(0.0, Span::as_secs_f64),
            srtt_since: Time::ZERO,
            max_in_flight: [0.0; 2],
            round_since: Time::ZERO,
            alpha: 0.0,
            alpha_since: Time::ZERO,
            delivered: 0,
            marked: 0,
            base: BaseDelay::default(),
            qdelay: 0.0,
            qdelay_avg: 0.0,
            qdelay_since: Time::ZERO,
            qdelay_target,
            jitter: Jitter { high: qdelay_target, ..Jitter::default() },
            competition: Competition::default(),
            is_lost: false,
            is_marked: false,
            reacted: None,
            congested: None,
            queue_term: 0.0,
            frame_term: 0.0,
            target: rates.start,
            options,
        }
    }

    /// Which part of full growth and cuts holds near the inflection point, where a flow that has been cut
    /// there before goes slowly.
    fn closeness(&self) -> f64 {
        self.inflection.map_or(1.0, |inflection| {
            let off = self.options.inflection_slope * (self.ref_wnd - inflection) / inflection;
            (off * off).clamp(0.1, 1.0)
        })
    }
    fn jitter_scale(&self) -> f64 {
        if self.options.reduce_jitter { self.jitter.scale() } else { 1.0 }
    }

    fn update_srtt(&mut self, now: Time, rtt: Span) {
        let seldom = self.options.initial_srtt.is_some();
        if seldom && now.since(self.srtt_since) < rtt {
            return;
        }
        self.srtt_since = now;
        let rtt = rtt.as_secs_f64();
        self.srtt = if self.srtt == 0.0 { rtt } else { self.srtt + (rtt - self.srtt) / 8.0 };
    }

    fn update_alpha(&mut self, now: Time) {
        if self.delivered == 0
            || now.since(self.alpha_since).as_secs_f64() < ALPHA_INTERVAL.min(self.srtt)
        {
            return;
        }
        let share = self.marked as f64 / self.delivered as f64;
        if share >= self.alpha {
            self.alpha += self.options.alpha_up * (share - self.alpha);
        } else {
            self.alpha -= self.options.alpha_down * self.alpha;
        }
        (self.alpha_since, self.delivered, self.marked) = (now, 0, 0);
    }

    fn update_qdelay(&mut self, now: Time, one_way: Span) {
        let one_way = one_way.as_secs_f64();
        self.qdelay = one_way - self.base.update(now, one_way);
        self.jitter.add(self.qdelay, self.qdelay_target);
        if now.since(self.qdelay_since).as_secs_f64() < VIRTUAL_RTT.min(self.srtt) {
            return;
        }
        self.qdelay_since = now;
        if self.qdelay < self.qdelay_avg {
            self.qdelay_avg = self.qdelay;
        } else {
            self.qdelay_avg += QDELAY_AVG_G * (self.qdelay - self.qdelay_avg);
        }
        self.jitter.round();
    }

    /// A round trip is over, and saw losses or not.
    fn update_round(&mut self, now: Time, in_flight: f64, has_lost: bool) {
        self.max_in_flight[0] = self.max_in_flight[0].max(in_flight);
        self.competition.has_lost |= has_lost;
        if now.since(self.round_since).as_secs_f64() < VIRTUAL_RTT.max(self.srtt) {
            return;
        }
        self.round_since = now;
        self.max_in_flight = [in_flight, self.max_in_flight[0]];
        if self.options.competing {
            let least = self.options.qdelay_target.as_secs_f64();
            self.qdelay_target = self.competition.target(self.qdelay, self.qdelay_target, least);
        }
    }

    /// How much the average queue delay counts as marks.
    fn virtual_alpha(&self) -> f64 {
        let half = self.qdelay_target / 2.0;
        ((self.qdelay_avg - half) / half).clamp(0.0, 1.0)
    }

    /// The first of loss, mark and queue delay that applies cuts the window, once per round trip.
    fn cut(&mut self, now: Time) {
        let since = |last: Option<Time>| last.map_or(f64::INFINITY, |t| now.since(t).as_secs_f64());
        if since(self.reacted) < VIRTUAL_RTT.min(self.srtt) {
            return;
        }
        let before = self.ref_wnd;
        let per_rtt = (self.srtt / VIRTUAL_RTT).max(1.0);
        let mut is_congestion = true;
        if self.is_lost {
            self.ref_wnd *= BETA_LOSS;
        } else if self.is_marked && self.is_l4s {
            let mut cut = self.alpha / 2.0 / per_rtt;
            if self.qdelay < self.qdelay_target / 4.0 {
                cut *= self.closeness().max(0.25) * self.jitter_scale().max(0.25);
            }
            // What was not used is no window that congestion has confirmed.
            let quiet = POST_CONGESTION_DELAY_RTT * VIRTUAL_RTT.max(self.srtt);
            if since(self.reacted) > quiet {
                self.ref_wnd = self.ref_wnd.min(self.max_in_flight[1].max(self.max_in_flight[0]));
            }
            self.ref_wnd *= 1.0 - cut;
        } else if self.is_marked {
            self.ref_wnd *= BETA_ECN;
        } else if self.virtual_alpha() > 0.0 {
            self.ref_wnd *= 1.0 - self.virtual_alpha() / 2.0 / per_rtt;
            is_congestion = false;
        } else {
            return;
        }
        if self.may_set_inflection {
            (self.inflection, self.may_set_inflection) = (Some(before), false);
        }
        (self.is_lost, self.is_marked) = (false, false);
        self.ref_wnd = self.ref_wnd.max(MIN_REF_WND * self.mss);
        self.reacted = Some(now);
        self.congested = if is_congestion { Some(now) } else { self.congested };
    }

    /// One segment per round trip near congestion, and a part of the window after long without.
    fn grow(&mut self, now: Time, unmarked: f64) {
        let rtt = VIRTUAL_RTT.max(self.srtt);
        let quiet =
            self.congested.map_or(f64::INFINITY, |last| now.since(last).as_secs_f64() / rtt);
        let quiet = (quiet / self.options.post_congestion_rtts).min(1.0);
        let closeness = self.closeness();
        let segments = self.ref_wnd / self.mss;
        let increment = unmarked / segments
            * (self.srtt / VIRTUAL_RTT).min(1.0)
            * closeness.max(0.25)
            * self.jitter_scale().max(0.1)
            * (1.0 + self.options.mul_increase * segments * quiet * closeness);
        let most = self.max_in_flight[0].max(self.max_in_flight[1]);
        let ceiling = self.mss + self.options.head_room * most;
        if increment > 0.0 && self.ref_wnd + increment <= ceiling && self.target < self.rates.max {
            self.ref_wnd += increment;
            self.may_set_inflection = true;
        }
    }

    fn set_target(&mut self) {
        if self.srtt == 0.0 {
            return;
        }
        let small = (self.mss / self.ref_wnd - 0.1).clamp(0.0, 0.2);
        let part = (1.0 - small) * self.mss
            / (self.mss + PACKET_OVERHEAD)
            / (RATE_HEADROOM + self.queue_term + self.frame_term);
        let target = part * 8.0 * self.ref_wnd / self.srtt;
        self.target = target.clamp(self.rates.min, self.rates.max);
    }
}

impl MediaController for Scream {
    fn on_report(&mut self, report: &Report) {
        let (mut lost, mut marked, mut marked_bytes) = (0, 0, 0);
        for packet in report.packets {
            lost += u64::from(packet.arrived.is_none());
            marked += u64::from(packet.ce);
            marked_bytes += if packet.ce { u64::from(packet.size) } else { 0 };
        }
        self.delivered += report.packets.len() as u64 - lost;
        self.marked += marked;
        self.update_srtt(report.now, report.rtt);
        self.update_alpha(report.now);
        self.update_qdelay(report.now, report.one_way);
        self.update_round(report.now, report.max_in_flight as f64, lost > 0);
        self.is_lost |= lost > 0;
        self.is_marked |= marked > 0;
        self.cut(report.now);
        self.grow(report.now, report.acked.saturating_sub(marked_bytes) as f64);
        self.set_target();
    }

    fn on_frame(&mut self, frame: &FrameState) {
        let period = frame.interval.as_secs_f64();
        let age = frame.queue_age.as_secs_f64();
        self.queue_term = (self.queue_term + (age - period / 4.0) / period / 16.0).clamp(0.0, 0.5);
        let nominal = self.target * period / 8.0;
        let above = ((frame.last_bytes as f64 - nominal) / nominal).max(0.0);
        self.frame_term = (self.frame_term + (above - self.frame_term) / 64.0).min(0.2);
        self.set_target();
    }

    fn target_bps(&self) -> f64 {
        self.target
    }
    /// Relaxed near the highest rate, where the window alone limits.
    fn pacing_bps(&self) -> f64 {
        let near = ((self.target / self.rates.max - 0.8) / 0.2).clamp(0.0, 1.0);
        self.options.pacing * self.target.max(RATE_PACE_MIN) / (1.0 - near).max(0.25)
    }
    fn window(&self) -> u64 {
        let more = REF_WND_OVERHEAD_MAX - REF_WND_OVERHEAD_MIN;
        (self.ref_wnd * (REF_WND_OVERHEAD_MIN + more * self.jitter_scale())) as u64
    }
    fn burst(&self) -> Span {
        self.options.burst
    }
    fn set_max(&mut self, bps: f64) {
        self.rates.set_max(bps);
        self.target = self.target.min(bps);
    }
    fn probe(&self, out: &mut dyn Gauges) {
        out.gauge("ref_wnd_bytes", self.ref_wnd);
        out.gauge("alpha", self.alpha);
        out.gauge("qdelay_ms", self.qdelay * 1e3);
        out.gauge("qdelay_target_ms", self.qdelay_target * 1e3);
    }
}

/// The least one-way delay of the last minutes (RFC 6817, 3.4.2), seconds.
#[derive(Clone, Debug, Default)]
struct BaseDelay {
    minutes: VecDeque<f64>,
    minute: u64,
}

impl BaseDelay {
    fn update(&mut self, now: Time, delay: f64) -> f64 {
        let minute = now.0 / MINUTE.0;
        match self.minutes.back_mut().filter(|_| minute == self.minute) {
            Some(least) => *least = least.min(delay),
            None => self.minutes.push_back(delay),
        }
        self.minute = minute;
        if self.minutes.len() > BASE_MINUTES {
            self.minutes.pop_front();
        }
        self.minutes.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// How much the queue delay varies (REDUCE_JITTER), seconds.
#[derive(Clone, Debug, Default)]
struct Jitter {
    high: f64,
    low: f64,
    deviation: f64,
}

impl Jitter {
    fn add(&mut self, qdelay: f64, target: f64) {
        self.high = self.high.max(qdelay).min(target);
        self.low = self.low.min(qdelay);
    }
    fn round(&mut self) {
        self.high -= self.high / 16.0;
        self.low += (self.high - self.low) / 16.0;
        self.deviation += ((self.high - self.low) - self.deviation) / 32.0;
    }
    fn scale(&self) -> f64 {
        (1.0 - self.deviation / QDELAY_DEV_THRESHOLD).clamp(0.0, 1.0)
    }
}

/// Compensation for flows that fill the queue: the target follows the queue that they keep.
#[derive(Clone, Debug, Default)]
struct Competition {
    /// Queue delay of each round trip over the least target.
    ratios: VecDeque<f64>,
    loss_rate: f64,
    has_lost: bool,
}

impl Competition {
    /// The new target after a round trip with this queue delay.
    fn target(&mut self, qdelay: f64, target: f64, least: f64) -> f64 {
        self.ratios.push_back(qdelay / least);
        if self.ratios.len() > LONG_HISTORY {
            self.ratios.pop_front();
        }
        let has_lost = if std::mem::take(&mut self.has_lost) { 1.0 } else { 0.0 };
        self.loss_rate += (has_lost - self.loss_rate) / LONG_HISTORY as f64;
        let mean_of = |n: usize| {
            let n = n.min(self.ratios.len());
            self.ratios.iter().rev().take(n).sum::<f64>() / n as f64
        };
        let mean = mean_of(LONG_HISTORY);
        let squares = self.ratios.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        let variance = squares / self.ratios.len() as f64;
        let new = least * (mean_of(SHORT_HISTORY) + variance.sqrt());
        let next = if self.loss_rate > 0.002 {
            1.5 * new
        } else if variance < 0.2 {
            new
        } else if new < least {
            (target / 2.0).max(new)
        } else {
            target * 0.9
        };
        next.clamp(least, QDELAY_TARGET_HI.max(least))
    }
}

#[cfg(test)]
mod tests;
