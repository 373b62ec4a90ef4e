"""`l4slab linux build`: kernel source and user land from the package archive, a trimmed kernel, all in the cache.

Everything comes through apt, from the archive that the machine's own apt sources name, suite sid, with its signatures
checked. Nothing needs root: packages are unpacked, not installed. Each step leaves a stamp and is not repeated.

`compiling` says what is changed in the source. Kernels with a name (one's own tree, patches, modules) stand beside the
default one, each with a copy of the source of its own, so that the next build of it compiles only what has changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from l4slab.base import system
from l4slab.engines.linux import archive, compiling, user_land
from l4slab.engines.linux.compiling import DATA, recipe
from l4slab.engines.linux.kernels import (
    DEFAULT,
    Kernel,
    cache,
    folder_of,
    installed,
    laboratory,
    named_kernel,
)
from l4slab.engines.linux.tools import (
    PATCH_TOOLS,
    TOOLS,
    BuildError,
    Progress,
    compile_static,
    linked,
    missing,
    stamp,
    write_stamp,
)

_NEEDED_GB = 4


def contents(kernel: Kernel) -> str:
    """A hash of the kernel and of everything in the virtual machine's file system; of its own program its source's."""
    root = kernel.root
    inside = (path for path in root.rglob("*") if path.is_symlink() or path.is_file())
    files = [kernel.path, *sorted(path for path in inside if not path.is_relative_to(root / "lab"))]
    states = [(path, os.lstat(path)) for path in files]
    known = tuple((path, state.st_ino, state.st_size, state.st_mtime_ns) for path, state in states)
    return _contents(root, known) + laboratory()


@lru_cache(1)
def _contents(root: Path, files: tuple[tuple[Path, int, int, int], ...]) -> str:
    whole = hashlib.sha256()
    for path, *_ in files:
        name = str(path.relative_to(root)) if path.is_relative_to(root) else ""
        # The kernel of L4SLAB_KERNEL may be a link.
        inside = str(path.readlink()).encode() if name and path.is_symlink() else path.read_bytes()
        whole.update(f"{name}\0{len(inside)}\0".encode() + inside)
    return whole.hexdigest()


def make_laboratory(root: Path, progress: Progress) -> None:
    """Compile the laboratory's own program where this version's is not there. Raises BuildError, OSError."""
    there = root / "lab" / laboratory()
    if (there / "lab").is_file():
        return
    if (sentence := missing({"gcc": TOOLS["gcc"]})) is not None:
        raise BuildError(sentence)
    progress("compiling senders, receivers and sampler", None)
    with tempfile.TemporaryDirectory(dir=there.parent) as temporary:
        new = Path(temporary) / there.name
        new.mkdir()
        compile_static(DATA / "lab.c", new / "lab")
        shutil.copyfile(DATA / "init.sh", new / "init.sh")
        (new / "init.sh").chmod(0o755)
        # Another process may have been quicker.
        with suppress(OSError):
            new.rename(there)
    if not (there / "lab").is_file():
        raise BuildError(f"{there} cannot be written; remove it and build again")


@dataclass(frozen=True)
class Wanted:
    """A kernel with a name: what it is made from."""

    name: str
    source: Path | None = None  # None: that of the default kernel
    patches: tuple[Path, ...] = ()
    modules: tuple[Path, ...] = ()
    hz: int = compiling.HZ

    def __str__(self) -> str:
        parts = [f"source {self.source}" if self.source else ""]
        parts += [f"patch {path.name}" for path in self.patches] + [f"module {path.name}" for path in self.modules]
        parts += [f"HZ {self.hz}"] if self.hz != compiling.HZ else []
        return ", ".join(part for part in parts if part)


def build(
    progress: Progress, kernel: Path | None = None, jobs: int | None = None, wanted: Wanted | None = None
) -> Kernel:
    """Build what is not there yet. Raises BuildError.

    With `kernel`, that file is used instead of building one; with `wanted`, a kernel beside the default one is made.
    """
    folder = cache()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _only_one(folder):
            return _build(folder, progress, kernel, jobs or system.cores(), wanted)
    except OSError as error:
        raise BuildError(
            f"{folder} cannot be written ({error.strerror or error}); set XDG_CACHE_HOME to a folder with space"
        ) from None


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        try:
            system.lock(lock)
        except OSError:
            raise BuildError(f"another build is at work in {folder}; wait for it") from None
        yield


def _build(folder: Path, progress: Progress, kernel: Path | None, jobs: int, wanted: Wanted | None) -> Kernel:
    inputs = recipe()
    if kernel is not None and not os.access(kernel, os.X_OK):
        raise BuildError(f"--kernel {kernel} is not a program; give the file that make ARCH=um linux made")
    root_ready = user_land.is_renewed(folder / "root")
    is_there = os.access(folder / "linux", os.X_OK) and stamp(folder / "kernel.json").get("inputs") == inputs
    kernel_ready = wanted is None and (kernel is not None or is_there)
    if not (root_ready and kernel_ready):
        if (sentence := missing(TOOLS | (PATCH_TOOLS if wanted and wanted.patches else {}))) is not None:
            raise BuildError(sentence)
        if shutil.disk_usage(folder).free < _NEEDED_GB * 1e9 and not kernel_ready:
            raise BuildError(f"{folder} needs {_NEEDED_GB} GB of free space; free some, or set XDG_CACHE_HOME")
    apt = None
    if not root_ready:
        apt = archive.archive(folder, progress)
        user_land.make(folder, apt, progress)
    make_laboratory(folder / "root", progress)
    if wanted is not None:
        return _build_named(folder, apt, wanted, inputs, jobs, progress)
    if kernel is not None:
        _keep(kernel.absolute(), DEFAULT, {"inputs": "own"}, progress)
    elif not kernel_ready:
        source = archive.source(folder, apt, progress)
        compiling.patch(source)
        _keep(
            compiling.compile_kernel(source, jobs, progress), DEFAULT, {"inputs": inputs, "linked": linked()}, progress
        )
    made = installed()
    if made is None:
        raise BuildError(f"{folder} has no kernel after the build; remove the folder and build again")
    return made


def _build_named(
    folder: Path, apt: archive.Apt | None, wanted: Wanted, inputs: str, jobs: int, progress: Progress
) -> Kernel:
    if wanted.source is None:
        source = archive.source(folder, apt, progress)
        compiling.patch(source)
    elif not (source := wanted.source.absolute()).joinpath("net/ipv4/tcp_input.c").is_file():
        raise BuildError(f"--source {wanted.source} is no source of a Linux kernel; give the folder that has net/ipv4")
    tree = folder_of(wanted.name) / "source"
    progress("copying the source", None)
    compiling.mirror(source, tree)
    compiling.patch(tree, wanted.hz)
    # Last, as a patch may change what every kernel gets, such as Prague.
    for patch in wanted.patches:
        compiling.apply(patch, tree)
    qdiscs = compiling.add_modules(wanted.modules, tree)
    linux = compiling.compile_kernel(tree, jobs, progress)
    _keep(linux, wanted.name, {"inputs": inputs, "qdiscs": qdiscs, "made_from": str(wanted)}, progress)
    return named_kernel(wanted.name)


def _keep(kernel: Path, name: str, known: Mapping[str, object], progress: Progress) -> None:
    """Put a kernel that boots into the cache."""
    progress("booting the kernel", None)
    controls, version = _boot_facts(kernel)
    folder = folder_of(name)
    shutil.copy2(kernel, folder / "linux.new")
    (folder / "linux.new").replace(folder / "linux")
    write_stamp(folder / "kernel.json", {"version": version, "controls": controls, **known})


def _boot_facts(kernel: Path) -> tuple[list[str], str]:
    """Congestion controls and version of a kernel, from booting it."""
    from l4slab.engines.linux.machine import Machine, MachineError

    with tempfile.TemporaryDirectory(prefix="l4slab-") as temporary:
        run = Path(temporary)
        (run / "setup.sh").write_text("exit 1\n")
        try:
            Machine(kernel, cache() / "root", laboratory(), run, limit_s=60).boot()
        except MachineError as error:
            facts = dict(line.split(" ", 1) for line in error.output.splitlines() if " " in line)
            if "kernel" not in facts:
                raise BuildError(f"the kernel {kernel} does not boot: {error}") from None
            return facts.get("controls", "").split(), facts["kernel"]
    raise BuildError(f"the kernel {kernel} does not boot")
