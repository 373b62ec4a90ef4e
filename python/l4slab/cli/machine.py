"""What this machine can do: `l4slab doctor`, and the kernel of `l4slab linux`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from l4slab.cli import options, terminal


@click.group()
def linux() -> None:
    """The real kernel that --engine linux runs on."""


@linux.command()
@click.option("--kernel", metavar="PATH", type=click.Path(path_type=Path), help="Use this kernel (ARCH=um).")
@click.option("--jobs", type=int, metavar="N", help="Compilations at once; default: one per core.")
def build(kernel: Path | None, jobs: int | None) -> int:
    """Fetch sources and build the kernel; what is there already is not done again."""
    from l4slab.engines.linux import build as laboratory
    from l4slab.progress import building

    with building(terminal.err()) as progress:
        made = laboratory.build(progress, kernel, jobs)
    terminal.out().print(f"Linux {made.version} is ready in {laboratory.cache()}.", soft_wrap=True, markup=False)
    return 0


@click.command()
@options.as_json
def doctor(as_json: bool) -> int:
    """Look whether this machine can run experiments."""
    from rich.markup import escape
    from rich.table import Table

    from l4slab.doctor import examine

    findings = list(examine())
    status = 0 if all(finding.ok for finding in findings) else 1
    if as_json:
        terminal.as_json({"findings": [asdict(finding) for finding in findings], "exit_status": status})
        return status
    table = Table(box=None, pad_edge=False, show_header=False)
    for finding in findings:
        table.add_row("ok" if finding.ok else "[red]no[/]", finding.what, escape(finding.text))
    terminal.out().print(table)
    return status
