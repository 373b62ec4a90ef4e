"""The performance envelope: where goodput and queueing delay of a controller lie, and how far two of them overlap.

As QUICbench (Mishra and Leong, IMC 2023), a flow competes with the reference, and each ten round trips give a point of
its goodput and the queue's delay. Here an envelope is the convex hull of the points of all trials, after each trial has
lost the twentieth that lies farthest from its middle, because a hull follows its outermost points. The overlap of two
envelopes is the area of their intersection over the area of their union.

Whether an overlap is too small is asked by permutation: if the candidate is as the reference, their trials may be
exchanged, and the overlap is not among the smallest of those of all exchanges. A false alarm is then as rare as the
test says, whatever the distribution of the points.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from l4slab.tools.why.quantities import Trial, mean

Point = tuple[float, float]
Hull = Sequence[Point]

_ROUND_TRIPS = 10
_TRIMMED = 0.05
# Exchanges of trials; if there are more, so many are drawn.
_EXCHANGES = 1000


@dataclass(frozen=True)
class Overlap:
    """Mean over the places. `usual` is the median of all exchanges of trials, `least` the limit, and `p` the part of
    the exchanges with an overlap of at most `found`.
    """

    found: float
    usual: float
    least: float
    p: float
    by_place: Sequence[float]


def cloud(trial: Trial, flow: str, link: str, rtt_s: float, from_s: float) -> list[Point]:
    """Mb/s and ms of each ten round trips after `from_s`."""
    step = pl.col("time_s").sub(from_s).truediv(_ROUND_TRIPS * rtt_s).floor()
    late = trial.series.filter(pl.col("time_s") > from_s).with_columns(slot=step)
    rates = late.filter(pl.col("flow") == flow).group_by("slot").agg(pl.col("goodput_mbps").mean())
    queue = late.filter((pl.col("link") == link) & (pl.col("queue") == "all"))
    delays = queue.group_by("slot").agg(pl.col("sojourn_ms").mean())
    both = rates.join(delays, on="slot").drop_nulls().sort("slot")
    return list(zip(both["goodput_mbps"], both["sojourn_ms"], strict=True))


def trimmed(points: Sequence[Point]) -> Hull:
    """The hull of the points without those that lie farthest from their middle, in standard deviations."""
    if not points:
        return ()
    middles, spreads = [], []
    for values in zip(*points, strict=True):
        middle = mean(values)
        middles.append(middle)
        spreads.append(math.sqrt(math.fsum((one - middle) ** 2 for one in values) / len(values)) or 1.0)

    def distance(point: Point) -> float:
        return math.hypot(*((one - middle) / by for one, middle, by in zip(point, middles, spreads, strict=True)))

    kept = sorted(points, key=distance)[: max(len(points) - int(_TRIMMED * len(points)), 1)]
    return hull(kept)


def hull(points: Sequence[Point]) -> Hull:
    """The convex hull, counterclockwise (Andrew's monotone chain)."""
    ordered = sorted(set(points))
    if len(ordered) < 3:
        return ordered

    def half(of_them: Sequence[Point]) -> list[Point]:
        found: list[Point] = []
        for point in of_them:
            while len(found) > 1 and _turn(found[-2], found[-1], point) <= 0:
                found.pop()
            found.append(point)
        return found[:-1]

    return [*half(ordered), *half(ordered[::-1])]


def _turn(a: Point, b: Point, c: Point) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def area(one: Hull) -> float:
    """Of a polygon whose corners are counterclockwise."""
    around = zip(one, [*one[1:], *one[:1]], strict=True)
    return math.fsum(a[0] * b[1] - b[0] * a[1] for a, b in around) / 2 if len(one) > 2 else 0.0


def intersection(one: Hull, other: Hull) -> Hull:
    """Of two convex polygons (Sutherland and Hodgman)."""
    if min(len(one), len(other)) < 3:
        return ()
    left = list(one)
    for a, b in zip(other, [*other[1:], other[0]], strict=True):
        given, left = left, []
        for here, there in zip(given, [*given[1:], *given[:1]], strict=True):
            now, then = _turn(a, b, here), _turn(a, b, there)
            if now >= 0:
                left.append(here)
            if (now > 0) != (then > 0) and now != then:
                part = now / (now - then)
                left.append((here[0] + part * (there[0] - here[0]), here[1] + part * (there[1] - here[1])))
    return left


def overlap(one: Hull, other: Hull) -> float:
    """Area of the intersection over area of the union."""
    common = area(intersection(one, other))
    union = area(one) + area(other) - common
    return common / union if union > 0 else float(list(one) == list(other))


def overlaps(candidate: Sequence[Sequence[Hull]], reference: Sequence[Sequence[Hull]], chance: float) -> Overlap:
    """The overlap of two sides. Each has, by place, the hull of each trial; `chance` is how often equals may fail."""

    def by_place(chosen: Sequence[int]) -> list[float]:
        found = []
        for first, second in zip(candidate, reference, strict=True):
            trials = [*first, *second]
            sides = (
                [trials[number] for number in chosen],
                [one for number, one in enumerate(trials) if number not in chosen],
            )
            found.append(overlap(*(hull(list(itertools.chain.from_iterable(side))) for side in sides)))
        return found

    count, total = len(candidate[0]), len(candidate[0]) + len(reference[0])
    is_found = tuple(range(count))
    found = by_place(is_found)
    if math.comb(total, count) <= _EXCHANGES:
        ways = [way for way in itertools.combinations(range(total), count) if way != is_found]
    else:
        draw = random.Random(1)  # noqa: S311  (not a secret)
        ways = [tuple(draw.sample(range(total), count)) for _ in range(_EXCHANGES)]
    means = sorted(mean(by_place(way)) for way in ways)
    here = mean(found)
    as_small = 1 + sum(one <= here + 1e-12 for one in means)
    # The largest overlap whose p is at most `chance`.
    rank = int(chance * (len(means) + 1)) - 1
    return Overlap(here, means[len(means) // 2], means[rank] if rank >= 0 else 0.0, as_small / (len(means) + 1), found)
