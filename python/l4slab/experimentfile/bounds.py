"""The bounds of an experiment: of each quantity, and of the memory that one run may need.

The memory is estimated from the run's description, before it runs. The estimate is an upper bound for packets (those
that the queues can hold, or all that are sent), and rough for the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
MEMORY_BYTES = 2**30
# Of an experiment file.
FILE_BYTES = 2**24

# Measured; a packet is a queued one, a TCP segment also is in the sender's scoreboard.
_PACKET_BYTES = 80
_SEGMENT_BYTES = 250
_FLOW_BYTES = 4000
_ROW_BYTES = 800
_TRANSFER_BYTES = 300
_CONNECTION_BYTES = 2000
_MTU_FRAME_BITS = 1514 * 8
_SMALLEST_FRAME_BYTES = 64
_QUEUES = 3  # rows of a link per sample: all, L and C
_LIMIT = re.compile(r"\blimit (\d+)(b?)\b")
# For a queue whose options name no limit in packets; most have a few megabytes.
_NO_LIMIT = 100_000


def memory_bytes(run: Mapping[str, Any]) -> float:
    """An upper bound of a run's memory, in bytes."""
    seconds = run["duration_ns"] / 1e9
    rates = {link["name"]: link["rate_bps"] for link in run["links"]}
    for change in run["at"]:
        if change.get("link") and change["rate_bps"]:
            rates[change["link"]] = max(rates[change["link"]], change["rate_bps"])
    flows = [flow | _most(flow, run["at"]) for flow in run["flows"]]
    held = sum(map(_limit, _qdiscs(run)))
    sent = waiting = segments = 0.0
    for flow in flows:
        round_trip = flow["rtt_ns"] / 1e9
        if flow["kind"] == "cbr":
            packets = flow["count"] * flow["rate_bps"] / 8 / flow["packet_bytes"]
            sent += packets * seconds
            waiting += packets * min(round_trip, seconds)
            continue
        packets = min(rates[name] for name in flow["path"]) / _MTU_FRAME_BITS
        # Slow start doubles the window per round trip.
        segments = max(segments, 2 * packets * min(round_trip, seconds))
        sent += 2 * packets * seconds
    backlog = min(held, sent)
    tcp = any(flow["kind"] != "cbr" for flow in flows)
    rows = len(flows) if not run.get("per_flow") else sum(flow["count"] for flow in flows)
    rows = (rows + _QUEUES * len(rates)) * run["duration_ns"] / run["sample_ns"]
    return float(
        (waiting + backlog) * _PACKET_BYTES
        + (segments + backlog * tcp) * _SEGMENT_BYTES
        + sum(flow["count"] for flow in flows) * _FLOW_BYTES
        + rows * _ROW_BYTES
        + sum(begun_bytes(flow, run["duration_ns"]) for flow in flows)
    )


def begun_bytes(flow: Mapping[str, Any], duration_ns: int) -> float:
    """The memory for all frames, pages or requests that a flow begins, in bytes."""
    if "interval_ns" not in flow:
        return 0.0
    each = _TRANSFER_BYTES + (_CONNECTION_BYTES if flow["kind"] == "web" else 0)
    return float(flow["count"] * duration_ns / flow["interval_ns"] * each)


def packets(run: Mapping[str, Any]) -> float:
    """The most packets that a run may simulate: the capacity of the links and the packets of unresponsive flows."""
    seconds = run["duration_ns"] / 1e9
    carried = sum(link["rate_bps"] for link in run["links"]) / _MTU_FRAME_BITS
    cbr = [flow for flow in run["flows"] if flow["kind"] == "cbr"]
    return float(seconds * (carried + sum(flow["count"] * flow["rate_bps"] / 8 / flow["packet_bytes"] for flow in cbr)))


def _most(flow: Mapping[str, Any], changes: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The largest value that each changed quantity of a flow has."""
    own = [flow, *(change for change in changes if change.get("flow") == flow["name"])]
    return {key: max(one[key] for one in own if key in one) for key in ("rtt_ns", "count", "rate_bps") if key in flow}


def _qdiscs(run: Mapping[str, Any]) -> Iterator[str]:
    for table in (*run["links"], *run["at"]):
        leaves = [one.get("qdisc") for one in table.get("classes") or ()]
        yield from filter(None, (table.get("qdisc"), *leaves))
    # A missing limit is netem's default.
    yield from (f"netem {one['netem']}" for one in (*run.get("impairs", ()), *run["at"]) if one.get("netem"))


def _limit(qdisc: str) -> float:
    """Packets that a queue holds at most."""
    found = _LIMIT.search(qdisc)
    if found is None:
        return _NO_LIMIT
    in_bytes = found[2] or qdisc.startswith(("bfifo", "red", "tbf"))
    return int(found[1]) / (_SMALLEST_FRAME_BYTES if in_bytes else 1)
