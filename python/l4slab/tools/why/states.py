"""The first state of a flow that differs between two sides, and both drawn above each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from l4slab.base import metrics
from l4slab.tools.why.quantities import SMALLEST, STATES, Trial

# Samples in a row in which all trials of one side are above all of the other.
_IN_A_ROW = 3
_WIDTH = 64
_HEIGHTS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class State:
    """A state of a flow that differs from `time_s` on: means over the trials of both sides by time."""

    flow: str
    name: str
    time_s: float
    times: tuple[float, ...]
    a: tuple[float, ...]
    b: tuple[float, ...]

    @property
    def at(self) -> tuple[float, float]:
        """Both at that time."""
        place = self.times.index(self.time_s)
        return self.a[place], self.b[place]

    def drawn(self) -> tuple[str, str, str]:
        """Both sides in a line each, with one scale, and a mark below where they part."""
        top = max(*self.a, *self.b) or 1.0
        lines = []
        for side in (self.a, self.b):
            columns = [side[part] for part in _columns(len(side))]
            means = [math.fsum(column) / len(column) for column in columns]
            lines.append("".join(_HEIGHTS[round(max(one / top, 0) * (len(_HEIGHTS) - 1))] for one in means))
        place = self.times.index(self.time_s)
        column = next(number for number, part in enumerate(_columns(len(self.times))) if place < part.stop)
        return lines[0], lines[1], " " * column + f"^ {self.time_s:g} s"


def _columns(count: int) -> list[slice]:
    width = min(_WIDTH, count)
    return [slice(column * count // width, (column + 1) * count // width) for column in range(width)]


def first(a: Sequence[Trial], b: Sequence[Trial]) -> list[State]:
    """Of each flow of both sides and each state the first sample that differs, the earliest first.

    It differs where all trials of one side are above all of the other by more than 1 %, three samples in a row. This is
    asked only of sides that differ beyond chance.
    """
    found = []
    names = _names([*a, *b])
    sides = (_spread(a, names), _spread(b, names))
    both = sides[0].join(sides[1], on=("flow", "time_s"), suffix="_b").sort("flow", "time_s")
    for (flow,), rows in both.group_by("flow", maintain_order=True):
        for name in names:
            columns = [f"{name}_{what}" for what in ("min", "max", "mean")]
            if any(column not in rows.columns or f"{column}_b" not in rows.columns for column in columns):
                continue
            known = rows.drop_nulls([f"{name}_mean", f"{name}_mean_b"])
            low, high, mean = (known[column] for column in columns)
            low_b, high_b, mean_b = (known[f"{column}_b"] for column in columns)
            apart = ((low > high_b) | (low_b > high)) & (
                (mean - mean_b).abs() > SMALLEST * pl.select(pl.max_horizontal(mean, mean_b)).to_series()
            )
            place = _run(apart.to_list())
            if place is not None:
                times = tuple(known["time_s"])
                found.append(State(str(flow), name, times[place], times, tuple(mean), tuple(mean_b)))
    return sorted(found, key=lambda one: (one.time_s, names.index(one.name)))


def _names(trials: Sequence[Trial]) -> list[str]:
    """The states that every trial has: window, RTT and rate, then the gauges of the controllers."""
    usual = {*metrics.LABELS, *metrics.SERIES, *metrics.SIM_SERIES}
    gauges = [name for name, kind in trials[0].series.schema.items() if name not in usual and kind.is_numeric()]
    return [*STATES, *(name for name in gauges if all(name in trial.series.columns for trial in trials))]


def _spread(trials: Sequence[Trial], names: Sequence[str]) -> pl.DataFrame:
    rows = pl.concat([trial.series.select("time_s", "flow", pl.col(names).cast(pl.Float64)) for trial in trials])
    rows = rows.filter(pl.col("flow").is_not_null()).with_columns(pl.col("time_s").round(3))
    each = [getattr(pl.col(name), what)().alias(f"{name}_{what}") for name in names for what in ("min", "max", "mean")]
    return rows.group_by("flow", "time_s").agg(each)


def _run(apart: Sequence[bool]) -> int | None:
    for place in range(len(apart) - _IN_A_ROW + 1):
        if all(apart[place : place + _IN_A_ROW]):
            return place
    return None
