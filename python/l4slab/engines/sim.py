"""The packet-level simulator in `l4slab._core`."""

from __future__ import annotations

import json
import time
from array import array
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from l4slab import _core
from l4slab.base import metrics
from l4slab.base.code import HASH
from l4slab.base.errors import one_line
from l4slab.base.run import Run as Description
from l4slab.engines.contract import (
    Captures,
    Engine,
    EngineError,
    Finding,
    Live,
    Recording,
    Work,
    digest,
    refuse_endpoints,
)
from l4slab.own import files, processes

# Columns in addition to the contract's and to the gauges of queues and controllers.
_FLOWS: metrics.Schema = {
    "unfinished": pl.Int64(),
    **{name: pl.Float64() for name in ("view_ms_p50", "view_ms_p99")},
}
# In addition, of runs that end when they are precise.
_PRECISION: metrics.Schema = {"ended_s": pl.Float64(), "is_precise": pl.Boolean(), "half_width": pl.Float64()}
_LINKS: metrics.Schema = {name: pl.Int64() for name in ("dropped_overflow_packets", "step_marked_packets")}


class SimEngine(Engine):
    """Deterministic: the same description gives the same bits. Releases the GIL while it runs."""

    name = "sim"
    title = "simulator"
    is_exact = True
    live = ("native", Live("l4slab._core:Live", "the simulator on this machine"))

    def version(self) -> str:
        return _version()

    def check(self, description: Description) -> None:
        """Whatever the file format has but programs and endpoints, this engine does; the core checks the values."""
        refuse_endpoints(description, "sim")
        _refuse_programs(description)

    def columns(self, description: Description) -> dict[str, pl.Schema]:
        _refuse_programs(description)
        return _columns(json.dumps(description))

    def normal(self, run_json: str) -> str:
        return _core.normal(run_json)

    def estimate(self, work: Work) -> float:
        return work.simulator_s

    def execute(self, run_json: str, keep: Path | None = None, captures: Captures | None = None) -> Recording:
        del keep
        try:
            own = files.used(json.loads(run_json)) if HASH in run_json else []
            if own:
                folder, title = (captures.folder, captures.title) if captures is not None else (None, "")
                tables = processes.simulate(run_json, folder, title, own)
            elif captures is None:
                tables = _core.simulate(run_json)
            else:
                tables = _core.simulate(run_json, captures.folder, captures.title)
        except processes.WorkerError as error:
            raise EngineError(str(error)) from None
        except OSError as error:
            reason = error.strerror or one_line(str(error))
            raise EngineError(f"the captures cannot be written ({reason}); see that the disk has room") from None
        except BaseException as error:
            # A broken invariant in the core panics; PyO3 raises that outside of Exception.
            if type(error).__name__ != "PanicException":
                raise
            raise EngineError(
                f"the core panicked: {one_line(str(error))}; please report this with the experiment file"
            ) from None
        return recording_of(run_json, tables)

    def examine(self) -> Iterator[Finding]:
        known = f"{len(_core.qdiscs())} qdiscs, {len(_core.controllers())} controllers"
        yield Finding("core", True, f"{_core.version()}, build {self.version()}, {known}")
        start = time.perf_counter()
        try:
            recording = self.execute(json.dumps(_example()))
        except ValueError as error:
            yield Finding("simulation", False, f"{error}; please report this")
            return
        packets = recording.flows["sent_packets"].sum() or 0
        milliseconds = (time.perf_counter() - start) * 1000
        yield Finding("simulation", packets > 0, f"{packets} packets in {milliseconds:.0f} ms")


def _example() -> dict[str, object]:
    """A second of one CUBIC flow through a FIFO."""
    qdisc = _core.canonical_qdisc("pfifo limit 100")
    flow = {
        "name": "a", "kind": "tcp", "cc": "cubic", "count": 1, "rtt_ns": 10_000_000, "start_ns": 0, "stop_ns": None,
        "bytes": None, "ecn": None, "peer_ecn": None, "path": ["l"], "reverse_path": [], "pace_bps": None,
        "options": _core.canonical_controller("cubic", {}), "rate_bps": None, "packet_bytes": None, "batch": None,
    }  # fmt: skip
    return {
        "duration_ns": 1_000_000_000, "warmup_ns": 0, "seed": 1, "sample_ns": 100_000_000, "start_jitter_ns": 0,
        "links": [{"name": "l", "rate_bps": 100_000_000, "qdisc": qdisc, "burst_bytes": 1600}],
        "flows": [flow], "at": [], "rewrites": [],
    }  # fmt: skip


def _refuse_programs(description: Description) -> None:
    for flow in description["flows"]:
        if flow["kind"] == "program":
            raise ValueError(
                f'flow "{flow["name"]}": the sim engine has no kind = "program", which needs a kernel; '
                "give --engine linux"
            )


def recording_of(run_json: str, tables: dict[str, Any]) -> Recording:
    """The tables as the core returns them, with all columns of this run."""
    columns = _columns(run_json)
    tables["series"] = {
        name: pl.Series(name, array("d", values)).fill_nan(None) if isinstance(values, bytes) else values
        for name, values in tables["series"].items()
    }
    return Recording(**{name: metrics.table_of(name, tables[name], columns[name]) for name in metrics.TABLES})


@cache
def _version() -> str:
    return digest(_core.source_hash(), Path(__file__), Path(metrics.__file__))


def _columns(run_json: str) -> dict[str, pl.Schema]:
    gauges: metrics.Schema = {name: pl.Float64() for name in _core.gauges(run_json)}
    if "app_limited" in gauges:  # of senders whose controller has states
        gauges["cc_state"] = pl.String()
    of_flows, of_links = _FLOWS, _LINKS
    if "precision" in json.loads(run_json):
        of_flows, of_links = _FLOWS | _PRECISION, _LINKS | {"half_width": pl.Float64()}
    more = {"flows": of_flows, "members": _FLOWS, "links": of_links, "series": metrics.SIM_SERIES | gauges}
    return {name: pl.Schema(schema | more.get(name, {})) for name, schema in metrics.TABLES.items()}
