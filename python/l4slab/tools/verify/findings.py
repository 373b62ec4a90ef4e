"""What differs between what was given and what was computed: in tables, and in values as JSON has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import polars as pl

from l4slab.base import metrics

# Of one table or element, because thousands say no more.
MOST = 20
_PLACES = ("flow", "member", "link", "queue", "time_s", "quantity", "low_ms", "lost_at", "lost_by", "id")
# By what the parts of a page's data are known.
_NAMES = ("id", "title", "name", "label")
# Characters of a text that are shown, and of a long one before and behind the first difference.
_LONGEST = 120
_BEFORE, _BEHIND = 40, 60


@dataclass(frozen=True)
class Finding:
    """A value that is not what follows: its file, its place in it, what was found and what was computed.

    `place` has the table or section, the row and the column, as far as the file has such.
    """

    file: str
    place: tuple[str, ...]
    found: str
    recomputed: str

    def __str__(self) -> str:
        where = ": ".join((self.file, *filter(None, self.place)))
        return f"{where}: found {self.found}, recomputed {self.recomputed}"


def table_of(value: object) -> dict[str, Any]:
    """A JSON table; empty where somebody has put something else in its place."""
    return value if isinstance(value, dict) else {}


def shown(value: object) -> str:
    """A value for people; a text in quotes, shortened."""
    if value is None:
        return "nothing"
    if isinstance(value, float):
        return repr(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return f'"{short}"' if isinstance(value, str) else short


def of_texts(file: str, place: tuple[str, ...], found: str, again: str) -> Finding:
    """The first place at which two different texts differ, with some of what stands around it."""
    at = next((n for n, (a, b) in enumerate(zip(found, again, strict=False)) if a != b), min(len(found), len(again)))
    start = max(at - _BEFORE, 0)
    parts = [
        f"{'…' * (start > 0)}{one[start : at + _BEHIND]}{'…' * (len(one) > at + _BEHIND)}" for one in (found, again)
    ]
    return Finding(file, place, shown(parts[0]), shown(parts[1]))


def of_tables(file: str, found: pl.DataFrame, again: pl.DataFrame) -> Iterator[Finding]:
    """The cells that differ, by row and column; where the rows are others, the first that has no counterpart."""
    for name in found.columns:
        if name not in again.columns:
            yield Finding(file, ("", name), "this column", "nothing")
    for name in again.columns:
        if name not in found.columns:
            yield Finding(file, ("", name), "no such column", "this column")
    common = [name for name in again.columns if name in found.columns]
    if found.height != again.height:
        yield _of_rows(file, found.select(common), again.select(common))
        return
    for name in common:
        a, b = found[name], again[name]
        if a.dtype != b.dtype:
            yield Finding(file, ("", name), f"the type {a.dtype}", f"the type {b.dtype}")
            continue
        for row in a.ne_missing(b).arg_true().head(MOST):
            yield Finding(file, (_row(again, row), name), shown(a[row]), shown(b[row]))


def _of_rows(file: str, found: pl.DataFrame, again: pl.DataFrame) -> Finding:
    """The first row that only one table has."""
    pairs = zip(found.iter_rows(), again.iter_rows(), strict=False)
    at = next((number for number, (a, b) in enumerate(pairs) if a != b), min(found.height, again.height))
    place = _row(again if at < again.height else found, at)
    return Finding(file, (place,), f"{found.height} rows", f"{again.height}, and from this one on they differ")


def _row(frame: pl.DataFrame, number: int) -> str:
    """A row by its labels, and the flow, queue or time it is about."""
    row = frame.row(number, named=True)
    own, labels = metrics.all_columns(), list[str]()
    if "trial" in row:
        behind = frame.columns[frame.columns.index("trial") + 1 :]
        factors = takewhile(lambda name: name not in own, behind)
        labels = ["experiment", "run", "trial", *factors]
    told = [f"{name} {row[name]}" for name in (*labels, *_PLACES) if row.get(name) is not None]
    return ", ".join(told) or f"row {number + 1}"


def of_values(found: object, again: object, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """The places in two JSON values at which they differ, and both values there."""
    if isinstance(found, dict) and isinstance(again, dict):
        for key in dict.fromkeys((*again, *found)):
            if key not in found or key not in again:
                yield (*place, str(key)), found.get(key), again.get(key)
            else:
                yield from of_values(found[key], again[key], (*place, str(key)))
    elif isinstance(found, list) and isinstance(again, list) and len(found) == len(again):
        for number, (a, b) in enumerate(zip(found, again, strict=True)):
            if a != b:
                yield from of_values(a, b, (*place, _name(b, number)))
    elif found != again or type(found) is not type(again):
        yield place, found, again


def _name(value: object, number: int) -> str:
    if isinstance(value, Mapping):
        return next((str(value[name]) for name in _NAMES if value.get(name)), str(number + 1))
    if isinstance(value, list) and value and isinstance(value[0], str):
        return value[0]
    return str(number + 1)
