"""Commands about a results folder."""

from __future__ import annotations

import click

from l4slab.cli import terminal


@click.command()
@click.argument("folder", metavar="DIR")
def report(folder: str) -> int:
    """Write DIR/report.html again from the results in DIR."""
    from l4slab import campaign

    terminal.out().print(campaign.report(folder), soft_wrap=True, markup=False)
    return 0


@click.command()
@click.argument("folder", metavar="DIR")
def status(folder: str) -> int:
    """How much of the campaign in DIR is done."""
    from rich.table import Table

    from l4slab import campaign

    table = Table(box=None, pad_edge=False)
    for name in ("experiment", "finished", "of", "to go"):
        table.add_column(name, justify="left" if name == "experiment" else "right")
    state = campaign.status(folder)
    for row in state.experiments:
        table.add_row(row.name, str(row.finished), str(row.planned), str(row.planned - row.finished))
    terminal.out().print(table)
    terminal.out().print(f"{state.size / 1e6:.1f} MB in {folder}", soft_wrap=True, markup=False)
    return 0
