//! A viewer who plays the frames of a video, which here are chunks, one after the other for as long as each lasts.

use crate::probe::Experience;
use crate::time::{Span, Time};

/// How many chunks have to be there to begin, and to go on after a stall.
const BUFFERED: usize = 2;

/// The time that each chunk plays, when the player may begin, and how many chunks there are if they end.
#[derive(Copy, Clone, Debug)]
pub struct Player {
    pub chunk: Span,
    pub begin: Time,
    pub total: Option<usize>,
}

impl Player {
    /// When chunk `n` and those that have to be there with it have come.
    fn ready(&self, came: &[Time], n: usize) -> Option<Time> {
        let last = n + BUFFERED.min(self.total.map_or(BUFFERED, |total| total - n)) - 1;
        came.get(last).copied()
    }

    /// What the viewer has seen at `end` of chunks that came at these times: `frames` that were played or play, of which
    /// `late` were waited for in stalls, `freezes` (stalls) and how long they took. Before the first chunk plays
    /// nothing stalls.
    pub fn play(&self, came: &[Time], end: Time) -> Experience {
        let mut seen = Experience::default();
        let begins = self.ready(came, 0).map(|ready| ready.max(self.begin));
        let Some(mut due) = begins.filter(|begin| *begin < end) else { return seen };
        while self.total.is_none_or(|total| (seen.frames as usize) < total) && due < end {
            let n = seen.frames as usize;
            if came.get(n).is_none_or(|at| *at > due) {
                let ready = self.ready(came, n).filter(|ready| *ready < end);
                seen.freezes += 1;
                seen.frozen += ready.unwrap_or(end).since(due);
                let Some(ready) = ready else { break };
                let waited = came[n..].iter().take(BUFFERED).filter(|at| **at <= ready);
                seen.late += waited.count() as u64;
                due = ready;
            }
            seen.frames += 1;
            due += self.chunk;
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: f64) -> Time {
        Time((seconds * 1e9) as u64)
    }
    /// Chunks of 2 s, from 5 s on: those played, those waited for, stalls, and their seconds.
    fn played(came: &[f64], total: Option<usize>, end: f64) -> (u64, u64, u64, f64) {
        let player = Player { chunk: Span::from_millis(2000), begin: s(5.0), total };
        let came: Vec<Time> = came.iter().map(|at| s(*at)).collect();
        let seen = player.play(&came, s(end));
        (seen.frames, seen.late, seen.freezes, seen.frozen.as_secs_f64())
    }

    #[test]
    fn chunks_that_are_there_play_without_a_stall() {
        assert_eq!(played(&[1.0, 3.0, 5.0, 7.0], Some(4), 60.0), (4, 0, 0, 0.0));
        // The third chunk comes in the instant in which it is due.
        assert_eq!(played(&[1.0, 3.0, 9.0], Some(3), 60.0), (3, 0, 0, 0.0));
        // It begins with the second chunk, and the run ends within the third.
        assert_eq!(played(&[1.0, 6.0, 7.0, 8.0], None, 11.0), (3, 0, 0, 0.0));
    }

    /// The third chunk is due at 9 s and comes at 10 s. The player goes on with the fourth one, at 12 s.
    #[test]
    fn after_a_stall_two_chunks_are_waited_for() {
        assert_eq!(played(&[1.0, 3.0, 10.0, 12.0, 13.0], Some(5), 60.0), (5, 2, 1, 3.0));
        // The last one has none behind it.
        assert_eq!(played(&[1.0, 3.0, 10.0], Some(3), 60.0), (3, 1, 1, 1.0));
        // The fourth never comes: the stall lasts until the end.
        assert_eq!(played(&[1.0, 3.0, 10.0], Some(5), 60.0), (2, 0, 1, 51.0));
    }

    #[test]
    fn without_two_chunks_nothing_plays_and_nothing_stalls() {
        assert_eq!(played(&[1.0], Some(30), 60.0), (0, 0, 0, 0.0));
        assert_eq!(played(&[], None, 60.0), (0, 0, 0, 0.0));
    }
}
