"""The claims of the safer-dctcp study, on runs of its own files: each holds, and each can come out the other way."""

from __future__ import annotations

import tomllib
from pathlib import Path

import l4slab
import polars as pl
import pytest
from l4slab import experimentfile
from l4slab.api.experiment import Experiment, to_toml
from l4slab.base.packaged import study
from l4slab.results import claims

from . import studies

pytestmark = pytest.mark.slow

FILES = study("safer-dctcp")
EXPERIMENTS = [experimentfile.load(file) for file in FILES]
CLAIMS = {claim.id: claim for experiment in EXPERIMENTS for claim in experiment.tables(claims.Claim)}

# For each claim two levels of a factor whose rows are exchanged for the verdict to turn.
SWAPS = {
    "loss-both-halve": ("sender", "prague", "prague ignoring losses"),
    "loss-ignored-starves": ("sender", "dctcp", "prague ignoring losses"),
    "small-windows-dctcp-queues": ("sender", "dctcp", "prague"),
    "small-windows-prague-does-not": ("sender", "dctcp", "prague"),
    "negotiation-dctcp-refused": ("peer", "like the sender", "ordinary"),
    "negotiation-dctcp-misreads": ("peer", "like the sender", "ordinary"),
    "negotiation-prague-does-without": ("peer", "like the sender", "ordinary"),
    "negotiation-prague-has-accecn": ("peer", "like the sender", "ordinary"),
    "classic-queues-starve-cubic": ("sender", "dctcp", "prague with fallback"),
    "classic-queues-are-detected": ("sender", "prague", "prague with fallback"),
    "rtts-dctcp-depends-on-them": ("sender", "dctcp", "prague"),
    "rtts-prague-does-not": ("sender", "dctcp", "prague"),
    "long-path-prague-uses-more": ("sender", "dctcp", "prague"),
    "long-path-neither-fills-it": ("flow.l4s.rtt", "20ms", "160ms"),
    "prague-has-four-by-default": ("sender", "prague", "prague with fallback"),
}


def shorter(file: Path) -> Experiment:
    """A sender that ignores losses repeats each packet a hundred times, and a minute of that takes a minute."""
    document = tomllib.loads(file.read_text("utf-8")) | {"duration": "15s", "warmup": "5s"}
    return Experiment.from_toml(to_toml(document), file.stem)


@pytest.fixture(scope="module")
def tables() -> dict[str, pl.DataFrame]:
    files = [shorter(file) if file.stem == "loss" else file for file in FILES]
    found = l4slab.run(files, trials={experiment.name: 1 for experiment in EXPERIMENTS})
    assert not found.failures
    return {"flows": found.flows, "links": found.links, "series": found.series}


def verdicts(tables: dict[str, pl.DataFrame], *names: str) -> dict[str, str]:
    return studies.verdicts(EXPERIMENTS, tables, *names)


def test_each_claim_holds(tables: dict[str, pl.DataFrame]) -> None:
    assert set(verdicts(tables).values()) == {"holds"}


def test_every_claim_has_a_case_that_turns_it() -> None:
    assert set(SWAPS) == set(CLAIMS)
    # The slide asks for things and states nothing.
    assert all(claim.says and claim.kind == "found" for claim in CLAIMS.values())


@pytest.mark.parametrize("name", SWAPS)
def test_a_claim_turns(name: str, tables: dict[str, pl.DataFrame]) -> None:
    column, one, other = SWAPS[name]
    # Only where both levels exist.
    both = [key for (key,), rows in tables["flows"].group_by("experiment") if {one, other} <= set(rows[column])]
    there = pl.col("experiment").is_in(both)
    exchange = pl.when(there).then(pl.col(column).replace({one: other, other: one})).otherwise(pl.col(column))
    swapped = {table: rows.with_columns(exchange.alias(column)) for table, rows in tables.items()}
    assert verdicts(swapped, name)[name] == "fails"


def test_no_claim_holds_about_nothing(tables: dict[str, pl.DataFrame]) -> None:
    nothing = {name: table.clear() for name, table in tables.items()}
    assert "holds" not in verdicts(nothing).values()
