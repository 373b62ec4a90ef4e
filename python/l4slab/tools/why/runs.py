"""Runs of documents, several at a time, each document once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from l4slab.base.errors import InputError, L4slabError
from l4slab.base.progress import Told
from l4slab.base.values import Keys
from l4slab.campaign.executors import Failure, local
from l4slab.engines.registry import DEFAULT
from l4slab.sweep import Plan, Run, canonical_json
from l4slab.tools.search.scenario import plan_of
from l4slab.tools.why.quantities import Trial

_ABOUT_RUNS = ("claim", "published", "figure", "table", "cause", "agree", "search", "about", "captures")


@dataclass
class Lab:
    """Runs documents that stand in place of `file`. `told` hears what is done."""

    file: Path
    workers: int | None
    told: Told
    count: int = 0  # of the runs so far
    _known: dict[str, Sequence[Trial] | None] = field(default_factory=dict)
    _by_run: dict[str, Trial] = field(default_factory=dict)

    def trials(self, document: Keys, trials: int, engine: str = DEFAULT) -> Sequence[Trial]:
        """The trials of one document. Raises InputError where it cannot run, and L4slabError where a run fails."""
        plan = plan_of(_of_trials(document, trials), self.file, engine)
        failures = self._run(plan.runs, engine)
        if failures:
            raise L4slabError(failures[0])
        return [self._by_run[run.id] for run in plan.runs]

    def all(self, documents: Sequence[Keys], trials: int) -> list[Sequence[Trial] | None]:
        """The same of each on the simulator; None of those that no run can be made of."""
        written = [_of_trials(document, trials) for document in documents]
        names = [canonical_json(document) for document in written]
        plans: dict[str, Plan] = {}
        for name, document in zip(names, written, strict=True):
            if name not in self._known and name not in plans:
                self._known[name] = None
                with suppress(InputError):
                    plans[name] = plan_of(document, self.file, DEFAULT)
        self._run([run for plan in plans.values() for run in plan.runs], DEFAULT)
        for name, plan in plans.items():
            found = [self._by_run[run.id] for run in plan.runs if run.id in self._by_run]
            self._known[name] = found if len(found) == len(plan.runs) else None
        return [self._known[name] for name in names]

    def _run(self, runs: Sequence[Run], engine: str) -> list[str]:
        todo: Mapping[str, Run] = {run.id: run for run in runs if run.id not in self._by_run}
        failures: list[str] = []
        if not todo:
            return failures
        with local(self.workers, engine) as pool, pool.prepare(list(todo.values()), None):
            for outcome in pool.map(list(todo.values()), None):
                if outcome is None:
                    continue
                run, result = outcome
                if isinstance(result, Failure):
                    failures.append(f"{run}: {result.reason}")
                else:
                    self._by_run[run.id] = Trial(result.flows, result.links, result.series)
                    self.count += 1
        return failures


def set_up(document: Keys) -> Keys:
    """The document without what says something about its runs."""
    return {key: value for key, value in document.items() if key not in _ABOUT_RUNS}


def _of_trials(document: Keys, trials: int) -> Keys:
    return {**set_up(document), "trials": trials}
