//! Scripts in the place of network and receiver: what a sender does about losses, real and apparent.

#![allow(clippy::single_range_in_vec_init)] // a SACK block is a range

use std::ops::Range;

use super::*;
use crate::cc::registry::Cc;
use crate::cc::reno::Reno;
use crate::ecn::{Ecn, EcnSupport};
use crate::element::End;
use crate::packet::TcpBits;
use crate::packet::{ACK_FRAME, GroupId, Stamp};
use crate::sack::Block;
use crate::transport::ecn;
use crate::transport::options::Options;
use crate::transport::rtt::RTO_MIN;
use crate::transport::sender::{SenderConfig, Switches};

const RTT: u64 = 100;

/// A Reno sender; times in milliseconds.
struct Script {
    now: u64,
    sender: Sender,
    out: Outbox,
    /// When each segment was last sent.
    sent_at: Vec<u64>,
}

fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

impl Script {
    /// A connection of 100 ms RTT that has as many segments to send, and has sent the first ten.
    fn new(segments: u64, ecn: EcnSupport) -> Script {
        Script::with_window(segments, ecn, None)
    }
    /// The same, with room for so many segments at the receiver.
    fn with_window(segments: u64, ecn: EcnSupport, window: Option<u64>) -> Script {
        let config = SenderConfig {
            flow: 0,
            group: GroupId::default(),
            ecn,
            pace_bps: None,
            bytes: Some(segments * 1448),
            receive_window: window.map(|n| n * 1448),
            stream: false,
            dscp: 0,
            mtu: 1500,
            rto_min: RTO_MIN,
            rules: Options::default(),
            stop: Time::NEVER,
            switches: Switches::default(),
        };
        let mut s = Script {
            now: 0,
            sender: Sender::new(config, Cc::Reno(Reno::plain())),
            out: Outbox::default(),
            sent_at: Vec::new(),
        };
        s.sender.start_at(Time::ZERO);
        s.sender.on_timer(Time::ZERO, &mut s.out);
        s.out.packets.clear();
        let mut answer =
            Packet::new(0, GroupId::default(), Flags::SYN.with(Flags::ACK), ACK_FRAME, Ecn::NotEct);
        answer.bits = ecn::answer_syn(ecn, false, ecn::syn_bits(ecn), Ecn::NotEct).1;
        answer.tsval = Stamp::of(ms(RTT));
        s.now = RTT;
        s.sender.on_packet(ms(RTT), &answer, &mut s.out);
        assert_eq!(s.sent(), (0..10).collect::<Vec<_>>());
        s
    }

    /// The segments that have left since the last look.
    fn sent(&mut self) -> Vec<u32> {
        let data = self.out.packets.drain(..).filter(|p| p.flags.has(Flags::DATA));
        let sent: Vec<u32> = data.map(|p| p.seq).collect();
        for &seq in &sent {
            let seq = seq as usize;
            self.sent_at.resize(self.sent_at.len().max(seq + 1), 0);
            self.sent_at[seq] = self.now;
        }
        sent
    }

    /// Lets time pass, with what timers send.
    fn wait_until(&mut self, until: u64) -> Vec<(u64, u32)> {
        let mut all = Vec::new();
        loop {
            let at = self.sender.deadline();
            if at > ms(until) {
                break;
            }
            self.now = at.0 / 1_000_000;
            self.sender.on_timer(at, &mut self.out);
            let now = self.now;
            all.extend(self.sent().into_iter().map(|seq| (now, seq)));
        }
        self.now = until;
        all
    }

    /// An ACK that echoes the timestamp of `echo` milliseconds.
    fn ack(
        &mut self,
        next: u32,
        echo: u64,
        blocks: &[Range<u32>],
        more: (Flags, TcpBits),
    ) -> Vec<u32> {
        let mut p =
            Packet::new(0, GroupId::default(), Flags::ACK.with(more.0), ACK_FRAME, Ecn::NotEct);
        p.seq = next;
        p.bits = more.1;
        p.stamp = ms(echo);
        p.tsval = Stamp::of(ms(self.now));
        if !blocks.is_empty() {
            let (slot, b) = self.out.sacks.place();
            blocks.iter().for_each(|r| assert!(b.push(Block::new(r.start, r.end))));
            p.set_sack(slot);
        }
        self.sender.on_packet(ms(self.now), &p, &mut self.out);
        self.sent()
    }

    /// Window, threshold (none: not yet known) and state.
    fn state(&self) -> (u32, Option<u32>, CaState) {
        let w = self.sender.window();
        let threshold = (w.ssthresh < SSTHRESH_INFINITE).then_some(w.ssthresh);
        (w.cwnd, threshold, self.sender.recovery.state)
    }
}

const PLAIN: (Flags, TcpBits) = (Flags(0), TcpBits(0));
const NOTHING: [u32; 0] = [];
const DSACK: (Flags, TcpBits) = (Flags::DSACK, TcpBits(0));
const ECE: (Flags, TcpBits) = (Flags(0), TcpBits::ECE);

/// Ten segments and nothing comes back: a probe with new data after two RTTs, then a timeout, for which
/// everything is lost.
fn timed_out(segments: u64) -> Script {
    let mut s = Script::new(segments, EcnSupport::Off);
    assert_eq!(s.wait_until(700), [(308, 10), (640, 0)]);
    assert_eq!(s.state(), (1, Some(5), CaState::Loss));
    s
}

/// RFC 3522: an ACK that echoes the timestamp of the original says that it was only late. The window is
/// back, and nothing else is sent again.
#[test]
fn a_timeout_is_undone_by_a_timestamp() {
    let mut s = timed_out(1000);
    assert_eq!(s.ack(1, 100, &[], PLAIN), [11]);
    assert_eq!(s.state(), (11, None, CaState::Open));
    assert_eq!(s.ack(11, 308, &[], PLAIN).first(), Some(&12));
    assert_eq!(s.sender.retransmitted, 1);
}

/// RFC 5682: the first ACK after a timeout lets new data go instead of repeating. What was never repeated
/// and is acknowledged next has only been late.
#[test]
fn a_timeout_is_undone_by_what_was_never_repeated() {
    for sacked in [false, true] {
        let mut s = timed_out(1000);
        let again = s.sent_at[0];
        assert_eq!(s.ack(1, again, &[], PLAIN), [11, 12], "new data");
        assert_eq!(s.state(), (2, Some(5), CaState::Loss));
        let (next, blocks) = if sacked { (1, vec![2..3]) } else { (2, vec![]) };
        let sent = s.ack(next, again, &blocks, PLAIN);
        assert!(sent.iter().all(|seq| *seq > 12), "{sent:?}, SACKed: {sacked}");
        assert_eq!(s.sender.retransmitted, 1);
        let (cwnd, threshold, _) = s.state();
        assert!(cwnd >= 10 && threshold.is_none(), "{:?}, SACKed: {sacked}", s.state());
    }
}

/// RFC 2883: the retransmission was a duplicate. It counts as delivered, too.
#[test]
fn a_timeout_is_undone_by_a_dsack() {
    let mut s = timed_out(1000);
    let again = s.sent_at[0];
    assert_eq!(s.ack(1, again, &[0..1], DSACK), [11, 12]);
    assert_eq!(s.state(), (12, None, CaState::Open));
}

/// The new data that F-RTO let go arrives, and what was sent before it does not: it was lost.
#[test]
fn a_timeout_stands_where_only_new_data_arrives() {
    let mut s = timed_out(1000);
    let again = s.sent_at[0];
    assert_eq!(s.ack(1, again, &[], PLAIN), [11, 12]);
    s.now = 800;
    assert_eq!(s.ack(1, again, &[11..12], PLAIN), [1], "as far as the window of two goes");
    assert_eq!(s.state(), (2, Some(5), CaState::Loss));
    assert_eq!(s.ack(1, again, &[11..13], PLAIN), [2]);
    // The repairs are acknowledged, and slow start repairs the rest.
    s.now = 900;
    assert_eq!(s.ack(2, 800, &[11..13], PLAIN), [3, 4]);
    assert_eq!(s.ack(3, 800, &[11..13], PLAIN), [5, 6]);
    assert_eq!(s.state(), (4, Some(5), CaState::Loss));
    s.now = 1000;
    assert_eq!(s.ack(13, 900, &[], PLAIN).first(), Some(&13));
    assert_eq!(s.state().2, CaState::Open);
}

/// Without new data to try, what is lost is sent again at once.
#[test]
fn without_new_data_a_timeout_is_repaired_at_once() {
    let mut s = timed_out(11);
    let again = s.sent_at[0];
    assert_eq!(s.ack(1, again, &[], PLAIN), [1, 2]);
    assert_eq!(s.state(), (2, Some(5), CaState::Loss));
}

/// While a probe is out there is no second one: when that would be due, the timeout counts from when the head was sent
/// (`tcp_send_loss_probe`, `tcp_rearm_rto`). What was sent less than an RTT before it is not yet lost (RFC 8985, 6.3). And an
/// answer to the original says nothing of what was sent after the repetition.
#[test]
fn a_timeout_after_a_probe() {
    let mut s = Script::new(1000, EcnSupport::Off);
    assert_eq!(s.wait_until(320), [(308, 10)], "the probe");
    assert_eq!(s.ack(1, 100, &[], PLAIN), [11]);
    let sent = s.wait_until(620);
    assert_eq!(sent.len(), 1, "{sent:?}");
    // The head is of 100 ms; 115 ms of RTT and 270 of its spread, and the timer's ticks.
    assert!((488..=504).contains(&sent[0].0) && sent[0].1 == 1, "{sent:?}");
    assert_eq!(s.state(), (3, Some(5), CaState::Loss), "10 and 11 are under way");
    let sent = s.ack(2, 100, &[], PLAIN);
    assert!(!sent.is_empty() && sent.iter().all(|seq| *seq > 11), "{sent:?}");
    assert_eq!((s.sender.retransmitted, s.state().2), (1, CaState::Open));
}

/// Each timeout waits twice as long; the first answer ends that.
#[test]
fn timeouts_back_off() {
    let mut s = Script::new(1000, EcnSupport::Off);
    let sent = s.wait_until(30_000);
    assert!(sent[1..].iter().all(|(_, seq)| *seq == 0), "{sent:?}");
    let waits: Vec<u64> = sent[1..].windows(2).map(|w| w[1].0 - w[0].0).collect();
    assert!(waits.len() >= 5);
    for (i, wait) in waits.into_iter().enumerate() {
        // Up to an eighth later, as the wheel has it.
        let exact = 300 << (i + 1);
        assert!((exact..=exact + exact / 8 + 8).contains(&wait), "{wait} for {exact}");
    }
    let last = s.sent_at[0];
    s.now = last + 100;
    assert_eq!(s.ack(1, last, &[], PLAIN).len(), 2);
    let from = s.now;
    let next = s.wait_until(from + 2000)[0].0;
    assert!(next - from < 400, "{next} after {from}");
}

/// Sixteen segments under way of which the sixth is taken for lost: with the third SACK above it, as long as
/// nothing was ever reordered. What is sent again, and the halved window.
fn repairing(ecn: EcnSupport) -> Script {
    let mut s = Script::new(1000, ecn);
    s.now = 200;
    for n in 1..6 {
        assert_eq!(s.ack(n, 100, &[], PLAIN), [2 * n + 8, 2 * n + 9], "slow start");
    }
    assert_eq!(s.state(), (15, None, CaState::Open));
    assert_eq!(s.ack(5, 100, &[6..7], PLAIN), NOTHING);
    assert_eq!(s.state(), (15, None, CaState::Disorder));
    assert_eq!(s.ack(5, 100, &[6..8], PLAIN), [20, 21], "limited transmit");
    s.now = 201;
    assert_eq!(s.ack(5, 100, &[6..9], PLAIN), [5], "fast retransmit");
    assert_eq!(s.state(), (14, Some(7), CaState::Recovery));
    s
}

/// An ACK that another has overtaken still tells what has arrived: here, that something is missing. Without
/// blocks it tells nothing.
#[test]
fn an_overtaken_ack_tells_of_losses() {
    let mut s = Script::new(1000, EcnSupport::Off);
    s.now = 200;
    assert_eq!(s.ack(5, 100, &[], PLAIN), (10..20).collect::<Vec<_>>());
    assert_eq!(s.ack(4, 100, &[], PLAIN), NOTHING);
    assert_eq!(s.state(), (15, None, CaState::Open));
    assert_eq!(s.ack(4, 100, &[6..9], PLAIN).first(), Some(&5));
    assert_eq!(s.state().2, CaState::Recovery);
}

/// RFC 6937: in recovery ssthresh/cwnd segments leave per segment delivered, and the window ends at ssthresh.
#[test]
fn a_reduction_is_proportional() {
    let mut s = repairing(EcnSupport::Off);
    s.now = 250;
    // The SACK that began it counts, and the retransmission.
    let (mut delivered, mut sent) = (1, 1);
    for n in 10..18 {
        sent += s.ack(5, 100, &[6..n], PLAIN).len();
        delivered += 1;
        assert!(sent <= (delivered * 7_usize).div_ceil(15).max(1), "{sent} of {delivered}");
    }
    assert_eq!(sent, (delivered * 7_usize).div_ceil(15));
    s.now = 301;
    s.ack(22, 201, &[], PLAIN);
    assert_eq!(s.state().0, 7);
}

/// Which transmission an ACK answers is known by its timestamp only, a clock of milliseconds: 97.7 ms are 97.
#[test]
fn of_what_was_sent_again_the_rtt_is_in_milliseconds() {
    let mut s = repairing(EcnSupport::Off);
    let mut p = Packet::new(0, GroupId::default(), Flags::ACK, ACK_FRAME, Ecn::NotEct);
    p.seq = 9;
    p.stamp = ms(201);
    p.tsval = Stamp::of(ms(298));
    s.sender.on_packet(ms(298) + Span::from_micros(700), &p, &mut s.out);
    assert_eq!(s.sender.rtt.min_us(), 97_000);
}

/// RFC 3522 in fast recovery: the original arrives after all, late.
#[test]
fn a_fast_retransmit_is_undone_by_a_timestamp() {
    for next in [9, 22] {
        let mut s = repairing(EcnSupport::Off);
        s.now = 250;
        s.ack(next, 100, &[], PLAIN);
        // The retransmission may still be under way; then the ACK for what came after it is awaited.
        let (cwnd, threshold, state) = s.state();
        assert!(cwnd >= 15 && threshold.is_none(), "ACK {next}: {:?}", s.state());
        assert!(state <= CaState::Disorder, "ACK {next}: {state:?}");
    }
}

/// RFC 2883: every retransmission turns out a duplicate, so nothing was lost. The answer to the first leaves
/// the second in doubt.
#[test]
fn a_fast_retransmit_is_undone_by_dsacks() {
    let mut s = repairing(EcnSupport::Off);
    s.now = 301;
    s.ack(22, 201, &[], PLAIN);
    assert_eq!(s.state(), (9, Some(7), CaState::Open), "two windows of seven acknowledged");
    let sent = s.ack(22, 201, &[5..6], DSACK);
    assert_eq!(s.state(), (15, None, CaState::Open));
    assert_eq!(sent.len(), 6, "the window is open again");

    // Two retransmissions.
    let mut s = repairing(EcnSupport::Off);
    s.now = 210;
    let blocks = [6..9, 10..14];
    let sent = s.ack(5, 100, &blocks, PLAIN);
    assert!(sent.contains(&9) && s.sender.retransmitted == 2, "{sent:?}");
    s.now = 320;
    s.ack(22, 210, &[], PLAIN);
    s.ack(22, 210, &[5..6], DSACK);
    assert_eq!(s.state().1, Some(7), "one is not both");
    s.ack(22, 210, &[9..10], DSACK);
    assert_eq!(s.state().1, None);
}

/// A D-SACK for what was sent before the recovery says nothing of it.
#[test]
fn a_dsack_from_before_undoes_nothing() {
    let mut s = repairing(EcnSupport::Off);
    s.now = 250;
    s.ack(5, 201, &[2..3, 6..10], DSACK);
    assert_eq!(s.state().1, Some(7));
    assert_eq!(s.state().2, CaState::Recovery);
}

/// What a mark asked for stays, whatever became of the losses.
#[test]
fn a_reduction_for_a_mark_is_not_undone() {
    let after = |marked: bool| {
        let mut s = repairing(EcnSupport::Classic);
        s.now = 250;
        s.ack(5, 100, &[6..10], if marked { ECE } else { PLAIN });
        s.ack(5, 100, &[5..6, 6..10], DSACK);
        s.state().1
    };
    assert_eq!((after(false), after(true)), (None, Some(7)));
}

/// RFC 8985: what may only be reordered is given a quarter of the smallest RTT; a hole that is filled in time
/// makes three SACKs no proof any more.
#[test]
fn reordering_is_waited_for() {
    for filled in [false, true] {
        let mut s = Script::new(1000, EcnSupport::Off);
        s.now = 200;
        s.ack(2, 100, &[], PLAIN);
        s.ack(2, 100, &[3..4], PLAIN);
        let mut hole = 2;
        if filled {
            s.now = 210;
            s.ack(4, 100, &[], PLAIN);
            s.ack(4, 100, &[5..8], PLAIN);
            hole = 4;
        }
        assert_eq!((s.sender.retransmitted, s.state().2), (0, CaState::Disorder));
        let (from, sent) = (s.now, s.wait_until(400));
        assert_eq!(sent.first().map(|(_, seq)| *seq), Some(hole), "{sent:?}");
        // A timer waits 2 ms more, and for a tick of 4 ms.
        assert!((from + 25..from + 35).contains(&sent[0].0), "{sent:?}");
    }
}

/// RFC 8985, 7.4: where nothing new may be sent, the last segment is the probe. A D-SACK says that it was not
/// needed; an ACK of what came later, without one, that it repaired a loss: the window is halved.
#[test]
fn a_probe_that_repairs_halves_the_window() {
    for (answer, blocks, window, after) in
        [(PLAIN, vec![], 29, (14, Some(14))), (DSACK, vec![18..19], 30, (30, None))]
    {
        let mut s = Script::with_window(1000, EcnSupport::Off, Some(10));
        s.now = 200;
        s.ack(1, 100, &[], PLAIN);
        s.ack(9, 100, &[], PLAIN);
        let (sent, next) = (s.wait_until(450), s.sender.board.nxt);
        assert_eq!(sent, [(404, 18)], "the last of the ten after 9, two RTTs and a tick");
        s.now = 504;
        s.ack(next, 404, &blocks, answer);
        assert_eq!(s.state(), (window, None, CaState::Open));
        s.now = 604;
        s.ack(next + 1, 504, &[], PLAIN);
        assert_eq!(s.state(), (after.0, after.1, CaState::Open));
    }
}
