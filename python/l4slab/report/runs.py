"""The tables of a study whose cells are runs, and what a cell links to.

    runs/RUN.svg    delivery rate and round-trip time over time
    runs/RUN.txt    what the queues were and what they counted
    captures/RUN/   the packets of each flow, where the experiment asks for them

The query of a `[[table]]` gives a row per run with the columns `row`, `column` and `run`. With a column `group`, each
of its values has a table of its own. All other columns stand in the cell, under their name.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from l4slab import plot
from l4slab.claims import connect_to, show_experiment
from l4slab.figures import RunTable
from l4slab.report import tables
from l4slab.report.results import Folder, replace

_PLACES = ("group", "row", "column", "run")
_COUNTERS = (
    "arrived_packets", "sent_packets", "dropped_packets", "dropped_overflow_packets", "marked_packets",
    "step_marked_packets", "backlog_packets_max", "sojourn_ms_mean", "sojourn_ms_p99", "sojourn_ms_max", "utilisation",
)  # fmt: skip


def of_the_study(folder: Folder) -> list[dict[str, Any]]:
    """Every `[[table]]` of the folder's files as the template shows it; writes what its cells link to."""
    shown = []
    with connect_to(folder.arrow()) as connection:
        for file in folder.files:
            show_experiment(connection, file)
            for table in file.tables(RunTable):
                cells = connection.sql(table.sql).pl().filter(pl.col("run").is_not_null())
                if not cells.is_empty():
                    shown.append((table, _as_text(cells)))
    ids = list(dict.fromkeys(run for _, cells in shown for run in cells["run"]))
    _write_files(folder, ids)
    links = {run: list(_links(folder.folder, run)) for run in ids}
    return [
        {"id": table.id, "title": table.title or table.id, "about": table.about, "source": table.source}
        | {"groups": list(_groups(cells, links))}
        for table, cells in shown
    ]


def _as_text(cells: pl.DataFrame) -> pl.DataFrame:
    if "group" not in cells.columns:
        cells = cells.with_columns(pl.lit("").alias("group"))
    return cells.with_columns(pl.col(name).cast(pl.String).fill_null("") for name in _PLACES)


def _groups(cells: pl.DataFrame, links: Mapping[str, Sequence[tuple[str, str]]]) -> Iterator[dict[str, Any]]:
    """A grid of cells for each group: runs with their numbers and links."""
    columns = list(cells["column"].unique(maintain_order=True))
    numbers = [name for name in cells.columns if name not in _PLACES]
    for (group,), part in cells.group_by("group", maintain_order=True):
        rows = []
        for (row,), mine in part.group_by("row", maintain_order=True):
            found: dict[str, list[dict[str, Any]]] = {column: [] for column in columns}
            for cell in mine.iter_rows(named=True):
                values = [(tables.heading(name), _shown(cell[name])) for name in numbers if cell[name] is not None]
                found[cell["column"]].append({"values": values, "links": links[cell["run"]]})
            rows.append({"name": row, "cells": list(found.values())})
        yield {"name": group, "columns": columns, "rows": rows}


def _shown(value: Any) -> str:
    return tables.number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _links(out: Path, run: str) -> Iterator[tuple[str, str]]:
    """Name and address of everything that there is of a run."""
    yield "plot", f"runs/{run}.svg"
    for file in sorted((out / "captures" / run).glob("*.pcapng*")):
        yield file.name.partition(".")[0], f"captures/{run}/{file.name}"
    yield "teardown", f"lab/{run}/teardown.txt" if (out / "lab" / run).is_dir() else f"runs/{run}.txt"


def _write_files(folder: Folder, ids: Sequence[str]) -> None:
    """Plot and log of each run. What is there stays: a run's id stands for everything that determines it."""
    place = folder.folder / "runs"
    if not ids:
        return
    place.mkdir(exist_ok=True)
    planned = {run.id: run.description for name in folder.experiments for run in folder.plan(name).runs}
    for run in ids:
        if not (place / f"{run}.txt").is_file():
            _write(place / f"{run}.txt", log(folder, run, planned.get(run)))
    missing = [run for run in ids if not (place / f"{run}.svg").is_file()]
    workers = min(os.cpu_count() or 1, -(-len(missing) // 8))
    if workers <= 1:
        draw(folder.folder, missing)
        return
    # matplotlib draws on one core; processes of our own, so that nothing of the caller's program runs in them.
    command = [sys.executable, "-c", "from l4slab.report import runs; runs.main()", str(folder.folder)]
    drawing = [subprocess.Popen([*command, *missing[n::workers]]) for n in range(workers)]  # noqa: S603  (ourselves)
    for process in drawing:
        if process.wait():
            raise subprocess.CalledProcessError(process.returncode, command)


def draw(out: Path, ids: Sequence[str]) -> None:
    """Write `runs/RUN.svg` of these runs of a results folder."""
    flows = pl.read_parquet(out / "flows.parquet", columns=["run", "flow", "cc"])
    series = pl.scan_parquet(out / "series.parquet").filter(pl.col("run").is_in(ids)).collect()
    for (run,), rows in series.group_by("run"):
        senders = dict(flows.filter(pl.col("run") == run).select("flow", "cc").iter_rows())
        figure = plot.time_series(rows, flows=senders)
        if figure is not None:
            _write(out / "runs" / f"{run}.svg", plot.to_svg(figure))


def _write(path: Path, text: str) -> None:
    replace(path, lambda file: file.write_text(text, encoding="utf-8"))


def log(folder: Folder, run: str, description: Mapping[str, Any] | None) -> str:
    """What was set up, where it is known, and what every queue counted in the measured interval."""
    rows = folder.links.filter(pl.col("run") == run)
    lines = [f"run {run}: {rows['experiment'][0]}, trial {rows['trial'][0]}" if len(rows) else f"run {run}"]
    if description is not None:
        lines += [f"  {name}: {value}" for name, value in tables.settings(description)]
    for row in rows.iter_rows(named=True):
        lines += ["", f"link {row['link']} queue {row['queue']}"]
        lines += [f"  {name} {_plain(row[name])}" for name in _COUNTERS if row.get(name) is not None]
    flows = folder.flows.filter(pl.col("run") == run)
    for row in flows.iter_rows(named=True):
        lines += ["", f"flow {row['flow']} {row['cc']} ecn {row['ecn_mode']}"]
        names = ("goodput_mbps", "sent_packets", "dropped_packets", "ce_packets", "retransmits", "rtt_ms_mean")
        lines += [f"  {name} {_plain(row[name])}" for name in names if row.get(name) is not None]
    return "\n".join(lines) + "\n"


def _plain(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def main() -> None:
    """Draw the runs that the arguments name, after the folder."""
    draw(Path(sys.argv[1]), sys.argv[2:])
