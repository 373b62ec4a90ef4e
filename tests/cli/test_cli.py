"""The commands."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import l4slab
import pytest
from l4slab import _core, engines
from l4slab.api import campaign
from l4slab.base.packaged import studies
from l4slab.campaign import executors
from l4slab.cli import cli, main
from l4slab.engines import sim
from l4slab.engines.contract import Finding
from l4slab.engines.registry import get_engine
from l4slab.sweep import Run
from l4slab.tools import doctor

FILE = """
duration = "500ms"
trials = 2
[link.bottleneck]
rate = "10Mbit"
qdisc = "pfifo limit 100"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[sweep]
"flow.a.rtt" = ["5ms", "10ms", "20ms"]
[[skip]]
when = "rtt < 0.006"
why = "too short"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.toml"
    path.write_text(FILE)
    return path


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"l4slab {_core.version()}\n"
    assert l4slab.__version__ == _core.version()


def test_the_script_and_the_module(file: Path) -> None:
    for command in ([sys.executable, "-m", "l4slab"], [str(Path(sys.executable).with_name("l4slab"))]):
        done = subprocess.run([*command, "run", str(file.parent)], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1


def test_the_commands_are_listed_in_groups_with_whole_sentences(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "..." not in shown.partition("\n")[2]
    for name in cli.commands:
        assert shown.count(f"\n  {name} ") == 1, name
    for group in ("Begin", "Run", "Results", "Questions", "Machine"):
        assert f"\n{group}:\n" in shown


def test_short_options(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-V"]) == 0
    assert capsys.readouterr().out == f"l4slab {_core.version()}\n"
    assert main(["run", "-q", str(file), "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "Flows, mean over trials" in shown.out


def test_the_standard_input_is_an_experiment(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(file.parent)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert main(["run", "-", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert Path(told["folder"]) == Path("results/stdin")
    assert {row["experiment"] for row in told["flows"]} == {"stdin"}


def test_a_wrong_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"duration = 5")))
    assert main(["run", "-", "--dry-run"]) == 2
    assert capsys.readouterr().err.startswith("l4slab: stdin.toml: ")


def test_doctor_does_not_call_absent_things_ok(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [Finding("a", True, "there"), Finding("b", True, "not there", absent=True), Finding("c", False, "broken")]
    monkeypatch.setattr(doctor, "examine", lambda: iter(found))
    assert main(["doctor"]) == 1
    signs = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert signs == [["ok", "a"], ["-", "b"], ["no", "c"]]


def test_init_writes_a_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--study", "fast-lane"]) == 0
    command = capsys.readouterr().out.split("run it with: l4slab ")[1].split()
    for file in studies()["fast-lane"]:
        assert (tmp_path / "fast-lane" / file.name).read_bytes() == file.read_bytes()
    assert main([*command, "--dry-run"]) == 0
    capsys.readouterr()
    assert main(["init", "--study", "fast-lane"]) == 2
    assert "fast-lane: exists already" in capsys.readouterr().err
    assert main(["init", "--study", "fast-lain"]) == 2
    assert 'did you mean "fast-lane"' in capsys.readouterr().err
    assert main(["init", "--study", "fast-lane", "--preset", "call"]) == 2


def test_help() -> None:
    for command in ("run", "report", "reproduce", "list", "doctor"):
        assert main([command, "--help"]) == 0


def test_dry_run_says_what_would_run(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(file), "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith(
        "x: 4 runs of 3 combinations, 2 trials each\n"
        "  flow.a.rtt: 5ms, 10ms, 20ms\n"
        "x: 1 of 3 combinations are left out: too short.\n4 runs to do, about "
    )
    assert [path.name for path in file.parent.iterdir()] == ["x.toml"]


def test_run_prints_means_and_plain_progress(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(file), "--out", str(tmp_path / "out"), "--workers", "2"]) == 0
    shown = capsys.readouterr()
    assert "4 runs, 2 at a time" in shown.err
    assert "Writing the report" in shown.err
    assert "\x1b" not in shown.err
    assert "(experiment x, flow a, cc cubic, trials 2, share 1, CE % 0, " in shown.out
    rows = [line.split() for line in shown.out.splitlines() if line.startswith(("10ms", "20ms"))]
    assert [row[0] for row in rows] == ["10ms", "20ms"]
    assert all(len(row) == 4 and float(row[1]) > 1 for row in rows)
    assert str(tmp_path / "out" / "report.html") in shown.out


@pytest.mark.parametrize("kind", ["qdiscs", "controllers"])
def test_list(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", kind]) == 0
    shown = capsys.readouterr().out
    entries = getattr(_core, kind)()
    assert len(entries) >= 3
    for entry in entries:
        assert entry["name"] in shown
        assert all(parameter["keyword"] in shown for parameter in entry["parameters"])


@pytest.mark.slow
def test_list_studies_and_their_files_are_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "studies"]) == 0
    shown = capsys.readouterr().out
    assert "fast-lane" in studies()
    for name, files in studies().items():
        assert name in shown
        assert campaign.plan(files)


def test_list_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("dualpi2", "prague", "fast-lane"))
    assert "(Chang, De Schepper, Briscoe 2022)" in shown, "a study names its publication"


def test_what_only_the_core_refuses_is_told_before_any_run(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gauges(run_json: str) -> None:
        raise ValueError("at most 1 link is supported")

    monkeypatch.setattr(sim._core, "gauges", gauges)
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == f"l4slab: {file}: cannot be run: at most 1 link is supported\n"


@pytest.mark.parametrize("command", ["linux exec -- true", "stacks build quinn", "list"])
def test_what_has_no_runs_tells_of_none_when_interrupted(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *more = command.split()
    found = cli.commands[first]
    if isinstance(found, click.Group):
        found = found.commands[more[0]]

    def stop(**_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(found, "callback", stop)
    assert main(command.split()) == 130
    assert capsys.readouterr().err.strip() == "l4slab: interrupted"


def test_a_campaign_interrupted_after_its_runs_says_that_they_are_kept(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(campaign, "_finish", stop)
        assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 130
    said = (
        "interrupted after the last run, before the report; finished runs are kept, and the same command does the rest"
    )
    assert said in capsys.readouterr().err
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 0
    assert "not repeated" in capsys.readouterr().err


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    assert "packets in" in capsys.readouterr().out


def test_a_failed_run_is_told_and_the_others_are_kept(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    execute = sim.SimEngine.execute

    def sometimes(self: sim.SimEngine, run_json: str, *besides: Any) -> engines.Recording:
        if '"rtt_ns":20000000' in run_json:
            raise ValueError("a reason")
        return execute(self, run_json, *besides)

    monkeypatch.setattr(sim.SimEngine, "execute", sometimes)
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 1
    message = capsys.readouterr().err
    assert message.count("the run failed: a reason") == 2
    assert "x, flow.a.rtt = 20ms, trial 1" in message
    with pytest.warns(UserWarning, match="2 runs failed, the first .*: a reason"):
        results = l4slab.run(file)
    assert results.flows["flow.a.rtt"].to_list() == ["10ms", "10ms"]
    monkeypatch.undo()
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 0, "failed runs are tried again"


def test_a_panic_of_the_core_is_a_failed_run(monkeypatch: pytest.MonkeyPatch) -> None:
    panic = type("PanicException", (BaseException,), {})

    def simulate(run_json: str) -> None:
        raise panic("index out of bounds")

    monkeypatch.setattr(sim._core, "simulate", simulate)
    outcome = executors.compute("sim", get_engine("sim").version(), "{}")
    assert isinstance(outcome, executors.Failure)
    assert "index out of bounds" in outcome.reason


def test_no_more_runs_are_handed_out_than_needed(file: Path) -> None:
    (plan,) = campaign.plan([file])
    handed_out = 0

    def runs() -> Iterator[Run]:
        nonlocal handed_out
        for run in plan.runs * 20:
            handed_out += 1
            yield run

    with executors.local(1, "sim") as pool:
        for ended, _ in enumerate(outcome for outcome in pool.map(runs()) if outcome is not None):
            assert handed_out <= ended + 4


def test_no_run_is_forgotten_while_all_workers_are_gone(file: Path) -> None:
    class Deserted(executors.Pool):
        def look(self) -> None:
            self.workers = 0

    (plan,) = campaign.plan([file])
    with executors.local(1, "sim") as pool:
        outcomes = Deserted(pool.executor, 1).map(plan.runs * 4)
        ended = [outcome[0].id for outcome in outcomes if outcome is not None]
    assert sorted(ended) == sorted(run.id for run in plan.runs * 4)


@pytest.mark.slow
def test_dask_gives_the_same_files(file: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    assert main(["run", str(file), "--out", str(tmp_path / "local")]) == 0
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        assert main(["run", str(file), "--out", str(tmp_path / "dask"), "--dask", cluster.scheduler_address]) == 0
    for name in ("flows", "links", "series", "claims"):
        assert (tmp_path / "local" / f"{name}.parquet").read_bytes() == (
            tmp_path / "dask" / f"{name}.parquet"
        ).read_bytes()


def test_dask_that_is_not_there(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed")
    assert main(["run", str(file), "--out", str(tmp_path / "out"), "--dask", "nowhere:1:1"]) == 2
    message = [line for line in capsys.readouterr().err.splitlines() if line.startswith("l4slab: ")]
    assert len(message) == 1
    assert "--dask nowhere:1:1" in message[0]
