"""Runs of an engine whose results differ from one time to the next, as those of a real kernel: compared by intervals.

A stored value is held against the other trials of its case and the value that was computed again: it lies outside if
its distance from their mean is beyond the prediction interval of one further value (Student's t, at `CHANCE` for all
values together, Bonferroni), and beyond the bar that `l4slab agree` has for the quantity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import polars as pl

from l4slab.base.numbers import number
from l4slab.engines.contract import Recording
from l4slab.results import chance
from l4slab.results.differences import PLACES, factors_of
from l4slab.tools.agreement.random.judge import MARGINS, allowed
from l4slab.tools.verify.findings import Finding

# How often an honest folder would be called altered.
CHANCE = 0.01
# Values besides the stored one, from which there is a spread.
LEAST = 3


@dataclass(frozen=True)
class Value:
    """A stored value, and those it is held against: of the other trials, and computed again."""

    table: str
    place: str
    quantity: str
    stored: float
    others: Sequence[float]


def compare(table: Callable[[str], pl.DataFrame], again: Mapping[str, Recording]) -> tuple[list[Finding], list[str]]:
    """The given values of these runs that lie outside of their intervals, and notes in sentences. `table` gives a table
    by its name.
    """
    return judged([value for name in MARGINS for value in _values(name, table(name), again)])


def judged(values: Sequence[Value]) -> tuple[list[Finding], list[str]]:
    """Of these values the ones outside, and how many could not be judged."""
    enough = [value for value in values if len(value.others) >= LEAST]
    reaches = {
        count: chance.quantile(CHANCE / len(enough) / 2, count - 1) * math.sqrt(1 + 1 / count)
        for count in {len(value.others) for value in enough}
    }
    found = []
    for value in enough:
        mean = fmean(value.others)
        widest = max(reaches[len(value.others)] * stdev(value.others), allowed(value.quantity, mean))
        if abs(value.stored - mean) > widest:
            interval = f"{number(mean - widest)} to {number(mean + widest)}"
            found.append(
                Finding(f"{value.table}.parquet", (value.place, value.quantity), number(value.stored), interval)
            )
    notes = []
    if few := len(values) - len(enough):
        notes.append(
            f"{few} of {len(values)} values have fewer than {LEAST} others to be held against; more trials judge them."
        )
    return found, notes


def _values(table: str, rows: pl.DataFrame, again: Mapping[str, Recording]) -> Iterator[Value]:
    if rows.is_empty():
        return
    keys = ["experiment", *factors_of([rows], PLACES[table][0]), *PLACES[table]]
    cells = rows.partition_by(keys, as_dict=True)
    for row in rows.filter(pl.col("run").is_in(list(again))).iter_rows(named=True):
        computed = getattr(again[row["run"]], table)
        same = computed.filter(pl.col(name).eq_missing(pl.lit(row[name])) for name in PLACES[table])
        cell = cells[tuple(row[name] for name in keys)].filter(pl.col("run") != row["run"])
        place = ", ".join(f"{name} {row[name]}" for name in ("experiment", "trial", *PLACES[table]))
        for quantity in MARGINS[table]:
            if row.get(quantity) is not None:
                others = pl.concat([cell[quantity], same[quantity]]).drop_nulls().to_list()
                yield Value(table, place, quantity, row[quantity], others)
