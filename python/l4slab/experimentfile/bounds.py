"""The bounds of an experiment file. `l4slab.campaign.memory` has those of the machine that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RATE_BPS = 10**12
TIME_NS = 168 * 3600 * 10**9
SIZE_BYTES = 10**15
BURST_BYTES = 2**32 - 1  # as in tc
COUNT = 100_000
# All flows together that start during the run, as in the core.
LATER = 60_000
TRIALS = 100_000
# Combinations times trials of a file; each takes about 4 kB before it runs.
RUNS = 250_000
# Of an experiment file.
FILE_BYTES = 2**24

_MTU_FRAME_BITS = 1514 * 8


def packets(run: Mapping[str, Any]) -> float:
    """The most packets that a run may simulate: the capacity of the links and the packets of unresponsive flows."""
    seconds = run["duration_ns"] / 1e9
    carried = sum(link["rate_bps"] for link in run["links"]) / _MTU_FRAME_BITS
    cbr = [flow for flow in run["flows"] if flow["kind"] == "cbr"]
    return float(seconds * (carried + sum(flow["count"] * flow["rate_bps"] / 8 / flow["packet_bytes"] for flow in cbr)))
