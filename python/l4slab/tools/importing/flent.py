"""Data files of flent as a results folder, which `compare` and `l4slab.plot` read."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from l4slab.base import metrics
from l4slab.base.errors import InputError

_LABELS = {"experiment": pl.String(), "run": pl.String(), "trial": pl.Int64()}
_RATE = re.compile(r"^(TCP|UDP|BBR|CUBIC)?\s*.*\b(upload|download)\b(?!.*\b(sum|avg|totals|fairness)\b)", re.IGNORECASE)
_DERIVED = ("sum", "avg", "totals", "fairness", "cwnd", "rtt", "cong", "ssthresh", "pacing", "delivery")


def is_flent(file: Path) -> bool:
    """Whether a file has a name of flent."""
    return file.name.endswith((".flent", ".flent.gz"))


def convert(file: Path, folder: Path) -> tuple[list[str], list[str]]:
    """Write the tables of a run into `folder`; what was taken, and what was left out. Raises InputError."""
    content = file.read_bytes()
    try:
        document = json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
        times, series = document["x_values"], document["results"]
        metadata = document["metadata"]
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"is no data file of flent ({error})", file=file) from None
    about: Mapping[str, Any] = metadata.get("SERIES_META") or {}
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", str(metadata.get("TITLE") or metadata.get("NAME") or "flent")).strip("-")
    labels = {"experiment": name or "flent", "run": file.name.partition(".flent")[0], "trial": 0}
    flows: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    taken: list[str] = []
    left: list[str] = []
    rates: dict[str, float] = {}
    for key, values in series.items():
        told = about.get(key) or {}
        numbers = [value for value in values if isinstance(value, int | float) and math.isfinite(value)]
        is_derived = any(word in key.lower() for word in _DERIVED)
        if not numbers or is_derived:
            left.append(f"{key}: {'flent computed it from others' if numbers else 'it has no values'}")
            continue
        is_delay = "ping" in key.lower() or told.get("UNITS") == "ms"
        if not is_delay and not _RATE.match(key):
            left.append(f"{key}: it is neither a rate of a flow nor a delay")
            continue
        column = "srtt_ms" if is_delay else "goodput_mbps"
        ordered = sorted(numbers)
        flow = {"flow": key, "cc": str(told.get("CONG_CONTROL") or ("ping" if is_delay else "unknown")), "count": 1}
        if is_delay:
            flow |= {"rtt_ms_mean": math.fsum(numbers) / len(numbers), "rtt_ms_p50": ordered[len(ordered) // 2],
                     "rtt_ms_p99": ordered[min(len(ordered) * 99 // 100, len(ordered) - 1)]}  # fmt: skip
        else:
            rates[key] = flow["goodput_mbps"] = math.fsum(numbers) / len(numbers)
        flows.append(flow)
        rows += [
            {"time_s": float(time), "flow": key, column: float(value)}
            for time, value in zip(times, values, strict=False)
            if isinstance(value, int | float)
        ]
        taken.append(f"{key}, {len(numbers)} values, as {'RTT' if is_delay else 'goodput'}")
    if not flows:
        raise InputError(f"has no rate of a flow and no delay; it has {', '.join(series) or 'no series'}", file=file)
    for flow in flows:
        if flow["flow"] in rates:
            flow["share"] = rates[flow["flow"]] / (math.fsum(rates.values()) or 1.0)
    folder.mkdir(parents=True, exist_ok=True)
    for table, of_table in (("flows", flows), ("series", rows), *((one, []) for one in metrics.TABLES)):
        path = folder / f"{table}.parquet"
        if table in ("flows", "series") and not of_table:
            continue
        frame = metrics.table_of(table, of_table)
        own = [pl.lit(value, dtype=_LABELS[key]).alias(key) for key, value in labels.items()]
        frame.select(*own, pl.all()).write_parquet(path)
    claims = {**_LABELS, **metrics.CLAIMS} if "experiment" not in metrics.CLAIMS else metrics.CLAIMS
    pl.DataFrame(schema=claims).write_parquet(folder / "claims.parquet")
    return taken, left
