"""The scenarios of `l4slab agree --random`, and what came of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from l4slab.base.values import Keys
from l4slab.experimentfile import Level
from l4slab.tools.agreement.random.judge import LOOKS, Row, verdict_of

VERDICTS = ("equivalent", "different", "undecided", "failed")


@dataclass(frozen=True)
class Scenario:
    """An experiment drawn at random: its number from 1, its file of origin, the levels, the document."""

    number: int
    family: str
    levels: Mapping[str, Level]
    document: Keys

    @property
    def name(self) -> str:
        return f"{self.number:04d}"


@dataclass
class Judged:
    """A scenario and what came of it; `failure`: why it could not be judged."""

    scenario: Scenario
    rows: list[Row] = field(default_factory=list)
    kernel_trials: int = 0
    failure: str | None = None

    @property
    def verdict(self) -> str:
        return "failed" if self.failure is not None else verdict_of(self.rows)

    @property
    def is_settled(self) -> bool:
        """More trials do not follow."""
        return self.verdict != "undecided" or self.kernel_trials == max(LOOKS)


@dataclass(frozen=True)
class Found:
    """All scenarios, in order."""

    folder: Path
    seed: int
    engine: str  # in the kernel's place
    judged: list[Judged]

    def of(self, verdict: str) -> list[Judged]:
        """The scenarios that have it."""
        return [one for one in self.judged if one.verdict == verdict]

    def summary(self) -> str:
        """How many of each verdict."""
        counts = ", ".join(f"{len(self.of(verdict))} {verdict}" for verdict in VERDICTS)
        return f"{len(self.judged)} scenarios: {counts}"
