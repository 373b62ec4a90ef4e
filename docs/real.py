"""Runs examples/real/cells.toml on the engines linux and real, and writes the table of docs/bottleneck.md.

    .venv/bin/python docs/real.py [linux | real | table]

Without a word it does all three. Results stay in results/cells-linux and results/cells-real, where a run that failed is
tried again the next time. A run in real time wants a quiet machine.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import duckdb
import l4slab

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "examples" / "real" / "cells.toml"
PAGE = ROOT / "docs" / "bottleneck.md"
ENGINES = ("linux", "real")
TRIALS = {"linux": 1, "real": 1}
# What the two have to agree in: the program's share, and the mean queueing delay.
SHARE, PART, LEAST_MS = 0.05, 0.1, 1.0
_HEAD = (
    "| Mbit/s | queue | share, linux | share, real | delay, linux | delay, real | late p99 | agree |\n"
    "|---|---|---|---|---|---|---|---|\n"
)
_ROWS = """
    with found as (
        select '{engine}' as engine, "link.bottleneck.rate" as rate, "link.bottleneck.qdisc" as qdisc,
            flow, avg(share) as share, avg(sojourn_ms_mean) as delay, {late} as late, count(*) as runs
        from '{folder}/flows.parquet' where flow = 'program' group by all)
    select rate, qdisc, share, delay, late, runs from found"""


def folder(engine: str) -> Path:
    """Where the results of an engine are."""
    return ROOT / "results" / f"cells-{engine}"


def table() -> str:
    """The table from the results of both engines."""
    found: dict[tuple[str, str], dict[str, tuple[float, float, float | None, int]]] = {}
    for engine in ENGINES:
        late = "max(late_ms_p99)" if engine == "real" else "null"
        query = _ROWS.format(engine=engine, folder=folder(engine), late=late)
        for rate, qdisc, *values in duckdb.sql(query).fetchall():
            found.setdefault((rate, qdisc), {})[engine] = tuple(values)
    lines = []
    for (rate, qdisc), of in sorted(found.items(), key=lambda one: (int(re.sub(r"\D", "", one[0][0])), one[0][1])):
        cells = [rate.removesuffix("Mbit"), f"`{qdisc}`"]
        if set(of) < set(ENGINES):
            lines.append(f"| {' | '.join(cells)} | | | | | | not compared |")
            continue
        kernel, real = of["linux"], of["real"]
        alike = abs(kernel[0] - real[0]) <= SHARE and abs(kernel[1] - real[1]) <= max(PART * kernel[1], LEAST_MS)
        cells += [f"{kernel[0]:.2f}", f"{real[0]:.2f}", f"{kernel[1]:.1f} ms", f"{real[1]:.1f} ms"]
        cells += [f"{real[2]:.2f} ms", "yes" if alike else "no"]
        lines.append(f"| {' | '.join(cells)} |")
    return _HEAD + "\n".join(lines) + "\n"


def main(words: list[str]) -> None:
    """What the words ask for."""
    for engine in ENGINES:
        if not words or engine in words:
            l4slab.run(FILE, folder(engine), engine, trials={"cells": TRIALS[engine]})
    if not words or "table" in words:
        begin, end = "<!-- cells -->\n", "<!-- end of cells -->"
        text = PAGE.read_text()
        at, to = text.index(begin) + len(begin), text.index(end)
        PAGE.write_text(text[:at] + table() + text[to:])


if __name__ == "__main__":
    main(sys.argv[1:])
