"""The virtual machine's file system: what the laboratory runs, of packages of the Debian archive.

CACHE/root       the programs, the libraries that they load and their data; no links and no empty folders, so that a
                 package of Python can carry it
CACHE/root.json  the Debian packages that it has parts of, and the sources of these
CACHE/copyright  the copyright files of these packages
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from l4slab.engines.linux import archive
from l4slab.engines.linux.tools import BuildError, Progress, do, stamp, write_stamp

PACKAGES = ("busybox-static", "dash", "iproute2", "ethtool")
# What the laboratory runs, the data that these programs read, and where file systems are mounted.
_SHELL, _STATIC = "usr/bin/dash", "usr/bin/busybox"
_PROGRAMS = (_SHELL, _STATIC, "usr/bin/ip", "usr/bin/nstat", "usr/bin/ss", "usr/sbin/tc", "usr/sbin/ethtool")
_LIBRARIES, _LOADER = "usr/lib/x86_64-linux-gnu", "ld-linux-x86-64.so.2"
_DATA = (f"{_LIBRARIES}/tc/*", "usr/share/iproute2/*")
_FOLDERS = ("proc", "sys", "tmp", "run", "dev", "out", "lab")
_LAYOUT = 3


def make(folder: Path, apt: archive.Apt, progress: Progress) -> None:
    """Fetch and unpack the packages, and make the file system of what the laboratory needs. Raises BuildError."""
    progress("fetching the user land", None)
    apt("clean")
    apt("install", "--download-only", *PACKAGES)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        packages = {}
        for deb in sorted((folder / "apt" / "archives").glob("*.deb")):
            name = deb.name.partition("_")[0]
            progress(f"unpacking {name}", None)
            packages[name] = Path(temporary) / name
            do(["dpkg-deb", "--extract", str(deb), str(packages[name])])
        new = Path(temporary) / "root"
        used = sorted(_fill(new, packages))
        copyrights = Path(temporary) / "copyright"
        copyrights.mkdir()
        for name in used:
            shutil.copyfile(packages[name] / "usr/share/doc" / name / "copyright", copyrights / name)
        progress("looking up the sources", None)
        debs = [next((folder / "apt" / "archives").glob(f"{name}_*.deb")) for name in used]
        known = {"packages": list(PACKAGES), "layout": _LAYOUT, **_origins(apt, debs)}
        for path in (new, copyrights):
            shutil.rmtree(folder / path.name, ignore_errors=True)
            path.replace(folder / path.name)
    write_stamp(folder / "root.json", known)


def is_there(root: Path) -> bool:
    """Whether the programs of this file system are those that the laboratory needs."""
    return _known(root).get("packages") == list(PACKAGES)


def is_renewed(root: Path) -> bool:
    """Whether it has this version's layout, too. Another one can be booted, but no package be made of it."""
    return is_there(root) and _known(root).get("layout") == _LAYOUT


def _known(root: Path) -> dict[str, object]:
    return stamp(root.with_name("root.json"))


def _fill(root: Path, packages: Mapping[str, Path]) -> set[str]:
    """Copy the programs, the libraries that they load and their data; the names of the packages that these are from."""
    used = set()

    def take(path: Path, name: str) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, root / name)
        used.add(next(package for package, tree in packages.items() if path.is_relative_to(tree)))

    def find(name: str) -> Path:
        for tree in packages.values():
            for path in (tree / name, tree / name.removeprefix("usr/")):
                if path.is_file():
                    return path
        raise BuildError(f"the archive's {', '.join(PACKAGES)} have no {name}; please report this")

    loader = find(f"{_LIBRARIES}/{_LOADER}")
    take(loader, f"lib64/{_LOADER}")
    where = ":".join(str(tree / _LIBRARIES) for tree in packages.values())
    for name in _PROGRAMS:
        program = find(name)
        take(program, "bin/sh" if name == _SHELL else name)
        if name == _STATIC:
            continue
        for line in do([str(loader), "--list", "--library-path", where, str(program)]).splitlines():
            library, arrow, found = line.strip().partition(" => ")
            if arrow and _LOADER not in library:
                take(Path(found.rpartition(" (")[0]), f"{_LIBRARIES}/{library}")
    for pattern in _DATA:
        for tree in packages.values():
            for path in sorted(tree.glob(pattern)):
                take(path, str(path.relative_to(tree)))
    # Its own shell would take its own ip and tc instead of the real ones.
    (root / "bin/cat").write_text('#!/bin/sh\nexec busybox cat "$@"\n')
    (root / "bin/cat").chmod(0o755)
    for name in _FOLDERS:
        (root / name).mkdir()
        (root / name / ".folder").touch()
    return used


def _origins(apt: archive.Apt, debs: Sequence[Path]) -> dict[str, object]:
    """The packages, and the files of the sources that they were made from."""
    contents = []
    sources: dict[str, dict[str, str]] = {}
    for deb in debs:
        fields = dict.fromkeys(("Package", "Version", "Source", "Built-Using"), "")
        for line in do(["dpkg-deb", "--field", str(deb), *fields]).splitlines():
            name, _, value = line.partition(": ")
            fields[name] = value
        source = fields["Source"] or fields["Package"]
        name, _, version = source.rstrip(")").partition(" (")
        wanted = {(name, version or fields["Version"])}
        wanted |= set(re.findall(r"(\S+) \(= ([^)]+)\)", fields["Built-Using"]))
        contents.append(
            {
                "package": fields["Package"],
                "version": fields["Version"],
                "sha256": hashlib.sha256(deb.read_bytes()).hexdigest(),
                "sources": [f"{name} {version}" for name, version in sorted(wanted)],
            }
        )
        sources |= {f"{name} {version}": archive.source_files(apt, name, version) for name, version in sorted(wanted)}
    return {"contents": contents, "sources": sources}
