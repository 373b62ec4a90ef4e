"""A controller with a planted fault fails the rows that the fault is about, and no others.

The controller is the example in C of docs/ci.md, which answers the extent of marks. Its card has the places in which
the faults are to be seen: a FIFO without marks, and queues that mark.

PLANTED=all in the environment asks for the unchanged controller with eleven seeds and the faults with four.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from l4slab.api.experiment import Experiment, to_toml
from l4slab.tools import check
from l4slab.tools.check.baseline import Baseline

ROOT = Path(__file__).resolve().parents[2]
# Of the suite's experiments, the places that are left.
PLACES = {
    "share": {"mbit": [10], "ms": [10], "n_bdp": [1, 2]},
    "queues": {"aqm": ["dualpi2"]},
    "marks": {},
    "codepoint": {},
}
FAULTS = {
    "unchanged": [],
    "half the answer to marks": [("self->alpha / 2", "self->alpha / 4")],
    "a window of ten at least": [("target > 2", "target > 10"), ("(uint32_t)target : 2;", "(uint32_t)target : 10;")],
}
OF_MARKS = {"scalable", "answers-marks", "queues"}
OF_SMALL_WINDOWS = {"loss-response", "share-of-reno", "share-of-cubic", "harm-delay", "harm-loss"}


# The first is the suite's own. Each seed has trials of its own, and the references stay.
SEEDS = [1, *range(101, 111)] if os.environ.get("PLANTED") == "all" else [1, 101]
WITH_FAULTS = SEEDS[1:5] if len(SEEDS) > 2 else SEEDS[1:]
Judge = Callable[..., check.Card]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """The card of a controller and a seed; the runs of the references are shared."""
    folder = tmp_path_factory.mktemp("planted")
    source = (ROOT / "examples" / "ci" / "controller" / "scalable.c").read_text("utf-8")
    for number, changes in enumerate(FAULTS.values()):
        code = source
        for old, new in changes:
            assert old in code
            code = code.replace(old, new)
        (folder / "one.c").write_text(code, "utf-8")
        include = ROOT / "python" / "l4slab" / "own" / "include"
        command = ["cc", "-std=c11", "-O2", "-fPIC", "-shared", "-I", str(include), "-o", f"libone{number}.so", "one.c"]
        subprocess.run(command, check=True, cwd=folder)
    before = Path.cwd()
    os.chdir(folder)

    @cache
    def of(fault: str = "unchanged", seed: int = SEEDS[0]) -> check.Card:
        asked = reduced(check.suite(f"./libone{[*FAULTS].index(fault)}.so"), seed)
        return check.judge(asked, out=folder / "runs")

    yield of
    os.chdir(before)


def reduced(asked: check.Suite, seed: int) -> check.Suite:
    kept = []
    for experiment in asked.experiments:
        if experiment.name in PLACES:
            document = experiment.written() | {"figure": [], "seed": seed}
            document["sweep"] = document.get("sweep", {}) | PLACES[experiment.name]
            kept.append(Experiment.from_toml(to_toml(document), experiment.name))
    asked.experiments[:] = kept
    asked.claims[:] = [claim for claim in asked.claims if claim[0] in PLACES]
    return asked


def verdicts(card: check.Card) -> dict[str, str]:
    return {item.id: item.verdict for item in card.items}


def worse(card: check.Card, than: check.Card) -> set[str]:
    """As `l4slab check --baseline --fail-on 4%` tells."""
    numbers = {item.id: item.measured for item in than.items if isinstance(item.measured, int | float)}
    baseline = Baseline(Path("card.json"), than.engine, than.cc, "0", verdicts(than), numbers, 0.04)
    return {item.id for item in baseline.worse(card)}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("seed", WITH_FAULTS)
def test_a_fault_fails_its_rows_and_no_others(judge: Judge, seed: int) -> None:
    plain = judge(seed=seed)
    assert not plain.failures
    assert set(verdicts(plain)) > OF_MARKS | OF_SMALL_WINDOWS
    marks, floor = judge("half the answer to marks", seed), judge("a window of ten at least", seed)
    # The documents bound no answer to marks so tightly: it is the numbers that tell.
    assert worse(marks, plain) == OF_MARKS
    assert verdicts(marks) == verdicts(plain)
    assert worse(floor, plain) == OF_SMALL_WINDOWS
    assert {name for name, verdict in verdicts(floor).items() if verdict == "fail"} == OF_SMALL_WINDOWS
    assert not worse(plain, plain)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_unchanged_controller_passes_with_each_seed(judge: Judge) -> None:
    for seed in SEEDS:
        assert set(verdicts(judge(seed=seed)).values()) == {"pass"}, seed
