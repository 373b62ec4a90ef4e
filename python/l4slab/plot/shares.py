"""Bars of parts on top of each other: who gets which share."""

from __future__ import annotations

from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from l4slab.plot.bars import lay_out, parts_of
from l4slab.plot.roles import looks
from l4slab.plot.style import PAGE, Figure, legend, mark_published, published_handle, styled

_MARK: Any = {"markerfacecolor": PAGE, "markersize": 5.0}


def shares(data: pl.DataFrame, *, label: str = "share (%)", limits: tuple[float, float] | None = None) -> Figure | None:
    """Stacked bars of the columns `panel`, `group`, `bar`, `part` and `value`, in the order of the rows.

    With `published` (and its reading `error`) in the rows, diamonds stand where the published parts end on each other.
    Parts have the colour and hatching of their role; `limits` cut the axis, such as to the last percent. None without
    data.
    """
    data = data.drop_nulls("value")
    if data.is_empty():
        return None
    parts = parts_of(data)
    look = looks(parts)
    compared = "published" in data.columns and data["published"].count() > 0
    with styled():
        figure = Figure()
        for panel in lay_out(figure, data, label):
            top = dict.fromkeys(panel.places, 0.0)
            for part in parts:
                rows = panel.rows.filter(pl.col("part") == part)
                keys = list(zip(rows["group"], rows["bar"], strict=True))
                values = rows["value"].to_list()
                panel.axis.bar(
                    [panel.places[key] for key in keys],
                    values,
                    bottom=[top[key] for key in keys],
                    width=0.8,
                    **look[part].bar,
                )
                for key, value in zip(keys, values, strict=True):
                    top[key] += value
            low, high = limits or (0, max(top.values()))
            panel.axis.set_ylim(low, high)
            if compared:
                _mark(panel.axis, panel.rows, panel.places, low, high)
        handles = [Patch(label=part, **look[part].bar) for part in parts]
        legend(figure, [*handles, *([published_handle(**_MARK)] if compared else [])])
    return figure


def _mark(axis: Axes, rows: pl.DataFrame, places: dict[tuple[str, str], float], low: float, high: float) -> None:
    """The published sums from the first part up, but for the last, which ends with the whole."""
    for (group, bar), x in places.items():
        mine = rows.filter(pl.col("group") == group, pl.col("bar") == bar)
        if mine["published"].null_count() or len(mine) < 2:
            continue
        ends = mine["published"].cum_sum()[:-1]
        errors = mine["error"][:-1] if "error" in mine.columns else None
        shown = [low <= end <= high for end in ends]
        if any(shown):
            mark_published(
                axis, [x] * sum(shown), ends.filter(pl.Series(shown)).to_numpy(),
                errors.filter(pl.Series(shown)).to_numpy() if errors is not None else None, **_MARK,
            )  # fmt: skip
