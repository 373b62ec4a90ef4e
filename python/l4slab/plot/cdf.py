"""Cumulative distributions: which part of the packets, or of the time, was below a value."""

from __future__ import annotations

import polars as pl

from l4slab.plot.lines import lines
from l4slab.plot.steps import steps
from l4slab.plot.style import Figure


def cdf(
    data: pl.DataFrame,
    *,
    label: str = "part of the packets (%)",
    x_label: str = "",
    limits: tuple[float, float] | None = None,
    x_limits: tuple[float, float] | None = None,
    x_log: bool = False,
) -> Figure | None:
    """A step function for each `part`: the percentage of `value` that is no greater than x.

    The data are as in `steps`; `panel` and `group` as in `lines`. A
    line that is not yet at 100 % where the axis ends leaves through its side. None without data.
    """
    drawn = steps(data)
    return lines(
        drawn, label=label, x_label=x_label, limits=limits or (0, 100), x_limits=x_limits, x_log=x_log,
        steps=True,
    )  # fmt: skip
