"""Whether simulator and kernel are equivalent in an experiment, from the trials of both.

The means of each quantity are compared by two one-sided t-tests (Schuirmann, J. Pharmacokin. Biopharm. 15, 1987). They
are *equivalent* if the tests refute a difference as large as the margin to either side, *different* if they refute one
as small as the margin, and else *undecided*. The spread is that of both engines' trials together, because these should
be the same.

The margin is the bar of `l4slab agree`. If single trials spread more than this, the margin is `SCALE` of their standard
deviation, as for drugs that vary much from dose to dose (Haidar et al., Pharm. Res. 25, 2008). The means must then also
be within `POINT` of the larger one (80 to 125 %).

An experiment is equivalent if every quantity is, each at `EQUIVALENT` (all have to pass, so no correction is due). It
is different if one quantity is, all together at `DIFFERENT` (Bonferroni, over quantities and looks).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean
from typing import Literal, NamedTuple

from l4slab.results import chance
from l4slab.results.bars import DEFAULT_BARS, Bar
from l4slab.tools.agreement.compare import LEAST_PACKETS

Verdict = Literal["equivalent", "different", "undecided"]

# Trials of the kernel after which it is judged, each time if it was undecided before, and how many of the simulator it
# is judged by then: these cost a hundredth, so that the mean of the kernel's is what is uncertain.
LOOKS = {2: 40, 5: 40, 12: 120, 30: 200, 100: 600}
# Fewer trials of the kernel do not show whether it has regimes that the simulator has not.
LEAST_TRIALS = 4
# How often a quantity that differs by the margin is called equivalent, how often an experiment whose quantities all do
# is called different.
EQUIVALENT = 0.05
DIFFERENT = 0.01
# FDA: ln(1.25) / 0.25.
SCALE = 0.893
POINT = 0.2

# What is judged, by table, with the largest difference of no interest.
MARGINS: dict[str, dict[str, Bar]] = {
    "flows": {
        "share": DEFAULT_BARS["share"],
        "rtt_ms_mean": DEFAULT_BARS["sojourn_ms_mean"],
        "ce_pct": DEFAULT_BARS["ce_pct"],
        "completion_ms_p50": DEFAULT_BARS["sojourn_ms_mean"],
    },
    "links": {
        "utilisation": DEFAULT_BARS["utilisation"],
        "sojourn_ms_mean": DEFAULT_BARS["sojourn_ms_mean"],
        "drop_pct": DEFAULT_BARS["ce_pct"],
    },
}
# These are of a whole flow or link and exist with few packets, too.
_WHOLE = ("share", "utilisation", "completion_ms_p50")
_COUNTS = ("ce_pct", "drop_pct")


class Place(NamedTuple):
    """A quantity of a flow group, or of a link's queue."""

    flow: str | None
    link: str | None
    queue: str | None
    quantity: str

    def __str__(self) -> str:
        where = self.flow or (self.link if self.queue == "all" else f"{self.link} {self.queue}")
        return f"{self.quantity} of {where}"


@dataclass(frozen=True)
class Value:
    """A quantity in one trial, or None, and the number of packets behind it."""

    value: float | None
    packets: float | None


# By place, a value per trial.
Trials = dict[Place, list[Value]]


@dataclass(frozen=True)
class Row:
    """A quantity, judged. Means and the standard deviation of single trials; None where an engine has no value."""

    place: Place
    kernel: float | None
    simulator: float | None
    sd: float | None
    kernel_trials: int
    simulator_trials: int
    margin: float | None
    p_equivalent: float  # how likely, were the difference the margin, means as near as these or nearer
    p_different: float  # or as far apart or farther
    verdict: Verdict

    def __str__(self) -> str:
        values = [f"{one:.4g}" if one is not None else "none" for one in (self.kernel, self.simulator, self.sd)]
        trials = f"{self.kernel_trials} and {self.simulator_trials} trials"
        return f"{self.place}: {values[0]} on the kernel, {values[1]} on the simulator, sd {values[2]}, {trials}"

    @property
    def beyond(self) -> float:
        """The difference in margins; infinite where only one engine has a value."""
        if self.kernel is None or self.simulator is None:
            return float("inf")
        difference = abs(self.simulator - self.kernel)
        return difference / self.margin if self.margin else (float("inf") if difference else 0.0)


def assess(kernel: Trials, simulator: Trials) -> list[Row]:
    """Every quantity that says something, the one that is furthest apart first."""
    places = [place for place in dict.fromkeys((*simulator, *kernel)) if not _silent(place, kernel, simulator)]
    looks = sum(count >= LEAST_TRIALS for count in LOOKS)
    chance = DIFFERENT / max(len(places), 1) / looks
    rows = [_row(place, kernel.get(place, []), simulator.get(place, []), chance) for place in places]
    return sorted(rows, key=lambda row: (row.p_different, -row.beyond))


def verdict_of(rows: Iterable[Row]) -> Verdict:
    """Of a whole experiment."""
    found = {row.verdict for row in rows}
    if "different" in found:
        return "different"
    return "equivalent" if found == {"equivalent"} else "undecided"


def _row(place: Place, kernel: Sequence[Value], simulator: Sequence[Value], chance: float) -> Row:
    a = [one.value for one in kernel if one.value is not None]
    b = [one.value for one in simulator if one.value is not None]
    if not a or not b:
        # A flow that completes nothing in one engine and something in the other.
        lacking: Verdict = "different" if len(kernel) >= LEAST_TRIALS else "undecided"
        means = (fmean(a) if a else None, fmean(b) if b else None)
        return Row(place, *means, None, len(a), len(b), None, 1.0, 0.0, lacking)
    sd = _sd(a, b)
    bar = allowed(place.quantity, fmean(a))
    margin = max(bar, SCALE * sd)
    difference = abs(fmean(b) - fmean(a))
    is_near = difference <= max(bar, POINT * max(abs(fmean(a)), abs(fmean(b))))
    p_equivalent, p_different = _chances(difference, margin, sd * sqrt(1 / len(a) + 1 / len(b)), len(a) + len(b) - 2)
    verdict: Verdict = "undecided"
    if p_equivalent <= EQUIVALENT and is_near:
        verdict = "equivalent"
    elif p_different <= chance and len(kernel) >= LEAST_TRIALS:
        verdict = "different"
    return Row(place, fmean(a), fmean(b), sd, len(a), len(b), margin, p_equivalent, p_different, verdict)


def _chances(difference: float, margin: float, error: float, freedom: int) -> tuple[float, float]:
    if freedom < 1:
        return 1.0, 1.0
    if error == 0:
        return (0.0, 1.0) if difference <= margin else (1.0, 0.0)
    t = (margin - difference) / error
    return chance.tail(t, freedom), chance.tail(-t, freedom)


def _sd(*samples: Sequence[float]) -> float:
    """Of single trials about their engine's mean."""
    means = [fmean(sample) for sample in samples]
    squares = sum(sum((value - mean) ** 2 for value in sample) for sample, mean in zip(samples, means, strict=True))
    return sqrt(squares / max(sum(map(len, samples)) - len(samples), 1))


def allowed(quantity: str, kernel: float) -> float:
    """The bar as a largest difference from the kernel's value."""
    bar = next(bars[quantity] for bars in MARGINS.values() if quantity in bars)
    if bar.cells is None:
        return bar.p90 or 0.0
    return max(bar.absolute or 0.0, (bar.relative or 0.0) * abs(kernel))


def _silent(place: Place, kernel: Trials, simulator: Trials) -> bool:
    """Uninformative comparisons are excluded, as in `compare`; they would pass for agreement."""
    trials = [*kernel.get(place, []), *simulator.get(place, [])]
    values = [one.value for one in trials if one.value is not None]
    if not values or (place.quantity in _COUNTS and not any(values)):
        return True
    if any(0 < _parts(side.get(place, [])) < 0.5 for side in (kernel, simulator)):
        return True
    if place.quantity == "utilisation":
        return place != _fullest(kernel, simulator)
    if place.quantity == "share":
        flows = {one.flow for one in (*kernel, *simulator) if one.quantity == "share"}
        return len(flows) < 2
    # The laboratory sees what enters and leaves, not CAKE's tins.
    if place.queue not in (None, "all") and all(one.packets is None for one in kernel.get(place, [])):
        return True
    return False if place.quantity in _WHOLE else _few(kernel.get(place, []), simulator.get(place, []))


def _parts(side: Sequence[Value]) -> float:
    """Part of the trials that have a value: a short flow may be over before its RTT is sampled."""
    return sum(one.value is not None for one in side) / max(len(side), 1)


def _fullest(*sides: Trials) -> Place | None:
    """The utilisation of the bottleneck. The shares cover traffic over other links."""

    def mean(place: Place) -> float:
        values = [one.value for side in sides for one in side.get(place, []) if one.value is not None]
        return fmean(values) if values else 0.0

    places = [one for side in sides for one in side if one.quantity == "utilisation" and one.queue == "all"]
    return max(places, key=mean, default=None)


def _few(*sides: Sequence[Value]) -> bool:
    means = [fmean(one.packets or 0 for one in side) for side in sides if side]
    return max(means, default=0) < LEAST_PACKETS
