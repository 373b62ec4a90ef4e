"""Whether a report is what its experiment files give: runs computed again, and everything written anew and compared.

The runs that are computed again are chosen at random. They are compared with the stored ones bit by bit where the
engine gives the same bits each time, else by intervals (`intervals`). From these and the other stored runs all tables,
verdicts and the report are written anew, into a temporary folder, and held against the given ones.

A report alone has no stored runs. If not all are computed again, those that are have to give the digests that the
report holds, and its data of these runs; then nothing is known about its texts, which are about all runs.
"""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from rich.console import Console

from l4slab.api import campaign
from l4slab.base import metrics
from l4slab.base.errors import InputError
from l4slab.base.progress import reporting
from l4slab.campaign import digests, executors
from l4slab.campaign.executors import Failure
from l4slab.campaign.store import Store
from l4slab.engines.contract import Recording
from l4slab.engines.registry import get_engine
from l4slab.sweep import Run
from l4slab.tools.verify import given as given_
from l4slab.tools.verify import intervals, rewritten
from l4slab.tools.verify.findings import Finding, of_tables
from l4slab.tools.verify.given import Given

# Runs that are computed again by default, where there are stored runs.
RUNS = 5
# With this probability the number of altered runs that is told would have been found.
SURE = 0.95
# In memory.
_AT_ONCE = 64


@dataclass(frozen=True)
class Verified:
    """The outcome. `runs` is the number of runs, `again` the ids of those that were computed again."""

    place: str
    runs: int
    again: list[str]
    findings: list[Finding]
    notes: list[str] = field(default_factory=list)
    other_build: str | None = None  # a sentence, where another build wrote it
    is_whole: bool = True  # every number of text and figures was held against the tables
    is_exact: bool = True  # runs were compared bit by bit

    @property
    def status(self) -> int:
        """The exit status: 0 verified, 1 altered, 2 not decided, as another build wrote it and something differs."""
        if not self.findings:
            return 0
        return 1 if self.other_build is None else 2


def found_by_chance(runs: int, again: int, altered: int) -> float:
    """Probability that at least one of so many altered runs is among those computed again."""
    return 1 - math.comb(runs - altered, again) / math.comb(runs, again)


def surely_found(runs: int, again: int) -> int | None:
    """The least number of altered runs of which one is among them with probability `SURE`; None of no run."""
    return next((k for k in range(1, runs + 1) if found_by_chance(runs, again, k) >= SURE), None)


def verify(
    place: str,
    count: int | None = None,
    every: bool = False,
    workers: int | None = None,
    console: Console | None = None,
) -> Verified:
    """Verify a results folder or a report. `count` runs are computed again, or `every` one; by default `RUNS` of a
    folder, and all of a report alone. Progress goes to `console`.

    Raises InputError where it is none, or where this machine cannot compute its runs.
    """
    with tempfile.TemporaryDirectory(prefix="l4slab-") as name:
        scratch = Path(name)
        given = given_.read(place, scratch / "given")
        return _Verification(given, scratch, workers, console or Console(quiet=True)).outcome(count, every)


class _Verification:
    """`stored` are the runs whose tables the folder keeps; where there are none, digests say which runs there were."""

    def __init__(self, given: Given, scratch: Path, workers: int | None, console: Console):
        self._given, self._workers, self._console = given, workers, console
        self._again, self._new = scratch / "again", scratch / "new" / (given.folder.resolve().name or "results")
        self._store = Store(given.folder)
        self._stored = self._store.finished() if given.is_folder else set[str]()
        self._findings: list[Finding] = []
        self._notes: list[str] = []

    def outcome(self, count: int | None, every: bool) -> Verified:
        self._findings += given_.of_files(self._given)
        for name in self._store.damaged() if self._given.is_folder else ():
            self._findings.append(Finding(f"parts/{name}", (), "what cannot be read", "finished runs"))
        try:
            planned = given_.planned(self._given)
        except InputError:
            if not self._findings:
                raise
            return self._verified([], [], is_whole=False)
        there = self._stored or {*self._given.digests()}
        known = {run: planned[run] for run in sorted(there & planned.keys())}
        if not known:
            self._nothing_known(len(there))
            return self._verified([], [], is_whole=False)
        if more := len(there) - len(known):
            self._notes.append(f"{more} stored runs belong to no experiment file of it; they are in no table.")
        again = self._choose(list(known), count, every)
        is_exact = all(get_engine(known[run].engine).is_exact for run in again)
        is_whole = bool(self._stored) or (is_exact and len(again) == len(known))
        rewritten.prepare(self._given, self._new)
        with Store(self._new) as new:
            by_intervals = self._compute({run: known[run] for run in again}, new)
            found, notes = intervals.compare(self._given.tables, by_intervals) if by_intervals else ([], [])
            self._findings += found
            self._notes += notes
            computed = {run for run in again if run not in by_intervals}
            for number, (run, _, recording) in enumerate(
                self._store.recordings(known.keys() - computed & self._stored)
            ):
                new.add(known[run].id, recording)
                if number % _AT_ONCE == 0:
                    new.flush()
            new.flush()
        if self._stored or computed:
            self._findings += self._rewritten(known, None if is_whole else computed)
        return self._verified(list(known), again, is_whole=is_whole, is_exact=is_exact)

    def _verified(self, runs: Sequence[str], again: list[str], *, is_whole: bool, is_exact: bool = True) -> Verified:
        findings, other = list(dict.fromkeys(self._findings)), self._given.of_another_build()
        return Verified(self._given.place, len(runs), again, findings, self._notes, other, is_whole, is_exact)

    def _nothing_known(self, stored: int) -> None:
        """No run that there was is one of the experiment files. Raises InputError where that may be no fault."""
        if self._findings:
            return
        if not stored:
            raise InputError(
                "has neither finished runs nor their digests; give the whole folder", file=self._given.place
            )
        if (other := self._given.of_another_build()) is not None:
            raise InputError(f"has only runs that this build describes otherwise: {other}", file=self._given.place)
        text = f"{stored} stored runs, none of which these files describe"
        self._findings.append(Finding("experiments", (), text, "their runs"))

    def _choose(self, runs: Sequence[str], count: int | None, every: bool) -> list[str]:
        if every or (count is None and not self._stored):
            return list(runs)
        # Nobody who writes a report can know which runs these are.
        return sorted(random.SystemRandom().sample(runs, min(RUNS if count is None else count, len(runs))))

    def _compute(self, runs: Mapping[str, Run], new: Store) -> dict[str, Recording]:
        """Compute runs, which have these ids in what was given. Those of exact engines are compared with the stored
        ones and go into `new`; the others are the result.
        """
        others: dict[str, Recording] = {}
        names = {run.id: name for name, run in runs.items()}
        quiet = self._console.quiet
        for engine in dict.fromkeys(run.engine for run in runs.values()):
            get_engine(engine).require()
            mine = [run for run in runs.values() if run.engine == engine]
            batch = others if not get_engine(engine).is_exact else {}
            pool_ = executors.local(self._workers, engine)
            with pool_ as pool, reporting(self._console, 0 if quiet else len(mine), pool.workers) as reporter:
                for number, outcome in enumerate(filter(None, pool.map(mine, self._again)), 1):
                    run, result = outcome
                    if isinstance(result, Failure):
                        raise InputError(f"{run} cannot be computed here: {result.reason}", file=self._given.place)
                    batch[names[run.id]] = result
                    reporter.update(number)
                    if batch is not others and len(batch) == _AT_ONCE:
                        self._keep(batch, runs, new)
                if batch is not others:
                    self._keep(batch, runs, new)
        return others

    def _keep(self, batch: dict[str, Recording], runs: Mapping[str, Run], new: Store) -> None:
        for run, part, stored in self._store.recordings(batch.keys() & self._stored):
            self._findings += _of_recordings(f"parts/{part}", f"run {run} ({runs[run]})", stored, batch[run])
        for run, recording in batch.items():
            new.add(runs[run].id, recording)
        new.flush()
        batch.clear()

    def _rewritten(self, known: Mapping[str, Run], runs: Collection[str] | None) -> Iterator[Finding]:
        """What differs from everything that follows from the runs, or only from these."""
        rewritten.link(self._given, known, self._again, self._new)
        kinds = rewritten.figures(self._given, self._notes) if runs is None else []
        campaign.report(self._new, console=None if self._console.quiet else self._console)
        for kind in kinds:
            campaign.report(self._new, kind)
        ids = {one.id: run for run, one in known.items() if one.id != run}
        return rewritten.differences(self._given, self._new, self._again, ids, runs, self._notes)


def _of_recordings(file: str, run: str, stored: Recording, again: Recording) -> Iterator[Finding]:
    for table in metrics.TABLES:
        found, computed = getattr(stored, table), getattr(again, table)
        if digests.of_rows(found) == digests.of_rows(computed):
            continue
        # A column without a value may be missing.
        empty = [
            name
            for name in {*found.columns, *computed.columns}
            if all(name not in one.columns or one[name].null_count() == len(one) for one in (found, computed))
        ]
        pair = [one.drop(empty, strict=False) for one in (found, computed)]
        for one in islice(of_tables(file, *pair), _AT_ONCE):
            yield Finding(file, (table, run, *one.place), one.found, one.recomputed)
