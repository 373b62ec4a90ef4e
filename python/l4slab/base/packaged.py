"""The published studies that ship with the package: a folder of experiment files each."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from l4slab.base.errors import InputError, one_line, suggest

_AGREE = "agree"
_CHECK = "check"
_CHECK_MEDIA = "check-media"
_CHECK_QUEUE = "check-queue"
_RANDOM = "random"
_ATLAS = "atlas"


def studies() -> dict[str, list[Path]]:
    """Each study's experiment files, in order."""
    with as_file(files("l4slab") / "studies") as folder:
        found = {path.name: sorted(path.glob("*.toml")) for path in sorted(folder.iterdir()) if path.is_dir()}
    return {name: experiments for name, experiments in found.items() if experiments}


def comparisons() -> dict[str, Path]:
    """The experiment files on which simulator and kernel are compared (`l4slab agree`), by name."""
    with as_file(files("l4slab") / "suites" / _AGREE) as folder:
        return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def random_files() -> list[Path]:
    """The experiment files whose `[search]` `l4slab agree --random` draws its scenarios from."""
    with as_file(files("l4slab") / "suites" / _RANDOM) as folder:
        return sorted(folder.glob("*.toml"))


def requirements(media: bool = False) -> list[Path]:
    """The experiment files that judge a congestion control (`l4slab check`), or one for media, in order."""
    with as_file(files("l4slab") / "suites" / (_CHECK_MEDIA if media else _CHECK)) as folder:
        return sorted(folder.glob("*.toml"))


def queue_requirements() -> list[Path]:
    """The experiment files that judge a queue (`l4slab check --queue`), in order."""
    with as_file(files("l4slab") / "suites" / _CHECK_QUEUE) as folder:
        return sorted(folder.glob("*.toml"))


def atlas() -> list[Path]:
    """The experiment files of the map of harm (`l4slab advise`), in order."""
    with as_file(files("l4slab") / "suites" / _ATLAS) as folder:
        return sorted(folder.glob("*.toml"))


def study(name: str) -> list[Path]:
    """The experiment files of one study. Raises InputError."""
    known = studies()
    if name not in known:
        is_file = name.endswith(".toml")
        remedy = f"run a file of your own with: l4slab run {name}" if is_file else suggest(name, known)
        raise InputError(f"{name} is not a study; {remedy}")
    return known[name]


@dataclass(frozen=True)
class About:
    """The title and description of an experiment file."""

    title: str
    about: str
    stated: str  # how much it states about results


def about(file: Path | str) -> About:
    """The title and description of a packaged experiment file."""
    path = Path(file)
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    counts = {"claims": len(document.get("claim", ())), "published figures": len(document.get("published", ()))}
    stated = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return About(document.get("title", path.stem), one_line(document.get("about", "")), stated)
