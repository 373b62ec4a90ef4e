//! A policer against `tcf_police_act` of Linux, by hand: which packets of a sequence find their tokens.

use crate::harness::{Packet, ms};
use l4slab_core::aqm::police::{Action, PoliceConfig, Policer};
use l4slab_core::ecn::Ecn;
use l4slab_core::rng::Rng;
use l4slab_core::time::Time;

/// What a policer does with packets of (ns, bytes).
fn judged(words: &str, packets: &[(u64, u32)]) -> Vec<Action> {
    let mut policer = Policer::new(&PoliceConfig::parse(words).unwrap(), Time::ZERO);
    let packet = |len| Packet { len, ..Packet::new(Ecn::NotEct) };
    packets.iter().map(|&(at, len)| policer.judge(&packet(len), Time(at))).collect()
}

const PASS: Action = Action::Pass;
const DROP: Action = Action::Drop;

#[test]
fn a_full_bucket_passes_at_once_and_then_what_fits() {
    // 8 Mbit/s: a byte in 1000 ns. Three packets of 1000 bytes find 2500; the third fits 500 us later, to the ns.
    let packets =
        [(0, 1000), (0, 1000), (0, 1000), (499_999, 1000), (500_000, 1000), (500_000, 60)];
    assert_eq!(judged("rate 8mbit burst 2500b", &packets), [PASS, PASS, DROP, DROP, PASS, DROP]);
    // Shorter packets pass where a long one did not: there is no queue whose first packet blocks the others.
    assert_eq!(
        judged("rate 8mbit burst 1000b", &[(0, 600), (0, 600), (0, 400), (0, 1)]),
        [PASS, DROP, PASS, DROP]
    );
}

#[test]
fn a_second_bucket_bounds_a_burst_and_mtu_a_packet() {
    // At 16 Mbit/s the bucket of 1500 bytes needs 500 us for 1000 more.
    let words = "rate 8mbit burst 10kb peakrate 16mbit mtu 1500b";
    assert_eq!(
        judged(words, &[(0, 1000), (0, 1000), (249_999, 1000), (250_000, 1000), (250_000, 1501)]),
        [PASS, DROP, DROP, PASS, DROP]
    );
    // tc's rate table has 255 cells of 8 bytes, unless mtu says more.
    assert_eq!(judged("rate 8mbit burst 10kb", &[(0, 2040), (0, 2041)]), [PASS, DROP]);
    assert_eq!(judged("rate 8mbit burst 10kb mtu 9k", &[(0, 2041)]), [PASS]);
}

#[test]
fn words_say_what_happens_to_both_kinds_of_packets() {
    let both =
        |words: &str| judged(&format!("rate 8mbit burst 1000b {words}"), &[(0, 1000), (0, 1)]);
    assert_eq!(both("conform-exceed drop"), [PASS, DROP]);
    assert_eq!(both("conform-exceed continue/drop"), [DROP, Action::Continue]);
    assert_eq!(both("ok"), [PASS, PASS]);
    assert_eq!(both("conform-exceed reclassify/pipe"), [PASS, DROP]);
    let refused = |words: &str| PoliceConfig::parse(words).unwrap_err().to_string();
    assert!(refused("burst 1k").contains("rate is missing"));
    assert!(refused("rate 8mbit").contains("burst is missing"));
    assert!(refused("rate 8mbit burst 1k peakrate 9mbit").contains("mtu is missing"));
    assert!(
        refused("rate 8mbit burst 1k peakrate 8mbit mtu 2k").contains("must exceed rate 8mbit")
    );
    assert!(refused("rate 8mbit burst 1k avrate 1mbit").contains("not modelled"));
    assert!(refused("rate 8mbit burst 1k burst 2k").contains("twice"));
}

/// Whole bytes per microsecond, so that tokens can be counted in bytes times nanoseconds without rounding.
#[test]
fn random_arrivals_find_the_tokens_of_a_count_in_whole_numbers() {
    let mut rng = Rng::stream(1, "police", 0);
    for _ in 0..200 {
        let (mbyte, burst) = (1 + rng.below(50), 2000 + rng.below(50_000));
        let (peak, mtu) = (mbyte + 1 + rng.below(50), 1600 + rng.below(3000));
        let has_peak = rng.below(2) == 0;
        // A rate of n bytes per us gives n tokens per ns, of which a byte costs 1000.
        let mut buckets = vec![(mbyte, burst * 1000, burst * 1000)];
        let mut words = format!("rate {}mbit burst {burst}b", 8 * mbyte);
        if has_peak {
            buckets.push((peak, mtu * 1000, mtu * 1000));
            words += &format!(" peakrate {}mbit mtu {mtu}b", 8 * peak);
        }
        // Times that a byte takes are whole ns only for some rates: lengths are multiples of both.
        let unit = u32::try_from(mbyte * if has_peak { peak } else { 1 }).unwrap();
        let (mut at, mut before, mut packets, mut expected) = (0, 0, Vec::new(), Vec::new());
        for _ in 0..300 {
            at += rng.below(2) * rng.below(2 * ms(1) / mbyte);
            let len = unit * (1 + rng.below(u64::from(1600 / unit.min(1600)).max(1)) as u32);
            for (rate, size, tokens) in &mut buckets {
                *tokens = (*tokens + (at - before) * *rate).min(*size);
            }
            before = at;
            let cost = u64::from(len) * 1000;
            let fits = buckets.iter().all(|(_, _, tokens)| *tokens >= cost)
                && u64::from(len) <= if has_peak { mtu } else { 2040 };
            if fits {
                buckets.iter_mut().for_each(|(_, _, tokens)| *tokens -= cost);
            }
            packets.push((at, len));
            expected.push(if fits { PASS } else { DROP });
        }
        let found = judged(&words, &packets);
        let differ = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
        assert!(expected.contains(&DROP) && expected.contains(&PASS), "{words}");
        // A bucket whose size is no whole number of ns is smaller by less than one, which can decide about a packet.
        assert!(differ <= 1, "{words}: {differ} packets differ");
    }
}
