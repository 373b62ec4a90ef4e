"""Tests of means of few trials: Student's t, Welch's test, a permutation test; and Holm's correction for many tests."""

from __future__ import annotations

import itertools
import math
import random
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache

import polars as pl

# Of more ways than this to distribute the trials, so many are drawn. No p is smaller than 1 in so many.
WAYS = 100_000
# Of the angles from 0 to pi/2.
_STEPS = 20_000


def tail(t: float, freedom: float) -> float:
    """Probability of a larger value, at so many degrees of freedom."""
    if t < 0:
        return 1.0 - tail(-t, freedom)
    # t is the tangent of an angle, over the root of `freedom`, with the density cos^(freedom - 1), up to a factor.
    part = _integral(math.atan(t / math.sqrt(freedom)), freedom - 1)
    whole = math.sqrt(math.pi) * math.exp(math.lgamma(freedom / 2) - math.lgamma(freedom / 2 + 0.5))
    return part / whole


def quantile(probability: float, freedom: float) -> float:
    """The value that is exceeded with this probability, which is below one half."""
    low, high = 0.0, 1e6
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, freedom) > probability else (low, middle)
    return high


def within(parts: Sequence[float], freedom: float) -> list[float]:
    """Distances from 0 within which these parts of the distribution lie, each between 0 and 1."""
    reached = _inside(freedom)
    found = []
    for part in parts:
        place = min(max(bisect_left(reached, part), 1), _STEPS)
        low, high = reached[place - 1], reached[place]
        step = place - 1 + (part - low) / (high - low) if high > low else place
        found.append(math.sqrt(freedom) * math.tan(step * math.pi / 2 / _STEPS))
    return found


@cache
def _inside(freedom: float) -> list[float]:
    """The part of the distribution within each of `_STEPS` + 1 equally spaced angles."""
    density = [max(math.cos(step * math.pi / 2 / _STEPS), 0.0) ** (freedom - 1) for step in range(_STEPS + 1)]
    parts = list(itertools.accumulate((low + high for low, high in itertools.pairwise(density)), initial=0.0))
    return [part / parts[-1] for part in parts]


def _integral(low: float, power: float) -> float:
    """Of cos^power from there to pi/2, by Simpson's rule."""
    steps = 500
    width = (math.pi / 2 - low) / steps
    values: list[float] = [max(math.cos(low + step * width), 0.0) ** power for step in range(steps + 1)]
    return width / 3 * (values[0] + values[-1] + 4 * math.fsum(values[1:-1:2]) + 2 * math.fsum(values[2:-1:2]))


def welch(
    difference: float | None, sd: float | None, other_sd: float | None, count: int, other_count: int
) -> float | None:
    """Two-sided probability of a difference of means (Biometrika 34, 1947); None where it cannot be told."""
    if difference is None or sd is None or other_sd is None:
        return None
    a, b = sd**2 / count, other_sd**2 / other_count
    if a + b == 0:
        return 1.0 if difference == 0 else 0.0
    freedom = (a + b) ** 2 / (a**2 / (count - 1) + b**2 / (other_count - 1))
    return 2 * tail(abs(difference) / math.sqrt(a + b), freedom)


def permutation(before: Sequence[float], after: Sequence[float], sign: int = 0) -> float:
    """Of all ways to distribute these trials over two groups of the same sizes, in which part the means are so far
    apart: in either direction, or where `sign` is 1 or -1, for a rise or a fall only.

    If all trials have the same distribution, whatever it is, values up to x come out in at most x of all cases.
    """
    together = [*before, *after]
    mean = math.fsum(together) / len(together)
    values = pl.Series([value - mean for value in together], dtype=pl.Float64)
    # The sum of one group decides the difference of the means.
    sums = pl.Series([0.0])
    for chosen in _ways(len(before), len(after)):
        sums = sums + values.gather(chosen)
    sums = sign * sums if sign else sums.abs()
    rounding = 1e-9 * math.fsum(map(abs, values))
    return int((sums >= sums[0] - rounding).sum()) / len(sums)


def together(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]) -> list[float]:
    """Of each quantity, in which part of all ways to distribute the trials over two groups any of the quantities is
    as far apart as this one is now (Westfall and Young, 1993). `before` and `after` have the values per trial of each
    quantity; a trial's values go together.

    If nothing differs, the smallest of the results is up to x in at most x of all cases, however many quantities
    there are and however they depend on each other.
    """
    ways = _ways(len(before[0]), len(after[0]))
    largest = pl.Series([0.0] * len(ways[0]))
    own: list[float] = []
    for first, second in zip(before, after, strict=True):
        trials = [*first, *second]
        mean = math.fsum(trials) / len(trials)
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in trials))
        # Equal but for rounding.
        if spread <= 1e-9 * max(map(abs, trials)):
            own.append(0.0)
            continue
        scaled = pl.Series([(value - mean) / spread for value in trials], dtype=pl.Float64)
        sums = pl.Series([0.0])
        for chosen in ways:
            sums = sums + scaled.gather(chosen)
        sums = sums.abs()
        own.append(sums[0] - 1e-9)
        largest = pl.select(pl.max_horizontal(pl.lit(largest), pl.lit(sums))).to_series()
    return [int((largest >= value).sum()) / len(largest) if value > 0 else 1.0 for value in own]


@cache
def _ways(count: int, other: int) -> list[pl.Series]:
    """The first member of the second group in each way to choose that group, the second member, and so on. The first
    way is the one that was found.
    """
    total = count + other
    found = tuple(range(count, total))
    if math.comb(total, other) <= WAYS:
        ways = sorted(itertools.combinations(range(total), other), reverse=True)
    else:
        draw = random.Random(1)  # noqa: S311  (not a secret)
        ways = [found, *(tuple(draw.sample(range(total), other)) for _ in range(WAYS))]
    return [pl.Series(members, dtype=pl.UInt32) for members in zip(*ways, strict=True)]


def holm(probabilities: Sequence[float], chance: float) -> list[bool]:
    """Which are beyond chance, all together (Scandinavian Journal of Statistics 6, 1979)."""
    found = [False] * len(probabilities)
    for rank, place in enumerate(sorted(range(len(found)), key=probabilities.__getitem__)):
        if probabilities[place] > chance / (len(found) - rank):
            break
        found[place] = True
    return found
