"""A stack's qlog: the variables of its congestion control over time, and what it learns of marks and losses.

Stacks differ in the file's format (a line per event, one JSON document, or arrays of draft-00), in names and in units.
A recipe's `qlog` has what differs: the units of `time`, `rtt` and `pacing`, and what the stack calls `limited` (having
too little data to send): a state of the congestion control, or a flag among its metrics. `states` has the names of
states, "CC NAME NAME ...", of the controller CC. In the log they are numbers, from 0 on (bits above the lowest eight
are other flags), or words that end so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_BITS = {"bits": 1.0, "bytes": 8.0}
_METRICS, _STATE, _SENT = "metrics_updated", "congestion_state_updated", "_sent"
_LOST, _RECEIVED = "packet_lost", "packet_received"
_WANTED = (_METRICS, _STATE, "packet_sent", "datagram_sent", _LOST, _RECEIVED)
_CWND, _INFLIGHT, _RTT = ("congestion_window", "cwnd"), ("bytes_in_flight",), ("smoothed_rtt",)
_LOST_SO_FAR = "cf_lost_packets"  # quiche's metric, in the place of events
# An event of draft-00 begins a line; the frames of its packet may follow on the next ones.
_BEGINS = re.compile(r'\[\s*(\d+),\s*"\w+",\s*"(\w+)"')
_CE = re.compile(r'"frame_type":\s*"ack".*?"ce":\s*"?(\d+)')
_NOT_YET = 1 << 60  # a threshold or window that says "none"


@dataclass(frozen=True)
class Form:
    """The units of a stack's qlog, and its word for a sender that is limited by its application."""

    time: str = "ms"
    rtt: str = "ms"
    limited: str = ""
    states: str = ""
    pacing: str = "bits"

    def state(self, cc: str, told: str) -> str:
        """The state of a controller by its name."""
        names = self.names(cc)
        if told.isdecimal():
            number = int(told) & 0xFF
            return names[number] if number < len(names) else told
        return max((name for name in names if told.endswith(name)), key=len, default=told)

    def names(self, cc: str) -> list[str]:
        """The states of a controller, as far as the recipe has them."""
        of_cc, *names = self.states.split() or [""]
        return names if cc == of_cc else []

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Form:
        """From a recipe. Raises ValueError."""
        for key, value in given.items():
            if key not in (one.name for one in fields(cls)):
                raise ValueError(f"qlog has {key}, which is none of {', '.join(one.name for one in fields(cls))}")
            if key in ("time", "rtt") and value not in _SECONDS:
                raise ValueError(f"qlog.{key} = {value!r} is no unit; valid are {', '.join(_SECONDS)}")
        form = cls(**given)
        if form.pacing not in _BITS:
            raise ValueError(f"qlog.pacing = {form.pacing!r} is no unit; valid are {', '.join(_BITS)}")
        return form


class Row(NamedTuple):
    """The stack's latest report about itself at that time, or None."""

    time_s: float
    cwnd_bytes: float | None
    inflight_bytes: float | None
    srtt_ms: float | None
    pacing_mbps: float | None
    state: str | None
    limited: bool | None
    ce_packets: int | None  # that ACKs have reported so far
    lost_packets: int  # that the stack has declared lost so far


@dataclass(frozen=True)
class Log:
    """The rows in order of time, on the log's own clock, and when the first packet was sent on it."""

    sent_s: float
    rows: list[Row]


def read(path: Path, form: Form, cc: str = "") -> Log | None:
    """The log of a sender with the controller `cc` in a file; None where it has no packet that was sent, or no metrics.
    What the end has cut is left out.
    """
    scale = _SECONDS[form.time]
    sent: float | None = None
    known: dict[str, Any] = {"lost_packets": 0}
    rows: list[Row] = []
    for time, name, data in _events(path.read_text(encoding="utf-8", errors="replace")):
        if name.endswith(_SENT):
            sent = time * scale if sent is None else sent
            continue
        if name.endswith(_RECEIVED) and not _has_new_marks(known, data):
            continue
        _learn(known, name, data, form, cc)
        rows.append(Row._make([time * scale, *(known.get(field) for field in Row._fields[1:])]))
    rows.sort(key=lambda row: row.time_s)
    return Log(sent, rows) if sent is not None and rows else None


def _has_new_marks(known: dict[str, Any], data: Mapping[str, Any]) -> bool:
    """Learns the CE count of a received packet's ACK, and says whether it is news. Each packet number space has its own
    count.
    """
    counts = [
        int(frame["ce"]) for frame in data.get("frames", []) if frame.get("frame_type") == "ack" and "ce" in frame
    ]
    if not counts:
        return False
    spaces = known.setdefault("spaces", {})
    space = data.get("packet_type", data.get("header", {}).get("packet_type"))
    spaces[space] = max(spaces.get(space, 0), *counts)
    before, known["ce_packets"] = known.get("ce_packets"), sum(spaces.values())
    return bool(known["ce_packets"] != before)


def _learn(known: dict[str, Any], name: str, data: Mapping[str, Any], form: Form, cc: str) -> None:
    if name.endswith(_LOST):
        known["lost_packets"] += 1
        return
    if name.endswith(_STATE):
        told = str(data.get("new"))
        known["state"] = form.state(cc, told)
        if form.limited and not known.get("by_flag"):
            known["limited"] = told == form.limited
        return
    for field, names, scale in (
        ("cwnd_bytes", _CWND, 1.0),
        ("inflight_bytes", _INFLIGHT, 1.0),
        ("srtt_ms", _RTT, _SECONDS[form.rtt] * 1e3),
        ("pacing_mbps", ("pacing_rate",), _BITS[form.pacing] * 1e-6),
    ):
        value = next((data[one] for one in names if one in data), None)
        if isinstance(value, int | float) and value < _NOT_YET:
            known[field] = value * scale
    if isinstance(lost := data.get(_LOST_SO_FAR), dict) and isinstance(lost.get("total"), int):
        known["lost_packets"] = lost["total"]
    if form.limited in data:
        known["by_flag"] = True
        known["limited"] = str(data[form.limited]).lower() in ("1", "true")


def _events(text: str) -> Iterator[tuple[float, str, Mapping[str, Any]]]:
    """Time, name and data of the events that are wanted, in any of the formats."""
    head = text[:400]
    if '"traces"' in head and '"event_fields"' not in text[:2000]:
        try:
            traces = json.loads(text)["traces"]
        except ValueError:
            return
        for event in (event for trace in traces for event in trace["events"]):
            if event["name"].endswith(_WANTED):
                yield float(event["time"]), event["name"], event["data"]
        return
    has_sent = False
    received = None  # the time of the received packet whose frames follow, in draft-00
    for line in text.splitlines():
        begins = _BEGINS.match(line)
        if begins is not None:
            time, name = float(begins[1]), begins[2]
            received = time if name == _RECEIVED else None
            if name.endswith(_SENT) and not has_sent:
                has_sent = True
                yield time, name, {}
            if name == _LOST:
                yield time, name, {}
            if name not in (_METRICS, _STATE):
                continue
        if received is not None:
            if (count := _CE.search(line)) is not None:
                yield received, _RECEIVED, {"frames": [{"frame_type": "ack", "ce": count[1]}]}
            continue
        if not any(word in line for word in _WANTED) or (_RECEIVED in line and '"ce"' not in line):
            continue
        try:
            event = json.loads(line.strip("\x1e\n ,"))
        except ValueError:
            continue  # the last line of a program that was ended
        if isinstance(event, list):
            time, name, data = event[0], f"{event[1]}:{event[2]}", event[3]
        else:
            time, name, data = event.get("time"), str(event.get("name")), event.get("data")
        if isinstance(time, int | float) and isinstance(data, dict) and name.endswith(_WANTED):
            yield float(time), name, data
