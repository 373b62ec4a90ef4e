//! Random connections against a model that keeps every segment for ever and goes through all of them each
//! time: what is under way, lost and SACKed, what an ACK tells, and which segments RACK gives up.

use proptest::prelude::*;

use super::*;
use crate::transport::rack::{REORDERING_DEFAULT, REORDERING_MAX};

/// The model's segment.
#[derive(Copy, Clone, Debug)]
struct Seg {
    payload: u32,
    sacked: bool,
    lost: bool,
    /// A retransmission is under way; there ever was one.
    retransmitted: bool,
    ever: bool,
    app_limited: bool,
    /// Of the last transmission: when, and the state of the connection then.
    sent_at: Time,
    delivery: Delivery,
    then: LostSegment,
    ce: u32,
}

/// A scoreboard by the letter of RFC 8985, RFC 2883 and the draft on delivery rates.
#[derive(Default)]
struct Model {
    segs: Vec<Seg>,
    una: u32,
    fack: u32,
    reordering: u32,
    reordering_seen: bool,
    rack: (Time, u32),
    rack_rtt_us: u32,
    rack_news: bool,
    reo_wnd_steps: u32,
    reo_wnd_persist: u32,
    dsack_seen: bool,
    sent_again: u32,
    duplicates: u32,
    widened_at: u32,
    delivery: Delivery,
    lost_total: u32,
    told_lost: Vec<LostSegment>,
    undo_retrans: i64,
    undo_marker: Option<u32>,
}

#[derive(Debug, Default, PartialEq)]
struct Outcome {
    una_advanced: bool,
    sacked: bool,
    original_acked: bool,
    retransmission_acked: bool,
    dsack: bool,
    probe_twice: bool,
    delivered: u32,
    delivered_bytes: u32,
    acked_bytes: u32,
    rtt_oldest_us: Option<u32>,
    rtt_newest_us: Option<u32>,
}

fn us(now: Time, then: Time) -> u32 {
    now.micros_since(then) as u32
}

impl Model {
    fn nxt(&self) -> u32 {
        self.segs.len() as u32
    }
    fn out(&self) -> impl Iterator<Item = &Seg> {
        self.segs[self.una as usize..].iter()
    }
    fn count(&self, is: impl Fn(&Seg) -> bool) -> u32 {
        self.out().filter(|s| is(s)).count() as u32
    }
    /// RFC 6675's pipe: what is out, and again what was sent again, less what has arrived or is lost.
    fn in_flight(&self) -> u32 {
        let (sacked, lost) = (self.count(|s| s.sacked), self.count(|s| s.lost));
        self.nxt() - self.una + self.count(|s| s.retransmitted) - sacked - lost
    }
    fn remember(&mut self, seq: u32, now: Time, in_flight: u32) {
        let (delivery, lost) = (self.delivery, self.lost_total);
        let s = &mut self.segs[seq as usize];
        s.sent_at = now;
        s.delivery = delivery;
        s.ce = delivery.ce;
        s.then = LostSegment { tx_in_flight: in_flight, lost, app_limited: s.app_limited };
    }
    fn send(&mut self, now: Time, payload: u32) {
        if self.una == self.nxt() {
            self.delivery.first_sent_us = now.as_micros();
            self.delivery.at_us = now.as_micros();
        }
        self.segs.push(Seg {
            payload,
            sacked: false,
            lost: false,
            retransmitted: false,
            ever: false,
            app_limited: self.delivery.app_limited_until > 0,
            sent_at: now,
            delivery: self.delivery,
            then: LostSegment::default(),
            ce: 0,
        });
        self.remember(self.nxt() - 1, now, self.in_flight());
    }
    fn retransmit(&mut self, now: Time, seq: u32) {
        let s = &mut self.segs[seq as usize];
        (s.retransmitted, s.ever) = (true, true);
        self.sent_again += 1;
        self.remember(seq, now, self.in_flight());
        self.undo_retrans = self.undo_retrans.max(0) + 1;
    }
    fn probe(&mut self, now: Time, seq: u32) {
        self.segs[seq as usize].ever = true;
        self.sent_again += 1;
        self.remember(seq, now, self.in_flight() + 1);
    }
    fn next_lost(&self) -> Option<u32> {
        (self.una..self.nxt()).find(|&n| {
            let s = &self.segs[n as usize];
            s.lost && !s.retransmitted && !s.sacked
        })
    }
    fn lose(&mut self, seq: u32) {
        self.lost_total += 1;
        let s = &mut self.segs[seq as usize];
        if s.lost {
            s.retransmitted = false;
        }
        s.lost = true;
        self.told_lost.push(LostSegment { lost: self.lost_total - s.then.lost, ..s.then });
    }
    fn timeout(&mut self, now: Time) {
        let head = self.segs.get(self.una as usize).map(|s| s.sent_at);
        for seq in self.una..self.nxt() {
            let s = self.segs[seq as usize];
            let recent = Some(s.sent_at) != head && us(now, s.sent_at) < self.rack_rtt_us;
            if !s.sacked && !recent && (!s.lost || s.retransmitted) {
                self.lose(seq);
            }
        }
    }
    fn deliver(
        &mut self,
        now: Time,
        seq: u32,
        min_rtt_us: u32,
        original_came: bool,
        newest: &mut Option<u32>,
    ) {
        let s = self.segs[seq as usize];
        let rtt = us(now, s.sent_at);
        // Sooner than any answer to a retransmission can be: it answers the original.
        if !original_came && (!s.ever || rtt >= min_rtt_us) {
            self.rack = self.rack.max((s.sent_at, seq));
            self.rack_rtt_us = rtt;
            self.rack_news = true;
        }
        let sent = |n: u32| self.segs[n as usize].delivery.segments;
        if newest.is_none_or(|n| sent(seq) >= sent(n)) {
            *newest = Some(seq);
            self.delivery.first_sent_us = s.sent_at.as_micros();
        }
    }
    fn reordered(&mut self, low: u32, high: u32) {
        self.reordering_seen = true;
        self.reordering = self.reordering.max((high - low).min(REORDERING_MAX));
    }

    fn on_ack(&mut self, incoming: &Incoming, newest: &mut Option<u32>) -> Outcome {
        let &Incoming { at: now, ack, high_seq, min_rtt_us, echo, .. } = incoming;
        let mut outcome = Outcome { una_advanced: ack > self.una, ..Outcome::default() };
        let fack_before = self.fack.max(self.una);
        let mut blocks = incoming.blocks.as_slice().to_vec();
        if incoming.dsack {
            let b = blocks[0];
            self.duplicates += b.end - b.start;
            outcome.dsack = self.duplicates <= self.sent_again;
            if outcome.dsack {
                outcome.delivered += b.end - b.start;
                let of_probe = incoming.probe_end == Some(b.end);
                self.dsack_seen |= self.reordering_seen && !of_probe;
                outcome.probe_twice = of_probe;
            }
            if outcome.dsack && self.undo_marker.is_some_and(|m| b.end > m) && self.undo_retrans > 0
            {
                self.undo_retrans = (self.undo_retrans - i64::from(b.end - b.start)).max(0);
            }
            if b.start < ack {
                blocks.remove(0);
            }
        }
        blocks.sort_by_key(|b| b.start);
        let (mut late, mut first, mut last) = (u32::MAX, None, None);
        for b in blocks {
            for seq in b.start.max(self.una)..b.end.min(self.nxt()) {
                let s = self.segs[seq as usize];
                if s.sacked {
                    continue;
                }
                outcome.sacked = true;
                outcome.delivered += 1;
                outcome.delivered_bytes += s.payload;
                if !s.ever {
                    outcome.original_acked |= seq < high_seq;
                    first = first.or(Some(s.sent_at));
                    last = Some(s.sent_at);
                    if seq < self.fack {
                        late = late.min(seq);
                    }
                }
                self.deliver(now, seq, min_rtt_us, false, newest);
                let s = &mut self.segs[seq as usize];
                // What was given up after all, and its retransmission; one that an undo has left without a
                // cause is still under way.
                s.retransmitted &= !s.lost;
                s.lost = false;
                s.sacked = true;
            }
            self.fack = self.fack.max(b.end.min(self.nxt()));
        }
        if late < self.fack {
            self.reordered(late, self.fack);
        }
        let (mut late, mut first_acked, mut last_acked) = (u32::MAX, None, None);
        for seq in self.una..ack.max(self.una) {
            let s = self.segs[seq as usize];
            outcome.acked_bytes += s.payload;
            outcome.retransmission_acked |= s.ever;
            if !s.ever && !s.sacked {
                outcome.original_acked |= seq < high_seq;
                first_acked = first_acked.or(Some(s.sent_at));
                last_acked = Some(s.sent_at);
                late = late.min(seq);
            }
            if !s.sacked {
                outcome.delivered += 1;
                outcome.delivered_bytes += s.payload;
                let original_came = s.ever && echo.older_than(Stamp::of(s.sent_at)) > 0;
                self.deliver(now, seq, min_rtt_us, original_came, newest);
            }
        }
        self.una = self.una.max(ack);
        if late < fack_before {
            self.reordered(late, fack_before);
        }
        if outcome.retransmission_acked {
            (first_acked, last_acked) = (None, None);
        }
        outcome.rtt_oldest_us = first_acked.or(first).map(|t| us(now, t));
        outcome.rtt_newest_us = last.or(last_acked).map(|t| us(now, t));
        self.delivery.segments += outcome.delivered;
        self.delivery.bytes += u64::from(outcome.delivered_bytes);
        if outcome.delivered > 0 {
            self.delivery.at_us = now.as_micros();
        }
        outcome
    }

    fn widen(&mut self, newest: Option<u32>) {
        let Some(newest) = newest else { return };
        // Once per round trip.
        if self.segs[newest as usize].delivery.segments < self.widened_at {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.dsack_seen = false;
            self.reo_wnd_steps = (self.reo_wnd_steps + 1).min(255);
            self.reo_wnd_persist = 16;
            self.widened_at = self.delivery.segments;
        } else if self.reo_wnd_persist == 0 {
            self.reo_wnd_steps = 1;
        }
    }

    /// Gives up what was sent before the newest delivered segment by an RTT and the reordering window.
    fn detect(&mut self, now: Time, in_recovery: bool, min_us: u32, srtt_us: u32) -> Option<u32> {
        self.rack_news = false;
        let trusted = in_recovery || self.count(|s| s.sacked) >= self.reordering;
        let window = match trusted && !self.reordering_seen {
            true => 0,
            false => (min_us / 4 * self.reo_wnd_steps).min(srtt_us),
        };
        let allowed = self.rack_rtt_us + window;
        let mut wait = None;
        let mut in_order: Vec<u32> = (self.una..self.nxt()).collect();
        // First what was sent once, then what was sent again.
        in_order.sort_by_key(|&n| (self.segs[n as usize].ever, self.segs[n as usize].sent_at, n));
        for seq in in_order {
            let s = self.segs[seq as usize];
            let given_up = s.lost && !s.retransmitted;
            if s.sacked || given_up || (s.sent_at, seq) >= self.rack {
                continue;
            }
            match us(now, s.sent_at) {
                since if since >= allowed => self.lose(seq),
                since => wait = wait.max(Some(allowed - since)),
            }
        }
        wait
    }

    fn sample(&mut self, now: Time, newest: Option<u32>, min_us: u32) -> RateSample {
        let d = &mut self.delivery;
        if d.app_limited_until > 0 && d.segments > d.app_limited_until {
            d.app_limited_until = 0;
        }
        let Some(newest) = newest else { return RateSample::default() };
        let s = self.segs[newest as usize];
        let sending = (s.sent_at.as_micros() - s.delivery.first_sent_us) as u32;
        let interval = sending.max((now.as_micros() - s.delivery.at_us) as u32);
        RateSample {
            delivered: self.delivery.segments - s.delivery.segments,
            interval: Span::from_micros(if interval < min_us { 0 } else { interval.into() }),
            prior_delivered: s.delivery.segments,
            app_limited: s.app_limited,
            tx_in_flight: s.then.tx_in_flight,
            lost: self.lost_total - s.then.lost,
            delivered_ce: self.delivery.ce - s.ce,
        }
    }
}

/// The far end: what has arrived, in the words of an ACK.
#[derive(Default)]
struct Peer {
    next: u32,
    arrived: Vec<Block>,
}

impl Peer {
    /// The ACK for a segment: number, blocks with the newest first, and whether the first is a D-SACK.
    fn receive(&mut self, seq: u32) -> (u32, Vec<Block>, bool) {
        let mut blocks = Vec::new();
        let again = seq < self.next || self.arrived.iter().any(|b| b.contains(seq));
        if again {
            blocks.push(Block::new(seq, seq + 1));
        } else {
            let mut merged = Block::new(seq, seq + 1);
            self.arrived.retain(|b| {
                let touches = b.end == merged.start || b.start == merged.end;
                if touches {
                    merged = Block::new(b.start.min(merged.start), b.end.max(merged.end));
                }
                !touches
            });
            match merged.start == self.next {
                true => self.next = merged.end,
                false => self.arrived.insert(0, merged),
            }
        }
        blocks.extend(&self.arrived);
        blocks.truncate(MAX_BLOCKS);
        (self.next, blocks, again)
    }
}

#[derive(Clone, Debug)]
enum Op {
    Send {
        segments: u32,
        payload: u32,
    },
    /// Of the packets under way, one arrives, and its ACK is or is not lost.
    Arrive {
        which: usize,
        acked: bool,
    },
    Vanish {
        which: usize,
    },
    /// An ACK that others have overtaken, or the next.
    Acked {
        which: usize,
        ce: u32,
    },
    Detect {
        in_recovery: bool,
        force: bool,
    },
    Repair {
        most: u32,
    },
    Timeout,
    Probe,
    Undo,
    BeginRecovery,
    EndRecovery,
    AppLimited,
    Wait {
        us: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1_u32..12, 1_u32..1448).prop_map(|(segments, payload)| Op::Send { segments, payload }),
        14 => (prop_oneof![4 => Just(0), 1 => 0_usize..20], prop::bool::weighted(0.8))
            .prop_map(|(which, acked)| Op::Arrive { which, acked }),
        2 => (0_usize..20).prop_map(|which| Op::Vanish { which }),
        14 => (prop_oneof![6 => Just(0), 1 => 0_usize..6], 0_u32..2)
            .prop_map(|(which, ce)| Op::Acked { which, ce }),
        5 => (any::<bool>(), any::<bool>())
            .prop_map(|(in_recovery, force)| Op::Detect { in_recovery, force }),
        4 => (1_u32..6).prop_map(|most| Op::Repair { most }),
        1 => Just(Op::Timeout),
        1 => Just(Op::Probe),
        1 => Just(Op::Undo),
        1 => Just(Op::BeginRecovery),
        1 => Just(Op::EndRecovery),
        1 => Just(Op::AppLimited),
        6 => (1_u64..9000).prop_map(|us| Op::Wait { us }),
    ]
}

const MIN_RTT_US: u32 = 4000;
const SRTT_US: u32 = 9000;

/// One connection, told to both.
struct Connection {
    now: Time,
    board: Scoreboard,
    model: Model,
    high_seq: u32,
    probe_end: Option<u32>,
    peer: Peer,
    under_way: Vec<u32>,
    acks: Vec<(u32, Vec<Block>, bool)>,
    /// The board remembers what was in flight, lost and marked.
    histories: bool,
}

impl Connection {
    fn new(histories: bool) -> Connection {
        let mut board = Scoreboard::default();
        if histories {
            board.keep_histories();
        }
        let model = Model { reordering: REORDERING_DEFAULT, reo_wnd_steps: 1, ..Model::default() };
        Connection {
            now: Time(1_000_000),
            board,
            model,
            high_seq: 0,
            probe_end: None,
            peer: Peer::default(),
            under_way: Vec::new(),
            acks: Vec::new(),
            histories,
        }
    }

    fn step(&mut self, op: &Op) {
        self.now += Span::from_micros(13);
        let (board, model, now) = (&mut self.board, &mut self.model, self.now);
        match *op {
            Op::Send { segments, payload } => {
                for i in 0..segments {
                    let at = now + Span(u64::from(i) * 1000);
                    assert_eq!(board.sent(at, payload + i, 1), model.nxt());
                    model.send(at, payload + i);
                    self.under_way.push(model.nxt() - 1);
                }
            }
            Op::Arrive { which, acked } if !self.under_way.is_empty() => {
                let seq = self.under_way.remove(which % self.under_way.len());
                let ack = self.peer.receive(seq);
                if acked {
                    self.acks.push(ack);
                }
            }
            Op::Vanish { which } if !self.under_way.is_empty() => {
                self.under_way.remove(which % self.under_way.len());
            }
            Op::Acked { which, ce } if !self.acks.is_empty() => {
                let ack = self.acks.remove(which % self.acks.len());
                self.take_ack(&ack, ce);
            }
            Op::Detect { in_recovery, force } => {
                let wait = board.detect_loss(now, in_recovery, MIN_RTT_US, SRTT_US, force);
                let expected = (model.rack_news || force)
                    .then(|| model.detect(now, in_recovery, MIN_RTT_US, SRTT_US))
                    .flatten();
                assert_eq!(wait, expected.map(|us| Span::from_micros(u64::from(us))));
            }
            Op::Repair { most } => {
                for _ in 0..most {
                    let Some(seq) = board.next_lost() else { break };
                    assert_eq!(Some(seq), model.next_lost());
                    board.retransmitted(now, seq, 1);
                    model.retransmit(now, seq);
                    self.under_way.push(seq);
                    self.probe_end = Some(seq + 1);
                }
            }
            Op::Timeout => {
                board.mark_lost_by_timeout(now);
                model.timeout(now);
            }
            Op::Probe => {
                // The last segment, if nothing is known of it.
                if let Some(s) = model.out().last()
                    && !s.sacked
                    && !s.lost
                    && !s.ever
                {
                    let seq = model.nxt() - 1;
                    board.probed(now, seq);
                    model.probe(now, seq);
                    self.under_way.push(seq);
                }
            }
            // Where retransmissions were given up, Linux's RACK has lost sight of them, too.
            Op::Undo if model.count(|s| s.retransmitted || s.lost && s.ever) == 0 => {
                board.unmark_lost();
                let una = model.una as usize;
                model.segs[una..].iter_mut().for_each(|s| s.lost = false);
                model.rack_news = true;
            }
            Op::BeginRecovery => {
                self.high_seq = model.nxt();
                model.undo_marker = Some(model.una);
                model.undo_retrans = -1;
                board.undo.begin(model.una, 0);
            }
            Op::EndRecovery => {
                board.rack.recovery_ended();
                model.reo_wnd_persist = model.reo_wnd_persist.saturating_sub(1);
            }
            Op::AppLimited => {
                let until = (model.delivery.segments + model.in_flight()).max(1);
                model.delivery.app_limited_until = until;
                board.delivery.app_limited_until = until;
            }
            Op::Wait { us } => self.now = now + Span::from_micros(us),
            _ => {}
        }
        self.compare();
    }

    fn take_ack(&mut self, (ack, blocks, dsack): &(u32, Vec<Block>, bool), ce: u32) {
        let (board, model, now) = (&mut self.board, &mut self.model, self.now);
        let mut sacks = Blocks::default();
        blocks.iter().for_each(|b| assert!(sacks.push(*b)));
        // Of one that was overtaken, only the blocks count.
        let ack = (*ack).max(model.una);
        // Before some retransmissions, and after others.
        let echo = Stamp::of(Time(now.0 / 4 * 3));
        let incoming = Incoming {
            at: now,
            ack,
            blocks: &sacks,
            dsack: *dsack,
            echo,
            high_seq: self.high_seq,
            min_rtt_us: MIN_RTT_US,
            probe_end: self.probe_end,
        };
        let out = board.on_ack(&incoming);
        let mut newest = None;
        let outcome = model.on_ack(&incoming, &mut newest);
        let got = Outcome {
            una_advanced: out.una_advanced,
            sacked: out.sacked,
            original_acked: out.original_acked,
            retransmission_acked: out.retransmission_acked,
            dsack: out.dsack,
            probe_twice: out.probe_twice,
            delivered: out.delivered,
            delivered_bytes: out.delivered_bytes,
            acked_bytes: out.acked_bytes,
            rtt_oldest_us: out.rtt_oldest_us,
            rtt_newest_us: out.rtt_newest_us,
        };
        assert_eq!(got, outcome);
        board.update_reordering_window(&out);
        model.widen(newest);
        model.delivery.ce += ce;
        board.delivery.ce += ce;
        board.delivery.update_limit();
        let sample = board.rate_sample(now, &out, MIN_RTT_US);
        let mut expected = model.sample(now, newest, MIN_RTT_US);
        if !self.histories {
            (expected.tx_in_flight, expected.lost, expected.delivered_ce) = (0, 0, 0);
        }
        assert_eq!(format!("{sample:?}"), format!("{expected:?}"));
    }

    fn compare(&mut self) {
        let (board, model) = (&mut self.board, &mut self.model);
        assert_eq!((board.una, board.nxt), (model.una, model.nxt()));
        assert_eq!(board.packets_out(), model.out().count() as u32);
        let counts = [board.sacked_out, board.lost_out, board.retrans_out, board.in_flight()];
        let expected = [
            model.count(|s| s.sacked),
            model.count(|s| s.lost),
            model.count(|s| s.retransmitted),
            model.in_flight(),
        ];
        assert_eq!(counts, expected, "SACKed, lost, retransmitted, in flight");
        assert_eq!(board.lost_total, u64::from(model.lost_total));
        assert_eq!(format!("{:?}", board.delivery), format!("{:?}", model.delivery));
        assert_eq!(board.next_lost(), model.next_lost());
        assert_eq!(board.head_sent_at(), model.out().next().map(|s| s.sent_at));
        let head = model.out().next().is_some_and(|s| s.ever);
        assert_eq!(board.any_retransmission_out(), counts[2] > 0 || head);
        assert_eq!(board.rack.reordering, model.reordering);
        let is_proven = model.undo_marker.is_some() && model.undo_retrans == 0;
        assert_eq!(board.undo.is_proven(), is_proven);
        for seq in model.una..model.nxt() {
            assert_eq!(board.payload(seq), model.segs[seq as usize].payload);
        }
        let mut lost = Vec::new();
        board.take_lost(|l| lost.push(l));
        let expected: Vec<_> = model.told_lost.drain(..).filter(|_| self.histories).collect();
        assert_eq!(format!("{lost:?}"), format!("{expected:?}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_connection_is_what_its_segments_are(
        histories in any::<bool>(),
        ops in prop::collection::vec(op(), 1..250),
    ) {
        let mut connection = Connection::new(histories);
        for op in &ops {
            connection.step(op);
        }
    }
}
