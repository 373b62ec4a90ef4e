"""`l4slab agree`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from l4slab.cli import options, terminal
from l4slab.engines import ENGINES

if TYPE_CHECKING:
    from l4slab.agreement import Agreement

_CAUSE_SHOWN = 60


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME|FILE]...", shell_complete=options.comparison_names)
@click.option("--out", metavar="DIR", help="Folder for the results.")
@click.option("--trials", type=int, metavar="N", help="Trials on each engine; default: what the files say.")
@options.workers
@options.dry_run
def agree(names: tuple[str, ...], out: str | None, trials: int | None, workers: int | None, dry_run: bool) -> int:
    """Compare simulator and kernel on the same experiments; finished runs in DIR are not repeated.

    NAME is a packaged comparison ("l4slab list comparisons"); without any, all of them.
    """
    from l4slab import agreement
    from l4slab.cli import summary

    files = agreement.find(names)
    if dry_run:
        for engine, plans in zip(ENGINES, agreement.plan(files, trials), strict=True):
            terminal.out().print(f"{engine}:")
            summary.show_plans(plans)
        return 0
    if out is None:
        raise click.UsageError("--out is missing; give a folder for the results, such as --out agreement")
    return _show_agreement(agreement.agree(files, out, workers, trials, console=terminal.err()))


def _show_agreement(result: Agreement) -> int:
    from rich.table import Table

    from l4slab.agreement import page

    table = Table(title="Bars", title_justify="left", title_style="bold", box=None, pad_edge=False)
    names = ("set", "quantity", "bar", "wanted", "measured", "by_chance", "cells")
    for name in (*names, "met"):
        table.add_column(name, justify="right" if name in ("wanted", "measured", "by_chance", "cells") else "left")
    for row in page.bars(result.bars):
        met = "" if row["met"] is None else "yes" if row["met"] else "no"
        table.add_row(*(str(row[n]) for n in names), met, style="red" if row["met"] is False else "")
    terminal.out().print(table)
    beyond = page.beyond(result.rows)
    if beyond:
        _show_beyond(beyond)
    for run, reason in result.failures[:10]:
        terminal.err().print(f"l4slab: {run} ({run.engine}): the run failed: {reason}", markup=False)
    for note in result.notes:
        terminal.err().print(note, markup=False)
    if len(result.missing):
        terminal.err().print(f"{len(result.missing)} cells have not run on both engines", markup=False)
    terminal.out().print(f"\nReport: {result.folder / 'agreement.html'}", soft_wrap=True, markup=False)
    return 0 if result.met else 1


def _show_beyond(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from l4slab.agreement.page import NOT_EXPLAINED

    table = Table(title="\nCells beyond", title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in ("cell", "quantity", "kernel", "simulator", "cause"):
        table.add_column(name, justify="right" if name in ("kernel", "simulator") else "left")
    for row in rows[: terminal.ROWS_SHOWN]:
        table.add_row(
            row["cell"],
            f"{row['quantity']}, {row['place']}",
            row["kernel"],
            row["simulator"],
            _shortened(row["cause"] or NOT_EXPLAINED),
        )
    terminal.out().print(table)
    if len(rows) > terminal.ROWS_SHOWN:
        terminal.out().print(f"... {len(rows) - terminal.ROWS_SHOWN} more in agreement.html")


def _shortened(text: str) -> str:
    return text if len(text) <= _CAUSE_SHOWN else text[: _CAUSE_SHOWN - 3].rstrip() + "..."
