"""Trials that lie apart: a mean over them describes none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from l4slab.base.values import Cell

# The largest over the least trial from which a mean misleads.
FACTOR = 3.0
# What people compare, and below which size nobody minds: a delay of 0.1 instead of 0.02 ms, a flow that stands still.
_QUANTITIES = {"goodput_mbps": 0.1, "rtt_ms_mean": 2.0, "sojourn_ms_mean": 2.0}


@dataclass(frozen=True)
class Apart:
    """A quantity of a flow whose trials lie apart, in the column's unit; `levels` are of the factors that have any."""

    experiment: str
    levels: Mapping[str, Cell]
    flow: str
    quantity: str
    least: float
    median: float
    most: float
    trials: int

    @property
    def case(self) -> str:
        """The levels, for people."""
        return ", ".join(map(str, self.levels.values()))


def apart(flows: pl.DataFrame) -> list[Apart]:
    """Of the table `flows`, each quantity with a trial above `FACTOR` times another one, in the order of the rows."""
    position = {name: number for number, name in enumerate(flows.columns)}
    factors = flows.columns[position["trial"] + 1 : position["flow"]]
    keys = ["experiment", *factors, "flow"]
    found = []
    for quantity, floor in _QUANTITIES.items():
        value, numbers = pl.col(quantity), pl.col(quantity).struct
        # Under the quantity's name, which no factor has.
        cells = flows.group_by(keys, maintain_order=True).agg(
            pl.struct(least=value.min(), median=value.median(), most=value.max(), trials=value.count()).alias(quantity)
        )
        far = (numbers.field("most") > FACTOR * numbers.field("least")) & (numbers.field("most") > floor)
        for row in cells.filter(far).to_dicts():
            levels = {name: row[name] for name in factors if row[name] is not None}
            found.append(Apart(row["experiment"], levels, row["flow"], quantity, **row[quantity]))
    order = {key: number for number, key in enumerate(flows.select(keys).unique(maintain_order=True).rows())}
    # A stable sort keeps the quantities of a row in their order.
    return sorted(found, key=lambda one: order[(one.experiment, *(one.levels.get(name) for name in factors), one.flow)])
