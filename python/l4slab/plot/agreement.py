"""Kernel against simulator, a panel per quantity: how far the cells are from the line on which both agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from l4slab.plot.roles import INK
from l4slab.plot.style import DIM, WIDTH_IN, Figure, styled
from l4slab.results.bars import Bar

# (quantity, the place its points are about, title, smallest value that the axis tells from 0; None: a linear axis)
_PANELS: tuple[tuple[str, str, str, float | None], ...] = (
    ("share", "flow", "share", None),
    ("goodput_mbps", "flow", "goodput (Mb/s)", 0.1),
    ("utilisation", "link", "utilisation", None),
    ("sojourn_ms_mean", "link", "queue delay, mean (ms)", 0.1),
    ("sojourn_ms_p50", "link", "queue delay, P50 (ms)", 0.1),
    ("sojourn_ms_p99", "link", "queue delay, P99 (ms)", 0.1),
    ("rtt_ms_mean", "flow", "srtt, mean (ms)", 1),
    ("ce_pct", "flow", "CE marked (%)", 0.01),
    ("drop_pct", "flow", "dropped (%)", 0.01),
    ("rpm_foreign", "flow", "RPM, foreign probes", 10),
    ("rpm_self", "flow", "RPM, self probes", 10),
)
_RANGE: Any = {"color": DIM, "alpha": 0.45, "linewidth": 0.6, "zorder": 1}
_POINT: Any = {"linestyle": "", "marker": "o", "markersize": 3.2, "fillstyle": "none", "markeredgewidth": 0.6}
_BEYOND: Any = {"linestyle": "", "marker": "x", "markersize": 4.6, "markeredgewidth": 1.1, "color": INK}


def agreement(rows: pl.DataFrame, bars: Mapping[str, Bar]) -> Figure | None:
    """`rows` are those of `agreement.parquet`; `bars` are drawn around the line of agreement. None without data.

    A point is the mean over the trials, the thin lines are their range; crosses are beyond a bar.
    """
    panels = [panel for panel in _PANELS if len(_of(rows, panel[0], panel[1]))]
    if not panels:
        return None
    columns = 3
    lines = -(-len(panels) // columns)
    with styled():
        figure = Figure(figsize=(WIDTH_IN, 0.5 + 2.35 * lines))
        axes = list(figure.subplots(lines, columns, squeeze=False).flat)
        for axis, (quantity, place, title, least) in zip(axes, panels, strict=False):
            _panel(axis, _of(rows, quantity, place), least, bars.get(quantity))
            axis.set_title(title)
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        figure.supxlabel("kernel", fontsize=9)
        figure.supylabel("simulator", fontsize=9)
        handles = [
            *axes[0].plot([], [], **_POINT, color=DIM, label="a flow or queue of a cell"),
            *axes[0].plot([], [], **_BEYOND, label="beyond the bar"),
            *axes[0].plot([], [], **_RANGE, label="range over the trials"),
            *axes[0].plot([], [], color=INK, linewidth=0.6, linestyle=(0, (4, 2)), label="bar"),
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=4)
    return figure


def _of(rows: pl.DataFrame, quantity: str, place: str) -> pl.DataFrame:
    """The rows of a panel with a value from both engines; shares of a flow alone and of a queue alone are none."""
    if quantity in ("share", "utilisation"):
        rows = rows.filter(pl.col("within").is_not_null())
    return rows.filter(
        pl.col("quantity") == quantity,
        pl.col(place).is_not_null(),
        pl.col("kernel").is_not_null(),
        pl.col("simulator").is_not_null(),
    )


def _panel(axis: Axes, rows: pl.DataFrame, least: float | None, bar: Bar | None) -> None:
    low, high = _limits(rows, least)
    line = np.linspace(low, high, 300) if least is None else np.concatenate([[0], np.geomspace(least / 10, high, 300)])
    if bar is not None:
        constant = bar.absolute or 0.0 if bar.cells is not None else bar.p90 or bar.median or 0.0
        allowed = np.maximum(constant, (bar.relative or 0.0) * line)
        for edge in (line - allowed, line + allowed):
            axis.plot(line, edge, color=INK, linewidth=0.6, linestyle=(0, (4, 2)), zorder=2)
    axis.plot(line, line, color=INK, linewidth=0.5, zorder=2)
    _ranges(axis, rows)
    beyond = (~pl.col("within")).fill_null(value=False)
    for chosen, look in ((rows.filter(~beyond), {**_POINT, "color": DIM}), (rows.filter(beyond), _BEYOND)):
        axis.plot(chosen["kernel"], chosen["simulator"], zorder=3, **look)
    for scale, limit in ((axis.set_xscale, axis.set_xlim), (axis.set_yscale, axis.set_ylim)):
        if least is not None:
            scale("symlog", linthresh=least, linscale=0.7)
        limit(low, high)
    axis.set_box_aspect(1)


def _limits(rows: pl.DataFrame, least: float | None) -> tuple[float, float]:
    values = np.concatenate([rows[name].to_numpy() for name in ("kernel", "simulator")])
    if least is not None:
        return 0.0, max(1.5 * float(values.max()), 2 * least)
    room = max(0.05 * float(np.ptp(values)), 0.005)
    return float(values.min()) - room, float(values.max()) + room


def _ranges(axis: Axes, rows: pl.DataFrame) -> None:
    """The ranges of all points as two lines with gaps."""
    gap = np.full(len(rows), np.nan)
    kernel, simulator = rows["kernel"].to_numpy(), rows["simulator"].to_numpy()
    x = np.column_stack([rows["kernel_min"].to_numpy(), rows["kernel_max"].to_numpy(), gap]).ravel()
    y = np.column_stack([rows["simulator_min"].to_numpy(), rows["simulator_max"].to_numpy(), gap]).ravel()
    axis.plot(x, np.column_stack([simulator, simulator, gap]).ravel(), **_RANGE)
    axis.plot(np.column_stack([kernel, kernel, gap]).ravel(), y, **_RANGE)
