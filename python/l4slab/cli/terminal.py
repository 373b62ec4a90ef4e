"""Where the command line writes: tables that fit the terminal, and JSON for scripts."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import click

from l4slab.base.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

ROWS_SHOWN = 40
QUIET = "l4slab.quiet"  # of a command's context
# A column of sentences is folded into lines, not shorter than this.
_LINE = 32
_GAP = 2


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


@dataclass(frozen=True)
class Column:
    """A column of a table, a cell per row. `heading` is one line or two, such as "RTT" and its unit.

    Where the terminal is too narrow, columns of the least `weight` are left out first, the rightmost of equals.
    """

    heading: str
    cells: Sequence[str]
    right: bool = False
    weight: int = 2
    folds: bool = False
    stays: bool = False  # also where it is the same in every row

    @property
    def width(self) -> int:
        """Characters it needs at least."""
        heading = max(map(len, self.heading.split("\n")))
        cells = max(map(len, self.cells), default=0)
        return max(heading, min(cells, _LINE) if self.folds else cells)

    @property
    def is_constant(self) -> bool:
        """Whether it tells nothing that one sentence could not."""
        return len(self.cells) > 1 and len(set(self.cells)) == 1 and not (self.stays or self.folds)


def out(stderr: bool = False) -> Console:
    """The standard output, or the standard error output for tables beside another program's output."""
    from rich.console import Console

    # A pipe has no width; tables must not be folded to 80 columns there.
    has_width = (sys.stderr if stderr else sys.stdout).isatty() or "COLUMNS" in os.environ
    return Console(stderr=stderr, width=None if has_width else 200, highlight=False)


def err() -> Console:
    """The standard error output."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def progress() -> Console:
    """The standard error output for progress and notes, which --quiet switches off."""
    console = err()
    context = click.get_current_context(silent=True)
    console.quiet = context is not None and bool(context.meta.get(QUIET))
    return console


def say(text: str, stderr: bool = False) -> None:
    """A line of the output, as it is."""
    out(stderr).print(text, soft_wrap=True, markup=False)


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


def cell(value: Any) -> str:
    """A value of a result table."""
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    # Four digits, without an exponent for numbers that a person would write out.
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def short(factors: Sequence[str]) -> list[str]:
    """Shortened dotted keys: "rate" for "link.bottleneck.rate" if no other factor has this ending."""
    ends = [name.rpartition(".")[2] for name in factors]
    return [end if ends.count(end) == 1 else name for name, end in zip(factors, ends, strict=True)]


def show(
    title: str, columns: Sequence[Column], styles: Sequence[str] = (), more: str = "", stderr: bool = False
) -> None:
    """Print a table. Constant columns go into the title, and columns without room are listed by name.

    `styles` has one per row; `more` says where to find the columns without room.
    """
    from rich.markup import escape
    from rich.table import Table

    console = out(stderr)
    constant = [column for column in columns if column.is_constant]
    shown = [column for column in columns if column not in constant]
    left_out: list[Column] = []
    while len(shown) > 1 and sum(column.width + _GAP for column in shown) - _GAP > console.width:
        least = min(column.weight for column in shown)
        dropped = [column for column in shown if column.weight == least][-1]
        shown.remove(dropped)
        left_out.insert(0, dropped)
    same = ", ".join(f"{_named(column)} {column.cells[0] or 'none'}" for column in constant)
    console.print(f"[bold]{escape(title)}[/]" + (f" ({escape(same)})" if same else ""))
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for column in shown:
        table.add_column(
            escape(column.heading),
            justify="right" if column.right else "left",
            min_width=column.width,
            no_wrap=not column.folds,
            overflow="fold" if column.folds else "ellipsis",
        )
    for row in range(len(columns[0].cells) if columns else 0):
        table.add_row(*(escape(column.cells[row]) for column in shown), style=styles[row] if styles else "")
    console.print(table)
    if left_out:
        names = ", ".join(_named(column) for column in left_out)
        console.print(f"No room for {escape(names)}{more}.")


def _named(column: Column) -> str:
    """A column's name for use in a sentence."""
    return " ".join(column.heading.split())
