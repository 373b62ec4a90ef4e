"""`Results.plot`: the figures of a campaign, with the rows, the names and the warm-up that belong to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import polars as pl

from l4slab import plot, sweep
from l4slab.base.arguments import checked
from l4slab.base.errors import InputError
from l4slab.base.run import Run as Description
from l4slab.experimentfile import Experiment, capacity
from l4slab.plot.figures import draw_one
from l4slab.report.results import Case, packets_of
from l4slab.results.figures import COLUMNS, Figure

if TYPE_CHECKING:
    from l4slab.plot.style import Figure as Drawing

# Side by side, more could not be read.
_MOST_CASES = 4


class Results(Protocol):
    """The part of `l4slab.api.results.Results` that figures need."""

    @property
    def folder(self) -> Path | None: ...

    @property
    def experiments(self) -> Sequence[Experiment]: ...

    def sql(self, query: str, columns: Sequence[str] = ...) -> pl.DataFrame: ...


class Plots:
    """Each method gives a matplotlib figure, or None where there is nothing to draw.

    `where` says of which runs, by an SQL condition over the columns of `flows`: `"aqm = 'DualPI2' and trial = 1"`. A
    case is an experiment at one level of every factor. A notebook shows a figure, `savefig("x.pdf")` keeps it. Raises
    InputError.
    """

    def __init__(self, results: Results):
        self._results = results

    @checked("where", "cases")
    def overview(self, where: str | None = None, *, cases: int | None = None) -> Drawing | None:
        """Who gets which rate, who waits how long, what is marked or lost; at most the first `cases` cases."""
        flows = self._rows("flows", where)
        found = _cases(flows)[:cases]
        return plot.overview(
            flows,
            cases=[case.levels for case in found],
            labels=_labels(found),
            capacities=[capacity.means(self._described(case)) for case in found],
        )

    @checked("where", "trial")
    def time_series(self, where: str | None = None, *, trial: int | None = None) -> Drawing | None:
        """Rates and round-trip times over time, of at most four cases beside each other.

        `trial` is drawn in full (default: the median one), the others faintly.
        """
        cases = self._few(where, _MOST_CASES)
        of_paths = [
            capacity.table(self._described(case)).with_columns(panel=pl.lit(label))
            for case, label in zip(cases, _labels(cases), strict=True)
        ]
        return plot.time_series(
            _with_panels(self._rows("series", where), cases),
            flows=self._senders(where),
            warmup_s=self._warmup_s(cases),
            trial=trial,
            capacity=pl.concat(of_paths) if of_paths else None,
        )

    @checked("where", "quantity")
    def delays(self, where: str | None = None, quantity: str = "sojourn_ms") -> Drawing | None:
        """The distribution and the tail of each flow's queue delay, of at most four cases, all trials together.

        `quantity` is one of the table `histograms`: `"rtt_ms"`, `"completion_ms"` of transfers, `"view_ms"`.
        """
        cases = self._few(where, _MOST_CASES)
        histograms = _with_panels(self._rows("histograms", where), cases)
        return plot.delays(histograms, quantity=quantity, flows=self._senders(where))

    @checked("where", "trial")
    def marking(self, where: str | None = None, *, trial: int | None = None) -> Drawing | None:
        """The marking probabilities of DualPI2 and its kin over time, of one case; `trial` as in `time_series`."""
        cases = self._few(where, 1)
        return plot.inside(self._rows("series", where), warmup_s=self._warmup_s(cases), trial=trial)

    @checked("where", "trial", "begin_s", "end_s")
    def packets(
        self,
        where: str | None = None,
        *,
        trial: int | None = None,
        begin_s: float | None = None,
        end_s: float | None = None,
    ) -> Drawing | None:
        """Each packet of a stack in its queues, and what its log says, of one case; `trial` as in `time_series`.

        From `begin_s` to `end_s`, by default the whole run. None where the run has kept no log (docs/stacks.md).
        """
        cases, folder = self._few(where, 1), self._results.folder
        if not cases or folder is None:
            return None
        flows = self._rows("flows", where)
        of_trial = flows.filter(trial=plot.median_trial(flows) if trial is None else trial)
        if of_trial.is_empty() or (kept := packets_of(folder, of_trial["run"][0])) is None:
            return None
        if end_s is None:
            end_s = self._described(cases[0])["duration_ns"] / 1e9
        return plot.packets(*kept[1:], warmup_s=self._warmup_s(cases), begin_s=begin_s, end_s=end_s)

    @checked("figure")
    def figure(self, figure: Figure) -> Drawing | None:
        """The drawing of a `[[figure]]`: `l4slab.Figure(id="x", kind="heatmap", sql="select ...")`."""
        columns = COLUMNS[figure.kind]
        return draw_one(figure, lambda sql: self._results.sql(sql, columns))

    def _senders(self, where: str | None = None) -> dict[str, str | None]:
        """Every flow with its congestion control, of which its look follows."""
        return dict(self._rows("flows", where).select("flow", "cc").unique("flow", maintain_order=True).iter_rows())

    def _rows(self, table: str, where: str | None) -> pl.DataFrame:
        if where is None:
            found: pl.DataFrame = getattr(self._results, table)
            return found
        self._results.sql(f"select run from flows where ({where})")  # says what is wrong with it, and nothing else
        runs = f"select experiment, run from flows where ({where})"
        return self._results.sql(f"select * from {table} where (experiment, run) in ({runs})")

    def _few(self, where: str | None, most: int) -> list[Case]:
        cases = _cases(self._rows("flows", where))
        if len(cases) > most:
            chosen = "one" if most == 1 else f"at most {most}"
            raise InputError(f"{len(cases)} cases are too many for one figure; choose {chosen} of them by where=")
        return cases

    def _warmup_s(self, cases: list[Case]) -> float:
        """The warm-up, which the figures leave out, if it is the same in all cases."""
        found = {self._described(case)["warmup_ns"] / 1e9 for case in cases}
        return found.pop() if len(found) == 1 else 0.0

    def _described(self, case: Case) -> Description:
        file = next(one for one in self._results.experiments if one.name == case.experiment)
        return sweep.describe(file, case.levels)


def _cases(flows: pl.DataFrame) -> list[Case]:
    factors = flows.columns[flows.columns.index("trial") + 1 : flows.columns.index("flow")]
    return [Case(row) for row in flows.select("experiment", *factors).unique(maintain_order=True).iter_rows(named=True)]


def _with_panels(rows: pl.DataFrame, cases: list[Case]) -> pl.DataFrame:
    """The rows of each case with its name as the column `panel`, where there are several."""
    if len(cases) < 2:
        return rows
    named = zip(cases, _labels(cases), strict=True)
    return pl.concat(rows.filter(case.rows()).with_columns(panel=pl.lit(label)) for case, label in named)


def _labels(cases: list[Case]) -> list[str]:
    """The levels that distinguish these cases."""
    names = cases[0].levels if cases else ()
    varied = [name for name in names if len({case.levels[name] for case in cases}) > 1]
    told = [Case({name: case.levels[name] for name in varied}).level_text for case in cases]
    several = "experiment" in varied
    return [
        ": ".join(filter(None, (case.experiment if several or not text else "", text)))
        for case, text in zip(cases, told, strict=True)
    ]
