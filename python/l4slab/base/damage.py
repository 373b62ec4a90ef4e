"""Parquet files that were truncated or overwritten: which one it is, where reading fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from l4slab.base.errors import InputError, L4slabError


def is_readable(file: Path | IO[bytes]) -> bool:
    """Whether every row of a Parquet file can be read."""
    import polars as pl

    try:
        for _ in pl.scan_parquet(file).collect_batches():
            pass
    except (pl.exceptions.PolarsError, OSError):
        return False
    return True


def damaged(folder: Path) -> Path | None:
    """The first Parquet file in a folder that cannot be read."""
    return next((file for file in sorted(folder.glob("*.parquet")) if not is_readable(file)), None)


@contextmanager
def told(folder: Path, place: Path | str) -> Iterator[None]:
    """Raise InputError if the body fails because a table in `folder`, called `place` by the user, is damaged."""
    try:
        yield
    except L4slabError:
        raise
    except Exception:
        # Each library that reads tables has its own errors. Only those of a damaged table are turned into a message.
        if (file := damaged(folder)) is None:
            raise
        message = f"is damaged and cannot be read; write it again with: l4slab report {place}"
        raise InputError(message, file=Path(place) / file.name) from None
