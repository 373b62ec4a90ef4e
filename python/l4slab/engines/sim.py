"""The packet-level simulator in `l4slab._core`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from l4slab import _core, metrics
from l4slab.engines import Captures, EngineError, Recording, digest
from l4slab.errors import one_line


class SimEngine:
    """Deterministic: the same description gives the same bits. Releases the GIL while it runs."""

    name = "sim"

    def version(self) -> str:
        return _version()

    def check(self, description: Mapping[str, Any]) -> None:
        """Whatever the file format has, this engine does; the core itself checks the values."""

    def columns(self, description: Mapping[str, Any]) -> dict[str, pl.Schema]:
        # Columns follow from the queues and controllers; connections that have just begun are enough to see them.
        duration = 4 * max(flow["rtt_ns"] for flow in description["flows"]) + 100_000_000
        flows = [flow | {"count": 1, "start_ns": 0, "stop_ns": None} for flow in description["flows"]]
        changes = [change | {"time_ns": duration // 2} for change in description["at"]]
        short = {"duration_ns": duration, "warmup_ns": 0, "sample_ns": duration // 8, "start_jitter_ns": 0}
        recording = self.execute(json.dumps({**description, **short, "flows": flows, "at": changes}))
        return {name: getattr(recording, name).schema for name in metrics.TABLES}

    def execute(self, run_json: str, keep: Path | None = None, captures: Captures | None = None) -> Recording:
        del keep
        try:
            if captures is None:
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
        return Recording(**{name: metrics.table_of(name, tables[name]) for name in metrics.TABLES})


@cache
def _version() -> str:
    return digest(_core.source_hash(), Path(__file__), Path(metrics.__file__))
