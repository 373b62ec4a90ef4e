"""docs/atlas.md, the map and the distances: of what the package simulates now."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
from l4slab import campaign
from l4slab.advice import laboratories, runs
from l4slab.advice.atlas import Cell, cells
from l4slab.advice.distance import LEVELS, coverage, distances


@pytest.fixture(scope="module")
def page(docs_script: Callable[[str], ModuleType]) -> ModuleType:
    return docs_script("advise")


@pytest.fixture(scope="module")
def drawn(docs_script: Callable[[str], ModuleType]) -> ModuleType:
    return docs_script("atlas")


def part(module: ModuleType) -> str:
    """Of the page, what the script writes."""
    text: str = module.PAGE.read_text("utf-8")
    return text.partition(module.BEGIN)[2].partition(module.END)[0]


def test_the_page_has_these_tables(page: ModuleType, drawn: ModuleType) -> None:
    assert part(page) == page.text(), ".venv/bin/python docs/advise.py writes docs/atlas.md"
    assert part(drawn) == drawn.text(), ".venv/bin/python docs/atlas.py writes docs/atlas.md and its pictures"


def test_left_out_laboratories_lie_in_the_intervals_as_often_as_these_say() -> None:
    rows = coverage()
    total = sum(row.cells for row in rows)
    assert total == len(distances()) > 200
    for level in LEVELS:
        assert sum(row.cells * row.inside[level] for row in rows) / total >= level


def test_every_place_of_the_map_is_there(drawn: ModuleType) -> None:
    plan = campaign.plan([drawn.EXPERIMENT])[0]
    names = ("aqm", "rival", "capacity_mbps", "base_rtt_ms")
    places = {tuple(run.factors[name] for name in names) for run in plan.runs}
    assert {(cell.aqm, cell.rival, cell.capacity_mbps, cell.base_rtt_ms) for cell in cells()} == places
    assert len(cells()) == len(places)


def again(drawn: ModuleType, where: str) -> list[Cell]:
    results = campaign.run([drawn.EXPERIMENT], where=where, workers=1)
    found: list[Cell] = drawn.table(results.flows)
    return found


def test_places_of_the_map_come_out_again(drawn: ModuleType) -> None:
    where = "capacity_mbps = 1 and base_rtt_ms in (10, 160) and rival in ('cubic', 'bbr3, ECN')"
    where += " and aqm in ('dualpi2', 'pfifo, 2 BDP', 'codel ecn')"
    found = again(drawn, where)
    assert len(found) == 12
    assert set(found) <= set(cells()), "the simulator has changed: .venv/bin/python docs/atlas.py run"


@pytest.mark.slow
def test_fast_places_of_the_map_come_out_again(drawn: ModuleType) -> None:
    found = again(
        drawn, "capacity_mbps in (500, 2000) and base_rtt_ms = 10 and rival = 'cubic' and aqm in ('fq', 'pie')"
    )
    assert len(found) == 4
    assert set(found) <= set(cells())


@pytest.mark.parametrize(
    "number", [0, pytest.param(100, marks=pytest.mark.slow), pytest.param(-1, marks=pytest.mark.slow)]
)
def test_a_distance_comes_out_again(page: ModuleType, number: int) -> None:
    one = laboratories.measured()[number]
    found = page.measure(one.case)
    row = distances()[number]
    assert row.simulated == pytest.approx(found.centre, abs=5e-4), "stale: .venv/bin/python docs/advise.py run"
    assert row.spread == pytest.approx(found.spread, abs=5e-4)
    assert len(found.trials) == runs.TRIALS
