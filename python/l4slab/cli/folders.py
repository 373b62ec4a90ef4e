"""Commands about a results folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from l4slab.base.tabular import Column
from l4slab.cli import options, terminal


@click.command()
@click.argument("folder", metavar="DIR")
@click.option(
    "--open", "browse", is_flag=True, help="Show the report in the browser, served on this machine until Ctrl-C."
)
@click.option(
    "--figures",
    type=click.Choice(["png", "pdf", "svg"]),
    metavar="png|pdf|svg",
    help="Also write its figures to DIR/figures.",
)
def report(folder: str, browse: bool, figures: str | None) -> int:
    """Write tables and DIR/report.html again from the runs in DIR."""
    from l4slab.api import campaign
    from l4slab.campaign import remote

    if browse and remote.is_url(folder):
        raise click.UsageError(
            f"--open shows a folder of this machine, and {folder} is a URL; open its report.html there"
        )
    terminal.out().print(campaign.report(folder, figures, terminal.progress()), soft_wrap=True, markup=False)
    if figures is not None:
        terminal.out().print(f"{Path(folder) / 'figures'}", soft_wrap=True, markup=False)
    if browse:
        from l4slab.report.serve import serve

        serve(
            Path(folder), "report.html", lambda address: terminal.err().print(f"{address} until Ctrl-C", markup=False)
        )
    return 0


@click.command()
@click.argument("folder", metavar="DIR")
@options.as_json
def status(folder: str, as_json: bool) -> int:
    """Show how much of the campaign in DIR is done."""
    from l4slab.api import campaign

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
    labels = [row.name for row in state.experiments]
    if len(labels) > 1:
        labels.append("all")
        numbers = {name: [*column, sum(column)] for name, column in numbers.items()}
    names = Column("experiment", labels, stays=True)
    columns = [Column(name, [str(number) for number in column], True, stays=True) for name, column in numbers.items()]
    terminal.show("Runs", [names, *columns])
    terminal.say(f"{state.size / 1e6:.1f} MB in {folder}")
    return 0
