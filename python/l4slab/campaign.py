"""From experiment files to results: what `l4slab run`, `reproduce` and `report`, and `l4slab.run`, do."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from rich.console import Console

from l4slab import claims, executors, figures, published, spec, sweep
from l4slab.engines import ENGINES, Engine, LackingError, Recording, get_engine
from l4slab.errors import InputError, L4slabError
from l4slab.executors import Failure, Pool
from l4slab.progress import Reporter, Silent, reporting
from l4slab.spec import Experiment
from l4slab.store import Store, label
from l4slab.sweep import Plan, Run

LEFT_OUT = "finished runs that no experiment file describes any more are left out"
# A finished run is on the disk at most this long after it ended.
_FLUSH_S = 1.0


class Interrupted(L4slabError):
    """Ctrl-C."""

    status = 130


@dataclass(frozen=True)
class Results:
    """The tables of a campaign as polars DataFrames (columns: `l4slab.metrics`), and the runs that failed."""

    folder: Path | None
    tables: dict[str, pl.DataFrame]
    failures: list[tuple[Run, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def _table(self, name: str) -> pl.DataFrame:
        if self.folder is None:
            return self.tables[name]
        return pl.read_parquet(self.folder / f"{name}.parquet")

    @cached_property
    def flows(self) -> pl.DataFrame:
        """A row per run and flow group."""
        return self._table("flows")

    @cached_property
    def links(self) -> pl.DataFrame:
        """A row per run and link queue."""
        return self._table("links")

    @cached_property
    def series(self) -> pl.DataFrame:
        """A row per run, sample time and flow or link queue."""
        return self._table("series")

    @cached_property
    def transfers(self) -> pl.DataFrame:
        """A row per run and completed transfer."""
        return self._table("transfers")

    @cached_property
    def claims(self) -> pl.DataFrame:
        """A row per claim with its verdict."""
        return self._table("claims")

    @cached_property
    def published(self) -> pl.DataFrame:
        """A row per published figure with what is measured here."""
        return self._table("published")


def plan(files: Iterable[Path | str], engine: str = "sim", trials: Mapping[str, int] | None = None) -> list[Plan]:
    """Read and expand experiment files, and check everything that can be checked before a run.

    `trials` has other numbers of trials than the files, by the file's name without .toml. Raises InputError.
    """
    plans = _expand(files, get_engine(engine), trials)
    claims.check(plans)
    published.check(plans)
    figures.check(plans)
    return plans


def _expand(files: Iterable[Path | str], engine: Engine, trials: Mapping[str, int] | None = None) -> list[Plan]:
    experiments: dict[str, Experiment] = {}
    for file in files:
        experiment = spec.load(file, (trials or {}).get(Path(file).stem))
        if (other := experiments.get(experiment.name)) is not None:
            raise InputError(
                f"has the name of another file of this campaign ({other.file}); rename one of them",
                file=experiment.file,
            )
        experiments[experiment.name] = experiment
    plans = []
    for experiment in experiments.values():
        expanded = sweep.expand(experiment, engine.name)
        possible = []
        for run in expanded.runs:
            try:
                engine.check(run.description)
            except LackingError as error:
                expanded.lacking[str(error)] = expanded.lacking.get(str(error), 0) + 1
            except ValueError as error:
                raise InputError(str(error), file=experiment.file) from None
            else:
                possible.append(run)
        if expanded.runs and not possible:
            reasons = " and ".join(expanded.lacking)
            raise InputError(f"has no run that the engine {engine.name} can do: {reasons}", file=experiment.file)
        expanded.runs[:] = possible
        plans.append(expanded)
    return plans


def run(
    files: Path | str | Sequence[Path | str],
    out: Path | str | None = None,
    engine: str = "sim",
    workers: int | None = None,
    dask: str | None = None,
    console: Console | None = None,
    trials: Mapping[str, int] | None = None,
) -> Results:
    """Run one or several experiment files.

    With `out`, results are kept in that folder (runs that are already there are not repeated, and `report.html`
    is written); without, nothing is written. `workers` defaults to all cores; `dask` is a scheduler's address;
    progress goes to `console`; `trials` has other numbers of trials than the files, by name.

    Raises InputError, StoreError, and Interrupted on Ctrl-C.
    """
    names = [files] if isinstance(files, Path | str) else list(files)
    plans = plan(names, engine, trials)
    pool = executors.dask(dask) if dask else executors.local(workers)
    if out is None:
        results = _run_in_memory(plans, pool, console)
    else:
        with Store(out) as store:
            results = _run_in_store(plans, pool, console, store, get_engine(engine))
    if results.failures and console is None:
        failed, reason = results.failures[0]
        warnings.warn(f"{len(results.failures)} runs failed, the first ({failed}): {reason}", stacklevel=2)
    return results


def _run_in_memory(plans: list[Plan], pool: AbstractContextManager[Pool], console: Console | None) -> Results:
    runs = _unique(plans)
    recordings: list[tuple[Run, Recording]] = []
    failures = _compute(runs, pool, console, lambda run, recording: recordings.append((run, recording)))
    tables = label(recordings, plans)
    arrow: dict[str, Any] = {name: table.to_arrow() for name, table in tables.items()}
    experiments = [plan.experiment for plan in plans]
    tables["claims"] = claims.evaluate(experiments, arrow)
    tables["published"] = published.evaluate(experiments, arrow)
    return Results(None, tables, failures, _notes(plans))


def _run_in_store(
    plans: list[Plan], pool: AbstractContextManager[Pool], console: Console | None, store: Store, engine: Engine
) -> Results:
    given = {plan.experiment.name for plan in plans}
    others = _expand((file for file in store.experiment_files() if file.stem not in given), engine)
    claims.check([*plans, *others])
    published.check([*plans, *others])
    figures.check([*plans, *others])
    for one in plans:
        store.keep_experiment(one.experiment.name, one.experiment.source)
    finished = store.finished()
    todo = [run for run in _unique(plans) if run.id not in finished]
    notes = _notes(plans)
    if already := len(_unique(plans)) - len(todo):
        notes.append(f"{already} runs are in {store.folder} already and are not repeated.")
    if console is not None:
        for note in notes:
            console.print(note)

    last_flush = time.monotonic()

    def keep(run: Run, recording: Recording) -> None:
        store.add(run.id, recording)

    def tick() -> None:
        nonlocal last_flush
        if time.monotonic() - last_flush >= _FLUSH_S / 2:
            store.flush()
            last_flush = time.monotonic()

    try:
        failures = _compute(todo, pool, console, keep, tick, store.folder.absolute() / "lab")
    except KeyboardInterrupt:
        store.flush()
        left = len({run.id for run in todo} - store.finished())
        raise Interrupted(
            f"interrupted with {left} runs to go; finished runs are kept, and the same command does the rest"
        ) from None
    store.flush()
    notes += _finish(store, [*plans, *others])
    return Results(store.folder, {}, failures, notes)


def _finish(store: Store, plans: list[Plan]) -> list[str]:
    """Tables, claims and report of everything the folder holds."""
    from l4slab.report import write_report

    unused = store.consolidate(plans)
    tables: dict[str, Any] = {name: pq.read_table(store.folder / f"{name}.parquet") for name in ("flows", "links")}
    tables |= {name: ds.dataset(store.folder / f"{name}.parquet") for name in ("series", "transfers")}
    experiments = [plan.experiment for plan in plans]
    store.write("claims", claims.evaluate(experiments, tables))
    store.write("published", published.evaluate(experiments, tables))
    write_report(store.folder)
    if not unused:
        return []
    return [f"{unused} {LEFT_OUT} of the tables; they are kept in {store.parts}."]


def report(out: Path | str) -> Path:
    """Rebuild tables, claims and `report.html` of a results folder; the path of the report.

    The engine is the one whose runs the folder has.

    Raises InputError where `out` is not a results folder.
    """
    folder = Path(out)
    if not (folder / "experiments").is_dir():
        raise InputError('is not a results folder; give a DIR that "l4slab run --out DIR" has written', file=folder)
    with Store(folder) as store:
        finished = store.finished()
        found: dict[str, list[Plan]] = {}
        for name in ENGINES:
            # What an engine cannot run is not its result.
            with suppress(InputError):
                found[name] = _expand(store.experiment_files(), get_engine(name))
        if not found:
            _expand(store.experiment_files(), get_engine(ENGINES[0]))
        _finish(store, max(found.values(), key=lambda plans: len({run.id for run in _unique(plans)} & finished)))
    return folder / "report.html"


def _unique(plans: Iterable[Plan]) -> list[Run]:
    return list({run.id: run for plan in plans for run in plan.runs}.values())


def _notes(plans: Iterable[Plan]) -> list[str]:
    return [note for plan in plans for note in plan.notes()]


def _compute(
    runs: list[Run],
    pool: AbstractContextManager[Pool],
    console: Console | None,
    keep: Any,
    tick: Any = lambda: None,
    lab: Path | None = None,
) -> list[tuple[Run, str]]:
    failures: list[tuple[Run, str]] = []
    with pool as workers:
        shown = reporting(console, len(runs), workers.workers) if console is not None else _silent()
        with shown as reporter:
            ended = 0
            for outcome in workers.map(runs, lab):
                if outcome is not None:
                    run, result = outcome
                    ended += 1
                    if isinstance(result, Failure):
                        failures.append((run, result.reason))
                    else:
                        keep(run, result)
                    reporter.update(ended)
                tick()
    return failures


def _silent() -> AbstractContextManager[Reporter]:
    from contextlib import nullcontext

    return nullcontext(Silent())
