"""Everything that a search has tried: a row per point, kept as `tried.parquet` beside the tables of its runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from l4slab.base import metrics
from l4slab.base.errors import InputError
from l4slab.base.values import Keys
from l4slab.campaign.store import Store
from l4slab.experimentfile import Level
from l4slab.tools.search.objective import Value

TRIED = "tried"
_SETTINGS = "search.json"
_AGAIN = "give --out another folder, or the same settings as before"
_SCHEMA = {
    "number": pl.Int64(),
    "value": pl.Float64(),
    "spread": pl.Float64(),
    "harm": pl.Boolean(),
    "values": pl.List(pl.Float64()),
    "runs": pl.List(pl.String()),
    "why": pl.String(),
}
COLUMNS = tuple(_SCHEMA)


@dataclass(frozen=True)
class Tried:
    """A point of the space, counted from 1, and what came of it.

    `why`: why there is no value, or "". `first`: the earlier point that has the same runs.
    """

    number: int
    levels: dict[str, Level]
    value: Value
    harm: bool
    runs: tuple[str, ...]
    why: str = ""
    first: int | None = None

    def row(self) -> Keys:
        """As in the table, without the levels."""
        return {
            "number": self.number,
            "value": self.value.mean,
            "spread": self.value.spread,
            "harm": self.harm,
            "values": [*self.value.numbers],
            "runs": [*self.runs],
            "why": self.why or None,
        }


def table(points: Sequence[Tried], names: Sequence[str]) -> pl.DataFrame:
    """A row per point in the order in which they were tried: its number, its levels, what came of it."""
    rows = pl.DataFrame([one.row() for one in points], schema=_SCHEMA)
    levels = {name: [one.levels[name] for one in points] for name in names}
    schema = metrics.labels_schema(levels)
    columns = []
    for name, values in levels.items():
        text = not metrics.is_numeric(values)
        columns.append(pl.Series(name, map(metrics.level_text, values) if text else values, schema[name], strict=False))
    return rows.select("number").hstack(columns).hstack(rows.drop("number"))


def known(folder: Path) -> dict[tuple[str, ...], Value]:
    """The objective's values in an earlier part of this search, by the ids of a point's runs."""
    file = folder / f"{TRIED}.parquet"
    if not file.is_file():
        return {}
    rows = pl.read_parquet(file, columns=["runs", "values", "why"]).filter(pl.col("why").is_null())
    return {tuple(runs): Value(tuple(values)) for runs, values, _ in rows.iter_rows()}


def claim_folder(store: Store, settings: Keys) -> None:
    """Note the settings of the search in its folder. Raises InputError where another search is there."""
    file = store.folder / _SETTINGS
    if file.is_file():
        before = json.loads(file.read_bytes())
        for key, value in settings.items():
            if before.get(key) != value:
                what = f"another {key}" + ("" if key == "file" else f" ({before.get(key)})")
                raise InputError(f"has a search with {what}; {_AGAIN}", file=store.place)
    elif store.experiment_files():
        raise InputError("has results of l4slab run; give --out another folder", file=store.place)
    else:
        file.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
