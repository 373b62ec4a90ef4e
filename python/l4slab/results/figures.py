"""The figures of a study: a query over the result tables gives the content of each, and its kind the look.

They are drawn by `l4slab.plot.figures`, with matplotlib, which takes half a second to load: most commands draw nothing.

In its SQL, `flows`, `links` and the other tables have the same rows as in a claim (`l4slab.results.claims`). The query
gives a row per mark, in drawing order, with the columns of the kind; `panel` and `group` may be left out. With a column
`published`, and `error` for its reading error, the figure also shows the published values. A file of them named by
`reference` is the table `reference` (`l4slab.experimentfile.references`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from l4slab.base.values import Keys
from l4slab.experimentfile import Table, references, show
from l4slab.results.claims import connect_empty, require_numbers, select, show_experiment
from l4slab.sweep import Plan

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
