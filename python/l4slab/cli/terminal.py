"""Where the command line writes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

ROWS_SHOWN = 40


def out() -> Console:
    """The standard output."""
    from rich.console import Console

    # A pipe has no width; tables must not be folded to 80 columns there.
    return Console(width=None if sys.stdout.isatty() else 200, highlight=False)


def err() -> Console:
    """The standard error output."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def cell(value: Any) -> str:
    """A value of a result table."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
