"""Verdicts on the claims of a study."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import polars as pl
from l4slab.experimentfile import Experiment
from l4slab.results import claims


def verdicts(experiments: Sequence[Experiment], tables: Mapping[str, pl.DataFrame], *names: str) -> dict[str, str]:
    """The verdicts on these claims, or on all, by id."""
    asked = [
        dataclasses.replace(
            e, document=e.document | {"claim": [c for c in e.document["claim"] if not names or c["id"] in names]}
        )
        for e in experiments
    ]
    return dict(claims.evaluate(asked, tables).select("id", "verdict").iter_rows())
