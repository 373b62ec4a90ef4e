"""The objective of a search: a number of a scenario's results, and the threshold of harm."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import duckdb
import polars as pl
from pydantic import Field

from l4slab.base.errors import InputError, one_line
from l4slab.experimentfile import Experiment, Table, show
from l4slab.experimentfile.wording import check, told
from l4slab.results import claims
from l4slab.sweep import Plan, sql_reason
from l4slab.tools.search.space import OBJECTIVE

_PLACE = f"search.{OBJECTIVE}"
# Standard errors by which a mean must lie beyond the threshold.
SURE = 2


class Objective(Table):
    """The table `[search.objective]`."""

    sql: str = Field(
        examples=["\"select min(share) from flows where cc = 'cubic' group by trial\""],
        description="One SELECT, whose first column is a number per trial",
    )
    goal: Literal["minimise", "maximise"] = Field(examples=['"minimise"'], description="Which end is the worst")
    harm: float = Field(allow_inf_nan=False, examples=["0.1"], description="A number beyond this is a harm")
    says: str = Field(default="", description="The harm in words")

    @classmethod
    def of(cls, experiment: Experiment) -> Objective:
        """That of a file. Raises InputError."""
        raw = experiment.document["search"].get(OBJECTIVE)
        if raw is None:
            text = f'has no objective; add [{_PLACE}] with sql, goal = "minimise" or "maximise", and harm'
            raise InputError(text, file=experiment.file, key="search")
        with told(experiment.file):
            found: Objective = check(cls, raw, ("search", OBJECTIVE))
        return found

    @property
    def relation(self) -> str:
        """How a harmful number compares with `harm`."""
        return "<" if self.goal == "minimise" else ">"

    @property
    def text(self) -> str:
        """The harm in words."""
        return one_line(self.says) or f"{one_line(self.sql)} is {self.relation} {self.harm:g}"

    @property
    def claim(self) -> str:
        """The SQL of a claim that states the harm, of the mean of the trials and with its standard error."""
        sign = "+" if self.goal == "minimise" else "-"
        # A comment would swallow what follows on its line.
        query = one_line(self.sql) if "--" not in self.sql else f"{self.sql}\n"
        error = "coalesce(stddev_samp(v), 0)"
        return (
            f"select avg(v) {sign} {SURE} * {error} / sqrt(count(v)) {self.relation} {self.harm:g}, avg(v) as mean, "
            f"{error} as spread, count(v) as trials from ({query}) as found(v)"
        )

    def check(self, plan: Plan) -> None:
        """Raises InputError unless the query gives a number in its first column, for the results of this plan."""
        with claims.connect_empty([plan]) as connection:
            claims.show_experiment(connection, plan.experiment)
            relation = claims.select(connection, self.sql, plan.experiment.file, f"{_PLACE}:")
            first = relation.columns[:1]
            claims.require_numbers(relation, first, self.sql, plan.experiment.file, f"{_PLACE}:")

    def value(self, experiment: Experiment, tables: Mapping[str, pl.DataFrame]) -> Value:
        """The number of each trial, or the one of all, of one scenario's tables. Raises InputError."""
        with claims.connect_to(tables) as connection:
            claims.show_experiment(connection, experiment)
            rows = self._rows(connection, experiment)
            # Several rows of one trial would pass for as many trials.
            if len(rows) > 1:
                _show_one_trial(connection, tables)
                if (count := len(self._rows(connection, experiment))) > 1:
                    text = f"sql = {show(self.sql)} gives {count} rows for one trial; make it one, as in"
                    example = "select min(share) from flows group by trial"
                    raise InputError(f"{text} {example}", file=experiment.file, key=f"{_PLACE}:")
        numbers = [float(row[0]) for row in rows if row[0] is not None]
        return Value(tuple(number for number in numbers if math.isfinite(number)))

    def _rows(self, connection: duckdb.DuckDBPyConnection, experiment: Experiment) -> list[tuple[Any, ...]]:
        """The rows of the query. Raises InputError."""
        try:
            return connection.execute(self.sql).fetchall()
        except duckdb.Error as error:
            text = f"sql = {show(self.sql)} cannot be evaluated: {sql_reason(error)}"
            raise InputError(text, file=experiment.file, key=f"{_PLACE}:") from None

    def is_harm(self, mean: float) -> bool:
        """Whether a number is beyond the threshold."""
        return mean < self.harm if self.goal == "minimise" else mean > self.harm

    def is_surely_harm(self, value: Value) -> bool:
        """Whether the mean is beyond the threshold by `SURE` standard errors, as `claim` says it."""
        return value.mean is not None and self._is_on_side(value.mean, value.spread, len(value.numbers), SURE)

    def is_surely_none(self, mean: float, spread: float | None, trials: int) -> bool:
        """Whether a mean is on the other side by as much."""
        return not self._is_on_side(mean, spread, trials, -SURE)

    def _is_on_side(self, mean: float, spread: float | None, trials: int, errors: float) -> bool:
        """Whether the mean is harm still when it is so many standard errors nearer to none."""
        away = errors * (spread or 0.0) / math.sqrt(trials)
        return self.is_harm(mean + away if self.goal == "minimise" else mean - away)

    def cost(self, mean: float) -> float:
        """The cost that an optimiser minimises."""
        return mean if self.goal == "minimise" else -mean


def _show_one_trial(connection: duckdb.DuckDBPyConnection, tables: Mapping[str, pl.DataFrame]) -> None:
    """Reduce the tables of one experiment to its first trial."""
    for name in (name for name, table in tables.items() if "trial" in table.columns):
        rows = f"from all_{name} where trial = (select min(trial) from all_{name})"
        connection.execute(f"create or replace temp view {name} as select * {rows}")


@dataclass(frozen=True)
class Value:
    """The values of an objective in the trials of a scenario; empty if the results have none."""

    numbers: Sequence[float]

    @property
    def mean(self) -> float | None:
        """Of all trials."""
        return statistics.fmean(self.numbers) if self.numbers else None

    @property
    def spread(self) -> float | None:
        """The standard deviation between trials; None of a single one."""
        return statistics.stdev(self.numbers) if len(self.numbers) > 1 else None
