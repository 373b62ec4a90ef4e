"""Paths, names, output and folders that cannot be what they are to be: one sentence, and what is computed is kept."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import l4slab
import pytest
from l4slab.api import campaign
from l4slab.base.errors import one_line
from l4slab.cli import main
from l4slab.engines.registry import get_engine

GOOD = """
duration = "200ms"
start_jitter = "0s"

[link.b]
rate = "10Mbit"
qdisc = "pfifo limit 100"

[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
"""
LONG = "n" * 300
DEEP = "d/" * 2500


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("x.toml").write_text(GOOD)


def sentence(text: str) -> str:
    assert "Traceback" not in text
    (line,) = [line for line in text.splitlines() if line.startswith("l4slab: ")]
    return line


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str], *mentions: str) -> None:
    assert main(arguments) == 2
    told = sentence(capsys.readouterr().err)
    for mention in mentions:
        assert mention in told


@pytest.mark.parametrize("path", [LONG, DEEP, "zz:/x", "a\udcff"])
@pytest.mark.parametrize(
    "command",
    [
        ["run", "PATH"],
        ["run", "PATH", "--dry-run"],
        ["run", "x.toml", "--out", "PATH"],
        ["status", "PATH"],
        ["report", "PATH"],
        ["export", "PATH"],
        ["compare", "PATH", "PATH"],
        ["init", "PATH"],
        ["trace", "lte", "--out", "PATH"],
        ["live", "PATH", "--no-open"],
    ],
    ids=" ".join,
)
def test_a_path_that_cannot_be(command: list[str], path: str, capsys: pytest.CaptureFixture[str]) -> None:
    refused([part.replace("PATH", path) for part in command], capsys)


def test_no_folder_is_made_of_a_protocol_that_nobody_knows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for out in ("zz://x", "://x"):
        refused(["run", "x.toml", "--out", out], capsys, out, "is not a location")
    with pytest.raises(l4slab.InputError, match="is a URL"):
        l4slab.run("x.toml", out=Path("zz://x"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.toml"]


FILES = [f"{'e' * 101}.toml", ".toml", "..toml", ".x.toml", "a\nb.toml", "a\x1bb.toml"]


@pytest.mark.parametrize("name", FILES)
def test_names_of_experiments_are_names_of_files(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(name).write_text(GOOD)
    refused(["run", name], capsys, one_line(name), "has a name")
    assert not Path("results").exists()


NAMES = ["", " ", "/", "a/b", "..", "n" * 101, "é" * 51, "a\nb", "a\tb", "a\x07b"]
PLACES = {
    "flow": lambda name: GOOD.replace('"a"', name),
    "link": lambda name: GOOD.replace("link.b", f"link.{name}"),
    "impair": lambda name: f'{GOOD}[impair.{name}]\nnetem = "delay 1ms"\nbefore = "b"\n',
    "host": lambda name: f"{GOOD}host = {name}\n",
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", PLACES)
def test_names_are_names_of_folders(place: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if (place, name) == ("host", ".."):
        pytest.skip("a host is not part of a key")
    written = '"' + "".join(f"\\u{ord(one):04x}" for one in name) + '"'
    Path("x.toml").write_text(PLACES[place](written))
    refused(["run", "x.toml", "--dry-run"], capsys, "x.toml")


@pytest.mark.parametrize("name", ["", " ", "n" * 101, "a\\nb"])
def test_names_of_factors(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.toml").write_text(GOOD.replace('"10ms"', f'"{{{name}}}ms"') + f'[sweep]\n"{name}" = [10, 20]\n')
    refused(["run", "x.toml", "--dry-run"], capsys, "x.toml", "sweep")


@pytest.mark.parametrize("name", ["n" * 101, "a\\nb", "a\\u0007b"])
def test_names_of_statements(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.toml").write_text(f'{GOOD}[[claim]]\nid = "{name}"\nsql = "select true"\n')
    refused(["run", "x.toml", "--dry-run"], capsys, "x.toml", "claim", "id = ")


# A file or a folder stands where a results folder has the other one.
KINDS = ["parts", "experiments", "report.html", "flows.parquet", "claims.parquet", ".l4slab", ".tables"]


@pytest.mark.parametrize("name", KINDS)
def test_a_file_for_a_folder_and_a_folder_for_a_file(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "x.toml", "--out", "o"]) == 0
    path = Path("o") / name
    path.rename("apart")
    path.touch() if Path("apart").is_dir() else path.mkdir()
    capsys.readouterr()
    refused(["run", "x.toml", "--out", "o"], capsys, str(path), "move it away")
    refused(["report", "o"], capsys, str(path), "move it away")
    refused(["status", "o"], capsys, str(path), "move it away")
    path.unlink() if path.is_file() else path.rmdir()
    Path("apart").rename(path)
    assert main(["run", "x.toml", "--out", "o"]) == 0
    assert "1 run is in o already" in capsys.readouterr().err


def test_figures_need_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "x.toml", "--out", "o"]) == 0
    Path("o/figures").touch()
    capsys.readouterr()
    refused(["report", "o", "--figures", "svg"], capsys, "o/figures", "is a file")


def test_a_folder_that_was_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    for command in (["run", str(tmp_path / "x.toml")], ["status", "o"], ["init"], ["doctor"]):
        refused(command, capsys, "the current folder was deleted")
    with pytest.raises(l4slab.InputError, match="the current folder was deleted"):
        l4slab.run(tmp_path / "x.toml")


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command.replace("l4slab", f"{sys.executable} -m l4slab")],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )


@pytest.mark.slow
def test_output_that_cannot_be_written_keeps_the_runs() -> None:
    done = shell("l4slab run x.toml --out o --workers 1 > /dev/full")
    assert done.returncode == 2
    assert "the output cannot be written (No space left on device)" in sentence(done.stderr)
    assert campaign.status("o").experiments[0].finished == 1
    for command in ("l4slab status o >&-", "l4slab --version > /dev/full"):
        done = shell(command)
        assert done.returncode == 2
        assert "the output" in sentence(done.stderr)
    # Progress that nobody sees stops nothing.
    for command in ("l4slab run x.toml --out o 2>&-", "l4slab run x.toml --out o 2> /dev/full"):
        done = shell(command)
        assert done.returncode == 0
        assert "Report: o/report.html" in done.stdout


def test_a_terminal_with_few_characters() -> None:
    Path("µ.toml").write_text(GOOD)
    done = shell("l4slab run µ.toml --out é --dry-run", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "\\xb5" in done.stdout
    done = shell("l4slab run µ.toml --dry-run --json", PYTHONIOENCODING="ascii")
    assert "\\u00b5" in done.stdout


def test_a_limit_on_files_keeps_the_runs_that_fit() -> None:
    """Six runs end at once and are one part, which is too large; most of them are not."""
    long = GOOD.replace('"200ms"', '"2s"').replace("start_jitter", 'sample = "1ms"\nstart_jitter', 1)
    sweep = '[sweep]\n"flow.a.rtt" = ["10ms", "11ms", "12ms", "13ms", "14ms", "15ms"]\n'
    Path("x.toml").write_text(long + sweep)
    assert main(["run", "x.toml", "--out", "whole"]) == 0
    (part,) = Path("whole/parts").iterdir()
    (plan,) = campaign.plan(["x.toml"])
    recordings = {run.id: get_engine("sim").execute(run.json) for run in plan.runs}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (part.stat().st_size // 2, limits[1]))
    try:
        with campaign.Store("o") as opened:
            opened.keep_experiment(plan.experiment, plan.runs)
            for run, recording in recordings.items():
                opened.add(run, recording)
            with pytest.raises(l4slab.StoreError, match=r"o: File too large; finished runs are kept.*ulimit -f"):
                opened.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert campaign.status("o").experiments[0].finished == 6


def test_our_own_faults_are_no_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError("a fault of ours")

    monkeypatch.setattr(campaign, "status", broken)
    with pytest.raises(OSError, match="a fault of ours"):
        main(["status", "o"])
