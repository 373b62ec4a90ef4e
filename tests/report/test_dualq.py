"""The claims of the dualq study, on runs of its own files: each can come out the other way."""

from __future__ import annotations

import l4slab
import polars as pl
import pytest
from l4slab import experimentfile
from l4slab.base.packaged import study
from l4slab.results import claims
from l4slab.results.claims import Claim
from l4slab.results.figures import Figure
from l4slab.results.published import Published

from . import studies

FILES = study("dualq")
EXPERIMENTS = [experimentfile.load(file) for file in FILES]
CLAIMS = {claim.id: claim for experiment in EXPERIMENTS for claim in experiment.tables(claims.Claim)}

# Statements that the model contradicts, and what is found instead.
NOT_FOUND = {
    "dualq-equal-throughput": "dualq-rtts-explain-rates",
    "shared-40-times": "shared-law",
    "pie-instable": "pie-instable-with-many",
    "qsize-pie-target": "qsize-pie-above-target",
    "web-ecn-longest": "web-ecn-after-handshake",
    "web-ecn-small": "web-ecn-small-none",
    "qsize-web-ecn-longer": "qsize-web-ecn-alike",
    "conclusion-like-fq": "conclusion-like-fq-delay",
    "law-dctcp-step": "law-dctcp-step-between",
    "twice-linear": "twice-nearly-linear",
}

c = pl.col
RATE, MEAN, P99 = "rate_mbps", "sojourn_ms_mean", "sojourn_ms_p99"
LOW, CLASSIC = c("flow") == "l4s", c("flow") == "classic"
WINDOW = c("rate_mbps") * 1e9 / 8 / 1514 * c("rtt_ms_mean") / 1e6


def at(experiment: str, **levels: str) -> pl.Expr:
    return pl.all_horizontal(c("experiment") == experiment, *(c(name) == level for name, level in levels.items()))


# For each claim: a table, rows of it, and the values with which the verdict turns.
TURNS: dict[str, tuple[str, pl.Expr, dict[str, pl.Expr | float]]] = {
    "dualq-equal-throughput": ("flows", at("grid"), {RATE: c("count")}),
    "dualq-rtts-explain-rates": ("flows", at("grid", aqm="DualPI2", flow="l4s"), {RATE: c(RATE) * 3}),
    "dualq-steep-is-nearer": ("flows", at("grid", aqm="Curvy RED, steep", flow="l4s"), {RATE: c(RATE) * 3}),
    "dualq-prague-equal": ("flows", at("grid", aqm="DualPI2", cc="prague"), {RATE: c(RATE) * 3}),
    "coupling-law": ("links", at("grid", queue="C"), {"dropped_packets": c("dropped_packets") * 4}),
    "coupling-native": ("flows", at("grid", aqm="DualPI2", flow="l4s"), {"ce_pct": c("ce_pct") * 2}),
    "fq-equal-throughput": ("flows", at("grid", aqm="FQ-CoDel", flow="l4s"), {RATE: c(RATE) * 1.2}),
    "fq-conflicts": ("series", at("grid", aqm="FQ-CoDel", queue="all"), {"old_flows": 0.0, "new_flows": 1.0}),
    "shared-no-equality": ("flows", at("grid", aqm="PIE", flow="l4s"), {RATE: c(RATE) / 3}),
    "shared-40-times": (
        "flows",
        at("grid") & c("aqm").is_in(["PIE", "RED"]),
        {RATE: c("count") * pl.when(LOW).then(40).otherwise(1)},
    ),
    "shared-law": ("flows", at("grid", aqm="RED", flow="l4s"), {RATE: c(RATE) * 3}),
    "pie-instable": ("series", at("grid", aqm="PIE", flow="l4s"), {RATE: c("time_s") % 2}),
    "pie-instable-with-many": ("series", at("grid", aqm="PIE", flow="l4s"), {RATE: 5.0}),
    "pie-drops-above-10": ("series", at("grid", aqm="PIE", flow="l4s"), {"dropped_packets": 5.0}),
    "pie-dctcp-strange": ("series", at("grid", aqm="PIE", queue="all"), {"p_c": c("p_c") * 2}),
    "pie-signals-half": ("series", at("grid", aqm="PIE", queue="all"), {"p_c": c("p_c") / 2}),
    "qsize-dualq-dctcp": ("flows", at("queues", aqm="DualPI2", flow="l4s"), {P99: 10.0}),
    "qsize-dualq-dctcp-curvy": ("flows", at("queues", aqm="Curvy RED", flow="l4s"), {MEAN: 10.0}),
    "qsize-dualq-classic": ("flows", at("queues", aqm="DualPI2", flow="classic"), {MEAN: 30.0}),
    "qsize-fq-target": ("flows", at("queues", aqm="FQ-CoDel"), {MEAN: 4.0}),
    "qsize-red-max": ("flows", at("queues", aqm="RED"), {MEAN: 5.0}),
    "qsize-pie-target": ("flows", at("queues", aqm="PIE"), {MEAN: 20.0}),
    "qsize-pie-above-target": ("flows", at("queues", aqm="PIE"), {MEAN: 20.0}),
    "web-ecn-longest": (
        "transfers",
        at("web", aqm="PIE", flow="low"),
        {"completion_ms": pl.min_horizontal("completion_ms", 300.0)},
    ),
    "web-ecn-after-handshake": ("transfers", at("web", aqm="PIE", flow="low"), {"retransmits": 1}),
    "web-burst-allowance": ("series", at("web", aqm="PIE", queue="all"), {"burst_allowance_ms": 10.0}),
    "web-syn": ("transfers", at("web", aqm="PIE", flow="low"), {"response_ms": c("completion_ms")}),
    "web-ecn-small": ("transfers", at("web", aqm="PIE", flow="low"), {"completion_ms": c("completion_ms") * 1.5}),
    "web-ecn-small-none": ("transfers", at("web", aqm="PIE", flow="low"), {"completion_ms": c("completion_ms") * 1.5}),
    "web-dualq-latency": ("transfers", at("web", sender="DCTCP"), {"completion_ms": c("completion_ms") * 2}),
    "web-dualq-large": (
        "transfers",
        at("web", sender="DCTCP", flow="low"),
        {"completion_ms": c("completion_ms") / 2},
    ),
    "web-fq-scheduled": ("transfers", at("web", aqm="FQ-CoDel"), {"completion_ms": c("completion_ms") * 2}),
    "web-fq-burst": ("transfers", at("web", aqm="FQ-CoDel"), {"completion_ms": c("completion_ms") * 3}),
    "web-l4s-handshake": ("transfers", at("web", flow="low"), {"response_ms": c("completion_ms") - 20}),
    "qsize-web-pie-20": ("flows", at("web", aqm="PIE"), {"sojourn_ms_p50": 30.0}),
    "qsize-web-ecn-longer": ("flows", at("web", aqm="PIE", flow="long-low"), {MEAN: c(MEAN) * 1.1}),
    "qsize-web-ecn-alike": ("flows", at("web", aqm="PIE", flow="long-low"), {MEAN: c(MEAN) * 1.1}),
    "qsize-web-dualq": ("flows", at("web", aqm="DualPI2", flow="low"), {P99: 20.0}),
    "qsize-web-fq": ("flows", at("web", aqm="FQ-CoDel"), {MEAN: 1.0}),
    "dctcp-trouble": ("flows", at("grid", aqm="PIE", flow="classic"), {RATE: c(RATE) * 3}),
    "conclusion-no-loss": ("flows", at("grid", aqm="DualPI2", cc="dctcp"), {"drop_pct": 1.0}),
    "conclusion-like-fq": ("flows", at("queues", aqm="DualPI2"), {RATE: 20.0}),
    "conclusion-like-fq-delay": ("flows", at("queues", aqm="DualPI2", flow="l4s"), {MEAN: 10.0}),
    "law-reno": ("flows", at("law", sender="Reno"), {RATE: c(RATE) * 1.5}),
    "law-cubic": ("flows", at("law", sender="CUBIC"), {RATE: c(RATE) * 1.5}),
    "law-cubic-friendly": ("flows", at("law", sender="CUBIC"), {RATE: c(RATE) * 2}),
    "law-dctcp": ("flows", at("law", sender="DCTCP"), {RATE: c(RATE) * 2}),
    "law-dctcp-linux": ("flows", at("law", sender="Prague"), {RATE: c(RATE) * 1.5}),
    "law-dctcp-step": ("flows", at("step"), {"ce_pct": 100 * (2 / WINDOW).sqrt()}),
    "law-dctcp-step-between": ("flows", at("step"), {"ce_pct": c("ce_pct") / 5}),
    "signals-reno-45": ("series", at("sawtooth"), {"time_s": c("time_s") * 1.5}),
    "signals-reno-5600": ("series", at("sawtooth-1g"), {"time_s": c("time_s") * 1.5}),
    "signals-reno-worse": ("series", at("sawtooth"), {"time_s": c("time_s") * c("mbps")}),
    "signals-cubic-worse": ("flows", at("law", sender="CUBIC"), {RATE: 100 / c("percent")}),
    "signals-dctcp-2": ("flows", at("grid", cc="dctcp"), {"ce_pct": c("ce_pct") * 2}),
    "signals-dctcp-constant": ("flows", at("grid", cc="dctcp"), {"ce_pct": 20.0}),
    "twice-linear": (
        "flows",
        at("grid", flow="classic"),
        {"drop_pct": 100 * (12.112 * c("count") / c(RATE) / c("rtt_ms_mean")) ** 2},
    ),
    "twice-nearly-linear": ("flows", at("grid", flow="classic"), {"drop_pct": c("drop_pct") ** 2}),
    "dequeue-reno-dctcp": ("series", at("alone", sender="Reno"), {"sojourn_ms": 1.0}),
    "high-throughput-large-queue": ("links", at("alone", sender="DCTCP"), {"utilisation": 0.5}),
    "video-tcp": ("flows", at("video", flow="view"), {"view_ms_p50": 50.0}),
    "video-dctcp": ("flows", at("video", flow="view"), {"view_ms_p99": 20.0}),
    "video-tcp-in-dualq": ("flows", at("video", flow="view"), {"view_ms_p50": 50.0}),
    "video-panorama": ("flows", at("video", flow="view"), {"view_ms_p99": 50.0}),
}

Tables = dict[str, pl.DataFrame]


def verdicts(tables: Tables, *names: str) -> dict[str, str]:
    """The verdicts on these claims, or on all."""
    return studies.verdicts(EXPERIMENTS, tables, *names)


@pytest.fixture(scope="module")
def tables() -> Tables:
    found = l4slab.run(FILES, subset=True)
    assert not found.failures
    return {"flows": found.flows, "links": found.links, "series": found.series, "transfers": found.transfers}


def test_ids_are_unique_across_the_files() -> None:
    ids = [item.id for e in EXPERIMENTS for item in (*e.tables(Claim), *e.tables(Published), *e.tables(Figure))]
    assert len(ids) == len(set(ids))


def test_every_statement_says_where_it_stands() -> None:
    assert all(claim.says and (claim.source or claim.kind == "found") for claim in CLAIMS.values())


def test_every_claim_has_a_case_in_which_it_turns() -> None:
    assert set(TURNS) == set(CLAIMS)


def test_what_is_found_stands_beside_what_it_contradicts() -> None:
    order = list(CLAIMS)
    for statement, finding in NOT_FOUND.items():
        assert order.index(finding) - order.index(statement) == 1
        assert CLAIMS[statement].listed == "statement"
        assert CLAIMS[finding].beside == statement


@pytest.mark.slow
def test_each_verdict_is_as_documented(tables: Tables) -> None:
    assert {name for name, verdict in verdicts(tables).items() if verdict != "holds"} == set(NOT_FOUND)
    assert all(verdict == "fails" for name, verdict in verdicts(tables, *NOT_FOUND).items() if name in NOT_FOUND)


@pytest.mark.slow
@pytest.mark.parametrize("name", TURNS)
def test_a_claim_turns(name: str, tables: Tables) -> None:
    table, where, values = TURNS[name]
    rows = tables[table]
    assert rows.filter(where).height
    new = [
        pl.when(where).then(value if isinstance(value, pl.Expr) else pl.lit(value)).otherwise(c(column)).alias(column)
        for column, value in values.items()
    ]
    turned = verdicts(tables | {table: rows.with_columns(new)}, name)[name]
    assert turned == ("holds" if name in NOT_FOUND else "fails")


@pytest.mark.slow
def test_no_claim_holds_about_nothing(tables: Tables) -> None:
    nothing = {name: table.clear() for name, table in tables.items()}
    assert "holds" not in verdicts(nothing).values()
