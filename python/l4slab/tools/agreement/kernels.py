"""`l4slab agree --kernel A --against B`: the same experiments on two kernels, and what is different.

A cell is an experiment at one level of each factor. In each of its quantities the two kernels differ by chance, as
trials do; the spread of the trials says by how much. A quantity has changed where Welch's test finds it at odds with
chance (over all that is compared together, in one comparison of a hundred: Holm's correction), and by a hundredth at
least.

DIR/A, DIR/B         results folders of the two kernels, as `l4slab run` makes them
DIR/kernels.parquet  a row per cell, place and quantity (`COLUMNS`)
DIR/kernels.html     one page
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from l4slab.api import campaign
from l4slab.base.errors import InputError
from l4slab.engines.linux import kernels
from l4slab.engines.registry import KERNEL, get_engine
from l4slab.report.results import replace
from l4slab.sweep import Plan
from l4slab.tools.agreement import compare, kernels_page
from l4slab.tools.agreement.changes import COLUMNS, LEAST_TRIALS, Comparison, compared


def engine_of(name: str) -> str:
    """The engine that runs on this kernel. Raises InputError."""
    return get_engine(f"{KERNEL}:{name}").name


def plan(files: Sequence[Path], names: tuple[str, str], trials: int | None = None) -> list[list[Plan]]:
    """The plans for each kernel. Raises InputError."""
    if names[0] == names[1]:
        raise InputError(f"--kernel {names[0]} is compared with itself; give --against another, or default")
    counts = None if trials is None else {file.stem: trials for file in files}
    plans = [campaign.plan(files, engine_of(name), counts) for name in names]
    for one in plans[0]:
        if one.experiment.trials < LEAST_TRIALS:
            raise InputError(
                f"= {one.experiment.trials} shows no spread; give --trials 5, or at least {LEAST_TRIALS}",
                file=one.experiment.file,
                key="trials",
            )
        for factor in one.factors:
            if factor.lower() in COLUMNS:
                raise InputError(
                    "is the name of a column of kernels.parquet; choose another name",
                    file=one.experiment.file,
                    key=f"sweep.{factor}",
                )
    return plans


def agree(
    files: Sequence[Path],
    names: tuple[str, str],
    out: Path,
    workers: int | None = None,
    trials: int | None = None,
    console: Console | None = None,
) -> Comparison:
    """Run `files` on both kernels and compare. Finished runs are not repeated.

    Raises InputError, StoreError, and Interrupted on Ctrl-C.
    """
    plans = plan(files, names, trials)
    for name, of_kernel in zip(names, plans, strict=True):
        campaign.require(of_kernel, engine_of(name))
    failures = []
    for name, of_kernel in zip(names, plans, strict=True):
        if console is not None:
            console.print(f"{name}:")
        counts = {one.experiment.name: one.experiment.trials for one in of_kernel}
        done = campaign.run(files, out / name, engine_of(name), workers, console=console, trials=counts)
        failures += done.failures
    one, other = (compare.read(of_kernel, out / name) for name, of_kernel in zip(names, plans, strict=True))
    rows = compared(one, other)
    replace(out / "kernels.parquet", rows.write_parquet)
    missing = compare.missing(one, other, names)
    result = Comparison(out, rows, missing, failures)
    kernels_page.write(result, names, [_made_from(name) for name in names], [one.experiment for one in plans[0]])
    return result


def _made_from(name: str) -> str:
    kernel = kernels.installed(name)
    if kernel is None:
        return ""
    version = f"Linux {kernel.version}" if kernel.version else str(kernel.path)
    return f"{version}, {kernel.made_from}" if kernel.made_from else version
