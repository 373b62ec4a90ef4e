//! Fetching ahead. With thousands of flows most of a run's time would go into waiting for their
//! state; asking for it early makes the waits overlap. Results do not depend on it.

/// How many packets ahead a ring buffer is fetched.
pub const AHEAD: usize = 8;

/// Hints that all of `value` will be read soon.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(value).cast::<i8>();
        let last = size_of_val(value).saturating_sub(1);
        let mut offset = 0;
        while offset < last {
            // SAFETY: the address lies within `value`; a prefetch reads nothing architecturally.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(offset)) };
            offset += 64;
        }
        // A value that does not begin with a cache line ends in one more.
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(last)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
