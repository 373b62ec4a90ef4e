"""The claims of the study dualpi2-linux hold on its own runs, each can turn, and its page has its numbers."""

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
FILES = study("dualpi2-linux")
EXPERIMENTS = [experimentfile.load(file) for file in FILES]
CLAIMS = {claim.id: claim for experiment in EXPERIMENTS for claim in experiment.tables(claims.Claim)}

# For each claim two levels of a factor whose rows are exchanged for the verdict to turn.
SWAPS: dict[str, tuple[str, Any, Any]] = {
    "alone-one-is-free-from-8-mbit": ("remedy", "min_qlen_step 1", "step_thresh 5ms"),
    "alone-two-is-not": ("remedy", "min_qlen_step 1", "min_qlen_step 2"),
    "alone-a-longer-step-stands": ("remedy", "default", "step_thresh 2ms"),
    "alone-packets-waste": ("remedy", "min_qlen_step 1", "step_thresh 1p"),
    "bursts-law": ("n", 0, 1),
    "bursts-alone-in-l": ("n", 0, 1),
    "bursts-no-licence": ("n", 0, 1),
    "frames-one-and-two": ("n", 0, 1),
    "rates-collapse": ("n", 0, 1),
    "rates-two-frames": ("n", 0, 2),
    "rates-window": ("n", 0, 2),
    "rates-buys-nothing": ("mbps", 1, 100),
    "remedies-it-is-the-gate": ("remedy", "default", "RFC 9332"),
    "remedies-cost-beside-cubic": ("remedy", "default", "min_qlen_step 1"),
    "remedies-two-adds-little": ("remedy", "min_qlen_step 2", "DOCSIS"),
    "remedies-docsis-counts-its-own": ("remedy", "default", "DOCSIS"),
    "numbers-default-is-worst": ("n", 0, 1),
    "short-flows-take-longer": ("n", 0, 2),
    "one-does-most": ("n", 0, 1),
}


@pytest.fixture(scope="module")
def writer() -> dict[str, Any]:
    """What writes the page's tables."""
    return runpy.run_path(str(ROOT / "docs" / "tables.py"))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> l4slab.Results:
    found = l4slab.run(FILES, out=tmp_path_factory.mktemp("dualpi2-linux") / "out")
    assert not found.failures
    return found


@pytest.fixture(scope="module")
def tables(results: l4slab.Results) -> dict[str, pl.DataFrame]:
    return {"flows": results.flows, "links": results.links}


def verdicts(tables: dict[str, pl.DataFrame]) -> dict[str, str]:
    found = claims.evaluate(EXPERIMENTS, tables)
    return dict(found.select("id", "verdict").iter_rows())


def test_every_claim_has_a_case_that_turns_it() -> None:
    assert set(SWAPS) == set(CLAIMS)
    assert all(claim.says and claim.kind == "found" for claim in CLAIMS.values())


def test_the_kernels_tables_are_of_these_runs(writer: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "dualpi2-linux.md").read_text("utf-8")
    for name in writer["BOTH"]:
        assert f"<!-- {name}: written by docs/tables.py of {writer['mark']()} -->" in page, name


@pytest.mark.slow
def test_each_claim_holds(tables: dict[str, pl.DataFrame]) -> None:
    assert set(verdicts(tables).values()) == {"holds"}


@pytest.mark.slow
@pytest.mark.parametrize("name", SWAPS)
def test_a_claim_turns(name: str, tables: dict[str, pl.DataFrame]) -> None:
    column, one, other = SWAPS[name]
    exchange = pl.col(column).replace({one: other, other: one})
    swapped = {table: rows.with_columns(exchange) for table, rows in tables.items()}
    assert verdicts(swapped)[name] == "fails"


@pytest.mark.slow
def test_no_claim_holds_about_nothing(tables: dict[str, pl.DataFrame]) -> None:
    nothing = {name: table.clear() for name, table in tables.items()}
    assert "holds" not in verdicts(nothing).values()


@pytest.mark.slow
def test_the_page_has_the_simulators_numbers(results: l4slab.Results, writer: dict[str, Any]) -> None:
    assert writer["stale"]("dualpi2-linux", results.folder) == []
