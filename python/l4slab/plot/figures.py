"""The figures of a study: a query over the result tables gives the content of each, and its kind the look.

In its SQL, `flows`, `links` and the other tables have the same rows as in a claim (`l4slab.results.claims`). The query
gives a row per mark, in drawing order, with the columns of the kind; `panel` and `group` may be left out. With a column
`published`, and `error` for its reading error, the figure also shows the published values. A file of them named by
`reference` is the table `reference` (`l4slab.experimentfile.references`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl
import polars.selectors as cs
from pydantic import Field

from l4slab.base import frames
from l4slab.base.values import Keys
from l4slab.experimentfile import Experiment, Table, references, show
from l4slab.results.claims import connect_empty, connect_to, quoted, require_numbers, select, show_experiment
from l4slab.sweep import Plan

# matplotlib takes half a second to load, and most commands draw nothing.
if TYPE_CHECKING:
    from l4slab.plot.style import Figure as Drawing

Kind = Literal["shares", "spread", "lines", "cdf", "grid", "heatmap", "runs"]
# What the query of each kind has to give.
COLUMNS: dict[Kind, tuple[str, ...]] = {
    "shares": ("bar", "part", "value"),
    "spread": ("bar", "part", "mean", "low", "high"),
    "lines": ("x", "y"),
    "cdf": ("part", "value"),
    "grid": ("row", "column", "x", "y"),
    "heatmap": ("row", "column", "value"),
    "runs": ("run",),
}
_TEXT = ("panel", "group", "bar", "part", "row", "column")
_NUMBERS = (
    "x",
    "y",
    "value",
    "mean",
    "low",
    "high",
    "count",
    "fraction",
    "top",
    "published",
    "published_high",
    "error",
)


class Figure(Table):
    """A figure of the study's report: how it is drawn, and the SQL that gives what is drawn."""

    section = "figure"
    id: str = Field(min_length=1, examples=['"rate-share"'])
    kind: Kind = Field(examples=['"shares"'])
    caption: str = ""
    source: str = ""
    sql: str = Field(examples=['"select flow as part, flow as bar, 100 * share as value from flows"'])
    label: str = Field(default="", examples=['"queue delay (ms)"'])
    x_label: str = Field(default="", examples=['"size (kB)"'])
    limits: list[float] | None = Field(default=None, min_length=2, max_length=2, examples=["[99, 100]"])
    x_limits: list[float] | None = Field(default=None, min_length=2, max_length=2, examples=["[0, 100]"])
    neutral: float | None = Field(default=None, examples=["0.5"])
    log: bool = False
    x_log: bool = False
    reference: str | None = Field(default=None, examples=['"fast_lane_summary.csv"'])

    def mistake(self, raw: Keys) -> tuple[str, str] | None:
        for key, ends in (("limits", self.limits), ("x_limits", self.x_limits)):
            if ends is not None and ends[0] >= ends[1]:
                return key, f"= {show(raw[key])} does not rise; write the lower end first"
        return None


class RunTable(Table):
    """A table of the study's report whose cells are runs, and the SQL that says which (see `l4slab.report.grids`)."""

    section = "table"
    id: str = Field(min_length=1, examples=['"scenario-1"'])
    title: str = ""
    about: str = ""
    source: str = ""
    sql: str = Field(examples=['"select aqm as row, rtt as column, run, goodput_mbps from flows"'])


def check(plans: Sequence[Plan]) -> None:
    """Prepare every figure's and table's query. Raises InputError for the first that cannot run."""
    if not any(plan.experiment.tables(kind) for plan in plans for kind in (Figure, RunTable)):
        return
    with connect_empty(plans) as connection:
        for plan in plans:
            show_experiment(connection, plan.experiment)
            for figure in plan.experiment.tables(Figure):
                place = f'figure "{figure.id}":'
                if figure.reference is not None:
                    references.register(connection, plan.experiment, figure.reference)
                found = select(connection, figure.sql, plan.experiment.file, place, COLUMNS[figure.kind])
                if figure.kind != "runs":
                    require_numbers(found, _NUMBERS, figure.sql, plan.experiment.file, place)
            for table in plan.experiment.tables(RunTable):
                select(connection, table.sql, plan.experiment.file, f'table "{table.id}":', ("row", "column", "run"))


def draw(
    experiments: Sequence[Experiment], tables: Mapping[str, pl.DataFrame | Path]
) -> Iterator[tuple[Figure, Drawing | None]]:
    """Every figure with its drawing, None where there is nothing to draw.

    `tables` are those of `metrics.TABLES` of all experiments, in memory or as Parquet files.
    """
    drawn = [experiment for experiment in experiments if experiment.tables(Figure)]
    if not drawn:
        return
    with connect_to(tables) as connection:
        for experiment in drawn:
            show_experiment(connection, experiment)
            for figure in experiment.tables(Figure):
                if figure.reference is not None:
                    references.register(connection, experiment, figure.reference)
                yield figure, draw_one(figure, lambda sql: frames.fetch(connection.sql(sql)))


def draw_one(figure: Figure, query: Callable[[str], pl.DataFrame]) -> Drawing | None:
    """The drawing of one figure; `query` runs SQL."""
    data = query(figure.sql)
    data = data.with_columns(pl.col(name).cast(pl.String) for name in _TEXT if name in data.columns)
    data = data.with_columns(cs.decimal().cast(pl.Float64))  # what SQL makes of a number such as 1.0
    return _runs(query, data) if figure.kind == "runs" else _draw(figure, data)


def _draw(figure: Figure, data: pl.DataFrame) -> Drawing | None:
    from l4slab import plot

    limits, x_limits = ((ends[0], ends[1]) if ends else None for ends in (figure.limits, figure.x_limits))
    match figure.kind:
        case "shares":
            return plot.shares(data, label=figure.label, limits=limits)
        case "spread":
            return plot.spread(data, label=figure.label, limits=limits, log=figure.log)
        case "lines":
            return plot.lines(
                data, label=figure.label, x_label=figure.x_label, limits=limits, x_limits=x_limits, log=figure.log,
                x_log=figure.x_log,
            )  # fmt: skip
        case "cdf":
            return plot.cdf(
                data, label=figure.label, x_label=figure.x_label, limits=limits, x_limits=x_limits, x_log=figure.x_log
            )
        case "grid":
            return plot.grid(data, label=figure.label, x_label=figure.x_label, limits=limits, x_limits=x_limits)
        case "heatmap":
            return plot.heatmap(
                data, label=figure.label, x_label=figure.x_label, limits=limits, neutral=figure.neutral, log=figure.log
            )
    return None


def _runs(query: Callable[[str], pl.DataFrame], data: pl.DataFrame) -> Drawing | None:
    """The time series of the runs that a query names: trials of one case, or of one in each panel."""
    from l4slab import plot

    chosen = data.select("run", *(["panel"] if "panel" in data.columns else [])).unique(maintain_order=True)
    if chosen.is_empty():
        return None
    names = ", ".join(map(quoted, chosen["run"]))
    series = query(f"select * from series where run in ({names}) order by time_s")
    # In the order of the query, which is also the order of the panels.
    rows = chosen.with_row_index("place").join(series, on="run").sort("place", "time_s", maintain_order=True)
    senders = query(f"select run, flow, cc from flows where run in ({names})").unique("flow", maintain_order=True)
    return plot.time_series(rows, flows=dict(senders.select("flow", "cc").iter_rows()))
