"""The capacity of each flow's path over a run, from the run's description.

The capacity of a path is the rate of its slowest link, in steps of (time from which it holds, Mb/s of Ethernet frames).
Shapers inside a queue (`cake bandwidth`, `tbf`) and impairments do not count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

import polars as pl

from l4slab.base.run import Link
from l4slab.base.run import Run as Description
from l4slab.experimentfile import traces

Steps = Sequence[tuple[float, float]]


def of_links(description: Description) -> dict[str, Steps]:
    """The steps of each link."""
    steps = {link["name"]: _of_link(description, link) for link in description["links"]}
    for change in description["at"]:  # in the order of time; of one that waits for a state, none is known before
        if change.get("state") is None and (link := change.get("link")) and (rate_bps := change.get("rate_bps")):
            steps[link].append((change["time_ns"] / 1e9, rate_bps / 1e6))
    return {name: _merged(found) for name, found in steps.items()}


def _of_link(description: Description, link: Link) -> list[tuple[float, float]]:
    """At the beginning; of a trace, its mean in each step of the time series."""
    trace = link.get("rate_trace")
    if trace is None:
        return [(0.0, link["rate_bps"] / 1e6)]
    return traces.bins(trace, description["duration_ns"], description["sample_ns"])


def of_flows(description: Description) -> dict[str, Steps]:
    """The steps of each flow's path."""
    links = of_links(description)
    return {flow["name"]: _slowest([links[name] for name in flow["path"]]) for flow in description["flows"]}


def is_shared(description: Description) -> bool:
    """Whether all flows cross one link in the same direction, so that each has a share of something."""
    return bool(set.intersection(*(set(flow["path"]) for flow in description["flows"])))


def table(description: Description) -> pl.DataFrame:
    """The steps of every flow's path: columns `flow`, `time_s`, `capacity_mbps`."""
    rows = [(flow, *step) for flow, steps in of_flows(description).items() for step in steps]
    return pl.DataFrame(rows, {"flow": pl.String, "time_s": pl.Float64, "capacity_mbps": pl.Float64}, orient="row")


def means(description: Description) -> dict[str, float]:
    """The mean capacity of every flow's path over the measured interval."""
    begin_s, end_s = description["warmup_ns"] / 1e9, description["duration_ns"] / 1e9
    return {flow: mean(steps, begin_s, end_s) for flow, steps in of_flows(description).items()}


def _slowest(paths: Sequence[Steps]) -> Steps:
    if len(paths) == 1:
        return paths[0]
    times = sorted({time for steps in paths for time, _ in steps})
    return _merged([(time, min(at(steps, time) for steps in paths)) for time in times])


def _merged(steps: Steps) -> Steps:
    """Without steps that end as they begin, or change nothing."""
    last = list(dict(steps).items())
    return last[:1] + [step for before, step in pairwise(last) if step[1] != before[1]]


def at(steps: Steps, time_s: float) -> float:
    """The capacity at this time."""
    return steps[bisect_right(steps, time_s, key=lambda step: step[0]) - 1][1]


def mean(steps: Steps, begin_s: float, end_s: float) -> float:
    """Over an interval."""
    return sum(capacity * (end - begin) for begin, end, capacity in _within(steps, begin_s, end_s)) / (end_s - begin_s)


def _within(steps: Steps, begin_s: float, end_s: float) -> Iterator[tuple[float, float, float]]:
    ends = [time for time, _ in steps[1:]] + [end_s]
    for (begin, capacity), end in zip(steps, ends, strict=True):
        if max(begin, begin_s) < min(end, end_s):
            yield max(begin, begin_s), min(end, end_s), capacity
