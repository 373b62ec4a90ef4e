"""Trials that lie apart are told wherever means over trials are shown."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from l4slab.cli import main
from l4slab.results.apart import apart


def rows(**values: list[float]) -> pl.DataFrame:
    """Three trials of one cell; what is not given is the same in each."""
    usual = {"goodput_mbps": [5.0] * 3, "rtt_ms_mean": [30.0] * 3, "sojourn_ms_mean": [9.0] * 3}
    labels = {"experiment": ["x"] * 3, "run": list("abc"), "trial": [1, 2, 3], "aqm": ["FQ"] * 3, "flow": ["a"] * 3}
    return pl.DataFrame(labels | usual | values)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({}, []),
        ({"sojourn_ms_mean": [9.0, 10.0, 26.9]}, []),
        ({"sojourn_ms_mean": [9.0, 10.0, 27.1]}, [("sojourn_ms_mean", 9.0, 10.0, 27.1)]),
        ({"sojourn_ms_mean": [0.01, 0.02, 1.9]}, []),
        ({"goodput_mbps": [0.0, 4.0, 5.0]}, [("goodput_mbps", 0.0, 4.0, 5.0)]),
        (
            {"goodput_mbps": [1.0, 4.0, 5.0], "rtt_ms_mean": [20.0, 21.0, 80.0]},
            [("goodput_mbps", 1.0, 4.0, 5.0), ("rtt_ms_mean", 20.0, 21.0, 80.0)],
        ),
        ({"rtt_ms_mean": [None, None, None]}, []),
    ],
)
def test_more_than_three_times_the_least_is_apart(values: dict, found: list) -> None:
    told = apart(rows(**values))
    assert [(one.quantity, one.least, one.median, one.most) for one in told] == found
    assert all((one.levels, one.flow, one.trials) == ({"aqm": "FQ"}, "a", 3) for one in told)


def test_terminal_json_and_summary_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, summary = Path(__file__).parents[2] / "examples" / "first.toml", tmp_path / "summary.md"
    command = ["run", str(file), "--out", str(tmp_path / "out"), "--no-report"]
    assert main([*command, "--set", "link.home.qdisc=fq_codel", "--trials", "3", "--summary", str(summary)]) == 0
    said = capsys.readouterr().out
    assert "Trials lie apart (the largest is more than 3 times the least), so a mean misleads:\n" in said
    assert "  l4s: queue 8." in said.replace("fq_codel, ", "")
    assert "Trials that lie apart" in summary.read_text()
    assert main([*command, "--set", "link.home.qdisc=fq_codel", "--trials", "3", "--json"]) == 0
    assert {one["quantity"] for one in json.loads(capsys.readouterr().out)["apart"]} >= {"sojourn_ms_mean"}
    assert main([*command, "--set", "link.home.qdisc=dualpi2", "--trials", "3"]) == 0
    assert "lie apart" not in capsys.readouterr().out


@pytest.mark.parametrize("factor", ["n", "least", "median", "most", "trials"])
def test_a_factor_may_have_any_name(factor: str) -> None:
    (told,) = apart(rows(sojourn_ms_mean=[9.0, 10.0, 90.0]).rename({"aqm": factor}))
    assert (told.levels, told.least, told.most, told.trials) == ({factor: "FQ"}, 9.0, 90.0, 3)


def test_levels_may_be_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (told,) = apart(rows(sojourn_ms_mean=[9.0, 10.0, 90.0]).with_columns(aqm=pl.lit(5)))
    assert (told.levels, told.case) == ({"aqm": 5}, "5")
    file, summary = tmp_path / "x.toml", tmp_path / "summary.md"
    first = (Path(__file__).parents[2] / "examples" / "first.toml").read_text("utf-8").partition("[sweep]")[0]
    file.write_text(f'{first}\n[sweep]\n"flow.l4s.count" = [1, 2]\n')
    command = ["run", str(file), "--out", str(tmp_path / "out"), "--no-report", "--summary", str(summary)]
    assert main([*command, "--set", "link.home.qdisc=fq_codel", "--trials", "3"]) == 0
    assert "Trials lie apart" in capsys.readouterr().out
    assert "Trials that lie apart" in summary.read_text()
