"""The result tables as the page's script has them, and the tables of a study whose cells are runs.

A result table is a JSON object of columns. It stands in the page where it is small enough, else in `runs/` under a
name that follows from its contents, and the page loads it when it is wanted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import NotRequired, TypedDict

import polars as pl

from l4slab.base import frames
from l4slab.report import tables
from l4slab.report.results import Folder, replace, short_names
from l4slab.results.claims import connect_to, show_experiment
from l4slab.results.figures import RunTable

# Largest text of a table in the page; a larger one becomes a file.
MAX_EMBEDDED_BYTES = 2_000_000

_KEYS = {"flows": ["flow", "cc"], "links": ["link", "queue"]}
# What people compare first; the others are there to be chosen.
_SHOWN = {
    "flows": {
        "rate_mbps", "share", "rtt_ms_mean", "sojourn_ms_mean", "sojourn_ms_p99", "ce_pct", "drop_pct", "retransmits",
        "completion_ms_p50", "completion_ms_p99", "unfinished", "frame_ms_p50", "frame_ms_p99", "late_pct",
        "lost_frames_pct", "freezes",
    },
    "links": {
        "rate_mbps", "utilisation", "sojourn_ms_mean", "sojourn_ms_p99", "sojourn_ms_max", "ce_pct", "drop_pct",
        "backlog_packets_max",
    },
}  # fmt: skip
_PLACES = ("group", "row", "column", "run")


class Grid(TypedDict):
    """A result table: its text, or the address of a file with it."""

    name: str
    rows: int
    text: str | None
    file: str | None


class Column(TypedDict):
    """Of a table: its values, or levels and which one each row has."""

    id: str
    title: str
    shown: bool
    key: bool
    values: NotRequired[list[float | None]]
    levels: NotRequired[list[str | None]]
    codes: NotRequired[list[int]]


class OfRun(TypedDict):
    """A run in a cell, with the numbers to show of it."""

    values: list[tuple[str, str]]
    run: str


class OfRow(TypedDict):
    """The cells of a row."""

    name: str
    cells: list[list[OfRun]]


class Group(TypedDict):
    """A grid of cells."""

    name: str
    columns: list[str]
    rows: list[OfRow]


class OfStudy(TypedDict):
    """A table whose cells are runs."""

    id: str
    title: str
    about: str
    source: str
    groups: list[Group]
    runs: int


def results(folder: Folder) -> list[Grid]:
    """`flows` and `links`: their number of rows, and the table as text or the address of a file with it."""
    place = folder.folder / "runs"
    found: list[Grid] = []
    written = set()
    for name in _KEYS:
        frame: pl.DataFrame = getattr(folder, name)
        if frame.is_empty():
            continue
        text = json.dumps(_table(folder, name, frame), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        made: Grid = {"name": name, "rows": len(frame), "text": text, "file": None}
        if len(text) > MAX_EMBEDDED_BYTES:
            script = f'l4slab.table("{name}",{text})\n'
            file = f"{name}-{hashlib.sha256(script.encode()).hexdigest()[:12]}.js"
            written.add(file)
            if not (place / file).is_file():
                place.mkdir(exist_ok=True)
                replace(place / file, lambda path, script=script: path.write_text(script, encoding="utf-8"))
            made["text"], made["file"] = None, f"runs/{file}"
        found.append(made)
    for old in [path for name in _KEYS for path in place.glob(f"{name}-*.js") if path.name not in written]:
        old.unlink()
    return found


def _table(folder: Folder, name: str, frame: pl.DataFrame) -> dict[str, object]:
    keys = ["experiment", *folder.factors, "trial", "engine", *_KEYS[name], "run"]
    # A column without any other value than one says nothing about a row.
    quantities = [column for column in frame.columns if column not in keys and frame[column].count()]
    short = dict(zip(folder.factors, short_names(folder.factors), strict=True))
    columns = [
        _column(
            frame[column],
            short.get(column, column),
            column != "run" and (column == _KEYS[name][0] or _differs(frame[column])),
            key=True,
        )
        for column in keys
    ]
    columns += [
        _column(frame[column], tables.heading(column), column in _SHOWN[name], key=False) for column in quantities
    ]
    return {"rows": len(frame), "columns": columns}


def _differs(column: pl.Series) -> bool:
    return column.n_unique() > 1


def _column(values: pl.Series, title: str, shown: bool, *, key: bool) -> Column:
    column: Column = {"id": values.name, "title": title, "shown": shown, "key": key}
    if values.dtype.is_float():
        rounded = values.fill_nan(None).round_sig_figs(6)
        column["values"] = [int(v) if v is not None and v.is_integer() else v for v in rounded]
        return column
    if values.dtype.is_integer():
        column["values"] = values.to_list()
        return column
    levels = values.cast(pl.String).unique(maintain_order=True)
    codes = {level: number for number, level in enumerate(levels)}
    column["levels"], column["codes"] = levels.to_list(), [codes[value] for value in values.cast(pl.String)]
    return column


def of_the_study(folder: Folder) -> list[OfStudy]:
    """Every `[[table]]` of the folder's files, a row of the query being a run with the numbers to show of it.

    The query has the columns `row`, `column` and `run`. With a column `group`, each of its values has a table of its
    own. All other columns stand in the cell, under their name.
    """
    shown: list[OfStudy] = []
    files = [file for file in folder.files if file.tables(RunTable)]
    if not files:
        return shown
    with connect_to(folder.tables()) as connection:
        for file in files:
            show_experiment(connection, file)
            for table in file.tables(RunTable):
                cells = frames.fetch(connection.sql(table.sql)).filter(pl.col("run").is_not_null())
                if not cells.is_empty():
                    shown.append(
                        {
                            "id": table.id,
                            "title": table.title or table.id,
                            "about": table.about,
                            "source": table.source,
                            "groups": list(_groups(_as_text(cells))),
                            "runs": cells["run"].n_unique(),
                        }
                    )
    return shown


def _as_text(cells: pl.DataFrame) -> pl.DataFrame:
    if "group" not in cells.columns:
        cells = cells.with_columns(pl.lit("").alias("group"))
    return cells.with_columns(pl.col(name).cast(pl.String).fill_null("") for name in _PLACES)


def _groups(cells: pl.DataFrame) -> Iterator[Group]:
    """A grid of cells for each group: runs with their numbers."""
    columns = list(cells["column"].unique(maintain_order=True))
    numbers = [name for name in cells.columns if name not in _PLACES]
    for (group,), part in cells.group_by("group", maintain_order=True):
        rows: list[OfRow] = []
        for (row,), mine in part.group_by("row", maintain_order=True):
            found: dict[str, list[OfRun]] = {column: [] for column in columns}
            for cell in mine.iter_rows(named=True):
                values = [
                    (tables.heading(name), tables.shown(cell[name], name)) for name in numbers if cell[name] is not None
                ]
                found[cell["column"]].append({"values": values, "run": cell["run"]})
            rows.append({"name": row, "cells": list(found.values())})
        yield {"name": group, "columns": columns, "rows": rows}
