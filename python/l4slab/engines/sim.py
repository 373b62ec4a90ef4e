"""The packet-level simulator in `l4slab._core`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from l4slab import _core
from l4slab.base import metrics
from l4slab.base.errors import one_line
from l4slab.engines.contract import Captures, EngineError, LackingError, Recording, digest
from l4slab.experimentfile.classes import qdiscs_of
from l4slab.own import files, processes

# What it tells besides the contract's columns and the gauges of queues and controllers.
_FLOWS: metrics.Schema = {
    "unfinished": pl.Int64(),
    **{name: pl.Float64() for name in ("view_ms_p50", "view_ms_p99")},
}
_LINKS: metrics.Schema = {name: pl.Int64() for name in ("dropped_overflow_packets", "step_marked_packets")}
SERIES: metrics.Schema = {
    name: pl.Float64()
    for name in (
        *("sent_packets", "delivered_packets", "ce_packets", "sce_packets", "marked_packets", "sce_marked_packets"),
        *("dropped_packets", "dropped_overflow_packets", "sojourn_ms_min", "sojourn_ms_max"),
    )
}


class SimEngine:
    """Deterministic: the same description gives the same bits. Releases the GIL while it runs."""

    name = "sim"

    def version(self) -> str:
        return _version()

    def check(self, description: Mapping[str, Any]) -> None:
        """Whatever the file format has but programs, this engine does; the core itself checks the values."""
        for flow in description["flows"]:
            if flow["kind"] == "program":
                raise ValueError(
                    f'flow "{flow["name"]}": the sim engine has no kind = "program", which needs a kernel; '
                    "give --engine linux"
                )
            cc = flow.get("cc")
            if cc is not None and files.HASH not in cc and cc not in _names(_core.controllers):
                raise LackingError(f"the simulator has no congestion control {cc}")
        for table in (*description["links"], *description["at"]):
            for qdisc in (words.partition(" ")[0] for words in qdiscs_of(table)):
                if files.HASH not in qdisc and not {qdisc} & (_names(_core.qdiscs) | _names(_core.trees)):
                    raise LackingError(f"the simulator has no queue {qdisc}")

    def columns(self, description: Mapping[str, Any]) -> dict[str, pl.Schema]:
        return _columns(json.dumps(description))

    def execute(self, run_json: str, keep: Path | None = None, captures: Captures | None = None) -> Recording:
        del keep
        try:
            own = files.used(json.loads(run_json)) if files.HASH in run_json else []
            if own:
                tables = processes.simulate(run_json, captures, own)
            elif captures is None:
                tables = _core.simulate(run_json)
            else:
                tables = _core.simulate(run_json, captures.folder, captures.title)
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
        columns = _columns(run_json)
        return Recording(**{name: metrics.table_of(name, tables[name], columns[name]) for name in metrics.TABLES})


@cache
def _names(listing: Callable[[], list[dict[str, Any]]]) -> set[str]:
    return {entry["name"] for entry in listing()}


@cache
def _version() -> str:
    return digest(_core.source_hash(), Path(__file__), Path(metrics.__file__))


def _columns(run_json: str) -> dict[str, pl.Schema]:
    gauges: metrics.Schema = {name: pl.Float64() for name in _core.gauges(run_json)}
    more = {"flows": _FLOWS, "members": _FLOWS, "links": _LINKS, "series": SERIES | gauges}
    return {name: pl.Schema(schema | more.get(name, {})) for name, schema in metrics.TABLES.items()}
