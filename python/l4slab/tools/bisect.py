"""`l4slab bisect`: the commit of a kernel's tree that changes the answer to a question.

git's own bisection chooses the commits, in a clone that shares the objects of the user's repository and leaves it as it
is. Each commit is built as the kernel NAME, whose tree is kept, so that a step compiles only what differs.

OUT/tree         the clone; removed when the commit is found
OUT/bisect.json  the question and the answers by commit, so that the same command resumes
OUT/COMMIT       results of an experiment on that commit, as `l4slab run` makes them
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from l4slab.base.errors import InputError, L4slabError, one_line
from l4slab.base.progress import Told
from l4slab.engines.linux import build, compiling
from l4slab.engines.linux.tools import BuildError, stamp, write_stamp

Word = Literal["good", "bad", "skip"]
_SHORT = 12


class BisectError(L4slabError):
    """There is no first bad commit; the sentence says why."""


@dataclass(frozen=True)
class Answer:
    """What a commit answers. `why`: the first reason, empty where it is good."""

    word: Word
    why: str = ""


@dataclass(frozen=True)
class Commit:
    """A commit of the tree."""

    id: str
    subject: str
    author: str
    date: str

    @property
    def short(self) -> str:
        return self.id[:_SHORT]


# A question to the kernel of this name; results may be kept in the folder.
Question = Callable[[str, Path], Answer]


@dataclass(frozen=True)
class Found:
    """The first bad commits: one, or several where those between them could not be built. `answers` in their order."""

    commits: Sequence[Commit]
    answers: Sequence[tuple[Commit, Answer]]


class Bisection:
    """A repository with the source of a kernel, and the ends of the search. Raises InputError."""

    def __init__(self, source: Path, good: str, bad: str, out: Path, name: str, about: str):
        self._source, self._out, self._name = source.absolute(), out.absolute(), name
        if shutil.which("git") is None:
            raise InputError("bisect needs git; install it with: sudo apt-get install git")
        if _git(self._source, "rev-parse", "--git-dir").returncode:
            raise InputError(f"{source} is no git repository; give the folder of a kernel's tree", key="--source")
        self.good, self.bad = self._commit(good, "GOOD"), self._commit(bad, "BAD")
        if _git(self._source, "merge-base", "--is-ancestor", self.good.id, self.bad.id).returncode:
            raise InputError(f"{good} is no ancestor of {bad}; give the older commit first")
        self._asked = {"good": self.good.id, "bad": self.bad.id, "about": about}

    def search(self, question: Question, told: Told, heard: Callable[[Commit, Answer], None]) -> Found:
        """Ask until the first bad commit is known. `heard` gets each answer. Raises BisectError and InputError."""
        answers = self._known()
        self._clone(told)
        order: list[tuple[Commit, Answer]] = []

        def ask(commit: Commit) -> Answer:
            if commit.id not in answers:
                answers[commit.id] = self._answer(commit, question, told)
                self._keep(answers)
            order.append((commit, answers[commit.id]))
            heard(*order[-1])
            return answers[commit.id]

        for end, wanted in ((self.good, "good"), (self.bad, "bad")):
            self._do("checkout", "--quiet", "--force", "--detach", end.id)
            if (answer := ask(end)).word != wanted:
                raise BisectError(_no_end(end, wanted, answer))
        # What a build has changed in the clone.
        self._do("reset", "--quiet", "--hard")
        self._do("bisect", "reset")
        said = self._do("bisect", "start", self.bad.id, self.good.id)
        while (first := _first_bad(said)) is None:
            current = self._commit("HEAD", "HEAD", self._tree)
            word = ask(current).word
            self._do("reset", "--quiet", "--hard")
            said = self._do("bisect", word)
        commits = [self._commit(one, "HEAD", self._tree) for one in first]
        shutil.rmtree(self._tree, ignore_errors=True)
        return Found(commits, order)

    @property
    def _tree(self) -> Path:
        return self._out / "tree"

    def _commit(self, name: str, key: str, tree: Path | None = None) -> Commit:
        done = _git(tree or self._source, "log", "-1", "--format=%H%n%s%n%an%n%as", f"{name}^{{commit}}", "--")
        if done.returncode:
            raise InputError(f"{name} is no commit of {self._source}; git log shows them", key=key)
        return Commit(*done.stdout.rstrip("\n").split("\n"))

    def _known(self) -> dict[str, Answer]:
        """The answers of an earlier call with the same question."""
        known = stamp(self._out / "bisect.json")
        if not known:
            return {}
        if known.get("asked") != self._asked:
            raise InputError("has the answers to another question; give another --out, or remove it", file=self._out)
        told = known.get("answers")
        return {commit: Answer(*one) for commit, one in told.items()} if isinstance(told, Mapping) else {}

    def _keep(self, answers: Mapping[str, Answer]) -> None:
        told = {commit: [one.word, one.why] for commit, one in answers.items()}
        write_stamp(self._out / "bisect.json", {"asked": self._asked, "answers": told})

    def _clone(self, told: Told) -> None:
        self._out.mkdir(parents=True, exist_ok=True)
        if not (self._tree / ".git").is_dir():
            told("cloning the tree", None)
            shutil.rmtree(self._tree, ignore_errors=True)
            done = _git(self._out, "clone", "--quiet", "--shared", "--no-checkout", str(self._source), "tree")
            if done.returncode:
                raise BisectError(f"{self._source} cannot be cloned: {one_line(done.stderr)}")

    def _answer(self, commit: Commit, question: Question, told: Told) -> Answer:
        try:
            # Before it is copied: else each step would change these files twice, and compile what includes them.
            compiling.patch(self._tree)
            build.build(told, wanted=build.Wanted(self._name, self._tree))
        except BuildError as error:
            return Answer("skip", f"it cannot be built: {error}")
        told(f"asking {commit.short}", None)
        return question(self._name, self._out / commit.short)

    def _do(self, *words: str) -> str:
        done = _git(self._tree, *words)
        # git bisect ends with 2 where only skipped commits are left.
        if done.returncode not in ((0, 2) if words[0] == "bisect" else (0,)):
            raise BisectError(f"git {words[0]} in {self._tree} says: {one_line(done.stderr or done.stdout)}")
        return done.stdout


def _first_bad(said: str) -> list[str] | None:
    """The commits that git names at the end; None before."""
    lines = said.splitlines()
    for line in lines:
        if line.endswith(" is the first bad commit"):
            return [line.split()[0]]
    if any("only 'skip'ped commits left" in line for line in lines):
        return [line for line in lines if len(line) >= 40 and set(line) <= set("0123456789abcdef")]
    return None


def _no_end(end: Commit, wanted: str, answer: Answer) -> str:
    why = f" ({answer.why})" if answer.why else ""
    if answer.word == "skip":
        return f"{end.short}, which is to be {wanted}, gives no answer{why}; give another commit"
    remedy = "the question does not tell the two apart; run it on both kernels first"
    return f"{end.short}, which is to be {wanted}, is {answer.word}{why}; {remedy}"


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run git without the user's hooks and in one language."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(  # noqa: S603
        ["git", "-C", str(folder), "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", *words],  # noqa: S607
        env=environment | {"LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )


def of_experiment(file: Path, fail_on: str | None, good: Path, workers: int | None) -> Question:
    """Bad: a claim has another verdict than the recorded one, a run fails, or a quantity has changed beyond `fail_on`
    from the results of the good end, which are in the folder `good`. Raises InputError.
    """
    from l4slab import experimentfile
    from l4slab.api import campaign
    from l4slab.engines.registry import KERNEL
    from l4slab.results import claims, regressions

    limits = regressions.limits(fail_on) if fail_on is not None else []
    experiment = experimentfile.load(file)
    if not limits and not experiment.tables(claims.Claim):
        raise InputError("has no claim; write one, or give --fail-on", file=file)

    def ask(kernel: str, out: Path) -> Answer:
        results = campaign.run([file], out, f"{KERNEL}:{kernel}", workers, report=False)
        if results.failures:
            return Answer("bad", f"a run failed: {one_line(results.failures[0][1])}")
        changed = claims.changed(results.claims)
        if changed.height:
            return Answer("bad", f"claim {changed['id'][0]} {changed['verdict'][0]}")
        judged = regressions.judge(good, out, limits) if limits and out != good else []
        worse = next((one for one in judged if one.fails), None)
        if worse is not None:
            change = worse.change
            return Answer(
                "bad", f"{change.place} {change.quantity} {change.mean_before:.4g} -> {change.mean_after:.4g}"
            )
        return Answer("good")

    return ask


def of_scripts(names: Sequence[str], packetdrill: Path | None, told: Told, limit_s: float) -> Question:
    """Bad: a test of these files fails."""
    from l4slab.base import system
    from l4slab.tools.kerneltests import boots
    from l4slab.tools.kerneltests.collecting import collect

    def ask(kernel: str, out: Path) -> Answer:  # noqa: ARG001
        results = list(boots.run(collect(names, kernel, packetdrill, told), kernel, 1, system.cores(), limit_s))
        failed = [one for one in results if one.status == "fail"]
        if failed:
            return Answer("bad", f"{failed[0].test.name}: {failed[0].why}")
        if all(one.status == "skip" for one in results):
            return Answer("skip", results[0].why)
        return Answer("good")

    return ask


def as_json(found: Found) -> dict[str, object]:
    """The document of --json."""
    return {
        "first_bad": [vars(commit) for commit in found.commits],
        "answers": [{"commit": commit.id, "answer": one.word, "why": one.why} for commit, one in found.answers],
    }
