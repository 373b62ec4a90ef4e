"""The output of `l4slab agree`: tables, one figure, and one page that needs no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

import polars as pl

from l4slab import _core, plot
from l4slab.base import metrics
from l4slab.base.numbers import number
from l4slab.experimentfile import Experiment
from l4slab.report import environment, text_of
from l4slab.report.drawings import element
from l4slab.report.results import replace
from l4slab.report.tables import heading
from l4slab.results.bars import Bar, agree_of
from l4slab.tools.agreement import compare
from l4slab.tools.agreement.changes import KernelRow
from l4slab.tools.agreement.compare import AgreementRow, BarRow

if TYPE_CHECKING:
    from l4slab.tools.agreement.compare import Agreement

NOT_EXPLAINED = "not explained"
_ALTERNATIVE = "The simulator's value over the kernel's for every quantity, with the bars around the line of agreement."


def write(result: Agreement, experiments: Sequence[Experiment]) -> None:
    """agreement.parquet, bars.parquet, agreement.svg and agreement.html in the result's folder."""
    for name, table in (("agreement", result.rows), ("bars", result.bars)):
        replace(result.folder / f"{name}.parquet", lambda path, table=table: table.write_parquet(path))
    figure = plot.agreement(result.rows, _common(experiments))
    drawn = None
    if figure is not None:
        svg = plot.to_svg(figure)
        replace(result.folder / "agreement.svg", lambda path: path.write_text(svg, encoding="utf-8"))
        drawn = element(figure, _ALTERNATIVE)
    page = (
        environment()
        .get_template("agreement.html.j2")
        .render(
            title="Simulator and kernel",
            version=_core.version(),
            style=text_of("templates/page.css"),
            met=result.met,
            bars=bars(result.bars),
            figure=drawn,
            beyond=beyond(result.rows),
            not_explained=NOT_EXPLAINED,
            cells=cells(result.rows),
            missing=missing(result.missing),
            failures=[(str(run), run.engine, reason) for run, reason in result.failures],
            notes=result.notes,
            trials=_trials(result.rows),
            files=[(e.file.name, e.source.decode("utf-8-sig")) for e in experiments],
            names=" ".join(e.file.name for e in experiments),
        )
    )
    replace(result.folder / "agreement.html", lambda path: path.write_text(page, encoding="utf-8"))


def _common(experiments: Sequence[Experiment]) -> dict[str, Bar]:
    """The bars that all experiments have, for the figure."""
    first, *others = [agree_of(experiment).bars for experiment in experiments]
    return {name: bar for name, bar in first.items() if all(other.get(name) == bar for other in others)}


def missing(cells: pl.DataFrame) -> list[dict[str, str]]:
    """The cells that an engine has not run."""
    return [label(row, cells) | {"engine": str(row["engine"])} for row in cells.iter_rows(named=True)]


def label(row: Mapping[str, object], frame: pl.DataFrame) -> dict[str, str]:
    """How a cell is called: its experiment, its levels, and both."""
    factors = [n for n in frame.columns if n not in metrics.AGREEMENT and n != "engine" and row[n] is not None]
    levels = ", ".join(f"{name} {_level(row[name])}" for name in factors)
    name = str(row["experiment"])
    return {"experiment": name, "levels": levels, "cell": f"{name}: {levels}" if levels else name}


def _level(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def place(row: AgreementRow | KernelRow) -> str:
    """The flow or queue that a row is about."""
    if row["flow"] is not None:
        return f"flow {row['flow']}"
    return f"link {row['link']}" if row["queue"] == "all" else f"link {row['link']}, queue {row['queue']}"


class Pair(TypedDict):
    """A quantity on the kernel and on the simulator."""

    kernel: str
    simulator: str
    within: bool | None


class ShownBar(TypedDict):
    """A bar as text."""

    set: str
    quantity: str
    bar: str
    wanted: str
    measured: str
    by_chance: str
    cells: int
    met: bool | None


class Beyond(TypedDict):
    """A cell that is beyond a bar, as text."""

    cell: str
    quantity: str
    place: str
    kernel: str
    kernel_range: str
    simulator: str
    simulator_range: str
    difference: str
    apart: bool
    cause: str | None


def bars(table: pl.DataFrame) -> list[ShownBar]:
    """The bars as text."""
    return [
        {
            "set": row["set"],
            "quantity": heading(row["quantity"]),
            "bar": row["bar"],
            "wanted": f"{row['wanted']:g}",
            "measured": number(row["measured"]),
            "by_chance": number(row["by_chance"]),
            "cells": row["cells"],
            "met": row["met"],
        }
        for row in metrics.rows_of(table, BarRow)
    ]


def beyond(rows: pl.DataFrame) -> list[Beyond]:
    """The cells that are beyond a bar, the worst place of each, with the cause."""
    return [
        {
            "cell": label(row, rows)["cell"],
            "quantity": heading(row["quantity"]),
            "place": place(row),
            "kernel": number(row["kernel"]),
            "kernel_range": _range(row["kernel_min"], row["kernel_max"]),
            "simulator": number(row["simulator"]),
            "simulator_range": _range(row["simulator_min"], row["simulator_max"]),
            "difference": number(row["difference"]),
            "apart": row["apart"],
            "cause": row["cause"],
        }
        for row in metrics.rows_of(compare.beyond(rows), AgreementRow)
    ]


def _range(low: float | None, high: float | None) -> str:
    if low is None or number(low) == number(high):
        return ""
    return f"{number(low)}\u2013{number(high)}"


def cells(rows: pl.DataFrame) -> dict[str, object]:
    """Every cell with the quantities that count in a bar: kernel and simulator, of the place that is furthest off."""
    counted = rows.filter(pl.col("within").is_not_null())
    quantities = list(counted["quantity"].unique(maintain_order=True))
    key = [name for name in rows.columns if name == "experiment" or name not in metrics.AGREEMENT]
    worst = counted.sort(pl.col("difference").abs().fill_null(float("inf")), descending=True, maintain_order=True)
    worst = worst.unique([*key, "quantity"], keep="first", maintain_order=True)
    found: dict[tuple[object, ...], dict[str, Pair]] = {}
    for place, row in zip(worst.select(key).rows(), metrics.rows_of(worst, AgreementRow), strict=True):
        cell = found.setdefault(place, {})
        cell[row["quantity"]] = {
            "kernel": number(row["kernel"]),
            "simulator": number(row["simulator"]),
            "within": row["within"],
        }
    order = rows.select(key).unique(maintain_order=True)
    shown = [
        {**label(row, order), "values": [found.get(tuple(row.values()), {}).get(name) for name in quantities]}
        for row in order.iter_rows(named=True)
    ]
    return {"columns": [heading(name) for name in quantities], "rows": shown}


def _trials(rows: pl.DataFrame) -> str:
    found = []
    for engine in ("kernel", "simulator"):
        trials = rows[f"{engine}_trials"].to_list()
        low, high = min(trials, default=0), max(trials, default=0)
        found.append(f"{engine} {high}" if low == high else f"{engine} up to {high}")
    return ", ".join(found)
