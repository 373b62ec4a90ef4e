//! How a router sorts packets by their DSCP: priorities, and the bands that they go to.

use super::Pkt;

/// Priorities of packets (`TC_PRIO_MAX` + 1).
pub(super) const PRIORITIES: usize = 16;
/// The priority of a packet by two bits of its DSCP, the third and second last (Linux `ip_tos2prio`): best
/// effort, bulk, interactive, interactive bulk.
const PRIORITY: [usize; 4] = [0, 2, 6, 4];
/// The band of each priority, without other words (`sch_default_prio2band`, and `tc` for `prio`).
pub(super) const PRIOMAP: [u8; PRIORITIES] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];

/// The priority that a router gives to a packet.
#[inline]
pub(super) fn priority<P: Pkt>(pkt: &P) -> usize {
    PRIORITY[usize::from(pkt.dscp() >> 1 & 3)]
}
