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
from contextlib import nullcontext
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
_STORED_AT_ONCE = 64


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
    def __init__(self, given: Given, scratch: Path, workers: int | None, console: Console):
        self._given, self._scratch, self._workers, self._console = given, scratch, workers, console
        self._store = Store(given.folder)
        self._notes: list[str] = []

    def outcome(self, count: int | None, every: bool) -> Verified:
        findings = [*given_.of_files(self._given), *self._damaged()]
        other = self._given.of_another_build()
        try:
            planned = given_.planned(self._given)
        except InputError:
            if not findings:
                raise
            return Verified(self._given.place, 0, [], findings, other_build=other, is_whole=False)
        stored = self._store.finished() if self._given.is_folder else {*self._given.digests()}
        known = {run: planned.runs[run] for run in sorted(stored & planned.runs.keys())}
        if not known:
            return self._nothing_known(len(stored), findings, other)
        if left := len(stored) - len(known):
            self._notes.append(f"{left} stored runs belong to no experiment file of it; they are in no table.")
        again = self._choose(list(known), count, every)
        recordings = self._compute({run: known[run] for run in again})
        compared = list(self._of_runs(known, recordings))
        is_whole = self._given.is_folder or len(again) == len(known)
        compared += self._rewritten(known, recordings, is_whole)
        is_exact = all(get_engine(known[run].engine).is_exact for run in again)
        return Verified(
            self._given.place, len(known), again, _once([*findings, *compared]), self._notes, other, is_whole, is_exact
        )

    def _damaged(self) -> Iterator[Finding]:
        for name in self._store.damaged() if self._given.is_folder else ():
            yield Finding(f"parts/{name}", (), "what cannot be read", "finished runs")

    def _nothing_known(self, stored: int, findings: list[Finding], other: str | None) -> Verified:
        """The outcome where no stored run is one of the experiment files."""
        if not stored and not findings:
            raise InputError('has no finished runs; give the folder with its "parts"', file=self._given.place)
        if other is not None and not findings:
            raise InputError(f"has only runs that this build describes otherwise: {other}", file=self._given.place)
        text = f"{stored} stored runs, none of which these files describe"
        findings.append(Finding("experiments", (), text, "their runs"))
        return Verified(self._given.place, stored, [], findings, other_build=other, is_whole=False)

    def _choose(self, runs: Sequence[str], count: int | None, every: bool) -> list[str]:
        if every or (count is None and not self._given.is_folder):
            return list(runs)
        # Nobody who writes a report can know which runs these are.
        return sorted(random.SystemRandom().sample(runs, min(RUNS if count is None else count, len(runs))))

    def _compute(self, runs: Mapping[str, Run]) -> dict[str, Recording]:
        """The recordings of runs, by the ids that they have in what was given. Their captures go to `again`."""
        names = {run.id: name for name, run in runs.items()}
        found: dict[str, Recording] = {}
        for engine in dict.fromkeys(run.engine for run in runs.values()):
            get_engine(engine).require()
            mine = [run for run in runs.values() if run.engine == engine]
            folder = self._scratch / "again"
            with (
                executors.local(self._workers, engine) as pool,
                pool.prepare(mine, folder),
                reporting(self._console, len(mine), pool.workers)
                if not self._console.quiet
                else nullcontext() as shown_,
            ):
                for outcome in pool.map(mine, folder):
                    if outcome is None:
                        continue
                    run, result = outcome
                    if isinstance(result, Failure):
                        raise InputError(f"{run} cannot be computed here: {result.reason}", file=self._given.place)
                    found[names[run.id]] = result
                    if shown_ is not None:
                        shown_.update(len(found))
        return found

    def _of_runs(self, known: Mapping[str, Run], recordings: Mapping[str, Recording]) -> Iterator[Finding]:
        """Runs that were computed again against the stored ones."""
        exact = {run: one for run, one in recordings.items() if get_engine(known[run].engine).is_exact}
        if self._given.is_folder:
            for run, part, stored in self._store.recordings(exact):
                yield from _of_recordings(f"parts/{part}", f"run {run} ({known[run]})", stored, exact[run])
        others = recordings.keys() - exact.keys()
        if others and self._given.is_folder:
            found, notes = intervals.compare(self._given.folder, {run: recordings[run] for run in others})
            self._notes += notes
            yield from found

    def _rewritten(
        self, known: Mapping[str, Run], recordings: Mapping[str, Recording], is_whole: bool
    ) -> Iterator[Finding]:
        """Everything that follows from the runs, written anew."""
        again = self._scratch / "again"
        folder = self._scratch / "new" / (self._given.folder.resolve().name or "results")
        rewritten.prepare(self._given, folder)
        computed = {run: one for run, one in recordings.items() if get_engine(known[run].engine).is_exact}
        if not self._given.is_folder:
            computed = dict(recordings)
        elsewhere = known.keys() - computed.keys() if self._given.is_folder else set[str]()
        with Store(folder) as store:
            for number, (run, _, stored) in enumerate(self._store.recordings(elsewhere)):
                store.add(known[run].id, stored)
                if number % _STORED_AT_ONCE == 0:
                    store.flush()
            for run, one in computed.items():
                store.add(known[run].id, one)
            store.flush()
        rewritten.link(self._given, known, again, folder)
        kinds = rewritten.figures(self._given, self._notes)
        campaign.report(folder, console=self._console if not self._console.quiet else None)
        for kind in kinds:
            campaign.report(folder, kind)
        ids = {one.id: run for run, one in known.items() if one.id != run}
        return rewritten.differences(self._given, folder, again, ids, None if is_whole else {*recordings}, self._notes)


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
        for one in islice(of_tables(file, *pair), _STORED_AT_ONCE):
            yield Finding(file, (table, run, *one.place), one.found, one.recomputed)


def _once(findings: Collection[Finding]) -> list[Finding]:
    return list(dict.fromkeys(findings))
