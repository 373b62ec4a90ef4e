"""The simulator's core, written in Rust (crates/py)."""

from pathlib import Path
from typing import Any

def simulate(run_json: str, captures: Path | None = None, title: str = "") -> dict[str, Any]:
    """Run a resolved description: {"flows": [rows], "members": [rows], "links": [rows],
    "series": {column: values}, "transfers": {column: values}, "histograms": {column: values}}.

    With a folder `captures`, packets are written down there, in files that call the run `title`.
    Releases the GIL. Raises ValueError with one sentence, and OSError where captures cannot be written.
    """

class Live:
    """A run that is watched and changed while it goes on."""

    def ask(self, request: str) -> str:
        """Answer a request, both JSON: {"ok": {...}} or {"refused": "one sentence"}. Releases the GIL."""

def gauges(run_json: str) -> list[str]:
    """Columns of the time series that the queues and controllers of a run add. Raises ValueError."""

def idle_completion_ms(size_bytes: int, rtt_ns: int, rate_bps: int, burst_bytes: int, mtu_bytes: int = 1500) -> float:
    """How long a TCP transfer takes on an idle path whose slowest link has this rate and burst: the handshake, slow
    start, and the rate.
    """

def qdiscs() -> list[dict[str, Any]]:
    """Queue disciplines: name, summary, in_linux, required, gauges (name, unit, help), not_modelled (keyword, reason)
    and parameters (keyword, value, takes, default, source, help, in_linux, module).
    """

def controllers() -> list[dict[str, Any]]:
    """The same of congestion controls; also ecn and presets (keyword, value, sets)."""

def canonical_qdisc(text: str) -> str:
    """A tc qdisc string with every option and default written out. Raises ValueError with one sentence."""

def canonical_controller(name: str, options: dict[str, str]) -> dict[str, str]:
    """A controller's options with every default. Raises ValueError with one sentence."""

def version() -> str: ...
def source_hash() -> str:
    """32 hex digits that change with the sources of the core, and with nothing else."""
