use super::*;
use crate::cc::{AckFlight, AckRtt, AckUsage, Totals};
use crate::params::read_options;

const VERSIONS: [&str; 3] = ["0.5", "0.6", "0.7"];

fn prague(options: &[(&str, &str)]) -> Prague {
    Prague::new(&read_options(options).unwrap())
}

fn established_with(
    options: &[(&str, &str)],
    rtt_us: u32,
    cwnd: u32,
    ssthresh: u32,
) -> (Prague, Window) {
    let mut p = prague(options);
    let mut w = Window::new(1448, 52);
    w.cwnd = cwnd;
    w.ssthresh = ssthresh;
    let a =
        Ack { rtt: AckRtt { srtt8: u64::from(rtt_us) * 8, ..AckRtt::default() }, ..Ack::default() };
    assert!(p.on_established(true, &a, &mut w).is_none());
    (p, w)
}

/// At 100 kbit/s and 1 ms two packets in an RTT are smaller than their headers, of which the AccECN option takes
/// twelve bytes: one byte of payload is left beside them.
#[test]
fn segments_never_shrink_to_nothing() {
    for (min_mss, mss) in [("1", 1), ("11", 1), ("12", 1), ("13", 1), ("14", 2), ("60", 48)] {
        let options = [("min_mss", min_mss), ("rtt_target", "1ms")];
        let (mut p, _) = established_with(&options, 1_000, 2, 2);
        (p.mode, p.rate) = (Mode::Rate, RATE_MIN);
        let mut w = Window::new(1436, 64);
        p.fit_segment_size(&mut w);
        assert_eq!(w.mss, mss, "min_mss {min_mss}");
    }
}

fn established(rtt_us: u32, cwnd: u32) -> (Prague, Window) {
    established_with(&[], rtt_us, cwnd, cwnd)
}

/// Sends one window after another through a path that marks with probability `p`; returns the
/// mean window.
fn random_marks(rtt_us: u32, p: f64, rounds: u32) -> f64 {
    let (mut cc, mut w) = established(rtt_us, 10);
    let mut rng = crate::rng::Rng::stream(1, "marks", 0);
    let (mut n, mut ce_total, mut sum, mut samples) = (0_u32, 0, 0.0, 0.0);
    let mut now = Time::ZERO;
    let mut reduced_until = 0;
    for round in 0..rounds {
        let window = w.cwnd;
        for _ in 0..window {
            n += 1;
            let ce = u32::from(rng.unit() < p);
            ce_total += ce;
            now += Span(u64::from(rtt_us) * 1000 / u64::from(window));
            if ce > 0 && n > reduced_until {
                cc.on_congestion(Congestion::Ecn, now, &mut w);
                reduced_until = n + window;
            }
            let a = Ack {
                now,
                acked: 1,
                ce,
                totals: Totals {
                    delivered: n,
                    delivered_ce: ce_total,
                    snd_una: n,
                    snd_nxt: n + window,
                },
                rtt: AckRtt { srtt8: u64::from(rtt_us) * 8, ..AckRtt::default() },
                usage: AckUsage { cwnd_limited: true, ..AckUsage::default() },
                flight: AckFlight { now: window, ..AckFlight::default() },
                ..Ack::default()
            };
            cc.on_ack(&a, &mut w);
        }
        if round > rounds / 10 {
            sum += cc.frac_window as f64 / ONE_SEGMENT as f64;
            samples += 1.0;
        }
    }
    sum / samples
}

/// laws.md 1: with independent marks and one reduction per round trip, W = (1 + sqrt 3)(1 - p)/p
/// at or above the target RTT. (At larger p whole segments begin to show: 3.3 % at p = 0.1.)
#[test]
fn the_window_law_under_random_marks() {
    for p in [0.01, 0.02, 0.05] {
        let law = (1.0 + 3_f64.sqrt()) * (1.0 - p) / p;
        let w = random_marks(26_000, p, 40_000);
        assert!((w / law - 1.0).abs() < 0.03, "p = {p}: {w} against {law}");
    }
}

#[test]
fn alpha_converges_to_the_marking_fraction_at_gain_one_sixteenth() {
    let (mut p, mut w) = established(30_000, 100);
    p.saw_ce = true;
    let mut now = Time::ZERO;
    for n in 1..=20_u32 {
        now += Span::from_millis(30);
        let a = Ack {
            now,
            totals: Totals {
                delivered: n * 100,
                delivered_ce: n * 25,
                snd_una: n * 100,
                snd_nxt: n * 100,
            },
            rtt: AckRtt { srtt8: 240_000, ..AckRtt::default() },
            ..Ack::default()
        };
        p.end_round(&a, &mut w);
        let alpha = p.alpha_over_g as f64 / (p.alpha_one() << G_SHIFT) as f64;
        let law = 0.25 * (1.0 - crate::math::pow(15.0 / 16.0, f64::from(n)));
        assert!((alpha - law).abs() < 1e-6, "after {n}: {alpha}, law {law}");
    }
}

#[test]
fn the_first_mark_halves_and_a_loss_halves() {
    let (mut p, mut w) = established(30_000, 100);
    w.ssthresh = super::super::SSTHRESH_INFINITE;
    let a = Ack {
        ce: 1,
        acked: 1,
        rtt: AckRtt { srtt8: 240_000, ..AckRtt::default() },
        totals: Totals { snd_nxt: 50, ..Totals::default() },
        ..Ack::default()
    };
    p.round_end = 1000;
    p.on_ack(&a, &mut w);
    assert_eq!(p.frac_window >> WINDOW_BITS, 50);
    p.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
    assert_eq!(p.frac_window >> WINDOW_BITS, 25);
}

/// However often it is halved, one ACK does not make the window immense; nor is it raised to what the
/// least rate would fill, where the round trip is long.
#[test]
fn the_window_has_a_floor_of_one_segment() {
    let (mut p, mut w) = established(1_000_000, 10);
    p.mode = Mode::Window;
    for _ in 0..100 {
        p.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
        p.on_recovered(&mut w);
        assert!(p.steers_rate(&w) || p.frac_window >= ONE_SEGMENT);
    }
    assert_eq!(p.frac_window, ONE_SEGMENT);
    assert_eq!(p.rate, RATE_MIN.max(p.rate_of_window(p.segment_rate(&w))));
}

#[test]
fn one_ack_does_not_make_a_halved_window_immense() {
    let (mut p, mut w) = established(20_000, 10);
    p.saw_ce = true;
    for _ in 0..100 {
        p.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
        p.on_recovered(&mut w);
    }
    let a = Ack {
        acked: 1,
        rtt: AckRtt { srtt8: 160_000, ..AckRtt::default() },
        usage: AckUsage { cwnd_limited: true, ..AckUsage::default() },
        ..Ack::default()
    };
    p.grow(1, &w, p.segment_rate(&w));
    p.on_ack(&a, &mut w);
    let segments = p.frac_window as f64 / ONE_SEGMENT as f64;
    assert!(segments < 20.0, "{segments} segments");
    assert!(p.rate >= RATE_MIN);
}

#[test]
fn without_accecn_it_gives_way_to_reno() {
    let mut p = prague(&[]);
    let mut w = Window::new(1448, 52);
    let other = p.on_established(false, &Ack::default(), &mut w).unwrap();
    assert!(!other.constants().governs_window);
    assert_eq!(other.pace().rate, None);
}

#[test]
fn a_version_is_a_set_of_defaults() {
    let c = |options: &[(&str, &str)]| prague(options).config;
    let numbers = |v| {
        let c = c(&[("version", v)]);
        (c.target_srtt8 / 8, c.transition, c.alpha_bits, c.alpha_starts_at_one, c.min_burst)
    };
    // RTTs of the earlier versions count in steps of 128 us.
    assert_eq!(numbers("0.5"), (9_984, 100, 20, true, 1));
    assert_eq!(numbers("0.6"), (24_960, 500, 20, true, 2));
    assert_eq!(numbers("0.7"), (25_000, 4, 24, false, 1));
    let older = c(&[("rtt_target", "5ms"), ("alpha_mode", "0"), ("version", "0.5")]);
    assert_eq!((older.target_srtt8, older.alpha_starts_at_one), (4_992 * 8, false));
    assert_eq!((older.transition, older.fixed_mode), (100, Some(Mode::Window)));
}

/// The first mark ends slow start at half the window: by alpha = 1, or by the rule for alpha = 0.
/// Segments go one per ACK, so that it takes as many ACKs.
#[test]
fn the_first_mark_halves_in_every_version_one_segment_per_ack() {
    for version in VERSIONS {
        let infinite = super::super::SSTHRESH_INFINITE;
        let (mut p, mut w) = established_with(&[("version", version)], 30_000, 100, infinite);
        p.round_end = 1000;
        p.on_congestion(Congestion::Ecn, Time::ZERO, &mut w);
        let marked = Ack {
            ce: 1,
            acked: 1,
            rtt: AckRtt { srtt8: 240_000, ..AckRtt::default() },
            totals: Totals { snd_nxt: 50, ..Totals::default() },
            ..Ack::default()
        };
        for left in (50..100).rev() {
            p.on_ack(&marked, &mut w);
            assert_eq!((w.cwnd, w.ssthresh), (left, left), "version {version}");
        }
        p.on_ack(&marked, &mut w);
        assert_eq!(w.cwnd, 50, "version {version}");
    }
}

/// What is less than a segment waits for its like, in both directions; at the smallest window
/// nothing is owed.
#[test]
fn a_carry_moves_the_window_when_a_segment_has_come_together() {
    let (mut p, mut w) = established_with(&[("version", "0.5")], 30_000, 10, 10);
    p.saw_ce = true;
    p.round_end = 1000;
    let plain = Ack {
        acked: 1,
        rtt: AckRtt { srtt8: 240_000, ..AckRtt::default() },
        usage: AckUsage { cwnd_limited: true, ..AckUsage::default() },
        ..Ack::default()
    };
    for _ in 0..9 {
        p.on_ack(&plain, &mut w);
        assert_eq!(w.cwnd, 10);
    }
    p.on_ack(&plain, &mut w);
    p.on_ack(&plain, &mut w); // a tenth is not exact in binary
    assert_eq!(w.cwnd, 11);
    let idle = Ack { rtt: AckRtt { srtt8: 240_000, ..AckRtt::default() }, ..Ack::default() };
    for _ in 0..5 {
        p.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
    }
    for _ in 0..20 {
        p.on_ack(&idle, &mut w);
    }
    assert_eq!((w.cwnd, p.frac_window >> WINDOW_BITS), (2, 2));
}

/// The weight of growth at these RTTs in microseconds, beyond the transition.
#[test]
fn rtt_independence_weighs_growth() {
    let weight = |options: &[(&str, &str)], rtt_us| {
        let (mut p, _) = established_with(options, rtt_us, 10, 10);
        p.rounds = 1000;
        p.update_increase();
        p.increase as f64 / ONE_SEGMENT as f64
    };
    let near = |got: f64, law: f64| assert!((got / law - 1.0).abs() < 1e-3, "{got}, law {law}");
    near(weight(&[], 5_000), 0.04);
    near(weight(&[], 25_000), 1.0);
    near(weight(&[("rtt_target", "10ms")], 5_000), 0.25);
    near(weight(&[("rtt_scaling", "none")], 5_000), 1.0);
    near(weight(&[("rtt_scaling", "additive")], 25_000), 0.25);
    near(weight(&[("rtt_scaling", "additive")], 75_000), 0.5625);
    // R (R0/8 + min(max(R - R1, 0), R0)) / R0^2 with R0 = 16384 us and R1 = 1536 us
    near(weight(&[("rtt_scaling", "scalable")], 1_000), 1_000.0 / 8.0 / 16_384.0);
    near(weight(&[("rtt_scaling", "scalable")], 9_728), 9_728.0 * 0.625 / 16_384.0);
    near(weight(&[("rtt_scaling", "scalable")], 101_000), 1.0);
    // 5000 us are 39 steps of 128 us, and 25 ms 195 of them.
    near(weight(&[("version", "0.6")], 5_000), 0.04);
    near(weight(&[("version", "0.6")], 5_119), 0.04);
}

#[test]
fn bursts_follow_the_rate_within_their_bounds() {
    // 1000 segments per 20 ms are 12 in 0.24 ms.
    let burst = |options: &[(&str, &str)], cwnd| {
        let (p, _) = established_with(options, 20_000, cwnd, cwnd);
        p.burst
    };
    assert_eq!(burst(&[], 1000), 12);
    assert_eq!(burst(&[("burst_shift", "10")], 1000), 48);
    assert_eq!(burst(&[("max_tso_segs", "5")], 1000), 5);
    assert_eq!((burst(&[], 10), burst(&[("version", "0.6")], 10)), (1, 2));
}

/// 0.5 as published: what a loss takes off is due at once, but nothing takes it as long as slow start
/// goes on; an ACK with nothing but marks ends that, and the debt is paid segment by segment.
#[test]
fn slow_start_may_ignore_losses() {
    for (loss, grown) in [("ignored", 110), ("halves", 99)] {
        let options = [("version", "0.5"), ("loss_in_slow_start", loss)];
        let (mut p, mut w) = established_with(&options, 30_000, 100, 100);
        w.ssthresh = super::super::SSTHRESH_INFINITE;
        p.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
        let ten = Ack {
            acked: 10,
            rtt: AckRtt { srtt8: 240_000, ..AckRtt::default() },
            usage: AckUsage { cwnd_limited: false, ..AckUsage::default() },
            ..Ack::default()
        };
        p.on_ack(&ten, &mut w);
        assert_eq!(w.cwnd, grown, "{loss}");
        p.on_recovered(&mut w);
        let marked = Ack { acked: 1, ce: 1, ..ten };
        for _ in 0..200 {
            p.on_ack(&marked, &mut w);
        }
        assert!((50..=60).contains(&w.cwnd) && !w.in_slow_start(), "{loss}: {}", w.cwnd);
    }
}

/// Neither a reduction nor a pause of growth; timeouts count all the same, and so does every loss
/// once the queue is taken for classic.
#[test]
fn losses_count_only_in_classic_queues_if_so_asked() {
    let asked = [("version", "0.6"), ("fallback", "correct"), ("ignore_loss_in_l4s", "on")];
    let (mut p, mut w) = established_with(&asked, 30_000, 100, 100);
    p.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
    assert_eq!(p.frac_window >> WINDOW_BITS, 100);
    p.on_ack(
        &Ack {
            acked: 50,
            rtt: AckRtt { srtt8: 240_000, ..AckRtt::default() },
            usage: AckUsage { cwnd_limited: true, ..AckUsage::default() },
            ..Ack::default()
        },
        &mut w,
    );
    assert!(p.frac_window > 100 << WINDOW_BITS);
    let before = p.frac_window;
    p.on_congestion(Congestion::Timeout, Time::ZERO, &mut w);
    assert_eq!(p.frac_window, before.div_ceil(2));
    p.on_recovered(&mut w);
    for n in 0..20_000 {
        p.detector.as_mut().unwrap().sample(30_000 + 40_000 * (n % 2));
    }
    for _ in 0..20 {
        p.detector.as_mut().unwrap().update(30_000);
    }
    let before = p.frac_window;
    p.on_congestion(Congestion::Loss, Time::ZERO, &mut w);
    assert_eq!(p.frac_window, before.div_ceil(2));
}

#[test]
fn ignoring_losses_needs_the_detector() {
    let refused = read_options::<Options>(&[("ignore_loss_in_l4s", "on")]).unwrap_err();
    assert!(refused.to_string().contains("give fallback too"), "{refused}");
}

/// In a queue that is classic for sure, the cut is 31 % however small alpha is.
#[test]
fn a_classic_queue_takes_31_percent() {
    for (fallback, left) in [("correct", 688), ("detect", 1000)] {
        let (mut p, mut w) = established_with(&[("fallback", fallback)], 30_000, 1000, 1000);
        for n in 0..40_000 {
            p.detector.as_mut().unwrap().sample(30_000 + 40_000 * (n % 2));
        }
        for _ in 0..20 {
            p.detector.as_mut().unwrap().update(30_000);
        }
        p.on_congestion(Congestion::Ecn, Time::ZERO, &mut w);
        assert_eq!((p.frac_window + ONE_SEGMENT / 2) >> WINDOW_BITS, left, "{fallback}");
    }
}
