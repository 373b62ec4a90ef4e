//! Calls of code of one's own, counted: who watches sees one that does not return.
//!
//! A process runs one simulation with such code at a time, so a call is under way while more were begun
//! than have ended.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static BEGUN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

/// Makes a call.
#[inline(always)]
pub fn watched<R>(call: impl FnOnce() -> R) -> R {
    // Only this thread writes: no locked instruction is needed.
    let number = BEGUN.load(Relaxed) + 1;
    BEGUN.store(number, Relaxed);
    let done = call();
    ENDED.store(number, Relaxed);
    done
}

/// The number of the call that is under way; 0: none is.
pub fn under_way() -> u64 {
    let (ended, begun) = (ENDED.load(Relaxed), BEGUN.load(Relaxed));
    if begun == ended { 0 } else { begun }
}
