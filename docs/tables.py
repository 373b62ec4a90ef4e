"""Writes the tables on the pages of four studies from their results, which each page says how to get.

    .venv/bin/python docs/tables.py

Each table stands between two comments. Tests compare those of the simulator with what it gives, and tell when the
runs behind those of the kernel (`dualpi2-linux`) are others than those of the study.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import duckdb
from l4slab import experimentfile
from l4slab.base import metrics, packaged
from l4slab.results import claims

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ROOT / "python" / "l4slab" / "studies"
_ON_THE_KERNEL = ("rates", "bursts", "remedies", "alone", "numbers")
_RUNS = ("duration", "warmup", "seed", "link", "flow", "sweep", "let", "start_jitter")

# What the step marks of a burst's packets, as in bursts.toml.
_LAW = """
    select avg(case when j <= n then 0 else
      (1 - j / 9) * greatest(0, least(1, j - f)) + (j / 9) * greatest(0, least(1, j + 1 - f)) end)
    from range(1, cast(frames + 1 as bigint)) as burst(j)"""


def _calls(mbps: int, encoder: str) -> tuple[list[str], str]:
    """Rate, frame latency and bad frames of a call by queue and rivals, on a line of `mbps` Mb/s."""
    senders = ("SCReAM, ECT(1)", "SCReAM, Not-ECT", "GCC", "NADA")
    cells = (
        "printf('%.2f, %.0f, %.1f', "
        + ", ".join(
            f"avg({column}) filter (sender = '{sender}')"
            for column in ("media_mbps", "frame_ms_p99", "late_pct + lost_frames_pct")
        )
        + ")"
        for sender in senders
    )
    return (
        ["queue", "next to", *senders],
        f"""
        select line, rivals, {", ".join(cells)} from flows
        where flow = 'call' and mbps = {mbps} and encoder = '{encoder}'
          and rivals in ('1 CUBIC', '10 CUBIC') and line <> 'cake'
        group by line, rivals
        order by array_position(['FIFO of 100 ms', 'fq_codel', 'dualpi2', 'docsis_ll'], line), rivals""",
    )


# What the rows of the scenarios of beyond-access are called.
_QUANTITIES = {
    "call": {
        "bad_intervals": "bad intervals, %",
        "goodput": "goodput, Mb/s",
        "loss": "losses, %",
        "mark": "marks, %",
        "rtt_mean": "RTT, mean, ms",
        "rtt_p95": "RTT, 95 %, ms",
    },
    "streaming": {
        "chunks_after_stall": "chunks after a stall, %",
        "chunks_played": "chunks played, of 30",
        "chunks_that_stall": "chunks that stall, %",
        "goodput": "goodput, Mb/s",
        "rebuffering": "stalled, s",
        "rtt_mean": "RTT, mean, ms",
        "rtt_p95": "RTT, 95 %, ms",
    },
    "transfer": {
        "completed": "completed, %",
        "fct": "completion, s",
        "goodput": "goodput, Mb/s",
        "rtt_mean": "RTT, mean, ms",
        "rtt_p95": "RTT, 95 %, ms",
    },
    "classic_long": {"goodput": "goodput, Mb/s", "rtt_mean": "RTT, mean, ms"},
    "classic_short": {"fct": "completion, s"},
}


def _scenarios(names: Iterable[str], is_published: bool) -> tuple[list[str], str]:
    """The scenarios of beyond-access, with the values of the publication where it has them, or without."""
    text = "printf('%.*f', case when abs({0}) >= 100 then 1 when abs({0}) >= 1 then 2 else 3 end, {0})"
    here = f"replace({text.format('measured')} || ' (' || {text.format('spread')} || ')', ' (0.000)', '')"
    both = (text.format("mean"), f"case when mean is not null then {here} end")
    columns = [
        f"max({one}) filter (scenario = '{name}')" for name in names for one in (both if is_published else [here])
    ]
    rows = [
        f"('{application}', '{quantity}', '{application.replace('_', ' ')}: {says}')"
        for application, quantities in _QUANTITIES.items()
        for quantity, says in quantities.items()
    ]
    reference = STUDIES / "beyond-access" / "scenarios.csv"
    return (
        ["", *(f"{name}{end}" for name in names for end in ((", published", ", here") if is_published else [""]))],
        f"""
        with quantities as (
               select *, row_number() over () as place from (values {", ".join(rows)}) as t(application, quantity, says)
             ),
             reference as (select * from read_csv('{reference}', comment = '#'))
        select says, {", ".join(columns)} from quantities join cells using (application, quantity)
        left join reference using (scenario, application, quantity) group by place, says order by place""",
    )


# Of the simulator alone, by study: what the table is called, its heads, its rows, and the file if it is not study.toml.
TABLES = {
    "call": {"calls-20": _calls(20, "even"), "calls-5": _calls(5, "even"), "calls-5-vp8": _calls(5, "VP8")},
    "beyond-access": {
        "published": _scenarios(("S1", "S2a", "S2b", "S3a", "S3b"), is_published=True),
        "predictions": _scenarios(("S4a", "S4b", "S5a", "S5b", "S6b", "S6c"), is_published=False),
        "queues": (
            [
                "queue of the router",
                *(f"calls at {load}: RTT (ms), bad intervals (%), rate (Mb/s)" for load in (0.5, 0.9, 1.1)),
                *(f"{flow} at 1.1 (Mb/s)" for flow in ("download", "classic", "background")),
            ],
            """
            select aqm, """
            + ", ".join(
                f"max(printf('+%.1f, %.0f, %.2f', p95_ms, bad_pct, call_mbps)) filter (load = {load})"
                for load in (0.5, 0.9, 1.1)
            )
            + ", "
            + ", ".join(
                f"max(printf('%.{digits}f', {flow}_mbps)) filter (load = 1.1)"
                for flow, digits in (("download", 1), ("classic", 1), ("background", 0))
            )
            + " from cells group by aqm order by list_position(['FIFO of 60 ms', 'PIE', 'priority, policed', "
            "'priority, capped', 'priority', 'FQ-CoDel', 'FQ-CoDel, step', 'DualPI2'], aqm)",
            "queues",
        ),
    },
    "home": {
        "waits": (
            ["line", "stations", "neither", "modem", "access point", "both"],
            "select line || ' Mbit/s', stations::varchar, "
            + ", ".join(
                f"printf('%.1f', avg(queue_ms_mean) filter (place = '{place}'))"
                for place in ("neither", "modem", "access point", "both")
            )
            + " from flows where flow like 'prague%' and rival = 'cubic' group by line, stations"
            " order by line, stations",
        )
    },
    "dualpi2-linux": {
        "shares": (
            ["Mb/s", *(f"RTT {rtt} ms: {n}" for rtt in (8, 32, 80) for n in (0, 1, 2))],
            """
            select mbps::varchar, """
            + ", ".join(
                f"printf('%.2f', avg(share) filter (rtt_ms = {rtt} and n = {n}))"
                for rtt in (8, 32, 80)
                for n in (0, 1, 2)
            )
            + """ from flows where experiment = 'rates' and flow = 'l4s' and mbps not in (6, 10, 14, 200)
                  group by mbps order by mbps""",
        ),
        "remedies": (
            ["", "1", "4", "8", "12", "24", "100"],
            """
            select remedy, """
            + ", ".join(
                f"printf('%.2f', avg(share) filter (mbps = {mbps} and flow = 'l4s')) || '; ' || "
                f"printf('%.2f', avg(sojourn_ms_mean) filter (mbps = {mbps} and flow = 'thin')) || ', ' || "
                f"printf('%.1f', avg(sojourn_ms_p99) filter (mbps = {mbps} and flow = 'thin'))"
                for mbps in (1, 4, 8, 12, 24, 100)
            )
            + """ from flows where experiment = 'remedies' group by remedy order by min(rowid)""",
        ),
        "alone": (
            ["", "1", "2", "4", "8", "10", "20", "200"],
            """
            select remedy, """
            + ", ".join(
                f"printf('%.2f', avg(sojourn_ms_mean) filter (mbps = {mbps} and flow = 'l4s')) || '; ' || "
                f"printf('%.0f', 100 * avg(rate_mbps / mbps) filter (mbps = {mbps} and flow = 'l4s'))"
                for mbps in (1, 2, 4, 8, 10, 20, 200)
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
            + """ from cells group by mix
                  order by array_position(['1 + 1', '1 + 4', '4 + 1', '4 + 4', '10 + 10'], mix)""",
        ),
        "short": (
            ["Mb/s", "0", "1", "2"],
            """
            select mbps::varchar, """
            + ", ".join(
                "printf('%.0f, %.0f', "
                f"avg(completion_ms_p50) filter (n = {n}), avg(completion_ms_p99) filter (n = {n}))"
                for n in (0, 1, 2)
            )
            + """ from flows where experiment = 'short' and flow = 'short' group by mbps order by mbps""",
        ),
    },
}

# Of both engines, of `dualpi2-linux`.
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
        ["RTT ms, Mb/s", *(f"{n}: share; marked %; L ms" for n in (0, 1))],
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
            for n in (0, 1)
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
    files = [file for file in packaged.study("dualpi2-linux") if file.stem in _ON_THE_KERNEL]
    experiments = [experimentfile.load(file) for file in files]
    runs = [{key: {**one.top, **one.document}.get(key) for key in _RUNS} for one in experiments]
    return hashlib.sha256(json.dumps(runs, sort_keys=True, default=str).encode()).hexdigest()[:16]


def table(study: str, folders: Mapping[str, Path], heads: list[str], sql: str, file: str = "study") -> str:
    """One table as Markdown, from results folders by engine; `sql` sees what a claim in this file of the study sees."""
    # With several threads sums differ in their last digit from time to time.
    with duckdb.connect(config={"threads": 1}) as db:
        for rows in metrics.TABLES:
            parts = (
                f"select *, '{engine}' as engine, row_number() over () as rowid from '{folder}/{rows}.parquet'"
                for engine, folder in folders.items()
            )
            db.sql(f"create temp view all_{rows} as {' union all by name '.join(parts)}")
        claims.show_experiment(db, experimentfile.load(STUDIES / study / f"{file}.toml"))
        found = db.sql(sql).fetchall()
    return "".join(f"| {' | '.join(cells)} |\n" for cells in _lines(heads, found))


def _lines(heads: list[str], rows: Iterable[Iterable[str | None]]) -> Iterable[list[str]]:
    yield heads
    yield ["---"] * len(heads)
    yield from ([cell or "" for cell in row] for row in rows)


def page(study: str) -> Path:
    """The page of a study."""
    return ROOT / "docs" / f"{study}.md"


def written(study: str, name: str) -> str:
    """A table of a page."""
    found = re.search(rf"<!-- {name}:.*?-->\n\n(.*?)\n<!-- end -->", page(study).read_text("utf-8"), re.DOTALL)
    if found is None:
        raise ValueError(f"{page(study).name} has no table {name}")
    return found[1]


def stale(study: str, results: Path) -> list[str]:
    """The simulator's tables on a study's page that are not what these results give."""
    return [name for name, one in TABLES[study].items() if written(study, name) != table(study, {"sim": results}, *one)]


def write(study: str, name: str, content: str, of: str = "") -> None:
    """Replace a table on the page of a study."""
    content = f"<!-- {name}: written by docs/tables.py{of} -->\n\n{content}\n<!-- end -->"
    pattern = re.compile(rf"<!-- {name}:.*?-->\n\n.*?\n?<!-- end -->", re.DOTALL)
    file = page(study)
    file.write_text(pattern.sub(lambda _: content, file.read_text("utf-8")), "utf-8")


def main() -> None:
    """Bring the pages up to date, as far as results are there."""
    for study, tables in TABLES.items():
        simulator, kernel = ROOT / "results" / study, ROOT / "results" / f"{study}-linux"
        if not (simulator / "flows.parquet").is_file():
            continue
        for name, one in tables.items():
            write(study, name, table(study, {"sim": simulator}, *one))
        if study == "dualpi2-linux" and (kernel / "flows.parquet").is_file():
            for name, one in BOTH.items():
                write(study, name, table(study, {"sim": simulator, "linux": kernel}, *one), f" of {mark()}")


if __name__ == "__main__":
    main()
