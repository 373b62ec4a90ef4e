"""How far the simulator may be from the kernel: the tables [agree] and [[cause]] of an experiment file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from l4slab.base import metrics
from l4slab.base.errors import suggest
from l4slab.base.values import Keys
from l4slab.experimentfile import Experiment, Table
from l4slab.experimentfile.wording import Problem, check, told
from l4slab.sweep import Plan


class Bar(Table):
    """How far the simulator may be from the kernel in one quantity (see `l4slab.tools.agreement`).

    Over the cells, of the absolute difference: `median` and `p90`. Of each cell: within `absolute` or within
    `relative` times the kernel's value, in the part `cells` of them. It is measured over `at_least` so many cells.
    """

    median: float | None = Field(default=None, ge=0, examples=["0.03"])
    p90: float | None = Field(default=None, ge=0, examples=["0.08"])
    absolute: float | None = Field(default=None, ge=0, examples=["0.3"])
    relative: float | None = Field(default=None, ge=0, examples=["0.1"])
    cells: float | None = Field(default=None, ge=0, le=1, examples=["0.9"])
    at_least: int = Field(default=1, ge=1, examples=["8"])

    def mistake(self, raw: Keys) -> tuple[str, str] | None:  # noqa: ARG002
        tolerance = self.absolute is not None or self.relative is not None
        if tolerance and self.cells is None:
            return "", "has a tolerance but does not say for how many cells; add it, such as cells = 0.9"
        if self.cells is not None and not tolerance:
            return "", "has cells but no tolerance; add absolute or relative"
        return None


class Agree(Table):
    """How `l4slab agree` compares an experiment on both engines; bars stand in tables of their own."""

    set: str = Field(default="", examples=['"tcp"'])
    simulator_trials: int | None = Field(default=None, ge=1, le=1_000_000, examples=["10"])
    bars: Mapping[str, Bar] = {}


class Cause(Table):
    """Why cells are beyond a bar: an SQL condition over the rows of `agreement.parquet`, and a sentence."""

    section = "cause"
    when: str = Field(
        examples=["\"quantity = 'share' and rtt_ms = 5\""],
        description="SQL condition over the rows of agreement.parquet",
    )
    why: str = Field(min_length=1, examples=['"..."'], description="Why these cells are beyond a bar")


# Of every file that says nothing else, by quantity.
DEFAULT_BARS = {
    "share": Bar.model_validate({"median": 0.03, "p90": 0.08}),
    "utilisation": Bar.model_validate({"absolute": 0.01, "cells": 0.95}),
    "sojourn_ms_mean": Bar.model_validate({"relative": 0.1, "absolute": 0.3, "cells": 0.85}),
    "ce_pct": Bar.model_validate({"relative": 0.15, "absolute": 0.2, "cells": 0.9}),
}


def agree_of(experiment: Experiment) -> Agree:
    """The bars of [agree], with the defaults for those that it leaves out. Raises InputError."""
    raw = experiment.document["agree"]
    tables = {key: value for key, value in raw.items() if isinstance(value, dict)}
    written = {key: value for key, value in raw.items() if key not in tables}
    quantities = list(dict.fromkeys(name for names in metrics.COMPARED.values() for name in names))
    with told(experiment.file):
        for name in tables:
            if name not in quantities:
                raise Problem((f"[agree.{name}]",), "", f"is about no quantity; {suggest(name, quantities)}")
        if "bars" in written:
            raise Problem(("agree",), "bars", "is not a key here; write a table such as [agree.share]")
        bars = {name: check(Bar, table, (f"agree.{name}",)) for name, table in tables.items()}
        agree: Agree = check(Agree, written, ("agree",))
    return agree.model_copy(update={"bars": DEFAULT_BARS | bars})


def check_tables(plans: Sequence[Plan]) -> None:
    """Read every bar and cause. Raises InputError for the first that is wrong."""
    for plan in plans:
        agree_of(plan.experiment)
        plan.experiment.tables(Cause)
