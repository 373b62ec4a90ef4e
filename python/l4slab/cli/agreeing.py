"""`l4slab agree`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from l4slab.base import tabular
from l4slab.base.numbers import counted
from l4slab.base.paths import usable
from l4slab.base.tabular import Column
from l4slab.cli import options, terminal, verdicts
from l4slab.cli.verdicts import Outcome, Outputs, Verdict
from l4slab.engines.linux import kernels
from l4slab.engines.registry import KERNEL

if TYPE_CHECKING:
    import polars as pl

    from l4slab.sweep import Run
    from l4slab.tools.agreement.changes import ChangedRow, Comparison
    from l4slab.tools.agreement.compare import Agreement, BarRow
    from l4slab.tools.agreement.page import Beyond
    from l4slab.tools.agreement.queues import Judged
    from l4slab.tools.agreement.random.scenarios import Found


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME|FILE]...", shell_complete=options.comparison_names)
@click.option("--out", metavar="DIR", help="Folder for the results.")
@click.option("--trials", type=int, metavar="N", help="Trials on each engine; default: those of the files.")
@click.option("--kernel", metavar="A", help="Compare this kernel (l4slab linux list) with another instead.")
@click.option("--against", metavar="B", help="The other kernel; default: the default one.")
@click.option(
    "--random", "count", type=click.IntRange(1), metavar="N", help="Judge N scenarios drawn at random instead."
)
@click.option("--queues", type=click.IntRange(1), metavar="N", help="Judge N random queues packet by packet instead.")
@click.option(
    "--seed", type=click.IntRange(0), metavar="S", help="With --random and --queues: seed of what is drawn; default: 1."
)
@click.option(
    "--engine",
    metavar="E",
    shell_complete=options.engine_names,
    help=f"The engine to compare with, such as {KERNEL}:NAME; default: {KERNEL}.",
)
@click.option(
    "--reduce/--no-reduce", default=True, help="With --random and --queues: reduce each that differs to a small file."
)
@options.workers
@verdicts.with_outputs
@options.dry_run
def agree(
    names: tuple[str, ...],
    out: str | None,
    trials: int | None,
    kernel: str | None,
    against: str | None,
    count: int | None,
    queues: int | None,
    seed: int | None,
    engine: str | None,
    reduce: bool,
    workers: int | None,
    outputs: Outputs,
    dry_run: bool,
) -> int:
    """Compare simulator and kernel on the same experiments.

    NAME is a packaged comparison ("l4slab list comparisons"); without NAME and FILE, all of them run. Finished runs in
    DIR are not repeated. With --kernel, two kernels are compared, and a changed cell makes the exit status 1. With
    --random, FILE has a table [search]. With --queues, NAME is a kind of queue ("l4slab list
    qdiscs") and FILE a case to judge again.
    """
    from l4slab.cli import summary
    from l4slab.tools import agreement

    if queues is not None:
        if trials is not None or against is not None or engine is not None or count is not None:
            raise click.UsageError("--queues excludes --trials, --against, --engine and --random; leave them out")
        return _queues(
            names, queues, 1 if seed is None else seed, kernel or kernels.DEFAULT, out, reduce, outputs, dry_run
        )
    if count is not None:
        if trials is not None or kernel is not None or against is not None:
            raise click.UsageError("--random excludes --trials, --kernel and --against; leave them out")
        seed, engine = 1 if seed is None else seed, engine or KERNEL
        return _random(names, count, seed, engine, out, workers, reduce, outputs, dry_run)
    if seed is not None or not reduce:
        raise click.UsageError("--seed and --no-reduce need --random N or --queues N; add it")

    files = agreement.find(names)
    if kernel is not None or against is not None:
        if engine is not None:
            raise click.UsageError("--kernel and --against compare two kernels; leave out --engine")
        pair = (kernel or kernels.DEFAULT, against or kernels.DEFAULT)
        return _two_kernels(files, pair, out, trials, workers, outputs, dry_run)
    if dry_run:
        for name, plans in agreement.plan(files, trials, engine or KERNEL).items():
            terminal.out().print(f"{name}:")
            summary.show_plans(plans, name)
        return 0
    if out is None:
        raise click.UsageError("--out is missing; give a folder for the results, such as --out agreement")
    result = agreement.agree(files, out, workers, trials, terminal.progress(), engine or KERNEL)
    outputs.write(lambda: agreement_outcome(result))
    return _show_agreement(result)


def _random(
    names: Sequence[str],
    count: int,
    seed: int,
    engine: str,
    out: str | None,
    workers: int | None,
    reduce: bool,
    outputs: Outputs,
    dry_run: bool,
) -> int:
    from l4slab.base.packaged import random_files
    from l4slab.tools.agreement import random
    from l4slab.tools.agreement.random import page

    files = [Path(name) for name in names] or random_files()
    if dry_run:
        for drawn in random.draw(files, count, seed):
            terminal.say(f"{drawn.name} {drawn.family}: {page.words(drawn.document)}")
        return 0
    if out is None:
        raise click.UsageError("--out is missing; give a folder for the results, such as --out random")
    found = random.agree(files, count, seed, out, engine, workers, terminal.progress(), reduce)
    outputs.write(lambda: random_outcome(found))
    wrong = [*found.of("different"), *found.of("undecided")]
    if wrong:
        shown = wrong[: tabular.ROWS_SHOWN]
        rows = [page.quantity(one.rows[0]) for one in shown]
        columns = [
            Column("scenario", [f"{one.scenario.name} {one.scenario.family}" for one in shown], weight=9, stays=True),
            Column("quantity", [f"{row['quantity']}, {row['place']}" for row in rows], weight=8, stays=True),
            Column("kernel", [row["kernel"] for row in rows], True, 6, stays=True),
            Column("simulator", [row["simulator"] for row in rows], True, 6, stays=True),
            Column("SD", [row["sd"] for row in rows], True, 4, stays=True),
            Column("trials", [row["trials"] for row in rows], True, 3, stays=True),
            Column("verdict", [one.verdict for one in shown], weight=9, stays=True),
        ]
        terminal.show("Not equivalent, with the largest difference of each", columns, more="; random.html has all")
        if len(wrong) > len(shown):
            terminal.say(f"... {len(wrong) - len(shown)} more in random.html")
    for one in found.of("failed")[:10]:
        terminal.err().print(f"l4slab: scenario {one.scenario.name} could not be judged: {one.failure}", markup=False)
    terminal.say(f"\nReport: {found.folder / 'random.html'}")
    status = 1 if found.of("different") or found.of("failed") else 0
    terminal.say(found.summary() + (f" (exit status {status})" if status else ""))
    return status


def _queues(
    names: Sequence[str],
    count: int,
    seed: int,
    kernel: str,
    out: str | None,
    reduce: bool,
    outputs: Outputs,
    dry_run: bool,
) -> int:
    from l4slab.tools.agreement import queues
    from l4slab.tools.agreement.queues.cases import text_of
    from l4slab.tools.agreement.queues.drawing import TREES, draw, kinds

    among = names if {*names} <= {*kinds(), *TREES} else ()
    if dry_run:
        for number in range(1, count + 1):
            terminal.say(f"# {number}\n{text_of(draw(number, seed, among).document)}")
        return 0
    if names and not among:
        judged = queues.again([Path(name) for name in names], count, kernel)
    elif out is None:
        raise click.UsageError("--out is missing; give a folder for the results, such as --out queues")
    else:
        judged = queues.agree(count, seed, usable(out), kernel, reduce, among)
    outputs.write(lambda: queues_outcome(judged))
    wrong = [one for one in judged if one.difference is not None]
    for one in wrong:
        terminal.say(f"{one.name}: {one.difference.what if one.difference else ''}")
    terminal.say(f"{len(judged) - len(wrong)} of {counted(len(judged), 'queue')} agree")
    return 1 if wrong else 0


def queues_outcome(judged: Sequence[Judged]) -> Outcome:
    """A verdict per case."""
    found = [
        Verdict(
            one.name,
            "the kernel does with these packets what the simulator does",
            "pass" if one.difference is None else "fail",
            "queues",
            measured="" if one.difference is None else one.difference.what,
        )
        for one in judged
    ]
    wrong = sum(one.difference is not None for one in judged)
    return Outcome("l4slab agree --queues", f"{len(judged) - wrong} of {counted(len(judged), 'queue')} agree", found)


def _two_kernels(
    files: Sequence[Path],
    names: tuple[str, str],
    out: str | None,
    trials: int | None,
    workers: int | None,
    outputs: Outputs,
    dry_run: bool,
) -> int:
    from l4slab.base import metrics
    from l4slab.campaign.remote import is_url
    from l4slab.cli import summary
    from l4slab.tools.agreement import changes
    from l4slab.tools.agreement import kernels as two

    if dry_run:
        for name, plans in zip(names, two.plan(files, names, trials), strict=True):
            terminal.out().print(f"{name}:")
            summary.show_plans(plans, two.engine_of(name))
        return 0
    if out is None or is_url(out):
        raise click.UsageError("--out is missing or no folder; give one for the results, such as --out kernels")
    result = two.agree(files, names, usable(out), workers, trials, console=terminal.progress())
    outputs.write(lambda: kernels_outcome(result, names))
    changed = metrics.rows_of(result.worst(), changes.ChangedRow)
    if changed:
        _show_changed(changed, names, result)
    for run, reason in result.failures[:10]:
        terminal.err().print(f"l4slab: {run} ({run.engine}): the run failed: {reason}", markup=False)
    if len(result.missing):
        terminal.err().print(
            f"{counted(len(result.missing), 'cell has', 'cells have')} not run on both kernels", markup=False
        )
    if result.trials < changes.ENOUGH_TRIALS:
        few, enough = (f"{result.shows_from(count):.0f}" for count in (result.trials, changes.ENOUGH_TRIALS))
        text = f"With {result.trials} trials a change shows if it is at least {few} standard deviations"
        terminal.err().print(
            f"{text}; give --trials {changes.ENOUGH_TRIALS} to find changes of at least {enough}.", markup=False
        )
    status = 0 if result.same else 1
    terminal.say(f"\nReport: {result.folder / 'kernels.html'}")
    terminal.say(_changed_line(result, names) + (f" (exit status {status})" if status else ""))
    return status


def _show_changed(changed: Sequence[ChangedRow], names: tuple[str, str], result: Comparison) -> None:
    from l4slab.tools.agreement import kernels_page

    rows = [kernels_page.shown(row, result) for row in changed[: tabular.ROWS_SHOWN]]
    columns = [
        Column("cell", [row["cell"] for row in rows], weight=9, folds=True, stays=True),
        Column("surest change", [f"{row['quantity']}, {row['place']}" for row in rows], weight=8),
        Column(names[1], [row["against"] for row in rows], True, 6, stays=True),
        Column(names[0], [row["kernel"] for row in rows], True, 6, stays=True),
        Column("quantities\nchanged", [row["changes"] for row in rows], True, 3),
    ]
    terminal.show("Changed cells, mean and standard deviation over trials", columns, more="; kernels.html has all")
    if len(changed) > len(rows):
        terminal.say(f"... {len(changed) - len(rows)} more in kernels.html")


def _show_agreement(result: Agreement) -> int:
    from l4slab.tools.agreement import page

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
        terminal.err().print(
            f"{counted(len(result.missing), 'cell has', 'cells have')} not run on both engines", markup=False
        )
    terminal.say(f"\nReport: {result.folder / 'agreement.html'}")
    status = 0 if result.met else 1
    terminal.say(_bars_line(result) + (f" (exit status {status})" if status else ""))
    return status


def _show_beyond(rows: list[Beyond]) -> None:
    from l4slab.tools.agreement.page import NOT_EXPLAINED

    shown = rows[: tabular.ROWS_SHOWN]
    columns = [
        Column("cell", [row["cell"] for row in shown], weight=9, folds=True),
        Column("quantity", [f"{row['quantity']}, {row['place']}" for row in shown], weight=8),
        Column("kernel", [row["kernel"] for row in shown], True, 6),
        Column("simulator", [row["simulator"] for row in shown], True, 6),
        Column("cause", [row["cause"] or NOT_EXPLAINED for row in shown], weight=2, folds=True),
    ]
    terminal.say("")
    terminal.show("Cells beyond their bar", columns, more="; agreement.html has all")
    if len(rows) > len(shown):
        terminal.say(f"... {len(rows) - len(shown)} more in agreement.html")


# -- what CI is told --------------------------------------------------------------------------------------------------


def agreement_outcome(result: Agreement) -> Outcome:
    """A verdict per bar, failed run and cell that an engine has not run."""
    from l4slab.base import metrics
    from l4slab.tools.agreement import page
    from l4slab.tools.agreement.compare import BarRow

    statuses: dict[bool | None, verdicts.Status] = {True: "pass", False: "fail", None: "undecided"}
    found = [
        Verdict(
            f"{shown['quantity']}: {row['bar'].partition(', over')[0]}",
            f"{row['bar']} {shown['wanted']}, over {row['cells']} cells",
            statuses[row["met"]],
            row["set"],
            measured=shown["measured"],
            expected=shown["wanted"],
            excess=_beyond(row),
        )
        for row, shown in zip(metrics.rows_of(result.bars, BarRow), page.bars(result.bars), strict=True)
    ]
    if not result.bars["met"].drop_nulls().len():
        found.append(Verdict("bars", "there is a bar to meet", "fail", measured="no bar has a cell to judge"))
    found += _missing(result.missing) + _failed(result.failures)
    shown_cells = page.beyond(result.rows)
    headings = ("cell", "quantity", "where", "kernel", "simulator", "cause")
    rows = [
        [
            row["cell"],
            row["quantity"],
            row["place"],
            row["kernel"],
            row["simulator"],
            row["cause"] or page.NOT_EXPLAINED,
        ]
        for row in shown_cells
    ]
    tables = (verdicts.Table("Cells beyond a bar", headings, rows),)
    return Outcome("l4slab agree", _bars_line(result), found, (), tables, str(result.folder / "agreement.html"))


def kernels_outcome(result: Comparison, names: tuple[str, str]) -> Outcome:
    """A verdict per cell, failed run and cell that a kernel has not run."""
    from l4slab.base import metrics
    from l4slab.tools.agreement import kernels_page, page
    from l4slab.tools.agreement.changes import ChangedRow

    changed = {
        shown["cell"]: (row, shown)
        for row in metrics.rows_of(result.worst(), ChangedRow)
        for shown in [kernels_page.shown(row, result)]
    }
    found = []
    for cell in result.cells.iter_rows(named=True):
        name = page.label({**cell, "engine": None}, result.cells.drop("changed"))["cell"]
        says = f"{names[0]} does what {names[1]} does"
        if name not in changed:
            found.append(Verdict(name, says, "pass", cell["experiment"]))
            continue
        row, shown = changed[name]
        where = f"{shown['quantity']}, {shown['place']}; {row['changes']} quantities changed"
        part = abs(row["difference"] / row["against"]) if row["difference"] and row["against"] else None
        found.append(Verdict(name, says, "fail", cell["experiment"], where, shown["kernel"], shown["against"], part))
    found += _missing(result.missing) + _failed(result.failures)
    command = f"l4slab agree --kernel {names[0]} --against {names[1]}"
    return Outcome(command, _changed_line(result, names), found, report=str(result.folder / "kernels.html"))


def random_outcome(found: Found) -> Outcome:
    """A verdict per scenario."""
    from l4slab.tools.agreement.random import page

    statuses: dict[str, verdicts.Status] = {
        "equivalent": "pass", "different": "fail", "undecided": "undecided", "failed": "error",
    }  # fmt: skip
    told = []
    for one in found.judged:
        worst = page.quantity(one.rows[0]) if one.rows and one.verdict != "equivalent" else None
        told.append(
            Verdict(
                one.scenario.name,
                f"kernel and simulator are equivalent in: {page.words(one.scenario.document)}",
                statuses[one.verdict],
                one.scenario.family,
                f"{worst['quantity']}, {worst['place']}" if worst else "",
                f"simulator {worst['simulator']}" if worst else one.failure or "",
                f"kernel {worst['kernel']}" if worst else "",
            )
        )
    return Outcome("l4slab agree --random", found.summary(), told, report=str(found.folder / "random.html"))


def _beyond(bar: BarRow) -> float | None:
    """How far a bar is missed, as a part of it."""
    if bar["measured"] is None or not bar["wanted"]:
        return None
    off = bar["measured"] / bar["wanted"] - 1
    return -off if "at least" in bar["bar"].partition(", over")[0] else off


def _missing(cells: pl.DataFrame) -> list[Verdict]:
    from l4slab.tools.agreement import page

    found = [(page.label(row, cells)["cell"], row) for row in cells.iter_rows(named=True)]
    return [
        Verdict(f"{cell}, {row['engine']}", "the cell has run", "error", row["experiment"], measured="it has not run")
        for cell, row in found
    ]


def _failed(failures: Sequence[tuple[Run, str]]) -> list[Verdict]:
    return [
        Verdict(f"{run} ({run.engine})", "the run ends", "error", run.experiment, measured=reason)
        for run, reason in failures
    ]


def _changed_line(result: Comparison, names: tuple[str, str]) -> str:
    changed = int(result.cells["changed"].sum())
    return f"{changed} of {len(result.cells)} cells have changed between {names[1]} and {names[0]}"


def _bars_line(result: Agreement) -> str:
    judged = result.bars["met"].drop_nulls()
    return f"{int(judged.sum())} of {len(judged)} bars met"
