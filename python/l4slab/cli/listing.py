"""`l4slab list`."""

from __future__ import annotations

import click

from l4slab.cli import terminal
from l4slab.errors import suggest

_LISTS = ("qdiscs", "controllers", "studies", "comparisons")


@click.command("list")
@click.argument("what", required=False, metavar="[qdiscs|controllers|studies|comparisons]")
@click.option("--markdown", is_flag=True, help="Queues and controllers with all that is known, as Markdown.")
def list_(what: str | None, markdown: bool) -> int:
    """What experiments can use: queue disciplines, congestion controls, studies, comparisons with the kernel."""
    from rich.markup import escape
    from rich.table import Table

    from l4slab import _core, parameters
    from l4slab.studies import comparisons, studies, title_of

    if markdown:
        click.echo(parameters.markdown(), nl=False)
        return 0
    if what is not None and what not in _LISTS:
        raise click.UsageError(f"cannot list {what}; {suggest(what, _LISTS)}")
    for kind in _LISTS if what is None else (what,):
        table = Table(title=kind, title_justify="left", title_style="bold", box=None, pad_edge=False, show_header=False)
        if kind == "studies":
            for name, files in studies().items():
                table.add_row(name, ", ".join(file.stem for file in files))
        elif kind == "comparisons":
            for name, file in comparisons().items():
                table.add_row(name, title_of(file))
        else:
            for entry in _core.qdiscs() if kind == "qdiscs" else _core.controllers():
                table.add_row(f"[bold]{entry['name']}[/]", entry["summary"])
                if what and entry["required"]:
                    table.add_row("  [i]required[/]", f"for example {entry['required']}")
                for parameter in entry["parameters"] if what else ():
                    words, meaning = parameters.described(parameter)
                    table.add_row(f"  {escape(words)}", escape(meaning))
                for gauge in entry["gauges"] if what else ():
                    table.add_row(f"  [i]{gauge['name']}[/]", escape(f"gauge: {gauge['help']}"))
                for preset in entry["presets"] if what else ():
                    sets = ", ".join(f"{name} {value}" for name, value in preset["sets"])
                    table.add_row(f"  {preset['keyword']} {preset['value']}", f"makes the defaults {sets}")
        terminal.out().print(table)
        terminal.out().print()
    return 0
