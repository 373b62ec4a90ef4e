"""Writes the table of docs/model.md that compares a bottleneck in the sender's host with a router's, on both engines.

    .venv/bin/python docs/own_host.py

Results stay in results/own_host, so the same command resumes. The kernel takes three minutes.
"""

from __future__ import annotations

from pathlib import Path

import l4slab
import polars as pl

PAGE = Path(__file__).parent / "model.md"
FOLDER = Path(__file__).resolve().parents[1] / "results" / "own_host"
BEGIN, END = "<!-- written by docs/own_host.py -->\n", "<!-- end -->\n"
FILE = """
duration = "15s"
warmup = "5s"
[link.one]
rate = "20Mbit"
qdisc = "dualpi2"
[[flow]]
name = "a"
cc = "cubic"
rtt = "20ms"
gso = true
[sweep]
"link.one.on_host" = [true, false]
"link.one.rate" = ["20Mbit", "100Mbit"]
"link.one.qdisc" = ["pfifo limit 2", "pfifo limit 1000", "fq_codel", "dualpi2"]
"flow.a.cc" = ["cubic", "prague", "bbr"]
"flow.a.count" = [1, 2]
"""
CELL = ("link.one.rate", "link.one.qdisc", "flow.a.cc")
HEADINGS = ["cell", *(f"{n}, {what}" for n in ("one flow", "two") for what in ("router", "own host")), "refused"]


def main() -> None:
    """Runs the cells, and writes the table."""
    file = FOLDER / "cells.toml"
    FOLDER.mkdir(parents=True, exist_ok=True)
    file.write_text(FILE, "utf-8")
    rows = {}
    for engine, where in (("sim", None), ("linux", "on_host")):
        l4slab.run(file, FOLDER / engine, engine, workers=1, where=where)
        for row in pl.read_parquet(FOLDER / engine / "flows.parquet").iter_rows(named=True):
            key = *(row[name] for name in CELL), row["flow.a.count"], row["link.one.on_host"] == "true", engine
            rows[key] = row
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + table(rows) + END + rest.partition(END)[2], "utf-8")


def table(rows: dict[tuple[object, ...], dict[str, float]]) -> str:
    """Queueing delays of all cells, and how many packets were refused; a dash where a run failed."""
    lines = [f"| {' | '.join(HEADINGS)} |", "|" + "---|" * len(HEADINGS)]
    for rate, qdisc, cc in dict.fromkeys(key[:3] for key in rows):

        def of(
            column: str, count: int, on_host: bool, engine: str, cell: tuple[object, ...] = (rate, qdisc, cc)
        ) -> str:
            found = rows.get((*cell, count, on_host, engine), {}).get(column)
            return "–" if found is None else f"{found:.2f}" if isinstance(found, float) else str(found)

        name = f"{'Prague' if cc == 'prague' else str(cc).upper()}, {str(rate).replace('Mbit', ' Mbit/s')}, `{qdisc}`"
        cells = []
        for count in (1, 2):
            cells.append(of("sojourn_ms_mean", count, False, "sim"))
            cells.append(", ".join(of("sojourn_ms_mean", count, True, engine) for engine in ("sim", "linux")))
        cells.append(", ".join(of("dropped_packets", 2, True, engine) for engine in ("sim", "linux")))
        lines.append(f"| {' | '.join([name, *cells])} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
