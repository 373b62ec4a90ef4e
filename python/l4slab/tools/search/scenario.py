"""One scenario: its runs, and what the objective is in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from l4slab import experimentfile, sweep
from l4slab.api.experiment import to_toml
from l4slab.base.errors import InputError, L4slabError
from l4slab.base.values import Keys
from l4slab.campaign import memory
from l4slab.campaign.executors import Failure, Pool
from l4slab.campaign.store import label
from l4slab.engines.contract import Recording
from l4slab.engines.registry import get_engine
from l4slab.sweep import Plan, Run
from l4slab.tools.search.objective import Objective, Value


class FailedError(L4slabError):
    """A run of a scenario has failed; the text is its reason."""


def plan_of(document: Keys, file: Path, engine: str) -> Plan:
    """The runs of a document in place of `file`; the files that it names are next to `file`.

    Raises InputError for a document that is no experiment, LackingError where the engine cannot run it.
    """
    experiment = experimentfile.parse(to_toml(document).encode(), file)
    plan = sweep.expand(experiment, engine)
    runner = get_engine(engine)
    for run in plan.runs:
        try:
            runner.check(run.description)
        except ValueError as error:
            raise InputError(str(error), file=file) from None
    memory.check(plan.todo, file, memory.at_a_time(None, runner))
    return plan


def value_of(plan: Plan, recordings: Sequence[tuple[Run, Recording]], objective: Objective) -> Value:
    """The objective's value in the runs of one scenario. Raises InputError."""
    return objective.value(plan.experiment, label(recordings, [plan]))


def measured(plan: Plan, pool: Pool, objective: Objective) -> Value:
    """As `value_of`, of runs that are computed now. Raises FailedError."""
    recordings = []
    for outcome in pool.map(plan.runs):
        if outcome is None:
            continue
        run, result = outcome
        if isinstance(result, Failure):
            raise FailedError(f"{run}: {result.reason}")
        recordings.append((run, result))
    return value_of(plan, recordings, objective)
