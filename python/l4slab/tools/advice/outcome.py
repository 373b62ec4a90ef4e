"""The parts of an advice: two sides (camps), shares, regimes, and the nearest places of the map."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from l4slab.tools.advice import atlas, regimes
from l4slab.tools.advice.case import Case


@dataclass(frozen=True)
class Camp:
    """The flows of one congestion control, against the other side, and with CUBIC in Prague's place.

    Rates are goodput per flow in Mb/s, delays the time in the queue in ms, `lost_pct` packets dropped in %; all means
    over the trials, as simulated. `without_*` of Prague's camp is of the CUBIC flows in its place. `hurt` and
    `starved` are probabilities.
    """

    cc: str
    count: int
    rate_mbps: float
    delay_ms_mean: float
    delay_ms_p99: float
    lost_pct: float
    marked_pct: float
    without_rate_mbps: float
    without_delay_ms_mean: float
    without_delay_ms_p99: float
    without_lost_pct: float
    hurt: float
    starved: float
    verdict: str


@dataclass(frozen=True)
class Advice:
    """The shares of Prague and its rival at the user's bottleneck.

    `share` is of all Prague flows together. `intervals` has (level, lowest, highest) share. `trials` and `neighbours`
    have the shares of the single runs. `published` is the number of shares that laboratories have published for such
    queues. `around` has the nearest places of the map. `sentences` is the advice in words.
    """

    case: Case
    share: float
    intervals: list[tuple[float, float, float]]
    prague: Camp
    rival: Camp
    trials: list[float]
    neighbours: dict[str, float]
    published: int
    campaigns: int
    regimes: list[regimes.Regime]
    around: list[atlas.Cell]
    folder: Path | None = None
    report: str | None = None
    sentences: list[str] = field(default_factory=list, repr=False)

    def __str__(self) -> str:
        """Its sentences, as on the terminal."""
        return "\n".join(self.sentences)

    def interval(self, level: float = 0.8) -> tuple[float, float]:
        """The interval of Prague's share with this probability: 0.5, 0.8 or 0.9. Raises KeyError for others."""
        return {known: (low, high) for known, low, high in self.intervals}[level]
