"""The data of a case that the page's script draws when the case is unfolded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import polars as pl

from l4slab.plot.distributions import NAMES, points, rarest
from l4slab.plot.roles import OnThePage
from l4slab.plot.trials import median_trial
from l4slab.report.drawings import DELAYS
from l4slab.report.results import Case, Folder

# The panels of a run that are also drawn for a case, and their published columns.
_OVER_TIME = ["delivery rate", "smoothed RTT", "classic ECN score", "queue delay", "marking probability"]
_PUBLISHED = {"rate_mbps": "delivery rate", "rtt_ms_mean": "smoothed RTT"}


class Curve(OnThePage):
    """A line of a distribution."""

    name: str
    x: list[float]
    y: list[float]


class Delays(TypedDict):
    """A distribution and its tail."""

    label: str
    titles: list[str]
    least: float  # of the tail's axis, in percent
    lines: list[Curve]


class Marked(TypedDict):
    """A published figure in a panel."""

    panel: str
    name: str
    value: float


class Drawn(TypedDict):
    """What the page draws of a case: its runs, the one in full, and the distributions."""

    runs: list[str]
    drawn: str
    shown: Sequence[str]
    delays: list[Delays]
    published: list[Marked]


def of(folder: Folder, case: Case) -> Drawn:
    """Which runs the page draws of a case, one of them in full, and the distributions.

    The lines over time are those that the page has of each run (`runs`).
    """
    flows = folder.flows.filter(case.rows())
    runs = dict(flows.select("trial", "run").unique(maintain_order=True).iter_rows())
    looks = folder.looks_in(case)
    histograms = folder.rows_of("histograms", case)
    delays: list[Delays] = []
    for quantity, _, _ in DELAYS:
        label, counted, beyond = NAMES[quantity]
        rows = histograms.filter(pl.col("flow").is_not_null(), quantity=quantity)
        lines = [
            Curve(name=name, x=_rounded(x), y=_rounded(y), **looks[name].on_the_page)
            for name, found in points(rows, quantity, list(looks)).items()
            for x, y in [zip(*found, strict=True)]
        ]
        if lines:
            titles = [f"part of the {counted}", beyond]
            most = rows.group_by("flow").agg(pl.col("count").sum())["count"].max()
            delays.append({"label": label, "titles": titles, "least": rarest(float(most or 1)), "lines": lines})  # type: ignore[arg-type]
    published = folder.published.filter(pl.col("experiment") == case.experiment).drop_nulls("published")
    return {
        "runs": list(runs.values()),
        "drawn": runs[median_trial(flows)],
        "shown": _OVER_TIME,
        "delays": delays,
        "published": [
            {"panel": panel, "name": flow, "value": value}
            for column, panel in _PUBLISHED.items()
            for flow, value in published.filter(column=column).select("flow", "published").iter_rows()
            if not folder.factors
        ],
    }


def _rounded(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.4g}") for value in values]


def note(folder: Folder, case: Case, chosen: Drawn) -> str:
    """The caption for the data of `of`."""
    warmup_s, several = folder.described(case)["warmup_ns"] / 1e9, len(chosen["runs"])
    which = f" Over time: the median of {several} trials, the others faint." if several > 1 else ""
    together = f" Distributions: {several} trials together." if several > 1 and chosen["delays"] else ""
    shaded = " Shaded: before the measured interval." if warmup_s else ""
    return f"Drag to zoom, double-click for all, click a name to hide its line.{which}{shaded}{together}"
