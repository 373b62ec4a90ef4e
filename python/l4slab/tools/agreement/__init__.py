"""`l4slab agree`: the same experiments on the simulator and on the kernel, and how far apart they are.

DIR/sim, DIR/ENGINE       results folders of the two engines, as `l4slab run` makes them
DIR/agreement.parquet     a row per cell, place and quantity (`metrics.AGREEMENT`)
DIR/bars.parquet          a row per bar (`metrics.BARS`)
DIR/agreement.svg, .html  one figure, one page
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from l4slab.api import campaign
from l4slab.base import metrics
from l4slab.base.errors import InputError, nearest
from l4slab.base.packaged import comparisons
from l4slab.base.paths import usable
from l4slab.campaign.remote import is_url
from l4slab.engines.registry import DEFAULT, KERNEL, get_engine
from l4slab.results.bars import agree_of
from l4slab.sweep import Plan, Run
from l4slab.tools.agreement import compare
from l4slab.tools.agreement.compare import Agreement

# Compared only where they are asked for: a few quick cells of the others, for CI, and those that need a packaged stack.
ASKED = ("small", "media", "media-at-once", "media-pion", "media-scream", "responsiveness")


def find(names: Sequence[str]) -> list[Path]:
    """Experiment files by path, by the name of a packaged one, or by that of a packaged set; without any, all
    packaged ones but those of `ASKED`. Raises InputError.
    """
    packaged = comparisons()
    if not names:
        return [path for name, path in packaged.items() if name not in ASKED]
    found: dict[Path, None] = {}
    for name in names:
        if name in packaged:
            found[packaged[name]] = None
        elif name.endswith(".toml") or "/" in name or Path(name).is_file():
            found[Path(name)] = None
        elif members := [path for stem, path in packaged.items() if stem.startswith(f"{name}-")]:
            found |= dict.fromkeys(members)
        else:
            sets = sorted({stem.partition("-")[0] for stem in packaged})
            near = nearest(name, [*packaged, *sets])
            remedy = f'did you mean "{near}"?' if near else f"{', '.join(sets)} name one or several of them"
            raise InputError(f"{name} is neither a file nor a packaged comparison; {remedy} (l4slab list comparisons)")
    return list(found)


def plan(files: Sequence[Path], trials: int | None = None, engine: str = KERNEL) -> dict[str, list[Plan]]:
    """The runs on the simulator and on the kernel (or the engine in its place), by the engine's name; everything is
    checked. Raises InputError.

    `trials` replaces the numbers of trials in the files.
    """
    if trials is not None and trials < 1:
        raise InputError(f"--trials {trials} is not possible; give 1 or more")
    first = campaign.plan(files, engine, None if trials is None else {file.stem: trials for file in files})
    for one in first:
        _check(one)
    _check_sets(first)
    compare.check_causes(first)
    # The simulator is quick: more trials make its mean and its spread sure.
    wanted = {p.experiment.name: agree_of(p.experiment).simulator_trials or p.experiment.trials for p in first}
    if trials is not None:
        wanted = {name: max(count, trials) for name, count in wanted.items()}
    plans = {DEFAULT: campaign.plan(files, DEFAULT, wanted), engine: first}
    if len(plans) == 1:
        raise InputError(f"--engine {engine} is compared with itself; give another, or --random N")
    return plans


def _check(one: Plan) -> None:
    experiment = one.experiment
    if experiment.is_study:
        raise InputError(
            "is a study, which describes no run; give experiment files with links and flows", file=experiment.file
        )
    taken = {name.lower() for name in metrics.AGREEMENT}
    for name in one.factors:
        if name.lower() in taken:
            raise InputError(
                "is the name of a column of agreement.parquet; choose another name",
                file=experiment.file,
                key=f"sweep.{name}",
            )


def _check_sets(plans: Sequence[Plan]) -> None:
    """Files of one set are judged together, so their bars are the same."""
    first: dict[str, Plan] = {}
    for one in plans:
        agree = agree_of(one.experiment)
        if not agree.set:
            continue
        other = first.setdefault(agree.set, one).experiment
        if agree_of(other).bars != agree.bars:
            raise InputError(
                f'= "{agree.set}" is also the set of {other.file}, which has other bars; '
                "write the same [agree.QUANTITY] tables in both, or another set",
                file=one.experiment.file,
                key="agree.set",
            )


def agree(
    files: Sequence[Path],
    out: Path | str,
    workers: int | None = None,
    trials: int | None = None,
    console: Console | None = None,
    engine: str = KERNEL,
) -> Agreement:
    """Run `files` on the simulator and on `engine`, compare, and write tables, figure and page to `out`.

    Finished runs are not repeated. Raises InputError, StoreError, and Interrupted on Ctrl-C.
    """
    if is_url(out):
        raise InputError(f"--out {out} is not a folder; give one of this machine")
    folder = usable(out)
    if folder.exists() and not folder.is_dir():
        raise InputError("is a file; give --out a folder", file=folder)
    plans = plan(files, trials, engine)
    campaign.require(plans[engine], engine)
    failures = []
    for name, of_engine in plans.items():
        if console is not None:
            console.print(f"{get_engine(name).title}:")
        counts = {one.experiment.name: one.experiment.trials for one in of_engine}
        done = campaign.run(files, folder / folder_of(name), name, workers, console=console, trials=counts)
        failures += done.failures
    return finish(folder, plans, failures)


def folder_of(engine: str) -> str:
    """The name of an engine's results folder."""
    return engine.replace(":", "-")


def finish(folder: Path, plans: Mapping[str, list[Plan]], failures: list[tuple[Run, str]]) -> Agreement:
    """Compare the two results folders and write tables, figure and page. `plans` are those of `plan`."""
    from l4slab.tools.agreement.page import write

    simulator, kernel = (compare.read(of_engine, folder / folder_of(name)) for name, of_engine in plans.items())
    sides = kernel, simulator
    experiments = [one.experiment for one in list(plans.values())[1]]
    bars = {experiment.name: agree_of(experiment).bars for experiment in experiments}
    rows, notes = compare.explain(compare.compare(*sides, bars), experiments)
    chance = compare.compare(*compare.halves(sides[1], {e.name: e.trials for e in experiments}), bars)
    judged = compare.judge(rows, chance, experiments)
    result = Agreement(folder, rows, judged, compare.missing(*sides), failures, notes)
    write(result, experiments)
    return result
