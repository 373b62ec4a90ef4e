//! The minimum or maximum of a sliding window, kept as the best, second and third best sample in
//! order of age (K. Nichols).

/// When and what.
type Sample = (u32, u32);

/// The least sample of a window of time. The unit of time is the caller's, whose clock may come round.
#[derive(Clone, Copy, Debug)]
pub struct WindowedMin {
    best: [Sample; 3],
    /// So long after the best one a sample above all three changes nothing.
    quiet: u32,
}

impl Default for WindowedMin {
    fn default() -> Self {
        WindowedMin { best: [(0, u32::MAX); 3], quiet: 0 }
    }
}

impl WindowedMin {
    /// `u32::MAX` before the first sample.
    #[inline]
    pub fn get(&self) -> u32 {
        self.best[0].1
    }
    /// Takes a sample and forgets samples older than `window`.
    #[inline(always)]
    pub fn update(&mut self, window: u32, now: u32, v: u32) {
        if v <= self.best[2].1 || now.wrapping_sub(self.best[0].0) >= self.quiet {
            self.take(window, now, v);
            let [first, second, third] = self.best.map(|(at, _)| at);
            self.quiet = match (second == first, third == second) {
                (true, _) => window / 4,
                (_, true) => window / 2,
                _ => window,
            };
        }
    }
    fn take(&mut self, window: u32, now: u32, v: u32) {
        let s = (now, v);
        if v <= self.best[0].1 || now.wrapping_sub(self.best[2].0) > window {
            self.best = [s; 3];
            return;
        }
        if v <= self.best[1].1 {
            self.best[1] = s;
            self.best[2] = s;
        } else if v <= self.best[2].1 {
            self.best[2] = s;
        }
        let age = now.wrapping_sub(self.best[0].0);
        if age > window {
            self.best = [self.best[1], self.best[2], s];
            if now.wrapping_sub(self.best[0].0) > window {
                self.best = [self.best[1], self.best[2], s];
            }
        } else if self.best[1].0 == self.best[0].0 && age > window / 4 {
            self.best[1] = s;
            self.best[2] = s;
        } else if self.best[2].0 == self.best[1].0 && age > window / 2 {
            self.best[2] = s;
        }
    }
}

/// The same for the maximum; zero before the first sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowedMax(WindowedMin);

impl WindowedMax {
    #[inline]
    pub fn get(&self) -> u32 {
        !self.0.get()
    }
    #[inline]
    pub fn update(&mut self, window: u32, now: u32, v: u32) {
        self.0.update(window, now, !v);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_forgotten_after_its_window() {
        let (mut low, mut high) = (WindowedMin::default(), WindowedMax::default());
        low.update(300, 0, 10);
        high.update(300, 0, 30);
        for t in 1..=299 {
            low.update(300, t, 20);
            high.update(300, t, 20);
        }
        assert_eq!((low.get(), high.get()), (10, 30));
        for t in 300..=601 {
            low.update(300, t, 20);
            high.update(300, t, 20);
        }
        assert_eq!((low.get(), high.get()), (20, 20));
    }
}
