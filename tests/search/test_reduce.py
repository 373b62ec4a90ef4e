"""Reduction of experiment files: what is not needed goes, what is needed stays."""

import pytest
from l4slab import sweep
from l4slab.api.experiment import load
from l4slab.base.errors import InputError
from l4slab.base.units import RATE, TIME
from l4slab.tools.search.reduce import reduce

LARGE = {
    "title": "much",
    "duration": "60s",
    "warmup": "17s",
    "sample": "50ms",
    "link": {
        "access": {"rate": "1.13Gbit", "qdisc": "pfifo limit 1234"},
        "bottleneck": {"rate": "38.7Mbit", "qdisc": "codel target 7.3ms interval 123ms ecn limit 913"},
    },
    "flow": [
        {"name": "l4s", "cc": "prague", "rtt": "13.7ms", "count": 73, "options": {"fallback": "off"}, "start": "1.3s"},
        {"name": "web", "kind": "web", "rtt": "10ms"},
        {"name": "tweaked", "cc": "cubic", "rtt": "91.3ms", "count": 17, "path": ["access", "bottleneck"]},
    ],
    "at": [
        {"time": "20s", "link.bottleneck.rate": "5Mbit", "flow.l4s.rtt": "20ms"},
        {"time": "30s", "link.access.qdisc": "pie"},
    ],
    "impair": {"wifi": {"netem": "delay 200us slot 800us 10ms packets 42 limit 512", "before": "access"}},
    "rewrite": [{"flow": "tweaked", "where": "before:bottleneck", "from": "ect0", "to": "ect1"}],
}


def valid(document: dict) -> None:
    """Raises InputError unless it makes a run."""
    sweep.expand(load(document, {}), "sim")


def test_all_goes_that_may_go() -> None:
    def still(document: dict) -> bool:
        valid(document)
        return True

    smallest = reduce(LARGE, still)
    assert [*smallest] == ["duration", "link", "flow"]
    assert len(smallest["link"]) == len(smallest["flow"]) == 1
    (flow,) = smallest["flow"]
    assert "count" not in flow
    assert TIME.parse(smallest["duration"]) < 1_000_000_000
    valid(smallest)


def test_what_it_takes_stays() -> None:
    judged = []

    def still(document: dict) -> bool:
        valid(document)
        judged.append(document)
        flows = {flow["name"]: flow for flow in document["flow"]}
        return (
            flows.get("tweaked", {}).get("count", 1) >= 7
            and flows.get("l4s", {}).get("cc") == "prague"
            and RATE.parse(document["link"].get("bottleneck", {"rate": "1bit"})["rate"]) >= 30e6
            and "ecn" in document["link"]["bottleneck"]["qdisc"].split()
        )

    smallest = reduce(LARGE, still)
    l4s, tweaked = smallest["flow"]
    assert tweaked["count"] in (7, 8, 9, 10)
    assert l4s == {"name": "l4s", "cc": "prague", "rtt": l4s["rtt"]}
    assert smallest["link"] == {"bottleneck": {"rate": "100Mbit", "qdisc": "codel ecn"}}
    assert set(smallest) == {"duration", "link", "flow"}
    assert len(judged) <= 300


def test_it_stops_when_it_may_judge_no_more() -> None:
    judged = []

    def still(document: dict) -> bool:
        valid(document)
        judged.append(document)
        return True

    found = reduce(LARGE, still, at_most=5)
    assert len(judged) == 5
    assert found == judged[-1]


def test_what_is_to_stay_stays_and_the_argument_is_not_changed() -> None:
    before = repr(LARGE)
    smallest = reduce(LARGE, lambda document: valid(document) is None, keep=["duration", "warmup", "title"])
    assert (smallest["duration"], smallest["warmup"], smallest["title"]) == ("60s", "17s", "much")
    assert repr(LARGE) == before


def test_nothing_smaller_is_the_document_itself() -> None:
    assert reduce(LARGE, lambda document: False) == LARGE


def test_a_mistake_of_the_predicate_is_not_hidden() -> None:
    def broken(document: dict) -> bool:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        reduce(LARGE, broken)


def test_no_document_that_cannot_run_is_taken() -> None:
    taken = []

    def still(document: dict) -> bool:
        try:
            valid(document)
        except InputError:
            taken.append(document)
            raise
        return False

    assert reduce(LARGE, still) == LARGE
    assert taken  # some were tried
