"""The claims of the overload study: sound on numbers as the page has them, and each can come out the other way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import l4slab
import polars as pl
import pytest
from l4slab import claims, metrics, published, spec
from l4slab.report import results as folders
from l4slab.studies import study

EXPERIMENTS = [spec.load(file) for file in study("overload")]
CLAIMS = {claim.id: claim for experiment in EXPERIMENTS for claim in experiment.claims}
LOADS = (50, 70, 100, 140, 200)
AQMS = ("PIE", "DualPI2", "CoDel")
LABELS = metrics.LABELS | {"aqm": pl.String, "udp": pl.String, "load_mbps": pl.Int64}

# UDP's share, drops and delay in the page's bars (%, %, ms): by AQM and label, at the five loads.
SHARE = {
    ("PIE", "ECT"): (51.4, 72, 92.6, 99.0, 99.92),
    ("PIE", "Not-ECT"): (51.4, 71, 93.1, 99.0, 99.92),
    ("DualPI2", "ECT"): (51.4, 72, 95.7, 98.7, 99.87),
    ("DualPI2", "Not-ECT"): (51.4, 71, 90.0, 98.7, 99.87),
    ("CoDel", "ECT"): (51.4, 72, 99.92, 99.99, 100),
    ("CoDel", "Not-ECT"): (50.6, 71, 94.8, 99.7, 99.89),
}
DELAY = {
    ("CoDel", "ECT"): (9.0, 10.9, 1170.0, 863.4, 599.6),
    ("CoDel", "Not-ECT"): (9.0, 10.2, 34.4, 719.5, 564.2),
}


def page(changes: dict[tuple[str, str, int, str], dict[str, float]] | None = None) -> dict[str, pl.DataFrame]:
    """`flows` and `links` of loads.toml as on the page; `changes` are other values of flows: (aqm, udp, load, flow)."""
    flows: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []
    for (aqm, udp), shares in SHARE.items():
        for number, (load, share) in enumerate(zip(LOADS, shares, strict=True)):
            run = f"{aqm}{udp}{load}"
            label = {"experiment": "loads", "run": run, "trial": 1, "aqm": aqm, "udp": udp, "load_mbps": load}
            sent = load * 1512 / 1470
            full = aqm == "CoDel" and load >= (100 if udp == "ECT" else 140)
            dropped = max(0.0, 100 * (1 - share / sent)) if udp == "Not-ECT" or load >= 100 else 0.0
            delay = DELAY.get((aqm, udp), (15.0,) * 5)[number]
            low = aqm == "DualPI2" and udp == "ECT" and load < 100
            marked = 100 if full or (aqm == "DualPI2" and load >= 100) else 1.0
            rows = {
                "udp": {
                    "pct": share,
                    "delay": 0.2 if low else delay,
                    "drop": dropped,
                    "mark": marked if udp == "ECT" else 0,
                },
                "not-ect": {
                    "pct": (100 - share) * (0.02 if full else 0.5),
                    "delay": 1.0 if aqm == "DualPI2" and udp == "ECT" and load >= 100 else delay,
                    "drop": max(dropped, 1.0),
                    "mark": 0,
                },
                "ect": {
                    "pct": (100 - share) * (0.5 if not full else 0.98),
                    "delay": (0.2 if load < 100 or udp == "Not-ECT" else 15.0) if aqm == "DualPI2" else delay,
                    "drop": dropped if load >= 140 else 0.0,
                    "mark": 20 * max(dropped, 1.0) ** 0.5 if aqm == "DualPI2" and load < 100 else marked,
                },
            }
            if aqm == "DualPI2" and udp == "Not-ECT" and load <= 100:
                rows["ect"]["mark"] = 20 * dropped**0.5
            overflow = round(dropped * 1e4) if full else 0
            for flow, value in rows.items():
                value = value | (changes or {}).get((aqm, udp, load, flow), {})
                left = round((100 - value["drop"]) * 1e4)
                flows.append(
                    label
                    | {"flow": flow, "cc": "cubic", "count": 5, "rate_mbps": value["pct"], "share": value["pct"] / 100}
                    | {"sojourn_ms_mean": value["delay"], "sojourn_ms_p99": 1.4 * value["delay"]}
                    | {"delivered_packets": left, "dropped_packets": round(value["drop"] * 1e4)}
                    | {"ce_packets": round(value["mark"] * left / 100), "sent_packets": 1_000_000}
                )
            links.append(
                label
                | {"link": "bottleneck", "queue": "all", "utilisation": 1.0, "sojourn_ms_mean": delay}
                | {"dropped_packets": overflow or 1000, "dropped_overflow_packets": overflow}
                | {"backlog_packets_max": 10240 if full else 150}
            )
    extra = dict.fromkeys(("delivered_packets", "dropped_packets", "ce_packets", "dropped_overflow_packets"), pl.Int64)
    schema = {"flows": LABELS | metrics.FLOWS | extra, "links": LABELS | metrics.LINKS | extra}
    return {
        "flows": pl.DataFrame(flows, schema=schema["flows"], strict=False),
        "links": pl.DataFrame(links, schema=schema["links"], strict=False),
    }


CHANGES = {
    "no-significant-benefit": {("DualPI2", "Not-ECT", 70, "udp"): {"pct": 45}},
    "no-benefit-under-overload": {("PIE", "Not-ECT", 140, "udp"): {"delay": 20}},
    "codel-large-advantage": {("CoDel", "ECT", 140, "ect"): {"pct": 0.2}},
    "codel-not-ect-starves": {("CoDel", "ECT", 100, "not-ect"): {"pct": 0.5}},
    "drop-point-matters": {("CoDel", "ECT", 200, "udp"): {"delay": 100}},
    "fig1-very-similar": {("PIE", "ECT", 140, "not-ect"): {"pct": 10}},
    "fig2-codel-ect-takes-all": {("CoDel", "ECT", 100, "not-ect"): {"pct": 1}},
    "fig2-uncontrolled": {("CoDel", "ECT", 140, "udp"): {"mark": 10}},
    "dualpi2-no-latency-bonus": {("DualPI2", "ECT", 140, "udp"): {"delay": 1}},
    "dualpi2-l-queue-grows": {("DualPI2", "ECT", 200, "ect"): {"delay": 0.5}},
    "dualpi2-picks-up-the-larger": {("DualPI2", "ECT", 200, "udp"): {"delay": 30}},
    "dualpi2-same-drop-and-delay": {("DualPI2", "ECT", 200, "udp"): {"drop": 45}},
    "dualpi2-drops-both-queues": {("DualPI2", "ECT", 140, "not-ect"): {"drop": 1}},
    "dualpi2-classic-empty": {("DualPI2", "ECT", 140, "not-ect"): {"delay": 15}},
    "below-capacity-full-share": {("CoDel", "Not-ECT", 70, "udp"): {"pct": 50}},
    "codel-striking": {("CoDel", "Not-ECT", 200, "udp"): {"delay": 40}},
    "fig8-coupling": {("DualPI2", "Not-ECT", 100, "ect"): {"mark": 20}},
    "fig8-below-threshold-only-marks": {("PIE", "ECT", 70, "ect"): {"drop": 1}},
    "fig8-excess-is-dropped": {("PIE", "ECT", 200, "udp"): {"drop": 40}},
}


def verdicts(tables: dict[str, pl.DataFrame]) -> dict[str, str]:
    names = {"time_s": pl.Float64, "dropped_overflow_packets": pl.Float64, "dropped_packets": pl.Float64}
    names |= dict.fromkeys(("sojourn_ms_min", "sojourn_ms_max", "p_prime", "sent_packets"), pl.Float64)
    tables = tables | {"series": pl.DataFrame(schema=LABELS | {"load_pct": pl.Int64} | metrics.SERIES | names)}
    found = claims.evaluate(EXPERIMENTS, {name: table.to_arrow() for name, table in tables.items()})
    return dict(found.select("id", "verdict").iter_rows())


def test_ids_are_unique_across_the_files() -> None:
    ids = [item.id for e in EXPERIMENTS for item in (*e.claims, *e.published, *e.figures)]
    assert len(ids) == len(set(ids))


def test_every_statement_says_where_it_stands() -> None:
    assert all(claim.says and claim.source for claim in CLAIMS.values())


@pytest.mark.parametrize("name", CHANGES)
def test_a_claim_holds_on_the_page_and_turns(name: str) -> None:
    assert verdicts(page())[name] == "holds"
    assert verdicts(page(CHANGES[name]))[name] == "fails"


def test_no_claim_holds_about_nothing() -> None:
    nothing = {name: table.clear() for name, table in page().items()}
    assert not {name for name, verdict in verdicts(nothing).items() if verdict not in ("undecided", "fails")}


@pytest.mark.slow
def test_the_study(tmp_path: Path) -> None:
    results = l4slab.run(study("overload"), out=tmp_path / "r")
    assert results.failures == []
    assert claims.unexpected(results.claims).is_empty()
    assert len([figure for e in folders.load(tmp_path / "r").files for figure in e.figures]) == 8
    if published.reference_folder() is None:
        pytest.skip("the studies' reference files are not here")
    judged = results.published.filter(pl.col("within").is_not_null())
    parts = judged.group_by("id").agg(pl.col("within").mean())
    within = dict(parts.iter_rows())
    assert within["rate-shares"] > 0.9
    assert within["mean-delays"] > 0.85
    assert within["cycle-period"] == 1
