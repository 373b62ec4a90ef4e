"""Heat maps: a number and a colour for each cell of a factorial."""

from __future__ import annotations

import math
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from l4slab.plot.style import WIDTH_IN, styled

_CELL_IN = 0.27
_MAX_COLUMNS = 3
# Both ends are dark and the middle is light: a colour-blind reader tells the ends apart, and each cell has its number.
_DIVERGING, _SEQUENTIAL = "PuOr", "cividis"


def heatmap(
    data: pl.DataFrame, *, label: str = "", x_label: str = "", limits: tuple[float, float] | None = None
) -> Figure | None:
    """A cell of `value` for each `row` and `column`; a panel for each `panel`, a row of panels for each `group`.

    With `limits` the colours diverge from their middle (0.5 of a share, 0 of a relative difference), without they
    rise. A cell without a value is hatched. None without data.
    """
    data = data.drop_nulls("value")
    if data.is_empty():
        return None
    for name in ("group", "panel"):
        if name not in data.columns:
            data = data.with_columns(pl.lit("").alias(name))
    groups, panels, rows, columns = (
        list(data[name].unique(maintain_order=True)) for name in ("group", "panel", "row", "column")
    )
    if len(groups) > 1:
        places = {(g, p): (i, j) for i, g in enumerate(groups) for j, p in enumerate(panels)}
        shape = (len(groups), len(panels))
    else:
        wide = min(len(panels), _MAX_COLUMNS)
        places = {(groups[0], p): divmod(number, wide) for number, p in enumerate(panels)}
        shape = (math.ceil(len(panels) / wide), wide)
    low, high = limits or (float(data["value"].min()), float(data["value"].max()))  # type: ignore[arg-type]
    colours = mpl.colormaps[_DIVERGING if limits else _SEQUENTIAL]
    scale = Normalize(low, high if high > low else low + 1)
    with styled():
        height = 0.9 + shape[0] * (0.45 + _CELL_IN * len(rows))
        figure = Figure(figsize=(WIDTH_IN, height))
        axes = figure.subplots(*shape, squeeze=False, sharey=True)
        for axis in axes.flat:
            axis.set_visible(False)
        for (group, panel), (i, j) in places.items():
            mine = data.filter(pl.col("group") == group, pl.col("panel") == panel)
            if mine.is_empty():
                continue
            axis = axes[i, j]
            axis.set_visible(True)
            _panel(axis, mine, rows, columns, colours, scale, small=shape[1] * len(columns) > 18)
            axis.set_title(", ".join(name for name in (group, panel) if name))
        figure.supxlabel(x_label, fontsize=9)
        bar = figure.colorbar(
            mpl.cm.ScalarMappable(scale, colours), ax=axes, location="top", aspect=60, shrink=0.6, pad=0.02
        )
        bar.set_label(label)
        bar.outline.set_visible(False)
    return figure


def _panel(
    axis: Axes, mine: pl.DataFrame, rows: list[str], columns: list[str], colours: Any, scale: Normalize, *, small: bool
) -> None:
    values = np.full((len(rows), len(columns)), np.nan)
    for row, column, value in mine.select("row", "column", "value").iter_rows():
        values[rows.index(row), columns.index(column)] = value
    axis.set_facecolor("#f2f2f2")
    axis.imshow(np.ma.masked_invalid(values), cmap=colours, norm=scale, aspect="auto", interpolation="nearest")
    for (i, j), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        red, green, blue, _ = colours(scale(value))
        ink = "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "#ffffff"
        digits = 2 if abs(value) < 10 else 0
        text = f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "\u2212")
        axis.text(j, i, text, ha="center", va="center", color=ink, fontsize=6.2 if small else 7.6)
    axis.set_xticks(range(len(columns)), columns)
    axis.set_yticks(range(len(rows)), rows)
    axis.tick_params(length=0)
    axis.grid(visible=False)
    for side in axis.spines.values():
        side.set_visible(False)
