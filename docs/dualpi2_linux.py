"""Writes the tables of docs/dualpi2-linux.md from the results of both engines, which the page says how to get.

    .venv/bin/python docs/dualpi2_linux.py

Each table stands between two comments. A test compares those of the simulator with what it gives, and tells when the
runs behind those of the kernel are others than those of the study.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

import duckdb
from l4slab import experimentfile
from l4slab.base.packaged import study

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "dualpi2-linux.md"
SIMULATOR = ROOT / "results" / "dualpi2-linux"
KERNEL = ROOT / "results" / "dualpi2-linux-linux"
_ON_THE_KERNEL = ("rates", "bursts", "remedies", "alone", "numbers")
_RUNS = ("duration", "warmup", "seed", "link", "flow", "sweep", "let", "start_jitter")

# What the step marks of a burst's packets, as in bursts.toml.
_LAW = """
    select avg(case when j <= n then 0 else
      (1 - j / 9) * greatest(0, least(1, j - f)) + (j / 9) * greatest(0, least(1, j + 1 - f)) end)
    from range(1, cast(frames + 1 as bigint)) as burst(j)"""

# Of the simulator alone: what the table is called, its heads, its rows.
TABLES = {
    "shares": (
        ["Mb/s", *(f"RTT {rtt} ms: {n}" for rtt in (8, 32, 80) for n in (0, 1, 2))],
        """
        select mbps::varchar, """
        + ", ".join(
            f"printf('%.2f', avg(share) filter (rtt_ms = {rtt} and n = {n}))" for rtt in (8, 32, 80) for n in (0, 1, 2)
        )
        + """ from flows where experiment = 'rates' and flow = 'l4s' group by mbps order by mbps""",
    ),
    "remedies": (
        ["", "1", "2", "4", "8", "12", "16", "24", "100"],
        """
        select remedy, """
        + ", ".join(
            f"printf('%.2f', avg(share) filter (mbps = {mbps} and flow = 'l4s')) || '; ' || "
            f"printf('%.2f', avg(sojourn_ms_mean) filter (mbps = {mbps} and flow = 'thin')) || ', ' || "
            f"printf('%.1f', avg(sojourn_ms_p99) filter (mbps = {mbps} and flow = 'thin'))"
            for mbps in (1, 2, 4, 8, 12, 16, 24, 100)
        )
        + """ from flows where experiment = 'remedies' group by remedy order by min(rowid)""",
    ),
    "alone": (
        ["", "1", "2", "4", "8", "10", "20", "100", "200"],
        """
        select remedy, """
        + ", ".join(
            f"printf('%.2f', avg(sojourn_ms_mean) filter (mbps = {mbps} and flow = 'l4s')) || '; ' || "
            f"printf('%.0f', 100 * avg(rate_mbps / mbps) filter (mbps = {mbps} and flow = 'l4s'))"
            for mbps in (1, 2, 4, 8, 10, 20, 100, 200)
        )
        + """ from flows where experiment = 'alone' group by remedy order by min(rowid)""",
    ),
    "mixes": (
        ["Prague + CUBIC", *(f"{mbps} Mb/s" for mbps in (4, 8, 16, 40))],
        """
        with cells as (
          select coalesce(flows, '1 + 1') as mix, mbps, n, avg(goodput_mbps / count) filter (flow = 'l4s')
                 / avg(goodput_mbps / count) filter (flow = 'cubic') as ratio
          from flows where experiment in ('rates', 'numbers') and coalesce(rtt_ms, 32) = 32 group by all
        )
        select mix, """
        + ", ".join(
            " || ', ' || ".join(f"printf('%.2f', max(ratio) filter (mbps = {mbps} and n = {n}))" for n in (0, 1, 2))
            for mbps in (4, 8, 16, 40)
        )
        + """ from cells group by mix order by array_position(['1 + 1', '1 + 4', '4 + 1', '4 + 4', '10 + 10'], mix)""",
    ),
    "short": (
        ["Mb/s", "0", "1", "2"],
        """
        select mbps::varchar, """
        + ", ".join(
            f"printf('%.0f, %.0f', avg(completion_ms_p50) filter (n = {n}), avg(completion_ms_p99) filter (n = {n}))"
            for n in (0, 1, 2)
        )
        + """ from flows where experiment = 'short' and flow = 'short' group by mbps order by mbps""",
    ),
}

# Of both engines.
BOTH = {
    "kernel-bursts": (
        ["Mb/s, min_qlen_step", *(f"{frames} at once: law, simulator, kernel" for frames in (1, 2, 4, 8))],
        f"""
        with cells as (
          select mbps, n, "flow.burst.count" as frames, mbps * 1e3 / (8 * 1514) as f,
                 100 * sum(step_marked_packets) filter (engine = 'sim')
                 / sum(arrived_packets) filter (engine = 'sim') as sim,
                 100 * sum(step_marked_packets) filter (engine = 'linux')
                 / sum(arrived_packets) filter (engine = 'linux') as kernel
          from links where experiment = 'bursts' and queue = 'L' and mbps in (4, 8, 16, 24) and n < 2 group by all
        ), laws as (select *, 100 * ({_LAW}) as law from cells)
        select mbps || ', ' || n, """
        + ", ".join(f"max(printf('%.1f, %.1f, %.1f', law, sim, kernel)) filter (frames = {b})" for b in (1, 2, 4, 8))
        + " from laws group by mbps, n order by n, mbps",
    ),
    "kernel-shares": (
        ["RTT ms, Mb/s", *(f"{n}: share; marked %; L ms" for n in (0, 1, 2))],
        """
        with cells as (
          select rtt_ms, mbps, n, """
        + ", ".join(
            f"avg({column}) filter (engine = '{engine}') as {engine}_{column}"
            for column in ("share", "ce_pct", "sojourn_ms_mean")
            for engine in ("sim", "linux")
        )
        + """ from flows where experiment = 'rates' and flow = 'l4s' group by all
          having count(*) filter (engine = 'linux') > 0
        )
        select rtt_ms || ', ' || mbps, """
        + ", ".join(
            "max(printf('%.2f, %.2f; %.0f, %.0f; %.2f, %.2f', sim_share, linux_share, sim_ce_pct, linux_ce_pct, "
            f"sim_sojourn_ms_mean, linux_sojourn_ms_mean)) filter (n = {n})"
            for n in (0, 1, 2)
        )
        + " from cells group by rtt_ms, mbps order by rtt_ms, mbps",
    ),
    "kernel-rest": (
        ["8 Mb/s", "cells", "median distance of shares", "largest", "median distance of L's mean delay, ms", "largest"],
        """
        with cells as (
          select experiment, remedy, n, flows as mix, """
        + ", ".join(
            f"avg({column}) filter (engine = '{engine}') as {engine}_{column}"
            for column in ("share", "sojourn_ms_mean")
            for engine in ("sim", "linux")
        )
        + """ from flows where experiment in ('remedies', 'alone', 'numbers') and flow = 'l4s' and mbps = 8 group by all
          having count(*) filter (engine = 'linux') > 0
        )
        select experiment, count(*)::varchar,
               case when experiment <> 'alone' then printf('%.3f', median(abs(sim_share - linux_share))) end,
               case when experiment <> 'alone' then printf('%.3f', max(abs(sim_share - linux_share))) end,
               printf('%.2f', median(abs(sim_sojourn_ms_mean - linux_sojourn_ms_mean))),
               printf('%.2f', max(abs(sim_sojourn_ms_mean - linux_sojourn_ms_mean)))
        from cells group by experiment order by experiment""",
    ),
}


def mark() -> str:
    """Changes with those runs of the study that the page has of the kernel, not with its claims and figures."""
    files = [file for file in study("dualpi2-linux") if file.stem in _ON_THE_KERNEL]
    experiments = [experimentfile.load(file) for file in files]
    runs = [{key: {**one.top, **one.document}.get(key) for key in _RUNS} for one in experiments]
    return hashlib.sha256(json.dumps(runs, sort_keys=True, default=str).encode()).hexdigest()[:16]


def table(name: str, folders: dict[str, Path]) -> str:
    """One of the page's tables as Markdown, from results folders by engine."""
    heads, sql = (TABLES | BOTH)[name]
    with duckdb.connect() as db:
        for rows in ("flows", "links"):
            parts = (
                f"select *, '{engine}' as engine, row_number() over () as rowid from '{folder}/{rows}.parquet'"
                for engine, folder in folders.items()
            )
            db.sql(f"create table {rows} as {' union all by name '.join(parts)}")
        found = db.sql(sql).fetchall()
    return "".join(f"| {' | '.join(cells)} |\n" for cells in _lines(heads, found))


def _lines(heads: list[str], rows: Iterable[Iterable[str | None]]) -> Iterable[list[str]]:
    yield heads
    yield ["---"] * len(heads)
    yield from ([cell or "" for cell in row] for row in rows)


def written(name: str, page: str) -> str:
    """A table of the page."""
    found = re.search(rf"<!-- {name}:.*?-->\n\n(.*?)\n<!-- end -->", page, re.DOTALL)
    if found is None:
        raise ValueError(f"{PAGE.name} has no table {name}")
    return found[1]


def main() -> None:
    """Bring the page up to date, the kernel's tables where its results are there."""
    page = PAGE.read_text("utf-8")
    for name in TABLES | BOTH:
        folders = {"sim": SIMULATOR} | ({"linux": KERNEL} if name in BOTH else {})
        if not all((folder / "flows.parquet").is_file() for folder in folders.values()):
            continue
        of = f" of {mark()}" if name in BOTH else ""
        begin = f"<!-- {name}: written by docs/dualpi2_linux.py{of} -->\n\n"
        page = re.sub(
            rf"<!-- {name}:.*?-->\n\n.*?\n?<!-- end -->",
            lambda _, begin=begin, name=name, folders=folders: f"{begin}{table(name, folders)}\n<!-- end -->",
            page,
            flags=re.DOTALL,
        )
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
