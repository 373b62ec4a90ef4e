"""The worst that a search has found: run again with fresh seeds and on the kernel, reduced, and written as a file.

Each is an experiment file with a claim that states the harm, and its results are an ordinary results folder.
"""

from __future__ import annotations

import json
import warnings
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from l4slab.api import campaign
from l4slab.api.experiment import to_toml
from l4slab.base.errors import InputError
from l4slab.base.values import Keys
from l4slab.campaign.executors import Pool
from l4slab.engines.registry import KERNEL, get_engine
from l4slab.experimentfile import references
from l4slab.own import files as own_files
from l4slab.tools.search.objective import Objective, Value
from l4slab.tools.search.reduce import reduce
from l4slab.tools.search.scenario import FailedError, measured, plan_of
from l4slab.tools.search.space import Space
from l4slab.tools.search.tried import Tried

# Trials of a scenario that is run again, of one that the reduction tries, and on the kernel: the second where the first
# do not decide.
_TRIALS = 5
_REDUCING_TRIALS = 3
# Seeds with which a file's claim has to hold, each with its own trials, before it takes the place of a larger one, and
# before it is handed back. Of some hundred files a few pass three trials by luck, or seven of ten times.
_SEEDS_REDUCING, _SEEDS_LAST = 2, 6
_KERNEL_TRIALS = (3, 9)
# The most points, from the worst on, that are run again to find one that is not chance.
_LOOKED_AT = 10
# Lines of a file that a person understands at a glance.
LINES = 25
# Seeds, away from the file's own: each step has its own, so that none confirms what it was chosen for. Those that
# several begin with are followed by theirs.
_AGAIN, _REDUCING, _REDUCING_AGAIN, _LAST = 1_000_001, 1_000_002, 1_000_003, 1_000_004
_MORE_REDUCING, _MORE_LAST = 1_000_100, 1_000_200


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim on an engine: "holds", "fails", or "none" with the reason."""

    verdict: str
    mean: float | None = None
    spread: float | None = None
    trials: int | None = None
    why: str = ""
    folder: str | None = None
    report: str | None = None


@dataclass(frozen=True)
class Case:
    """A harmful point and its outcome. `again` is the objective with fresh seeds. If this did not confirm the harm, the
    rest is None.

    `file`: the reduced experiment file, of `lines` lines; `verdict`: of the engine of the search; `whole`: the scenario
    before the reduction, with the kernel's verdict.
    """

    point: Tried
    again: Value
    file: Path | None = None
    lines: int | None = None
    judged: int = 0  # by the reduction
    verdict: Verdict | None = None
    kernel: Verdict | None = None
    whole: Path | None = None
    whole_kernel: Verdict | None = None

    @property
    def is_chance(self) -> bool:
        """Whether fresh seeds do not show it."""
        return self.file is None

    @property
    def is_fault(self) -> bool:
        """Whether the kernel does not show what the simulator does."""
        return any(one is not None and one.verdict == "fails" for one in (self.kernel, self.whole_kernel))


class Cases:
    """Confirms and reduces; files go into `folder`. What the reduction tries runs in `pool`, the few runs of the files
    on this machine.
    """

    def __init__(
        self,
        space: Space,
        objective: Objective,
        engine: str,
        folder: Path,
        pool: Pool,
        workers: int | None,
        kernel: bool,
        at_most: int,
        console: Console | None,
    ):
        self.space, self.objective, self.engine, self.folder = space, objective, engine, folder
        self.pool, self.workers, self.kernel, self.at_most, self.console = pool, workers, kernel, at_most, console
        self._source = space.experiment.file

    def found(self, worst: list[Tried], wanted: int) -> list[Case]:
        """The worst points until so many are confirmed, and those before them that are not."""
        cases: list[Case] = []
        for point in worst[: max(_LOOKED_AT, wanted)]:
            if sum(not case.is_chance for case in cases) == wanted:
                break
            cases.append(self._case(point, 1 + sum(not case.is_chance for case in cases)))
        return cases

    def _say(self, text: str) -> None:
        if self.console is not None:
            self.console.print(text, markup=False)

    def _case(self, point: Tried, number: int) -> Case:
        document = self.space.document(point.levels)
        trials = self._trials
        again = self._measured(document, trials, _AGAIN)
        if not self.objective.is_surely_harm(again):
            self._say(f"Point {point.number}: {trials} fresh seeds do not show it; the next.")
            return Case(point, again)
        self._say(f"Point {point.number}: {trials} fresh seeds show it, {self._number(again.mean)}.")
        whole = self._write(f"case-{number}", document, trials, _AGAIN)
        whole_kernel = self._on_kernel(whole, self.folder / f"case-{number}-{KERNEL}")
        judged = 0
        for trials_each, seed in ((_REDUCING_TRIALS, _REDUCING), (trials, _REDUCING_AGAIN)):
            smaller, count = self._reduced(point, document, again, trials_each, seed)
            judged += count
            if not self._holds(smaller, range(_MORE_LAST, _MORE_LAST + _SEEDS_LAST)):
                continue
            file = self._write(f"counterexample-{number}", smaller, trials, _LAST)
            verdict = self._run(file, self.folder / file.stem, self.engine)
            if verdict.verdict == "holds":
                break
        else:
            # The result is the point as the search found it.
            file = self._write(f"counterexample-{number}", document, trials, _LAST)
            verdict = self._run(file, self.folder / file.stem, self.engine)
        lines = len(file.read_text(encoding="utf-8").splitlines())
        self._say(f"Reduced to {lines} lines; {judged} scenarios were tried.")
        kernel = self._on_kernel(file, self.folder / f"{file.stem}-{KERNEL}")
        return Case(point, again, file, lines, judged, verdict, kernel, whole, whole_kernel)

    @property
    def _trials(self) -> int:
        """Of a file that is handed back."""
        return max(_TRIALS, self.space.experiment.trials)

    def _number(self, value: float | None) -> str:
        return "none" if value is None else f"{value:.4g}"

    def _measured(self, document: Keys, trials: int, seed: int) -> Value:
        """The objective in fresh trials, empty where a run fails. Raises InputError."""
        plan = plan_of({**document, "trials": trials, "seed": seed}, self._source, self.engine)
        try:
            return measured(plan, self.pool, self.objective)
        except FailedError:
            return Value(())

    def _holds(self, document: Keys, seeds: range) -> bool:
        """Whether its claim holds with each of the seeds."""
        return all(self.objective.is_surely_harm(self._measured(document, self._trials, seed)) for seed in seeds)

    def _reduced(self, point: Tried, document: Keys, found: Value, trials: int, seed: int) -> tuple[Keys, int]:
        """The smallest scenario of at least half of the harm, and how many were tried.

        Harm that barely crosses the threshold, or that is measured from an earlier time on, may have another cause,
        such as the first second of any run.
        """
        count = 0
        half = ((found.mean or 0.0) + self.objective.harm) / 2

        def still(candidate: Keys) -> bool:
            nonlocal count
            if document.get("warmup") != candidate.get("warmup"):
                raise InputError("is what the file takes for the start of a run", key="warmup")
            if not self.space.contains(candidate, point.levels):
                raise InputError("is not what was searched", key="search")
            value = self._measured(candidate, trials, seed)
            count += 1
            as_much = value.mean is not None and self.objective.cost(value.mean) <= self.objective.cost(half)
            if not (as_much and self.objective.is_surely_harm(value)):
                return False
            more = range(_MORE_REDUCING + seed, _MORE_REDUCING + seed + _SEEDS_REDUCING)
            return self._holds(candidate, more)

        left_out = ("title", "about", "seed", "trials", "agree")
        bare = {key: value for key, value in document.items() if key not in left_out}
        shown = self.console is not None and self.console.is_terminal
        with self.console.status("It is being reduced") if self.console and shown else nullcontext():
            smallest = reduce(bare, still, self.at_most)
        return smallest, count

    def _write(self, stem: str, document: Keys, trials: int, seed: int) -> Path:
        """Write an experiment file that states the harm, and next to it the files that it names."""
        claim: Keys = {"id": "harm", "says": self.objective.text, "sql": self.objective.claim}
        head: Keys = {"title": self.objective.text, "seed": seed, "trials": trials}
        rest = {key: value for key, value in document.items() if key not in ("title", "about", "seed", "trials")}
        whole: Keys = {**head, **rest, "claim": [claim]}
        plan = plan_of(whole, self._source, self.engine)
        beside = references.contents(plan.experiment) | own_files.contents(run.description for run in plan.runs)
        for name, content in beside.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(content)
        text = to_toml(whole)
        if len(text.splitlines()) > LINES:
            text = "".join(f"{line}\n" for line in text.splitlines() if line.strip())
        file = self.folder / f"{stem}.toml"
        file.write_text(text, encoding="utf-8")
        return file

    def _run(self, file: Path, out: Path, engine: str, trials: int | None = None) -> Verdict:
        """The claim of a file in its results, which are kept with their report."""
        given = None if trials is None else {file.stem: trials}
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # failures are told below
            results = campaign.run(file, out, engine, self.workers, trials=given)
        report = results.report
        if results.failures:
            return Verdict("none", why=results.failures[0][1], folder=str(out), report=report)
        (claim,) = results.claims.iter_rows(named=True)
        evidence = json.loads(claim["evidence"])
        verdict = claim["verdict"] if claim["verdict"] in ("holds", "fails") else "none"
        why = str(evidence.get("error", ""))
        numbers = (evidence.get("mean"), evidence.get("spread"), evidence.get("trials"))
        return Verdict(verdict, *numbers, why=why, folder=str(out), report=report)

    def _on_kernel(self, file: Path, out: Path) -> Verdict | None:
        """The same on the kernel; None where it is not to be asked, or was asked from the start."""
        if not self.kernel or get_engine(self.engine).is_reference:
            return None
        try:
            plan_of_file(file)
        except InputError as error:
            return Verdict("none", why=error.message)
        for trials in _KERNEL_TRIALS:
            self._say(f"{file.name} is run on the kernel, {trials} times.")
            found = self._run(file, out, KERNEL, trials)
            # A mean at the threshold is neither harm nor none.
            if found.verdict != "fails" or found.mean is None:
                return found
            if self.objective.is_surely_none(found.mean, found.spread, found.trials or 1):
                return found
        why = f"the mean of {found.trials} trials is not clear of {self.objective.harm:g}"
        return replace(found, verdict="none", why=why)


def plan_of_file(file: Path) -> None:
    """Raises InputError where the kernel cannot run it."""
    campaign.plan([file], KERNEL)
