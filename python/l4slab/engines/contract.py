"""What an engine is: a function from a run to a recording that also answers for itself."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol
from urllib.parse import quote

from l4slab.base.errors import L4slabError
from l4slab.base.run import Run as Description

if TYPE_CHECKING:
    import polars as pl


class EngineError(L4slabError):
    """The engine broke off a run that it should have finished."""


class LackingError(ValueError):
    """The engine has not got what a run needs. Of a sweep, the other runs are possible."""


@dataclass(frozen=True)
class Recording:
    """What one run gave: the result tables without their label columns (see `l4slab.base.metrics`)."""

    flows: pl.DataFrame
    members: pl.DataFrame
    links: pl.DataFrame
    series: pl.DataFrame
    transfers: pl.DataFrame
    histograms: pl.DataFrame
    losses: pl.DataFrame


@dataclass(frozen=True)
class Captures:
    """Where the packet captures of a run go, a folder that appears when they are complete, and what they call it."""

    folder: Path
    title: str


def file_name(flow: str) -> str:
    """A flow's name as the simulator writes it into the names of captures."""
    return quote(flow, safe="+").replace(".", "%2E").replace("~", "%7E")


class Engine(Protocol):
    """`name` and `version()` are part of every run's id."""

    name: str

    def version(self) -> str:
        """16 hex digits that change with whatever decides the results besides the run's description: the code that
        computes and records them. Empty where there is nothing to run with.
        """

    def check(self, description: Description) -> None:
        """Raises ValueError with one sentence where this engine cannot do what the run describes, LackingError where
        it could do other runs of the sweep.
        """

    def knows(self, kind: Literal["controller", "queue"], name: str) -> bool:
        """Whether it has a congestion control or a queue of this name that the core does not define; a queue's name
        may have options behind it. Raises ValueError with one sentence where it has the queue and not these options.
        """

    def columns(self, description: Description) -> dict[str, pl.Schema]:
        """The columns of the tables that this run will give, without running it in full."""

    def execute(self, run_json: str, keep: Path | None = None, captures: Captures | None = None) -> Recording:
        """Run it. Thread-safe. What a person may want to look at besides the tables goes into the folder `keep`.
        With `captures`, each packet is written down.

        Raises ValueError with one sentence for a description that it cannot run, EngineError where it breaks off.
        """


def digest(*parts: str | Path) -> str:
    """16 hex digits of texts and of the contents of source files, whose line endings do not count."""
    whole = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part.read_bytes().replace(b"\r\n", b"\n")
        whole.update(hashlib.sha256(content).digest())
    return whole.hexdigest()[:16]
