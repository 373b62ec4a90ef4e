"""What a congestion control's law shows in the trace of its window, a number per trial.

The cuts: the window after a reduction over that before, apart for windows above and below the maximum W_max that CUBIC
remembers, because fast convergence is for the latter. The growth: how long the window takes for half of the way back,
where a cubic governs it, after either kind of cut; and segments per round trip, where the round trips are short. The
rest: the window after a pause of the application over that before. The traces need a window and a smoothed RTT at each
sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import polars as pl

from l4slab.tools.why.quantities import Trial, mean

CUT, LOWER_CUT, CUBIC, LOWER_CUBIC, PER_ROUND, RESTED = (
    "cut", "cut below W_max", "cubic growth", "cubic growth below W_max", "growth per RTT", "window after rest",
)  # fmt: skip
BETA, C = 0.7, 0.4
# Of the window: a smaller fall is no reduction; peaks this near W_max are on neither side of it.
_FALL, _NEAR = 0.92, 0.05
# Of a round trip in which a cubic grows faster than Reno.
_LONG_S = 0.04
# A cut so long after the link's rate has halved is another one, and its W_max less sure.
_SOON_S = 1.5
# Half of the way back to W_max: of K, W(t) = W_max - C (K - t)^3.
_HALF = 1 - 0.5 ** (1 / 3)


@dataclass(frozen=True)
class Law:
    """A number of the law: `tolerance` is what still counts as equal; `value` is the document's, by controller."""

    says: str
    tolerance: float
    value: Mapping[str, tuple[float, str]]


LAWS: Mapping[str, Law] = {
    CUT: Law(
        "window after a reduction over that before", 0.03,
        {"cubic": (BETA, "RFC 9438, 4.6"), "reno": (0.5, "RFC 5681")},
    ),
    LOWER_CUT: Law(
        "the same, of a window below the last maximum", 0.03,
        {"cubic": (BETA, "RFC 9438, 4.6"), "reno": (0.5, "RFC 5681")},
    ),
    CUBIC: Law(
        "time that the law's cubic takes for half of the way back, over that measured", 0.15,
        {"cubic": (1.0, "RFC 9438, 4.2")},
    ),
    LOWER_CUBIC: Law(
        "the same after a cut below the last maximum, which fast convergence lowers", 0.15,
        {"cubic": (1.0, "RFC 9438, 4.2 and 4.7")},
    ),
    PER_ROUND: Law(
        "segments per round trip at a short RTT", 0.1,
        {"cubic": (3 * (1 - BETA) / (1 + BETA), "RFC 9438, 4.3"), "reno": (1.0, "RFC 5681")},
    ),
    RESTED: Law("window in the second after a rest over that before it", 0.1, {}),
}  # fmt: skip


@dataclass(frozen=True)
class Epoch:
    """From one reduction to the next: the window before and after it, when it was over, and what followed."""

    before: float
    after: float
    times: Sequence[float]
    windows: Sequence[float]
    rtts_ms: Sequence[float]


def epochs(trial: Trial, flow: str, from_s: float) -> list[Epoch]:
    """The reductions of a flow after `from_s`."""
    rows = trial.series.filter(pl.col("flow") == flow).sort("time_s")
    if not {"cwnd_packets", "srtt_ms"} <= set(rows.columns):
        return []
    rows = rows.drop_nulls(["cwnd_packets", "srtt_ms"])
    times, windows, rtts = (rows[name].to_list() for name in ("time_s", "cwnd_packets", "srtt_ms"))
    cuts = [(peak, low) for peak, low in _falls(times, windows, rtts) if times[peak] > from_s]
    found = []
    for number, (peak, low) in enumerate(cuts):
        end = cuts[number + 1][0] + 1 if number + 1 < len(cuts) else len(times)
        part = slice(low, end)
        found.append(Epoch(windows[peak], windows[low], times[part], windows[part], rtts[part]))
    return found


def _falls(times: Sequence[float], windows: Sequence[float], rtts_ms: Sequence[float]) -> Iterator[tuple[int, int]]:
    """Places before and after each reduction: the window falls, for two round trips at most, and then no more."""
    place = 0
    while place + 1 < len(windows):
        if windows[place + 1] >= windows[place]:
            place += 1
            continue
        low = place
        while (
            low + 1 < len(windows)
            and windows[low + 1] <= windows[low]
            and times[low + 1] - times[place] <= 2.5e-3 * rtts_ms[place] + 0.05
        ):
            low += 1
        # Equal samples at its foot are no part of the fall.
        while windows[low - 1] == windows[low]:
            low -= 1
        if windows[low] < _FALL * windows[place]:
            yield place, low
        place = max(low, place + 1)


def of_rivals(trials: Sequence[Trial], rtts_s: Sequence[float], flow: str, from_s: float) -> dict[str, float]:
    """The cuts and the cubic of one trial, from all places where a flow has a rival."""
    found: dict[str, list[float]] = {CUT: [], LOWER_CUT: [], CUBIC: []}
    for trial, rtt_s in zip(trials, rtts_s, strict=True):
        for epoch, w_max, is_lower in _cuts(trial, flow, from_s):
            found[LOWER_CUT if is_lower else CUT].append(epoch.after / epoch.before)
            if rtt_s >= _LONG_S and not is_lower and (growth := _cubic(epoch, w_max)) is not None:
                found[CUBIC].append(growth)
    return {name: median(values) for name, values in found.items() if values}


def narrowed(trial: Trial, flow: str, from_s: float, at_s: Sequence[float]) -> dict[str, float]:
    """The cubic after cuts below W_max, soon after the link has become slower at these times."""
    found = []
    for epoch, w_max, is_lower in _cuts(trial, flow, from_s):
        is_soon = any(time < epoch.times[0] <= time + _SOON_S for time in at_s)
        if is_lower and is_soon and (growth := _cubic(epoch, w_max)) is not None:
            found.append(growth)
    return {LOWER_CUBIC: median(found)} if found else {}


def _cuts(trial: Trial, flow: str, from_s: float) -> Iterator[tuple[Epoch, float, bool]]:
    """Each epoch, the W_max that its reduction leaves, and whether this was below the W_max before. Those near it, and
    the first, are left out.
    """
    w_max = math.inf
    for number, epoch in enumerate(epochs(trial, flow, from_s)):
        is_near = abs(epoch.before - w_max) <= _NEAR * w_max if number else True
        is_lower = number > 0 and epoch.before < w_max
        w_max = epoch.before * ((1 + BETA) / 2 if is_lower else 1)
        if not is_near:
            yield epoch, w_max, is_lower


def _cubic(epoch: Epoch, w_max: float) -> float | None:
    """The time for half of the way back to W_max by the law over that of the trace; None where it is cut before."""
    way = w_max - epoch.after
    if way <= 0.1 * w_max:
        return None
    for time, window in zip(epoch.times, epoch.windows, strict=True):
        if window >= epoch.after + way / 2:
            took = time - epoch.times[0]
            return _HALF * (way / C) ** (1 / 3) / took if took > 0 else None
    return None


def per_round(trial: Trial, flow: str, from_s: float) -> dict[str, float]:
    """Segments per round trip between reductions."""
    found = []
    for epoch in epochs(trial, flow, from_s):
        steps = zip(epoch.times, epoch.times[1:], epoch.rtts_ms[1:], strict=False)
        rounds = math.fsum((later - time) / (rtt * 1e-3) for time, later, rtt in steps if rtt > 0)
        if rounds >= 3:
            found.append((epoch.windows[-1] - epoch.after) / rounds)
    return {PER_ROUND: median(found)} if found else {}


def rest(trial: Trial, flow: str, pause: tuple[float, float]) -> dict[str, float]:
    """The mean window in the second after a pause over that in the second before it."""
    rows = trial.series.filter(pl.col("flow") == flow)
    if "cwnd_packets" not in rows.columns:
        return {}

    def window(low: float, high: float) -> float | None:
        part = rows.filter((pl.col("time_s") > low) & (pl.col("time_s") <= high))["cwnd_packets"].drop_nulls()
        return mean(part.to_list()) if len(part) else None

    begin, end = pause
    before, after = window(begin - 1, begin), window(end + 0.1, end + 1)
    return {RESTED: after / before} if before and after is not None else {}
