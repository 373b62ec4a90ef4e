//! Size of the receive window: Linux's dynamic right-sizing.

use crate::packet::Stamp;
use crate::time::Time;

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
/// Below this RTT the buffer's growth is another one, µs (`tcp_rcvbuf_low_rtt`).
const LOW_RTT_US: u64 = 1_000;
/// What the application is first expected to read per round trip: ten segments.
const FIRST_SPACE: u64 = 10 * SEGMENT;

/// Size of the receive window (Linux's dynamic right-sizing). The window itself never binds here,
/// but while it opens, every segment is acknowledged at once: that is, in most of slow start. And the
/// sender pushes by it.
#[derive(Clone, Debug)]
pub(super) struct WindowTuning {
    /// Memory, the window that it has room for while one segment waits, and the one that has been opened so far, bytes.
    buffer: u64,
    widest: u64,
    pub(super) open: u64,
    /// Read by the application in the best round trip, and where and when this one began, µs.
    space: u64,
    read_before: u64,
    since_us: u64,
    /// When it is over; never, as long as the RTT is not known.
    over_at: Time,
    /// RTT in eighths of a microsecond, and the timestamp of which it was sampled last.
    pub(super) rtt8: u64,
    echoed: Stamp,
    /// Since when a window of data is awaited, and its end in the stream.
    awaited: Option<(Time, u64)>,
}

impl WindowTuning {
    pub(super) fn new() -> WindowTuning {
        WindowTuning {
            buffer: BUFFER,
            widest: room(BUFFER, 1, 1),
            open: FIRST_WINDOW,
            space: FIRST_SPACE,
            read_before: 0,
            since_us: 0,
            over_at: Time::NEVER,
            rtt8: 0,
            echoed: Stamp::default(),
            awaited: None,
        }
    }

    /// Samples the RTT by what a segment echoes of this side's timestamps, once of each; less than a
    /// millisecond is no sample (Linux `tcp_rcv_rtt_measure_ts`, `tcp_rcv_rtt_update`).
    #[inline(always)]
    pub(super) fn sample_rtt(&mut self, now: Time, echoed: Stamp) {
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
        self.set_end_of_round();
    }

    /// After a change of its begin or of the RTT.
    #[inline(always)]
    fn set_end_of_round(&mut self) {
        self.over_at = match self.rtt8 >> 3 {
            0 => Time::NEVER,
            rtt_us => Time((self.since_us + rtt_us) * 1_000),
        };
    }

    /// `received` bytes are in sequence now: a window of data takes an RTT at least, which is the first sample where a
    /// round trip is less than the millisecond of timestamps (Linux `tcp_rcv_rtt_measure`).
    #[inline(always)]
    pub(super) fn await_window(&mut self, now: Time, received: u64) {
        if let Some((since, end)) = self.awaited {
            if received < end {
                return;
            }
            let rtt8 = now.micros_since(since).max(1) << 3;
            if self.rtt8 == 0 || rtt8 < self.rtt8 {
                self.rtt8 = rtt8;
                self.set_end_of_round();
            }
        }
        self.awaited = Some((now, received + 1024 * u64::from(self.offered())));
    }

    /// The application has read the first of what is in sequence, `read` bytes in total, and goes on with
    /// the `queued` bytes behind it: once per round trip, the buffer is made to hold twice what was read,
    /// and more while that grows. What waits counts against the round trip in which it came (Linux
    /// `tcp_rcv_space_adjust`, called packet by packet). `span`: how far what is out of sequence reaches.
    #[inline(always)]
    pub(super) fn on_read(&mut self, now: Time, read: u64, queued: u64, span: u64) {
        if now < self.over_at {
            return;
        }
        let copied = read.saturating_sub(self.read_before + queued);
        if copied > self.space {
            self.grow_buffer(copied, span);
        }
        self.read_before = read;
        self.since_us = now.as_micros();
        self.set_end_of_round();
    }

    /// Linux `tcp_rcvbuf_grow`: `space` is what is read per round trip now.
    pub(super) fn grow_buffer(&mut self, space: u64, span: u64) {
        let old = std::mem::replace(&mut self.space, space);
        let window = 2 * space;
        let rtt_us = self.rtt8 >> 3;
        let growth = if rtt_us < LOW_RTT_US {
            window * rtt_us / LOW_RTT_US
        } else if space > old {
            2 * window * (space - old) / old
        } else {
            0
        };
        let window = window + growth + span;
        let buffer = window * 256 / RATIO;
        if buffer > self.buffer {
            self.buffer = buffer;
            self.widest = room(buffer, 1, 1);
        }
    }

    /// Data have come out of sequence, up to `span` bytes ahead.
    pub(super) fn on_gap(&mut self, span: u64) {
        self.grow_buffer(self.space, span);
    }

    /// What an ACK says, KiB, in the steps of a host that may offer 128 MiB: of 2^13 bytes.
    pub(super) fn offered(&self) -> u16 {
        u16::try_from(8 * self.open.div_ceil(8 * 1024)).unwrap_or(u16::MAX)
    }

    /// It is as wide as the memory allows, as most often.
    #[inline(always)]
    pub(super) fn is_wide(&self) -> bool {
        self.open >= self.widest
    }

    /// A segment has arrived, with which `segments` wait in so many `blocks`, one at least: opens the window by two
    /// segments if there is room, and tells whether it did (Linux `tcp_grow_window`).
    #[inline(always)]
    pub(super) fn grow(&mut self, segments: u64, blocks: u64) -> bool {
        if self.is_wide() {
            return false;
        }
        let room = room(self.buffer, segments, blocks).saturating_sub(self.open);
        self.open += room.min(2 * SEGMENT);
        room > 0
    }
}

/// The window for which a buffer has room beside what waits.
fn room(buffer: u64, segments: u64, blocks: u64) -> u64 {
    let used = segments * SEGMENT + blocks * OVERHEAD;
    buffer.saturating_sub(used) * RATIO / 256
}
