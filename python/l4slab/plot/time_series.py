"""Delivery rate and TCP round-trip time of every flow over time, the primary metrics of the published plots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from l4slab.plot.roles import INK, Look, Senders, looks
from l4slab.plot.style import (
    DIM,
    WIDTH_IN,
    Figure,
    legend,
    limit_y,
    mark_published,
    published_handle,
    shade_warmup,
    styled,
)
from l4slab.plot.trials import median_trial

# Prague's detector (arXiv:1911.00710): below the shaded scores the queue is taken for L4S, above for classic.
_SCORE = "classic_ecn_score"
_TRANSITION = (8, 9)
_HIGHEST_SCORE = 17
_RATES = ("rate_mbps", "goodput_mbps")
# A capacity that nobody comes near ends the axis at so many times the rates.
_ROOM = 4
_LIMIT: Any = {"color": INK, "linewidth": 0.9, "linestyle": (0, (4, 2))}
# Part of the highest rate that is not to be told from zero.
_UNSEEN = 0.005


def time_series(
    series: pl.DataFrame,
    *,
    flows: Senders | None = None,
    warmup_s: float = 0,
    trial: int | None = None,
    published: pl.DataFrame | None = None,
    capacity: pl.DataFrame | None = None,
) -> Figure | None:
    """Panels over one time axis: rate (Mb/s), smoothed RTT (ms) and, where a sender has it, the score of its
    detector of classic ECN queues.

    `series` has the rows of one case; with a column `panel`, of several cases, which stand beside each other on the
    same scales. One trial of each, the median one unless given, is drawn in full, the others faintly; the time before
    `warmup_s` is shaded. `flows` are all flows, where possible with the congestion control of each (the column `cc`),
    of which the looks follow. `published` (rows of `Results.published`) adds published means, in the middle of the
    measured interval. `capacity` (columns `flow`, `time_s`, `capacity_mbps` and, with panels, `panel`) is what each
    flow's path can carry from that time on: a line where it varies. None without data.
    """
    of_flows = _without_probes(series.filter(pl.col("flow").is_not_null()))
    if of_flows.is_empty():
        return None
    look = looks(flows or list(of_flows["flow"].unique(maintain_order=True)))
    cases = of_flows.partition_by("panel", maintain_order=True) if "panel" in series.columns else [of_flows]
    wanted = [
        (_rate_column(of_flows), "delivery rate (Mb/s)"),
        ("srtt_ms", "smoothed RTT (ms)"),
        (_SCORE, "classic score"),
    ]
    panels = [(name, label) for name, label in wanted if name in of_flows.columns and of_flows[name].count()]
    if not panels:
        return None
    with styled():
        figure = Figure(figsize=(WIDTH_IN, 1.15 + 1.55 * len(panels)))
        grid = figure.subplots(len(panels), len(cases), sharex="col", sharey="row", squeeze=False)
        means: dict[str, list[float]] = {column: [] for column, _ in panels}
        of_paths: list[Line2D] = []
        for axes, case in zip(grid.T, cases, strict=True):
            drawn = median_trial(case, warmup_s) if trial is None else trial
            lowest = axes[-1]
            for axis, (column, _) in zip(axes, panels, strict=True):
                _panel(axis, case, look, column, drawn, warmup_s)
                if capacity is not None and column in _RATES:
                    of_paths += _capacity(axis, capacity, case)
                end_s = float(case["time_s"].max() or 0)  # type: ignore[arg-type]
                means[column] += _mark_means(axis, published, look, column, warmup_s, end_s)
                if column == _SCORE and case[_SCORE].count():
                    axis.axhspan(*_TRANSITION, color=INK, alpha=0.12, linewidth=0, zorder=0)
                elif column == _SCORE:  # a case without a detector beside one that has it
                    axis.set_axis_off()
                    lowest = axes[-2]
            lowest.set_xlabel("time (s)")
            lowest.tick_params(labelbottom=True)
            lowest.set_xlim(0, float(case["time_s"].max() or 0))  # type: ignore[arg-type]
            if len(cases) > 1:
                axes[0].set_title(str(case["panel"][0]), fontweight="bold")
        for row, (column, label) in zip(grid, panels, strict=True):
            axis = next(axis for axis in row if axis.axison)
            axis.set_ylabel(label)
            axis.tick_params(labelleft=True)
            if column == _SCORE:
                axis.set_ylim(-0.03 * _HIGHEST_SCORE, _HIGHEST_SCORE * 1.05)  # zero is seen, too
            else:
                measured = of_flows.drop_nulls(column)
                limit_y(axis, measured["time_s"].to_numpy(), measured[column].to_numpy(), warmup_s)
                if column in _RATES and of_paths:
                    most = max(float(np.max(line.get_ydata())) for line in of_paths)
                    low, high = axis.get_ylim()
                    axis.set_ylim(low, max(high, 1.05 * min(most, _ROOM * high)))
                # A mark above the panel would take the room of all panels.
                low, high = axis.get_ylim()
                axis.set_ylim(low, max(high, 1.05 * max(means[column], default=0.0)))
        known = {text: line for axis in grid[0] for line, text in zip(*axis.get_legend_handles_labels(), strict=True)}
        legend(
            figure,
            [known[name] for name in look if name in known] + of_paths[:1] + [published_handle()] * any(means.values()),
        )
    return figure


def _without_probes(of_flows: pl.DataFrame) -> pl.DataFrame:
    """Without flows that have no RTT and no rate that would show, such as a ping."""
    rate = pl.col("rate_mbps").fill_null(pl.col("goodput_mbps"))
    found = of_flows.group_by("flow").agg(rate.max().alias("rate"), pl.col("srtt_ms").count().alias("rtts"))
    probes = found.filter((pl.col("rtts") == 0) & (pl.col("rate") < _UNSEEN * pl.col("rate").max()))
    return of_flows.filter(~pl.col("flow").is_in(probes["flow"].to_list()))


def _rate_column(of_flows: pl.DataFrame) -> str:
    return "rate_mbps" if of_flows["rate_mbps"].count() else "goodput_mbps"


def _capacity(axis: Axes, capacity: pl.DataFrame, case: pl.DataFrame) -> list[Line2D]:
    """A step line for each capacity that varies, with the names of its flows where there are several."""
    if "panel" in case.columns and "panel" in capacity.columns:
        capacity = capacity.filter(panel=case["panel"][0])
    flows: dict[tuple[Any, ...], list[str]] = {}
    of_case = capacity.filter(pl.col("flow").is_in(case["flow"].unique().to_list()))
    for (name,), rows in of_case.group_by("flow", maintain_order=True):
        flows.setdefault(tuple(rows.select("time_s", "capacity_mbps").iter_rows()), []).append(str(name))
    end = float(case["time_s"].max() or 0)  # type: ignore[arg-type]
    drawn = []
    for steps, names in flows.items():
        if len(steps) > 1:
            times, rates = zip(*steps, (end, steps[-1][1]), strict=True)
            drawn += axis.plot(times, rates, drawstyle="steps-post", label="capacity", zorder=2.5, **_LIMIT)
            if len(flows) > 1:
                axis.annotate(
                    ", ".join(names), (times[0], rates[0]), (3, 2), textcoords="offset points", fontsize=7, color=DIM
                )
    return drawn


def _panel(
    axis: Axes, of_flows: pl.DataFrame, look: Mapping[str, Look], column: str, trial: int, warmup_s: float
) -> None:
    for number in [n for n in of_flows["trial"].unique().sort() if n != trial] + [trial]:
        for name in look:
            rows = of_flows.filter((pl.col("trial") == number) & (pl.col("flow") == name)).sort("time_s")
            if rows.is_empty():
                continue
            values = rows[column].to_numpy()
            if number == trial:
                axis.plot(rows["time_s"].to_numpy(), values, label=name, zorder=3, **look[name].line)
            else:
                colour = look[name].colour
                axis.plot(rows["time_s"].to_numpy(), values, color=colour, alpha=0.16, linewidth=0.6, zorder=2)
    shade_warmup(axis, warmup_s)


# What is published is the mean of the interval.
_MEANS = {"rate_mbps": "rate_mbps", "goodput_mbps": "goodput_mbps", "srtt_ms": "rtt_ms_mean"}


def _mark_means(
    axis: Axes, published: pl.DataFrame | None, look: Mapping[str, Look], column: str, warmup_s: float, end_s: float
) -> list[float]:
    """Mark the published means of this panel, and give them."""
    if published is None or column not in _MEANS:
        return []
    means = published.filter(
        pl.col("column") == _MEANS[column], pl.col("flow").is_in(list(look)), pl.col("published").is_not_null()
    )
    for flow, value in means.select("flow", "published").iter_rows():
        axis.hlines(value, warmup_s, end_s, color=look[flow].colour, linewidth=0.8, linestyle=(0, (1, 3)), zorder=3.2)
        mark_published(axis, [(warmup_s + end_s) / 2], [value])
    return means["published"].to_list()
