"""Writes how far the studies are from the published tables into their pages.

    .venv/bin/python docs/distances.py [STUDY...]     from results/STUDY, as `l4slab reproduce STUDY` leaves it

Each table stands between two comments. Cells that are zero in both do not count.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import duckdb

ROOT = Path(__file__).resolve().parents[1]
_CELLS = "published where reference is not null and tolerance is not null and not (published = 0 and measured = 0)"
_WITHIN = "count(*) filter (within) || ' of ' || count(within)"


def _sized(what: str, where: str, bar: str, unit: str = "", digits: int = 3) -> str:
    """A row with the sizes of distances; `bar` is SQL."""
    sizes = ", ".join(f"printf('%.{digits}f{unit}', quantile_cont(abs(distance), {part}))" for part in (0.5, 0.9))
    return f"select '{what}', count(*), {sizes}, count(*) filter (within), {bar} from cells where {where}"


def _counted(what: str, bar: str, *wheres: tuple[str, str]) -> str:
    """A row with numbers of cells within a bar; each of `wheres` has the words before its number."""
    counts = " || '; ' || ".join(f"'{words}' || (select {_WITHIN} from cells where {where})" for words, where in wheres)
    return f"select '{what}', '{bar}', {counts}"


def _met(median: float, ninth: float) -> str:
    met = f"median(abs(distance)) <= {median} and quantile_cont(abs(distance), 0.9) <= {ninth}"
    return f"'median {median:.2f}, 90 % {ninth:.2f}: ' || case when {met} then 'met' else 'missed' end"


_DELAYS = "id = 'cubic-relative-delay'"
# Of each study its tables: heads, and a query for each row.
TABLES: dict[str, dict[str, tuple[list[str], list[str]]]] = {
    "deployment": {
        "tables": (
            ["table", "cells", "median", "90 %", "within", "bar"],
            [
                _sized("Prague''s share, heat maps", "id = 'prague-share'", _met(0.04, 0.1)),
                _sized(
                    "Prague''s share, FIFO of 0.5 BDP",
                    "id = 'prague-share-short-fifo'",
                    "'apart: two laboratories differ by 0.12'",
                ),
                _sized(
                    "CUBIC''s relative queueing delay",
                    _DELAYS,
                    "'median 0.10: ' || case when median(abs(distance)) <= 0.1 then 'met' else 'missed' end",
                    digits=2,
                ),
                _sized("single-flow utilisation", "id = 'single-flow-utilisation'", "''", " %%", 1),
                _sized(
                    "bar plots: Prague''s share", "id = 'bars-share'", "'half of them one trial at 1000 Mb/s'", digits=2
                ),
                _sized("bar plots: Prague''s delay", "id = 'bars-prague-delay'", "''", " ms", 1),
                _sized("bar plots: CUBIC''s delay", "id = 'bars-cubic-delay'", "''", " ms", 1),
            ],
        ),
        "delays": (
            ["queue", "cells", "median \\|difference\\|", "mean difference"],
            [
                f"""select split_part(quantity, ',', 1)
                      || case when split_part(quantity, ',', 1) in ('FIFO', 'DualPI2') then ''
                         else ' at ' || regexp_extract(quantity, 'threshold ([0-9]+ ms)', 1) end as queue,
                    count(*), printf('%.2f', median(abs(distance))), printf('%+.2f', avg(distance))
                    from cells where {_DELAYS} group by queue order by queue"""
            ],
        ),
    },
    "ect1": {
        "tables": (
            ["quantity", "bar", "within"],
            [
                _counted(
                    "goodput of a flow in a window",
                    "10 %",
                    ("", "id = 'goodput'"),
                    ("of single flows (S1, S3 to S6) ", "id = 'goodput' and quantity not like '%-s2-%'"),
                    ("in S2 ", "id = 'goodput' and quantity like '%-s2-%'"),
                ),
                _counted("Prague''s share in S2", "0.10", ("", "id = 'share'")),
                _counted("smoothed RTT", "10 % or 2 ms", ("", "id = 'tcp-rtt'")),
                _counted("CE in the captures, per flow", "factor 1.5", ("", "id = 'capture-ce'")),
                _counted("marks of the queue", "factor 1.5", ("", "id = 'qdisc-marks'")),
                _counted("drops of the queue", "factor 1.5", ("", "id = 'qdisc-drops'")),
            ],
        )
    },
    "overload": {
        "tables": (
            ["quantity", "bar", "within"],
            [
                _counted("shares of the rate", "2 points", ("", "id = 'rate-shares'")),
                _counted("mean delays", "10 % or 1 ms", ("", "id = 'mean-delays'")),
                _counted("drops and marks", "2 points", ("", "id = 'drops-and-marks'")),
            ],
        )
    },
}


def rows(study: str, table: str, folder: Path) -> str:
    """A table of a page, from a folder with results of its study."""
    heads, queries = TABLES[study][table]
    with duckdb.connect() as connection:
        connection.execute(f"create view published as from '{folder / 'published.parquet'}'")
        connection.execute(f"create view cells as from {_CELLS}")
        found = [row for query in queries for row in connection.execute(query).fetchall()]
    lines = [heads, ["---"] * len(heads), *([str(value) for value in row] for row in found)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write(study: str, folder: Path) -> None:
    """Bring the page of a study up to date. Raises ValueError where it has no place for a table."""
    page = ROOT / "docs" / f"{study}.md"
    text = page.read_text("utf-8")
    for table in TABLES[study]:
        begin = f"<!-- {table}: written by docs/distances.py -->\n"
        text, places = re.subn(
            f"{begin}.*?<!-- end -->",
            lambda _, t=table, b=begin: f"{b}{rows(study, t, folder)}<!-- end -->",
            text,
            flags=re.S,
        )
        if places != 1:
            raise ValueError(f"{page}: {places} places for {table}")
    page.write_text(text, encoding="utf-8")


def main(names: list[str]) -> None:
    """Bring pages up to date."""
    for name in names or TABLES:
        write(name, ROOT / "results" / name)


if __name__ == "__main__":
    main(sys.argv[1:])
