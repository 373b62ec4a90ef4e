use super::*;
use crate::cc::media::Fate;
use crate::rng::Rng;

const MSS: f64 = 1200.0;

fn scream(set: impl FnOnce(&mut Options)) -> Scream {
    let mut options = Options { mss: 1200, ..Options::default() };
    set(&mut options);
    // The highest rate is out of reach, so that it does not stop growth.
    Scream::new(options, Rates { min: 1e5, start: 1e6, max: 1e12 }, Ecn::Ect1)
}

fn near(value: f64, wanted: f64) {
    assert!((value - wanted).abs() < 1e-9 * wanted.abs().max(1.0), "{value}, wanted {wanted}");
}

fn ms(t: u64) -> Time {
    Time(t * 1_000_000)
}

#[test]
fn alpha_rises_fast_and_falls_slowly() {
    let mut s = scream(|_| {});
    s.srtt = 0.025;
    (s.delivered, s.marked) = (10, 2);
    s.update_alpha(ms(10));
    near(s.alpha, 0.2 / 8.0);
    (s.delivered, s.marked) = (10, 10);
    s.update_alpha(ms(19));
    near(s.alpha, 0.025);
    (s.delivered, s.marked) = (10, 0);
    s.update_alpha(ms(20));
    near(s.alpha, 0.025 * 127.0 / 128.0);
}

#[test]
fn the_average_queue_delay_falls_at_once() {
    let mut s = scream(|_| {});
    s.srtt = 0.025;
    for (t, one_way, average) in [(25, 10, 0.0), (50, 30, 0.005), (60, 90, 0.005), (75, 12, 0.002)]
    {
        s.update_qdelay(ms(t), Span::from_millis(one_way));
        near(s.qdelay_avg, average);
    }
    // Half of the target of 60 ms counts as no mark, the whole as a mark on every packet.
    for (average, alpha) in [(0.03, 0.0), (0.045, 0.5), (0.06, 1.0), (0.2, 1.0)] {
        s.qdelay_avg = average;
        near(s.virtual_alpha(), alpha);
    }
}

#[test]
fn jitter_shrinks_the_scale() {
    let mut j = Jitter { high: 0.06, ..Jitter::default() };
    j.add(0.08, 0.06);
    j.round();
    near(j.high, 0.06 * 15.0 / 16.0);
    near(j.low, 0.06 * 15.0 / 256.0);
    near(j.deviation, (0.06 * 15.0 / 16.0) * (15.0 / 16.0) / 32.0);
    near(j.scale(), 1.0 - j.deviation / 0.01);
    j.deviation = 0.02;
    near(j.scale(), 0.0);
}

#[test]
fn closeness_is_small_at_the_inflection_point() {
    let mut s = scream(|_| {});
    s.ref_wnd = 110_000.0;
    near(s.closeness(), 1.0);
    for (inflection, closeness) in
        [(110_000.0, 0.1), (100_000.0, 0.64), (90_000.0, 1.0), (125_000.0, 0.9216)]
    {
        s.inflection = Some(inflection);
        near(s.closeness(), closeness);
    }
}

#[test]
fn cuts_by_hand() {
    let cut = |srtt: f64, lost, marked, set: &dyn Fn(&mut Scream)| {
        let mut s = scream(|_| {});
        (s.srtt, s.alpha, s.ref_wnd, s.inflection) = (srtt, 0.4, 100_000.0, Some(1.0));
        s.max_in_flight = [100_000.0; 2];
        set(&mut s);
        (s.is_lost, s.is_marked) = (lost > 0, marked > 0);
        s.cut(ms(10_000));
        s.ref_wnd / 1e5
    };
    near(cut(0.025, 1, 1, &|_| {}), 0.7);
    near(cut(0.025, 0, 1, &|_| {}), 0.8);
    near(cut(0.05, 0, 1, &|_| {}), 0.9);
    near(cut(0.025, 0, 1, &|s| s.is_l4s = false), 0.8);
    // Near the inflection point a quarter, unless there is a queue of a quarter of the target.
    near(cut(0.025, 0, 1, &|s| s.inflection = Some(1e5)), 0.95);
    near(cut(0.025, 0, 1, &|s| (s.inflection, s.qdelay) = (Some(1e5), 0.016)), 0.8);
    near(cut(0.05, 0, 0, &|s| s.qdelay_avg = 0.045), 1.0 - 0.5 / 4.0);
    near(cut(0.025, 0, 0, &|_| {}), 1.0);
    // Once per virtual RTT.
    near(cut(0.1, 1, 0, &|s| s.reacted = Some(ms(9_980))), 1.0);
    // After 100 quiet round trips, first down to what was in flight.
    near(cut(0.025, 0, 1, &|s| s.max_in_flight = [50_000.0; 2]), 0.4);
    near(
        cut(0.025, 0, 1, &|s| {
            (s.max_in_flight, s.reacted) = ([50_000.0; 2], Some(ms(9_000)));
        }),
        0.8,
    );
}

#[test]
fn growth_by_hand() {
    let grow = |srtt: f64, set: &dyn Fn(&mut Scream)| {
        let mut s = scream(|_| {});
        (s.srtt, s.ref_wnd) = (srtt, 12_000.0);
        s.max_in_flight = [12_000.0; 2];
        set(&mut s);
        s.grow(ms(10_000), 2400.0);
        s.ref_wnd - 12_000.0
    };
    near(grow(0.025, &|_| {}), 240.0 * 1.2);
    near(grow(0.0125, &|_| {}), 120.0 * 1.2);
    // 50 quiet round trips of 50 ms are half of what is waited for.
    near(grow(0.05, &|s| s.congested = Some(ms(7_500))), 240.0 * 1.1);
    near(grow(0.025, &|s| s.inflection = Some(12_000.0)), 60.0 * (1.0 + 0.2 * 0.1));
    near(grow(0.025, &|s| s.max_in_flight = [6_000.0; 2]), 0.0);
    near(grow(0.025, &|s| s.target = 1e12), 0.0);
}

/// 12.5 kB at 25 ms: (1 - 0) * 1200/1220/1.2 of 4 Mb/s, and less with frames that wait or are uneven.
#[test]
fn the_target_follows_the_window() {
    let mut s = scream(|o| o.initial_window = Some(12_500));
    s.srtt = 0.025;
    s.set_target();
    near(s.target, 1200.0 / 1220.0 / 1.2 * 4e6);
    let frame = |age_ms, last_bytes| FrameState {
        now: ms(0),
        interval: Span::from_millis(20),
        queue_age: Span::from_millis(age_ms),
        last_bytes,
        queue_bytes: 0,
        in_flight: 0,
    };
    let even = (s.target * 0.02 / 8.0) as u64;
    s.on_frame(&frame(25, even));
    near(s.queue_term, (25.0 - 5.0) / 20.0 / 16.0);
    s.on_frame(&frame(0, even * 2));
    near(s.queue_term, 20.0 / 320.0 - 5.0 / 320.0);
    assert!(s.frame_term > 0.015 && s.frame_term < 0.02, "{}", s.frame_term);
    near(s.target, 1200.0 / 1220.0 / (1.2 + s.queue_term + s.frame_term) * 4e6);
    // Small windows leave room for their rounding.
    s.ref_wnd = 4000.0;
    (s.queue_term, s.frame_term) = (0.0, 0.0);
    s.set_target();
    near(s.target, 0.8 * 1200.0 / 1220.0 / 1.2 * 8.0 * 4000.0 / 0.025);
}

/// A source that always fills the window, reports per 16 packets or 20 ms: the window in segments times the
/// probability of a mark.
fn window_law(mut s: Scream, p: f64, rtt_ms: f64, regular: bool) -> f64 {
    let mut rng = Rng::stream(1, "scream", (p * 1e4) as u64 + rtt_ms as u64);
    let rtt = Span((rtt_ms * 1e6) as u64);
    let (mut now, mut since_mark, mut area, mut last_report) = (Time::ZERO, 0.0, 0.0, Time::ZERO);
    let mut packets = Vec::new();
    s.ref_wnd = MSS / p;
    while now < Time(300_000_000_000) {
        let gap = Span((rtt.0 as f64 * MSS / s.ref_wnd) as u64);
        now += gap;
        area += s.ref_wnd / MSS * gap.as_secs_f64();
        since_mark += 1.0;
        let ce = if regular { since_mark >= 1.0 / p } else { rng.unit() < p };
        since_mark = if ce { 0.0 } else { since_mark };
        packets.push(Fate { sent: now, arrived: Some(now), size: 1200, ce, cluster: 0 });
        if packets.len() == 16 || now.since(last_report) >= Span::from_millis(20) {
            last_report = now;
            let in_flight = s.ref_wnd as u64;
            s.on_report(&Report {
                now,
                packets: &packets,
                rtt,
                one_way: rtt / 2,
                acked: packets.len() as u64 * 1200,
                in_flight,
                max_in_flight: in_flight,
            });
            packets.clear();
        }
    }
    area / 300.0 * p
}

/// The digest's Monte-Carlo of the draft's rules (interactive.md 1.9).
#[test]
fn the_window_under_marks() {
    let ps = [0.005, 0.01, 0.02, 0.05, 0.1];
    let columns: [(f64, bool, f64, [f64; 5]); 6] = [
        (25.0, false, 0.0, [1.00, 1.03, 1.13, 1.27, 1.65]),
        (25.0, true, 0.0, [0.93, 1.06, 1.44, 1.57, 2.19]),
        (10.0, false, 0.0, [0.62, 0.66, 0.73, 0.90, 0.91]),
        (50.0, false, 0.0, [1.09, 1.23, 1.26, 1.60, 1.55]),
        (100.0, false, 0.0, [1.21, 1.31, 1.74, 1.82, 1.72]),
        (25.0, false, 1.0 / 16.0, [2.21, 2.30, 2.49, 2.75, 2.67]),
    ];
    let mut wrong = Vec::new();
    for (rtt, regular, gain, laws) in columns {
        for (p, law) in ps.into_iter().zip(laws) {
            let s = scream(|o| {
                if gain > 0.0 {
                    (o.alpha_up, o.alpha_down) = (gain, gain);
                }
            });
            let found = window_law(s, p, rtt, regular);
            println!("{rtt} ms, p = {p}, regular {regular}, gain {gain}: {found:.2}, law {law}");
            if (found / law - 1.0).abs() > 0.15 {
                wrong.push(format!("{rtt} ms, {p}, {regular}, {gain}: {found:.2} for {law}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
