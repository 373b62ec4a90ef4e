"""The tests of files and folders that a user names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from l4slab.base.errors import InputError
from l4slab.base.progress import Told
from l4slab.engines.linux import kernels
from l4slab.tools.kerneltests import KernelTest, kselftest, packetdrill, tctesting

_SELFTESTS = "tools/testing/selftests"


def collect(names: Sequence[str], kernel: str, source: Path | None, told: Told) -> list[KernelTest]:
    """The tests of these files and folders, of the folder with the kernel's own tests where nothing here has that name.
    `source` is that of packetdrill. Raises InputError.
    """
    files = list(dict.fromkeys(file for name in names for file in _files(place(name, kernel))))
    program = None
    if any(file.suffix == packetdrill.SUFFIX for file in files):
        program = packetdrill.find(source, told)
    elif source is not None:
        raise InputError("is given, but no script is one of packetdrill; leave it out", key="--packetdrill")
    tests = [test for file in files for test in _tests(file, program)]
    if not tests:
        raise InputError(
            f"{names[0]} has no test; give a folder with *.pkt, files of tc-testing or scripts of kselftest"
        )
    return tests


def place(name: str, kernel: str) -> Path:
    """A file or folder here, or else among the tests of the kernel's source. Raises InputError."""
    if (path := Path(name)).exists():
        return path.absolute()
    theirs = kernels.folder_of(kernel) / "source" / _SELFTESTS
    if (path := theirs / name).exists():
        return path
    folder = f"nor in {theirs}" if theirs.is_dir() else f"and there is no {theirs}; l4slab linux build makes it"
    raise InputError(f"{name} is not here, {folder}")


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        if path.suffix not in (packetdrill.SUFFIX, kselftest.SUFFIX, tctesting.SUFFIX):
            raise InputError(
                "is no test; give a script of packetdrill (*.pkt) or kselftest (*.sh) or a file of tc-testing (*.json)",
                file=path,
            )
        if path.suffix == tctesting.SUFFIX and tctesting.cases(path) is None:
            raise InputError('is no file of tc-testing: its cases have "cmdUnderTest"', file=path)
        yield path
        return
    yield from kselftest.in_folder(path)
    for file in sorted(path.rglob("*")):
        is_ours = file.suffix == packetdrill.SUFFIX or (
            file.suffix == tctesting.SUFFIX and tctesting.cases(file) is not None
        )
        if is_ours and file.is_file():
            yield file


def _tests(file: Path, program: Path | None) -> Iterator[KernelTest]:
    group = file.parent.name
    if program is not None and file.suffix == packetdrill.SUFFIX:
        yield from packetdrill.tests(file, group, program)
    elif file.suffix == kselftest.SUFFIX:
        yield from kselftest.tests(file, group)
    else:
        yield from tctesting.tests(file, f"{group}/{file.stem}")
