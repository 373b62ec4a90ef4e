"""Runs examples/real/cells.toml on the engines linux and real, and writes two tables of docs/bottleneck.md.

    .venv/bin/python docs/real.py [linux | real | table]

The second table has the FIFO of cells.toml between hosts of several kinds. Without a word the command does all three.
Results stay in results/cells-ENGINE and one folder per kind, where a run that failed is tried again the next time.
Runs in real time take 30 minutes and want a quiet machine, whose kernel must allow CUBIC to programs:
sysctl net.ipv4.tcp_allowed_congestion_control='reno bbr cubic'.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import duckdb
import l4slab

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "examples" / "real" / "cells.toml"
PAGE = ROOT / "docs" / "bottleneck.md"
ENGINES = ("linux", "real")
# Flows with queues of their own have the same share in each run.
WHERE = """ "link.bottleneck.qdisc" in ('pfifo limit 100', 'dualpi2') or trial = 1"""
# Queues with a share for each flow: a sentence for all of them.
FAIR = ("fq_codel", "cake unlimited")
# What the two have to agree in: the program's mean share, and the mean queueing delay.
SHARE, PART, LEAST_MS = 0.05, 0.1, 1.0
_HEAD = (
    "| program | Mbit/s | queue | share, linux | share, real | delay in ms, linux | real | late p99, ms | agree |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)
_ROWS = """
    select "flow.program.stack" as program, "link.bottleneck.rate" as rate, "link.bottleneck.qdisc" as qdisc,
        avg(share), stddev(share), avg(sojourn_ms_mean), {late}
    from '{folder}/flows.parquet' where flow = 'program' group by all"""


# What hosts have that the engine linux has not: segmentation offload and a line of a gigabit; the time until a program
# sends after an ACK; waits of each packet that hide the hosts' own.
HOSTS = (
    ("linux", "ideal", ()),
    ("linux", "line", ("line",)),
    ("linux", "reaction", ("reaction",)),
    ("linux", "line, reaction", ("line", "reaction")),
    ("linux", "noise", ("noise",)),
    ("linux", "line, reaction, noise", ("line", "reaction", "noise")),
    ("real", "real", ()),
    ("real", "real, noise", ("noise",)),
)
RATES = ("20Mbit", "50Mbit", "100Mbit")


def folder(engine: str, kind: str = "cells") -> Path:
    """Where the results of an engine are."""
    return ROOT / "results" / f"{kind.replace(', ', '-')}-{engine}"


def between(words: tuple[str, ...]) -> dict[str, object]:
    """The FIFO of the file between such hosts, five trials."""
    of = tomllib.loads(FILE.read_text())
    of |= {"trials": 5, "sweep": {"link.bottleneck.rate": list(RATES)}, "impair": {}}
    bulk, program = of["flow"]
    if "line" in words:
        # A super-packet is cut before this queue.
        of["link"] |= {name: {"rate": "1Gbit", "qdisc": "dualpi2"} for name in ("bulk", "program")}
        bulk |= {"gso": True, "path": ["bulk", "bottleneck"]}
        program["path"] = ["program", "bottleneck"]
    if "reaction" in words:
        # The median in real time is 71 to 98 us.
        of["link"].setdefault("program", {"rate": "10Gbit", "qdisc": "pfifo limit 1000"})
        program["path"] = ["program", "bottleneck"]
        of["impair"]["reaction"] = _wait("80us 40us", "program", "reverse")
    if "noise" in words:
        of["impair"]["noise"] = _wait("100us 100us", "bottleneck", "both")
    return of


def _wait(time: str, link: str, direction: str) -> dict[str, object]:
    return {"netem": f"delay {time} limit 10000", "before": link, "direction": direction, "in_order": True}


def shares() -> str:
    """The table of the program's share between hosts of several kinds."""
    lines = [f"| hosts | {' | '.join(f'{rate[:-4]} Mbit/s' for rate in RATES)} |", "|---|---|---|---|"]
    for engine, kind, _ in HOSTS:
        rows = duckdb.execute(f"""
            select "link.bottleneck.rate", avg(share), stddev(share)
            from '{folder(engine, kind)}/flows.parquet' where flow = 'program' group by all""").fetchall()
        found = {rate: _spread(mean, deviation) for rate, mean, deviation in rows}
        lines.append(f"| {kind} | {' | '.join(found[rate] for rate in RATES)} |")
    return "\n".join(lines) + "\n"


def table() -> str:
    """The table from the results of both engines."""
    found: dict[tuple[str, str, str], dict[str, tuple[float, float | None, float, float | None]]] = {}
    for engine in ENGINES:
        late = "max(late_ms_p99)" if engine == "real" else "null"
        for program, rate, qdisc, *values in duckdb.execute(_ROWS.format(folder=folder(engine), late=late)).fetchall():
            found.setdefault((program, rate, qdisc), {})[engine] = tuple(values)
    lines: list[str] = []
    agree: list[bool] = []
    fair: list[tuple[float, float, float]] = []
    for (program, rate, qdisc), of in sorted(found.items(), key=lambda one: (one[0][0], _number(one[0][1]), one[0][2])):
        cells = [program, rate.removesuffix("Mbit"), f"`{qdisc}`"]
        if set(of) < set(ENGINES):
            lines.append(f"| {' | '.join(cells)} | | | | | | not compared |")
            continue
        kernel, real = of["linux"], of["real"]
        alike = abs(kernel[0] - real[0]) <= SHARE and abs(kernel[2] - real[2]) <= max(PART * kernel[2], LEAST_MS)
        agree.append(alike)
        if alike and qdisc in FAIR:
            fair.append((kernel[0], real[0], abs(kernel[2] - real[2])))
            continue
        cells += [_spread(*one[:2]) for one in (kernel, real)]
        cells += [f"{kernel[2]:.1f}", f"{real[2]:.1f}", f"{real[3]:.2f}", "yes" if alike else "no"]
        lines.append(f"| {' | '.join(cells)} |")
    shares = [share for *both, _ in fair for share in both]
    queues = " or ".join(f"`{qdisc}`" for qdisc in FAIR)
    apart = (
        f"{len(fair)} of them, with {queues}, are not in the table: shares of {min(shares):.2f} to {max(shares):.2f}"
        f" on both engines, delays at most {max(delay for *_, delay in fair):.1f} ms apart."
    )
    return _HEAD + "\n".join(lines) + f"\n\n{sum(agree)} of {len(agree)} cells that were compared agree. {apart}\n"


def _number(rate: str) -> int:
    return int(re.sub(r"\D", "", rate))


def _spread(mean: float, deviation: float | None) -> str:
    return f"{mean:.2f}" if deviation is None else f"{mean:.2f} ± {deviation:.2f}"


def main(words: list[str]) -> None:
    """What the words ask for."""
    for engine in ENGINES:
        if not words or engine in words:
            l4slab.run(FILE, folder(engine), engine, where=WHERE)
            for of, kind, has in HOSTS:
                if of == engine:
                    l4slab.run(between(has), folder(engine, kind), engine)
    if not words or "table" in words:
        text = PAGE.read_text()
        for name, made in (("cells", table), ("hosts", shares)):
            begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
            at, to = text.index(begin) + len(begin), text.index(end)
            text = text[:at] + made() + text[to:]
        PAGE.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
