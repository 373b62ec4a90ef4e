"""Results for other programs: tables as CSV or JSON, runs as data files of flent, connections as qlog.

DIR/export/csv/NAME.csv    a table each; a list in a cell is written as JSON
DIR/export/json/NAME.json  a table each, as a list of rows
DIR/export/flent/EXPERIMENT-RUN.flent.gz
                           a run each (`l4slab.results.flent`)
DIR/export/qlog/EXPERIMENT-RUN-FLOW-MEMBER.sqlog
                           a TCP connection each, of which there is a capture (`l4slab.results.qlog`)
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Literal, get_args

import polars as pl

from l4slab.base import damage, frames
from l4slab.base.errors import InputError
from l4slab.base.paths import told, usable
from l4slab.results import flent, qlog

Form = Literal["csv", "json", "flent", "qlog"]
FORMS: tuple[Form, ...] = get_args(Form)


def export(
    folder: Path | str, form: Form, to: Path | str | None = None, run: str | None = None, flow: str | None = None
) -> list[Path]:
    """Write what a results folder has into `to` (default: DIR/export/FORM); the files.

    Of qlog, only those of a `run` and a `flow` where they are given.

    Raises InputError where it is no results folder, StoreError where the disk is full.
    """
    source = usable(folder)
    if not (source / "flows.parquet").is_file():
        raise InputError(
            'has no tables to export; give a DIR that "l4slab run --out DIR" has finished, or finish it with: '
            f"l4slab report {folder}",
            file=folder,
        )
    target = source / "export" / form if to is None else usable(to)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with damage.told(source, folder):
            if form == "flent":
                return list(flent.export(source, target))
            if form == "qlog":
                return list(qlog.export(source, target, run, flow))
            write = _csv if form == "csv" else _json
            return [write(path, target / f"{path.stem}.{form}") for path in sorted(source.glob("*.parquet"))]
    except OSError as error:
        raise told(error, target) from None


def _csv(path: Path, target: Path) -> Path:
    with target.open("wb") as file:
        for number, frame in enumerate(frames.batches(path)):
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
        for frame in frames.batches(path):
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
