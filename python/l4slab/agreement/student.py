"""Student's t, for tests of means of few trials."""

from __future__ import annotations

import numpy as np


def tail(t: float, freedom: float) -> float:
    """Probability of a larger value, at so many degrees of freedom."""
    if t < 0:
        return 1.0 - tail(-t, freedom)
    # t is the tangent of an angle, over the root of `freedom`, with the density cos^(freedom - 1), up to a factor.
    begin = float(np.arctan(t / np.sqrt(freedom)))
    part, half = (_integral(low, freedom - 1) for low in (begin, 0.0))
    return part / half / 2


def _integral(low: float, power: float) -> float:
    """Of cos^power from there to pi/2."""
    x = np.linspace(low, np.pi / 2, 4001)
    return float(np.trapezoid(np.clip(np.cos(x), 0, None) ** power, x))
