"""Where bars stand: bars next to each other in groups, groups in panels, names under both."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from l4slab.plot.style import WIDTH_IN

_GAP = 0.8  # between groups, in widths of a bar
_HEIGHT_IN = 1.75  # of a panel


@dataclass(frozen=True)
class Panel:
    """A panel of a figure: its rows, and where each (group, bar) stands."""

    axis: Axes
    rows: pl.DataFrame
    places: dict[tuple[str, str], float]

    def at(self, row: dict[str, object]) -> float:
        """Where the bar of this row stands."""
        return self.places[str(row["group"]), str(row["bar"])]


def lay_out(figure: Figure, data: pl.DataFrame, label: str) -> list[Panel]:
    """Panels below each other with bars and groups named; the columns `panel` and `group` may be missing."""
    for name in ("panel", "group"):
        if name not in data.columns:
            data = data.with_columns(pl.lit("").alias(name))
    names = list(data["panel"].unique(maintain_order=True))
    figure.set_size_inches(WIDTH_IN, 0.75 + len(names) * (_HEIGHT_IN + 0.25 * (len(names) > 1)))
    axes = figure.subplots(len(names), 1, squeeze=False)[:, 0]
    panels = [
        _panel(axis, name, data.filter(pl.col("panel") == name), label) for axis, name in zip(axes, names, strict=True)
    ]
    widest = max(panel.axis.get_xlim()[1] for panel in panels)
    for panel in panels:
        panel.axis.set_xlim(-0.7, widest)
    return panels


def _panel(axis: Axes, name: str, rows: pl.DataFrame, label: str) -> Panel:
    places: dict[tuple[str, str], float] = {}
    ticks: list[str] = []
    x = 0.0
    for number, group in enumerate(rows["group"].unique(maintain_order=True)):
        x += _GAP if number else 0.0
        bars = list(rows.filter(pl.col("group") == group)["bar"].unique(maintain_order=True))
        for bar in bars:
            places[group, bar] = x
            ticks.append(bar)
            x += 1
        if group:
            text = textwrap.fill(group, 22)
            middle = x - (len(bars) + 1) / 2
            axis.annotate(
                text, (middle, 0), (0, -18), xycoords=("data", "axes fraction"), textcoords="offset points",
                ha="center", va="top",
            )  # fmt: skip
    axis.set_xticks(list(places.values()), ticks)
    axis.tick_params(axis="x", length=0)
    axis.set_xlim(-0.7, x - 0.3)
    axis.grid(visible=False, axis="x")
    axis.set_axisbelow(True)
    axis.set_title(name)
    axis.set_ylabel(label)
    return Panel(axis, rows, places)


def parts_of(data: pl.DataFrame) -> Sequence[str]:
    """The parts of the bars, in order."""
    return list(data["part"].unique(maintain_order=True))


def legend_columns(parts: Sequence[str]) -> int:
    """How many names of this length stand side by side above the figure."""
    return max(1, min(len(parts), 118 // (8 + max(map(len, parts)))))
