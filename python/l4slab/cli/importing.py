"""`l4slab import`."""

from __future__ import annotations

import click

from l4slab.base.errors import InputError
from l4slab.base.paths import usable
from l4slab.cli import terminal


@click.command("import")
@click.argument("file")
@click.option("--out", metavar="FILE", help="File to write, or folder for flent; default: the name of FILE.")
@click.option("--format", "kind", metavar="FORMAT", help="Format of FILE, where it is not to be guessed.")
@click.option("--time", "time", metavar="COLUMN", help="CSV: the column of times.")
@click.option("--rate", "rate", metavar="COLUMN[:UNIT]", help="CSV: the column of rates, such as dl:kbps.")
@click.option("--link-rate", default="100Mbit", show_default=True, help="Rate of devices that FILE does not say.")
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="A variable of a script.")
def import_(
    file: str,
    out: str | None,
    kind: str | None,
    time: str | None,
    rate: str | None,
    link_rate: str,
    given: tuple[str, ...],
) -> int:
    """Write an experiment from a file of another tool: tc, sqm, LibreQoS, mahimahi, Mininet, traces, flent.

    Comments in the experiment say what was taken, what was left out and why.
    """
    from l4slab import experimentfile, sweep
    from l4slab.base.units import RATE
    from l4slab.tools import importing
    from l4slab.tools.importing import flent

    source = usable(file)
    if flent.is_flent(source):
        if not source.is_file():
            raise InputError("is not there", file=file)
        folder = usable(out or f"{source.name.partition('.flent')[0]}-results")
        if (folder / "flows.parquet").exists():
            raise InputError("has results already; give another folder with --out", file=folder)
        taken, left = flent.convert(source, folder)
        for title, notes in (("taken", taken), ("left out", left)):
            for note in notes:
                terminal.say(f"{title}: {note}")
        terminal.say(f"{folder} is written; l4slab compare and l4slab.plot read it")
        return 0
    try:
        RATE.parse(link_rate)
    except ValueError as error:
        raise InputError(f'= "{link_rate}" {error}', key="--link-rate") from None
    if wrong := [one for one in given if "=" not in one]:
        raise InputError(f'= "{wrong[0]}" is not NAME=VALUE', key="--set")
    variables = dict(one.split("=", 1) for one in given)
    draft = importing.read(source, kind=kind, rate=link_rate, columns=(time, rate), given=variables)
    target = usable(out or f"{source.stem.replace('.', '_')}.toml")
    files = {target: draft.text()} | {target.parent / name: text for name, text in draft.files.items()}
    for path, text in files.items():
        is_itself = path.exists() and path.resolve() == (source.parent / path.name).resolve() and path != target
        if path.exists() and not (is_itself and path.read_text(encoding="utf-8") == text):
            raise InputError("is there already; give another name with --out", file=path)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    experiment = experimentfile.load(target)
    sweep.describe(experiment, {})
    for note in draft.left:
        terminal.say(f"left out: {note}")
    terminal.say(f"{', '.join(str(path) for path in files)}: written; look at the comments, then: l4slab run {target}")
    return 0
