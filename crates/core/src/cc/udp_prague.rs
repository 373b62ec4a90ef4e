//! The algorithm of UDP Prague (`prague_cc.cpp`): Prague's, in bytes and with packets that shrink. Bulk data
//! ([`crate::traffic::udp_prague`]) and media ([`super::media::prague`]) have it.
//!
//! Windows are in millionths of a byte, rates in bytes of payload per second, times in microseconds;
//! alpha has 20 fractional bits.

use crate::time::{Span, Time};

/// Below this RTT the rate does not depend on it.
const REF_RTT_US: u64 = 25_000;
const ALPHA_BITS: u32 = 20;
const ALPHA_ONE: i64 = 1 << ALPHA_BITS;
/// g = 1/16; the RTT is smoothed by 1/8.
const ALPHA_SHIFT: u32 = 4;
const SRTT_SHIFT: u32 = 3;
/// 100 kbit/s, at first and at the least.
const INIT_RATE: u64 = 12_500;
const MIN_RATE: u64 = 12_500;
const INIT_WINDOW_PACKETS: u64 = 10;
pub const MIN_PACKET: u64 = 150;
/// Packets that must fit into a virtual RTT, and into the window.
const MIN_WINDOW_PACKETS: u64 = 2;
const BURST_US: u64 = 250;
/// The rate swings by 3 % around its mean in each virtual RTT.
const SWING_PERCENT: u64 = 3;
/// After so many virtual RTTs without congestion, and one more per 1.92 MB/s, growth goes from one
/// packet to 1 ms of queue per virtual RTT.
const GROWTH_RTTS: u64 = 7;
const GROWTH_RATE_STEP: u64 = 1_920_000;
const GROWTH_QUEUE_US: u64 = 1_000;
/// Below this, or where packets are further apart than an RTT, an RTT is too unsteady to steer a
/// window by.
const MIN_STEADY_RTT_US: u64 = 2_000;
const SECOND: u64 = 1_000_000;

/// What the receiver tells: totals since the start. `lost` goes down when what was missing arrives.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Feedback {
    pub received: u32,
    pub ce: u32,
    pub lost: u32,
}

impl Feedback {
    /// Packets of which something is known.
    fn known(self) -> u32 {
        self.received + self.lost
    }
}

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum State {
    Start,
    Avoidance,
    /// A window has been cut because of marks, or of a loss: until it and a virtual RTT have passed.
    Reduced,
    Loss,
}

/// What is steered.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Mode {
    Window,
    Rate,
}

/// A cut because of a loss, that reordering may prove unnecessary.
#[derive(Copy, Clone, Debug)]
struct Cut {
    mode: Mode,
    amount: u64,
    growth_rtts: u64,
    lost_before: u32,
}

/// An interval that ends when all that was sent before its start is accounted for, and a virtual
/// RTT has passed.
#[derive(Copy, Clone, Debug, Default)]
struct Interval {
    since: Time,
    sent: u32,
}

impl Interval {
    fn is_over(self, now: Time, feedback: Feedback, virtual_rtt: Span) -> bool {
        feedback.known() > self.sent && now.since(self.since) >= virtual_rtt
    }
}

/// UDP Prague's window, rate and packet size.
#[derive(Clone, Debug)]
pub struct Law {
    max_packet: u64,
    max_rate: u64,
    state: State,
    mode: Mode,
    srtt_us: u64,
    window: u64,
    rate: u64,
    alpha: i64,
    alpha_interval: Interval,
    alpha_totals: Feedback,
    reduction: Interval,
    loss: Interval,
    cut: Option<Cut>,
    growth_rtts: u64,
    latest: Feedback,
    packet: u64,
    burst: u64,
    packet_window: u64,
}

impl Law {
    /// `max_packet`: payload of a packet at most; `max_rate`: bytes of payload per second.
    pub fn new(max_packet: u64, max_rate: u64, now: Time) -> Law {
        let mut law = Law {
            max_packet,
            max_rate: max_rate.max(MIN_RATE),
            state: State::Start,
            mode: Mode::Window,
            srtt_us: 0,
            window: INIT_WINDOW_PACKETS * max_packet * SECOND,
            rate: INIT_RATE,
            alpha: 0,
            alpha_interval: Interval { since: now, sent: 0 },
            alpha_totals: Feedback::default(),
            reduction: Interval::default(),
            loss: Interval::default(),
            cut: None,
            growth_rtts: INIT_RATE / GROWTH_RATE_STEP + GROWTH_RTTS,
            latest: Feedback::default(),
            packet: 0,
            burst: 1,
            packet_window: 0,
        };
        law.fit_packets();
        law
    }

    /// Begins at another rate, bytes of payload per second.
    pub fn begin_at(&mut self, rate: u64) {
        self.rate = rate.clamp(MIN_RATE, self.max_rate);
        self.fit_packets();
    }
    /// The highest rate is another one from now on, bytes of payload per second.
    pub fn set_max_rate(&mut self, rate: u64) {
        self.max_rate = rate.max(MIN_RATE);
        self.align();
        self.fit_packets();
    }
    /// Growth counts packets of this size until the next feedback: who sends frames cannot choose it.
    pub fn set_packet(&mut self, bytes: u64) {
        self.packet = bytes.clamp(MIN_PACKET, self.max_packet);
    }

    /// Time counts from here.
    pub fn start(&mut self, now: Time) {
        self.alpha_interval.since = now;
    }

    /// Nothing was heard for long: all over again, except for what the receiver has told.
    pub fn restart(&mut self, now: Time) {
        let totals = self.latest;
        *self = Law::new(self.max_packet, self.max_rate, now);
        self.latest = totals;
        self.alpha_totals = totals;
        self.packet = self.max_packet;
        self.packet_window = MIN_WINDOW_PACKETS;
    }

    pub fn srtt(&self) -> Span {
        Span::from_micros(self.srtt_us)
    }
    pub fn alpha(&self) -> f64 {
        self.alpha as f64 / ALPHA_ONE as f64
    }
    /// Bytes of payload per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }
    /// Payload of the next packet.
    pub fn packet(&self) -> u64 {
        self.packet
    }
    /// Packets that may leave back to back, and that may be in flight.
    pub fn burst(&self) -> u64 {
        self.burst
    }
    pub fn packet_window(&self) -> u64 {
        self.packet_window
    }
    /// Bytes of payload per second: more in the first half of a virtual RTT, less in the second.
    pub fn pacing_rate(&self, now: Time) -> u64 {
        let up = 100 + SWING_PERCENT;
        let half = Span::from_micros(self.virtual_rtt_us() / 2);
        if now.since(self.alpha_interval.since) >= half {
            self.rate * 100 / up
        } else {
            self.rate * up / 100
        }
    }
    fn virtual_rtt_us(&self) -> u64 {
        self.srtt_us.max(REF_RTT_US)
    }

    /// Feedback arrives, of a packet sent `rtt` ago; `sent`: packets sent so far. False if a newer one
    /// has overtaken it.
    pub fn on_feedback(&mut self, now: Time, rtt: Span, feedback: Feedback, sent: u32) -> bool {
        if feedback.received < self.latest.received || feedback.ce < self.latest.ce {
            return false;
        }
        self.sample_rtt(rtt.as_micros());
        self.choose_mode();
        let virtual_rtt = Span::from_micros(self.virtual_rtt_us());
        if self.alpha_interval.is_over(now, feedback, virtual_rtt) {
            self.update_alpha(now, feedback, sent);
        }
        self.undo_if_reordered(feedback);
        if self.state == State::Loss && self.loss.is_over(now, feedback, virtual_rtt) {
            self.state = State::Avoidance;
        }
        if self.state != State::Loss && feedback.lost > self.latest.lost {
            self.halve();
            self.loss = Interval { since: now, sent };
        }
        let unmarked =
            (feedback.received - self.latest.received).saturating_sub(feedback.ce - self.latest.ce);
        if self.state != State::Loss {
            self.grow(u64::from(unmarked));
        }
        if self.state == State::Reduced && self.reduction.is_over(now, feedback, virtual_rtt) {
            self.state = State::Avoidance;
        }
        if self.state == State::Avoidance && feedback.ce > self.latest.ce {
            self.reduce_by_alpha();
            self.reduction = Interval { since: now, sent };
        }
        self.align();
        self.fit_packets();
        self.latest = feedback;
        true
    }

    fn sample_rtt(&mut self, us: u64) {
        if self.state == State::Start {
            self.srtt_us = us;
            self.window = us * self.rate;
            self.state = State::Avoidance;
        } else {
            let off = (us as i64 - self.srtt_us as i64) >> SRTT_SHIFT;
            self.srtt_us = (self.srtt_us as i64 + off) as u64;
        }
    }

    /// The rate stays what it is when the mode changes.
    fn choose_mode(&mut self) {
        let spacing = self.packet * SECOND / self.rate;
        let unsteady = self.srtt_us <= MIN_STEADY_RTT_US.max(spacing);
        if !unsteady && self.mode == Mode::Rate {
            self.window = self.srtt_us * self.rate;
        }
        self.mode = if unsteady { Mode::Rate } else { Mode::Window };
    }

    fn update_alpha(&mut self, now: Time, feedback: Feedback, sent: u32) {
        let received = i64::from(feedback.received - self.alpha_totals.received);
        if received > 0 {
            let marked = i64::from(feedback.ce - self.alpha_totals.ce);
            let share = (marked << ALPHA_BITS) / received;
            self.alpha = (self.alpha + ((share - self.alpha) >> ALPHA_SHIFT)).min(ALPHA_ONE);
        }
        self.alpha_totals = feedback;
        self.alpha_interval = Interval { since: now, sent };
        self.growth_rtts = self.growth_rtts.saturating_sub(1);
    }

    /// What seemed lost arrived late: the cut is taken back.
    fn undo_if_reordered(&mut self, feedback: Feedback) {
        if let Some(cut) = self.cut
            && feedback.lost <= cut.lost_before
        {
            self.cut = None;
            self.mode = cut.mode;
            *self.steered() += cut.amount;
            self.growth_rtts = self.growth_rtts.saturating_sub(cut.growth_rtts);
            self.state = State::Avoidance;
        }
    }

    fn steered(&mut self) -> &mut u64 {
        match self.mode {
            Mode::Window => &mut self.window,
            Mode::Rate => &mut self.rate,
        }
    }

    /// A loss halves. Fast growth waits until a flow at 25 ms would be back where it was.
    fn halve(&mut self) {
        let virtual_rtt = self.virtual_rtt_us();
        let rtts = self.rate / 2 / self.max_packet * REF_RTT_US / virtual_rtt * REF_RTT_US / SECOND;
        let waited = self.cut.map_or(0, |cut| cut.growth_rtts);
        let growth_rtts = (waited + rtts).saturating_sub(self.growth_rtts).min(rtts);
        self.growth_rtts = rtts;
        let amount = *self.steered() / 2;
        *self.steered() -= amount;
        self.cut =
            Some(Cut { mode: self.mode, amount, growth_rtts, lost_before: self.latest.lost });
        self.state = State::Loss;
    }

    /// Per virtual RTT by one packet, or by 1 ms of queue when there was no congestion for long:
    /// acks * packet * step * (srtt/virtual RTT)^2 / window, or the same in rates.
    fn grow(&mut self, unmarked: u64) {
        if unmarked == 0 {
            return;
        }
        let fast = self.rate * GROWTH_QUEUE_US / SECOND;
        let step = if self.growth_rtts > 0 { self.max_packet } else { fast.max(self.max_packet) };
        let bytes = u128::from(unmarked * self.packet * step);
        let square = |x: u64| u128::from(x) * u128::from(x);
        let virtual_rtt = square(self.virtual_rtt_us());
        let scaled = bytes * square(SECOND);
        let (of, by) = match self.mode {
            Mode::Window => (scaled * square(self.srtt_us), virtual_rtt * u128::from(self.window)),
            Mode::Rate => (scaled, virtual_rtt * u128::from(self.rate)),
        };
        *self.steered() += ((of + by / 2) / by.max(1)) as u64;
    }

    fn reduce_by_alpha(&mut self) {
        self.growth_rtts = self.rate / GROWTH_RATE_STEP + GROWTH_RTTS;
        let steered = *self.steered();
        let cut = (u128::from(steered) * self.alpha as u128) >> (ALPHA_BITS + 1);
        *self.steered() -= cut as u64;
        self.state = State::Reduced;
    }

    /// Makes rate and window agree, within their bounds.
    fn align(&mut self) {
        if self.mode == Mode::Window {
            self.rate = self.window / self.srtt_us.max(1);
        }
        self.rate = self.rate.clamp(MIN_RATE, self.max_rate);
        self.window = (self.rate * self.srtt_us).max(1);
    }

    fn fit_packets(&mut self) {
        let half = self.rate * self.virtual_rtt_us() / SECOND / MIN_WINDOW_PACKETS;
        self.packet = half.clamp(MIN_PACKET, self.max_packet);
        self.burst = (self.rate * BURST_US / SECOND / self.packet).max(1);
        // The window must not hold pacing up: it is for a network that stands still.
        let swung = self.window / 100 * (100 + SWING_PERCENT) / SECOND;
        self.packet_window = (swung / self.packet + 1).max(MIN_WINDOW_PACKETS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// A sender of back-to-back round trips of `rtt_us`.
    struct Lab {
        law: Law,
        now: Time,
        feedback: Feedback,
        sent: u32,
        rtt: Span,
    }

    fn lab(rtt_us: u64, rate: u64) -> Lab {
        let mut law = Law::new(1400, u64::MAX >> 24, Time::ZERO);
        let rtt = Span::from_micros(rtt_us);
        let now = Time::ZERO + rtt;
        let feedback = Feedback { received: 1, ..Feedback::default() };
        law.on_feedback(now, rtt, feedback, 1);
        law.rate = rate;
        law.window = rate * rtt_us;
        law.fit_packets();
        Lab { law, now, feedback, sent: 1, rtt }
    }

    impl Lab {
        /// One packet arrives, later by its spacing.
        fn packet(&mut self, ce: bool, lost: i32) {
            self.now += Span(self.law.packet * 1_000_000_000 / self.law.rate);
            self.feedback.received += 1;
            self.feedback.ce += u32::from(ce);
            self.feedback.lost = self.feedback.lost.checked_add_signed(lost).expect("not negative");
            let in_flight =
                (self.law.rate * self.rtt.as_micros() / SECOND / self.law.packet) as u32;
            self.sent = self.sent.max(self.feedback.known() + in_flight);
            assert!(self.law.on_feedback(self.now, self.rtt, self.feedback, self.sent));
        }
        fn mbps(&self) -> f64 {
            self.law.rate as f64 * 8e-6
        }
    }

    /// r = c (1-p)/p * 1400 B / 25 ms whatever the RTT up to 25 ms, with c = 1 + sqrt 3 for independent
    /// marks and one reduction per virtual RTT (laws.md 1).
    #[test]
    fn the_rate_law_under_random_marks() {
        for rtt_us in [5_000, 10_000, 25_000] {
            for p in [0.02, 0.05, 0.1] {
                let mut l = lab(rtt_us, 1_250_000);
                let mut rng = Rng::stream(1, "marks", rtt_us);
                let (mut bits, mut since) = (0.0, Time::ZERO);
                for n in 0..400_000 {
                    if n == 20_000 {
                        since = l.now;
                    }
                    l.packet(rng.unit() < p, 0);
                    if n >= 20_000 {
                        bits += l.law.packet as f64 * 8.0;
                    }
                }
                let rate = bits / l.now.since(since).as_secs_f64() * 1e-6;
                let law = (1.0 + 3_f64.sqrt()) * (1.0 - p) / p * 1400.0 * 8e-6 / 0.025;
                println!("{rtt_us} us, p = {p}: {rate:.2} Mb/s, law {law:.2}");
                assert!((rate / law - 1.0).abs() < 0.05, "{rtt_us} us, {p}: {rate}, law {law}");
            }
        }
    }

    /// With all of a virtual RTT's marks in one, alpha approaches the share at gain 1/16.
    #[test]
    fn alpha_is_the_average_share_of_marks() {
        let mut l = lab(25_000, 1_400_000);
        let mut n = 0;
        let mut updates = 0;
        let mut since = l.law.alpha_interval.since;
        while updates < 40 {
            n += 1;
            l.packet(n % 4 == 0, 0);
            if l.law.alpha_interval.since != since {
                since = l.law.alpha_interval.since;
                updates += 1;
            }
        }
        let law = 0.25 * (1.0 - crate::math::pow(15.0 / 16.0, 40.0));
        assert!((l.law.alpha() - law).abs() < 0.02, "{} {law}", l.law.alpha());
    }

    /// Once per virtual RTT by alpha/2; growth goes on meanwhile.
    #[test]
    fn marks_cut_by_half_of_alpha_once_per_virtual_rtt() {
        let mut l = lab(10_000, 1_400_000);
        l.law.alpha = ALPHA_ONE / 2;
        let before = l.mbps();
        l.packet(true, 0);
        assert!((l.mbps() / before - 0.75).abs() < 1e-3, "{} of {before}", l.mbps());
        assert_eq!(l.law.growth_rtts, 7);
        let cut = l.mbps();
        for _ in 0..10 {
            l.packet(true, 0);
        }
        assert!((l.mbps() / cut - 1.0).abs() < 1e-3, "no second cut within 25 ms");
        let after = l.mbps();
        l.packet(false, 0);
        assert!(l.mbps() > after, "unmarked packets still count");
    }

    /// A loss halves once, stops growth for a virtual RTT, and is undone if the packet was only late.
    #[test]
    fn a_loss_halves_and_reordering_undoes_it() {
        let mut l = lab(10_000, 1_400_000);
        let before = l.mbps();
        l.packet(false, 1);
        assert!((l.mbps() / before - 0.5).abs() < 1e-3);
        let halved = l.mbps();
        for _ in 0..5 {
            l.packet(false, 1);
        }
        assert_eq!(l.mbps(), halved, "neither growth nor another cut");
        // 500 packets/s after halving: 25 ms * 25/25 at 12.5 packets per 25 ms make 12 RTTs.
        assert_eq!(l.law.growth_rtts, 12);
        l.packet(false, -6);
        assert!((l.mbps() / before - 1.0).abs() < 0.02, "{} of {before}", l.mbps());
        assert!(l.law.growth_rtts <= 7);
    }

    /// Packets shrink so that two fit into the virtual RTT: at 100 kbit/s, 156 bytes.
    #[test]
    fn packets_shrink_at_low_rates() {
        for (rate, packet) in [(12_500, 156), (50_000, 625), (112_000, 1400), (10_000_000, 1400)] {
            assert_eq!(lab(5_000, rate).law.packet, packet, "{rate} B/s");
        }
        assert_eq!(lab(100_000, 12_500).law.packet, 625, "two per RTT");
        let l = lab(5_000, 12_500);
        assert_eq!((l.law.packet_window, l.law.burst), (2, 1));
        assert_eq!(lab(20_000, 50_000_000).law.burst, 8); // 250 us
    }

    /// Below 2 ms, or with packets further apart than an RTT, the rate is steered; the change itself
    /// does not move it.
    #[test]
    fn the_rate_is_steered_where_the_rtt_is_unsteady() {
        for (rtt_us, rate, mode) in [
            (1_900, 10_000_000, Mode::Rate),
            (2_100, 10_000_000, Mode::Window),
            (5_000, 12_500, Mode::Rate),
            (30_000, 12_500, Mode::Window),
        ] {
            let mut l = lab(rtt_us, rate);
            let (before, packet) = (l.law.rate as f64, l.law.packet as f64);
            l.packet(false, 0);
            assert_eq!(l.law.mode, mode, "{rtt_us} us, {rate} B/s");
            // One packet of growth per virtual RTT, spread over its packets.
            let virtual_rtt = (rtt_us as f64 * 1e-6).max(0.025);
            let law = 1400.0 * packet / virtual_rtt / virtual_rtt / before;
            let grown = l.law.rate as f64 - before;
            assert!((grown - law).abs() <= 0.05 * law + 2.0, "{grown}, law {law}");
        }
    }

    /// Without congestion for seven virtual RTTs and one per 1.92 MB/s growth goes to 1 ms of queue.
    #[test]
    fn growth_becomes_fast_after_quiet_rtts() {
        let mut l = lab(25_000, 9_600_000);
        l.law.reduce_by_alpha();
        l.law.state = State::Avoidance;
        assert_eq!(l.law.growth_rtts, 12);
        let mut gains = Vec::new();
        for _ in 0..24 {
            let (rate, since) = (l.law.rate, l.now);
            while l.now.since(since) < Span::from_millis(25) {
                l.packet(false, 0);
            }
            let queue = (l.law.rate - rate) as f64 * 0.025;
            gains.push((queue / 1400.0, queue / (rate as f64 * 1e-3)));
        }
        assert!((gains[3].0 - 1.0).abs() < 0.1, "one packet: {gains:?}");
        assert!((gains[20].1 - 1.0).abs() < 0.1, "1 ms: {gains:?}");
    }

    #[test]
    fn the_rate_swings_by_3_percent() {
        let l = lab(10_000, 1_000_000);
        let since = l.law.alpha_interval.since;
        assert_eq!(l.law.pacing_rate(since), 1_030_000);
        assert_eq!(l.law.pacing_rate(since + Span::from_micros(12_500)), 970_873);
    }

    #[test]
    fn overtaken_feedback_is_ignored() {
        let mut l = lab(10_000, 1_000_000);
        l.packet(false, 0);
        let old = Feedback { received: l.feedback.received - 1, ..l.feedback };
        assert!(!l.law.on_feedback(l.now, l.rtt, old, l.sent));
    }
}
