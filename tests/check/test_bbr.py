"""The test cases of BBR's draft that need its states."""

from __future__ import annotations

from functools import cache

import pytest
from l4slab.tools import check

OF_STATES = "bbr-"


@cache
def card(**options: str) -> dict[str, check.Item]:
    asked = check.suite("bbr3", options)
    asked.experiments[:] = [one for one in asked.experiments if one.name.startswith(OF_STATES)]
    return {item.id: item for item in check.judge(asked).items if item.experiment.startswith(OF_STATES)}


@pytest.mark.slow
def test_every_case_is_decided_and_says_where_it_was_seen() -> None:
    found = card()
    sections = {item.section for item in found.values()} | {"A.14", "A.15", "A.16", "A.17"}
    assert sections == {f"A.{number}" for number in range(1, 23)}
    assert {item.verdict for item in found.values()} == {"pass", "fail"}
    assert all(item.run for item in found.values())
    at = {name: item.evidence.get("at_s") for name, item in found.items()}
    # They are about what never happens.
    assert {name for name, seen in at.items() if seen is None} == {"bbr-limited-stays", "bbr-idle"}


@pytest.mark.slow
def test_the_published_source_differs_from_the_draft_in_drain() -> None:
    failed = {name for name, item in card().items() if item.verdict == "fail"}
    assert failed == {"bbr-drain", "bbr-drain-time"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({"drain_gain": "0.5", "drain_rounds": "3"}, {"bbr-drain": "pass", "bbr-drain-time": "pass"}),
        # An inflight_hi that is never cut: with every loss tolerated, no loss ends Startup or Up.
        ({"loss_thresh": "0.9"}, dict.fromkeys(("bbr-limited-loss", "bbr-limited-up-loss"), "fail")),
    ],
)
def test_another_controller_gets_other_verdicts(options: dict[str, str], changed: dict[str, str]) -> None:
    before, after = card(), card(**options)
    moved = {name: item.verdict for name, item in after.items() if item.verdict != before[name].verdict}
    assert {name: moved.get(name) for name in changed} == changed


def test_of_a_stack_its_log_is_asked() -> None:
    told = check.Program("server", "client {server}", env={"QLOGDIR": "{out}"})
    silent = check.Program("server", "client {server}")
    for program, judged in ((told, {"bbr-states", "bbr-moments", "bbr-variables"}), (silent, set())):
        asked = check.suite("bbr", program=program)
        assert {one.name for one in asked.experiments if one.name.startswith(OF_STATES)} == judged
    assert "QLOGDIR" in check.suite("bbr", program=silent).lacking["bbr-states"]


def test_who_is_no_bbr_or_tells_no_states_is_not_judged() -> None:
    for cc, why in (("prague", "no BBR"), ("bbr", "not those of the draft")):
        asked = check.suite(cc)
        assert not [one for one in asked.experiments if one.name.startswith(OF_STATES)]
        assert {why in reason for reason in asked.apart.values()} == {True}


def test_an_application_of_a_stack_writes_and_rests_by_variables() -> None:
    program = check.Program(env={"QLOGDIR": "{out}"}, stack="quiche")
    asked = check.suite("bbr2", program=program)
    flows = {one.name: one.written()["flow"][0] for one in asked.experiments if one.name.startswith(OF_STATES)}
    assert flows["bbr-idle"]["env"] == {"QLOGDIR": "{out}", "APP_RATE": "50Mbit", "APP_PAUSE": "10s 16s"}
    assert "app_rate" not in flows["bbr-limited"]
    assert flows["bbr-limited"]["env"]["APP_RATE"] == "11.584Mbit"
    assert {"bbr-limited-up", "bbr-refill"} <= asked.lacking.keys()
    assert len({claim.id for name, claim in asked.claims if name in flows}) == 16
