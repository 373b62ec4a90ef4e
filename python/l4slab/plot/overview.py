"""Who gets which rate, who waits how long, and what is marked or lost: the first figure of a user's experiment."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from l4slab.base.numbers import NO_DELAY_MS
from l4slab.base.values import Cell
from l4slab.plot.quantities import (
    LOG_FROM,
    Times,
    ends_of,
    mean_of,
    milliseconds,
    percent,
    rate_column,
    short,
    times_of,
    unfinished,
)
from l4slab.plot.roles import INK, Look, looks_of_flows
from l4slab.plot.style import BEHIND, DIM, GRID, WIDTH_IN, Figure, legend, plain_log, styled

_ROW_IN = 0.26
_BAR = 0.72
# Letters of a line of a flow's name.
_NAME = 24


def overview(
    flows: pl.DataFrame,
    *,
    cases: Sequence[Mapping[str, Cell]] | None = None,
    labels: Sequence[str] | None = None,
    capacities: Sequence[Mapping[str, float]] | None = None,
) -> Figure | None:
    """A row per flow of each case, and panels for rate, queue delay, completion times (if any), marks and drops.

    `flows` is the result table; a case is a value for each of some of its columns (default: each experiment), and
    `labels` name them. Bars are means of the trials; a thin line is their range (of the rate). A dashed line is the
    capacity (Mb/s) of each flow's path, if `capacities` has it for the case. The delay is drawn from the mean (marker)
    to P99 (end of the line), on a log axis if delays differ much. Completion times and frames are drawn from the median
    to P99, and a text gives the number of unfinished transfers. A delay that is too short for the axis stands at its
    end, and the text says so. Flows without a delay have no mark. None without data.
    """
    cases = cases if cases is not None else [{"experiment": e} for e in flows["experiment"].unique(maintain_order=True)]
    labels = labels if labels is not None else [", ".join(map(str, case.values())) for case in cases]
    rows = [_of_case(flows, case) for case in cases]
    if not any(map(len, rows)):
        return None
    rate = rate_column(flows)
    look = looks_of_flows(flows.select("flow", "cc").drop_nulls("flow").unique(maintain_order=True).iter_rows())
    times = times_of(flows)
    ticks: list[tuple[float, str]] = []
    y = 0.0
    with styled():
        figure = Figure()
        axes = figure.subplots(1, 2 + len(times), sharey=True, width_ratios=(1.25, *[1.1] * len(times), 1))
        axes[0].set_zorder(1)
        for label, mine, capacity in zip(labels, rows, capacities or [{}] * len(rows), strict=True):
            if len(cases) > 1:
                # It stands over all panels: above their grids, and without making room for itself in the first.
                axes[0].annotate(
                    textwrap.shorten(label, 110, placeholder=" …"), (0, y), (2, 0), ("axes fraction", "data"),
                    "offset points", fontsize=8.5, fontweight="bold", va="center", bbox=BEHIND, in_layout=False,
                )  # fmt: skip
                y += 1
            for name in mine["flow"].unique(maintain_order=True):
                one = mine.filter(pl.col("flow") == name)
                count = int(one["count"][0] or 1)
                ticks.append((y, _in_two_lines(f"{name} × {count}" if count > 1 else str(name))))
                if (limit := capacity.get(str(name))) is not None:
                    axes[0].vlines(limit, y - 0.5, y + 0.5, color=INK, linewidth=1, linestyle=(0, (4, 2)))
                its = look[str(name), one["cc"][0]]
                _rate(axes[0], one[rate].drop_nulls(), y, its)
                for axis, kind in zip(axes[1:-1], times, strict=True):
                    _delay(axis, one, kind, y, its)
                _signals(axes[-1], one, y, its)
                y += 1
            y += 0.35 * (len(cases) > 1)
        figure.set_size_inches(WIDTH_IN, 0.95 + 0.15 * (1 + (len(times) > 1)) + _ROW_IN * y)
        _axes(axes, _titles(times), y, ticks)
        legend(figure, _handles()[0 if any(capacities or ()) else 1 :])
    return figure


def _titles(times: Sequence[Times]) -> list[str]:
    """Names of the panels, and what the numbers in them are."""
    ms = "\n(ms)" if len(times) > 1 else " (ms)"
    return ["rate\n(Mb/s)", *(f"{one.name}\n{one.middle} / P99{ms}" for one in times), "CE / dropped\n(%)"]


def _in_two_lines(name: str) -> str:
    """A name that leaves room for the panels; the height of a row is two small lines."""
    return "\n".join(textwrap.wrap(name, _NAME, max_lines=2, placeholder=" …"))


def _of_case(table: pl.DataFrame, case: Mapping[str, Cell]) -> pl.DataFrame:
    return table.filter(*(pl.col(name).eq_missing(pl.lit(value)) for name, value in case.items()))


def _rate(axis: Axes, values: pl.Series, y: float, look: Look) -> None:
    if values.is_empty():
        return
    mean, low, high = (float(value) for value in (values.mean(), values.min(), values.max()))  # type: ignore[arg-type]
    axis.barh(y, mean, height=_BAR, **look.bar)
    if high > low:
        axis.hlines(y, low, high, color=INK, linewidth=0.9)
    _write(axis, max(mean, high), y, short(mean))


def _delay(axis: Axes, rows: pl.DataFrame, kind: Times, y: float, look: Look) -> None:
    ends, left = ends_of(rows, kind), unfinished(rows, kind)
    if ends is None:
        if left:
            _write(axis, 0, y, left)
        return
    # A log axis has no zero: a short delay is drawn where it begins, and written as it is.
    start, end = (max(value, NO_DELAY_MS) for value in ends)
    axis.hlines(y, start, end, color=look.colour, linewidth=1.6)
    axis.plot([end], [y], marker="|", markersize=7, color=look.colour)
    axis.plot([start], [y], marker=look.marker, markersize=5, color=look.colour)
    _write(axis, max(start, end), y, milliseconds(ends) + f"\n+ {left}" * bool(left))


def _signals(axis: Axes, rows: pl.DataFrame, y: float, look: Look) -> None:
    """Marks above drops, each a bar of half the height."""
    texts = []
    longest = 0.0
    for column, offset, style in (
        ("ce_pct", -0.25, {}),
        ("drop_pct", 0.25, {"facecolor": "none", "edgecolor": look.colour}),
    ):
        number = mean_of(rows, column) or 0.0
        longest = max(longest, number)
        texts.append(percent(number))
        axis.barh(y + offset * _BAR, number, height=_BAR / 2, **{**look.bar, "hatch": "", "linewidth": 0.9, **style})
    _write(axis, longest, y, " / ".join(texts))


def _write(axis: Axes, x: float, y: float, text: str) -> None:
    axis.annotate(text, (x, y), (4, 0), textcoords="offset points", va="center", fontsize=7, color=DIM, bbox=BEHIND)


def _axes(axes: Any, titles: Sequence[str], y: float, ticks: Sequence[tuple[float, str]]) -> None:
    rate, *delays, signals = axes
    for title, axis in zip(titles, axes, strict=True):
        axis.set_title(title)
    rate.set_yticks([place for place, _ in ticks], [name for _, name in ticks])
    for label in rate.get_yticklabels():
        if "\n" in label.get_text():
            label.set(fontsize=7, linespacing=1)
    rate.set_ylim(y - 0.35, -0.65)
    for delay in delays:
        ends = [x for line in delay.lines for x in line.get_xdata()]
        if ends and max(ends) > LOG_FROM * min(ends):
            delay.set_xscale("log")
            plain_log(delay.xaxis)
            delay.set_xlim(min(ends) / 1.6, max(ends) * (max(ends) / min(ends)) ** 0.5)
        else:
            delay.set_xlim(0, 1.5 * max(ends, default=1.0))
    rate.set_xlim(0, 1.18 * rate.dataLim.x1 if rate.dataLim.x1 > 0 else 1)
    signals.set_xlim(0, 1.5 * signals.dataLim.x1 if signals.dataLim.x1 > 0 else 1)
    signals.set_xticks([tick for tick in signals.get_xticks() if tick <= min(100, signals.get_xlim()[1])])
    for axis in axes:
        axis.tick_params(axis="y", length=0)
        axis.grid(visible=False, axis="y")
        axis.set_axisbelow(True)
        axis.spines["left"].set_color(GRID)


def _handles() -> list[Any]:
    return [
        Line2D([], [], color=INK, linewidth=1, linestyle=(0, (4, 2)), label="capacity"),
        Line2D([], [], color=DIM, linewidth=1.6, marker="o", markersize=5, label="mean or median, to P99"),
        Patch(facecolor=DIM, label="CE marked"),
        Patch(facecolor="none", edgecolor=DIM, label="dropped"),
    ]
