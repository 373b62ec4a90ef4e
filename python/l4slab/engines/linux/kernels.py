"""The kernels that can be booted, and where each of them is.

CACHE/linux, kernel.json              the kernel that `l4slab linux build` has made, and what is known of it
CACHE/kernels/NAME/linux, kernel.json  that of --engine linux:NAME
CACHE/root, root.json                 the virtual machine's file system, which all of them have

The package `l4slab-linux` has a kernel in a folder of the same shape. The default kernel is the one that
`L4SLAB_KERNEL` names, else that of the cache if it is current, else that of the package.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from l4slab.base.errors import InputError, suggest
from l4slab.engines.linux import user_land
from l4slab.engines.linux.compiling import DATA, recipe

DEFAULT = "default"
# The package's version is this number and the kernel's version. The number changes where kernel or laboratory are made
# in another way, so that pip finds the package that this version can use (pyproject.toml, extra `linux`).
PACKAGE, RECIPE = "l4slab-linux", 3
# What the laboratory's own program, which the package has, is made from.
LABORATORY = ("lab.c", "programs.h", "init.sh")
_BUILD = "l4slab linux build"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Kernel:
    """A kernel to boot. `controls`: its congestion controls, None where that is not known before it runs; `root`: the
    virtual machine's file system; `qdiscs`: the queues of its out-of-tree modules; `made_from`: what it was built from,
    in words; `is_current`: whether this version would build the same; `package`: the version of the package that `root`
    belongs to, empty where it was built here.
    """

    path: Path
    version: str
    controls: tuple[str, ...] | None
    root: Path
    qdiscs: tuple[str, ...] = ()
    name: str = DEFAULT
    made_from: str = ""
    is_current: bool = True
    package: str = ""


def cache() -> Path:
    """Where kernels and user land are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "l4slab" / "linux"


def folder_of(name: str) -> Path:
    """Where a kernel is kept."""
    return cache() if name == DEFAULT else cache() / "kernels" / name


def laboratory() -> str:
    """The folder in `lab` of a file system with the laboratory's own program and what boots it. Each version of their
    source has its own, so that several versions of l4slab can use the same cache.
    """
    return hashlib.sha256(b"".join((DATA / name).read_bytes() for name in LABORATORY)).hexdigest()[:16]


def fingerprint() -> str:
    """The sources that `RECIPE` numbers."""
    return hashlib.sha256(f"{recipe()} {laboratory()} {user_land.PACKAGES}".encode()).hexdigest()[:16]


def checked_name(name: str) -> str:
    """A name that can be one of a folder and of an engine. Raises InputError."""
    if not _NAME.fullmatch(name):
        raise InputError(f"--name {name} is no name of a kernel; use letters, digits, . _ and -")
    return name


def installed(name: str = DEFAULT) -> Kernel | None:
    """The kernel of this name, None where it is not there. `ready` says whether it can be booted."""
    if name != DEFAULT:
        return _read(folder_of(name), cache() / "root", name)
    packaged = package()
    if own := os.environ.get("L4SLAB_KERNEL"):
        if packaged is None or user_land.is_there(cache() / "root"):
            return Kernel(Path(own), "", None, cache() / "root")
        is_current = (packaged.root / "lab" / laboratory()).is_dir()
        return Kernel(Path(own), "", None, packaged.root, is_current=is_current, package=packaged.package)
    kept = _read(cache(), cache() / "root")
    if packaged is None or (kept is not None and kept.is_current and user_land.is_there(kept.root)):
        return kept
    return kept if kept is not None and not packaged.is_current else packaged


def package() -> Kernel | None:
    """The kernel of the package `l4slab-linux`, None where that is not installed."""
    spec = find_spec(PACKAGE.replace("-", "_"))
    folder = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    return None if folder is None else _read(folder, folder / "root")


def _read(folder: Path, root: Path, name: str = DEFAULT) -> Kernel | None:
    try:
        known = json.loads((folder / "kernel.json").read_text())
        if not os.access(folder / "linux", os.X_OK):
            return None
        version, controls = known["version"], tuple(known["controls"])
    except (OSError, ValueError, KeyError):
        return None
    qdiscs, words, package = tuple(known.get("qdiscs", ())), known.get("made_from", ""), known.get("package", "")
    is_current = known.get("inputs") in ("own", recipe())
    if package:
        is_current = is_current and user_land.is_there(root) and (root / "lab" / laboratory()).is_dir()
        words = f"{PACKAGE} {package}"
    return Kernel(folder / "linux", version, controls, root, qdiscs, name, words, is_current, package)


def ready(name: str = DEFAULT) -> Kernel:
    """The kernel of this name, which can be booted. Raises InputError where it cannot."""
    kernel = installed(name)
    if kernel is None and name != DEFAULT:
        raise InputError(f"there is no kernel {name}; build it with: {_BUILD} --name {name}")
    if kernel is None:
        raise InputError(f"there is no kernel yet; install the package {PACKAGE}, or build one with: {_BUILD}")
    if kernel.package and not kernel.is_current:
        raise InputError(
            f"the package {PACKAGE} {kernel.package} is for another version of l4slab; install one of version "
            f"{RECIPE}.*, or build a kernel with: {_BUILD}"
        )
    if not user_land.is_there(kernel.root):
        raise InputError(f"the user land in {kernel.root} is not complete; finish it with: {_BUILD}")
    return kernel


def named() -> list[Kernel]:
    """The kernels beside the default one, by name."""
    found = (installed(path.name) for path in sorted((cache() / "kernels").glob("*")) if path.is_dir())
    return [kernel for kernel in found if kernel is not None]


def named_kernel(name: str) -> Kernel:
    """The kernel of this name, which is not the default. Raises InputError."""
    found = installed(name) if _NAME.fullmatch(name) else None
    if found is None:
        known = [kernel.name for kernel in named()]
        remedy = suggest(name, known) if known else f"build it with: {_BUILD} --name NAME --patch FILE"
        raise InputError(f"{name} is not a kernel in the cache; {remedy}")
    return found


def controllers() -> set[str]:
    """The congestion controls that some kernel here has."""
    every = [*named(), installed()]
    return {name for kernel in every if kernel is not None for name in kernel.controls or ()}


def qdiscs() -> set[str]:
    """The queues of out-of-tree modules that some kernel in the cache has."""
    return {name for kernel in named() for name in kernel.qdiscs}
