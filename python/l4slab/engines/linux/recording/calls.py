"""Frames of calls, as the programs of a media stack tell of them (`engines.linux.carried`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np

from l4slab import _core
from l4slab.base.values import Row
from l4slab.engines.linux.flows import Flow
from l4slab.engines.linux.lab import Lab
from l4slab.engines.linux.recording.observed import (
    INCOMPLETE,
    Array,
    Call,
    CheckError,
    Observed,
    distribution,
    percent,
)
from l4slab.engines.linux.recording.programs import Transfer


def read(lab: Lab, folder: Path, events: list[list[str]]) -> dict[str, list[Call]]:
    """The calls of each flow. Raises CheckError where a program says something else."""
    found: dict[str, list[Call]] = {}
    for flow in lab.flows:
        if flow.media is None:
            continue
        ours = [event for event in events if event[1:3] == ["program", str(flow.number)]]
        begun = {int(event[3]): int(event[0]) for event in ours if event[4:6] == ["client", "start"]}
        server = _lines(folder / f"{flow.output('server', 1)}.out")
        calls = found[flow.spec["name"]] = []
        for number in range(1, flow.spec["count"] + 1):
            start, *sent = _lines(folder / f"{flow.output('client', number)}.out") or [[0, 0, 0, 0]]
            zero = start[2] - begun.get(number, 0)
            came: dict[int, int] = {}
            for _, timestamp, clock, _ in (line for line in server if line[0] == number):
                came.setdefault(timestamp, clock - zero)
            columns = [(clock - zero, size, came.get(timestamp, INCOMPLETE)) for _, timestamp, clock, size in sent]
            calls.append(Call(*np.array(columns, np.int64).reshape(-1, 3).T))
    return found


def _lines(file: Path) -> list[list[int]]:
    try:
        lines = [list(map(int, line.split())) for line in file.read_text().splitlines()]
    except (OSError, ValueError) as error:
        raise CheckError(f"{file.name} has no lines about frames: {error}") from None
    if any(len(line) != len(Call._fields) + 1 for line in lines):
        raise CheckError(f"{file.name} has a line that is not about a frame")
    return lines


def of_flow(observed: Observed, flow: Flow) -> Row:
    """The columns of the table `flows` that tell of frames."""
    if flow.media is None:
        return {}
    run, calls = observed.run, observed.calls[flow.spec["name"]]
    experiences = [
        _core.frame_experience(
            [
                (at, size, None if complete == INCOMPLETE else complete)
                for at, size, complete in zip(*map(_plain, call), strict=True)
            ],
            flow.media["deadline_ns"],
            run["warmup_ns"],
            min(flow.spec["stop_ns"] or run["duration_ns"], run["duration_ns"]),
            run["duration_ns"],
        )
        for call in calls
    ]
    total = {key: sum(_counts(one)[key] for one in experiences) for key in _SUMS}
    seconds = (run["duration_ns"] - run["warmup_ns"]) * 1e-9
    latencies = np.concatenate([_measured(observed, call) for call in calls])
    frames = total["frames"]
    return {
        **distribution(latencies, "frame_ms", 1e-6, largest=True, quantiles=(50, 95, 99)),
        "frames": frames,
        "late_pct": percent(total["late"], frames),
        "lost_frames_pct": percent(total["lost"], frames),
        "freezes": total["freezes"],
        "freeze_s": total["frozen_ns"] * 1e-9,
        "media_mbps": total["media_bytes"] * 8e-6 / seconds,
        "media_change_pct": percent(total["rate_changes"], total["change_seconds_bytes"]),
    }


_SUMS = ("frames", "late", "lost", "freezes", "frozen_ns", "media_bytes", "rate_changes", "change_seconds_bytes")


def _counts(experience: _core.FrameExperience) -> Mapping[str, int]:
    return cast(Mapping[str, int], experience)


def _plain(values: Array) -> list[int]:
    plain: list[int] = values.tolist()
    return plain


def _measured(observed: Observed, call: Call) -> Array:
    """How long frames took that were captured and complete in the measured interval, ns."""
    run = observed.run
    which = (call.captured >= run["warmup_ns"]) & (call.complete != INCOMPLETE) & (call.complete <= run["duration_ns"])
    result: Array = (call.complete - call.captured)[which]
    return result


def transfers(observed: Observed, flow: Flow) -> list[Transfer]:
    """A row per frame that is complete."""
    end_ns = observed.run["duration_ns"]
    return [
        {
            "flow": flow.spec["name"],
            "kind": "frame",
            "start_s": at * 1e-9,
            "size_bytes": size,
            "completion_ms": (complete - at) * 1e-6,
        }
        for call in observed.calls[flow.spec["name"]]
        for at, size, complete in zip(*map(_plain, call), strict=True)
        if complete != INCOMPLETE and complete <= end_ns
    ]
