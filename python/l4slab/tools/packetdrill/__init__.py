"""`l4slab packetdrill`: packetdrill's scripts on the simulator's TCP, in virtual time.

`script` reads the language, `sockets` has the system calls, `connection` stands between the script's numbers and the
core's endpoint, and `judge` says whether the host did what the script says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from l4slab.base.errors import InputError
from l4slab.tools.kerneltests import Judged, KernelTest, Result
from l4slab.tools.kerneltests.collecting import place
from l4slab.tools.kerneltests.packetdrill import SUFFIX
from l4slab.tools.packetdrill.judge import judge
from l4slab.tools.packetdrill.script import read


def collect(names: Sequence[str], kernel: str) -> list[Path]:
    """The scripts of these files and folders, of the kernel's own tests where nothing here has that name. Raises
    InputError.
    """
    scripts = []
    for name in names:
        path = place(name, kernel)
        if path.is_file() and path.suffix != SUFFIX:
            raise InputError(f"is no script of packetdrill; give a file *{SUFFIX} or a folder of them", file=path)
        found = [path] if path.is_file() else sorted(path.rglob(f"*{SUFFIX}"))
        if not found:
            raise InputError(f"{name} has no script; give a folder with *{SUFFIX}")
        scripts += found
    return list(dict.fromkeys(scripts))


def run(scripts: Sequence[Path]) -> Iterator[Result]:
    """The verdict on each script: a pass, a failure, or a skip where it asks for what the simulator does not mean.
    Raises InputError for a file that is not in the language.
    """
    for file in scripts:
        status, line, why = judge(read(file))
        test = KernelTest(file.parent.name, file.stem, "", 0)
        yield Result(test, [Judged(status, f"line {line}: {why}" if why else "")], [None])
