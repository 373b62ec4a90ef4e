"""Digests of results: equal for equal values, whatever wrote them, in whichever order and parts.

* of a run's rows in a table: SHA-256 over their number and the columns that have a value, by name: name, kind and size;
  for each row a byte, 1 where it has no value; and the values, as little-endian floats of 8 bytes or as texts that a
  zero byte separates
* of a run: SHA-256 over these digests, by the table's name
* of a table: SHA-256 over its runs in order: their labels, and the digest of their rows
"""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

import polars as pl
from polars import selectors as cs

from l4slab import _core
from l4slab.base.values import Keys
from l4slab.engines.contract import digest

# Libraries whose version may decide the last bits of a mean or the bytes of a figure.
_LIBRARIES = ("polars", "duckdb", "matplotlib")
# Behind the name of a column: where it has no value.
_GAPS = "\0"
# Of a run without rows in a table.
EMPTY = hashlib.sha256(b"0").hexdigest()
_SOURCES = (".py", ".j2", ".js", ".css")


def of_rows(rows: pl.DataFrame) -> str:
    """The digest of a run's rows without their labels, in their order."""
    return _digests(rows, [len(rows)])[0]


def of_runs(rows: pl.DataFrame) -> dict[str, str]:
    """The digests of the rows of each run of the column `run`, which stand together. One that has none is not there."""
    parts = rows["run"].rle().struct.unnest()
    return dict(zip(parts["value"], _digests(rows.drop("run"), parts["len"].to_list()), strict=True))


def _digests(rows: pl.DataFrame, lengths: Sequence[int]) -> list[str]:
    """The digests of so many rows each. All have one query, which takes longer than the rest."""
    names = sorted(column.name for column in rows if column.null_count() < len(rows))
    # Whether a number is whole depends on the other runs of its table. Machines differ in the sign of a NaN.
    numbers = cs.numeric() | cs.boolean()
    values = rows.select(
        numbers.cast(pl.Float64).fill_nan(float("nan")).fill_null(0.0),
        ~numbers,
        *(pl.col(name).is_null().cast(pl.UInt8).alias(f"{name}{_GAPS}") for name in names),
    )
    columns = [(name, bytes(values[f"{name}{_GAPS}"].to_list()), _content(values[name])) for name in names]
    found, start = [], 0
    for length in lengths:
        end = start + length
        whole = hashlib.sha256(str(length).encode())
        for name, all_gaps, content in columns:
            gaps = all_gaps[start:end]
            if 0 not in gaps:
                continue
            if isinstance(content, list):
                kind, part = "text", "\0".join(content[start:end]).encode()
            else:
                kind, part = "number", content[8 * start : 8 * end]
            whole.update(f"{name}\0{kind}\0{len(part)}\0".encode())
            whole.update(gaps)
            whole.update(part)
        found.append(whole.hexdigest())
        start = end
    return found


def _content(column: pl.Series) -> list[str] | bytes:
    """Numbers as little-endian floats of 8 bytes, everything else as texts."""
    if column.dtype != pl.Float64:
        texts = column.to_list()
        return [one if isinstance(one, str) else "" if one is None else json.dumps(one) for one in texts]
    numbers = array("d", column.to_list())
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


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
