"""The claims of the study call hold on its own runs, each can turn, and its page has its numbers."""

from __future__ import annotations

import runpy
from pathlib import Path

import l4slab
import polars as pl
import pytest
from l4slab import experimentfile
from l4slab.base.packaged import study
from l4slab.results import claims

ROOT = Path(__file__).parents[2]
FILES = study("call")
EXPERIMENTS = [experimentfile.load(file) for file in FILES]
CLAIMS = {claim.id: claim for experiment in EXPERIMENTS for claim in experiment.tables(claims.Claim)}

# For each claim two levels of a factor whose rows are exchanged for the verdict to turn.
SWAPS = {
    "alone-all-work": ("rivals", "none", "1 CUBIC"),
    "fifo-beside-a-loss-based-flow": ("line", "FIFO of 100 ms", "cake"),
    "ect1-saves-frames": ("sender", "SCReAM, ECT(1)", "SCReAM, Not-ECT"),
    "ect1-is-faster": ("sender", "SCReAM, ECT(1)", "GCC"),
    "ect1-costs-rate": ("sender", "SCReAM, ECT(1)", "SCReAM, Not-ECT"),
    "fair-queueing-needs-no-ect1": ("line", "fq_codel", "FIFO of 100 ms"),
    "fair-queueing-marks-instead-of-dropping": ("sender", "SCReAM, ECT(1)", "SCReAM, Not-ECT"),
    "a-slow-encoder-keeps-what-a-dualq-gives": ("sender", "SCReAM, ECT(1)", "SCReAM, Not-ECT"),
    "a-slow-encoder-spends-what-marks-save": ("encoder", "VP8", "even"),
}


def test_every_claim_has_a_case_that_turns_it() -> None:
    assert set(SWAPS) == set(CLAIMS)
    assert all(claim.says and claim.kind == "found" for claim in CLAIMS.values())


@pytest.mark.slow
def test_claims_hold_and_turn(tmp_path_factory: pytest.TempPathFactory) -> None:
    results = l4slab.run(FILES, out=tmp_path_factory.mktemp("call") / "out")
    assert not results.failures

    def verdicts(flows: pl.DataFrame) -> dict[str, str]:
        return dict(claims.evaluate(EXPERIMENTS, {"flows": flows}).select("id", "verdict").iter_rows())

    assert set(verdicts(results.flows).values()) == {"holds"}
    for name, (factor, one, other) in SWAPS.items():
        swapped = results.flows.with_columns(pl.col(factor).cast(pl.String).replace({one: other, other: one}))
        assert verdicts(swapped)[name] == "fails", name

    assert runpy.run_path(str(ROOT / "docs" / "tables.py"))["stale"]("call", results.folder) == []
