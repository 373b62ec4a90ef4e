"""The table [search]: what it may say, the points drawn from it, and their documents."""

import random
from pathlib import Path

import pytest
from l4slab import experimentfile, sweep
from l4slab.api.experiment import Experiment, load, to_toml
from l4slab.base.errors import InputError
from l4slab.base.units import RATE, TIME
from l4slab.tools.search.space import SkippedError, Space

FILE = """
duration = "5s"
[link.bottleneck]
rate = "10Mbit"
qdisc = "codel target {target}"
[[flow]]
name = "l4s"
cc = "prague"
rtt = "10ms"
[[flow]]
name = "web"
cc = "cubic"
rtt = "{twice}ms"
[[at]]
time = "1s"
"link.bottleneck.rate" = "5Mbit"
"flow.web.rtt" = "1ms"
[impair.wifi]
netem = "delay 1ms"
before = "bottleneck"
[let]
twice = "2 * n"
[search]
"link.bottleneck.rate" = { from = "1Mbit", to = "1Gbit", log = true }
"flow.l4s.rtt" = { from = "1ms", to = "200ms" }
target = { from = "5ms", to = "50ms" }
n = { from = 1, to = 4 }
"flow.web" = [true, false]
"impair.wifi" = [true, false]
[[search.sender]]
level = "shipped"
"flow.l4s.options" = { fallback = "off" }
[[search.sender]]
level = "classic"
"flow.l4s.cc" = "cubic"
[[skip]]
when = "n = 4 and rate > 1e8"
why = "too long"
"""


def parsed(text: str) -> experimentfile.Experiment:
    return experimentfile.parse(text.encode(), Path("x.toml"))


@pytest.fixture(scope="module")
def space() -> Space:
    return Space.of(parsed(FILE))


def test_points_are_within_the_ranges_and_run_as_they_are_read(space: Space) -> None:
    rng = random.Random(1)
    points = [space.draw(rng) for _ in range(100)]
    for point in points:
        assert 1e6 <= RATE.parse(point["link.bottleneck.rate"]) <= 1e9
        assert 1_000_000 <= TIME.parse(point["flow.l4s.rtt"]) <= 200_000_000
        assert not (point["n"] == 4 and RATE.parse(point["link.bottleneck.rate"]) > 1e8)
    assert {point["n"] for point in points} == {1, 2, 3, 4}
    slow = sum(RATE.parse(point["link.bottleneck.rate"]) < 30e6 for point in points)
    assert 30 < slow < 70  # half of a logarithmic range, by ratio
    for point in points[:5]:
        document = space.document(point)
        assert "search" not in document
        assert document["link"]["bottleneck"]["qdisc"] == f"codel target {point['target']}"
        (run,) = sweep.expand(load(document, {}), "sim").runs
        assert run.description["links"][0]["rate_bps"] == RATE.parse(point["link.bottleneck.rate"])


def test_the_same_numbers_draw_the_same_points(space: Space) -> None:
    assert [space.draw(random.Random(7)) for _ in range(3)] == [space.draw(random.Random(7))] * 3


def test_bundles_and_derived_values_are_put_in(space: Space) -> None:
    point = space.draw(random.Random(0)) | {
        "n": 3,
        "sender": "classic",
        "flow.web": True,
        "link.bottleneck.rate": "2Mbit",
    }
    l4s, web = space.document(point)["flow"]
    assert l4s["cc"] == "cubic"
    assert web["rtt"] == "6ms"
    assert space.document(point | {"sender": "shipped"})["flow"][0]["options"] == {"fallback": "off"}


def test_a_table_that_is_left_out_leaves_nothing_behind(space: Space) -> None:
    point = space.draw(random.Random(0)) | {"flow.web": False, "impair.wifi": False, "n": 1}
    document = space.document(point)
    assert [flow["name"] for flow in document["flow"]] == ["l4s"]
    assert "impair" not in document
    assert set(document["at"][0]) == {"time", "link.bottleneck.rate"}


def test_a_skip_leaves_a_point_out(space: Space) -> None:
    point = space.draw(random.Random(0)) | {"n": 4, "link.bottleneck.rate": "1Gbit"}
    assert space.left_out(point) == "too long"
    with pytest.raises(SkippedError):
        space.document(point)


def test_it_goes_through_python_and_back() -> None:
    assert Experiment.from_toml(FILE).written()["search"] == parsed(FILE).document["search"]
    assert Space.of(load(Experiment.from_toml(FILE), {})).names == Space.of(parsed(FILE)).names


def test_a_file_to_be_searched_does_not_run() -> None:
    with pytest.raises(InputError, match=r"search describes a space .* l4slab search"):
        sweep.expand(parsed(FILE), "sim")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('"link.bottleneck.rat" = ["1Mbit"]', 'search."link.bottleneck.rat" .*did you mean'),
        ('"link.bottleneck.rate" = ["1Mbit", "1Mbit"]', "twice"),
        ('"link.bottleneck.rate" = "1Mbit"', "is no range; write"),
        ('"link.bottleneck.rate" = { from = "1Mbit" }', "has no to"),
        ('"link.bottleneck.rate" = { from = "1Mbit", to = "1ms" }', "to .*is a time, and from"),
        ('"link.bottleneck.rate" = { from = "2Mbit", to = "1Mbit" }', "is not less than"),
        ('"link.bottleneck.rate" = { from = 1, to = "1Mbit" }', "from = 1 is no quantity"),
        ('"link.bottleneck.rate" = { from = "0Mbit", to = "1Mbit", log = true }', "no logarithm"),
        ('"link.bottleneck.rate" = { from = "1Mbit", to = "2Mbit", logarithmic = true }', "not a key here"),
        ('"flow.nobody" = [true, false]', 'search."flow.nobody" is no parameter'),
        ('"flow.l4s" = [true]', "write \\[true, false\\]"),
        ("nothing = [1, 2]", "search.nothing is a factor that changes nothing"),
        ("share = [1, 2]", "name of a result column"),
        ('[[search.aqm]]\n"link.bottleneck.qdisc" = "pie"', "\\[\\[search.aqm\\]\\] no. 1 has no level"),
        ("", "search has no range"),
    ],
)
def test_a_mistake_is_one_sentence(line: str, sentence: str) -> None:
    text = to_toml({key: value for key, value in parsed_document().items() if key != "search"})
    with pytest.raises(InputError, match=sentence) as wrong:
        Space.of(parsed(f"{text}\n[search]\n{line or 'objective = {}'}"))
    assert str(wrong.value).startswith("x.toml: ")
    assert "sweep" not in str(wrong.value)


def parsed_document() -> dict:
    return {
        "duration": "5s",
        "link": {"bottleneck": {"rate": "10Mbit", "qdisc": "pfifo"}},
        "flow": [{"name": "l4s", "cc": "prague", "rtt": "10ms"}],
    }


def test_a_value_that_no_run_can_have_is_told_by_its_parameter() -> None:
    space = Space.of(parsed(to_toml(parsed_document() | {"search": {"link.bottleneck.qdisc": ["pfifo", "nonsense"]}})))
    with pytest.raises(InputError, match="nonsense"):
        sweep.expand(load(space.document({"link.bottleneck.qdisc": "nonsense"}), {}), "sim")


def test_what_a_reduction_makes_of_a_point_is_in_the_space_or_not(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text("""
duration = "1s"
[link.isp]
rate = "10Mbit"
qdisc = "pfifo"
[[flow]]
name = "a"
cc = "reno"
rtt = "10ms"
[[flow]]
name = "b"
cc = "reno"
rtt = "10ms"
[search]
"link.isp.rate" = { from = "5Mbit", to = "20Mbit" }
"flow.*.rtt" = { from = "5ms", to = "20ms" }
"flow.a.count" = { from = 1, to = 9 }
"flow.b.count" = { from = 1, to = 9 }
[let]
together = '"flow.a.count" + "flow.b.count"'
[[skip]]
when = "together > 10"
why = "so many are never there"
[search.objective]
sql = "select min(share) from flows group by trial"
goal = "minimise"
harm = 0.1
""")
    space = Space.of(load(file, {}))
    levels = {"link.isp.rate": "12.5Mbit", "flow.*.rtt": "12ms", "flow.a.count": 7, "flow.b.count": 3}

    def contains(rate: str = "10Mbit", rtt: str = "10ms", **counts: int) -> bool:
        flows = [{"name": name, "rtt": rtt, "count": count} for name, count in ({"a": 7, "b": 3} | counts).items()]
        return space.contains({"link": {"isp": {"rate": rate}}, "flow": flows}, levels)

    assert contains()
    assert contains(rate="20Mbit", rtt="5ms", a=1, b=9)
    assert not contains(rate="50Mbit")
    assert not contains(rtt="2ms")
    assert not contains(a=10, b=0)
    assert not contains(a=8)
    assert space.contains({"link": {}, "flow": [{"name": "a"}]}, levels)
