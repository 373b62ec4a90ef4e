//! The receiving end: reassembly, SACK, delayed and quick ACKs, ECN feedback.

mod client;
mod duplex;
mod segment_size;
mod window;

use std::hint::select_unpredictable;

use self::client::Client;
use self::segment_size::SegmentSize;
use self::window::WindowTuning;
use super::ecn::{self, AccEcnReceiver, EcnMode};
use super::wheel;
use crate::ecn::{Ecn, EcnSupport};
use crate::element::{End, Outbox};
use crate::packet::{
    ACK_FRAME, Flags, FlowId, GroupId, PAWS_WINDOW, Packet, SYN_FRAME, Stamp, TcpBits,
};
use crate::prefetch;
use crate::sack::{Block, MAX_BLOCKS};
use crate::time::{Span, Time};

/// Delayed ACK timer: lower and upper bound (Linux `TCP_DELACK_MIN`, `TCP_DELACK_MAX`).
const DELACK_MIN: Span = Span::from_millis(40);
const DELACK_MAX: Span = Span::from_millis(200);
/// Segments acknowledged one by one at the start of a connection (`TCP_MAX_QUICKACKS`).
const QUICKACKS: u32 = 16;
/// Duplicate ACKs sent at once before SACK ACKs are compressed.
const DUP_ACKS: u32 = 3;
/// ACK compression: 33 % of the RTT, at most 1 ms, at most 44 ACKs held back (Linux
/// `tcp_comp_sack_*`).
const COMPRESS_PERCENT: u64 = 33;
const COMPRESS_MAX: Span = Span::from_millis(1);
/// An idle host's timer uses all of its slack.
const COMPRESS_SLACK: Span = Span::from_micros(10);
const COMPRESS_COUNT: u32 = 44;
/// A compressed ACK does not wait for a change beyond so many of its blocks, which might not be told
/// otherwise (Linux `TCP_SACK_BLOCKS_EXPECTED`).
const BLOCKS_EXPECTED: usize = 2;

/// How a receiver with RFC 3168 feedback echoes marks.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Echo {
    /// From the first mark until the sender says CWR (RFC 3168, 6.1.3).
    UntilCwr,
    /// Exactly the marked segments: where marks begin or end, an ACK of the run before leaves at
    /// once (RFC 8257, 3.2). ACKs are ECT(0).
    Runs,
}

/// The ECN fields of what a receiver sends.
#[derive(Copy, Clone, Debug)]
pub struct Fields {
    /// ACKs with AccECN, and those of runs.
    pub acks: Ecn,
    /// SYN and SYN/ACK where ECN is asked for.
    pub handshake: Ecn,
}

/// The receiver of one flow.
#[derive(Clone, Debug)]
pub struct Receiver {
    pub(super) flow: FlowId,
    pub(super) group: GroupId,
    pub(super) support: EcnSupport,
    pub(super) mode: EcnMode,
    /// Codepoint of ACKs in AccECN mode.
    fields: Fields,
    pub(super) echo_rule: Echo,
    next: u32,
    /// `next` when the last ACK was sent, and the bytes that came in sequence since.
    acked: u32,
    unacked: u32,
    segment_size: SegmentSize,
    /// Timestamp to echo: the newest of what was in sequence (TS.Recent of RFC 7323).
    pub(super) echo: Time,
    /// Out-of-order data, ascending, and the blocks to report, most recent first.
    ranges: Vec<Block>,
    recent: Vec<Block>,
    duplicate: Option<Block>,
    fin: Option<u32>,
    /// Nothing is missing, repeated or near its end, and no marks are echoed run by run.
    is_undisturbed: bool,
    /// When everything up to the FIN had arrived.
    pub completed_at: Option<Time>,
    quick: u32,
    ato: Span,
    last_data: Option<Time>,
    ack_at: Time,
    /// When an ACK was delayed, and for how long, if `ack_at` is not yet on a tick.
    delayed: Option<(Time, Span)>,
    dup_acks: u32,
    dup_ack_next: u32,
    compressed: u32,
    compress_until: Time,
    pub(super) rtt: Span,
    handshake_sent: Time,
    /// RFC 3168: echo until CWR.
    demand_cwr: bool,
    /// SCE: tell it with the next ACK; the newest ECT segment was marked.
    esce: bool,
    last_sce: bool,
    seen_ect: bool,
    counters: AccEcnReceiver,
    /// It tells of them in the AccECN option, too; bytes for options.
    has_option: bool,
    room: u32,
    ack_now: bool,
    window: WindowTuning,
    pub received_bytes: u64,
    /// Full segments that may wait for an ACK.
    waiting: u32,
    client: Option<Box<Client>>,
    /// When the client asks again.
    pub(super) client_at: Time,
}

impl Receiver {
    pub fn new(
        flow: FlowId,
        group: GroupId,
        support: EcnSupport,
        fields: Fields,
        echo_rule: Echo,
    ) -> Receiver {
        Receiver {
            flow,
            group,
            support,
            mode: EcnMode::Off,
            fields,
            echo_rule,
            next: 0,
            acked: 0,
            unacked: 0,
            segment_size: SegmentSize::new(),
            echo: Time::ZERO,
            ranges: Vec::new(),
            recent: Vec::new(),
            duplicate: None,
            fin: None,
            is_undisturbed: false,
            completed_at: None,
            quick: 0,
            ato: Span::ZERO,
            last_data: None,
            ack_at: Time::NEVER,
            delayed: None,
            dup_acks: 0,
            dup_ack_next: 0,
            compressed: 0,
            compress_until: Time::NEVER,
            rtt: Span::ZERO,
            handshake_sent: Time::ZERO,
            demand_cwr: false,
            esce: false,
            last_sce: false,
            seen_ect: false,
            counters: AccEcnReceiver::default(),
            has_option: true,
            room: ecn::ROOM,
            ack_now: false,
            window: WindowTuning::new(),
            received_bytes: 0,
            waiting: 1,
            client: None,
            client_at: Time::NEVER,
        }
    }

    /// Acknowledges at the latest after so many segments.
    pub fn ack_every(&mut self, segments: u32) {
        self.waiting = segments - 1;
    }
    #[inline(always)]
    fn is_enough(&self) -> bool {
        self.unacked > self.segment_size.estimate * self.waiting
    }

    /// Segments before this one have all arrived.
    #[inline]
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Fetches into the cache what it keeps while something is missing.
    pub fn fetch_gaps(&self) {
        self.ranges.first().into_iter().for_each(prefetch::lines);
        self.recent.first().into_iter().for_each(prefetch::lines);
    }

    /// Of the path, as far as it knows.
    pub fn rtt(&self) -> Span {
        self.rtt
    }

    pub fn group(&self) -> GroupId {
        self.group
    }

    /// Its ACKs tell of SCE marks.
    pub fn echoes_sce(&self) -> bool {
        self.support == EcnSupport::Sce && self.mode == EcnMode::Classic
    }

    #[cold]
    fn on_handshake(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        if !pkt.flags.has(Flags::SYN) {
            // The third ACK.
            self.rtt = now.since(self.handshake_sent);
        } else if self.client.is_some() {
            self.on_answer(now, pkt, out);
        } else {
            self.on_syn(now, pkt, out);
        }
    }

    fn on_syn(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        let ect_syn = self.fields.handshake != Ecn::NotEct;
        let (mode, bits) = ecn::answer_syn(self.support, ect_syn, pkt.bits, pkt.ecn.get());
        self.mode = mode;
        self.handshake_sent = now;
        self.echo = self.echo.max(pkt.stamp);
        let flags = Flags::SYN.with(Flags::ACK);
        let field = if mode == EcnMode::Off { Ecn::NotEct } else { self.fields.handshake };
        let len = SYN_FRAME + mode.handshake_option();
        let mut reply = Packet::new(self.flow, self.group, flags, len, field);
        reply.bits = bits;
        reply.stamp = pkt.stamp;
        reply.tsval = Stamp::of(now);
        out.push(reply);
    }

    /// The next segment, not older than what came before, while nothing disturbs: what
    /// [`Self::on_data`] comes down to then.
    #[inline(always)]
    fn on_next(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        self.client_at = Time::NEVER;
        self.count_ecn(pkt);
        self.echo = select_unpredictable(pkt.seq <= self.acked, pkt.stamp, self.echo);
        self.next += 1;
        self.unacked += u32::from(pkt.payload);
        self.received_bytes += u64::from(pkt.payload);
        let is_small = self.segment_size.measure(pkt);
        self.tune_delayed_ack(now);
        self.sample_rtt(now, pkt, self.received_bytes);
        if self.window.grow(1, 1) {
            self.quick |= 1;
        }
        self.window.on_read(now, self.received_bytes, 0, 0);
        self.ack_now |= is_small || pkt.bits.has(TcpBits::PSH);
        let due = self.ack_now || self.is_enough() || self.quick > 0;
        if due || self.delay_ack(now) {
            self.ack(now, out);
        }
    }

    #[inline(never)]
    fn on_data(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        if self.rtt == Span::ZERO {
            // The third ACK was lost.
            self.rtt = now.since(self.handshake_sent);
        }
        self.take_data(now, pkt, out);
        self.is_undisturbed = self.ranges.is_empty()
            && self.recent.is_empty()
            && self.duplicate.is_none()
            && self.fin.is_none()
            && self.echo_rule == Echo::UntilCwr
            && self.support != EcnSupport::Sce;
    }

    fn take_data(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        self.client_at = Time::NEVER;
        if self.is_unacceptable(pkt) {
            self.refuse(now, pkt, out);
            return;
        }
        if self.echoes_sce() {
            self.note_sce(now, pkt.ecn.get(), out);
        }
        if self.mode == EcnMode::Classic && self.echo_rule == Echo::Runs {
            self.echo_run(now, pkt, out);
        } else {
            self.count_ecn(pkt);
        }
        if pkt.flags.has(Flags::FIN) {
            self.fin = Some(pkt.seq);
        }
        let in_order = pkt.seq == self.next;
        if pkt.seq <= self.acked {
            self.echo = self.echo.max(pkt.stamp);
        }
        if in_order {
            self.next += 1;
            self.received_bytes += u64::from(pkt.payload);
            let first = self.next;
            if !self.ranges.is_empty() {
                self.close_gap();
            }
            self.unacked += (self.next - first + 1) * u32::from(pkt.payload);
            let queued = u64::from(self.next - first) * u64::from(pkt.payload);
            let beyond = u64::from(self.out_of_order()) * u64::from(pkt.payload);
            let read = self.received_bytes.saturating_sub(queued + beyond);
            let mut is_small = false;
            if pkt.payload > 0 {
                is_small = self.segment_size.measure(pkt);
                self.tune_delayed_ack(now);
                self.sample_rtt(now, pkt, read);
            }
            self.open_window(self.next - first + 1);
            self.window.on_read(now, read, queued, self.span(pkt));
            // The application reads at once, and reading acknowledges what is small or pushed (Linux
            // `tcp_cleanup_rbuf`).
            self.ack_now |= is_small || pkt.bits.has(TcpBits::PSH);
            if let Some(fin) = self.fin
                && self.next > fin
                && self.completed_at.is_none()
            {
                // A FIN of its own may come later than the last byte.
                self.completed_at = self.last_data.or(Some(now));
                self.ack_now = true;
            }
        } else if pkt.seq < self.next || self.has(pkt.seq) {
            self.note_duplicate(pkt.seq);
            self.ack_now = true;
        } else {
            self.received_bytes += u64::from(pkt.payload);
            self.segment_size.measure(pkt);
            if self.compressed > 0 && self.crowds_out(pkt.seq) {
                self.ack(now, out);
            }
            self.keep(pkt.seq);
            self.open_window(0);
            self.window.on_gap(self.span(pkt));
        }
        if self.must_ack(now, in_order) {
            self.ack(now, out);
        }
    }

    /// What validation discards before anything is read from it, marks included (Linux
    /// `tcp_validate_incoming`): what the last ACK had covered, and what PAWS takes for data of long ago
    /// (RFC 7323, 5.3). A retransmission that overtakes data sent before it, and is acknowledged, makes
    /// it that: the data has to be sent again.
    #[inline]
    fn is_unacceptable(&self, pkt: &Packet) -> bool {
        pkt.seq + 1 < self.acked
            || (pkt.stamp < self.echo
                && Stamp::of(pkt.stamp).older_than(Stamp::of(self.echo)) > PAWS_WINDOW)
    }

    /// The answer to it: an ACK at once, with a D-SACK if the data was here before.
    #[cold]
    fn refuse(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        if pkt.seq < self.next {
            self.note_duplicate(pkt.seq);
        }
        self.ack(now, out);
    }

    fn note_duplicate(&mut self, seq: u32) {
        self.duplicate = Some(Block::new(seq, seq + 1));
        if seq < self.next {
            self.ack_quickly(QUICKACKS);
        }
    }

    /// DCTCP's two states (RFC 8257, 3.2): the last segment was marked, or it was not.
    fn echo_run(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        if pkt.bits.has(TcpBits::CWR) {
            self.ack_now = true;
        }
        let marked = pkt.ecn == Ecn::Ce;
        if pkt.ecn == Ecn::NotEct || marked == self.demand_cwr {
            return;
        }
        if self.ack_at != Time::NEVER {
            self.ack(now, out);
        }
        self.demand_cwr = marked;
        self.ack_now = true;
    }

    /// SCE marks: where they begin or end, a delayed ACK of the run before leaves first, and the next
    /// one is not delayed. CE and Not-ECT say nothing of SCE.
    #[inline]
    fn note_sce(&mut self, now: Time, field: Ecn, out: &mut Outbox) {
        let marked = match field {
            Ecn::Ect1 => true,
            Ecn::Ect0 => false,
            Ecn::Ce | Ecn::NotEct => return,
        };
        if marked != self.last_sce && self.ack_at != Time::NEVER {
            self.ack(now, out);
            self.ack_quickly(1);
        }
        self.last_sce = marked;
        self.esce = marked;
    }

    #[inline(always)]
    fn count_ecn(&mut self, pkt: &Packet) {
        match self.mode {
            EcnMode::Off => {}
            EcnMode::AccEcn => {
                // RFC 9768, 3.2.2.5.1: a change is reported at once.
                let is_new = self.counters.count(pkt.ecn.get(), pkt.payload.into());
                self.ack_now |= is_new | (self.counters.pending_ce >= ecn::MAX_PENDING_CE);
            }
            EcnMode::Classic => {
                if pkt.bits.has(TcpBits::CWR) {
                    self.demand_cwr = false;
                    // Its window may be down to one segment.
                    self.ack_now = true;
                }
                match pkt.ecn.get() {
                    Ecn::Ce => {
                        // Better not to delay ACKs: the sender's window may be very small.
                        if !self.demand_cwr {
                            self.ack_quickly(2);
                        }
                        self.demand_cwr = true;
                        self.seen_ect = true;
                    }
                    // Without ECT after ECT: probably a retransmission.
                    Ecn::NotEct if self.seen_ect => self.ack_quickly(2),
                    Ecn::NotEct => {}
                    Ecn::Ect0 | Ecn::Ect1 => self.seen_ect = true,
                }
            }
        }
    }

    /// The next so many segments are acknowledged one by one (Linux `tcp_enter_quickack_mode`).
    fn ack_quickly(&mut self, segments: u32) {
        self.quick = self.quick.max(segments);
        self.ato = DELACK_MIN;
    }

    /// By the timestamps of full segments (Linux `tcp_rcv_rtt_measure_ts`), and by the time that `received`
    /// bytes took.
    #[inline(always)]
    fn sample_rtt(&mut self, now: Time, pkt: &Packet, received: u64) {
        if u32::from(pkt.payload) >= self.segment_size.estimate {
            self.window.sample_rtt(now, pkt.tsval);
        }
        self.window.await_window(now, received);
    }

    /// While the window opens, segments are acknowledged one by one. `fresh` segments have come into sequence.
    #[inline]
    fn open_window(&mut self, fresh: u32) {
        if self.window.is_wide() {
            return;
        }
        let segments = fresh + self.out_of_order();
        let blocks = self.ranges.len() + usize::from(fresh > 0);
        if self.window.grow(segments.into(), blocks as u64) {
            self.quick |= 1;
        }
    }

    /// Segments that wait for those before them.
    fn out_of_order(&self) -> u32 {
        self.ranges.iter().map(|r| r.end - r.start).sum()
    }

    /// How far these reach beyond what is in sequence, in bytes of segments like this one.
    fn span(&self, pkt: &Packet) -> u64 {
        let end = self.ranges.last().map_or(self.next, |r| r.end);
        u64::from(end - self.next) * u64::from(pkt.payload)
    }

    /// The delayed ACK timeout follows the spacing of data.
    #[inline(always)]
    fn tune_delayed_ack(&mut self, now: Time) {
        match self.last_data {
            None => {
                self.quick = QUICKACKS;
                self.ato = DELACK_MIN;
            }
            // Nearly always: the shortest timeout, which data close together do not change.
            Some(last) if self.ato == DELACK_MIN && now <= last + DELACK_MIN / 2 => {}
            Some(last) => self.follow_spacing(now, last),
        }
        self.last_data = Some(now);
    }

    /// In ticks (Linux `tcp_event_data_recv`).
    fn follow_spacing(&mut self, now: Time, last: Time) {
        let gap = wheel::tick_of(now).since(wheel::tick_of(last));
        if gap <= DELACK_MIN / 2 {
            self.ato = wheel::whole_ticks(self.ato / 2) + DELACK_MIN / 2;
        } else if gap < self.ato {
            self.ato = (wheel::whole_ticks(self.ato / 2) + gap).min(DELACK_MAX);
        } else if gap > wheel::ticks(Span::from_millis(200) + self.rtt) {
            self.quick = self.quick.max(QUICKACKS);
        }
    }

    /// Is an ACK due now? Otherwise sets the timer for it.
    #[inline]
    fn must_ack(&mut self, now: Time, in_order: bool) -> bool {
        if self.ack_now || self.is_enough() || self.quick > 0 {
            return true;
        }
        if self.ranges.is_empty() {
            return in_order && self.delay_ack(now);
        }
        // Out of order: three duplicate ACKs at once, then compressed.
        if self.dup_ack_next != self.next {
            self.dup_ack_next = self.next;
            self.dup_acks = 0;
        }
        if self.dup_acks < DUP_ACKS {
            self.dup_acks += 1;
            return true;
        }
        self.compressed += 1;
        if self.compressed >= COMPRESS_COUNT {
            return true;
        }
        if self.compress_until == Time::NEVER {
            self.compress_until = now + self.compression();
        }
        false
    }

    /// How long ACKs are held back: by the lesser of the RTTs as a receiver and of the handshake.
    fn compression(&self) -> Span {
        let rtt8 = self.window.rtt8.min(self.rtt.as_micros() << 3);
        Span((rtt8 + rtt8 / 4) * COMPRESS_PERCENT).min(COMPRESS_MAX) + COMPRESS_SLACK
    }

    /// Sets the timer; whether it was to come so soon that the ACK is sent instead (Linux `tcp_send_delayed_ack`).
    #[inline(always)]
    fn delay_ack(&mut self, now: Time) -> bool {
        let wait = if self.ato > DELACK_MIN { self.longer_delay() } else { self.ato };
        if self.ack_at != Time::NEVER {
            return self.advance_ack(now, wait);
        }
        // Not before this; on which tick of the kernel is looked up when it comes to that, which is
        // rare.
        self.delayed = Some((now, wait));
        self.ack_at = now + wait;
        false
    }

    #[cold]
    fn longer_delay(&self) -> Span {
        let max = if self.rtt > Span::ZERO { self.rtt.max(DELACK_MIN) } else { DELACK_MAX };
        self.ato.min(max).min(DELACK_MAX)
    }

    #[cold]
    fn advance_ack(&mut self, now: Time, wait: Span) -> bool {
        self.settle_delay();
        if self.ack_at <= wheel::expiry(now, wheel::whole_ticks(wait / 4)) {
            return true;
        }
        self.ack_at = self.ack_at.min(wheel::expiry(now, wait));
        false
    }

    fn settle_delay(&mut self) {
        if let Some((since, wait)) = self.delayed.take() {
            self.ack_at = wheel::expiry(since, wait);
        }
    }

    #[inline(always)]
    fn ack(&mut self, now: Time, out: &mut Outbox) {
        self.note_ack();
        let mut p = Packet::new(self.flow, self.group, Flags::ACK, ACK_FRAME, Ecn::NotEct);
        p.seq = self.next;
        p.stamp = self.echo;
        p.tsval = Stamp::of(now);
        p.window = self.window.offered();
        let mut room = MAX_BLOCKS;
        match self.mode {
            EcnMode::Off => {}
            EcnMode::Classic => {
                if self.demand_cwr {
                    p.bits = TcpBits::ECE;
                }
                // Told once: the next ACK tells it again if there is another mark.
                if std::mem::take(&mut self.esce) {
                    p.bits = p.bits.with(TcpBits::ESCE);
                }
                if self.echo_rule == Echo::Runs {
                    p.ecn = Ecn::Ect0.into();
                }
            }
            EcnMode::AccEcn => {
                self.counters.pending_ce = 0;
                p.bits = self.counters.ace();
                p.ecn = self.fields.acks.into();
                let (option, left) = self.fit_option();
                if option > 0 {
                    p.ecn_bytes = self.counters.option();
                    p.flags = p.flags.with(Flags::ACCECN_OPTION);
                    p.frame_len += option as u16;
                }
                room = left;
            }
        }
        out.push(p);
        if self.duplicate.is_some() || !self.recent.is_empty() {
            self.add_blocks(room, out);
        }
    }

    /// An ACK leaves, alone or with data.
    #[inline(always)]
    fn note_ack(&mut self) {
        self.acked = self.next;
        self.unacked = 0;
        self.ack_at = Time::NEVER;
        self.compress_until = Time::NEVER;
        self.compressed = 0;
        self.ack_now = false;
        if self.quick == 1 {
            self.ato = DELACK_MIN;
        }
        self.quick = self.quick.saturating_sub(1);
    }

    /// Length of the AccECN option, and room for blocks beside it.
    #[inline(always)]
    fn fit_option(&mut self) -> (u32, usize) {
        let blocks = usize::from(self.duplicate.is_some()) + self.recent.len();
        match self.has_option {
            true => self.counters.fit_option(blocks.min(MAX_BLOCKS), self.room),
            false => (0, MAX_BLOCKS),
        }
    }

    /// To the ACK that was pushed last, up to `room` blocks. Apart, so that other ACKs are made in their place.
    #[inline(never)]
    fn add_blocks(&mut self, room: usize, out: &mut Outbox) {
        let Some(ack) = out.packets.last_mut() else { return };
        let (slot, blocks) = out.sacks.place();
        if let Some(d) = self.duplicate.take() {
            blocks.push(d);
            ack.flags = ack.flags.with(Flags::DSACK);
        }
        for &b in &self.recent {
            if blocks.as_slice().len() == room {
                break;
            }
            blocks.push(b);
        }
        ack.frame_len += 4 + 8 * blocks.as_slice().len() as u16;
        ack.set_sack(slot);
    }

    /// It has this segment, out of order.
    fn has(&self, seq: u32) -> bool {
        let may_have = self.ranges.last().is_some_and(|r| seq < r.end);
        may_have && self.ranges.iter().any(|r| r.contains(seq))
    }

    /// Will this segment be in none of the first blocks as they are?
    fn crowds_out(&self, seq: u32) -> bool {
        let touches = |r: &Block| r.start <= seq + 1 && seq <= r.end;
        self.recent.len() >= BLOCKS_EXPECTED && !self.recent[..BLOCKS_EXPECTED].iter().any(touches)
    }

    /// Stores an out-of-order segment.
    fn keep(&mut self, seq: u32) {
        let Some(last) = self.ranges.last_mut().filter(|r| r.end >= seq) else {
            return self.keep_beyond(Block::new(seq, seq + 1));
        };
        // Most often it continues the block to report first.
        if let Some(first) = self.recent.first_mut().filter(|r| r.end == seq)
            && last.end == seq
        {
            last.end += 1;
            first.end += 1;
            return;
        }
        let at = self.ranges.partition_point(|r| r.end < seq);
        let mut merged = Block::new(seq, seq + 1);
        let mut last = at;
        while last < self.ranges.len() && self.ranges[last].start <= merged.end {
            merged.start = merged.start.min(self.ranges[last].start);
            merged.end = merged.end.max(self.ranges[last].end);
            last += 1;
        }
        self.ranges.splice(at..last, [merged]);
        self.recent.retain(|r| r.end < merged.start || r.start > merged.end);
        self.report_first(merged);
    }

    /// The same of one that touches nothing and is higher than all.
    fn keep_beyond(&mut self, block: Block) {
        self.ranges.push(block);
        self.report_first(block);
    }

    fn report_first(&mut self, block: Block) {
        self.recent.truncate(MAX_BLOCKS);
        self.recent.insert(0, block);
    }

    /// In-order data has arrived; takes what now follows from the store. Filling a gap is reported
    /// at once (RFC 5681, 4.2).
    fn close_gap(&mut self) {
        while let Some(first) = self.ranges.first().copied()
            && first.start <= self.next
        {
            self.next = self.next.max(first.end);
            self.ranges.remove(0);
        }
        let next = self.next;
        self.recent.retain(|r| r.end > next);
        self.ack_now = true;
    }
}

impl End for Receiver {
    #[inline]
    fn deadline(&self) -> Time {
        self.ack_at.min(self.compress_until).min(self.client_at)
    }

    /// The delayed or compressed ACK is due.
    fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        if now >= self.client_at {
            self.ask_again(now, out);
        }
        if now >= self.ack_at {
            self.settle_delay();
            if now >= self.ack_at {
                // Nothing came that it could have gone with (Linux `tcp_delack_timer_handler`).
                self.ato = (self.ato * 2).min(DELACK_MAX);
            }
        }
        if now >= self.ack_at.min(self.compress_until) {
            self.ack(now, out);
        }
    }

    /// A packet of the flow arrives.
    #[inline(always)]
    fn on_packet(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        if self.is_undisturbed
            && pkt.flags.without(Flags::WARMUP.with(Flags::COPIED)) == Flags::DATA
            && pkt.seq == self.next
            && pkt.stamp >= self.echo
        {
            self.on_next(now, pkt, out);
        } else if pkt.flags.has(Flags::DATA) {
            self.on_data(now, pkt, out);
        } else {
            self.on_handshake(now, pkt, out);
        }
    }
}

#[cfg(test)]
mod tests;
