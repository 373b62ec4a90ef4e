"""`l4slab stacks`."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from l4slab.base.errors import InputError
from l4slab.cli import terminal
from l4slab.cli.matrix import prove


def _names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from l4slab import stacks

    return [CompletionItem(name) for name in stacks.names() if name.startswith(incomplete)]


@click.group()
def stacks() -> None:
    """Build packaged transport stacks for flows with stack = "NAME" (l4slab list stacks)."""


@stacks.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=_names)
@click.option("--again", is_flag=True, help="Also what is built already.")
def build(names: tuple[str, ...], again: bool) -> int:
    """Build stacks, packaged ones or folders with a recipe (./mine), into the cache; finished ones are not repeated."""
    from l4slab import stacks as packaged
    from l4slab.base.progress import working
    from l4slab.stacks import building

    chosen = []
    for name in names:
        try:
            chosen.append(packaged.find(name))
        except ValueError as error:
            raise InputError(str(error), key=name) from None
    failed = 0
    for stack in chosen:
        try:
            with working(terminal.err()) as told:
                is_new = building.build(stack, told, again)
        except building.BuildError as error:
            terminal.err().print(f"l4slab: {error}", markup=False, soft_wrap=True)
            failed += 1
            continue
        what = "is built" if is_new else "was built before"
        terminal.out().print(f"{stack.name} {what}, in {stack.build}", soft_wrap=True, markup=False)
    return 1 if failed else 0


stacks.add_command(prove)
