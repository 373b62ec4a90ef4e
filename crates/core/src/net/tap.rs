//! Taps: somebody looks at every packet at the two ends of its path. A tap cannot change a run, and
//! a run without one is compiled without it.

use crate::packet::Packet;
use crate::sack::Blocks;
use crate::time::Time;

/// An end of a flow's path.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// The sender of data: data leaves, ACKs arrive.
    Client,
    /// The receiver: data arrives, ACKs leave.
    Server,
}

/// Told what passes, in the order of time.
pub trait Tap {
    /// Whether anybody looks.
    const ON: bool = true;
    /// `pkt` passes `end`, with these SACK blocks. What arrives corrupted is passed on too.
    fn see(&mut self, now: Time, end: End, pkt: &Packet, blocks: &Blocks);
}

/// Nobody looks.
#[derive(Copy, Clone, Debug, Default)]
pub struct NoTap;

impl Tap for NoTap {
    const ON: bool = false;
    fn see(&mut self, _: Time, _: End, _: &Packet, _: &Blocks) {}
}

impl<T: Tap> Tap for &mut T {
    const ON: bool = T::ON;
    fn see(&mut self, now: Time, end: End, pkt: &Packet, blocks: &Blocks) {
        (**self).see(now, end, pkt, blocks);
    }
}
