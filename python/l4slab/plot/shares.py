"""Bars of parts on top of each other: who gets which share."""

from __future__ import annotations

from typing import Any

import polars as pl
from matplotlib.patches import Patch

from l4slab.plot.bars import lay_out, parts_of
from l4slab.plot.roles import looks
from l4slab.plot.style import PAGE, Figure, legend, mark_published, published_handle, styled

_MARK: Any = {"markerfacecolor": PAGE, "markersize": 5.0}


# Shares of a whole, but for the rounding.
_ALIKE = 0.01


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
            ends = _published_ends(panel.rows) if compared else []
            low, high = limits or (0, max([*top.values(), *(end for _, end, _ in ends)]))
            panel.axis.set_ylim(low, high)
            shown = [(panel.places[key], end, error) for key, end, error in ends if low <= end <= high]
            if shown:
                x, y, errors = zip(*shown, strict=True)
                mark_published(panel.axis, x, y, errors, **_MARK)
        handles = [Patch(label=part, **look[part].bar) for part in parts]
        legend(figure, [*handles, *([published_handle(**_MARK)] if compared else [])])
    return figure


def _published_ends(rows: pl.DataFrame) -> list[tuple[tuple[str, str], float, float]]:
    """(group, bar), where a published part ends, and its reading error; without the last where all bars end alike."""
    found = []
    for key, mine in rows.group_by("group", "bar", maintain_order=True):
        if not mine["published"].null_count():
            errors = mine["error"] if "error" in mine.columns else [0.0] * len(mine)
            ends = zip(mine["published"].cum_sum(), errors, strict=True)
            found.append([(key, float(end), float(error)) for end, error in ends])
    wholes = [bar[-1][1] for bar in found]
    alike = bool(wholes) and max(wholes) - min(wholes) < _ALIKE * max(wholes)
    return [end for bar in found for end in (bar[:-1] if alike and len(bar) > 1 else bar)]
