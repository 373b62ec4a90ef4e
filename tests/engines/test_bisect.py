"""`l4slab bisect` over a repository that stands for a kernel's: what is asked, found, resumed and refused."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from l4slab.cli import main
from l4slab.engines.linux import build, compiling
from l4slab.engines.linux.tools import BuildError
from l4slab.tools import bisect
from l4slab.tools.bisect import Answer

COMMITS = 40
FAULT = 27  # the first bad one


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@example.org", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each commit writes its number; from FAULT on there is a fault."""
    folder = tmp_path_factory.mktemp("kernel")
    git(folder, "init", "--quiet")
    for number in range(COMMITS):
        (folder / "number").write_text(str(number))
        (folder / "fault").write_text(str(number >= FAULT))
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message", f"commit {number}")
        git(folder, "tag", f"v{number}")
    return folder


class Builds:
    """Stands for the build of a kernel."""

    def __init__(self, broken: Callable[[int], bool] = lambda number: False):
        self.broken, self.built = broken, list[int]()
        self.is_bad = False

    def build(self, told: object, wanted: build.Wanted) -> None:
        assert wanted.source is not None
        number = int((wanted.source / "number").read_text())
        if self.broken(number):
            raise BuildError("make says no")
        self.built.append(number)
        self.is_bad = (wanted.source / "fault").read_text() == "True"
        # As the patches of every kernel.
        (wanted.source / "fault").write_text("patched")

    def ask(self, kernel: str, out: Path) -> Answer:
        return Answer("bad", "it is at fault") if self.is_bad else Answer("good")


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Builds:
    made = Builds()
    monkeypatch.setattr(build, "build", lambda told, wanted: made.build(told, wanted))
    monkeypatch.setattr(compiling, "patch", lambda source: None)
    return made


def search(repository: Path, out: Path, builds: Builds, good: str = "v0", bad: str = f"v{COMMITS - 1}") -> bisect.Found:
    found = bisect.Bisection(repository, good, bad, out, "bisect", "x.pkt")
    return found.search(builds.ask, lambda what, part: None, lambda commit, answer: None)


def test_it_finds_the_commit_in_few_builds(repository: Path, tmp_path: Path, builds: Builds) -> None:
    before = git(repository, "status", "--porcelain"), git(repository, "for-each-ref")
    found = search(repository, tmp_path, builds)
    assert [commit.subject for commit in found.commits] == [f"commit {FAULT}"]
    assert len(builds.built) <= 2 + 6
    assert builds.built[:2] == [0, COMMITS - 1]
    # The user's repository is as it was, and the clone is gone.
    assert (git(repository, "status", "--porcelain"), git(repository, "for-each-ref")) == before
    assert not (tmp_path / "tree").exists()


def test_it_resumes(repository: Path, tmp_path: Path, builds: Builds) -> None:
    def interrupted(number: int) -> bool:
        if len(builds.built) == 4:
            raise KeyboardInterrupt
        return False

    builds.broken = interrupted
    with pytest.raises(KeyboardInterrupt):
        search(repository, tmp_path, builds)
    builds.broken = lambda number: False
    before = list(builds.built)
    found = search(repository, tmp_path, builds)
    assert found.commits[0].subject == f"commit {FAULT}"
    assert not set(builds.built[len(before) :]) & set(before)
    # A third time, nothing is built.
    count = len(builds.built)
    assert search(repository, tmp_path, builds).commits == found.commits
    assert len(builds.built) == count


def test_commits_that_cannot_be_built_are_skipped(repository: Path, tmp_path: Path, builds: Builds) -> None:
    builds.broken = lambda number: FAULT - 2 <= number < FAULT
    found = search(repository, tmp_path, builds)
    assert {commit.subject for commit in found.commits} == {f"commit {FAULT - n}" for n in range(3)}
    assert {answer.word for _, answer in found.answers} == {"good", "bad", "skip"}


def test_a_question_that_does_not_tell_the_ends_apart(repository: Path, tmp_path: Path, builds: Builds) -> None:
    with pytest.raises(bisect.BisectError, match="which is to be bad, is good"):
        search(repository, tmp_path, builds, bad=f"v{FAULT - 1}")
    assert builds.built == [0, FAULT - 1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["v0", "v39", "x.pkt"], "is no git repository; give the folder of a kernel's tree"),
        (["v0", "v99", "x.pkt"], "v99 is no commit of"),
        (["v9", "v3", "x.pkt"], "v9 is no ancestor of v3; give the older commit first"),
        (["v0", "v39", "x.toml", "y.toml"], "FILE is one experiment"),
        (["v0", "v39", "x.pkt", "--fail-on", "share 5%"], "--fail-on is for an experiment"),
        (["v0", "v39", "x.toml"], "has no claim; write one, or give --fail-on"),
        (["v0", "v39", "x.toml", "--fail-on", "shar"], '"shar" is not a quantity and its limit'),
    ],
)
def test_mistakes(
    words: list[str], sentence: str, repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.toml"
    file.write_text(
        'duration = "1s"\n[link.l]\nrate = "10Mbit"\nqdisc = "pfifo"\n'
        '[[flow]]\nname = "a"\ncc = "cubic"\nrtt = "10ms"\n'
    )
    source = tmp_path if "no git repository" in sentence else repository
    named = [str(file) if word == "x.toml" else word for word in words]
    assert main(["bisect", *named, "--source", str(source), "--out", str(tmp_path / "out")]) == 2
    assert sentence in capsys.readouterr().err


def test_another_question_needs_another_folder(repository: Path, tmp_path: Path, builds: Builds) -> None:
    search(repository, tmp_path, builds)
    with pytest.raises(bisect.InputError, match="has the answers to another question"):
        search(repository, tmp_path, builds, good="v1")


def test_the_command_names_the_commit(
    repository: Path,
    tmp_path: Path,
    builds: Builds,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(bisect, "of_scripts", lambda *given: builds.ask)
    command = ["bisect", "v0", "v39", "x.pkt", "--source", str(repository), "--out", str(tmp_path)]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert f"is the first bad commit: commit {FAULT} (A, " in said
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["first_bad"][0]["subject"] == f"commit {FAULT}"
