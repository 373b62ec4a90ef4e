"""Heat maps: a number and a colour for each cell of a factorial, beside the published ones where there are any."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from l4slab.base.numbers import plain
from l4slab.plot.style import PAGE, PLATE, TITLE_LINE_IN, WIDTH_IN, Figure, ink_on, named, styled, title_in

# The mean width of a letter, in inches, for each point of its size.
_LETTER = 0.6 / 72
_CELL_IN = 0.25
_GAP_IN = 0.1  # between panels
_MAX_COLUMNS = 3
_TITLE_IN = 0.3  # between the panels and the bar of colours, where titles stand
# Both ends are dark and the middle is light: a colour-blind reader tells the ends apart, and each cell has its number.
_DIVERGING, _SEQUENTIAL = "PuOr", "cividis"
_THREE = ("published", "here", "here − published")


@dataclass(frozen=True)
class _Colours:
    """Which colour a value has, and what the bar says about it."""

    label: str
    scale: Normalize
    map: Any

    @classmethod
    def of(
        cls, label: str, values: np.ndarray, limits: tuple[float, float] | None, neutral: float | None, *, log: bool
    ) -> _Colours:
        """Symmetric about `neutral` (on a log scale in ratios), or rising from the least to the greatest."""
        values = values[np.isfinite(values) & ((values > 0) | (not log))]
        low, high = limits or (float(values.min()), float(values.max()))
        if neutral is None:
            high = high if high > low else low + 1
            return cls(label, LogNorm(low, high) if log else Normalize(low, high), mpl.colormaps[_SEQUENTIAL])
        if log:
            reach = max(high / neutral, neutral / low, 1.01)
            return cls(label, LogNorm(neutral / reach, neutral * reach), mpl.colormaps[_DIVERGING])
        reach = max(high - neutral, neutral - low) or 1.0
        return cls(label, Normalize(neutral - reach, neutral + reach), mpl.colormaps[_DIVERGING])

    def bar(self, figure: Figure, axes: Any, *, beyond: bool, shrink: float) -> None:
        """A colour bar above these axes."""
        bar = figure.colorbar(
            mpl.cm.ScalarMappable(self.scale, self.map), ax=axes, location="top", aspect=40, shrink=shrink,
            pad=_TITLE_IN / figure.get_figheight(),
            extend="both" if beyond else "neither",
        )  # fmt: skip
        bar.set_label(self.label)
        bar.outline.set_visible(False)
        if isinstance(self.scale, LogNorm):
            bar.ax.xaxis.set_major_locator(FixedLocator(_log_ticks(float(self.scale.vmin), float(self.scale.vmax))))  # type: ignore[arg-type]
            bar.ax.xaxis.set_minor_locator(NullLocator())
            bar.ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))

    def outside(self, values: np.ndarray) -> bool:
        """Whether a value has the colour of an end without being there."""
        found = values[np.isfinite(values)]
        return bool(found.size) and bool(found.min() < self.scale.vmin or found.max() > self.scale.vmax)


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, … and their inverses: fewer where there are many decades, others where two of them are too many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 4 else (1,)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    if sum(low <= tick <= high for tick in ticks) < 2:
        ticks = list(MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(low, high))
    return [tick for tick in ticks if low <= tick <= high]


def heatmap(
    data: pl.DataFrame,
    *,
    label: str = "",
    x_label: str = "",
    limits: tuple[float, float] | None = None,
    neutral: float | None = None,
    log: bool = False,
) -> Figure | None:
    """A cell of `value` for each `row` and `column`; a panel for each `panel`, a row of panels for each `group`.

    With `neutral` the colours diverge from that value: 0.5 of a share, 0 of a difference, 1 of a ratio (with `log`);
    without, they rise. `limits` are the values of the last colours. With `published`, each panel is three: published,
    here, and the difference (of `log` maps the ratio). A cell without a value is grey. None without data.
    """
    compared = "published" in data.columns and data["published"].count() > 0
    data = data.filter(pl.any_horizontal(pl.col("value", *["published"] * compared).is_not_null()))
    if data.is_empty():
        return None
    data = named(data, "group", "panel")
    rows, columns = (list(data[name].unique(maintain_order=True)) for name in ("row", "column"))
    with styled():
        if compared:
            figure = _three(data, rows, columns, label, limits, neutral, log=log)
        else:
            figure = _plain(data, rows, columns, label, limits, neutral, log=log)
        figure.supxlabel(x_label, fontsize=9)
    return figure


def _plain(
    data: pl.DataFrame, rows: Sequence[str], columns: Sequence[str], label: str, limits: tuple[float, float] | None,
    neutral: float | None, *, log: bool,
) -> Figure:  # fmt: skip
    groups, panels = (list(data[name].unique(maintain_order=True)) for name in ("group", "panel"))
    if len(groups) > 1:
        places = {(g, p): (i, j) for i, g in enumerate(groups) for j, p in enumerate(panels)}
        shape = (len(groups), len(panels))
    else:
        wide = min(len(panels), _MAX_COLUMNS)
        places = {(groups[0], p): divmod(number, wide) for number, p in enumerate(panels)}
        shape = (math.ceil(len(panels) / wide), wide)
    values = data["value"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    colours = _Colours.of(label, values, limits, neutral, log=log)
    figure, axes = _axes(shape, len(rows))
    lines = [1] * shape[0]  # of the highest title of each row of panels
    width = (WIDTH_IN - _LETTER * 8.5 * max(map(len, map(str, rows)))) / shape[1] - _GAP_IN
    for (group, panel), (i, j) in places.items():
        mine = data.filter(pl.col("group") == group, pl.col("panel") == panel)
        if len(mine):
            title = ", ".join(name for name in (group, panel) if name)
            cells = _cells(mine, "value", rows, columns)
            _panel(axes[i, j], cells, "", rows, columns, colours, small=shape[1] * len(columns) > 18)
            lines[i] = max(lines[i], title_in(axes[i, j], title, width))
    figure.set_figheight(figure.get_figheight() + TITLE_LINE_IN * (sum(lines) - shape[0]))
    colours.bar(figure, axes, beyond=colours.outside(values), shrink=0.6)
    return figure


def _three(
    data: pl.DataFrame, rows: Sequence[str], columns: Sequence[str], label: str, limits: tuple[float, float] | None,
    neutral: float | None, *, log: bool,
) -> Figure:  # fmt: skip
    """Published, here and the difference beside each other; two groups stand beside each other too."""
    cases = list(data.select("group", "panel").unique(maintain_order=True).iter_rows())
    groups = list(dict.fromkeys(group for group, _ in cases))
    panels = list(dict.fromkeys(panel for _, panel in cases))
    beside = len(groups) == 2 and len(columns) <= 4
    both = {name: data[name].cast(pl.Float64).fill_null(float("nan")).to_numpy() for name in ("published", "value")}
    known = np.concatenate(list(both.values()))
    colours = _Colours.of(label, known, limits, neutral, log=log)
    off = both["value"] / both["published"] if log else both["value"] - both["published"]
    what = _THREE[2] if not log else "here / published"
    # A few cells far off would leave all others without colour.
    reach = (limits[1] - limits[0]) / 2 if limits and not log else None
    least = min(reach or np.inf, float(np.nanmax(np.abs(off)))) if not log else None
    differences = _Colours.of(what, off, (-least, least) if least else None, 1.0 if log else 0.0, log=log)
    figure, axes = _axes((len(panels), 6) if beside else (len(cases), 3), len(rows))
    for number, (group, panel) in enumerate(cases):
        mine = data.filter(pl.col("group") == group, pl.col("panel") == panel)
        i, first = (panels.index(panel), 3 * groups.index(group)) if beside else (number, 0)
        published, here = (_cells(mine, name, rows, columns) for name in ("published", "value"))
        name = ", ".join(name for name in (group, panel) if name)
        three = (published, here, here / published if log else here - published)
        for j, (cells, text) in enumerate(zip(three, (_THREE[0], _THREE[1], what), strict=True)):
            axis = axes[i, first + j]
            _panel(axis, cells, "", rows, columns, colours if j < 2 else differences, small=beside, sign=j == 2)
            axis.set_title(f"{name}\n{text}" if j == 0 and name else text, fontsize=8)
    # Each colour bar is above its panels, or above half of the figure if these are narrow.
    above = (list(axes[0, :3]), list(axes[0, 3:])) if beside else (list(axes[0, :2]), [axes[0, 2]])
    colours.bar(figure, above[0], beyond=colours.outside(known), shrink=0.9)
    differences.bar(figure, above[1], beyond=differences.outside(off), shrink=0.9)
    return figure


def _axes(shape: tuple[int, int], rows: int) -> tuple[Figure, Any]:
    figure = Figure(figsize=(WIDTH_IN, 0.95 + shape[0] * (0.42 + _CELL_IN * rows)))
    axes = figure.subplots(*shape, squeeze=False, sharey=True)
    for axis in axes.flat:
        axis.set_visible(False)
    return figure, axes


def _cells(mine: pl.DataFrame, name: str, rows: Sequence[str], columns: Sequence[str]) -> np.ndarray:
    values = np.full((len(rows), len(columns)), np.nan)
    for row, column, value in mine.select("row", "column", name).iter_rows():
        values[rows.index(row), columns.index(column)] = np.nan if value is None else value
    return values


def _panel(
    axis: Axes, values: np.ndarray, title: str, rows: Sequence[str], columns: Sequence[str], colours: _Colours, *,
    small: bool, sign: bool = False,
) -> None:  # fmt: skip
    axis.set_visible(True)
    axis.set_title(title)
    axis.set_facecolor(PLATE)
    axis.pcolormesh(
        np.arange(len(columns) + 1) - 0.5, np.arange(len(rows) + 1) - 0.5, np.ma.masked_invalid(values),
        cmap=colours.map, norm=colours.scale, edgecolors=PAGE, linewidth=0.5,
    )  # fmt: skip
    axis.set_xlim(-0.5, len(columns) - 0.5)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    for (i, j), value in np.ndenumerate(values):
        if np.isnan(value):
            continue
        ink = ink_on(colours.map(colours.scale(value)))
        axis.text(
            j,
            i,
            _number(value, sign=sign, small=small),
            ha="center",
            va="center",
            color=ink,
            fontsize=5.8 if small else 7.6,
        )
    size = 7.5 if small else 8.5
    axis.set_xticks(range(len(columns)), columns)
    axis.set_yticks(range(len(rows)), rows)
    axis.tick_params(length=0, labelsize=size)
    letter = size * _LETTER
    spec = axis.get_subplotspec()
    panels = spec.get_gridspec().ncols if spec else 1
    room = (WIDTH_IN - letter * max(len(str(row)) for row in rows)) / (panels * len(columns))
    lengths = [len(str(column)) for column in columns]
    if any((a + b) / 2 * letter > room for a, b in itertools.pairwise(lengths)):
        axis.tick_params(axis="x", labelrotation=90)
    axis.grid(visible=False)
    for side in axis.spines.values():
        side.set_visible(False)


def _number(value: float, *, sign: bool, small: bool) -> str:
    """Two digits after the point below ten; in small cells without the zero before it."""
    digits = 2 if abs(value) < 10 else 0
    text = f"{round(value, digits) + 0.0:{'+' if sign and round(value, digits) else ''}.{digits}f}"
    if small and text.lstrip("+-").startswith("0."):
        text = text.replace("0.", ".", 1)
    return text.replace("-", "\u2212")
