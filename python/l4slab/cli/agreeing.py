"""`l4slab agree`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from l4slab import kernels
from l4slab.cli import options, terminal
from l4slab.cli.terminal import Column
from l4slab.engines import ENGINES

if TYPE_CHECKING:
    from l4slab.agreement import Agreement
    from l4slab.agreement.kernels import Comparison


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME|FILE]...", shell_complete=options.comparison_names)
@click.option("--out", metavar="DIR", help="Folder for the results.")
@click.option("--trials", type=int, metavar="N", help="Trials on each engine; default: what the files say.")
@click.option("--kernel", metavar="A", help="Compare this kernel (l4slab linux list) with another one instead.")
@click.option("--against", metavar="B", help="The other kernel; default: the default one.")
@options.workers
@options.dry_run
def agree(
    names: tuple[str, ...],
    out: str | None,
    trials: int | None,
    kernel: str | None,
    against: str | None,
    workers: int | None,
    dry_run: bool,
) -> int:
    """Compare simulator and kernel on the same experiments; finished runs in DIR are not repeated.

    NAME is a packaged comparison ("l4slab list comparisons"); without any, all of them. With --kernel, two kernels are
    compared, and a cell that has changed makes the exit status 1.
    """
    from l4slab import agreement
    from l4slab.cli import summary

    files = agreement.find(names)
    if kernel is not None or against is not None:
        pair = (kernel or kernels.DEFAULT, against or kernels.DEFAULT)
        return _two_kernels(files, pair, out, trials, workers, dry_run)
    if dry_run:
        for engine, plans in zip(ENGINES, agreement.plan(files, trials), strict=True):
            terminal.out().print(f"{engine}:")
            summary.show_plans(plans)
        return 0
    if out is None:
        raise click.UsageError("--out is missing; give a folder for the results, such as --out agreement")
    return _show_agreement(agreement.agree(files, out, workers, trials, console=terminal.err()))


def _two_kernels(
    files: Sequence[Path],
    names: tuple[str, str],
    out: str | None,
    trials: int | None,
    workers: int | None,
    dry_run: bool,
) -> int:
    from l4slab.agreement import kernels as two
    from l4slab.cli import summary
    from l4slab.remote import is_url

    if dry_run:
        for name, plans in zip(names, two.plan(files, names, trials), strict=True):
            terminal.out().print(f"{name}:")
            summary.show_plans(plans)
        return 0
    if out is None or is_url(out):
        raise click.UsageError("--out is missing or no folder; give one for the results, such as --out kernels")
    result = two.agree(files, names, Path(out), workers, trials, console=terminal.err())
    changed = list(result.worst().iter_rows(named=True))
    if changed:
        _show_changed(changed, names, result)
    for run, reason in result.failures[:10]:
        terminal.err().print(f"l4slab: {run} ({run.engine}): the run failed: {reason}", markup=False)
    if len(result.missing):
        terminal.err().print(f"{len(result.missing)} cells have not run on both kernels", markup=False)
    status = 0 if result.same else 1
    terminal.say(f"\nAll quantities: {result.folder / 'kernels.parquet'}")
    what = f"{len(changed)} of {len(result.cells)} cells have changed between {names[1]} and {names[0]}"
    terminal.say(what + (f" (exit status {status})" if status else ""))
    return status


def _show_changed(changed: Sequence[Mapping[str, Any]], names: tuple[str, str], result: Comparison) -> None:
    from l4slab.agreement import page
    from l4slab.report.tables import heading, number

    shown = changed[: terminal.ROWS_SHOWN]
    cells = [page.label({**row, "engine": None}, result.cells.drop("changed"))["cell"] for row in shown]

    def value(row: Mapping[str, Any], side: str) -> str:
        spread = row[f"{side}_sd"]
        return number(row[side]) + (f" ± {number(spread)}" if spread else "")

    columns = [
        Column("cell", cells, weight=9, folds=True, stays=True),
        Column("surest change", [f"{heading(row['quantity'])}, {page.place(row)}" for row in shown], weight=8),
        Column(names[1], [value(row, "against") for row in shown], True, 6, stays=True),
        Column(names[0], [value(row, "kernel") for row in shown], True, 6, stays=True),
        Column("quantities\nchanged", [str(row["changes"]) for row in shown], True, 3),
    ]
    terminal.show("Changed cells, mean and standard deviation over trials", columns, more="; kernels.parquet has all")
    if len(changed) > len(shown):
        terminal.say(f"... {len(changed) - len(shown)} more in kernels.parquet")


def _show_agreement(result: Agreement) -> int:
    from l4slab.agreement import page

    bars = page.bars(result.bars)
    met = ["" if row["met"] is None else "yes" if row["met"] else "no" for row in bars]
    columns = [
        Column("set", [row["set"] for row in bars], weight=7),
        Column("quantity", [row["quantity"] for row in bars], weight=8),
        Column("bar", [row["bar"] for row in bars], weight=4, folds=True),
        Column("wanted", [row["wanted"] for row in bars], True, 5),
        Column("measured", [row["measured"] for row in bars], True, 6, stays=True),
        Column("by\nchance", [row["by_chance"] for row in bars], True, 3),
        Column("cells", [str(row["cells"]) for row in bars], True, 2),
        Column("met", met, weight=9, stays=True),
    ]
    terminal.show("Bars", columns, ["red" if one == "no" else "" for one in met], "; agreement.html has all")
    beyond = page.beyond(result.rows)
    if beyond:
        _show_beyond(beyond)
    for run, reason in result.failures[:10]:
        terminal.err().print(f"l4slab: {run} ({run.engine}): the run failed: {reason}", markup=False)
    for note in result.notes:
        terminal.err().print(note, markup=False)
    if len(result.missing):
        terminal.err().print(f"{len(result.missing)} cells have not run on both engines", markup=False)
    terminal.say(f"\nReport: {result.folder / 'agreement.html'}")
    judged = [one for one in met if one]
    status = 0 if result.met else 1
    terminal.say(f"{judged.count('yes')} of {len(judged)} bars met" + (f" (exit status {status})" if status else ""))
    return status


def _show_beyond(rows: list[dict[str, Any]]) -> None:
    from l4slab.agreement.page import NOT_EXPLAINED

    shown = rows[: terminal.ROWS_SHOWN]
    columns = [
        Column("cell", [row["cell"] for row in shown], weight=9, folds=True),
        Column("quantity", [f"{row['quantity']}, {row['place']}" for row in shown], weight=8),
        Column("kernel", [row["kernel"] for row in shown], True, 6),
        Column("simulator", [row["simulator"] for row in shown], True, 6),
        Column("cause", [row["cause"] or NOT_EXPLAINED for row in shown], weight=2, folds=True),
    ]
    terminal.say("")
    terminal.show("Cells beyond", columns, more="; agreement.html has all")
    if len(rows) > len(shown):
        terminal.say(f"... {len(rows) - len(shown)} more in agreement.html")
