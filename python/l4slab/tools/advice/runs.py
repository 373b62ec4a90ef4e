"""Runs of a case and of its neighbours, and what the flows get in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import polars as pl
from rich.console import Console

from l4slab.api import campaign
from l4slab.api.experiment import Experiment, to_toml
from l4slab.base.errors import L4slabError
from l4slab.tools.advice.case import Case

# A share of nothing has no logarithm: what is beyond counts as this, a thousandth of the link.
_LEAST = 0.001
AS_GIVEN, WITHOUT, NEIGHBOURS = "case", "without-prague", "neighbours"
TRIALS = 3


def advantage(share: float, fair: float) -> float:
    """The logarithm of (rate of a Prague flow / rate of a rival's flow); 0 is equal rates."""
    share = min(max(share, _LEAST), 1 - _LEAST)
    return math.log(share / (1 - share)) - math.log(fair / (1 - fair))


def share_of(advantage: float, fair: float) -> float:
    """Of the link, of all Prague flows together."""
    return 1 / (1 + (1 - fair) / fair * math.exp(-advantage))


@dataclass(frozen=True)
class Simulated:
    """Advantages of Prague over the rival, as logarithms: of each trial, and of each neighbour by its name."""

    trials: Sequence[float]
    neighbours: Mapping[str, float]

    @property
    def centre(self) -> float:
        """Of all runs, the case itself counting for half."""
        return fmean([fmean(self.trials), fmean(self.neighbours.values())])

    @property
    def spread(self) -> float:
        """Root mean square distance from the centre, of the case and of the neighbours."""
        squares = [(value - self.centre) ** 2 for value in self.trials]
        others = [(value - self.centre) ** 2 for value in self.neighbours.values()]
        return math.sqrt(fmean([fmean(squares), fmean(others)]))


def experiments(case: Case, trials: int = TRIALS, *, compared: bool = True, about: str = "") -> list[Experiment]:
    """The experiments of a case; `compared`: also the one without Prague. `about` is what their report begins with."""
    documents = {AS_GIVEN: {"about": about, **case.with_prague(trials)}, NEIGHBOURS: case.neighbours(1)}
    if compared:
        documents[WITHOUT] = case.without_prague(trials)
    return [Experiment.from_toml(to_toml(document), name) for name, document in documents.items()]


def simulate(
    case: Case,
    out: Path | str | None = None,
    trials: int = TRIALS,
    workers: int | None = None,
    console: Console | None = None,
    *,
    compared: bool = True,
) -> tuple[pl.DataFrame, str | None]:
    """The table `flows` of a case's experiments, and where their report is. Raises L4slabError where a run fails."""
    results = campaign.run(
        experiments(case, trials, compared=compared), out, workers=workers, console=console or Console(quiet=True)
    )
    if results.failures:
        run, reason = results.failures[0]
        raise L4slabError(f"{run}: {reason}")
    return results.flows, results.report


def report_again(case: Case, out: Path | str, about: str, workers: int | None = None) -> str | None:
    """Write the report of a case that is simulated already, beginning with the advice; where it is."""
    console = Console(quiet=True)
    return campaign.run(experiments(case, about=about), out, workers=workers, console=console).report


def simulated(flows: pl.DataFrame, fair: float) -> Simulated:
    """The results of the runs: rates and delays of both sides."""
    prague = flows.filter(pl.col("flow") == "prague")
    given = prague.filter(pl.col("experiment") == AS_GIVEN).sort("trial")
    others = prague.filter(pl.col("experiment") == NEIGHBOURS).sort("neighbour")
    names, shares = others["neighbour"].to_list(), others["share"].to_list()
    return Simulated(
        [advantage(share, fair) for share in given["share"]],
        {name: advantage(share, fair) for name, share in zip(names, shares, strict=True)},
    )
