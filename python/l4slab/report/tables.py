"""The report's tables: what the template shows, already as text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import polars as pl

from l4slab import metrics
from l4slab.claims import Claim, Kind, as_expected, tally
from l4slab.published import Published
from l4slab.report.results import Case, Folder

MAX_ROWS = 400
MAX_SET_UPS = 100

_VERDICT_MARKS = {"holds": "✓", "fails": "✗", "undecided": "?", "error": "!"}
_PLAIN_NAMES = {"mbps": "", "ms": "", "pct": "", "packets": "packets", "s": ""}

# What people compare first; every column is in the Parquet files.
_SHOWN = {
    "flows": [
        "rate_mbps", "goodput_mbps", "share", "rtt_ms_mean", "rtt_ms_p99", "sojourn_ms_mean", "sojourn_ms_p99",
        "ce_pct", "drop_pct", "retransmits", "completion_ms_p50", "completion_ms_p99",
    ],
    "links": [
        "rate_mbps", "utilisation", "sojourn_ms_mean", "sojourn_ms_p99", "sojourn_ms_max", "ce_pct", "drop_pct",
        "backlog_packets_max",
    ],
}  # fmt: skip
_KEYS = {"flows": ["flow", "cc"], "links": ["link", "queue"]}


def number(value: float | None) -> str:
    """A number to three significant digits (integers in full), "" for None."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return str(value)
    if value == 0 or abs(value) < 1e-9:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", "\u202f")
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 6)}f}".replace("-", "\u2212")


def given(value: float | None) -> str:
    """A number as a person wrote it."""
    return "" if value is None else f"{value:g}".replace("-", "\u2212")


def heading(column: str) -> str:
    """A column's name as people write it: "rtt_ms_p99" is "rtt p99 (ms)"."""
    unit = metrics.unit_of(column)
    words = [part for part in column.split("_") if _PLAIN_NAMES.get(part, part)]
    name = " ".join(words) or column
    return f"{name} ({unit})" if unit and unit not in words else name


def verdicts(folder: Folder) -> list[dict[str, Any]]:
    """A row per claim: its list, verdict, whether that is the one of its list, evidence, query, findings beside it."""
    sql = {(e.name, claim.id): claim.sql.strip() for e in folder.files for claim in e.tables(Claim)}
    study = folder.study.name if folder.study else ""
    # The study's file first: it compares, the others go into detail.
    ordered = folder.claims.with_columns(as_expected=as_expected()).sort(
        pl.col("experiment") != study, maintain_order=True
    )
    rows = []
    for claim in ordered.iter_rows(named=True):
        evidence = json.loads(claim["evidence"] or "{}")
        rows.append(
            claim
            | {
                "evidence": [_evidence(name, value) for name, value in evidence.items()],
                "mark": _VERDICT_MARKS.get(claim["verdict"], ""),
                "sql": sql.get((claim["experiment"], claim["id"]), ""),
            }
        )
    for row in rows:
        place = (row["experiment"], row["id"])
        row["findings"] = [other for other in rows if (other["experiment"], other["beside"]) == place]
    return rows


def _evidence(name: str, value: Any) -> tuple[str, str]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return name.replace("_", " "), "none" if value is None else str(value)
    unit = metrics.unit_of(name)
    words = [part for part in name.split("_") if part not in metrics.UNITS]
    return " ".join(words) or name, f"{number(value)} {unit}".strip()


_LISTS: dict[Kind, str] = {
    "statement": "What the study says",
    "disputed": "What the study disputes",
    "found": "Found here besides",
    "claim": "Claims",
}


def lists(folder: Folder, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lists of claims, of the rows of `verdicts`: each with its count in words, and what is not as expected."""
    found = []
    for counted in tally(folder.claims):
        claims = [row for row in rows if row["kind"] == counted.kind]
        found.append(
            {
                "kind": counted.kind,
                "name": _LISTS[counted.kind],
                "count": counted.text,
                "claims": claims,
                "unexpected": [row for row in claims if not row["as_expected"]],
                "by_source": _by_source(claims),
            }
        )
    return found


def _by_source(claims: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """Each source with how many of its claims came out as expected, and how many there are."""
    sources = sorted({row["source"] for row in claims})
    return [
        (source, sum(row["as_expected"] for row in of_source), len(of_source))
        for source in sources
        if (of_source := [row for row in claims if row["source"] == source])
    ]


def agreement(folder: Folder) -> list[dict[str, Any]]:
    """A row per published figure that stands in an experiment file."""
    return [_agreement(row) for row in folder.published.filter(pl.col("reference").is_null()).iter_rows(named=True)]


def references(folder: Folder) -> list[dict[str, Any]]:
    """A table per reference file query, with the distances summed up."""
    found = []
    rows = folder.published.filter(pl.col("reference").is_not_null())
    for (experiment, name), group in rows.group_by("experiment", "id", maintain_order=True):
        figure = next((f for f in folder.file(str(experiment)).tables(Published) if f.id == name), None)
        compared = group.drop_nulls("distance")
        judged = compared.drop_nulls("within")
        found.append(
            {
                "quantity": (figure.quantity if figure else "") or name,
                "source": group["source"][0],
                "reference": group["reference"][0],
                "rows": [_agreement(row) for row in group.iter_rows(named=True)],
                "compared": len(compared),
                "judged": len(judged),
                "within": int(judged["within"].sum()) if len(judged) else 0,
                "by_unit": [
                    {"unit": unit, "count": len(part), "median": number(part["distance"].abs().median())}  # type: ignore[arg-type]
                    for (unit,), part in compared.group_by("unit", maintain_order=True)
                ],
            }
        )
    return found


def _agreement(row: dict[str, Any]) -> dict[str, Any]:
    """One figure as text; `at` is the distance in tolerances, for the small scale beside it."""
    low, high = row["measured_min"], row["measured_max"]
    distance, tolerance = row["distance"], row["tolerance"]

    def fine(value: float | None) -> str:
        return _to_the_tolerance(value, tolerance)

    at = None
    if distance is not None and tolerance:
        at = max(-1.5, min(1.5, distance / tolerance))
    spread = "" if low is None or high is None or fine(low) == fine(high) else f"{fine(low)}\u2013{fine(high)}"
    return {
        "experiment": row["experiment"],
        "quantity": f"{row['quantity']} ({row['unit']})" if row["unit"] else row["quantity"],
        "published": given(row["published"]),
        "measured": fine(row["measured"]) or "not measured",
        "spread": spread,
        "distance": ("+" if distance and distance > 0 and fine(distance) != "0" else "") + fine(distance),
        "tolerance": given(tolerance),
        "within": row["within"],
        "at": None if at is None else round(50 + at / 1.5 * 50, 1),
        "source": row["source"],
    }


def _to_the_tolerance(value: float | None, tolerance: float | None) -> str:
    """A number to a hundredth of its tolerance: more digits mean nothing beside it."""
    if value is None or not tolerance:
        return number(value)
    text = f"{value:.{max(0, 2 - math.floor(math.log10(tolerance)))}f}"
    return "0" if not text.strip("-0.") else text.replace("-", "\u2212")


def results(folder: Folder, table: str) -> dict[str, Any]:
    """Means over trials, a row per case and flow or queue, with the range where trials differ."""
    frame: pl.DataFrame = getattr(folder, table)
    keys = ["experiment", *folder.factors, *_KEYS[table]]
    columns = [name for name in _SHOWN[table] if frame[name].count()]
    means = frame.group_by(keys, maintain_order=True).agg(
        *(pl.col(name).mean().alias(name) for name in columns),
        *(pl.col(name).min().alias(f"{name} min") for name in columns),
        *(pl.col(name).max().alias(f"{name} max") for name in columns),
    )
    rows = []
    for row in means.head(MAX_ROWS).iter_rows(named=True):
        cells = [
            {"text": number(row[name]), "range": _range(row[f"{name} min"], row[f"{name} max"])} for name in columns
        ]
        rows.append({"keys": [_text(row[key]) for key in keys], "cells": cells})
    return {
        "keys": keys,
        "columns": [heading(name) for name in columns],
        "rows": rows,
        "omitted": len(means) - len(rows),
    }


def _range(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None or number(low) == number(high) else f"{number(low)}\u2013{number(high)}"


def _text(value: Any) -> str:
    return "" if value is None else number(value) if isinstance(value, float) else str(value)


def set_up(folder: Folder, experiment: str) -> list[dict[str, Any]]:
    """What each case of an experiment runs, every default filled in: rows of (setting, value)."""
    cases = [case for case in folder.cases if case.experiment == experiment]
    return [shown for case in cases[:MAX_SET_UPS] if (shown := _set_up(folder, case))]


def _set_up(folder: Folder, case: Case) -> dict[str, Any] | None:
    run = folder.run_of(case)
    return None if run is None else {"label": case.level_text, "rows": settings(run.description)}


def settings(told: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a run's description says, as (setting, value)."""
    rows = [("duration", _time(told["duration_ns"])), ("left out of the figures", _time(told["warmup_ns"]))]
    rows += [("sample", _time(told["sample_ns"])), ("start jitter", f"0 to {_time(told['start_jitter_ns'])}")]
    for link in told["links"]:
        settings = [_rate(link["rate_bps"]), link["qdisc"], f"burst {link['burst_bytes']} B"]
        rows.append((f"link {link['name']}", ", ".join(settings)))
    rows += [(f"flow {flow['name']}", _flow(flow)) for flow in told["flows"]]
    for rewrite in told["rewrites"]:
        where = f"{rewrite['where']} {rewrite['link']}"
        rows.append((f"rewrite on {rewrite['flow']}", f"{rewrite['from']} to {rewrite['to']}, {where}"))
    for change in told["at"]:
        changed = [_rate(change["rate_bps"])] if change["rate_bps"] else []
        changed += [change["qdisc"]] if change["qdisc"] else []
        rows.append((f"at {_time(change['time_ns'])}", f"{change['link']}: {', '.join(changed)}"))
    for impair in told.get("impairs", []):
        where = f"before {impair['before']}, {impair['direction']}"
        rows.append((f"impair {impair['name']}", f"{impair['netem']}, {where}"))
    return rows


def _flow(flow: dict[str, Any]) -> str:
    parts = [f"{flow['count']} ×"] if flow["count"] > 1 else []
    parts += [flow.get("cc", flow["kind"])]
    if "rate_bps" in flow:
        parts += [_rate(flow["rate_bps"])]
    if "packet_bytes" in flow:
        parts += [f"packets of {'up to ' if flow['kind'] == 'udp-prague' else ''}{flow['packet_bytes']} B"]
    parts += [f"RTT {_time(flow['rtt_ns'])}"]
    if "ecn" in flow:
        parts += [f"ECN {flow['ecn'] or 'as the controller wants'}"]
    if flow.get("peer_ecn"):
        parts += [f"peer ECN {flow['peer_ecn']}"]
    if flow["start_ns"]:
        parts += [f"from {_time(flow['start_ns'])}"]
    if flow["stop_ns"]:
        parts += [f"until {_time(flow['stop_ns'])}"]
    if flow.get("bytes"):
        parts += [f"{flow['bytes']} B"]
    if flow.get("pace_bps"):
        parts += [f"paced at {_rate(flow['pace_bps'])}"]
    if flow.get("receive_window_bytes"):
        parts += [f"receive window {flow['receive_window_bytes']} B"]
    parts += [f"{key} {value}" for key, value in flow.get("options", {}).items()]
    parts += [f"over {' '.join(flow['path'])}"]
    if flow.get("reverse_path"):
        parts += [f"ACKs over {' '.join(flow['reverse_path'])}"]
    return ", ".join(parts).replace("×,", "×")


def runs(folder: Folder, experiment: str) -> dict[str, Any]:
    """The identity of every run: levels, trial, seed, id."""
    present = set(folder.flows.filter(pl.col("experiment") == experiment)["run"])
    planned = folder.plan(experiment).runs
    rows = [
        [*(_text(run.factors.get(name)) for name in folder.factors), run.trial, run.id, run.description["seed"]]
        for run in planned[:MAX_ROWS]
    ]
    return {
        "columns": [*folder.factors, "trial", "run", "seed"],
        "rows": rows,
        "omitted": len(planned) - len(rows),
        "present": sum(run.id in present for run in planned),
        "planned": len(planned),
    }


def _rate(bps: int) -> str:
    for factor, unit in ((10**9, "Gbit"), (10**6, "Mbit"), (10**3, "kbit")):
        if bps >= factor:
            return f"{bps / factor:g}{unit}"
    return f"{bps}bit"


def _time(ns: int) -> str:
    for factor, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if ns >= factor:
            return f"{ns / factor:g}{unit}"
    return f"{ns}ns" if ns else "0s"
