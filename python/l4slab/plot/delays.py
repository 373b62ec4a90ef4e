"""How long packets waited, or transfers took: the distribution, and its tail, from histograms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from l4slab.base.errors import InputError, suggest
from l4slab.plot.distributions import NAMES, distribution, ends_of, points_of, rarest
from l4slab.plot.roles import Look, Senders, looks
from l4slab.plot.style import BEHIND, DIM, WIDTH_IN, Figure, legend, plain_log, styled

# Below this ratio of its ends, an axis has numbers between the powers of ten.
_SHORT_AXIS = 300


def delays(
    histograms: pl.DataFrame,
    *,
    quantity: str = "sojourn_ms",
    flows: Senders | None = None,
) -> Figure | None:
    """Beside each other: which part of each flow's packets waited less than a time, and which part waited longer.

    `histograms` has the rows of one case, whose trials add up; with a column `panel`, of several cases, a row of
    panels for each. `quantity` is one of that table. The tail, on a log axis, is drawn down to one of 10 000, or to
    what a flow has. `flows` as in `time_series`. None without data. Raises InputError for an unknown quantity.
    """
    if quantity not in NAMES:
        raise InputError(f'= "{quantity}" has no distribution; {suggest(quantity, NAMES)}', key="quantity")
    rows = histograms.filter(pl.col("flow").is_not_null(), quantity=quantity)
    if rows.is_empty():
        return None
    named = rows if "panel" in rows.columns else rows.with_columns(panel=pl.lit(""))
    look = looks(flows or list(rows["flow"].unique(maintain_order=True)))
    cases = named.partition_by("panel", maintain_order=True)
    drawn = [{name: distribution(case.filter(flow=name)) for name in look} for case in cases]
    ends = ends_of([one for case in drawn for one in case.values() if len(one)])
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


def _draw(below: Axes, above: Axes, one: pl.DataFrame, look: Look, ends: tuple[float, float], name: str) -> Line2D:
    """A flow's line in both panels, from the axes' left end to the right."""
    points = points_of(one, ends[0])
    (line,) = below.plot(*zip(*points, (ends[1], 100.0), strict=True), label=name, **look.line)
    # The last has nothing beyond it: its line goes down through the end of the axis.
    above.plot(*zip(*((x, max(100 - part, 1e-9)) for x, part in points), strict=True), **look.line)
    return line


def _tail(axes: Sequence[Axes], drawn: Sequence[Mapping[str, pl.DataFrame]]) -> None:
    most = max(one["all"][0] for case in drawn for one in case.values() if len(one))
    lowest = rarest(most)
    axes[0].set_ylim(lowest, 100)
    # A text below the axis would take the room of the axes.
    for axis in axes if lowest <= 1 else ():
        axis.axhline(1, color=DIM, linewidth=0.6, linestyle=(0, (1, 2)), zorder=1.5)
        place = ((0, 1), (3, 2), ("axes fraction", "data"), "offset points")
        axis.annotate("P99", *place, fontsize=7, color=DIM, bbox=BEHIND, zorder=3)
