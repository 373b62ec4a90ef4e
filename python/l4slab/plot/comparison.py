"""The cases side by side: rate and round-trip time of every flow, mean and range over trials."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from l4slab.base.values import Cell
from l4slab.plot.roles import Look, Senders, looks
from l4slab.plot.style import GRID, WIDTH_IN, Figure, legend, mark_published, published_handle, styled

_PANELS = (
    (("rate_mbps", "goodput_mbps"), "rate (Mb/s)"),
    (("rtt_ms_mean", "sojourn_ms_mean"), "RTT (ms)"),
)
_AXIS_OF = {"goodput_mbps": "goodput (Mb/s)", "sojourn_ms_mean": "queue delay (ms)"}


def comparison(
    flows: pl.DataFrame,
    *,
    cases: Sequence[Mapping[str, Cell]] | None = None,
    labels: Sequence[str] | None = None,
    names: Senders | None = None,
    published: pl.DataFrame | None = None,
) -> Figure | None:
    """A row per case and in it a mark per flow, panels for rate and delay; None without data.

    A case is a value for each of some columns of `flows` (default: each experiment); `labels` name them. `names` are
    the flows, where possible with the congestion control of each, of which their looks follow. A mark is the mean over
    the trials and its bar their range. `published` (`Results.published`) adds the figures that belong to a flow's
    column, as hollow diamonds; of sweeps it is not drawn.
    """
    cases = cases if cases is not None else [{"experiment": e} for e in flows["experiment"].unique(maintain_order=True)]
    labels = labels if labels is not None else [", ".join(map(str, case.values())) for case in cases]
    look = looks(names or dict(flows.select("flow", "cc").unique("flow", maintain_order=True).rows()))
    names = list(look)
    panels = []
    for columns, label in _PANELS:
        column = next((c for c in columns if c in flows.columns and flows[c].count()), None)
        if column is not None:
            panels.append((column, _AXIS_OF.get(column, label)))
    if not panels or not cases:
        return None
    rows = [_of_case(flows, case) for case in cases]
    step = 0.22 * len(names) + 0.3
    with styled():
        figure = Figure(figsize=(WIDTH_IN, 1.0 + step * len(cases)))
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axis, (column, label) in zip(axes, panels, strict=True):
            for number, (case, of_case) in enumerate(zip(cases, rows, strict=True)):
                for position, name in enumerate(names):
                    y = number + (position - (len(names) - 1) / 2) * 0.22 / step
                    _mark(axis, of_case.filter(pl.col("flow") == name)[column].drop_nulls(), y, look[name])
                    value = _published(published, case, name, column)
                    if value is not None:
                        mark_published(axis, [value], [y], markersize=8.5)
            axis.set_xlabel(label)
            axis.margins(x=0.08)
            axis.set_xlim(left=0)
            axis.tick_params(axis="y", length=0)
            axis.grid(visible=False, axis="y")
            for number in range(1, len(cases)):
                axis.axhline(number - 0.5, color=GRID, linewidth=0.6)
        axes[0].set_yticks(range(len(cases)), [textwrap.fill(label, 30) for label in labels])
        axes[0].set_ylim(len(cases) - 0.5, -0.5)
        handles: list[Any] = [
            axes[0].errorbar([], [], xerr=[], fmt=style.marker, color=style.colour, capsize=2.5, label=name)
            for name, style in look.items()
        ]
        if published is not None and any(_any_published(published, case) for case in cases):
            handles.append(published_handle(markersize=8.5))
        legend(figure, handles)
    return figure


def _of_case(flows: pl.DataFrame, case: Mapping[str, Cell]) -> pl.DataFrame:
    return flows.filter(*(pl.col(name).eq_missing(pl.lit(value)) for name, value in case.items()))


def _mark(axis: Axes, values: pl.Series, y: float, look: Look) -> None:
    if values.is_empty():
        return
    mean = float(values.mean())  # type: ignore[arg-type]
    # A mean of equal floats may be the next float.
    spread = [[max(0, mean - float(values.min()))], [max(0, float(values.max()) - mean)]]  # type: ignore[arg-type]
    axis.errorbar(
        [mean],
        [y],
        xerr=spread,
        fmt=look.marker,
        zorder=3,
        markersize=4.5,
        capsize=2.5,
        color=look.colour,
    )


def _any_published(published: pl.DataFrame, case: Mapping[str, Cell]) -> bool:
    return (
        set(case) == {"experiment"}
        and published.filter(pl.col("experiment") == case["experiment"], pl.col("flow").is_not_null()).height > 0
    )


def _published(published: pl.DataFrame | None, case: Mapping[str, Cell], flow: str, column: str) -> float | None:
    if published is None or set(case) != {"experiment"}:
        return None
    found = published.filter(
        pl.col("experiment") == case["experiment"], pl.col("flow") == flow, pl.col("column") == column
    )
    return float(found["published"][0]) if len(found) and found["published"][0] is not None else None
