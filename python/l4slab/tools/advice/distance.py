"""How far the simulator is from laboratories, and intervals that follow from it.

`laboratories.csv` has a row per published share: the laboratory's and the simulator's for the same case, as advantages
(`runs.advantage`), with the spread of its neighbours. A distance counts in units of `scale`, because laboratories
differ more where a case's neighbours differ. The interval of a share reaches as many units as contain the level's part
of the published distances for queues of the same kind. Each campaign of a laboratory has one voice, however many cells
it published, because its cells share their hosts and err together. For the same reason a campaign is one observation of
the error of campaigns, and a few observations do not give the scale of this error. Distances are therefore stretched as
Student's t with as many degrees of freedom is wider than the normal distribution.
"""

from __future__ import annotations

import csv
import io
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import accumulate
from statistics import NormalDist

from l4slab.results import chance
from l4slab.tools.advice.case import Kind
from l4slab.tools.advice.regimes import Regime

TABLE = "laboratories.csv"
LEVELS = (0.5, 0.8, 0.9)
# The difference of laboratories where neighbours do not differ (a share of 0.50 or of 0.52), as an advantage.
_FLOOR = 0.1


@dataclass(frozen=True)
class Distance:
    """A published share and the simulated one, both as advantages of Prague."""

    study: str
    laboratory: str
    kind: Kind
    published: float
    simulated: float
    spread: float
    case: str = ""

    @property
    def units(self) -> float:
        """The distance in units of its scale."""
        return abs(self.published - self.simulated) / scale(self.spread)


def scale(spread: float) -> float:
    """The unit in which a distance counts, where the neighbours of a case spread so much."""
    return math.hypot(spread, _FLOOR)


@cache
def distances() -> tuple[Distance, ...]:
    """The distances that ship with the package."""
    text = (files("l4slab.tools.advice") / TABLE).read_text("utf-8")
    rows = csv.DictReader(io.StringIO("".join(line for line in text.splitlines(True) if not line.startswith("#"))))
    numbers = ("published", "simulated", "spread")
    return tuple(
        Distance(**{key: float(value) if key in numbers else value for key, value in row.items()})  # type: ignore[arg-type]
        for row in rows
    )


@dataclass(frozen=True)
class Distances:
    """Distances of published shares from simulated ones for one kind of queue, with their weights."""

    units: Sequence[float]  # rising, stretched by the number of voices
    weights: Sequence[float]  # that sum to 1

    @classmethod
    def of(cls, kind: Kind, found: Sequence[Distance]) -> Distances:
        """Each campaign that has such queues has one voice, and all queues of other kinds together have one."""
        voices = Counter(one.study if one.kind == kind else "" for one in found)
        weighed = sorted((one.units, 1 / voices[one.study if one.kind == kind else ""]) for one in found)
        weights = [weight / len(voices) for _, weight in weighed]
        middles = [end - weight / 2 for end, weight in zip(accumulate(weights), weights, strict=True)]
        normal = [NormalDist().inv_cdf((1 + middle) / 2) for middle in middles]
        within = chance.within(middles, len(voices))
        stretched = [of_t / of_z * units for of_t, of_z, (units, _) in zip(within, normal, weighed, strict=True)]
        return cls(stretched, weights)

    def reach(self, level: float) -> float:
        """Units within which so large a part of the distances lies."""
        reached = 0.0
        for units, weight in zip(self.units, self.weights, strict=True):
            reached += weight
            if reached >= level:
                return units
        return self.units[-1]

    def beyond(self, units: float) -> float:
        """The part of the distances that is larger."""
        return math.fsum(self.weights[bisect_left(self.units, units) :])


@dataclass(frozen=True)
class Forecast:
    """A prediction of a laboratory's result as an advantage of Prague: a centre, its unit, and the error in units.

    `above` and `below` widen one side, where laboratories are known to differ in a direction.
    """

    centre: float
    unit: float
    distances: Distances
    above: float = 0.0
    below: float = 0.0

    def interval(self, level: float) -> tuple[float, float]:
        """Where the advantage lies with this probability."""
        reach = self.unit * self.distances.reach(level)
        return self.centre - reach - self.below, self.centre + reach + self.above

    def probability_above(self, advantage: float) -> float:
        """That Prague's advantage is larger."""
        if advantage >= self.centre:
            return self.distances.beyond(max(advantage - self.above - self.centre, 0.0) / self.unit) / 2
        return 1 - self.distances.beyond(max(self.centre - self.below - advantage, 0.0) / self.unit) / 2


def forecast(
    kind: Kind,
    centre: float,
    spread: float,
    found: Sequence[Distance] | None = None,
    regimes: Sequence[Regime] = (),
) -> Forecast:
    """Of a case whose runs have this centre and spread; `found` are other distances than those that ship."""
    above, below = (max((getattr(one, side) for one in regimes), default=0.0) for side in ("above", "below"))
    return Forecast(centre, scale(spread), Distances.of(kind, distances() if found is None else found), above, below)


@dataclass(frozen=True)
class Coverage:
    """The number of cells that were left out, and the part of them within the interval of each level."""

    left_out: str
    kind: str
    cells: int
    inside: dict[float, float]
    width: float  # of the interval of 80 %, in points of share, median


def coverage(found: Sequence[Distance] | None = None, by: str = "laboratory") -> list[Coverage]:
    """Leave out each laboratory in turn (or each `study`), and count its shares within the others' intervals."""
    found = distances() if found is None else found
    rows = []
    for name in dict.fromkeys(getattr(one, by) for one in found):
        others = [one for one in found if getattr(one, by) != name]
        left = [one for one in found if getattr(one, by) == name]
        rows += [
            _covered(name, kind, [one for one in left if one.kind == kind], others)
            for kind in dict.fromkeys(one.kind for one in left)
        ]
    return rows


def _covered(left_out: str, kind: Kind, left: Sequence[Distance], others: Sequence[Distance]) -> Coverage:
    forecasts = [forecast(kind, one.simulated, one.spread, others) for one in left]
    inside = {}
    for level in LEVELS:
        intervals = [one.interval(level) for one in forecasts]
        hits = [low <= one.published <= high for one, (low, high) in zip(left, intervals, strict=True)]
        inside[level] = sum(hits) / len(hits)
    shares = [tuple(1 / (1 + math.exp(-end)) for end in one.interval(0.8)) for one in forecasts]
    widths = sorted(high - low for low, high in shares)
    return Coverage(left_out, kind, len(left), inside, 100 * widths[len(widths) // 2])
