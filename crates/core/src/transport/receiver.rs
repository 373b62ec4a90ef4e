//! The receiving end: reassembly, SACK, delayed and quick ACKs, ECN feedback.

mod client;
mod segment_size;

use self::client::Client;
use self::segment_size::SegmentSize;
use super::ecn::{self, AccEcnReceiver, EcnMode};
use super::wheel;
use crate::ecn::{Ecn, EcnSupport};
use crate::element::{End, Outbox};
use crate::packet::{
    ACK_FRAME, Flags, FlowId, GroupId, PAWS_WINDOW, Packet, SYN_FRAME, Stamp, TcpBits,
};
use crate::sack::{Block, Blocks, MAX_BLOCKS};
use crate::time::{Span, Time};

/// Delayed ACK timer: lower and upper bound (Linux `TCP_DELACK_MIN`, `TCP_DELACK_MAX`).
const DELACK_MIN: Span = Span::from_millis(40);
const DELACK_MAX: Span = Span::from_millis(200);
const ATO_CEILING: Span = Span::from_millis(500);
/// Segments acknowledged one by one at the start of a connection (`TCP_MAX_QUICKACKS`).
const QUICKACKS: u32 = 16;
/// Duplicate ACKs sent at once before SACK ACKs are compressed.
const DUP_ACKS: u32 = 3;
/// ACK compression: a third of the RTT, at most 1 ms, at most 44 ACKs held back (Linux
/// `tcp_comp_sack_*`).
const COMPRESS_MAX: Span = Span::from_millis(1);
const COMPRESS_COUNT: u32 = 44;
/// A compressed ACK does not wait for a change beyond so many of its blocks, which might not be told
/// otherwise (Linux `TCP_SACK_BLOCKS_EXPECTED`).
const BLOCKS_EXPECTED: usize = 2;

/// Receive buffer at the start (`tcp_rmem`).
const BUFFER: u64 = 131_072;
const SEGMENT: u64 = 1_448;
/// Memory for what is not payload: `struct sk_buff` and a small head, with 64 bits. What waits out of sequence
/// is merged block by block and has it once.
const OVERHEAD: u64 = 896;
/// Window per memory (Linux `scaling_ratio`), in 256ths.
const RATIO: u64 = SEGMENT * 256 / (SEGMENT + OVERHEAD);
/// First window offered.
const FIRST_WINDOW: u64 = 64_088;
/// What the application is first expected to read per round trip: ten segments.
const FIRST_SPACE: u64 = 10 * SEGMENT;

/// Size of the receive window (Linux's dynamic right-sizing). The window itself never binds here,
/// but while it opens, every segment is acknowledged at once: that is, in most of slow start. And the
/// sender pushes by it.
#[derive(Clone, Debug)]
struct WindowTuning {
    /// Memory, and the window that has been opened of it so far, bytes.
    buffer: u64,
    open: u64,
    /// Read by the application in the best round trip, and where and when this one began.
    space: u64,
    read_before: u64,
    since: Time,
    /// RTT in eighths of a microsecond, and the timestamp of which it was sampled last.
    rtt8: u64,
    echoed: Stamp,
}

impl WindowTuning {
    fn new() -> WindowTuning {
        WindowTuning {
            buffer: BUFFER,
            open: FIRST_WINDOW,
            space: FIRST_SPACE,
            read_before: 0,
            since: Time::ZERO,
            rtt8: 0,
            echoed: Stamp::default(),
        }
    }

    /// Samples the RTT by what a segment echoes of this side's timestamps, once of each; less than a
    /// millisecond is no sample (Linux `tcp_rcv_rtt_measure_ts`, `tcp_rcv_rtt_update`).
    #[inline(always)]
    fn sample_rtt(&mut self, now: Time, echoed: Stamp) {
        if echoed == self.echoed {
            return;
        }
        self.echoed = echoed;
        let Ok(ms @ 1..) = u64::try_from(echoed.older_than(Stamp::of(now))) else {
            return;
        };
        let rtt = 1_000 * ms;
        self.rtt8 = if self.rtt8 == 0 || rtt << 3 < self.rtt8 {
            rtt << 3
        } else {
            self.rtt8 - (self.rtt8 >> 3) + rtt
        };
    }

    /// The application has read the first of what is in sequence, `read` bytes in total, and goes on with
    /// the `queued` bytes behind it: once per round trip, the buffer is made to hold twice what was read,
    /// and more while that grows. What waits counts against the round trip in which it came (Linux
    /// `tcp_rcv_space_adjust`, called packet by packet). `span`: how far what is out of sequence reaches.
    #[inline(always)]
    fn on_read(&mut self, now: Time, read: u64, queued: u64, span: u64) {
        let rtt_us = self.rtt8 >> 3;
        if rtt_us == 0 || now.micros_since(self.since) < rtt_us {
            return;
        }
        let copied = read.saturating_sub(self.read_before + queued);
        if copied > self.space {
            self.grow_buffer(copied, span);
        }
        self.read_before = read;
        self.since = now;
    }

    /// Linux `tcp_rcvbuf_grow`: `space` is what is read per round trip now.
    fn grow_buffer(&mut self, space: u64, span: u64) {
        let old = std::mem::replace(&mut self.space, space);
        let window = 2 * space;
        let window = window + 2 * window * (space - old) / old + span;
        self.buffer = self.buffer.max(window * 256 / RATIO);
    }

    /// Data have come out of sequence, up to `span` bytes ahead.
    fn on_gap(&mut self, span: u64) {
        self.grow_buffer(self.space, span);
    }

    /// What an ACK says, KiB, in the steps of a host that may offer 128 MiB: of 2^13 bytes.
    fn offered(&self) -> u16 {
        u16::try_from(8 * self.open.div_ceil(8 * 1024)).unwrap_or(u16::MAX)
    }

    /// A segment has arrived, with which `segments` wait in so many `blocks`: opens the window by two segments
    /// if there is room, and tells whether it did (Linux `tcp_grow_window`).
    #[inline(always)]
    fn grow(&mut self, segments: u64, blocks: u64) -> bool {
        let used = segments * SEGMENT + blocks * OVERHEAD;
        let room = (self.buffer.saturating_sub(used) * RATIO / 256).saturating_sub(self.open);
        if room == 0 {
            return false;
        }
        self.open += room.min(2 * SEGMENT);
        true
    }
}

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
    ack_now: bool,
    window: WindowTuning,
    pub received_bytes: u64,
    client: Option<Client>,
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
            ack_now: false,
            window: WindowTuning::new(),
            received_bytes: 0,
            client: None,
            client_at: Time::NEVER,
        }
    }

    /// Segments before this one have all arrived.
    #[inline]
    pub fn next(&self) -> u32 {
        self.next
    }

    pub fn group(&self) -> GroupId {
        self.group
    }

    /// Its ACKs tell of SCE marks.
    pub fn echoes_sce(&self) -> bool {
        self.support == EcnSupport::Sce && self.mode == EcnMode::Classic
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
        if pkt.seq <= self.acked {
            self.echo = pkt.stamp;
        }
        self.next += 1;
        self.unacked += u32::from(pkt.payload);
        self.received_bytes += u64::from(pkt.payload);
        let is_small = self.segment_size.measure(pkt);
        self.tune_delayed_ack(now);
        self.sample_rtt(now, pkt);
        if self.window.grow(1, 1) {
            self.quick |= 1;
        }
        self.window.on_read(now, self.received_bytes, 0, 0);
        self.ack_now |= is_small || pkt.bits.has(TcpBits::PSH);
        let due = self.ack_now || self.unacked > self.segment_size.estimate || self.quick > 0;
        if due || self.delay_ack(now) {
            self.ack(now, out);
        }
    }

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
            let mut is_small = false;
            if pkt.payload > 0 {
                is_small = self.segment_size.measure(pkt);
                self.tune_delayed_ack(now);
                self.sample_rtt(now, pkt);
            }
            self.open_window(self.next - first + 1);
            let queued = u64::from(self.next - first) * u64::from(pkt.payload);
            let beyond = u64::from(self.out_of_order()) * u64::from(pkt.payload);
            let read = self.received_bytes.saturating_sub(queued + beyond);
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
        } else if pkt.seq < self.next || self.ranges.iter().any(|r| r.contains(pkt.seq)) {
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
                if self.counters.count(pkt.ecn.get(), pkt.payload.into())
                    || self.counters.pending_ce >= ecn::MAX_PENDING_CE
                {
                    self.ack_now = true;
                }
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

    /// Of full segments (Linux `tcp_rcv_rtt_measure_ts`).
    #[inline(always)]
    fn sample_rtt(&mut self, now: Time, pkt: &Packet) {
        if u32::from(pkt.payload) >= self.segment_size.estimate {
            self.window.sample_rtt(now, pkt.tsval);
        }
    }

    /// While the window opens, segments are acknowledged one by one. `fresh` segments have come into sequence.
    #[inline]
    fn open_window(&mut self, fresh: u32) {
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
            Some(last) if self.ato == DELACK_MIN && now.since(last) < DELACK_MIN / 4 => {}
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
        if self.ack_now || self.unacked > self.segment_size.estimate || self.quick > 0 {
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
            self.compress_until = now + (self.rtt / 3).min(COMPRESS_MAX);
        }
        false
    }

    /// Sets the timer; whether it was to come so soon that the ACK is sent instead (Linux `tcp_send_delayed_ack`).
    fn delay_ack(&mut self, now: Time) -> bool {
        let mut ato = self.ato;
        if ato > DELACK_MIN {
            let mut max = ATO_CEILING;
            if self.rtt > Span::ZERO {
                max = max.min(self.rtt.max(DELACK_MIN));
            }
            ato = ato.min(max);
        }
        let wait = ato.min(DELACK_MAX);
        if self.ack_at == Time::NEVER {
            // Not before this; on which tick of the kernel is looked up when it comes to that, which is
            // rare.
            self.delayed = Some((now, wait));
            self.ack_at = now + wait;
        } else {
            self.settle_delay();
            if self.ack_at <= wheel::expiry(now, wheel::whole_ticks(wait / 4)) {
                return true;
            }
            self.ack_at = self.ack_at.min(wheel::expiry(now, wait));
        }
        false
    }

    fn settle_delay(&mut self) {
        if let Some((since, wait)) = self.delayed.take() {
            self.ack_at = wheel::expiry(since, wait);
        }
    }

    #[inline(always)]
    fn ack(&mut self, now: Time, out: &mut Outbox) {
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
        let mut len = ACK_FRAME;
        let mut p = Packet::new(self.flow, self.group, Flags::ACK, len, Ecn::NotEct);
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
                let blocks = usize::from(self.duplicate.is_some()) + self.recent.len();
                let (option, left) = self.counters.fit_option(blocks.min(MAX_BLOCKS));
                if option > 0 {
                    p.ecn_bytes = self.counters.option();
                    p.flags = p.flags.with(Flags::ACCECN_OPTION);
                    len += option;
                }
                room = left;
            }
        }
        if self.duplicate.is_some() || !self.recent.is_empty() {
            let blocks = self.blocks(room, &mut p.flags);
            len += 4 + 8 * blocks.as_slice().len() as u32;
            p.sack = out.sacks.put(blocks);
        }
        p.frame_len = len as u16;
        out.push(p);
    }

    fn blocks(&mut self, room: usize, flags: &mut Flags) -> Blocks {
        let mut blocks = Blocks::default();
        if let Some(d) = self.duplicate.take() {
            blocks.push(d);
            *flags = flags.with(Flags::DSACK);
        }
        for &b in &self.recent {
            if blocks.as_slice().len() == room {
                break;
            }
            blocks.push(b);
        }
        blocks
    }

    /// Will this segment be in none of the first blocks as they are?
    fn crowds_out(&self, seq: u32) -> bool {
        let touches = |r: &Block| r.start <= seq + 1 && seq <= r.end;
        self.recent.len() >= BLOCKS_EXPECTED && !self.recent[..BLOCKS_EXPECTED].iter().any(touches)
    }

    /// Stores an out-of-order segment.
    fn keep(&mut self, seq: u32) {
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
        self.recent.insert(0, merged);
        self.recent.truncate(MAX_BLOCKS + 1);
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
    #[inline]
    fn on_packet(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        if self.is_undisturbed
            && pkt.flags == Flags::DATA
            && pkt.seq == self.next
            && pkt.stamp >= self.echo
        {
            self.on_next(now, pkt, out);
        } else if pkt.flags.has(Flags::DATA) {
            self.on_data(now, pkt, out);
        } else if pkt.flags.has(Flags::SYN) {
            if self.client.is_some() {
                self.on_answer(now, pkt, out);
            } else {
                self.on_syn(now, pkt, out);
            }
        } else {
            // The third ACK of the handshake.
            self.rtt = now.since(self.handshake_sent);
        }
    }
}

#[cfg(test)]
mod tests {
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
                assert!(
                    (wait..=wait + 8).contains(&waited),
                    "RTT {rtt} ms, number {n}: {waited} ms"
                );
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
        assert_eq!(s.sacks.take(ack.sack).as_slice(), [Block::new(6, 7), Block::new(2, 4)]);
        let ack = arrive(&mut r, &mut s, now, data(3)).unwrap();
        assert!(ack.flags.has(Flags::DSACK));
        assert_eq!(s.sacks.take(ack.sack).as_slice()[0], Block::new(3, 4));
        let ack = arrive(&mut r, &mut s, now, data(1)).unwrap();
        assert_eq!(ack.seq, 4);
        assert_eq!(s.sacks.take(ack.sack).as_slice(), [Block::new(6, 7)]);
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
        assert_eq!((ack.seq, ack.sack, r.next), (2, SackSlot::NONE, 2));
        let ack = arrive(&mut r, &mut s, now, sent(1, 10)).unwrap();
        assert!(ack.flags.has(Flags::DSACK));
        assert_eq!(s.sacks.take(ack.sack).as_slice(), [Block::new(1, 2)]);
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
}
