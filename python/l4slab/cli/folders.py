"""Commands about a results folder."""

from __future__ import annotations

from dataclasses import asdict

import click

from l4slab.cli import options, terminal
from l4slab.cli.terminal import Column


@click.command()
@click.argument("folder", metavar="DIR")
def report(folder: str) -> int:
    """Write DIR/report.html again from the results in DIR."""
    from l4slab import campaign

    terminal.out().print(campaign.report(folder), soft_wrap=True, markup=False)
    return 0


@click.command()
@click.argument("folder", metavar="DIR")
@options.as_json
def status(folder: str, as_json: bool) -> int:
    """How much of the campaign in DIR is done."""
    from l4slab import campaign

    state = campaign.status(folder)
    if as_json:
        terminal.as_json(
            {"folder": folder, "bytes": state.size, "experiments": [asdict(row) for row in state.experiments]}
        )
        return 0
    numbers = {
        "finished": [row.finished for row in state.experiments],
        "of": [row.planned for row in state.experiments],
        "to go": [row.planned - row.finished for row in state.experiments],
    }
    names = Column("experiment", [row.name for row in state.experiments], stays=True)
    columns = [Column(name, [str(number) for number in column], True, stays=True) for name, column in numbers.items()]
    terminal.show("Runs", [names, *columns])
    terminal.say(f"{state.size / 1e6:.1f} MB in {folder}")
    return 0
