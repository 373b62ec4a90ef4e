//! A policer against `tcf_police_act` of Linux, by hand: which packets of a sequence find their tokens.

use crate::harness::Packet;
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

/// Rates at which a byte takes a whole number of ns, so that tokens in bytes need no rounding.
const WHOLE: [u64; 9] = [1, 2, 4, 5, 10, 20, 25, 40, 50];

#[test]
fn random_arrivals_find_the_tokens_of_a_count_in_bytes() {
    let mut rng = Rng::stream(1, "police", 0);
    for round in 0..200 {
        let slow = rng.below(8) as usize;
        let fast = slow + 1 + rng.below(8 - slow as u64) as usize;
        let (burst, mtu) = (2000 + rng.below(50_000), 1600 + rng.below(400));
        let mut words = format!("rate {}mbit burst {burst}b mtu {mtu}b", 8 * WHOLE[slow]);
        // (bytes per us, size, tokens), the latter in thousandths of a byte.
        let mut buckets = vec![(WHOLE[slow], burst * 1000, burst * 1000)];
        if round % 2 == 0 {
            words += &format!(" peakrate {}mbit", 8 * WHOLE[fast]);
            buckets.push((WHOLE[fast], mtu * 1000, mtu * 1000));
        }
        let (mut at, mut before, mut packets, mut expected) = (0, 0, Vec::new(), Vec::new());
        for _ in 0..300 {
            at += rng.below(2) * rng.below(1_500_000 / WHOLE[slow]);
            let len = 1 + rng.below(2000);
            for (rate, size, tokens) in &mut buckets {
                *tokens = (*tokens + (at - before) * *rate).min(*size);
            }
            before = at;
            let fits = len <= mtu && buckets.iter().all(|(_, _, tokens)| *tokens >= len * 1000);
            if fits {
                buckets.iter_mut().for_each(|(_, _, tokens)| *tokens -= len * 1000);
            }
            packets.push((at, len as u32));
            expected.push(if fits { PASS } else { DROP });
        }
        assert!(expected.contains(&DROP) && expected.contains(&PASS), "{words}");
        assert_eq!(judged(&words, &packets), expected, "{words}");
    }
}
