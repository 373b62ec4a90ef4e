"""The claims of the deployment study: sound on numbers as the deck and the model have them, and each can turn."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import l4slab
import polars as pl
import pytest
from l4slab import experimentfile
from l4slab.base import metrics
from l4slab.base.packaged import study
from l4slab.report import results as folders
from l4slab.results import claims
from l4slab.results.figures import Figure
from l4slab.sweep import Where, expand

from . import studies

EXPERIMENTS = [experimentfile.load(file) for file in study("deployment")]
CLAIMS = {claim.id: claim for experiment in EXPERIMENTS for claim in experiment.tables(claims.Claim)}
NAMES = ("aqm", "fallback", "l4s_receiver", "legacy_receiver", "sender", "ack_bunches", "bottleneck", "mix")
FACTORS = dict.fromkeys(("capacity_mbps", "base_rtt_ms", "ecn_threshold_ms"), pl.Int64) | {"n_bdp": pl.Float64}
SCHEMA = metrics.LABELS | dict.fromkeys(NAMES, pl.String) | FACTORS | metrics.TABLES["flows"]

# Statements of the deck that the model contradicts, and what is found instead.
NOT_FOUND = {
    "hundred-percent-utilisation": "very-high-utilisation",
    "isolation-equal": "isolation-equal-at-5-ms",
    "no-latency-benefit-unless-full": "latency-benefit-is-not-cubics-loss",
    "fallback-addresses-domination": "fallback-all-or-nothing",
}
# By the deck's own figures it is the other way round.
ONLY_HERE = {"fallback-addresses-domination", "fallback-all-or-nothing"}
SHARED, FAIR = ["single_queue_FQ", "CoDel"], ["FQ", "FQ_CoDel"]
RECEIVERS = [(a, b) for a in ("AccECN", "classic ECN", "no ECN") for b in ("classic ECN", "no ECN")]


def cell(aqm: str, rtt: int, step: int, n: float, fallback: str, l4s: str, legacy: str) -> tuple[float, float, float]:
    """Prague's share, its delay and CUBIC's in ms, about as on the slides."""
    full = 10.0 * n
    if aqm == "FIFO":
        return (0.17 if (rtt, n) == (5, 0.5) else {0.5: 0.4, 2: 0.5, 5: 0.53, 10: 0.44}[n]), full, full
    if aqm == "DualPI2":
        return ({5: 0.3, 10: 0.46, 50: 0.58}[rtt], 0.3, step + 0.2) if l4s == "AccECN" else (0.5, step, step)
    if l4s != "AccECN" and legacy == "no ECN":
        return 0.48, full, full
    if aqm in SHARED:
        if l4s != "AccECN" or legacy == "no ECN":
            return (0.99 if legacy != "no ECN" else 0.003), full, full
        if fallback == "on" and step == 5:
            return 0.52, 3, 3.5
        return (0.56 if n * rtt == step else 0.93), 0.75 * step, 3.2 if step == 1 else 7
    if legacy == "no ECN":
        return 0.47, 0.9 * step, full + 2
    if l4s != "AccECN":
        return 0.5, full, 0.4 * step
    return 0.68 if step == 1 else 0.51, 0.9 * step, 0.6 * step


def single() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for aqm in ["FIFO", *SHARED, *FAIR, "DualPI2"]:
        for step in (1, 5)[: 1 if aqm == "FIFO" else 2]:
            for n in (0.5, 2, 5, 10)[: 1 if aqm == "DualPI2" else 4]:
                for rtt in (5, 10, 50):
                    if aqm not in ("FIFO", "DualPI2") and n * rtt < step:
                        continue
                    for fallback in ("off", "on")[: 2 if rtt == 10 else 1]:
                        for l4s, legacy in RECEIVERS[: 6 if (rtt, fallback) == (10, "off") else 1]:
                            share, q_p, q_c = cell(aqm, rtt, step, n, fallback, l4s, legacy)
                            run = f"{aqm}{step}{n}{rtt}{fallback}{l4s}{legacy}"
                            label = {"experiment": "single", "run": run, "trial": 1, "aqm": aqm, "fallback": fallback}
                            label |= {"l4s_receiver": l4s, "legacy_receiver": legacy, "capacity_mbps": 100}
                            label |= {"base_rtt_ms": rtt, "ecn_threshold_ms": None if aqm == "FIFO" else step}
                            label |= {"n_bdp": None if aqm == "DualPI2" else n}
                            wait = {"sojourn_ms_mean": 0.9 * q_p}
                            for flow, part, delay in (("prague", share, q_p), ("cubic", 1 - share, q_c)):
                                value = {"share": part, "goodput_mbps": 95 * part, "rtt_ms_mean": rtt + delay}
                                rows.append(label | wait | value | {"flow": flow, "cc": flow})
    return rows


def others() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    alone = {"CUBIC, no ECN": (94.9, 38), "CUBIC, ECN at 20 ms": (94.9, 11.5), "CUBIC, ECN at 1 ms": (64.5, 0.26)}
    alone |= {"CUBIC, ECN at 1 ms, ACKs every 0.6 ms": (39.8, 0.3), "CUBIC, ECN at 1 ms, ACKs every 1 ms": (7.9, 0.4)}
    alone |= {"Prague, AccECN at 1 ms": (91.9, 0.54)}
    for sender, (rate, delay) in alone.items():
        value = {"flow": "alone", "goodput_mbps": rate, "sojourn_ms_mean": delay}
        rows.append({"experiment": "introduction", "run": sender, "trial": 1, "sender": sender} | value)
    for aqm in ("single_queue_FQ", "DualPI2"):
        for l4s in ("AccECN", "classic ECN", "no ECN"):
            for legacy in ("AccECN", "classic ECN", "no ECN"):
                modes = {"prague": "accecn" if l4s == "AccECN" else "off"}
                modes |= {"cubic": "off" if legacy == "no ECN" else "classic"}
                label = {"experiment": "receivers", "run": f"{aqm}{l4s}{legacy}", "trial": 1, "aqm": aqm}
                label |= {"l4s_receiver": l4s, "legacy_receiver": legacy}
                share = 0.4 + 0.2 * (l4s == "AccECN") + 0.1 * (legacy == "no ECN")
                rows += [label | {"flow": flow, "ecn_mode": mode, "share": share} for flow, mode in modes.items()]
    for aqm in ("single_queue_FQ", *FAIR, "DualPI2"):
        for rtt in (10, 50):
            for bunches in ("none", "0.3 ms", "0.6 ms"):
                share = {"DualPI2": 0.5, "single_queue_FQ": 0.95}.get(aqm, 0.65 if bunches == "none" else 0.72)
                label = {"experiment": "bursts", "run": f"{aqm}{rtt}{bunches}", "trial": 1, "aqm": aqm}
                label |= {"base_rtt_ms": rtt, "ack_bunches": bunches}
                rows.append(label | {"flow": "prague", "cc": "prague", "share": share})
    for bottleneck in ("pairs", "fours", "root", "all"):
        for aqm in ("FIFO", "CoDel", "FQ_CoDel", "DualPI2", "DualPI2 at the root, FIFO below"):
            if "root" in aqm and bottleneck != "all":
                continue
            for mix in ("one of each in a pair", "pairs of a kind"):
                meet = mix != "pairs of a kind" or bottleneck in ("fours", "root")
                share = 0.89 if aqm == "CoDel" and meet else 0.5 if aqm != "DualPI2" else 0.42
                delays = {"CoDel": (3.9, 4.0), "FQ_CoDel": (3.4, 2.0), "DualPI2": (0.5, 5.2)}.get(aqm, (14.4, 13.9))
                label = {"experiment": "tree", "run": f"{bottleneck}{aqm}{mix}", "trial": 1, "aqm": aqm}
                label |= {"bottleneck": bottleneck, "mix": mix}
                for cc, part, delay in (("prague", share, delays[0]), ("cubic", 1 - share, delays[1])):
                    value = {"goodput_mbps": 19 * part, "sojourn_ms_mean": delay}
                    rows += [label | value | {"flow": f"{cc}{i}", "cc": cc} for i in range(6)]
    return rows


@cache
def deck() -> pl.DataFrame:
    return pl.DataFrame(single() + others(), schema=SCHEMA, strict=False)


def changed(where: dict[str, Any], values: dict[str, Any]) -> pl.DataFrame:
    """The deck's numbers with other values in the rows where columns are so."""
    hit = pl.all_horizontal(
        pl.col(name).is_in(level if isinstance(level, list) else [level]) for name, level in where.items()
    )
    flows = deck()
    assert flows.filter(hit).height > 0
    return flows.with_columns(
        pl.when(hit).then(pl.lit(value)).otherwise(pl.col(name)).alias(name) for name, value in values.items()
    )


def verdicts(flows: pl.DataFrame, *names: str) -> dict[str, str]:
    """The verdicts on these claims, or on all."""
    empty = {
        name: pl.DataFrame(schema=metrics.LABELS | dict.fromkeys(NAMES, pl.String) | FACTORS | metrics.TABLES[name])
        for name in ("links", "series")
    }
    tables = {"flows": flows} | empty
    return studies.verdicts(EXPERIMENTS, tables, *names)


PRAGUE, CUBIC = {"experiment": "single", "flow": "prague"}, {"experiment": "single", "flow": "cubic"}
TREE = {"experiment": "tree"}
TURNS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "classic-ecn-saves-delay": ({"sender": "CUBIC, ECN at 20 ms"}, {"sojourn_ms_mean": 30.0}),
    "low-threshold-underutilises": ({"sender": "CUBIC, ECN at 1 ms"}, {"goodput_mbps": 90.0}),
    "bunched-acks-underutilise": ({"sender": "CUBIC, ECN at 1 ms, ACKs every 1 ms"}, {"goodput_mbps": 50.0}),
    "hundred-percent-utilisation": ({"sender": "Prague, AccECN at 1 ms"}, {"goodput_mbps": 95.5}),
    "very-high-utilisation": ({"sender": "Prague, AccECN at 1 ms"}, {"sojourn_ms_mean": 3.0}),
    "full-deployment-range": (PRAGUE | {"aqm": "DualPI2", "base_rtt_ms": 50}, {"share": 0.9}),
    "fifo-legacy-better": (PRAGUE | {"aqm": "FIFO", "n_bdp": 5.0}, {"share": 0.6}),
    "shared-queue-dominates": (PRAGUE | {"aqm": SHARED, "ecn_threshold_ms": 5}, {"share": 0.5}),
    "isolation-equal": (PRAGUE | {"aqm": [*FAIR, "DualPI2"]}, {"share": 0.5}),
    "isolation-equal-at-5-ms": (PRAGUE | {"aqm": FAIR, "ecn_threshold_ms": 5}, {"share": 0.8}),
    "fallback-addresses-domination": (PRAGUE | {"aqm": SHARED, "fallback": "on"}, {"share": 0.9}),
    "fallback-all-or-nothing": (PRAGUE | {"aqm": "CoDel", "fallback": "on", "n_bdp": 5.0}, {"share": 0.95}),
    "fallback-low-threshold": (PRAGUE | {"aqm": SHARED, "fallback": "on"}, {"share": 0.5}),
    "fallback-spares-dualpi2": (PRAGUE | {"aqm": "DualPI2", "fallback": "on"}, {"share": 0.07}),
    "no-latency-benefit-unless-full": (CUBIC | {"aqm": SHARED, "base_rtt_ms": 10}, {"rtt_ms_mean": 11.0}),
    "latency-benefit-is-not-cubics-loss": (CUBIC | {"aqm": SHARED}, {"sojourn_ms_mean": 9.0}),
    "latency-needs-accecn": (CUBIC | {"aqm": "DualPI2", "l4s_receiver": "no ECN"}, {"rtt_ms_mean": 30.0}),
    "latency-needs-dualq": (CUBIC | {"aqm": "FQ", "ecn_threshold_ms": 1}, {"goodput_mbps": 47.0}),
    "latency-needs-no-ecn-beside-fq": (PRAGUE | {"aqm": FAIR, "legacy_receiver": "no ECN"}, {"share": 0.9}),
    "not-ect-dominates-shared-queue": (PRAGUE | {"aqm": SHARED, "l4s_receiver": "no ECN"}, {"share": 0.5}),
    "receiver-accecn-is-classic": ({"experiment": "receivers", "legacy_receiver": "AccECN"}, {"share": 0.9}),
    "legacy-better-in-some": (PRAGUE | {"aqm": ["FIFO", "DualPI2"]}, {"share": 0.5}),
    "l4s-harms-in-many": (CUBIC | {"aqm": SHARED}, {"goodput_mbps": 40.0}),
    "bursts-explain-fair-queues": ({"aqm": "FQ", "ack_bunches": "0.6 ms"}, {"share": 0.66}),
    "tree-shared-queue-dominates": (TREE | {"aqm": "CoDel", "cc": "cubic"}, {"goodput_mbps": 9.5}),
    "tree-first-bottleneck-decides": (TREE | {"mix": "pairs of a kind", "cc": "cubic"}, {"goodput_mbps": 2.0}),
    "tree-isolation-equal": (TREE | {"aqm": "DualPI2", "cc": "prague"}, {"goodput_mbps": 4.0}),
    "tree-upgrade-the-bottleneck": (TREE | {"bottleneck": "all", "cc": "prague"}, {"sojourn_ms_mean": 0.5}),
    "tree-delay-by-level": (TREE | {"aqm": "DualPI2", "bottleneck": "fours"}, {"sojourn_ms_mean": 5.0}),
}


def test_each_verdict_is_as_stated() -> None:
    assert verdicts(deck()) == {
        name: "fails" if (name in NOT_FOUND) != (name in ONLY_HERE) else "holds" for name in CLAIMS
    }


@pytest.mark.parametrize("name", TURNS)
def test_a_claim_turns(name: str) -> None:
    failed = (name in NOT_FOUND) != (name in ONLY_HERE)
    assert verdicts(changed(*TURNS[name]), name)[name] == ("holds" if failed else "fails")


def test_every_claim_has_a_case_in_which_it_turns() -> None:
    assert set(CLAIMS) == set(TURNS)
    assert all(claim.says and (claim.source or claim.kind == "found") for claim in CLAIMS.values())


def test_what_is_found_stands_beside_what_it_contradicts() -> None:
    order = list(CLAIMS)
    for statement, finding in NOT_FOUND.items():
        assert order.index(finding) - order.index(statement) == 1


def test_no_claim_holds_about_nothing() -> None:
    assert "holds" not in verdicts(deck().clear()).values()


@pytest.mark.slow
def test_the_factorial_is_that_of_the_slide() -> None:
    """Table II with the exclusions of its slide: FIFO without a threshold, and no threshold above the buffer."""
    single = next(experiment for experiment in EXPERIMENTS if experiment.name == "single")
    sizes = [(n, rtt, step) for n in (0.5, 2, 5, 10) for rtt in (5, 10, 50, 100) for step in (1, 5, 20)]
    kept = [size for size in sizes if size[0] * size[1] >= size[2]]
    fallback_and_receivers = 2 * 3 * 2
    fifo, dualpi2 = 16, len({(rtt, step) for _, rtt, step in kept})
    assert len(expand(single, "sim").runs) == 5 * 2 * fallback_and_receivers * (4 * len(kept) + fifo + dualpi2)


@pytest.mark.slow
def test_the_default_is_every_published_cell() -> None:
    single = next(experiment for experiment in EXPERIMENTS if experiment.name == "single")
    assert single.subset is not None
    todo = expand(single, "sim", Where(single.subset, "subset")).todo
    maps = [r.factors for r in todo if r.factors["l4s_receiver"] == "AccECN" and r.factors["fallback"] == "off"]
    maps = [f for f in maps if f["legacy_receiver"] == "classic ECN" and f["capacity_mbps"] == 100]
    # FIFO 12; 0.5 BDP at 5 ms ends below 5 ms, hence 23 of 24 in the four queues; DualPI2 6 whatever the buffer.
    assert len(maps) == 5 * (12 + 4 * 23 + 6)


@pytest.mark.slow
def test_the_study(tmp_path: Path, readme: ModuleType, in_readme: Any) -> None:
    results = l4slab.run(study("deployment"), out=tmp_path / "r", subset=True)
    assert results.failures == []
    assert set(claims.unexpected(results.claims)["id"]) == set(NOT_FOUND)
    assert claims.changed(results.claims).is_empty()
    assert readme.counts(results.claims) == in_readme("deployment")
    assert len([figure for e in folders.load(tmp_path / "r").files for figure in e.tables(Figure)]) == 12
    distances = results.published.with_columns(off=pl.col("distance").abs())
    shares = distances.filter(pl.col("id") == "prague-share")
    assert shares.height == 167
    assert shares["off"].median() < 0.04
    assert shares["off"].quantile(0.9) < 0.10
    assert "unexplained" not in "".join(distances["quantity"])
    # The bar of 0.10 is missed: see docs/deployment.md. What is reached does not get lost.
    delays = distances.filter(pl.col("id") == "cubic-relative-delay")
    assert delays["off"].median() < 0.14
