"""Traces from published models: the same seed gives the same, and their figures are those of the source."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from l4slab.cli import main
from l4slab.experimentfile import traces
from l4slab.tools.generators import GENERATORS, written


def made(folder: Path, name: str, seed: int = 1, seconds: float = 60.0, scale: float = 0.0) -> dict:
    (folder / "x.csv").write_text(written(name, seed, seconds, scale))
    read = traces.delay_trace if GENERATORS[name].is_delay else traces.rate_trace
    return read("x.csv", folder, repeat=True)


@pytest.mark.parametrize("name", GENERATORS)
def test_a_seed_is_a_trace(name: str, tmp_path: Path) -> None:
    assert written(name, 1, 20, 0) == written(name, 1, 20, 0) != written(name, 2, 20, 0)
    found = made(tmp_path, name)
    assert found["repeat_ns"] == 60 * 10**9
    text = written(name, 1, 20, 0)
    assert all(word in text for word in ("A model, not a recording", "It has no", "Source:", f"trace {name} --seed 1"))


def test_docsis_grants_its_rate_in_each_interval(tmp_path: Path) -> None:
    for scale, mbps in ((0, 20), (60, 60)):
        found = made(tmp_path, "docsis", scale=scale)
        of_intervals = [mbps for _, mbps in traces.bins(found, 2 * 10**9, 2_000_000)]
        assert of_intervals == pytest.approx([mbps] * 1000, rel=0.01)
        assert max(rate for _, rate in found["steps"]) == max(100, 2 * mbps) * 10**6


def test_wifi_has_a_quarter_of_the_medium(tmp_path: Path) -> None:
    found = made(tmp_path, "wifi", seconds=600)
    assert traces.mean_bps(found, 0) / 200e6 == pytest.approx(0.25, rel=0.05)
    ends = [(end - at, rate) for (at, rate), (end, _) in pairwise(found["steps"])]
    assert min(span for span, rate in ends if rate) == pytest.approx(4e6, abs=2e3)


@pytest.mark.slow
def test_lte_walks_as_its_source_says(tmp_path: Path) -> None:
    rates = [rate / 1514 / 8 for _, rate in made(tmp_path, "lte", seconds=3000)["steps"]]
    assert max(rates) <= 1001
    moved = [after - before for before, after in pairwise(rates) if 150 < before < 850]
    spread = (sum(move * move for move in moved) / len(moved)) ** 0.5
    assert spread == pytest.approx(200 * 0.02**0.5, rel=0.02)
    outages = "".join("0" if rate == 0 else " " for rate in rates).split()
    assert sum(map(len, outages)) / len(outages) * 0.02 == pytest.approx(1.0, rel=0.25)


def test_leo_jumps_every_15_s_and_is_as_far_as_its_orbit(tmp_path: Path) -> None:
    steps = made(tmp_path, "leo", seconds=600)["steps"]
    rtts = [rtt / 1e6 for _, rtt in steps]
    # 550 km above, and 1123 km at an elevation of 25 degrees.
    assert 4 * 550 / 299.792458 - 0.01 < min(rtts) < max(rtts) < 4 * 1123.5 / 299.792458 + 0.01
    jumps = [at // 10**9 for (_, before), (at, now) in pairwise(steps[:-1]) if abs(now - before) > 0.1e6]
    assert set(jumps) <= set(range(0, 600, 15))
    assert len(jumps) > 25


def test_the_command_writes_and_leaves_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "l.csv"
    assert main(["trace", "lte", "--seed", "3", "--duration", "5s", "--out", str(file)]) == 0
    assert file.read_text() == written("lte", 3, 5, 0)
    capsys.readouterr()
    for arguments, mentions in (
        (["lte", "--out", str(file)], ["l.csv", "is there already"]),
        (["let"], ["let", '"lte"']),
        (["lte", "--duration", "5"], ["--duration", "has no unit"]),
        (["lte", "--duration", "10ms"], ["--duration", "10ms", "1s"]),
        (["lte", "--scale", "-1"], ["--scale", "-1"]),
    ):
        assert main(["trace", *arguments]) == 2
        told = capsys.readouterr().err
        assert len(told.strip().splitlines()) == 1, told
        assert all(mention in told for mention in mentions), told
