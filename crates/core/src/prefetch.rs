//! Asks the processor to fetch memory into its cache, ahead of use. Nothing but time depends on it.
//!
//! With 10 000 flows almost every line that a flow's turn touches is out of the cache, and a turn is too short for the
//! processor to run ahead into the next one. Where it has no instruction for this in stable Rust, nothing is done.

const LINE: usize = 64;

/// All of `it`, which may begin and end within a line.
#[inline(always)]
pub fn lines<T>(it: &T) {
    range(std::ptr::from_ref(it).cast(), size_of::<T>());
}

/// What of `it` is before its field `end`, and where this begins.
#[inline(always)]
pub fn until<T, U>(it: &T, end: &U) {
    let start = std::ptr::from_ref(it).cast::<u8>();
    range(start, std::ptr::from_ref(end).addr() - start.addr() + 1);
}

#[inline(always)]
fn range(start: *const u8, bytes: usize) {
    for offset in (0..bytes).step_by(LINE) {
        fetch(start.wrapping_add(offset));
    }
    fetch(start.wrapping_add(bytes - 1));
}

/// Where the item at `place` begins, which need not be there.
#[inline(always)]
pub fn place<T>(of: &[T], place: usize) {
    fetch(of.as_ptr().wrapping_add(place).cast());
}

/// Where the next item will be put.
#[inline(always)]
pub fn end<T>(of: &[T]) {
    fetch(of.as_ptr().wrapping_add(of.len()).cast());
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn fetch(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: it reads and writes nothing, and any address is allowed.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn fetch(_at: *const u8) {}
