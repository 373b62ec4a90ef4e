"""What a packaged stack's qlog says of its congestion control, on the clock of the captures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from l4slab import _core, stacks
from l4slab.base import metrics
from l4slab.base.run import Run
from l4slab.base.values import Row
from l4slab.engines.contract import LOG, PACKETS, file_name
from l4slab.engines.linux.flows import CODEPOINTS, Flow
from l4slab.engines.linux.programs import logging_flow
from l4slab.engines.linux.recording.observed import Array, Link, Observed, distribution, in_window, payload_of
from l4slab.stacks import qlog

# Of the tables `series` and `flows`, in runs with a stack that writes a qlog.
_COUNTS = {"ce_reported_packets": "ce_packets", "lost_declared_packets": "lost_packets"}  # fields of rows, so far
_OF_COUNTS: metrics.Schema = {name: pl.Int64() for name in _COUNTS}
SERIES: metrics.Schema = {
    **{name: pl.Float64() for name in ("cwnd_bytes", "inflight_bytes", "pacing_mbps", "app_limited")},
    **_OF_COUNTS,
    "cc_state": pl.String(),
}
FLOWS: metrics.Schema = {"app_limited_pct": pl.Float64(), **_OF_COUNTS}
# Of the files that are kept; other fields are numbers.
_LOG = {"state": pl.String(), "limited": pl.Boolean(), "ce_packets": pl.Int64(), "lost_packets": pl.Int64()}
_HEADERS = 14 + 20 + 8  # of a frame with UDP


def columns(run: Run) -> metrics.Schema:
    """Of the table `series`. Of a BBR with the draft's states, what `bbr3` tells of its model is there, and empty."""
    if (name := logging_flow(run)) is None:
        return {}
    (told,) = (one["gauges"] for one in _core.controllers() if one["name"] == "bbr3")
    flow = next(flow for flow in run["flows"] if flow["name"] == name)
    stack = flow.get("stack") if flow["kind"] == "program" else None
    has_model = stack is not None and "probe_bw_up" in stacks.states_of(stack["build"], stack["cc"])
    return SERIES | {gauge["name"]: pl.Float64() for gauge in told if has_model}


def read(run: Run, folder: Path) -> qlog.Log | None:
    """The qlog of this flow, from the folder that the programs write to; None where there is none, or are several."""
    flow = next((flow for flow in run["flows"] if flow["name"] == logging_flow(run)), None)
    if flow is None or flow["kind"] != "program" or (stack := flow.get("stack")) is None or flow["count"] != 1:
        return None
    form = stacks.form_of(stack["build"])
    other = "server" if flow["sender"] == "client" else "client"
    files = [path for path in folder.rglob("*") if path.suffix in (".qlog", ".sqlog") and other not in path.name]
    return qlog.read(files[0], form, stack["cc"]) if form is not None and len(files) == 1 else None


def series(observed: Observed, flow: Flow, steps: Array) -> dict[str, list[float | None] | list[str | None]]:
    """A value per step: the last one that the stack had logged until then, or how many packets came within it."""
    if observed.log is None or (times := _times(observed, flow)) is None:
        return {}
    rows = observed.log.rows
    at = np.searchsorted(times, steps.astype(np.int64), side="right")
    last = [rows[index - 1] if index else None for index in at]
    payload = _payload(observed, flow)

    def column(name: str, scale: float = 1.0) -> list[float | None]:
        values = [None if row is None else getattr(row, name) for row in last]
        return [None if value is None else float(value) * scale for value in values]

    states: list[str | None] = [None if row is None else row.state for row in last]
    return {
        "cwnd_bytes": column("cwnd_bytes"),
        "cwnd_packets": column("cwnd_bytes", 1 / max(payload, 1)),
        "inflight_bytes": column("inflight_bytes"),
        "pacing_mbps": column("pacing_mbps"),
        "srtt_ms": column("srtt_ms"),
        "app_limited": column("limited"),
        "cc_state": states,
        **{name: _counts(rows, field, np.concatenate([[0], at])) for name, field in _COUNTS.items()},
    }


def _counts(rows: list[qlog.Row], field: str, at: Array) -> list[float | None]:
    """The growth of a count from one to the next of `at`, numbers of rows that were logged until then; None where the
    stack does not tell it.
    """
    told = [getattr(row, field) for row in rows]
    if told[-1] is None:
        return [None] * (len(at) - 1)
    totals = np.array([0, *(count or 0 for count in told)])[at]
    return [int(grown) for grown in np.diff(totals)]


def keep(observed: Observed, folder: Path) -> None:
    """Writes each packet of the flow, and its log on the clock of the run, into the folder of its programs."""
    flow = next((one for one in observed.lab.flows if one.spec["name"] == logging_flow(observed.run)), None)
    if flow is None or observed.log is None or (times := _times(observed, flow)) is None:
        return
    schema = pl.Schema({name: _LOG.get(name, pl.Float64()) for name in qlog.Row._fields})
    log = pl.DataFrame(observed.log.rows, schema=schema, orient="row").with_columns(time_s=times * 1e-9)
    packets = pl.concat(_packets(link, flow) for link in observed.path(flow))
    for table, kind in ((packets.sort("time_s", maintain_order=True), PACKETS), (log, LOG)):
        table.write_parquet(folder / f"{file_name(flow.spec['name'])}-{kind}.parquet")


def _packets(link: Link, flow: Flow) -> pl.DataFrame:
    """Those of a flow at a link, in the order of their arrival."""
    which = payload_of(link, flow)
    packets = link.packets[which]
    words = {number: word for word, number in CODEPOINTS.items()}
    return pl.DataFrame({
        "link": pl.repeat(link.name, len(packets), eager=True),
        "time_s": packets["in_ns"] * 1e-9,
        "sojourn_ms": np.where(link.left[which], link.sojourn_ns[which] * 1e-6, np.nan),
        "packet_bytes": packets["len"].astype(np.int64),
        "ecn": [words[int(number)] for number in packets["ecn_in"]],
        "is_marked": link.marked[which],
        "is_dropped": link.dropped[which],
    }).with_columns(pl.col("sojourn_ms").fill_nan(None))  # fmt: skip


def states(observed: Observed, flow: Flow) -> list[tuple[int, str | None]]:
    """The state of the flow's stack at each of its rows, ns."""
    if observed.log is None or (times := _times(observed, flow)) is None:
        return []
    return [(int(at), row.state) for at, row in zip(times, observed.log.rows, strict=True)]


def of_flow(observed: Observed, flow: Flow) -> Row:
    """The columns of `flows` that follow from the log: RTT, packets reported with CE or declared lost, and how much of
    the time the stack calls itself limited by its application.
    """
    if observed.log is None or (times := _times(observed, flow)) is None:
        return {}
    rows = observed.log.rows
    measured = in_window(observed, times)
    srtts = np.array([np.nan if row.srtt_ms is None else row.srtt_ms for row in rows])[measured]
    run = observed.run
    ends = np.searchsorted(times, np.array([run["warmup_ns"], run["duration_ns"] + 1]))
    row: Row = {**distribution(srtts[~np.isnan(srtts)], "rtt_ms", 1.0)}
    row |= {name: _counts(rows, field, ends)[0] for name, field in _COUNTS.items()}
    if any(one.limited is not None for one in rows):
        edges = np.clip(np.append(times, run["duration_ns"]), run["warmup_ns"], run["duration_ns"])
        spans = np.diff(edges)
        limited = np.array([bool(one.limited) for one in rows])
        row["app_limited_pct"] = 100 * float(spans[limited].sum()) / (run["duration_ns"] - run["warmup_ns"])
    return row


def _times(observed: Observed, flow: Flow) -> Array | None:
    """Of the rows, on the clock of the run, ns: its first packet is the first of the flow's connection. None: they are
    not of this flow.
    """
    if flow.spec["name"] != logging_flow(observed.run):
        return None
    begins = [int(event[0]) for event in observed.events if event[1] == "connection" and int(event[2]) == flow.number]
    if observed.log is None or not begins:
        return None
    since = np.array([row.time_s for row in observed.log.rows]) - observed.log.sent_s
    times: Array = np.round(since * 1e9).astype(np.int64) + min(begins)
    return times


def _payload(observed: Observed, flow: Flow) -> int:
    """The largest QUIC packet of the flow, bytes."""
    packets = observed.path(flow)[0].packets
    sizes = packets["len"][packets["flow"] == flow.number]
    return int(sizes.max()) - _HEADERS if len(sizes) else 0
