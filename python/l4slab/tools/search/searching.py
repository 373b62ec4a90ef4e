"""The loop of a search: points are proposed, run, judged and kept, and the same command goes on where it was."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from rich.console import Console

from l4slab.api import campaign
from l4slab.base.errors import InputError
from l4slab.base.numbers import counted
from l4slab.base.progress import Reporter, Silent, reporting
from l4slab.base.values import Keys
from l4slab.campaign.executors import Failure, Pool
from l4slab.campaign.store import Store
from l4slab.engines.contract import Recording
from l4slab.engines.registry import get_engine
from l4slab.experimentfile import Level
from l4slab.results import claims, published
from l4slab.sweep import Plan, Run
from l4slab.tools.search import optimisers, tried
from l4slab.tools.search.objective import Objective, Value
from l4slab.tools.search.scenario import plan_of, value_of
from l4slab.tools.search.space import Space
from l4slab.tools.search.tried import Tried

# Points that are proposed before the oldest of them is judged: enough for four workers, and the same for one, so that
# what is proposed does not depend on how many there are.
_AHEAD = 8
_FLUSH_S = 2.0


@dataclass
class _Open:
    """A point whose runs are under way."""

    number: int
    levels: dict[str, Level]
    plan: Plan | None
    left: set[str]
    recordings: dict[str, Recording] = field(default_factory=dict)
    value: Value | None = None
    why: str = ""
    first: int | None = None

    @property
    def is_over(self) -> bool:
        return not self.left


class Searching:
    """A search in a results folder. `points` are those that were tried, in order."""

    def __init__(self, space: Space, objective: Objective, engine: str, optimiser: str, seed: int, store: Store):
        self.space, self.objective, self.engine, self.store = space, objective, engine, store
        self._optimiser = optimisers.optimiser(optimiser, space, seed)
        settings: Keys = {
            "file": hashlib.sha256(space.experiment.source).hexdigest()[:16],
            "engine": engine,
            "optimiser": optimiser,
            "seed": seed,
        }
        tried.claim_folder(store, settings)
        self._known = tried.known(store.folder)
        self._finished = store.finished()
        self._version = get_engine(engine).version()
        self.points: list[Tried] = []
        self.runs: list[Run] = []
        self.failures: list[tuple[Run, str]] = []
        self._open: list[_Open] = []
        self._first: dict[tuple[str, ...], int] = {}
        self._last_flush = time.monotonic()
        self._seen_at_start = len(self._known)

    def go(self, budget: int, pool: Pool, console: Console | None) -> None:
        """Try so many points. Raises InputError, Interrupted."""
        trials = self.space.experiment.trials
        ahead = max(_AHEAD, -(-2 * pool.workers // trials))
        shown: AbstractContextManager[Reporter] = nullcontext(Silent())
        if console is not None:
            shown = reporting(console, budget * trials, pool.workers)
        todo = self._proposed(budget, ahead)
        first = next(todo, None)
        try:
            with pool.prepare([first] if first else [], self.store.folder.absolute()), shown as reporter:
                for outcome in pool.map(_again(first, todo)):
                    if outcome is not None:
                        self._ended(*outcome)
                    reporter.update(len(self.points) * trials)
                    self._flush()
        except KeyboardInterrupt:
            self._flush(now=True)
            left = budget - len(self.points)
            raise campaign.Interrupted(
                f"interrupted with {counted(left, 'point')} to go; those that were tried are kept, and the same "
                "command goes on"
            ) from None
        finally:
            self._flush(now=True)

    def _proposed(self, budget: int, ahead: int) -> Iterator[Run | None]:
        """The runs of one point after the other; None where the next point follows from runs that have not ended."""
        number = told = 0
        while number < budget:
            # It has been told as much when it proposes this point, however many workers there are.
            levels = self._optimiser.ask() if told >= number + 1 - ahead else None
            if levels is None:
                if told == len(self.points):
                    if not self._open:
                        raise RuntimeError("the optimiser proposes nothing")
                    yield None
                    continue
                mean = self.points[told].value.mean
                self._optimiser.tell(None if mean is None else self.objective.cost(mean))
                told += 1
                continue
            number += 1
            opened = self._opened(number, levels)
            self._open.append(opened)
            if opened.is_over:
                self._judge()
            elif opened.plan is not None:
                yield from opened.plan.runs

    def _opened(self, number: int, levels: dict[str, Level]) -> _Open:
        document = self.space.document(levels)
        try:
            plan = plan_of(document, self.space.experiment.file, self.engine)
        except InputError as error:
            return _Open(number, levels, None, set(), why=str(error))
        ids = tuple(run.id for run in plan.runs)
        if (first := self._first.setdefault(ids, number)) != number:
            return _Open(number, levels, plan, set(), first=first)
        plan = replace(plan, runs=[replace(run, factors=levels) for run in plan.runs])
        self.runs += plan.runs
        if ids in self._known and self._finished >= {*ids}:
            return _Open(number, levels, plan, set(), value=self._known[ids])
        return _Open(number, levels, plan, {*ids})

    def _ended(self, run: Run, result: Recording | Failure) -> None:
        opened = next(one for one in self._open if run.id in one.left)
        opened.left.remove(run.id)
        if isinstance(result, Failure):
            opened.why = result.reason
            self.failures.append((run, result.reason))
        else:
            opened.recordings[run.id] = result
            self.store.add(run.id, result)
        self._judge()

    def _judge(self) -> None:
        """Judge the oldest points that are finished."""
        while self._open and self._open[0].is_over:
            one = self._open.pop(0)
            value, why = one.value, one.why
            if one.first is not None:
                value, why = self.points[one.first - 1].value, self.points[one.first - 1].why
            elif value is None and one.plan is not None and not why:
                plan = one.plan
                value = value_of(plan, [(run, one.recordings[run.id]) for run in plan.runs], self.objective)
            value = value or Value(())
            why = why or ("" if value.mean is not None else "the objective has no value")
            harm = value.mean is not None and self.objective.is_harm(value.mean)
            ids = tuple(run.id for run in one.plan.runs) if one.plan else ()
            self.points.append(Tried(one.number, one.levels, value, harm, ids, why, one.first))

    def _flush(self, now: bool = False) -> None:
        if not now and time.monotonic() - self._last_flush < _FLUSH_S:
            return
        self.store.flush()
        # An earlier part of the search has more, until it is caught up with.
        if len(self.points) >= self._seen_at_start:
            self.store.write(tried.TRIED, tried.table(self.points, self.space.names))
        self._last_flush = time.monotonic()

    def finish(self) -> None:
        """The tables of all runs, with the levels of the first point that has them."""
        unique: dict[str, Run] = {run.id: run for run in reversed(self.runs)}
        finished = self.store.finished()
        runs = [run for run in reversed(unique.values()) if run.id in finished]
        experiment = self.space.experiment
        levels = {name: _distinct(run.factors[name] for run in runs) for name in self.space.names}
        swept = experiment.swept(levels, {})
        self.store.keep_experiment(experiment, runs)
        self.store.consolidate([Plan(swept, runs, len(self.points))])
        self.store.write("claims", claims.evaluate([], {}))
        self.store.write("published", published.evaluate([], {}))

    def worst(self) -> list[Tried]:
        """The points that are harm, the worst first, each scenario once."""
        found = [one for one in self.points if one.harm and one.first is None]
        return sorted(found, key=lambda one: (self.objective.cost(one.value.mean or 0.0), one.number))

    def extreme(self) -> Tried | None:
        """The point nearest to harm, or deepest in it."""
        valued = [one for one in self.points if one.value.mean is not None]
        return min(valued, key=lambda one: (self.objective.cost(one.value.mean or 0.0), one.number), default=None)


def _again(first: Run | None, rest: Iterator[Run | None]) -> Iterator[Run]:
    if first is not None:
        yield first
    yield from rest  # type: ignore[misc]


def _distinct(levels: Iterator[Level | None]) -> list[Level]:
    return list({(type(level).__name__, level): level for level in levels if level is not None}.values())
