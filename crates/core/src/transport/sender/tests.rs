use super::output::Push;
use super::*;
use crate::cc::reno::Reno;
use crate::packet::TcpBits;
use crate::packet::{ACK_FRAME, Stamp};
use crate::transport::rtt::RTO_MIN;

fn ack(seq: u32, ms: u64) -> Packet {
    let mut p = Packet::new(0, GroupId::default(), Flags::ACK, ACK_FRAME, Ecn::NotEct);
    p.seq = seq;
    p.tsval = Stamp::of(Time::ZERO + Span::from_millis(ms));
    p
}

fn sender() -> Sender {
    let config = SenderConfig {
        flow: 0,
        group: GroupId::default(),
        ecn: EcnSupport::Off,
        pace_bps: None,
        bytes: None,
        receive_window: None,
        stream: false,
        dscp: 0,
        mtu: 1500,
        rto_min: RTO_MIN,
        rules: Options::default(),
        stop: Time::NEVER,
        switches: Switches::default(),
    };
    Sender::new(config, Cc::Reno(Reno::plain()))
}

/// Sent one by one, the last segment of a write has PSH, and of each chunk with which more than half the largest
/// window that was offered was written. A chunk is that half, of at first 22 segments, at most 45. The first one
/// gets back the ten of the first window (captures of Linux 7.2 at 10 Mbit/s: 31, and then every 56 with a
/// window of 82 kB).
#[test]
fn writes_and_half_windows_are_pushed() {
    for (kib, pushed) in [
        (63, [31, 75, 119, 163, 185]),
        (81, [37, 93, 121, 177, 233]),
        (256, [99, 144, 234, 324, 414]),
    ] {
        let (mut s, mut out) = (sender(), Outbox::default());
        s.data.max_window_kib = kib;
        s.fill_queue();
        for _ in 0..420 {
            s.data.queue.grow_head(1);
            s.send_burst(Time::ZERO, 1, Push::Normal, &mut out);
            s.write_on();
        }
        let with_push = out.packets.iter().filter(|p| p.bits.has(TcpBits::PSH));
        let seqs: Vec<u32> = with_push.map(|p| p.seq).take(5).collect();
        assert_eq!(seqs, pushed, "{kib} KiB");
    }
}

/// Of ACKs that a newer one has overtaken, those pass that are within the clock's grain of it, and
/// duplicates of what is acknowledged that are younger than a timeout (here 1200 ms: 1 s at 1200 Hz).
#[test]
fn paws_discards_overtaken_acks() {
    let mut s = sender();
    s.board.una = 20;
    assert!(s.passes_paws(&ack(20, 5000)));
    assert!(s.passes_paws(&ack(18, 4999)), "one millisecond older");
    assert!(!s.passes_paws(&ack(18, 4998)));
    assert!(!s.passes_paws(&ack(22, 4998)), "news, but from before");
    assert!(s.passes_paws(&ack(20, 4998)), "a duplicate ACK");
    assert!(s.passes_paws(&ack(20, 3800)) && !s.passes_paws(&ack(20, 3799)));
    // What is older does not set the clock back, what is newer sets it forward.
    assert!(!s.passes_paws(&ack(22, 4998)) && s.passes_paws(&ack(22, 5010)));
    assert!(!s.passes_paws(&ack(23, 5000)));
    // The clock wraps after 2^32 ms.
    let wrapped = (1 << 32) + 10;
    s.template.tsval = Stamp::of(Time::ZERO + Span::from_millis(wrapped - 20));
    assert!(s.passes_paws(&ack(24, wrapped)) && !s.passes_paws(&ack(25, wrapped - 20)));
}

/// What is lost of a burst leaves as one again, at most as much as a burst has now: pacing does not take it apart,
/// and what is behind it waits. PSH is at its end, and where the application's was.
#[test]
fn a_lost_burst_is_sent_again_as_one() {
    let (mut s, mut out) = (sender(), Outbox::default());
    s.phase = Phase::Established;
    s.pacing.is_on = true;
    s.pacing.count(100);
    s.pacing.rate = 4 * 1448 * 1024;
    s.pacing.burst = 4;
    s.win.cwnd = 100;
    for burst in [3, 6, 1] {
        s.board.sent(Time::ZERO, 1448, burst);
    }
    s.board.push(9);
    let mut now = Time::ZERO;
    let mut expected = vec![(0..3, Some(2)), (3..7, Some(6)), (7..9, Some(8)), (9..10, Some(9))];
    // Lost again, the parts of the burst that was taken apart stay apart.
    expected.extend(expected.clone());
    for (k, (segments, pushed)) in expected.into_iter().enumerate() {
        if k % 4 == 0 {
            now += Span::from_millis(500);
            s.pacing.clock = now;
            s.board.mark_lost_by_timeout(now);
        }
        s.retransmit_lost(now, &mut out);
        let sent: Vec<u32> = out.packets.iter().map(|p| p.seq).collect();
        assert_eq!(sent, segments.clone().collect::<Vec<_>>());
        let with_push = out.packets.drain(..).filter(|p| p.bits.has(TcpBits::PSH));
        assert_eq!(with_push.map(|p| p.seq).collect::<Vec<_>>(), Vec::from_iter(pushed));
        let took = u64::from(segments.end - segments.start) * 1448 * 1_000_000_000 / s.pacing.rate;
        assert_eq!(s.pacing.clock, now + Span(took));
        now = s.pacing.clock;
    }
}
