"""Search: scenarios from the table `[search]` of an experiment file, the worst of them, and small files of them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import polars as pl
from rich.console import Console

from l4slab.api.experiment import Described, load
from l4slab.base.errors import InputError
from l4slab.base.values import Keys
from l4slab.campaign import executors, remote
from l4slab.campaign.store import Store
from l4slab.engines.registry import DEFAULT, KERNEL, get_engine
from l4slab.sweep import Plan
from l4slab.tools.search import cases as judging
from l4slab.tools.search.cases import Case
from l4slab.tools.search.objective import Objective
from l4slab.tools.search.optimisers import DEFAULT as DEFAULT_OPTIMISER
from l4slab.tools.search.reduce import AT_MOST
from l4slab.tools.search.scenario import plan_of
from l4slab.tools.search.searching import Searching
from l4slab.tools.search.space import Choice, SkippedError, Space
from l4slab.tools.search.tried import TRIED, Tried

__all__ = ["Case", "Found", "Objective", "Space", "Tried", "prepare", "sampled", "search"]

SUMMARY = "summary.json"


@dataclass(frozen=True)
class Found:
    """The result of a search; all files are in `folder`."""

    folder: Path
    objective: Objective
    points: Sequence[Tried]
    extreme: Tried | None
    cases: Sequence[Case]
    failures: Sequence[tuple[str, str]]
    engine: str
    kernel: bool

    @property
    def harmful(self) -> int:
        """Points beyond the threshold."""
        return sum(one.harm for one in self.points)

    @property
    def confirmed(self) -> list[Case]:
        """Those that fresh seeds show."""
        return [case for case in self.cases if not case.is_chance]

    @cached_property
    def tried(self) -> pl.DataFrame:
        """A row per point in the order in which they were tried."""
        return pl.read_parquet(self.folder / f"{TRIED}.parquet")

    def summary(self) -> Keys:
        """The content of `summary.json`."""
        return {
            "engine": self.engine,
            "harm": self.objective.text,
            "points": len(self.points),
            "scenarios": sum(one.first is None for one in self.points),
            "without_value": sum(one.value.mean is None for one in self.points),
            "harmful": self.harmful,
            "extreme": None if self.extreme is None else _point(self.extreme),
            "counterexamples": [_case(case) for case in self.confirmed],
            "chance": [_point(case.point) for case in self.cases if case.is_chance],
            "faults_of_the_simulator": [case.file.name for case in self.confirmed if case.file and case.is_fault],
            "failed_runs": [{"run": run, "why": why} for run, why in self.failures],
        }


def _point(point: Tried) -> Keys:
    return {
        "number": point.number,
        "levels": dict(point.levels),
        "mean": point.value.mean,
        "spread": point.value.spread,
    }


def _case(case: Case) -> Keys:
    return {
        **_point(case.point),
        "again": {"mean": case.again.mean, "spread": case.again.spread},
        "file": case.file.name if case.file else None,
        "lines": case.lines,
        "tried_by_reduction": case.judged,
        "verdict": asdict(case.verdict) if case.verdict else None,
        "kernel": asdict(case.kernel) if case.kernel else None,
        "whole": case.whole.name if case.whole else None,
        "kernel_of_whole": asdict(case.whole_kernel) if case.whole_kernel else None,
    }


def prepare(file: Described) -> tuple[Space, Objective]:
    """Read a file with `[search]` and check all that can be checked before a run. Raises InputError."""
    experiment = load(file, {})
    if not experiment.document["search"]:
        text = "has no [search], so there is nothing to search in; add it, or give the file to l4slab run"
        raise InputError(text, file=experiment.file)
    space = Space.of(experiment)
    objective = Objective.of(experiment)
    for number, plan in enumerate(_one_of_each(space)):
        if number == 0:
            objective.check(plan)
    return space, objective


def _one_of_each(space: Space) -> list[Plan]:
    """Points that have each level of each choice and both ends of each range, as far as no `[[skip]]` is in the way.

    Raises InputError.
    """
    point = space.draw(random.Random(0))  # noqa: S311
    points = [point]
    for parameter in space.parameters:
        levels = parameter.levels if isinstance(parameter, Choice) else (parameter.at(0.0), parameter.at(1.0))
        points += [point | {parameter.name: level} for level in levels]
    plans = []
    for one in points:
        try:
            plans.append(plan_of(space.document(one), space.experiment.file, DEFAULT))
        except SkippedError:
            continue
    return plans


def sampled(space: Space, engine: str, count: int) -> list[Plan]:
    """The plans of points drawn at random, to estimate what a search takes, without those that cannot run."""
    rng = random.Random(0)  # noqa: S311
    plans = []
    for _ in range(count):
        try:
            plans.append(plan_of(space.document(space.draw(rng)), space.experiment.file, engine))
        except InputError:
            continue
    return plans


def search(
    file: Described,
    out: Path | str,
    budget: int = 200,
    engine: str = DEFAULT,
    workers: int | None = None,
    dask: str | None = None,
    optimiser: str = DEFAULT_OPTIMISER,
    seed: int = 1,
    cases: int = 1,
    kernel: bool | None = None,
    at_most: int = AT_MOST,
    console: Console | None = None,
) -> Found:
    """Try `budget` points of the space of a file, and hand back the worst `cases` as small experiment files.

    Results are kept in the folder `out`; the same call resumes an interrupted search. `optimiser` is "random", "tpe" or
    "cmaes"; with `kernel`, the engine `linux` judges what is found, by default if this machine has it. `at_most`
    scenarios are tried by the reduction of a case.

    Raises InputError, StoreError, and Interrupted on Ctrl-C.
    """
    if budget < 1:
        raise InputError(f"--budget {budget} is not possible; give 1 or more")
    if remote.is_url(out):
        raise InputError("is a URL; a search needs a folder of this machine", file=out)
    space, objective = prepare(file)
    get_engine(engine).require()
    judge = get_engine(KERNEL)
    asked = judge.lacking() is None if kernel is None else kernel
    if kernel:
        judge.require()
    pool = executors.dask(dask) if dask else executors.local(workers, engine)
    with Store(out) as store, pool as workers_of:
        searching = Searching(space, objective, engine, optimiser, seed, store)
        searching.go(budget, workers_of, console)
        searching.finish()
        at = judging.Cases(space, objective, engine, store.folder, workers_of, workers, asked, at_most, console)
        found = Found(
            store.folder,
            objective,
            searching.points,
            searching.extreme(),
            at.found(searching.worst(), cases),
            [(str(run), why) for run, why in searching.failures],
            engine,
            asked,
        )
        _write(store.folder / SUMMARY, found.summary())
    return found


def _write(file: Path, summary: Keys) -> None:
    file.write_text(json.dumps(summary, indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
