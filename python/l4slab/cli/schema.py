"""`l4slab schema`."""

from __future__ import annotations

from importlib.resources import files

import click

# Beside a file that `l4slab init` writes; the first line of the file names it.
NAME = "l4slab.schema.json"


def text() -> str:
    """The JSON Schema of the experiment file."""
    # By the path, because the folder's package takes long to import.
    return (files("l4slab") / "experimentfile" / "experiment.schema.json").read_text("utf-8")


@click.command()
def schema() -> int:
    """Print the JSON Schema of the experiment file, with which an editor completes and checks keys.

    The line "#:schema l4slab.schema.json" at the top of a file names the schema to editors that use taplo, such as
    Visual Studio Code with "Even Better TOML". l4slab init writes both.
    """
    click.echo(text(), nl=False)
    return 0
