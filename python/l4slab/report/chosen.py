"""The figures that a study's file chooses (`[[figure]]`), as the page draws them.

`lines`, `cdf` and `runs` are panels that the page's script draws. `heatmap` and `grid` are tables (`heat`,
`multiples`), `shares` and `spread` are strips (`strips`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import polars as pl

from l4slab.plot.figures import Query, data_of, each
from l4slab.plot.roles import Look, OnThePage, looks
from l4slab.plot.steps import steps
from l4slab.plot.trials import median_trial
from l4slab.report import drawings, heat, multiples, strips
from l4slab.report.results import Folder
from l4slab.results.claims import quoted
from l4slab.results.figures import Figure

_PANEL_PX, _ROW_PX, _TABLE_PX = 190, 28, 130  # heights, about
_SIDE_BY_SIDE = 3  # panels
_OVER_TIME = ["delivery rate", "smoothed RTT", "classic ECN score"]


class Line(OnThePage):
    """A line of a panel, with the area around it and the published values."""

    name: str
    marked: bool  # with a point at each value, if these are few
    y: list[float | None]
    low: list[float | None] | None
    high: list[float | None] | None


class Mark(TypedDict):
    """A published value with its reading error."""

    x: float
    y: float
    error: float


class Panel(TypedDict):
    """Lines over one axis."""

    title: str
    x: list[float]
    lines: list[Line]
    marks: list[Mark]


class OfRuns(TypedDict):
    """Runs over time: the trials of a case, of which one is drawn in full."""

    title: str
    runs: list[str]
    drawn: str
    shown: Sequence[str]


class Panels(TypedDict):
    """A figure that the page's script draws: of lines (`panels`) or of `runs`."""

    panels: list[Panel]
    runs: list[OfRuns]
    columns: int
    label: str
    x_label: str
    limits: list[float] | None
    x_limits: list[float] | None
    log: bool
    x_log: bool
    steps: bool


@dataclass
class Chosen:
    """A figure of the page in one of its forms; without any of them there is nothing to draw."""

    id: str
    caption: str
    source: str
    height_px: float
    panels: Panels | None = None
    heat: heat.Heat | None = None
    strips: strips.Strips | None = None
    multiples: multiples.Multiples | None = None
    place: int = -1  # among the page's `panels`
    open: bool = False

    @property
    def summary(self) -> str:
        """The caption's first sentence."""
        return drawings.first_sentence(self.caption) or self.id


def of_the_study(folder: Folder) -> Iterator[Chosen]:
    """The figures that the files choose; they take the place of all others."""
    files = sorted(folder.files, key=lambda file: not file.is_study)  # the study's first, as among the claims
    for figure, query in each(files, folder.tables()):
        yield draw(figure, query)


def draw(figure: Figure, query: Query) -> Chosen:
    """A figure in the form of its kind; `query` runs SQL."""
    found = Chosen(figure.id, figure.caption, figure.source, _ROW_PX)
    data = data_of(figure, query)
    match figure.kind:
        case "lines" | "cdf":
            found.panels = _panels(figure, data)
        case "runs":
            found.panels = _runs(figure, query, data)
        case "heatmap":
            found.heat = heat.of(figure, data)
        case "shares":
            found.strips = strips.shares(figure, data)
        case "spread":
            found.strips = strips.spread(figure, data)
        case "grid":
            found.multiples = multiples.of(figure, data)
    found.height_px = _height(found)
    return found


def _height(found: Chosen) -> float:
    if found.panels is not None:
        of = found.panels
        panels = len(of["panels"]) + sum(len(one["shown"]) for one in of["runs"])
        return -(-panels // of["columns"]) * _PANEL_PX
    if found.heat is not None:
        return sum(_TABLE_PX + _ROW_PX * len(table["rows"]) for table in found.heat["tables"]) / _SIDE_BY_SIDE
    if found.strips is not None:
        return sum(_ROW_PX * (1 + len(group["rows"])) for group in found.strips["groups"])
    return _ROW_PX + (multiples.HEIGHT * len(found.multiples["rows"]) if found.multiples is not None else 0)


def _figure(figure: Figure, **changes: Any) -> Panels:
    found: Panels = {
        "panels": [], "runs": [], "columns": 1, "label": figure.label, "x_label": figure.x_label,
        "limits": figure.limits, "x_limits": figure.x_limits, "log": figure.log, "x_log": figure.x_log, "steps": False,
    }  # fmt: skip
    return found | changes  # type: ignore[return-value]


def _panels(figure: Figure, data: pl.DataFrame) -> Panels | None:
    """Panels of lines, a line for each `part`; a panel for each `panel` and `group`."""
    is_cdf = figure.kind == "cdf"
    data = steps(data) if is_cdf else data
    compared = "published" in data.columns
    data = data.drop_nulls("x").filter(pl.any_horizontal(pl.col("y", *["published"] * compared).is_not_null()))
    if data.is_empty():
        return None
    data = data.with_columns(pl.lit("").alias(n) for n in ("group", "panel", "part") if n not in data.columns)
    look = looks(list(data["part"].unique(maintain_order=True)))
    parts = data.partition_by("group", "panel", maintain_order=True, as_dict=True)
    panels = [_panel(", ".join(filter(None, map(str, place))), rows, look) for place, rows in parts.items()]
    across = data["panel"].n_unique() if data["group"].n_unique() > 1 else len(panels)
    return _figure(
        figure,
        panels=panels,
        columns=min(across, _SIDE_BY_SIDE),
        limits=figure.limits or ([0.0, 100.0] if is_cdf else None),
        steps=is_cdf,
    )


def _panel(title: str, rows: pl.DataFrame, look: dict[str, Look]) -> Panel:
    rows = rows.sort("x", maintain_order=True)
    # A line may have several values at one x, such as both ends of a step.
    rows = rows.with_columns(turn=pl.int_range(pl.len()).over("part", "x"))
    drawn = rows.drop_nulls("y")
    places = drawn.select("x", "turn").unique().sort("x", "turn")
    lines: list[Line] = []
    for (part,), mine in drawn.group_by("part", maintain_order=True):
        one = places.join(mine, on=["x", "turn"], how="left", maintain_order="left")
        area = {name: _values(one[name]) for name in ("low", "high") if name in one.columns and one[name].count()}
        its = look[str(part)]
        lines.append(
            Line(
                name=str(part),
                marked=bool(its.marker),
                y=_values(one["y"]),
                low=area.get("low"),
                high=area.get("high"),
                **its.on_the_page,
            )
        )
    known = rows.drop_nulls("published") if "published" in rows.columns else rows.clear()
    error = known["error"].fill_null(0) if "error" in known.columns else [0.0] * len(known)
    marks: list[Mark] = [
        {"x": x, "y": y, "error": float(e)}
        for x, y, e in zip(known["x"], known.get_column("published", default=known["x"]), error, strict=True)
    ]
    return {"title": title, "x": [float(x) for x in places["x"]], "lines": lines, "marks": marks}


def _values(column: pl.Series) -> list[float | None]:
    return column.cast(pl.Float64).fill_nan(None).round_sig_figs(5).to_list()


def _runs(figure: Figure, query: Query, data: pl.DataFrame) -> Panels | None:
    """The time series of the runs that a query names: trials of one case, or of one in each panel."""
    has_panels = "panel" in data.columns
    rows = data.select("run", *["panel"] * has_panels).unique(maintain_order=True)
    if rows.is_empty():
        return None
    flows = query(f"select * from flows where run in ({', '.join(map(quoted, rows['run']))})")
    found: list[OfRuns] = []
    for title, mine in rows.group_by("panel", maintain_order=True) if has_panels else [(("",), rows)]:
        of_case = flows.filter(pl.col("run").is_in(mine["run"].to_list()))
        trials = dict(of_case.select("trial", "run").iter_rows())
        if trials:
            found.append(
                {
                    "title": str(title[0] or ""),
                    "runs": list(mine["run"]),
                    "drawn": trials[median_trial(of_case)],
                    "shown": _OVER_TIME,
                }
            )
    return _figure(figure, runs=found, columns=min(len(found), _SIDE_BY_SIDE)) if found else None
