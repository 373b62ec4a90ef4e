"""`l4slab init`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from l4slab.cli import terminal
from l4slab.errors import InputError


@click.command()
@click.argument("name", default="experiment", metavar="[NAME]")
def init(name: str) -> int:
    """Write NAME.toml, a commented experiment that runs as it stands; default: experiment.toml."""
    if Path(name).is_dir() or not Path(name).name:
        raise InputError("is a folder; give the name of a file, such as: l4slab init mine", file=name)
    file = Path(name if name.endswith(".toml") else f"{name}.toml")
    text = (files("l4slab.cli") / "template.toml").read_text(encoding="utf-8")
    text = text.replace("FILE", str(file)).replace("results/NAME", f"results/{file.stem}")
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise InputError(
            "is there already and is left alone; give another name, or remove it first", file=file
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(
            f"cannot be written ({reason}); give a name in a folder that you may write", file=file
        ) from None
    terminal.say(f"{file} is written; run it with: l4slab run {file}")
    return 0
