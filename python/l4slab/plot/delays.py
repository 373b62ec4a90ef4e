"""How long packets waited, or transfers took: the distribution, and its tail, from histograms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from l4slab.base.numbers import NO_DELAY_MS
from l4slab.plot.roles import Look, looks
from l4slab.plot.style import DIM, WIDTH_IN, Figure, legend, plain_log, styled

# Of each quantity: what is counted, and how to say that one is beyond a value.
NAMES = {
    "sojourn_ms": ("queue delay (ms)", "packets", "waited longer"),
    "rtt_ms": ("TCP RTT (ms)", "samples", "were longer"),
    "completion_ms": ("completion time (ms)", "transfers", "took longer"),
    "view_ms": ("delay of a view (ms)", "inputs", "took longer"),
}
# What is shorter stands at the left end, as far as a plot can tell.
_MIN_MS = NO_DELAY_MS
# Points of a line to a decade of the axis.
_POINTS = 100
_RAREST_PCT = 0.01
# Below this ratio of its ends, an axis has numbers between the powers of ten.
_SHORT_AXIS = 300


def delays(
    histograms: pl.DataFrame,
    *,
    quantity: str = "sojourn_ms",
    flows: Sequence[str] | Mapping[str, str | None] | None = None,
) -> Figure | None:
    """Beside each other: which part of each flow's packets waited less than a time, and which part waited longer.

    `histograms` has the rows of one case, whose trials add up; with a column `panel`, of several cases, a row of
    panels for each. `quantity` is one of that table. The tail, on a log axis, is drawn down to one of 10 000, or to
    what a flow has. `flows` as in `time_series`. None without data.
    """
    rows = histograms.filter(pl.col("flow").is_not_null(), quantity=quantity)
    if rows.is_empty():
        return None
    named = rows if "panel" in rows.columns else rows.with_columns(panel=pl.lit(""))
    look = looks(flows or list(rows["flow"].unique(maintain_order=True)))
    cases = named.partition_by("panel", maintain_order=True)
    drawn = [{name: _distribution(case.filter(flow=name)) for name in look} for case in cases]
    ends = _ends([one for case in drawn for one in case.values() if len(one)])
    x_label, counted, beyond = NAMES[quantity]
    with styled():
        figure = Figure(figsize=(WIDTH_IN, 0.75 + 1.9 * len(cases)))
        grid = figure.subplots(len(cases), 2, sharex=True, sharey="col", squeeze=False)
        handles: dict[str, Line2D] = {}
        for (below, above), case, found in zip(grid, cases, drawn, strict=True):
            if case["panel"][0]:
                below.set_title(str(case["panel"][0]), fontweight="bold")
            for name, one in found.items():
                if len(one):
                    handles[name] = _draw(below, above, one, look[name], ends, name)
            below.set_ylabel(f"part of the {counted} (%)")
            above.set_ylabel(f"{beyond} (%)")
        for axis in grid.flat:
            axis.set_xscale("log")
            if ends[1] < _SHORT_AXIS * ends[0]:
                axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            plain_log(axis.xaxis)
            axis.set_xlim(*ends)
        grid[0][0].set_ylim(0, 103)
        grid[0][1].set_yscale("log")
        plain_log(grid[0][1].yaxis)
        _tail(list(grid[:, 1]), drawn)
        for axis in grid[-1]:
            axis.set_xlabel(x_label)
        legend(figure, list(handles.values()))
    return figure


def _distribution(rows: pl.DataFrame) -> pl.DataFrame:
    """`low_ms` to `ms`, the part in percent `below` that, and how many there are (`all`)."""
    found = (
        rows.group_by(pl.col("low_ms").clip(_MIN_MS), pl.col("high_ms").clip(_MIN_MS))
        .agg(pl.col("count").sum())
        .sort("high_ms", "low_ms")
        .with_columns(below=100 * pl.col("count").cum_sum() / pl.col("count").sum(), all=pl.col("count").sum())
        .rename({"high_ms": "ms"})
    )
    place = (pl.col("ms").log10() * _POINTS).floor()
    return found.group_by(place.alias("place"), maintain_order=True).agg(
        pl.col("low_ms").first(), pl.col("ms", "below", "all").last()
    )


def points(histograms: pl.DataFrame, quantity: str, flows: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    """What `delays` draws of each flow that has such a distribution: points of (ms, percent below that)."""
    rows = histograms.filter(pl.col("flow").is_not_null(), quantity=quantity)
    drawn = {name: one for name in flows if len(one := _distribution(rows.filter(flow=name)))}
    return {name: _points(one, _ends(list(drawn.values()))[0]) for name, one in drawn.items()}


def _points(one: pl.DataFrame, begin_ms: float) -> list[tuple[float, float]]:
    found = [(begin_ms, 0.0)]
    for low, high, part in one.select("low_ms", "ms", "below").iter_rows():
        found += [(low, found[-1][1]), (high, part)] if low > found[-1][0] else [(high, part)]
    return found


def _ends(found: Sequence[pl.DataFrame]) -> tuple[float, float]:
    low, high = min(one["low_ms"][0] for one in found), max(one["ms"][-1] for one in found)
    return max(low, _MIN_MS) / 1.12, high * 1.12


def _draw(below: Axes, above: Axes, one: pl.DataFrame, look: Look, ends: tuple[float, float], name: str) -> Line2D:
    """A flow's line in both panels, from the axes' left end to the right."""
    points = _points(one, ends[0])
    (line,) = below.plot(*zip(*points, (ends[1], 100.0), strict=True), label=name, **look.line)
    # The last has nothing beyond it: its line goes down through the end of the axis.
    above.plot(*zip(*((x, max(100 - part, 1e-9)) for x, part in points), strict=True), **look.line)
    return line


def _tail(axes: Sequence[Axes], drawn: Sequence[Mapping[str, pl.DataFrame]]) -> None:
    most = max(one["all"][0] for case in drawn for one in case.values() if len(one))
    lowest = max(_RAREST_PCT, min(50.0, 100 / most))
    axes[0].set_ylim(lowest, 100)
    # A text below the axis would take the room of the axes.
    for axis in axes if lowest <= 1 else ():
        axis.axhline(1, color=DIM, linewidth=0.6, linestyle=(0, (1, 2)), zorder=1.5)
        axis.annotate("P99", (0, 1), (3, 2), ("axes fraction", "data"), "offset points", fontsize=7, color=DIM)
