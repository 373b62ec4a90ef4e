"""Bars of parts on top of each other: who gets which share."""

from __future__ import annotations

from typing import Any

import polars as pl
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from l4slab.plot.bars import lay_out, legend_columns, parts_of
from l4slab.plot.style import COLOURS, HATCHES, styled


def shares(data: pl.DataFrame, *, label: str = "share (%)", limits: tuple[float, float] | None = None) -> Figure | None:
    """Stacked bars of the columns `panel`, `group`, `bar`, `part` and `value`, in the order of the rows.

    Parts differ in colour and hatching; `limits` cut the axis, such as to the last percent. None without data.
    """
    data = data.drop_nulls("value")
    if data.is_empty():
        return None
    parts = parts_of(data)
    with styled():
        figure = Figure()
        for panel in lay_out(figure, data, label):
            top = dict.fromkeys(panel.places, 0.0)
            for number, part in enumerate(parts):
                rows = panel.rows.filter(pl.col("part") == part)
                keys = list(zip(rows["group"], rows["bar"], strict=True))
                values = rows["value"].to_list()
                panel.axis.bar(
                    [panel.places[key] for key in keys],
                    values,
                    bottom=[top[key] for key in keys],
                    width=0.8,
                    **_look(number),
                )
                for key, value in zip(keys, values, strict=True):
                    top[key] += value
            panel.axis.set_ylim(*(limits or (0, max(top.values()))))
        handles = [Patch(label=part, **_look(number)) for number, part in enumerate(parts)]
        figure.legend(handles=handles, loc="outside upper left", ncols=legend_columns(parts))
    return figure


def _look(number: int) -> dict[str, Any]:
    colour, hatch = COLOURS[number % len(COLOURS)], HATCHES[number % len(HATCHES)]
    return {"facecolor": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0.4}
