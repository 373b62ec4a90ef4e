"""Runs with the same results are computed once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import polars as pl

from l4slab.engines.contract import Recording
from l4slab.engines.registry import get_engine
from l4slab.sweep import Run


def grouped(runs: Iterable[Run]) -> list[list[Run]]:
    """Groups of runs with the same results, in the order of their first runs. A run with captures is alone: packets may
    differ in bits that no table has.
    """
    groups: dict[bytes, list[Run]] = {}
    for run in runs:
        same = run.id if run.captures else get_engine(run.engine).normal(run.json)
        groups.setdefault(hashlib.sha256(f"{run.engine} {same}".encode()).digest(), []).append(run)
    return list(groups.values())


def recording_of(run: Run, other: Recording) -> Recording:
    """The recording of a run from that of another run of its group. They differ in columns without a value."""
    columns = get_engine(run.engine).columns(run.description)
    return Recording(**{name: _with_columns(getattr(other, name), schema) for name, schema in columns.items()})


def _with_columns(table: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    return table.select(
        pl.col(name) if name in table.columns else pl.lit(None, dtype).alias(name) for name, dtype in schema.items()
    )
