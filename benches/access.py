"""Cellular and satellite media against 3GPP's tables, closed forms and published measurements.

    python benches/access.py     # runs the laws of tests/laws/access.rs and writes their tables into docs/access.md

The expected values stand in the laws alone. A law that fails leaves the page as it is, with exit status 1.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "access.md"
CARGO = "cargo test --profile optimised -p l4slab-core --test laws --"
OPTIONS = "--nocapture --include-ignored --test-threads 1"
# Of each table, how the names of its laws begin. The others are about TCP, queues and handovers.
TABLES = {
    "nr": ("lte_blocks", "nr_slots", "nr_harq", "nr_schedulers", "nr_channel", "nr_drive"),
    "leo": ("leo_rates", "leo_pings"),
}
TEST = re.compile(r"test access::(\w+) \.\.\. ?")
# What `agrees` and `between` of tests/laws/lab.rs print.
ROW = re.compile(r"(.+): measured (\S+), (?:law (\S+), off .*|allowed (\S+) to (\S+))")
# What rows that are joined have in common.
BEGINNING = re.compile(r".+?(: | after )")


def number(text: str) -> str:
    """Four digits that mean something."""
    value = float(text)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def rows(output: str) -> dict[str, str]:
    """A line of the table for each thing that a law compares."""
    found = {}
    for line in TEST.sub("", output).splitlines():
        if match := ROW.fullmatch(line):
            what, measured, law, low, high = match.groups()
            expected = number(law) if law else f"{number(low)} to {number(high)}"
            found[what.strip()] = f"| {what.strip()} | {expected} | {number(measured)} |"
    return found


def joined(table: list[str]) -> list[str]:
    """Rows that follow each other and begin alike ("lte 10MHz cqi 15: down", "…: up") as one row."""
    found: list[tuple[str, list[list[str]]]] = []
    for row in table:
        what, *values = row.strip("| ").split(" | ")
        match = BEGINNING.match(what)
        beginning = match[0] if match else what
        if not found or found[-1][0] != beginning:
            found.append((beginning, []))
        found[-1][1].append([what.removeprefix(beginning), *values])
    cells = ((beginning, [*map("; ".join, zip(*rows, strict=True))]) for beginning, rows in found)
    return [f"| {beginning}{' | '.join(columns)} |" for beginning, columns in cells]


def written(page: str, name: str, table: list[str]) -> str:
    """The page with this table in the place of the former one."""
    begin = f"<!-- written by benches/access.py: {name} -->"
    pattern = re.compile(re.escape(begin) + r"\n.*?<!-- end -->", re.DOTALL)
    text = "\n".join([begin, "| law | expected | here |", "|---|---|---|", *table, "<!-- end -->"])
    page, places = pattern.subn(lambda _: text, page)
    if places != 1:
        raise SystemExit(f"{PAGE.relative_to(ROOT)} needs one place with {begin} and <!-- end -->, and has {places}")
    return page


def main() -> int:
    """Run the laws and write the tables."""
    page = PAGE.read_text("utf-8")
    for name, laws in TABLES.items():
        command = [*CARGO.split(), *OPTIONS.split(), *(f"access::{law}" for law in laws)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            print(done.stdout + done.stderr, file=sys.stderr)
            return 1
        page = written(page, name, joined(list(rows(done.stdout).values())))
    PAGE.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
