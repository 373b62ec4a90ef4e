"""Where bars stand: bars next to each other in groups, groups in panels, names under both."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from matplotlib.axes import Axes

from l4slab.base.values import Row
from l4slab.plot.style import WIDTH_IN, Figure, named

_GAP = 0.8  # between groups, in widths of a bar
_HEIGHT_IN = 1.75  # of a panel
_AXIS_IN = 6.4  # width of the axes, about
_LETTER_IN = 0.082  # of the ticks' font, about
_TICK_PT, _LEAST_PT = 8.5, 6.5  # where names are wider at the least, they are wrapped or stand upright
_WRAPPED = 12  # letters that fit below a bar at the least where names are wrapped
_LINE_IN = 0.15  # of a name
_USUAL_IN = 0.9  # of names that stand upright, which a panel has room for


@dataclass(frozen=True)
class Panel:
    """A panel of a figure: its rows, and where each (group, bar) stands."""

    axis: Axes
    rows: pl.DataFrame
    places: dict[tuple[str, str], float]

    def at(self, row: Row) -> float:
        """Where the bar of this row stands."""
        return self.places[str(row["group"]), str(row["bar"])]


def lay_out(figure: Figure, data: pl.DataFrame, label: str) -> list[Panel]:
    """Panels below each other with bars and groups named; the columns `panel` and `group` may be missing."""
    data = named(data, "panel", "group")
    names = list(data["panel"].unique(maintain_order=True))
    axes = figure.subplots(len(names), 1, squeeze=False)[:, 0]
    of_panel = [data.filter(pl.col("panel") == name) for name in names]
    widest = max(_width(rows) for rows in of_panel)
    bars = list(data["bar"].unique(maintain_order=True))
    ticks, upright = _ticks(bars, widest)
    lines = max((tick.count("\n") for tick in ticks), default=0) - max((bar.count("\n") for bar in bars), default=0)
    more = max(0.0, _longest(ticks) * _LETTER_IN - _USUAL_IN) if upright else lines * _LINE_IN
    figure.set_size_inches(WIDTH_IN, 0.75 + len(names) * (_HEIGHT_IN + 0.25 * (len(names) > 1) + more))
    return [_panel(axis, name, rows, label, widest) for axis, name, rows in zip(axes, names, of_panel, strict=True)]


def _width(rows: pl.DataFrame) -> float:
    """In bars."""
    return rows.select("group", "bar").n_unique() + _GAP * (rows["group"].n_unique() - 1)


def _room(widest: float) -> float:
    """Letters that fit below a bar."""
    return _AXIS_IN / (widest + 0.4) / _LETTER_IN


def _longest(ticks: Sequence[str]) -> int:
    return max((len(line) for tick in ticks for line in tick.split("\n")), default=0)


def _ticks(bars: Sequence[str], widest: float) -> tuple[Sequence[str], bool]:
    """The bars' names as they stand below them: wrapped where they are too wide, and whether upright."""
    room = _room(widest)
    if _longest(bars) * _LEAST_PT <= room * _TICK_PT:
        return bars, False
    if room < _WRAPPED:
        return bars, True
    return ["\n".join(textwrap.fill(line, int(room)) for line in bar.split("\n")) for bar in bars], False


def _panel(axis: Axes, name: str, rows: pl.DataFrame, label: str, widest: float) -> Panel:
    places: dict[tuple[str, str], float] = {}
    ticks: list[str] = []
    groups: list[tuple[str, float, int]] = []
    x = 0.0
    for number, group in enumerate(rows["group"].unique(maintain_order=True)):
        x += _GAP if number else 0.0
        bars = list(rows.filter(pl.col("group") == group)["bar"].unique(maintain_order=True))
        for bar in bars:
            places[group, bar] = x
            ticks.append(bar)
            x += 1
        groups.append((group, x - (len(bars) + 1) / 2, len(bars)))
    room = _room(widest)
    shown, upright = _ticks(ticks, widest)
    longest = _longest(shown)
    size = min(_TICK_PT, _TICK_PT * room / max(longest, 1))
    axis.set_xticks(list(places.values()), shown)
    axis.tick_params(axis="x", length=0, rotation=90 if upright else 0, labelsize=_TICK_PT if upright else size)
    below = 18 + 10 * max((tick.count("\n") for tick in shown), default=0)
    if upright:
        below = 12 + round(longest * _LETTER_IN * 72)
    for group, middle, count in groups:
        if group:
            axis.annotate(
                textwrap.fill(group, max(8, int((count + _GAP) * room))), (middle, 0), (0, -below),
                xycoords=("data", "axes fraction"), textcoords="offset points", ha="center", va="top",
            )  # fmt: skip
    axis.set_xlim(-0.7, widest - 0.3)
    axis.grid(visible=False, axis="x")
    axis.set_axisbelow(True)
    axis.set_title(name)
    axis.set_ylabel(label)
    return Panel(axis, rows, places)


def parts_of(data: pl.DataFrame) -> Sequence[str]:
    """The parts of the bars, in order."""
    return list(data["part"].unique(maintain_order=True))
