"""How far a campaign is: a bar with ETA on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from l4slab.base.numbers import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_LINE_EVERY_S = 10.0


Told = Callable[[str, float | None], None]


class Reporter(Protocol):
    """Told how many runs have ended so far."""

    def update(self, ended: int) -> None: ...


class Silent:
    """Says nothing."""

    def update(self, ended: int) -> None:
        pass


class _Bar:
    def __init__(self, bar: Progress, total: int):
        self._bar = bar
        self._task = bar.add_task("runs", total=total)

    def update(self, ended: int) -> None:
        self._bar.update(self._task, completed=ended)


class _Lines:
    def __init__(self, console: Console, total: int):
        self._console, self._total = console, total
        self._start = self._last = time.monotonic()

    def update(self, ended: int) -> None:
        now = time.monotonic()
        if now - self._last < _LINE_EVERY_S:
            return
        self._last = now
        left = f", about {duration_text((now - self._start) / ended * (self._total - ended))} left" if ended else ""
        self._console.print(f"{ended} of {counted(self._total, 'run')}{left}")


def duration_text(seconds: float) -> str:
    """A duration as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


@contextmanager
def reporting(console: Console, total: int, workers: int) -> Iterator[Reporter]:
    """A reporter for `total` runs, on `console`."""
    if not total:
        yield Silent()
        return
    if console.is_terminal:
        from rich import progress

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("left"),
            progress.TimeRemainingColumn(),
        )
        with progress.Progress(*columns, console=console) as bar:
            yield _Bar(bar, total)
        return
    console.print(f"{counted(total, 'run')}, {workers} at a time")
    start = time.monotonic()
    yield _Lines(console, total)
    console.print(f"{counted(total, 'run')} ended after {duration_text(time.monotonic() - start)}")


def silent(what: str, part: float | None) -> None:
    """Says nothing."""


@contextmanager
def working(console: Console) -> Iterator[Told]:
    """A function that is told which step the work is at and, where it is known, how much of that step is done."""
    if console.is_terminal:
        from rich import progress

        columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.TimeElapsedColumn())
        with progress.Progress(*columns, console=console) as bar:
            task = bar.add_task("", total=None)
            yield lambda what, part: bar.update(
                task, description=what, total=None if part is None else 1.0, completed=part or 0.0
            )
        return
    last, last_time = "", 0.0

    def line(what: str, part: float | None) -> None:
        nonlocal last, last_time
        now = time.monotonic()
        if what != last or now - last_time >= _LINE_EVERY_S:
            console.print(what + (f" ({part:.0%})" if part else ""))
            last, last_time = what, now

    yield line
