"""From an experiment file to its runs: the full factorial, derived values, exclusions, trials.

The order in which a combination is made: factors over dotted keys, bundles, `[let]`, `[[skip]]`, `{names}`
filled in, then the checks of `l4slab.experimentfile`.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from l4slab import _core
from l4slab.base import metrics
from l4slab.base.code import Kind
from l4slab.base.errors import InputError
from l4slab.base.numbers import counted
from l4slab.base.paths import name_mistake
from l4slab.base.run import Run as Description
from l4slab.engines.registry import get_engine
from l4slab.experimentfile import Experiment, Level, Resolver, bounds
from l4slab.experimentfile.wording import show, told
from l4slab.own import files
from l4slab.sweep.combination import Combination, fill_in, levels_of, set_levels, targets_of, typed
from l4slab.sweep.expressions import UnknownNameError, Where, evaluate, sql_reason

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "MOST",
    "Plan",
    "Run",
    "UnknownNameError",
    "Where",
    "canonical_json",
    "check_code",
    "check_factor_names",
    "combinations_of",
    "describe",
    "expand",
    "levels_of",
    "sql_reason",
    "trial_seed",
]

MOST = bounds.RUNS


@dataclass(frozen=True)
class Run:
    """One simulation: the engine's input (`description`), its id, and its labels from the file."""

    experiment: str
    trial: int
    factors: Mapping[str, Level | None]
    description: Description
    engine: str
    version: str  # of the engine
    captures: bool = False  # wanted; they are not part of the results, hence not of the id

    @cached_property
    def json(self) -> str:
        """The description as canonical JSON, the input of engines."""
        return canonical_json(self.description)

    @cached_property
    def id(self) -> str:
        """16 hex digits that depend on description and engine only: results of different builds never mix."""
        text = f'{{"engine":"{self.engine}","version":"{self.version}","run":{self.json}}}'
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        levels = "".join(f", {name} = {level}" for name, level in self.factors.items() if level is not None)
        return f"{self.experiment}{levels}, trial {self.trial}"


@dataclass(frozen=True)
class Plan:
    """The runs of one experiment in sweep order, and those left out."""

    experiment: Experiment
    runs: list[Run]
    combinations: int
    skipped: dict[str, int] = field(default_factory=dict)
    collapsed: int = 0
    without_effect: list[str] = field(default_factory=list)
    lacking: dict[str, int] = field(default_factory=dict)  # left out because the engine cannot do them
    missing: list[str] = field(default_factory=list)  # what this machine lacks for the runs that are to run now
    chosen: frozenset[str] | None = None  # the ids of a subset that is to run now; None: all
    remarks: list[str] = field(default_factory=list)  # on valid settings that are perhaps not intended
    tried: int | None = None  # combinations that were looked at, chosen at random, where not all were

    @property
    def is_whole(self) -> bool:
        """Whether `runs` are all runs of the experiment."""
        return self.tried is None

    @property
    def factors(self) -> dict[str, list[Level]]:
        """Every factor with its levels, as written."""
        return levels_of(self.experiment)

    @property
    def todo(self) -> list[Run]:
        """The runs that are to run now."""
        return self.runs if self.chosen is None else [run for run in self.runs if run.id in self.chosen]

    def notes(self) -> list[str]:
        """Notes about the sweep for the user, a sentence each."""
        name = self.experiment.name
        if self.tried is not None:
            return [
                *(f"{name}: {remark}." for remark in self.remarks),
                f"{name}: {self.tried} of {self.combinations} combinations were looked at, chosen at random; "
                f"they make {counted(len(self.todo), 'run')}.",
            ]
        notes = [f"{name}: {len(self.todo)} of {len(self.runs)} runs are chosen."] if self.chosen is not None else []
        notes += [
            f"{name}: {count} of {self.combinations} combinations are left out: {why}."
            for why, count in self.skipped.items()
        ]
        notes += [
            f"{name}: {counted(count, 'run is', 'runs are')} left out: {why}." for why, count in self.lacking.items()
        ]
        notes += [f"{name}: {remark}." for remark in self.remarks]
        if self.collapsed:
            what = ", ".join(self.without_effect)
            notes.append(
                f"{name}: {self.collapsed} of {self.combinations} combinations are the same experiment as another one "
                f"and run only once ({what} has no effect there)."
            )
        return notes


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def trial_seed(seed: int, trial: int) -> int:
    """The seed of a trial, the same for every combination of a sweep (common random numbers)."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{trial}".encode()).digest()[:8]) >> 1


def combinations_of(experiment: Experiment) -> int:
    """How many combinations of levels the file describes, before [[skip]]."""
    return math.prod(map(len, levels_of(experiment).values()))


def expand(experiment: Experiment, engine: str, where: Where | None = None, at_most: int | None = None) -> Plan:
    """Every run that the file describes, and which of them `where` chooses.

    If there are more than `at_most` combinations, only this many are expanded, chosen at random.
    Raises InputError for anything wrong in it, UnknownNameError where `where` is about other factors than the file's.
    """
    if experiment.is_study:
        return Plan(experiment, [], 0)
    if experiment.document["search"]:
        raise InputError(
            "describes a space to be searched, not runs; give the file to l4slab search, or remove the table",
            file=experiment.file,
            key="search",
        )
    check_factor_names(experiment)
    levels = levels_of(experiment)
    targets = targets_of(experiment)
    count = combinations_of(experiment)
    if min(count, at_most or count) * experiment.trials > MOST:
        trials = f" of {experiment.trials} trials each" if experiment.trials > 1 else ""
        text = f"{count} combinations{trials} are more than {MOST} runs"
        raise InputError(f"{text}; leave out levels or trials, or make several files of it", file=experiment.file)
    tried = count if at_most is None else min(count, at_most)
    combinations = [set_levels(experiment, _choice(levels, number), targets) for number in _spread(count, tried)]
    skipped: dict[str, int] = {}
    kept = []
    for combination, reason in evaluate(experiment, combinations, where):
        if reason is None:
            kept.append(combination)
        else:
            skipped[reason] = skipped.get(reason, 0) + 1
    if not kept and tried == count:
        raise InputError("every combination is left out by [[skip]]; relax a condition", file=experiment.file)

    resolver = Resolver(experiment.file)
    groups: dict[str, tuple[Description, list[Combination]]] = {}
    for combination in kept:
        fill_in(experiment, combination)
        description = _resolved(resolver, combination, engine)
        groups.setdefault(canonical_json(description), (description, []))[1].append(combination)
    _check_columns(experiment, engine, [description for description, _ in groups.values()])
    runs = []
    version = get_engine(engine).version()
    chosen = set()
    without_effect: dict[str, None] = {}
    for text, (description, members) in groups.items():
        labels = _labels(members, levels)
        without_effect |= {name: None for name in levels if len({typed(m.levels[name]) for m in members}) > 1}
        for trial in range(1, experiment.trials + 1):
            seeded = description | {"seed": trial_seed(description["seed"], trial)}
            captures = experiment.captures == "all trials" or (experiment.captures == "first trial" and trial == 1)
            runs.append(Run(experiment.name, trial, labels, seeded, engine, version, captures))
            # Tens of thousands of times: the trials of a combination differ in the seed only.
            vars(runs[-1])["json"] = _with_seed(text, description["seed"], seeded)
            if where is not None and any(trial in member.chosen for member in members):
                chosen.add(runs[-1].id)
    collapsed = len(kept) - len(groups)
    subset = None if where is None else frozenset(chosen)
    return Plan(
        experiment,
        runs,
        count,
        skipped,
        collapsed,
        list(without_effect),
        chosen=subset,
        remarks=list(resolver.remarks),
        tried=None if tried == count else tried,
    )


def _resolved(resolver: Resolver, combination: Combination, engine: str | None = None) -> Description:
    """The description of a combination's run, with the declarations of its own code. Raises InputError, too, for names
    that neither the core nor the engine knows.
    """
    description = resolver.resolve(combination.document, combination.top, combination.origin)
    if engine is not None:
        named = resolver.unknown.items()
        wrong = [error for (kind, name), error in named if not _knows(engine, kind, name, resolver.file)]
        if wrong:
            raise InputError(wrong[0].message, file=resolver.file, at=wrong[0].at, others=wrong[1:])
    with told(resolver.file, combination.origin):
        return files.completed(description, resolver.outside.uses)


def _knows(engine: str, kind: Kind, name: str, file: Path) -> bool:
    try:
        return get_engine(engine).knows(kind, name)
    except ValueError as error:
        raise InputError(str(error), file=file) from None


def check_code(plans: Sequence[Plan]) -> None:
    """Raises InputError where two experiments have different files of one name: results keep one of each."""
    seen: dict[str, tuple[Experiment, bytes]] = {}
    for plan in plans:
        for name, content in files.contents(run.description for run in plan.runs).items():
            other, known = seen.setdefault(name, (plan.experiment, content))
            if known != content:
                text = f"names {name}, which is not the file of that name beside {other.file}; rename one of them"
                raise InputError(text, file=plan.experiment.file)


def describe(experiment: Experiment, levels: Mapping[str, object]) -> Description:
    """The description of the experiment's run at these levels, as a row of its results has them.

    A level that is not told is any of its factor. Raises InputError as `expand` does.
    """
    chosen = {name: _level(written, levels.get(name)) for name, written in levels_of(experiment).items()}
    combination = set_levels(experiment, chosen, targets_of(experiment))
    list(evaluate(experiment, [combination], None))  # fills in its [let] values
    fill_in(experiment, combination)
    return _resolved(Resolver(experiment.file), combination)


def _level(written: list[Level], told: object) -> Level:
    """The level that a table tells, where levels of several types are text."""
    same = (level for level in written if told is not None and (level == told or str(level) == str(told)))
    return next(same, written[0])


def _spread(count: int, wanted: int) -> list[int]:
    """So many different ones of the numbers below `count`, in order."""
    if wanted == count:
        return list(range(count))
    # At random, for even steps would meet the same levels of the last factors again and again.
    return sorted(random.Random(0).sample(range(count), wanted))  # noqa: S311


def _choice(levels: Mapping[str, list[Level]], number: int) -> dict[str, Level]:
    """A combination by its number; the last factor changes first."""
    chosen: dict[str, Level] = {}
    for name in reversed(list(levels)):
        number, position = divmod(number, len(levels[name]))
        chosen[name] = levels[name][position]
    return {name: chosen[name] for name in levels}


def _with_seed(text: str, seed: int, seeded: Description) -> str:
    """`canonical_json(seeded)`, made from `text`, the JSON of the same description with another seed."""
    before, *after = text.split(f'"seed":{seed},')
    return f'{before}"seed":{seeded["seed"]},{after[0]}' if len(after) == 1 else canonical_json(seeded)


def _labels(members: list[Combination], levels: dict[str, list[Level]]) -> dict[str, Level | None]:
    """The levels by which a run is known: NULL where every level of a factor gives this same run."""
    labels: dict[str, Level | None] = {}
    for name, all_levels in levels.items():
        found = {typed(member.levels[name]) for member in members}
        labels[name] = None if 1 < len(found) == len(all_levels) else members[0].levels[name]
    return labels


def check_factor_names(experiment: Experiment) -> None:
    """Raises InputError where a factor has the name of a column of the results."""
    taken = {name.lower() for name in metrics.all_columns()}
    for name in levels_of(experiment):
        if wrong := name_mistake(name):
            raise InputError(f"has the factor {show(name)}, a name {wrong}", file=experiment.file, key="sweep")
        if name.lower() in taken:
            raise InputError(
                "is the name of a result column or of another factor; choose another name",
                file=experiment.file,
                key=f"sweep.{name}",
            )
        taken.add(name.lower())


def _check_columns(experiment: Experiment, engine: str, descriptions: Sequence[Description]) -> None:
    """Raises InputError if a factor would hide a column of these runs: a gauge of a queue or a controller, or an extra
    column of this engine.
    """
    names = list(levels_of(experiment))
    if not names or not descriptions:
        return
    # Computing the columns of each run is expensive, and few factors have the name of a gauge.
    possible = _gauges() | _lower(columns_of(experiment, engine, descriptions[0]).values())
    for description in descriptions:
        if files.used(description) or any(name.lower() in possible for name in names):
            found = _lower(columns_of(experiment, engine, description).values())
            for name in names:
                if name.lower() in found:
                    raise InputError(
                        "is the name of a column that the results of these runs have, a gauge of a queue or a "
                        "controller or what this engine tells besides; choose another name",
                        file=experiment.file,
                        key=f"sweep.{name}",
                    )


def columns_of(experiment: Experiment, engine: str, description: Description) -> dict[str, pl.Schema]:
    """The columns of a run's results, by table. Raises InputError for runs that only the engine refuses."""
    try:
        return get_engine(engine).columns(description)
    except ValueError as error:
        raise InputError(f"cannot be run: {error}", file=experiment.file) from None


@cache
def _gauges() -> set[str]:
    return {
        gauge["name"].lower()
        for kind in (_core.qdiscs(), _core.controllers())
        for one in kind
        for gauge in one["gauges"]
    }


def _lower(tables: Iterable[Iterable[str]]) -> set[str]:
    return {name.lower() for table in tables for name in table}
