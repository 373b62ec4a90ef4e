use super::*;
use crate::packet::SackSlot;

const NO_ECN: Fields = Fields { acks: Ecn::NotEct, handshake: Ecn::NotEct };

fn data(seq: u32) -> Packet {
    let mut p = Packet::new(0, GroupId::default(), Flags::DATA, 1514, Ecn::NotEct);
    p.seq = seq;
    p.payload = 1448;
    p
}

fn receiver() -> (Receiver, Outbox) {
    (
        Receiver::new(0, GroupId::default(), EcnSupport::Off, NO_ECN, Echo::UntilCwr),
        Outbox::default(),
    )
}

/// The ACK that a packet causes.
fn arrive(r: &mut Receiver, out: &mut Outbox, now: Time, p: Packet) -> Option<Packet> {
    out.packets.clear();
    r.on_packet(now, &p, out);
    out.packets.first().copied()
}

/// Sixteen segments, and as many as it takes to open the first window (six).
#[test]
fn the_first_segments_are_acknowledged_at_once_then_every_second() {
    let (mut r, mut s) = receiver();
    let mut now = Time::ZERO;
    let mut acks = Vec::new();
    for n in 0..28 {
        now += Span::from_millis(1);
        if arrive(&mut r, &mut s, now, data(n)).is_some() {
            acks.push(n);
        }
    }
    let expected: Vec<u32> = (0..22).chain([23, 25, 27]).collect();
    assert_eq!(acks, expected);
}

#[test]
fn the_end_of_a_burst_is_acknowledged_at_once() {
    let (mut r, mut s) = receiver();
    let mut now = Time::ZERO;
    let mut acks = Vec::new();
    for n in 0..31 {
        now += Span::from_millis(1);
        let mut p = data(n);
        if n >= 22 && n % 3 == 0 {
            p.bits = TcpBits::PSH; // bursts of three: 22-24, 25-27, 28-30
        }
        if arrive(&mut r, &mut s, now, p).is_some() && n >= 22 {
            acks.push(n);
        }
    }
    assert_eq!(acks, [23, 24, 26, 27, 29, 30]);
}

/// As long as the sender doubles, the window opens ahead of it.
#[test]
fn slow_start_is_acknowledged_segment_by_segment() {
    let (mut r, mut s) = receiver();
    let rtt = Span::from_millis(50);
    let mut seq = 0;
    let mut now = Time::ZERO;
    let mut acks = 0;
    for round in 0..8 {
        for n in 0..10 << round {
            now = Time::ZERO + rtt * (round + 1) + Span::from_micros(n * 10);
            let mut p = data(seq);
            p.tsval = Stamp::of(Time(now.0 - rtt.0));
            acks += u32::from(arrive(&mut r, &mut s, now, p).is_some());
            seq += 1;
        }
    }
    assert!(acks > seq * 4 / 5, "{acks} of {seq}");
    // Once the rate is steady and the window open, every second.
    for n in 0..20_000_u32 {
        if n == 16_000 {
            acks = 0;
        }
        now += Span::from_micros(40);
        let mut p = data(seq + n);
        p.tsval = Stamp::of(Time(now.0 - rtt.0));
        acks += u32::from(arrive(&mut r, &mut s, now, p).is_some());
    }
    assert!(acks < 2100, "{acks} of 4000");
}

#[test]
fn a_lone_segment_is_acknowledged_after_40_ms() {
    let (mut r, mut s) = receiver();
    let mut now = Time::ZERO;
    for n in 0..23 {
        now += Span::from_millis(1);
        arrive(&mut r, &mut s, now, data(n));
    }
    // 63 ms, on the tick after it.
    assert_eq!(now + DELACK_MIN, Time::ZERO + Span::from_millis(63));
    s.packets.clear();
    r.on_timer(r.deadline(), &mut s);
    assert_eq!((s.packets.len(), r.deadline()), (0, Time::ZERO + Span::from_millis(64)));
    s.packets.clear();
    r.on_timer(r.deadline(), &mut s);
    assert_eq!(s.packets[0].seq, 23);
}

/// It waited for nothing: the next one waits twice as long, but not longer than the RTT of the handshake.
#[test]
fn a_delayed_ack_that_was_awaited_in_vain_doubles_the_wait() {
    for (rtt, waits) in [(100, [40, 80, 100, 100]), (30, [40; 4]), (300, [40, 80, 160, 200])] {
        let (mut r, mut s) = receiver();
        r.rtt = Span::from_millis(rtt);
        let mut now = Time::ZERO;
        for n in 0..24 {
            arrive(&mut r, &mut s, now, data(n));
        }
        for (n, wait) in waits.into_iter().enumerate() {
            // Ticks are 4 ms apart, and this begins on one.
            now += Span::from_millis(204);
            assert!(arrive(&mut r, &mut s, now, data(24 + n as u32)).is_none());
            let mut at = now;
            while s.packets.is_empty() {
                at = r.deadline();
                r.on_timer(at, &mut s);
            }
            let waited = at.since(now).as_micros() / 1000;
            assert!((wait..=wait + 8).contains(&waited), "RTT {rtt} ms, number {n}: {waited} ms");
        }
    }
}

/// What is smaller than a full segment is acknowledged as soon as it is read; two of a size are the new
/// full segment.
#[test]
fn segments_that_change_their_size_are_acknowledged_at_once() {
    let (mut r, mut s) = receiver();
    let mut n = 0;
    let mut acks = |payload: u16, times: usize| -> Vec<bool> {
        let mut one = |_| {
            let mut p = data(n);
            (p.payload, p.frame_len) = (payload, payload + 66);
            n += 1;
            arrive(&mut r, &mut s, Time::ZERO, p).is_some()
        };
        (0..times).map(&mut one).collect()
    };
    acks(1448, 24);
    assert_eq!(acks(1000, 5), [true, false, true, false, true]);
    assert_eq!(acks(900, 1), [true]);
    assert_eq!(acks(1000, 3), [false, true, false]);
}

#[test]
fn gaps_are_reported_most_recent_first_and_duplicates_as_dsack() {
    let (mut r, mut s) = receiver();
    let now = Time::ZERO;
    arrive(&mut r, &mut s, now, data(0));
    arrive(&mut r, &mut s, now, data(2));
    arrive(&mut r, &mut s, now, data(3));
    let ack = arrive(&mut r, &mut s, now, data(6)).unwrap();
    assert_eq!(ack.seq, 1);
    assert_eq!(s.sacks.take(ack.sack()).as_slice(), [Block::new(6, 7), Block::new(2, 4)]);
    let ack = arrive(&mut r, &mut s, now, data(3)).unwrap();
    assert!(ack.flags.has(Flags::DSACK));
    assert_eq!(s.sacks.take(ack.sack()).as_slice()[0], Block::new(3, 4));
    let ack = arrive(&mut r, &mut s, now, data(1)).unwrap();
    assert_eq!(ack.seq, 4);
    assert_eq!(s.sacks.take(ack.sack()).as_slice(), [Block::new(6, 7)]);
}

fn sent(seq: u32, ms: u64) -> Packet {
    let mut p = data(seq);
    p.stamp = Time::ZERO + Span::from_millis(ms);
    p
}

/// 1 is sent again at 60 ms and overtakes 2 and 3, sent at 10 ms. What it has brought up to date
/// refuses them: 2, which is missing, without a D-SACK, and 1 itself with one.
#[test]
fn data_behind_its_own_retransmission_is_refused() {
    let (mut r, mut s) = receiver();
    let now = Time::ZERO + Span::from_millis(90);
    arrive(&mut r, &mut s, now, sent(0, 9));
    arrive(&mut r, &mut s, now, sent(1, 60));
    let mut late = sent(2, 10);
    late.ecn = Ecn::Ce.into();
    let ack = arrive(&mut r, &mut s, now, late).unwrap();
    assert_eq!((ack.seq, ack.sack(), r.next), (2, SackSlot::NONE, 2));
    let ack = arrive(&mut r, &mut s, now, sent(1, 10)).unwrap();
    assert!(ack.flags.has(Flags::DSACK));
    assert_eq!(s.sacks.take(ack.sack()).as_slice(), [Block::new(1, 2)]);
    // One millisecond is the clock's grain.
    let ack = arrive(&mut r, &mut s, now, sent(2, 59)).unwrap();
    assert_eq!((ack.seq, ack.stamp), (3, Time::ZERO + Span::from_millis(60)));
}

/// As long as nothing is sent again, no reordering makes data too old.
#[test]
fn reordered_data_is_not_refused() {
    let (mut r, mut s) = receiver();
    let now = Time::ZERO + Span::from_millis(90);
    for seq in [0, 5, 4, 3, 2, 1] {
        arrive(&mut r, &mut s, now, sent(seq, 10 * u64::from(seq)));
    }
    assert_eq!(r.next, 6);
}

/// Three duplicate ACKs, then they are compressed; but a third block does not wait.
#[test]
fn a_compressed_ack_leaves_before_a_block_is_crowded_out() {
    let (mut r, mut s) = receiver();
    let now = Time::ZERO;
    for seq in 0..30 {
        arrive(&mut r, &mut s, now, data(seq));
    }
    r.quick = 0;
    r.rtt = Span::from_millis(50);
    let held = |r: &mut Receiver, s: &mut Outbox, seq| {
        let mut p = data(seq);
        p.stamp = now;
        r.window.open = u64::MAX / 2;
        arrive(r, s, now, p).is_none()
    };
    assert!([32, 33, 36].map(|n| held(&mut r, &mut s, n)).iter().all(|h| !h));
    assert!(held(&mut r, &mut s, 37) && held(&mut r, &mut s, 34));
    assert!(!held(&mut r, &mut s, 40), "the blocks 32-34 and 36-37 leave first");
    assert!(held(&mut r, &mut s, 41));
}

#[test]
fn classic_ecn_echoes_until_cwr() {
    let (mut r, mut s) = receiver();
    r.mode = EcnMode::Classic;
    let now = Time::ZERO;
    let mut ece = Vec::new();
    for n in 0..6 {
        let mut p = data(n);
        p.ecn = if n == 1 { Ecn::Ce } else { Ecn::Ect0 }.into();
        if n == 4 {
            p.bits = TcpBits::CWR;
        }
        let ack = arrive(&mut r, &mut s, now, p).unwrap();
        ece.push(ack.bits.has(TcpBits::ECE));
    }
    assert_eq!(ece, [false, true, true, true, false, false]);
}

/// A receiver in steady state, two segments per ACK, and the (acknowledged, ESCE, ECE) of the ACKs
/// that these fields cause, one segment per millisecond.
fn echoes(support: EcnSupport, fields: &[Ecn]) -> Vec<(u32, bool, bool)> {
    let (mut r, mut s) = receiver();
    (r.support, r.mode) = (support, EcnMode::Classic);
    let mut now = Time::ZERO;
    let start = 30;
    let mut acks = Vec::new();
    for (n, &field) in [Ecn::Ect0; 30].iter().chain(fields).enumerate() {
        now += Span::from_millis(1);
        r.window.open = u64::MAX / 2;
        let mut p = data(n as u32);
        p.stamp = now;
        p.ecn = field.into();
        s.packets.clear();
        r.on_packet(now, &p, &mut s);
        if n >= start {
            let bits = s.packets.iter().map(|a| (a.seq - start as u32, a.bits));
            acks.extend(bits.map(|(n, b)| (n, b.has(TcpBits::ESCE), b.has(TcpBits::ECE))));
        }
    }
    acks
}

#[test]
fn sce_is_echoed_run_by_run() {
    use Ecn::{Ect0 as N, Ect1 as S};
    let runs = |fields: &[Ecn]| {
        let acks = echoes(EcnSupport::Sce, fields);
        acks.iter().map(|a| (a.0, a.1)).collect::<Vec<_>>()
    };
    // Runs that end with an ACK need no other.
    assert_eq!(runs(&[N, N, S, S, N, N]), [(2, false), (4, true), (6, false)]);
    // A pending ACK leaves with what it knows, and the segment that ended the run is acknowledged at
    // once.
    assert_eq!(
        runs(&[N, S, S, S, S, N, N, N]),
        [(1, false), (2, true), (4, true), (5, true), (6, false), (8, false)]
    );
    assert_eq!(runs(&[S, N, S, N]), [(1, true), (2, false), (3, true), (4, false)]);
}

/// CE goes by ECE, says nothing of SCE and ends no run; ESCE is told once.
#[test]
fn ce_and_sce_are_told_apart() {
    use Ecn::{Ce as C, Ect0 as N, Ect1 as S};
    let acks = echoes(EcnSupport::Sce, &[S, S, C, C, N, N]);
    let expected = [(2, true, false), (3, false, true), (4, false, true), (6, false, true)];
    assert_eq!(acks, expected);
    // One ACK tells both: the mark before it waits for the CE segment.
    assert_eq!(echoes(EcnSupport::Sce, &[S, C])[0], (2, true, true));
}

#[test]
fn only_a_host_with_sce_echoes_it() {
    for support in [EcnSupport::Classic, EcnSupport::AccEcn] {
        let acks = echoes(support, &[Ecn::Ect0, Ecn::Ect1, Ecn::Ect1, Ecn::Ect0]);
        assert_eq!(acks, [(2, false, false), (4, false, false)]);
    }
}

/// Where a round trip is less than a millisecond, timestamps do not tell it: a first window of 64 KiB took 12 ms.
#[test]
fn a_window_of_data_is_a_sample_of_the_rtt() {
    let (mut r, mut s) = receiver();
    let mut now = Time::ZERO;
    for seq in 0..50 {
        let mut p = data(seq);
        p.tsval = Stamp::of(now);
        arrive(&mut r, &mut s, now, p);
        let measured = if seq < 46 { 0 } else { 46 * 256 };
        assert_eq!(r.window.rtt8 >> 3, measured, "after segment {seq}");
        now += Span::from_micros(256);
    }
}

/// SACKs are held back for 33 % of the lesser RTT, at most 1 ms, and the slack of a timer.
#[test]
fn compression_follows_the_rtt() {
    let (mut r, _) = receiver();
    r.rtt = Span::from_micros(2_000);
    for (rtt_us, wait_us) in [(0, 10), (1_000, 340), (5_000, 670)] {
        r.window.rtt8 = rtt_us << 3;
        assert_eq!(r.compression(), Span::from_micros(wait_us));
    }
    r.rtt = Span::from_millis(10);
    assert_eq!(r.compression(), Span::from_micros(1_010));
}
