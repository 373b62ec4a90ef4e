"""Lines of y over x with their range: delays over time, distributions, completion times over sizes."""

from __future__ import annotations

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from l4slab.plot.style import COLOURS, DASHES, WIDTH_IN, plain_log, styled

_HEIGHT_IN = 1.6
_MAX_COLUMNS = 3


def lines(
    data: pl.DataFrame,
    *,
    label: str = "",
    x_label: str = "",
    limits: tuple[float, float] | None = None,
    log: bool = False,
    x_log: bool = False,
) -> Figure | None:
    """A line of `y` over `x` for each `part`, with a light area from `low` to `high` where there are these columns.

    A panel for each `panel`, below each other; with a column `group`, a row of panels for each. None without data.
    """
    data = data.drop_nulls(["x", "y"])
    if data.is_empty():
        return None
    for name in ("group", "panel", "part"):
        if name not in data.columns:
            data = data.with_columns(pl.lit("").alias(name))
    parts = list(data["part"].unique(maintain_order=True))
    places = _places(data)
    rows, columns = (1 + max(place[i] for place in places.values()) for i in (0, 1))
    with styled():
        figure = Figure(figsize=(WIDTH_IN, 0.75 + rows * (_HEIGHT_IN + 0.5 * (columns > 1))))
        axes = figure.subplots(rows, columns, sharex=True, sharey=columns > 1, squeeze=False)
        for axis in axes.flat:
            axis.set_visible(False)
        for (group, panel), (row, column) in places.items():
            axis = axes[row, column]
            axis.set_visible(True)
            _panel(axis, data.filter(pl.col("group") == group, pl.col("panel") == panel), parts)
            axis.set_title(", ".join(name for name in (group, panel) if name))
            axis.set_yscale("log" if log else "linear")
            axis.set_xscale("log" if x_log else "linear")
            if log:
                plain_log(axis.yaxis)
            if x_log:
                plain_log(axis.xaxis)
            axis.set_ylim(*(limits or (None if log else 0, None)))
            axis.set_xlim(float(data["x"].min()) if x_log else 0, float(data["x"].max()))  # type: ignore[arg-type]
            axis.set_ylabel(label if column == 0 else "")
            axis.tick_params(labelbottom=(row + 1, column) not in places.values())
        figure.supxlabel(x_label, fontsize=9)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        if labels:
            figure.legend(handles, labels, loc="outside upper left", ncols=4)
    return figure


def _places(data: pl.DataFrame) -> dict[tuple[str, str], tuple[int, int]]:
    """Row and column of each (group, panel)."""
    found = list(data.select("group", "panel").unique(maintain_order=True).iter_rows())
    groups = list(dict.fromkeys(group for group, _ in found))
    panels = list(dict.fromkeys(panel for _, panel in found))
    if len(groups) > 1:
        return {(group, panel): (groups.index(group), panels.index(panel)) for group, panel in found}
    columns = 1 if len(panels) <= _MAX_COLUMNS else 2 if len(panels) == 4 else _MAX_COLUMNS
    return {place: divmod(number, columns) for number, place in enumerate(found)}


def _panel(axis: Axes, rows: pl.DataFrame, parts: list[str]) -> None:
    for number, part in enumerate(parts):
        mine = rows.filter(pl.col("part") == part).sort("x", maintain_order=True)
        x, y = mine["x"].to_numpy(), mine["y"].to_numpy()
        colour = COLOURS[(number + 1) % len(COLOURS)]
        ranged = {"low", "high"} <= set(mine.columns) and mine["low"].count() > 0
        if ranged:
            axis.fill_between(
                x, mine["low"].to_numpy(), mine["high"].to_numpy(), color=colour, alpha=0.3, linewidth=0,
                label="lowest to highest" if len(parts) == 1 else None,
            )  # fmt: skip
        name = part or ("mean" if ranged else None)
        axis.plot(x, y, color=colour, linewidth=1.2, linestyle=DASHES[number % len(DASHES)], label=name)
