"""`l4slab init` and `l4slab trace`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from l4slab.base.errors import InputError, suggest
from l4slab.base.paths import unwritable, usable
from l4slab.cli import options, schema, terminal

# What `init` can start from: the file `presets/NAME.toml`, and what it asks.
PRESETS = {
    "call": "a video call both ways beside uploads",
    "game": "a cloud game beside a download and uploads",
    "desktop": "a remote desktop beside uploads",
    "home-wifi": "four stations behind an access point",
    "cable": "a home behind a cable modem",
    "5g": "three phones in a cell",
    "leo": "a home behind a satellite terminal",
    "dsl": "a home behind VDSL2",
    "fibre": "a home behind fibre",
}


def _presets(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    return [CompletionItem(name, help=text) for name, text in PRESETS.items() if name.startswith(begun)]


@click.command()
@click.argument("name", required=False, metavar="[NAME]")
@click.option(
    "--preset",
    metavar="PRESET",
    shell_complete=_presets,
    help="Start from " + ", ".join(f"{name} ({text})" for name, text in PRESETS.items()) + ".",
)
@click.option(
    "--study",
    metavar="STUDY",
    shell_complete=options.study_names,
    help="Write the files of this study into the folder NAME instead; default: its name.",
)
def init(name: str | None, preset: str | None, study: str | None) -> int:
    """Write NAME.toml (default: experiment.toml), a commented experiment that runs.

    Also write l4slab.schema.json beside it, with which an editor completes and checks keys (l4slab schema).
    """
    if study is not None:
        if preset is not None:
            raise click.UsageError("--study and --preset exclude each other; give one of them")
        return _init_study(Path(name or study), study)
    name = name or "experiment"
    if preset is not None and preset not in PRESETS:
        raise InputError(f'= "{preset}" is not a preset; {suggest(preset, PRESETS)}', key="--preset")
    if usable(name).is_dir() or not Path(name).name:
        raise InputError("is a folder; give the name of a file, such as: l4slab init mine", file=name)
    file = Path(name if name.endswith(".toml") else f"{name}.toml")
    template = "template.toml" if preset is None else f"presets/{preset}.toml"
    text = (files("l4slab.cli") / template).read_text(encoding="utf-8")
    text = text.replace("FILE", str(file)).replace("results/NAME", f"results/{file.stem}")
    _write_new(file, f"#:schema {schema.NAME}\n{text}")
    _write(file.with_name(schema.NAME), schema.text(), "w")
    terminal.say(f"{file} is written; run it with: l4slab run {file}")
    return 0


def _init_study(folder: Path, name: str) -> int:
    from l4slab.base.packaged import study

    files = study(name)
    sources = [file for file in sorted(files[0].parent.iterdir()) if file.is_file() and not file.name.startswith("_")]
    try:
        usable(folder).mkdir(parents=True)
        for source in sources:
            (folder / source.name).write_bytes(source.read_bytes())
    except FileExistsError:
        raise InputError("exists already; give another NAME, or remove it", file=folder) from None
    except OSError as error:
        raise unwritable(folder, error) from None
    names = " ".join(str(folder / file.name) for file in files)
    terminal.say(f"The study is in {folder}; run it with: l4slab run {names} --out results/{folder.name}")
    return 0


@click.command()
@click.argument("kind", metavar="KIND")
@click.option("--seed", default=1, show_default=True, help="Seed of the random numbers.")
@click.option("--duration", default="60s", show_default=True, help="Length; the trace repeats after it.")
@click.option(
    "--scale",
    default=0.0,
    help="lte: largest Mbit/s; wifi: Mbit/s while sending; docsis: mean Mbit/s; leo: height in km.",
)
@click.option("--out", metavar="FILE", help="File to write; default: KIND.csv.")
def trace(kind: str, seed: int, duration: str, scale: float, out: str | None) -> int:
    """Write a trace from a published model: lte, wifi, leo or docsis.

    The file names its source and what it leaves out. Use it as rate_trace of a link (leo: as delay_trace of a flow).
    """
    from l4slab.base.units import TIME
    from l4slab.tools import generators

    if kind not in generators.GENERATORS:
        raise InputError(f"is not a kind of trace; {suggest(kind, generators.GENERATORS)}", file=kind)
    try:
        seconds = TIME.parse(duration) / 1e9
    except ValueError as error:
        raise InputError(f'= "{duration}" {error}', key="--duration") from None
    if not 1 <= seconds <= _LONGEST_S:
        raise InputError(f'= "{duration}" is not between 1s and {_LONGEST_S}s; choose one of these', key="--duration")
    if not 0 <= scale <= _LARGEST_SCALE:
        raise InputError(
            f"= {scale:g} is not between 0 and {_LARGEST_SCALE:g}; leave it out for the source's", key="--scale"
        )
    file = usable(out or f"{kind}.csv")
    _write_new(file, generators.written(kind, seed, seconds, scale))
    key = "delay_trace" if generators.GENERATORS[kind].is_delay else "rate_trace"
    terminal.say(f'{file} is written; an experiment beside it takes it as {key} = "{file.name}"')
    return 0


_LONGEST_S = 3600
_LARGEST_SCALE = 100_000.0


def _write_new(file: Path, text: str) -> None:
    _write(file, text, "x")


def _write(file: Path, text: str, mode: str) -> None:
    try:
        with file.open(mode, encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise InputError(
            "is there already and is left alone; give another name, or remove it first", file=file
        ) from None
    except OSError as error:
        raise unwritable(file, error) from None
