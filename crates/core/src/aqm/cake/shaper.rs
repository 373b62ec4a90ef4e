//! CAKE's shaper: time per byte, what a packet costs on the wire, and the clock that says when the
//! next one may leave; and the estimate of an unknown rate.

use super::ewma;
use crate::time::{Span, Time};
use crate::units::ETHERNET_HEADER;

/// Slower than this would be a standstill (Linux), bytes per second.
const MIN_RATE: u64 = 64;
/// Time per byte is kept in at most so many bits (Linux).
const FRACTION_BITS: u32 = 34;
/// A cell of ATM and its payload; a block of PTM, which costs a byte more (64b/65b).
const ATM_CELL: u32 = 53;
const ATM_PAYLOAD: u32 = 48;
const PTM_BLOCK: u32 = 64;
/// Once in this time `autorate-ingress` may set the rate, to 15/16 of what it sees (Linux).
const AUTORATE_PAUSE: Span = Span::from_millis(250);

/// Time per byte, as a binary fraction of nanoseconds. Zero is unlimited.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Pace {
    ns: u64,
    shift: u32,
}

impl Pace {
    /// `rate` in bytes per second; 0 is unlimited.
    pub fn new(rate: u64) -> Pace {
        if rate == 0 {
            return Pace::default();
        }
        let mut ns = (1_000_000_000 << FRACTION_BITS) / rate.max(MIN_RATE);
        let mut shift = FRACTION_BITS;
        while ns >> FRACTION_BITS > 0 {
            ns >>= 1;
            shift -= 1;
        }
        Pace { ns, shift }
    }
    #[inline]
    pub fn is_limited(self) -> bool {
        self.ns > 0
    }
    #[inline]
    pub fn time_for(self, bytes: u32) -> Span {
        Span((u64::from(bytes) * self.ns) >> self.shift)
    }
}

/// How bytes become cells.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Framing {
    Plain,
    Atm,
    Ptm,
}

/// What a packet costs on the wire.
#[derive(Clone, PartialEq, Debug)]
pub struct Overhead {
    /// `overhead` counts from the IP packet, not from the Ethernet frame (all but `raw`).
    pub from_ip: bool,
    pub bytes: i32,
    pub mpu: u32,
    pub framing: Framing,
}

impl Overhead {
    #[inline]
    pub fn on_wire(&self, frame_len: u32) -> u32 {
        let header = if self.from_ip { ETHERNET_HEADER } else { 0 };
        let len = frame_len.saturating_sub(header).saturating_add_signed(self.bytes).max(self.mpu);
        match self.framing {
            Framing::Plain => len,
            Framing::Atm => len.div_ceil(ATM_PAYLOAD) * ATM_CELL,
            Framing::Ptm => len + len.div_ceil(PTM_BLOCK),
        }
    }
}

/// The clock of the whole queue: no bucket, hence no burst. Drops may be charged too (`ingress`);
/// the failsafe, at two thirds of the rate and without drops, keeps them from stopping everything.
#[derive(Clone, Debug)]
pub struct Shaper {
    pub pace: Pace,
    next: Time,
    failsafe: Time,
}

impl Shaper {
    pub fn new(pace: Pace) -> Shaper {
        Shaper { pace, next: Time::ZERO, failsafe: Time::ZERO }
    }
    /// A packet comes to an empty queue: time that passed idle is no credit.
    #[inline]
    pub fn wake(&mut self, now: Time) {
        if self.next < now {
            self.next = now;
            self.failsafe = now;
        }
    }
    /// Until when packets are held back.
    #[inline]
    pub fn holds_until(&self, now: Time) -> Option<Time> {
        (self.next > now && self.failsafe > now).then(|| self.next.min(self.failsafe))
    }
    /// A packet of `len` bytes on the wire leaves, or is dropped but charged.
    #[inline]
    pub fn charge(&mut self, len: u32, dropped: bool) {
        let took = self.pace.time_for(len);
        self.next += took;
        if !dropped {
            self.failsafe += took + took / 2;
        }
    }
}

/// `autorate-ingress`: the rate of arrivals between pauses, as far as it was the link before that
/// spaced them.
#[derive(Clone, Debug)]
pub struct Autorate {
    last_arrival: Time,
    /// Nanoseconds between packets, within bursts and beyond.
    mean_gap: u64,
    window_begin: Time,
    window_bytes: u64,
    /// Bytes per second.
    peak: u64,
    set_at: Time,
}

impl Autorate {
    pub fn new(rate: u64, now: Time) -> Autorate {
        Autorate {
            last_arrival: now,
            mean_gap: 0,
            window_begin: now,
            window_bytes: 0,
            peak: rate,
            set_at: now,
        }
    }

    /// A packet arrives: the rate to shape to from now on, in bytes per second, if it changes.
    pub fn arrival(&mut self, now: Time, bytes: u32) -> Option<u64> {
        self.window_bytes += u64::from(bytes);
        let gap = now.since(self.last_arrival).0.min(Span::from_secs(1).0);
        self.mean_gap = ewma(self.mean_gap, gap, if gap > self.mean_gap { 2 } else { 8 });
        self.last_arrival = now;
        if gap <= self.mean_gap {
            return None;
        }
        let window = now.since(self.window_begin).0.max(1);
        let rate = self.window_bytes.saturating_mul(1_000_000_000) / window;
        self.peak = ewma(self.peak, rate, if rate > self.peak { 2 } else { 8 });
        self.window_bytes = 0;
        self.window_begin = now;
        if now <= self.set_at + AUTORATE_PAUSE {
            return None;
        }
        self.set_at = now;
        Some((self.peak * 15) >> 4)
    }

    /// Bytes per second.
    pub fn estimate(&self) -> u64 {
        self.peak
    }
}
