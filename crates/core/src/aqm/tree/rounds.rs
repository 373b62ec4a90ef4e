//! Classes that take turns by deficit round robin: those of `drr` (Linux `sch_drr.c`, 7.2), and the bands of `ets` behind
//! its strict ones (`sch_ets.c`).
//!
//! A class has a turn while its next packet is not longer than its deficit; then it gets its quantum, and comes last. To
//! know the length the kernel peeks at the class's next packet. A class that shows none stops all others, too.

use std::collections::VecDeque;

use super::{Dropped, Leaf, Pkt, QueueCx, Timers, peek, take, take_peeked};

/// The kernel raises a smaller quantum, and lowers a larger one.
fn raised(quantum: u32) -> u32 {
    quantum.clamp(256, 1 << 20)
}

/// Whose turn it is.
pub(super) struct Rounds {
    /// So many leaves go first, one before the other, whenever they have a packet.
    strict: usize,
    /// By leaf.
    members: Vec<Member>,
    active: VecDeque<usize>,
}

struct Member {
    quantum: u32,
    deficit: u64,
    is_active: bool,
}

impl Rounds {
    /// `quanta`: of each leaf; those of strict ones count for nothing.
    pub fn new(strict: usize, quanta: impl Iterator<Item = u32>) -> Rounds {
        let member = |quantum| Member { quantum, deficit: 0, is_active: false };
        let members = quanta.map(raised).map(member).collect();
        Rounds { strict, members, active: VecDeque::new() }
    }
    pub fn change(&mut self, leaf: usize, quantum: u32) {
        self.members[leaf].quantum = raised(quantum);
    }
    /// A leaf has packets.
    pub fn activate(&mut self, leaf: usize) {
        let member = &mut self.members[leaf];
        if leaf >= self.strict && !member.is_active {
            (member.is_active, member.deficit) = (true, member.quantum.into());
            self.active.push_back(leaf);
        }
    }
    /// It has none.
    pub fn emptied(&mut self, leaf: usize) {
        if std::mem::take(&mut self.members[leaf].is_active) {
            self.active.retain(|&other| other != leaf);
        }
    }

    pub fn dequeue<P: Pkt>(
        &mut self,
        leaves: &mut [Leaf<P>],
        timers: &mut Timers,
        drops: &mut Vec<Dropped<P>>,
        cx: &mut QueueCx<P>,
    ) -> Option<P> {
        let mut first = leaves.iter_mut().enumerate().take(self.strict);
        let sent = first.find_map(|(number, leaf)| take(number, leaf, timers, drops, cx));
        if sent.is_some() {
            return sent;
        }
        loop {
            let number = *self.active.front()?;
            let (leaf, member) = (&mut leaves[number], &mut self.members[number]);
            let Some(length) = peek(number, leaf, timers, drops, cx) else {
                if leaf.aqm.backlog().packets == 0 {
                    self.emptied(number);
                }
                return None;
            };
            if u64::from(length) > member.deficit {
                member.deficit += u64::from(member.quantum);
                self.active.rotate_left(1);
                continue;
            }
            member.deficit -= u64::from(length);
            let pkt = take_peeked(number, leaf, timers, drops, cx)?;
            if leaf.aqm.backlog().packets == 0 {
                self.emptied(number);
            }
            return Some(pkt);
        }
    }
}
