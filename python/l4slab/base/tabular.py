"""Tables of characters that fit a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# Characters where there is no terminal.
WIDTH = 200
# Rows of a table that a person reads.
ROWS_SHOWN = 40
# A column of sentences is folded into lines, not shorter than this.
_LINE = 32
_GAP = 2


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


def say(console: Console, text: str) -> None:
    """A line of the output, as it is."""
    console.print(text, soft_wrap=True, markup=False)


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


def show(console: Console, title: str, columns: Sequence[Column], styles: Sequence[str] = (), more: str = "") -> None:
    """Print a table. Constant columns go into the title, and columns without room are listed by name.

    `styles` has one per row; `more` says where to find the columns without room.
    """
    from rich.markup import escape
    from rich.table import Table

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
