"""A mean with its spread for every part of every bar: delays and probabilities of several classes side by side."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from l4slab.base.values import Row
from l4slab.plot.bars import lay_out, parts_of
from l4slab.plot.roles import looks
from l4slab.plot.style import GRID, Figure, legend, mark_published, named, plain_log, published_handle, styled

_PLACE = ("panel", "group", "bar")


def spread(
    data: pl.DataFrame, *, label: str = "", limits: tuple[float, float] | None = None, log: bool = False
) -> Figure | None:
    """Marks at `mean`, lines from `low` to `high`, by `panel`, `group`, `bar` and `part`, in the order of the rows.

    A row without a mean only keeps its place. With `published` (and its reading `error`), diamonds around the published
    mean; with `published_high`, small ones at the published end of the line. Parts have the colour and marker of their
    role. A mean beyond the `limits` is an arrow at that end of the axis. None without data.
    """
    data = named(data, *_PLACE[:2])
    drawn = data.drop_nulls("mean")
    if drawn.is_empty():
        return None
    parts = parts_of(drawn)
    compared = "published" in data.columns and data["published"].count() > 0
    beside = {
        key: list(rows["part"].unique(maintain_order=True)) for key, rows in drawn.group_by(_PLACE, maintain_order=True)
    }
    # Names below the bars tell them apart, so that all of one sender look alike, and there is no legend.
    told = all(map(_said_by_the_tick, beside.items()))
    look = {part: looks([part])[part] for part in parts} if told else looks(parts)
    width = 0.85 / max(map(len, beside.values()))
    with styled():
        figure = Figure()
        for panel in lay_out(figure, data, label):
            axis = panel.axis
            if log:
                axis.set_yscale("log")
                plain_log(axis.yaxis)
            if limits:
                axis.set_ylim(*limits)
            low_end, high_end = limits or (float("-inf"), float("inf"))
            for part in parts:
                rows = panel.rows.filter(pl.col("part") == part).drop_nulls("mean")
                if rows.is_empty():  # the layout takes a line of no points for one at the figure's corner
                    continue
                colour = look[part].colour
                x = np.array([panel.at(row) + _offset(row, beside) * width for row in rows.iter_rows(named=True)])
                low, mean, high = (rows[name].fill_null(rows["mean"]).to_numpy() for name in ("low", "mean", "high"))
                low = np.maximum(low, low_end)  # zero is nowhere on a log axis
                axis.vlines(x, low, high, color=colour, linewidth=1.1)
                axis.plot(x, high, linestyle="", marker="_", markersize=4.5, color=colour)
                # A marker at the very end of the axis is drawn whole, one beyond it is an arrow at the end.
                place: Any = {"linestyle": "", "markersize": 4, "color": colour, "clip_on": False}
                inside = (mean >= low_end) & (mean <= high_end)
                if inside.any():
                    axis.plot(x[inside], mean[inside], marker=look[part].marker, **place)
                for end, beyond, arrow in ((low_end, mean < low_end, 7), (high_end, mean > high_end, 6)):
                    if beyond.any():
                        axis.plot(x[beyond], np.full(beyond.sum(), end), marker=arrow, **place)
                _mark(axis, rows, x, low_end, high_end)
            for left in list(panel.places.values())[1:]:
                axis.axvline(left - 0.5, color=GRID, linewidth=0.5, zorder=0)
        handles = [
            Line2D([], [], linestyle="", marker=look[part].marker, markersize=5, color=look[part].colour, label=part)
            for part in parts
        ]
        legend(figure, [*([] if told else handles), *([published_handle()] if compared else [])])
    return figure


def _said_by_the_tick(bar_and_parts: tuple[tuple[Any, ...], list[str]]) -> bool:
    """Whether the name below the bar is that of its only part."""
    (*_, bar), parts = bar_and_parts
    return [re.sub(r"\W+", " ", part) for part in parts] == [re.sub(r"\W+", " ", str(bar))]


def _offset(row: Row, beside: dict[tuple[Any, ...], list[str]]) -> float:
    """How far from the middle of its bar's place a part stands, in widths of a part."""
    parts = beside[tuple(row[name] for name in _PLACE)]
    return parts.index(str(row["part"])) - (len(parts) - 1) / 2


def _mark(axis: Axes, rows: pl.DataFrame, x: np.ndarray, low_end: float, high_end: float) -> None:
    for name, size in (("published", 6.0), ("published_high", 3.8)):
        if name not in rows.columns:
            continue
        value = rows[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        there = (value >= low_end) & (value <= high_end)
        error = rows["error"].to_numpy()[there] if "error" in rows.columns and name == "published" else None
        if there.any():
            mark_published(axis, x[there], value[there], error, markersize=size, markeredgewidth=0.7)
