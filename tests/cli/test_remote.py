"""Results at a URL: the same tables as in a folder, from any machine, and what was flushed is there."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import l4slab
import polars as pl
import pytest
from l4slab.api import campaign
from l4slab.campaign import remote, store
from l4slab.campaign.remote import RemoteStore
from l4slab.cli import main
from l4slab.report import grids, runs

fsspec = pytest.importorskip("fsspec")

TABLES = ("flows", "links", "series", "transfers", "claims", "published")
FILE = """
duration = "{seconds}s"
sample = "100ms"
trials = {trials}
[link.bottleneck]
rate = "10Mbit"
qdisc = "dualpi2"
[[flow]]
name = "a"
cc = "prague"
rtt = "10ms"
[[flow]]
name = "b"
cc = "cubic"
rtt = "10ms"
[sweep]
"flow.*.rtt" = ["5ms", "10ms"]
"""


def write(folder: Path, trials: int = 2, seconds: int = 1, more: str = "") -> Path:
    file = folder / "x.toml"
    file.write_text(more + FILE.format(trials=trials, seconds=seconds))
    return file


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    memory = fsspec.filesystem("memory")
    if memory.exists("/bucket"):
        memory.rm("/bucket", recursive=True)


@pytest.fixture(params=["memory", pytest.param("file", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://bucket/x" if request.param == "memory" else f"file://{tmp_path}/there/x"


def there(url: str) -> dict[str, bytes]:
    location = remote._Location(url)
    return {name: location.read(name) or b"" for name in location.list()}


def another_machine() -> None:
    shutil.rmtree(Path(os.environ["XDG_CACHE_HOME"]) / "l4slab" / "copies")


def test_the_same_tables_as_in_a_folder(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path)
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert main(["run", str(file), "--out", url]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"Report: {url}/report.html"
    found = there(url)
    for name in (*(f"{table}.parquet" for table in TABLES), "experiments/x.toml", "experiments/x.runs", "report.html"):
        # The report says how it was made.
        assert found[name].replace(url.encode(), b"DIR") == (tmp_path / "out" / name).read_bytes().replace(
            b"--out out", b"--out DIR"
        )
    assert not [name for name in found if name.endswith(".tmp")]


def test_another_machine_goes_on(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path)
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 0
    assert main(["run", str(file), "--out", url, "--where", "trial = 1"]) == 0
    another_machine()
    capsys.readouterr()
    assert main(["status", url]) == 0
    assert ["x", "2", "4", "2"] in [line.split() for line in capsys.readouterr().out.splitlines()]
    assert main(["run", str(file), "--dry-run", "--out", url]) == 0
    assert "2 runs to do" in capsys.readouterr().out
    assert main(["run", str(file), "--out", url]) == 0
    messages = capsys.readouterr().err
    assert f"2 runs are in {url} already" in messages
    assert "2 runs, " in messages
    assert there(url)["flows.parquet"] == (tmp_path / "out" / "flows.parquet").read_bytes()
    before = there(url)
    assert main(["report", url]) == 0
    assert there(url) == before


def test_what_has_not_changed_is_not_fetched_again(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path)
    assert main(["run", str(file), "--out", url]) == 0
    fetched: list[str] = []
    get = remote._Location.get
    monkeypatch.setattr(remote._Location, "get", lambda self, name, path: (fetched.append(name), get(self, name, path)))
    assert main(["run", str(file), "--out", url]) == 0
    assert fetched == []
    another_machine()
    assert main(["run", str(file), "--out", url]) == 0
    assert [name.partition("/")[0] for name in fetched] == ["parts"], "tables follow from the parts"


def test_without_a_report_the_one_that_is_there_stays_with_its_runs(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MAX_EMBEDDED_ROWS", 0)

    def pages() -> dict[str, bytes]:
        return {name: was for name, was in there(url).items() if name == "report.html" or name.startswith("runs/")}

    assert main(["run", str(write(tmp_path)), "--out", url, "--no-report"]) == 0
    assert pages() == {}
    assert main(["report", url]) == 0
    before = pages()
    assert "report.html" in before
    another_machine()
    assert main(["run", str(write(tmp_path, trials=3)), "--out", url, "--no-report"]) == 0
    assert l4slab.open(url).flows["trial"].max() == 3
    assert pages() == before
    assert main(["report", url]) == 0
    assert len(pages()) > len(before)


def test_what_the_report_loads_is_there(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MAX_EMBEDDED_ROWS", 0)
    monkeypatch.setattr(grids, "MAX_EMBEDDED_BYTES", 0)
    file = write(tmp_path)
    assert main(["run", str(file), "--out", url]) == 0

    def loaded() -> dict[str, bytes]:
        return {name: content for name, content in there(url).items() if name.startswith("runs/")}

    def by_form(form: str) -> set[str]:
        return {f"runs/{form}/{run}.js" for run in l4slab.open(url).flows["run"]}

    first = loaded()
    tables = {name for name in first if name.count("/") == 1}
    assert {name.partition("-")[0] for name in tables} == {"runs/flows", "runs/links"}
    assert set(first) == by_form(runs.form()) | tables
    assert all(first.values())
    another_machine()
    assert main(["report", url]) == 0
    assert loaded() == first
    # A version that tells runs otherwise.
    another_machine()
    monkeypatch.setattr(runs, "form", lambda: "other")
    assert main(["report", url]) == 0
    assert set(loaded()) == by_form("other") | tables
    assert all(loaded().values())


def test_tables_that_have_not_changed_stay_there(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path)
    assert main(["run", str(file), "--out", url]) == 0
    sent: list[str] = []
    put = remote._Location.put
    monkeypatch.setattr(remote._Location, "put", lambda self, path, name: (sent.append(name), put(self, path, name)))
    assert main(["run", str(file), "--out", url]) == 0
    assert "report.html" in sent
    assert "series.parquet" not in sent
    remote._Location(url).write("series.parquet", b"somebody's")
    assert main(["run", str(file), "--out", url]) == 0
    assert "series.parquet" in sent


def test_captures_go_there_and_are_not_run_again(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, more='captures = "first trial"\n')
    assert main(["run", str(file), "--out", url]) == 0
    captures = {name: content for name, content in there(url).items() if name.startswith("captures/")}
    assert len(captures) == 2 * 4
    assert all(captures.values())
    another_machine()
    capsys.readouterr()
    assert main(["run", str(file), "--out", url]) == 0
    assert "4 runs are in" in capsys.readouterr().err
    assert {name: content for name, content in there(url).items() if name in captures} == captures


# A driver that is killed by itself, at a step and not at a time, so that the machine's speed is not in it.
KILLED = """
import os, signal, sys
from l4slab.api import campaign
from l4slab.campaign import remote
from l4slab.campaign import store
from l4slab.cli import main
step, when, count, *arguments = sys.argv[1:]
campaign._FLUSH_S, store._MERGE = 0, 4
whole, left = getattr(remote._Location, step), int(count)

def killed(self, *names):
    global left
    left -= any(str(name).startswith("parts/") for name in names)
    if not left and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    whole(self, *names)
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

setattr(remote._Location, step, killed)
sys.exit(main(arguments))
"""


@pytest.mark.slow
def test_a_killed_driver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Wherever it is killed, what was there stays, and nothing is twice in the tables."""
    url = f"file://{tmp_path}/there"
    file = write(tmp_path, trials=30)
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 0
    kept: set[str] = set()
    # A part is there; it is not yet; of four parts one was made, and none, one, three of the four are gone.
    for step, when, count, grows in (
        ("put", "after", 1, True),
        ("put", "before", 1, False),
        ("put", "before", 3, True),
        ("remove", "before", 1, True),
        ("remove", "after", 1, True),
        ("remove", "after", 3, True),
    ):
        command = [sys.executable, "-c", KILLED, step, when, str(count), "run", str(file), "--out", url]
        driver = subprocess.run(command, capture_output=True, text=True)
        assert driver.returncode == -signal.SIGKILL, driver.stderr
        before, kept = kept, finished(url)
        assert kept >= before
        assert (kept > before) == grows, (step, when, count)
        if count == 3:
            another_machine()
    capsys.readouterr()
    assert main(["run", str(file), "--out", url]) == 0
    assert f"{len(kept)} runs are in {url} already" in capsys.readouterr().err
    assert (tmp_path / "there" / "flows.parquet").read_bytes() == (tmp_path / "out" / "flows.parquet").read_bytes()


def finished(url: str) -> set[str]:
    with remote.glance(url) as there:
        return there.finished()


@pytest.mark.parametrize("merge", [2, pytest.param(32, marks=pytest.mark.slow)])
def test_two_machines_at_once(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, merge: int) -> None:
    """Neither knows of the other, in any order of their steps: no run is lost, and each stands in the tables once."""
    monkeypatch.setattr(store, "_MERGE", merge)
    file = write(tmp_path, trials=6)
    plan = campaign.plan([file])[0]
    recordings = {run.id: recording(run.json) for run in plan.runs}
    order = random.Random(merge)
    for _ in range(2):
        machines = []
        for name in ("here", "elsewhere"):
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
            machines.append(RemoteStore(url).__enter__())
            finish_without_report(machines[-1])
        added: set[str] = set()
        for _ in range(12):
            machine, run = order.choice(machines), order.choice(plan.runs)
            machine.add(run.id, recordings[run.id])
            machine.flush()
            added.add(run.id)
            assert added <= finished(url)
            if order.random() < 0.2:
                machine.consolidate([plan])
                machine.publish()
        for machine in machines:
            machine.consolidate([plan])
            machine.publish()
            machine.__exit__(None, None, None)
        assert added <= finished(url)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a third"))
    assert main(["run", str(file), "--out", url]) == 0
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 0
    for name in TABLES:
        assert there(url)[f"{name}.parquet"] == (tmp_path / "out" / f"{name}.parquet").read_bytes()


def test_one_process_of_a_machine_at_a_time(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RemoteStore(url):
        assert main(["run", str(write(tmp_path)), "--out", url]) == 1
    assert f"{url}: another l4slab process writes here" in capsys.readouterr().err


@pytest.mark.parametrize("theirs", ["parts/0.parquet", "flows.parquet"])
def test_a_location_that_is_not_ours_is_left_alone(
    url: str, theirs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remote._Location(url).put(write(tmp_path), theirs)
    before = there(url)
    assert main(["run", str(write(tmp_path)), "--out", url]) == 2
    assert (
        f"{url}: has {theirs.partition('/')[0]} but no .l4slab, so it is no results folder" in capsys.readouterr().err
    )
    assert there(url) == before


def test_parts_that_never_went_there_do_not_displace_others(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = campaign.plan([write(tmp_path)])[0]
    recordings = [recording(run.json) for run in plan.runs]
    with monkeypatch.context() as killed, RemoteStore(url) as opened:
        # A kill between writing here and bringing it there.
        killed.setattr(RemoteStore, "_send", lambda self, name: None)
        opened.add(plan.runs[0].id, recordings[0])
        opened.flush()
    mine = remote.working_copy(url)
    mine.rename(mine.with_name("kept"))
    with RemoteStore(url) as opened:
        opened.add(plan.runs[1].id, recordings[1])
        opened.flush()
    shutil.rmtree(mine)
    mine.with_name("kept").rename(mine)
    with RemoteStore(url) as opened:
        assert opened.finished() == {run.id for run in plan.runs[:2]}
    assert finished(url) == {run.id for run in plan.runs[:2]}


def test_what_was_removed_there_is_not_brought_back(url: str, tmp_path: Path) -> None:
    file = write(tmp_path)
    assert main(["run", str(file), "--out", url]) == 0
    location = remote._Location(url)
    for name in location.list():
        location.remove(name)
    with RemoteStore(url) as opened:
        assert opened.finished() == set()


def recording(run_json: str) -> store.Recording:
    return campaign.get_engine("sim").execute(run_json)


def finish_without_report(opened: RemoteStore) -> None:
    for name in ("claims", "published"):
        opened.write(name, pl.DataFrame())
    (opened.folder / "report.html").touch()


class Stopped(BaseException):
    pass


@pytest.mark.parametrize("step", range(1, 16))
def test_a_kill_at_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Stop before the n-th change at the location: another machine finds every run that was flushed, once."""
    url = "memory://bucket/x"
    plan = campaign.plan([write(tmp_path)])[0]
    recordings = {run.id: recording(run.json) for run in plan.runs}
    steps = 0

    def counted(change: object) -> object:
        def changed(self: remote._Location, *arguments: object) -> object:
            nonlocal steps
            steps += 1
            if steps == step:
                raise Stopped
            return change(self, *arguments)  # type: ignore[operator]

        return changed

    durable: set[str] = set()
    with monkeypatch.context() as patched:
        patched.setattr(store, "_MERGE", 2)
        for name in ("put", "remove"):
            patched.setattr(remote._Location, name, counted(getattr(remote._Location, name)))
        try:
            with RemoteStore(url) as opened:
                for half in (plan.runs[:2], plan.runs[2:]):
                    for run in half:
                        opened.add(run.id, recordings[run.id])
                    opened.flush()
                    durable |= {run.id for run in half}
                opened.consolidate([plan])
                finish_without_report(opened)
                opened.publish()
        except Stopped:
            pass
        else:
            # Two parts, one of both, which are removed, then what is made of them.
            assert (step, steps) == (15, 14), "every change is one of the steps"
    another_machine()
    with RemoteStore(url) as opened:
        assert durable <= opened.finished()
        for run in plan.runs:
            if run.id not in opened.finished():
                opened.add(run.id, recordings[run.id])
        opened.flush()
        opened.consolidate([plan])
    with RemoteStore(url) as opened:
        tables = {name: pl.read_parquet(opened.folder / f"{name}.parquet") for name in ("flows", "links", "series")}
    assert tables["flows"]["run"].to_list() == [run.id for run in plan.runs for _ in range(2)]
    assert tables["series"].group_by("run").len()["len"].n_unique() == 1
    assert finished(url) == {run.id for run in plan.runs}


@pytest.mark.parametrize(
    ("url", "status", "mention"),
    [
        ("s3://bucket/x", 2, "needs a package that is not installed: Install s3fs"),
        ("nonsense://bucket/x", 2, "Protocol not known: nonsense"),
        ("file:///proc/none/x", 1, "cannot be reached"),
    ],
)
def test_a_location_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str, status: int, mention: str
) -> None:
    if url.startswith("s3"):
        try:
            import s3fs  # noqa: F401
        except ImportError:
            pass
        else:
            pytest.skip("s3fs is installed")
    assert main(["run", str(write(tmp_path)), "--out", url]) == status
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("l4slab: ")]
    assert url in line
    assert mention in line


def test_without_fsspec_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    assert main(["run", str(write(tmp_path)), "--out", "memory://bucket/x"]) == 2
    assert 'pip install "l4slab[fsspec]"' in capsys.readouterr().err


def test_status_of_a_location_without_results(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "report"):
        assert main([command, "memory://bucket/nothing"]) == 2
        assert "memory://bucket/nothing: is not a results folder" in capsys.readouterr().err
    assert not there("memory://bucket/nothing")


def test_agree_wants_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agree", "small", "--out", "memory://bucket/x"]) == 2
    assert "is not a folder" in capsys.readouterr().err
