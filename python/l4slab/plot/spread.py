"""A mean with its spread for every part of every bar: delays and probabilities of several classes side by side."""

from __future__ import annotations

import polars as pl
from matplotlib.figure import Figure

from l4slab.plot.bars import lay_out, legend_columns, parts_of
from l4slab.plot.style import COLOURS, MARKERS, plain_log, styled


def spread(
    data: pl.DataFrame, *, label: str = "", limits: tuple[float, float] | None = None, log: bool = False
) -> Figure | None:
    """Marks at `mean`, lines from `low` to `high`, by `panel`, `group`, `bar` and `part`, in the order of the rows.

    Parts differ in colour and marker. On a `log` axis, what is zero stands at its lower end. None without data.
    """
    data = data.drop_nulls("mean")
    if data.is_empty():
        return None
    parts = parts_of(data)
    step = 0.8 / len(parts)
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
            floor = axis.get_ylim()[0] if log and limits else None
            for number, part in enumerate(parts):
                rows = panel.rows.filter(pl.col("part") == part)
                colour = COLOURS[number % len(COLOURS)]
                x = [panel.at(row) + (number - (len(parts) - 1) / 2) * step for row in rows.iter_rows(named=True)]
                clip = pl.lit(floor) if floor is not None else pl.lit(float("-inf"))
                low, mean, high = (
                    rows.select(pl.max_horizontal(pl.col(name).fill_null(pl.col("mean")), clip)).to_series().to_list()
                    for name in ("low", "mean", "high")
                )
                axis.vlines(x, low, high, color=colour, linewidth=1.1)
                axis.plot(x, high, linestyle="", marker="_", markersize=4.5, color=colour)
                (handles[part],) = axis.plot(
                    x, mean, linestyle="", marker=MARKERS[number % len(MARKERS)], markersize=4, color=colour,
                    clip_on=False,
                )  # fmt: skip
            for left in list(panel.places.values())[1:]:
                axis.axvline(left - 0.5, color="#efefef", linewidth=0.5, zorder=0)
        figure.legend(list(handles.values()), parts, loc="outside upper left", ncols=legend_columns(parts))
    return figure
