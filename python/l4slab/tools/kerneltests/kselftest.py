"""Shell scripts of kselftest."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from l4slab.tools.kerneltests import KernelTest

SUFFIX = ".sh"
_LIMIT_S = 3600  # as `settings` of net


def in_folder(folder: Path) -> list[Path]:
    """The scripts that a folder's Makefile calls tests; others are their parts."""
    try:
        text = (folder / "Makefile").read_text(errors="replace").replace("\\\n", " ")
    except OSError:
        return []
    words = " ".join(re.findall(r"^TEST_PROGS\s*[:+]?=(.*)$", text, re.M)).split()
    return [folder / word for word in words if word.endswith(SUFFIX) and (folder / word).is_file()]


def tests(file: Path, group: str) -> Iterator[KernelTest]:
    """The script is one test."""
    yield KernelTest(
        group, file.stem, f"cd {shlex.quote(str(file.parent))} && exec bash ./{shlex.quote(file.name)}", _LIMIT_S
    )
