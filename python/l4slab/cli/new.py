"""`l4slab new`."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path

import click

from l4slab.base.errors import InputError, L4slabError
from l4slab.cli import terminal

# For each language: the template's ending, its target, accompanying files, the name in an experiment, and the build
# command.
_LANGUAGES = {
    "python": ("py", "{name}.py", (), "{name}.py:{of}", ""),
    "c": ("c", "{name}.c", ("Makefile", "l4slab.h"), "./lib{name}.so", "make"),
    "rust": (
        "rs",
        "src/lib.rs",
        ("Cargo.toml", "src/l4slab.rs"),
        "./target/release/lib{name}.so",
        "cargo build --release",
    ),
}


@click.command()
@click.argument("what", type=click.Choice(["controller", "media", "queue"]))
@click.argument("name")
@click.option("--python", is_flag=True, help="A class (the default).")
@click.option("--c", is_flag=True, help="A library in C.")
@click.option("--rust", is_flag=True, help="A library in Rust.")
def new(what: str, name: str, **chosen: bool) -> int:
    """Write a custom controller, of TCP or of media, or queue that works, with an experiment and a test.

    The files are in a new folder NAME.
    """
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise InputError("is no name for code; use small letters, digits and _, such as mine", key=name)
    languages = [language for language in _LANGUAGES if chosen[language]] or ["python"]
    if len(languages) > 1:
        raise click.UsageError(f"{' and '.join(f'--{one}' for one in languages)} exclude each other; give one of them")
    (language,) = languages
    folder = Path(name)
    ending, source, more, reference, build = _LANGUAGES[language]
    names = {"NAME": name, "CLASS": "".join(part.capitalize() for part in name.split("_"))}
    names["REFERENCE"] = reference.format(name=name, of=names["CLASS"])
    written = {
        source.format(name=name): f"templates/{what}.{ending}",
        f"{name}.toml": f"templates/{what}.toml",
        f"test_{name}.py": f"templates/test_{what}.py",
    }
    written |= {path: f"templates/{path}" if "l4slab" not in path else f"include/{Path(path).name}" for path in more}
    try:
        folder.mkdir()
        for path, template in written.items():
            text = (files("l4slab.own") / template).read_text(encoding="utf-8")
            if template.startswith("templates/"):
                text = re.sub("NAME|CLASS|REFERENCE", lambda found: names[found[0]], text)
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except FileExistsError:
        raise InputError(
            "is there already and is left alone; give another name, or remove it first", file=name
        ) from None
    except OSError as error:
        raise L4slabError(f"{name} cannot be written: {error.strerror or error}") from None
    steps = [f"cd {name}", *([build] if build else []), f"python3 test_{name}.py", f"l4slab run {name}.toml"]
    terminal.say(f"{name}/ is written ({', '.join(written)}); go on with: {' && '.join(steps)}")
    return 0
