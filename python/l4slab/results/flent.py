"""Runs as data files of flent (format version 4), for flent-gui and its formatters.

A series per single flow is called as flent's own tests call it: `TCP upload::1`, `UDP upload 1`. The series of a group
of several flows is their sum. Where the file says `per_flow = true`, each of them has its mean over the measured
interval at every step of that interval; else the group is one series `TCP upload sum::GROUP`, which none of flent's
averages, fairness indices and plots takes for a flow. Sum, average and fairness are of all flows.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypedDict

import polars as pl

from l4slab import experimentfile, sweep
from l4slab.base import metrics
from l4slab.base.run import Flow, Run
from l4slab.base.values import Cell, Row
from l4slab.experimentfile.traffic import KINDS, ProgramFlow, Tcp

# Simulated time has no date; flent's files need one.
_START = datetime(2000, 1, 1, tzinfo=UTC)
_VERSION = 4
# Of flent, whose data files these are like.
_FLENT = "2.1.1"
_MBPS = "Mbits/s"
_COLUMNS = ("time_s", "flow", "goodput_mbps", "srtt_ms", "cwnd_packets")


def export(folder: Path, target: Path) -> Iterator[Path]:
    """Write EXPERIMENT-RUN.flent.gz into `target` for each run of a results folder; the files."""
    flows = pl.read_parquet(folder / "flows.parquet")
    members = pl.scan_parquet(folder / "members.parquet")
    names = flows.columns
    factors = names[names.index("trial") + 1 : names.index("flow")]
    experiments = {path.stem: experimentfile.load(path) for path in (folder / "experiments").glob("*.toml")}
    series = pl.scan_parquet(folder / "series.parquet")
    for (run,), rows in flows.group_by("run", maintain_order=True):
        first = rows.row(0, named=True)
        levels = [f"{name} = {first[name]}" for name in factors if first[name] is not None]
        title = ", ".join([first["experiment"], *levels, f"trial {first['trial']}"])
        described = sweep.describe(experiments[first["experiment"]], {name: first[name] for name in factors})
        table = series.filter(pl.col("run") == run, pl.col("flow").is_not_null()).select(_COLUMNS).collect()
        singles = members.filter(pl.col("run") == run).select("flow", "member", "goodput_mbps").collect()
        path = target / f"{first['experiment']}-{run}.flent.gz"
        document = _document(described, rows, singles, table, title, path.name)
        # Without a time in the header, equal results give equal files.
        path.write_bytes(gzip.compress(json.dumps(document, sort_keys=True).encode(), mtime=0))
        yield path


@dataclass
class _Kind:
    """The flows of a protocol and a direction. `goodputs`: of each group, Mbit/s, and the sum of its flows' squares."""

    name: str  # "TCP upload"
    separator: str  # between that and the number of a flow, as in flent's tests
    flows: int = 0
    singles: int = 0  # that have a series
    series: list[list[float | None]] = field(default_factory=list)
    goodputs: list[tuple[float, float | None]] = field(default_factory=list)


class FlowRow(TypedDict):
    """The columns that are read of the table `flows`."""

    flow: str
    cc: str
    count: int
    goodput_mbps: float
    jain: float | None


class SeriesRow(TypedDict):
    """The columns that are read of the table `series`."""

    time_s: float
    goodput_mbps: float | None
    srtt_ms: float | None
    cwnd_packets: float | None


def _document(
    run: Run,
    flows: pl.DataFrame,
    members: pl.DataFrame,
    series: pl.DataFrame,
    title: str,
    name: str,
) -> dict[str, object]:
    times = series["time_s"].unique().sort().to_list()
    warmup_s, end_s = run["warmup_ns"] * 1e-9, run["duration_ns"] * 1e-9
    results: dict[str, list[float | None]] = {}
    raw: dict[str, list[dict[str, float]]] = {}
    about: dict[str, Row] = {}
    means: dict[str, float | None] = {}

    def over_all(value: float) -> list[float | None]:
        return [value if time > warmup_s else None for time in times]

    def add(key: str, values: list[float | None], mean: float | None, **more: Cell) -> None:
        results[key] = values
        means[key] = mean
        about[key] = {"UNITS": _MBPS, "MEAN_VALUE": mean, **more}

    described = {flow["name"]: flow for flow in run["flows"]}
    both = {_direction(flow, run["flows"][0]) for flow in run["flows"] if _protocol(flow) == "TCP"} >= {*_DIRECTIONS}
    kinds: dict[str, _Kind] = {}
    for flow in metrics.rows_of(flows, FlowRow):
        spec_of = described[flow["flow"]]
        protocol, direction = _protocol(spec_of), _direction(spec_of, run["flows"][0])
        label = f"{protocol} {direction}"
        # The separators of the tests that `_test` chooses.
        separator = " " if protocol == "UDP" else " BE::" if both and protocol == "TCP" else "::"
        kind = kinds.setdefault(label, _Kind(label, separator))
        rows = {row["time_s"]: row for row in metrics.rows_of(series.filter(flow=flow["flow"]), SeriesRow)}
        values = [rows[time]["goodput_mbps"] if time in rows else None for time in times]
        of: Row = {"CONG_CONTROL": flow["cc"], "FLOW": flow["flow"], "COUNT": flow["count"]}
        kind.series.append(values)
        kind.goodputs.append((flow["goodput_mbps"], _squares(flow)))
        singles = members.filter(pl.col("flow") == flow["flow"])
        if flow["count"] > 1 and len(singles):
            for number, single in enumerate(singles.iter_rows(named=True), start=kind.singles + 1):
                key, mean = f"{label}{separator}{number}", single["goodput_mbps"]
                add(key, over_all(mean), mean, **of, MEMBER=single["member"])
                raw[key] = [{"t": _moment(end_s), "val": mean, "dur": end_s - warmup_s}]
            kind.singles += len(singles)
        else:
            key = f"{label} sum::{flow['flow']}"
            if flow["count"] == 1:
                kind.singles += 1
                key = f"{label}{separator}{kind.singles}"
            add(key, values, flow["goodput_mbps"], **of)
            raw[key] = [_raw(time, row) for time, row in rows.items()]
        kind.flows += flow["count"]
    for kind in kinds.values():
        sums = [math.fsum(value or 0.0 for value in column) for column in zip(*kind.series, strict=True)]
        mean = math.fsum(goodput for goodput, _ in kind.goodputs)
        add(f"{kind.name} sum", [*sums], mean, COUNT=kind.flows)
        flows_there = max(kind.flows, 1)
        add(f"{kind.name} avg", [value / flows_there for value in sums], mean / flows_there)
        squares = [of_group for _, of_group in kind.goodputs if of_group is not None]
        is_known = len(squares) == len(kind.goodputs) and math.fsum(squares) > 0
        fairness = mean**2 / (flows_there * math.fsum(squares)) if is_known else None
        add(f"{kind.name} fairness", over_all(fairness) if fairness else [None] * len(times), fairness, UNITS="Idx")
    if both:
        totals = zip(*(results[f"TCP {direction} sum"] for direction in _DIRECTIONS), strict=True)
        mean = math.fsum(means[f"TCP {direction} sum"] or 0.0 for direction in _DIRECTIONS)
        add("TCP totals", [math.fsum(value or 0.0 for value in column) for column in totals], mean)
    metadata = _metadata(kinds, both, times) | {"TITLE": title, "DATA_FILENAME": name, "SERIES_META": about}
    return {"version": _VERSION, "metadata": metadata, "x_values": times, "results": results, "raw_values": raw}


def _metadata(kinds: Mapping[str, _Kind], both: bool, times: Sequence[float]) -> dict[str, object]:
    step = times[1] - times[0] if len(times) > 1 else times[0] if times else 1.0
    length = times[-1] if times else 0.0
    streams = {kind.name: kind.singles for kind in kinds.values()}
    return {
        "NAME": _test(kinds, both),
        "NOTE": "a run of l4slab; its clock starts at TIME, a date without meaning",
        "TIME": _date(_START),
        "T0": _date(_START),
        "HOST": "l4slab",
        "HOSTS": ["l4slab"],
        "LOCAL_HOST": "l4slab",
        "LENGTH": length,
        "TOTAL_LENGTH": length,
        "STEP_SIZE": step,
        "IP_VERSION": 4,
        "TEST_PARAMETERS": {f"{way}_streams": str(streams.get(f"TCP {way}", 0)) for way in _DIRECTIONS},
        "FLENT_VERSION": _FLENT,
    }


_DIRECTIONS = ("upload", "download")


def _protocol(flow: Flow) -> str:
    """TCP, UDP, or Program for unknown traffic of a program. A program with `cc` is TCP."""
    model = KINDS[flow["kind"]]
    if flow["kind"] == "program" and flow["cc"] is None:
        return "Program"
    return "TCP" if issubclass(model, Tcp | ProgramFlow) else "UDP"


def _direction(flow: Flow, first: Flow) -> str:
    """The sender is flent's host, except for programs whose server sends, and for flows that cross only the way back
    of the first flow.
    """
    path = set(flow["path"])
    turned = path.isdisjoint(first["path"]) and not path.isdisjoint(first.get("reverse_path", ()))
    return "download" if (flow.get("sender") == "server") != turned else "upload"


def _test(kinds: Mapping[str, _Kind], both: bool) -> str:
    """The test of flent's whose series and plots fit best."""
    if both:
        return "rrul_be_nflows"
    if "TCP download" in kinds:
        return "tcp_ndown"
    return "tcp_nup" if "TCP upload" in kinds or "UDP upload" not in kinds else "udp_flood_var_up"


def _squares(flow: FlowRow) -> float | None:
    """The sum of the squares of its flows' goodputs, which Jain's index tells; None where that is not known."""
    if flow["count"] <= 1 or not flow["goodput_mbps"]:
        return float(flow["goodput_mbps"]) ** 2
    return None if flow["jain"] is None else float(flow["goodput_mbps"]) ** 2 / (flow["count"] * flow["jain"])


def _raw(time: float, row: SeriesRow) -> dict[str, float]:
    values = {"val": row["goodput_mbps"], "tcp_rtt": row["srtt_ms"], "tcp_cwnd": row["cwnd_packets"]}
    return {"t": _moment(time)} | {name: value for name, value in values.items() if value is not None}


def _moment(time: float) -> float:
    return (_START + timedelta(seconds=time)).timestamp()


def _date(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
