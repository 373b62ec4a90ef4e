"""qlog of TCP: the sent and lost packets of a connection and its feedback, for qvis and other readers of qlog.

It is written from a results folder, in the same way for all engines: from a flow's capture at its sender's host, which
has each packet with its time, and from the time series, which has window and smoothed RTT at its steps.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

import polars as pl

from l4slab.base import metrics
from l4slab.base.errors import InputError, StoreError, suggest
from l4slab.base.values import Keys
from l4slab.engines.contract import file_name
from l4slab.results.qlog.connection import VERSION, Connection, Sample
from l4slab.results.qlog.frames import SYN, segments

# The client port of a group's first flow on both engines; when they are used up, the server's goes up by one.
_CLIENT_PORT, _CLIENT_PORTS = 10_000, 50_000
_SERVER_PORT = 5001


def export(folder: Path, target: Path, run: str | None = None, flow: str | None = None) -> Iterator[Path]:
    """Write EXPERIMENT-RUN-FLOW-MEMBER.sqlog into `target` for each TCP connection of which `folder` has a capture;
    the files. `run`: the first digits of the run's id suffice.

    Raises InputError where the folder has no such run, flow or capture, StoreError where a capture cannot be read.
    """
    flows = pl.read_parquet(folder / "flows.parquet")
    if run is not None:
        chosen = flows.filter(pl.col("run").str.starts_with(run.lower()))
        if chosen.is_empty():
            raise InputError(f"--run {run}: {suggest(run, flows['run'].unique(maintain_order=True))}", file=folder)
        flows = chosen
    if flow is not None:
        names = flows["flow"].unique(maintain_order=True)
        if flow not in names:
            raise InputError(f"--flow {flow}: {suggest(flow, names)}", file=folder)
        flows = flows.filter(flow=flow)
    factors = flows.columns[flows.columns.index("trial") + 1 : flows.columns.index("flow")]
    once = flows.unique(["run", "flow"], maintain_order=True)
    levels = [{name: row[name] for name in factors} for row in once.iter_rows(named=True)]
    captured = [pair for pair in zip(metrics.rows_of(once, FlowRow), levels, strict=True) if _has(folder, pair[0])]
    if not captured:
        raise InputError(
            'has no captures of TCP there; write captures = "first trial" at the top of the experiment file, and run '
            "it again with the same command",
            file=folder,
        )
    series = pl.scan_parquet(folder / "series.parquet")
    for row, levels_of in captured:
        table = series.filter(run=row["run"], flow=row["flow"]).select("time_s", "cwnd_packets", "srtt_ms").collect()
        # A group's are means, which are nobody's.
        samples = list(_samples(table)) if row["count"] == 1 else []
        at = [f"{name} = {level}" for name, level in levels_of.items() if level is not None]
        yield from _write(_capture(folder, row), target, row, at, samples)


class FlowRow(TypedDict):
    """The columns that are read of the table `flows`."""

    experiment: str
    run: str
    trial: int
    flow: str
    cc: str
    count: int
    ecn_mode: str | None


def _capture(folder: Path, row: FlowRow) -> Path:
    """The capture of a flow at its sender's host, as either engine calls it."""
    stem = folder / "captures" / str(row["run"]) / f"{file_name(row['flow'])}-client"
    packed = stem.with_name(f"{stem.name}.pcapng.gz")
    return packed if packed.is_file() else stem.with_name(f"{stem.name}.pcap")


def _has(folder: Path, row: FlowRow) -> bool:
    path = _capture(folder, row)
    with _told(path):
        return path.is_file() and next(segments(path), None) is not None


@contextmanager
def _told(capture: Path) -> Iterator[None]:
    """Says of a capture that it cannot be read."""
    try:
        yield
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = f"{capture} cannot be read ({error})"
        raise StoreError(f"{reason}; remove the folder it is in and run the experiment again") from None


def _samples(series: pl.DataFrame) -> Iterator[Sample]:
    for time_s, cwnd, srtt in series.drop_nulls().sort("time_s").iter_rows():
        yield Sample(round(time_s * 1e9), cwnd, srtt)


def _write(capture: Path, target: Path, row: FlowRow, levels: list[str], samples: list[Sample]) -> Iterator[Path]:
    connections: dict[tuple[int, int], Connection] = {}
    with _told(capture):
        for segment in segments(capture):
            ports = segment.source_port, segment.destination_port
            found = connections.get(ports) or connections.get((ports[1], ports[0]))
            if found is None:
                if not segment.flags & SYN:
                    continue
                member = ports[0] - _CLIENT_PORT + (ports[1] - _SERVER_PORT) * _CLIENT_PORTS + 1
                path = target / f"{row['experiment']}-{row['run']}-{file_name(row['flow'])}-{member}.sqlog"
                header = _header(row, levels, member, bool(samples))
                found = connections[ports] = Connection(path, header, samples, segment)
            found.see(segment)
    for connection in connections.values():
        yield connection.close()


def _header(row: FlowRow, levels: list[str], member: int, sampled: bool) -> Keys:
    of = f", {member} of {row['count']}" if row["count"] > 1 else ""
    title = ", ".join([row["experiment"], *levels, f"trial {row['trial']}", f"flow {row['flow']}{of}"])
    more = " congestion_window and smoothed_rtt are samples of the sender." if sampled else ""
    return {
        "qlog_version": VERSION,
        "qlog_format": "JSON-SEQ",
        "title": title,
        "description": f"TCP {row['cc']}, ECN {row['ecn_mode']}, of the run {row['run']} of l4slab. A packet number is "
        f"a transmission of a segment. Packets, ACKs, losses and RTTs are as at the sender's host.{more}",
        "trace": {
            "title": title,
            "vantage_point": {"name": row["flow"], "type": "client"},
            "common_fields": {"protocol_type": ["TCP"], "reference_time": 0.0, "time_format": "relative"},
            "configuration": {"time_offset": 0},
        },
    }
