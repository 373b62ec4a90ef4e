"""`l4slab check`: requirements of RFCs on a congestion control or a queue, each with its run.

The suites are the experiment files in `suites/check`, `check-media` and `check-queue`. Each runs by itself, its
`controller` or `queue` in `[let]` is the tested one, and each `[[claim]]` of the kind "requirement" is an item of the
card. In a claim's evidence, the first column is the measured number, `at_least`, `at_most`, `more_than` or `wanted` its
bound, `worst_at` the place that decides, and `run` the run behind it. `not_applicable` and `not_measured` say why an
item has no verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import polars as pl
from rich.console import Console

from l4slab.api import campaign
from l4slab.base import metrics
from l4slab.engines.registry import DEFAULT
from l4slab.tools.check.card import Item, items
from l4slab.tools.check.programs import Program
from l4slab.tools.check.suite import Suite, possible, quick, suite, suite_of_queue

__all__ = [
    "Card",
    "Item",
    "Program",
    "Suite",
    "check",
    "check_queue",
    "judge",
    "possible",
    "quick",
    "suite",
    "suite_of_queue",
]


@dataclass(frozen=True)
class Card:
    """The result for a congestion control or a queue: an item per requirement, and the folder of its runs."""

    cc: str
    options: Mapping[str, str]
    engine: str
    items: Sequence[Item]
    failures: Sequence[str] = ()
    folder: Path | None = None
    report: str | None = None
    notes: Sequence[str] = field(default=())
    lacking: Mapping[str, str] = field(default_factory=dict)  # experiments that this check was not to run, and why
    kind: Literal["congestion control", "queue"] = "congestion control"  # which `cc` is

    def counts(self) -> dict[str, int]:
        """How many items have each verdict."""
        found: dict[str, int] = {}
        for item in self.items:
            found[item.verdict] = found.get(item.verdict, 0) + 1
        return found


def check(
    cc: str | None,
    out: Path | str | None = None,
    engine: str = DEFAULT,
    options: Mapping[str, str] | None = None,
    only: Sequence[str] = (),
    workers: int | None = None,
    console: Console | None = None,
    program: Program | None = None,
    media: bool = False,
) -> Card:
    """Judge a congestion control, named as in an experiment file's `cc`, with `options` as there; or a `program`, on
    the engine linux, whose TCP connections have `cc`; or, with `media`, a congestion control for media.

    With `out`, runs and report are kept in that folder. `only` chooses requirements by their ids. Raises InputError.
    """
    asked = possible(suite(cc, options, only, program, media), engine)
    return judge(asked, out, engine, workers, console)


def check_queue(
    queue: str,
    out: Path | str | None = None,
    engine: str = DEFAULT,
    only: Sequence[str] = (),
    workers: int | None = None,
    console: Console | None = None,
) -> Card:
    """Judge a queue: a `tc` string, a custom queue as in an experiment file, or a TOML file with the keys of a link
    that has classes. The rest is as in `check`. Raises InputError.
    """
    return judge(possible(suite_of_queue(queue, only), engine), out, engine, workers, console)


def judge(
    asked: Suite,
    out: Path | str | None = None,
    engine: str = DEFAULT,
    workers: int | None = None,
    console: Console | None = None,
) -> Card:
    """The card of a suite, whose experiments may be changed beforehand."""
    options = asked.tested.get("options")
    told = {name: str(value) for name, value in options.items()} if isinstance(options, dict) else {}
    if not asked.experiments:
        none = pl.DataFrame(schema=metrics.CLAIMS)
        return Card(asked.cc, told, engine, items(asked, none, {}), lacking=asked.lacking, kind=asked.kind)
    results = campaign.run(asked.experiments, out, engine, workers, console=console or Console(quiet=True))
    failed: dict[str, str] = {}
    for run, reason in results.failures:
        failed.setdefault(run.experiment, f"a run failed: {reason}")
    for name, reason in _ended(results.transfers).items():
        failed.setdefault(name, reason)
    return Card(
        asked.cc,
        told,
        engine,
        items(asked, results.claims, failed),
        [f"{run}: {reason}" for run, reason in results.failures],
        results.folder,
        results.report,
        results.notes,
        asked.lacking,
        asked.kind,
    )


def _ended(transfers: pl.DataFrame) -> dict[str, str]:
    """By experiment, a sentence that a program ended early in it, so its results are not representative."""
    ended = transfers.filter(pl.col("kind") == "program").sort("completion_ms")
    first = ended.unique("experiment", keep="first", maintain_order=True)
    return {
        row["experiment"]: (
            f'the client of flow "{row["flow"]}" ended by itself after {row["completion_ms"] * 1e-3:.1f} s (run '
            f"{row['run']}); let it send for longer than the experiment takes"
        )
        for row in first.iter_rows(named=True)
    }
