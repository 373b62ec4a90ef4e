"""From experiment files to results: what `l4slab run`, `reproduce` and `report`, and `l4slab.run`, do."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from l4slab import sweep
from l4slab.api.experiment import Described, listed, load
from l4slab.api.results import Results, no_results, require_results
from l4slab.base import damage, metrics, paths
from l4slab.base.arguments import checked
from l4slab.base.errors import InputError, L4slabError
from l4slab.base.hints import unmatched
from l4slab.base.numbers import counted
from l4slab.base.progress import Reporter, Silent, reporting, working
from l4slab.base.values import Value
from l4slab.campaign import alike, executors, remote
from l4slab.campaign import memory as memory_check
from l4slab.campaign.estimate import longest, too_long
from l4slab.campaign.executors import ClusterError, Failure, Pool
from l4slab.campaign.store import Store, label
from l4slab.engines.contract import Engine, LackingError, MissingError, Recording
from l4slab.engines.registry import DEFAULT, get_engine
from l4slab.experimentfile import Experiment, references, show
from l4slab.results import bars, claims, figures, published
from l4slab.sweep import Plan, Run, UnknownNameError, Where

LEFT_OUT = "that no experiment file describes any more, or of another build of l4slab: left out"
# Combinations that are expanded without a word, and the time for one.
_MANY = 50_000
_EXPANDED_S = 100e-6
# A finished run is on the disk at most this long after it ended.
_FLUSH_S = 1.0


class Interrupted(L4slabError):
    """Ctrl-C."""

    status = 130


def plan(
    files: Iterable[Described],
    engine: str = DEFAULT,
    trials: Mapping[str, int] | None = None,
    where: str | None = None,
    subset: bool = False,
    captures: bool = True,
    at_most: int | None = None,
    console: Console | None = None,
    changes: Mapping[str, Value] | None = None,
    workers: int | None = None,
    memory: str | None = None,
) -> list[Plan]:
    """Read and expand experiments, and check everything that can be checked before a run.

    `trials` has other numbers of trials than the files, by the file's name without .toml. `where` chooses the runs to
    do, by an SQL condition over factors, keys and `trial`; with `subset`, each file's own `subset` does. Without
    `captures`, none are written, whatever the files say. `at_most` is of `sweep.expand`; `console` is told of so many
    combinations that they take long. `changes` are other values than those of the files, by dotted key as
    `run --set` has them.
    `workers` runs are to be computed at a time, which together may need `memory`, such as "4GiB" (see
    `l4slab.campaign.memory`).
    Raises InputError.
    """
    paths.require_folder()
    plans = _expand(files, get_engine(engine), trials, where, subset, captures, at_most, console, changes)
    if where is not None and not any(plan.todo for plan in plans) and all(plan.is_whole for plan in plans):
        raise _none_chosen(where, plans)
    _check(plans)
    at_a_time = min(memory_check.at_a_time(workers, get_engine(engine)), max(sum(len(plan.todo) for plan in plans), 1))
    for one in plans:
        memory_check.check(one.todo, one.experiment.file, at_a_time, memory)
    return plans


def missing(plans: Iterable[Plan], engine: str) -> list[InputError]:
    """What this machine lacks for the chosen runs. Only what `plan` takes without a mistake can be asked for it."""
    lacking = get_engine(engine).lacking()
    engines = [] if lacking is None else [InputError(lacking)]
    return engines + [
        InputError(text, file=one.experiment.file) for one in plans for text in dict.fromkeys(one.missing)
    ]


def require(plans: Iterable[Plan], engine: str) -> None:
    """Raises InputError where `missing` finds something."""
    for error in missing(plans, engine):
        raise error


def _none_chosen(where: str, plans: Sequence[Plan]) -> InputError:
    levels: dict[str, list[str]] = {}
    for one in plans:
        for name, texts in one.factors.items() if not one.experiment.is_study else ():
            levels.setdefault(name, []).extend(map(str, texts))
    total = sum(len(one.runs) for one in plans)
    remedy = unmatched(where, {name: list(dict.fromkeys(texts)) for name, texts in levels.items()})
    if remedy is None:
        names = ", ".join([*levels, "trial"])
        remedy = f"relax it; the factors are {names}, and numbers are in SI units (bit/s, s, bytes)"
    return InputError(f"= {show(where)} chooses none of the {total} runs; {remedy}", key="--where")


def _check(plans: Sequence[Plan]) -> None:
    """Check the statements that the files make about results."""
    references.check([plan.experiment for plan in plans])
    sweep.check_code(plans)
    claims.check(plans)
    published.check(plans)
    figures.check(plans)
    bars.check_tables(plans)


def _expand(
    files: Iterable[Described],
    engine: Engine,
    trials: Mapping[str, int] | None = None,
    where: str | None = None,
    subset: bool = False,
    captures: bool = True,
    at_most: int | None = None,
    console: Console | None = None,
    changes: Mapping[str, Value] | None = None,
) -> list[Plan]:
    experiments: dict[str, Experiment] = {}
    for file in files:
        experiment = load(file, trials or {}, changes)
        if (other := experiments.get(experiment.name)) is not None and other.file == experiment.file:
            raise InputError("is given twice; give it once", file=experiment.file)
        if other is not None:
            raise InputError(
                f"has the name of another file of this campaign ({other.file}); rename one of them",
                file=experiment.file,
            )
        experiments[experiment.name] = experiment if captures else replace(experiment, captures="none")
    plans = []
    elsewhere: list[UnknownNameError] = []
    for experiment in experiments.values():
        count = min(sweep.combinations_of(experiment), at_most or sweep.MOST)
        if console is not None and count > _MANY:
            seconds = round(count * _EXPANDED_S)
            console.print(f"{experiment.name}: {count} combinations are being expanded, for about {seconds} s.")
        chosen = Where(where, "--where") if where is not None else None
        if chosen is None and subset and experiment.subset:
            chosen = Where(experiment.subset, "subset")
        try:
            expanded = sweep.expand(experiment, engine.name, chosen, at_most)
        except UnknownNameError as error:
            if where is None:
                raise
            # In a study, the condition applies only to the files that have its factors.
            elsewhere.append(error)
            expanded = replace(sweep.expand(experiment, engine.name, at_most=at_most), chosen=frozenset())
        todo, impossible = expanded.todo, set()
        for run in todo:  # what the engine cannot do of the others does not matter
            try:
                engine.check(run.description)
            except LackingError as error:
                expanded.lacking[str(error)] = expanded.lacking.get(str(error), 0) + 1
                impossible.add(run.id)
            except MissingError as error:
                expanded.missing.append(str(error))
            except ValueError as error:
                raise InputError(str(error), file=experiment.file) from None
        if todo and len(impossible) == len(todo):
            reasons = " and ".join(expanded.lacking)
            raise InputError(f"has no run that the engine {engine.name} can do: {reasons}", file=experiment.file)
        expanded.runs[:] = [run for run in expanded.runs if run.id not in impossible]
        plans.append(expanded)
    if elsewhere and len(elsewhere) == sum(not plan.experiment.is_study for plan in plans):
        raise elsewhere[0]
    return plans


@checked("out", "engine", "workers", "dask", "console", "trials", "where", "subset", "captures", "memory")
def run(
    files: Described | Sequence[Described],
    out: Path | str | None = None,
    engine: str = DEFAULT,
    workers: int | None = None,
    dask: str | None = None,
    console: Console | None = None,
    trials: Mapping[str, int] | None = None,
    where: str | None = None,
    subset: bool = False,
    captures: bool = True,
    report: bool = True,
    shown: Callable[[Results], None] | None = None,
    changes: Mapping[str, Value] | None = None,
    memory: str | None = None,
) -> Results:
    """Run one or several experiments: files, objects of the class `Experiment`, or dicts that have what a file has.

    With `out`, results are kept in that folder or at that URL (runs that are already there are not repeated, and with
    `report`, `report.html` is written); without, nothing is written. `workers` defaults to all cores; `dask` is a
    scheduler's address; progress goes to `console`; `trials`, `where`, `subset`, `captures`, `changes` and
    `memory` are as in `plan`. `shown` gets the results when the tables are there, before the report is written.

    Raises InputError, StoreError, and Interrupted on Ctrl-C.
    """
    described = listed(files)
    if not described:
        raise InputError("no experiment is given; give a file, an l4slab.Experiment or a dict like a file")
    if isinstance(out, str) and not out.strip():
        raise InputError("out is empty; give a folder or a URL, or leave it out")
    plans = plan(
        described,
        engine,
        trials,
        where,
        subset,
        captures,
        console=console,
        changes=changes,
        # The workers of a cluster are other machines.
        workers=1 if dask else workers,
        memory=memory,
    )
    require(plans, engine)
    pool = executors.dask(dask) if dask else executors.local(workers, engine)
    if out is None:
        results = _run_in_memory(plans, pool, console)
        if shown is not None:
            shown(results)
    else:
        with _store(out) as store:
            results = _run_in_store(plans, pool, console, store, report, shown)
    if results.failures and console is None:
        failed, reason = results.failures[0]
        warnings.warn(f"{counted(len(results.failures), 'run')} failed, the first ({failed}): {reason}", stacklevel=2)
    return results


def _store(out: Path | str) -> Store:
    return remote.RemoteStore(str(out)) if remote.is_url(out) else Store(out)


def _run_in_memory(plans: list[Plan], pool: AbstractContextManager[Pool], console: Console | None) -> Results:
    runs = _todo(plans)
    recordings: list[tuple[Run, Recording]] = []
    failures = _compute(runs, pool, console, lambda run, recording: recordings.append((run, recording)))
    tables = label(recordings, plans)
    experiments = [plan.experiment for plan in plans]
    verdicts = {"claims": claims.evaluate(experiments, tables), "published": published.evaluate(experiments, tables)}
    notes = _notes(plans)
    if any(run.captures for run in runs):
        notes.append("Captures are not written without a results folder.")
    return Results(None, tables | verdicts, failures, notes, _experiments=experiments)


def _run_in_store(
    plans: list[Plan],
    pool: AbstractContextManager[Pool],
    console: Console | None,
    store: Store,
    report: bool,
    shown: Callable[[Results], None] | None,
) -> Results:
    given = {plan.experiment.name for plan in plans}
    others = plans_of(store, (file for file in store.experiment_files() if file.stem not in given))
    if others:
        _check([*plans, *others])
    for one in plans:
        store.keep_experiment(one.experiment, one.runs)
    finished = store.finished()
    chosen = _todo(plans)
    todo = [run for run in chosen if run.id not in finished or not store.has_captures(run)]
    notes = _notes(plans)
    if others:
        named = ", ".join(plan.experiment.name for plan in others[:3]) + (", ..." if len(others) > 3 else "")
        notes.append(f"{store.place} also holds results of {named}; another --out keeps them apart.")
    if already := len(chosen) - len(todo):
        notes.append(f"{counted(already, 'run is', 'runs are')} in {store.place} already and not repeated.")
    if console is not None:
        for note in notes:
            console.print(note, markup=False)

    last_flush = time.monotonic()

    def keep(run: Run, recording: Recording) -> None:
        store.add(run.id, recording)

    def tick() -> None:
        nonlocal last_flush
        if time.monotonic() - last_flush >= _FLUSH_S / 2:
            store.flush()
            last_flush = time.monotonic()

    try:
        failures = _compute(todo, pool, console, keep, tick, store.folder.absolute())
        store.flush()
        notes += _finish(store, _tables, [*plans, *others], console)
        results = Results(store.folder, failures=failures, notes=notes, report=store.report if report else None)
        if shown is not None:
            shown(results)
        if report:
            _finish(store, _report, [*plans, *others], console)
        store.publish(report)
    except KeyboardInterrupt:
        _flush(store)
        left = len({run.id for run in todo} - store.finished())
        to_go = f"with {counted(left, 'run')} to go" if left else "after the last run, before the report"
        raise Interrupted(f"interrupted {to_go}; finished runs are kept, and the same command does the rest") from None
    except ClusterError:
        store.flush()
        raise
    return results


def _flush(store: Store) -> None:
    """Keep what has ended, after an interrupt. Polars tells it again in each call, until those of all threads ended."""
    until = time.monotonic() + 10 * _FLUSH_S
    while True:
        try:
            return store.flush()
        except KeyboardInterrupt:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


# Writes what follows from the parts, and says in sentences what was left out.
_Step = Callable[[Store, list[Plan], Console], list[str]]


def _finish(store: Store, step: _Step, plans: list[Plan], console: Console | None) -> list[str]:
    """Do a step of everything the folder holds. Raises InputError where a part is damaged."""
    told = console or Console(quiet=True)
    try:
        return step(store, plans, told)
    except L4slabError:
        raise
    except Exception:
        # A fault of ours stays one.
        if parts := store.damaged():
            remedy = f"remove it, and run its experiment files again with --out {store.place}"
            raise InputError(f"is damaged and cannot be read; {remedy}", file=store.parts / parts[0]) from None
        if damage.damaged(store.folder) is None:
            raise
    store.forget_tables()
    notes = _tables(store, plans, told)
    return notes if step is _tables else step(store, plans, told)


def _report(store: Store, plans: list[Plan], console: Console) -> list[str]:
    """Write the report."""
    from l4slab.report import write_report

    with working(console) as told, store.writing():
        url = store.place if remote.is_url(store.place) else None
        write_report(store.folder, {plan.experiment.name: plan for plan in plans}, told, url)
    return []


def _tables(store: Store, plans: list[Plan], console: Console) -> list[str]:
    """Write the tables, with the verdicts on claims."""
    with working(console) as told:
        told("Writing the tables", None)
        unused = store.consolidate(plans)
        # `flows` and `links` are small and read by nearly every query.
        tables: dict[str, pl.DataFrame | Path] = {name: store.folder / f"{name}.parquet" for name in metrics.TABLES}
        tables |= {name: pl.read_parquet(store.folder / f"{name}.parquet") for name in ("flows", "links")}
        experiments = [plan.experiment for plan in plans]
        store.write("claims", claims.evaluate(experiments, tables))
        store.write("published", published.evaluate(experiments, tables))
    if not unused:
        return []
    return [
        f"{counted(unused, 'finished run', 'finished runs')} {LEFT_OUT} of the tables, kept in {store.place}/parts."
    ]


def left_to_do(plans: Sequence[Plan], out: Path | str | None = None) -> list[Run]:
    """The runs of these plans that the results folder `out` has not got."""
    finished: set[str] = set()
    if out is not None:
        with _glance(out) as store:
            finished = store.finished()
    return [run for run in _todo(plans) if run.id not in finished]


@contextmanager
def _glance(out: Path | str) -> Iterator[Store]:
    """A results folder for reading, also while another process writes."""
    if remote.is_url(out):
        with remote.glance(str(out)) as store:
            yield store
    else:
        yield Store(out)


@dataclass(frozen=True)
class Progress:
    """An experiment of a results folder: runs that are finished, runs that its file describes."""

    name: str
    finished: int
    planned: int


@dataclass(frozen=True)
class Status:
    """The content of a results folder; `size` in bytes."""

    experiments: list[Progress]
    size: int


def status(out: Path | str) -> Status:
    """How much of a campaign is done; also while another process works on it. Raises InputError."""
    with _glance(out) as store:
        store.check_kinds()
        require_results(store.folder, out)
        return Status(_progress(store, store.finished()), store.size())


def _progress(store: Store, finished: set[str]) -> list[Progress]:
    found = []
    for file in store.experiment_files():
        ids = store.planned(file.stem)
        if ids is None:
            ids = {run.id for run in _unique(plans_of(store, [file]))}
        if ids:
            found.append(Progress(file.stem, len(ids & finished), len(ids)))
    return found


def report(out: Path | str, figures: str | None = None, console: Console | None = None) -> str:
    """Rebuild tables, claims and `report.html` of a results folder; where the report is.

    Each experiment's engine is the one that has run it. Progress goes to `console`. With `figures` ("png", "pdf" or
    "svg"), every figure of the report is written into the folder's `figures/`, too.

    Raises InputError where `out` is not a results folder.
    """
    if not remote.is_url(out):
        require_results(paths.usable(out), out)
    elif figures is not None:
        raise InputError(
            "is a URL; figures are written into a folder of this machine, so fetch the results first", file=out
        )
    with _store(out) as store:
        if not store.experiment_files():
            raise no_results(out)
        finished = store.finished()
        plans = plans_of(store, store.experiment_files())
        if not finished and (damaged := store.damaged()):
            remedy = "run its experiment files again with --out"
            raise InputError(f"has no finished run that can be read: parts/{damaged[0]} is damaged; {remedy}", file=out)
        unreadable = not finished and any(store.parts.iterdir())  # of a build whose parts had another form
        if unreadable or (finished and finished.isdisjoint(run.id for run in _unique(plans))):
            raise InputError(
                "has only results of another build of l4slab; run its experiment files again with --out, or give "
                "the command to that build",
                file=out,
            )
        _finish(store, _tables, plans, console)
        _finish(store, _report, plans, console)
        store.publish()
        if figures is not None:
            from l4slab.report import save_figures

            with store.writing():
                save_figures(store.folder, figures, {plan.experiment.name: plan for plan in plans})
        return store.report


def plans_of(store: Store, files: Iterable[Path]) -> list[Plan]:
    """The plans of files in a results folder, each for the engine that has run it. Raises InputError."""
    return [plan for file in files for plan in _expand([file], _engine_of(store, file.stem))]


def _engine_of(store: Store, name: str) -> Engine:
    # A kernel may be gone: then the folder has only results of another build.
    with suppress(InputError):
        return get_engine(store.engine_of(name) or DEFAULT)
    return get_engine(DEFAULT)


def _unique(plans: Iterable[Plan]) -> list[Run]:
    return _by_id(run for plan in plans for run in plan.runs)


def _todo(plans: Iterable[Plan]) -> list[Run]:
    return _by_id(run for plan in plans for run in plan.todo)


def _by_id(runs: Iterable[Run]) -> list[Run]:
    """Each run once, with captures where any experiment asks for them."""
    unique: dict[str, Run] = {}
    for run in runs:
        if run.id not in unique or run.captures:
            unique[run.id] = run
    return list(unique.values())


def _notes(plans: Iterable[Plan]) -> list[str]:
    return [note for plan in plans for note in plan.notes()]


def _compute(
    runs: list[Run],
    pool: AbstractContextManager[Pool],
    console: Console | None,
    keep: Any,
    tick: Any = lambda: None,
    folder: Path | None = None,
) -> list[tuple[Run, str]]:
    failures: list[tuple[Run, str]] = []
    warning = too_long(longest(runs), "With full links, these runs take up to")
    if console is not None and warning is not None:
        console.print(f"{warning} Finished runs are kept; --dry-run estimates the time.", markup=False)
    groups = {group[0].id: group for group in alike.grouped(runs)}
    if console is not None and len(groups) < len(runs):
        same = len(runs) - len(groups)
        console.print(f"{same} of {len(runs)} runs have the same results as another run and are not computed again.")
    computed = [group[0] for group in groups.values()]
    with pool as workers, workers.prepare(computed, folder):
        shown = reporting(console, len(runs), workers.workers) if console is not None else _silent()
        with shown as reporter:
            ended = 0
            for outcome in workers.map(computed, folder):
                if outcome is not None:
                    first, result = outcome
                    group = groups[first.id]
                    ended += len(group)
                    if isinstance(result, Failure):
                        failures += [(run, result.reason) for run in group]
                    else:
                        for run in group:
                            keep(run, result if run is first else alike.recording_of(run, result))
                    reporter.update(ended)
                tick()
    return failures


def _silent() -> AbstractContextManager[Reporter]:
    return nullcontext(Silent())
