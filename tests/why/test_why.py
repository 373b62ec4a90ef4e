"""`l4slab why`: a planted cause is found, and where there is none, none is named."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from l4slab import cli
from l4slab.api.experiment import to_toml
from l4slab.base.errors import InputError
from l4slab.results import chance
from l4slab.tools import why
from l4slab.tools.search.scenario import plan_of
from l4slab.tools.why import quantities, states
from l4slab.tools.why.switches import Setting, applied, switches

LINK = {"bottleneck": {"rate": "20Mbit", "qdisc": "pfifo limit 60"}}
BULK: dict[str, Any] = {
    "duration": "20s",
    "warmup": "3s",
    "link": LINK,
    "flow": [{"name": "a", "cc": "cubic", "rtt": "40ms"}],
}
RESTING = BULK | {
    "flow": [{"name": "a", "cc": "cubic", "rtt": "40ms", "app_rate": "30Mbit"}],
    "at": [{"time": "6s", "flow.a.pause": True}, {"time": "11s", "flow.a.pause": False}],
}
DUALQ = BULK | {
    "duration": "15s",
    "link": {"bottleneck": {"rate": "40Mbit", "qdisc": "dualpi2"}},
    "flow": [{"name": "l", "cc": "prague", "rtt": "15ms"}, {"name": "c", "cc": "cubic", "rtt": "15ms"}],
}


def with_flow(document: Mapping[str, Any], **keys: Any) -> dict[str, Any]:
    changed = copy.deepcopy(dict(document))
    changed["flow"][0].update(keys)
    return changed


def with_queue(document: Mapping[str, Any], words: str) -> dict[str, Any]:
    changed = copy.deepcopy(dict(document))
    changed["link"]["bottleneck"]["qdisc"] = words
    return changed


def asked(folder: Path, a: Mapping[str, Any], b: Mapping[str, Any], **options: Any) -> why.Answer:
    """The answer about two files; the second has other seeds, so that no run of both is the same."""
    for name, document in (("a", a), ("b", dict(b) | {"seed": 77})):
        (folder / f"{name}.toml").write_text(to_toml(document))
    return why.why(str(folder / "a.toml"), str(folder / "b.toml"), **options)


def named(found: why.Answer) -> list[set[str]]:
    causes = found.explanation.causes if found.explanation else ()
    return [set(one) for one in dict.fromkeys(one.switches for one in causes)]


# -- chance -----------------------------------------------------------------------------------------------------------


def test_a_difference_by_chance_is_as_rare_as_it_says() -> None:
    draw = random.Random(1)
    false = 0
    for _ in range(200):
        # Quantities that depend on each other, and one that is nearly constant.
        both = []
        for _side in range(2):
            trials = [draw.gauss(0, 1) for _ in range(5)]
            both.append(
                [trials, [value + draw.gauss(0, 0.1) for value in trials], [draw.choice([0.0, 1.0])] + [0.0] * 4]
            )
        false += min(chance.together(*both)) <= 0.05
    assert false <= 20


def test_a_difference_that_is_always_there_is_as_sure_as_the_trials_allow() -> None:
    found = chance.together([[1.0, 1.1, 0.9, 1.0], [5.0] * 4], [[2.0, 2.1, 1.9, 2.0], [5.0] * 4])
    assert found == [2 / 70, 1.0]


# -- switches ---------------------------------------------------------------------------------------------------------


def test_every_option_is_a_switch_and_says_its_law() -> None:
    found = {one.name: one for one in switches(DUALQ)}
    names = {
        "cubic beta of c",
        "prague rtt_target of l",
        "initial_window of c",
        "dualpi2 min_qlen_step",
        "gso of l",
        "burst",
    }
    assert names <= set(found)
    assert all(one.law for one in found.values())
    assert "RFC 9438" in found["cubic beta of c"].law


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (Setting("link.b.qdisc", "2ms", "target"), "codel target 2ms ecn"),
        (Setting("link.b.qdisc", "50ms", "interval"), "codel target 5ms ecn interval 50ms"),
        (Setting("link.b.qdisc", "no", "ecn"), "codel target 5ms"),
    ],
)
def test_a_setting_changes_one_word(setting: Setting, words: str) -> None:
    document = {"link": {"b": {"qdisc": "codel target 5ms ecn"}}}
    assert applied(document, [setting]) == {"link": {"b": {"qdisc": words}}}
    assert document["link"]["b"]["qdisc"] == "codel target 5ms ecn"


def test_most_levels_make_a_run() -> None:
    levels = [level for one in switches(BULK) for level in one.levels]
    good = 0
    for level in levels:
        try:
            good += len(plan_of(applied(BULK, [level]), Path("a.toml"), "sim").runs)
        except InputError:
            continue
    assert good > 0.8 * len(levels)


# -- states -----------------------------------------------------------------------------------------------------------


def test_the_first_state_is_where_all_trials_part() -> None:
    def trial(after: float, jitter: float) -> quantities.Trial:
        times = [number / 10 for number in range(1, 51)]
        windows = [10 + jitter + (after if time > 3 else 0) for time in times]
        series = pl.DataFrame(
            {"time_s": times, "flow": "a", "cwnd_packets": windows, "srtt_ms": 20.0, "goodput_mbps": 5.0}
        )
        return quantities.Trial(pl.DataFrame(), pl.DataFrame(), series)

    found = states.first([trial(0, 0), trial(0, 0.5)], [trial(5, 0.2), trial(5, 0.3)])
    assert [(one.name, one.time_s) for one in found] == [("cwnd_packets", 3.1)]
    assert found[0].drawn()[2].strip() == "^ 3.1 s"


# -- answers ----------------------------------------------------------------------------------------------------------


def test_other_seeds_have_no_cause(tmp_path: Path) -> None:
    found = asked(tmp_path, DUALQ | {"duration": "5s", "warmup": "1s"}, DUALQ | {"duration": "5s", "warmup": "1s"})
    assert (found.differing, found.explanation, found.status) == ((), None, 0)
    assert "do not differ" in found.sentence


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "changed", "cause"),
    [
        (BULK, with_flow(BULK, options={"beta": 0.55}), "cubic beta"),
        (BULK, with_flow(BULK, options={"hystart": "off"}), "cubic hystart"),
        (BULK, with_flow(BULK, options={"reno_friendly": "off"}), "cubic reno_friendly"),
        (BULK, with_flow(BULK, cc="reno"), "cc"),
        (BULK, with_flow(BULK, transport={"initial_window": 32}), "initial_window"),
        (BULK, with_flow(BULK, transport={"pacing": "on"}), "pacing"),
        (BULK, with_flow(BULK, gso=True), "gso"),
        (BULK, with_flow(BULK, receive_window="100kB"), "receive_window"),
        (BULK, with_flow(BULK, rtt="47ms"), "rtt"),
        (BULK, with_queue(BULK, "pfifo limit 75"), "pfifo limit"),
        (RESTING, with_flow(RESTING, options={"idle_epoch": "off"}), "cubic idle_epoch"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_planted_cause_is_found(
    tmp_path: Path, document: dict[str, Any], changed: dict[str, Any], cause: str
) -> None:
    assert named(asked(tmp_path, document, changed)) == [{cause}]


@pytest.mark.slow
def test_the_file_shows_the_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = BULK | {"duration": "8s", "warmup": "1s"}
    for name, document in (("a", short), ("b", with_flow(short, receive_window="100kB"))):
        (tmp_path / f"{name}.toml").write_text(to_toml(document))
    out = tmp_path / "out"
    assert cli.main(["why", str(tmp_path / "a.toml"), str(tmp_path / "b.toml"), "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["causes"] == ["receive_window = 100kB"]
    assert len((out / "why.toml").read_text().splitlines()) <= 30
    # Its claim holds.
    assert cli.main(["run", str(out / "why.toml"), "--out", str(tmp_path / "shown"), "--no-report"]) == 0


# -- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing", "sim"], ["nothing", "no side", "STACK:CC"]),
        (["sim", "linux"], ["sim", "FILE"]),
        (["swept.toml", "swept.toml"], ["swept.toml", "several levels", "--set flow.a.rtt=10ms"]),
    ],
)
def test_a_mistake_is_a_sentence(
    arguments: list[str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("swept.toml").write_text(to_toml(BULK | {"sweep": {"flow.a.rtt": ["10ms", "20ms"]}}))
    assert cli.main(["why", *arguments]) == 2
    told = capsys.readouterr().err
    assert all(word in told for word in words), told
