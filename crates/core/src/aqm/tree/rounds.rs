//! Classes that take turns by deficit round robin: those of `drr` (Linux `sch_drr.c`, 7.2), and the bands of `ets` behind
//! its strict ones (`sch_ets.c`).
//!
//! A class has a turn while its next packet is not longer than its deficit; then it gets its quantum, and comes last. To
//! know the length the kernel asks the class's queue to show its next packet. A queue that cannot do that gives the packet
//! away, which from then on waits outside of it (`qdisc_peek_dequeued`). A class that shows none stops all others, too.

use std::collections::VecDeque;

use super::{Dropped, Head, Leaf, Marks, Pkt, QueueCx, Timers, take};

/// The kernel raises a smaller quantum, and lowers a larger one.
fn raised(quantum: u32) -> u32 {
    quantum.clamp(256, 1 << 20)
}

/// Whose turn it is.
pub(super) struct Rounds<P> {
    /// So many leaves go first, one before the other, whenever they have a packet.
    strict: usize,
    /// By leaf.
    pub members: Vec<Member<P>>,
    active: VecDeque<usize>,
}

pub(super) struct Member<P> {
    quantum: u32,
    deficit: u64,
    /// The packet that its queue gave away to be looked at.
    pub head: Option<Head<P>>,
    is_active: bool,
}

impl<P: Pkt> Rounds<P> {
    /// `quanta`: of each leaf; those of strict ones count for nothing.
    pub fn new(strict: usize, quanta: impl Iterator<Item = u32>) -> Rounds<P> {
        let member = |quantum| Member { quantum, deficit: 0, head: None, is_active: false };
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
    /// The packets that queues gave away.
    pub fn heads(&self) -> impl Iterator<Item = &Head<P>> {
        self.members.iter().filter_map(|member| member.head.as_ref())
    }

    pub fn dequeue(
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
            let length = match &member.head {
                Some(head) => head.pkt.frame_len(),
                None => match leaf.aqm.next_len() {
                    Some(length) => length,
                    None => {
                        let Some(pkt) = take(number, leaf, timers, drops, cx) else {
                            if leaf.aqm.backlog().packets == 0 {
                                self.emptied(number);
                            }
                            return None;
                        };
                        let (band, marks) = (cx.current_band(), cx.marks());
                        let length = pkt.frame_len();
                        member.head = Some(Head { pkt, band, marks });
                        cx.marks = Marks::default();
                        length
                    }
                },
            };
            if u64::from(length) > member.deficit {
                member.deficit += u64::from(member.quantum);
                self.active.rotate_left(1);
                continue;
            }
            member.deficit -= u64::from(length);
            let pkt = match member.head.take() {
                Some(head) => {
                    (cx.band, cx.marks) = (head.band, head.marks);
                    head.pkt
                }
                None => take(number, leaf, timers, drops, cx)?,
            };
            if leaf.aqm.backlog().packets == 0 {
                self.emptied(number);
            }
            return Some(pkt);
        }
    }
}
