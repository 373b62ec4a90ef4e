"""Digests of results: equal for equal values, whatever wrote them, in whichever order and parts.

digest of a run's rows in a table   SHA-256 over the columns that have a value, by name: name, type, the places
                                    without a value, and the values as 8-byte little-endian numbers or JSON
digest of a run                     SHA-256 over these digests, by the table's name
digest of a table                   SHA-256 over its runs in order: their labels, and the digest of their rows
"""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

import polars as pl

from l4slab import _core
from l4slab.base.values import Keys
from l4slab.engines.contract import digest

# Libraries whose version may decide the last bits of a mean or the bytes of a figure.
_LIBRARIES = ("polars", "duckdb", "matplotlib")
_SOURCES = (".py", ".j2", ".js", ".css")


def of_rows(rows: pl.DataFrame) -> str:
    """The digest of rows without their labels, in their order. A column without any value does not count."""
    whole = hashlib.sha256(str(len(rows)).encode())
    for name in sorted(rows.columns):
        column = rows[name]
        if (nulls := column.null_count()) == len(column):
            continue
        gaps = _numbers("Q", column.is_null().arg_true()) if nulls else b""
        kind, values = _values(column.drop_nulls() if nulls else column)
        whole.update(json.dumps([name, kind, len(gaps), len(values)]).encode())
        whole.update(gaps)
        whole.update(values)
    return whole.hexdigest()


def _values(column: pl.Series) -> tuple[str, bytes]:
    """The column's type and its values; it has no NULL."""
    if column.dtype.is_float():
        number = column.cast(pl.Float64)
        # Machines differ in the sign of a NaN.
        return "float", _numbers("d", number.fill_nan(float("nan")) if number.is_nan().any() else number)
    if column.dtype.is_integer() or column.dtype == pl.Boolean:
        return "integer", _numbers("q", column.cast(pl.Int64))
    return "text", json.dumps(column.cast(pl.String).to_list(), ensure_ascii=False).encode()


def _numbers(code: str, column: pl.Series) -> bytes:
    found = array(code, column.to_list())
    if sys.byteorder == "big":
        found.byteswap()
    return found.tobytes()


def of_run(tables: Mapping[str, str]) -> str:
    """The digest of a run, from those of its rows by table."""
    return hashlib.sha256(json.dumps(sorted(tables.items())).encode()).hexdigest()


def of_table(labels: pl.DataFrame, rows: Mapping[str, str]) -> str:
    """The digest of a table, from the labels of its runs and the digests of their rows by run.

    A run's id does not count, which another build of the engine has otherwise.
    """
    others = labels.drop("run")
    lines = [[*row, rows[run]] for run, row in zip(labels["run"], others.rows(), strict=True)]
    return hashlib.sha256(json.dumps([others.columns, lines], ensure_ascii=False).encode()).hexdigest()


@cache
def build() -> str:
    """16 hex digits of the code that writes tables and report: this package and its core."""
    folder = Path(__file__).parents[1]
    sources = sorted(path for path in folder.rglob("*") if path.suffix in _SOURCES and "__pycache__" not in path.parts)
    return digest(
        _core.source_hash(), *(part for path in sources for part in (path.relative_to(folder).as_posix(), path))
    )


def writer() -> Keys:
    """What writes results here: the version of l4slab, its build, and the libraries that decide bits."""
    return {"l4slab": _core.version(), "build": build(), "libraries": dict(libraries())}


@cache
def libraries() -> dict[str, str]:
    """The versions of the libraries that are there."""
    found = {}
    for name in _LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
