"""Changes that wait for a state, on the kernel: runs until they come when their states do."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest
from l4slab import plot, stacks, sweep
from l4slab.api.experiment import Experiment, load
from l4slab.base.run import Run
from l4slab.engines.contract import EngineError, LackingError
from l4slab.engines.linux import kernels, passes
from l4slab.engines.registry import get_engine

MS = 1_000_000


def change(state: str | None, time: float = 0, after: float = 0, **what: Any) -> dict[str, Any]:
    of = {} if state is None else {"state": {"flow": "f", "name": state, "after_ns": round(after * MS)}}
    return {"time_ns": round(time * MS), "link": "l", **of, **what}


def run(*at: dict[str, Any]) -> Run:
    links = [{"name": "l", "rate_bps": 10, "qdisc": "pfifo"}]
    return cast(
        "Run",
        {
            "duration_ns": 1000 * MS,
            "links": links,
            "seed": 7,
            "flows": [{"name": "f", "kind": "program"}],
            "at": list(at),
        },
    )


def found(description: Run, told: Any) -> list[Run]:
    """The runs that are made. `told`: from a description, the times in ms and states of its flow."""
    asked = passes.Passes(description)
    runs = [asked.run]
    while not asked.agrees(lambda _: [(round(at * MS), state) for at, state in told(runs[-1])]):
        runs.append(asked.run)
    return runs


def times(description: Run) -> list[float]:
    assert not any("state" in one for one in description["at"])
    return [one["time_ns"] / MS for one in description["at"]]


def test_a_stack_may_draw_the_same_in_each_run() -> None:
    assert [
        one["flows"][0].get("env") for one in found(run(change("drain", rate_bps=5)), lambda _: [(20, "drain")])
    ] == [
        {"L4SLAB_SEED": "7"},
        {"L4SLAB_SEED": "7"},
    ]
    assert "env" not in found(run(change(None, 5, rate_bps=5)), lambda _: [])[0]["flows"][0]


def test_nothing_that_waits_is_one_run() -> None:
    assert len(found(run(change(None, 5, rate_bps=5)), lambda _: [])) == 1


def test_it_comes_a_millisecond_after_its_state_was_seen_and_then_after_its_time() -> None:
    states = [(10, "startup"), (20, "drain"), (30, "up"), (40, "drain")]
    runs = found(run(change("drain", rate_bps=5)), lambda _: states)
    assert [times(one) for one in runs] == [[], [21]]
    assert times(found(run(change("drain", 35, 7, rate_bps=5)), lambda _: states)[-1]) == [48]
    # It is in the state when it begins to wait.
    assert times(found(run(change("drain", 25, rate_bps=5)), lambda _: states)[-1]) == [26]


def test_what_a_change_moves_is_looked_for_again() -> None:
    def told(of: Run) -> list[tuple[float, str]]:
        return [(20, "drain"), (60 if of["at"] else 40, "up"), (100 if len(of["at"]) > 1 else 90, "down")]

    asked = run(change("up", rate_bps=6), change("drain", rate_bps=5), change("down", rate_bps=7))
    assert [times(one) for one in found(asked, told)] == [[], [21], [21, 61], [21, 61, 101]]


def test_what_changes_nothing_costs_no_run() -> None:
    assert len(found(run(change("drain", rate_bps=10)), lambda _: [(20, "drain")])) == 1
    assert len(found(run(change("drain", qdisc="pfifo"), change(None, 5, rate_bps=5)), lambda _: [(20, "drain")])) == 1
    assert len(found(run(change("drain", rate_bps=10), change(None, 5, rate_bps=5)), lambda _: [(20, "drain")])) == 2


def test_what_is_in_force_when_the_state_comes_may_come_at_another_time_in_each_run() -> None:
    random = count(500, 50)

    def told(_: Run) -> list[tuple[float, str]]:
        return [(20, "drain"), (next(random), "down")]

    assert len(found(run(change("drain", rate_bps=5), change("down", 300, rate_bps=5)), told)) == 2


def test_a_state_that_never_comes_changes_nothing() -> None:
    assert [times(one) for one in found(run(change("rest", rate_bps=5)), lambda _: [(20, "drain")])] == [[]]


def test_runs_that_differ_a_little_are_the_same_and_others_are_refused() -> None:
    drift = iter((20, 14, 12))
    assert len(found(run(change("drain", rate_bps=5)), lambda _: [(next(drift), "drain")])) == 2
    early = iter((20, 30, 30))
    assert times(found(run(change("drain", rate_bps=5)), lambda _: [(next(early), "drain")])[-1]) == [31]
    wild = iter(range(0, 900, 50))
    with pytest.raises(EngineError, match='state "drain" of flow "f" comes at another time in each run'):
        found(run(change("drain", rate_bps=5)), lambda _: [(next(wild), "drain")])


FILE = """
duration = "6s"
sample = "5ms"
start_jitter = "0s"
[link.bottleneck]
rate = "10Mbit"
qdisc = "pfifo limit 200"
[[flow]]
name = "f"
kind = "program"
stack = "picoquic"
cc = "{cc}"
rtt = "40ms"
{env}
[[at]]
flow = "f"
state = "{state}"
"link.bottleneck.rate" = "5Mbit"
"""
LOG = 'env = { QLOGDIR = "{out}" }'


def described(cc: str = "bbr", state: str = "drain", env: str = LOG) -> Any:
    text = FILE.format(cc=cc, state=state, env=env)
    return sweep.expand(load(Experiment.from_toml(text, "waits"), {}), "linux").runs[0].description


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    stack = stacks.find("picoquic")
    stack.build.mkdir(parents=True)
    (stack.build / stacks.BUILT).write_text(json.dumps({"qlog": dict(stack.recipe.qlog)}))


@pytest.mark.usefixtures("built")
def test_who_logs_no_states_is_told_what_is_missing() -> None:
    passes.refuse(described())
    with pytest.raises(LackingError, match=r'states are not logged; write env = \{ QLOGDIR = "\{out\}" \}'):
        passes.refuse(described(env=""))
    with pytest.raises(Exception, match='did you mean "drain"'):
        described(state="drian")
    with pytest.raises(Exception, match=r"picoquic cubic has none; stacks whose recipe has them are .*picoquic"):
        described(cc="cubic")


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
def test_the_path_of_the_kernels_bbr_changes_when_it_drains(tmp_path: Path) -> None:
    text = FILE.format(cc="bbr", state="drain", env="").replace('kind = "program"\nstack = "picoquic"\n', "")
    (run,) = sweep.expand(load(Experiment.from_toml(text, "waits"), {}), "linux").runs
    series = get_engine("linux").execute(json.dumps(run.description), tmp_path / "kept").series
    drains = series.filter(pl.col("flow") == "f", pl.col("cc_state") == "drain")["time_s"].min()
    (at,) = (line for line in (tmp_path / "kept" / "plan").read_text().splitlines() if line.startswith("at "))
    assert -0.005 <= float(at.split()[1]) * 1e-9 - float(drains) <= 0.012
    after = series.filter(pl.col("flow") == "f", pl.col("time_s") > 1)
    assert 4 < after["rate_mbps"].mean() < 5.1


@pytest.mark.slow
def test_the_path_of_a_stack_changes_when_its_state_comes(tmp_path: Path) -> None:
    if not stacks.find("picoquic").is_built:
        pytest.skip("picoquic is not built: l4slab stacks build picoquic")
    recording = get_engine("linux").execute(json.dumps(described()), tmp_path / "kept")
    series = recording.series.filter(recording.series["flow"] == "f")
    drains = series.filter(series["cc_state"] == "drain")["time_s"].min()
    (at,) = (line for line in (tmp_path / "kept" / "plan").read_text().splitlines() if line.startswith("at "))
    assert -0.005 <= float(at.split()[1]) * 1e-9 - float(drains) <= 0.012
    before, after = (series.filter(series["time_s"].is_between(*span)) for span in ((0.3, 0.35), (0.5, 6)))
    assert before["rate_mbps"].mean() > 8
    assert after["rate_mbps"].mean() < 5.1
    kept = tmp_path / "kept" / "programs"
    packets, log = (pl.read_parquet(kept / f"f-{kind}.parquet") for kind in ("packets", "log"))
    assert log["lost_packets"].max() == pytest.approx(packets["is_dropped"].sum(), abs=5), "all of them were dropped"
    figure = plot.packets(packets, log)
    assert figure is not None
    assert "probe bw cruise" in {text.get_text() for text in figure.axes[-1].get_yticklabels()}
