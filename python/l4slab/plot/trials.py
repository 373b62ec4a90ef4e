"""Which trial stands for the others."""

from __future__ import annotations

import polars as pl


def median_trial(rows: pl.DataFrame, since_s: float = 0) -> int:
    """The trial whose flows' mean rates from `since_s` on are nearest to the median over the trials.

    `rows` are those of one case, of `series` or `flows`. The first of several equally near.
    """
    measured = pl.col("time_s") > since_s if "time_s" in rows.columns else pl.lit(True)
    rates = (
        rows.filter(pl.col("flow").is_not_null(), measured)
        .group_by("flow", "trial")
        .agg(pl.col("rate_mbps").fill_null(pl.col("goodput_mbps")).mean().fill_null(0.0).alias("rate"))
    )
    off = (pl.col("rate") - pl.col("rate").median().over("flow")).abs()
    trials = (
        rates.with_columns(off.alias("off")).group_by("trial").agg(pl.col("off").sum().round(9)).sort("off", "trial")
    )
    first = trials["trial"].first() if len(trials) else rows["trial"].min()
    return int(first) if isinstance(first, int) else 1
