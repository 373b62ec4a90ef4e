"""A Dask cluster of real processes: what dies in the middle costs nothing that was finished, and nothing runs twice."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest
from l4slab.api import campaign
from l4slab.campaign import executors
from l4slab.campaign.store import Store
from l4slab.cli import main

# To import it takes longer than most tests, and the quick ones are collected with these.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(find_spec("distributed") is None, reason="there is no distributed"),
]

TABLES = ("flows", "links", "series", "transfers", "claims", "published")
FILE = """
duration = "{seconds}s"
sample = "500ms"
trials = {trials}
[link.bottleneck]
rate = "100Mbit"
qdisc = "dualpi2"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[[flow]]
name = "b"
cc = "prague"
rtt = "10ms"
[sweep]
"flow.*.rtt" = ["5ms", "10ms", "20ms"]
"""


def write(folder: Path, trials: int = 20, seconds: int = 20, more: str = "") -> Path:
    file = folder / "x.toml"
    file.write_text(more + FILE.format(trials=trials, seconds=seconds))
    return file


def contents(out: Path) -> dict[str, bytes]:
    return {name: (out / f"{name}.parquet").read_bytes() for name in TABLES}


class Cluster:
    """`dask scheduler` and `dask worker`, each a process of its own on this machine."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.workers: list[subprocess.Popen[bytes]] = []
        # It takes a port that is free, and says which.
        file = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--port", "0", "--scheduler-file", file.name, "--no-dashboard")
        until(lambda: file.is_file() and file.read_text().rstrip().endswith("}"), self.scheduler)
        self.address = str(json.loads(file.read_text())["address"])

    def _start(self, what: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", what, "--host", "127.0.0.1", *arguments]
        with (self.folder / "dask.log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=os.environ | environment, stdout=log, stderr=log, start_new_session=True
            )

    def worker(self, **environment: str) -> subprocess.Popen[bytes]:
        # Without a nanny: a process that is killed stays dead.
        arguments = ("--no-nanny", "--nthreads", "1", "--no-dashboard")
        process = self._start("worker", self.address, *arguments, **environment)
        self.workers.append(process)
        return process

    def ready(self, count: int) -> None:
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(count)

    def stop(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@contextmanager
def a_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    folder.mkdir(exist_ok=True)
    cluster = Cluster(folder)
    try:
        for _ in range(workers):
            cluster.worker()
        cluster.ready(workers)
        yield cluster
    finally:
        cluster.stop()


def start(file: Path, out: Path, cluster: Cluster) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "l4slab", "run", str(file), "--out", str(out), "--dask", cluster.address]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finished(out: Path) -> set[str]:
    return Store(out).finished() if out.is_dir() else set()


def until(condition: Callable[[], bool], process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Wait for what this process is to bring about."""
    while not condition():
        assert process.poll() is None, "it has ended"
        time.sleep(0.05)


def end(process: subprocess.Popen[str]) -> str:
    return process.communicate()[1]


def sentences(messages: str) -> list[str]:
    assert "Traceback" not in messages, messages
    return [line for line in messages.splitlines() if line.startswith("l4slab: ")]


def test_a_worker_dies(tmp_path: Path) -> None:
    file, out = write(tmp_path), tmp_path / "out"
    assert main(["run", str(file), "--out", str(tmp_path / "local")]) == 0
    with a_cluster(tmp_path / "cluster") as cluster:
        driver = start(file, out, cluster)
        until(lambda: len(finished(out)) >= 5, driver)
        cluster.workers[0].send_signal(signal.SIGKILL)
        at_death = finished(out)
        messages = end(driver)
    assert driver.returncode == 0, messages
    assert len(at_death) < 60, "it was in the middle"
    assert contents(out) == contents(tmp_path / "local")
    assert pl.read_parquet(out / "flows.parquet").group_by("run", "flow").len()["len"].to_list() == [1] * 120


def test_the_scheduler_dies(tmp_path: Path) -> None:
    file, out = write(tmp_path), tmp_path / "out"
    assert main(["run", str(file), "--out", str(tmp_path / "local")]) == 0
    with a_cluster(tmp_path / "cluster") as cluster:
        driver = start(file, out, cluster)
        until(lambda: len(finished(out)) >= 5, driver)
        cluster.scheduler.send_signal(signal.SIGKILL)
        messages = end(driver)
    assert driver.returncode == 1, messages
    (sentence,) = sentences(messages)
    assert "the scheduler is gone; start it and its workers, and give the same command again" in sentence
    kept = finished(out)
    assert 5 <= len(kept) < 60
    with a_cluster(tmp_path / "another") as cluster:
        driver = start(file, out, cluster)
        messages = end(driver)
    assert driver.returncode == 0, messages
    assert f"{len(kept)} runs are in {out} already" in messages
    assert f"{60 - len(kept)} runs, 2 at a time" in messages
    assert contents(out) == contents(tmp_path / "local")


@pytest.mark.parametrize("logger", ["tornado.application", "distributed.batched"])
def test_a_lost_connection_leaves_no_traceback(logger: str, caplog: pytest.LogCaptureFixture) -> None:
    from distributed.comm import CommClosedError

    executors._ignore_lost_connections()
    with caplog.at_level("INFO", logger):
        for error in (CommClosedError("lost"), ValueError("other")):
            logging.getLogger(logger).info("a message is pending", exc_info=error)
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ValueError]


def test_all_workers_die_and_a_new_one_comes(tmp_path: Path) -> None:
    file, out = write(tmp_path, trials=10), tmp_path / "out"
    with a_cluster(tmp_path / "cluster") as cluster:
        driver = start(file, out, cluster)
        until(lambda: len(finished(out)) >= 2, driver)
        for worker in cluster.workers:
            worker.send_signal(signal.SIGKILL)
        cluster.worker()
        messages = end(driver)
    assert driver.returncode == 0, messages
    assert len(finished(out)) == 30


def test_without_workers_it_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(executors, "_NO_WORKERS_S", 1.0)
    monkeypatch.setattr(executors, "_LOOK_S", 0.2)
    file = write(tmp_path, trials=2, seconds=3600)
    with a_cluster(tmp_path / "cluster", workers=1) as cluster:
        look = executors._Cluster.look

        def kill_then_look(self: executors._Cluster) -> None:
            cluster.workers[0].kill()
            look(self)

        monkeypatch.setattr(executors._Cluster, "look", kill_then_look)
        assert main(["run", str(file), "--out", str(tmp_path / "out"), "--dask", cluster.address]) == 1
    (sentence,) = sentences(capsys.readouterr().err)
    assert f"has lost all its workers; start some with: dask worker {cluster.address}" in sentence


# Another build of l4slab on a worker, as Python sees it when it starts there.
OTHER_VERSION = "from l4slab.engines.sim import SimEngine\nSimEngine.version = lambda self: 'another'\n"


def test_another_version_is_refused_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sitecustomize.py").write_text(OTHER_VERSION)
    file = write(tmp_path, trials=1, seconds=1)
    with a_cluster(tmp_path / "cluster", workers=1) as cluster:
        cluster.worker(PYTHONPATH=str(tmp_path))
        cluster.ready(2)
        assert main(["run", str(file), "--out", str(tmp_path / "out"), "--dask", cluster.address]) == 2
    (sentence,) = sentences(capsys.readouterr().err)
    assert "has build another of the engine sim, and this machine has " in sentence
    assert "install the same version on every worker" in sentence
    assert not finished(tmp_path / "out")


def test_another_version_that_comes_later_ends_the_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(OTHER_VERSION)
    file = write(tmp_path, trials=100, seconds=60)
    prepare = executors._Cluster.prepare
    with a_cluster(tmp_path / "cluster", workers=1) as cluster:

        @contextmanager
        def one_more(self: executors._Cluster, *arguments: object) -> Iterator[None]:
            with prepare(self, *arguments):  # type: ignore[arg-type]
                cluster.worker(PYTHONPATH=str(tmp_path))
                cluster.ready(2)
                yield

        monkeypatch.setattr(executors._Cluster, "prepare", one_more)
        assert main(["run", str(file), "--out", str(tmp_path / "out"), "--dask", cluster.address]) == 1
    (sentence,) = sentences(capsys.readouterr().err)
    assert "a worker that came later has build another of the engine sim" in sentence


def test_captures_need_a_folder_that_every_worker_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = write(tmp_path, trials=1, seconds=1, more='captures = "all trials"\n'), tmp_path / "out"
    with a_cluster(tmp_path / "cluster", workers=1) as cluster:
        assert main(["run", str(file), "--out", str(out), "--dask", cluster.address]) == 0
        runs = campaign.plan([file])[0].runs
        assert sorted(path.name for path in (out / "captures").iterdir()) == sorted(run.id for run in runs)
        assert not list(out.glob(".shared*"))
        # A worker elsewhere: there the path names nothing.
        monkeypatch.setattr(Path, "touch", lambda self: None)
        other = tmp_path / "other"
        assert main(["run", str(file), "--out", str(other), "--dask", cluster.address]) == 2
    (sentence,) = sentences(capsys.readouterr().err)
    assert "does not see" in sentence
    assert "every worker mounts in the same place" in sentence
    assert not finished(other)
