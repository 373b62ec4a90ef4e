"""Differences between the results of two kernels beyond the spread of their trials."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import polars as pl

from l4slab.base import metrics
from l4slab.results import chance
from l4slab.sweep import Run
from l4slab.tools.agreement import compare

# Fewer say nothing about their spread.
LEAST_TRIALS = 3
# With fewer even large differences may be chance.
ENOUGH_TRIALS = 5
# How often anything may be called changed in a comparison of a kernel with itself.
CHANCE = 0.01
# A smaller part of the larger value is of no interest.
SMALLEST = 0.01
# Fewer samples of an RTT than this on both kernels (mean over the trials) make no mean: a short flow that is over
# before the next sample has one by chance, in a trial or in none.
LEAST_SAMPLES = 10

_PLACE = ("flow", "link", "queue")
# Behind the experiment and its factors.
COLUMNS: metrics.Schema = {
    **{name: pl.String() for name in (*_PLACE, "quantity")},
    "kernel": pl.Float64(),  # mean over the trials
    "kernel_sd": pl.Float64(),  # their standard deviation
    "kernel_trials": pl.Int64(),  # that have a value
    "against": pl.Float64(),
    "against_sd": pl.Float64(),
    "against_trials": pl.Int64(),
    "difference": pl.Float64(),  # kernel - against
    "p": pl.Float64(),  # of Welch's test, two-sided; NULL where only one kernel has it
    "changed": pl.Boolean(),
}


class KernelRow(TypedDict):
    """A row of `kernels.parquet`, but for the levels of the factors."""

    flow: str | None
    link: str | None
    queue: str | None
    quantity: str
    kernel: float | None
    kernel_sd: float | None
    against: float | None
    against_sd: float | None
    difference: float | None
    p: float | None
    changed: bool


class ChangedRow(KernelRow):
    """The surest change of a cell, and how many changes that has."""

    changes: int


@dataclass(frozen=True)
class Comparison:
    """The differences between two kernels: `rows` as in `kernels.parquet`, `missing` the cells that one has not run."""

    folder: Path
    rows: pl.DataFrame
    missing: pl.DataFrame
    failures: list[tuple[Run, str]]

    @property
    def cells(self) -> pl.DataFrame:
        """The cells: experiment, levels, and whether one of their quantities has changed."""
        return self.rows.group_by(_cell(self.rows), maintain_order=True).agg(pl.col("changed").any())

    @property
    def trials(self) -> int:
        """The fewest that a quantity has on a kernel."""
        counts = self.rows.filter((pl.col("kernel_trials") > 0) & (pl.col("against_trials") > 0))
        fewest = counts.select(pl.min_horizontal("kernel_trials", "against_trials").min()).item()
        return LEAST_TRIALS if fewest is None else max(int(fewest), 2)

    def shows_from(self, trials: int) -> float:
        """The least difference that is beyond chance with so many trials, in standard deviations of a trial."""
        allowed = CHANCE / max(len(self.rows), 1)
        return chance.quantile(allowed / 2, 2 * trials - 2) * math.sqrt(2 / trials)

    @property
    def same(self) -> bool:
        """Whether every cell has run on both and none has changed."""
        return not self.rows["changed"].any() and self.missing.is_empty() and not self.failures

    def worst(self) -> pl.DataFrame:
        """Of each changed cell, the row that is surest, and `changes`: how many of its rows have changed."""
        cell = _cell(self.rows)
        changed = self.rows.filter("changed").with_columns(changes=pl.len().over(cell))
        part = pl.col("difference").abs() / pl.max_horizontal(pl.col("kernel").abs(), pl.col("against").abs())
        order = pl.col("p").fill_null(0), part.fill_nan(0)
        return changed.sort(order, descending=[False, True], maintain_order=True).unique(
            cell, keep="first", maintain_order=True
        )


def compared(kernel: compare.Side, against: compare.Side) -> pl.DataFrame:
    """A row per cell, place and quantity that both have run, with `COLUMNS`."""
    cell = ["experiment", *compare.factors_of(kernel)]
    keys = [*cell, *_PLACE, "quantity"]
    sides = [_spread(side, name, keys) for name, side in (("kernel", kernel), ("against", against))]
    sides = [a.join(b.select(cell).unique(), on=cell, how="semi", nulls_equal=True) for a, b in (sides, sides[::-1])]
    rows = sides[0].join(sides[1], on=[*keys, "position"], how="full", coalesce=True, nulls_equal=True)
    rows = rows.filter(pl.col("kernel").is_not_null() | pl.col("against").is_not_null()).with_columns(
        pl.col("kernel_trials").fill_null(0),
        pl.col("against_trials").fill_null(0),
        difference=pl.col("kernel") - pl.col("against"),
    )
    of_one = (pl.col("kernel_trials") == 0) | (pl.col("against_trials") == 0)
    # A value of a few packets is none.
    silent = pl.max_horizontal("kernel_packets", "against_packets").fill_null(0) < compare.LEAST_PACKETS
    silent |= (pl.max_horizontal("kernel_samples", "against_samples") < LEAST_SAMPLES).fill_null(value=False)
    rows = rows.filter(~silent).with_columns(p=pl.when(of_one).then(None).otherwise(_chance(rows.filter(~silent))))
    largest = pl.max_horizontal(pl.col("kernel").abs(), pl.col("against").abs())
    counts = pl.col("difference").abs() > SMALLEST * largest
    rows = rows.with_columns(
        changed=of_one | (pl.Series(chance.holm(rows["p"].fill_null(1.0).to_list(), CHANCE)) & counts)
    )
    order = kernel.labels.select(cell).unique(maintain_order=True).with_row_index("cell_order")
    rows = rows.join(order, on=cell, nulls_equal=True).sort("cell_order", *_PLACE, "position", nulls_last=False)
    return rows.select(*cell, *COLUMNS)


def _spread(side: compare.Side, name: str, keys: list[str]) -> pl.DataFrame:
    """Mean and standard deviation over the trials of every quantity."""
    value = pl.col("value")
    return (
        compare.values(side, keys)
        .group_by([*keys, "position"], maintain_order=True)
        .agg(
            value.mean().alias(name),
            value.std().alias(f"{name}_sd"),
            value.count().cast(pl.Int64).alias(f"{name}_trials"),
            pl.col("packets").mean().alias(f"{name}_packets"),
            pl.col("samples").mean().alias(f"{name}_samples"),
        )
    )


def _chance(rows: pl.DataFrame) -> pl.Series:
    """By row, how often trials of one kernel would be so far apart."""
    columns = (rows["difference"], rows["kernel_sd"], rows["against_sd"], rows["kernel_trials"], rows["against_trials"])
    found = [chance.welch(*row) for row in zip(*(column.to_list() for column in columns), strict=True)]
    return pl.Series("p", found, dtype=pl.Float64)


def _cell(rows: pl.DataFrame) -> list[str]:
    return [name for name in rows.columns if name not in COLUMNS]
