"""The claims of the study home hold on its own runs, each can turn, and its page has its numbers."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import l4slab
import polars as pl
import pytest
from l4slab import experimentfile
from l4slab.base.packaged import study
from l4slab.results import claims

ROOT = Path(__file__).parents[2]
FILES = study("home")
EXPERIMENTS = [experimentfile.load(file) for file in FILES]
CLAIMS = {claim.id: claim for experiment in EXPERIMENTS for claim in experiment.tables(claims.Claim)}

# For each claim two levels of a factor whose rows are exchanged for the verdict to turn.
SWAPS: dict[str, tuple[str, Any, Any]] = {
    "the-narrow-place-decides": ("place", "modem", "access point"),
    "stations-move-the-bottleneck": ("stations", 1, 8),
    "both-are-needed": ("place", "both", "modem"),
    "a-fifo-hurts-aggregation": ("stations", 1, 8),
    "calls-in-time": ("place", "both", "neither"),
    "bbr-is-kept-apart-by-stations": ("stations", 1, 3),
    "the-rest-is-in-the-air": ("place", "both", "neither"),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> l4slab.Results:
    found = l4slab.run(FILES, out=tmp_path_factory.mktemp("home") / "out")
    assert not found.failures
    return found


@pytest.fixture(scope="module")
def tables(results: l4slab.Results) -> dict[str, pl.DataFrame]:
    return {"flows": results.flows, "links": results.links}


def verdicts(tables: dict[str, pl.DataFrame]) -> dict[str, str]:
    return dict(claims.evaluate(EXPERIMENTS, tables).select("id", "verdict").iter_rows())


def test_every_claim_has_a_case_that_turns_it() -> None:
    assert set(SWAPS) == set(CLAIMS)
    assert all(claim.says and claim.kind == "found" for claim in CLAIMS.values())


@pytest.mark.slow
def test_each_claim_holds_and_turns(tables: dict[str, pl.DataFrame]) -> None:
    assert set(verdicts(tables).values()) == {"holds"}
    for name, (column, one, other) in SWAPS.items():
        exchange = pl.col(column).replace({one: other, other: one})
        swapped = {
            table: rows.with_columns(exchange) if column in rows.columns else rows for table, rows in tables.items()
        }
        assert verdicts(swapped)[name] == "fails", name
    nothing = {table: rows.clear() for table, rows in tables.items()}
    assert "holds" not in verdicts(nothing).values()


@pytest.mark.slow
def test_the_page_has_the_simulators_numbers(results: l4slab.Results) -> None:
    assert runpy.run_path(str(ROOT / "docs" / "tables.py"))["stale"]("home", results.folder) == []
