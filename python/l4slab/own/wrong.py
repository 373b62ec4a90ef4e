"""Exceptions of code of one's own as sentences: the file, the line, and what Python says."""

from __future__ import annotations

import traceback

from l4slab.base import system
from l4slab.base.errors import one_line


def sentence(error: BaseException, name: str) -> str:
    """The failure in `name` ("mine.py:Mine") as one sentence."""
    file = name.partition(":")[0]
    if isinstance(error, MemoryError):
        # The sentence needs some, too.
        bound = system.bound_memory("DATA", None)
        taken = "all the memory" if bound is None else f"the {bound / 2**30:.1f} GiB"
        error.args = (f"it has taken {taken} that it may take; look for what grows without end",)
    said = one_line("".join(traceback.format_exception_only(error)).strip())
    if isinstance(error, SyntaxError) and error.filename == file:
        return f"{file}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if not frames:
        # The core refuses a value that the code passed to it.
        return f"{name}: {said.partition(': ')[2] or said}"
    return f"{file}, line {frames[-1].lineno}, in {frames[-1].name}: {said}"


def in_dump(dump: str, files: list[str]) -> str | None:
    """The line of one of these files that faulthandler shows, as "mine.py, line 3, in on_ack"."""
    for line in dump.splitlines():
        for file in files:
            where = line.strip().removeprefix(f'File "{file}", line ')
            if where != line.strip():
                number, _, function = where.partition(" in ")
                return f"{file}, line {number}, in {function}"
    return None
