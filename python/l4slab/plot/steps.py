"""Cumulative distributions as the points of a step function."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

# A line of more steps could not be told from one of so many.
_STEPS = 1000


def steps(data: pl.DataFrame) -> pl.DataFrame:
    """Of values the percentage `y` that is no greater than `x`, for each `group`, `panel` and `part` that there is.

    Each row is a `value`, of the weight `count` where there is this column (the bin of a histogram, by its upper
    edge); or, with a column `fraction`, a point of the distribution itself (0 to 1). Empty without data.
    """
    data = data.drop_nulls("value")
    keys = [name for name in ("group", "panel", "part") if name in data.columns]
    if "part" not in keys:
        data, keys = data.with_columns(part=pl.lit("")), [*keys, "part"]
    found = [_of_one(one, keys) for one in data.partition_by(keys, maintain_order=True)]
    return pl.concat(found) if found else data.select(x="value", y="value")


def _of_one(one: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
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
