//! What the versions count in fractions of a segment. 0.7 takes the fractional window for everything; 0.6 and 0.5
//! differ here, method by method.

/// The fractional window has 20 fractional bits.
pub const WINDOW_BITS: u32 = 20;
pub const ONE_SEGMENT: u64 = 1 << WINDOW_BITS;

/// What a version of Prague does with less than a segment of window.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Fraction {
    /// 0.5: growth and cuts take TCP's whole window; what is less than a segment waits.
    Carry,
    /// 0.6: cuts take the fractional window, growth its next whole one.
    Rounded,
    /// 0.7.
    Full,
}

fn whole(segments: u32) -> u64 {
    u64::from(segments) << WINDOW_BITS
}

impl Fraction {
    /// Before an ACK. In 0.5 the carry is not part of TCP's window, which a timeout changes: `left` is what this
    /// controller left there.
    #[inline(always)]
    pub fn resumed(self, window: u64, cwnd: u32, left: u32) -> u64 {
        match self {
            Fraction::Full | Fraction::Rounded => window,
            Fraction::Carry => (window + whole(cwnd)).saturating_sub(whole(left)),
        }
    }
    /// The whole window for the fractional one. In 0.5 it moves when a whole segment has accumulated.
    #[inline(always)]
    pub fn whole_window(self, window: u64, cwnd: u32) -> u32 {
        let down = (window >> WINDOW_BITS) as u32;
        let up = ((window + ONE_SEGMENT - 1) >> WINDOW_BITS) as u32;
        if self == Fraction::Carry && down >= cwnd { down } else { up }
    }
    /// After slow start took TCP's window from `before` to `cwnd`. Before 0.7, a reduction stays due until an ACK with
    /// nothing but marks lets it begin.
    #[inline(always)]
    pub fn after_slow_start(self, window: u64, before: u32, cwnd: u32) -> u64 {
        match self {
            Fraction::Full => whole(cwnd),
            Fraction::Rounded | Fraction::Carry => window + whole(cwnd - before),
        }
    }
    /// The window that growth is a share of; `next` is the next whole one.
    #[inline(always)]
    pub fn grown_window(self, window: u64, next: u32, cwnd: u32) -> u64 {
        match self {
            Fraction::Full => window.max(1),
            Fraction::Rounded => whole(next),
            Fraction::Carry => whole(cwnd),
        }
    }
    /// At the smallest window nothing is owed in 0.5: what it begins anew with.
    #[inline(always)]
    pub fn settled(self, window: u64, cwnd: u32) -> Option<u64> {
        let owes = self == Fraction::Carry && window + ONE_SEGMENT <= whole(cwnd);
        owes.then_some(whole(cwnd))
    }
    /// The window, in segments, that pacing spreads over a round trip.
    #[inline(always)]
    pub fn paced_window(self, window: u64, cwnd: u32) -> u64 {
        match self {
            Fraction::Full => window >> WINDOW_BITS,
            Fraction::Rounded | Fraction::Carry => u64::from(cwnd),
        }
    }
    /// The window that a cut by alpha is a share of.
    #[inline(always)]
    pub fn cut_window(self, window: u64, cwnd: u32) -> u64 {
        match self {
            Fraction::Full | Fraction::Rounded => window,
            Fraction::Carry => whole(cwnd),
        }
    }
    /// The least that a cut leaves. (Version 0.7 has a floor for the rate only. Repeated losses bring
    /// the window near zero, and one ACK, which adds 1/window, then makes it immense. So the floor here is one
    /// segment, half of TCP's smallest window. Growth by whole windows does not have this problem.)
    pub fn floor(self) -> u64 {
        if self == Fraction::Full { ONE_SEGMENT } else { 1 }
    }
}
