"""Frames of polars in DuckDB and in Parquet files.

Both libraries speak Arrow's C interface. The functions that they have for each other import pyarrow, which is as large
as polars. These do not.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import polars as pl
from polars.io.plugins import register_io_source

if TYPE_CHECKING:
    import duckdb

# A file that is larger than the memory is read in groups of this many rows.
_ROWS = 100_000


class _Stream:
    """A frame as an Arrow stream only, because DuckDB reads a DataFrame with pyarrow."""

    def __init__(self, frame: pl.DataFrame):
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


@cache
def _database(_process: int) -> duckdb.DuckDBPyConnection:
    import duckdb

    # One thread: sums of floats must not depend on the machine.
    return duckdb.connect(config={"threads": "1", "enable_external_access": "false"})


def connect() -> duckdb.DuckDBPyConnection:
    """A connection to an empty database without access to files and network. Temporary tables and what is registered
    are its own; they end with it. To open a database takes 14 ms, so there is one in each process.
    """
    return _database(os.getpid()).cursor()


def register(connection: duckdb.DuckDBPyConnection, name: str, frame: pl.DataFrame) -> None:
    """Make a frame the table `name` of a database."""
    connection.register(name, _Stream(frame))


def fetch(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """The rows of a query."""
    return pl.DataFrame(relation)


def batches(path: Path, columns: Iterable[str] | None = None) -> Iterator[pl.DataFrame]:
    """The rows of a Parquet file in parts and in order, at least one, which may be empty."""
    file = pl.scan_parquet(path)
    rows = file if columns is None else file.select(columns)
    empty = True
    for frame in rows.collect_batches(maintain_order=True, chunk_size=_ROWS):
        empty = False
        yield frame
    if empty:
        yield pl.DataFrame(schema=rows.collect_schema())


def footer(file: IO[bytes]) -> io.BytesIO:
    """The end of a Parquet file: a file that has its schema and metadata, and is none where that one is none."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 8, 0))
    length = int.from_bytes(file.read(8)[:4], "little") + 8
    file.seek(max(size - length, 0))
    return io.BytesIO(b"PAR1" + file.read())


class _Writer(io.RawIOBase):
    """Keeps the error of the disk, of which polars does not tell everything."""

    def __init__(self, file: IO[bytes]):
        super().__init__()
        self._file = file
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        try:
            return self._file.write(content)
        except OSError as error:
            self.error = error
            raise


def lazy(schema: pl.Schema, frames: Iterable[pl.DataFrame]) -> pl.LazyFrame:
    """Frames of one schema, which are asked for one after the other and once."""
    return register_io_source(lambda *_: iter(frames), schema=schema)


def write(rows: pl.LazyFrame, file: IO[bytes], group: int = _ROWS, metadata: Mapping[str, str] | None = None) -> None:
    """Write a Parquet file with groups of so many rows; some of them at once are in memory.

    Raises OSError where the disk does not take it.
    """
    writer = _Writer(file)
    try:
        rows.sink_parquet(
            cast(IO[bytes], writer),
            compression="zstd",
            row_group_size=group,
            maintain_order=True,
            metadata=dict(metadata or {}),
        )
    except pl.exceptions.PolarsError:
        if writer.error is not None:
            raise writer.error from None
        raise
