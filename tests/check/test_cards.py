"""The cards of the built-in congestion controls in docs/check.md: of the suite as it is, with known failures."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from l4slab.cli import main

KNOWN = {
    # A scalable control takes nearly everything from CUBIC in a classic ECN queue (RFC 9331, section 4.3).
    # With AccECN what is sent again has ECT(1), too, and Linux does not go on without ECN.
    "prague": {
        **dict.fromkeys(("classic-ecn", "black-holed"), "fail"),
        **dict.fromkeys(("codepoint", "feedback", "small-windows"), "pass"),
    },
    "dctcp": {
        **dict.fromkeys(
            ("codepoint", "feedback", "classic-ecn", "queues", "rtt-bias", "small-windows", "black-holed"), "fail"
        ),
        "loss-response": "pass",
    },
    # What RFC 9743 (section 5.1.3) tells of BBR version 1.
    "bbr": {**dict.fromkeys(("loss", "share-of-reno", "share-of-cubic"), "fail"), "bbr-bandwidth": "pass"},
    "bbr3": {"loss": "fail", "codepoint": "fail", "bbr-bandwidth": "pass", "bbr-slower": "pass"},
    # The standards that others are compared with.
    "reno": {"codepoint": "fail", "scalable": "not applicable"},
    "cubic": {"codepoint": "fail", "scalable": "not applicable"},
}


@pytest.fixture(scope="module")
def page(docs_script: Callable[[str], ModuleType]) -> ModuleType:
    return docs_script("check")


@pytest.fixture(scope="module")
def cards(page: ModuleType) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.CARDS.read_text("utf-8"))
    return found


def verdicts(card: dict[str, Any]) -> dict[str, str]:
    return {name: row[0] for name, row in card["items"].items()}


def test_the_cards_are_of_the_suite_as_it_is(page: ModuleType, cards: dict[str, Any]) -> None:
    assert list(cards) == sorted(page.names())
    stale = [name for name, card in cards.items() if card["of"] != page.mark()]
    assert not stale, f"the suite has changed: .venv/bin/python docs/check.py {' '.join(stale)} writes docs/check.md"
    asked = {item.id for item in page.asked()}
    assert all(set(verdicts(card)) == asked for card in cards.values())
    assert page.CARDS.read_text("utf-8") == page.written(cards)


def test_the_page_has_these_cards(page: ModuleType, cards: dict[str, Any]) -> None:
    text = page.PAGE.read_text("utf-8")
    assert text.partition(page.BEGIN)[2].partition(page.END)[0] == page.text(cards)


def test_the_page_says_where_each_requirement_is_asked(page: ModuleType) -> None:
    text = page.PAGE.read_text("utf-8").partition("## The requirements, and")[2].partition("## What it is not")[0]
    asked = page.asked()
    for title, part in zip(re.findall(r"^### (.*?)(?:, .*)?$", text, re.M), text.split("\n### ")[1:], strict=True):
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in part.splitlines() if line.startswith("| ")]
        told = {
            name: {row[0].split()[0] for row in rows if f"`{name}`" in row[2]}
            for name in re.findall("`([a-z-]+)`", part)
        }
        here = {item.id: item.section for item in asked if item.part == title}
        assert set(here) <= set(told)
        assert set(told) <= {item.id for item in asked}
        assert all(here[name] in told[name] for name in here)


@pytest.mark.parametrize("name", KNOWN)
def test_known_verdicts(name: str, cards: dict[str, Any]) -> None:
    found = verdicts(cards[name])
    assert {item: found[item] for item in KNOWN[name]} == KNOWN[name]


@pytest.mark.parametrize("name", ["reno", "cubic"])
def test_the_standards_do_no_more_harm_than_the_standards(name: str, page: ModuleType, cards: dict[str, Any]) -> None:
    found = verdicts(cards[name])
    assert not {item.id for item in page.asked() if item.part == "RFC 9743" and found[item.id] == "fail"}


@pytest.mark.slow
def test_reno_with_fresh_seeds_raises_no_alarm(page: ModuleType) -> None:
    """Of ten cards at most one may fail by chance; docs/check.py counts a hundred."""
    found = page.alarms(10, ["convergence", "rtt-fairness", "short-flows", "queues"])
    assert {"convergence", "rtt-fairness", "short-flows", "queues"} < set(found)
    assert found[""] <= 1


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where cards share the runs of the references."""
    return tmp_path_factory.mktemp("cards")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prague", "bbr3", "cubic"])
def test_a_card_comes_out_again(name: str, page: ModuleType, cards: dict[str, Any], runs: Path) -> None:
    assert page.card(name, runs)["items"] == cards[name]["items"]


@pytest.mark.slow
def test_the_template_passes_what_reno_passes(
    page: ModuleType, cards: dict[str, Any], runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "controller", "mine"]) == 0
    monkeypatch.chdir(tmp_path / "mine")
    mine, reno = verdicts(page.card("mine.py:Mine", runs)), verdicts(cards["reno"])
    failed = {name for name, verdict in mine.items() if verdict == "fail"}
    assert failed <= {name for name, verdict in reno.items() if verdict == "fail"}
