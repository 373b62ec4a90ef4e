"""Builds a stack by its recipe, into the cache."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from l4slab.base.errors import L4slabError, one_line
from l4slab.base.progress import Told
from l4slab.stacks import BUILT, Stack, cache

# For a hundred years, so that the date of the virtual machine does not matter.
_CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=l4slab -addext "
    "subjectAltName=DNS:l4slab -keyout $OUT/key.pem -out $OUT/cert.pem -days 36500 2>/dev/null"
)
_LOG = "build.log"


class BuildError(L4slabError):
    """A step of a recipe failed, or this machine lacks what it needs."""


def build(stack: Stack, told: Told, again: bool = False, source: Path | None = None) -> bool:
    """Build a stack; False where that was done before. Raises BuildError.

    The steps run in a copy of the recipe's folder, by `sh`. `$OUT` is the folder of the build, `$KEEP` one that later
    builds of this stack find again, `$PYTHON` an interpreter, `$SOURCE` the folder `source`. The step "$CERTIFICATE"
    writes `cert.pem` and `key.pem` into `$OUT`.
    """
    if stack.is_built and not again:
        return False
    recipe = stack.recipe
    for program, where in recipe.needs.items():
        if shutil.which(program) is None:
            raise BuildError(f"{stack.name} needs {program}, which is not in PATH; get it: {where}")
    if recipe.source and source is None:
        raise BuildError(
            f"{stack.name} is in no registry; get it by {recipe.source}, then write l4slab stacks build {stack.name} "
            "--source DIR with its folder"
        )
    work = cache() / "work" / stack.name
    sources, keep, out = work / "sources", work / "keep", stack.build
    for path in (sources, out):
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(stack.folder, sources, ignore=shutil.ignore_patterns("target", "__pycache__"))
    keep.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True)
    environment = os.environ | {"OUT": str(out), "KEEP": str(keep)}
    if source is not None:
        environment["SOURCE"] = str(source.absolute())
    if recipe.python:
        environment["PYTHON"] = _python(stack)
    begun = time.monotonic()
    with (work / _LOG).open("w", encoding="utf-8") as log:
        for number, step in enumerate(recipe.build, start=1):
            command = _CERTIFICATE if step == "$CERTIFICATE" else step
            told(f"{stack.name}: step {number} of {len(recipe.build)}", None)
            print(f"$ {command}", file=log, flush=True)
            done = subprocess.run(
                ["sh", "-e", "-c", command],
                cwd=sources,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            if done.returncode:
                log.flush()
                said = _last_line(work / _LOG)
                raise BuildError(
                    f'{stack.name}: the step "{one_line(step)}" of its recipe failed with status {done.returncode}: '
                    f"{said}; the whole output is in {work / _LOG}"
                )
    known = {
        "stack": stack.id,
        "steps": recipe.build,
        "qlog": dict(recipe.qlog),
        "seconds": round(time.monotonic() - begun, 1),
    }
    (out / BUILT).write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
    return True


def _last_line(file: Path) -> str:
    lines = [line for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else "it said nothing"


def _python(stack: Stack) -> str:
    """An interpreter that is new enough: this one, or else one of this machine."""
    least = tuple(map(int, stack.recipe.python.split(".")))
    for program in _interpreters():
        command = [program, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        try:
            done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if re.fullmatch(r"3\.\d+", done.stdout.strip()) and tuple(map(int, done.stdout.strip().split("."))) >= least:
            return program
    raise BuildError(f"{stack.name} needs Python {stack.recipe.python} or newer; install it, so that it is in PATH")


def _interpreters() -> Iterator[str]:
    yield str(Path(sys.base_prefix) / "bin" / "python3")
    for minor in range(20, 10, -1):
        if (found := shutil.which(f"python3.{minor}")) is not None:
            yield found
    # Where pyenv and uv keep theirs.
    for pattern in (".pyenv/versions/3.*/bin/python3", ".local/share/uv/python/cpython-3.*/bin/python3"):
        yield from map(str, sorted(Path.home().glob(pattern), reverse=True))
