"""Results for other programs: tables as CSV or JSON, runs as data files of flent, connections as qlog.

DIR/export/csv/NAME.csv    a table each; a list in a cell is written as JSON
DIR/export/json/NAME.json  a table each, as a list of rows
DIR/export/flent/EXPERIMENT-RUN.flent.gz
                           a run each, in version 4 of flent's format, as its test `tcp_nup` writes them: the goodput of
                           each flow, and smoothed RTT and window as values of their own. There is no ping in a run.
DIR/export/qlog/EXPERIMENT-RUN-FLOW-MEMBER.sqlog
                           a TCP connection each, of which there is a capture (`l4slab.qlog`)
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pyarrow.dataset as ds

from l4slab import qlog
from l4slab.errors import InputError, StoreError

Form = Literal["csv", "json", "flent", "qlog"]

# Simulated time has no date; flent's files need one.
_START = datetime(2000, 1, 1, tzinfo=UTC)
_VERSION = 4
# Of flent, whose data files these are like.
_FLENT = "2.1.1"


def export(
    folder: Path | str, form: Form, to: Path | str | None = None, run: str | None = None, flow: str | None = None
) -> list[Path]:
    """Write what a results folder has into `to` (default: DIR/export/FORM); the files.

    Of qlog, only those of a `run` and a `flow` where they are given.

    Raises InputError where it is no results folder, StoreError where a file cannot be written.
    """
    source = Path(folder)
    if not (source / "flows.parquet").is_file():
        raise InputError(
            'has no tables to export; give a DIR that "l4slab run --out DIR" has finished, or finish it with: '
            f"l4slab report {folder}",
            file=folder,
        )
    target = source / "export" / form if to is None else Path(to)
    try:
        target.mkdir(parents=True, exist_ok=True)
        if form == "flent":
            return list(_runs(source, target))
        if form == "qlog":
            return list(qlog.export(source, target, run, flow))
        write = _csv if form == "csv" else _json
        return [write(path, target / f"{path.stem}.{form}") for path in sorted(source.glob("*.parquet"))]
    except FileExistsError:
        raise InputError(f"--to {target} is a file; give a folder") from None
    except NotADirectoryError:
        raise InputError(f"--to {target} cannot be a folder, as a part of it is a file; give another") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"{target} cannot be written ({reason}); give another folder with --to") from None


def _batches(path: Path) -> Iterator[pl.DataFrame]:
    """A table in parts, for a campaign's series may be larger than the memory."""
    found = ds.dataset(path)
    empty = True
    for batch in found.to_batches():
        if batch.num_rows:
            empty = False
            yield pl.DataFrame(batch)
    if empty:
        yield pl.DataFrame(found.schema.empty_table())


def _csv(path: Path, target: Path) -> Path:
    with target.open("wb") as file:
        for number, frame in enumerate(_batches(path)):
            nested = [name for name, kind in frame.schema.items() if kind.is_nested()]
            flat = frame.with_columns(
                *(pl.Series(name, [_text(value) for value in frame[name].to_list()], pl.String) for name in nested)
            )
            flat.write_csv(file, include_header=number == 0)
    return target


def _json(path: Path, target: Path) -> Path:
    with target.open("w", encoding="utf-8") as file:
        file.write("[")
        first = True
        for frame in _batches(path):
            for row in frame.iter_rows(named=True):
                file.write(("\n" if first else ",\n") + _text(row))
                first = False
        file.write("\n]\n")
    return target


def _text(value: Any) -> str:
    return json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _runs(source: Path, target: Path) -> Iterator[Path]:
    flows = pl.read_parquet(source / "flows.parquet")
    names = flows.columns
    factors = names[names.index("trial") + 1 : names.index("flow")]
    series = ds.dataset(source / "series.parquet")
    columns = ["time_s", "flow", "goodput_mbps", "srtt_ms", "cwnd_packets"]
    for (run,), rows in flows.group_by("run", maintain_order=True):
        table = series.to_table(columns=columns, filter=(ds.field("run") == run) & ds.field("flow").is_valid())
        first = rows.row(0, named=True)
        levels = [f"{name} = {first[name]}" for name in factors if first[name] is not None]
        title = ", ".join([first["experiment"], *levels, f"trial {first['trial']}"])
        path = target / f"{first['experiment']}-{run}.flent.gz"
        document = _flent(pl.DataFrame(table), rows, title, path.name)
        # Without a time in the header, equal results give equal files.
        path.write_bytes(gzip.compress(json.dumps(document, sort_keys=True).encode(), mtime=0))
        yield path


def _flent(series: pl.DataFrame, flows: pl.DataFrame, title: str, name: str) -> dict[str, Any]:
    times = series["time_s"].unique().sort().to_list()
    results: dict[str, list[float | None]] = {}
    raw: dict[str, list[dict[str, float]]] = {}
    about: dict[str, dict[str, Any]] = {}
    for number, flow in enumerate(flows.iter_rows(named=True), start=1):
        key = f"TCP upload::{number}"
        rows = {row["time_s"]: row for row in series.filter(pl.col("flow") == flow["flow"]).iter_rows(named=True)}
        results[key] = [rows[time]["goodput_mbps"] if time in rows else None for time in times]
        raw[key] = [_raw(time, row) for time, row in rows.items()]
        about[key] = {
            "UNITS": "Mbits/s",
            "MEAN_VALUE": flow["goodput_mbps"],
            "CONG_CONTROL": flow["cc"],
            "FLOW": flow["flow"],
            "COUNT": flow["count"],
        }
    together = [[value or 0.0 for value in column] for column in zip(*results.values(), strict=True)]
    results["TCP upload sum"] = [math.fsum(values) for values in together]
    results["TCP upload avg"] = [math.fsum(values) / len(values) for values in together]
    step = times[1] - times[0] if len(times) > 1 else times[0] if times else 1.0
    length = times[-1] if times else 0.0
    metadata = {
        "NAME": "tcp_nup",
        "TITLE": title,
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
        "TEST_PARAMETERS": {"upload_streams": str(len(flows))},
        "FLENT_VERSION": _FLENT,
        "DATA_FILENAME": name,
        "SERIES_META": about,
    }
    return {"version": _VERSION, "metadata": metadata, "x_values": times, "results": results, "raw_values": raw}


def _raw(time: float, row: dict[str, Any]) -> dict[str, float]:
    values = {"val": row["goodput_mbps"], "tcp_rtt": row["srtt_ms"], "tcp_cwnd": row["cwnd_packets"]}
    moment = (_START + timedelta(seconds=time)).timestamp()
    return {"t": moment} | {name: value for name, value in values.items() if value is not None}


def _date(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
