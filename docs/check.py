"""Writes the cards of the built-in congestion controls into docs/check.md.

    .venv/bin/python docs/check.py [CC...]      by default all of `l4slab list controllers`
    .venv/bin/python docs/check.py alarms [N]   judges Reno N times (100) with fresh seeds: half an hour of one core

The verdicts are kept in docs/check.json, with a mark of the suite that they are of, so that a test tells when the
suite has changed and the cards have not.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Collection, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

import l4slab
import polars as pl
from l4slab import _core
from l4slab.api.experiment import Experiment, load, to_toml
from l4slab.base import metrics
from l4slab.base.packaged import requirements
from l4slab.cli import checking, terminal
from l4slab.results import claims
from l4slab.tools import check
from l4slab.tools.check.card import LEVELS, PARTS, Item, items

DOCS = Path(__file__).resolve().parent
PAGE, CARDS = DOCS / "check.md", DOCS / "check.json"
BEGIN, END = "<!-- written by docs/check.py -->\n", "<!-- end -->\n"
FRESH = 1000  # a seed that no file of the suite has
CELLS = {"pass": "pass", "fail": "**fail**", "not applicable": "n/a", "not measured": "–"}
PLACE = re.compile(r" \([^()]*\)")  # the cell of the experiment that has the number
T = TypeVar("T")


def mark() -> str:
    """Changes with the suite."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in requirements())).hexdigest()[:16]


def names() -> list[str]:
    """Every congestion control that is built in."""
    return [entry["name"] for entry in _core.controllers()]


def card(cc: str, out: Path | None = None) -> dict[str, Any]:
    """The page's part about one congestion control. Cards in one results folder share the runs of the references."""
    found = check.check(cc, out=out, console=terminal.err())
    return {
        "of": mark(),
        "items": {item.id: [item.verdict, checking.measured(item), checking.bound(item)] for item in found.items},
    }


def written(cards: Mapping[str, Any]) -> str:
    """docs/check.json: a line for each row of a card, with its verdict, what was measured, and the bound."""
    rows = json.dumps(cards, indent=1, sort_keys=True, ensure_ascii=False)
    return re.sub(r"\n {4,}|\n {3}(?=\])", " ", rows) + "\n"


def asked() -> list[Item]:
    """What every card asks."""
    return items(check.suite("reno"), pl.DataFrame(schema=metrics.CLAIMS), {})


def text(cards: Mapping[str, Any]) -> str:
    """The page's tables as Markdown."""
    of_suite = asked()
    parts = []
    for part, title in PARTS.items():
        rows = [item for item in of_suite if item.part == part]
        if rows:
            parts.append(f"### {title}\n\n{matrix(rows, cards)}")
    parts.append(f"### Requirements met\n\n{totals(of_suite, cards)}")
    parts.append(f"### Failed requirements\n\n{failures(of_suite, cards)}")
    return "\n".join(parts)


def matrix(rows: list[Item], cards: Mapping[str, Any]) -> str:
    """A verdict per requirement and congestion control, without those to which no requirement applies."""
    of = alike({name: tuple(cards[name]["items"][item.id][0] for item in rows) for name in names()})
    shown = {verdicts: title for verdicts, title in of.items() if set(verdicts) != {"not applicable"}}
    lines = [["section", "requirement", *shown.values()], ["---"] * (2 + len(shown))]
    for item, verdicts in zip(rows, zip(*shown, strict=True), strict=True):
        cells = [CELLS[verdict] for verdict in verdicts]
        lines.append([f"{item.section} {item.level}".strip(), f"`{item.id}`: {item.says}", *cells])
    return table(lines)


def totals(rows: list[Item], cards: Mapping[str, Any]) -> str:
    """How many decided requirements of each level are met."""
    found = {}
    for name in names():
        verdicts = [(item.level, cards[name]["items"][item.id][0]) for item in rows]
        met = [(verdicts.count((level, "pass")), verdicts.count((level, "fail"))) for level in LEVELS]
        without = [sum(verdict == one for _, verdict in verdicts) for one in ("not measured", "not applicable")]
        found[name] = (*(f"{passed} of {passed + failed}" for passed, failed in met), *map(str, without))
    lines = [["", "MUST", "SHOULD", "others", "not measured", "n/a"], ["---"] * 6]
    return table([*lines, *([title, *counts] for counts, title in alike(found).items())])


def failures(rows: list[Item], cards: Mapping[str, Any]) -> str:
    """What was measured of each failed requirement, and the bound in the same cell."""
    lines = [["requirement", "bound", "measured"], ["---"] * 3]
    for item in rows:
        found: dict[tuple[str, str], dict[str, str]] = {}
        for name in names():
            verdict, measured, bound = cards[name]["items"][item.id]
            if verdict == "fail":
                at = PLACE.search(measured)
                found.setdefault((bound, at[0] if at else ""), {})[name] = PLACE.sub("", measured)
        for (bound, place), numbers in found.items():
            of = alike(numbers)
            quantity = quantity_of(list(of))
            cells = [f"{title}: {text.removeprefix(quantity).lstrip()}" for text, title in of.items()]
            lines.append([f"`{item.id}`", f"{quantity} {bound}{place}", "; ".join(cells)])
    return table(lines)


def alike(found: Mapping[str, T]) -> dict[T, str]:
    """By value, the names that have it, as Markdown."""
    of: dict[T, list[str]] = {}
    for name, value in found.items():
        of.setdefault(value, []).append(f"`{name}`")
    return {value: ", ".join(having) for value, having in of.items()}


def quantity_of(measured: list[str]) -> str:
    """The words that all texts such as "lost 17.5 %" have before their number."""
    words = measured[0].split()
    if len(measured) == 1:
        return " ".join(takewhile(lambda word: not word[0].isdigit(), words[:-1]))
    same = takewhile(lambda column: len(set(column)) == 1, zip(*(text.split() for text in measured), strict=False))
    return " ".join(column[0] for column in same)


def table(rows: list[list[str]]) -> str:
    """Rows of cells as Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def alarms(cards: int, only: Collection[str] = (), of: check.Suite | None = None) -> dict[str, int]:
    """Of so many cards of Reno, or of a queue, with fresh seeds, how often each row fails; "" is any of them.

    The references are those of every card; `only` names experiments. Of Reno only comparisons are judged.
    """
    failed: dict[str, set[int]] = {}
    for written in (of or check.suite("reno")).experiments:
        compares = "who" in written.sweep
        judged = written.name != "bbr" if compares else of is not None and bool(written.flows)
        if not judged or (only and written.name not in only):
            continue
        document = written.written()
        document.pop("figure", None)
        trials = document["trials"]
        many = document | {"trials": trials * cards, "seed": FRESH, "claim": []}
        tested = l4slab.run(
            [Experiment.from_toml(to_toml(many), written.name)], where="who like 'tested%'" if compares else None
        )
        references = (
            l4slab.run([Experiment.from_toml(to_toml(document), written.name)], where="who not like 'tested%'")
            if compares
            else None
        )
        for card in range(cards):
            mine = pl.col("trial").is_between(card * trials + 1, (card + 1) * trials)
            tables = {
                name: pl.concat(
                    [getattr(tested, name).filter(mine), *([getattr(references, name)] if references else [])],
                    how="diagonal_relaxed",
                )
                for name in ("flows", "links", "series")
            }
            for row in claims.evaluate([load(written, {})], tables).iter_rows(named=True):
                failed.setdefault(row["id"], set()).update([card] if row["verdict"] == "fails" else [])
    return {name: len(found) for name, found in failed.items()} | {"": len(set().union(*failed.values()))}


def main(wanted: list[str]) -> None:
    """Bring the page up to date, or print the false alarms."""
    if wanted[:1] == ["alarms"]:
        judged = int(wanted[1]) if len(wanted) > 1 else 100
        for name, count in alarms(judged).items():
            print(f"{name or 'any'}: {count} of {judged}")
        return
    for name in wanted or names():
        found = card(name)
        # Another process may have written meanwhile.
        cards = (json.loads(CARDS.read_text("utf-8")) if CARDS.exists() else {}) | {name: found}
        CARDS.write_text(written(cards), "utf-8")
    cards = json.loads(CARDS.read_text("utf-8"))
    # A page with cards of two suites would compare what is not the same.
    if all(cards.get(name, {}).get("of") == mark() for name in names()):
        head, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        PAGE.write_text(head + BEGIN + text(cards) + END + rest.partition(END)[2], "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
