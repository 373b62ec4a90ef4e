"""Parts that the steps of a build share: calls of the host's programs, and stamps of finished steps."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from l4slab.base.errors import L4slabError, one_line

# Programs of the host, and the Debian packages they are in.
TOOLS = {
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "tar": "tar",
    "xz": "xz-utils",
    "make": "make",
    "gcc": "gcc libc6-dev",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
}
PATCH_TOOLS = {"patch": "patch"}
# To run a kernel that is there.
RUN_TOOLS = {"setpriv": "util-linux"}


class BuildError(L4slabError):
    """The laboratory cannot be built; the sentence says what is missing and how to get it."""


Progress = Callable[[str, float | None], None]


def missing(tools: dict[str, str]) -> str | None:
    """A sentence that names the missing `tools` and how to get them, or None."""
    absent = {tool: packages for tool, packages in tools.items() if shutil.which(tool) is None}
    if not absent:
        return None
    names = ", ".join(absent)
    verb = "is" if len(absent) == 1 else "are"
    packages = " ".join(dict.fromkeys(" ".join(absent.values()).split()))
    return f"{names} {verb} missing; install with: sudo apt-get install {packages}"


def stamp(path: Path) -> dict[str, object]:
    """The stamp of a step; empty before the step is done."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write_stamp(path: Path, content: Mapping[str, object]) -> None:
    """Leave this for `stamp`."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content))
    temporary.replace(path)


def do(command: list[str], cwd: Path | None = None, environment: dict[str, str] | None = None) -> str:
    """Run a program; its output. Raises BuildError with the last lines of what it said."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, "LC_ALL": "C.UTF-8", **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except FileNotFoundError:
        raise BuildError(missing(TOOLS) or f"{command[0]} is missing; install it") from None
    if done.returncode:
        raise Failed(command[0], done.stdout)
    return done.stdout


def compile_static(source: Path, to: Path) -> None:
    """Compile a program for the guest, which has no libraries. Raises BuildError."""
    do(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o", str(to), str(source)])


def linked() -> dict[str, str]:
    """The Debian packages with the libraries that are linked into every program here, and the source and version of
    each; empty where this is no Debian.
    """
    found = {}
    try:
        for library in ("libc.a", "libgcc.a"):
            path = os.path.realpath(do(["gcc", f"-print-file-name={library}"]).strip())
            package = do(["dpkg-query", "--search", path]).partition(":")[0]
            found[package] = do(["dpkg-query", "--show", "--showformat=${source:Package} ${source:Version}", package])
    except BuildError:
        return {}
    return found


class Failed(BuildError):
    """A program did; `output` is what it said."""

    def __init__(self, program: str, output: str):
        self.output = output
        # What make says about itself is no reason.
        lines = [line for line in output.splitlines() if re.search(r"^E:|[Ee]rror|can't|cannot|No space", line)]
        lines = [line for line in lines if not line.startswith("make")] or lines
        said = one_line("; ".join((lines or output.splitlines())[-3:]))
        super().__init__(f"{program} failed: {said[:400] or 'it said nothing'}; the same command goes on from here")
