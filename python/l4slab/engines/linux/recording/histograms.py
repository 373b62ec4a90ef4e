"""Rows of the table `histograms`."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from l4slab.base.values import Row
from l4slab.engines.linux.recording.flows import completed_of, measured_of, srtts_of
from l4slab.engines.linux.recording.observed import Array, Observed
from l4slab.engines.linux.recording.queues import queues_of, sent_of

_NOTHING = np.empty(0, np.int64)


class Bin(TypedDict):
    """How many values lie in a bin."""

    low_ms: float
    high_ms: float
    count: int


def histograms(observed: Observed) -> list[Row]:
    """A row per distribution and bin: of the flows, then of the queues."""
    rows: list[Row] = []
    for flow in observed.lab.flows:
        times = [end - start for start, end in completed_of(observed, flow)]
        found = {
            "rtt_ms": srtts_of(observed, flow).astype(np.int64) * 1000 if flow.is_tcp else _NOTHING,
            "sojourn_ms": measured_of(observed, flow)["queued_ns"].to_numpy(),
            "completion_ms": np.array(times, np.int64),
        }
        name = flow.spec["name"]
        for quantity, ns in found.items():
            rows += [{"quantity": quantity, "flow": name, **_row(one)} for one in bins(ns)]
    for link in observed.links:
        for queue, which in queues_of(observed, link).items():
            of_queue = {"quantity": "sojourn_ms", "link": link.name, "queue": queue}
            rows += [{**of_queue, **_row(one)} for one in bins(link.sojourn_ns[sent_of(observed, link, which)])]
    return rows


def _row(found: Bin) -> Row:
    return {"low_ms": found["low_ms"], "high_ms": found["high_ms"], "count": found["count"]}


def bins(ns: Array) -> list[Bin]:
    """How many times lie in each bin that is not empty, as the simulator's core has them (`metrics.HISTOGRAMS`)."""
    units = ns >> 10
    # frexp gives the number of binary digits.
    octave = np.maximum(np.frexp(units.astype(np.float64))[1] - 7, 0)
    low, first, count = np.unique(units >> octave << octave, return_index=True, return_counts=True)
    high = low + (1 << octave[first].astype(np.int64))
    edges = (((edge << 10).astype(np.float64) / 1e6).tolist() for edge in (low, high))
    return [{"low_ms": a, "high_ms": b, "count": n} for a, b, n in zip(*edges, count.tolist(), strict=True)]
