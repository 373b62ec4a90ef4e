"""Figures with a row per flow, which the page draws as tables: a number, and beside it its mark on the column's axis.

`overview` has the rows of a user's experiments, `comparison` those of a study's. `shares` and `spread` are figures that
a study chooses. `l4slab.plot` draws the same for papers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NotRequired, TypedDict

import polars as pl

from l4slab.base.numbers import NO_DELAY_MS, plain
from l4slab.experimentfile import capacity
from l4slab.plot import quantities
from l4slab.plot.quantities import Times
from l4slab.plot.roles import Look, looks
from l4slab.report.results import MAX_CASES, Case, Folder
from l4slab.results import many
from l4slab.results.figures import Figure

# Numbers at an axis, about.
_TICKS = 3
# A published part that ends beyond this part of the axis ends with the bar.
_WHOLE = 0.995
_COMPARED = (
    ("rate on the wire", "(Mb/s)", ("rate_mbps", "goodput_mbps")),
    ("RTT", "mean (ms)", ("rtt_ms_mean",)),
    ("queue delay", "mean (ms)", ("sojourn_ms_mean",)),
)

Kind = Literal["bar", "part", "upper", "lower", "range", "line", "dot", "end", "limit", "published", "error"]


class Mark(TypedDict):
    """A mark of a cell; place and width in percent of the axis."""

    kind: Kind
    left: float
    width: float
    colour: NotRequired[str | None]  # where it is not the row's


class Shown(TypedDict):
    """A cell: its numbers, and the marks."""

    text: str
    marks: list[Mark]
    apart: bool  # the trials, so that their mean describes none of them


class Row(TypedDict):
    """A flow, or a bar of several parts, with its colour, None for that of the page's text."""

    name: str
    colour: str | None
    cells: list[Shown]


class Group(TypedDict):
    """The flows of a case; `name` is "" where it is the only one."""

    name: str
    rows: list[Row]


class Column(TypedDict):
    """A quantity: name, what its numbers are, and the numbers at the axis with their places."""

    name: str
    unit: str
    ticks: list[tuple[str, float]]


class Strips(TypedDict):
    """A figure of strips; `legend` has the parts of its bars with their colours."""

    id: str
    caption: str
    legend: list[tuple[str, str | None]]
    columns: list[Column]
    groups: list[Group]


@dataclass(frozen=True)
class _Cell:
    """A cell before the axis of its column is known: numbers, and marks from one value to another."""

    text: str = ""
    marks: Sequence[tuple[Kind, float, float]] = ()
    apart: bool = False


@dataclass(frozen=True)
class _Axis:
    """The axis of a column."""

    low: float
    high: float
    log: bool

    @classmethod
    def of(cls, cells: Iterable[_Cell], *, log: bool) -> _Axis:
        """From zero to the greatest value; with `log`, a log axis where the values differ much."""
        values = [value for cell in cells for _, *ends in cell.marks for value in ends]
        low, high = min(values, default=0.0), max(values, default=0.0)
        if log and low > 0 and high > quantities.LOG_FROM * low:
            return cls(low / 1.25, high * 1.25, log=True)
        return cls(0.0, high * 1.05 or 1.0, log=False)

    def at(self, value: float) -> float:
        """The place of a value, in percent; zero, which is nowhere on a log axis, is at its begin."""
        if self.log:
            part = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return round(100 * min(max(part, 0.0), 1.0), 2)

    def holds(self, value: float) -> bool:
        """Whether the axis has this value."""
        return self.low <= value <= self.high

    @property
    def ticks(self) -> list[tuple[str, float]]:
        """Numbers and their places."""
        if self.log:
            decades = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            steps = (1.0,) if len(decades) > 1 else (1.0, 2.0, 5.0)
            found = [step * 10.0**decade for decade in range(decades.start - 1, decades.stop) for step in steps]
            found = [value for value in found if self.holds(value)][:: 1 + len(decades) // (_TICKS + 2)]
        else:
            rough = (self.high - self.low) / _TICKS
            power = 10.0 ** math.floor(math.log10(rough))
            size = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
            found = [n * size for n in range(math.ceil(self.low / size), math.floor(self.high / size) + 1)]
        return [(plain(value), self.at(value)) for value in found]


def overview(folder: Folder) -> Strips | None:
    """All cases of the user's files: who gets which rate, who waits how long, what is marked and lost."""
    cases = folder.cases[:MAX_CASES]
    rate, times = quantities.rate_column(folder.flows), quantities.times_of(folder.flows)
    groups = []
    for case in cases:
        limits = capacity.means(folder.described(case))
        apart = {(one.flow, one.quantity) for one in folder.apart.get(tuple(case.levels.values()), ())}
        rows = [
            (
                one,
                [
                    replace(_rate(one, rate, limits.get(name)), apart=(name, "goodput_mbps") in apart),
                    *(replace(_times(one, kind), apart=(name, kind.columns[0]) in apart) for kind in times),
                    _signals(one),
                ],
            )
            for name, one in _flows_of(folder, case).items()
        ]
        groups.append((case, rows))
    heads = [
        ("rate on the wire", "(Mb/s)"),
        *((one.name, f"{one.middle} / P99 (ms)") for one in times),
        ("CE / dropped", "(%)"),
    ]
    first = f", of the first {len(cases)} of {len(folder.cases)} cases" if len(cases) < len(folder.cases) else ""
    caption = (
        f"Rate, {', '.join(one.name for one in times)}, marks and drops of every flow{first}. Means over the trials. A "
        "thin line over a rate is its range over the trials, a dashed one the capacity of the flow's path. A delay is "
        "drawn from the first number (dot) to P99."
        + f" Of a case with many flows, the {many.WORST} with the longest queueing delay."
        * any(many.has_many(folder.flows.filter(case.rows())) for case in cases)
    )
    log = [False, *(True for _ in times), False]
    return _strips(folder, "overview", caption, heads, groups, log)


def comparison(folder: Folder) -> Strips | None:
    """All cases of a study side by side, where there are some, but not too many."""
    if not folder.is_compared:
        return None
    panels = [
        (name, unit, column)
        for name, unit, columns in _COMPARED
        if (column := next((one for one in columns if folder.flows[one].count()), None)) is not None
    ][:2]
    if not panels:
        return None
    groups = [
        (
            case,
            [
                (one, [_compared(one, column, _published(folder, case, name, column)) for *_, column in panels])
                for name, one in _flows_of(folder, case).items()
            ],
        )
        for case in folder.cases
    ]
    published = "; diamonds are the published values" if folder.published["published"].count() else ""
    caption = (
        f"{len(folder.cases)} cases side by side: rate and delay, mean over the trials of each flow; the thin line is "
        f"the range over the trials{published}."
    )
    return _strips(folder, "side-by-side", caption, [(name, unit) for name, unit, _ in panels], groups, [False] * 2)


def _strips(
    folder: Folder,
    id_: str,
    caption: str,
    heads: Sequence[tuple[str, str]],
    groups: Sequence[tuple[Case, list[tuple[pl.DataFrame, list[_Cell]]]]],
    log: Sequence[bool],
) -> Strips | None:
    """The figure with every mark at its place; None without rows."""
    rows = [cells for _, of_case in groups for _, cells in of_case]
    if not rows:
        return None
    axes = [_Axis.of((row[place] for row in rows), log=log[place]) for place in range(len(heads))]
    several = len(groups) > 1
    return {
        "id": id_,
        "caption": caption,
        "legend": [],
        "columns": [
            {"name": name, "unit": unit, "ticks": axis.ticks} for (name, unit), axis in zip(heads, axes, strict=True)
        ],
        "groups": [
            {
                "name": case.label(folder) if several else "",
                "rows": [_row(folder, one, list(zip(cells, axes, strict=True))) for one, cells in of_case],
            }
            for case, of_case in groups
        ],
    }


def _row(folder: Folder, rows: pl.DataFrame, cells: Sequence[tuple[_Cell, _Axis]]) -> Row:
    name, cc, count = rows.select("flow", "cc", pl.col("count").fill_null(1)).row(0)
    return {
        "name": f"{name} × {count}" if count > 1 else name,
        "colour": _colour(folder.looks[name, cc]),
        "cells": [
            {"text": cell.text, "marks": [_mark(axis, *mark) for mark in cell.marks], "apart": cell.apart}
            for cell, axis in cells
        ],
    }


def _mark(axis: _Axis, kind: Kind, begin: float, end: float) -> Mark:
    left = axis.at(begin)
    return {"kind": kind, "left": left, "width": round(axis.at(end) - left, 2)}


def _flows_of(folder: Folder, case: Case) -> dict[str, pl.DataFrame]:
    rows = folder.flows.filter(case.rows(), pl.col("flow").is_in(list(folder.looks_in(case))))
    return {str(name): one for (name,), one in rows.group_by("flow", maintain_order=True)}


def _mean_and_range(rows: pl.DataFrame, column: str) -> tuple[float, float, float] | None:
    mean = quantities.mean_of(rows, column)
    return None if mean is None else (mean, float(rows[column].min()), float(rows[column].max()))  # type: ignore[arg-type]


def _rate(rows: pl.DataFrame, column: str, limit: float | None) -> _Cell:
    marks: list[tuple[Kind, float, float]] = [] if limit is None else [("limit", limit, limit)]
    if (found := _mean_and_range(rows, column)) is None:
        return _Cell("", marks)
    mean, low, high = found
    marks.append(("bar", 0.0, mean))
    if high > low:
        marks.append(("range", low, high))
    return _Cell(quantities.short(mean), marks)


def _times(rows: pl.DataFrame, kind: Times) -> _Cell:
    ends, left = quantities.ends_of(rows, kind), quantities.unfinished(rows, kind)
    if ends is None:
        return _Cell(left)
    # A log axis has no zero: a short delay is drawn where it begins, and written as it is.
    middle, p99 = (max(value, NO_DELAY_MS) for value in ends)
    text = quantities.milliseconds(ends) + f" + {left}" * bool(left)
    return _Cell(text, [("line", min(middle, p99), max(middle, p99)), ("end", p99, p99), ("dot", middle, middle)])


def _signals(rows: pl.DataFrame) -> _Cell:
    marked, dropped = (quantities.mean_of(rows, name) or 0.0 for name in ("ce_pct", "drop_pct"))
    text = f"{quantities.percent(marked)} / {quantities.percent(dropped)}"
    return _Cell(text, [("upper", 0.0, marked), ("lower", 0.0, dropped)])


def _compared(rows: pl.DataFrame, column: str, published: float | None) -> _Cell:
    marks: list[tuple[Kind, float, float]] = [] if published is None else [("published", published, published)]
    if (found := _mean_and_range(rows, column)) is None:
        return _Cell("", marks)
    mean, low, high = found
    return _Cell(quantities.short(mean), [("range", low, high), ("dot", mean, mean), *marks])


def _published(folder: Folder, case: Case, flow: str, column: str) -> float | None:
    """The published value of a flow; a sweep's cases have none of their own."""
    if folder.factors:
        return None
    found = folder.published.filter(
        pl.col("published").is_not_null(), experiment=case.experiment, flow=flow, column=column
    )
    return float(found["published"][0]) if len(found) else None


def shares(figure: Figure, data: pl.DataFrame) -> Strips | None:
    """A bar of parts for each `panel`, `group` and `bar`, with diamonds where the published parts end."""
    data = data.drop_nulls("value")
    if data.is_empty():
        return None
    look = looks(list(data["part"].unique(maintain_order=True)))
    compared = "published" in data.columns
    bars = {place: list(_parts(rows, compared=compared)) for place, rows in _bars(data)}
    longest = max(end for parts in bars.values() for part in parts for end in (part[2], part[3] or 0.0))
    low, high = figure.limits or (0.0, longest)
    whole = low + _WHOLE * (high - low)  # where all bars end alike, a mark says nothing
    axis = _Axis(low, high, log=False)
    rows: list[tuple[str, Row]] = []
    for (group, bar), parts in bars.items():
        cut = [(part, max(begin, low), min(end, high)) for part, begin, end, _ in parts if end > low and begin < high]
        marks = [_mark(axis, "part", begin, end) | {"colour": _colour(look[part])} for part, begin, end in cut]
        marks += [_mark(axis, "published", end, end) for *_, end in parts if end is not None and low <= end < whole]
        text = " / ".join(quantities.percent(end - begin) for _, begin, end, _ in parts)
        rows.append((group, {"name": bar, "colour": None, "cells": [{"text": text, "marks": marks, "apart": False}]}))
    return _of_study(figure, axis, rows, [(part, _colour(one)) for part, one in look.items()])


def spread(figure: Figure, data: pl.DataFrame) -> Strips | None:
    """A mean with its range for each `panel`, `group`, `bar` and `part`, with diamonds at the published means."""
    drawn = data.drop_nulls("mean")
    if drawn.is_empty():
        return None
    names = [name for name in ("mean", "low", "high", "published", "published_high") if name in drawn.columns]
    drawn = drawn.with_columns(pl.col(names).cast(pl.Float64))
    look = looks(list(drawn["part"].unique(maintain_order=True)))
    axis = _spread_axis(figure, [value for name in names for value in drawn[name].drop_nulls()])
    rows: list[tuple[str, Row]] = []
    for (group, bar), of_bar in _bars(drawn):
        parts = of_bar["part"].n_unique()
        for one in of_bar.iter_rows(named=True):
            mean = one["mean"]
            low, high = (mean if one[name] is None else one[name] for name in ("low", "high"))
            marks = [_mark(axis, "line", low, high), _mark(axis, "end", high, high)]
            marks += [_mark(axis, "dot", mean, mean)] * axis.holds(mean)
            known = [one.get(name) for name in ("published", "published_high")]
            marks += [_mark(axis, "published", value, value) for value in known if value is not None]
            text = " / ".join(map(quantities.short, (low, mean, high) if low < high else (mean,)))
            name = ", ".join(filter(None, [bar, one["part"] * (parts > 1 and one["part"] != bar)]))
            rows.append(
                (
                    group,
                    {
                        "name": name,
                        "colour": _colour(look[one["part"]]),
                        "cells": [{"text": text, "marks": marks, "apart": False}],
                    },
                )
            )
    return _of_study(figure, axis, rows, [], "low / mean / high")


def _spread_axis(figure: Figure, values: Sequence[float]) -> _Axis:
    if figure.limits:
        return _Axis(figure.limits[0], figure.limits[1], log=figure.log)
    if figure.log:
        positive = [value for value in values if value > 0] or [1.0]
        return _Axis(min(positive) / 1.25, max(positive) * 1.25, log=True)
    low, high = min([0.0, *values]), max(values)
    return _Axis(low, high + 0.05 * (high - low) or 1.0, log=False)


def _bars(data: pl.DataFrame) -> Iterator[tuple[tuple[str, str], pl.DataFrame]]:
    """The rows of each bar, under the name of its panel and group and its own."""
    data = data.with_columns(pl.lit("").alias(name) for name in ("panel", "group") if name not in data.columns)
    for (panel, group, bar), rows in data.group_by("panel", "group", "bar", maintain_order=True):
        places = (str(one).replace("\n", " ") for one in (panel, group) if one)
        yield (", ".join(places), str(bar).replace("\n", " ")), rows


def _parts(rows: pl.DataFrame, *, compared: bool) -> Iterator[tuple[str, float, float, float | None]]:
    """Each part of a bar: where it begins and ends, and where the published one ends."""
    top, known = 0.0, 0.0 if compared and not rows["published"].null_count() else None
    for one in rows.iter_rows(named=True):
        known = None if known is None else known + float(one["published"])
        yield one["part"], top, top + float(one["value"]), known
        top += float(one["value"])


def _of_study(
    figure: Figure, axis: _Axis, rows: Sequence[tuple[str, Row]], legend: list[tuple[str, str | None]], unit: str = ""
) -> Strips:
    groups: dict[str, list[Row]] = {}
    for group, row in rows:
        groups.setdefault(group, []).append(row)
    return {
        "id": figure.id,
        "caption": figure.caption,
        "legend": legend,
        "columns": [{"name": figure.label, "unit": unit, "ticks": axis.ticks}],
        "groups": [{"name": name, "rows": of_group} for name, of_group in groups.items()],
    }


def _colour(look: Look) -> str | None:
    return look.on_the_page["colour"]
