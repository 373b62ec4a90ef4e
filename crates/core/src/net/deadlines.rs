//! When each of many elements wants to run.

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
    /// again.
    #[inline]
    pub fn take_due(&mut self, until: Time, due: &mut Vec<u32>) {
        due.clear();
        for (block, earliest) in self.earliest.iter_mut().enumerate() {
            if *earliest >= until {
                continue;
            }
            let first = block * BLOCK;
            let mut rest = Time::NEVER;
            for (i, at) in self.at[first..].iter_mut().take(BLOCK).enumerate() {
                if *at < until {
                    due.push((first + i) as u32);
                    *at = Time::NEVER;
                } else {
                    rest = rest.min(*at);
                }
            }
            *earliest = rest;
        }
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
            deadlines.take_due(until, &mut due);
            let expected = (0..).zip(&plain).filter(|(_, at)| **at < until).map(|(i, _)| i);
            assert!(due.iter().copied().eq(expected));
            for i in due.drain(..) {
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
