"""What the kernel's congestion controls tell of themselves (TCP_CC_INFO), in the simulator's names."""

from __future__ import annotations

import numpy as np

from l4slab.engines.linux.recording.flows import active
from l4slab.engines.linux.recording.observed import Array

# include/uapi/linux/inet_diag.h and net/ipv4/tcp_bbr.c: gains are in 1/256, and follow from the mode
# (bbr_update_gains). Of two modes the pacing gain is enough, of the others the one of the window.
_BBR_UNIT = 256
_BBR_PACING = {_BBR_UNIT * 2885 // 1000 + 1: "startup", _BBR_UNIT * 1000 // 2885: "drain"}
_BBR_WINDOW = {_BBR_UNIT: "probe_rtt", 2 * _BBR_UNIT: "probe_bw"}
# `struct tcp_dctcp_info`, which Prague tells, too, with its detector's score in hundredths in the place of `ce_state`.
_DCTCP_ONE = 1024
_PER_SCORE = 100
_UNLIMITED = np.uint64(2**64 - 1)


def series(samples: Array, cc: str, steps: Array) -> dict[str, list[float | None] | list[str | None]]:
    """A value per step: that of the flow group's first connection that sends, as in the simulator."""
    at = {int(row["t_ns"]): row for row in _first(samples)}
    rows = [at.get(int(step)) for step in steps]
    told = [{} if row is None else _told(cc, row) for row in rows]
    states: list[str | None] = [None if row is None else _state(cc, row) for row in rows]
    names = dict.fromkeys(name for one in told for name in one)
    return {**{name: [one.get(name) for one in told] for name in names}, "cc_state": states}


def states(samples: Array, cc: str) -> list[tuple[int, str | None]]:
    """The state of the flow group's first connection that sends at each sample, ns."""
    return [(int(row["t_ns"]), _state(cc, row)) for row in _first(samples)]


def _first(samples: Array) -> Array:
    """Of each time, the sample of the first connection that sends."""
    sending = samples[active(samples)]
    _, first = np.unique(sending["t_ns"], return_index=True)
    result: Array = sending[first]
    return result


def _told(cc: str, row: Array) -> dict[str, float]:
    if cc == "bbr":
        return _bbr(row)
    enabled, score = int(row["cc_0"]) & 0xFFFF, int(row["cc_0"]) >> 16
    if cc not in ("dctcp", "prague") or not enabled:
        return {}
    found = {"alpha": int(row["cc_1"]) / _DCTCP_ONE}
    return found if cc == "dctcp" else {**found, "classic_ecn_score": score / _PER_SCORE}


def _bbr(row: Array) -> dict[str, float]:
    if not row["cc_3"]:
        return {}
    per_s = int(row["cc_0"]) + (int(row["cc_1"]) << 32)
    found = {
        "pacing_gain": int(row["cc_3"]) / _BBR_UNIT,
        "min_rtt_ms": int(row["cc_2"]) * 1e-3,
        "bottleneck_packets_per_ms": per_s / int(row["mss"]) * 1e-3,
        "inflight_bytes": float(int(row["in_flight"]) * int(row["mss"])),
    }
    return found if row["pacing"] == _UNLIMITED else {**found, "pacing_mbps": float(row["pacing"]) * 8e-6}


def _state(cc: str, row: Array) -> str | None:
    if cc != "bbr":
        return None
    return _BBR_PACING.get(int(row["cc_3"])) or _BBR_WINDOW.get(int(row["cc_4"]))
