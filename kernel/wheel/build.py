# SPDX-License-Identifier: GPL-2.0-only
"""The package `l4slab-linux`: a wheel of what `l4slab linux build` has left in the cache, and its source archive.

    python kernel/wheel/build.py DIST

The same kernel gives the same bytes. Times are those of the kernel's release, or of SOURCE_DATE_EPOCH. The source
archive is a source distribution, too: `pip wheel` builds the kernel with the installed l4slab, and packs it with this.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import re
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from l4slab.base.errors import InputError, L4slabError
from l4slab.engines.linux import archive as archives
from l4slab.engines.linux import build, compiling, kernels, tools, user_land

HERE = Path(__file__).parent
NAME = kernels.PACKAGE.replace("-", "_")
# Kernel and laboratory are linked statically, and the user land has its own C library: this is the oldest tag that is
# still in use, not the oldest Linux.
TAG = "py3-none-manylinux_2_17_x86_64"
LICENCE = (
    "GPL-2.0-only AND GPL-2.0-or-later AND LGPL-2.1-or-later AND BSD-3-Clause AND Zlib AND (MIT OR Apache-2.0) "
    "AND GPL-3.0-or-later WITH GCC-exception-3.1"
)
COMMON, DOCS = Path("/usr/share/common-licenses"), Path("/usr/share/doc")
_MOST_BYTES = 20_000_000
_INTERPRETER = 3  # PT_INTERP

Files = dict[str, tuple[bytes, bool]]  # by path: contents, and whether it is a program


def build_wheel(wheel_directory: str, *_: object) -> str:
    """Build the kernel where it is not there, and its wheel: the hook of a build frontend."""
    build.build(_silent)
    return make(Path(wheel_directory))[0].name


def make(out: Path) -> tuple[Path, Path]:
    """The wheel and the source archive. Raises InputError, BuildError."""
    cache = kernels.cache()
    known = tools.stamp(cache / "kernel.json")
    if known.get("inputs") != compiling.recipe() or not user_land.is_renewed(cache / "root"):
        raise InputError(f"{cache} has no kernel of this version of l4slab; build it with: l4slab linux build")
    source = tools.stamp(cache / "source.json")
    if not source.get("files"):
        raise InputError(f"{cache} does not say which source its kernel is of; remove it and run: l4slab linux build")
    number = re.match(r"[0-9.]*[0-9]", str(known["version"]))
    version = f"{kernels.RECIPE}.{number[0] if number else 0}"
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or (cache / "source/Makefile").stat().st_mtime)
    linked = tools.linked()
    if not linked:
        raise InputError("this machine does not say which C library it links with; make the package on Debian")
    linked |= _table(known.pop("linked", linked))
    of_root = tools.stamp(cache / "root.json")
    sources = {f"linux {source['version']}": source["files"], **_table(of_root.pop("sources"))}
    for name in linked.values():
        sources.setdefault(name, {})
    facts = {
        "kernel.json": known | {"package": version, "fingerprint": kernels.fingerprint()},
        "root.json": of_root,
        "sources.json": sources,
    }
    texts: Files = {name: (f"{json.dumps(table, indent=1)}\n".encode(), False) for name, table in facts.items()}
    licences = _licences(cache, linked)
    metadata = _metadata(version, sorted(licences))

    package: Files = {"__init__.py": (_here("l4slab_linux/__init__.py"), False), **texts}
    package["linux"] = ((cache / "linux").read_bytes(), True)
    package |= _tree(cache / "root", "root", leave="lab/")
    with tempfile.TemporaryDirectory() as temporary:
        laboratory = Path(temporary) / "lab"
        laboratory.mkdir()
        (laboratory / ".folder").touch()
        build.make_laboratory(Path(temporary), _silent)
        package |= _tree(laboratory, "root/lab")
    for name in ("linux", f"root/lab/{kernels.laboratory()}/lab"):
        _require_static(name, package[name][0])
    wheel: Files = {f"{NAME}/{name}": file for name, file in package.items()}
    info = f"{NAME}-{version}.dist-info"
    wheel |= {f"{info}/licenses/{name}": file for name, file in licences.items()}
    wheel[f"{info}/METADATA"] = metadata, False
    about = f"Wheel-Version: 1.0\nGenerator: l4slab\nRoot-Is-Purelib: false\nTag: {TAG}\n"
    wheel[f"{info}/WHEEL"] = about.encode(), False
    wheel[f"{info}/RECORD"] = _record(wheel, f"{info}/RECORD"), False

    archive: Files = {name: (_here(name), False) for name in ("build.py", "README.md", "l4slab_linux/__init__.py")}
    archive["pyproject.toml"] = _PROJECT.encode(), False
    archive["PKG-INFO"] = metadata, False
    archive["sources.json"] = texts["sources.json"]
    archive["kernel.config"] = (cache / "source/l4slab-build/.config").read_bytes(), False
    archive |= {f"licenses/{name}": file for name, file in licences.items()}
    engine = "l4slab/engines/linux"
    for module in (archives, build, compiling, kernels, tools, user_land):
        path = Path(str(module.__file__))
        archive[f"{engine}/{path.name}"] = path.read_bytes(), False
    for name in ("kernel.config", *kernels.LABORATORY):
        archive[f"{engine}/data/{name}"] = (compiling.DATA / name).read_bytes(), False
    for path in (compiling.PRAGUE, *compiling.PRAGUE.parent.glob("[A-Z]*")):
        archive[f"{engine}/data/tcp_prague/{path.name}"] = path.read_bytes(), False
    for path in compiling.CLOCK.iterdir():
        archive[f"{engine}/data/{compiling.CLOCK.name}/{path.name}"] = path.read_bytes(), False

    out.mkdir(parents=True, exist_ok=True)
    made = out / f"{NAME}-{version}-{TAG}.whl", out / f"{NAME}-{version}.tar.gz"
    for path, contents in zip(made, (_zip(wheel, epoch), _tar(archive, f"{NAME}-{version}", epoch)), strict=True):
        if len(contents) > _MOST_BYTES:
            raise InputError(f"{path.name} would have {len(contents) / 1e6:.0f} MB, and at most 20 are wanted")
        temporary_file = path.with_name(f".{path.name}")
        temporary_file.write_bytes(contents)
        temporary_file.replace(path)
    return made


def _silent(what: str, part: float | None) -> None:
    """Progress that nobody watches."""


def _table(found: Any) -> dict[str, Any]:
    return dict(found)


def _here(name: str) -> bytes:
    return (HERE / name).read_bytes()


def _tree(folder: Path, to: str, leave: str | None = None) -> Files:
    found: Files = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not (leave is not None and name.startswith(leave)):
            found[f"{to}/{name}"] = path.read_bytes(), os.access(path, os.X_OK)
    return found


def _licences(cache: Path, linked: Iterable[str]) -> Files:
    """The texts, of the kernel, of the user land by Debian package with what these refer to, and of l4slab."""
    kernel = cache / "source"
    own = next(folder for folder in (HERE / "licenses", HERE.parent.parent) if (folder / "LICENSE-MIT").is_file())
    files = {
        "COPYING": kernel / "COPYING",
        "GPL-2.0": kernel / "LICENSES/preferred/GPL-2.0",
        "Linux-syscall-note": kernel / "LICENSES/exceptions/Linux-syscall-note",
        **{name: own / name for name in ("LICENSE-MIT", "LICENSE-APACHE")},
        **{f"debian/{path.name}": path for path in (cache / "copyright").iterdir()},
        **{f"debian/{package}": DOCS / package / "copyright" for package in linked},
    }
    texts = {name: _text(path) for name, path in files.items()}
    for name in sorted(set(re.findall(rb"common-licenses/([A-Za-z0-9.-]*\w)", b"\n".join(texts.values())))):
        texts[f"common/{name.decode()}"] = _text(COMMON / name.decode())
    return {name: (text, False) for name, text in texts.items()}


def _text(path: Path) -> bytes:
    if not path.is_file():
        raise InputError(f"{path} is missing, and nothing is passed on without its licence; install its package")
    return path.read_bytes()


def _metadata(version: str, licences: list[str]) -> bytes:
    fields = [
        "Metadata-Version: 2.4",
        f"Name: {kernels.PACKAGE}",
        f"Version: {version}",
        "Summary: The Linux kernel of l4slab's engine linux: TCP Prague, DualPI2 and Accurate ECN in virtual time",
        f"License-Expression: {LICENCE}",
        *(f"License-File: {name}" for name in licences),
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Topic :: System :: Networking",
        "Requires-Python: >=3.11",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join([*fields, "", _here("README.md").decode()]).encode()


_PROJECT = f"""\
[build-system]
requires = ["l4slab"]
build-backend = "build"
backend-path = ["."]

[project]
name = "{kernels.PACKAGE}"
dynamic = ["version"]
"""


def _require_static(name: str, program: bytes) -> None:
    """Raises InputError where a program of 64-bit ELF needs an interpreter, and thereby a C library of the machine."""
    offset = int.from_bytes(program[32:40], "little")
    size, count = (int.from_bytes(program[at : at + 2], "little") for at in (54, 56))
    headers = [offset + size * number for number in range(count)]
    kinds = {int.from_bytes(program[at : at + 4], "little") for at in headers}
    if program[:5] != b"\x7fELF\x02" or _INTERPRETER in kinds:
        raise InputError(f"{name} is not linked statically, as {TAG} says; build it again with: l4slab linux build")


def _record(files: Mapping[str, tuple[bytes, bool]], own: str) -> bytes:
    def line(name: str, contents: bytes) -> str:
        digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).decode().rstrip("=")
        return f"{name},sha256={digest},{len(contents)}\n"

    return ("".join(line(name, contents) for name, (contents, _) in sorted(files.items())) + f"{own},,\n").encode()


def _zip(files: Files, epoch: int) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name, (contents, is_program) in sorted(files.items()):
            entry = zipfile.ZipInfo(name, time.gmtime(epoch)[:6])
            entry.create_system = 3  # Unix: its modes count
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, contents)
    return made.getvalue()


def _tar(files: Files, folder: str, epoch: int) -> bytes:
    made = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=made, mode="wb", filename="", mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, (contents, is_program) in sorted(files.items()):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mtime, entry.mode = len(contents), epoch, 0o755 if is_program else 0o644
            archive.addfile(entry, io.BytesIO(contents))
    return made.getvalue()


if __name__ == "__main__":
    try:
        for path in make(Path(sys.argv[1])):
            print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
    except L4slabError as error:
        sys.exit(f"build.py: {error}")
