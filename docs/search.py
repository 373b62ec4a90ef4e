"""Measures the optimisers of `l4slab search` on two files of examples/search, and writes the table of docs/search.md.

    .venv/bin/python docs/search.py             some ten minutes of processor time

The figures are kept in docs/search.json, with a mark of the files that they are of.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from l4slab.tools import search
from l4slab.tools.search.optimisers import OPTIMISERS

DOCS = Path(__file__).resolve().parent
PAGE, FIGURES = DOCS / "search.md", DOCS / "search.json"
EXAMPLES = DOCS.parent / "examples" / "search"
BEGIN, END = "<!-- written by docs/search.py -->\n", "<!-- end -->\n"
PROBLEMS = ("classic", "coupled")
SEEDS = range(1, 11)
BUDGET = 60
EARLY = 30
NAMES = {"random": "random", "tpe": "`tpe` (Optuna)", "cmaes": "`cmaes`"}


def mark() -> str:
    """Changes with the problems."""
    files = sorted(file for file in EXAMPLES.iterdir() if file.is_file())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def one(problem: str, optimiser: str, seed: int) -> dict[str, Any]:
    """The result of one search."""
    with tempfile.TemporaryDirectory() as folder:
        found = search.search(
            EXAMPLES / f"{problem}.toml", folder, BUDGET, optimiser=optimiser, seed=seed, cases=0, workers=1
        )
    means = [point.value.mean for point in found.points]
    known = [mean for mean in means if mean is not None]
    early = [mean for mean in means[:EARLY] if mean is not None]
    first = next((point.number for point in found.points if point.harm), None)
    return {"first": first, "harmful": found.harmful, "early": min(early), "best": min(known)}


def measured() -> dict[str, Any]:
    """Everything that the table has."""
    found = {
        problem: {name: [one(problem, name, seed) for seed in SEEDS] for name in OPTIMISERS} for problem in PROBLEMS
    }
    return {"of": mark(), "versions": {name: version(name) for name in ("optuna", "cmaes")}, "found": found}


def text(figures: dict[str, Any]) -> str:
    """The table as Markdown."""
    heads = [
        "file",
        "optimiser",
        "first harm at point",
        "points that are harm",
        f"least of {EARLY}",
        f"least of {BUDGET}",
    ]
    rows = [heads, ["---"] * len(heads)]
    for problem, optimisers in figures["found"].items():
        for name, searches in optimisers.items():
            rows.append([f"`{problem}.toml`", NAMES[name], *(_cell(searches, key) for key in searches[0])])
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    versions = " and ".join(f"{name} {number}" for name, number in figures["versions"].items())
    return f"{table}\nMeasured with {versions}; median (least to most) of {len(SEEDS)} seeds.\n"


def _cell(searches: list[dict[str, Any]], key: str) -> str:
    values = [one[key] for one in searches if one[key] is not None]
    none = len(searches) - len(values)
    if not values:
        return "none"
    spread = f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"
    return f"{spread}; none in {none} of {len(searches)}" if none else spread


def write(figures: dict[str, Any]) -> None:
    """Put the table into the page."""
    page = PAGE.read_text("utf-8")
    before, rest = page.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text(figures)}\n{END}{rest.split(END)[1]}", "utf-8")


if __name__ == "__main__":
    FIGURES.write_text(json.dumps(measured(), indent=1) + "\n", "utf-8")
    write(json.loads(FIGURES.read_text("utf-8")))
