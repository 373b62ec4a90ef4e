"""Whether this machine can run experiments, and how fast."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from l4slab.base import system
from l4slab.engines.contract import Finding
from l4slab.engines.real import forwarder
from l4slab.engines.registry import ENGINES, get_engine
from l4slab.live import page

_LIBRARIES = ("polars", "duckdb", "pydantic", "jinja2", "websockets")
# What only some commands need, and the extra that brings it.
_EXTRAS = (("matplotlib", "plot", "figures need"), ("distributed", "dask", "--dask needs"))


def examine() -> Iterator[Finding]:
    """Look at everything a run needs."""
    yield Finding("python", True, platform.python_version())
    for name in ENGINES:
        yield from get_engine(name).examine()
    yield Finding("cores", True, f"{system.cores()} (the default of --workers)")
    for library in _LIBRARIES:
        try:
            yield Finding(library, True, version(library))
        except PackageNotFoundError:
            yield Finding(library, False, f"is missing; install it with: pip install {library}")
    for library, extra, who in _EXTRAS:
        try:
            yield Finding(library, True, version(library))
        except PackageNotFoundError:
            yield Finding(library, True, f'not installed; only {who} it (pip install "l4slab[{extra}]")', True)
    can, text = forwarder.examine()
    text = text + _outside() if can else f"not available, only l4slab bottleneck needs it: {text}"
    yield Finding("bottleneck", True, text, absent=not can)
    yield _page()
    free_gb = shutil.disk_usage(Path.cwd()).free / 1e9
    room = free_gb > 1
    yield Finding("disk", room, f"{free_gb:.0f} GB free here" + ("" if room else "; a campaign may need 1 GB or more"))


def _outside() -> str:
    """The ways of `l4slab bottleneck --outside` that this machine has."""
    has_table = shutil.which("nft") is not None
    ways = ["pasta"] if has_table and shutil.which("pasta") is not None else []
    ways += ["nat"] if has_table and shutil.which("ip") is not None and os.geteuid() == 0 else []
    return f"; --outside {' or '.join(ways)}" if ways else "; --outside needs passt and nftables"


def _page() -> Finding:
    """The page of `l4slab live`. Nothing else needs it, so a missing page is no defect."""
    file = page.built()
    if file is None:
        return Finding("page", True, "not built, only l4slab live needs it; build it with: ./dev.sh page", True)
    text = page.document()
    alone = "" if page.simulates(text) else ", without the simulator in it (see ./dev.sh page): it needs its server"
    return Finding("page", True, f"{len(text.encode()) / 1000:.0f} kB{alone}")
