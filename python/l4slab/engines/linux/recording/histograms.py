"""Rows of the table `histograms`."""

from __future__ import annotations

from typing import Any

import numpy as np

from l4slab.engines.linux.recording.flows import completed_of, measured_of, srtts_of
from l4slab.engines.linux.recording.observed import Array, Observed
from l4slab.engines.linux.recording.queues import queues_of, sent_of

_NOTHING = np.empty(0, np.int64)


def histograms(observed: Observed) -> list[dict[str, Any]]:
    """A row per distribution and bin: of the flows, then of the queues."""
    rows = []
    for flow in observed.lab.flows:
        times = [end - start for start, end in completed_of(observed, flow)]
        found = {
            "rtt_ms": srtts_of(observed, flow).astype(np.int64) * 1000 if flow.is_tcp else _NOTHING,
            "sojourn_ms": measured_of(observed, flow)["queued_ns"].to_numpy(),
            "completion_ms": np.array(times, np.int64),
        }
        name = flow.spec["name"]
        rows += [{"quantity": quantity, "flow": name} | one for quantity, ns in found.items() for one in bins(ns)]
    for link in observed.links:
        for queue, which in queues_of(observed, link).items():
            of_queue = {"quantity": "sojourn_ms", "link": link.name, "queue": queue}
            rows += [of_queue | one for one in bins(link.sojourn_ns[sent_of(observed, link, which)])]
    return rows


def bins(ns: Array) -> list[dict[str, Any]]:
    """How many times lie in each bin that is not empty, as the simulator's core has them (`metrics.HISTOGRAMS`)."""
    units = ns >> 10
    # frexp gives the number of binary digits.
    octave = np.maximum(np.frexp(units.astype(np.float64))[1] - 7, 0)
    low, first, count = np.unique(units >> octave << octave, return_index=True, return_counts=True)
    high = low + (1 << octave[first].astype(np.int64))
    edges = (((edge << 10).astype(np.float64) / 1e6).tolist() for edge in (low, high))
    return [{"low_ms": a, "high_ms": b, "count": n} for a, b, n in zip(*edges, count.tolist(), strict=True)]
