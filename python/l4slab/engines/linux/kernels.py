"""The kernels in the cache: the one of `l4slab linux build`, and those beside it that were built with a name.

CACHE/linux, kernel.json              the kernel that --engine linux runs on, and what is known of it
CACHE/kernels/NAME/linux, kernel.json  that of --engine linux:NAME
CACHE/root                            the virtual machine's file system, which all of them have
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from l4slab.base.errors import InputError, suggest

DEFAULT = "default"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Kernel:
    """A kernel to boot. `controls`: its congestion controls, None where that is not known before it runs; `qdiscs`:
    the queues of its out-of-tree modules; `made_from`: what it was built from, in words.
    """

    path: Path
    version: str
    controls: tuple[str, ...] | None
    qdiscs: tuple[str, ...] = ()
    name: str = DEFAULT
    made_from: str = ""


def cache() -> Path:
    """Where kernels and user land are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "l4slab" / "linux"


def folder_of(name: str) -> Path:
    """Where a kernel is kept."""
    return cache() if name == DEFAULT else cache() / "kernels" / name


def checked_name(name: str) -> str:
    """A name that can be one of a folder and of an engine. Raises InputError."""
    if not _NAME.fullmatch(name):
        raise InputError(f"--name {name} is no name of a kernel; use letters, digits, . _ and -")
    return name


def installed(name: str = DEFAULT) -> Kernel | None:
    """The kernel of this name, None where it is not there. The default is that of `L4SLAB_KERNEL`, if that is set."""
    if name == DEFAULT and (own := os.environ.get("L4SLAB_KERNEL")):
        return Kernel(Path(own), "", None)
    folder = folder_of(name)
    try:
        stamp = json.loads((folder / "kernel.json").read_text())
        if not os.access(folder / "linux", os.X_OK):
            return None
        words = stamp.get("made_from", "")
        qdiscs = tuple(stamp.get("qdiscs", ()))
        return Kernel(folder / "linux", stamp["version"], tuple(stamp["controls"]), qdiscs, name, words)
    except (OSError, ValueError, KeyError):
        return None


def named() -> list[Kernel]:
    """The kernels beside the default one, by name."""
    found = (installed(path.name) for path in sorted((cache() / "kernels").glob("*")) if path.is_dir())
    return [kernel for kernel in found if kernel is not None]


def named_kernel(name: str) -> Kernel:
    """The kernel of this name, which is not the default. Raises InputError."""
    found = installed(name) if _NAME.fullmatch(name) else None
    if found is None:
        known = [kernel.name for kernel in named()]
        remedy = suggest(name, known) if known else "build it with: l4slab linux build --name NAME --patch FILE"
        raise InputError(f"{name} is not a kernel in the cache; {remedy}")
    return found


def controllers() -> set[str]:
    """The congestion controls that some kernel in the cache has."""
    every = [*named(), installed()]
    return {name for kernel in every if kernel is not None for name in kernel.controls or ()}


def qdiscs() -> set[str]:
    """The queues of out-of-tree modules that some kernel in the cache has."""
    return {name for kernel in named() for name in kernel.qdiscs}
