"""The distributions of delays and completion times, from histograms."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from l4slab.base.numbers import NO_DELAY_MS

# Of each quantity: what is counted, and how to say that one is beyond a value.
NAMES = {
    "sojourn_ms": ("queue delay (ms)", "packets", "waited longer"),
    "rtt_ms": ("RTT (ms)", "samples", "were longer"),
    "completion_ms": ("completion time (ms)", "transfers", "took longer"),
    "frame_ms": ("latency of a frame (ms)", "frames", "took longer"),
    "view_ms": ("delay of a view (ms)", "inputs", "took longer"),
}
# Shorter delays are drawn at the left end of the axis.
_MIN_MS = NO_DELAY_MS
# The tail is drawn down to this part of all.
_RAREST_PCT = 0.01
# Points of a line to a decade of the axis.
_POINTS = 100


def distribution(rows: pl.DataFrame) -> pl.DataFrame:
    """`low_ms` to `ms`, the part in percent `below` that, and how many there are (`all`)."""
    found = (
        rows.group_by(pl.col("low_ms").clip(_MIN_MS), pl.col("high_ms").clip(_MIN_MS))
        .agg(pl.col("count").sum())
        .sort("high_ms", "low_ms")
        .with_columns(below=100 * pl.col("count").cum_sum() / pl.col("count").sum(), all=pl.col("count").sum())
        .rename({"high_ms": "ms"})
    )
    place = (pl.col("ms").log10() * _POINTS).floor()
    return found.group_by(place.alias("place"), maintain_order=True).agg(
        pl.col("low_ms").first(), pl.col("ms", "below", "all").last()
    )


def points(histograms: pl.DataFrame, quantity: str, flows: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    """The data of `delays` for each flow with such a distribution: points of (ms, percent below that)."""
    rows = histograms.filter(pl.col("flow").is_not_null(), quantity=quantity)
    drawn = {name: one for name in flows if len(one := distribution(rows.filter(flow=name)))}
    return {name: points_of(one, ends_of(list(drawn.values()))[0]) for name, one in drawn.items()}


def points_of(one: pl.DataFrame, begin_ms: float) -> list[tuple[float, float]]:
    """The steps of a distribution from `begin_ms` on."""
    found = [(begin_ms, 0.0)]
    for low, high, part in one.select("low_ms", "ms", "below").iter_rows():
        found += [(low, found[-1][1]), (high, part)] if low > found[-1][0] else [(high, part)]
    return found


def ends_of(found: Sequence[pl.DataFrame]) -> tuple[float, float]:
    """The ends of an axis on which these distributions are drawn, in ms."""
    low, high = min(one["low_ms"][0] for one in found), max(one["ms"][-1] for one in found)
    return max(low, _MIN_MS) / 1.12, high * 1.12


def rarest(most: float) -> float:
    """The lower end of a tail's axis in percent: one of 10 000, or of the `most` that a flow has."""
    return max(_RAREST_PCT, min(50.0, 100 / most))
