//! What an application writes piece by piece, and which segments its pieces are in. Pieces are packed
//! without gaps: a segment may hold the end of one and the start of the next.

use std::collections::VecDeque;

/// A segment in which a piece begins or ends. A piece's marks come in this order, and pieces in theirs.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Mark {
    First(u32),
    Last(u32),
}

/// The stream of one connection.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    written: u64,
    cut: u64,
    /// Where the pieces end that are not sent in full.
    ends: VecDeque<u64>,
    begun: bool,
    marks: VecDeque<Mark>,
}

impl Stream {
    pub fn write(&mut self, bytes: u64) {
        self.written += bytes;
        self.ends.push_back(self.written);
    }
    /// The next `payload` bytes go into segment `seq`.
    pub fn cut(&mut self, seq: u32, payload: u32) {
        let start = self.cut;
        self.cut += u64::from(payload);
        let mut from = start;
        while from < self.cut
            && let Some(&end) = self.ends.front()
        {
            if !self.begun {
                self.begun = true;
                self.marks.push_back(Mark::First(seq));
            }
            if end > self.cut {
                return;
            }
            self.marks.push_back(Mark::Last(seq));
            self.ends.pop_front();
            self.begun = false;
            from = end;
        }
    }
    /// Takes the oldest mark that was not taken yet.
    pub fn take(&mut self) -> Option<Mark> {
        self.marks.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_share_segments() {
        use Mark::{First, Last};
        let mut s = Stream::default();
        s.write(250);
        s.cut(0, 100);
        assert_eq!((s.take(), s.take()), (Some(First(0)), None));
        for bytes in [20, 130, 100] {
            s.write(bytes);
        }
        // 200-300: the rest of the first, the second, 30 of the third.
        for seq in 1..5 {
            s.cut(seq, 100);
        }
        let marks: Vec<Mark> = std::iter::from_fn(|| s.take()).collect();
        let expected = [Last(2), First(2), Last(2), First(2), Last(3), First(4), Last(4)];
        assert_eq!(marks, expected);
    }
}
