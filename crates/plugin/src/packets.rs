//! The packets of a library's queue, and what it does about them during a call.
//!
//! The library has packets by pointer. Behind what it sees of one stands the packet itself, so that it moves twice,
//! as in a built-in queue: in and out.

use std::cell::Cell;
use std::ptr;

use l4slab_core::aqm::{DropReason, Pkt};
use l4slab_core::packet::Packet;
use l4slab_core::rng::Rng;
use l4slab_core::time::Time;

use super::l4slab::{Link, Packet as Seen};

/// The fields that `id` packs; the format is l4slab's own.
const GONE: u32 = 0;
const WAITS: u32 = 1;
/// It is CE when it leaves.
const MARKED: u32 = 2;
/// It has arrived in the band of the bits from `BAND` on: what the library writes into it later does not count.
const SETTLED: u32 = 4;
const BAND: u32 = 8;

#[repr(C)]
struct Node {
    /// First, so that a pointer to it is one to the node.
    seen: Seen,
    packet: Packet,
}

/// Every packet stays where it is as long as the queue is there, also when it has left; places are used again.
#[derive(Default)]
pub struct Packets {
    all: Vec<*mut Node>,
    free: Vec<*mut Node>,
    pub dropped: Vec<(Packet, DropReason, u8)>,
}

// SAFETY: nobody else has them but the object of the queue.
unsafe impl Send for Packets {}

impl Packets {
    #[inline(always)]
    pub fn put(&mut self, packet: Packet) -> *mut Seen {
        let seen = Seen {
            next: ptr::null_mut(),
            arrived_ns: packet.enqueued_at().0,
            id: WAITS,
            length: packet.frame_len(),
            flow: packet.flow_hash(),
            ecn: packet.ecn().bits(),
            dscp: packet.dscp(),
            band: Cell::new(0),
        };
        let Some(node) = self.free.pop() else {
            return self.add(Node { seen, packet });
        };
        // SAFETY: a node is there until `self` is dropped.
        unsafe {
            (*node).packet = packet;
            (*node).seen = seen;
        }
        node.cast()
    }
    #[cold]
    fn add(&mut self, node: Node) -> *mut Seen {
        let node = Box::into_raw(Box::new(node));
        self.all.push(node);
        node.cast()
    }
    /// The packet, and whether it is to be marked; `None`: it is not in the queue.
    ///
    /// # Safety
    /// Null, or a pointer that [`Self::put`] gave.
    #[inline(always)]
    pub unsafe fn take(&mut self, seen: *const Seen) -> Option<(Packet, bool)> {
        let node = seen.cast_mut().cast::<Node>();
        if node.is_null() {
            return None;
        }
        // SAFETY: as the caller says; nodes stay.
        let node_ref = unsafe { &mut *node };
        let was = std::mem::replace(&mut node_ref.seen.id, GONE);
        if was == GONE {
            return None;
        }
        self.free.push(node);
        Some((node_ref.packet, was & MARKED != 0))
    }
    /// All packets that are in the queue.
    pub fn take_all(&mut self) -> Vec<Packet> {
        let nodes = self.all.clone();
        // SAFETY: they were put there.
        nodes
            .into_iter()
            .filter_map(|node| unsafe { self.take(node.cast()) })
            .map(|t| t.0)
            .collect()
    }
    /// The band of a packet that has arrived, from now on.
    ///
    /// # Safety
    /// A pointer that [`Self::put`] gave.
    pub unsafe fn settle(&mut self, seen: *mut Seen) -> u8 {
        // SAFETY: as the caller says; nodes stay.
        let seen = unsafe { &mut *seen };
        if seen.id != GONE {
            seen.id |= SETTLED | u32::from(seen.band.get()) << BAND;
        }
        seen.band.get()
    }
    /// The band of a packet that is in the queue.
    ///
    /// # Safety
    /// Null, or a pointer that [`Self::put`] gave.
    pub unsafe fn band(&self, seen: *const Seen) -> u8 {
        // SAFETY: as above.
        match unsafe { seen.as_ref() } {
            Some(seen) if seen.id & SETTLED != 0 => (seen.id >> BAND) as u8,
            Some(seen) => seen.band.get(),
            None => 0,
        }
    }
    /// Those that are in the queue.
    pub fn waiting(&self) -> impl Iterator<Item = &Packet> {
        // SAFETY: as above.
        let nodes = self.all.iter().map(|node| unsafe { &**node });
        nodes.filter(|node| node.seen.id != GONE).map(|node| &node.packet)
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        for node in self.all.drain(..) {
            // SAFETY: it came from a box, and the object of the queue is gone.
            drop(unsafe { Box::from_raw(node) });
        }
    }
}

/// The actions of a library during one call.
pub struct Actions<'a> {
    pub packets: &'a mut Packets,
    pub rng: &'a mut Rng,
    /// It named a packet that is not in the queue.
    pub stranger: Option<&'static str>,
}

impl Actions<'_> {
    /// The argument of the call; valid as long as `self` does not move.
    #[inline(always)]
    pub fn link(&mut self, now: Time) -> Link {
        let host = ptr::from_mut(self).cast();
        Link { now_ns: now.0, host, drop: drop_packet, mark: mark_packet, random }
    }
}

/// SAFETY: the link is the one of the call at hand.
unsafe fn actions<'a>(link: *mut Link) -> &'a mut Actions<'a> {
    // SAFETY: see above.
    unsafe { &mut *(*link).host.cast::<Actions<'a>>() }
}
unsafe extern "C" fn drop_packet(link: *mut Link, packet: *const Seen, overflow: u32) {
    let why = if overflow != 0 { DropReason::Overflow } else { DropReason::Aqm };
    // SAFETY: the library calls it with what it was given.
    let (actions, taken) = unsafe {
        let actions = actions(link);
        let band = actions.packets.band(packet);
        let taken = actions.packets.take(packet).map(|(taken, _)| (taken, band));
        (actions, taken)
    };
    match taken {
        Some((packet, band)) => actions.packets.dropped.push((packet, why, band)),
        None => actions.stranger = Some("drops"),
    }
}
unsafe extern "C" fn mark_packet(link: *mut Link, packet: *const Seen) -> u32 {
    let node = packet.cast_mut().cast::<Node>();
    // SAFETY: as above.
    let (actions, node) = unsafe { (actions(link), node.as_mut()) };
    let Some(node) = node.filter(|node| node.seen.id != GONE) else {
        actions.stranger = Some("marks");
        return 0;
    };
    let is_capable = node.packet.ecn().is_capable();
    if is_capable {
        node.seen.id |= MARKED;
    }
    u32::from(is_capable)
}
unsafe extern "C" fn random(link: *mut Link) -> f64 {
    // SAFETY: as above.
    unsafe { actions(link) }.rng.unit()
}
