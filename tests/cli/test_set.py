"""`run --set KEY=VALUE`, `--trials` and `--duration`: as if the file said so."""

from __future__ import annotations

import json
from pathlib import Path

import l4slab
import pytest
from l4slab.api import campaign
from l4slab.base.values import Value
from l4slab.cli import main
from l4slab.experimentfile.changed import value_of

FILE = """
title = "x"          # a comment that stays
duration = "2s"
[link.home]
rate = "10Mbit"
qdisc = "pfifo limit 40"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[[flow]]
name = "b"
cc = "prague"
rtt = "10ms"
[sweep]
"link.home.rate" = ["10Mbit", "20Mbit"]
[[sweep.aqm]]
level = "FIFO"
[[sweep.aqm]]
level = "DualPI2"
"link.home.qdisc" = "dualpi2"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.toml"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize(
    ("changes", "old", "new"),
    [
        ({"duration": "5s"}, 'duration = "2s"', 'duration = "5s"'),
        ({"trials": 3}, "[link.home]", "trials = 3\n[link.home]"),
        ({"flow.a.rtt": "20ms"}, 'cc = "cubic"\nrtt = "10ms"', 'cc = "cubic"\nrtt = "20ms"'),
        ({"flow.*.rtt": "20ms"}, 'rtt = "10ms"', 'rtt = "20ms"'),
        ({"flow.b.options": {"fallback": "correct"}}, 'cc = "prague"', 'cc = "prague"\noptions.fallback = "correct"'),
        ({"link.home.rate": "5Mbit"}, '["10Mbit", "20Mbit"]', '["5Mbit"]'),
        ({"link.home.rate": ["5Mbit", "6Mbit"]}, '["10Mbit", "20Mbit"]', '["5Mbit", "6Mbit"]'),
        ({"aqm": "DualPI2"}, '[[sweep.aqm]]\nlevel = "FIFO"\n', ""),
    ],
)
def test_it_is_as_if_the_file_said_so(file: Path, changes: dict[str, Value], old: str, new: str) -> None:
    (changed,) = campaign.plan([file], changes=changes)
    assert b"# a comment that stays" in changed.experiment.source
    assert old in FILE
    file.write_text(FILE.replace(old, new))
    (written,) = campaign.plan([file])
    assert [run.id for run in changed.runs] == [run.id for run in written.runs]


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("link.hom.rate=5Mbit", 'link.hom.rate names the link "hom", which is not in the file; did you mean "home"?'),
        ("flow.c.rtt=5ms", 'names the flow "c", which is not in the file; valid are a, b'),
        ("impair.x.netem=loss 1%", 'names the impair "x", which is not in the file'),
        ("flow.a.ccc=reno", 'flow "a": ccc = "reno" is not a key here'),
        ("flow.a.cc=ren", 'flow "a": cc = "ren"'),
        ("flow.a.rtt=20", 'flow "a": rtt = 20 has no unit'),
        ("dur=5s", 'dur = "5s" is not a key here; did you mean "duration"?'),
        ("aq=DualPI2", "--set aq is neither a key nor a factor; did you mean --set aqm=VALUE?"),
        ("aqm=DualPI", 'aqm = "DualPI" is not a level of this factor; did you mean "DualPI2"?'),
        ("link.home.qdisc=pie", "the sweep sets link.home.qdisc in each run; choose there: --set aqm=LEVEL"),
        ("link.*.rate=5Mbit", "the sweep sets link.home.rate in each run; choose there: --set link.home.rate=VALUE"),
        ("flow=x", "write such as link.NAME.rate=5Mbit, flow.NAME.cc=cubic or duration=20s, or link.home.rate=LEVEL"),
        ("flow.a.cc.x=1", "goes below cc, which is no table"),
        ("rate", '--set rate is not NAME=VALUE; write it such as "duration=20s"'),
    ],
)
def test_a_mistake_is_one_sentence(file: Path, setting: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(file), "--set", setting, "--dry-run"]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_a_value_from_a_factor_is_set_there(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = FILE.replace('rtt = "10ms"', 'rtt = "{rtt_ms}ms"').replace("[sweep]", "[sweep]\nrtt_ms = [10, 20]")
    file.write_text(text)
    assert main(["run", str(file), "--set", "flow.*.rtt=40ms", "--dry-run"]) == 2
    assert (
        'rtt is "{rtt_ms}ms", from a factor of the sweep; choose there: --set rtt_ms=VALUE' in capsys.readouterr().err
    )
    assert main(["run", str(file), "--set", "rtt_ms=40", "--dry-run"]) == 0


def test_the_folder_describes_what_was_run(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    options = ["--set", "aqm=FIFO", "--set", "flow.*.rtt=5ms", "--trials", "2", "--duration", "1s", "--no-report"]
    assert main(["run", str(file), "--out", str(out), *options]) == 0
    capsys.readouterr()
    assert main(["status", str(out), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["experiments"] == [{"name": "x", "finished": 4, "planned": 4}]
    results = l4slab.open(out)
    assert results.flows["trial"].unique().sort().to_list() == [1, 2]
    assert l4slab.run(out / "experiments" / "x.toml", tmp_path / "again").flows.equals(results.flows)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5Mbit", "5Mbit"), ("5", 5), ("0.5", 0.5), ("true", True), ("cubic", "cubic"),
        ("pfifo limit 5", "pfifo limit 5"),
        ('["a", "b"]', ["a", "b"]), ('{ fallback = "correct" }', {"fallback": "correct"}), ("", ""),
    ],
)  # fmt: skip
def test_a_value_is_read_as_in_the_file(text: str, value: Value) -> None:
    assert value_of(text) == value


def test_two_files_of_other_names_are_compared(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "y.toml"
    other.write_text(FILE.replace("limit 40", "limit 20"))
    for one in (file, other):
        assert main(["run", str(one), "--out", str(tmp_path / one.stem), "--no-report", "--trials", "7"]) == 0
    capsys.readouterr()
    for more in ([], ["--fail-on", "a.sojourn_ms_mean -90%"]):
        assert main(["compare", str(tmp_path / "x"), str(tmp_path / "y"), *more]) == 0
        said = capsys.readouterr().out
        assert "Moved beyond the spread" in said
        assert "only in the" not in said
