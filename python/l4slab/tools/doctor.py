"""Whether this machine can run experiments, and how fast."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from l4slab import _core
from l4slab.engines.registry import get_engine
from l4slab.live import page

_LIBRARIES = ("polars", "duckdb", "pyarrow", "pydantic", "matplotlib", "jinja2", "websockets")


@dataclass(frozen=True)
class Finding:
    """One thing looked at; where it is not `ok`, `text` says what to do."""

    what: str
    ok: bool
    text: str


def examine() -> Iterator[Finding]:
    """Look at everything a run needs."""
    yield Finding("python", True, platform.python_version())
    yield Finding(
        "core",
        True,
        f"{_core.version()}, build {get_engine('sim').version()}, {len(_core.qdiscs())} qdiscs, "
        f"{len(_core.controllers())} controllers",
    )
    yield _simulation()
    cores = len(os.sched_getaffinity(0))
    yield Finding("cores", True, f"{cores} (the default of --workers)")
    for library in _LIBRARIES:
        try:
            yield Finding(library, True, version(library))
        except PackageNotFoundError:
            yield Finding(library, False, f"is missing; install it with: pip install {library}")
    try:
        yield Finding("dask", True, f"distributed {version('distributed')}")
    except PackageNotFoundError:
        yield Finding("dask", True, 'not installed; only --dask needs it (pip install "l4slab[dask]")')
    yield _linux()
    yield _page()
    free_gb = shutil.disk_usage(Path.cwd()).free / 1e9
    room = free_gb > 1
    yield Finding("disk", room, f"{free_gb:.0f} GB free here" + ("" if room else "; a campaign may need 1 GB or more"))


def _simulation() -> Finding:
    """A second of one CUBIC flow through a FIFO."""
    qdisc = _core.canonical_qdisc("pfifo limit 100")
    flow = {
        "name": "a", "kind": "tcp", "cc": "cubic", "count": 1, "rtt_ns": 10_000_000, "start_ns": 0, "stop_ns": None,
        "bytes": None, "ecn": None, "peer_ecn": None, "path": ["l"], "reverse_path": [], "pace_bps": None,
        "options": _core.canonical_controller("cubic", {}), "rate_bps": None, "packet_bytes": None, "batch": None,
    }  # fmt: skip
    run = {
        "duration_ns": 1_000_000_000, "warmup_ns": 0, "seed": 1, "sample_ns": 100_000_000, "start_jitter_ns": 0,
        "links": [{"name": "l", "rate_bps": 100_000_000, "qdisc": qdisc, "burst_bytes": 1600}],
        "flows": [flow], "at": [], "rewrites": [],
    }  # fmt: skip
    start = time.perf_counter()
    try:
        recording = get_engine("sim").execute(json.dumps(run))
    except ValueError as error:
        return Finding("simulation", False, f"{error}; please report this")
    packets = recording.flows["sent_packets"].sum() or 0
    seconds = time.perf_counter() - start
    return Finding("simulation", packets > 0, f"{packets} packets in {seconds * 1000:.0f} ms")


def _page() -> Finding:
    """What `l4slab live` shows. Only that needs it: not to have it is no defect."""
    file = page.built()
    if file is None:
        return Finding("page", True, "not built, only l4slab live needs it; build it with: ./dev.sh page")
    text = page.document()
    alone = "" if page.simulates(text) else ", without the simulator in it (see ./dev.sh page): it needs its server"
    return Finding("page", True, f"{len(text.encode()) / 1000:.0f} kB{alone}")


def _linux() -> Finding:
    """The kernel of --engine linux and of `l4slab agree`, which nothing else needs."""
    from l4slab.engines.linux import build, kernels, tools

    kernel = kernels.installed()
    if kernel is not None:
        if (sentence := tools.missing(tools.RUN_TOOLS)) is not None:
            return Finding("linux", False, sentence)
        if not build.has_user_land():
            return Finding("linux", False, "the user land is not complete; finish it with: l4slab linux build")
        old = "" if build.is_current() else "; its sources have changed since, renew it with: l4slab linux build"
        controls = f", with {', '.join(kernel.controls)}" if kernel.controls else ""
        made = f", build {get_engine('linux').version()}"
        return Finding("linux", True, f"{kernel.version or kernel.path}{made}{controls}{old}")
    # Only --engine linux and agree need it: not to have it is no defect.
    sentence = tools.missing(tools.TOOLS | tools.RUN_TOOLS)
    first = f"{sentence}; then" if sentence else "build it with:"
    return Finding(
        "linux", True, f"not built, only --engine linux and l4slab agree need it; {first} l4slab linux build"
    )
