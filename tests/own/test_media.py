"""Congestion controls for media of one's own: against built-in ones, in Python and C, and what is said of mistakes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import l4slab
import pytest
from l4slab import experimentfile, sweep
from l4slab.cli import main

from .test_compiled import build, needs_cc, template

Folder = Callable[..., Path]

MINE = (files("l4slab.own") / "templates" / "media.py").read_text().replace("CLASS", "Mine")

# The built-in controller "none".
FIXED = """
from l4slab.own import Frame, MediaController, Rates, Report


class Fixed(MediaController):
    def on_report(self, report: Report, rates: Rates) -> None:
        assert report.rtt_ns >= report.one_way_ns > 0

    def on_frame(self, frame: Frame, rates: Rates) -> None:
        assert frame.interval_ns == 40_000_000
        rates.target_bps = rates.max_bps
"""

CHANGE = '[[at]]\ntime = "3s"\n"flow.a.rate_max" = "2Mbit"\n'


def call(cc: str, rate_max: str = "4Mbit", **keys: str) -> dict[str, str]:
    """A call as the fixture's flow."""
    more = "".join(f"\n{key} = {value}" for key, value in {"frames": '"25/s"', **keys}.items())
    return {"cc": f'{cc}"\nkind = "media"\nrate_max = "{rate_max}"{more}\n# "'}


def test_a_fixed_rate_is_the_built_in_one_to_the_bit(experiment: Folder) -> None:
    found = []
    for cc in ("fixed.py:Fixed", "none"):
        file = experiment({"fixed.py": FIXED}, CHANGE, duration="6s", qdisc="pfifo limit 20", **call(cc))
        results = l4slab.run(file)
        found.append((results.flows.drop("run", "cc"), results.series.drop("run")))
        assert results.flows["media_mbps"][0] == pytest.approx(3, rel=0.03)
    assert found[0][0].equals(found[1][0])
    assert found[0][1].equals(found[1][1])


def test_nada_as_code_of_ones_own_does_what_the_built_in_one_does(experiment: Folder) -> None:
    # Both hold a queueing delay of 10 ms * 30/R at rest; they differ in how they ramp up and pace.
    found = {}
    for cc in ("mine.py:Mine", "nada"):
        keys = {"duration": "60s", "warmup": "40s", "rate": "20Mbit", "rtt": "40ms", "qdisc": "pfifo limit 1000"}
        file = experiment({"mine.py": MINE}, **keys, **call(cc, "30Mbit"))
        flow = l4slab.run(file).flows.row(0, named=True)
        assert flow["sojourn_ms_mean"] == pytest.approx(10 * 30 / flow["media_mbps"], rel=0.1)
        found[cc] = flow["media_mbps"]
    assert found["mine.py:Mine"] == pytest.approx(found["nada"], rel=0.05)


@needs_cc
def test_a_controller_in_c_is_the_same_as_in_python_to_the_bit(experiment: Folder, tmp_path: Path) -> None:
    build(template("media.c"), tmp_path / "libmine.so")
    found = []
    for cc in ("mine.py:Mine", "./libmine.so"):
        keys = {"duration": "20s", "rate": "3Mbit", "rtt": "40ms", "qdisc": "pfifo limit 30"}
        file = experiment({"mine.py": MINE}, **keys, **call(cc, options="{ reference = 20 }"))
        results = l4slab.run(file)
        assert results.series["signal_ms"].drop_nulls().max() > 20
        found.append((results.flows.drop("run", "cc"), results.series.drop("run")))
    assert found[0][0].equals(found[1][0])
    assert found[0][1].equals(found[1][1])


def test_the_code_of_the_documentation_works(experiment: Folder) -> None:
    (code,) = re.findall(
        "```python\n(.*?)```", (Path(__file__).parents[2] / "docs" / "own-media.md").read_text(), re.DOTALL
    )
    keys = {"duration": "10s", "warmup": "5s", "rate": "3Mbit", "qdisc": "dualpi2"}
    file = experiment({"mine.py": code}, **keys, **call("mine.py:Mine"))
    results = l4slab.run(file)
    assert results.flows["media_mbps"][0] > 0.8
    assert results.flows["ce_pct"][0] > 0
    assert results.series["heard"].drop_nulls().max() > 0


BODY = """
from l4slab.own import Controller, MediaController


class Mine(MediaController):
    {}


class Tcp(Controller):
    def on_ack(self, ack, window): pass
    def on_congestion(self, why, now_ns, window): pass
"""
HEARS = "def on_report(self, report, rates): "


@pytest.mark.parametrize(
    ("body", "cc", "said"),
    [
        ("pass", "mine.py:Mine", "mine.py:Mine has no on_report; define it: def on_report(self, report, rates)"),
        ("def on_report(self, report): pass", "mine.py:Mine", "on_report does not take the 2 arguments"),
        (
            'ecn = "accecn"\n    ' + HEARS + "pass",
            "mine.py:Mine",
            'ecn = \'accecn\' is refused; it is "not-ect", "ect0"',
        ),
        ("report_interval_ns = 0.1\n    " + HEARS + "pass", "mine.py:Mine", "report_interval_ns = 0.1 is refused"),
        (HEARS + "pass", "mine.py:Tcp", "mine.py:Tcp is no controller of media; write class Tcp(MediaController)"),
    ],
)
def test_a_class_that_cannot_be_used_is_a_sentence(
    experiment: Folder, capsys: Any, body: str, cc: str, said: str
) -> None:
    file = experiment({"mine.py": BODY.format(body)}, **call(cc))
    assert main(["run", str(file), "--dry-run"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("rates.target_bps = 'fast'", "rates.target_bps = 'fast': it is a number of bit/s from 1000 to 1e12"),
        ("rates.pacing_bps = 0", "rates.pacing_bps = 0: it is a number of bit/s from 1000 to 1e12, or None"),
        ("rates.window = -1", "rates.window = -1: it is a whole number of bytes above 0, or None"),
        ("return 5", "on_report gave 5; it returns nothing and sets rates"),
        ("1 / 0", "line 6, in on_report: ZeroDivisionError"),
    ],
)
def test_what_goes_wrong_in_a_run_is_a_sentence(experiment: Folder, capsys: Any, body: str, said: str) -> None:
    file = experiment({"mine.py": BODY.format(HEARS + body)}, **call("mine.py:Mine"))
    assert main(["run", str(file), "--out", str(file.parent / "r"), "--workers", "1"]) == 1
    assert said in " ".join(capsys.readouterr().err.split())


def test_it_is_listed_checked_and_refused_by_a_kernel(
    experiment: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    file = experiment({"mine.py": MINE}, **call("mine.py:Mine"))
    (run,) = sweep.expand(experimentfile.load(file), "sim").runs
    assert run.description["flows"][0]["options"] == {"penalty": "10", "reference": "10"}
    with pytest.raises(l4slab.InputError, match=r"mine\.py:Mine is code for the simulator"):
        l4slab.run(file, engine="linux")
    monkeypatch.chdir(tmp_path)
    assert main(["list", "mine.py", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["media-controllers"]
    assert (entry["ecn"], [gauge["name"] for gauge in entry["gauges"]]) == ("not-ect", ["signal_ms"])
    assert main(["check", "--media", "mine.py:Mine", "--item", "capacity", "--dry-run"]) == 0
