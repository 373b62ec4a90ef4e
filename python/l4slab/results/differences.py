"""Changes between two results folders: quantities that moved beyond the spread of their trials, and verdicts.

Cells are matched by experiment, levels of the factors, and flow (or link and queue). A quantity of a cell has moved
where the ranges over the trials of the two folders do not overlap. If nothing had changed, that would happen by chance
in at most 2 of (n + m choose n) cases, with n and m trials (a permutation test). Where this is more than `CHANCE`, as
with less than four trials on both sides, nothing is judged: the quantity is only different.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from l4slab.base import damage, metrics
from l4slab.base.errors import InputError
from l4slab.base.paths import usable
from l4slab.base.values import Cell
from l4slab.results.claims import as_expected

CHANCE = 0.05

# The tables, and the columns that identify their rows besides the labels.
PLACES = {"flows": ("flow",), "links": ("link", "queue")}
_COMPARED = {
    "flows": (*metrics.COMPARED["flows"], "completion_ms_p50", "completion_ms_p99"),
    "links": metrics.COMPARED["links"],
}


@dataclass(frozen=True)
class Change:
    """A quantity of a cell that differs; `chance` is that of `moved` by chance alone."""

    experiment: str
    factors: dict[str, Cell]
    place: str  # the flow, or link and queue
    quantity: str
    before: tuple[float, ...]  # a value per trial
    after: tuple[float, ...]
    chance: float

    @property
    def mean_before(self) -> float:
        """Over the trials."""
        return math.fsum(self.before) / len(self.before)

    @property
    def mean_after(self) -> float:
        """Over the trials."""
        return math.fsum(self.after) / len(self.after)

    @property
    def relative(self) -> float:
        """The difference of the means as a part of the larger one."""
        larger = max(abs(self.mean_before), abs(self.mean_after))
        return (self.mean_after - self.mean_before) / larger if larger else 0.0

    @property
    def apart(self) -> bool:
        """Whether the ranges over the trials do not overlap."""
        return max(self.before) < min(self.after) or max(self.after) < min(self.before)


@dataclass(frozen=True)
class Verdict:
    """A claim whose verdict is another one, or that only one folder has (the other verdict is None)."""

    experiment: str
    id: str
    says: str
    before: str | None
    after: str | None
    worse: bool  # as expected before, and not as expected after


@dataclass(frozen=True)
class Differences:
    """The result of `compare`. `compared` quantities have values in both folders; `same` of them are the same in every
    trial, `judged` are not and have trials enough.
    """

    compared: int
    same: int
    judged: int
    by_chance: float  # of the judged, at most so many would have moved if nothing had changed
    moved: list[Change]
    different: list[Change]  # and not judged, for want of trials
    verdicts: list[Verdict]
    only_before: list[str]  # cells, in words
    only_after: list[str]


def compare(before: Path | str, after: Path | str) -> Differences:
    """The changes from one results folder to another. Raises InputError where one is none, and where
    they have nothing in common.
    """
    changes: list[Change] = []
    compared = same = judged = 0
    expected = 0.0
    found: tuple[dict[tuple[str, str], None], ...] = ({}, {})
    both = paired(before, after)
    for table, places in PLACES.items():
        tables = both(table)
        factors = factors_of(tables, places[0])
        keys = ["experiment", *factors, *places]
        cells = [cells_of(frame, keys, _COMPARED[table]) for frame in tables]
        for words, of_them in zip(found, cells, strict=True):
            words.update((words_of(keys, key, len(places)), None) for key in of_them)
        for key, first in cells[0].items():
            for quantity, values in first.items():
                others = cells[1].get(key, {}).get(quantity, ())
                if not values or not others:
                    continue
                chance = 2 / math.comb(len(values) + len(others), len(values))
                compared += 1
                if values == others:
                    same += 1
                    continue
                if chance <= CHANCE:
                    judged += 1
                    expected += chance
                labels = dict(zip(keys, key, strict=True))
                place = " ".join(str(labels.pop(name)) for name in places)
                experiment = str(labels.pop("experiment"))
                change = Change(experiment, labels, place, quantity, values, others, chance)
                if change.apart or chance > CHANCE:
                    changes.append(change)
    changes.sort(key=lambda change: -abs(change.relative))
    moved = [change for change in changes if change.chance <= CHANCE]
    different = [change for change in changes if change.chance > CHANCE]
    claims = both("claims")
    if not compared and claims[0].join(claims[1], on=["experiment", "id"]).is_empty():
        raise InputError(
            "have no cell and no claim in common; give two folders with results of the same experiments",
            file=f"{before} and {after}",
        )
    verdicts = list(_verdicts(*claims))
    only = _only(found[0], found[1]), _only(found[1], found[0])
    return Differences(compared, same, judged, expected, moved, different, verdicts, only[0], only[1])


def paired(before: Path | str, after: Path | str) -> Callable[[str], tuple[pl.DataFrame, pl.DataFrame]]:
    """Gives a table of both folders. Where each has one experiment, the two are compared, whatever their names.

    Raises InputError and StoreError, as what it gives does.
    """
    names = [read(folder, "flows")["experiment"].unique() for folder in (before, after)]
    renamed = {names[1][0]: names[0][0]} if all(len(one) == 1 for one in names) else {}

    def both(table: str) -> tuple[pl.DataFrame, pl.DataFrame]:
        return read(before, table), read(after, table).with_columns(pl.col("experiment").replace(renamed))

    return both


def read(folder: Path | str, table: str) -> pl.DataFrame:
    """A table of a results folder. Raises InputError and StoreError."""
    path = usable(folder) / f"{table}.parquet"
    if not path.is_file():
        raise InputError('is not a results folder; give a DIR that "l4slab run --out DIR" has written', file=folder)
    with damage.told(Path(folder), folder):
        found = pl.read_parquet(path)
    needed = {"claims": {"id", "verdict", "kind"}}.get(table, {"trial", *PLACES.get(table, ())})
    if not needed <= set(found.columns):
        raise InputError(f"has not the columns of this l4slab; write it again with: l4slab report {folder}", file=path)
    return found


def factors_of(tables: Sequence[pl.DataFrame], first: str) -> list[str]:
    """The columns between the labels and the table's own, of both folders."""
    found: dict[str, None] = {}
    for frame in tables:
        names = frame.columns
        found |= dict.fromkeys(names[names.index("trial") + 1 : names.index(first)])
    return list(found)


def cells_of(
    frame: pl.DataFrame, keys: list[str], compared: Sequence[str]
) -> dict[tuple[Any, ...], dict[str, tuple[float, ...]]]:
    """Per cell and quantity the values of the trials that have one, in order of the trials."""
    missing = [name for name in keys if name not in frame.columns]
    frame = frame.with_columns(*(pl.lit(None).alias(name) for name in missing)).sort("trial", maintain_order=True)
    quantities = [name for name in compared if name in frame.columns]
    cells: dict[tuple[Any, ...], dict[str, tuple[float, ...]]] = {}
    grouped = frame.group_by(keys, maintain_order=True).agg(
        *(pl.col(name).drop_nulls().drop_nans() for name in quantities)
    )
    for row in grouped.iter_rows(named=True):
        cells[tuple(row[name] for name in keys)] = {name: tuple(row[name]) for name in quantities}
    return cells


def words_of(keys: Sequence[str], key: Sequence[Any], places: int) -> tuple[str, str]:
    """A cell in words: experiment and levels, and the flow or link."""
    labels = [f"{name} = {level}" for name, level in zip(keys, key, strict=True)]
    levels = [label for label, level in zip(labels[1:-places], key[1:-places], strict=True) if level is not None]
    return ", ".join([str(key[0]), *levels]), ", ".join(labels[-places:])


def _only(own: Iterable[tuple[str, str]], other: Collection[tuple[str, str]]) -> list[str]:
    """Rows that the other folder lacks: whole combinations, and flows and links of common combinations."""
    common = {combination for combination, _ in other}
    missing = {
        f"{combination}, {place}" if combination in common else combination: None
        for combination, place in own
        if (combination, place) not in other
    }
    return list(missing)


def _verdicts(before: pl.DataFrame, after: pl.DataFrame) -> Iterator[Verdict]:
    rows = [
        {
            (row["experiment"], row["id"]): row
            for row in frame.with_columns(expected=as_expected()).iter_rows(named=True)
        }
        for frame in (before, after)
    ]
    for experiment, name in rows[0] | rows[1]:
        first, second = (own.get((experiment, name)) for own in rows)
        one = second or first
        verdicts = [None if row is None else str(row["verdict"]) for row in (first, second)]
        if one is None or verdicts[0] == verdicts[1]:
            continue
        worse = first is not None and second is not None and first["expected"] and not second["expected"]
        yield Verdict(experiment, name, one["says"], verdicts[0], verdicts[1], worse)
