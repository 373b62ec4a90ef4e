"""Where the command line writes: tables that fit the terminal, and JSON for scripts."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

import click

from l4slab.base import tabular
from l4slab.base.errors import InputError
from l4slab.base.tabular import Column

if TYPE_CHECKING:
    from rich.console import Console

QUIET = "l4slab.quiet"  # of a command's context


class OutputError(InputError):
    """The standard output takes nothing."""


class _Stream:
    """The standard output or error output. The first raises OutputError where it cannot be written, the second is
    then given up: progress that nobody sees stops no run.
    """

    def __init__(self, stream: IO[str] | None, required: bool):
        self._stream, self._required = stream, required

    def write(self, text: str) -> int:
        self._attempt("write", text)
        return len(text)

    def flush(self) -> None:
        self._attempt("flush")

    def _attempt(self, method: str, *given: str) -> None:
        try:
            if self._stream is not None:
                getattr(self._stream, method)(*given)
            elif self._required and given:
                raise OutputError("the output is closed; leave it open, or redirect it: > /dev/null")
        except BrokenPipeError:
            raise
        except OSError as error:
            self._stream = None
            if self._required:
                raise OutputError(
                    f"the output cannot be written ({error.strerror}); send it elsewhere: finished runs are kept"
                ) from None

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def __getattr__(self, name: str) -> Any:
        if self._stream is None:
            raise AttributeError(name)
        return getattr(self._stream, name)


def guard() -> None:
    """Turn failures of the standard output into a sentence, and let it print every character."""
    for name, required in (("stdout", True), ("stderr", False)):
        stream = getattr(sys, name)
        with suppress(AttributeError):
            # A terminal without a character shows its escape.
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, _Stream(stream, required))


def out(stderr: bool = False) -> Console:
    """The standard output, or the standard error output for tables beside another program's output."""
    from rich.console import Console

    # A pipe has no width; tables must not be folded to 80 columns there.
    has_width = (sys.stderr if stderr else sys.stdout).isatty() or "COLUMNS" in os.environ
    return Console(stderr=stderr, width=None if has_width else tabular.WIDTH, highlight=False, emoji=False)


def err() -> Console:
    """The standard error output."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def progress() -> Console:
    """The standard error output for progress and notes, which --quiet switches off."""
    console = err()
    context = click.get_current_context(silent=True)
    console.quiet = context is not None and bool(context.meta.get(QUIET))
    return console


def say(text: str, stderr: bool = False) -> None:
    """A line of the output, as it is."""
    tabular.say(out(stderr), text)


def as_json(value: Any) -> None:
    """Print one JSON document on the standard output, for scripts."""
    plain = (sys.stdout.encoding or "utf-8").lower().replace("-", "") != "utf8"
    print(json_of(value, plain))


def json_of(value: Any, plain: bool = False) -> str:
    """One JSON document, NaN as null; with `plain`, of ASCII characters."""
    return json.dumps(_plain(value), indent=2, ensure_ascii=plain, allow_nan=False, default=str)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show(
    title: str, columns: Sequence[Column], styles: Sequence[str] = (), more: str = "", stderr: bool = False
) -> None:
    """Print a table, as `tabular.show` does."""
    tabular.show(out(stderr), title, columns, styles, more)
