"""The table of docs/accuracy.md: each number is read from the page that measured it, so the two cannot differ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
BEGIN, END = "<!-- written by ./dev.sh generate -->\n", "<!-- end -->\n"
KERNEL, TESTBED = "Linux, in virtual time", "a published testbed"

Row = dict[str, str]


def table(page: str, heading: str, first: str) -> list[Row]:
    """The first table below a heading of a page whose first column is called so: rows by column."""
    text = (DOCS / page).read_text("utf-8")
    text = text[text.index(f"\n{heading}\n") :] if heading else text
    lines = text[text.index(f"\n| {first} |") + 1 :].splitlines()
    names, _, *rows = [_cells(line) for line in lines[: next(n for n, line in enumerate(lines) if line[:1] != "|")]]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def rows() -> Iterator[tuple[str, str, str, str, str]]:
    """What is compared, with what, the number of cells, the distance, and where it was measured."""
    tcp = table("agreement.md", "### TCP through pfifo and DualPI2", "quantity")
    place = "agreement.md#tcp-through-pfifo-and-dualpi2"
    for quantity in dict.fromkeys(row["quantity"] for row in tcp):
        of_it = [row for row in tcp if row["quantity"] == quantity]
        distance = ", ".join(row["bar"].replace(r" of \|difference\|", "") + ": " + row["measured"] for row in of_it)
        yield f"TCP in FIFO and DualPI2: {quantity}", KERNEL, of_it[0]["cells"], distance, place
    sets = table("agreement.md", "### Queue by queue", "set")
    within, cells = (sum(int(row["sojourn"].split(" of ")[part]) for row in sets) for part in (0, 1))
    distance = f"within 10 % or 0.3 ms in {within}"
    place = "agreement.md#queue-by-queue"
    yield f"{len(sets)} queues and controllers: mean sojourn", KERNEL, str(cells), distance, place
    for good, cells, rest in re.findall(
        r"\*\*(\d+)\sof\s(\d+)\sare\sequivalent\s\([\d.]+\s%\),\s([^*]+)\*\*",
        (DOCS / "agreement.md").read_text("utf-8"),
    ):
        place = "agreement.md#what-it-finds"
        yield "scenarios drawn at random", KERNEL, cells, f"{good} equivalent, {' '.join(rest.split())}", place
    for name in ("Prague's share, heat maps", "CUBIC's relative queueing delay"):
        (row,) = (row for row in table("deployment.md", "", "table") if row["table"] == name)
        distance = f"median {row['median']}, 90 % within {row['90 %']}"
        yield f"L4S in Practice: {name}", TESTBED, row["cells"], distance, "deployment.md#distances"
    for page, title, names in (
        ("ect1.md", "ECT(1) tests", ("Prague's share in S2", "smoothed RTT")),
        ("overload.md", "overload", ("shares of the rate", "mean delays")),
    ):
        for row in table(page, "", "quantity"):
            if row["quantity"] in names:
                within, cells = row["within"].split(" of ")
                yield f"{title}: {row['quantity']}", TESTBED, cells, f"within {row['bar']} in {within}", page
    wifi = table("access.md", "### Against others", "cell")
    within = sum(row["within"] == "yes" for row in wifi)
    distance = f"within the bars of the page in {within}"
    yield "Wi-Fi: rate and delay", "ns-3", str(len(wifi)), distance, "access.md#against-others"


def markdown() -> str:
    """The page with its table."""
    lines = ["| what | compared with | cells | distance | measured in |", "|---|---|---|---|---|"]
    for what, against, cells, distance, place in rows():
        lines.append(f"| {what} | {against} | {cells} | {distance} | [{place.partition('.')[0]}]({place}) |")
    before, _, rest = (DOCS / "accuracy.md").read_text("utf-8").partition(BEGIN)
    return before + BEGIN + "\n".join(lines) + "\n" + END + rest.partition(END)[2]
