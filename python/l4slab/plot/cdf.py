"""Cumulative distributions: which part of the packets, or of the time, was below a value."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from l4slab.plot.lines import lines
from l4slab.plot.style import Figure

# A line of more steps could not be told from one of so many.
_STEPS = 1000


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

    Each row is a value, of the weight `count` where there is this column (the bin of a histogram, by its upper edge);
    or, with a column `fraction`, a point of the distribution itself (0 to 1). `panel` and `group` as in `lines`. A
    line that is not yet at 100 % where the axis ends leaves through its side. None without data.
    """
    data = data.drop_nulls("value")
    if data.is_empty():
        return None
    keys = [name for name in ("group", "panel", "part") if name in data.columns]
    if "part" not in keys:
        data, keys = data.with_columns(part=pl.lit("")), [*keys, "part"]
    drawn = [_steps(one, keys) for one in data.partition_by(keys, maintain_order=True)]
    return lines(
        pl.concat(drawn), label=label, x_label=x_label, limits=limits or (0, 100), x_limits=x_limits, x_log=x_log,
        steps=True,
    )  # fmt: skip


def _steps(one: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The distribution of one line, as x and y in percent."""
    if "fraction" in one.columns:
        found = one.select("value", y=100 * pl.col("fraction")).sort("value", maintain_order=True)
    else:
        weight = pl.col("count") if "count" in one.columns else pl.lit(1)
        counts = one.select("value", weight=weight.cast(pl.Float64)).group_by("value").agg(pl.col("weight").sum())
        found = counts.sort("value").select("value", y=100 * pl.col("weight").cum_sum() / pl.col("weight").sum())
    # It rises from zero at its first value; of very many steps, those at equal distances of the percentage.
    first = pl.DataFrame({"value": [found["value"][0]], "y": [0.0]}, schema=found.schema)
    thinned = (
        found.group_by((pl.col("y") * _STEPS / 100).floor().alias("step"), maintain_order=True)
        .last()
        .select(found.columns)
    )
    steps = pl.concat([first, thinned]) if found["y"][0] > 0 else thinned
    return steps.select(x=pl.col("value").cast(pl.Float64), y="y").with_columns(
        *(pl.lit(one[name][0]).alias(name) for name in keys)
    )
