"""docs/atlas.md, the map and the distances: of what the package simulates now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from xml.etree import ElementTree

import pytest
from l4slab.api import campaign
from l4slab.tools.advice import laboratories, runs
from l4slab.tools.advice.atlas import CROWDS, PAIRS, Cell, cells
from l4slab.tools.advice.distance import LEVELS, coverage, distances


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


@pytest.mark.parametrize("name", [PAIRS, CROWDS])
@pytest.mark.parametrize("aqm", ["dualpi2", pytest.param("pfifo, 0.5 BDP", marks=pytest.mark.slow)])
def test_each_picture_has_its_numbers(drawn: ModuleType, name: str, aqm: str) -> None:
    found = drawn._by_queue(name)[aqm]
    picture = ElementTree.fromstring(drawn.svg(drawn.picture(aqm, found)))
    texts = [text.text or "" for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    shares = sorted(f"{100 * cell.share:.0f}" for cell in cells(name) if cell.aqm == aqm)
    assert sorted(text for text in texts if text.isdigit()) == shares


def test_left_out_laboratories_lie_in_the_intervals_as_often_as_these_say() -> None:
    rows = coverage()
    total = sum(row.cells for row in rows)
    assert total == len(distances()) > 200
    for level in LEVELS:
        assert sum(row.cells * row.inside[level] for row in rows) / total >= level


@pytest.mark.parametrize("name", [PAIRS, pytest.param(CROWDS, marks=pytest.mark.slow)])
def test_every_place_of_the_map_is_there(drawn: ModuleType, name: str) -> None:
    plan = campaign.plan([drawn.EXPERIMENTS[name]])[0]
    names = ("aqm", "rival", "capacity_mbps", "base_rtt_ms")
    places = {(*(run.factors[name] for name in names), run.factors.get("crowd", "1+1")) for run in plan.runs}
    assert {(cell.aqm, cell.rival, cell.capacity_mbps, cell.base_rtt_ms, cell.flows) for cell in cells(name)} == places
    assert len(cells(name)) == len(places)


def test_one_flow_each_is_the_same_in_both_files() -> None:
    alone = {cell for cell in cells(CROWDS) if cell.flows == "1+1"}
    assert len(alone & set(cells(PAIRS))) == 11 * (4 * 2 * 4 - 2 * 2)


def test_harm_is_counted_per_flow() -> None:
    # Of 11 flows' equal rates Prague has 4 and each of ten rivals 0.7; beside CUBIC, which has 2, they have 0.9.
    cell = Cell("dualpi2", "cubic", 1, 10, 20.0, 10.0, 4 / 4.7, 0.9 / 2.9, 0.0, 0.0, 0.0, 0.0)
    assert cell.rival_hurt
    assert not cell.prague_hurt
    assert not cell.rival_starved
    # Each of ten Prague flows has 1.095, and the one rival 0.05; CUBIC and it have an equal rate.
    late = replace(cell, prague=10, rivals=1, share=1.095 / 1.145, share_beside_cubic=0.5)
    assert late.rival_hurt
    assert late.rival_starved
    # The rival has 9 of 11, and Prague 0.2; CUBIC would have 0.24, and then 0.26.
    behind = replace(late, share=0.2 / 9.2, share_beside_cubic=8.6 / 8.84)
    assert not behind.prague_hurt
    assert replace(behind, share_beside_cubic=8.4 / 8.66).prague_hurt


def again(drawn: ModuleType, name: str, where: str) -> list[Cell]:
    results = campaign.run([drawn.EXPERIMENTS[name]], where=where, workers=1)
    found: list[Cell] = drawn.table(results.flows)
    assert set(found) <= set(cells(name)), f"the simulator has changed: .venv/bin/python docs/atlas.py run {name}"
    return found


def test_places_of_the_map_come_out_again(drawn: ModuleType) -> None:
    where = "capacity_mbps = 1 and base_rtt_ms in (10, 160) and rival in ('cubic', 'bbr3, ECN')"
    where += " and aqm in ('dualpi2', 'codel ecn')"
    assert len(again(drawn, PAIRS, where)) == 8


@pytest.mark.slow
def test_crowds_of_the_map_come_out_again(drawn: ModuleType) -> None:
    where = "capacity_mbps = 4 and base_rtt_ms = 10 and rival in ('cubic', 'bbr') and crowd in ('1+10', '10+1')"
    where += " and aqm in ('dualpi2', 'cake')"
    assert len(again(drawn, CROWDS, where)) == 8


@pytest.mark.slow
def test_fast_places_of_the_map_come_out_again(drawn: ModuleType) -> None:
    where = "capacity_mbps in (500, 2000) and base_rtt_ms = 10 and rival = 'cubic' and aqm in ('fq', 'pie')"
    assert len(again(drawn, PAIRS, where)) == 4


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
