//! What the application has written and TCP has not sent yet.

use std::collections::VecDeque;

/// What TCP hands down in one piece, if window and pacing allow.
#[derive(Copy, Clone, Debug, Default)]
pub struct Chunk {
    pub segments: u32,
    /// Its last segment has PSH.
    pub pushes: bool,
}

/// One call of the application.
#[derive(Copy, Clone, Debug)]
pub struct Write {
    /// All that it has.
    pub segments: u32,
    /// It stops when so many wait.
    pub until: u32,
    /// Segments of a chunk.
    pub chunk: u32,
    /// A chunk pushes if more than this was written since the last one that does (Linux `forced_push`).
    pub push_beyond: u32,
    /// Segments that leave while it writes the first chunk, and how many of them as soon as that is full. They are
    /// filled up again, each time (Linux `tcp_push_one`, `forced_push`).
    pub leaves: u32,
    pub leaves_at_once: u32,
}

/// The send queue in chunks, as Linux has it in `sk_buff`s.
#[derive(Clone, Debug, Default)]
pub struct SendQueue {
    head: Chunk,
    behind: VecDeque<Chunk>,
    /// Segments in all.
    waiting: u32,
    /// With fewer the application writes on.
    low: u32,
}

impl SendQueue {
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Whether the application would write on, if it has something.
    #[inline(always)]
    pub fn is_low(&self) -> bool {
        self.waiting < self.low
    }

    #[inline]
    pub fn head(&self) -> u32 {
        self.head.segments
    }

    #[inline]
    pub fn is_last(&self) -> bool {
        self.behind.is_empty()
    }

    /// Whether the `n`th segment of the head is the one that has PSH.
    #[inline]
    pub fn pushes(&self, n: u32) -> bool {
        self.head.pushes && n >= self.head.segments
    }

    /// Appends chunks (Linux `tcp_sendmsg_locked`): the last one is filled up first, and the last one pushes.
    pub fn write(&mut self, write: &Write) {
        self.low = write.until.div_ceil(2);
        let mut left = write.segments;
        let mut unpushed = 0;
        let until = write.until + write.leaves;
        if self.waiting > 0 {
            let tail = self.behind.back_mut().unwrap_or(&mut self.head);
            let more = write.chunk.saturating_sub(tail.segments).min(left);
            if more > 0 {
                tail.segments += more;
                tail.pushes = more > write.push_beyond;
                unpushed = if tail.pushes { 0 } else { more };
                self.waiting += more;
                left -= more;
            }
        }
        let mut leaves = write.leaves;
        while left > 0 && self.waiting < until {
            let segments = (write.chunk + leaves).min(left);
            unpushed += segments;
            let pushes = unpushed > write.push_beyond;
            if pushes {
                unpushed = leaves.saturating_sub(write.leaves_at_once);
            }
            leaves = 0;
            self.behind.push_back(Chunk { segments, pushes });
            self.waiting += segments;
            left -= segments;
        }
        if self.head.segments == 0 {
            self.head = self.behind.pop_front().unwrap_or_default();
        }
        self.behind.back_mut().unwrap_or(&mut self.head).pushes = true;
    }

    /// Makes the head `want` segments long, if the chunk behind it has them. Gives its length.
    #[inline(always)]
    pub fn grow_head(&mut self, want: u32) -> u32 {
        if self.head.segments < want {
            self.borrow(want - self.head.segments);
        }
        self.head.segments
    }

    /// From the chunk behind the head (Linux `tcp_grow_skb`).
    #[inline(never)]
    fn borrow(&mut self, most: u32) {
        let Some(next) = self.behind.front_mut() else { return };
        let more = next.segments.min(most);
        next.segments -= more;
        self.head.segments += more;
        if next.segments == 0 {
            self.head.pushes |= next.pushes;
            self.behind.pop_front();
        }
    }

    /// `n` segments of the head have left.
    #[inline(always)]
    pub fn take(&mut self, n: u32) {
        let n = n.min(self.head.segments);
        self.head.segments -= n;
        self.waiting -= n;
        if self.head.segments == 0 {
            self.next_chunk();
        }
    }

    /// The same if the head has more.
    #[inline(always)]
    pub fn take_some(&mut self, n: u32) {
        self.head.segments -= n;
        self.waiting -= n;
    }

    /// What was taken has not left. A chunk of its own if it ended one.
    pub fn give_back(&mut self, taken: Chunk) {
        self.waiting += taken.segments;
        if !taken.pushes {
            self.head.segments += taken.segments;
            return;
        }
        let next = std::mem::replace(&mut self.head, taken);
        if next.segments > 0 {
            self.behind.push_front(next);
        }
    }

    #[inline(never)]
    fn next_chunk(&mut self) {
        self.head = self.behind.pop_front().unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends of the chunks that push, in segments from the head on.
    fn pushed(queue: &SendQueue) -> Vec<u32> {
        let mut end = 0;
        let mut ends = Vec::new();
        for chunk in std::iter::once(&queue.head).chain(&queue.behind) {
            end += chunk.segments;
            if chunk.pushes {
                ends.push(end);
            }
        }
        ends
    }

    /// As Linux 7.2 wrote and pushed (captures at 4 Mbit/s and 7.5 ms, bursts of three in the first window): 120
    /// segments; and when 45 of them were left and the largest window was 39, another 56.
    #[test]
    fn the_first_writes_are_those_of_linux() {
        let mut queue = SendQueue::default();
        let first = Write {
            segments: u32::MAX,
            until: 91,
            chunk: 22,
            push_beyond: 22,
            leaves: 10,
            leaves_at_once: 3,
        };
        queue.write(&first);
        assert_eq!(queue.waiting(), 120);
        assert_eq!(pushed(&queue), [32, 54, 98, 120]);
        for _ in 0..75 {
            assert!(!queue.is_low());
            queue.take(1);
        }
        assert!(queue.is_low());
        queue.write(&Write { chunk: 39, push_beyond: 39, leaves: 0, leaves_at_once: 0, ..first });
        assert_eq!(queue.waiting(), 45 + 56);
        assert_eq!(pushed(&queue), [23, 101]);
    }

    #[test]
    fn a_short_head_takes_from_the_chunk_behind_it_alone() {
        let mut queue = SendQueue::default();
        queue.write(&Write {
            segments: 7,
            until: 91,
            chunk: 3,
            push_beyond: 5,
            leaves: 0,
            leaves_at_once: 0,
        });
        assert_eq!(pushed(&queue), [6, 7]);
        assert_eq!(queue.grow_head(2), 3);
        assert_eq!(queue.grow_head(5), 5);
        assert_eq!(queue.grow_head(9), 6);
        assert!(queue.pushes(6) && !queue.pushes(5));
        queue.take(6);
        assert_eq!((queue.head(), queue.is_last()), (1, true));
    }
}
