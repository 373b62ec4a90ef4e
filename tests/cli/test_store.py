"""The results folder: nothing finished is lost, nothing runs twice, and the bytes do not depend on how they came."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import l4slab
import polars as pl
import pytest
from l4slab.api import campaign
from l4slab.base import metrics
from l4slab.base.errors import StoreError
from l4slab.base.numbers import counted
from l4slab.campaign import store
from l4slab.campaign.store import Store
from l4slab.cli import main
from l4slab.engines.contract import Recording
from l4slab.engines.sim import SimEngine

TABLES = ("flows", "links", "series", "transfers", "claims", "published")

BASE = """
duration = "2s"
sample = "100ms"
trials = {trials}
[link.bottleneck]
rate = "10Mbit"
qdisc = "pfifo limit 100"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[[flow]]
name = "b"
cc = "reno"
rtt = "10ms"
[[claim]]
id = "shares"
says = "the shares add up"
sql = "select abs(sum(share) - count(distinct run)) < 1e-6, count(distinct run) as runs from flows"
"""
SWEEP = '[sweep]\n"flow.*.rtt" = [{rtts}]\n"link.bottleneck.rate" = ["5Mbit", "10Mbit"]\n'


def write(folder: Path, rtts: int = 2, trials: int = 2, name: str = "x") -> Path:
    file = folder / f"{name}.toml"
    levels = ", ".join(f'"{5 * n}ms"' for n in range(1, rtts + 1))
    file.write_text(BASE.format(trials=trials) + SWEEP.format(rtts=levels))
    return file


def contents(out: Path) -> dict[str, bytes]:
    return {name: (out / f"{name}.parquet").read_bytes() for name in TABLES}


@pytest.mark.slow
def test_files_are_the_same_for_any_workers_and_on_repetition(tmp_path: Path) -> None:
    file = write(tmp_path)
    first = tmp_path / "1"
    assert main(["run", str(file), "--out", str(first), "--workers", "1"]) == 0
    for name, workers in (("2", "2"), ("3", "4"), ("4", "1")):
        assert main(["run", str(file), "--out", str(tmp_path / name), "--workers", workers]) == 0
        assert contents(tmp_path / name) == contents(first)
    before = {path: path.stat().st_mtime_ns for path in first.glob("[fls]*.parquet")}
    assert main(["run", str(file), "--out", str(first)]) == 0
    assert {path: path.stat().st_mtime_ns for path in first.glob("[fls]*.parquet")} == before, "nothing was to do"


def test_tables_have_the_contract_columns_in_sweep_order(tmp_path: Path) -> None:
    out = tmp_path / "out"
    results = l4slab.run(write(tmp_path), out=out)
    labels = ["experiment", "run", "engine", "trial", "flow.*.rtt", "link.bottleneck.rate"]
    for name, schema in metrics.TABLES.items():
        table = pl.read_parquet(out / f"{name}.parquet")
        assert table.equals(getattr(results, name))
        assert table.columns[: len(labels)] == labels
        assert set(schema) <= set(table.columns)
        assert {column: table.schema[column] for column in schema} == schema
    keys = results.flows.select("flow.*.rtt", "link.bottleneck.rate", "trial", "flow").rows()
    assert keys == [
        (rtt, rate, trial, flow)
        for rtt in ("5ms", "10ms")
        for rate in ("5Mbit", "10Mbit")
        for trial in (1, 2)
        for flow in ("a", "b")
    ]
    series_runs = results.series["run"].unique(maintain_order=True).to_list()
    assert series_runs == results.flows["run"].unique(maintain_order=True).to_list()
    assert (out / "report.html").is_file()


def test_without_out_the_tables_are_the_same_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path)
    kept = l4slab.run(file, out=tmp_path / "out")
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    results = l4slab.run(file, workers=2)
    for name in TABLES:
        assert getattr(results, name).equals(getattr(kept, name))
    assert not list(empty.iterdir())


def test_a_changed_file_runs_only_what_is_new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["run", str(write(tmp_path, rtts=1)), "--out", str(out)]) == 0
    capsys.readouterr()
    assert main(["run", str(write(tmp_path, rtts=3)), "--out", str(out)]) == 0
    messages = capsys.readouterr().err
    assert "4 runs are in" in messages
    assert "8 runs, " in messages
    fresh = tmp_path / "fresh"
    assert main(["run", str(tmp_path / "x.toml"), "--out", str(fresh)]) == 0
    assert contents(out) == contents(fresh)


def test_runs_of_a_removed_level_leave_the_tables_and_come_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["run", str(write(tmp_path, rtts=3)), "--out", str(out)]) == 0
    everything = contents(out)
    capsys.readouterr()
    assert main(["run", str(write(tmp_path, rtts=1)), "--out", str(out)]) == 0
    assert "8 finished runs that no experiment file describes" in capsys.readouterr().err
    assert pl.read_parquet(out / "flows.parquet")["run"].n_unique() == 4
    assert main(["run", str(write(tmp_path, rtts=3)), "--out", str(out)]) == 0
    assert "runs, " not in capsys.readouterr().err.split("not repeated.")[1], "nothing is run again"
    assert contents(out) == everything


def test_report_leaves_the_tables_of_a_build_with_other_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, file = tmp_path / "out", write(tmp_path, rtts=1)
    assert main(["run", str(file), "--out", str(out)]) == 0
    tables = (out / "flows.parquet").read_bytes()
    for part in (out / "parts").iterdir():
        pl.read_parquet(part).drop("links").write_parquet(part)
    capsys.readouterr()
    assert main(["report", str(out)]) == 2
    assert "has only results of another build of l4slab" in capsys.readouterr().err
    assert (out / "flows.parquet").read_bytes() == tables


def test_runs_of_another_build_are_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A build whose laws differ does not take rows that another has computed."""
    out, file = tmp_path / "out", write(tmp_path, rtts=1)
    with monkeypatch.context() as other:
        other.setattr(SimEngine, "version", lambda _: "another")
        assert main(["run", str(file), "--out", str(out)]) == 0
    old = set(pl.read_parquet(out / "flows.parquet")["run"])
    capsys.readouterr()
    assert main(["report", str(out)]) == 2
    assert "has only results of another build of l4slab; run its experiment files again" in capsys.readouterr().err
    assert main(["status", str(out)]) == 0
    assert ["x", "0", "4", "4"] in [line.split() for line in capsys.readouterr().out.splitlines()]
    assert main(["run", str(file), "--out", str(out)]) == 0
    message = capsys.readouterr().err
    assert "not repeated" not in message
    assert "4 finished runs that no experiment file describes any more, or of another build of l4slab" in message
    assert len(old) == 4
    assert old.isdisjoint(pl.read_parquet(out / "flows.parquet")["run"])
    assert main(["report", str(out)]) == 0


@pytest.mark.slow
def test_several_files_share_a_folder(tmp_path: Path) -> None:
    out, both = tmp_path / "out", tmp_path / "both"
    one, two = write(tmp_path, 1, 1, "one"), write(tmp_path, 2, 1, "two")
    two.write_text(two.read_text() + "n = [1, 2]\n[let]\nm = 'n'\n".replace("'n'", '"n"'))
    two.write_text(two.read_text().replace("limit 100", "limit {m}00"))
    assert main(["run", str(two), "--out", str(out)]) == 0
    assert main(["run", str(one), "--out", str(out)]) == 0
    flows = pl.read_parquet(out / "flows.parquet")
    assert flows["experiment"].unique(maintain_order=True).to_list() == ["one", "two"]
    assert flows.filter(experiment="one")["n"].null_count() == 4
    assert flows.filter(experiment="two")["n"].null_count() == 0
    # The run of `one` is a run of `two` as well: it is computed once and stands in the tables under both names.
    shared = flows.group_by("run").agg(pl.col("experiment").n_unique())
    assert sorted(shared["experiment"]) == [1] * 6 + [2] * 2
    evidence = pl.read_parquet(out / "claims.parquet").select("experiment", "verdict", "evidence").rows()
    assert evidence == [("one", "holds", '{"runs": 2}'), ("two", "holds", '{"runs": 8}')]
    assert main(["run", str(one), str(two), "--out", str(both)]) == 0
    assert contents(both) == contents(out)
    # And again, from the consolidated tables.
    assert main(["run", str(write(tmp_path, 2, 1, "one")), "--out", str(out)]) == 0
    assert pl.read_parquet(out / "flows.parquet").group_by("experiment", "run").len()["len"].unique().to_list() == [2]


@pytest.mark.slow
def test_kill_at_random_moments(tmp_path: Path) -> None:
    """Ten times kill -9: every run is there once, none is lost on the way, the tables are those of a clean run."""
    file = write(tmp_path, rtts=20, trials=5)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "l4slab", "run", str(file), "--workers", "2", "--out"]
    start = time.monotonic()
    subprocess.run([*command, str(tmp_path / "clean")], check=True, capture_output=True)
    whole = time.monotonic() - start
    moments = random.Random(1)
    finished: set[str] = set()
    for _ in range(10):
        process = subprocess.Popen([*command, str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(moments.uniform(0.2, 1.0) * min(whole, 3))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        with Store(out) as opened:
            now = opened.finished()
        assert finished <= now
        finished = now
    last = subprocess.run([*command, str(out)], capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    assert contents(out) == contents(tmp_path / "clean")
    flows = pl.read_parquet(out / "flows.parquet")
    assert flows.group_by("run", "flow").len()["len"].to_list() == [1] * 400
    assert len(list((out / "parts").iterdir())) <= 2 * store._MERGE


def recording(value: float, rows: int = 3) -> Recording:
    return Recording(
        metrics.table_of("flows", [{"flow": "a", "goodput_mbps": value, "further_ms": value}]),
        metrics.table_of("members", []),
        metrics.table_of("links", [{"link": "l", "queue": "all"}]),
        metrics.table_of("series", {"time_s": [float(n) for n in range(rows)], "flow": ["a"] * rows}),
        metrics.table_of("transfers", {"flow": ["a"], "kind": ["flow"], "completion_ms": [value]}),
        metrics.table_of("histograms", {"flow": ["a"], "low_ms": [value], "count": [rows]}),
        metrics.table_of("losses", {"flow": ["a"], "lost_at": ["link.l"], "lost_packets": [rows]}),
    )


@pytest.mark.parametrize("crash", range(1, 12))
def test_a_crash_at_every_step_of_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash: int) -> None:
    """Stop before the n-th rename or removal, as a kill would, and open again."""

    class Killed(BaseException):
        pass

    runs = campaign.plan([write(tmp_path, rtts=3, trials=1)])[0]
    ids = [run.id for run in runs.runs]
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == crash:
            raise Killed

    replace, unlink = Path.replace, Path.unlink

    def checked_replace(self: Path, target: Path) -> Path:
        step()
        return replace(self, target)

    def checked_unlink(self: Path, missing_ok: bool = False) -> None:
        if self.suffix == ".parquet":
            step()
        unlink(self, missing_ok)

    out = tmp_path / "out"
    durable: set[str] = set()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", checked_replace)
        patched.setattr(Path, "unlink", checked_unlink)
        patched.setattr(store, "_MERGE", 2)
        try:
            with Store(out) as opened:
                for half in (ids[:3], ids[3:]):
                    for run in half:
                        opened.add(run, recording(float(ids.index(run))))
                    opened.flush()
                    durable |= set(half)
                opened.consolidate([runs])
        except Killed:
            pass
        else:
            # Two parts, a merged one for both, which are removed, four tables and what they were written from.
            assert crash == steps + 1 == 11, "every change is one of the steps"
    with Store(out) as opened:
        assert durable <= opened.finished()
        for run in set(ids) - opened.finished():
            opened.add(run, recording(float(ids.index(run))))
        opened.flush()
        opened.consolidate([runs])
    assert pl.read_parquet(out / "flows.parquet").select("run", "goodput_mbps").rows() == [
        (run, float(n)) for n, run in enumerate(ids)
    ]
    assert pl.read_parquet(out / "links.parquet")["run"].to_list() == ids
    assert pl.read_parquet(out / "series.parquet")["run"].unique(maintain_order=True).to_list() == ids
    assert len(pl.read_parquet(out / "series.parquet")) == 3 * len(ids)


def test_of_a_run_that_was_computed_twice_the_newer_one_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after parts have been merged: a run whose captures were lost is computed again."""
    plan = campaign.plan([write(tmp_path, rtts=1, trials=1)])[0]
    with Store(tmp_path / "out") as opened:
        for value in range(1, 8):
            if value == 4:
                monkeypatch.setattr(store, "_MERGE", 2)
            for run in plan.runs:
                opened.add(run.id, recording(float(value)))
            opened.flush()
            opened.consolidate([plan])
            assert pl.read_parquet(tmp_path / "out" / "flows.parquet")["goodput_mbps"].to_list() == [value, value]


def test_columns_of_the_engine_pass_through(tmp_path: Path) -> None:
    plan = campaign.plan([write(tmp_path, rtts=1, trials=1)])[0]
    with Store(tmp_path / "out") as opened:
        for run in plan.runs:
            opened.add(run.id, recording(2.5))
        opened.flush()
        opened.consolidate([plan])
    assert pl.read_parquet(tmp_path / "out" / "flows.parquet")["further_ms"].to_list() == [2.5, 2.5]


def test_a_factor_hides_a_further_column_of_its_name_that_runs_beside_its_own_have(tmp_path: Path) -> None:
    reno = BASE.format(trials=1).replace('"cubic"', '"reno"').replace("limit 100", "limit {w_max_packets}")
    (tmp_path / "reno.toml").write_text(reno + "[sweep]\nw_max_packets = [50, 60]")
    (tmp_path / "cubic.toml").write_text(BASE.format(trials=1))
    found = l4slab.run([tmp_path / "reno.toml", tmp_path / "cubic.toml"], out=tmp_path / "out").series
    assert set(found.filter(experiment="reno")["w_max_packets"]) == {50, 60}
    assert set(found.filter(experiment="cubic")["w_max_packets"]) == {None}


def test_unreadable_results_are_run_again(tmp_path: Path) -> None:
    file = write(tmp_path)
    out = tmp_path / "out"
    assert main(["run", str(file), "--out", str(out)]) == 0
    before = contents(out)
    (out / "series.parquet").write_bytes(before["series"][:100])
    (out / "parts" / "0-00000009-0123456789ab.parquet").write_bytes(b"half of a par")
    (out / "parts" / ".0-00000010-0123456789ab.parquet.tmp").write_bytes(b"")
    assert main(["run", str(file), "--out", str(out)]) == 0
    assert contents(out) == before
    assert not list((out / "parts").glob(".*"))


def test_many_parts_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_MERGE", 4)
    plan = campaign.plan([write(tmp_path, rtts=20, trials=1)])[0]
    with Store(tmp_path / "out") as opened:
        for n, run in enumerate(plan.runs):
            opened.add(run.id, recording(float(n)))
            opened.flush()
            assert len(list(opened.parts.iterdir())) <= 3 + 3 + n // 16
        assert opened.finished() == {run.id for run in plan.runs}
    with Store(tmp_path / "out") as opened:
        opened.consolidate([plan])
    flows = pl.read_parquet(tmp_path / "out" / "flows.parquet")
    assert flows["goodput_mbps"].to_list() == [float(n) for n in range(40)]


@pytest.mark.parametrize(
    "theirs", ["parts/0.parquet", "experiments/.notes.tmp", "flows.parquet", "captures/.old.tmp/x"]
)
def test_a_folder_that_is_not_ours_is_left_alone(
    tmp_path: Path, theirs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out, file = tmp_path / "out", write(tmp_path, rtts=1, trials=1)
    (out / theirs).parent.mkdir(parents=True)
    (out / theirs).write_text("a person's")
    (out / "experiments").mkdir(exist_ok=True)
    for command in (["run", str(file), "--out", str(out)], ["report", str(out)]):
        assert main(command) == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1
        assert f"{out}: has " in message
        assert " but no .l4slab, so it is no results folder of this l4slab; give --out another one" in message
        assert [str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()] == [theirs]


def test_other_files_beside_the_results_stay(tmp_path: Path) -> None:
    out, file = tmp_path / "out", write(tmp_path, rtts=1, trials=1)
    out.mkdir()
    (out / "README").write_text("a person's")
    assert main(["run", str(file), "--out", str(out)]) == 0
    for name in ("parts/mine.parquet", "parts/0-1.parquet"):
        (out / name).write_text("a person's")
    assert main(["run", str(file), "--out", str(out)]) == 0
    for name in ("README", "parts/mine.parquet", "parts/0-1.parquet"):
        assert (out / name).read_text() == "a person's"


def test_one_process_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path)
    with Store(tmp_path / "out"):
        assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "another l4slab process" in message
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 0


def test_a_full_disk_keeps_finished_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["run", str(write(tmp_path, rtts=1)), "--out", str(out)]) == 0
    file = write(tmp_path, rtts=3)
    capsys.readouterr()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(store.os, "fsync", full)
        with Store(out) as opened:
            opened.add("0" * 16, recording(1.0))
            with pytest.raises(StoreError, match="disk is full"):
                opened.flush()
        assert main(["run", str(file), "--out", str(out)]) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("l4slab: ")]
    assert "the disk is full; finished runs are kept" in line
    with Store(out) as opened:
        assert len(opened.finished()) == 4
    assert main(["run", str(file), "--out", str(out)]) == 0
    assert pl.read_parquet(out / "flows.parquet")["run"].n_unique() == 12


SMALL_DISK = """
mount -t tmpfs -o size={size} none {folder} || exit 99
"$@"
status=$?
cp -r {folder}/. {kept}
exit $status
"""


@pytest.mark.slow
@pytest.mark.parametrize("size", ["120k", "200k", "300k", "500k"])
def test_a_disk_that_is_really_full(tmp_path: Path, size: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A small file system of our own: it fills while parts, tables or the report are written."""
    file = write(tmp_path, rtts=5, trials=8)
    folder, kept = tmp_path / "small", tmp_path / "kept"
    folder.mkdir()
    kept.mkdir()
    command = [sys.executable, "-m", "l4slab", "run", str(file), "--out", str(folder / "out")]
    script = SMALL_DISK.format(size=size, folder=folder, kept=kept)
    try:
        done = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", *command], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no unshare")
    if done.returncode == 99 or "unshare failed" in done.stderr:
        pytest.skip("no file system can be mounted here")
    assert done.returncode == 1, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("l4slab: ")]
    assert "the disk is full; finished runs are kept: free some space and give the same command again" in line
    assert "Traceback" not in done.stderr
    out = kept / "out"
    with Store(out) as opened:
        there = len(opened.finished())
    assert main(["run", str(file), "--out", str(out)]) == 0
    messages = capsys.readouterr().err
    assert (f"{counted(there, 'run is', 'runs are')} in" in messages) == (there > 0)
    if there < 80:
        assert f"{counted(80 - there, 'run')}, " in messages
    assert main(["run", str(file), "--out", str(tmp_path / "clean")]) == 0
    assert contents(out) == contents(tmp_path / "clean")


@pytest.mark.parametrize(
    "sent", [signal.SIGINT, *(pytest.param(sent, marks=pytest.mark.slow) for sent in (signal.SIGTERM, signal.SIGHUP))]
)
def test_interrupt_keeps_finished_runs(tmp_path: Path, sent: signal.Signals) -> None:
    file = write(tmp_path, rtts=40, trials=50)
    out = tmp_path / "out"
    # A shell that does not wait for its jobs, and nohup, have some of these ignored.
    process = subprocess.Popen(
        [sys.executable, "-m", "l4slab", "run", str(file), "--out", str(out)],
        stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(sent, signal.SIG_DFL),
    )  # fmt: skip
    while process.poll() is None and not list(out.glob("parts/*.parquet")):
        time.sleep(0.05)
    process.send_signal(sent)
    _, messages = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in messages
    assert "finished runs are kept" in messages.splitlines()[-1]
    with Store(out) as opened:
        assert opened.finished()


def test_an_interrupt_that_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While a part is written, and in the next calls."""
    told, flush = iter([KeyboardInterrupt] * 4), Store.flush

    def interrupted(store: Store) -> None:
        if (one := next(told, None)) is not None:
            raise one
        flush(store)

    monkeypatch.setattr(Store, "flush", interrupted)
    assert main(["run", str(write(tmp_path)), "--out", str(tmp_path / "out")]) == 130
    assert "finished runs are kept" in capsys.readouterr().err
    with Store(tmp_path / "out") as opened:
        assert opened.finished()


def test_report_finishes_what_a_kill_left(tmp_path: Path) -> None:
    out = tmp_path / "out"
    file = write(tmp_path)
    assert main(["run", str(file), "--out", str(tmp_path / "whole")]) == 0
    plan = campaign.plan([file])[0]
    done = l4slab.run(file)
    with Store(out) as opened:
        opened.keep_experiment(plan.experiment)
        for run in plan.runs:
            mine = {name: getattr(done, name).filter(pl.col("run") == run.id) for name in metrics.TABLES}
            labels = ["experiment", "run", "engine", "trial", *plan.factors]
            opened.add(run.id, Recording(**{name: table.drop(labels) for name, table in mine.items()}))
        opened.flush()
    assert main(["report", str(out)]) == 0
    assert contents(out) == contents(tmp_path / "whole")
    assert (out / "report.html").is_file()


def test_evidence_is_json(tmp_path: Path) -> None:
    results = l4slab.run(write(tmp_path))
    assert json.loads(results.claims["evidence"][0]) == {"runs": 8}
