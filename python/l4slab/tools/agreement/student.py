"""Student's t, for tests of means of few trials."""

from __future__ import annotations

from functools import cache

import numpy as np


def tail(t: float, freedom: float) -> float:
    """Probability of a larger value, at so many degrees of freedom."""
    if t < 0:
        return 1.0 - tail(-t, freedom)
    # t is the tangent of an angle, over the root of `freedom`, with the density cos^(freedom - 1), up to a factor.
    begin = float(np.arctan(t / np.sqrt(freedom)))
    part, half = (_integral(low, freedom - 1) for low in (begin, 0.0))
    return part / half / 2


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
