"""Measures how often the interval of `precision` has the true mean, and writes the table of docs/campaigns.md.

    .venv/bin/python docs/precision.py [--seed N] [--runs N]     150 s of processor time

The runs that end early have seed N, and the runs of 20 minutes whose mean counts as the true one have seed N + 1. The
rule of `precision` was chosen with seeds 1 and 2 on these cells, so its coverage is measured with others.
`tests/engines/test_precision.py` runs some again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
from l4slab.engines.sim import SimEngine
from l4slab.experimentfile import parse
from l4slab.sweep import expand

PAGE = Path(__file__).resolve().parent / "campaigns.md"
BEGIN, END = "<!-- written by docs/precision.py -->\n", "<!-- end -->\n"
SEED = 46
RUNS = 25
# For the true means.
LONG_RUNS = 20

# Rate, queue and flows (controller, number, RTT), and what is asked for.
CELLS = {
    "Prague, CUBIC in DualPI2, 40 Mb/s, 10 ms": (
        ("40Mbit", "dualpi2", ("prague", 1, "10ms"), ("cubic", 1, "10ms")),
        ("share ± 0.02", "sojourn_ms_mean ± 0.3"),
    ),
    "Prague, CUBIC in DualPI2, 12 Mb/s, 80 ms": (
        ("12Mbit", "dualpi2", ("prague", 1, "80ms"), ("cubic", 1, "80ms")),
        ("share ± 0.01", "utilisation ± 0.003"),
    ),
    "10 Prague, 10 CUBIC in DualPI2, 50 Mb/s, 20 ms": (
        ("50Mbit", "dualpi2", ("prague", 10, "20ms"), ("cubic", 10, "20ms")),
        ("share ± 0.005", "goodput_mbps ± 0.2"),
    ),
    "2 CUBIC in a FIFO of 70 packets, 20 Mb/s, 40 ms": (
        ("20Mbit", "pfifo limit 70", ("cubic", 1, "40ms"), ("cubic", 1, "40ms")),
        ("share ± 0.05",),
    ),
    "5 CUBIC, 5 CUBIC in a FIFO of 130 packets, 40 Mb/s, 40 ms": (
        ("40Mbit", "pfifo limit 130", ("cubic", 5, "40ms"), ("cubic", 5, "40ms")),
        ("share ± 0.03",),
    ),
    "BBR, CUBIC in a FIFO of 140 packets, 20 Mb/s, 40 ms": (
        ("20Mbit", "pfifo limit 140", ("bbr", 1, "40ms"), ("cubic", 1, "40ms")),
        ("share ± 0.02", "utilisation ± 0.0005", "sojourn_ms_mean ± 1"),
    ),
    "CUBIC 10 ms, CUBIC 80 ms in CoDel, 20 Mb/s": (
        ("20Mbit", "codel", ("cubic", 1, "10ms"), ("cubic", 1, "80ms")),
        ("share ± 0.01",),
    ),
    "3 CUBIC, 2 Reno in PIE, 20 Mb/s, 40 ms": (
        ("20Mbit", "pie", ("cubic", 3, "40ms"), ("reno", 2, "40ms")),
        ("share ± 0.01", "sojourn_ms_mean ± 0.2"),
    ),
    "Reno in a FIFO of 20 packets, 20 Mb/s, 60 ms": (
        ("20Mbit", "pfifo limit 20", ("reno", 1, "60ms")),
        ("utilisation ± 0.01",),
    ),
}  # fmt: skip


Tables = tuple[pl.DataFrame, pl.DataFrame]


def runs(cell: str, seed: int, number: int, asked: str = "") -> Iterator[Tables]:
    """Flows and links of runs of at most 20 minutes."""
    (rate, qdisc, *flows), _ = CELLS[cell]
    text = f'duration = "20min"\nwarmup = "20s"\nsample = "10s"\nseed = {seed}\n'
    text += f'precision = "{asked}"\n' if asked else ""
    text += f'[link.l]\nrate = "{rate}"\nqdisc = "{qdisc}"\n'
    for name, (cc, count, rtt) in enumerate(flows):
        text += f'[[flow]]\nname = "{name}"\ncc = "{cc}"\ncount = {count}\nrtt = "{rtt}"\n'
    engine = SimEngine()
    for run in expand(parse(text.encode(), Path("cell.toml"), number), engine.name).runs:
        recording = engine.execute(run.json)
        yield recording.flows, recording.links


def values(column: str, flows: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    """The rows of a column, with their place and half-width."""
    of_link = column == "utilisation"
    rows = links.filter(queue="all").join(flows.head(1), how="cross", suffix="_of_run") if of_link else flows
    more = [name for name in ("half_width", "ended_s", "is_precise") if name in rows.columns]
    return rows.select(pl.int_range(pl.len()).alias("place"), pl.col(column).alias("value"), *more)


def intervals(cell: str, asked: str, whole: Sequence[Tables], seed: int, number: int) -> pl.DataFrame:
    """Of some runs, and whether each has the mean over runs of the whole duration (`covers`)."""
    column = asked.split()[0]
    true = pl.concat(values(column, *tables) for tables in whole).group_by("place").agg(true=pl.col("value").mean())
    found = pl.concat(values(column, *tables) for tables in runs(cell, seed, number, asked)).join(true, on="place")
    return found.with_columns(covers=(pl.col("value") - pl.col("true")).abs() <= pl.col("half_width") + 1e-12)


def table(seed: int, number: int) -> Iterator[str]:
    """Its lines."""
    yield "| flows, queue, rate, RTT | `precision` | precise | ended after (median) | intervals with the mean |"
    yield "|---|---|---|---|---|"
    for cell, (_, all_asked) in CELLS.items():
        whole = list(runs(cell, seed + 1, LONG_RUNS))
        for asked in all_asked:
            found = intervals(cell, asked, whole, seed, number)
            precise, covers = found["is_precise"].mean(), found["covers"].mean()
            yield f"| {cell} | `{asked}` | {precise:.0%} | {found['ended_s'].median():.0f} s | {covers:.0%} |"


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="Measure the coverage of `precision`.")
    arguments.add_argument("--seed", type=int, default=SEED, metavar="N", help=f"of the runs; default: {SEED}")
    arguments.add_argument("--runs", type=int, default=RUNS, metavar="N", help=f"of each line; default: {RUNS}")
    asked = arguments.parse_args()
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(before + BEGIN + "\n".join(table(asked.seed, asked.runs)) + "\n" + END + after)
