"""From what a laboratory left in its folder to a `Recording`, and the checks that it was a good laboratory.

`packets.N.bin` has every packet that reached link N, with the instants at which it came to the queue and left it: the
clock is virtual, so the difference is the sojourn, to the clock's grain of 0.26 microseconds. `tcp.bin` has TCP_INFO of
every connection at each sample, `tc.N.json` what `tc -s` said of the link's queues at each sample.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from l4slab import _core
from l4slab.base import metrics
from l4slab.base.run import Flow, Run
from l4slab.base.values import Row
from l4slab.engines.contract import Recording
from l4slab.engines.linux import lab as labs
from l4slab.engines.linux.programs import logging_flow
from l4slab.engines.linux.recording import controllers, programs, qlogs
from l4slab.engines.linux.recording.checks import check
from l4slab.engines.linux.recording.fates import losses
from l4slab.engines.linux.recording.flows import flow_rows, member_rows, transfers
from l4slab.engines.linux.recording.histograms import bins, histograms
from l4slab.engines.linux.recording.observed import FORMAT_VERSION, PACKET, SAMPLE, CheckError, Observed, head_of
from l4slab.engines.linux.recording.qlogs import keep
from l4slab.engines.linux.recording.queues import link_rows
from l4slab.engines.linux.recording.reading import parse_counters, parse_tc, read
from l4slab.engines.linux.recording.series import series
from l4slab.stacks import qlog

__all__ = [
    "FORMAT_VERSION",
    "PACKET",
    "SAMPLE",
    "SOURCES",
    "CheckError",
    "Observed",
    "bins",
    "check",
    "columns",
    "head_of",
    "keep",
    "parse_counters",
    "parse_tc",
    "read",
    "states",
    "tables",
]

# What decides the tables.
SOURCES = [*sorted(Path(__file__).parent.glob("*.py")), Path(qlog.__file__)]

# Stands for a queue that the core does not know.
_NO_GAUGES = _core.canonical_qdisc("pfifo limit 1")
_LINKS: metrics.Schema = {name: pl.Int64() for name in ("dropped_overflow_packets", "step_marked_packets")}
_SERIES: metrics.Schema = {
    name: pl.Float64()
    for name in (
        *("sent_packets", "delivered_packets", "ce_packets", "marked_packets", "dropped_packets"),
        *("dropped_overflow_packets", "sojourn_ms_min", "sojourn_ms_max"),
    )
}


def tables(observed: Observed) -> Recording:
    """The result tables."""
    flows, links = rows(observed)
    found: dict[str, Sequence[Mapping[str, object]]] = {
        "flows": flows,
        "members": member_rows(observed),
        "links": links,
        "series": series(observed),
        "transfers": transfers(observed),
        "histograms": histograms(observed),
        "losses": losses(observed),
    }
    return Recording(**{name: _frame(found[name], schema) for name, schema in columns(observed.run).items()})


def rows(observed: Observed) -> tuple[list[Row], list[Row]]:
    """Those of the tables `flows` and `links`."""
    return flow_rows(observed), [row for link in observed.links for row in link_rows(observed, link)]


def states(observed: Observed, name: str) -> list[tuple[int, str]]:
    """When the flow of this name was in which states, as `passes.States`."""
    flow = next(one for one in observed.lab.flows if one.spec["name"] == name)
    if flow.tcp is None:
        found = qlogs.states(observed, flow)
    else:
        found = controllers.states(observed.of_flow(flow), flow.tcp["cc"])
    told = [(at, state) for at, state in found if state is not None]
    return [(at, state) for index, (at, state) in enumerate(told) if not index or told[index - 1][1] != state]


def columns(run: Run) -> dict[str, pl.Schema]:
    """The columns of the tables of a run. Of the gauges that the simulator has, those that the kernel does not tell are
    empty.
    """
    gauges: metrics.Schema = {name: pl.Float64() for name in _core.gauges(json.dumps(_of_the_core(run)))}
    of_flows = programs.COLUMNS if _programs_of(run) else {}
    if "app_limited" in gauges:  # as the simulator has it, of senders whose controller has states
        gauges["cc_state"] = pl.String()
    has_log = logging_flow(run) is not None
    of_flows = of_flows | (qlogs.FLOWS if has_log else {})
    of_series = _SERIES | qlogs.columns(run) | gauges
    more = {"flows": of_flows, "members": of_flows, "links": _LINKS, "series": of_series}
    return {name: pl.Schema(schema | more.get(name, {})) for name, schema in metrics.TABLES.items()}


def _programs_of(run: Run) -> set[str]:
    return {flow["name"] for flow in run["flows"] if flow["kind"] == "program"}


def _of_the_core(run: Run) -> Run:
    """Without what it does not know: programs, and what only a kernel has. Also without hosts, on which gauges do not
    depend, since their numbers follow those of all flows.
    """
    controllers, qdiscs = (
        {one["name"] for one in known} for known in (_core.controllers(), [*_core.qdiscs(), *_core.trees()])
    )
    flows: list[Flow] = [
        flow.copy() for flow in run["flows"] if flow["kind"] != "program" and flow.get("cc") in {None, *controllers}
    ]
    names = {flow["name"] for flow in flows}
    links = [_known_queue(link, qdiscs) for link in run["links"]]
    at = [_known_queue(one, qdiscs) for one in run["at"] if one.get("flow") in {None, *names}]
    for change in at:
        change.pop("state", None)
    for table in (*links, *at):
        if "classes" in table:
            table["classes"] = [_known_queue(one, qdiscs) for one in table["classes"]]
    for link in links:
        if "filters" in link:
            link["filters"] = [{**one, "host": None} for one in link["filters"]]
    for flow in flows:
        flow.pop("host", None)
        flow.pop("peer_host", None)
    rewrites = [one for one in run["rewrites"] if one["flow"] in names]
    return {**run, "flows": flows, "at": at, "rewrites": rewrites, "links": links}


def _known_queue(table: labs.Queued, qdiscs: set[str]) -> labs.Queued:
    found = table.copy()
    if (qdisc := found.get("qdisc")) is not None and qdisc.split()[0] not in qdiscs:
        found["qdisc"] = _NO_GAUGES
    return found


def _frame(rows: Sequence[Mapping[str, object]], schema: pl.Schema) -> pl.DataFrame:
    return pl.DataFrame(
        [pl.Series(name, [row.get(name) for row in rows], dtype=dtype, strict=False) for name, dtype in schema.items()]
    )
