"""The numbers behind the interactive view: columns of every shown run, rounded, as plain JSON."""

from __future__ import annotations

from typing import Any

import polars as pl

from l4slab import plot
from l4slab.plot.roles import INK, Look
from l4slab.report.results import Case, Folder

# Numbers in the page at most: some 4 MB. The median trial of each case comes first, then the others.
MAX_NUMBERS = 700_000
MAX_CASES = 40
MAX_OTHER_TRIALS = 9

_FLOW_PANELS = (
    ("rate_mbps", "delivery rate", "Mb/s", 1),
    ("srtt_ms", "TCP RTT", "ms", 1),
    ("cwnd_packets", "congestion window", "packets", 1),
)
_LINK_PANELS = (
    ("sojourn_ms", "queue delay", "ms", 1),
    ("backlog_packets", "backlog", "packets", 1),
)
_PROBABILITIES = (("p_c", "Classic"), ("p_l_coupled", "coupled L4S"), ("p_l_native", "native L4S"))


def data(folder: Folder) -> dict[str, Any]:
    """`runs`: a label, the trial, and panels of a title, a unit and lines over one time axis; how many are left out."""
    medians: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for case in folder.cases[:MAX_CASES]:
        series = folder.series_of(case)
        if series.is_empty():
            continue
        median = plot.median_trial(series, folder.warmup_s(case))
        rest = [trial for trial in series["trial"].unique().sort() if trial != median]
        medians.append(_run(folder, case, median, series) | {"median": True})
        others += [_run(folder, case, trial, series) | {"median": False} for trial in rest[:MAX_OTHER_TRIALS]]
    runs: list[dict[str, Any]] = []
    numbers = 0
    for run in medians + others:
        size = sum(len(line["y"]) for panel in run["panels"] for line in panel["lines"])
        if size and (numbers + size <= MAX_NUMBERS or not runs):
            numbers += size
            runs.append(run)
    runs.sort(key=lambda run: (run["order"], run["trial"]))
    total = folder.flows.select(pl.struct("experiment", "run").n_unique()).item() if len(folder.flows) else 0
    return {"runs": runs, "omitted": total - len(runs)}


def _run(folder: Folder, case: Case, trial: int, of_case: pl.DataFrame) -> dict[str, Any]:
    series = of_case.filter(pl.col("trial") == trial)
    times = series["time_s"].unique().sort()
    panels = []
    senders = folder.senders_of(case)
    looks = plot.looks(senders)
    of_flows = series.filter(pl.col("flow").is_not_null())
    for column, title, unit, scale in _FLOW_PANELS:
        lines = [
            _styled(flow, looks[flow], y)
            for flow in senders
            if (y := _line(of_flows.filter(pl.col("flow") == flow), column, times, scale))
        ]
        panels.append({"title": title, "unit": unit, "lines": lines})
    of_links = series.filter(pl.col("link").is_not_null())
    queues = of_links.select("link", "queue").unique(maintain_order=True)
    several = queues["link"].n_unique() > 1
    inner = [(link, queue) for link, queue in queues.iter_rows() if _shown(queues, link, queue)]
    for column, title, unit, scale in _LINK_PANELS:
        lines = []
        named = {(link, queue): _queue_name(link, queue, several=several) for link, queue in inner}
        of_queues = plot.looks(list(named.values()))
        for link, queue in inner:
            rows = of_links.filter((pl.col("link") == link) & (pl.col("queue") == queue))
            if y := _line(rows, column, times, scale):
                lines.append(_styled(named[link, queue], of_queues[named[link, queue]], y))
        panels.append({"title": title, "unit": unit, "lines": lines})
    lines = []
    links = list(queues["link"].unique(maintain_order=True))
    names = {(link, name): f"{link} {name}" if several else name for link in links for _, name in _PROBABILITIES}
    of_probabilities = plot.looks(list(names.values()))
    for link in links:
        for column, name in _PROBABILITIES:
            rows = of_links.filter((pl.col("link") == link) & pl.col(column).is_not_null())
            if y := _line(rows, column, times, 100):
                lines.append(_styled(names[link, name], of_probabilities[names[link, name]], y))
    panels.append({"title": "marking probability", "unit": "%", "lines": lines})
    return {
        "case": case.label(folder),
        "order": folder.cases.index(case),
        "trial": trial,
        "time": [round(t, 3) for t in times],
        "panels": [panel for panel in panels if panel["lines"]],
    }


def _queue_name(link: str, queue: str, *, several: bool) -> str:
    return " ".join([link] * several + ["queue" if queue == "all" else f"{queue} queue"])


def _styled(name: str, look: Look, y: list[float | None]) -> dict[str, Any]:
    """A line with its colour and dashes (in pixels), the same as in the figures; ink where it has that of text."""
    colour = None if look.colour == INK else look.colour
    return {"name": name, "colour": colour, "dash": [round(1.5 * part, 1) for part in look.dash], "y": y}


def _shown(queues: pl.DataFrame, link: str, queue: str) -> bool:
    """The queues inside where there are any, else the whole."""
    inside = queues.filter((pl.col("link") == link) & (pl.col("queue") != "all"))
    return queue != "all" or inside.is_empty()


def _line(rows: pl.DataFrame, column: str, times: pl.Series, scale: float) -> list[float | None]:
    """A value per time, None where there is none; empty where there is none at all."""
    if column not in rows.columns or not rows[column].count():
        return []
    joined = times.to_frame().join(
        rows.select("time_s", column).unique("time_s", keep="first"), on="time_s", how="left"
    )
    values = (joined.sort("time_s")[column] * scale).fill_nan(None).round_sig_figs(4)
    return [int(v) if v is not None and float(v).is_integer() else v for v in values]
