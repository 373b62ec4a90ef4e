//! An application that writes to its connection at a rate: a piece every millisecond, or blocks.
//!
//! The socket holds two pieces. What does not fit is never written, as if the application were blocked. So with a rate
//! above the path's, TCP always has data, and soon after the rate falls it has not.
//!
//! With blocks it is `iperf3 -b`: at each millisecond it writes a block if what it has written since the start is below the
//! rate (`iperf_check_throttle`). While the block before waits in the socket it is blocked, and catches up later.

use crate::element::{End, Outbox};
use crate::packet::Packet;
use crate::time::{Span, Time};
use crate::transport::sender::Sender;

const INTERVAL: Span = Span::from_millis(1);
/// Pieces that the socket holds.
const HELD: u64 = 2;

/// An application that writes at a constant rate.
#[derive(Clone, Debug)]
pub struct Writer {
    bps: u64,
    next: Time,
    stop: Time,
    has_begun: bool,
    is_paused: bool,
    /// What was not yet enough for a byte, 8000ths.
    rest: u64,
    blocks: Option<Blocks>,
}

/// Bytes of a block, and how many bytes were written since when.
#[derive(Copy, Clone, Debug)]
struct Blocks {
    bytes: u64,
    written: u64,
    since: Time,
}

impl Blocks {
    /// When the mean rate falls to this one.
    fn due(&self, bps: u64) -> Time {
        let ns = u128::from(self.written) * 8_000_000_000 / u128::from(bps);
        self.since + Span(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

impl Writer {
    pub fn new(bps: u64, block: Option<u64>, stop: Time) -> Writer {
        let blocks = block.map(|bytes| Blocks { bytes, written: 0, since: Time::ZERO });
        let (next, has_begun, is_paused) = (Time::NEVER, false, false);
        Writer { bps, next, stop, has_begun, is_paused, rest: 0, blocks }
    }
    pub fn set_rate(&mut self, now: Time, bps: u64) {
        (self.bps, self.rest) = (bps, 0);
        if self.blocks.is_some() {
            self.pause(now, self.is_paused);
        }
    }
    pub fn stop_at(&mut self, now: Time) {
        (self.stop, self.next) = (now, Time::NEVER);
    }
    /// It rests, or goes on.
    pub fn pause(&mut self, now: Time, is_paused: bool) {
        self.is_paused = is_paused;
        let writes = self.has_begun && !is_paused && now < self.stop;
        self.next = if writes { now } else { Time::NEVER };
        if let Some(blocks) = &mut self.blocks {
            (blocks.written, blocks.since) = (0, now);
        }
    }
    /// The connection is there.
    fn begin(&mut self, now: Time) {
        self.has_begun = true;
        self.pause(now, self.is_paused);
    }
    fn wait_until(&mut self, next: Time) {
        self.next = if next < self.stop { next } else { Time::NEVER };
    }
    /// The bytes of the next piece, if `unsent` wait.
    fn piece(&mut self, now: Time, unsent: u64) -> u64 {
        if let Some(blocks) = &mut self.blocks {
            let bytes = if unsent < blocks.bytes { blocks.bytes } else { 0 };
            blocks.written += bytes;
            let wait = blocks.due(self.bps).max(now + Span(1)).since(now);
            self.wait_until(now + INTERVAL * wait.0.div_ceil(INTERVAL.0));
            return bytes;
        }
        self.wait_until(now + INTERVAL);
        let bits = self.bps + self.rest;
        let bytes = bits / 8000;
        self.rest = bits % 8000;
        bytes.min((HELD * bytes).saturating_sub(unsent))
    }
}

/// The sending end with its application.
pub struct Writes<'a>(pub &'a mut Sender, pub &'a mut Writer);

impl Writes<'_> {
    #[inline]
    fn follow(&mut self, now: Time) {
        while self.0.take_mark().is_some() {}
        if !self.1.has_begun && self.0.is_established() {
            self.1.begin(now);
        }
    }
}

impl End for Writes<'_> {
    fn deadline(&self) -> Time {
        self.0.deadline().min(self.1.next)
    }
    fn on_timer(&mut self, now: Time, out: &mut Outbox) {
        if self.1.next <= now {
            let bytes = self.1.piece(now, self.0.unsent());
            if bytes > 0 {
                self.0.write(now, bytes, out);
            }
        } else {
            self.0.on_timer(now, out);
        }
        self.follow(now);
    }
    fn on_packet(&mut self, now: Time, pkt: &Packet, out: &mut Outbox) {
        self.0.on_packet(now, pkt, out);
        self.follow(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 Mbit/s are 1250 bytes in a millisecond; the socket holds 2500.
    #[test]
    fn a_piece_is_what_the_rate_gives_and_the_socket_takes() {
        let mut w = Writer::new(10_000_000, None, Time::NEVER);
        w.begin(Time::ZERO);
        assert_eq!(w.piece(Time::ZERO, 0), 1250);
        assert_eq!(w.piece(Time::ZERO, 1250), 1250);
        assert_eq!((w.piece(Time::ZERO, 2000), w.piece(Time::ZERO, 2500)), (500, 0));
        w.set_rate(Time::ZERO, 12_000);
        let pieces: Vec<u64> = (0..4).map(|_| w.piece(Time::ZERO, 0)).collect();
        assert_eq!(pieces, [1, 2, 1, 2], "12 bits in a millisecond");
    }

    /// 131072 bytes at 10 Mbit/s last 104.86 ms.
    #[test]
    fn blocks_keep_the_mean_rate() {
        let mut w = Writer::new(10_000_000, Some(131_072), Time::NEVER);
        w.begin(Time::ZERO);
        let mut times = Vec::new();
        while times.len() < 5 {
            times.push(w.next.0 / 1_000_000);
            assert_eq!(w.piece(w.next, 0), 131_072);
        }
        assert_eq!(times, [0, 105, 210, 315, 420]);
        // Blocked for 100 ms, it is late once, and writes the next block when that is due.
        let blocked = w.next;
        assert_eq!((blocked.0 / 1_000_000, w.piece(blocked, 131_072)), (525, 0));
        assert_eq!(w.next, blocked + INTERVAL);
        assert_eq!(w.piece(blocked + INTERVAL * 100, 0), 131_072);
        assert_eq!(w.next.0 / 1_000_000, 630);
    }
}
