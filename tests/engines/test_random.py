"""`l4slab agree --random`: the judge's laws on made-up trials, and the way from a space to a small file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from l4slab.base.packaged import random_files, studies
from l4slab.campaign.executors import Failure
from l4slab.cli import main
from l4slab.engines.linux import kernels
from l4slab.results import chance
from l4slab.tools.agreement import random
from l4slab.tools.agreement.random import judge
from l4slab.tools.agreement.random.judge import Place, Trials, Value
from l4slab.tools.agreement.random.runs import Runs

SHARES = [Place(flow, None, None, "share") for flow in ("a", "b")]
RTT = Place("a", None, None, "rtt_ms_mean")
FILE = """
duration = "2s"
warmup = "500ms"
[link.bottleneck]
rate = "5Mbit"
qdisc = "pfifo limit {packets}"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[[flow]]
name = "b"
cc = "cubic"
rtt = "10ms"
[search]
packets = { from = 10, to = 40 }
"flow.b" = [true, false]
"flow.a.rtt" = { from = "5ms", to = "20ms", log = true }
"""


def trials(place: Place, values: Sequence[float | None], packets: float = 1000) -> Trials:
    return {place: [Value(value, packets) for value in values]}


def normal(rng: np.random.Generator, mean: float, sd: float, count: int) -> list[float]:
    return [float(value) for value in rng.normal(mean, sd, count)]


def verdict(kernel: Sequence[float | None], simulator: Sequence[float | None], place: Place = RTT) -> str:
    return judge.verdict_of(judge.assess(trials(place, kernel), trials(place, simulator)))


def after_all_looks(difference: float, rng: np.random.Generator) -> str:
    """The verdict on a quantity that differs by so many standard deviations of single trials, which have the margin."""
    most = max(judge.LOOKS)
    kernel, simulator = normal(rng, 100 + 50 * difference, 50, most), normal(rng, 100, 50, judge.LOOKS[most])
    found = "undecided"
    for look, of_the_simulator in judge.LOOKS.items():
        found = verdict(kernel[:look], simulator[:of_the_simulator])
        if found != "undecided":
            break
    return found


# As docs/agreement.md has them: parts that are called equivalent and different.
@pytest.mark.parametrize(
    ("difference", "equivalent", "different"),
    [
        (0.0, 1.0, 0.0),
        pytest.param(0.5, 0.73, 0.0, marks=pytest.mark.slow),
        pytest.param(0.893, 0.09, 0.01, marks=pytest.mark.slow),
        (1.5, 0.0, 0.99),
        (2.0, 0.0, 1.0),
    ],
)
def test_what_the_judge_sees_of_a_difference_where_trials_spread(
    difference: float, equivalent: float, different: float
) -> None:
    rng = np.random.default_rng(7)
    found = [after_all_looks(difference, rng) for _ in range(200)]
    assert found.count("equivalent") / 200 == pytest.approx(equivalent, abs=0.05)
    assert found.count("different") / 200 == pytest.approx(different, abs=0.05)


# Tables of the t distribution.
@pytest.mark.parametrize(
    ("t", "freedom", "beyond"), [(6.314, 1, 0.05), (2.228, 10, 0.025), (1.684, 40, 0.05), (-2.228, 10, 0.975)]
)
def test_tails_of_students_t(t: float, freedom: int, beyond: float) -> None:
    assert chance.tail(t, freedom) == pytest.approx(beyond, rel=2e-3)
    assert chance.within([abs(1 - 2 * beyond)], freedom) == pytest.approx([abs(t)], rel=2e-3, abs=1e-9)


def test_near_is_equivalent_far_is_different_and_few_trials_say_neither() -> None:
    rng = np.random.default_rng(1)
    simulator = normal(rng, 20, 0.1, 40)
    assert verdict(normal(rng, 20.5, 0.1, 2), simulator) == "equivalent"
    assert verdict(normal(rng, 30, 0.1, 5), simulator) == "different"
    assert verdict(normal(rng, 30, 0.1, 2), simulator) == "undecided"
    # At the margin, which is a tenth of the kernel's value.
    assert verdict(normal(rng, 20 / 0.9, 0.1, 5), simulator) == "undecided"


def test_means_a_third_apart_are_not_equivalent_however_much_trials_spread() -> None:
    simulator = [37 + 50 * (-1.0) ** n for n in range(120)]
    row = judge.assess(trials(RTT, [54 + 50 * (-1.0) ** n for n in range(12)]), trials(RTT, simulator))[0]
    assert row.p_equivalent < judge.EQUIVALENT, "by the spread alone"
    assert row.verdict == "undecided"
    assert verdict([45 + 50 * (-1.0) ** n for n in range(12)], simulator) == "equivalent"


def test_what_is_exact_is_judged_without_chance() -> None:
    assert verdict([20.0] * 2, [21.0] * 40) == "equivalent"
    assert verdict([20.0] * 5, [23.0] * 40) == "different"


@pytest.mark.parametrize(
    "count", [count if count < 10 else pytest.param(count, marks=pytest.mark.slow) for count in judge.LOOKS]
)
def test_a_difference_of_the_margin_is_seldom_called_equivalent(count: int) -> None:
    rng = np.random.default_rng(count)
    sd = 3.0
    margin = judge.SCALE * sd
    pairs = 1000 if count < 100 else 400
    found = [
        verdict(normal(rng, 20 + margin, sd, count), normal(rng, 20, sd, judge.LOOKS[count])) for _ in range(pairs)
    ]
    expected = judge.EQUIVALENT * pairs
    # The margin is of the spread that is found, so its error is the test's, too.
    assert found.count("equivalent") < 2 * expected
    assert found.count("different") < judge.DIFFERENT * pairs


def test_perfect_models_are_not_called_different_and_mostly_equivalent() -> None:
    rng = np.random.default_rng(7)
    most = max(judge.LOOKS)
    found = [verdict(normal(rng, 20, 5, most), normal(rng, 20, 5, judge.LOOKS[most])) for _ in range(200)]
    assert found.count("different") == 0
    assert found.count("equivalent") > 0.98 * 200


def test_every_quantity_has_to_be_equivalent_and_one_difference_is_enough() -> None:
    same = {place: [Value(0.5, 1000)] * 40 for place in SHARES} | trials(RTT, [20.0] * 40)
    assert judge.verdict_of(judge.assess({place: values[:5] for place, values in same.items()}, same)) == "equivalent"
    other = {place: values[:5] for place, values in same.items()} | trials(RTT, [40.0] * 5)
    rows = judge.assess(other, same)
    assert judge.verdict_of(rows) == "different"
    assert rows[0].place == RTT
    assert [row.verdict for row in rows[1:]] == ["equivalent", "equivalent"]


def test_the_more_quantities_the_surer_a_difference_has_to_be() -> None:
    rng = np.random.default_rng(3)
    kernel, simulator = normal(rng, 23.7, 0.6, 5), normal(rng, 20, 0.6, 40)
    assert verdict(kernel, simulator) == "different"
    others = {Place(f"f{i}", None, None, "rtt_ms_mean"): [Value(20.0, 1000)] * 40 for i in range(1000)}
    rows = judge.assess({**others, **trials(RTT, kernel)}, {**others, **trials(RTT, simulator)})
    assert judge.verdict_of(rows) == "undecided"


def test_what_says_nothing_is_not_judged() -> None:
    alone = trials(SHARES[0], [1.0] * 5)
    assert judge.assess(alone, trials(SHARES[0], [1.0] * 40)) == []
    assert judge.assess(trials(RTT, [20.0] * 5, packets=50), trials(RTT, [90.0] * 40, packets=50)) == []
    ce = Place("a", None, None, "ce_pct")
    assert judge.assess(trials(ce, [0.0] * 5), trials(ce, [0.0] * 40)) == []
    # CAKE's tins, which the laboratory does not see.
    tin = Place(None, "one", "Voice", "sojourn_ms_mean")
    assert judge.assess({tin: [Value(None, None)] * 5}, trials(tin, [1.0] * 40)) == []
    # A flow that is over before its RTT is sampled, but for one trial.
    assert judge.assess(trials(RTT, [None] * 5), trials(RTT, [20.0] + [None] * 39)) == []
    # Another link than the fullest.
    links = [Place(None, name, "all", "utilisation") for name in ("narrow", "wide")]
    kernel = {place: [Value(value, 1000)] * 5 for place, value in zip(links, (0.99, 0.3), strict=True)}
    assert [row.place for row in judge.assess(kernel, kernel)] == [links[0]]


def test_nothing_judged_is_not_equivalent() -> None:
    assert judge.verdict_of([]) == "undecided"


def test_a_value_that_only_one_engine_has_differs() -> None:
    assert verdict([None] * 5, [20.0] * 40) == "different"
    assert verdict([None] * 2, [20.0] * 40) == "undecided"


def test_number_and_seed_decide_what_a_scenario_is() -> None:
    files = random_files()
    assert files
    assert "random" not in studies()
    # Every file twice, all of them possible on both engines.
    found = random.draw(files, 2 * len(files), 1)
    assert sorted({one.family for one in found}) == sorted(file.stem for file in files)
    assert random.draw(files, 3, 1) == found[:3]
    assert [one.document for one in random.draw(files, 3, 2)] != [one.document for one in found[:3]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(FILE)
    return path


def test_the_simulator_beside_itself(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = ["agree", str(file), "--random", "2", "--seed", "3", "--engine", "sim", "--out", str(out)]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "2 scenarios: " in said
    assert ", 0 different" in said
    table = pl.read_parquet(out / "scenarios.parquet")
    assert table["scenario"].to_list() == ["0001", "0002"]
    assert set(table["verdict"]) <= {"equivalent", "undecided"}
    quantities = pl.read_parquet(out / "random.parquet")
    assert {"share", "rtt_ms_mean", "utilisation", "sojourn_ms_mean", "drop_pct"} & set(quantities["quantity"])
    assert "Drawn from" in (out / "random.html").read_text()
    drawn = tomllib.loads((out / "scenarios" / "0001.toml").read_text())
    assert "search" not in drawn
    # Again: nothing is run, and all is as it was, although a kill has torn the last line.
    with (out / "runs.jsonl").open("a") as lines:
        lines.write('["0123", [[["a", nu')
    before = (out / "runs.jsonl").read_text()
    assert main(command) == 0
    assert (out / "runs.jsonl").read_text() == before
    assert pl.read_parquet(out / "scenarios.parquet").equals(table)


def test_a_run_that_fails_is_no_verdict(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("l4slab.tools.agreement.random.runs.compute", lambda *_: Failure("no disk"))
    found = random.agree([file], 1, 1, tmp_path / "out", "sim")
    assert [one.verdict for one in found.judged] == ["failed"]
    assert found.judged[0].failure == "sim, trial 1: no disk"


def test_what_differs_is_reduced(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two engines that differ wherever there is a queue of less than 30 packets."""

    def compared(document: dict[str, Any], engine: str, runs: Runs, count: int) -> list[judge.Row]:
        del runs
        random.runs_of(document, engine, 1)  # refuses what is no experiment
        words = document["link"]["bottleneck"]["qdisc"].split()
        small = len(words) > 1 and int(words[-1]) < 30
        return judge.assess(trials(RTT, [40.0 if small else 20.0] * count), trials(RTT, [20.0] * 40))

    monkeypatch.setattr(random, "compare", compared)
    found = random.agree([file], 8, 1, tmp_path / "out", "sim")
    different = found.of("different")
    assert different
    assert len(different) < 8
    for one in different:
        text = (tmp_path / "out" / "reduced" / f"{one.scenario.name}.toml").read_text()
        assert "rtt_ms_mean of a: 40 on the kernel, 20 on the simulator" in text.splitlines()[0]
        document = tomllib.loads(text)
        assert len(document["flow"]) == 1
        assert document["seed"] == one.scenario.document["seed"]
        assert int(document["link"]["bottleneck"]["qdisc"].split()[-1]) < 30


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--seed", "1", "--out", "o"], "add it"),
        (["--random", "2", "--trials", "3", "--out", "o"], "leave them out"),
        (["--random", "2", "--engine", "ns3", "--out", "o"], "ns3 is not an engine"),
        (["--random", "2", "--engine", "sim"], "--out is missing"),
        (["--random", "2", "--engine", "sim", "--workers", "0", "--out", "o"], "give 1 or more"),
        (["none.toml", "--random", "2", "--engine", "sim", "--out", "o"], "none.toml"),
    ],
)
def test_mistakes(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["agree", *arguments]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
def test_two_scenarios_on_the_kernel(file: Path, tmp_path: Path) -> None:
    found = random.agree([file], 2, 1, tmp_path / "out", reduced=False)
    assert not found.of("failed")
    lines = [json.loads(line) for line in (tmp_path / "out" / "runs.jsonl").read_text().splitlines()]
    assert len(lines) == sum(one.kernel_trials + judge.LOOKS[one.kernel_trials] for one in found.judged)
