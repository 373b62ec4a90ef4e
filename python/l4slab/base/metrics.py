"""The result tables: their columns, units and meaning. Column names end in their unit.

An engine may give more columns than these; they pass through. A column that it does not give is NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar, cast

import polars as pl

from l4slab.base.values import Row

Schema = dict[str, pl.DataType]
OfRow = TypeVar("OfRow")

_TEXT, _INT, _FLOAT = pl.String(), pl.Int64(), pl.Float64()

# In front of every row of every table; the swept factors follow them.
LABELS: Schema = {"experiment": _TEXT, "run": _TEXT, "engine": _TEXT, "trial": _INT}

# A row per run and flow group.
FLOWS: Schema = {
    "flow": _TEXT,
    "cc": _TEXT,  # or the kind of a flow without congestion control
    "count": _INT,
    "ecn_mode": _TEXT,  # what sender and receiver agreed on
    "goodput_mbps": _FLOAT,  # payload bytes that came to the receiver for the first time, all flows of the group
    "active_mbps": _FLOAT,  # goodput of flows that end by themselves, over their own time
    "rate_mbps": _FLOAT,  # Ethernet frames that left the last link
    "share": _FLOAT,  # of the total goodput of the run
    "jain": _FLOAT,  # Jain's index of the goodputs of its flows
    "jain_run": _FLOAT,  # of all flows in bulk of the run
    "rtt_ms_mean": _FLOAT,  # what the sender's TCP measures, like srtt in ss
    "rtt_ms_p50": _FLOAT,
    "rtt_ms_p99": _FLOAT,
    "sojourn_ms_mean": _FLOAT,  # time in the links: in their queues, and in media behind these
    "sojourn_ms_p50": _FLOAT,
    "sojourn_ms_p99": _FLOAT,
    "queue_ms_mean": _FLOAT,  # parts of `sojourn_ms_mean` on a path with a medium: in queues
    "access_ms_mean": _FLOAT,  # from there to the first transmission
    "air_ms_mean": _FLOAT,  # from there to the arrival, with retransmissions
    "reorder_ms_mean": _FLOAT,  # for what was sent before
    "offered_packets": _INT,  # that came to the network in the measured interval, with the copies that it made of them
    "sent_packets": _INT,  # of these, that reached the links
    "delivered_packets": _INT,  # that came to the receiver
    "lost_packets": _INT,  # the table `losses` says where
    "waiting_packets": _INT,  # in the network at the end
    "ce_packets": _INT,  # of `sent_packets`, that left the links with CE
    "dropped_packets": _INT,  # and that a queue of a link dropped
    "ce_pct": _FLOAT,  # of this flow's packets that reached the links
    "sce_pct": _FLOAT,  # ECT(0) made ECT(1) by a queue, likewise
    "drop_pct": _FLOAT,
    "retransmits": _INT,
    "transfers": _INT,  # completed ones: flows with `bytes`, web requests and pages, video frames
    "completion_ms_p50": _FLOAT,
    "completion_ms_p99": _FLOAT,
    "slowdown_p50": _FLOAT,  # completion time over that on an idle path
    "slowdown_p99": _FLOAT,
    "frames": _INT,  # of media: captured in the measured interval, and their outcome is known
    "frame_ms_mean": _FLOAT,  # from a frame's capture to its last byte
    "frame_ms_p50": _FLOAT,
    "frame_ms_p95": _FLOAT,
    "frame_ms_p99": _FLOAT,
    "frame_ms_max": _FLOAT,
    "sender_queue_ms_p50": _FLOAT,  # of this, until the frame's last packet left the sender
    "sender_queue_ms_p99": _FLOAT,
    "late_pct": _FLOAT,  # of `frames`, that came after the flow's deadline
    "lost_frames_pct": _FLOAT,  # and that miss a packet
    "freezes": _INT,
    "freeze_s": _FLOAT,  # how long these were together
    "media_mbps": _FLOAT,  # what the encoders made
    "media_change_pct": _FLOAT,  # by which that changes from one second to the next
    "feedback_kbps": _FLOAT,  # Ethernet frames of the receivers' reports
    "rpm": _FLOAT,  # of tests of responsiveness: round trips per minute, mean of the next two
    "rpm_foreign": _FLOAT,  # of probes on new connections
    "rpm_self": _FLOAT,  # of probes on load connections
    "rpm_confidence": _TEXT,  # low | medium | high
    "idle_ms_p50": _FLOAT,  # a request on a new connection before the load
    "loaded_ms_p50": _FLOAT,  # and under it
    "loaded_ms_p95": _FLOAT,
}

# A row per run and single flow, where the file asks for them.
MEMBERS: Schema = {"flow": _TEXT, "member": _INT} | FLOWS

# A row per run and link queue: `all`, and `L` and `C` where the qdisc has them.
LINKS: Schema = {
    "link": _TEXT,
    "queue": _TEXT,
    "rate_mbps": _FLOAT,
    "utilisation": _FLOAT,
    "sojourn_ms_mean": _FLOAT,
    "sojourn_ms_p50": _FLOAT,
    "sojourn_ms_p99": _FLOAT,
    "sojourn_ms_max": _FLOAT,
    "arrived_packets": _INT,
    "sent_packets": _INT,  # that left the queue
    "dropped_packets": _INT,
    "marked_packets": _INT,
    "ce_pct": _FLOAT,
    "sce_pct": _FLOAT,
    "drop_pct": _FLOAT,
    "backlog_packets_max": _INT,
}

# A row per run, sample time and flow (link and queue are NULL) or link queue (flow is NULL).
SERIES: Schema = {
    "time_s": _FLOAT,
    "flow": _TEXT,
    "link": _TEXT,
    "queue": _TEXT,
    "rate_mbps": _FLOAT,
    "goodput_mbps": _FLOAT,
    "cwnd_packets": _FLOAT,
    "srtt_ms": _FLOAT,
    "sojourn_ms": _FLOAT,
    "backlog_packets": _FLOAT,
    "p_c": _FLOAT,  # probabilities, 0 to 1
    "p_l": _FLOAT,
    "p_l_coupled": _FLOAT,
    "p_l_native": _FLOAT,
}
# Additional columns of the simulator.
SIM_SERIES: Schema = dict.fromkeys(
    (
        *("sent_packets", "delivered_packets", "ce_packets", "sce_packets", "marked_packets", "sce_marked_packets"),
        *("dropped_packets", "dropped_overflow_packets", "sojourn_ms_min", "sojourn_ms_max"),
    ),
    _FLOAT,
)
# Those of these columns that queues report.
PROBABILITIES = frozenset({"p_c", "p_l", "p_l_coupled", "p_l_native"})

# A row per transfer that was completed: a flow with `bytes`, a web request or page, a video frame, a viewer's
# input.
TRANSFERS: Schema = {
    "flow": _TEXT,
    "kind": _TEXT,  # flow | request | page | frame | input
    "start_s": _FLOAT,
    "size_bytes": _INT,
    "completion_ms": _FLOAT,
    "response_ms": _FLOAT,  # without the handshake; of an input, without the wait for the next frame
    "ideal_ms": _FLOAT,  # completion on an idle path
    "slowdown": _FLOAT,  # completion over that
    "retransmits": _INT,
}

# A row per run, distribution and bin that is not empty: of a flow group (link and queue are NULL) or of a link's queue
# (flow is NULL). The edges are the same in all runs, so that distributions add up: 1.024 us apart, and above 131 us a
# 64th to a 128th of the value.
HISTOGRAMS: Schema = {
    # The quantities with percentiles in `flows` and `links`: rtt_ms | sojourn_ms | completion_ms | view_ms | frame_ms.
    "quantity": _TEXT,
    "flow": _TEXT,
    "link": _TEXT,
    "queue": _TEXT,
    "low_ms": _FLOAT,  # the bin has it
    "high_ms": _FLOAT,  # and not this
    "count": _INT,
}

# A row per run, flow group, place and reason: packets that came to the network in the measured interval and were lost.
LOSSES: Schema = {
    "flow": _TEXT,  # NULL of ACKs and handshakes
    "lost_at": _TEXT,  # link.NAME | impair.NAME | rewrite | tunnel.NAME | receiver | sender
    # overflow | aqm | replaced | loss | rewrite | checksum | medium | policer | replay | decapsulation
    "lost_by": _TEXT,
    "lost_packets": _INT,
}

TABLES: dict[str, Schema] = {
    "flows": FLOWS,
    "members": MEMBERS,
    "links": LINKS,
    "series": SERIES,
    "transfers": TRANSFERS,
    "histograms": HISTOGRAMS,
    "losses": LOSSES,
}

CLAIMS: Schema = {
    "experiment": _TEXT,
    "id": _TEXT,
    "says": _TEXT,
    "source": _TEXT,
    "kind": _TEXT,  # requirement | statement | disputed | found | claim
    "beside": _TEXT,  # of a finding: the statement that it stands beside
    "recorded": _TEXT,  # the verdict that is expected, where the file records another one than its list expects
    "verdict": _TEXT,  # holds | fails | undecided | error
    "evidence": _TEXT,  # JSON: the further columns of the claim's query
}

PUBLISHED: Schema = {
    "experiment": _TEXT,
    "id": _TEXT,
    "quantity": _TEXT,
    "unit": _TEXT,
    "published": _FLOAT,
    "measured": _FLOAT,  # mean over the rows of the figure's query
    "measured_min": _FLOAT,
    "measured_max": _FLOAT,
    "distance": _FLOAT,  # measured - published
    "tolerance": _FLOAT,
    "within": pl.Boolean(),
    "flow": _TEXT,  # of figures that are a column of `flows`
    "column": _TEXT,
    "source": _TEXT,
    "reference": _TEXT,  # the file the figure comes from, where it is not in the experiment file
}

# What `l4slab agree` compares, and the table it is read from.
COMPARED: dict[str, tuple[str, ...]] = {
    "flows": (
        *("share", "goodput_mbps", "rtt_ms_mean", "rtt_ms_p50", "rtt_ms_p99"),
        *("sojourn_ms_mean", "sojourn_ms_p50", "sojourn_ms_p99", "ce_pct", "drop_pct"),
        *("media_mbps", "frame_ms_p50", "frame_ms_p99", "late_pct", "lost_frames_pct"),
        *("rpm_foreign", "rpm_self"),
    ),
    "links": (
        *("utilisation", "sojourn_ms_mean", "sojourn_ms_p50", "sojourn_ms_p99"),
        *("ce_pct", "drop_pct"),
    ),
}

# A row per cell (experiment and levels of its factors, which stand behind `experiment`), place and quantity.
AGREEMENT: Schema = {
    "experiment": _TEXT,
    "flow": _TEXT,  # or
    "link": _TEXT,
    "queue": _TEXT,
    "quantity": _TEXT,  # a column of `flows` or `links`
    "kernel": _FLOAT,  # mean over the trials
    "kernel_min": _FLOAT,
    "kernel_max": _FLOAT,
    "kernel_trials": _INT,  # that have a value
    "simulator": _FLOAT,
    "simulator_min": _FLOAT,
    "simulator_max": _FLOAT,
    "simulator_trials": _INT,
    "difference": _FLOAT,  # simulator - kernel
    "apart": pl.Boolean(),  # the ranges over the trials do not overlap
    "within": pl.Boolean(),  # NULL where it does not count in a bar
    "cause": _TEXT,  # of the file's [[cause]], where it is not within
}

# A row per bar.
BARS: Schema = {
    "set": _TEXT,
    "quantity": _TEXT,
    "bar": _TEXT,  # what is measured, in words
    "wanted": _FLOAT,
    "measured": _FLOAT,
    "by_chance": _FLOAT,  # the same between simulator trials and further simulator trials, as many as the kernel's
    "cells": _INT,  # that it is measured over
    "met": pl.Boolean(),  # NULL without a cell
}

# What stands in a column's name, and how a person writes it.
UNITS = {"mbps": "Mb/s", "kbps": "kb/s", "ms": "ms", "pct": "%", "packets": "packets", "bytes": "B", "s": "s"}


def unit_of(column: str) -> str:
    """The unit in a column's name ("rtt_ms_mean" is in ms), or "" where it has none."""
    return next((UNITS[part] for part in column.split("_") if part in UNITS), "")


def all_columns() -> set[str]:
    """Every column name that a factor must not take."""
    return {name for schema in (LABELS, *TABLES.values()) for name in schema}


def table_of(
    name: str, data: Sequence[Row] | Mapping[str, Sequence[object]], columns: Mapping[str, pl.DataType] | None = None
) -> pl.DataFrame:
    """Rows or columns from an engine as the table `name`: every contract column or those that the engine declares, then
    others.
    """
    schema = columns or TABLES[name]
    given = data if isinstance(data, Mapping) else {key: [row.get(key) for row in data] for key in _keys(data)}
    rows = len(next(iter(given.values()), ()))
    out = []
    for key, dtype in schema.items():
        values = given.get(key)
        out.append(pl.Series(key, [None] * rows if values is None else values, dtype=dtype, strict=False))
    for key, values in given.items():
        if key not in schema:
            extra = pl.Series(key, values, strict=False)
            # The type must not depend on whether one run happens to have no value.
            out.append(extra.cast(pl.Float64) if extra.dtype == pl.Null else extra)
    return pl.DataFrame(out)


def _keys(rows: Sequence[Row]) -> Iterable[str]:
    return dict.fromkeys(key for row in rows for key in row)


def rows_of(frame: pl.DataFrame, kind: type[OfRow]) -> list[OfRow]:
    """The rows as `kind`, a TypedDict with some of the columns. Raises KeyError where a column is missing."""
    if missing := kind.__annotations__.keys() - set(frame.columns):
        raise KeyError(f"the table has no {', '.join(sorted(missing))}")
    # polars says of a row only that it is a dict; that it has these columns was just looked at.
    return cast("list[OfRow]", frame.rows(named=True))


def is_numeric(levels: Iterable[object]) -> bool:
    """Whether a factor's column holds numbers; otherwise it holds the levels as text."""
    return all(isinstance(level, int | float) and not isinstance(level, bool) for level in levels)


def labels_schema(factors: Mapping[str, Sequence[object]]) -> Schema:
    """The label columns: a factor's is a number where every level is one, else text."""
    schema = dict(LABELS)
    for name, levels in factors.items():
        whole = all(isinstance(level, int) for level in levels)
        schema[name] = (_INT if whole else _FLOAT) if is_numeric(levels) else _TEXT
    return schema


def level_text(level: object) -> str:
    """A level as it stands in a text column."""
    return ("true" if level else "false") if isinstance(level, bool) else str(level)
