"""Heat maps as tables: a number and a colour for each cell of a factorial, beside the published ones, if any."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

import polars as pl

from l4slab.base.numbers import plain, written
from l4slab.results.figures import Figure

# Of matplotlib's "cividis" and "PuOr": colours at equal distances. The ends of the second are both dark and its middle
# is light, so that a colour-blind reader tells the ends apart.
_RISING = ("#00224e", "#1a386f", "#434e6c", "#61656f", "#7d7c78", "#9b9476", "#bcae6c", "#dec958", "#fee838")
_DIVERGING = (
    "#7f3b08", "#b25706", "#e08214", "#fcb761", "#fee0b6", "#f6f6f7", "#d8daeb", "#b1aad1", "#8073ac", "#532687",
    "#2d004b",
)  # fmt: skip


class Cell(TypedDict):
    """A cell's number and colours; "" where there is no value."""

    text: str
    back: str
    ink: str


class Row(TypedDict):
    """A row of cells."""

    name: str
    cells: list[Cell]


class Table(TypedDict):
    """A panel."""

    title: str
    columns: list[str]
    rows: list[Row]


class Bar(TypedDict):
    """What the colours mean: a gradient with its ends."""

    label: str
    low: str
    high: str
    gradient: str


class Heat(TypedDict):
    """A figure of heat maps; `across` of its tables belong beside each other."""

    tables: list[Table]
    bars: list[Bar]
    across: int


@dataclass(frozen=True)
class Colours:
    """Which colour a value has."""

    low: float
    high: float
    log: bool
    colours: Sequence[str]

    @classmethod
    def of(
        cls, values: Sequence[float], limits: Sequence[float] | None, neutral: float | None, *, log: bool
    ) -> Colours:
        """Symmetric about `neutral` (on a log scale in ratios), or rising from the least to the greatest."""
        values = [value for value in values if math.isfinite(value) and (value > 0 or not log)] or [1.0]
        low, high = limits or (min(values), max(values))
        if neutral is None:
            return cls(low, high if high > low else low + 1, log, _RISING)
        if log:
            reach = max(high / neutral, neutral / low, 1.01)
            return cls(neutral / reach, neutral * reach, log, _DIVERGING)
        reach = max(high - neutral, neutral - low) or 1.0
        return cls(neutral - reach, neutral + reach, log, _DIVERGING)

    def at(self, value: float) -> tuple[int, int, int]:
        """Red, green and blue of a value; beyond the ends those of the ends."""
        if self.log:
            part = math.log(value / self.low) / math.log(self.high / self.low) if value > 0 else 0.0
        else:
            part = (value - self.low) / (self.high - self.low)
        place = min(max(part, 0.0), 1.0) * (len(self.colours) - 1)
        left = min(int(place), len(self.colours) - 2)
        begin, end = (_rgb(self.colours[left + step]) for step in (0, 1))
        red, green, blue = (round(a + (place - left) * (b - a)) for a, b in zip(begin, end, strict=True))
        return red, green, blue

    def cell(self, value: float | None, *, sign: bool = False) -> Cell:
        """A cell of this value."""
        if value is None or not math.isfinite(value):
            return {"text": "", "back": "", "ink": ""}
        rgb = self.at(value)
        is_light = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] > 127.5
        return {
            "text": _text(value, sign=sign),
            "back": "#{:02x}{:02x}{:02x}".format(*rgb),
            "ink": "#000" if is_light else "#fff",
        }

    def bar(self, label: str) -> Bar:
        """The meaning of these colours."""
        low, high = (plain(float(f"{end:.3g}")) for end in (self.low, self.high))
        return {"label": label, "low": low, "high": high, "gradient": ", ".join(self.colours)}


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _text(value: float, *, sign: bool) -> str:
    """Two digits after the point below ten, none above."""
    digits = 2 if abs(value) < 10 else 0
    shown = round(value, digits) + 0.0  # no minus before a zero
    return written(f"{shown:{'+' if sign and shown else ''},.{digits}f}")


def of(figure: Figure, data: pl.DataFrame) -> Heat | None:
    """A table for each `panel` and `group`; with `published` three: published, here, and the difference (or ratio)."""
    compared = "published" in data.columns and data["published"].count() > 0
    shown = ["value", *["published"] * compared]
    data = data.filter(pl.any_horizontal(pl.col(*shown).is_not_null()))
    if data.is_empty():
        return None
    data = data.with_columns(pl.col(name).cast(pl.Float64) for name in shown)
    data = data.with_columns(pl.lit("").alias(name) for name in ("group", "panel") if name not in data.columns)
    known = [value for name in shown for value in data[name].drop_nulls()]
    colours = Colours.of(known, figure.limits, figure.neutral, log=figure.log)
    bars, tables = [colours.bar(figure.label)], []
    panels = data.partition_by("group", "panel", maintain_order=True, as_dict=True)
    difference, name, off = _difference(figure, data) if compared else (None, "", None)
    for place, rows in panels.items():
        title = ", ".join(filter(None, map(str, place)))
        if difference is None or off is None:
            tables.append(_table(title, data, rows, "value", colours.cell))
            continue
        rows = rows.with_columns(off=off)
        tables += [
            _table(f"{title}: {what}" if title else what, data, rows, column, cell)
            for what, column, cell in (
                ("published", "published", colours.cell),
                ("here", "value", colours.cell),
                (name, "off", lambda value: difference.cell(value, sign=not figure.log)),
            )
        ]
    if difference is not None:
        bars.append(difference.bar(name))
    across = 3 if compared else data["panel"].n_unique() if data["group"].n_unique() > 1 else len(panels)
    return {"tables": tables, "bars": bars, "across": min(across, 3)}


def _difference(figure: Figure, data: pl.DataFrame) -> tuple[Colours, str, pl.Expr]:
    """The colours of the distance from what is published, its name, and how it is computed."""
    value, published = pl.col("value"), pl.col("published")
    off = value / published if figure.log else value - published
    found = [abs(one) for one in data.select(off=off)["off"].drop_nulls() if math.isfinite(one)]
    if figure.log:
        return Colours.of(found, None, 1.0, log=True), "here / published", off
    # A few cells far off would leave all others without colour.
    reach = min((figure.limits[1] - figure.limits[0]) / 2 if figure.limits else math.inf, max(found, default=1.0))
    return Colours.of(found, (-reach, reach), 0.0, log=False), "here \u2212 published", off


def _table(
    title: str, whole: pl.DataFrame, rows: pl.DataFrame, column: str, cell: Callable[[float | None], Cell]
) -> Table:
    names, columns = (list(whole[name].unique(maintain_order=True)) for name in ("row", "column"))
    values = {(row, at): value for row, at, value in rows.select("row", "column", column).iter_rows()}
    return {
        "title": title,
        "columns": columns,
        "rows": [{"name": row, "cells": [cell(values.get((row, at))) for at in columns]} for row in names],
    }
