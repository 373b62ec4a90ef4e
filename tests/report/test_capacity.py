"""What a flow's path can carry, by hand."""

from __future__ import annotations

from typing import Any

from l4slab.experimentfile import capacity


def described(**changes: Any) -> dict[str, Any]:
    links = [{"name": "a", "rate_bps": 50_000_000}, {"name": "b", "rate_bps": 20_000_000}]
    flows = [{"name": "both", "path": ["a", "b"]}, {"name": "one", "path": ["a"]}]
    at = [
        {"time_ns": time * 10**9, "link": link, "rate_bps": rate, "qdisc": None}
        for time, link, rate in ((5, "a", 10_000_000), (6, "b", None), (8, "b", 5_000_000), (9, "a", 50_000_000))
    ]
    return {"links": links, "flows": flows, "at": at, "warmup_ns": 4 * 10**9, "duration_ns": 10 * 10**9} | changes


def test_a_path_carries_what_its_slowest_link_does() -> None:
    assert capacity.of_flows(described()) == {
        "both": [(0, 20), (5, 10), (8, 5)],
        "one": [(0, 50), (5, 10), (9, 50)],
    }
    assert capacity.of_flows(described(at=[])) == {"both": [(0, 20)], "one": [(0, 50)]}


def test_the_mean_is_over_the_measured_interval() -> None:
    assert capacity.means(described()) == {"both": (20 + 3 * 10 + 2 * 5) / 6, "one": (50 + 4 * 10 + 50) / 6}


def test_a_change_holds_from_its_time_on() -> None:
    steps = capacity.of_flows(described())["one"]
    assert [capacity.at(steps, time) for time in (0, 4.999, 5, 8.999, 9, 100)] == [50, 50, 10, 10, 50, 50]
