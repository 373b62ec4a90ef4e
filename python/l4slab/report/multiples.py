"""Small multiples as a table: a tiny drawing per combination, as on a slide that shows a hundred runs at a glance."""

from __future__ import annotations

from typing import TypedDict

import polars as pl

from l4slab.base.numbers import plain
from l4slab.plot.roles import looks
from l4slab.results.figures import Figure

# Units of a drawing. A line keeps the least and the greatest value of each of its columns.
WIDTH, HEIGHT = 120, 60


class Line(TypedDict):
    """A line as the path of an SVG; None is the colour of the page's text."""

    colour: str | None
    path: str


class Panel(TypedDict):
    """A cell; without lines there is no such combination. `has_middle`: its axis ends at twice its middle."""

    lines: list[Line]
    has_middle: bool


class Row(TypedDict):
    """A row of cells."""

    name: str
    panels: list[Panel]


class Multiples(TypedDict):
    """A figure: `ends` are those of both axes, of y only where all panels have the same."""

    label: str
    x_label: str
    columns: list[str]
    rows: list[Row]
    x_ends: tuple[str, str]
    y_ends: tuple[str, str] | None
    legend: list[tuple[str, str | None]]


def of(figure: Figure, data: pl.DataFrame) -> Multiples | None:
    """A panel for each `row` and `column` with a line of `y` over `x` per `part`, all on the axes of the first.

    With `top`, each panel's y axis ends at its own `top` instead: panels of other scales are compared by height. None
    without data.
    """
    data = data.drop_nulls(["x", "y"]).with_columns(pl.col("x", "y").cast(pl.Float64))
    if data.is_empty():
        return None
    if "part" not in data.columns:
        data = data.with_columns(part=pl.lit(""))
    rows, columns = (list(data[name].unique(maintain_order=True)) for name in ("row", "column"))
    look = looks(list(data["part"].unique(maintain_order=True)))
    low, high = (float(end) for end in (data["y"].min(), data["y"].max()))  # type: ignore[arg-type]
    x_low, x_high = (float(end) for end in (data["x"].min(), data["x"].max()))  # type: ignore[arg-type]
    x_ends = figure.x_limits or [min(0.0, x_low), x_high]
    y_ends = figure.limits or [1.05 * min(0.0, low), 1.05 * max(0.0, high) or 1.0]
    scaled = "top" in data.columns
    panels = data.partition_by("row", "column", as_dict=True)

    def panel(row: str, column: str) -> Panel:
        mine = panels.get((row, column))
        if mine is None:
            return {"lines": [], "has_middle": False}
        ends = [0.0, float(mine["top"].max())] if scaled else y_ends  # type: ignore[arg-type]
        lines: list[Line] = [
            {"colour": look[str(part)].on_the_page["colour"], "path": _path(one, x_ends, ends)}
            for (part,), one in mine.group_by("part", maintain_order=True)
        ]
        return {"lines": lines, "has_middle": scaled}

    return {
        "label": figure.label,
        "x_label": figure.x_label,
        "columns": columns,
        "rows": [{"name": row, "panels": [panel(row, column) for column in columns]} for row in rows],
        "x_ends": _texts(x_ends),
        "y_ends": None if scaled else _texts(y_ends),
        "legend": [(part, one.on_the_page["colour"]) for part, one in look.items() if part],
    }


def _texts(ends: list[float]) -> tuple[str, str]:
    low, high = (plain(float(f"{end:.3g}")) for end in ends)
    return low, high


def _path(line: pl.DataFrame, x_ends: list[float], y_ends: list[float]) -> str:
    """The line in units of the drawing, thinned to what can be seen."""
    x = WIDTH * (pl.col("x") - x_ends[0]) / ((x_ends[1] - x_ends[0]) or 1.0)
    y = HEIGHT * (1 - (pl.col("y") - y_ends[0]) / ((y_ends[1] - y_ends[0]) or 1.0))
    points = line.sort("x", maintain_order=True).select(x=x, y=y).with_row_index("place")
    by_y, place = pl.col("place").sort_by("y"), pl.col("place")
    ends = points.group_by(pl.col("x").floor()).agg(place.first().alias("0"), place.last().alias("1"),
                                                    by_y.first().alias("2"), by_y.last().alias("3"))  # fmt: skip
    kept = ends.unpivot(["0", "1", "2", "3"])["value"].unique().to_list()
    return "M" + " ".join(f"{x:.1f} {y:.1f}" for x, y in points.filter(place.is_in(kept)).select("x", "y").iter_rows())
