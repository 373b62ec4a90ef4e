//! When each of many elements wants to run.

use std::hint::select_unpredictable;

use crate::time::Time;

/// Elements whose earliest deadline is kept as one.
const BLOCK: usize = 64;

/// Deadlines by number. Finding those that are due costs a look per block of elements, and one per
/// element in the blocks where something is.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    at: Vec<Time>,
    /// Of each block, not later than the earliest.
    earliest: Vec<Time>,
}

impl Deadlines {
    pub fn push(&mut self, at: Time) {
        if self.at.len().is_multiple_of(BLOCK) {
            self.earliest.push(Time::NEVER);
        }
        self.at.push(Time::NEVER);
        self.set(self.at.len() - 1, at);
    }
    #[inline]
    pub fn set(&mut self, i: usize, at: Time) {
        self.at[i] = at;
        let earliest = &mut self.earliest[i / BLOCK];
        *earliest = at.min(*earliest);
    }
    /// Brings a deadline forward.
    #[inline]
    pub fn advance(&mut self, i: usize, at: Time) {
        if at < self.at[i] {
            self.set(i, at);
        }
    }
    /// Not later than the earliest of all.
    #[inline]
    pub fn earliest(&self) -> Time {
        self.earliest.iter().copied().min().unwrap_or(Time::NEVER)
    }
    /// Takes out the elements whose deadline is before `until`, in their order: they have none until it is set
    /// again. They are the first ones of `due`, which gets room for all; returns their number.
    #[inline]
    pub fn take_due(&mut self, until: Time, due: &mut Vec<u32>) -> usize {
        if due.len() < self.at.len() {
            due.resize(self.at.len(), 0);
        }
        let (due, mut count) = (&mut due[..], 0);
        let blocks = self.at.chunks_mut(BLOCK).zip(&mut self.earliest);
        for (first, (block, earliest)) in (0..).step_by(BLOCK).zip(blocks) {
            if *earliest >= until {
                continue;
            }
            let mut rest = Time::NEVER;
            // Whether one is due cannot be predicted, so there is no branch.
            for (i, at) in (first..).zip(block) {
                let (then, is_due) = (*at, *at < until);
                due[count] = i;
                count += usize::from(is_due);
                let left = select_unpredictable(is_due, Time::NEVER, then);
                *at = left;
                rest = rest.min(left);
            }
            *earliest = rest;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Against looking at all of them.
    #[test]
    fn those_are_due_that_are() {
        let mut rng = Rng::stream(1, "deadlines", 0);
        let mut deadlines = Deadlines::default();
        let mut plain: Vec<Time> = (0..200).map(|_| Time(rng.below(1000))).collect();
        plain.iter().for_each(|at| deadlines.push(*at));
        let mut due = Vec::new();
        for now in 0..1500 {
            let until = Time(now);
            assert!(deadlines.earliest() <= *plain.iter().min().unwrap());
            let count = deadlines.take_due(until, &mut due);
            let expected = (0..).zip(&plain).filter(|(_, at)| **at < until).map(|(i, _)| i);
            assert!(due[..count].iter().copied().eq(expected));
            for &i in &due[..count] {
                let later = if rng.below(4) == 0 { Time::NEVER } else { Time(now + rng.below(90)) };
                deadlines.set(i as usize, later);
                plain[i as usize] = later;
            }
            let any = rng.below(200) as usize;
            deadlines.advance(any, Time(now + 5));
            plain[any] = plain[any].min(Time(now + 5));
        }
    }
}
