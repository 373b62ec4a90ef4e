"""Measures how far `l4slab advise` is from laboratories, and writes what it knows of them.

    .venv/bin/python docs/advise.py          the table of docs/atlas.md, from laboratories.csv
    .venv/bin/python docs/advise.py run      that file too: 15 minutes of processor time; resumes where it stopped

`advise` takes its intervals from that file, python/l4slab/tools/advice/laboratories.csv.
A test runs some of its rows again.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median

from l4slab.engines.sim import SimEngine
from l4slab.tools.advice import distance, laboratories, runs
from l4slab.tools.advice.case import Case
from l4slab.tools.advice.distance import LEVELS, TABLE, Coverage, Distance, coverage

DOCS = Path(__file__).resolve().parent
PAGE, FILE = DOCS / "atlas.md", DOCS.parent / "python" / "l4slab" / "tools" / "advice" / TABLE
CACHE = DOCS.parent / "results" / "advise-laboratories.json"
BEGIN, END = "<!-- written by docs/advise.py -->\n", "<!-- end -->\n"
HEAD = """\
# Source: .venv/bin/python docs/advise.py run
# Prague beside CUBIC: what laboratories published, and what l4slab advise simulates for the same cases.
# published, simulated, spread: logarithms of (rate of Prague / rate of CUBIC); trials and neighbours: Prague's shares.
"""
LABORATORIES = {"deployment": "NYU (deployment)", "deployment-bars": "NYU (deployment)", "ect1": "Heist (ect1)"}


def name(case: Case) -> str:
    """A case with everything that was said of it."""
    return " ".join([str(case), *(f"{key}={value}" for key, value in case.options.items())])


def measure(case: Case) -> runs.Simulated:
    """The runs that `advise` simulates for a case."""
    flows, _ = runs.simulate(case, workers=1, compared=False)
    return runs.simulated(flows, case.fair_share)


def row(one: laboratories.Measured, found: runs.Simulated) -> dict[str, str]:
    """Of the file."""
    numbers = {
        "published": runs.advantage(one.share, one.case.fair_share),
        "simulated": found.centre,
        "spread": found.spread,
    }
    texts = {"study": one.study, "laboratory": LABORATORIES[one.study], "kind": one.case.kind}
    return texts | {key: f"{value:.3f}" for key, value in numbers.items()} | {"case": name(one.case)}


def _key(case: Case) -> str:
    """Changes with what is simulated of a case, and with the simulator."""
    documents = json.dumps([case.with_prague(runs.TRIALS), case.neighbours(1)])
    return hashlib.sha256((documents + SimEngine().version()).encode()).hexdigest()[:16]


def run() -> None:
    """Write the file anew. What was simulated is kept for the next time, by the case."""
    found = json.loads(CACHE.read_text("utf-8")) if CACHE.exists() else {}
    CACHE.parent.mkdir(exist_ok=True)
    published = laboratories.measured()
    # What is quick first: an interrupted command has most of it.
    for one in sorted(published, key=lambda one: one.case.rate):
        if _key(one.case) not in found:
            simulated = measure(one.case)
            found[_key(one.case)] = [list(simulated.trials), dict(simulated.neighbours)]
            CACHE.write_text(json.dumps(found), encoding="utf-8")
    rows = [row(one, runs.Simulated(*found[_key(one.case)])) for one in published]
    with FILE.open("w", encoding="utf-8", newline="") as file:
        file.write(HEAD)
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def text() -> str:
    """The tables of the page as Markdown."""
    parts = [
        "Part of the published shares that are in the intervals from all *other* laboratories:",
        _table(_coverage_rows(coverage())),
        "The same with only the campaign itself left out:",
        _table(_coverage_rows(coverage(by="study"))),
        "Components of the distances, in points of share (1 point: 0.01 of the link):",
        _table(list(_made_of())),
    ]
    return "\n\n".join(parts) + "\n"


def _coverage_rows(rows: Sequence[Coverage]) -> list[list[str]]:
    head = ["left out", "queues", "shares", *(f"in {level:.0%}" for level in LEVELS), "width of 80 %, points"]
    body = [
        [
            one.left_out, one.kind, str(one.cells), *(f"{one.inside[level]:.0%}" for level in LEVELS),
            f"{one.width:.0f}",
        ]
        for one in rows
    ]  # fmt: skip
    total = sum(one.cells for one in rows)
    whole = [f"{sum(one.inside[level] * one.cells for one in rows) / total:.0%}" for level in LEVELS]
    rows_alike = [f"{fmean(one.inside[level] for one in rows):.0%}" for level in LEVELS]
    return [head, *body, ["all", "", str(total), *whole, ""], ["mean of the rows", "", "", *rows_alike, ""]]


def _made_of() -> Iterator[list[str]]:
    yield [
        "campaign",
        "queues",
        "shares",
        "distance: median",
        "90 %",
        "published − simulated",
        "neighbours' spread, median",
    ]
    groups: dict[tuple[str, str], list[Distance]] = {}
    for one in distance.distances():
        groups.setdefault((one.study, one.kind), []).append(one)
    for (study, kind), found in groups.items():
        apart = [100 * (runs.share_of(one.published, 0.5) - runs.share_of(one.simulated, 0.5)) for one in found]
        spreads = [100 * one.spread * _slope(one) for one in found]
        far = sorted(map(abs, apart))
        numbers = [median(far), far[int(0.9 * (len(far) - 1))], fmean(apart), median(spreads)]
        yield [study, kind, str(len(found)), *(f"{number:.1f}" for number in numbers)]


def _slope(one: Distance) -> float:
    share = runs.share_of(one.simulated, 0.5)
    return share * (1 - share)


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main(arguments: list[str]) -> None:
    """Bring file and page up to date."""
    if "run" in arguments:
        run()
        distance.distances.cache_clear()
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    PAGE.write_text(before + BEGIN + text() + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
