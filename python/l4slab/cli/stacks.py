"""`l4slab stacks`."""

from __future__ import annotations

from pathlib import Path

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
@click.option(
    "--source",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Source of a stack that is in no registry (scream).",
)
def build(names: tuple[str, ...], again: bool, source: Path | None) -> int:
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
    if source is not None and (other := next((one.name for one in chosen if not one.recipe.source), None)):
        raise InputError(f"{other} gets its source itself; leave --source out", key=other)
    failed = 0
    for stack in chosen:
        try:
            with working(terminal.err()) as told:
                is_new = building.build(stack, told, again, source)
        except building.BuildError as error:
            terminal.err().print(f"l4slab: {error}", markup=False, soft_wrap=True)
            failed += 1
            continue
        what = "is built" if is_new else "was built before"
        terminal.out().print(f"{stack.name} {what}, in {stack.build}", soft_wrap=True, markup=False)
    return 1 if failed else 0


@stacks.command("import")
@click.argument("image", metavar="IMAGE", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@click.option("--cc", "controllers", metavar="NAME", multiple=True, help="A controller that it has; may be repeated.")
@click.option("--server-params", metavar="TEXT", default="", help="SERVER_PARAMS; {cc} stands for the controller.")
@click.option("--client-params", metavar="TEXT", default="", help="CLIENT_PARAMS.")
@click.option("--directory", metavar="DIR", default="/", help="The image's working directory.  [default: /]")
@click.option("--entry", metavar="FILE", default="/run_endpoint.sh", help="Its entry.  [default: /run_endpoint.sh]")
def import_(
    image: Path,
    folder: Path,
    controllers: tuple[str, ...],
    server_params: str,
    client_params: str,
    directory: str,
    entry: str,
) -> int:
    """Write a recipe into FOLDER for an endpoint of the QUIC Interop Runner, whose image is unpacked in IMAGE."""
    from l4slab.stacks import importing

    importing.write(folder, image, controllers, (server_params, client_params), directory, entry)
    terminal.out().print(f"{folder} has the recipe; now: l4slab stacks build ./{folder}", soft_wrap=True, markup=False)
    return 0


stacks.add_command(prove)
