"""The claims of the overload study: sound on numbers as the page and the model have them, and each can turn."""

from __future__ import annotations

from collections.abc import Callable
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
from l4slab.results.claims import Claim
from l4slab.results.figures import Figure
from l4slab.results.published import Published

from . import studies

EXPERIMENTS = [experimentfile.load(file) for file in study("overload")]
CLAIMS = {claim.id: claim for experiment in EXPERIMENTS for claim in experiment.tables(claims.Claim)}
LOADS = (50, 70, 100, 140, 200)
AQMS = ("PIE", "DualPI2", "CoDel")
FACTORS = {"load_mbps": pl.Int64, "load_pct": pl.Int64, "protection": pl.Int64}
LABELS = metrics.LABELS | dict.fromkeys(("aqm", "udp", "responsive"), pl.String) | FACTORS

# Statements of the page that the model contradicts, and what is found instead.
NOT_FOUND = {
    "no-benefits-at-all": "no-benefit-under-overload",
    "dualpi2-same-drop-and-delay": "dualpi2-same-when-continuous",
    "fig5-restarts-at-100ms": "fig5-restarts-at-1ms",
    "fig5-right-probability-after-100s": "fig5-right-probability-after-80s",
    "continuous-above-125-in-pi2": "dualpi2-begins-at-133",
    "back-and-forth-below-110-in-pie": "pie-begins-at-105.9",
    "fq-codel-large-advantage": "fq-codel-isolates",
}

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
            if aqm == "DualPI2" and udp == "ECT" and load == 100:
                rows["not-ect"]["drop"] = 25.27
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
    return {"flows": frame("flows", flows), "links": frame("links", links)}


EXTRA: dict[str, dict[str, Any]] = {
    "flows": dict.fromkeys(("delivered_packets", "dropped_packets", "ce_packets"), pl.Int64),
    "links": dict.fromkeys(("dropped_packets", "dropped_overflow_packets"), pl.Int64),
    "series": dict.fromkeys(
        ("dropped_packets", "dropped_overflow_packets", "sent_packets", "sojourn_ms_min", "sojourn_ms_max", "p_prime"),
        pl.Float64,
    ),
}


def frame(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=LABELS | metrics.TABLES[table] | EXTRA[table], strict=False)


def loads_series() -> list[dict[str, Any]]:
    """Twenty seconds of each cell of loads.toml; at 100 Mb/s of ECT(1) DualPI2 goes back and forth."""
    rows: list[dict[str, Any]] = []
    for (aqm, udp), shares in SHARE.items():
        for load, share in zip(LOADS, shares, strict=True):
            label = {"experiment": "loads", "run": f"{aqm}{udp}{load}", "trial": 1}
            label |= {"aqm": aqm, "udp": udp, "load_mbps": load}
            p = (
                0.01
                if load < 100
                else (0.25 if aqm == "DualPI2" else 0.1)
                if load == 100
                else 1 - share / (load * 1512 / 1470)
            )
            full = aqm == "CoDel" and load >= (100 if udp == "ECT" else 140)
            for second in range(51, 71):
                label["time_s"] = float(second)
                inside = {"p_c": p, "p_prime": 0.5 + 0.05 * (-1) ** second, "dropped_overflow_packets": 9.0 * full}
                rows.append(label | {"link": "bottleneck", "queue": "all"} | inside)
                rows.append(label | {"flow": "udp", "dropped_packets": 0 if load < 100 else 100})
                if aqm == "DualPI2" and load == 100:
                    delay = {"sojourn_ms": 15.0, "sojourn_ms_min": 10.0, "sojourn_ms_max": 20.0}
                    queue = "L" if udp == "ECT" else "C"
                    rows.append(label | {"link": "bottleneck", "queue": queue} | delay)
    return rows


def cycle_series() -> list[dict[str, Any]]:
    """CoDel's cycles of 107 s as the model has them: full for 80, draining for 20, 7 s at a drop per ms."""
    rows: list[dict[str, Any]] = []
    for step in range(1, 1700):
        at = step * 0.2 % 107
        own, overflow, delay = (100 + 19 * at, 1750 - 19 * at, 600.0) if at < 80 else (2040.0, 0.0, 30 * (100 - at) + 4)
        if at >= 100:
            own, overflow, delay = 200.0, 0.0, 4.0
        rows.append(
            {"experiment": "codel-cycle", "run": "cycle", "trial": 1, "time_s": step * 0.2}
            | {"link": "bottleneck", "queue": "all", "rate_mbps": 100.0, "sojourn_ms": delay, "sojourn_ms_min": delay}
            | {"dropped_packets": 1.0 if step == 1 else round(own + overflow)}
            | {"dropped_overflow_packets": 0.0 if step == 1 else overflow}
        )
    return rows


def thresholds_series() -> list[dict[str, Any]]:
    """Forty steps of each load of thresholds.toml; below the model's thresholds every second one is above."""
    rows: list[dict[str, Any]] = []
    for aqm, begins in (("PIE", 105.9), ("DualPI2", 133.3)):
        for load in (103, 105, 108, 113, 118, 125, 130, 137, 142):
            label = {"experiment": "thresholds", "run": f"{aqm}{load}", "trial": 1, "aqm": aqm, "load_pct": load}
            excess = 1 - 100 / load
            for step in range(41):
                label["time_s"] = 20 + 0.015 * step
                above = load > begins or step % 2 == 0
                rows.append(
                    label
                    | {"link": "bottleneck", "queue": "all"}
                    | {"p_c": 0.11 if above else 0.09, "p_prime": 0.55 if above else 0.45}
                )
                swing = 0 if load > begins else 0.02 * (-1) ** step
                rows.append(label | {"flow": "udp", "sent_packets": 1e4, "dropped_packets": 1e4 * (excess + swing)})
    return rows


def beyond() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """`flows` and `links` of beyond.toml. Per AQM and flow: rate, share, delay."""
    flows: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []
    for udp in ("ECT", "Not-ECT"):
        ect = udp == "ECT"
        for load in LOADS:
            over = load >= 100
            cells = {
                "FQ-CoDel": {"udp": (100 / 11, 0.1, 600), "not-ect": (500 / 11, 0.45, 7), "ect": (500 / 11, 0.45, 7)},
                "CAKE": dict.fromkeys(("not-ect", "ect"), (100 / 3, 0.33, 10))
                | {"udp": (100 / 3, 0.33, 600 if ect and load == 50 else 10)},
                "RED": dict.fromkeys(("not-ect", "ect"), (0, 0 if ect and over else 0.04, 15)),
                "PI2": dict.fromkeys(("not-ect", "ect"), (0, 0.0005 if ect and over else 0.03, 15)),
                "DOCSIS": {"udp": (50, 0.5, 2 if over else 0.2), "not-ect": (25, 0.25, 10), "ect": (25, 0.25, 0.5)},
            }
            for aqm, parts in cells.items():
                label = {"experiment": "beyond", "run": f"{aqm}{udp}{load}", "trial": 1}
                label |= {"aqm": aqm, "udp": udp, "load_mbps": load}
                for flow, (rate, share, delay) in parts.items():
                    value = {"rate_mbps": rate, "share": share, "sojourn_ms_mean": delay, "sojourn_ms_p99": delay}
                    flows.append(label | {"flow": flow, "count": 1 if flow == "udp" else 5} | value)
                full = aqm == "FQ-CoDel" or (ect and aqm in ("RED", "PI2"))
                links.append(
                    label | {"link": "bottleneck", "queue": "all", "dropped_overflow_packets": 9 * (full and over)}
                )
    return flows, links


def mixed() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """`flows` and `series` of mixed.toml, as its claims say."""
    flows: list[dict[str, Any]] = []
    series: list[dict[str, Any]] = []
    for udp in ("25 + 25", "50 + 50", "85 + 30", "100 + 100", "160 + 40", "40 + 160"):
        low, classic = map(int, udp.split(" + "))
        for responsive in ("1 + 1", "10 + 10"):
            for protection in (0, 10, 25, 50):
                label = {"experiment": "mixed", "run": f"{udp}{responsive}{protection}", "trial": 1}
                label |= {"udp": udp, "responsive": responsive, "protection": protection}
                total = low + classic
                l_drop, c_drop = (
                    (50, 50) if total > 133 else (10, 25) if total == 115 else (0, 6 if total == 100 else 0)
                )
                rest = 25 if total < 100 else 1.5 if total <= 115 else 0.1
                left = classic * (1 - c_drop / 100)
                l_ms, c_ms = (0.1, 15) if left + rest > protection else (15, 0.1)
                values = {
                    "udp-l": (low * (1 - l_drop / 100), l_ms, l_drop, 20 * c_drop**0.5),
                    "udp-c": (left, c_ms, c_drop, 0),
                    "prague": (rest, l_ms, 0, 0),
                    "cubic": (rest, c_ms, 0, 0),
                }
                for flow, (rate, delay, drop, mark) in values.items():
                    value = {"rate_mbps": rate, "sojourn_ms_mean": delay, "drop_pct": drop, "ce_pct": mark}
                    flows.append(label | {"flow": flow} | value)
                for second in range(11, 31):
                    inside = {"link": "bottleneck", "queue": "all", "p_prime": 0.5 + 0.05 * (-1) ** second}
                    series.append(label | {"time_s": float(second)} | inside)
    return flows, series


@cache
def everything() -> dict[str, pl.DataFrame]:
    """All tables, as the page has them where it has them, else as the model does."""
    tables = page()
    beyond_flows, beyond_links = beyond()
    mixed_flows, mixed_series = mixed()
    return {
        "flows": pl.concat([tables["flows"], frame("flows", beyond_flows + mixed_flows)]),
        "links": pl.concat([tables["links"], frame("links", beyond_links)]),
        "series": frame("series", loads_series() + cycle_series() + thresholds_series() + mixed_series),
    }


def changed(where: dict[str, Any], values: dict[str, Any]) -> dict[str, pl.DataFrame]:
    """`everything` with other values in the rows of one table where these columns are so."""
    tables = dict(everything())
    place = dict(where)
    table = place.pop("table")
    chosen = pl.all_horizontal(pl.lit(True), *(pl.col(name) == value for name, value in place.items()))
    assert tables[table].filter(chosen).height
    new = [
        pl.when(chosen).then(value if isinstance(value, pl.Expr) else pl.lit(value)).otherwise(pl.col(name)).alias(name)
        for name, value in values.items()
    ]
    tables[table] = tables[table].with_columns(new).cast(dict(tables[table].schema))  # type: ignore[arg-type]
    return tables


CHANGES = {
    "no-significant-benefit": {("DualPI2", "Not-ECT", 70, "udp"): {"pct": 45}},
    "no-benefit-under-overload": {("PIE", "Not-ECT", 140, "udp"): {"delay": 20}},
    "dualpi2-same-when-continuous": {("DualPI2", "ECT", 200, "udp"): {"drop": 45}},
    "codel-large-advantage": {("CoDel", "ECT", 140, "ect"): {"pct": 0.2}},
    "codel-not-ect-starves": {("CoDel", "ECT", 100, "not-ect"): {"pct": 0.5}},
    "drop-point-matters": {("CoDel", "ECT", 200, "udp"): {"delay": 100}},
    "fig1-very-similar": {("PIE", "ECT", 140, "not-ect"): {"pct": 10}},
    "fig2-codel-ect-takes-all": {("CoDel", "ECT", 100, "not-ect"): {"pct": 1}},
    "fig2-uncontrolled": {("CoDel", "ECT", 140, "udp"): {"mark": 10}},
    "dualpi2-no-latency-bonus": {("DualPI2", "ECT", 140, "udp"): {"delay": 1}},
    "dualpi2-l-queue-grows": {("DualPI2", "ECT", 200, "ect"): {"delay": 0.5}},
    "dualpi2-picks-up-the-larger": {("DualPI2", "ECT", 200, "udp"): {"delay": 30}},
    "dualpi2-drops-both-queues": {("DualPI2", "ECT", 140, "not-ect"): {"drop": 1}},
    "dualpi2-classic-empty": {("DualPI2", "ECT", 140, "not-ect"): {"delay": 15}},
    "below-capacity-full-share": {("CoDel", "Not-ECT", 70, "udp"): {"pct": 50}},
    "codel-striking": {("CoDel", "Not-ECT", 200, "udp"): {"delay": 40}},
    "fig8-coupling": {("DualPI2", "Not-ECT", 100, "ect"): {"mark": 20}},
    "fig8-below-threshold-only-marks": {("PIE", "ECT", 70, "ect"): {"drop": 1}},
}


# Of the other tables: rows of one table, and the values that turn the claim.
LOADS_SERIES = {"table": "series", "experiment": "loads"}
CYCLE = {"table": "series", "experiment": "codel-cycle"}
THRESHOLDS = {"table": "series", "experiment": "thresholds"}
BEYOND = {"table": "flows", "experiment": "beyond"}
MIXED = {"table": "flows", "experiment": "mixed"}
TURNS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "codel-ect-only-tail-drop": ({"table": "links", "aqm": "CoDel", "load_mbps": 100}, {"dropped_packets": 10**6}),
    "codel-no-overload-protection": (
        {"table": "links", "experiment": "loads", "aqm": "PIE", "load_mbps": 200},
        {"dropped_overflow_packets": 1},
    ),
    "ect-drop-thresholds": (LOADS_SERIES | {"aqm": "DualPI2", "load_mbps": 100}, {"p_c": 0.3}),
    "fig3-codel-overflows-ect": (
        {"table": "links", "aqm": "CoDel", "udp": "ECT", "load_mbps": 140},
        {"backlog_packets_max": 1000},
    ),
    "fig3-codel-overflows-not-ect": (
        {"table": "links", "aqm": "CoDel", "udp": "Not-ECT", "load_mbps": 140},
        {"dropped_overflow_packets": 0},
    ),
    "fig4-continuous-tail-drop": (
        LOADS_SERIES | {"aqm": "CoDel", "udp": "ECT", "load_mbps": 200, "time_s": 60.0},
        {"dropped_overflow_packets": 0.0},
    ),
    "fig5-100s-cycle": (CYCLE, {"time_s": pl.col("time_s") * 2}),
    "fig5-timer-shortens": (CYCLE | {"dropped_packets": 2040.0}, {"dropped_packets": 1000.0}),
    "fig5-restarts-at-100ms": (CYCLE | {"dropped_packets": 200.0}, {"dropped_packets": 2.0}),
    "fig5-restarts-at-1ms": (CYCLE | {"dropped_packets": 200.0}, {"dropped_packets": 2.0}),
    "fig5-right-probability-after-100s": (CYCLE, {"time_s": pl.col("time_s") * 1.2}),
    "fig5-right-probability-after-80s": (CYCLE | {"dropped_packets": 1850.0}, {"dropped_overflow_packets": 0.0}),
    "fig5-then-forgotten": (CYCLE | {"dropped_packets": 1850.0}, {"dropped_overflow_packets": 0.0}),
    "fig5-mostly-tail-drop": (CYCLE | {"dropped_packets": 1850.0}, {"dropped_overflow_packets": 0.0}),
    "continuous-overload-not-ect": (LOADS_SERIES | {"flow": "udp", "load_mbps": 100}, {"dropped_packets": 0.0}),
    "hunting-around-threshold": (LOADS_SERIES | {"aqm": "DualPI2", "load_mbps": 100}, {"p_prime": 0.6}),
    "fig6-7-around-target": (LOADS_SERIES | {"queue": "L"}, {"sojourn_ms": 25.0}),
    "fig6-7-variation": (LOADS_SERIES | {"queue": "C"}, {"sojourn_ms_max": 40.0}),
    "fig6-7-full-utilisation": (
        {"table": "links", "aqm": "DualPI2", "udp": "ECT", "load_mbps": 100},
        {"utilisation": 0.99},
    ),
    "continuous-above-110-in-pie": (THRESHOLDS | {"aqm": "PIE", "load_pct": 113}, {"p_c": 0.09}),
    "continuous-above-125-in-pi2": (THRESHOLDS | {"aqm": "DualPI2", "load_pct": 130}, {"p_prime": 0.6}),
    "dualpi2-begins-at-133": (THRESHOLDS | {"aqm": "DualPI2", "load_pct": 130}, {"p_prime": 0.6}),
    "back-and-forth-below-110-in-pie": (
        THRESHOLDS | {"aqm": "PIE", "load_pct": 108},
        {"p_c": 0.09 + 0.02 * (((pl.col("time_s") - 20) / 0.015).round() % 2)},
    ),
    "pie-begins-at-105.9": (THRESHOLDS | {"aqm": "PIE", "load_pct": 105}, {"p_c": 0.11}),
    "back-and-forth-below-125-in-pi2": (THRESHOLDS | {"aqm": "DualPI2", "load_pct": 125}, {"p_prime": 0.6}),
    "more-than-the-excess-then-less": (THRESHOLDS | {"flow": "udp", "load_pct": 105}, {"dropped_packets": 476.0}),
    "fq-codel-large-advantage": (BEYOND | {"aqm": "FQ-CoDel", "flow": "not-ect"}, {"share": 0.0}),
    "fq-codel-isolates": (BEYOND | {"aqm": "FQ-CoDel", "flow": "udp"}, {"rate_mbps": 50.0}),
    "fq-codel-no-overload-protection": (BEYOND | {"aqm": "FQ-CoDel", "flow": "udp"}, {"sojourn_ms_mean": 20.0}),
    "cake-isolates-and-protects": (BEYOND | {"aqm": "CAKE", "flow": "udp"}, {"sojourn_ms_p99": 100.0}),
    "red-no-drop-point": (BEYOND | {"aqm": "RED", "udp": "ECT", "flow": "ect"}, {"share": 0.04}),
    "pi2-of-2016-has-no-overload-measure": (BEYOND | {"aqm": "PI2", "udp": "ECT"}, {"share": 0.03}),
    "docsis-keeps-l-short": (BEYOND | {"aqm": "DOCSIS", "flow": "ect", "load_mbps": 200}, {"sojourn_ms_mean": 15.0}),
    "mixed-equal-survival": (MIXED | {"udp": "40 + 160", "protection": 25, "flow": "udp-l"}, {"drop_pct": 20.0}),
    "mixed-protection-decides-who-waits": (
        MIXED | {"udp": "160 + 40", "protection": 50, "flow": "udp-c"},
        {"sojourn_ms_mean": 15.0},
    ),
    "mixed-protection-is-no-reservation": (
        MIXED | {"udp": "160 + 40", "protection": 50, "flow": "udp-c"},
        {"rate_mbps": 40.0},
    ),
    "mixed-back-and-forth": (MIXED | {"udp": "85 + 30", "protection": 0, "flow": "udp-l"}, {"drop_pct": 25.0}),
    "mixed-bystanders-get-nothing": (MIXED | {"udp": "100 + 100", "flow": "cubic"}, {"rate_mbps": 5.0}),
    "mixed-below-capacity": (MIXED | {"udp": "25 + 25", "protection": 50, "flow": "udp-c"}, {"rate_mbps": 20.0}),
    "mixed-coupling": (MIXED | {"udp": "50 + 50", "protection": 10, "flow": "udp-l"}, {"ce_pct": 20.0}),
}
# Statements that the model contradicts: numbers on which they would hold.
HOLD_ON: dict[str, dict[tuple[str, str, int, str], dict[str, float]]] = {
    "no-benefits-at-all": {
        ("DualPI2", "Not-ECT", 100, "udp"): {"pct": 95.7, "drop": 7.0},
        ("DualPI2", "Not-ECT", 100, "ect"): {"pct": 2.15},
        ("DualPI2", "Not-ECT", 100, "not-ect"): {"pct": 2.15},
    },
    "dualpi2-same-drop-and-delay": {("DualPI2", "Not-ECT", 100, "udp"): {"drop": 7.0}},
}


def verdicts(tables: dict[str, pl.DataFrame], *names: str) -> dict[str, str]:
    """The verdicts on these claims, or on all."""
    tables = {"series": frame("series", [])} | tables
    return studies.verdicts(EXPERIMENTS, tables, *names)


def verdict(name: str, tables: dict[str, pl.DataFrame]) -> str:
    return verdicts(tables, name)[name]


def test_ids_are_unique_across_the_files() -> None:
    ids = [item.id for e in EXPERIMENTS for item in (*e.tables(Claim), *e.tables(Published), *e.tables(Figure))]
    assert len(ids) == len(set(ids))


def test_every_statement_says_where_it_stands() -> None:
    assert all(claim.says and (claim.source or claim.kind == "found") for claim in CLAIMS.values())


@cache
def on(tables: Callable[[], dict[str, pl.DataFrame]]) -> dict[str, str]:
    """All verdicts on the unchanged `page` or `everything`."""
    return verdicts(tables())


@pytest.mark.parametrize("name", CHANGES)
def test_a_claim_holds_on_the_page_and_turns(name: str) -> None:
    assert on(page)[name] == "holds"
    assert verdict(name, page(CHANGES[name])) == "fails"


@pytest.mark.parametrize("name", TURNS)
def test_a_claim_turns(name: str) -> None:
    before, after = ("fails", "holds") if name in NOT_FOUND else ("holds", "fails")
    assert on(everything)[name] == before
    assert verdict(name, changed(*TURNS[name])) == after


@pytest.mark.parametrize("name", HOLD_ON)
def test_a_statement_that_is_not_found_can_hold(name: str) -> None:
    assert on(page)[name] == "fails"
    assert verdict(name, page(HOLD_ON[name])) == "holds"


def test_every_claim_has_a_case_in_which_it_turns() -> None:
    assert set(CLAIMS) == {*CHANGES, *TURNS, *HOLD_ON}


def test_what_is_found_stands_beside_what_it_contradicts() -> None:
    order = list(CLAIMS)
    for statement, finding in NOT_FOUND.items():
        assert abs(order.index(statement) - order.index(finding)) == 1
        assert CLAIMS[statement].listed == "statement"
        assert CLAIMS[finding].beside == statement


def test_no_claim_holds_about_nothing() -> None:
    nothing = {name: table.clear() for name, table in everything().items()}
    assert not {name for name, verdict in verdicts(nothing).items() if verdict not in ("undecided", "fails")}


@pytest.mark.slow
def test_the_study(tmp_path: Path, readme: ModuleType, in_readme: Any) -> None:
    results = l4slab.run(study("overload"), out=tmp_path / "r")
    assert results.failures == []
    assert set(claims.unexpected(results.claims)["id"]) == set(NOT_FOUND)
    assert claims.changed(results.claims).is_empty()
    assert readme.counts(results.claims) == in_readme("overload")
    assert len([figure for e in folders.load(tmp_path / "r").files for figure in e.tables(Figure)]) == 9
    judged = results.published.filter(pl.col("within").is_not_null())
    parts = judged.group_by("id").agg(pl.col("within").mean())
    within = dict(parts.iter_rows())
    assert within["rate-shares"] >= 0.9
    assert within["mean-delays"] > 0.85
    assert within["cycle-period"] == 1
    assert all(within[name] == 1 for name in within if name.startswith("public-"))
    beyond_bar = results.published.filter(pl.col("reference").is_not_null(), ~pl.col("within"))
    causes = beyond_bar["quantity"].str.extract(r"\[(.*)\]$")
    assert set(causes) == {"few packets", "fewer signals", "Prague", "filling"}
