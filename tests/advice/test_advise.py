"""`l4slab advise`: cases, intervals, and what it says of a case."""

from __future__ import annotations

import json
import random
from pathlib import Path

import l4slab
import pytest
from l4slab.base.errors import InputError
from l4slab.cli import main
from l4slab.tools import advice
from l4slab.tools.advice import Advice, atlas, distance, laboratories, runs, words
from l4slab.tools.advice.case import Case, case
from l4slab.tools.advice.distance import LEVELS, Distance, Distances, forecast


@pytest.fixture(scope="module")
def small() -> Advice:
    """A queue in which a rival without ECN has to starve: few packets, so that it is quick."""
    return l4slab.advise("10Mbit", "20ms", "codel ecn", duration="30s", workers=1)


def test_it_is_printed_as_its_sentences(small: Advice) -> None:
    lines = str(small).splitlines()
    assert lines == words.sentences(small)
    assert lines[1].startswith("Prague's share of the goodput: ")


# -- cases ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("qdisc", "kind"),
    [
        ("pfifo", "drops"), ("codel", "drops"), ("pie noecn", "drops"), ("red limit 150000 avpkt 1000", "drops"),
        ("codel ecn", "marks"), ("pie ecn", "marks"), ("fq_codel flows 1", "marks"), ("cake flowblind", "marks"),
        ("fq orphan_mask 0 ce_threshold 1ms", "marks"), ("dualpi2", "dual"), ("fq_codel", "fair"), ("cake", "fair"),
        ("fq", "fair"), ("lfq_cobalt", "other"),
    ],
)  # fmt: skip
def test_kind_of_a_queue(qdisc: str, kind: str) -> None:
    assert Case(1e7, 0.01, qdisc).kind == kind


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rate": "20Mbps"}, "--rate"), ({"rate": "1bit"}, "--rate"),
        ({"rtt": "30"}, "--rtt"), ({"rtt": "1h"}, "--rtt"),
        ({"qdisc": "pfiffo"}, '"pfifo"'), ({"qdisc": "htb"}, "--qdisc"), ({"qdisc": "netem delay 1ms"}, "--qdisc"),
        ({"rival": "cubc"}, '"cubic"'), ({"flows": "a"}, "--flows"), ({"flows": "0"}, "--flows"),
        ({"buffer": 0.0}, "--buffer"), ({"qdisc": "cake", "buffer": 2.0}, "--buffer"),
        ({"options": {"fallbak": "off"}}, "fallback"), ({"duration": "0s"}, "--duration"),
    ],
)  # fmt: skip
def test_mistakes_are_a_sentence(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError) as found:
        case(**({"rate": "20Mbit", "rtt": "30ms", "qdisc": "pfifo"} | changes))  # type: ignore[arg-type]
    assert words in str(found.value)


def test_a_buffer_is_in_bandwidth_delay_products() -> None:
    assert case("100Mbit", "10ms", "pfifo", buffer=2).queue == f"pfifo limit {round(2 * 125_000 / 1514)}"
    assert case("100Mbit", "10ms", "bfifo limit 9000", buffer=2).queue == "bfifo limit 250000"
    assert case("100Mbit", "10ms", "codel ecn", buffer=1).queue == f"codel ecn limit {round(125_000 / 1514)}"


def test_neighbours_differ_in_one_thing_each() -> None:
    one = case("8Mbit", "20ms", "dualpi2 limit 100")
    changes = one.neighbours(1)["sweep"]["neighbour"]
    assert all(len(level) == 2 for level in changes)
    qdiscs = [level["link.bottleneck.qdisc"] for level in changes if "link.bottleneck.qdisc" in level]
    assert sorted(qdiscs) == ["dualpi2 limit 100 min_qlen_step 2", "dualpi2 limit 140", "dualpi2 limit 70"]
    for experiment in runs.experiments(one):
        l4slab.Experiment.from_toml(experiment.to_toml())


def test_long_runs_are_cut_only_where_there_are_many_packets() -> None:
    assert case("1Gbit", "20ms", "pfifo").duration_s == 60
    assert 5 < case("10Gbit", "20ms", "pfifo").duration_s < 60
    assert case("10Gbit", "20ms", "pfifo", duration="60s").duration_s == 60


# -- intervals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fair", [0.5, 0.1, 10 / 11])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.99])
def test_advantage_and_share(share: float, fair: float) -> None:
    assert runs.share_of(runs.advantage(share, fair), fair) == pytest.approx(share)
    assert runs.advantage(fair, fair) == pytest.approx(0)


def made_up(noise: random.Random, laboratory: str, count: int, stretch: float = 1.0) -> list[Distance]:
    """Shares that are off by a normal error of the unit."""
    rows = []
    for _ in range(count):
        spread = noise.uniform(0, 1)
        error = stretch * noise.gauss(0, distance.scale(spread))
        rows.append(Distance(laboratory, laboratory, "marks", error, 0.0, spread))
    return rows


def wrong_together(noise: random.Random, laboratory: str, together: float) -> list[Distance]:
    """Shares that are off by a normal error of the unit, a part of whose variance all of them have in common."""
    common = noise.gauss(0, together**0.5)
    errors = [0.1 * (common + noise.gauss(0, (1 - together) ** 0.5)) for _ in range(12)]
    return [Distance(laboratory, laboratory, "marks", error, 0.0, 0.0) for error in errors]


@pytest.mark.parametrize("together", [0.0, pytest.param(0.5, marks=pytest.mark.slow), 1.0])
def test_intervals_cover_as_often_as_they_say(together: float) -> None:
    """With few campaigns, however much the shares of one are wrong together: where they are not, more often."""
    noise = random.Random(1)
    worlds = [[one for name in "abcdef" for one in wrong_together(noise, name, together)] for _ in range(60)]
    rows = [row for world in worlds for row in distance.coverage(world)]
    assert len(rows) == 360
    for level in LEVELS:
        inside = sum(row.inside[level] for row in rows) / len(rows)
        assert level - 0.1 < inside < level + 0.08
    assert together == 1 or inside > level


def test_few_campaigns_do_not_tell_how_far_the_next_is_off() -> None:
    noise = random.Random(4)
    reach = [Distances.of("marks", [one for name in names for one in made_up(noise, name, 4000 // len(names))])
             .reach(0.9) for names in ("a", "abc", "abcdefghij")]  # fmt: skip
    # Student's t beside the normal 1.645, of which the distances are.
    assert reach == pytest.approx([6.31, 2.35, 1.81], rel=0.05)


def test_a_laboratory_that_differs_from_the_others_is_seen() -> None:
    noise = random.Random(2)
    found = [one for name in "abc" for one in made_up(noise, name, 120)] + made_up(noise, "off", 120, stretch=5)
    inside = {row.left_out: row.inside[0.8] for row in distance.coverage(found)}
    assert inside["off"] < 0.4 < 0.75 < min(inside[name] for name in "abc")


def test_a_campaign_has_one_voice() -> None:
    near = [Distance("large", "x", "marks", 0.1, 0.0, 0.0)] * 100
    far = [Distance("small", "y", "marks", 1.0, 0.0, 0.0)]
    voices = Distances.of("marks", near + far)
    assert voices.beyond(9.0) == pytest.approx(0.5)
    assert Distances.of("fair", near + far).beyond(20.0) == pytest.approx(1 / 101)


def test_probabilities_follow_from_the_intervals() -> None:
    noise = random.Random(3)
    expected = forecast("marks", 0.4, 0.3, made_up(noise, "a", 1000))
    ends = [end for level in LEVELS for end in expected.interval(level)]
    assert expected.interval(0.9)[0] < expected.interval(0.8)[0] < expected.interval(0.5)[0] < 0.4
    for level in LEVELS:
        low, high = expected.interval(level)
        assert expected.probability_above(high) == pytest.approx((1 - level) / 2, abs=0.01)
        assert expected.probability_above(low) == pytest.approx((1 + level) / 2, abs=0.01)
    assert sorted(ends, key=expected.probability_above) == sorted(ends, reverse=True)


def test_a_known_regime_widens_its_side() -> None:
    alone, several = Case(1e8, 0.01, "pfifo"), Case(1e8, 0.01, "pfifo", prague=10, rivals=10)
    assert not advice.regimes.widened(alone)
    known = advice.regimes.widened(several)
    narrow, wide = forecast("drops", 0.0, 0.1), forecast("drops", 0.0, 0.1, regimes=known)
    assert wide.interval(0.8)[0] == narrow.interval(0.8)[0]
    assert wide.interval(0.8)[1] == pytest.approx(narrow.interval(0.8)[1] + known[0].above)


def test_which_dualpi2_a_laboratory_had_matters_on_slow_links_only() -> None:
    slow, told = Case(8e6, 0.03, "dualpi2"), Case(8e6, 0.03, "dualpi2 min_qlen_step 0")
    assert [one.above for one in advice.regimes.widened(slow)] == [1.5]
    assert not advice.regimes.widened(told)
    assert not advice.regimes.widened(Case(1e8, 0.03, "dualpi2"))


# -- what is said of a case -------------------------------------------------------------------------------------------


def test_a_starved_rival_is_hurt(small: Advice) -> None:
    low, high = small.interval(0.8)
    assert 0.5 < low <= small.share <= high < 1
    assert small.rival.verdict == "hurt"
    assert small.prague.verdict == "not hurt"
    assert small.rival.rate_mbps < 0.8 * small.rival.without_rate_mbps
    assert small.intervals[0][1] >= small.intervals[1][1] >= small.intervals[2][1]
    assert len(small.trials) == runs.TRIALS


def forecasts(noise: random.Random) -> distance.Forecast:
    """Of random width and position, some wider on one side."""
    units = sorted(abs(noise.gauss(0, 1)) for _ in range(20))
    wide = [noise.choice((0.0, 0.5, 2.0)) for _ in range(2)]
    weights = [1 / len(units)] * len(units)
    return distance.Forecast(noise.uniform(-3, 3), noise.uniform(0.05, 3), Distances(units, weights), *wide)


def test_a_verdict_follows_probability_width_and_simulation() -> None:
    """Never both camps, never from an interval in which both may be hurt, never against the simulated rates."""
    noise = random.Random(1)
    seen = set()
    for _ in range(3000):
        expected, fair_without = forecasts(noise), noise.uniform(0.2, 0.8)
        low, high = (runs.share_of(end, 0.5) for end in expected.interval(0.8))
        hurt = {
            True: 1 - expected.probability_above(runs.advantage(0.8 * fair_without, 0.5)),
            False: expected.probability_above(runs.advantage(1 - 0.8 * (1 - fair_without), 0.5)),
        }
        ratios = {camp: noise.uniform(0.2, 1.8) for camp in hurt}
        told = {camp: advice.verdict(hurt[camp], hurt[not camp], ratios[camp], 1.0) for camp in hurt}
        seen |= set(told.values())
        assert not all(word in ("hurt", "probably hurt") for word in told.values())
        for camp, word in told.items():
            if word in ("hurt", "probably hurt"):
                assert hurt[camp] >= 0.75
                assert ratios[camp] < 1
                assert not (low < 0.8 * fair_without and high > 1 - 0.8 * (1 - fair_without))
            if word in ("not hurt", "probably not hurt"):
                assert hurt[camp] <= 0.25
                assert ratios[camp] >= 0.8
    assert seen == set(advice.VERDICTS)


@pytest.mark.parametrize(
    ("hurt", "other", "rate", "verdict"),
    [
        (0.95, 0.01, 4.0, "hurt"), (0.8, 0.05, 4.0, "probably hurt"), (0.8, 0.15, 4.0, "undecided"),
        (0.5, 0.5, 4.0, "undecided"), (0.5, 0.5, 14.4, "undecided"), (0.8, 0.05, 14.4, "undecided"),
        (0.2, 0.5, 14.4, "probably not hurt"), (0.05, 0.5, 9.0, "not hurt"), (0.05, 0.5, 7.0, "undecided"),
    ],
)  # fmt: skip
def test_verdicts(hurt: float, other: float, rate: float, verdict: str) -> None:
    """Of a camp that has 10 Mb/s with CUBIC in Prague's place."""
    assert advice.verdict(hurt, other, rate, 10.0) == verdict


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [
        "--rate",
        "2Mbit",
        "--rtt",
        "20ms",
        "--qdisc",
        "fq_codel",
        "--duration",
        "3s",
        "--out",
        str(tmp_path / "x"),
    ]
    assert main(["advise", *given]) == 0
    text = capsys.readouterr().out
    assert "2Mbit, 20ms, fq_codel, 1 prague + 1 cubic: a queue for each flow" in text
    assert "Prague's share of the goodput: 0." in text
    assert str(tmp_path / "x" / "report.html") in text
    assert main(["advise", *given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == "fair"
    assert found["camps"][1]["verdict"] in advice.VERDICTS
    assert found["says"][1] in (tmp_path / "x" / "report.html").read_text().replace("&#39;", "'")
    assert [one["level"] for one in found["intervals"]] == list(LEVELS)
    # The numbers are those of the runs.
    results = l4slab.open(tmp_path / "x")
    rate = results.sql("select avg(goodput_mbps) g from flows where experiment = 'without-prague' and flow = 'rival'")
    assert found["camps"][1]["without_rate_mbps"] == pytest.approx(rate["g"][0])
    shares = results.sql("select share from flows where experiment = 'case' and flow = 'prague' order by trial")
    assert found["trials"] == pytest.approx(shares["share"].to_list())


def test_a_mistake_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--rate", "2Mbit", "--rtt", "20", "--qdisc", "pfifo"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# -- what it knows ----------------------------------------------------------------------------------------------------


def test_the_distances_are_of_the_published_tables() -> None:
    published, known = laboratories.measured(), distance.distances()
    assert len(published) == len(known)
    for one, row in zip(published, known, strict=True):
        assert (one.study, one.case.kind) == (row.study, row.kind)
        assert row.published == pytest.approx(runs.advantage(one.share, 0.5), abs=1e-3)
        assert row.case.startswith(str(one.case))


def test_the_map_is_read_around_a_case() -> None:
    inside = atlas.around(Case(50e6, 0.02, "codel ecn"))
    assert {(cell.capacity_mbps, cell.base_rtt_ms) for cell in inside} == {(20, 10), (20, 40), (100, 10), (100, 40)}
    assert {cell.base_rtt_ms for cell in atlas.around(Case(20e6, 0.04, "dualpi2"))} == {40}
    assert atlas.around(Case(50e6, 0.02, "pfifo", buffer=1.8))[0].aqm == "pfifo, 2 BDP"
    assert not atlas.around(Case(50e6, 0.02, "lfq_cobalt"))
    assert not atlas.around(Case(50e6, 0.02, "fq_codel", rival="dctcp"))


@pytest.mark.parametrize(
    ("flows", "known"),
    [
        ("1", "1+1"), ("2", "4+4"), ("1+2", "1+4"), ("2+20", "1+10"), ("3+1", "4+1"), ("12+1", "10+1"),
        ("7", "10+10"), ("100+80", "25+25"),
    ],
)  # fmt: skip
def test_the_map_is_read_by_the_number_of_flows(flows: str, known: str) -> None:
    found = atlas.around(case("50Mbit", "20ms", "codel ecn", flows=flows))
    assert {cell.flows for cell in found} == {known}
    assert {(cell.capacity_mbps, cell.base_rtt_ms) for cell in found} == {(20, 10), (20, 40), (100, 10), (100, 40)}


def test_the_map_has_several_flows_beside_some_rivals_only() -> None:
    assert atlas.around(case("50Mbit", "20ms", "codel ecn", rival="reno"))
    assert not atlas.around(case("50Mbit", "20ms", "codel ecn", rival="reno", flows=4))


@pytest.mark.slow
def test_several_flows_are_told_beside_the_nearest_of_the_map(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--rate", "4Mbit", "--rtt", "10ms", "--qdisc", "dualpi2", "--flows", "1+8", "--duration", "3s"]
    assert main(["advise", *given, "--out", str(tmp_path / "x")]) == 0
    told = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("On the map"))
    place = atlas.around(case("4Mbit", "10ms", "dualpi2", flows="1+8"))[0]
    assert told.startswith("On the map (dualpi2, 1+10 flows; Prague's share per flow, here 0.")
    assert f": 4 Mb/s 10 ms: {place.share:.2f}" in told
    assert place.prague_hurt
    assert told.endswith("Prague is hurt in 1 of 1.")
