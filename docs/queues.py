"""Writes the cards of the built-in queues into docs/queues.md, from both engines.

    .venv/bin/python docs/queues.py [QUEUE...]        by default all of QUEUES, in the simulator
    .venv/bin/python docs/queues.py linux [QUEUE...]  on the kernel: three minutes of one core each, and 15 once
    .venv/bin/python docs/queues.py alarms QUEUE [N]  judges it N times (100) with fresh seeds

The runs of CoDel and PIE, which all cards share, are in results/queues and results/queues-linux.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from l4slab.base import metrics
from l4slab.base.packaged import queue_requirements
from l4slab.cli import checking, terminal
from l4slab.tools import check
from l4slab.tools.check.card import PARTS, Item, items

sys.path.insert(0, str(Path(__file__).resolve().parent))
from check import CELLS, END, alarms, table, written

DOCS = Path(__file__).resolve().parent
BEGIN = "<!-- written by docs/queues.py -->\n"
PAGE, CARDS = DOCS / "queues.md", DOCS / "queues.json"
ENGINES = {"sim": "results/queues", "linux": "results/queues-linux"}
# Those of the mainline with their defaults, with ECN where that is an option, and the dual queues of the simulator.
QUEUES = (
    "pfifo", "sfq", "red limit 400000 avpkt 1000 ecn", "codel", "codel ecn", "pie", "pie ecn", "fq_codel", "fq_pie",
    "cake", "dualpi2", "dualpi2_rfc9332", "docsis_ll", "curvy_red",
)  # fmt: skip
NOT_APPLICABLE, NOT_HERE = CELLS["not applicable"], ["not measured", ""]
Cards = Mapping[str, Mapping[str, Any]]


def mark() -> str:
    """Changes with the suite."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in queue_requirements())).hexdigest()[:16]


def asked() -> list[Item]:
    """What every card asks."""
    return items(check.suite_of_queue(QUEUES[0]), pl.DataFrame(schema=metrics.CLAIMS), {})


def card(queue: str, engine: str, out: str | None = None) -> dict[str, Any]:
    """The page's part about a queue on an engine."""
    found = check.check_queue(queue, out, engine, console=terminal.err())
    return {
        "of": mark(),
        "bottom_line": checking.bottom_line(found.items),
        "items": {item.id: [item.verdict, checking.measured(item), checking.bound(item)] for item in found.items},
    }


def current() -> Cards:
    """The cards of the suite as it is: a page with cards of two suites would compare what is not the same."""
    return {name: one for name, one in json.loads(CARDS.read_text("utf-8")).items() if one["of"] == mark()}


def text(cards: Cards) -> str:
    """The page's tables as Markdown."""
    parts = []
    for part, title in PARTS.items():
        of_part = [item for item in asked() if item.part == part]
        names = [name for name in QUEUES if any(_cell(cards, name, item.id) != NOT_APPLICABLE for item in of_part)]
        if of_part:
            rows = [["section", "level", "requirement", *(f"`{name}`" for name in names)], ["---"] * (3 + len(names))]
            for item in of_part:
                cells = [_cell(cards, name, item.id) for name in names]
                rows.append([item.section, item.level, f"`{item.id}`: {item.says}", *cells])
            parts.append(f"### {title}\n\n{table(rows)}")
    parts += [_failures(cards, name) for name in QUEUES]
    return "\n".join(parts)


def _failures(cards: Cards, name: str) -> str:
    """What a queue does not meet on one of the engines: the measured value and its bound."""
    engines = {engine: cards[key]["items"] for engine in ENGINES if (key := f"{name} on {engine}") in cards}
    rows = []
    for item in asked():
        of = [found[item.id] for found in engines.values()]
        if any(verdict == "fail" for verdict, *_ in of):
            cells = (cell for verdict, *values in of for cell in (NOT_HERE if verdict == "not measured" else values))
            rows.append([f"`{item.id}`", *cells])
    names = [cell for engine in engines for cell in ({"sim": "simulator", "linux": "kernel"}[engine], "bound")]
    found = "\n" + table([["requirement", *names], ["---"] * (1 + len(names)), *rows]) if rows else ""
    # The table has the names of what is not met.
    line = re.sub(r"not met: [^;]*; ", "", cards[f"{name} on sim"]["bottom_line"])
    return f"### What `{name}` fails\n\nIt {line}\n{found}"


def _cell(cards: Cards, name: str, item: str) -> str:
    """The verdict of the simulator, and the kernel's if it is another; a pass is empty."""
    here, there = (cards.get(f"{name} on {engine}", {}).get("items", {}).get(item) for engine in ENGINES)
    cell = "" if here[0] == "pass" else CELLS[here[0]]
    return cell if there is None or there[0] in (here[0], "not measured") else f"{cell}, kernel: {CELLS[there[0]]}"


def main(wanted: list[str]) -> None:
    """Bring the page up to date, or print the false alarms."""
    if wanted[:1] == ["alarms"]:
        judged = int(wanted[2]) if len(wanted) > 2 else 100
        for name, count in alarms(judged, of=check.suite_of_queue(wanted[1])).items():
            print(f"{name or 'any'}: {count} of {judged}", flush=True)
        return
    engine = "linux" if wanted[:1] == ["linux"] else "sim"
    for name in wanted[engine == "linux" :] or QUEUES:
        found = card(name, engine, ENGINES[engine])
        cards = (json.loads(CARDS.read_text("utf-8")) if CARDS.exists() else {}) | {f"{name} on {engine}": found}
        CARDS.write_text(written(cards), "utf-8")
    cards = current()
    if all(f"{name} on sim" in cards for name in QUEUES):
        head, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        PAGE.write_text(head + BEGIN + text(cards) + END + rest.partition(END)[2], "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
