"""Draws the figures of a study (`l4slab.results.figures`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import polars.selectors as cs

from l4slab import plot
from l4slab.base import frames
from l4slab.experimentfile import Experiment, references
from l4slab.results.claims import connect_to, quoted, show_experiment
from l4slab.results.figures import Figure

if TYPE_CHECKING:  # a page is written without matplotlib, too
    from l4slab.plot.style import Figure as Drawing

_TEXT = ("panel", "group", "bar", "part", "row", "column")


Query = Callable[[str], pl.DataFrame]


def each(
    experiments: Sequence[Experiment], tables: Mapping[str, pl.DataFrame | Path]
) -> Iterator[tuple[Figure, Query]]:
    """Every figure, and what runs its SQL.

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
                yield figure, lambda sql: frames.fetch(connection.sql(sql))


def draw(
    experiments: Sequence[Experiment], tables: Mapping[str, pl.DataFrame | Path]
) -> Iterator[tuple[Figure, Drawing | None]]:
    """Every figure with its drawing, None where there is nothing to draw; `tables` as in `each`."""
    for figure, query in each(experiments, tables):
        yield figure, draw_one(figure, query)


def data_of(figure: Figure, query: Query) -> pl.DataFrame:
    """What the figure's query gives, with names as text and numbers as floats."""
    data = query(figure.sql)
    data = data.with_columns(pl.col(name).cast(pl.String) for name in _TEXT if name in data.columns)
    return data.with_columns(cs.decimal().cast(pl.Float64))  # what SQL makes of a number such as 1.0


def draw_one(figure: Figure, query: Query) -> Drawing | None:
    """The drawing of one figure; `query` runs SQL."""
    data = data_of(figure, query)
    return _runs(query, data) if figure.kind == "runs" else _draw(figure, data)


def _draw(figure: Figure, data: pl.DataFrame) -> Drawing | None:
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


def _runs(query: Query, data: pl.DataFrame) -> Drawing | None:
    """The time series of the runs that a query names: trials of one case, or of one in each panel."""
    chosen = data.select("run", *(["panel"] if "panel" in data.columns else [])).unique(maintain_order=True)
    if chosen.is_empty():
        return None
    names = ", ".join(map(quoted, chosen["run"]))
    series = query(f"select * from series where run in ({names}) order by time_s")
    # In the order of the query, which is also the order of the panels.
    rows = chosen.with_row_index("place").join(series, on="run").sort("place", "time_s", maintain_order=True)
    senders = query(f"select run, flow, cc from flows where run in ({names})").unique("flow", maintain_order=True)
    return plot.time_series(rows, flows=dict(senders.select("flow", "cc").iter_rows()))
