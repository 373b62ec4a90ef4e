"""How long a campaign will take, and how much it will store, before it runs."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from l4slab.engines import get_engine
from l4slab.sweep import Run, canonical_json

# Runs that are tried, shortened to so many packets that their links could carry, but not to less than two seconds: a
# queue may shape below its link.
_TRIED = 12
_PACKETS = 60_000
_SHORTEST_NS = 2 * 10**9
# So many that what a file takes besides its rows counts for little, as in the tables.
_SAMPLES = 200
# Of the kernel in virtual time (docs/linux.md): booting and setting up, and each packet on each link.
_KERNEL_START_S = 3.0
_KERNEL_PACKET_S = 28e-6
_FRAME_BYTES = 1514
# Of each packet and half an ACK, at both ends, compressed.
_CAPTURED_BYTES = 60


@dataclass(frozen=True)
class Estimate:
    """Processor seconds, and bytes in the result tables (parts hold the same again) and in captures."""

    seconds: float
    size: float
    captures: float = 0

    def times(self, factor: float) -> Estimate:
        """Of `factor` times as many runs."""
        return Estimate(self.seconds * factor, self.size * factor, self.captures * factor)

    def __str__(self) -> str:
        captures = f" and {_size(self.captures)} of captures" if self.captures else ""
        tables = f"{_size(self.size)} of tables and as much again of parts"
        return f"about {_duration(self.seconds)} of processor time, {tables}{captures}"


def estimate(runs: Sequence[Run]) -> Estimate:
    """From short versions of a few of the runs, scaled by their durations and samples."""
    if not runs:
        return Estimate(0, 0)
    tried = [run.description for run in runs[:: max(1, len(runs) // _TRIED)][:_TRIED]]
    seconds = packets = samples = 0.0
    series = []
    for description in tried:
        short = _shortened(description)
        started = time.thread_time()
        recording = get_engine("sim").execute(canonical_json(short))
        longer = description["duration_ns"] / short["duration_ns"]
        seconds += (time.thread_time() - started) * longer
        packets += sum(recording.links.filter(queue="all")["sent_packets"]) * longer
        series.append(recording.series)
        samples += _samples(short)
    together = pl.concat(series, how="diagonal_relaxed")
    size = _stored(together) - _stored(together.clear())
    # Of the other tables, a run has a few rows.
    tables = size / samples * sum(_samples(run.description) for run in runs) + 3000 * len(runs)
    if runs[0].engine == "linux":
        seconds = _KERNEL_START_S * len(tried) + _KERNEL_PACKET_S * packets
    captured = sum(run.captures for run in runs)
    captures = _CAPTURED_BYTES * packets / len(tried) * captured
    return Estimate(seconds / len(tried) * len(runs), tables, captures)


def _samples(description: Mapping[str, Any]) -> float:
    return float(description["duration_ns"] / description["sample_ns"])


def _shortened(description: Mapping[str, Any]) -> dict[str, Any]:
    """The first seconds of a run, with all flows from the start and without changes."""
    capacity_bps = sum(link["rate_bps"] for link in description["links"])
    enough_ns = max(_SHORTEST_NS, _PACKETS * _FRAME_BYTES * 8 * 10**9 // capacity_bps)
    duration = min(description["duration_ns"], enough_ns)
    flows = [flow | {"start_ns": 0, "stop_ns": None} for flow in description["flows"]]
    return dict(description) | {
        "duration_ns": duration,
        "sample_ns": min(description["sample_ns"], max(duration // _SAMPLES, 1)),
        "warmup_ns": 0,
        "start_jitter_ns": 0,
        "flows": flows,
        "at": [],
    }


def _stored(frame: pl.DataFrame) -> int:
    """Bytes of a table on the disk."""
    file = io.BytesIO()
    frame.write_parquet(file, compression="zstd")
    return file.tell()


def _duration(seconds: float) -> str:
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{_rough(seconds / unit)} {name}"
    return f"{max(seconds, 1):.0f} s"


def _rough(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _size(size: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{_rough(size / unit)} {name}"
    return f"{max(size / 1e3, 1):.0f} kB"
