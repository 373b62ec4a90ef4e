"""Runs whose normal descriptions are the same have the same results, so that a campaign computes one of them."""

from __future__ import annotations

import json
from pathlib import Path

import l4slab
import pytest
from l4slab import _core, experimentfile, sweep
from l4slab.base import metrics
from l4slab.base.run import Run as Description
from l4slab.campaign import alike
from l4slab.engines.contract import Recording
from l4slab.engines.sim import SimEngine

FILE = """
title = "x"
duration = "{seconds}s"
sample = "100ms"
[link.l]
rate = "20Mbit"
qdisc = "{qdisc}"
[link.back]
rate = "5Mbit"
qdisc = "{qdisc}"
[[flow]]
name = "a"
cc = "prague"
rtt = "20ms"
path = ["l"]
reverse_path = ["back"]
[[flow]]
name = "b"
cc = "cubic"
ecn = "classic"
rtt = "20ms"
path = ["l"]
reverse_path = ["back"]
[sweep]
"flow.a.peer_ecn" = ["accecn", "classic", "off"]
[[sweep.options]]
level = "none"
[[sweep.options]]
level = "fallback"
"flow.a.options" = {{ fallback = "correct" }}
[[sweep.options]]
level = "0.5"
"flow.a.options" = {{ version = "0.5", min_cwnd = "3", rtt_target = "5ms" }}
"""
QUEUES = [f"{entry['name']} {entry['required']}".strip() for entry in _core.qdiscs()]


def runs_of(folder: Path, qdisc: str, seconds: int = 2) -> list[sweep.Run]:
    (folder / "x.toml").write_text(FILE.format(qdisc=qdisc, seconds=seconds))
    return sweep.expand(experimentfile.load(folder / "x.toml"), "sim").runs


def equal(one: Recording, other: Recording) -> bool:
    return all(getattr(one, name).equals(getattr(other, name)) for name in metrics.TABLES)


@pytest.mark.parametrize("qdisc", QUEUES)
def test_prague_without_accecn_has_no_options(tmp_path: Path, qdisc: str) -> None:
    """Every bit of every table, in every queue: neither the options nor the peer's classic ECN matter."""
    runs = runs_of(tmp_path, qdisc)
    groups = alike.grouped(runs)
    assert sorted(map(len, groups)) == [1, 1, 1, 6]
    (group,) = (group for group in groups if len(group) > 1)
    first = SimEngine().execute(group[0].json)
    assert first.flows["ecn_mode"].to_list() == ["off", "classic"]
    for run in group[1:]:
        own = SimEngine().execute(run.json)
        copied = alike.recording_of(run, first)
        assert equal(copied, own), run
        assert copied.series.schema == own.series.schema


def test_a_normal_description_gives_the_same(tmp_path: Path) -> None:
    (run,) = (
        run for run in runs_of(tmp_path, "fq_codel") if run.factors == {"flow.a.peer_ecn": "off", "options": "0.5"}
    )
    normal = SimEngine().normal(run.json)
    assert equal(SimEngine().execute(normal), SimEngine().execute(run.json))
    assert SimEngine().normal(normal) == normal


@pytest.mark.parametrize(
    "change",
    [{"cc": "cubic"}, {"peer_ecn": None}, {"peer_ecn": "accecn"}, {"peer_ecn": "sce"}, {"ecn": "classic"}],
)
def test_other_descriptions_are_normal(tmp_path: Path, change: dict[str, str | None]) -> None:
    (run, *_) = (run for run in runs_of(tmp_path, "codel") if run.factors["flow.a.peer_ecn"] == "off")
    description: Description = json.loads(run.json)
    description["flows"][0].update(change)  # type: ignore[typeddict-item]
    text = json.dumps(description)
    assert json.loads(SimEngine().normal(text)) == description


def test_a_campaign_computes_one_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.toml"
    file.write_text(FILE.format(qdisc="codel", seconds=1))
    computed: list[str] = []
    execute = SimEngine.execute

    def counted(self: SimEngine, run_json: str, *more: object) -> Recording:
        computed.append(run_json)
        return execute(self, run_json, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(SimEngine, "execute", counted)
    found = l4slab.run(file)
    assert len(computed) == 4
    assert found.flows["run"].n_unique() == 9
    monkeypatch.setattr(alike, "grouped", lambda runs: [[run] for run in runs])
    apart = l4slab.run(file)
    assert len(computed) == 13
    assert all(found.tables[name].equals(apart.tables[name]) for name in metrics.TABLES)


def test_runs_with_captures_are_computed_each(tmp_path: Path) -> None:
    """The handshake of a captured run shows what the peer has."""
    text = 'captures = "all trials"\n' + FILE.format(qdisc="codel", seconds=1)
    (tmp_path / "x.toml").write_text(text)
    runs = sweep.expand(experimentfile.load(tmp_path / "x.toml"), "sim").runs
    assert len(alike.grouped(runs)) == len(runs) == 9
