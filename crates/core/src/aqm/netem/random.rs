//! Chance in netem: its generator, correlated numbers, and the three models of loss.

use crate::rng::Rng;

/// The combined Tausworthe generator LFSR113 (L'Ecuyer, "Tables of maximally equidistributed combined
/// LFSR generators", 1999), seeded as Linux `prandom_seed_state` does: the same `seed`, the same numbers
/// as in the kernel.
#[derive(Clone, Debug)]
pub struct Lfsr113([u32; 4]);

/// Per component: shifts q and (k - s) of the recurrence, the bits that count, and the step s.
const COMPONENTS: [(u32, u32, u32, u32); 4] =
    [(6, 13, !1, 18), (2, 27, !7, 2), (13, 21, !15, 7), (3, 12, !127, 13)];

impl Lfsr113 {
    pub fn new(seed: u64) -> Lfsr113 {
        let x = ((seed >> 32) ^ (seed << 10) ^ seed) as u32;
        // A component whose counting bits are all zero would stay there.
        Lfsr113([2, 8, 16, 128].map(|least| if x < least { x + least } else { x }))
    }
    pub fn u32(&mut self) -> u32 {
        for (z, (q, r, bits, s)) in self.0.iter_mut().zip(COMPONENTS) {
            *z = ((*z & bits) << s) ^ (((*z << q) ^ *z) >> r);
        }
        self.0.iter().fold(0, |all, z| all ^ z)
    }
}

/// Where a netem draws from: with `seed` its own generator, otherwise the run's.
#[derive(Clone, Debug)]
pub struct Source(pub Option<Lfsr113>);

impl Source {
    #[inline]
    pub fn u32(&mut self, rng: &mut Rng) -> u32 {
        match &mut self.0 {
            Some(own) => own.u32(),
            None => rng.u32(),
        }
    }
}

/// Numbers of 32 bits, each a mean of a fresh one and the one before: x' = (1 - rho) fresh + rho x.
/// Their variance is (1 - rho)/(1 + rho) of the uniform one.
#[derive(Clone, Debug)]
pub struct Correlated {
    /// rho, of 2^32.
    rho: u32,
    last: Option<u32>,
}

impl Correlated {
    pub fn new(rho: Rho) -> Correlated {
        Correlated { rho: rho.get(), last: None }
    }
    pub fn change(&mut self, to: Correlated) {
        if self.rho != to.rho {
            *self = to;
        }
    }
    #[inline]
    pub fn next(&mut self, source: &mut Source, rng: &mut Rng) -> u32 {
        if self.rho == 0 {
            return source.u32(rng);
        }
        // Linux starts from a number that `seed` does not determine.
        let last = u64::from(*self.last.get_or_insert_with(|| rng.u32()));
        let rho = u64::from(self.rho) + 1;
        let fresh = u64::from(source.u32(rng));
        let next = ((fresh * ((1 << 32) - rho) + last * rho) >> 32) as u32;
        self.last = Some(next);
        next
    }
}

/// A correlation in 2^-32. `None`, where nobody said one, is 0, except in a change, which keeps the one that was there.
#[derive(Copy, Clone, Eq, Debug, Default)]
pub struct Rho(pub Option<u32>);

impl Rho {
    pub fn get(self) -> u32 {
        self.0.unwrap_or(0)
    }
}

impl PartialEq for Rho {
    fn eq(&self, other: &Rho) -> bool {
        self.get() == other.get()
    }
}

/// A probability (of [`u32::MAX`]) and the correlation of successive decisions.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Chance {
    pub probability: u32,
    pub correlation: Rho,
}

/// Decisions by a [`Chance`].
#[derive(Clone, Debug)]
pub struct Bernoulli {
    probability: u32,
    numbers: Correlated,
}

impl Bernoulli {
    pub fn new(chance: Chance) -> Bernoulli {
        Bernoulli { probability: chance.probability, numbers: Correlated::new(chance.correlation) }
    }
    /// Goes on with another chance; a correlation that stays knows its last number.
    pub fn change(&mut self, to: Bernoulli) {
        self.probability = to.probability;
        self.numbers.change(to.numbers);
    }
    #[inline]
    pub fn hit(&mut self, source: &mut Source, rng: &mut Rng) -> bool {
        self.probability > 0 && self.probability >= self.numbers.next(source, rng)
    }
}

/// A model of loss; probabilities are of [`u32::MAX`].
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Loss {
    Random(Chance),
    /// Four states (Salsano, Ludovici, Ordine: "Definition of a general and intuitive loss model",
    /// 2009): received in a gap (1) and in a burst (2), lost in a burst (3), lost alone in a gap (4).
    State {
        p13: u32,
        p31: u32,
        p32: u32,
        p23: u32,
        p14: u32,
    },
    /// Gilbert and Elliott: a good state, left with p, where a packet gets lost with 1-k, and a bad one,
    /// left with r, where it gets lost with 1-h.
    GeModel {
        p: u32,
        r: u32,
        h: u32,
        one_minus_k: u32,
    },
}

/// A [`Loss`] at work.
#[derive(Clone, Debug)]
pub enum LossChain {
    Random(Bernoulli),
    State { model: Loss, state: u8 },
    GeModel { model: Loss, bad: bool },
}

impl LossChain {
    pub fn new(model: Loss) -> LossChain {
        match model {
            Loss::Random(chance) => LossChain::Random(Bernoulli::new(chance)),
            Loss::State { .. } => LossChain::State { model, state: 1 },
            Loss::GeModel { .. } => LossChain::GeModel { model, bad: false },
        }
    }

    /// Goes on with another model.
    pub fn change(&mut self, to: LossChain) {
        match (self, to) {
            (LossChain::Random(dice), LossChain::Random(to)) => dice.change(to),
            (chain, to) => *chain = to,
        }
    }

    /// Is the next packet lost?
    #[inline]
    pub fn loses(&mut self, source: &mut Source, rng: &mut Rng) -> bool {
        match self {
            LossChain::Random(dice) => dice.hit(source, rng),
            LossChain::State { model, state } => {
                let Loss::State { p13, p31, p32, p23, p14 } = *model else { return false };
                let x = source.u32(rng);
                let next = match *state {
                    1 if x < p14 => 4,
                    1 if x < p13.wrapping_add(p14) => 3,
                    2 if x < p23 => 3,
                    3 if x < p32 => 2,
                    3 if x < p31.wrapping_add(p32) => 1,
                    4 => 1, // an isolated loss is one packet
                    same => same,
                };
                *state = next;
                next >= 3
            }
            LossChain::GeModel { model, bad } => {
                let Loss::GeModel { p, r, h, one_minus_k } = *model else { return false };
                // The state changes first, but the packet meets the loss of the state it found.
                let found_bad = *bad;
                *bad ^= source.u32(rng) < if found_bad { r } else { p };
                let x = source.u32(rng);
                if found_bad { x > h } else { x < one_minus_k }
            }
        }
    }
}
