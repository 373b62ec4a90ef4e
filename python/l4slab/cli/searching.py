"""`l4slab search`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from l4slab.base import tabular
from l4slab.base.numbers import counted
from l4slab.base.tabular import Column
from l4slab.cli import options, terminal
from l4slab.engines.registry import get_engine

if TYPE_CHECKING:
    from l4slab.tools.search import Case, Found, Tried
    from l4slab.tools.search.cases import Verdict

_OPTIMISERS = ("random", "tpe", "cmaes")
# Points that are drawn to estimate what a search takes, and the worst points that are listed.
_DRAWN = 24
_LISTED = 5


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--budget", type=int, default=200, show_default=True, metavar="N", help="Number of points.")
@click.option("--out", metavar="DIR", help="Folder; default: results/search-NAME.")
@click.option(
    "--optimiser",
    default="tpe",
    show_default=True,
    metavar="|".join(_OPTIMISERS),
    shell_complete=lambda _context, _parameter, begun: [name for name in _OPTIMISERS if name.startswith(begun)],
    help="Method that proposes points.",
)
@click.option("--seed", type=int, default=1, show_default=True, metavar="N", help="Seed of the optimiser.")
@click.option("--cases", type=int, default=1, show_default=True, metavar="N", help="Number of counterexamples.")
@click.option("--kernel/--no-kernel", default=None, help="Let the kernel judge; default: if it is built.")
@click.option(
    "--reduce", "at_most", type=int, default=200, show_default=True, metavar="N", help="Most scenarios of a reduction."
)
@options.engine
@options.workers
@options.dask
@options.dry_run
@options.as_json
def search(
    file: Path,
    budget: int,
    out: str | None,
    optimiser: str,
    seed: int,
    cases: int,
    kernel: bool | None,
    at_most: int,
    engine: str,
    workers: int | None,
    dask: str | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Search a space of scenarios for harm, and write the worst as a small file.

    FILE has a table [search] with ranges and an objective. Points that were tried are kept in DIR, and the same command
    resumes. Exit status 0: harm or none; 1: a run failed, or the kernel does not show the harm.
    """
    from l4slab.tools import search as searching

    options.refuse_empty(out=out)
    if workers is not None and dask is not None:
        raise click.UsageError("--workers and --dask exclude each other; give one of them")
    for name, number, least in (("budget", budget, 1), ("cases", cases, 0), ("reduce", at_most, 0), ("seed", seed, 0)):
        if number < least:
            raise click.UsageError(f"--{name} {number} is not possible; give {least} or more")
    folder = out or options.results_folder(f"search-{file.stem}", engine)
    if dry_run:
        return _estimate(file, budget, engine, as_json)
    found = searching.search(
        file, folder, budget, engine, workers, dask, optimiser, seed, cases, kernel, at_most, terminal.progress()
    )
    return _show(found, as_json)


def _estimate(file: Path, budget: int, engine: str, as_json: bool) -> int:
    from dataclasses import asdict

    from l4slab.campaign.estimate import estimate
    from l4slab.tools import search as searching

    space, objective = searching.prepare(file)
    plans = searching.sampled(space, engine, min(_DRAWN, budget))
    runs = [run for plan in plans for run in plan.runs]
    of_all = estimate(runs).times(budget / max(len(plans), 1))
    total = budget * space.experiment.trials
    if as_json:
        terminal.as_json({"parameters": space.names, "points": budget, "runs": total, "estimate": asdict(of_all)})
        return 0
    names = ", ".join(space.names)
    terminal.say(f"{space.experiment.name}: {len(space.parameters)} parameters ({names})")
    terminal.say(f"Harm: {objective.text}")
    terminal.say(f"{counted(budget, 'point')}, {counted(total, 'run')}, {of_all}; each counterexample takes more.")
    return 0


def _show(found: Found, as_json: bool) -> int:
    faults = [case for case in found.confirmed if case.is_fault]
    status = 1 if found.failures or faults or any(_failed(case) for case in found.confirmed) else 0
    if as_json:
        terminal.as_json(found.summary() | {"folder": str(found.folder), "exit_status": status})
        return status
    valueless = [one for one in found.points if one.value.mean is None]
    terminal.say(f"Harm: {found.objective.text}")
    worst = sorted(
        (one for one in found.points if one.value.mean is not None and one.first is None),
        key=lambda one: (found.objective.cost(one.value.mean or 0.0), one.number),
    )[:_LISTED]
    if worst:
        _show_points("The worst points" if found.harmful else "The points nearest to it", worst)
    terminal.say(f"{counted(len(found.points), 'point was', 'points were')} tried; {found.harmful} of them show harm.")
    if valueless:
        terminal.say(
            f"Points without a value: {len(valueless)}; the first, no. {valueless[0].number}: {valueless[0].why}"
        )
    for run, why in found.failures[:_LISTED]:
        terminal.err().print(f"l4slab: {run}: {why}", markup=False)
    for case in found.confirmed:
        _show_case(case, found)
    if not found.harmful:
        terminal.say("The search found no harm.")
    elif not found.cases:
        terminal.say("No counterexample was requested (--cases 0).")
    elif not found.confirmed:
        terminal.say("The search found no harm: fresh seeds show none in any of the worst points.")
    return status


def _failed(case: Case) -> bool:
    return case.verdict is not None and case.verdict.verdict != "holds"


def _show_points(title: str, points: list[Tried]) -> None:
    names = [*points[0].levels]
    columns = [Column("point", [str(one.number) for one in points], right=True, weight=5, stays=True)]
    columns.append(Column("value", [tabular.cell(one.value.mean) for one in points], right=True, weight=6, stays=True))
    if any(one.value.spread is not None for one in points):
        spreads = [tabular.cell(one.value.spread) for one in points]
        columns.append(Column("spread", spreads, right=True, weight=4, stays=True))
    for name, short in zip(names, tabular.short(names), strict=True):
        columns.append(Column(short, [str(one.levels[name]) for one in points], right=True, weight=3))
    terminal.show(title, columns, more="; tried.parquet has all")


def _show_case(case: Case, found: Found) -> None:
    if case.file is None or case.verdict is None:
        return
    terminal.say("")
    terminal.say(f"Counterexample: {case.file} ({case.lines} lines), from point {case.point.number}")
    terminal.say(f"  {get_engine(found.engine).title}: {_verdict(case.verdict)}")
    if case.kernel is not None:
        terminal.say(f"  kernel: {_verdict(case.kernel)}")
    elif not get_engine(found.engine).is_reference:
        terminal.say("  kernel: not asked")
    if case.whole_kernel is not None and case.kernel is not None and case.whole_kernel.verdict != case.kernel.verdict:
        terminal.say(f"  kernel, before the reduction ({case.whole}): {_verdict(case.whole_kernel)}")
    if case.verdict.report:
        terminal.say(f"  report: {case.verdict.report}")
    if case.is_fault:
        terminal.say("  The kernel does not show the harm: a fault of l4slab. Please report it with this file.")


def _verdict(verdict: Verdict) -> str:
    spread = "" if verdict.spread is None else f", spread {tabular.cell(verdict.spread)}"
    value = "" if verdict.mean is None else f" ({tabular.cell(verdict.mean)}{spread})"
    words = {"holds": "harm", "fails": "no harm", "none": "undecided"}
    why = f": {verdict.why}" if verdict.why else ""
    return f"{words[verdict.verdict]}{value}{why}"
