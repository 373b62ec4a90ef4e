"""The claims of the ECT(1) study: sound on numbers as the model has them, and each can turn."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import l4slab
import polars as pl
import pytest
from l4slab import experimentfile
from l4slab.base import metrics
from l4slab.base.packaged import study
from l4slab.experimentfile import references
from l4slab.report import results as folders
from l4slab.results import claims
from l4slab.results.claims import Claim
from l4slab.results.figures import Figure, RunTable
from l4slab.results.published import Published

from . import studies

EXPERIMENTS = [experimentfile.load(file) for file in study("ect1")]
CLAIMS = {claim.id: claim for experiment in EXPERIMENTS for claim in experiment.tables(claims.Claim)}
FACTORS = ("build", "sender", "class", "bandwidth", "base_rtt", "aqm", "reduced", "jitter")
LABELS = metrics.LABELS | dict.fromkeys(FACTORS, pl.String)
EXTRA: dict[str, dict[str, Any]] = {
    "flows": {},
    "links": {},
    "series": {"classic_ecn_score": pl.Float64, "dropped_packets": pl.Float64, "sent_packets": pl.Float64},
}

RTTS = ("20ms", "80ms", "160ms")
DROPPING = ("pfifo(1000)", "pfifo(50)", "pie(noecn)")
PLAIN = (
    *DROPPING, "codel1q", "codel1q(40ms)", "codel1q(20ms)", "red(150000)", "red(400000)", "pie", "pie(100p/5ms)",
    "pie(100p/20ms)", "pie(1000p/20ms)",
)  # fmt: skip
JITTERS = ("netem delay 2ms 1ms 10%", "netem delay 4ms 2ms 10%", "netem delay 10ms 5ms 10%")
# Statements that are not found, and what is found instead.
NOT_FOUND = {
    "red-starves": "red-leaves-cubic-the-smaller-part",
    "reno-sce-is-like-reno": "reno-sce-gives-less-way-to-marks",
    "figure-6-loss-original": "figure-6-loss-is-a-third-original",
    "four-ms-on-a-short-path": "four-to-six-ms-on-a-short-path",
}


def frame(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=LABELS | metrics.TABLES[table] | EXTRA[table], strict=False)


def row(experiment: str, flow: str, **values: Any) -> dict[str, Any]:
    """A row of `flows`, whose run follows from its labels."""
    run = " ".join([experiment, *(str(values[name]) for name in FACTORS if name in values)])
    return {"experiment": experiment, "run": run, "trial": 1, "flow": flow} | values


def flows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for build, aqm, rtt in product(("original", "re-run"), ("dualpi2", *PLAIN), RTTS):
        starved = aqm in DROPPING or aqm.startswith("pie(100p")
        share = 0.84 if aqm == "codel1q(20ms)" else 0.7 if aqm == "red(150000)" else 0.5
        lost = 0.1
        if starved:
            share = 0.995 if build == "original" else 0.3
            lost = 0.1 if build == "re-run" else 30.0
        label = {"build": build, "aqm": aqm, "base_rtt": rtt}
        rows.append(row("s2-l4s", "prague", **label, share=share, goodput_mbps=45 * share, drop_pct=lost))
        rows.append(row("s2-l4s", "cubic", **label, share=1 - share, goodput_mbps=45 * (1 - share), drop_pct=0.1))
    for (sender, share), aqm, rtt in product((("cubic", 0.5), ("reno", 0.25)), PLAIN, RTTS):
        label = {"aqm": aqm, "base_rtt": rtt, "share": share}
        rows.append(row("s2-plain", "second", sender=sender, **label))
        marked = 0.15 if sender == "reno" and aqm not in DROPPING and aqm != "pie(100p/20ms)" else 0.0
        rows.append(row("s2-sce", "second", sender=f"{sender}-sce", **label | {"share": share + marked}))
    for sender, aqm, rtt in product(("cubic-sce", "reno-sce"), ("twin_codel_af", "lfq_cobalt", "cake"), RTTS):
        rows.append(row("s2-sce", "second", sender=sender, aqm=aqm, base_rtt=rtt, share=0.5))
    for build, rtt in product(("original", "re-run"), ("20ms", "80ms")):
        rows.append(row("s3-l4s", "prague", build=build, base_rtt=rtt, goodput_mbps=42, drop_pct=0.03))
        burst = {"goodput_mbps": 5.5, "sojourn_ms_mean": 0.2, "sojourn_ms_p99": 1.2}
        rows.append(row("s5-l4s", "prague", build=build, base_rtt=rtt, **burst))
    for build, (jitter, rate) in product(("original", "re-run"), zip(JITTERS, (40, 25, 13), strict=True)):
        rows.append(row("s6-l4s", "prague", build=build, jitter=jitter, goodput_mbps=rate))
    rows += [row("s6-sce", "sce", jitter=jitter, goodput_mbps=44) for jitter in JITTERS]
    for (aqm, rate), rtt in product((("twin_codel_af", 30), ("cake", 14)), ("20ms", "80ms")):
        rows.append(row("s5-sce", "sce", aqm=aqm, base_rtt=rtt, goodput_mbps=rate, sojourn_ms_mean=5.5))
    for sender, low, rate in product(("cubic-sce", "reno-sce"), (False, True), (5, 50, 250)):
        label = {"class": "low latency" if low else "default", "bandwidth": f"{rate}Mbit", "base_rtt": "20ms"}
        slow = rate == 5
        values = {
            "goodput_mbps": rate * (0.85 if low else 0.95),
            "sojourn_ms_mean": 2.1 if slow else 0.6 if low else 3.0,
            "sojourn_ms_p99": 6.5 if slow else 1.3 if low else 5.5,
        }
        rows.append(row("s1-sce", "sce", sender=sender, **label, **values))
    return rows


def series() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def add(experiment: str, times: range, score: Any, **values: Any) -> None:
        for time in times:
            of_time = {name: value(time) if callable(value) else value for name, value in values.items()}
            found = score(time) if callable(score) else score
            rows.append(row(experiment, "prague", **of_time) | {"time_s": float(time), "classic_ecn_score": found})

    for build in ("original", "re-run"):
        for aqm, rtt in product(DROPPING, RTTS):
            lost = 91.0 if (build, aqm) == ("original", "pfifo(50)") else 1.0
            label = {"build": build, "aqm": aqm, "base_rtt": rtt}
            add("s2-l4s", range(16, 40), 0.0, **label, sent_packets=1000.0, dropped_packets=10 * lost)
        for rtt in RTTS:
            label = {"build": build, "aqm": "red(150000)", "base_rtt": rtt}
            add("s2-l4s", range(16, 180), lambda time: 17.0 if time // 10 % 2 else 0.0, **label)
        for rtt in ("80ms", "160ms"):
            add("s1-l4s", range(21, 60), 15.0, build=build, bandwidth="5Mbit", base_rtt=rtt, goodput_mbps=3.7)
        for rtt in ("20ms", "80ms"):
            back = 35 if rtt == "20ms" else 115
            answered = {"sent_packets": 1000.0, "dropped_packets": 1.0}
            label = {"build": build, "base_rtt": rtt}
            add("s3-l4s", range(1, 180), lambda time, back=back: 17.0 if time < back + 5 else 0.0, **label, **answered)
            add("s5-l4s", range(21, 60), 17.0, **label)
        for jitter, score, rate in zip(JITTERS, (0.1, 17.0, 17.0), (40, 25, 13), strict=True):
            add("s6-l4s", range(21, 60), score, build=build, jitter=jitter, goodput_mbps=rate)
        label = {"build": build, "base_rtt": "80ms", "reduced": "5mbit"}
        add("s4-l4s", range(36, 76), 0.0, **label, goodput_mbps=4.0, dropped_packets=lambda t: 400.0 if t < 41 else 0.0)
    return rows


@cache
def everything() -> dict[str, pl.DataFrame]:
    return {"flows": frame("flows", flows()), "links": frame("links", []), "series": frame("series", series())}


def changed(where: dict[str, Any], values: dict[str, Any]) -> dict[str, pl.DataFrame]:
    """`everything` with other values in the rows of one table where these columns are so."""
    tables = dict(everything())
    place = dict(where)
    table = place.pop("table", "flows")
    chosen = pl.all_horizontal(pl.lit(True), *(pl.col(name) == value for name, value in place.items()))
    assert tables[table].filter(chosen).height
    new = [
        pl.when(chosen).then(value if isinstance(value, pl.Expr) else pl.lit(value)).otherwise(pl.col(name)).alias(name)
        for name, value in values.items()
    ]
    tables[table] = tables[table].with_columns(new).cast(dict(tables[table].schema))  # type: ignore[arg-type]
    return tables


def two(build: str, aqm: str, rtt: str | None = None, flow: str = "prague") -> dict[str, Any]:
    """Rows of scenario 2."""
    return {"experiment": "s2-l4s", "flow": flow, "build": build, "aqm": aqm} | ({"base_rtt": rtt} if rtt else {})


# Rows of one table, and the values that turn the claim.
TURNS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "default-aqms-are-detected": (two("re-run", "pie", "80ms"), {"share": 0.9}),
    "copes-with-the-shift": ({"experiment": "s3-l4s", "build": "original", "base_rtt": "80ms"}, {"drop_pct": 20.0}),
    "tight-codel-is-not-detected": (two("original", "codel1q(20ms)", "160ms"), {"share": 0.6}),
    "red-150000-oscillates": (
        {"table": "series", "aqm": "red(150000)", "base_rtt": "80ms"},
        {"classic_ecn_score": 0.0},
    ),
    "red-starves": (two("re-run", "red(150000)", "80ms"), {"share": 0.95}),
    "red-leaves-cubic-the-smaller-part": (two("re-run", "red(150000)", "80ms"), {"share": 0.95}),
    "tight-pie-starves-original": (two("original", "pie(100p/5ms)"), {"share": 0.5}),
    "tight-pie-starves-nobody-rerun": (two("re-run", "pie(100p/20ms)", "20ms"), {"share": 0.9}),
    "queues-that-drop-starve-original": (two("original", "pie(noecn)", "20ms"), {"share": 0.5}),
    "queues-that-drop-starve-prague-rerun": (two("re-run", "pfifo(50)", "20ms"), {"share": 0.9}),
    "cubic-sce-is-like-cubic": (
        {"experiment": "s2-sce", "sender": "cubic-sce", "aqm": "pfifo(50)", "base_rtt": "20ms"},
        {"share": 0.56},
    ),
    "reno-sce-is-like-reno": ({"experiment": "s2-sce", "sender": "reno-sce"}, {"share": 0.3}),
    "reno-sce-gives-less-way-to-marks": ({"experiment": "s2-sce", "sender": "reno-sce"}, {"share": 0.3}),
    "sce-starves-nobody": ({"experiment": "s2-sce", "aqm": "cake", "base_rtt": "80ms"}, {"share": 0.9}),
    "low-rate-is-taken-for-classic": (
        {"table": "series", "experiment": "s1-l4s", "base_rtt": "160ms"},
        {"goodput_mbps": 4.6},
    ),
    "jitter-is-taken-for-classic": (
        {"table": "series", "experiment": "s6-l4s", "jitter": JITTERS[1]},
        {"classic_ecn_score": 3.0},
    ),
    "bursts-are-taken-for-classic": (
        {"table": "series", "experiment": "s5-l4s", "base_rtt": "20ms"},
        {"classic_ecn_score": 3.0},
    ),
    "switching-back-takes-seconds": (
        {"table": "series", "experiment": "s3-l4s"},
        {"classic_ecn_score": pl.when(pl.col("time_s") < 35.5).then(17.0).otherwise(0.0)},
    ),
    "losses-leave-the-verdict": ({"table": "series", "aqm": "pfifo(50)", "time_s": 30.0}, {"classic_ecn_score": 9.0}),
    "loss-is-ignored-original": (two("original", "pfifo(1000)", "20ms"), {"drop_pct": 0.5}),
    "loss-is-answered-rerun": (two("re-run", "pfifo(1000)", "20ms"), {"drop_pct": 20.0}),
    "fallback-answers-loss": (
        {"table": "series", "experiment": "s3-l4s", "build": "original", "base_rtt": "80ms"},
        {"dropped_packets": 300.0},
    ),
    "ninety-percent-loss": ({"table": "series", "aqm": "pfifo(50)"}, {"dropped_packets": 500.0}),
    "figure-6-cubic-starves-original": (
        two("original", "pie(noecn)", "160ms", "cubic"),
        {"goodput_mbps": 20.0},
    ),
    "figure-6-loss-original": (two("original", "pie(noecn)", "160ms"), {"drop_pct": 93.0}),
    "figure-6-loss-is-a-third-original": (two("original", "pie(noecn)", "160ms"), {"drop_pct": 93.0}),
    "figure-6-cubic-has-more-rerun": (two("re-run", "pie(noecn)", "160ms", "cubic"), {"share": 0.3}),
    "reduction-loses-without-recovery-time": ({"table": "series", "experiment": "s4-l4s"}, {"goodput_mbps": 0.1}),
    "ultra-low-delay-costs-utilisation": ({"experiment": "s5-l4s", "base_rtt": "20ms"}, {"goodput_mbps": 40.0}),
    "codel-marking-tolerates-bursts": (
        {"experiment": "s5-sce", "aqm": "twin_codel_af", "base_rtt": "80ms"},
        {"goodput_mbps": 10.0},
    ),
    "cake-tolerates-bursts-less": ({"experiment": "s5-sce", "aqm": "cake"}, {"goodput_mbps": 30.0}),
    "sce-tolerates-jitter": ({"experiment": "s6-sce", "jitter": JITTERS[2]}, {"goodput_mbps": 20.0}),
    "four-ms-on-a-short-path": (
        {"experiment": "s1-sce", "sender": "cubic-sce", "class": "default"},
        {"sojourn_ms_p99": 4.0},
    ),
    "four-to-six-ms-on-a-short-path": (
        {"experiment": "s1-sce", "sender": "cubic-sce", "class": "default", "bandwidth": "250Mbit"},
        {"sojourn_ms_p99": 9.0},
    ),
    "sce-ultra-low-delay": (
        {"experiment": "s1-sce", "class": "low latency", "bandwidth": "50Mbit"},
        {"goodput_mbps": 30.0},
    ),
    "sce-no-ultra-low-delay-at-5-mbit": (
        {"experiment": "s1-sce", "class": "low latency", "bandwidth": "5Mbit"},
        {"sojourn_ms_mean": 0.8},
    ),
}


def verdicts(tables: dict[str, pl.DataFrame], *names: str) -> dict[str, str]:
    """The verdicts on these claims, or on all."""
    return studies.verdicts(EXPERIMENTS, tables, *names)


def test_ids_are_unique_across_the_files() -> None:
    ids = [
        item.id
        for e in EXPERIMENTS
        for item in (*e.tables(Claim), *e.tables(Published), *e.tables(Figure), *e.tables(RunTable))
    ]
    assert len(ids) == len(set(ids))


def test_every_statement_says_where_it_stands() -> None:
    assert all(claim.says and (claim.source or claim.kind == "found") for claim in CLAIMS.values())


def test_all_verdicts_are_as_documented() -> None:
    wanted = {name: "fails" if name in NOT_FOUND else "holds" for name in CLAIMS}
    assert verdicts(everything()) == wanted


@pytest.mark.parametrize("name", TURNS)
def test_a_claim_turns(name: str) -> None:
    assert verdicts(changed(*TURNS[name]), name)[name] == ("holds" if name in NOT_FOUND else "fails")


def test_every_claim_has_a_case_in_which_it_turns() -> None:
    assert set(CLAIMS) == set(TURNS)


def test_what_is_found_stands_beside_what_it_contradicts() -> None:
    for statement, finding in NOT_FOUND.items():
        assert CLAIMS[statement].listed == "statement"
        assert CLAIMS[finding].beside == statement


def test_no_claim_holds_about_nothing() -> None:
    nothing = {name: table.clear() for name, table in everything().items()}
    assert not {name for name, verdict in verdicts(nothing).items() if verdict not in ("undecided", "fails")}


@pytest.mark.slow
def test_the_study(tmp_path: Path, readme: ModuleType, in_readme: Any) -> None:
    # Captures of all scenarios are 5 GB. Two findings stand so near to their bars that they need all trials.
    files = []
    for file in study("ect1"):
        text = file.read_text()
        if not file.stem.startswith("s5"):
            text = text.replace('captures = "first trial"', "")
        files.append(tmp_path / file.name)
        files[-1].write_text(text)
        for name, table in references.contents(experimentfile.load(file)).items():
            (tmp_path / name).write_bytes(table)
    results = l4slab.run(files, out=tmp_path / "r")
    assert results.failures == []
    assert set(claims.unexpected(results.claims)["id"]) == set(NOT_FOUND)
    assert claims.changed(results.claims).is_empty()
    assert readme.counts(results.claims) == in_readme("ect1")
    folder = folders.load(tmp_path / "r")
    cells = [table for file in folder.files for table in file.tables(RunTable)]
    assert len(cells) == 12
    assert len([figure for file in folder.files for figure in file.tables(Figure)]) == 7
    first = results.flows.filter(pl.col("trial") == 1, pl.col("experiment").str.starts_with("s5"))["run"].unique()
    assert all((tmp_path / "r" / "captures" / run).is_dir() for run in first)
    judged = results.published.filter(pl.col("within").is_not_null())
    within = dict(judged.group_by("id").agg(pl.col("within").mean()).iter_rows())
    assert within["goodput"] > 0.68
    assert within["tcp-rtt"] > 0.98
    assert within["share"] > 0.85
