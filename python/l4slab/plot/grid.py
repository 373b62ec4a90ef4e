"""Small multiples: a tiny panel per combination, as on a slide that shows a hundred runs at a glance."""

from __future__ import annotations

import polars as pl
from matplotlib.lines import Line2D

from l4slab.plot.roles import looks
from l4slab.plot.style import DIM, GRID, WIDTH_IN, Figure, legend, styled

_PANEL_IN = 0.62
_TALL_IN = 1.0


def grid(
    data: pl.DataFrame,
    *,
    label: str = "",
    x_label: str = "",
    limits: tuple[float, float] | None = None,
    x_limits: tuple[float, float] | None = None,
) -> Figure | None:
    """A panel for each `row` and `column` with a line of `y` over `x` per `part`, all on the axes of the first.

    With `top`, each panel's y axis ends at its own `top` instead, and a thin line stands at its middle: panels of other
    scales are compared by height. `limits` are those of y without `top`. None without data.
    """
    data = data.drop_nulls(["x", "y"])
    if data.is_empty():
        return None
    if "part" not in data.columns:
        data = data.with_columns(part=pl.lit(""))
    rows, columns = (list(data[name].unique(maintain_order=True)) for name in ("row", "column"))
    look = looks(list(data["part"].unique(maintain_order=True)))
    scaled = "top" in data.columns
    height = _PANEL_IN if len(rows) > 6 else _TALL_IN
    x_ends = x_limits or (min(0.0, float(data["x"].min())), float(data["x"].max()))  # type: ignore[arg-type]
    low, high = (float(end) for end in (data["y"].min(), data["y"].max()))  # type: ignore[arg-type]
    y_ends = limits or (1.05 * min(0.0, low), 1.05 * max(0.0, high) or 1.0)
    with styled():
        figure = Figure(figsize=(WIDTH_IN, 1.0 + height * len(rows)))
        axes = figure.subplots(len(rows), len(columns), squeeze=False, gridspec_kw={"hspace": 0.05, "wspace": 0.05})
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                axis = axes[i, j]
                mine = data.filter(pl.col("row") == row, pl.col("column") == column)
                for part, style in look.items():
                    one = mine.filter(pl.col("part") == part).sort("x", maintain_order=True)
                    axis.plot(one["x"].to_numpy(), one["y"].to_numpy(), color=style.colour, linewidth=0.7)
                axis.set_xlim(*x_ends)
                axis.set_ylim(*((0, float(mine["top"].max())) if scaled and len(mine) else y_ends))  # type: ignore[arg-type]
                if scaled and len(mine):
                    axis.axhline(sum(axis.get_ylim()) / 2, color=DIM, linewidth=0.4, zorder=1)
                    axis.set_yticks([])
                axis.grid(visible=False)
                corner = (i, j) == (len(rows) - 1, 0)
                axis.set_xticks(list(x_ends) if corner else [])
                if not scaled:
                    axis.tick_params(labelleft=j == 0, labelsize=6.5)
                axis.tick_params(length=2, labelsize=6.5)
                for side in axis.spines.values():
                    side.set(visible=True, color=GRID, linewidth=0.8)
                if not len(mine):
                    axis.set_axis_off()
                if i == 0:
                    axis.set_title(column, loc="center", fontsize=8)
                if j == 0:
                    axis.set_ylabel(row, rotation=0, ha="right", va="center", fontsize=8)
        figure.supxlabel(x_label, fontsize=9)
        figure.supylabel(label, fontsize=9)
        legend(figure, [Line2D([], [], color=style.colour, label=part) for part, style in look.items() if part])
    return figure
