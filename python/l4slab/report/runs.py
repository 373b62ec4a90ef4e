"""Every run as the page opens it: what was set up, what was measured, and its time series.

A run is a JSON object, packed (deflate, then base64). Those of small results stand in the page. Otherwise each has a
file, which the page loads when the run is opened:

    runs/FORM/RUN.js    a script, because a page that comes from a disk can load nothing else

FORM identifies the format, RUN everything that determines the run. So an existing file stays valid.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NotRequired, TypedDict
from urllib.parse import quote, unquote

import polars as pl
from polars import selectors as cs

from l4slab import plot
from l4slab.base import frames, metrics
from l4slab.base.progress import Told, silent
from l4slab.base.run import Run as Description
from l4slab.experimentfile import capacity
from l4slab.plot import roles
from l4slab.report import provenance, setup, tables
from l4slab.report.results import Folder, replace
from l4slab.results import many
from l4slab.sweep import canonical_json

# Rows of `series` up to which all runs stand in the page: some 2 MB.
MAX_EMBEDDED_ROWS = 150_000
_FLOW_PANELS = (
    ("rate_mbps", "delivery rate", "Mb/s"),
    ("srtt_ms", "smoothed RTT", "ms"),
    ("classic_ecn_score", "classic ECN score", ""),
    ("cwnd_packets", "congestion window", "packets"),
)
_LINK_PANELS = (("sojourn_ms", "queue delay", "ms"), ("backlog_packets", "backlog", "packets"))
_CAPACITY_DASH: list[float] = [6, 3]
_PROBABILITIES = (("p_c", "Classic"), ("p_l_coupled", "coupled L4S"), ("p_l_native", "native L4S"))
_SERIES = {
    "run",
    "time_s",
    "flow",
    "link",
    "queue",
    *(column for column, *_ in (*_FLOW_PANELS, *_LINK_PANELS, *_PROBABILITIES)),
}


class Curve(TypedDict):
    """A line of a panel: a value per time. The page knows the look of a flow with its controller ("" for none)."""

    name: str
    y: list[float | None]
    cc: NotRequired[str]
    colour: NotRequired[str | None]
    dash: NotRequired[list[float]]


class Panel(TypedDict):
    """Lines over the time of a run."""

    title: str
    unit: str
    lines: list[Curve]


class Measured(TypedDict):
    """Quantities of flows or queues: a column per head."""

    heads: list[str]
    rows: list[list[str]]


class Shown(TypedDict):
    """A run as the page opens it."""

    setup: list[tuple[str, str]]
    description: str | None
    warmup_s: float
    measured: list[Measured]
    time: list[float]
    panels: list[Panel]


def embedded(folder: Folder) -> dict[str, str] | None:
    """Every run that has results, packed, by its id; None where they have to be files (see `write`)."""
    file = folder.folder / "series.parquet"
    if file.is_file() and pl.scan_parquet(file).select(pl.len()).collect().item() > MAX_EMBEDDED_ROWS:
        return None
    return dict(_packed(folder, folder.run_ids))


def write(folder: Folder, told: Told = silent) -> None:
    """A file for each run; those of another form go. `told` hears of progress."""
    place = folder.folder / "runs" / form()
    place.mkdir(parents=True, exist_ok=True)
    for other in place.parent.iterdir():
        if other.is_dir() and other != place:
            shutil.rmtree(other)
    missing = [run for run in folder.run_ids if not (place / f"{run}.js").is_file()]
    for number, (run, packed) in enumerate(_packed(folder, missing)):
        text = f'l4slab.run("{run}","{packed}")\n'
        replace(place / f"{run}.js", lambda path, text=text: path.write_text(text, encoding="ascii"))
        told("Writing the runs", (number + 1) / len(missing))


@cache
def form() -> str:
    """A hash of the modules that define the content and format of a run."""
    sources = [
        Path(__file__),
        *(Path(str(module.__file__)) for module in (capacity, many, metrics, roles, setup, tables)),
    ]
    text = b"".join(source.read_bytes() for source in sources)
    return hashlib.sha256(text).hexdigest()[:8]


def other_files(folder: Folder) -> dict[str, list[tuple[str, str]]]:
    """Readable names and addresses of a run's other files: captures, and the final statistics of a kernel's queues."""
    found = {}
    for run in folder.run_ids:
        captures = sorted((folder.folder / "captures" / run).glob("*.pcap*"))
        # The engines quote a flow's name in that of its file, and an address quotes once more.
        files = [(unquote(file.name), f"captures/{quote(run)}/{quote(file.name)}") for file in captures]
        if (folder.folder / "lab" / run / "teardown.txt").is_file():
            files.append(("teardown.txt", f"lab/{run}/teardown.txt"))
        if files:
            found[run] = files
    return found


def _packed(folder: Folder, wanted: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not wanted:
        return
    planned = {run.id: run.description for name in folder.experiments for run in folder.plan(name).runs}
    measured = {name: _by_run(getattr(folder, name), wanted) for name in ("flows", "links")}
    series = dict.fromkeys(wanted, pl.DataFrame())
    for run, rows in _series(folder, set(wanted)):
        if series.pop(run, None) is None:
            continue  # two experiments have it, and its rows are there for each
        yield run, _pack(_run(planned.get(run), measured, run, rows))
    for run in series:
        yield run, _pack(_run(planned.get(run), measured, run, None))


def _pack(value: object) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return provenance.packed(text.encode())


def _by_run(frame: pl.DataFrame, wanted: Sequence[str]) -> dict[Any, pl.DataFrame]:
    rows = frame.filter(pl.col("run").is_in(wanted))
    once = rows.filter(pl.col("experiment") == pl.col("experiment").first().over("run"))
    return once.partition_by("run", as_dict=True, maintain_order=True)


def _series(folder: Folder, wanted: set[str]) -> Iterator[tuple[str, pl.DataFrame]]:
    """The time series of each run, of which the file has the rows together; a few batches at once in memory."""
    path = folder.folder / "series.parquet"
    if not path.is_file():
        return
    columns = [name for name in pl.read_parquet_schema(path) if name in _SERIES]
    rest = pl.DataFrame()
    for batch in frames.batches(path, columns):
        rows = batch.filter(pl.col("run").is_in(wanted))
        parts = pl.concat([rest, rows], how="diagonal_relaxed").partition_by("run", maintain_order=True)
        for part in parts[:-1]:
            yield part["run"][0], part
        rest = parts[-1] if parts else rest
    if len(rest):
        yield rest["run"][0], rest


def _run(
    description: Description | None,
    measured: Mapping[str, Mapping[Any, pl.DataFrame]],
    run: str,
    series: pl.DataFrame | None,
) -> Shown:
    of_run = {name: parts.get((run,)) for name, parts in measured.items()}
    flows = of_run["flows"]
    if flows is not None and (worst := many.worst_flows(flows)) is not None:
        of_run["flows"] = flows = flows.filter(pl.col("flow").is_in(worst))
        series = None if series is None else series.filter(pl.col("flow").is_null() | pl.col("flow").is_in(worst))
    if (links := of_run["links"]) is not None:
        of_run["links"] = shown = many.shown_queues(links)
        if series is not None and len(shown) < len(links):
            queues = shown.select("link", "queue")
            rest = series.filter(pl.col("link").is_not_null()).join(queues, on=["link", "queue"], how="semi")
            series = pl.concat([series.filter(pl.col("link").is_null()), rest])
    senders = {} if flows is None else dict(flows.select("flow", "cc").drop_nulls("flow").iter_rows())
    time, panels = ([], []) if series is None else _curves(series, senders, _capacities(description))
    return {
        "setup": [] if description is None else setup.settings(description),
        "description": None if description is None else canonical_json(description),
        "warmup_s": 0 if description is None else description["warmup_ns"] / 1e9,
        "measured": [_numbers(rows, name) for name, rows in of_run.items() if rows is not None],
        "time": time,
        "panels": panels,
    }


def _numbers(rows: pl.DataFrame, table: str) -> Measured:
    """Every quantity of a run's flows or queues: a row per quantity, a column per flow or queue."""
    if table == "flows":
        heads = [f"{flow} ({cc})" if cc else flow for flow, cc in rows.select("flow", "cc").iter_rows()]
    else:
        heads = [link if queue == "all" else f"{link}, {queue}" for link, queue in rows.select("link", "queue").rows()]
    quantities = metrics.TABLES[table].keys() - {"flow", "cc", "link", "queue"}
    others = [name for name in rows.columns if name in quantities and rows[name].count()]
    return {
        "heads": heads,
        "rows": [[tables.heading(name), *(tables.shown(value, name) for value in rows[name])] for name in others],
    }


def _capacities(description: Description | None) -> dict[str, capacity.Steps]:
    """Of the flows' paths, where they vary, by the name of the line: which flows' it is, unless it is that of all."""
    flows: dict[tuple[tuple[float, float], ...], list[str]] = {}
    for flow, steps in ({} if description is None else capacity.of_flows(description)).items():
        flows.setdefault(tuple(steps), []).append(flow)
    varying = {steps: names for steps, names in flows.items() if len(steps) > 1}
    return {
        f"capacity ({', '.join(names)})" if len(flows) > 1 else "capacity": steps for steps, names in varying.items()
    }


def _curves(
    series: pl.DataFrame, senders: Mapping[str, str | None], capacities: Mapping[str, capacity.Steps]
) -> tuple[list[float], list[Panel]]:
    """Times, and panels of a title, a unit and lines over one time axis; a sample is of the time before it."""
    series = series.with_columns(cs.float().exclude("time_s").fill_nan(None).round_sig_figs(4))
    times = series.select(pl.col("time_s").unique().sort())
    flows = _parts(series.filter(pl.col("flow").is_not_null()), ["flow"], times)
    links = _parts(series.filter(pl.col("link").is_not_null()), ["link", "queue"], times)
    several = len({link for link, _ in links}) > 1
    panels = [
        _panel(title, unit, {name: _line(part, column) for (name,), part in flows.items()}, senders)
        for column, title, unit in _FLOW_PANELS
    ]
    over_time: dict[str, list[float | None]] = {
        name: [capacity.at(steps, max(time - 1e-9, 0.0)) for time in times["time_s"]]
        for name, steps in capacities.items()
    }
    panels[0]["lines"] += [
        {"name": name, "y": y, "colour": None, "dash": _CAPACITY_DASH} for name, y in over_time.items()
    ]
    queues = {key: _queue(several, *key) for key in links if _shown(links, *key)}
    panels += [
        _panel(title, unit, {label: _line(links[key], column) for key, label in queues.items()})
        for column, title, unit in _LINK_PANELS
    ]
    probabilities = {
        f"{key[0]} {name}" if several else name: _line(links[key], column, 100)
        for key in links
        if key[1] == "all"
        for column, name in _PROBABILITIES
    }
    panels.append(_panel("marking probability", "%", probabilities))
    return [round(time, 4) for time in times["time_s"]], [panel for panel in panels if panel["lines"]]


def _parts(rows: pl.DataFrame, keys: list[str], times: pl.DataFrame) -> dict[Any, pl.DataFrame]:
    """The rows of each flow or queue, one per time."""
    parts = rows.partition_by(keys, as_dict=True, maintain_order=True)
    return {
        key: times.join(part.unique("time_s", keep="first"), on="time_s", how="left", maintain_order="left")
        for key, part in parts.items()
    }


def _panel(
    title: str, unit: str, lines: Mapping[str, list[float | None]], senders: Mapping[str, str | None] | None = None
) -> Panel:
    """A panel of flows (`senders`) or of what their names say; a line without a value is left out."""
    if senders is not None:
        curves = [Curve(name=name, y=y, cc=senders.get(name) or "") for name, y in lines.items() if y]
    else:
        looks = plot.looks(list(lines))
        curves = [
            Curve(name=name, y=y, colour=looks[name].on_the_page["colour"], dash=looks[name].on_the_page["dash"])
            for name, y in lines.items()
            if y
        ]
    return {"title": title, "unit": unit, "lines": curves}


def _queue(several: bool, link: str, queue: str) -> str:
    return " ".join([link] * several + ["queue" if queue == "all" else f"{queue} queue"])


def _shown(links: Mapping[Any, Any], link: str, queue: str) -> bool:
    """The queues inside where there are any, else the whole."""
    return queue != "all" or not any(other == link and inside != "all" for other, inside in links)


def _line(rows: pl.DataFrame, column: str, scale: float = 1) -> list[float | None]:
    """A value per time, None where there is none; empty where there is none at all."""
    if column not in rows.columns or not rows[column].count():
        return []
    values = rows[column] if scale == 1 else (rows[column] * scale).round_sig_figs(4)
    return [int(v) if v is not None and float(v).is_integer() else v for v in values]
