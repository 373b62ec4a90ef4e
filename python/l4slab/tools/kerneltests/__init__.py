"""`l4slab linux test`: the kernel's own tests of its network, in virtual time.

A kind of test (packetdrill, kselftest, tc-testing) is a module that reads files into `KernelTest`s. `boots` runs them
on kernels, many in one boot. `tap` writes the results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["pass", "fail", "skip"]


@dataclass(frozen=True)
class Ended:
    """One repetition of a test: exit status, output, and the files that its script has written to $OUT."""

    status: int
    said: str
    kernel: str = ""  # what the kernel said meanwhile
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Judged:
    """The outcome of one repetition; `why` is empty where it passed."""

    status: Status
    why: str = ""


def by_status(ended: Ended) -> Judged:
    """The outcome of a program whose exit status is 0 if all is well, and 4 if it cannot be run here (kselftest)."""
    if ended.status == 0:
        return Judged("pass")
    last = (ended.said.strip() or "it said nothing").splitlines()[-1]
    return Judged("skip", last) if ended.status == _SKIP else Judged("fail", f"exit status {ended.status}: {last}")


_SKIP = 4


@dataclass(frozen=True)
class KernelTest:
    """A test of a file. `sh` runs `script` in a network namespace of its own; $OUT is a folder to write to.
    After `limit_s` of virtual time it is stopped. `skip`: why it cannot be run here.
    """

    group: str
    name: str
    script: str
    limit_s: float
    judge: Callable[[Ended], Judged] = by_status
    skip: str = ""


@dataclass(frozen=True)
class Result:
    """A test and its repetitions, in order."""

    test: KernelTest
    judged: Sequence[Judged]
    ended: Sequence[Ended | None]

    @property
    def status(self) -> Status:
        """One repetition that failed is a failure."""
        return next((one.status for one in self.judged if one.status == "fail"), self.judged[0].status)

    @property
    def passed(self) -> int:
        return sum(one.status == "pass" for one in self.judged)

    @property
    def why(self) -> str:
        """The reason of the first repetition that has this status."""
        return next(one.why for one in self.judged if one.status == self.status)

    def details(self) -> list[str]:
        """Of a failure: the last lines of the test and of the kernel."""
        if self.status != "fail":
            return []
        at = next(number for number, one in enumerate(self.judged) if one.status == "fail")
        lines = [self.why]
        if len(self.judged) > 1:
            lines.append(f"passed {self.passed} of {len(self.judged)} times")
        if (ended := self.ended[at]) is not None:
            for who, said in (("test", ended.said), ("kernel", ended.kernel)):
                lines += [f"{who}: {line}" for line in said.strip().splitlines()[-_LINES:]]
        return lines


_LINES = 10
