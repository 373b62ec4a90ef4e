//! The allocator of this library. Python and other libraries keep theirs.
//!
//! mimalloc asks Linux for huge pages, which take a tenth off the time of a packet with 10 000 flows. On other systems
//! the allocator is the system's: there mimalloc brings no huge pages.

use std::ffi::c_int;

use libmimalloc_sys::mi_option_set_default;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

// Numbers in `mi_option_e` of mimalloc.h, which the crate does not have.
const PURGE_DELAY: c_int = 15;
const ARENA_RESERVE: c_int = 23;

/// To be called before anything is allocated. A variable such as `MIMALLOC_PURGE_DELAY` has precedence.
pub fn set_options() {
    // SAFETY: both options exist in this version.
    unsafe {
        // KiB. The default is 1 GiB, which counts against `setrlimit` (sessions of the live page, custom code), and which
        // `mlockall` fills (engine `real`).
        mi_option_set_default(ARENA_RESERVE, 32 * 1024);
        // Milliseconds after which free memory is returned. mimalloc looks at the clock only when it is called, so with
        // the default of a second a run's memory is kept while Python writes its tables.
        mi_option_set_default(PURGE_DELAY, 10);
    }
}
