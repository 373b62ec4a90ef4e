//! The functions of `include/l4slab_aqm.h`.

use std::ffi::{CStr, c_char};

use crate::{Packet, Queue};

/// Makes a queue; null, and a sentence in `error`, if the words are wrong.
///
/// # Safety
/// `words` ends with a zero. `error` is null or has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn l4slab_aqm_new(
    words: *const c_char,
    rate_bps: u64,
    seed: u64,
    now_ns: u64,
    error: *mut c_char,
    room: usize,
) -> *mut Queue {
    // SAFETY: the caller promises the zero.
    let words = unsafe { CStr::from_ptr(words) }.to_string_lossy();
    match Queue::new(&words, rate_bps, seed, now_ns) {
        Ok(queue) => Box::into_raw(Box::new(queue)),
        Err(sentence) => {
            if !error.is_null() && room > 0 {
                let n = sentence.len().min(room - 1);
                // SAFETY: the caller promises the room, and n + 1 bytes fit into it.
                unsafe {
                    error.copy_from_nonoverlapping(sentence.as_ptr().cast(), n);
                    error.add(n).write(0);
                }
            }
            std::ptr::null_mut()
        }
    }
}

/// Gives up a queue with its packets.
///
/// # Safety
/// `queue` is null, or from [`l4slab_aqm_new`] and given up once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn l4slab_aqm_free(queue: *mut Queue) {
    if !queue.is_null() {
        // SAFETY: it was a box.
        drop(unsafe { Box::from_raw(queue) });
    }
}

/// See [`Queue::enqueue`].
///
/// # Safety
/// Both pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn l4slab_aqm_enqueue(queue: *mut Queue, now_ns: u64, packet: *const Packet) {
    // SAFETY: the caller promises it.
    unsafe { (*queue).enqueue(now_ns, *packet) };
}

fn give(packet: Option<Packet>, to: *mut Packet) -> i32 {
    let Some(packet) = packet else { return 0 };
    // SAFETY: the callers of these functions promise that it is valid.
    unsafe { to.write(packet) };
    1
}

/// See [`Queue::dequeue`]; 1 if there is a packet.
///
/// # Safety
/// Both pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn l4slab_aqm_dequeue(
    queue: *mut Queue,
    now_ns: u64,
    to: *mut Packet,
) -> i32 {
    // SAFETY: the caller promises it.
    give(unsafe { &mut *queue }.dequeue(now_ns), to)
}

/// See [`Queue::take_dropped`]; 1 if there is a packet.
///
/// # Safety
/// Both pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn l4slab_aqm_dropped(queue: *mut Queue, to: *mut Packet) -> i32 {
    // SAFETY: the caller promises it.
    give(unsafe { &mut *queue }.take_dropped(), to)
}

/// See [`Queue::next_ns`].
///
/// # Safety
/// The pointer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn l4slab_aqm_next(queue: *const Queue) -> u64 {
    // SAFETY: the caller promises it.
    unsafe { &*queue }.next_ns()
}

/// Packets in the queue.
///
/// # Safety
/// The pointer is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn l4slab_aqm_backlog(queue: *const Queue) -> u64 {
    // SAFETY: the caller promises it.
    unsafe { &*queue }.backlog().0
}
