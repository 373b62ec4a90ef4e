"""The figures that a study draws: what each shows is a query over the result tables, how it looks is its kind.

In its SQL, `flows`, `links` and `series` are what they are in a claim (`l4slab.claims`). The query gives a row per
mark, in the order in which they are drawn, with the columns of the kind; `panel` and `group` may be left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import duckdb
import polars as pl
import pyarrow as pa
from matplotlib.figure import Figure as Drawing

from l4slab import plot
from l4slab.claims import connect_empty, connect_to, show_experiment
from l4slab.errors import InputError
from l4slab.spec import Experiment, Figure, show
from l4slab.sweep import Plan, sql_reason

# What the query of each kind has to give.
COLUMNS = {
    "shares": ("bar", "part", "value"),
    "spread": ("bar", "part", "mean", "low", "high"),
    "band": ("time_s", "mean", "low", "high"),
}
_TEXT = ("panel", "group", "bar", "part")


def check(plans: Sequence[Plan]) -> None:
    """Prepare every figure's query. Raises InputError for the first that cannot run."""
    with connect_empty(plans) as connection:
        for plan in plans:
            show_experiment(connection, plan.experiment)
            for figure in plan.experiment.figures:
                _check_one(connection, plan.experiment, figure)


def _check_one(connection: duckdb.DuckDBPyConnection, experiment: Experiment, figure: Figure) -> None:
    def wrong(text: str) -> InputError:
        return InputError(f"sql = {show(figure.sql)} {text}", file=experiment.file, key=f'figure "{figure.id}":')

    try:
        statements = connection.extract_statements(figure.sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise wrong("is not one SELECT query; write one")
        columns = connection.sql(figure.sql).columns
    except duckdb.Error as error:
        raise wrong(f"is not valid SQL for these tables: {sql_reason(error)}") from None
    if missing := [name for name in COLUMNS[figure.kind] if name not in columns]:
        wanted = ", ".join(COLUMNS[figure.kind])
        raise wrong(f'gives no column {missing[0]}; the columns of kind "{figure.kind}" are {wanted}')


def draw(
    experiments: Sequence[Experiment], tables: Mapping[str, pa.Table | pa.dataset.Dataset]
) -> Iterator[tuple[Figure, Drawing | None]]:
    """Every figure with its drawing, None where there is nothing to draw.

    `tables` are `flows`, `links` and `series` of all experiments, as Arrow tables or datasets.
    """
    with connect_to(tables) as connection:
        for experiment in experiments:
            show_experiment(connection, experiment)
            for figure in experiment.figures:
                data = connection.sql(figure.sql).pl()
                text = [pl.col(name).cast(pl.String) for name in _TEXT if name in data.columns]
                yield figure, _draw(figure, data.with_columns(text))


def _draw(figure: Figure, data: pl.DataFrame) -> Drawing | None:
    limits = (figure.limits[0], figure.limits[1]) if figure.limits else None
    match figure.kind:
        case "shares":
            return plot.shares(data, label=figure.label, limits=limits)
        case "spread":
            return plot.spread(data, label=figure.label, limits=limits, log=figure.log)
        case "band":
            return plot.band(data, label=figure.label, limits=limits, log=figure.log)
