//! The core for the page of `l4slab live`, as WebAssembly: a session that is asked in JSON. It imports nothing.
//!
//! The page writes a request into memory that `text_alloc` gave, calls `ask`, reads the answer and gives it back with
//! `text_free`. Where a call traps, `last_words` tells why, and the instance is of no more use.

use std::cell::{Cell, RefCell};
use std::panic;

use l4slab_core::live::Live;

/// UTF-8 in the module's memory.
#[repr(C)]
#[derive(Copy, Clone)]
pub struct Text {
    at: *mut u8,
    bytes: usize,
}

impl Text {
    const NONE: Text = Text { at: std::ptr::null_mut(), bytes: 0 };

    fn of(text: String) -> Text {
        let whole = Box::leak(text.into_boxed_str());
        Text { at: whole.as_mut_ptr(), bytes: whole.len() }
    }
}

thread_local! {
    static LIVE: RefCell<Option<Live>> = const { RefCell::new(None) };
    static ANSWER: Cell<Text> = const { Cell::new(Text::NONE) };
}

/// Memory for a text of so many bytes.
#[unsafe(no_mangle)]
pub extern "C" fn text_alloc(bytes: usize) -> *mut u8 {
    Box::leak(vec![0; bytes].into_boxed_slice()).as_mut_ptr()
}

/// Gives back a text's memory.
///
/// # Safety
/// It came from `text_alloc`, `ask` or `last_words` with this length, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_free(at: *mut u8, bytes: usize) {
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(at, bytes)) });
}

/// Answers a request, whose memory it takes back. What is pointed to lasts until the next call.
///
/// # Safety
/// The memory came from `text_alloc` with this length, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ask(at: *mut u8, bytes: usize) -> *const Text {
    let request = unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(at, bytes)) };
    let answer = LIVE.with_borrow_mut(|live| {
        let live = live.get_or_insert_with(|| {
            panic::set_hook(Box::new(|info| _ = tell(info.to_string())));
            Live::default()
        });
        live.ask(&String::from_utf8_lossy(&request))
    });
    tell(answer)
}

/// The message of a panic, or empty. The pointer is valid until the next call.
#[unsafe(no_mangle)]
pub extern "C" fn last_words() -> *const Text {
    ANSWER.with(|text| std::ptr::from_ref(text).cast())
}

fn tell(text: String) -> *const Text {
    ANSWER.set(Text::of(text));
    last_words()
}
