"""Tests of means of few trials: Student's t, Welch's test, a permutation test; and Holm's correction for many tests."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache

import numpy as np

# Of more ways than this to distribute the trials, so many are drawn. No p is smaller than 1 in so many.
WAYS = 100_000


def tail(t: float, freedom: float) -> float:
    """Probability of a larger value, at so many degrees of freedom."""
    if t < 0:
        return 1.0 - tail(-t, freedom)
    # t is the tangent of an angle, over the root of `freedom`, with the density cos^(freedom - 1), up to a factor.
    begin = float(np.arctan(t / np.sqrt(freedom)))
    part, half = (_integral(low, freedom - 1) for low in (begin, 0.0))
    return part / half / 2


def quantile(probability: float, freedom: float) -> float:
    """The value that is exceeded with this probability, which is below one half."""
    low, high = 0.0, 1e6
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, freedom) > probability else (low, middle)
    return high


def within(parts: np.ndarray, freedom: float) -> np.ndarray:
    """Distances from 0 within which these parts of the distribution lie, each between 0 and 1."""
    return np.asarray(np.sqrt(freedom) * np.tan(np.interp(parts, *_inside(freedom))))


@cache
def _inside(freedom: float) -> tuple[np.ndarray, np.ndarray]:
    """The part of the distribution within angles from 0 to pi/2, and these."""
    angles = np.linspace(0, np.pi / 2, 100_001)
    density = np.clip(np.cos(angles), 0, None) ** (freedom - 1)
    parts = np.concatenate(([0.0], np.cumsum(density[1:] + density[:-1])))
    return parts / parts[-1], angles


def _integral(low: float, power: float) -> float:
    """Of cos^power from there to pi/2."""
    x = np.linspace(low, np.pi / 2, 4001)
    return float(np.trapezoid(np.clip(np.cos(x), 0, None) ** power, x))


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
    return 2 * tail(abs(difference) / np.sqrt(a + b), freedom)


def permutation(before: Sequence[float], after: Sequence[float], sign: int = 0) -> float:
    """Of all ways to distribute these trials over two groups of the same sizes, in which part the means are so far
    apart: in either direction, or where `sign` is 1 or -1, for a rise or a fall only.

    If all trials have the same distribution, whatever it is, values up to x come out in at most x of all cases.
    """
    values = np.array([*before, *after], float)
    values -= values.mean()
    after_of = _ways(len(before), len(after))
    # The sum of one group decides the difference of the means.
    sums = after_of @ values
    observed = sums[0]
    if sign:
        sums, observed = sign * sums, sign * observed
    else:
        sums, observed = np.abs(sums), abs(observed)
    return float(np.mean(sums >= observed - 1e-9 * np.abs(values).sum()))


@cache
def _ways(count: int, other: int) -> np.ndarray:
    """A row per way to choose the second group, with 1 for its members. The first row is the way that was found."""
    total = count + other
    if math.comb(total, other) <= WAYS:
        chosen = np.array(list(itertools.combinations(range(total), other)))[::-1]
    else:
        drawn = np.random.default_rng(1).random((WAYS, total)).argsort(axis=1)[:, :other]
        chosen = np.vstack([np.arange(count, total), drawn])
    ways = np.zeros((len(chosen), total))
    np.put_along_axis(ways, chosen, 1, axis=1)
    return ways


def holm(probabilities: Sequence[float], chance: float) -> list[bool]:
    """Which are beyond chance, all together (Scandinavian Journal of Statistics 6, 1979)."""
    values = np.asarray(probabilities, float)
    order = np.argsort(values, kind="stable")
    allowed = chance / (len(values) - np.arange(len(values)))
    kept = np.cumprod(values[order] <= allowed).astype(bool)
    found = np.zeros(len(values), bool)
    found[order] = kept
    return [bool(one) for one in found]
