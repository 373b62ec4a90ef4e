"""A mean with its spread for every part of every bar: delays and probabilities of several classes side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from l4slab.plot.bars import lay_out, parts_of
from l4slab.plot.roles import looks
from l4slab.plot.style import GRID, Figure, legend, mark_published, plain_log, published_handle, styled


def spread(
    data: pl.DataFrame, *, label: str = "", limits: tuple[float, float] | None = None, log: bool = False
) -> Figure | None:
    """Marks at `mean`, lines from `low` to `high`, by `panel`, `group`, `bar` and `part`, in the order of the rows.

    With `published` (and its reading `error`), diamonds around the published mean; with `published_high`, small ones
    at the published end of the line. Parts have the colour and marker of their role. On a `log` axis, what lies below
    its lower end stands there as an arrow. None without data.
    """
    data = data.drop_nulls("mean")
    if data.is_empty():
        return None
    parts = parts_of(data)
    look = looks(parts)
    step = 0.8 / len(parts)
    compared = "published" in data.columns and data["published"].count() > 0
    with styled():
        figure = Figure()
        handles = {}
        for panel in lay_out(figure, data, label):
            axis = panel.axis
            if log:
                axis.set_yscale("log")
                plain_log(axis.yaxis)
            if limits:
                axis.set_ylim(*limits)
            low_end, high_end = limits or (float("-inf"), float("inf"))
            for number, part in enumerate(parts):
                rows = panel.rows.filter(pl.col("part") == part)
                colour = look[part].colour
                x = np.array(
                    [panel.at(row) + (number - (len(parts) - 1) / 2) * step for row in rows.iter_rows(named=True)]
                )
                low, mean, high = (rows[name].fill_null(rows["mean"]).to_numpy() for name in ("low", "mean", "high"))
                low = np.maximum(low, low_end)  # zero is nowhere on a log axis
                axis.vlines(x, low, high, color=colour, linewidth=1.1)
                axis.plot(x, high, linestyle="", marker="_", markersize=4.5, color=colour)
                # A marker at the very end of the axis is drawn whole, one beyond it is an arrow at the end.
                place: Any = {"linestyle": "", "markersize": 4, "color": colour, "clip_on": False}
                inside = (mean >= low_end) & (mean <= high_end)
                (handles[part],) = axis.plot(x[inside], mean[inside], marker=look[part].marker, label=part, **place)
                for end, beyond, arrow in ((low_end, mean < low_end, 7), (high_end, mean > high_end, 6)):
                    axis.plot(x[beyond], np.full(beyond.sum(), end), marker=arrow, **place)
                _mark(axis, rows, x, low_end, high_end)
            for left in list(panel.places.values())[1:]:
                axis.axvline(left - 0.5, color=GRID, linewidth=0.5, zorder=0)
        legend(figure, [*handles.values(), *([published_handle()] if compared else [])])
    return figure


def _mark(axis: Axes, rows: pl.DataFrame, x: np.ndarray, low_end: float, high_end: float) -> None:
    for name, size in (("published", 7.0), ("published_high", 4.5)):
        if name not in rows.columns:
            continue
        value = rows[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        there = (value >= low_end) & (value <= high_end)
        error = rows["error"].to_numpy()[there] if "error" in rows.columns and name == "published" else None
        mark_published(axis, x[there], value[there], error, markersize=size, markeredgewidth=0.7)
