"""Published values and the measured ones, with the distance.

A `[[published]]` table with `value` gives one number. The measured number comes from `sql`, whose first column has a
number per trial (or a single one), or from `flow` and `column`, short for `select COLUMN from flows where flow = FLOW`.
In its SQL, `flows`, `links` and the other tables have the same rows as in a claim (`l4slab.results.claims`).

A `[[published]]` table with `reference` names a CSV file of published values next to the experiment file
(`l4slab.experimentfile.references`). This file is the table `reference` in `sql`, which gives a row per value with the
columns `quantity`, `published` and `measured`, and `unit` and `tolerance` where they differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import polars as pl
from pydantic import Field

from l4slab.base import metrics
from l4slab.base.errors import InputError, suggest
from l4slab.base.values import Keys, Row
from l4slab.experimentfile import Experiment, Table, references, show
from l4slab.results.claims import connect_empty, connect_to, quoted, require_numbers, select, show_experiment
from l4slab.sweep import Plan

if TYPE_CHECKING:
    import duckdb

_ROWS = ("quantity", "published", "measured")


class PublishedRow(TypedDict):
    """The columns of the table of published values that are read by name."""

    experiment: str
    quantity: str
    unit: str | None
    published: float | None
    measured: float | None
    measured_min: float | None
    measured_max: float | None
    distance: float | None
    tolerance: float | None
    within: bool | None
    source: str


class Published(Table):
    """A published figure and how the same quantity is measured here."""

    section = "published"
    id: str = Field(min_length=1, examples=['"A-cubic-rate"'])
    quantity: str = ""
    unit: str = ""
    value: float | None = Field(default=None, examples=["43.6"])
    tolerance: float | None = Field(default=None, ge=0, examples=["2.0"])
    flow: str | None = Field(default=None, examples=['"cubic"'])
    column: str | None = Field(default=None, examples=['"rate_mbps"'])
    sql: str | None = Field(default=None, examples=["\"select rate_mbps from flows where flow = 'cubic'\""])
    reference: str | None = Field(default=None, examples=['"fast_lane_summary.csv"'])
    source: str = ""

    def mistake(self, raw: Keys) -> tuple[str, str] | None:  # noqa: ARG002
        if (self.value is None) == (self.reference is None):
            return "", "needs either value (one figure) or reference (a file of them); give one of the two"
        direct = self.flow is not None and self.column is not None
        if self.sql is None and not direct:
            return "", "does not say what to measure; add sql, or flow and column"
        if self.sql is not None and (self.flow is not None or self.column is not None):
            return "sql", f"= {show(self.sql)} stands beside flow or column; give one of the two"
        if self.reference is None:
            return None
        if direct:
            return "", "has a reference but no sql; add sql that gives quantity, published and measured"
        if "/" in self.reference or "\\" in self.reference or not self.reference.endswith(".csv"):
            text = f"= {show(self.reference)} is not the name of a .csv file"
            return "reference", f'{text}; write it such as "fast_lane_summary.csv"'
        return None


def _sql(figure: Published) -> str:
    if figure.sql is not None:
        return figure.sql
    column = str(figure.column).replace('"', '""')
    return f"""select "{column}" from flows where flow = {quoted(str(figure.flow))}"""


def check(plans: Sequence[Plan]) -> None:
    """Prepare every figure's query. Raises InputError for the first that cannot run."""
    if not any(plan.experiment.tables(Published) for plan in plans):
        return
    with connect_empty(plans) as connection:
        for plan in plans:
            show_experiment(connection, plan.experiment)
            for figure in plan.experiment.tables(Published):
                if figure.reference is not None:
                    references.register(connection, plan.experiment, figure.reference)
                _check_one(connection, plan.experiment, figure)
                flows = [flow["name"] for run in plan.runs[:1] for flow in run.description["flows"]]
                if figure.flow is not None and flows and figure.flow not in flows:
                    text = f"= {show(figure.flow)} is not a flow; {suggest(figure.flow, flows)}"
                    raise InputError(text, file=plan.experiment.file, key=f'published "{figure.id}": flow')


def _check_one(connection: duckdb.DuckDBPyConnection, experiment: Experiment, figure: Published) -> None:
    place, sql = f'published "{figure.id}":', _sql(figure)
    relation = select(connection, sql, experiment.file, place, _ROWS if figure.reference is not None else ())
    numbers = relation.columns[:1] if figure.reference is None else (*_ROWS[1:], "tolerance")
    require_numbers(relation, numbers, sql, experiment.file, place)


def evaluate(experiments: Sequence[Experiment], tables: Mapping[str, pl.DataFrame | Path]) -> pl.DataFrame:
    """A row per published value with the measured one (see `metrics.PUBLISHED`).

    `tables` are those of `metrics.TABLES` of all experiments, in memory or as Parquet files.
    """
    rows: list[Row] = []
    if not any(experiment.tables(Published) for experiment in experiments):
        return pl.DataFrame(rows, schema=metrics.PUBLISHED)
    with connect_to(tables) as connection:
        for experiment in sorted(experiments, key=lambda experiment: experiment.name):
            show_experiment(connection, experiment)
            for figure in experiment.tables(Published):
                rows += _compare(connection, experiment, figure)
    return pl.DataFrame(rows, schema=metrics.PUBLISHED)


def _compare(connection: duckdb.DuckDBPyConnection, experiment: Experiment, figure: Published) -> Iterator[Row]:
    common: Row = {
        "experiment": experiment.name,
        "id": figure.id,
        "flow": figure.flow,
        "column": figure.column,
        "source": figure.source,
        "reference": figure.reference,
    }
    if figure.reference is None:
        values = [_number(row[0]) for row in connection.execute(_sql(figure)).fetchall()]
        found = [value for value in values if value is not None]
        measured = math.fsum(found) / len(found) if found else None
        spread: Row = {"measured_min": min(found, default=None), "measured_max": max(found, default=None)}
        unit = figure.unit or metrics.unit_of(figure.column or "")
        yield common | spread | _row(figure.quantity or figure.id, unit, figure.value, measured, figure.tolerance)
    else:
        references.register(connection, experiment, figure.reference)
        cursor = connection.execute(_sql(figure))
        names = [column[0] for column in cursor.description or []]
        for cells in cursor.fetchall():
            row = dict(zip(names, cells, strict=True))
            published, measured = _number(row["published"]), _number(row["measured"])
            tolerance = _number(row.get("tolerance", figure.tolerance))
            yield common | _row(
                str(row["quantity"]), str(row.get("unit") or figure.unit), published, measured, tolerance
            )


def _row(quantity: str, unit: str, published: float | None, measured: float | None, tolerance: float | None) -> Row:
    distance = None if published is None or measured is None else measured - published
    return {
        "quantity": quantity,
        "unit": unit,
        "published": published,
        "measured": measured,
        "distance": distance,
        "tolerance": tolerance,
        "within": None if distance is None or tolerance is None else abs(distance) <= tolerance,
    }


def _number(value: Any) -> float | None:
    number = None if value is None else float(value)
    return number if number is not None and math.isfinite(number) else None
