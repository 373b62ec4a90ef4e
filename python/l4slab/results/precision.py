"""Runs that end when they are precise, in words."""

from __future__ import annotations

import polars as pl

from l4slab.base.numbers import plain


def sentences(flows: pl.DataFrame) -> list[str]:
    """How many of the runs were precise, and when they ended; nothing of files that ask for no precision."""
    if "is_precise" not in flows.columns:
        return []
    runs = flows.drop_nulls("is_precise").unique(["experiment", "run", "trial"])
    if runs.is_empty():
        return []
    precise = runs["is_precise"].sum()
    first, last = map(plain, runs.select(pl.col("ended_s").min().alias("first"), pl.col("ended_s").max()).row(0))
    when = first if first == last else f"{first} to {last}"
    told = [f"{precise} of {len(runs)} runs reached the precision of their file; the runs ended after {when} s."]
    if precise < len(runs):
        told.append("The columns is_precise and half_width say how precise the others are; a longer duration may do.")
    return told
