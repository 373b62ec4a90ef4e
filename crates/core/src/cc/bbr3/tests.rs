use super::*;
use crate::cc::RateSample;
use crate::cc::{AckFlight, AckPacing, AckRtt, AckState, AckUsage, Totals};

/// A path of `rate` segments per ms and `rtt_us`, as one ACK per round trip tells of it.
struct Path {
    cc: Bbr3,
    w: Window,
    now: Time,
    delivered: u32,
    delivered_ce: u32,
}

/// What became of a round's flight.
#[derive(Copy, Clone, Default)]
struct Round {
    delivered: u32,
    ce: u32,
    lost: u32,
}

const RTT_US: u32 = 4_000;

fn path(options: &[(&str, &str)]) -> Path {
    let mut cc =
        Bbr3::new(&crate::params::read_options(options).unwrap(), Rng::stream(1, "bbr3", 0));
    let mut w = Window::new(1448, 52);
    let a = Ack {
        rtt: AckRtt { min_us: RTT_US, srtt8: 8 * u64::from(RTT_US), ..AckRtt::default() },
        ..Ack::default()
    };
    assert!(cc.on_established(true, &a, &mut w).is_none());
    Path { cc, w, now: Time::ZERO, delivered: 0, delivered_ce: 0 }
}

fn with_ecn() -> Path {
    path(&[("ecn_low", "ect0")])
}

impl Path {
    /// A round trip with one ACK for all of it.
    fn round(&mut self, r: Round) {
        self.round_of(r, RTT_US);
    }
    fn round_of(&mut self, r: Round, rtt_us: u32) {
        let before = self.delivered;
        self.now += Span::from_micros(u64::from(rtt_us));
        self.delivered += r.delivered;
        self.delivered_ce += r.ce;
        let told = Totals { delivered: self.delivered, ..Totals::default() };
        self.cc.on_feedback(&told);
        let a = Ack {
            now: self.now,
            acked: r.delivered,
            ce: r.ce,
            rate: RateSample {
                delivered: r.delivered,
                interval: Span::from_micros(u64::from(rtt_us)),
                prior_delivered: before,
                tx_in_flight: r.delivered + r.lost,
                lost: r.lost,
                delivered_ce: r.ce,
                app_limited: false,
            },
            pacing: AckPacing { next_departure: self.now, ..AckPacing::default() },
            totals: Totals {
                delivered: self.delivered,
                delivered_ce: self.delivered_ce,
                ..Totals::default()
            },
            rtt: AckRtt { newest_us: Some(rtt_us), srtt8: 8 * u64::from(rtt_us), min_us: RTT_US },
            flight: AckFlight {
                before: r.delivered,
                now: r.delivered,
                lost: r.lost,
                ..AckFlight::default()
            },
            state: AckState {
                recovering: r.lost > 0,
                repairing: r.lost > 0,
                open: r.lost + r.ce == 0,
                ..AckState::default()
            },
            usage: AckUsage { window_used_up: true, ..AckUsage::default() },
            ..Ack::default()
        };
        self.cc.on_ack(&a, &mut self.w);
    }
    fn plain(&mut self, delivered: u32) {
        self.round(Round { delivered, ..Round::default() });
    }
    /// Through startup and drain with 400 segments per round trip, up to the first cruise.
    fn cruise(mut self) -> Path {
        for delivered in [10, 27, 75, 208, 400, 400, 400, 400] {
            self.plain(delivered);
        }
        assert!(self.cc.full);
        self.plain(380);
        self.plain(380);
        assert_eq!(self.cc.phase, Phase::Cruise);
        self
    }
}

fn of_256(x: u32) -> f64 {
    f64::from(x) / 256.0
}

/// alpha starts at 1 and decays by 1/16 per round, in 256ths: 256, 240, 225, 210; a round with all
/// marked adds 16/256.
#[test]
fn alpha_is_dctcps_estimate_at_gain_one_sixteenth() {
    let mut p = with_ecn();
    let mut seen = vec![p.cc.alpha];
    for _ in 0..3 {
        p.plain(10);
        seen.push(p.cc.alpha);
    }
    p.round(Round { delivered: 10, ce: 10, lost: 0 });
    seen.push(p.cc.alpha);
    p.round(Round { delivered: 10, ce: 5, lost: 0 });
    seen.push(p.cc.alpha);
    assert_eq!(seen, [256, 240, 225, 210, 210 * 240 / 256 + 16, 212 * 240 / 256 + 8]);
}

/// Above the largest RTT marks are neither averaged nor answered; once below, they are.
#[test]
fn marks_count_only_on_short_paths() {
    for (limit, answers) in [("5ms", true), ("4ms", true), ("3ms", false), ("0ms", true)] {
        let mut p = path(&[("ecn_low", "ect0"), ("ecn_max_rtt", limit)]);
        p.round(Round { delivered: 10, ce: 3, lost: 0 });
        assert_eq!(p.cc.ecn_eligible, answers, "{limit}");
        assert_eq!(p.cc.alpha < ONE, answers, "{limit}");
    }
    let mut p = path(&[]);
    p.round(Round { delivered: 10, ce: 3, lost: 0 });
    assert!(!p.cc.ecn_eligible, "not a route for it");
}

/// Gains as in the module; 4 ln 2 = 2.7726.
#[test]
fn the_gains_of_the_phases() {
    let mut p = path(&[]);
    let mut gains = |phase| {
        p.cc.phase = phase;
        p.cc.update_gains();
        (of_256(p.cc.pacing_gain), of_256(p.cc.cwnd_gain))
    };
    let near = |(a, b): (f64, f64), law: (f64, f64)| {
        assert!((a - law.0).abs() < 0.004 && (b - law.1).abs() < 0.004, "{a} {b}, {law:?}");
    };
    near(gains(Phase::Startup), (2.77, 2.0));
    near(gains(Phase::Drain), (0.347, 2.0));
    near(gains(Phase::Down), (0.91, 2.0));
    near(gains(Phase::Cruise), (1.0, 2.0));
    near(gains(Phase::Refill), (1.0, 2.0));
    near(gains(Phase::Up), (1.25, 2.25));
    near(gains(Phase::ProbeRtt), (1.0, 1.0));
    let mut draft = path(&[("drain_gain", "0.5")]);
    draft.cc.phase = Phase::Drain;
    draft.cc.update_gains();
    assert_eq!(draft.cc.pacing_gain, 128);
}

/// Startup ends after three rounds without a quarter more; there is no bound on the flight then.
#[test]
fn startup_ends_on_a_plateau() {
    let mut p = path(&[]);
    for delivered in [10, 27, 75, 208, 400, 400, 400] {
        p.plain(delivered);
        assert_eq!(p.cc.phase, Phase::Startup);
    }
    p.plain(400);
    assert!(p.cc.full);
    assert_eq!(p.cc.bounds.inflight_hi, UNSET);
}

/// Two rounds in succession with at least half of the segments marked end startup; with less, or
/// not in succession, they do not.
#[test]
fn startup_ends_on_marks() {
    let full_after = |marks: [u32; 4]| {
        let mut p = with_ecn();
        for (i, ce) in marks.into_iter().enumerate() {
            p.round(Round { delivered: 10 << i, ce, lost: 0 });
        }
        assert_eq!(p.cc.full, p.cc.bounds.inflight_hi < UNSET, "then the bound is known");
        p.cc.full
    };
    assert!(full_after([0, 0, 20, 40]));
    assert!(!full_after([0, 10, 0, 40]));
    assert!(!full_after([4, 9, 19, 39]));
}

/// One round of recovery with six events of loss and more than 2 % of the flight lost ends it.
#[test]
fn startup_ends_on_losses() {
    for (lost, full) in [(1, false), (20, true)] {
        let mut p = path(&[]);
        p.plain(10);
        p.plain(27);
        p.cc.loss_events = 5;
        p.round(Round { delivered: 75, lost, ..Round::default() });
        assert_eq!(p.cc.full, full, "{lost} of {}", 75 + lost);
    }
    let mut p = path(&[]);
    p.plain(10);
    p.plain(27);
    p.round(Round { delivered: 75, lost: 20, ..Round::default() });
    assert!(!p.cc.full, "one event only");
}

/// A round with marks takes a third of alpha off inflight_lo, and leaves bw_lo alone.
#[test]
fn marks_cut_inflight_lo_by_a_third_of_alpha() {
    let mut p = with_ecn().cruise();
    let (window, bw) = (p.w.cwnd, p.cc.bw());
    p.round(Round { delivered: 380, ce: 38, lost: 0 });
    let cut = ONE - ((p.cc.alpha * 85) >> 8);
    assert_eq!(p.cc.bounds.inflight_lo, part(window, cut));
    assert_eq!((p.cc.bounds.bw_lo, p.cc.bw()), (UNSET, bw));
    assert!(p.w.cwnd <= p.cc.bounds.inflight_lo);
    // At alpha = 1 it would be a third: 171/256 = 0.668.
    p.cc.alpha = ONE;
    p.cc.ecn_in_round = true;
    let lo = p.cc.bounds.inflight_lo;
    p.cc.adapt_lower_bounds(&p.w);
    assert_eq!(p.cc.bounds.inflight_lo, part(lo, 171));
}

/// A round with losses takes 30 % off both bounds, but not below what it delivered.
#[test]
fn losses_cut_both_bounds() {
    let mut p = path(&[]).cruise();
    let bw = p.cc.max_bw();
    p.cc.loss_in_round = true;
    (p.cc.bw_latest, p.cc.inflight_latest) = (0, 0);
    p.w.cwnd = 1000;
    p.cc.adapt_lower_bounds(&p.w);
    assert_eq!((p.cc.bounds.inflight_lo, p.cc.bounds.bw_lo), (part(1000, 180), part(bw, 180)));
    p.cc.inflight_latest = 650;
    p.cc.bw_latest = bw - 1;
    p.cc.adapt_lower_bounds(&p.w);
    assert_eq!((p.cc.bounds.inflight_lo, p.cc.bounds.bw_lo), (650, bw - 1));
}

/// While it probes for more, nothing is cut.
#[test]
fn probing_is_not_held_down() {
    let mut p = with_ecn().cruise();
    for phase in [Phase::Refill, Phase::Up, Phase::Startup] {
        p.cc.phase = phase;
        p.cc.loss_in_round = true;
        p.cc.ecn_in_round = true;
        p.cc.adapt_lower_bounds(&p.w);
        assert_eq!(p.cc.bounds.inflight_lo, UNSET, "{phase:?}");
    }
}

/// Cruise until the wait is over or Reno would probe, refill for a round, probe until the rate stays
/// flat for three rounds, drain, cruise.
#[test]
fn the_cycle_of_probing() {
    let mut p = path(&[]).cruise();
    let wait = p.cc.probe_wait_us;
    assert!((2_000_000..3_000_000).contains(&wait));
    let mut phases = vec![(p.cc.phase, 0)];
    for _ in 0..80 {
        p.plain(380);
        match phases.last_mut() {
            Some(last) if last.0 == p.cc.phase => last.1 += 1,
            _ => phases.push((p.cc.phase, 1)),
        }
    }
    let order: Vec<Phase> = phases.iter().map(|x| x.0).collect();
    assert_eq!(order[..4], [Phase::Cruise, Phase::Refill, Phase::Up, Phase::Down], "{phases:?}");
    // 80 rounds are 320 ms: it is Reno's pace, 62 or 63 rounds for large products.
    assert!((58..=63).contains(&phases[0].1), "{phases:?}");
    assert_eq!((phases[1].1, phases[2].1), (1, 3), "{phases:?}");
}

/// More than 2 % lost, or more than half marked, of a flight sent while probing: inflight_hi becomes
/// what was in flight, at least 70 % of the target.
#[test]
fn a_probe_that_went_too_far_sets_inflight_hi() {
    let probing = |mut p: Path| {
        p.cc.phase = Phase::Up;
        p.cc.probe_samples = true;
        p.cc.restart_full(p.cc.max_bw());
        p
    };
    let mut p = probing(path(&[]).cruise());
    p.round(Round { delivered: 450, lost: 5, ..Round::default() });
    assert_eq!((p.cc.phase, p.cc.bounds.inflight_hi), (Phase::Up, UNSET), "1.1 %");
    p.round(Round { delivered: 450, lost: 12, ..Round::default() });
    assert_eq!((p.cc.phase, p.cc.bounds.inflight_hi), (Phase::Down, 462), "2.6 %");
    assert_eq!(p.cc.inflight_with_headroom(), 462 - part(462, 38));
    let mut p = probing(with_ecn().cruise());
    p.round(Round { delivered: 450, ce: 220, lost: 0 });
    assert_eq!(p.cc.bounds.inflight_hi, UNSET, "49 %");
    p.round(Round { delivered: 450, ce: 230, lost: 0 });
    assert_eq!((p.cc.phase, p.cc.bounds.inflight_hi), (Phase::Down, 450), "51 %");
    // A small flight does not count: other reasons than probing.
    let mut p = probing(path(&[]).cruise());
    let target = p.cc.target_inflight(&p.w);
    p.round(Round { delivered: 50, lost: 20, ..Round::default() });
    assert_eq!(p.cc.bounds.inflight_hi, part(target, 180));
}

/// The lost segment at which 2 % was passed: of a flight of 100 before it, two may be lost.
#[test]
fn the_bound_is_where_losses_became_too_many() {
    let p = path(&[]);
    let at = |tx_in_flight, lost| {
        p.cc.flight_without_excess(&LostSegment { tx_in_flight, lost, app_limited: false })
    };
    // 5/256 of 100 is 1.95, so two: the third is one too many.
    assert_eq!(at(101, 3), 100);
    assert_eq!(at(101, 10), 100);
    // One lost before: one more would have been allowed, 1/(1 - 5/256) rounded down.
    assert_eq!(at(101, 2), 101);
}

/// By 1 segment in the first round of probing at the bound, then 2, 4, 8.
#[test]
fn the_slope_of_probing_doubles() {
    let mut p = path(&[]).cruise();
    p.cc.phase = Phase::Up;
    p.w.cwnd = 512;
    p.cc.bounds.inflight_hi = 512;
    p.cc.steepen(&p.w);
    let mut steps = Vec::new();
    for _ in 0..5 {
        let before = p.cc.bounds.inflight_hi;
        let a = Ack {
            acked: p.w.cwnd,
            usage: AckUsage { window_used_up: true, ..AckUsage::default() },
            ..Ack::default()
        };
        p.cc.round_start = true;
        p.cc.raise_inflight_hi(&a, &p.w);
        p.w.cwnd = p.cc.bounds.inflight_hi;
        steps.push(p.cc.bounds.inflight_hi - before);
    }
    assert_eq!(steps, [1, 2, 4, 8, 16]);
}

/// When marks have come without a loss and cease, the next probe begins at once with half of
/// inflight_hi.
#[test]
fn when_marks_cease_it_probes_again_quickly() {
    let mut p = with_ecn().cruise();
    p.cc.bounds.inflight_hi = 400;
    p.round(Round { delivered: 380, ce: 38, lost: 0 });
    assert_eq!(p.cc.phase, Phase::Cruise);
    p.plain(300);
    assert_eq!((p.cc.phase, p.cc.up_rounds), (Phase::Refill, 7)); // 2^7 <= 200
    assert_eq!(p.cc.bounds.inflight_lo, UNSET);
}

/// Every five seconds without a smaller RTT: half of the product for 200 ms and a round.
#[test]
fn the_rtt_is_probed_with_half_of_the_product() {
    let mut p = path(&[]).cruise();
    let mut lowest = u32::MAX;
    let mut began = None;
    while p.now < Time::ZERO + Span::from_secs(7) {
        let delivered = if p.cc.phase == Phase::ProbeRtt { p.w.cwnd } else { 380 };
        p.round_of(Round { delivered, ..Round::default() }, RTT_US + 100);
        if p.cc.phase == Phase::ProbeRtt {
            began.get_or_insert(p.now);
            lowest = lowest.min(p.w.cwnd);
        } else if let Some(start) = began.take() {
            let ms = p.now.since(start).as_millis_f64();
            assert!((200.0..215.0).contains(&ms), "{ms}");
            assert!((5_000.0..5_100.0).contains(&Span(start.0).as_millis_f64()));
            assert_eq!(p.cc.phase, Phase::Cruise);
        }
    }
    let product = model::bdp(p.cc.bw(), RTT_US, ONE);
    assert!((product / 2 - 8..=product / 2 + 8).contains(&lowest), "{lowest} of {product}");
}

/// A recovery that proves unnecessary restores the bounds.
#[test]
fn an_undo_restores_the_bounds() {
    let mut p = path(&[]).cruise();
    let cwnd = p.w.cwnd;
    p.cc.on_congestion(Congestion::Loss, p.now, &mut p.w);
    p.cc.loss_in_round = true;
    p.cc.adapt_lower_bounds(&p.w);
    assert!(p.cc.bounds.inflight_lo < UNSET && p.cc.bounds.bw_lo < UNSET);
    p.w.cwnd = 10;
    p.cc.on_undo(cwnd, &mut p.w);
    assert_eq!((p.cc.bounds.inflight_lo, p.cc.bounds.bw_lo, p.w.cwnd), (UNSET, UNSET, cwnd));
}
